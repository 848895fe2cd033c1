// trf import: SentencePiece tokenizers of Hugging Face, whose models have ids of their own.
//
// The class in tokenizer_config.json decides; without it, the files that a folder has, and
// "model_type" in config.json:
//
//   MarianTokenizer      source.spm, target.spm, vocab.json, which gives the ids of all pieces
//   M2M100Tokenizer      sentencepiece.bpe.model, vocab.json; the codes of languages follow
//   T5Tokenizer          spiece.model: piece i has id i; a hundred sentinels follow
//   LlamaTokenizer       tokenizer.model: piece i has id i
//   XLMRobertaTokenizer, MBartTokenizer, MBart50Tokenizer, NllbTokenizer
//                        sentencepiece.bpe.model: <s> <pad> </s> <unk> come first, as in fairseq;
//                        piece i has id i + 1; the codes of languages and <mask> follow
//
// A folder without these files may have a tokenizer.json of the same kind (import_metaspace.c).
// Tokens that tokenizer_config.json adds follow the pieces. The library checks all ids.

#include "import_sentencepiece.h"

static const struct {
    const char *class_name, *file, *beside, *type;      /* beside: NULL, or a file that must be
                                   there; type: NULL, or the model_type of folders without class */
} classes[CLASSES] = {
    {"MarianTokenizer", "source.spm", NULL, NULL},
    {"T5Tokenizer", "spiece.model", NULL, NULL},
    {"LlamaTokenizer", "tokenizer.model", NULL, NULL},
    {"M2M100Tokenizer", "sentencepiece.bpe.model", "vocab.json", "m2m_100"},
    {"NllbTokenizer", "sentencepiece.bpe.model", NULL, "m2m_100"},
    {"MBartTokenizer", "sentencepiece.bpe.model", NULL, "mbart"},
    {"MBart50Tokenizer", "sentencepiece.bpe.model", NULL, "mbart"},
    {"XLMRobertaTokenizer", "sentencepiece.bpe.model", NULL, NULL}};

const char *class_name_of(int is) { return classes[is].class_name; }

// -----------------------------------------------------------------------------------------------
// >>table          vocab.json
// -----------------------------------------------------------------------------------------------

/* Adds the entry of a file of JSON. */
static int take_entry(struct table *t, const char *path, const char *text, const cJSON *value)
{
    double id = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (check_id(path, text, id)) return FAILED;
    enter_text(t, text, (int32_t)id);
    return DONE;
}

/* Reads texts and ids. Every id from 0 on has one text. */
static int take_table(struct table *t, const char *path, const cJSON *json)
{
    const char **by_id = NULL;
    const cJSON *entry;
    size_t i;
    int status = DONE;
    cJSON_ArrayForEach(entry, json)
        if (take_entry(t, path, entry->string, entry)) return FAILED;
    by_id = zeroed(t->n + 1, sizeof *by_id);
    for (i = 0; i < t->n && !status; i++) {
        size_t id = (size_t)t->entry[i].id;
        if (id >= t->n)
            status = refuse("%s: \"%s\" has the id %zu, but there are only %zu tokens: an id is "
                            "missing", path, t->entry[i].text, id, t->n);
        else if (by_id[id]) status = same_id(path, by_id[id], t->entry[i].text, id);
        else by_id[id] = t->entry[i].text;
    }
    free(by_id);
    return status ? status : sort_unique(t, path);
}

// -----------------------------------------------------------------------------------------------
// >>file           the texts of a SentencePiece file's pieces
// -----------------------------------------------------------------------------------------------

uint64_t next_field(const unsigned char **at, const unsigned char *end,
                    const unsigned char **field, size_t *length)
{
    uint64_t number[2] = {0, 0};
    int k, shift, type = 0;
    *length = 0;
    for (k = 0; k < 2; k++) {
        for (shift = 0; *at < end && shift < 64; shift += 7) {
            number[k] |= (uint64_t)(**at & 127) << shift;
            if (!(*(*at)++ & 128)) break;
        }
        type = (int)(number[0] & 7);
        if (type == 1 || type == 5) { number[1] = type == 1 ? 8 : 4; break; }
    }
    *field = *at;
    if (type == 0) {
        *length = (size_t)number[1];
        return number[0];
    }
    if (number[1] > (uint64_t)(end - *at)) return 0;
    *length = (size_t)number[1];
    *at += *length;
    return number[0];
}

