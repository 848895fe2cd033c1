#!/bin/sh
# What trf train gives without a single option: sh tools/data/check_defaults.sh BUILD [DATA [TASK...]]
#
# Fourteen tasks; each is trained with nothing but its data, measured on pairs that it has not seen, and compared with
# the best that any settings have reached (the column "best": see tools/data/defaults.md; where nothing is left to gain,
# with 100). It fails where the defaults are more than two points behind. DATA is a folder with cmudict/train.tsv,
# cmudict/dev.tsv (word, tab, phones), multi30k/train.en, train.de, test.2016.en, test.2016.de, and languages/train.tsv,
# test.tsv (text, tab, label); tasks without their data are left out. Hours on two cores, most of them for the phones.

build=${1:?usage: check_defaults.sh BUILD [DATA [TASK...]]}
data=${2:-}
[ $# -ge 2 ] && shift 2 || shift 1
tasks=${*:-dates reversal grammar unsegmented glossary marks rows numbers repeated code sampling lines language phones}
build=$(cd "$build" && pwd) || exit 1
[ -z "$data" ] || data=$(cd "$data" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1

# plain FILE: joins what subword-nmt has cut
plain() { sed 's/@@ //g' "$1"; }

# The pairs to learn from and to test on.
make_task()
{
    case $1 in
    dates|reversal) "$build/tasks" "$1" 20000 1 >train.tsv && "$build/tasks" "$1" 1000 99 >test.tsv ;;
    grammar) "$build/tasks" grammar 20000 1 >train.tsv && "$build/tasks" grammar 1000 0 >test.tsv ;;
    numbers|repeated|code) "$build/tasks" "$1" 6000 1 >train.tsv && "$build/tasks" "$1" 500 99 >test.tsv ;;
    unsegmented|glossary|marks|rows) "$build/tasks" "$1" 3000 1 >train.tsv && "$build/tasks" "$1" 500 99 >test.tsv ;;
    lines)
        for side in en de; do
            plain "$data/multi30k/train.$side" | head -n 5000 >train.$side; plain "$data/multi30k/test.2016.$side" \
                >test.$side
        done
        paste train.en train.de >train.tsv && paste test.en test.de >test.tsv ;;
    phones) cp "$data/cmudict/train.tsv" train.tsv && cp "$data/cmudict/dev.tsv" test.tsv ;;
    esac
}

# One line a source, its targets with tabs between them: any of them counts.
gather() { awk -F '\t' '
    { if ($1 in at) all[at[$1]] = all[at[$1]] "\t" $2; else { at[$1] = ++n; source[n] = $1; all[n] = $2 } }
    END { for (i = 1; i <= n; i++) { print source[i] >"test.source"; print all[i] >"test.target" } }' test.tsv; }

# A language model beside the text that it has learned: fifty lines, ten of which are half of the text, ten a quarter,
# and so on. Of each ten the share among 40,000 lines that it draws counts as far as they have it in the text: lines of
# its own, unknown words, and too many of one kind are missing in the sum.
sample()
{
    "$build/tasks" rows 5000 1 | cut -f 2 | awk '{ n[$0]++ } END { for (l in n) if (n[l] > 1) print l }' | sort |
        head -n 50 >lines
    awk 'BEGIN { split("150 75 40 20 15", times, " ") } { for (i = 0; i < times[int((NR - 1) / 10) + 1]; i++) print }' \
        lines >text
    began=$(date +%s)
    "$build/trf" train --objective causal --text text --model model 2>log || { cat log; return 1; }
    minutes=$((($(date +%s) - began + 30) / 60))
    "$build/trf" generate --model model --count 40000 --seed 1 --output drawn 2>log.generate ||
        { cat log.generate; return 1; }
    got=$(awk 'FILENAME == "lines" { ten[$0] = int((NR - 1) / 10); next } !($0 in ten) { next }
        FILENAME == "text" { wanted[ten[$0]] += 1 / 3000; next } { drawn[ten[$0]] += 1 / 40000 }
        END { for (i = 0; i < 5; i++) sum += wanted[i] < drawn[i] ? wanted[i] : drawn[i]; print 100 * sum }' \
        lines text drawn)
}

# Labels of texts.
labels()
{
    began=$(date +%s)
    "$build/trf" train --objective classify --tsv "$data/languages/train.tsv" --model model 2>log ||
        { cat log; return 1; }
    minutes=$((($(date +%s) - began + 30) / 60))
    cut -f 1 "$data/languages/test.tsv" | "$build/trf" classify --model model 2>log.classify | cut -f 1 >answers ||
        { cat log.classify; return 1; }
    got=$(cut -f 2 "$data/languages/test.tsv" | paste - answers | awk '{ n += $1 == $2 } END { print 100 * n / NR }')
}

failed=0
printf '%-10s %-8s %8s %8s %9s %9s\n' task figure defaults best updates minutes
for task in $tasks; do
    case $task in
    dates)    figure=exact best=100.0 ;;
    reversal) figure=exact best=100.0 ;;
    grammar)  figure=exact best=100.0 ;;
    lines)    figure=bleu  best=23.3 ;;
    phones)   figure=exact best=76.1 ;;
    unsegmented|glossary|marks|rows|numbers|repeated|code) figure=exact best=100.0 ;;
    language) figure=labels best=91.5 ;;
    sampling) figure=shares best=100.0 ;;
    *) echo "no task is called $task"; exit 2 ;;
    esac
    case $task in
    lines|phones) [ -n "$data" ] || { echo "left out: $task: no DATA"; continue; } ;;
    language) [ -f "$data/languages/train.tsv" ] || { echo "left out: $task: no DATA"; continue; } ;;
    esac
    rm -f -- * || exit 1
    if [ $task = sampling ]; then sample || exit 1
    elif [ $task = language ]; then labels || exit 1
    else
    make_task $task && gather || exit 1
    began=$(date +%s)
    "$build/trf" train --tsv train.tsv --model model 2>log || { cat log; exit 1; }
    minutes=$((($(date +%s) - began + 30) / 60))
    "$build/trf" translate --model model --input test.source --output answers 2>log.translate ||
        { cat log.translate; exit 1; }
    tokenize=13a
    [ $task = lines ] && tokenize=none
    got=$("$build/trf" eval test.target answers --alternatives --tokenize $tokenize --metrics $figure |
        sed -n 's/^[^=]* = \([0-9.]*\).*/\1/p' | head -n 1)
    fi
    updates=$(sed -n 's/^done: \([0-9]*\) updates.*/\1/p' log)
    printf '%-10s %-8s %8s %8s %9s %9s\n' $task $figure "$got" $best "$updates" "$minutes"
    awk -v got="$got" -v best=$best 'BEGIN { exit !(got + 2 >= best) }' || { echo "    more than two points behind"; \
        failed=1; }
done
exit $failed
