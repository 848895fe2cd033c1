// trf import: a model that another program has trained becomes a model file of trf.
//
// A folder of Hugging Face has config.json, the weights in safetensors files, and the files of a
// tokenizer. A recipe (import_recipes.c) says what its parts are called here. Every tensor is
// checked before anything is written.

#include "import.h"

#if defined(TRF_WITH_CJSON)
enum { NAME_BYTES = 512 };

/* The tensors of a folder: one file, or several (shards). */
struct weights {
    trf_file **file;
    char **path;
    size_t n, capacity, paths_capacity;
    char **used;                /* for each file: 1 for each of its tensors that a recipe knows */
};

struct importing {
    struct settings *s;
    char *config_path;
    const struct recipe *recipe;
    const char *prefix;         /* in front of the names of tensors */
    trf_config config;
    struct weights weights;
    trf_model *model;
    int faults;                 /* messages about tensors so far */
};

// -----------------------------------------------------------------------------------------------
// >>weights        the tensors of one or several files
// -----------------------------------------------------------------------------------------------

static int open_weights(struct weights *w, char *path)
{
    trf_file *file = NULL;
    trf_error err;
    if (trf_file_open(&file, path, NULL, &err)) {
        say_error(NULL, &err);
        free(path);
        return FAILED;
    }
    w->file = grow(w->file, &w->capacity, w->n + 1, sizeof *w->file);
    w->path = grow(w->path, &w->paths_capacity, w->n + 1, sizeof *w->path);
    w->path[w->n] = path;
    w->file[w->n++] = file;
    return DONE;
}

static void close_weights(struct weights *w)
{
    size_t i;
    for (i = 0; i < w->n; i++) {
        trf_file_close(w->file[i]);
        free(w->path[i]);
        if (w->used) free(w->used[i]);
    }
    free(w->file);
    free(w->path);
    free(w->used);
}

/* Opens every file that the index of shards names, each once. */
static int open_shards(struct weights *w, const char *folder, const char *index)
{
    cJSON *json = read_json_file(index);
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(json, "weight_map"), *entry;
    int status = json ? DONE : FAILED;
    if (json && !cJSON_IsObject(map)) {
        say("%s: expected an object \"weight_map\"", index);
        status = FAILED;
    }
    cJSON_ArrayForEach(entry, map) {
        const char *name = cJSON_GetStringValue(entry);
        char *path;
        size_t i;
        if (status) break;
        if (!name || strchr(name, '/')) {
            say("%s: expected a name of a file of the same folder for \"%s\"", index,
                entry->string);
            status = FAILED;
            break;
        }
        path = format_text("%s/%s", folder, name);
        for (i = 0; i < w->n && strcmp(w->path[i], path); i++) { }
        if (i < w->n) free(path);
        else status = open_weights(w, path);
    }
    cJSON_Delete(json);
    return status;
}

static int find_weights(struct weights *w, const char *folder)
{
    char *one = format_text("%s/model.safetensors", folder);
    char *index = format_text("%s/model.safetensors.index.json", folder);
    char *pickled = format_text("%s/pytorch_model.bin", folder);
    int status = FAILED;
    size_t i;
    if (is_file(one)) { status = open_weights(w, one); one = NULL; }
    else if (is_file(index)) status = open_shards(w, folder, index);
    else if (is_file(pickled))
        say("%s: trf reads safetensors files, and this folder has only pytorch_model.bin: in "
            "Python, model.save_pretrained(folder) writes one", folder);
    else say("%s: expected model.safetensors or model.safetensors.index.json, got neither", folder);
    free(one);
    free(index);
    free(pickled);
    if (status) return status;
    w->used = zeroed(w->n, sizeof *w->used);
    for (i = 0; i < w->n; i++) w->used[i] = zeroed((size_t)trf_file_count(w->file[i]) + 1, 1);
    return DONE;
}

/* The file and the index of a tensor. Old models of BERT call the numbers of a norm gamma and
   beta. */
