/* build: O0 */
/* The container (safetensors), the operating system behind it, and numbers as text. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* Every call to the operating system comes by here: `fault.at` is the number of the call that fails
   (0: none), `fault.all` makes all later ones fail too, `fault.interrupt` interrupts each call once
   and shortens reads and writes; `fault.lie` lets stat call everything a regular file;
   `fault.unheld` lets no file be held (1: none can be, 2: somebody else does, who came between).
   `fault.taken` takes the file away that is flushed (1: removed, 2: there is another of its name).
   `trace` has one letter a call that worked. */
static struct {
    int calls, at, all, interrupt, interrupted, lie, unheld, taken, open_files;
    int64_t bytes_read;
    char held[256];
    char trace[4096];
} fault;

static int fails(char letter)
{
    size_t n = strlen(fault.trace);
    if (fault.interrupt && strchr("ORWS", letter) && !fault.interrupted) {
        fault.interrupted = 1;
        errno = EINTR;
        return 1;
    }
    fault.interrupted = 0;
    fault.calls++;
    if (fault.at && (fault.calls == fault.at || (fault.all && fault.calls > fault.at))) {
        errno = letter == 'W' ? ENOSPC : EIO;
        return 1;
    }
    if (n + 1 < sizeof fault.trace) { fault.trace[n] = letter; fault.trace[n + 1] = 0; }
    return 0;
}
static size_t shorter(size_t n) { return fault.interrupt && n > 7 ? 7 : n; }

#include "faulty.h"
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "hostile.h"
#include "folder.h"

static int faulty_open(const char *path, int create, int mode)
{
    int fd = fails('O') ? -1 : trf_os_open(path, create, mode);
    if (fd >= 0) fault.open_files++;
    return fd;
}
static int faulty_rename(const char *from, const char *to)
{
    return fails('N') ? -1 : trf_os_rename(from, to);
}
static int faulty_unlink(const char *path) { return trf_os_unlink(path); }
static int faulty_chmod(const char *path, int mode)
{
    return fails('M') ? -1 : trf_os_chmod(path, mode);
}
static int faulty_stat(const char *path, int fd, struct trf_os_facts *facts)
{
    if (fails(path ? '?' : 'F') || trf_os_stat(path, fd, facts)) return -1;
    if (path) facts->regular |= fault.lie;
    return 0;
}
static int faulty_sync(int fd)
{
    FILE *other;
    if (fault.taken) unlink(fault.held);
    if (fault.taken == 2 && (other = fopen(fault.held, "wb"))) {
        fputs("mine", other);
        fclose(other);
    }
    fault.taken = 0;
    return fails('S') ? -1 : trf_os_sync(fd);
}
/* As on Linux: an error of close comes after the descriptor is gone. */
static int faulty_close(int fd)
{
    fault.open_files--;
    return trf_os_close(fd) < 0 || fails('C') ? -1 : 0;
}
static int faulty_seek(int fd, uint64_t offset)
{
    return fails('K') ? -1 : trf_os_seek(fd, offset);
}
static int64_t faulty_read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    int64_t n = fails('R') ? -1 : trf_os_read_at(fd, offset, to, shorter(bytes));
    if (n > 0) fault.bytes_read += n;
    return n;
}
static int64_t faulty_write(int fd, const void *from, size_t bytes)
{
    return fails('W') ? -1 : trf_os_write(fd, from, shorter(bytes));
}
static uint32_t faulty_pid(void) { return trf_os_pid(); }
static int faulty_hold(const char *path, int fd)
{
    int held = fault.unheld ? -1 : trf_os_hold(path, fd);
    if (fault.unheld) errno = fault.unheld == 1 ? ENOLCK : EAGAIN;
    if (fault.unheld == 2 && fd >= 0) unlink(path);
    if (held >= 0) fault.open_files++;
    if (held >= 0) snprintf(fault.held, sizeof fault.held, "%s", path);
    return held;
}

/* ---- a folder of our own, files in it, memory that is counted ---- */

static int make_folder(void **state)
{
    (void)state;
    alarm(900);         /* a test that hangs is a test that fails */
    return folder_make("files", 1) ? -1 : chmod(folder, 0755);
}

static int remove_folder(void **state) { (void)state; return folder_remove(); }

static int fresh(void **state) { (void)state; memset(&fault, 0, sizeof fault); return 0; }

static void put_file(const char *path, const void *bytes, size_t n, uint64_t sparse)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fwrite(bytes, 1, n, f) == n);
    assert_int_equal(fclose(f), 0);
    if (sparse) assert_int_equal(truncate(path, (off_t)(n + sparse)), 0);
}

static unsigned char *get_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = (unsigned char *)malloc(1 << 20);
    assert_non_null(f);
    assert_non_null(bytes);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

/* Names in the folder that contain ".tmp-". */
static int leftovers(void)
{
    char command[160], line[32] = "";
    FILE *pipe;
    snprintf(command, sizeof command, "ls -A '%s' | grep -c -F .tmp-", folder);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    return atoi(line);
}

typedef struct counted { int calls, at, all; int64_t live; size_t largest; } counted;

static void *counted_alloc(void *user, size_t align, size_t bytes)
{
    counted *c = (counted *)user;
    void *memory = NULL;
    c->calls++;
    if (bytes > c->largest) c->largest = bytes;
    if (c->at && (c->calls == c->at || (c->all && c->calls > c->at))) return NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes))
        return NULL;
    memset(memory, 0xA5, bytes);
    c->live += (int64_t)bytes;
    return memory;
}
static void counted_free(void *user, void *memory, size_t bytes)
{
    ((counted *)user)->live -= (int64_t)bytes;
    free(memory);
}

static trf_hooks counting(counted *c)
{
    trf_hooks hooks;
    memset(c, 0, sizeof *c);
    memset(&hooks, 0, sizeof hooks);
    hooks.user = c;
    hooks.alloc = counted_alloc;
    hooks.free = counted_free;
    return hooks;
}

/* An error that says what and where, and agrees with its status. */
static void assert_told(const trf_error *err, trf_status status, const char *id)
{
    if (err->status != status || !err->message[0] || !err->what[0] ||
        (err->where < 0 && !strlen(err->what)))
        fail_msg("%s: status %d, what \"%s\", where %lld: %s", id, err->status, err->what,
                 (long long)err->where, err->message);
}

/* Whether the message begins with the path, or with the end of a long one. */
static int names(const trf_error *err, const char *path)
{
    size_t n = strlen(path);
    if (n > 100) { path += n - 100; n = 100; }
    return !strncmp(err->message, path, n) && !strncmp(err->message + n, ": ", 2);
}

/* ---- three tensors and two texts: the small file of most tests ---- */

static const float small_weights[6] = { 1.5f, -2.25f, 0.0f, 3e-20f, 7e20f, -0.1f };
static const double small_doubles[2] = { 0.1, -1e300 };
static const int64_t small_integers[3] = { INT64_MIN, -1, INT64_MAX };

static trf__out out_of(const char *name, const char *dtype, const void *data, int32_t rank,
                       int64_t n0, int64_t n1)
{
    trf__out out;
    memset(&out, 0, sizeof out);
    snprintf(out.name, sizeof out.name, "%s", name);
    out.rank = rank;
    out.shape[0] = n0;
    out.shape[1] = n1;
    out.dtype = dtype;
    out.data = data;
    out.bytes = (uint64_t)(rank > 0 ? n0 : 1) * (uint64_t)(rank > 1 ? n1 : 1) *
                (uint64_t)trf__dtype_of(dtype)->bytes;
    return out;
}

/* Number i of an I64 tensor, from the bytes of the file: the library itself has no use for such
   tensors. */
static int64_t integer_at(const char *path, trf_file_entry entry, int i)
{
    FILE *f = fopen(path, "rb");
    unsigned char bytes[8];
    uint64_t bits;
    int64_t value;
    assert_non_null(f);
    assert_string_equal(entry.dtype, "I64");
    assert_int_equal(fseek(f, (long)entry.begin + 8 * i, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, 8, f), 8);
    fclose(f);
    bits = trf__from_little(bytes, 8);
    memcpy(&value, &bits, 8);
    return value;
}

static void small_notes(trf__text *notes, const void *of)
{
    (void)of;
    trf__add_metadata(notes, "k", "line\nline\t\"\\ \xE4\xB8\xAD");
    trf__add_metadata(notes, "", "");
}

static const trf__destination *at_path(const char *path)
{
    static trf__destination to;
    to.path = path;
    return &to;
}

static trf_status write_small(const trf_hooks *hooks, const char *path, trf_error *err)
{
    trf__out out[5];
    trf_hooks none;
    memset(&none, 0, sizeof none);
    out[0] = out_of("encoder.weight", "F32", small_weights, 2, 2, 3);
    out[1] = out_of("moment", "F64", small_doubles, 1, 2, 0);
    out[2] = out_of("state \"\\\xC3\xA9", "I64", small_integers, 1, 3, 0);
    out[3] = out_of("empty", "F32", NULL, 2, 0, 4);
    out[4] = out_of("bytes", "U8", "\0\1\xFF", 1, 3, 0);
    return trf__file_write(hooks ? hooks : &none, at_path(path), out, 5, small_notes, NULL, err);
}

/* ---- hostile files ---- */

static int number_of_cases;

