// trf inspect: what its files share.
//
//   inspect.c        the command; the contents of a file
//   architecture.c   no file, but options of a model
//   published.c      published models
//   resources.c      settings, weights, memory and operations of a configuration
//   trace.c          the shape after each step

#ifndef TRF_INSPECT_H
#define TRF_INSPECT_H

#include "base/base.h"

int inspect_options(struct settings *s);

void set_published(struct settings *s);         /* applies --shape */
void print_published(const struct settings *s, int64_t ours);

/* What s->config says; options in a member of the settings. */
void print_model(const struct settings *s);
void print_settings(const struct settings *s, const char *title, size_t member, size_t bytes);
int check_running(const struct settings *s);    /* options of training and searching */
int settle_lengths(struct settings *s);         /* of the sequences that are counted */
/* The parts of a model that may have weights. */
enum { N_WEIGHT_PARTS = 11 };
struct weight_part { const char *name; int64_t weights; };
void weight_parts(const trf_config *config, const trf_model_size *n,
                  struct weight_part to[N_WEIGHT_PARTS]);
/* parameters 0: unknown. */
int print_weight_counts(const trf_config *config, int32_t parameters, int json);
/* Memory, operations, and the trace of s->config. of_8_bits: a file has its weights so. */
int print_resources(struct settings *s, int of_8_bits);

/* The rows of the encoder and of the decoder in one forward pass; 0: the model has none. */
int64_t source_rows(const struct settings *s);
int64_t target_rows(const struct settings *s);
void print_trace(const struct settings *s);

#endif
