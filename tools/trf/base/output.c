// trf: names of files that are written, and writing without losing anything. See base.h.

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>results
// -----------------------------------------------------------------------------------------------

/* stat of the folder of a path. Returns the name within it, or NULL. */
static const char *name_in_folder(const char *path, struct stat *there)
{
    char *folder = folder_of(path);
    int missing = stat(folder, there);
    free(folder);
    return missing ? NULL : name_of(path);
}

int same_file(const char *a, const char *b)
{
    struct stat x, y;
    const char *name_a, *name_b;
    if (!a || !b) return 0;
    if (!strcmp(a, b)) return 1;
    if (!stat(a, &x) && !stat(b, &y))
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    name_a = name_in_folder(a, &x);
    name_b = name_in_folder(b, &y);
    return name_a && name_b && !strcmp(name_a, name_b) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Whether the standard stream is the regular file at path. */
static int is_stream(const char *path, int fd)
{
    struct stat file, stream;
    return path && !stat(path, &file) && !fstat(fd, &stream) && S_ISREG(stream.st_mode) &&
           file.st_dev == stream.st_dev && file.st_ino == stream.st_ino;
}

/* Options that name files to read. */
static const size_t inputs[] = {
    AT(source), AT(target), AT(tsv), AT(train.next_sentences), AT(train.valid_source),
    AT(train.valid_target), AT(train.valid_tsv), AT(train.text), AT(train.valid_text),
    AT(train.init_from), AT(train.vocab_from), AT(train.token_file), AT(input), AT(model),
    AT(answer.prefixes), AT(answer.queries), AT(embed.index), AT(train.sentencepiece), AT(train.source_sentencepiece),
    AT(train.target_sentencepiece)};
enum { INPUTS = sizeof inputs / sizeof *inputs };

/* The same of several files each. */
static const struct { size_t field; const char *option; } several[] = {
    {AT(train.more_tsv), "tsv"}, {AT(train.more_text), "text"}, {AT(train.more_source), "source"},
    {AT(train.more_target), "target"}, {AT(train.teachers), "teacher"},
    {AT(with), "with"}, {AT(eval.references), "reference"}};

static const char *input_of(const struct settings *s, int i)
{
    return *(const char *const *)((const char *)s + inputs[i]);
}

/* A command must not write a file that it reads. */
int check_written(const struct settings *s, const char *option, const char *path)
{
    size_t l;
    int i;
    if (!path) return DONE;
    if (!strcmp(path, "-")) {
        say("--%s needs the name of a file, got '-'", option);
        return FAILED;
    }
    for (i = 0; i < INPUTS; i++)
        if (path != input_of(s, i) && same_file(path, input_of(s, i))) {
            say("--%s '%s' is the file that --%s reads", option, path, option_name(inputs[i]));
            return FAILED;
        }
    for (l = 0; l < sizeof several / sizeof *several; l++) {
        const struct texts *files =
            (const struct texts *)(const void *)((const char *)s + several[l].field);
        for (i = 0; i < files->n; i++) {
            if (!same_file(path, files->item[i])) continue;
            say("--%s '%s' is the file that --%s reads", option, path, several[l].option);
            return FAILED;
        }
    }
    if (is_stream(path, STDIN_FILENO)) {
        say("--%s '%s' is the file that standard input reads", option, path);
        return FAILED;
    }
    if (is_stream(path, STDERR_FILENO)) {
        say("--%s '%s' is the file that messages go to", option, path);
        return FAILED;
    }
    return DONE;
}

void for_files(const char *prefix, void (*each)(void *user, const char *path, const char *tail),
               void *user)
{
    const char *begin = name_of(prefix);
    size_t length = strlen(begin);
    char *folder = folder_of(prefix);
    DIR *files = opendir(folder);
    struct dirent *entry;
    while (files && (entry = readdir(files))) {
        char *path;
        if (strncmp(entry->d_name, begin, length)) continue;
        path = format_text("%s%s", prefix, entry->d_name + length);
        each(user, path, entry->d_name + length);
        free(path);
    }
    if (files) closedir(files);
    free(folder);
}

/* The ".tmp-0123abcd" that saving appends to the name of an unfinished file, or NULL. */
static const char *unfinished_tail(const char *name)
{
    size_t n = strlen(name), tail = strlen(".tmp-12345678");
    const char *at = name + n - tail;
    return n < tail || strncmp(at, ".tmp-", 5) || strspn(at + 5, "0123456789abcdef") != 8 ? NULL
                                                                                          : at;
}

/* "m.update-900" belongs to "m", and so does "./m.update-900". */
static int is_numbered(const char *path, const char *base, const char *middle)
{
    const char *at = strrchr(path, '/'), *end = NULL;
    char *stem;
    int is;
    for (at = at ? at : path; (at = strstr(at, middle)) != NULL; at++) end = at;
    stem = format_text("%.*s", end ? (int)(end - path) : 0, path);
    is = end && end[strlen(middle)] &&
         !end[strlen(middle) + strspn(end + strlen(middle), "0123456789")] && same_file(stem, base);
    free(stem);
    return is;
}

int is_own_name(const char *path, const char *base, const char *numbered)
{
    const char *tail = unfinished_tail(path);
    char *stem;
    int is;
    if (!base) return 0;
    if (!tail || tail == path) return is_numbered(path, base, numbered);
    stem = format_text("%.*s", (int)(tail - path), path);
    is = same_file(stem, base) || is_numbered(stem, base, numbered);
    free(stem);
    return is;
}

/* Removes an unfinished file that no process has locked. user: the path that it was saved for. */
static void remove_unfinished(void *user, const char *path, const char *tail)
{
    const char *base = (const char *)user;
    struct stat mine, there;
    int fd;
    if (!unfinished_tail(tail) ||
        (!is_own_name(path, base, ".average-") && !is_own_name(path, base, ".update-")))
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &mine) && !stat(path, &there) &&
        S_ISREG(mine.st_mode) && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino)
        unlink(path);
    close(fd);
}

