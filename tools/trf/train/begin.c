// trf train: makes a new model from the data. See training.h.

#include "training.h"
#include "measure.h"
#include "mpi.h"

/* A model without unknown tokens among its targets need not write any: see trf translate
   --allow-unk. */
static int store_unknown(struct training *t, int64_t unknown)
{
    const char *before = t->from ? trf_model_metadata(t->from, "target.unknown") : "0";
    char text[24];
    if (!before || learns_labels(t->s) || hides_words(t->s)) return DONE;
    snprintf(text, sizeof text, "%lld", (long long)unknown + strtoll(before, NULL, 10));
    return note(t->run.model, "target.unknown", text);
}

/* No answer is cut that is as long as a target of this or an earlier training. */
static void set_longest(struct training *t)
{
    const trf_token_facts *f = &trf_dataset_results(t->data.set)->facts;
    const trf_config *before = t->from ? trf_model_config(t->from) : NULL;
    trf_config *c = &t->s->config;
    c->trained_source = f->longest_source;
    c->trained_target = f->longest_target;
    if (!before) return;
    if (c->trained_source < before->trained_source) c->trained_source = before->trained_source;
    if (c->trained_target < before->trained_target) c->trained_target = before->trained_target;
}

/* A model of characters that has never seen a blank before a source does not know what it means. */
static int store_blanks(struct training *t)
{
    const char *before = t->from ? trf_model_metadata(t->from, "source.outer_blanks") : "none";
    if (!before) return DONE;
    return note(t->run.model, "source.outer_blanks",
                trf_dataset_results(t->data.set)->facts.outer_blanks ? "some" : before);
}

/* Target tokens for a thousand source tokens: what an answer is compared with. */
static int store_ratio(struct training *t)
{
    const trf_token_facts *f = &trf_dataset_results(t->data.set)->facts;
    char text[24];
    if (t->s->objective != OBJECTIVE_TRANSLATE || !f->source_ids) return DONE;
    snprintf(text, sizeof text, "%lld",
             (long long)(1000.0 * (double)f->target_ids / (double)f->source_ids));
    return note(t->run.model, "trained.ratio", text);
}

/* The tokens of the longest text: the model is not trained on positions beyond. */
static int store_longest(struct training *t)
{
    const char *before = t->from ? trf_model_metadata(t->from, "trained.longest") : NULL;
    char text[24];
    long long longest = before ? strtoll(before, NULL, 10) : 0;
    if (t->from && !before) return DONE;        /* the earlier maximum is unknown */
    if (longest < t->data.longest) longest = t->data.longest;
    snprintf(text, sizeof text, "%lld", longest);
    return note(t->run.model, "trained.longest", text);
}

/* Makes the vocabularies from the lines of the data. */
static int make(void *user, const trf_data_lines *lines, trf_vocab *vocab[2])
{
    struct training *t = (struct training *)user;
    struct settings *s = t->s;
    struct vocabularies *v = &t->vocabularies;
    int status = inherit_vocabularies(t, lines);
    if (!status) status = make_vocabularies(s, v, lines, &t->plan);
    vocab[0] = v->of[0];
    vocab[1] = v->of[1];
    if (!status) settle_metric(s, v->of[1], lines);
    return status;
}

/* Reads and encodes the data. */
static int encode(struct training *t)
{
    struct settings *s = t->s;
    const trf_vocab *const *vocab = (const trf_vocab *const *)t->vocabularies.of;
    trf_dataset_options o;
    int status = load_from(t);
    if (!status) status = check_label_metric(s);
    if (!status) status = settle_chunk(s);
    if (status) return status;
    t->data.make = make;
    o = data_options(&t->data);
    if ((status = read_data(&t->data, &o))) return status;
    split_labels(&t->labels, trf_dataset_results(t->data.set)->labels);
    if (s->train.subword_samples > 1 && check_samples(s, vocab)) return USAGE;
    if (s->train.subword_samples > 1 && add_samples(&t->data, &t->vocabularies, vocab))
        return FAILED;
    if (learns_from_text(s)) warn_of_line_ends(s, vocab[leading_side(s)]);
    warn_of_unknown(s, &t->data, vocab);
    warn_of_changed(s, &t->data);
    note_data(t, vocab);
    return DONE;
}

