// trf: a command line becomes settings; --help.

#include "options.h"

#include <getopt.h>

// -----------------------------------------------------------------------------------------------
// >>help           texts made from the table
//
// The defaults come from the library: once without a preset, and once with each preset, which is
// named if its value differs. recipe.c chooses a few of them itself.
// -----------------------------------------------------------------------------------------------

/* Prints text from column `indent` on, broken before column 100. The cursor is at `column`. */
static void print_wrapped(const char *text, int indent, int column)
{
    enum { WIDTH = 99 };
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > WIDTH) { putchar('\n'); column = 0; }
        else if (column > indent) { putchar(' '); column++; }
        for (; column < indent; column++) putchar(' ');
        printf("%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* "default 128; --size base 512; --size big 1024" */
void default_text(const struct row *row, char *text, size_t size)
{
    static const struct { size_t field; const char *value; } presets[] = {
        {AT(train.conventions), "pytorch"}, {AT(train.conventions), "paper"},
            {AT(answer.search_rule), "fairseq"},
        {AT(answer.search_rule), "ctranslate2"}, {AT(answer.search_rule), "marian"},
            {AT(answer.search_rule), "raw"},
        {AT(answer.search_rule), "hugging-face"}};
    static const struct { size_t field; const char *value; } fixed[] = { /* by recipe.c */
        {AT(config.norm_place), "pre-norm"}, {AT(config.generator_bias), "no"},
        {AT(training.schedule), "inverse-sqrt"}, {AT(training.attention_dropout), "0"},
        {AT(training.activation_dropout), "0"}, {AT(train.ema), "0.002"}};
    const char *chosen = NULL;
    struct settings plain, changed;
    char value[64], other[64];
    size_t used, i;
    int j;
    set_defaults(&plain);
    for (i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (row->commands & TRAIN && row_writes(row, fixed[i].field)) chosen = fixed[i].value;
    if (chosen) set_value(row, &plain, chosen);
    value_text(row, &plain, value, sizeof value);
    *text = 0;
    if (strstr(row->help, "(default")) return;          /* the help text has a rule */
    if (!chosen && row->commands & FROM_DATA) {
        snprintf(text, size, " (default: from the data)");
        return;
    }
    if (!*value || row->then == then_conventions) return;
    used = (size_t)snprintf(text, size, " (default %s%s", value,
                            chosen ? " with --recipe auto" : "");
    for (i = 0; i < sizeof presets / sizeof *presets && used < size; i++) {
        changed = plain;
        for (j = 0; j < n_rows; j++)
            if (row_writes(&rows[j], presets[i].field)) {
                if (row == &rows[j]) break;             /* a preset does not explain itself */
                set_value(&rows[j], &changed, presets[i].value);
                rows[j].then(&changed);
            }
        value_text(row, &changed, other, sizeof other);
        if (!strcmp(value, other)) continue;
        used += (size_t)snprintf(text + used, size - used, "; %s: %s", presets[i].value, other);
    }
    if (used < size) snprintf(text + used, size - used, ")");
}

/* Whether `list`, names between blanks, has a name. */
static int lists(const char *list, const char *name)
{
    char with[64];
    snprintf(with, sizeof with, " %s ", name);
    return strstr(list, with) != NULL;
}

static void print_help(const struct command *command, int all)
{
    enum { COLUMN = 30 };
    const char *often = all ? NULL : command->often;
    char defaults[256], sentence[1024];
    int i, width, n = 0, headed = 0;
    printf("usage: %s\n\n", command->usage);
    puts(command->text);
    for (i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & command->bit)) continue;
        n += row->kind != HEADING;
        if (n == 1 && row->kind != HEADING && (often || !headed))
            puts(often ? "\nOptions that are used most:" : "\nOptions:");
        headed |= row->kind == HEADING;
        if (often && (row->kind == HEADING || !lists(often, row->name))) continue;
        if (row->kind == HEADING) { printf("\n%s:\n", row->name); continue; }
        width = printf("  --%s%s%s%s", row->name,
                       row->kind == MAYBE ? " [" : row->argument ? " " : "",
                       row->argument ? row->argument : "", row->kind == MAYBE ? "]" : "");
        if (width > COLUMN - 2) { putchar('\n'); width = 0; }
        default_text(row, defaults, sizeof defaults);
        snprintf(sentence, sizeof sentence, "%s%s", row->help, defaults);
        print_wrapped(sentence, COLUMN, width);
    }
    if (often) printf("\nAll %d options: trf %s --help all\n", n, command->name);
    printf("\n%s\n", command->after);
}