/* The same bytes in memory of just their size: the same verdict, at the same place. */
static void check_case_in_memory(const hostile_case *one)
{
    trf_load_options options = trf_load_defaults();
    counted memory;
    char *bytes = (char *)malloc(one->n ? one->n : 1);
    trf_file *file = NULL;
    trf_model *model;
    trf_error err, of_file;
    trf_status status;
    trf_real numbers[16];
    options.hooks = counting(&memory);
    memcpy(bytes, one->bytes, one->n);
    status = kit_open_memory(&file, bytes, one->n, &options, &err);
    if (status != one->open)
        fail_msg("%s in memory: expected %s, got %s: %s", one->id, trf_status_name(one->open),
                 trf_status_name(status), err.message);
    if (status == TRF_OK && one->tensor) {
        int32_t index = trf__file_find(file, one->tensor);
        int64_t count = trf_file_at(file, index).rank
                            ? trf_file_at(file, index).shape[0] * trf_file_at(file, index).shape[1]
                            : 1;
        status = trf_file_read(file, index, 0, numbers, count, &err);
        if (status != one->read)
            fail_msg("%s in memory: reading: expected %s, got %s", one->id,
                     trf_status_name(one->read), trf_status_name(status));
    }
    if (status && !names(&err, "memory")) fail_msg("%s: which file? %s", one->id, err.message);
    trf_file_close(file);
    status = trf_model_load(&model, in_folder("hostile.safetensors"), NULL, &of_file);
    if (kit_load_memory(&model, bytes, one->n, NULL, &err) != status ||
        err.where != of_file.where)
        fail_msg("%s in memory: %s at %lld, of a file %s at %lld", one->id,
                 trf_status_name((trf_status)err.status), (long long)err.where,
                 trf_status_name(status), (long long)of_file.where);
    assert_null(model);
    if (memory.live) fail_msg("%s in memory: something is left", one->id);
    free(bytes);
}

static void check_case(void *user, const hostile_case *one)
{
    const char *path = in_folder("hostile.safetensors");
    trf_load_options options = trf_load_defaults();
    counted memory;
    trf_file *file = (trf_file *)user;      /* not NULL: it must become so */
    trf_error err;
    trf_status status;
    trf_real numbers[16];
    number_of_cases++;
    options.hooks = counting(&memory);
    put_file(path, one->bytes, one->n, one->sparse);
    status = trf_file_open(&file, path, &options, &err);
    if (status != one->open)
        fail_msg("%s: expected %s, got %s: %s", one->id, trf_status_name(one->open),
                 trf_status_name(status), err.message);
    if (status == TRF_OK) {
        if (err.status || err.message[0]) fail_msg("%s: an error with success", one->id);
        if (one->tensor) {
            int32_t index = trf__file_find(file, one->tensor);
            int64_t count = trf_file_at(file, index).rank ? trf_file_at(file, index).shape[0] *
                                                                trf_file_at(file, index).shape[1]
                                                          : 1;
            assert_true(index >= 0);
            assert_true(count <= 16);
            status = trf_file_read(file, index, 0, numbers, count, &err);
            if (status != one->read)
                fail_msg("%s: reading: expected %s, got %s", one->id, trf_status_name(one->read),
                         trf_status_name(status));
        }
    }
    else if (file) fail_msg("%s: an error, but a file", one->id);
    if (status) {
        assert_told(&err, status, one->id);
        if (!file && !names(&err, path)) fail_msg("%s: which file? %s", one->id, err.message);
        if (one->says && !strstr(err.message, one->says))
            fail_msg("%s: expected \"%s\" in: %s", one->id, one->says, err.message);
    }
    trf_file_close(file);
    {
        trf_model *model;       /* none of them is a model */
        if (trf_model_load(&model, path, NULL, &err) == TRF_OK || !names(&err, path))
            fail_msg("%s: which file? %s", one->id, err.message);
    }
    if (!one->sparse) check_case_in_memory(one);
    if (memory.live || memory.calls > 1 || memory.largest > (size_t)40 << 20)
        fail_msg("%s: %d allocations, the largest %llu", one->id, memory.calls,
                 (unsigned long long)memory.largest);
    if (fault.open_files) fail_msg("%s: a descriptor is lost", one->id);
}

static void test_hostile(void **state)
{
    int here;
    (void)state;
    number_of_cases = 0;
    hostile_all(check_case, &here);
    assert_int_equal(number_of_cases, 133);     /* 132 files and the sparse one */
}

static void test_header_limits(void **state)
{
    static const struct { const char *header; size_t data; trf_status status;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         TRF_OK},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         TRF_E_LIMIT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[281474976710655,0],\"data_offsets\":[0,0]}}", 0,
         TRF_OK},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[281474976710656,0],\"data_offsets\":[0,0]}}", 0,
         TRF_E_LIMIT},
        {"{\"a\":{\"dtype\":\"U16\",\"shape\":[281474976710655,0],\"data_offsets\":[0,0]}}", 0,
         TRF_E_LIMIT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[281474976710655,2,0],\"data_offsets\":[0,0]}}", 0,
         TRF_E_LIMIT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,0]}}", 0,
         TRF_E_LIMIT},
        {"{\"__metadata__\":{\"a\":\"\",\"\":\"\\u001b\"}}", 0, TRF_OK},
        {"{\"__metadata__\":{\"a\":\"x\\u0000\"}}", 0, TRF_E_FORMAT},
        {"{\"__metadata__\":{}}", 0, TRF_OK},
        {"{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", 0, TRF_E_FORMAT},
        {"{\"a\\u007f\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{\"a\\u009b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{\"a\\u00a0\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRF_OK},
        {"{\"\\ud800\\u0041\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         TRF_E_FORMAT},
        {"{\"\\udc00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{\"\\\"\\\\\\/\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRF_OK},
        {"{\"\\u0", 0, TRF_E_FORMAT},
        {"{\"\\", 0, TRF_E_FORMAT},
        {"{\"", 0, TRF_E_FORMAT},
        {"{", 0, TRF_E_FORMAT},
        {" ", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\u", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\ud83d\":", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\ue000\":", 0, TRF_E_FORMAT},
        {"{\"\\ue000\\u0041\\udbff\\udfff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"
         "}",
         1, TRF_OK},
        {"{\"\\ud83dau1234\":", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\a1234\":", 0, TRF_E_FORMAT},
        {"{\"\xE0\x9F\xBF\":", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\n\":", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\u12", 0, TRF_E_FORMAT},
        {"{\"\\ud83d\\", 0, TRF_E_FORMAT},
        {"{\"a\"", 0, TRF_E_FORMAT},
        {"{\"a\":", 0, TRF_E_FORMAT},
        {"{,}", 0, TRF_E_FORMAT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[,1],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1 1],\"data_offsets\":[0,1]}}", 1, TRF_E_FORMAT},
        {"{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 , 1 ] , \"data_offsets\" : [ 0 , 1 ] } "
         "} ",
         1, TRF_OK},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}",
         1, TRF_OK},
        {"\xFE", 0, TRF_E_FORMAT},
        {"{\"\xF4\x90\x80\x80\":{}}", 0, TRF_E_FORMAT},
        {"{\"\xF0\x8F\xBF\xBF\":{}}", 0, TRF_E_FORMAT},
        {"{\"\xE2\x82", 0, TRF_E_FORMAT}};
    const char *path = in_folder("limits.safetensors");
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hostile_maker m;
        trf_file *file = NULL;
        trf_error err;
        trf_status status;
        memset(&m, 0, sizeof m);
        hostile_begin(&m);
        hostile_text(&m, cases[i].header);
        hostile_length(&m, m.n - 8);
        hostile_zeros(&m, cases[i].data);
        put_file(path, m.bytes, m.n, 0);
        free(m.bytes);
        status = trf_file_open(&file, path, NULL, &err);
        if (status != cases[i].status)
            fail_msg("%s: got %s %s", cases[i].header, trf_status_name(status), err.message);
        if (status) assert_told(&err, status, cases[i].header);
        if (status && !(err.where >= 8)) fail_msg("%s: no position", cases[i].header);
        trf_file_close(file);
    }
}

/* The longest name, the most tensors and texts, the longest header: each accepted, one more
   refused. */
