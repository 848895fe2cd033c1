#pragma once
#include "api/version.h"

// -----------------------------------------------------------------------------------------------
// >>api-basics     numbers, status, errors, hooks, tensors
//
// Rules of all calls:
//   - ..._create and ..._copy make an object, and so do trf_model_load, trf_vocab_load,
//     trf_checkpoint_load and trf_file_open. ..._destroy, of a file trf_file_close, ends it and
//     accepts NULL.
//   - A call that can fail returns 0 or a negative trf_status, and fills a trf_error. A call that
//     takes no trf_error does nothing if what it needs is NULL, and returns 0, NULL or -1.
//   - NULL options, hooks and devices mean the defaults, except options of a ..._check call or of a
//     block. A NULL trf_config is an error unless the comment of the call allows it.
//   - A call borrows its arguments until it returns, unless its comment names a longer time.
//   - A returned pointer belongs to its object and lives as long. The vocabularies of a model live
//     until the model gets others.
//   - One thread at a time uses an object. Any number of threads may read a model or a finished
//     vocabulary (>>manual, THREADS).
// -----------------------------------------------------------------------------------------------

/* The type of all tensor data. TRF_DOUBLE makes it double, for checking gradients. In such a build
   the functions that make objects have other names, so that object files of float and double builds
   cannot be linked together by mistake. */
#if defined(TRF_DOUBLE)
typedef double trf_real;
#define trf_model_create      trf_model_create_double
#define trf_model_load        trf_model_load_double
#define trf_trainer_create    trf_trainer_create_double
#define trf_stage_create      trf_stage_create_double
#define trf_checkpoint_load   trf_checkpoint_load_double
#define trf_translator_create trf_translator_create_double
#define trf_sampler_create    trf_sampler_create_double
#define trf_context_create    trf_context_create_double
#define trf_updater_create    trf_updater_create_double
#define trf_file_open         trf_file_open_double
#define trf_file_save         trf_file_save_double
#else
typedef float trf_real;
#endif

/* Results of calls: name, value and meaning. 0 is success, everything else is an error. The values
   never change, so a program may branch on them. The text of a message is for people. */
#define TRF_STATUS_LIST(X) \
    X(TRF_OK,              0, "success") \
    X(TRF_E_NOMEM,        -1, "out of memory") \
    X(TRF_E_INVALID_ARG,  -2, "an argument or option is not allowed") \
    X(TRF_E_LIMIT,        -3, "a size is beyond a limit") \
    X(TRF_E_IO,           -4, "the operating system refused to read or write") \
    X(TRF_E_FORMAT,       -5, "a file is not what it claims to be") \
    X(TRF_E_SHAPE,        -6, "a tensor is missing, unknown or of the wrong shape") \
    X(TRF_E_UNSUPPORTED,  -7, "well formed, but this version cannot do it") \
    X(TRF_E_CHECKSUM,     -8, "the data or the header of a file were damaged") \
    X(TRF_E_NONFINITE,    -9, "a number is infinite or not a number") \
    X(TRF_E_STATE,       -10, "the call does not fit the state of the object") \
    X(TRF_E_BACKEND,     -11, "the device or its library failed") \
    X(TRF_E_INTERNAL,    -12, "a bug in transformer.h") \
    X(TRF_E_CANCELLED,   -13, "the cancel hook asked to stop") \
    X(TRF_E_END,         -14, "the corpus has delivered its last epoch")

typedef enum trf_status {
#define TRF__X(name, value, text) name = value,
    TRF_STATUS_LIST(TRF__X)
#undef TRF__X
    TRF_STATUS_FORCE_SIGNED = -1000
} trf_status;

/* The name of a status, such as "TRF_E_SHAPE"; "TRF_E_UNKNOWN" for other values. The text is
   static; any thread may call this. */
TRF_API const char *trf_status_name(trf_status status);

