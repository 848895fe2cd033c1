// trf attention: maps of which token attends to which, as a picture, as text, as JSON.

#include "look.h"
#include "attention_maps.h"

#include <errno.h>

static int settle_kind(struct attention_view *l)
{
    static const char *const needs[] = {"an encoder", "a decoder", "an encoder and a decoder"};
    static const trf_attention_kind kinds[] = {TRF_DECODER_CROSS, TRF_DECODER_CROSS,
                                               TRF_ENCODER_SELF, TRF_DECODER_SELF};
    const struct settings *s = l->s;
    const trf_config *c = trf_model_config(l->model);
    l->kind = kinds[s->attend.map_kind];
    if (s->attend.map_kind == MAP_AUTO)
        l->kind = c->kind == TRF_ENCODER_ONLY   ? TRF_ENCODER_SELF
                  : c->kind == TRF_DECODER_ONLY ? TRF_DECODER_SELF
                                                : TRF_DECODER_CROSS;
    if ((l->kind != TRF_DECODER_SELF && c->kind == TRF_DECODER_ONLY) ||
        (l->kind != TRF_ENCODER_SELF && c->kind == TRF_ENCODER_ONLY)) {
        say("--kind %s needs %s; '%s' has only %s", attention_kinds[l->kind], needs[l->kind],
            s->model, c->kind == TRF_ENCODER_ONLY ? needs[0] : needs[1]);
        return USAGE;
    }
    if (s->attend.target_text && c->kind != TRF_ENCODER_DECODER) {
        say("--target-text: '%s' reads only one text, --source-text", s->model);
        return USAGE;
    }
    if (s->attend.target_text && l->kind == TRF_ENCODER_SELF) {
        say("--target-text is for --kind cross and decoder: the encoder does not read it");
        return USAGE;
    }
    l->layers = l->kind == TRF_ENCODER_SELF ? c->encoder_layers : c->decoder_layers;
    l->heads = c->n_heads;
    return DONE;
}

/* A number from 0, "all", or of a head "mean". */
static int settle_number(const char *option, const char *text, int32_t n, int32_t without,
                         int means, int32_t *number)
{
    char *end;
    long value;
    *number = without;
    if (!text) return DONE;
    *number = !strcmp(text, "all") ? ALL : MEAN;
    if (!strcmp(text, "all") || (means && !strcmp(text, "mean"))) return DONE;
    errno = 0;
    value = strtol(text, &end, 10);
    *number = (int32_t)value;
    if (end != text && !*end && !errno && value >= 0 && value < n) return DONE;
    say("--%s takes a number from 0 to %d%s, got '%s'", option, (int)n - 1,
        means ? ", all or mean" : " or all", text);
    return USAGE;
}

/* Appends the text as a sequence of at most `limit` tokens. */
static int take_text(struct side *side, const char *option, const trf_vocab *vocab,
                     const char *text, int32_t limit)
{
    struct unknown unknown;
    char why[300], name[16];
    int32_t n;
    if (add_text(side, vocab, text, limit, &n, why)) {
        say("--%s: %s", option, why);
        return FAILED;
    }
    memset(&unknown, 0, sizeof unknown);
    note_unknown(&unknown, vocab, text, 0);
    snprintf(name, sizeof name, "--%s", option);
    say_unknown_share(&unknown, name, 0);
    return DONE;
}

/* The model's own best answer becomes the target. */
static int take_answer(struct attention_view *l)
{
    trf_sequences source = sequences_of(&l->source);
    const trf_hypothesis *answer;
    trf_error err;
    if (trf_translate(l->translator, &source, NULL, &err)) {
        say_error("translating --source-text", &err);
        return FAILED;
    }
    answer = trf_translator_answer(l->translator, 0, 0);
    if (!answer) {
        say("the model has no translation of --source-text: give --target-text");
        return FAILED;
    }
    add_ids(&l->target, answer->ids, answer->n);
    return text_of(l->target_vocab, answer->ids, answer->n, &l->answer, &l->answer_capacity)
               ? DONE
               : FAILED;
}

