// trf report: answers beside references, scores by length, labels. See report.h.

#include "report.h"

#include <math.h>

enum { SHOWN_LABELS = 20 }; /* in the table of confusions; one more row has all others */

// -----------------------------------------------------------------------------------------------
// >>scores
// -----------------------------------------------------------------------------------------------

static void put_figures(FILE *to, const struct data *d)
{
    static const enum figure figures[] = {FIGURE_BLEU, FIGURE_CHRF, FIGURE_EXACT, FIGURE_WER,
                                          FIGURE_CER};
    static const char *const about[] = {
        "higher is better", "higher is better", "lines with all words right, per 100",
        "errors per 100 words: lower is better", "errors per 100 characters: lower is better"};
    const struct metrics_sums *sums = metrics_sums(d->metrics);
    char signature[160];
    size_t i;
    begin_table(to, "Scores", "metric|#value|how it is counted");
    for (i = 0; i < sizeof figures / sizeof *figures; i++) {
        int nothing = figures[i] == FIGURE_BLEU && sums->bleu[3].reference == 0;
        metrics_signature(d->metrics, figures[i], "trf-" TRF_VERSION, signature, sizeof signature);
        fprintf(to, "<tr><th scope=row>%s<td class=n>%s<td>%s <small>%s</small>\n",
                metrics_figures[figures[i]].title,
                number_text(nothing ? NAN : metrics_value(d->metrics, figures[i]), 2),
                nothing ? "means nothing here, as no reference has four words;" : about[i],
                signature);
    }
    end_table(to);
}

/* For label i: how many references have it, how many answers have it, and how many have both. */
static void label_counts(const struct data *d, int32_t i, int64_t counts[3])
{
    int64_t n = d->labels.n, k;
    counts[0] = counts[1] = 0;
    for (k = 0; k < n; k++) counts[0] += d->confusion[i * n + k];
    for (k = 0; k <= n; k++) counts[1] += d->confusion[k * n + i];
    counts[2] = d->confusion[i * n + i];
}

static int64_t unknown_labels(const struct data *d)
{
    int64_t n = d->labels.n, k, sum = 0;
    for (k = 0; k < n; k++) sum += d->confusion[n * n + k];
    return sum;
}

static double f1_of(const int64_t counts[3])
{
    return counts[0] + counts[1] ? 200.0 * (double)counts[2] / (double)(counts[0] + counts[1])
                                 : NAN;
}

static void put_accuracy(FILE *to, const struct data *d)
{
    int64_t right = 0, units = 0, counts[3];
    double sum = 0;
    int32_t i, some = 0;
    for (i = 0; i < LENGTH_CLASSES; i++) {
        right += d->by_length[i].right;
        units += d->by_length[i].units;
    }
    for (i = 0; i < d->labels.n; i++) {
        label_counts(d, i, counts);
        if (!(counts[0] + counts[1])) continue;
        sum += f1_of(counts);
        some++;
    }
    fprintf(to,
            "<p>Accuracy <b>%s</b> %%: %s of %s %s%s have the label of the reference. "
            "Macro-averaged F1 <b>%s</b>.</p>\n",
            number_text(100 * (double)right / (double)units, 2), whole_text((double)right),
            whole_text((double)units), d->task == TASK_TAG ? "word" : "line", plural(units),
            number_text(sum / some, 2));
    if (unknown_labels(d))
        fprintf(to, "<p>%s of them should have a label that the model does not know.</p>\n",
                whole_text((double)unknown_labels(d)));
}

static void put_perplexity(FILE *to, const struct data *d)
{
    int64_t texts = 0, tokens = 0;
    double sum = 0;
    int i;
    for (i = 0; i < LENGTH_CLASSES; i++) {
        texts += d->by_length[i].lines;
        tokens += d->by_length[i].units;
        sum += d->by_length[i].log_probability;
    }
    fprintf(to,
            "<p>Perplexity <b>%s</b>: %s nats a token, over %s tokens of %s text%s, EOS included."
            "</p>\n",
            number_text(exp(-sum / (double)tokens), -5), number_text(-sum / (double)tokens, 4),
            whole_text((double)tokens), whole_text((double)texts), plural(texts));
}

