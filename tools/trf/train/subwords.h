// trf train: vocabularies of subwords: learned by libsentencepiece, or read from a file
// (subwords.c).

#ifndef TRF_SUBWORDS_H
#define TRF_SUBWORDS_H

#include "base/base.h"

/* The vocabularies of source and target; the data set frees them. A joint one is in both fields. */
struct vocabularies {
    trf_vocab *of[2];
    char *pieces[2];                /* the bytes of their SentencePiece models, or NULL */
    size_t pieces_bytes[2];
    char *patterns;                 /* of --keep, one a line, or NULL */
    char **symbols;                 /* what they match often: tokens of both sides */
    int n_symbols;
};

int subwords_can_be_learned(void);
/* Learns a vocabulary from the text of one or both sides. Fails with a message if trf has no
   libsentencepiece. */
int learn_subwords(const struct settings *s, struct vocabularies *v, const trf_data_lines *lines,
                   int first_side, int last_side);
int read_subwords(struct vocabularies *v, int first_side, int last_side, const char *path,
                  trf_vocab **vocab);
int check_subwords(
    const char *path); /* fails unless it is a SentencePiece model; NULL: none to check */
int stored_subwords(const struct settings *s, struct vocabularies *v, int side, const char *path);
/* Segments all lines of a side at random: one sequence for each line. */
int sample_subwords(const struct vocabularies *v, int side, const trf_data_lines *lines,
                    const trf_vocab *vocab, double alpha, uint32_t seed, struct side *ids);
void free_subwords(struct vocabularies *v);

/* symbols.c: what --keep matches often in the source, where the target has it too. */
int find_symbols(const struct settings *s, struct vocabularies *v, const trf_data_lines *lines);
int add_symbols(const struct vocabularies *v, trf_vocab *vocab);    /* of words or characters */
int note_symbols(const struct vocabularies *v, const trf_model *from, trf_model *model);

#endif
