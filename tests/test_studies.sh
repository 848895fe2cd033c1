#!/bin/sh
# The studies, each with its small grid: sh tests/test_studies.sh BUILD
#
# Each exits with 0, prints a table and claims, and writes tables and pictures that are well formed. Options: what is
# misspelt or out of range is refused, and without --output nothing is written.

build=$(cd "${1:?usage: test_studies.sh BUILD}" && pwd)/studies || exit 1
. "$(dirname "$0")/checks.sh"

not() { if "$@"; then return 1; fi; }
quietly() { "$@" >/dev/null; }

# Every row of a CSV file has as many cells as the first, at least two rows, and no cell that is NaN.
table_is_whole()
{
    awk '{
        cells = 0; quoted = 0
        for (i = 1; i <= length($0); i++) {
            c = substr($0, i, 1)
            if (c == "\"") quoted = !quoted
            else if (c == "," && !quoted) cells++
        }
        if (quoted || NR > 1 && cells != columns || tolower($0) ~ /(^|,)-?nan/) bad = 1
        columns = cells
    } END { exit bad || NR < 2 || columns < 1 }' "$1"
}

# Begins and ends as a picture does, and every tag that is opened is closed.
picture_is_whole()
{
    awk '{ text = text $0 "\n" } END {
        if (text !~ /<svg[ \n]/ || text !~ /<\/svg>[ \n]*$/) exit 1
        gsub(/<[?!][^>]*>/, "", text)
        n = split(text, part, "<")
        for (i = 2; i <= n; i++) {
            if (part[i] !~ />/) exit 1
            tag = part[i]; sub(/>.*/, "", tag)
            if (tag ~ /\/$/) continue
            name = tag; sub(/[ \t\n].*/, "", name)
            if (name ~ /^\//) { if (depth < 1 || open[depth] != substr(name, 2)) exit 1; depth-- }
            else open[++depth] = name
        }
        exit depth != 0
    }' "$1"
}

# The checks themselves: broken files do not pass.
printf 'a,b\n1,"2,3"\n' >good.csv
printf 'a,b\n1,2,3\n' >bad.csv
printf '<svg width="1"><g><rect/></g></svg>\n' >good.svg
printf '<svg width="1"><g><rect></g></svg>\n' >bad.svg
check "a whole table passes" table_is_whole good.csv
check "a table with an odd row does not" not table_is_whole bad.csv
check "a whole picture passes" picture_is_whole good.svg
check "a picture with an open tag does not" not picture_is_whole bad.svg
rm good.* bad.*

for file in "$source"/examples/studies/*.c; do
    name=${file##*/} name=${name%.c}
    study=$build/$name
    if [ ! -x "$study" ]; then check "$name is built" false; continue; fi
    if "$study" --quick --threads 1 --output "out/$name" >"$name.out" 2>"$name.err"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAILED: $name --quick"; cat "$name.out" "$name.err"; fi
    check "$name is in README" grep -q "^| \`$name\` | .* | \(yes\|no\|undecided\) |\$" \
        "$source/examples/studies/README.md"
    check "$name prints a table" grep -q '^|---' "$name.out"
    check "$name has a claim" grep -q '^claim: .* | measured: .* | holds: \(yes\|no\|undecided\)$' "$name.out"
    check "$name measures numbers" not grep -qiw -e nan -e inf "$name.out"
    check "$name writes a table" test -s "out/$name/$name.csv"
    for table in "out/$name"/*.csv; do check "$table is whole" table_is_whole "$table"; done
    for picture in "out/$name"/*.svg; do
        [ ! -e "$picture" ] || check "$picture is whole" picture_is_whole "$picture"
    done
done

# Options, which all studies have from study.h.
first=$build/norm              # the quickest
refused() { "$first" "$@" >/dev/null 2>err; [ $? -eq 2 ] && grep -q -e '--help lists the options' err; }
mkdir empty
check "a misspelt option is refused" refused --quik
check "an argument is refused" refused quick
for n in 0 -1 x 1x 101 99999999999999999999 ''; do check "--seeds '$n' is refused" refused --seeds "$n"; done
check "--seeds alone is refused" refused --seeds
check "--threads 0 is refused" refused --threads 0
check "--threads 4097 is refused" refused --threads 4097
check "--output alone is refused" refused --output
check "--output '' is refused" refused --output ''
check "--help" sh -c "'$first' --help | grep -q -e '--quick'"
check "without --output nothing is written" \
    sh -c "cd empty && '$first' --quick --threads 1 >/dev/null && [ -z \"\$(ls)\" ]"
: >file
check "an output that is a file is an error" \
    sh -c "! '$first' --quick --output file >/dev/null 2>err && grep -q 'file' err"
check "a folder is made, with those above it" \
    sh -c "'$first' --quick --threads 1 --output deep/er >/dev/null && [ -s deep/er/norm.csv ]"
mkdir -p taken/norm.csv drawn/norm.svg
for folder in taken drawn; do
    check "what cannot be replaced is an error" \
        sh -c "! '$first' --quick --threads 1 --output $folder >/dev/null 2>err && grep -q 'cannot write $folder/' err"
done
check "a full disk is an error" sh -c "! '$build/norm' --quick --threads 1 >/dev/full"
odd="it's \"\$(touch no)\" \`touch no\`"
check "a folder's name is no command" quietly "$build/norm" --quick --threads 1 --output "$odd"
check "and its picture is drawn" test -s "$odd/norm.svg" -a ! -e no
mkdir bare
for tool in sh awk cat; do ln -s "$(command -v $tool)" bare/$tool; done
check "without gnuplot a study says so and goes on" \
    sh -c "PATH='$here/bare' '$first' --quick --threads 1 --output no-gnuplot >out.txt && grep -q 'gnuplot' out.txt"

finish
