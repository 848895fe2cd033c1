#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "model/checks.h"
#include "model/params.h"

// >>stacks         what the encoder and the decoder consist of

enum { TRF__SOURCE = 1, TRF__TARGET = 2, TRF__HEAD = 4 };       /* sides; HEAD: the head's rows */

typedef struct trf__sublayer {
    trf__sublayer_spec is;
    trf__norm_params next_norm;         /* that follows: its own; pre-norm: the next one's */
    trf__drop hidden_drop, residual_drop;
    trf__act *projected, *memory, *hidden;    /* see >>sublayers */
    trf_real *stats;
    trf__act *s, *y;
    trf_real *norm_stats;
} trf__sublayer;

/* A stack's part of the block, on the host or on the device. Per row: the id that it reads (-1: the
   zero vector), its target, its position in the sequence, the number of the sequence in the whole
   step, and its segment, if the model has segments. group_rows and group_first, rows grouped by
   id, are for training. only, parents and slots are for decoding: forced tokens, continued rows,
   slots in the cache (>>translate). */
typedef struct trf__lists {
    int32_t *ids, *targets, *position, *sentence, *segment;
    int32_t *group_rows, *group_first;
    int32_t *only, *parents, *slots;
    trf__span *self, *cross;            /* per sequence */
} trf__lists;

/* Keys and values of the decoder's layers that stay from token to token: see >>translate. */
typedef struct trf__cache {
    trf__act *self, *cross;             /* layer i begins at i * self_layer, i * cross_layer */
    int64_t self_layer, cross_layer, area, self_area;   /* areas of a sentence: cross; self or 0 */
    const int32_t *backpointers;        /* (rows, stride) slots of own tokens; NULL: its area */
    int64_t stride;
} trf__cache;

typedef struct trf__stack {
    int decoder;                        /* 0: the encoder, 1: the decoder */
    int embeds;                         /* 0: `embedded` comes from another stage */
    int first_layer;                    /* number of the first layer that the pass has */
    int per_layer, n_sublayers;
    trf__sublayer *sublayers;
    int32_t begins, ends;               /* 1: BOS, EOS is added to a sequence */
    int32_t tagged;                     /* 1: EOS comes before the last id of a sequence */
    int64_t positions, segments;        /* where learned positions and segments begin, or -1 */
    int embed_shared;                   /* backward: its gradient has been set elsewhere already */
    trf__norm_params embed_norm;            /* of embeddings, or gain -1 */
    trf__norm_params first_norm;            /* pre-norm: in front of the first sublayer */
    trf__norm_params final_norm;        /* post-norm; with pre-norm it follows the last sublayer */
    trf__drop drop;                     /* on the embedding */
    const trf__cache *cache;            /* while decoding token by token, else NULL */
    /* the batch */
    int64_t rows, n_self, n_cross, n_groups;
    int64_t max_queries, max_keys, max_memory;       /* of any span; keys, self and cross */
    trf__lists host, device;
    /* activations */
    trf__act *sum, *embedded, *first_y, *final_y;       /* sum: before embed_norm */
    trf_real *embed_stats, *first_stats, *final_stats;
    trf__act *out;                      /* set by forward: the stack's result */
} trf__stack;

/* What >>read takes from a pass: memory of the host for each part, or NULL. */
typedef struct trf__views {
    const trf_tensor *attention[TRF_ATTENTION_KIND_COUNT];      /* of each sequence */
    trf_real *states[2];                /* of the encoder and of the decoder: the first of these */
    int64_t rows[2];                    /* rows, which a state has so many of */
    trf_real *map;                      /* scratch on the device: attention of one sequence */
} trf__views;

/* The parts of a pass, each with one duty. */

/* The model's weights, and how the device keeps them for products (TRF__PACKS_...). */
typedef struct trf__pass_weights {
    const trf_real *plain;
    int packs;
    void *packed;               /* or NULL */
    size_t packed_bytes;        /* 0: the packed weights belong to the model or the trainer */
} trf__pass_weights;

/* What an arena has: what backward needs of forward, and what no other call needs. The slots of a
   stage have the former each, and share the latter. */
enum { TRF__KEPT = 1, TRF__SCRATCH = 2 };

/* What is planned: the largest batch, and the arena that all activations are cut from. */
typedef struct trf__pass_plan {
    int has;                    /* of TRF__KEPT and TRF__SCRATCH */
    trf__limits limits;
    trf__sublayer *sublayers;   /* the encoder's, then the decoder's */
    char *arena;
    size_t arena_bytes;
} trf__pass_plan;

