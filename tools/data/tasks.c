/* tasks.c - pairs of lines to try trf on: source, tab, target.

   build   cc -O2 tools/data/tasks.c -o build/tasks
   run     build/tasks dates 20000 1 >train.tsv        a date in one of eight forms, and as 2024-03-05
           build/tasks reversal 20000 1 >train.tsv     up to twelve letters, and the same from behind
           build/tasks grammar 20000 1 >train.tsv      English sentences of examples/grammar.h, and their German
           build/tasks kinds 4000 1 >train.tsv         its German sentences, and their kind
           build/tasks unsegmented 3000 1 >train.tsv   numbered words, and Chinese without blanks
           build/tasks glossary 3000 1 >train.tsv      two words, and two words the other way round
           build/tasks marks 3000 1 >train.tsv         words, and signs that normalising would change: m², 12½, ZWNJ
           build/tasks rows 3000 1 >train.tsv          five kinds of pairs in turn
           build/tasks numbers 20000 1 >train.tsv      a number, and German for it: answers of up to 68 letters
           build/tasks repeated 6000 1 >train.tsv      a word, and the same with its vowels twice; each word many times
           build/tasks code 4000 1 >train.tsv          a statement and its depth, and the line with its indentation

   The last number is the seed; `grammar` and `kinds` with seed 0 give sentences whose combinations of words no other seed has. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../examples/grammar.h"

/* splitmix64 */
static uint32_t below(uint64_t *state, uint32_t n)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % n);
}

static void print_date(uint64_t *state)
{
    static const char *const months[] = {"January", "February", "March", "April", "May", "June", "July", "August",
                                         "September", "October", "November", "December"};
    int year = 1950 + (int)below(state, 100), month = (int)below(state, 12), day = 1 + (int)below(state, 28);
    const char *name = months[month];
    switch (below(state, 8)) {
    case 0: printf("%d %s %d", day, name, year); break;
    case 1: printf("%s %d, %d", name, day, year); break;
    case 2: printf("%02d.%02d.%d", day, month + 1, year); break;
    case 3: printf("%d/%d/%d", month + 1, day, year); break;
    case 4: printf("%d-%.3s-%02d", day, name, year % 100); break;
    case 5: printf("the %d%s of %s %d", day, day % 10 == 1 && day != 11 ? "st" : day % 10 == 2 && day != 12 ? "nd"
                   : day % 10 == 3 && day != 13 ? "rd" : "th", name, year); break;
    case 6: printf("%.3s %d %d", name, day, year); break;
    default: printf("%d%02d%02d", year, month + 1, day); break;
    }
    printf("\t%d-%02d-%02d\n", year, month + 1, day);
}

static void print_reversal(uint64_t *state)
{
    int n = 1 + (int)below(state, 12), i, letters[12];
    for (i = 0; i < n; i++) printf("%s%c", i ? " " : "", letters[i] = 'a' + (int)below(state, 20));
    putchar('\t');
    for (i = n; i-- > 0; ) printf("%c%s", letters[i], i ? " " : "\n");
}

static void print_sentence(uint64_t *state, int test, int kind)
{
    static const char *const kinds[GRAMMAR_FRAMES] = {"statement", "question", "opening", "that", "because", "when",
                                                      "who"};
    grammar_sentence s;
    do grammar_make(below(state, UINT32_MAX), &s); while (test ? !grammar_is_test(&s) : !grammar_is_training(&s));
    if (kind) printf("%s\t%s\n", s.german, kinds[s.frame]);
    else printf("%s\t%s\n", s.english, s.german);
}

static void print_unsegmented(uint64_t *state)
{
    static const char *const who[] = {"男孩", "女孩", "我叔叔", "老师", "我们的猫", "医生", "士兵", "司机"};
    static const char *const does[] = {"吃", "买", "卖", "想要", "看见", "喜欢", "画", "找到"};
    static const char *const what[] = {"米饭", "茶", "鱼", "面包", "苹果", "汤", "书", "花", "纸", "一盏灯", "鞋子", "一张地图"};
    static const char *const when[] = {"今天", "昨天", "冬天", "晚上", "每天", "星期一"};
    uint32_t s = below(state, 8), v = below(state, 8), a = below(state, 12), b = below(state, 12), t = below(state, 6);
    printf("t%d , s%d v%d o%d and o%d .\t%s, %s%s%s和%s。\n", (int)t, (int)s, (int)v, (int)a, (int)b, when[t], who[s],
           does[v], what[a], what[b]);
}

/* Words of the first hundred syllables: known, in pairs that are mostly new. */
static void print_glossary(uint64_t *state)
{
    static const char c[] = "bdfgklmnprst", v[] = "aeiou";
    uint32_t a = below(state, 60), b = below(state, 60);
    printf("%c%cn %c%cr\t%c%cro %c%cno\n", c[a % 12], v[a / 12], c[b % 12], v[b / 12], c[b % 12], v[b / 12], c[a % 12],
           v[a / 12]);
}

