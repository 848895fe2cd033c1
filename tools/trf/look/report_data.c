// trf report: the lines of --data, the answers of the model, and their scores. See report.h.
//
// All lines are read before the first is answered, so a file with wrong columns is refused at once.
// A line that is too long for the model is shown with the reason and counts as an empty answer. A
// line that is not text (a NUL, not UTF-8), does not have one label for each word, or is too long
// for a language model is shown too, but does not count.

#include "report.h"

#include <errno.h>
#include <math.h>

enum { REPORTED = 5 }; /* lines that cannot be read; the others are only counted */

// -----------------------------------------------------------------------------------------------
// >>model          its task
// -----------------------------------------------------------------------------------------------

static enum task task_of(const trf_config *config)
{
    if (config->kind == TRF_ENCODER_DECODER) return TASK_TRANSLATE;
    if (config->kind == TRF_DECODER_ONLY) return TASK_TEXT;
    if (classifies(config)) return TASK_CLASSIFY;
    return config->head == TRF_HEAD_TOKENS ? TASK_TAG : TASK_NONE;
}

static int load(struct data *d)
{
    struct settings *s = d->s;
    trf_load_options options = load_options(s);
    const trf_config *config;
    trf_error err;
    if (check_readable(s->model) || (s->report.data && check_readable(s->report.data)))
        return FAILED;
    if (trf_model_load(&d->model, s->model, &options, &err)) return load_refused(s->model, &err);
    config = trf_model_config(d->model);
    d->vocab[0] = trf_model_vocab(d->model, TRF_SOURCE);
    d->vocab[1] = trf_model_vocab(d->model, TRF_TARGET);
    d->task = task_of(config);
    if (!s->report.data) return DONE;
    if (d->task == TASK_NONE) {
        say("%s: this model fills in hidden tokens, so it has no answers to compare with --data: "
            "give only --model for its vocabulary and its parts, or a model of --objective "
            "translate, causal, classify, tag or span",
            s->model);
        return FAILED;
    }
    if (config->label_kind) {
        say("%s: its labels are %s, which the report does not compare with --data; the log of trf "
            "train has how good they are", s->model,
            config->label_kind == TRF_LABELS_ANY ? "several at once" : "numbers");
        return FAILED;
    }
    if (d->task == TASK_TEXT && s->columns) {
        say("%s is a language model: each line of --data is a text without columns, and --columns "
            "is for pairs",
            s->model);
        return USAGE;
    }
    if ((d->task != TASK_TEXT && !d->vocab[0]) ||
        (config->kind != TRF_ENCODER_ONLY && !d->vocab[1])) {
        say_no_vocabulary(s->model, config, d->vocab[0], d->vocab[1]);
        return FAILED;
    }
    if (d->task == TASK_CLASSIFY || d->task == TASK_TAG)
        return load_labels(d->model, s->model, &d->labels);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>lines
// -----------------------------------------------------------------------------------------------

static char *copied(const char *bytes, size_t n)
{
    char *copy = zeroed(n + 1, 1);
    if (n) memcpy(copy, bytes, n);
    return copy;
}

static struct line *add_line(struct data *d, int64_t number)
{
    struct line *l;
    d->lines = grow(d->lines, &d->capacity, d->n + 1, sizeof *d->lines);
    l = &d->lines[d->n++];
    memset(l, 0, sizeof *l);
    l->number = number;
    l->wanted = l->given = -1;
    return l;
}

/* Takes the reader's line as a pair, or whole with its fault. Wrong columns are an error. */
static int take_pair(struct data *d, struct pair_reader *p)
{
    struct reader *r = &p->side[0];
    struct line *l;
    char *raw = copied(r->line, r->length);
    const char *why;
    cut_pair(p);
    why = p->fault && !r->fault ? p->fault : NULL;
    if (why) {
        say("%s:%lld: %s; --data takes a source, a tab and a reference in each line", r->name,
            (long long)r->number, why);
        free(raw);
        return FAILED;
    }
    l = add_line(d, r->number);
    l->fault = p->fault ? format_text("%s", p->fault) : NULL;
    l->broken = p->fault != NULL;
    l->bytes = p->fault ? r->length : strlen(p->source);
    l->source = p->fault ? raw : format_text("%s", p->source);
    l->reference = format_text("%s", p->fault ? "" : p->target);
    l->answer = format_text("%s", "");
    if (!p->fault) free(raw);
    return DONE;
}

static void take_text(struct data *d, const struct reader *r)
{
    struct line *l = add_line(d, r->number);
    l->fault = r->fault ? format_text("%s", r->fault) : NULL;
    l->broken = r->fault != NULL;
    l->bytes = r->length;
    l->source = copied(r->line, r->length);
    l->reference = r->fault ? format_text("%s", "") : format_text("%s", r->line);
    l->answer = format_text("%s", "");
}

static int read_lines(struct data *d)
{
    struct pair_reader p;
    int status = open_pairs(&p, NULL, NULL, d->s->report.data, d->s->columns), got = 0;
    while (!status && (got = next_line(&p.side[0])) > 0)
        if (d->task == TASK_TEXT) take_text(d, &p.side[0]);
        else status = take_pair(d, &p);
    if (!status && got < 0) status = FAILED;
    if (!status && d->n == 0) {
        say("%s has no lines", d->s->report.data);
        status = FAILED;
    }
    close_pairs(&p);
    return status;
}

/* Lengths are in characters if no reference has several words. */
static void choose_unit(struct data *d)
{
    size_t i;
    if (d->task == TASK_TEXT || d->task == TASK_CLASSIFY || d->task == TASK_TAG) return;
    for (i = 0; i < d->n && count_units(d->lines[i].reference, 0) < 2; i++) {}
    d->characters = i == d->n;
}

const char *unit_of_length(const struct data *d)
{
    if (d->task == TASK_TEXT || d->task == TASK_CLASSIFY) return "tokens";
    return d->characters ? "characters" : "words";
}

int open_data(struct data *d, struct settings *s)
{
    trf_error err;
    int status;
    int32_t n;
    d->s = s;
    if ((status = load(d)) || !s->report.data || (status = read_lines(d))) return status;
    if ((status = read_fixed_tags(s, d->model, d->vocab))) return status;
    if (!is_given(s, AT(search.ban_unk))) s->search.ban_unk = never_writes_unk(d->model);
    if ((status = load_ensemble(s, d->model, d->vocab[0], &d->ensemble))) return status;
    if (trf_translator_create(&d->translator, d->model, &s->search, &err))
        return ensemble_refused(&d->ensemble, "search", &err);
    if (d->ensemble.n > 1 && (status = open_model(s, NULL, d->model, "reader", &d->alone)))
        return status;
    choose_unit(d);
    n = d->labels.n;
    if (d->task == TASK_CLASSIFY || d->task == TASK_TAG)
        d->confusion = zeroed((size_t)(n + 1) * (size_t)n, sizeof *d->confusion);
    return DONE;
}

void free_data(struct data *d)
{
    size_t i;
    for (i = 0; i < d->n; i++) {
        free(d->lines[i].source);
        free(d->lines[i].reference);
        free(d->lines[i].answer);
        free(d->lines[i].fault);
        free(d->lines[i].ids);
    }
    free(d->lines);
    free(d->worst);
    free(d->confusion);
    free(d->counts[0]);
    free(d->counts[1]);
    free_labels(&d->labels);
    metrics_destroy(d->metrics);
    trf_reader_destroy(d->alone);
    trf_translator_destroy(d->translator);
    free_ensemble(&d->ensemble);
    trf_model_destroy(d->model);
}

// -----------------------------------------------------------------------------------------------
// >>answers        a batch of lines at a time
// -----------------------------------------------------------------------------------------------

struct batch {
    struct side side[2];
    size_t *line; /* of each sequence */
    size_t capacity;
    struct word_tokens words;
    trf_real *p;
    double *scores;
    size_t p_capacity, scores_capacity;
    char *text;
    size_t text_capacity;
    struct {
        int32_t *first;
        int32_t n;
    } * tags; /* of each sequence: the first token of each word */
    size_t tags_capacity;
};

static void note_tokens(struct data *d, int side, const int32_t *ids, int32_t n)
{
    int32_t i;
    if (!d->vocab[side]) return;
    if (!d->counts[side])
        d->counts[side] = zeroed((size_t)trf_vocab_size(d->vocab[side]), sizeof **d->counts);
    for (i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= trf_vocab_size(d->vocab[side])) continue;
        d->counts[side][ids[i]]++;
        d->unknown[side] += ids[i] == unknown_id(d->vocab[side]);
    }
    d->tokens[side] += n;
}

