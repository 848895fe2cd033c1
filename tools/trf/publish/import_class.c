// trf import: the class by which transformers reads a tokenizer, and what follows from it.
//
// transformers 5.24 takes only the tokens of tokenizer.json if the class has rules of its own, such
// as BertTokenizer; settings then come from tokenizer_config.json. Without such a class
// tokenizer.json counts in everything. The class is "tokenizer_class" of tokenizer_config.json,
// else of config.json, else that of the model_type.

#include "import.h"

// -----------------------------------------------------------------------------------------------
// >>class
// -----------------------------------------------------------------------------------------------

void name_class(struct published *p, const char *of_model)
{
    static const char *const usual[][2] = {
        {"bert", "BertTokenizer"}, {"megatron-bert", "BertTokenizer"},
        {"roberta", "RobertaTokenizer"}, {"bart", "RobertaTokenizer"},
        {"xlm-roberta", "XLMRobertaTokenizer"}, {"mbart", "MBartTokenizer"},
        {"m2m_100", "M2M100Tokenizer"}, {"marian", "MarianTokenizer"},
        {"pegasus", "PegasusTokenizer"}, {"t5", "T5Tokenizer"}, {"mt5", "T5Tokenizer"},
        {"gpt2", "GPT2Tokenizer"}, {"qwen2", "Qwen2Tokenizer"}, {"mistral", ""}};
    const char *name = json_text(p->config, "tokenizer_class"), *type = p->type ? p->type : "";
    int always = !strcmp(type, "qwen2") || !strcmp(type, "mistral");    /* whatever is named */
    size_t i, n;
    if (!name) name = of_model;
    for (i = 0; i < sizeof usual / sizeof *usual && (!name || always); i++)
        if (!strcmp(type, usual[i][0])) { name = usual[i][1]; always = 0; }
    if (!name) name = "";
    n = strlen(name);
    if (ends_with(name, "Fast")) n -= 4;
    p->class_name = made_text(p, format_text("%.*s", (int)n, name));
}

int has_class(const struct published *p, const char *names)
{
    size_t n = strlen(p->class_name);
    for (; *names; names += strspn(names, " ")) {
        size_t length = strcspn(names, " ");
        if (length == n && !memcmp(names, p->class_name, n)) return 1;
        names += length;
    }
    return 0;
}

/* special_tokens_map.json goes before tokenizer_config.json, unless that one lists the added
   tokens. */
int take_special_map(struct published *p)
{
    cJSON *map = NULL, *entry;
    int i;
    if (read_if_there(p->folder, "special_tokens_map.json", &map)) return FAILED;
    if (map && !p->config) p->config = cJSON_CreateObject();
    for (i = 0; i <= SPECIALS && map; i++) {
        const char *name = i < SPECIALS ? special_names[i] : "additional_special_tokens";
        const char *before = token_text(cJSON_GetObjectItemCaseSensitive(p->config, name)), *text;
        if (cJSON_GetObjectItemCaseSensitive(p->config, "added_tokens_decoder")) break;
        if (!(entry = cJSON_DetachItemFromObjectCaseSensitive(map, name))) continue;
        text = token_text(entry);
        if (before && text && strcmp(before, text))
            inform_line("%s: \"%s\" is %s, but %s in special_tokens_map.json, which transformers "
                        "follows", p->config_path, name, before, text);
        cJSON_DeleteItemFromObjectCaseSensitive(p->config, name);
        cJSON_AddItemToObject(p->config, name, entry);
    }
    cJSON_Delete(map);
    return DONE;
}

int config_true(const struct published *p, const char *name, int missing, const char *where,
                int other)
{
    int is = json_true(p->config, name, missing);
    static const char *const words[2] = {"false", "true"};
    if (other >= 0 && is != other)
        inform_line("%s: \"%s\" is %s%s, but \"%s\" of tokenizer.json is %s: transformers follows "
                    "the class %s and its setting", p->config_path, name, words[is],
                    cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(p->config, name))
                        ? "" : " as it is not there", where, words[other], p->class_name);
    return is;
}

// -----------------------------------------------------------------------------------------------
// >>template       which tokens stand before and behind a text
// -----------------------------------------------------------------------------------------------

/* Takes the token of a side, which may have one. */
static int take_around(const char *path, const cJSON *id, int32_t *around)
{
    if (!cJSON_IsNumber(id) || *around >= 0)
        return refuse("%s: post_processor: expected at most one token with an id before a text and "
                      "one behind it", path);
    if (check_id(path, "post_processor", id->valuedouble)) return FAILED;
    *around = (int32_t)id->valuedouble;
    return DONE;
}

/* The tokens of a post-processor, or of those in its list. */
static int read_template(const cJSON *part, const char *path, int32_t around[2])
{
    const cJSON *each, *ids = cJSON_GetObjectItemCaseSensitive(part, "special_tokens");
    int behind = 0, status = DONE;
    if (!part || cJSON_IsNull(part) || has_type(part, "ByteLevel")) return DONE;
    if (has_type(part, "Sequence")) {
        cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(part, "processors"))
            if (!status) status = read_template(each, path, around);
    } else if (has_type(part, "BertProcessing") || has_type(part, "RobertaProcessing")) {
        for (; behind < 2 && !status; behind++) {
            each = cJSON_GetObjectItemCaseSensitive(part, behind ? "sep" : "cls");
            status = take_around(path, cJSON_GetArrayItem(each, 1), &around[behind]);
        }
    } else if (has_type(part, "TemplateProcessing")) {
        cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(part, "single")) {
            const cJSON *token = cJSON_GetObjectItemCaseSensitive(each, "SpecialToken");
            const char *name = json_text(token, "id");
            const cJSON *list;
            if (!token) { behind = 1; continue; }
            list = cJSON_GetObjectItemCaseSensitive(
                name ? cJSON_GetObjectItemCaseSensitive(ids, name) : NULL, "ids");
            status = take_around(path, cJSON_GetArraySize(list) == 1 ? list->child : NULL,
                                 &around[behind]);
            if (status) break;
        }
    } else
        return refuse("%s: expected a post_processor of type TemplateProcessing, BertProcessing, "
                      "RobertaProcessing, ByteLevel or Sequence, got %s", path,
                      json_text(part, "type") ? json_text(part, "type") : "none");
    return status;
}

int find_around(struct published *p)
{
    int32_t *around = p->tags->around;
    if (!p->whole) return DONE;
    if (!p->tags->prompts &&
        has_class(p, "BertTokenizer DistilBertTokenizer ElectraTokenizer RobertaTokenizer "
                     "BartTokenizer XLMRobertaTokenizer T5Tokenizer MBartTokenizer "
                     "MBart50Tokenizer NllbTokenizer M2M100Tokenizer MarianTokenizer"))
        return DONE;
    around[0] = around[1] = AROUND_NONE;
    return read_template(cJSON_GetObjectItemCaseSensitive(p->whole, "post_processor"), p->json_path,
                         around);
}

void find_flagged(const struct published *p, int pieces, const int32_t special[SPECIALS])
{
    int32_t *around = p->tags->around;
    if (p->whole || !p->tags->prompts) return;
    around[0] = json_true(p->config, "add_bos_token", pieces) ? special[SPECIAL_BOS] : AROUND_NONE;
    around[1] = json_true(p->config, "add_eos_token", 0) ? special[SPECIAL_EOS] : AROUND_NONE;
}
