"""Makes tests/golden/sampling.h: what Hugging Face's processors, in the order of its generate(), make of logits.

    python3 tools/parity/sampling.py            needs torch and transformers; seconds
"""
import inspect, pathlib, torch, transformers
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

VOCAB, FREE, IDS = 23, 22, 7       # id 22 has no weight: the library never draws pad and bos, which the test puts there
CASES = [dict(), dict(temperature=0.5), dict(top_k=4), dict(top_p=0.6), dict(min_p=0.2), dict(repetition_penalty=1.5),
         dict(temperature=2.0, top_k=9, top_p=0.8), dict(temperature=0.7, top_p=0.5, min_p=0.3),
         dict(temperature=1.4, top_k=12, top_p=0.9, min_p=0.1, repetition_penalty=0.6),
         dict(temperature=0.9, top_k=15, top_p=0.85, min_p=0.02, repetition_penalty=1.3),
         dict(no_repeat_ngram_size=1), dict(no_repeat_ngram_size=2), dict(no_repeat_ngram_size=3, repetition_penalty=1.3),
         dict(bad_words_ids=[[5], [4, 6], [3, 4, 7], [8, 4, 9], [11], [3, 5, 3, 4, 10], [4, 3, 5, 3, 5, 3, 4, 12]]),
         dict(temperature=0.8, top_k=8, no_repeat_ngram_size=2, bad_words_ids=[[6], [4, 20], [4, 3]],
              repetition_penalty=1.2)]
DEFAULTS = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, no_repeat_ngram_size=0,
                bad_words_ids=None)
REPEATS = [4, 3, 5, 3, 5, 3, 4]     # where runs of tokens matter

model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=8, n_layer=1, n_head=1))
torch.manual_seed(1)
lines = []
for case in CASES:
    rules = DEFAULTS | case
    ids = torch.randint(3, VOCAB - 1, (IDS,)).tolist()
    if rules["no_repeat_ngram_size"] or rules["bad_words_ids"]: ids = REPEATS
    z = torch.round(torch.randn(1, VOCAB) * 2 * 1000) / 1000
    z[0, FREE] = -1e30
    config = GenerationConfig(do_sample=True, pad_token_id=None, eos_token_id=None, **rules)
    prepared = model._prepare_generation_config(config)
    prepared = prepared[0] if isinstance(prepared, tuple) else prepared
    prepared._eos_token_tensor = None
    processors = model._get_logits_processor(prepared, input_ids_seq_length=IDS)
    p = torch.softmax(processors(torch.tensor([ids]), z.clone()).double(), -1)[0]
    p[FREE] = 0
    numbers = lambda x: ", ".join("%.9g" % v for v in x)
    banned = rules["bad_words_ids"] or []
    whole = lambda x: ", ".join(map(str, x or [0]))
    lines.append("    { %.9g, %.9g, %.9g, %.9g, %d, { %s }, %d, %d, { %s }, { %s },\n      { %s },\n      { %s } }" % (
        rules["temperature"], rules["top_p"], rules["min_p"], rules["repetition_penalty"], rules["top_k"], whole(ids),
        rules["no_repeat_ngram_size"], len(banned), whole([len(x) for x in banned]), whole(sum(banned, [])), numbers(z[0].tolist()), numbers(p.tolist())))
    print([type(x).__name__ for x in processors], rules)
text = """/* Made by tools/parity/sampling.py with transformers %s: logits, ids before them, and the probabilities of its rules. */
enum { GOLDEN_SAMPLING_VOCAB = %d, GOLDEN_SAMPLING_IDS = %d };
typedef struct golden_sampling_case {
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k, ids[GOLDEN_SAMPLING_IDS], no_repeat_ngram, n_banned, banned_lengths[8], banned[40];
    double logits[GOLDEN_SAMPLING_VOCAB], probabilities[GOLDEN_SAMPLING_VOCAB];
} golden_sampling_case;
static const golden_sampling_case golden_sampling[] = {
%s
};
""" % (transformers.__version__, VOCAB, IDS, ",\n".join(lines))
(pathlib.Path(__file__).resolve().parents[2] / "tests/golden/sampling.h").write_text(text)
