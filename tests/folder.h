/* A folder of the suite's own. Include it after transformer.h. */
#ifndef FOLDER_H
#define FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "kit.h"

static char folder[64];

/* The path of a file in the folder. The last four paths are valid. */
static KIT_UNUSED const char *in_folder(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* Makes the folder: on a disk or, where there is such a place, in memory, where fsync costs
   nothing. Returns 0, or -1 after a failure. */
static KIT_UNUSED int folder_make(const char *suite, int in_memory)
{
    snprintf(folder, sizeof folder, "/dev/shm/trf-%s-XXXXXX", suite);
    if (in_memory && mkdtemp(folder)) return 0;
    snprintf(folder, sizeof folder, "/tmp/trf-%s-XXXXXX", suite);
    return mkdtemp(folder) ? 0 : -1;
}

/* Removes the folder and its files. Returns 0 if it could. */
static KIT_UNUSED int folder_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#endif