static void test_largest(void **state)
{
    const char *path = in_folder("largest.safetensors");
    int more, i, which;
    (void)state;
    for (which = 0; which < 4; which++) for (more = 0; more < 2; more++) {
        hostile_maker m;
        trf_file *file = NULL;
        trf_error err;
        trf_status status;
        char text[96];
        memset(&m, 0, sizeof m);
        hostile_begin(&m);
        hostile_text(&m, which == 2 ? "{\"__metadata__\":{" : "{");
        if (which == 0) {
            hostile_text(&m, "\"");
            hostile_repeat(&m, "n", 255 + more);
            hostile_text(&m, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
        }
        for (i = 0; which == 1 && i < 65536 + more; i++) {
            snprintf(text, sizeof text,
                     "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                     i ? "," : "", i);
            hostile_text(&m, text);
        }
        for (i = 0; which == 2 && i < TRF__FILE_TEXTS + more; i++) {
            snprintf(text, sizeof text, "%s\"%d\":\"\"", i ? "," : "", i);
            hostile_text(&m, text);
        }
        hostile_text(&m, which == 2 ? "}}" : "}");
        if (which == 3) while (m.n < 8 + (16 << 20) + (size_t)more) hostile_text(&m, " ");
        hostile_length(&m, m.n - 8);
        put_file(path, m.bytes, m.n, 0);
        free(m.bytes);
        status = trf_file_open(&file, path, NULL, &err);
        if (status != (more ? TRF_E_LIMIT : TRF_OK))
            fail_msg("%d %d: %s", which, more, err.message);
        if (!more && which == 1) {
            for (i = 0; i < 65536; i += 97) {
                snprintf(text, sizeof text, "%d", i);
                assert_int_equal(trf__file_find(file, text), i);
            }
            assert_int_equal(trf__file_find(file, "65536"), -1);
        }
        trf_file_close(file);
    }
}

/* A backslash before a byte 0 is no escape. */
static void test_raw_nul(void **state)
{
    static const char header[] =
        "{\"a\\\0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    hostile_maker m;
    trf_file *file = NULL;
    trf_error err;
    (void)state;
    memset(&m, 0, sizeof m);
    hostile_begin(&m);
    hostile_add(&m, header, sizeof header - 1);
    hostile_length(&m, m.n - 8);
    put_file(in_folder("nul.safetensors"), m.bytes, m.n, 0);
    free(m.bytes);
    assert_int_equal(trf_file_open(&file, in_folder("nul.safetensors"), NULL, &err), TRF_E_FORMAT);
    assert_true(err.where == 8 + 4);
}

/* ---- damage ---- */

static void test_every_truncation(void **state)
{
    const char *whole = in_folder("small.safetensors"), *path = in_folder("cut.safetensors");
    unsigned char *bytes, half[300];
    trf_file *cut = NULL;
    trf_error told;
    size_t n, i;
    (void)state;
    assert_int_equal(write_small(NULL, whole, NULL), TRF_OK);
    bytes = get_file(whole, &n);
    for (i = 0; i <= n; i++) {
        trf_file *file = NULL;
        trf_error err;
        trf_status status;
        put_file(path, bytes, i, 0);
        status = trf_file_open(&file, path, NULL, &err);
        if ((status == TRF_OK) != (i == n))
            fail_msg("%d of %d bytes: %s", (int)i, (int)n, err.message);
        if (status) {
            assert_told(&err, TRF_E_FORMAT, "truncated");
            assert_non_null(strstr(err.message, "truncated"));
        }
        trf_file_close(file);
    }
    free(bytes);
    memset(half, ' ', sizeof half);
    memcpy(half, "\x80\2\0\0\0\0\0\0{", 9);        /* a header of 640 bytes is no pickle */
    put_file(path, half, sizeof half, 0);
    assert_int_equal(trf_file_open(&cut, path, NULL, &told), TRF_E_FORMAT);
    assert_non_null(strstr(told.message, "truncated"));
    assert_int_equal(fault.open_files, 0);
}

/* Every bit. In the data: the checksum tells. In the header: refused, or another well-formed file.
 */
static void test_every_bit(void **state)
{
    const char *whole = in_folder("small.safetensors"), *path = in_folder("bit.safetensors");
    unsigned char *bytes;
    size_t n, bit, data, refused = 0;
    trf_load_options options = trf_load_defaults();
    trf_file *file = NULL;
    (void)state;
    options.allow_nonfinite = 1;
    assert_int_equal(write_small(NULL, whole, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, whole, NULL, NULL), TRF_OK);
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    data = (size_t)file->data_begin;
    trf_file_close(file);
    bytes = get_file(whole, &n);
    for (bit = 0; bit < 8 * n; bit++) {
        trf_error err;
        trf_status status;
        int32_t i;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        put_file(path, bytes, n, 0);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        status = trf_file_open(&file, path, &options, &err);
        if (bit / 8 >= data && status) fail_msg("bit %d of the data: %s", (int)bit, err.message);
        if (status) { assert_told(&err, status, "bit"); refused++; continue; }
        for (i = 0; i < kit_file_tensors(file); i++) {
            trf_file_entry entry = trf_file_at(file, i);
            trf_real numbers[16];
            int64_t count = (int64_t)entry.bytes / trf__dtype_of(entry.dtype)->bytes;
            assert_true(count <= 16);
            (void)trf_file_read(file, i, 0, numbers, count, NULL);
        }
        status = trf__file_check_crc(file, &err);
        if (bit / 8 >= data) {
            assert_int_equal(status, TRF_E_CHECKSUM);
            assert_told(&err, status, "bit");
        }
        trf_file_close(file);
    }
    assert_true(refused > data);
    free(bytes);
    assert_int_equal(fault.open_files, 0);
}

static void test_crc(void **state)
{
    static const char *const texts[7] = {"bcf309b0", "BCF309B0", "bcf309b", "bcf309b00",
                                         "",         "bcf309bg", "bcf309b1"};
    static const trf_status wanted[7] = {TRF_OK,       TRF_E_FORMAT, TRF_E_FORMAT,  TRF_E_FORMAT,
                                         TRF_E_FORMAT, TRF_E_FORMAT, TRF_E_CHECKSUM};
    const char *path = in_folder("crc.safetensors");
    char digits[] = "123456789", header[256];
    trf__crc crc;
    int i;
    (void)state;
    trf__crc_begin(&crc);
    trf__crc_add(&crc, digits, 9);
    assert_true(crc.value == 0xCBF43926u);          /* the published check value of CRC-32 */
    trf__crc_begin(&crc);
    for (i = 0; i < 9; i += 3) trf__crc_add(&crc, digits + i, 3);
    {   /* long texts, which may be computed in another way, at every alignment and length */
        static unsigned char bytes[1500];
        uint32_t c;
        size_t n, from;
        for (n = 0; n < sizeof bytes; n++) bytes[n] = (unsigned char)(n * n * 31 + n / 7);
        for (n = 0; n < 1400; n += n < 600 ? 1 : 37) {
            trf__crc whole;
            from = n % 19;
            trf__crc_begin(&whole);
            trf__crc_add(&whole, bytes, from);
            c = ~trf__crc_bytes(&whole, bytes + from, n, ~whole.value);
            trf__crc_add(&whole, bytes + from, n);
            assert_int_equal(whole.value, c);
            /* and of two parts that are summed apart */
            c = trf__crc_go_on(&whole, 0, bytes, n / 3);
            assert_int_equal(trf__crc_times(c, trf__crc_power(from + n - n / 3)) ^
                             trf__crc_go_on(&whole, 0, bytes + n / 3, from + n - n / 3),
                             whole.value);
        }
    }
    assert_true(crc.value == 0xCBF43926u);
    for (i = 0; i < 7; i++) {
        hostile_maker m;
        trf_file *file = NULL;
        trf_error err;
        memset(&m, 0, sizeof m);
        hostile_begin(&m);
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"trf.crc32\":\"%s\"},\"a\":{\"dtype\":\"U8\",\"shape\":[9],"
                 "\"data_offsets\":[0,9]}}",
                 texts[i]);
        hostile_text(&m, header);
        hostile_length(&m, m.n - 8);
        hostile_text(&m, "123456788");
        put_file(path, m.bytes, m.n, 0);
        free(m.bytes);
        assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_OK);
        if (i == 0) {       /* "123456788" */
            trf__crc_begin(&crc);
            trf__crc_add(&crc, "123456788", 9);
            snprintf(header, sizeof header, "%08lx", (unsigned long)crc.value);
            assert_string_equal(header, texts[0]);
        }
        assert_int_equal(trf__file_check_crc(file, &err), wanted[i]);
        if (wanted[i]) assert_told(&err, wanted[i], texts[i]);
        trf_file_close(file);
    }
}

/* ---- writing and reading ---- */

