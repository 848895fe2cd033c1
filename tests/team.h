/* Ranks or stages as threads that add up numbers: for suites in which several trainers train
   together. Include it after kit.h. */
#ifndef TEAM_H
#define TEAM_H

#include <pthread.h>

enum { MOST_OF_TEAM = 16 };

typedef struct team {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int n, waiting, turn;
    trf_real *slices[MOST_OF_TEAM];
} team;

static KIT_UNUSED void team_open(team *t, int n)
{
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->change, NULL);
    t->n = n;
}

static KIT_UNUSED void team_close(team *t)
{
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->change);
}

/* Returns when all have called it. */
static KIT_UNUSED void meet(team *t)
{
    int turn;
    pthread_mutex_lock(&t->lock);
    turn = t->turn;
    if (++t->waiting == t->n) { t->waiting = 0; t->turn++; pthread_cond_broadcast(&t->change); }
    while (turn == t->turn) pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* All have the sum, in the order of their numbers. */
static KIT_UNUSED void team_sum(team *t, int who, trf_real *numbers, size_t count)
{
    size_t i, k;
    if (t->n == 1) return;
    t->slices[who] = numbers;
    meet(t);
    if (who == 0) {
        separate_enter();
        for (i = 0; i < count; i++) {
            trf_real sum = t->slices[0][i];
            for (k = 1; k < (size_t)t->n; k++) sum += t->slices[k][i];
            for (k = 0; k < (size_t)t->n; k++) t->slices[k][i] = sum;
        }
        separate_leave();
    }
    meet(t);
}

#endif
