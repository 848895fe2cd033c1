# Joins files: awk [-v lines=1] -v files=LIST -f names.awk -f join.awk all.h, in the folder of all.h (see join.sh).
#
# A line #include "cpu/gemm.h" stands for the text of that file; the first such line writes it. Refused:
# a file that is missing or in nobody's includes, a circle, an order against all.h. Where a file ends with
# "#endif /* TRF__CUDA */" and the next begins with that condition, it goes on. lines=1: before each line
# stand its file and number, and a tab.

function refuse(why) { print "tools/header: " why >"/dev/stderr"; bad = 1; exit 1 }

# Reads a file, and those that it includes: used[file, n] is the one that line n includes, or "".
function read(file, by,    n, text)
{
    for (n = 1; (getline line[file, n] <file) > 0; n++)
        if (line[file, n] ~ /^#include "/) {
            if (text && file != root) refuse(file ":" n ": this #include stands behind the text of the file")
            used[file, n] = substr(line[file, n], 11, length(line[file, n]) - 11)
        } else if (line[file, n] != "" && line[file, n] != "#pragma once") text = 1
    close(file)
    if (n == 1) refuse(by " includes " file ", which is missing or empty")
    count[file] = n - 1
    for (n = 1; n <= count[file]; n++) if (used[file, n] && !count[used[file, n]]) read(used[file, n], file)
}

# Refuses a file that includes itself through others.
function walk(file,    i, circle)
{
    path[++depth] = file
    for (i = 1; i < depth; i++) if (circle || path[i] == file) circle = circle path[i] " -> "
    if (circle) refuse("a circle: " circle file)
    for (i = 1; i <= count[file]; i++) if (used[file, i] && !walked[used[file, i]]) walk(used[file, i])
    walked[file] = depth--
}

function put(file, number, text) { out[++count_out] = text; origin[count_out] = file ":" number; ended = 0 }

# Writes the lines, and instead of "TRF__NAMES" the list of names.awk, whose lines belong to no file.
function print_all(    i, k)
{
    find_names()
    for (i = 1; i <= count_out; i++)
        if (out[i] != "TRF__NAMES") print (lines ? origin[i] "\t" : "") out[i]
        else for (k = 1; k <= count_names; k++)
            print (lines ? "base/levels.h:0\t" : "") "#define " names[k] " TRF__NAMED(" names[k] ")"
}

# Whether a file begins with the condition that has just ended, "#endif /* CONDITION */".
function goes_on_from(text) { return out[count_out] == "#endif /* " substr(text, 5) " */" && out[count_out - 1] == "" }

function write(file,    i, begun, goes_on)
{
    written[file] = 1
    for (i = 1; i <= count[file]; i++)
        if (used[file, i]) {
            if (file == root) now = used[file, i]
            if (place[used[file, i]] > place[now]) refuse(file " includes " used[file, i] ", which comes later in " root)
            if (!written[used[file, i]]) write(used[file, i])
        } else if (begun || file == root || (line[file, i] != "" && line[file, i] != "#pragma once")) {
            if (ended && file != root && !begun) {
                if (goes_on = goes_on_from(line[file, i]) && line[file, i + 1] == "") count_out -= 2
                put(file, 0, "")                        # a blank line between two files
            }
            if (begun || !goes_on) put(file, i, line[file, i])
            else i++                                    # the blank line behind the condition
            begun = 1
            goes_on = 0
        }
    ended = file != root
}

BEGIN {
    read(root = ARGV[1])
    for (i = 1; i <= count[root]; i++) if (used[root, i]) place[used[root, i]] = i
    walk(root)
    write(root)
    while ((getline file <files) > 0) if (!written[file]) refuse(file ": no file includes it")
    if (!bad) print_all()
    exit bad
}
