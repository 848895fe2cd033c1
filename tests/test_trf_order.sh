#!/bin/sh
# The files of trf use only those below them: sh tests/test_trf_order.sh build/trf
#
# The comment at the top of tools/trf/trf.h lists all files in order. This suite reads the list and the sources, and fails
# where a function or a variable of a file is used by a file that is listed below it, where a file includes the header of one
# above it (but the headers that several files share), where a file is not listed or not there, and where a file is longer
# than 660 lines.

. "$(dirname "$0")/trf.sh"

# order FOLDER: says what is wrong with the files there; nothing if all is well
order()
{
    sed -n -e '/^#ifndef/q' -e 's@^//   *\(\([a-z_0-9]*\.cc*, \)*[a-z_0-9]*\.cc*\).*@\1@p' "$1/trf.h" | tr -d ' ' | tr ',' '\n' >listed
    (cd "$1" && ls -- *.c *.cc 2>/dev/null) | sort >there
    sort listed | uniq -d | sed 's/$/ is listed twice/'
    sort -u listed | comm -23 there - | sed 's/$/ is not listed/'
    sort -u listed | comm -13 there - | sed 's/$/ is listed, but not there/'
    for file in $(cat listed); do
        [ -f "$1/$file" ] || continue
        # the code alone: without characters, texts and comments
        sed -e "s/'\\\\*.'/0/g" -e 's/"\([^"\\]\|\\.\)*"/""/g' -e 's://.*::' "$1/$file" |
            awk -v file="$file" '{
                while (1) {
                    if (inside) { if (!(n = index($0, "*/"))) { $0 = ""; break } $0 = substr($0, n + 2); inside = 0 }
                    if (!(n = index($0, "/*"))) break
                    rest = substr($0, n + 2); before = substr($0, 1, n - 1)
                    if ((m = index(rest, "*/"))) $0 = before " " substr(rest, m + 2); else { $0 = before; inside = 1; break }
                }
                print file ":" $0 }'
    done >code
    # what a file defines: at the beginning of a line; and what it uses: a call, or a variable that is no field
    awk 'FNR == NR { number[$1] = ++n; name[n] = $1; next }
        { at = index($0, ":"); f = number[substr($0, 1, at - 1)]; line = substr($0, at + 1) }
        line ~ /^(extern "C" )?[a-z][A-Za-z0-9_ *]*[ *][a-z_0-9]+(\(|\[?[^;(]* = |\[\]|, |;)/ &&
            line !~ /^(typedef|struct [a-z_]+ *\{|enum|return|goto|else)/ {
            word = line
            if (!match(word, /[a-z_0-9]+ *(\(|\[| = |,|;)/)) next
            word = substr(word, RSTART, RLENGTH); sub(/ *(\(|\[| = |,|;)$/, "", word)
            if (line ~ /^static/) { own[f, word] = 1; next }
            if (line ~ /\)[ ;]*$/ && line ~ /;$/) next
            defined[word] = f; call[word] = line ~ /^[^=\[]*\(/
        }
        { count[f]++; text[f, count[f]] = line }
        END {
            for (f = 1; f <= n; f++) for (i = 1; i <= count[f]; i++) {
                line = text[f, i]
                while (match(line, /(->|\.)?[A-Za-z_][A-Za-z_0-9]*\(?/)) {
                    word = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
                    if (word ~ /^(->|\.)/) continue
                    called = sub(/\($/, "", word)
                    if (!(word in defined) || defined[word] >= f || (f, word) in own || call[word] != called) continue
                    if (!told[f, word]++) print name[f] " uses " word " of " name[defined[word]] ", which is listed above it"
                }
            }
        }' listed code
    for file in $(cat listed); do
        # x.c and x.h may include y.h if y.c is below x.c
        cat "$1/$file" "$1/${file%.*}.h" 2>/dev/null | sed -n 's/^#include "\([a-z_]*\)\.h".*/\1.c/p' | sort -u |
            grep -v -x -e report.c -e plot.c -e inspect.c -e options.c -e import.c -e export.c |
            awk -v file="$file" 'FNR == NR { number[$1] = FNR; next }
                $1 in number && number[$1] < number[file] { print file " includes the header of " $1 ", which is listed above it" }' listed -
    done
    for file in $(cat there); do
        lines=$(wc -l <"$1/$file")
        [ "$lines" -le 660 ] || echo "$file has $lines lines"
    done
}

order "$source/tools/trf" >wrong
check "all files of trf are listed, in order: $(tr '\n' ';' <wrong)" [ ! -s wrong ]
check "there are many" [ "$(wc -l <listed)" -ge 50 ]

# What this suite is to find.
mkdir made
cat >made/trf.h <<'EOF'
//   main.c      the commands
//   middle.c, lost.c    other ones
//   text.c      text
#ifndef TRF_TOOL_H
EOF
echo 'int main(void) { return middle(); }' >made/main.c
printf 'int upper = 3;\n\nint middle(void)\n{\n    return say("lower(")\n         + upper;   /* below() */\n}\n' >made/middle.c
printf 'static int main_like(void) { return 1; }\n\nint say(const char *upper_text)\n{\n    return main_like() + *upper_text;\n}\n' >made/text.c
: >made/lost.c
order made >wrong
check "a good order is one" [ ! -s wrong ]
echo 'int below(void) { return middle(); }' >>made/text.c
order made >wrong
check "a call upwards is found" grep -q -x 'text.c uses middle of middle.c, which is listed above it' wrong
check "alone" lines_are 1 wrong
printf 'int below(void) { return upper; }\n' >made/text.c
order made >wrong
check "a variable is found" grep -q -x 'text.c uses upper of middle.c, which is listed above it' wrong
printf '#include "middle.h"\n' >made/text.c
order made >wrong
check "a header is found" grep -q -x 'text.c includes the header of middle.c, which is listed above it' wrong
rm made/lost.c
echo >made/new.c
order made >wrong
check "a file that is not listed is found" grep -q -x 'new.c is not listed' wrong
check "one that is not there too" grep -q -x 'lost.c is listed, but not there' wrong

finish
