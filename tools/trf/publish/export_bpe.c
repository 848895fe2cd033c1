// trf export: byte-level BPE, from the bytes that a model file stores (transformer.h, >>byte-bpe).

#include "export.h"

enum { FLAGS_AT = 8, TOKENS_AT = 40, RANGES_AT = 44, MERGES_AT = 48, HEADER = 52 };

/* The parts of the stored bytes; the library has checked them when it read the model. */
struct bpe {
    const struct vocabulary *v;
    uint32_t flags, n_tokens, n_merges;
    size_t merges, tokens;              /* where they begin */
};

static struct bpe read_bpe(const struct vocabulary *v)
{
    struct bpe b;
    b.v = v;
    b.flags = u32_at(v, FLAGS_AT);
    b.n_tokens = u32_at(v, TOKENS_AT);
    b.n_merges = u32_at(v, MERGES_AT);
    b.merges = HEADER + 12 * (size_t)u32_at(v, RANGES_AT);
    b.tokens = b.merges + 8 * (size_t)b.n_merges;
    if (b.flags & BPE_NFC) {                /* tables for composing */
        size_t at = b.tokens;
        b.tokens += 12;
        for (; at < b.merges + 8 * (size_t)b.n_merges + 12; at += 4)
            b.tokens += 12 * (size_t)u32_at(v, at);
    }
    return b;
}

static cJSON *merge_text(const struct bpe *b, uint32_t i)
{
    const trf_vocab *vocab = b->v->vocab;
    size_t at = b->merges + 8 * (size_t)i;
    char *text = format_text("%s %s", trf_vocab_token(vocab, (int32_t)u32_at(b->v, at)),
                             trf_vocab_token(vocab, (int32_t)u32_at(b->v, at + 4)));
    cJSON *item = cJSON_CreateString(text);
    free(text);
    return item;
}

/* Tokens of the model, and those that were added to it, which are not among them. */
static void add_tokens(const struct bpe *b, cJSON *json, cJSON *vocab)
{
    const char *at = (const char *)b->v->bytes + b->tokens;
    int32_t id;
    int which, named;
    for (id = 0; id < (int32_t)b->n_tokens; id++) {
        int kind = *at++;
        for (which = named = 0; which < TRF_SPECIAL_COUNT; which++)
            named |= trf_vocab_special(b->v->vocab, (trf_special)which) == id;
        if (kind != BPE_ADDED) cJSON_AddNumberToObject(vocab, at, id);
        if (kind == BPE_ADDED || (kind == BPE_SPECIAL && !named))
            add_token(json, id, at, kind == BPE_SPECIAL);
        at += strlen(at) + 1;
    }
}

static void add_rules(const struct bpe *b, cJSON *json)
{
    int llama = (b->flags & BPE_LLAMA) != 0, one = (b->flags & BPE_ONE_NUMBER) != 0;
    cJSON *level, *list, *split;
    if (llama || one) {
        list = cJSON_AddArrayToObject(new_part(json, "pre_tokenizer", "Sequence"), "pretokenizers");
        split = cJSON_CreateObject();
        set_text(split, "type", llama ? "Split" : "Digits");
        if (llama) {
            set_text(cJSON_AddObjectToObject(split, "pattern"), "Regex",
                     one ? qwen_rule : llama_rule);
            set_text(split, "behavior", "Isolated");
            set_bool(split, "invert", 0);
        } else set_bool(split, "individual_digits", 1);
        cJSON_AddItemToArray(list, split);
        level = cJSON_CreateObject();
        set_text(level, "type", "ByteLevel");
        cJSON_AddItemToArray(list, level);
    } else level = new_part(json, "pre_tokenizer", "ByteLevel");
    set_bool(level, "add_prefix_space", (b->flags & BPE_BLANK) != 0);
    set_bool(level, "trim_offsets", 1);
    set_bool(level, "use_regex", !llama);
}

/* vocab.json and merges.txt, for programs that read no tokenizer.json. They have GPT-2's rule. */
static int write_two_files(const struct tokenizer *t, const char *in, const cJSON *vocab,
                           const cJSON *merges)
{
    char *names[2] = {format_text("%svocab.json", in), format_text("%smerges.txt", in)};
    const cJSON *entry;
    made_file text;
    int status = write_json(t->folder, names[0], vocab);
    memset(&text, 0, sizeof text);
    put_bytes(&text, "#version: 0.2\n", 14);
    cJSON_ArrayForEach(entry, merges) {
        put_bytes(&text, entry->valuestring, strlen(entry->valuestring));
        put_bytes(&text, "\n", 1);
    }
    if (!status) status = write_bytes(t->folder, names[1], text.bytes, text.n);
    free(text.bytes);
    free(names[0]);
    free(names[1]);
    return status;
}

int write_byte_bpe(const struct tokenizer *t, int side, const char *in)
{
    struct bpe b = read_bpe(&t->side[side]);
    cJSON *json = new_tokenizer(b.v->vocab), *part, *vocab, *merges, *settings;
    uint32_t i;
    int status = DONE;
    if (b.flags & BPE_NFC) new_part(json, "normalizer", "NFC");
    add_rules(&b, json);
    add_template(t, side, json);
    part = new_part(json, "decoder", "ByteLevel");
    set_bool(part, "add_prefix_space", 1);
    set_bool(part, "trim_offsets", 1);
    set_bool(part, "use_regex", 1);
    part = new_bpe(json, NULL, 0, 0, b.flags & BPE_WHOLE);
    vocab = cJSON_AddObjectToObject(part, "vocab");
    add_tokens(&b, json, vocab);
    merges = cJSON_AddArrayToObject(part, "merges");
    for (i = 0; i < b.n_merges; i++) cJSON_AddItemToArray(merges, merge_text(&b, i));
    settings = new_settings(t, side, "PreTrainedTokenizerFast");
    set_bool(settings, "add_prefix_space", (b.flags & BPE_BLANK) != 0);
    if (!(b.flags & (BPE_LLAMA | BPE_ONE_NUMBER)))
        status = write_two_files(t, in, vocab, merges);
    if (write_both(t, in, json, settings)) status = FAILED;
    return status;
}