static void test_round_trip(void **state)
{
    const char *path = in_folder("small.safetensors"), *key, *value;
    trf_file *file = NULL;
    trf_error err;
    trf_file_entry entry;
    trf_real numbers[6];
    int i;
    (void)state;
    assert_int_equal(write_small(NULL, path, &err), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_OK);
    assert_int_equal(kit_file_tensors(file), 5);
    entry = trf_file_at(file, 0);
    assert_string_equal(entry.name, "encoder.weight");
    assert_string_equal(entry.dtype, "F32");
    assert_int_equal(entry.rank, 2);
    assert_true(entry.shape[0] == 2 && entry.shape[1] == 3 && entry.shape[2] == 1 &&
                entry.shape[7] == 1);
    assert_true(entry.begin % 8 == 0 && entry.bytes == 24);
    assert_int_equal(trf__file_find(file, "state \"\\\xC3\xA9"), 2);
    assert_int_equal(trf__file_find(file, "moment"), 1);
    assert_int_equal(trf__file_find(file, "empty"), 3);
    assert_int_equal(trf__file_find(file, "momen"), -1);
    assert_int_equal(trf__file_find(file, "moment."), -1);
    assert_int_equal(trf_file_read(file, 0, 0, numbers, 6, &err), TRF_OK);
    for (i = 0; i < 6; i++) assert_true((float)numbers[i] == small_weights[i]);
    assert_int_equal(trf_file_read(file, 3, 0, numbers, 0, &err), TRF_OK);
    for (i = 0; i < 3; i++)
        assert_true(integer_at(path, trf_file_at(file, 2), i) == small_integers[i]);
    for (i = 0; i < 6; i++) {           /* any part */
        numbers[0] = 7;
        assert_int_equal(trf_file_read(file, 0, i, numbers, 1, &err), TRF_OK);
        assert_true((float)numbers[0] == small_weights[i]);
    }
    assert_int_equal(trf_file_read(file, 0, 2, numbers, 3, &err), TRF_OK);
    assert_true((float)numbers[0] == small_weights[2] && (float)numbers[2] == small_weights[4]);
    assert_int_equal(trf_file_read(file, 0, 6, NULL, 0, &err), TRF_OK);
    for (i = 0; i < 6; i++) {           /* but nothing beyond it */
        static const int64_t parts[6][2] = {{0, 7},  {1, 6},  {7, 0},
                                            {-1, 1}, {0, -1}, {INT64_MAX, INT64_MAX}};
        assert_int_equal(trf_file_read(file, 0, parts[i][0], numbers, parts[i][1], &err),
                         TRF_E_SHAPE);
        assert_told(&err, TRF_E_SHAPE, "part");
        assert_string_equal(err.what, "encoder.weight");
    }
    assert_int_equal(trf_file_read(NULL, 0, 0, numbers, 1, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "file");
    assert_int_equal(trf_file_read(file, 0, 0, NULL, 1, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "values");
    for (i = -1; i < 6; i += 6) {
        assert_int_equal(trf_file_read(file, i, 0, numbers, 1, &err), TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "index");
        assert_true(err.where == i);
    }
    assert_int_equal(trf_file_read(file, 4, 0, numbers, 3, &err), TRF_E_UNSUPPORTED);
    assert_string_equal(err.what, "bytes");
    assert_int_equal(trf_file_read(file, 2, 0, numbers, 3, &err), TRF_E_UNSUPPORTED);
#if defined(TRF_DOUBLE)
    assert_int_equal(trf_file_read(file, 1, 0, numbers, 2, &err), TRF_OK);
    assert_true(numbers[0] == 0.1 && numbers[1] == -1e300);
#else
    assert_int_equal(trf_file_read(file, 1, 0, numbers, 2, &err),
                     TRF_E_NONFINITE); /* -1e300 is no float */
    assert_true(numbers[0] == 0.1f);
    assert_told(&err, TRF_E_NONFINITE, "moment");
    assert_true(err.where == (int64_t)trf_file_at(file, 1).begin + 8);
#endif
    assert_int_equal(kit_file_texts(file), 4);
    assert_string_equal(trf_file_metadata(file, "k"), "line\nline\t\"\\ \xE4\xB8\xAD");
    assert_string_equal(trf_file_metadata(file, ""), "");
    assert_int_equal(strlen(trf_file_metadata(file, "trf.crc32")), 8);
    assert_null(trf_file_metadata(file, "l"));
    trf_file_metadata_at(file, 1, &key, &value);
    assert_string_equal(key, "k");
    trf_file_metadata_at(file, 4, &key, &value);
    assert_true(!key && !value);
    assert_null(trf_file_at(file, 5).name);
    assert_null(trf_file_at(file, -1).name);
    trf_file_close(file);
    assert_int_equal(fault.open_files, 0);
}

/* More than one chunk, every value in its place, and the CRC over all of it. */
static void test_large(void **state)
{
    const char *path = in_folder("large.safetensors");
    enum { COUNT = 70001 };
    float *from = (float *)malloc(COUNT * sizeof *from);
    trf_real *back = (trf_real *)malloc(COUNT * sizeof *back);
    trf__out out[2];
    trf_file *file = NULL;
    trf_hooks none;
    int i;
    (void)state;
    memset(&none, 0, sizeof none);
    assert_true(from && back);
    for (i = 0; i < COUNT; i++) from[i] = (float)i * 0.37f - 1000.0f;
    out[0] = out_of("one", "F32", from, 1, 1, 0);
    out[1] = out_of("many", "F32", from, 2, COUNT, 1);
    assert_int_equal(trf__file_write(&none, at_path(path), out, 2, NULL, NULL, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    assert_int_equal(trf_file_read(file, 1, 0, back, COUNT, NULL), TRF_OK);
    for (i = 0; i < COUNT; i++) if ((float)back[i] != from[i]) fail_msg("number %d", i);
    assert_int_equal(trf_file_read(file, 1, 33333, back, 20000, NULL), TRF_OK);
    for (i = 0; i < 20000; i++)
        if ((float)back[i] != from[33333 + i]) fail_msg("number %d of a part", i);
    trf_file_close(file);
    free(from);
    free(back);
}

static void numbered_notes(trf__text *notes, const void *of)
{
    char key[16];
    int i;
    for (i = 0; i < *(const int *)of; i++) {
        snprintf(key, sizeof key, "%d", i);
        trf__add_metadata(notes, key, "");
    }
}

/* As many tensors and texts as a file may have, in no order. */
static void test_many(void **state)
{
    enum { COUNT = 65536 };
    const char *path = in_folder("many.safetensors");
    trf__out *out = (trf__out *)calloc(COUNT, sizeof *out);
    trf_file *file = NULL;
    trf_hooks none;
    int i, notes = COUNT - 1;
    (void)state;
    memset(&none, 0, sizeof none);
    assert_non_null(out);
    for (i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        out[i] = out_of(name, "I64", small_integers, 1, i == 777, 0);
    }
    assert_int_equal(trf__file_write(&none, at_path(path), out, COUNT, numbered_notes, &notes,
                                     NULL),
                     TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    assert_int_equal(kit_file_tensors(file), COUNT);
    assert_int_equal(kit_file_texts(file), COUNT + 1);
    for (i = 0; i < COUNT; i += 7) assert_int_equal(trf__file_find(file, out[i].name), i);
    assert_true(integer_at(path, trf_file_at(file, 777), 0) == INT64_MIN);
    assert_null(trf_file_metadata(file, "65535"));
    assert_string_equal(trf_file_metadata(file, "65534"), "");
    trf_file_close(file);
    free(out);
}

/* BF16 and F16 widen exactly. */
/* A number that is not finite is found in any place, and the largest finite one is not taken for
   it. */
static void test_finite_numbers(void **state)
{
    static const struct { char code; int bytes; uint64_t largest, infinite; } kinds[] = {
        {'H', 2, 0xFBFF, 0xFC00}, {'B', 2, 0xFF7F, 0xFF80}, {'F', 4, 0xFF7FFFFF, 0xFF800000},
        {'D', 8, 0xFFEFFFFFFFFFFFFF, 0xFFF0000000000000}};
    unsigned char bytes[8 * 200];
    size_t k, i, n;
    (void)state;
    for (k = 0; trf__is_little() && k < 4; k++)
        for (n = 0; n <= 200; n += n == 190 ? 1 : 10) {
            for (i = 0; i < n; i++) trf__to_little(bytes + kinds[k].bytes * i, kinds[k].largest,
                                                   kinds[k].bytes);
            assert_int_equal(trf__finite_numbers(bytes, n, kinds[k].code), n / 64 * 64);
            for (i = 0; i < n; i++) {
                trf__to_little(bytes + kinds[k].bytes * i, kinds[k].infinite, kinds[k].bytes);
                assert_int_equal(trf__finite_numbers(bytes, n, kinds[k].code),
                                 i < n / 64 * 64 ? i / 64 * 64 : n / 64 * 64);
                trf__to_little(bytes + kinds[k].bytes * i, kinds[k].largest, kinds[k].bytes);
            }
        }
    assert_int_equal(trf__finite_numbers(bytes, 128, 'I'), 0);
}

static void test_halves(void **state)
{
    static const struct { uint32_t bits; double value;
    } known[] = {{0x0000, 0.0},
                 {0x0001, 5.9604644775390625e-8},
                 {0x03FF, 6.0975551605224609375e-5},
                 {0x0400, 6.103515625e-5},
                 {0x3C00, 1.0},
                 {0x3C01, 1.0009765625},
                 {0xC000, -2.0},
                 {0x7BFF, 65504.0},
                 {0xFBFF, -65504.0},
                 {0x3555, 0.333251953125}};
    const char *path = in_folder("halves.safetensors");
    hostile_maker m;
    trf_file *file = NULL;
    trf_load_options options = trf_load_defaults();
    trf_error err;
    trf_real x[4];
    uint32_t bits;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(trf__from_half(known[i].bits) == known[i].value);
    for (bits = 0; bits < 0x7BFF; bits++)
        assert_true(trf__from_half(bits) < trf__from_half(bits + 1));
    for (bits = 0; bits < 0x7C00; bits++)
        assert_true(trf__from_half(bits | 0x8000) == -trf__from_half(bits));
    assert_true(trf__from_half(0x7C00) > 1e308 && trf__from_half(0xFC00) < -1e308);
    assert_true(trf__from_half(0x7E00) != trf__from_half(0x7E00));
#if TRF__REAL_BYTES == 4
    for (bits = 0; bits < 0x10000; bits += 16) {        /* sixteen at a time, both ways */
        uint16_t sixteen[16];
        trf_real one[16], other[16];
        for (i = 0; i < 16; i++) sixteen[i] = (uint16_t)(bits + i);
        trf__widen_16_bits(one, (const unsigned char *)sixteen, 16, 0);
        trf__widen_halves(other, (const unsigned char *)sixteen, 16);
        for (i = 0; i < 16; i++) {
            const float wanted = (float)trf__from_half(bits + (uint32_t)i);
            if (wanted == wanted) assert_memory_equal(&one[i], &wanted, 4);
            else assert_true(one[i] != one[i] && other[i] != other[i]);
            if (wanted == wanted) assert_memory_equal(&other[i], &wanted, 4);
        }
        trf__widen_16_bits(one, (const unsigned char *)sixteen, 16, 1);
        for (i = 0; i < 16; i++) assert_int_equal(trf__float_bits(one[i]), (bits + i) << 16);
    }
#endif
    memset(&m, 0, sizeof m);
    hostile_begin(&m);
    hostile_text(&m, "{\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]},\"h\":{"
                     "\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[6,8]}}");
    hostile_length(&m, m.n - 8);
    hostile_add(&m, "\x80\x3F\x49\xC0\x80\x7F\x00\xC0", 8);
    put_file(path, m.bytes, m.n, 0);
    free(m.bytes);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_OK);
    assert_int_equal(trf_file_read(file, 1, 0, x, 1, &err), TRF_OK);
    assert_true(x[0] == -2);
    assert_int_equal(trf_file_read(file, 0, 0, x, 3, &err), TRF_E_NONFINITE);
    trf_file_close(file);
    options.allow_nonfinite = 1;
    assert_int_equal(trf_file_open(&file, path, &options, &err), TRF_OK);
    assert_int_equal(trf_file_read(file, 0, 0, x, 3, &err), TRF_OK);
    assert_true(x[0] == 1 && x[1] == (trf_real)-3.140625 && x[2] > 1e38f);
    trf_file_close(file);
}

/* Escapes of two, three and four bytes, in names and texts. */
static void test_escapes(void **state)
{
    static const char *const want = "\xC3\xA9\xDF\xBF\xE0\xA0\x80\xE2\x82\xAC\xEF\xBF\xBF\xF0\x90"
                                    "\x80\x80\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\x7F~";
    const char *path = in_folder("escapes.safetensors");
    hostile_maker m;
    trf_file *file = NULL;
    trf_error err;
    (void)state;
    memset(&m, 0, sizeof m);
    hostile_begin(&m);
    hostile_text(&m,
                 "{\"__metadata__\":{\"k\":"
                 "\"\\u00e9\\u07FF\\u0800\\u20ac\\uffff\\ud800\\udc00\\ud83d\\ude00\\udbff\\udfff\\"
                 "u007f\\u007e\"},"
                 "\"\\u00e9\\u20AC\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    hostile_length(&m, m.n - 8);
    put_file(path, m.bytes, m.n, 0);
    free(m.bytes);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_OK);
    assert_string_equal(trf_file_metadata(file, "k"), want);
    assert_int_equal(trf_find_invalid_utf8(want, strlen(want)), -1);
    assert_string_equal(trf_file_at(file, 0).name, "\xC3\xA9\xE2\x82\xAC");
    trf_file_close(file);
}

static void one_note(trf__text *notes, const void *of)
{
    trf__add_metadata(notes, "k", (const char *)of);
}

/* Texts that do not fit into a header; a file without tensors; no path. */
static void test_writer_refuses(void **state)
{
    const char *path = in_folder("refused.safetensors");
    trf__out good = out_of("a", "F32", small_weights, 1, 6, 0);
    trf_hooks hooks;
    counted memory;
    trf_error err;
    char *huge = (char *)malloc((16 << 20) + 1);
    (void)state;
    hooks = counting(&memory);
    assert_non_null(huge);
    memset(huge, 'x', 16 << 20);
    huge[16 << 20] = 0;
    assert_int_equal(trf__file_write(&hooks, at_path(path), &good, 1, one_note, huge, &err),
                     TRF_E_LIMIT);
    assert_told(&err, TRF_E_LIMIT, "writer");
    assert_int_equal(access(path, F_OK), -1);
    huge[(16 << 20) - 200] = 0;
    assert_int_equal(trf__file_write(&hooks, at_path(path), &good, 1, one_note, huge, &err),
                     TRF_OK);
    free(huge);
    assert_int_equal(trf__file_write(&hooks, at_path(""), &good, 1, NULL, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf__file_write(&hooks, at_path(path), NULL, 0, NULL, NULL, &err), TRF_OK);
    assert_true(memory.live == 0);
    assert_int_equal(leftovers(), 0);
    assert_int_equal(fault.open_files, 0);
}

static void test_open_arguments(void **state)
{
    trf_load_options options = trf_load_defaults();
    const char *path = in_folder("small.safetensors");
    trf_file *file = NULL;
    trf_error err;
    size_t n;
    (void)state;
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    free(get_file(path, &n));
    assert_int_equal(trf_file_open(NULL, path, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_file_open(&file, NULL, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_file_open(&file, "", NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "path");
    options.max_bytes = 0;
    assert_int_equal(trf_file_open(&file, path, &options, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "max_bytes");
    options.max_bytes = n - 1;
    assert_int_equal(trf_file_open(&file, path, &options, &err), TRF_E_LIMIT);
    options.max_bytes = n;
    assert_int_equal(trf_file_open(&file, path, &options, &err), TRF_OK);
    trf_file_close(file);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    trf_file_close(file);
    trf_file_close(NULL);
    assert_int_equal(kit_file_tensors(NULL), 0);
    assert_int_equal(kit_file_texts(NULL), 0);
    assert_null(trf_file_metadata(NULL, "k"));
    assert_null(trf_file_at(NULL, 0).name);
}

/* ---- no memory, no disk ---- */

static void test_no_memory(void **state)
{
    const char *path = in_folder("memory.safetensors");
    trf_load_options options = trf_load_defaults();
    int all, k;
    (void)state;
    for (all = 0; all < 2; all++) for (k = 1; ; k++) {
        counted memory;
        trf_hooks hooks;
        trf_error err;
        trf_status status;
        hooks = counting(&memory);
        memory.at = k;
        memory.all = all;
        unlink(path);
        status = write_small(&hooks, path, &err);
        assert_true(memory.live == 0);
        if (!status) { assert_true(k > 2); break; }
        assert_int_equal(status, TRF_E_NOMEM);
        assert_told(&err, TRF_E_NOMEM, "writer");
        assert_int_equal(access(path, F_OK), -1);
    }
    for (k = 1; k < 3; k++) {
        counted memory;
        trf_file *file = NULL;
        trf_error err;
        options.hooks = counting(&memory);
        memory.at = k;
        assert_int_equal(trf_file_open(&file, path, &options, &err), k == 1 ? TRF_E_NOMEM : TRF_OK);
        assert_true((k == 1) == !file);
        trf_file_close(file);
        assert_true(memory.live == 0);
    }
    assert_int_equal(fault.open_files, 0);
}

/* The k-th call to the system fails, for every k, once or for ever: an error, no temporary file,
   and the old file as it was; unless it was the last flush, that of the folder: then the new file
   is there. */
static void test_failing_writes(void **state)
{
    const char *path = in_folder("io.safetensors");
    static const char old[] = "the old file";
    unsigned char *now, *whole;
    size_t n, n_whole;
    int all, k, calls, renamed;
    (void)state;
    put_file(path, old, sizeof old, 0);
    assert_int_equal(chmod(path, 0666), 0);
    umask(022);
    memset(&fault, 0, sizeof fault);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    calls = fault.calls;
    assert_string_equal(
        fault.trace,
        "?OFMWWWWWWSCCONSCC"); /* the file is flushed before, the folder after the rename */
    whole = get_file(path, &n_whole);
    for (all = 0; all < 2; all++) for (k = 1; k <= calls; k++) {
        trf_error err;
        trf_status status;
        put_file(path, old, sizeof old, 0);
        assert_int_equal(chmod(path, 0666), 0);
        memset(&fault, 0, sizeof fault);
        fault.at = k;
        fault.all = all;
        status = write_small(NULL, path, &err);
        renamed = strchr(fault.trace, 'N') != NULL;
        if (k >= calls - 1)
            assert_int_equal(
                status, TRF_OK); /* closing the folder, and what was held: nothing depends on it */
        else {
            assert_int_equal(status, TRF_E_IO);
            assert_told(&err, TRF_E_IO, "writing");
            assert_true(err.sys_errno == EIO || err.sys_errno == ENOSPC);
        }
        now = get_file(path, &n);
        if (renamed) {
            assert_true(k >= calls - 2);
            assert_true(n == n_whole && !memcmp(now, whole, n));
        } else assert_true(n == sizeof old && !memcmp(now, old, n));
        free(now);
        if (leftovers()) fail_msg("call %d: a temporary file is left", k);
        if (fault.open_files) fail_msg("call %d: a descriptor is lost", k);
    }
    free(whole);
}

static void test_failing_reads(void **state)
{
    const char *path = in_folder("io.safetensors");
    trf_real numbers[6];
    int k, done = 0;
    (void)state;
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    for (k = 1; !done; k++) {
        trf_file *file = NULL;
        trf_error err;
        trf_status status;
        memset(&fault, 0, sizeof fault);
        fault.at = k;
        status = trf_file_open(&file, path, NULL, &err);
        if (!status) status = trf_file_read(file, 0, 0, numbers, 6, &err);
        if (!status) status = trf__file_check_crc(file, &err);
        done = !status;
        if (status) {
            assert_int_equal(status, TRF_E_IO);
            assert_told(&err, status, "reading");
            assert_int_equal(err.sys_errno, EIO);
        }
        trf_file_close(file);
        assert_int_equal(fault.open_files, 0);
    }
    assert_true(k > 10);
}

/* Every call interrupted once, reads and writes of at most seven bytes: everything works. */
static void test_interrupted(void **state)
{
    const char *path = in_folder("short.safetensors");
    trf_file *file = NULL;
    trf_real numbers[6];
    (void)state;
    fault.interrupt = 1;
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    assert_int_equal(trf_file_read(file, 0, 0, numbers, 6, NULL), TRF_OK);
    assert_true((float)numbers[5] == small_weights[5]);
    trf_file_close(file);
    assert_int_equal(fault.open_files, 0);
}

/* A model is loaded in one pass: each byte comes once, for the checksum and for the weights. What
   fills rows up is zero. */
static void test_one_pass(void **state)
{
    const char *path = in_folder("model.safetensors");
    trf_config config = trf_config_preset(TRF_TINY);
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    int64_t at, end, gaps = 0;
    counted c;
    size_t bytes;
    int32_t i;
    (void)state;
    config.source_vocab = 37;
    config.target_vocab = 41;
    config.d_model = 24;
    config.n_heads = 3;
    config.d_ff = 40;
    config.encoder_layers = config.decoder_layers = 1;
    assert_int_equal(trf_model_create(&model, &config, NULL, NULL), TRF_OK);
    assert_int_equal(trf_model_save(model, path, NULL, NULL), TRF_OK);
    trf_model_destroy(model);
    free(get_file(path, &bytes));
    fault.bytes_read = 0;
    options.hooks = counting(&c);
    assert_int_equal(trf_model_load(&model, path, &options, NULL), TRF_OK);
    assert_true(fault.bytes_read == (int64_t)bytes);
    for (i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        end = i + 1 < model->layout.n_params ? p[1].offset : model->layout.n_weights;
        for (at = p->offset + trf__param_size(p); at < end; at++, gaps++)
            assert_true(model->weights[at] == 0);
    }
    assert_true(gaps > 100);
    trf_model_destroy(model);
    assert_true(c.live == 0);
}

/* The file shrinks between opening and reading. */
static void test_shrinking(void **state)
{
    const char *path = in_folder("shrinks.safetensors");
    trf_file *file = NULL;
    trf_error err;
    trf_real numbers[6];
    (void)state;
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_OK);
    assert_int_equal(truncate(path, (off_t)trf_file_at(file, 0).begin + 5), 0);
    assert_int_equal(trf_file_read(file, 0, 0, numbers, 6, &err), TRF_E_IO);
    assert_told(&err, TRF_E_IO, "shrinks");
    assert_true(err.where == (int64_t)trf_file_at(file, 0).begin + 5);
    assert_true(names(&err, path));
    assert_int_equal(trf_file_read(file, 99, 0, numbers, 6, &err), TRF_E_INVALID_ARG);
    assert_true(names(&err, path));
    assert_int_equal(trf__file_check_crc(file, &err), TRF_E_IO);
    trf_file_close(file);
}

/* A real full disk, as far as one can be had: the limit of a file's size, and /dev/full. */
static void test_full(void **state)
{
    const char *path = in_folder("full.safetensors");
    static const char old[] = "the old file";
    struct rlimit before, small;
    trf_error err;
    trf_status status;
    unsigned char *now;
    size_t n;
    int fd;
    (void)state;
    put_file(path, old, sizeof old, 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status = write_small(NULL, path, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, TRF_E_IO);
    assert_int_equal(err.sys_errno, EFBIG);
    assert_told(&err, TRF_E_IO, "full");
    now = get_file(path, &n);
    assert_true(n == sizeof old && !memcmp(now, old, n));
    free(now);
    assert_int_equal(leftovers(), 0);
    fd = open("/dev/full", O_WRONLY);
    if (fd >= 0) {
        assert_int_equal(trf__write_all(fd, old, sizeof old), ENOSPC);
        close(fd);
        assert_int_equal(write_small(NULL, "/dev/full", &err),
                         TRF_E_IO); /* a device is not replaced */
        assert_int_equal(access("/dev/full", W_OK), 0);
    }
}

/* ---- what is not a file, and what may not be touched ---- */

static void refuse_both(const char *path, int reading_only)
{
    trf_file *file = NULL;
    trf_error err;
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_E_IO);
    assert_told(&err, TRF_E_IO, path);
    assert_null(file);
    if (reading_only) return;
    assert_int_equal(write_small(NULL, path, &err), TRF_E_IO);
    assert_told(&err, TRF_E_IO, path);
    assert_int_equal(leftovers(), 0);
}

static void test_not_a_file(void **state)
{
    struct sockaddr_un address;
    const char *path;
    int fd;
    (void)state;
    refuse_both(folder, 0);
    refuse_both(in_folder("none/none"), 0);
    refuse_both(in_folder("none"), 1);
    refuse_both("/dev/zero", 0);
    refuse_both("/dev/null", 0);
    path = in_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse_both(path, 0);
    fault.lie =
        1; /* the pipe took the place of a file just after we looked: no waiting for a writer */
    refuse_both(path, 1);
    fault.lie = 0;
    path = in_folder("socket");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0) {
        memset(&address, 0, sizeof address);
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        if (bind(fd, (struct sockaddr *)(void *)&address, sizeof address) == 0)
            refuse_both(path, 0);
        close(fd);
    }
    path = in_folder("loop");
    assert_int_equal(symlink(path, path), 0);
    refuse_both(path, 0);
    assert_int_equal(fault.open_files, 0);
}

/* No permission to read, and a folder that cannot be written: as root, in somebody else's clothes.
 */
static void test_no_permission(void **state)
{
    const char *path = in_folder("secret.safetensors"), *inside = in_folder("locked/x.safetensors");
    char locked[128];
    trf_file *file = NULL;
    trf_error err;
    uid_t self = geteuid();
    (void)state;
    snprintf(locked, sizeof locked, "%s/locked", folder);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(mkdir(locked, 0755), 0);
    assert_int_equal(chmod(path, 0000), 0);
    assert_int_equal(chmod(locked, 0555), 0);
    if (self == 0) assert_int_equal(seteuid(65534), 0);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_E_IO);
    assert_int_equal(err.sys_errno, EACCES);
    assert_told(&err, TRF_E_IO, path);
    assert_int_equal(write_small(NULL, inside, &err), TRF_E_IO);
    assert_int_equal(err.sys_errno, EACCES);
    assert_told(&err, TRF_E_IO, inside);
    if (self == 0) assert_int_equal(seteuid(0), 0);
    assert_int_equal(access(inside, F_OK), -1);
    assert_int_equal(chmod(locked, 0755), 0);
    assert_int_equal(fault.open_files, 0);
}

static int mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (int)(s.st_mode & 07777);
}

static void test_modes(void **state)
{
    static const int modes[] = { 0640, 0664, 0600, 0777, 0444 };
    const char *path = in_folder("mode.safetensors");
    mode_t before = umask(022);
    size_t i;
    (void)state;
    unlink(path);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(mode_of(path), 0644);
    for (i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, (mode_t)modes[i]), 0);
        assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
        assert_int_equal(mode_of(path), modes[i]);
    }
    unlink(path);
    umask(077);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(mode_of(path), 0600);
    umask(before);
}

/* A link waits under the temporary name: it is not followed, and saving still works. A link as the
   target is replaced; what it pointed to stays. */
static void test_links(void **state)
{
    const char *path = in_folder("linked.safetensors");
    char victim[128], temporary[256];
    static const char precious[] = "precious";
    unsigned char *now;
    struct stat s;
    trf_file *file = NULL;
    size_t n;
    uint32_t i;
    (void)state;
    snprintf(victim, sizeof victim, "%s/victim", folder);
    put_file(victim, precious, sizeof precious, 0);
    for (i = 0; i < 3; i++) {
        trf__temporary_name(temporary, sizeof temporary, path, i);
        assert_non_null(strstr(temporary, "linked.safetensors.tmp-"));
        assert_int_equal(symlink(victim, temporary), 0);
    }
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    trf_file_close(file);
    assert_int_equal(leftovers(), 3);       /* the links, and nothing of ours */
    for (i = 0; i < 3; i++) {
        trf__temporary_name(temporary, sizeof temporary, path, i);
        assert_int_equal(unlink(temporary), 0);
    }
    unlink(path);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    now = get_file(victim, &n);
    assert_true(n == sizeof precious && !memcmp(now, precious, n));
    free(now);
}

/* ---- what others leave behind, and what they are still at ---- */

static trf_status write_large(const char *path, float first)
{
    static float numbers[1 << 16];
    trf__out out = out_of("large", "F32", numbers, 1, 1 << 16, 0);
    trf_hooks none;
    memset(&none, 0, sizeof none);
    numbers[0] = first;
    return trf__file_write(&none, at_path(path), &out, 1, NULL, NULL, NULL);
}

/* The file is whole: whose it is. */
static float read_large(const char *path)
{
    trf_file *file = NULL;
    trf_error err;
    trf_real first = 0;
    if (trf_file_open(&file, path, NULL, &err) || trf__file_check_crc(file, &err) ||
        trf_file_read(file, 0, 0, &first, 1, &err)) fail_msg("%s", err.message);
    trf_file_close(file);
    return (float)first;
}

/* Killed at any moment, again and again: one file is left at most, and the model is always a whole
   one. */
static void test_killed(void **state)
{
    const char *path = in_folder("killed.safetensors");
    int k, killed = 0, seen = 0;
    (void)state;
    assert_int_equal(write_large(path, 0), TRF_OK);
    for (k = 1; k <= 30 || (seen == 0 && k <= 1000);
         k++) { /* until one was killed while it wrote */
        struct timespec wait = { 0, 0 };
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) for (;;) if (write_large(path, (float)k)) _exit(1);
        wait.tv_nsec = 1000000 + k * 7919L % 30 * 400000;
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_true(waitpid(child, &status, 0) == child);
        killed += WIFSIGNALED(status);
        (void)read_large(path);
        assert_true(leftovers() <= 1);
        seen += leftovers();
    }
    assert_int_equal(killed, k - 1);
    assert_true(seen > 0);
    assert_int_equal(write_large(path, 99), TRF_OK);
    assert_int_equal(leftovers(), 0);
    assert_true(read_large(path) == 99);
}

/* A file of 5 GB, nearly all of it a hole: what stands behind is found, and a fault there has its
   place. */
static void test_beyond_4_gib(void **state)
{
    static const char header[] =
        "{\"hole\":{\"dtype\":\"U8\",\"shape\":[5000000000],\"data_offsets\":[0,5000000000]},"
        "\"last\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[5000000000,5000000016]}}";
    static const float numbers[] = { 1.5f, -2, 3.25f, 7 };
    const char *path = in_folder("hole.safetensors");
    unsigned char length[8] = { sizeof header - 1 };
    trf_load_options options = trf_load_defaults();
    trf_file *file = NULL;
    trf_real got[4];
    trf_error err;
    int fd = open(path, O_WRONLY | O_CREAT, 0600), i;
    (void)state;
    assert_true(fd >= 0);
    assert_true(write(fd, length, 8) == 8 &&
                write(fd, header, sizeof header - 1) == (ssize_t)(sizeof header - 1));
    assert_true(lseek(fd, 5000000000, SEEK_CUR) > 5000000000);
    if (write(fd, numbers, sizeof numbers) != sizeof numbers) { /* no file may be as large here */
        close(fd);
        skip();
    }
    close(fd);
    if (trf_file_open(&file, path, &options, &err)) fail_msg("%s", err.message);
    assert_true(trf_file_at(file, 0).bytes == 5000000000u &&
                trf_file_at(file, 1).begin == 8 + sizeof header - 1 + 5000000000u);
    assert_int_equal(trf_file_read(file, 1, 0, got, 4, &err), TRF_OK);
    for (i = 0; i < 4; i++) assert_true(got[i] == (trf_real)numbers[i]);
    assert_int_equal(trf_file_read(file, 1, 3, got, 1, &err), TRF_OK);
    assert_true(got[0] == 7);
    trf_file_close(file);
    assert_int_equal(unlink(path), 0);
}

/* Several at a time, until all have saved often. */
static void test_at_the_same_time(void **state)
{
    const char *path = in_folder("shared.safetensors");
    pid_t children[3];
    int i, k, status;
    float last;
    (void)state;
    for (i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0) continue;
        for (k = 0; k < 150; k++) if (write_large(path, (float)(i + 1))) _exit(1);
        _exit(0);
    }
    for (i = 0; i < 3; i++) {
        assert_true(waitpid(children[i], &status, 0) == children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    last = read_large(path);
    assert_true(last >= 1 && last <= 3);
    assert_int_equal(leftovers(), 0);
}

/* What nobody holds goes, wherever it stands; what somebody holds stays, even if it is this
   process. */
static void test_held(void **state)
{
    const char *path = in_folder("held.safetensors");
    char names[6][256];
    uint32_t i;
    int fd, held;
    (void)state;
    for (i = 0; i < 6; i++) trf__temporary_name(names[i], sizeof names[i], path, i);
    for (i = 0; i < 6; i++) put_file(names[i], "half", 4, 0);
    assert_int_equal(chmod(names[2], 0444), 0);
    fd = open(names[1], O_WRONLY);
    held = trf_os_hold(names[1], fd);
    assert_true(fd >= 0 && held >= 0);
    close(fd); /* what was written there is whole; the rename is to come */
    assert_int_equal(write_large(path, 5), TRF_OK);
    assert_true(read_large(path) == 5);
    for (i = 0; i < 6; i++) assert_int_equal(access(names[i], F_OK), i == 1 || i > 3 ? 0 : -1);
    errno = 0;
    assert_int_equal(trf_os_hold(names[1], -1), -1);
    assert_int_equal(errno, EAGAIN);
    fd = open(names[4], O_WRONLY); /* the name goes to another file between opening and holding */
    unlink(names[4]);
    assert_int_equal(trf_os_hold(names[4], fd), -1);
    assert_int_equal(errno, EAGAIN);
    put_file(names[4], "other", 5, 0);
    assert_int_equal(trf_os_hold(names[4], fd), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    close(held);
    assert_int_equal(write_large(path, 6), TRF_OK);
    assert_int_equal(access(names[1], F_OK), -1);
    unlink(names[4]);
    unlink(names[5]);
    assert_int_equal(leftovers(), 0);
    for (fault.unheld = 1; fault.unheld <= 2;
         fault.unheld++) { /* where nothing can be held, or others are faster */
        put_file(names[0], "half", 4, 0);
        assert_int_equal(write_large(path, 6 + (float)fault.unheld), TRF_OK);
        assert_true(read_large(path) == 6 + (float)fault.unheld);
        assert_int_equal(leftovers(), 1);
        assert_int_equal(fault.open_files, 0);
    }
    fault.unheld = 0;
    unlink(names[0]);
    for (i = 1; i <= 2; i++) {      /* what somebody else puts there is not taken for the model */
        fault.taken = i;
        assert_int_equal(write_large(path, 10), TRF_E_IO);
        assert_true(read_large(path) == 8);
        assert_int_equal(leftovers(), i - 1);
        assert_int_equal(fault.open_files, 0);
    }
    unlink(fault.held);
    for (i = 0; i < 4; i++) put_file(names[i], "", 0, 0);
    if (geteuid() == 0) {           /* somebody else's, in a folder that all may write */
        assert_int_equal(chmod(folder, 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    assert_int_equal(write_large(path, 9), TRF_OK);
    assert_int_equal(leftovers(), 0);
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(chmod(folder, 0755), 0);
    }
    assert_int_equal(fault.open_files, 0);
}

/* Saving over the file that is being read: the reader goes on with what it opened. */
static void test_save_over_open(void **state)
{
    const char *path = in_folder("over.safetensors");
    float other[2] = { 8, 9 };
    trf__out out = out_of("other", "F32", other, 1, 2, 0);
    trf_file *file = NULL;
    trf_real numbers[6];
    trf_hooks none;
    (void)state;
    memset(&none, 0, sizeof none);
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf__file_write(&none, at_path(path), &out, 1, NULL, NULL, NULL), TRF_OK);
    assert_int_equal(trf_file_read(file, 0, 0, numbers, 6, NULL), TRF_OK);
    assert_true((float)numbers[1] == small_weights[1]);
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    trf_file_close(file);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf__file_find(file, "other"), 0);
    trf_file_close(file);
}

/* Names: the longest, with foreign letters, with format letters, without a folder. */
static void test_paths(void **state)
{
    char name[300], here[512];
    trf_file *file = NULL;
    trf_error err;
    int i;
    (void)state;
    for (i = 0; i < 5; i++) {
        memset(name, 0, sizeof name);
        if (i == 0) memset(name, 'n', 255);
        if (i == 1) { int k; for (k = 0; k < 127; k++) memcpy(name + 2 * k, "\xC3\xA9", 2); }
        if (i == 2) strcpy(name, "%n%s%n");
        if (i == 3) strcpy(name, "a b\"'\\$`\n.safetensors");
        if (i == 4) memset(name, 'n', 256);
        assert_int_equal(write_small(NULL, in_folder(name), &err), i == 4 ? TRF_E_IO : TRF_OK);
        assert_int_equal(trf_file_open(&file, in_folder(name), NULL, &err),
                         i == 4 ? TRF_E_IO : TRF_OK);
        if (i == 4) assert_int_equal(err.sys_errno, ENAMETOOLONG);
        trf_file_close(file);
        unlink(in_folder(name));
    }
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(write_small(NULL, "plain", &err), TRF_OK);
    assert_int_equal(trf_file_open(&file, "plain", NULL, &err), TRF_OK);
    trf_file_close(file);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(leftovers(), 0);
}

/* Files of something else: what they look like, behind their path. */
static void test_other_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        trf_status status;
        const char *says;
    } files[] = {
        {"Wie sch\xC3\xB6n!\n", 13, TRF_E_FORMAT, ": not a safetensors file: it looks like text"},
        {"one\ttwo\r\nthree", 14, TRF_E_FORMAT, ": not a safetensors file: it looks like text"},
        {"PK\3\4 and so on", 14, TRF_E_FORMAT,
         ": not a safetensors file: it looks like a zip archive"},
        {"\1\2\3\4\5\6\7\10\11", 9, TRF_E_LIMIT,
         ": not a safetensors file: a header of 578437695752307201 bytes"},
        {"text\0\1\2\3\4", 9, TRF_E_LIMIT, ": not a safetensors file: a header of"},
        {"\xC3\xB6\xC3\xB6\xFFtext", 9, TRF_E_LIMIT, ": not a safetensors file: a header of"},
        {"\0\0\0\0\0\0\0\0\0", 9, TRF_E_FORMAT,
         ": not a safetensors file: its header has the length 0"}};
    trf_error err;
    trf_file *file = NULL;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        put_file(in_folder("other.txt"), files[i].bytes, files[i].n, 0);
        assert_int_equal(trf_file_open(&file, in_folder("other.txt"), NULL, &err), files[i].status);
        assert_true(names(&err, in_folder("other.txt")));
        if (strstr(err.message, files[i].says) != err.message + strlen(in_folder("other.txt")))
            fail_msg("%s", err.message);
    }
}

/* A message shows the end of a long path, cut between two characters and safe for a terminal, and
   what is wrong; it does so once, however many calls pass the error on. */
static void test_names(void **state)
{
    char path[400], shown[128];
    trf_error err;
    trf_file *file = NULL;
    trf_model *model = NULL;
    size_t i, n;
    (void)state;
    for (i = 0; i < 2; i++) {
        char *at = path + snprintf(path, sizeof path, "%s/no/\x1b[31m", folder);
        for (n = 0; n < 60 + i; n++) { memcpy(at, "\xC3\xA9", 2); at += 2; }
        strcpy(at, i ? ".safetensors" : "safetensors");
        assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_E_IO);
        snprintf(shown, sizeof shown, "%s: cannot find it", path + strlen(path) - 100 + (i == 0));
        assert_true((shown[0] & 0xFF) == 0xC3);
        if (strncmp(err.message, shown, strlen(shown))) fail_msg("%s", err.message);
        assert_int_equal(trf_model_load(&model, path, NULL, &err), TRF_E_IO);
        if (strncmp(err.message, shown, strlen(shown))) fail_msg("%s", err.message);
    }
    snprintf(path, sizeof path, "%s/no/\x1b\xC2\x9B[31m", folder);
    assert_int_equal(trf_file_open(&file, path, NULL, &err), TRF_E_IO);
    assert_non_null(strstr(err.message, "/no/?""?[31m: cannot find it: "));
}

