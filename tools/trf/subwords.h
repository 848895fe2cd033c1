// trf train: vocabularies of subwords, learned by libsentencepiece or read from a file (subwords.c).

#ifndef TRF_SUBWORDS_H
#define TRF_SUBWORDS_H

#include "trf.h"

/* Those of both sides, while learning; both are one when joint. */
struct vocabularies {
    trf_vocab *of[2];
    char *pieces[2];                /* bytes of the SentencePiece models, likewise */
    size_t pieces_bytes[2];
};

int subwords_can_be_learned(void);
/* From the text of one or both sides, into v. Without libsentencepiece: a sentence that it is not there. */
int learn_subwords(const struct settings *s, struct vocabularies *v, const struct text text[2], int first_side,
                   int last_side);
int read_subwords(struct vocabularies *v, int first_side, int last_side, const char *path, trf_vocab **vocab);
int check_subwords(const char *path);           /* that the file is a SentencePiece model; NULL: there is none */
int stored_subwords(const struct settings *s, struct vocabularies *v, int side, const char *path);
/* All lines of a side, cut at random: one sequence a line, whatever it is. */
int sample_subwords(const struct vocabularies *v, int side, const struct text *text, const trf_vocab *vocab,
                    double alpha, uint32_t seed, struct side *ids);
void free_subwords(struct vocabularies *v);

#endif
