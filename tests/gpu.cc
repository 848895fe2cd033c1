/* The CUDA column on the CPU: see gpu_on_cpu.h. */
#define TRF_COLUMN cuda
#define TRF__GPU_ON_CPU "gpu_on_cpu.h"
#include "transformer.h"
