// trf export: the weights. A model becomes one with the fields of an architecture, and its
// parameters become tensors of the recipe's names.

#include "export.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>conversion     other fields, the same results
//
//   sines as learned positions     a table of them
//   scaled embeddings              the weights times sqrt(d_model), where the output has its own
//   tied as untied                 a copy
//   no bias, no segments           zeros
//   interleaved sines as halves    the features of all states change places: feature j of a state
//                                  is feature order(j) of ours, in every matrix that reads or
//                                  writes states, and in every norm
// -----------------------------------------------------------------------------------------------

static int is_embedding(const char *name)
{
    return !strcmp(name, "src_embed.weight") || !strcmp(name, "tgt_embed.weight");
}

/* The parameter of `from` that becomes `name`, or -1: it is computed or zero. */
static int32_t find_source(const trf_model *from, const char *name)
{
    static const char *const tied[] = {"tgt_embed.weight", "src_embed.weight"};
    int32_t index = trf_model_parameter_index(from, name), i;
    int starts = !strcmp(name, "generator.weight") ? 0 : !strcmp(name, tied[0]) ? 1 : 2;
    for (i = starts; i < 2 && index < 0; i++) index = trf_model_parameter_index(from, tied[i]);
    return index;
}

/* Positions of one side, the first max_length of them, behind the rows that the offset skips. No
   token has those, but published models have numbers there: they stay if the offset does. */
static int fill_positions(const trf_model *from, const trf_config *to, trf_tensor *p)
{
    const trf_config *c = trf_model_config(from);
    trf_tensor used = trf_tensor_of(p->data + to->position_offset * p->shape[1], 2, to->max_length,
                                    p->shape[1], 1);
    trf_error err;
    if (c->positions == TRF_POSITIONS_LEARNED) {
        trf_tensor learned =
            trf_model_parameter(from, trf_model_parameter_index(from, p->name));
        int64_t more = c->position_offset == to->position_offset ? to->position_offset : 0;
        memcpy(used.data - more * p->shape[1],
               learned.data + (c->position_offset - more) * p->shape[1],
               (size_t)((to->max_length + more) * p->shape[1]) * sizeof *used.data);
    } else if (c->positions != TRF_POSITIONS_NONE &&
               trf_position_table(c->positions, c->position_offset, &used, &err))
        return refuse_error("positions", &err);
    return DONE;
}

static int64_t order(int64_t j, int64_t d) { return j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1; }

/* Puts the features of states in their new order: columns of what reads them, rows of what writes
   them. */
static void reorder(trf_tensor *p)
{
    static const char *const reads[] = {"embed.weight", "generator.weight", "in_proj_weight",
                                        "linear1.weight"};
    static const char *const neither[] = {"in_proj_bias", "linear1.bias", "generator.bias"};
    int64_t height = p->shape[0], columns = p->rank > 1 ? p->shape[1] : 1, i, k;
    size_t bytes = (size_t)(height * columns) * sizeof *p->data, n;
    trf_real *old;
    int by_column = 0;
    for (n = 0; n < sizeof neither / sizeof *neither; n++)
        if (ends_with(p->name, neither[n])) return;
    for (n = 0; n < sizeof reads / sizeof *reads; n++) by_column |= ends_with(p->name, reads[n]);
    old = zeroed(bytes, 1);
    memcpy(old, p->data, bytes);
    for (i = 0; i < height; i++)
        for (k = 0; k < columns; k++)
            p->data[i * columns + k] = by_column ? old[i * columns + order(k, columns)]
                                                 : old[order(i, height) * columns + k];
    free(old);
}

static int fill_parameter(const trf_model *from, const trf_config *to, trf_tensor *p)
{
    const trf_config *c = trf_model_config(from);
    int32_t index = find_source(from, p->name);
    int64_t n = trf_tensor_count(p), i;
    trf_real scale = (trf_real)sqrt((double)c->d_model);
    trf_tensor old;
    if (ends_with(p->name, "_positions.weight")) return fill_positions(from, to, p);
    if (index < 0) return DONE;
    old = trf_model_parameter(from, index);
    if (trf_tensor_count(&old) != n)
        return refuse("%s has %lld numbers, but needs %lld", p->name,
                      (long long)trf_tensor_count(&old), (long long)n);
    memcpy(p->data, old.data, (size_t)n * sizeof *p->data);
    if (is_embedding(p->name) && c->scale_embeddings && !to->scale_embeddings)
        for (i = 0; i < n; i++) p->data[i] *= scale;
    if (c->positions == TRF_POSITIONS_INTERLEAVED && to->positions == TRF_POSITIONS_HALVES)
        reorder(p);
    return DONE;
}

