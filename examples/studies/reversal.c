/* reversal.c - a model learns to reverse sequences. Does its attention show it?

   A tutorial trains a model of two layers for 30 epochs on 5,000 reversals of 3 to 8 of 17 symbols.
   It expects that the model learns them, and that cross-attention lies on the anti-diagonal,
   because the first symbol written is the last one read. It initialises as PyTorch does: embeddings
   of deviation 1, times sqrt(d_model), which drown positions of size 1. The paper's embeddings
   start with deviation 1 / sqrt(d_model).

   The study trains with both embeddings, and with the other weights initialised as nn.Linear's or
   by Glorot and Bengio. It reports right held-out tokens, exact answers, and for each layer and
   head the share of the weight on the anti-diagonal, over 50 held-out sequences of 8 symbols.
   reversal.svg shows the cross-attention of every layer and head with the paper's embeddings,
   reversal-tutorial.svg with the tutorial's. reversal-epochs.svg shows right tokens by epoch. */
#include "look.h"

enum { SETTINGS = 4, HEADS = 4, MOST = 2 * HEADS, TUTORIAL = 0, PAPER = 3 };
enum { EPOCHS = 30, QUICK_EPOCHS = 10 };

static const struct setting {
    const char *embeddings, *others;
    trf_embedding_init embedding_init;
    trf_init init;
} settings[SETTINGS] = {
    {"1 (tutorial)", "nn.Linear", TRF_EMBEDDING_NORMAL_1, TRF_INIT_LINEAR},
    {"1 (tutorial)", "Glorot", TRF_EMBEDDING_NORMAL_1, TRF_INIT_XAVIER},
    {"1/sqrt(d) (paper)", "nn.Linear", TRF_EMBEDDING_NORMAL_D, TRF_INIT_LINEAR},
    {"1/sqrt(d) (paper)", "Glorot", TRF_EMBEDDING_NORMAL_D, TRF_INIT_XAVIER}
};

/* Of each seed: the share of every head, and their mean in the last layer. */
struct shares { double head[STUDY_SEEDS][MOST], last[STUDY_SEEDS]; };

static void draw(struct study *s, const char *part, const char *title, const trf_model *model)
{
    struct pairs p = pairs_reversal(s, 5002, 1, REVERSAL_LONG, REVERSAL_LONG, NULL);
    trf_batch one = pairs_batch(&p, 0, 1);
    reversal_draw(s, part, title, model, &one, TRF_DECODER_CROSS);
}

/* Held-out tokens right after each epoch, in the mean over the seeds. */
static void draw_epochs(struct study *s, const struct outcome *o, int seeds)
{
    static char names[SETTINGS][64];
    double x[PAIRS_EPOCHS], y[SETTINGS][PAIRS_EPOCHS];
    struct curve curves[SETTINGS];
    struct panel panel;
    int epochs = s->quick ? QUICK_EPOCHS : EPOCHS, which, i, seed, n = 0;
    for (which = 0; which < SETTINGS; which++) {
        if (s->quick && which != TUTORIAL && which != PAPER) continue;
        for (i = 0; i < epochs; i++) {
            x[i] = i + 1;
            y[n][i] = 0;
            for (seed = 0; seed < seeds; seed++)
                y[n][i] += o[which * seeds + seed].by_epoch[i] / seeds;
        }
        snprintf(names[n], sizeof names[n], "%s, %s", settings[which].embeddings,
                 settings[which].others);
        curves[n] = study_curve(names[n], x, y[n], epochs);
        curves[n++].points = 0;
    }
    panel = study_panel("held-out tokens right, by embeddings and other weights", "epoch",
                        "percent", curves, n);
    panel.from_zero = 1;
    study_curves(s, "epochs", &panel, 1, 1);
}

