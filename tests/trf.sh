# What the suites of the command line share. A suite begins with: . "$(dirname "$0")/trf.sh", and ends
# with: finish
#
# It makes data in a temporary folder and goes there. A source is digits, its target their names in
# reverse order ("3 1 4", "four one three").

trf=${1:?usage: SUITE PATH_OF_TRF}
case $trf in /*) ;; *) trf=$PWD/$trf ;; esac
[ -x "$trf" ] || { echo "$trf is not there"; exit 1; }
. "$(dirname "$0")/checks.sh"

# expect STATUS NAME MESSAGE COMMAND...: the exit status, and a basic regular expression that the
# output or the messages contain
expect()
{
    wanted=$1 name=$2 message=$3
    shift 3
    "$@" >out 2>err
    status=$?
    if [ $status -eq "$wanted" ] && { [ -z "$message" ] || grep -q -e "$message" out err; } &&
        ! grep -q ': Success' err; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: exit status $status instead of $wanted," \
            "or no '$message' in, or 'Success' as a reason:"
        sed 's/^/    /' err
    fi
}

# anew: trf with --overwrite unless there is --resume, for suites that use a name again
cat >anew <<EOF
case " \$* " in *" --resume "*) exec "$trf" "\$@" ;; esac
case \$1 in
train|translate|generate|classify|tag|embed|score|attention|average|prepare|plot|report)
    command=\$1; shift; exec "$trf" \$command --overwrite "\$@" ;;
esac
exec "$trf" "\$@"
EOF
sed -i '1i#!/bin/sh' anew
chmod +x anew
anew=$here/anew

# silent NAME: one line is on standard error, and nothing else
silent() { check "$1: one line and nothing else" test "$(wc -l <err)" -eq 1; }
same() { cmp -s "$1" "$2"; }
# wait_until COMMAND...: until it succeeds, as a program that runs beside has come so far. Two minutes
# tell a hang, which is a failure.
wait_until()
{
    tries=0
    until "$@" 2>/dev/null; do
        [ $tries -lt 6000 ] || { check "waited for two minutes until: $*" false; return 1; }
        sleep 0.02
        tries=$((tries + 1))
    done
}
# wait_for PATTERN FILE: until such a line is there
wait_for() { wait_until grep -q -e "$1" "$2"; }
# wait_busy PID N: until the process has computed for N hundredths of a second more
ticks() { cut -d ' ' -f 14 "/proc/$1/stat"; }
has_ticks() { [ "$(ticks "$1")" -ge "$2" ]; }
wait_busy() { wait_until has_ticks "$1" $(($(ticks "$1") + $2)); }
# wait_end PID: until the process has ended, whose exit status `wait` then tells
is_over() { ! kill -0 "$1" || grep -q '^State:.Z' "/proc/$1/status"; }
wait_end() { wait_until is_over "$1"; }
lines_are() { [ "$(wc -l <"$2")" -eq "$1" ]; }

# pairs N SEED: writes N pairs as source, tab, target
pairs()
{
    awk -v n="$1" -v x="$2" 'BEGIN {
        split("one two three four five six seven eight nine", name, " "); name[0] = "zero";
        for (i = 0; i < n; i++) {
            x = (x * 1103515245 + 12345) % 2147483648; k = 1 + int(x / 65536) % 5;
            s = t = "";
            for (j = 0; j < k; j++) {
                x = (x * 1103515245 + 12345) % 2147483648; d = int(x / 65536) % 10;
                s = s (j ? " " : "") d; t = name[d] (j ? " " : "") t;
            }
            print s "\t" t;
        }
    }'
}

pairs 600 1 >train.tsv
pairs 40 77 >test.tsv
pairs 2000 3 >more.tsv
for f in train test; do cut -f1 $f.tsv >$f.digits; cut -f2 $f.tsv >$f.names; done
tr -d ' ' <train.digits | paste - train.names >letters.tsv

# Options of training runs; trf takes an option once. A suite adds --updates and --model.
model="--d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --decoder-layers 1"
brief="--batch-tokens 256 --log-every 10 --metric loss"
short="$model $brief --warmup 20"
small="$short --seed 5 --threads 1"
files="--source train.digits --target train.names"
plain="--tsv train.tsv $small"
# kept: with validation and an average; quick: of any objective; rough: fast and noisy
kept="$files $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 --metric loss \
    --valid-size 40"
quick="--size tiny --d-model 16 --n-heads 2 --d-ff 32 --batch-tokens 256 --warmup 30 \
    --learning-rate 0.01 \
    --dropout 0 --seed 5 --threads 1"
rough="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-every 10 --metric loss --ema 0 \
    --warmup 2 \
    --dropout 0.3 --schedule constant"
