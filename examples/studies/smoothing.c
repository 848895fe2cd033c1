/* smoothing.c - what does label smoothing do to answers, perplexity and confidence?

   Tutorials claim that label smoothing prevents overconfidence and improves generalization. The
   paper (5.4) adds that it hurts perplexity and helps BLEU.

   Models of two layers a side, d_model 48, learn English to German from 2,000 sentences of
   examples/grammar.h with at most 14 words. The 400 test sentences combine words that no training
   sentence combines. One set of training runs uses the data as they are; in the other, one target
   word in seven is replaced by a random one. Answers by greedy search give exact ones and edits for
   100 words (word error rate). Teacher-forced answers give perplexity; confidence, which is the mean
   largest probability; and the calibration error, |confidence - share right|, averaged over ten
   bins of equal width (Guo et al. 2017). */
#include "pairs.h"
#include "examples/grammar.h"

enum { LEVELS = 3, NOISES = 2, WORDS = 14, BINS = 10 };

static const double levels[LEVELS] = {0, 0.1, 0.2};
static const int noises[NOISES] = {0, 7};       /* one word in so many is wrong */

struct vocabs { trf_vocab *english, *german; };
struct measured {
    double exact[STUDY_SEEDS], edits[STUDY_SEEDS], right[STUDY_SEEDS], perplexity[STUDY_SEEDS];
    double confidence[STUDY_SEEDS], calibration[STUDY_SEEDS];
};

static struct vocabs make_vocabs(void)
{
    struct vocabs v = {NULL, NULL};
    grammar_sentence sentence;
    uint64_t number;
    STUDY_TRY(trf_vocab_create(&v.english, TRF_WORDS, NULL, &err));
    STUDY_TRY(trf_vocab_create(&v.german, TRF_WORDS, NULL, &err));
    for (number = 0; number < 5000; number++) {
        grammar_make(number, &sentence);
        STUDY_TRY(trf_vocab_learn(v.english, sentence.english, &err));
        STUDY_TRY(trf_vocab_learn(v.german, sentence.german, &err));
    }
    STUDY_TRY(trf_vocab_finish(v.english, 1000, 1, &err));
    STUDY_TRY(trf_vocab_finish(v.german, 1000, 1, &err));
    return v;
}

/* Sentences to learn from, or to test with. One target word in `noise` becomes any word, by
   chance; 0: none. */
static struct pairs make_pairs(struct study *s, const struct vocabs *v, uint64_t seed,
                               int32_t count, int test, int noise)
{
    struct pairs p = pairs_create(s, count, WORDS);
    uint64_t number = (seed + 1) * 1000000, random = seed;
    while (p.count < count) {
        int32_t source[WORDS], target[WORDS], n, m, i;
        grammar_sentence sentence;
        grammar_make(number++, &sentence);
        if (test ? !grammar_is_test(&sentence) : !grammar_is_training(&sentence)) continue;
        if (trf_vocab_encode(v->english, sentence.english, 0, source, WORDS, &n, NULL)
            || trf_vocab_encode(v->german, sentence.german, 0, target, WORDS, &m, NULL)
            || pairs_have(&p, source, n)) continue;     /* too long, or there already */
        study_must(s, !grammar_check(sentence.english) == !test, "held out: %s", sentence.english);
        for (i = 0; i < m && noise; i++)
            if (!study_below(&random, noise))
                target[i] = 4 + study_below(&random, trf_vocab_size(v->german) - 4);
        pairs_add(&p, source, n, target, m);
    }
    return p;
}

/* Confidence, calibration error and perplexity of the next token. */
static void calibrate(struct study *s, const trf_model *model, const struct pairs *p, int seed,
                      struct measured *out)
{
    trf_tensor logits = pairs_logits(s, model, p);
    const trf_real *z = logits.data;
    int32_t v = trf_model_config(model)->target_vocab, i, j, k;
    double rows = (double)logits.shape[0];
    double nll = 0, sum_confidence = 0, in_bin[BINS] = {0}, right_in_bin[BINS] = {0}, error = 0;
    for (i = 0; i < p->count; i++)
        for (j = 0; j <= p->n_target[i]; j++, z += v) {
            int32_t wanted = pairs_token(model, p, i, j), best = study_best(z, 0, v), bin;
            double sum = 0, confidence;
            for (k = 0; k < v; k++) sum += exp((double)z[k] - (double)z[best]);
            confidence = 1 / sum;
            nll += log(sum) + (double)z[best] - (double)z[wanted];
            bin = confidence < 1 ? (int32_t)(confidence * BINS) : BINS - 1;
            in_bin[bin] += confidence;
            right_in_bin[bin] += best == wanted;
            sum_confidence += confidence;
        }
    for (i = 0; i < BINS; i++) error += fabs(in_bin[i] - right_in_bin[i]) / rows;
    out->perplexity[seed] = exp(nll / rows);
    out->confidence[seed] = 100 * sum_confidence / rows;
    out->calibration[seed] = 100 * error;
}

