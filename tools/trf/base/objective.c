// trf train: what follows from --objective: kind of model, options, hidden tokens. See objective.h.

#include "objective.h"

int learns_from_text(const struct settings *s)
{
    return s->objective == OBJECTIVE_CAUSAL || s->objective == OBJECTIVE_MASK ||
           s->objective == OBJECTIVE_SPAN;
}

int learns_labels(const struct settings *s)
{
    return s->objective == OBJECTIVE_CLASSIFY || s->objective == OBJECTIVE_TAG ||
           s->objective == OBJECTIVE_PRETRAIN;
}

int hides_words(const struct settings *s)
{
    return s->objective == OBJECTIVE_MASK || s->objective == OBJECTIVE_PRETRAIN;
}

int reads_side(const struct settings *s, int side)
{
    return s->objective == OBJECTIVE_TRANSLATE || side == (s->objective == OBJECTIVE_CAUSAL);
}

int leading_side(const struct settings *s)
{
    return s->objective == OBJECTIVE_TRANSLATE || s->objective == OBJECTIVE_CAUSAL;
}

int is_scored_by_labels(const struct settings *s) { return learns_labels(s) && !hides_words(s); }

static int has_decoder(const struct settings *s) { return !learns_labels(s) && !hides_words(s); }

trf_kind kind_of_model(const struct settings *s)
{
    return !reads_side(s, 0) ? TRF_DECODER_ONLY
           : has_decoder(s)  ? TRF_ENCODER_DECODER
                             : TRF_ENCODER_ONLY;
}

trf_head head_of_model(const struct settings *s)
{
    return has_decoder(s)                  ? TRF_HEAD_NONE
           : hides_words(s)                ? TRF_HEAD_MASKED
           : s->objective == OBJECTIVE_TAG ? TRF_HEAD_TOKENS
           : s->pooling                    ? TRF_HEAD_FIRST
                                           : TRF_HEAD_MEAN;
}

void set_kind(struct settings *s)
{
    trf_config *c = &s->config;
    trf_head before = c->head;
    c->kind = kind_of_model(s);
    c->head = head_of_model(s);
    /* the layer of another head is another layer */
    if (c->head != before && !is_given(s, AT(config.head_layer)) && !s->inspect.shape)
        c->head_layer = 0;
    if (c->head != before) c->mask = -1;
    if (s->objective != OBJECTIVE_PRETRAIN) c->sequence_labels = 0;
    if (s->objective != OBJECTIVE_CLASSIFY) c->label_kind = TRF_LABELS_ONE_OF;
    if (s->objective == OBJECTIVE_CAUSAL) c->target_eos = 0;        /* documents have their own */
    if (!reads_side(s, 0) && !is_given(s, AT(config.encoder_layers))) c->encoder_layers = 0;
    if (!has_decoder(s) && !is_given(s, AT(config.decoder_layers))) c->decoder_layers = 0;
    if (c->kind == TRF_ENCODER_DECODER || is_given(s, AT(config.tying))) return;
    if (!has_decoder(s)) c->tying = TRF_UNTIED;
    else if (c->tying == TRF_TIED_ALL) c->tying = TRF_TIED_DECODER;
}

// -----------------------------------------------------------------------------------------------
// >>options        that have no effect
// -----------------------------------------------------------------------------------------------

struct unfit { size_t field; const char *why; int wrong; };

static int check_unfit(const struct settings *s, const struct unfit *of, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const char *given = text_given(s, of[i].field);
        if (!given || !strcmp(given, "auto") || !of[i].wrong) continue;
        say("--%s %s", option_name(of[i].field), of[i].why);
        return USAGE;
    }
    return DONE;
}

static int is_whole(int tokens) { return tokens == TOKENS_WORDS || tokens == TOKENS_CHARACTERS; }