// -----------------------------------------------------------------------------------------------
// >>command-line   getopt_long over the table, and messages that help
// -----------------------------------------------------------------------------------------------

/* Levenshtein's distance, for "did you mean". */
int distance(const char *a, const char *b)
{
    int cost[64], n = (int)strlen(b), i, j;
    if (n >= 64) return INT32_MAX;
    for (j = 0; j <= n; j++) cost[j] = j;
    for (i = 0; a[i]; i++) {
        int diagonal = cost[0];
        cost[0] = i + 1;
        for (j = 1; j <= n; j++) {
            int best = diagonal + (a[i] != b[j - 1]);
            diagonal = cost[j];
            if (cost[j] + 1 < best) best = cost[j] + 1;
            if (cost[j - 1] + 1 < best) best = cost[j - 1] + 1;
            cost[j] = best;
        }
    }
    return cost[n];
}

/* Two letters that changed their places have distance 2. */
static int same_letters(const char *a, const char *b)
{
    int n[256] = {0}, i;
    for (; *a; a++) n[(unsigned char)*a]++;
    for (; *b; b++) n[(unsigned char)*b]--;
    for (i = 0; i < 256 && !n[i]; i++) { }
    return i == 256;
}

static const struct row *row_named(int command, const char *name)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if ((rows[i].commands & command) && rows[i].kind != HEADING && !strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

/* Whether another command has an option of this name, or one that is called so elsewhere. */
static int say_of_others(const struct command *command, const char *dashes, const char *name,
                         const char *plain)
{
    int i;
    for (i = 0; i < n_commands; i++) {
        const int own = row_named(commands[i].bit, plain) != NULL;
        const char *ours = own || !name[1] ? NULL : ours_for(commands[i].bit, plain);
        if (commands[i].bit == command->bit || (!own && !ours)) continue;
        say("unknown option '%s%s'; trf %s %s%s", dashes, name, commands[i].name,
            own ? "has --" : *ours == '-' ? "calls it " : "says: ", own ? plain : ours);
        return 1;
    }
    return 0;
}

/* `dashes` is "-" or "--"; behind one dash stands a letter, or a whole name. */
static void say_unknown(const struct command *command, const char *dashes, const char *argument)
{
    char name[64], several[512] = "", plain[64];
    const char *nearest = NULL, *ours;
    int i, best = INT32_MAX, whole;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    whole = strlen(name) > 1;
    for (i = 0; i == 0 || name[i - 1]; i++) plain[i] = name[i] == '_' ? '-' : name[i];
    if (whole && (strcmp(plain, name) || !dashes[1]) && row_named(command->bit, plain)) {
        say("unknown option '%s%s': trf calls it --%s", dashes, name, plain);
        return;
    }
    if ((ours = ours_for(command->bit, plain)) != NULL) {
        say("unknown option '%s%s': %s%s", dashes, name, *ours == '-' ? "trf calls it " : "", ours);
        return;
    }
    for (i = 0; i < n_rows && dashes[1]; i++)
        if (rows[i].commands & command->bit && rows[i].kind != HEADING &&
            !strncmp(rows[i].name, name, strlen(name)))
            snprintf(several + strlen(several), sizeof several - strlen(several), " --%s",
                     rows[i].name);
    if (*several) {
        say("'--%s' is short for several options:%s", name, several);
        return;
    }
    if (say_of_others(command, dashes, name, plain)) return;
    if (!whole) {
        say("unknown option '-%s'; all options: %s --help all", name, program);
        return;
    }
    for (i = 0; i < n_rows; i++) {
        int far;
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING) continue;
        far = distance(name, rows[i].name);
        if (far < best) { best = far; nearest = rows[i].name; }
    }
    if (nearest && strlen(name) > 2 &&
        (best <= 1 + (int)strlen(name) / 6 || (best == 2 && same_letters(name, nearest))))
        say("unknown option '%s%s'; did you mean --%s?", dashes, name, nearest);
    else say("unknown option '%s%s'; all options: %s --help all", dashes, name, program);
}

