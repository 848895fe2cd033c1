// trf doctor: findings, their words, and the report. See doctor.h.

#include "doctor.h"

// -----------------------------------------------------------------------------------------------
// >>symptoms       their names and words
// -----------------------------------------------------------------------------------------------

/* text: what stands behind "3 of 600 pairs: "; without one data.c has the words. FILE becomes the
   file of the first line. */
static const struct { const char *name, *text, *remedy; } symptoms[SYMPTOMS] = {
    [TRF_FAULT_UNREADABLE] = {"malformed", NULL, NULL},
    [TRF_FAULT_LONG] = {"too-long", NULL, NULL},
    [TRF_FAULT_EMPTY] = {"empty", NULL, NULL},
    [TRF_FAULT_HALF] = {"empty-side", NULL, NULL},
    [TRF_FAULT_LABEL] = {"without-labels", NULL, NULL},
    [TRF_FAULT_LINE] = {"long-line", NULL, NULL},
    [TRF_FAULT_ENCODING] = {"encoding", NULL, NULL},
    [UNEQUAL] = {"unequal", NULL,
                 "a line is missing or too many: 'shifted' says where, if lengths show it"},
    [SHIFTED] = {"shifted", "source and target seem to be shifted against one another",
                 "a line is missing or too many just before: compare the files there"},
    [EXCHANGED] = {"exchanged", "source and target seem to be exchanged",
                   "exchange their columns: awk -F '\\t' '{ print $2 \"\\t\" $1 }'"},
    [LANGUAGE] = {"language", "both sides seem to be in the language of one",
                  "leave them out, if they are not translated"},
    [RATIO] = {"length-ratio", "one side is much longer than usual beside the other",
               "look whether the sides belong together"},
    [NUMBERS] = {"numbers",
                 "source and target have other numbers, though most pairs have the same ones",
                 "look whether the sides belong together"},
    [PLACEHOLDERS] = {"placeholders", "source and target have other placeholders, tags or "
                      "addresses, though most pairs have the same ones",
                      "correct them: a model learns to lose them"},
    [LONGER] = {"longer", "far longer than the other lines", "look whether line ends are missing"},
    [HEADER] = {"header", NULL, NULL},
    [CONLL] = {"columns", NULL,
               "awk 'NF { w = w s $1; t = t s $NF; s = \" \"; next } w { print w \"\\t\" t; "
               "w = t = s = \"\" } END { if (w) print w \"\\t\" t }' FILE"},
    [LABEL_COLUMN] = {"label-column", NULL, NULL},
    [SINGLE_LABEL] = {"single-label", "a label that occurs nowhere else",
                      "look whether it is misspelt; a model cannot learn it from one line"},
    [CONFLICT] = {"conflict", "the same text has another label before", "decide for one label"},
    [ONE_LINE] = {"one-line", NULL, NULL},
    [SAME_FILE] = {"same-file", NULL, NULL},
    [OVERLAP] = {"overlap", NULL, NULL},
    [CONTROL] = {"control-characters", "control characters",
                 "LC_ALL=C tr -d '\\001-\\010\\013\\014\\016-\\037\\177' <FILE (those of ASCII)"},
    [MARK] = {"byte-order-mark",
              "a byte order mark within the text (U+FEFF), as in files that were joined",
              "LC_ALL=C sed 's/\\xEF\\xBB\\xBF//g' FILE"},
    [ZERO_WIDTH] = {"zero-width", "characters without a width",
                    "LC_ALL=C sed 's/\\xE2\\x80[\\x8B-\\x8F\\xAA-\\xAE]//g; "
                    "s/\\xE2\\x81[\\xA0-\\xA9]//g' FILE"},
    [SOFT_HYPHEN] = {"soft-hyphen", "soft hyphens (U+00AD)",
                     "LC_ALL=C sed 's/\\xC2\\xAD//g' FILE"},
    [REPLACEMENT] = {"replacement", "U+FFFD, which stands for bytes that a conversion has lost",
                     "convert the original file again, from its true encoding"},
    [SEPARATOR] = {"line-separator", "a line or paragraph separator (U+2028, U+2029)",
                   "LC_ALL=C sed 's/\\xE2\\x80[\\xA8\\xA9]/ /g' FILE"},
    [MOJIBAKE] = {"mojibake", "UTF-8 that was taken for Windows-1252 and converted again",
                  "if all of the file is so: iconv -f utf-8 -t windows-1252 FILE"},
    [MIXED] = {"mixed-scripts", "a word with letters of two alphabets",
               "letters that look alike are others to a model: write the word in one alphabet"},
    [TAB] = {"tab", "a tab within the text",
             "is the file one of pairs (--tsv)? Else: tr '\\t' ' ' <FILE"},
    [SOME_OVERLAP] = {"some-overlap", NULL, NULL},
    [KNOWN_SOURCE] = {"known-source", "held-out sources that are trained on with another target",
                      "if sources must be new: leave them out of the training data"},
    [IDENTICAL] = {"identical", "the target is the source, though most pairs have another",
                   "awk -F '\\t' '$1 != $2' leaves such lines of a TSV out"},
    [REPEATED] = {"repeated", "the same as an earlier one",
                  "awk '!seen[$0]++' FILE leaves them out"},
    [AMBIGUOUS] = {"several-targets", "the same source has another target before",
                   "a model gives one answer: trf eval --alternatives takes several as right"},
    [NO_BREAK] = {"no-break-space",
                  "no-break spaces (U+00A0, U+202F), which are no blanks to words",
                  "LC_ALL=C sed 's/\\xC2\\xA0/ /g; s/\\xE2\\x80\\xAF/ /g' FILE"},
    [META] = {"meta-blank", "U+2581, which SentencePiece takes for a blank",
              "if blanks are meant: LC_ALL=C sed 's/\\xE2\\x96\\x81/ /g' FILE"},
    [HTML] = {"html", "entities of HTML, such as &amp;", "python3 -c 'import html, sys; "
              "[print(html.unescape(x), end=\"\") for x in sys.stdin]' <FILE"},
    [OUTER_BLANKS] = {"blanks", "blanks at an end, or several in a row, which words and subwords "
                      "of a source ignore",
                      "if they mean nothing: sed 's/^ *//; s/ *$//; s/  */ /g' FILE"},
    [CRLF] = {"crlf", "lines that end with CR LF; trf drops the CR",
              "for other programs: sed 's/\\r$//' FILE"},
};

