// trf prepare: writes texts as a token file, from which trf train reads each batch.
//
// Texts are read line by line and never kept. The library's data set makes the pairs and chunks,
// and leaves lines out, as for trf train, so both train the same model.
//
// The mark of a pair is the number of its line, counted over all files, times 2^30, plus how many
// pairs the line has up to this one, plus 2^20 times ten bits of a hash of all text up to this
// line. --resume skips the lines before that of the last pair, and of this line the pairs that are
// in the file. Chunks that hold several lines have no such place: then all text is cut into tokens
// again, and as many chunks are skipped as the file has. If the last of these has another mark, the
// text is another one.

#include "train.h"
#include "data.h"
#include "hold_out.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bits of a mark: pairs of a line, and the same with the hash. */
enum { PAIRS_OF_A_LINE = 20, OF_A_LINE = 30 };

struct preparation {
    struct settings *s;
    const trf_vocab *vocab[2];
    trf_token_file *file;
    struct stat part;               /* of the token file, when it was opened */
    struct hold_out held;
    struct data data;               /* its pairs go to the file */
    int64_t line, from_line;        /* read so far; the first that counts */
    int64_t of_line, to_skip;       /* pairs of this line so far; pairs that the file has already */
    int64_t mark;                   /* of the last of those */
    uint64_t hash;                  /* of the text so far */
    double began, shown;
    int terminal;
};

// -----------------------------------------------------------------------------------------------
// >>progress       a line that is overwritten once a second; in a file, one every 30 seconds
// -----------------------------------------------------------------------------------------------

static void show(struct preparation *p, int last)
{
    const trf_token_facts *f = trf_token_file_facts(p->file);
    double time = now();
    char took[32];
    if (quiet || (!last && time - p->shown < (p->terminal ? 1 : 30))) return;
    p->shown = time;
    time_text(time - p->began, took);
    if (p->terminal) fputs("\r", stderr);
    inform("%lld line%s, %lld %s%s, %lld tokens, %s%s", (long long)p->line, plural(p->line),
           (long long)f->pairs, learns_from_text(p->s) ? "chunk" : "pair", plural(f->pairs),
           (long long)(f->source_ids + f->target_ids), took, p->terminal && !last ? "    " : "\n");
    unfinished_line = p->terminal && !last;
}

// -----------------------------------------------------------------------------------------------
// >>lines          from a line to pairs in the file
// -----------------------------------------------------------------------------------------------

/* The mark of this line's next pair; -1: reported. */
static int64_t next_mark(struct preparation *p)
{
    int64_t hash = (int64_t)(p->hash >> (64 - OF_A_LINE + PAIRS_OF_A_LINE)),
            mark = (p->line << OF_A_LINE) + (hash << PAIRS_OF_A_LINE) + ++p->of_line;
    if (p->of_line >> PAIRS_OF_A_LINE) {
        say("line %lld has more than %d chunks: cut it", (long long)p->line,
            (1 << PAIRS_OF_A_LINE) - 1);
        return -1;
    }
    if (p->to_skip != 1 || mark == p->mark) return mark;
    say("up to line %lld the text is not that of '%s.part': --resume needs the same text",
        (long long)p->line, p->s->output);
    return -1;
}

/* Writes a pair that a line completed, unless the file has it already. */
static trf_status write_pair(void *user, const int32_t *source, int32_t n_source,
                             const int32_t *target, int32_t n_target, trf_error *err)
{
    struct preparation *p = ((struct data *)user)->user;
    int64_t mark = next_mark(p);
    if (mark < 0) {
        p->data.status = FAILED;
        return TRF_E_CANCELLED;
    }
    if (p->to_skip == 0)
        return trf_token_file_add(p->file, source, n_source, target, n_target, mark, err);
    p->to_skip--;
    return TRF_OK;
}

