// trf import: the rules of generation_config.json. trf keeps none of them: it tells with which
// options it searches as `generate` does, and names the rules that it has not.

#include "import.h"

/* Rules with the values that switch them off; what is added to the value of an option; the option
   of trf translate and of trf generate. NULL: there is none; "": it does nothing here. */
static const struct rule {
    const char *member;
    double usual, offset;
    const char *option[2];
} rules[] = {
    {"num_beams", 1, 0, {"", NULL}},
    {"no_repeat_ngram_size", 0, 0, {"--no-repeat-ngram", "--no-repeat-ngram"}},
    {"repetition_penalty", 1, 0, {"--repetition-penalty", "--repetition-penalty"}},
    {"length_penalty", 1, 0, {"--alpha", ""}},          /* of beams */
    {"min_length", 0, -1, {"--min-length", NULL}},      /* the start token, a prompt count there */
    {"min_new_tokens", 0, 0, {"--min-length", "--min-tokens"}},
    {"temperature", 1, 0, {"", ""}}, {"top_k", 50, 0, {"", ""}}, {"top_p", 1, 0, {"", ""}},
    {"min_p", 0, 0, {"", ""}},                          /* of do_sample */
    {"encoder_no_repeat_ngram_size", 0, 0, {NULL, NULL}},
    {"encoder_repetition_penalty", 1, 0, {NULL, NULL}}, {"diversity_penalty", 0, 0, {NULL, NULL}},
    {"num_beam_groups", 1, 0, {NULL, NULL}}, {"num_return_sequences", 1, 0, {NULL, NULL}},
    {"typical_p", 1, 0, {NULL, NULL}}, {"epsilon_cutoff", 0, 0, {NULL, NULL}},
    {"eta_cutoff", 0, 0, {NULL, NULL}}, {"guidance_scale", 1, 0, {NULL, NULL}}};
enum { RULES = sizeof rules / sizeof *rules };

/* Members with a meaning of their own below, or without one for the text of an answer. */
static const char *const known[] = {
    "early_stopping", "do_sample", "max_length", "max_new_tokens", "bad_words_ids",
    "suppress_tokens", "forced_eos_token_id", "forced_bos_token_id", "bos_token_id", "pad_token_id",
    "eos_token_id", "decoder_start_token_id", "transformers_version", "_from_model_config",
    "use_cache", "cache_implementation", "cache_config", "max_cache_len", "use_mtp",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "assistant_lookbehind", "target_lookbehind", "prompt_lookup_num_tokens",
    "max_matching_ngram_size", "compile_config", "disable_compile", "low_memory",
    "prefill_chunk_size"};

struct telling {
    const cJSON *from;
    const trf_config *config;
    const trf_vocab *vocab;
    int prompts;                /* 1: options of trf generate */
    char *options, *left;       /* malloc'd */
    int n_left;
};

static void add_to(char **list, const char *between, const char *text)
{
    char *all = format_text("%s%s%s", *list ? *list : "", *list ? between : "", text);
    free(*list);
    *list = all;
}

static void leave_out(struct telling *t, const char *name)
{
    enum { MOST = 30 };
    if (t->n_left < MOST) add_to(&t->left, ", ", name);
    else if (t->n_left == MOST) add_to(&t->left, " ", "and more");
    t->n_left++;
}

static double number_of(const struct telling *t, const char *name, double missing)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(t->from, name);
    return cJSON_IsNumber(value) ? value->valuedouble : missing;
}

static void tell_option(struct telling *t, const char *option, double x)
{
    char *text = format_text("%s %g", option, x);
    add_to(&t->options, " ", text);
    free(text);
}

// -----------------------------------------------------------------------------------------------
// >>banned         tokens that no answer may have
// -----------------------------------------------------------------------------------------------

/* Whether trf never writes the token: pad, and what a decoder reads first. */
static int is_never_written(const struct telling *t, int32_t id)
{
    const trf_config *c = t->config;
    return id == c->pad || (id == c->bos && id != c->eos && c->decoder_start == TRF_START_BOS);
}

/* Adds the option that bans the tokens to a list, if a text has them. */
static int tell_ban(const struct telling *t, const int32_t *ids, int32_t n, char **bans)
{
    enum { MOST_TEXT = 100 };
    char text[MOST_TEXT];
    int32_t *again = NULL, m = 0;
    size_t capacity = 0;
    trf_error err;
    int same = !trf_vocab_decode(t->vocab, ids, n, text, sizeof text, NULL, &err) && *text &&
               !strpbrk(text, "'\n") &&
               !encode_after(t->vocab, text, &again, 0, &capacity, &m, &err) && m == n &&
               !memcmp(ids, again, (size_t)n * sizeof *ids);
    if (same) {
        char *option = format_text("--ban '%s'", text);
        add_to(bans, " ", option);
        free(option);
    }
    free(again);
    return same;
}

