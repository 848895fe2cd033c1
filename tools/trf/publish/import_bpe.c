// trf import: the byte-level BPE of a folder becomes a vocabulary: from tokenizer.json, or from
// vocab.json and merges.txt.

#include "import.h"

#include "tools/unicode/unicode.h"

enum { A_LETTER = 1, A_NUMBER = 2, A_BLANK = 3 };       /* transformer.h, >>byte-bpe */

struct bpe {
    struct published *p;
    char *path;                 /* of the file that has the tokens, for messages */
    cJSON *vocab, *added;       /* vocab.json, added_tokens.json; or NULL */
    char *text;                 /* of merges.txt */
    char *merges_path;
    struct places tokens;
    size_t n_model;             /* tokens that are not added */
    unsigned char *kinds, *cut; /* of each token; cut: it is added, texts are cut there */
    size_t kinds_capacity, cut_capacity;
    struct table all;           /* the same tokens, sorted */
    int32_t flags;
    int32_t special[SPECIALS];
    int32_t (*merge)[2];
    size_t n_merges, merges_capacity;
};

static int add_entry(struct bpe *b, double id, const char *text, int kind)
{
    size_t before = b->tokens.n, i;
    int known = id >= 0 && id < (double)before && b->tokens.text[(size_t)id];
    if (place_text(&b->tokens, b->path, id, text)) return FAILED;
    b->kinds = grow(b->kinds, &b->kinds_capacity, b->tokens.n, 1);
    b->cut = grow(b->cut, &b->cut_capacity, b->tokens.n, 1);
    for (i = before; i < b->tokens.n; i++) b->kinds[i] = b->cut[i] = 0;
    i = (size_t)id;
    /* an ordinary token may turn out to be added too, or special */
    if (!known || kind == BPE_SPECIAL) b->kinds[i] = (unsigned char)kind;
    if (kind == BPE_ADDED) b->cut[i] = 1;
    return DONE;
}

/* Sorts the tokens, so that find_token finds them. Fails if an id has none. */
static int sort_tokens(struct bpe *b)
{
    size_t i;
    if (check_places(&b->tokens, b->path)) return FAILED;
    for (i = 0; i < b->tokens.n; i++) enter_text(&b->all, b->tokens.text[i], (int32_t)i);
    sort_texts(&b->all);
    return DONE;
}

/* The id of a token, or -1. */
static int32_t find_token(const struct bpe *b, const char *text)
{
    const struct entry *found = find_text(&b->all, text);
    return found ? found->id : -1;
}

// -----------------------------------------------------------------------------------------------
// >>merges         pairs of tokens, the first has the lowest rank
// -----------------------------------------------------------------------------------------------

/* Adds the merge of two tokens. `what` and `number` say where it stands. */
static int add_merge(struct bpe *b, const char *path, const char *what, size_t number,
                     const char *left, const char *right)
{
    const char *both[2];
    int side;
    both[0] = left;
    both[1] = right;
    b->merge = grow(b->merge, &b->merges_capacity, b->n_merges + 1, sizeof *b->merge);
    for (side = 0; side < 2; side++) {
        int32_t id = find_token(b, both[side]);
        if (id < 0)
            return refuse("%s: %s %zu: \"%s\" is not a token", path, what, number, both[side]);
        b->merge[b->n_merges][side] = id;
    }
    b->n_merges++;
    return DONE;
}

/* A merge as one text, "a b"; it is changed. */
static int add_merge_text(struct bpe *b, const char *path, const char *what, size_t number,
                          char *text)
{
    char *blank = strchr(text, ' ');
    if (!blank || blank == text || !blank[1] || strchr(blank + 1, ' '))
        return refuse("%s: %s %zu: expected two tokens with a blank between them, got \"%.60s\"",
                      path, what, number, text);
    *blank = 0;
    return add_merge(b, path, what, number, text, blank + 1);
}

/* "merges" of tokenizer.json: a list of pairs, or of texts. */
static int take_json_merges(struct bpe *b, const cJSON *merges)
{
    const cJSON *entry;
    size_t i = 0;
    if (!cJSON_IsArray(merges))
        return refuse("%s: expected a list \"merges\" in the model", b->path);
    cJSON_ArrayForEach(entry, merges) {
        const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(entry, 0));
        const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(entry, 1));
        if (cJSON_IsString(entry)) {
            if (add_merge_text(b, b->path, "merge", i, entry->valuestring)) return FAILED;
        } else if (!left || !right || cJSON_GetArraySize(entry) != 2)
            return refuse("%s: merge %zu: expected a list of two tokens or a text", b->path, i);
        else if (add_merge(b, b->path, "merge", i, left, right)) return FAILED;
        i++;
    }
    return DONE;
}

