#!/bin/sh
# examples/learn.c, interrupted twice and run again, ends with the bytes of a run without a break:
# sh tests/learn.sh build/learn
learn=${1:?usage: learn.sh PATH_OF_LEARN}
case $learn in /*) ;; *) learn=$PWD/$learn ;; esac
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
trap 'kill $! 2>/dev/null; exit 1' INT TERM HUP
cd "$here" || exit 1
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d %d\t%d %d\n", i % 7, i % 5, i % 5, i % 7 }' >pairs
"$learn" pairs whole >out || exit 1
trap '' INT                             # until the program has its own handler
for interruption in 1 2; do             # each once there is a new checkpoint
    cp parts.checkpoint before 2>/dev/null || : >before
    "$learn" pairs parts >>out & tries=0
    until { [ -s parts.checkpoint ] && ! cmp -s parts.checkpoint before; } || [ $tries -ge 600 ]; do
        sleep 0.1; tries=$((tries + 1))
    done
    kill -INT $!
    wait $!
    [ $? -eq 130 ] || { echo "it was not interrupted"; cat out; exit 1; }
done
[ -s parts.checkpoint ] && [ ! -e parts ] || exit 1
"$learn" pairs parts >>out || exit 1
[ ! -e parts.checkpoint ] && [ "$(grep -c '^continuing after update [1-9]' out)" = 2 ] && cmp whole parts
