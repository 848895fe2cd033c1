// trf prepare --hold-out N: writes about one of N lines as a text for validation, OUTPUT.valid,
// instead of into the token file (hold_out.c).

#ifndef TRF_HOLD_OUT_H
#define TRF_HOLD_OUT_H

#include "base/base.h"

struct hold_out {
    int64_t n;                  /* N, or 0: nothing is held out */
    char *path, *part;          /* part: the name until it is complete, OUTPUT.valid-N.part */
    FILE *file;
    int64_t lines;              /* held out so far, also those that are not written */
    struct hashes seen;         /* of their sources */
};

/* Whether a path is OUTPUT.valid, or an unfinished one. */
int is_held_out(const struct settings *s, const char *path);
/* Fails if files of an earlier run do not fit --hold-out. begun: OUTPUT.part is there; complete:
   OUTPUT is. */
int check_hold_out(const struct settings *s, int begun, int complete);
int begin_hold_out(struct hold_out *h, const struct settings *s);   /* once OUTPUT.part is locked */
/* Whether a line is held out; writes it, unless its source has been written. */
int hold_out_text(struct hold_out *h, const char *text);
int hold_out_pair(struct hold_out *h, const char *source, const char *target);
void say_held_out(const struct hold_out *h, const char *what);      /* what: "pair" or "line" */
int flush_hold_out(const struct hold_out *h);       /* before OUTPUT is complete */
int name_hold_out(const struct settings *s);        /* afterwards: gives the file its name */
void end_hold_out(struct hold_out *h, int remove_it);

#endif
