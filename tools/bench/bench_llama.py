"""bench_llama.py - a Llama here and in llama.cpp, alternating: opening a file, drawing tokens, peak memory.

usage: bench_llama.py BENCH [ROUNDS [SHAPES]]      BENCH: build/bench   SHAPES: some of 15,110,520 (the first two)
needs: gguf, numpy; llama.cpp: the shared library that LLAMA_LIBRARY names, built for this processor from the source package of
llama-cpp-python (0.3.36), or the wheel xllamacpp, which knows AVX2 alone. With gcc 12 the former dies of SIGILL on Q8_0 with AMX:
one line __asm__ volatile("" : : "r"(&tc) : "memory"); before _tile_loadconfig in ggml-cpu/amx/mmq.cpp mends it.

Shapes of 15, 110 and 520 million weights (288 x 6 layers, 768 x 12, 1536 x 15), 32,000 tokens, random weights: float32, bf16, and 8 bits (here
int8, there Q8_0). Sequences begin with one token. Here tokens are drawn, at temperature 1; there the model is computed alone. Memory
is the peak of the process; of llama.cpp's what Python had before is subtracted. In parentheses: ours over theirs. Each figure is the
median over ROUNDS (default 3) turns, and only ratios mean something.
"""
import ctypes, os, re, statistics, subprocess, sys, tempfile, time

SHAPES = {"15": (288, 6, 6, 768), "110": (768, 12, 12, 2048), "520": (1536, 15, 12, 4096)}
FORMATS = {"float32": ("F32", "full"), "bf16": ("BF16", "bf16"), "8 bits": ("Q8_0", "int8")}
TOKENS = 32000


def make(path, shape, kind):
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize
    width, layers, heads, ff = shape
    kind, random, to = GGMLQuantizationType[kind], np.random.default_rng(1), GGUFWriter(path, "llama")
    to.add_context_length(1024); to.add_embedding_length(width); to.add_block_count(layers); to.add_feed_forward_length(ff)
    to.add_head_count(heads); to.add_head_count_kv(heads); to.add_layer_norm_rms_eps(1e-5)
    to.add_rope_dimension_count(width // heads); to.add_vocab_size(TOKENS); to.add_tokenizer_model("no_vocab")
    def matrix(name, rows, columns):
        x = (random.standard_normal((rows, columns)) * 0.02).astype(np.float32)
        to.add_tensor(name, x) if kind.name == "F32" else to.add_tensor(name, quantize(x, kind), raw_dtype=kind)
    def norm(name): to.add_tensor(name, np.ones(width, dtype=np.float32))
    matrix("token_embd.weight", TOKENS, width); norm("output_norm.weight"); matrix("output.weight", TOKENS, width)
    for i in range(layers):
        norm(f"blk.{i}.attn_norm.weight"); norm(f"blk.{i}.ffn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"): matrix(f"blk.{i}.{part}.weight", width, width)
        matrix(f"blk.{i}.ffn_gate.weight", ff, width); matrix(f"blk.{i}.ffn_up.weight", ff, width)
        matrix(f"blk.{i}.ffn_down.weight", width, ff)
    to.write_header_to_file(); to.write_kv_data_to_file(); to.write_tensors_to_file(); to.close()


def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read()).group(1)) / 1024


def alone(path, sequences, threads, tokens):
    """llama.cpp's part, in a process of its own. Structs are passed as words: theirs grow from version to version."""
    library = os.environ.get("LLAMA_LIBRARY")
    if not library:
        import xllamacpp
        library = xllamacpp.xllamacpp.__file__
    lib = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    class Words(ctypes.Structure): _fields_ = [("word", ctypes.c_uint32 * 256)]
    class Batch(ctypes.Structure):
        _fields_ = [("n", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                    ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq", ctypes.POINTER(ctypes.c_int32)),
                    ("seq", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]
    for name, result, arguments in (("model_default_params", Words, []), ("context_default_params", Words, []),
                                    ("model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, Words]),
                                    ("init_from_model", ctypes.c_void_p, [ctypes.c_void_p, Words]),
                                    ("batch_init", Batch, [ctypes.c_int32] * 3),
                                    ("decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
                                    ("get_logits_ith", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int32])):
        call = getattr(lib, "llama_" + name)
        call.restype, call.argtypes = result, arguments
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    lib.llama_log_set(quiet, None)
    lib.llama_backend_init()
    options = lib.llama_context_default_params()
    if list(options.word[:9]) != [512, 2048, 512, 1, 0, 0, 1, 4, 4]: sys.exit("another llama_context_params than of 2026.10")
    options.word[0] = 1024                              # n_ctx, then n_seq_max, n_outputs_max, both numbers of threads
    options.word[3] = options.word[6] = sequences
    options.word[7] = options.word[8] = threads
    before, start = peak(), time.perf_counter()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    opened = time.perf_counter() - start
    context, batch = lib.llama_init_from_model(model, options), lib.llama_batch_init(sequences, 0, 1)
    for position in range(tokens + 1):
        if position == 1: start = time.perf_counter()
        batch.n = sequences
        for s in range(sequences):
            batch.token[s], batch.pos[s] = (position * 37 + s * 11) % 31000 + 5, position
            batch.n_seq[s], batch.seq[s][0], batch.logits[s] = 1, s, 1
        if lib.llama_decode(context, batch): sys.exit("llama_decode fails")
        lib.llama_get_logits_ith(context, 0)
    rate = sequences * tokens / (time.perf_counter() - start)
    print(f"opened in {1e3 * opened:.2f} ms, {rate:.1f} tokens/s, peak {peak() - before:.0f} MB")


def figures(command):
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(x) for x in re.search(r"opened in (\S+) ms, (\S+) tokens/s, peak (\S+) MB", text).groups()]


def main(bench, rounds=3, shapes="15,110"):
    os.environ["OPENBLAS_NUM_THREADS"] = "1"            # idle threads of OpenBLAS spin for a while after a program begins
    with tempfile.TemporaryDirectory() as work:
        print("| weights, sequences, threads | tokens/s | llama.cpp | opening, ms | llama.cpp | peak, MB | llama.cpp |")
        print("|---|---|---|---|---|---|---|")
        for size in shapes.split(","):
            shape = SHAPES[size]
            for name, (theirs, ours) in FORMATS.items():
                gguf, packed = f"{work}/{size}.{theirs}", f"{work}/{size}.{ours}"
                make(gguf, shape, theirs)
                for sequences, threads in ((1, 1), (1, 2), (8, 1), (8, 2)):
                    tokens = 40 if sequences == 1 else 20
                    mine = [bench, "llama", packed, str(sequences), str(threads), str(tokens), *map(str, shape), ours]
                    other = [sys.executable, __file__, "alone", gguf, str(sequences), str(threads), str(tokens)]
                    if not os.path.exists(packed): subprocess.run(mine, check=True)
                    turns = [(figures(mine), figures(other)) for _ in range(rounds)]
                    a, b = ([statistics.median(t[who][k] for t in turns) for k in range(3)] for who in (0, 1))
                    print(f"| {size} M, {name}, {sequences}, {threads} | {a[1]:.0f} | {b[1]:.0f} (**{a[1] / b[1]:.2f}**) | {a[0]:.2f} | "
                          f"{b[0]:.1f} (**{a[0] / b[0]:.2f}**) | {a[2]:.0f} | {b[2]:.0f} (**{a[2] / b[2]:.2f}**) |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "alone": alone(sys.argv[2], *map(int, sys.argv[3:]))
    elif 2 <= len(sys.argv) <= 4: main(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:])
    else: sys.exit(__doc__)
