// trf train --teacher: models whose answers the new one learns. See training.h.

#include "training.h"

static int load_teacher(struct training *t, int k)
{
    const char *path = t->s->train.teachers.item[k];
    trf_load_options load = load_options(t->s);
    trf_error err;
    load.packed = products_are_own(t->s);       /* then small weights stay small */
    if (!trf_model_load(&t->teachers[k], path, &load, &err)) return DONE;
    load_refused(path, &err);
    return FAILED;
}

int set_teachers(struct training *t)
{
    const struct texts *files = &t->s->train.teachers;
    trf_error err;
    int k;
    for (k = 0; k < files->n; k++) if (load_teacher(t, k)) return FAILED;
    if (!files->n) return DONE;
    if (trf_trainer_set_teachers(t->run.trainer, (const trf_model *const *)t->teachers, files->n,
                                 t->s->train.teacher_share, &err)) {
        if (strcmp(err.what, "teachers") || err.where < 0 || err.where >= files->n)
            return refused("--teacher", &err);
        say("--teacher %s: %s", files->item[err.where], err.message);
        return FAILED;
    }
    inform("teachers: %d, with a share of %g in the loss\n", files->n, t->s->train.teacher_share);
    return DONE;
}
