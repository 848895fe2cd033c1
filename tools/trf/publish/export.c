// trf export: a model becomes a folder that transformers reads. The recipes are those of trf
// import, read backwards (import_recipes.c).

#include "publish.h"
#include "export.h"

// -----------------------------------------------------------------------------------------------
// >>choose         the architecture
// -----------------------------------------------------------------------------------------------

static const struct recipe *recipe_of(const char *type)
{
    const struct recipe *r;
    for (r = recipes; r->type && (!type || strcmp(r->type, type)); r++) { }
    return r->class_name ? r : NULL;
}

/* The architecture with the fewest fields that do not fit. */
static const struct recipe *find_nearest(const trf_config *c, struct fit *best)
{
    const struct recipe *r, *nearest = NULL;
    struct fit fit;
    int fewest = INT32_MAX;
    for (r = recipes; r->type; r++) {
        if (r->kind != c->kind || !r->class_name) continue;
        if (fit_recipe(r, c, &fit, 0)) fit.faults = INT32_MAX;
        cJSON_Delete(fit.json);
        if (nearest && fit.faults >= fewest) continue;
        nearest = r;
        fewest = fit.faults;
        *best = fit;
    }
    return nearest;
}

void say_export(const trf_config *c)
{
    struct fit fit;
    const char *type = find_nearest(c, &fit)->type;
    if (!fit.faults) inform("export: trf export can write this model as a Hugging Face folder (%s)\n", type);
    else inform("export: trf export cannot write this model as a Hugging Face folder; to write %s, train "
                "with%s\n", type, *fit.needs ? fit.needs : " other vocabularies");
}

/* Says why no architecture fits: the fields of the nearest one. */
static void say_nearest(const char *path, const trf_config *c)
{
    struct fit fit;
    const struct recipe *nearest = find_nearest(c, &fit);
    say("%s: it fits no architecture that trf knows; the nearest is %s:", path, nearest->type);
    fit_recipe(nearest, c, &fit, 1);
    cJSON_Delete(fit.json);
}

/* --as, or the type that the model was imported from, or the first one that fits. */
static int choose(const struct settings *s, const char *path, const trf_model *model,
                  struct fit *fit)
{
    static const char *const kinds[] = {"an encoder-decoder", "encoder-only", "decoder-only"};
    const trf_config *c = trf_model_config(model);
    const struct recipe *r =
        recipe_of(s->publish.as ? s->publish.as : trf_model_metadata(model, origin_key));
    memset(fit, 0, sizeof *fit);
    if (s->publish.as && !r) {
        say("--as %s: trf knows no such model_type; trf export --help lists them", s->publish.as);
        return USAGE;
    }
    if (s->publish.as && r->kind != c->kind)
        return refuse("%s: the model is %s, but %s is %s", path, kinds[c->kind], r->type,
                      kinds[r->kind]);
    if (s->publish.as && fit_recipe(r, c, fit, 1)) return FAILED;
    if (s->publish.as) return fit->faults ? FAILED : DONE;
    if (r && r->kind == c->kind && !fit_recipe(r, c, fit, 0) && !fit->faults) return DONE;
    for (r = recipes; r->type; r++) {
        cJSON_Delete(fit->json);
        fit->json = NULL;
        if (r->kind != c->kind || !r->class_name) continue;
        if (!fit_recipe(r, c, fit, 0) && !fit->faults) return DONE;
    }
    say_nearest(path, c);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>config         config.json, generation_config.json
// -----------------------------------------------------------------------------------------------

/* What find_label_kind of trf import reads. The class CrossEncoder makes a score of one label. */
static void add_problem(const trf_config *c, cJSON *json)
{
    const int any = c->label_kind == TRF_LABELS_ANY;
    cJSON *ours;
    if (!c->label_kind) return;
    set_text(json, "problem_type", any ? "multi_label_classification" : "regression");
    if (c->n_labels != 1) return;
    ours = cJSON_AddObjectToObject(json, "sentence_transformers");
    set_text(ours, "activation_fn", any ? "torch.nn.modules.activation.Sigmoid"
                                        : "torch.nn.modules.linear.Identity");
}

/* Numbers need no names in our models. */
static void name_numbers(struct labels *labels, int32_t n)
{
    char name[32];
    while (labels->n < n) {
        snprintf(name, sizeof name, "LABEL_%d", (int)labels->n);
        append_label(labels, name, strlen(name));
    }
}

static int add_labels(const trf_model *model, const char *path, cJSON *json)
{
    const trf_config *c = trf_model_config(model);
    struct labels labels;
    cJSON *names, *ids;
    int32_t i;
    int status = DONE;
    if (!count_labels(c)) return DONE;
    add_problem(c, json);
    memset(&labels, 0, sizeof labels);
    if (c->label_kind == TRF_LABELS_NUMBERS && !trf_model_metadata(model, "labels"))
        name_numbers(&labels, c->n_labels);
    else status = load_labels(model, path, &labels);
    names = cJSON_AddObjectToObject(json, "id2label");
    ids = cJSON_AddObjectToObject(json, "label2id");
    for (i = 0; i < labels.n && !status; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)i);
        cJSON_AddStringToObject(names, number, labels.name[i]);
        cJSON_AddNumberToObject(ids, labels.name[i], i);
    }
    free_labels(&labels);
    return status;
}

