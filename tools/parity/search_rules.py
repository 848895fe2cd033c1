"""Are the rules of trf_search those of Hugging Face's generate?

    cc -O2 -I. tools/parity/parity.c -o build/parity -lopenblas -lm
    python3 tools/parity/search_rules.py [build/parity]        needs torch, safetensors and transformers; minutes

Random Marian models (decoder start PAD or EOS) and GPT-2 models, 8 sources or prompts each, greedy and with beams of 2
to 5. Each model gets some of the rules: forced_bos_token_id, forced_eos_token_id, tags of the source, suppress_tokens,
decoder_start_token_id, bad_words_ids, no_repeat_ngram_size, repetition_penalty, min_length, a list as eos_token_id, and decoder_input_ids (a forced prefix). Every
answer is the same, and every score to 1e-5. The table says for each rule how many answers it had, and how many of these
generate answers otherwise without the rule: a rule that changes nothing would compare nothing. A sampler at temperature
0 answers as greedy search does, where the rules are those that it has too.
What is not compared: scores of greedy search (generate gives none).
"""
import pathlib, random, sys, tempfile
if len(sys.argv) > 1: sys.argv.insert(1, "")        # parity.py takes the program from its second argument
import torch
from safetensors.torch import save_file
from parity import (BOS, EARLY_STOPPING, EOS, HUGGING_FACE, PAD, SCORE_TOLERANCE, hugging_face_model, run_c, sharpen,
                    write_batches, write_config)

KEEP_LIVE, FREE_EOS = 0, 3
WANTED = 1500                                        # answers of each kind of model


def some_ids(r, vocab, n): return [r.randrange(4, vocab) for _ in range(n)]


