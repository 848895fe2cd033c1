// trf export: a SentencePiece file becomes tokenizer.json, the way back of import_metaspace.c.
//
// Scores of Unigram stay. Those of BPE order the pieces; every pair of pieces that forms a piece is
// a merge, and the merges of a piece follow one another. Tokens that are no text are special.

#include "export.h"

#include "import_sentencepiece.h"

/* A token of the model, by its id. */
struct token { const char *text; float score; int type; };      /* type 0: no piece */

struct proto {
    struct token *token;                    /* n ids; texts are those of the vocabulary */
    int32_t n, unknown;                     /* unknown: -1 if there is none */
    int bpe, bytes, prefix, one_blank;
    const unsigned char *map;
    size_t map_bytes;
};

// -----------------------------------------------------------------------------------------------
// >>proto          what the file says
// -----------------------------------------------------------------------------------------------

static void read_piece(struct token *to, const unsigned char *at, size_t n)
{
    const unsigned char *end = at + n, *field;
    uint64_t key;
    size_t length;
    uint32_t bits;
    to->type = NORMAL;
    while (at < end && (key = next_field(&at, end, &field, &length)) != 0) {
        if (key == 8 * 2 + 5) {
            bits = get_u32(field);
            memcpy(&to->score, &bits, 4);
        }
        if (key == 8 * 3) to->type = (int)length;
    }
}

/* The settings of a trainer (3: type, 35: bytes) and of a normalizer (2: map, 3: blank in front, 4:
   one blank). */
static void read_settings(struct proto *p, int trainer, const unsigned char *at, size_t n)
{
    const unsigned char *end = at + n, *field;
    uint64_t key;
    size_t length;
    while (at < end && (key = next_field(&at, end, &field, &length)) != 0) {
        if (trainer && key == 8 * 3) p->bpe = length == 2;
        if (trainer && key == 8 * 35) p->bytes = length != 0;
        if (!trainer && key == 8 * 2 + 2) { p->map = field; p->map_bytes = length; }
        if (!trainer && key == 8 * 3) p->prefix = length != 0;
        if (!trainer && key == 8 * 4) p->one_blank = length != 0;
    }
}

/* The library has read the file before. */
static struct proto read_proto(const struct tokenizer *t, const struct map *m)
{
    const struct vocabulary *v = &t->side[0];
    const unsigned char *at = m->file, *end = at + m->n_file, *field;
    struct proto p;
    struct token none;
    uint64_t key;
    uint32_t i = 0;
    int32_t id;
    size_t length;
    memset(&p, 0, sizeof p);
    p.n = trf_vocab_size(v->vocab);
    p.token = zeroed((size_t)p.n, sizeof *p.token);
    p.prefix = p.one_blank = 1;             /* SentencePiece's defaults */
    p.unknown = -1;
    for (id = 0; id < p.n; id++) p.token[id].text = trf_vocab_token(v->vocab, id);
    while (at < end && (key = next_field(&at, end, &field, &length)) != 0) {
        if (key == 8 * 2 + 2 || key == 8 * 3 + 2)
            read_settings(&p, key == 8 * 2 + 2, field, length);
        if (key != 8 * 1 + 2) continue;
        id = (int32_t)u32_at(v, IDS_AT + 4 * (size_t)i++);
        read_piece(id < 0 ? &none : &p.token[id], field, length);
        if (id >= 0 && p.token[id].type == UNKNOWN) p.unknown = id;
    }
    while (p.n > 0 && !*p.token[p.n - 1].text) p.n--;       /* rows of the model without a token */
    return p;
}

// -----------------------------------------------------------------------------------------------
// >>parts          of tokenizer.json
// -----------------------------------------------------------------------------------------------

static cJSON *new_item(cJSON *list, const char *type)
{
    cJSON *item = cJSON_CreateObject();
    set_text(item, "type", type);
    cJSON_AddItemToArray(list, item);
    return item;
}

