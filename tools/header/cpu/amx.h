#pragma once
#include "base/impl.h"

// >>amx            instructions of particular processors; tiles
//
// Products of 8 and of 16 bits use instructions by name, because compilers do not find them. (GCC
// does not find maxima and minima either: TRF__MAX.) A kernel with such instructions is compiled
// for its own instruction set, whatever the options of the rest are.
//
// A kernel keeps its sums in registers. A macro makes a function for each number of rows and
// panels, because clang 14 keeps sums in memory if a function has these numbers as parameters.
//
// AMX has eight tiles, which are registers of sixteen rows of 64 bytes. One instruction computes
//
//   C (16, 16) += A (16, 64 bytes) B (64 bytes, 16)
//
// where 64 bytes are 32 numbers of 16 bits or 64 of 8 bits. A panel of such numbers is a row of
// tiles of B already, of 1 KB each. A tile of A is 64 bytes of each of sixteen rows.
//
// Linux must permit a process to use tiles. An object with small weights or with BF16X3 asks when
// it is made (trf__cpu.tiles, bf16x3). From then on the frame of a signal takes 11 KB, and the
// kernel refuses smaller alternate stacks (sigaltstack). TRF_NO_AMX leaves all of this out.

/* C (rows, 16 * panels) = first + A B, with sums of 32 bits. Steps are bytes. */
typedef struct trf__tile_call {
    char *c;
    size_t c_row;                           /* panels of C are 64 bytes apart */
    const char *first;
    size_t first_row, first_panel;
    const char *a;
    size_t a_row, a_step;                   /* between rows, and between 64 bytes of a row */
    const char *b;
    size_t b_panel;
    int64_t steps;                          /* 64 bytes of a row of A */
} trf__tile_call;

#undef TRF__TILES               /* as below: what depends on the level (>>levels) */
#if TRF__X86 && TRF__WIDEST == 64 && defined(__linux__) && !defined(__ILP32__) && \
    !defined(TRF_NO_AMX) && (defined(__clang__) || __GNUC__ >= 11)
#define TRF__TILES 1
#include <cpuid.h>
#define TRF__AMX TRF__TARGET("amx-tile,amx-int8,amx-bf16")

/* A test emulates the instructions. */
#if !defined(TRF__AMX_LOAD)
#define TRF__AMX_SHAPE(shape) _tile_loadconfig(shape)
#define TRF__AMX_RELEASE() _tile_release()
#define TRF__AMX_LOAD(tile, from, step) _tile_loadd(tile, from, step)
#define TRF__AMX_STORE(tile, to, step) _tile_stored(tile, to, step)
#define TRF__AMX_INT8(c, a, b) _tile_dpbusd(c, a, b)
#define TRF__AMX_BF16(c, a, b) _tile_dpbf16ps(c, a, b)
#define TRF__HAS_AMX(ask) trf__linux_has_amx(ask)
#endif

/* Whether the processor has tiles for both formats, the system saves them (XCR0), and Linux knows
   them (arch_prctl, number 158: ARCH_GET_XCOMP_SUPP has component 18). ask 1: also requests
   permission for this process (ARCH_REQ_XCOMP_PERM). */
TRF__FN int trf__linux_has_amx(int ask)
{
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;    /* BF16, TILE, INT8 */
    unsigned a, b, c, d, low;
    uint64_t known = 0;
    long refused, what = ask ? 0x1023L : 0x1021L, which = ask ? 18L : (long)(intptr_t)&known;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;           /* OSXSAVE */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return 0;
    __asm__ volatile("xgetbv" : "=a"(low) : "c"(0) : "rdx");
    if ((low >> 17 & 3) != 3) return 0;
    __asm__ volatile("syscall" : "=a"(refused) : "a"(158L), "D"(what), "S"(which)
                     : "rcx", "r11", "memory");
    return refused == 0 && (ask || (known >> 18 & 1));
}

