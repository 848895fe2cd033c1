// trf: values of options as texts, and which options a command line gave.

#include "options.h"

#include <errno.h>
#include <math.h>

int choice_number(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int number = 0;
    for (;; number++) {
        const char *end = strchrnul(choices, '|');
        if ((size_t)(end - choices) == length && !memcmp(choices, text, length)) return number;
        if (!*end) return -1;
        choices = end + 1;
    }
}

/* Writes the choice of this number in "a|b|c". Empty: there is none. */
static void choice_text(const char *choices, int32_t number, char *text, size_t size)
{
    const char *choice = choices;
    while (number-- > 0 && *choice) choice = strchrnul(choice, '|'), choice += *choice == '|';
    snprintf(text, size, "%.*s", (int)(strchrnul(choice, '|') - choice), choice);
}

/* The shortest text that reads as the same number. */
static void real_text(double real, char *text, size_t size)
{
    int digits;
    if (isinf(real)) snprintf(text, size, "no limit"); else snprintf(text, size, "%.17g", real);
    if (strtod(text, NULL) != real) return;
    for (digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, real);
        if (strtod(text, NULL) == real) break;
    }
}

/* Writes the current value of a row as the text that sets it. Empty: nothing is set. */
void value_text(const struct row *row, const struct settings *s, char *text, size_t size)
{
    const char *field = (const char *)s + row->offset, *path;
    int32_t number = 0;
    int64_t wide = 0;
    uint64_t seed;
    double real;
    trf_device device;
    *text = 0;
    switch (row->kind) {
    case HEADING: case TEXTS: break;
    case FLAG:
        memcpy(&number, field, sizeof number);
        snprintf(text, size, "%s", number ? "yes" : "");
        break;
    case MAYBE:
        memcpy(&number, field, sizeof number);
        if (number) choice_text(row->argument, number - 1, text, size);
        break;
    case TEXT:
        memcpy(&path, field, sizeof path);
        snprintf(text, size, "%s", path ? path : "");
        break;
    case SWITCH: case CHOICE:
        memcpy(&number, field, sizeof number);
        choice_text(row->argument, number, text, size);
        break;
    case NUMBER: case COUNT:
        memcpy(&number, field, sizeof number);
        *text = 0;              /* negative: the model decides */
        if (number >= 0) snprintf(text, size, "%d", (int)number);
        break;
    case LONG_NUMBER: case LONG_COUNT:
        memcpy(&wide, field, sizeof wide);
        if (wide == INT64_MAX) snprintf(text, size, "no limit");
        else snprintf(text, size, "%lld", (long long)wide);
        break;
    case SEED:
        memcpy(&seed, field, sizeof seed);
        snprintf(text, size, "%llu", (unsigned long long)seed);
        break;
    case REAL:
        memcpy(&real, field, sizeof real);
        real_text(real, text, size);
        break;
    case DEVICE:
        memcpy(&device, field, sizeof device);
        if (device.kind == TRF_DEVICE_CPU) snprintf(text, size, "cpu");
        else snprintf(text, size, "cuda:%d", (int)device.index);
        break;
    }
}

int row_within(const struct row *row, size_t member, size_t bytes)
{
    return row->kind != HEADING && row->offset >= member && row->offset < member + bytes;
}

static int is_value_within(const struct row *row, size_t member, size_t bytes)
{
    return (row->commands & TRAIN) && row->kind != TEXT && row->kind != TEXTS &&
           row->kind != FLAG && row_within(row, member, bytes);
}

void print_options(FILE *file, const struct settings *s, size_t member, size_t bytes)
{
    char value[64];
    int i;
    for (i = 0; i < n_rows; i++) {
        if (!is_value_within(&rows[i], member, bytes)) continue;
        value_text(&rows[i], s, value, sizeof value);
        fprintf(file, "  --%s %s\n", rows[i].name, value);
    }
}

/* Whether the sizes are those of --size: single options may have overruled it. */
static int is_of_size(const struct settings *s)
{
    struct settings preset = *s;
    then_size(&preset);
    return s->train.size != SIZE_AUTO && s->config.d_model == preset.config.d_model &&
           s->config.n_heads == preset.config.n_heads && s->config.d_ff == preset.config.d_ff &&
           s->config.encoder_layers == preset.config.encoder_layers &&
           s->config.decoder_layers == preset.config.decoder_layers;
}

/* A preset is not shown if it was not given or if other options have changed what it sets: those
   options are shown themselves. */
