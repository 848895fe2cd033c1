// trf train: what follows from the data where no option says otherwise.
//
// Measured, not derived: see tools/defaults.md. --recipe paper switches all but the choice of tokens off. What is
// decided here is told, and stands in the checkpoint: a run that goes on does not decide again.

#include "train.h"

#include <math.h>

enum { SMALL_DATA = 1000000, LARGE_DATA = 20000000 };       /* tokens of both sides */

static int is_auto(const struct settings *s, const char *name)
{
    return s->recipe == RECIPE_AUTO && !was_given(s, name);
}

// -----------------------------------------------------------------------------------------------
// >>tokens         words, characters or subwords
//
// Words will do where nearly all words of new lines are known ones: cut before, or from a small language. The others
// are characters if a line is one word (spelling), else subwords.
// -----------------------------------------------------------------------------------------------

struct words {
    int64_t tokens, unknown;            /* of a tenth of the lines, as the others know them */
    int64_t all;                        /* about, of all lines */
    int32_t distinct;                   /* of the others */
    int32_t shared;                     /* and of these, words of the other side too */
};

/* Drawn by a random number of the line: data in rows of five or ten have every part of a row in the tenth. */
static int is_sample(size_t line) { return random_of(line) % 10 == 5; }

static int count_words(const struct text *text, struct words *w, trf_vocab **vocab)
{
    trf_error err;
    int32_t *ids = NULL, n, i;
    size_t capacity = 0, line;
    trf_status status = trf_vocab_create(vocab, TRF_WORDS, NULL, &err);
    memset(w, 0, sizeof *w);
    for (line = 0; line < text->count && !status; line++) {
        if (is_sample(line)) continue;
        status = trf_vocab_learn(*vocab, line_of(text, line), &err);
        if (status == TRF_E_LIMIT) status = TRF_OK;     /* too large for a vocabulary */
    }
    if (!status) status = trf_vocab_finish(*vocab, INT32_MAX, 1, &err);
    for (line = 0; line < text->count && !status; line++) {
        const char *words = line_of(text, line);
        if (!is_sample(line)) continue;
        ids = grow(ids, &capacity, strlen(words) + 1, sizeof *ids);
        if (trf_vocab_encode(*vocab, words, ids, (int32_t)capacity, &n, &err)) continue;
        w->tokens += n;
        for (i = 0; i < n; i++) w->unknown += ids[i] == 3;
    }
    free(ids);
    if (status) { say_error("vocabulary", &err); return FAILED; }
    w->distinct = trf_vocab_size(*vocab) - 4;
    w->all = w->tokens * 10;
    return DONE;
}

static const char *const token_names[] = {
    "auto", "words", "characters", "subwords (unigram)", "subwords (bpe)", "subwords"};

/* Too little text to count unknown words in means words. */
static int tokens_for(const struct words *w, size_t lines)
{
    if (w->tokens == 0 || (double)w->unknown <= 0.02 * (double)w->tokens) return TOKENS_WORDS;
    if ((double)w->all < 2 * (double)lines) return TOKENS_CHARACTERS;
    return TOKENS_UNIGRAM;
}

static int inherited_kind(const trf_vocab *vocab)
{
    trf_token_kind kind = trf_vocab_kind(vocab);
    return kind == TRF_WORDS ? TOKENS_WORDS : kind == TRF_CHARACTERS ? TOKENS_CHARACTERS : TOKENS_UNIGRAM;
}