static void set_fault(struct data *d, struct line *l, const char *why)
{
    if (!l->fault) l->fault = format_text("%s", why);
    if (d->unusable++ >= REPORTED) return;
    say("%s:%lld: not read by the model: %s%s", d->s->report.data, (long long)l->number, l->fault,
        d->unusable == REPORTED ? "; further ones are only counted" : "");
}

/* Reads the words of a line of tags, and checks that it has a label for each. */
static const char *add_tagged(struct batch *b, struct line *l, int32_t limit, const struct data *d,
                              char why[300])
{
    int64_t labels = count_units(l->reference, 0);
    size_t at = b->side[0].count;
    if (encode_words(d->vocab[0], l->source, &b->words)) snprintf(why, 300, "%s", b->words.why);
    else if (b->words.n > limit)
        snprintf(why, 300, "%d tokens, at most %d", (int)b->words.n, (int)limit);
    else if (labels != b->words.n_words) {
        snprintf(why, 300, "%d word%s, but %lld label%s", (int)b->words.n_words,
                 plural(b->words.n_words), (long long)labels, plural(labels));
        l->broken = 1;
    }
    l->tokens = (int32_t)labels;
    if (*why) return why;
    b->tags = grow(b->tags, &b->tags_capacity, at + 1, sizeof *b->tags);
    b->tags[at].n = b->words.n_words;
    b->tags[at].first = zeroed((size_t)b->words.n_words, sizeof(int32_t));
    if (b->words.n_words)
        memcpy(b->tags[at].first, b->words.first, (size_t)b->words.n_words * sizeof(int32_t));
    add_ids(&b->side[0], b->words.ids, b->words.n);
    return NULL;
}

