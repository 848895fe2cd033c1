"""make_pickles.py - files of PyTorch's torch.save for tests/golden/import: make_imports.py calls it; alone it makes them anew.

usage: make_pickles.py         needs torch, safetensors (measured with torch 2.15)

pytorch/ has the weights of bert/ in every form in which torch.save writes them: trf import must make the same model file
of each. bert_shards/ gets its weights as two such files. hostile/ has files that must be refused; messages.txt there has a
line for each: the file, a tab, and a basic regular expression that the message contains.
"""
import io, json, pathlib, shutil, struct, sys, zipfile
from collections import OrderedDict
import torch
from safetensors.torch import load_file

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/import"


def contents(data):
    """name in the archive -> bytes"""
    with zipfile.ZipFile(io.BytesIO(data)) as z: return {i.filename: z.read(i) for i in z.infolist()}


def rewritten(data, path, method=zipfile.ZIP_STORED, zip64=False):
    """writes entries (name, bytes) with other settings than torch.save's"""
    with zipfile.ZipFile(path, "w", method) as z:
        for name, text in data:
            with z.open(zipfile.ZipInfo(name) if method == zipfile.ZIP_STORED else name, "w", force_zip64=zip64) as f: f.write(text)


def saved(state, **how):
    buffer = io.BytesIO()
    torch.save(state, buffer, **how)
    return buffer.getvalue()


def forms(state, to):
    state = OrderedDict(state)
    state._metadata = OrderedDict({"": {"version": 1}, "embeddings": {"version": 1, "x": (None, True, -5, 70000, 1 << 40)}})
    state["embeddings.position_ids"] = torch.arange(32).expand(1, -1)       # as old models of BERT have it
    (to / "zip.bin").write_bytes(saved(state))
    (to / "pickles.bin").write_bytes(saved(state, _use_new_zipfile_serialization=False))
    (to / "pickles4.bin").write_bytes(saved(dict(state), _use_new_zipfile_serialization=False, pickle_protocol=4))
    # where number 3 of the word embeddings is, for tests that damage it
    first = state["embeddings.word_embeddings.weight"].numpy().tobytes()
    (to / "offsets.txt").write_text("".join(f"{n} {(to / n).read_bytes().index(first) + 12}\n" for n in ("zip.bin", "pickles.bin")))
    # views: transposed, parts of one storage, Parameters, numbers of 64 bits, one row for all; by protocol 4
    views = OrderedDict(state)
    names = [n for n in state if n.endswith("dense.weight")]
    for n in names[::2]: views[n] = state[n].t().contiguous().t()
    for n in names[1::2]: views[n] = torch.nn.Parameter(state[n].double(), requires_grad=False)
    biases = [n for n in state if n.endswith("self.query.bias") or n.endswith("self.key.bias")]
    storage = torch.cat([torch.full((3,), 9.0)] + [state[n] for n in biases] + [torch.full((5,), 7.0)])
    for i, n in enumerate(biases): views[n] = storage[3 + 16 * i:19 + 16 * i]
    n = "embeddings.token_type_embeddings.weight"
    views[n] = torch.stack([state[n], state[n]], 2)[:, :, 1]
    n = "embeddings.word_embeddings.weight"
    views[n] = torch.cat([torch.ones(2, 16), state[n]]).t().contiguous().t()[2:]
    assert all(torch.equal(views[n].float(), state[n].float()) for n in state)
    (to / "views.bin").write_bytes(saved(views, pickle_protocol=4))
    # the highest byte first, compressed, with fields of 64 bits
    entries = contents(saved(views))
    root = next(n for n in entries if n.endswith("data.pkl"))[:-len("data.pkl")]
    sizes = {t.untyped_storage().data_ptr(): t.element_size() for t in views.values()}
    order = list(OrderedDict((t.untyped_storage().data_ptr(), 0) for t in views.values()))
    for key, pointer in enumerate(order):
        name, size = f"{root}data/{key}", sizes[pointer]
        x = entries[name]
        entries[name] = b"".join(x[i:i + size][::-1] for i in range(0, len(x), size))
    entries[root + "byteorder"] = b"big"
    rewritten(entries.items(), to / "big_endian_deflated.bin", zipfile.ZIP_DEFLATED, True)


