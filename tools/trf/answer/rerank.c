// trf rerank: lines in the order in which they answer a query, by a model that scores pairs.

#include "answer.h"

struct reranking {
    struct settings *s;
    trf_model *model;
    trf_reader *reader;
    struct reader in;
    struct text texts;              /* the lines that compete */
    const char **line;              /* of each of them */
    double *score;
    int32_t *order;
    int64_t lines, unusable;
};

/* Reads all lines that can be compared. */
static int read_candidates(struct reranking *t)
{
    int got = 0, status = open_reader(&t->in, t->s->input);
    while (!status && (got = next_line(&t->in)) > 0) {
        t->lines++;
        if (!t->in.fault) { store_line(&t->texts, t->in.line, t->in.number); continue; }
        if (t->unusable++ < 5) say("%s:%lld: %s", t->in.name, (long long)t->in.number, t->in.fault);
    }
    close_reader(&t->in);
    if (!status && t->texts.count > INT32_MAX) { say("more than 2147483647 lines"); return FAILED; }
    return status || got < 0 ? FAILED : DONE;
}

static void write_ranked(struct reranking *t, const char *query)
{
    int64_t n = (int64_t)t->texts.count, shown = t->s->answer.labels_shown < n
        ? t->s->answer.labels_shown : n, i;
    for (i = 0; i < shown; i++) {
        int32_t k = t->order[i];
        if (!t->s->json) { printf("%.6g\t%s\n", t->score[k], t->line[k]); continue; }
        printf("{\"line\":%lld", (long long)t->texts.numbers[k]);
        if (!t->s->embed.query) print_json_member(stdout, "query", query);
        print_json_field(stdout, "score", t->score[k]);
        print_json_member(stdout, "text", t->line[k]);
        puts("}");
    }
    if (!t->s->embed.query && !t->s->json) putchar('\n');
}

/* what: where the query stands, for messages. */
static int rank_lines(struct reranking *t, const char *query, const char *what)
{
    trf_error err;
    if (trf_reader_rank(t->reader, query, t->line, (int32_t)t->texts.count, t->score, t->order, &err)) {
        if (err.status == TRF_E_FORMAT && err.where >= 0)
            say("%s:%lld: %s", t->in.name, (long long)t->texts.numbers[err.where], err.message);
        else say("%s: %s", what, err.message);
        return FAILED;
    }
    write_ranked(t, query);
    return check_output(stdout, NULL);
}

static int rank_for_queries(struct reranking *t)
{
    struct reader queries;
    char what[64];
    int got = 0, bad = 0, status = open_reader(&queries, t->s->answer.queries);
    while (!status && (got = next_line(&queries)) > 0) {
        snprintf(what, sizeof what, "query %lld", (long long)queries.number);
        if (queries.fault) {
            say("%s:%lld: %s", queries.name, (long long)queries.number, queries.fault);
            if (!t->s->json) putchar('\n');
            bad = 1;
        } else status = rank_lines(t, queries.line, what);
    }
    close_reader(&queries);
    return status || got < 0 || bad ? FAILED : DONE;
}

static int rank_all(struct reranking *t)
{
    size_t n = t->texts.count, i;
    int status;
    t->line = zeroed(n + 1, sizeof *t->line);
    t->score = zeroed(n + 1, sizeof *t->score);
    t->order = zeroed(n + 1, sizeof *t->order);
    for (i = 0; i < n; i++) t->line[i] = line_of(&t->texts, i);
    status = t->s->embed.query ? rank_lines(t, t->s->embed.query, "--query") : rank_for_queries(t);
    if (t->unusable)
        say("%lld of %lld line%s could not be compared", (long long)t->unusable,
            (long long)t->lines, plural(t->lines));
    return status || t->unusable ? FAILED : DONE;
}

static int check_scorer(const struct reranking *t)
{
    const trf_config *c = trf_model_config(t->model);
    if (c->label_kind && c->n_labels == 1 && c->segments) return DONE;
    if (!c->label_kind || c->n_labels != 1)
        say("%s: this model does not score texts: needed is one that was trained with --objective "
            "classify --label-kind number (or any) and has one output", t->s->model);
    else say("%s: this model reads no pairs of texts: it was trained without --segments",
             t->s->model);
    return FAILED;
}

static int check_options(const struct settings *s)
{
    if (!s->embed.query == !s->answer.queries) {
        say("give --query TEXT, or --queries FILE with a query in each line");
        return USAGE;
    }
    if (!s->answer.queries || strcmp(s->answer.queries, "-") || (s->input && strcmp(s->input, "-")))
        return DONE;
    say("--queries and the lines cannot both come from standard input");
    return USAGE;
}

int command_rerank(struct settings *s, int argc, char **argv)
{
    const trf_vocab *vocab, *unused;
    struct reranking t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    if ((status = take_input(s, argc, argv)) || (status = check_options(s))) return status;
    status = load_model(s, &t.model, &vocab, &unused);
    if (!status) status = check_scorer(&t);
    if (!status) status = open_model(s, NULL, t.model, "ranking", &t.reader);
    if (!status) status = read_candidates(&t);
    if (!status) status = rank_all(&t);
    free((void *)t.line);
    free(t.score);
    free(t.order);
    free_text(&t.texts);
    trf_reader_destroy(t.reader);
    trf_model_destroy(t.model);
    return status;
}
