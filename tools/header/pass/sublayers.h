#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "ops/ops.h"

// -----------------------------------------------------------------------------------------------
// >>pass           one batch through the model: what is stored, forward, backward
//
// A stack (the encoder or the decoder) is its rows, their embedding, and a list of sublayers. Two
// streams run through the list: the next sublayer reads `in`, and `res` is added to its result:
//
//   s = res + drop(sublayer(in))        post-norm:  y = norm of this sublayer (s)    in = res = y
//                                       pre-norm:   y = norm of the next one (s)    in = y, res = s
//
// So both placements of norms are the same list, and each sublayer names the norm that follows it.
// Pre-norm has one norm before the first sublayer. A final norm comes last. The backward pass walks
// the list from its end, with the gradients of the two streams.
//
// A head (trf_head) takes the decoder's stack, which then has no sublayers. Its rows are the head's
// rows, its targets are the labels, `out` is projected, and `embedded` holds one row a sequence.
//
// The pass of a stage has the stage's layers alone (>>stages). What they read of the stage before
// is copied in from outside: the states to `embedded` of their stack, the encoder's output to
// `embedded` of the encoder's stack, which then has no sublayers.
//
// The ids, positions and spans of a batch lie in one block, which the host fills in and uploads at
// once (>>rows). All activations and their gradients lie in one arena of the device, which is cut
// by the limits of a batch (>>acts). In a pass that does not train, all sublayers of a stack share
// one set of activations.
// -----------------------------------------------------------------------------------------------

// >>sublayers      attention and feed-forward with their projections (paper 3.2.2, 3.3)
//
//   self-attention    projected = x in_w^T + in_b = [q k v]
//                     hidden = attention(q, k, v)                 y = hidden out_w^T + out_b
//   cross-attention   in_w = [W_q; W_k; W_v]      projected = x W_q^T + b_q = q
//                     memory = m [W_k; W_v]^T + [b_k b_v] = [k v]
//   feed-forward      projected = x w1^T + b1
//                     hidden = drop(act(projected))               y = hidden w2^T + b2
//   with a gate       projected = [u v]      hidden = drop(act(u) * v)
//
//   x, y: (N, d)   m: (M, d)   q: (N, h d_head)   k, v: (N or M, kv_heads d_head)
//   projected: [q k v], q, (N, f) or (N, 2f)   memory: [k v]   hidden: as q, or (N, f)
//   with rotary positions q and k of self-attention are turned where they lie (>>rotary)
//
// These are used by the model's passes and by the public blocks alike. What backward needs is what
// forward left in projected, memory, hidden and stats. Keys and values are computed into `fresh`,
// which mostly is `memory` itself. Decoding token by token is the second line in both cases:
// `memory` is a cache, where self-attention puts those of the new token, made in `fresh`, into
// `slots`; cross-attention has nothing new.

/* One sublayer at work. */
typedef struct trf__operands {
    int64_t rows, memory_rows, d, f;    /* N, M, d_model, d_ff */
    int64_t q_width, k_width;           /* numbers of a row's queries, and of its keys or values */
    trf__rows at;                       /* of the N rows */
    trf__mat in_w, out_w;
    const trf_real *in_b, *out_b;
    int activation, gate;
    trf__attention_in attention;        /* spans, heads, mask; trf__attention_of adds q, k and v */
    trf__rotation rotation;             /* of queries and keys; table NULL: none */
    trf__drop drop;                     /* of the attention weights, or after the activation */
    int converted, hidden_converted;    /* 1: x, hidden are converted rows (>>ops) */
    trf__act *projected, *memory, *fresh, *hidden;    /* memory NULL: the first line above */
    const int32_t *slots;               /* NULL, or where in memory the fresh rows belong */
    trf_real *stats;
    /* backward: gradients of parameters; scratch for those of projected, memory and hidden */
    trf_real *d_in_w, *d_in_b, *d_out_w, *d_out_b;
    trf_real *dbias, *partial;          /* of distances, or NULL; see trf__attention_gradient */
    int first, first_bias;              /* 1: set, not added to: parameters' gradients, dbias */
    trf__act *dprojected, *dmemory, *dhidden;
} trf__operands;

/* y (rows, out) = x w^T + b; x is converted rows if `converted`. */
TRF__FN void trf__project_rows(const trf__run *run, trf__act *y, const trf__act *x, int converted,
                               trf__mat w, const trf_real *b, int64_t rows, int64_t out, int64_t in)
{
    trf__linear l;
    l.y = y; l.x = x; l.w = w; l.b = b; l.rows = rows; l.out = out; l.in = in;
    l.converted = converted;
    run->backend->linear(run, &l);
}

