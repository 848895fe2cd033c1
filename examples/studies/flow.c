/* flow.c - which shapes flow through encoder and decoder, and do the parts make the whole?

   Tutorials print the shape after each layer, and give their models encode() and decode() beside
   the whole pass. They claim that every layer keeps the shape of its input, and that decoding needs
   only the encoder's output ("memory"), not its input.

   Two sentences of 10 and 7 tokens pass through a pre-norm model of 4 + 4 layers: once as a whole,
   once in parts (trf_read_from), and once with every state and every attention map recorded. */
#include "study.h"

enum { D = 64, HEADS = 4, LAYERS = 4, VOCAB = 50, SOURCE = 10 + 7, TARGET = 8 + 6, SENTENCES = 2 };

struct net { trf_model *model; trf_reader *reader; trf_batch batch; int64_t rows[2]; };

static struct net net_of(struct study *s)
{
    static int32_t source[SOURCE], target[TARGET], lengths[2][SENTENCES] = {{10, 7}, {8, 6}};
    struct net n;
    trf_config c = trf_config_preset(TRF_TINY);
    uint64_t random = 1;
    int i;
    memset(&n, 0, sizeof n);
    for (i = 0; i < SOURCE; i++) source[i] = 4 + study_below(&random, VOCAB - 4);
    for (i = 0; i < TARGET; i++) target[i] = 4 + study_below(&random, VOCAB - 4);
    c.d_model = D;
    c.n_heads = HEADS;
    c.d_ff = 4 * D;
    c.encoder_layers = c.decoder_layers = LAYERS;
    c.source_vocab = c.target_vocab = VOCAB;
    c.device.threads = s->threads;
    STUDY_TRY(trf_model_create(&n.model, &c, NULL, &err));
    STUDY_TRY(trf_reader_create(&n.reader, n.model, NULL, &err));
    n.batch.source.ids = source;
    n.batch.target.ids = target;
    n.batch.source.lengths = lengths[0];
    n.batch.target.lengths = lengths[1];
    n.batch.source.count = n.batch.target.count = SENTENCES;
    n.rows[0] = SOURCE + SENTENCES;             /* with an EOS each */
    n.rows[1] = TARGET + SENTENCES;
    return n;
}

/* Reads, and keeps a copy of one of the results. */
static trf_tensor read_one(struct study *s, struct net *n, int32_t what, const trf_read_from *from)
{
    trf_reading x;
    STUDY_TRY(trf_reader_read(n->reader, &n->batch, what, from, &x, &err));
    return study_copy(s, what == TRF_READ_ENCODED ? &x.encoded
                       : what == TRF_READ_DECODED ? &x.decoded : &x.logits);
}

/* Encoder, decoder and projection by themselves, over the encoder's memory and over noise. */
static void in_parts(struct study *s, struct net *n)
{
    const int32_t memory_lengths[SENTENCES] = {10 + 1, 7 + 1};
    trf_tensor noise = study_tensor(s, n->rows[0], D), memory, states, other, whole, parts;
    trf_read_from from = {NULL, memory_lengths, NULL};
    double apart, moved;
    uint64_t random = 2;
    whole = read_one(s, n, TRF_READ_LOGITS, NULL);
    memory = read_one(s, n, TRF_READ_ENCODED, NULL);
    from.memory = &memory;
    states = read_one(s, n, TRF_READ_DECODED, &from);
    from.memory = NULL;
    from.states = &states;
    parts = read_one(s, n, TRF_READ_LOGITS, &from);
    apart = study_apart(&whole, &parts);
    study_must(s, apart < 1e-5, "encoder, decoder and projection are the whole: %g away", apart);
    study_fill_normal(&noise, &random, 1);
    from.states = NULL;
    from.memory = &noise;
    other = read_one(s, n, TRF_READ_DECODED, &from);
    moved = study_apart(&states, &other);
    study_must(s, moved > 0.1, "the decoder reads the memory: noise moves its states by %g", moved);
    study_claim(s, "encode() and then decode() equal the whole pass",
                apart < 1e-5 ? STUDY_YES : STUDY_NO, "logits differ by %.2g", apart);
    study_claim(s, "the decoder depends on the source only through the memory", STUDY_YES,
                "from a memory on no source is read; with noise as memory its states change by "
                "%.1f", moved);
}

static double norm_of(const trf_real *row)
{
    double sum = 0;
    int j;
    for (j = 0; j < D; j++) sum += (double)row[j] * (double)row[j];
    return sqrt(sum);
}

