// trf train: encodes lines as token ids, and fills the corpus. Leaves out what cannot be trained
// on. See encode.h.

#include "encode.h"
#include "labelled.h"
#include "mpi.h"
#include "progress.h"
#include "subwords.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>pairs          a line of each side, or a line and its label
// -----------------------------------------------------------------------------------------------

/* What encoding a line needs. */
struct encoder {
    const struct settings *s;
    struct examples *data;
    const trf_vocab *const *vocab;
    const struct labels *labels;
};

/* Appends text i with its label or labels, or skips it. */
static int add_example(const struct encoder *e, struct pairs *to, size_t i, const char *file,
                       int *taken)
{
    const char *const line[2] = {line_of(&to->text[0], i), line_of(&to->text[1], i)};
    size_t before = to->ids[0].count;
    enum skip kind;
    char why[300];
    const char *fault = add_labelled(e->s, e->labels, e->vocab[0], line, to->ids, &kind, why);
    *taken = to->ids[0].count > before;
    if (*taken) return DONE;
    return skip(e->s, e->data, fault ? kind : SKIP_EMPTY, file, to->text[0].numbers[i],
                fault ? fault : "empty");
}

/* Appends pair i of the text, or skips it. *taken: whether it was appended. */
static int add_pair(const struct encoder *e, struct pairs *to, size_t i, const char *const files[2],
                    int *taken)
{
    const struct settings *s = e->s;
    struct examples *data = e->data;
    int64_t line = to->text[0].numbers[i];
    int32_t n[2] = {0, 0};
    char why[300];
    int side;
    if (learns_labels(s)) return add_example(e, to, i, files[0], taken);
    *taken = 0;
    for (side = 0; side < 2; side++) {
        const char *fault = unlearnable(e->vocab[side], line_of(&to->text[side], i));
        if (fault && side) drop_last(&to->ids[0]);
        if (fault) return skip(s, data, SKIP_LONG, files[side], line, fault);
        if (!add_tagged_text(s, side, &to->ids[side], e->vocab[side], line_of(&to->text[side], i),
                             s->corpus.max_length, &n[side], why))
            continue;
        if (side) drop_last(&to->ids[0]);
        return skip(s, data, n[side] ? SKIP_LONG : SKIP_UNREADABLE, files[side], line, why);
    }
    *taken = n[0] && n[1] ? 1 : n[0] || n[1] ? s->keep_empty : 0;
    if (*taken) return DONE;
    drop_last(&to->ids[0]);
    drop_last(&to->ids[1]);
    return n[0] || n[1] ? skip(s, data, SKIP_HALF, files[n[0] != 0], line,
                               "empty, but its other side is not")
                        : skip(s, data, SKIP_EMPTY, files[0], line, "empty on both sides");
}

/* --subword-samples: more copies of the pairs in use, each side segmented at random. Leaves out a
   copy that is too long. The sizes stay those of the data, without the copies. */
static int add_samples(const struct encoder *e, const struct vocabularies *v, const char *in_use)
{
    const struct settings *s = e->s;
    struct examples *data = e->data;
    struct side cut[2];
    int32_t copy;
    size_t i;
    int side, status = DONE;
    memset(cut, 0, sizeof cut);
    for (copy = 1; copy < s->subword_samples && !status; copy++) {
        size_t at[2] = {0, 0};
        for (side = 0; side < 2 && !status; side++) {
            uint64_t seed = s->seed * 1000003 + (uint64_t)copy * 2 + (uint64_t)side;
            status = sample_subwords(v, side, &data->learn.text[side], e->vocab[side],
                                     s->subword_alpha, (uint32_t)seed, &cut[side]);
        }
        for (i = 0; i < data->learn.text[0].count && !status; i++) {
            int32_t n[2] = {cut[0].lengths[i], cut[1].lengths[i]},
                    longest = n[0] > n[1] ? n[0] : n[1];
            if (in_use[i] && longest <= s->corpus.max_length) {
                for (side = 0; side < 2; side++)
                    add_ids(&data->learn.ids[side], cut[side].ids + at[side], n[side]);
                if (longest > data->sizes.longest) data->sizes.longest = longest;
            }
            at[0] += (size_t)n[0];
            at[1] += (size_t)n[1];
        }
    }
    free_side(&cut[0]);
    free_side(&cut[1]);
    return status;
}

