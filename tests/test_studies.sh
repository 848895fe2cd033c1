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
check "the check of tables passes a whole table" table_is_whole good.csv
check "the check of tables fails a row with a cell too many" not table_is_whole bad.csv
check "the check of pictures passes a whole picture" picture_is_whole good.svg
check "the check of pictures fails a tag that is not closed" not picture_is_whole bad.svg
rm good.* bad.*

for file in "$source"/examples/studies/*.c; do
    name=${file##*/} name=${name%.c}
    study=$build/$name
    if [ ! -x "$study" ]; then check "study $name is built" false; continue; fi
    if "$study" --quick --threads 1 --output "out/$name" >"$name.out" 2>"$name.err"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAILED: study $name --quick ends with 0"; cat "$name.out" "$name.err"; fi
    check "study $name is in examples/studies/README.md, with yes, no or undecided" \
        grep -q "^| \`$name\` | .* | \(yes\|no\|undecided\) |\$" "$source/examples/studies/README.md"
    check "study $name prints a table" grep -q '^|---' "$name.out"
    check "study $name prints a claim, what is measured, and whether it holds" \
        grep -q '^claim: .* | measured: .* | holds: \(yes\|no\|undecided\)$' "$name.out"
    check "study $name prints no nan and no inf" not grep -qiw -e nan -e inf "$name.out"
    check "study $name writes $name.csv" test -s "out/$name/$name.csv"
    for table in "out/$name"/*.csv; do
        check "study $name: all rows of $table have as many cells as the first, none of them nan" table_is_whole \
            "$table"
    done
    for picture in "out/$name"/*.svg; do
        [ ! -e "$picture" ] || check "study $name: $picture is a whole picture" picture_is_whole "$picture"
    done
done

# Options, which all studies have from study.h.
first=$build/norm              # the quickest
refused() { "$first" "$@" >/dev/null 2>err; [ $? -eq 2 ] && grep -q -e '--help lists the options' err; }
mkdir empty
check "study: a misspelt option is refused" refused --quik
check "study: an argument that is no option is refused" refused quick
for n in 0 -1 x 1x 101 99999999999999999999 ''; do check "study: --seeds '$n' is refused" refused --seeds "$n"; done
check "study: --seeds without a number is refused" refused --seeds
check "study: --threads 0 is refused" refused --threads 0
check "study: --threads 4097 is refused" refused --threads 4097
check "study: --output without a name is refused" refused --output
check "study: --output '' is refused" refused --output ''
check "study: --help lists --quick" sh -c "'$first' --help | grep -q -e '--quick'"
check "study: without --output no file is written" \
    sh -c "cd empty && '$first' --quick --threads 1 >/dev/null && [ -z \"\$(ls)\" ]"
: >file
check "study: an --output that is a file is an error that names it" \
    sh -c "! '$first' --quick --output file >/dev/null 2>err && grep -q 'file' err"
check "study: the folder of --output is made, with those above it" \
    sh -c "'$first' --quick --threads 1 --output deep/er >/dev/null && [ -s deep/er/norm.csv ]"
mkdir -p taken/norm.csv drawn/norm.svg
for folder in taken drawn; do
    check "study: a file in $folder that cannot be replaced is an error that names it" \
        sh -c "! '$first' --quick --threads 1 --output $folder >/dev/null 2>err && grep -q 'cannot write $folder/' err"
done
check "study: a full disk at standard output is an error" sh -c "! '$build/norm' --quick --threads 1 >/dev/full"
odd="it's \"\$(touch no)\" \`touch no\`"
check "study: an --output with quotes, blanks and commands in it is taken as a name" quietly "$build/norm" --quick \
    --threads 1 --output "$odd"
check "study: a picture is drawn in a folder whose name has commands, and none is run" test -s "$odd/norm.svg" \
    -a ! -e no
mkdir bare
for tool in sh awk cat; do ln -s "$(command -v $tool)" bare/$tool; done
check "study: without gnuplot it says so and goes on" \
    sh -c "PATH='$here/bare' '$first' --quick --threads 1 --output no-gnuplot >out.txt && grep -q 'gnuplot' out.txt"

finish