/* A text of a language model: EOS is one of its ids. */
static const char *add_document(struct batch *b, struct line *l, const struct data *d,
                                char why[300])
{
    const trf_config *config = trf_model_config(d->model);
    struct side *side = &b->side[1];
    int32_t n;
    if (add_text(side, d->vocab[1], l->reference, least_of(&d->ensemble, longest_rows) - 1, &n, why))
        return why;
    if (!config->target_eos) append_id(side, config->eos);
    l->tokens = n + 1;
    return NULL;
}

/* Adds line i to the batch if the model can read it and it is not empty. */
static void add_to_batch(struct data *d, struct batch *b, size_t i)
{
    struct line *l = &d->lines[i];
    int32_t limit = least_of(&d->ensemble, source_limit), n = 0;
    int side = d->task == TASK_TEXT;
    size_t before = b->side[side].count;
    const char *why = l->fault;
    char text[300] = "";
    if (!why && d->task == TASK_TAG) why = add_tagged(b, l, limit, d, text);
    else if (!why && d->task == TASK_TEXT) why = add_document(b, l, d, text);
    else if (!why && add_text(&b->side[0], d->vocab[0], l->source,
                              room_beside_tags(d->s, 0, limit), &n, text)) why = text;
    else if (!why && d->task == TASK_TRANSLATE && b->side[0].count > before &&
             add_each(d->s, &d->ensemble, &b->side[0], l->source, 0, text)) {
        drop_last(&b->side[0]);
        why = text;
    }
    if (why) {
        set_fault(d, l, why);
        return;
    }
    if (d->task == TASK_CLASSIFY) l->tokens = n;
    if (b->side[side].count == before) return;
    n = b->side[side].lengths[before];
    if (n == 0) {
        if (d->task == TASK_TAG) free(b->tags[before].first);
        drop_last(&b->side[side]);
        if (d->task == TASK_TRANSLATE) drop_each(&d->ensemble);
        return;
    }
    note_tokens(d, side, b->side[side].ids + b->side[side].used - n,
                n - (d->task == TASK_TEXT && !trf_model_config(d->model)->target_eos));
    b->line = grow(b->line, &b->capacity, before + 1, sizeof *b->line);
    b->line[before] = i;
}

/* Counts the tokens of a reference among those of the data, although the model does not read
   them. */
static void note_reference(struct data *d, const struct line *l)
{
    struct side side;
    char why[300];
    int32_t n;
    if (d->task != TASK_TRANSLATE || l->fault) return;
    memset(&side, 0, sizeof side);
    if (!add_text(&side, d->vocab[1], l->reference,
                  (int32_t)fmin(INT32_MAX, (double)strlen(l->reference) + 16), &n, why))
        note_tokens(d, 1, side.ids, n);
    free_side(&side);
}

