// trf import: a model that another program has trained becomes a model file of trf.
//
// A folder of Hugging Face has config.json, files of weights (import_weights.c), and the files of a
// tokenizer. A recipe (import_recipes.c) says what its parts are called here. Every tensor is
// checked before anything is written.

#include "publish.h"
#include "import.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

struct importing {
    struct settings *s;
    char *folder, *config_path;
    char *sentences;            /* the folder of a sentence encoder, in which `folder` may lie */
    const char *file;           /* the only file of weights that is read, or NULL */
    const struct recipe *recipe;
    const struct headed *head;  /* class_name NULL: none */
    struct labels labels;
    int32_t *label_order;       /* theirs, of our labels */
    char *taken;                /* 1 for each parameter that a piece fills */
    const char *prefix;         /* in front of the names of tensors */
    trf_config config;
    struct weights weights;
    trf_model *model;
    cJSON *generation;          /* generation_config.json, or NULL */
    int faults;                 /* messages about tensors so far */
};

// -----------------------------------------------------------------------------------------------
// >>pieces         tensors of theirs become parameters of ours
// -----------------------------------------------------------------------------------------------

/* A tensor of the piece, and where it begins among the rows of our parameter. */
struct part { struct tensors *file; int32_t index; int transposed; int64_t row, rows, columns; };
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

/* The tensor that the first `length` bytes of a piece name, or NULL. name: its name behind the
   prefix. */
static struct tensors *find_named(const struct importing *m, const char *piece, size_t length,
                                  char name[MOST_NAME], const char **prefix, int32_t *index)
{
    size_t marks = *piece == '^' || *piece == '-';
    *prefix = piece[marks] == '/' ? "" : m->prefix;
    marks += piece[marks] == '/';
    snprintf(name, MOST_NAME, "%.*s", (int)(length - marks), piece + marks);
    return find_tensor(&m->weights, *prefix, name, index);
}

int64_t rows_of_part(const trf_config *c, int64_t whole, int index, int n)
{
    int64_t width = c->d_head ? c->d_head : c->d_model / c->n_heads;
    int64_t keys = width * (c->kv_heads ? c->kv_heads : c->n_heads);
    if (n < 3) return whole / n;
    return index ? keys : whole - 2 * keys;
}

/* Finds the tensors of a piece and checks their shapes against the parameter. Returns their number,
   or -1 after a message. */
static int find_parts(struct importing *m, const char *ours, const trf_tensor *parameter,
                      const char *theirs, struct part parts[MOST_PARTS])
{
    const int64_t columns = parameter->rank > 1 ? parameter->shape[1] : 1;
    int64_t at = 0;
    int n = 0, bad = 0, all = 1;
    char name[MOST_NAME], have[96], want[96];
    const char *blank;
    for (blank = theirs; *blank; blank++) all += *blank == ' ';
    while (*theirs) {
        size_t length = strcspn(theirs, " ");
        struct part *part = &parts[n++];
        const char *prefix = "";
        trf_file_entry entry;
        int64_t shape[2];
        int rank;
        part->file = find_named(m, theirs, length, name, &prefix, &part->index);
        part->transposed = *theirs == '^';
        part->rows = rows_of_part(&m->config, parameter->shape[0], n - 1, all);
        part->columns = columns;
        part->row = at;
        at += part->rows;
        theirs += length + (theirs[length] == ' ');
        if (!part->file) {
            say("tensor '%s%s' is missing: it is needed for %s", prefix, name, ours);
            bad = 1;
            continue;
        }
        part->file->used[part->index] = 1;
        entry = tensor_at(part->file, part->index);
        rank = entry.rank;
        shape_text(rank, entry.shape, have);
        if (rank == 2 && parameter->rank == 1 && entry.shape[0] == 1) {     /* (1, n) as (n) */
            entry.shape[0] = entry.shape[1];
            rank = 1;
        }
        shape[part->transposed] = part->rows;
        shape[!part->transposed] = columns;
        if (rank == parameter->rank && entry.shape[0] == shape[0] &&
            (rank < 2 || entry.shape[1] == shape[1])) continue;
        shape_text(parameter->rank, shape, want);
        if (all > 1) snprintf(name, sizeof name, "part %d of %.480s", n, ours);
        else snprintf(name, sizeof name, "%.500s", ours);
        say("tensor '%s' has shape (%s), but %s needs (%s)", entry.name, have, name, want);
        bad = 1;
    }
    return bad ? -1 : n;
}

