// trf import: the tokenizer of a folder becomes a vocabulary. BERT's WordPiece: from
// tokenizer.json, or from vocab.txt and tokenizer_config.json. SentencePiece: import_pieces.c.
// Byte-level BPE: import_bpe.c. Words and characters: import_levels.c.

#include "import.h"

/* The tokens in the order of their ids, and what else a vocabulary needs. */
struct tokenizer {
    char *path;                 /* of the file that has the tokens, for messages */
    cJSON *json, *config;       /* tokenizer.json, tokenizer_config.json; or NULL */
    char *text;                 /* of vocab.txt */
    const char **token;         /* by id */
    size_t n, capacity;
    trf_wordpiece_file file;
};

static void set_flag(struct tokenizer *t, int32_t flag, int is)
{
    if (is) t->file.flags |= flag;
}

static int add_token(struct tokenizer *t, double id, const char *token)
{
    size_t i, before = t->n;
    if (check_id(t->path, token, id)) return FAILED;
    i = (size_t)id;
    t->token = grow(t->token, &t->capacity, i + 1, sizeof *t->token);
    if (i >= t->n) {
        t->n = i + 1;
        memset(t->token + before, 0, (t->n - before) * sizeof *t->token);
    }
    if (t->token[i] && strcmp(t->token[i], token)) return same_id(t->path, t->token[i], token, i);
    t->token[i] = token;
    return DONE;
}

/* The text of a special token: a text, or an object with its "content". */
static const char *special_text(const struct tokenizer *t, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(t->config, name);
    return cJSON_IsObject(value) ? json_text(value, "content") : cJSON_GetStringValue(value);
}