enum symptom symptom_of(const char *name)
{
    int i;
    for (i = 0; i < SYMPTOMS; i++) if (!strcmp(symptoms[i].name, name)) return (enum symptom)i;
    abort();
}

// -----------------------------------------------------------------------------------------------
// >>findings       lines are counted; the first five are shown
// -----------------------------------------------------------------------------------------------

int32_t file_number(struct doctor *d, const char *name)
{
    size_t i;
    if (!name) return -1;
    for (i = d->n_files; i-- > 0;) if (!strcmp(d->files[i], name)) return (int32_t)i;
    d->files = grow(d->files, &d->files_capacity, d->n_files + 1, sizeof *d->files);
    d->files[d->n_files] = format_text("%s", name);
    return (int32_t)d->n_files++;
}

void add_place(struct finding *f, int32_t file, int64_t line, int side, const char *why)
{
    struct place at = {file, side, line, NULL};
    if (f->n == SHOWN) return;
    if (why) at.why = format_text("%s", why);
    f->at[f->n++] = at;
}

void note_place(struct doctor *d, enum symptom is, int32_t file, int64_t line, int side,
                const char *why)
{
    struct finding *f = &d->found[is];
    int64_t now = (int64_t)d->n + d->unread + 1;
    if (f->last == now && !d->examined) return;     /* the other side of the same line */
    f->last = now;
    f->count++;
    add_place(f, file, line, side, why);
}

void note_line(struct doctor *d, enum symptom is, int64_t i, int side, const char *why)
{
    const char *pair = d->files[d->origins[i].file], *own = file_of_side(&d->data, pair, side > 0);
    d->found[is].count++;
    add_place(&d->found[is], file_number(d, own), d->origins[i].number,
              own != pair || d->s->target || learns_from_text(d->s) ? -1 : side, why);
}

// -----------------------------------------------------------------------------------------------
// >>report         as lines, or as one JSON document
// -----------------------------------------------------------------------------------------------

