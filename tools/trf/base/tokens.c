// trf: token ids of texts, and texts of token ids. See base.h.

#include "base.h"
#include <math.h>

trf_status vocab_of_bytes(trf_vocab **vocab, const void *bytes, size_t n, const trf_piece_ids *ids,
                          trf_error *err)
{
    trf_vocab_options options;
    memset(&options, 0, sizeof options);
    options.memory = bytes;
    options.memory_bytes = n;
    options.ids = ids;
    return trf_vocab_load(vocab, NULL, &options, err);
}

int encode_after(const trf_vocab *vocab, const char *text, int32_t **ids, size_t n,
                 size_t *capacity, int32_t *added, trf_error *err)
{
    int32_t guess = (int32_t)fmin(INT32_MAX, (double)strlen(text) + 16);
    trf_status status;
    *ids = grow(*ids, capacity, n + (size_t)guess, sizeof **ids);
    status = trf_vocab_encode(vocab, text, 0, *ids + n, guess, added, err);
    if (status == TRF_E_LIMIT && *added > guess) {
        *ids = grow(*ids, capacity, n + (size_t)*added, sizeof **ids);
        status = trf_vocab_encode(vocab, text, 0, *ids + n, *added, added, err);
    }
    if (status) *added = 0;
    return status ? FAILED : DONE;
}

const char *const kinds_of_tokens[] = {"words", "characters", "subwords", "subwords of WordPiece",
                                       "subwords of byte-level BPE"};

int32_t unknown_id(const trf_vocab *vocab) { return trf_vocab_special(vocab, TRF_SPECIAL_UNK); }

int32_t id_of(const trf_vocab *vocab, const char *text)
{
    int32_t id = trf_vocab_id(vocab, text), n = trf_vocab_size(vocab);
    if (id >= 0 && !strcmp(trf_vocab_token(vocab, id), text)) return id;
    for (id = 0; id < n && strcmp(trf_vocab_token(vocab, id), text); id++) { }
    return id < n ? id : -1;
}

// -----------------------------------------------------------------------------------------------
// >>sequences
// -----------------------------------------------------------------------------------------------

void free_side(struct side *side)
{
    free(side->ids);
    free(side->lengths);
    memset(side, 0, sizeof *side);
}

void clear_side(struct side *side) { side->used = side->count = 0; }

trf_sequences sequences_of(const struct side *side)
{
    trf_sequences all;
    all.ids = side->ids;
    all.lengths = side->lengths;
    all.count = (int32_t)side->count;
    return all;
}

static void make_room(struct side *side, size_t n_ids)
{
    side->ids = grow(side->ids, &side->ids_capacity, side->used + n_ids, sizeof *side->ids);
    side->lengths =
        grow(side->lengths, &side->lengths_capacity, side->count + 1, sizeof *side->lengths);
}

/* The n ids behind those that are used become one more sequence. */
static void take_ids(struct side *side, int32_t n)
{
    side->used += (size_t)n;
    side->lengths[side->count++] = n;
}

static int add_encoded(struct side *side, const trf_vocab *vocab, int special, const char *text,
                       int32_t limit, int32_t *n, char why[300])
{
    trf_error err;
    trf_status status;
    *n = 0;
    make_room(side, (size_t)limit);
    status = trf_vocab_encode(vocab, text, special, side->ids + side->used, limit, n, &err);
    if (status == TRF_E_LIMIT) {
        snprintf(why, 300, "%d tokens, at most %d", (int)*n, (int)limit);
        return FAILED;
    }
    if (status) { *n = 0; snprintf(why, 300, "%s", err.message); return FAILED; }
    take_ids(side, *n);
    return DONE;
}

int add_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit, int32_t *n,
             char why[300])
{
    return add_encoded(side, vocab, 0, text, limit, n, why);
}

int add_special_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit,
                     int32_t *n, char why[300])
{
    return add_encoded(side, vocab, 1, text, limit, n, why);
}

void add_ids(struct side *side, const int32_t *ids, int32_t n)
{
    make_room(side, (size_t)n);
    if (n) memcpy(side->ids + side->used, ids, (size_t)n * sizeof *ids);
    take_ids(side, n);
}

void append_id(struct side *side, int32_t id)
{
    side->ids = grow(side->ids, &side->ids_capacity, side->used + 1, sizeof *side->ids);
    side->ids[side->used++] = id;
    side->lengths[side->count - 1]++;
}

struct around tags_of(const struct settings *s, int side)
{
    struct around tags;
    tags.first = side ? s->search.forced_first : s->search.source_first;
    tags.last = side ? -1 : s->search.source_last;
    tags.n = (tags.first >= 0) + (tags.last >= 0);
    return tags;
}

void add_tags(struct side *to, struct around tags)
{
    size_t n = (size_t)to->lengths[to->count - 1];
    if (tags.first >= 0) {
        append_id(to, tags.first);
        memmove(to->ids + to->used - n, to->ids + to->used - n - 1, n * sizeof *to->ids);
        to->ids[to->used - n - 1] = tags.first;
    }
    if (tags.last >= 0) append_id(to, tags.last);
}

int64_t id_of_row(const struct settings *s, const trf_config *config, int side, int64_t n,
                  int64_t i)
{
    int behind = config->source_eos && tags_of(s, side).last >= 0;
    return behind && i >= n - 1 ? 2 * n - 1 - i : i;
}

int32_t room_beside_tags(const struct settings *s, int side, int32_t limit)
{
    int32_t n = tags_of(s, side).n;
    return limit > n ? limit - n : 0;
}

