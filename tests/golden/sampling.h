enum { GOLDEN_SAMPLING_VOCAB = 23, GOLDEN_SAMPLING_IDS = 3 };
typedef struct golden_sampling_case {
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k, ids[GOLDEN_SAMPLING_IDS];
    double logits[GOLDEN_SAMPLING_VOCAB], probabilities[GOLDEN_SAMPLING_VOCAB];
} golden_sampling_case;
static const golden_sampling_case golden_sampling[1];