def shards(folder):
    """the weights of bert_shards/ in two files; F16 where that loses nothing"""
    index, parts = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"], {}
    kinds = set()
    for file in sorted(set(index.values())):
        state = load_file(folder / file)
        state = {n: x.half() if "bias" in n and torch.equal(x.half().float(), x.float()) else x for n, x in state.items()}
        kinds |= {x.dtype for x in state.values()}
        name = file.replace("model", "pytorch_model").replace("safetensors", "bin")
        (folder / name).write_bytes(saved(state))
        parts.update({n: name for n in state})
    assert kinds == {torch.float16, torch.bfloat16}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": parts}, indent=1))


# --- hostile files ---------------------------------------------------------------------------------------------------

def text(s):
    s = s.encode() if isinstance(s, str) else s
    return b"X" + struct.pack("<I", len(s)) + s


def number(n):
    if 0 <= n < 256: return b"K" + bytes([n])
    raw = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def group(*items): return b"(" + b"".join(items) + b"t"


ORDERED = b"ccollections\nOrderedDict\n)R"


def storage(numbers=4, key="0", kind="FloatStorage", more=(), word="storage"):
    return group(text(word), b"ctorch\n" + kind.encode() + b"\n", text(key), text("cpu"), number(numbers), *more) + b"Q"


def tensor(of=None, offset=0, shape=(4,), stride=(1,), end=b"\x89" + ORDERED):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n" + group(of or storage(), number(offset), group(*map(number, shape)),
            group(*map(number, stride)), end) + b"R")


def state(*items): return b"\x80\x02}(" + b"".join(text(n) + t for n, t in items) + b"u."


HEAD = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + b"\x80\x02M\xe9\x03." + b"\x80\x02}."
FOUR = struct.pack("<q4f", 4, 1, 2, 3, 4)


def pickles(main, keys=("0",), data=FOUR):
    return HEAD + main + b"\x80\x02](" + b"".join(map(text, keys)) + b"e." + data


