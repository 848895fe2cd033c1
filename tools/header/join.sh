#!/bin/sh
# Joins the files of this folder into transformer.h: sh tools/header/join.sh    (make header)
# or those of another folder into another file:      sh tools/header/join.sh FOLDER HEADER
#
# The last line of the header has a CRC of the lines above it. A header with another CRC was edited, and stays as it is.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here} header=${2:-${here%/*/*}/transformer.h}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
crc() { cksum | cut -d ' ' -f 1; }

(cd "$folder" && find . -name '*.h' | cut -c 3- >"$work/files" &&
    awk -v files="$work/files" -f "$here/names.awk" -f "$here/join.awk" all.h) >"$work/new"
echo "// Made from the files in tools/header by \`make header\`. CRC of the lines above: $(crc <"$work/new")" \
    >>"$work/new"
if cmp -s "$work/new" "$header"; then touch -c "$header" 2>/dev/null || :; exit 0; fi
if [ -f "$header" ] && [ "$(sed -n '$s/^.*lines above: //p' "$header")" != "$(sed '$d' "$header" | crc)" ]; then
    echo "${header##*/} was edited, and stays as it is: \`make parts\` takes the edit into tools/header, "\
"\`rm ${header##*/}\` drops it" >&2
    exit 1
fi
cp "$work/new" "$header.new" && mv "$header.new" "$header"
