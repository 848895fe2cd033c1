#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/vector.h"

// -----------------------------------------------------------------------------------------------
// >>ops            the contract between the model and the hardware
//
// A backend is one table, trf__backend: first the verbs that open it and move memory, then the ops.
// Everything a model computes is a straight list of op calls; a missing op does not compile. All
// matrices are row-major, and their rows are tokens.
//
//   embed             y = drop(scale * weight[id] + position)               + its gradient
//   linear            y = x w^T + b   linear_dx: dx = dy w   linear_dw: dw += dy^T x, db += sum dy
//   activate          a = drop(act(h))                                      + gradient
//   rotate            turns pairs of features of queries and keys by their positions, or back
//   attention         softmax(q k^T / sqrt(d_head)) v, per sequence and head + gradient
//   attention_weights the softmax alone, of one head
//   add_norm          s = x + drop(sub), y = norm(s)                        + gradient
//   pool              the mean of each sequence's first rows                + gradient
//   scale             x = x * factor
//   cross_entropy     vocabulary projection, smoothed loss and their gradients in one
//   top               vocabulary projection, log-softmax and the best tokens of each row
//   backpointers      which cached keys belong to a hypothesis, after search has chosen
//   append_kv         stores keys and values of the tokens just read in the cache
//   reorder           beam search chooses; the rows of the next token are listed
//   pack              a weight matrix in the layout that the backend's products read
//   clip, adam        the optimizer: norm, clipping and the decision to skip; then one pass over
//                     all weights
//   average           the moving average of the weights
// A build for translating only (TRF_NO_TRAIN) leaves out the ops of training.
//
// Memory. Every pointer in the structs below is an address of the device: the host passes it on and
// never reads through it. Memory comes from `alloc`. Only upload, download, fetch and feed move
// numbers between host and device.
//   trf__act          an activation: only the backend knows its type (trf_real on the CPU, perhaps
//                     16 bits elsewhere)
//   trf_real          weights, their gradients, Adam's moments, statistics of rows
//   converted rows    an activation in the form in which products with packed weights read it.
//                     The op before writes it where `converted_row` is not 0
//
// Time. Calls run in the order of issue, perhaps later. `sync` waits for all of them and returns
// the first error, in this call and in every later one. Therefore ops return nothing.
//   upload            has read its source on return; the caller may change it at once
//   download, fetch   the host may read the target after the next sync, and keeps it until then
//   release           takes effect after everything issued before
//   a run without a state (a model's) works after everything that other runs have issued
// On the CPU the device's memory is the host's, and every call is complete on return.
//
// Issuing an op costs time too, on a GPU more than a small op itself. So a backend may record a
// list of ops and play it again: `replay` gets the list's shape and returns 1 if it has played it.
// Else the caller issues op by op, and `end_list` ends the list. Two lists of one shape may differ
// only in numbers on the device. So that shapes recur, a training batch gets empty rows and spans
// up to the count that `padded` returns.
//
// Every op accepts 0 rows. Gradients of activations are set (=), those of parameters are added to
// (+=). `first` makes the latter (=) too, for the first micro-batch of a step. Outputs overlap no
// input unless the struct's comment allows it.
// -----------------------------------------------------------------------------------------------

/* never defined: the type exists so that host code cannot read an activation */
typedef struct trf__act trf__act;

/* The numbers that change from step to step. They lie in one block on the device, so that a
   recorded step can be played again with new ones. */
typedef struct trf__now {
    uint32_t key0, key1, step;          /* of random decisions: seed, number of the update */
    double learning_rate, source_tokens;        /* source_tokens: of this batch, for the tallies */
    double sequence_weight;             /* of a sequence's label; that of a token weighs 1 */
} trf__now;

/* The largest batch that fits an object's arena. recompute: the backward pass computes activations
   again instead of keeping them. copies: so often a training batch stands in its rows, which count
   all of them (trf_train_options.consistency). */
typedef struct trf__limits {
    int64_t source_rows, target_rows, sentences, longest, recompute, copies;
} trf__limits;

/* Everything that determines which ops a list has and where they read and write. Lists of equal
   shapes are the same list, so one recording serves both. */
typedef struct trf__shape {
    int64_t arena, block, gradients;    /* addresses: activations, what changes, gradients; */
    int64_t teachers;                   /* of what teachers say */
    int64_t variant;                    /* tells otherwise equal lists of an object apart */
    trf__limits limits;                 /* the arena is cut by these */
    int64_t encoder_rows, encoder_spans, encoder_groups, encoder_longest;
    int64_t decoder_rows, decoder_spans, decoder_groups, decoder_longest;
    int64_t cache_rows, cache_length, cache_area, cache_self_area;
    int64_t wanted;                     /* the number of best tokens of a row */
    int64_t phrase_next, beam_bytes;         /* what phrases add to the search's memory */
} trf__shape;

/* An object's connection to its device. Objects that compute have one with a state; a model, which
   only owns memory, has one without. */
typedef struct trf__run {
    const struct trf__backend *backend;
    trf_device device;
    trf_hooks hooks;
    size_t element;                     /* bytes of one number of an activation */
    int format;                         /* of packed weights, if the object's device packs them */
    void *state;                        /* the backend's own: scratch, threads, streams, plans */
    const void *process;                /* the CPU's: a trf__process, one for all runs (>>tiles) */
    const trf__now *now;                /* on the device; NULL: no dropout */
    int cancel_off;                     /* 1: the cancel hook is called, but cancels nothing */
} trf__run;