/* The recipe chooses the model, then the batches, and then, as it knows how many there are, the
   schedule. */
static int decide(struct training *t)
{
    struct settings *s = t->s;
    int status = decide_model(s, &t->plan);
    if (status) return status;
    set_kind(s);
    if ((status = decide_batches(s, &t->plan)) || (status = check_parts(s))) return status;
    if (set_corpus(s, &t->data, (const trf_vocab *const *)t->vocabularies.of, &t->plan))
        return FAILED;
    return decide_schedule(s, &t->plan);
}

/* trf export prefers the architecture from which a model was imported, also after training. Texts
   end as that model's do. */
static int store_origin(struct training *t)
{
    const char *const keys[] = {origin_key, ends_key};
    trf_error err;
    int i;
    for (i = 0; i < 2; i++)
        if (trf_model_set_metadata(t->run.model, keys[i], trf_model_metadata(t->from, keys[i]),
                                   &err)) {
            say_error("metadata", &err);
            return FAILED;
        }
    return DONE;
}

static int make_model(struct training *t, int64_t unknown)
{
    struct settings *s = t->s;
    trf_error err;
    s->config.source_vocab = t->plan.vocab_size[0];
    s->config.target_vocab = t->plan.vocab_size[1];
    set_longest(t);
    if (s->objective == OBJECTIVE_PRETRAIN) s->config.sequence_labels = t->plan.n_labels;
    else s->config.n_labels = t->plan.n_labels;
    /* a vocabulary with a mask of its own gives it to a new head */
    if (s->config.head == TRF_HEAD_MASKED && s->config.mask < 0 &&
        !(t->from && trf_model_config(t->from)->head == TRF_HEAD_MASKED))
        s->config.mask = trf_vocab_special(t->vocabularies.of[0], TRF_SPECIAL_MASK);
    if (trf_model_create(&t->run.model, &s->config, NULL, &err) ||
        trf_model_set_vocabs(t->run.model, t->vocabularies.of[0], t->vocabularies.of[1], &err))
        return refused("model", &err);
    return store_labels(t->run.model, &t->labels) || store_longest(t) ||
                   store_ratio(t) || store_blanks(t) ||
                   note_symbols(&t->vocabularies, t->from, t->run.model) ||
                   (trf_dataset_results(t->data.set)->stream && note(t->run.model, stream_key, "1")) ||
                   store_unknown(t, unknown) ||
                   (t->from && store_origin(t)) ||
                   (t->from && s->objective == OBJECTIVE_TRANSLATE &&
                    store_languages(t->run.model, t->from, s)) ||
                   (s->train.init_from && take_weights(t))
               ? FAILED
               : DONE;
}

int begin_training(struct training *t)
{
    struct settings *s = t->s;
    struct run *r = &t->run;
    int64_t unknown;
    trf_error err;
    int status = encode(t);
    if (status) return status;
    unknown = count_unknown_targets(s, &t->data);
    if ((status = decide(t)) || (status = make_model(t, unknown))) return status;
    if ((status = make_noise(s, trf_model_vocab(r->model, TRF_SOURCE), &r->noise, &r->validator.noise)))
        return status;
    set_limits(s, t->data.longest, &s->training);
    if (trf_trainer_create(&r->trainer, r->model, &s->training, &err))
        return refused("trainer", &err);
    r->learning = trf_trainer_learn_state(r->trainer);
    r->state.picks = TRF_HOLD_OUT_UNSEEN;
    r->state.held_out = held_out_hash(s, &t->data);
    return make_run(t);
}