/* Every state, layer by layer: shapes, and the mean norm of a row. */
static void layers(struct study *s, struct net *n, const trf_tensor *states, const char *side,
                   int k, float *norms)
{
    int layer, row;
    for (layer = 0; layer <= LAYERS; layer++) {
        double mean = 0;
        for (row = 0; row < n->rows[k]; row++) {
            double norm = norm_of(states->data + (layer * n->rows[k] + row) * D);
            norms[layer * n->rows[k] + row] = (float)norm;
            mean += norm / (double)n->rows[k];
        }
        study_row(s, "%s, state %d%s | (%d, %d) | %.2f", side, layer,
                  layer == 0 ? ": embedding and position"
                             : layer == LAYERS ? ": after the final norm" : "",
                  (int)n->rows[k], D, mean);
    }
}

static void shape_row(struct study *s, const char *name, const trf_tensor *x)
{
    study_row(s, "%s, sentence 1: layers, heads, queries, keys | (%d, %d, %d, %d) | -", name,
              (int)x->shape[0], (int)x->shape[1], (int)x->shape[2], (int)x->shape[3]);
}

/* The cross-attention of the first sentence in a pass of its own. Returns the largest difference
   from that of all sentences. */
static double alone(struct study *s, struct net *n, const trf_tensor *all)
{
    trf_tensor one;
    trf_batch first = n->batch;
    trf_reading x;
    double worst = 0, sums = 0;
    int64_t i, j, keys = all->shape[3];
    first.source.count = first.target.count = 1;
    STUDY_TRY(trf_reader_read(n->reader, &first, TRF_READ_CROSS, NULL, &x, &err));
    one = x.attention[TRF_DECODER_CROSS][0];
    for (i = 0; i < trf_tensor_count(&one); i += keys) {
        double sum = 0;
        for (j = i; j < i + keys; j++) {
            worst = fmax(worst, fabs((double)all->data[j] - (double)one.data[j]));
            sum += (double)one.data[j];
        }
        sums = fmax(sums, fabs(sum - 1));
    }
    study_must(s, worst < 1e-5, "maps of a sentence are those that it has alone: %g away", worst);
    study_must(s, sums < 1e-5, "a query's weights sum to 1: %g away", sums);
    return worst;
}

/* One pass that writes down everything, against calls that each write one thing. */
static void inside(struct study *s, struct net *n)
{
    static const char *const names[] = {"encoder", "decoder"};
    static float norms[2][(LAYERS + 1) * (SOURCE + SENTENCES)];
    trf_tensor states[2], cross, last, logits, whole, memory;
    trf_reading x;
    struct heat_map maps[2];
    double worst;
    int k;
    STUDY_TRY(trf_reader_read(n->reader, &n->batch, TRF_READ_ENCODER_STATES | TRF_READ_DECODER_STATES |
                       TRF_READ_DECODER_SELF | TRF_READ_CROSS | TRF_READ_LOGITS, NULL, &x, &err));
    states[0] = study_copy(s, &x.encoder_states);
    states[1] = study_copy(s, &x.decoder_states);
    logits = study_copy(s, &x.logits);
    cross = study_copy(s, &x.attention[TRF_DECODER_CROSS][0]);
    study_columns(s, "tensor | shape | mean norm of a row");
    for (k = 0; k < 2; k++) {
        layers(s, n, &states[k], names[k], k, norms[k]);
        maps[k] = study_map(names[k], norms[k], LAYERS + 1, (int)n->rows[k]);
        maps[k].row_label = "layer";
        maps[k].column_label = "token";
    }
    shape_row(s, "decoder's own attention", &x.attention[TRF_DECODER_SELF][0]);
    shape_row(s, "cross-attention", &cross);
    study_row(s, "logits | (%d, %d) | -", (int)n->rows[1], VOCAB);
    study_heat_maps(s, "", "norm of each state", maps, 2, 1, 0, 0);
    whole = read_one(s, n, TRF_READ_LOGITS, NULL);
    memory = read_one(s, n, TRF_READ_ENCODED, NULL);
    last = trf_tensor_of(states[0].data + LAYERS * n->rows[0] * D, 2, n->rows[0], D, 1);
    study_must(s, study_apart(&last, &memory) < 1e-5, "the last state is the encoder's output");
    study_must(s, study_apart(&logits, &whole) < 1e-5, "the logits are those of a call of their own");
    worst = alone(s, n, &cross);
    study_claim(s, "every layer keeps the shape of its input", STUDY_YES,
                "(rows, %d) after each of %d", D, 2 * LAYERS);
    study_claim(s, "one pass gives every attention map and every state", STUDY_YES,
                "its %d maps of cross-attention differ by %.2g from those of the sentence alone",
                LAYERS * HEADS, worst);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "flow", "shapes and parts of one pass");
    struct net n = net_of(&s);
    inside(&s, &n);
    in_parts(&s, &n);
    trf_reader_destroy(n.reader);
    trf_model_destroy(n.model);
    return study_end(&s);
}