static char *remedy_text(const struct doctor *d, int i)
{
    const struct finding *f = &d->found[i];
    const char *own = symptoms[i].remedy, *at = own ? strstr(own, "FILE") : NULL, *file;
    char *name, *text;
    if (i < TRF_FAULT_COUNT) return remedy_of(&d->data, (trf_fault)i);
    if (i == REPEATED && d->s->target) {        /* lines of both files */
        char *source = shell_name(d->s->source), *target = shell_name(d->s->target);
        text = format_text("paste %s %s | awk '!seen[$0]++' leaves them out", source, target);
        free(source);
        free(target);
        return unpack_first(unpack_first(text, d->s->source), d->s->target);
    }
    if (f->remedy || !own) return f->remedy ? format_text("%s", f->remedy) : NULL;
    if (!at || !f->n || f->at[0].file < 0) return format_text("%s", own);
    file = d->files[f->at[0].file];
    name = shell_name(file);
    text = format_text("%.*s%s%s", (int)(at - own), own, name, at + strlen("FILE"));
    free(name);
    return unpack_first(text, file);
}

static char *finding_text(const struct doctor *d, int i)
{
    const struct finding *f = &d->found[i];
    const char *what = d->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line";
    int64_t all = (int64_t)d->n + d->unread;
    if (f->text) return format_text("%s", f->text);
    return format_text("%lld of %lld %s%s: %s%s", (long long)f->count, (long long)all, what,
                       plural(all), i < TRF_FAULT_COUNT ? "left out, as " : "",
                       i < TRF_FAULT_COUNT ? fault_names[i] : symptoms[i].text);
}

static void print_places(const struct doctor *d, const struct finding *f)
{
    static const char *const sides[2] = {" (source)", " (target)"};
    int i;
    for (i = 0; i < f->n; i++) {
        const struct place *at = &f->at[i];
        fputs(i && !f->at[0].why ? ", " : "    ", stdout);
        if (at->file >= 0) print_clean(stdout, d->files[at->file], SIZE_MAX);
        printf(":%lld%s", (long long)at->line, at->side < 0 ? "" : sides[at->side]);
        if (at->why) fputs(": ", stdout);
        if (at->why) print_clean(stdout, at->why, 200);
        if (f->at[0].why || i + 1 == f->n) putchar('\n');
    }
}

static void print_finding(const struct doctor *d, int i)
{
    char *text = finding_text(d, i), *remedy = remedy_text(d, i);
    fputs(i < NOTES ? "warning: " : "note: ", stdout);
    print_clean(stdout, text, SIZE_MAX);
    putchar('\n');
    print_places(d, &d->found[i]);
    if (remedy) { fputs("    -> ", stdout); print_clean(stdout, remedy, SIZE_MAX); putchar('\n'); }
    free(text);
    free(remedy);
}

static void print_json_finding(const struct doctor *d, int i)
{
    static const char *const sides[2] = {"source", "target"};
    const struct finding *f = &d->found[i];
    char *text = finding_text(d, i), *remedy = remedy_text(d, i);
    int k;
    printf("{\"name\":\"%s\",\"level\":\"%s\",\"count\":%lld", symptoms[i].name,
           i < NOTES ? "warning" : "note", (long long)f->count);
    print_json_member(stdout, "text", text);
    if (remedy) print_json_member(stdout, "remedy", remedy);
    fputs(",\"lines\":[", stdout);
    for (k = 0; k < f->n; k++) {
        const struct place *at = &f->at[k];
        printf("%s{\"line\":%lld", k ? "," : "", (long long)at->line);
        if (at->file >= 0) print_json_member(stdout, "file", d->files[at->file]);
        if (at->side >= 0) print_json_member(stdout, "side", sides[at->side]);
        if (at->why) print_json_member(stdout, "why", at->why);
        putchar('}');
    }
    fputs("]}", stdout);
    free(text);
    free(remedy);
}

int report(const struct doctor *d)
{
    const char *what = d->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line";
    int64_t all = (int64_t)d->n + d->unread;
    int i, warnings = 0, notes = 0, json = d->s->json;
    if (json)
        printf("{\"training\":%lld,\"validation\":%lld,\"test\":%lld,\"unread\":%lld,"
               "\"findings\":[", (long long)d->of[0], (long long)d->of[1], (long long)d->of[2],
               (long long)d->unread);
    for (i = 0; i < SYMPTOMS; i++) {
        if (!d->found[i].count) continue;
        if (json && warnings + notes) putchar(',');
        if (json) print_json_finding(d, i); else print_finding(d, i);
        if (i < NOTES) warnings++; else notes++;
    }
    if (json) printf("],\"warnings\":%d,\"notes\":%d}\n", warnings, notes);
    else if (!warnings && !notes) printf("%lld %s%s: nothing found\n", (long long)all, what,
                                         plural(all));
    else printf("%lld %s%s: %d warning%s, %d note%s\n", (long long)all, what, plural(all), warnings,
                plural(warnings), notes, plural(notes));
    return warnings;
}