static int find_special_ids(struct tokenizer *t)
{
    static const struct { int which; const char *name, *usual; } specials[] = {
        {SPECIAL_PAD, "pad_token", "[PAD]"}, {SPECIAL_UNK, "unk_token", "[UNK]"},
        {SPECIAL_MASK, "mask_token", "[MASK]"}, {SPECIAL_CLS, "cls_token", "[CLS]"},
        {SPECIAL_SEP, "sep_token", "[SEP]"}};
    size_t i, k;
    for (k = 0; k < SPECIALS; k++) t->file.special[k] = -1;
    for (k = 0; k < sizeof specials / sizeof *specials; k++) {
        const char *text = special_text(t, specials[k].name);
        if (!text) text = specials[k].usual;
        for (i = 0; i < t->n && (!t->token[i] || strcmp(t->token[i], text)); i++) { }
        if (i < t->n) t->file.special[specials[k].which] = (int32_t)i;
        else if (specials[k].which != SPECIAL_MASK) {
            say("%s: expected the special token \"%s\" among the tokens", t->path, text);
            return FAILED;
        }
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>json           tokenizer.json
// -----------------------------------------------------------------------------------------------

/* Whether a part of tokenizer.json has this type; says so if not. */
static int is_part(const struct tokenizer *t, const cJSON *part, const char *name, const char *type)
{
    const char *is = json_text(part, "type");
    if (has_type(part, type)) return 1;
    say("%s: expected a %s of type %s, got %s", t->path, name, type, is ? is : "none");
    return 0;
}

static int take_json(struct tokenizer *t)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(t->json, "model");
    const cJSON *normal = cJSON_GetObjectItemCaseSensitive(t->json, "normalizer");
    const cJSON *decoder = cJSON_GetObjectItemCaseSensitive(t->json, "decoder");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab"), *entry;
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(t->json, "added_tokens");
    const char *prefix = json_text(model, "continuing_subword_prefix");
    int lower = json_true(normal, "lowercase", 1);
    if (!is_part(t, model, "model", "WordPiece") ||
        !is_part(t, normal, "normalizer", "BertNormalizer") ||
        !is_part(t, cJSON_GetObjectItemCaseSensitive(t->json, "pre_tokenizer"), "pre_tokenizer",
                 "BertPreTokenizer"))
        return FAILED;
    if (prefix && strcmp(prefix, "##")) {
        say("%s: expected \"continuing_subword_prefix\" to be \"##\", got \"%s\"", t->path, prefix);
        return FAILED;
    }
    if (!cJSON_IsObject(vocab)) {
        say("%s: expected an object \"vocab\" in the model", t->path);
        return FAILED;
    }
    if (json_int(model, t->path, "max_input_chars_per_word", 100, &t->file.longest_word))
        return FAILED;
    set_flag(t, TRF_WORDPIECE_CLEAN, json_true(normal, "clean_text", 1));
    set_flag(t, TRF_WORDPIECE_CHINESE, json_true(normal, "handle_chinese_chars", 1));
    set_flag(t, TRF_WORDPIECE_LOWER, lower);
    set_flag(t, TRF_WORDPIECE_STRIP, json_true(normal, "strip_accents", lower));
    set_flag(t, TRF_WORDPIECE_CLEANUP, json_true(decoder, "cleanup", 1));
    cJSON_ArrayForEach(entry, vocab)
        if (!cJSON_IsNumber(entry) || add_token(t, entry->valuedouble, entry->string)) {
            if (!cJSON_IsNumber(entry))
                say("%s: expected a number for the token \"%s\"", t->path, entry->string);
            return FAILED;
        }
    cJSON_ArrayForEach(entry, added) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(entry, "id");
        const char *text = json_text(entry, "content");
        if (!cJSON_IsNumber(id) || !text) {
            say("%s: expected \"id\" and \"content\" of each of \"added_tokens\"", t->path);
            return FAILED;
        }
        if (add_token(t, id->valuedouble, text)) return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>text           vocab.txt: a token a line, the first has the id 0
// -----------------------------------------------------------------------------------------------

static int take_text(struct tokenizer *t)
{
    char *at, *end;
    int lower = json_true(t->config, "do_lower_case", 1);
    t->file.longest_word = 100;
    set_flag(t, TRF_WORDPIECE_CLEAN | TRF_WORDPIECE_CLEANUP, 1);
    set_flag(t, TRF_WORDPIECE_CHINESE, json_true(t->config, "tokenize_chinese_chars", 1));
    set_flag(t, TRF_WORDPIECE_LOWER, lower);
    set_flag(t, TRF_WORDPIECE_STRIP, json_true(t->config, "strip_accents", lower));
    for (at = t->text; *at; at = end) {
        size_t length = strcspn(at, "\n");
        end = at + length + (at[length] == '\n');
        at[length] = 0;
        if (length && at[length - 1] == '\r') at[length - 1] = 0;
        if (add_token(t, (double)t->n, at)) return FAILED;
    }
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
static int take_tokens(struct tokenizer *t, const char *folder)
{
    char *config = format_text("%s/tokenizer_config.json", folder);
    const char *class_of;
    int status = DONE;
    if (is_file(config) && !(t->config = read_json_file(config))) status = FAILED;
    free(config);
    if (status) return status;
    t->path = format_text("%s/tokenizer.json", folder);
    if (is_file(t->path)) return (t->json = read_json_file(t->path)) ? take_json(t) : FAILED;
    free(t->path);
    t->path = format_text("%s/vocab.txt", folder);
    class_of = json_text(t->config, "tokenizer_class");
    if (is_file(t->path) && is_bert(class_of))
        return (t->text = read_whole(t->path, NULL)) ? take_text(t) : FAILED;
    say("%s: expected tokenizer.json, vocab.txt, vocab.json and merges.txt, or files of "
        "SentencePiece (source.spm, spiece.model, tokenizer.model, sentencepiece.bpe.model); got "
        "none that trf reads%s%s",
        folder, class_of ? " for the tokenizer_class " : "", class_of ? class_of : "");
    return FAILED;
}

/* The model may have more ids than there are tokens. */
static int make_vocab(struct tokenizer *t, size_t n_ids, trf_vocab **vocab)
{
    char (*unused)[UNUSED_NAME];
    const char **tokens;
    trf_error err;
    size_t i;
    int status = DONE;
    if (n_ids > t->n && n_ids <= MOST_IDS)
        inform_line("%s: ids without a token: %zu of %zu", t->path, n_ids - t->n, n_ids);
    else n_ids = t->n;
    unused = zeroed(n_ids + 1, sizeof *unused);
    tokens = zeroed(n_ids + 1, sizeof *tokens);
    for (i = 0; i < n_ids && !status; i++) {
        snprintf(unused[i], UNUSED_NAME, "[unused_%zu]", i);
        tokens[i] = i < t->n ? t->token[i] : unused[i];
        if (tokens[i]) continue;
        say("%s: no token has the id %zu", t->path, i);
        status = FAILED;
    }
    t->file.tokens = tokens;
    t->file.n_tokens = (int32_t)n_ids;
    if (!status && make_word_piece(vocab, &t->file, &err)) {
        say_error(t->path, &err);
        status = FAILED;
    }
    free(unused);
    free(tokens);
    return status;
}

int read_tokenizer(const char *folder, const char *type, const int32_t n_ids[2],
                   trf_vocab *vocab[2], int32_t special[SPECIALS], struct tags *tags)
{
    struct tokenizer t;
    int found, status = read_pieces(folder, type, n_ids, vocab, special, tags, &found);
    if (status || found) return status;
    status = read_byte_bpe(folder, n_ids, tags->bos, &vocab[0], special, &found);
    if (status || found) return status;
    status = read_levels(folder, n_ids, vocab, special, &found);
    if (status || found) return status;
    memset(&t, 0, sizeof t);
    t.file.flags = TRF_WORDPIECE_SETTINGS;
    status = take_tokens(&t, folder);
    if (!status) status = find_special_ids(&t);
    if (!status) status = make_vocab(&t, (size_t)n_ids[0], &vocab[0]);
    memcpy(special, t.file.special, sizeof t.file.special);
    cJSON_Delete(t.json);
    cJSON_Delete(t.config);
    free(t.text);
    free(t.token);
    free(t.path);
    return status;
}