/* Text for a terminal: what is no character or controls one is '?', the rest stays, and no cut
   divides a character. */
static void test_safe_text(void **state)
{
    static const struct { const char *from; size_t size; const char *to; } cases[] = {
        { "plain", 16, "plain" }, { "plain", 4, "pla" }, { "plain", 1, "" }, { NULL, 4, "" },
        { "a\tb\x1b[1m\x7f", 16, "a?b?[1m?" },
        { "\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0", 16, "???\xC2\xA0" },
        { "\x9B" "1m\xFF\xC2", 16, "?1m?" "?" },
        { "\xC0\x9B\xE0\x82\x9B\xED\xA0\x80", 16, "????" "????" },
        { "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", 16, "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80" },
        { "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", 9, "\xC3\xA9\xE4\xB8\xAD" },
        { "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", 5, "\xC3\xA9" },
        { "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", 2, "" }
    };
    char to[16], name[300];
    trf_error err;
    size_t i, k;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(to, 'x', sizeof to);
        trf__copy_text(to, cases[i].size, cases[i].from);
        if (strcmp(to, cases[i].to)) fail_msg("case %d: %s", (int)i, to);
    }
    for (i = 0; i < 4; i++) {               /* a message, cut at any byte of a character */
        memset(name, 'a', i);
        for (k = 0; k < 74; k++) memcpy(name + i + 4 * k, "\xF0\x9F\x98\x80", 5);
        trf__fail(&err, TRF_E_IO, -1, name, "%s", name);
        assert_true(strlen(err.message) == i + (255 - i) / 4 * 4 &&
                    strlen(err.what) == i + (63 - i) / 4 * 4);
        assert_true(!strncmp(err.message, name, strlen(err.message)));
    }
}

