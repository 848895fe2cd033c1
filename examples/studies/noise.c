/* noise.c - what does each objective make of a text, and how much of it does it predict?

   Tutorials give the shares of BERT's masks: 15 % of the words are chosen; 80 % of these are
   masked, 10 % become other words and 10 % stay. They claim that next words count at every
   position.

   The study shows one line of language.h as each objective makes it. Then it draws 200 sequences of
   500 random words with the defaults of trf_noise_options, which are those of BERT and T5. It
   counts the words that are read and predicted, the length of spans, and the shares of masks. */
#include "language.h"

enum { SEQUENCES = 200, LENGTH = 500, MANY = SEQUENCES * LENGTH, SPAN_IDS = 100 };
static const char *const names[] = {"masks", "spans", "prefixes", "next words"};

static trf_noise *create(int objective, int sentinels)
{
    trf_noise_options o = trf_noise_defaults();
    trf_noise *noise = NULL;
    o.kind = (trf_noise_kind)objective;
    o.vocab = o.first_sentinel = WORDS_END;
    o.n_sentinels = sentinels;
    if (objective == SPANS && sentinels < SPAN_IDS)
        o.density = 0.3, o.mean_span = 2; /* short lines */
    STUDY_TRY(trf_noise_create(&noise, &o, &err));
    return noise;
}

static void show_line(void)
{
    static struct text x;
    int objective;
    for (objective = MASKS; objective < NEXT; objective++) {
        trf_noise *noise = create(objective, VOCAB - WORDS_END);
        uint64_t random = 5;
        trf_batch b;
        memset(&b, 0, sizeof b);
        b.source = language_draw(&x, 1, 0, &random);
        if (objective == MASKS) language_print("the line", &b.source);
        STUDY_TRY(trf_noise_apply(noise, &b, &b, &err));
        printf("    %s\n", names[objective]);
        language_print("  reads", &b.source);
        language_print("  predicts", &b.target);
        trf_noise_destroy(noise);
    }
    printf("    %s\n    predict the line, each word from those before it\n", names[NEXT]);
}

/* Of all chosen words, in percent: masked, another word, as they were. */
static void count_masks(const trf_batch *b, double shares[3], double *chosen)
{
    int32_t i;
    shares[0] = shares[1] = shares[2] = *chosen = 0;
    for (i = 0; i < MANY; i++) {
        if (b->target.ids[i] < 0) continue;
        ++*chosen;
        shares[b->source.ids[i] == 0 ? 0 : b->source.ids[i] != b->target.ids[i] ? 1 : 2]++;
    }
    for (i = 0; i < 3; i++) shares[i] *= 100 / *chosen;
}

/* Sentinels of the sources, and words of the targets that are none. */
static void count_spans(const trf_batch *b, double *spans, double *words)
{
    const int32_t *source = b->source.ids, *target = b->target.ids;
    int32_t i, j;
    *spans = *words = 0;
    for (i = 0; i < SEQUENCES; i++) {
        for (j = 0; j < b->source.lengths[i]; j++) *spans += *source++ >= WORDS_END;
        for (j = 0; j < b->target.lengths[i]; j++) *words += *target++ < WORDS_END;
    }
}

int main(int argc, char **argv)
{
    static int32_t ids[MANY], lengths[SEQUENCES];
    struct study s = study_begin(argc, argv, "noise", "how objectives change a text");
    uint64_t random = 42;
    double read, predicted[4], shares[3] = {0, 0, 0}, spans = 0, hidden = 0;
    int objective, i;
    for (i = 0; i < MANY; i++) ids[i] = ARTICLE + study_below(&random, WORDS);
    for (i = 0; i < SEQUENCES; i++) lengths[i] = LENGTH;
    show_line();
    study_columns(&s, "objective | ids read, for 100 words | words predicted, for 100 words");
    for (objective = MASKS; objective <= NEXT; objective++) {
        trf_noise *noise = objective == NEXT ? NULL : create(objective, SPAN_IDS);
        trf_batch b;
        memset(&b, 0, sizeof b);
        b.source.ids = ids;
        b.source.lengths = lengths;
        b.source.count = SEQUENCES;
        if (noise) STUDY_TRY(trf_noise_apply(noise, &b, &b, &err));
        for (read = i = 0; i < SEQUENCES; i++) read += b.source.lengths[i];
        predicted[objective] = MANY;
        if (objective == MASKS) count_masks(&b, shares, &predicted[MASKS]);
        if (objective == SPANS) count_spans(&b, &spans, &predicted[SPANS]);
        if (objective == PREFIXES) predicted[PREFIXES] = MANY - read;
        predicted[objective] *= 100.0 / MANY;
        study_row(&s, "%s | %.1f | %.1f", names[objective], 100 * read / MANY,
                  predicted[objective]);
        trf_noise_destroy(noise);
    }
    hidden = predicted[SPANS] * MANY / 100;
    study_must(&s, fabs(predicted[MASKS] - 15) < 0.1 && fabs(predicted[SPANS] - 15) < 0.1,
               "15 %% are chosen: %g, %g", predicted[MASKS], predicted[SPANS]);
    study_must(&s, fabs(shares[0] - 80) < 1 && fabs(shares[1] - 10) < 1, "80, 10 and 10 %%: %g, %g",
               shares[0], shares[1]);
    study_must(&s, fabs(hidden / spans - 3) < 0.1, "spans of three words: %g", hidden / spans);
    study_claim(&s,
                "BERT's masks: 15 % of the words; 80 % masked, 10 % other words, 10 % unchanged",
                STUDY_YES, "%.1f %%; %.1f, %.1f and %.1f %%", predicted[MASKS], shares[0],
                shares[1], shares[2]);
    study_claim(
        &s, "next words count at every position", STUDY_YES,
        "words predicted for 100 words: next words %.0f, prefixes %.0f, masks %.0f, spans %.0f, "
        "in spans of %.2f words",
        predicted[NEXT], predicted[PREFIXES], predicted[MASKS], predicted[SPANS], hidden / spans);
    return study_end(&s);
}