/* Reads the numbers of a part. */
static int read_part(const struct part *part, const trf_tensor *to)
{
    trf_real *numbers = to->data + part->row * part->columns, *columns;
    int64_t i, k, n = part->rows * part->columns;
    int status;
    if (!part->transposed) return read_tensor(part->file, part->index, numbers, n);
    columns = zeroed((size_t)n, sizeof *columns);
    status = read_tensor(part->file, part->index, columns, n);
    for (i = 0; i < part->rows; i++)
        for (k = 0; k < part->columns; k++)
            numbers[i * part->columns + k] = columns[k * part->rows + i];
    free(columns);
    return status;
}

/* The way to write a piece whose first tensor is there; if there is none, the first way. *found: if
   there is one. It ends with a NUL, in `piece` itself. */
static const char *choose_way(const struct importing *m, char *piece, int *found)
{
    char name[MOST_NAME], *way, *end;
    const char *prefix;
    int32_t index;
    for (way = piece; ; way = end + 1) {
        end = strchr(way, '|');
        if (end) *end = 0;
        *found = find_named(m, way, strcspn(way, " "), name, &prefix, &index) != NULL;
        if (*found) return way;
        if (!end) return piece;
    }
}

/* One piece of one layer, if the model has the parameter. read 0: only checks. */
static int take_piece(struct importing *m, const struct piece *piece, int layer, int read)
{
    char ours[MOST_NAME], theirs[MOST_NAME];
    const char *from;
    struct part parts[MOST_PARTS];
    trf_tensor parameter;
    int32_t index;
    int n, i, found;
    name_layer(ours, piece->ours, layer);
    name_layer(theirs, piece->theirs, layer);
    if ((index = trf_model_parameter_index(m->model, ours)) < 0) return DONE;
    m->taken[index] = 1;
    parameter = trf_model_parameter(m->model, index);
    from = choose_way(m, theirs + (*theirs == '?'), &found);
    if (!found && *theirs == '?') return DONE;
    if ((n = find_parts(m, ours, &parameter, from, parts)) < 0) { m->faults++; return DONE; }
    for (i = 0; read && i < n; i++) if (read_part(&parts[i], &parameter)) return FAILED;
    return DONE;
}

static int take_list(struct importing *m, const struct piece *piece, int read)
{
    int32_t layers = m->config.encoder_layers > m->config.decoder_layers
                         ? m->config.encoder_layers : m->config.decoder_layers, k;
    for (; piece && piece->ours; piece++)
        for (k = 0; k < (strstr(piece->ours, "%d") ? layers : 1); k++)
            if (take_piece(m, piece, k, read)) return FAILED;
    return DONE;
}

/* The pieces of the model and of its head. Every parameter must have one. */
static int take_pieces(struct importing *m, int read)
{
    int32_t i, n = trf_model_parameter_count(m->model);
    if (!m->taken) m->taken = zeroed((size_t)n, 1);
    if (take_list(m, m->recipe->pieces, read) || take_list(m, m->head->pieces, read)) return FAILED;
    for (i = 0; i < n; i++) {
        if (m->taken[i]) continue;
        return refuse("nothing becomes the parameter %s", trf_model_parameter(m->model, i).name);
    }
    return DONE;
}

/* Whether a name begins like one of the patterns, in which "%d" is a number and a '/' in front
   means that the name has no prefix. */
static int begins_with_one_of(const struct importing *m, const char *name,
                              const char *const *patterns)
{
    size_t length = strlen(m->prefix);
    for (; *patterns; patterns++) {
        const char *at = name, *p = *patterns;
        if (*p == '/') p++;
        else if (!strncmp(name, m->prefix, length)) at += length;
        while (*p)
            if (!strncmp(p, "%d", 2) && strspn(at, "0123456789")) {
                at += strspn(at, "0123456789");
                p += 2;
            } else if (*p == *at) { p++; at++; }
            else break;
        if (!*p) return 1;
    }
    return 0;
}

/* Whether a tensor has the numbers of an embedding, as files of tied models may repeat it. */
static int is_copy(struct importing *m, struct tensors *file, int32_t index, int *status)
{
    static const char *const names[2] = {"src_embed.weight", "tgt_embed.weight"};
    trf_file_entry entry = tensor_at(file, index);
    trf_real *numbers;
    int i, same = 0;
    for (i = 0; i < 2 && !same && *status == DONE; i++) {
        int32_t k = trf_model_parameter_index(m->model, names[i]);
        trf_tensor p = trf_model_parameter(m->model, k < 0 ? 0 : k);
        size_t n = (size_t)trf_tensor_count(&p);
        if (k < 0 || entry.rank != 2 || entry.shape[0] != p.shape[0] ||
            entry.shape[1] != p.shape[1]) continue;
        numbers = zeroed(n, sizeof *numbers);
        *status = read_tensor(file, index, numbers, (int64_t)n);
        same = *status == DONE && !memcmp(numbers, p.data, n * sizeof *numbers);
        free(numbers);
    }
    return same;
}

