# The names that the chapters of >>levels define, for the list at TRF__NAMES (join.awk has the lines in `out`).
#
# The chapters stand between "#if defined(TRF__ONCE) || TRF__LEVEL" and its #endif. Theirs is each name that
# no line before uses, if it is no macro. What no level changes stands there under "#if !defined(TRF__LEVEL)".

# Drops comments and text in quotes; `comment` says that one goes on.
function bare(text)
{
    if (comment && !sub(/^.*\*\//, "", text)) return ""
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\/|"[^"]*"|\/\/.*/, "", text)
    comment = sub(/\/\*.*/, "", text)
    return text
}

function find_names(    i, text, name, depth, here, same, n)
{
    for (i = 1; i <= count_out; i++) {
        text = bare(out[i])
        if (text ~ /^#if.*defined\(TRF__ONCE\).*TRF__LEVEL/ && !here) here = depth + 1
        if (text ~ /^#if !defined\(TRF__LEVEL\)/ && here) same = depth + 1
        if (text ~ /^ *# *if/) depth++
        if (text ~ /^ *# *endif/ && depth == same) same = 0
        if (text ~ /^ *# *endif/ && depth-- == here) here = 0
        sub(/^ *# *(if.*|elif.*|undef.*)/, "", text)
        if (match(text, /^ *# *define [A-Za-z0-9_]+/)) {
            name = substr(text, RSTART, RLENGTH)
            sub(/.* /, "", name)
            macro[name] = 1
        }
        while (match(text, /[A-Za-z0-9_]+/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (name ~ /^(trf|TRF)__/ && !(name in used_at)) { used_at[name] = here; if (here && !same) found[++n] = name }
        }
    }
    for (i = 1; i <= n; i++) if (!(found[i] in macro)) names[++count_names] = found[i]
}
