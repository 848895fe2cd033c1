// trf import: the tensors of one or several files, of safetensors or of PyTorch.

#include "import.h"

// -----------------------------------------------------------------------------------------------
// >>tensors        of one file of either kind
// -----------------------------------------------------------------------------------------------

/* Takes the path. */
static int open_file(struct weights *w, char *path)
{
    struct tensors *file;
    trf_error err;
    int32_t i;
    int status = DONE;
    w->file = grow(w->file, &w->capacity, w->n + 1, sizeof *w->file);
    file = &w->file[w->n++];
    memset(file, 0, sizeof *file);
    file->path = path;
    if (!ends_with(path, ".safetensors")) status = open_pytorch(&file->pytorch, path);
    else if (trf_file_open(&file->safetensors, path, NULL, &err)) status = refuse_error(NULL, &err);
    if (status) return status;
    if (file->pytorch) file->n = count_pytorch(file->pytorch);
    else while (trf_file_at(file->safetensors, file->n).name) file->n++;
    file->used = zeroed((size_t)file->n, 1);
    for (i = 0; file->safetensors && i < file->n; i++)
        enter_text(&file->names, tensor_at(file, i).name, i);
    sort_texts(&file->names);
    return DONE;
}

void close_weights(struct weights *w)
{
    size_t i;
    for (i = 0; i < w->n; i++) {
        trf_file_close(w->file[i].safetensors);
        close_pytorch(w->file[i].pytorch);
        free(w->file[i].path);
        free(w->file[i].used);
        free(w->file[i].names.entry);
    }
    free(w->file);
}

trf_file_entry tensor_at(const struct tensors *file, int32_t index)
{
    return file->pytorch ? pytorch_at(file->pytorch, index) : trf_file_at(file->safetensors, index);
}

int read_tensor(struct tensors *file, int32_t index, trf_real *to, int64_t count)
{
    trf_error err;
    if (file->pytorch) return read_pytorch(file->pytorch, index, to, count);
    if (!trf_file_read(file->safetensors, index, 0, to, count, &err)) return DONE;
    return refuse_error(NULL, &err);
}

struct tensors *find_tensor(const struct weights *w, const char *prefix, const char *name,
                            int32_t *index)
{
    static const char *const names[2][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                            {"LayerNorm.bias", "LayerNorm.beta"}};
    char whole[MOST_NAME];
    int k;
    for (k = 0; k < 3; k++) {
        const char *at = k ? strstr(name, names[k - 1][0]) : NULL;
        size_t i;
        if (k && !at) continue;
        if (at) snprintf(whole, sizeof whole, "%s%.*s%s", prefix, (int)(at - name), name,
                         names[k - 1][1]);
        else snprintf(whole, sizeof whole, "%s%s", prefix, name);
        for (i = 0; i < w->n; i++) {
            struct tensors *file = &w->file[i];
            const struct entry *found = file->pytorch ? NULL : find_text(&file->names, whole);
            *index = file->pytorch ? find_pytorch(file->pytorch, whole) : found ? found->id : -1;
            if (*index >= 0) return file;
        }
    }
    return NULL;
}

// -----------------------------------------------------------------------------------------------
// >>folder         which files have the weights
// -----------------------------------------------------------------------------------------------

/* Opens every file that the index of shards names, each once. */
static int open_shards(struct weights *w, const char *folder, const char *index)
{
    cJSON *json = read_json_file(index);
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(json, "weight_map"), *entry;
    int status = json ? DONE : FAILED;
    if (json && !cJSON_IsObject(map))
        status = refuse("%s: expected an object \"weight_map\"", index);
    cJSON_ArrayForEach(entry, map) {
        const char *name = cJSON_GetStringValue(entry);
        char *path;
        size_t i;
        if (status) break;
        if (!name || strchr(name, '/')) {
            status = refuse("%s: expected a name of a file of the same folder for \"%s\"", index,
                            entry->string);
            break;
        }
        path = format_text("%s/%s", folder, name);
        for (i = 0; i < w->n && strcmp(w->file[i].path, path); i++) { }
        if (i < w->n) free(path);
        else status = open_file(w, path);
    }
    cJSON_Delete(json);
    return status;
}

int open_weights(struct weights *w, const char *folder, const char *file)
{
    static const char *const names[] = {"model.safetensors", "pytorch_model.bin"};
    int status = FAILED, found = 0;
    size_t i;
    if (file) return open_file(w, format_text("%s", file));
    for (i = 0; i < 2 && !found; i++) {
        char *one = format_text("%s/%s", folder, names[i]);
        char *index = format_text("%s.index.json", one);
        found = 1;
        if (is_file(one)) { status = open_file(w, one); one = NULL; }
        else if (is_file(index)) status = open_shards(w, folder, index);
        else found = 0;
        free(one);
        free(index);
    }
    if (!found)
        say("%s: expected model.safetensors, pytorch_model.bin, or one of them with .index.json, "
            "got none of them", folder);
    return status;
}
