// trf train: vocabularies: learned from the training text, or read from a file. See vocabulary.h.

#include "vocabulary.h"
#include "data.h"

/* Counts the tokens of one side. Ignores a line with a token that is too long; encoding leaves it
   out. */
static int learn_side(const trf_data_lines *lines, trf_vocab *vocab, int side)
{
    trf_error err;
    int64_t i;
    for (i = 0; i < lines->n; i++)
        if (trf_vocab_learn(vocab, lines_of(lines, side)[i], &err) && err.status != TRF_E_LIMIT) {
            say_error("vocabulary", &err);
            return FAILED;
        }
    return DONE;
}

static int learn_tokens(const struct settings *s, const trf_data_lines *lines, int first_side,
                        int last_side, trf_token_kind kind, trf_vocab **vocab)
{
    trf_error err;
    int side;
    trf_status status = trf_vocab_create(vocab, kind, NULL, &err);
    for (side = first_side; side <= last_side && !status; side++)
        if (learn_side(lines, *vocab, side)) return FAILED;
    if (!status)
        status = trf_vocab_finish(*vocab, first_side ? s->train.target_vocab_size
                                  : s->train.source_vocab_size,
                                  s->train.min_count, &err);
    if (status) return refused("vocabulary", &err);
    if (trf_vocab_size(*vocab) > 4 || lines->n == 0) return DONE;
    if (s->train.min_count == 1) {
        say("%s has no token to learn", training_file(s, first_side));
        return FAILED;
    }
    say("--min-count %lld leaves no token: none in %s occurs so often",
        (long long)s->train.min_count,
        training_file(s, first_side));
    return USAGE;
}

static int make_vocabulary(const struct settings *s, struct vocabularies *v,
                           const trf_data_lines *lines, int first_side, int last_side)
{
    const char *file = first_side ? s->train.target_sentencepiece : s->train.source_sentencepiece;
    int tokens = first_side ? s->train.target_tokens : s->train.source_tokens;
    if (file) return read_subwords(v, first_side, last_side, file, &v->of[first_side]);
    if (tokens == TOKENS_UNIGRAM || tokens == TOKENS_BPE)
        return learn_subwords(s, v, lines, first_side, last_side);
    if ((tokens = learn_tokens(s, lines, first_side, last_side,
                               tokens == TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                               &v->of[first_side]))) return tokens;
    return add_symbols(v, v->of[first_side]);
}

/* Fails if the command line wants other tokens than the vocabularies have. */
int check_tokens(const struct settings *s, const trf_vocab *const vocab[2], const char *path)
{
    static const trf_token_kind kinds[] = {TRF_WORDS,         TRF_WORDS,         TRF_CHARACTERS,
                                           TRF_SENTENCEPIECE, TRF_SENTENCEPIECE, TRF_SENTENCEPIECE};
    int side;
    for (side = 0; side < 2; side++) {
        const char *file = side ? s->train.target_sentencepiece : s->train.source_sentencepiece;
        int tokens = side ? s->train.target_tokens : s->train.source_tokens;
        if (!vocab[side]) continue;
        if (tokens == TOKENS_AUTO) continue;
        if (!is_given(s, AT(train.tokens)) &&
            !is_given(s, side ? AT(train.target_tokens) : AT(train.source_tokens)) && !file)
            continue;
        if (trf_vocab_kind(vocab[side]) == (file ? TRF_SENTENCEPIECE : kinds[tokens])) continue;
        say("%s was made with other --%s-tokens", path, side ? "target" : "source");
        return FAILED;
    }
    return DONE;
}

int check_samples(const struct settings *s, const trf_vocab *const vocab[2])
{
    if (trf_vocab_kind(vocab[0]) == TRF_SENTENCEPIECE &&
        trf_vocab_kind(vocab[1]) == TRF_SENTENCEPIECE)
        return DONE;
    say("--subword-samples %d needs subwords on both sides: --tokens sentencepiece, or "
        "--sentencepiece",
        (int)s->train.subword_samples);
    return USAGE;
}

/* Adds the tokens of the text that the vocabulary lacks, the most frequent first. */
int extend_vocabulary(const struct settings *s, const trf_data_lines *lines, int first_side,
                      int last_side, trf_vocab *vocab)
{
    trf_vocab *seen = NULL;
    trf_error err;
    int32_t most = first_side ? s->train.target_vocab_size
        : s->train.source_vocab_size, i, added = 0;
    int side;
    trf_status status;
    if (trf_vocab_kind(vocab) != TRF_WORDS && trf_vocab_kind(vocab) != TRF_CHARACTERS) {
        say("--extend-vocabulary: a vocabulary of subwords cannot grow");
        return FAILED;
    }
    status = trf_vocab_create(&seen, trf_vocab_kind(vocab), NULL, &err);
    for (side = first_side; side <= last_side && !status; side++)
        if (learn_side(lines, seen, side)) { trf_vocab_destroy(seen); return FAILED; }
    if (!status) status = trf_vocab_finish(seen, most ? most : 32000, s->train.min_count, &err);
    for (i = 4; !status && i < trf_vocab_size(seen); i++)
        if (trf_vocab_id(vocab, trf_vocab_token(seen, i)) == UNK) {
            status = trf_vocab_add(vocab, trf_vocab_token(seen, i), &err);
            added++;
        }
    trf_vocab_destroy(seen);
    if (status) { say_error("vocabulary", &err); return FAILED; }
    inform("%s: %d token%s %s new\n", first_side ? "target" : last_side ? "both sides" : "source",
           (int)added, plural(added), added == 1 ? "is" : "are");
    return DONE;
}