/* Describes one error. Plain data in the caller's memory; nothing to free. Every call that can fail
   takes a trf_error *, which may be NULL. A successful call clears it. A failing call
     - fills it,
     - sets output pointers to NULL, counts to 0, texts to empty and structs to zeros,
     - leaves objects and arrays as they were.
   If a call differs, its comment says so: with TRF_E_LIMIT, for example, *n or *bytes is the size
   that you need. One exception holds for all calls: after TRF_E_BACKEND an update may or may not
   have been made, and the contents of output arrays are unspecified. */
typedef struct trf_error {
    int32_t status;         /* a trf_status */
    int32_t sys_errno;      /* errno of a failed system call, or 0 */
    int64_t where;          /* byte offset, index of an id or tensor, line, or update; -1: none */
    char what[64];          /* the tensor, field or argument. Control characters are '?', here and
                               in the message */
    char message[256];      /* one English sentence: what was expected and what was found */
} trf_error;

enum { TRF_LOG_INFO = 0, TRF_LOG_WARNING = 1 };

/* Functions of yours that the library calls. All hooks are optional; alloc and free come together
   or not at all. An object copies them when it is created. The library calls a hook only on a
   thread of yours that is inside one of its calls, never on its own threads. Each hook gets `user`
   as its first argument.

   alloc    Returns memory aligned to `align`, a power of two up to 64, or NULL. A vocabulary of
            subwords allocates while it encodes: if threads share it, its alloc and free must be
            thread-safe.
   free     Gets the same number of `bytes` as alloc.
   log      Gets one sentence without a newline; level: TRF_LOG_INFO or TRF_LOG_WARNING. Without
            this hook the library is silent.
   cancel   Returns non-zero to stop the running call, which then returns TRF_E_CANCELLED. On the
            CPU it is called at least once per layer and per decoded token. A GPU records the ops of
            a training batch or of a decoded token and replays them, so there the hook is called
            only once for each of these. During a backward pass it is called only for the first
            micro-batch of an update: to stop a later one would lose the gradients accumulated so
            far.

   A cancelled training step has changed nothing. Repeat the step with the same batch, or save a
   checkpoint: a run that resumes from the checkpoint begins with that batch. */
typedef struct trf_hooks {
    void *user;
    void *(*alloc)(void *user, size_t align, size_t bytes);
    void (*free)(void *user, void *memory, size_t bytes);
    void (*log)(void *user, int level, const char *message);
    int (*cancel)(void *user);
} trf_hooks;

typedef enum trf_device_kind {
    TRF_DEVICE_CPU = 0, TRF_DEVICE_CUDA = 1, TRF_DEVICE_COUNT
} trf_device_kind;

/* Number of bits per value in forward and backward passes. Not saved in files.
   FLOAT32   every value has 32 bits. The default
   BF16      what matrix products read has 8 significant bits and the range of FLOAT32. The weights
             themselves, their gradients, Adam's moments, norms, softmax, the loss and all sums keep
             32 bits. Loss scaling is not needed.
             CUDA: activations and their gradients have 16 bits.
             CPU:  they have 32 bits, and products round them when they read them; products inside
             attention do not. Where trf_device_text says "in 16 bits: vectors", training is no
             faster than with FLOAT32. Readers, translators and samplers compute as with
             TRF_WEIGHTS_BF16, unless their options ask for INT8.
             TRF_E_BACKEND: a TRF_DOUBLE build. The blocks (>>api-blocks) compute in float32
   AUTO      BF16 where training gains by it: on GPUs, and on a CPU that has AMX for it if
             `products` is AUTO or BUILT_IN. Else, and in a TRF_DOUBLE build, FLOAT32. So the same
             training gives other bits on another machine. trf_device_precision tells which it is */
typedef enum trf_precision {
    TRF_PRECISION_FLOAT32 = 0, TRF_PRECISION_BF16 = 1, TRF_PRECISION_AUTO = 2, TRF_PRECISION_COUNT
} trf_precision;

