/* masks.c - what does the causal mask change?

   Tutorials draw the masks of BERT (every token sees every token) and of GPT (a token sees itself
   and those before it), and attention with and without the mask. They claim that the mask keeps a
   token from seeing the future, and that each row of weights still sums to 1.

   The study compares the weights of trf_attention with TRF_FULL and with TRF_CAUSAL, for the same
   queries and keys. Then an encoder and a decoder read a sentence, and the same sentence with
   another seventh word. Where the state of a token differs, that token has seen the word. */
#include "study.h"

enum { N = 8, D = 64, HEADS = 4, VOCAB = 13 };
static const char *const words[N] = {"The", "cat", "sat", "on", "the", "mat", ".", "[END]"};
static const int32_t length = N;

/* Which keys a query sees, of two masks that the library has not: tokens of a prefix see one
   another; nothing sees padding. */
static void draw_masks(struct study *s, float seen[4][N * N])
{
    enum { PREFIX = 4, OWN = 6 };
    static const char *const names[] = {"full", "causal", "prefix", "padding"},
                      *const titles[] = {"full (BERT, encoders)", "causal (GPT, decoders)",
                                         "prefix of 4 (T5, UniLM)", "padding after 6 (batches)"};
    struct heat_map maps[4];
    int m, i, j;
    study_table(s, "connections",
                "mask | query | The | cat | sat | on | the | mat | . | [END] | connections");
    for (m = 0; m < 4; m++) {
        int all = 0;
        for (i = 0; i < N; i++) {
            char cells[64] = "";
            int row = 0;
            for (j = 0; j < N; j++) {
                if (m == 2) seen[m][i * N + j] = j <= i || j < PREFIX;
                if (m == 3) seen[m][i * N + j] = j < OWN;
                row += seen[m][i * N + j] > 0;
                snprintf(cells + 4 * j, sizeof cells - 4 * (size_t)j, " %.0f |",
                         (double)seen[m][i * N + j]);
            }
            all += row;
            study_row(s, "%s | %s |%s %d", names[m], words[i], cells, row);
        }
        study_must(s, m != 2 || all == N * (N + 1) / 2 + PREFIX * (PREFIX - 1) / 2,
                   "a prefix adds the pairs above its diagonal: %d", all);
        maps[m] = study_map(titles[m], seen[m], N, N);
        maps[m].row_names = maps[m].column_names = words;
        maps[m].row_label = "query";
        maps[m].column_label = "key";
    }
    study_heat_maps(s, "connections", "who sees whom", maps, 4, 2, 0, 1);
}

static void draw(struct study *s, const trf_tensor p[2], float seen[4][N * N])
{
    static const char *const titles[] = {"without a mask (BERT)", "causal mask (GPT)"};
    struct heat_map maps[2];
    int m;
    for (m = 0; m < 2; m++) {
        maps[m] = study_map(titles[m], p[m].data, N, N);
        maps[m].row_names = maps[m].column_names = words;
    }
    study_heat_maps(s, "", "attention of one head", maps, 2, 2, 0, 1);
    draw_masks(s, seen);
}

