// trf import: tokenizer.json of SentencePiece's kind becomes a SentencePiece file, which the
// library reads: a model of type Unigram, or BPE whose blanks are U+2581.
//
//   Precompiled                    the map of characters
//   Replace " {2,}", Strip,        runs of blanks are one, and there is none at the ends
//   WhitespaceSplit
//   Metaspace, Prepend, Replace    blanks are U+2581, and a text begins with one
//   scores of Unigram              the same scores
//   merges of BPE                  scores by the rank of the merges that form a piece
//
// BPE: tokenizers has a list of merges, and makes the first one of the list that the text allows.
// SentencePiece has no list. It merges any two pieces that together are a piece: first those of the
// best score, and of equal scores the leftmost. So a tokenizer is refused unless
//   - every two pieces that together are a piece are a merge, and
//   - the merges that form the same piece follow one another in the list.
// Then both make the same tokens, unless two pairs that form the same piece overlap in a text.
// Special tokens do not become pieces.

#include "import_sentencepiece.h"

enum { NO_TYPE = 0, SPECIAL_TOKEN = -1, NO_PIECE = -2 };

struct token { const char *text; float score; int32_t id; int type; };
struct merge { int32_t left, right, piece; };        /* indices of tokens */

struct metaspace {
    const char *path;
    const cJSON *json, *model;
    int32_t n_ids;                      /* of the model; 0: any number */
    int bpe, bytes;                     /* bytes: characters without pieces are bytes */
    int prefix, one_blank, split;       /* split: no piece goes beyond a blank */
    int blanks, keeps_last, joins_first;
    unsigned char *map;
    size_t map_bytes;
    struct token *token;                /* sorted by id */
    size_t n, capacity;
    struct table all;                   /* texts and indices of `token` */
};

/* Reports a value in tokenizer.json that is not the expected one. FAILED. */
static int unexpected(const struct metaspace *m, const char *where, const char *wanted,
                      const char *got)
{
    return refuse("%s: %s: expected %s, got %s", m->path, where, wanted, got ? got : "none");
}

/* A part of the file; where: its place, for messages. */
typedef int take_part(struct metaspace *m, const char *where, const cJSON *part);

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(value) ? NULL : value;
}

