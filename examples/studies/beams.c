/* beams.c - how wide should a beam be, and which score should rank its answers?

   A tutorial compares beams of 1, 3, 5, 10 and 20 and expects 5 to 10 to balance quality and speed.
   Its search ranks answers by the sum of log-probabilities, which favours short answers.

   Small models learn to translate the sentences of examples/grammar.h into German. Each model is
   tested twice: early, when it makes many mistakes, and late, when it makes fewer. Test sentences
   combine words that no training sentence combines. The study measures each beam with three scores:
   the sum; the sum over the length; the paper's, with alpha 0.6. It reports the BLEU of words as
   sacreBLEU counts it, exact answers, the model's log-probability of its answers, their length, and
   the time for all. Beam 1 is greedy search. A gain is the difference between two searches with one
   model. */
#include "study.h"
#include "examples/grammar.h"
#include "../../tools/metrics/metrics.c"

enum { PAIRS = 6000, TESTS = 200, BEAMS = 5, SCORES = 3, SUM = 0, MEAN = 1, PAPER = 2 };
enum { STAGES = 2, MOST = 100 };
static const int beams[BEAMS] = {1, 3, 5, 10, 20};
static const char *const scores[SCORES] = {"sum", "sum / length", "paper, 0.6"};

struct result { double bleu, exact, log_probability, length, seconds; };
struct task {
    trf_vocab *english, *german;
    trf_corpus *corpus;
    int32_t source[TESTS * GRAMMAR_TEXT / 2], lengths[TESTS];
    char german_texts[TESTS][GRAMMAR_TEXT];
};

static void make_task(struct task *x)
{
    trf_corpus_options o = trf_corpus_defaults();
    grammar_sentence s;
    uint64_t number;
    int32_t at = 0, room = TESTS * GRAMMAR_TEXT / 2;
    int pass, n;
    o.batch_tokens = 1024;
    STUDY_TRY(trf_vocab_create(&x->english, TRF_WORDS, NULL, &err));
    STUDY_TRY(trf_vocab_create(&x->german, TRF_WORDS, NULL, &err));
    STUDY_TRY(trf_corpus_create(&x->corpus, &o, &err));
    for (pass = 0; pass < 2; pass++) {
        for (number = 1, n = 0; n < PAIRS; number++) {
            grammar_make(number, &s);
            if (!grammar_is_training(&s)) continue;
            n++;
            if (pass == 1) {
                STUDY_TRY(trf_corpus_add_text(x->corpus, x->english, s.english, x->german, s.german,
                                              &err));
                continue;
            }
            STUDY_TRY(trf_vocab_learn(x->english, s.english, &err));
            STUDY_TRY(trf_vocab_learn(x->german, s.german, &err));
        }
        if (pass == 1) break;
        STUDY_TRY(trf_vocab_finish(x->english, 1000, 1, &err));
        STUDY_TRY(trf_vocab_finish(x->german, 1000, 1, &err));
    }
    for (number = 5000000, n = 0; n < TESTS; number++) {
        grammar_make(number, &s);
        if (!grammar_is_test(&s) || grammar_check(s.english) == 0) continue;
        STUDY_TRY(trf_vocab_encode(x->english, s.english, 0, x->source + at, room - at, &x->lengths[n],
                                   &err));
        at += x->lengths[n];
        memcpy(x->german_texts[n++], s.german, GRAMMAR_TEXT);
    }
}