int convert_model(const trf_model *from, const trf_config *to, trf_model **made)
{
    const trf_model_options zeros = {1, 0, 0};
    trf_error err;
    int32_t i;
    if (trf_model_create(made, to, &zeros, &err)) return refuse_error("the converted model", &err);
    for (i = 0; i < trf_model_parameter_count(*made); i++) {
        trf_tensor p = trf_model_parameter(*made, i);
        if (fill_parameter(from, to, &p)) return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>tensors        parameters of ours become tensors of theirs: the pieces of import backwards
// -----------------------------------------------------------------------------------------------

struct writing {
    const trf_model *model;
    const char *prefix;
    char *written;              /* 1 for each parameter that a piece has taken */
    trf_tensor *tensor;
    trf_real **made;            /* numbers of no parameter, by tensor; or NULL */
    size_t n, capacity, made_capacity;
};

/* The way to write a piece that has several: the last one for a gate, and for a source embedding
   beside another one of the target; else the first one. */
static const char *way_to_write(const trf_config *c, const char *ours, char *theirs)
{
    int other = (c->feed_forward_gate && strstr(ours, "linear1")) ||
                (!strcmp(ours, "src_embed.weight") &&
                 (c->tying == TRF_UNTIED || c->tying == TRF_TIED_DECODER));
    char *bar = other ? strrchr(theirs, '|') : NULL;
    if (bar) return bar + 1;
    theirs[strcspn(theirs, "|")] = 0;
    return theirs;
}

/* One tensor: `count` rows of the parameter. theirs: its name, with marks. */
static void add_tensor(struct writing *w, const trf_tensor *p, int64_t row, int64_t count,
                       const char *theirs, size_t length)
{
    int transposed = *theirs == '^', one_row = *theirs == '-', marks = transposed || one_row;
    int64_t columns = p->rank > 1 ? p->shape[1] : 1, i, k;
    trf_tensor t = trf_tensor_of(p->data + row * columns, p->rank, count, columns, 1);
    trf_real *made = NULL;
    if (one_row) t = trf_tensor_of(t.data, 2, 1, count, 1);
    if (transposed) {
        made = zeroed((size_t)(count * columns), sizeof *made);
        for (i = 0; i < count; i++)
            for (k = 0; k < columns; k++) made[k * count + i] = t.data[i * columns + k];
        t = trf_tensor_of(made, 2, columns, count, 1);
    }
    theirs += marks;
    length -= (size_t)marks;
    if (*theirs == '/') t.name = format_text("%.*s", (int)length - 1, theirs + 1);
    else t.name = format_text("%s%.*s", w->prefix, (int)length, theirs);
    w->tensor = grow(w->tensor, &w->capacity, w->n + 1, sizeof *w->tensor);
    w->made = grow(w->made, &w->made_capacity, w->n + 1, sizeof *w->made);
    w->tensor[w->n] = t;
    w->made[w->n++] = made;
}

/* A table of sines, in a model that has such positions. */
static void write_sines(struct writing *w, const struct piece *piece)
{
    const trf_config *c = trf_model_config(w->model);
    trf_tensor table = trf_tensor_of(NULL, 2, c->max_length, c->d_model, 1);
    trf_error err;
    if (c->positions != TRF_POSITIONS_HALVES) return;
    table.data = zeroed((size_t)trf_tensor_count(&table), sizeof *table.data);
    if (trf_position_table(c->positions, c->position_offset, &table, &err))
        say_error("sines", &err);
    add_tensor(w, &table, 0, c->max_length, piece->theirs, strlen(piece->theirs));
    w->made[w->n - 1] = table.data;
}

static void write_piece(struct writing *w, const struct piece *piece, int layer)
{
    const trf_config *c = trf_model_config(w->model);
    char ours[MOST_NAME], theirs[MOST_NAME];
    const char *way, *at;
    trf_tensor p;
    int64_t row = 0;
    int32_t index;
    int n = 1, part;
    name_layer(ours, piece->ours, layer);
    index = trf_model_parameter_index(w->model, ours);
    if (index < 0 || w->written[index]) return;
    w->written[index] = 1;
    p = trf_model_parameter(w->model, index);
    name_layer(theirs, piece->theirs + (*piece->theirs == '?'), layer);
    way = way_to_write(c, ours, theirs);
    for (at = way; *at; at++) n += *at == ' ';
    for (part = 0, at = way; part < n; part++) {
        size_t length = strcspn(at, " ");
        int64_t count = rows_of_part(c, p.shape[0], part, n);
        add_tensor(w, &p, row, count, at, length);
        row += count;
        at += length + 1;
    }
}

static void write_list(struct writing *w, const struct piece *piece)
{
    const trf_config *c = trf_model_config(w->model);
    int32_t layers = c->encoder_layers > c->decoder_layers ? c->encoder_layers : c->decoder_layers;
    int32_t k;
    for (; piece && piece->ours; piece++)
        if (!strcmp(piece->ours, PIECE_OF_SINES)) write_sines(w, piece);
        else for (k = 0; k < (strstr(piece->ours, "%d") ? layers : 1); k++)
            write_piece(w, piece, k);
}

int write_weights(const struct fit *fit, const trf_model *model, const char *path)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    struct writing w;
    int32_t n = trf_model_parameter_count(model), i;
    trf_error err;
    int status = DONE;
    size_t k;
    memset(&w, 0, sizeof w);
    w.model = model;
    w.written = zeroed((size_t)n, 1);
    /* models with heads have the second prefix, which a plain encoder lacks */
    w.prefix = fit->recipe->prefixes[fit->head->class_name ? 1 : 0];
    write_list(&w, fit->recipe->pieces);
    write_list(&w, fit->head->pieces);
    for (i = 0; i < n && !status; i++)
        if (!w.written[i])
            status = refuse("nothing of %s takes the parameter %s", fit->recipe->type,
                            trf_model_parameter(model, i).name);
    if (!status && trf_file_save(path, w.tensor, (int32_t)w.n, metadata, NULL, &err))
        status = refuse_error(NULL, &err);
    for (k = 0; k < w.n; k++) {
        free((char *)(uintptr_t)w.tensor[k].name);
        free(w.made[k]);
    }
    free(w.tensor);
    free(w.made);
    free(w.written);
    return status;
}