/* The address of element n of an activation. */
TRF__FN trf__act *trf__act_at(const trf__run *run, trf__act *a, int64_t n)
{
    return a ? (trf__act *)(void *)((char *)(void *)a + n * (int64_t)run->element) : NULL;
}

/* Formats of packed weights: rows of the table in >>formats. */
enum { TRF__FLOAT32, TRF__BF16, TRF__INT8, TRF__FORMATS };

/* How a device keeps weights for products, in addition to the model's arena: not at all; every
   matrix packed in a format; or all parameters in 16 bits, in an arena of the same layout. */
enum { TRF__PACKS_NOTHING, TRF__PACKS_MATRICES, TRF__PACKS_16_BITS };

/* A weight matrix (out, in); products read its rows from `row` on. plain: its floats, or NULL if
   only the packed form exists. packed: the device's form for products, or NULL. Both pointers are
   those of row 0. */
typedef struct trf__mat {
    const trf_real *plain;
    const void *packed;
    int64_t row;
    int format;
} trf__mat;

/* The origin of each row of a matrix: the number of its sentence in the whole step, and its
   position in the sentence. Together with the site they number every random decision, so that
   splitting a batch changes none. NULL: sentence 0, position = row. */
typedef struct trf__rows { const int32_t *sentence, *position; } trf__rows;

/* One dropout. An element is kept and scaled if its 16 random bits are >= threshold. */
typedef struct trf__drop {
    uint32_t threshold, site;           /* threshold 0: nothing is dropped */
    trf_real scale;                     /* 65536 / (65536 - threshold) */
} trf__drop;

// >>layer-jobs     the arguments of the ops of layers
//
// One struct for each op, and one for its gradient. Names are the paper's; shapes stand beside the
// pointers. `at` and `drop` describe the dropout of the op's result.

typedef struct trf__embed {
    trf__act *y;                        /* (rows, d) */
    trf__mat weight;                    /* (vocab, d) */
    const trf_real *table;              /* (positions, d) or NULL */
    const trf_real *segments;           /* (segments, d) or NULL */
    const int32_t *ids;                 /* -1: the zero vector */
    const int32_t *segment;             /* of each row, if there are segments */
    trf__rows at;
    int64_t rows, d;
    trf_real scale;
    trf__drop drop;
} trf__embed;

/* Rows grouped by the id that they read: list k is rows[first[k]] .. rows[first[k + 1] - 1], in
   order. So gradients of one id are added in the order of rows. Lists at the end may be empty. */
typedef struct trf__groups { const int32_t *rows, *first; int64_t n; } trf__groups;

typedef struct trf__embed_gradient {
    trf_real *dweight, *dtable;         /* dtable: NULL if positions are not learned */
    trf_real *dsegments;                /* or NULL */
    trf__act *dy;                       /* becomes drop(dy) */
    const int32_t *ids, *segment;
    trf__groups groups;                 /* without rows of id -1 */
    trf__rows at;
    int64_t rows, d, vocab, positions, n_segments;      /* positions: rows of dtable */
    trf_real scale;
    trf__drop drop;
    int first, first_table;
} trf__embed_gradient;

typedef struct trf__linear {
    trf__act *y;                        /* (rows, out) */
    const trf__act *x;                  /* (rows, in) */
    trf__mat w;
    const trf_real *b;                  /* or NULL */
    int64_t rows, out, in;
    int converted;                      /* 1: x is converted rows */
} trf__linear;

typedef struct trf__linear_dx {
    trf__act *dx;
    const trf__act *dy;
    trf__mat w;
    int64_t rows, out, in;
    int add;                            /* 1: dx +=, where two uses of one activation meet */
} trf__linear_dx;

typedef struct trf__linear_dw {
    trf_real *dw, *db;                  /* db may be NULL */
    const trf__act *dy, *x;
    int64_t rows, out, in;
    int first;
} trf__linear_dw;

/* Beside the values of trf_activation: a = h, for dropout alone; a = tanh(h). */
enum { TRF__IDENTITY = TRF_ACTIVATION_COUNT, TRF__TANH, TRF__ACTIVATIONS };

/* gate: h has 2 * width columns. a may be h, without a gate. */
typedef struct trf__activate {
    trf__act *a;
    const trf__act *h;
    int64_t rows, width;
    int kind, gate;                     /* kind: a trf_activation */
    int converted;                      /* 1: a becomes converted rows, and h scratch */
    trf__rows at;
    trf__drop drop;
} trf__activate;

typedef struct trf__activate_gradient {
    trf__act *dh;
    const trf__act *da, *h;
    int64_t rows, width;
    int kind, gate;
    trf__rows at;
    trf__drop drop;
} trf__activate_gradient;

/* The attention of one sequence: its query rows, and the key rows that they attend to. */
typedef struct trf__span { int32_t query, n_query, key, n_key, sentence; } trf__span;

/* Rotary positions (>>rotary): turns the first `width` features of each of the first `heads` heads
   of a row of x. */