/* A model before and after more training: copies[k] has seen updates[k] batches. */
static void train(const struct study *s, const struct task *x, uint64_t seed, const int *updates,
                  trf_model **copies)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_batch b;
    int i, k;
    c.d_model = 64;
    c.d_ff = 128;
    c.encoder_layers = c.decoder_layers = 2;
    c.source_vocab = trf_vocab_size(x->english);
    c.target_vocab = trf_vocab_size(x->german);
    c.seed = o.seed = seed;
    c.device.threads = s->threads;
    o.learning_rate = 3e-3;
    o.residual_dropout = 0.1;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_model_set_vocabs(model, x->english, x->german, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    trf_corpus_resume(x->corpus, NULL, NULL);
    for (i = k = 0; k < STAGES; k++) {
        for (; i < updates[k]; i++) {
            STUDY_TRY(trf_corpus_next(x->corpus, &b, &err));
            STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
        }
        STUDY_TRY(trf_model_copy(&copies[k], model, &err));
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static struct result translate(const struct task *x, const trf_model *model, int beam, int score)
{
    struct metrics_options wanted = {1u << FIGURE_BLEU | 1u << FIGURE_EXACT, METRICS_NONE, 0};
    struct metrics *m = metrics_create(&wanted);
    trf_search search = trf_search_defaults();
    trf_sequences sources = {x->source, x->lengths, TESTS};
    trf_translator *t = NULL;
    char text[4 * GRAMMAR_TEXT];
    struct result r = {0, 0, 0, 0, 0};
    double begin;
    int i;
    search.beam = beam;
    if (score == SUM) search.length_rule = TRF_LENGTH_RAW;
    if (score == MEAN) search.length_rule = TRF_LENGTH_POWER, search.alpha = 1;
    STUDY_TRY(trf_translator_create(&t, model, &search, &err));
    begin = study_seconds();
    STUDY_TRY(trf_translate(t, &sources, NULL, &err));
    r.seconds = study_seconds() - begin;
    for (i = 0; i < TESTS; i++) {
        const char *reference = x->german_texts[i];
        const trf_hypothesis *best = trf_translator_answer(t, i, 0);
        r.log_probability += best->log_probability / TESTS;
        STUDY_TRY(trf_vocab_decode(trf_model_vocab(model, TRF_TARGET), best->ids, best->n, text, sizeof text, NULL,
                                   &err));
        if (!m || metrics_add(m, text, &reference, 1)) fprintf(stderr, "out of memory\n"), exit(1);
    }
    r.bleu = metrics_value(m, FIGURE_BLEU);
    r.exact = metrics_value(m, FIGURE_EXACT);
    r.length = 100.0 * (double)metrics_sums(m)->bleu[0].hypothesis /
               (double)metrics_sums(m)->bleu[0].reference;
    metrics_destroy(m);
    trf_translator_destroy(t);
    return r;
}

/* What one kind of figure is for a stage, a score and a beam, of all seeds. */
static double figures[5][STAGES][SCORES][BEAMS][MOST];
enum { BLEU, EXACT, PROBABILITY, LENGTH, SECONDS };

static void measure(const struct study *s, const struct task *x, int seed, const int *updates)
{
    trf_model *copies[STAGES] = {NULL, NULL};
    int stage, score, beam;
    train(s, x, (uint64_t)seed + 1, updates, copies);
    for (stage = 0; stage < STAGES; stage++) {
        for (score = 0; score < SCORES; score++) {
            for (beam = 0; beam < (s->quick ? 3 : BEAMS); beam++) {
                struct result r = translate(x, copies[stage], beams[beam], score);
                figures[BLEU][stage][score][beam][seed] = r.bleu;
                figures[EXACT][stage][score][beam][seed] = r.exact;
                figures[PROBABILITY][stage][score][beam][seed] = r.log_probability;
                figures[LENGTH][stage][score][beam][seed] = r.length;
                figures[SECONDS][stage][score][beam][seed] = r.seconds;
            }
        }
        trf_model_destroy(copies[stage]);
    }
}

/* By how much the figure of a beam is above that of another, model by model. */
static const double *gain(int figure, int stage, int score, int beam, int other, int n)
{
    static double gains[16][MOST];
    static int next;
    double *difference = gains[next++ % 16];
    int i;
    for (i = 0; i < n; i++)
        difference[i] =
            figures[figure][stage][score][beam][i] - figures[figure][stage][score][other][i];
    return difference;
}

/* Means over the seeds. */
static void picture(struct study *s, int n_beams)
{
    enum { PANELS = 4 };
    static const struct {
        const char *title, *unit;
        int figure, stage;
    } shown[PANELS] = {{"BLEU, early in training", "BLEU", BLEU, 0},
                       {"BLEU, late in training", "BLEU", BLEU, 1},
                       {"length of answers, early in training", "% of the references'", LENGTH, 0},
                       {"time for 200 sentences, late in training", "seconds", SECONDS, 1}};
    static double x[BEAMS], y[PANELS][SCORES][BEAMS];
    struct curve curves[PANELS][SCORES];
    struct panel panels[PANELS];
    int p, score, beam;
    for (p = 0; p < PANELS; p++) {
        for (score = 0; score < SCORES; score++) {
            for (beam = 0; beam < n_beams; beam++) {
                const double *values = figures[shown[p].figure][shown[p].stage][score][beam];
                x[beam] = beams[beam];
                y[p][score][beam] = study_mean(values, s->seeds);
            }
            curves[p][score] = study_curve(scores[score], x, y[p][score], n_beams);
        }
        panels[p] = study_panel(shown[p].title, "beam", shown[p].unit, curves[p], SCORES);
        panels[p].log_x = 1;
    }
    panels[3].log_y = 1;
    study_curves(s, "", panels, PANELS, 2);
}

static void conclude(struct study *s, int n)
{
    static const double none[MOST];
    const double *five = gain(BLEU, 1, PAPER, 2, 0, n), *three = gain(BLEU, 1, PAPER, 1, 0, n);
    const double *twenty = gain(BLEU, 1, PAPER, 4, 0, n), *ten = gain(BLEU, 1, PAPER, 3, 0, n);
    study_claim(s, "a beam of 5 to 10 balances quality and speed", study_larger(five, n, none, n),
                "BLEU above greedy, late, paper's score: 3 %s, 5 %s, 10 %s, 20 %s; "
                "seconds for 1, 3, 5, 10, 20: %.2f %.2f %.2f %.2f %.2f",
                study_spread(three, n, 2), study_spread(five, n, 2), study_spread(ten, n, 2),
                study_spread(twenty, n, 2), study_mean(figures[SECONDS][1][PAPER][0], n),
                study_mean(figures[SECONDS][1][PAPER][1], n),
                study_mean(figures[SECONDS][1][PAPER][2], n),
                study_mean(figures[SECONDS][1][PAPER][3], n),
                study_mean(figures[SECONDS][1][PAPER][4], n));
    study_claim(s, "wider beams find more probable answers",
                study_larger(gain(PROBABILITY, 0, SUM, 4, 0, n), n, none, n),
                "log-probability above greedy search, early, by the sum: beam 3 %s, 20 %s nats",
                study_spread(gain(PROBABILITY, 0, SUM, 1, 0, n), n, 2),
                study_spread(gain(PROBABILITY, 0, SUM, 4, 0, n), n, 2));
    study_claim(s, "ranking by the sum of log-probabilities makes answers short",
                study_larger(none, n, gain(LENGTH, 0, SUM, 4, 0, n), n),
                "length, early, beam 20 minus greedy: sum %s, sum / length %s points",
                study_spread(gain(LENGTH, 0, SUM, 4, 0, n), n, 1),
                study_spread(gain(LENGTH, 0, MEAN, 4, 0, n), n, 1));
}

int main(int argc, char **argv)
{
    static struct task x;
    struct study s =
        study_begin(argc, argv, "beams", "the width of beam search against quality and time");
    int updates[STAGES] = {200, 700}, stage, score, beam, i, n_beams = s.quick ? 3 : BEAMS;
    if (s.quick) s.seeds = 1, updates[0] = 30, updates[1] = 60;
    make_task(&x);
    for (i = 0; i < s.seeds; i++) measure(&s, &x, i, updates);
    study_columns(
        &s, "updates | score | beam | BLEU | exact, % | log-probability of an answer | length, % |"
            " seconds for 200 sentences");
    for (stage = 0; stage < STAGES; stage++) {
        for (score = 0; score < SCORES; score++) {
            for (beam = 0; beam < n_beams; beam++)
                study_row(&s, "%d | %s | %d | %s | %s | %s | %s | %s", updates[stage],
                          scores[score], beams[beam],
                          study_spread(figures[BLEU][stage][score][beam], s.seeds, 2),
                          study_spread(figures[EXACT][stage][score][beam], s.seeds, 1),
                          study_spread(figures[PROBABILITY][stage][score][beam], s.seeds, 3),
                          study_spread(figures[LENGTH][stage][score][beam], s.seeds, 1),
                          study_spread(figures[SECONDS][stage][score][beam], s.seeds, 2));
            for (i = 0; i < s.seeds; i++)
                study_must(&s, figures[BLEU][stage][score][0][i] == figures[BLEU][stage][SUM][0][i],
                           "greedy search knows no score");
        }
        for (i = 0; i < s.seeds; i++)
            study_must(
                &s,
                figures[PROBABILITY][stage][SUM][n_beams - 1][i] >=
                    figures[PROBABILITY][stage][SUM][0][i],
                "by the sum, a beam of %d finds answers at least as probable as greedy search",
                beams[n_beams - 1]);
    }
    picture(&s, n_beams);
    if (s.quick)
        study_claim(&s, "wider beams find more probable answers", STUDY_UNDECIDED,
                    "%.2f nats, greedy %.2f", figures[PROBABILITY][1][SUM][2][0],
                    figures[PROBABILITY][1][SUM][0][0]);
    else conclude(&s, s.seeds);
    trf_corpus_destroy(x.corpus);
    trf_vocab_destroy(x.english);
    trf_vocab_destroy(x.german);
    return study_end(&s);
}
