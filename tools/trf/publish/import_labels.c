// trf import: the labels of a classifier. Ours are sorted, so the rows of its head change places.

#include "import.h"


/* The names of labels by their numbers: "id2label" has label i under its number. Without "id2label"
   it is LABEL_i, as transformers calls it. */
static int append_names(const cJSON *names, const char *path, int32_t n, struct labels *labels)
{
    const char **by_number = zeroed((size_t)n, sizeof *by_number);
    const cJSON *entry;
    char text[32];
    int32_t i;
    int status = DONE;
    cJSON_ArrayForEach(entry, names) {
        long number = strtol(entry->string, NULL, 10);
        snprintf(text, sizeof text, "%ld", number);
        if (number >= 0 && number < n && !strcmp(text, entry->string) && !by_number[number])
            by_number[number] = cJSON_GetStringValue(entry);
    }
    for (i = 0; i < n && !status; i++) {
        const char *name = names ? by_number[i] : text;
        snprintf(text, sizeof text, "LABEL_%d", (int)i);
        if (!name || !*name || strpbrk(name, "\r\n"))
            status = refuse("%s: expected the name of a label for \"%d\" of \"id2label\"", path,
                            (int)i);
        else append_label(labels, name, strlen(name));
    }
    free(by_number);
    return status;
}

int32_t count_their_labels(const cJSON *json)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "id2label");
    int32_t n = 2;
    if (cJSON_IsObject(names)) return (int32_t)cJSON_GetArraySize(names);
    return json_int(json, "", "num_labels", 2, &n) ? 2 : n;
}

int read_labels(const cJSON *json, const char *path, trf_label_kind kind, struct labels *labels,
                int32_t **order)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "id2label");
    struct labels theirs = {NULL, 0, 0};
    int32_t n = 2, least = kind ? 1 : 2, i, k;
    int status = DONE;
    if (cJSON_IsNull(names)) names = NULL;
    if (names && !cJSON_IsObject(names)) return refuse("%s: expected an object \"id2label\"", path);
    if (names) n = (int32_t)cJSON_GetArraySize(names);
    else if (json_int(json, path, "num_labels", 2, &n)) return FAILED;
    if (n < least || n > 65536)
        return refuse("%s: the model has %d label%s, but trf builds only such classifiers with %d "
                      "to 65536", path, (int)n, plural(n), (int)least);
    status = append_names(names, path, n, &theirs);
    for (i = 0; i < theirs.n; i++)
        append_label(labels, theirs.name[i], strlen(theirs.name[i]));
    if (kind != TRF_LABELS_NUMBERS) settle_labels(labels);
    if (!status && labels->n < n)
        status = refuse("%s: expected labels that differ in \"id2label\"", path);
    *order = zeroed((size_t)n, sizeof **order);
    for (i = 0; i < theirs.n && !status; i++) {
        k = kind == TRF_LABELS_NUMBERS
            ? i : label_number(labels, theirs.name[i], strlen(theirs.name[i]));
        (*order)[k] = i;
    }
    free_labels(&theirs);
    return status;
}

static int permute_rows(trf_model *model, const char *name, const int32_t *order, trf_error *err)
{
    trf_tensor w = trf_model_parameter(model, trf_model_parameter_index(model, name));
    size_t n = (size_t)w.shape[0], each = (size_t)trf_tensor_count(&w) / n, i;
    trf_real *from = zeroed(n * each, sizeof *from), *to = zeroed(n * each, sizeof *to);
    int status = trf_tensor_read(&w, from, (int64_t)(n * each), err) ? FAILED : DONE;
    for (i = 0; i < n; i++)
        memcpy(to + i * each, from + (size_t)order[i] * each, each * sizeof *to);
    if (!status && trf_tensor_write(&w, to, (int64_t)(n * each), err)) status = FAILED;
    free(from);
    free(to);
    return status;
}

int set_labels(trf_model *model, const struct labels *labels, const int32_t *order)
{
    int second = trf_model_config(model)->sequence_labels > 0;
    trf_error err;
    if (permute_rows(model, second ? "sequence.weight" : "head.weight", order, &err) ||
        permute_rows(model, second ? "sequence.bias" : "head.bias", order, &err))
        return refuse_error("labels", &err);
    return store_labels(model, labels);
}
