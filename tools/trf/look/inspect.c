// trf inspect: the contents of a file.
//
// trf_file_* gives the tensors and texts of any safetensors file, and the numbers block by block,
// so a file may be larger than memory. For files of transformer.h the settings are shown as the
// options that set them. Without a file: architecture.c.

#include "look.h"
#include "inspect.h"

#include <math.h>

struct statistics { double sum, squares, low, high, mean, deviation; int64_t finite, nonfinite; };

static void add_number(struct statistics *s, double x)
{
    if (!isfinite(x)) { s->nonfinite++; return; }
    s->finite++;
    s->sum += x;
    s->squares += x * x;
    if (x < s->low) s->low = x;
    if (x > s->high) s->high = x;
}

/* Reads the numbers of one tensor; only floating-point ones have statistics. */
static trf_status read_statistics(trf_file *file, int32_t index, int64_t count,
                                  struct statistics *s, trf_error *err)
{
    trf_real block[4096];
    int64_t first, n, i;
    memset(s, 0, sizeof *s);
    s->low = HUGE_VAL;
    s->high = -HUGE_VAL;
    for (first = 0; first < count; first += n) {
        trf_status status;
        n = count - first < 4096 ? count - first : 4096;
        status = trf_file_read(file, index, first, block, n, err);
        if (status) return status == TRF_E_UNSUPPORTED ? TRF_OK : status;
        for (i = 0; i < n; i++) add_number(s, (double)block[i]);
    }
    s->mean = s->sum / (double)s->finite;
    s->deviation = sqrt(fmax(0, s->squares / (double)s->finite - s->mean * s->mean));
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>tensors        one line, or one object, for each
// -----------------------------------------------------------------------------------------------

/* What has been printed so far. */
struct report {
    struct settings *s;
    trf_file *file;
    const char *path;
    int64_t total, nonfinite;
};

static void print_tensor(const trf_file_entry *entry, const struct statistics *s, int64_t count)
{
    int32_t k;
    printf("  ");
    print_clean(stdout, entry->name, 200);
    printf("  %s  (", entry->dtype);
    for (k = 0; k < entry->rank; k++) printf("%s%lld", k ? ", " : "", (long long)entry->shape[k]);
    printf(")  %lld", (long long)count);
    if (s->finite) printf("  %.4g  %.4g  %.4g  %.4g", s->mean, s->deviation, s->low, s->high);
    if (s->nonfinite) printf("  %lld NOT FINITE%s", (long long)s->nonfinite,
                             strcmp(entry->dtype, "F64") ? "" : " as float32");
    putchar('\n');
}

static void print_tensor_object(const trf_file_entry *entry, const struct statistics *s,
                                int64_t count)
{
    int32_t k;
    printf("{\"name\":");
    print_json_text(stdout, entry->name, strlen(entry->name));
    printf(",\"type\":\"%s\",\"shape\":[", entry->dtype);
    for (k = 0; k < entry->rank; k++) printf("%s%lld", k ? "," : "", (long long)entry->shape[k]);
    printf("],\"numbers\":%lld", (long long)count);
    if (s->finite) {
        print_json_field(stdout, "mean", s->mean);
        print_json_field(stdout, "deviation", s->deviation);
        print_json_field(stdout, "smallest", s->low);
        print_json_field(stdout, "largest", s->high);
    }
    printf(",\"not_finite\":%lld}", (long long)s->nonfinite);
}

static int print_tensors(struct report *r)
{
    struct statistics statistics;
    trf_error err;
    trf_file_entry entry;
    int32_t i, k;
    printf(r->s->json
               ? ",\"tensors\":["
               : "tensors: name, type, shape, numbers, mean, deviation, smallest, largest\n");
    for (i = 0; (entry = trf_file_at(r->file, i)).name; i++) {
        int64_t count = 1;
        for (k = 0; k < entry.rank; k++) count *= entry.shape[k];
        if (read_statistics(r->file, i, count, &statistics, &err)) {
            say_error(r->path, &err);
            return FAILED;
        }
        if (r->s->json && i) putchar(',');
        (r->s->json ? print_tensor_object : print_tensor)(&entry, &statistics, count);
        r->total += count;
        r->nonfinite += statistics.nonfinite;
    }
    if (r->s->json) { printf("]"); return DONE; }
    printf("total: %d tensors, %lld numbers", (int)i, (long long)r->total);
    if (r->nonfinite) printf(", %lld of them not finite", (long long)r->nonfinite);
    putchar('\n');
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>ours           a model or a checkpoint: settings as options, vocabularies
// -----------------------------------------------------------------------------------------------

static void print_vocabulary(const char *side, const trf_vocab *vocab, int json)
{
    int32_t id;
    if (!vocab) {
        if (!json) printf("%s vocabulary: none in the file\n", side);
        return;
    }
    if (json)
        printf(",\"%s_vocabulary\":{\"kind\":\"%s\",\"size\":%d,\"tokens\":[", side,
               kinds_of_tokens[trf_vocab_kind(vocab)], (int)trf_vocab_size(vocab));
    else
        printf("%s vocabulary: %d %s:", side, (int)trf_vocab_size(vocab),
               kinds_of_tokens[trf_vocab_kind(vocab)]);
    for (id = 4; id < trf_vocab_size(vocab) && (json || id < 12); id++) {
        size_t bytes;
        const char *token = token_of(vocab, id, &bytes);
        fputs(json ? id > 4 ? "," : "" : " ", stdout);
        if (json) print_json_text(stdout, token, bytes);
        else
            print_clean(stdout, *token ? token : "\xE2\x90\x80",
                        40); /* U+2400, the picture of a NUL */
    }
    printf(json ? "]}" : "%s\n", trf_vocab_size(vocab) > 12 ? " ..." : "");
}

/* The labels of sequences or words. */
static void print_labels(const trf_model *model, int json)
{
    const char *text = trf_model_metadata(model, "labels");
    int32_t n = count_labels(trf_model_config(model)), i;
    if (n == 0 || (!text && json)) return;
    if (!text && trf_model_config(model)->label_kind == TRF_LABELS_NUMBERS) {
        printf("%d number%s for each text\n", (int)n, plural(n));
        return;
    }
    if (!text) {
        printf("%d label%s; the file has no texts of labels (the metadata entry 'labels')\n",
               (int)n,
               plural(n));
        return;
    }
    if (json) printf(",\"labels\":["); else printf("%d label%s:", (int)n, plural(n));
    for (i = 0; *text && (json || i < 8); i++) {
        char *label = format_text("%.*s", (int)strcspn(text, "\n"), text);
        fputs(i == 0 ? json ? "" : " " : json ? "," : " | ", stdout);
        if (json) print_json_text(stdout, label, strlen(label));
        else print_clean(stdout, label, 40);
        text += strlen(label);
        text += *text == '\n';
        free(label);
    }
    printf(json ? "]" : "%s\n", *text ? " | ..." : "");
}

static void print_longest(const trf_config *c, int json)
{
    if (c->trained_source || c->trained_target)
        printf(json ? ",\"longest_in_training\":{\"source\":%d,\"target\":%d}"
                    : "longest in training: source %d, target %d\n",
               (int)c->trained_source, (int)c->trained_target);
}

static int has_8_bits(const trf_file *file)
{
    trf_file_entry entry;
    int32_t i;
    for (i = 0; (entry = trf_file_at(file, i)).name; i++)
        if (!strcmp(entry.dtype, "I8")) return 1;
    return 0;
}

static int print_ours(struct report *r, int checkpoint)
{
    struct settings *s = r->s;
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    const char *steps;
    long long updates;
    int status;
    load.allow_nonfinite = 1;
    if (trf_model_load(&model, r->path, &load, &err)) { say_error(NULL, &err); return FAILED; }
    s->config = *trf_model_config(model);
    print_model(s);
    print_vocabulary("source", trf_model_vocab(model, TRF_SOURCE), s->json);
    print_vocabulary("target", trf_model_vocab(model, TRF_TARGET), s->json);
    print_labels(model, s->json);
    print_longest(&s->config, s->json);
    status = print_weight_counts(&s->config, trf_model_parameter_count(model), s->json);
    trf_model_destroy(model);
    if (status || !checkpoint)
        return status ? status : print_resources(s, has_8_bits(r->file));
    if (stored_training(s, r->file)) return FAILED;
    steps = trf_file_metadata(r->file, "trf.step");
    updates = steps ? strtoll(steps, NULL, 10) : -1;
    if (s->json) printf(",\"updates\":%lld", updates);
    else printf("training: %lld update%s so far\n", updates, plural(updates));
    print_settings(s, "training", AT(training), sizeof s->training);
    return print_resources(s, 0);
}

// -----------------------------------------------------------------------------------------------
// >>inspect        the command
// -----------------------------------------------------------------------------------------------

static void print_metadata(const struct report *r, int ours)
{
    const char *key, *value;
    int32_t i;
    int first = 1;
    if (r->s->json) printf(",\"metadata\":{");
    for (i = 0; trf_file_metadata_at(r->file, i, &key, &value); i++) {
        if (ours && (!strncmp(key, "trf.", 4) || !strcmp(key, "labels")))
            continue; /* print_ours shows them */
        if (r->s->json) {
            if (!first) putchar(',');
            print_json_text(stdout, key, strlen(key));
            putchar(':');
            print_json_text(stdout, value, strlen(value));
        } else {
            printf("metadata: ");
            print_clean(stdout, key, 60);
            printf(": ");
            print_clean(stdout, value, 60);
            putchar('\n');
        }
        first = 0;
    }
    if (r->s->json) putchar('}');
}

/* The name of the first given option that does not work with a file, or NULL. */
static const char *not_for_files(const struct settings *s)
{
    static const size_t of_files[] = {AT(json),
                                      AT(model),
                                      AT(inspect.trace),
                                      AT(inspect.source_length),
                                      AT(inspect.target_length),
                                      AT(inspect.translate_batch),
                                      AT(search.beam),
                                      AT(corpus.batch_tokens),
                                      AT(corpus.batch_sentences),
                                      AT(training.recompute),
                                      AT(device.threads)};
    const size_t n = sizeof of_files / sizeof *of_files;
    size_t k;
    int i;
    for (i = 0; i < n_rows; i++) {
        if (!s->given[i]) continue;
        for (k = 0; k < n && rows[i].offset != of_files[k]; k++) { }
        if (k == n) return rows[i].name;
    }
    return NULL;
}

/* Whether an option other than --json is given: all of them describe a model or how it runs. */
static int describes_model(const struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++) if (s->given[i] && rows[i].offset != AT(json)) return 1;
    return 0;
}

int command_inspect(struct settings *s, int argc, char **argv)
{
    trf_load_options load = load_options(s);
    struct report r;
    trf_error err;
    const char *content;
    int status, checkpoint, packed;
    if (argc == 0 && describes_model(s)) return inspect_options(s);
    if (argc != 1) {
        say("give one file, or options that describe a model, such as --size base --vocab-size "
            "37000");
        return USAGE;
    }
    if (not_for_files(s)) {
        say("the file '%s' describes its model: --%s does not work with a file", argv[0],
            not_for_files(s));
        return USAGE;
    }
    if ((status = check_running(s))) return status;
    if (check_not_output(argv[0]) || check_model_file(argv[0])) return FAILED;
    memset(&r, 0, sizeof r);
    r.s = s;
    r.path = argv[0];
    load.allow_nonfinite = 1;
    if (trf_file_open(&r.file, r.path, &load, &err)) { say_error(NULL, &err); return FAILED; }
    content = trf_file_metadata(r.file, "trf.content");
    checkpoint = content && !strcmp(content, "checkpoint");
    packed = content && !strcmp(content, "packed");
    if (!content && s->inspect.trace) {
        say("--trace: '%s' is not a model of transformer.h", r.path);
        trf_file_close(r.file);
        return FAILED;
    }
    if (s->json) {
        printf("{\"file\":");
        print_json_text(stdout, r.path, strlen(r.path));
        printf(",\"content\":\"%s\"", checkpoint ? "checkpoint"
                                      : packed   ? "packed"
                                      : content  ? "model"
                                                 : "safetensors");
    } else {
        printf("file: ");
        print_clean(stdout, r.path, 1000);
        printf(", %s\n", checkpoint ? "a checkpoint of transformer.h"
                         : packed   ? "a packed model of transformer.h"
                         : content  ? "a model of transformer.h"
                                    : "safetensors");
    }
    status = content ? print_ours(&r, checkpoint) : DONE;
    print_metadata(&r, content != NULL);
    if (print_tensors(&r)) status = FAILED;
    if (s->json) puts("}");
    trf_file_close(r.file);
    return check_output(stdout, NULL) ? FAILED : status;
}
