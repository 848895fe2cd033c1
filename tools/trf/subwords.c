// trf train: vocabularies of subwords, learned by libsentencepiece or read from a file.

#include "train.h"
#include "subwords.h"

#include <errno.h>

#ifdef TRF_WITH_SENTENCEPIECE

int subwords_can_be_learned(void) { return 1; }

/* Where learning stands in the lines of one or both sides. */
struct lines { const struct text *text; int side, last; size_t line; };

static const char *next_of(void *user)
{
    struct lines *at = (struct lines *)user;
    while (at->side <= at->last && at->line >= at->text[at->side].count) { at->side++; at->line = 0; }
    return at->side > at->last ? NULL : line_of(&at->text[at->side], at->line++);
}

/* The size to try instead, or 0. libsentencepiece says "Vocabulary size too high (8000). Please set it to a value <=
   413." of a small text, and "Vocabulary size is smaller than required_chars. 500 vs 1516." of one with many
   characters: then a third more, but not if the number was asked for. */
static int32_t other_size(const char *why, int32_t size, int asked)
{
    const char *most = strstr(why, "<= "), *least = strstr(why, "required_chars. ");
    int characters;
    if (!least) return most && strtol(most + 3, NULL, 10) < size ? (int32_t)strtol(most + 3, NULL, 10) : 0;
    if (sscanf(least, "required_chars. %*d vs %d", &characters) != 1) return 0;
    if (asked) say("--vocab-size %d is less than the text has characters, which are %d", (int)size, characters);
    return asked ? 0 : characters + characters / 3;
}

int learn_subwords(struct training *t, int first_side, int last_side, trf_vocab **vocab)
{
    const struct settings *s = t->s;
    int32_t size = first_side ? s->target_vocab_size : s->source_vocab_size, other, tries;
    int asked = was_given(s, "vocab-size") || was_given(s, first_side ? "target-vocab-size" : "source-vocab-size");
    int bpe = (first_side ? s->target_tokens : s->source_tokens) == TOKENS_BPE, status;
    struct lines lines;
    char *model = NULL, why[512];
    size_t bytes;
    trf_error err;
    if (size < 8 || size > 1 << 20) { say("subwords: 8 to %d of them, got %d", 1 << 20, (int)size); return FAILED; }
    for (tries = 0; ; tries++) {
        lines.text = t->text;
        lines.side = first_side;
        lines.last = last_side;
        lines.line = 0;
        status = subwords_learn(bpe, size, next_of, &lines, &model, &bytes, why);
        other = status ? other_size(why, size, asked) : 0;
        if (other < 8 || tries == 4) break;
        size = other;
    }
    if (status) { say("learning subwords: %s", why); return FAILED; }
    status = trf_vocab_from_sentencepiece(vocab, model, bytes, NULL, &err) ? FAILED : DONE;
    free(model);
    if (status) { say_error("learned subwords", &err); return FAILED; }
    fprintf(stderr, "%s: %d subwords learned (%s)\n", first_side ? "target" : last_side ? "both sides" : "source",
            (int)trf_vocab_size(*vocab) - 4, bpe ? "BPE" : "unigram");
    return DONE;
}

#else

int subwords_can_be_learned(void) { return 0; }

int learn_subwords(struct training *t, int first_side, int last_side, trf_vocab **vocab)
{
    (void)t; (void)first_side; (void)last_side; (void)vocab;
    say("this trf was built without libsentencepiece, so it cannot learn subwords: install libsentencepiece-dev and "
        "make "
        "again, or give a model with --sentencepiece");
    return FAILED;
}

#endif

int read_subwords(const char *path, trf_vocab **vocab)
{
    struct reader r;
    char *bytes = NULL;
    size_t capacity = 0, n = 0, got;
    trf_error err;
    int status;
    if ((status = open_reader(&r, path))) return status;
    do {
        bytes = grow(bytes, &capacity, n + 65536, 1);
        n += got = fread(bytes + n, 1, 65536, r.file);
    } while (got);
    if (ferror(r.file)) { say("cannot read '%s': %s", path, strerror(errno)); status = FAILED; }
    else if (trf_vocab_from_sentencepiece(vocab, bytes, n, NULL, &err)) { say_error(path, &err); status = FAILED; }
    close_reader(&r);
    free(bytes);
    return status;
}
