/* look.h - the attention weights of models that reverse sequences: numbers and pictures. */
#ifndef STUDIES_LOOK_H
#define STUDIES_LOOK_H

#include "pairs.h"

/* All attention weights of a kind: (layers, heads, queries, keys) for each sequence. */
STUDY trf_tensor *pairs_attention(struct study *s, const trf_model *model, const trf_batch *batch,
                                  trf_attention_kind kind)
{
    static const int32_t what[TRF_ATTENTION_KIND_COUNT] = {
        TRF_READ_ENCODER_SELF, TRF_READ_DECODER_SELF, TRF_READ_CROSS
    };
    const int32_t count = batch->target.count;
    trf_tensor *all = (trf_tensor *)study_memory(s, (size_t)count * sizeof *all);
    trf_reader *reader = NULL;
    trf_reading x;
    int32_t i;
    STUDY_TRY(trf_reader_create(&reader, model, NULL, &err));
    STUDY_TRY(trf_reader_read(reader, batch, what[kind], NULL, &x, &err));
    for (i = 0; i < count; i++) all[i] = study_copy(s, &x.attention[kind][i]);
    trf_reader_destroy(reader);
    return all;
}

/* The (queries, keys) of one layer and head in the weights of a sequence. */
STUDY const trf_real *pairs_head(const trf_tensor *of, int64_t layer, int64_t head)
{
    return of->data + (layer * of->shape[1] + head) * of->shape[2] * of->shape[3];
}

/* Share of the weight on the anti-diagonal, where a reversal of n symbols looks: symbol n - 1 - i
   is read where symbol i is written. */
STUDY double reversal_share(const trf_real *weights, int64_t n, int64_t keys)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += (double)weights[i * keys + n - 1 - i];
    return sum / (double)n;
}

/* The mean of that share over the sequences of a batch: shares[layer * heads + head]. */
STUDY void reversal_shares(struct study *s, const trf_model *model, const trf_batch *batch,
                           double *shares)
{
    const trf_tensor *all = pairs_attention(s, model, batch, TRF_DECODER_CROSS);
    const trf_config *c = trf_model_config(model);
    int32_t i, n = c->decoder_layers * c->n_heads, count = batch->source.count, k;
    memset(shares, 0, (size_t)n * sizeof *shares);
    for (i = 0; i < count; i++) {
        for (k = 0; k < n; k++) {
            const trf_real *weights = pairs_head(&all[i], k / c->n_heads, k % c->n_heads);
            shares[k] += reversal_share(weights, batch->source.lengths[i],
                                        all[i].shape[3]) / count;
        }
    }
}

/* A token's name on the axes of a picture. */
STUDY const char *reversal_name(int32_t id)
{
    static const char *const names[REVERSAL_VOCAB] = {
        "pad", "start", "end", "3", "4", "5", "6", "7", "8", "9",
        "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"};
    return names[id];
}

/* Draws every layer and head of a kind for a batch of one sequence. Row i of a target is what the
   decoder reads there: the start, then the symbols. */
STUDY void reversal_draw(struct study *s, const char *part, const char *title,
                         const trf_model *model, const trf_batch *one, trf_attention_kind kind)
{
    enum { MOST = 64 };
    static const char *source[REVERSAL_ROOM + 1], *target[REVERSAL_ROOM + 1];
    static char titles[MOST][40];
    trf_tensor of = pairs_attention(s, model, one, kind)[0];
    struct heat_map maps[MOST];
    int32_t i, heads = (int32_t)of.shape[1], n = (int32_t)of.shape[0] * heads;
    int32_t length = one->source.lengths[0];
    if (n > MOST) n = MOST;
    for (i = 0; i < length; i++) {
        source[i] = reversal_name(one->source.ids[i]);
        target[i + 1] = reversal_name(one->target.ids[i]);
    }
    source[length] = reversal_name(2);
    target[0] = reversal_name(1);
    memset(maps, 0, sizeof maps);
    for (i = 0; i < n; i++) {
        snprintf(titles[i], sizeof titles[i], "layer %d, head %d", (int)(i / heads),
                 (int)(i % heads));
        maps[i].title = titles[i];
        maps[i].values = pairs_head(&of, i / heads, i % heads);
        maps[i].rows = (long)of.shape[2];
        maps[i].columns = (long)of.shape[3];
        maps[i].row_names = kind == TRF_ENCODER_SELF ? source : target;
        maps[i].column_names = kind == TRF_DECODER_SELF ? target : source;
        maps[i].row_label = kind == TRF_ENCODER_SELF ? "source" : "read by the decoder";
        maps[i].column_label = kind == TRF_DECODER_SELF ? "read by the decoder" : "source";
    }
    study_heat_maps(s, part, title, maps, n, heads, 0, 1);
}

#endif /* STUDIES_LOOK_H */
