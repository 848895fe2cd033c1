// trf export: tokenizers of whole tokens: words and characters as WordLevel of Hugging Face, and
// BERT's WordPiece.

#include "export.h"

static void add_vocabulary(const trf_vocab *vocab, cJSON *model)
{
    cJSON *tokens = cJSON_AddObjectToObject(model, "vocab");
    int32_t id;
    for (id = 0; id < trf_vocab_size(vocab); id++)
        cJSON_AddNumberToObject(tokens, trf_vocab_token(vocab, id), id);
}

/* Words end where ours do: at the four blanks that LEVEL_BLANKS has. */
int write_levels(const struct tokenizer *t, int side, const char *in)
{
    const trf_vocab *vocab = t->side[side].vocab;
    int words = trf_vocab_kind(vocab) == TRF_WORDS;
    cJSON *json = new_tokenizer(vocab), *part;
    part = new_part(json, "pre_tokenizer", "Split");
    set_text(cJSON_AddObjectToObject(part, "pattern"), "Regex",
             words ? LEVEL_BLANKS : LEVEL_CHARACTER);
    set_text(part, "behavior", words ? "Removed" : "Isolated");
    set_bool(part, "invert", 0);
    add_template(t, side, json);
    if (words) set_text(json, "decoder", NULL);
    else new_part(json, "decoder", "Fuse");
    part = new_part(json, "model", "WordLevel");
    add_vocabulary(vocab, part);
    set_text(part, "unk_token", trf_vocab_token(vocab, UNK));
    return write_both(t, in, json, new_settings(t, side, "PreTrainedTokenizerFast"));
}

static int write_list(const struct tokenizer *t, int side, const char *in)
{
    const trf_vocab *vocab = t->side[side].vocab;
    char *name = format_text("%svocab.txt", in);
    made_file text;
    int32_t id;
    int status;
    memset(&text, 0, sizeof text);
    for (id = 0; id < trf_vocab_size(vocab); id++) {
        const char *token = trf_vocab_token(vocab, id);
        put_bytes(&text, token, strlen(token));
        put_bytes(&text, "\n", 1);
    }
    status = write_bytes(t->folder, name, text.bytes, text.n);
    free(text.bytes);
    free(name);
    return status;
}

int write_word_piece(const struct tokenizer *t, int side, const char *in)
{
    enum { LONGEST_AT = 12 };           /* transformer.h, >>wordpiece */
    const struct vocabulary *v = &t->side[side];
    int32_t flags;
    cJSON *json, *part, *settings;
    if (find_word_piece(v->bytes, &flags))
        return refuse("the rules of the WordPiece vocabulary are none of BERT's tokenizer: its "
                      "files cannot be written");
    json = new_tokenizer(v->vocab);
    part = new_part(json, "normalizer", "BertNormalizer");
    set_bool(part, "clean_text", flags & WORDPIECE_CLEAN);
    set_bool(part, "handle_chinese_chars", flags & WORDPIECE_CHINESE);
    set_bool(part, "strip_accents", flags & WORDPIECE_STRIP);
    set_bool(part, "lowercase", flags & WORDPIECE_LOWER);
    new_part(json, "pre_tokenizer", "BertPreTokenizer");
    add_template(t, side, json);
    part = new_part(json, "decoder", "WordPiece");
    set_text(part, "prefix", "##");
    set_bool(part, "cleanup", flags & WORDPIECE_CLEANUP);
    part = new_part(json, "model", "WordPiece");
    set_text(part, "unk_token",
             trf_vocab_token(v->vocab, trf_vocab_special(v->vocab, TRF_SPECIAL_UNK)));
    set_text(part, "continuing_subword_prefix", "##");
    set_number(part, "max_input_chars_per_word", u32_at(v, LONGEST_AT));
    add_vocabulary(v->vocab, part);
    settings = new_settings(t, side, "PreTrainedTokenizerFast");
    set_bool(settings, "do_lower_case", flags & WORDPIECE_LOWER);
    set_bool(settings, "strip_accents", flags & WORDPIECE_STRIP);
    set_bool(settings, "tokenize_chinese_chars", flags & WORDPIECE_CHINESE);
    return write_both(t, in, json, settings) || write_list(t, side, in) ? FAILED : DONE;
}
