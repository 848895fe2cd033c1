/* tasks.c - pairs of lines to try trf on: source, tab, target.

   build   cc -O2 -I. -Iexamples tools/tasks.c -o build/tasks
   run     build/tasks dates 20000 1 >train.tsv        a date in one of eight forms, and as 2024-03-05
           build/tasks reversal 20000 1 >train.tsv     up to twelve letters, and the same from behind
           build/tasks grammar 20000 1 >train.tsv      English sentences of examples/grammar.h, and their German

   The last number is the seed; `grammar` with seed 0 gives sentences whose combinations of words no other seed has. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../examples/grammar.h"

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

static void print_sentence(uint64_t *state, int test)
{
    grammar_sentence s;
    do grammar_make(below(state, UINT32_MAX), &s); while (test ? !grammar_is_test(&s) : !grammar_is_training(&s));
    printf("%s\t%s\n", s.english, s.german);
}

int main(int argc, char **argv)
{
    const char *task = argc == 4 ? argv[1] : "";
    long n = argc == 4 ? strtol(argv[2], NULL, 10) : 0, i;
    uint64_t seed = argc == 4 ? strtoull(argv[3], NULL, 10) : 0, state = seed;
    (void)grammar_check;        /* not needed here */
    if (n <= 0 || (strcmp(task, "dates") && strcmp(task, "reversal") && strcmp(task, "grammar"))) {
        fprintf(stderr, "usage: tasks dates|reversal|grammar N SEED\n");
        return 2;
    }
    for (i = 0; i < n; i++) {
        if (*task == 'd') print_date(&state);
        else if (*task == 'r') print_reversal(&state);
        else print_sentence(&state, seed == 0);
    }
    return ferror(stdout) != 0;
}
