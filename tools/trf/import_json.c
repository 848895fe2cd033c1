// trf import: reads files of JSON by cJSON, and writes numbers.

#include "import.h"

#if defined(TRF_WITH_CJSON)
#include <errno.h>
#include <math.h>
#include <sys/stat.h>

int is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 0, n = 0, got;
    if (!file) {
        say("%s: %s", path, strerror(errno));
        return NULL;
    }
    do {
        text = grow(text, &capacity, n + 65537, 1);
        got = fread(text + n, 1, 65536, file);
        n += got;
    } while (got > 0);
    if (ferror(file)) {
        say("%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else text[n] = 0;
    fclose(file);
    if (bytes) *bytes = n;
    return text;
}

cJSON *read_json_file(const char *path)
{
    size_t n;
    char *text = read_whole(path, &n);
    const char *end = NULL;
    cJSON *json;
    if (!text) return NULL;
    json = cJSON_ParseWithLengthOpts(text, n + 1, &end, 1);
    if (!json)
        say("%s: expected JSON, got something else at byte %lld", path,
            end ? (long long)(end - text) : 0LL);
    else if (!cJSON_IsObject(json)) {
        say("%s: expected an object of JSON, got another value", path);
        cJSON_Delete(json);
        json = NULL;
    }
    free(text);
    return json;
}

int json_int(const cJSON *json, const char *path, const char *name, int32_t missing, int32_t *to)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    if ((!value || cJSON_IsNull(value)) && missing != INT32_MIN) {
        *to = missing;
        return DONE;
    }
    if (!cJSON_IsNumber(value) || value->valuedouble != floor(value->valuedouble) ||
        fabs(value->valuedouble) > 1e9) {
        say("%s: expected a whole number \"%s\", got %s", path, name,
            value ? "another value" : "none");
        return FAILED;
    }
    *to = (int32_t)value->valuedouble;
    return DONE;
}

int json_real(const cJSON *json, const char *path, const char *name, double missing, double *to)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    if (cJSON_IsNumber(value)) {
        *to = value->valuedouble;
        return DONE;
    }
    if ((!value || cJSON_IsNull(value)) && missing == missing) {
        *to = missing;
        return DONE;
    }
    say("%s: expected a number \"%s\", got %s", path, name, value ? "another value" : "none");
    return FAILED;
}

const char *json_text(const cJSON *json, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
}

int json_true(const cJSON *json, const char *name, int missing)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    return cJSON_IsBool(value) ? cJSON_IsTrue(value) : missing;
}

void put_bytes(made_file *to, const void *from, size_t n)
{
    if (n == 0) return;
    to->bytes = grow(to->bytes, &to->capacity, to->n + n, 1);
    memcpy(to->bytes + to->n, from, n);
    to->n += n;
}

void put_u32(made_file *to, uint32_t x)
{
    unsigned char bytes[4];
    int i;
    for (i = 0; i < 4; i++) bytes[i] = (unsigned char)(x >> 8 * i);
    put_bytes(to, bytes, 4);
}

int activation_of(const char *name, trf_activation *to)
{
    static const struct { const char *name; trf_activation is; } known[] = {
        {"relu", TRF_RELU}, {"gelu", TRF_GELU}, {"silu", TRF_SILU}, {"swish", TRF_SILU},
        {"gelu_new", TRF_GELU_TANH}, {"gelu_pytorch_tanh", TRF_GELU_TANH},
        {"gelu_fast", TRF_GELU_TANH}};
    size_t i;
    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *to = known[i].is;
            return DONE;
        }
    return FAILED;
}

int find_activation(const cJSON *json, const char *path, const char *member, trf_activation *to)
{
    const char *name = json_text(json, member);
    if (name && activation_of(name, to) == DONE) return DONE;
    say("%s: expected \"%s\" to be gelu, gelu_new, relu or silu, got %s", path, member,
        name ? name : "none");
    return FAILED;
}
#else
typedef int import_json_is_empty;
#endif