typedef struct trf__rotation {
    trf__act *x;                        /* (rows, heads, d_head), ld numbers from row to row */
    const trf_real *table;              /* (positions, width) cosines, then sines */
    const int32_t *position;            /* (rows) */
    int64_t rows, ld;
    int heads, d_head, width, pairs, back;      /* pairs: a trf_rotary_pairs; back: by -angle */
} trf__rotation;

/* to (n) += from (n). from NULL: to = -0, and what is added to -0 keeps its bits. */
typedef struct trf__accumulate { trf_real *to; const trf_real *from; int64_t n; } trf__accumulate;

/* to (n) += share * (from - to): a moving average of weights */
typedef struct trf__average {
    trf_real *to;
    const trf_real *from;
    int64_t n;
    trf_real share;
} trf__average;

/* x (n) *= factor */
typedef struct trf__scale { trf__act *x; int64_t n; trf_real factor; } trf__scale;

/* What is added to the scaled q k^T of a head: for a distance, key minus query, a number from a
   table, or ALiBi's; or the caller's number for a query and a key. Neither: nothing. Distances
   beyond `reach` count as reach. With distances no span has more queries than keys. */
typedef struct trf__bias {
    const trf_real *table;              /* (rows, heads) or NULL */
    const int32_t *row_of;              /* (2 * reach + 1) rows of -reach, -reach + 1, ... */
    int64_t reach, rows;
    int alibi;
    const trf_real *numbers;            /* the caller's, or NULL: (queries, keys) for all spans, or
                                           with keys 0 a block (n_query, n_key) for each; -infinity
                                           hides a key */
    const int64_t *pairs;               /* (n_spans) pairs (query, key) of the spans before */
    int64_t queries, keys;
    int per_head;                       /* 1: each head has numbers of its own, one after another */
} trf__bias;

/* The inputs of attention and of its gradient. q: (queries, heads * d_head), k and v: (keys,
   kv_heads * d_head); ldq and ldk are the distances between rows. Head h reads head h * kv_heads /
   heads of k and v. Key i of span s is row key + i, or, with key_rows (the backpointers of a beam
   into the cache), row key_rows[s * key_stride + i]. causal: query i sees n_key - n_query + i + 1
   keys. area > 0: append_kv has stored k and v in areas of so many rows, v after k. */
typedef struct trf__attention_in {
    const trf__act *q, *k, *v;
    int64_t ldq, ldk;                   /* ldk: of both k and v */
    const trf__span *spans;
    int64_t n_spans, max_queries, max_keys;   /* the maximum of all spans */
    const int32_t *key_rows;            /* or NULL */
    int64_t key_stride, area;
    int heads, kv_heads, d_head, causal;
    double scale;                       /* of q k^T */
    trf__bias bias;                     /* added to it */
    trf__drop drop;                     /* on the weights */
} trf__attention_in;

typedef struct trf__attention {
    trf__attention_in in;
    trf__act *out;                      /* (queries, heads * d_head) without gaps */
    trf_real *stats;                    /* (queries, heads, 2) statistics of the softmax for the
                                           gradient, in the backend's own form; or NULL */
    int converted;                      /* 1: out becomes converted rows */
} trf__attention;

typedef struct trf__attention_gradient {
    trf__attention_in in;
    trf__act *dq, *dk, *dv;             /* distances between rows: ldq, ldk, ldk */
    const trf__act *dout, *out;
    const trf_real *stats;
    trf_real *dbias, *partial;          /* if in.bias has a table: its gradient, and scratch,
                                           (n_spans, heads, rows of the table); or NULL. If it has
                                           numbers: NULL, and the gradients of all pairs, each span
                                           a block (heads, n_query, n_key); or NULL. Those of keys
                                           that a query does not see are not set */
    int first_bias;                     /* 1: dbias is set, not added to */
} trf__attention_gradient;

typedef struct trf__attention_weights {
    trf__attention_in in;               /* of one span */
    trf_real *weights;                  /* (n_query, n_key) */
    int head;
} trf__attention_weights;

typedef struct trf__norm {              /* (rows, d) */
    trf__act *s, *y;                    /* may be x; s may be NULL if sub is; y NULL: no norm */
    void *converted;                    /* y once more, as converted rows; or NULL */
    trf_real *stats;                    /* (rows, 2): mean and factor; or NULL */
    const trf__act *x, *sub;            /* sub NULL: s = x */
    const trf_real *gain, *bias;        /* bias NULL: none */
    int64_t rows, d;
    double epsilon;
    int rule;                           /* a trf_norm_rule */
    trf__rows at;
    trf__drop drop;                     /* on sub */
} trf__norm;

typedef struct trf__norm_gradient {     /* ds = norm'(dy + dy2) + ds_in, dsub = drop(ds) */
    trf__act *ds, *dsub;                /* ds may be dy, dy2 or ds_in; dsub may be NULL */
    trf_real *dgain, *dbias;            /* dbias may be NULL */
    const trf__act *dy, *dy2, *ds_in;   /* dy2 and ds_in may be NULL */
    const trf__act *s;
    const trf_real *stats, *gain;       /* gain NULL: there is no norm, ds = dy + dy2 */
    int64_t rows, d;
    double epsilon;
    int rule, first;
    trf__rows at;
    trf__drop drop;
} trf__norm_gradient;

