// trf train --init-from: takes vocabularies, architecture and weights of another model. See
// training.h.

#include "training.h"

/* Copies a vocabulary of the model. joint: for both sides. */
static int inherit_vocabulary(struct training *t, const trf_data_lines *lines, int side)
{
    const trf_vocab *old = trf_model_vocab(t->from, side ? TRF_TARGET : TRF_SOURCE);
    const char *path = t->s->train.init_from ? t->s->train.init_from : t->s->train.vocab_from;
    struct vocabularies *v = &t->vocabularies;
    trf_error err;
    if (!old) return DONE;
    if (trf_vocab_copy(&v->of[side], old, NULL, &err)) {
        say_error("vocabulary", &err);
        return FAILED;
    }
    if (trf_vocab_kind(old) == TRF_SENTENCEPIECE && t->s->train.subword_samples > 1 &&
        stored_subwords(t->s, v, side, path)) return FAILED;
    if (t->joint) {
        v->of[1] = v->of[0];
        v->pieces[1] = v->pieces[0];
        v->pieces_bytes[1] = v->pieces_bytes[0];
    }
    return t->s->train.extend_vocabulary
               ? extend_vocabulary(t->s, lines, side, side || t->joint, v->of[side])
               : DONE;
}

/* Takes the architecture of the model. A stack that it lacks gets as many layers as the other one;
   the end mark of targets is that of the options if the model is a language model. */
static int take_architecture(struct training *t)
{
    struct settings *s = t->s;
    const trf_config *old = trf_model_config(t->from);
    trf_config own = s->config;
    s->config = *old;
    s->config.seed = own.seed;
    s->config.hooks = own.hooks;
    if (old->encoder_layers == 0) s->config.encoder_layers = old->decoder_layers;
    if (old->decoder_layers == 0) s->config.decoder_layers = old->encoder_layers;
    if (old->kind == TRF_DECODER_ONLY) s->config.target_eos = own.target_eos;
    s->config.bare_prompts = 0;         /* training reads the start id before every text */
    if (!is_given(s, AT(pooling))) s->pooling = old->head == TRF_HEAD_FIRST;
    return set_given_architecture(s);
}

static int check_kinds(const struct training *t)
{
    trf_kind from = trf_model_config(t->from)->kind, to = kind_of_model(t->s);
    if (from == to || from == TRF_ENCODER_DECODER || to == TRF_ENCODER_DECODER) return DONE;
    say("no parameter of %s fits: an encoder-only and a decoder-only model have none in common",
        t->s->train.init_from);
    return FAILED;
}

/* Whether both sides of the model have the same tokens. */
static int has_one_vocabulary(const struct training *t)
{
    const trf_vocab *source = trf_model_vocab(t->from, TRF_SOURCE),
                    *target = trf_model_vocab(t->from, TRF_TARGET);
    return source && target && same_tokens(source, target);
}

/* The architecture of --init-from. */
static int begin_from(struct training *t)
{
    struct settings *s = t->s;
    int status;
    if (check_floats(s->train.init_from, t->from) || check_kinds(t)) return FAILED;
    if ((status = take_architecture(t))) return status;
    t->joint = shares_embedding(&s->config) && s->objective == OBJECTIVE_TRANSLATE;
    if (!t->joint || !trf_model_vocab(t->from, TRF_TARGET) || has_one_vocabulary(t))
        return take_languages(t, t->from);
    say("--tying %s needs one vocabulary for both sides, but %s has %s",
        s->config.tying == TRF_TIED_ALL ? "all" : "embeddings", s->train.init_from,
        trf_model_vocab(t->from, TRF_SOURCE) ? "two" : "only that of the target");
    return FAILED;
}

/* What a configuration says of the special ids that a vocabulary has. */
static void take_special_ids(trf_config *to, const trf_config *from)
{
    to->pad = from->pad;
    to->bos = from->bos;
    to->eos = from->eos;
    to->unk = from->unk;
    to->decoder_start = from->decoder_start;
    to->source_bos = from->source_bos;
    to->source_eos = from->source_eos;
}

/* The model of --vocab-from gives its vocabularies and special ids, and nothing else. */
int load_from(struct training *t)
{
    struct settings *s = t->s;
    const char *path = s->train.init_from ? s->train.init_from : s->train.vocab_from;
    trf_load_options load = load_options(s);
    trf_error err;
    if (!path) return DONE;
    if (trf_model_load(&t->from, path, &load, &err)) {
        load_refused(path, &err);
        return FAILED;
    }
    if (s->train.init_from) return begin_from(t);
    t->joint = s->objective == OBJECTIVE_TRANSLATE && has_one_vocabulary(t);
    take_special_ids(&s->config, trf_model_config(t->from));
    return DONE;
}

int inherit_vocabularies(struct training *t, const trf_data_lines *lines)
{
    struct settings *s = t->s;
    const trf_vocab *const *vocab = (const trf_vocab *const *)t->vocabularies.of;
    const char *path = s->train.init_from ? s->train.init_from : s->train.vocab_from;
    int side;
    if (!t->from) return DONE;
    for (side = 0; side < 2 - t->joint; side++)
        if (reads_side(s, side) && inherit_vocabulary(t, lines, side)) return FAILED;
    for (side = 0; side < 2 && !s->train.init_from; side++)
        if (reads_side(s, side) && !vocab[side]) {
            say("--%s '%s': it has no %s vocabulary",
                is_given(s, AT(train.vocab_from)) ? "vocab-from" : "teacher", path,
                side ? "target" : "source");
            return FAILED;
        }
    if (check_inherited(s, vocab)) return USAGE;
    if (check_tokens(s, vocab, path)) return FAILED;
    s->train.joint_vocabulary = t->joint;
    if (s->train.init_from) return DONE;
    trf_model_destroy(t->from);
    t->from = NULL;
    return DONE;
}

