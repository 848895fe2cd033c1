// trf import: the byte-level BPE of a folder becomes a vocabulary: from tokenizer.json, or from
// vocab.json and merges.txt.

#include "import.h"

#include "tools/unicode/unicode.h"

enum { A_LETTER = 1, A_NUMBER = 2, A_BLANK = 3 };       /* transformer.h, >>byte-bpe */

/* A token, and its kind. added: a text is cut at such tokens, if they are not special. */
struct entry { const char *text; int kind, added; };
struct place { const char *text; int32_t id; };

struct bpe {
    char *path;                 /* of the file that has the tokens, for messages */
    cJSON *json, *config, *map, *added; /* tokenizer.json or vocab.json, tokenizer_config.json,
                                           special_tokens_map.json, added_tokens.json; or NULL */
    char *text;                 /* of merges.txt */
    char *merges_path;
    char (*unused)[UNUSED_NAME];        /* texts of ids without a token */
    struct entry *token;        /* by id */
    size_t n, capacity;
    struct place *place;        /* the same, sorted by their texts */
    int32_t flags;
    int32_t special[SPECIALS];
    int32_t (*merge)[2];
    size_t n_merges, merges_capacity;
};

static int add_entry(struct bpe *b, double id, const char *text, int kind)
{
    size_t i, before = b->n;
    if (check_id(b->path, text, id)) return FAILED;
    i = (size_t)id;
    b->token = grow(b->token, &b->capacity, i + 1, sizeof *b->token);
    if (i >= b->n) {
        b->n = i + 1;
        memset(b->token + before, 0, (b->n - before) * sizeof *b->token);
    }
    if (b->token[i].text && strcmp(b->token[i].text, text))
        return same_id(b->path, b->token[i].text, text, i);
    /* an ordinary token may turn out to be added too, or special */
    if (!b->token[i].text || kind == TRF_BPE_SPECIAL) b->token[i].kind = kind;
    if (kind == TRF_BPE_ADDED) b->token[i].added = 1;
    b->token[i].text = text;
    return DONE;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct place *)a)->text, ((const struct place *)b)->text);
}

/* Sorts the tokens, so that find_token finds them. Fails if an id has none. */
static int sort_tokens(struct bpe *b)
{
    size_t i;
    b->place = zeroed(b->n + 1, sizeof *b->place);
    for (i = 0; i < b->n; i++) {
        if (!b->token[i].text) {
            say("%s: no token has the id %zu", b->path, i);
            return FAILED;
        }
        b->place[i].text = b->token[i].text;
        b->place[i].id = (int32_t)i;
    }
    qsort(b->place, b->n, sizeof *b->place, by_text);
    return DONE;
}

/* The id of a token, or -1. */
static int32_t find_token(const struct bpe *b, const char *text)
{
    struct place wanted = {NULL, 0}, *found;
    wanted.text = text;
    found = bsearch(&wanted, b->place, b->n, sizeof *b->place, by_text);
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
        if (id < 0) {
            say("%s: %s %zu: \"%s\" is not a token", path, what, number, both[side]);
            return FAILED;
        }
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
    if (!blank || blank == text || !blank[1] || strchr(blank + 1, ' ')) {
        say("%s: %s %zu: expected two tokens with a blank between them, got \"%.60s\"", path, what,
            number, text);
        return FAILED;
    }
    *blank = 0;
    return add_merge(b, path, what, number, text, blank + 1);
}

/* "merges" of tokenizer.json: a list of pairs, or of texts. */
static int take_json_merges(struct bpe *b, const cJSON *merges)
{
    const cJSON *entry;
    size_t i = 0;
    if (!cJSON_IsArray(merges)) {
        say("%s: expected a list \"merges\" in the model", b->path);
        return FAILED;
    }
    cJSON_ArrayForEach(entry, merges) {
        const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(entry, 0));
        const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(entry, 1));
        if (cJSON_IsString(entry)) {
            if (add_merge_text(b, b->path, "merge", i, entry->valuestring)) return FAILED;
        } else if (!left || !right || cJSON_GetArraySize(entry) != 2) {
            say("%s: merge %zu: expected a list of two tokens or a text", b->path, i);
            return FAILED;
        } else if (add_merge(b, b->path, "merge", i, left, right)) return FAILED;
        i++;
    }
    return DONE;
}

