// trf plot schedule, positions and masks: pictures of rules, which need no log and no model.

#include "plot.h"

#include <errno.h>
#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>lists          "1000,4000,8000"
// -----------------------------------------------------------------------------------------------

enum { MAX_LIST = 16, MAX_CURVES = 32 };

struct list {
    double item[MAX_LIST];
    int n;
};

/* Reads numbers with commas between them. whole 1: only whole numbers. */
static int read_list(const char *option, const char *text, double low, double high, int whole,
                     struct list *to)
{
    const char *at = text;
    char *end;
    for (to->n = 0; to->n < MAX_LIST; at = end + 1) {
        double x = strtod(at, &end);
        int bad = end == at || !(x >= low && x <= high) || (whole && x != floor(x));
        if (bad || (*end && *end != ',')) break;
        to->item[to->n++] = x;
        if (!*end) return DONE;
    }
    if (to->n == MAX_LIST) say("--%s takes at most %d numbers", option, MAX_LIST);
    else
        say("--%s takes %s from %.10g to %.10g, with commas between them, got '%s'", option,
            whole ? "whole numbers" : "numbers", low, high, text);
    return USAGE;
}

/* Reads words with commas between them; each becomes its number in the list of names. */
static int read_words(const char *option, const char *text, const char *const *names, int n_names,
                      struct list *to)
{
    const char *at = text;
    char known[128] = "";
    int i;
    for (to->n = 0; to->n < MAX_LIST;) {
        size_t n = strcspn(at, ",");
        for (i = 0; i < n_names; i++)
            if (strlen(names[i]) == n && !strncmp(names[i], at, n)) break;
        if (i == n_names) break;
        to->item[to->n++] = i;
        if (!at[n]) return DONE;
        at += n + 1;
    }
    for (i = 0; i < n_names; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? "," : "",
                 names[i]);
    if (to->n == MAX_LIST) say("--%s takes at most %d words", option, MAX_LIST);
    else say("--%s takes some of %s, got '%s'", option, known, text);
    return USAGE;
}

// -----------------------------------------------------------------------------------------------
// >>schedule       the learning rate over the updates
// -----------------------------------------------------------------------------------------------

enum { RATES = 2000 }; /* points of a curve */
static const int64_t MOST_UPDATES = 1000000000000000;

struct schedules {
    struct list kinds, widths, warmups, rates;
    struct curve curves[MAX_CURVES];
    int n;
};

static const char *const schedule_names[] = {"noam", "inverse-sqrt", "cosine", "constant"};

static int has(const struct list *words, int word)
{
    int i;
    for (i = 0; i < words->n; i++)
        if ((int)words->item[i] == word) return 1;
    return 0;
}

/* Refuses options that no curve depends on. */
static int check_schedules(const struct settings *s, const struct list *kinds)
{
    const char *wrong = NULL;
    if (!has(kinds, TRF_COSINE) && is_given(s, AT(training.final_rate))) wrong = "final-rate";
    if (!has(kinds, TRF_COSINE) && is_given(s, AT(training.total_steps))) wrong = "total-steps";
    if (wrong) say("--%s is for --schedule cosine", wrong);
    else if (!has(kinds, TRF_NOAM) && s->plot_widths) say("--d-model is for --schedule noam");
    else if (kinds->n == 1 && has(kinds, TRF_NOAM) && is_given(s, AT(training.initial_rate)))
        say("--initial-rate is not for --schedule noam, which rises from 0");
    else return DONE;
    return USAGE;
}

/* The limits of trf train, and numbers of updates that a double represents exactly. */
static int check_limits(const struct settings *s)
{
    const double rates[2] = {s->training.initial_rate, s->training.final_rate};
    int i;
    for (i = 0; i < 2; i++) {
        if (rates[i] >= 0 && rates[i] <= 1e6) continue;
        say("--%s takes a number from 0 to 1e6, got '%g'", i ? "final-rate" : "initial-rate",
            rates[i]);
        return USAGE;
    }
    if (s->plot_updates <= MOST_UPDATES) return DONE;
    say("--updates takes a whole number from 1 to %lld, got %lld", (long long)MOST_UPDATES,
        (long long)s->plot_updates);
    return USAGE;
}

