/* What tests read and set of gpu_on_cpu.h, which is linked in as an object of its own. */
#ifndef GPU_H
#define GPU_H

#include <stdint.h>

typedef struct gpu_numbers {
    int64_t calls, fail_at;             /* calls of CUDA and cuBLASLt so far; the one that fails */
    int64_t launches, graphs, uploads, downloads, syncs;
    int64_t blocks, bytes,
        most_bytes; /* memory of the device and pinned memory; blocks: streams and graphs too */
    int devices;                        /* 0: as on a machine without one */
    int no_graphs;                      /* 1: nothing can be captured */
} gpu_numbers;

#if defined(__cplusplus)
extern "C" {
#endif
extern gpu_numbers gpu_on_cpu;
void gpu_on_cpu_flush(void);            /* what has been asked for happens now */
#if defined(__cplusplus)
}
#endif
#endif
