#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/read.h"

// -----------------------------------------------------------------------------------------------
// >>api-translate  from ids to ids, from text to text
//
// A translator is a search, beam or greedy, over one model, or over several that answer as one
// (>>api-read).
// -----------------------------------------------------------------------------------------------

/* How a finished hypothesis is scored. S is the sum of its log-probabilities, L its length in
   target tokens. A forced prefix, or the prompt of a decoder-only model, counts in L if
   count_prefix is 1, and in S if score_prefix is 1. forced_first counts in L, and 0 in S. With a
   repetition_penalty and beam > 1, S is the sum of the penalized log-probabilities. */
typedef enum trf_length_rule {
    TRF_LENGTH_RAW   = 0,       /* S */
    TRF_LENGTH_POWER = 1,       /* S / L^alpha: fairseq, CTranslate2, Marian, Hugging Face */
    TRF_LENGTH_GNMT  = 2,       /* S / ((5+L)/6)^alpha: Wu et al. 2016, the paper, tensor2tensor */
    TRF_LENGTH_RULE_COUNT
} trf_length_rule;

/* When the search for one sentence stops. */
typedef enum trf_beam_stop {
    TRF_STOP_BOUND    = 0,      /* no live hypothesis can beat the best finished ones any more:
                                   tensor2tensor; Hugging Face's early_stopping="never" */
    TRF_STOP_FINISHED = 1,      /* `beam` hypotheses have finished: fairseq, CTranslate2; Hugging
                                   Face's early_stopping=True */
    TRF_STOP_NONE_ALIVE = 2,    /* no hypothesis is alive, or the length limit is reached: Marian */
    TRF_STOP_HEURISTIC = 3,     /* the best `beam` finished hypotheses are all better than the best
                                   live one is now: Hugging Face's default */
    TRF_BEAM_STOP_COUNT
} trf_beam_stop;

/* What happens to live hypotheses at the length limit. */
typedef enum trf_at_limit {
    TRF_LIMIT_KEEP_LIVE    = 0, /* they count as they are, without EOS: CTranslate2, Marian, Hugging
                                   Face */
    TRF_LIMIT_FALL_BACK    = 1, /* they count only if no hypothesis has finished: tensor2tensor */
    TRF_LIMIT_FORCE_EOS    = 2, /* one more step, in which only EOS is allowed: fairseq */
    TRF_LIMIT_FREE_EOS     = 3, /* the same, and this EOS counts 0 in S: Hugging Face with
                                   forced_eos_token_id, whose max_length counts the start id and
                                   this EOS too */
    TRF_AT_LIMIT_COUNT
} trf_at_limit;

/* Phrases that must occur: sequences of ids (trf_search.phrases), or texts that each sentence of a
   call has for itself (trf_translate_options.required). A rule of our own, after the dynamic beam
   allocation of Post and Vilar 2018.
     - A sequence of ids occurs where its ids follow one another. A text occurs where the answer's
       text has its bytes, whatever tokens write them. Occurrences of one phrase do not overlap.
       Digits stand together: "10" does not occur in "100". A forced prefix is part of the answer;
       forced_first and a decoder-only model's prompt are not.
     - Each phrase has occurrences of its own. If it is listed twice, it must occur twice; one that
       lies in another phrase of the list must occur once more than the other one has it. Only ends
       of phrases may overlap: "a b" and "b c" are both in "a b c".
     - A hypothesis has met the tokens of a phrase's complete occurrences, as many as are wanted,
       and, of an occurrence that it has begun, the tokens of a copy less those still missing.
     - EOS is not chosen before all tokens are met.
     - In each step every hypothesis is also continued with the first tokens of a copy of every
       phrase that it lacks, and with the next one of a copy that it is in, however unlikely: up to
       64 tokens. A copy of a text is as the vocabulary cuts it, behind a blank or not, and in as
       few tokens as there are from any byte of it on.
     - The continuations are grouped by how many tokens they have met. The beam's places go to the
       best continuation of each group, in the order of these, and then to the best that are left.
       Last come those that do not go on with a phrase though EOS was the likeliest token, and
       behind them those for which the length limit leaves no room to meet the others. A beam as
       wide as all continuations finds the best answer that contains all phrases. With beam 1
       phrases that the model does not write come at its end.
     - A hypothesis with a phrase too often (trf_required.exactly) lives only if there is no other.
     - Answers are ranked by how many tokens they have met, then by score. Those that have a phrase
       too often come last. Only answers at the length limit may lack phrases: if there is no room,
       or if another rule bans a token of one. Such a rule wins, and so does a forced EOS. */