static int read_schedules(const struct settings *s, struct schedules *to)
{
    if (read_words("schedule", s->plot_schedules, schedule_names, 4, &to->kinds) ||
        check_schedules(s, &to->kinds) || check_limits(s) ||
        read_list("warmup", s->plot_warmups, 1, 1e15, 1, &to->warmups) ||
        read_list("d-model", s->plot_widths ? s->plot_widths : "512", 1, 1e6, 1, &to->widths))
        return USAGE;
    to->rates.n = 0;
    if (!s->plot_rates) return DONE;
    return read_list("learning-rate", s->plot_rates, 1e-30, 1e6, 0, &to->rates);
}

/* What differs from the other curves, or, if nothing differs, everything. */
static char *schedule_name(const struct schedules *all, const trf_train_options *o, double width)
{
    int noam = o->schedule == TRF_NOAM,
        alone = all->kinds.n == 1 && all->warmups.n == 1 && all->rates.n < 2;
    char text[160] = "";
    size_t n = 0;
    alone = alone && (all->widths.n == 1 || !noam);
    if (alone || all->kinds.n > 1)
        n += (size_t)snprintf(text, sizeof text, ", %s", schedule_names[o->schedule]);
    if (noam && (alone || all->widths.n > 1))
        n += (size_t)snprintf(text + n, sizeof text - n, ", d-model %.0f", width);
    if (alone || all->warmups.n > 1)
        n += (size_t)snprintf(text + n, sizeof text - n, ", warm-up %lld", (long long)o->warmup);
    if (alone || all->rates.n > 1)
        snprintf(text + n, sizeof text - n, noam ? ", factor %g" : ", peak %g", o->learning_rate);
    return format_text("%s", text + 2);
}

/* The rate at about RATES updates, and at the end of the warm-up, where it is highest. */
static void fill_schedule(struct curve *c, const trf_train_options *o, double width,
                          int64_t updates)
{
    double *x = zeroed(RATES + 2, sizeof *x), *y = zeroed(RATES + 2, sizeof *y);
    int64_t step = 0, next, n = updates < RATES ? updates : RATES, i;
    for (i = 1; i <= n; i++) {
        next = (int64_t)ceil((double)updates * (double)i / (double)n);
        if (step < o->warmup && o->warmup < next) x[c->n++] = (double)o->warmup;
        step = next;
        x[c->n++] = (double)step;
    }
    for (i = 0; i < c->n; i++) y[i] = trf_learning_rate(o, (int32_t)width, (int64_t)x[i]);
    c->x = x;
    c->y = y;
}

static int add_schedule(const struct settings *s, struct schedules *to, int kind, double width,
                        double warmup, double rate)
{
    trf_train_options o = s->training;
    struct curve *c = &to->curves[to->n];
    if (to->n == MAX_CURVES) {
        say("more than %d curves: give fewer values", MAX_CURVES);
        return USAGE;
    }
    o.schedule = (trf_schedule)kind;
    o.warmup = (int64_t)warmup;
    o.learning_rate = rate > 0                 ? rate
                      : o.schedule == TRF_NOAM ? 1
                                               : trf_train_defaults().learning_rate;
    if (o.total_steps == 0) o.total_steps = s->plot_updates;
    if (o.schedule == TRF_COSINE && o.total_steps <= o.warmup) {
        say("cosine ends at update %lld, before the end of its warm-up of %lld updates: raise "
            "--total-steps or --updates",
            (long long)o.total_steps, (long long)o.warmup);
        return USAGE;
    }
    memset(c, 0, sizeof *c);
    fill_schedule(c, &o, width, s->plot_updates);
    c->name = schedule_name(to, &o, width);
    to->n++;
    return DONE;
}

/* Every combination; only noam depends on the width. */
static int make_schedules(const struct settings *s, struct schedules *to)
{
    int i, j, k, m;
    for (i = 0; i < to->kinds.n; i++) {
        int kind = (int)to->kinds.item[i];
        for (j = 0; j < (kind == TRF_NOAM ? to->widths.n : 1); j++)
            for (k = 0; k < to->warmups.n; k++)
                for (m = 0; m < (to->rates.n ? to->rates.n : 1); m++)
                    if (add_schedule(s, to, kind, to->widths.item[j], to->warmups.item[k],
                                     to->rates.n ? to->rates.item[m] : 0))
                        return USAGE;
    }
    return DONE;
}

