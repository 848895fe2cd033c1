#!/bin/sh
# One model trained by several processes: sh tests/test_trf_mpi.sh build/trf
#
# A trf without MPI says what it lacks. One that is built here with it, by make MPI=1, makes the same bytes by 1, 2, 3,
# 4 and 7 processes as by one that computes as many parts; interrupted by every signal, with a process that is slow, and
# continued by fewer processes, too. What goes wrong in one process ends all. Then examples/ranks.c and
# examples/pipeline.c.

. "$(dirname "$0")/trf.sh"

# --- without MPI ----------------------------------------------------------------------------------
if "$trf" --version | grep -q 'built without MPI'; then
    for names in "OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK" "PMI_SIZE PMI_RANK"; do
        set -- $names
        expect 1 "without MPI ($1)" "started 4 processes, but this trf was built without MPI" \
            env $1=4 $2=0 "$trf" train $plain --updates 1 --model m
        silent "without MPI, one line is told ($1)"
        expect 1 "without MPI, the other processes fail too ($1)" "" env $1=4 $2=3 "$trf" train $plain --updates 1 \
            --model m
        check "without MPI, the other processes say nothing ($1)" test ! -s err -a ! -s out
        expect 2 "without MPI, translate refuses several processes ($1)" \
            "^trf translate: only trf train runs as several processes" \
            env $1=4 $2=0 "$trf" translate --model m
        expect 0 "one process needs no MPI" "^done: " env $1=1 $2=0 "$trf" train $plain \
            --updates 1 --model m.$1
    done
    check "without MPI, several processes write nothing" test ! -e m
fi
if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null; then
    echo "left out: MPI"
    finish
    exit
fi

# --- with it ----------------------------------------------------------------------------------------
# From the objects of the trf that is given, of which one is compiled anew.
mkdir own
for file in transformer.o flags objects; do
    [ ! -e "${trf%/*}/$file" ] || cp -Rp "${trf%/*}/$file" own
done
check "make MPI=1 builds trf" eval 'env -u MAKEFLAGS -u MAKELEVEL make -s -C "$source" BUILD="$PWD/own" MPI=1 \
    "$PWD/own/trf" "$PWD/own/transformer.o" >make.out 2>&1 || { cat make.out; false; }'
blas=-lopenblas
echo 'int main(void) { return 0; }' >empty.c
cc empty.c -o empty -lopenblas 2>/dev/null || blas=
check "trf --version tells MPI" eval './own/trf --version | grep -q "several that mpirun starts"'
trf=$PWD/own/trf

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
mpirun=mpirun patient=
if mpirun --version | grep -q 'Open MPI'; then
    mpirun="mpirun --oversubscribe"
    patient="--mca odls_base_sigkill_timeout 2"     # seconds to SIGTERM, and from there to SIGKILL
fi
# by N ARGUMENTS...: trf by N processes, which note their numbers in pid.0, pid.1, ...
cat >each <<EOF2
rank=\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-0}}
echo \$\$ >pid.\$rank
. ./before
exec "$trf" "\$@"
EOF2
: >before
by() { n=$1; shift; timeout -k 5 120 $mpirun -n $n sh ./each "$@"; }
common="--tsv train.tsv $model --batch-tokens 256 --metric loss --warmup 20 --seed 5 --valid-size 40 --dropout 0.1 \
    --schedule constant --learning-rate 0.01"
shared="$common --valid-every 8 --log-every 10 --ema 0.05"

for n in 1 2 3 4 7; do
    "$trf" train $shared --threads 2 --updates 12 --parts $n --model one.$n 2>err
    for threads in 1 2; do
        expect 0 "$n processes of $threads threads" "^done: 12 updates" \
            by $n train $shared --threads $threads --updates 12 --model many.$n --overwrite --log log.$n
        check "$n processes of $threads threads make the model of $n parts" same one.$n many.$n
        check "$n processes of $threads threads make the checkpoint of $n parts" same one.$n.checkpoint \
            many.$n.checkpoint
        [ $n -lt 4 ] || break
    done
    # bytes_sent <= 2 (R - 1) / R of the gradient, which has some numbers more than the model
    [ $n = 1 ] || check "$n processes send as little as can be" awk -v n=$n '
        match($0, /"weights":[0-9]*/) { gradient = 4 * substr($0, RSTART + 10, RLENGTH - 10) }
        match($0, /"bytes_sent":[0-9]*/) {
            match($0, /"update":[0-9]*/); updates = substr($0, RSTART + 9, RLENGTH - 9)
            match($0, /"bytes_sent":[0-9]*/); sent = substr($0, RSTART + 13, RLENGTH - 13) / updates; seen = 1
        }
        END { least = 2 * (n - 1) / n * gradient
              exit !(seen && sent > 0.98 * least && sent <= least * 1.02) }' log.$n
