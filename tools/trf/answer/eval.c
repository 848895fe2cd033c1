// trf eval: hypotheses beside references: BLEU, chrF, exact matches, error rates.
//
// Line n of every file belongs to line n of the others. metrics.c computes the values and their
// signatures; the lines have the form of sacreBLEU, so that they can be quoted like its results.

#include "answer.h"
#include "tools/metrics/metrics.h"

#include <math.h>

/* A line of --worst. */
struct compared { int64_t number; double value; char *reference, *hypothesis; };

struct evaluation {
    struct settings *s;
    struct metrics *metrics;
    unsigned figures;                               /* --metrics, as bits */
    struct reader readers[2 + MAX_TEXTS];           /* hypotheses, references */
    int n;
    const char **references;                        /* of the line at hand */
    size_t capacity;
    struct compared *lines;
    size_t n_lines, lines_capacity;
    struct metrics_sums by_length[LENGTH_CLASSES];
    int64_t unknown[2];                             /* lines with an unknown token, of the first two readers */
};

/* The first metric of a list with commas, without the spaces around it, or -1. *next: the rest of
   the list, or NULL. */
static int first_figure(const char *list, const char **next)
{
    size_t length = strcspn(list, ","), begin = strspn(list, " "), end = length;
    *next = list[length] ? list + length + 1 : NULL;
    while (end > begin && list[end - 1] == ' ') end--;
    return metrics_figure_named(list + begin, end - begin);
}

static int read_figures(struct evaluation *e)
{
    const char *at = e->s->eval.metrics, *next;
    for (; at; at = next) {
        int figure = first_figure(at, &next);
        if (figure < 0) {
            say("--metrics takes some of bleu,chrf,chrf++,exact,wer,cer, got '%.*s'",
                (int)strcspn(at, ","), at);
            return USAGE;
        }
        e->figures |= 1u << figure;
    }
    return DONE;
}

static int open_files(struct evaluation *e, const char *references, const char *hypotheses)
{
    const struct texts *more = &e->s->eval.references;
    int i, k, status = DONE;
    for (i = -2; i < more->n && !status; i++) {
        const char *path = i == -2 ? hypotheses : i == -1 ? references : more->item[i];
        status = open_reader(&e->readers[e->n], path);
        if (status) break;
        for (k = 0; k < e->n; k++) {
            if (!same_stream(e->readers[k].file, e->readers[e->n].file)) continue;
            say("only one of the files can be %s", e->readers[k].name);
            status = USAGE;
            break;
        }
        e->n++;
    }
    return status;
}

/* One line of each file. 1: they are there; 0: all end here; -1: an error, after its message. */
static int next_lines(struct evaluation *e)
{
    int i, k, got = 0, lines = 0;
    for (i = 0; i < e->n; i++) {
        if ((got = next_line(&e->readers[i])) < 0) return -1;
        lines += got;
    }
    if (lines == 0) return 0;
    for (i = 0; i < e->n && lines == e->n; i++) {
        const struct reader *r = &e->readers[i];
        if (!r->fault) continue;
        say("%s:%lld: %s", r->name, (long long)r->number, r->fault);
        return -1;
    }
    if (lines == e->n) return 1;
    for (i = 0; i < e->n; i++) while ((got = next_line(&e->readers[i]))) if (got < 0) return -1;
    for (k = 1; e->readers[k].number == e->readers[0].number; k++) { }
    say_unequal(&e->readers[0], &e->readers[k]);
    return -1;
}

/* The references of the lines just read; with --alternatives the non-empty parts between tabs. */
static int split_references(struct evaluation *e)
{
    size_t n = 0;
    int i;
    for (i = 1; i < e->n; i++) {
        char *at = e->readers[i].line, *tab = NULL;
        do {
            if (e->s->eval.alternatives && (tab = strchr(at, '\t'))) *tab++ = 0;
            if (e->s->eval.alternatives && !*at) continue;
            e->references = grow(e->references, &e->capacity, n + 1, sizeof *e->references);
            e->references[n++] = at;
        } while ((at = tab));
    }
    if (n > 0) return (int)n;
    e->references = grow(e->references, &e->capacity, 1, sizeof *e->references);
    e->references[0] = "";
    return 1;
}

