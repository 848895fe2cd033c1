// trf report: training runs, answers and attention as one page of HTML.
//
// The logs are read first, then the model and its data; computing starts when all of them are
// valid. The page is made in memory and written to a new file, which replaces an old page when it
// is complete.

#include "look.h"
#include "report.h"
#include "report_page.h"

static void put_strings(FILE *to, const char *const *text, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) fprintf(to, "%s\n", text[i]);
}

/* The names of the first three runs. */
static void put_three_names(FILE *to, const struct run *runs, int n)
{
    int i;
    for (i = 0; i < n && i < 3; i++) {
        fputs(i ? ", " : "", to);
        put_html_text(to, runs[i].name);
    }
}

static void put_head(FILE *to, const struct run *runs, int n, const struct data *d)
{
    fputs("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
          "<meta name=viewport content='width=device-width,initial-scale=1'>\n"
          "<meta http-equiv=Content-Security-Policy content=\"default-src 'none';"
          "style-src 'unsafe-inline';script-src 'nonce-trf'\">\n<title>trf report: ",
          to);
    put_three_names(to, runs, n);
    fputs(n > 3 ? ", …</title>\n<style>\n" : "</title>\n<style>\n", to);
    put_strings(to, page_style, sizeof page_style / sizeof *page_style);
    fputs("</style>\n</head>\n<body>\n<header><h1>", to);
    put_three_names(to, runs, n);
    if (n > 3) fprintf(to, " and %d more", n - 3);
    fputs("</h1>\n<nav aria-label='Parts of this page'>"
          "<a href='#runs'>Runs</a> <a href='#curves'>Curves</a>",
          to);
    if (d->n)
        fputs(" <a href='#scores'>Scores</a> <a href='#answers'>Lines</a> "
              "<a href='#attention'>Attention</a>",
              to);
    if (d->model) fputs(" <a href='#model'>Model</a>", to);
    fputs("</nav></header>\n<main>\n", to);
}

static int put_page(FILE *to, const struct run *runs, int n, struct data *d)
{
    int status = DONE;
    put_head(to, runs, n, d);
    put_runs(to, runs, n);
    put_curves(to, runs, n);
    if (d->n) {
        put_scores(to, d);
        put_lines(to, d);
        status = put_attention(to, d);
    }
    if (d->model) put_model(to, d);
    fputs("</main>\n<footer><p class=note>Made by trf " TRF_VERSION ".</p></footer>\n"
          "<script nonce=trf>\n",
          to);
    put_strings(to, page_script, sizeof page_script / sizeof *page_script);
    fputs("</script>\n</body>\n</html>\n", to);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>file
// -----------------------------------------------------------------------------------------------

static int write_page(const struct settings *s, const char *page, size_t bytes)
{
    struct unfinished out;
    if (open_output(s, &out)) return FAILED;
    if (fwrite(page, 1, bytes, out.file) == bytes) return close_output(&out, 1);
    cannot_write(s->output);
    (void)close_output(&out, 0);
    return FAILED;
}

static int check_options(const struct settings *s, int argc, char **argv)
{
    const char *const read[] = {s->model, s->report.data};
    size_t k;
    if (argc < 1) {
        say("give one or more logs written by trf train --log");
        return USAGE;
    }
    if (!s->output || !*s->output) {
        say("give --output FILE, the page to write");
        return USAGE;
    }
    if (s->model && !*s->model) {
        say("--model is empty: give a model written by trf train");
        return USAGE;
    }
    if (s->report.data && !s->model) {
        say("--data needs --model FILE");
        return USAGE;
    }
    if (s->with.n && !s->report.data) {
        say("--with is for --data");
        return USAGE;
    }
    if (s->columns && !s->report.data) {
        say("--columns is for --data");
        return USAGE;
    }
    if (check_logs(s, argc, argv)) return FAILED;
    for (k = 0; k < 2; k++)
        if (read[k] && same_file(s->output, read[k])) {
            say("--output names the file of --%s", k ? "data" : "model");
            return FAILED;
        }
    if (check_columns(s->columns)) return USAGE;
    return check_output_name(s);
}

int command_report(struct settings *s, int argc, char **argv)
{
    struct run *runs;
    struct data data;
    char *page = NULL;
    size_t bytes = 0;
    FILE *to;
    int status = check_options(s, argc, argv), i;
    if (status) return status;
    memset(&data, 0, sizeof data);
    runs = zeroed((size_t)argc, sizeof *runs);
    for (i = 0; i < argc && !status; i++) status = read_log(&runs[i], argv[i]);
    if (!status) name_runs(runs, argc);
    if (!status && s->model) status = open_data(&data, s);
    if (!status && data.n) status = answer_data(&data);
    if (!status && (to = open_memstream(&page, &bytes))) {
        status = put_page(to, runs, argc, &data);
        if (fclose(to) && !status) {
            say("out of memory");
            status = FAILED;
        }
    } else if (!status) {
        say("out of memory");
        status = FAILED;
    }
    if (!status) status = write_page(s, page, bytes);
    if (!status && data.unusable) status = FAILED;
    free(page);
    for (i = 0; i < argc; i++) free_run(&runs[i]);
    free(runs);
    free_data(&data);
    return status;
}
