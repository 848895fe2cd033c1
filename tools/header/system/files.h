#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"

TRF__FOR_SIZE

// -----------------------------------------------------------------------------------------------
// >>system         the operating system: files
//
// The library uses files only through the functions trf_os_... here, called as TRF_OS(name)(...).
// A system that is neither POSIX nor Windows supplies all of them, with TRF_OS_SLASH and
// TRF_OS_FOLDERS, in a header named by TRF_OS_HEADER (trf_os_hold only with #define TRF_OS_HOLDS
// 1, trf_os_map and trf_os_unmap only with #define TRF_OS_MAPS 1). It defines TRF_OS_READS_AT: 1 if
// threads may call trf_os_read_at for one file at the same time, else 0. A program that defines
// TRF_OS before the include intercepts the calls: tests make them fail like this. A descriptor is
// an int; failure is a negative result with errno set. Strict C99 hides much of POSIX; the
// functions used here stay visible.
//
// The functions below complete these calls: they repeat interrupted calls, continue short ones, and
// read or replace only regular files. So no pipe, device or folder can hang or confuse a reader.
// The small ones return 0 or an errno.
// -----------------------------------------------------------------------------------------------

/* mode: nine permission bits */
typedef struct trf_os_facts { int regular, mode; uint64_t size; } trf_os_facts;

#if !defined(TRF_OS)
#define TRF_OS(name) trf_os_##name
#endif

#if defined(TRF_OS_HEADER)
#include TRF_OS_HEADER
#elif defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <wchar.h>
#if defined(__cplusplus)
extern "C" {
#endif
__declspec(dllimport) int __stdcall MoveFileExW(const wchar_t *, const wchar_t *, unsigned long);
__declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned, unsigned long, const char *, int,
                                                        wchar_t *, int);
#if defined(__cplusplus)
}
#endif

#define TRF_OS_SLASH '\\'
#define TRF_OS_FOLDERS 0                /* folders cannot be flushed, but MoveFileExW flushes */

/* Paths are UTF-8 on every system; Windows takes them as UTF-16. */
enum { TRF__WIDE_PATH = 1024 };
TRF__FN int trf__widen(wchar_t *wide, const char *path)
{
    if (MultiByteToWideChar(65001 /* CP_UTF8 */, 8 /* MB_ERR_INVALID_CHARS */, path, -1, wide,
                            TRF__WIDE_PATH) > 0) return 0;
    errno = EINVAL;
    return -1;
}
/* create 0: opens a file or a folder for reading; 1: creates a new file; 2: opens a file for
   writing. */
TRF__FN int trf_os_open(const char *path, int create, int mode)
{
    wchar_t wide[TRF__WIDE_PATH];
    int flags = create == 2 ? _O_WRONLY : create ? _O_WRONLY | _O_CREAT | _O_EXCL : _O_RDONLY;
    return trf__widen(wide, path) ? -1 : _wopen(wide, flags | _O_BINARY | _O_NOINHERIT, mode);
}
TRF__FN int trf_os_rename(const char *from, const char *to)
{
    wchar_t wide_from[TRF__WIDE_PATH], wide_to[TRF__WIDE_PATH];
    if (trf__widen(wide_from, from) || trf__widen(wide_to, to)) return -1;
    if (MoveFileExW(wide_from, wide_to, 1 | 8 /* replace existing, write through */)) return 0;
    errno = EACCES;
    return -1;
}
TRF__FN int trf_os_unlink(const char *path)
{
    wchar_t wide[TRF__WIDE_PATH];
    return trf__widen(wide, path) ? -1 : _wunlink(wide);
}
TRF__FN int trf_os_chmod(const char *path, int mode)
{
    wchar_t wide[TRF__WIDE_PATH];
    return trf__widen(wide, path) ? -1 : _wchmod(wide, mode & (_S_IREAD | _S_IWRITE));
}
TRF__FN int trf_os_stat(const char *path, int fd, trf_os_facts *facts)
{
    wchar_t wide[TRF__WIDE_PATH];
    struct _stat64 found;
    if (path ? trf__widen(wide, path) || _wstat64(wide, &found) : _fstat64(fd, &found)) return -1;
    facts->regular = (found.st_mode & _S_IFMT) == _S_IFREG;
    facts->mode = found.st_mode & 0777;
    facts->size = (uint64_t)found.st_size;
    return 0;
}
TRF__FN int trf_os_sync(int fd) { return _commit(fd); }
TRF__FN int trf_os_close(int fd) { return _close(fd); }
TRF__FN int trf_os_seek(int fd, uint64_t offset)
{
    return _lseeki64(fd, (__int64)offset, SEEK_SET) < 0 ? -1 : 0;
}
#define TRF_OS_READS_AT 0
TRF__FN int64_t trf_os_read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    return trf_os_seek(fd, offset) < 0 ? -1 : _read(fd, to, (unsigned)bytes);
}
TRF__FN int64_t trf_os_write(int fd, const void *from, size_t bytes)
{
    return _write(fd, from, (unsigned)bytes);
}
TRF__FN uint32_t trf_os_pid(void) { return (uint32_t)_getpid(); }

