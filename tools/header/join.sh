#!/bin/sh
# Makes the header from the files of this folder, or takes an edit of the header back into them.
#
#     sh tools/header/join.sh                 writes transformer.h          (make header)
#     sh tools/header/join.sh parts [FILE]    FILE, or transformer.h, was edited: changes the files
#                                             of this folder                (make parts)
#
# The last line of the header has the CRC of the lines above it. An edited header does not have its
# CRC: joining leaves it as it is. Files that have changed since the header was made join to another
# CRC: taking an edit back leaves them as they are.

set -eu
cd "$(dirname "$0")/../.."
here=tools/header header=transformer.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "$1" >&2; exit 1; }

# join FOLDER: writes $work/lines, each with its origin, and $work/new, the header
join()
{
    (cd "$1" && find . -name '*.h' | sed 's|^\./||' | sort) >"$work/files"
    (cd "$1" && awk -f join.awk lines=1 "files=$work/files" all.h) >"$work/lines"
    cut -f 2- "$work/lines" >"$work/text"
    { cat "$work/text"; echo "// Made from the files in $here by \`make header\`. CRC of the lines above: $(crc "$work/text")"; } >"$work/new"
}
crc() { cksum <"$1" | cut -d ' ' -f 1; }
stated() { sed -n '$s/^.*lines above: //p' "$1"; }
body() { sed '$d' "$1"; }

join $here
if [ "${1:-}" != parts ]; then
    if [ -f $header ] && ! cmp -s $header "$work/new"; then
        body $header >"$work/old"
        [ "$(stated $header)" = "$(crc "$work/old")" ] ||
            say "$header was edited, and is left as it is: \`make parts\` takes the edit into $here; without $header, \`make header\` makes it anew"
    fi
    cmp -s $header "$work/new" && { touch $header; exit 0; }
    cp "$work/new" $header.new && mv $header.new $header
    exit 0
fi

edited=${2:-$header}
[ -f "$edited" ] || say "$edited: there is no such file"
stated=$(stated "$edited")
[ -n "$stated" ] || say "$edited: the last line does not say what it was made from"
[ "$stated" = "$(crc "$work/text")" ] ||
    say "$edited was made from other files than $here has now, which are left as they are: go back to those, then merge"
body "$edited" >"$work/edited"
diff "$work/text" "$work/edited" >"$work/diff" || [ $? -eq 1 ]
cp -r $here "$work/parts"
(cd $here && awk -v to="$work/parts/" -f parts.awk "$work/lines" "$work/diff") >"$work/changed"
mv "$work/edited" "$work/wanted"
join "$work/parts"
cmp -s "$work/text" "$work/wanted" ||
    say "$edited: one blank line stands between two files; this edit has none there, or more"
while read -r name; do cp "$work/parts/$name" "$here/$name"; echo "$here/$name"; done <"$work/changed"
cp "$work/new" $header.new && mv $header.new $header