typedef struct trf__pool {              /* each span's rows become a row of (n_spans, d), or back */
    trf__act *to;
    const trf__act *from;
    const trf__span *spans;             /* span s is the n_query rows from row `query` on */
    int64_t n_spans, d, most;           /* most: so many rows of each span count, or all it has */
} trf__pool;

// >>loss-jobs      the arguments of the ops of loss, optimizer and search
//
// These ops carry numbers across rows: sums of a step, the norm of gradients, a search's state.

/* Sums over target tokens. With pairs the first three are half the sums over all rows. */
typedef struct trf__sums { double loss, nll, correct, tokens, divergence; } trf__sums;

typedef struct trf__loss {
    double *row_loss, *row_nll;         /* per row; rows with a negative target have 0 everywhere */
    trf__sums *sums;                    /* set to the sums over these rows, or NULL */
    trf_real *slots;                    /* the sums, added to the tallies of the step; or NULL */
    void *work;                         /* scratch of loss_scratch bytes */
    trf__act *dx;
    trf_real *dw, *db;                  /* gradients of the sum of row_loss; dx NULL: no gradients;
                                           dw, db NULL: only the others */
    const trf__act *x;
    trf__mat w;
    const trf_real *bias;               /* or NULL */
    const int32_t *targets;
    const float *numbers;               /* (rows, vocab) what logits are compared with instead, by
                                           `labels`; targets then say which rows have a loss */
    int labels;                         /* a trf_label_kind; not ONE_OF: as in >>number-loss */
    int64_t rows, vocab, d;
    double on, off, entropy;    /* the smoothed target: `on` at the target, `off` elsewhere, 0 at
                                   zero_column; its entropy is subtracted */
    int64_t zero_column;                /* -1: none */
    int first;
    int of_sequences;                   /* 1: of sequence_labels; gradients times sequence_weight */
    int64_t pairs;                      /* > 0: rows r and pairs + r, r < pairs, are two passes over
                                           one token. Gradients are those of half the sum of
                                           row_loss, and of consistency times the sum of their
                                           divergences */
    double consistency;
    const trf_real *teachers;           /* (rows, or `pairs` rows, vocab) or NULL: log q of the
                                           distribution that teachers give (>>teachers). Adds share
                                           times the cross-entropy to q; on, off and entropy are
                                           multiplied by 1 - share already */
    double share;
} trf__loss;

/* Sums of a step lie after the gradients, so that one all-reduce carries everything. Each takes two
   numbers: its value rounded to float, and the remainder. SEQUENCE: of the labels of sequences
   (sequence_labels). */
enum {
    TRF__TALLY_LOSS = 0, TRF__TALLY_NLL = 2, TRF__TALLY_CORRECT = 4, TRF__TALLY_TOKENS = 6,
    TRF__TALLY_SOURCE = 8,
    TRF__TALLY_SEQUENCE_LOSS = 10, TRF__TALLY_SEQUENCE_CORRECT = 12,
    TRF__TALLY_SEQUENCE_TARGETS = 14,
    TRF__TALLY_DIVERGENCE = 16, TRF__TALLY_SEQUENCE_DIVERGENCE = 18,
    TRF__TALLIES = 32                   /* a multiple of 16: parts of gradients stay aligned */
};

/* X(0 or 1: of sequences, field of trf__sums, tally) */
#define TRF__TALLIED(X) \
    X(0, loss, LOSS) X(0, nll, NLL) X(0, correct, CORRECT) X(0, tokens, TOKENS) \
    X(0, divergence, DIVERGENCE) X(1, loss, SEQUENCE_LOSS) X(1, correct, SEQUENCE_CORRECT) \
    X(1, tokens, SEQUENCE_TARGETS) X(1, divergence, SEQUENCE_DIVERGENCE)

#define TRF__MAX_GRADIENT (TRF__REAL_BYTES == 4 ? 1e18 : 1e150)    /* Adam squares it */

/* The result of `clip` for one step. adam reads it on the device, and so does the step's report. */
typedef struct trf__clip_result {
    trf__sums sums[2];                  /* of tokens, and of sequence_labels */
    double source_tokens, norm, scale;  /* norm: of the mean gradient, before clipping; scale:
                                           clipping / tokens; a gradient times scale stays below
                                           TRF__MAX_GRADIENT */
    int64_t bad_tile;                   /* the first tile with a number that is not finite, or -1 */
    int64_t updates;                    /* updates made so far; skipped steps do not count */
    int32_t skipped;
} trf__clip_result;

/* A piece of one parameter: the unit of work of clip and adam. */
typedef struct trf__param_tile {
    int64_t begin, n, missed;           /* missed: while frozen, unseen by its moments */
    int32_t decay;
} trf__param_tile;

typedef struct trf__clip {
    trf__clip_result *clip_result;
    double *partial;                    /* (n_tiles) scratch: sums of squares */
    const trf_real *gradients, *slots;
    const trf__param_tile *tiles;
    int64_t n_tiles;
    double clip_norm;
} trf__clip;

typedef struct trf__adam {
    trf_real *p, *m, *v;
    void *packed;                       /* also writes the weights in 16 bits; or NULL */
    const trf_real *g;
    const trf__param_tile *tiles;
    int64_t n_tiles;
    const trf__clip_result *clip_result;
    double beta1, beta2, epsilon, weight_decay;
    int optimizer, epsilon_rule;        /* a trf_optimizer, a trf_adam_epsilon */
} trf__adam;