/* merges.txt: a merge a line. Lines that begin with "#version" are none. */
static int take_text_merges(struct bpe *b)
{
    char *at = b->text, *text;
    size_t line;
    for (line = 1; (text = cut_line(&at)) != NULL; line++) {
        if (!strncmp(text, "#version", 8)) continue;
        if (add_merge_text(b, b->merges_path, "line", line, text)) return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>rules          how tokenizer.json splits texts
// -----------------------------------------------------------------------------------------------

const char gpt2_rule[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char llama_rule[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char qwen_rule[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* A Split with one of the three regular expressions. */
static int take_split(struct bpe *b, const cJSON *split)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(split, "pattern");
    const char *rule = json_text(pattern, "Regex"), *behavior = json_text(split, "behavior");
    if (!behavior || strcmp(behavior, "Isolated") || json_true(split, "invert", 0))
        return refuse("%s: expected a Split with the behavior Isolated and without \"invert\"",
                      b->path);
    if (rule && !strcmp(rule, llama_rule)) b->flags |= BPE_LLAMA;
    else if (rule && !strcmp(rule, qwen_rule)) b->flags |= BPE_LLAMA | BPE_ONE_NUMBER;
    else if (!rule || strcmp(rule, gpt2_rule))
        return refuse("%s: trf splits texts by the regular expressions of GPT-2, Llama 3 and Qwen "
                      "2, and this Split has another one: %.200s", b->path, rule ? rule : "none");
    return DONE;
}

/* GPT-2's rule, or Qwen 2's, and the setting of tokenizer_config.json. */
static void take_class_rules(struct bpe *b)
{
    if (has_class(b->p, "Qwen2Tokenizer"))
        b->flags |= BPE_LLAMA | BPE_ONE_NUMBER | BPE_NFC;
    if (json_true(b->p->config, "add_prefix_space", 0)) b->flags |= BPE_BLANK;
}

/* Classes with rules of their own: those of tokenizer.json, which `flags` are, do not count. */
static void follow_class(struct bpe *b)
{
    const int32_t theirs = b->flags, whole = theirs & BPE_WHOLE;
    if (!has_class(b->p, "GPT2Tokenizer RobertaTokenizer BartTokenizer Qwen2Tokenizer")) return;
    config_true(b->p, "add_prefix_space", 0, "add_prefix_space", (theirs & BPE_BLANK) != 0);
    b->flags = 0;
    take_class_rules(b);
    if ((theirs ^ b->flags) & ~(BPE_BLANK | BPE_WHOLE))
        inform_line("%s: its rules for cutting texts are not those of the class %s, which "
                    "transformers follows", b->path, b->p->class_name);
    if (whole)
        inform_line("%s: \"ignore_merges\" is true, but not in the class %s, which transformers "
                    "follows", b->path, b->p->class_name);
}

/* ByteLevel alone, or in a Sequence; there a Split may precede it, or SmolLM's Digits. */
static int take_pre_tokenizer(struct bpe *b, const cJSON *pre)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(pre, "pretokenizers"), *level = pre;
    const cJSON *split = NULL;
    int blank, digits;
    if (has_type(pre, "Sequence") && cJSON_GetArraySize(list) == 2) {
        level = cJSON_GetArrayItem(list, 1);
        split = cJSON_GetArrayItem(list, 0);
    } else level = only_part(pre, "pretokenizers");
    digits = has_type(split, "Digits") && json_true(split, "individual_digits", 0);
    if (!has_type(level, "ByteLevel") || (split && !has_type(split, "Split") && !digits))
        return refuse("%s: expected a pre_tokenizer of type ByteLevel, or a Sequence of ByteLevel "
                      "behind Split or Digits with \"individual_digits\"", b->path);
    blank = json_true(level, "add_prefix_space", 1);
    if (blank) b->flags |= BPE_BLANK;
    if (digits && !blank) {
        b->flags |= BPE_ONE_NUMBER;
        split = NULL;
    }
    if (split && (blank || json_true(level, "use_regex", 1)))
        return refuse("%s: expected \"add_prefix_space\" and \"use_regex\" to be false after a "
                      "Split", b->path);
    if (!split && !json_true(level, "use_regex", 1))
        return refuse("%s: expected \"use_regex\" to be true: no Split precedes it", b->path);
    return split ? take_split(b, split) : DONE;
}

/* What the model of tokenizer.json must not have; and its normalizer. */
static int check_model(struct bpe *b, const cJSON *model)
{
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");
    const cJSON *json = b->p->json;
    const cJSON *normal = only_part(cJSON_GetObjectItemCaseSensitive(json, "normalizer"),
                                    "normalizers");
    const cJSON *decoder = only_part(cJSON_GetObjectItemCaseSensitive(json, "decoder"), "decoders");
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *text = json_text(model, names[i]);
        if (!text || !*text) continue;
        return refuse("%s: expected no \"%s\", got \"%s\"", b->path, names[i], text);
    }
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return refuse("%s: expected no \"dropout\", got %g: its ids would be random", b->path,
                      dropout->valuedouble);
    if (has_type(normal, "NFC")) b->flags |= BPE_NFC;
    else if (normal && !cJSON_IsNull(normal)) {
        const char *type = json_text(normal, "type");
        return refuse("%s: expected no normalizer or NFC, got %s", b->path,
                      type ? type : "another value");
    }
    if (!has_type(decoder, "ByteLevel"))
        return refuse("%s: expected a decoder of type ByteLevel", b->path);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>tokens         tokens of the files, and which of them are special
// -----------------------------------------------------------------------------------------------

/* An object whose names are tokens and whose values are ids. */
static int take_ids(struct bpe *b, const cJSON *object, int kind)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, object) {
        if (!cJSON_IsNumber(entry))
            return refuse("%s: expected a number for the token \"%s\"", b->path, entry->string);
        if (add_entry(b, entry->valuedouble, entry->string, kind)) return FAILED;
    }
    return DONE;
}

/* "added_tokens" of tokenizer.json; "added_tokens_decoder" of tokenizer_config.json, where the name
   is the id. */
static int take_added(struct bpe *b, const cJSON *list)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, list) {
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(entry, "id");
        const char *text = json_text(entry, "content");
        char *end = NULL;
        double id = cJSON_IsNumber(number) ? number->valuedouble : -1;
        int kind;
        if (!number && entry->string) id = strtod(entry->string, &end);
        if (!text || (!number && (!end || *end || end == entry->string)))
            return refuse("%s: expected \"id\" and \"content\" of each added token", b->path);
        kind = json_true(entry, "special", 0) ? BPE_SPECIAL : BPE_ADDED;
        if (add_entry(b, id, text, kind)) return FAILED;
    }
    return DONE;
}