/* Bytes in base64; malloc'd. */
static char *base64(const unsigned char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = zeroed(n / 3 * 4 + 5, 1), *to = text;
    size_t i, k;
    for (i = 0; i < n; i += 3) {
        size_t some = n - i < 3 ? n - i : 3;
        uint32_t bits = 0;
        for (k = 0; k < 3; k++) bits = bits << 8 | (k < some ? bytes[i + k] : 0u);
        for (k = 0; k < 4; k++) *to++ = k <= some ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}

/* The map of characters; one blank for a run of them, and none at the end. */
static void add_normalizer(const struct proto *p, cJSON *json)
{
    cJSON *list, *item;
    char *map;
    if (!p->map_bytes && !p->one_blank) return;
    list = cJSON_AddArrayToObject(new_part(json, "normalizer", "Sequence"), "normalizers");
    if (p->map_bytes) {
        map = base64(p->map, p->map_bytes);
        set_text(new_item(list, "Precompiled"), "precompiled_charsmap", map);
        free(map);
    }
    if (!p->one_blank) return;
    item = new_item(list, "Strip");
    set_bool(item, "strip_left", 0);
    set_bool(item, "strip_right", 1);
    item = new_item(list, "Replace");
    set_text(cJSON_AddObjectToObject(item, "pattern"), "Regex", " {2,}");
    set_text(item, "content", BLANK);
}

/* Whether a piece of text has a blank behind its beginning: then blanks split no text. */
static int has_phrases(const struct proto *p)
{
    int32_t id;
    for (id = 0; id < p->n; id++)
        if (p->token[id].type == NORMAL && strstr(p->token[id].text + 1, BLANK)) return 1;
    return 0;
}

static void add_metaspace(const struct proto *p, cJSON *json, const char *name)
{
    cJSON *part = new_part(json, name, "Metaspace");
    set_text(part, "replacement", BLANK);
    set_text(part, "prepend_scheme", p->prefix ? "always" : "never");
    set_bool(part, "split", !has_phrases(p));
}

/* It takes the blanks before it. NLLB's is also found where the normal form of a text has it. */
void describe_mask(const struct tokenizer *t, cJSON *token)
{
    set_bool(token, "lstrip", 1);
    set_bool(token, "normalized", t->languages->is == NLLB);
}

/* Tokens that no text is cut into: special ones, and those of a user, which stand alone. */
static void add_outside(const struct tokenizer *t, const struct proto *p, cJSON *json)
{
    int32_t id, mask = trf_vocab_special(t->side[0].vocab, TRF_SPECIAL_MASK);
    for (id = 0; id < p->n; id++) {
        int type = p->token[id].type;
        cJSON *token;
        if (type == NORMAL || type == UNUSED || type == BYTE) continue;
        token = add_token(json, id, p->token[id].text, type != USER);
        if (id == mask) describe_mask(t, token);
    }
}

// -----------------------------------------------------------------------------------------------
// >>merges         scores become pairs
// -----------------------------------------------------------------------------------------------

/* The pairs of pieces that form a piece; `all` has the texts of pieces. */
static void add_pairs(const struct table *all, const char *text, cJSON *merges)
{
    size_t n = strlen(text), at;
    for (at = first_bytes(text); at < n; at += first_bytes(text + at)) {
        char *left = format_text("%.*s", (int)at, text);
        if (find_text(all, left) && find_text(all, text + at)) {
            cJSON *pair = cJSON_CreateArray();
            cJSON_AddItemToArray(pair, cJSON_CreateString(left));
            cJSON_AddItemToArray(pair, cJSON_CreateString(text + at));
            cJSON_AddItemToArray(merges, pair);
        }
        free(left);
    }
}

/* A piece and its rank: a higher score goes before a lower one, then the lower id. */
struct ranked { float score; int32_t id; };

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void add_merges(const struct proto *p, cJSON *model)
{
    cJSON *merges = cJSON_AddArrayToObject(model, "merges");
    struct ranked *order = zeroed((size_t)p->n + 1, sizeof *order);
    struct table all;
    size_t n = 0, i;
    int32_t id;
    memset(&all, 0, sizeof all);
    for (id = 0; id < p->n; id++) {
        if (p->token[id].type != NORMAL) continue;
        enter_text(&all, p->token[id].text, id);
        order[n].score = p->token[id].score;
        order[n++].id = id;
    }
    sort_texts(&all);
    if (n) qsort(order, n, sizeof *order, by_score);
    for (i = 0; i < n; i++) add_pairs(&all, p->token[order[i].id].text, merges);
    free(order);
    free(all.entry);
}

static void add_bpe(const struct proto *p, cJSON *json)
{
    const char *unknown = p->unknown >= 0 ? p->token[p->unknown].text : NULL;
    cJSON *model = new_bpe(json, unknown, 1, p->bytes, 0), *vocab;
    int32_t id;
    vocab = cJSON_AddObjectToObject(model, "vocab");
    for (id = 0; id < p->n; id++)
        cJSON_AddNumberToObject(vocab, p->token[id].text, id);
    add_merges(p, model);
}

/* A list, whose entries have their ids by their places. */
static void add_unigram(const struct proto *p, cJSON *json)
{
    cJSON *model = new_part(json, "model", "Unigram"), *vocab, *entry;
    int32_t id;
    if (p->unknown >= 0) set_number(model, "unk_id", p->unknown);
    vocab = cJSON_AddArrayToObject(model, "vocab");
    for (id = 0; id < p->n; id++) {
        entry = cJSON_CreateArray();
        cJSON_AddItemToArray(entry, cJSON_CreateString(p->token[id].text));
        cJSON_AddItemToArray(entry, cJSON_CreateNumber((double)p->token[id].score));
        cJSON_AddItemToArray(vocab, entry);
    }
    set_bool(model, "byte_fallback", p->bytes);
}

int write_metaspace(const struct tokenizer *t, const struct map *m, cJSON *settings)
{
    struct proto p = read_proto(t, m);
    cJSON *json = empty_tokenizer();
    add_outside(t, &p, json);
    add_normalizer(&p, json);
    add_metaspace(&p, json, "pre_tokenizer");
    set_text(json, "post_processor", NULL);     /* the class makes it for its languages */
    add_metaspace(&p, json, "decoder");
    if (p.bpe) add_bpe(&p, json);
    else add_unigram(&p, json);
    free(p.token);
    return write_both(t, "", json, settings);
}
