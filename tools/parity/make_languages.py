"""make_languages.py - tiny models of several languages, in folders of Hugging Face, and what transformers answers:
tests/golden/import.

usage: make_languages.py       needs torch, transformers, tokenizers and sentencepiece (measured with 5.24)

Each folder has random weights, the class's tokenizer in one of its forms, lines.txt, languages.txt (of sources and answers), and
answers.txt: greedy answers of at most eight tokens, from text to text by transformers' own tokenizer and generate.
tests/test_trf_import.sh imports them and compares.
"""
import json, os, pathlib, shutil
import sentencepiece, torch
import transformers as tf
import transformers.models.nllb.tokenization_nllb as nllb
import published as p

p.NORMALISED["normalization_rule_name"] = "identity"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/import"
LINES = ["the man walks", "a green street with a river", "woman", "the dog plays in the street of the woman", "reads xyz and walks"]
SIZES = dict(d_model=8, encoder_ffn_dim=8, decoder_ffn_dim=8, encoder_attention_heads=2, decoder_attention_heads=2, encoder_layers=1,
             decoder_layers=1, max_position_embeddings=64, forced_eos_token_id=None, scale_embedding=True)
# name: class, model, configuration, kind of pieces, languages, whether tokenizer.json alone is kept
CASES = {
    "m2m_100": ("M2M100Tokenizer", tf.M2M100ForConditionalGeneration, tf.M2M100Config, "bpe", "en", "fr", False),
    "nllb": ("NllbTokenizer", tf.M2M100ForConditionalGeneration, tf.M2M100Config, "bpe", "eng_Latn", "fra_Latn", True),
    "mbart": ("MBartTokenizer", tf.MBartForConditionalGeneration, tf.MBartConfig, "unigram", "en_XX", "ro_RO", False),
    "mbart50": ("MBart50Tokenizer", tf.MBartForConditionalGeneration, tf.MBartConfig, "unigram", "en_XX", "fr_XX", False),
}


def tokenizer_of(folder, cls, kind):
    """A folder's tokenizer with sixty pieces."""
    p.spm(folder, "sentencepiece.bpe.model", 60, model_type=kind)
    config = {"tokenizer_class": cls}
    if cls == "M2M100Tokenizer":
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
        words = ["<s>", "<pad>", "</s>", "<unk>"] + [pieces.id_to_piece(i) for i in range(pieces.get_piece_size() - 1, 2, -1)]
        (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    if cls == "NllbTokenizer":
        config["additional_special_tokens"] = nllb.FAIRSEQ_LANGUAGE_CODES
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return getattr(tf, cls).from_pretrained(folder)


def xlm_roberta():
    """XLM-R, and the mean of each line's last states, of length 1."""
    folder = begin("xlm_roberta")
    tokenizer = tokenizer_of(folder, "XLMRobertaTokenizer", "unigram")
    torch.manual_seed(1)
    net = p.shake(tf.XLMRobertaModel(tf.XLMRobertaConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5), add_pooling_layer=False))
    net.save_pretrained(folder)
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    with open(folder / "numbers.txt", "w") as f:
        for line in LINES:
            with torch.no_grad(): states = net(torch.tensor([tokenizer(line).input_ids])).last_hidden_state[0]
            f.write(" ".join(f"{x:.6f}" for x in torch.nn.functional.normalize(states.mean(0), dim=0).tolist()) + "\n")
    for path in folder.glob("*"): path.chmod(0o644)


def json_of_others():
    """tokenizer.json of the folders t5, mbart50 and llama, which have the file of SentencePiece: as the class saves it, and as version
    4 converted it. mbart50.json also has a map of characters, which makes "ab" of "A"."""
    from languages import converted
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Regex, normalizers, processors
    folder = begin("json")
    tf.T5Tokenizer.from_pretrained(FOLDER / "t5").save_pretrained(folder)
    (folder / "tokenizer.json").rename(folder / "t5.json")
    (folder / "rules").write_text("41\t61 62\n42\t62\n")
    p.spm(folder, "mapped.model", 60, normalization_rule_tsv=str(folder / "rules"))
    tokenizer = tf.MBart50Tokenizer.from_pretrained(FOLDER / "mbart50")
    proto = sentencepiece_model_pb2.ModelProto.FromString((folder / "mapped.model").read_bytes())
    tokenizer._tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer._tokenizer.save(str(folder / "mbart50.json"))
    for left in ("tokenizer_config.json", "mapped.model", "rules"): (folder / left).unlink()
    spm = FOLDER / "llama/tokenizer.model"
    tokenizer = converted(sentencepiece.SentencePieceProcessor(model_file=str(spm)), spm, "llama")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "llama.json"))