static const char *special_name(const struct bpe *b, const char *name)
{
    return token_text(cJSON_GetObjectItemCaseSensitive(b->p->config, name));
}

static void mark_special(struct bpe *b, int32_t id)
{
    if (id >= 0) b->kinds[id] = BPE_SPECIAL;
}

/* A model's eos must be no other special id but bos. GPT-2 calls its one special token unk too, and
   many call it pad: no text has the one, and no batch the other. */
static void part_specials(int32_t special[SPECIALS])
{
    int32_t *pad = &special[SPECIAL_PAD], *unk = &special[SPECIAL_UNK];
    if (*unk == special[SPECIAL_EOS] || *unk == special[SPECIAL_BOS] || *unk == *pad) *unk = -1;
    if (*pad == special[SPECIAL_EOS] || *pad == special[SPECIAL_BOS]) *pad = -1;
}

/* Finds pad, bos, eos, unk, mask, cls and sep. Folders without names have those of RoBERTa and BART
   if "<s>" is a token, else those of GPT-2. Where the tokenizer has no bos (Qwen 2), that of
   config.json counts. */
static int find_specials(struct bpe *b)
{
    static const char *const usual[2][SPECIALS] = {
        {"<pad>", "<s>", "</s>", "<unk>", "<mask>", "<s>", "</s>"},
        {NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL}};
    const cJSON *more = cJSON_GetObjectItemCaseSensitive(b->p->config, "additional_special_tokens");
    const cJSON *entry;
    const int32_t bos = b->p->tags->bos;
    int k, named = 0, gpt2 = find_token(b, "<s>") < 0;
    for (k = 0; k < SPECIALS; k++) named |= special_name(b, special_names[k]) != NULL;
    for (k = 0; k < SPECIALS; k++) {
        const char *text = named ? special_name(b, special_names[k]) : usual[gpt2][k];
        b->special[k] = text ? find_token(b, text) : -1;
        if (named && text && b->special[k] < 0)
            return refuse("%s: expected the special token \"%s\" among the tokens", b->path, text);
        mark_special(b, b->special[k]);
    }
    if (b->special[SPECIAL_BOS] < 0 && bos >= 0 && (size_t)bos < b->tokens.n) {
        b->special[SPECIAL_BOS] = bos;
        mark_special(b, bos);
    }
    cJSON_ArrayForEach(entry, more) {
        const char *text = token_text(entry);
        mark_special(b, text ? find_token(b, text) : -1);
    }
    part_specials(b->special);
    return DONE;
}

