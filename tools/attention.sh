#!/bin/sh
# Draws which source tokens each target token attends to: sh tools/attention.sh [ANSWERS] >PICTURE.svg
#
# ANSWERS (or standard input) is what `trf translate --json --attention` writes; the first answer of its first line is drawn.
# A row is a target token, a column a source token, "end" the end mark. A darker square is a larger attention weight.
# The weights of a row sum to 1.
#
# The picture of README.md, after `make demo` has left translate.safetensors behind:
#
#     echo 'i know that the dog helps the old king .' |
#         build/trf translate --model translate.safetensors --json --attention | sh tools/attention.sh >tools/attention.svg

LC_ALL=C awk '
# The text between `key` and the first `end` behind it.
function between(line, key, end,    at) {
    at = index(line, key)
    if (!at) return ""
    line = substr(line, at + length(key))
    return substr(line, 1, index(line, end) - 1)
}

# A JSON list of strings as XML text; returns how many there are.
function words(list, out,    n, i) {
    sub(/^"/, "", list)
    sub(/"$/, "", list)
    n = split(list, out, "\",\"")
    for (i = 1; i <= n; i++) {
        gsub(/\\"/, "\"", out[i])
        gsub(/\\\\/, "\\", out[i])
        gsub(/&/, "\\&amp;", out[i])
        gsub(/</, "\\&lt;", out[i])
    }
    return n
}

function longest(list, n,    i, most) {
    for (i = 1; i <= n; i++) if (length(list[i]) > most) most = length(list[i])
    return most
}

NR == 1 {
    columns = words(between($0, "\"source_tokens\":[", "],\"answers\""), source)
    words(between($0, "\"tokens\":[", "],\"attention\""), target)
    rows = split(between($0, "\"attention\":[[", "]]"), weights, /\],\[/)
    if (!columns || !rows) exit 1
    drawn = 1
    source[++columns] = "end"
    if (!(rows in target)) target[rows] = "end"
    left = 20 + 8 * longest(target, rows)
    top = 20 + 8 * longest(source, columns)
    size = 28
    width = left + size * columns + 10
    height = top + size * rows + 10
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", width, height, width, height
    print "font-family=\"sans-serif\" font-size=\"14\">"
    printf "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height
    for (j = 1; j <= columns; j++)
        printf "<text transform=\"translate(%d,%d) rotate(-90)\">%s</text>\n", left + size * (j - 0.5) + 5, top - 6, source[j]
    for (i = 1; i <= rows; i++) {
        printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left - 8, top + size * (i - 0.5) + 5, target[i]
        split(weights[i], weight, ",")
        for (j = 1; j <= columns; j++)
            printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,%d)\" stroke=\"#ccd\"/>\n", left + size * (j - 1),
                top + size * (i - 1), size, size, 255 - 224 * weight[j], 255 - 177 * weight[j], 255 - 99 * weight[j]
    }
    print "</svg>"
    exit
}

END {
    if (drawn) exit
    print "attention.sh: the first line is no answer of trf translate --json --attention" >"/dev/stderr"
    exit 1
}' "$@"