// -----------------------------------------------------------------------------------------------
// >>confusion      which labels the model confuses
// -----------------------------------------------------------------------------------------------

static const int64_t *occurs; /* how often each number occurs, for the comparison of a sort */

static int is_rarer(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (occurs[x] != occurs[y]) return occurs[x] > occurs[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

void sort_by_count(int32_t *order, int32_t n, const int64_t *counts)
{
    occurs = counts;
    qsort(order, (size_t)n, sizeof *order, is_rarer);
}

/* Lists the labels that occur, the most frequent first. Returns their number. */
static int32_t frequent_labels(const struct data *d, int32_t *order)
{
    int64_t *all = zeroed((size_t)d->labels.n, sizeof *all), counts[3];
    int32_t i, n = 0;
    for (i = 0; i < d->labels.n; i++) {
        label_counts(d, i, counts);
        all[i] = counts[0] + counts[1];
        if (all[i]) order[n++] = i;
    }
    sort_by_count(order, n, all);
    free(all);
    return n;
}

static void put_label(FILE *to, const struct data *d, int32_t label)
{
    fputs("<bdi>", to);
    put_html_start(to, d->labels.name[label], strlen(d->labels.name[label]), 40);
    fputs("</bdi>", to);
}

static void put_label_table(FILE *to, const struct data *d, const int32_t *order, int32_t n)
{
    int64_t counts[3];
    int32_t i;
    begin_table(to, "Labels", "label|#in references|#in answers|#both|#precision|#recall|#F1");
    for (i = 0; i < n; i++) {
        label_counts(d, order[i], counts);
        fputs("<tr><th scope=row>", to);
        put_label(to, d, order[i]);
        fprintf(to,
                "<td class=n>%lld<td class=n>%lld<td class=n>%lld<td class=n>%s<td class=n>%s"
                "<td class=n>%s\n",
                (long long)counts[0], (long long)counts[1], (long long)counts[2],
                number_text(100 * (double)counts[2] / (double)counts[1], 1),
                number_text(100 * (double)counts[2] / (double)counts[0], 1),
                number_text(f1_of(counts), 1));
    }
    end_table(to);
}

/* The sum of the confusions of a row and a column. -1: of all labels without a row or column of
   their own. */
static int64_t confused(const struct data *d, const int32_t *order, int32_t shown, int32_t n,
                        int32_t row, int32_t column)
{
    int64_t sum = 0;
    int32_t i, k;
    for (i = row < 0 ? shown : row; i < (row < 0 ? n : row + 1); i++)
        for (k = column < 0 ? shown : column; k < (column < 0 ? n : column + 1); k++)
            sum += d->confusion[(int64_t)order[i] * d->labels.n + order[k]];
    return sum;
}

static void put_confusion_row(FILE *to, const struct data *d, const int32_t *order, int32_t shown,
                              int32_t n, int32_t row)
{
    int64_t all = 0;
    int32_t k, width = shown + (n > shown);
    fputs("<tr><th scope=row>", to);
    if (row < 0) fputs("other labels", to);
    else put_label(to, d, order[row]);
    for (k = 0; k < width; k++) all += confused(d, order, shown, n, row, k < shown ? k : -1);
    for (k = 0; k < width; k++) {
        int64_t count = confused(d, order, shown, n, row, k < shown ? k : -1);
        fprintf(to, "<td class='n heat' style='--w:%.2f'>%lld",
                all ? (double)count / (double)all : 0, (long long)count);
    }
    fputs("\n", to);
}

static void put_labels(FILE *to, const struct data *d)
{
    int32_t *order = zeroed((size_t)d->labels.n, sizeof *order), n = frequent_labels(d, order), i,
            shown = n > SHOWN_LABELS ? SHOWN_LABELS : n;
    fputs("<h3>Labels</h3>\n", to);
    put_label_table(to, d, order, n > 100 ? 100 : n);
    if (n > 100) fputs("<p class=note>The 100 most frequent labels.</p>\n", to);
    fputs("<h3>Confusions</h3>\n<p>A row for each label of the references, a column for each that "
          "the model gave.</p>\n",
          to);
    begin_head(to, "Confusions", "");
    for (i = 0; i < shown; i++) {
        fputs("<th scope=col class=n>", to);
        put_label(to, d, order[i]);
    }
    if (n > shown) fputs("<th scope=col class=n>other labels", to);
    end_head(to);
    for (i = 0; i < shown; i++) put_confusion_row(to, d, order, shown, n, i);
    if (n > shown) put_confusion_row(to, d, order, shown, n, -1);
    end_table(to);
    free(order);
}

// -----------------------------------------------------------------------------------------------
// >>length
// -----------------------------------------------------------------------------------------------

/* Prints the values of the lines of a length. Returns the one that is drawn, 0 to 100. */
static double put_length_values(FILE *to, const struct data *d, const struct length_sums *sums)
{
    double bleu, chrf, accuracy = 100 * (double)sums->right / (double)sums->units;
    if (d->task == TASK_TEXT) {
        put_cell(to, number_text(exp(-sums->log_probability / (double)sums->units), -5));
        return NAN;
    }
    if (d->task == TASK_CLASSIFY || d->task == TASK_TAG) {
        put_cell(to, number_text(accuracy, 2));
        return accuracy;
    }
    bleu = sums->metrics.bleu[3].reference ? metrics_value_of(&sums->metrics, FIGURE_BLEU) : NAN;
    chrf = metrics_value_of(&sums->metrics, FIGURE_CHRF);
    put_cell(to, number_text(bleu, 2));
    put_cell(to, number_text(accuracy, 2));
    put_cell(to, number_text(chrf, 2));
    return chrf;
}

static void put_lengths(FILE *to, const struct data *d)
{
    static const char *const of[] = {"", "of the reference", "of the text", "of the reference",
                                     "with EOS"};
    static const char *const columns[] = {"", "#BLEU|#exact|#chrF2|chrF2, 0 to 100",
                                          "#accuracy|accuracy, 0 to 100",
                                          "#accuracy|accuracy, 0 to 100", "#perplexity"};
    char *heads = format_text("%s %s|#lines|%s", unit_of_length(d), of[d->task], columns[d->task]);
    double value;
    int k;
    fputs("<h3>By length</h3>\n", to);
    begin_table(to, "Scores by length", heads);
    free(heads);
    for (k = 0; k < LENGTH_CLASSES; k++) {
        const struct length_sums *sums = &d->by_length[k];
        long long from = k ? 1LL << (k - 1) : 0, end = k ? (1LL << k) - 1 : 0;
        if (!sums->lines) continue;
        fprintf(to, from == end ? "<tr><th scope=row>%lld" : "<tr><th scope=row>%lld to %lld", from,
                end);
        put_cell(to, whole_text((double)sums->lines));
        value = put_length_values(to, d, sums);
        if (isfinite(value))
            fprintf(to, "<td><span class=bar style='width:%.1f%%'></span>", fmin(100, value));
        fputs("\n", to);
    }
    end_table(to);
}

void put_scores(FILE *to, const struct data *d)
{
    int64_t counted = 0, broken = 0;
    size_t i;
    for (i = 0; i < LENGTH_CLASSES; i++) counted += d->by_length[i].lines;
    for (i = 0; i < d->n; i++)
        broken += d->lines[i].broken || (d->task == TASK_TEXT && d->lines[i].fault);
    fprintf(to, "<section id=scores><h2>Scores</h2>\n<p>Of %s line%s of <b>",
            whole_text((double)counted), plural(counted));
    put_html_text(to, name_of(d->s->report.data));
    fputs("</b>.", to);
    if (broken)
        fprintf(to,
                broken == 1 ? " %s more is not counted; its entry has the reason."
                            : " %s more are not counted; their entries have the reasons.",
                whole_text((double)broken));
    if (d->unusable > broken)
        fprintf(to,
                d->unusable - broken == 1
                    ? " %s of them is too long for the model and counts as %s."
                    : " %s of them are too long for the model and count as %s.",
                whole_text((double)(d->unusable - broken)),
                d->task == TASK_TRANSLATE ? "an empty answer" : "wrong");
    fputs("</p>\n", to);
    if (counted == 0) {
        fputs("</section>\n", to);
        return;
    }
    if (d->task == TASK_TRANSLATE) put_figures(to, d);
    else if (d->task == TASK_TEXT) put_perplexity(to, d);
    else put_accuracy(to, d);
    put_lengths(to, d);
    if (d->confusion) put_labels(to, d);
    fputs("</section>\n", to);
}

// -----------------------------------------------------------------------------------------------
// >>lines          the worst first
// -----------------------------------------------------------------------------------------------

static void put_value(FILE *to, const struct data *d, const struct line *l)
{
    if (l->fault) fputs("not read by the model", to);
    else if (d->task == TASK_TRANSLATE) fprintf(to, "chrF2 %s", number_text(l->value, 1));
    else if (d->task == TASK_TEXT)
        fprintf(to, "perplexity %s, %d token%s", number_text(exp(-l->value), -4), (int)l->tokens,
                plural(l->tokens));
    else if (d->task == TASK_TAG)
        fprintf(to, "%d of %d labels right", (int)(l->tokens - l->wrong), (int)l->tokens);
    else if (l->given < 0) fputs("empty, so there is no label", to);
    else {
        fprintf(to, "%s, probability %s", l->right ? "right" : "wrong",
                number_text(l->probability, 3));
        if (!l->right && l->wanted < 0) fputs("; the model does not have this label", to);
        else if (!l->right)
            fprintf(to, ", of the reference's label %s", number_text(l->value, 3));
    }
}

static void put_line(FILE *to, const struct data *d, size_t rank)
{
    const struct line *l = &d->lines[d->worst[rank]];
    fprintf(to, "<li data-line=%lld data-rank=%zu><h3>Line %lld <span>", (long long)l->number, rank,
            (long long)l->number);
    put_value(to, d, l);
    fputs("</span></h3>\n<dl>\n", to);
    if (l->fault) {
        fputs("<dt>reason<dd>", to);
        put_html_text(to, l->fault);
        fputs("</dd>\n", to);
    }
    fprintf(to, "<dt>%s<dd dir=auto>",
            l->broken && !*l->reference ? "line"
            : d->task == TASK_TRANSLATE ? "source"
                                        : "text");
    put_html(to, l->source, l->bytes);
    if (!l->bytes) fputs("<i>empty</i>", to);
    fputs("</dd>\n", to);
    if (l->broken && *l->reference) {
        fputs("<dt>reference<dd dir=auto>", to);
        put_html_text(to, l->reference);
        fputs("</dd>\n", to);
    }
    if (!l->broken && d->task != TASK_TEXT)
        put_differences(to, l->reference, l->answer,
                        d->task == TASK_TAG        ? COMPARE_POSITIONS
                        : d->task == TASK_CLASSIFY ? COMPARE_WHOLE
                                                   : COMPARE_TEXT);
    fputs("</dl></li>\n", to);
}

void put_lines(FILE *to, const struct data *d)
{
    size_t shown = d->n < (size_t)d->s->report.worst ? d->n : (size_t)d->s->report.worst, i;
    fprintf(to, "<section id=answers><h2>%s</h2>\n<p>", d->task == TASK_TEXT ? "Texts" : "Answers");
    if (shown < d->n)
        fprintf(to, "The worst %s of %s lines", whole_text((double)shown),
                whole_text((double)d->n));
    else fprintf(to, d->n == 1 ? "The only line" : "All lines, the worst first");
    fputs(d->task == TASK_TRANSLATE ? ", by the chrF2 of each line."
          : d->task == TASK_TEXT    ? ", by perplexity."
                                    : ".",
          to);
    if (d->task != TASK_TEXT)
        fputs(" Text that only the reference has is <del>struck through</del>; text that only the "
              "answer has is <ins>underlined</ins>.",
              to);
    fputs("</p>\n", to);
    if (shown > 1)
        fputs("<p class=choice hidden><label for=order>Order</label> <select id=order>"
              "<option value=rank>the worst first<option value=line>as in the file</select></p>\n",
              to);
    fputs("<ol class=lines id=lines>\n", to);
    for (i = 0; i < shown; i++) put_line(to, d, i);
    fputs("</ol></section>\n", to);
}
