// trf: gzip files are read like others. See base.h.
//
// A file whose name ends in ".gz" is unpacked by zlib, and so are several packed files one behind
// the other. A damaged or cut one is an error of reading. Without zlib such a file is read as it
// is, and reading refuses its first line (lines.c).

#include "base.h"

#include <errno.h>

#ifdef TRF_WITH_ZLIB
#include <zlib.h>

/* Unpacked bytes, at most n. At the end of a cut file zlib reports an error only if asked. */
static int unpack(gzFile file, char *to, size_t n)
{
    int got = gzread(file, to, n < (1u << 30) ? (unsigned)n : 1u << 30), error = Z_OK;
    if (got <= 0) (void)gzerror(file, &error);
    if (got >= 0 && (error == Z_OK || error == Z_STREAM_END)) return got;
    if (error != Z_ERRNO) errno = EBADMSG;
    return -1;
}

static int close_unpacked(void *file) { return gzclose((gzFile)file) == Z_OK ? 0 : -1; }

#ifdef __linux__
static ssize_t read_unpacked(void *file, char *to, size_t n)
{
    return unpack((gzFile)file, to, n);
}
static FILE *stream_of(gzFile file)
{
    const cookie_io_functions_t calls = {read_unpacked, NULL, NULL, close_unpacked};
    return fopencookie(file, "r", calls);
}
#else
static int read_unpacked(void *file, char *to, int n)
{
    return unpack((gzFile)file, to, (size_t)n);
}
static FILE *stream_of(gzFile file)
{
    return funopen(file, read_unpacked, NULL, NULL, close_unpacked);
}
#endif

static FILE *open_unpacked(const char *path)
{
    gzFile file = gzopen(path, "rb");
    FILE *stream = file ? stream_of(file) : NULL;
    if (file && !stream) (void)gzclose(file);
    return stream;
}
#endif

FILE *open_packed(const char *path)
{
#ifdef TRF_WITH_ZLIB
    size_t n = strlen(path);
    if (n > 3 && !strcmp(path + n - 3, ".gz")) return open_unpacked(path);
#endif
    return fopen(path, "r");
}
