# Finds the places of tests/mutate.sh in a C file: a text within the definition of a function,
# macro, table, struct or enum.
#
#     awk -f tests/mutate.awk FILE ROWS
#         reports every row that does not have its text exactly once
#     PLACE=p TEXT=t BECOMES=b awk -f tests/mutate.awk FILE
#         prints FILE with this fault; fails, and prints nothing, where the text is not there once
#     ALONE=" 3 17 " awk -f tests/mutate.awk FILE ROWS
#         prints FILE with the faults of all rows in functions but those numbered in ALONE: the
#         environment chooses one when the program runs, TRF_FAULT=5 that of row 5
#     LIST= awk -f tests/mutate.awk FILE
#         the definitions: name, first and last line
#
# A definition begins in the first column. Its name is that of the function, macro, variable or
# type; an enum without a name is called by its first constant. Definitions may share a name, as the
# branches of an #if do, or overloads for host and device: then the text is looked for in all of
# them. A place such as `name(int a` selects those whose parameters begin so. White space does not
# count: it may differ, or be absent, in the place, the text and the file.

function bare(s) { gsub(/[ \t\n\r]|\\\n/, "", s); return s }

# How often `text` stands in `s`.
function count(s, text,    n, at)
{
    for (n = 0; at = index(s, text); n++) s = substr(s, at + 1)
    return n
}

# The code of a line: without comments and what stands in quotes.
function code_of(s)
{
    gsub(/\\./, "", s)
    gsub(/"[^"]*"/, "\"\"", s)
    gsub(/'[^']'/, "0", s)
    if (in_comment) {
        if (!match(s, /\*\//)) return ""
        s = substr(s, RSTART + 2)
        in_comment = 0
    }
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, " ", s)
    sub(/\/\/.*/, "", s)
    if (match(s, /\/\*/)) { in_comment = 1; s = substr(s, 1, RSTART - 1) }
    return s
}

