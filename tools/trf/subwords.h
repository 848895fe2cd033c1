// What C can ask of libsentencepiece (subwords.cc).

#ifndef TRF_SUBWORDS_H
#define TRF_SUBWORDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Learns `size` subwords from lines, which next(user) gives one by one until NULL. *model is malloc'd. Returns 0,
   or 1 with a sentence in why. */
int subwords_learn(int bpe, int32_t size, const char *(*next)(void *user), void *user, char **model, size_t *bytes,
                   char why[512]);

#ifdef __cplusplus
}
#endif
#endif
