// trf average: one model from several, each weight the mean of theirs.
//
// Of the last models of one training, or of its best ones; averages of trainings that began differently are nothing.

#include "trf.h"

/* Means of weights are nothing where the ids mean other tokens. */
static int same_tokens(const trf_vocab *a, const trf_vocab *b)
{
    int32_t id;
    if (!a || !b) return a == b;
    if (trf_vocab_size(a) != trf_vocab_size(b) || trf_vocab_kind(a) != trf_vocab_kind(b)) return 0;
    for (id = 0; id < trf_vocab_size(a); id++) if (strcmp(trf_vocab_token(a, id), trf_vocab_token(b, id))) return 0;
    return 1;
}

int command_average(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    trf_model **models = NULL;
    size_t capacity = 0;
    trf_error err;
    int i, n = 0, status = DONE;
    if (argc < 2) { say("give two models or more"); return USAGE; }
    if (!s->output || !strcmp(s->output, "-")) { say("give --output FILE, the model to write"); return USAGE; }
    if (check_written(s, "output", s->output) || check_writable(s->output)) return FAILED;
    models = grow(NULL, &capacity, (size_t)argc, sizeof *models);
    for (i = 0; i < argc && !status; i++)
        if (trf_model_load(&models[n], argv[i], &load, &err)) { say_error(NULL, &err); status = FAILED; } else n++;
    for (i = 1; i < n && !status; i++)
        if (!same_tokens(trf_model_source_vocab(models[0]), trf_model_source_vocab(models[i])) ||
            !same_tokens(trf_model_target_vocab(models[0]), trf_model_target_vocab(models[i]))) {
            say("%s and %s have different vocabularies", argv[0], argv[i]);
            status = FAILED;
        }
    if (!status && trf_model_average(models[0], models, n, &err)) {
        say_error(err.where >= 0 && err.where < n ? argv[err.where] : NULL, &err);
        status = FAILED;
    }
    if (!status && trf_model_save(models[0], s->output, &err)) { say_error(NULL, &err); status = FAILED; }
    for (i = 0; i < n; i++) trf_model_destroy(models[i]);
    free(models);
    return status;
}
