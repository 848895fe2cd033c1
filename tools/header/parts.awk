# Takes an edit of the joined header back into its files: awk -v to=FOLDER/ -f parts.awk LINES DIFF, in
# the folder of all.h. LINES is the header, each line with its origin (join.awk lines=1). DIFF is what
# `diff` prints of the header and of the edited one. Writes the files that change into FOLDER, which
# has copies of all, and prints their names. A new line goes into the file of the line before it; a blank
# line between two files is in neither.

FNR == NR {
    split($0, part, "\t")
    split(part[1], part, ":")
    file[FNR] = part[1]
    number[FNR] = part[2]
    next
}
/^[0-9]/ {                                      # 12,14c12,13: lines 12 to 14 change
    if (hunks++) add()
    split($0, side, /[,acd]/)
    at = side[1]
    last = $0 ~ /^[0-9]+,/ ? side[2] : at
    if ($0 ~ /^[0-9,]+a/) last = at - 1
    for (i = at; i <= last; i++) { gone[file[i], number[i]] = 1; touched[file[i]] = 1 }
}
/^> / { added = added substr($0, 3) "\n" }

# Puts the added lines below line `at`. Below a blank line between two files they begin the second one;
# but if they end with a blank line, they end the first one, as if the other blank line were the new one.
function add()
{
    if (added ~ /(^|\n)\n$/ && at > 0 && number[at] == 0) { added = "\n" substr(added, 1, length(added) - 1); at-- }
    if (at == 0 || number[at] == 0) { at++; above[file[at], number[at]] = added }
    else below[file[at], number[at]] = added
    touched[file[at]] = 1
    added = ""
}
END {
    if (hunks) add()
    for (name in touched) {
        printf "" >(to name)
        for (n = 1; (getline line <name) > 0; n++)
            printf "%s%s%s", above[name, n], gone[name, n] ? "" : line "\n", below[name, n] >(to name)
        close(to name)
        print name
    }
}