/* merges.txt: a merge a line. Lines that begin with "#version" are none. */
static int take_text_merges(struct bpe *b)
{
    char *at, *end;
    size_t line = 1;
    for (at = b->text; *at; at = end, line++) {
        size_t length = strcspn(at, "\n");
        end = at + length + (at[length] == '\n');
        at[length] = 0;
        if (length && at[length - 1] == '\r') at[length - 1] = 0;
        if (!strncmp(at, "#version", 8)) continue;
        if (add_merge_text(b, b->merges_path, "line", line, at)) return FAILED;
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
    if (!behavior || strcmp(behavior, "Isolated") || json_true(split, "invert", 0)) {
        say("%s: expected a Split with the behavior Isolated and without \"invert\"", b->path);
        return FAILED;
    }
    if (rule && !strcmp(rule, llama_rule)) b->flags |= TRF_BPE_LLAMA;
    else if (rule && !strcmp(rule, qwen_rule)) b->flags |= TRF_BPE_LLAMA | TRF_BPE_ONE_NUMBER;
    else if (!rule || strcmp(rule, gpt2_rule)) {
        say("%s: trf splits texts by the regular expressions of GPT-2, Llama 3 and Qwen 2, and "
            "this Split has another one: %.200s", b->path, rule ? rule : "none");
        return FAILED;
    }
    return DONE;
}

/* ByteLevel alone, or in a Sequence; there a Split may precede it, or SmolLM's Digits. */
static int take_pre_tokenizer(struct bpe *b, const cJSON *pre)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(pre, "pretokenizers"), *level = pre;
    const cJSON *split = NULL;
    int n = cJSON_GetArraySize(list), blank, digits;
    if (has_type(pre, "Sequence") && (n == 1 || n == 2)) {
        level = cJSON_GetArrayItem(list, n - 1);
        if (n == 2) split = cJSON_GetArrayItem(list, 0);
    }
    digits = has_type(split, "Digits") && json_true(split, "individual_digits", 0);
    if (!has_type(level, "ByteLevel") || (split && !has_type(split, "Split") && !digits)) {
        say("%s: expected a pre_tokenizer of type ByteLevel, or a Sequence of ByteLevel behind "
            "Split or Digits with \"individual_digits\"", b->path);
        return FAILED;
    }
    blank = json_true(level, "add_prefix_space", 1);
    if (blank) b->flags |= TRF_BPE_BLANK;
    if (digits && !blank) {
        b->flags |= TRF_BPE_ONE_NUMBER;
        split = NULL;
    }
    if (split && (blank || json_true(level, "use_regex", 1))) {
        say("%s: expected \"add_prefix_space\" and \"use_regex\" to be false after a Split",
            b->path);
        return FAILED;
    }
    if (!split && !json_true(level, "use_regex", 1)) {
        say("%s: expected \"use_regex\" to be true: no Split precedes it", b->path);
        return FAILED;
    }
    return split ? take_split(b, split) : DONE;
}

/* What the model of tokenizer.json must not have; and its normalizer. */
static int check_model(struct bpe *b, const cJSON *model)
{
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");
    const cJSON *normal = cJSON_GetObjectItemCaseSensitive(b->json, "normalizer");
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *text = json_text(model, names[i]);
        if (!text || !*text) continue;
        say("%s: expected no \"%s\", got \"%s\"", b->path, names[i], text);
        return FAILED;
    }
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0) {
        say("%s: expected no \"dropout\", got %g: its ids would be random", b->path,
            dropout->valuedouble);
        return FAILED;
    }
    if (has_type(normal, "NFC")) b->flags |= TRF_BPE_NFC;
    else if (normal && !cJSON_IsNull(normal)) {
        const char *type = json_text(normal, "type");
        say("%s: expected no normalizer or NFC, got %s", b->path, type ? type : "another value");
        return FAILED;
    }
    if (!has_type(cJSON_GetObjectItemCaseSensitive(b->json, "decoder"), "ByteLevel")) {
        say("%s: expected a decoder of type ByteLevel", b->path);
        return FAILED;
    }
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
        if (!cJSON_IsNumber(entry)) {
            say("%s: expected a number for the token \"%s\"", b->path, entry->string);
            return FAILED;
        }
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
        if (!text || (!number && (!end || *end || end == entry->string))) {
            say("%s: expected \"id\" and \"content\" of each added token", b->path);
            return FAILED;
        }
        kind = json_true(entry, "special", 0) ? TRF_BPE_SPECIAL : TRF_BPE_ADDED;
        if (add_entry(b, id, text, kind)) return FAILED;
    }
    return DONE;
}

