#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"

// -----------------------------------------------------------------------------------------------
// >>api-batch      sequences without padding
//
// There are two ways to make a batch: fill a trf_batch and its two trf_sequences yourself, or let a
// corpus make batches (trf_corpus_next).
// -----------------------------------------------------------------------------------------------

/* `count` sequences, their ids one after another: sequence i has lengths[i] ids. Borrowed for the
   call. Sequences have no BOS, no EOS and no padding: the library adds what the configuration
   requires, and shifts the target itself. TRF_E_LIMIT: a sequence is too long for max_length;
   `where` is its index. TRF_E_INVALID_ARG: an id is out of range or special; `where` is its index
   in `ids`. Allowed are unk; EOS in targets if target_eos is 0, and in sources of a model with
   segments; BOS in targets if decoder_start is not BOS (BART's begin with it); the mask with
   TRF_HEAD_MASKED; every id in prompts of a decoder-only model. */
typedef struct trf_sequences {
    const int32_t *ids;
    const int32_t *lengths;
    int32_t count;
} trf_sequences;

/* Position of a batch in its corpus. corpus 0: the batch is from no corpus.
   A checkpoint stores the position after the last batch that its updates have used. If a batch was
   delivered but not used, the corpus delivers it again after loading. A batch that a training call
   has rejected with an error other than TRF_E_CANCELLED counts as used, also after the checkpoint
   has been loaded. An update may use several batches. If you divide a batch into parts (>>manual,
   WORDS), use all of them in one update. With several ranks, each rank has its own copy of the same
   corpus and uses its part of every batch (trf_train_options.parts). */
typedef struct trf_place {
    uint64_t corpus;            /* fingerprint of its pairs and of what decides its batches */
    int64_t epoch, batch;
} trf_place;

/* Pairs for training and scoring. Encoder-only models read the source, decoder-only models the
   target. For a model with a head, target contains the labels:

       head            labels per sequence             a label is
       MEAN, FIRST     1 (1)                           0..n_labels - 1
         with ANY      those that hold (1, 2)          0..n_labels - 1, in ascending order
         with NUMBERS  n_labels (1, 2)                 trf_number_label(y)
       TOKENS          as many as the source has ids   0..n_labels - 1
       MASKED          as many as the source has ids   the id that belongs there
       MASKED with     1 (1), then as many as the      0..sequence_labels - 1, then the id that
       sequence_labels source has ids                  belongs there

   (1) A source may be empty only if source_bos or source_eos is 1: otherwise it has no row to
       classify.
   (2) ANY and NUMBERS are values of trf_config.label_kind. -1 alone: the sequence has no loss.

   With sequence_labels the loss of a batch is the mean over its labelled tokens plus the mean over
   its labelled sequences (Devlin et al. 2019). The parts of a batch (trf_train_options.parts) share
   these means. If an update has several batches, each counts by its number of labelled tokens. So
   a batch without a labelled token changes nothing, even if its sequences have labels.
   BOS and EOS have no label. The loss ignores a token or sequence with label -1. Any other label,
   or another number of labels, fails with TRF_E_INVALID_ARG. `where` is then the index of the
   label, or of the sequence with the wrong number of labels. */
typedef struct trf_batch {
    trf_sequences source, target;
    int64_t ordinal;            /* how many pairs of this update come before this batch on other
                                   ranks: 0, or on rank r the number of pairs on ranks 0..r-1
                                   (trf_batch_part sets it; 0 if the options have `parts`). Do
                                   not count earlier micro-batches: the trainer adds these */
    trf_place place;            /* set by trf_corpus_next; copy it to the parts of a batch. Zeros in
                                   batches of your own, unless they get noise (trf_noise_apply) */
} trf_batch;

/* A number as a label, for TRF_LABELS_NUMBERS, and back: the label is the number's bits as an IEEE
   754 float. So everything that carries labels carries numbers, to the bit: parts of batches, a
   corpus. The label of a NaN or of an infinity is refused in batches; -1, a NaN, is no number. */
TRF_API int32_t trf_number_label(float number);
TRF_API float trf_label_number(int32_t label);

