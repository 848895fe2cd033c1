#pragma once
#include "api/version.h"
#include "api/basics.h"

// -----------------------------------------------------------------------------------------------
// >>api-vocab      text to ids and back
//
// Create a vocabulary, let it learn line by line, finish it; then encode and decode. A model takes
// copies (trf_model_set_vocabs), and model files contain them. Subwords come from a SentencePiece
// model (trf_vocab_load). If another program has already cut the text into subwords
// separated by spaces, use a vocabulary of words.
// -----------------------------------------------------------------------------------------------

/* Words are separated by whitespace: space, tab, CR or LF. Characters are UTF-8 code points. */
typedef enum trf_token_kind {
    TRF_WORDS = 0, TRF_CHARACTERS = 1, TRF_SENTENCEPIECE = 2,
    TRF_WORDPIECE = 3,          /* BERT's subwords */
    TRF_BYTE_BPE = 4,           /* those of GPT-2, RoBERTa, BART, Llama 3, Qwen 2 */
    TRF_TOKEN_KIND_COUNT
} trf_token_kind;

/* Ids 0 to 3 are pad, bos, eos and unk, spelled "<pad>", "<s>", "</s>" and "<unk>". No text
   can produce pad, bos or eos: learning skips these spellings, encoding turns them into unk.
   Learned tokens follow, the most frequent first, equal counts in byte order. WordPiece, byte-level
   BPE and trf_piece_ids have special ids of their own instead (trf_vocab_special).
   One thread at a time may use a vocabulary that learns, any number a finished one. TRF_E_STATE: a
   vocabulary is used before trf_vocab_finish, or learns after that call. */
typedef struct trf_vocab trf_vocab;

/* Creates a vocabulary of words or characters. */
TRF_API trf_status trf_vocab_create(trf_vocab **vocab, trf_token_kind kind,
                                    const trf_hooks *hooks, trf_error *err);
TRF_API void trf_vocab_destroy(trf_vocab *vocab);
/* Counts the tokens of one line of NUL-terminated UTF-8. Pass it without its newline, which a
   character vocabulary would count. TRF_E_FORMAT: invalid UTF-8; `where` is its offset.
   TRF_E_LIMIT: a token of more than 1 MiB. */
TRF_API trf_status trf_vocab_learn(trf_vocab *vocab, const char *line, trf_error *err);
/* Ends learning. Keeps tokens that occurred at least min_count (>= 1) times, and at most max_size
   (>= 5) ids, the special ones included. */
TRF_API trf_status trf_vocab_finish(trf_vocab *vocab, int32_t max_size, int64_t min_count,
                                    trf_error *err);
typedef enum trf_special {
    TRF_SPECIAL_PAD = 0, TRF_SPECIAL_BOS = 1, TRF_SPECIAL_EOS = 2, TRF_SPECIAL_UNK = 3,
    TRF_SPECIAL_MASK = 4, TRF_SPECIAL_CLS = 5, TRF_SPECIAL_SEP = 6, TRF_SPECIAL_COUNT
} trf_special;
/* The ids of a published model, which are not those of its SentencePiece file: OPUS-MT, T5, Llama,
   M2M100. Bad values: TRF_E_FORMAT with the array's name, `where` is the index in it. */
typedef struct trf_piece_ids {
    int32_t size;               /* number of ids, 1..2^24. An id that no token has is empty: it is
                                   a row of padding, and decoding skips it */
    /* (n_pieces) for each piece of the file in its order, unknown and control pieces included: its
       id, or -1. Text with a piece of -1 becomes unk. No id occurs twice. NULL: piece i has id i */
    const int32_t *pieces;
    int32_t n_pieces;           /* number of pieces in the file; not read if pieces is NULL */
    /* (n_more) tokens that are no pieces, UTF-8, and their ids: other languages' pieces, sentinels.
       Decoding writes them. Text contains one only where the file has no pieces for it. */
    const char *const *more;
    const int32_t *more_ids;
    int32_t n_more;
    int32_t special[TRF_SPECIAL_COUNT];     /* ids, or -1 for none. They belong to control or
                                   unknown pieces or to tokens of `more`. unk must exist unless
                                   every piece has an id and the file has byte fallback */
    int32_t codes;              /* 1: a text that begins with ">>" and has "<<" begins with one
                                   token, which ends there: the language code of OPUS-MT */
} trf_piece_ids;
typedef struct trf_vocab_options {
    const void *memory;         /* in place of a path, which is NULL then: the bytes of a file; the
                                   vocabulary copies them. default NULL */
    size_t memory_bytes;        /* how many; default 0 */
    const trf_piece_ids *ids;   /* the ids of a SentencePiece file's tokens; default NULL */
    trf_hooks hooks;            /* default none */
} trf_vocab_options;
/* Makes a finished vocabulary of subwords from a file, of fewer than 2 GiB. NULL options, or a
   struct of zeros: the defaults. The bytes tell which kind it is:

   SentencePiece   a model file, unigram or BPE, with or without byte fallback
     - It normalises, segments and detokenises raw text as libsentencepiece 0.2.3 does. Bytes that
       are not UTF-8 become U+FFFD, as there.
     - `ids` NULL: ids from 4 on are the model's pieces in their order, without unknown and control
       pieces.
     - With `ids` a control piece in a text is ordinary text. A run of unknown characters is one
       unk, or the token of `more` that has this text. Decoding writes no special ids except unk.
       Model files store the ids with the SentencePiece file.
     - TRF_E_UNSUPPORTED: a SentencePiece model of type word or char, or one with a denormaliser,
       which would change decoded text.
   WordPiece       BERT's subwords, in a file as `trf import` makes it; >>wordpiece has the format
     - Encoding equals the tokenizer of BERT, without [CLS] and [SEP] around a text, which
       source_bos and source_eos add. A special token in a text is ordinary text.
     - Ids are those of the file.
   byte-level BPE  in a file as `trf import` makes it; >>byte-bpe has the format
     - Encoding equals the tokenizer of GPT-2, RoBERTa, BART, Llama 3, Qwen 2 or SmolLM, without
       special tokens around a text, which source_bos and source_eos add. A special token in a text
       is ordinary text. No text has unknown tokens: every byte is a token.
     - Decoding gives the bytes of the tokens; bytes that are not UTF-8 become U+FFFD. Special ids
       are skipped, unk too.
     - Ids are those of the file, and so are the spellings of tokens: " the" reads U+0120 "the".

   TRF_E_FORMAT: the bytes are damaged; `where` is the offset. TRF_E_INVALID_ARG: `ids` with a file
   that is not SentencePiece's, or a path and memory. */
