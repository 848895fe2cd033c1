/* build: O0 */
// The sentences of examples/grammar.h: are those to test with new? grammar_check reads the
// English text alone, so it tests the grammar's own bookkeeping.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "examples/grammar.h"

enum { TRAINING = 40000, TESTS = 1000, DISTINCT = 100000, SET = 1 << 20 };

/* A set of texts by their hash (FNV-1a, 64 bits); 0 marks a free place. */
static int has(uint64_t *set, const char *text, int add)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t i;
    while (*text) hash = (hash ^ (unsigned char)*text++) * UINT64_C(1099511628211);
    hash |= 1;
    for (i = (size_t)(hash >> 20) % SET; set[i]; i = (i + 1) % SET) if (set[i] == hash) return 1;
    if (add) set[i] = hash;
    return 0;
}

/* Every number is a sentence, the same each time, and there are many of them. */
static void test_numbers(void **state)
{
    uint64_t *set = (uint64_t *)calloc(SET, sizeof *set), number;
    grammar_sentence s, again;
    int distinct = 0;
    (void)state;
    assert_non_null(set);
    for (number = 1; distinct <= DISTINCT; number++) {
        assert_true(number < 2 * DISTINCT);
        grammar_make(number, &s);
        assert_true(strlen(s.english) < GRAMMAR_TEXT / 2 && strlen(s.german) < GRAMMAR_TEXT / 2);
        distinct += !has(set, s.english, 1);
        if (number % 100) continue;
        grammar_make(number, &again);
        assert_string_equal(s.english, again.english);
        assert_string_equal(s.german, again.german);
    }
    free(set);
}

/* A training sentence has no held-out combination; a test sentence has one, so it is no training
   sentence. No training sentence has its translation either: remembering never gives the answer. */
static void test_held_out(void **state)
{
    uint64_t *english = (uint64_t *)calloc(SET, sizeof *english);
    uint64_t *german = (uint64_t *)calloc(SET, sizeof *german);
    uint64_t number;
    grammar_sentence s;
    int training = 0, tests = 0, neither = 0;
    (void)state;
    assert_true(english && german);
    for (number = 1; training < TRAINING; number++) {
        grammar_make(number, &s);
        assert_false(grammar_is_training(&s) && grammar_is_test(&s));
        neither += !grammar_is_training(&s) && !grammar_is_test(&s);
        if (!grammar_is_training(&s)) continue;
        assert_int_equal(grammar_check(s.english), 0);
        has(english, s.english, 1);
        has(german, s.german, 1);
        training++;
    }
    assert_true(neither > 0);
    for (; tests < TESTS; number++) {
        grammar_make(number, &s);
        if (!grammar_is_test(&s)) continue;
        assert_true(grammar_check(s.english) > 0);
        assert_false(has(english, s.english, 0));
        assert_false(has(german, s.german, 0));
        tests++;
    }
    free(english);
    free(german);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_held_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
