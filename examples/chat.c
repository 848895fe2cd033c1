/* chat.c - talks with an imported model that follows instructions.

   model   trf import SmolLM2-135M-Instruct --output smol.safetensors       (a folder of Hugging Face;
           also Qwen 2 and 2.5, Llama 3: models of type llama, mistral or qwen2)
   build   cc -O2 -I. examples/chat.c -o chat -lopenblas -lm
   run     ./chat smol.safetensors              a question a line; the end of the input ends it
           ./chat smol.safetensors 0            always the likeliest token: the same answers each time
   prints  the answers, token by token. The model reads the whole conversation for each; of one that
           outgrows the model it reads the end
   exits   with 1 if a call failed, with 2 without a model

   Who speaks is marked by special tokens. The program looks which ones the vocabulary has. A model
   without them continues the lines as they are. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct style { const char *sign, *begin, *before, *between, *after; } styles[] = {
    {"<|im_start|>", "", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n"},
    {"<|start_header_id|>", "<|begin_of_text|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
    {NULL, "", "", "", ""}};

/* The conversation so far. */
static struct { int32_t *ids, n, capacity; } talk;

static trf_status make_room(int32_t more, trf_error *err)
{
    size_t capacity = 2 * ((size_t)talk.n + (size_t)more);
    int32_t *longer;
    if (talk.n + more <= talk.capacity) return TRF_OK;
    longer = (int32_t *)realloc(talk.ids, capacity * sizeof *longer);
    if (!longer) { snprintf(err->message, sizeof err->message, "no memory"); return TRF_E_NOMEM; }
    talk.ids = longer;
    talk.capacity = (int32_t)capacity;
    return TRF_OK;
}

/* Appends a text. special 1: names of special tokens in it are these tokens; what a user writes
   must not be read so. */
static trf_status append(const trf_vocab *vocab, const char *text, int special, trf_error *err)
{
    int32_t n = 0, room = (int32_t)strlen(text) + 8;    /* a token has a byte or more */
    trf_status status = *text ? make_room(room, err) : TRF_OK;
    if (!status && *text)
        status = trf_vocab_encode(vocab, text, special, talk.ids + talk.n, room, &n, err);
    talk.n += n;
    return status;
}

static void print(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes)
{
    (void)user; (void)sequence; (void)id;
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

/* Adds a line to the conversation, and the model's answer to it, which it prints. */
static trf_status answer(trf_sampler *sampler, const trf_vocab *vocab, const struct style *style,
                         const char *line, trf_error *err)
{
    trf_batch begin = {{NULL, NULL, 0}, {NULL, &talk.n, 1}, 0, {0, 0, 0}};
    const trf_hypothesis *given;
    int32_t live = 1;
    trf_status status;
    if ((status = append(vocab, style->before, 1, err)) || (status = append(vocab, line, 0, err)) ||
        (status = append(vocab, style->between, 1, err))) return status;
    begin.target.ids = talk.ids;
    begin.ordinal = talk.n;                     /* other random numbers for each answer */
    if ((status = trf_sampler_begin(sampler, &begin, err))) return status;
    while (live && !status) status = trf_sampler_step(sampler, 1, &live, err);
    puts("");
    given = trf_sampler_answer(sampler, 0);
    if (status || (status = make_room(given->n, err))) return status;
    memcpy(talk.ids + talk.n, given->ids, (size_t)given->n * sizeof *talk.ids);
    talk.n += given->n;
    return append(vocab, style->after, 1, err);
}

int main(int argc, char **argv)
{
    static char line[65536];
    const struct style *style = styles;
    const trf_vocab *vocab;
    trf_sampling sampling = trf_sampling_defaults();
    trf_model *model = NULL;
    trf_sampler *sampler = NULL;
    trf_error err;
    trf_status status;
    if (argc < 2 || argc > 3) { fputs("usage: chat MODEL [TEMPERATURE]\n", stderr); return 2; }
    sampling.temperature = argc > 2 ? atof(argv[2]) : 0.7;
    sampling.top_p = 0.9;
    sampling.repetition_penalty = 1.1;
    sampling.max_tokens = 500;
    sampling.token = print;
    status = trf_model_load(&model, argv[1], NULL, &err);
    if (!status) status = trf_model_ends(model, &sampling.ends, &err);
    if (!status) status = trf_sampler_create(&sampler, model, &sampling, &err);
    vocab = trf_model_vocab(model, TRF_TARGET);
    while (!status && style->sign && trf_vocab_id(vocab, style->sign) < 0) style++;
    if (!status) status = append(vocab, style->begin, 1, &err);
    while (!status && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line) status = answer(sampler, vocab, style, line, &err);
    }
    if (status) fprintf(stderr, "%s\n", err.message);
    trf_sampler_destroy(sampler);
    trf_model_destroy(model);
    free(talk.ids);
    return status != TRF_OK;
}
