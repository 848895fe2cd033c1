// trf import: SentencePiece tokenizers of Hugging Face, whose models have ids of their own.
//
// The class in tokenizer_config.json decides; without it, the files that a folder has:
//
//   MarianTokenizer   source.spm, target.spm, vocab.json, which gives the ids of all pieces
//   T5Tokenizer       spiece.model: piece i has id i; a hundred sentinels follow
//   LlamaTokenizer    tokenizer.model: piece i has id i
//
// Tokens that tokenizer_config.json adds follow the pieces. The library checks all ids.

#include "import.h"

#if defined(TRF_WITH_CJSON)
enum { MARIAN, T5, LLAMA, CLASSES, MOST_IDS = 1 << 24 };

static const struct { const char *class_name, *file; } classes[CLASSES] = {
    {"MarianTokenizer", "source.spm"}, {"T5Tokenizer", "spiece.model"},
    {"LlamaTokenizer", "tokenizer.model"}};

/* Texts with their ids. Sorted, it is looked up. */
struct entry { const char *text; int32_t id; int used; };
struct table { struct entry *entry; size_t n, capacity; };

/* A SentencePiece file and the texts of its pieces. */
struct pieces { char *path, *bytes, **text; size_t n_bytes, n, capacity; };

struct published {
    const char *folder;
    int is;                     /* MARIAN, T5 or LLAMA */
    cJSON *config;              /* tokenizer_config.json, or NULL */
    char *config_path;
    char **made;                /* texts of sentinels */
    size_t n_made, made_capacity;
};

// -----------------------------------------------------------------------------------------------
// >>tables         texts with their ids
// -----------------------------------------------------------------------------------------------

static void add_entry(struct table *t, const char *text, int32_t id)
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

static struct entry *find_entry(const struct table *t, const char *text)
{
    struct entry key;
    key.text = text;
    return t->n ? bsearch(&key, t->entry, t->n, sizeof key, by_text) : NULL;
}

/* Adds the entry of a file of JSON. */
static int take_entry(struct table *t, const char *path, const char *text, const cJSON *value)
{
    double id = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (!(id >= 0 && id < MOST_IDS) || id != (double)(int32_t)id) {
        say("%s: expected an id of 0 to %d for \"%s\", got %.17g", path, MOST_IDS - 1, text, id);
        return FAILED;
    }
    add_entry(t, text, (int32_t)id);
    return DONE;
}

