// trf: the man page and completion scripts, made from the tables of commands and options.
//
//     trf help --man            roff, for man(1)
//     trf completion bash       a script for bash (or zsh)

#include "manual.h"

#include "base/base.h"

// -----------------------------------------------------------------------------------------------
// >>roff           a page for man
// -----------------------------------------------------------------------------------------------

static void print_roff(const char *text, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++)
        if (text[i] == '\\') fputs("\\e", stdout);
        else if (text[i] == '-') fputs("\\-", stdout);
        else if (i == 0 && (text[i] == '.' || text[i] == '\'')) printf("\\&%c", text[i]);
        else putchar(text[i]);
}

/* The text of a command: paragraphs, and indented examples, which keep their line breaks. */
static void print_roff_text(const char *text)
{
    int example = 0;
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        int indented = !strncmp(text, "    ", 4);
        if (indented != example) puts(indented ? ".RS 4\n.nf" : ".fi\n.RE");
        if (bytes == 0 && !example) puts(".PP");
        print_roff(text + (indented ? 4 : 0), bytes - (indented ? 4 : 0));
        if (bytes) putchar('\n');
        example = indented;
        text += bytes + (text[bytes] == '\n');
    }
    if (example) puts(".fi\n.RE");
}

/* A list of values may be broken after each bar. */
static void print_roff_values(const char *text)
{
    while (*text) {
        size_t bytes = strcspn(text, "|");
        print_roff(text, bytes);
        text += bytes;
        if (*text) { fputs("|\\:", stdout); text++; }
    }
}

static void print_roff_options(const struct command *command)
{
    char defaults[256];
    int i;
    for (i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & command->bit)) continue;
        if (row->kind == HEADING) {
            fputs(".SS \"", stdout);
            print_roff(row->name, strlen(row->name));
            puts("\"");
            continue;
        }
        fputs(".TP\n\\fB\\-\\-", stdout);
        print_roff(row->name, strlen(row->name));
        fputs("\\fR", stdout);
        if (row->argument) {
            fputs(" \\fI", stdout);
            if (row->kind == MAYBE) putchar('[');
            print_roff_values(row->argument);
            if (row->kind == MAYBE) putchar(']');
            fputs("\\fR", stdout);
        }
        putchar('\n');
        print_roff(row->help, strlen(row->help));
        default_text(row, defaults, sizeof defaults);
        print_roff(defaults, strlen(defaults));
        putchar('\n');
    }
}

void print_manual(void)
{
    const char *c;
    int i;
    printf(".TH TRF 1 \"\" \"trf %s\" \"User Commands\"\n", TRF_VERSION);
    puts(".SH NAME\ntrf \\- trains and runs transformers on lines of text\n.SH SYNOPSIS");
    for (i = 0; i < n_commands; i++) {
        if (i) puts(".br");
        print_roff(commands[i].usage, strlen(commands[i].usage));
        putchar('\n');
    }
    puts(
        ".SH DESCRIPTION\ntrf trains a model file from lines of text, and applies a model file "
        "to lines of text.\n"
        "Results go to standard output, everything else to standard error.");
    for (i = 0; i < n_commands; i++) {
        printf(".TP\n\\fBtrf %s\\fR\n", commands[i].name);
        print_roff(commands[i].summary, strlen(commands[i].summary));
        putchar('\n');
    }
    for (i = 0; i < n_commands; i++) {
        fputs(".SH \"TRF ", stdout);
        for (c = commands[i].name; *c; c++) putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
        puts("\"");
        print_roff(commands[i].usage, strlen(commands[i].usage));
        puts("\n.PP");
        print_roff_text(commands[i].text);
        print_roff_options(&commands[i]);
        puts(".PP");
        print_roff_text(commands[i].after);
    }
}

// -----------------------------------------------------------------------------------------------
// >>completion     for bash and zsh
// -----------------------------------------------------------------------------------------------

static int takes_file(const struct row *row)
{
    return row->argument && !strcmp(row->argument, "FILE");
}

/* Whether the values of an option are a list. For --device, it has those without a number. */
static int has_values(const struct row *row)
{
    return row->kind == CHOICE || row->kind == SWITCH || row->kind == DEVICE || row->kind == MAYBE;
}

static void print_values(const struct row *row)
{
    const char *c;
    for (c = row->kind == DEVICE ? "cpu|cuda" : row->argument; *c; c++)
        putchar(*c == '|' ? ' ' : *c);
}