done
check "sums depend on the parts" eval '! same one.2 one.3'
check "only the first process prints" test "$(grep -c '^done: ' err)" -eq 1 -a ! -s out
check "how many there are" grep -q '^processes: 7, with [0-9]* threads* here; batches in 7 parts' err
check "the log tells the number of processes" grep -q '"processes":7' log.7
check "several processes leave nothing unfinished" eval '! ls *.tmp-* 2>/dev/null'
# alike NAME OPTIONS...: one process and two make the same model
alike()
{
    name=$1
    shift
    "$trf" train "$@" --updates 8 --parts 2 --model one.alike --overwrite 2>err
    expect 0 "$name: two processes train" "^done: 8 updates" by 2 train "$@" --updates 8 --model many.alike --overwrite
    check "$name: the same model" same one.alike many.alike
}
alike "several batches an update" $shared --accumulate 2
alike "hidden tokens" --objective mask --text train.names --tokens words $quick
alike "translations" $files $model --batch-tokens 256 --seed 5 --valid-size 20 --metric wer --valid-every 4
check "a token file" eval '"$trf" train --tsv train.tsv $model --warmup 1 --updates 1 --model start 2>err &&
    "$trf" prepare --model start --output pairs.tokens train.tsv 2>err'
alike "a token file" --token-file pairs.tokens --vocab-from start --valid-tsv test.tsv $small
alike "the mean of models" $common --average 2 --keep-models 1 --valid-every 2
expect 0 "--reduce fast trains" "added up in any order" by 3 train $shared --updates 12 --model fast --reduce fast \
    --log log
check "--reduce fast logs no bytes sent" eval '! grep -q bytes_sent log'
check "--reduce fast learns the same" awk '
    match($0, /"event":"validation".*"loss":[0-9.]*/) { sub(/.*"loss":/, ""); loss[FILENAME] = $0 + 0 }
    END { d = loss["log"] / loss["log.3"]; exit !(d > 0.999 && d < 1.001) }' log log.3

# --- interrupted, and continued by others -------------------------------------------------------------
# going N ARGUMENTS...: by N processes, until there is a line of progress
long="$common --valid-every 20 --updates 150 --log-every 2 --checkpoint-every 5"
going()
{
    : >err
    n=$1
    shift
    $mpirun $patient -n $n sh ./each "$@" >out 2>err & pid=$!
    wait_for '^update [0-9]' err
}
ended()
{
    wait_end $pid || kill -KILL $pid
    wait $pid
    status=$?
}
"$trf" train $long --parts 3 --threads 1 --model whole 2>err
long="$long --model hunted --log hunting"
# mpirun does not always pass on the last lines of those that it ends; the log has them
saved() { tail -n 1 hunting | grep -q '"event":"end","why":"signal"'; }
going 3 train $long
kill -TERM $(cat pid.1)
ended
check "a signal to one process ends all: $status" test $status -eq 143
check "a signal to one process is told" grep -q '^trf train: stopped by signal 15 after update .* is complete' err
going 2 train $long --resume
kill -USR1 $pid
ended
check "mpirun passes on USR1: $status" eval 'test $status -ne 0 && saved'
going 3 train $long --resume
kill -KILL $(cat pid.2)
ended
check "a process that dies ends the others: $status" test $status -ne 0
going 3 train $long --resume
kill -STOP $(cat pid.1)
sleep 1                 # so much slower than the others; what must come out does not depend on it
kill -CONT $(cat pid.1)
kill -HUP $(cat pid.0)
ended
check "a process that was slow delays the others: $status" test $status -eq 129
expect 2 "more processes than parts" "into 3 parts, .* at most 3 processes, but mpirun started 4" \
    by 4 train $long --resume
expect 0 "after signals and fewer processes, one process goes on" "resumed from update" "$trf" train $long \
    --resume --threads 1
check "after signals and fewer processes, the model is that of the unbroken run" same whole hunted
check "after signals and fewer processes, the checkpoint is that of the unbroken run" same whole.checkpoint \
    hunted.checkpoint
check "signals and fewer processes leave no other file" test "$(ls -d hunted* | grep -c .)" -eq "$(ls -d whole* |
    grep -c .)"
rm hunting
# Open MPI's mpirun reads no output while it waits to send SIGTERM, so few lines must come: 64 KB would stop the
# training.
going 2 train $common --log-every 100 --updates 1000000 --model ended --log hunting
kill -TERM $pid
ended
check "a signal to mpirun: $status" eval 'test $status -ne 0 && saved'
expect 0 "a signal to mpirun leaves a checkpoint" "nothing to do" "$trf" train $common --updates 1 --model ended \
    --resume --overwrite
