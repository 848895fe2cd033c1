// trf average: a model with the mean weights of several. trf quantize: one model, in fewer bits.
//
// They are the last models of one training run, or its best ones. The mean of models with different
// initial weights is useless.

#include "publish.h"

/* Whether both models have the same metadata entry, or none. */
static int same_entry(const trf_model *a, const trf_model *b, const char *key)
{
    const char *x = trf_model_metadata(a, key), *y = trf_model_metadata(b, key);
    return x && y ? !strcmp(x, y) : !x == !y;
}

/* The facts of a checkpoint about its training do not hold for the mean. */
static int forget_training(trf_model *model, trf_error *err)
{
    const char *key, *value;
    int32_t i = 0;
    while (trf_model_metadata_at(model, i, &key, &value)) {
        if (strncmp(key, "training.", 9) && strncmp(key, "option.", 7)) i++;
        else if (trf_model_set_metadata(model, key, NULL, err)) return FAILED;
    }
    return DONE;
}

/* Reports the first difference of two models as the option that sets it. */
static void say_difference(const struct settings *s, char *const *path, trf_model *const *models,
                           const trf_error *err)
{
    struct settings one = *s, other = *s;
    char values[2][64];
    int i;
    if (err->status != TRF_E_SHAPE || err->where < 0) { say_error(NULL, err); return; }
    one.config = *trf_model_config(models[0]);
    other.config = *trf_model_config(models[err->where]);
    for (i = 0; i < n_rows; i++) {
        if (!row_within(&rows[i], AT(config), sizeof s->config)) continue;
        value_text(&rows[i], &one, values[0], sizeof values[0]);
        value_text(&rows[i], &other, values[1], sizeof values[1]);
        if (!strcmp(values[0], values[1])) continue;
        say("%s has --%s %s, but %s has %s: only models of the same shape can be averaged", path[0],
            rows[i].name, values[0], path[err->where], values[1]);
        return;
    }
    say_error(path[err->where], err);
}

/* The models can be read, and the output can be written. */
static int check_files(const struct settings *s, int argc, char **argv)
{
    int i;
    if (!s->output || !strcmp(s->output, "-")) {
        say("give --output FILE, the model to write");
        return USAGE;
    }
    for (i = 0; i < argc; i++)
        if (same_file(s->output, argv[i])) {
            say("--output '%s' is also a model to read", s->output);
            return FAILED;
        }
    if (check_output_name(s) || check_replaceable(s->output)) return FAILED;
    for (i = 0; i < argc; i++) if (check_model_file(argv[i])) return FAILED;
    return DONE;
}

int command_average(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    trf_model **models = NULL;
    size_t capacity = 0;
    trf_error err;
    trf_save_options save = {TRF_WEIGHTS_FULL, NULL, 0, NULL};
    int i, n = 0, status = DONE;
    if (argc < 1 || (argc < 2 && !is_given(s, AT(publish.weights)))) {
        say("give two or more models, or one model and --weights");
        return USAGE;
    }
    if ((status = check_files(s, argc, argv))) return status;
    models = grow(NULL, &capacity, (size_t)argc, sizeof *models);
    for (i = 0; i < argc && !status; i++)
        if (trf_model_load(&models[n], argv[i], &load, &err)) status = load_refused(argv[i], &err);
        else status = check_floats(argv[i], models[n++]);
    for (i = 1; i < n && !status; i++) {        /* the same id must mean the same token */
        if (!same_tokens(trf_model_vocab(models[0], TRF_SOURCE), trf_model_vocab(models[i], TRF_SOURCE)) ||
            !same_tokens(trf_model_vocab(models[0], TRF_TARGET), trf_model_vocab(models[i], TRF_TARGET))) {
            say("%s and %s have different vocabularies", argv[0], argv[i]);
            status = FAILED;
        } else if (!same_entry(models[0], models[i], "labels")) {  /* of the head's rows */
            say("%s and %s have different labels (the metadata entry 'labels')", argv[0], argv[i]);
            status = FAILED;
        } else if (!same_entry(models[0], models[i], language_keys[0]) ||
                   !same_entry(models[0], models[i], language_keys[1])) {
            say("%s and %s translate different languages", argv[0], argv[i]);
            status = FAILED;
        }
    }
    if (!status && trf_model_average(models[0], models, n, &err)) {
        say_difference(s, argv, models, &err);
        status = FAILED;
    }
    save.weights = (trf_weights)s->publish.weights;
    if (!status && ((n > 1 && forget_training(models[0], &err)) ||
                    trf_model_save(models[0], s->output, &save, &err))) {
        say_error(NULL, &err);
        status = FAILED;
    }
    for (i = 0; i < n; i++) trf_model_destroy(models[i]);
    free(models);
    return status;
}

/* The library packs while it reads: no copy of the whole model exists. */
static int write_packed(const struct settings *s, char **argv)
{
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    int status = check_files(s, 1, argv);
    if (status) return status;
    load.packed = 1;
    load.weights = (trf_weights)s->publish.weights;
    if (trf_model_load(&model, argv[0], &load, &err)) return load_refused(argv[0], &err);
    if (trf_model_save(model, s->output, NULL, &err)) {
        say_error(NULL, &err);
        status = FAILED;
    }
    trf_model_destroy(model);
    return status;
}

int command_quantize(struct settings *s, int argc, char **argv)
{
    if (argc != 1) {
        say("give one model, such as trf quantize model.safetensors --weights int8 --output small");
        return USAGE;
    }
    if (s->publish.packed && s->publish.weights == TRF_WEIGHTS_F16) {
        say("--packed takes --weights full, bf16 or int8, got f16: no product reads f16");
        return USAGE;
    }
    if (s->publish.packed) return write_packed(s, argv);
    if (!is_given(s, AT(publish.weights))) {
        say("give --weights: int8, bf16, f16 or full");
        return USAGE;
    }
    return command_average(s, argc, argv);
}
