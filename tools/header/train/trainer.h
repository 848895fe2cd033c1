#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/stages.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/copies.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "train/options.h"

// >>trainer        a model in training: what it owns

/* See >>teachers. */
typedef struct trf__teachers {
    int32_t n;
    double share;
    trf__pass *passes;              /* of each model */
    trf__workspace said, logits;    /* (rows, vocab) of what they say, and of one of them */
} trf__teachers;

struct trf_trainer {
    trf_model *model;
    trf_train_options options;
    trf__pass pass;
    char *arena; size_t arena_bytes;    /* on the device: all of these */
    trf_real *gradients;            /* of each part of this rank: n_weights, then TRF__TALLIES */
    int64_t n_gradients;            /* of one part */
    trf_real *m, *v;                /* Adam's moments */
    trf__param_tile *tiles;
    double *partial;                /* per tile: sum of squares */
    trf__clip_result *clip_result;          /* of the last update */
    int64_t n_tiles;
    char *frozen;                   /* on the host, per parameter: '1' is frozen: empty tiles */
    int64_t *missed;                /* updates missed; frozen: minus those made when it froze */
    int64_t step;                   /* updates so far, skipped ones included */
    double rate;                    /* learning rate of the last update that was made here */
    trf_place begin, behind;        /* in the data: where the step begins, and where it is now */
    trf_place before;               /* `behind` when that step began: a corpus may move back */
    int64_t micro, sentences, target_rows;      /* since the last update, by this rank */
    int32_t round;                  /* the part of this rank whose gradients are being summed; */
    int64_t unsummed;               /* those from here on are; */
    int reduce_failed;              /* 1: a hook has failed, and is not called again */
    int written;                    /* the caller has a view of the weights, and may write them */
    trf_stage *stage;               /* over this trainer, or NULL */
    trf_real *average, *best;       /* on the device, or NULL: the moving average, and the best
                                       weights of trf_trainer_learn. Checkpoints have them */
    trf_real *raw;                  /* the weights of the last update, while the model has others */
    const trf_real *left;           /* what the model has now: `average` or `best`; NULL: its own */
    const trf_real *beneath;        /* while the average is in use: what `left` was before */
    int averaged;                   /* 1: trf_trainer_use_average */
    int average_read;               /* 1: a checkpoint had the average, and nobody has used it */
    trf_learn_state learning;       /* how far trf_trainer_learn has come */
    trf__teachers teachers;
};

TRF__FN void trf__teachers_close(const trf_trainer *t, trf__teachers *teachers)
{
    const trf__run *run = &t->pass.run;
    for (int32_t k = 0; k < teachers->n; k++) trf__pass_leave(&teachers->passes[k]);
    TRF__FREE(&t->options.hooks, teachers->passes, teachers->n);
    run->backend->release(run, teachers->said.memory, teachers->said.bytes);
    run->backend->release(run, teachers->logits.memory, teachers->logits.bytes);
    TRF__ZERO(*teachers);
}

// >>trainer-memory arenas of weights, and how much a trainer needs

/* Makes an arena of weights unless it is there. `name` is what errors call it. */
TRF__FN trf_status trf__weights_alloc(trf_trainer *t, trf_real **arena, const char *name,
                                      trf_error *err)
{
    const trf__layout *layout = &t->model->layout;
    if (!*arena) *arena = (trf_real *)trf__device_zeroed(&t->pass.run, trf__arena_bytes(layout));
    return TRF__OK_IF(*arena, TRF_E_NOMEM, -1, name, "no memory for the %s %lld weights", name,
                      (long long)layout->n_weights);
}

/* Copies all weights on the device: those of the model, or another arena. */
TRF__FN void trf__weights_copy(trf_trainer *t, trf_real *to, const trf_real *from)
{
    t->pass.run.backend->copy(&t->pass.run, to, from, trf__arena_bytes(&t->model->layout));
    if (to == t->model->weights) trf__pack_weights(&t->pass);
}

/* Puts other weights into the model. Those of the last update stay in `raw`, for checkpoints. */
TRF__FN trf_status trf__weights_show(trf_trainer *t, const trf_real *from, trf_error *err)
{
    if (!t->left) trf__weights_copy(t, t->raw, t->model->weights);
    trf__weights_copy(t, t->model->weights, from);
    t->left = from;
    return t->pass.run.backend->sync(&t->pass.run, err);
}