static trf_file *find_tensor(const struct weights *w, const char *prefix, const char *name,
                             int32_t *index, size_t *file)
{
    static const char *const names[2][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                            {"LayerNorm.bias", "LayerNorm.beta"}};
    char whole[NAME_BYTES];
    int k;
    for (k = 0; k < 3; k++) {
        const char *at = k ? strstr(name, names[k - 1][0]) : NULL;
        size_t i;
        if (k && !at) continue;
        if (at) snprintf(whole, sizeof whole, "%s%.*s%s", prefix, (int)(at - name), name,
                         names[k - 1][1]);
        else snprintf(whole, sizeof whole, "%s%s", prefix, name);
        for (i = 0; i < w->n; i++)
            if ((*index = trf_file_find(w->file[i], whole)) >= 0) {
                *file = i;
                return w->file[i];
            }
    }
    return NULL;
}

// -----------------------------------------------------------------------------------------------
// >>pieces         tensors of theirs become parameters of ours
// -----------------------------------------------------------------------------------------------

/* A tensor of the piece, and where it begins among the rows of our parameter. */
struct part { trf_file *file; int32_t index; int added; int64_t row, rows, columns; };
enum { MOST_PARTS = 4 };

static void shape_text(int rank, const int64_t *shape, char to[96])
{
    size_t used = 0;
    int i;
    to[0] = 0;
    for (i = 0; i < rank && used < 80; i++)
        used += (size_t)snprintf(to + used, 96 - used, "%s%lld", i ? ", " : "",
                                 (long long)shape[i]);
}

/* Finds the tensors of a piece and checks their shapes against the parameter. Returns their number,
   or -1 after a message. */
static int find_parts(struct importing *m, const char *ours, const trf_tensor *parameter,
                      const char *theirs, struct part parts[MOST_PARTS])
{
    int64_t columns = parameter->rank > 1 ? parameter->shape[1] : 1, total = 0;
    int n = 0, bad = 0;
    char name[NAME_BYTES], have[96], want[96];
    while (*theirs) {
        size_t length = strcspn(theirs, " ");
        int added = *theirs == '+';
        struct part *part = &parts[n++];
        trf_file_entry entry;
        size_t file;
        snprintf(name, sizeof name, "%.*s", (int)length - added, theirs + added);
        theirs += length + (theirs[length] == ' ');
        part->file = find_tensor(&m->weights, m->prefix, name, &part->index, &file);
        if (!part->file) {
            say("tensor '%s%s' is missing: it is needed for %s", m->prefix, name, ours);
            bad = 1;
            continue;
        }
        m->weights.used[file][part->index] = 1;
        entry = trf_file_at(part->file, part->index);
        part->added = added;
        part->rows = entry.rank > 0 ? entry.shape[0] : 1;
        part->columns = entry.rank > 1 ? entry.shape[1] : 1;
        part->row = total;
        if (!added) total += part->rows;
        if (part->columns != columns || entry.rank != parameter->rank) {
            shape_text(entry.rank, entry.shape, have);
            shape_text(parameter->rank, parameter->shape, want);
            say("tensor '%s' has shape (%s), but is a part of %s with shape (%s)", entry.name, have,
                ours, want);
            bad = 1;
        }
    }
    if (!bad && total != parameter->shape[0]) {
        say("the tensors of %s have %lld rows together, but it needs %lld", ours, (long long)total,
            (long long)parameter->shape[0]);
        bad = 1;
    }
    return bad ? -1 : n;
}

/* Reads the numbers of a part. The first row of an added one is added to all rows. */
static int read_part(const struct part *part, const trf_tensor *to, trf_error *err)
{
    int64_t columns = part->columns, i, k;
    trf_real *row;
    if (!part->added)
        return trf_file_read(part->file, part->index, 0, to->data + part->row * columns,
                             part->rows * columns, err) != TRF_OK;
    row = zeroed((size_t)columns, sizeof *row);
    if (trf_file_read(part->file, part->index, 0, row, columns, err)) { free(row); return FAILED; }
    for (i = 0; i < to->shape[0]; i++)
        for (k = 0; k < columns; k++) to->data[i * columns + k] += row[k];
    free(row);
    return DONE;
}