/* Refuses options that have no effect together with another option, or without one. */
int check_combinations(const struct settings *s)
{
    static const char kind[] =
        "is not for a SentencePiece model, which has its own tokens";
    static const char sized[] = "is not for a SentencePiece model, which has a fixed size";
    int validated_on = s->train.valid_source || s->train.valid_tsv || s->train.valid_text;
    int unseen = !validated_on && is_given(s, AT(train.valid_size)) && s->train.valid_size == 0;
    int file[2] = {s->train.source_sentencepiece != NULL, s->train.target_sentencepiece != NULL};
    int both = (file[0] || !reads_side(s, 0)) && (file[1] || !reads_side(s, 1));
    int noam = s->training.schedule == TRF_NOAM &&
               (is_given(s, AT(training.schedule)) || s->train.recipe == RECIPE_PAPER);
    const struct unfit of[] = {
        {AT(train.size), "is not for --init-from: the sizes are those of that model",
         s->train.init_from != NULL},
        {AT(train.tokens), kind, both &&
         (is_whole(s->train.source_tokens) || is_whole(s->train.target_tokens))},
        {AT(train.source_tokens), kind, file[0] && is_whole(s->train.source_tokens)},
        {AT(train.target_tokens), kind, file[1] && is_whole(s->train.target_tokens)},
        {AT(train.normalization), "is not for a SentencePiece model, which has a rule of its own",
         both},
        {AT(train.vocab_size), sized, both},
        {AT(train.source_vocab_size), sized, file[0]},
        {AT(train.target_vocab_size), sized, file[1]},
        {AT(train.subword_alpha), "is for --subword-samples", s->train.subword_samples < 2},
        {AT(train.average_of), "is for --average", s->train.average < 2},
        {AT(training.total_steps), "is for --schedule cosine", s->training.schedule != TRF_COSINE},
        {AT(training.final_rate), "is for --schedule cosine and --cooldown",
         s->training.schedule != TRF_COSINE && !(s->train.cooldown > 0)},
        {AT(train.cooldown), "is not for --schedule cosine, whose rate falls anyway",
         s->training.schedule == TRF_COSINE && s->train.cooldown > 0},
        {AT(train.teacher_share), "needs --teacher", !s->train.teachers.n && !s->resume},
        {AT(training.initial_rate), "is not for --schedule noam, which rises from 0", noam},
        {AT(train.valid_beam), "is for translations, which --metric loss does not need",
         s->train.metric == METRIC_LOSS},
        {AT(train.patience), "needs validation pairs, but there are none",
         unseen && s->train.patience > 0},
        {AT(train.metric), "needs validation pairs, but there are none",
         unseen && s->train.metric != METRIC_AUTO && s->train.metric != METRIC_LOSS},
        {AT(train.valid_every), "needs validation pairs, or --keep-models or --average",
         unseen && !s->train.keep_models && s->train.average < 2},
        {AT(train.valid_size), "holds out training pairs, but validation pairs are given",
         validated_on && s->train.valid_size > 0}};
    return check_unfit(s, of, sizeof of / sizeof *of);
}

/* The same for --init-from, as soon as the vocabularies of that model are known. */
int check_inherited(const struct settings *s, const trf_vocab *const vocab[2])
{
    static const char theirs[] = "is not for --init-from: the vocabulary is that of the model";
    static const char grown[] = "is not for --init-from without --extend-vocabulary";
    static const char shared[] =
        "is not for --init-from: the model sets the number of vocabularies";
    int has[2] = {!reads_side(s, 0) || vocab[0], !reads_side(s, 1) || vocab[1]},
        still = !s->train.extend_vocabulary;
    const struct unfit of[] = {
        {AT(train.sentencepiece), theirs, has[0] && has[1]},
        {AT(train.source_sentencepiece), theirs, has[0]},
        {AT(train.target_sentencepiece), theirs, has[1]},
        {AT(train.joint_vocabulary), shared,
         s->train.joint_vocabulary != (vocab[0] && vocab[1] && same_tokens(vocab[0], vocab[1]))},
        {AT(train.normalization), theirs, has[0] && has[1]},
        {AT(train.min_count), grown, has[0] && has[1] && still},
        {AT(train.vocab_size), grown, has[0] && has[1] && still},
        {AT(train.source_vocab_size), grown, has[0] && still},
        {AT(train.target_vocab_size), grown, has[1] && still}
    };
    return check_unfit(s, of, sizeof of / sizeof *of);
}

