// trf export: a folder that is complete or not there. Files are written into a folder beside it,
// which gets the folder's name when all of them are written.

#include "export.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* All files that trf export may write, in the order in which they replace those of an earlier
   export. */
static const char *const names[] = {
    "model.safetensors", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm", "target_vocab.json",
    "spiece.model", "tokenizer.model", "sentencepiece.bpe.model", TARGET_FOLDER "/tokenizer.json",
    TARGET_FOLDER "/tokenizer_config.json", TARGET_FOLDER "/vocab.txt", TARGET_FOLDER "/vocab.json",
    TARGET_FOLDER "/merges.txt", TARGET_FOLDER "/source.spm", TARGET_FOLDER "/target.spm",
    POOLING_FOLDER "/config.json", "modules.json", "sentence_bert_config.json",
    "config_sentence_transformers.json", "config.json"};
enum { NAMES = sizeof names / sizeof *names };

/* A signal ends the program after the file that is being written, so that the unfinished folder can
   be removed. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction inherited[N_SIGNALS];
static volatile sig_atomic_t interrupted;

static void end_soon(int signal_number) { interrupted = signal_number; }

static void catch_signals_here(void)
{
    struct sigaction action;
    int i;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_soon;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;   /* the same signal again ends it at once */
    for (i = 0; i < N_SIGNALS; i++)                     /* what the parent ignores stays ignored */
        if (!sigaction(signals[i], NULL, &inherited[i]) && inherited[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

static void release_signals_here(void)
{
    int i;
    for (i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &inherited[i], NULL);
    if (interrupted) raise(interrupted);
}

/* Whether a folder is there, and whether it has anything in it. */
static int look_at(const char *path, int *there, int *filled)
{
    struct stat info;
    DIR *files;
    struct dirent *entry;
    *there = *filled = 0;
    if (stat(path, &info)) return DONE;
    if (!S_ISDIR(info.st_mode))
        return refuse("--output '%s' is a file, but trf export writes a folder", path);
    *there = 1;
    files = opendir(path);
    if (!files) return cannot_write(path);
    while ((entry = readdir(files)))
        *filled |= strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(files);
    return DONE;
}

/* Whether one of the files to write is the model that is exported. */
static int replaces(const char *path, const char *model)
{
    int i, is = 0;
    for (i = 0; i < NAMES && !is; i++) {
        char *name = format_text("%s/%s", path, names[i]);
        is = same_file(name, model);
        free(name);
    }
    if (is) say("--output '%s' would overwrite the model '%s': give another folder", path, model);
    return is;
}

int begin_folder(struct folder *f, const char *path, const char *model, int overwrite)
{
    size_t n = strlen(path);
    int there, filled;
    memset(f, 0, sizeof *f);
    f->path = path;
    if (look_at(path, &there, &filled)) return FAILED;
    if (filled && !overwrite)
        return refuse("--output '%s' is a folder with files: --overwrite replaces the files of a "
                      "model in it", path);
    if (replaces(path, model)) return FAILED;
    if (there && access(path, W_OK | X_OK)) return cannot_write(path);
    while (n > 1 && path[n - 1] == '/') n--;
    f->unfinished = format_text("%.*s.tmp-XXXXXX", (int)n, path);
    catch_signals_here();
    if (mkdtemp(f->unfinished)) return DONE;
    release_signals_here();
    cannot_write(path);
    free(f->unfinished);
    f->unfinished = NULL;
    return FAILED;
}

char *path_in(const struct folder *f, const char *name)
{
    return format_text("%s/%s", f->unfinished, name);
}

/* The folder within a folder that holds the file, or NULL: it is in the folder itself. */
static char *inner_folder(const char *folder, const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? format_text("%s/%.*s", folder, (int)(slash - name), name) : NULL;
}

int write_bytes(const struct folder *f, const char *name, const void *bytes, size_t n)
{
    char *path = path_in(f, name), *inner = inner_folder(f->unfinished, name);
    int status = interrupted ? FAILED : DONE;
    if (!status && inner && mkdir(inner, 0777) && errno != EEXIST) status = cannot_write(inner);
    if (!status) status = write_file(path, bytes, n);
    free(path);
    free(inner);
    return status;
}

int write_json(const struct folder *f, const char *name, const cJSON *json)
{
    char *text = cJSON_Print(json), *line = text ? format_text("%s\n", text) : NULL;
    int status = FAILED;
    if (line) status = write_bytes(f, name, line, strlen(line));
    else say("no memory for the text of %s", name);
    cJSON_free(text);
    free(line);
    return status;
}

/* Moves one file, or removes the one that an earlier export has left. */
static int move_file(const struct folder *f, const char *name)
{
    char *from = path_in(f, name), *to = format_text("%s/%s", f->path, name);
    char *inner = inner_folder(f->path, name);
    int status = DONE;
    if (access(from, F_OK)) {
        if (unlink(to) && errno != ENOENT && errno != ENOTDIR) status = cannot_write(to);
    } else if ((inner && mkdir(inner, 0777) && errno != EEXIST) || rename(from, to))
        status = cannot_write(to);
    free(from);
    free(to);
    free(inner);
    return status;
}

int finish_folder(struct folder *f)
{
    int i, there, filled;
    mode_t mask = umask(0);
    umask(mask);
    if (interrupted || look_at(f->path, &there, &filled)) return FAILED;
    if (!there) {
        if (chmod(f->unfinished, 0777 & ~mask) || rename(f->unfinished, f->path))
            return cannot_write(f->path);
        free(f->unfinished);
        f->unfinished = NULL;
        return DONE;
    }
    for (i = 0; i < NAMES; i++)
        if (move_file(f, names[i]))
            return refuse("'%s' has a part of the files: those up to %s are new", f->path,
                          names[i]);
    return DONE;
}

/* Removes what is left of the unfinished folder. Ends the program if a signal came. */
void drop_folder(struct folder *f)
{
    char *path;
    int i;
    for (i = 0; i < NAMES && f->unfinished; i++) {
        path = path_in(f, names[i]);
        unlink(path);
        free(path);
        path = inner_folder(f->unfinished, names[i]);
        if (path) rmdir(path);          /* after its last file */
        free(path);
    }
    if (f->unfinished) {
        rmdir(f->unfinished);
        free(f->unfinished);
        f->unfinished = NULL;
    }
    release_signals_here();
}