/* Reads the file. A fault of its bytes ends the list: the library tells it. */
static int read_pieces_of(struct pieces *p, const char *folder, const char *name)
{
    const unsigned char *at, *end, *field, *inner, *text;
    size_t length, n;
    uint64_t key;
    p->path = format_text("%s/%s", folder, name);
    p->bytes = read_whole(p->path, &p->n_bytes);
    if (!p->bytes) return FAILED;
    at = (const unsigned char *)p->bytes;
    end = at + p->n_bytes;
    while (at < end && (key = next_field(&at, end, &field, &length)) != 0) {
        if (key != 8 * 1 + 2) continue;
        p->text = grow(p->text, &p->capacity, p->n + 1, sizeof *p->text);
        p->text[p->n++] = zeroed(length + 1, 1);
        for (inner = field; inner < field + length; ) {
            key = next_field(&inner, field + length, &text, &n);
            if (key == 8 * 1 + 2) memcpy(p->text[p->n - 1], text, n);
            if (key == 0) break;
        }
    }
    if (p->n) return DONE;
    return refuse("%s: byte %zu: expected a piece of SentencePiece, got %s", p->path,
                  (size_t)(at - (const unsigned char *)p->bytes),
                  at < end ? "something else" : "the end");
}

/* What a folder says of its tokens. */
struct token_list {
    struct pieces pieces;
    int32_t *ids;               /* of the pieces; NULL: piece i has the id i */
    struct table more, all;     /* more: tokens that are no pieces; all: these and the pieces */
};

static void free_tokens(struct token_list *t)
{
    size_t i;
    for (i = 0; i < t->pieces.n; i++) free(t->pieces.text[i]);
    free(t->pieces.text);
    free(t->pieces.bytes);
    free(t->pieces.path);
    free(t->ids);
    free(t->more.entry);
    free(t->all.entry);
}

// -----------------------------------------------------------------------------------------------
// >>special        special tokens, and tokens that a folder adds
// -----------------------------------------------------------------------------------------------

/* Finds the ids in a sorted table of all tokens. tokenizer_config.json may have null for one. */
static int find_special(const struct published *p, const struct table *all,
                        int32_t special[SPECIALS])
{
    static const char *const usual[CLASSES + 1][SPECIALS] = {
        {"<pad>", NULL, "</s>", "<unk>", NULL, NULL, NULL},                     /* MARIAN */
        {"<pad>", NULL, "</s>", "<unk>", NULL, NULL, NULL},                     /* T5 */
        {NULL, "<s>", "</s>", "<unk>", NULL, NULL, NULL},                       /* LLAMA */
        {"<pad>", "<s>", "</s>", "<unk>", NULL, NULL, NULL},                    /* M2M100 */
#define FAIRSEQ {"<pad>", "<s>", "</s>", "<unk>", "<mask>", "<s>", "</s>"}
        FAIRSEQ, FAIRSEQ, FAIRSEQ, FAIRSEQ,
        {"<pad>", "<s>", "</s>", "<unk>", "<mask>", NULL, NULL}};           /* OTHER */
#undef FAIRSEQ
    int i, k;
    for (i = 0; i < SPECIALS; i++) {
        const cJSON *named = cJSON_GetObjectItemCaseSensitive(p->config, special_names[i]);
        const char *text = named ? token_text(named) : usual[p->is][i];
        const struct entry *found = text ? find_text(all, text) : NULL;
        special[i] = found ? found->id : -1;
        if (!found && (i == SPECIAL_EOS || (i == SPECIAL_UNK && !p->json)))
            return refuse("%s: expected the special token \"%s\" among the tokens", p->folder,
                          text ? text : usual[p->is][i]);
    }
    i = starts_with_tag(p, all);
    if (i >= 0) special[SPECIAL_BOS] = special[SPECIAL_CLS] = i;
    /* padding with the token that ends, or with the unknown one, is no padding here */
    for (i = SPECIAL_PAD, k = 1; k < SPECIALS; k++) if (special[i] == special[k]) special[i] = -1;
    return DONE;
}

/* The number of ids on the side that has the only vocabulary. */
static int32_t ids_of_model(const struct published *p)
{
    return p->n_ids[0] ? p->n_ids[0] : p->n_ids[1];
}