/* Refuses options that have no effect on this objective: users would believe that they work. */
int check_effects(const struct settings *s)
{
    enum {
        TRANSLATES = 1 << OBJECTIVE_TRANSLATE,
        GOES_ON = 1 << OBJECTIVE_CAUSAL,
        CLASSIFIES = 1 << OBJECTIVE_CLASSIFY,
        TAGS = 1 << OBJECTIVE_TAG,
        MASKS = 1 << OBJECTIVE_MASK,
        SPANS = 1 << OBJECTIVE_SPAN,
        PRETRAINS = 1 << OBJECTIVE_PRETRAIN,
        TEXTS_ALONE = GOES_ON | MASKS | SPANS,
        HIDES = MASKS | PRETRAINS,
        ENCODES = TRANSLATES | CLASSIFIES | TAGS | HIDES | SPANS,
        DECODES = TRANSLATES | GOES_ON | SPANS
    };
    static const struct { size_t field; int objectives;
    } of[] = {{AT(train.documents), TEXTS_ALONE},
              {AT(train.pack), TEXTS_ALONE},
              {AT(train.chunk), TEXTS_ALONE},
              {AT(train.keep_empty), TRANSLATES},
              {AT(train.source_tokens), ENCODES},
              {AT(train.source_sentencepiece), ENCODES},
              {AT(train.source_vocab_size), ENCODES},
              {AT(train.target_tokens), TRANSLATES | GOES_ON},
              {AT(train.target_sentencepiece), TRANSLATES | GOES_ON},
              {AT(train.target_vocab_size), TRANSLATES | GOES_ON},
              {AT(train.joint_vocabulary), TRANSLATES},
              {AT(train.subword_samples), TRANSLATES},
              {AT(train.subword_alpha), TRANSLATES},
              {AT(train.valid_beam), TRANSLATES},
              {AT(config.tying), DECODES},
              {AT(config.source_bos), ENCODES},
              {AT(config.source_eos), ENCODES},
              {AT(config.target_eos), TRANSLATES | SPANS},
              {AT(pooling), CLASSIFIES},
              {AT(config.label_kind), CLASSIFIES},
              {AT(train.next_sentences), CLASSIFIES | PRETRAINS},
              {AT(config.segments), ENCODES},
              {AT(config.head_layer), CLASSIFIES | HIDES},
              {AT(noise.density), HIDES | SPANS},
              {AT(noise.masked), HIDES},
              {AT(noise.randomised), HIDES},
              {AT(noise.whole_words), HIDES},
              {AT(noise.mean_span), SPANS}};
    static const char *const names[] = {"translate", "causal", "classify", "tag", "mask",
                                        "span", "pretrain"};
    size_t i;
    for (i = 0; i < sizeof of / sizeof *of; i++) {
        if (!is_given(s, of[i].field) || of[i].objectives >> s->objective & 1) continue;
        say("--%s has no effect on --objective %s", option_name(of[i].field), names[s->objective]);
        return USAGE;
    }
    if (s->train.joint_vocabulary == 0 && is_given(s, AT(train.joint_vocabulary)) &&
        shares_embedding(&s->config) && is_given(s, AT(config.tying))) {
        say("--tying %s needs one vocabulary for both sides, but --joint-vocabulary no makes two",
            s->config.tying == TRF_TIED_ALL ? "all" : "embeddings");
        return USAGE;
    }
    if (is_given(s, AT(train.pack)) && s->train.documents == DOCUMENTS_FILE) {
        say("--pack has no effect on --documents file, which is one document");
        return USAGE;
    }
    if (s->train.extend_vocabulary && !s->train.init_from) {
        say("--extend-vocabulary is for --init-from");
        return USAGE;
    }
    if ((s->source_language || s->target_language) && !s->train.init_from && !s->resume &&
        !strcmp(program, "trf train")) {
        say("--%s-language is for --init-from", s->source_language ? "source" : "target");
        return USAGE;
    }
    return s->resume ? DONE : check_combinations(s);
}