def case(r, number, gpt2):
    """A model, options of both sides, sources and prefixes."""
    heads = r.choice([1, 2, 4])
    vocab = r.randrange(30, 60)
    model = dict(d_model=heads * r.choice([4, 6, 8]), n_heads=heads, d_ff=r.randrange(8, 50), activation=2,
                 encoder_layers=r.randrange(1, 3), decoder_layers=r.randrange(1, 3), source_vocab=vocab,
                 target_vocab=vocab, generator_bias=1)
    if gpt2: model.update(kind=2, norm_place=1, positions=3, scale_embeddings=0, tying=1, encoder_layers=0,
                          max_length=129, generator_bias=0)
    else: model.update(norm_place=0, tying=2, positions=2, final_norm=0, decoder_start=r.choice([1, 2]))
    beam = 1 + number % 5
    prefix = 0 if gpt2 else r.choice([0, 0, 0, 2])
    rules = {}
    if r.random() < 0.4 and not gpt2: rules["forced_first"] = r.randrange(4, vocab)
    if r.random() < 0.3 and not gpt2: rules["start"] = r.randrange(4, vocab)
    if r.random() < 0.4: rules["free_eos"] = True
    if r.random() < 0.3 and not gpt2: rules["source_first"] = r.randrange(4, vocab)
    if r.random() < 0.3 and not gpt2: rules["source_last"] = r.randrange(4, vocab)
    if r.random() < 0.4: rules["suppress"] = some_ids(r, vocab, r.randrange(1, 8))
    if "suppress" in rules and rules.get("forced_first") in rules["suppress"]:     # generate refuses it
        del rules["forced_first"]
    if r.random() < 0.4: rules["bad_words"] = [some_ids(r, vocab, r.choice([1, 1, 2, 2, 2, 3])) for _ in range(60)]
    if r.random() < 0.4: rules["ngram"] = r.choice([1, 2, 2, 3])
    if r.random() < 0.4: rules["penalty"] = r.choice([0.6, 1.3, 2.0])
    if r.random() < 0.4:
        alone = [b[0] for b in rules.get("bad_words", []) if len(b) == 1]
        taken = set(rules.get("suppress", []) + alone + [rules.get("forced_first")])
        rules["ends"] = [i for i in some_ids(r, vocab, r.choice([1, 2, 3])) if i not in taken]
        if not rules["ends"]: del rules["ends"]
    ask = dict(rule=HUGGING_FACE, beam=beam, n_best=r.randrange((beam + 1) // 2, beam + 1),
               alpha=r.choice([0.6, 1, 1, 1.5]), stop=r.choice(list(EARLY_STOPPING)),
               min_length=r.choice([0, 0, 1, 3]), max_length_b=prefix + r.randrange(5, 14))
    pairs = [(some_ids(r, vocab, r.randrange(1, 10)), some_ids(r, vocab, prefix)) for _ in range(8)]
    return model, ask, rules, pairs


def write_ours(path, model, ask, rules):
    write_config(path, {**model, **ask, "threads": 1, "at_limit": FREE_EOS if "free_eos" in rules else KEEP_LIVE,
                        "no_repeat_ngram": rules.get("ngram", 0), "repetition_penalty": rules.get("penalty", 1),
                        **{k: rules[k] for k in ("start", "forced_first", "source_first", "source_last") if k in rules}})
    banned = [[i] for i in rules.get("suppress", [])] + rules.get("bad_words", [])
    with open(path, "a") as f:
        f.write("".join(f"end {i}\n" for i in rules.get("ends", [])))
        for sequence in banned: f.write("".join(f"banned{'+' * (k > 0)} {i}\n" for k, i in enumerate(sequence)))


def gpt2_model(c):
    from transformers import GPT2Config, GPT2LMHeadModel, logging
    logging.set_verbosity_error()
    net = GPT2LMHeadModel(GPT2Config(
        vocab_size=c["target_vocab"], n_positions=c["max_length"], n_embd=c["d_model"], n_layer=c["decoder_layers"],
        n_head=c["n_heads"], n_inner=c["d_ff"], activation_function="silu", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD)).eval()
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.normal_(0, 0.5 if p.dim() == 1 else p.shape[-1] ** -0.5)
            if "ln_" in name and "weight" in name: p.add_(1)
        at = net.transformer.ln_f.bias.double()     # the tied projection has no bias: EOS lies where the last norm does
        net.transformer.wte.weight[EOS] = (at / at.norm() ** 2 * 2 * torch.rand(())).float()
    theirs, ours = net.state_dict(), {}
    ours["tgt_embed.weight"] = theirs["transformer.wte.weight"]
    ours["tgt_positions.weight"] = theirs["transformer.wpe.weight"]
    for kind in (".weight", ".bias"):
        ours["decoder.norm" + kind] = theirs["transformer.ln_f" + kind]
        for i in range(c["decoder_layers"]):
            a, b = f"transformer.h.{i}.", f"decoder.layers.{i}."
            ours[b + "norm1" + kind], ours[b + "norm2" + kind] = theirs[a + "ln_1" + kind], theirs[a + "ln_2" + kind]
            for x, y in (("attn.c_attn", "self_attn.in_proj_"), ("attn.c_proj", "self_attn.out_proj."),
                         ("mlp.c_fc", "linear1."), ("mlp.c_proj", "linear2.")):
                w = theirs[a + x + kind]
                ours[b + y + kind[1:]] = w.T if kind == ".weight" else w
    return net, {k: v.contiguous().clone() for k, v in ours.items()}


def generate(net, model, ask, rules, pairs, gpt2):
    answers = []
    for source, prefix in pairs:
        start = [BOS] if gpt2 else [rules.get("start", EOS if model["decoder_start"] == 1 else PAD)]
        if not gpt2: net.generation_config.decoder_start_token_id = start[0]
        if gpt2: begin, ids = start + source, start + source
        else:
            begin = start + prefix
            ids = [rules[k] for k in ["source_first"] if k in rules] + source + [EOS]
            ids += [rules[k] for k in ["source_last"] if k in rules]
        ids = torch.tensor([ids])
        # begin counts in both lengths; here the prompt of a decoder-only model does not
        limit = (len(begin) if gpt2 else 1) + ask["max_length_b"] + ("free_eos" in rules)
        least = (len(begin) if gpt2 else 1) + ask["min_length"]
        options = dict(attention_mask=torch.ones_like(ids), num_beams=ask["beam"], do_sample=False,
                       num_return_sequences=ask["n_best"], length_penalty=ask["alpha"], max_length=limit,
                       min_length=least, suppress_tokens=[PAD] + [BOS] * gpt2 + rules.get("suppress", []),
                       return_dict_in_generate=True, output_scores=True, pad_token_id=PAD)
        if ask["beam"] > 1: options["early_stopping"] = EARLY_STOPPING[ask["stop"]]
        if not gpt2: options.update(decoder_input_ids=torch.tensor([begin]))
        if "forced_first" in rules: options["forced_bos_token_id"] = rules["forced_first"]
        if "free_eos" in rules: options["forced_eos_token_id"] = EOS
        if "bad_words" in rules: options["bad_words_ids"] = rules["bad_words"]
        if "ngram" in rules: options["no_repeat_ngram_size"] = rules["ngram"]
        if "penalty" in rules: options["repetition_penalty"] = float(rules["penalty"])
        ends = sorted({EOS, *rules.get("ends", [])})
        if "ends" in rules: options["eos_token_id"] = ends
        x = net.generate(ids, **options)
        scores = x.sequences_scores.tolist() if ask["beam"] > 1 else [None]
        skip = len(begin) - len(prefix) + ("forced_first" in rules and not prefix)
        rows = [[i for i in row[skip:].tolist() if i != PAD] for row in x.sequences]
        at = [next((k for k in range(len(prefix), len(h)) if h[k] in ends), len(h)) for h in rows]
        answers.append([(s, h[:k], k < len(h)) for s, h, k in zip(scores, rows, at)])
    return answers


def sampled(folder, model, ask, rules, pairs, want):
    """How many answers of a sampler are not those of greedy generate. The prompt is no part of its answers."""
    prefix = len(pairs[0][1])
    write_ours(folder / "sampling", model, dict(ask, min_length=max(0, ask["min_length"] - prefix),
                                                max_length_b=ask["max_length_b"] - prefix), rules)
    got = run_c("sample", folder / "sampling", folder / "model.safetensors", folder / "batches")
    return sum([int(x) for x in line[4:]] != answer[0][1][prefix:] for line, answer in zip(got, want)) \
        + abs(len(got) - len(want))


def compare(folder, gpt2):
    counts, changed = {}, {}
    answers = greedy = wrong = number = drawn = 0
    apart = 0.0
    while answers < WANTED:
        r = random.Random(5000 * gpt2 + number)
        torch.manual_seed(5000 * gpt2 + number)
        model, ask, rules, pairs = case(r, number, gpt2)
        number += 1
        net, state = (gpt2_model if gpt2 else hugging_face_model)(model)
        if gpt2: pairs = [(s, []) for s, _ in pairs]
        write_ours(folder / "config", model, ask, rules)
        write_batches(folder / "batches", [[([], prompt) for prompt, _ in pairs] if gpt2 else pairs])
        save_file(state, folder / "model.safetensors")
        got = [[] for _ in pairs]
        for line in run_c("search", folder / "config", folder / "model.safetensors", folder / "batches"):
            got[int(line[0])].append((line[2], [int(x) for x in line[4:]], line[1] == 1))
        want = generate(net, model, ask, rules, pairs, gpt2)
        for a, b in zip(got, want):
            wrong += abs(len(a) - len(b))
            for x, y in zip(a, b):
                answers += 1
                greedy += y[0] is None
                wrong += x[1:] != y[1:]
                if x[1:] != y[1:] and wrong < 4: print("differ:", model, ask, rules, x, y, sep="\n  ")
                if x[1:] != y[1:] or y[0] is None: continue
                this = abs(x[0] - y[0]) / max(abs(y[0]), 1e-3)
                if not this <= apart: apart = this                  # NaN too, which then stays
        if ask["beam"] == 1 and not {"start", "forced_first", "source_first", "source_last"} & set(rules):
            drawn += len(want)
            wrong += sampled(folder, model, ask, rules, pairs if not gpt2 else [([], [])], want)
        for name in rules:
            if name == "forced_first" and pairs[0][1]: continue     # the prefix replaces it
            other = generate(net, model, ask, {k: v for k, v in rules.items() if k != name}, pairs, gpt2)
            counts[name] = counts.get(name, 0) + sum(map(len, want))
            changed[name] = changed.get(name, 0) + sum(x[1:] != y[1:] for a, b in zip(want, other)
                                                       for x, y in zip(a, b))
    print(f"{'GPT-2' if gpt2 else 'Marian'}: {answers} answers of {number} models, {greedy} of them greedy, and {drawn} of "
          f"samplers: {wrong} differ, scores within {apart:.1e}")
    for name in sorted(counts): print(f"    {name:13} {counts[name]:4} answers, {changed[name]:4} changed by it")
    return wrong == 0 and apart <= SCORE_TOLERANCE and greedy >= 50 and drawn >= 10 and all(changed.values())


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        good = all([compare(pathlib.Path(name), gpt2) for gpt2 in (False, True)])
    print("the same" if good else "DIFFERENT")
    return 0 if good else 1


if __name__ == "__main__": sys.exit(main())