/* Tensors that should repeat an embedding: an output projection of its own is a fault. */
static int check_copies(struct importing *m)
{
    size_t i;
    int32_t k;
    int status = DONE;
    for (i = 0; i < m->weights.n; i++)
        for (k = 0; k < m->weights.file[i].n; k++) {
            const char *name = tensor_at(&m->weights.file[i], k).name;
            if (m->weights.file[i].used[k] || !begins_with_one_of(m, name, m->recipe->copies) ||
                is_copy(m, &m->weights.file[i], k, &status)) continue;
            if (status) return status;
            say("tensor '%s' differs from the embedding, but config.json says that they are tied",
                name);
            m->faults++;
        }
    return m->faults ? FAILED : DONE;
}

/* Tensors that no piece has used: parts that are left out, which a line tells, buffers, or
   faults. Of many, the first ones are told. */
static void look_at_the_rest(struct importing *m)
{
    enum { MOST_LINES = 40 };
    int left = 0, faults = 0;
    size_t i;
    int32_t k;
    for (i = 0; i < m->weights.n; i++)
        for (k = 0; k < m->weights.file[i].n; k++) {
            const char *name = tensor_at(&m->weights.file[i], k).name;
            const struct tensors *other;
            int32_t index;
            if (m->weights.file[i].used[k]) continue;
            if (begins_with_one_of(m, name, m->recipe->buffers) ||
                begins_with_one_of(m, name, m->recipe->copies)) continue;
            if (begins_with_one_of(m, name, m->recipe->left_out)) {
                if (left++ < MOST_LINES)
                    inform_line("left out: tensor '%s', which the model does not use", name);
                continue;
            }
            if (faults++ >= MOST_LINES) continue;
            other = find_tensor(&m->weights, "", name, &index);
            if (other && other != &m->weights.file[i])
                say("tensor '%s' is in two files, %s and %s", name, other->path,
                    m->weights.file[i].path);
            else say("tensor '%s' belongs to no part of such a model", name);
        }
    if (left > MOST_LINES) inform_line("left out: %d tensors more", left - MOST_LINES);
    if (faults > MOST_LINES) say("the same of %d tensors more", faults - MOST_LINES);
    m->faults += faults;
}

// -----------------------------------------------------------------------------------------------
// >>folder         the whole import
// -----------------------------------------------------------------------------------------------

static int find_recipe(struct importing *m, const cJSON *json)
{
    const char *type = m->s->publish.as ? m->s->publish.as : json_text(json, "model_type");
    const cJSON *quantised = cJSON_GetObjectItemCaseSensitive(json, "quantization_config");
    if (quantised && !cJSON_IsNull(quantised))
        return refuse("%s: its weights are quantised (\"quantization_config\"): give the model "
                      "that they were made from", m->config_path);
    for (m->recipe = recipes; m->recipe->type; m->recipe++)
        if (type && !strcmp(type, m->recipe->type)) return DONE;
    if (!type) say("%s: expected \"model_type\", got none: give --as", m->config_path);
    else {
        char known[256] = "";
        for (m->recipe = recipes; m->recipe->type; m->recipe++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     m->recipe == recipes ? "" : ", ", m->recipe->type);
        say("%s: trf knows no model_type \"%s\"; it knows %s", m->config_path, type, known);
    }
    return FAILED;
}

/* Whether a class has a head that no recipe has: answers to questions, choices, labels. */
static int has_other_head(const char *class_name)
{
    static const char *const ends[] = {"ForSequenceClassification", "ForTokenClassification",
                                       "ForQuestionAnswering", "ForMultipleChoice"};
    size_t i;
    for (i = 0; class_name && i < sizeof ends / sizeof *ends; i++)
        if (strstr(class_name, ends[i])) return 1;
    return 0;
}

/* What labels of sequences are. "problem_type" says it, or else the class CrossEncoder of
   sentence-transformers does for one label: its activation makes the score of the logit. Without
   either, transformers takes one label for regression. */
