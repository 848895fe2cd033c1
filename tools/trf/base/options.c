// trf: the table of all options, each once.
//
// A row gives the parsing, the help text with its default, the option's line in a checkpoint's
// settings, and the check that a resumed training run keeps its model. An option that
// sets a field of the library's structs has the field's name.

#include "options.h"

const struct row rows[] = {
    {INSPECT, HEADING, "A model without a file (by options of trf train)", 0, NULL, NULL, NULL},
    {INSPECT, CHOICE, "shape", AT(inspect.shape), SHAPES,
     "start from the sizes of a published model; other options change them. Also shows its "
     "published number of weights and the parts that trf cannot build", NULL},
    {INSPECT, COUNT, "labels", AT(inspect.labels), "N",
     "number of labels, with --objective classify, tag or pretrain", NULL},
    {INSPECT, COUNT, "source-length", AT(inspect.source_length), "N",
     "source tokens of the pass that is counted and traced; fewer if the model takes fewer", NULL},
    {INSPECT, COUNT, "target-length", AT(inspect.target_length), "N", "target tokens of that pass",
     NULL},
    {INSPECT, FLAG, "trace", AT(inspect.trace), NULL,
     "also show the shape after each step of a forward pass; works with a model file too", NULL},
    {RUN | ATTENTION | PREPARE | DOCTOR, HEADING, "Data", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT | DOCTOR, CHOICE, "objective", AT(objective), OBJECTIVES,
     "what the model learns. translate: the target line of each pair; causal: the next token of a "
     "text (a language model); classify: a label for each text (the targets are the labels; with "
     "--segments, a pair of texts may have one: text, tab, text, tab, label); tag: "
     "a label for each word (a target has as many labels as its source has words); mask: hidden "
     "tokens of a text (like BERT); span: missing spans of a text (like T5); pretrain: mask and "
     "classify at once, from the data of classify (as BERT was pretrained)", NULL},
    {PREPARE | FROM_DATA, CHOICE, "objective", AT(objective), OBJECTIVES,
     "the task to prepare for, as in trf train, but one without labels (default: translate for "
     "an encoder-decoder model, causal for a language model, mask for an encoder)",
     NULL},
    {TRAIN, TEXT, "token-file", AT(train.token_file), "FILE",
     "token ids that trf prepare wrote, instead of text. They stay on the disk: a batch is read "
     "when it is needed. Needs --init-from or --vocab-from, the same as in trf prepare, and pairs "
     "or text for validation (trf prepare --hold-out writes them), or --valid-size 0", NULL},
    {TRAIN | SCORE | PREPARE | DOCTOR, TEXT, "source", AT(source), "FILE",
     "source sentences, one per line; '-': standard input. In training it may be given several "
     "times, or be a folder: file n, in the order of names, belongs to file n of --target", NULL},
    {TRAIN | SCORE | PREPARE | DOCTOR, TEXT, "target", AT(target), "FILE",
     "target sentences; line n belongs to line n of the source", NULL},
    {TRAIN | DOCTOR, TEXT, "tsv", AT(tsv), "FILE",
     "both sides in one file: source, tab, target. May be given several times, or be a folder: all "
     "its files", NULL},
    {SCORE, TEXT, "tsv", AT(tsv), "FILE", "both sides in one file: source, tab, target", NULL},
    {TRAIN | DOCTOR, TEXT, "next-sentences", AT(train.next_sentences), "FILE",
     "make pairs for classify or pretrain from a text with one sentence per line and empty lines "
     "between its documents. Each sentence gets, by --seed, the one that follows it (label next) or one of "
     "another document (label random), as in BERT. Needs --segments", NULL},
    {TRAIN | DOCTOR, TEXT, "columns", AT(columns), "S,T",
     "which columns of --tsv and --valid-tsv are source and target, counted from 1. Without it, "
     "each line must have exactly two columns. Quotation marks are part of the text", NULL},
    {SCORE | REPORT | PREPARE, TEXT, "columns", AT(columns), "S,T",
     "which columns of a TSV file are source and target, counted from 1. Without it, each line "
     "must have exactly two columns. Quotation marks are part of the text", NULL},
    {TRAIN | DOCTOR, TEXT, "text", AT(train.text), "FILE",
     "the training text, for causal, mask and span. May be given several times, or be a folder", NULL},
    {TRAIN | PREPARE | DOCTOR, CHOICE, "documents", AT(train.documents), "lines|file",
     "what a document is. lines: each line; file: the whole file, where a line end is a token "
     "(not with words; subwords must have a token for it)", NULL},
    {TRAIN | PREPARE, FLAG, "pack", AT(train.pack), NULL,
     "put several documents into one chunk; without it, each document starts a new chunk", NULL},
    {TRAIN | PREPARE | FROM_DATA, COUNT, "chunk", AT(train.chunk), "N",
     "cut documents into chunks of at most N tokens, 2 to max-length - 1. A model learns nothing "
     "about positions beyond its longest chunk (default: max-length - 1)", NULL},
    {TRAIN | DOCTOR, TEXT, "valid-source", AT(train.valid_source), "FILE",
     "sources of the validation pairs, which are never trained on", NULL},
    {TRAIN | DOCTOR, TEXT, "valid-target", AT(train.valid_target), "FILE",
     "targets of the validation pairs", NULL},
    {TRAIN | DOCTOR, TEXT, "valid-tsv", AT(train.valid_tsv), "FILE", "validation pairs in one file", NULL},
    {TRAIN | DOCTOR, TEXT, "valid-text", AT(train.valid_text), "FILE", "validation text", NULL},
    {DOCTOR, TEXT, "test-source", AT(train.test_source), "FILE", "sources of pairs to test on", NULL},
    {DOCTOR, TEXT, "test-target", AT(train.test_target), "FILE", "their targets", NULL},
    {DOCTOR, TEXT, "test-tsv", AT(train.test_tsv), "FILE", "pairs to test on, in one file", NULL},
    {DOCTOR, TEXT, "test-text", AT(train.test_text), "FILE", "text to test on", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "valid-size", AT(train.valid_size), "N",
     "hold out about N training pairs for validation if there are no validation files; 0: none. "
     "Pairs with the same source are held out together if there are at most four of them. With "
     "--documents file: the last N lines (default: a twentieth of the pairs, at most 1,000)", NULL},
    {TRAIN | PREPARE | TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | RERANK | EMBED | REPORT |
     TOKENIZE | DETOKENIZE | DOCTOR, LONG_COUNT,
     "max-line-bytes", AT(max_line_bytes), "N",
     "longest input line, in bytes. A longer one is handled like a line that is not UTF-8",
     NULL},
    {TRAIN | PREPARE, FLAG, "strict", AT(train.strict), NULL,
     "stop at the first line that cannot be trained on; without it, such lines are left out and "
     "reported", NULL},
    {TRAIN | PREPARE, FLAG, "allow-left-out", AT(train.allow_left_out), NULL,
     "go on if more than half of the lines cannot be trained on", NULL},
    {TRAIN | PREPARE | DOCTOR, FLAG, "keep-empty", AT(train.keep_empty), NULL,
     "train on pairs with one empty side; without it, they are left out and reported", NULL},
    {TRANSLATE | CLASSIFY | TAG | RERANK | EMBED | TOKENIZE | DETOKENIZE, TEXT, "input", AT(input), "FILE",
     "input sentences, one per line; or give the file name alone. Without a file, or with '-': "
     "standard input", NULL},
    {TRANSLATE, TEXT, "prefixes", AT(answer.prefixes), "FILE",
     "line n is the beginning of the translation of line n (forced decoding). Words that the "
     "model does not know become its unknown token. An empty or missing line sets no beginning. "
     "The tag of the target language, or the token with which an imported model begins its "
     "answers, comes first",
     NULL},
    {TRANSLATE, TEXT, "sentences", AT(answer.sentences), "LANGUAGE",
     "cut each line into sentences by ICU's rules for LANGUAGE (en, de, ja ...), translate them "
     "one by one, and put the answers together with the blanks that stood between them", NULL},
    {TRANSLATE, TEXT, "phrase-file", AT(rules.phrase_file), "FILE",
     "line n has texts that the translation of line n must contain, with tabs between them, as "
     "--phrase", NULL},
    {TRANSLATE, TEXT, "glossary", AT(rules.glossary), "FILE",
     "lines of a term, a tab and its translation. If a line has a term, as whole words and not "
     "inside a longer one, its translation must contain the other", NULL},
    {TRANSLATE, FLAG, "strict", AT(train.strict), NULL,
     "exit status 1 if an answer lacks a text that it must contain (--keep, --phrase, --glossary) or "
     "has a kept one too often; without it, only a message tells so", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | EMBED | TOKENIZE | DETOKENIZE, TEXT, "output",
     AT(output), "FILE",
     "file for the results; without it, or with '-': standard output", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | EMBED | TOKENIZE | DETOKENIZE | REPORT, FLAG,
     "overwrite", AT(overwrite), NULL, "let --output replace an existing file", NULL},
    {TRANSLATE | SCORE | CLASSIFY | TAG | EMBED, FLAG, "resume", AT(resume), NULL,
     "continue an --output that was interrupted. Until it is complete, it is called OUTPUT.part. "
     "The input, the model and the options must be the same", NULL},
    {TRAIN, TEXT, "model", AT(model), "FILE",
     "the model file to write (safetensors). From the first validation on, it holds the best "
     "model so far", NULL},
    {TOKENIZE | DETOKENIZE, FLAG, "ids", AT(answer.ids), NULL, "ids instead of the tokens' texts",
     NULL},
    {TOKENIZE | DETOKENIZE, CHOICE, "side", AT(answer.side), "source|target",
     "the vocabulary of which side, if the model has two", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | RERANK | EMBED | TOKENIZE | DETOKENIZE, TEXT,
     "model", AT(model), "FILE",
     "the model file, written by trf train; or give its name alone as the first argument. A "
     "checkpoint works too: it has the weights of the last update, without the "
     "average of --ema", NULL},
    {INSPECT | QUANTIZE | EXPORT, TEXT, "model", AT(model), "FILE",
     "the model file; or give its name alone", NULL},
    {PREPARE, TEXT, "model", AT(model), "FILE",
     "the model whose vocabularies make the tokens: of an earlier training run, or of one with "
     "--updates 1 on a part of the text", NULL},
    {PREPARE, TEXT, "output", AT(output), "FILE", "the token file to write", NULL},
    {PREPARE | FROM_DATA, LONG_NUMBER, "hold-out", AT(train.hold_out), "N",
     "hold out about one of N pairs, or lines of a text, for validation. They are written as text "
     "to a file with the name of --output and .valid behind it: give it to trf train as "
     "--valid-tsv or --valid-text. Pairs with the same source are held out together, and only the "
     "first of them is written (default: none)", NULL},
    {PREPARE, FLAG, "resume", AT(resume), NULL,
     "continue a file that was interrupted. The texts and options must be the same", NULL},
    {PREPARE, FLAG, "overwrite", AT(overwrite), NULL,
     "let --output replace an existing file, or one that was interrupted", NULL},
    {REPORT, TEXT, "model", AT(model), "FILE",
     "the model file; the page shows its parts, its vocabulary, and its answers to --data", NULL},
    {REPORT, TEXT, "data", AT(report.data), "FILE",
     "test data for --model, one example per line: source, tab, reference. For a classifier: "
     "text, tab, label; for a tagger: text, tab, the labels of its words; for a language model: "
     "text", NULL},
    {REPORT, NUMBER, "worst", AT(report.worst), "N",
     "show the N worst lines of --data; the scores count all lines", NULL},
    {REPORT, TEXT, "output", AT(output), "FILE", "the page to write; '-': standard output", NULL},

    {TRAIN | INSPECT, HEADING, "Tokens", 0, NULL, NULL, NULL},
    {TRAIN | FROM_DATA, CHOICE, "tokens", AT(train.tokens), TOKENS,
     "what a token is: a word between spaces, a UTF-8 character, or a subword of raw text, learned "
     "here by libsentencepiece (sentencepiece means sentencepiece:unigram). auto: words if at most "
     "2 % of the words in a tenth of the lines are missing from the rest; else characters if lines "
     "average fewer than two words or fewer than 24 characters; else subwords", then_tokens},
    {TRAIN | FROM_DATA, CHOICE, "source-tokens", AT(train.source_tokens), TOKENS,
     "the same for the source only", NULL},
    {TRAIN | FROM_DATA, CHOICE, "target-tokens", AT(train.target_tokens), TOKENS,
     "the same for the target only", NULL},
    {TRAIN, TEXT, "sentencepiece", AT(train.sentencepiece), "FILE",
     "use the subwords of this SentencePiece model on both sides", then_sentencepiece},
    {TRAIN, TEXT, "source-sentencepiece", AT(train.source_sentencepiece), "FILE",
     "the same for the source only", NULL},
    {TRAIN, TEXT, "target-sentencepiece", AT(train.target_sentencepiece), "FILE",
     "the same for the target only", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "vocab-size", AT(train.vocab_size), "N",
     "largest vocabulary of a side; the most frequent tokens are kept. N includes four special "
     "tokens. For subwords: how many to learn, SentencePiece's three special tokens included "
     "(default: 32000; for subwords, one per 25 words of text, 500 to 8000, or to 16000 with "
     "--objective classify, tag or pretrain)",
     then_vocab_size},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "source-vocab-size", AT(train.source_vocab_size), "N",
     "the same for the source only", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "target-vocab-size", AT(train.target_vocab_size), "N",
     "the same for the target only", NULL},
    {TRAIN, LONG_COUNT, "min-count", AT(train.min_count), "N",
     "leave out words and characters that occur fewer than N times", NULL},
    {TRAIN, TEXTS, "keep", AT(rules.keeps), "PATTERN",
     "text that a translation must leave as it is: a POSIX extended regular expression, or printf, "
     "python, icu, html, url, number or escape; may be given several times. Frequent matches become "
     "tokens, and the model remembers the patterns: trf translate copies what they match", NULL},
    {TRAIN, CHOICE, "normalization", AT(train.normalization), "auto|identity|nfc|nfkc",
     "how to normalize text for subwords that are learned here. identity: not at all; nfc: a "
     "letter and its mark become one character (Unicode NFC), and a tab becomes a space; nfkc: "
     "SentencePiece's nmt_nfkc, which also rewrites characters (x\xC2\xB2 becomes x2). auto: nfc "
     "for the source, identity for the target; for one vocabulary of both sides, nfc if it "
     "changes no target, else identity", NULL},
    {TRAIN, COUNT, "subword-samples", AT(train.subword_samples), "N",
     "subword regularization (Kudo 2018), for translate: train on N copies of every pair. The "
     "first copy has the best segmentation, the others have random ones. An epoch takes N times "
     "as long", NULL},
    {TRAIN, REAL, "subword-alpha", AT(train.subword_alpha), "X",
     "randomness of the segmentations, 0 to 1. unigram: sample from probabilities to the power X "
     "(0: all segmentations are equally likely); BPE: skip each merge with probability X "
     "(Provilkov et al. 2020)", NULL},
    {TRAIN | INSPECT | FROM_DATA, SWITCH, "joint-vocabulary", AT(train.joint_vocabulary), NO_YES,
     "use one vocabulary for both sides; --tying all and --tying embeddings imply it", NULL},

    {TRAIN | INSPECT, HEADING, "Presets (single options override them, in any order)", 0, NULL,
     NULL, NULL},
    {TRAIN | INSPECT, CHOICE, "recipe", AT(train.recipe), "auto|paper",
     "where defaults come from. auto: trf chooses what is marked 'from the data' or 'with --recipe "
     "auto' to give a good model; paper: the base model of Vaswani et al. 2017, with 4,000 warm-up "
     "updates and batches of 4,096 tokens. With either, the kind of tokens and the interval "
     "between validations follow from the data", then_recipe},
    {TRAIN, CHOICE, "effort", AT(train.effort), "normal|quick|best",
     "how much time a good model may cost. quick: about a quarter of normal; best: three models with "
     "--consistency from different seeds, then one that has them as --teacher: about ten times as "
     "long, for a model of the same size and speed. --minutes is for all together; other options "
     "win over it. --resume needs --effort best again", NULL},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "size", AT(train.size), "auto|tiny|small|base|big",
     "encoder + decoder layers, d-model / d-ff, heads. tiny: 4+4, 128 / 256, 4; small: 3+3, 256 / "
     "512, 4; base: 6+6, 512 / 2048, 8; big: 6+6, 1024 / 4096, 16", then_size},
    {TRAIN | INSPECT, CHOICE, "conventions", AT(train.conventions), "pytorch|paper",
     "set every option of the model and of training in which PyTorch and the paper differ; without "
     "it, the defaults are as listed", then_conventions},
    {TRAIN, SEED, "seed", AT(seed), "N",
     "seed of the initial weights, of dropout and of the order of the data", then_seed},