static void write_names(const int32_t *ids, int32_t n, char *text, size_t size)
{
    size_t at = 0;
    int32_t i;
    text[0] = '\0';
    for (i = 0; i < n && at + 8 < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s ", reversal_name(ids[i]));
}

/* Some answers of a model: those that the reader of a table looks at first. */
static void examples(struct study *s, const char *name, const trf_model *model)
{
    struct pairs p = pairs_reversal(s, 4001, 4, REVERSAL_LONG, REVERSAL_LONG, NULL);
    trf_search greedy = trf_search_defaults();
    trf_translator *translator = NULL;
    int32_t i;
    greedy.beam = 1;
    STUDY_TRY(trf_translator_create(&translator, model, &greedy, &err));
    for (i = 0; i < p.count; i++) {
        const int32_t *source = p.source + p.from_source[i], *target = p.target + p.from_target[i];
        const trf_sequences asked = {source, p.n_source + i, 1};
        const trf_hypothesis *answer;
        char read[128], written[128];
        STUDY_TRY(trf_translate(translator, &asked, NULL, &err));
        answer = trf_translator_answer(translator, 0, 0);
        write_names(source, p.n_source[i], read, sizeof read);
        write_names(answer->ids, answer->n, written, sizeof written);
        study_row(s, "%s | %s | %s | %s", name, read, written, answer->n == p.n_target[i]
                  && !memcmp(answer->ids, target, (size_t)answer->n * sizeof *target) ? "yes" : "no");
    }
    trf_translator_destroy(translator);
}

/* The model belongs to the caller. */
static trf_model *measure(struct study *s, int which, int seed, struct outcome *o,
                          struct shares *shares)
{
    const struct setting *setting = &settings[which];
    int layers = s->quick ? 1 : 2, head;
    struct lesson lesson = pairs_lesson(s, 64, HEADS, layers, s->quick ? 128 : 256);
    struct pairs p = pairs_reversal(s, 4000, 50, REVERSAL_LONG, REVERSAL_LONG, NULL);
    trf_batch batch = pairs_batch(&p, 0, p.count);
    double *share = shares->head[seed];
    trf_model *model;
    if (s->quick) pairs_hurry(&lesson, 3e-3, QUICK_EPOCHS, 64, 5000);
    lesson.config.embedding_init = setting->embedding_init;
    lesson.config.init = setting->init;
    model = reversal_learn(s, lesson, 5000, (uint64_t)seed + 1, o);
    reversal_shares(s, model, &batch, share);
    for (head = 0; head < HEADS; head++)
        shares->last[seed] += share[(layers - 1) * HEADS + head] / HEADS;
    return model;
}

/* The share of each layer and head with the paper's embeddings, in the mean over the seeds. */
static void heads(struct study *s, const struct shares *paper, int seeds)
{
    int i, k, layers = s->quick ? 1 : 2;
    double share[STUDY_SEEDS] = {0};
    study_table(s, "heads", "layer | head | weight on the anti-diagonal");
    for (k = 0; k < layers * HEADS; k++) {
        for (i = 0; i < seeds; i++) share[i] = paper->head[i][k];
        study_row(s, "%d | %d | %s", k / HEADS + 1, k % HEADS + 1, study_spread(share, seeds, 2));
    }
}

static void judge(struct study *s, const char *whose, const struct outcome *o,
                  const struct shares *shares, int seeds)
{
    char claim[128];
    snprintf(claim, sizeof claim, "the model learns to reverse, embeddings of the %s",
             whose);
    study_claim(s, claim, MEAN(o, seeds, exact) > 95 ? STUDY_YES : STUDY_NO,
                "tokens right %s %%, exact answers %s %% (bound: 95)",
                SPREAD(o, seeds, accuracy, 1), SPREAD(o, seeds, exact, 1));
    snprintf(claim, sizeof claim,
             "cross-attention lies on the anti-diagonal, embeddings of the %s", whose);
    study_claim(s, claim, study_mean(shares->last, seeds) >= 0.6 ? STUDY_YES : STUDY_NO,
                "the share of the last layer's weight there: %s (bound: 0.6)",
                study_spread(shares->last, seeds, 2));
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "reversal",
                                 "does a model learn to reverse, and does its attention show it?");
    int seeds = s.quick ? 1 : s.seeds, i, seed;
    size_t trainings = (size_t)(SETTINGS * seeds);
    struct outcome *o = (struct outcome *)study_memory(&s, trainings * sizeof *o);
    struct outcome *paper = o + PAPER * seeds, *tutorial = o + TUTORIAL * seeds;
    trf_model *shown[2] = {NULL, NULL};
    struct shares *shares = (struct shares *)study_memory(&s, SETTINGS * sizeof *shares);
    study_columns(&s, "deviation of embeddings | other weights | held-out loss | "
                      "tokens right, % | exact, % | weight on the anti-diagonal, last layer");
    for (i = 0; i < SETTINGS; i++) {
        struct outcome *at = o + i * seeds;
        if (s.quick && i != TUTORIAL && i != PAPER) continue;
        for (seed = 0; seed < seeds; seed++) {
            trf_model *model = measure(&s, i, seed, at + seed, &shares[i]);
            if (!seed && (i == TUTORIAL || i == PAPER)) shown[i == PAPER] = model;
            else trf_model_destroy(model);
        }
        study_row(&s, "%s | %s | %s | %s | %s | %s", settings[i].embeddings, settings[i].others,
                  SPREAD(at, seeds, loss, 3), SPREAD(at, seeds, accuracy, 1),
                  SPREAD(at, seeds, exact, 1), study_spread(shares[i].last, seeds, 2));
    }
    heads(&s, &shares[PAPER], seeds);
    draw(&s, "tutorial", "cross-attention, embeddings of the tutorial", shown[0]);
    draw(&s, "", "cross-attention, embeddings of the paper", shown[1]);
    draw_epochs(&s, o, seeds);
    study_table(&s, "examples", "embeddings | read | written | right");
    examples(&s, "tutorial", shown[0]);
    examples(&s, "paper", shown[1]);
    trf_model_destroy(shown[0]);
    trf_model_destroy(shown[1]);
    study_must(&s, study_mean(shares[PAPER].last, seeds) >= 0.6,
               "with the paper's embeddings 0.6 of the weight is on the anti-diagonal, not %.3f",
               study_mean(shares[PAPER].last, seeds));
    study_must(&s, MEAN(paper, seeds, exact) > 90, "the paper's embeddings learn reversals");
    study_must(&s, MEAN(paper, seeds, accuracy) > MEAN(tutorial, seeds, accuracy) + 3,
               "they learn them better than the tutorial's");
    judge(&s, "tutorial", tutorial, &shares[TUTORIAL], seeds);
    judge(&s, "paper", paper, &shares[PAPER], seeds);
    return study_end(&s);
}
