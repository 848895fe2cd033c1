// trf: devices, models, and messages of the library in terms of options. See base.h.

#include "base.h"

#include <sys/stat.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>messages       fields of the library become options
// -----------------------------------------------------------------------------------------------

/* The option that sets a field of the library, or NULL. Most have the name of the field, with
   dashes. */
static const char *option_of(const char *doing, const char *field)
{
    static const struct { const char *doing, *field, *option; } others[] = {
        {"noise", "density", "noise-density"}, {"noise", "masked", "masked-share"},
        {"noise", "randomised", "random-share"}, {"validation", "beam", "valid-beam"},
        {"trainer", "source_tokens", "batch-tokens"}, {"trainer", "target_tokens", "batch-tokens"},
        {"trainer", "sequences", "batch-sentences"}, {"trainer", "longest", "max-length"},
        {"trainer", "dropout", "embedding-dropout"}
    };
    size_t i, at;
    int row;
    if (!strncmp(field, "device.", 7)) field += 7;
    for (i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(doing, others[i].doing) && !strcmp(field, others[i].field))
            return others[i].option;
    for (row = 0; row < n_rows; row++) {
        const char *name = rows[row].name;
        for (at = 0; field[at] && name[at] == (field[at] == '_' ? '-' : field[at]); at++) { }
        if (rows[row].kind != HEADING && !field[at] && !name[at]) return name;
    }
    return NULL;
}

/* Rewrites a message that begins with a field: "n_heads must divide d_model" becomes "--n-heads
   must divide --d-model". Returns whether it begins with one. */
static int in_options(const char *doing, const trf_error *err, char *text, size_t size)
{
    const char *at = err->message + strlen(err->what), *field = option_of(doing, err->what);
    size_t used;
    if (!field || strncmp(err->message, err->what, strlen(err->what))) return 0;
    used = (size_t)snprintf(text, size, "--%s", field);
    while (*at && used + 1 < size) {
        char word[64];
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const char *option;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), at);
        option = strchr(word, '_') ? option_of(doing, word) : NULL;
        if (option) used += (size_t)snprintf(text + used, size - used, "--%s", option);
        else used += (size_t)snprintf(text + used, size - used, "%.*s", (int)(n ? n : 1), at);
        at += n ? n : 1;
    }
    return 1;
}

int refused(const char *doing, const trf_error *err)
{
    char text[1024];
    if (err->status == TRF_E_INVALID_ARG && doing && in_options(doing, err, text, sizeof text))
        say("%s", text);
    else say_error(doing, err);
    return err->status == TRF_E_INVALID_ARG ? USAGE : FAILED;
}

int kernel_of(const trf_device *device, const char *what, char *name, size_t size)
{
    char text[500];
    const char *at = trf_device_text(device, text, sizeof text) ? strstr(text, what) : NULL;
    if (!at) return 0;
    at += strlen(what);
    snprintf(name, size, "%.*s", (int)strcspn(at, ";("), at);
    if (*name && name[strlen(name) - 1] == ' ') name[strlen(name) - 1] = 0;
    return 1;
}

/* If OpenBLAS cannot be loaded, the library would warn and use its built-in products: not for
   --products cblas. If AMX is missing, the library does not warn, so trf does. */
static int check_products(const struct settings *s)
{
#if defined(LOADS_OPENBLAS)
    const char *reason;
    if (s->device.kind == TRF_DEVICE_CPU && s->device.products == TRF_PRODUCTS_CBLAS &&
        !loads_openblas(&reason)) {
        say("--products cblas: OpenBLAS cannot be loaded: %s; --products built-in needs no library",
            reason);
        return USAGE;
    }
#endif
    if (s->device.kind == TRF_DEVICE_CPU && s->device.products == TRF_PRODUCTS_BF16X3) {
        char kernel[32];
        if (kernel_of(&s->device, "products when training: ", kernel, sizeof kernel) &&
            strcmp(kernel, "AMX"))
            inform("--products bf16x3: AMX is not available, so products are built-in\n");
    }
    return DONE;
}

int check_device(const struct settings *s)
{
    trf_config config = trf_config_preset(TRF_TINY);
    trf_error err;
    const char *value = text_given(s, AT(device));
    if (check_products(s)) return USAGE;
    config.source_vocab = config.target_vocab = 8;
    config.device = s->device;
    if (!trf_config_check(&config, NULL, &err)) return DONE;
    if (err.status != TRF_E_BACKEND) return refused("device", &err);
    if (!strcmp(err.what, "device.products"))
        say("--products cblas: this trf was built without CBLAS; use auto or built-in");
    else if (!strcmp(err.what, "device.kind"))
        say("--device %s: this trf was built for the CPU alone; make cuda builds one that uses a "
            "GPU",
            value);
    else say("--device %s: %s", value ? value : "cpu", err.message);
    return USAGE;
}

// -----------------------------------------------------------------------------------------------
// >>models
// -----------------------------------------------------------------------------------------------

trf_load_options load_options(const struct settings *s)
{
    trf_load_options load = trf_load_defaults();
    load.device = s->device;
    load.hooks.log = log_warning;
    return load;
}

int is_folder(const char *path)
{
    struct stat there;
    return path && !stat(path, &there) && S_ISDIR(there.st_mode);
}

static int refuse_folder(const char *path)
{
    char *config = format_text("%s/config.json", path);
    if (access(config, F_OK)) say("'%s' is a folder, where a model file is needed", path);
    else say("'%s' is a folder, where a model file is needed: trf import '%s' --output FILE makes one", path, path);
    free(config);
    return FAILED;
}

int check_model_file(const char *path)
{
    return is_folder(path) ? refuse_folder(path) : check_readable(path);
}

