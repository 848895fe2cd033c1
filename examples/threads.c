/* threads.c - one model, several threads: each has a translator of its own and takes the next line.

   build   cc -O2 -pthread -I. examples/threads.c -o threads -lopenblas -lm
   run     ./threads en-de.safetensors <test.en      (made by `trf train` or examples/learn.c)
   prints  the answers in the order of the lines. A line that cannot be translated gives an empty
           line, and the reason goes to standard error. A line of 4,095 bytes or more is cut.
   exits   with 1 if a line has no answer or a call failed, 2 if no model is named */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, LINE = 4096, ANSWER = 16384 };

/* What all threads share. A model may be read by any number of them. */
typedef struct work {
    const trf_model *model;
    char (*lines)[LINE], **answers;
    size_t count, next;                         /* next: under the lock */
    pthread_mutex_t lock;
} work;

/* The number of the next line, or `count` if there is none. */
static size_t take(work *w)
{
    size_t i;
    pthread_mutex_lock(&w->lock);
    i = w->next < w->count ? w->next++ : w->count;
    pthread_mutex_unlock(&w->lock);
    return i;
}

static void *run(void *user)
{
    work *w = (work *)user;
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;          /* an object is used by one thread at a time */
    trf_error err;
    char answer[ANSWER];
    size_t i;
    search.threads = 1;                         /* the program has threads enough */
    if (trf_translator_create(&translator, w->model, &search, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return NULL;                            /* its lines stay for the other threads */
    }
    while ((i = take(w)) < w->count) {
        if (trf_translate_text(translator, w->lines[i], answer, sizeof answer, &err))
            fprintf(stderr, "line %lu: %s\n", (unsigned long)i + 1, err.message);
        else if ((w->answers[i] = (char *)malloc(strlen(answer) + 1)) != NULL)
            strcpy(w->answers[i], answer);
        else fprintf(stderr, "line %lu: out of memory\n", (unsigned long)i + 1);
    }
    trf_translator_destroy(translator);
    return NULL;
}

/* All lines of standard input, without their ends. */
static int read_lines(work *w)
{
    size_t room = 0;
    for (;;) {
        if (w->count == room) {
            void *more = realloc(w->lines, (room = 2 * room + 64) * sizeof *w->lines);
            if (!more) return 0;
            w->lines = (char (*)[LINE])more;
        }
        if (!fgets(w->lines[w->count], LINE, stdin)) break;
        w->lines[w->count][strcspn(w->lines[w->count], "\n")] = 0;
        w->count++;
    }
    w->answers = (char **)calloc(w->count + 1, sizeof *w->answers);
    return w->answers != NULL;
}

int main(int argc, char **argv)
{
    work w;
    trf_model *model = NULL;
    trf_error err;
    pthread_t threads[THREADS];
    size_t i, n, missing = 0;
    if (argc != 2) { fputs("usage: threads MODEL <lines\n", stderr); return 2; }
    memset(&w, 0, sizeof w);
    if (trf_model_load(&model, argv[1], NULL, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    if (!read_lines(&w)) return perror("threads"), 1;
    w.model = model;
    pthread_mutex_init(&w.lock, NULL);
    for (n = 0; n < THREADS; n++) if (pthread_create(&threads[n], NULL, run, &w)) break;
    for (i = 0; i < n; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w.lock);
    for (i = 0; i < w.count; i++) {
        puts(w.answers[i] ? w.answers[i] : "");
        missing += !w.answers[i];
        free(w.answers[i]);
    }
    free(w.lines);
    free(w.answers);
    trf_model_destroy(model);
    return missing > 0;
}