static void decide_kinds(struct training *t, const struct words w[2])
{
    struct settings *s = t->s;
    int32_t *const kinds[2] = {&s->source_tokens, &s->target_tokens};
    int side, decided[2];
    for (side = 0; side < 2; side++) {
        decided[side] = *kinds[side] == TOKENS_AUTO && reads_side(s, side) && !t->vocab[side];
        if (t->vocab[side] && *kinds[side] == TOKENS_AUTO) *kinds[side] = inherited_kind(t->vocab[side]);
        if (*kinds[side] == TOKENS_SENTENCEPIECE) *kinds[side] = TOKENS_UNIGRAM;
        if (decided[side]) *kinds[side] = tokens_for(&w[side], t->text[side].count);
        if (decided[side] && *kinds[side] == TOKENS_CHARACTERS && s->objective == OBJECTIVE_SPAN)
            *kinds[side] = TOKENS_UNIGRAM;                  /* a missing span's mark is no character */
        if (decided[side] && *kinds[side] == TOKENS_WORDS && learns_from_text(s) && s->documents == DOCUMENTS_FILE &&
            subwords_can_be_learned())
            *kinds[side] = TOKENS_UNIGRAM;                  /* words would lose the line ends */
    }
    for (side = 0; side < 2; side++)        /* a language of many words goes with one that is cut into subwords */
        if (decided[side] && reads_side(s, !side) &&
            *kinds[side] == TOKENS_WORDS && *kinds[!side] == TOKENS_UNIGRAM &&
            w[side].distinct > 1000)
            *kinds[side] = TOKENS_UNIGRAM;
    if (decided[0] && decided[1] && *kinds[0] != *kinds[1] &&          /* one vocabulary has tokens of one kind */
        (s->joint_vocabulary || s->config.tying == TRF_TIED_ALL))
        *kinds[0] = *kinds[1] = *kinds[0] == TOKENS_UNIGRAM || *kinds[1] == TOKENS_UNIGRAM ? TOKENS_UNIGRAM
                                                                                           : TOKENS_CHARACTERS;
    for (side = 0; side < 2; side++) {
        const char *name = side ? "target" : "source";
        double unknown = 100.0 * (double)w[side].unknown / fmax(1, (double)w[side].tokens);
        if (!decided[side] || (side ? s->target_sentencepiece : s->source_sentencepiece)) continue;
        if (*kinds[side] == TOKENS_UNIGRAM && !subwords_can_be_learned()) {
            t->new_words = fmax(t->new_words, unknown);
            *kinds[side] = TOKENS_WORDS;
        }
        if (w[side].tokens == 0) inform("%s: %s (too few lines to see how many words are new)\n", name,
                                         token_names[*kinds[side]]);
        else inform("%s: %s (%.1f %% of the words in a tenth of the lines are new)\n", name,
                     token_names[*kinds[side]], unknown);
    }
}

/* Subwords are as many as are seen often enough: a twenty-fifth of the words of the text, 500 to 8,000. */
static int32_t subwords_for(int64_t words)
{
    return (int32_t)fmax(500, fmin(8000, (double)words / 25));
}

int decide_tokens(struct training *t)
{
    struct settings *s = t->s;
    struct words w[2];
    trf_vocab *vocab[2] = {NULL, NULL};
    int side, both = s->config.tying == TRF_TIED_ALL && !s->init_from, status = DONE;
    int32_t i;
    memset(w, 0, sizeof w);
    for (side = 0; side < 2 && !status; side++)
        if (reads_side(s, side)) status = count_words(&t->text[side], &w[side], &vocab[side]);
    for (i = 4; !status && vocab[0] && vocab[1] && i < trf_vocab_size(vocab[1]); i++)
        w[1].shared += trf_vocab_id(vocab[0], trf_vocab_token(vocab[1], i)) != 3;
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    if (status) return status;
    decide_kinds(t, w);
    /* one vocabulary where both sides have the same pieces, or a quarter of the words in common */
    if (s->objective != OBJECTIVE_TRANSLATE) {          /* missing spans are tokens of the text itself */
        both = s->objective == OBJECTIVE_SPAN;
        s->joint_vocabulary = both;
    } else if (is_auto(s, "joint-vocabulary") && is_auto(s, "tying") && !both && !t->vocab[0] && !t->vocab[1] &&
        s->source_tokens == s->target_tokens &&
        !s->source_sentencepiece == !s->target_sentencepiece && s->source_vocab_size == s->target_vocab_size)
        both = s->source_sentencepiece ? same_file(s->source_sentencepiece, s->target_sentencepiece)
             : s->source_tokens >= TOKENS_UNIGRAM || (w[1].distinct > 0 && w[1].shared >= 0.25 * w[1].distinct);
    if (both) s->joint_vocabulary = 1;
    for (side = 0; side < 2; side++) {
        int32_t *size = side ? &s->target_vocab_size : &s->source_vocab_size;
        int tokens = side ? s->target_tokens : s->source_tokens;
        if (*size) continue;
        *size = tokens < TOKENS_UNIGRAM ? 32000
              : subwords_for(s->joint_vocabulary ? w[0].all + w[1].all : w[side].all) + n_sentinels(s);
    }
    return DONE;
}

