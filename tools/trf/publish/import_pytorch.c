// trf import: reads the tensors of a file of PyTorch's torch.save.
//
// Since torch 1.6 such a file is a zip file: FOLDER/data.pkl describes the tensors
// (import_pickle.c), FOLDER/data/KEY has the numbers of the storage KEY, and FOLDER/byteorder says
// in which order their bytes are. Before, it was
//
//     a pickle of the number MAGIC, one of 1001, and one of a dictionary about the machine
//     a pickle of the dictionary of tensors, and one of the list of the storages' keys
//     for each key: 8 bytes, how many numbers the storage has; its numbers, the lowest byte first
//
// Several tensors may share a storage, and may be views of it with any strides. Opening a file
// checks where the numbers of all tensors are. Numbers are read when they are asked for.

#include "import.h"

#include <errno.h>
#include <math.h>
#ifdef TRF_WITH_LIBZIP
#include <zip.h>
#endif

struct pytorch {
    char *path;
    struct torch_tensor *tensors;       /* sorted by name */
    size_t n;
    int big_endian;                     /* the highest byte of a number comes first */
    FILE *file;                         /* a file before torch 1.6, or NULL */
#ifdef TRF_WITH_LIBZIP
    zip_t *zip;                         /* or NULL */
    zip_file_t *entry;                  /* that is being read */
#endif
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct torch_tensor *)a)->name, ((const struct torch_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct torch_storage *)a)->key, ((const struct torch_storage *)b)->key);
}

/* The message of a storage of which the file has too little. */
static int too_short(const struct pytorch *f, const char *key, int64_t numbers, int bytes,
                     uint64_t have)
{
    return refuse("%s: the storage '%s' should have %lld numbers of %d bytes, but the file has "
                  "only %llu bytes of it", f->path, key, (long long)numbers, bytes,
                  (unsigned long long)have);
}

// -----------------------------------------------------------------------------------------------
// >>zip            the file as a zip file, by libzip
// -----------------------------------------------------------------------------------------------

#ifdef TRF_WITH_LIBZIP
static int64_t more_of_entry(void *from, void *to, size_t n)
{
    struct pytorch *f = from;
    int64_t got = zip_fread(f->entry, to, n);
    if (got < 0) say("%s: data.pkl: %s", f->path, zip_file_strerror(f->entry));
    return got;
}

static int open_entry(struct pytorch *f, zip_uint64_t index)
{
    f->entry = zip_fopen_index(f->zip, index, 0);
    if (f->entry) return DONE;
    return refuse("%s: '%s': %s", f->path, zip_get_name(f->zip, index, 0), zip_strerror(f->zip));
}

static void close_entry(struct pytorch *f)
{
    if (f->entry) zip_fclose(f->entry);
    f->entry = NULL;
}

/* The folder with data.pkl, and the slash after it; malloc'd, or NULL after a message. */
static char *find_folder(const struct pytorch *f, zip_uint64_t *index)
{
    zip_int64_t n = zip_get_num_entries(f->zip, 0), i;
    char *folder = NULL;
    for (i = 0; i < n; i++) {
        const char *name = zip_get_name(f->zip, (zip_uint64_t)i, 0);
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || strcmp(slash, "/data.pkl")) continue;
        if (folder) {
            say("%s: expected one data.pkl, got '%sdata.pkl' and '%s'", f->path, folder, name);
            free(folder);
            return NULL;
        }
        folder = format_text("%.*s", (int)(slash + 1 - name), name);
        *index = (zip_uint64_t)i;
    }
    if (!folder) say("%s: expected a zip file of PyTorch, but it has no FOLDER/data.pkl", f->path);
    return folder;
}

/* Files before torch 1.13 do not say: the lowest byte comes first. */
static int read_byte_order(struct pytorch *f, const char *folder)
{
    char *name = format_text("%sbyteorder", folder), order[8];
    zip_int64_t index = zip_name_locate(f->zip, name, 0), n = 0;
    int status = DONE;
    if (index >= 0) {
        if (!(status = open_entry(f, (zip_uint64_t)index)))
            n = zip_fread(f->entry, order, sizeof order);
        close_entry(f);
        f->big_endian = n == 3 && !memcmp(order, "big", 3);
        if (!status && !f->big_endian && !(n == 6 && !memcmp(order, "little", 6)))
            status = refuse("%s: '%s': expected little or big", f->path, name);
    }
    free(name);
    return status;
}

