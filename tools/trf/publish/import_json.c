// trf import, trf export: files of JSON by cJSON, members of config.json, numbers in bytes.

#include "import.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

const char *const special_names[SPECIALS] = {
    "pad_token", "bos_token", "eos_token", "unk_token", "mask_token", "cls_token", "sep_token"};

int is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

int check_pointer(const char *path, const void *begin, size_t n)
{
    static const char mark[] = "version https://git-lfs";
    if (n < sizeof mark - 1 || memcmp(begin, mark, sizeof mark - 1)) return DONE;
    return refuse("%s: it is a git-lfs pointer, not the file itself: git lfs pull fetches it",
                  path);
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
    if (ferror(file)) say("%s: %s", path, strerror(errno));
    if (ferror(file) || check_pointer(path, text, n)) {
        free(text);
        text = NULL;
    } else text[n] = 0;
    fclose(file);
    if (bytes) *bytes = n;
    return text;
}

/* Says where a text is no JSON. Python writes NaN and Infinity, which JSON has not. */
static void say_no_json(const char *path, const char *text, size_t at)
{
    static const char *const numbers[] = {"NaN", "Infinity", "-Infinity"};
    const char *value = text + at + strspn(text + at, " \t\r\n:,["), *what = "something else";
    size_t line = 1, i;
    for (i = 0; i < at; i++) line += text[i] == '\n';
    for (i = 0; i < 3; i++) if (!strncmp(value, numbers[i], strlen(numbers[i]))) what = numbers[i];
    say("%s: line %zu: expected JSON, got %s at byte %zu", path, line, what, at);
}

/* An object, or else a list. */
static cJSON *read_value(const char *path, int object)
{
    size_t n;
    char *text = read_whole(path, &n);
    const char *end = NULL;
    cJSON *json;
    if (!text) return NULL;
    json = cJSON_ParseWithLengthOpts(text, n + 1, &end, 1);
    if (!json) say_no_json(path, text, end ? (size_t)(end - text) : 0);
    else if (object ? !cJSON_IsObject(json) : !cJSON_IsArray(json)) {
        say("%s: expected %s of JSON, got another value", path, object ? "an object" : "a list");
        cJSON_Delete(json);
        json = NULL;
    }
    free(text);
    return json;
}

cJSON *read_json_file(const char *path) { return read_value(path, 1); }
cJSON *read_json_list(const char *path) { return read_value(path, 0); }

int read_if_there(const char *folder, const char *name, cJSON **json)
{
    char *path = format_text("%s/%s", folder, name);
    int status = is_file(path) && !(*json = read_json_file(path)) ? FAILED : DONE;
    free(path);
    return status;
}

int has_file(const char *folder, const char *name)
{
    char *path = format_text("%s/%s", folder, name);
    int there = is_file(path);
    free(path);
    return there;
}

char *cut_line(char **text)
{
    char *line = *text;
    size_t length = strcspn(line, "\n");
    if (!*line) return NULL;
    *text += length + (line[length] == '\n');
    if (length && line[length - 1] == '\r') length--;
    line[length] = 0;
    return line;
}

int json_int(const cJSON *json, const char *path, const char *name, int32_t missing, int32_t *to)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    if ((!value || cJSON_IsNull(value)) && missing != INT32_MIN) {
        *to = missing;
        return DONE;
    }
    if (!cJSON_IsNumber(value) || value->valuedouble != floor(value->valuedouble) ||
        fabs(value->valuedouble) > 1e9)
        return refuse("%s: expected a whole number \"%s\", got %s", path, name,
                      value ? "another value" : "none");
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
    return refuse("%s: expected a number \"%s\", got %s", path, name,
                  value ? "another value" : "none");
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

const char *token_text(const cJSON *value)
{
    return cJSON_IsObject(value) ? json_text(value, "content") : cJSON_GetStringValue(value);
}

const char *made_text(struct published *p, char *text)
{
    p->made = grow(p->made, &p->made_capacity, p->n_made + 1, sizeof *p->made);
    return p->made[p->n_made++] = text;
}

void free_made(struct published *p)
{
    while (p->n_made > 0) free(p->made[--p->n_made]);
    free(p->made);
}

