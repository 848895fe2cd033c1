// trf import, trf export: what is built of them without cJSON, in place of their files.

#include "publish.h"

static int without(const char *task)
{
    say("this trf was built without cJSON, which %s the files of other models: install "
        "libcjson-dev and build it again", task);
    return FAILED;
}

int command_import(struct settings *s, int argc, char **argv)
{
    (void)s; (void)argc; (void)argv;
    return without("reads");
}

void say_export(const trf_config *c) { (void)c; }

int command_export(struct settings *s, int argc, char **argv)
{
    (void)s; (void)argc; (void)argv;
    return without("writes");
}
