// trf train: chooses from the data what no option sets. See recipe.h.
//
// The library chooses (trf_tokens_choose, trf_recipe_find); options override it. --recipe paper
// leaves it only the choice of tokens and of when to validate. trf prints the choices with the
// library's reasons, and stores them in the checkpoint; a resumed run does not choose again.

#include "recipe.h"
#include "measure.h"
#include "subwords.h"

#include <math.h>

static int is_auto(const struct settings *s, size_t field)
{
    return s->train.recipe == RECIPE_AUTO && !is_given(s, field);
}

// -----------------------------------------------------------------------------------------------
// >>tokens         words, characters or subwords: trf_tokens_choose
// -----------------------------------------------------------------------------------------------

static const char *const token_names[] = {
    "auto", "words", "characters", "subwords (unigram)", "subwords (bpe)", "subwords"};

static int inherited_kind(const trf_vocab *vocab)
{
    trf_token_kind kind = trf_vocab_kind(vocab);
    return kind == TRF_WORDS        ? TOKENS_WORDS
           : kind == TRF_CHARACTERS ? TOKENS_CHARACTERS
                                    : TOKENS_UNIGRAM;
}

static const char *pieces_file(const struct settings *s, int side)
{
    return side ? s->train.target_sentencepiece : s->train.source_sentencepiece;
}

/* The tokens of a side as far as options decide them. Returns whether the recipe has to choose. */
static int settle_kind(struct settings *s, const trf_vocab *vocab, int side, trf_tokens *given)
{
    static const trf_tokens choices[] = {TRF_TOKENS_AUTO,       TRF_TOKENS_WORDS,
                                         TRF_TOKENS_CHARACTERS, TRF_TOKENS_SUBWORDS,
                                         TRF_TOKENS_SUBWORDS,   TRF_TOKENS_SUBWORDS};
    int32_t *kind = side ? &s->train.target_tokens : &s->train.source_tokens;
    if (*kind == TOKENS_AUTO && vocab) *kind = inherited_kind(vocab);
    if (*kind == TOKENS_AUTO && pieces_file(s, side)) *kind = TOKENS_UNIGRAM;
    if (*kind == TOKENS_SENTENCEPIECE) *kind = TOKENS_UNIGRAM;
    *given = choices[*kind];
    return *kind == TOKENS_AUTO && reads_side(s, side);
}

/* The number of vocabularies: 1 or 2; 0: the text decides. */
static int settle_vocabularies(const struct settings *s, const trf_vocab *const vocab[2])
{
    if (s->objective == OBJECTIVE_SPAN) return 1; /* missing spans are tokens of the same text */
    if (s->objective != OBJECTIVE_TRANSLATE) return 2;
    if (s->train.joint_vocabulary || (shares_embedding(&s->config) && !s->train.init_from))
        return 1;
    if (!is_auto(s, AT(train.joint_vocabulary)) || !is_auto(s, AT(config.tying)) || vocab[0] ||
        vocab[1])
        return 2;
    if (!s->train.source_sentencepiece != !s->train.target_sentencepiece) return 2;
    if (s->train.source_sentencepiece)
        return same_file(s->train.source_sentencepiece, s->train.target_sentencepiece) ? 1 : 2;
    if (s->train.source_tokens >= TOKENS_UNIGRAM && s->train.target_tokens >= TOKENS_UNIGRAM &&
        s->train.source_tokens != s->train.target_tokens) return 2;
    return 0;
}

/* Whether the objective needs subwords instead of the chosen tokens. */
static int wants_subwords(const struct settings *s, trf_tokens chosen)
{
    if (!subwords_can_be_learned()) return 0;
    if (chosen == TRF_TOKENS_CHARACTERS)
        return s->objective == OBJECTIVE_SPAN; /* the mark of a span is no character */
    return chosen == TRF_TOKENS_WORDS && learns_from_text(s) &&
           s->train.documents == DOCUMENTS_FILE; /* words would lose the line ends */
}

static void say_kind(const struct settings *s, struct plan *plan, int side,
                     const trf_token_choice *choice)
{
    int kind = side ? s->train.target_tokens : s->train.source_tokens;
    const char *name = side ? "target" : "source";
    double unknown = choice->unknown[side];
    if (choice->would_be_subwords[side]) plan->new_words = fmax(plan->new_words, unknown);
    if (isnan(unknown))
        inform("%s: %s (too few lines to see how many words are new)\n", name, token_names[kind]);
    else
        inform("%s: %s (%.1f %% of the words in a tenth of the lines are new)\n", name, token_names[kind], unknown);
}