/* What the model has are the trainer's weights from here on. */
TRF__FN void trf__weights_own(trf_trainer *t)
{
    t->left = NULL;
    t->averaged = 0;
}

TRF__FN void trf__weights_release(trf_trainer *t, trf_real **arena)
{
    const trf__run *run = &t->pass.run;
    if (*arena) run->backend->release(run, *arena, trf__arena_bytes(&t->model->layout));
    *arena = NULL;
}

/* A micro-batch between its forward and its backward pass. */
typedef struct trf__slot {
    trf__pass pass;                 /* keeps activations; scratch is the trainer's */
    int64_t rows[2];                /* of the source and of the target */
    int waits;                      /* 1: for its backward pass */
} trf__slot;

struct trf_stage {
    trf_trainer *trainer;
    trf__slot *slots;
    int32_t n_slots, waiting;       /* waiting: how many slots do */
    int (*sum)(void *user, trf_real *numbers, size_t count, void *stream);
    void *user;
    trf__layout whole;              /* the parameters of all stages, without parts */
    /* what all stages must know of an update (>>stage-sums): on the host and on the device */
    char *memory; size_t bytes;
    trf_real *numbers, *device_numbers;
    double *partial;
    int64_t n_numbers, n_device;
};

/* How many parts of a batch each rank computes. The last round may have fewer parts than ranks. */
TRF__FN int32_t trf__rounds(const trf_train_options *o)
{
    return o->parts ? (int32_t)trf__ceil_div(o->parts, o->n_ranks) : 1;
}

/* The gradients of the part that this rank computes in a round. */
TRF__FN trf_real *trf__round_gradients(const trf_trainer *t, int32_t round)
{
    return t->gradients + round * t->n_gradients;
}

/* Bytes of `missed` and of the text `frozen` after it. */
TRF__FN size_t trf__marks_bytes(int32_t n_params)
{
    return (size_t)n_params * (sizeof(int64_t) + 1) + 1;
}

/* Divides the parameters into tiles, on the device. Weight decay is for matrices; embeddings,
   learned positions and matrices tied to them have none unless decay_all is 1. */
TRF__FN void trf__split_params(const trf_trainer *t, int decay_all)
{
    const trf__run *run = &t->pass.run;
    trf__param_tile tile;
    int64_t n = 0;
    for (int32_t i = 0; i < t->model->layout.n_params; i++) {
        const trf__param *p = &t->model->layout.params[i];
        int64_t size = trf__param_size(p);
        tile.decay = decay_all || trf__is_product(p->start) || p->start == TRF__START_GENERATOR;
        for (int64_t at = 0; at < size; at += TRF__PARAM_TILE, n++) {
            tile.begin = p->offset + at;
            tile.n = t->frozen[i] == '1' ? 0 : trf__min64(TRF__PARAM_TILE, size - at);
            tile.missed = t->frozen[i] == '1' ? 0 : t->missed[i];
            run->backend->upload(run, t->tiles + n, &tile, sizeof tile);
        }
    }
}

/* How often a training batch stands in its rows. */
TRF__FN int trf__copies(const trf_train_options *o) { return o->consistency > 0 ? 2 : 1; }

/* Without limits a trainer begins with room for so much. */
enum { TRF__FIRST_TOKENS = 64, TRF__FIRST_SEQUENCES = 8, TRF__FIRST_LONGEST = 16 };