/* The rows of in_w that make keys and values. */
TRF__FN trf__mat trf__keys_weight(const trf__operands *sub)
{
    trf__mat w = sub->in_w;
    w.row += sub->q_width;
    return w;
}

/* Keys and values of m (M, d). */
TRF__FN void trf__project_memory(const trf__run *run, const trf__operands *sub, const trf__act *m,
                                 int converted)
{
    trf__project_rows(run, sub->fresh, m, converted, trf__keys_weight(sub),
                      sub->in_b ? sub->in_b + sub->q_width : NULL, sub->memory_rows,
                      2 * sub->k_width, sub->d);
}

/* Where queries, keys and values lie: side by side in one projection (self-attention), or keys and
   values in a memory of their own. */
TRF__FN trf__attention_in trf__attention_of(const trf__run *run, const trf__operands *sub)
{
    trf__attention_in a = sub->attention;
    a.q = sub->projected;
    a.k = sub->memory ? sub->memory : trf__act_at(run, sub->projected, sub->q_width);
    a.v = trf__act_at(run, sub->memory ? sub->memory : sub->projected,
                      sub->memory ? sub->k_width : sub->q_width + sub->k_width);
    a.ldk = 2 * sub->k_width + (sub->memory ? 0 : sub->q_width);
    a.ldq = sub->memory ? sub->q_width : a.ldk;
    a.drop = sub->drop;
    return a;
}

/* The weights of all heads, for span number s. `span` is the host's copy of it. */
TRF__FN void trf__attention_maps(const trf__run *run, const trf__attention_in *in, int64_t s,
                                 const trf__span *span, trf_real *maps)
{
    trf__attention_weights a;
    a.in = *in;
    a.in.spans += s;
    if (a.in.bias.pairs) a.in.bias.pairs += s;
    a.in.n_spans = 1;
    a.in.max_queries = span->n_query;
    a.weights = maps;
    for (int h = 0; h < in->heads && span->n_query > 0 && span->n_key > 0; h++) {
        a.head = h;
        run->backend->attention_weights(run, &a);
        a.weights += (int64_t)span->n_query * span->n_key;
    }
}

/* Turns queries and keys, or their gradients back. Keys follow queries, or are in `fresh`. */
TRF__FN void trf__rotate_keys(const trf__run *run, const trf__operands *sub, trf__act *projected,
                              trf__act *fresh, int back)
{
    trf__rotation r = sub->rotation;
    if (!r.table) return;
    r.x = projected;
    r.rows = sub->rows;
    r.ld = sub->q_width + (sub->memory ? 0 : 2 * sub->k_width);
    r.heads = sub->attention.heads + (sub->memory ? 0 : sub->attention.kv_heads);
    r.back = back;
    run->backend->rotate(run, &r);
    if (!sub->memory) return;
    r.x = fresh;
    r.ld = 2 * sub->k_width;
    r.heads = sub->attention.kv_heads;
    run->backend->rotate(run, &r);
}

/* Projections, attention of all heads, output projection: the formula at the mark. */
TRF__FN void trf__attention_forward(const trf__run *run, const trf__operands *sub, trf__act *y,
                                    const trf__act *x, const trf__act *m)
{
    trf__attention a;
    a.in = trf__attention_of(run, sub);
    a.out = sub->hidden;
    a.converted = sub->hidden_converted;
    a.stats = sub->stats;
    trf__project_rows(run, sub->projected, x, sub->converted, sub->in_w, sub->in_b, sub->rows,
                      sub->q_width + (sub->memory ? 0 : 2 * sub->k_width), sub->d);
    if (sub->memory) trf__project_memory(run, sub, m, m == x && sub->converted);
    trf__rotate_keys(run, sub, sub->projected, sub->fresh, 0);
    if (sub->slots) {
        trf__append_kv r;
        r.cache = sub->memory; r.fresh = sub->fresh; r.slots = sub->slots;
        r.rows = sub->memory_rows; r.width = 2 * sub->k_width; r.area = sub->attention.area;
        run->backend->append_kv(run, &r);
    }
    run->backend->attention(run, &a);
    trf__project_rows(run, y, sub->hidden, sub->hidden_converted, sub->out_w, sub->out_b, sub->rows,
                      sub->d, sub->q_width);
}

/* If y is NULL, computes only what the backward pass needs. */
TRF__FN void trf__feed_forward(const trf__run *run, const trf__operands *sub, trf__act *y,
                               const trf__act *x)
{
    trf__activate a;
    a.a = sub->hidden; a.h = sub->projected; a.rows = sub->rows; a.width = sub->f;
    a.kind = sub->activation; a.gate = sub->gate; a.converted = sub->hidden_converted;
    a.at = sub->at; a.drop = sub->drop;
    trf__project_rows(run, sub->projected, x, sub->converted, sub->in_w, sub->in_b, sub->rows,
                      sub->f << sub->gate, sub->d);
    run->backend->activate(run, &a);
    if (!y) return;
    trf__project_rows(run, y, sub->hidden, sub->hidden_converted, sub->out_w, sub->out_b, sub->rows,
                      sub->d, sub->f);
}