/* Sentences of a language, or sequences of few symbols (letters, phones, digits, commands): these have less to
   remember and rules to find, for which smaller models, small batches and little dropout are better. */
static int is_language(const struct training *t) { return trf_vocab_size(t->vocab[leading_side(t->s)]) > 500; }

// -----------------------------------------------------------------------------------------------
// >>model          its size, and which matrices are one
// -----------------------------------------------------------------------------------------------

void decide_model(struct training *t)
{
    struct settings *s = t->s;
    int64_t tokens = t->amounts.tokens[0] + t->amounts.tokens[1];
    int i, middling = tokens >= SMALL_DATA && tokens < LARGE_DATA, symbols = middling && !is_language(t);
    if (s->init_from) return;
    if (s->size == SIZE_AUTO) {
        s->size = s->recipe == RECIPE_PAPER ? SIZE_BASE
                : tokens < SMALL_DATA || symbols ? SIZE_TINY : middling ? SIZE_SMALL : SIZE_BASE;
        for (i = 0; i < n_rows; i++) if (!strcmp(rows[i].name, "size")) rows[i].then(s);
        if (s->size == SIZE_TINY && symbols) s->config.d_ff = 512;
        set_given_architecture(s);              /* single options win over it; they have been read before */
    }
    if (s->recipe != RECIPE_AUTO || was_given(s, "conventions")) return;
    if (is_auto(s, "norm-place")) s->config.norm_place = TRF_PRE_NORM;
    if (is_auto(s, "tying")) s->config.tying = s->joint_vocabulary ? TRF_TIED_ALL : TRF_TIED_DECODER;
    if (is_auto(s, "generator-bias")) s->config.generator_bias = 0;
}

// -----------------------------------------------------------------------------------------------
// >>updates        batches, warm-up, rate, dropout, and when to look
// -----------------------------------------------------------------------------------------------

/* A pass over the data has about a hundred updates, of symbols eight hundred. */
void decide_batches(struct training *t)
{
    struct settings *s = t->s;
    if (is_auto(s, "batch-tokens"))
        s->corpus.batch_tokens =
            (int32_t)fmax(512, fmin(4096, (double)t->amounts.tokens[leading_side(s)] / (is_language(t) ? 100 : 800)));
}

static void decide_dropout(struct training *t)
{
    struct settings *s = t->s;
    int64_t tokens = t->amounts.tokens[0] + t->amounts.tokens[1];
    double p = tokens >= LARGE_DATA || !is_language(t) ? 0.1 : tokens < SMALL_DATA ? 0.3 : 0.2;
    if (was_given(s, "dropout")) return;
    if (is_auto(s, "embedding-dropout")) s->training.dropout = p;
    if (is_auto(s, "residual-dropout")) s->training.residual_dropout = p;
    if (is_auto(s, "attention-dropout")) s->training.attention_dropout = 0;
    if (is_auto(s, "activation-dropout")) s->training.activation_dropout = 0;
}

/* Smoothing is for answers, of which the best is wanted. Where the probability itself is the product, as with language
   models and labels, it would be spoilt. */