/* The text of a token: a text, or an object with its "content". */
static const char *token_text(const cJSON *value)
{
    return cJSON_IsObject(value) ? json_text(value, "content") : cJSON_GetStringValue(value);
}

static const char *special_name(const struct bpe *b, const char *name)
{
    const char *text = token_text(cJSON_GetObjectItemCaseSensitive(b->config, name));
    return text ? text : token_text(cJSON_GetObjectItemCaseSensitive(b->map, name));
}

static void mark_special(struct bpe *b, int32_t id)
{
    if (id >= 0) b->token[id].kind = TRF_BPE_SPECIAL;
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
   if "<s>" is a token, else those of GPT-2. bos: what config.json names; it counts where the
   tokenizer has none (Qwen 2). */
static int find_specials(struct bpe *b, int32_t bos)
{
    static const char *const names[SPECIALS] = {"pad_token", "bos_token", "eos_token", "unk_token",
                                                "mask_token", "cls_token", "sep_token"};
    static const char *const usual[2][SPECIALS] = {
        {"<pad>", "<s>", "</s>", "<unk>", "<mask>", "<s>", "</s>"},
        {NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL}};
    const cJSON *more[2], *entry;
    int k, named = 0, gpt2 = find_token(b, "<s>") < 0;
    for (k = 0; k < SPECIALS; k++) named |= special_name(b, names[k]) != NULL;
    for (k = 0; k < SPECIALS; k++) {
        const char *text = named ? special_name(b, names[k]) : usual[gpt2][k];
        b->special[k] = text ? find_token(b, text) : -1;
        if (named && text && b->special[k] < 0) {
            say("%s: expected the special token \"%s\" among the tokens", b->path, text);
            return FAILED;
        }
        mark_special(b, b->special[k]);
    }
    if (b->special[SPECIAL_BOS] < 0 && bos >= 0 && (size_t)bos < b->n) {
        b->special[SPECIAL_BOS] = bos;
        mark_special(b, bos);
    }
    more[0] = cJSON_GetObjectItemCaseSensitive(b->config, "additional_special_tokens");
    more[1] = cJSON_GetObjectItemCaseSensitive(b->map, "additional_special_tokens");
    for (k = 0; k < 2; k++)
        cJSON_ArrayForEach(entry, more[k]) {
            const char *text = token_text(entry);
            mark_special(b, text ? find_token(b, text) : -1);
        }
    part_specials(b->special);
    return DONE;
}

/* Makes the number of tokens that of the model's ids. Some models have more ids than tokens. BART's
   summarizers have none for <mask>, the last token. */
static void fit_rows(struct bpe *b, size_t n_ids)
{
    size_t last = b->n;
    int k;
    for (; b->n > n_ids && b->token[b->n - 1].kind == TRF_BPE_SPECIAL; b->n--) {
        inform_line("%s: left out: the token \"%s\", for which the model has no row", b->path,
                    b->token[b->n - 1].text);
        for (k = 0; k < SPECIALS; k++)
            if (b->special[k] == (int32_t)b->n - 1) b->special[k] = -1;
    }
    if (b->n >= n_ids || n_ids > MOST_IDS) return;
    inform_line("%s: ids without a token: %zu of %zu", b->path, n_ids - last, n_ids);
    b->token = grow(b->token, &b->capacity, n_ids, sizeof *b->token);
    b->unused = zeroed(n_ids - last, sizeof *b->unused);
    for (; b->n < n_ids; b->n++) {
        struct entry *unused = &b->token[b->n];
        memset(unused, 0, sizeof *unused);
        snprintf(b->unused[b->n - last], UNUSED_NAME, "<unused_%zu>", b->n);
        unused->text = b->unused[b->n - last];
        unused->kind = TRF_BPE_SPECIAL;
    }
}

// -----------------------------------------------------------------------------------------------
// >>folder         its files, and the vocabulary
// -----------------------------------------------------------------------------------------------

/* tokenizer.json, of type BPE. */
static int take_json(struct bpe *b)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(b->json, "model");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    if (check_model(b, model) ||
        take_pre_tokenizer(b, cJSON_GetObjectItemCaseSensitive(b->json, "pre_tokenizer")))
        return FAILED;
    if (!cJSON_IsObject(vocab)) {
        say("%s: expected an object \"vocab\" in the model", b->path);
        return FAILED;
    }
    if (json_true(model, "ignore_merges", 0)) b->flags |= TRF_BPE_WHOLE;
    if (take_ids(b, vocab, TRF_BPE_ORDINARY) ||
        take_added(b, cJSON_GetObjectItemCaseSensitive(b->json, "added_tokens")) || sort_tokens(b))
        return FAILED;
    return take_json_merges(b, cJSON_GetObjectItemCaseSensitive(model, "merges"));
}