expect 0 "a run by 4 processes" "^done: " by 4 train $shared --updates 20 --model resumed
expect 0 "a run of 4 processes goes on as 2" "^done: " by 2 train $shared --updates 30 --model resumed --resume
expect 0 "a run of 4 processes goes on as 1" "batches in 4 parts" "$trf" train $shared --updates 40 --model resumed \
    --resume
"$trf" train $shared --updates 40 --model unbroken --parts 4 2>err
check "4 processes, then 2, then 1 make the model of 4 parts" same unbroken resumed

# --- ends ---------------------------------------------------------------------------------------------
worse="--tsv train.tsv $model $brief --warmup 1 --seed 5 --valid-size 40 --valid-every 3 --schedule constant \
    --learning-rate 3 --patience 2"
"$trf" train $worse --parts 2 --model patient.one 2>err
expect 0 "--patience ends a run of 2 processes" "no better score in --patience validations" by 2 train $worse \
    --model patient
check "--patience ends 2 processes after the update where it ends one" same patient.one patient
expect 0 "--minutes ends a run of 2 processes" "(--minutes reached)" by 2 train $shared --minutes 0.02 --model timed

# --- what goes wrong in one process ---------------------------------------------------------------------
mkdir none other
sed 's/one/two/' train.tsv >other/train.tsv
echo '[ $rank != 1 ] || cd none' >before
expect 1 "a file that one process lacks" "^rank 1: trf train: cannot read 'train.tsv'" \
    by 3 train $shared --updates 5 --model failing
echo '[ $rank != 1 ] || cd other' >before
expect 1 "a process that reads other data" "^trf train: process 1 has read other data" by 3 train $shared --updates 5 \
    --model failing
for other in "--clip-norm 3:clip-norm" "--keep-models 4:keep-models" "--parts 5:parts" "--freeze encoder.*:freeze" \
    "--columns 2,1:columns"; do
    echo "[ \$rank != 2 ] || set -- \"\$@\" ${other%:*}" >before
    expect 2 "a process with another --${other##*:}" "^trf train: process 2 has another --${other##*:} than process 0" \
        by 3 train $shared --updates 5 --model failing
done
echo '[ $rank != 2 ] || set -- "$@" --updates 4' >before
expect 2 "an option that one process has twice" "^rank 2: trf train: --updates is given twice" \
    by 3 train $shared --updates 5 --model failing
"$trf" prepare --model one.2 --output whole.tokens train.tsv 2>err
bytes=$(($(wc -c <whole.tokens) / 2))
{ head -c $bytes whole.tokens; printf X; tail -c +$((bytes + 2)) whole.tokens; } >bad.tokens
cp one.2 other
tokens="--token-file pairs.tokens --vocab-from one.2 $brief --valid-size 0 --updates 60"
for damaged in 0 1; do
    rm -f damaged*
    if [ $damaged = 1 ]; then cp bad.tokens other/pairs.tokens; cp whole.tokens pairs.tokens
    else cp bad.tokens pairs.tokens; cp whole.tokens other/pairs.tokens; fi
    echo '[ $rank != 1 ] || cd other' >before
    expect 1 "a damaged pair of process $damaged" \
        "^\(rank 1: \)\?trf train: training: .*the pair that begins here is damaged" \
        by 2 train $tokens --model damaged
    check "damage in process $damaged: the others learn it and save" \
        grep -q "^trf train: damaged.checkpoint is complete" err
    : >before
    cp whole.tokens pairs.tokens
    expect 0 "damage in process $damaged: the whole file goes on" "^done: " by 2 train $tokens --model damaged --resume
    "$trf" train $tokens --parts 2 --model undamaged --overwrite 2>err
    check "damage in process $damaged: the model is that of an unbroken run" same damaged undamaged
done
if [ -n "$patient" ]; then
    echo '[ $rank != 0 ] || ulimit -f 8' >before
    expect 1 "a full disk ends all" "^trf train: .*hunted.full" by 3 train $shared --updates 5000 --model hunted.full
else echo "left out: a full disk, as ulimit -f also stops MPICH, whose memory that processes share is in files"
fi
: >before
check "failing processes leave no file" test -z "$(ls -d failing* hunted.full* none/* other/m* 2>/dev/null)"

# --- refused --------------------------------------------------------------------------------------------
cp many.2 kept
expect 1 "a model that exists is refused" "exists\\?: --overwrite replaces\\|exist: --resume" by 2 train $shared \
    --updates 5 --model many.2