/* case COMMAND,OPTION: the words that may follow the option. */
static void print_bash_values(const struct command *command)
{
    int i, n = 0;
    for (i = 0; i < n_rows; i++) {
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING || !has_values(&rows[i]))
            continue;
        printf("        %s,--%s) %swords='", command->name, rows[i].name,
               rows[i].kind == MAYBE ? "[[ $current == -* ]] || " : "");
        print_values(&rows[i]);
        puts("' ;;");
    }
    for (i = 0; i < n_rows; i++) {          /* numbers and texts have no list */
        if (!(rows[i].commands & command->bit) || rows[i].kind == HEADING || rows[i].kind == FLAG ||
            has_values(&rows[i]) || takes_file(&rows[i])) continue;
        printf("%s%s,--%s", n++ ? "|" : "        ", command->name, rows[i].name);
    }
    if (n) puts(") return ;;");
}

static void print_bash(void)
{
    int i, k;
    puts("# bash completion for trf, made by trf completion bash\n"
         "_trf()\n"
         "{\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= files=\n"
         "    COMPREPLY=()");
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '", stdout);
    for (i = 0; i < n_commands; i++) printf("%s ", commands[i].name);
    puts("help completion --help --version' -- \"$current\"))\n        return\n    fi\n"
         "    case $command,${COMP_WORDS[COMP_CWORD-1]} in");
    for (i = 0; i < n_commands; i++) print_bash_values(&commands[i]);
    fputs("        help,*) words='", stdout);
    for (i = 0; i < n_commands; i++) printf("%s ", commands[i].name);
    puts("--man' ;;\n        completion,*) words='bash zsh' ;;\n    esac\n"
         "    if [ -z \"$words\" ]; then\n        case $command,$current in");
    for (i = 0; i < n_commands; i++) {
        printf("        %s,-*) words='", commands[i].name);
        for (k = 0; k < n_rows; k++)
            if ((rows[k].commands & commands[i].bit) && rows[k].kind != HEADING)
                printf("--%s ", rows[k].name);
        puts("--help' ;;");
    }
    puts(
        "        *) files=1 ;;\n        esac\n    fi\n"
        "    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\")); fi\n"
        "    if [ -z \"$files\" ]; then return; fi\n"
        "    local IFS=$'\\n'\n"
        "    COMPREPLY+=($(compgen -f -- \"$current\"))\n"
        "}\n"
        "complete -o filenames -F _trf trf");
}

/* The first clause of a help text, quoted for zsh. */
static void print_zsh_clause(const char *text)
{
    size_t bytes = strcspn(text, ";:.(["), i;
    for (i = 0; i < bytes; i++)
        if (text[i] == '\'') fputs("'\\''", stdout);
        else if (text[i] != ']' && text[i] != '\\') putchar(text[i]);
}

static void print_zsh_command(const struct command *command)
{
    const char *c;
    int i;
    printf("    %s)\n        _arguments -S \\\n", command->name);
    for (i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & command->bit) || row->kind == HEADING) continue;
        printf("            '%s--%s[", row->kind == TEXTS ? "*" : "", row->name);
        print_zsh_clause(row->help);
        putchar(']');
        if (takes_file(row)) fputs(":file:_files", stdout);
        else if (has_values(row)) {
            fputs(row->kind == MAYBE ? "::value:(" : ":value:(", stdout);
            for (c = row->kind == DEVICE ? "cpu|cuda" : row->argument; *c; c++)
                if (*c == ':') fputs("\\:", stdout); else putchar(*c == '|' ? ' ' : *c);
            fputc(')', stdout);
        } else if (row->kind != FLAG) fputs(":value: ", stdout);
        puts("' \\");
    }
    puts("            '--help[all options]' \\\n            '*:file:_files' ;;");
}

static void print_zsh(void)
{
    int i;
    puts("#compdef trf\n"
         "# zsh completion for trf, made by trf completion zsh\n"
         "local -a commands\n"
         "commands=(");
    for (i = 0; i < n_commands; i++) {
        printf("    '%s:", commands[i].name);
        print_zsh_clause(commands[i].summary);
        puts("'");
    }
    puts("    'help:all options of a command'\n    'completion:a script for bash or zsh'\n)\n"
         "if (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
         "shift words\n(( CURRENT-- ))\n"
         "case $words[1] in");
    for (i = 0; i < n_commands; i++) print_zsh_command(&commands[i]);
    fputs("    help) compadd ", stdout);
    for (i = 0; i < n_commands; i++) printf("%s ", commands[i].name);
    puts("-- --man ;;\n    completion) compadd bash zsh ;;\nesac");
}

int print_completion(const char *shell)
{
    if (!strcmp(shell, "bash")) print_bash();
    else if (!strcmp(shell, "zsh")) print_zsh();
    else return USAGE;
    return DONE;
}