/* Packs the matrix (out, in) in a format. A device that keeps all parameters in 16 bits packs any
   parameter. stored: instead of weights, rows of numbers in the format, each of two bytes or one,
   which are packed as they are; scales: those of the rows, if each number has one byte. */
typedef struct trf__pack {
    void *packed;
    const trf_real *weights;
    int64_t out, in;
    int format;
    const void *stored;
    const trf_real *scales;
} trf__pack;

TRF__FN trf__pack trf__pack_of(void *packed, const trf_real *weights, int64_t out, int64_t in,
                               int format)
{
    TRF__ZEROED(trf__pack, pack);
    pack.packed = packed;
    pack.weights = weights;
    pack.out = out;
    pack.in = in;
    pack.format = format;
    return pack;
}

// >>search-jobs    the arguments of the ops of search, and the searches that they drive
//
// A beam is the state of one search (>>beam). It lies on the device, because `reorder` chooses
// there for all live sentences of a round.

enum { TRF__ANY = -1, TRF__NOT_EOS = -2 };      /* values of `only` that are no ids */

/* How far a hypothesis is in a phrase: complete occurrences that are past, and matched units of the
   current one (all: just complete; -1: after a digit, cannot begin). */
typedef struct trf__met { int32_t times, units; } trf__met;

/* A unit of a phrase. back: how many units are left if a hypothesis breaks off behind it. next,
   rest: the token with which a copy goes on here, or -1, and how many tokens it needs from here. */
typedef struct trf__unit { int32_t unit, back, next, rest; } trf__unit;

/* A phrase: n units, which are bytes of the answer's text or ids. */
typedef struct trf__phrase {
    int32_t begin, n, bytes;            /* its units in trf__phrases; bytes 0: ids */
    int32_t times, exactly;             /* how often it occurs; exactly 0: at least */
    int32_t first[3];                   /* tokens with which a copy may begin, or -1 */
    int32_t cost;                       /* tokens of a copy */
} trf__phrase;

/* The phrases of a sentence (>>phrases), where its beam runs. All NULL and 0: none. */
typedef struct trf__phrases {
    const trf__phrase *each;            /* (n) */
    const trf__unit *units;             /* of all */
    const int32_t *symbols;             /* in rising order: ids that stand in phrases alone */
    const char *texts;                  /* what each id writes, one after the other, */
    const int32_t *ends;                /* and where each ends */
    int32_t n, n_symbols, total;        /* total: tokens of copies of all */
    int32_t drops_blank;                /* 1: an answer does not begin with its first blank */
} trf__phrases;

/* The rules of a search about the next token (>>rules), and what they say of each row. A row has
   `stride` ids: first its history, then the ids banned in it. counts: how many of the history are
   penalized, and how many are banned. All NULL and 0: there are no rules. */
typedef struct trf__rules {
    const int32_t *alone;               /* (n_alone) ids banned in every row, in rising order */
    const int32_t *sequences, *ends;    /* banned sequences, and where each ends in `sequences` */
    int32_t n_alone, n_sequences, ngram, history, stride;
    int32_t greedy;                     /* 1: the penalty changes logits, not log-probabilities */
    double penalty;
    int32_t *ids, *counts;              /* (rows, stride), (rows, 2) */
    trf_real *kept;                     /* (rows, stride + n_alone) scratch: logits of these ids */
    trf__phrases phrases;               /* sizes alone: the most of a sentence; beams have them */
    int32_t n_phrase_next;
    int32_t *phrase_next;           /* (rows, n_phrase_next) ids that continue a phrase, or -1; */
    trf_real *phrase_next_scores;                   /* and their logits */
} trf__rules;

/* The n best tokens of each row, then its phrase_next. */
typedef struct trf__top {
    double *log_probabilities;          /* (rows, n + rules.n_phrase_next) best first, twice */
    double *ruled;                      /* the same after the penalty, whose order counts then;
                                           greedy: logits. NULL: there is no penalty */
    int32_t *ids;                       /* likewise; equal logits by lowest id; -1: no more */
    void *work;                         /* scratch of top_scratch bytes */
    const trf__act *x;                  /* (rows, d) */
    trf__mat w;
    const trf_real *bias;               /* or NULL */
    int64_t rows, vocab, d, n;
    int32_t banned[3];                  /* ids never returned, or -1; the softmax counts them */
    const int32_t *only;                /* NULL, or per row: TRF__ANY; or this id, at index 0; */
    int32_t eos;                        /* TRF__NOT_EOS: not this nor `ends`, nor in the softmax */
    trf_ends ends;
    double *rest;                       /* NULL, or (rows) the logarithm of the probability of all
                                           tokens that are in the softmax: 0, or less without ends;
                                           with room for ends.n * rows numbers behind them */
    trf__rules rules;
    trf_real *mixed;                    /* (rows, vocab) what `mix` has made, instead of x w^T + b;
                                           it may change. NULL: one model */
    int scores;                         /* 1: `mixed` are no log-probabilities; taken as is */
} trf__top;

/* Adds one model to what an ensemble says of the next token. l = log-softmax of x w^T + b:

       ARITHMETIC      sum = log(exp(sum) + weight * exp(l))
       GEOMETRIC       sum = sum + weight * l

   first: there is nothing in `sum` yet. */