/* The entry of a tensor's storage. */
static int find_entry(struct pytorch *f, const char *folder, struct torch_tensor *t)
{
    char *name = format_text("%sdata/%s", folder, t->key);
    zip_int64_t index = zip_name_locate(f->zip, name, 0);
    zip_stat_t info;
    int status = DONE;
    if (index < 0 || zip_stat_index(f->zip, (zip_uint64_t)index, 0, &info) ||
        !(info.valid & ZIP_STAT_SIZE))
        status = refuse("%s: expected the numbers of tensor '%s' as '%s', which is not there",
                        f->path, t->name, name);
    else if (info.size / (zip_uint64_t)t->bytes < (zip_uint64_t)t->numbers)
        status = too_short(f, t->key, t->numbers, t->bytes, info.size);
    else t->place = (uint64_t)index;
    free(name);
    return status;
}

/* At the end libzip compares the checksum. */
static int end_of_pickle(struct pytorch *f, const struct pickle *p)
{
    char byte;
    int64_t got = more_of_entry(f, &byte, 1);
    if (got == 0 && p->at == p->n) return DONE;
    if (got >= 0) say("%s, byte %zu: expected the end after STOP", p->where, p->at);
    return FAILED;
}

static int open_zip(struct pytorch *f)
{
    struct pickle p;
    zip_uint64_t index = 0;
    char *folder, *where;
    int code = 0, status;
    size_t i;
    f->zip = zip_open(f->path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    if (!f->zip) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        if (code == ZIP_ER_EXISTS) say("%s: expected every name once in a zip file", f->path);
        else say("%s: as a zip file: %s", f->path, zip_error_strerror(&error));
        zip_error_fini(&error);
        return FAILED;
    }
    if (!(folder = find_folder(f, &index))) return FAILED;
    memset(&p, 0, sizeof p);
    p.where = where = format_text("%s: %sdata.pkl", f->path, folder);
    p.more = more_of_entry;
    p.from = f;
    status = open_entry(f, index) || run_pickle(&p) || pickle_tensors(&p, &f->tensors, &f->n) ||
             end_of_pickle(f, &p);
    close_entry(f);
    status = status || read_byte_order(f, folder) ? FAILED : DONE;
    for (i = 0; !status && i < f->n; i++) status = find_entry(f, folder, &f->tensors[i]);
    free_pickle(&p);
    free(where);
    free(folder);
    return status;
}

/* Begins to read a storage at a byte. Only entries that are not compressed can be entered
   anywhere. */
static int enter_entry(struct pytorch *f, const struct torch_tensor *t, uint64_t skip)
{
    char left_out[4096];
    zip_stat_t info;
    zip_int64_t got = 1;
    if (zip_stat_index(f->zip, t->place, 0, &info) || open_entry(f, t->place)) return FAILED;
    if (info.comp_method == ZIP_CM_STORE && skip)
        got = zip_fseek(f->entry, (zip_int64_t)skip, SEEK_SET) ? -1 : 1;
    else for (; skip > 0 && got > 0; skip -= (uint64_t)got)
        got = zip_fread(f->entry, left_out, skip < sizeof left_out ? skip : sizeof left_out);
    if (got > 0) return DONE;
    return refuse("%s: tensor '%s': %s", f->path, t->name, zip_file_strerror(f->entry));
}

/* Reads n bytes of the entry. libzip compares the checksum when the end has been read. */
static int read_entry(struct pytorch *f, const struct torch_tensor *t, void *to, uint64_t n)
{
    unsigned char *at = to;
    zip_int64_t got = 1;
    for (; n > 0 && got > 0; n -= (uint64_t)got, at += got) got = zip_fread(f->entry, at, n);
    if (n == 0 && got > 0) return DONE;
    return refuse("%s: tensor '%s': %s", f->path, t->name,
                  got ? zip_file_strerror(f->entry) : "the file ends before its numbers do");
}

static int leave_entry(struct pytorch *f, const struct torch_tensor *t)
{
    char byte;
    int status = zip_fread(f->entry, &byte, 1) < 0 ? FAILED : DONE;
    if (status) say("%s: tensor '%s': %s", f->path, t->name, zip_file_strerror(f->entry));
    close_entry(f);
    return status;
}
#else
static int open_zip(struct pytorch *f)
{
    return refuse("%s: this trf was built without libzip, which reads the files of PyTorch since "
                  "1.6: install libzip-dev and build it again; or in Python, "
                  "model.save_pretrained(folder) writes safetensors", f->path);
}
#endif

