"""make_imports.py - folders of Hugging Face, and what transformers computes with them: tests/golden/import.

usage: make_imports.py         needs torch, transformers, tokenizers, safetensors (measured with 5.x, 0.23.3)

Each folder has random weights of a real architecture, a tokenizer, lines.txt, and expected.txt: for each line the
last hidden state's mean, first row and maximum. tests/test_trf_import.sh imports them and compares. make_pickles.py adds
files of torch.save.
"""
import json, pathlib, shutil
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import make_pickles
from transformers import (BertConfig, BertForMaskedLM, BertForNextSentencePrediction, BertForPreTraining,
                          BertForSequenceClassification, BertForTokenClassification, BertModel, RobertaForMaskedLM,
                          RobertaForSequenceClassification)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/import"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the a man woman dog is are play ##ing ##s ##er run on in street gra ##ss guitar two . , ! ? ' s caf ##e "
         "\u4e2d \u6587 stra ##sse un ##aff ##able x ##y").split()
LINES = ["A man is playing a guitar.", "Two dogs, running!", "the woman is on the grass", "Caf\u00e9 stra\u00dfe \u4e2d\u6587",
         "unaffable xy xyy [MASK]", "?", "zzz the zzz", "a a a a a a a a a a a a a a a a a a a a"]


def word_piece():
    vocabulary = SPECIAL + WORDS + sorted(set("zou\u00dftr") - set(WORDS))
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def byte_bpe():
    """RoBERTa's, with a blank in front."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                                             show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def bert(folder, seed, tokenizer, width=16, **more):
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=width, num_hidden_layers=2, num_attention_heads=4,
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
    bert(FOLDER / "bert", 1, word_piece())
    # a tokenizer in both forms
    folder = bert(FOLDER / "byte_bpe", 3, byte_bpe(), 8)
    state = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(state["vocab"], ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in state["merges"]), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}\n')
    # the names of bert-base-uncased, in two files, of 16 bits; vocab.txt
    folder = bert(FOLDER / "bert_shards", 2, word_piece(), hidden_act="gelu_new", layer_norm_eps=1e-6)
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


PAIRS = [("A man is playing a guitar.", "the woman is on the grass"), ("Two dogs, running!", "?"),
         ("a a a a a a a a a a a a", "the the the the the")]


def headed(name, seed, model_class, pad=0, **more):
    """A model with a head. scores.txt: probability and label of each line and of each pair (pairs.tsv), or the labels
    of the words of each line, of a tagger, or all outputs of a model with several labels at once, or with numbers."""
    torch.manual_seed(seed)
    roberta = "Roberta" in model_class.__name__
    # RoBERTa counts positions from behind pad, which is 1 there; its tokenizer is another, so this one is BERT's
    special = ["[UNK]", "[PAD]"] + SPECIAL[2:] if pad else SPECIAL
    vocabulary = special + WORDS + sorted(set("zou\u00dftr") - set(WORDS))
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    config = model_class.config_class(vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1,
                                      num_attention_heads=2, intermediate_size=24, max_position_embeddings=32,
                                      type_vocab_size=1 if roberta else 2, pad_token_id=pad, **more)
    model = model_class(config).eval()
    with torch.no_grad():
        for n, p in model.named_parameters(): p.normal_(1.0 if n.lower().endswith("norm.weight") else 0.0, 0.3)
    folder = FOLDER / name
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    if "MaskedLM" in model_class.__name__: return
    tokenizer.encode_special_tokens = True
    ids_of = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")

    def answer(z):
        one = len(z) == 1 and "Sigmoid" in str(more.get("sentence_transformers"))
        if config.problem_type == "multi_label_classification" or one: return " ".join(f"{x:.8g}" for x in z.sigmoid())
        if config.problem_type == "regression" or len(z) == 1: return " ".join(f"{x:.8g}" for x in z)
        p = z.softmax(-1)
        return f"{p.max():.6f}\t{config.id2label[int(p.argmax())]}"

    def logits(ids, kinds):
        kinds = [0] * len(ids) if roberta else kinds
        with torch.no_grad(): out = model(torch.tensor([ids]), token_type_ids=torch.tensor([kinds]))
        return (out.logits if "logits" in out else out.seq_relationship_logits)[0]
    with open(folder / "scores.txt", "w") as f:
        for line in LINES:
            if "Token" in model_class.__name__:
                words = [ids_of(w) for w in line.split()]
                z = logits([2] + sum(words, []) + [3], [0] * (2 + sum(map(len, words))))
                firsts = [1 + sum(map(len, words[:i])) for i in range(len(words))]
                f.write(" ".join(config.id2label[int(z[i].argmax())] for i in firsts) + "\n")
                continue
            ids = [2] + ids_of(line) + [3]
            f.write(answer(logits(ids, [0] * len(ids))) + "\n")
        for first, second in PAIRS if "Token" not in model_class.__name__ else []:
            a, b = [2] + ids_of(first) + [3], ([3] if roberta else []) + ids_of(second) + [3]
            f.write(answer(logits(a + b, [0] * len(a) + [1] * len(b))) + "\n")


main()
names = lambda *labels: dict(id2label=dict(enumerate(labels)), label2id={l: i for i, l in enumerate(labels)})
headed("bert_first", 3, BertForSequenceClassification, **names("neutral", "contradiction", "entailment"))
headed("bert_next", 4, BertForNextSentencePrediction)
headed("bert_tokens", 5, BertForTokenClassification, hidden_act="relu", **names("O", "B-PER", "I-PER"))
headed("bert_masked", 6, BertForMaskedLM)
headed("roberta_first", 7, RobertaForSequenceClassification, pad=1, **names("b", "a"))
headed("roberta_masked", 8, RobertaForMaskedLM, pad=1)
headed("bert_both", 9, BertForPreTraining, **names("next", "random"))
score = lambda kind: dict(num_labels=1, sentence_transformers=dict(activation_fn="torch.nn.modules." + kind))
headed("bert_rank", 10, BertForSequenceClassification, **score("linear.Identity"))
headed("roberta_rank", 11, RobertaForSequenceClassification, pad=1, **score("activation.Sigmoid"))
headed("bert_any", 12, BertForSequenceClassification, problem_type="multi_label_classification", **names("joy", "anger", "fear"))
headed("bert_numbers", 13, BertForSequenceClassification, problem_type="regression", **names("valence", "arousal"))
