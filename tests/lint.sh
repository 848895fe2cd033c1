#!/bin/sh
# Sizes and lines of the sources: sh tests/lint.sh
#
# What a change may break although nothing behaves differently; so `make lint` tells it, and no test does.

cd "$(dirname "$0")/.." || exit 1
wrong=0
# lint NAME COMMAND...: the command prints what is wrong
lint()
{
    name=$1
    shift
    "$@" | sed "s/^/$name: /" | grep . && wrong=1
}
# longer COLUMNS FILE...
longer()
{
    columns=$1
    shift
    awk -v most="$columns" 'length > most { print FILENAME ": " FNR }' "$@"
}
shells=$(find tests tools .ci -name '*.sh' -o -name run | sort)
lint "more than 100 columns" longer 100 transformer.h
lint "more than 120 columns" longer 120 Makefile $shells
lint "a part of a chapter of more than 250 lines" awk '
    /Stop here if you only want/ { inside = 1 }
    / TRF__NAMED\(/ { first++ }         # a list that is made
    inside && /^\/\/ >>/ { if (mark && FNR - first > 250) print mark; mark = $2; first = FNR }' transformer.h
lint "README: more than 1,300 words" awk '{ words += NF } END { if (words > 1300) print words }' README.md
exit $wrong