/* Makes the number of tokens that of the model's ids. Some models have more ids than tokens. BART's
   summarizers have none for <mask>, the last token. */
static int fit_rows(struct bpe *b, size_t n_ids)
{
    size_t *n = &b->tokens.n, last = *n, i;
    int k;
    for (; *n > n_ids && (*n > b->n_model || b->kinds[*n - 1] == BPE_SPECIAL); --*n)
        for (k = 0; k < SPECIALS; k++)
            if (b->special[k] == (int32_t)*n - 1) b->special[k] = -1;
    if (*n < last) tell_rowless(b->path, b->tokens.text[*n], last - *n);
    if (*n >= n_ids || n_ids > MOST_IDS) return DONE;
    inform_line("%s: ids without a token: %zu of %zu", b->path, n_ids - last, n_ids);
    for (i = last; i < n_ids; i++)
        if (add_entry(b, (double)i, made_text(b->p, format_text("<unused_%zu>", i)),
                      BPE_SPECIAL)) return FAILED;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>folder         its files, and the vocabulary
// -----------------------------------------------------------------------------------------------

/* tokenizer.json, of type BPE. */
static int take_json(struct bpe *b)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(b->p->json, "model");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    if (check_model(b, model) ||
        take_pre_tokenizer(b, cJSON_GetObjectItemCaseSensitive(b->p->json, "pre_tokenizer")))
        return FAILED;
    if (!cJSON_IsObject(vocab))
        return refuse("%s: expected an object \"vocab\" in the model", b->path);
    if (json_true(model, "ignore_merges", 0)) b->flags |= BPE_WHOLE;
    follow_class(b);
    if (take_ids(b, vocab, BPE_ORDINARY)) return FAILED;
    b->n_model = b->tokens.n;
    if (take_added(b, cJSON_GetObjectItemCaseSensitive(b->p->json, "added_tokens")) ||
        sort_tokens(b))
        return FAILED;
    return take_json_merges(b, cJSON_GetObjectItemCaseSensitive(model, "merges"));
}

/* vocab.json and merges.txt. */
static int take_two_files(struct bpe *b)
{
    take_class_rules(b);
    if (take_ids(b, b->vocab, BPE_ORDINARY)) return FAILED;
    b->n_model = b->tokens.n;
    if (take_ids(b, b->added, BPE_ADDED) ||
        take_added(b, cJSON_GetObjectItemCaseSensitive(b->p->config, "added_tokens_decoder")) ||
        sort_tokens(b))
        return FAILED;
    return take_text_merges(b);
}

int has_bpe_files(const struct published *p)
{
    return has_file(p->folder, "vocab.json") && has_file(p->folder, "merges.txt");
}

static int take_files(struct bpe *b)
{
    const char *folder = b->p->folder;
    if (read_if_there(folder, "added_tokens.json", &b->added)) return FAILED;
    b->path = format_text("%s/%s", folder, b->p->json ? "tokenizer.json" : "vocab.json");
    if (b->p->json) return take_json(b);
    b->merges_path = format_text("%s/merges.txt", folder);
    if (!(b->vocab = read_json_file(b->path)) || !(b->text = read_whole(b->merges_path, NULL)))
        return FAILED;
    return take_two_files(b);
}