static void count_pair(struct examples *data, size_t number)
{
    int side;
    for (side = 0; side < 2; side++) {
        int32_t n = data->learn.ids[side].lengths[number];
        data->sizes.tokens[side] += n + 1;
        if (n > data->sizes.longest) data->sizes.longest = n;
    }
    data->sizes.pairs++;
}

static int check_data_sizes(const struct settings *s, const struct examples *data)
{
    const char *what = s->objective == OBJECTIVE_TRANSLATE ? "pair" : "text";
    if (data->sizes.pairs == 0) { say("no %s is left to train on", what); return FAILED; }
    if (data->held.text[0].count == 0 || data->held.ids[0].count) return DONE;
    say("no %s is left to validate on", what);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>documents      text alone, in chunks
//
// Each line is a document, or the whole file is one (--documents file). A chunk has at most --chunk
// tokens; a longer document continues in the next chunk. A language model reads an end mark after
// each document, and none at the end of a chunk within a document. With --pack a chunk may hold
// several documents.
// -----------------------------------------------------------------------------------------------

/* all: also what is shorter than a chunk; else it stays. */
static void cut_chunks(const struct settings *s, struct stream *stream, struct pairs *to, int all)
{
    int lead = leading_side(s);
    size_t at, n, chunk = (size_t)s->chunk;
    for (at = 0; at < stream->n && (all || stream->n - at >= chunk); at += n) {
        n = stream->n - at < chunk ? stream->n - at : chunk;
        add_ids(&to->ids[lead], stream->ids + at, (int32_t)n);
        add_ids(&to->ids[!lead], NULL, 0);
    }
    if (at) memmove(stream->ids, stream->ids + at, (stream->n - at) * sizeof *stream->ids);
    stream->n -= at;
}

static void end_document(const struct settings *s, struct stream *stream)
{
    if (s->objective != OBJECTIVE_CAUSAL || stream->n == 0) return;
    stream->ids = grow(stream->ids, &stream->capacity, stream->n + 1, sizeof *stream->ids);
    stream->ids[stream->n++] = s->config.eos;
}

/* A file that is one document has line ends. Vocabularies of words and most SentencePiece models
   have no token for one. */
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab)
{
    int32_t ids[16], n;
    char text[64] = "";
    trf_error err;
    if (s->documents != DOCUMENTS_FILE || !s->text) return;
    if (!trf_vocab_encode(vocab, "\n", ids, 16, &n, &err) && n <= 16)
        (void)trf_vocab_decode(vocab, ids, n, text, sizeof text, NULL, &err);
    if (!strchr(text, '\n'))
        say("warning: the vocabulary has no token for a line end: the line ends of %s are lost, "
            "and the model cannot write any; --tokens characters and --tokens sentencepiece keep "
            "them",
            s->text);
}

static int add_document(const struct encoder *e, struct pairs *to, size_t i, const char *file,
                        struct stream *stream)
{
    const struct settings *s = e->s;
    const trf_vocab *vocab = e->vocab[leading_side(s)];
    const struct text *text = &to->text[leading_side(s)];
    const char *line = line_of(text, i), *fault = unlearnable(vocab, line);
    trf_error err;
    int32_t n = 0;
    int status = DONE;
    if (fault) status = skip(s, e->data, SKIP_LONG, file, text->numbers[i], fault);
    else if (encode_after(vocab, line, &stream->ids, stream->n, &stream->capacity, &n, &err))
        status = skip(s, e->data, SKIP_UNREADABLE, file, text->numbers[i], err.message);
    else stream->n += (size_t)n;
    if (s->documents == DOCUMENTS_FILE || n == 0) return status;
    end_document(s, stream);
    if (!s->pack) cut_chunks(s, stream, to, 1);
    return status;
}

static int add_documents(const struct encoder *e, struct pairs *to, const char *file)
{
    struct stream stream = {NULL, 0, 0};
    size_t i;
    int status = DONE;
    for (i = 0; i < to->text[leading_side(e->s)].count && !status; i++)
        status = add_document(e, to, i, file, &stream);
    if (e->s->documents == DOCUMENTS_FILE) end_document(e->s, &stream);
    cut_chunks(e->s, &stream, to, 1);
    free(stream.ids);
    return status;
}

int encode_line(const struct settings *s, struct examples *data, const trf_vocab *const vocab[2],
                const char *const files[2], struct stream *stream)
{
    const struct encoder e = {s, data, vocab, NULL};
    int taken;
    if (!learns_from_text(s)) return add_pair(&e, &data->learn, 0, files, &taken);
    if (add_document(&e, &data->learn, 0, files[0], stream)) return FAILED;
    cut_chunks(s, stream, &data->learn, 0);
    return DONE;
}

