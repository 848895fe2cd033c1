# defaults.awk - the defaults that the header's comments state, as a C program that compares them with the presets.
#
# Beside a field of an options struct, or above it, stands "default X", beside several fields "default X, Y", "default X and Y" or
# "default X of Y". An explanation follows a colon, a full stop or a semicolon. Hooks, and what a function makes, are
# left out.
BEGIN {
    n = split("device=device_default config=config_preset(TRF_TINY) corpus_options=corpus_defaults " \
              "noise_options=noise_defaults load_options=load_defaults train_options=train_defaults " \
              "search=search_defaults " \
              "sampling=sampling_defaults learn_options=learn_defaults dataset_options=dataset_defaults", list, " ")
    for (i = 1; i <= n; i++) {
        split(list[i], pair, "=")
        preset["trf_" pair[1]] = "trf_" pair[2] (pair[2] ~ /\(/ ? "" : "()")
    }
    print "#include \"transformer.h\"\n#include <stdio.h>\nstatic int n, bad;"
    print "static void same(int is, const char *name) { n++; if (!is) { bad = 1; puts(name); } }\nint main(void)\n{"
}

# `text` is one declaration with its comment.
function compare(    values, names, name, many, k)
{
    names = text
    sub(/^ *\/\*.*\*\/ */, " ", names)
    if (names ~ /^[^;]*\(/ || !match(text, /default [^*]*\*\//)) return
    values = substr(text, RSTART + 8, RLENGTH - 10)
    sub(/[:.;]( .*)?$/, "", values)
    sub(/ *$/, "", values)
    gsub(/ (and|of) /, ", ", values)
    many = split(values, value, /, /)
    sub(/;.*/, "", names)
    sub(/^ *(const )?[a-z_0-9]* /, "", names)
    gsub(/[ *]/, "", names)
    n = split(names, name, /,/)
    for (k = 1; k <= n; k++) {
        values = value[k <= many ? k : many]
        if (values == "64 GiB") values = "(uint64_t)64 << 30"
        if (values !~ /^(none|trf_.*)$/) printf "    same(o.%s == (%s), \"%s.%s\");\n", name[k], values, type, name[k]
    }
}

/^typedef struct trf_[a-z_]* \{$/ { type = $3; text = ""; if (type in preset) printf "    { %s o = %s;\n", type, preset[type] }
/^} trf_/ { if (type in preset) { compare(); print "    }" } type = "" }
!(type in preset) || /^typedef/ { next }
/^    \/\*/ { compare(); text = ""; above = 1 }
/^    [a-z]/ { if (!above) compare(); if (!above || /\/\*/) text = ""; above = 0 }
{ sub(/^ +/, " "); text = text $0 }
/^#endif \/\* TRANSFORMER_H/ { exit }
END { print "    printf(\"%d defaults\\n\", n);\n    return bad;\n}" }