/* The parts of a Sequence; list: its member that has them. */
static int take_sequence(struct metaspace *m, const char *where, const cJSON *part,
                         const char *list, take_part *take)
{
    const cJSON *each;
    int i = 0, status = DONE;
    cJSON_ArrayForEach(each, member(part, list)) {
        char *there = format_text("%s.%s[%d]", where, list, i++);
        status = take(m, there, each);
        free(there);
        if (status) break;
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>normalizer     what happens to characters and blanks
// -----------------------------------------------------------------------------------------------

/* Takes the map of characters, which is in base64. */
static int take_map(struct metaspace *m, const char *where, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = text ? strlen(text) : 0, i;
    uint32_t bits = 0;
    if (m->map || !n || n % 4)
        return unexpected(m, where, "one \"precompiled_charsmap\" in base64", text);
    m->map = zeroed(n / 4 * 3, 1);
    while (n && text[n - 1] == '=') n--;
    for (i = 0; i < n; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return refuse("%s: %s: expected base64, got something else at character %zu of the map",
                          m->path, where, i);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4) m->map[m->map_bytes++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return DONE;
}

/* Takes a replacement. A SentencePiece file can have only these. */
static int take_replace(struct metaspace *m, const char *where, const cJSON *part)
{
    const cJSON *pattern = member(part, "pattern");
    const char *regex = json_text(pattern, "Regex"), *text = json_text(pattern, "String");
    const char *by = json_text(part, "content");
    if (by && text && !strcmp(text, " ") && !strcmp(by, BLANK)) { m->blanks = 1; return DONE; }
    if (by && regex && !strcmp(regex, " {2,}") && (!strcmp(by, " ") || !strcmp(by, BLANK))) {
        m->one_blank = 1;
        return DONE;
    }
    if (by && regex && !strcmp(regex, "\\A +| +\\z") && !*by) { m->keeps_last = 0; return DONE; }
    /* a text that begins with U+2581 gets one more in front, as SentencePiece does it */
    if (by && regex && !strcmp(regex, "\\A" BLANK) && !strcmp(by, BLANK BLANK)) {
        m->joins_first = 0;
        return DONE;
    }
    return unexpected(m, where, "a Replace of \" \" by U+2581 or of \" {2,}\" by a blank",
                      regex ? regex : text);
}

static int take_normalizer(struct metaspace *m, const char *where, const cJSON *part)
{
    const char *text;
    if (!part) return DONE;
    if (has_type(part, "Sequence"))
        return take_sequence(m, where, part, "normalizers", take_normalizer);
    if (has_type(part, "Precompiled"))
        return take_map(m, where, json_text(part, "precompiled_charsmap"));
    if (has_type(part, "Replace")) return take_replace(m, where, part);
    if (has_type(part, "Strip")) { m->keeps_last = 0; return DONE; }
    if (has_type(part, "Prepend")) {
        text = json_text(part, "prepend");
        if (!text || strcmp(text, BLANK)) return unexpected(m, where, "a Prepend of U+2581", text);
        m->prefix = 1;
        m->joins_first = 0;
        return DONE;
    }
    return unexpected(m, where, "a type Precompiled, Replace, Strip, Prepend or Sequence",
                      json_text(part, "type"));
}

/* Metaspace, after a WhitespaceSplit or alone. */
static int take_pre_tokenizer(struct metaspace *m, const char *where, const cJSON *part)
{
    const char *text, *scheme;
    if (!part) return DONE;
    if (has_type(part, "Sequence"))
        return take_sequence(m, where, part, "pretokenizers", take_pre_tokenizer);
    if (has_type(part, "WhitespaceSplit")) {
        m->one_blank = m->split = 1;
        m->keeps_last = 0;
        return DONE;
    }
    if (!has_type(part, "Metaspace"))
        return unexpected(m, where, "a type Metaspace, or a Sequence of WhitespaceSplit and it",
                          json_text(part, "type"));
    text = json_text(part, "replacement");
    if (!text || strcmp(text, BLANK)) return unexpected(m, where, "the replacement U+2581", text);
    scheme = json_text(part, "prepend_scheme");
    if (scheme ? strcmp(scheme, "never") != 0 : json_true(part, "add_prefix_space", 1))
        m->prefix = 1;
    m->split |= json_true(part, "split", 1);
    m->blanks = 1;
    return DONE;
}

/* Ids must become text again as SentencePiece does it. */
static int check_decoding(const struct metaspace *m)
{
    const cJSON *decoder = member(m->json, "decoder"), *each;
    int known = has_type(decoder, "Metaspace");
    if (has_type(decoder, "Sequence")) {
        known = 1;
        cJSON_ArrayForEach(each, member(decoder, "decoders"))
            known &= has_type(each, "Replace") || has_type(each, "ByteFallback") ||
                     has_type(each, "Fuse") || has_type(each, "Strip") ||
                     has_type(each, "Metaspace");
    }
    if (known) return DONE;
    return unexpected(m, "decoder",
                      "a type Metaspace, or a Sequence of Replace, ByteFallback, Fuse and Strip",
                      json_text(decoder, "type"));
}

// -----------------------------------------------------------------------------------------------
// >>tokens         the model's tokens, and those that are added
// -----------------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const struct token *)a)->id, y = ((const struct token *)b)->id;
    return (x > y) - (x < y);
}

static int add_token(struct metaspace *m, const char *where, const char *text, double id,
                     double score)
{
    struct token *t;
    if (!text || !(id >= 0 && id < MOST_IDS) || id != (double)(int32_t)id)
        return refuse("%s: %s: expected a text and an id of 0 to %d, got \"%s\" and %.17g", m->path,
                      where, MOST_IDS - 1, text ? text : "", id);
    m->token = grow(m->token, &m->capacity, m->n + 1, sizeof *m->token);
    t = &m->token[m->n++];
    t->text = text;
    t->id = (int32_t)id;
    t->score = (float)score;
    t->type = NO_TYPE;
    return DONE;
}

/* Sorts the tokens by their ids, and their texts. Each occurs once. */
static int sort_tokens(struct metaspace *m)
{
    size_t i;
    if (m->n) qsort(m->token, m->n, sizeof *m->token, by_id);
    for (i = 0; i < m->n; i++) {
        if (i && m->token[i].id == m->token[i - 1].id)
            return same_id(m->path, m->token[i - 1].text, m->token[i].text,
                           (size_t)m->token[i].id);
        enter_text(&m->all, m->token[i].text, (int32_t)i);
    }
    return sort_unique(&m->all, m->path);
}

/* The tokens of the model: a list of texts with scores, or an object of texts with ids. */
static int take_vocab(struct metaspace *m)
{
    const cJSON *vocab = member(m->model, "vocab"), *each, *score;
    double i = 0;
    if (!(m->bpe ? cJSON_IsObject(vocab) : cJSON_IsArray(vocab)))
        return unexpected(m, "model.vocab", m->bpe ? "an object" : "a list", "another value");
    cJSON_ArrayForEach(each, vocab) {
        score = m->bpe ? each : cJSON_GetArrayItem(each, 1);
        if (!cJSON_IsNumber(score) || (!m->bpe && cJSON_GetArraySize(each) != 2))
            return refuse("%s: model.vocab: entry %.0f: expected %s", m->path, i,
                          m->bpe ? "a number as its id" : "a list of a text and a number");
        if (m->bpe ? add_token(m, "model.vocab", each->string, each->valuedouble, 0)
                   : add_token(m, "model.vocab", cJSON_GetStringValue(cJSON_GetArrayItem(each, 0)),
                               i, score->valuedouble)) return FAILED;
        i++;
    }
    return DONE;
}

/* "added_tokens": special tokens, and texts that are always one token. */
static int take_added_tokens(struct metaspace *m, size_t n_model)
{
    const cJSON *each;
    const char *first = NULL;
    size_t ordinary = 0, rowless = 0;
    cJSON_ArrayForEach(each, member(m->json, "added_tokens")) {
        const cJSON *id = member(each, "id");
        const char *text = json_text(each, "content");
        const struct entry *found = text ? find_text(&m->all, text) : NULL;
        int special = json_true(each, "special", 0);
        if (!cJSON_IsNumber(id) || !text)
            return unexpected(m, "added_tokens", "\"id\" and \"content\" of each", "another value");
        if (found && (double)m->token[found->id].id != id->valuedouble)
            return refuse("%s: added_tokens: \"%s\" has the id %.17g, but %d in the model", m->path,
                          text, id->valuedouble, (int)m->token[found->id].id);
        if (found) { m->token[found->id].type = special ? SPECIAL_TOKEN : USER; continue; }
        if (m->n_ids && id->valuedouble >= m->n_ids) {
            if (!rowless++) first = text;
            continue;
        }
        if (add_token(m, "added_tokens", text, id->valuedouble, 0)) return FAILED;
        m->token[m->n - 1].type = SPECIAL_TOKEN;
        ordinary += !special;
    }
    tell_rowless(m->path, first, rowless);
    tell_ordinary(m->path, ordinary, "tokens that no text has");
    if (m->n == n_model) return DONE;
    m->all.n = 0;
    return sort_tokens(m);
}

/* The unknown token, and the bytes. */
static int find_types(struct metaspace *m)
{
    const char *unknown = json_text(m->model, "unk_token");
    const cJSON *number = member(m->model, "unk_id");
    const struct entry *found = unknown ? find_text(&m->all, unknown) : NULL;
    int fallback = json_true(m->model, "byte_fallback", 0), n_bytes = 0, i;
    size_t k;
    if (!m->bpe && cJSON_IsNumber(number))
        for (k = 0; k < m->n; k++)
            if ((double)m->token[k].id == number->valuedouble) m->token[k].type = UNKNOWN;
    if (m->bpe && found) m->token[found->id].type = UNKNOWN;
    if (m->bpe && unknown && !found)
        return unexpected(m, "model.unk_token", "a token of the model", unknown);
    for (i = 0; i < 256 && fallback; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        if (!(found = find_text(&m->all, text))) continue;
        m->token[found->id].type = BYTE;
        n_bytes++;
    }
    m->bytes = n_bytes == 256;
    if (n_bytes && !m->bytes)
        return unexpected(m, "model.byte_fallback", "a token for each of 256 bytes", "fewer");
    for (k = 0; k < m->n && m->token[k].type != UNKNOWN; k++) { }
    if (k == m->n && !m->bytes)
        return unexpected(m, m->bpe ? "model.unk_token" : "model.unk_id", "the unknown token",
                          unknown);
    if (m->bpe && !m->bytes && !json_true(m->model, "fuse_unk", 0))
        return unexpected(m, "model.fuse_unk", "true", "false");
    for (k = 0; k < m->n; k++) if (m->token[k].type == NO_TYPE) m->token[k].type = NORMAL;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>merges         pairs become scores
// -----------------------------------------------------------------------------------------------

size_t first_bytes(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xC0) == 0x80) n++;
    return n;
}

/* Whether a token has a blank inside, where texts are split: then no text has it as a piece. */
static int goes_beyond_blank(const struct metaspace *m, const char *text)
{
    return m->split && *text && strstr(text + 1, BLANK) != NULL;
}

/* Whether a token is one character or less, which needs no merge. */
static int is_character(const char *text) { return !text[0] || !text[first_bytes(text)]; }

/* Finds the three tokens of a merge, by their indices. */
static int find_merge(const struct metaspace *m, int i, const cJSON *entry, struct merge *to)
{
    const char *text = cJSON_GetStringValue(entry), *blank = text ? strchr(text, ' ') : NULL;
    const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(entry, 0));
    const char *right = blank ? blank + 1 : cJSON_GetStringValue(cJSON_GetArrayItem(entry, 1));
    char *first = blank ? format_text("%.*s", (int)(blank - text), text)
                        : format_text("%s", left ? left : "");
    char *both = format_text("%s%s", first, right ? right : "");
    const struct entry *a = find_text(&m->all, first), *c = find_text(&m->all, both);
    const struct entry *b = right ? find_text(&m->all, right) : NULL;
    if (a && b && c) {
        to->left = a->id;
        to->right = b->id;
        to->piece = c->id;
    } else
        say("%s: model.merges[%d]: expected two tokens that form a third one, got \"%s\" and "
            "\"%s\"", m->path, i, first, right ? right : "");
    free(first);
    free(both);
    return a && b && c ? DONE : FAILED;
}

