/* build: O0 linked */
/* Files that an older transformer.h has written (tests/golden/old, see make.sh there): models
   translate, a generator's session and a checkpoint go on, with the results of then. */
#include "transformer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "calls.h"
#include "golden/old/steps.h"

#define OLD "tests/golden/old/"

/* Number of lines in which the file `expected` and what has been written differ: words and whole
   numbers must be equal, numbers with a point within the tolerance. A line that only one of them
   has counts. */
static int differences(FILE *written, const char *expected, double tolerance)
{
    FILE *want = fopen(expected, "r");
    char ours[512], theirs[512];
    int different = 0, lines = 0;
    assert_non_null(want);
    rewind(written);
    for (;;) {
        const char *a = fgets(ours, sizeof ours, written), *b = fgets(theirs, sizeof theirs, want);
        int same = 1;
        if (!a && !b) break;
        while (same && a && b && (*a || *b)) {
            size_t n = strcspn(a, "\t\n"), m = strcspn(b, "\t\n");
            if (memchr(b, '.', m)) same = fabs(strtod(a, NULL) - strtod(b, NULL)) <= tolerance;
            else same = n == m && !memcmp(a, b, n);
            a += n + (a[n] != 0);
            b += m + (b[m] != 0);
        }
        if (!a || !b || !same) {
            print_error("%s: line %d: %s    expected: %s", expected, lines + 1, a ? ours : "none\n",
                        b ? theirs : "none\n");
            different++;
        }
        lines++;
    }
    fclose(want);
    assert_true(lines > 0);
    return different;
}

static trf_model *load(const char *path)
{
    trf_model *model = NULL;
    trf_error err;
    if (trf_model_load(&model, path, NULL, &err)) fail_msg("%s", err.message);
    return model;
}

static void test_models_translate(void **state)
{
    static const char *const names[] = {"words", "characters", "subwords"};
    static const char *const inputs[] = {"2 0 1", "201", "2 0 1"}, *const answers[] = {
                                                                       "one zero two", "onezerotwo",
                                                                       "one zero two"};
    int i;
    (void)state;
    for (i = 0; i < 3; i++) {
        char path[64], answer[64];
        trf_error err;
        trf_translator *translator = NULL;
        trf_model *model;
        snprintf(path, sizeof path, OLD "%s", names[i]);
        model = load(path);
        assert_int_equal(trf_translator_create(&translator, model, NULL, &err), TRF_OK);
        if (trf_translate_text(translator, inputs[i], answer, sizeof answer, &err))
            fail_msg("%s", err.message);
        assert_string_equal(answer, answers[i]);
        trf_translator_destroy(translator);
        trf_model_destroy(model);
    }
}

static void test_a_session_goes_on(void **state)
{
    trf_model *model = load(OLD "causal");
    FILE *out = tmpfile();
    (void)state;
    assert_non_null(out);
    assert_int_equal(steps_generate(model, OLD "session", out), TRF_OK);
    assert_int_equal(differences(out, OLD "session.out", 1e-3), 0);
    fclose(out);
    trf_model_destroy(model);
}

static void test_a_checkpoint_goes_on(void **state)
{
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_corpus *corpus = NULL;
    trf_error err;
    FILE *out = tmpfile();
    (void)state;
    assert_non_null(out);
    if (steps_corpus(&corpus, &err)) fail_msg("%s", err.message);
    if (trf_checkpoint_load(&model, &trainer, corpus, OLD "state", NULL, NULL, &err))
        fail_msg("%s", err.message);
    assert_int_equal(kit_updates(trainer), 25);
    assert_int_equal(steps_train(trainer, corpus, out), TRF_OK);
    assert_int_equal(differences(out, OLD "state.out", 1e-5), 0);
    fclose(out);
    trf_trainer_destroy(trainer);
    trf_corpus_destroy(corpus);
    trf_model_destroy(model);
}

static void test_masked_words(void **state)
{
    trf_model *model = load(OLD "mask");
    FILE *out = tmpfile();
    (void)state;
    assert_non_null(out);
    assert_int_equal(steps_masked(model, steps_lines, 3, out), TRF_OK);
    assert_int_equal(differences(out, OLD "mask.out", 1e-3), 0);
    fclose(out);
    trf_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_translate),
        cmocka_unit_test(test_a_session_goes_on),
        cmocka_unit_test(test_a_checkpoint_goes_on),
        cmocka_unit_test(test_masked_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
