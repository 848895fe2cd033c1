// trf export: tokenizers of models of many languages. trf import has stored in the model's metadata
// which languages there are, and where their tags stand (import_languages.c). These tell the class:
//
//   M2M100Tokenizer      sentencepiece.bpe.model, vocab.json; the codes of languages follow
//   NllbTokenizer, MBartTokenizer, MBart50Tokenizer
//                        sentencepiece.bpe.model, if the ids are those of fairseq beside it; else
//                        tokenizer.json (export_metaspace.c)
//
// All languages are written. The pair of --source-language and --target-language is what the
// tokenizer and generate begin with.

#include "export.h"

#include "import_sentencepiece.h"

// -----------------------------------------------------------------------------------------------
// >>class          the class of the tokenizer, from the metadata
// -----------------------------------------------------------------------------------------------

static int has_code(const char *codes, const char *wanted)
{
    int has = 0;
    char *code;
    for (; !has && (code = next_code(&codes)) != NULL; free(code)) has = !strcmp(code, wanted);
    return has;
}

static int same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

/* The rule with these tags whose class knows the first language. found: one has the tags. */
static const struct tag_rule *find_rule(const char *source, const char *target, const char *code,
                                        int *found)
{
    const struct tag_rule *rule;
    *found = 0;
    for (rule = tag_rules; rule->is != NO_CLASS; rule++) {
        if (!same_text(rule->source, source) || !same_text(rule->target, target)) continue;
        *found = 1;
        if (rule->is == MARIAN || has_code(codes_of(rule->is, NULL), code)) break;
    }
    return rule;
}