// -----------------------------------------------------------------------------------------------
// >>lines          the worst lines; metrics by length
// -----------------------------------------------------------------------------------------------

/* The metric that orders lines. */
static enum figure ranking(const struct evaluation *e)
{
    const char *rest;
    if (e->figures >> FIGURE_CHRF & 1) return FIGURE_CHRF;
    return (enum figure)first_figure(e->s->eval.metrics, &rest);
}

static int is_error_rate(enum figure which) { return which == FIGURE_WER || which == FIGURE_CER; }

/* sums: of the line alone. */
static void note_line(struct evaluation *e, const struct metrics_sums *sums)
{
    struct compared *c;
    int64_t units = count_units(e->references[0], e->s->eval.tokenize == METRICS_CHAR);
    metrics_sums_add(&e->by_length[length_class(units)], sums, 1);
    if (!e->s->eval.worst) return;
    e->lines = grow(e->lines, &e->lines_capacity, e->n_lines + 1, sizeof *e->lines);
    c = &e->lines[e->n_lines++];
    c->number = e->readers[0].number;
    c->value = metrics_value_of(sums, ranking(e));
    if (is_error_rate(ranking(e))) c->value = -c->value; /* so that the smallest is the worst */
    c->reference = format_text("%s", e->references[0]);
    c->hypothesis = format_text("%s", e->readers[0].line);
}

static int by_value(const void *a, const void *b)
{
    const struct compared *x = (const struct compared *)a, *y = (const struct compared *)b;
    if (x->value < y->value) return -1;
    if (x->value > y->value) return 1;
    return x->number < y->number ? -1 : 1;
}

/* Fewer than N if the other lines are perfect. */
static void print_worst(const struct evaluation *e)
{
    const double perfect = is_error_rate(ranking(e)) ? 0 : 100;
    const char *name = metrics_figures[ranking(e)].title;
    size_t i, n = (size_t)e->s->eval.worst < e->n_lines ? (size_t)e->s->eval.worst : e->n_lines;
    qsort(e->lines, e->n_lines, sizeof *e->lines, by_value);
    printf(e->s->json ? ",\"worst\":[" : "\nworst lines by %s\n", name);
    for (i = 0; i < n; i++) {
        const struct compared *c = &e->lines[i];
        if (c->value >= perfect - 1e-9) break;
        if (e->s->json) {
            printf("%s{\"line\":%lld,\"metric\":\"%s\"", i ? "," : "", (long long)c->number,
                   metrics_figures[ranking(e)].name);
            print_json_field(stdout, "score", fabs(c->value));
            print_json_member(stdout, "reference", c->reference);
            print_json_member(stdout, "hypothesis", c->hypothesis);
            putchar('}');
            continue;
        }
        printf("%8lld  %6.2f  reference   ", (long long)c->number, fabs(c->value));
        print_clean(stdout, c->reference, SIZE_MAX);
        printf("\n%8s  %6s  hypothesis  ", "", "");
        print_clean(stdout, c->hypothesis, SIZE_MAX);
        putchar('\n');
    }
    if (e->s->json) putchar(']');
}

/* NAN: BLEU of references without four words. */
static double value_of(const struct metrics_sums *sums, int figure)
{
    return figure == FIGURE_BLEU && !sums->bleu[3].reference
               ? NAN
               : metrics_value_of(sums, (enum figure)figure);
}