void remove_all_unfinished(const char *path)
{
    for_files(path, remove_unfinished, (void *)(uintptr_t)path);
}

int cannot_write(const char *path)
{
    say("cannot write '%s': %s", path, strerror(errno));
    return FAILED;
}

int lock_file(int fd, const char *path)
{
    struct flock all;
    memset(&all, 0, sizeof all);
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    if (!fcntl(fd, F_SETLK, &all) || (errno != EACCES && errno != EAGAIN)) return DONE;
    if (fcntl(fd, F_GETLK, &all) || all.l_type == F_UNLCK) all.l_pid = 0;
    say("cannot write '%s': process %lld is writing it", path, (long long)all.l_pid);
    return FAILED;
}

/* Whether the file that is open is still the one of that name. */
static int has_name(int fd, const char *name)
{
    struct stat mine, there;
    return !fstat(fd, &mine) && !lstat(name, &there) && S_ISREG(mine.st_mode) &&
           mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

int lock_name(struct lock *l, const char *path)
{
    memset(l, 0, sizeof *l);
    if (!path || !*path) return DONE;
    l->name = format_text("%s.lock", path);
    while ((l->fd = open(l->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666)) >= 0) {
        int refused = lock_file(l->fd, path);
        if (!refused && has_name(l->fd, l->name)) return DONE;
        close(l->fd);           /* or its owner has just removed it */
        if (refused) break;
    }
    free(l->name);
    l->name = NULL;
    return l->fd >= 0 ? FAILED : DONE;
}

void unlock_name(struct lock *l)
{
    struct stat there;
    if (!l->name) return;
    if (!fstat(l->fd, &there) && !there.st_size) unlink(l->name);
    close(l->fd);
    free(l->name);
    l->name = NULL;
}

/* The lock shows that the file has an owner: see remove_unfinished. */
int begin_file(struct unfinished *u, const char *path)
{
    remove_all_unfinished(path);
    u->path = path;
    u->name = format_text("%s.tmp-%08lx", path, (unsigned long)getpid() & 0xffffffff);
    if ((u->file = fopen(u->name, "wx"))) {
        (void)flock(fileno(u->file), LOCK_EX | LOCK_NB);
        return DONE;
    }
    cannot_write(path);
    free(u->name);
    return FAILED;
}

int end_file(struct unfinished *u, int complete)
{
    int status = complete ? check_output(u->file, u->path) : FAILED;
    if (!status && (fsync(fileno(u->file)) || rename(u->name, u->path)))
        status = cannot_write(u->path);
    if (status) unlink(u->name);
    fclose(u->file);            /* unlocks it */
    free(u->name);
    return status;
}

int write_file(const char *path, const void *bytes, size_t n)
{
    struct unfinished u;
    if (begin_file(&u, path)) return FAILED;
    if (fwrite(bytes, 1, n, u.file) == n) return end_file(&u, 1);
    cannot_write(path);
    return end_file(&u, 0);
}

/* Tries what saving does: makes a file beside it, and opens the folder. Permissions alone do not
   show whether this works. A name that is too long for it may still do for a file that is written
   directly. */
static int makes_file(const char *path, const char *folder)
{
    char *name = format_text("%s.tmp-%08lx", path, (unsigned long)getpid() & 0xffffffff);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600), reason = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    free(name);
    if (!reason || reason == EEXIST || reason == ENAMETOOLONG) {
        fd = open(folder, O_RDONLY);
        reason = fd < 0 ? errno : 0;
        if (fd >= 0) close(fd);
    }
    errno = reason;
    return !reason;
}

