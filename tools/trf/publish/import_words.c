// trf import: the tokenizer of a folder becomes a vocabulary. BERT's WordPiece: from
// tokenizer.json, or from vocab.txt and tokenizer_config.json. SentencePiece: import_pieces.c.
// Byte-level BPE: import_bpe.c. Words and characters: import_levels.c.

#include "import_sentencepiece.h"

struct bert {
    struct published *p;
    char *path;                 /* of the file that has the tokens, for messages */
    char *text;                 /* of vocab.txt */
    struct places tokens;
    size_t n_model, ordinary;   /* n_model: ids of the model; ordinary: added tokens that are not
                                   special */
    struct wordpiece_file file;
};

static void set_flag(struct bert *b, int32_t flag, int is)
{
    if (is) b->file.flags |= flag;
}

/* Whether the class has rules of its own. */
static int is_own(const struct bert *b)
{
    return has_class(b->p, "BertTokenizer DistilBertTokenizer ElectraTokenizer");
}

/* Sets the flags that tokenizer_config.json and tokenizer.json say. normal: the normalizer of
   tokenizer.json, or NULL: there is none. */
static void set_flags(struct bert *b, const cJSON *normal)
{
    static const struct { const char *name, *config; int32_t flag; } all[] = {
        {"lowercase", "do_lower_case", WORDPIECE_LOWER},
        {"handle_chinese_chars", "tokenize_chinese_chars", WORDPIECE_CHINESE},
        {"strip_accents", "strip_accents", WORDPIECE_STRIP}};    /* missing: as the first */
    int theirs[3] = {1, 1, 1}, is[3] = {1, 1, 1}, i;
    for (i = 0; i < 3; i++) {
        is[i] = theirs[i] = json_true(normal, all[i].name, theirs[i == 2 ? 0 : i]);
        if (!normal)
            is[i] = json_true(b->p->config, all[i].config, is[i == 2 ? 0 : i]);
        else if (is_own(b))
            is[i] = config_true(b->p, all[i].config, i == 2 ? is[0] : 1, all[i].name,
                                i == 2 && is[0] != theirs[0] ? -1 : theirs[i]);
        set_flag(b, all[i].flag, is[i]);
    }
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
        const int32_t *around = b->p->tags->around;
        int32_t id = which == SPECIAL_CLS ? around[0] : which == SPECIAL_SEP ? around[1]
                                                                           : AROUND_USUAL;
        if (!text && id >= 0 && (size_t)id < n) { b->file.special[which] = id; continue; }
        if (!text) text = specials[k].usual;
        for (i = n; i-- > 0; )
            if (b->tokens.text[i] && !strcmp(b->tokens.text[i], text)) break;
        if (i < n) b->file.special[which] = (int32_t)i;
        else if (which != SPECIAL_MASK && id == AROUND_USUAL)
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
    int clean;
    normal = only_part(normal, "normalizers");
    clean = json_true(normal, "clean_text", 1);
    decoder = only_part(decoder, "decoders");
    if (!is_part(b, model, "model", "WordPiece") ||
        !is_part(b, normal, "normalizer", "BertNormalizer") ||
        !is_part(b, only_part(cJSON_GetObjectItemCaseSensitive(json, "pre_tokenizer"),
                              "pretokenizers"), "pre_tokenizer", "BertPreTokenizer"))
        return FAILED;
    if (prefix && strcmp(prefix, "##"))
        return refuse("%s: expected \"continuing_subword_prefix\" to be \"##\", got \"%s\"",
                      b->path, prefix);
    if (!cJSON_IsObject(vocab))
        return refuse("%s: expected an object \"vocab\" in the model", b->path);
    if (json_int(model, b->path, "max_input_chars_per_word", 100, &b->file.longest_word))
        return FAILED;
    if (is_own(b) && (!clean || b->file.longest_word != 100)) {
        inform_line("%s: its \"clean_text\" and \"max_input_chars_per_word\" do not count: "
                    "transformers follows the class %s", b->path, b->p->class_name);
        clean = 1;
        b->file.longest_word = 100;
    }
    set_flag(b, WORDPIECE_CLEAN, clean);
    set_flags(b, normal);
    set_flag(b, WORDPIECE_CLEANUP, json_true(decoder, "cleanup", 1));
    cJSON_ArrayForEach(entry, vocab) {
        if (!cJSON_IsNumber(entry))
            return refuse("%s: expected a number for the token \"%s\"", b->path, entry->string);
        if (place_text(&b->tokens, b->path, entry->valuedouble, entry->string)) return FAILED;
    }
    b->n_model = b->tokens.n;
    cJSON_ArrayForEach(entry, added) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(entry, "id");
        const char *text = json_text(entry, "content");
        if (!cJSON_IsNumber(id) || !text)
            return refuse("%s: expected \"id\" and \"content\" of each of \"added_tokens\"",
                          b->path);
        if (place_text(&b->tokens, b->path, id->valuedouble, text)) return FAILED;
        b->ordinary += !json_true(entry, "special", 0);
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>text           vocab.txt: a token a line, the first has the id 0
// -----------------------------------------------------------------------------------------------

static int take_text(struct bert *b)
{
    char *at = b->text, *line;
    b->file.longest_word = 100;
    set_flag(b, WORDPIECE_CLEAN | WORDPIECE_CLEANUP, 1);
    set_flags(b, NULL);
    while ((line = cut_line(&at)) != NULL)
        if (place_text(&b->tokens, b->path, (double)b->tokens.n, line)) return FAILED;
    b->n_model = b->tokens.n;
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

/* Gives an id a text that no text has. */
static void hide(struct bert *b, size_t id)
{
    b->tokens.text[id] = made_text(b->p, format_text("[unused_%zu]", id));
}

/* Of equal tokens the last one counts, as in transformers. No text has an empty token, or one with
   a blank. */
static void hide_unfound(struct bert *b)
{
    struct table all;
    size_t i, hidden = 0;
    memset(&all, 0, sizeof all);
    for (i = 0; i < b->tokens.n; i++) enter_text(&all, b->tokens.text[i], (int32_t)i);
    sort_texts(&all);
    for (i = 0; i < all.n; i++) {
        const char *text = all.entry[i].text;
        int twice = i + 1 < all.n && !strcmp(text, all.entry[i + 1].text);
        if (!twice && *text && !strpbrk(text, " \t\n\v\f\r")) continue;
        hide(b, (size_t)all.entry[i].id);
        hidden++;
    }
    free(all.entry);
    if (hidden)
        inform_line("%s: tokens that no text has (empty, with a blank, or equal to a later one): "
                    "%zu", b->path, hidden);
}

/* The model may have more ids than there are tokens, or no rows for the last ones that were
   added. */
static int make_vocab(struct bert *b, trf_vocab **vocab)
{
    size_t *n = &b->tokens.n, n_ids = (size_t)b->p->n_ids[0], last, i;
    trf_error err;
    int k;
    if (check_places(&b->tokens, b->path)) return FAILED;
    last = *n;
    for (; *n > n_ids && n_ids && (*n > b->n_model || !*b->tokens.text[*n - 1]); --*n)
        for (k = 0; k < SPECIALS; k++)
            if (b->file.special[k] == (int32_t)*n - 1) b->file.special[k] = -1;
    if (*n < last) tell_rowless(b->path, b->tokens.text[*n], last - *n);
    hide_unfound(b);
    i = *n;
    if (n_ids <= i || n_ids > MOST_IDS) n_ids = i;
    else inform_line("%s: ids without a token: %zu of %zu", b->path, n_ids - i, n_ids);
    b->tokens.text = grow(b->tokens.text, &b->tokens.capacity, n_ids, sizeof *b->tokens.text);
    for (; i < n_ids; i++) hide(b, i);
    b->file.tokens = b->tokens.text;
    b->file.n_tokens = (int32_t)n_ids;
    if (make_word_piece(vocab, &b->file, &err)) return refuse_error(b->path, &err);
    tell_ordinary(b->path, b->ordinary, "words");
    return DONE;
}

static int read_word_piece(struct published *p, trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct bert b;
    int status;
    memset(&b, 0, sizeof b);
    b.p = p;
    b.file.flags = WORDPIECE_SETTINGS;
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
    p->is = class_of_files(p);
    if (p->is != NO_CLASS) return read_pieces(p, vocab, special);
    p->json = p->whole;
    model = cJSON_GetObjectItemCaseSensitive(p->json, "model");
    if (is_metaspace(p->json)) return read_pieces(p, vocab, special);
    if (p->json ? has_type(model, "BPE") : has_bpe_files(p))
        return read_byte_bpe(p, &vocab[0], special);
    if (has_type(model, "WordLevel")) return read_levels(p, vocab, special);
    return read_word_piece(p, &vocab[0], special);
}

int read_tokenizer(const char *folder, const char *type, const char *class_name,
                   const int32_t n_ids[2], trf_vocab *vocab[2], int32_t special[SPECIALS],
                   struct tags *tags)
{
    struct published p;
    int status = FAILED, side;
    memset(&p, 0, sizeof p);
    p.folder = folder;
    p.type = type;
    p.n_ids = n_ids;
    p.tags = tags;
    p.config_path = format_text("%s/tokenizer_config.json", folder);
    p.json_path = format_text("%s/tokenizer.json", folder);
    if (!read_if_there(folder, "tokenizer_config.json", &p.config) &&
        !read_if_there(folder, "tokenizer.json", &p.whole) && !take_special_map(&p)) {
        name_class(&p, class_name);
        status = find_around(&p) || read_kind(&p, vocab, special) ? FAILED : DONE;
    }
    if (!status) {
        find_flagged(&p, trf_vocab_kind(vocab[0]) == TRF_SENTENCEPIECE, special);
        for (side = 0; side < 2; side++) {      /* a template may name what nothing else does */
            int32_t *own = &special[side ? SPECIAL_SEP : SPECIAL_CLS];
            int32_t other = special[side ? SPECIAL_EOS : SPECIAL_BOS];
            if (tags->around[side] >= 0 && *own < 0 &&
                (other < 0 || (!n_ids[1] && other != tags->around[side])))
                *own = tags->around[side];
        }
    }
    free_made(&p);
    cJSON_Delete(p.config);
    cJSON_Delete(p.whole);
    free(p.config_path);
    free(p.json_path);
    return status;
}
