// trf export: SentencePiece. A model of T5's or Llama's numbering keeps it: spiece.model or
// tokenizer.model. All others have the files of Marian, whose vocab.json gives every piece its id.

#include "export.h"

struct map read_map(const struct vocabulary *v)
{
    struct map m;
    size_t texts;
    uint32_t i;
    memset(&m, 0, sizeof m);
    m.file = v->bytes;
    m.n_file = v->n;
    if (v->n < IDS_AT || memcmp(v->bytes, "TRFPM\0\0\1", 8)) return m;
    m.is = 1;
    m.codes = u32_at(v, 8) != 0;
    m.pieces = u32_at(v, PIECES_AT);
    m.more = u32_at(v, MORE_AT);
    m.numbered = !m.codes;
    for (i = 0; i < m.pieces; i++) m.numbered &= u32_at(v, IDS_AT + 4 * (size_t)i) == i;
    texts = IDS_AT + 4 * ((size_t)m.pieces + m.more);
    m.texts = (const char *)v->bytes + texts;
    m.file = v->bytes + texts + u32_at(v, TEXTS_AT);
    m.n_file = v->n - (size_t)(m.file - v->bytes);
    return m;
}

// -----------------------------------------------------------------------------------------------
// >>marian         source.spm, target.spm, vocab.json
// -----------------------------------------------------------------------------------------------

int write_ids(const struct tokenizer *t, const trf_vocab *vocab, const char *in, const char *name,
              int32_t end)
{
    char *path = format_text("%s%s", in, name);
    cJSON *json = cJSON_CreateObject();
    int32_t id;
    int status;
    for (id = 0; id < end; id++) {
        const char *token = trf_vocab_token(vocab, id);
        if (*token) cJSON_AddNumberToObject(json, token, id);
    }
    status = write_json(t->folder, path, json);
    cJSON_Delete(json);
    free(path);
    return status;
}

int write_spm(const struct tokenizer *t, const struct map *m, const char *in, const char *name)
{
    char *path = format_text("%s%s", in, name);
    int status = write_bytes(t->folder, path, m->file, m->n_file);
    free(path);
    return status;
}

static int write_marian(const struct tokenizer *t, int side, const char *in)
{
    const struct vocabulary *source = &t->side[side], *target = source;
    struct map maps[2];
    cJSON *settings = new_settings(t, side, "MarianTokenizer");
    int separate;
    if (side == 0 && !*in && t->side[1].vocab && trf_vocab_kind(t->side[1].vocab) ==
                                                     TRF_SENTENCEPIECE) target = &t->side[1];
    separate = !same_tokens(source->vocab, target->vocab);  /* else vocab.json serves both */
    maps[0] = read_map(source);
    maps[1] = read_map(target);
    if (separate) set_bool(settings, "separate_vocabs", 1);
    if (t->config->kind != TRF_ENCODER_DECODER)
        inform_line("the tokenizer is Marian's, the one whose ids are free: its texts end with %s "
                    "unless add_special_tokens is False",
                    trf_vocab_token(source->vocab, t->config->eos));
    return write_ids(t, source->vocab, in, "vocab.json", trf_vocab_size(source->vocab)) ||
                   (separate && write_ids(t, target->vocab, in, "target_vocab.json",
                                          trf_vocab_size(target->vocab))) ||
                   write_spm(t, &maps[0], in, "source.spm") ||
                   write_spm(t, &maps[1], in, "target.spm") || write_both(t, in, NULL, settings)
               ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>numbered       spiece.model, tokenizer.model
// -----------------------------------------------------------------------------------------------

/* Whether the further tokens are T5's sentinels, whose ids go down to the first one behind the
   pieces. */
static int are_sentinels(const struct vocabulary *v, const struct map *m)
{
    const char *text = m->texts;
    uint32_t i;
    for (i = 0; i < m->more; i++, text += strlen(text) + 1) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "<extra_id_%u>", (unsigned)i);
        if (strcmp(text, wanted) || u32_at(v, IDS_AT + 4 * ((size_t)m->pieces + i)) !=
                                        m->pieces + m->more - 1 - i) return 0;
    }
    return 1;
}

cJSON *add_special_id(cJSON *all, int32_t id, const char *text)
{
    char number[16];
    cJSON *token;
    snprintf(number, sizeof number, "%d", (int)id);
    token = cJSON_AddObjectToObject(all, number);
    set_text(token, "content", text);
    set_bool(token, "normalized", 0);
    set_bool(token, "special", 1);
    return token;
}

static void add_further(const struct vocabulary *v, const struct map *m, cJSON *settings)
{
    cJSON *all = cJSON_AddObjectToObject(settings, "added_tokens_decoder");
    const char *text = m->texts;
    uint32_t i;
    for (i = 0; i < m->more; i++, text += strlen(text) + 1)
        add_special_id(all, (int32_t)u32_at(v, IDS_AT + 4 * ((size_t)m->pieces + i)), text);
}

int write_pieces(const struct tokenizer *t, int side, const char *in)
{
    const struct vocabulary *v = &t->side[side];
    struct map m = read_map(v);
    int t5 = !strcmp(t->recipe->type, "t5");
    cJSON *settings;
    if (!m.is || !m.numbered || (t->side[0].vocab && t->side[1].vocab))
        return write_marian(t, side, in);
    settings = new_settings(t, side, t5 ? "T5Tokenizer" : "LlamaTokenizer");
    if (!t5) set_bool(settings, "add_bos_token", t->config->bos >= 0 && !t->config->bare_prompts);
    if (t5 && are_sentinels(v, &m)) set_number(settings, "extra_ids", m.more);
    else if (m.more) add_further(v, &m, settings);
    return write_spm(t, &m, in, t5 ? "spiece.model" : "tokenizer.model") ||
                   write_both(t, in, NULL, settings) ? FAILED : DONE;
}