/* Ids that end an answer as EOS does, besides EOS: "eos_token_id" of chat models, where that is a
   list. EOS may be among them, and an id may occur twice. n: 0..16. */
enum { TRF_MAX_ENDS = 16 };
typedef struct trf_ends { int32_t n, ids[TRF_MAX_ENDS]; } trf_ends;

/* Options of a translator: begin with trf_search_defaults(). Systems differ in the fields from
   length_rule to ensemble.rule: trf_search_set_rule sets them all. Their defaults are those of
   TRF_SEARCH_PAPER. The default beam of 4 is the paper's too. */
typedef struct trf_search {
    int32_t beam;               /* number of live hypotheses, 1..1024. 1 is greedy search, whatever
                                   the rules below. default 4 */
    int32_t n_best;             /* hypotheses returned per sentence, 1..beam; default 1 */
    trf_length_rule length_rule;        /* default TRF_LENGTH_GNMT */
    double alpha;               /* exponent of the length rule, 0..10; default 0.6 */
    int32_t count_eos;          /* 1: EOS counts in L; default 1 */
    int32_t score_prefix;       /* 1: a prefix counts in S; 0: it does not (tensor2tensor,
                                   CTranslate2, Hugging Face); default 0 */
    int32_t count_prefix;       /* 1: a prefix counts in L; 0: it does not (Hugging Face);
                                   default 1 */
    double word_penalty;        /* subtracts word_penalty * L from S before the length rule
                                   (Marian); -1e6..1e6; default 0 */
    int32_t candidates;         /* how many continuations compete in each step, as a multiple of
                                   beam: 1 (Marian) or 2 (others); 1..16; default 2 */
    int32_t eos_in_top_beam;    /* 1: EOS counts only if it is among the best `beam` continuations
                                   (fairseq, CTranslate2); default 0 */
    int32_t shrink;             /* 1: each finished hypothesis makes the beam smaller by one
                                   (Marian); default 0 */
    trf_beam_stop stop;         /* default TRF_STOP_BOUND */
    trf_at_limit at_limit;      /* default TRF_LIMIT_FALL_BACK */
    int32_t min_length;         /* EOS is allowed after this many target tokens, not counting the
                                   prompt of a decoder-only model; >= 0; default 0 */
    int32_t renormalize_logits; /* before min_length is reached, 1: EOS is masked before the
                                   softmax, so that the other tokens share its probability
                                   (CTranslate2); 0: EOS is not chosen, but keeps its probability.
                                   Of no effect with TRF_ENSEMBLE_GEOMETRIC. default 0 */
    trf_ensemble ensemble;      /* several models that answer as one; default: none */
    int32_t ban_unk;            /* 1: unk is never chosen (Marian), but keeps its probability. A
                                   prefix may contain it. Needs a model with unk. default 0 */
    double max_length_a;        /* a: 0..1e6; default 2 */
    int32_t max_length_b;       /* b: -1, or >= 0, or >= 1 if a is 0. The answer to a source of n
                                   ids has at most a * n + b target tokens, and at most
                                   config.max_length - 1, EOS not counted. A longer forced prefix is
                                   kept whole. In a decoder-only model n is the length of the
                                   prompt: at most a * n + b tokens follow it, and prompt and answer
                                   together have at most config.max_length - 1.
                                   -1: b is 20, and the limit is at least 5/4 of the longest target
                                   of training (config.trained_target), in a decoder-only model with
                                   the prompt. If a source is longer than config.trained_source,
                                   this minimum grows in proportion. default -1 */
    /* Rules of published models, as in Hugging Face's generate. By default there are none. Banned
       and penalized tokens keep their share of the softmax. A forced token (of a prefix,
       forced_first, EOS at the limit) comes whatever the other rules say.
       "So far" means all that the decoder has read: its start id (trf_decoder_start), a prefix or
       prompt, forced_first and the answer; never the source. The start id counts as in Hugging
       Face: if it is EOS, a repetition penalty penalizes EOS from the first step on. */
    int32_t start;              /* an id that the decoder reads first, instead of the model's own
                                   (decoder_start): the tag of the target language in mBART-25
                                   (decoder_start_token_id). Any id. It counts in no length and is
                                   in no answer. With bare_prompts it is read before every prompt.
                                   -1: the model's own; default -1. A reader does not replace it */
    int32_t forced_first;       /* an id: the first token of every answer: bos in BART, the tag of
                                   the target language in M2M100, NLLB and mBART-50
                                   (forced_bos_token_id). It counts in the length of the answer and
                                   in min_length, but the answer is returned without it. If a
                                   sentence has a prefix that is not empty, the prefix replaces it.
                                   Any id but EOS and `ends`, in an encoder-decoder. -1: none;
                                   default -1 */
    int32_t source_first;       /* an id put before the ids of every source, behind BOS if the model
                                   has source_bos: the tag of the source language (M2M100, NLLB,
                                   mBART-50). It counts in config.max_length, but not in n of
                                   max_length_b. Any id but pad, bos and eos, in an encoder-decoder.
                                   -1: none; default -1. A reader reads sources as they are */
    int32_t source_last;        /* the same at the end, behind EOS if the model has source_eos
                                   (mBART-25, older NLLB); default -1 */
    int32_t source_tagged;      /* 1: for the translator's reader the last id of each source is such
                                   a tag behind EOS, as with trf_train_options.source_tagged;
                                   default 0 */
    trf_sequences banned;       /* sequences of ids that occur in no answer: a token that would
                                   complete one is never chosen (bad_words_ids). A sequence of one
                                   id bans this id (suppress_tokens). Each has at least one id, all
                                   together at most 2^24; EOS, or one of `ends`, cannot be banned
                                   alone. Creating a translator copies them. default: none */
    trf_sequences phrases;      /* sequences of ids that every answer contains (above). Each has at
                                   least one id, all together at most 64; none is pad, bos, eos or
                                   one of `ends`. Creating a translator copies them.
                                   default: none */
    trf_ends ends;              /* ids that end an answer as EOS does (eos_token_id, if that is a
                                   list). All that this struct says of EOS holds for each, but at
                                   the limit EOS itself is forced. None is part of the answer; two
                                   of the n best may differ in their end alone. One may be chosen
                                   even if it is pad or bos, or unk with ban_unk. With `candidates`
                                   of 2 or more, at least 1 + the number of different ends, EOS
                                   included, times beam compete. default: none */
    int32_t no_repeat_ngram;    /* n: no n tokens that follow one another so far occur again
                                   (no_repeat_ngram_size); >= 0; 0: off; default 0 */
    double repetition_penalty;  /* for each id so far: multiplies its log-probability in a beam; in
                                   greedy search (beam 1) divides a positive logit and multiplies a
                                   negative one (Keskar et al. 2019), and S does not change;
                                   1e-6..1e6; 1: off; default 1 */
    int32_t max_sentences;      /* how many sentences are searched at the same time, the longest
                                   first. When one is done, the next takes its place. Fewer are
                                   searched if beam times the length of all their answers would
                                   exceed 2^31. trf_translator_memory returns the memory they take.
                                   0: at most 32 sentences and 512 hypotheses, and on the CPU so few
                                   that their product with the vocabulary's matrix takes at most
                                   about half a second, unless one sentence takes more: the cancel
                                   hook is not called inside a product. >= 0; default 32 */
    int32_t max_tokens;         /* limit of the source tokens of sentences that are searched at the
                                   same time, each counted as long as the longest; >= 1;
                                   default 4096 */
    trf_weights weights;        /* how weights of products are kept (trf_weights): FULL, BF16 or
                                   INT8; default TRF_WEIGHTS_FULL: as the model has them */
    int32_t threads;            /* 1..4096; 0: config.device.threads of the model; default 0 */
    trf_hooks hooks;            /* default none */
} trf_search;

