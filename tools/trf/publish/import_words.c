// trf import: the tokenizer of a folder becomes a vocabulary. BERT's WordPiece: from
// tokenizer.json, or from vocab.txt and tokenizer_config.json. SentencePiece: import_pieces.c.
// Byte-level BPE: import_bpe.c. Words and characters: import_levels.c.

#include "import_sentencepiece.h"

struct bert {
    const struct published *p;
    char *path;                 /* of the file that has the tokens, for messages */
    char *text;                 /* of vocab.txt */
    struct places tokens;
    trf_wordpiece_file file;
};

static void set_flag(struct bert *b, int32_t flag, int is)
{
    if (is) b->file.flags |= flag;
}

static int find_special_ids(struct bert *b)
{
    static const struct { int which; const char *usual; } specials[] = {
        {SPECIAL_PAD, "[PAD]"}, {SPECIAL_UNK, "[UNK]"}, {SPECIAL_MASK, "[MASK]"},
        {SPECIAL_CLS, "[CLS]"}, {SPECIAL_SEP, "[SEP]"}};
    const size_t n = b->tokens.n;
    size_t i, k;
    for (k = 0; k < SPECIALS; k++) b->file.special[k] = -1;
    for (k = 0; k < sizeof specials / sizeof *specials; k++) {
        const int which = specials[k].which;
        const char *text = token_text(
            cJSON_GetObjectItemCaseSensitive(b->p->config, special_names[which]));
        if (!text) text = specials[k].usual;
        for (i = 0; i < n && (!b->tokens.text[i] || strcmp(b->tokens.text[i], text)); i++) { }
        if (i < n) b->file.special[which] = (int32_t)i;
        else if (which != SPECIAL_MASK)
            return refuse("%s: expected the special token \"%s\" among the tokens", b->path, text);
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>json           tokenizer.json
// -----------------------------------------------------------------------------------------------

/* Whether a part of tokenizer.json has this type; says so if not. */
static int is_part(const struct bert *b, const cJSON *part, const char *name, const char *type)
{
    const char *is = json_text(part, "type");
    if (has_type(part, type)) return 1;
    say("%s: expected a %s of type %s, got %s", b->path, name, type, is ? is : "none");
    return 0;
}

static int take_json(struct bert *b)
{
    const cJSON *json = b->p->json;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    const cJSON *normal = cJSON_GetObjectItemCaseSensitive(json, "normalizer");
    const cJSON *decoder = cJSON_GetObjectItemCaseSensitive(json, "decoder");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab"), *entry;
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    const char *prefix = json_text(model, "continuing_subword_prefix");
    int lower = json_true(normal, "lowercase", 1);
    if (!is_part(b, model, "model", "WordPiece") ||
        !is_part(b, normal, "normalizer", "BertNormalizer") ||
        !is_part(b, cJSON_GetObjectItemCaseSensitive(json, "pre_tokenizer"), "pre_tokenizer",
                 "BertPreTokenizer"))
        return FAILED;
    if (prefix && strcmp(prefix, "##"))
        return refuse("%s: expected \"continuing_subword_prefix\" to be \"##\", got \"%s\"",
                      b->path, prefix);
    if (!cJSON_IsObject(vocab))
        return refuse("%s: expected an object \"vocab\" in the model", b->path);
    if (json_int(model, b->path, "max_input_chars_per_word", 100, &b->file.longest_word))
        return FAILED;
    set_flag(b, TRF_WORDPIECE_CLEAN, json_true(normal, "clean_text", 1));
    set_flag(b, TRF_WORDPIECE_CHINESE, json_true(normal, "handle_chinese_chars", 1));
    set_flag(b, TRF_WORDPIECE_LOWER, lower);
    set_flag(b, TRF_WORDPIECE_STRIP, json_true(normal, "strip_accents", lower));
    set_flag(b, TRF_WORDPIECE_CLEANUP, json_true(decoder, "cleanup", 1));
    cJSON_ArrayForEach(entry, vocab) {
        if (!cJSON_IsNumber(entry))
            return refuse("%s: expected a number for the token \"%s\"", b->path, entry->string);
        if (place_text(&b->tokens, b->path, entry->valuedouble, entry->string)) return FAILED;
    }
    cJSON_ArrayForEach(entry, added) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(entry, "id");
        const char *text = json_text(entry, "content");
        if (!cJSON_IsNumber(id) || !text)
            return refuse("%s: expected \"id\" and \"content\" of each of \"added_tokens\"",
                          b->path);
        if (place_text(&b->tokens, b->path, id->valuedouble, text)) return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>text           vocab.txt: a token a line, the first has the id 0
// -----------------------------------------------------------------------------------------------

static int take_text(struct bert *b)
{
    char *at = b->text, *line;
    int lower = json_true(b->p->config, "do_lower_case", 1);
    b->file.longest_word = 100;
    set_flag(b, TRF_WORDPIECE_CLEAN | TRF_WORDPIECE_CLEANUP, 1);
    set_flag(b, TRF_WORDPIECE_CHINESE, json_true(b->p->config, "tokenize_chinese_chars", 1));
    set_flag(b, TRF_WORDPIECE_LOWER, lower);
    set_flag(b, TRF_WORDPIECE_STRIP, json_true(b->p->config, "strip_accents", lower));
    while ((line = cut_line(&at)) != NULL)
        if (place_text(&b->tokens, b->path, (double)b->tokens.n, line)) return FAILED;
    return DONE;
}

/* Whether vocab.txt is used as BERT uses it. Others, such as BertJapaneseTokenizer, cut texts in
   other ways. */
static int is_bert(const char *class_of)
{
    static const char *const names[] = {"BertTokenizer", "BertTokenizerFast",
                                        "PreTrainedTokenizerFast", "DistilBertTokenizer",
                                        "DistilBertTokenizerFast", "ElectraTokenizer",
                                        "ElectraTokenizerFast"};
    size_t i;
    for (i = 0; class_of && i < sizeof names / sizeof *names; i++)
        if (!strcmp(class_of, names[i])) return 1;
    return !class_of;
}

/* Reads the file that the folder has. */
static int take_tokens(struct bert *b)
{
    const char *class_of = json_text(b->p->config, "tokenizer_class");
    b->path = format_text("%s/%s", b->p->folder, b->p->json ? "tokenizer.json" : "vocab.txt");
    if (b->p->json) return take_json(b);
    if (is_file(b->path) && is_bert(class_of))
        return (b->text = read_whole(b->path, NULL)) ? take_text(b) : FAILED;
    return refuse("%s: expected tokenizer.json, vocab.txt, vocab.json and merges.txt, or files of "
                  "SentencePiece (source.spm, spiece.model, tokenizer.model, "
                  "sentencepiece.bpe.model); got none that trf reads%s%s", b->p->folder,
                  class_of ? " for the tokenizer_class " : "", class_of ? class_of : "");
}

/* The model may have more ids than there are tokens. */
static int make_vocab(struct bert *b, trf_vocab **vocab)
{
    size_t n = b->tokens.n, n_ids = (size_t)b->p->n_ids[0], i;
    char (*unused)[UNUSED_NAME];
    trf_error err;
    int status = DONE;
    if (check_places(&b->tokens, b->path)) return FAILED;
    if (n_ids <= n || n_ids > MOST_IDS) n_ids = n;
    else inform_line("%s: ids without a token: %zu of %zu", b->path, n_ids - n, n_ids);
    unused = zeroed(n_ids - n + 1, sizeof *unused);
    for (i = n; i < n_ids && !status; i++) {
        snprintf(unused[i - n], UNUSED_NAME, "[unused_%zu]", i);
        status = place_text(&b->tokens, b->path, (double)i, unused[i - n]);
    }
    b->file.tokens = b->tokens.text;
    b->file.n_tokens = (int32_t)n_ids;
    if (!status && make_word_piece(vocab, &b->file, &err)) status = refuse_error(b->path, &err);
    free(unused);
    return status;
}

static int read_word_piece(const struct published *p, trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct bert b;
    int status;
    memset(&b, 0, sizeof b);
    b.p = p;
    b.file.flags = TRF_WORDPIECE_SETTINGS;
    status = take_tokens(&b) || find_special_ids(&b) || make_vocab(&b, vocab) ? FAILED : DONE;
    memcpy(special, b.file.special, sizeof b.file.special);
    free(b.text);
    free(b.tokens.text);
    free(b.path);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>kinds          the files of a folder tell the kind of its tokenizer
// -----------------------------------------------------------------------------------------------

static int read_kind(struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS])
{
    const cJSON *model;
    if (read_if_there(p->folder, "tokenizer_config.json", &p->config)) return FAILED;
    p->is = class_of_files(p);
    if (p->is != NO_CLASS) return read_pieces(p, vocab, special);
    if (read_if_there(p->folder, "tokenizer.json", &p->json)) return FAILED;
    model = cJSON_GetObjectItemCaseSensitive(p->json, "model");
    if (is_metaspace(p->json)) return read_pieces(p, vocab, special);
    if (p->json ? has_type(model, "BPE") : has_bpe_files(p))
        return read_byte_bpe(p, &vocab[0], special);
    if (has_type(model, "WordLevel")) return read_levels(p, vocab, special);
    return read_word_piece(p, &vocab[0], special);
}

int read_tokenizer(const char *folder, const char *type, const int32_t n_ids[2],
                   trf_vocab *vocab[2], int32_t special[SPECIALS], struct tags *tags)
{
    struct published p;
    int status;
    memset(&p, 0, sizeof p);
    p.folder = folder;
    p.type = type;
    p.n_ids = n_ids;
    p.tags = tags;
    p.config_path = format_text("%s/tokenizer_config.json", folder);
    p.json_path = format_text("%s/tokenizer.json", folder);
    status = read_kind(&p, vocab, special);
    free_made(&p);
    cJSON_Delete(p.config);
    cJSON_Delete(p.json);
    free(p.config_path);
    free(p.json_path);
    return status;
}
