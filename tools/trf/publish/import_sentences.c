// trf import: how a sentence encoder makes one vector of a text's rows.
//
// sentence-transformers lists the steps in modules.json: the transformer, "Pooling" in a folder of
// its own, often "Normalize". Each step's "type" ends with its class.

#include "import.h"

const struct pooling poolings[POOLINGS] = {{"pooling_mode_mean_tokens", "mean", "mean"},
                                           {"pooling_mode_cls_token", "cls", "first"},
                                           {"pooling_mode_max_tokens", "max", "max"}};

/* The folder of the pooling, or NULL. *more becomes a step that trf does not know. */
static const char *find_pooling(const cJSON *steps, const char **more)
{
    const cJSON *step;
    const char *folder = NULL;
    cJSON_ArrayForEach(step, steps) {
        const char *type = json_text(step, "type"), *path = json_text(step, "path");
        const char *name = type ? strrchr(type, '.') : NULL;
        name = name ? name + 1 : type;
        if (!name || !strcmp(name, "Transformer") || !strcmp(name, "Normalize")) continue;
        if (strcmp(name, "Pooling")) *more = name;
        else folder = path ? path : POOLING_FOLDER;
    }
    return folder;
}

/* The name of the pooling that a configuration, an object, asks for, or NULL: another one, or
   several. */
static const char *name_of_pooling(const cJSON *json)
{
    const char *word = json_text(json, "pooling_mode");
    const cJSON *entry;
    int flags = 0, i;
    cJSON_ArrayForEach(entry, json)
        flags += !strncmp(entry->string, "pooling_mode_", 13) && cJSON_IsTrue(entry);
    for (i = 0; i < POOLINGS; i++)
        if (word ? !strcmp(word, poolings[i].word)
                 : flags == 1 && json_true(json, poolings[i].flag, 0)) return poolings[i].name;
    return NULL;
}

int read_pooling(const char *folder, const char **name)
{
    char *list = format_text("%s/modules.json", folder), *path = NULL;
    cJSON *steps = NULL, *json = NULL;
    const char *inner = POOLING_FOLDER, *more = NULL;
    int status = DONE;
    *name = NULL;
    if (is_file(list)) {
        if (!(steps = read_json_list(list))) status = FAILED;
        else inner = find_pooling(steps, &more);
    }
    if (!status && inner) path = format_text("%s/%s/config.json", folder, inner);
    if (path && is_file(path)) {
        if (!(json = read_json_file(path))) status = FAILED;
        else if (!(*name = name_of_pooling(json)))
            inform_line("%s: left out: another pooling than mean, first or max of the rows", path);
    }
    if (more)
        inform_line("%s: left out: %s, which trf does not build: vectors are those before it", list,
                    more);
    cJSON_Delete(steps);
    cJSON_Delete(json);
    free(list);
    free(path);
    return status;
}
