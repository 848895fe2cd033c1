#!/bin/sh
# Tests of the tests: plants one fault at a time into a copy of the header and lists those that no suite sees.
#
#     sh tests/mutate.sh                  every fault
#     sh tests/mutate.sh crc beam         those whose name contains one of the words
#
# A fault is one line of the table: name @@ suites that should see it, tried first @@ text @@ what it becomes. The text
# must stand in the header exactly once. A fault is killed when a test fails that passes without it, or a suite
# crashes or does not end. Two faults are looked at at a time. CFLAGS and CPPFLAGS go to make.

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
OMP_WAIT_POLICY=passive
export OMP_WAIT_POLICY

cat >"$work/table" <<'END'
bias forgotten @@ ops blocks model @@ if (j->b) trf__add_bias( @@ if (0) trf__add_bias(
bias gradient forgotten @@ ops blocks model @@ if (i == 0 && p->db) trf__column_sums( @@ if (0) trf__column_sums(
weight gradient set, not added @@ ops blocks model @@ panels, p->add || t > 0)); @@ panels, t > 0));
CBLAS sets, does not add @@ ops blocks model @@ (trf_real)(p.add != 0), p.c @@ 0, p.c
OpenBLAS keeps its own threads @@ host @@ if (o->number != 1) openblas_set_num_threads(1); @@ (void)0;
OpenBLAS's thread number not given back @@ host @@ && openblas_get_num_threads() == 1) openblas_set_num_threads(o->number); @@ && openblas_get_num_threads() == 0) openblas_set_num_threads(o->number);
the thread number given back over the host's @@ host @@ o->number != 1 && openblas_get_num_threads() == 1) @@ o->number != 1)
any number of callers of OpenBLAS @@ host @@ while (ticket != o->next || o->inside + wanted > o->places) @@ while (ticket != o->next)
products past the gate @@ host @@ gated = blas && run->gate && n_tiles > 0; @@ gated = 0;
OpenBLAS makes its buffers in a step @@ host @@ if (wanted <= made) return TRF_OK; @@ return TRF_OK;
address space of buffers not asked for first @@ host @@ fits = probe != NULL; @@ fits = 1;
the serial OpenBLAS is called @@ host @@ (!openblas_get_parallel || openblas_get_parallel() == 1) && exec_blas_async && @@ 1 &&
OpenMP's threads not tried first @@ host @@ trf__thread_chain(&missing); @@ missing = 0;
a closed run still counts as callers @@ host @@ trf__openblas.threads -= threads; @@ (void)0;
product loses its last column @@ ops blocks model @@ panel[16 * t + j] = j < columns ? from @@ panel[16 * t + j] = j < columns - 1 ? from
gelu's slope without its density @@ ops blocks model @@ return trf__fma(h, density, trf__normal_distribution(h)); @@ return trf__normal_distribution(h);
silu's slope with the wrong sign @@ ops blocks model @@ trf__fma(h, trf__sub(trf__set(1), s), trf__set(1)) @@ trf__fma(h, trf__add(trf__set(1), s), trf__set(1))
attention scale @@ ops blocks golden @@ trf_real scale = (trf_real)(1 / sqrt((double)a->d_head)), local[2]; @@ trf_real scale = (trf_real)(1 / (double)a->d_head), local[2];
causal mask off by one @@ ops blocks definitions @@ ? span->n_key - span->n_query + i + 1 : @@ ? span->n_key - span->n_query + i + 2 :
softmax gradient without its mean @@ ops blocks model @@ trf__sub(trf__load(ds + c), mean)), factor)); @@ trf__load(ds + c)), factor));
gradient of keys from the weights @@ ops blocks model @@ (dk, a->ldk, seen, d, n, trf__view_of(room.ds, @@ (dk, a->ldk, seen, d, n, trf__view_of(room.s,
query gradient adds keys beyond the mask @@ ops blocks model @@ first, a->ldq, n, d, seen, @@ first, a->ldq, n, d, seen - 1,
no keys do not give zero @@ ops blocks model @@ if (span->n_key == 0) { @@ if (span->n_key < 0) {
norm epsilon outside the root @@ definitions ops blocks @@ else r = 1 / sqrt(var / (double)d + j->epsilon); @@ else r = 1 / (sqrt(var / (double)d) + j->epsilon);
annotated norm with the biased deviation @@ definitions ops golden @@ (double)(d > 1 ? d - 1 : 1)) + j->epsilon); @@ (double)d) + j->epsilon);
norm gradient without its average @@ ops blocks model @@ trf__fma(centered, pull, trf__fma(g, gain, average)) @@ trf__fma(centered, pull, trf__mul(g, gain))
gain gradient forgets the input @@ ops blocks model @@ dgain = trf__fma(g, normal, dgain); @@ dgain = trf__add(g, dgain);
residual gradient forgotten before a norm @@ ops model @@ ds = trf__fma(ds, factor, trf__load_n(more + c * more_step, d - c)); @@ ds = trf__mul(ds, factor);
dropout does not scale @@ ops blocks model @@ (trf_real)(65536.0 / (65536.0 - drop.threshold)) @@ 1
dropout missing in backward @@ ops blocks model @@ if (j->drop.threshold) ds = trf__mul(ds, trf__mask_chunk(&mask, c / 16)); @@ (void)mask;
the same dropout in every step @@ model same blocks @@ drop.step = (uint32_t)step; @@ drop.step = 1; (void)step;
the same dropout at every site @@ model blocks same @@ (uint32_t)(seed >> 32) ^ site * 0x9E3779B9u; @@ (uint32_t)(seed >> 32) ^ 0x9E3779B9u; (void)site;
dropout counts sentences of the micro-batch @@ model same usage @@ batch->ordinal + trainer->sentences, err)); @@ batch->ordinal, err));
embedding scale @@ definitions golden model @@ c->scale_embeddings ? (trf_real)sqrt((double)c->d_model) : 1; @@ c->scale_embeddings ? (trf_real)c->d_model : 1;
embedding gradient unscaled @@ ops blocks model @@ trf__store_n(dw, trf__fma(dy, trf__set(j->scale), trf__load_n(dw, n)), n); @@ trf__store_n(dw, trf__add(dy, trf__load_n(dw, n)), n);
learned positions' gradient without the offset @@ model golden @@ learned >= 0 ? g + learned + pass->config->position_offset * d : NULL, @@ learned >= 0 ? g + learned : NULL,
a decoded token's keys go to the first slot @@ usage model @@ acts.fresh = acts.memory + cache->fresh; @@ acts.fresh = acts.memory;
every layer reads the first layer's source @@ usage model @@ acts.memory = cache->cross + layer * cache->cross_layer; @@ acts.memory = cache->cross; (void)layer;
the prefix of the first sentence for all @@ usage @@ if (n_prefix) prefix += n_prefix; @@ (void)0;
decoding one position late @@ usage model @@ side->positions[r] = (int32_t)at; @@ side->positions[r] = (int32_t)at + 1;
decoding does not see its own token @@ usage model @@ span->n_key = at + 1; @@ span->n_key = at > 0 ? at : 1;
cache of the wrong parent @@ usage model @@ (row + trf__beam_parents(beam)[j]) * d->length, @@ (row + j) * d->length,
answers of all rounds but the last @@ usage @@ t->first_id[round->first + i] = t->n_ids; @@ t->first_id[i] = t->n_ids;
BOS may be said @@ usage @@ top.banned[0] = t->model->config.pad; top.banned[1] = t->model->config.bos; @@ top.banned[0] = t->model->config.pad; top.banned[1] = -1;
log-softmax forgotten @@ ops usage @@ for (i = 0; i < found; i++) best[i].log_probability -= lse; @@ (void)lse;
targets do not end with EOS @@ definitions model @@ side->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->eos; @@ side->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->pad;
the decoder reads what it should say @@ definitions golden @@ (k == 0 ? trf__start_id(c) : x->ids[at + k - 1]) @@ (k == 0 ? trf__start_id(c) : x->ids[at + k - (k < x->lengths[i])])
sources without EOS @@ definitions golden @@ int32_t i, k, extra = target ? 1 : c->source_eos; @@ int32_t i, k, extra = target;
cross attention reads another sentence @@ model definitions @@ pass->target.cross[i].key = pass->source.self[i].query; @@ pass->target.cross[i].key = pass->source.self[0].query;
fairseq smoothing divides by V @@ definitions blocks @@ else l->off = e / (n - 1); @@ else l->off = e / n;
uniform smoothing forgets the target's share @@ definitions blocks @@ { l->on = 1 - e + e / n; @@ { l->on = 1 - e;
smoothing counts pad @@ definitions @@ { l->off = e / (n - 2); @@ { l->off = e / (n - 1);
smoothing keeps its entropy @@ definitions @@ l->row_loss[row] -= l->entropy; @@ (void)0;
loss gradient misses the smoothing @@ ops blocks model @@ z[target] -= (trf_real)(l->on - l->off); @@ z[target] -= (trf_real)l->on;
adam's betas swapped @@ ops model golden @@ c2 = trf__set((trf_real)(1 - a->beta2)); @@ c2 = trf__set((trf_real)(1 - a->beta1));
adam without bias correction @@ definitions golden model @@ a.v_scale = 1 / c2; @@ a.v_scale = 1; (void)c2;
fairseq's epsilon @@ definitions @@ { a.rate = learning_rate * sqrt(c2) / c1; a.v_scale = 1; } @@ { a.rate = learning_rate / c1; a.v_scale = 1; }
weight decay on biases @@ model definitions @@ tiles[n].decay = decay_all || @@ tiles[n].decay = 1 ||
clipping forgotten @@ model golden @@ if (!(scale < 1)) scale = 1; @@ scale = 1;
norm of the sum, not of the mean @@ model golden @@ norm = trf__gradient_norm(trainer, &blame) / tokens; @@ norm = trf__gradient_norm(trainer, &blame);
warm-up exponent @@ definitions @@ double rising = s * pow(w, -1.5) @@ double rising = s * pow(w, -1.4)
learning rate of the step before @@ definitions model usage golden @@ = trf_learning_rate(&trainer->options, trainer->model->config.d_model, trainer->step); @@ = trf_learning_rate(&trainer->options, trainer->model->config.d_model, trainer->step - 1);
target embedding learns nothing @@ model golden @@     trf__embed_side_backward(pass, 1, g, p); @@     (void)0;
only one decoder layer teaches the encoder @@ model golden @@ if (step->kind == TRF__CROSS) memory_seen = 1; @@ if (step->kind == TRF__CROSS) memory_seen = 0;
NaN is applied @@ model @@ if (!(norm * scale < most) || !trf__is_finite(report->loss)) { @@ if (0) {
micro-batches do not add up @@ model same @@ if (trainer->micro == 0) memset(trainer->gradients @@ if (1) memset(trainer->gradients
a slice of gradients is not summed over ranks @@ usage model same @@ t->gradients + begin, (size_t)(end - begin), NULL) @@ t->gradients + begin, (size_t)(end - begin - 1), NULL)
xavier counts q, k and v wrongly @@ definitions @@ (c->init == TRF_INIT_XAVIER ? in : out) @@ (c->init == TRF_INIT_XAVIER ? out : in)
length penalty of GNMT @@ search usage @@ return s / pow((5.0 + (double)length) / 6.0, search->alpha); @@ return s / pow((5.0 + (double)length) / 5.0, search->alpha);
EOS never counts in the length @@ search usage @@ (ended == TRF_ENDED_EOS ? beam->search.count_eos : 0); @@ 0;
shortest answer one too short @@ search usage @@ int eos_allowed = forced >= 0 || beam->n >= beam->least; @@ int eos_allowed = forced >= 0 || beam->n + 1 >= beam->least;
EOS keeps its share of the softmax @@ search ops @@ without = only == TRF__NOT_EOS ? t->eos : -1; @@ without = -1;
EOS is out of the softmax for ever @@ search usage @@ eos_out = eos_forbidden && beam->search.renormalise; @@ eos_out = beam->search.renormalise;
CTranslate2's preset keeps EOS in the softmax @@ search @@ search->renormalise = ctranslate2; @@ search->renormalise = 0;
forced tokens are never free @@ search @@ beam->n < beam->n_prefix && !beam->search.score_prefix @@ 0
free tokens are lost @@ search @@ best->sum + beam->given; @@ best->sum;
the heuristic looks at n best @@ search @@ beam->keep = search->stop == TRF_STOP_HEURISTIC ? search->beam : @@ beam->keep =
the heuristic is the bound @@ search @@ hope = search->stop == TRF_STOP_BOUND ? @@ hope = search->stop != TRF_STOP_FINISHED ?
an answer stands in, proven, for a lost one @@ search @@ proven = stands_in ? !beam->gave_up : @@ proven = stands_in ? beam->dropped == TRF__IMPOSSIBLE :
the paper preset with PyTorch's epsilon rule @@ definitions @@ options->epsilon_rule = paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE; @@ options->epsilon_rule = TRF_EPSILON_OUTSIDE;
an escape of two bytes @@ files @@ (0xF00 >> (extra + 1) & 0xFF) @@ (0xF00 >> extra & 0xFF)
stops too early @@ search @@ double best = trf__search_score(search, sum, longest), score; @@ double best = trf__search_score(search, sum, n + 1), score;
answers in the order they ended @@ search usage @@ if (a->score > b->score) return 1; @@ if (a->score > b->score) return 0;
sequences at the limit are refused @@ definitions usage model @@ if ((int64_t)x->lengths[i] + extra > c->max_length) @@ if ((int64_t)x->lengths[i] + extra >= c->max_length)
EOS may stand in a sequence @@ usage definitions @@ if (id == c->pad || id == c->bos || id == c->eos) @@ if (id == c->pad || id == c->bos)
translating cannot be cancelled @@ usage @@         TRF__TRY(trf__cancel_status(&pass->run.hooks, err)); @@         (void)err;
a caller's own step does not count @@ usage model @@ if (trainer) trainer->step++; @@ (void)0;
a field of the configuration is not stored @@ store @@ X(trf_norm_rule,      norm_rule,        0, 1, 1) @@ X(trf_norm_rule,      norm_rule,        0, 1, 0)
files of another format are read @@ store @@ if (format != TRF__FORMAT) @@ if (format > TRF__FORMAT)
a part of a tensor is its beginning @@ files store @@ at = entry->begin + (uint64_t)(first * dtype->bytes); @@ at = entry->begin;
a stored token may be a special one @@ vocab store @@ if (trf__is_special(token, length)) return "expected a token @@ if (0) return "expected a token
checksum not compared @@ files store @@ if (!strcmp(found, text)) return TRF_OK; @@ return TRF_OK;
checksum of another polynomial @@ files store @@ bits & 1 ? 0xEDB88320u @@ bits & 1 ? 0xEDB88321u
holes are not seen @@ files @@ if (entry->begin != end) @@ if (entry->begin < end)
appended bytes are not seen @@ files store @@     if (end < data) @@     if (end + 1000000 < data)
duplicate names are not seen @@ files @@ trf__sort(items, (size_t)n, trf__by_name @@ if (0) trf__sort(items, (size_t)n, trf__by_name
the file is not flushed @@ files @@ int folder = -1, error = trf__sync(saving->fd), closing @@ int folder = -1, error = 0, closing
an error of fsync is dropped @@ files @@ if (error || closing) return trf__fail_io( @@ if (closing) return trf__fail_io(
the folder is not flushed @@ files @@     error = trf__sync(folder); @@     error = 0;
writing follows links @@ files @@ int flags = create ? O_WRONLY | O_CREAT | O_EXCL : @@ int flags = create ? O_WRONLY | O_CREAT | O_TRUNC :
a failed save leaves its file behind @@ files store @@ if (saving->made) (void)TRF_OS(unlink)(saving->temporary); @@ (void)0;
NaN weights are loaded @@ files store @@ if (!trf__is_finite((double)*values) && !file->allow_nonfinite) @@ if (0)
negative second moments are taken @@ store @@ if (!(numbers[i] >= 0)) @@ if (0)
tied matrices may differ @@ store @@ if (memcmp(numbers, there, @@ if (0 && memcmp(numbers, there,
extra tensors are accepted @@ store @@ if (!known[i]) @@ if (known[i] > 1)
transposed tensors are accepted @@ store @@ if (e->rank == p->rank && e->shape[0] == p->shape[0] && @@ if (e->rank == 2 && e->shape[0] == p->shape[1] && e->shape[1] == p->shape[0]) return TRF_OK; if (e->rank == p->rank && e->shape[0] == p->shape[0] &&
resuming begins at step 0 @@ store usage same @@     t->step = step; @@     t->step = 0;
resuming begins the epoch again @@ corpus store usage @@     c->batch = batch; @@     c->batch = 0;
resuming with other data @@ store @@ if (strcmp(text, stored)) @@ if (!strcmp(text, "no"))
second moments of the first @@ store usage @@ trf__read_arena(file, model, "optimizer.v.", t->v, err); @@ trf__read_arena(file, model, "optimizer.m.", t->v, err);
a checkpoint in the middle of a step @@ store @@ if (trainer->micro > 0) @@ if (trainer->micro > 1000)
every epoch in the same order @@ corpus @@ TRF__SHUFFLE_EPOCH, (uint64_t)epoch); @@ TRF__SHUFFLE_EPOCH, 0); (void)epoch;
batches one pair too large @@ corpus @@ if (i == 0 || over || i - begin >= o->batch_sentences) { @@ if (i == 0 || over || i - begin > o->batch_sentences) {
a round beyond the slots of the cache @@ usage @@ && n * s->beam * (longest + 1) <= INT32_MAX); @@ );
a cancelled look has written @@ usage @@     pass->probed = weights; @@     pass->probed = out->data;
rows wrap at 32 bits @@ usage @@ rows += (int64_t)x->lengths[i] + extra; @@ rows += (int32_t)((uint32_t)x->lengths[i] + (uint32_t)extra);
a weight without outputs @@ blocks @@ if (*out < 1) return @@ if (*out < 0) return
a translator's memory without its sources @@ memory @@ decoder.source_rows = round.source_rows; @@ decoder.source_rows = 0;
a translator's memory without its answers @@ memory @@     cache = trf__add_size(cache, ids); @@     (void)ids;
a dropout of one @@ blocks @@ (p < 65535.0 / 65536 ? p * 65536 + 0.5 : 65535) @@ (p * 65536 + 0.5)
a failed delivery keeps the last batch @@ corpus @@ if (batch) TRF__ZERO(*batch); @@ (void)0;
controls of two bytes reach the terminal @@ files @@ (c == 0xC2 && (unsigned char)from[1] < 0xA0) @@ 0
a character cut in two @@ files @@ int bytes = trf__utf8_at(from, left), taken = bytes ? bytes : 1; @@ int bytes = 1, taken = 1;
an error does not name its file @@ files store @@ snprintf(text, sizeof text, "%s: %s", name, err->message); @@ snprintf(text, sizeof text, "%s", err->message);
the rarest token first @@ vocab @@ if (x->count != y->count) return x->count > y->count ? -1 : 1; @@ if (x->count != y->count) return x->count > y->count ? 1 : -1;
a report read before it has come @@ apart @@ TRF__TRY(pass->run.backend->sync(&pass->run, err)); @@ (void)err;
tied matrices differ on a broken device @@ apart @@ TRF__TRY(model->run.backend->sync(&model->run, err));       /* unless they never came */ @@ (void)0;
a block's dropout outlives its memory @@ apart @@ c->run.now = NULL; @@ (void)0;
a block's guests stay @@ apart @@ for (i = 0; i < c->n_guests; i++) run->backend->free(run, c->guests[i].device, c->guests[i].bytes); @@ (void)0;
the host makes the position table itself @@ apart @@ pass->run.backend->upload(&pass->run, pass->table + p * c->d_model, row, bytes); @@ memcpy(pass->table + p * c->d_model, row, bytes);
the step goes to the device without upload @@ apart @@ pass->run.backend->upload(&pass->run, pass->device_block, pass->host_block, bytes); @@ memcpy(pass->device_block, pass->host_block, bytes);
every step waits for the device @@ apart @@ trainer->updated = trainer->step; @@ trainer->updated = trainer->step; TRF__TRY(trainer->pass.run.backend->sync(&trainer->pass.run, err));
a saved file never asks whether its numbers came @@ apart @@ else if (n > 0 && tensors->model) status = @@ else if (n < 0 && tensors->model) status =
END

# --- which faults ---------------------------------------------------------------------------------------------
if [ $# -gt 0 ]; then
    : >"$work/chosen"
    for word in "$@"; do awk -F ' @@ ' -v word="$word" 'index($1, word)' "$work/table" >>"$work/chosen"; done
    sort -u "$work/chosen" >"$work/table"
fi
faults=$(wc -l <"$work/table")
[ "$faults" -gt 0 ] || { echo "no such fault"; exit 1; }

limit() { if command -v timeout >/dev/null; then timeout "$@"; else shift; "$@"; fi; }
doubles=$(sed -n 's/^DOUBLES.*double_test_%,\([a-z ]*\)).*/\1/p' "$root/Makefile")
for tree in base 1 2; do
    mkdir -p "$work/$tree" &&
    cp -r "$root/transformer.h" "$root/Makefile" "$root/tests" "$root/examples" "$root/tools" "$work/$tree" || exit 1
done
mkdir "$work/sound"

# build_and_run TREE SUITE LOG: 0 it ran to its end, with the names of failed tests in LOG.failed; 1 it crashed, hung or
# tested nothing; 2 it does not compile
build_and_run()
{
    make -s -C "$work/$1" BUILD=build CFLAGS="${CFLAGS:--O1 -march=native}" CPPFLAGS="$CPPFLAGS" "build/$2" >"$3" 2>&1 || return 2
    (cd "$work/$1" && limit 300 "./build/$2") >"$3" 2>&1
    sed -n 's/^\[  FAILED  \] \([a-z_A-Z0-9]*\)$/\1/p' "$3" | sort -u >"$3.failed"
    grep -q '^\[  PASSED  \] [1-9]' "$3"
}

# What a suite says without any fault. Asked once per suite; the other worker waits. Tests that fail there do not count.
sound()
{
    if mkdir "$work/sound/$1" 2>/dev/null; then
        if build_and_run base "$1" "$work/sound/$1.log"; then answer=yes; else answer=no; fi
        if [ $answer = no ]; then echo "        $1 does not run without a fault: it does not count"
        elif [ -s "$work/sound/$1.log.failed" ]; then
            echo "        $1 without a fault: failing tests, which do not count:" $(cat "$work/sound/$1.log.failed")
        fi
        echo $answer >"$work/sound/$1.is"
    fi
    while [ ! -s "$work/sound/$1.is" ]; do sleep 1; done
    [ "$(cat "$work/sound/$1.is")" = yes ]
}

# The suites to try: those named first, then the double ones of them, then all others.
suites()
{
    for name in $1; do echo "test_$name"; done
    for name in $1; do case " $doubles " in *" $name "*) echo "double_test_$name" ;; esac; done
    for file in "$root"/tests/test_*.c; do file=${file##*/}; echo "${file%.c}"; done
    for name in $doubles; do echo "double_test_$name"; done
}

# plant TREE: puts SEARCH -> REPLACE into the tree's header; fails unless SEARCH stands there exactly once
plant()
{
    awk '{
        at = index($0, ENVIRON["SEARCH"])
        if (at) {
            n++
            rest = substr($0, at + length(ENVIRON["SEARCH"]))
            if (index(rest, ENVIRON["SEARCH"])) n++
            $0 = substr($0, 1, at - 1) ENVIRON["REPLACE"] rest
        }
        print
    } END { exit n != 1 }' "$root/transformer.h" >"$work/$1/transformer.h"
}

# look FAULT TREE: one line about one fault
look()
{
    line=$(sed -n "$1p" "$work/table")
    name=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $1 }')
    first=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $2 }')
    SEARCH=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $3 }')
    REPLACE=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $4 }')
    export SEARCH REPLACE
    if ! plant "$2"; then
        echo "ERROR     $name: its text does not stand in the header exactly once"
        return 1
    fi
    for suite in $(suites "$first" | awk '!seen[$0]++'); do
        [ -f "$root/tests/${suite#double_}.c" ] || continue
        sound "$suite" || continue
        build_and_run "$2" "$suite" "$work/$2.log"
        case $? in
        0)
            by=$(comm -13 "$work/sound/$suite.log.failed" "$work/$2.log.failed" | head -n 1)
            [ -n "$by" ] || continue
            echo "killed    $name: $suite ($by)"
            return 0 ;;
        1)
            echo "killed    $name: $suite (it did not end)"
            return 0 ;;
        *)
            echo "ERROR     $name: does not compile: $(grep -m 1 error "$work/$2.log" | cut -c1-150)"
            return 1 ;;
        esac
    done
    echo "SURVIVED  $name"
    return 1
}

worker()
{
    fault=1
    while [ $fault -le "$faults" ]; do
        if mkdir "$work/$fault.taken" 2>/dev/null; then
            if look $fault "$1"; then echo killed; else echo survived; fi >"$work/$fault.lines"
            tail -n 1 "$work/$fault.lines" >"$work/$fault.result"
            sed '$d' "$work/$fault.lines"
        fi
        fault=$((fault + 1))
    done
}
worker 1 & second=$!
worker 2
wait $second

passed=$(cat "$work"/*.result | grep -c killed)
echo "$passed passed, $((faults - passed)) failed"
[ "$passed" -eq "$faults" ]