/* The most tokens of a chunk on either side: the library adds a begin or an end mark to them, and
   both to some sources. */
static int32_t longest_chunk(const trf_config *c)
{
    int32_t source = source_limit(c);
    return source < c->max_length ? source : c->max_length - 1;
}

int check_chunk(const struct settings *s)
{
    int32_t most = longest_chunk(&s->config), added = s->config.max_length - most;
    if (!learns_from_text(s) || (most >= 2 && !is_given(s, AT(train.chunk)))) return DONE;
    if (s->train.chunk >= 2 && s->train.chunk <= most) return DONE;
    if (most < 2) {
        say("--max-length must be %d or more for a text, got %d", (int)added + 2,
            (int)s->config.max_length);
        return USAGE;
    }
    say("--chunk takes 2 to %d tokens (--max-length minus %d), got %d", (int)most, (int)added,
        (int)s->train.chunk);
    return USAGE;
}

/* The longest sequence follows from --max-length. */
int settle_chunk(struct settings *s)
{
    s->corpus.max_length = longest_chunk(&s->config);
    if (!is_given(s, AT(train.chunk)))
        s->train.chunk = s->corpus.max_length; /* that of a checkpoint comes later */
    return check_chunk(s);
}

// -----------------------------------------------------------------------------------------------
// >>noise          tokens that are hidden from the model
// -----------------------------------------------------------------------------------------------

int32_t n_sentinels(const struct settings *s)
{
    return s->objective == OBJECTIVE_SPAN ? SENTINELS : 0;
}

/* The sentinels of a vocabulary: the id of the first, and how many follow one another. */
static int32_t find_sentinels(const trf_vocab *vocab, int32_t *first)
{
    char token[32] = "<extra_id_0>";
    int32_t n = 0;
    *first = trf_vocab_id(vocab, token);
    if (*first == unknown_id(vocab)) return 0;
    do snprintf(token, sizeof token, "<extra_id_%d>", (int)++n);
    while (trf_vocab_id(vocab, token) == *first + n);
    return n;
}

/* Whether the objective hides tokens; *o: the options of that. */
static int hides_tokens(const struct settings *s, trf_noise_options *o)
{
    *o = s->noise;
    if (!hides_words(s) && s->objective != OBJECTIVE_SPAN) return 0;
    o->kind = hides_words(s) ? TRF_NOISE_MASKS : TRF_NOISE_SPANS;
    o->keep_label = s->objective == OBJECTIVE_PRETRAIN;
    return 1;
}

/* Refuses what the library refuses, before the data are read. */
int check_noise(const struct settings *s)
{
    trf_noise_options o;
    trf_noise *noise;
    trf_error err;
    if (!hides_tokens(s, &o)) return DONE;
    o.vocab = 8;
    o.words = NULL;
    o.whole_words = 0;
    o.first_sentinel = 4;
    o.n_sentinels = 1;
    if (trf_noise_create(&noise, &o, &err)) return refused("noise", &err);
    trf_noise_destroy(noise);
    return DONE;
}

int make_noise(const struct settings *s, const trf_vocab *vocab, trf_noise **training,
               trf_noise **validation)
{
    trf_noise_options o;
    trf_error err;
    if (!hides_tokens(s, &o)) return DONE;
    o.mask = s->config.mask >= 0 ? s->config.mask : s->config.pad;
    o.pad = s->config.pad;
    o.bos = s->config.bos;
    o.eos = s->config.eos;
    o.vocab = trf_vocab_size(vocab);
    o.words = vocab;
    o.seed = s->corpus.seed;
    if (o.kind == TRF_NOISE_SPANS &&
        (o.n_sentinels = find_sentinels(vocab, &o.first_sentinel)) == 0) {
        say("the subwords have no <extra_id_0>, which replaces the first missing span: learn "
            "them with such user-defined symbols");
        return FAILED;
    }
    if (!trf_noise_create(training, &o, &err)) {
        o.seed = 0x5EED;        /* every validation hides the same tokens, for any --seed */
        if (!trf_noise_create(validation, &o, &err)) return DONE;
    }
    return refused("noise", &err);
}
