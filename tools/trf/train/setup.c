// trf train: what a new and a resumed run have in common. See training.h.

#include "training.h"

int take_languages(struct training *t, const trf_model *model)
{
    struct settings *s = t->s;
    const trf_vocab *const vocab[2] = {trf_model_vocab(model, TRF_SOURCE),
                                       trf_model_vocab(model, TRF_TARGET)};
    int status = read_fixed_tags(s, model, vocab);
    s->training.source_tagged = s->search.source_tagged;
    return status;
}

/* The limits of a batch, or of its parts, follow from the corpus. Memory is planned by them, and
   grows if they are exceeded. */
void set_limits(const struct settings *s, int32_t longest, trf_train_options *training)
{
    int32_t tokens = s->corpus.batch_tokens > longest + 1 ? s->corpus.batch_tokens : longest + 1;
    if (training->parts > 1 && tokens / training->parts + longest + 1 < tokens)
        tokens = tokens / training->parts + longest + 1;    /* a part ends with a whole sequence */
    training->source_tokens = training->target_tokens = tokens;
    training->sequences = s->corpus.batch_sentences < tokens ? s->corpus.batch_sentences : tokens;
    training->longest = longest + 1;
}

static int32_t count_frozen(const struct run *r)
{
    int32_t frozen;
    return trf_trainer_freeze(r->trainer, "*", -1, &frozen, NULL) ? 0 : frozen;
}

/* The patterns of this command line replace those of an earlier one; '' matches nothing. Without a
   pattern, parameters stay frozen as in the checkpoint. */
static int freeze(struct run *r)
{
    const struct texts *patterns = &r->s->train.freeze;
    int32_t frozen = count_frozen(r), n = trf_model_parameter_count(r->model);
    trf_error err;
    int k;
    if (!patterns->n && frozen)
        inform("frozen: %d of %d tensors, as in the checkpoint (--freeze '' freezes none)\n",
               (int)frozen, (int)n);
    if (!patterns->n) return DONE;
    if (frozen && trf_trainer_freeze(r->trainer, "*", 0, NULL, &err))
        return refused("--freeze", &err);
    for (k = 0; k < patterns->n; k++)
        if (*patterns->item[k] && trf_trainer_freeze(r->trainer, patterns->item[k], 1, NULL, &err))
            return refused("--freeze", &err);
    frozen = count_frozen(r);
    if (frozen == n)
        say("warning: --freeze matches all %d tensors: nothing will be learned", (int)n);
    else inform("frozen: %d of %d tensors\n", (int)frozen, (int)n);
    return DONE;
}

void note_data(struct training *t, const trf_vocab *const vocab[2])
{
    struct plan *plan = &t->plan;
    const trf_batch *held = trf_dataset_results(t->data.set)->held_out;
    int side;
    plan->facts = trf_dataset_results(t->data.set)->facts;
    plan->longest = t->data.longest;
    plan->n_labels = trf_dataset_results(t->data.set)->recipe->config.n_labels;
    plan->validates = held != NULL;
    if (held) t->run.validator.held = *held;
    t->run.validator.set = t->data.set;
    for (side = 0; side < 2; side++)
        plan->vocab_size[side] = vocab[side] ? trf_vocab_size(vocab[side]) : 0;
}

int make_run(struct training *t)
{
    struct validator *v = &t->run.validator;
    int status;
    v->model = t->run.model;
    v->trainer = t->run.trainer;
    v->n_labels = t->plan.n_labels;
    t->run.corpus = trf_dataset_results(t->data.set)->corpus;
    t->run.batches = t->plan.batches;
    t->run.state.cosine_follows = t->plan.cosine_follows;
    t->run.state.fit = t->plan.fit;
    t->s->search.ban_unk = never_writes_unk(t->run.model);
    status = freeze(&t->run);
    return status ? status : set_teachers(t);
}
