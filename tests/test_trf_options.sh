#!/bin/sh
# The source of trf names no option that is not there: sh tests/test_trf_options.sh build/trf
#
# The program knows an option by the field that it writes, AT(field). The compiler refuses a field that the settings do
# not have; this suite finds a field that no row of the table in options.c writes. It also finds a message or a help
# text with a misspelt --option.

. "$(dirname "$0")/trf.sh"

# The fields of the table, and those that anything else is looked up by; AT(member), sizeof is a range of fields, and
# more_... holds the texts of an option that is given again.
sed -n 's/^ *{[A-Z_| ]*, [A-Z_]*, "[a-z0-9-]*", AT(\([a-z0-9_.]*\)),.*/\1/p' "$source"/tools/trf/base/options*.[ch] |
    sort -u >table
check "the table has 180 options or more" [ "$(wc -l <table)" -ge 180 ]
cat "$source"/tools/trf/*.[ch] "$source"/tools/trf/*/*.[ch] | sed 's/AT([a-z_]*), sizeof//g' |
    grep -o 'AT([a-z0-9_.]*)' |
    sed 's/AT(\(.*\))/\1/' | grep -v -x -e field -e '.*[.]more_[a-z]*' | sort -u >used
check "the program looks up 180 fields or more" [ "$(wc -l <used)" -ge 180 ]
comm -13 table used >unknown
check "the program looks up no field that no option writes: $(tr '\n' ' ' <unknown)" [ ! -s unknown ]

# --bind-to is an option of mpirun.
commands=$("$trf" --help | sed -n 's/^  \([a-z]*\)  *[^ ].*/\1/p' | grep -v -x trf)
check "trf --help lists 21 commands" [ "$(echo "$commands" | wc -l)" -eq 21 ]
for command in $commands; do "$trf" "$command" --help all; done >help
{ sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' help; printf '%s\n' help man version bind-to; } | sort -u >options
cat "$source"/tools/trf/*.c "$source"/tools/trf/*/*.c | grep '"' | sed 's/^[^"]*//; s/"[^"]*$//' |
    grep -o -e '--[a-z][a-z0-9-]*[a-z0-9]' | sed 's/--//' | sort -u >named
check "messages name 80 options or more" [ "$(wc -l <named)" -ge 80 ]
comm -13 options named >unknown
check "messages name no option that is not there: $(tr '\n' ' ' <unknown)" [ ! -s unknown ]

finish
