/* The tiles of AMX in plain C, so that their kernels run on every processor; and the instructions
   themselves where the processor has them. Include it before transformer.h. */
#ifndef TILES_H
#define TILES_H

static int real_instructions;   /* 0: emulated */
static long tiles_begun;        /* how often tiles got a shape, about: threads count together */
static long tiles_asked;        /* how often the system was asked for them, likewise */

#if defined(__linux__) && defined(__x86_64__) && !defined(TRF_SCALAR)
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static __thread unsigned char tile[8][16][64];
static __thread int tiles_shaped;

/* Instructions on tiles without a shape are illegal. */
static inline void tile_used(void) { if (!tiles_shaped) abort(); }

static inline void tile_load(int t, const void *from, size_t step)
{
    int r;
    tile_used();
    for (r = 0; r < 16; r++) memcpy(tile[t][r], (const char *)from + (size_t)r * step, 64);
}

static inline void tile_store(int t, void *to, size_t step)
{
    int r;
    tile_used();
    for (r = 0; r < 16; r++) memcpy((char *)to + (size_t)r * step, tile[t][r], 64);
}

/* C += A B, of which A's bytes have no sign. */
static inline void tile_int8(int c, int a, int b)
{
    uint32_t sum[16];           /* sums wrap around */
    int r, k, n, i;
    tile_used();
    for (r = 0; r < 16; r++) {
        memcpy(sum, tile[c][r], 64);
        for (k = 0; k < 16; k++)
            for (n = 0; n < 16; n++)
                for (i = 0; i < 4; i++)
                    sum[n] += (uint32_t)(tile[a][r][4 * k + i] * (signed char)tile[b][k][4 * n + i]);
        memcpy(tile[c][r], sum, 64);
    }
}

static inline float tile_number(const unsigned char *at)
{
    uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* As the manual defines it: products of even and of odd places have sums of their own, which begin
   with 0; both are added, then that to C. */
static inline void tile_bf16(int c, int a, int b)
{
    float sum[16], even[16], odd[16], wide[16][32];
    int r, k, n;
    tile_used();
    for (k = 0; k < 16; k++)
        for (n = 0; n < 32; n++) wide[k][n] = tile_number(tile[b][k] + 2 * n);
    for (r = 0; r < 16; r++) {
        memcpy(sum, tile[c][r], 64);
        memset(even, 0, sizeof even);
        memset(odd, 0, sizeof odd);
        for (k = 0; k < 16; k++) {
            float x = tile_number(tile[a][r] + 4 * k), y = tile_number(tile[a][r] + 4 * k + 2);
            for (n = 0; n < 16; n++) {
                even[n] += x * wide[k][2 * n];
                odd[n] += y * wide[k][2 * n + 1];
            }
        }
        for (n = 0; n < 16; n++) sum[n] += even[n] + odd[n];
        memcpy(tile[c][r], sum, 64);
    }
}

#define TRF__AMX_SHAPE(shape) \
    do { if (real_instructions) _tile_loadconfig(shape); \
         else { memset(tile, 0, sizeof tile); tiles_shaped = 1; tiles_begun++; } } while (0)
#define TRF__AMX_RELEASE() \
    do { if (real_instructions) _tile_release(); else { tile_used(); tiles_shaped = 0; } } while (0)
#define TRF__AMX_LOAD(t, from, step) \
    do { if (real_instructions) _tile_loadd(t, from, step); else tile_load(t, from, step); } while (0)
#define TRF__AMX_STORE(t, to, step) \
    do { if (real_instructions) _tile_stored(t, to, step); else tile_store(t, to, step); } while (0)
#define TRF__AMX_INT8(c, a, b) \
    do { if (real_instructions) _tile_dpbusd(c, a, b); else tile_int8(c, a, b); } while (0)
#define TRF__AMX_BF16(c, a, b) \
    do { if (real_instructions) _tile_dpbf16ps(c, a, b); else tile_bf16(c, a, b); } while (0)
#define TRF__HAS_AMX(ask) \
    (tiles_asked += (ask), !real_instructions || trf__linux_has_amx(ask))
#endif

#endif