static int is_silent(const struct settings *s, int i)
{
    const struct row *row = &rows[i];
    if (row->then == then_size) return !is_of_size(s);
    return !s->given[i] && (row->then == then_conventions || row->then == then_tokens ||
                            row->then == then_dropout || row->then == then_vocab_size);
}

/* The value of a file of data or of a switch, which describe a run; names of the files that
   it writes do not. NULL: there is none to show. */
static const char *text_value(const struct row *row, const struct settings *s)
{
    static const size_t own[] = {AT(model),  AT(train.checkpoint), AT(train.log),
                                 AT(resume), AT(overwrite),  AT(quiet)};
    const char *text = NULL;
    int32_t flag = 0;
    size_t i;
    for (i = 0; i < sizeof own / sizeof *own; i++) if (row->offset == own[i]) return NULL;
    if (row->kind == TEXT) memcpy(&text, (const char *)s + row->offset, sizeof text);
    if (row->kind == FLAG) memcpy(&flag, (const char *)s + row->offset, sizeof flag);
    return flag ? "yes" : text;
}

size_t offset_of_more(const struct row *row)
{
    return row_writes(row, AT(tsv)) ? AT(train.more_tsv)
           : row_writes(row, AT(train.text)) ? AT(train.more_text)
           : row_writes(row, AT(source)) ? AT(train.more_source)
           : row_writes(row, AT(target)) ? AT(train.more_target) : 0;
}

/* Appends texts to one that is malloc'd or NULL, with spaces between them. */
static char *join_texts(char *joined, const struct texts *all)
{
    int i;
    for (i = 0; i < all->n; i++) {
        char *longer = format_text("%s%s%s", joined ? joined : "", joined ? " " : "", all->item[i]);
        free(joined);
        joined = longer;
    }
    return joined;
}

/* Prints "name":"value"; spaces separate the values of an option that may be given several times.
   Returns 0 if there is nothing to print. */
static int print_json_option(FILE *file, const char *comma, const struct row *row,
                             const struct settings *s)
{
    char value[64], *joined = NULL;
    const char *text = value;
    const size_t again = offset_of_more(row);
    if (row->kind == TEXTS) {
        struct texts all;
        memcpy(&all, (const char *)s + row->offset, sizeof all);
        text = joined = join_texts(NULL, &all);
    } else if (row->kind == TEXT || row->kind == FLAG) {
        text = text_value(row, s);
        if (text && again) {
            struct texts more;
            memcpy(&more, (const char *)s + again, sizeof more);
            text = joined = join_texts(format_text("%s", text), &more);
        }
    } else value_text(row, s, value, sizeof value);
    if (text) {
        fprintf(file, "%s\"%s\":", comma, row->name);
        print_json_text(file, text, strlen(text));
    }
    free(joined);
    return text != NULL;
}

void print_json_options(FILE *file, const struct settings *s, size_t member, size_t bytes)
{
    const char *comma = "";
    int i;
    fputc('{', file);
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & TRAIN) || !row_within(&rows[i], member, bytes) || is_silent(s, i))
            continue;
        if (print_json_option(file, comma, &rows[i], s)) comma = ",";
    }
    fputc('}', file);
}

static int set_device(const struct row *row, char *field, const char *text)
{
    trf_device device;
    char *end;
    memcpy(&device, field, sizeof device);
    device.kind = strncmp(text, "cuda", 4) ? TRF_DEVICE_CPU : TRF_DEVICE_CUDA;
    device.index = 0;
    end = (char *)(uintptr_t)text + (device.kind == TRF_DEVICE_CUDA ? 4 : 3);
    if (device.kind == TRF_DEVICE_CUDA && *end == ':' && end[1] >= '0' && end[1] <= '9') {
        long number = strtol(end + 1, &end, 10);
        device.index = number > INT32_MAX ? INT32_MAX : (int32_t)number;
    }
    if ((device.kind == TRF_DEVICE_CPU && strcmp(text, "cpu")) ||
        (device.kind == TRF_DEVICE_CUDA && *end)) {
        say("--%s takes %s, got '%s'", row->name, row->argument, text);
        return USAGE;
    }
    memcpy(field, &device, sizeof device);
    return DONE;
}