void end_text(const struct settings *s, struct examples *data, struct stream *stream, int last)
{
    if (!learns_from_text(s)) return;
    if (s->documents == DOCUMENTS_FILE) end_document(s, stream);
    cut_chunks(s, stream, &data->learn, last || s->documents == DOCUMENTS_FILE);
}

static int encode_documents(const struct encoder *e, const char *training, const char *validation)
{
    struct examples *data = e->data;
    size_t i;
    if (add_documents(e, &data->learn, training) || add_documents(e, &data->held, validation))
        return FAILED;
    for (i = 0; i < data->learn.ids[0].count; i++) count_pair(data, i);
    return check_data_sizes(e->s, data);
}

// -----------------------------------------------------------------------------------------------
// >>all            the data, and the corpus
// -----------------------------------------------------------------------------------------------

/* What --token-file has. The corpus opens it again, when the recipe has chosen the batches. */
static int read_facts(const struct settings *s, struct examples *data,
                      const trf_vocab *const vocab[2])
{
    trf_corpus_options any = trf_corpus_defaults();
    trf_corpus *corpus;
    trf_error err;
    any.max_length = s->corpus.max_length;
    if (trf_corpus_open(&corpus, s->token_file, vocab[0], vocab[1], &any, &err)) {
        say_error(NULL, &err);
        if (err.status == TRF_E_LIMIT)
            say("give the --max-length of trf prepare, or prepare the text with this one");
        return FAILED;
    }
    data->facts = *trf_corpus_facts(corpus);
    if (data->facts.longest == 0) {
        say("%s: no pair has a token: nothing to learn from", s->token_file);
        trf_corpus_destroy(corpus);
        return FAILED;
    }
    data->sizes.pairs = data->facts.pairs;
    data->sizes.tokens[0] = data->facts.source_ids + data->facts.pairs;
    data->sizes.tokens[1] = data->facts.target_ids + data->facts.pairs;
    data->sizes.longest = data->facts.longest;
    trf_corpus_destroy(corpus);
    return DONE;
}

int encode_data(const struct settings *s, struct examples *data, const struct vocabularies *v,
                const trf_vocab *const vocab[2], const struct labels *labels)
{
    const struct encoder e = {s, data, vocab, labels};
    struct pairs *held = &data->held;
    const char *const training[2] = {training_file(s, 0), training_file(s, 1)};
    const char *validation[2] = {s->valid_text  ? s->valid_text
                                 : s->valid_tsv ? s->valid_tsv
                                                : s->valid_source,
                                 s->valid_tsv ? s->valid_tsv : s->valid_target};
    char *in_use;       /* 1: the line is trained on */
    int taken, status = DONE;
    size_t i;
    if (!validation[0]) validation[0] = training[0], validation[1] = training[1];
    busy_with("tokenizing the data ...\n");
    if (s->token_file && read_facts(s, data, vocab)) return FAILED;
    if (learns_from_text(s)) return encode_documents(&e, training[0], validation[0]);
    in_use = zeroed(data->learn.text[0].count, 1);
    for (i = 0; i < data->learn.text[0].count && !status; i++) {
        status = add_pair(&e, &data->learn, i, training, &taken);
        if (taken) count_pair(data, data->learn.ids[0].count - 1);
        in_use[i] = (char)taken;
    }
    if (!status && s->subword_samples > 1) status = add_samples(&e, v, in_use);
    free(in_use);
    if (status) return status;
    for (i = 0; i < held->text[0].count; i++) {
        if (add_pair(&e, held, i, validation, &taken)) return FAILED;
        if (!taken) continue;
        held->line = grow(held->line, &held->line_capacity, held->ids[0].count, sizeof *held->line);
        held->line[held->ids[0].count - 1] = i;
    }
    return check_data_sizes(s, data);
}

/* Fails if the pairs of a token file lack the tags of the languages. Only the first pair is looked
   at: trf prepare tags all pairs or none. */