# What a definition is called, with its parameters: name(inta,intb) or name.
function title_of(head,    s)
{
    s = head
    gsub(/__declspec *\([^)]*\)|__attribute__ *\(\([^)]*\)\)/, "", s)
    sub(/^ +/, "", s)
    if (s ~ /^(typedef )?(struct|union|enum)[ {]/ && s !~ /^[^{;]*[(=]/) {
        if (s ~ /^(typedef )?enum *\{/ && s !~ /\} *[a-z]/) {      # no name: its first constant
            sub(/^[^{]*\{ */, "", s); sub(/[^A-Za-z0-9_].*/, "", s)
            return s
        }
        if (s ~ /^typedef/) {
            sub(/[ ;]*$/, "", s); sub(/\[.*$/, "", s); sub(/^.*[^A-Za-z0-9_]/, "", s)
            return s
        }
        sub(/^(struct|union|enum) */, "", s); sub(/[^A-Za-z0-9_].*/, "", s)
        return s
    }
    sub(/[{=;].*/, "", s)
    if (sub(/^TRF__TILE\(/, "", s)) { sub(/\).*/, "", s); return s }
    if (match(s, /trf_[a-z0-9_]*(\(|$)/) || match(s, /[a-z][A-Za-z0-9_]*\(/))
        return bare(substr(s, RSTART))
    sub(/[[ ]*[^A-Za-z0-9_]*(\[.*)?$/, "", s)
    sub(/^.*[^A-Za-z0-9_]/, "", s)
    return s
}

function define(title, from, to)
{
    n++
    titles[n] = title; first[n] = from; last[n] = to
}

NR == FNR {
    line[FNR] = $0
    lines = FNR
    code = code_of($0)
    if (begin && macro) {                              # the lines of a macro
        if ($0 !~ /\\$/) { define(name, begin, FNR); begin = 0 }
        next
    }
    if (directive) { directive = $0 ~ /\\$/; next }
    if (code ~ /^[ \t]*#/) {
        if (!begin && match(code, /^# *define +/)) {
            name = substr(code, RSTART + RLENGTH)
            sub(/[^A-Za-z0-9_].*/, "", name)
            if ($0 ~ /\\$/) { begin = FNR; macro = 1 } else define(name, FNR, FNR)
        } else directive = $0 ~ /\\$/
        next
    }
    if (!begin) {
        if (code !~ /^[A-Za-z_]/ || code ~ /^extern ""/ || code ~ /^TRF__FOR_(SIZE|SPEED)/) next
        begin = FNR; macro = depth = round = 0; head = ""
    }
    head = head " " code
    depth += gsub(/\{/, "{", code) - gsub(/\}/, "}", code)
    round += gsub(/\(/, "(", code) - gsub(/\)/, ")", code)
    if ($0 ~ /^\}/ || (depth <= 0 && round <= 0 && code ~ /[;}][ \t]*$/)) {
        gsub(/[ \t]+/, " ", head)
        sub(/^ /, "", head)
        define(title_of(head), begin, FNR)
        begin = 0
    }
    else if (round <= 0 && head ~ /^ TRF__[A-Z_]+\(/ && head !~ /^ TRF__TILE\(/) begin = 0  # a macro that makes a function
    next
}

# Whether definition i is at the place.
function is_at(i, place)
{
    if (index(titles[i], place) != 1) return 0
    return place ~ /\(/ || substr(titles[i], length(place) + 1, 1) !~ /[A-Za-z0-9_]/
}

function text_of(i,    s, k)
{
    s = line[first[i]]
    for (k = first[i] + 1; k <= last[i]; k++) s = s "\n" line[k]
    return s
}

# How often the text stands there; -1 if there is no such place. `found` is the last definition
# that has the text.
function look(place, text,    i, k, times, there)
{
    place = bare(place); text = bare(text); times = there = 0
    for (i = 1; i <= n; i++) {
        if (!is_at(i, place)) continue
        there = 1
        if (!(i in stripped)) stripped[i] = bare(text_of(i))
        k = count(stripped[i], text)
        if (k) { times += k; found = i }
    }
    return there ? times : -1
}

# Definition i with the text, which stands in it once, replaced. `from` is where it began.
function planted(i, text, becomes,    s, all, at, k, c, seen, to)
{
    s = text_of(i)
    text = bare(text)
    at = index(bare(s), text)
    all = length(s)
    for (k = 1; k <= all && !to; k++) {
        c = substr(s, k, 1)
        if (c ~ /[ \t\n\r]/ || substr(s, k, 2) == "\\\n") continue
        seen++
        if (seen == at) from = k
        if (seen == at + length(text) - 1) to = k
    }
    return substr(s, 1, from - 1) becomes substr(s, to + 1)
}

# The part of FILE that chooses a fault before main.
function chooser()
{
    print "static int trf__fault;"
    print "static __attribute__((constructor)) void trf__choose_fault(void)"
    print "{"
    print "    const char *number = getenv(\"TRF_FAULT\");"
    print "    if (number) trf__fault = atoi(number);"
    print "}"
}

# A function's body inside another body: no line of it may look like the end of the function (private.awk).
function inner(body)
{
    sub(/\n}$/, "\n }", body)
    return body
}

# A function with faults has its body once for each, and the sound one last.
"ALONE" in ENVIRON {
    split($0, field, / @@ /)
    if (index(ENVIRON["ALONE"], " " FNR " ") || look(field[3], field[4]) != 1) next
    if (titles[found] !~ /\(/) next
    text = planted(found, field[4], field[5])
    brace = index(text, "{")
    if (brace && brace < from)
        faulty[found] = faulty[found] "if (trf__fault == " FNR ") " inner(substr(text, brace)) "\nelse "
    next
}

# Rows: name @@ suites @@ place @@ text @@ what it becomes
{
    if (split($0, field, / @@ /) != 5 || $0 in rows) {
        print "not a row, or the same row again: " $0
        bad++
        next
    }
    rows[$0]
    times = look(field[3], field[4])
    if (times == 1) next
    bad++
    if (times < 0) print field[1] ": there is no " field[3]
    else print field[1] ": " times " times in " field[3] ": " field[4]
}

END {
    if ("LIST" in ENVIRON) {
        for (i = 1; i <= n; i++) print titles[i] "\t" first[i] "\t" last[i]
    } else if ("PLACE" in ENVIRON) {
        if (look(ENVIRON["PLACE"], ENVIRON["TEXT"]) != 1) exit 1
        for (k = 1; k <= lines; k++) {
            if (k != first[found]) { print line[k]; continue }
            print planted(found, ENVIRON["TEXT"], ENVIRON["BECOMES"])
            k = last[found]
        }
    } else if ("ALONE" in ENVIRON) {
        for (i in faulty) at_line[first[i]] = i
        for (k = 1; k <= lines; k++) {
            if (!(k in at_line)) print line[k]
            else {
                text = text_of(at_line[k])
                brace = index(text, "{")
                head = substr(text, 1, brace - 1)
                sub(/[ \n]+$/, "", head)            # private.awk: a body begins with a line of its own
                print head "\n{\n" faulty[at_line[k]] inner(substr(text, brace)) "\n}"
                k = last[at_line[k]]
            }
            if (line[k] ~ /^#include <stdlib.h>/) chooser()
        }
    } else {
        print FNR - bad " passed, " bad + 0 " failed"
        exit bad > 0
    }
}