static void add_banned(cJSON *list, int32_t id)
{
    cJSON *word = cJSON_CreateArray();
    cJSON_AddItemToArray(word, cJSON_CreateNumber(id));
    cJSON_AddItemToArray(list, word);
}

/* Answers end with EOS and contain neither pad nor BOS, as those of trf. They are in the language
   of --target-language. */
static int write_generation(const struct folder *f, const struct fit *fit,
                            const struct languages *l)
{
    static const char *const same[] = {"pad_token_id", "bos_token_id", "eos_token_id",
                                       "decoder_start_token_id"};
    const trf_config *c = &fit->config;
    cJSON *json = cJSON_CreateObject(), *banned;
    size_t i;
    int status;
    if (c->kind == TRF_ENCODER_ONLY) {
        cJSON_Delete(json);
        return DONE;
    }
    for (i = 0; i < sizeof same / sizeof *same; i++) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(fit->json, same[i]);
        if (cJSON_IsNumber(id)) set_number(json, same[i], id->valuedouble);
    }
    if (l->ends.n && cJSON_GetObjectItemCaseSensitive(json, "eos_token_id"))
        cJSON_ReplaceItemInObjectCaseSensitive(json, "eos_token_id",
                                               cJSON_CreateIntArray(l->ends.ids, l->ends.n));
    if (l->start >= 0) set_number(json, "decoder_start_token_id", l->start);
    if (l->forced_first >= 0) set_number(json, "forced_bos_token_id", l->forced_first);
    set_number(json, "max_length", c->max_length);
    banned = cJSON_CreateArray();
    if (c->pad >= 0) add_banned(banned, c->pad);
    if (c->decoder_start == TRF_START_BOS && c->bos != c->eos) add_banned(banned, c->bos);
    if (cJSON_GetArraySize(banned)) cJSON_AddItemToObject(json, "bad_words_ids", banned);
    else cJSON_Delete(banned);
    status = write_json(f, "generation_config.json", json);
    cJSON_Delete(json);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>vocabularies   as the model file has them
// -----------------------------------------------------------------------------------------------

static int read_vocabulary(trf_file *file, const char *name, struct vocabulary *v)
{
    int32_t index = trf_file_find(file, name);
    trf_file_entry entry = trf_file_at(file, index);
    trf_error err;
    if (index < 0) return DONE;
    v->n = (size_t)entry.bytes;
    v->bytes = zeroed(v->n + 1, 1);
    if (!trf_file_read_bytes(file, index, 0, v->bytes, v->n, &err)) return DONE;
    return refuse_error(NULL, &err);
}