/* Adds what tokenizer_config.json adds, or else tokenizer.json, if the model has rows for it. A
   token that is a piece has its number, unless pieces is NULL. */
static int take_added(const struct published *p, const struct pieces *pieces, struct table *more)
{
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(p->config, "added_tokens_decoder");
    const cJSON *entry;
    const char *path = added ? p->config_path : p->json_path, *first = NULL;
    size_t ordinary = 0, rowless = 0;
    if (!added) added = cJSON_GetObjectItemCaseSensitive(p->whole, "added_tokens");
    cJSON_ArrayForEach(entry, added) {
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(entry, "id");
        const char *text = json_text(entry, "content"), *name = entry->string;
        char *end = NULL;
        double id = name ? strtod(name, &end) : cJSON_IsNumber(number) ? number->valuedouble : -1;
        size_t i;
        if (!text || (name && (*end || end == name)))
            return refuse("%s: expected an id and its \"content\" for each added token, got \"%s\"",
                          path, name ? name : "another value");
        if (check_id(path, text, id)) return FAILED;
        i = (size_t)id;
        if (pieces && i < pieces->n) {
            if (!strcmp(pieces->text[i], text)) continue;
            return refuse("%s: the id %zu is \"%s\", but piece %zu of %s is \"%s\"", path, i, text,
                          i, pieces->path, pieces->text[i]);
        }
        if (i >= (size_t)ids_of_model(p)) {
            if (!rowless++) first = text;
            continue;
        }
        ordinary += !json_true(entry, "special", 0);
        enter_text(more, text, (int32_t)i);
    }
    tell_rowless(path, first, rowless);
    tell_ordinary(path, ordinary, "tokens that no text has");
    return DONE;
}