int add_tagged_text(const struct settings *s, int side, struct side *to, const trf_vocab *vocab,
                    const char *text, int32_t limit, int32_t *n, char why[300])
{
    struct around tags = tags_of(s, side);
    int32_t room = room_beside_tags(s, side, limit);
    if (add_text(to, vocab, text, room, n, why)) {
        size_t used = strlen(why);
        if (tags.n && *n > room)
            snprintf(why + used, 300 - used, ", because tags take %d of %d places", (int)tags.n,
                     (int)limit);
        return FAILED;
    }
    add_tags(to, tags);
    return DONE;
}

void drop_last(struct side *side)
{
    side->used -= (size_t)side->lengths[--side->count];
}

const char *add_words(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit,
                      int64_t *cut, int32_t *n, char why[300])
{
    int fails = add_text(side, vocab, text, limit, n, why);
    if (fails && cut && *n > limit) {           /* add_text has left the first ids there */
        take_ids(side, *n = limit);
        ++*cut;
        fails = 0;
    }
    if (!fails && *n == 0) drop_last(side);
    return fails ? why : NULL;
}

/* Encodes both texts, cuts the pair if it may, and appends it. */
static const char *add_joined(struct side *side, const trf_vocab *vocab, const trf_config *config,
                              const char *const text[2], int32_t limit, int64_t *cut, int32_t *n,
                              char why[300])
{
    int32_t *ids = NULL, of[2] = {0, 0}, between = 0, first;
    size_t capacity = 0;
    trf_error err;
    int i, status = DONE;
    for (i = 0; i < 2 && !status; i++)
        status = encode_after(vocab, text[i], &ids, (size_t)of[0], &capacity, &of[i], &err);
    if (!status) (void)trf_join(config, NULL, 0, NULL, 0, 0, NULL, 0, &between, &err);
    *n = status ? 0 : of[0] + between + of[1];
    first = of[0];
    if (status) snprintf(why, 300, "%s", err.message);
    else if (of[0] + of[1] == 0) *n = 0;
    else if (*n > limit && !cut) {
        snprintf(why, 300, "%d tokens, at most %d", (int)*n, (int)limit);
        status = FAILED;
    } else {
        if (*n > limit) {
            *n = limit > between ? limit : between;
            ++*cut;
        }
        make_room(side, (size_t)*n);
        (void)trf_join(config, ids, of[0], ids + first, of[1], 1, side->ids + side->used, *n, n,
                       &err);
        take_ids(side, *n);
    }
    free(ids);
    return status ? why : NULL;
}

const char *add_source(struct side *side, const trf_vocab *vocab, const trf_config *config,
                       const char *text, int32_t limit, int64_t *cut, int32_t *n, char why[300])
{
    const char *tab = strchr(text, '\t'), *fault;
    char *first;
    if (!tab || !config->segments) return add_words(side, vocab, text, limit, cut, n, why);
    first = format_text("%.*s", (int)(tab - text), text);
    {
        const char *const texts[2] = {first, tab + 1};
        fault = add_joined(side, vocab, config, texts, limit, cut, n, why);
    }
    free(first);
    return fault;
}

const char *token_of(const trf_vocab *vocab, int32_t id, size_t *bytes)
{
    const char *token = trf_vocab_token(vocab, id);
    *bytes = *token ? strlen(token) : 1;
    return token;
}

void print_json_tokens(FILE *out, const char *name, const trf_vocab *vocab, const int32_t *ids,
                       int32_t n)
{
    int32_t i;
    fprintf(out, ",\"%s\":[", name);
    for (i = 0; i < n; i++) {
        size_t bytes;
        const char *token = token_of(vocab, ids[i], &bytes);
        if (i) fputc(',', out);
        print_json_text(out, token, bytes);
    }
    fputc(']', out);
}

void note_unknown(struct unknown *u, const trf_vocab *vocab, const char *text, int64_t line)
{
    int32_t unknown, n;
    if (trf_vocab_count_unknown(vocab, text, &unknown, &n, NULL))
        return; /* a text that cannot be encoded */
    u->tokens += n;
    u->unknown += unknown;
    if (unknown && !u->first) u->first = line;
}

void say_unknown_share(const struct unknown *u, const char *what, double share)
{
    char where[48] = "";
    if (!u->unknown || (double)u->unknown <= share * (double)u->tokens) return;
    if (u->first)
        snprintf(where, sizeof where, ", the first one in line %lld", (long long)u->first);
    say("%lld of %lld token%s of %s %s unknown to the model%s", (long long)u->unknown,
        (long long)u->tokens, plural(u->tokens), what, u->unknown == 1 ? "is" : "are", where);
}

const char *bytes_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text,
                     size_t *capacity, size_t *bytes)
{
    trf_error err;
    *text = grow(*text, capacity, 256, 1);
    while (trf_vocab_decode(vocab, ids, n, *text, *capacity, bytes, &err)) {
        if (err.status != TRF_E_LIMIT || *bytes < *capacity) {
            say_error("answer", &err);
            return NULL;
        }
        *text = grow(*text, capacity, *bytes + 1, 1);
    }
    return *text;
}

const char *text_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text,
                    size_t *capacity)
{
    size_t bytes, i;
    if (!bytes_of(vocab, ids, n, text, capacity, &bytes)) return NULL;
    for (i = 0; i < bytes; i++)
        if (!(*text)[i] || (*text)[i] == '\n' || (*text)[i] == '\r') (*text)[i] = ' ';
    return *text;
}

int same_tokens(const trf_vocab *a, const trf_vocab *b)
{
    int32_t id;
    if (!a || !b) return a == b;
    if (trf_vocab_size(a) != trf_vocab_size(b) || trf_vocab_kind(a) != trf_vocab_kind(b)) return 0;
    for (id = 0; id < trf_vocab_size(a); id++)
        if (strcmp(trf_vocab_token(a, id), trf_vocab_token(b, id))) return 0;
    return 1;
}