TRF_API trf_search trf_search_defaults(void);
/* Sets source_first, source_last, forced_first, start and source_tagged for the languages of a
   model of many. `source` and `target` are codes as the model knows them: "en", "eng_Latn". NULL
   means the language that the model remembers from its training or its folder. For Marian a NULL
   target sets nothing, because a text may begin with its tag already. A field that is not -1 stays.
   If the model has a first token for all answers, the call sets forced_first to it, unless a
   language does; and `ends`, if there are none yet, to trf_model_ends. A failure changes nothing.
   The model's metadata have the rules. trf import writes them:
       "languages"                             all codes
       "source.tag", "target.tag"              a field, and a token in which * stands for the code:
                                               "forced-first __*__"
       "source.language", "target.language"    the languages that the model remembers
       "target.first"                          the id of the first token of all answers
   TRF_E_INVALID_ARG, `what` source or target: the model does not know the language, or none is
   given and one is needed; the message has the codes. TRF_E_UNSUPPORTED: a language is given, but
   the model has no tokens for this side. TRF_E_FORMAT: as trf_model_ends, or of "target.first". */
TRF_API trf_status trf_search_languages(trf_search *search, const trf_model *model,
                                        const char *source, const char *target, trf_error *err);
/* The ends of a published model, for trf_search.ends and trf_sampling.ends: its metadata
   "target.ends", which trf import writes, ids with a blank between two. n is 0 if there are none.
   TRF_E_FORMAT: these are not 1 to 16 ids of the target vocabulary. */
