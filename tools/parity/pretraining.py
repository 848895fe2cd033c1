"""Are both losses of BERT's pretraining those of transformers, alone and while they are learned?

    cc -O2 -I. tools/parity/parity.c -o build/parity -lopenblas -lm
    python3 tools/parity/pretraining.py         needs torch and transformers (measured with 5.24); trf and parity in build/

A BertForPreTraining with random weights, as transformers draws them, is saved by save_pretrained and imported by trf. Fifty
batches of pairs with hidden tokens, and with a label for each pair but some, go through both. transformers computes its own
loss, from padded batches: the mean over the hidden tokens plus the mean over the labels of pairs.
Every loss of both, and that of the labels alone, is as near to PyTorch's in double as PyTorch's own in float is, or within
1e-5. Prints how far apart they are; the exit status is 1 if it is more.
"""
import copy, json, pathlib, random, sys, tempfile
import torch, torch.nn.functional as F
import transformers as tf
from published import run, write_batches, PARITY, STEPS, TOLERANCE, TRF

tf.logging.disable_progress_bar()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB, PAIRS, D = 200, 12, 64


def make_batch(r):
    """Pairs: their ids without [CLS] and the last [SEP], and the label of the pair, then those of the ids."""
    batch = []
    for _ in range(PAIRS):
        first, second = ([r.randrange(5, VOCAB) for _ in range(r.randrange(1, 12))] for _ in range(2))
        ids, labels = first + [SEP] + second, []
        for k, i in enumerate(ids):
            hidden = i != SEP and r.random() < 0.2
            labels.append(i if hidden else -1)
            if hidden and r.random() < 0.8: ids[k] = MASK
        batch.append((ids, [r.choice([0, 1, 1, -1])] + labels))
    batch[0][1][0], batch[0][1][1] = 1, 7           # a label of both kinds
    return batch


def losses_of_torch(net, batches, dtype):
    """The losses of all updates: transformers' own, and that of the labels of pairs."""
    net = copy.deepcopy(net).to(dtype).train()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout): m.p = 0.0
    adam = torch.optim.Adam(net.parameters(), betas=(0.9, 0.98), eps=1e-6)
    losses = []
    for step, batch in enumerate(batches, 1):
        longest = max(len(ids) for ids, _ in batch) + 2
        padded = lambda row, with_: torch.tensor([row + [with_] * (longest - len(row))])
        ids = torch.cat([padded([CLS] + x + [SEP], PAD) for x, _ in batch])
        kinds = torch.cat([padded([0] * (x.index(SEP) + 2) + [1] * (len(x) - x.index(SEP)), 0) for x, _ in batch])
        labels = torch.cat([padded([-100] + [-100 if i < 0 else i for i in y[1:]], -100) for _, y in batch])
        of_pairs = torch.tensor([-100 if y[0] < 0 else y[0] for _, y in batch])
        out = net(input_ids=ids, token_type_ids=kinds, attention_mask=(ids != PAD).long(), labels=labels,
                  next_sentence_label=of_pairs)
        adam.zero_grad()
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for g in adam.param_groups: g["lr"] = 0.1 * D ** -0.5 * min(step ** -0.5, step * 20 ** -1.5)
        adam.step()
        losses.append((out.loss.item(), F.cross_entropy(out.seq_relationship_logits, of_pairs).item()))
    return losses


def main():
    torch.manual_seed(1)
    r = random.Random(1)
    net = tf.BertForPreTraining(tf.BertConfig(vocab_size=VOCAB, hidden_size=D, num_hidden_layers=2, num_attention_heads=4,
                                              intermediate_size=128, max_position_embeddings=64))
    batches = [make_batch(r) for _ in range(STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        net.save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(SPECIAL + [f"w{i}" for i in range(VOCAB - 5)]) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
        run(TRF, "import", folder, "--output", folder / "model.trf")
        (folder / "config.txt").write_text("threads 1\nlabel_smoothing 0\nlearning_rate 0.1\nwarmup 20\nepsilon 1e-6\n")
        write_batches(folder / "batches", batches)
        rows = run(PARITY, "train", folder / "config.txt", folder / "model.trf", folder / "batches").splitlines()
    got = [(float(row.split()[0]), float(row.split()[3])) for row in rows]
    assert len(got) == STEPS
    theirs = {dtype: losses_of_torch(net, batches, dtype) for dtype in (torch.float32, torch.float64)}
    failed = False
    for which, name in enumerate(("both losses", "labels of pairs")):
        want = [x[which] for x in theirs[torch.float64]]
        apart = lambda losses: max(abs(x[which] - y) / y for x, y in zip(losses, want))
        bad = not apart(got) <= max(TOLERANCE, apart(theirs[torch.float32]))
        failed |= bad
        print(f"{name:16} from {want[0]:.4f} to {want[-1]:.4f} in {STEPS} updates: {apart(got):.1e} apart, PyTorch's float32 "
              f"{apart(theirs[torch.float32]):.1e}" + ("  FAILED" if bad else ""))
    sys.exit(failed)


if __name__ == "__main__": main()
