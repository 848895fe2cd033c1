// trf export: what tokenizer.json and tokenizer_config.json have for all kinds of tokens.

#include "export.h"

uint32_t u32_at(const struct vocabulary *v, size_t at) { return get_u32(v->bytes + at); }

cJSON *new_part(cJSON *json, const char *name, const char *type)
{
    cJSON *part;
    cJSON_DeleteItemFromObjectCaseSensitive(json, name);
    part = cJSON_AddObjectToObject(json, name);
    set_text(part, "type", type);
    return part;
}

cJSON *new_bpe(cJSON *json, const char *unknown, int fuse, int bytes, int whole)
{
    cJSON *part = new_part(json, "model", "BPE");
    set_text(part, "dropout", NULL);
    set_text(part, "unk_token", unknown);
    set_text(part, "continuing_subword_prefix", NULL);
    set_text(part, "end_of_word_suffix", NULL);
    set_bool(part, "fuse_unk", fuse);
    set_bool(part, "byte_fallback", bytes);
    set_bool(part, "ignore_merges", whole);
    return part;
}

cJSON *add_token(cJSON *json, int32_t id, const char *text, int special)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    cJSON *token = cJSON_CreateObject();
    set_number(token, "id", id);
    set_text(token, "content", text);
    set_bool(token, "single_word", 0);
    set_bool(token, "lstrip", 0);
    set_bool(token, "rstrip", 0);
    set_bool(token, "normalized", 0);
    set_bool(token, "special", special);
    cJSON_AddItemToArray(list, token);
    return token;
}

cJSON *empty_tokenizer(void)
{
    cJSON *json = cJSON_CreateObject();
    set_text(json, "version", "1.0");
    set_text(json, "truncation", NULL);
    set_text(json, "padding", NULL);
    cJSON_AddArrayToObject(json, "added_tokens");
    set_text(json, "normalizer", NULL);
    return json;
}

cJSON *new_tokenizer(const trf_vocab *vocab)
{
    cJSON *json = empty_tokenizer();
    int32_t id, n = trf_vocab_size(vocab);
    int which;
    for (id = 0; id < n; id++)
        for (which = 0; which < TRF_SPECIAL_COUNT; which++)
            if (trf_vocab_special(vocab, (trf_special)which) == id) {
                add_token(json, id, trf_vocab_token(vocab, id), 1);
                break;
            }
    return json;
}

/* A special token of a template, or the text itself (id -1). segment: of what follows. */
static void add_to_template(cJSON *list, const char *text, int id, int segment)
{
    cJSON *item = cJSON_CreateObject();
    cJSON *part = cJSON_AddObjectToObject(item, id < 0 ? "Sequence" : "SpecialToken");
    set_text(part, "id", text);
    set_number(part, "type_id", segment);
    cJSON_AddItemToArray(list, item);
}

static void add_special(cJSON *all, const char *text, int32_t id)
{
    cJSON *token = cJSON_AddObjectToObject(all, text);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(token, "ids"), cJSON_CreateNumber(id));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(token, "tokens"), cJSON_CreateString(text));
    set_text(token, "id", text);
}

/* What stands around a text: BOS and EOS of a source, EOS of a target, and BOS before a prompt of a
   decoder, unless it has bare_prompts. */
void add_template(const struct tokenizer *t, int side, cJSON *json)
{
    const trf_config *c = t->config;
    const trf_vocab *vocab = t->side[side].vocab;
    int decoder = c->kind == TRF_DECODER_ONLY;
    int begins = decoder ? c->bos >= 0 && !c->bare_prompts : side == 0 && c->source_bos;
    int ends = !decoder && (side == 0 ? c->source_eos : c->target_eos);
    int segment = c->segments > 1;
    const char *bos = begins ? trf_vocab_token(vocab, c->bos) : NULL;
    const char *eos = ends ? trf_vocab_token(vocab, c->eos) : NULL;
    cJSON *part, *one, *two, *all;
    if (!bos && !eos) {
        set_text(json, "post_processor", NULL);
        return;
    }
    part = new_part(json, "post_processor", "TemplateProcessing");
    one = cJSON_AddArrayToObject(part, "single");
    two = cJSON_AddArrayToObject(part, "pair");
    all = cJSON_AddObjectToObject(part, "special_tokens");
    if (bos) add_to_template(one, bos, c->bos, 0);
    if (bos) add_to_template(two, bos, c->bos, 0);
    add_to_template(one, "A", -1, 0);
    add_to_template(two, "A", -1, 0);
    if (eos) add_to_template(one, eos, c->eos, 0);
    if (eos) add_to_template(two, eos, c->eos, 0);
    if (eos && !strcmp(t->recipe->type, "roberta")) add_to_template(two, eos, c->eos, segment);
    add_to_template(two, "B", -1, segment);
    if (eos) add_to_template(two, eos, c->eos, segment);
    if (bos) add_special(all, bos, c->bos);
    if (eos && c->eos != c->bos) add_special(all, eos, c->eos);
}

cJSON *new_settings(const struct tokenizer *t, int side, const char *class_name)
{
    const trf_vocab *vocab = t->side[side].vocab;
    cJSON *json = cJSON_CreateObject();
    int masks = t->config->head == TRF_HEAD_MASKED, which;  /* without a mask, pad is the mask */
    set_text(json, "tokenizer_class", class_name);
    set_number(json, "model_max_length", t->longest);
    set_bool(json, "clean_up_tokenization_spaces", 0);
    if (side == 0 && t->config->segments > 1) {     /* else a tokenizer gives no segments */
        static const char *const names[] = {"input_ids", "token_type_ids", "attention_mask"};
        cJSON_AddItemToObject(json, "model_input_names", cJSON_CreateStringArray(names, 3));
    }
    for (which = 0; which < TRF_SPECIAL_COUNT; which++) {
        int32_t id = trf_vocab_special(vocab, (trf_special)which);
        if (which == TRF_SPECIAL_MASK && id < 0 && masks) id = t->config->pad;
        if (id >= 0) set_text(json, special_names[which], trf_vocab_token(vocab, id));
    }
    return json;
}

int write_both(const struct tokenizer *t, const char *in, cJSON *json, cJSON *settings)
{
    char *name = format_text("%stokenizer.json", in);
    int status = json ? write_json(t->folder, name, json) : DONE;
    free(name);
    name = format_text("%stokenizer_config.json", in);
    if (!status) status = write_json(t->folder, name, settings);
    free(name);
    cJSON_Delete(json);
    cJSON_Delete(settings);
    return status;
}