def archive(main, more=(("a/data/0", FOUR[8:]),), folder="a/"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, x in ((folder + "data.pkl", main), *more): z.writestr(zipfile.ZipInfo(name), x)
    return buffer.getvalue()


def hostile(to):
    import warnings
    warnings.simplefilter("ignore")         # of names that are there twice
    one, lines = state(("x", tensor())), []

    def add(name, data, message):
        (to / (name + ".bin")).write_bytes(data)
        lines.append(f"{name}.bin\t{message}\n")

    def refused(name, value, message): add(name, pickles(state(("x", value))), message)

    add("sound", pickles(one), "tensor 'embeddings.word_embeddings.weight' is missing")
    add("sound_zip", archive(one), "tensor 'embeddings.word_embeddings.weight' is missing")
    call = b"\x80\x02cposix\nsystem\n" + group(text("touch hacked")) + b"R."
    add("system", pickles(call), "byte 27: GLOBAL 'posix system': expected what a dictionary of tensors needs")
    add("system_zip", archive(call), "a/data.pkl, byte 2: GLOBAL 'posix system': expected")
    add("system4", archive(b"\x80\x04\x8c\x05posix\x8c\x06system\x93."), "byte 17: STACK_GLOBAL 'posix system': expected")
    refused("eval", b"c__builtin__\neval\n" + group(text("1")) + b"R", "GLOBAL '__builtin__ eval'")
    refused("other_global", b"ctorch._utils\n_rebuild_tensor\n", "GLOBAL 'torch._utils _rebuild_tensor'")
    refused("call_a_storage", b"ctorch\nFloatStorage\n)R", "REDUCE: expected a function, got a type of storage")
    refused("call_a_text", text("x") + b")R", "REDUCE: expected a name of Python, got a text")
    refused("arguments", b"ccollections\nOrderedDict\n" + text("x") + b"\x85R", "OrderedDict: expected no arguments")
    refused("newobj", b"ccollections\nOrderedDict\n)\x81", "NEWOBJ: a dictionary of tensors has no such opcode")
    refused("inst", b"(iposix\nsystem\n", "INST: a dictionary of tensors has no such opcode")
    refused("no_opcode", b"\xff", "byte 35: expected an opcode of a pickle, got 0xFF")
    refused("number", number(5), "a tensor as the value of 'x', got a number")
    refused("nested", b"}" + text("y") + tensor() + b"s", "a tensor as the value of 'x', got a dictionary")
    refused("memo", b"h\x09", "BINGET: nothing has been noted as 9")
    refused("memo_hole", b"Nq\x090h\x08", "POP: a dictionary of tensors has no such opcode")
    refused("memo_hole2", b"Nq\x09h\x08", "BINGET: nothing has been noted as 8")
    refused("memo_large", b"Nr\xff\xff\xff\xff", "LONG_BINPUT: expected a note of at most 41, got 4294967295")
    refused("memo_get_large", b"j\xff\xff\xff\xff", "LONG_BINGET: nothing has been noted as 4294967295")
    add("memo_empty", pickles(b"\x80\x02q\x00."), "BINPUT: expected a value on the stack")
    add("empty_stack", pickles(b"\x80\x02."), "STOP: expected one value on the stack, got 0")
    add("full_stack", pickles(b"\x80\x02NN."), "STOP: expected one value on the stack, got 2")
    add("open_mark", pickles(b"\x80\x02(N."), "STOP: expected one value")
    add("no_mark", pickles(b"\x80\x02Nt."), "TUPLE: expected a MARK before it")
    add("below_mark", pickles(b"\x80\x02}NN(s."), "SETITEM: expected a dictionary on the stack, which has too few values")
    add("few", pickles(b"\x80\x02N\x87."), "TUPLE3: expected 3 values on the stack, got 1")
    add("odd", pickles(b"\x80\x02}(Nu."), "SETITEMS: expected keys with values, got 1 of both")
    add("no_dict", pickles(b"\x80\x02](NNu."), "SETITEMS: expected a dictionary, got a list")
    add("append_to_dict", pickles(b"\x80\x02}Na."), "APPEND: expected a list, got a dictionary")
    add("build", pickles(b"\x80\x02}Nb."), "BUILD: expected a dictionary, got None")
    add("list", pickles(b"\x80\x02]."), "expected a dictionary of tensors, got a list")
    add("keys", pickles(b"\x80\x02}K\x01" + tensor() + b"s."), "expected names of tensors as keys, got a number")
    add("protocol", pickles(b"\x80\x09}."), "expected protocol 2 to 5, got 9")
    add("itself", pickles(b"\x80\x02}q\x00" + text("x") + b"h\x00s."), "a tensor as the value of 'x', got a dictionary")
    add("deep", pickles(b"\x80\x02" + b")" + b"\x85" * 20000 + b"."), "expected a dictionary of tensors, got a tuple")
    add("marks", pickles(b"\x80\x02" + b"(" * 20000 + b"."), "STOP: expected one value")
    add("long_text", HEAD + b"\x80\x02X\xff\xff\xff\xff", "expected a pickle of at most 16777216 bytes")
    add("cut_text", HEAD + b"\x80\x02X\xff\xff\x00\x00ab", "expected 65533 bytes more of a pickle, got the end")
    add("twice", pickles(state(("x", tensor()), ("x", tensor()))), "expected every name once, got tensor 'x' twice")
    add("twice_zip", archive(state(("x", tensor()), ("x", tensor()))), "expected every name once, got tensor 'x' twice")
    add("empty_name", pickles(state(("", tensor()))), "expected a name of 1 to 511 bytes of UTF-8, got 0 bytes")
    add("long_name", pickles(state(("x" * 600, tensor()))), "expected a name of 1 to 511 bytes of UTF-8, got 600 bytes")
    add("bad_utf8", pickles(state((b"x\xff", tensor()))), "expected a name of 1 to 511 bytes of UTF-8")
    add("nul", pickles(state(("x\0y", tensor()))), "expected a name of 1 to 511 bytes of UTF-8")
    # storages and shapes
    huge = (1 << 63) - 1
    refused("word", tensor(storage(word="module")), "BINPERSID: expected ('storage', type, key, device, numbers)")
    refused("view", tensor(storage(more=(group(text("1"), number(0), number(1)),))), "BINPERSID: expected ('storage'")
    refused("negative_storage", tensor(storage(-1)), "BINPERSID: expected ('storage'")
    refused("no_type", group(text("storage"), b"ccollections\nOrderedDict\n", text("0"), text("cpu"), number(4)) + b"Q", "BINPERSID")
    refused("huge_storage", tensor(storage(huge)), "expected an offset inside a storage of at most 2^56 numbers")
    refused("negative_offset", tensor(offset=-1), "expected an offset inside a storage")
    refused("huge_offset", tensor(offset=huge), "expected an offset inside a storage")
    refused("offset", tensor(offset=1), "a tensor goes beyond its storage of 4 numbers")
    refused("at_the_end", tensor(offset=4, shape=(1,)), "a tensor goes beyond its storage of 4 numbers")
    refused("scalar_at_the_end", tensor(offset=4, shape=(), stride=()), "a tensor goes beyond its storage of 4 numbers")
    refused("shape", tensor(shape=(5,)), "a tensor goes beyond its storage of 4 numbers")
    refused("stride", tensor(shape=(2, 2), stride=(3, 1)), "a tensor goes beyond its storage of 4 numbers")
    refused("huge_stride", tensor(shape=(2, 2), stride=(huge, 1)), "a tensor goes beyond its storage of 4 numbers")
    refused("huge_shape", tensor(shape=(huge, huge), stride=(huge, huge)), "expected a tensor of at most 2^60 numbers")
    refused("repeated", tensor(shape=(1 << 31, 1 << 31), stride=(0, 0)), "expected a tensor of at most 2^60 numbers")
    refused("wrapped", tensor(shape=(1 << 32, 1 << 32, 4), stride=(0, 0, 1)), "expected a tensor of at most 2^60 numbers")
    refused("negative_shape", tensor(shape=(-4,)), "expected sizes and strides of 0 or more")
    refused("negative_stride", tensor(offset=3, stride=(-1,)), "expected sizes and strides of 0 or more")
    refused("more_strides", tensor(stride=(1, 1)), "expected 0 to 8 sizes and as many strides, got 1 and 2")
    refused("ranks", tensor(shape=(1,) * 9, stride=(1,) * 9), "expected 0 to 8 sizes and as many strides, got 9 and 9")
    refused("large_size", tensor(shape=(1 << 80,)), "expected sizes and strides of 0 or more")
    refused("no_storage", tensor(number(4)), "_rebuild_tensor_v2: expected (storage, offset, sizes")
    refused("no_hooks", tensor(end=b"\x89"), "_rebuild_tensor_v2: expected (storage, offset, sizes")
    refused("negated", tensor(end=b"\x89" + ORDERED + b"}" + text("neg") + b"\x88s"),
            "_rebuild_tensor_v2: expected no metadata of a tensor, such as a negated or conjugated view has")
    refused("metadata_none", tensor(end=b"\x89" + ORDERED + b"}"), "tensor 'embeddings.word_embeddings.weight' is missing")
    refused("parameter", b"ctorch._utils\n_rebuild_parameter\n" + group(number(1), b"\x89", ORDERED) + b"R",
            "_rebuild_parameter: expected (tensor, gradient, hooks)")
    # what follows the pickles
    add("other_magic", b"\x80\x02K\x01.", "expected a file of torch.save, got another pickle")
    add("other_version", HEAD[:15] + b"\x80\x02K\x01.", "expected version 1001 of torch.save")
    add("no_keys", pickles(one, ()), "expected the end after the last storage")
    add("no_keys_no_data", pickles(one, (), b""), "the file has no storage '0', which tensor 'x' needs")
    add("unknown_key", pickles(one, ("0", "1"), FOUR + FOUR), "the storage '1' belongs to no tensor")
    add("key_twice", pickles(one, ("0", "0"), FOUR + FOUR), "the storage '0' is there twice")
    add("two_types", pickles(state(("x", tensor()), ("y", tensor(storage(kind="IntStorage"))), ("z", tensor(storage(kind="LongStorage")))),
        ("0",)), "the storage '0' has two types or sizes")
    add("two_sizes", pickles(state(("x", tensor()), ("y", tensor(storage(5))))), "the storage '0' has two types or sizes")
    add("other_size", pickles(one, data=struct.pack("<q4f", 5, 1, 2, 3, 4)), "expected the storage '0' of 4 numbers, got one of 5")
    add("short", pickles(one, data=FOUR[:-1]), "should have 4 numbers of 4 bytes, but the file has only 15 bytes")
    add("no_size", pickles(one, data=FOUR[:5]), "should have 4 numbers of 4 bytes, but the file has only 0 bytes")
    add("more", pickles(one, data=FOUR + b"x"), "expected the end after the last storage")
    # zip files
    add("more_zip", archive(one + b"N"), "a/data.pkl, byte 137: expected the end after STOP")
    damaged, at = archive(one), archive(one).index(b"cpu")
    add("checksum", damaged[:at] + b"gpu" + damaged[at + 3:], "checksum.bin: data.pkl: CRC error")
    add("no_storage_zip", archive(one, ()), "expected the numbers of tensor 'x' as 'a/data/0', which is not there")
    add("short_zip", archive(one, (("a/data/0", FOUR[9:]),)), "should have 4 numbers of 4 bytes, but the file has only 15 bytes")
    add("path", archive(state(("x", tensor(storage(key="../../../../etc/passwd"))))),
        "as 'a/data/../../../../etc/passwd', which is not there")
    add("path_there", archive(state(("x", tensor(storage(key="../../b")))), (("a/data/../../b", FOUR[8:]),)),
        "tensor 'embeddings.word_embeddings.weight' is missing")         # a name in an archive is no path
    add("absolute", archive(one, (("/data/0", FOUR[8:]),), "/"), "tensor 'embeddings.word_embeddings.weight' is missing")
    add("two_folders", archive(one, (("b/data.pkl", one), ("a/data/0", FOUR[8:]))), "expected one data.pkl, got 'a/data.pkl' and 'b/data.pkl'")
    add("no_folder", archive(one, (("data/0", FOUR[8:]),), ""), "it has no FOLDER/data.pkl")
    add("same_name", archive(one, (("a/data/0", FOUR[8:]), ("a/data/0", FOUR[8:]))), "expected every name once in a zip file")
    add("same_pickle", archive(one, (("a/data.pkl", call), ("a/data/0", FOUR[8:]))), "expected every name once in a zip file")
    add("byte_order", archive(one, (("a/byteorder", b"middle"), ("a/data/0", FOUR[8:]))), "'a/byteorder': expected little or big")
    good = archive(one)
    add("cut_zip", good[:-30], "cut_zip.bin: as a zip file: ")
    add("empty", b"", "expected a file of PyTorch's torch.save, got an empty file")
    add("html", b"<html>", "expected a file of PyTorch's torch.save, which begins with PK (a zip file) or 0x80 (a pickle), got 0x3C")
    add("directory", good.replace(b"PK\1\2", b"PK\1\3"), "directory.bin: as a zip file: ")
    (to / "messages.txt").write_text("".join(lines))


def main(folder=FOLDER):
    for name in ("pytorch", "hostile"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    forms(load_file(folder / "bert/model.safetensors"), folder / "pytorch")
    shards(folder / "bert_shards")
    hostile(folder / "hostile")


if __name__ == "__main__": main()
