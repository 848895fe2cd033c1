"""make_imports.py - folders of Hugging Face, and what transformers computes with them: tests/golden/import.

usage: make_imports.py         needs torch, transformers, tokenizers, safetensors (measured with 5.x, 0.23.3)

Each folder has random weights of a real architecture, a tokenizer, lines.txt, and expected.txt: for each line the
last hidden state's mean, first row and maximum. tests/test_trf_import.sh imports them and compares. make_pickles.py adds
files of torch.save.
"""
import json, pathlib, shutil
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel
import make_pickles

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/import"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the a man woman dog is are play ##ing ##s ##er run on in street gra ##ss guitar two . , ! ? ' s caf ##e "
         "\u4e2d \u6587 stra ##sse un ##aff ##able x ##y").split()
LINES = ["A man is playing a guitar.", "Two dogs, running!", "the woman is on the grass", "Caf\u00e9 stra\u00dfe \u4e2d\u6587",
         "unaffable xy xyy [MASK]", "?", "zzz the zzz", "a a a a a a a a a a a a a a a a a a a a"]


def bert(folder, seed, names="", **more):
    torch.manual_seed(seed)
    vocabulary = SPECIAL + WORDS + sorted(set("zou\u00dftr") - set(WORDS))
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    config = BertConfig(vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=24, max_position_embeddings=32, **more)
    model = BertModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.3)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    tokenizer.encode_special_tokens = True
    with torch.no_grad(), open(folder / "expected.txt", "w") as f:
        for line in LINES:
            h = model(torch.tensor([tokenizer.encode(line).ids])).last_hidden_state[0]
            for row in (h.mean(0), h[0], h.max(0).values): f.write(" ".join(f"{x:.9g}" for x in row.tolist()) + "\n")
    return folder


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    bert(FOLDER / "bert", 1)
    # the names of bert-base-uncased, in two files, of 16 bits; vocab.txt
    folder = bert(FOLDER / "bert_shards", 2, hidden_act="gelu_new", layer_norm_eps=1e-6)
    state = load_file(folder / "model.safetensors")
    state = {"bert." + n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): x.bfloat16()
             for n, x in state.items()}
    names, parts = sorted(state), {}
    for i, part in enumerate((names[::2], names[1::2])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        save_file({n: state[n].clone() for n in part}, folder / file)
        parts.update({n: file for n in part})
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}, indent=1))
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}\n')
    # what 16 bits leave
    config = BertConfig.from_pretrained(folder)
    model = BertModel(config).eval()
    model.load_state_dict({n[5:].replace("gamma", "weight").replace("beta", "bias"): x.float() for n, x in state.items()}, strict=False)
    ids = Tokenizer.from_file(str(FOLDER / "bert/tokenizer.json")); ids.encode_special_tokens = True
    with torch.no_grad(), open(folder / "expected.txt", "w") as f:
        for line in LINES:
            h = model(torch.tensor([ids.encode(line).ids])).last_hidden_state[0]
            for row in (h.mean(0), h[0], h.max(0).values): f.write(" ".join(f"{x:.9g}" for x in row.tolist()) + "\n")
    make_pickles.main(FOLDER)


main()