/* Writes a line for each point: curves do not share their updates, so columns would not fit. */
static int write_schedules(const struct settings *s, const struct schedules *all)
{
    FILE *out = open_output(s);
    long j;
    int i;
    if (!out) return FAILED;
    fputs("schedule,update,learning rate\n", out);
    for (i = 0; i < all->n; i++)
        for (j = 0; j < all->curves[i].n; j++) {
            print_csv_text(out, all->curves[i].name);
            fprintf(out, ",%.0f,%.9g\n", all->curves[i].x[j], all->curves[i].y[j]);
        }
    return close_output(out, s->output);
}

int plot_schedule(struct settings *s)
{
    static struct schedules all;
    struct panel panel;
    int status = read_schedules(s, &all), i;
    if (!status) status = make_schedules(s, &all);
    memset(&panel, 0, sizeof panel);
    panel.title = "learning rate";
    panel.x_label = "update";
    panel.y_label = "learning rate";
    panel.from_zero = 1;
    panel.curves = all.curves;
    panel.n = all.n;
    if (!status) status = s->csv ? write_schedules(s, &all) : draw_curves(s, &panel, 1, 1);
    for (i = 0; i < all.n; i++) {
        free((char *)(uintptr_t)all.curves[i].name);
        free((double *)(uintptr_t)all.curves[i].x);
        free((double *)(uintptr_t)all.curves[i].y);
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>masks          which keys (columns) a query (row) sees
// -----------------------------------------------------------------------------------------------

enum { MASK_FULL, MASK_CAUSAL, MASK_PREFIX, MASK_PADDING, N_MASKS, MOST_TOKENS = 1000 };

static const char *const mask_names[N_MASKS] = {"full", "causal", "prefix", "padding"};

/* After `own` tokens comes padding, which no query sees. */
static int sees(int kind, long query, long key, long prefix, long own)
{
    return kind == MASK_FULL ||
           (kind == MASK_PADDING ? key < own
                                 : key <= query || (kind == MASK_PREFIX && key < prefix));
}

static char *mask_title(int kind, long n, long prefix, long own)
{
    long i, j, seen = 0;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) seen += sees(kind, i, j, prefix, own);
    if (kind == MASK_FULL)
        return format_text("full (BERT, encoders): %ld of %ld pairs", seen, n * n);
    if (kind == MASK_CAUSAL)
        return format_text("causal (GPT, decoders): %ld of %ld pairs", seen, n * n);
    if (kind == MASK_PREFIX)
        return format_text("prefix of %ld (T5, UniLM): %ld of %ld pairs", prefix, seen, n * n);
    return format_text("padding after %ld (batches): %ld of %ld pairs", own, seen, n * n);
}

/* The words of --words. *n: their number; *text: malloc'd, they point into it. */
static char **split_words(const char *words, char **text, long *n)
{
    char *at = *text = format_text("%s", words),
         **names = zeroed(strlen(words) / 2 + 2, sizeof *names);
    for (*n = 0; *(at += strspn(at, " \t\n"));) {
        names[(*n)++] = at;
        at += strcspn(at, " \t\n");
        if (*at) *at++ = '\0';
    }
    return names;
}

static int write_masks(const struct settings *s, const struct heat_map *maps,
                       const struct list *kinds)
{
    FILE *out = open_output(s);
    long i, j;
    int k;
    if (!out) return FAILED;
    fputs("mask,query,key,seen\n", out);
    for (k = 0; k < kinds->n; k++)
        for (i = 0; i < maps[k].rows; i++)
            for (j = 0; j < maps[k].columns; j++)
                fprintf(out, "%s,%ld,%ld,%.0f\n", mask_names[(int)kinds->item[k]], i, j,
                        (double)maps[k].values[i * maps[k].columns + j]);
    return close_output(out, s->output);
}

/* Prints maps of one scale, one after another. */
static int print_maps(const struct settings *s, const struct heat_map *maps, int n, double low)
{
    FILE *out = open_output(s);
    int i;
    if (!out) return FAILED;
    for (i = 0; i < n; i++) {
        if (i) putc('\n', out);
        picture_heat_text(out, &maps[i], low, 1);
    }
    return close_output(out, s->output);
}

static int draw_maps(const struct settings *s, const struct heat_map *maps, int n, double low)
{
    FILE *drawn;
    char message[300];
    int status = FAILED;
    if (!s->output) return print_maps(s, maps, n, low);
    drawn = tmpfile();
    if (!drawn) say("cannot make a temporary file: %s", strerror(errno));
    else if (picture_heat_maps_to(drawn, picture_kind(s->output), NULL, maps, n, n < 3 ? n : 2, low,
                                  1, message, sizeof message))
        say("%s%s", message, strncmp(message, "gnuplot", 7) ? "" : "; trf itself writes an .svg");
    else status = deliver(s, drawn);
    if (drawn) fclose(drawn);
    return status;
}

/* Reads a number of tokens for one kind of mask. */
static int read_part(const char *option, const char *text, const struct list *kinds, int kind,
                     long n, long *part)
{
    struct list one;
    if (!text) return DONE;
    if (!has(kinds, kind)) {
        say("--%s is for --kind %s", option, mask_names[kind]);
        return USAGE;
    }
    if (read_list(option, text, 0, (double)n, 1, &one)) return USAGE;
    if (one.n > 1) {
        say("--%s takes one number, got '%s'", option, text);
        return USAGE;
    }
    *part = (long)one.item[0];
    return DONE;
}

/* Makes the maps: which keys a query sees. */
static void make_masks(const struct list *kinds, long n, long prefix, long own, char **names,
                       struct heat_map *maps)
{
    long i, j;
    int k;
    for (k = 0; k < kinds->n; k++) {
        float *values = zeroed((size_t)(n * n), sizeof *values);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                values[i * n + j] = (float)sees((int)kinds->item[k], i, j, prefix, own);
        maps[k].title = mask_title((int)kinds->item[k], n, prefix, own);
        maps[k].values = values;
        maps[k].rows = maps[k].columns = n;
        maps[k].row_names = maps[k].column_names = (const char *const *)names;
        maps[k].row_label = "query";
        maps[k].column_label = "key";
    }
}

static int draw_masks(const struct settings *s, const struct list *kinds, long n, char **names)
{
    struct heat_map maps[MAX_LIST];
    long prefix = (n + 1) / 2, padded = (n + 3) / 4;
    int status, k;
    if (n < 1 || n > MOST_TOKENS) {
        say("a mask has 1 to %d tokens, got %ld", MOST_TOKENS, n);
        return USAGE;
    }
    if (read_part("prefix", s->plot_prefix, kinds, MASK_PREFIX, n, &prefix) ||
        read_part("padded", s->plot_padded, kinds, MASK_PADDING, n, &padded))
        return USAGE;
    memset(maps, 0, sizeof maps);
    make_masks(kinds, n, prefix, n - padded, names, maps);
    status = s->csv ? write_masks(s, maps, kinds) : draw_maps(s, maps, kinds->n, 0);
    for (k = 0; k < kinds->n; k++) {
        free((float *)(uintptr_t)maps[k].values);
        free((char *)(uintptr_t)maps[k].title);
    }
    return status;
}

int plot_masks(struct settings *s)
{
    struct list kinds;
    char **names = NULL, *text = NULL;
    long n = s->plot_length;
    int status;
    if (read_words("kind", s->plot_kinds, mask_names, N_MASKS, &kinds)) return USAGE;
    if (s->plot_words && is_given(s, AT(plot_length))) {
        say("give --words or --length, not both");
        return USAGE;
    }
    if (s->plot_words) names = split_words(s->plot_words, &text, &n);
    status = draw_masks(s, &kinds, n, names);
    free(names);
    free(text);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>positions      the table that is added to embeddings
// -----------------------------------------------------------------------------------------------

enum { MOST_NUMBERS = 4000000, MOST_FIRST = 1 << 20 };

struct positions {
    float *table, *cosines; /* (n, d) and (n, n) */
    long n, d;
    int32_t first;
    struct list dimensions;
};

static int fill_table(struct positions *p, trf_positions rule)
{
    trf_real *numbers = zeroed((size_t)(p->n * p->d), sizeof *numbers);
    trf_tensor out = trf_tensor_of(numbers, 2, p->n, p->d, 0);
    trf_error err;
    long i;
    int status = DONE;
    if (trf_position_table(rule, p->first, &out, &err))
        status = refused("cannot make the table", &err);
    p->table = zeroed((size_t)(p->n * p->d), sizeof *p->table);
    for (i = 0; i < p->n * p->d && !status; i++) p->table[i] = (float)numbers[i];
    free(numbers);
    return status;
}

static void fill_cosines(struct positions *p)
{
    double *norms = zeroed((size_t)p->n, sizeof *norms);
    long i, j, k;
    p->cosines = zeroed((size_t)(p->n * p->n), sizeof *p->cosines);
    for (i = 0; i < p->n; i++) {
        for (k = 0; k < p->d; k++)
            norms[i] += (double)p->table[i * p->d + k] * (double)p->table[i * p->d + k];
        norms[i] = sqrt(norms[i]);
        for (j = 0; j <= i; j++) {
            double product = 0;
            for (k = 0; k < p->d; k++)
                product += (double)p->table[i * p->d + k] * (double)p->table[j * p->d + k];
            p->cosines[i * p->n + j] = p->cosines[j * p->n + i] =
                (float)(product / (norms[i] * norms[j]));
        }
    }
    free(norms);
}

/* The sines of five frequencies, from the highest down. */
static void choose_dimensions(struct positions *p, trf_positions rule)
{
    long frequencies = p->d / 2, i, f, before = -1;
    p->dimensions.n = 0;
    for (i = 0; i < 5; i++) {
        f = frequencies * i / 8;
        if (f == before) continue;
        p->dimensions.item[p->dimensions.n++] =
            (double)(rule == TRF_POSITIONS_INTERLEAVED ? 2 * f : f);
        before = f;
    }
}

static int read_positions(const struct settings *s, struct positions *p)
{
    struct list width;
    if (read_list("d-model", s->plot_widths ? s->plot_widths : "64", 1, 1e6, 1, &width))
        return USAGE;
    if (width.n > 1) {
        say("--d-model takes one number for positions, got '%s'", s->plot_widths);
        return USAGE;
    }
    p->d = (long)width.item[0];
    p->n = s->plot_rows;
    p->first = s->config.position_offset;
    if ((double)p->n * (double)p->d > MOST_NUMBERS || (double)p->n * (double)p->n > MOST_NUMBERS) {
        say("--max-length %ld and --d-model %ld give more than %d numbers, too many for a picture",
            p->n, p->d, MOST_NUMBERS);
        return USAGE;
    }
    if (p->first > MOST_FIRST) {
        say("--position-offset takes a whole number from 0 to %d, got %d", MOST_FIRST, p->first);
        return USAGE;
    }
    if (s->plot_view == VIEW_ALL && s->output && !s->csv &&
        strcmp(picture_kind(s->output), "svg")) {
        say("only an .svg can have all views, got --output '%s'; choose --view heat, curves or "
            "similarity",
            s->output);
        return USAGE;
    }
    if (!s->plot_dimensions) {
        choose_dimensions(p, s->config.positions);
        return DONE;
    }
    return read_list("dimensions", s->plot_dimensions, 0, (double)p->d - 1, 1, &p->dimensions);
}

/* Draws as SVG into a file, or to --output. */
static int draw_dimensions(const struct settings *s, const struct positions *p, FILE *to)
{
    double *x = zeroed((size_t)p->n, sizeof *x), *y = zeroed((size_t)(p->n * MAX_LIST), sizeof *y);
    struct curve curves[MAX_LIST];
    struct panel panel;
    char names[MAX_LIST][32], message[300];
    int k, status = DONE;
    long i;
    memset(curves, 0, sizeof curves);
    memset(&panel, 0, sizeof panel);
    for (i = 0; i < p->n; i++) x[i] = (double)(p->first + i);
    for (k = 0; k < p->dimensions.n; k++) {
        long dimension = (long)p->dimensions.item[k];
        for (i = 0; i < p->n; i++) y[k * p->n + i] = (double)p->table[i * p->d + dimension];
        snprintf(names[k], sizeof names[k], "dimension %ld", dimension);
        curves[k].name = names[k];
        curves[k].x = x;
        curves[k].y = y + k * p->n;
        curves[k].n = p->n;
    }
    panel.title = "some dimensions over the positions";
    panel.x_label = "position";
    panel.y_label = "value";
    panel.curves = curves;
    panel.n = p->dimensions.n;
    if (!to) status = draw_curves(s, &panel, 1, 1);
    else if (picture_curves_to(to, "svg", &panel, 1, 1, message, sizeof message)) {
        say("%s; --view heat and similarity need no gnuplot", message);
        status = FAILED;
    }
    free(x);
    free(y);
    return status;
}

/* Names of rows and columns, from the first position on; one malloc'd block. */
static char **position_names(const struct positions *p)
{
    enum { ROOM = 24 };
    char **names = zeroed((size_t)p->n, sizeof *names), *text = zeroed((size_t)p->n, ROOM);
    long i;
    for (i = 0; i < p->n; i++) {
        names[i] = text + i * ROOM;
        snprintf(names[i], ROOM, "%lld", (long long)(p->first + i));
    }
    return names;
}

static void make_position_maps(const struct positions *p, char **names, struct heat_map maps[2])
{
    memset(maps, 0, 2 * sizeof *maps);
    maps[0].title = "positions";
    maps[0].values = p->table;
    maps[0].columns = p->d;
    maps[0].column_label = "dimension";
    maps[1].title = "cosine of two positions";
    maps[1].values = p->cosines;
    maps[1].columns = p->n;
    maps[1].column_label = "position";
    maps[0].rows = maps[1].rows = p->n;
    maps[0].row_label = maps[1].row_label = "position";
    if (p->first == 0) return;
    maps[0].row_names = maps[1].row_names = maps[1].column_names = (const char *const *)names;
}

/* Both maps, and the curves below them. */
static int draw_all(const struct settings *s, const struct positions *p,
                    const struct heat_map maps[2])
{
    FILE *parts[2] = {tmpfile(), tmpfile()}, *drawn = tmpfile();
    int status = FAILED;
    if (!parts[0] || !parts[1] || !drawn) say("cannot make a temporary file: %s", strerror(errno));
    else if (picture_heat_maps(parts[0], NULL, maps, 2, 2, -1, 1))
        say("cannot draw the heat maps: %s", strerror(errno));
    else if (!draw_dimensions(s, p, parts[1])) {
        if (picture_stack(drawn, parts, 2)) say("cannot draw the picture: %s", strerror(errno));
        else status = deliver(s, drawn);
    }
    if (parts[0]) fclose(parts[0]);
    if (parts[1]) fclose(parts[1]);
    if (drawn) fclose(drawn);
    return status;
}

static int write_positions(const struct settings *s, const struct positions *p)
{
    FILE *out = open_output(s);
    int cosines = s->plot_view == VIEW_SIMILARITY;
    long columns = cosines ? p->n : p->d, i, j;
    if (!out) return FAILED;
    fputs("position", out);
    for (j = 0; j < columns; j++) fprintf(out, ",%lld", (long long)(cosines ? p->first + j : j));
    putc('\n', out);
    for (i = 0; i < p->n; i++) {
        fprintf(out, "%lld", (long long)(p->first + i));
        for (j = 0; j < columns; j++)
            fprintf(out, ",%.9g", (double)(cosines ? p->cosines : p->table)[i * columns + j]);
        putc('\n', out);
    }
    return close_output(out, s->output);
}

int plot_positions(struct settings *s)
{
    static struct positions p;
    struct heat_map maps[2];
    char **names;
    int status = read_positions(s, &p), view = s->plot_view;
    if (status) return status;
    if ((status = fill_table(&p, s->config.positions))) {
        free(p.table);
        return status;
    }
    fill_cosines(&p);
    names = position_names(&p);
    make_position_maps(&p, names, maps);
    if (s->csv) status = write_positions(s, &p);
    else if (view == VIEW_CURVES) status = draw_dimensions(s, &p, NULL);
    else if (view == VIEW_HEAT || view == VIEW_SIMILARITY)
        status = draw_maps(s, &maps[view == VIEW_SIMILARITY], 1, -1);
    else if (s->output) status = draw_all(s, &p, maps);
    else {
        status = draw_maps(s, maps, 2, -1);
        if (!status) status = draw_dimensions(s, &p, NULL);
    }
    free(names[0]);
    free(names);
    free(p.table);
    free(p.cosines);
    return status;
}
