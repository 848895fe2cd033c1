// trf: what each command is, in words: for its help, for the man page, for completion.

#include "base.h"

#define EXIT_TEXT \
    "Exit status: 0 success; 1 an error, or an unusable line of input; 2 a wrong command line."
#define EXIT_OF_MODELS "Exit status: 0 success; 1 an error; 2 a wrong command line."

const struct command commands[] = {
    {TRAIN, "train", "train a model on text and write a model file", "trf train [options]",
     "Trains a model and writes it to a file that also contains the vocabularies. By default the\n"
     "model learns to translate source lines into target lines. --objective names the other\n"
     "tasks: language models, labels for texts or words, hidden parts of texts. Progress goes to\n"
     "standard error: update, mean loss per target token of the last --log-every updates,\n"
     "learning rate, tokens of both sides per second (padding not counted), time left, and the\n"
     "process's peak memory. A validation of translations shows three of them. What no option\n"
     "sets, trf chooses from the data. It reports these choices first. It holds out pairs for\n"
     "validation; from the first validation on, the model file has the best model so far.\n"
     "Training stops when the model stops improving, unless --updates, --epochs or --minutes set\n"
     "the end. Lines that cannot be trained on are left out and reported. SIGINT, SIGTERM and\n"
     "SIGHUP stop training after the current update and write a checkpoint. mpirun starts\n"
     "several processes, on one machine or several, that share each update; trf must be built by\n"
     "make MPI=1. All read the same files. The first one prints, validates and writes. Four\n"
     "processes make the same model as one with --parts 4. A signal to one of them stops all.\n"
     "Stop Open MPI's mpirun by SIGUSR1: a second after SIGTERM or Ctrl-C it kills them. It\n"
     "binds two processes to one core each; --bind-to none lets them use all.\n"
     "\n"
     "    trf train --source train.de --target train.en --model de-en.safetensors\n"
     "    trf train --tsv words.tsv --model say.safetensors --epochs 30\n"
     "    trf train --objective classify --tsv reviews.tsv --model mood.safetensors\n"
     "    trf train --objective causal --text book.txt --documents file --tokens characters \\\n"
     "        --model book.safetensors\n"
     "    trf train ... --resume                  the same command, continued from its "
     "checkpoint\n"
     "    mpirun -n 4 trf train ...               the same command, by four processes",
     "Exit status: 0 success; 1 an error; 2 a wrong command line; 128 + N stopped by signal N,\n"
     "with a checkpoint unless --checkpoint '' turned it off.",
     " objective source target tsv text valid-tsv model init-from size vocab-size "
     "updates epochs minutes batch-tokens learning-rate dropout resume device "
     "precision threads "},
    {TRANSLATE, "translate", "translate lines", "trf translate MODEL [FILE] [options]",
     "Translates each line. Line n of the output always belongs to line n of the input. A line\n"
     "without tokens gives an empty line. A line that is too long for the model or not UTF-8\n"
     "gives an empty line, a message with its number, and exit status 1 at the end. With\n"
     "--n-best or --scores, a line without tokens has the score 0, and a line that was not\n"
     "translated -inf. With --json, neither has an answer. An answer is one line: line ends and\n"
     "NUL bytes in it (byte fallback) become spaces; --json keeps them. The checkpoint of a\n"
     "training run in progress works as a model too.\n"
     "\n"
     "    trf translate --model de-en.safetensors < new.de > new.en\n"
     "    trf translate --model de-en.safetensors new.de --beam 5 --n-best 5",
     EXIT_TEXT,
     " input output model n-best scores json alignments unknown search-rule beam "
     "alpha max-length-b source-language target-language prefixes phrase glossary "
     "interactive with weights threads "},
    {GENERATE, "generate", "continue a text", "trf generate MODEL [TEXT] [options]",
     "Continues --prompt or each line of --input with a language model (trf train --objective\n"
     "causal); without either, the text starts from nothing. An encoder-decoder model writes an\n"
     "output for its input. A single text appears token by token; several texts are drawn\n"
     "--batch-sentences at a time. Tokens are sampled; the same --seed gives the same text on\n"
     "any number of threads. A line that cannot be continued (not UTF-8, too long) gives an\n"
     "empty text, a message, and exit status 1 at the end. The output repeats the beginning\n"
     "unchanged; a NUL byte that is drawn (byte fallback) becomes a space. A language model can\n"
     "continue beyond its max-length. If a text grows longer than the training texts, the model\n"
     "reads only the end of it: a window whose older half is dropped whenever it is full.\n"
     "\n"
     "    trf generate --model shakespeare.safetensors 'To be' --temperature 0.8\n"
     "    trf generate --model stories.safetensors --count 5 --top-p 0.9 --seed 7",
     EXIT_TEXT,
     " prompt input output model interactive count seed temperature top-k top-p min-p "
     "max-tokens repetition-penalty end stop special json batch-sentences weights threads "},
    {CLASSIFY, "classify", "label each line", "trf classify MODEL [FILE] [options]",
     "Writes the most probable label of each line; the labels are those of trf train --objective\n"
     "classify or pretrain. An empty line gives an empty line. A line that is too long for the\n"
     "model or not UTF-8 gives an empty line, a message, and exit status 1 at the end. A model\n"
     "with segments reads pairs: two texts with a tab between them. A model of --label-kind any\n"
     "gives all labels with a probability of 1/2 or more, with commas between them; one of\n"
     "--label-kind number gives its numbers, with blanks between them.\n"
     "\n"
     "    trf classify --model languages.safetensors lines > labels",
     EXIT_TEXT, NULL},
    {TAG, "tag", "label each word", "trf tag MODEL [FILE] [options]",
     "Writes as many labels for each line as it has words; the labels are those of trf train\n"
     "--objective tag. An empty line gives an empty line. A line that is too long for the model\n"
     "or not UTF-8 gives an empty line, a message, and exit status 1 at the end. A word of\n"
     "invisible characters has no tokens; it gets a label from the words around it.\n"
     "\n"
     "    trf tag --model parts-of-speech.safetensors lines > labels",
     EXIT_TEXT, NULL},
    {RERANK, "rerank", "lines in the order in which they answer a query",
     "trf rerank MODEL --query TEXT [FILE] [options]",
     "Writes the score of each line, a tab and the line, the best first. Lines with equal scores\n"
     "keep their order. The model reads the query and a line as a pair and has one output: an\n"
     "imported cross-encoder, or a model of trf train --objective classify --segments 2\n"
     "--label-kind number. A pair that is too long for the model loses its last tokens, those of\n"
     "the longer text first. A line that is not UTF-8 is reported and left out; exit status 1.\n"
     "\n"
     "    trf rerank --model minilm.safetensors --query 'who feeds the dog' passages\n"
     "    trf rerank --model minilm.safetensors --queries questions --top 3 < passages",
     EXIT_TEXT, NULL},
    {TOKENIZE, "tokenize", "show the tokens of each line",
     "trf tokenize MODEL [FILE] [options]",
     "Writes the tokens of each line in the model's vocabulary, separated by blanks. Line n of\n"
     "the output belongs to line n of the input. A blank within a token is written as U+2581, a\n"
     "control character as <0x0A>. BOS and EOS are not written.\n"
     "\n"
     "    trf tokenize de-en.safetensors lines\n"
     "    trf tokenize de-en.safetensors lines --ids",
     EXIT_TEXT, NULL},
    {DETOKENIZE, "detokenize", "make text of tokens", "trf detokenize MODEL [FILE] [options]",
     "Makes a text of each line of tokens, as trf tokenize writes them. Line ends and NUL bytes\n"
     "in a text become spaces. A line with a token that the vocabulary does not have gives an\n"
     "empty line, a message, and exit status 1 at the end.\n"
     "\n"
     "    trf tokenize model lines --ids | trf detokenize model --ids",
     EXIT_TEXT, NULL},
    {EMBED, "embed", "a vector for each line, or the lines nearest to a text",
     "trf embed MODEL [FILE] [options]; trf embed MODEL --query TEXT [FILE...] [options]",
     "Writes a vector of d-model numbers for each line, with spaces between them: the rows of\n"
     "the encoder's output, pooled. Any model with an encoder works. A vector does not depend\n"
     "on the other lines; with --products cblas, its last digits may. If the name of --output\n"
     "ends in .npy, the file is an array of NumPy: floats of 32 bits, a row for each line. A\n"
     "line without tokens gives an empty line; in an .npy, a row of zeros; with --json, an empty\n"
     "embedding. A line that is too long for the model or not UTF-8 gives the same, a message,\n"
     "and exit status 1 at the end. --query writes the nearest lines of one or more files\n"
     "instead of vectors. It leaves out lines that have no vector.\n"
     "\n"
     "    trf embed --model de-en.safetensors lines > vectors\n"
     "    trf embed --model de-en.safetensors lines --output vectors.npy\n"
     "    trf embed --model de-en.safetensors lines --query 'ein Hund bellt' --top 3\n"
     "    trf embed --model de-en.safetensors lines --index vectors.npy < questions",
     EXIT_TEXT, NULL},
    {SCORE, "score", "log-probability of given translations",
     "trf score MODEL (SOURCE-FILE TARGET-FILE | PAIRS-FILE | TEXT-FILE) [options]",
     "Writes a line for each pair: the natural log-probability of the target given the source; a\n"
     "tab; the number of target tokens, EOS included. A pair cannot be scored if it is too long,\n"
     "is not UTF-8, or has a line without a partner because the other file is shorter. Such a\n"
     "pair gives 'nan', a tab and 0, and exit status 1 at the end; messages give the numbers of\n"
     "the first five such lines, and the reasons. A file of pairs has a source, a tab and a\n"
     "target in each line. A language model has no source: give one file with a document in each\n"
     "line. --source, --target and --tsv can name the files too. The last line on standard error\n"
     "has the sums and the perplexity.\n"
     "\n"
     "    trf score --model de-en.safetensors test.de test.en > scores",
     EXIT_TEXT, NULL},
    {EVAL, "eval", "BLEU, chrF and error rates against references",
     "trf eval REFERENCES [HYPOTHESES] [options]",
     "Compares lines with references: line n of one file belongs to line n of the other. Without\n"
     "HYPOTHESES, or with '-', the lines come from standard input. Each metric takes one line,\n"
     "in the form of sacreBLEU: its name, its settings, its value from 0 to 100 (error rates may\n"
     "be higher), and its parts. A byte order mark at the beginning of a file is ignored. With\n"
     "several references, BLEU counts words that any of them has, and chrF takes the best\n"
     "reference. Error rates use the reference with the fewest errors; on a tie, the longest of\n"
     "these. exact counts lines with the words of a reference.\n"
     "\n"
     "    trf translate --model de-en.safetensors test.de | trf eval test.en\n"
     "    trf eval test.en answers --metrics bleu,chrf++ --lowercase --json\n"
     "    trf eval test.en answers --by-length --worst 20\n"
     "    trf eval pronunciations.txt answers --alternatives --metrics exact,wer",
     EXIT_TEXT, NULL},
    {INSPECT, "inspect", "describe a model, another safetensors file, or a planned model",
     "trf inspect (FILE | options of a model) [--trace] [--json]",
     "Shows metadata, and the type, shape, number of elements, mean, standard deviation, minimum\n"
     "and maximum of each tensor. For models and checkpoints of transformer.h, it also shows the\n"
     "settings (as options of trf train), the vocabularies, the labels, the number of weights of\n"
     "each part, the memory for training and translating, and the operations of a pass. Without\n"
     "a file, it describes the model of the given options, and makes no weights. There are no\n"
     "data then: 'from the data' means --size base, vocabularies of 32,000 tokens, pre-norm,\n"
     "--tying decoder (all for one vocabulary), and no generator bias.\n"
     "\n"
     "    trf inspect model.safetensors\n"
     "    trf inspect --size base --vocab-size 37000 --joint-vocabulary yes\n"
     "    trf inspect --shape gpt2\n"
     "    trf inspect --recipe paper --vocab-size 37000 --trace --source-length 9 "
     "--target-length 7",
     EXIT_OF_MODELS,
     " shape objective vocab-size joint-vocabulary size d-model n-heads d-ff encoder-layers "
     "decoder-layers max-length tying trace source-length target-length labels batch-tokens beam "
     "translate-batch json "},
    {ATTENTION, "attention", "draw which tokens attend to which",
     "trf attention MODEL --source-text TEXT [--target-text TEXT] [options]",
     "Draws the attention of a model's heads while it reads a text: a row for each token that\n"
     "attends, a column for each token that it attends to. Larger weights are darker; the\n"
     "weights of a row sum to 1. For each head, standard output shows three things: the mean\n"
     "entropy of its rows, in nats; that entropy as a fraction of the largest possible one (0:\n"
     "each token attends to one token; 1: to all tokens alike); and the strongest link. Links of\n"
     "tokens that can attend to only one token do not count. Layers and heads are counted from\n"
     "0. In cross-attention, a row is labelled with the token that it predicts; \"</s>\" is EOS.\n"
     "In the decoder's self-attention, rows and columns are labelled with the tokens that the\n"
     "decoder reads; the first is its start symbol. A model with one side, such as a language\n"
     "model, reads only --source-text.\n"
     "\n"
     "    trf attention de-en.safetensors --source-text 'ein Hund bellt' --output attention.svg\n"
     "    trf attention de-en.safetensors --source-text 'ein Hund bellt' --target-text 'a dog "
     "barks' --layer all\n"
     "    trf attention book.safetensors --source-text 'To be, or not' --layer 0 --head 3",
     EXIT_OF_MODELS, NULL},
    {AVERAGE, "average", "average several models", "trf average MODEL MODEL... --output FILE",
     "Writes a model with the mean weights of models or checkpoints of one training run (trf\n"
     "train --keep-models). A single model needs --weights.\n"
     "\n"
     "    trf average m.update-9000 m.update-9500 m.update-10000 --output mean.safetensors\n"
     "    trf average model.safetensors --weights bf16 --output half.safetensors",
     EXIT_OF_MODELS, NULL},
    {QUANTIZE, "quantize", "write a model with weights of 8 or 16 bits",
     "trf quantize MODEL --weights int8 --output FILE",
     "Writes a smaller copy of a model. With int8, weights of matrices have 8 bits, and each row\n"
     "has a scale. trf translate, generate, classify, tag, embed and score use it like any\n"
     "other. It takes a quarter of the memory and answers faster; the answers differ a little.\n"
     "The full model gives the same answers with --weights int8. A model with 8-bit weights\n"
     "cannot be trained further.\n"
     "\n"
     "    trf quantize model.safetensors --weights int8 --output small.safetensors\n"
     "    trf quantize model.safetensors --packed --output model.packed",
     EXIT_OF_MODELS, NULL},
    {IMPORT, "import", "convert a Hugging Face model to a model file",
     "trf import FOLDER|WEIGHTS --output FILE",
     "Reads config.json, the weights and the tokenizer of a model that another program has\n"
     "trained, and writes one model file, which all commands take like any other. It knows these\n"
     "model_types: bert, megatron-bert, roberta, xlm-roberta, marian, pegasus, bart, mbart,\n"
     "m2m_100, t5, mt5, gpt2, llama, mistral, qwen2, and marian-nmt (Marian's own models, see\n"
     "tools/convert). Every tensor is checked before anything is written; parts that trf does\n"
     "not build are listed.\n"
     "\n"
     "The weights are model.safetensors or else pytorch_model.bin, also in several files.\n"
     "WEIGHTS is one such file by any name; the other files lie beside it. A PyTorch file is a\n"
     "pickle, which can run code. trf runs none, and refuses all but a dictionary of tensors.\n"
     "Tokenizers are WordPiece (BERT) and byte-level BPE (GPT-2, RoBERTa, BART, Llama 3, Qwen 2,\n"
     "SmolLM) from tokenizer.json, vocab.txt, or vocab.json with merges.txt; and SentencePiece\n"
     "as Marian, T5, Llama, XLM-R, mBART, NLLB and M2M-100 have it, from its own file or from\n"
     "tokenizer.json. Choose a multilingual model's languages by trf translate\n"
     "--source-language, --target-language. Answers begin with the token that\n"
     "generation_config.json or config.json names (forced_bos_token_id: <s> in BART), and so do\n"
     "the targets of trf train --init-from.\n"
     "\n"
     "    trf import all-MiniLM-L6-v2 --output minilm.safetensors\n"
     "    trf embed --model minilm.safetensors --query 'a dog on the grass' <lines",
     EXIT_OF_MODELS, NULL},
    {EXPORT, "export", "convert a model to a Hugging Face folder",
     "trf export MODEL --output FOLDER",
     "Writes config.json, model.safetensors in 32 bits, and the files of the tokenizer:\n"
     "from_pretrained of transformers loads the folder, and the logits are the same. Imported\n"
     "models keep their model_type; others get the first one that fits:\n"
     "\n"
     "    encoder-only       bert, megatron-bert (pre-norm), roberta, xlm-roberta\n"
     "    encoder-decoder    marian, pegasus (pre-norm), bart, mbart, m2m_100, t5, mt5\n"
     "    decoder-only       gpt2, llama, mistral, qwen2\n"
     "\n"
     "Some differences move into the weights: sinusoidal positions become learned ones, untied\n"
     "embeddings are multiplied by their scale, missing biases become zeros, and features are\n"
     "permuted from interleaved sines to Marian's. If nothing fits, trf names each field in the\n"
     "way, its value, and the value that is needed.\n"
     "\n"
     "Words and characters become a WordLevel tokenizer; subwords get the files that they had. A\n"
     "model with two vocabularies has the target's tokenizer in the folder target_tokenizer,\n"
     "unless both are of SentencePiece, for which Marian's tokenizer has two files. Imported\n"
     "M2M-100, NLLB and mBART keep the tokenizer of their class with all languages. Labels are\n"
     "sorted, also those of an imported head. A head for sentence pairs becomes a head for\n"
     "classes. All files are written into FOLDER.tmp-..., which gets the name of FOLDER when it\n"
     "is complete.\n"
     "\n"
     "    trf export de-en.safetensors --output de-en\n"
     "    trf export sst2.safetensors --as bert --output sst2",
     EXIT_OF_MODELS, NULL},
    {PREPARE, "prepare", "write texts as a token file, for data larger than memory",
     "trf prepare MODEL --output FILE [FILES] [options]",
     "Tokenizes texts and writes the ids to a file. trf train --token-file reads from it the\n"
     "pairs of each batch. FILES have pairs (source, tab, target) or, for a model that learns\n"
     "from text, documents. A folder stands for its files in the order of their names; '-' or no\n"
     "file is standard input; a .gz file is decompressed. --source and --target give pairs as\n"
     "two files. The file has the tokens of the model's vocabularies, and can be used with these\n"
     "only. Training from it gives the same model as from the text. Until it is complete, the\n"
     "file is called FILE.part. After an interruption --resume continues it; the result is the\n"
     "same. --hold-out writes text for validation to FILE.valid.\n"
     "\n"
     "    head -n 1000000 pairs.tsv | trf train --tsv - --updates 1 --model start\n"
     "    trf prepare --model start --output pairs.tokens --hold-out 5000 pairs.tsv more.tsv.gz\n"
     "    trf train --token-file pairs.tokens --vocab-from start --valid-tsv pairs.tokens.valid "
     "\\\n"
     "        --model de-en.safetensors",
     EXIT_TEXT, NULL},
    {PLOT, "plot", "plot training logs",
     "trf plot LOG... [options]",
     "Draws logs of trf train --log, with all runs in one picture: training and validation loss,\n"
     "metric, token accuracy, learning rate, tokens per second, and gradient norm, as far as the\n"
     "logs have them. A curve has the name of its log. A line that does not belong to a log is\n"
     "left out, with a message and exit status 1; the last line may be incomplete. gnuplot draws\n"
     "the picture. Schedules, position tables and masks are drawn by examples/studies.\n"
     "\n"
     "    trf plot first.json second.json --output runs.svg\n"
     "    trf plot run.json --only loss,rate",
     EXIT_OF_MODELS, NULL},
    {REPORT, "report", "write training runs, answers and attention as one HTML page",
     "trf report LOG... [--model FILE --data FILE] --output FILE",
     "Writes one HTML page that needs no network. It has a table of the runs with the options\n"
     "that differ between them, and their curves. --model adds the parts and the vocabulary of\n"
     "the model. --data adds the model's answers beside the references, the worst first and with\n"
     "the differences marked, scores by length, and the attention of some lines. A script in the\n"
     "page selects layer and head; everything else works without it. gnuplot draws the curves;\n"
     "without gnuplot, the page has their numbers.\n"
     "\n"
     "    trf report run.json --output report.html\n"
     "    trf report small.json large.json --model large.safetensors --data test.tsv --output "
     "report.html",
     "Exit status: 0 success; 1 an error, or a line of --data that the model could not read (the\n"
     "page has the reason); 2 a wrong command line.", NULL},
    {DOCTOR, "doctor", "look for faults in data before they are trained on",
     "trf doctor --tsv FILE [options of the data of trf train]",
     "Reads the files of a training run as trf train does, and tells what is probably wrong with\n"
     "them: how many lines, the first five, and how to fix it. It changes nothing. A warning is\n"
     "worth a look before training: lines that would be left out, sides that are exchanged or\n"
     "shifted by a line, targets in the language of the sources, lengths and numbers that do not\n"
     "fit, damaged characters, labels that occur once, validation data that are trained on. Notes\n"
     "may be intended: repeated lines, several targets of one source, blanks at the ends of\n"
     "lines. What is usual in the data is no fault: lengths, numbers and languages are compared\n"
     "with those of the other lines. Test data (--test-tsv and the like) are examined too. Lengths\n"
     "in tokens (--max-length) are counted in words or characters, as trf chooses them.\n"
     "\n"
     "    trf doctor --source train.de --target train.en --valid-source dev.de --valid-target dev.en\n"
     "    trf doctor --objective classify --tsv reviews.tsv --json",
     "Exit status: 0 no warning, though there may be notes; 1 a warning, or an error; 2 a wrong\n"
     "command line.", NULL},
};

const int n_commands = (int)(sizeof commands / sizeof *commands);