static void print_by_length(const struct evaluation *e)
{
    const char *unit = e->s->eval.tokenize == METRICS_CHAR ? "characters" : "words", *comma = "";
    int k, i;
    if (e->s->json) printf(",\"by_length\":[");
    else printf("\n%12s  %7s", unit, "lines");
    for (i = 0; i < FIGURES && !e->s->json; i++)
        if (e->figures >> i & 1) printf("  %7s", metrics_figures[i].title);
    if (!e->s->json) putchar('\n');
    for (k = 0; k < LENGTH_CLASSES; k++) {
        const struct metrics_sums *sums = &e->by_length[k];
        long long from = k ? 1LL << (k - 1) : 0, to = k ? (1LL << k) - 1 : 0;
        if (!sums->sentences) continue;
        if (e->s->json) printf("%s{\"from\":%lld,\"to\":%lld,\"lines\":%lld", comma, from, to,
                               (long long)sums->sentences);
        else {
            char range[48];
            snprintf(range, sizeof range, from == to ? "%lld" : "%lld-%lld", from, to);
            printf("%12s  %7lld", range, (long long)sums->sentences);
        }
        for (i = 0; i < FIGURES; i++) {
            if (!(e->figures >> i & 1)) continue;
            if (e->s->json) print_json_field(stdout, metrics_figures[i].name, value_of(sums, i));
            else if (isnan(value_of(sums, i))) printf("  %7s", "-");
            else printf("  %7.2f", value_of(sums, i));
        }
        putchar(e->s->json ? '}' : '\n');
        comma = ",";
    }
    if (e->s->json) putchar(']');
}

static int is_named(const struct reader *r, const char *word)
{
    return strstr(name_of(r->name), word) != NULL;
}

/* Exchanged files have nearly the same figures, so no figure shows it. */
static void hint_exchanged(const struct evaluation *e)
{
    const struct reader *hypotheses = &e->readers[0], *references = &e->readers[1];
    const int named = (is_named(hypotheses, "ref") && !is_named(references, "ref")) ||
                      (is_named(references, "hyp") && !is_named(hypotheses, "hyp"));
    if (!named && !(e->unknown[1] > e->unknown[0])) return;
    say("warning: '%s' is read as references and '%s' as hypotheses, but %s; references come first",
        references->name, hypotheses->name,
        named ? "their names say the opposite"
              : "the references have unknown tokens, which models write");
}

static int evaluate(struct evaluation *e)
{
    int got, n, i;
    while ((got = next_lines(e)) > 0) {
        struct metrics_sums before = *metrics_sums(e->metrics), line;
        for (i = 0; i < 2; i++)
            e->unknown[i] += strstr(e->readers[i].line, "<unk>") ||
                             strstr(e->readers[i].line, "\xE2\x81\x87");     /* SentencePiece's */
        n = split_references(e);
        if (!metrics_add(e->metrics, e->readers[0].line, e->references, n)) {
            line = *metrics_sums(e->metrics);
            metrics_sums_add(&line, &before, -1);
            if (e->s->eval.worst || e->s->eval.by_length) note_line(e, &line);
            continue;
        }
        say("%s:%lld: out of memory", e->readers[0].name, (long long)e->readers[0].number);
        return FAILED;
    }
    if (got < 0) return FAILED;
    if (metrics_sums(e->metrics)->sentences > 0) return DONE;
    say("%s and %s have no lines", e->readers[0].name, e->readers[1].name);
    return FAILED;
}

static void print_figure(const struct evaluation *e, enum figure which, const char *signature)
{
    const struct metrics_sums *sums = metrics_sums(e->metrics);
    struct metrics_bleu b = metrics_bleu(sums);
    printf("%s|%s = %.2f", metrics_figures[which].title, signature,
           metrics_value(e->metrics, which));
    if (which == FIGURE_BLEU)
        printf(" %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %lld ref_len = %lld)",
               b.precision[0], b.precision[1], b.precision[2], b.precision[3], b.brevity,
               sums->reference_length
                   ? (double)sums->hypothesis_length / (double)sums->reference_length
                   : 0,
               (long long)sums->hypothesis_length, (long long)sums->reference_length);
    if (which == FIGURE_EXACT)
        printf(" (%lld of %lld line%s)", (long long)sums->exact, (long long)sums->sentences,
               plural(sums->sentences));
    if (which == FIGURE_WER)
        printf(" (%lld error%s, %lld word%s)", (long long)sums->word_errors,
               plural(sums->word_errors), (long long)sums->words, plural(sums->words));
    if (which == FIGURE_CER)
        printf(" (%lld error%s, %lld character%s)", (long long)sums->character_errors,
               plural(sums->character_errors), (long long)sums->characters,
               plural(sums->characters));
    putchar('\n');
}