check "a model that exists stays" same kept many.2
check "a model that exists is told once" test "$(grep -c '^trf train' err)" -eq 1
expect 2 "several processes refuse --seeds" "does not work with mpirun" by 2 train $shared --updates 5 --seeds 2 \
    --model no
expect 2 "several processes refuse standard input" "each of the 2 processes reads the data" by 2 train $small --tsv - \
    --updates 5 --model no
expect 2 "fewer parts than processes" "parts 2 leaves nothing to do" by 3 train $shared --updates 5 --parts 2 --model no
expect 2 "more parts than tokens" "parts 257 is more than the 256 tokens" \
    by 2 train $shared --updates 5 --parts 257 --model no
expect 2 "several processes refuse translate" "^trf translate: only trf train" by 2 translate --model many.2 test.digits
expect 2 "a wrong option" "updates takes a whole number" by 2 train $shared --updates x --model no
check "a wrong option is told once" test "$(grep -c '^trf train' err)" -eq 1
check "what is refused writes nothing" test ! -e no

# --- a program of one's own -----------------------------------------------------------------------------
# program NAME SOURCE OPTIONS...: build/NAME by mpicc
program()
{
    name=$1 file=$2
    shift 2
    env OMPI_CC="${CC:-cc}" MPICH_CC="${CC:-cc}" mpicc -O1 -march=native -DTRF__IMPLEMENTED -I"$source" \
        "$@" "$file" own/transformer.o -o $name $blas -lm -pthread
}
check "examples/ranks.c is built for threads" program ranks "$source/examples/ranks.c"
check "examples/ranks.c is built for processes" program ranks_mpi "$source/examples/ranks.c" -DRANKS_MPI
./ranks 1 >alone
check "examples/ranks.c trains alone" eval 'test "$(grep -c "^update" alone)" -eq 3 && grep -q "^weights" alone'
$mpirun -n 3 ./ranks_mpi >together 2>err
check "examples/ranks.c: three processes have the bits of one thread" same alone together
./ranks 2 >together
check "examples/ranks.c: two threads have the bits of one" same alone together

# The layers divided among processes, and among threads. `tied` has a matrix that all stages add to, and an error on
# request.
check "examples/pipeline.c is built for threads" program pipeline "$source/examples/pipeline.c"
check "examples/pipeline.c is built for processes" program pipeline_mpi "$source/examples/pipeline.c" -DPIPELINE_MPI
weights() { grep '^weights [0-9a-f]\{16\}: the same bits$' $1 >$1.weights; }
./pipeline 2 4 >threads
check "examples/pipeline.c trains by two threads" weights threads
for sizes in "1 3" "2 4" "3 5" "2 1" "8 2"; do
    timeout -k 5 120 $mpirun -n ${sizes% *} ./pipeline_mpi ${sizes#* } >processes 2>err
    check "$sizes: processes and micro-batches: exit status $?" test $? -eq 0
    check "$sizes: the bits of one process" weights processes
    [ "$sizes" != "2 4" ] || check "processes: the bits of threads" same threads.weights processes.weights
    check "$sizes: one of them prints" test "$(grep -c '^weights' processes)" -eq 1
done
threads='s->number == 1 \&\& getenv("BREAK") ? -1 : 1'
sed "s/    config.device.threads = 1;/    config.tying = TRF_TIED_ALL; config.device.threads = $threads;/" \
    "$source/examples/pipeline.c" >tied.c
check "examples/pipeline.c is built with a tied matrix" \
    eval '! same tied.c "$source/examples/pipeline.c" && program tied tied.c && program tied_mpi tied.c -DPIPELINE_MPI'
for n in 2 3; do
    ./tied $n 4 >threads
    timeout -k 5 120 $mpirun -n $n ./tied_mpi 4 >processes 2>err
    check "$n: the sums of a tied matrix" eval 'grep -o "^weights [0-9a-f]\{16\}:" threads >wanted &&
        grep -o "^weights [0-9a-f]\{16\}:" processes | cmp -s wanted -'
done
check "an error in one process" eval 'BREAK=1 timeout -k 5 120 $mpirun -n 3 ./tied_mpi 4 >out 2>err; status=$?;
    test $status -ne 0 -a $status -lt 124 && grep -q "^stage 1: .*threads" err && ! grep -q "^weights" out'
check "examples/pipeline.c refuses too many micro-batches" \
    eval '! timeout -k 5 120 $mpirun -n 2 ./pipeline_mpi 65 >out 2>err && grep -q "1 to 64 micro-batches" err'

finish