/* What a batch is: step numbers, then both stacks' lists; written on the host, uploaded at once. */
typedef struct trf__pass_block {
    trf__now now;
    char *host, *device;
    size_t bytes;
} trf__pass_block;

/* What only the backward pass needs. The activations' gradients lie in the arena. */
typedef struct trf__pass_back {
    trf_real *gradients;        /* of the weights, in the trainer's arena */
    int first;                  /* 1: they are empty */
    int options_set;            /* counts changes of options, and of what slots of a stage share:
                                   lists recorded before one are not played again */
    /* gradients of activations: see >>backward and >>acts */
    trf__act *ds, *dsub, *din, *dencoded, *dprojected, *dmemory, *dhidden;
    trf_real *partial;          /* gradients of the numbers for distances, by sequence; or NULL */
    const trf_real *teachers;   /* trf__loss.teachers and share, for the labels of tokens */
    double share;
    /* called with the offset in the arena from which gradients are final: those of a layer and of
       all above it; or NULL */
    void (*finished)(void *who, int64_t begin);
    void *who;
} trf__pass_back;

/* Losses of rows and their sums, in the arena: of the rows of the target, and of sequences. */
typedef struct trf__pass_losses {
    void *scratch;
    double *row_loss[2], *row_nll[2];
    trf__sums *sums;
} trf__pass_losses;

/* The layer of a head (head_layer): h = x U^T + c, a = tanh(h) or act(h), y = norm(a). */
typedef struct trf__head_acts {
    const trf__affine *layer;
    trf__norm_params norm;
    int activation;
    trf__act *h, *a, *y;                /* without a norm y is a */
    trf_real *stats;
} trf__head_acts;

/* The second head (sequence_labels): the first row of each sequence, its layer, its loss. */
typedef struct trf__sequence_head {
    trf__act *pooled, *x;               /* (sentences, d); x: what its matrix multiplies */
    trf__head_acts layer;
    int32_t *host, *device;             /* (sentences) labels, or -1 */
} trf__sequence_head;

typedef struct trf__pass {
    trf__run run;
    const trf_config *config;
    const trf__layout *layout;
    int training, sides;                /* sides: of a batch, that its layers read */
    int projects;                       /* 1: it has the last layer, so projection and loss */
    trf__pass_weights weights;
    trf__pass_plan plan;
    trf__pass_block block;
    trf__pass_back back;
    trf__pass_losses loss;
    trf__stack encoder, decoder;
    trf__head_acts head;
    float *numbers[2];                  /* host, device: (rows, n_labels) as in trf__loss */
    trf__sequence_head sequence;
    int copies;                         /* of a batch: 2 while a trainer with consistency learns */
    int64_t n_sentences, target_rows;   /* of the batch itself: no padding, no labels of -1 */
    const trf__views *views;            /* what >>read takes from this batch, or NULL */
    trf_real *table;                    /* of positions: (longest, d_model) added to embeddings, or
                                           (longest, rotary_width) rotations; or NULL */
    int32_t *buckets;                   /* of distances, encoder first (trf__distance_row) */
    trf__act *proj;                     /* (rows, d): a sublayer's result before add_norm */
    trf__act *converted;                /* the next sublayer's input as converted rows, or NULL */
} trf__pass;

/* Stack 0 is the encoder, stack 1 the decoder. */
TRF__FN trf__stack *trf__stack_of(trf__pass *pass, int decoder)
{
    trf__stack *const stacks[2] = {&pass->encoder, &pass->decoder};
    return stacks[decoder];
}

// >>acts           the arena of a pass
//
// trf__pass_layout decides what is stored. It runs twice: with base NULL to count, then to cut.
//
//   per stack     embedded, and sum if that has a norm (rows, d); per sublayer projected, memory,
//                 hidden, stats (see >>sublayers); s, y (rows, d); mean and factor of its norm
//                 (rows, 2); without training one set for all, and none of the statistics;
//                 recomputing one set a layer for all layers, and per layer the last sublayer's s
//                 and statistics
//   of a head     h, a, y (target rows, d) of its layer; the same of a second head, for sentences
//   once          table of positions, proj (rows, d), room for logits, losses (target rows)
//   to train      ds, dsub, din, dencoded (rows, d) and gradients of projected, memory, hidden: one
//                 set for all sublayers; with a number for each distance, its gradients of every
//                 sequence (sentences, heads, buckets)