/* Names, of which half are new, so that words become subwords, beside signs that normalising would change. */
static void print_marks(uint64_t *state)
{
    static const char capital[] = "BDFGKLMNPRST", c[] = "bdfgklmnprst", v[] = "aeiou";
    uint32_t first = below(state, 60), second = below(state, 60);
    int n = 1 + (int)below(state, 99);
    char name[5] = {capital[first % 12], v[first / 12], c[second % 12], v[second / 12], 0};
    switch (below(state, 6)) {
    case 0: printf("the garden of %s has %d square metres\tle jardin de %s fait %d m²\n", name, n, name, n); break;
    case 1: printf("%s drinks %d and a half litres of water\t%s boit encore %d½ litres d’eau\n", name, n, name, n); break;
    case 2: printf("%s gives three quarters of %d apples\t%s donne les ¾ de %d pommes\n", name, n, name, n); break;
    case 3: printf("%s goes on to the number %d and waits ...\t%s va à %d… pour attendre\n", name, n, name, n); break;
    case 4: printf("%s asks for %d of them !\t%s demande：%d ou rien！\n", name, n, name, n); break;
    default: printf("%s goes home with %d of my books\t%s با %d کتاب به خانه می\xE2\x80\x8Cرود\n", name, n, name, n); break;
    }
}

/* The kind of a pair is its place in a row of five. */
static void print_row(uint64_t *state, long i)
{
    static const char *const kinds[] = {"copy", "twice", "turn", "first", "last"};
    int a = (int)below(state, 30), b = (int)below(state, 30), k = (int)(i % 5);
    printf("%s w%d w%d\t", kinds[k], a, b);
    if (k == 0) printf("w%d w%d\n", a, b);
    if (k == 1) printf("w%d w%d w%d w%d\n", a, b, a, b);
    if (k == 2) printf("w%d w%d\n", b, a);
    if (k > 2) printf("w%d\n", k == 3 ? a : b);
}

/* 1 to 999, as they stand before "tausend" (ein), or at the end (eins). */
static void print_below_thousand(int n, const char *one)
{
    static const char *const small[] = {"", "ein", "zwei", "drei", "vier", "f\xC3\xBCnf", "sechs", "sieben", "acht", "neun",
        "zehn", "elf", "zw\xC3\xB6lf", "dreizehn", "vierzehn", "f\xC3\xBCnfzehn", "sechzehn", "siebzehn", "achtzehn",
        "neunzehn"};
    static const char *const tens[] = {"zwanzig", "drei\xC3\x9Fig", "vierzig", "f\xC3\xBCnfzig", "sechzig", "siebzig",
        "achtzig", "neunzig"};
    if (n >= 100) printf("%shundert", small[n / 100]);
    n %= 100;
    if (n >= 20) printf("%s%s%s", small[n % 10], n % 10 ? "und" : "", tens[n / 10 - 2]);
    else if (n == 1) printf("%s", one);
    else printf("%s", small[n]);
}

static void print_number(uint64_t *state)
{
    uint32_t most = 10;
    int n, k = (int)below(state, 6);
    while (k-- > 0) most *= 10;
    n = 1 + (int)below(state, most - 1);
    printf("%d\t", n);
    if (n >= 1000) { print_below_thousand(n / 1000, "ein"); printf("tausend"); }
    print_below_thousand(n % 1000, "eins");
    putchar('\n');
}

/* About 24 copies of each word. The words of another seed are others. */
static void print_repeated(uint64_t *state, long n, uint64_t seed)
{
    static const char c[] = "bdfgklmnprst", v[] = "aeiou";
    uint64_t word = seed * 1000003 + below(state, (uint32_t)(n / 24 + 1));
    int syllables = 2 + (int)below(&word, 3), i;
    char text[16];
    for (i = 0; i < syllables; i++) {
        text[2 * i] = c[below(&word, 12)];
        text[2 * i + 1] = v[below(&word, 5)];
    }
    printf("%.*s\t", 2 * i, text);
    for (i = 0; i < syllables; i++) printf("%c%c%c", text[2 * i], text[2 * i + 1], text[2 * i + 1]);
    putchar('\n');
}

static void print_code(uint64_t *state)
{
    static const char *const forms[] = {"return", "print", "call", "free"};
    int depth = (int)below(state, 4), form = (int)below(state, 4), name = (int)below(state, 40);
    printf("%d %s x%d\t%*s%s(x%d);\n", depth, forms[form], name, 4 * depth, "", forms[form], name);
}

int main(int argc, char **argv)
{
    static const char *const tasks[] = {"dates", "reversal", "grammar", "unsegmented", "glossary", "marks", "rows",
                                        "numbers", "repeated", "code", "kinds"};
    int known = 0, k;
    const char *task = argc == 4 ? argv[1] : "";
    long n = argc == 4 ? strtol(argv[2], NULL, 10) : 0, i;
    uint64_t seed = argc == 4 ? strtoull(argv[3], NULL, 10) : 0, state = seed;
    (void)grammar_check;        /* not needed here */
    for (k = 0; k < 11; k++) known |= !strcmp(task, tasks[k]);
    if (n <= 0 || !known) {
        fprintf(stderr, "usage: tasks dates|reversal|grammar|unsegmented|glossary|marks|rows|numbers|repeated|code|"
                        "kinds N SEED\n");
        return 2;
    }
    for (i = 0; i < n; i++) {
        if (*task == 'd') print_date(&state);
        else if (!strcmp(task, "reversal")) print_reversal(&state);
        else if (!strcmp(task, "rows")) print_row(&state, i);
        else if (!strcmp(task, "repeated")) print_repeated(&state, n, seed);
        else if (*task == 'n') print_number(&state);
        else if (*task == 'c') print_code(&state);
        else if (*task == 'u') print_unsegmented(&state);
        else if (*task == 'm') print_marks(&state);
        else if (!strcmp(task, "glossary")) print_glossary(&state);
        else print_sentence(&state, seed == 0, *task == 'k');
    }
    return ferror(stdout) != 0;
}