def begin(name):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def answers_of(net, tokenizer, name, source, tag):
    tokenizer.src_lang, found = source, []
    for line in LINES:
        x = torch.tensor([tokenizer(line).input_ids])
        more = {} if name == "mbart" else {"forced_bos_token_id": tag}
        if name == "mbart": net.config.decoder_start_token_id = net.generation_config.decoder_start_token_id = tag
        found.append(net.generate(x, attention_mask=torch.ones_like(x), num_beams=1, do_sample=False, max_new_tokens=8, pad_token_id=1,
                                  **more)[0].tolist())
    return found


def losses():
    """loss.txt: the mean loss of the lines with their reversed words as targets, from each folder's own tokenizer. mBART-25 also
    predicts the tag behind EOS, which is left out here: an answer has ended by then. nllb.legacy is NLLB with its older tags."""
    for name in (*CASES, "nllb.legacy"):
        folder, legacy = name.partition(".")[::2]
        cls, model, _, _, source, target, _ = CASES[folder]
        tokenizer = getattr(tf, cls).from_pretrained(FOLDER / folder, **({"legacy_behaviour": True} if legacy else {}))
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
        net, total, count = model.from_pretrained(FOLDER / folder).eval(), 0.0, 0
        for line in LINES:
            x = torch.tensor([tokenizer(line).input_ids])
            words = tokenizer(" ".join(line.split()[::-1]), add_special_tokens=False).input_ids
            tag = tokenizer.convert_tokens_to_ids(f"__{target}__" if folder == "m2m_100" else target)
            labels = [tag] * (folder != "mbart") + words + [2]
            start = net.config.decoder_start_token_id
            with torch.no_grad():
                logits = net(input_ids=x, decoder_input_ids=torch.tensor([[start] + labels[:-1]])).logits[0].double()
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="sum").item()
            count += len(labels)
        print(name, total / count, count)
        (FOLDER / folder / f"loss{'.' * bool(legacy)}{legacy}.txt").write_text(f"{total / count:.6f} {count}\n")


def main():
    for name, (cls, model, config, kind, source, target, alone) in CASES.items():
        folder = begin(name)
        tokenizer = tokenizer_of(folder, cls, kind)
        spm = folder / "sentencepiece.bpe.model"
        if alone:
            spm = spm.rename(FOLDER / "nllb.model")
            tokenizer.save_pretrained(folder)
        token = (lambda code: f"__{code}__") if name == "m2m_100" else (lambda code: code)
        others = {"m2m_100": "de", "nllb": "deu_Latn"}.get(name, "de_DE")
        tag, source_tag, other = (tokenizer.convert_tokens_to_ids(token(x)) for x in (target, source, others))
        n = {"m2m_100": len(tokenizer) + 100, "nllb": len(tokenizer)}.get(name, len(tokenizer) - 8) + 8
        words = sentencepiece.SentencePieceProcessor(model_file=str(spm))
        words = set(tokenizer.convert_tokens_to_ids([words.id_to_piece(i) for i in range(3, words.get_piece_size())]))
        for seed in range(1000):        # one whose answers are words and depend on the tags
            torch.manual_seed(seed)
            net = p.shake(model(config(vocab_size=n, decoder_start_token_id=tag if name == "mbart" else 2, **SIZES)))
            with torch.no_grad():
                for i in set(range(n)) - words - {2}: net.get_input_embeddings().weight[i] *= 1 if i in (tag, source_tag, other) else 0
            answers = answers_of(net, tokenizer, name, source, other)
            if all(a[-3:] == b[-3:] for a, b in zip(answers, answers_of(net, tokenizer, name, source, tag))): continue
            answers = answers_of(net, tokenizer, name, others, tag)
            same, answers = answers, answers_of(net, tokenizer, name, source, tag)
            if same == answers or len(set(map(tuple, answers))) < 3: continue
            if set(sum((a[1 + (name != "mbart"):] for a in answers), [])) <= words | {2}: break
        net.save_pretrained(folder)
        if spm.parent != folder: spm.unlink()
        answers = [tokenizer.decode(a, skip_special_tokens=True).replace(token(target), "").strip() for a in answers]
        print(name, seed, answers)
        (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
        (folder / "languages.txt").write_text(f"{source} {target}\n")
        (folder / "answers.txt").write_text("\n".join(answers) + "\n", encoding="utf-8")
        (folder / "generation_config.json").unlink(missing_ok=True)
        for path in folder.glob("*"): path.chmod(0o644)
    losses()
    xlm_roberta()
    json_of_others()


if __name__ == "__main__": main()