static int find_label_kind(const cJSON *json, const char *path, trf_label_kind *kind)
{
    const cJSON *ours = cJSON_GetObjectItemCaseSensitive(json, "sentence_transformers");
    const char *problem = json_text(json, "problem_type"), *name = json_text(ours, "activation_fn");
    if (!name) name = json_text(json, "sbert_ce_default_activation_function");
    *kind = TRF_LABELS_ONE_OF;
    if (problem && !strcmp(problem, "regression")) *kind = TRF_LABELS_NUMBERS;
    else if (problem && !strcmp(problem, "multi_label_classification")) *kind = TRF_LABELS_ANY;
    else if (problem && strcmp(problem, "single_label_classification"))
        return refuse("%s: \"problem_type\" is %s, but trf knows only regression, "
                      "single_label_classification and multi_label_classification", path, problem);
    if (problem || count_their_labels(json) != 1) return DONE;
    *kind = name && ends_with(name, "Sigmoid") ? TRF_LABELS_ANY : TRF_LABELS_NUMBERS;
    if (!name || *kind == TRF_LABELS_ANY || ends_with(name, "Identity")) return DONE;
    return refuse("%s: the score is made by %s, but trf builds only Sigmoid and Identity", path,
                  name);
}

/* The head that the class of the model has, with its labels. A class that is not listed has none:
   a model without a head. */
static int find_head(struct importing *m, const cJSON *json)
{
    const cJSON *classes = cJSON_GetObjectItemCaseSensitive(json, "architectures");
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(classes, 0));
    trf_config *c = &m->config;
    for (m->head = m->recipe->heads; m->head->class_name; m->head++)
        if (name && !strcmp(name, m->head->class_name)) break;
    c->head = m->head->head;
    c->head_layer = m->head->layer;
    c->sequence_labels = m->head->sequence_labels;
    if (!m->head->class_name && has_other_head(name))
        return refuse("%s: trf does not build the head of %s", m->config_path, name);
    if (c->kind == TRF_ENCODER_DECODER && name && strstr(name, "EncoderModel"))
        return refuse("%s: %s is an encoder alone, but trf builds %s only with its decoder",
                      m->config_path, name, m->recipe->type);
    if (m->head->gelu && c->activation != TRF_GELU)
        return refuse("%s: the layer of %s has the activation gelu, but \"hidden_act\" is another "
                      "one, and trf builds only one activation for both", m->config_path, name);
    if (c->head == TRF_HEAD_FIRST && find_label_kind(json, m->config_path, &c->label_kind))
        return FAILED;
    if (c->head == TRF_HEAD_MASKED && !json_true(json, "tie_word_embeddings", 1))
        return refuse("%s: \"tie_word_embeddings\" is false, but trf builds only a masked head "
                      "that is tied", m->config_path);
    if (c->head == TRF_HEAD_NONE || (c->head == TRF_HEAD_MASKED && !c->sequence_labels))
        return DONE;
    if (read_labels(json, m->config_path, c->label_kind, &m->labels, &m->label_order))
        return FAILED;
    if (c->head != TRF_HEAD_MASKED) c->n_labels = m->labels.n;
    else if (c->sequence_labels != m->labels.n)
        return refuse("%s: %s has %d labels of sequences, but \"id2label\" has %d", m->config_path,
                      name, (int)c->sequence_labels, (int)m->labels.n);
    return DONE;
}

/* The prefix with which the first tensor is there. */
static void find_prefix(struct importing *m)
{
    char name[MOST_NAME];
    const char *theirs = m->recipe->pieces[0].theirs;
    int32_t index;
    int i;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(theirs, " |"), theirs);
    m->prefix = m->recipe->prefixes[0];
    for (i = 0; i < MOST_PREFIXES && m->recipe->prefixes[i]; i++)
        if (find_tensor(&m->weights, m->recipe->prefixes[i], name, &index))
            m->prefix = m->recipe->prefixes[i];
}