static void decide_smoothing(struct training *t)
{
    struct settings *s = t->s;
    if (is_auto(s, "label-smoothing") && s->objective != OBJECTIVE_TRANSLATE && s->objective != OBJECTIVE_SPAN)
        s->training.label_smoothing = 0;
}

enum { NO_PLAN = -1 };

/* Updates in all, about, or NO_PLAN where nothing says when to end but time and patience: those that are done, and
   those that the batches to come make. */
static int64_t planned_updates(const struct training *t)
{
    int64_t all = t->s->updates, epochs = t->s->corpus.epochs, drawn = t->state.batches, left;
    if (epochs != TRF_ENDLESS && epochs <= INT64_MAX / 2 / t->batches) {
        left = epochs * t->batches > drawn ? epochs * t->batches - drawn : 0;
        left = trf_trainer_step(t->trainer) + (left + t->s->accumulate - 1) / t->s->accumulate;
        if (left < all) all = left;
    }
    return all == INT64_MAX ? NO_PLAN : all;
}

static void decide_rate(struct training *t, int64_t planned)
{
    struct settings *s = t->s;
    if (is_auto(s, "schedule")) s->training.schedule = TRF_INVERSE_SQRT;
    if (is_auto(s, "warmup")) {
        double updates = planned != NO_PLAN ? fmin(1000, (double)planned / 8) : 1000;
        s->training.warmup = (int64_t)fmax(1, updates);
    }
    if (is_auto(s, "learning-rate") || (!was_given(s, "learning-rate") && s->training.schedule != TRF_NOAM))
        s->training.learning_rate = s->training.schedule == TRF_NOAM ? 1 : 0.025 / sqrt((double)s->config.d_model);
}

/* The unit of the metric is that of the target: characters, words, or, where words are few or are not parted by
   blanks, characters of subwords. */
static enum metric translation_metric(const struct training *t)
{
    trf_token_kind kind = trf_vocab_kind(t->vocab[1]);
    int nothing;
    if (kind == TRF_CHARACTERS) return METRIC_CER;
    if (is_language(t) && bleu_tells(t, &nothing)) return METRIC_BLEU;
    return kind == TRF_WORDS ? METRIC_WER : METRIC_CHRF;
}

static void decide_validation(struct training *t, int64_t planned)
{
    struct settings *s = t->s;
    if (!was_given(s, "valid-every"))
        s->valid_every = (int64_t)fmax(100, fmin(1000, (double)t->per_epoch / s->subword_samples));
    if (s->metric == METRIC_AUTO && s->objective != OBJECTIVE_TRANSLATE)
        s->metric = learns_labels(s) ? METRIC_ACCURACY : METRIC_LOSS;
    if (s->metric == METRIC_AUTO) s->metric = translation_metric(t);
    if (!was_given(s, "patience")) s->patience = planned != NO_PLAN || isfinite(s->minutes) ? 0 : 10;
    if (is_auto(s, "ema")) s->ema = 0.002;
}

void settle_validation(struct training *t)
{
    if (t->s->valid_every == 0) t->s->valid_every = t->per_epoch;
}

int check_ends(const struct training *t)
{
    const struct settings *s = t->s;
    if (planned_updates(t) != NO_PLAN || isfinite(s->minutes) || (t->valid[0].count && s->patience)) return DONE;
    say("nothing says when training ends: give --updates, --epochs or --minutes, or pairs to validate on and "
        "--patience");
    return USAGE;
}

/* Behind the warm-up in any case. */
static int64_t cosine_end(const trf_train_options *o, int64_t planned)
{
    return planned > o->warmup || o->warmup == INT64_MAX ? planned : o->warmup + 1;
}

int ends_cosine(const struct settings *s) { return was_given(s, "total-steps") && s->training.total_steps != 0; }