TRF_API trf_status trf_model_ends(const trf_model *model, trf_ends *ends, trf_error *err);
/* Checks options, and their ids against a model's configuration, which may be NULL; makes nothing.
   Fails if and as trf_translator_create would, except for lack of memory. */
TRF_API trf_status trf_search_check(const trf_search *search, const trf_config *config,
                                    trf_error *err);

/* Sets these fields, and no others:

                       PAPER      FAIRSEQ    CTRANSLATE2  MARIAN      RAW        HUGGING_FACE
   length_rule         GNMT       POWER      POWER        POWER       RAW        POWER
   alpha               0.6        1          1            1           0          1
   count_eos           1          1          1            1           1          1
   score_prefix        0          1          0            1           1          0
   count_prefix        1          1          1            1           1          0
   word_penalty        0          0          0            0           0          0
   candidates          2          2          2            1           1          2
   eos_in_top_beam     0          1          1            1           1          1
   shrink              0          0          0            1           0          0
   stop                BOUND      FINISHED   FINISHED     NONE_ALIVE  FINISHED   HEURISTIC
   at_limit            FALL_BACK  FORCE_EOS  KEEP_LIVE    KEEP_LIVE   FALL_BACK  KEEP_LIVE
   min_length          0          1          1            0           0          0
   renormalize_logits  0          0          1            0           0          0
   ensemble.rule       GEOMETRIC with MARIAN, else ARITHMETIC

   tools/parity/parity.py compares CTRANSLATE2 and HUGGING_FACE with the running programs, and
   PAPER, FAIRSEQ and MARIAN with their formulas; tools/convert/programs.py compares FAIRSEQ and
   MARIAN with their programs, one model and several. >>search lists the differences that remain. */