/* Gives all eight tiles sixteen rows of 64 bytes. Tiles belong to a thread. */
TRF__AMX static TRF__UNUSED void trf__amx_begin(void)
{
    struct { uint8_t palette, start, unused[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape;
    memset(&shape, 0, sizeof shape);
    shape.palette = 1;
    for (int i = 0; i < 8; i++) { shape.bytes[i] = 64; shape.rows[i] = 16; }
    /* GCC does not know that tiles are loaded from memory: all of it must be written by now */
    __asm__ volatile("" : : "r"(&shape) : "memory");
    TRF__AMX_SHAPE(&shape);
}

/* Tiles in use cost 8 KB at each switch of threads. */
TRF__AMX static TRF__UNUSED void trf__amx_end(void) { TRF__AMX_RELEASE(); }

/* For each format: 32 rows with one or two panels, sixteen rows with one or four, and all panels of
   up to 32 rows. Whole tiles are read and written: a multiple of sixteen rows. Four sums at a time
   hide how long an instruction takes. */
#define TRF__AMX_PRODUCT(NAME, DOT) \
TRF__AMX static TRF__UNUSED void TRF__NAMED(NAME##_32)(const trf__tile_call *x, int two) \
{ \
    const char *a = x->a, *b = x->b, *first = x->first; \
    const size_t below = 16 * x->first_row, c_below = 16 * x->c_row; \
    int64_t t; \
    TRF__AMX_LOAD(0, first, x->first_row); \
    TRF__AMX_LOAD(2, first + below, x->first_row); \
    if (two) { \
        TRF__AMX_LOAD(1, first + x->first_panel, x->first_row); \
        TRF__AMX_LOAD(3, first + x->first_panel + below, x->first_row); \
    } \
    for (t = 0; t < x->steps; t++, a += x->a_step, b += 1024) { \
        TRF__AMX_LOAD(4, a, x->a_row); \
        TRF__AMX_LOAD(5, a + 16 * x->a_row, x->a_row); \
        TRF__AMX_LOAD(6, b, 64); \
        DOT(0, 4, 6); \
        DOT(2, 5, 6); \
        if (!two) continue; \
        TRF__AMX_LOAD(7, b + x->b_panel, 64); \
        DOT(1, 4, 7); \
        DOT(3, 5, 7); \
    } \
    TRF__AMX_STORE(0, x->c, x->c_row); \
    TRF__AMX_STORE(2, x->c + c_below, x->c_row); \
    if (!two) return; \
    TRF__AMX_STORE(1, x->c + 64, x->c_row); \
    TRF__AMX_STORE(3, x->c + c_below + 64, x->c_row); \
} \
TRF__AMX static TRF__UNUSED void TRF__NAMED(NAME##_16)(const trf__tile_call *x, int four) \
{ \
    const char *a = x->a, *b = x->b, *first = x->first; \
    int64_t t; \
    TRF__AMX_LOAD(0, first, x->first_row); \
    if (four) { \
        TRF__AMX_LOAD(1, first + x->first_panel, x->first_row); \
        TRF__AMX_LOAD(2, first + 2 * x->first_panel, x->first_row); \
        TRF__AMX_LOAD(3, first + 3 * x->first_panel, x->first_row); \
    } \
    for (t = 0; t < x->steps; t++, a += x->a_step, b += 1024) { \
        TRF__AMX_LOAD(4, a, x->a_row); \
        TRF__AMX_LOAD(5, b, 64); \
        DOT(0, 4, 5); \
        if (!four) continue; \
        TRF__AMX_LOAD(6, b + x->b_panel, 64); \
        DOT(1, 4, 6); \
        TRF__AMX_LOAD(7, b + 2 * x->b_panel, 64); \
        DOT(2, 4, 7); \
        TRF__AMX_LOAD(5, b + 3 * x->b_panel, 64); \
        DOT(3, 4, 5); \
    } \
    TRF__AMX_STORE(0, x->c, x->c_row); \
    if (!four) return; \
    TRF__AMX_STORE(1, x->c + 64, x->c_row); \
    TRF__AMX_STORE(2, x->c + 128, x->c_row); \
    TRF__AMX_STORE(3, x->c + 192, x->c_row); \
} \
TRF__FN void NAME(trf__tile_call x, int64_t rows, int64_t panels) \
{ \
    int64_t p, n, most = rows > 16 ? 2 : 4; \
    for (p = 0; p < panels; p += n) { \
        n = panels - p < most ? 1 : most; \
        if (rows > 16) TRF__NAMED(NAME##_32)(&x, n == 2); \
        else TRF__NAMED(NAME##_16)(&x, n == 4); \
        x.c += 64 * n; \
        x.first += (size_t)n * x.first_panel; \
        x.b += (size_t)n * x.b_panel; \
    } \
}
/* An object that will use tiles asks for them. A query must not change the process. */
TRF__FN int trf__has_amx(void) { return TRF__HAS_AMX(1); }
TRF__FN int trf__may_have_amx(void) { return TRF__HAS_AMX(0); }
#else
#define TRF__TILES 0
TRF__FN void trf__amx_begin(void) {}
TRF__FN void trf__amx_end(void) {}
TRF__FN int trf__has_amx(void) { return 0; }
TRF__FN int trf__may_have_amx(void) { return 0; }
#endif