static int translate(struct data *d, struct batch *b)
{
    trf_sequences sources[TRF_MAX_MODELS];
    trf_translate_options o = {NULL, NULL, 0};
    trf_error err;
    int32_t i;
    all_sources(&d->ensemble, &b->side[0], sources);
    o.each = reads_each(&d->ensemble);
    if (trf_translate(d->translator, sources, &o, &err)) {
        say_error("translating", &err);
        return FAILED;
    }
    for (i = 0; i < sources->count; i++) {
        const trf_hypothesis *h = trf_translator_answer(d->translator, i, 0);
        struct line *l = &d->lines[b->line[i]];
        if (!h) continue;
        if (!text_of(d->vocab[1], h->ids, h->n, &b->text, &b->text_capacity)) return FAILED;
        free(l->answer);
        l->answer = format_text("%s", b->text);
        l->n_ids = h->n;
        l->ids = zeroed((size_t)h->n, sizeof *l->ids);
        if (h->n) memcpy(l->ids, h->ids, (size_t)h->n * sizeof *l->ids);
    }
    return DONE;
}

/* p: of each label. */
static void take_label(struct data *d, struct line *l, const trf_real *p)
{
    l->given = best_of(p, d->labels.n);
    l->probability = (double)p[l->given];
    l->wanted = label_number(&d->labels, l->reference, strlen(l->reference));
    l->value = l->wanted < 0 ? 0 : (double)p[l->wanted];
    free(l->answer);
    l->answer = format_text("%s", d->labels.name[l->given]);
}

/* The labels of a line's words, with spaces between them, and how many are wrong. */
static void take_tags(struct data *d, struct line *l, const trf_real *p, const int32_t *first,
                      int32_t n)
{
    const char *at = l->reference;
    size_t used = 0, capacity = 0, bytes;
    char *text = grow(NULL, &capacity, 1, 1);
    int32_t i;
    *text = 0;
    for (i = 0; i < n; i++) {
        int32_t given = best_of(p + (int64_t)first[i] * d->labels.n, d->labels.n), wanted;
        const char *name = d->labels.name[given];
        at += strspn(at, BLANKS);
        bytes = strcspn(at, BLANKS);
        wanted = label_number(&d->labels, at, bytes);
        at += bytes;
        d->confusion[(int64_t)(wanted < 0 ? d->labels.n : wanted) * d->labels.n + given]++;
        l->wrong += wanted != given;
        text = grow(text, &capacity, used + strlen(name) + 2, 1);
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? " " : "", name);
    }
    free(l->answer);
    l->answer = text;
}

/* Labels of texts, or of their words. */
static int find_labels(struct data *d, struct batch *b)
{
    trf_sequences sources = sequences_of(&b->side[0]);
    int tags = d->task == TASK_TAG;
    int64_t labels = d->labels.n, height = tags ? (int64_t)b->side[0].used : sources.count;
    const trf_real *p;
    trf_tensor out;
    trf_error err;
    int32_t i;
    b->p = grow(b->p, &b->p_capacity, (size_t)(height * labels), sizeof *b->p);
    out = trf_tensor_of(b->p, 2, height, labels, 0);
    if (trf_reader_classify(trf_translator_reader(d->translator), &sources, &out, &err)) {
        say_error("labelling", &err);
        return FAILED;
    }
    for (i = 0, p = b->p; i < sources.count; i++) {
        if (tags) {
            take_tags(d, &d->lines[b->line[i]], p, b->tags[i].first, b->tags[i].n);
            free(b->tags[i].first);
        } else take_label(d, &d->lines[b->line[i]], p);
        p += (tags ? sources.lengths[i] : 1) * labels;
    }
    return DONE;
}