#else
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define TRF_OS_SLASH '/'
#define TRF_OS_FOLDERS 1

/* create 0: opens a file or a folder for reading; 1: creates a new file; 2: opens a file for
   writing. */
TRF__FN int trf_os_open(const char *path, int create, int mode)
{
    int flags = create == 2 ? O_WRONLY
              : create ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY;    /* O_EXCL: not through a link */
#if defined(O_CLOEXEC)
    flags |= O_CLOEXEC;
#endif
#if defined(O_NONBLOCK)
    flags |= O_NONBLOCK;        /* a pipe may have replaced the file between stat and open */
#endif
    return open(path, flags, (mode_t)mode);
}
TRF__FN int trf_os_rename(const char *from, const char *to) { return rename(from, to); }
TRF__FN int trf_os_unlink(const char *path) { return unlink(path); }
TRF__FN int trf_os_chmod(const char *path, int mode) { return chmod(path, (mode_t)mode); }
/* Facts about the file at a path, or, if path is NULL, about an open one. */
TRF__FN int trf_os_stat(const char *path, int fd, trf_os_facts *facts)
{
    struct stat found;
    if (path ? stat(path, &found) : fstat(fd, &found)) return -1;
    facts->regular = S_ISREG(found.st_mode) ? 1 : 0;
    facts->mode = (int)(found.st_mode & 0777);
    facts->size = (uint64_t)found.st_size;
    return 0;
}
/* On macOS fsync leaves data in the drive's cache. F_FULLFSYNC does not, but some disks lack it. */
TRF__FN int trf_os_sync(int fd)
{
#if defined(F_FULLFSYNC)
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
    return fsync(fd);
}
TRF__FN int trf_os_close(int fd) { return close(fd); }
TRF__FN int trf_os_seek(int fd, uint64_t offset)
{
    return lseek(fd, (off_t)offset, SEEK_SET) < 0 ? -1 : 0;
}
/* Strict C99 hides pread. (glibc says what it shows: OpenBLAS's header defines _GNU_SOURCE too
   late.) */
#if !defined(__STRICT_ANSI__) || defined(__USE_UNIX98) || defined(__USE_XOPEN2K8) || \
    (!defined(__GLIBC__) && defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE >= 200809L) || \
    (!defined(__GLIBC__) && defined(_XOPEN_SOURCE) && _XOPEN_SOURCE >= 500)
#define TRF_OS_READS_AT 1
#else
#define TRF_OS_READS_AT 0
#endif
TRF__FN int64_t trf_os_read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
#if TRF_OS_READS_AT
    return (int64_t)pread(fd, to, bytes, (off_t)offset);