/* The limits of batches, padded to the sizes for which the device records lists. */
TRF__FN trf__limits trf__train_limits(const trf__run *run, const trf_config *c,
                                      const trf__layer_range *range, const trf_train_options *o)
{
    trf__limits limits;
    const int64_t source_tokens = o->source_tokens ? o->source_tokens : TRF__FIRST_TOKENS;
    const int64_t target_tokens = o->target_tokens ? o->target_tokens : TRF__FIRST_TOKENS;
    /* a limit counts one row more for each sequence; a source with BOS and EOS has two more */
    const int both = trf__has_source(c) && trf__source_added(c) > 1;
    const int64_t more = both && o->source_tokens
        ? trf__min64(source_tokens, o->sequences ? o->sequences : TRF__FIRST_SEQUENCES) : 0;
    int64_t tokens = trf__min64(TRF__USUAL_TOKENS, trf__max64(source_tokens + more, target_tokens));
    /* at most, of one row each */
    int64_t fillers = run->backend->padded(run, tokens + 1) - tokens - 1;
    int64_t sources = run->backend->padded(run, source_tokens + more);
    int64_t sequences = run->backend->padded(run, fillers + (o->sequences ? o->sequences
                                                                          : TRF__FIRST_SEQUENCES));
    limits.source_rows = trf__has_source(c) ? sources : 0;
    limits.target_rows = trf__has_target(c) ? run->backend->padded(run, target_tokens)
                       : trf__pools(c) ? sequences : sources;
    /* before the decoder no stage has target rows, and before the last layer none of a head */
    if (trf__has_target(c) ? range->n[1] == 0 : !range->projects) limits.target_rows = 0;
    limits.copies = trf__copies(o);
    limits.source_rows *= limits.copies;
    limits.target_rows *= limits.copies;
    limits.sentences = sequences * limits.copies;
    limits.longest = trf__min64(o->longest ? o->longest + both : TRF__FIRST_LONGEST, c->max_length);
    limits.recompute = o->recompute;
    return limits;
}

/* Cuts the arena on the device: gradients, moments, tiles, sums. base NULL: only counts. */
TRF__FN size_t trf__trainer_layout(trf_trainer *t, const trf__run *run, const trf__layout *layout,
                                   char *base)
{
    trf__cursor cursor = trf__cursor_at(base);
    size_t packed = trf__packed_size(layout, run, run->backend->packs(&run->device, 1));
    int64_t n_weights = layout->n_weights;
    t->n_gradients = n_weights + TRF__TALLIES;
    t->gradients = trf__take_reals(&cursor, t->n_gradients, trf__rounds(&t->options));
    t->m = trf__take_reals(&cursor, n_weights, 1);
    t->v = trf__take_reals(&cursor, n_weights, 1);
    t->tiles = TRF__TAKE(trf__param_tile, &cursor, t->n_tiles);
    t->partial = TRF__TAKE(double, &cursor, t->n_tiles);
    t->clip_result = TRF__TAKE(trf__clip_result, &cursor, 1);
    if (packed > 0) t->pass.weights.packed = trf__take(&cursor, 1, packed);
    return cursor.used;
}

/* Bytes of a trainer of a model with this layout, by the same layouts that creating uses. *slot
   (may be NULL): of one slot of its stage. */
TRF__FN size_t trf__trainer_bytes(const trf_config *c, const trf_train_options *o,
                                  const trf__layout *layout, size_t *slot)
{
    trf_device device = trf__device_with(&c->device, o->threads);
    trf__run run = trf__run_on(&device, &o->hooks);
    trf__limits limits = trf__train_limits(&run, c, &layout->range, o);
    trf__pass pass = trf__pass_of(c, layout, &limits, o, &run);
    TRF__ZEROED(trf_trainer, count);
    count.options = *o;
    count.n_tiles = layout->n_tiles;
    pass.plan.has = TRF__KEPT;
    if (slot) *slot = trf__pass_bytes(&pass);
    pass.plan.has = layout->end > 0 ? TRF__SCRATCH : TRF__KEPT | TRF__SCRATCH;
    return trf__add_size(trf__add_size(trf__trainer_layout(&count, &run, layout, NULL),
                                       sizeof count + trf__marks_bytes(layout->n_params)),
                         trf__add_size(trf__pass_bytes(&pass), trf__pass_state(&pass, &limits)));
}

TRF_API size_t trf_trainer_memory(const trf_config *config, const trf_train_options *options,
                                  trf_error *err)
{
    trf_train_options defaults = trf_train_defaults();
    if (!options) options = &defaults;
    if (trf_config_check(config, NULL, err) || trf_train_check(options, config, err)) return 0;
    TRF__ZEROED(trf__layout, layout);
    trf__lay_out(&layout, config);
    return trf__trainer_bytes(config, options, &layout, NULL);
}

TRF__FN void trf__trainer_close(trf_trainer *t)
{
    const trf__run *run = &t->pass.run;
    trf__free(&t->options.hooks, t->missed, trf__marks_bytes(t->model->layout.n_params));
    if (run->backend) {
        trf__teachers_close(t, &t->teachers);
        trf__weights_release(t, &t->average);
        trf__weights_release(t, &t->raw);
        trf__weights_release(t, &t->best);
        run->backend->release(run, t->arena, t->arena_bytes);
    }
    trf__pass_close(&t->pass);
}