static int score(struct data *d, struct batch *b)
{
    trf_batch batch;
    trf_error err;
    int32_t i;
    memset(&batch, 0, sizeof batch);
    batch.target = sequences_of(&b->side[1]);
    b->scores = grow(b->scores, &b->scores_capacity, b->side[1].count, sizeof *b->scores);
    if (trf_reader_score(trf_translator_reader(d->translator), &batch, NULL, b->scores, &err)) {
        say_error("scoring", &err);
        return FAILED;
    }
    for (i = 0; i < batch.target.count; i++) {
        struct line *l = &d->lines[b->line[i]];
        l->log_probability = b->scores[i];
        l->value = b->scores[i] / l->tokens;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>scores         of each line, of each length, of all
// -----------------------------------------------------------------------------------------------

static int add_metrics(struct data *d, struct line *l)
{
    const char *reference = l->reference;
    struct metrics_sums before = *metrics_sums(d->metrics), one;
    if (metrics_add(d->metrics, l->answer, &reference, 1)) {
        say("%s:%lld: out of memory", d->s->report.data, (long long)l->number);
        return FAILED;
    }
    one = *metrics_sums(d->metrics);
    metrics_sums_add(&one, &before, -1);
    l->value = metrics_value_of(&one, FIGURE_CHRF);
    l->right = one.exact == 1;
    l->class_of = length_class(count_units(reference, d->characters));
    metrics_sums_add(&d->by_length[l->class_of].metrics, &one, 1);
    return DONE;
}

static void add_label(struct data *d, struct line *l)
{
    if (l->given >= 0) {
        d->confusion[(int64_t)(l->wanted < 0 ? d->labels.n : l->wanted) * d->labels.n + l->given]++;
        l->right = l->wanted == l->given;
        if (l->right) l->value += 2; /* after all wrong ones */
    } else l->value = -1;
    l->class_of = length_class(l->tokens);
}

/* A line that the model has not read is worse than all others. */
static int take_figures(struct data *d, struct line *l)
{
    struct length_sums *sums;
    if (l->broken || (d->task == TASK_TEXT && l->fault)) {
        l->value = -HUGE_VAL;
        return DONE;
    }
    if (d->task == TASK_TRANSLATE && add_metrics(d, l)) return FAILED;
    if (d->task == TASK_CLASSIFY) add_label(d, l);
    if (d->task == TASK_TAG) {
        if (l->fault) l->wrong = l->tokens;
        l->right = !l->wrong;
        l->value = l->tokens ? 1 - (double)l->wrong / l->tokens : 1;
    }
    if (d->task != TASK_TRANSLATE) l->class_of = length_class(l->tokens);
    if (l->fault) l->value = -HUGE_VAL;
    sums = &d->by_length[l->class_of];
    sums->lines++;
    sums->units += d->task == TASK_CLASSIFY || d->task == TASK_TRANSLATE ? 1 : l->tokens;
    sums->right += d->task == TASK_TAG ? l->tokens - l->wrong : l->right;
    sums->log_probability += l->log_probability;
    return DONE;
}

static const struct line *compared; /* for the comparison of a sort */

static int is_worse(const void *a, const void *b)
{
    const struct line *x = &compared[*(const size_t *)a], *y = &compared[*(const size_t *)b];
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void sort_lines(struct data *d)
{
    size_t i;
    d->worst = zeroed(d->n, sizeof *d->worst);
    for (i = 0; i < d->n; i++) d->worst[i] = i;
    compared = d->lines;
    qsort(d->worst, d->n, sizeof *d->worst, is_worse);
}

static int answer_batch(struct data *d, struct batch *b, size_t from, size_t end)
{
    int status = DONE;
    size_t i;
    clear_side(&b->side[0]);
    clear_side(&b->side[1]);
    for (i = from; i < end; i++) {
        add_to_batch(d, b, i);
        note_reference(d, &d->lines[i]);
    }
    if (b->side[d->task == TASK_TEXT].count) {
        if (d->task == TASK_TRANSLATE) status = translate(d, b);
        else if (d->task == TASK_TEXT) status = score(d, b);
        else status = find_labels(d, b);
    }
    for (i = from; i < end && !status; i++) status = take_figures(d, &d->lines[i]);
    return status;
}

int answer_data(struct data *d)
{
    struct metrics_options options;
    struct batch b;
    double reported = now();
    int status = DONE;
    size_t i;
    memset(&options, 0, sizeof options);
    memset(&b, 0, sizeof b);
    options.figures = 1u << FIGURE_BLEU | 1u << FIGURE_CHRF | 1u << FIGURE_EXACT |
                      1u << FIGURE_WER | 1u << FIGURE_CER;
    if (!(d->metrics = metrics_create(&options))) {
        say("out of memory");
        return FAILED;
    }
    for (i = 0; i < d->n && !status; i += (size_t)d->s->buffer) {
        size_t end = d->n - i < (size_t)d->s->buffer ? d->n : i + (size_t)d->s->buffer;
        status = answer_batch(d, &b, i, end);
        if (now() - reported < 10 || end == d->n) continue;
        inform("%zu of %zu lines answered\n", end, d->n);
        reported = now();
    }
    if (d->unusable)
        say("%lld of %zu line%s could not be read by the model; the report has %s with the reason",
            (long long)d->unusable, d->n, plural((int64_t)d->n), d->unusable == 1 ? "it" : "them");
    sort_lines(d);
    free_side(&b.side[0]);
    free_side(&b.side[1]);
    free_word_tokens(&b.words);
    free(b.line);
    free(b.p);
    free(b.scores);
    free(b.text);
    free(b.tags);
    return status;
}