// >>sublayer-gradients the mirror of both

#if !defined(TRF_NO_TRAIN)

/* dx (rows, in) = dy (rows, out) w, or += with `add` */
TRF__FN void trf__project_dx(const trf__run *run, trf__act *dx, const trf__act *dy, trf__mat w,
                             int64_t rows, int64_t out, int64_t in, int add)
{
    trf__linear_dx l;
    l.dx = dx; l.dy = dy; l.w = w; l.rows = rows; l.out = out; l.in = in; l.add = add;
    run->backend->linear_dx(run, &l);
}

/* The gradients of a weight (out, in) and its bias that met x (rows, in). */
TRF__FN trf__linear_dw trf__dw_of(trf_real *dw, trf_real *db, const trf__act *dy, const trf__act *x,
                                  int64_t rows, int64_t out, int64_t in, int first)
{
    trf__linear_dw l;
    l.dw = dw; l.db = db; l.dy = dy; l.x = x; l.rows = rows; l.out = out; l.in = in;
    l.first = first;
    return l;
}

/* dx is set; dm is set, or added to if add_memory. */
TRF__FN void trf__attention_backward(const trf__run *run, const trf__operands *sub, trf__act *dx,
                                     trf__act *dm, int add_memory, const trf__act *dy,
                                     const trf__act *x, const trf__act *m)
{
    trf__attention_gradient a;
    trf__linear_dw dw[3];
    int64_t d = sub->d, n = sub->rows, q = sub->q_width, k = sub->k_width,
        wide = q + (sub->memory ? 0 : 2 * k);
    a.in = trf__attention_of(run, sub);
    a.dq = sub->dprojected;
    a.dk = sub->memory ? sub->dmemory : trf__act_at(run, sub->dprojected, q);
    a.dv = trf__act_at(run, a.dk, k);
    a.dout = sub->dhidden; a.out = sub->hidden; a.stats = sub->stats;
    a.dbias = sub->dbias; a.partial = sub->partial; a.first_bias = sub->first_bias;
    dw[0] = trf__dw_of(sub->d_out_w, sub->d_out_b, dy, sub->hidden, n, d, q, sub->first);
    dw[1] = trf__dw_of(sub->d_in_w, sub->d_in_b, sub->dprojected, x, n, wide, d, sub->first);
    if (sub->memory)
        dw[2] = trf__dw_of(sub->d_in_w + q * d, sub->d_in_b ? sub->d_in_b + q : NULL, sub->dmemory,
                           m, sub->memory_rows, 2 * k, d, sub->first);
    trf__project_dx(run, sub->dhidden, dy, sub->out_w, n, d, q, 0);
    run->backend->attention_gradient(run, &a);
    trf__rotate_keys(run, sub, sub->dprojected, sub->dmemory, 1);
    run->backend->linear_dw(run, dw, sub->memory ? 3 : 2);
    trf__project_dx(run, dx, sub->dprojected, sub->in_w, n, wide, d, 0);
    if (sub->memory)
        trf__project_dx(run, dm, sub->dmemory, trf__keys_weight(sub), sub->memory_rows, 2 * k, d,
                        add_memory);
}

/* The mirror of forward: the output matrix first. Both matrices' gradients are one call. */
TRF__FN void trf__feed_forward_backward(const trf__run *run, const trf__operands *sub, trf__act *dx,
                                        const trf__act *dy, const trf__act *x)
{
    trf__activate_gradient a;
    trf__linear_dw dw[2];
    int64_t d = sub->d, f = sub->f, wide = f << sub->gate, n = sub->rows;
    a.dh = sub->dprojected; a.da = sub->dhidden; a.h = sub->projected; a.rows = n; a.width = f;
    a.kind = sub->activation; a.gate = sub->gate;
    a.at = sub->at; a.drop = sub->drop;
    dw[0] = trf__dw_of(sub->d_out_w, sub->d_out_b, dy, sub->hidden, n, d, f, sub->first);
    dw[1] = trf__dw_of(sub->d_in_w, sub->d_in_b, sub->dprojected, x, n, wide, d, sub->first);
    trf__project_dx(run, sub->dhidden, dy, sub->out_w, n, d, f, 0);
    run->backend->activate_gradient(run, &a);
    run->backend->linear_dw(run, dw, 2);
    trf__project_dx(run, dx, sub->dprojected, sub->in_w, n, wide, d, 0);
}

#endif