/* Reads texts and ids. Every id from 0 on has one text. */
static int take_table(struct table *t, const char *path, const cJSON *json)
{
    const char **by_id = NULL;
    const cJSON *entry;
    size_t i;
    int status = DONE;
    cJSON_ArrayForEach(entry, json)
        if (take_entry(t, path, entry->string, entry)) return FAILED;
    by_id = zeroed(t->n + 1, sizeof *by_id);
    for (i = 0; i < t->n && !status; i++) {
        size_t id = (size_t)t->entry[i].id;
        if (id >= t->n) {
            say("%s: \"%s\" has the id %zu, but there are only %zu tokens: an id is missing", path,
                t->entry[i].text, id, t->n);
            status = FAILED;
        } else if (by_id[id]) {
            say("%s: \"%s\" and \"%s\" both have the id %zu", path, by_id[id], t->entry[i].text,
                id);
            status = FAILED;
        } else by_id[id] = t->entry[i].text;
    }
    free(by_id);
    if (status) return status;
    qsort(t->entry, t->n, sizeof *t->entry, by_text);
    for (i = 1; i < t->n; i++)
        if (!strcmp(t->entry[i - 1].text, t->entry[i].text)) {
            say("%s: the token \"%s\" occurs twice", path, t->entry[i].text);
            return FAILED;
        }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>file           the texts of a SentencePiece file's pieces
// -----------------------------------------------------------------------------------------------

/* Moves to the next field of a message of protocol buffers. Returns its key, or 0 at the end and at
   a fault. *field and *length are the bytes of a field that has some. */
static uint64_t next_field(const unsigned char **at, const unsigned char *end,
                           const unsigned char **field, size_t *length)
{
    uint64_t number[2] = {0, 0};
    int k, shift, type = 0;
    *length = 0;
    for (k = 0; k < 2; k++) {
        for (shift = 0; *at < end && shift < 64; shift += 7) {
            number[k] |= (uint64_t)(**at & 127) << shift;
            if (!(*(*at)++ & 128)) break;
        }
        type = (int)(number[0] & 7);
        if (type == 1 || type == 5) { number[1] = type == 1 ? 8 : 4; break; }
    }
    *field = *at;
    if (type == 0) return number[0];
    if (number[1] > (uint64_t)(end - *at)) return 0;
    *length = (size_t)number[1];
    *at += *length;
    return number[0];
}

/* Reads the file. A fault of its bytes ends the list: the library tells it. */
static int read_pieces_of(struct pieces *p, const char *folder, const char *name)
{
    const unsigned char *at, *end, *field, *inner, *text;
    size_t length, n;
    uint64_t key;
    p->path = format_text("%s/%s", folder, name);
    p->bytes = read_whole(p->path, &p->n_bytes);
    if (!p->bytes) return FAILED;
    at = (const unsigned char *)p->bytes;
    end = at + p->n_bytes;
    while (at < end && (key = next_field(&at, end, &field, &length)) != 0) {
        if (key != 8 * 1 + 2) continue;
        p->text = grow(p->text, &p->capacity, p->n + 1, sizeof *p->text);
        p->text[p->n++] = zeroed(length + 1, 1);
        for (inner = field; inner < field + length; ) {
            key = next_field(&inner, field + length, &text, &n);
            if (key == 8 * 1 + 2) memcpy(p->text[p->n - 1], text, n);
            if (key == 0) break;
        }
    }
    return DONE;
}

static void free_pieces(struct pieces *p)
{
    size_t i;
    for (i = 0; i < p->n; i++) free(p->text[i]);
    free(p->text);
    free(p->bytes);
    free(p->path);
}

// -----------------------------------------------------------------------------------------------
// >>special        special tokens, and tokens that a folder adds
// -----------------------------------------------------------------------------------------------

/* The text of a special token: that of tokenizer_config.json, which may be null, or the usual
   one. */
static const char *special_text(const struct published *p, const char *name, const char *usual)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(p->config, name);
    if (!value) return usual;
    return cJSON_IsObject(value) ? json_text(value, "content") : cJSON_GetStringValue(value);
}

/* Finds the ids in a sorted table of all tokens. */
static int find_special(const struct published *p, const struct table *all,
                        int32_t special[SPECIALS])
{
    static const struct { const char *name, *usual[CLASSES]; } names[SPECIALS] = {
        {"pad_token", {"<pad>", "<pad>", NULL}}, {"bos_token", {NULL, NULL, "<s>"}},
        {"eos_token", {"</s>", "</s>", "</s>"}}, {"unk_token", {"<unk>", "<unk>", "<unk>"}},
        {"mask_token", {NULL, NULL, NULL}}, {"cls_token", {NULL, NULL, NULL}},
        {"sep_token", {NULL, NULL, NULL}}};
    int i, k;
    for (i = 0; i < SPECIALS; i++) {
        const char *text = special_text(p, names[i].name, names[i].usual[p->is]);
        const struct entry *found = text ? find_entry(all, text) : NULL;
        special[i] = found ? found->id : -1;
        if (!found && (i == SPECIAL_EOS || i == SPECIAL_UNK)) {
            say("%s: expected the special token \"%s\" among the tokens", p->folder,
                text ? text : names[i].usual[p->is]);
            return FAILED;
        }
    }
    /* padding with the token that ends, or with the unknown one, is no padding here */
    for (i = SPECIAL_PAD, k = 1; k < SPECIALS; k++) if (special[i] == special[k]) special[i] = -1;
    return DONE;
}