/* ---- numbers as text ---- */

static uint64_t bits_of(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }

static void round_trips(void)
{
    static const double known[] = {0.0,
                                   -0.0,
                                   1.0,
                                   0.1,
                                   -1.5,
                                   1e-5,
                                   123456789.0,
                                   1e22,
                                   1e23,
                                   5e-324,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308,
                                   -4.9406564584124654e-324,
                                   3.1415926535897931,
                                   9007199254740993.0};
    char text[32];
    double back;
    uint32_t i;
    for (i = 0; i < 60000 + sizeof known / sizeof known[0]; i++) {
        uint64_t random = trf__random64(1, 2, i);
        float f;
        double x;
        uint32_t low = (uint32_t)random;
        if (i < sizeof known / sizeof known[0]) x = known[i];
        else memcpy(&x, &random, 8);
        if (!trf__is_finite(x)) continue;
        trf__print_real(text, sizeof text, x, 17);
        if (strchr(text, ',') || !trf__parse_real(text, &back) || bits_of(back) != bits_of(x))
            fail_msg("%s", text);
        memcpy(&f, &low, 4);
        if (!trf__is_finite((double)f)) continue;
        trf__print_real(text, sizeof text, (double)f, 9);
        if (!trf__parse_real(text, &back) || !((float)back == f)) fail_msg("float %s", text);
    }
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {
        "",    "-",        ".",       ".5",   "5.",    "1,5",   "1e",
        "1e+", "1 ",       " 1",      "+1",   "0x10",  "1e400", "-1e999999999999999999999",
        "INF", "infinity", "NaN",     "-nan", "1.2.3", "1e5.",  "--1",
        "1-",  "1e5e5",    "\xD9\xAB"};
    static const char *const bad_integers[] = {"",
                                               "-",
                                               "-0",
                                               "00",
                                               "01",
                                               "+1",
                                               " 1",
                                               "1 ",
                                               "1.0",
                                               "1e3",
                                               "0x1",
                                               "9223372036854775808",
                                               "-9223372036854775809",
                                               "99999999999999999999999",
                                               "a",
                                               "--1"};
    static const struct { const char *text; int64_t value;
    } integers[] = {{"0", 0},
                    {"-1", -1},
                    {"10", 10},
                    {"9223372036854775807", INT64_MAX},
                    {"-9223372036854775808", INT64_MIN}};
    char text[32];
    double x = 7;
    int64_t n = 7;
    size_t i;
    (void)state;
    round_trips();
    trf__print_real(text, sizeof text, 0.1, 9); assert_string_equal(text, "0.1");
    trf__print_real(text, sizeof text, 0.1, 17); assert_string_equal(text, "0.10000000000000001");
    trf__print_real(text, sizeof text, 1e-5, 9); assert_string_equal(text, "1e-05");
    trf__print_real(text, sizeof text, HUGE_VAL, 9); assert_string_equal(text, "inf");
    trf__print_real(text, sizeof text, -HUGE_VAL, 9); assert_string_equal(text, "-inf");
    trf__print_real(text, sizeof text, HUGE_VAL - HUGE_VAL, 9); assert_string_equal(text, "nan");
    trf__print_real(text, 4, 0.125, 9); assert_string_equal(text, "0.1");
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (trf__parse_real(bad[i], &x) || !(x == 7)) fail_msg("\"%s\" was a number", bad[i]);
    for (i = 0; i < sizeof bad_integers / sizeof bad_integers[0]; i++)
        if (trf__parse_int(bad_integers[i], &n) || n != 7)
            fail_msg("\"%s\" was an integer", bad_integers[i]);
    for (i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        assert_true(trf__parse_int(integers[i].text, &n));
        assert_true(n == integers[i].value);
    }
    assert_true(trf__parse_real("-1.25E+3", &x) && x == -1250);
    assert_true(trf__parse_real("1e-400", &x) && x == 0);
    assert_true(trf__parse_real("inf", &x) && x > 0 && !trf__is_finite(x));
    assert_true(trf__parse_real("-inf", &x) && x < 0 && !trf__is_finite(x));
    assert_true(trf__parse_real("nan", &x) && x != x);
}