typedef struct trf__mix {
    trf_real *sum, *logits;             /* (rows, vocab); logits: scratch, not used with first */
    const trf__act *x;                  /* (rows, d) */
    trf__mat w;
    const trf_real *bias;               /* or NULL */
    int64_t rows, vocab, d;
    double weight;
    int rule, first;                    /* rule: a trf_ensemble_rule */
} trf__mix;

/* Row r gets the history of its parent, position[r] slots, and then the slot of its own new token:
   to[r] = from[parents[r]], slots[r]. */
typedef struct trf__backpointers {
    int32_t *to;
    const int32_t *from, *parents, *position, *slots;   /* (rows, stride), and three times (rows) */
    int64_t rows, stride;
} trf__backpointers;

/* cache[slots[r]] = fresh[r], `width` numbers of keys and values each; slot -1: row r is unused.
   area: 0, or a multiple of 16. With an area, so many slots of one sequence are contiguous, and the
   backend may store them in the layout that its attention reads. */
typedef struct trf__append_kv {
    trf__act *cache;
    const trf__act *fresh;
    const int32_t *slots;
    int64_t rows, width, area;
} trf__append_kv;

/* A continuation of a live row by a token; a hypothesis that has finished in node (n, row). */
typedef struct trf__chosen { double sum, own; int32_t row, id; } trf__chosen;
typedef struct trf__finished {
    double sum, score, own;     /* own: the log-probability of EOS */
    int32_t n, row, met;        /* met: tokens of phrases; negative: it has too many */
    trf_ended ended;
} trf__finished;

typedef struct trf__beam {
    trf_search search;          /* the rules; greedy search is a beam of one with one candidate */
    int32_t limit, vocab, eos;  /* of this sentence; limit: the most tokens of an answer without
                                   EOS; search.ends end it too, and do not include EOS */
    int32_t start;              /* the id that is read first, or -1: zeros */
    const int32_t *prefix;      /* the caller's: every answer begins with these tokens */
    int32_t n_prefix;
    int32_t unscored;           /* so many of them do not count in S, */
    int32_t uncounted;          /* and so many do not count in L */
    int32_t least;              /* tokens before EOS may come: min_length, a prompt */
    int32_t hidden;             /* first tokens, not in the answer: phrases begin after them */
    int32_t n;                  /* tokens in every live hypothesis */
    int32_t live;               /* live hypotheses: the rows that the driver computes */
    int32_t width;              /* most that may live: `beam`, with `shrink` less those finished */
    int32_t done;
    int32_t n_finished;         /* finished hypotheses; */
    int32_t n_kept, keep;       /* the best are kept: n_best, or `beam` for TRF_STOP_HEURISTIC */
    trf__phrases phrases;
    double dropped;             /* the best score that anything given up could have reached */
    int32_t gave_up;            /* 1: something was given up, even if its score is minus infinity */
    double lost_token, lost_eos;    /* largest sums given up in this step: going on, ending */
    double *sum;                /* (beam) log-probability S of each live hypothesis */
    int32_t *token, *parent;    /* (longest, beam) the trellis, */
    double *own;                /* and the log-probability of each of its tokens */
    trf__met *met;              /* (2, beam, phrases + 1) what a live hypothesis has of each phrase,
                                   and how many symbols too many: of even and of odd n */
    trf__chosen *chosen;        /* (groups, candidates * beam) of this step, best first in each */
    int32_t *n_chosen, *share, *taken;  /* (groups) how many there are, up to which one they may
                                           live on, and how many have been looked at */
    trf__finished *best;        /* (keep) finished hypotheses, best first */
} trf__beam;

/* A sentence that begins, its slot of the round, and its rows of each model's encoder. */
typedef struct trf__arrival {
    trf__beam beam;
    int32_t place;
    trf__span source[TRF_MAX_MODELS];
} trf__arrival;

/* The state of a round of searches: live rows and live sentences, the cache column (`at`) of the
   token they read, and the candidates they need from each row. */
typedef struct trf__progress { int32_t rows, n_live, at, wanted; } trf__progress;

/* Every live sentence chooses among its rows' candidates (>>beam). The rows of the next token
   follow: first the live ones, then unused ones up to `rows`. With `begin` > 0 so many new
   sentences begin instead, after the live ones. */
typedef struct trf__reorder {
    trf__beam *beams;                   /* one for each slot of the round */
    trf__span *sources;                 /* (models, places) the encoder's rows of each slot */
    int32_t *live, *starts;             /* for each live sentence its slot and its first row */
    trf__progress *progress;
    const trf__arrival *arrivals;
    /* (rows, wanted) the result of `top`, phrase_next included, and its ids; rest: (rows) */
    const double *log_probabilities, *ruled, *rest;
    const int32_t *found;
    int32_t *ids, *parents, *position, *only, *slots;
    trf__span *self, *cross;            /* (rows); (models, places) of live sentences, or NULL */
    int64_t models, places;             /* places: slots of the round */
    int64_t wanted, rows, n_cross;      /* n_cross: elements of cross */
    int64_t n_rows, columns;            /* of the cache: slots of a column, and columns; a new
                                           column replaces the oldest one */
    int32_t begin;
    trf__rules rules;
} trf__reorder;