typedef enum trf_search_rule {
    TRF_SEARCH_PAPER       = 0, /* tensor2tensor, but each sentence has its own bound */
    TRF_SEARCH_FAIRSEQ     = 1,
    TRF_SEARCH_CTRANSLATE2 = 2,
    TRF_SEARCH_MARIAN      = 3, /* with --normalize */
    TRF_SEARCH_RAW         = 4, /* sum of log-probabilities, which favours short answers: tutorials;
                                   no program's rule */
    TRF_SEARCH_HUGGING_FACE = 5,
    TRF_SEARCH_RULE_COUNT
} trf_search_rule;
TRF_API void trf_search_set_rule(trf_search *search, trf_search_rule rule);

/* How an answer ended. NOT_YET: only in a sampler's sequences (>>api-sampling). NO_TOKEN: only in a
   search: `banned`, no_repeat_ngram, min_length or logits that were not finite left no token, and
   there was no other answer. The answer has the tokens before that; its log-probability and its
   score are minus infinity. */
typedef enum trf_ended {
    TRF_ENDED_EOS = 0, TRF_ENDED_MAX_LENGTH = 1, TRF_ENDED_NOT_YET = 2, TRF_ENDED_NO_TOKEN = 3,
    TRF_ENDED_COUNT
} trf_ended;

/* SHORT and LONG compare an answer with its source. They need the model's metadata "trained.ratio",
   the target tokens for a thousand source tokens of training (trf_dataset_create_model sets it). */
enum {
    TRF_DOUBT_REPEATS = 1,      /* 1 to 64 ids occur four times or more in a row, 12 tokens or more
                                   in all, and the source has nothing of the kind */
    TRF_DOUBT_SHORT = 2,        /* no tokens, or less than a third of the number expected from the
                                   source, and 8 or more fewer */
    TRF_DOUBT_LONG = 4          /* more than three times that number, and 12 or more above it */
};

typedef struct trf_hypothesis {
    const int32_t *ids;         /* with a forced prefix; without BOS, EOS, forced_first, and the
                                   prompt of a decoder-only model */
    int32_t n;
    double log_probability;     /* raw sum in nats, with forced tokens, EOS if there is one, and
                                   prompt_log_probability */
    const double *log_probabilities;    /* one for each of the n ids, in nats, then one for EOS
                                           (or the end in its place) if it ended them, or minus
                                           infinity with TRF_ENDED_NO_TOKEN. The field
                                           prompt_log_probability plus these numbers, added one by
                                           one in this order, equals log_probability to the last
                                           bit. The pointer is NULL in a session that transformer.h
                                           0.2.0 saved: its files do not contain them */
    double prompt_log_probability;      /* of the prompt of a decoder-only model, in nats, if a
                                           translator has scored it; of forced_first; else 0 */
    double score;               /* after the length rule; ranks are in its order. The numbers above
                                   are the model's own, whatever the rules of a search change */
    trf_ended ended;
    int32_t proven;             /* 1: nothing that the search dropped could have scored higher */
    int32_t doubts;             /* signs of a bad answer: a sum of TRF_DOUBT_...; 0: none */
} trf_hypothesis;

/* A search with its caches, beams and scratch memory, which grow as calls need it. It has a reader,
   whose rules hold for it too (trf_reader). NULL search: the defaults. With an ensemble, model is
   NULL or its first one. */
typedef struct trf_translator trf_translator;

TRF_API trf_status trf_translator_create(trf_translator **translator, const trf_model *model,
                                         const trf_search *search, trf_error *err);
TRF_API void trf_translator_destroy(trf_translator *translator);
/* The translator's own reader, which shares its weights and ends with it. It leaves the results of
   a translation alone. */
TRF_API trf_reader *trf_translator_reader(trf_translator *translator);
/* The largest number of bytes that a new translator holds during its first call, for `sentences`
   sources (or prompts) of `source_tokens` ids each, and answers of any length. If the lengths
   differ, pass the longest and set max_tokens = INT32_MAX in `search`; the result is then an upper
   bound. It does not cover forced prefixes that are longer than the length limit. A translator of a
   packed model (trf_model_pack) packs no weights of its own: with the model's weights in `search`,
   it holds less by *shared of trf_packed_memory. With search.ensemble it is an upper bound for its
   models, and config may be NULL. 0: no such call is possible (err). NULL search: the defaults. */