static void measure(struct study *s, const struct vocabs *v, int noise, double smoothing, int seed,
                    struct measured *out)
{
    int32_t count = s->quick ? 400 : 2000;
    struct lesson lesson = pairs_lesson(s, 48, 4, s->quick ? 1 : 2, 96);
    struct pairs learned = make_pairs(s, v, (uint64_t)seed + 1, count, 0, noise);
    struct pairs held_out = make_pairs(s, v, 1000, s->quick ? 100 : 400, 1, 0);
    trf_batch tests = pairs_batch(&held_out, 0, held_out.count);
    trf_search greedy = trf_search_defaults();
    trf_translator *translator = NULL;
    struct outcome o;
    trf_model *model;
    pairs_hurry(&lesson, 3e-3, s->quick ? 10 : 20, 32, count);
    lesson.training.label_smoothing = smoothing;
    lesson.config.norm_place = TRF_PRE_NORM;
    lesson.config.final_norm = TRF_FINAL_NORM_BOTH;
    lesson.config.source_vocab = trf_vocab_size(v->english);
    lesson.config.target_vocab = trf_vocab_size(v->german);
    lesson.learned = &learned;
    lesson.held_out = &held_out;
    model = pairs_learn(lesson, (uint64_t)seed + 1, &o);
    greedy.beam = 1;
    STUDY_TRY(trf_translator_create(&translator, model, &greedy, &err));
    STUDY_TRY(trf_translator_error_rate(translator, &tests, &out->edits[seed], &err));
    trf_translator_destroy(translator);
    out->exact[seed] = o.exact;
    out->right[seed] = o.accuracy;
    calibrate(s, model, &held_out, seed, out);
    study_must(s, fabs(log(out->perplexity[seed]) - o.loss) < 1e-4,
               "the library's loss is %.6f, that of the logits %.6f", o.loss,
               log(out->perplexity[seed]));
    trf_model_destroy(model);
}

/* Claims about one level of smoothing beside none: smaller is better but for exact answers. */
static void judge(struct study *s, const struct measured *none, const struct measured *some, int n,
                  const char *data)
{
    char text[128];
    snprintf(text, sizeof text, "smoothing 0.1 improves generalization, %s", data);
    study_claim(s, text, study_larger(some->exact, n, none->exact, n),
                "exact: %s %% without, %s %% with; edits for 100 words: %s, %s",
                study_spread(none->exact, n, 1), study_spread(some->exact, n, 1),
                study_spread(none->edits, n, 1), study_spread(some->edits, n, 1));
    snprintf(text, sizeof text, "smoothing 0.1 hurts perplexity (paper, 5.4), %s", data);
    study_claim(s, text, study_larger(some->perplexity, n, none->perplexity, n),
                "perplexity %s without, %s with", study_spread(none->perplexity, n, 3),
                study_spread(some->perplexity, n, 3));
    snprintf(text, sizeof text, "smoothing 0.1 prevents overconfidence, %s", data);
    study_claim(s, text, study_larger(none->calibration, n, some->calibration, n),
                "confidence %s and accuracy %s %% without, %s and %s %% with; calibration "
                "error %s %% without, %s %% with", study_spread(none->confidence, n, 1),
                study_spread(none->right, n, 1), study_spread(some->confidence, n, 1),
                study_spread(some->right, n, 1), study_spread(none->calibration, n, 1),
                study_spread(some->calibration, n, 1));
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "smoothing", "what does label smoothing do?");
    struct vocabs v = make_vocabs();
    int seeds = s.quick ? 1 : s.seeds, noise, level, seed;
    struct measured *m = (struct measured *)study_memory(&s, NOISES * LEVELS * sizeof *m);
    study_columns(&s, "wrong words | smoothing | exact, % | edits for 100 words | perplexity | "
                      "tokens right, % | confidence, % | calibration error, %");
    for (noise = 0; noise < NOISES; noise++) {
        struct measured *at = m + noise * LEVELS;
        for (level = 0; level < LEVELS; level++, at++) {
            for (seed = 0; seed < seeds; seed++)
                measure(&s, &v, noises[noise], levels[level], seed, at);
            study_row(&s, "%s | %.1f | %s | %s | %s | %s | %s | %s", noise ? "1 in 7" : "none",
                      levels[level], study_spread(at->exact, seeds, 1),
                      study_spread(at->edits, seeds, 1), study_spread(at->perplexity, seeds, 3),
                      study_spread(at->right, seeds, 1), study_spread(at->confidence, seeds, 1),
                      study_spread(at->calibration, seeds, 1));
        }
        study_must(&s, study_mean(at[-1].confidence, seeds) < study_mean(at[-3].confidence, seeds),
                   "smoothing lowers the confidence");
    }
    for (noise = 0; noise < NOISES; noise++)
        judge(&s, m + noise * LEVELS, m + noise * LEVELS + 1, seeds,
              noise ? "a seventh of the words wrong" : "clean data");
    trf_vocab_destroy(v.english);
    trf_vocab_destroy(v.german);
    return study_end(&s);
}