/* A line of pairs, or of text; `fault`: why it is neither. */
static int add_prepared(struct preparation *p, const trf_line *line, const char *fault,
                        const struct reader *at)
{
    int status, leads = leading_side(p->s);
    const char *source = line->source ? line->source : leads ? "" : line->target,
               *target = line->source || leads ? line->target : "";
    p->line++;
    p->of_line = 0;
    p->hash = hash_bytes(hash_bytes(p->hash, source, strlen(source)), target, strlen(target));
    if (!fault && (line->source ? hold_out_pair(&p->held, line->source, line->target)
                                : hold_out_text(&p->held, line->target))) return DONE;
    if (p->line < p->from_line) return DONE;
    if (fault && at->kind == TRF_FAULT_ENCODING) note_bytes(&p->data.bytes, at->line, at->length);
    if (fault) return skip(&p->data, at->kind, at->name, at->number, fault);
    status = add_line(&p->data, line);
    show(p, 0);
    return status;
}

static int add_pairs(struct preparation *p, const char *source, const char *target, const char *tsv)
{
    struct pair_reader pairs;
    int got = -1, status = open_pairs(&pairs, source, target, tsv, tsv ? p->s->columns : NULL);
    while (!status && (got = next_pair(&pairs)) > 0) {
        trf_line line = {pairs.source, pairs.target, pairs.side[0].name, pairs.side[0].number,
                         0, 0};
        status = add_prepared(p, &line, pairs.fault, pairs.at);
    }
    close_pairs(&pairs);
    return status ? status : got ? FAILED : DONE;
}

static int add_text_file(struct preparation *p, const char *path)
{
    const trf_line end = {NULL, NULL, path, 0, 0, 1};
    struct reader r;
    int got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *text = format_text("%s%s", r.line, p->s->train.documents == DOCUMENTS_FILE ? "\n"
                                 : "");
        trf_line line = {NULL, text, r.name, r.number, 0, 0};
        status = add_prepared(p, &line, r.fault, &r);
        free(text);
    }
    close_reader(&r);
    if (status || got) return status ? status : FAILED;
    p->of_line = 0;
    return p->s->train.documents == DOCUMENTS_FILE ? add_line(&p->data, &end) : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>files          the texts, and folders of them
// -----------------------------------------------------------------------------------------------

/* What the token file is called until it is finished; malloc'd. */
static char *part_of(const struct settings *s) { return format_text("%s.part", s->output); }

/* Whether a path is the token file, what an interrupted one is called, or what was held out. */
static int is_output(const struct settings *s, const char *path)
{
    char *part = part_of(s);
    int is = same_file(s->output, path) || same_file(part, path) || is_held_out(s, path);
    free(part);
    return is;
}

static int add_file(void *user, const char *path)
{
    struct preparation *p = user;
    return learns_from_text(p->s) ? add_text_file(p, path) : add_pairs(p, NULL, NULL, path);
}