// -----------------------------------------------------------------------------------------------
// >>pickles        the file as pickles one after another (before torch 1.6)
// -----------------------------------------------------------------------------------------------

static int64_t more_of_file(void *from, void *to, size_t n)
{
    struct pytorch *f = from;
    size_t got = fread(to, 1, n, f->file);
    if (got || !ferror(f->file)) return (int64_t)got;
    say("%s: %s", f->path, strerror(errno));
    return -1;
}

/* Sorts the storages and leaves each key once. */
static int unite_storages(const struct pytorch *f, struct torch_storage *s, size_t *n)
{
    size_t i, kept = 0;
    qsort(s, *n, sizeof *s, by_key);
    for (i = 0; i < *n; i++) {
        if (!kept || by_key(&s[kept - 1], &s[i])) {
            struct torch_storage swap = s[kept];
            s[kept++] = s[i];
            s[i] = swap;
        } else if (s[kept - 1].bytes != s[i].bytes || s[kept - 1].numbers != s[i].numbers)
            return refuse("%s: the storage '%s' has two types or sizes", f->path, s[i].key);
    }
    for (i = kept; i < *n; i++) free(s[i].key);
    *n = kept;
    return DONE;
}

/* Finds out where each storage begins. They follow each other from byte `at` on. */
static int place_storages(struct pytorch *f, struct torch_storage *s, size_t n, char **keys,
                          size_t n_keys, uint64_t at)
{
    uint64_t size;
    size_t i;
    if (fseeko(f->file, 0, SEEK_END)) { say("%s: %s", f->path, strerror(errno)); return FAILED; }
    size = (uint64_t)ftello(f->file);
    for (i = 0; i < n_keys; i++) {
        struct torch_storage wanted = {keys[i], 0, 0, 0}, *found;
        unsigned char head[8];
        uint64_t numbers = 0;
        int k;
        found = bsearch(&wanted, s, n, sizeof *s, by_key);
        if (!found || found->place)
            return refuse("%s, byte %llu: the storage '%s' %s", f->path, (unsigned long long)at,
                          keys[i], found ? "is there twice" :
                          "belongs to no tensor, so its type is not known");
        if (size < 8 || at > size - 8)
            return too_short(f, keys[i], found->numbers, found->bytes, 0);
        if (fseeko(f->file, (off_t)at, SEEK_SET) || fread(head, 1, 8, f->file) != 8)
            return refuse("%s, byte %llu: %s", f->path, (unsigned long long)at, strerror(errno));
        for (k = 7; k >= 0; k--) numbers = numbers << 8 | head[k];
        if (numbers != (uint64_t)found->numbers)
            return refuse("%s, byte %llu: expected the storage '%s' of %lld numbers, got one of "
                          "%llu", f->path, (unsigned long long)at, keys[i],
                          (long long)found->numbers, (unsigned long long)numbers);
        found->place = at += 8;
        if (numbers > (size - at) / (uint64_t)found->bytes)
            return too_short(f, keys[i], found->numbers, found->bytes, size - at);
        at += numbers * (uint64_t)found->bytes;
    }
    if (at == size) return DONE;
    return refuse("%s, byte %llu: expected the end after the last storage", f->path,
                  (unsigned long long)at);
}

static int place_tensors(struct pytorch *f, const struct torch_storage *s, size_t n)
{
    size_t i;
    for (i = 0; i < f->n; i++) {
        struct torch_storage wanted = {f->tensors[i].key, 0, 0, 0}, *found;
        found = bsearch(&wanted, s, n, sizeof *s, by_key);
        if (!found || !found->place)
            return refuse("%s: the file has no storage '%s', which tensor '%s' needs", f->path,
                          wanted.key, f->tensors[i].name);
        f->tensors[i].place = found->place;
    }
    return DONE;
}

static int run_pickles(struct pytorch *f, struct pickle *p, struct torch_storage **storages,
                       size_t *n_storages, char ***keys, size_t *n_keys)
{
    static const unsigned char magic[10] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50,
                                            0x19};
    if (run_pickle(p)) return FAILED;
    if (!pickle_is_large(p, magic, sizeof magic))
        return refuse("%s: expected a file of torch.save, got another pickle", f->path);
    if (run_pickle(p)) return FAILED;
    if (!pickle_is_number(p, 1001))
        return refuse("%s: expected version 1001 of torch.save, got another one", f->path);
    return run_pickle(p) || run_pickle(p) || pickle_tensors(p, &f->tensors, &f->n) ||
           pickle_storages(p, storages, n_storages) || run_pickle(p) ||
           pickle_texts(p, keys, n_keys);
}