#else
    return trf_os_seek(fd, offset) < 0 ? -1 : (int64_t)read(fd, to, bytes);
#endif
}
TRF__FN int64_t trf_os_write(int fd, const void *from, size_t bytes)
{
    return (int64_t)write(fd, from, bytes);
}
TRF__FN uint32_t trf_os_pid(void) { return (uint32_t)getpid(); }
#define TRF_OS_MAPS 1
/* The first bytes of an open file as memory that cannot be written; NULL: they cannot be mapped. */
TRF__FN void *trf_os_map(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}
TRF__FN void trf_os_unmap(void *memory, size_t bytes) { (void)munmap(memory, bytes); }
#if defined(LOCK_EX)
#define TRF_OS_HOLDS 1
/* Locks a file exclusively, until the returned descriptor is closed or the process ends. fd is the
   open file, or -1 to open `path`. Returns -1 on failure: errno is EAGAIN if another process has
   the lock, or if the path is the name of another file by now. */
TRF__FN int trf_os_hold(const char *path, int fd)
{
    struct stat mine, there;
    int held, error, flags = O_WRONLY;
#if defined(O_NOFOLLOW)
    flags |= O_NOFOLLOW;
#endif
#if defined(O_NONBLOCK)
    flags |= O_NONBLOCK;                /* a pipe of that name does not hang */
#endif
    held = fd >= 0 ? dup(fd) : open(path, flags);
    if (held < 0 && errno == EACCES) held = trf_os_open(path, 0, 0);    /* write-protected */
    if (held < 0) return -1;
    (void)fcntl(held, F_SETFD, FD_CLOEXEC);
    error = flock(held, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? EAGAIN : errno;
    /* the name may have passed to another file before the lock was taken */
    if (!error && (fstat(held, &mine) || stat(path, &there) || !S_ISREG(mine.st_mode) ||
                   mine.st_dev != there.st_dev || mine.st_ino != there.st_ino)) error = EAGAIN;
    if (!error) return held;
    close(held);
    errno = error;
    return -1;
}
#endif
#endif
#if !defined(TRF_OS_HOLDS)
#define TRF_OS_HOLDS 0
TRF__FN int trf_os_hold(const char *path, int fd) { (void)path; (void)fd; return -1; }
#endif
#if !defined(TRF_OS_MAPS)
#define TRF_OS_MAPS 0
TRF__FN void *trf_os_map(int fd, size_t bytes) { (void)fd; (void)bytes; return NULL; }
TRF__FN void trf_os_unmap(void *memory, size_t bytes) { (void)memory; (void)bytes; }
#endif

// >>regular-files  whole reads and writes
//
// Callers see either all bytes or an error. EINTR is repeated everywhere but in close.

enum { TRF__MAX_IO = 1 << 30 };        /* bytes in one call: some systems refuse 2^31 */

/* errno of a failed call. A call that did not set it still counts as failed. */
TRF__FN int trf__errno(void) { return errno ? errno : EIO; }

TRF__FN int trf__open(const char *path, int create, int mode, int *fd)
{
    do {
        errno = 0;
        *fd = TRF_OS(open)(path, create, mode);
    } while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? trf__errno() : 0;
}

/* Reads `bytes` bytes from `offset` on, or as many as the file has; *got is their number. */
TRF__FN int trf__read_all(int fd, uint64_t offset, void *to, size_t bytes, size_t *got)
{
    *got = 0;
    while (*got < bytes) {
        size_t part = bytes - *got < TRF__MAX_IO ? bytes - *got : (size_t)TRF__MAX_IO;
        errno = 0;
        int64_t n = TRF_OS(read_at)(fd, offset + *got, (char *)to + *got, part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return trf__errno();
        if (n == 0) return 0;
        *got += (size_t)n;
    }
    return 0;
}

/* Writes all bytes. A write of 0 bytes counts as a failure: repeating it might never end. */
TRF__FN int trf__write_all(int fd, const void *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        size_t part = bytes - done < TRF__MAX_IO ? bytes - done : (size_t)TRF__MAX_IO;
        errno = 0;
        int64_t n = TRF_OS(write)(fd, (const char *)from + done, part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return trf__errno();
        done += (size_t)n;
    }
    return 0;
}

/* Flushes a file to the disk. */
TRF__FN int trf__sync(int fd)
{
    int result;
    do {
        errno = 0;
        result = TRF_OS(sync)(fd);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? trf__errno() : 0;
}

/* An interrupted close has closed the file: a second one might close another thread's. */
TRF__FN int trf__close(int fd)
{
    errno = 0;
    return TRF_OS(close)(fd) < 0 && errno != EINTR ? trf__errno() : 0;
}

/* Opens a regular file for reading. It looks before opening, because opening a device can already
   have an effect, and again afterwards, because the name may belong to another file by then. */
TRF__FN trf_status trf__open_regular(const char *path, int *fd, trf_os_facts *facts, trf_error *err)
{
    *fd = -1;
    errno = 0;
    if (TRF_OS(stat)(path, -1, facts) < 0) return trf__fail_io(err, trf__errno(), path, "find it");
    if (facts->regular) {
        int error = trf__open(path, 0, 0, fd);
        if (error) return trf__fail_io(err, error, path, "open it");
        errno = 0;
        error = TRF_OS(stat)(NULL, *fd, facts) < 0 ? trf__errno() : 0;
        if (!error && facts->regular) return TRF_OK;
        trf__close(*fd);
        *fd = -1;
        if (error) return trf__fail_io(err, error, path, "examine it");
    }
    return trf__fail(err, TRF_E_IO, -1, path,
                     "expected a regular file, got a folder, a pipe or a device");
}

/* Reads all bytes of a regular file, and appends a NUL. */
TRF__FN trf_status trf__read_text(const char *path, char **text, size_t *n, const trf_hooks *hooks,
                                  trf_error *err)
{
    trf_os_facts facts;
    int fd;
    *text = NULL;
    TRF__TRY(trf__open_regular(path, &fd, &facts, err));
    *n = (size_t)facts.size;
    *text = facts.size < SIZE_MAX ? TRF__NEW(char, hooks, *n + 1) : NULL;
    if (!*text) {
        trf__close(fd);
        return trf__fail(err, TRF_E_NOMEM, -1, path, "no memory for %llu bytes",
                         (unsigned long long)facts.size);
    }
    int error = trf__read_all(fd, 0, *text, (size_t)facts.size, n);
    trf__close(fd);
    if (!error && *n == (size_t)facts.size) {
        (*text)[*n] = 0;
        return TRF_OK;
    }
    trf__free(hooks, *text, (size_t)facts.size + 1);
    *text = NULL;
    if (error) return trf__fail_io(err, error, path, "read it");
    return trf__fail(err, TRF_E_IO, -1, path, "the file became shorter while it was read");
}

// >>safe-saving    a temporary file, then one rename
//
// A file appears as a whole or not at all. It is written under a temporary name in the same folder,
// flushed, then renamed. Until the rename the old file is untouched. A link at `path` is replaced.
//
// A process locks its temporary file as long as that has one of the first four names. A file
// without a lock was left by a process that has ended, so the next save removes it. A file is
// opened first and locked second; in between its name may pass to another file. So trf_os_hold
// checks the name again. After that only the owner of the lock renames or removes the file. Without
// locks, names contain the process number, and leftover files stay.

typedef struct trf__saving {
    const char *path;
    char *temporary;
    size_t bytes;           /* of temporary */
    int fd, held, made;     /* held: has the lock, or -1; made: a failure removes the file */
} trf__saving;

enum { TRF__HELD_NAMES = 4 };

/* "dir/model.safetensors" -> "dir/model.safetensors.tmp-00000000". A very long name is cut between
   two characters, so that it stays a legal one. */
TRF__FN void trf__temporary_name(char *to, size_t size, const char *path, uint32_t attempt)
{
    const char *name = path + strlen(path);
    while (name > path && name[-1] != '/' && name[-1] != TRF_OS_SLASH) name--;
    size_t length = strlen(name);
    /* most systems allow 255 bytes; the suffix needs 13 */
    if (length > 200)
        for (length = 200; length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80; ) length--;
    if (attempt >= TRF__HELD_NAMES) attempt += TRF_OS(pid)() * 1024u;
    snprintf(to, size, "%.*s%.*s.tmp-%08lx", (int)(name - path), path, (int)length, name,
             (unsigned long)attempt);
}

/* Removes files that processes left behind when they ended. */
TRF__FN void trf__save_sweep(trf__saving *saving)
{
    for (uint32_t i = 0; i < TRF__HELD_NAMES; i++) {
        trf__temporary_name(saving->temporary, saving->bytes, saving->path, i);
        int held = TRF_OS(hold)(saving->temporary, -1);
        if (held < 0) continue;
        (void)TRF_OS(unlink)(saving->temporary);
        trf__close(held);
    }
}

/* Creates the temporary file under a free name, and locks it. */
TRF__FN int trf__save_open(trf__saving *saving, int mode)
{
    uint32_t attempt = TRF_OS_HOLDS ? 0 : TRF__HELD_NAMES;
    int error = EEXIST;
    for (; attempt < 1000 && saving->fd < 0; attempt++) {
        trf__temporary_name(saving->temporary, saving->bytes, saving->path, attempt);
        error = trf__open(saving->temporary, 1, mode, &saving->fd);
        if (error && error != EEXIST) return error;
        if (error || attempt >= TRF__HELD_NAMES) continue;
        errno = 0;
        saving->held = TRF_OS(hold)(saving->temporary, saving->fd);
        if (saving->held >= 0) return 0;
        if (errno != EAGAIN) {              /* this file system has no locks */
            (void)TRF_OS(unlink)(saving->temporary);
            attempt = TRF__HELD_NAMES - 1;
        }
        trf__close(saving->fd);             /* EAGAIN: another process has removed it or will */
        saving->fd = -1;
        error = EEXIST;
    }
    return saving->fd < 0 ? error : 0;
}

/* Whether there is a file at the path, and facts about it. Only a regular file may be replaced. */
TRF__FN trf_status trf__save_target(const char *path, trf_os_facts *old, int *exists,
                                    trf_error *err)
{
    errno = 0;
    *exists = TRF_OS(stat)(path, -1, old) >= 0;
    if (!*exists && errno != ENOENT) return trf__fail_io(err, trf__errno(), path, "find it");
    return TRF__OK_IF(!*exists || old->regular, TRF_E_IO, -1, path,
                      "this is a folder, a pipe or a device; it is not replaced");
}

/* Checks the target, and opens a temporary file with its permissions. After a failure the caller
   still calls trf__save_end. */
TRF__FN trf_status trf__save_begin(trf__saving *saving, const trf_hooks *hooks, const char *path,
                                   trf_error *err)
{
    trf_os_facts now;
    int exists;
    TRF__ZERO(*saving);
    TRF__ZEROED(trf_os_facts, old);
    saving->path = path;
    saving->fd = saving->held = -1;
    TRF__TRY(trf__save_target(path, &old, &exists, err));
    TRF__FAIL_IF(strlen(path) > INT_MAX - 64, TRF_E_IO, -1, "path", "the path is too long");
    saving->bytes = strlen(path) + 32;
    TRF__ALLOC(char, saving->temporary, hooks, saving->bytes, "memory", "for a path");
    if (TRF_OS_HOLDS) trf__save_sweep(saving);
    int error = trf__save_open(saving, exists ? old.mode : 0666);
    if (error)
        return trf__fail_io(err, error, saving->temporary, "create a temporary file beside it");
    saving->made = 1;
    if (!exists) return TRF_OK;
    errno = 0;          /* the umask may have removed permissions of the old file */
    if (TRF_OS(stat)(NULL, saving->fd, &now) < 0 ||
        (now.mode != old.mode && TRF_OS(chmod)(saving->temporary, old.mode) < 0))
        return trf__fail_io(err, trf__errno(), saving->temporary,
                            "copy the old file's permissions to the temporary file");
    return TRF_OK;
}

/* Opens the folder of the file. The folder's own data hold the name: unless they are flushed, a
   power failure can bring the old file back. It is opened before the rename, because a failure then
   leaves everything unchanged. */
TRF__FN int trf__open_folder(const trf__saving *saving, int *fd)
{
    char *slash = strrchr(saving->temporary, '/');
    *fd = -1;
    if (!TRF_OS_FOLDERS) return 0;
    if (!slash) return trf__open(".", 0, 0, fd);
    char kept = slash[1];
    slash[1] = 0;
    int error = trf__open(saving->temporary, 0, 0, fd);
    slash[1] = kept;
    return error;
}

/* Fails if the temporary file has lost its name. Then what has the name now stays. */
TRF__FN trf_status trf__save_named(trf__saving *saving, trf_error *err)
{
    if (saving->held < 0) return TRF_OK;
    errno = 0;
    int again = TRF_OS(hold)(saving->temporary, saving->held);
    int error = again < 0 ? trf__errno() : trf__close(again);
    if (!error) return TRF_OK;
    if (again >= 0 || error != EAGAIN)
        return trf__fail_io(err, error, saving->temporary, "examine it");
    saving->made = 0;
    return trf__fail(err, TRF_E_IO, -1, saving->path, "the temporary file was removed or replaced "
                     "while it was written");
}

/* Flushes, renames, and flushes the folder. The old or the new file survives a power failure. */
TRF__FN trf_status trf__save_commit(trf__saving *saving, trf_error *err)
{
    int folder = -1, error = trf__sync(saving->fd), closing = trf__close(saving->fd);
    saving->fd = -1;
    if (error || closing)
        return trf__fail_io(err, error ? error : closing, saving->temporary, "write it");
    TRF__TRY(trf__save_named(saving, err));
    error = trf__open_folder(saving, &folder);
    if (error) return trf__fail_io(err, error, saving->path, "open its folder");
    errno = 0;
    if (TRF_OS(rename)(saving->temporary, saving->path) < 0) {
        error = trf__errno();
        if (folder >= 0) trf__close(folder);
        return trf__fail_io(err, error, saving->path, "replace it");
    }
    saving->made = 0;
    if (folder < 0) return TRF_OK;
    error = trf__sync(folder);
    trf__close(folder);
    if (error == EINVAL) error = 0;         /* some file systems cannot flush folders */
    return error ? trf__fail_io(err, error, saving->path,
                                "flush the folder of the new file, which is complete") : TRF_OK;
}

/* Ends what trf__save_begin began, whatever that returned. If `status` is TRF_OK it commits; else
   it removes a file that was `made`. The new file is in place after one error only: a folder that
   cannot be flushed. */
TRF__FN trf_status trf__save_end(trf__saving *saving, const trf_hooks *hooks, trf_status status,
                                 trf_error *err)
{
    if (!status) status = trf__save_commit(saving, err);
    if (saving->fd >= 0) trf__close(saving->fd);
    if (saving->made) (void)TRF_OS(unlink)(saving->temporary);
    if (saving->held >= 0) trf__close(saving->held);
    trf__free(hooks, saving->temporary, saving->bytes);
    TRF__ZERO(*saving);
    saving->fd = saving->held = -1;
    return status;
}

TRF__FOR_SPEED