#include "options_model.h"

    {TRAIN, HEADING, "Masking (mask, span)", 0, NULL, NULL, NULL},
    {TRAIN, REAL, "noise-density", AT(noise.density), "X",
     "fraction of the tokens to mask, 0 to 1", NULL},
    {TRAIN, REAL, "masked-share", AT(noise.masked), "X",
     "for mask: fraction of the masked tokens that become the mask token, at most 1 minus "
     "--random-share", NULL},
    {TRAIN, REAL, "random-share", AT(noise.randomised), "X",
     "for mask: fraction that becomes a random token; the rest stay unchanged", NULL},
    {TRAIN, SWITCH, "whole-words", AT(noise.whole_words), NO_YES,
     "for mask: mask all tokens of a word or none", NULL},
    {TRAIN, REAL, "mean-span", AT(noise.mean_span), "X",
     "for span: mean length of a missing span in tokens, at least 1", NULL},

    {TRAIN, HEADING, "Fine-tuning", 0, NULL, NULL, NULL},
    {TRAIN, TEXT, "init-from", AT(train.init_from), "FILE",
     "start from this model: its vocabularies, its options under 'Model', and the weights that "
     "the new model has too. The old model may have another objective. A new encoder or decoder "
     "gets random weights and as many layers as the other one", NULL},
    {TRAIN, TEXT, "vocab-from", AT(train.vocab_from), "FILE",
     "take the vocabularies of this model with their special ids, and nothing else", NULL},
    {TRAIN | PREPARE | SCORE | REPORT | ATTENTION, TEXT, "source-language", AT(source_language),
     "CODE",
     "the language of the sources, for imported models of many languages: puts its tag where the "
     "model expects it. Without this option: the language that the model was fine-tuned on last, "
     "or that its folder named (src_lang). An unknown code prints the known ones", NULL},
    {TRAIN | PREPARE | SCORE | REPORT | ATTENTION, TEXT, "target-language", AT(target_language),
     "CODE",
     "the language of the targets, for such models. Without this option: the one fine-tuned on "
     "last, or the one that the folder named (forced_bos_token_id, tgt_lang). The tag counts as a "
     "token of each target, except in mBART-25, where it is the start token", NULL},
    {TRAIN, FLAG, "extend-vocabulary", AT(train.extend_vocabulary), NULL,
     "with --init-from: add words or characters of the training data that its vocabularies lack",
     NULL},
    {TRAIN, TEXTS, "freeze", AT(train.freeze), "PATTERN",
     "do not train tensors with names that match ('*': any characters; \"encoder.*\"); may be "
     "given several times", NULL},

    {TRAIN, HEADING, "Teachers", 0, NULL, NULL, NULL},
    {TRAIN, TEXTS, "teacher", AT(train.teachers), "FILE",
     "learn what this trained model answers, token by token, beside the targets; given several "
     "times: the mean of their probabilities. Its vocabularies are taken unless --init-from or "
     "--vocab-from names others, which must have the same tokens. An update takes the time of its "
     "forward pass more. --resume needs the same again", NULL},
    {TRAIN, REAL, "teacher-share", AT(train.teacher_share), "W",
     "with --teacher: the loss is 1 - W of the usual one plus W of the cross-entropy to the "
     "teachers' probabilities; 0 to 1", NULL},

    {TRAIN, HEADING, "Training", 0, NULL, NULL, NULL},
    {TRAIN, LONG_NUMBER, "updates", AT(train.updates), "N",
     "stop after N updates, those before --resume included", NULL},
    {TRAIN, LONG_COUNT, "epochs", AT(corpus.epochs), "N",
     "stop after N passes over the data", NULL},
    {TRAIN, REAL, "minutes", AT(train.minutes), "X",
     "stop after X minutes (above 0). Minutes before --resume count if --minutes was given then "
     "too", NULL},
    {TRAIN | FROM_DATA, NUMBER, "patience", AT(train.patience), "N",
     "early stopping: stop after N validations in a row without a better score. After a perfect "
     "score N is 3. 0: never (default: 10 if none of --updates, --epochs and --minutes is given, "
     "else 0)",
     NULL},
    {TRAIN, REAL, "cooldown", AT(train.cooldown), "X",
     "where --patience would end training: X times the updates so far more, while the rate falls "
     "to --final-rate; at least 0, at most 10. Not with cosine, nor after a perfect score", NULL},
    {TRAIN, COUNT, "accumulate", AT(train.accumulate), "N",
     "batches per update (gradient accumulation)", NULL},
    {TRAIN, CHOICE, "optimizer", AT(training.optimizer), "adam|adamw", "the update rule", NULL},
    {TRAIN | FROM_DATA, CHOICE, "schedule", AT(training.schedule),
     "noam|inverse-sqrt|cosine|constant",
     "learning rate of update s. noam: learning-rate * d-model^-0.5 * min(s^-0.5, s * "
     "warmup^-1.5), as in the paper. The others rise linearly during warm-up. Then inverse-sqrt "
     "falls with sqrt(warmup / s), cosine falls as half a cosine, and constant stays", NULL},
    {TRAIN | FROM_DATA, REAL, "learning-rate", AT(training.learning_rate), "X",
     "highest learning rate; of the schedule noam, a factor", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "warmup", AT(training.warmup), "N",
     "updates during which the rate rises", NULL},
    {TRAIN, REAL, "initial-rate", AT(training.initial_rate), "X",
     "rate at the start of the warm-up; not for noam", NULL},
    {TRAIN, REAL, "final-rate", AT(training.final_rate), "X", "rate at the end of cosine, and of --cooldown", NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "total-steps", AT(training.total_steps), "N",
     "update at which cosine ends (default: the end of --updates or of --epochs)", NULL},
    {TRAIN, REAL, "beta1", AT(training.beta1), "X",
     "Adam: decay of the first moment, at least 0, less than 1", NULL},
    {TRAIN, REAL, "beta2", AT(training.beta2), "X",
     "Adam: decay of the second moment, at least 0, less than 1", NULL},
    {TRAIN, REAL, "epsilon", AT(training.epsilon), "X", "Adam: epsilon", NULL},
    {TRAIN, CHOICE, "epsilon-rule", AT(training.epsilon_rule), "outside|fairseq|inside",
     "where Adam adds epsilon. outside: m / (sqrt(v) + epsilon) with bias-corrected m and v "
     "(PyTorch); fairseq: the same, but epsilon is added to the uncorrected sqrt(v) (fairseq, "
     "tensor2tensor); inside: m / sqrt(v + epsilon)", NULL},
    {TRAIN, REAL, "weight-decay", AT(training.weight_decay), "X",
     "weight decay. adamw: each weight shrinks by the fraction X times the learning rate; adam: X "
     "times the weights is added to the gradient", NULL},
    {TRAIN, SWITCH, "decay-all", AT(training.decay_all), NO_YES,
     "apply weight decay to biases, norms and embeddings too", NULL},
    {TRAIN, REAL, "clip-norm", AT(training.clip_norm), "X",
     "largest norm of the whole gradient; 1e300: no limit", NULL},
    {TRAIN | FROM_DATA, REAL, "label-smoothing", AT(training.label_smoothing), "X",
     "probability e to spread (see --smoothing-rule), at least 0, less than 1 (default: 0.1 for "
     "translate and span; 0 for all others, which report probabilities)", NULL},
    {TRAIN, CHOICE, "smoothing-rule", AT(training.smoothing_rule), SMOOTHINGS,
     "how e is spread over V tokens. uniform: e / V on each token, the right one included "
     "(PyTorch, Marian); others: e / (V-1) on each wrong token (fairseq); others-kl: the same, "
     "with the entropy subtracted from the loss (tensor2tensor); no-pad-kl: the same with e / "
     "(V-2) and nothing on pad (Annotated Transformer, JoeyNMT)", NULL},
    {TRAIN, REAL, "consistency", AT(training.consistency), "A",
     "compute each pair twice, with two dropout masks, and add A times the divergence of both "
     "answers to the mean of their losses (R-Drop): half of the A in the authors' program for "
     "translation. Needs dropout; takes twice the time; 0: off", NULL},
    {TRAIN | FROM_DATA, REAL, "dropout", AT(train.dropout), "X",
     "set all four dropouts (--embedding-dropout, --residual-dropout, --attention-dropout, "
     "--activation-dropout), each at least 0, less than 1",
     then_dropout},
    {TRAIN | FROM_DATA, REAL, "embedding-dropout", AT(training.dropout), "X",
     "dropout on the sum of embedding and position", NULL},
    {TRAIN | FROM_DATA, REAL, "attention-dropout", AT(training.attention_dropout), "X",
     "dropout on attention weights", NULL},
    {TRAIN | FROM_DATA, REAL, "activation-dropout", AT(training.activation_dropout), "X",
     "dropout inside the feed-forward block", NULL},
    {TRAIN | FROM_DATA, REAL, "residual-dropout", AT(training.residual_dropout), "X",
     "dropout on the output of every sublayer", NULL},

    {TRAIN | INSPECT, HEADING, "Batches", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "batch-tokens", AT(corpus.batch_tokens), "N",
     "largest number of tokens of a side in a batch; a longer pair gets a batch of its own", NULL},
    {TRAIN | INSPECT, COUNT, "batch-sentences", AT(corpus.batch_sentences), "N",
     "largest number of pairs in a batch", NULL},
    {TRAIN, SWITCH, "padded-budget", AT(corpus.padded_budget), NO_YES,
     "count padding in --batch-tokens: length of the longest pair times number of pairs",
     NULL},
    {TRAIN, SWITCH, "shuffle", AT(corpus.shuffle), NO_YES, "use a new order in each epoch", NULL},
    {TRAIN, SWITCH, "buckets", AT(corpus.buckets), NO_YES,
     "put pairs of similar length into the same batch", NULL},
    {TRAIN, NUMBER, "pool", AT(corpus.pool), "N",
     "shuffle within pools of N blocks; a block is 1,024 consecutive pairs. Each epoch draws the "
     "blocks of a pool at random. A token file is then read a pool at a time, which suits slow "
     "disks, and needs 4 bytes of memory a pair instead of 12; 0: shuffle all pairs together", NULL},
    {TRAIN | FROM_DATA, NUMBER, "parts", AT(training.parts), "N",
     "divide each batch into N parts, and add up their gradients in the order of the parts; 0: do "
     "not divide. The model depends on N, but not on how many processes compute the parts: mpirun "
     "-n R trf train ... with R up to N. With N = kR parts, each process sends k "
     "times as much (default: with mpirun, R; with --resume, as before; else 0)",
     NULL},
    {TRAIN, CHOICE, "reduce", AT(train.reduce), "ordered|fast",
     "how several processes add up gradients. ordered: in the order of the parts, to the same bits "
     "as in one process; fast: in the order that MPI finds fastest", NULL},
    {TRAIN | INSPECT, SWITCH, "recompute", AT(training.recompute), NO_YES,
     "gradient checkpointing: store only layer outputs and compute the rest again; less memory, "
     "a fifth more time, the same model", NULL},

    {TRAIN, HEADING, "Checkpoints and logs", 0, NULL, NULL, NULL},
    {TRAIN, TEXT, "checkpoint", AT(train.checkpoint), "FILE",
     "file for the state of training; without it, the model's name with .checkpoint at the end; "
     "'': no checkpoint", NULL},
    {TRAIN, LONG_NUMBER, "checkpoint-every", AT(train.checkpoint_every), "N",
     "write the checkpoint every N updates, besides at the end and when a validation finds a "
     "better model; 0: only then", NULL},
    {TRAIN, FLAG, "resume", AT(resume), NULL,
     "continue from the checkpoint as if training had never stopped. The data, the batch "
     "options, --max-length and --seed must be the same", NULL},
    {TRAIN, FLAG, "overwrite", AT(overwrite), NULL,
     "start again and replace an existing model, checkpoint or log. With --resume: replace a "
     "--model that another training run wrote", NULL},
    {TRAIN, TEXT, "log", AT(train.log), "FILE",
     "write JSON lines: the options and their values, progress, validations, the end. trf plot "
     "draws this log, and trf report compares several", NULL},
    {TRAIN | SCORE | REPORT | PREPARE, FLAG, "quiet", AT(quiet), NULL,
     "write only warnings and errors to standard error", NULL},
    {TRAIN, LONG_COUNT, "log-every", AT(train.log_every), "N",
     "report progress every N updates, and at least every 30 seconds", NULL},

    {TRAIN, HEADING, "Validation and the choice of the model", 0, NULL, NULL, NULL},
    {TRAIN | FROM_DATA, LONG_NUMBER, "valid-every", AT(train.valid_every), "N",
     "validate every N updates, and at the end; 0: after each epoch (default: after each epoch, "
     "but at least 100 and at most 1,000 updates after the last validation)", NULL},
    {TRAIN | FROM_DATA, CHOICE, "metric", AT(train.metric), METRICS,
     "which score decides that a model is better: the loss; for translations of the validation "
     "pairs, BLEU, chrF, exact matches, word or character error rate; for labels, accuracy or "
     "macro-averaged F1; of --label-kind any the share of texts with all labels right, or "
     "micro-averaged F1; of number 100 times the correlation of Pearson, or of Spearman. If tokens are words, BLEU joins '@@ ' and counts words between spaces, "
     "otherwise words are counted as in trf eval. auto: accuracy for labels; loss for text alone, and for --label-kind any and number. "
     "For translations auto is cer if tokens are characters; else bleu if the target vocabulary "
     "has more than 500 entries, at least 90 % of the references have four words or more, and "
     "their mean length is at least six words; else wer for words and chrf for subwords", NULL},
    {TRAIN, COUNT, "valid-beam", AT(train.valid_beam), "N",
     "beam size of the translations for --metric, 1 to 1024; 1: greedy", NULL},
    {TRAIN | FROM_DATA, REAL, "ema", AT(train.ema), "X",
     "validate and keep an exponential moving average of the weights, 0 to 0.5; 0: the weights "
     "themselves. Update s moves the average towards the new weights by the fraction max(X, 9 / "
     "(10 + s))", NULL},
    {TRAIN, NUMBER, "keep-models", AT(train.keep_models), "N",
     "keep the models of the last N validations in files named after the model, with "
     ".update-NUMBER at the end", NULL},
    {TRAIN, COUNT, "average", AT(train.average), "N",
     "at the end, keep the mean of N validated models if it is better than the best of them "
     "(checkpoint averaging)", NULL},
    {TRAIN, CHOICE, "average-of", AT(train.average_of), "best|last",
     "which models to average. best: the N best validated ones; last: the N last ones. Without "
     "validation it is always last", NULL},
    {TRAIN, COUNT, "seeds", AT(train.seeds), "N",
     "train N times, with --seed and the numbers after it. Models and logs get .seed-NUMBER after "
     "their names. Report mean and deviation, and copy the best model to --model", NULL},

    {TRANSLATE, HEADING, "Translations", 0, NULL, NULL, NULL},
    {TRANSLATE, COUNT, "n-best", AT(search.n_best), "N",
     "write the N best translations of a line, each as INDEX tab RANK tab SCORE tab TEXT; INDEX "
     "is the number of the line. N is at most --beam; without --beam, the beam grows to N. The "
     "search may find fewer. Two segmentations may give the same text twice", NULL},
    {TRANSLATE, FLAG, "scores", AT(answer.scores), NULL,
     "write the score and a tab before each translation", NULL},
    {TAG, FLAG, "conll", AT(answer.conll), NULL,
     "write a line for each word: the word, a tab, its label; and an empty line after each text",
     NULL},
    {TRANSLATE, FLAG, "json", AT(json), NULL,
     "write one JSON object per line: line, source, and answers with text, score, "
     "log-probability, tokens and how each ended; \"unusable\" if a line was not translated", NULL},
    {TRANSLATE, FLAG, "token-scores", AT(answer.token_scores), NULL,
     "with --json: add the log-probability of each token; EOS is the last", NULL},
    {TRANSLATE, FLAG, "alignments", AT(answer.alignments), NULL,
     "for each target token, add the source token with the largest attention weight: behind a "
     "tab, as 0-0 1-2 (source-target, from 0), or with --json as a list. trf tokenize shows the "
     "tokens",
     NULL},
    {TRANSLATE, MAYBE, "attention", AT(answer.attention), "mean|all",
     "with --json: add the attention weights. mean, or the option alone: the mean of the heads of "
     "the last decoder layer; all: a list of layers, each a list of heads, each a matrix", NULL},
    {GENERATE, HEADING, "Texts", 0, NULL, NULL, NULL},
    {GENERATE, TEXT, "prompt", AT(generate.prompt), "TEXT",
     "text to continue; or give the text alone. Without a prompt and without --input, "
     "a language model begins a new text (after EOS, if its training documents were split or "
     "packed), and an encoder-decoder model reads standard input", NULL},
    {GENERATE, TEXT, "input", AT(input), "FILE",
     "continue each line of this file ('-': standard input); an encoder-decoder model writes an "
     "output for each line", NULL},
    {GENERATE, FLAG, "special", AT(generate.special), NULL,
     "parse special and added tokens in the text, such as '<|im_start|>'. For models with "
     "byte-level BPE", NULL},
    {GENERATE, COUNT, "count", AT(generate.count), "N", "draw N texts for each beginning", NULL},
    {GENERATE, TEXT, "forced-first", AT(rules.forced_first), "TOKEN",
     "with an encoder-decoder model: a token with which every text begins, for instance the tag of "
     "its language, instead of the one that an imported folder names (forced_bos_token_id); the "
     "output does not show it. TOKEN is the text of a token, or else an id", NULL},
    {GENERATE, TEXTS, "end", AT(rules.ends), "TOKEN",
     "a token that ends a text as EOS does, instead of those that an imported folder names "
     "(eos_token_id); may be given several times. TOKEN is the text of a token, or else an id", NULL},
    {GENERATE, TEXTS, "stop", AT(generate.stops), "TEXT",
     "end a text before the first TEXT in it, whatever its tokens; may be given several times",
     NULL},
    {GENERATE, FLAG, "json", AT(json), NULL,
     "write one JSON object per text: text, log-probability, tokens and how it ended", NULL},
    {GENERATE, FLAG, "token-scores", AT(answer.token_scores), NULL,
     "with --json: add the tokens drawn and the log-probability of each; EOS is the last", NULL},
    {GENERATE, HEADING, "Sampling (applied in this order)", 0, NULL, NULL, NULL},
    {GENERATE, SEED, "seed", AT(seed), "N",
     "the same seed gives the same texts (default: a new one in each call; it is printed)", NULL},
    {GENERATE, REAL, "repetition-penalty", AT(sampling.repetition_penalty), "X",
     "divide the positive logits of tokens that have occurred by X, and multiply the negative ones "
     "by X (Keskar et al. 2019)", NULL},
    {GENERATE, NUMBER, "no-repeat-ngram", AT(sampling.no_repeat_ngram), "N",
     "never write the same N tokens in a row twice, the beginning included; 0: off", NULL},
    {GENERATE, TEXTS, "ban", AT(rules.bans), "TEXT",
     "never write the tokens that this text has at the start of a line; may be given several "
     "times", NULL},
    {GENERATE, TEXT, "ban-file", AT(rules.ban_file), "FILE", "more such texts, one per line", NULL},
    {GENERATE, NUMBER, "min-tokens", AT(sampling.min_tokens), "N",
     "smallest number of tokens before a text may end", NULL},
    {GENERATE, SWITCH, "allow-unk", AT(sampling.allow_unk), NO_YES,
     "allow <unk> to be drawn", NULL},
    {GENERATE, REAL, "temperature", AT(sampling.temperature), "X",
     "divide the logits by X; 0: always take the most likely token", NULL},
    {GENERATE, NUMBER, "top-k", AT(sampling.top_k), "N",
     "draw from the N most likely tokens; 0: from all tokens", NULL},
    {GENERATE, REAL, "top-p", AT(sampling.top_p), "X",
     "draw from the smallest set of most likely tokens with probabilities that add up to at least "
     "X, 0 to 1 (Holtzman et al. 2020)", NULL},
    {GENERATE, REAL, "min-p", AT(sampling.min_p), "X",
     "draw from tokens with at least X times the largest probability, 0 to 1 (Nguyen et al. 2024)",
     NULL},
    {GENERATE, COUNT, "max-tokens", AT(sampling.max_tokens), "N",
     "largest number of tokens to draw for a text; for an encoder-decoder model at most max-length "
     "- 1", NULL},
    {GENERATE, COUNT, "batch-sentences", AT(generate.batch_sentences), "N",
     "largest number of texts drawn at a time", NULL},
    {EMBED, HEADING, "Vectors", 0, NULL, NULL, NULL},
    {EMBED, CHOICE, "pooling", AT(pooling), VECTORS_OF,
     "what becomes the vector of a line: the mean of the encoder's output rows, the first row, "
     "or the largest number of each column. The row of EOS counts if the model adds EOS. An "
     "imported sentence encoder has the pooling of its folder, unless this option is given; its "
     "prompt goes before every line, and its max_seq_length limits lines", NULL},
    {EMBED, SWITCH, "normalize", AT(embed.unit_vectors), NO_YES,
     "divide each vector by its length; a vector of zeros stays. Without the option: no for an "
     "imported sentence encoder without such a step, else yes", NULL},
    {EMBED, TEXT, "query", AT(embed.query), "TEXT",
     "write the lines that are nearest to this text by cosine instead of vectors: SCORE tab LINE, "
     "the best first; lines with equal scores keep their order", NULL},
    {EMBED, TEXT, "index", AT(embed.index), "FILE",
     "read the lines' vectors from this .npy of an earlier run. Without --query, each line of "
     "standard input is a query; an empty line ends its results",
     NULL},
    {EMBED, COUNT, "top", AT(embed.top), "N", "with --query: write the N nearest lines", NULL},
    {EMBED, FLAG, "json", AT(json), NULL,
     "write one JSON object per line: line, text and embedding; with --query: line, score, file "
     "and text", NULL},
    {CLASSIFY | TAG, HEADING, "Labels", 0, NULL, NULL, NULL},
    {CLASSIFY | EMBED, FLAG, "truncate", AT(answer.truncate), NULL,
     "read the first tokens of a line that is too long, as many as the model takes; without it, "
     "the line is reported and has no answer", NULL},
    {TAG, FLAG, "split", AT(answer.split), NULL,
     "cut a line that is too long between words, and label each part as if it were a line; "
     "without it, the answer is an empty line", NULL},
    {SCORE, HEADING, "Long texts", 0, NULL, NULL, NULL},
    {SCORE, FLAG, "split", AT(answer.split), NULL,
     "for a language model: cut a text that is longer than the training chunks, as trf train "
     "does, and score each part as if nothing came before it; without it, a text that is too long "
     "for the model has no score", NULL},
    {SCORE, CHOICE, "documents", AT(train.documents), "lines|file",
     "what a text is, as in the training. lines: each line; file: the whole file with its line "
     "ends, cut as with --split", NULL},
    {CLASSIFY, FLAG, "scores", AT(answer.scores), NULL,
     "write the probability and a tab before each label; of --label-kind any all probabilities, "
     "a tab, all labels", NULL},
    {CLASSIFY, FLAG, "json", AT(json), NULL,
     "write one JSON object per line: all labels with their probabilities, the most probable "
     "first; or \"numbers\"", NULL},
    {TAG, FLAG, "json", AT(json), NULL,
     "write one JSON object per line: the words, each with its label and the probability of that "
     "label", NULL},
    {CLASSIFY | TAG, MAYBE, "attention", AT(answer.attention), "mean|all",
     "with --json: add the tokens and, for each of them, a row of the encoder's attention; EOS is "
     "the last. mean, or the option alone: the mean of the heads of the last layer; all: a list "
     "of layers, each a list of heads, each a matrix", NULL},
    {CLASSIFY, LONG_COUNT, "top", AT(answer.labels_shown), "N",
     "with --json: only the N most probable labels", NULL},
    {RERANK, HEADING, "Ranking", 0, NULL, NULL, NULL},
    {RERANK, TEXT, "query", AT(embed.query), "TEXT", "the text that lines are compared with", NULL},
    {RERANK, TEXT, "queries", AT(answer.queries), "FILE",
     "compare all lines with each line of this file; an empty line ends the answers to each", NULL},
    {RERANK, LONG_COUNT, "top", AT(answer.labels_shown), "N", "write only the N best lines", NULL},
    {RERANK, FLAG, "json", AT(json), NULL,
     "write one JSON object per line: its number, with --queries the query, score and text", NULL},
    {TRANSLATE, CHOICE, "unknown", AT(answer.unknown), "count|report|copy|drop",
     "what to do about words that the model does not know. count: report their number at the end "
     "if they are more than 5 % of the tokens; report: report each source line that has some; "
     "copy: replace each <unk> of a translation by the unknown source word with the largest "
     "attention weight; drop: remove <unk> from translations. --json always lists the unknown "
     "words", NULL},
