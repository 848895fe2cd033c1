#!/bin/sh
# The rooms of trf use one another one way: sh tests/test_trf_order.sh build/trf
#
# A folder of tools/trf is a room, and one header is its door. Files include what is in their own room, and doors of
# rooms below: base is below all, answer is below look, main.c and manual.c are above all. Objects tell the same by the
# names that they define and use; among the files of a room these make no circle.

. "$(dirname "$0")/trf.sh"

# allowed ROOM: the rooms that it may use
allowed()
{
    case $1 in
    base) ;;
    look) echo base answer ;;
    top) echo base train answer publish look ;;
    *) echo base ;;
    esac
}
rooms="base train answer publish look"
# wrong_includes FOLDER: what files there include that they may not
wrong_includes()
{
    for room in $rooms top; do
        files=$1/$room/*.[ch]*
        [ $room != top ] || files=$1/*.[ch]
        for other in $rooms; do
            [ $other != $room ] || continue
            door="none at all"
            case " $(allowed $room) " in *" $other "*) door=$other/$other.h ;; esac
            grep -n "^#include \"$other/" $files /dev/null | grep -v "\"$door\""
        done
    done
}
wrong_includes "$source/tools/trf" >wrong
check "files include only doors of rooms below: $(cat wrong)" [ ! -s wrong ]

# The check finds what it is for.
mkdir -p house/base house/train house/look && touch house/train/none.c house/look/none.c house/main.c
echo '#include "train/train.h"' >house/base/up.c
echo '#include "base/objective.h"' >house/look/window.c
echo '#include "train/data.h"' >house/main.c
for room in answer publish; do mkdir house/$room && touch house/$room/none.c; done
wrong_includes house >wrong
check "this suite finds an include of a room above and two beside a door" \
    [ "$(grep -c -e base/up.c -e look/window.c -e main.c wrong)" = 3 ]

# uses OBJECTS: "user used" for each two objects of which one uses a name of the other
uses()
{
    (cd "$1" && find . -name '*.o' | while read -r object; do nm "$object" | sed "s|^|$object |"; done) |
        awk '$3 ~ /^[TDBRC]$/ { home[$4] = $1 } $2 == "U" { n++; user[n] = $1; name[n] = $3 }
             END { for (i = 1; i <= n; i++)
                       if (home[name[i]] && home[name[i]] != user[i]) print user[i], home[name[i]] }' | sort -u
}
objects=$(dirname "$trf")/objects/trf
if [ -d "$objects" ] && command -v nm >/dev/null; then
    uses "$objects" >used
    check "objects use names of one another, more than 200 times" [ "$(wc -l <used)" -gt 200 ]
    awk '{ for (i = 1; i <= 2; i++) { n = split($i, p, "/"); room[i] = n > 2 ? p[2] : "top" }
           if (room[1] != room[2]) print room[1], room[2] }' used | sort -u >ways
    while read -r room other; do
        case " $(allowed $room) " in *" $other "*) ;; *) echo "$room uses $other" ;; esac
    done <ways >wrong
    check "objects use only rooms below: $(cat wrong)" [ ! -s wrong ]
    tsort used >order 2>circles
    check "objects use one another in no circle: $(cat circles)" [ ! -s circles ]
else echo "left out: what the objects use (no objects beside trf, or no nm)"
fi

finish