/* Draws an id for each row of logits (>>draw). All memory is the host's. `rule` changes s, a copy
   of a row, by trf__rule_logit. ids[row] is -1 if a logit is not below infinity, or if nothing may
   be drawn. log_probabilities: of the ids, under the logits alone. Scratch has room for each worker
   or, with by_row, for each row. */
typedef struct trf__drawing {
    const trf_real *logits;
    int64_t rows, vocab;
    double temperature, top_p, min_p;
    int32_t top_k;
    void (*rule)(const void *user, int64_t row, trf_real *s, trf_real *largest);
    const void *user;
    const double *uniform;              /* (rows) 0..1 */
    int32_t *ids;
    double *log_probabilities;
    int by_row;
    trf_real *weights, *few;            /* (room, vocab rounded up to 16) */
    double *sums;                       /* (room, chunks) the sum of the weights of a chunk */
    trf_real *largest;                  /* (room, chunks) the largest of them */
    int32_t *order;                     /* (room, vocab rounded up to 16) */
} trf__drawing;

enum { TRF__DRAW_CHUNK = 256 };

/* Changes a logit of a row. The largest of its chunk is infinity then: it has to be found again. */
TRF__FN void trf__rule_logit(trf_real *s, trf_real *largest, int32_t id, trf_real value)
{
    s[id] = value;
    largest[id / TRF__DRAW_CHUNK] = (trf_real)HUGE_VAL;
}

// >>op-table       the list of ops, and what a backend is
//
// Each line X(name, type) of the lists becomes a field of trf__backend and a function of every
// backend. linear_dw stands apart, as it takes several products at once.

#define TRF__OPS_FORWARD(X) \
    X(embed, trf__embed) X(linear, trf__linear) X(activate, trf__activate) \
    X(rotate, trf__rotation) X(scale, trf__scale) \
    X(attention, trf__attention) X(attention_weights, trf__attention_weights) \
    X(add_norm, trf__norm) X(pool, trf__pool) X(cross_entropy, trf__loss) X(top, trf__top) \
    X(mix, trf__mix) \
    X(backpointers, trf__backpointers) X(append_kv, trf__append_kv) X(reorder, trf__reorder) \
    X(pack, trf__pack)

#define TRF__OPS_TRAINING(X) \
    X(embed_gradient, trf__embed_gradient) X(linear_dx, trf__linear_dx) \
    X(activate_gradient, trf__activate_gradient) X(attention_gradient, trf__attention_gradient) \
    X(norm_gradient, trf__norm_gradient) X(pool_gradient, trf__pool) X(clip, trf__clip) \
    X(accumulate, trf__accumulate) X(average, trf__average) X(adam, trf__adam)

#if defined(TRF_NO_TRAIN)
#define TRF__OPS(X) TRF__OPS_FORWARD(X)
#else
#define TRF__OPS(X) TRF__OPS_FORWARD(X) TRF__OPS_TRAINING(X)
#endif

/* The verbs: what a backend does besides ops.

   probe        whether this machine has the device
   open, close  make and free the state of a run
   reserve      scratch for attention over up to `longest` keys of heads of d_head, for products
                with weights of so many numbers (0: all are packed), and for so many bytes of
                converted activations. Scratch only grows; after a failure nothing has changed
   state_bytes  bytes of the state and the scratch
   alloc        memory of any size, 0 included; NULL if there is none
   fetch, feed  activations to numbers, numbers to activations
   stream       the device's queue, for the program's own work there; or NULL
   padded       the number of rows to which a batch of n rows is padded, so that recorded
                lists fit
   together     about how many rows are computed fastest together without a backward pass
   replay       plays the recording of a list of this shape and returns 1; 0: issue the ops
   end_list     ends a list of ops; whole 0: the list is incomplete. Returns 0 if a
                recording failed: then all ops must be issued once more
   element      bytes of a number of an activation
   ..._scratch  bytes of scratch of an op
   packs        how weights are kept for products: TRF__PACKS_...
   packed_bytes bytes of a packed matrix; 0: the device does not have the format
   converted    bytes of `rows` rows of k numbers that a product converts before it begins; or 0
   converted_row
                bytes of a converted row of k numbers, if an op can write `part` of them at a
                time; at most those of k floats. 0: ops write floats
   kernel       the name of what multiplies in a format, or NULL: trf_device_text */