/* Bytes of a converted row, or 0: the pass keeps floats. */
TRF__FN size_t trf__converted_bytes(const trf__pass *pass, int64_t k, int64_t part)
{
    return pass->training ? 0 : pass->run.backend->converted_row(pass->run.format, k, part);
}

TRF__FN trf__act *trf__take_acts(trf__cursor *cursor, const trf__pass *pass, int64_t rows,
                                 int64_t columns)
{
    return (trf__act *)trf__take(cursor, rows, trf__bytes(columns, pass->run.element));
}

/* Reserves a sublayer's activations for `rows` rows and `memory_rows` rows of its memory. */
TRF__FN void trf__take_sublayer(trf__cursor *cursor, const trf__pass *pass, trf__sublayer *sub,
                                const trf__sublayer_spec *is, int64_t rows, int64_t memory_rows)
{
    sub->s = trf__take_acts(cursor, pass, rows, is->out.out);
    sub->y = trf__take_acts(cursor, pass, rows, is->out.out);
    sub->projected = trf__take_acts(cursor, pass, rows, is->projected);
    sub->hidden = trf__take_acts(cursor, pass, rows, is->hidden);
    sub->memory = is->memory ? trf__take_acts(cursor, pass, memory_rows, is->memory) : NULL;
    sub->stats = pass->training && is->heads ? trf__take_reals(cursor, rows, 2 * is->heads) : NULL;
    sub->norm_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
}

/* Reserves the activations of one stack; without sublayers it only counts. In a pass that does not
   train, all sublayers share the same memory. s and y come first in it, since the next sublayer
   reads them. A pass that recomputes shares it among layers. But each layer keeps the s of its last
   sublayer, from which the layer above is computed (y is the norm of s), and the stack keeps its
   last y. */
TRF__FN void trf__take_stack(trf__cursor *cursor, const trf__pass *pass, trf__stack *stack)
{
    const trf_config *c = pass->config;
    const int64_t limits[2] = {pass->plan.limits.source_rows, pass->plan.limits.target_rows};
    int64_t d = c->d_model, rows = limits[stack->decoder];
    /* an encoder without sublayers before a decoder holds the encoder's output */
    int used = stack->n_sublayers || trf__pools(c) || (!stack->decoder && trf__has_target(c));
    size_t most;
    stack->embedded = trf__take_acts(cursor, pass, used ? rows : 0, d);
    if (!stack->n_sublayers) return;
    size_t first = most = cursor->used;
    for (int i = 0; i < stack->n_sublayers; i++) {
        trf__sublayer local, *sub = stack->sublayers ? &stack->sublayers[i] : &local;
        trf__sublayer_spec is = trf__sublayer_spec_of(c, stack->decoder, i);
        if (!pass->training || (pass->plan.limits.recompute && i % stack->per_layer == 0))
            cursor->used = first;
        trf__take_sublayer(cursor, pass, sub, &is, rows, pass->plan.limits.source_rows);
        if (cursor->used > most) most = cursor->used;
    }
    cursor->used = most;
    /* from the second layer on: the shared memory then holds the last s of the first layer */
    for (int i = 2 * stack->per_layer - 1; pass->plan.limits.recompute && i < stack->n_sublayers;
             i += stack->per_layer) {
        trf__sublayer local, *sub = stack->sublayers ? &stack->sublayers[i] : &local;
        sub->s = trf__take_acts(cursor, pass, rows, d);
        sub->norm_stats = trf__take_reals(cursor, rows, 2);
        if (i == stack->n_sublayers - 1) sub->y = trf__take_acts(cursor, pass, rows, d);
    }
    if (c->embedding_norm && stack->embeds) {
        stack->sum = trf__take_acts(cursor, pass, rows, d);
        stack->embed_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
    }
    stack->first_y = trf__take_acts(cursor, pass, rows, d);
    stack->final_y = trf__take_acts(cursor, pass, rows, d);
    stack->first_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
    stack->final_stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
}