/* T5's sentinels, whose ids go down from the last one, unless they are among the added tokens. */
static int take_sentinels(struct published *p, size_t n, struct table *more)
{
    int32_t sentinels, i;
    size_t k;
    for (k = 0; k < more->n; k++) if (!strncmp(more->entry[k].text, "<extra_id_", 10)) return DONE;
    if (json_int(p->config, p->config_path, "extra_ids", 100, &sentinels)) return FAILED;
    if (sentinels > ids_of_model(p) - (int32_t)n)
        return refuse("%s: the tokenizer has %lld ids, but the model has only %d", p->folder,
                      (long long)n + sentinels, (int)ids_of_model(p));
    for (i = 0; i < sentinels; i++) {
        const char *text = made_text(p, format_text("<extra_id_%d>", (int)i));
        enter_text(more, text, (int32_t)n + sentinels - 1 - i);
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>vocabulary     a vocabulary of the library
// -----------------------------------------------------------------------------------------------

/* n_ids: how many the model has, of which the last may be no tokens. */
static int make_vocabulary(const struct token_list *t, int32_t n_ids, int codes,
                           const int32_t special[SPECIALS], trf_vocab **vocab)
{
    const struct pieces *pieces = &t->pieces;
    const struct table *more = &t->more;
    const char **text = zeroed(more->n + 1, sizeof *text);
    int32_t *more_ids = zeroed(more->n + 1, sizeof *more_ids), last = -1;
    trf_piece_ids map;
    trf_error err;
    size_t i;
    int status = DONE;
    memset(&map, 0, sizeof map);
    for (i = 0; i < pieces->n; i++) {
        int32_t id = t->ids ? t->ids[i] : (int32_t)i;
        if (id > last) last = id;
    }
    for (i = 0; i < more->n; i++) {
        text[i] = more->entry[i].text;
        more_ids[i] = more->entry[i].id;
        if (more_ids[i] > last) last = more_ids[i];
    }
    map.size = n_ids > last ? n_ids : last + 1;
    map.pieces = t->ids;
    map.n_pieces = (int32_t)pieces->n;
    map.more = text;
    map.more_ids = more_ids;
    map.n_more = (int32_t)more->n;
    map.codes = codes;
    memcpy(map.special, special, sizeof map.special);
    if (n_ids && map.size > n_ids)
        status = refuse("%s: the tokenizer has %d ids, but the model has only %d", pieces->path,
                        (int)map.size, (int)n_ids);
    else if (vocab_of_bytes(vocab, pieces->bytes, pieces->n_bytes, &map, &err))
        status = refuse_error(pieces->path, &err);
    free(text);
    free(more_ids);
    return status;
}

/* Adds the tokens of languages behind the n tokens of `all`. */
static void add_codes(struct published *p, struct table *all, int32_t n)
{
    const char *codes = codes_of(p->is, json_text(p->config, "language_codes"));
    char *code;
    for (; (code = next_code(&codes)) != NULL; free(code))
        enter_text(all, made_text(p, tag_of(p->is, code)), n++);
}

/* Marian and M2M-100: what vocab.json says of the pieces, and its tokens that are none of them. */
static int take_listed(struct published *p, const char *file, const char *table_name, int side,
                       trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct token_list t;
    char *path = format_text("%s/%s", p->folder, table_name);
    cJSON *json = read_json_file(path);
    size_t i;
    int status;
    memset(&t, 0, sizeof t);
    status = json ? take_table(&t.all, path, json) : FAILED;
    if (!status) status = read_pieces_of(&t.pieces, p->folder, file);
    if (!status) {
        add_codes(p, &t.all, (int32_t)t.all.n);
        sort_texts(&t.all);
        status = find_special(p, &t.all, special);
    }
    if (!status) {
        t.ids = zeroed(t.pieces.n + 1, sizeof *t.ids);
        for (i = 0; i < t.pieces.n; i++) {
            struct entry *found = find_text(&t.all, t.pieces.text[i]);
            t.ids[i] = found ? found->id : -1;
            if (found) found->used = 1;
        }
        for (i = 0; i < t.all.n; i++)
            if (!t.all.entry[i].used) enter_text(&t.more, t.all.entry[i].text, t.all.entry[i].id);
        status = make_vocabulary(&t, p->n_ids[side], p->is == MARIAN, special, vocab);
        if (!side) find_languages(p, &t.all, p->tags);
    }
    free_tokens(&t);
    cJSON_Delete(json);
    free(path);
    return status;
}

static int take_marian(struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS])
{
    int separate = json_true(p->config, "separate_vocabs", 0);
    if (take_listed(p, "source.spm", "vocab.json", 0, &vocab[0], special)) return FAILED;
    return take_listed(p, "target.spm", separate ? "target_vocab.json" : "vocab.json", 1, &vocab[1],
                       special);
}

/* Adds the tokens that a folder adds, unless they are known with their ids. */
static int add_new(const struct published *p, struct table *all, struct table *more,
                   struct table *added)
{
    const size_t known = more->n;
    size_t i;
    if (sort_unique(added, p->config_path)) return FAILED;
    sort_texts(all);
    for (i = 0; i < added->n; i++) {
        const struct entry *new = &added->entry[i], *old = find_text(all, new->text);
        if (!old) enter_text(more, new->text, new->id);
        else if (old->id != new->id)
            return refuse("%s: \"%s\" has the id %d, but by the order of pieces, languages and "
                          "special tokens it has the id %d", p->config_path, new->text,
                          (int)new->id, (int)old->id);
    }
    for (i = known; i < more->n; i++) enter_text(all, more->entry[i].text, more->entry[i].id);
    sort_texts(all);
    return DONE;
}

void list_fairseq(struct published *p, size_t n, struct table *more)
{
    static const char *const first[] = {"<s>", "<pad>", "</s>", "<unk>"};
    size_t k;
    for (k = 0; k < 4; k++) enter_text(more, first[k], (int32_t)k);
    add_codes(p, more, (int32_t)n + 1);
    enter_text(more, "<mask>", (int32_t)(n + more->n - 3));
}

/* Pieces with the ids of fairseq, and the tokens that are no pieces. */
static void number_like_fairseq(struct published *p, struct token_list *t)
{
    struct table *more = &t->more;
    size_t n = t->pieces.n, i, k, known;
    t->ids = zeroed(n + 1, sizeof *t->ids);
    list_fairseq(p, n, more);
    known = more->n;
    for (i = 0; i < n; i++) {
        t->ids[i] = (int32_t)i + 1;
        for (k = 0; k < known; k++)
            if (!strcmp(more->entry[k].text, t->pieces.text[i])) {
                t->ids[i] = more->entry[k].id;
                more->entry[k].used = 1;
            }
        enter_text(&t->all, t->pieces.text[i], t->ids[i]);
    }
    for (i = k = 0; i < known; i++) {
        if (more->entry[i].used) continue;
        enter_text(&t->all, more->entry[i].text, more->entry[i].id);
        more->entry[k++] = more->entry[i];
    }
    more->n = k;
}

/* XLM-R, mBART and NLLB. mBART without a class is the one of 25 or of 50 languages. */
static int take_fairseq(struct published *p, struct token_list *t)
{
    struct table added;
    int status;
    memset(&added, 0, sizeof added);
    status = read_pieces_of(&t->pieces, p->folder, classes[p->is].file);
    if (!status) status = take_added(p, NULL, &added);
    if (!status) {
        if (p->is == MBART && !json_text(p->config, "tokenizer_class") &&
            ids_of_model(p) >= (int32_t)t->pieces.n + 54) p->is = MBART50;
        number_like_fairseq(p, t);
        status = add_new(p, &t->all, &t->more, &added);
    }
    free(added.entry);
    return status;
}

static void list_all(struct token_list *t)
{
    size_t i;
    for (i = 0; i < t->pieces.n; i++)
        enter_text(&t->all, t->pieces.text[i], t->ids ? t->ids[i] : (int32_t)i);
    for (i = 0; i < t->more.n; i++) enter_text(&t->all, t->more.entry[i].text, t->more.entry[i].id);
    sort_texts(&t->all);
}

/* T5 and Llama: piece i has id i. */
static int take_numbered(struct published *p, struct token_list *t)
{
    if (read_pieces_of(&t->pieces, p->folder, classes[p->is].file) ||
        take_added(p, &t->pieces, &t->more) ||
        (p->is == T5 && take_sentinels(p, t->pieces.n, &t->more))) return FAILED;
    list_all(t);
    return DONE;
}

/* The class of a folder with tokenizer.json alone: by its name, or by the type of the model. */
static int class_of_json(const struct published *p, const struct table *all)
{
    const char *name = json_text(p->config, "tokenizer_class"), *type = p->type ? p->type : "";
    int is;
    for (is = 0; name && is < CLASSES; is++)
        if (!strncmp(name, classes[is].class_name, strlen(classes[is].class_name))) return is;
    if (!strcmp(type, "m2m_100")) return NLLB;
    if (!strcmp(type, "mbart")) return find_text(all, "af_ZA") ? MBART50 : MBART;
    if (!strcmp(type, "xlm-roberta")) return XLM_ROBERTA;
    return OTHER;
}

/* tokenizer.json alone. */
static int take_json(struct published *p, struct token_list *t)
{
    if (read_metaspace(p, &t->pieces, &t->ids, &t->more)) return FAILED;
    list_all(t);
    p->is = class_of_json(p, &t->all);
    return DONE;
}

/* The tokens of all classes but Marian's and M2M-100's. */
static int take_tokens(struct published *p, struct token_list *t)
{
    switch (p->is) {
    case NO_CLASS: return take_json(p, t);
    case T5: case LLAMA: return take_numbered(p, t);
    default: return take_fairseq(p, t);
    }
}

/* One vocabulary for all sides. */
static int take_one(struct published *p, trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct token_list t;
    int status;
    memset(&t, 0, sizeof t);
    status = take_tokens(p, &t);
    if (!status) status = find_special(p, &t.all, special);
    if (!status) status = make_vocabulary(&t, ids_of_model(p), 0, special, vocab);
    if (!status) find_languages(p, &t.all, p->tags);
    free_tokens(&t);
    return status;
}

int class_of_files(const struct published *p)
{
    const char *name = json_text(p->config, "tokenizer_class"), *type;
    int is, known = 0;
    for (is = 0; is < CLASSES; is++) {
        size_t length = strlen(classes[is].class_name);
        if (!has_file(p->folder, classes[is].file)) continue;
        if (classes[is].beside && !has_file(p->folder, classes[is].beside)) continue;
        type = classes[is].type;
        known = name ? !strncmp(name, classes[is].class_name, length) &&
                           (!name[length] || !strcmp(name + length, "Fast"))
                     : !type || (p->type && !strcmp(p->type, type));
        if (known) break;
    }
    return is < CLASSES ? is : (int)NO_CLASS;
}

int read_pieces(struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS])
{
    p->tags->no_bos = p->is == MARIAN;
    switch (p->is) {
    case MARIAN: return take_marian(p, vocab, special);
    case M2M100: return take_listed(p, classes[p->is].file, "vocab.json", 0, vocab, special);
    default: return take_one(p, vocab, special);
    }
}
