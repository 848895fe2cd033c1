#!/bin/sh
# Takes an edit of the header back into the files of this folder: sh tools/header/parts.sh [HEADER]    (make parts)
#
# The header is transformer.h, or a copy that was edited elsewhere. Its last line says from which files it was made. If
# the files here have changed since, their changes would be lost: then nothing is done.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
header=${1:-${here%/*/*}/transformer.h}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refuse() { echo "$header: $1" >&2; exit 1; }

[ -f "$header" ] || refuse "there is no such file"
[ $# = 0 ] || sh "$here/join.sh"            # transformer.h has no edit of its own
mkdir "$work/parts"
cp -R "$here/." "$work/parts"
sh "$here/join.sh" "$here" "$work/made"
stated=$(sed -n '$s/^.*lines above: //p' "$header")
[ -n "$stated" ] || refuse "the last line does not say what the header was made from"
[ "$stated" = "$(sed -n '$s/^.*lines above: //p' "$work/made")" ] ||
    refuse "made from other files than tools/header has now, which stay as they are: go back to those, then merge"
(cd "$here" && awk -v lines=1 -f names.awk -f join.awk all.h) >"$work/lines"
sed '$d' "$work/made" >"$work/old"
sed '$d' "$header" >"$work/new"
diff "$work/old" "$work/new" >"$work/diff" || [ $? -eq 1 ]
(cd "$here" && awk -v to="$work/parts/" -f parts.awk "$work/lines" "$work/diff") >"$work/changed"
rm "$work/made"
sh "$here/join.sh" "$work/parts" "$work/made"
sed '$d' "$work/made" | cmp -s - "$work/new" ||
    refuse "between two files stands one blank line; this edit has none there, or more"
while read -r name; do cp "$work/parts/$name" "$here/$name"; echo "tools/header/$name"; done <"$work/changed"
cp "$work/made" "${here%/*/*}/transformer.h"
