// trf: what each command is, in words: for its help, for the man page, for completion.

#include "trf.h"

#define EXIT_TEXT \
    "Exit status: 0 all went well; 1 an error, or a line of input that could not be used;\n" \
    "2 a wrong command line"

const struct command commands[] = {
    {TRAIN, "train", "learn from text, write a model file", "trf train [options]",
     "Learns to turn source lines into target lines and writes a model file, vocabularies inside; or\n"
     "what else --objective says: a language model, labels for texts or words, hidden parts of texts.\n"
     "Progress goes to standard error: update, mean loss of a target token of the last --log-every\n"
     "updates, learning rate, real tokens of both sides a second (there is no padding), time left, and\n"
     "the most memory that the process has had; with each validation three of its answers.\n"
     "What no option says follows from the data, and is told in the first lines. Pairs are held out\n"
     "to see how good the model is; the best so far is in the model file from then on. Training ends\n"
     "when it gets no better, unless --updates, --epochs or --minutes say when.\n"
     "Lines that cannot be trained on are left out and reported.\n"
     "SIGINT, SIGTERM and SIGHUP end training after the update that runs, with a checkpoint.\n"
     "\n"
     "    trf train --source train.de --target train.en --model de-en.safetensors\n"
     "    trf train --tsv words.tsv --model say.safetensors --epochs 30\n"
     "    trf train --objective classify --tsv reviews.tsv --model mood.safetensors\n"
     "    trf train --objective causal --text book.txt --documents file --tokens characters \\\n"
     "        --model book.safetensors\n"
     "    trf train ... --resume                  the same command, going on from its checkpoint",
     "Exit status: 0 all went well; 1 an error; 2 a wrong command line; 128 + N stopped by signal N,\n"
     "with a checkpoint unless none was wanted."},
    {TRANSLATE, "translate", "lines in, translated lines out", "trf translate --model FILE [FILE] [options]",
     "Translates each line. Line n of the output belongs to line n of the input, always:\n"
     "a line without tokens gives an empty line; a line that is too long for the model or not UTF-8\n"
     "gives an empty line, a message with its number, and exit status 1 at the end. With --n-best\n"
     "such a line gives one answer without text, with score 0 (empty) or -inf (not translated); with\n"
     "--json none. Answers of --n-best differ in their tokens; where subwords cut one text in two ways\n"
     "it comes twice. An answer is one line: line ends and NULs in it (byte fallback) are written as\n"
     "blanks; --json keeps them. A checkpoint of a training that still runs will do as a model.\n"
     "\n"
     "    trf translate --model de-en.safetensors < new.de > new.en\n"
     "    trf translate --model de-en.safetensors new.de --beam 5 --n-best 5",
     EXIT_TEXT "."},
    {GENERATE, "generate", "go on with a text", "trf generate --model FILE [TEXT] [options]",
     "Writes what a language model (trf train --objective causal) makes of a beginning: of --prompt, of\n"
     "each line of --input, or of nothing; an encoder-decoder model answers its input. One text alone\n"
     "is written token by token as it comes, several --batch at a time. Tokens are drawn at random;\n"
     "the same --seed gives the same text on any number of threads. A line that nothing can be drawn\n"
     "for (not UTF-8, too long) gives an empty text, a message, and exit status 1 at the end. The\n"
     "beginning is written as it was given, and a NUL that is drawn (byte fallback) as a blank. A\n"
     "language model goes on beyond its max-length: of a text that is longer than what it was trained\n"
     "on it reads the end, in a window that is cut in half whenever it is full.\n"
     "\n"
     "    trf generate --model shakespeare.safetensors 'To be' --temperature 0.8\n"
     "    trf generate --model stories.safetensors --count 5 --top-p 0.9 --seed 7",
     EXIT_TEXT "."},
    {CLASSIFY, "classify", "a label for each line", "trf classify --model FILE [FILE] [options]",
     "Writes for each line its most probable label, of those that trf train --objective classify has\n"
     "seen. An empty line gives an empty line; so does one that is too long for the model or not UTF-8,\n"
     "with a message and exit status 1 at the end.\n"
     "\n"
     "    trf classify --model languages.safetensors lines > labels",
     EXIT_TEXT "."},
    {TAG, "tag", "a label for each word", "trf tag --model FILE [FILE] [options]",
     "Writes for each line as many labels as it has words, of those that trf train --objective tag has\n"
     "seen. An empty line gives an empty line; so does one that is too long for the model or not UTF-8,\n"
     "with a message and exit status 1 at the end. A word that has no token (of invisible characters)\n"
     "gets a label too, from the words around it.\n"
     "\n"
     "    trf tag --model parts-of-speech.safetensors lines > labels",
     EXIT_TEXT "."},
    {SCORE, "score", "log-probability of given translations",
     "trf score --model FILE (SOURCE TARGET | PAIRS | TEXT) [options]",
     "Writes for each pair of lines: the natural logarithm of the target's probability given the\n"
     "source, a tab, and the number of target tokens with the end mark. A pair that cannot be scored\n"
     "(too long, not UTF-8, or a line that the other, shorter file has no partner for) gives 'nan', a\n"
     "tab and 0, and exit status 1; messages give the numbers of the first five such lines, and the\n"
     "reasons. A language model has no source: give one file, each line is a document. Files may also\n"
     "be given by --source, --target and --tsv. A file of pairs has a source, a tab and a target in\n"
     "each line. The last line on standard error has the sums and the perplexity.\n"
     "\n"
     "    trf score --model de-en.safetensors test.de test.en > scores",
     EXIT_TEXT "."},
    {EVAL, "eval", "BLEU, chrF, error rates of lines beside references", "trf eval REFERENCES [HYPOTHESES] [options]",
     "Compares lines with references: line n of one file belongs to line n of the other. Without\n"
     "HYPOTHESES, or with '-', they come from standard input. A figure a line, in the form of\n"
     "sacreBLEU: name, what must be known to repeat it, the figure from 0 to 100 (error rates may be\n"
     "above), and its parts. A byte order mark before a file's first line is no text.\n"
     "Of several references BLEU counts words found in any; chrF takes the best, the error rates\n"
     "the one with the fewest errors, of several such the longest; exact means equal to any.\n"
     "\n"
     "    trf translate --model de-en.safetensors test.de | trf eval test.en\n"
     "    trf eval test.en answers --metrics bleu,chrf++ --lowercase --json\n"
     "    trf eval test.en answers --by-length --worst 20\n"
     "    trf eval pronunciations.txt answers --alternatives --metrics exact,wer",
     EXIT_TEXT "."},
    {INSPECT, "inspect", "what is in a model or another safetensors file, or what a model would be",
     "trf inspect (FILE | options of a model) [--trace] [--json]",
     "Shows metadata, and each tensor with its type, shape, number of elements, mean, standard\n"
     "deviation, smallest and largest number. Of models and checkpoints of transformer.h also the\n"
     "settings (as the options of trf train), the vocabularies, the labels, how many weights each part\n"
     "has, the memory of training and translating, and the operations of a pass.\n"
     "Without a file it shows these amounts of the model that the options describe, and makes no\n"
     "weights. Where trf train would look at its data, the values are: --size base, vocabularies of\n"
     "32,000 tokens, pre-norm, --tying decoder (all, where there is one vocabulary), no generator bias.\n"
     "\n"
     "    trf inspect model.safetensors\n"
     "    trf inspect --size base --vocab-size 37000 --joint-vocabulary yes\n"
     "    trf inspect --shape gpt2\n"
     "    trf inspect --recipe paper --vocab-size 37000 --trace --source-length 9 --target-length 7",
     EXIT_TEXT "."},
    {ATTENTION, "attention", "which token looks at which: maps of attention",
     "trf attention MODEL --source TEXT [--target TEXT] [options]",
     "Draws the attention of a model's heads while it reads a text: a row for each token that looks,\n"
     "a column for each that is looked at, darker for more weight. The weights of a row sum to 1.\n"
     "For each head, standard output has the mean entropy of its rows in nats, its share of the largest\n"
     "possible (0: each token looks at one token; 1: at all alike), and the strongest link; rows that\n"
     "can look at one token alone have none. Layers and heads are counted from 0.\n"
     "A row of cross-attention is named after the token that it writes, \"</s>\" being the end mark. In\n"
     "the decoder rows and columns are named after the tokens that it reads; the first is what it reads\n"
     "before its first token. A model with one side, as a language model, reads --source alone.\n"
     "\n"
     "    trf attention de-en.safetensors --source 'ein Hund bellt' --output attention.svg\n"
     "    trf attention de-en.safetensors --source 'ein Hund bellt' --target 'a dog barks' --layer all\n"
     "    trf attention book.safetensors --source 'To be, or not' --layer 0 --head 3",
     EXIT_TEXT "."},
    {AVERAGE, "average", "the mean of several models", "trf average MODEL MODEL... --output FILE",
     "Writes a model whose weights are the means of those of the given models or checkpoints, which\n"
     "must come from one training: its last ones, or its best (trf train --keep).\n"
     "\n"
     "    trf average m.update-9000 m.update-9500 m.update-10000 --output mean.safetensors\n"
     "    trf average model.safetensors --weights bf16 --output half.safetensors",
     EXIT_TEXT "."},
    {PLOT, "plot", "pictures of trainings, schedules, positions, masks",
     "trf plot LOG... | schedule | positions | masks [options]",
     "Draws logs that trf train --log has written, one run over another: loss of training and\n"
     "validation, metric, token accuracy, learning rate, tokens a second, gradient norm, as far as the\n"
     "logs have them. A curve is named after its log. Lines that are no part of a log are left out, with\n"
     "a message and exit status 1; the last line may be cut. gnuplot draws curves, .png and\n"
     ".pdf, and has to be installed; a heat map as .svg needs nothing, and shows its numbers on hover.\n"
     "schedule draws the learning rate over the updates, positions the table of position encodings,\n"
     "masks which tokens see which in attention.\n"
     "\n"
     "    trf plot first.json second.json --output runs.svg\n"
     "    trf plot run.json --only loss,rate\n"
     "    trf plot schedule --warmup 1000,4000,8000 --d-model 256,512 --output rates.svg\n"
     "    trf plot positions --d-model 128 --max-length 100 --output positions.svg\n"
     "    trf plot masks --words 'the cat sat down' --output masks.svg",
     EXIT_TEXT "."},
    {REPORT, "report", "trainings, answers and attention as one page of HTML",
     "trf report LOG... [--model FILE --data FILE] --output FILE",
     "Writes one page of HTML that needs no network: a table of the trainings, with the options that\n"
     "differ between them, and their curves. With --model also the parts and the vocabulary of a model;\n"
     "with --data its answers beside references, the worst first, what differs marked, scores by length,\n"
     "and the attention of some lines. The script in the page gives a choice of layer and head; without\n"
     "it everything else is there. gnuplot draws the curves; without it the page has their numbers.\n"
     "\n"
     "    trf report run.json --output report.html\n"
     "    trf report small.json large.json --model large.safetensors --data test.tsv --output report.html",
     "Exit status: 0 all went well; 1 an error, or a line of --data that the model could not read (the\n"
     "page has the reason); 2 a wrong command line."},
};

const int n_commands = (int)(sizeof commands / sizeof *commands);