void tell_rowless(const char *path, const char *first, size_t n)
{
    if (n == 1)
        inform_line("%s: left out: the token \"%s\", for which the model has no row", path, first);
    else if (n)
        inform_line("%s: left out: %zu tokens from \"%s\" on, for which the model has no rows",
                    path, n, first);
}

void tell_ordinary(const char *path, size_t n, const char *what)
{
    if (n)
        inform_line("%s: %zu added token%s not special: transformers cuts a text at them, but here "
                    "they are %s", path, n, n == 1 ? " is" : "s are", what);
}

const cJSON *only_part(const cJSON *part, const char *list)
{
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(part, list);
    if (!has_type(part, "Sequence") || cJSON_GetArraySize(parts) > 1) return part;
    return parts ? parts->child : NULL;
}

int has_type(const cJSON *part, const char *type)
{
    const char *is = json_text(part, "type");
    return is && !strcmp(is, type);
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

uint32_t get_u32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

void enter_text(struct table *t, const char *text, int32_t id)
{
    t->entry = grow(t->entry, &t->capacity, t->n + 1, sizeof *t->entry);
    t->entry[t->n].text = text;
    t->entry[t->n].used = 0;
    t->entry[t->n++].id = id;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->text, ((const struct entry *)b)->text);
}

/* Of equal texts the one with the largest id comes last. */
static int by_text_and_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = by_text(a, b);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

struct entry *find_text(const struct table *t, const char *text)
{
    struct entry key;
    key.text = text;
    return t->n ? bsearch(&key, t->entry, t->n, sizeof key, by_text) : NULL;
}

void sort_texts(struct table *t)
{
    if (t->n) qsort(t->entry, t->n, sizeof *t->entry, by_text_and_id);
}

int sort_unique(struct table *t, const char *path)
{
    size_t i;
    sort_texts(t);
    for (i = 1; i < t->n; i++)
        if (!strcmp(t->entry[i - 1].text, t->entry[i].text))
            return refuse("%s: the token \"%s\" occurs twice", path, t->entry[i].text);
    return DONE;
}

/* The first name of an activation is the one that is written. */
static const struct { const char *name; trf_activation is; } activations[] = {
    {"relu", TRF_RELU}, {"gelu", TRF_GELU}, {"silu", TRF_SILU}, {"swish", TRF_SILU},
    {"gelu_new", TRF_GELU_TANH}, {"gelu_pytorch_tanh", TRF_GELU_TANH},
    {"gelu_fast", TRF_GELU_TANH}, {"gelu_python", TRF_GELU}, {"gelu_python_tanh", TRF_GELU_TANH},
    {"gelu_accurate", TRF_GELU_TANH}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

int activation_of(const char *name, trf_activation *to)
{
    size_t i;
    for (i = 0; i < ACTIVATIONS; i++)
        if (!strcmp(name, activations[i].name)) {
            *to = activations[i].is;
            return DONE;
        }
    return FAILED;
}

const char *activation_name(trf_activation activation)
{
    size_t i;
    for (i = 0; i + 1 < ACTIVATIONS && activations[i].is != activation; i++) { }
    return activations[i].name;
}

int find_activation(const cJSON *json, const char *path, const char *member, trf_activation *to)
{
    const char *name = json_text(json, member);
    if (name && activation_of(name, to) == DONE) return DONE;
    return refuse("%s: expected \"%s\" to be gelu, gelu_new, relu or silu, got %s", path, member,
                  name ? name : "none");
}

// -----------------------------------------------------------------------------------------------
// >>members        config.json and trf_config, in both directions
// -----------------------------------------------------------------------------------------------

/* The number of the member before must be this one. */
static int read_again(const cJSON *json, const char *path, const struct member *m, int32_t first)
{
    int32_t other;
    if (json_int(json, path, m->name, INT32_MIN, &other)) return FAILED;
    if (other == first) return DONE;
    return refuse("%s: \"%s\" is %d and \"%s\" is %d, but trf builds only equal ones", path,
                  m[-1].name, (int)first, m->name, (int)other);
}

static int read_member(const cJSON *json, const char *path, const struct member *m, void *field)
{
    int needed = m->missing <= NEEDED;
    switch (m->kind) {
    case MEMBER_INT:
        return json_int(json, path, m->name, needed ? INT32_MIN : (int32_t)m->missing, field);
    case MEMBER_AGAIN: return read_again(json, path, m, *(int32_t *)field);
    case MEMBER_REAL: return json_real(json, path, m->name, needed ? NAN : m->missing, field);
    case MEMBER_BOOL: *(int32_t *)field = json_true(json, m->name, m->missing != 0); return DONE;
    default: return find_activation(json, path, m->name, field);
    }
}

void add_usual(const struct recipe *recipe, cJSON *json, const char *path)
{
    cJSON *all = cJSON_Parse(recipe->usual), *entry;
    while (all && (entry = all->child) != NULL) {
        cJSON_DetachItemViaPointer(all, entry);
        if (cJSON_GetObjectItemCaseSensitive(json, entry->string)) {
            cJSON_Delete(entry);
            continue;
        }
        if (cJSON_IsString(entry))
            inform_line("%s: \"%s\" is missing: transformers takes %s", path, entry->string,
                        entry->valuestring);
        else
            inform_line("%s: \"%s\" is missing: transformers takes %g", path, entry->string,
                        entry->valuedouble);
        cJSON_AddItemToObject(json, entry->string, entry);
    }
    cJSON_Delete(all);
}

int read_config(const struct recipe *recipe, const cJSON *json, const char *path, trf_config *c)
{
    const struct member *m;
    c->kind = recipe->kind;
    for (m = recipe->members; m->name; m++)
        if (read_member(json, path, m, (char *)c + m->field)) return FAILED;
    return recipe->configure(json, path, c);
}

static void set_item(cJSON *json, const char *name, cJSON *item)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, name);
    cJSON_AddItemToObject(json, name, item);
}