/* Joins two sequences to the source of a model with segments: the first ids, EOS, the second ids.
   With BERT's settings the model then reads [CLS] A [SEP] B [SEP]. A model with one segment gets
   EOS twice in the middle: RoBERTa. `ids` has room for `capacity` ids. *n is the number of ids that
   the pair needs, even if that is more than `capacity`; then nothing is written and the call fails
   with TRF_E_LIMIT. With `shorten` 1 a pair is shortened to `capacity` ids instead: the longer
   sequence loses its last id until the pair fits, the second one if they are equally long (BERT's
   truncate_seq_pair). capacity is then max_length, less 1 each for source_bos and source_eos.
   TRF_E_STATE: the model has no segments. trf_reader_rank and a data set join texts themselves. */
TRF_API trf_status trf_join(const trf_config *config, const int32_t *first, int32_t n_first,
                            const int32_t *second, int32_t n_second, int32_t shorten,
                            int32_t *ids, int32_t capacity, int32_t *n, trf_error *err);

/* Part number `part` (0..parts - 1) of a batch: whole pairs, in the order of the batch, about the
   same number of tokens in each part. All parts together are the batch. *piece points into the
   arrays of the batch and has its place. Its ordinal counts the pairs in front of the part. For
   micro-batches of one trainer set it to the batch's: the trainer counts their pairs itself. A part
   may be empty (both counts 0). A pair belongs to the part in which its middle token is:
   floor(parts * (tokens before it + half its own) / all tokens), where a sequence counts its ids
   and one more. TRF_E_LIMIT: a side of the batch has more than 2^31 - 1 ids. */
TRF_API trf_status trf_batch_part(const trf_batch *batch, int32_t part, int32_t parts,
                                  trf_batch *piece, trf_error *err);

/* What the pairs of a corpus, a token file or a data set are. */
typedef struct trf_token_facts {
    int64_t pairs;
    int64_t different;          /* data sets: about how many pairs differ; 0: not counted */
    int64_t source_ids, target_ids;             /* of all pairs */
    int64_t source_unknown, target_unknown;     /* how many of these are unk of the vocabularies;
                                                   0 without vocabularies */
    int64_t changed;            /* data sets: targets whose text encoding and decoding changes */
    int64_t changed_line;       /* line of the first of them */
    int64_t outer_blanks;       /* data sets: sources that begin or end with a blank */
    int32_t longest;            /* ids of the longest side of any pair */
    int32_t longest_source, longest_target;
    int64_t mark;               /* token files: `mark` of the last pair; 0: no pair */
    int64_t epoch;              /* a corpus: complete passes so far */
} trf_token_facts;

#define TRF_ENDLESS INT64_MAX

/* Training data: pairs of id sequences. A corpus delivers them shuffled, in batches of similar
   length. Checkpoints contain its position. The pairs are in memory, or in a token file. */
typedef struct trf_corpus trf_corpus;
typedef struct trf_corpus_options {
    int32_t batch_tokens;       /* limit of a batch's tokens on each side. A sequence counts its
                                   ids and one more (BOS or EOS, even if none is added). A longer
                                   pair has a batch of its own. >= 1; default 4096 */
    int32_t batch_sentences;    /* limit of a batch's pairs; >= 1; default 1024 */
    int32_t padded_budget;      /* 1: batch_tokens limits pairs times the longest sequence, as in
                                   systems with padding; default 0 */
    int32_t shuffle;            /* 1: a new order in each epoch; 0: as added (with
                                   `buckets`: by length); default 1 */
    int32_t buckets;            /* 1: pairs of similar length share a batch; default 1 */
    int32_t pool;               /* 0: the order of an epoch is made from all pairs at once. P: it
                                   is made pool by pool. A pool is P blocks of 1,024 pairs, as
                                   added. With `shuffle` the blocks come in a new order each epoch.
                                   The pairs of a pool are shuffled, sorted into buckets and cut
                                   into batches by themselves. Use pools if a file is read faster
                                   from front to back, or if 12 bytes of memory for each pair are
                                   too many. A pool should have a hundred times the pairs of a
                                   batch. 0..2^20; default 0 */
    int32_t max_length;         /* pairs with more ids on a side are rejected; >= 1; default 511 */
    int64_t epochs;             /* TRF_E_END after this many passes; >= 1; default TRF_ENDLESS */
    uint64_t seed;              /* of the order; default 0 */
    const char *path;           /* of a token file, which has the pairs (trf_corpus_create). Read
                                   when the corpus is created, as the vocabularies are;
                                   default NULL: the pairs are in memory */
    const trf_vocab *source_vocab, *target_vocab;   /* of the token file, if its fingerprints are to
                                   be checked; default NULL */
    trf_hooks hooks;            /* default none */
} trf_corpus_options;