static int open_pickles(struct pytorch *f)
{
    struct torch_storage *storages = NULL;
    struct pickle p;
    char **keys = NULL, *where;
    size_t n_storages = 0, n_keys = 0, i;
    int status;
    rewind(f->file);
    memset(&p, 0, sizeof p);
    p.where = where = format_text("%s", f->path);
    p.more = more_of_file;
    p.from = f;
    status = run_pickles(f, &p, &storages, &n_storages, &keys, &n_keys) ||
             unite_storages(f, storages, &n_storages) ||
             place_storages(f, storages, n_storages, keys, n_keys, p.at) ||
             place_tensors(f, storages, n_storages);
    for (i = 0; i < n_storages; i++) free(storages[i].key);
    for (i = 0; i < n_keys; i++) free(keys[i]);
    free(storages);
    free(keys);
    free_pickle(&p);
    free(where);
    return status ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>numbers        of a tensor
// -----------------------------------------------------------------------------------------------

/* Begins to read the storage of a tensor at a byte; reads bytes; ends. */
static int enter(struct pytorch *f, const struct torch_tensor *t, uint64_t skip)
{
#ifdef TRF_WITH_LIBZIP
    if (f->zip) return enter_entry(f, t, skip);
#endif
    if (!fseeko(f->file, (off_t)(t->place + skip), SEEK_SET)) return DONE;
    return refuse("%s: tensor '%s': %s", f->path, t->name, strerror(errno));
}

static int read_bytes(struct pytorch *f, const struct torch_tensor *t, void *to, size_t n)
{
#ifdef TRF_WITH_LIBZIP
    if (f->zip) return read_entry(f, t, to, n);
#endif
    if (fread(to, 1, n, f->file) == n) return DONE;
    return refuse("%s: tensor '%s': %s", f->path, t->name,
                  ferror(f->file) ? strerror(errno) : "the file ends before its numbers do");
}

static int leave(struct pytorch *f, const struct torch_tensor *t)
{
#ifdef TRF_WITH_LIBZIP
    if (f->zip) return leave_entry(f, t);
#endif
    (void)f; (void)t;
    return DONE;
}

static double from_half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double x = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -x : x;
}

/* One number of `size` bytes; F16 and BF16 have two. */
static double number_from(const unsigned char *bytes, int size, int is_half, int big_endian)
{
    uint64_t bits = 0;
    uint32_t low;
    float single;
    double x;
    int i;
    for (i = 0; i < size; i++) bits = bits << 8 | bytes[big_endian ? i : size - 1 - i];
    if (size == 8) { memcpy(&x, &bits, sizeof x); return x; }
    low = (uint32_t)bits;
    if (is_half) return from_half(low);
    if (size == 2) low <<= 16;
    memcpy(&single, &low, sizeof single);
    return (double)single;
}

/* Number `index` of the tensor. Returns FAILED after a message. */
static int take_number(const struct pytorch *f, const struct torch_tensor *t,
                       const unsigned char *bytes, int64_t index, trf_real *to)
{
    *to = (trf_real)number_from(bytes, t->bytes, !strcmp(t->dtype, "F16"), f->big_endian);
    if (isfinite(*to)) return DONE;
    return refuse("%s: tensor '%s': number %lld is infinite or not a number", f->path, t->name,
                  (long long)index);
}

/* Whether the numbers lie one after another. */
static int is_contiguous(const struct torch_tensor *t)
{
    int64_t step = 1;
    int i;
    for (i = t->rank - 1; i >= 0; step *= t->shape[i--])
        if (t->shape[i] > 1 && t->stride[i] != step) return 0;
    return 1;
}

static int read_in_order(struct pytorch *f, const struct torch_tensor *t, trf_real *to,
                         int64_t count)
{
    unsigned char block[65536];
    int64_t at, n, i;
    for (at = 0; at < count; at += n) {
        n = (int64_t)sizeof block / t->bytes;
        if (n > count - at) n = count - at;
        if (read_bytes(f, t, block, (size_t)(n * t->bytes))) return FAILED;
        for (i = 0; i < n; i++)
            if (take_number(f, t, block + i * t->bytes, at + i, to + at + i)) return FAILED;
    }
    return DONE;
}

