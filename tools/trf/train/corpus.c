// trf train: what the tokens of the data say, and the corpus. See corpus.h.

#include "corpus.h"
#include "mpi.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>samples        pairs that are segmented at random
// -----------------------------------------------------------------------------------------------

/* Adds copies of the pairs that are learned from. Leaves out one that is too long. */
static int add_copies(struct data *data, const trf_data_lines *lines, const struct side cut[2])
{
    trf_corpus *corpus = trf_dataset_results(data->set)->corpus;
    size_t at[2] = {0, 0};
    trf_error err;
    int64_t i;
    for (i = 0; i < lines->n; i++) {
        int32_t n[2] = {cut[0].lengths[i], cut[1].lengths[i]}, longest = n[0] > n[1] ? n[0] : n[1];
        if (lines->used[i] && longest <= data->s->corpus.max_length) {
            if (trf_corpus_add(corpus, cut[0].ids + at[0], n[0], cut[1].ids + at[1], n[1], &err)) {
                say_error("corpus", &err);
                return FAILED;
            }
            if (longest > data->longest) data->longest = longest;
        }
        at[0] += (size_t)n[0];
        at[1] += (size_t)n[1];
    }
    return DONE;
}

int add_samples(struct data *data, const struct vocabularies *v, const trf_vocab *const vocab[2])
{
    const struct settings *s = data->s;
    trf_data_lines lines = trf_dataset_results(data->set)->lines;
    trf_corpus_options any = trf_corpus_defaults();
    struct side cut[2];
    trf_error err;
    int32_t copy;
    int side, status = DONE;
    any.max_length = s->corpus.max_length;
    if (trf_corpus_set_options(trf_dataset_results(data->set)->corpus, &any, &err)) {
        say_error("corpus", &err);      /* now it takes pairs again */
        return FAILED;
    }
    memset(cut, 0, sizeof cut);
    for (copy = 1; copy < s->train.subword_samples && !status; copy++) {
        for (side = 0; side < 2 && !status; side++) {
            uint64_t seed = s->seed * 1000003 + (uint64_t)copy * 2 + (uint64_t)side;
            status = sample_subwords(v, side, &lines, vocab[side], s->train.subword_alpha,
                                     (uint32_t)seed,
                                     &cut[side]);
        }
        if (!status) status = add_copies(data, &lines, cut);
    }
    free_side(&cut[0]);
    free_side(&cut[1]);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>corpus         the batches
// -----------------------------------------------------------------------------------------------

/* Fails if the pairs of a token file lack the tags of the languages. Only the first pair is looked
   at: trf prepare tags all pairs or none. */
static int check_prepared(const struct settings *s, trf_corpus *corpus,
                          const trf_vocab *const vocab[2])
{
    const struct around tags[2] = {tags_of(s, 0), tags_of(s, 1)};
    trf_batch batch;
    trf_error err;
    int32_t tag = tags[0].first >= 0 ? tags[0].first : tags[0].last;
    int side, lacks = 0;
    if (!tags[0].n && !tags[1].n) return DONE;
    if (trf_corpus_next(corpus, &batch, &err)) {
        say_error("corpus", &err);
        return FAILED;
    }
    for (side = 0; side < 2; side++) {
        const trf_sequences *x = side ? &batch.target : &batch.source;
        int32_t n = x->lengths[0];
        lacks |= tags[side].first >= 0 && (n < 1 || x->ids[0] != tags[side].first);
        lacks |= tags[side].last >= 0 && (n < 1 || x->ids[n - 1] != tags[side].last);
    }
    trf_corpus_resume(corpus, NULL, NULL);
    if (lacks)
        say("%s: its pairs lack the tags of %s%s%s: give the languages to trf prepare",
            s->train.token_file, tag >= 0 ? trf_vocab_token(vocab[0], tag) : "",
            tags[1].n ? " and " : "", tags[1].n ? trf_vocab_token(vocab[1], tags[1].first) : "");
    return lacks ? FAILED : DONE;
}

/* Counts the batches of the first pass. Later passes may have a few more or less, as their batches
   differ. */
int set_corpus(const struct settings *s, struct data *data, const trf_vocab *const vocab[2],
               struct plan *plan)
{
    trf_corpus *corpus = trf_dataset_results(data->set)->corpus;
    int64_t batches, n = s->train.accumulate;
    trf_batch batch;
    trf_error err;
    if (trf_corpus_set_options(corpus, &s->corpus, &err)) goto failed;
    if (s->train.token_file && check_prepared(s, corpus, vocab)) return FAILED;
    if (trf_corpus_batches(corpus, &batches, &err)) goto failed;
    if (n_ranks() > 1) {
        if (trf_corpus_next(corpus, &batch, &err)) goto failed;
        plan->fingerprint = batch.place.corpus;
        trf_corpus_resume(corpus, NULL, NULL);
    }
    plan->batches = batches;
    plan->per_epoch = batches + n / 2 > n ? (batches + n / 2) / n : 1;
    return DONE;
failed:
    say_error("corpus", &err);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>unknown        what the vocabularies lack
// -----------------------------------------------------------------------------------------------

/* A file that is one document has line ends. Vocabularies of words and most SentencePiece models
   have no token for one. */
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab)
{
    int32_t ids[16], n;
    char text[64] = "";
    trf_error err;
    if (s->train.documents != DOCUMENTS_FILE || !s->train.text) return;
    if (!trf_vocab_encode(vocab, "\n", 0, ids, 16, &n, &err) && n <= 16)
        (void)trf_vocab_decode(vocab, ids, n, text, sizeof text, NULL, &err);
    if (!strchr(text, '\n'))
        say("warning: the vocabulary has no token for a line end: the line ends of %s are lost, "
            "and the model cannot write any; --tokens characters and --tokens sentencepiece keep "
            "them",
            s->train.text);
}

static double unknown_share(const struct data *data, int held_out, int side)
{
    const trf_data_results *all = trf_dataset_results(data->set);
    const trf_token_facts *f = held_out ? &all->held_out_facts : &all->facts;
    return (double)(side ? f->target_unknown : f->source_unknown) /
           fmax(1, (double)(side ? f->target_ids : f->source_ids));
}

/* What adds the unknown tokens to the vocabulary of another model, if anything does. */
static const char *remedy(const struct settings *s, const trf_vocab *vocab)
{
    int grows = trf_vocab_kind(vocab) == TRF_WORDS || trf_vocab_kind(vocab) == TRF_CHARACTERS;
    return s->train.init_from && !s->train.extend_vocabulary && grows
               ? "; --extend-vocabulary adds them" : "";
}

/* A vocabulary of another text may know few words of this text, and the one of training few of
   those of validation. More than a twentieth is a warning. */
void warn_of_unknown(const struct settings *s, const struct data *data,
                     const trf_vocab *const vocab[2])
{
    int side;
    for (side = 0; side < 2; side++) {
        double learned = unknown_share(data, 0, side), held = unknown_share(data, 1, side);
        const trf_token_facts *f = &trf_dataset_results(data->set)->facts;
        int64_t unknown = side ? f->target_unknown : f->source_unknown;
        if (!reads_side(s, side)) continue;
        if (learned > 0.05)
            say("warning: %.1f %% of the %s's tokens are unknown to the vocabulary: the model "
                "will neither read nor write them%s",
                100 * learned, side ? "target" : "source", remedy(s, vocab[side]));
        else if (unknown)
            inform_line("%lld of the %s's %lld tokens %s unknown to the vocabulary%s",
                        (long long)unknown, side ? "target" : "source",
                        (long long)(side ? f->target_ids : f->source_ids),
                        unknown == 1 ? "is" : "are", remedy(s, vocab[side]));
        if (held > 0.05)
            say("warning: %.1f %% of the %s's tokens in the pairs held out are unknown to the "
                "vocabulary",
                100 * held, side ? "target" : "source");
    }
}

/* What a vocabulary does not keep is never written, and a validation may not count it. */
void warn_of_changed(const struct settings *s, const struct data *data)
{
    const trf_token_facts *f = &trf_dataset_results(data->set)->facts;
    char text[160];
    if (!f->changed) return;
    snprintf(text, sizeof text, "%lld of %lld %ss do not come back from their own tokens, the "
             "first in line %lld", (long long)f->changed, (long long)data->lines,
             learns_from_text(s) ? "text" : "target", (long long)f->changed_line);
    if (100 * f->changed < data->lines) inform("%s\n", text);
    else say("warning: %s: the model cannot write their blanks, letters or marks as they are; "
             "--tokens characters keeps all", text);
}

int64_t count_unknown_targets(const struct settings *s, const struct data *data)
{
    const trf_token_facts *f = &trf_dataset_results(data->set)->facts;
    return reads_side(s, 1) && s->objective != OBJECTIVE_SPAN ? f->target_unknown
                                                              : f->source_unknown;
}