/* Where the second and later files of an option go, if it may be given several times. */
static struct texts *more_files(const struct command *command, struct settings *s,
                                const struct row *row)
{
    size_t at = command->bit & (TRAIN | DOCTOR) ? offset_of_more(row) : 0;
    return at ? (struct texts *)(void *)((char *)s + at) : NULL;
}

/* What stands behind the two dashes of the option that getopt_long has just read. */
static const char *name_typed(int index, char **argv)
{
    if (optarg && index > 1 && argv[index - 1] == optarg) index--;
    return argv[index - 1] + 2;
}

/* A name that trf had, or another program has, is not taken for the beginning of a longer one. */
static int is_a_beginning(const struct command *command, const struct row *row, const char *typed)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(typed, "="), typed);
    return !strcmp(name, row->name) || !ours_for(command->bit, name);
}

/* Fills s from argv. Returns -1 to run the command, or the exit status. */
int parse_command_line(const struct command *command, struct settings *s, int argc, char **argv)
{
    enum { FIRST = 1000, HELP = FIRST + MAX_OPTIONS };
    struct option options[MAX_OPTIONS + 2];
    int n = 0, i, code, output = 0;
    memset(options, 0, sizeof options);
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING) continue;
        options[n].name = rows[i].name;
        options[n].has_arg = rows[i].kind == FLAG    ? no_argument
                             : rows[i].kind == MAYBE ? optional_argument
                                                     : required_argument;
        options[n++].val = FIRST + i;
        if (!strcmp(rows[i].name, "output")) output = FIRST + i;
    }
    options[n].name = "help";
    options[n].val = HELP;
    opterr = 0;
    while ((code = getopt_long(argc, argv, output ? ":ho:" : ":h", options, NULL)) != -1) {
        /* "-ngl", "-output x", "-hf": names of other programs, not a letter and its value */
        const char *whole = optind < argc && argv[optind][0] == '-' && argv[optind][1] != '-'
            ? argv[optind] + 1 : "";
        if (code == 'o' && optind > 1 && optarg == argv[optind - 1] + 2) whole = argv[optind - 1] + 1;
        if ((code == 'o' && whole[0] == 'o' && optarg == whole + 1) ||
            (code == 'h' && whole[0] == 'h' && whole[1])) {
            if (whole[1] == '=') say("'-%s': write -o FILE", whole);
            else say_unknown(command, "-", whole);
            return USAGE;
        }
        if (code == HELP || code == 'h') {
            print_help(command, optind < argc && !strcmp(argv[optind], "all"));
            return DONE;
        }
        if (code == ':') { say("%s needs a value", argv[optind - 1]); return USAGE; }
        if (code == '?' && optopt == HELP) { say("--help takes no value"); return USAGE; }
        if (code == '?' && optopt >= FIRST) {
            say("--%s takes no value", rows[optopt - FIRST].name);
            return USAGE;
        }
        if (code == '?' && optopt) {
            const char letter[2] = {(char)optopt, 0};       /* getopt_long stands before the rest */
            say_unknown(command, "-", whole[0] == optopt ? whole : letter);
            return USAGE;
        }
        if (code == '?') { say_unknown(command, "--", argv[optind - 1] + 2); return USAGE; }
        if (code == 'o') code = output;
        else if (!is_a_beginning(command, &rows[code - FIRST], name_typed(optind, argv))) {
            say_unknown(command, "--", name_typed(optind, argv));
            return USAGE;
        }
        if (rows[code - FIRST].kind == MAYBE && !optarg && optind < argc &&
            choice_number(rows[code - FIRST].argument, argv[optind]) >= 0)
            optarg = argv[optind++];
        if (rows[code - FIRST].kind == TEXTS) {
            if (set_value(&rows[code - FIRST], s, optarg)) return USAGE;
        } else if (s->given[code - FIRST]) {
            struct texts *more = more_files(command, s, &rows[code - FIRST]);
            if (more && more->n < MAX_TEXTS) { more->item[more->n++] = optarg; continue; }
            if (more) {
                say("--%s can be given %d times; a folder stands for all its files",
                    rows[code - FIRST].name, 1 + MAX_TEXTS);
                return USAGE;
            }
            say("--%s is given twice%s", rows[code - FIRST].name,
                row_writes(&rows[code - FIRST], AT(model)) &&
                        command->bit & (TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG)
                    ? ": --with names one more model" : "");
            return USAGE;
        }
        s->given[code - FIRST] = optarg ? optarg : "";
    }
    return apply_given(s) ? USAGE : -1;
}