/* Refuses tensors whose names all begin with a part that no such model has: a wrapper's. */
static int check_wrapper(const struct importing *m)
{
    const char *first = m->weights.n && m->weights.file[0].n
                            ? tensor_at(&m->weights.file[0], 0).name : "";
    size_t length = strcspn(first, ".") + 1, i;
    int32_t index;
    int k;
    char name[MOST_NAME];
    const char *theirs = m->recipe->pieces[0].theirs;
    const struct piece *piece;
    if (!first[length - 1]) return DONE;
    snprintf(name, sizeof name, "%.*s", (int)length, first);
    for (piece = m->recipe->pieces; piece->ours; piece++)
        if (strstr(piece->theirs, name)) return DONE;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(theirs, " |"), theirs);
    if (find_tensor(&m->weights, m->prefix, name, &index)) return DONE;
    for (k = 0; k < MOST_PREFIXES && m->recipe->prefixes[k]; k++)
        if (!strncmp(first, m->recipe->prefixes[k], length)) return DONE;
    for (i = 0; i < m->weights.n; i++)
        for (index = 0; index < m->weights.file[i].n; index++)
            if (strncmp(tensor_at(&m->weights.file[i], index).name, first, length)) return DONE;
    return refuse("%s: every name begins with \"%.*s\", as in a wrapper: save the model inside it",
                  m->weights.file[0].path, (int)length, first);
}

/* Sentence encoders often name the class of the model that they were made from, whose masked head
   their files lack. Then the model has no head. */
static void drop_missing_head(struct importing *m)
{
    const struct piece *piece = m->head->pieces;
    trf_config *c = &m->config;
    int32_t index;
    if (c->head != TRF_HEAD_MASKED) return;
    for (; piece->ours; piece++)
        if (*piece->theirs == '/' && find_tensor(&m->weights, "", piece->theirs + 1, &index)) return;
    inform_line("%s: %s, but its head is in no file: the model gets none", m->config_path,
                m->head->class_name);
    while (m->head->class_name) m->head++;
    c->head = TRF_HEAD_NONE;
    c->head_layer = c->sequence_labels = 0;
    free_labels(&m->labels);
}

/* The ids that the library adds and refuses. */
static void set_special_ids(trf_config *c, const int32_t special[SPECIALS])
{
    c->pad = special[SPECIAL_PAD];
    c->unk = special[SPECIAL_UNK];
    c->bos = special[SPECIAL_CLS] >= 0 ? special[SPECIAL_CLS] : special[SPECIAL_BOS];
    c->eos = special[SPECIAL_SEP] >= 0 ? special[SPECIAL_SEP] : special[SPECIAL_EOS];
    if (c->head == TRF_HEAD_MASKED) c->mask = special[SPECIAL_MASK];
}

/* What the tokenizer puts before and behind a text. */
static int set_around(struct importing *m, const struct tags *tags)
{
    trf_config *c = &m->config;
    const int32_t *around = tags->around, own[2] = {c->bos, c->eos};
    int side;
    if (around[0] == AROUND_USUAL) return DONE;
    for (side = 0; side < 2; side++)
        if (around[side] >= 0 && around[side] != own[side])
            return refuse("%s: the tokenizer puts the token %d %s a text, but trf can put only %s "
                          "there, %d", m->folder, (int)around[side], side ? "behind" : "before",
                          side ? "eos" : "bos", (int)own[side]);
    if (tags->prompts) {
        c->bare_prompts = around[0] < 0;
        if (around[1] >= 0)
            inform_line("%s: left out: eos, which the tokenizer puts behind a prompt", m->folder);
        return DONE;
    }
    c->source_bos = around[0] >= 0;
    c->source_eos = around[1] >= 0;
    return DONE;
}

/* What the decoder reads before its first token. */
static int find_start(struct importing *m, const cJSON *json)
{
    trf_config *c = &m->config;
    int32_t start;
    if (c->kind != TRF_ENCODER_DECODER || c->decoder_start == TRF_START_ZERO) return DONE;
    if (json_int(json, m->config_path, "decoder_start_token_id", INT32_MIN, &start)) return FAILED;
    if (start == c->pad) c->decoder_start = TRF_START_PAD;
    else if (start == c->eos) c->decoder_start = TRF_START_EOS;
    else if (start == c->bos) c->decoder_start = TRF_START_BOS;
    if (start >= 0 && (start == c->pad || start == c->eos || start == c->bos)) return DONE;
    return refuse("%s: expected \"decoder_start_token_id\" to be the tokenizer's pad, eos or bos, "
                  "%d, %d or %d, got %d", m->config_path, (int)c->pad, (int)c->eos, (int)c->bos,
                  (int)start);
}

/* Reads with which tokens `generate` begins answers. generation_config.json goes before
   config.json, where old BARTs say that they begin with bos. */