/* Which matrix product the CPU uses. Not saved in files.
   AUTO      the default. Trainers and contexts: CBLAS for products with more than 16 rows, if the
             build has it. An OpenBLAS whose kernels are for processors without AVX2 is not used
             where AVX2 is, nor an OpenMP build (trf_device_text says so). Readers, translators and
             samplers: BUILT_IN
   CBLAS     as AUTO, whatever OpenBLAS it is. Readers, translators and samplers, whose weights are
             packed for the built-in product, use CBLAS for products with more than 512 rows; then
             the last bits of an answer depend on its batch. Attention never uses it. In a build
             without CBLAS: TRF_E_BACKEND
   BUILT_IN  never CBLAS. Trains 3 to 9 % faster with AVX-512, and with the same bits on all
             machines of a kind
   BF16X3    products with 48 rows or more use the AMX instructions for bf16. Each float is split
             into three numbers of 8 significant bits. Six products of such numbers replace one
             product of floats. They take about 0.6 times as long. With 16 numbers or more in a sum,
             the mean error is no larger than with BUILT_IN.
             The built-in product computes the rest: smaller products; those inside attention;
             samplers; training if no matrix has 8,192 numbers; TRF_PRECISION_BF16; weights of 8 or
             16 bits; and everything where trf_device_text does not say "AMX".
             The last bits of a result depend on the processor. They also depend on the other
             sentences of the batch, as their rows count together.
             An infinite number, or one above 3.396e38, turns the results of its row or column into
             NaN. Numbers below 1e-31 lose their last bits, and those below 1e-38 count as 0 */
typedef enum trf_products {
    TRF_PRODUCTS_AUTO = 0, TRF_PRODUCTS_CBLAS = 1, TRF_PRODUCTS_BUILT_IN = 2,
    TRF_PRODUCTS_BF16X3 = 3, TRF_PRODUCTS_COUNT
} trf_products;

/* Where to compute. Each object has its own device, and one program may use several.

   CUDA. TRF_DEVICE_CUDA needs a GPU and a build with CUDA (>>manual, GPUS); otherwise creating an
   object fails with TRF_E_BACKEND. Results are meant to equal those of the CPU up to rounding, with
   the same dropout masks, and to have the same bits in all runs on one card with equal libraries.

   Threads. `threads` is the number of threads of each object that computes on this device:
     - trainers, readers, translators and samplers of a model with this config.device or
       trf_load_options.device,
     - contexts and updaters created with this device.
   trf_train_options, trf_reader_options, trf_search and trf_sampling have a field `threads` too. If
   it is not 0, it is used instead of trf_device.threads. Results are bit-identical for any number
   of threads.
   An object computes on the calling thread and on `threads` - 1 threads of its own.
   These start when the object is created; if they cannot, creating it fails with TRF_E_NOMEM. They
   have ended when its destroy call returns. They sleep while there is nothing to compute, call no
   hook, block all signals, and have a stack of 256 KiB each.
     - After fork(), the parent's objects compute in the child on the calling thread alone. Objects
       that the child creates have threads.
     - On Windows, do not destroy an object inside DllMain.
     - `threads` has no effect, and objects compute on the calling thread alone, with
       TRF_NO_THREADS, in WebAssembly without -pthread, on systems that are neither POSIX nor
       Windows, and with compilers other than GCC and Clang.

   OpenBLAS. At most 64 threads at a time are inside; of its serial build, which locks nothing, one.
   Its own number of threads is 1 during each op, then what it was before. While an object trains
   with the serial or the OpenMP build, no other thread of the program may call OpenBLAS: these
   builds compute wrongly then. So AUTO does not use the OpenMP build; CBLAS does. Each thread needs
   128 MiB of address space; if there is none, creating the object fails with TRF_E_NOMEM. A child
   of fork() may use OpenBLAS if no thread of the parent was inside a call at that moment. On macOS
   and Windows, and if linked statically, it is called like any CBLAS, with its own threads. */
