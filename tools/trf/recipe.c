// trf train: what follows from the data where no option says otherwise.
//
// The library decides (trf_tokens_choose, trf_recipe_find); options that are given win over it. --recipe paper switches
// all but the choice of tokens, and when to validate, off. What is decided is told, with the library's reasons, and
// stands in the checkpoint: a run that goes on does not decide again.

#include "train.h"

#include <math.h>

static int is_auto(const struct settings *s, const char *name)
{
    return s->recipe == RECIPE_AUTO && !was_given(s, name);
}

// -----------------------------------------------------------------------------------------------
// >>tokens         words, characters or subwords: trf_tokens_choose
// -----------------------------------------------------------------------------------------------

static const char *const token_names[] = {
    "auto", "words", "characters", "subwords (unigram)", "subwords (bpe)", "subwords"};

static int inherited_kind(const trf_vocab *vocab)
{
    trf_token_kind kind = trf_vocab_kind(vocab);
    return kind == TRF_WORDS ? TOKENS_WORDS : kind == TRF_CHARACTERS ? TOKENS_CHARACTERS : TOKENS_UNIGRAM;
}

static const char *pieces_file(const struct settings *s, int side)
{
    return side ? s->target_sentencepiece : s->source_sentencepiece;
}

/* What is settled already of a side's tokens, and whether it is left open. */
static int settle_kind(struct training *t, int side, trf_tokens *given)
{
    static const trf_tokens choices[] = {TRF_TOKENS_AUTO, TRF_TOKENS_WORDS, TRF_TOKENS_CHARACTERS,
                                         TRF_TOKENS_SUBWORDS, TRF_TOKENS_SUBWORDS, TRF_TOKENS_SUBWORDS};
    int32_t *kind = side ? &t->s->target_tokens : &t->s->source_tokens;
    if (*kind == TOKENS_AUTO && t->vocab[side]) *kind = inherited_kind(t->vocab[side]);
    if (*kind == TOKENS_AUTO && pieces_file(t->s, side)) *kind = TOKENS_UNIGRAM;
    if (*kind == TOKENS_SENTENCEPIECE) *kind = TOKENS_UNIGRAM;
    *given = choices[*kind];
    return *kind == TOKENS_AUTO && reads_side(t->s, side);
}

/* How many vocabularies there are: 1 or 2, or 0, where that follows from the text. */
static int settle_vocabularies(const struct training *t)
{
    const struct settings *s = t->s;
    if (s->objective == OBJECTIVE_SPAN) return 1;       /* missing spans are tokens of the text itself */
    if (s->objective != OBJECTIVE_TRANSLATE) return 2;
    if (s->joint_vocabulary || (shares_embedding(&s->config) && !s->init_from)) return 1;
    if (!is_auto(s, "joint-vocabulary") || !is_auto(s, "tying") || t->vocab[0] || t->vocab[1]) return 2;
    if (!s->source_sentencepiece != !s->target_sentencepiece) return 2;
    if (s->source_sentencepiece) return same_file(s->source_sentencepiece, s->target_sentencepiece) ? 1 : 2;
    if (s->source_tokens >= TOKENS_UNIGRAM && s->target_tokens >= TOKENS_UNIGRAM &&
        s->source_tokens != s->target_tokens) return 2;
    return 0;
}

/* Subwords in the place of what was chosen, where that could not write what this objective needs. */
static int wants_subwords(const struct settings *s, trf_tokens chosen)
{
    if (!subwords_can_be_learned()) return 0;
    if (chosen == TRF_TOKENS_CHARACTERS) return s->objective == OBJECTIVE_SPAN;     /* a span's mark is no character */
    return chosen == TRF_TOKENS_WORDS && learns_from_text(s) &&
           s->documents == DOCUMENTS_FILE;                                          /* words would lose the line ends */
}

static void say_kind(struct training *t, int side, const trf_token_choice *choice)
{
    int kind = side ? t->s->target_tokens : t->s->source_tokens;
    const char *name = side ? "target" : "source";
    double unknown = choice->unknown[side];
    if (choice->would_be_subwords[side]) t->new_words = fmax(t->new_words, unknown);
    if (isnan(unknown)) inform("%s: %s (too few lines to see how many words are new)\n", name, token_names[kind]);
    else inform("%s: %s (%.1f %% of the words in a tenth of the lines are new)\n", name, token_names[kind], unknown);
}

