// Several models that answer as one: --model, and those of --with.

#include "answer.h"

#include <math.h>

/* One number for each model from --ensemble-weights, "2,1". */
static int read_weights(const struct settings *s, struct ensemble *e)
{
    const char *at = s->ensemble_weights;
    char *end;
    int32_t k;
    for (k = 0; at && k < e->n; k++) {
        e->weights[k] = strtod(at, &end);
        if (end == at || *end != (k < e->n - 1 ? ',' : 0) || !(e->weights[k] > 0)) {
            say("--ensemble-weights takes a number above 0 for each of %d model%s, as in 2,1; got "
                "'%s'", (int)e->n, plural(e->n), s->ensemble_weights);
            return USAGE;
        }
        at = end + 1;
    }
    return DONE;
}

/* An option that has no sense without --with. */
static int check_alone(const struct settings *s)
{
    static const size_t fields[] = {AT(search.ensemble.rule), AT(ensemble_weights)};
    size_t i;
    for (i = 0; i < sizeof fields / sizeof *fields; i++)
        if (is_given(s, fields[i])) {
            say("--%s needs several models: --with names one more", option_name(fields[i]));
            return USAGE;
        }
    return DONE;
}

int load_ensemble(struct settings *s, trf_model *first, const trf_vocab *source,
                  struct ensemble *e)
{
    struct settings other = *s;
    int32_t k;
    int status = DONE;
    e->names[0] = s->model;
    e->models[0] = first;
    e->source[0] = source;
    e->n = 1;
    if (s->with.n == 0) return check_alone(s);
    if (s->with.n >= TRF_MAX_MODELS) {
        say("--with takes up to %d models, got %d", TRF_MAX_MODELS - 1, s->with.n);
        return USAGE;
    }
    for (k = 1; k <= s->with.n && !status; k++) {
        const trf_vocab *target;
        other.model = e->names[k] = s->with.item[k - 1];
        other.model_is_argument = 0;
        status = load_model(&other, &e->others[k], &e->source[k], &target);
        e->models[k] = e->others[k];
        e->n += !status;
    }
    if (status || (status = read_weights(s, e)) || e->n == 1) return status;
    s->search.ensemble.models = s->sampling.ensemble.models = e->models;
    s->search.ensemble.weights = s->sampling.ensemble.weights = s->ensemble_weights ? e->weights
                                                                                     : NULL;
    s->search.ensemble.n = s->sampling.ensemble.n = e->n;
    return DONE;
}

int open_model(const struct settings *s, const struct ensemble *e, const trf_model *model,
               const char *doing, trf_reader **reader)
{
    trf_reader_options o;
    trf_error err;
    memset(&o, 0, sizeof o);
    o.weights = s->search.weights;
    o.threads = s->search.threads;
    o.source_tagged = s->search.source_tagged;
    o.hooks = s->search.hooks;
    if (e) o.ensemble = s->search.ensemble;
    if (!trf_reader_create(reader, model, &o, &err)) return DONE;
    return e ? ensemble_refused(e, doing, &err) : refused(doing, &err);
}

int ensemble_refused(const struct ensemble *e, const char *doing, const trf_error *err)
{
    if (strcmp(err->what, "models") || err->where < 1 || err->where >= e->n)
        return refused(doing, err);
    say("%s does not go with %s: %s", e->names[err->where], e->names[0], err->message);
    return FAILED;
}

int32_t least_of(const struct ensemble *e, int32_t (*of)(const trf_config *))
{
    int32_t least = of(trf_model_config(e->models[0])), k;
    for (k = 1; k < e->n; k++) {
        int32_t one = of(trf_model_config(e->models[k]));
        if (one < least) least = one;
    }
    return least;
}

int32_t longest_rows(const trf_config *config) { return config->max_length; }

int reads_each(const struct ensemble *e)
{
    return e->n > 1 && trf_model_config(e->models[0])->kind == TRF_ENCODER_DECODER;
}

/* The first of a batch forgets the batch before. */
int add_each(const struct settings *s, struct ensemble *e, const struct side *first,
             const char *text, int tagged, char why[300])
{
    int32_t k, n;
    for (k = 1; reads_each(e) && k < e->n; k++) {
        const int32_t limit = source_limit(trf_model_config(e->models[k]));
        struct side *side = &e->sides[k];
        if (first->count == 1) clear_side(side);
        if (tagged ? add_tagged_text(s, 0, side, e->source[k], text, limit, &n, why)
                   : add_text(side, e->source[k], text, room_beside_tags(s, 0, limit), &n, why)) {
            while (--k > 0) drop_last(&e->sides[k]);
            return FAILED;
        }
    }
    return DONE;
}

void drop_each(struct ensemble *e)
{
    int32_t k;
    for (k = 1; reads_each(e) && k < e->n; k++) drop_last(&e->sides[k]);
}

void all_sources(const struct ensemble *e, const struct side *first, trf_sequences *sources)
{
    int32_t k;
    for (k = 0; k < e->n; k++) sources[k] = sequences_of(k ? &e->sides[k] : first);
}

int shows_one(const struct ensemble *e, const char *options)
{
    if (e->n == 1) return DONE;
    say("%s shows what one model does: it cannot be combined with --with", options);
    return USAGE;
}

void free_ensemble(struct ensemble *e)
{
    int32_t k;
    for (k = 1; k < TRF_MAX_MODELS; k++) {
        trf_model_destroy(e->others[k]);
        free_side(&e->sides[k]);
    }
}
