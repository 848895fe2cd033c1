// trf train, trf prepare: the texts of a folder.

#include "data.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the files in a folder, in byte order; malloc'd. NULL: reported. */
static char **files_in(const char *folder, const struct settings *s,
                       int (*leaves_out)(const struct settings *s, const char *path), size_t *n)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    struct stat there;
    char **names = NULL;
    size_t capacity = 0, folders = 0;
    *n = 0;
    while (open && (entry = readdir(open))) {
        char *path = format_text("%s/%s", folder, entry->d_name);
        folders += *entry->d_name != '.' && is_folder(path);
        if (*entry->d_name == '.' || stat(path, &there) || !S_ISREG(there.st_mode) ||
            (leaves_out && leaves_out(s, path))) {
            free(path);
            continue;
        }
        names = grow(names, &capacity, *n + 1, sizeof *names);
        names[(*n)++] = path;
    }
    if (open) closedir(open);
    if (!open) say("cannot read '%s': %s", folder, strerror(errno));
    else if (!*n) say("'%s' has no files", folder);
    if (folders)
        say("warning: '%s' has %zu folder%s, whose files are not read", folder, folders,
            plural((int64_t)folders));
    if (*n) qsort(names, *n, sizeof *names, by_name);
    return names;
}

int for_each_file(const char *path, const struct settings *s,
                  int (*leaves_out)(const struct settings *s, const char *path),
                  int (*add)(void *user, const char *path), void *user)
{
    char **names;
    size_t n, i;
    int status;
    if (!is_folder(path)) return add(user, path);
    names = files_in(path, s, leaves_out, &n);
    status = names ? DONE : FAILED;
    for (i = 0; i < n; i++) {
        if (!status) status = add(user, names[i]);
        free(names[i]);
    }
    free(names);
    return status;
}

/* Whether a file that training writes would be one of a folder's texts. */
static int lies_in(const char *path, const char *folder)
{
    char *beside = path && *path ? folder_of(path) : NULL;
    struct stat x, y;
    int is = beside && !stat(beside, &x) && !stat(folder, &y) && x.st_dev == y.st_dev &&
             x.st_ino == y.st_ino;
    free(beside);
    return is;
}

int check_texts(const struct settings *s, const char *path)
{
    const char *const written[] = {s->model, s->train.checkpoint, s->train.log};
    size_t i;
    if (!is_folder(path)) return check_readable(path);
    for (i = 0; i < sizeof written / sizeof *written; i++)
        if (lies_in(written[i], path)) {
            say("'%s' would be written into the folder of the texts, '%s': a later run would read it",
                written[i], path);
            return FAILED;
        }
    return DONE;
}