int check_writable(const char *path)
{
    struct stat folder, there;
    char *name = folder_of(path);
    int fine = 0;
    if (!*path) errno = ENOENT;
    else if (!stat(path, &there) && S_ISDIR(there.st_mode)) errno = EISDIR;
    else if (!stat(path, &there) && !S_ISREG(there.st_mode))
        errno = EEXIST; /* a device is not to be replaced */
    else if (!stat(name, &folder) && !S_ISDIR(folder.st_mode)) errno = ENOTDIR;
    else if (!access(name, F_OK) && folder.st_mode & S_ISVTX && !stat(path, &there) && geteuid() &&
             there.st_uid != geteuid() && folder.st_uid != geteuid())
        errno = EPERM;          /* in a folder like /tmp another's file cannot be replaced */
    else fine = makes_file(path, name);
    if (!fine)
        say("cannot write '%s': %s", path,
            errno == EEXIST ? "it is not a regular file" : strerror(errno));
    free(name);
    return fine ? DONE : FAILED;
}

/* Whether a complete file takes this name. Devices and pipes are written to directly. */
static int is_replaced(const char *path)
{
    struct stat there;
    return stat(path, &there) || S_ISREG(there.st_mode);
}

int check_replaceable(const char *path)
{
    struct stat there;
    if (lstat(path, &there) || !S_ISLNK(there.st_mode))
        return check_writable(path); /* such as /dev/stdout */
    say("cannot write '%s': it is a symbolic link: name the file that it leads to", path);
    return FAILED;
}

int check_readable(const char *path)
{
    struct stat there;
    int reason = 0;
    if (!path || !strcmp(path, "-")) return DONE;
    if (stat(path, &there) || access(path, R_OK)) reason = errno;
    else if (S_ISDIR(there.st_mode)) reason = EISDIR;
    if (reason) say("cannot read '%s': %s", path, strerror(reason));
    return reason ? FAILED : DONE;
}

/* An empty file (of mktemp) has nothing to lose. A device or a pipe is not replaced. */
int is_taken(const char *path)
{
    struct stat there;
    return path && !stat(path, &there) && S_ISREG(there.st_mode) && there.st_size > 0;
}

/* Through another name of standard output the shell may append to a file. */
static int is_standard_output(const char *path)
{
    return !path || !strcmp(path, "-") || is_stream(path, STDOUT_FILENO);
}

