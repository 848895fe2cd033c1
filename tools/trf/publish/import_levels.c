// trf import: words and characters as trf export writes them: WordLevel of Hugging Face, whose
// first four ids are trf's own. A model with two vocabularies has the target's in a folder of its
// own.

#include "import.h"

static const char *type_of(const cJSON *json, const char *part)
{
    const char *type = json_text(cJSON_GetObjectItemCaseSensitive(json, part), "type");
    return type ? type : "none";
}

/* How the texts are cut. FAILED after a message. */
static int find_kind(const cJSON *json, const char *path, trf_token_kind *kind)
{
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(json, "pre_tokenizer");
    const char *rule = json_text(cJSON_GetObjectItemCaseSensitive(cut, "pattern"), "Regex");
    const char *behavior = json_text(cut, "behavior");
    if (!rule) rule = "none";
    if (!strcmp(type_of(json, "pre_tokenizer"), "Split") && behavior &&
        !json_true(cut, "invert", 0)) {
        *kind = strcmp(rule, LEVEL_BLANKS) ? TRF_CHARACTERS : TRF_WORDS;
        if (!strcmp(rule, LEVEL_BLANKS) && !strcmp(behavior, "Removed")) return DONE;
        if (!strcmp(rule, LEVEL_CHARACTER) && !strcmp(behavior, "Isolated")) return DONE;
    }
    return refuse("%s: trf reads a WordLevel model only with a Split at %s or %s, got %s at %.100s",
                  path, LEVEL_BLANKS, LEVEL_CHARACTER, type_of(json, "pre_tokenizer"), rule);
}

/* The tokens by their ids. The first four must be trf's. */
static int add_tokens(const cJSON *tokens, const char *path, trf_vocab *vocab)
{
    static const char *const first[] = {"<pad>", "<s>", "</s>", "<unk>"};
    size_t n = (size_t)cJSON_GetArraySize(tokens), i;
    const char **by_id = zeroed(n + 4, sizeof *by_id);
    const cJSON *entry;
    trf_error err;
    int status = DONE;
    cJSON_ArrayForEach(entry, tokens) {
        double id = cJSON_IsNumber(entry) ? entry->valuedouble : -1;
        if (id >= 0 && id < (double)n && id == (double)(size_t)id && !by_id[(size_t)id])
            by_id[(size_t)id] = entry->string;
        else if (!status)
            status = refuse("%s: expected ids from 0 to %zu, each once; \"%s\" has %.17g", path,
                            n - 1, entry->string, id);
    }
    for (i = 0; i < 4 && !status; i++)
        if (!by_id[i] || strcmp(by_id[i], first[i]))
            status = refuse("%s: expected the token %s with the id %zu, got %s", path, first[i], i,
                            by_id[i] ? by_id[i] : "none");
    for (i = 4; i < n && !status; i++)
        if (trf_vocab_add(vocab, by_id[i], &err))
            status = refuse("%s: id %zu: %s", path, i, err.message);
    free(by_id);
    return status;
}

static int make_vocab(const cJSON *json, const char *path, trf_vocab **vocab)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    trf_token_kind kind;
    trf_error err;
    if (find_kind(json, path, &kind)) return FAILED;
    if (trf_vocab_create(vocab, kind, NULL, &err) || trf_vocab_finish(*vocab, 5, 1, &err))
        return refuse_error(path, &err);
    return add_tokens(cJSON_GetObjectItemCaseSensitive(model, "vocab"), path, *vocab);
}

int read_levels(const struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS])
{
    static const char second[] = TARGET_FOLDER "/tokenizer.json";
    cJSON *json = NULL;
    char *path;
    int status, k;
    if (make_vocab(p->json, p->json_path, &vocab[0])) return FAILED;
    for (k = 0; k < SPECIALS; k++)
        special[k] = trf_vocab_special(vocab[0], (trf_special)k);
    if (!p->n_ids[0] || !p->n_ids[1]) return DONE;
    path = format_text("%s/%s", p->folder, second);
    status = read_if_there(p->folder, second, &json);
    if (json && !strcmp(type_of(json, "model"), "WordLevel"))
        status = make_vocab(json, path, &vocab[1]);
    cJSON_Delete(json);
    free(path);
    return status;
}
