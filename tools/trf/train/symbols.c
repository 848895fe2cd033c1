// trf train: --keep: frequent matches become symbols of the vocabularies. See subwords.h.

#include "subwords.h"
#include "data.h"
#include "state.h"

enum { LOOK = 200000, OFTEN = 5 };  /* most lines to look at; how often a symbol must be copied */

/* Counts each match of a line once, if the target has it. A symbol has no blank, and nothing that
   SentencePiece keeps for itself. */
static int count_matches(struct patterns *patterns, trf_vocab *seen, const char *source,
                         const char *target)
{
    size_t from = 0, begin, end;
    trf_error err;
    while (next_match(patterns, source, from, &begin, &end)) {
        char *text = format_text("%.*s", (int)(end - begin), source + begin);
        int usable = end - begin < 64 && !strpbrk(text, BLANKS) && !strstr(text, "\xE2\x96\x81") &&
            !strstr(text, "\xE2\x96\x85") && strstr(target, text);
        int failed = usable && trf_vocab_learn(seen, text, &err);
        free(text);
        if (failed) { say_error("--keep", &err); return FAILED; }
        from = end;
    }
    return DONE;
}

int find_symbols(const struct settings *s, struct vocabularies *v, const trf_data_lines *lines)
{
    struct patterns patterns = {NULL, 0, 0};
    int32_t most = (s->train.target_vocab_size ? s->train.target_vocab_size : 8000) / 8, id;
    int64_t step = 1 + lines->n / LOOK, i;
    trf_vocab *seen = NULL;
    trf_error err;
    int k, status = DONE;
    for (k = 0; k < s->rules.keeps.n && !status; k++)
        status = add_pattern(&patterns, "--keep", s->rules.keeps.item[k]);
    if (!status && trf_vocab_create(&seen, TRF_WORDS, NULL, &err)) status = refused("--keep", &err);
    for (i = 0; i < lines->n && !status; i += step)
        status = count_matches(&patterns, seen, lines->source[i], lines->target[i]);
    if (!status && trf_vocab_finish(seen, 4 + (most > 1 ? most : 1), OFTEN, &err))
        status = refused("--keep", &err);
    if (!status) {
        v->n_symbols = trf_vocab_size(seen) - 4;
        v->symbols = zeroed((size_t)v->n_symbols + 1, sizeof *v->symbols);
        for (id = 4; id < trf_vocab_size(seen); id++)
            v->symbols[id - 4] = format_text("%s", trf_vocab_token(seen, id));
        v->patterns = joined_texts((const char *const *)s->rules.keeps.item, s->rules.keeps.n);
        inform_line("--keep: %d match%s often enough to be a token", v->n_symbols,
                    v->n_symbols == 1 ? " occurs" : "es occur");
    }
    trf_vocab_destroy(seen);
    free_patterns(&patterns);
    return status;
}

int add_symbols(const struct vocabularies *v, trf_vocab *vocab)
{
    const int32_t unk = trf_vocab_special(vocab, TRF_SPECIAL_UNK);
    trf_error err;
    int k;
    for (k = 0; k < v->n_symbols; k++)
        if (trf_vocab_id(vocab, v->symbols[k]) == unk && trf_vocab_add(vocab, v->symbols[k], &err)) {
            say_error("--keep", &err);
            return FAILED;
        }
    return DONE;
}

int note_symbols(const struct vocabularies *v, const trf_model *from, trf_model *model)
{
    const char *const keys[] = {keep_key, symbols_key};
    char *symbols = joined_texts((const char *const *)v->symbols, v->n_symbols);
    const char *const own[] = {v->patterns, symbols};
    int k, status = DONE;
    for (k = 0; k < 2 && !status; k++) {
        const char *value = v->patterns ? own[k] : from ? trf_model_metadata(from, keys[k]) : NULL;
        if (value && *value) status = note(model, keys[k], value);
    }
    free(symbols);
    return status;
}