/* Scratch for the gradients of a sublayer's activations. The largest sublayer decides its size. */
TRF__FN void trf__take_widest(trf__cursor *cursor, trf__pass *pass, int64_t rows)
{
    int64_t wide = 0, inner = 0, memory = 0;
    for (int stack = 0; stack < 2; stack++)
        for (int i = 0; i < trf__stack_of(pass, stack)->n_sublayers; i++) {
            trf__sublayer_spec is = trf__sublayer_spec_of(pass->config, stack, i);
            wide = trf__max64(wide, is.projected);
            inner = trf__max64(inner, is.hidden);
            memory = trf__max64(memory, is.memory);
        }
    pass->back.dprojected = trf__take_acts(cursor, pass, rows, wide);
    pass->back.dhidden = trf__take_acts(cursor, pass, rows, inner);
    pass->back.dmemory = trf__take_acts(cursor, pass, pass->plan.limits.source_rows, memory);
}

/* Reserves the activations of a head's layer. */
TRF__FN void trf__take_head(trf__cursor *cursor, const trf__pass *pass, trf__head_acts *head,
                            int64_t rows, int normalises)
{
    int64_t d = pass->config->d_model;
    if (!pass->config->head_layer || !pass->projects) rows = 0;
    head->h = trf__take_acts(cursor, pass, rows, d);
    head->a = trf__take_acts(cursor, pass, rows, d);
    head->y = normalises ? trf__take_acts(cursor, pass, rows, d) : head->a;
    head->stats = pass->training ? trf__take_reals(cursor, rows, 2) : NULL;
    head->activation = normalises ? (int)pass->config->activation : (int)TRF__TANH;
    head->norm.gain = head->norm.bias = -1;
}

/* Reserves the activations of both heads. The list of a pass on paper has no layout. */
TRF__FN void trf__take_heads(trf__cursor *cursor, trf__pass *pass)
{
    const trf_config *c = pass->config;
    trf__sequence_head *second = &pass->sequence;
    int64_t sentences = c->sequence_labels && pass->projects ? pass->plan.limits.sentences : 0;
    trf__take_head(cursor, pass, &pass->head, pass->plan.limits.target_rows,
                   c->head == TRF_HEAD_MASKED);
    second->pooled = trf__take_acts(cursor, pass, sentences, c->d_model);
    trf__take_head(cursor, pass, &second->layer, sentences, 0);
    if (!pass->layout) return;
    pass->head.layer = &pass->layout->model.head_layer;
    pass->head.norm = pass->layout->model.head_norm;
    second->layer.layer = &pass->layout->model.sequence_layer;
}

/* Room for the logits of the loss: that of the head that needs more. */
TRF__FN size_t trf__loss_room(const trf__pass *pass)
{
    const trf_config *c = pass->config;
    const trf__limits *l = &pass->plan.limits;
    const trf__backend *on = pass->run.backend;
    size_t tokens = on->loss_scratch(&pass->run.device, l->target_rows, trf__n_logits(c),
                                     c->d_model, !pass->training, l->copies > 1), sequences;
    if (!c->sequence_labels) return tokens;
    sequences = on->loss_scratch(&pass->run.device, l->sentences, c->sequence_labels, c->d_model,
                                 !pass->training, l->copies > 1);
    return tokens > sequences ? tokens : sequences;
}

/* Scratch of the projection and the loss, if this pass has them. */
TRF__FN void trf__take_losses(trf__cursor *cursor, trf__pass *pass)
{
    const trf_config *c = pass->config;
    const trf__limits *l = &pass->plan.limits;
    for (int k = 0; k < 2; k++) {
        int64_t rows = k == 0 ? l->target_rows
                     : c->sequence_labels && pass->projects ? l->sentences : 0;
        pass->loss.row_loss[k] = TRF__TAKE(double, cursor, rows);
        pass->loss.row_nll[k] = TRF__TAKE(double, cursor, rows);
    }
    pass->loss.sums = TRF__TAKE(trf__sums, cursor, c->sequence_labels ? 2 : 1);
    pass->loss.scratch = NULL;
    if (pass->projects && (trf__has_target(c) || (c->head && pass->training)))
        pass->loss.scratch = trf__take(cursor, 1, trf__loss_room(pass));
}

