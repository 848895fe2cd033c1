// trf import: reads what a pickle of PyTorch says about tensors.
//
// A pickle is a program for a machine with a stack. This machine runs none of its calls: it knows
// the opcodes that torch.save writes for a dictionary of tensors, and makes values of the kinds
// below. Everything else is refused with its byte. Values refer to others by numbers, and nothing
// here walks from value to value, so a value may contain itself and depth costs nothing. Each
// opcode makes at most one value: memory grows with the bytes that have been read, and MOST_BYTES
// limits these.

#include "import.h"

#include <stdarg.h>

enum { MOST_BYTES = 16 << 20 };         /* of a pickle; a tensor takes about 200 */

enum value_kind {
    IS_NOTHING, IS_TRUTH, IS_NUMBER, IS_LARGE, IS_TEXT, IS_GLOBAL, IS_TUPLE, IS_LIST, IS_DICT,
    IS_STORAGE, IS_TENSOR
};
static const char *const kinds[] = {"None", "a truth value", "a number", "a large number", "a text",
                                    "a name of Python", "a tuple", "a list", "a dictionary",
                                    "a storage", "a tensor"};

/* IS_TEXT, IS_LARGE: n bytes of the pickle from `first` on. IS_TUPLE, IS_LIST, IS_DICT: n items in
   a chain of cells from `first` to `last`; those of a dictionary are key, value, key, value, ...
   IS_STORAGE: the text of its key. */
struct value {
    uint8_t kind, row;              /* row: of `globals`, of IS_GLOBAL and IS_STORAGE */
    uint32_t first, last, n;
    int64_t number;                 /* IS_STORAGE: its numbers; IS_TENSOR: where it is in `built` */
};
struct cell { uint32_t value, next; };

// -----------------------------------------------------------------------------------------------
// >>globals        the names of Python that a state_dict has
// -----------------------------------------------------------------------------------------------

enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, FIRST_STORAGE };
static const struct { const char *module, *name, *dtype; int bytes; } globals[] = {
    {"collections", "OrderedDict", NULL, 0},
    {"torch._utils", "_rebuild_tensor_v2", NULL, 0},
    {"torch._utils", "_rebuild_parameter", NULL, 0},
    {"torch", "FloatStorage", "F32", 4}, {"torch", "HalfStorage", "F16", 2},
    {"torch", "BFloat16Storage", "BF16", 2}, {"torch", "DoubleStorage", "F64", 8},
    {"torch", "LongStorage", "I64", 8}, {"torch", "IntStorage", "I32", 4},
    {"torch", "ShortStorage", "I16", 2}, {"torch", "CharStorage", "I8", 1},
    {"torch", "ByteStorage", "U8", 1}, {"torch", "BoolStorage", "BOOL", 1}};

// -----------------------------------------------------------------------------------------------
// >>bytes          the pickle's bytes, and messages about them
// -----------------------------------------------------------------------------------------------

static int __attribute__((format(printf, 3, 4)))
wrong(const struct pickle *p, size_t at, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return refuse("%s, byte %zu: %s", p->where, at, text);
}

/* The next n bytes; NULL after a message: there are no more. */
static const unsigned char *take(struct pickle *p, size_t n)
{
    size_t at = p->at;
    if (n > MOST_BYTES - at) {
        wrong(p, at, "expected a pickle of at most %d bytes", (int)MOST_BYTES);
        return NULL;
    }
    while (p->n < at + n) {
        size_t wanted = at + n - p->n;
        int64_t got;
        if (wanted < 65536) wanted = 65536;
        p->bytes = grow(p->bytes, &p->capacity, p->n + wanted, 1);
        got = p->more(p->from, p->bytes + p->n, wanted);
        if (got <= 0) {
            if (got == 0)
                wrong(p, p->n, "expected %zu bytes more of a pickle, got the end", at + n - p->n);
            return NULL;
        }
        p->n += (size_t)got;
    }
    p->at += n;
    return p->bytes + at;
}