/* All between the first and the last number is read at once. */
static int read_by_strides(struct pytorch *f, const struct torch_tensor *t, trf_real *to,
                           int64_t count)
{
    size_t bytes = (size_t)((t->last - t->offset + 1) * t->bytes);
    unsigned char *between = malloc(bytes);
    int64_t place[TORCH_RANK] = {0}, at = 0, i;
    int k, status = DONE;
    if (!between)
        return refuse("%s: tensor '%s': no memory for %zu bytes", f->path, t->name, bytes);
    status = read_bytes(f, t, between, bytes);
    for (i = 0; !status && i < count; i++) {
        status = take_number(f, t, between + at * t->bytes, i, to + i);
        for (k = t->rank - 1; k >= 0; k--) {            /* the next place */
            at += t->stride[k];
            if (++place[k] < t->shape[k]) break;
            at -= t->stride[k] * place[k];
            place[k] = 0;
        }
    }
    free(between);
    return status;
}

int read_pytorch(struct pytorch *f, int32_t index, trf_real *to, int64_t count)
{
    const struct torch_tensor *t = &f->tensors[index];
    int status;
    if (*t->dtype != 'F' && strcmp(t->dtype, "BF16"))
        return refuse("%s: tensor '%s': expected F32, F64, F16 or BF16, got %s", f->path, t->name,
                      t->dtype);
    if (count == 0) return DONE;
    status = enter(f, t, (uint64_t)t->offset * (uint64_t)t->bytes) ||
             (is_contiguous(t) ? read_in_order : read_by_strides)(f, t, to, count) || leave(f, t);
#ifdef TRF_WITH_LIBZIP
    close_entry(f);
#endif
    return status ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>file           opening, closing, names
// -----------------------------------------------------------------------------------------------

int open_pytorch(struct pytorch **out, const char *path)
{
    struct pytorch *f = zeroed(1, sizeof *f);
    unsigned char first[32] = {0};
    int status = FAILED;
    size_t i, n;
    *out = f;
    f->path = format_text("%s", path);
    f->file = fopen(path, "rb");
    if (!f->file) { say("%s: %s", path, strerror(errno)); return FAILED; }
    n = fread(first, 1, sizeof first, f->file);
    if (check_pointer(path, first, n)) return FAILED;
    if (n >= 4 && !memcmp(first, "PK\3\4", 4)) status = open_zip(f);
    else if (first[0] == 0x80) status = open_pickles(f);
    else if (ftello(f->file) == 0)
        say("%s: expected a file of PyTorch's torch.save, got an empty file", path);
    else say("%s: expected a file of PyTorch's torch.save, which begins with PK (a zip file) or "
             "0x80 (a pickle), got 0x%02X", path, first[0]);
    if (status) return status;
    qsort(f->tensors, f->n, sizeof *f->tensors, by_name);
    for (i = 1; i < f->n; i++)
        if (!by_name(&f->tensors[i - 1], &f->tensors[i]))
            return refuse("%s: expected every name once, got tensor '%s' twice", path,
                          f->tensors[i].name);
    return DONE;
}

void close_pytorch(struct pytorch *f)
{
    size_t i;
    if (!f) return;
#ifdef TRF_WITH_LIBZIP
    if (f->zip) zip_discard(f->zip);
#endif
    if (f->file) fclose(f->file);
    for (i = 0; i < f->n; i++) {
        free(f->tensors[i].name);
        free(f->tensors[i].key);
    }
    free(f->tensors);
    free(f->path);
    free(f);
}

int32_t count_pytorch(const struct pytorch *f) { return (int32_t)f->n; }

trf_file_entry pytorch_at(const struct pytorch *f, int32_t index)
{
    const struct torch_tensor *t = &f->tensors[index];
    trf_file_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.name = t->name;
    entry.dtype = t->dtype;
    entry.rank = t->rank;
    memcpy(entry.shape, t->shape, sizeof entry.shape);
    return entry;
}

int32_t find_pytorch(const struct pytorch *f, const char *name)
{
    struct torch_tensor wanted, *found;
    memset(&wanted, 0, sizeof wanted);
    wanted.name = (char *)(uintptr_t)name;
    found = bsearch(&wanted, f->tensors, f->n, sizeof *f->tensors, by_name);
    return found ? (int32_t)(found - f->tensors) : -1;
}
