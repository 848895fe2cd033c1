// trf: the command line of transformer.h: trains, translates, generates, labels, embeds, scores,
// inspects.
// SPDX-License-Identifier: MIT
//
// Build, in the root of the repository:
//     make build/trf
// Run:
//     build/trf --help
//
// trf trains a model file from lines of text, and applies a model file to lines of text. It uses
// only the public half of the header; its own work is lines, options and messages.

#include "answer/answer.h"
#include "look/look.h"
#include "manual.h"
#include "publish/publish.h"
#include "train/train.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

/* The functions of the commands, in the order of the table. */
static int (*const runs[])(struct settings *s, int argc, char **argv) = {
    command_train, command_translate, command_generate, command_classify, command_classify,
    command_rerank, command_tokenize, command_tokenize, command_embed, command_score, command_eval, command_inspect, command_attention,
    command_average, command_quantize, command_import, command_export, command_prepare,
    command_plot, command_report, command_doctor
};

static void print_overview(FILE *file)
{
    int i;
    fprintf(file, "trf %s: trains and runs transformers on lines of text\n\n", TRF_VERSION);
    fprintf(file, "usage: trf COMMAND [options]\n\n");
    for (i = 0; i < n_commands; i++)
        fprintf(file, "  %-11s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "\n  trf COMMAND --help   what a command does, and its options (--help all: every one)\n"
                  "  trf --help           this text\n"
                  "  trf --version        the version, and how this program was built\n"
                  "  trf help --man       the help of all commands as a man page\n"
                  "  trf completion bash  a completion script for bash (or zsh)\n");
}

/* MODEL is the first argument of a command, or --model. Commands with other arguments find it in
   the settings, those without among the arguments. Returns the number of the first argument. */
static int place_model(const struct command *command, struct settings *s, int first, int argc,
                       char **argv)
{
    if (command->bit & (INSPECT | QUANTIZE | EXPORT) && s->model) argv[--first] = (char *)s->model;
    if (!(command->bit & (TRANSLATE | GENERATE | CLASSIFY | TAG | RERANK | EMBED | SCORE | PREPARE |
                           TOKENIZE | DETOKENIZE)) ||
        s->model || first == argc)
        return first;
    s->model = argv[first];
    s->model_is_argument = 1;
    return first + 1;
}

static int run_connected(const struct command *command, int argc, char **argv)
{
    static struct settings s;
    int status, first;
    set_defaults(&s);
    s.say_export = say_export;
    status = parse_command_line(command, &s, argc, argv);
    if (status == DONE) return check_output(stdout, NULL);
    if (status > 0) return status;
    quiet |= s.quiet;
    max_line_bytes = (uint64_t)s.max_line_bytes < SIZE_MAX / 2 ? (size_t)s.max_line_bytes
                                                               : SIZE_MAX / 2;
    if (optind < argc && command->bit & (TRAIN | DOCTOR)) {
        if (!access(argv[optind], R_OK))
            say("'%s' is a file, not an option: give --tsv %s (source, tab, target), or --text %s for "
                "plain text", argv[optind], argv[optind], argv[optind]);
        else say("'%s' is not an option: the data need --tsv FILE, --source FILE and --target FILE, or "
            "--text FILE; all options: %s --help", argv[optind], program);
        return USAGE;
    }
    /* a command ends when nobody reads its results any more, but a training run goes on */
    if (command->bit & TRAIN) signal(SIGPIPE, SIG_IGN);
    status = join_ranks(&s, command->bit & TRAIN);
    if (!status && command->bit & (RUN | ATTENTION)) status = check_device(&s);
    if (status) return status;
    first = place_model(command, &s, optind, argc, argv);
    return runs[command - commands](&s, argc - first, argv + first);
}

static int run_command(const struct command *command, int argc, char **argv)
{
    static char name[32];
    int status = DONE;
    snprintf(name, sizeof name, "trf %s", command->name);
    program = name;
    /* before anything that can fail in one rank alone */
    if (command->bit & TRAIN) status = connect_ranks();
    if (!status) status = run_connected(command, argc, argv);
    return leave_ranks(status);
}

/* Opens the standard streams that are closed: else a file would get the number of one of them, and
   messages would go into the file. Writing to such a stream still fails. */
static void open_standard_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) { }
    if (fd >= 0) close(fd);
}