#include "options_search.h"

    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG, HEADING, "Several models (an ensemble)", 0, NULL,
     NULL, NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | REPORT, TEXTS, "with", AT(with), "FILE",
     "one more model, which answers together with --model: in each step their probabilities become "
     "one; may be given up to 15 times. The models may have other sizes and other source "
     "vocabularies (trf generate, classify and tag: the same), but the same target vocabulary or "
     "labels. trf report draws the attention of --model alone", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | REPORT, CHOICE, "ensemble-rule", AT(search.ensemble.rule),
     "arithmetic|geometric",
     "how the probabilities of several models become one. arithmetic: their weighted mean (fairseq, "
     "Sockeye, OpenNMT); geometric: the weighted sum of their logarithms (Marian)", then_ensemble},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | REPORT, TEXT, "ensemble-weights", AT(ensemble_weights),
     "LIST",
     "weights of the models, numbers with commas between them, that of --model first. arithmetic "
     "divides them by their sum (default: 1 for each)", NULL},
    {ATTENTION, TEXT, "model", AT(model), "FILE",
     "the model file; or give its name alone", NULL},
    {ATTENTION, TEXT, "source-text", AT(attend.source_text), "TEXT",
     "the source text; for a language model, its only text", NULL},
    {ATTENTION, TEXT, "target-text", AT(attend.target_text), "TEXT",
     "the text that the decoder of an encoder-decoder model reads; without it, the model's best "
     "translation", NULL},
    {ATTENTION, CHOICE, "kind", AT(attend.map_kind), "auto|cross|encoder|decoder",
     "which attention. cross: from the target to the source; encoder, decoder: within one of "
     "them. auto: cross if the model has both", NULL},
    {ATTENTION, TEXT, "layer", AT(attend.layer), "N|all",
     "the layer, counted from 0; without it, the last layer", NULL},
    {ATTENTION, TEXT, "head", AT(attend.head), "N|all|mean",
     "the head, counted from 0; mean: the mean of a layer's heads; without it, all heads", NULL},
    {ATTENTION, HEADING, "Output", 0, NULL, NULL, NULL},
    {ATTENTION, TEXT, "output", AT(output), "FILE",
     "the picture to write. An .svg shows each weight on hover; a .png or .pdf needs gnuplot. "
     "Without it, the maps are drawn with characters", NULL},
    {ATTENTION, FLAG, "overwrite", AT(overwrite), NULL, "let --output replace an existing file",
     NULL},
    {ATTENTION, FLAG, "json", AT(json), NULL,
     "write one JSON object to standard output: tokens, and for each head its entropy, its "
     "strongest link and its matrix", NULL},
    {RUN | INSPECT | ATTENTION, HEADING, "Running", 0, NULL, NULL, NULL},
    {TRANSLATE | SCORE | CLASSIFY | TAG | EMBED, COUNT, "buffer", AT(buffer), "N",
     "read N lines, then write their results", NULL},
    {INSPECT, COUNT, "translate-batch", AT(inspect.translate_batch), "N",
     "for the memory of translating: sentences searched at a time", NULL},
    {TRANSLATE, COUNT, "batch-sentences", AT(search.max_sentences), "N",
     "largest number of sentences searched at a time", NULL},
    {TRANSLATE, COUNT, "batch-tokens", AT(search.max_tokens), "N",
     "largest number of source tokens searched at a time", NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | EMBED, FLAG, "interactive", AT(answer.interactive), NULL,
     "answer each line immediately; the default if the input is a terminal", NULL},
    {RUN | ATTENTION, DEVICE, "device", AT(device), "cpu|cuda|cuda:N",
     "where to compute. cuda: a GPU, with a trf that was built by make cuda; cuda:N: GPU number N "
     "of several", NULL},
    {TRAIN | FROM_DATA, CHOICE, "precision", AT(device.precision), "float32|bf16|auto",
     "precision of matrix products. bf16: 16-bit factors, 32-bit sums. auto: bf16 on GPUs and on "
     "CPUs with AMX, where it is faster, else float32. float32 gives the same bits on all "
     "processors that trf was built for. A resumed training keeps what its checkpoint has "
     "(default: auto)",
     NULL},
    {(RUN ^ TRAIN) | ATTENTION, CHOICE, "precision", AT(device.precision), "float32|bf16",
     "precision of matrix products. bf16: 16-bit factors, 32-bit sums; faster on GPUs and on "
     "CPUs with AMX", NULL},
    {RUN | ATTENTION, CHOICE, "products", AT(device.products), "auto|cblas|built-in|bf16x3",
     "what multiplies matrices. built-in: trf itself; cblas: OpenBLAS, if the matrices have more "
     "than a few rows; auto: OpenBLAS for training, if it is installed and has kernels for this "
     "processor; bf16x3: for training and batches on CPUs with AMX, where it is faster and as "
     "accurate; elsewhere built-in (default: built-in)",
     NULL},
    {RUN | ATTENTION, NUMBER, "vector-bytes", AT(device.vector_bytes), "16|32|64",
     "widest SIMD registers to use, in bytes: SSE2, AVX2, AVX-512 (default: the widest of this "
     "processor)",
     NULL},
    {TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | RERANK | EMBED | REPORT, CHOICE, "weights", AT(kept),
     "full|bf16|int8",
     "format of the weights in inference (CPU only). bf16: 16 bits, half the memory; int8: 8 "
     "bits, a quarter of the memory, and faster. Answers differ a little", then_weights},
    {RUN | INSPECT | ATTENTION, COUNT, "threads", AT(device.threads), "N",
     "number of threads; results do not depend on it (default: one for each processor that trf may "
     "use)", NULL},

    {EVAL, HEADING, "Metrics", 0, NULL, NULL, NULL},
    {EVAL, TEXT, "metrics", AT(eval.metrics), "LIST",
     "some of bleu,chrf,chrf++,exact,wer,cer. BLEU and chrF are those of sacreBLEU; exact counts "
     "lines with all words right; wer and cer are errors per 100 words and per 100 characters, as "
     "in jiwer", NULL},
    {EVAL, CHOICE, "tokenize", AT(eval.tokenize), "13a|none|char",
     "how BLEU finds words. 13a: as WMT does; none: between spaces; char: each character is one",
     NULL},
    {EVAL, FLAG, "lowercase", AT(eval.lowercase), NULL, "convert to lower case, for all metrics",
     NULL},
    {EVAL, HEADING, "References", 0, NULL, NULL, NULL},
    {EVAL, TEXTS, "reference", AT(eval.references), "FILE",
     "one more file of references, line by line; may be given several times", NULL},
    {EVAL, LONG_COUNT, "max-line-bytes", AT(max_line_bytes), "N", "most bytes of a line", NULL},
    {EVAL, FLAG, "alternatives", AT(eval.alternatives), NULL,
     "each line of the references file holds several references with tabs between them; any of "
     "them counts", NULL},
    {EVAL, HEADING, "Output", 0, NULL, NULL, NULL},
    {EVAL, NUMBER, "worst", AT(eval.worst), "N",
     "also list the N worst lines, the worst first: by chrF if it is one of --metrics, else by "
     "the first metric", NULL},
    {EVAL, FLAG, "by-length", AT(eval.by_length), NULL,
     "also report the metrics for references of 1 word, of 2 and 3, 4 to 7, 8 to 15 and so on. "
     "The first reference decides. Words end at spaces; with --tokenize char, characters count "
     "instead", NULL},
    {EVAL, FLAG, "json", AT(json), NULL,
     "write one JSON object: metrics, signatures, and the sums behind them", NULL},

    {INSPECT | DOCTOR, HEADING, "Output", 0, NULL, NULL, NULL},
    {INSPECT | DOCTOR, FLAG, "json", AT(json), NULL, "write one JSON object", NULL},
    {WRITES, HEADING, "Files", 0, NULL, NULL, NULL},
    {WRITES, TEXT, "output", AT(output), "FILE", "the model to write; -o is short for it", NULL},
    {IMPORT, TEXT, "as", AT(publish.as), "TYPE", "read config.json as this model_type", NULL},
    {IMPORT, NUMBER, "max-length", AT(publish.max_length), "N",
     "the longest text in tokens: only for relative and rotary positions, which have no table (T5, "
     "Llama, Mistral, Qwen 2); 0: as config.json says", NULL},
    {WRITES, CHOICE, "weights", AT(publish.weights), "full|bf16|f16|int8",
     "how weights are stored. full: 32 bits; bf16, f16: 16 bits, half the file; int8: 8 bits, a "
     "quarter, and the model cannot be trained further", NULL},
    {QUANTIZE, FLAG, "packed", AT(publish.packed), NULL,
     "write a packed file, with --weights full (the default), bf16 or int8: it opens in a millisecond, "
     "and all programs that use it share its memory. Keep MODEL: another version of trf may refuse the "
     "packed file", NULL},
    {WRITES, FLAG, "overwrite", AT(overwrite), NULL, "let --output replace an existing file", NULL},
    {EXPORT, HEADING, "Files", 0, NULL, NULL, NULL},
    {EXPORT, TEXT, "output", AT(output), "FOLDER", "the folder to write", NULL},
    {EXPORT, TEXT, "as", AT(publish.as), "TYPE",
     "the model_type; without it, the one that the model was imported from, or the first that fits",
     NULL},
    {EXPORT, TEXT, "source-language", AT(source_language), "CODE",
     "for an imported model of many languages: the language of sources (src_lang)", NULL},
    {EXPORT, TEXT, "target-language", AT(target_language), "CODE",
     "the language of its answers (tgt_lang, and in generation_config.json the token that begins "
     "them)", NULL},
    {EXPORT, FLAG, "overwrite", AT(overwrite), NULL,
     "let --output be a folder with files: those of a model are replaced, others stay", NULL},
    {PLOT, HEADING, "Picture", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "output", AT(output), "FILE",
     "the picture to write: an .svg, .png or .pdf. Without it, the picture is drawn with "
     "characters on standard output", NULL},
    {PLOT, FLAG, "overwrite", AT(overwrite), NULL, "let --output replace an existing file", NULL},
    {PLOT, FLAG, "csv", AT(plot.csv), NULL,
     "write the numbers as comma-separated values instead of a picture", NULL},
    {PLOT, HEADING, "Logs", 0, NULL, NULL, NULL},
    {PLOT, TEXT, "only", AT(plot.only), "LIST",
     "some of loss,metric,accuracy,rate,speed,gradient; without it, all that the logs have", NULL},
};

const int n_rows = (int)(sizeof rows / sizeof *rows);
typedef char rows_fit[sizeof rows / sizeof *rows <= MAX_OPTIONS ? 1 : -1];