/* Sets for each piece the longest other piece with which it begins, or -1: link[], by indices of
   tokens. Sorted, such a piece is the one before, or one with which that one begins. */
static void link_beginnings(const struct metaspace *m, const struct table *sorted, int32_t *link)
{
    int32_t last = -1;
    const char **texts = zeroed(m->n + 1, sizeof *texts);
    size_t i;
    for (i = 0; i < sorted->n; i++) {
        const struct entry *e = &sorted->entry[i];
        if (m->token[e->id].type != NORMAL) continue;
        while (last >= 0 && strncmp(e->text, texts[last], strlen(texts[last]))) last = link[last];
        link[e->id] = last;
        texts[last = e->id] = e->text;
    }
    free(texts);
}

/* The same text with its bytes in reverse. */
static char *reversed(const char *text)
{
    size_t n = strlen(text), i;
    char *to = zeroed(n + 1, 1);
    for (i = 0; i < n; i++) to[i] = text[n - 1 - i];
    return to;
}

/* Every two pieces that form a piece must be a merge: n[i] counts those of token i. */
static int check_pairs(const struct metaspace *m, const int32_t *n)
{
    struct table backwards;
    int32_t *begins = zeroed(m->n + 1, sizeof *begins), *ends = zeroed(m->n + 1, sizeof *ends), k;
    size_t *length = zeroed(m->n + 1, sizeof *length), longest = 0, i;
    size_t *seen;                       /* of each length: 1 + the last token that begins so */
    char **reverse = zeroed(m->n + 1, sizeof *reverse);
    int status = DONE;
    memset(&backwards, 0, sizeof backwards);
    for (i = 0; i < m->n; i++) {
        length[i] = strlen(m->token[i].text);
        if (length[i] > longest) longest = length[i];
        enter_text(&backwards, reverse[i] = reversed(m->token[i].text), (int32_t)i);
    }
    sort_texts(&backwards);
    link_beginnings(m, &m->all, begins);
    link_beginnings(m, &backwards, ends);
    seen = zeroed(longest + 1, sizeof *seen);
    for (i = 0; i < m->n && !status; i++) {
        int32_t pairs = 0;
        if (m->token[i].type != NORMAL || is_character(m->token[i].text)) continue;
        for (k = begins[i]; k >= 0; k = begins[k]) seen[length[k]] = i + 1;
        for (k = ends[i]; k >= 0; k = ends[k]) pairs += seen[length[i] - length[k]] == i + 1;
        if (pairs != n[i])
            status = refuse("%s: model.merges: expected a merge for each pair that forms a piece, "
                            "as SentencePiece has it; \"%s\" has %d of %d", m->path,
                            m->token[i].text, (int)n[i], (int)pairs);
    }
    for (i = 0; i < m->n; i++) free(reverse[i]);
    free(reverse);
    free(backwards.entry);
    free(begins);
    free(ends);
    free(length);
    free(seen);
    return status;
}