static int check_prepared(const struct settings *s, trf_corpus *corpus)
{
    const struct around tags[2] = {tags_of(s, 0), tags_of(s, 1)};
    trf_batch batch;
    trf_error err;
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
    trf_corpus_rewind(corpus);
    if (lacks)
        say("%s: its pairs lack the tags of %s%s%s: give the languages to trf prepare",
            s->token_file, s->source_first ? s->source_first : s->source_last ? s->source_last : "",
            s->forced_first ? " and " : "", s->forced_first ? s->forced_first : "");
    return lacks ? FAILED : DONE;
}

/* Counts the batches of the first pass. Later passes may have a few more or less, as their batches
   differ. */
int fill_corpus(const struct settings *s, struct examples *data, const trf_vocab *const vocab[2],
                trf_corpus **corpus, struct plan *plan)
{
    struct side *ids = data->learn.ids;
    size_t i, used[2] = {0, 0};
    int64_t batches;
    trf_batch batch;
    trf_error err;
    if (s->token_file ? trf_corpus_open(corpus, s->token_file, vocab[0], vocab[1], &s->corpus, &err)
                      : trf_corpus_create(corpus, &s->corpus, &err))
        goto failed;
    if (s->token_file && check_prepared(s, *corpus)) return FAILED;
    for (i = 0; i < ids[0].count; i++) {
        if (trf_corpus_add(*corpus, ids[0].ids + used[0], ids[0].lengths[i], ids[1].ids + used[1],
                           ids[1].lengths[i], &err))
            goto failed;
        used[0] += (size_t)ids[0].lengths[i];
        used[1] += (size_t)ids[1].lengths[i];
    }
    free_side(&ids[0]);
    free_side(&ids[1]);
    if (trf_corpus_batches(*corpus, &batches, &err)) goto failed;
    if (n_ranks() > 1) {
        if (trf_corpus_next(*corpus, &batch, &err)) goto failed;
        plan->fingerprint = batch.place.corpus;
        trf_corpus_rewind(*corpus);
    }
    plan->batches = batches;
    plan->per_epoch = (int64_t)fmax(1, (double)(batches + s->accumulate / 2) / s->accumulate);
    return DONE;
failed:
    say_error("corpus", &err);
    return FAILED;
}

static int64_t count_unknown(const struct side *ids, const trf_vocab *vocab)
{
    int64_t unknown = 0;
    size_t i;
    for (i = 0; i < ids->used; i++) unknown += ids->ids[i] == unknown_id(vocab);
    return unknown;
}

/* Of the data to train on. */
static int64_t unknown_of(const struct settings *s, const struct examples *data,
                          const trf_vocab *vocab, int side, double *share)
{
    const trf_token_facts *facts = &data->facts;
    int64_t n = s->token_file ? side ? facts->target_ids : facts->source_ids
                              : (int64_t)data->learn.ids[side].used;
    int64_t unknown = s->token_file ? side ? facts->target_unknown : facts->source_unknown
                                    : count_unknown(&data->learn.ids[side], vocab);
    *share = (double)unknown / fmax(1, (double)n);
    return unknown;
}

/* A vocabulary of another text may know few words of this text, and the one of training few of
   those of validation. */
void warn_of_unknown(const struct settings *s, const struct examples *data,
                     const trf_vocab *const vocab[2])
{
    int side;
    for (side = 0; side < 2; side++) {
        double learned, held;
        if (!reads_side(s, side)) continue;
        (void)unknown_of(s, data, vocab[side], side, &learned);
        held = (double)count_unknown(&data->held.ids[side], vocab[side]) /
               fmax(1, (double)data->held.ids[side].used);
        if (learned > 0.05)
            say("warning: %.1f %% of the %s's tokens are unknown to the vocabulary: the model "
                "will neither read nor write them%s",
                100 * learned, side ? "target" : "source",
                s->init_from && !s->extend_vocabulary &&
                        (trf_vocab_kind(vocab[side]) == TRF_WORDS ||
                         trf_vocab_kind(vocab[side]) == TRF_CHARACTERS)
                    ? "; --extend-vocabulary adds them"
                    : "");
        if (held > 0.05)
            say("warning: %.1f %% of the %s's tokens in the pairs held out are unknown to the "
                "vocabulary",
                100 * held, side ? "target" : "source");
    }
}

/* Unknown tokens among the targets: the model learns to write them. */
int64_t count_unknown_targets(const struct settings *s, const struct examples *data,
                              const trf_vocab *const vocab[2])
{
    int side = reads_side(s, 1) && s->objective != OBJECTIVE_SPAN;
    double share;
    return unknown_of(s, data, vocab[side], side, &share);
}
