#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"

// -----------------------------------------------------------------------------------------------
// >>vocab          words and characters as numbers
//
// A vocabulary learns by counting and is finished once. After that, trf_vocab_add only appends
// tokens. All tokens lie in one block of bytes, each followed by a NUL. A hash table (open
// addressing, double hashing, at most half full) finds them. While a vocabulary learns, the table
// holds every token seen. Finishing keeps the frequent ones in the order of their ids: token i of
// the array has the id i + 4. Until then the size is 4.
//
// Ids 0 to 3 read "<pad>", "<s>", "</s>", "<unk>". Words with these spellings are never learned:
// "<s>" in a text is an unknown word like any other (id 3), so no text can smuggle in a special
// id. (A SentencePiece model may have a piece with such a spelling, which has its own id.) Text is
// strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. Blanks separate words;
// among characters, a blank is a token like any other. A token has at most 1 MiB.
//
// Files store the bytes of a finished vocabulary as they lie in memory: the tokens from id 4 on,
// each followed by a NUL. For subwords they store the file that these came from; for SentencePiece
// the ids of a map stand before it, if there is one. No token contains a NUL, so nothing needs an
// escape. The reader trusts nothing, and errors give the offset.
// -----------------------------------------------------------------------------------------------

enum { TRF__UNK = 3, TRF__SPECIALS = 4, TRF__MAX_TOKEN_BYTES = 1 << 20,
       TRF__MAX_SYMBOL_BYTES = 256 };
#define TRF__MAX_TOKENS ((int64_t)INT32_MAX - TRF__SPECIALS)        /* 2^31 - 5: ids are int32_t */

/* as files and errors call them */
static const char *const trf__kind_names[TRF_TOKEN_KIND_COUNT] = {"words", "characters",
                                                                  "sentencepiece", "wordpiece",
                                                                  "byte_bpe"};

typedef struct trf__token {
    int64_t begin;          /* offset of its bytes */
    int64_t count;          /* how often it was seen; unused after learning, but with byte-level
                               BPE what kind of token it is */
    uint64_t hash;
    int32_t length;         /* in bytes, without the NUL */
} trf__token;

/* What vocabularies of subwords keep of their files: SentencePiece (>>pieces), WordPiece
   (>>wordpiece), byte-level BPE (>>byte-bpe). */
/* type: TRF__PIECE_BYTE + b stands for byte b; id: -1 for a piece that a map leaves out */
typedef struct trf__piece { float score; int32_t type, id; } trf__piece;
/* parent -1: the cell is free; token -1: no piece ends here */
typedef struct trf__cell { int32_t base, parent, token; } trf__cell;

typedef struct trf__pieces {
    const char *model;              /* the file behind a map; rules and replaced point into it */
    int64_t model_bytes;
    int32_t *tokens;                /* of a map: the token of each id, or -1; else NULL */
    int32_t size;                   /* of a map: number of ids */
    int32_t n_mapped, n_more;       /* of a map: how many pieces and further tokens it has */
    int32_t n_read;                 /* pieces of the file read so far */
    int32_t codes;                  /* a text may begin with >>code<< */
    const unsigned char *rules;     /* double array of the map of characters */
    uint32_t n_rules;
    const char *replaced, *unknown; /* the replacements of the map; the text of unk */
    size_t n_replaced, n_unknown;
    trf__piece *pieces;             /* one for each token */
    int64_t capacity;
    trf__cell *cells;
    int64_t n_cells;
    float least;                    /* lowest score of a normal piece */
    int32_t bytes[256];             /* token of each byte, or -1 */
    int32_t types;                  /* bit 1 << type: the model has such pieces */
    /* options of the model; nuls: it has a piece that is a NUL */
    int32_t unigram, byte_fallback, dummy_prefix, remove_extra, escape, suffix, nuls;
} trf__pieces;

/* What a file says about ranges of code points, which ascend. */
typedef struct trf__word_rule { uint32_t first, last; int32_t kind, argument; } trf__word_rule;
typedef struct trf__word_rules {
    trf__word_rule *items;
    int32_t n;
    int32_t ascii[128];                 /* rule of each code point below 128, or -1 */
} trf__word_rules;