static void probabilities(struct study *s, trf_context *context)
{
    trf_tensor q = study_tensor(s, N, D), k = study_tensor(s, N, D), p[2];
    static float seen[4][N * N];
    int connections[2] = {0, 0}, m, h, i, j;
    double ahead = 0, worst = 0, scaled = 0;
    uint64_t random = 42;
    study_fill_normal(&q, &random, 1);
    study_fill_normal(&k, &random, 1);
    for (m = 0; m < 2; m++) {
        trf_attention_shape shape = {.query_lengths = &length, .key_lengths = &length, .count = 1,
                                     .n_heads = HEADS, .mask = m ? TRF_CAUSAL : TRF_FULL};
        p[m] = study_tensor(s, HEADS * N * N, 0);
        STUDY_TRY(trf_attention(context, NULL, &q, &k, NULL, &shape, &p[m], NULL, &err));
        for (i = 0; i < N * N; i++) {
            int visible = p[m].data[i] > 0;
            seen[m][i] = (float)visible;
            connections[m] += visible;
        }
    }
    for (h = 0; h < HEADS; h++) {
        for (i = 0; i < N; i++) {
            const trf_real *full = p[0].data + (h * N + i) * N;
            const trf_real *causal = p[1].data + (h * N + i) * N;
            double past = 0, sum = 0;
            for (j = 0; j < N; j++) {
                if (j <= i) past += (double)full[j];
                else ahead += (double)full[j];
                if (j > i) study_must(s, causal[j] == 0, "no weight on the future");
                sum += (double)causal[j];
            }
            worst = fmax(worst, fabs(sum - 1));
            for (j = 0; j <= i; j++)    /* the softmax of what is left: the same ratios */
                scaled = fmax(scaled, fabs((double)full[j] / past - (double)causal[j]));
        }
    }
    study_columns(s, "mask | connections | weight on later tokens, % | rows sum to 1, within");
    ahead *= 100.0 / (HEADS * N);
    study_row(s, "none (BERT) | %d | %.1f | %.0e", connections[0], ahead, worst);
    study_row(s, "causal (GPT) | %d | 0 | %.0e", connections[1], worst);
    study_must(s, connections[0] == N * N && connections[1] == N * (N + 1) / 2,
               "BERT has n^2 connections, GPT n (n + 1) / 2: %d, %d", connections[0],
               connections[1]);
    study_must(s, worst < 1e-5, "the rows sum to 1: %g away", worst);
    study_must(s, scaled < 1e-5, "a masked row is the softmax of the rest: %g away", scaled);
    draw(s, p, seen);
    study_claim(s, "BERT's tokens have all-to-all connections, GPT's half of them",
                STUDY_YES, "%d and %d of %d", connections[0], connections[1], N * N);
    study_claim(s, "the causal mask hides later tokens, and rows still sum to 1", STUDY_YES,
                "later tokens have %.0f %% of the weight without it, none with it; sums are 1 "
                "within %.0e",
                ahead, worst);
}

/* States of all tokens after the last layer, (N, D). */
static trf_tensor states(struct study *s, trf_kind kind, const int32_t *ids)
{
    trf_config c = study_config(s, kind, 2, VOCAB, 1);
    trf_model *model = NULL;
    trf_reader *reader = NULL;
    trf_batch batch;
    trf_reading x;
    trf_tensor last = study_tensor(s, N, D);
    int encoder = kind == TRF_ENCODER_ONLY;
    c.n_heads = HEADS;
    c.source_eos = c.target_eos = 0;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_reader_create(&reader, model, NULL, &err));
    batch = study_batch(encoder ? ids : NULL, encoder ? NULL : ids, &length, 1);
    STUDY_TRY(trf_reader_read(reader, &batch, encoder ? TRF_READ_ENCODED : TRF_READ_DECODED, NULL, &x,
                       &err));
    memcpy(last.data, (encoder ? x.encoded : x.decoded).data, N * D * sizeof(trf_real));
    trf_reader_destroy(reader);
    trf_model_destroy(model);
    return last;
}

static void models(struct study *s)
{
    static const int32_t one[N] = {4, 5, 6, 7, 8, 9, 10, 11}, other[N] = {4, 5, 6, 7, 8, 9, 12, 11};
    double changed[2][N];
    int kind, i, j;
    study_table(s, "future", "token | change of its state, encoder-only | decoder-only");
    for (kind = 0; kind < 2; kind++) {
        trf_tensor a = states(s, kind ? TRF_DECODER_ONLY : TRF_ENCODER_ONLY, one);
        trf_tensor b = states(s, kind ? TRF_DECODER_ONLY : TRF_ENCODER_ONLY, other);
        for (i = 0; i < N; i++) {
            changed[kind][i] = 0;
            for (j = 0; j < D; j++)
                changed[kind][i] = fmax(changed[kind][i], fabs((double)a.data[i * D + j] -
                                                               (double)b.data[i * D + j]));
        }
    }
    for (i = 0; i < N; i++)
        study_row(s, "%s | %.4f | %.4f", words[i], changed[0][i], changed[1][i]);
    /* A decoder reads BOS first: row i has read the words before i, and 6, the word that differs,
       is read by row 7. */
    for (i = 0; i < N; i++) {
        study_must(s, changed[0][i] > 0, "every token of an encoder sees the other word");
        study_must(s, i > 6 ? changed[1][i] > 0 : changed[1][i] == 0,
                   "row %d of a decoder: changed by %g", i, changed[1][i]);
    }
    study_claim(s, "later tokens do not change earlier states of a decoder",
                changed[1][6] == 0 ? STUDY_YES : STUDY_NO,
                "with another 7th word, rows 1 to 7 keep their bits, and row 8 changes by "
                "%.2f; "
                "in an encoder the first token changes by %.3f", changed[1][7], changed[0][0]);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "masks", "what the causal mask changes");
    trf_context *context = study_context(&s);
    probabilities(&s, context);
    trf_context_destroy(context);
    models(&s);
    return study_end(&s);
}