/* The score of a piece is the number of its first merge, negated. Its merges must follow one
   another. n[i]: counts those of token i. */
static int score_pieces(struct metaspace *m, const struct merge *merge, int n_merges, int32_t *n)
{
    int32_t last = -1;
    int i, k, status = DONE;
    memset(n, 0, m->n * sizeof *n);
    for (i = 0; i < n_merges && !status; i++) {
        const struct merge *at = &merge[i];
        struct token *t = &m->token[at->piece];
        if (t->type != NORMAL || m->token[at->left].type != NORMAL ||
            m->token[at->right].type != NORMAL) continue;
        for (k = i - 1; k >= 0 && merge[k].piece == at->piece; k--)
            if (merge[k].left == at->left) break;
        if (k >= 0 && merge[k].piece == at->piece)
            status = refuse("%s: model.merges[%d]: expected every merge once", m->path, i);
        else if (at->piece != last && n[at->piece])
            status = refuse("%s: model.merges[%d]: expected the merges that form \"%s\" in a row, "
                            "as SentencePiece has one score for each piece", m->path, i, t->text);
        else if (!n[at->piece]++) t->score = (float)-i;
        last = at->piece;
    }
    return status;
}

/* BPE: scores from merges. A token of several characters that no merge forms is no piece, nor is
   one that goes beyond a blank. */