TRF_API trf_corpus_options trf_corpus_defaults(void);
/* Makes an empty corpus, or with `path` one whose pairs are in a token file. That one delivers the
   same batches as a corpus in memory with the same pairs and options, and has the same fingerprint:
   a checkpoint of one continues with the other.
     - It needs 12 bytes of memory for each pair (16 if the file's max_length is 65,536 or more),
       and those of a batch. With `pool`: 4 bytes for each pair (or 8), and the pairs of a pool.
     - A batch is read when it is delivered: each pair where it is, so a disk with moving heads is
       too slow for shuffled pairs unless the system caches the file. With `pool`, a pool is read at
       once, in blocks of 1,024 pairs.
     - Opening reads all lengths and checks them; the ids of a pair are checked each time they are
       read. TRF_E_FORMAT: a damaged or truncated file; `where` is the position of the fault.
     - Any number of processes may open the same file. A child process opens it for itself: it does
       not use the corpus of its parent.
   TRF_E_INVALID_ARG: the file has the fingerprint of another vocabulary. TRF_E_LIMIT: a pair has
   more than max_length ids on a side. trf_corpus_next can now fail with TRF_E_IO and TRF_E_FORMAT;
   the position then stays. */
TRF_API trf_status trf_corpus_create(trf_corpus **corpus, const trf_corpus_options *options,
                                     trf_error *err);
TRF_API void trf_corpus_destroy(trf_corpus *corpus);
/* What the pairs are, and how many epochs are over; the corpus's own. NULL: corpus is NULL. */
TRF_API const trf_token_facts *trf_corpus_facts(const trf_corpus *corpus);
/* Replaces the options, except path, vocabularies and hooks; the pairs stay. The recipe knows the
   right ones once the pairs are there. TRF_E_STATE: a batch has been delivered since the last
   rewind. TRF_E_LIMIT: a pair has more than max_length ids. */
TRF_API trf_status trf_corpus_set_options(trf_corpus *corpus, const trf_corpus_options *options,
                                          trf_error *err);
/* Copies one pair of ids. The target may hold labels, of any value. Pairs of a language model have
   no source; a long text is a pair for each chunk. TRF_E_LIMIT: more than max_length ids.
   TRF_E_STATE: the corpus has delivered a batch, was resumed, or reads a token file. */
TRF_API trf_status trf_corpus_add(trf_corpus *corpus, const int32_t *source, int32_t n_source,
                                  const int32_t *target, int32_t n_target, trf_error *err);
/* Encodes two texts and adds the pair. A NULL vocabulary makes that side empty, and its text is not
   read; at least one vocabulary is required. TRF_E_LIMIT: more than max_length ids; the message has
   their number. TRF_E_FORMAT: the text is not UTF-8, at offset `where` (subwords read U+FFFD). */
TRF_API trf_status trf_corpus_add_text(trf_corpus *corpus, const trf_vocab *source_vocab,
                                       const char *source, const trf_vocab *target_vocab,
                                       const char *target, trf_error *err);
/* Delivers the next batch, which is valid until the next call. A step that was cancelled can be
   repeated with it. The last batch of an epoch has what is left. TRF_E_END: the last epoch is over,
   which is how a loop ends. TRF_E_STATE: the corpus has no pairs. */
TRF_API trf_status trf_corpus_next(trf_corpus *corpus, trf_batch *batch, trf_error *err);
/* The number of batches of the epoch to which the next batch belongs. Reads no pair. After this
   call no pair can be added. With pools the first call in an epoch plans all of them, and the next
   batch plans its own again: call it before the first batch. TRF_E_STATE: there are no pairs. */
TRF_API trf_status trf_corpus_batches(trf_corpus *corpus, int64_t *batches, trf_error *err);