typedef struct trf_device {
    trf_device_kind kind;           /* default TRF_DEVICE_CPU */
    int32_t threads;                /* 1..4096, of each object; default: one per processor that
                                       this process may use */
    int32_t index;                  /* which of several GPUs, from 0; default 0 */
    trf_precision precision;        /* default TRF_PRECISION_FLOAT32 */
    trf_products products;          /* default TRF_PRODUCTS_AUTO */
    int32_t vector_bytes;           /* 0, 16, 32 or 64: use kernels of at most so wide vectors; 0:
                                       the widest that build and processor have. Default 0. Not for
                                       GPUs. TRF_E_BACKEND: the build has none so narrow */
} trf_device;

TRF_API trf_device trf_device_default(void);
/* Writes two lines, the second without a line break: what was built, and what computes on this
   device.

       transformer.h 1.0.0, float, vectors of 16 bytes, CBLAS, threads, levels up to avx512
       avx512 vectors, 8 threads; products when training: CBLAS (why); in 16 bits: AMX; in 8 bits:
       AMX

   The first has the version, the type of numbers, vector width, CBLAS, threads, levels, columns,
   CUDA, "no training" (TRF_NO_TRAIN), and "not optimised" if GCC or Clang compiled it without -O;
   with such code, creating or loading a model logs a warning. The second has what multiplies
   matrices in training, and weights of 16 and of 8 bits (trf_weights):
       training   "built-in", "CBLAS", or with BF16X3 "AMX" (trf_products)
       16 bits    "AMX", "AVX-512 BF16" or (ARM64) "BFMMLA"; "vectors": no instructions for such
                  numbers are used, and large products are no faster than with FULL.
                  TRF_PRECISION_BF16 computes with the same
       8 bits     "AMX", "AVX-512 VNNI", "AVX-VNNI", "AVX2", (ARM64) "I8MM", "DotProd", or "C"
   Of a GPU it has the number, and of a device that this program lacks the error's message. The text
   is cut at `bytes`; 500 are enough. Returns `text`, or NULL: no room. NULL device: the default. */
TRF_API char *trf_device_text(const trf_device *device, char *text, size_t bytes);
/* device->precision, or what TRF_PRECISION_AUTO stands for on this machine: FLOAT32 or BF16. NULL,
   or a device that this program lacks: FLOAT32. */
TRF_API trf_precision trf_device_precision(const trf_device *device);

/* A named view of memory that somebody else owns. Row-major: the last index runs fastest. On a
   device with its own memory, parameters and gradients have no `data`; trf_tensor_read and
   trf_tensor_write reach them on every device. */
enum { TRF_MAX_RANK = 4 };
typedef struct trf_tensor {
    const char *name;               /* "encoder.layers.0.linear1.weight", or NULL */
    trf_real *data;                 /* in the host's memory, or NULL */
    int32_t rank;                   /* number of dimensions, 0..4 */
    int64_t shape[TRF_MAX_RANK];    /* entries beyond rank are 1 */
    const void *device;             /* private: the device of a tensor without data */
    trf_real *device_data;          /* private: the tensor's address on that device */
} trf_tensor;

/* A view without a name, of rank 1, 2 or 3. It ignores the sizes beyond its rank. */
TRF_API trf_tensor trf_tensor_of(trf_real *data, int32_t rank, int64_t n0, int64_t n1, int64_t n2);
/* Number of elements; 0 if the shape is not valid, and of a struct of zeros. */
TRF_API int64_t trf_tensor_count(const trf_tensor *tensor);
/* Copy all elements of a tensor into the caller's memory, and back. `count` must be their number,
   otherwise TRF_E_SHAPE. */
TRF_API trf_status trf_tensor_read(const trf_tensor *tensor, trf_real *numbers, int64_t count,
                                   trf_error *err);
TRF_API trf_status trf_tensor_write(const trf_tensor *tensor, const trf_real *numbers,
                                    int64_t count, trf_error *err);

/* TRF_VERSION_NUMBER of the implementation that is linked. */
TRF_API int32_t trf_version(void);