#define TRF__VERBS(X) \
    X(trf_status, probe, (const trf_device *device, trf_error *err)) \
    X(trf_status, open, (trf__run *run, trf_error *err)) \
    X(trf_status, reserve, (trf__run *run, int64_t longest, int64_t d_head, int64_t weight, \
       size_t converted, trf_error *err)) \
    X(void, close, (trf__run *run)) \
    X(size_t, state_bytes, (const trf__run *run, int64_t longest, int64_t d_head, \
       int64_t weight, size_t converted)) \
    X(void *, alloc, (const trf__run *run, size_t bytes)) \
    X(void, release, (const trf__run *run, void *memory, size_t bytes)) \
    X(void, zero, (const trf__run *run, void *memory, size_t bytes)) \
    X(void, copy, (const trf__run *run, void *to, const void *from, size_t bytes)) \
    X(void, upload, (const trf__run *run, void *to, const void *from, size_t bytes)) \
    X(void, download, (const trf__run *run, void *to, const void *from, size_t bytes)) \
    X(void, fetch, (const trf__run *run, trf_real *to, const trf__act *from, int64_t n)) \
    X(void, feed, (const trf__run *run, trf__act *to, const trf_real *from, int64_t n)) \
    X(trf_status, sync, (const trf__run *run, trf_error *err)) \
    X(void *, stream, (const trf__run *run)) \
    X(int64_t, padded, (const trf__run *run, int64_t n)) \
    X(int64_t, together, (const trf__run *run)) \
    X(int, replay, (const trf__run *run, const trf__shape *shape)) \
    X(int, end_list, (const trf__run *run, int whole)) \
    X(size_t, element, (const trf_device *device)) \
    X(size_t, loss_scratch, (const trf_device *device, int64_t rows, int64_t vocab, int64_t d, \
       int copied, int paired)) \
    X(size_t, top_scratch, (const trf_device *device, int64_t rows, int64_t vocab, int64_t n)) \
    X(int, packs, (const trf_device *device, int training)) \
    X(size_t, packed_bytes, (int format, int64_t out, int64_t in)) \
    X(size_t, converted, (int format, int64_t rows, int64_t k)) \
    X(size_t, converted_row, (int format, int64_t k, int64_t part)) \
    X(const char *, kernel, (const trf_device *device, int format))

/* Computes one tile of a job. worker: the number of the thread, 0 is the caller. */
typedef void trf__tile_function(const trf__run *run, const void *job, int64_t tile, int worker);

typedef struct trf__backend {
    const char *name;       /* "avx512", "128-bit": the instruction set of these functions */
    int on_host;            /* 1: its memory is the host's; callers' tensors are used in place */
    /* tokens of a search that are issued before the host looks whether it has ended */
    int lookahead;
#define TRF__X(result, name, arguments) result (*name) arguments;
    TRF__VERBS(TRF__X)
#undef TRF__X
#define TRF__X(name, type) void (*name)(const trf__run *run, const type *job);
    TRF__OPS(TRF__X)
#undef TRF__X
#if !defined(TRF_NO_TRAIN)
    /* products[n], n <= TRF__MAX_DW: on a GPU the projections of one attention run together */
    void (*linear_dw)(const trf__run *run, const trf__linear_dw *products, int n);
#endif
    /* NULL if the device is not the CPU: tokens are drawn by the host */
    void (*draw)(const trf__run *run, const trf__drawing *job);
    /* calls a function for tiles 0 to n - 1, on all threads; NULL likewise */
    void (*spread)(const trf__run *run, int64_t n, trf__tile_function *function, const void *job);
} trf__backend;

enum { TRF__MAX_DW = 3 };      /* weight gradients in one call */

/* The shape of a list of ops over an arena cut by these limits. block: the address of the numbers
   that change. The caller adds the fields that its ops depend on. */
TRF__FN trf__shape trf__shape_of(const void *arena, const trf__limits *limits, const void *block,
                                 int64_t variant)
{
    TRF__ZEROED(trf__shape, shape);
    shape.arena = (int64_t)(intptr_t)arena;
    shape.block = (int64_t)(intptr_t)block;
    shape.variant = variant;
    shape.limits = *limits;
    return shape;
}

/* Issues the ops of a list, in order; job is its argument. */
typedef trf_status (*trf__issue)(void *job, trf_error *err);

/* TRF_E_CANCELLED if the cancel hook asks for it. */
TRF__FN trf_status trf__run_cancelled(const trf__run *run, trf_error *err)
{
    if (!run->cancel_off) return trf__cancel_status(&run->hooks, err);
    (void)trf__cancelled(&run->hooks);
    return TRF_OK;
}

/* Runs a list of ops. If the device has a recording of this shape, plays it; else issues the ops
   one by one. If a recording fails, end_list returns 0 and all ops are issued once more. */
TRF__FN trf_status trf__run_list(const trf__run *run, const trf__shape *shape, trf__issue issue,
                                 void *job, trf_error *err)
{
    trf_status status = trf__run_cancelled(run, err);
    while (status == TRF_OK && !run->backend->replay(run, shape)) {
        status = issue(job, err);
        if (run->backend->end_list(run, status == TRF_OK)) break;
    }
    return status;
}

#define TRF__TEXT_OF(x) #x
#define TRF__TEXT(x) TRF__TEXT_OF(x)

/* The name of a table contains its version and kind, so that builds that do not fit together do not
   link: trf_column_vN_avx2. The version N rises when the list of ops, the meaning of an op, or a
   struct of >>ops changes. */
#define TRF__COLUMN_VERSION 23
#if defined(TRF_DOUBLE) && defined(TRF_NO_TRAIN)
#define TRF__COLUMN_KIND _double_translate_
#elif defined(TRF_DOUBLE)
#define TRF__COLUMN_KIND _double_
#elif defined(TRF_NO_TRAIN)
#define TRF__COLUMN_KIND _translate_
#else
#define TRF__COLUMN_KIND _
#endif
#define TRF__COLUMN_SYMBOL(name) TRF__PASTE(TRF__PASTE(trf_column_v, TRF__COLUMN_VERSION), \
                                            TRF__PASTE(TRF__COLUMN_KIND, name))

/* The last field of a table of ops. */
#if defined(TRF_NO_TRAIN)
#define TRF__AND_DW(dw)
#else
#define TRF__AND_DW(dw) , dw
#endif