TRF_API void trf_trainer_destroy(trf_trainer *trainer)
{
    if (!trainer) return;
    trf_hooks hooks = trainer->options.hooks;
    trf__trainer_close(trainer);
    trf__free(&hooks, trainer, sizeof *trainer);
}

/* Memory for gradients and moments, all zero, and the tiles. */
TRF__FN trf_status trf__trainer_arena(trf_trainer *t, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    const trf__layout *layout = &t->model->layout;
    t->missed = (int64_t *)trf__alloc(&t->options.hooks, trf__marks_bytes(layout->n_params));
    TRF__FAIL_IF(!t->missed, TRF_E_NOMEM, -1, "trainer",
                 "no memory to count the updates that %d parameters missed", (int)layout->n_params);
    memset(t->missed, 0, trf__marks_bytes(layout->n_params));
    t->frozen = (char *)(t->missed + layout->n_params);
    memset(t->frozen, '0', (size_t)layout->n_params);
    t->n_tiles = layout->n_tiles;
    t->arena_bytes = trf__trainer_layout(t, run, layout, NULL);
    t->arena = (char *)trf__device_zeroed(run, t->arena_bytes);
    TRF__FAIL_IF(!t->arena, TRF_E_NOMEM, -1, "gradients",
                 "no memory for gradients and moments of %lld weights: %llu bytes, with gradients "
                 "for each part of a batch that this rank computes (%d)",
                 (long long)layout->n_weights, (unsigned long long)t->arena_bytes,
                 (int)trf__rounds(&t->options));
    trf__trainer_layout(t, run, layout, t->arena);
    trf__split_params(t, t->options.decay_all);
    t->pass.back.gradients = t->gradients;
    t->pass.back.who = t;
    t->unsummed = t->n_gradients;
    return TRF_OK;
}

// >>trainer-create  warnings; a trainer from a model and options

/* What cannot end well, but is no error. */
TRF__FN void trf__warn_of_options(const trf_trainer *t)
{
    const trf_train_options *o = &t->options;
    const trf_config *c = &t->model->config;
    double peak = trf_learning_rate(o, c->d_model, o->warmup);
    char text[320];
    if (o->consistency > 0 && !(o->dropout + o->attention_dropout + o->activation_dropout +
                                o->residual_dropout > 0))
        trf__log(&o->hooks, TRF_LOG_WARNING,
                 "consistency compares two passes with different dropout, but no dropout is set: "
                 "it changes nothing and doubles the time");
    if (peak < 1e-5) {
        snprintf(text, sizeof text,
                 "the learning rate is at most %.3g, too low for almost any model%s", peak,
                 o->schedule == TRF_NOAM
                 ? ": with TRF_NOAM, learning_rate is not a rate but a factor, about 1"
                                         : ": try 1e-3");
        trf__log(&o->hooks, TRF_LOG_WARNING, text);
    }
    if (c->embedding_init == TRF_EMBEDDING_NORMAL_1 && c->scale_embeddings &&
        c->positions != TRF_POSITIONS_NONE) {
        snprintf(text, sizeof text,
                 "embeddings with standard deviation 1 (TRF_EMBEDDING_NORMAL_1) times "
                 "sqrt(d_model) = %.3g drown the positions, which are at most 1: the model will "
                 "learn little about word order; use TRF_EMBEDDING_NORMAL_D or "
                 "scale_embeddings = 0", sqrt((double)c->d_model));
        trf__log(&o->hooks, TRF_LOG_WARNING, text);
    }
}

/* updates: planned in total; TRF_ENDLESS: unknown. */
TRF__FN void trf__warn_of_plan(const trf_trainer *t, int64_t updates)
{
    const trf_train_options *o = &t->options;
    char text[200];
    if (o->warmup <= updates) return;
    snprintf(text, sizeof text,
             "the learning rate rises for %lld updates, but there %s only %lld: the model will "
             "hardly learn; set warmup to a tenth of the planned updates",
             (long long)o->warmup, updates == 1 ? "is" : "are", (long long)updates);
    trf__log(&o->hooks, TRF_LOG_WARNING, text);
}