static int choose_tokens(const struct settings *s, const trf_data_lines *lines,
                         const trf_vocab *const vocab[2], trf_token_choice *choice,
                         const int open[2])
{
    trf_error err;
    int side, again;
    do {
        choice->vocabularies = settle_vocabularies(s, vocab);
        choice->no_subwords = !subwords_can_be_learned();
        choice->only_read = learns_labels(s);
        choice->vocab_size[0] = s->train.source_vocab_size;
        choice->vocab_size[1] = s->train.target_vocab_size;
        if (trf_tokens_choose(choice, reads_side(s, 0) ? lines->source : NULL,
                              reads_side(s, 1) ? lines->target : NULL, lines->n, NULL, &err)) {
            say_error("vocabulary", &err);
            return FAILED;
        }
        for (side = 0, again = 0; side < 2; side++) {
            if (!open[side] || !wants_subwords(s, choice->tokens[side])) continue;
            choice->tokens[side] = TRF_TOKENS_SUBWORDS;
            again = 1;
        }
    } while (again);
    return DONE;
}

int decide_tokens(struct settings *s, const trf_data_lines *lines, const trf_vocab *const vocab[2],
                  struct plan *plan)
{
    static const int kinds[] = {TOKENS_AUTO, TOKENS_WORDS, TOKENS_CHARACTERS, TOKENS_UNIGRAM};
    trf_token_choice choice;
    int side, open[2], no_size[2] = {!s->train.source_vocab_size, !s->train.target_vocab_size};
    memset(&choice, 0, sizeof choice);
    for (side = 0; side < 2; side++)
        open[side] = settle_kind(s, vocab[side], side, &choice.tokens[side]);
    if (choose_tokens(s, lines, vocab, &choice, open)) return FAILED;
    if (open[0]) s->train.source_tokens = kinds[choice.tokens[0]];
    if (open[1]) s->train.target_tokens = kinds[choice.tokens[1]];
    for (side = 0; side < 2; side++) if (open[side]) say_kind(s, plan, side, &choice);
    if (choice.vocabularies == 1) s->train.joint_vocabulary = 1;
    else if (s->objective != OBJECTIVE_TRANSLATE) s->train.joint_vocabulary = 0;
    s->train.source_vocab_size = choice.vocab_size[0];
    s->train.target_vocab_size = choice.vocab_size[1];
    if (no_size[0] && s->train.source_tokens >= TOKENS_UNIGRAM)
        s->train.source_vocab_size += n_sentinels(s);
    if (no_size[1] && s->train.target_tokens >= TOKENS_UNIGRAM)
        s->train.target_vocab_size += n_sentinels(s);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>find           everything else: trf_recipe_find, overridden by options
// -----------------------------------------------------------------------------------------------

/* planned: updates in all, or 0 if unknown. */
static int find_recipe(const struct settings *s, const struct plan *plan, int64_t planned,
                       trf_recipe *recipe)
{
    trf_data_stats a;
    trf_error err;
    memset(&a, 0, sizeof a);
    a.kind = kind_of_model(s);
    a.head = head_of_model(s);
    a.n_labels = hides_words(s) ? 0 : plan->n_labels;
    a.label_kind = s->config.label_kind;
    a.pairs = plan->facts.pairs;
    a.different = plan->facts.different < a.pairs ? plan->facts.different : a.pairs;
    a.source_tokens = plan->facts.source_ids + plan->facts.pairs;
    a.target_tokens = plan->facts.target_ids + plan->facts.pairs;
    a.longest = plan->longest;
    a.source_vocab = plan->vocab_size[0];
    a.target_vocab = plan->vocab_size[1];
    a.one_vocabulary = s->train.joint_vocabulary;
    a.updates_per_epoch = plan->per_epoch / s->train.subword_samples;
    if (plan->per_epoch && !a.updates_per_epoch) a.updates_per_epoch = 1;
    if (plan->per_epoch) a.d_model = s->config.d_model;    /* known by then */
    a.updates = planned;
    a.effort = (trf_effort)s->train.effort;
    if (!trf_recipe_find(recipe, &a, &err)) return DONE;
    say_error("recipe", &err);
    return FAILED;
}

int decide_model(struct settings *s, const struct plan *plan)
{
    trf_recipe recipe;
    if (s->train.init_from) return DONE;
    if (find_recipe(s, plan, 0, &recipe)) return FAILED;
    if (s->train.size == SIZE_AUTO && s->train.recipe == RECIPE_PAPER)
        recipe.config = trf_config_preset(TRF_BASE);
    if (s->train.size == SIZE_AUTO) {
        s->config.d_model = recipe.config.d_model;
        s->config.n_heads = recipe.config.n_heads;
        s->config.d_ff = recipe.config.d_ff;
        s->config.encoder_layers = recipe.config.encoder_layers;
        s->config.decoder_layers = recipe.config.decoder_layers;
        if (set_given_architecture(s)) return USAGE;        /* single options override the size */
    }
    if (s->train.recipe != RECIPE_AUTO || is_given(s, AT(train.conventions))) return DONE;
    if (is_auto(s, AT(config.norm_place))) s->config.norm_place = recipe.config.norm_place;
    if (is_auto(s, AT(config.tying))) s->config.tying = recipe.config.tying;
    if (is_auto(s, AT(config.generator_bias)))
        s->config.generator_bias = recipe.config.generator_bias;
    return DONE;
}

int decide_batches(struct settings *s, const struct plan *plan)
{
    trf_recipe recipe;
    if (!is_auto(s, AT(corpus.batch_tokens))) return DONE;
    if (find_recipe(s, plan, 0, &recipe)) return FAILED;
    s->corpus.batch_tokens = recipe.corpus.batch_tokens;
    return DONE;
}

static void take_training(struct settings *s, const trf_train_options *found)
{
    if (is_auto(s, AT(training.schedule))) s->training.schedule = found->schedule;
    if (is_auto(s, AT(training.warmup))) s->training.warmup = found->warmup;
    if (is_auto(s, AT(training.learning_rate)) ||
        (!is_given(s, AT(training.learning_rate)) && s->training.schedule != TRF_NOAM))
        s->training.learning_rate = s->training.schedule == TRF_NOAM ? 1 : found->learning_rate;
    if (!is_given(s, AT(training.consistency))) s->training.consistency = found->consistency;
    if (is_auto(s, AT(training.label_smoothing)))
        s->training.label_smoothing = found->label_smoothing;
    if (is_given(s, AT(train.dropout))) return;
    if (is_auto(s, AT(training.dropout))) s->training.dropout = found->dropout;
    if (is_auto(s, AT(training.residual_dropout)))
        s->training.residual_dropout = found->residual_dropout;
    if (is_auto(s, AT(training.attention_dropout)))
        s->training.attention_dropout = found->attention_dropout;
    if (is_auto(s, AT(training.activation_dropout)))
        s->training.activation_dropout = found->activation_dropout;
}

// -----------------------------------------------------------------------------------------------
// >>updates        how many there will be, and when to validate
// -----------------------------------------------------------------------------------------------

enum { NO_PLAN = -1, ENDLESS_COSINE = 1 << 30 };     /* the latter until the time is known */

/* Prints the recipe's reasons line by line, without those that the user's options override. */
static void say_reasons(const struct settings *s, struct plan *plan, const trf_recipe *recipe)
{
    static const struct { const char *begins; int n; size_t fields[6]; } of[N_REASONS] = {
        {"model:", 6, {AT(train.init_from), AT(train.size), AT(config.d_model), AT(config.d_ff),
                       AT(config.encoder_layers), AT(config.decoder_layers)}},
        {"batches:", 2, {AT(corpus.batch_tokens), AT(train.accumulate)}},
        {"rate:", 4, {AT(training.schedule), AT(training.learning_rate), AT(training.warmup),
                      AT(config.d_model)}},
        {"dropout:", 5, {AT(train.dropout), AT(training.dropout), AT(training.residual_dropout),
                         AT(training.attention_dropout), AT(training.activation_dropout)}},
        {"label smoothing:", 1, {AT(training.label_smoothing)}}};   /* say_schedule tells the end */
    const char *line = recipe->reasons;
    int i, k, own;
    for (; *line && s->train.recipe == RECIPE_AUTO; line += strcspn(line, "\n") + 1)
        for (i = 0; i < N_REASONS; i++) {
            if (strncmp(line, of[i].begins, strlen(of[i].begins))) continue;
            for (k = own = 0; k < of[i].n; k++) own |= is_given(s, of[i].fields[k]);
            if (own) continue;
            inform("%.*s%s\n", (int)strcspn(line, "\n"), line,
                   i == REASON_RATE && isfinite(s->train.minutes)
                       ? "; in a short run the rise is shorter" : "");
            plan->explained[i] = 1;
        }
}

/* The approximate number of updates in all: those done, and those that the remaining batches make.
   NO_PLAN: only time or patience ends training. */
static int64_t planned_updates(const struct settings *s, const struct plan *plan)
{
    int64_t all = s->train.updates, epochs = s->corpus.epochs, drawn = plan->drawn, left;
    if (epochs != TRF_ENDLESS && epochs <= INT64_MAX / 2 / plan->batches) {
        left = epochs * plan->batches > drawn ? epochs * plan->batches - drawn : 0;
        left = plan->updates + (left + s->train.accumulate - 1) / s->train.accumulate;
        if (left < all) all = left;
    }
    return all == INT64_MAX ? NO_PLAN : all;
}

static void decide_validation(struct settings *s, const trf_learn_options *found)
{
    if (!is_given(s, AT(train.valid_every))) s->train.valid_every = found->valid_every;
    if (!is_given(s, AT(train.patience)))
        s->train.patience = isfinite(s->train.minutes) ? 0 : found->patience;
    if (!is_given(s, AT(train.cooldown)))
        s->train.cooldown = s->train.patience && s->training.schedule != TRF_COSINE
                          ? found->cooldown : 0;
    if (is_auto(s, AT(train.ema))) s->train.ema = found->ema;
}

void settle_validation(struct settings *s, const struct plan *plan)
{
    if (s->train.valid_every == 0) s->train.valid_every = plan->per_epoch;
}

int check_ends(const struct settings *s, const struct plan *plan)
{
    if (s->train.cooldown > 0 && !(s->train.patience && plan->validates)) {
        say("--cooldown begins where --patience would end training, but nothing does: give "
            "--patience N%s", plan->validates ? "" : ", and validation pairs");
        return USAGE;
    }
    if (planned_updates(s, plan) != NO_PLAN || isfinite(s->train.minutes) ||
        (plan->validates && s->train.patience))
        return DONE;
    say("training has no end: give --updates, --epochs or --minutes, or validation pairs and "
        "--patience%s", plan->facts.pairs < 20 && !plan->validates
            ? "; of fewer than 20 lines none is held out" : "");
    return USAGE;
}

/* The end of a cosine must lie after the warm-up. */
static int64_t cosine_end(const trf_train_options *o, int64_t planned)
{
    return planned > o->warmup || o->warmup == INT64_MAX ? planned : o->warmup + 1;
}

int ends_cosine(const struct settings *s)
{
    return is_given(s, AT(training.total_steps)) && s->training.total_steps != 0;
}

static void warn_of_cosine(const struct settings *s, const struct plan *plan, int64_t planned)
{
    long long end = (long long)s->training.total_steps;
    if (planned == NO_PLAN && plan->fit & TRF_FIT_COSINE) return;
    if (planned == NO_PLAN)
        say("cosine ends at update %lld, if training gets that far; --total-steps sets the update",
            end);
    else if (planned > end)
        say("warning: cosine ends at update %lld, but training continues: give a larger "
            "--total-steps",
            end);
    else if (planned > s->training.warmup && planned < end / 2)
        say("warning: the rate falls until update %lld, but there are only %lld updates: it "
            "stays high",
            end, (long long)planned);
}

/* The update at which a cosine ends. stored->total_steps is 0 in a new training run, and if the
   checkpoint had another schedule.
       --total-steps is given                                    there
       --updates or --epochs are planned, and it is new or
       has ended with such a plan so far                         with the plan of now
       it is new, without a plan                                 refused
       it has a number of its own                                there, and a message if the plan
                                                                 goes further */
int settle_cosine(struct settings *s, struct plan *plan, const trf_train_options *stored)
{
    int64_t planned = planned_updates(s, plan);
    if (s->training.schedule != TRF_COSINE || ends_cosine(s)) {
        plan->cosine_follows = 0;
        return DONE;
    }
    if (planned != NO_PLAN && (plan->cosine_follows || stored->total_steps == 0)) {
        s->training.total_steps = cosine_end(&s->training, planned);
        plan->cosine_follows = 1;
        return DONE;
    }
    if (stored->total_steps == 0) {
        say("--schedule cosine needs its end: --total-steps, --updates, --epochs or --minutes");
        return USAGE;
    }
    s->training.total_steps = cosine_end(&s->training, stored->total_steps);
    return DONE;
}

void say_schedule(const struct settings *s, const struct plan *plan)
{
    int64_t planned = planned_updates(s, plan);
    static const char *const schedules[] = {"noam", "inverse-sqrt", "cosine", "constant"};
    long long most =
        (long long)fmax(s->corpus.batch_tokens, plan->longest + 1) * s->train.accumulate;
    char end[128], ends[64] = "";
    if (planned != NO_PLAN) snprintf(end, sizeof end, ", %lld in all", (long long)planned);
    else if (isfinite(s->train.minutes))
        snprintf(end, sizeof end, ", for %g minute%s", s->train.minutes, s->train.minutes == 1 ? ""
                 : "s");
    else
        snprintf(end, sizeof end, ", until %d validation%s in a row bring%s no better score",
                 (int)s->train.patience, plural(s->train.patience), s->train.patience == 1 ? "s"
                     : "");
    if (isfinite(s->train.minutes) && planned != NO_PLAN)
        snprintf(ends, sizeof ends, ", %g minute%s at most", s->train.minutes,
                 s->train.minutes == 1 ? "" : "s");
    inform("updates: about %lld per pass over the data%s%s; ", (long long)plan->per_epoch, end,
           ends);
    if (plan->validates)
        inform("validated every %lld by %s\n", (long long)s->train.valid_every,
               metric_name(metric_of(s)));
    else inform("not validated\n");
    if (!plan->explained[REASON_RATE])
        inform("schedule: %s, peak %.3g after %lld update%s\n", schedules[s->training.schedule],
               trf_learning_rate(&s->training, s->config.d_model, s->training.warmup),
               (long long)s->training.warmup, plural(s->training.warmup));
    if (!plan->explained[REASON_BATCHES])
        inform("batches: at most %lld token%s a side in an update\n", most, plural(most));
    if (!plan->updates && planned > 0 && s->training.warmup > planned / 2 &&
        s->training.warmup > 1)
        say("warning: the rate rises for %lld updates, but there %s only %lld: the model will "
            "hardly learn; give a smaller --warmup, smaller --batch-tokens or more --epochs",
            (long long)s->training.warmup, planned == 1 ? "is" : "are", (long long)planned);
    if (s->training.schedule == TRF_COSINE) warn_of_cosine(s, plan, planned);
}

/* A run that only time ends learns from its first updates how many fit. What was given stays. */
static int32_t fit_to_time(const struct settings *s)
{
    int32_t fit = 0;
    if (!isfinite(s->train.minutes)) return 0;
    if (is_auto(s, AT(training.warmup))) fit |= TRF_FIT_WARMUP;
    if (s->training.schedule == TRF_COSINE && !ends_cosine(s)) fit |= TRF_FIT_COSINE;
    if (!is_given(s, AT(train.valid_every))) fit |= TRF_FIT_VALIDATION;
    return fit;
}

int decide_schedule(struct settings *s, struct plan *plan)
{
    trf_recipe recipe;
    int64_t planned = planned_updates(s, plan);
    if (find_recipe(s, plan, planned == NO_PLAN ? 0 : planned > 0 ? planned : 1, &recipe))
        return FAILED;
    take_training(s, &recipe.training);
    if (s->train.effort && isfinite(s->train.minutes) && is_auto(s, AT(training.schedule)))
        s->training.schedule = TRF_COSINE;      /* its end is known */
    decide_validation(s, &recipe.learning);
    settle_validation(s, plan);
    if (check_ends(s, plan)) return USAGE;
    plan->fit = fit_to_time(s);
    if (s->training.schedule == TRF_COSINE && s->training.total_steps == 0) {
        if (planned == NO_PLAN && plan->fit) planned = ENDLESS_COSINE;
        if (planned == NO_PLAN) {
            say("--schedule cosine needs its end: --total-steps, --updates, --epochs or "
                "--minutes");
            return USAGE;
        }
        s->training.total_steps = cosine_end(&s->training, planned);
        plan->cosine_follows = !(plan->fit & TRF_FIT_COSINE);
    }
    say_reasons(s, plan, &recipe);
    say_schedule(s, plan);
    return DONE;
}
