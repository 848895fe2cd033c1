// trf train, trf prepare: the texts of a folder.

#include "data.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **files_in(const char *folder, int (*leaves_out)(const struct settings *s, const char *path),
                const struct settings *s, size_t *n)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    struct stat there;
    char **names = NULL;
    size_t capacity = 0;
    *n = 0;
    while (open && (entry = readdir(open))) {
        char *path = format_text("%s/%s", folder, entry->d_name);
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
    if (*n) qsort(names, *n, sizeof *names, by_name);
    return names;
}

/* Whether a file that training writes would be one of a folder's texts. */
static int lies_in(const char *path, const char *folder)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    char *beside;
    int is;
    if (!path || !*path) return 0;
    beside = format_text("%.*s", slash > path ? (int)(slash - path) : 1,
                         slash > path ? path : slash ? "/" : ".");
    is = same_file(beside, folder);
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