/* The rows of a masked head belong to tokens. */
static int has_rows_of_labels(const struct training *t, const char *name)
{
    if (!strcmp(name, "sequence.weight") || !strcmp(name, "sequence.bias")) return 1;
    return trf_model_config(t->run.model)->head != TRF_HEAD_MASKED &&
           trf_model_config(t->from)->head != TRF_HEAD_MASKED &&
           (!strcmp(name, "head.weight") || !strcmp(name, "head.bias"));
}

/* Whether the rows of a parameter belong to the same labels or tokens in both models, in the same
   order. */
static int rows_agree(const struct training *t, const char *name)
{
    const trf_vocab *old[2] = {trf_model_vocab(t->from, TRF_SOURCE), trf_model_vocab(t->from, TRF_TARGET)};
    const trf_config *from = trf_model_config(t->from), *to = trf_model_config(t->run.model);
    const char *labels[2] = {trf_model_metadata(t->from, "labels"),
                             trf_model_metadata(t->run.model, "labels")};
    if (!strncmp(name, "head.layer.", 11) || !strncmp(name, "head.norm.", 10))
        return from->head == to->head || (to->head == TRF_HEAD_FIRST && from->sequence_labels);
    if (has_rows_of_labels(t, name) && (from->label_kind == TRF_LABELS_NUMBERS) !=
                                           (to->label_kind == TRF_LABELS_NUMBERS))
        return 0;
    if (has_rows_of_labels(t, name))
        return !labels[0] || !labels[1] || !strcmp(labels[0], labels[1]);
    if (strncmp(name, "tgt_embed.", 10) && strncmp(name, "generator.", 10)) return 1;
    return t->s->objective != OBJECTIVE_SPAN || !old[1] || same_tokens(old[0], old[1]);
}

/* Copies the rows of labels that both models have. */
static int copy_rows_of_labels(const struct training *t, const struct labels *old, trf_tensor w,
                               trf_real *to)
{
    int32_t at = trf_model_parameter_index(t->from, w.name), i, k;
    size_t n, each = (size_t)trf_tensor_count(&w) / (size_t)t->plan.n_labels;
    trf_tensor theirs;
    trf_real *numbers;
    trf_error err;
    if (at < 0) return DONE;            /* the other model has another head */
    theirs = trf_model_parameter(t->from, at);
    n = (size_t)trf_tensor_count(&theirs);
    numbers = malloc(n * sizeof *numbers);
    if (!numbers || trf_tensor_read(&theirs, numbers, (int64_t)n, &err)) {
        free(numbers);
        return FAILED;
    }
    for (i = 0; i < t->labels.n && each * (size_t)old->n == n; i++)
        if ((k = label_number(old, t->labels.name[i], strlen(t->labels.name[i]))) >= 0)
            memcpy(to + (size_t)i * each, numbers + (size_t)k * each, each * sizeof *to);
    free(numbers);
    return DONE;
}

/* Parameters with other rows stay new, except for labels that both models have. *copied: parameters
   copied. */
static int copy_weights(struct training *t, int32_t *copied)
{
    int32_t i, n = trf_model_parameter_count(t->run.model);
    trf_real **fresh = calloc((size_t)n, sizeof *fresh);
    struct labels old = {NULL, 0, 0};
    trf_error err;
    int status =
        !fresh || (t->labels.n && load_labels(t->from, t->s->train.init_from, &old)) ? FAILED
            : DONE;
    for (i = 0; i < n && !status; i++) {
        trf_tensor w = trf_model_parameter(t->run.model, i);
        size_t count = (size_t)trf_tensor_count(&w);
        if (rows_agree(t, w.name)) continue;
        fresh[i] = malloc(count * sizeof **fresh);
        status = !fresh[i] || trf_tensor_read(&w, fresh[i], (int64_t)count, &err) ||
                         (has_rows_of_labels(t, w.name) &&
                          copy_rows_of_labels(t, &old, w, fresh[i]))
                     ? FAILED
                     : DONE;
    }
    free_labels(&old);
    if (status) say("%s: weights cannot be read", t->s->train.init_from);
    if (!status && trf_model_copy_weights(t->run.model, t->from, copied, &err)) {
        say_error(t->s->train.init_from, &err);
        status = FAILED;
    }
    for (i = 0; i < n && fresh; i++) {
        trf_tensor w = trf_model_parameter(t->run.model, i);
        if (!fresh[i]) continue;
        if (!status && trf_tensor_write(&w, fresh[i], trf_tensor_count(&w), &err)) {
            say_error("weights", &err);
            status = FAILED;
        }
        if (trf_model_parameter_index(t->from, w.name) >= 0) --*copied;
        free(fresh[i]);
    }
    free(fresh);
    return status;
}

int take_weights(struct training *t)
{
    int32_t copied = 0;
    if (copy_weights(t, &copied)) return FAILED;
    if (copied == 0) {
        say("no parameter of %s fits", t->s->train.init_from);
        return FAILED;
    }
    inform_line("%d of %d tensors %s from %s", (int)copied,
         (int)trf_model_parameter_count(t->run.model), copied == 1 ? "comes" : "come",
         t->s->train.init_from);
    trf_model_destroy(t->from);
    t->from = NULL;
    return DONE;
}