/* Reserves what no later call needs. */
TRF__FN void trf__take_scratch(trf__cursor *cursor, trf__pass *pass)
{
    const trf_config *c = pass->config;
    const trf__limits *l = &pass->plan.limits;
    int64_t rows = trf__max64(l->source_rows, l->target_rows), d = c->d_model;
    if (c->sequence_labels) rows = trf__max64(rows, l->sentences);
    pass->table = NULL;
    if (trf__is_sinusoidal(c)) pass->table = trf__take_reals(cursor, l->longest, d);
    if (c->positions == TRF_POSITIONS_ROTARY)
        pass->table = trf__take_reals(cursor, l->longest, trf__rotary_width(c));
    if (c->positions == TRF_POSITIONS_RELATIVE)
        pass->buckets = TRF__TAKE(int32_t, cursor, 2 * trf__distances(c));
    pass->proj = trf__take_acts(cursor, pass, rows, d);
    size_t bytes = trf__converted_bytes(pass, d, d);
    pass->converted = (trf__act *)trf__take(cursor, rows, bytes);
    if (bytes == 0) pass->converted = NULL;
    trf__take_losses(cursor, pass);
    if (!pass->training) return;
    pass->back.ds = trf__take_acts(cursor, pass, rows, d);
    pass->back.dsub = trf__take_acts(cursor, pass, rows, d);
    pass->back.din = trf__take_acts(cursor, pass, rows, d);
    pass->back.dencoded = trf__take_acts(cursor, pass, c->sequence_labels ? rows : l->source_rows,
                                         d);
    trf__take_widest(cursor, pass, rows);
    if (c->positions == TRF_POSITIONS_RELATIVE)
        pass->back.partial = trf__take_reals(cursor, l->sentences * c->n_heads,
                                             c->relative_buckets);
}

/* Lays the whole arena out; returns its size. base NULL: only the size. */
TRF__FN size_t trf__pass_layout(trf__pass *pass, char *base)
{
    trf__cursor cursor = trf__cursor_at(base);
    if (pass->plan.has & TRF__KEPT) {
        trf__take_stack(&cursor, pass, &pass->encoder);
        trf__take_stack(&cursor, pass, &pass->decoder);
        trf__take_heads(&cursor, pass);
    }
    if (pass->plan.has & TRF__SCRATCH) trf__take_scratch(&cursor, pass);
    return cursor.used;
}

// >>act-lists      the block of a batch: its lists, on the host and on the device

/* Reserves a stack's lists for this number of rows and spans. */
TRF__FN void trf__take_lists(trf__cursor *cursor, trf__lists *lists, const trf__pass *pass,
                             int64_t rows, int64_t n_self, int64_t n_cross)
{
    lists->ids = TRF__TAKE(int32_t, cursor, rows);
    lists->position = TRF__TAKE(int32_t, cursor, rows);
    lists->sentence = TRF__TAKE(int32_t, cursor, rows);
    lists->segment = TRF__TAKE(int32_t, cursor, pass->config->segments ? rows : 0);
    lists->targets = TRF__TAKE(int32_t, cursor, rows);
    lists->group_rows = TRF__TAKE(int32_t, cursor, pass->training ? rows : 0);
    lists->group_first = TRF__TAKE(int32_t, cursor, pass->training ? rows + 1 : 0);
    lists->self = TRF__TAKE(trf__span, cursor, n_self);
    lists->cross = TRF__TAKE(trf__span, cursor, n_cross);
}

/* Cuts the block, on the host or on the device, for the rows and spans that the stacks have now.
   Returns its size. */
TRF__FN size_t trf__block_layout(trf__pass *pass, char *base, int device)
{
    trf__cursor cursor = trf__cursor_at(base);
    trf__take(&cursor, 1, sizeof(trf__now));
    for (int i = 0; i < 2; i++) {
        trf__stack *stack = trf__stack_of(pass, i);
        trf__take_lists(&cursor, device ? &stack->device : &stack->host, pass, stack->rows,
                        stack->n_self, stack->n_cross);
    }
    pass->numbers[device] = (float *)trf__take(&cursor, pass->training && pass->projects
                                                   ? pass->decoder.rows : 0,
                                               trf__bytes(trf__wanted_numbers(pass->config),
                                                          sizeof(float)));
    *(device ? &pass->sequence.device : &pass->sequence.host) =
        TRF__TAKE(int32_t, &cursor, pass->config->sequence_labels ? pass->encoder.n_self : 0);
    return cursor.used;
}

/* The largest block that these limits allow. */
TRF__FN size_t trf__block_most(const trf__pass *pass)
{
    const trf__limits *l = &pass->plan.limits;
    trf__pass count = *pass;
    count.encoder.rows = l->source_rows; count.encoder.n_self = l->sentences;
    count.encoder.n_cross = 0;
    count.decoder.rows = l->target_rows;
    count.decoder.n_self = count.decoder.n_cross = l->sentences;
    return trf__block_layout(&count, NULL, 0);
}