/* Fails whole: whatever has been opened is closed again, and the model is unchanged. */
TRF_API trf_status trf_trainer_create(trf_trainer **trainer, trf_model *model,
                                      const trf_train_options *options, trf_error *err)
{
    trf_train_options defaults = trf_train_defaults();
    trf_trainer *t;
    trf__limits limits;
    TRF__BEGIN_NEW(trainer);
    if (!model) return trf__fail_null(err, "model");
    TRF__TRY(trf__check_floats(model, err));
    if (!options) options = &defaults;
    TRF__TRY(trf_train_check(options, &model->config, err));
    TRF__ALLOC_ZEROED(trf_trainer, t, &options->hooks, 1, "trainer", "for a trainer");
    t->model = model;
    t->options = *options;
    t->learning.stopping.validated = -1;
    limits = trf__train_limits(&model->run, &model->config, &model->layout.range, options);
    trf_device device = trf__device_with(&model->config.device, options->threads);
    trf_status status = trf__pass_open(&t->pass, model, &limits, options, TRF_WEIGHTS_FULL, &device,
                                       &options->hooks, err);
    if (status == TRF_OK) status = trf__trainer_arena(t, err);
    if (status == TRF_OK) trf__pack_weights(&t->pass);
    if (status != TRF_OK) { trf_trainer_destroy(t); return status; }
    trf__warn_of_options(t);
    *trainer = t;
    return TRF_OK;
}

// >>trainer-state  options, frozen parameters and views between steps

TRF_API const trf_train_options *trf_trainer_options(const trf_trainer *trainer)
{
    return trainer ? &trainer->options : NULL;
}

/* No slot of a stage waits for its backward pass. */
TRF__FN trf_status trf__check_none_in_flight(const trf_trainer *trainer, trf_error *err)
{
    return TRF__OK_IF(!trainer->stage || trainer->stage->waiting == 0, TRF_E_STATE, trainer->step,
                      "slots", "slots that still wait for trf_stage_backward: %d",
                      (int)trainer->stage->waiting);
}

TRF__FN trf_status trf__check_no_gradients(const trf_trainer *trainer, trf_error *err)
{
    TRF__TRY(trf__check_none_in_flight(trainer, err));
    return TRF__OK_IF(trainer->micro == 0, TRF_E_STATE, trainer->step, "gradients",
                      "micro-batches that still wait for an optimizer step: %lld; call "
                      "trf_trainer_update, or discard their gradients", (long long)trainer->micro);
}

/* Threads, parts and the allocator are fixed for a trainer's life. */
TRF__FN trf_status trf__check_same_allocator(const trf_trainer *trainer, const trf_train_options *o,
                                             trf_error *err)
{
    const trf_hooks *old = &trainer->options.hooks, *hooks = &o->hooks;
    const trf_device *device = &trainer->model->config.device;
    int have = trf__device_with(device, trainer->options.threads).threads;
    int wanted = trf__device_with(device, o->threads).threads;
    TRF__FAIL_IF(wanted != have, TRF_E_INVALID_ARG, -1, "threads",
                 "the number of threads of a trainer cannot change: it has %d, got %d", have,
                 wanted);
    TRF__FAIL_IF(trf__rounds(o) != trf__rounds(&trainer->options), TRF_E_INVALID_ARG, -1, "parts",
                 "the number of parts that a trainer computes cannot change: it is %d, got %d "
                 "parts for %d rank%s", trf__rounds(&trainer->options), o->parts, o->n_ranks,
                 trf__plural(o->n_ranks));
    return TRF__OK_IF(hooks->alloc == old->alloc && hooks->free == old->free &&
                      (!old->alloc || hooks->user == old->user), TRF_E_INVALID_ARG, -1, "hooks",
                      "the allocator of a trainer cannot change, got another one");
}