static int find_first(struct importing *m, const cJSON *json, struct tags *tags)
{
    char *path = format_text("%s/generation_config.json", m->folder);
    const cJSON *own = m->generation;
    int status = DONE;
    const char *from = own ? path : m->config_path;
    if (own) json = own;
    if (!status) status = json_int(json, from, "forced_bos_token_id", -1, &tags->forced);
    if (!status && !own && tags->forced < 0 &&
        json_true(json, "force_bos_token_to_be_generated", 0))
        status = json_int(json, from, "bos_token_id", -1, &tags->forced);
    if (!status) status = json_int(json, from, "decoder_start_token_id", tags->start, &tags->first);
    free(path);
    return status;
}

/* Stores the token with which all answers begin, unless it is the tag of a language. */
static int set_first(struct importing *m, const struct tags *tags)
{
    const trf_config *c = &m->config;
    const int32_t first = tags->forced;
    char id[16];
    trf_error err;
    if (first < 0 || (tags->target && !strncmp(tags->target, "forced-first", 12))) return DONE;
    if (first >= c->target_vocab || first == c->eos)
        return refuse("%s: expected \"forced_bos_token_id\" to be an id below %d that is not eos, "
                      "got %d", m->folder, (int)c->target_vocab, (int)first);
    snprintf(id, sizeof id, "%d", (int)first);
    if (!trf_model_set_metadata(m->model, first_key, id, &err)) return DONE;
    return refuse_error(NULL, &err);
}

/* Stores the tokens with which `generate` ends answers, if these are others than eos. */
static int set_ends(struct importing *m, const cJSON *json)
{
    const trf_config *c = &m->config;
    const cJSON *ends = cJSON_GetObjectItemCaseSensitive(m->generation ? m->generation : json,
                                                         "eos_token_id");
    char text[12 * TRF_MAX_ENDS] = "";
    int list = cJSON_IsArray(ends), n = list ? cJSON_GetArraySize(ends) : 1;
    int i, others = 0, fault = n < 1 || n > TRF_MAX_ENDS;
    trf_error err;
    if (c->kind == TRF_ENCODER_ONLY || !ends || cJSON_IsNull(ends)) return DONE;
    for (i = 0; i < n && !fault; i++) {
        const cJSON *one = list ? cJSON_GetArrayItem(ends, i) : ends;
        double id = cJSON_IsNumber(one) ? one->valuedouble : -1;
        fault = id < 0 || id >= c->target_vocab || id != (int32_t)id;
        others += id != c->eos;
        if (!fault) sprintf(text + strlen(text), "%s%.0f", i ? " " : "", id);
    }
    if (fault)
        return refuse("%s: expected \"eos_token_id\" to be an id below %d, or a list of 1 to %d "
                      "such ids", m->folder, (int)c->target_vocab, (int)TRF_MAX_ENDS);
    if (!others) return DONE;
    if (others == n)
        inform_line("%s: \"eos_token_id\" lacks the tokenizer's eos, %d, which ends answers too",
                    m->folder, (int)c->eos);
    if (!trf_model_set_metadata(m->model, ends_key, text, &err)) return DONE;
    return refuse_error(NULL, &err);
}

/* Refuses many more rows or layers than the files of weights have, before anything has their
   number. What is nearer gets a message of its own later. */
static int check_sizes(const struct importing *m)
{
    enum { MORE_ROWS = 1 << 20, MORE_LAYERS = 1 << 10 };
    const trf_config *c = &m->config;
    int32_t words = c->source_vocab > c->target_vocab ? c->source_vocab : c->target_vocab, k;
    int32_t layers = c->encoder_layers > c->decoder_layers ? c->encoder_layers : c->decoder_layers;
    int64_t most = 0, tensors = 0;
    size_t i;
    for (i = 0; i < m->weights.n; i++)
        for (k = 0; k < m->weights.file[i].n; k++, tensors++) {
            trf_file_entry entry = tensor_at(&m->weights.file[i], k);
            if (entry.rank && entry.shape[0] > most) most = entry.shape[0];
        }
    if (words > most + MORE_ROWS)
        return refuse("%s: the model has %d tokens, but no tensor has more than %lld rows",
                      m->config_path, (int)words, (long long)most);
    if (layers > tensors + MORE_LAYERS)
        return refuse("%s: the model has %d layers, but only %lld tensors", m->config_path,
                      (int)layers, (long long)tensors);
    return DONE;
}