static int take_merges(struct metaspace *m)
{
    const cJSON *entry, *list = member(m->model, "merges");
    struct merge *merge = zeroed((size_t)cJSON_GetArraySize(list) + 1, sizeof *merge);
    int32_t *n = zeroed(m->n + 1, sizeof *n);
    int n_merges = 0, i, status = DONE;
    size_t k;
    if (!cJSON_IsArray(list)) status = unexpected(m, "model.merges", "a list", "another value");
    if (cJSON_GetArraySize(list) >= 1 << 24)
        status = unexpected(m, "model.merges", "fewer than 2^24", "more");
    cJSON_ArrayForEach(entry, list) {
        if (status) break;
        status = find_merge(m, n_merges, entry, &merge[n_merges]);
        if (!status) n[merge[n_merges++].piece]++;
    }
    for (k = 0; k < m->n; k++) {
        struct token *t = &m->token[k];
        if (t->type != NORMAL || is_character(t->text)) continue;
        if (!n[k] || goes_beyond_blank(m, t->text)) t->type = NO_PIECE;
    }
    if (!status) status = score_pieces(m, merge, n_merges, n);
    if (!status) status = check_pairs(m, n);
    for (i = 0; i < n_merges && !status; i++)       /* merges of texts that are no pieces */
        if (m->token[merge[i].piece].type == NORMAL && !n[merge[i].piece])
            m->token[merge[i].piece].type = NO_PIECE;
    free(merge);
    free(n);
    return status;
}

/* Unigram: leaves out tokens that go beyond a blank, which no text has. */
static void leave_out_phrases(struct metaspace *m)
{
    size_t k;
    for (k = 0; k < m->n; k++)
        if (m->token[k].type == NORMAL && goes_beyond_blank(m, m->token[k].text))
            m->token[k].type = UNUSED;
}

// -----------------------------------------------------------------------------------------------
// >>proto          the bytes of a SentencePiece file
// -----------------------------------------------------------------------------------------------

static void put_number(made_file *to, uint64_t x)
{
    do {
        unsigned char byte = (unsigned char)((x & 127) | (x > 127 ? 128 : 0));
        put_bytes(to, &byte, 1);
        x >>= 7;
    } while (x);
}

/* A field of a number; of bytes. */
static void put_field(made_file *to, int field, uint64_t x)
{
    put_number(to, (uint64_t)field << 3);
    put_number(to, x);
}
static void put_text(made_file *to, int field, const void *bytes, size_t n)
{
    put_number(to, (uint64_t)field << 3 | 2);
    put_number(to, n);
    put_bytes(to, bytes, n);
}

