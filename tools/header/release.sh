#!/bin/sh
# The header as two files, for programs that compile libraries apart: sh tools/header/release.sh FOLDER
#
# transformer.h has the declarations, transformer.c the implementation. The object is that of the header alone.

to=${1:?usage: release.sh FOLDER}
header=$(cd "$(dirname "$0")/../.." && pwd)/transformer.h
mkdir -p "$to" || exit 1
stop=$(($(grep -n 'Stop here if you only want to use the library' "$header" | cut -d : -f 1) - 2))
license=$(grep -n '^// MIT License$' "$header" | cut -d : -f 1)
[ "$stop" -gt 1 ] && [ "$license" -gt "$stop" ] || exit 1
{
    head -n $stop "$header"
    cat <<'END'
#if defined(TRF_IMPLEMENTATION) && !defined(TRF_THIS_FILE)
#error "the implementation is a file: compile transformer.c, and define TRF_IMPLEMENTATION nowhere"
#endif

END
    tail -n +$license "$header"
} >"$to/transformer.h"
{
    cat <<'END'
// The implementation of transformer.h: cc -O2 -c transformer.c, with the macros of the program that
// includes the header (TRF_NO_CBLAS, TRF_NO_TRAIN, ...). For a column define TRF_COLUMN.

#if !defined(TRF_COLUMN) && !defined(TRF_IMPLEMENTATION)
#define TRF_IMPLEMENTATION
#endif
#if !defined(TRF_THIS_FILE)
#define TRF_THIS_FILE "transformer.c"
#endif
#include "transformer.h"

END
    tail -n +$((stop + 1)) "$header"
} >"$to/transformer.c"