int load_refused(const char *path, const trf_error *err)
{
    char *folder;
    if (is_folder(path)) return refuse_folder(path);
    if (!strstr(err->message, "no trf.format")) return refused(NULL, err);
    folder = folder_of(path);
    if (strlen(folder) > 1 && ends_with(folder, "/")) folder[strlen(folder) - 1] = 0;
    say("'%s' is a safetensors file of another program: trf import '%s' --output FILE makes a model "
        "file of a published model's folder", path, folder);
    free(folder);
    return FAILED;
}

int model_refused(const struct settings *s, const trf_error *err)
{
    int status = load_refused(s->model, err);
    if (s->model_is_argument && !ends_with(s->model, ".safetensors"))
        say("'%s' is taken for the model: without --model, the first argument is the model", s->model);
    return status;
}

void say_no_vocabulary(const char *path, const trf_config *config, const trf_vocab *source,
                       const trf_vocab *target)
{
    int lacks_source = config->kind != TRF_DECODER_ONLY && !source;
    int lacks_target = config->kind != TRF_ENCODER_ONLY && !target;
    say("%s: it has no %s%s%s vocabulary, so it knows ids, but no text: trf train stores "
        "vocabularies in the model; a program in C calls trf_model_set_vocabs before it saves",
        path, lacks_source ? "source" : "", lacks_source && lacks_target ? " and no " : "",
        lacks_target ? "target" : "");
}

int products_are_own(const struct settings *s)
{
    return s->device.products == TRF_PRODUCTS_AUTO || s->device.products == TRF_PRODUCTS_BUILT_IN;
}

int load_model(struct settings *s, trf_model **model, const trf_vocab **source,
               const trf_vocab **target)
{
    const char *const read[] = {s->input, s->answer.prefixes, s->answer.queries, s->source, s->target, s->tsv};
    trf_load_options load = load_options(s);
    trf_error err;
    size_t i;
    if (!s->model || !*s->model) {
        say("give --model FILE, a model written by trf train");
        return USAGE;
    }
    if (check_output_name(s)) return FAILED;
    for (i = 0; i < sizeof read / sizeof *read; i++) if (check_readable(read[i])) return FAILED;
    load.weights = s->search.weights;
    load.packed = products_are_own(s);
    if (trf_model_load(model, s->model, &load, &err)) {
        if (err.status != TRF_E_STATE) return model_refused(s, &err);
        say("%s: --weights %s cannot be made of its weights: give no --weights", s->model,
            s->search.weights == TRF_WEIGHTS_BF16 ? "bf16" : "int8");
        return FAILED;
    }
    *source = trf_model_vocab(*model, TRF_SOURCE);
    *target = trf_model_vocab(*model, TRF_TARGET);
    if (trf_model_config(*model)->kind == TRF_DECODER_ONLY) *source = *target;
    if (trf_model_config(*model)->kind == TRF_ENCODER_ONLY) *target = *source;
    if (*source && *target) return DONE;
    say_no_vocabulary(s->model, trf_model_config(*model), *source, *target);
    return FAILED;
}

/* INT32_MAX: the file does not say. */
int32_t longest_trained(const trf_model *model)
{
    const char *text = trf_model_metadata(model, "trained.longest");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

int never_writes_unk(const trf_model *model)
{
    const char *unknown = trf_model_metadata(model, "target.unknown");
    return unknown && !strcmp(unknown, "0");
}

int check_decoder(const struct settings *s, const trf_model *model)
{
    trf_head head = trf_model_config(model)->head;
    if (trf_model_config(model)->kind != TRF_ENCODER_ONLY) return DONE;
    say("%s: an encoder-only model has no decoder and writes no text: trf %s", s->model,
        head == TRF_HEAD_MEAN || head == TRF_HEAD_FIRST ? "classify gives labels of its lines"
        : head == TRF_HEAD_TOKENS ? "tag gives labels of its words"
        : "embed gives vectors of its lines");
    return FAILED;
}

int32_t source_added(const trf_config *config) { return config->source_bos + config->source_eos; }

int32_t longest_source(const trf_model *model)
{
    const char *text = trf_model_metadata(model, longest_key);
    long n = text ? strtol(text, NULL, 10) : 0;
    int32_t most = trf_model_config(model)->max_length;
    return n > 0 && n < most ? (int32_t)n : most;
}

int32_t source_limit(const trf_config *config)
{
    return config->max_length - (config->kind == TRF_DECODER_ONLY ? 1 : source_added(config));
}

int check_floats(const char *path, const trf_model *model)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_model_parameter(model, i);
        if (p.data || p.device) continue;
        say("%s: a packed file, or one with weights of 8 bits: give the model that it was made from",
            path);
        return FAILED;
    }
    return DONE;
}

/* Saves the model under another name. */
int copy_model(struct settings *s, const char *from, const char *to)
{
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    int status = trf_model_load(&model, from, &load, &err) || trf_model_save(model, to, NULL, &err)
                     ? FAILED
                     : DONE;
    if (status) say_error(NULL, &err);
    trf_model_destroy(model);
    return status;
}

int stored_training(struct settings *s, const trf_file *file)
{
    trf_train_options stored;
    trf_error err;
    if (trf_file_training(file, &stored, &err)) { say_error(NULL, &err); return FAILED; }
    stored.hooks = s->training.hooks;       /* the options of this program */
    stored.threads = s->training.threads;
    stored.rank = s->training.rank;
    stored.n_ranks = s->training.n_ranks;
    stored.all_reduce = s->training.all_reduce;
    stored.all_reduce_end = s->training.all_reduce_end;
    stored.user = s->training.user;
    s->training = stored;
    return DONE;
}