static int find_class(const char *path, const trf_model *model, struct languages *l)
{
    const char *source = trf_model_metadata(model, "source.tag");
    const char *target = trf_model_metadata(model, "target.tag"), *codes = l->codes;
    char *code = next_code(&codes);
    int found;
    const struct tag_rule *rule = find_rule(source, target, code ? code : "", &found);
    l->is = rule->is;
    l->legacy = rule->legacy;
    if (!found)
        say("%s: source.tag is \"%s\" and target.tag is \"%s\", but no tokenizer of transformers "
            "has its tags there", path, source ? source : "", target ? target : "");
    else if (l->is == NO_CLASS)
        say("%s: languages begins with \"%s\", which is a code of no tokenizer whose tags stand "
            "where these do", path, code ? code : "");
    free(code);
    return l->is == NO_CLASS ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>tags           their ids
// -----------------------------------------------------------------------------------------------

static int32_t id_of_code(const trf_vocab *vocab, int is, const char *code)
{
    char *tag = tag_of(is, code);
    int32_t id = id_of(vocab, tag);
    free(tag);
    return id;
}

/* Every language is one of the class and has a token. The classes of mBART and M2M-100 have tokens
   for all of theirs. */
static int check_codes(const char *path, const trf_vocab *vocab, struct languages *l)
{
    const char *named[2] = {"m2m100", "wmt21"}, *all = NULL, *codes;
    char *code;
    int i, status = DONE;
    for (i = 0; i < 2 && !l->named; i++)
        if (l->is == M2M100 && !strcmp(l->codes, codes_of(M2M100, named[i]))) l->named = named[i];
    all = codes_of(l->is, l->named);
    for (codes = l->codes; !status && (code = next_code(&codes)) != NULL; free(code)) {
        if (!has_code(all, code))
            status = refuse("%s: languages has \"%s\", but %s has no such language", path, code,
                            class_name_of(l->is));
        else if (id_of_code(vocab, l->is, code) < 0)
            status = refuse("%s: languages has \"%s\", but no token of the vocabulary is its tag",
                            path, code);
    }
    for (codes = all; !status && l->is != NLLB && (code = next_code(&codes)) != NULL; free(code))
        if (!has_code(l->codes, code))
            status = refuse("%s: languages lacks \"%s\", but %s has a token for it", path, code,
                            class_name_of(l->is));
    if (!status && l->is == M2M100 && !l->named)
        status = refuse("%s: languages has another order than M2M100Tokenizer", path);
    return status;
}

/* --source-language and --target-language. */
static int check_pair(const char *path, const struct languages *l)
{
    const char *const pair[2][2] = {{"source", l->source}, {"target", l->target}};
    int i;
    for (i = 0; i < 2; i++) {
        if (!pair[i][1] || (l->codes && has_code(l->codes, pair[i][1]))) continue;
        if (l->codes)
            say("--%s-language %s: '%s' knows %s", pair[i][0], pair[i][1], path, l->codes);
        else say("--%s-language: '%s' has no tokenizer that is told its languages", pair[i][0],
                 path);
        return USAGE;
    }
    return DONE;
}

/* The language that the model names, if it is one of its own; or NULL. */
static const char *usual_language(const trf_model *model, int target, const char *codes)
{
    const char *code = trf_model_metadata(model, language_keys[target]);
    return code && has_code(codes, code) ? code : NULL;
}

int find_model_languages(const struct settings *s, const char *path, const trf_model *model,
                         struct languages *l)
{
    const trf_vocab *source = trf_model_vocab(model, TRF_SOURCE);
    const trf_vocab *target = trf_model_vocab(model, TRF_TARGET);
    const char *rule, *first = trf_model_metadata(model, first_key);
    int32_t bos = trf_model_config(model)->bos;
    trf_error err;
    int status;
    memset(l, 0, sizeof *l);
    if (trf_model_ends(model, &l->ends, &err)) return refuse("%s: %s", path, err.message);
    l->codes = trf_model_metadata(model, "languages");
    l->source = s->source_language;
    l->target = s->target_language;
    l->forced_first = first ? (int32_t)strtol(first, NULL, 10) : -1;
    l->start = l->bos = -1;
    if (l->codes && find_class(path, model, l)) return FAILED;
    if (l->codes && l->is == MARIAN) l->codes = NULL;       /* its tags are a part of the texts */
    if (l->codes && !l->source) l->source = usual_language(model, 0, l->codes);
    if (l->codes && !l->target) l->target = usual_language(model, 1, l->codes);
    if ((status = check_pair(path, l)) != DONE || !l->codes) return status;
    if (!source || !target || trf_vocab_kind(source) != TRF_SENTENCEPIECE)
        return refuse("%s: it has languages, but %s needs a vocabulary of SentencePiece for both "
                      "sides", path, class_name_of(l->is));
    if (check_codes(path, source, l)) return FAILED;
    rule = trf_model_metadata(model, "target.tag");
    if (l->target && !strncmp(rule, "start", 5)) l->start = id_of_code(target, l->is, l->target);
    else if (l->target) l->forced_first = id_of_code(target, l->is, l->target);
    /* a model of mBART with one target has its tag as BOS */
    if (l->is == MBART && bos >= 0 && has_code(l->codes, trf_vocab_token(target, bos)))
        l->bos = id_of(target, "<s>");
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>settings       tokenizer_config.json
// -----------------------------------------------------------------------------------------------

/* The tokens that tokenizers of transformers cannot be without, as this class finds them. */
static int check_special(const struct tokenizer *t)
{
    static const char *const names[] = {"pad", "BOS", "EOS", "unk"};
    int which;
    for (which = 0; which < 4; which++) {
        if (trf_vocab_special(t->side[0].vocab, (trf_special)which) >= 0) continue;
        return refuse("%s is -1, but %s needs the id of a token", names[which],
                      class_name_of(t->languages->is));
    }
    return DONE;
}

/* The language of sources. NULL: the one that the class begins with. */
static char *first_source(const struct languages *l)
{
    const char *usual = l->is == M2M100 ? "en" : l->is == NLLB ? "eng_Latn" : "en_XX";
    const char *codes = l->codes;
    if (l->source) return format_text("%s", l->source);
    return has_code(l->codes, usual) ? NULL : next_code(&codes);
}

/* Tokens that are no pieces, besides those of the class: they are special. */
static void add_others(const struct languages *l, const struct map *m, cJSON *list)
{
    const char *text = m->texts;
    uint32_t i;
    for (i = 0; i < m->more; i++, text += strlen(text) + 1)
        if (!has_code("<s> <pad> </s> <unk> <mask>", text) && !has_code(l->codes, text))
            cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

static cJSON *settings_of(const struct tokenizer *t, const struct map *m)
{
    static const char *const optional[] = {"mask_token", "cls_token", "sep_token"};
    const struct languages *l = t->languages;
    cJSON *json = new_settings(t, 0, class_name_of(l->is)), *list;
    const char *codes = l->codes;
    char *code = first_source(l);
    size_t i;
    if (l->bos >= 0) {
        set_text(json, "bos_token", "<s>");
        set_text(json, "cls_token", "<s>");
    }
    if (code) set_text(json, "src_lang", code);
    free(code);
    if (l->target) set_text(json, "tgt_lang", l->target);
    if (l->is == M2M100) {
        set_text(json, "language_codes", l->named);
        return json;
    }
    for (i = 0; i < sizeof optional / sizeof *optional; i++)    /* the class has some of its own */
        if (!cJSON_HasObjectItem(json, optional[i])) set_text(json, optional[i], NULL);
    if (l->legacy) set_bool(json, "legacy_behaviour", 1);
    list = cJSON_AddArrayToObject(json, "additional_special_tokens");
    for (; (code = next_code(&codes)) != NULL; free(code))
        cJSON_AddItemToArray(list, cJSON_CreateString(code));
    add_others(l, m, list);
    return json;
}

// -----------------------------------------------------------------------------------------------
// >>m2m            vocab.json has all tokens but the languages, which follow them
// -----------------------------------------------------------------------------------------------

/* The number of tokens before the languages, or -1: theirs are not the last ones in a row. */
static int32_t before_languages(const struct tokenizer *t)
{
    const struct languages *l = t->languages;
    const trf_vocab *vocab = t->side[0].vocab;
    const char *codes = l->codes;
    char *code = next_code(&codes);
    int32_t n = id_of_code(vocab, l->is, code), id = n, k;
    int row = 1;
    for (k = 0; k < n; k++) row &= *trf_vocab_token(vocab, k) != 0;
    for (; code; code = next_code(&codes)) {
        char *tag = tag_of(l->is, code);
        row = row && id < trf_vocab_size(vocab) && !strcmp(trf_vocab_token(vocab, id), tag);
        id++;
        free(tag);
        free(code);
    }
    for (; id < trf_vocab_size(vocab); id++) row &= *trf_vocab_token(vocab, id) == 0;
    return row ? n : -1;
}

static int write_m2m(const struct tokenizer *t, const struct map *m)
{
    int32_t n = before_languages(t);
    if (n < 0)
        return refuse("the ids of the languages are not a row behind all other tokens, but "
                      "M2M100Tokenizer has no others");
    return write_ids(t, t->side[0].vocab, "", "vocab.json", n) ||
                   write_spm(t, m, "", "sentencepiece.bpe.model") ||
                   write_both(t, "", NULL, settings_of(t, m)) ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>fairseq        NLLB, mBART, XLM-R
// -----------------------------------------------------------------------------------------------

/* Whether every token has the id that trf import gives it beside sentencepiece.bpe.model. */
static int is_fairseq(const struct tokenizer *t, const struct map *m, int class_of)
{
    const trf_vocab *vocab = t->side[0].vocab;
    struct published p;
    struct table known;
    int32_t n = trf_vocab_size(vocab);
    size_t i;
    int is = 1;
    memset(&p, 0, sizeof p);
    memset(&known, 0, sizeof known);
    p.is = class_of;
    list_fairseq(&p, m->pieces, &known);
    sort_texts(&known);
    for (i = 0; i < known.n && is; i++)
        is = known.entry[i].id < n &&
             !strcmp(trf_vocab_token(vocab, known.entry[i].id), known.entry[i].text);
    for (i = 0; i < m->pieces && is; i++) {
        int32_t id = (int32_t)u32_at(&t->side[0], IDS_AT + 4 * i);
        is = id >= 0 && (id == (int32_t)i + 1 || find_text(&known, trf_vocab_token(vocab, id)));
    }
    free(known.entry);
    free_made(&p);
    return is;
}

/* All special tokens with their ids: transformers 5 alone would put NLLB's <mask> before the
   languages. They are in the order in which the model has them. */
static void add_special_ids(const struct tokenizer *t, const struct map *m, cJSON *settings)
{
    cJSON *all = cJSON_AddObjectToObject(settings, "added_tokens_decoder"), *token;
    const char *text = m->texts;
    uint32_t i;
    int32_t id, mask = trf_vocab_special(t->side[0].vocab, TRF_SPECIAL_MASK);
    for (id = 0; id < 4; id++) add_special_id(all, id, trf_vocab_token(t->side[0].vocab, id));
    for (i = 0; i < m->more; i++, text += strlen(text) + 1) {
        id = (int32_t)u32_at(&t->side[0], IDS_AT + 4 * ((size_t)m->pieces + i));
        if (id < 4) continue;
        token = add_special_id(all, id, text);
        if (id == mask) describe_mask(t, token);
    }
}

/* transformers gives the tokens behind a gap other ids. */
static int check_gaps(const struct tokenizer *t)
{
    const trf_vocab *vocab = t->side[0].vocab;
    int32_t id = 0, n = trf_vocab_size(vocab);
    while (n > 0 && !*trf_vocab_token(vocab, n - 1)) n--;
    while (id < n && *trf_vocab_token(vocab, id)) id++;
    if (id == n) return DONE;
    return refuse("the id %d has no token, but %d has one: %s has no such gap", (int)id, (int)n - 1,
                  class_name_of(t->languages->is));
}

int write_languages(const struct tokenizer *t)
{
    struct map m = read_map(&t->side[0]);
    const char *name = class_name_of(t->languages->is);
    cJSON *settings;
    if (t->side[1].vocab)
        return refuse("the vocabularies of source and target differ, but %s has one", name);
    if (!m.is)
        return refuse("the vocabulary was learned by trf, but it has languages: %s has ids of its "
                      "own", name);
    if (check_special(t) || check_gaps(t)) return FAILED;
    if (t->languages->is == M2M100) return write_m2m(t, &m);
    settings = settings_of(t, &m);
    if (!is_fairseq(t, &m, t->languages->is)) return write_metaspace(t, &m, settings);
    add_special_ids(t, &m, settings);
    return write_spm(t, &m, "", "sentencepiece.bpe.model") || write_both(t, "", NULL, settings)
               ? FAILED : DONE;
}

int write_xlm_roberta(const struct tokenizer *t, int *done)
{
    struct map m = read_map(&t->side[0]);
    cJSON *settings;
    *done = m.is && is_fairseq(t, &m, XLM_ROBERTA);
    if (!*done) return DONE;
    settings = new_settings(t, 0, class_name_of(XLM_ROBERTA));
    return write_spm(t, &m, "", "sentencepiece.bpe.model") || write_both(t, "", NULL, settings)
               ? FAILED : DONE;
}
