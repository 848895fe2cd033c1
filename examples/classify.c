/* classify.c - labels for texts: trains a classifier, or uses one.

   build   cc -O2 -I. examples/classify.c -o classify -lopenblas -lm
   data    make build/tasks && build/tasks kinds 4000 1 >kinds.tsv          text, tab, label
   run     ./classify kinds.tsv                         trains: classify.safetensors (20 seconds)
           ./classify classify.safetensors <texts       labels each line
           The second form takes any classifier: of `trf train --objective classify`, or a published
           one, after `trf import FOLDER --output mood.safetensors`
   prints  a line a second with the loss; or, for each line, its label, the
           label's probability and the line
   exits   with 1 if a call failed, with 2 without an argument */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(void *user, const char *line) { (void)user; puts(line); }

static trf_status train(const char *pairs, trf_error *err)
{
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL;
    trf_model *model = NULL;
    options.kind = TRF_DATA_LABELLED;
    options.say = say;
    if (!trf_dataset_create(&data, &options, err) && !trf_dataset_read(data, pairs, NULL, 0, err) &&
        !trf_dataset_train(data, &model, NULL, err))
        (void)trf_model_save(model, "classify.safetensors", NULL, err);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    return (trf_status)err->status;
}

/* Labels each line of standard input. A line that is too long for the model loses its end. */
static trf_status label_lines(const trf_model *model, trf_error *err)
{
    static char line[65536];
    const trf_config *c = trf_model_config(model);
    const int32_t room = c->max_length - c->source_bos - c->source_eos;
    const int32_t n_labels = c->n_labels + c->sequence_labels;      /* one of them is 0 */
    int32_t *ids = (int32_t *)malloc(sizeof line * sizeof *ids), n, i, best;
    trf_real *p = (trf_real *)malloc((size_t)n_labels * sizeof *p + 1);
    trf_tensor probabilities = trf_tensor_of(p, 2, 1, n_labels, 1);
    trf_sequences text = {ids, &n, 1};
    trf_reader *reader = NULL;
    char label[256];
    trf_status status = ids && p ? trf_reader_create(&reader, model, NULL, err) : TRF_E_NOMEM;
    while (!status && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        status = trf_vocab_encode(trf_model_vocab(model, TRF_SOURCE), line, 0, ids, sizeof line, &n, err);
        if (n > room) n = room;
        if (!status) status = trf_reader_classify(reader, &text, &probabilities, err);
        if (status) break;
        for (i = best = 0; i < n_labels; i++) if (p[i] > p[best]) best = i;
        status = trf_model_label(model, best, label, sizeof label, NULL, err);
        printf("%s\t%.3f\t%s\n", label, (double)p[best], line);
    }
    trf_reader_destroy(reader);
    free(ids); free(p);
    return status;
}

int main(int argc, char **argv)
{
    size_t n = argc == 2 ? strlen(argv[1]) : 0;
    trf_model *model = NULL;
    static trf_error err;
    trf_status status;
    if (!n) { fputs("usage: classify FILE.tsv | MODEL <texts\n", stderr); return 2; }
    if (n > 4 && !strcmp(argv[1] + n - 4, ".tsv")) status = train(argv[1], &err);
    else if (!(status = trf_model_load(&model, argv[1], NULL, &err)))
        status = label_lines(model, &err);
    if (status) fprintf(stderr, "%s\n", *err.message ? err.message : "no memory");
    trf_model_destroy(model);
    return status != TRF_OK;
}
