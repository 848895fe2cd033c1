#!/bin/sh
# examples/resume.c, ended by Ctrl-C and run again, gives the model of a run without an end:
# sh tests/resume.sh build/resume
resume=${1:?usage: resume.sh PATH_OF_RESUME}
case $resume in /*) ;; *) resume=$PWD/$resume ;; esac
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
trap 'kill $! 2>/dev/null; exit 1' INT TERM HUP
mkdir "$here/whole" "$here/parts"
cd "$here/whole" && "$resume" >out || exit 1
cd "$here/parts" || exit 1
"$resume" >out & tries=0
until [ -s resume.checkpoint ] || [ $tries -ge 3000 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -TERM $! && wait $! || exit 1
[ ! -e resume.safetensors ] || { echo "it did not end"; exit 1; }
"$resume" >out || exit 1
cat out
grep -q '^continues after update [1-9]' out && cmp resume.safetensors ../whole/resume.safetensors