static void print_version(void)
{
    trf_device device = trf_device_default();
    char text[500], *kernels;
    device.products = TRF_PRODUCTS_BUILT_IN;    /* as settings.c */
    trf_device_text(&device, text, sizeof text);
    kernels = strchr(text, '\n');               /* the second line */
    *kernels++ = 0;
    /* The first line tells what was compiled, behind a name and a version; the second what is used. */
    printf("trf %s\ncompiled: %s\nused here: %s\n", TRF_VERSION, strchr(text, ',') + 2, kernels);
#ifdef TRF_WITH_SENTENCEPIECE
    puts("subwords: learned by libsentencepiece, or read from a SentencePiece model");
#else
    puts("subwords: read from a SentencePiece model; this trf was built without libsentencepiece "
         "and cannot learn them");
#endif
#ifndef TRF_WITH_CJSON
    puts("imported models: this trf was built without cJSON and cannot import or "
         "export them");
#elif defined(TRF_WITH_LIBZIP)
    puts("imported models: read and written, with cJSON and libzip");
#else
    puts("imported models: read and written, with cJSON, but without libzip: no zip files of "
         "PyTorch");
#endif
#ifndef TRF_WITH_ZLIB
    puts("texts: this trf was built without zlib and cannot read .gz files");
#endif
#ifdef TRF_WITH_ICU
    puts("sentences: cut by ICU (trf translate --sentences)");
#endif
#ifdef TRF_NO_CBLAS
    puts("products: built-in");
#elif defined(LOADS_OPENBLAS)
    puts("products: built-in, so that models do not depend on the OpenBLAS of a machine; "
         "--products cblas loads it");
#else
    puts("products: built-in; --products cblas: by the linked CBLAS library");
#endif
    puts(has_mpi() ? "processes: one, or several that mpirun starts, for trf train"
                   : "processes: one; this trf was built without MPI");
    puts("pictures: trf plot and trf report run gnuplot if it is installed");
#ifdef __clang__
    printf("compiler: %s, C %ld\n", __VERSION__, (long)__STDC_VERSION__);
#else
    printf("compiler: gcc %s, C %ld\n", __VERSION__, (long)__STDC_VERSION__);
#endif
}

static void print_completion_help(void)
{
    puts("usage: trf completion bash|zsh\n\n"
         "Writes a script that lets the shell complete commands, options and their values. For\n"
         "zsh, the file belongs in a folder of $fpath.\n\n"
         "    . <(trf completion bash)\n"
         "    trf completion zsh > _trf");
}

/* trf help, trf help COMMAND, trf help --man. Returns -1 if the word is no command. */
static int help(const char *word)
{
    char trf[] = "trf", option[] = "--help", *arguments[] = {trf, option, NULL};
    int i;
    for (i = 0; i < n_commands; i++)
        if (!strcmp(word, commands[i].name)) return run_command(&commands[i], 2, arguments);
    if (!strcmp(word, "--man")) print_manual();
    else if (!strcmp(word, "completion")) print_completion_help();
    else if (!*word || !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"))
        print_overview(stdout);
    else return -1;
    return check_output(stdout, NULL);
}

/* A misspelt option, one that a command takes, or neither. */
static void say_unknown_option(const char *word)
{
    char name[64];
    int i;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    if (!strcmp(name, "-v") || !strcmp(name, "-V") || distance(name, "--version") <= 3) {
        say("unknown option '%s'; did you mean --version?", name);
        return;
    }
    if (distance(name, "--help") <= 2) {
        say("unknown option '%s'; did you mean --help?", name);
        return;
    }
    for (i = 0; i < n_rows && !strncmp(name, "--", 2); i++) {
        int k = 0;
        if (rows[i].kind == HEADING || strcmp(rows[i].name, name + 2)) continue;
        while (!(commands[k].bit & rows[i].commands)) k++;
        say("'%s' is an option of a command and stands after it, as in: trf %s %s; all commands: "
            "trf --help", name, commands[k].name, name);
        return;
    }
    say("unknown option '%s'; all commands: trf --help", name);
}

int main(int argc, char **argv)
{
    static const char *const others[] = {"help", "completion"};
    const char *word = argc > 1 ? argv[1] : "", *next = argc > 2 ? argv[2] : "",
               *nearest = commands[0].name;
    int i, status;
    open_standard_streams();
    meet_launcher();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);       /* a file that may not grow is an error of writing */
    for (i = 0; i < n_commands; i++)
        if (!strcmp(word, commands[i].name)) return run_command(&commands[i], argc - 1, argv + 1);
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        if ((status = help(next)) >= 0) return status;
        word = next;
    }
    if (!strcmp(word, "--version")) {
        print_version();
        return check_output(stdout, NULL);
    }
    if (!strcmp(word, "completion")) {
        if (!strcmp(next, "--help") || !strcmp(next, "-h")) print_completion_help();
        else if (print_completion(next)) {
            say("completion takes bash or zsh, got '%s'", next);
            return USAGE;
        }
        return check_output(stdout, NULL);
    }
    if (!*word) { print_overview(stderr); return USAGE; }
    if (*word == '-') { say_unknown_option(word); return USAGE; }
    for (i = 1; i < n_commands + 2; i++) {
        const char *name = i < n_commands ? commands[i].name : others[i - n_commands];
        if (distance(word, name) < distance(word, nearest)) nearest = name;
    }
    if (distance(word, nearest) <= 1 + (int)strlen(nearest) / 3)
        say("unknown command '%s'; did you mean 'trf %s'? All commands: trf --help", word, nearest);
    else say("unknown command '%s'; all commands: trf --help", word);
    return USAGE;
}