typedef struct trf__wordpiece {
    trf__word_rules rules;
    const char *replaced;               /* in the stored bytes */
    int64_t n_replaced;
    int32_t cleanup;                    /* bit 0 of flags */
    int32_t longest_word;               /* in characters */
    size_t longest_token;               /* in bytes */
} trf__wordpiece;

/* Tables for composing, and how many parts behind its first one a character may have. */
enum { TRF__NFC_PARTS, TRF__NFC_PAIRS, TRF__NFC_CLASSES, TRF__NFC_TABLES, TRF__NFC_DEPTH = 8,
       TRF__NFC_ROW = 12 };

/* Flags of a file of byte-level BPE (>>byte-bpe), and kinds of its tokens. */
enum { TRF__BPE_LLAMA = 1, TRF__BPE_BLANK = 2, TRF__BPE_WHOLE = 4, TRF__BPE_NFC = 8,
       TRF__BPE_ONE_NUMBER = 16 };
enum { TRF__BPE_ORDINARY, TRF__BPE_ADDED, TRF__BPE_SPECIAL };

/* Two tokens and the one that they become. */
typedef struct trf__byte_merge { int32_t left, right, token; } trf__byte_merge;

typedef struct trf__byte_bpe {
    trf__word_rules ranges;             /* kind: the class */
    trf__byte_merge *merges;            /* by rank */
    int32_t *entries;                   /* number of a merge plus 1, or 0 for an empty entry */
    int64_t n_entries;                  /* a power of two, above twice n_merges */
    int32_t n_merges;
    uint32_t flags;
    int64_t nfc[TRF__NFC_TABLES];       /* offsets of the tables for composing, */
    int64_t n_nfc[TRF__NFC_TABLES];     /* numbers of their rows */
    int64_t tokens_at;                  /* offset of the tokens in the stored bytes */
    int32_t token[256];                 /* of each byte */
    size_t longest_token;               /* in bytes of its spelling */
} trf__byte_bpe;

struct trf_vocab {
    trf_hooks hooks;
    trf_token_kind kind;
    int32_t finished;
    int32_t longest_symbol;                     /* bytes of a token of several characters, or 0 */
    int32_t special[TRF_SPECIAL_COUNT];         /* pad bos eos unk mask cls sep, or -1 */
    trf__token *tokens;
    int64_t n_tokens, token_capacity;
    char *bytes;
    int64_t n_bytes, byte_capacity;
    uint64_t *entries;      /* 0: empty; else the number of a token plus 1, and above it half of its
                               hash, so that most other tokens are never looked at */
    int64_t n_entries;      /* 0 or a power of two */
    char *stored;           /* of subwords: their file, with a map before it if there is one; or
                               NULL */
    int64_t n_stored;
    trf__pieces *pieces;    /* of a SentencePiece model, or NULL */
    trf__wordpiece *wordpiece;      /* of WordPiece, or NULL */
    trf__byte_bpe *byte_bpe;        /* of byte-level BPE, or NULL */
};

TRF__FN trf_status trf__fail_learning(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocab",
                     "expected a finished vocabulary, got one that still learns");
}

TRF__FN trf_status trf__fail_finished(trf_error *err)
{
    return trf__fail(err, TRF_E_STATE, -1, "vocab",
                     "expected a vocabulary that still learns, got a finished one");
}

/* the spellings of ids 0 to 3 */
static const char *const trf__special_texts[TRF__SPECIALS] = {"<pad>", "<s>", "</s>", "<unk>"};

/* Whether a token has the spelling of a special id. */
TRF__FN int trf__is_special(const char *token, size_t length)
{
    for (int32_t id = 0; id < TRF__SPECIALS; id++)
        if (strlen(trf__special_texts[id]) == length &&
            !memcmp(trf__special_texts[id], token, length)) return 1;
    return 0;
}

/* Whether the ids are those of a map (>>pieces-map). */
TRF__FN int trf__is_mapped(const trf_vocab *v) { return v->pieces && v->pieces->tokens; }