/* --max-length in place of what config.json says, where positions have no table. */
static int take_max_length(struct importing *m, cJSON *json)
{
    static const char trained[] = "original_max_position_embeddings";
    static const char *const scalings[] = {"rope_parameters", "rope_scaling"};
    const struct member *member = m->recipe->members;
    const int32_t n = m->s->publish.max_length;
    int32_t before;
    size_t i;
    trf_config c = trf_config_preset(TRF_TINY);
    if (!n) return DONE;
    while (member->field != FIELD(max_length)) member++;
    if (json_int(json, m->config_path, member->name, (int32_t)member->missing, &before))
        return FAILED;
    for (i = 0; i < 2; i++) {
        cJSON *scaling = cJSON_GetObjectItemCaseSensitive(json, scalings[i]);
        if (cJSON_IsObject(scaling) && !cJSON_GetObjectItemCaseSensitive(scaling, trained))
            set_number(scaling, trained, before);
    }
    set_number(json, member->name, n);
    if (read_config(m->recipe, json, m->config_path, &c)) return FAILED;
    if (c.positions == TRF_POSITIONS_RELATIVE || c.positions == TRF_POSITIONS_ROTARY) return DONE;
    return refuse("--max-length is for relative and rotary positions, but %s has a table of %d "
                  "positions", m->recipe->type, (int)before);
}

static int import_folder(struct importing *m)
{
    int32_t special[SPECIALS], n_ids[2];
    trf_vocab *vocab[2] = {NULL, NULL};
    const trf_vocab *sides[2];
    struct sentences sentences = {NULL, 0, 0, NULL};
    struct tags tags = {-1, -1, -1, -1, 0, 0, {AROUND_USUAL, AROUND_USUAL}, NULL, 0, 0,
                        NULL, NULL, {NULL, NULL}};
    trf_error err;
    trf_save_options save = {TRF_WEIGHTS_FULL, NULL, 0, NULL};
    const trf_model_options zeros = {1, 0, 0};
    int side, status = FAILED;
    cJSON *json = read_json_file(m->config_path);
    if (!json || find_recipe(m, json)) goto done;
    m->config = trf_config_preset(TRF_TINY);
    add_usual(m->recipe, json, m->config_path);
    if (take_max_length(m, json)) goto done;
    if (read_config(m->recipe, json, m->config_path, &m->config)) goto done;
    if (find_head(m, json) || open_weights(&m->weights, m->folder, m->file)) goto done;
    if (check_sizes(m)) goto done;
    drop_missing_head(m);
    if (m->config.kind != TRF_ENCODER_ONLY &&
        read_if_there(m->folder, "generation_config.json", &m->generation)) goto done;
    n_ids[0] = m->config.encoder_layers ? m->config.source_vocab : 0;
    n_ids[1] = m->config.decoder_layers ? m->config.target_vocab : 0;
    if (m->config.kind == TRF_DECODER_ONLY &&
        read_if_there(m->folder, "generation_config.json", &m->generation)) goto done;
    if (json_int(json, m->config_path, "decoder_start_token_id", -1, &tags.start) ||
        (m->config.kind == TRF_DECODER_ONLY &&
         json_int(json, m->config_path, "bos_token_id", -1, &tags.bos)) ||
        (m->config.kind == TRF_ENCODER_DECODER && find_first(m, json, &tags))) goto done;
    tags.prompts = m->config.kind == TRF_DECODER_ONLY;
    if (read_tokenizer(m->folder, m->recipe->type, json_text(json, "tokenizer_class"), n_ids, vocab,
                       special, &tags)) goto done;
    if (m->config.head == TRF_HEAD_MASKED && special[SPECIAL_MASK] < 0 &&
        trf_vocab_kind(vocab[0]) > TRF_CHARACTERS) {    /* words and characters: pad is the mask */
        say("%s: a masked head needs a mask, but the tokenizer has none", m->folder);
        goto done;
    }
    set_special_ids(&m->config, special);
    if (tags.no_bos && m->config.kind == TRF_ENCODER_DECODER) m->config.source_bos = 0;
    /* T5s with RoBERTa's tokenizer (CodeT5) read <s> first */
    if (m->recipe->configure == configure_t5 && special[SPECIAL_CLS] >= 0)
        m->config.source_bos = 1;
    if (set_around(m, &tags) || find_start(m, json)) goto done;
    for (side = 0; side < 2; side++) {
        sides[side] = n_ids[side] == 0 ? NULL : side && vocab[1] ? vocab[1] : vocab[0];
        if (sides[side] && trf_vocab_size(sides[side]) != n_ids[side]) {
            say("%s: the tokenizer has %d tokens, but \"vocab_size\" is %d", m->folder,
                (int)trf_vocab_size(sides[side]), (int)n_ids[side]);
            goto done;
        }
    }
    if (trf_model_create(&m->model, &m->config, &zeros, &err)) {
        say_error(m->config_path, &err);
        goto done;
    }
    find_prefix(m);
    if (check_wrapper(m) || take_pieces(m, 0)) goto done;
    look_at_the_rest(m);
    if (m->faults || take_pieces(m, 1) || check_copies(m)) goto done;
    if (m->labels.n && set_labels(m->model, &m->labels, m->label_order)) goto done;
    if (set_tags(m->model, &tags) || set_first(m, &tags) || set_ends(m, json)) goto done;
    if (m->config.kind == TRF_ENCODER_ONLY &&
        (read_sentences(m->sentences, m->folder, &sentences) ||
         set_sentences(m->model, &sentences))) goto done;
    save.weights = (trf_weights)m->s->publish.weights;
    if (trf_model_set_vocabs(m->model, sides[0], sides[1], &err) ||
        trf_model_set_metadata(m->model, origin_key, m->recipe->type, &err) ||
        trf_model_save(m->model, m->s->output, &save, &err)) {
        say_error(NULL, &err);
        goto done;
    }
    if (m->config.kind != TRF_ENCODER_ONLY)
        tell_generation(m->generation, json, &m->config, sides[1]);
    status = DONE;
done:
    cJSON_Delete(json);
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    free_tags(&tags);
    free(sentences.prompt);
    return status;
}

