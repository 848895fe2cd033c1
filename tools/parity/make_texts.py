"""make_texts.py - tiny models that write, in folders of Hugging Face, and what transformers answers: tests/golden/import.

usage: make_texts.py           needs torch, transformers, tokenizers and sentencepiece (measured with 5.24)

Each folder has random weights of an architecture, its tokenizer, lines.txt, and answers.txt: greedy answers of at most
eight tokens, from text to text by transformers' own tokenizer and generate. tests/test_trf_import.sh imports them and
compares what trf translate and trf generate write. Of BART it also compares the loss.
"""
import pathlib, shutil
import torch
import transformers as tf
import published as p

p.NORMALISED["normalization_rule_name"] = "identity"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/import"
LINES = ["the man walks", "a green street with a river", "woman", "the dog plays in the street of the woman", "reads and walks"]
BART = dict(d_model=16, encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_layers=1, decoder_layers=1, forced_eos_token_id=None)
MODELS = {
    "marian": (lambda: tf.MarianMTModel(tf.MarianConfig(
        vocab_size=70, activation_function="swish", scale_embedding=True, max_position_embeddings=32, pad_token_id=69,
        bos_token_id=0, eos_token_id=0, decoder_start_token_id=69, **BART)), p.marian_words, 1),
    "bart": (lambda: tf.BartForConditionalGeneration(tf.BartConfig(
        vocab_size=320, max_position_embeddings=64, **BART)), p.bart_words, 24),
    "t5": (lambda: tf.T5ForConditionalGeneration(tf.T5Config(
        vocab_size=170, d_model=16, d_kv=6, d_ff=24, num_heads=3, num_layers=2, decoder_start_token_id=0)), p.t5_words, 37),
    "gpt2": (lambda: tf.GPT2LMHeadModel(tf.GPT2Config(
        vocab_size=320, n_embd=16, n_head=2, n_layer=2, n_positions=64, bos_token_id=0, eos_token_id=0)), p.gpt2_words, 4),
    "llama": (lambda: tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=280, hidden_size=16, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)), p.llama_words, 12),
}


def main():
    for name, (make, words, seed) in MODELS.items():
        torch.manual_seed(seed)         # one whose answers have letters
        net, folder = p.shake(make()), FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if name == "llama":             # transformers and SentencePiece write bytes that are no UTF-8 differently
            with torch.no_grad(): net.lm_head.weight[3:259] = 0
        if name == "bart": net.generation_config.forced_bos_token_id = 0         # as published models have it
        net.save_pretrained(folder)
        words(folder, net.config)
        for path in folder.glob("*"): path.chmod(0o644)
        tokenizer = tf.AutoTokenizer.from_pretrained(folder)
        c, answers = net.config, []
        for line in LINES:
            ids = tokenizer(line).input_ids
            x = torch.tensor([ids])
            banned = {getattr(c, "pad_token_id", None), tokenizer.unk_token_id}
            if not c.is_encoder_decoder: banned.add(c.bos_token_id)
            y = net.generate(x, attention_mask=torch.ones_like(x), num_beams=1, do_sample=False, max_new_tokens=8,
                             suppress_tokens=[i for i in banned if i is not None and i != c.eos_token_id] or None,
                             pad_token_id=c.pad_token_id if getattr(c, "pad_token_id", None) is not None else c.eos_token_id)[0]
            answers.append(tokenizer.decode(y, skip_special_tokens=True).replace("\n", " "))
            print(name, "|", line, "|", answers[-1])
        if name == "bart":              # the loss where each line is its own target, as the tokenizer makes labels
            losses = [(net(input_ids=torch.tensor([x]), labels=torch.tensor([x])).loss.item(), len(x)) for x in tokenizer(LINES).input_ids]
            tokens = sum(n for _, n in losses)
            (folder / "loss.txt").write_text(f"{sum(l * n for l, n in losses) / tokens} {tokens}\n")
        (folder / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
        (folder / "answers.txt").write_text("\n".join(answers) + "\n", encoding="utf-8")
        if name != "bart": (folder / "generation_config.json").unlink()


main()
