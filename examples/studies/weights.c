/* weights.c - how many weights and operations do the well-known shapes have?

   Tutorials give numbers: base about 65 million weights, BERT 110, GPT-2 117, T5 220, an encoder
   block about 4 d^2, a decoder block about 6 d^2. One counts by a formula of its own, without
   tying.

   trf_config_check and trf_count_flops count from a configuration and allocate nothing, so they
   can count even GPT-3. For small shapes the study also makes the model and counts its weights. */
#include "study.h"

enum { SHAPES = 9, PARTS = 5 };
static const char *const part_names[PARTS] = {"embeddings", "attention", "feed-forward", "norms",
                                              "generator"};
static const char *const names[SHAPES] = {
    "tutorial, d 64", "tutorial, small", "base, untied", "base, one matrix", "big, one matrix",
    "BERT base", "GPT-2 small", "T5 base", "GPT-3"};

static trf_config both_sides(int d, int heads, int layers, int d_ff, int vocab)
{
    trf_config c = trf_config_preset(TRF_TINY);
    c.d_model = d;
    c.n_heads = heads;
    c.encoder_layers = c.decoder_layers = layers;
    c.d_ff = d_ff;
    c.source_vocab = c.target_vocab = vocab;
    c.final_norm = 0;
    return c;
}
static trf_config one_side(trf_kind kind, int d, int heads, int layers, int vocab, int longest)
{
    trf_config c = both_sides(d, heads, layers, 4 * d, vocab);
    c.kind = kind;
    c.positions = TRF_POSITIONS_LEARNED;
    c.max_length = longest;
    c.final_norm = 1;
    if (kind == TRF_ENCODER_ONLY) c.decoder_layers = c.target_vocab = 0;
    else c.encoder_layers = c.source_vocab = 0;
    return c;
}
static trf_config shape(int i)
{
    trf_config c;
    switch (i) {
    case 0: return both_sides(64, 4, 2, 256, 20);
    case 1: return both_sides(256, 4, 4, 1024, 32000);
    case 2: return both_sides(512, 8, 6, 2048, 37000);
    case 3: case 4:
        c = both_sides(i == 3 ? 512 : 1024, i == 3 ? 8 : 16, 6, i == 3 ? 2048 : 4096, 37000);
        c.tying = TRF_TIED_ALL;
        c.generator_bias = 0;
        return c;
    case 5: return one_side(TRF_ENCODER_ONLY, 768, 12, 12, 30522, 512);
    case 6: case 8:
        c = i == 6 ? one_side(TRF_DECODER_ONLY, 768, 12, 12, 50257, 1024)
                   : one_side(TRF_DECODER_ONLY, 12288, 96, 96, 50257, 2048);
        c.tying = TRF_TIED_DECODER;
        c.generator_bias = 0;
        return c;
    default:
        c = both_sides(768, 12, 12, 3072, 32128);
        c.tying = TRF_TIED_ALL;
        c.generator_bias = 0;
        return c;
    }
}

/* The formula of a tutorial: two embeddings, a projection, biases everywhere, no final norm. */
static int64_t by_formula(const trf_config *c)
{
    int64_t d = c->d_model, f = c->d_ff, v = c->source_vocab, layers = c->encoder_layers;
    int64_t attention = 4 * d * d + 4 * d, feed = 2 * d * f + f + d;
    return 2 * v * d + layers * (attention + feed + 4 * d) +
           layers * (2 * attention + feed + 6 * d) + v * d + v;
}

static void parts_of(const trf_model_size *w, double *parts)
{
    parts[0] = (double)(w->source_embedding + w->target_embedding + w->positions);
    parts[1] = (double)(w->encoder_attention + w->decoder_attention + w->cross_attention);
    parts[2] = (double)(w->encoder_feed_forward + w->decoder_feed_forward);
    parts[3] = (double)(w->encoder_norms + w->decoder_norms);
    parts[4] = (double)w->generator;
}

