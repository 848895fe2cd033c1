// trf train: the metrics of a validation. See measure.h.

#include "measure.h"
#include "tools/metrics/metrics.h"

static const char *const metric_names[] = {"auto", "loss", "bleu",     "chrf", "exact",
                                           "wer",  "cer",  "accuracy", "f1",
                                           "pearson", "spearman"};

const char *metric_name(enum metric metric) { return metric_names[metric]; }

static int is_error_rate(enum metric metric)
{
    return metric == METRIC_WER || metric == METRIC_CER;
}

const char *metric_unit(enum metric metric)
{
    return metric == METRIC_EXACT || metric == METRIC_ACCURACY || is_error_rate(metric) ? " %" : "";
}

enum metric metric_of(const struct settings *s) { return (enum metric)s->train.metric; }

trf_metric library_metric(enum metric metric)
{
    return metric == METRIC_LOSS ? TRF_METRIC_LOSS : is_error_rate(metric) ? TRF_METRIC_ERROR_RATE
         : metric == METRIC_ACCURACY ? TRF_METRIC_ACCURACY : TRF_METRIC_CUSTOM;
}

int is_better_by(enum metric metric, double score, double loss, double than, double than_loss)
{
    trf_early_stopping before = {0, 1, 0, 0, 0};
    before.best = than;
    before.best_loss = than_loss;
    return trf_early_stopping_add(&before, library_metric(metric), 2, score, loss) > 0;
}

/* Once the best score is perfect, the library waits for three more validations, however many it may. */
int is_perfect(enum metric metric, double score)
{
    trf_early_stopping best = {0, 1, 0, 0, 0};
    best.best = score;
    return trf_early_stopping_left(&best, library_metric(metric), 4) == 3;
}

int is_translating(enum metric metric) { return metric >= METRIC_BLEU && metric <= METRIC_CER; }

char *join_pieces(int cut, char *text)
{
    char *from = text, *to = text;
    if (!cut) return text;
    while (*from) {
        if (!strncmp(from, "@@ ", 3)) from += 3;
        else if (!strcmp(from, "@@")) from += 2;
        else *to++ = *from++;
    }
    *to = 0;
    return text;
}

int check_label_metric(const struct settings *s)
{
    const int numbers = s->objective == OBJECTIVE_CLASSIFY &&
                        s->config.label_kind == TRF_LABELS_NUMBERS;
    enum metric metric = metric_of(s);
    if (metric < METRIC_ACCURACY || numbers == (metric >= METRIC_PEARSON)) return DONE;
    say("--metric %s does not work with --label-kind %s", metric_name(metric),
        numbers ? "number" : s->config.label_kind ? "any" : "one");
    return USAGE;
}

/* BLEU counts n-grams of up to four words. It is useful if nearly all references have four words
   and their mean is six or more. If no reference has four, it is always 0. The words are those that
   BLEU counts. */
int bleu_is_useful(const char *const *references, int64_t n, int cut, int *nothing)
{
    struct metrics_options options;
    struct metrics *m;
    const struct metrics_sums *sums;
    int64_t grams = 0, four = 0, i;
    int is;
    memset(&options, 0, sizeof options);
    options.figures = 1u << FIGURE_BLEU;
    options.tokens = cut ? METRICS_NONE : METRICS_13A;
    m = metrics_create(&options);
    if (!m) { say("out of memory"); exit(FAILED); }
    sums = metrics_sums(m);
    for (i = 0; i < n; i++) {
        char *line = join_pieces(cut, format_text("%s", references[i]));
        const char *reference = line;
        if (metrics_add(m, line, &reference, 1)) { say("out of memory"); exit(FAILED); }
        free(line);
        four += sums->bleu[3].hypothesis > grams;
        grams = sums->bleu[3].hypothesis;
    }
    *nothing = grams == 0;
    is = (double)four >= 0.9 * (double)n && (double)sums->reference_length >= 6 * (double)n;
    metrics_destroy(m);
    return is;
}

/* The metric counts what the target consists of: characters, words, or, if there are few words or
   no blanks between them, characters of subwords. */
static enum metric translation_metric(const trf_vocab *vocab, const char *const *references,
                                      int64_t n)
{
    trf_token_kind kind = trf_vocab_kind(vocab);
    int nothing;
    if (kind == TRF_CHARACTERS) return METRIC_CER;
    if (trf_vocab_size(vocab) > 500 && bleu_is_useful(references, n, kind == TRF_WORDS, &nothing))
        return METRIC_BLEU;     /* sentences of a language */
    return kind == TRF_WORDS ? METRIC_WER : METRIC_CHRF;
}

void settle_metric(struct settings *s, const trf_vocab *vocab, const trf_data_lines *lines)
{
    int64_t held = lines->n_held_out;
    const char *const *references = lines->target + (held ? lines->n : 0);
    if (s->train.metric != METRIC_AUTO) return;
    if (s->objective == OBJECTIVE_TRANSLATE)
        /* the other metrics take no notice of blanks */
        s->train.metric = have_blanks(lines->target, lines->n) ? METRIC_CER
            : (int32_t)translation_metric(vocab, references, held ? held : lines->n);
    else s->train.metric = is_scored_by_labels(s) && !s->config.label_kind ? METRIC_ACCURACY
                                                                           : METRIC_LOSS;
}