static int export_vocabularies(const char *path, const trf_model *model, const struct fit *fit,
                               const struct languages *l, struct folder *folder)
{
    struct tokenizer t;
    trf_file *file = NULL;
    trf_error err;
    int status = DONE;
    memset(&t, 0, sizeof t);
    t.folder = folder;
    t.config = &fit->config;
    t.recipe = fit->recipe;
    t.languages = l;
    t.longest = longest_source(model);
    t.side[0].vocab = trf_model_vocab(model, TRF_SOURCE);
    t.side[1].vocab = trf_model_vocab(model, TRF_TARGET);
    if (trf_file_open(&file, path, NULL, &err)) return refuse_error(NULL, &err);
    if (read_vocabulary(file, "trf.source_vocab", &t.side[0]) ||
        read_vocabulary(file, "trf.target_vocab", &t.side[1])) status = FAILED;
    if (t.side[0].vocab && t.side[1].vocab &&
        trf_vocab_kind(t.side[0].vocab) == trf_vocab_kind(t.side[1].vocab) &&
        t.side[0].n == t.side[1].n && !memcmp(t.side[0].bytes, t.side[1].bytes, t.side[0].n))
        t.side[1].vocab = NULL;
    if (!status) status = write_tokenizer(&t);
    trf_file_close(file);
    free(t.side[0].bytes);
    free(t.side[1].bytes);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>folder         the whole export
// -----------------------------------------------------------------------------------------------

/* Writes an object, and deletes it. */
static int write_object(const struct folder *folder, const char *file, cJSON *json)
{
    int status = write_json(folder, file, json);
    cJSON_Delete(json);
    return status;
}

/* What sentence-transformers reads of a sentence encoder: its steps, its pooling, the longest text,
   the prompt. */
static int write_pooling(const trf_model *model, const struct folder *folder)
{
#define STEP(number, path, name) "{\"idx\": " number ", \"name\": \"" number "\", \"path\": \"" \
    path "\", \"type\": \"sentence_transformers.models." name "\"}"
    static const char steps[] = "[" STEP("0", "", "Transformer") ",\n "
                                STEP("1", POOLING_FOLDER, "Pooling");
    static const char last[] = ",\n " STEP("2", "2_Normalize", "Normalize");
#undef STEP
    const char *name = trf_model_metadata(model, pooling_key);
    const char *prompt = trf_model_metadata(model, prompt_key);
    char *list;
    cJSON *json;
    int i, status;
    if (!name) return DONE;
    list = format_text("%s%s]\n", steps, trf_model_metadata(model, normalize_key) ? "" : last);
    json = cJSON_CreateObject();
    set_number(json, "word_embedding_dimension", trf_model_config(model)->d_model);
    for (i = 0; i < POOLINGS; i++)
        set_bool(json, poolings[i].flag, !strcmp(name, poolings[i].name));
    status = write_object(folder, POOLING_FOLDER "/config.json", json) ||
             write_bytes(folder, "modules.json", list, strlen(list)) ? FAILED : DONE;
    free(list);
    json = cJSON_CreateObject();
    set_number(json, "max_seq_length", longest_source(model));
    set_bool(json, "do_lower_case", 0);
    if (write_object(folder, "sentence_bert_config.json", json)) status = FAILED;
    if (!prompt) return status;
    json = cJSON_CreateObject();
    set_text(cJSON_AddObjectToObject(json, "prompts"), "default", prompt);
    set_text(json, "default_prompt_name", "default");
    return write_object(folder, "config_sentence_transformers.json", json) ? FAILED : status;
}

static int write_folder(const char *path, const trf_model *model, const struct fit *fit,
                        const struct languages *l, struct folder *folder)
{
    char *weights = path_in(folder, "model.safetensors");
    trf_model *made = NULL;
    int status = convert_model(model, &fit->config, &made) || write_weights(fit, made, weights)
                     ? FAILED : DONE;
    trf_model_destroy(made);
    free(weights);
    if (l->bos >= 0) set_number(fit->json, "bos_token_id", l->bos);
    return status || add_labels(model, path, fit->json) ||
                   write_json(folder, "config.json", fit->json) ||
                   write_generation(folder, fit, l) || write_pooling(model, folder) ||
                   export_vocabularies(path, model, fit, l, folder) || finish_folder(folder)
               ? FAILED : DONE;
}

static int export_model(const struct settings *s, const char *path, const trf_model *model)
{
    struct folder folder;
    struct languages languages;
    struct fit fit;
    int status = choose(s, path, model, &fit);
    if (!status) status = find_model_languages(s, path, model, &languages);
    if (!status) {
        status = begin_folder(&folder, s->output, path, s->overwrite);
        if (!status) {
            status = write_folder(path, model, &fit, &languages, &folder);
            drop_folder(&folder);
        }
    }
    if (!status)
        inform_line("%s: %s, %s, %lld weights", s->output, fit.recipe->type,
                    fit.head->class_name ? fit.head->class_name : fit.recipe->class_name,
                    (long long)trf_model_parameter_total(model));
    cJSON_Delete(fit.json);
    return status;
}

int command_export(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    int status;
    if (argc != 1) {
        say("give one model, such as trf export model.safetensors --output folder");
        return USAGE;
    }
    if (!s->output || !*s->output || !strcmp(s->output, "-")) {
        say("give --output FOLDER, the folder to write");
        return USAGE;
    }
    if (check_model_file(argv[0])) return FAILED;
    if (trf_model_load(&model, argv[0], &load, &err)) return load_refused(argv[0], &err);
    status = check_floats(argv[0], model);
    if (!status) status = export_model(s, argv[0], model);
    trf_model_destroy(model);
    return status;
}
