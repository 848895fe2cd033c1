// trf: names of labels, and lines of words as tokens. See base.h.

#include "base.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>labels         names, sorted; label i of the model is name[i]
// -----------------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void free_labels(struct labels *labels)
{
    int32_t i;
    for (i = 0; i < labels->n; i++) free(labels->name[i]);
    free(labels->name);
    memset(labels, 0, sizeof *labels);
}

void append_label(struct labels *labels, const char *text, size_t bytes)
{
    labels->name =
        grow(labels->name, &labels->capacity, (size_t)labels->n + 1, sizeof *labels->name);
    labels->name[labels->n++] = format_text("%.*s", (int)bytes, text);
}

int32_t label_number(const struct labels *labels, const char *text, size_t bytes)
{
    char *key = format_text("%.*s", (int)bytes, text), **found;
    found = labels->n ? bsearch(&key, labels->name, (size_t)labels->n, sizeof key, by_text) : NULL;
    free(key);
    return found ? (int32_t)(found - labels->name) : -1;
}

void settle_labels(struct labels *labels)
{
    int32_t i, n = 0;
    qsort(labels->name, (size_t)labels->n, sizeof *labels->name, by_text);
    for (i = 0; i < labels->n; i++) {
        if (n && !strcmp(labels->name[n - 1], labels->name[i])) free(labels->name[i]);
        else labels->name[n++] = labels->name[i];
    }
    labels->n = n;
}

int32_t best_of(const trf_real *numbers, int32_t n)
{
    int32_t best = 0, i;
    for (i = 1; i < n; i++) if (numbers[i] > numbers[best]) best = i;
    return best;
}

int classifies(const trf_config *config)
{
    return config->head == TRF_HEAD_MEAN || config->head == TRF_HEAD_FIRST ||
           config->sequence_labels;
}

int32_t count_labels(const trf_config *config)
{
    return config->sequence_labels ? config->sequence_labels : config->n_labels;
}

void split_labels(struct labels *labels, const char *text)
{
    while (text && *text) {
        size_t bytes = strcspn(text, "\n");
        append_label(labels, text, bytes);
        text += bytes + (text[bytes] == '\n');
    }
}

int load_labels(const trf_model *model, const char *path, struct labels *labels)
{
    const char *text = trf_model_metadata(model, "labels");
    int32_t wanted = count_labels(trf_model_config(model));
    split_labels(labels, text);
    if (labels->n == wanted) return DONE;
    if (!text)
        say("%s: the metadata entry 'labels' is missing; it has the texts of the model's %d "
            "label%s, one per line: trf train stores them; a program in C calls "
            "trf_model_set_metadata(model, \"labels\", ...) before it saves",
            path, (int)wanted, plural(wanted));
    else
        say("%s: the metadata entry 'labels' has %d line%s, but the model has %d label%s: there "
            "must be one line for each",
            path, (int)labels->n, plural(labels->n), (int)wanted, plural(wanted));
    return FAILED;
}

/* In the metadata of the model, one label a line. */
int store_labels(trf_model *model, const struct labels *labels)
{
    size_t capacity = 0, used = 0;
    char *text = grow(NULL, &capacity, 1, 1);
    trf_error err;
    int32_t i;
    int status;
    *text = 0;
    for (i = 0; i < labels->n; i++) {
        size_t bytes = strlen(labels->name[i]);
        text = grow(text, &capacity, used + bytes + 2, 1);
        used += (size_t)snprintf(text + used, bytes + 2, "%s%s", i ? "\n" : "", labels->name[i]);
    }
    status = labels->n && trf_model_set_metadata(model, "labels", text, &err) ? FAILED : DONE;
    if (status && err.status == TRF_E_LIMIT)
        say("the %d labels have %zu bytes in all, but a model can store 1 MiB: is this the "
            "column of the labels?",
            (int)labels->n, used);
    else if (status) say_error("labels", &err);
    free(text);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>words          a line of words, token by token, and where each word begins
// -----------------------------------------------------------------------------------------------

int32_t for_words(const char *line, void (*each)(void *user, const char *word, size_t bytes),
                  void *user)
{
    int32_t n = 0;
    for (line += strspn(line, BLANKS); *line; line += strspn(line, BLANKS), n++) {
        size_t bytes = strcspn(line, BLANKS);
        if (each) each(user, line, bytes);
        line += bytes;
    }
    return n;
}

struct encoding {
    const trf_vocab *vocab;
    struct word_tokens *to;
    char *text;
    size_t capacity;
    int failed;
};

/* Encodes one word, so that its first token is known. Where tokens are characters, a blank
   separates words; with byte-level BPE it belongs to the word after it. A word of invisible
   characters may have no subword; it becomes one unknown token, as in a vocabulary of words. */
static void encode_word(void *user, const char *word, size_t bytes)
{
    struct encoding *e = (struct encoding *)user;
    struct word_tokens *to = e->to;
    trf_token_kind kind = trf_vocab_kind(e->vocab);
    int blank = (kind == TRF_CHARACTERS || kind == TRF_BYTE_BPE) && to->n_words > 0;
    int32_t n = 0;
    trf_error err;
    e->text = grow(e->text, &e->capacity, bytes + 2, 1);
    snprintf(e->text, bytes + 2, "%s%.*s", blank ? " " : "", (int)bytes, word);
    to->first = grow(to->first, &to->first_capacity, (size_t)to->n_words + 1, sizeof *to->first);
    to->first[to->n_words++] = to->n + (kind == TRF_CHARACTERS && blank);
    if (encode_after(e->vocab, e->text, &to->ids, (size_t)to->n, &to->ids_capacity, &n, &err)) {
        if (!e->failed)
            snprintf(to->why, sizeof to->why, "word %d: %s", (int)to->n_words, err.message);
        e->failed = 1;
        return;
    }
    /* encode_after has grown ids for it */
    if (n == 0) to->ids[to->n + n++] = unknown_id(e->vocab);
    to->n += n;
}

int encode_words(const trf_vocab *vocab, const char *line, struct word_tokens *to)
{
    struct encoding e;
    memset(&e, 0, sizeof e);
    e.vocab = vocab;
    e.to = to;
    to->n = to->n_words = 0;
    *to->why = 0;
    for_words(line, encode_word, &e);
    free(e.text);
    return e.failed ? FAILED : DONE;
}

void free_word_tokens(struct word_tokens *words)
{
    free(words->ids);
    free(words->first);
}