/* Writes the file and lists its pieces with their ids, and the tokens that are none. */
static void make_file(const struct metaspace *m, struct pieces *pieces, int32_t **ids,
                      struct table *more)
{
    made_file file, part;
    uint32_t bits;
    size_t k;
    memset(&file, 0, sizeof file);
    memset(&part, 0, sizeof part);
    *ids = zeroed(m->n + 1, sizeof **ids);
    for (k = 0; k < m->n; k++) {
        const struct token *t = &m->token[k];
        if (t->type < 0 || !t->text[0]) { enter_text(more, t->text, t->id); continue; }
        part.n = 0;
        put_text(&part, 1, t->text, strlen(t->text));
        memcpy(&bits, &t->score, 4);
        put_number(&part, 2 << 3 | 5);
        put_u32(&part, bits);
        put_field(&part, 3, (uint64_t)t->type);
        put_text(&file, 1, part.bytes, part.n);
        pieces->text = grow(pieces->text, &pieces->capacity, pieces->n + 1, sizeof *pieces->text);
        pieces->text[pieces->n] = format_text("%s", t->text);
        (*ids)[pieces->n++] = t->id;
    }
    part.n = 0;
    put_field(&part, 3, m->bpe ? 2 : 1);
    put_field(&part, 35, (uint64_t)m->bytes);
    put_text(&file, 2, part.bytes, part.n);
    part.n = 0;
    if (m->map) put_text(&part, 2, m->map, m->map_bytes);
    put_field(&part, 3, (uint64_t)m->prefix);
    put_field(&part, 4, (uint64_t)m->one_blank);
    put_field(&part, 5, 1);
    put_text(&file, 3, part.bytes, part.n);
    free(part.bytes);
    pieces->bytes = (char *)file.bytes;
    pieces->n_bytes = file.n;
    pieces->path = format_text("%s", m->path);
}

// -----------------------------------------------------------------------------------------------
// >>json           the whole file
// -----------------------------------------------------------------------------------------------

/* Whether the blanks of a BPE are U+2581. */
static int has_blanks(const cJSON *part)
{
    const cJSON *each;
    if (has_type(part, "Metaspace")) return 1;
    if (has_type(part, "Replace") || has_type(part, "Prepend")) {
        char *text = cJSON_PrintUnformatted(part);
        int has = text && strstr(text, BLANK) != NULL;
        cJSON_free(text);
        return has;
    }
    cJSON_ArrayForEach(each, part) if (has_blanks(each)) return 1;
    return 0;
}

static int take_model(struct metaspace *m)
{
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const cJSON *dropout = member(m->model, "dropout");
    size_t i, n;
    m->keeps_last = m->joins_first = 1;
    if (take_normalizer(m, "normalizer", member(m->json, "normalizer")) ||
        take_pre_tokenizer(m, "pre_tokenizer", member(m->json, "pre_tokenizer")) ||
        check_decoding(m)) return FAILED;
    if (!m->blanks) return unexpected(m, "pre_tokenizer", "blanks to become U+2581", NULL);
    for (i = 0; i < 2; i++) {
        const char *text = json_text(m->model, names[i]);
        char *where = format_text("model.%s", names[i]);
        int bad = text && *text ? unexpected(m, where, "none", text) : DONE;
        free(where);
        if (bad) return FAILED;
    }
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return unexpected(m, "model.dropout", "none: its ids would be random", "a number");
    if (json_true(m->model, "ignore_merges", 0))
        return unexpected(m, "model.ignore_merges", "false", "true");
    if (take_vocab(m) || sort_tokens(m)) return FAILED;
    n = m->n;
    if (take_added_tokens(m, n) || find_types(m)) return FAILED;
    if (m->bpe) return take_merges(m);
    leave_out_phrases(m);
    return DONE;
}

/* SentencePiece may cut a text that begins or ends with a blank into other tokens. */
static void tell_ends(const struct metaspace *m)
{
    const char *what = m->one_blank && m->keeps_last ? "ends"
                       : !m->one_blank && m->prefix && m->joins_first ? "begins" : NULL;
    if (what)
        inform_line("%s: a text that %s with a blank may get more or fewer tokens U+2581 than this "
                    "file gives it: trf treats such blanks as SentencePiece does", m->path, what);
}

int is_metaspace(const cJSON *json)
{
    const cJSON *model = member(json, "model");
    return has_type(model, "Unigram") ||
           (has_type(model, "BPE") && (has_blanks(member(json, "normalizer")) ||
                                       has_blanks(member(json, "pre_tokenizer"))));
}

int read_metaspace(const struct published *p, struct pieces *pieces, int32_t **ids,
                   struct table *more)
{
    struct metaspace m;
    int status;
    memset(&m, 0, sizeof m);
    m.path = p->json_path;
    m.n_ids = p->n_ids ? p->n_ids[0] ? p->n_ids[0] : p->n_ids[1] : 0;
    m.json = p->json;
    m.model = member(m.json, "model");
    m.bpe = has_type(m.model, "BPE");
    status = take_model(&m);
    if (!status) {
        make_file(&m, pieces, ids, more);
        tell_ends(&m);
    }
    free(m.map);
    free(m.token);
    free(m.all.entry);
    return status;
}