/* A number of n bytes, the lowest first. Returns FAILED after a message. */
static int take_number(struct pickle *p, int n, uint64_t *to)
{
    const unsigned char *bytes = take(p, (size_t)n);
    *to = 0;
    if (!bytes) return FAILED;
    while (n-- > 0) *to = *to << 8 | bytes[n];
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>stack          values, the stack, its marks
// -----------------------------------------------------------------------------------------------

static uint32_t new_value(struct pickle *p, enum value_kind kind)
{
    struct value *value;
    p->values = grow(p->values, &p->values_capacity, p->n_values + 1, sizeof *p->values);
    value = &p->values[p->n_values];
    memset(value, 0, sizeof *value);
    value->kind = (uint8_t)kind;
    return (uint32_t)p->n_values++;
}

static void push(struct pickle *p, uint32_t value)
{
    p->stack = grow(p->stack, &p->stack_capacity, p->n_stack + 1, sizeof *p->stack);
    p->stack[p->n_stack++] = value;
}

static struct value *push_new(struct pickle *p, enum value_kind kind)
{
    uint32_t value = new_value(p, kind);
    push(p, value);
    return &p->values[value];
}

/* What lies on the stack above its last mark. */
static size_t above_mark(const struct pickle *p)
{
    return p->n_stack - (p->n_marks ? p->marks[p->n_marks - 1] : 0);
}

/* The value `down` places below the top. It must have that kind; NULL after a message. */
static struct value *top(struct pickle *p, size_t down, enum value_kind kind)
{
    struct value *value;
    if (above_mark(p) <= down) {
        wrong(p, p->opcode_at, "%s: expected %s on the stack, which has too few values", p->opcode,
              kinds[kind]);
        return NULL;
    }
    value = &p->values[p->stack[p->n_stack - 1 - down]];
    if (value->kind == kind) return value;
    wrong(p, p->opcode_at, "%s: expected %s, got %s", p->opcode, kinds[kind], kinds[value->kind]);
    return NULL;
}

/* Ends a group of values that began with MARK. Returns their number, or SIZE_MAX after a
   message. */
static size_t end_group(struct pickle *p)
{
    size_t n = above_mark(p);
    if (p->n_marks == 0) {
        wrong(p, p->opcode_at, "%s: expected a MARK before it", p->opcode);
        return SIZE_MAX;
    }
    p->n_marks--;
    return n;
}

/* Moves the n values on top of the stack into a container. */
static void put_items(struct pickle *p, uint32_t container, size_t n)
{
    struct value *to = &p->values[container];
    size_t i;
    for (i = 0; i < n; i++) {
        uint32_t cell = (uint32_t)p->n_cells;
        p->cells = grow(p->cells, &p->cells_capacity, p->n_cells + 1, sizeof *p->cells);
        p->cells[p->n_cells++].value = p->stack[p->n_stack - n + i];
        if (to->n++) p->cells[to->last].next = cell;
        else to->first = cell;
        to->last = cell;
    }
    p->n_stack -= n;
}

/* The items of a short container. Returns whether it has least .. most items. */
static int get_items(const struct pickle *p, const struct value *of, uint32_t least, uint32_t most,
                     struct value *items[])
{
    uint32_t cell = of->first, i;
    if (of->n < least || of->n > most) return 0;
    for (i = 0; i < of->n; i++, cell = p->cells[cell].next)
        items[i] = &p->values[p->cells[cell].value];
    return 1;
}

static int text_is(const struct pickle *p, const struct value *value, const char *text)
{
    return value->kind == IS_TEXT && value->n == strlen(text) &&
           !memcmp(p->bytes + value->first, text, value->n);
}

// -----------------------------------------------------------------------------------------------
// >>opcodes        what each opcode does; a row of the table names the function
// -----------------------------------------------------------------------------------------------

static int run_start(struct pickle *p, int opcode)
{
    uint64_t n;
    if (take_number(p, opcode == 0x80 ? 1 : 8, &n)) return FAILED;
    if (opcode == 0x80 && (n < 2 || n > 5))
        return wrong(p, p->opcode_at, "expected protocol 2 to 5, got %d", (int)n);
    return DONE;                /* the length of a FRAME only helps to read ahead */
}

static int run_stop(struct pickle *p, int opcode)
{
    (void)opcode;
    p->stopped = 1;
    if (p->n_stack == 1 && p->n_marks == 0) return DONE;
    return wrong(p, p->opcode_at, "STOP: expected one value on the stack, got %zu", p->n_stack);
}

static int run_mark(struct pickle *p, int opcode)
{
    (void)opcode;
    p->marks = grow(p->marks, &p->marks_capacity, p->n_marks + 1, sizeof *p->marks);
    p->marks[p->n_marks++] = p->n_stack;
    return DONE;
}

static int run_constant(struct pickle *p, int opcode)
{
    struct value *value = push_new(p, opcode == 'N'   ? IS_NOTHING
                                      : opcode == '}' ? IS_DICT
                                      : opcode == ')' ? IS_TUPLE
                                      : opcode == ']' ? IS_LIST
                                                      : IS_TRUTH);
    value->number = opcode == 0x88;
    return DONE;
}

/* BININT, BININT1, BININT2, LONG1. */
static int run_number(struct pickle *p, int opcode)
{
    uint64_t n = opcode == 'J' ? 4 : opcode == 'M' ? 2 : 1, x;
    struct value *value;
    if (take_number(p, (int)n, &x)) return FAILED;
    if (opcode != 0x8A) {
        value = push_new(p, IS_NUMBER);
        value->number = opcode == 'J' ? (int64_t)(int32_t)(uint32_t)x : (int64_t)x;
        return DONE;
    }
    n = x;
    if (n > 8) {
        if (!take(p, (size_t)n)) return FAILED;
        value = push_new(p, IS_LARGE);
        value->first = (uint32_t)(p->at - n);
        value->n = (uint32_t)n;
        return DONE;
    }
    if (take_number(p, (int)n, &x)) return FAILED;
    if (n && n < 8 && x >> (8 * n - 1)) x |= ~(uint64_t)0 << 8 * n;
    value = push_new(p, IS_NUMBER);
    memcpy(&value->number, &x, sizeof x);
    return DONE;
}

static int run_text(struct pickle *p, int opcode)
{
    uint64_t n;
    struct value *value;
    if (take_number(p, opcode == 'X' ? 4 : 1, &n) || !take(p, (size_t)n)) return FAILED;
    value = push_new(p, IS_TEXT);
    value->first = (uint32_t)(p->at - n);
    value->n = (uint32_t)n;
    return DONE;
}

/* BINPUT, LONG_BINPUT, MEMOIZE. A writer numbers its notes one after another, so a number that is
   larger than the number of bytes is damage. */
static int run_put(struct pickle *p, int opcode)
{
    uint64_t place = p->n_memo;
    if (opcode != 0x94 && take_number(p, opcode == 'q' ? 1 : 4, &place)) return FAILED;
    if (above_mark(p) == 0)
        return wrong(p, p->opcode_at, "%s: expected a value on the stack", p->opcode);
    if (place > p->at)
        return wrong(p, p->opcode_at, "%s: expected a note of at most %zu, got %llu", p->opcode,
                     p->at, (unsigned long long)place);
    p->memo = grow(p->memo, &p->memo_capacity, (size_t)place + 1, sizeof *p->memo);
    while (p->n_memo <= place) p->memo[p->n_memo++] = UINT32_MAX;
    p->memo[place] = p->stack[p->n_stack - 1];
    return DONE;
}

static int run_get(struct pickle *p, int opcode)
{
    uint64_t place;
    if (take_number(p, opcode == 'h' ? 1 : 4, &place)) return FAILED;
    if (place >= p->n_memo || p->memo[place] == UINT32_MAX)
        return wrong(p, p->opcode_at, "%s: nothing has been noted as %llu", p->opcode,
                     (unsigned long long)place);
    push(p, p->memo[place]);
    return DONE;
}

static int run_tuple(struct pickle *p, int opcode)
{
    size_t n = opcode == 't' ? end_group(p) : (size_t)(opcode - 0x84);
    uint32_t made;
    if (n == SIZE_MAX) return FAILED;
    if (opcode != 't' && above_mark(p) < n)
        return wrong(p, p->opcode_at, "%s: expected %zu values on the stack, got %zu", p->opcode, n,
                     above_mark(p));
    made = new_value(p, IS_TUPLE);
    put_items(p, made, n);
    push(p, made);
    return DONE;
}

/* SETITEM, SETITEMS, APPEND, APPENDS. */
static int run_fill(struct pickle *p, int opcode)
{
    int dict = opcode == 's' || opcode == 'u';
    size_t n = opcode == 's' ? 2 : opcode == 'a' ? 1 : end_group(p);
    if (n == SIZE_MAX) return FAILED;
    if (dict && n % 2)
        return wrong(p, p->opcode_at, "%s: expected keys with values, got %zu of both", p->opcode,
                     n);
    if (!top(p, n, dict ? IS_DICT : IS_LIST)) return FAILED;
    put_items(p, p->stack[p->n_stack - 1 - n], n);
    return DONE;
}

static int push_global(struct pickle *p, const char *module, size_t module_bytes, const char *name,
                       size_t name_bytes)
{
    size_t i;
    for (i = 0; i < sizeof globals / sizeof *globals; i++)
        if (strlen(globals[i].module) == module_bytes && strlen(globals[i].name) == name_bytes &&
            !memcmp(globals[i].module, module, module_bytes) &&
            !memcmp(globals[i].name, name, name_bytes)) {
            push_new(p, IS_GLOBAL)->row = (uint8_t)i;
            return DONE;
        }
    return wrong(p, p->opcode_at,
                 "%s '%.*s %.*s': expected what a dictionary of tensors needs (OrderedDict, "
                 "_rebuild_tensor_v2, FloatStorage ...); trf runs no code of a file", p->opcode,
                 (int)(module_bytes < 100 ? module_bytes : 100), module,
                 (int)(name_bytes < 100 ? name_bytes : 100), name);
}

/* GLOBAL: two lines follow. STACK_GLOBAL: two texts are on the stack. */
static int run_global(struct pickle *p, int opcode)
{
    size_t begin[2], n[2];
    int i;
    for (i = 0; i < 2 && opcode == 'c'; i++) {
        const unsigned char *byte;
        begin[i] = p->at;
        do if (!(byte = take(p, 1))) return FAILED; while (*byte != '\n');
        n[i] = p->at - 1 - begin[i];
    }
    for (i = 0; i < 2 && opcode != 'c'; i++) {
        const struct value *value = top(p, (size_t)(1 - i), IS_TEXT);
        if (!value) return FAILED;
        begin[i] = value->first;
        n[i] = value->n;
    }
    if (opcode != 'c') p->n_stack -= 2;
    return push_global(p, (const char *)p->bytes + begin[0], n[0],
                       (const char *)p->bytes + begin[1], n[1]);
}

/* BINPERSID: ("storage", type, key, device, numbers), and None in files before torch 1.6. */
static int run_storage(struct pickle *p, int opcode)
{
    struct value *tuple = top(p, 0, IS_TUPLE), *item[6];
    (void)opcode;
    if (!tuple) return FAILED;
    if (!get_items(p, tuple, 5, 6, item) || !text_is(p, item[0], "storage") ||
        item[1]->kind != IS_GLOBAL || item[1]->row < FIRST_STORAGE || item[2]->kind != IS_TEXT ||
        item[3]->kind != IS_TEXT || item[4]->kind != IS_NUMBER || item[4]->number < 0 ||
        (tuple->n == 6 && item[5]->kind != IS_NOTHING))
        return wrong(p, p->opcode_at, "BINPERSID: expected ('storage', type, key, device, "
                     "numbers)");
    p->n_stack--;
    {
        struct value made = *item[2];
        made.kind = IS_STORAGE;
        made.row = item[1]->row;
        made.number = item[4]->number;
        *push_new(p, IS_STORAGE) = made;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>calls          REDUCE and BUILD: three calls are known, and computed here
// -----------------------------------------------------------------------------------------------

/* Shape and strides of a tensor, which must lie inside its storage. */
static int measure_tensor(struct pickle *p, struct torch_tensor *t, const struct value *sizes,
                          const struct value *strides)
{
    struct value *size[TORCH_RANK], *stride[TORCH_RANK];
    int64_t last = t->offset, most = (int64_t)1 << 60;
    int i;
    if (sizes->n != strides->n || !get_items(p, sizes, 0, TORCH_RANK, size) ||
        !get_items(p, strides, 0, TORCH_RANK, stride))
        return wrong(p, p->opcode_at, "expected 0 to %d sizes and as many strides, got %u and %u",
                     (int)TORCH_RANK, (unsigned)sizes->n, (unsigned)strides->n);
    t->rank = (int)sizes->n;
    t->count = 1;
    for (i = 0; i < t->rank; i++) {
        if (size[i]->kind != IS_NUMBER || size[i]->number < 0 || stride[i]->kind != IS_NUMBER ||
            stride[i]->number < 0)
            return wrong(p, p->opcode_at, "expected sizes and strides of 0 or more");
        t->shape[i] = size[i]->number;
        t->stride[i] = stride[i]->number;
        if (t->shape[i] == 0) most = t->count = 0;
    }
    for (i = 0; i < t->rank && most; i++) {
        if (t->shape[i] > most / t->count)
            return wrong(p, p->opcode_at, "expected a tensor of at most 2^60 numbers");
        t->count *= t->shape[i];
        if (t->shape[i] > 1 && t->stride[i] > t->numbers / (t->shape[i] - 1)) last = t->numbers;
        else last += (t->shape[i] - 1) * t->stride[i];
        if (last >= t->numbers) break;
    }
    if (t->count && (t->offset < 0 || last < 0 || last >= t->numbers))
        return wrong(p, p->opcode_at, "a tensor goes beyond its storage of %lld numbers",
                     (long long)t->numbers);
    t->last = last;
    return DONE;
}

/* _rebuild_tensor_v2(storage, offset, sizes, strides, gradient, hooks, metadata). */
static int rebuild_tensor(struct pickle *p, const struct value *tuple, uint32_t *made)
{
    static const uint8_t expected[6] = {IS_STORAGE, IS_NUMBER, IS_TUPLE, IS_TUPLE, IS_TRUTH,
                                        IS_DICT};
    struct value *item[7];
    struct torch_tensor t;
    int i, bad = !get_items(p, tuple, 6, 7, item);
    for (i = 0; i < 6 && !bad; i++) bad = item[i]->kind != expected[i];
    if (bad || (tuple->n == 7 && item[6]->kind != IS_NOTHING && item[6]->kind != IS_DICT))
        return wrong(p, p->opcode_at, "_rebuild_tensor_v2: expected (storage, offset, sizes, "
                     "strides, gradient, hooks)");
    memset(&t, 0, sizeof t);
    t.dtype = globals[item[0]->row].dtype;
    t.bytes = globals[item[0]->row].bytes;
    t.numbers = item[0]->number;
    t.key_at = item[0]->first;
    t.key_bytes = item[0]->n;
    t.offset = item[1]->number;
    if (t.numbers > (int64_t)1 << 56 || t.offset < 0 || t.offset > t.numbers)
        return wrong(p, p->opcode_at, "expected an offset inside a storage of at most 2^56 "
                     "numbers");
    if (tuple->n == 7 && item[6]->kind == IS_DICT && item[6]->n)
        return wrong(p, p->opcode_at, "_rebuild_tensor_v2: expected no metadata of a tensor, such "
                     "as a negated or conjugated view has: save its numbers by .clone()");
    if (measure_tensor(p, &t, item[2], item[3])) return FAILED;
    p->built = grow(p->built, &p->built_capacity, p->n_built + 1, sizeof *p->built);
    p->built[p->n_built] = t;
    *made = new_value(p, IS_TENSOR);
    p->values[*made].number = (int64_t)p->n_built++;
    return DONE;
}

static int run_reduce(struct pickle *p, int opcode)
{
    const struct value *tuple = top(p, 0, IS_TUPLE), *called = tuple ? top(p, 1, IS_GLOBAL) : NULL;
    struct value *item[3];
    uint32_t made;
    (void)opcode;
    if (!called) return FAILED;
    switch (called->row) {
    case ORDERED_DICT:
        if (tuple->n) return wrong(p, p->opcode_at, "OrderedDict: expected no arguments");
        made = new_value(p, IS_DICT);
        break;
    case REBUILD_TENSOR:
        if (rebuild_tensor(p, tuple, &made)) return FAILED;
        break;
    case REBUILD_PARAMETER:         /* (tensor, gradient, hooks): the tensor */
        if (!get_items(p, tuple, 3, 3, item) || item[0]->kind != IS_TENSOR)
            return wrong(p, p->opcode_at, "_rebuild_parameter: expected (tensor, gradient, "
                         "hooks)");
        made = (uint32_t)(item[0] - p->values);
        break;
    default: return wrong(p, p->opcode_at, "REDUCE: expected a function, got a type of storage");
    }
    p->n_stack -= 2;
    push(p, made);
    return DONE;
}

/* The attributes of a dictionary, such as _metadata: left out. */
static int run_build(struct pickle *p, int opcode)
{
    (void)opcode;
    if (!top(p, 0, IS_DICT) || !top(p, 1, IS_DICT)) return FAILED;
    p->n_stack--;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>run            the machine
// -----------------------------------------------------------------------------------------------

/* All opcodes of Python; those without a function are refused. */
static const struct { int code; const char *name; int (*run)(struct pickle *, int); } opcodes[] = {
    {0x80, "PROTO", run_start}, {0x95, "FRAME", run_start}, {'.', "STOP", run_stop},
    {'(', "MARK", run_mark}, {'N', "NONE", run_constant}, {0x88, "NEWTRUE", run_constant},
    {0x89, "NEWFALSE", run_constant}, {'}', "EMPTY_DICT", run_constant},
    {')', "EMPTY_TUPLE", run_constant}, {']', "EMPTY_LIST", run_constant},
    {'J', "BININT", run_number}, {'K', "BININT1", run_number}, {'M', "BININT2", run_number},
    {0x8A, "LONG1", run_number}, {'X', "BINUNICODE", run_text},
    {0x8C, "SHORT_BINUNICODE", run_text}, {'q', "BINPUT", run_put}, {'r', "LONG_BINPUT", run_put},
    {0x94, "MEMOIZE", run_put}, {'h', "BINGET", run_get}, {'j', "LONG_BINGET", run_get},
    {'t', "TUPLE", run_tuple}, {0x85, "TUPLE1", run_tuple}, {0x86, "TUPLE2", run_tuple},
    {0x87, "TUPLE3", run_tuple}, {'s', "SETITEM", run_fill}, {'u', "SETITEMS", run_fill},
    {'a', "APPEND", run_fill}, {'e', "APPENDS", run_fill}, {'c', "GLOBAL", run_global},
    {0x93, "STACK_GLOBAL", run_global}, {'Q', "BINPERSID", run_storage},
    {'R', "REDUCE", run_reduce}, {'b', "BUILD", run_build}, {'0', "POP", NULL},
    {'1', "POP_MARK", NULL}, {'2', "DUP", NULL}, {'F', "FLOAT", NULL}, {'I', "INT", NULL},
    {'L', "LONG", NULL}, {'P', "PERSID", NULL}, {'S', "STRING", NULL}, {'T', "BINSTRING", NULL},
    {'U', "SHORT_BINSTRING", NULL}, {'V', "UNICODE", NULL}, {'d', "DICT", NULL},
    {'l', "LIST", NULL}, {'g', "GET", NULL}, {'p', "PUT", NULL}, {'i', "INST", NULL},
    {'o', "OBJ", NULL}, {'G', "BINFLOAT", NULL}, {'B', "BINBYTES", NULL},
    {'C', "SHORT_BINBYTES", NULL}, {0x81, "NEWOBJ", NULL}, {0x82, "EXT1", NULL},
    {0x83, "EXT2", NULL}, {0x84, "EXT4", NULL}, {0x8B, "LONG4", NULL}, {0x8D, "BINUNICODE8", NULL},
    {0x8E, "BINBYTES8", NULL}, {0x8F, "EMPTY_SET", NULL}, {0x90, "ADDITEMS", NULL},
    {0x91, "FROZENSET", NULL}, {0x92, "NEWOBJ_EX", NULL}, {0x96, "BYTEARRAY8", NULL},
    {0x97, "NEXT_BUFFER", NULL}, {0x98, "READONLY_BUFFER", NULL}};

int run_pickle(struct pickle *p)
{
    p->n_stack = p->n_marks = p->n_memo = 0;
    p->stopped = 0;
    while (!p->stopped) {
        const unsigned char *code;
        size_t i, n = sizeof opcodes / sizeof *opcodes;
        p->opcode_at = p->at;
        if (!(code = take(p, 1))) return FAILED;
        for (i = 0; i < n && opcodes[i].code != *code; i++) { }
        if (i == n)
            return wrong(p, p->opcode_at, "expected an opcode of a pickle, got 0x%02X", *code);
        p->opcode = opcodes[i].name;
        if (!opcodes[i].run)
            return wrong(p, p->opcode_at, "%s: a dictionary of tensors has no such opcode",
                         p->opcode);
        if (opcodes[i].run(p, *code)) return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>results        what the value that is left on the stack means
// -----------------------------------------------------------------------------------------------

static const struct value *result(const struct pickle *p) { return &p->values[p->stack[0]]; }

int pickle_is_number(const struct pickle *p, int64_t x)
{
    return result(p)->kind == IS_NUMBER && result(p)->number == x;
}

int pickle_is_large(const struct pickle *p, const void *bytes, size_t n)
{
    const struct value *value = result(p);
    return value->kind == IS_LARGE && value->n == n && !memcmp(p->bytes + value->first, bytes, n);
}

/* A copy of bytes of the pickle as a name of something. NULL after a message. */
static char *name_from(const struct pickle *p, size_t at, size_t n, const char *what)
{
    const char *bytes = (const char *)p->bytes + at;
    if (n > 0 && n < MOST_NAME && !memchr(bytes, 0, n) && trf_find_invalid_utf8(bytes, n) < 0)
        return format_text("%.*s", (int)n, bytes);
    wrong(p, at, "expected %s of 1 to %d bytes of UTF-8, got %zu bytes", what, MOST_NAME - 1, n);
    return NULL;
}

int pickle_tensors(struct pickle *p, struct torch_tensor **tensors, size_t *n)
{
    const struct value *dict = result(p);
    uint32_t cell = dict->first, i;
    *n = 0;
    if (dict->kind != IS_DICT)
        return wrong(p, p->opcode_at, "expected a dictionary of tensors, got %s",
                     kinds[dict->kind]);
    *tensors = zeroed(dict->n / 2, sizeof **tensors);
    for (i = 0; i < dict->n; i += 2) {
        const struct value *key = &p->values[p->cells[cell].value], *value;
        struct torch_tensor *t = &(*tensors)[*n];
        cell = p->cells[cell].next;
        value = &p->values[p->cells[cell].value];
        cell = p->cells[cell].next;
        if (key->kind != IS_TEXT)
            return wrong(p, p->opcode_at, "expected names of tensors as keys, got %s",
                         kinds[key->kind]);
        if (value->kind != IS_TENSOR)
            return wrong(p, key->first, "expected a tensor as the value of '%.*s', got %s",
                         (int)(key->n < 100 ? key->n : 100), p->bytes + key->first,
                         kinds[value->kind]);
        *t = p->built[value->number];
        ++*n;
        if (!(t->name = name_from(p, key->first, key->n, "a name")) ||
            !(t->key = name_from(p, t->key_at, t->key_bytes, "a key of a storage"))) return FAILED;
    }
    return DONE;
}

int pickle_storages(struct pickle *p, struct torch_storage **storages, size_t *n)
{
    size_t i;
    *n = 0;
    for (i = 0; i < p->n_values; i++) *n += p->values[i].kind == IS_STORAGE;
    *storages = zeroed(*n, sizeof **storages);
    for (i = *n = 0; i < p->n_values; i++) {
        const struct value *value = &p->values[i];
        struct torch_storage *to = &(*storages)[*n];
        if (value->kind != IS_STORAGE) continue;
        if (!(to->key = name_from(p, value->first, value->n, "a key of a storage"))) return FAILED;
        to->bytes = globals[value->row].bytes;
        to->numbers = value->number;
        ++*n;
    }
    return DONE;
}

int pickle_texts(struct pickle *p, char ***texts, size_t *n)
{
    const struct value *list = result(p);
    uint32_t cell = list->first, i;
    *n = 0;
    if (list->kind != IS_LIST)
        return wrong(p, p->opcode_at, "expected a list of keys, got %s", kinds[list->kind]);
    *texts = zeroed(list->n, sizeof **texts);
    for (i = 0; i < list->n; i++, cell = p->cells[cell].next) {
        const struct value *value = &p->values[p->cells[cell].value];
        if (value->kind != IS_TEXT)
            return wrong(p, p->opcode_at, "expected keys of storages, got %s", kinds[value->kind]);
        if (!((*texts)[i] = name_from(p, value->first, value->n, "a key of a storage")))
            return FAILED;
        ++*n;
    }
    return DONE;
}

void free_pickle(struct pickle *p)
{
    free(p->bytes);
    free(p->values);
    free(p->cells);
    free(p->stack);
    free(p->memo);
    free(p->marks);
    free(p->built);
}
