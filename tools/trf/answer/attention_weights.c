// The attention of one pair of texts: its weights, and these as JSON.
//
// One forward pass gives the weights of all heads of all layers (trf_reader_read). trf attention,
// trf translate, trf classify and trf tag use these functions.

#include "answer.h"

#include <math.h>

int read_attention(trf_reader *reader, const trf_model *model, trf_attention_kind kind,
                   const trf_sequences *source, const trf_sequences *target, struct attention *to)
{
    static const int32_t what[TRF_ATTENTION_KIND_COUNT] = {TRF_READ_ENCODER_SELF,
                                                           TRF_READ_DECODER_SELF, TRF_READ_CROSS};
    const trf_kind model_kind = trf_model_config(model)->kind;
    const trf_tensor *one;
    trf_batch batch;
    trf_reading seen;
    trf_error err;
    size_t numbers;
    int k;
    memset(&batch, 0, sizeof batch);
    memset(to->extent, 0, sizeof to->extent);
    if (source) batch.source = *source;
    if (target) batch.target = *target;
    /* a kind that the model lacks has no weights */
    if (kind == TRF_ENCODER_SELF ? model_kind == TRF_DECODER_ONLY
        : kind == TRF_DECODER_SELF ? model_kind == TRF_ENCODER_ONLY
                                   : model_kind != TRF_ENCODER_DECODER) return DONE;
    if (trf_reader_read(reader, &batch, what[kind], NULL, &seen, &err)) {
        say_error("attention", &err);
        return FAILED;
    }
    if (!seen.count) return DONE;
    one = &seen.attention[kind][0];
    numbers = (size_t)trf_tensor_count(one);
    to->weights = grow(to->weights, &to->capacity, numbers + 1, sizeof *to->weights);
    memcpy(to->weights, one->data, numbers * sizeof *to->weights);
    for (k = 0; k < 4; k++) to->extent[k] = one->shape[k];
    return DONE;
}

void free_attention(struct attention *of) { free(of->weights); }

const trf_real *head_of(const struct attention *of, int64_t layer, int64_t head)
{
    return of->weights + (layer * of->extent[1] + head) * of->extent[2] * of->extent[3];
}

void mean_attention(const struct attention *of, int64_t layer, trf_real *to)
{
    int64_t numbers = of->extent[2] * of->extent[3], head, i;
    for (i = 0; i < numbers; i++) to[i] = 0;
    for (head = 0; head < of->extent[1]; head++)
        for (i = 0; i < numbers; i++)
            to[i] += head_of(of, layer, head)[i] / (trf_real)of->extent[1];
}

static void print_json_matrix(FILE *file, const trf_real *x, int64_t height, int64_t width)
{
    int64_t i, j;
    fputc('[', file);
    for (i = 0; i < height; i++) {
        fputs(i ? ",[" : "[", file);
        for (j = 0; j < width; j++) {
            double weight = (double)x[i * width + j];
            if (j) fputc(',', file);
            if (isfinite(weight)) fprintf(file, "%.4g", weight);
            else fputs("null", file);
        }
        fputc(']', file);
    }
    fputc(']', file);
}

/* ATTENTION_ALL: a list of layers, each a list of heads, each a matrix; else the mean of the heads
   of the last layer. */
void print_json_attention(FILE *file, const struct attention *of, int all)
{
    const int64_t *extent = of->extent;
    int64_t layer, head;
    fputs(",\"attention\":", file);
    if (all != ATTENTION_ALL) {
        trf_real *mean = zeroed((size_t)(extent[2] * extent[3]) + 1, sizeof *mean);
        if (extent[0]) mean_attention(of, extent[0] - 1, mean);
        print_json_matrix(file, mean, extent[2], extent[3]);
        free(mean);
        return;
    }
    fputc('[', file);
    for (layer = 0; layer < extent[0]; layer++) {
        fputs(layer ? ",[" : "[", file);
        for (head = 0; head < extent[1]; head++) {
            if (head) fputc(',', file);
            print_json_matrix(file, head_of(of, layer, head), extent[2], extent[3]);
        }
        fputc(']', file);
    }
    fputc(']', file);
}
