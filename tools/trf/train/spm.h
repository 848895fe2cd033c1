// The functions of libsentencepiece that trf uses, for C (spm.cc).

#ifndef TRF_SPM_H
#define TRF_SPM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PIECE_CHARACTERS = 16 };     /* of the longest subword: libsentencepiece's own default */

struct subwords_options {
    int bpe;                /* 0: unigram */
    int32_t size;           /* with the unknown one and with those below */
    int32_t sentinels;      /* so many are "<extra_id_0>" and so on */
    const char *const *symbols;     /* texts that are a subword wherever they stand */
    int n_symbols;
    int tab, line_end;      /* 1: it is a subword, which stands alone; */
    int reserved;           /* so is U+2585, which SentencePiece keeps for itself */
    int verbatim;           /* 1: no blank is put before a line */
    int blanks;             /* 1: no blank is taken away; 0: runs of blanks are one */
    const char *rule; /* the name of a rule of normalisation: SentencePiece's, or that of the map */
    const char *map;        /* see compose.c; NULL: the rule is SentencePiece's */
    size_t map_bytes;
};

/* Learns subwords from lines, which next(user) gives one by one until NULL. *model is malloc'd.
   Returns 0, or 1 with a sentence in why. */
int subwords_learn(const struct subwords_options *options, const char *(*next)(void *user),
                   void *user, char **model, size_t *bytes, char why[512]);

/* Cuts each line at random with this model, as often as not otherwise than it is best cut: unigram
   by the pieces' probabilities to the power alpha (Kudo 2018), BPE leaving out a share alpha of the
   merges (Provilkov et al. 2020). piece(user, text) is called for every piece, with NULL at the end
   of a line. The same seed gives the same ones. */
int subwords_sample(const char *model, size_t bytes, double alpha, uint32_t seed,
                    const char *(*next)(void *user), void (*piece)(void *user, const char *text),
                    void *user, char why[512]);

#ifdef __cplusplus
}
#endif
#endif