static int set_whole(const struct row *row, char *field, const char *text)
{
    int wide = row->kind == LONG_NUMBER || row->kind == LONG_COUNT;
    int64_t low = row->kind == COUNT || row->kind == LONG_COUNT,
            high = wide ? INT64_MAX : INT32_MAX;
    long long value;
    int32_t narrow;
    char *end;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        if (end != text && !*end && !errno && value > high)
            say("--%s takes a whole number up to 2147483647, got '%s'", row->name, text);
        else say("--%s takes a whole number from %lld on, got '%s'", row->name, (long long)low, text);
        return USAGE;
    }
    narrow = (int32_t)(wide ? 0 : value);
    if (wide) memcpy(field, &value, sizeof value); else memcpy(field, &narrow, sizeof narrow);
    return DONE;
}

static int add_to_texts(const struct row *row, char *field, const char *text)
{
    struct texts *texts = (struct texts *)(void *)field;
    if (texts->n == MAX_TEXTS) {
        say("--%s may be given at most %d times", row->name, MAX_TEXTS);
        return USAGE;
    }
    texts->item[texts->n++] = text;
    return DONE;
}

/* Writes the text of an option into its field. */
int set_value(const struct row *row, struct settings *s, const char *text)
{
    char *field = (char *)s + row->offset, *end;
    unsigned long long seed;
    int32_t number = 1;
    double real;
    switch (row->kind) {
    case HEADING: break;
    case TEXT: memcpy(field, &text, sizeof text); break;
    case TEXTS: return add_to_texts(row, field, text);
    case FLAG: memcpy(field, &number, sizeof number); break;
    case MAYBE:
        if (*text) number = choice_number(row->argument, text) + 1;
        if (number < 1) {
            say("--%s takes %s, or nothing, got '%s'", row->name, row->argument, text);
            return USAGE;
        }
        memcpy(field, &number, sizeof number);
        break;
    case SWITCH: case CHOICE:
        number = choice_number(row->argument, text);
        if (row->kind == SWITCH && (!strcmp(text, "0") || !strcmp(text, "1"))) number = *text - '0';
        if (number < 0) {
            say("--%s takes %s, got '%s'", row->name, row->argument, text);
            return USAGE;
        }
        memcpy(field, &number, sizeof number);
        break;
    case NUMBER: case COUNT: case LONG_NUMBER: case LONG_COUNT: return set_whole(row, field, text);
    case SEED:
        errno = 0;
        seed = strtoull(text, &end, 10);
        if (end == text || *end || errno || strchr(text, '-')) {
            say("--%s takes a whole number from 0 to 2^64 - 1, got '%s'", row->name, text);
            return USAGE;
        }
        memcpy(field, &seed, sizeof seed);
        break;
    case REAL:
        real = strtod(text, &end);
        if (end != text && !*end && isfinite(real)) { memcpy(field, &real, sizeof real); break; }
        say("--%s takes a number, got '%s'", row->name, text);
        return USAGE;
    case DEVICE: return set_device(row, field, text);
    }
    return DONE;
}

int row_writes(const struct row *row, size_t field)
{
    return row->kind != HEADING && row->offset == field;
}

const char *option_name(size_t field)
{
    int i;
    for (i = 0; i < n_rows; i++) if (row_writes(&rows[i], field)) return rows[i].name;
    say("no option writes the field at %zu of the settings", field); /* a mistake in trf itself */
    abort();
}

const char *text_given(const struct settings *s, size_t field)
{
    int i;
    option_name(field);
    for (i = 0; i < n_rows; i++) if (s->given[i] && row_writes(&rows[i], field)) return s->given[i];
    return NULL;
}

int is_given(const struct settings *s, size_t field) { return text_given(s, field) != NULL; }

int shares_embedding(const trf_config *config)
{
    return config->tying == TRF_TIED_ALL || config->tying == TRF_TIED_EMBEDDINGS;
}

/* Applies all given options to s, in the order of the table. */
int apply_given(struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++) {
        if (!s->given[i] || rows[i].kind == TEXTS) continue;      /* their texts are in s already */
        if (set_value(&rows[i], s, s->given[i])) return USAGE;
        if (rows[i].then) rows[i].then(s);
    }
    if (is_given(s, AT(train.joint_vocabulary)) && !s->train.joint_vocabulary &&
        !is_given(s, AT(config.tying)) && s->config.tying == TRF_TIED_ALL)
        s->config.tying = TRF_TIED_DECODER; /* all that a preset can tie with two vocabularies */
    then_device(s);
    return DONE;
}

int set_given_architecture(struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if (s->given[i] && row_within(&rows[i], AT(config), sizeof s->config) &&
            set_value(&rows[i], s, s->given[i]))
            return USAGE;
    return DONE;
}