/* Sums of n-grams, order by order. */
static void print_json_counts(const struct metrics_counts *counts, int orders)
{
    static const char *const names[3] = {"hypotheses", "references", "matches"};
    int k, i;
    for (k = 0; k < 3; k++) {
        printf(",\"%s\":[", names[k]);
        for (i = 0; i < orders; i++) {
            int64_t count = k == 0   ? counts[i].hypothesis
                            : k == 1 ? counts[i].reference
                                     : counts[i].matches;
            printf("%s%lld", i ? "," : "", (long long)count);
        }
        putchar(']');
    }
}

static void print_json_figure(const struct evaluation *e, enum figure which, const char *signature)
{
    const struct metrics_sums *sums = metrics_sums(e->metrics);
    int64_t errors = which == FIGURE_WER ? sums->word_errors : sums->character_errors;
    int64_t units = which == FIGURE_WER ? sums->words : sums->characters;
    printf(",\"%s\":{\"score\":", metrics_figures[which].name);
    print_json_number(stdout, metrics_value(e->metrics, which));
    printf(",\"signature\":\"%s\"", signature);
    if (which == FIGURE_BLEU) {
        print_json_field(stdout, "brevity_penalty", metrics_bleu(sums).brevity);
        printf(",\"hypothesis_length\":%lld,\"reference_length\":%lld",
               (long long)sums->hypothesis_length, (long long)sums->reference_length);
        print_json_counts(sums->bleu, 4);
    }
    if (which == FIGURE_CHRF) print_json_counts(sums->chrf, 6);
    if (which == FIGURE_CHRFPP) print_json_counts(sums->chrfpp, 8);
    if (which == FIGURE_EXACT) printf(",\"lines\":%lld", (long long)sums->exact);
    if (which == FIGURE_WER || which == FIGURE_CER)
        printf(",\"errors\":%lld,\"%s\":%lld", (long long)errors,
               which == FIGURE_WER ? "words" : "characters", (long long)units);
    putchar('}');
}

static void print_results(const struct evaluation *e)
{
    char signature[160];
    int i;
    if (e->s->json) printf("{\"lines\":%lld", (long long)metrics_sums(e->metrics)->sentences);
    for (i = 0; i < FIGURES; i++) {
        if (!(e->figures >> i & 1)) continue;
        metrics_signature(e->metrics, (enum figure)i, "trf-" TRF_VERSION, signature,
                          sizeof signature);
        (e->s->json ? print_json_figure : print_figure)(e, (enum figure)i, signature);
    }
    if (e->s->eval.by_length) print_by_length(e);
    if (e->s->eval.worst) print_worst(e);
    if (e->s->json) puts("}");
}

int command_eval(struct settings *s, int argc, char **argv)
{
    struct evaluation e;
    struct metrics_options options;
    int status = DONE, i;
    memset(&e, 0, sizeof e);
    e.s = s;
    if (argc < 1 || argc > 2) {
        say("give a file of references, then a file of hypotheses, or none for standard input");
        return USAGE;
    }
    for (i = 0; i < argc; i++) if (check_not_output(argv[i])) return FAILED;
    if ((status = read_figures(&e))) return status;
    memset(&options, 0, sizeof options);
    options.figures = e.figures;
    options.tokens = s->eval.tokenize;
    options.lowercase = s->eval.lowercase;
    status = open_files(&e, argv[0], argc > 1 ? argv[1] : NULL);
    if (!status && !(e.metrics = metrics_create(&options))) {
        say("out of memory");
        status = FAILED;
    }
    if (!status) status = evaluate(&e);
    if (!status) {
        const struct metrics_sums *sums = metrics_sums(e.metrics);
        if ((e.figures >> FIGURE_BLEU & 1) && sums->bleu[3].reference == 0)
            say("warning: no reference has four words: BLEU counts n-grams of up to four words, "
                "so it means nothing here; use chrf, exact or cer");
        hint_exchanged(&e);
        print_results(&e);
        status = check_output(stdout, NULL);
    }
    for (i = 0; i < e.n; i++) close_reader(&e.readers[i]);
    metrics_destroy(e.metrics);
    free(e.references);
    for (; e.n_lines; e.n_lines--) {
        free(e.lines[e.n_lines - 1].reference);
        free(e.lines[e.n_lines - 1].hypothesis);
    }
    free(e.lines);
    return status;
}