TRF_API trf_status trf_vocab_load(trf_vocab **vocab, const char *path,
                                  const trf_vocab_options *options, trf_error *err);
/* Adds one token at the end of a finished vocabulary of words or characters: a sentinel, or a word
   of a new domain. Call it before threads share the vocabulary. A sentinel of a character
   vocabulary is a code point that no text has, such as U+E000. A token of several characters is a
   symbol, such as "%s", of at most 256 bytes. Where a text of characters has a symbol, that is one
   token; of those that begin at the same character the longest counts. Models have copies, which do
   not change.
   TRF_E_INVALID_ARG: the token exists already or cannot be one of this kind.
   TRF_E_UNSUPPORTED: a vocabulary of subwords. */
TRF_API trf_status trf_vocab_add(trf_vocab *vocab, const char *token, trf_error *err);
/* Copies a finished vocabulary, for example a model's. */
TRF_API trf_status trf_vocab_copy(trf_vocab **copy, const trf_vocab *vocab, const trf_hooks *hooks,
                                  trf_error *err);
/* The id of a special token, or -1: the vocabulary has none. pad, bos, eos and unk are 0 to 3, but
   with WordPiece, byte-level BPE and trf_piece_ids any ids; with BPE several may be the same. */
TRF_API int32_t trf_vocab_special(const trf_vocab *vocab, trf_special which);
/* Number of ids, the special ones included; 4 until it is finished. */
TRF_API int32_t trf_vocab_size(const trf_vocab *vocab);
/* TRF_WORDS if vocab is NULL. */
TRF_API trf_token_kind trf_vocab_kind(const trf_vocab *vocab);
/* The token of an id; valid until the next trf_vocab_add. NULL: the id is out of range. "": no
   token has this id (trf_piece_ids). */
TRF_API const char *trf_vocab_token(const trf_vocab *vocab, int32_t id);
/* The id of a token. Returns unk for unknown tokens and for the spellings of special ids; it is -1
   if the vocabulary has no unk. */
TRF_API int32_t trf_vocab_id(const trf_vocab *vocab, const char *token);
/* Text to ids, without BOS and EOS. Unknown tokens become unk. *n is the number of tokens of the
   whole text, even if that is more than `capacity`; then the first `capacity` ids are written and
   the call fails with TRF_E_LIMIT. ids may be NULL if capacity is 0. Bytes that are not UTF-8 fail
   with TRF_E_FORMAT and their offset; SentencePiece takes them for U+FFFD.
   special 0: for texts of users, in which no text is a special token.
   special 1, with byte-level BPE (else TRF_E_UNSUPPORTED): for prompts that the program writes. The
   texts of special tokens, and of others that were added to the vocabulary, are read as these
   tokens: "<|im_start|>". Of two that begin at the same byte the longer one counts. What is between
   two is cut as a text by itself. */
TRF_API trf_status trf_vocab_encode(const trf_vocab *vocab, const char *text, int32_t special,
                                    int32_t *ids, int32_t capacity, int32_t *n, trf_error *err);
/* Counts the unknown tokens of a text: those that trf_vocab_encode turns into unk. *n (may be NULL)
   is the number of all tokens. There is no capacity; else it fails as trf_vocab_encode. */
TRF_API trf_status trf_vocab_count_unknown(const trf_vocab *vocab, const char *text,
                                           int32_t *unknown, int32_t *n, trf_error *err);
/* Ids to text. Words get one space between them, characters none, subwords what their system
   writes. Special ids are skipped, except unk. *bytes (may be NULL) is the length of the whole text
   without its NUL, even if `size` is too small; then the text is cut after a whole token and the
   call fails with TRF_E_LIMIT. text may be NULL if size is 0. Subwords that are bytes may produce a
   NUL inside the text: *bytes counts it, strlen and %s stop there. TRF_E_INVALID_ARG: id number
   `where` is out of range. */
TRF_API trf_status trf_vocab_decode(const trf_vocab *vocab, const int32_t *ids, int32_t n,
                                    char *text, size_t size, size_t *bytes, trf_error *err);

/* Offset of the first byte that is not part of valid UTF-8; -1 if all `bytes` are valid. */
TRF_API int64_t trf_find_invalid_utf8(const char *text, size_t bytes);