/* One piece of one layer. read 0: only checks. */
static int take_piece(struct importing *m, const struct piece *piece, int layer, int read)
{
    char ours[NAME_BYTES], theirs[NAME_BYTES], *to = theirs;
    const char *from = piece->theirs;
    struct part parts[MOST_PARTS];
    trf_tensor parameter;
    trf_error err;
    int n, i;
    snprintf(ours, sizeof ours, "%s", piece->ours);
    if (strstr(ours, "%d")) snprintf(ours, sizeof ours, piece->ours, layer);
    for (; *from; from += 2) {          /* every %d of theirs */
        size_t length = strcspn(from, "%");
        memcpy(to, from, length);
        to += length;
        from += length;
        if (!*from) break;
        to += sprintf(to, "%d", layer);
    }
    *to = 0;
    parameter = trf_model_parameter(m->model, trf_model_parameter_index(m->model, ours));
    if ((n = find_parts(m, ours, &parameter, theirs, parts)) < 0) { m->faults++; return DONE; }
    for (i = 0; read && i < n; i++)
        if (read_part(&parts[i], &parameter, &err)) { say_error(NULL, &err); return FAILED; }
    return DONE;
}

static int take_pieces(struct importing *m, int read)
{
    const struct piece *piece;
    int32_t layers = m->config.encoder_layers > m->config.decoder_layers
                         ? m->config.encoder_layers : m->config.decoder_layers, k;
    for (piece = m->recipe->pieces; piece->ours; piece++)
        for (k = 0; k < (strstr(piece->ours, "%d") ? layers : 1); k++)
            if (take_piece(m, piece, k, read)) return FAILED;
    return DONE;
}

static int begins_with_one_of(const char *name, const char *const *beginnings)
{
    for (; *beginnings; beginnings++)
        if (!strncmp(name, *beginnings, strlen(*beginnings))) return 1;
    return 0;
}

/* Tensors that no piece has used: parts that are left out, which a line tells, buffers, or
   faults. */
static void look_at_the_rest(struct importing *m)
{
    size_t i;
    int32_t k;
    for (i = 0; i < m->weights.n; i++)
        for (k = 0; k < trf_file_count(m->weights.file[i]); k++) {
            const char *name = trf_file_at(m->weights.file[i], k).name, *bare = name;
            size_t length = strlen(m->prefix);
            if (m->weights.used[i][k]) continue;
            if (!strncmp(name, m->prefix, length)) bare += length;
            if (begins_with_one_of(bare, m->recipe->buffers)) continue;
            if (begins_with_one_of(bare, m->recipe->left_out)) {
                inform_line("left out: '%s'", name);
                continue;
            }
            say("tensor '%s' belongs to no part of such a model", name);
            m->faults++;
        }
}

// -----------------------------------------------------------------------------------------------
// >>folder         the whole import
// -----------------------------------------------------------------------------------------------

static int find_recipe(struct importing *m, const cJSON *json)
{
    const char *type = m->s->as ? m->s->as : json_text(json, "model_type");
    const cJSON *quantised = cJSON_GetObjectItemCaseSensitive(json, "quantization_config");
    if (quantised && !cJSON_IsNull(quantised)) {
        say("%s: its weights are quantised (\"quantization_config\"): give the model that they "
            "were made from", m->config_path);
        return FAILED;
    }
    for (m->recipe = recipes; m->recipe->type; m->recipe++)
        if (type && !strcmp(type, m->recipe->type)) return DONE;
    if (!type) say("%s: expected \"model_type\", got none: give --as", m->config_path);
    else say("%s: trf knows no model_type \"%s\"; it knows bert", m->config_path, type);
    return FAILED;
}