/* Adds what tokenizer_config.json adds behind n pieces. A token that is a piece has its id. */
static int take_added(const struct published *p, const struct pieces *pieces, struct table *more)
{
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(p->config, "added_tokens_decoder");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, added) {
        const char *text = json_text(entry, "content");
        char *end;
        long id = strtol(entry->string, &end, 10);
        if (*end || end == entry->string || id < 0 || id >= MOST_IDS || !text) {
            say("%s: expected an id and its \"content\" in \"added_tokens_decoder\", got \"%s\"",
                p->config_path, entry->string);
            return FAILED;
        }
        if ((size_t)id >= pieces->n) add_entry(more, text, (int32_t)id);
        else if (strcmp(pieces->text[id], text)) {
            say("%s: the id %ld is \"%s\", but piece %ld of %s is \"%s\"", p->config_path, id, text,
                id, pieces->path, pieces->text[id]);
            return FAILED;
        }
    }
    return DONE;
}

/* T5's sentinels, whose ids go down from the last one. */
static int take_sentinels(struct published *p, size_t n, struct table *more)
{
    int32_t sentinels, i;
    if (more->n) return DONE;           /* tokenizer_config.json has them */
    if (json_int(p->config, p->config_path, "extra_ids", 100, &sentinels)) return FAILED;
    for (i = 0; i < sentinels && i < MOST_IDS; i++) {
        char *text = format_text("<extra_id_%d>", (int)i);
        p->made = grow(p->made, &p->made_capacity, p->n_made + 1, sizeof *p->made);
        p->made[p->n_made++] = text;
        add_entry(more, text, (int32_t)n + sentinels - 1 - i);
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>vocabulary     a vocabulary of the library
// -----------------------------------------------------------------------------------------------

/* n_ids: how many the model has, of which the last may be no tokens. */
static int make_vocabulary(const struct pieces *pieces, const int32_t *ids,
                           const struct table *more, int32_t n_ids, int codes,
                           const int32_t special[SPECIALS], trf_vocab **vocab)
{
    const char **text = zeroed(more->n + 1, sizeof *text);
    int32_t *more_ids = zeroed(more->n + 1, sizeof *more_ids), last = -1;
    trf_piece_ids map;
    trf_error err;
    size_t i;
    int status = DONE;
    memset(&map, 0, sizeof map);
    for (i = 0; i < pieces->n; i++) {
        int32_t id = ids ? ids[i] : (int32_t)i;
        if (id > last) last = id;
    }
    for (i = 0; i < more->n; i++) {
        text[i] = more->entry[i].text;
        more_ids[i] = more->entry[i].id;
        if (more_ids[i] > last) last = more_ids[i];
    }
    map.size = n_ids > last ? n_ids : last + 1;
    map.pieces = ids;
    map.n_pieces = (int32_t)pieces->n;
    map.more = text;
    map.more_ids = more_ids;
    map.n_more = (int32_t)more->n;
    map.codes = codes;
    memcpy(map.special, special, sizeof map.special);
    if (n_ids && map.size > n_ids) {
        say("%s: the tokenizer has %d ids, but the model has only %d", pieces->path, (int)map.size,
            (int)n_ids);
        status = FAILED;
    } else if (trf_vocab_from_pieces(vocab, pieces->bytes, pieces->n_bytes, &map, NULL, &err)) {
        say_error(pieces->path, &err);
        status = FAILED;
    }
    free(text);
    free(more_ids);
    return status;
}

/* One side of Marian: what vocab.json says of the pieces, and its tokens that are none of them. */
static int take_marian_side(const struct published *p, int side, const char *table_name,
                            int32_t n_ids, trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct pieces pieces;
    struct table all, more;
    char *path = format_text("%s/%s", p->folder, table_name);
    cJSON *json = read_json_file(path);
    int32_t *ids = NULL;
    size_t i;
    int status;
    memset(&pieces, 0, sizeof pieces);
    memset(&all, 0, sizeof all);
    memset(&more, 0, sizeof more);
    status = json ? take_table(&all, path, json) : FAILED;
    if (!status) status = read_pieces_of(&pieces, p->folder, side ? "target.spm" : "source.spm");
    if (!status) status = find_special(p, &all, special);
    if (!status) {
        ids = zeroed(pieces.n + 1, sizeof *ids);
        for (i = 0; i < pieces.n; i++) {
            struct entry *found = find_entry(&all, pieces.text[i]);
            ids[i] = found ? found->id : -1;
            if (found) found->used = 1;
        }
        for (i = 0; i < all.n; i++)
            if (!all.entry[i].used) add_entry(&more, all.entry[i].text, all.entry[i].id);
        status = make_vocabulary(&pieces, ids, &more, n_ids, 1, special, vocab);
    }
    free(ids);
    free(all.entry);
    free(more.entry);
    free_pieces(&pieces);
    cJSON_Delete(json);
    free(path);
    return status;
}

static int take_marian(const struct published *p, const int32_t n_ids[2], trf_vocab *vocab[2],
                       int32_t special[SPECIALS])
{
    int separate = json_true(p->config, "separate_vocabs", 0);
    if (take_marian_side(p, 0, "vocab.json", n_ids[0], &vocab[0], special)) return FAILED;
    return take_marian_side(p, 1, separate ? "target_vocab.json" : "vocab.json", n_ids[1],
                            &vocab[1], special);
}

/* T5 and Llama: piece i has id i. */
static int take_numbered(struct published *p, const int32_t n_ids[2], trf_vocab *vocab[2],
                         int32_t special[SPECIALS])
{
    struct pieces pieces;
    struct table more, all;
    size_t i;
    int status;
    memset(&pieces, 0, sizeof pieces);
    memset(&more, 0, sizeof more);
    memset(&all, 0, sizeof all);
    status = read_pieces_of(&pieces, p->folder, classes[p->is].file);
    if (!status) status = take_added(p, &pieces, &more);
    if (!status && p->is == T5) status = take_sentinels(p, pieces.n, &more);
    for (i = 0; i < pieces.n; i++) add_entry(&all, pieces.text[i], (int32_t)i);
    for (i = 0; i < more.n; i++) add_entry(&all, more.entry[i].text, more.entry[i].id);
    if (all.n) qsort(all.entry, all.n, sizeof *all.entry, by_text);
    if (!status) status = find_special(p, &all, special);
    if (!status)
        status = make_vocabulary(&pieces, NULL, &more, n_ids[0] ? n_ids[0] : n_ids[1], 0, special,
                                 &vocab[0]);
    free(all.entry);
    free(more.entry);
    free_pieces(&pieces);
    return status;
}

/* The class of a folder's tokenizer, or CLASSES: none of these. */
static int find_class(const struct published *p)
{
    const char *name = json_text(p->config, "tokenizer_class");
    int is, known = 0;
    for (is = 0; is < CLASSES; is++) {
        size_t length = strlen(classes[is].class_name);
        char *path = format_text("%s/%s", p->folder, classes[is].file);
        int there = is_file(path);
        free(path);
        known = !name || (!strncmp(name, classes[is].class_name, length) &&
                          (!name[length] || !strcmp(name + length, "Fast")));
        if (there && known) break;
    }
    return is;
}

int read_pieces(const char *folder, const int32_t n_ids[2], trf_vocab *vocab[2],
                int32_t special[SPECIALS], int *found)
{
    struct published p;
    int status = DONE;
    memset(&p, 0, sizeof p);
    p.folder = folder;
    p.config_path = format_text("%s/tokenizer_config.json", folder);
    if (is_file(p.config_path) && !(p.config = read_json_file(p.config_path))) status = FAILED;
    p.is = status ? (int)CLASSES : find_class(&p);
    *found = p.is < CLASSES;
    if (p.is == MARIAN) status = take_marian(&p, n_ids, vocab, special);
    else if (p.is < CLASSES) status = take_numbered(&p, n_ids, vocab, special);
    while (p.n_made > 0) free(p.made[--p.n_made]);
    free(p.made);
    cJSON_Delete(p.config);
    free(p.config_path);
    return status;
}
#else
typedef int import_pieces_is_empty;
#endif