void set_number(cJSON *json, const char *name, double x)
{
    set_item(json, name, cJSON_CreateNumber(x));
}

void set_bool(cJSON *json, const char *name, int is)
{
    set_item(json, name, cJSON_CreateBool(is));
}

void set_text(cJSON *json, const char *name, const char *text)
{
    set_item(json, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void write_config(const struct recipe *recipe, const trf_config *c, cJSON *json)
{
    const struct member *m;
    for (m = recipe->members; m->name; m++) {
        const char *field = (const char *)c + m->field;
        if (m->kind == MEMBER_REAL) set_number(json, m->name, *(const double *)field);
        else if (m->kind == MEMBER_BOOL) set_bool(json, m->name, *(const int32_t *)field);
        else if (m->kind == MEMBER_ACTIVATION)
            set_text(json, m->name, activation_name(*(const trf_activation *)field));
        else set_number(json, m->name, *(const int32_t *)field);
    }
    if (recipe->describe) recipe->describe(c, json);
}

int check_id(const char *path, const char *token, double id)
{
    if (id >= 0 && id < MOST_IDS && id == (double)(int32_t)id) return DONE;
    return refuse("%s: expected an id of 0 to %d for \"%s\", got %.17g", path, MOST_IDS - 1, token,
                  id);
}

int place_text(struct places *t, const char *path, double id, const char *text)
{
    size_t i, before = t->n;
    if (check_id(path, text, id)) return FAILED;
    i = (size_t)id;
    t->text = grow(t->text, &t->capacity, i + 1, sizeof *t->text);
    if (i >= t->n) {
        t->n = i + 1;
        memset(t->text + before, 0, (t->n - before) * sizeof *t->text);
    }
    if (t->text[i] && strcmp(t->text[i], text)) return same_id(path, t->text[i], text, i);
    t->text[i] = text;
    return DONE;
}

int check_places(const struct places *t, const char *path)
{
    size_t i;
    for (i = 0; i < t->n && t->text[i]; i++) { }
    if (i == t->n) return DONE;
    return refuse("%s: no token has the id %zu", path, i);
}

int same_id(const char *path, const char *a, const char *b, size_t id)
{
    return refuse("%s: \"%s\" and \"%s\" both have the id %zu", path, a, b, id);
}

void name_layer(char to[], const char *from, int layer)
{
    while (*from) {
        size_t length = strcspn(from, "%");
        memcpy(to, from, length);
        to += length;
        from += length;
        if (!*from) break;
        to += sprintf(to, "%d", layer);
        from += 2;
    }
    *to = 0;
}