static int choose_tokens(struct training *t, trf_token_choice *choice, const int open[2])
{
    struct settings *s = t->s;
    const char **lines[2] = {NULL, NULL};
    trf_error err;
    int side, again = 0, status;
    for (side = 0; side < 2; side++) if (reads_side(s, side)) lines[side] = lines_of(&t->text[side]);
    do {
        choice->vocabularies = settle_vocabularies(t);
        choice->no_subwords = !subwords_can_be_learned();
        choice->vocab_size[0] = s->source_vocab_size;
        choice->vocab_size[1] = s->target_vocab_size;
        status = trf_tokens_choose(choice, lines[0], lines[1], (int64_t)t->text[0].count, NULL, &err) ? FAILED : DONE;
        for (side = 0, again = 0; side < 2 && !status; side++) {
            if (!open[side] || !wants_subwords(s, choice->tokens[side])) continue;
            choice->tokens[side] = TRF_TOKENS_SUBWORDS;
            again = 1;
        }
    } while (again);
    if (status) say_error("vocabulary", &err);
    free((void *)lines[0]);
    free((void *)lines[1]);
    return status;
}

int decide_tokens(struct training *t)
{
    static const int kinds[] = {TOKENS_AUTO, TOKENS_WORDS, TOKENS_CHARACTERS, TOKENS_UNIGRAM};
    struct settings *s = t->s;
    trf_token_choice choice;
    int side, open[2], unsized[2] = {!s->source_vocab_size, !s->target_vocab_size};
    memset(&choice, 0, sizeof choice);
    for (side = 0; side < 2; side++) open[side] = settle_kind(t, side, &choice.tokens[side]);
    if (choose_tokens(t, &choice, open)) return FAILED;
    if (open[0]) s->source_tokens = kinds[choice.tokens[0]];
    if (open[1]) s->target_tokens = kinds[choice.tokens[1]];
    for (side = 0; side < 2; side++) if (open[side]) say_kind(t, side, &choice);
    if (choice.vocabularies == 1) s->joint_vocabulary = 1;
    else if (s->objective != OBJECTIVE_TRANSLATE) s->joint_vocabulary = 0;
    s->source_vocab_size = choice.vocab_size[0];
    s->target_vocab_size = choice.vocab_size[1];
    if (unsized[0] && s->source_tokens >= TOKENS_UNIGRAM) s->source_vocab_size += n_sentinels(s);
    if (unsized[1] && s->target_tokens >= TOKENS_UNIGRAM) s->target_vocab_size += n_sentinels(s);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>find           everything else: trf_recipe_find. Options that are given win over it
// -----------------------------------------------------------------------------------------------

/* planned: updates, or 0 where nobody knows. */
static int find_recipe(const struct training *t, int64_t planned, trf_recipe *recipe)
{
    const struct settings *s = t->s;
    int decoder = s->objective != OBJECTIVE_MASK && !learns_labels(s);
    trf_data_stats a;
    trf_error err;
    memset(&a, 0, sizeof a);
    a.kind = !reads_side(s, 0) ? TRF_DECODER_ONLY : decoder ? TRF_ENCODER_DECODER : TRF_ENCODER_ONLY;
    a.head = decoder ? TRF_HEAD_NONE : s->objective == OBJECTIVE_MASK ? TRF_HEAD_MASKED
           : s->objective == OBJECTIVE_TAG ? TRF_HEAD_TOKENS : s->pooling ? TRF_HEAD_FIRST : TRF_HEAD_MEAN;
    a.n_labels = t->labels.n;
    a.pairs = t->amounts.pairs;
    a.source_tokens = t->amounts.tokens[0];
    a.target_tokens = t->amounts.tokens[1];
    a.longest = t->amounts.longest;
    a.source_vocab = t->vocab[0] ? trf_vocab_size(t->vocab[0]) : 0;
    a.target_vocab = t->vocab[1] ? trf_vocab_size(t->vocab[1]) : 0;
    a.one_vocabulary = s->joint_vocabulary;
    a.updates_per_epoch = t->per_epoch / s->subword_samples;
    if (t->per_epoch && !a.updates_per_epoch) a.updates_per_epoch = 1;
    if (t->per_epoch) a.d_model = s->config.d_model;    /* known by then */
    a.updates = planned;
    if (!trf_recipe_find(recipe, &a, &err)) return DONE;
    say_error("recipe", &err);
    return FAILED;
}

int decide_model(struct training *t)
{
    struct settings *s = t->s;
    trf_recipe recipe;
    if (s->init_from) return DONE;
    if (find_recipe(t, 0, &recipe)) return FAILED;
    if (s->size == SIZE_AUTO && s->recipe == RECIPE_PAPER) recipe.config = trf_config_base();
    if (s->size == SIZE_AUTO) {
        s->config.d_model = recipe.config.d_model;
        s->config.n_heads = recipe.config.n_heads;
        s->config.d_ff = recipe.config.d_ff;
        s->config.encoder_layers = recipe.config.encoder_layers;
        s->config.decoder_layers = recipe.config.decoder_layers;
        if (set_given_architecture(s)) return USAGE;        /* single options win over it */
    }
    if (s->recipe != RECIPE_AUTO || was_given(s, "conventions")) return DONE;
    if (is_auto(s, "norm-place")) s->config.norm_place = recipe.config.norm_place;
    if (is_auto(s, "tying")) s->config.tying = recipe.config.tying;
    if (is_auto(s, "generator-bias")) s->config.generator_bias = recipe.config.generator_bias;
    return DONE;
}

int decide_batches(struct training *t)
{
    trf_recipe recipe;
    if (!is_auto(t->s, "batch-tokens")) return DONE;
    if (find_recipe(t, 0, &recipe)) return FAILED;
    t->s->corpus.batch_tokens = recipe.corpus.batch_tokens;
    return DONE;
}

static void take_training(struct settings *s, const trf_train_options *found)
{
    if (is_auto(s, "schedule")) s->training.schedule = found->schedule;
    if (is_auto(s, "warmup")) s->training.warmup = found->warmup;
    if (is_auto(s, "learning-rate") || (!was_given(s, "learning-rate") && s->training.schedule != TRF_NOAM))
        s->training.learning_rate = s->training.schedule == TRF_NOAM ? 1 : found->learning_rate;
    if (is_auto(s, "label-smoothing")) s->training.label_smoothing = found->label_smoothing;
    if (was_given(s, "dropout")) return;
    if (is_auto(s, "embedding-dropout")) s->training.dropout = found->dropout;
    if (is_auto(s, "residual-dropout")) s->training.residual_dropout = found->residual_dropout;
    if (is_auto(s, "attention-dropout")) s->training.attention_dropout = found->attention_dropout;
    if (is_auto(s, "activation-dropout")) s->training.activation_dropout = found->activation_dropout;
}

// -----------------------------------------------------------------------------------------------
// >>updates        how many there will be, and when to look
// -----------------------------------------------------------------------------------------------

enum { NO_PLAN = -1 };

/* Tells the recipe's reasons, line by line, but for those that options of the command line have overruled. */
static void say_reasons(struct training *t, const trf_recipe *recipe)
{
    static const struct { const char *begins, *options[7]; } of[N_REASONS] = {
        {"model:", {"init-from", "size", "d-model", "d-ff", "encoder-layers", "decoder-layers", NULL}},
        {"batches:", {"batch-tokens", "accumulate", NULL}},
        {"rate:", {"schedule", "learning-rate", "warmup", "d-model", NULL}},
        {"dropout:", {"dropout", "embedding-dropout", "residual-dropout", NULL}},
        {"label smoothing:", {"label-smoothing", NULL}},
        {"end:", {"valid-every", "patience", "minutes", NULL}}};
    const struct settings *s = t->s;
    const char *line = recipe->reasons;
    int i, k, own;
    for (; *line && s->recipe == RECIPE_AUTO; line += strcspn(line, "\n") + 1)
        for (i = 0; i < N_REASONS; i++) {
            if (strncmp(line, of[i].begins, strlen(of[i].begins))) continue;
            own = i == REASON_END && !t->valid[0].count;
            for (k = 0; of[i].options[k]; k++) own |= was_given(s, of[i].options[k]);
            if (own) continue;
            inform("%.*s\n", (int)strcspn(line, "\n"), line);
            t->explained[i] = 1;
        }
}

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

/* The unit of the metric is that of the target: characters, words, or, where words are few or are not parted by
   blanks, characters of subwords. */
static enum metric translation_metric(const struct training *t)
{
    trf_token_kind kind = trf_vocab_kind(t->vocab[1]);
    int nothing;
    if (kind == TRF_CHARACTERS) return METRIC_CER;
    if (trf_vocab_size(t->vocab[1]) > 500 && bleu_tells(t, &nothing)) return METRIC_BLEU;     /* of a language */
    return kind == TRF_WORDS ? METRIC_WER : METRIC_CHRF;
}

static void decide_validation(struct training *t, const trf_learn_options *found)
{
    struct settings *s = t->s;
    if (!was_given(s, "valid-every")) s->valid_every = found->valid_every;
    if (s->metric == METRIC_AUTO && s->objective != OBJECTIVE_TRANSLATE)
        s->metric = learns_labels(s) ? METRIC_ACCURACY : METRIC_LOSS;
    if (s->metric == METRIC_AUTO) s->metric = translation_metric(t);
    if (!was_given(s, "patience")) s->patience = isfinite(s->minutes) ? 0 : found->patience;
    if (is_auto(s, "ema")) s->ema = found->ema;
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
    long long most = (long long)fmax(s->corpus.batch_tokens, t->amounts.longest + 1) * s->accumulate;
    char end[128], ends[64] = "";
    if (planned != NO_PLAN) snprintf(end, sizeof end, ", %lld in all", (long long)planned);
    else if (isfinite(s->minutes))
        snprintf(end, sizeof end, ", for %g minute%s", s->minutes, s->minutes == 1 ? "" : "s");
    else if (t->explained[REASON_END]) *end = 0;
    else snprintf(end, sizeof end, ", until %d validation%s in a row bring%s nothing better", (int)s->patience,
                  plural(s->patience), s->patience == 1 ? "s" : "");
    if (isfinite(s->minutes) && planned != NO_PLAN)
        snprintf(ends, sizeof ends, ", %g minute%s at most", s->minutes, s->minutes == 1 ? "" : "s");
    inform("updates: about %lld a pass over the data%s%s; ", (long long)t->per_epoch, end, ends);
    if (t->valid[0].count)
        inform("validated every %lld by %s\n", (long long)s->valid_every, metric_name(metric_of(t)));
    else inform("not validated\n");
    if (!t->explained[REASON_RATE] || !t->explained[REASON_BATCHES])
        inform("schedule: %s, peak %.3g after %lld update%s; at most %lld token%s a side in an update\n",
            schedules[s->training.schedule], trf_learning_rate(&s->training, s->config.d_model, s->training.warmup),
            (long long)s->training.warmup, plural(s->training.warmup), most, plural(most));
    if (planned > 0 && s->training.warmup > planned / 2 && s->training.warmup > 1)
        say("warning: the rate rises for %lld updates, but there %s only %lld: the model will hardly learn; give a "
            "smaller --warmup, smaller --batch-tokens or more --epochs",
            (long long)s->training.warmup, planned == 1 ? "is" : "are", (long long)planned);
    if (s->training.schedule == TRF_COSINE) warn_of_cosine(s, planned);
}

int decide_schedule(struct training *t)
{
    struct settings *s = t->s;
    trf_recipe recipe;
    int64_t planned = planned_updates(t);
    if (find_recipe(t, planned == NO_PLAN ? 0 : planned > 0 ? planned : 1, &recipe)) return FAILED;
    take_training(s, &recipe.training);
    decide_validation(t, &recipe.learning);
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
    say_reasons(t, &recipe);
    say_schedule(t);
    return DONE;
}