/* Says where the folder of a model is that is none itself: in the cache of the hub, or an adapter's
   base. */
static int refuse_folder(const struct importing *m)
{
    char *snapshots = format_text("%s/snapshots", m->folder), *found = NULL;
    DIR *list = opendir(snapshots);
    const struct dirent *entry;
    while (list && !found && (entry = readdir(list)) != NULL) {
        char *inside = format_text("%s/%s", snapshots, entry->d_name);
        if (*entry->d_name != '.' && has_file(inside, "config.json")) found = inside;
        else free(inside);
    }
    if (list) closedir(list);
    if (has_file(m->folder, "adapter_config.json"))
        say("%s: an adapter alone (adapter_config.json): merge it into its model and save that one",
            m->folder);
    else if (found) say("%s: expected config.json, got none: give %s", m->folder, found);
    else say("%s: expected config.json, got none", m->folder);
    free(snapshots);
    free(found);
    return FAILED;
}

/* The argument is a folder, or a file of weights in one. sentence-transformers may have the model
   in the folder 0_Transformer. */
static int find_folder(struct importing *m, const char *path)
{
    static const char inner[] = "0_Transformer";
    struct stat info;
    char *slash;
    if (stat(path, &info)) { say("%s: %s", path, strerror(errno)); return FAILED; }
    m->folder = format_text("%s", path);
    if (!S_ISDIR(info.st_mode)) {
        m->file = path;
        if ((slash = strrchr(m->folder, '/'))) slash[slash == m->folder] = 0;
        else { free(m->folder); m->folder = format_text("."); }
    }
    m->sentences = format_text(ends_with(m->folder, inner) ? "%s/.." : "%s", m->folder);
    m->config_path = format_text("%s/config.json", m->folder);
    if (!m->file && !is_file(m->config_path)) {
        char *other = format_text("%s/%s", m->folder, inner);
        if (!has_file(other, "config.json")) {
            free(other);
            return refuse_folder(m);
        }
        free(m->folder);
        free(m->config_path);
        m->folder = other;
        m->config_path = format_text("%s/config.json", other);
    }
    if (has_file(m->folder, "adapter_config.json"))
        inform_line("%s: left out: an adapter (adapter_config.json)", m->folder);
    if (is_file(m->config_path)) return DONE;
    return refuse("%s: expected config.json and the tokenizer's files beside it, but there is no "
                  "%s", path, m->config_path);
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
    status = find_folder(&m, argv[0]) || import_folder(&m) ? FAILED : DONE;
    if (m.faults && m.file && strstr(m.file, "-of-"))
        say("%s: if it is one of several files, give their folder", m.file);
    if (!status)
        inform_line("%s: %s, %lld weights, %d tokens; it took at most %.0f MB of memory", s->output,
                    m.recipe->type, (long long)trf_model_parameter_total(m.model),
                    (int)(m.config.source_vocab ? m.config.source_vocab : m.config.target_vocab),
                    megabytes());
    trf_model_destroy(m.model);
    cJSON_Delete(m.generation);
    close_weights(&m.weights);
    free(m.folder);
    free(m.sentences);
    free_labels(&m.labels);
    free(m.label_order);
    free(m.taken);
    free(m.config_path);
    return status;
}