/* Grows the plan first and changes the options afterwards, so a failure changes nothing. */
TRF_API trf_status trf_trainer_set_options(trf_trainer *trainer, const trf_train_options *options,
                                           trf_error *err)
{
    trf_train_options o = options ? *options : trf_train_defaults();
    TRF__TRY(trf__begin(trainer, "trainer", err));
    trf__pass *pass = &trainer->pass;
    TRF__TRY(trf__check_no_gradients(trainer, err));
    TRF__TRY(trf_train_check(&o, pass->config, err));
    TRF__TRY(trf__check_same_allocator(trainer, &o, err));
    trf__limits limits = trf__train_limits(&pass->run, pass->config, &pass->layout->range, &o);
    limits.source_rows = trf__max64(limits.source_rows, pass->plan.limits.source_rows);
    limits.target_rows = trf__max64(limits.target_rows, pass->plan.limits.target_rows);
    limits.sentences = trf__max64(limits.sentences, pass->plan.limits.sentences);
    limits.longest = trf__max64(limits.longest, pass->plan.limits.longest);
    if (memcmp(&limits, &pass->plan.limits, sizeof limits) != 0)
        TRF__TRY(trf__pass_resize(pass, &limits, err));
    if (o.decay_all != trainer->options.decay_all) trf__split_params(trainer, o.decay_all);
    trf__follow_options(pass, &o);
    pass->back.options_set++;        /* lists recorded so far have the old options */
    pass->run.hooks = o.hooks;
    trainer->options = o;
    return TRF_OK;
}

/* What the device has decided over the last update. */
TRF__FN trf_status trf__clip_result_of(const trf_trainer *t, trf__clip_result *clip_result,
                                       trf_error *err)
{
    t->pass.run.backend->download(&t->pass.run, clip_result, t->clip_result, sizeof *clip_result);
    return t->pass.run.backend->sync(&t->pass.run, err);
}

/* Whether a pattern matches a whole name. On a mismatch the last '*' takes one character more. */
TRF__FN int trf__glob_match(const char *pattern, const char *name)
{
    const char *star = NULL, *tried = NULL;
    while (*name)
        if (*pattern == '*') { star = ++pattern; tried = name; }
        else if (*pattern == *name) { pattern++; name++; }
        else if (star) { pattern = star; name = ++tried; }
        else return 0;
    while (*pattern == '*') pattern++;
    return !*pattern;
}

/* A frozen parameter has empty tiles, so clipping and Adam pass it by. `missed` counts the updates
   that its moments do not get: t of the bias correction goes on from there when it learns again. */
TRF_API trf_status trf_trainer_freeze(trf_trainer *trainer, const char *pattern, int32_t frozen,
                                      int32_t *matched, trf_error *err)
{
    trf__clip_result clip_result;
    int32_t n = 0, are = 0;
    if (matched) *matched = 0;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    const trf__layout *layout = &trainer->model->layout;
    if (!pattern) return trf__fail_null(err, "pattern");
    TRF__TRY(trf__check_range("frozen", frozen, -1, 1, err));
    for (int32_t i = 0; i < layout->n_params; i++) {
        int fits = trf__glob_match(pattern, layout->params[i].name);
        n += fits;
        are += fits && trainer->frozen[i] == '1';
    }
    TRF__FAIL_IF(n == 0, TRF_E_INVALID_ARG, -1, "pattern",
                 "no parameter of the model matches \"%.80s\"", pattern);
    if (frozen >= 0) {
        TRF__TRY(trf__check_no_gradients(trainer, err));
        TRF__TRY(trf__clip_result_of(trainer, &clip_result, err));
        for (int32_t i = 0; i < layout->n_params; i++)
            if (trf__glob_match(pattern, layout->params[i].name)) {
                if (frozen && trainer->frozen[i] == '0') trainer->missed[i] -= clip_result.updates;
                if (!frozen && trainer->frozen[i] == '1') trainer->missed[i] += clip_result.updates;
                trainer->frozen[i] = frozen ? '1' : '0';
            }
        trf__split_params(trainer, trainer->options.decay_all);
    }
    if (matched) *matched = frozen < 0 ? are : n;
    return TRF_OK;
}

TRF_API trf_tensor trf_trainer_tensor(trf_trainer *trainer, trf_trained which, int32_t index)
{
    trf_real *numbers = NULL;
    if (trainer && which == TRF_PARAMETER) {
        trainer->written = 1;
        trf__weights_own(trainer);
        numbers = trainer->model->weights;
    } else if (trainer && which == TRF_GRADIENT) numbers = trainer->gradients;
    else if (trainer && which == TRF_AVERAGE) numbers = trainer->average;
    if (!numbers) return trf_model_parameter(NULL, index);
    return trf__param_view(trainer->model, &trainer->pass.run, numbers, index);
}