/* The ranges of three sets in one ascending order; malloc'd. */
static int32_t (*class_ranges(int32_t *n))[3]
{
    static const struct { const uint32_t *set; size_t n; int32_t class_of; } sets[3] = {
        {unicode_letters, UNICODE_COUNT(unicode_letters), A_LETTER},
        {unicode_numbers, UNICODE_COUNT(unicode_numbers), A_NUMBER},
        {unicode_white, UNICODE_COUNT(unicode_white), A_BLANK}};
    struct unicode_range range[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    int left[3], k, best;
    int32_t (*ranges)[3] = NULL;
    size_t capacity = 0;
    for (k = 0; k < 3; k++) left[k] = unicode_next(sets[k].set, sets[k].n, &range[k]);
    for (*n = 0; ; ++*n) {
        for (k = 0, best = -1; k < 3; k++)
            if (left[k] && (best < 0 || range[k].first < range[best].first)) best = k;
        if (best < 0) return ranges;
        ranges = grow(ranges, &capacity, (size_t)*n + 1, sizeof *ranges);
        ranges[*n][0] = (int32_t)range[best].first;
        ranges[*n][1] = (int32_t)range[best].end - 1;
        ranges[*n][2] = sets[best].class_of;
        left[best] = unicode_next(sets[best].set, sets[best].n, &range[best]);
    }
}

static int by_pair(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

enum { DECOMPOSITIONS, COMPOSITIONS, CLASSES_OF_MARKS, TABLES };

static void add_row(int32_t (*table)[3], int32_t *n, uint32_t a, uint32_t b, uint32_t c)
{
    table[*n][0] = (int32_t)a;
    table[*n][1] = (int32_t)b;
    table[(*n)++][2] = (int32_t)c;
}

/* The tables for composing; malloc'd. */
static void composing_tables(int32_t (*tables[TABLES])[3], int32_t n[TABLES])
{
    enum { MOST = UNICODE_COUNT(unicode_one) + UNICODE_COUNT(unicode_two) };
    uint32_t (*parts)[2] = zeroed(UNICODE_POINTS, sizeof *parts);
    struct unicode_range range = {0, 0, 0};
    uint32_t c, class_of;
    size_t i;
    for (i = 0; i < TABLES; i++) tables[i] = zeroed(MOST, sizeof *tables[i]);
    unicode_parts(parts, 0);
    for (c = 0; c < UNICODE_POINTS; c++) {
        if (!parts[c][0]) continue;
        add_row(tables[DECOMPOSITIONS], &n[DECOMPOSITIONS], c, parts[c][0], parts[c][1]);
        if (unicode_composes(parts, c))
            add_row(tables[COMPOSITIONS], &n[COMPOSITIONS], parts[c][0], parts[c][1], c);
    }
    qsort(tables[COMPOSITIONS], (size_t)n[COMPOSITIONS], sizeof *tables[0], by_pair);
    while ((class_of = unicode_next_class(&range)) != 0)
        add_row(tables[CLASSES_OF_MARKS], &n[CLASSES_OF_MARKS], range.first, range.end - 1, class_of);
    free(parts);
}

static int make_vocab(const struct bpe *b, trf_vocab **vocab)
{
    int32_t (*ranges)[3], (*composing[TABLES])[3] = {NULL, NULL, NULL};
    struct byte_bpe_file file;
    unsigned char *bytes;
    trf_error err;
    size_t n;
    int status = DONE, k;
    memset(&file, 0, sizeof file);
    file.flags = b->flags;
    memcpy(file.special, b->special, sizeof file.special);
    ranges = class_ranges(&file.n_ranges);
    file.ranges = (const int32_t *)ranges;
    file.merges = (const int32_t *)b->merge;
    file.n_merges = (int32_t)b->n_merges;
    if (b->flags & BPE_NFC) composing_tables(composing, file.n_composing);
    for (k = 0; k < TABLES; k++) file.composing[k] = (const int32_t *)composing[k];
    file.tokens = b->tokens.text;
    file.kinds = b->kinds;
    file.n_tokens = (int32_t)b->tokens.n;
    n = bytes_of_byte_bpe(&file, NULL);
    bytes = zeroed(n, 1);
    bytes_of_byte_bpe(&file, bytes);
    if (vocab_of_bytes(vocab, bytes, n, NULL, &err)) status = refuse_error(b->path, &err);
    free(bytes);
    for (k = 0; k < TABLES; k++) free(composing[k]);
    free(ranges);
    return status;
}

int read_byte_bpe(struct published *p, trf_vocab **vocab, int32_t special[SPECIALS])
{
    struct bpe b;
    size_t i, added = 0;
    int status;
    memset(&b, 0, sizeof b);
    b.p = p;
    status = take_files(&b) || find_specials(&b) ||
             fit_rows(&b, (size_t)(p->n_ids[0] ? p->n_ids[0] : p->n_ids[1])) ||
             make_vocab(&b, vocab) ? FAILED : DONE;
    for (i = 0; !status && i < b.tokens.n; i++) added += b.cut[i] && b.kinds[i] != BPE_SPECIAL;
    if (!status) tell_ordinary(b.path, added, "ordinary text");
    memcpy(special, b.special, sizeof b.special);
    cJSON_Delete(b.vocab);
    cJSON_Delete(b.added);
    free(b.text);
    free(b.tokens.text);
    free(b.kinds);
    free(b.cut);
    free(b.all.entry);
    free(b.merge);
    free(b.path);
    free(b.merges_path);
    return status;
}