/* The prefix with which the first tensor is there. */
static void find_prefix(struct importing *m)
{
    char name[NAME_BYTES];
    const char *theirs = m->recipe->pieces[0].theirs;
    int32_t index;
    size_t file;
    int i;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(theirs, " "), theirs);
    m->prefix = m->recipe->prefixes[0];
    for (i = 0; i < MOST_PREFIXES && m->recipe->prefixes[i]; i++)
        if (find_tensor(&m->weights, m->recipe->prefixes[i], name, &index, &file))
            m->prefix = m->recipe->prefixes[i];
}

/* The ids that the library adds and refuses. */
static void set_special_ids(trf_config *c, const int32_t special[SPECIALS])
{
    c->pad = special[SPECIAL_PAD];
    c->unk = special[SPECIAL_UNK];
    c->bos = special[SPECIAL_CLS] >= 0 ? special[SPECIAL_CLS] : special[SPECIAL_BOS];
    c->eos = special[SPECIAL_SEP] >= 0 ? special[SPECIAL_SEP] : special[SPECIAL_EOS];
}

static int import_folder(struct importing *m, const char *folder)
{
    int32_t special[SPECIALS], n_ids[2];
    trf_vocab *vocab[2] = {NULL, NULL};
    const trf_vocab *sides[2];
    trf_error err;
    int side, status = FAILED;
    cJSON *json = read_json_file(m->config_path);
    if (!json || find_recipe(m, json)) goto done;
    m->config = trf_config_tiny();
    if (m->recipe->configure(json, m->config_path, &m->config)) goto done;
    n_ids[0] = m->config.encoder_layers ? m->config.source_vocab : 0;
    n_ids[1] = m->config.decoder_layers ? m->config.target_vocab : 0;
    if (read_tokenizer(folder, n_ids, vocab, special)) goto done;
    set_special_ids(&m->config, special);
    for (side = 0; side < 2; side++) {
        sides[side] = n_ids[side] == 0 ? NULL : side && vocab[1] ? vocab[1] : vocab[0];
        if (sides[side] && trf_vocab_size(sides[side]) != n_ids[side]) {
            say("%s: the tokenizer has %d tokens, but \"vocab_size\" is %d", folder,
                (int)trf_vocab_size(sides[side]), (int)n_ids[side]);
            goto done;
        }
    }
    if (trf_model_create(&m->model, &m->config, &err)) {
        say_error(m->config_path, &err);
        goto done;
    }
    if (find_weights(&m->weights, folder)) goto done;
    find_prefix(m);
    if (take_pieces(m, 0)) goto done;
    look_at_the_rest(m);
    if (m->faults || take_pieces(m, 1)) goto done;
    if (trf_model_set_vocabs(m->model, sides[0], sides[1], &err) ||
        trf_model_save_as(m->model, m->s->output, (trf_weights)m->s->weights, &err)) {
        say_error(NULL, &err);
        goto done;
    }
    status = DONE;
done:
    cJSON_Delete(json);
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return status;
}

int command_import(struct settings *s, int argc, char **argv)
{
    struct importing m;
    int status;
    if (argc != 1) {
        say("give one folder of a model, such as trf import folder --output model.safetensors");
        return USAGE;
    }
    if (!s->output || !strcmp(s->output, "-")) {
        say("give --output FILE, the model to write");
        return USAGE;
    }
    if (check_output_name(s) || check_replaceable(s->output)) return FAILED;
    memset(&m, 0, sizeof m);
    m.s = s;
    m.config_path = format_text("%s/config.json", argv[0]);
    status = import_folder(&m, argv[0]);
    if (!status)
        inform_line("%s: %s, %lld weights, %d tokens", s->output, m.recipe->type,
                    (long long)trf_model_parameter_total(m.model), (int)m.config.source_vocab);
    trf_model_destroy(m.model);
    close_weights(&m.weights);
    free(m.config_path);
    return status;
}
#else
int command_import(struct settings *s, int argc, char **argv)
{
    (void)s; (void)argc; (void)argv;
    say("this trf was built without cJSON, which reads the files of other models: install "
        "libcjson-dev and build it again");
    return FAILED;
}
#endif