/* Reads the texts. Tags follow when the model has answered: its search adds them itself. */
static int take_texts(struct attention_view *l)
{
    const struct settings *s = l->s;
    const trf_config *c = trf_model_config(l->model);
    int status;
    if (c->kind == TRF_DECODER_ONLY) {
        status =
            take_text(&l->target, "source-text", l->target_vocab, s->attend.source_text,
                      c->max_length - 1);
        if (status || l->target.used) return status;
    } else {
        status = take_text(&l->source, "source-text", l->source_vocab, s->attend.source_text,
                           source_limit(c));
        if (status) return status;
    }
    if (l->source.used == 0) {
        say("--source-text has no tokens, so there is no attention");
        return FAILED;
    }
    if (l->kind == TRF_ENCODER_SELF) return DONE;
    if (!s->attend.target_text) return take_answer(l);
    return take_text(&l->target, "target-text", l->target_vocab, s->attend.target_text,
                     c->max_length - 1);
}

static const char **names_of(const struct attention_view *l, enum token_list of, int64_t n)
{
    return token_names(l->s, l->model, of == SOURCE ? l->source_vocab : l->target_vocab,
                       of == SOURCE ? &l->source : &l->target, of, n);
}

/* A decoder reads its last token only if another one follows: this adds EOS if the library does
   not. */
static int make_maps(struct attention_view *l)
{
    const trf_config *c = trf_model_config(l->model);
    trf_sequences source, target;
    int decoder = l->kind == TRF_DECODER_SELF;
    if (l->kind != TRF_ENCODER_SELF && !c->target_eos) append_id(&l->target, c->eos);
    source = sequences_of(&l->source);
    target = sequences_of(&l->target);
    if (read_attention(trf_translator_reader(l->translator), l->model, l->kind, &source, &target, &l->attention))
        return FAILED;
    l->rows = l->attention.extent[2];
    l->columns = l->attention.extent[3];
    l->row_names = names_of(l, l->kind == TRF_ENCODER_SELF ? SOURCE : decoder ? READ : WRITTEN,
                            l->rows);
    l->column_names = names_of(l, decoder ? READ : SOURCE, l->columns);
    add_maps(l);
    return DONE;
}

static void free_view(struct attention_view *l)
{
    int32_t i;
    for (i = 0; i < l->n_maps; i++) free(l->maps[i].values);
    free(l->maps);
    free((void *)l->row_names);
    free((void *)l->column_names);
    free(l->answer);
    free_side(&l->source);
    free_side(&l->target);
    free_attention(&l->attention);
    trf_translator_destroy(l->translator);
    trf_model_destroy(l->model);
}

static int check_command(struct settings *s, int argc, char **argv)
{
    if (argc > 1 || (argc && s->model)) {
        say("give one model, got '%s' and '%s': a text of several words needs quotation marks",
            argc > 1 ? argv[0] : s->model, argv[argc - 1]);
        return USAGE;
    }
    if (argc) s->model = argv[0];
    if (!s->model || !*s->model) {
        say("give a model written by trf train, as in: trf attention FILE --source-text TEXT");
        return USAGE;
    }
    if (!s->attend.source_text) {
        say("give --source-text TEXT, the text that the model reads");
        return USAGE;
    }
    if (!s->output) return DONE;
    if (!picture_kind(s->output)) {
        say("--output takes an .svg, .png or .pdf, got '%s'", s->output);
        return USAGE;
    }
    return check_output_name(s) || check_writable(s->output) ? FAILED : DONE;
}

int command_attention(struct settings *s, int argc, char **argv)
{
    struct attention_view l;
    trf_error err;
    int status;
    memset(&l, 0, sizeof l);
    l.s = s;
    if ((status = check_command(s, argc, argv))) return status;
    status = load_model(s, &l.model, &l.source_vocab, &l.target_vocab);
    if (!status) status = settle_kind(&l);
    if (!status)
        status = settle_number("layer", s->attend.layer, l.layers, l.layers - 1, 0, &l.layer);
    if (!status) status = settle_number("head", s->attend.head, l.heads, ALL, 1, &l.head);
    if (!status) {
        const trf_vocab *const vocab[2] = {l.source_vocab, l.target_vocab};
        status = read_fixed_tags(s, l.model, vocab);
    }
    if (!status) s->search.ban_unk = never_writes_unk(l.model);
    if (!status && trf_translator_create(&l.translator, l.model, &s->search, &err))
        status = refused("search", &err);
    if (!status) status = take_texts(&l);
    if (!status && l.source.count) add_tags(&l.source, tags_of(s, 0));
    if (!status && l.target.count) add_tags(&l.target, tags_of(s, 1));
    if (!status) status = make_maps(&l);
    if (!status) status = write_maps(&l);
    free_view(&l);
    return status;
}