static void warn_of_cosine(const struct settings *s, int64_t planned)
{
    long long end = (long long)s->training.total_steps;
    if (planned == NO_PLAN)
        say("the rate ends with update %lld, if training comes so far; --total-steps says where", end);
    else if (planned > end)
        say("warning: the rate ends with update %lld, and training goes on: give --total-steps for more of it", end);
    else if (planned > s->training.warmup && planned < end / 2)
        say("warning: the rate falls until update %lld, but there are only %lld: it stays high", end,
            (long long)planned);
}

/* Where a cosine ends. stored->total_steps is 0 at the beginning, and where the checkpoint was of another schedule.
       --total-steps is given                                    there
       --updates or --epochs are planned, and it is new or
       has ended with such a plan so far                         with the plan of now
       it is new, without a plan                                 refused
       it has a number of its own                                there; told, if the plan goes further */
int settle_cosine(struct training *t, const trf_train_options *stored)
{
    struct settings *s = t->s;
    struct state *state = &t->state;
    int64_t planned = planned_updates(t);
    if (s->training.schedule != TRF_COSINE || ends_cosine(s)) {
        state->cosine_follows = 0;
        return DONE;
    }
    if (planned != NO_PLAN && (state->cosine_follows || stored->total_steps == 0)) {
        s->training.total_steps = cosine_end(&s->training, planned);
        state->cosine_follows = 1;
        return DONE;
    }
    if (stored->total_steps == 0) {
        say("--schedule cosine needs --total-steps, or --updates or --epochs, at which it then ends");
        return USAGE;
    }
    s->training.total_steps = cosine_end(&s->training, stored->total_steps);
    return DONE;
}

void say_schedule(const struct training *t)
{
    const struct settings *s = t->s;
    int64_t planned = planned_updates(t);
    static const char *const schedules[] = {"noam", "inverse-sqrt", "cosine", "constant"};
    char end[128], ends[64] = "";
    if (planned != NO_PLAN) snprintf(end, sizeof end, "%lld in all", (long long)planned);
    else if (isfinite(s->minutes)) snprintf(end, sizeof end, "for %g minutes", s->minutes);
    else snprintf(end, sizeof end, "until %d validations in a row bring nothing better", (int)s->patience);
    if (isfinite(s->minutes) && planned != NO_PLAN) snprintf(ends, sizeof ends, ", %g minutes at most", s->minutes);
    inform("updates: about %lld a pass over the data, %s%s; ", (long long)t->per_epoch, end, ends);
    if (t->valid[0].count)
        inform("validated every %lld by %s\n", (long long)s->valid_every, metric_name(metric_of(t)));
    else inform("not validated\n");
    inform("schedule: %s, peak %.3g after %lld updates; at most %lld tokens a side in an update\n",
            schedules[s->training.schedule], trf_learning_rate(&s->training, s->config.d_model, s->training.warmup),
            (long long)s->training.warmup,
            (long long)fmax(s->corpus.batch_tokens, t->amounts.longest + 1) * s->accumulate);
    if (planned > 0 && s->training.warmup > planned / 2 && s->training.warmup > 1)
        say("warning: the rate rises for %lld updates, but there are only %lld: the model will hardly learn; give a "
            "smaller --warmup, smaller --batch-tokens or more --epochs",
            (long long)s->training.warmup, (long long)planned);
    if (s->training.schedule == TRF_COSINE) warn_of_cosine(s, planned);
}

int decide_schedule(struct training *t)
{
    struct settings *s = t->s;
    int64_t planned = planned_updates(t);
    decide_rate(t, planned);
    if (s->recipe == RECIPE_AUTO) decide_dropout(t);
    decide_smoothing(t);
    decide_validation(t, planned);
    settle_validation(t);
    if (check_ends(t)) return USAGE;
    if (s->training.schedule == TRF_COSINE && s->training.total_steps == 0) {
        if (planned == NO_PLAN) {
            say("--schedule cosine needs --total-steps, or --updates or --epochs, at which it then ends");
            return USAGE;
        }
        s->training.total_steps = cosine_end(&s->training, planned);
        t->state.cosine_follows = 1;
    }
    say_schedule(t);
    return DONE;
}