/* A list of ids, or of lists of ids: all become options, or none. */
static void tell_bans(struct telling *t, const char *name)
{
    enum { LONGEST = 32, MOST = 20 };
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(t->from, name), *entry, *part;
    int all = cJSON_GetArraySize(list) <= MOST;
    char *bans = NULL;
    cJSON_ArrayForEach(entry, list) {
        int32_t ids[LONGEST], n = 0, size = trf_vocab_size(t->vocab);
        cJSON_ArrayForEach(part, entry) {
            if (n == LONGEST || !cJSON_IsNumber(part)) { n = 0; break; }
            ids[n++] = part->valuedouble >= 0 && part->valuedouble < size
                           ? (int32_t)part->valuedouble : size;
        }
        if (cJSON_IsNumber(entry) && entry->valuedouble >= 0 && entry->valuedouble < size)
            ids[n++] = (int32_t)entry->valuedouble;
        if (!all || (n == 1 && is_never_written(t, ids[0]))) continue;
        if (!n || ids[n - 1] >= size || !tell_ban(t, ids, n, &bans)) all = 0;
    }
    if (!all) leave_out(t, name);
    else if (bans) add_to(&t->options, " ", bans);
    free(bans);
}

// -----------------------------------------------------------------------------------------------
// >>rules          in the order of generation
// -----------------------------------------------------------------------------------------------

static void tell_rules(struct telling *t)
{
    int i;
    if (!t->prompts) tell_option(t, "--beam", number_of(t, "num_beams", 1));
    for (i = 0; i < RULES; i++) {
        const struct rule *r = &rules[i];
        const char *option = r->option[t->prompts];
        double x = number_of(t, r->member, r->usual);
        if (x == r->usual || (option && !*option)) continue;
        if (!strcmp(r->member, "min_length") && number_of(t, "min_new_tokens", 0) > 0) continue;
        if (option) tell_option(t, option, x + r->offset);
        else leave_out(t, r->member);
    }
    tell_bans(t, "bad_words_ids");
    tell_bans(t, "suppress_tokens");
}

/* The number of tokens that `generate` writes at most. 20 is its default. */
static void tell_length(struct telling *t)
{
    int ends = !t->prompts && number_of(t, "forced_eos_token_id", -1) == t->config->eos;
    double most = t->prompts ? 20 : number_of(t, "max_length", 21) - 1;
    int counts_prompt = t->prompts && number_of(t, "max_length", 0) > 0;
    most = number_of(t, "max_new_tokens", most);
    if (number_of(t, "forced_eos_token_id", -1) >= 0 && !ends) leave_out(t, "forced_eos_token_id");
    if (counts_prompt && number_of(t, "max_new_tokens", 0) <= 0) leave_out(t, "max_length");
    else if (t->prompts) tell_option(t, "--max-tokens", most);
    else {
        if (ends) add_to(&t->options, " ", "--at-limit free-eos");
        tell_option(t, "--max-length-a 0 --max-length-b", most - ends);
    }
}

/* What only samplers have. */
static void tell_sampling(struct telling *t)
{
    static const char *const options[] = {"temperature", "top_k", "top_p", "min_p"};
    static const double usual[] = {1, 50, 1, 0};
    static const char *const names[] = {"--temperature", "--top-k", "--top-p", "--min-p"};
    const int draws = json_true(t->from, "do_sample", 0);
    int i;
    if (draws && !t->prompts) leave_out(t, "do_sample");
    if (!t->prompts) return;
    if (!draws) tell_option(t, "--temperature", 0);
    for (i = 0; i < 4 && draws; i++)
        if (number_of(t, options[i], usual[i]) != (i == 1 ? 0 : usual[i]))
            tell_option(t, names[i], number_of(t, options[i], usual[i]));
}

/* Rules that neither trf nor this file knows. */
static void tell_unknown(struct telling *t)
{
    const cJSON *entry;
    size_t i;
    cJSON_ArrayForEach(entry, t->from) {
        int is = cJSON_IsNull(entry) || cJSON_IsFalse(entry) || !entry->string ||
                 !strncmp(entry->string, "output_", 7) || !strncmp(entry->string, "return_", 7);
        for (i = 0; i < sizeof known / sizeof *known && !is; i++)
            is = !strcmp(entry->string, known[i]);
        for (i = 0; i < RULES && !is; i++)
            is = cJSON_IsNumber(entry) && !strcmp(entry->string, rules[i].member);
        if (!is) leave_out(t, entry->string);
    }
}

void tell_generation(const cJSON *generation, const cJSON *json, const trf_config *config,
                     const trf_vocab *vocab)
{
    struct telling t;
    const cJSON *early;
    memset(&t, 0, sizeof t);
    t.from = generation ? generation : json;
    t.config = config;
    t.vocab = vocab;
    t.prompts = config->kind == TRF_DECODER_ONLY;
    tell_rules(&t);
    early = cJSON_GetObjectItemCaseSensitive(t.from, "early_stopping");
    if (!t.prompts && cJSON_IsTrue(early)) add_to(&t.options, " ", "--stop-rule finished");
    else if (cJSON_IsString(early)) leave_out(&t, "early_stopping");
    tell_sampling(&t);
    tell_length(&t);
    if (generation) tell_unknown(&t);
    inform_line("generate of transformers %s%s%s",
                t.prompts ? "writes as trf generate"
                          : "searches as trf translate --search-rule hugging-face",
                t.options ? " " : "", t.options ? t.options : "");
    if (t.left)
        inform_line("%s: left out: %s", generation ? "generation_config.json" : "config.json",
                    t.left);
    free(t.options);
    free(t.left);
}