/* The id of the first token, without a map. */
TRF__FN int32_t trf__first_id(const trf_vocab *v)
{
    return v->wordpiece || v->byte_bpe ? 0 : (int32_t)TRF__SPECIALS;
}

/* Whether a token is special although the library does not number it: token i has the id i. */
TRF__FN int trf__special_token(const trf_vocab *v, int32_t number)
{
    if (v->byte_bpe) return v->tokens[number].count == TRF__BPE_SPECIAL;
    for (int i = 0; v->wordpiece && i < TRF_SPECIAL_COUNT; i++)
        if (v->special[i] == number) return 1;
    return 0;
}

/* Whether a vocabulary cuts words into parts by a file that was made elsewhere. */
TRF__FN int trf__is_subwords(trf_token_kind kind)
{
    return kind != TRF_WORDS && kind != TRF_CHARACTERS;
}

TRF__FN int trf__is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Returns the length of the next token of a valid text, or 0 at its end. *at moves past it. */
TRF__FN size_t trf__next_token(trf_token_kind kind, const char **at, const char **token)
{
    const char *end;
    if (kind == TRF_WORDS) while (trf__is_blank(**at)) ++*at;
    *token = end = *at;
    if (!*end) return 0;
    if (kind == TRF_CHARACTERS) end += trf__utf8_at(end, 4);     /* stops at a NUL */
    else while (*end && !trf__is_blank(*end)) end++;
    *at = end;
    return (size_t)(end - *token);
}

// >>vocab-tokens   the table of tokens
//
// Open addressing finds a token by its hash; the bytes of all tokens lie in one block.

/* FNV-1a, which may go on with more bytes. */
#define TRF__HASH_START 0xCBF29CE484222325u
TRF__FN uint64_t trf__hash_more(uint64_t h, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return h;
}