/* vocab.json and merges.txt: GPT-2's rule, or Qwen 2's. */
static int take_two_files(struct bpe *b)
{
    const char *name = json_text(b->config, "tokenizer_class");
    if (name && !strncmp(name, "Qwen2Tokenizer", 14))
        b->flags |= TRF_BPE_LLAMA | TRF_BPE_ONE_NUMBER | TRF_BPE_NFC;
    if (json_true(b->config, "add_prefix_space", 0)) b->flags |= TRF_BPE_BLANK;
    if (take_ids(b, b->json, TRF_BPE_ORDINARY) || take_ids(b, b->added, TRF_BPE_ADDED) ||
        take_added(b, cJSON_GetObjectItemCaseSensitive(b->config, "added_tokens_decoder")) ||
        sort_tokens(b))
        return FAILED;
    return take_text_merges(b);
}

/* An object of JSON, if the file exists. */
static int read_if_there(const char *folder, const char *name, cJSON **json)
{
    char *path = format_text("%s/%s", folder, name);
    int status = DONE;
    if (is_file(path) && !(*json = read_json_file(path))) status = FAILED;
    free(path);
    return status;
}

/* Reads the files. *found 0: the folder has no byte-level BPE, and nothing was said. */
static int take_files(struct bpe *b, const char *folder, int *found)
{
    *found = 1;
    if (read_if_there(folder, "tokenizer_config.json", &b->config) ||
        read_if_there(folder, "special_tokens_map.json", &b->map) ||
        read_if_there(folder, "added_tokens.json", &b->added))
        return FAILED;
    b->path = format_text("%s/tokenizer.json", folder);
    if (is_file(b->path)) {
        if (!(b->json = read_json_file(b->path))) return FAILED;
        *found = has_type(cJSON_GetObjectItemCaseSensitive(b->json, "model"), "BPE");
        return *found ? take_json(b) : DONE;
    }
    free(b->path);
    b->path = format_text("%s/vocab.json", folder);
    b->merges_path = format_text("%s/merges.txt", folder);
    *found = is_file(b->path) && is_file(b->merges_path);
    if (!*found) return DONE;
    if (!(b->json = read_json_file(b->path)) || !(b->text = read_whole(b->merges_path, NULL)))
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

static void add_row(int32_t (*rows)[3], int32_t *n, uint32_t a, uint32_t b, uint32_t c)
{
    rows[*n][0] = (int32_t)a;
    rows[*n][1] = (int32_t)b;
    rows[(*n)++][2] = (int32_t)c;
}

/* The tables for composing; malloc'd. */
static void composing_tables(int32_t (*rows[TABLES])[3], int32_t n[TABLES])
{
    enum { MOST = UNICODE_COUNT(unicode_one) + UNICODE_COUNT(unicode_two) };
    uint32_t (*parts)[2] = zeroed(UNICODE_POINTS, sizeof *parts);
    uint32_t c;
    size_t i;
    for (i = 0; i < TABLES; i++) rows[i] = zeroed(MOST, sizeof *rows[i]);
    unicode_parts(parts, 0);
    for (c = 0; c < UNICODE_POINTS; c++) {
        if (!parts[c][0]) continue;
        add_row(rows[DECOMPOSITIONS], &n[DECOMPOSITIONS], c, parts[c][0], parts[c][1]);
        if (unicode_composes(parts, c))
            add_row(rows[COMPOSITIONS], &n[COMPOSITIONS], parts[c][0], parts[c][1], c);
    }
    qsort(rows[COMPOSITIONS], (size_t)n[COMPOSITIONS], sizeof *rows[0], by_pair);
    for (i = 0; i < UNICODE_COUNT(unicode_classes); i++) {
        const uint32_t *run = unicode_classes[i];
        add_row(rows[CLASSES_OF_MARKS], &n[CLASSES_OF_MARKS], run[0], run[0] + run[1] - 1, run[2]);
    }
    free(parts);
}

static int make_vocab(const struct bpe *b, trf_vocab **vocab)
{
    const char **tokens = zeroed(b->n + 1, sizeof *tokens);
    unsigned char *kinds = zeroed(b->n + 1, 1);
    int32_t (*ranges)[3], (*composing[TABLES])[3] = {NULL, NULL, NULL};
    trf_byte_bpe_file file;
    trf_error err;
    size_t i;
    int status = DONE, k;
    memset(&file, 0, sizeof file);
    file.flags = b->flags;
    memcpy(file.special, b->special, sizeof file.special);
    file.ranges = ranges = class_ranges(&file.n_ranges);
    file.merges = b->merge;
    file.n_merges = (int32_t)b->n_merges;
    if (b->flags & TRF_BPE_NFC) composing_tables(composing, file.n_composing);
    for (k = 0; k < TABLES; k++) file.composing[k] = composing[k];
    for (i = 0; i < b->n; i++) {
        tokens[i] = b->token[i].text;
        kinds[i] = (unsigned char)b->token[i].kind;
    }
    file.tokens = tokens;
    file.kinds = kinds;
    file.n_tokens = (int32_t)b->n;
    if (trf_vocab_make_byte_bpe(vocab, &file, NULL, &err)) {
        say_error(b->path, &err);
        status = FAILED;
    }
    for (k = 0; k < TABLES; k++) free(composing[k]);
    free(ranges);
    free(tokens);
    free(kinds);
    return status;
}

int read_byte_bpe(const char *folder, const int32_t n_ids[2], int32_t bos, trf_vocab **vocab,
                  int32_t special[SPECIALS], int *found)
{
    struct bpe b;
    size_t i, added = 0;
    int status;
    memset(&b, 0, sizeof b);
    status = take_files(&b, folder, found);
    if (!status && *found) status = find_specials(&b, bos);
    if (!status && *found) {
        fit_rows(&b, (size_t)(n_ids[0] ? n_ids[0] : n_ids[1]));
        status = make_vocab(&b, vocab);
    }
    for (i = 0; !status && i < b.n; i++)
        added += b.token[i].added && b.token[i].kind != TRF_BPE_SPECIAL;
    if (added)
        inform_line("%s: %zu added token%s not special: in a text they are ordinary text", b.path,
                    added, added == 1 ? " is" : "s are");
    memcpy(special, b.special, sizeof b.special);
    cJSON_Delete(b.json);
    cJSON_Delete(b.config);
    cJSON_Delete(b.map);
    cJSON_Delete(b.added);
    free(b.text);
    free(b.token);
    free(b.unused);
    free(b.place);
    free(b.merge);
    free(b.path);
    free(b.merges_path);
    return status;
}