static void shapes(struct study *s, double *totals)
{
    static float shares[SHAPES * PARTS];
    struct heat_map map = study_map("share of the weights, %", shares, SHAPES, PARTS);
    int i, k;
    study_columns(s, "shape | weights | embeddings | attention | feed-forward | norms | "
                     "output projection | GFLOP a pass of 100 tokens");
    for (i = 0; i < SHAPES; i++) {
        trf_config c = shape(i);
        trf_model_size w;
        trf_flop_counts f;
        double parts[PARTS], sum = 0;
        STUDY_TRY(trf_config_check(&c, &w, &err));
        STUDY_TRY(trf_count_flops(&c, c.encoder_layers ? 100 : 0, c.decoder_layers ? 100 : 0, &f,
                                  &err));
        parts_of(&w, parts);
        totals[i] = (double)w.total;
        for (k = 0; k < PARTS; k++) {
            shares[i * PARTS + k] = (float)(100 * parts[k] / totals[i]);
            sum += parts[k];
        }
        study_row(s, "%s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.3g", names[i], totals[i],
                  parts[0], parts[1], parts[2], parts[3], parts[4], f.total / 1e9);
        study_must(s, sum == totals[i], "%s: the parts sum up to the total", names[i]);
        study_must(s, i > 2 || by_formula(&c) == w.total, "%s: the formula gives %lld, not %lld",
                   names[i], (long long)by_formula(&c), (long long)w.total);
        if (s->quick ? i == 0 : i < 2) {
            trf_model *model = NULL;
            STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
            study_must(s, trf_model_parameter_total(model) == w.total, "%s: a model has as many",
                       names[i]);
            trf_model_destroy(model);
        }
        c.n_heads = 1;
        STUDY_TRY(trf_config_check(&c, &w, &err));
        study_must(s, (double)w.total == totals[i], "%s: heads change no count", names[i]);
    }
    map.row_names = names;
    map.column_names = part_names;
    study_heat_maps(s, "", "where the weights are", &map, 1, 1, 0, 100);
}

/* "About" is within 5 %. */
static void about(struct study *s, const char *claim, double wanted, double total)
{
    double unit = total < 1e9 ? 1e6 : 1e9;
    study_claim(s, claim, fabs(total / wanted - 1) <= 0.05 ? STUDY_YES : STUDY_NO,
                "%.1f %s, %+.1f %%", total / unit, unit < 1e9 ? "million" : "billion",
                100 * (total / wanted - 1));
}

/* One block by its formula, and the share of attention in the operations, as sequences grow. */
static void blocks(struct study *s)
{
    static const int lengths[] = {10, 100, 1000, 10000};
    trf_config c = shape(3);
    double d2 = (double)c.d_model * c.d_model, share[4], encoder, decoder;
    trf_model_size w;
    int i;
    STUDY_TRY(trf_config_check(&c, &w, &err));
    encoder = (double)(w.encoder_attention + w.encoder_feed_forward + w.encoder_norms) / 6 / d2;
    decoder = (double)(w.decoder_attention + w.cross_attention + w.decoder_feed_forward +
                       w.decoder_norms) / 6 / d2;
    study_table(s, "flops", "tokens a side, base | GFLOP a pass | softmax(q k) v, % | "
                            "per token and weight outside embeddings");
    for (i = 0; i < 4; i++) {
        trf_flop_counts f;
        double blocks_only;
        c.max_length = 16384;
        STUDY_TRY(trf_count_flops(&c, lengths[i], lengths[i], &f, &err));
        share[i] = 100 * (f.encoder_attention + f.decoder_attention + f.cross_attention) / f.total;
        blocks_only = (f.total - f.generator) / lengths[i] /
                      (double)(w.total - w.source_embedding);
        study_row(s, "%d | %.4g | %.1f | %.2f", lengths[i], f.total / 1e9, share[i], blocks_only);
    }
    study_must(s, share[0] < share[1] && share[1] < share[2] && share[2] < share[3],
               "the share of attention grows with the length");
    study_claim(s, "an encoder block has about 4 d^2 weights", STUDY_NO,
                "%.1f d^2: attention 4, feed-forward 8", encoder);
    study_claim(s, "a decoder block has about 6 d^2 weights", STUDY_NO,
                "%.1f d^2: twice 4 for attention, feed-forward 8", decoder);
    study_must(s, encoder > 12 && decoder > 16, "the blocks: %g and %g d^2", encoder, decoder);
    study_claim(s, "the n^2 operations of attention become the bottleneck", STUDY_YES,
                "base: %.1f %% of all operations at 10 tokens, %.0f %% at 1,000, %.0f %% at 10,000",
                share[0], share[2], share[3]);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "weights", "weights and operations of known shapes");
    double totals[SHAPES];
    shapes(&s, totals);
    about(&s, "base has about 65 million weights, one matrix for all", 65e6, totals[3]);
    about(&s, "base has about 65 million weights, untied as in the tutorial", 65e6, totals[2]);
    about(&s, "BERT base has 110 million (here without segments and pooler)", 110e6, totals[5]);
    about(&s, "GPT-2 small has 117 million", 117e6, totals[6]);
    about(&s, "T5 base has 220 million (here with biases, without relative positions)", 220e6,
          totals[7]);
    about(&s, "GPT-3 has 175 billion", 175e9, totals[8]);
    blocks(&s);
    return study_end(&s);
}
