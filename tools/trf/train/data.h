// trf train, trf prepare: the files of the options become a data set of the library (data.c).

#ifndef TRF_DATA_H
#define TRF_DATA_H

#include "base/base.h"
#include "encodings.h"

/* Who looks at the data beside the data set, with data.user as the first argument: trf doctor. Then
   nothing is told here. */
struct watch {
    void (*read)(void *user, const struct reader *r);       /* a line of a file, as it was read */
    void (*added)(void *user, const trf_line *line);        /* a line of the data set */
    void (*left_out)(void *user, trf_fault fault, const char *file, int64_t line, const char *why);
    /* What is a warning of trf train. count: of lines, the first of which is `line` of the file.
       file NULL: it is an index of the lines of the data set. Takes both texts. */
    void (*found)(void *user, const char *name, int64_t count, const char *file, int64_t line,
                  char *text, char *remedy);
};

struct data {
    struct settings *s;
    trf_dataset *set;
    const struct watch *watch;  /* NULL: faults are told */
    int knows_size;             /* 1: the checkpoint has --valid-size */
    int part;                   /* what is read: 0 to learn from, 1 to validate on, 2 to test on */
    int64_t lines;              /* read to learn from */
    struct { char **item; size_t capacity, n; } files[2];       /* of --source and --target */
    int side;                   /* whose files are noted */
    int64_t n_held;             /* lines for validation */
    uint64_t *held_hashes;      /* (n_held), see held_out_hash */
    char *first[2];             /* line 1, malloc'd */
    int64_t skips[TRF_FAULT_COUNT];     /* lines that are left out */
    struct bytes_seen bytes;    /* of lines that are not UTF-8 */
    int32_t longest;            /* tokens of the longest side of a pair to learn from */
    int status;                 /* of a failure that is reported already, or DONE */
    /* When the lines are split: makes the vocabularies that it can. */
    int (*make)(void *user, const trf_data_lines *lines, trf_vocab *vocab[2]);
    void *user;
};

/* The lines of a side. */
const char *const *lines_of(const trf_data_lines *lines, int side);
const char *training_file(const struct settings *s, int side);
/* The file of a side, if `file` is that of the pair. */
const char *file_of_side(const struct data *d, const char *file, int side);
extern const char *const fault_names[TRF_FAULT_COUNT];
/* The name of a file as the shell reads it, of a packed one as `gunzip` leaves it; malloc'd. */
char *shell_name(const char *name);
/* The remedy with what goes before it where the file is packed; frees it. */
char *unpack_first(char *remedy, const char *name);
/* What to do about lines with a fault; malloc'd. */
char *remedy_of(const struct data *d, trf_fault fault);
uint64_t hash_pair(const trf_data_lines *lines, int64_t i);
/* Lines of the data, and what they are for. */
struct part { int64_t from, n; const char *name; };
/* Warns if most pairs to score on are learned from; tells who looks if any is. */
void tell_overlap(struct data *d, const trf_data_lines *lines, struct part held,
                  struct part learned);
/* The options that follow from the settings; skips are counted in data. */
trf_dataset_options data_options(struct data *d);
/* Reads the files of the options, and makes the data set; `o` may say more. */
int read_data(struct data *d, const trf_dataset_options *o);
/* A line of the data; text alone is the target. Fails after a message. */
int add_line(struct data *d, const trf_line *line);
/* Reports and counts a line that is left out. With --strict it is an error: FAILED. */
int skip(struct data *d, trf_fault fault, const char *file, int64_t line, const char *why);
/* Tells what was left out. FAILED: more than half, and `refuses`. */
int say_skips(const struct data *d, int64_t trained_on, int refuses);
void end_data(struct data *d);

/* folder.c: calls add for a file, or for each file of a folder, in byte order, but not for hidden
   ones and those that leaves_out (or NULL) names. Ends at the first result that is not DONE. */
int for_each_file(const char *path, const struct settings *s,
                  int (*leaves_out)(const struct settings *s, const char *path),
                  int (*add)(void *user, const char *path), void *user);
int check_texts(const struct settings *s, const char *path);    /* of --tsv or --text, or NULL */

#endif