/* Adds "<extra_id_0>", "<extra_id_1>"..., which stand for missing spans. Subwords are learned with
   them. */
static int add_sentinels(trf_vocab *vocab)
{
    trf_error err;
    char token[32];
    int32_t i;
    if (trf_vocab_kind(vocab) == TRF_CHARACTERS) {
        say("--objective span needs words or subwords: <extra_id_0>, which replaces a missing "
            "span, is not a character");
        return USAGE;
    }
    for (i = 0; i < SENTINELS && trf_vocab_kind(vocab) == TRF_WORDS; i++) {
        snprintf(token, sizeof token, "<extra_id_%d>", (int)i);
        if (trf_vocab_id(vocab, token) != UNK || !trf_vocab_add(vocab, token, &err)) continue;
        say_error("vocabulary", &err);
        return FAILED;
    }
    return DONE;
}

/* The vocabulary of text alone. Missing spans consist of tokens of the same text. */
static int make_one_vocabulary(const struct settings *s, struct vocabularies *v,
                               const trf_data_lines *lines)
{
    int status, side = reads_side(s, 1);
    if (!v->of[side] && (status = make_vocabulary(s, v, lines, side, side))) return status;
    if (s->objective != OBJECTIVE_SPAN) return DONE;
    v->of[1] = v->of[0];
    return add_sentinels(v->of[0]);
}

/* Whether the vocabulary of a side is learned here: from subwords, or from words or characters. */
static int makes_vocabulary(const struct settings *s, const struct vocabularies *v, int side,
                            int subwords)
{
    return reads_side(s, side) && !v->of[side] &&
           !(side ? s->train.target_sentencepiece : s->train.source_sentencepiece) &&
           subwords == ((side ? s->train.target_tokens : s->train.source_tokens) >= TOKENS_UNIGRAM);
}

/* Refuses options about learning a vocabulary if none is learned. */
static int check_made(const struct settings *s, const struct vocabularies *v)
{
    const char *normalization = text_given(s, AT(train.normalization));
    int inherited = v->of[0] || v->of[1];
    if (is_given(s, AT(train.min_count)) && !inherited && !makes_vocabulary(s, v, 0, 0) &&
        !makes_vocabulary(s, v, 1, 0)) {
        say("--min-count is not for subwords");
        return USAGE;
    }
    if (normalization && strcmp(normalization, "auto") && !makes_vocabulary(s, v, 0, 1) &&
        !makes_vocabulary(s, v, 1, 1)) {
        say("--normalization is for subwords that are learned here: words and characters are not "
            "normalized");
        return USAGE;
    }
    return DONE;
}

int make_vocabularies(struct settings *s, struct vocabularies *v, const trf_data_lines *lines,
                      struct plan *plan)
{
    int status, one_file = same_file(s->train.source_sentencepiece, s->train.target_sentencepiece);
    int inherited = v->of[0] || v->of[1];
    if ((!v->of[0] && reads_side(s, 0)) || (!v->of[1] && reads_side(s, 1)))
        if ((status = decide_tokens(s, lines, (const trf_vocab *const *)v->of, plan)))
            return status;
    if ((status = check_made(s, v))) return status;
    if (s->rules.keeps.n && s->objective != OBJECTIVE_TRANSLATE) {
        say("--keep is for --objective translate");
        return USAGE;
    }
    if (s->rules.keeps.n && (status = find_symbols(s, v, lines))) return status;
    if (s->objective != OBJECTIVE_TRANSLATE) return make_one_vocabulary(s, v, lines);
    if (inherited) {
        status = v->of[0] ? DONE : make_vocabulary(s, v, lines, 0, 0);
        return status || v->of[1] ? status : make_vocabulary(s, v, lines, 1, 1);
    }
    if (s->train.joint_vocabulary && (s->train.source_tokens != s->train.target_tokens ||
                                (s->train.source_sentencepiece ||
                                 s->train.target_sentencepiece) != one_file)) {
        say("one vocabulary for both sides needs the same --source-tokens and --target-tokens, or "
            "one --sentencepiece");
        return USAGE;
    }
    if (s->train.joint_vocabulary && s->train.source_vocab_size != s->train.target_vocab_size) {
        say("one vocabulary for both sides has one size: give --vocab-size");
        return USAGE;
    }
    if ((status = make_vocabulary(s, v, lines, 0, s->train.joint_vocabulary))) return status;
    if (s->train.joint_vocabulary) v->of[1] = v->of[0];
    return s->train.joint_vocabulary ? DONE : make_vocabulary(s, v, lines, 1, 1);
}