int check_output_name(const struct settings *s)
{
    if (is_standard_output(s->output)) return DONE;
    if (check_written(s, "output", s->output)) return FAILED;
    if (!s->overwrite && is_taken(s->output)) {
        say(s->resume ? "--output '%s' is complete: --resume has nothing to continue"
                      : "--output '%s' exists: --overwrite replaces it", s->output);
        return FAILED;
    }
    return is_replaced(s->output) ? check_replaceable(s->output) : DONE;
}

int check_not_output(const char *path)
{
    if (!is_stream(path, STDOUT_FILENO)) return DONE;
    say("standard output is '%s', which is also read", path);
    return FAILED;
}

/* The input must not grow with the output: `trf translate --input s >>s` would never end. */
static int check_standard_output(const struct settings *s)
{
    struct stat in, out;
    int i;
    for (i = 0; i < INPUTS; i++) if (check_not_output(input_of(s, i))) return FAILED;
    if (!fstat(STDIN_FILENO, &in) && !fstat(STDOUT_FILENO, &out) && S_ISREG(in.st_mode) &&
        in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
        say("standard output is the file that standard input reads");
        return FAILED;
    }
    return DONE;
}

int open_output(const struct settings *s, struct unfinished *u)
{
    memset(u, 0, sizeof *u);
    u->path = s->output;
    if (is_standard_output(s->output))
        u->file = check_standard_output(s) ? NULL : stdout;
    else if (check_output_name(s)) return FAILED;
    else if (is_replaced(s->output)) return begin_file(u, s->output);
    else if (!(u->file = fopen(s->output, "w"))) cannot_write(s->output);
    return u->file ? DONE : FAILED;
}

/* An interrupted output goes on behind what it has. */
static int open_part(struct unfinished *u, int resumes)
{
    struct stat there;
    int fd;
    remove_all_unfinished(u->path);
    fd = open(u->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && !resumes) {
        int locked = lock_file(fd, u->name);
        if (!locked) unlink(u->name);
        close(fd);
        if (locked) return FAILED;
        fd = -1;
        errno = ENOENT;
    }
    if (fd < 0 && errno == ENOENT) fd = open(u->name, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd < 0) return cannot_write(u->name);
    if (lock_file(fd, u->name)) { close(fd); return FAILED; }
    errno = EEXIST;             /* unless it is a file, which nobody has renamed meanwhile */
    if (!has_name(fd, u->name) || fstat(fd, &there) || there.st_nlink != 1 ||
        !(u->file = fdopen(fd, "r+"))) {
        close(fd);
        return cannot_write(u->name);
    }
    return DONE;
}

int open_answers(const struct settings *s, struct unfinished *u)
{
    int begun;
    memset(u, 0, sizeof *u);
    if (is_standard_output(s->output) || !is_replaced(s->output)) {
        if (!s->resume) return open_output(s, u);
        say("--resume needs --output FILE: standard output keeps nothing to continue");
        return USAGE;
    }
    u->path = s->output;
    u->name = format_text("%s.part", s->output);
    begun = !access(u->name, F_OK);
    if (begun && !s->resume && !s->overwrite)
        say("'%s' was interrupted: --resume continues it, --overwrite begins again", u->name);
    else if (!check_output_name(s) && !open_part(u, s->resume)) return DONE;
    free(u->name);
    u->name = NULL;
    return FAILED;
}

static void say_unwritten(const char *path)
{
    say("cannot write %s: %s", path && strcmp(path, "-") ? path : "standard output",
        errno ? strerror(errno) : "an earlier write failed");
}

int check_output(FILE *file, const char *path)
{
    int broken = ferror(file);
    errno = 0;
    if (!fflush(file) && !broken) return DONE;
    say_unwritten(path);
    return FAILED;
}

int close_output(struct unfinished *u, int complete)
{
    int status = DONE;
    if (!u->file) return DONE;
    if (u->name) return end_file(u, complete);
    status = check_output(u->file, u->path);
    errno = 0;
    if (u->file != stdout && fclose(u->file) && !status) {
        say_unwritten(u->path);
        status = FAILED;
    }
    return status;
}
