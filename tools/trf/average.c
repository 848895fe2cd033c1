// trf average: one model from several, each weight the mean of theirs.
//
// Of the last models of one training, or of its best ones; averages of trainings that began differently are nothing.

#include "trf.h"

int command_average(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    trf_model **models = NULL;
    size_t capacity = 0;
    trf_error err;
    int i, n = 0, status = DONE;
    if (argc < 2) { say("give two models or more"); return USAGE; }
    if (!s->output) { say("give --output FILE, the model to write"); return USAGE; }
    if (check_written(s, "output", s->output) || check_writable(s->output)) return FAILED;
    models = grow(NULL, &capacity, (size_t)argc, sizeof *models);
    for (i = 0; i < argc && !status; i++)
        if (trf_model_load(&models[n], argv[i], &load, &err)) { say_error(NULL, &err); status = FAILED; } else n++;
    if (!status && trf_model_average(models[0], models, n, &err)) {
        say_error(err.where >= 0 && err.where < n ? argv[err.where] : NULL, &err);
        status = FAILED;
    }
    if (!status && trf_model_save(models[0], s->output, &err)) { say_error(NULL, &err); status = FAILED; }
    for (i = 0; i < n; i++) trf_model_destroy(models[i]);
    free(models);
    return status;
}