TRF_API size_t trf_translator_memory(const trf_config *config, const trf_search *search,
                                     int32_t sentences, int32_t source_tokens, trf_error *err);

/* Translates text with the model's vocabularies. `answer` may be `text`. An empty text is
   translated like an empty sequence. trf_vocab_encode describes bytes that are not UTF-8.
     TRF_E_LIMIT, err->what is "size"    the answer and its NUL need more than `size` bytes; it has
                                         been cut after a whole token. trf_translator_answer and
                                         trf_vocab_decode give all of it and its length, NULs
                                         inside it included, without another search
     TRF_E_LIMIT, other                  the text is longer than max_length; there is no answer
     TRF_E_STATE                         the model has no vocabularies
   Each model of an ensemble reads the text in its own tokens. */
TRF_API trf_status trf_translate_text(trf_translator *translator, const char *text, char *answer,
                                      size_t size, trf_error *err);
/* A text that the answer to a sentence of a call must contain (see trf_search above). */
typedef struct trf_required {
    int32_t sentence;           /* the number of its source in the call */
    int32_t times;              /* it must occur so often: 1..2^20 */
    int32_t exactly;            /* 1: and not more often; 0: or more often */
    const char *text;           /* UTF-8, at least one byte */
} trf_required;
/* What the answers of one call must contain. */
typedef struct trf_requirements {
    const trf_required *texts;  /* (n_texts) those of sentence 0 first, then of sentence 1 ... A
                                   sentence has at most 1,024 different ones, whose copies have at
                                   most 2^20 tokens together */
    int64_t n_texts;
    const int32_t *symbols;     /* (n_symbols) ids that answers have only as parts of required
                                   texts, such as "%s": the model cannot add one. NULL: none */
    int32_t n_symbols;
} trf_requirements;
/* What a call of trf_translate asks for beside its sources. NULL, or a struct of zeros: nothing. */
typedef struct trf_translate_options {
    const trf_sequences *prefixes;      /* forced: answer i starts with sequence i, which may be
                                   empty. TRF_E_STATE: not an encoder-decoder. default NULL */
    const trf_requirements *required;   /* texts that answers contain. One that the vocabulary
                                   cannot write is left out, and one may be missing for the reasons
                                   above: trf_text_count tells. They need memory that
                                   trf_translator_memory does not count. TRF_E_STATE: the model has
                                   no target vocabulary. TRF_E_FORMAT: a text is not UTF-8; `where`
                                   is its number. TRF_E_LIMIT: too many texts. default NULL */
    int32_t each;               /* 1: `sources` points to a list for each model of an ensemble, in
                                   its own tokens, all of the same count. The length limit of an
                                   answer follows from the first; source_first and source_last are
                                   the same ids for all. TRF_E_STATE: the models are not
                                   encoder-decoders. 0: all read the same ids. TRF_E_STATE: the
                                   vocabularies of their sources differ. default 0 */
} trf_translate_options;
/* Translates many sequences; sources of a decoder-only model are prompts. The results stay in the
   translator until it computes again. */
TRF_API trf_status trf_translate(trf_translator *translator, const trf_sequences *sources,
                                 const trf_translate_options *options, trf_error *err);
/* How often a text occurs in another, as above. 0 if one is NULL or `text` is empty. */
TRF_API int32_t trf_text_count(const char *in, const char *text);
/* Results of the last call: at most n_best for each sentence, rank 0 is the best. NULL: there is no
   such sentence or rank. trf_vocab_decode, with the model's target vocabulary (trf_model_vocab),
   turns the ids of one into text. */
TRF_API const trf_hypothesis *trf_translator_answer(const trf_translator *translator,
                                                    int32_t sentence, int32_t rank);