/* A final mix, so that the low bits, which choose the entry, depend on all others. */
TRF__FN uint64_t trf__hash_end(uint64_t h)
{
    h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

TRF__FN uint64_t trf__hash_bytes(const char *bytes, size_t length)
{
    return trf__hash_end(trf__hash_more(TRF__HASH_START, bytes, length));
}

/* The distance from a taken entry to the next one to try. It depends on the hash, so that tokens
   crafted for the same first entry do not make one long chain. It is odd and the table's size is a
   power of two, so that every entry is reached. */
TRF__FN uint64_t trf__entry_step(uint64_t hash) { return hash >> 32 | 1; }

/* Returns the number of a token, or -1. Half the entries are empty, so the loop ends. */
TRF__FN int32_t trf__vocab_find(const trf_vocab *v, const char *token, size_t length, uint64_t hash)
{
    uint64_t mask = (uint64_t)v->n_entries - 1, at = hash & mask;
    if (!v->n_entries) return -1;
    for (; v->entries[at]; at = (at + trf__entry_step(hash)) & mask) {
        const int32_t number = (int32_t)(v->entries[at] & UINT32_MAX) - 1;
        const trf__token *t = &v->tokens[number];
        if (v->entries[at] >> 32 == hash >> 32 && t->hash == hash && (size_t)t->length == length &&
            !memcmp(v->bytes + t->begin, token, length)) return number;
    }
    return -1;
}

/* The number of the token with a text, or -1. */
TRF__FN int32_t trf__vocab_number(const trf_vocab *v, const char *text, size_t length)
{
    return trf__vocab_find(v, text, length, trf__hash_bytes(text, length));
}

/* Why a token from elsewhere cannot be added, or NULL. Decoding relies on words without blanks. */
TRF__FN const char *trf__token_fault(const trf_vocab *v, const char *token, size_t length)
{
    const int words = v->kind == TRF_WORDS;
    if (!length) return "expected a token, got an empty one";
    if (length > TRF__MAX_TOKEN_BYTES) return "expected a token of at most 1 MiB, got a longer one";
    if (trf_find_invalid_utf8(token, length) >= 0) return "expected UTF-8, got something else";
    if (v->kind == TRF_CHARACTERS && length > TRF__MAX_SYMBOL_BYTES)
        return "expected a character, or a symbol of at most 256 bytes, got a longer one";
    for (size_t i = 0; (words || v->kind == TRF_WORDPIECE) && i < length; i++)
        if (trf__is_blank(token[i])) return words ? "expected a word, got a token with a blank"
                                                  : "expected a token, got one with a blank";
    if (!trf__is_subwords(v->kind) && trf__is_special(token, length))
        return "expected a token, got the text of a special one";
    if (trf__vocab_number(v, token, length) >= 0) return "expected every token once, got one twice";
    return NULL;
}

/* Enters a token that is not in the table. */
TRF__FN void trf__vocab_fill_entry(trf_vocab *v, int64_t number)
{
    uint64_t mask = (uint64_t)v->n_entries - 1, hash = v->tokens[number].hash, at = hash & mask;
    while (v->entries[at]) at = (at + trf__entry_step(hash)) & mask;
    v->entries[at] = hash >> 32 << 32 | (uint64_t)(number + 1);
}

/* Lets `tokens` fill at most half of the table. On failure the old table stays. */
TRF__FN trf_status trf__vocab_grow_entries(trf_vocab *v, int64_t tokens, trf_error *err)
{
    uint64_t *entries;
    if (tokens <= v->n_entries / 2) return TRF_OK;
    const int64_t wanted = trf__capacity(64, 2 * tokens);
    TRF__ALLOC_ZEROED(uint64_t, entries, &v->hooks, wanted, "vocab", "for a table of %lld entries",
                      (long long)wanted);
    trf__free(&v->hooks, v->entries, trf__bytes(v->n_entries, sizeof *entries));
    v->entries = entries;
    v->n_entries = wanted;
    /* the entry depends on the table's size, so every token is entered again */
    for (int64_t i = 0; i < v->n_tokens; i++) trf__vocab_fill_entry(v, i);
    return TRF_OK;
}

/* Makes room for about so many tokens of so many bytes: then nothing moves while they are added. */
TRF__FN trf_status trf__vocab_reserve(trf_vocab *v, int64_t tokens, int64_t bytes, trf_error *err)
{
    tokens = trf__min64(tokens, TRF__MAX_TOKENS);
    if (tokens == 0) return TRF_OK;
    TRF__GROW(trf__token, v->tokens, v->token_capacity, tokens, &v->hooks);
    TRF__GROW(char, v->bytes, v->byte_capacity, bytes, &v->hooks);
    return trf__vocab_grow_entries(v, tokens, err);
}

/* Adds a token that is not in the table yet. On failure no token has changed. `token` may point
   into the vocabulary's own bytes, which may move here: `own` is its offset in them. */
TRF__FN trf_status trf__vocab_insert(trf_vocab *v, const char *token, size_t length, int64_t count,
                                     trf_error *err)
{
    uint64_t hash = trf__hash_bytes(token, length);
    int64_t n_bytes = v->n_bytes + (int64_t)length + 1;
    uintptr_t own = (uintptr_t)token - (uintptr_t)v->bytes;
    TRF__FAIL_IF(v->n_tokens >= TRF__MAX_TOKENS, TRF_E_LIMIT, -1, "vocab",
                 "expected at most %lld different tokens, got more", (long long)TRF__MAX_TOKENS);
    TRF__GROW(trf__token, v->tokens, v->token_capacity, v->n_tokens + 1, &v->hooks);
    TRF__GROW(char, v->bytes, v->byte_capacity, n_bytes, &v->hooks);
    TRF__TRY(trf__vocab_grow_entries(v, v->n_tokens + 1, err));
    if (own < (uintptr_t)v->n_bytes) token = v->bytes + own;        /* the bytes may have moved */
    const trf__token t = {v->n_bytes, count, hash, (int32_t)length};
    v->tokens[v->n_tokens] = t;
    memcpy(v->bytes + t.begin, token, length);
    v->bytes[n_bytes - 1] = 0;
    v->n_bytes = n_bytes;
    trf__vocab_fill_entry(v, v->n_tokens++);
    return TRF_OK;
}
