"""bench_encoders.py - a sentence encoder here, in PyTorch, onnxruntime and OpenVINO, alternating, as a table of ratios.

usage: bench_encoders.py BENCH FOLDER MODEL [ROUNDS [FORMATS]]      BENCH: build/bench   FOLDER: a model of Hugging Face (BERT)
MODEL: what trf import has made of it   FORMATS: some of float32,bf16,int8,bf16x3 (all), and who is compared with them
needs: torch, transformers, onnxruntime, onnx, onnxscript, numpy; openvino, without which its columns are left out

Sentences/s of batches without padding: all sentences have 20 or 120 tokens, [CLS] and [SEP] included. PyTorch is eager, or
compiled where that is faster. onnxruntime runs the exported model, in float32 or dynamically quantised to 8 bits, which is beside
our 8 bits. OpenVINO runs the same export, in float32 and with the hint for bf16, which is beside our bf16. bf16x3 is float32 through
TRF_PRODUCTS_BF16X3. In parentheses: ours over theirs, and for float32 bf16x3 over theirs.
Each figure is the median over ROUNDS (default 3) turns, and only ratios mean something.
"""
import importlib.util, os, re, statistics, subprocess, sys, tempfile, time


def fastest(run):
    times = [run()]
    while len(times) < 4 or sum(times) < 2: times.append(run())
    return min(times)


def alone(kind, folder, sentences, tokens, threads, work):
    import numpy as np
    os.environ["HF_HUB_OFFLINE"] = "1"
    ids = [[101] + [1000 + (i * tokens + k) * 7 % 20000 for k in range(tokens - 2)] + [102] for i in range(sentences)]
    if kind.startswith("onnx"):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(f"{work}/{kind}.onnx", options, providers=["CPUExecutionProvider"])
        feed = {"input_ids": np.array(ids), "attention_mask": np.ones_like(np.array(ids))}
        call = lambda: session.run(None, feed)
    elif kind.startswith("openvino"):
        import openvino
        model = openvino.Core().compile_model(f"{work}/onnx.onnx", "CPU", {
            "INFERENCE_PRECISION_HINT": "bf16" if kind.endswith("bf16") else "f32", "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"})
        request, feed = model.create_infer_request(), {"input_ids": np.array(ids), "attention_mask": np.ones_like(np.array(ids))}
        call = lambda: request.infer(feed)
    else:
        import torch
        from transformers import AutoModel
        torch.set_num_threads(threads)
        model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
        if kind == "compiled": model = torch.compile(model)
        x = torch.tensor(ids)
        mask = torch.ones_like(x)
        def call():
            with torch.inference_mode(): model(input_ids=x, attention_mask=mask)
    def run():
        start = time.perf_counter(); call(); return time.perf_counter() - start
    run(); run()
    print(sentences / fastest(run))


def export(folder, work):
    import torch
    from transformers import AutoModel
    from onnxruntime.quantization import QuantType, quantize_dynamic
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()
    class States(torch.nn.Module):
        def __init__(self): super().__init__(); self.model = model
        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    x = torch.ones(2, 9, dtype=torch.int64)
    torch.onnx.export(States(), (x, x), f"{work}/onnx.onnx", input_names=["input_ids", "attention_mask"], output_names=["states"],
                      dynamic_axes={n: {0: "sentences", 1: "tokens"} for n in ("input_ids", "attention_mask", "states")},
                      opset_version=17, dynamo=False)
    quantize_dynamic(f"{work}/onnx.onnx", f"{work}/onnx_int8.onnx", weight_type=QuantType.QInt8)


def main():
    if sys.argv[1] == "--alone":
        kind, folder, sentences, tokens, threads, work = sys.argv[2:]
        return alone(kind, folder, int(sentences), int(tokens), int(threads), work)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"            # idle threads of OpenBLAS spin for a while after a program begins
    bench, folder, model = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    peer = lambda *a: float(subprocess.run([sys.executable, __file__, "--alone", *map(str, a)], capture_output=True, text=True,
                                           check=True).stdout.split()[-1])
    ours = lambda *a: float(re.search(r": ([0-9.]+) sentences/s", subprocess.run([bench, "encode", model, *map(str, a)],
                                      capture_output=True, text=True, check=True).stdout).group(1))
    with tempfile.TemporaryDirectory() as work:
        export(folder, work)
        own = {"float32": (), "bf16": ("bf16",), "int8": ("int8",), "bf16x3": ("full", "bf16x3")}
        if len(sys.argv) > 5: own = {n: own[n] for n in sys.argv[5].split(",")}
        peers = {"PyTorch": (("torch", "compiled"), ("float32", "bf16x3")), "onnxruntime": (("onnx",), ("float32", "bf16x3")),
                 "onnxruntime int8": (("onnx_int8",), ("int8",))}
        if importlib.util.find_spec("openvino"):
            peers |= {"OpenVINO": (("openvino",), ("float32", "bf16x3")), "OpenVINO bf16": (("openvino_bf16",), ("bf16",))}
        else: print("left out: OpenVINO is not installed")
        peers = {n: (kinds, [a for a in beside if a in own]) for n, (kinds, beside) in peers.items() if set(beside) & set(own)}
        print(f"{'tokens':>6} {'batch':>5} {'threads':>7}" + "".join(f"{n:>9}" for n in own) + "".join(f"{n:>22}" for n in peers))
        for threads in (1, 2):
            for tokens in (20, 120):
                for sentences in (1, 32):
                    turns = [{n: ours(sentences, tokens, threads, *how) for n, how in own.items()} |
                             {n: max(peer(k, folder, sentences, tokens, threads, work) for k in kinds) for n, (kinds, _) in peers.items()}
                             for _ in range(rounds)]
                    middle = lambda of: statistics.median(of(turn) for turn in turns)
                    ratios = lambda n, beside: ", ".join(f"{middle(lambda t: t[a] / t[n]):.2f}" for a in beside)
                    print(f"{tokens:6} {sentences:5} {threads:7}" + "".join(f"{middle(lambda t: t[n]):9.1f}" for n in own) +
                          "".join(f"{middle(lambda t: t[n]):10.1f} ({ratios(n, beside):>10})" for n, (_, beside) in peers.items()), flush=True)


main()