/* The same in a program whose decimal point is a comma. */
static void test_comma(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8",
                                        "de_DE",       "German",     "ps_AF.utf8"};
    const char *path = in_folder("comma.safetensors");
    trf_file *file = NULL;
    size_t i;
    int found = 0;
    char text[32];
    (void)state;
    for (i = 0; i < sizeof names / sizeof names[0] && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) {                       /* one of our own, where there are the tools for it */
        char command[512];
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >/dev/null 2>&1",
                 in_folder("de_DE.UTF-8"));
        if (system(command) == 0) {
            setenv("LOCPATH", folder, 1);
            found = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
        }
        snprintf(command, sizeof command, "rm -rf '%s'", in_folder("de_DE.UTF-8"));
        assert_int_equal(system(command), 0);
    }
    if (!found) skip();
    round_trips();
    trf__print_real(text, sizeof text, 0.1, 9);
    assert_string_equal(text, "0.1");
    assert_int_equal(write_small(NULL, path, NULL), TRF_OK);
    assert_int_equal(trf_file_open(&file, path, NULL, NULL), TRF_OK);
    trf_file_close(file);
    setlocale(LC_ALL, "C");
}

static void test_sort(void **state)
{
    trf__meta pairs[300];
    const void *items[300];
    char keys[300][8];
    size_t n, i;
    (void)state;
    for (n = 0; n <= 300; n += n < 20 ? 1 : 40) {
        for (i = 0; i < n; i++) {
            snprintf(keys[i], sizeof keys[i], "%03d", (int)(trf__random64(n, 3, i) % 200));
            pairs[i].key = keys[i];
            items[i] = pairs + i;
        }
        trf__sort(items, n, trf__by_name, NULL);
        for (i = 1; i < n; i++) assert_true(trf__by_name(NULL, items[i - 1], items[i]) <= 0);
        for (i = 0; i < n; i++) {       /* each item once */
            size_t k, seen = 0;
            for (k = 0; k < n; k++) seen += items[k] == pairs + i;
            assert_true(seen == 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hostile, fresh),
        cmocka_unit_test_setup(test_header_limits, fresh),
        cmocka_unit_test_setup(test_largest, fresh),
        cmocka_unit_test_setup(test_raw_nul, fresh),
        cmocka_unit_test_setup(test_every_truncation, fresh),
        cmocka_unit_test_setup(test_every_bit, fresh),
        cmocka_unit_test_setup(test_crc, fresh),
        cmocka_unit_test_setup(test_round_trip, fresh),
        cmocka_unit_test_setup(test_large, fresh),
        cmocka_unit_test_setup(test_many, fresh),
        cmocka_unit_test_setup(test_halves, fresh),
        cmocka_unit_test_setup(test_finite_numbers, fresh),
        cmocka_unit_test_setup(test_escapes, fresh),
        cmocka_unit_test_setup(test_writer_refuses, fresh),
        cmocka_unit_test_setup(test_open_arguments, fresh),
        cmocka_unit_test_setup(test_no_memory, fresh),
        cmocka_unit_test_setup(test_failing_writes, fresh),
        cmocka_unit_test_setup(test_failing_reads, fresh),
        cmocka_unit_test_setup(test_interrupted, fresh),
        cmocka_unit_test_setup(test_one_pass, fresh),
        cmocka_unit_test_setup(test_shrinking, fresh),
        cmocka_unit_test_setup(test_full, fresh),
        cmocka_unit_test_setup(test_not_a_file, fresh),
        cmocka_unit_test_setup(test_no_permission, fresh),
        cmocka_unit_test_setup(test_modes, fresh),
        cmocka_unit_test_setup(test_links, fresh),
        cmocka_unit_test_setup(test_save_over_open, fresh),
        cmocka_unit_test_setup(test_beyond_4_gib, fresh),
        cmocka_unit_test_setup(test_killed, fresh),
        cmocka_unit_test_setup(test_at_the_same_time, fresh),
        cmocka_unit_test_setup(test_held, fresh),
        cmocka_unit_test_setup(test_paths, fresh),
        cmocka_unit_test_setup(test_names, fresh),
        cmocka_unit_test_setup(test_other_files, fresh),
        cmocka_unit_test_setup(test_safe_text, fresh),
        cmocka_unit_test_setup(test_numbers, fresh),
        cmocka_unit_test_setup(test_comma, fresh),
        cmocka_unit_test_setup(test_sort, fresh),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