/* Makes batches for self-supervised training from the sources of plain batches. Of a sequence of n
   ids, k = round(density * n), ties to even, should become noise.

   MASKS   k is at least 1. Without whole_words, each id counts as a word. Words are chosen in
           random order, but never eos. A word that would bring the number of chosen ids above k
           is skipped; if every word would, the last one is chosen all the same. So fewer or more
           than k ids may be chosen. Each id of a chosen word becomes `mask` with probability
           `masked`, or any id from 4 to vocab - 1 with probability `randomised`, or stays. pad,
           bos, eos and special ids of `words` are never drawn: the id of the text stays instead.
           The target has the ids of chosen words, and -1 elsewhere (TRF_HEAD_MASKED).
   SPANS   k is at least 1 and at most n - 1. The noise has round(k / mean_span) spans, at least 1
           and at most min(k, n - k, n_sentinels). Plain and noisy spans alternate and end with a
           noisy one. All ways to cut the k ids and the n - k ids are equally likely. In the source
           noisy span i (i = 0, 1, ...) becomes the id first_sentinel + i. (In T5 the ids of the
           sentinels go down instead of up.) The target has that id, then the ids of the span:
           9 4 7 5 8 becomes 9 <0> 5 <1> and <0> 4 7 <1> 8.
   PREFIX  The source is the first 1 to n - 1 ids, each number equally likely. The target is the
           rest.

   SPANS and PREFIX leave a sequence of one id as it is, with an empty target. */
typedef enum trf_noise_kind {
    TRF_NOISE_MASKS  = 0,       /* Devlin et al. 2019, 3.1; BERT's create_pretraining_data.py */
    TRF_NOISE_SPANS  = 1,       /* Raffel et al. 2020, 3.1.4; T5's random_spans_noise_mask */
    TRF_NOISE_PREFIX = 2,       /* Raffel et al. 2020, 3.2.1; T5's random_prefix_noise_mask */
    TRF_NOISE_COUNT
} trf_noise_kind;
typedef struct trf_noise_options {
    trf_noise_kind kind;        /* default TRF_NOISE_MASKS */
    double density;             /* 0..1; default 0.15 */
    double masked, randomised;  /* each 0..1, and so is their sum; default 0.8 and 0.1 */
    int32_t keep_label;         /* MASKS: 1: the target of each plain sequence is one id, its
                                   label. The new target begins with it (trf_config.
                                   sequence_labels). 0: plain targets are not read; default 0 */
    int32_t whole_words;        /* MASKS: 1: whole words are chosen; 0: every id is a word;
                                   default 0 */
    double mean_span;           /* SPANS: 1..1e6; default 3 */
    int32_t mask;               /* MASKS: 0..vocab - 1; default 0: pad, which no text has */
    int32_t pad, bos, eos;      /* MASKS: the special ids of the model, 0..2^24, and -1 where it has
                                   no pad or bos; default 0, 1, 2 */
    int32_t vocab;              /* MASKS: number of ids, 5..2^24; default 0: set it */
    int32_t first_sentinel, n_sentinels;    /* SPANS: the first sentinel, 4..2^24, and
                                               their number, 1..2^24. No source may contain a
                                               sentinel. default 0: set them */
    const trf_vocab *words;     /* MASKS: the vocabulary of the ids. It has the special ids, and for
                                   whole_words it shows where words begin; borrowed until
                                   trf_noise_destroy. These subwords begin a word: with
                                   SentencePiece's space mark (or they end one, if the model puts
                                   the mark there), of WordPiece without ##, of byte-level BPE with
                                   a space in front. Characters: each whitespace character is a word
                                   and separates words. An id outside the vocabulary is a word.
                                   default NULL: every id is a word */
    uint64_t seed;              /* default 0 */
    trf_hooks hooks;            /* default none */
} trf_noise_options;

typedef struct trf_noise trf_noise;
TRF_API trf_noise_options trf_noise_defaults(void);
TRF_API trf_status trf_noise_create(trf_noise **noise, const trf_noise_options *options,
                                    trf_error *err);
TRF_API void trf_noise_destroy(trf_noise *noise);
/* Makes a noisy batch from a plain one. `made` may be `plain`. It is valid until the next call, and
   has the same place and ordinal.
     - The noise of a sequence depends on seed, place.epoch, place.batch, and ordinal plus the
       sequence's index in the batch.
     - Apply noise to a batch before you divide it into micro-batches. The ordinals of all
       micro-batches are equal, so each would get the noise of the first pairs of the batch, not of
       its own. Parts for ranks have different ordinals and get the same noise as the whole batch.
     - In batches of your own, increase place.batch from batch to batch, since their ordinals are
       equal too.
   TRF_E_INVALID_ARG: an id is negative, vocab or more (MASKS), or a sentinel (SPANS); `where` is
   the index of the id. After a failure `made` is empty. */
TRF_API trf_status trf_noise_apply(trf_noise *noise, const trf_batch *plain, trf_batch *made,
                                   trf_error *err);