static int add_all(struct preparation *p, int argc, char **argv)
{
    const struct settings *s = p->s;
    trf_error err;
    int i, status = DONE;
    if (s->source) return add_pairs(p, s->source, s->target, NULL);
    if (argc == 0) status = add_file(p, "-");
    for (i = 0; i < argc && !status; i++)
        status = for_each_file(argv[i], s, is_output, add_file, p);
    if (status) return status;
    p->of_line = 0;
    if (!trf_dataset_finish(p->data.set, &err)) return DONE;
    if (!p->data.status) say_error(NULL, &err);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>checks         before anything is read or written
// -----------------------------------------------------------------------------------------------

static int check_inputs(const struct settings *s, int argc, char **argv)
{
    const char *const sides[2] = {s->source, s->target};
    struct stat there;
    int i;
    if (!s->model) {
        say("give --model FILE, a model whose vocabularies make the tokens");
        return USAGE;
    }
    if (!s->output || !*s->output || !strcmp(s->output, "-")) {
        say("give --output FILE, the token file to write");
        return USAGE;
    }
    if ((s->source || s->target) && (argc || !s->source || !s->target)) {
        say("give --source FILE and --target FILE, or only files of pairs");
        return USAGE;
    }
    if (check_columns(s->columns)) return USAGE;
    if (s->columns && s->source) { say("--columns is for pairs in one file"); return USAGE; }
    if (s->train.hold_out == 1) { say("--hold-out 1 leaves nothing to train on"); return USAGE; }
    if (s->train.hold_out && s->train.documents == DOCUMENTS_FILE) {
        say("--hold-out takes lines out of a text, which --documents file would break: give the "
            "validation a file of its own");
        return USAGE;
    }
    if (check_written(s, "output", s->output) || check_model_file(s->model) ||
        check_readable(s->source) || check_readable(s->target))
        return FAILED;
    for (i = 0; i < argc; i++)
        if ((stat(argv[i], &there) || !S_ISDIR(there.st_mode)) && check_readable(argv[i]))
            return FAILED;
    for (i = -2; i < argc; i++) {
        const char *path = i < 0 ? sides[i + 2] : argv[i];
        if (!path || !is_output(s, path)) continue;
        say("--output %s would replace '%s', which is also a text to read", s->output, path);
        return FAILED;
    }
    return DONE;
}

/* *complete: there is nothing to continue. */
static int check_existing(const struct settings *s, int *complete)
{
    char *part = part_of(s);
    int begun = !access(part, F_OK), status = DONE;
    *complete = s->resume && !begun && is_taken(s->output);
    if (begun && !s->resume && !s->overwrite) {
        say("'%s' was interrupted: --resume continues it, --overwrite begins again", part);
        status = FAILED;
    } else if (!s->resume) status = check_output_name(s);
    if (!status) status = check_hold_out(s, begun, *complete);
    if (!status && *complete) status = name_hold_out(s);
    if (!status && *complete) inform_line("'%s' is complete", s->output);
    free(part);
    return status;
}

/* The model's kind says what its texts are; another objective may be given. */
static int settle(struct settings *s, const trf_model *model, const trf_vocab *vocab[2])
{
    int32_t most = s->config.max_length;
    int side, objective = is_given(s, AT(objective));
    s->config = *trf_model_config(model);
    if (is_given(s, AT(config.max_length))) s->config.max_length = most;
    if (!objective)
        s->objective = s->config.kind == TRF_DECODER_ONLY   ? OBJECTIVE_CAUSAL
                       : s->config.kind == TRF_ENCODER_ONLY ? OBJECTIVE_MASK
                                                            : OBJECTIVE_TRANSLATE;
    if (learns_labels(s)) {
        say("a token file has no labels: --objective classify, tag and pretrain train on text");
        return USAGE;
    }
    vocab[0] = reads_side(s, 0) ? trf_model_vocab(model, TRF_SOURCE) : NULL;
    vocab[1] = reads_side(s, 1) ? trf_model_vocab(model, TRF_TARGET) : NULL;
    for (side = 0; side < 2; side++)
        if (reads_side(s, side) && !vocab[side]) {
            say_no_vocabulary(s->model, &s->config, vocab[0], vocab[1]);
            return FAILED;
        }
    if (learns_from_text(s) && (s->source || s->columns)) {
        say("this model learns from text, not from pairs: give files of text");
        return USAGE;
    }
    if (check_effects(s)) return USAGE;
    return settle_chunk(s);
}

// -----------------------------------------------------------------------------------------------
// >>all
// -----------------------------------------------------------------------------------------------

/* Whether the file that is written still has its name: somebody may have removed it, and another
   trf prepare may write a new one there. */
static int has_its_name(const struct preparation *p)
{
    char *part = part_of(p->s);
    struct stat there;
    int has = !stat(part, &there) && there.st_dev == p->part.st_dev &&
              there.st_ino == p->part.st_ino;
    free(part);
    return has;
}

/* Opens the token file. Chunks of several lines are counted, the others found by their line. */
static int open_tokens(struct preparation *p)
{
    const struct settings *s = p->s;
    char *part = part_of(s);
    trf_token_file_options o;
    const trf_token_facts *facts;
    trf_error err;
    int side, by_line = !learns_from_text(s) ||
        (!s->train.pack && s->train.documents == DOCUMENTS_LINES);
    int status = FAILED;
    memset(&o, 0, sizeof o);
    o.source_vocab = p->vocab[0];
    o.target_vocab = p->vocab[1];
    o.max_length = s->corpus.max_length;
    o.resume = s->resume;
    o.id_bytes = 2;
    for (side = 0; side < 2; side++)
        if (p->vocab[side] && trf_vocab_size(p->vocab[side]) > 65535) o.id_bytes = 4;
    if (trf_token_file_create(&p->file, s->output, &o, &err)) say_error(NULL, &err);
    else if (stat(part, &p->part)) say("cannot find '%s': %s", part, strerror(errno));
    else status = begin_hold_out(&p->held, s);
    free(part);
    if (status) return FAILED;
    facts = trf_token_file_facts(p->file);
    p->from_line = by_line ? facts->mark >> OF_A_LINE : 0;
    p->to_skip = by_line ? facts->mark & ((1 << PAIRS_OF_A_LINE) - 1) : facts->pairs;
    p->mark = facts->mark;
    if (facts->pairs)
        inform("continued: %lld %s are in the file\n", (long long)facts->pairs,
               learns_from_text(s) ? "chunks" : "pairs");
    return DONE;
}

/* A data set whose pairs go to the file. */
static int begin_set(struct preparation *p)
{
    trf_dataset_options o = data_options(&p->data);
    trf_error err;
    o.source_vocab = p->vocab[0];
    o.target_vocab = p->vocab[1];
    o.pair = write_pair;
    if (!trf_dataset_create(&p->data.set, &o, &err)) return DONE;
    say_error(NULL, &err);
    return FAILED;
}

static int finish(struct preparation *p)
{
    const trf_token_facts *f = trf_token_file_facts(p->file);
    trf_error err;
    show(p, 1);
    if (say_skips(&p->data, f->pairs, 1)) return FAILED;
    say_held_out(&p->held, learns_from_text(p->s) ? "line" : "pair");
    if (p->to_skip > 0 || p->line < p->from_line) {
        say("the text ends before the place where the file was interrupted: --resume needs the "
            "same text");
        return FAILED;
    }
    if (f->pairs == 0) { say("the text has nothing to learn from"); return FAILED; }
    if (!has_its_name(p)) {
        say("'%s.part' was removed or replaced while trf wrote it: --overwrite begins again",
            p->s->output);
        return FAILED;
    }
    if (flush_hold_out(&p->held)) return FAILED;
    if (trf_token_file_finish(p->file, &err)) { say_error(NULL, &err); return FAILED; }
    if (name_hold_out(p->s)) return FAILED;
    if (f->source_unknown + f->target_unknown)
        inform("%lld of %lld source and %lld of %lld target tokens are unknown to the model\n",
               (long long)f->source_unknown, (long long)f->source_ids,
               (long long)f->target_unknown, (long long)f->target_ids);
    return DONE;
}

/* A file without pairs has nothing to continue. */
static void remove_part(const struct preparation *p)
{
    char *part = part_of(p->s);
    if (has_its_name(p)) unlink(part);
    free(part);
}

int command_prepare(struct settings *s, int argc, char **argv)
{
    struct preparation p;
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    int empty, complete, status;
    memset(&p, 0, sizeof p);
    p.s = p.data.s = s;
    p.data.user = &p;
    if ((status = check_inputs(s, argc, argv)) || (status = check_existing(s, &complete)))
        return status;
    if (complete) return DONE;
    if (trf_model_load(&model, s->model, &load, &err)) return model_refused(s, &err);
    p.began = p.shown = now();
    p.terminal = !quiet && isatty(STDERR_FILENO);
    status = settle(s, model, p.vocab);
    if (!status) status = read_fixed_tags(s, model, p.vocab);
    if (!status) status = open_tokens(&p);
    if (!status) status = begin_set(&p);
    if (!status) status = add_all(&p, argc, argv);
    if (!status) status = finish(&p);
    empty = p.file && trf_token_file_facts(p.file)->pairs == 0;
    trf_token_file_destroy(p.file);
    if (empty) remove_part(&p);
    end_hold_out(&p.held, empty);
    end_data(&p.data);
    trf_model_destroy(model);
    return status;
}
