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

cat >"$work/table" <<'END'
bias forgotten @@ ops blocks model @@ *first = add ? c + r * ldc : bias; @@ *first = add ? c + r * ldc : NULL;
bias forgotten beside CBLAS @@ ops @@ if (p.bias) trf__add_bias( @@ if (0) trf__add_bias(
bias gradient forgotten @@ ops blocks model @@ if (j->db) trf__tiles(run, trf__ceil_div(j->out @@ if (0) trf__tiles(run, trf__ceil_div(j->out
weight gradient set, not added @@ ops blocks model @@ deep, a, b, p->add || t > 0); @@ deep, a, b, t > 0);
a piece of a product sets, not adds @@ ops @@ part.p.add = whole->add || t > 0; @@ part.p.add = whole->add;
rows of a strip one off @@ ops blocks model @@ + i % TRF__STRIP : i * p->a.row; @@ + (i + 1) % TRF__STRIP : i * p->a.row;
rows of the room over each other @@ ops model @@ room + column * p->k + 16 * row, @@ room + column * p->k,
CBLAS sets, does not add @@ ops blocks model @@ (trf_real)(p.add != 0), p.c @@ 0, p.c
OpenBLAS keeps its own threads @@ host @@ if (o->number != 1) openblas_set_num_threads(1); @@ (void)0;
OpenBLAS's thread number not given back @@ host @@ && openblas_get_num_threads() == 1) openblas_set_num_threads(o->number); @@ && openblas_get_num_threads() == 0) openblas_set_num_threads(o->number);
the thread number given back over the host's @@ host @@ o->number != 1 && openblas_get_num_threads() == 1) @@ o->number != 1)
any number of callers of OpenBLAS @@ host @@ if (o->first || o->inside + wanted > o->places) trf__products_wait @@ if (o->first) trf__products_wait
OpenBLAS is asked again and again @@ host @@ if (o->places == 0) o->places = @@ o->places =
products past the gate @@ host @@ gated = blas && cpu->gate && n_tiles > 0; @@ gated = 0;
OpenBLAS makes its buffers in a step @@ host @@ if (wanted <= made) return TRF_OK; @@ return TRF_OK;
address space of buffers not asked for first @@ host @@ int fits = probe != NULL; @@ int fits = 1;
the serial OpenBLAS is called @@ host @@ (!openblas_get_parallel || openblas_get_parallel() == 1) && exec_blas_async && @@ 1 &&
a closed run still counts as callers @@ host @@ if (cpu->gate) trf__openblas_count(-cpu->threads); @@ (void)0;
threads that could not be started are not missed @@ host threads @@     if (n < threads - 1) { @@     if (0) {
workers take the signals of the program @@ threads @@     pthread_sigmask(TRF__SETMASK, &all, &before); @@     pthread_sigmask(TRF__SETMASK, NULL, &before);
who starts a thread keeps its mask @@ threads @@     pthread_sigmask(TRF__SETMASK, &before, NULL); @@     (void)0;
workers round as they were made @@ threads @@         fesetenv(&team->environment); @@         (void)0;
a forked child waits for workers @@ threads @@     if (team->process != trf__process_id()) return 0; @@     (void)0;
a forked child ends its parent's workers @@ threads @@     if (team->process == trf__process_id()) { @@     if (1) {
a team that is destroyed goes on @@ threads @@         while (n-- > 0) trf__thread_end(team->workers[n].thread); @@         (void)0;
the caller waits for workers that do not come @@ threads @@ if (__atomic_and_fetch(&team->entry, TRF__PLACE - 1, __ATOMIC_ACQ_REL)) trf__await_workers(team); @@ if (__atomic_load_n(&team->entry, __ATOMIC_ACQUIRE)) trf__await_workers(team);
more workers enter than there are places @@ threads @@     while (entry >= TRF__PLACE) @@     for (;;)
product loses its last column @@ ops blocks model @@ panel[16 * t + j] = j < columns ? from @@ panel[16 * t + j] = j < columns - 1 ? from
gelu's slope without its density @@ ops blocks model @@ return trf__fma(h, density, trf__normal_distribution(h)); @@ return trf__normal_distribution(h);
silu's slope with the wrong sign @@ ops blocks model @@ trf__fma(h, trf__sub(trf__set(1), s), trf__set(1)) @@ trf__fma(h, trf__add(trf__set(1), s), trf__set(1))
attention scale @@ ops blocks golden @@ h.scale = (trf_real)(1 / sqrt((double)in->d_head)); @@ h.scale = (trf_real)(1 / (double)in->d_head);
one query without its last numbers @@ search model @@ s[i] = trf__dot(q, k + h->key_rows[i] * ld, d); @@ s[i] = trf__dot(q, k + h->key_rows[i] * ld, d - 1);
causal mask off by one @@ ops blocks definitions @@ (int64_t)h->span->n_key - h->span->n_query + i + 1 : @@ (int64_t)h->span->n_key - h->span->n_query + i + 2 :
softmax gradient without its mean @@ ops blocks model @@ trf__sub(trf__load(ds + c), mean)), factor)); @@ trf__load(ds + c)), factor));
gradient of keys from the weights @@ ops blocks model @@ (dk, ldk, seen, d, n, trf__view_of(room.ds, @@ (dk, ldk, seen, d, n, trf__view_of(room.s,
query gradient loses the last key @@ ops blocks model @@ (dq + i0 * ldq, ldq, n, d, seen, @@ (dq + i0 * ldq, ldq, n, d, seen - 1,
no keys do not give zero @@ ops blocks model @@ if (h.span->n_key == 0) { @@ if (h.span->n_key < 0) {
norm epsilon outside the root @@ definitions ops blocks @@ else r = 1 / sqrt(var / (double)d + j->epsilon); @@ else r = 1 / (sqrt(var / (double)d) + j->epsilon);
annotated norm with the biased deviation @@ definitions ops golden @@ (double)(d > 1 ? d - 1 : 1)) + j->epsilon); @@ (double)d) + j->epsilon);
norm gradient without its average @@ ops blocks model @@ trf__fma(centered, pull, trf__fma(g, gain, average)) @@ trf__fma(centered, pull, trf__mul(g, gain))
gain gradient forgets the input @@ ops blocks model @@ dgain = trf__fma(g, normal, dgain); @@ dgain = trf__add(g, dgain);
residual gradient forgotten before a norm @@ ops model @@ ds = trf__fma(ds, factor, trf__load_n(more + c * more_step, d - c)); @@ ds = trf__mul(ds, factor);
dropout does not scale @@ ops blocks model @@ (trf_real)(65536.0 / (65536.0 - drop.threshold)) @@ 1
dropout missing in backward @@ ops blocks model @@ if (dropping) dsub = trf__mul(dsub, trf__mask_chunk(&mask, c / 16)); @@ (void)mask;
embedding's dropout missing in backward @@ ops model @@     if (trf__dropping(run, &j->drop)) @@     if (0)
dropout of weights missing in their gradient @@ ops blocks model @@ if (dropping) trf__drop_weights(drop, room->bits + i * seen16, ds, seen16); @@ (void)0;
dropout of weights depends on the number of keys @@ ops blocks @@ counter[0][lane] = (uint32_t)b | head >> 12 << 17; @@ counter[0][lane] = (uint32_t)(i * blocks + b) | head >> 12 << 17;
the same dropout of weights for every head @@ ops @@ counter[1][lane] = (uint32_t)i | (head & 0xFFF) << 20; @@ counter[1][lane] = (uint32_t)i;
the same dropout of weights for every 4096th head @@ ops @@ counter[0][lane] = (uint32_t)b | head >> 12 << 17; @@ counter[0][lane] = (uint32_t)b;
dropout without a step @@ ops blocks model @@ return run->now && drop->threshold; } @@ return drop->threshold > 0; (void)run; }
the same dropout in every step @@ model same blocks @@ pass->now.step = (uint32_t)(trainer->step + 1); @@ pass->now.step = 1;
the same dropout at every site @@ ops model blocks same @@ return now->key1 ^ drop->site * 0x9E3779B9u; @@ (void)drop; return now->key1 ^ 0x9E3779B9u;
dropout counts sentences of the micro-batch @@ model same usage @@ batch->ordinal + trainer->sentences, err)); @@ batch->ordinal, err));
embedding scale @@ definitions golden model @@ c->scale_embeddings ? (trf_real)sqrt((double)c->d_model) : 1; @@ c->scale_embeddings ? (trf_real)c->d_model : 1;
unread positions keep their old gradient @@ model @@ if (pass->first && c->position_offset > 0) @@ if (0)
written weights do not reach the copies @@ apart @@     if (trainer->written) trf__pack_weights(&trainer->pass); @@     (void)0;
more rows than 31 bits count @@ model @@ if (*rows > INT32_MAX) @@ if (0)
pairs of a step beyond 31 bits @@ model @@ batch->ordinal > room) @@ 0)
sums kept that nobody knows @@ apart @@ if (status != TRF_OK) { trf_trainer_discard_gradients(t); return status; } @@ if (status != TRF_OK) return status;
scratch kept of memory that did not come @@ memory @@     size = status == TRF_OK ? *pass : bigger;       /* the one to be given up */ @@     size = *pass; if (status != TRF_OK) return status;
embedding gradient unscaled @@ ops blocks model @@ sum = trf__fma(trf__load_n(dy + rows[i] * j->d + c, n), trf__set(j->scale), sum); @@ sum = trf__add(trf__load_n(dy + rows[i] * j->d + c, n), sum);
a group loses its last row @@ ops blocks model @@ for (i = j->groups.first[k]; i < j->groups.first[k + 1]; i++) @@ for (i = j->groups.first[k]; i + 1 < j->groups.first[k + 1]; i++)
ids are grouped by their lower 12 bits @@ ops @@ ids[rows[i]] != ids[rows[i - 1]]) first[k++] @@ (ids[rows[i]] & 4095) != (ids[rows[i - 1]] & 4095)) first[k++]
a row without a list of positions stands at 0 @@ ops @@ return at->position ? at->position[row] : row; } @@ return at->position ? at->position[row] : 0 * row; }
the first weight gradient is added @@ ops model @@ trf__view_of(j->x, j->in, 1), !j->first); @@ trf__view_of(j->x, j->in, 1), 1);
the first bias gradient is added @@ ops model @@ if (first) memset(sum, 0, @@ if (0) memset(sum, 0,
the first gain gradient is added @@ ops model @@ all_gain = j->first ? trf__set(0) : @@ all_gain = 0 ? trf__set(0) :
the first embedding gradient is added @@ ops model @@ if (j->first) trf__zero_columns( @@ if (0) trf__zero_columns(
the first gradient of positions is added @@ ops model golden @@ if (j->first_table) trf__zero_columns( @@ if (0) trf__zero_columns(
every group of a loss is the first @@ ops @@ job.ld, l->first && job.row0 == 0 }; @@ job.ld, l->first };
a loss without rows leaves its gradients @@ ops @@ job.row0 < l->rows || job.row0 == 0; @@ job.row0 < l->rows;
the first sums are added @@ ops model @@ if (l->first) memset(l->slots, 0, @@ if (0) memset(l->slots, 0,
sums of the last micro-batch alone @@ ops model @@ if (l->first) memset(l->slots, 0, @@ memset(l->slots, 0,
sums lose what a float does not hold @@ ops @@ return (double)slots[slot] + (double)slots[slot + 1]; } @@ return (double)slots[slot]; }
the loss begins at row 0 of its matrix @@ ops @@ job.w = trf__mat_from(l->w, 0, l->d); @@ job.w = l->w;
a copy is read from the middle of a panel @@ ops @@ w.copy = w.copy && r % 16 == 0 ? @@ w.copy = w.copy ?
the copies of a wide matrix are its first rows @@ ops usage @@ int64_t row = tile * 256, at = j->offset + row * j->in; @@ int64_t row = tile * 256, at = j->offset + 0 * row * j->in;
a second gradient of y forgotten where there is no norm @@ ops model @@ else if (j->ds != j->dy || j->dy2) @@ else if (j->ds != j->dy)
every span has the ancestors of the first @@ ops usage @@ in->key_rows ? in->key_rows + s * in->key_stride : NULL; @@ in->key_rows;
attention weights of the first head @@ ops usage @@ trf__head h = trf__head_of(&a->in, a->head); @@ trf__head h = trf__head_of(&a->in, 0);
learned positions' gradient without the offset @@ model golden @@ e.dtable = table + c->position_offset * e.d; @@ e.dtable = table;
a decoded token's keys go to the first slot @@ usage model @@ a->slots[row + j] = (int32_t)(at * a->n_rows + row + j); @@ a->slots[row + j] = row + j;
every layer reads the first layer's source @@ usage model @@ sub.memory = trf__act_at(&pass->run, cache->cross, is->layer * cache->cross_layer); @@ sub.memory = cache->cross;
the prefix of the first place for all @@ usage @@ h->there.prefixes + at, n_prefix, c->eos, @@ h->there.prefixes, n_prefix, c->eos,
decoding one position late @@ usage model @@ a->position[row + j] = beam->n; @@ a->position[row + j] = beam->n + 1;
decoding does not see its own token @@ usage model @@ trf__span span = { row + j, 1, 0, beam->n + 1, 0 }; @@ trf__span span = { row + j, 1, 0, beam->n > 0 ? beam->n : 1, 0 };
cache of the wrong parent @@ usage model @@ : before + trf__beam_parents(beam)[j]; @@ : before + j;
ancestors of the row itself @@ ops usage @@ memcpy(to, j->from + j->parents[r] * j->stride, @@ memcpy(to, j->from + r * j->stride,
answers where their place is @@ usage @@ int32_t sentence = h->sentence[place]; @@ int32_t sentence = place;
BOS may be said @@ usage @@ top.banned[0] = c->pad; top.banned[1] = c->bos; @@ top.banned[0] = c->pad; top.banned[1] = -1;
only one id can be banned @@ ops usage @@ id != t->banned[0] && id != t->banned[1] && @@ id != t->banned[0] &&
a forced id need not be the one @@ ops usage @@ if (only >= column && only < column + columns) { @@ if (0) {
log-softmax forgotten @@ ops usage @@ (double)best[i] - lse : -HUGE_VAL; @@ (double)best[i] : -HUGE_VAL;
a floor too high @@ ops search @@ best[t->n - 1] > *floor) *floor = best[t->n - 1]; @@ best[0] > *floor) *floor = best[0];
targets do not end with EOS @@ definitions model @@ l->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->eos; @@ l->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->pad;
the decoder reads what it should say @@ definitions golden @@ (k == 0 ? trf__start_id(c) : x->ids[at + k - 1]) @@ (k == 0 ? trf__start_id(c) : x->ids[at + k - (k < x->lengths[i])])
sources without EOS @@ definitions golden @@ int32_t i, k, extra = stack->decoder ? c->target_eos : c->source_eos; @@ int32_t i, k, extra = stack->decoder ? c->target_eos : 0;
targets end with EOS in any case @@ targets @@ int32_t i, k, extra = stack->decoder ? c->target_eos : c->source_eos; @@ int32_t i, k, extra = stack->decoder ? 1 : c->source_eos;
EOS may not stand where the caller puts it @@ targets @@ if (eos && id == c->eos) continue; @@ (void)eos;
a forced EOS ends a search @@ targets @@ int32_t eos = beam->n < beam->n_prefix ? -1 : beam->eos; @@ int32_t eos = beam->eos;
spans are cut with other chances @@ noise @@ if (trf__draw_below(draws, left) < cuts) @@ if (trf__draw_below(draws, left + 1) < cuts)
a word too long is masked all the same @@ noise @@ && (n > 0 || w + 1 < n_words)) continue; @@ && 0) continue;
no word is masked where all are too long @@ noise @@ && (n > 0 || w + 1 < n_words)) continue; @@ ) continue;
noise does not know whose turn it is @@ noise @@ (uint64_t)batch.ordinal + (uint64_t)i); @@ (uint64_t)i);
a batch has the noise of any other @@ noise @@ key = trf__random64(key, TRF__NOISE_BATCH, (uint64_t)batch.place.batch); @@ key = trf__random64(key, TRF__NOISE_BATCH, 0);
chunks that were refused stay @@ corpus @@ corpus->n_pairs = before.n_pairs; @@ (void)0;
a grown vocabulary has a token twice @@ vocab @@ fault = trf__token_fault(vocab, token, strlen(token)); @@ fault = NULL;
cross attention reads another sentence @@ model definitions @@ span->key = pass->encoder.host.self[i].query; @@ span->key = pass->encoder.host.self[0].query;
fairseq smoothing divides by V @@ definitions blocks @@ else l->off = e / (n - 1); @@ else l->off = e / n;
uniform smoothing forgets the target's share @@ definitions blocks @@ { l->on = 1 - e + e / n; @@ { l->on = 1 - e;
smoothing counts pad @@ definitions @@ { l->off = e / (n - 2); @@ { l->off = e / (n - 1);
smoothing keeps its entropy @@ definitions @@ l->row_loss[row] -= l->entropy; @@ (void)0;
loss gradient misses the smoothing @@ ops blocks model @@ z[target] -= (trf_real)(l->on - l->off); @@ z[target] -= (trf_real)l->on;
adam's second beta is the first @@ ops model golden @@ trf__min(trf__mul(g, g), square), a->beta2); @@ trf__min(trf__mul(g, g), square), a->beta1);
a thawed parameter has had every update @@ ops finetune @@ (double)(a->verdict->updates - missed), c1 @@ (double)a->verdict->updates, c1
what was missed is not kept @@ finetune @@ if (trainer->missed[i] != 0 || trainer->frozen[i] == '1') { @@ if (0) {
a discarded batch is done with @@ store @@     trainer->behind = trainer->begin;           /* their batches @@     /* their batches
a batch that was only looked at is still to come @@ store @@ if (trainer->before.corpus == trainer->begin.corpus) trainer->begin = trainer->before; @@ (void)0;
other options keep the old dropouts @@ store finetune @@     trf__stack_drops(&pass->decoder, &o); @@     (void)0;
other options keep the old hooks @@ store finetune @@     pass->run.hooks = o.hooks; @@     (void)0;
other options shrink the plan @@ store finetune @@ limits.longest = trf__max64(limits.longest, pass->limits.longest); @@ (void)0;
a target's text by the source's vocabulary @@ corpus @@ trf__corpus_encode(corpus, 1, target_vocab, target, @@ trf__corpus_encode(corpus, 1, source_vocab, target,
the text of another sentence @@ usage @@ h = trf_hypothesis_at(translator, sentence, rank); @@ h = trf_hypothesis_at(translator, 0, rank);
a rewound corpus was put elsewhere @@ store @@ corpus->epoch = corpus->batch = corpus->put_epoch = corpus->put_batch = 0; @@ corpus->epoch = corpus->batch = 0;
a refused text leaves the answer before it @@ usage @@ if (!status) trf__forget_answers(translator); @@ (void)0;
a circle in a map of characters @@ pieces @@ i < n && i < 1000 && found < 32; @@ i < n && found < 32;
a map stays when it is emptied @@ pieces @@ && w.value == 0) p->n_rules = 0; @@ && w.value == 0) (void)0;
a NUL among pieces without byte fallback @@ pieces @@ if (p->nuls && !p->byte_fallback) return @@ if (0) return
a piece of any length @@ pieces @@ else if (length > 7999) fault @@ else if (length > 79999) fault
missed updates of a file are not checked @@ finetune @@ if (t->missed[i] < least || t->missed[i] > least + updates) @@ if (0)
room for candidates that cannot be @@ memory @@ trf__min64((int64_t)s->beam * s->candidates + 1, trf__choices(s, vocab)) @@ (int64_t)s->beam * s->candidates + 1
the logarithm of no smoothing @@ definitions @@ if (rule == TRF_SMOOTH_OTHERS || l->off <= 0) return; @@ if (rule == TRF_SMOOTH_OTHERS || e <= 0) return;
adam without bias correction @@ ops definitions golden model @@ j.v_scale = 1 / c2; @@ j.v_scale = 1;
fairseq's epsilon @@ ops definitions @@ { j.rate = learning_rate * sqrt(c2) / c1; j.v_scale = 1; } @@ { j.rate = learning_rate / c1; j.v_scale = 1; }
weight decay on biases @@ model definitions @@ tile.decay = decay_all || @@ tile.decay = 1 ||
clipping forgotten @@ ops model golden @@ if (!(v->scale < 1)) v->scale = 1; @@ v->scale = 1;
norm of the sum, not of the mean @@ ops model golden @@ v->norm = sqrt(sum) / v->sums.tokens; @@ v->norm = sqrt(sum);
a mean begins at the wrong side @@ model @@ if (beta < 0.5) return trf__fma( @@ if (0) return trf__fma(
coupled decay goes beyond all squares @@ model @@ trf__min(trf__max(trf__mul(l2, p), least), most) @@ trf__mul(l2, p)
the gradient's scale in one factor @@ model @@ first = scale < 1e-20 ? 1e-20 : 1; @@ first = 1;
a second moment of nothing @@ model @@ if (TRF__REAL_BYTES == 4) j.least_root = @@ if (0) j.least_root =
an infinite weight @@ model @@ p = trf__if_less(trf__sub(moved, moved), one, moved, p); @@ p = moved; (void)one;
root of a denormal number @@ ops @@ trf__if_less(a, tiny, trf__set(18446744073709551616.0f), one) @@ one
bias correction counts skipped steps @@ model @@ if (!v->skipped) v->updates++; @@ v->updates++;
a cancelled step loses its batch @@ store @@     if (begin.corpus != next.corpus) return next; @@     return next;
what a rewound corpus has delivered is lost @@ store @@ { begin.epoch = corpus->put_epoch; begin.batch = corpus->put_batch; } @@ begin = next;
a refused batch of other data moves the place @@ store @@     if (refused && t->behind.corpus != 0 && t->behind.corpus != place.corpus) return; @@     (void)refused;
a batch from nowhere moves the place @@ store @@     if (place.corpus == 0) return; @@     (void)0;
a cancelled batch is done with @@ store @@ if (status != TRF_E_CANCELLED && place.batch < INT64_MAX) @@ if (place.batch < INT64_MAX)
no place behind an epoch's last batch @@ store corpus @@ if (batch == c->n_batches) { epoch++; batch = 0; } @@ (void)0;
warm-up exponent @@ definitions @@ double rising = s * pow(w, -1.5) @@ double rising = s * pow(w, -1.4)
learning rate of the step before @@ definitions model usage golden @@ pass->now.learning_rate = trf_learning_rate(o, pass->config->d_model, trainer->step + 1); @@ pass->now.learning_rate = trf_learning_rate(o, pass->config->d_model, trainer->step);
target embedding learns nothing @@ model golden @@     pass->run.backend->embed_gradient(&pass->run, &e); @@     if (!stack->decoder) pass->run.backend->embed_gradient(&pass->run, &e);
only one decoder layer teaches the encoder @@ model golden @@ if (layer->is.kind == TRF__CROSS) memory_seen = 1; @@ if (layer->is.kind == TRF__CROSS) memory_seen = 0;
NaN is applied @@ ops model @@ v->skipped = !(v->norm * v->scale < TRF__MOST_GRADIENT) || !trf__is_finite(v->sums.loss); @@ v->skipped = 0;
a loss that is not finite is learned from @@ ops @@ || !trf__is_finite(v->sums.loss); @@ ;
a skipped step moves the weights @@ ops model @@ if (!a->verdict->skipped) trf__tiles( @@ trf__tiles(
a skipped step counts as an update @@ ops model @@ if (!v->skipped) v->updates++; @@ v->updates++;
nobody is blamed for a NaN @@ ops model @@ trf__judge(j, sum, trf__is_finite(sum) ? -1 : trf__bad_tile(j)); @@ trf__judge(j, sum, -1);
micro-batches do not add up @@ model same @@ pass->first = trainer->micro == 0; @@ pass->first = 1;
a slice of gradients is not summed over ranks @@ usage model same @@ t->gradients + begin, (size_t)(end - begin), @@ t->gradients + begin, (size_t)(end - begin - 1),
xavier counts q, k and v wrongly @@ definitions @@ && c->init == TRF_INIT_XAVIER ? in : out))); @@ && c->init == TRF_INIT_XAVIER ? out : in)));
linear as xavier @@ look @@         if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(in); @@         if (0) bound = 1 / sqrt(in);
linear without biases @@ look @@     case TRF__START_BIAS: if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(d); break; @@     case TRF__START_BIAS: break;
linear, the second bias as wide as the first @@ look @@ bound = 1 / sqrt((double)c->d_ff); @@ bound = 1 / sqrt(d);
length penalty of GNMT @@ search usage @@ return s / pow((5.0 + (double)length) / 6.0, search->alpha); @@ return s / pow((5.0 + (double)length) / 5.0, search->alpha);
EOS never counts in the length @@ search usage @@ (ended == TRF_ENDED_EOS ? beam->search.count_eos : 0); @@ 0;
shortest answer one too short @@ search usage @@ int eos_allowed = forced >= 0 || beam->n >= beam->least; @@ int eos_allowed = forced >= 0 || beam->n + 1 >= beam->least;
EOS keeps its share of the softmax @@ search ops @@ without = only == TRF__NOT_EOS ? t->eos : -1; @@ without = -1;
EOS is out of the softmax for ever @@ search usage @@ eos_out = eos_forbidden && beam->search.renormalize_logits; @@ eos_out = beam->search.renormalize_logits;
CTranslate2's preset keeps EOS in the softmax @@ search @@ search->renormalize_logits = ctranslate2; @@ search->renormalize_logits = 0;
forced tokens are never free @@ search @@ beam->n < beam->n_prefix && !beam->search.score_prefix @@ 0
free tokens are lost @@ search @@             own = p; @@             own = beam->n < beam->n_prefix && !beam->search.score_prefix ? 0 : p;
the heuristic looks at n best @@ search @@ beam->keep = search->stop == TRF_STOP_HEURISTIC ? search->beam : @@ beam->keep =
the heuristic is the bound @@ search @@ hope = search->stop == TRF_STOP_BOUND ? @@ hope = search->stop != TRF_STOP_FINISHED ?
an answer stands in, proven, for a lost one @@ search @@ proven = stands_in ? !beam->gave_up : @@ proven = stands_in ? beam->dropped == TRF__IMPOSSIBLE :
the paper preset with PyTorch's epsilon rule @@ definitions @@ options->epsilon_rule = paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE; @@ options->epsilon_rule = TRF_EPSILON_OUTSIDE;
an escape of two bytes @@ files @@ (0xF00 >> (extra + 1) & 0xFF) @@ (0xF00 >> extra & 0xFF)
stops too early @@ search @@ double best = trf__search_score(search, sum, longest), score; @@ double best = trf__search_score(search, sum, n + 1), score;
answers in the order they ended @@ search usage @@ if (a->score > b->score) return 1; @@ if (a->score > b->score) return 0;
sequences at the limit are refused @@ definitions usage model @@ if ((int64_t)x->lengths[i] + extra > max_length) @@ if ((int64_t)x->lengths[i] + extra >= max_length)
EOS may stand in a sequence @@ usage definitions @@ if ((id == c->pad && c->head != TRF_HEAD_MASKED) || id == c->bos || id == c->eos) @@ if (id == c->pad || id == c->bos)
translating cannot be cancelled @@ usage @@         TRF__TRY(trf__cancel_status(&pass->run.hooks, err)); @@         (void)err;
a step does not count @@ usage model @@     trainer->step++; @@     (void)0;
a field of the configuration is not stored @@ store @@ X(trf_norm_rule,      norm_rule,        0, TRF_NORM_RULE_COUNT - 1, 2) @@ X(trf_norm_rule,      norm_rule,        0, TRF_NORM_RULE_COUNT - 1, 0)
a sequence's row is a sum @@ ops heads @@ trf__to(j->to) + tile * j->d + c, trf__mul(sum, share) @@ trf__to(j->to) + tile * j->d + c, sum
pooled rows not divided @@ ops heads @@ trf__mul(trf__load_n(dy + c, j->d - c), share) : trf__set(0) @@ trf__load_n(dy + c, j->d - c) : trf__set(0)
rows that were not pooled have a gradient @@ ops heads @@ r < n ? trf__mul(trf__load_n(dy + c @@ 1 ? trf__mul(trf__load_n(dy + c
the projection's gradient of a tied embedding is lost @@ heads @@ trf__shares_embedding(c) || c->head == TRF_HEAD_MASKED; @@ trf__shares_embedding(c);
the target's gradient of a shared embedding is lost @@ model @@ : trf__shares_embedding(c) || c->head @@ : c->tying == TRF_TIED_ALL || c->head
EOS has a label @@ heads @@ targets[row++] = k < x->lengths[i] ? x->ids[at++] : -1; @@ targets[row++] = x->ids[k < x->lengths[i] ? at++ : at];
rows that fill up have a label @@ cuda @@ while (row < pass->decoder.rows) targets[row++] = -1; @@ while (row < pass->decoder.rows) targets[row++] = 0;
a label beyond the last @@ heads @@ x->ids[at] >= trf__n_logits(c)) @@ x->ids[at] > trf__n_logits(c))
a mask in every model @@ heads @@ (id == c->pad && c->head != TRF_HEAD_MASKED) @@ 0
labels that nobody asks for count @@ heads @@ *wanted += x->ids[at] >= 0; @@ *wanted += 1;
tags of EOS @@ heads @@ row += n + 1; @@ row += n;
files of format 2 are not read @@ store @@ TRF__FORMAT_READ = 2, @@ TRF__FORMAT_READ = 3,
files of another format are read @@ store @@ if (format < TRF__FORMAT_READ || format > TRF__FORMAT) @@ if (format > TRF__FORMAT)
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
a corpus rewinds to the beginning of its epoch @@ corpus @@ if (corpus) corpus->epoch = corpus->batch = corpus->put_epoch @@ if (corpus) corpus->batch = corpus->put_epoch
a text has as many ids as there was room @@ corpus usage @@ if (status != TRF_E_LIMIT || to->n <= to->capacity) return status; @@ return status;
others' metadata are lost @@ store @@ if (status == TRF_OK) status = trf__read_metadata(file, model, err); @@ (void)0;
metadata in the order of setting @@ store @@ strcmp(model->metadata[i].key, key) < 0; i++) @@ strcmp(model->metadata[i].key, key) != 0; i++)
a copy without metadata @@ store @@ if (!status) status = trf__metadata_keep(*copy, @@ if (0) status = trf__metadata_keep(*copy,
more metadata than readers take @@ store @@ if (value && (texts > TRF__META_BYTES || n > TRF__META_MOST)) @@ if (value && texts > TRF__META_BYTES)
old dropouts under new options @@ store @@ trf__stack_drops(&pass->encoder, &o); @@ (void)0;
a layer not made again @@ finetune @@ && i + 1 < stack->n_sublayers) @@ && i + 1 < 0)
the input of a layer not made again @@ finetune @@ if (i > 0) trf__norm_alone(pass, stack, below->y, NULL, @@ if (0) trf__norm_alone(pass, stack, below->y, NULL,
layers share what must stay @@ finetune @@ for (i = 2 * stack->per_layer - 1; pass->limits.recompute && @@ for (i = 2 * stack->per_layer - 1; 0 &&
the last y is shared @@ finetune @@ if (i == stack->n_sublayers - 1) sub->y = @@ if (i < 0) sub->y =
recomputing takes as much memory @@ finetune @@ (pass->limits.recompute && i % stack->per_layer == 0)) cursor->used = first; @@ 0) cursor->used = first;
what is frozen moves @@ finetune @@ tile.n = t->frozen[i] == '1' ? 0 : trf__min64( @@ tile.n = trf__min64(
only the first star counts @@ finetune @@ else if (star) { pattern = star; name = ++tried; } @@ else if (star) { pattern = star; name = tried + strlen(tried); }
checkpoints forget what is frozen @@ finetune @@ if (strchr(trainer->frozen, '1')) trf__note( @@ if (0) trf__note(
a frozen mark that is none @@ finetune @@ strlen(frozen) != n || strspn(frozen, "01") != n @@ strlen(frozen) != n
too few frozen marks @@ finetune @@ strlen(frozen) != n || strspn(frozen, "01") != n @@ strspn(frozen, "01") + 1 < n
weights are copied before all is looked at @@ finetune @@ for (at = 0; write && at < size; at += n) { @@ for (at = 0; at < size; at += n) {
rows that only one model has are copied @@ finetune @@ size = trf__min64(trf__param_size(p), trf__param_size(q)); @@ size = trf__param_size(q);
an updater keeps its weights to itself @@ updater @@ run->backend->download(run, weights[i].data, updater->model.weights @@ if (i < 0) run->backend->download(run, weights[i].data, updater->model.weights
an updater's rate stands still @@ updater @@ updater->model.config.d_model, t->step + 1); @@ updater->model.config.d_model, 1);
vectors decay @@ updater @@ weights[i].rank > 1 ? TRF__START_MATRIX @@ weights[i].rank > 0 ? TRF__START_MATRIX
names of tensors come twice @@ updater @@ if (!status) status = trf__file_unique(NULL, items, n, "tensor", tensors, sizeof *tensors, err); @@ (void)0;
keys come twice @@ updater @@ if (!status) status = trf__file_unique(NULL, items, n_texts, "key", metadata, 2 * sizeof *metadata, err); @@ (void)0;
shapes below zero are written @@ updater @@ if (t->shape[k] < 0 || @@ if (t->shape[k] < -9 ||
old tiles under new options @@ store @@ if (o.decay_all != trainer->options.decay_all) @@ if (0)
old recordings under new options @@ cuda @@ pass->options_set++; @@ (void)0;
the last report with a new learning rate @@ store @@ report->learning_rate = trainer->rate; @@ report->learning_rate = trf_learning_rate(&trainer->options, trainer->model->config.d_model, report->step);
a mean is a sum @@ model @@ numbers[i] = (trf_real)(sum[i] / count); @@ numbers[i] = (trf_real)sum[i];
a temporary file is anybody's @@ files @@ flock(held, LOCK_EX | LOCK_NB) == 0 @@ flock(held, LOCK_SH | LOCK_NB) == 0
what is held may have lost its name @@ files @@ mine.st_dev != there.st_dev || mine.st_ino != there.st_ino) @@ 0)
what is left behind stays @@ files @@ if (TRF_OS_HOLDS) trf__save_sweep(saving); @@ (void)0;
held no longer than it is written @@ files @@ held = fd >= 0 ? dup(fd) : open(path, flags); @@ held = fd >= 0 ? fd : open(path, flags);
a slow build says nothing @@ store @@ if (TRF__SLOW && model->run.backend == @@ if (0 && model->run.backend ==
no kind in a message @@ model @@ if (high != 0 || value == 0) return trf__check_range( @@ return trf__check_range(
a failed save leaves its file behind @@ files store @@ if (saving->made) (void)TRF_OS(unlink)(saving->temporary); @@ (void)0;
NaN weights are loaded @@ files store @@ if (!trf__is_finite((double)*values) && !file->allow_nonfinite) @@ if (0)
negative second moments are taken @@ store @@ if (!(numbers[i] >= 0)) @@ if (0)
tied matrices may differ @@ store @@ if (!memcmp(numbers, there, (size_t)n * sizeof *there)) continue; @@ continue;
extra tensors are accepted @@ store @@ if (!known[i]) @@ if (known[i] > 1)
transposed tensors are accepted @@ store @@ if (e->rank == p->rank && e->shape[0] == p->shape[0] && @@ if (e->rank == 2 && e->shape[0] == p->shape[1] && e->shape[1] == p->shape[0]) return TRF_OK; if (e->rank == p->rank && e->shape[0] == p->shape[0] &&
resuming begins at step 0 @@ store usage same @@     t->step = step; @@     t->step = 0;
resuming begins the epoch again @@ corpus store usage @@     c->batch = c->put_batch = batch; @@     c->batch = c->put_batch = 0;
resuming with other data @@ store @@ if (trainer->begin.corpus != fingerprint) @@ if (0)
second moments of the first @@ store usage @@ trf__read_arena(file, model, "optimizer.v.", t->v, err); @@ trf__read_arena(file, model, "optimizer.m.", t->v, err);
a checkpoint in the middle of a step @@ store @@ if (trainer->micro == 0) return TRF_OK; @@ if (trainer->micro < 1000) return TRF_OK;
every epoch in the same order @@ corpus @@ TRF__SHUFFLE_EPOCH, (uint64_t)epoch); @@ TRF__SHUFFLE_EPOCH, 0); (void)epoch;
batches one pair too large @@ corpus @@ if (i == 0 || over || i - begin >= o->batch_sentences) { @@ if (i == 0 || over || i - begin > o->batch_sentences) {
a round beyond the slots of the cache @@ usage @@ int64_t most = trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16)); @@ int64_t most = INT32_MAX / (tokens + 16);
a round beyond the numbers of rows of sources @@ usage @@ int64_t most = trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16)); @@ int64_t most = INT32_MAX / (s->beam * (longest + 1));
short sentences at the pace of long ones @@ usage @@ trf__together(&t->search, w->length, longest) / 2 >= n) break; @@ 0) break;
places are not taken again before all are free @@ apart @@ 8 * (int64_t)(round->n - round->taken) >= round->n; @@ round->taken == 0;
one that arrives takes a place that is taken @@ usage apart @@ if (h->sentence[place] < 0) @@ if (1)
sources of the place before @@ usage model @@ arrival->source.key = (int32_t)(place * h->area); @@ arrival->source.key = (int32_t)((place > 0 ? place - 1 : 0) * h->area);
keys of one that arrives in its neighbour's area @@ usage model @@ h->here.slots[row + i] = (int32_t)(place * h->area + i); @@ h->here.slots[row + i] = (int32_t)i;
the cache forgets a column too early @@ ops @@ now.at = now.at + 1 < a->columns ? @@ now.at = now.at + 2 < a->columns ?
those that arrive push the others out @@ ops usage @@ if (a->begin) return now; @@ if (a->begin) now.rows = 0;
one that arrives reads a parent @@ ops @@ a->parents[row + j] = a->begin ? 0 : before @@ a->parents[row + j] = a->begin ? 1 : before
keys of an area one off @@ ops model @@ to[c * j->area + i] = from[c]; @@ to[c * j->area + (i + 1) % j->area] = from[c];
values of an area over its keys @@ ops model @@ memcpy(to + half * (j->area + i), from + half, @@ memcpy(to + half * i, from + half,
a cancelled look has written @@ usage @@     views->map = (trf_real *)translator->room.memory; @@     views->map = views->layer < 0 ? (trf_real *)translator->room.memory : views->attention[0] ? views->attention[0] : views->attention[1] ? views->attention[1] : views->attention[2];
rows wrap at 32 bits @@ usage @@ rows += (int64_t)x->lengths[i] + extra; @@ rows += (int32_t)((uint32_t)x->lengths[i] + (uint32_t)extra);
a weight without outputs @@ blocks @@ if (*out < 1) return @@ if (*out < 0) return
a translator's memory without its sources @@ memory @@ h.area = round.longest_source; @@ h.area = 0;
a translator's memory without its answers @@ memory @@ cache = trf__add_size(trf__add_size(h.bytes, h.device_bytes), trf__add_size(ids, ids / 2)); @@ cache = trf__add_size(h.bytes, h.device_bytes); (void)ids;
a dropout of one @@ blocks @@ (p < 65535.0 / 65536 ? p * 65536 + 0.5 : 65535) @@ (p * 65536 + 0.5)
a failed delivery keeps the last batch @@ corpus @@ if (batch) TRF__ZERO(*batch); @@ (void)0;
controls of two bytes reach the terminal @@ files @@ (c == 0xC2 && (unsigned char)from[1] < 0xA0) @@ 0
a character cut in two @@ files @@ int bytes = trf__utf8_at(from, left), taken = bytes ? bytes : 1; @@ int bytes = 1, taken = 1;
an error does not name its file @@ files store @@ snprintf(text, sizeof text, "%s: %s", name, err->message); @@ snprintf(text, sizeof text, "%s", err->message);
the rarest token first @@ vocab @@ if (x->count != y->count) return x->count > y->count ? -1 : 1; @@ if (x->count != y->count) return x->count > y->count ? 1 : -1;
a report read before it has come @@ apart @@ TRF__TRY(pass->run.backend->sync(&pass->run, err)); @@ (void)err;
tied matrices differ on a broken device @@ apart @@ TRF__TRY(trf__arena_get(model, arena, p->offset + at, there, n, err)); @@ (void)trf__arena_get(model, arena, p->offset + at, there, n, NULL);
a block's dropout outlives its memory @@ apart @@ c->run.now = NULL; @@ (void)0;
a block's guests stay @@ apart @@ for (i = 0; i < c->n_guests; i++) run->backend->release(run, c->guests[i].device, c->guests[i].bytes); @@ (void)0;
the host makes the position table itself @@ apart @@ pass->run.backend->upload(&pass->run, pass->table + p * c->d_model, row, bytes); @@ memcpy(pass->table + p * c->d_model, row, bytes);
the step goes to the device without upload @@ apart @@ pass->run.backend->upload(&pass->run, pass->device_block, pass->host_block, bytes); @@ memcpy(pass->device_block, pass->host_block, bytes);
every step waits for the device @@ apart @@ trainer->updated = trainer->step; @@ trainer->updated = trainer->step; TRF__TRY(trainer->pass.run.backend->sync(&trainer->pass.run, err));
a saved file never asks whether its numbers came @@ apart cuda @@ TRF__TRY(out->home->backend->sync(out->home, err)); @@ (void)out->home->backend->sync(out->home, NULL); (void)err;
an average of numbers that never came @@ cuda @@ TRF__TRY(trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n, err)); @@ (void)trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n, NULL);
rows that fill up beyond the longest are left out @@ cuda @@ stack->most_keys = trf__max64(stack->most_keys, span->n_key); @@ (void)0;
a GPU hides NaN in ReLU @@ cuda_ops @@ return h < 0 ? 0 : h; @@ return h > 0 ? h : 0;
a GPU hides NaN in attention @@ cuda_ops @@ seen > 0 ? out[o] / sum : 0 @@ sum > 0 ? out[o] / sum : 0
a GPU sums a norm wider than its room @@ cuda_ops @@ int64_t c, most = TRF__CUDA_SUMS / 2; @@ int64_t c, most = (int64_t)1 << 40;
a gradient of more rows than are sorted @@ blocks @@ if (dweight->shape[0] > 1 << 24) @@ if (0)
more ids of blocks than an int counts @@ blocks @@ if (x->lengths[i] > INT32_MAX - *rows) @@ if (0)
a gradient of no memory of any shape @@ blocks @@ if (memory && (dmemory || sub.memory_rows > 0)) @@ if (memory && sub.memory_rows > 0)
a saved zero hides a size @@ updater @@ if (t->shape[k] > 1) most = trf__times(most, t->shape[k]); @@ (void)0;
a header of 640 bytes is a pickle @@ files @@ (begin[0] != 0x80 || n > TRF__FILE_HEADER)) @@ 1)
a GPU reads one logit too many @@ cuda_ops @@ target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS) { @@ target >= 0 && c <= l.vocab; c += TRF__CUDA_THREADS) {
shared memory too small @@ cuda_ops cuda @@ TRF__SHARED(float, weights, 2 * TRF__CUDA_WARPS * TRF__OTHERS); @@ TRF__SHARED(float, weights, TRF__CUDA_WARPS * TRF__OTHERS);
shared memory behind the end not zero @@ cuda_ops @@ uint4 eight = {0, 0, 0, 0}; @@ uint4 eight; if (row >= n) continue;
rows in shared memory misaligned @@ cuda_ops @@ *(uint4 *)(void *)(to + e / (D / 8) * (D + 8) + c) = eight; @@ *(uint4 *)(void *)(to + e / (D / 8) * (D + 8) + c + 4) = eight;
a list played for other numbers of rows @@ cuda @@ from->rows, from->n_self, from->n_groups, from->most_queries, @@ 0, 0, 0, 0,
a list played for the next micro-batch @@ cuda @@ (int64_t)(intptr_t)pass->device_block, pass->first, @@ (int64_t)(intptr_t)pass->device_block, 0,
half a list is played @@ cuda @@ if (whole && e == cudaSuccess && !cuda->failed) e = @@ if (e == cudaSuccess && !cuda->failed) e =
what is recorded does not happen @@ cuda @@     if (e == cudaSuccess) { trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1; } @@     if (e == cudaSuccess) return 1;
what is filled up asks for a token @@ apart cuda @@ l->ids[row] = l->targets[row] = -1; @@ l->ids[row] = l->targets[row] = 4;
empty lists of rows read the end @@ cuda @@ if (j.groups.first[k] == j.groups.first[k + 1]) break; @@ (void)0;
a GPU's left factor turned @@ cuda_ops @@ (from + i % 2 * 8 * (D + 8) + c * 16 + i / 2 * 8); @@ (from + i / 2 * 8 * (D + 8) + c * 16 + i % 2 * 8);
a GPU's delta of the first row for both @@ cuda_ops @@ dp[j][e] * factor - delta[e / 2]) @@ dp[j][e] * factor - delta[0])
a GPU's dropout of weights by the key alone @@ cuda_ops @@ trf__gpu_kept(h, now, query + e / (KEYS / 8), key / 8 + e % (KEYS / 8)); @@ trf__gpu_kept(h, now, query, key / 8 + e % (KEYS / 8));
a GPU's gradient of keys from too late a query @@ cuda_ops @@ first = h.begin - (h.n - n); @@ first = h.begin - (h.n - n) + 1;
a GPU's best ones twice @@ cuda_ops @@ if (keys[i] == next) keys[i] = 0; @@ if (keys[i] == next) keys[i] = next;
a GPU's equal logits by the higher id @@ cuda_ops @@ << 32 | (uint32_t)~id; @@ << 32 | (uint32_t)id;
a GPU's slices with sums above their own maxima @@ cuda_ops @@ sum += sums[2 * s + 1] * expf(sums[2 * s] - maximum); @@ sum += sums[2 * s + 1];
a GPU's keys beyond the last @@ cuda_ops @@ if (h.begin + r < q->seen) p = @@ if (h.begin + r <= q->seen) p =
16 bits cut, not rounded @@ cuda_ops @@ (u + 0x7FFF + (u >> 16 & 1)) >> 16); @@ u >> 16);
the copy of 16 bits keeps its old weights @@ cuda_ops cuda @@ if (a.copy) trf__narrow( @@ if (0) trf__narrow(
a bias of another parameter @@ cuda_ops cuda @@ trf__weights_at(run, &j->w, j->b - j->w.plain); @@ trf__weights_at(run, &j->w, 0);
uploads overwritten before they are read @@ cuda @@ if (cudaEventSynchronize(stage->read) != cudaSuccess) return NULL; @@ (void)0;
algorithms by shape alone @@ cuda cuda_ops @@ p->bias != NULL, (int64_t)(bits & (~bits + 1)) }; @@ p->bias != NULL, 16 };
a round that is over is not looked at @@ usage model @@ int look = at % run->backend->ahead == 0; @@ int look = at < 1;
live rows beyond the first are not counted @@ ops usage @@         now.rows += beam->live; @@         now.rows += 1;
rows of nobody read a token @@ ops @@ a->ids[r] = a->slots[r] = -1; @@ a->slots[r] = -1; a->ids[r] = 4;
keys of nobody are kept @@ ops @@         if (slot < 0) continue; @@         if (slot < 0) slot = 0;
beams read where they were @@ apart @@ if (!on_host) trf__beam_places(beam, (int32_t)h->length, h->memory_read + (size_t)place * h->beam_bytes); @@ (void)0;
a model is read twice @@ files @@ if (trf_file_metadata(file, "trf.crc32")) trf__file_sum(file); @@ (void)0;
a checksum from the middle of the file on @@ store files @@ if (at != file->summed) return TRF_OK; @@ (void)0;
damage told as what it did @@ store @@ checked = trf__file_check_crc(file, status ? &damage : err); @@ checked = status ? TRF_OK : trf__file_check_crc(file, err);
what fills rows up is not zero @@ files @@ if (end < n) run->backend->zero @@ if (0) run->backend->zero
equal pairs merge from the right @@ pieces @@ (a->score == b->score && a->left < b->left); @@ (a->score == b->score && a->left > b->left);
unused pieces stay @@ pieces @@ b->split[token] > 0) { @@ b->split[token] > part.length) {
an unused piece that is one character stays @@ pieces @@ unused ? -1 : token @@ token
unused pieces come apart to the end @@ pieces @@ int unused = part.score-- >= 0 && @@ int unused =
scores of -0 and 0 are equal @@ pieces @@ pair.score ^= INT32_MAX; @@ pair.score = -(pair.score & INT32_MAX);
a user-defined piece counts every byte @@ pieces @@ 0.1 * (end - at - 1) @@ 0.1 * (end - at)
sums of scores grow without end @@ pieces @@ if (till < -100000.0f || till > 100000.0f) { @@ if (till != till) {
any number of user-defined pieces is looked at @@ pieces @@ i < n && found < 64 && @@ i < n &&
any number of rules is looked at @@ pieces @@ i < n && i < 1000 && found < 32; @@ i < n && i < 1000;
blanks in a row stay @@ pieces @@ after_space = p->remove_extra && part[length - 1] == ' '; @@ after_space = 0;
the blank that normalising added stays @@ pieces @@ TRF__SPACE, 3)) k = 3; @@ TRF__SPACE, 3)) k = 0;
a blank in front and behind @@ pieces @@ if (p->dummy_prefix && !p->suffix) @@ if (p->dummy_prefix)
of equal ways the later @@ pieces @@ score > to->score) { @@ score >= to->score) {
the shortest rule of the map @@ pieces @@ if (!(cell >> 8 & 1)) continue; @@ if (longest || !(cell >> 8 & 1)) continue;
every unknown character alone @@ pieces @@ else if (!to->unknown) trf__give_id @@ else trf__give_id
a character of bytes is cut after its first @@ pieces @@ if (k > 1) i += (int32_t)k - 1; @@ (void)0;
a map that leads nowhere is followed @@ pieces @@ sound = (cell & INT32_MAX) < p->n_replaced; @@ (void)0;
a map whose cells lead out of it is taken @@ pieces @@ sound = (to | 255) < p->n_rules && @@ sound =
a map's value is what is no value @@ pieces @@ (!(cell >> 8 & 1) || trf__rule_cell(p, to) >> 31); @@ 1;
a map without a root is taken @@ pieces @@ int sound = !(cell & (1u << 31 | 511)) && cell >> 10 > 0; @@ int sound = 1;
logits times the temperature @@ generate @@ ? 0 : exp(below / o->temperature); @@ ? 0 : exp(below * o->temperature);
equals of the last of top_k dropped @@ generate @@ (popped < o->top_k || w[order[0]] == x) @@ popped < o->top_k
top_p of what top_k has dropped too @@ generate @@ for (total = 0; popped < *m && @@ for (; popped < *m &&
min_p drops what is as likely @@ generate @@ x < o->min_p || @@ x <= o->min_p ||
the penalty helps negative logits @@ generate @@ *x < 0 ? *x * o->repetition_penalty : *x / o->repetition_penalty; @@ *x / o->repetition_penalty;
the penalty spares the beginning @@ generate @@ for (i = 0; o->repetition_penalty @@ for (i = s->n_begin; o->repetition_penalty
min_tokens counts the beginning @@ generate @@ if (s->answer.n < o->min_tokens) @@ if (s->n < o->min_tokens)
the highest id of the likeliest @@ generate @@ if (w[i] > best) { best @@ if (w[i] >= best) { best
random numbers by the answer alone @@ generate @@ 0x80000000u | (uint32_t)s->n, number) @@ 0x80000000u | (uint32_t)s->answer.n, number)
sources at the areas of targets @@ generate @@ cross->key = (int32_t)(*next * g->cache.area); @@ cross->key = span->key;
the rest of a beginning not read @@ generate @@ if (span->n_query < todo) break; @@ (void)0;
a beginning counts as read at its first part @@ generate @@ s->read = s->first == first ? g->here.self[i].n_key : 0; @@ s->read = s->first == first ? s->n : 0;
bytes at the end of an answer never told @@ generate @@ end = ended ? n : trf__whole_ids( @@ end = trf__whole_ids(
a token whose text failed stays @@ generate @@ if (status != TRF_OK) { s->n -= !eos; return status; } @@ if (status != TRF_OK) return status;
a session forgets the first bytes of a character @@ generate @@ s->told = trf__whole_ids(g->model->target, s->answer.ids, 0, s->answer.n); @@ s->told = s->answer.n;
a session forgets that EOS was drawn @@ generate @@ words[1 + 3 * count + i] = s->answer.ended == TRF_ENDED_EOS; @@ words[1 + 3 * count + i] = 0;
max_tokens counts from the loading of a session @@ generate @@ s->limit = trf__story_limit(g, s->n_begin); @@ s->limit = trf__story_limit(g, s->n);
a refused session leaves its rules @@ generate @@ if (status != TRF_OK) g->sampling = before; @@ (void)before;
one token beyond max_length @@ generate @@ ? INT32_MAX : (int64_t)g->model->config.max_length - 1; @@ ? INT32_MAX : (int64_t)g->model->config.max_length;
a cancelled beginning can go on @@ generate @@ if (status != TRF_OK) trf__sampler_free(g); @@ (void)0;
hits on the GPU @@ cuda_ops cuda @@ hit[row] = target >= 0 && at_target >= maximum; @@ hit[row % 256] = target >= 0 && at_target >= maximum;
a session's checksum not looked at @@ generate @@ if (status == TRF_OK) status = trf__file_check_crc(file, err); @@ (void)0;
a session's rules not looked at @@ generate @@ trf__file_fault(trf_sampling_check(&rules, err), err) @@ TRF_OK
a session of any format @@ generate @@ if (format < 1 || format > TRF__SESSION) @@ if (0)
copied weights from their first numbers @@ finetune @@ q->offset + at, numbers @@ q->offset, numbers
forced prefixes for any kind of model @@ usage @@ if (c->kind != TRF_ENCODER_DECODER) @@ if (0)
texts of a language model @@ usage @@ from = trf__has_source(&model->config) ? model->source : model->target; @@ from = model->source;
hooks of a checkpoint's model forgotten @@ store @@     o->hooks = c->hooks; @@     (void)0;
sequences planned by a file @@ store @@ o->sequences = o->sequences < d.sequences ? o->sequences : d.sequences; @@ (void)0;
all weights begin alike @@ definitions @@ chunk, at, n, p, (uint32_t)i, config @@ chunk, at, n, p, 0, config
attention to an absent source @@ model @@ return trf__has_source(c) ? c->decoder_layers : 0; @@ return c->decoder_layers;
maps of one sequence for all @@ look @@     a.in.spans += s; @@     (void)s;
maps of one head for all @@ look @@         a.head = h; @@         a.head = 0;
maps of all layers in one place @@ look @@ to + layer->is.layer * numbers, views->map, @@ to, views->map,
states of all layers in one place @@ look @@ to + i * numbers, state, numbers) @@ to, state, numbers)
the state after the last layer without its norm @@ look @@     trf__view_state(pass, stack, i / stack->per_layer, stack->out); @@     trf__view_state(pass, stack, i / stack->per_layer, last);
a look at the encoder wants a target @@ look @@     sides = pass->sides & TRF__SOURCE; @@     sides = pass->sides;
views beyond their tensors @@ look @@ view->shape[1] == stack->rows && @@ 1 &&
maps turned round @@ look @@ memcmp(view->shape, one.shape, sizeof one.shape) == 0) @@ 1)
a memory without its end mark @@ look @@ translator->text.ids[i] = rows[i] - c->source_eos; @@ translator->text.ids[i] = rows[i];
a memory without rows @@ look @@ if (memory_lengths[i] < 1 || @@ if (memory_lengths[i] < 0 ||
what nobody saves is saved over weights @@ blocks @@ return saved ? trf__guest_of(context, saved, use) : (trf_real *)context->room.memory; @@ return trf__guest_of(context, saved, use);
probabilities of the first sequence alone @@ blocks @@ const trf__span *span = &context->spans[i]; @@ const trf__span *span = &context->spans[0];
probabilities without their shape @@ blocks @@ out->shape[1] == spans[0].n_query && @@ 1 &&
targets of -2 count nothing @@ blocks @@ if (targets[i] < -1 || targets[i] >= vocab) @@ if (targets[i] >= vocab)
a position table from 0 @@ blocks @@ trf__position_row(out->data + p * d, first + p, d, (int)rule); @@ trf__position_row(out->data + p * d, p, d, (int)rule);
cross-attention counted as self-attention @@ look @@ int64_t *to = part.kind == TRF__CROSS ? &n.cross_attention @@ int64_t *to = part.kind == TRF__CROSS ? &n.decoder_attention
causal attention counted as full @@ look @@ part->causal ? rows * (rows + 1) / 2 : rows * keys; @@ rows * keys;
a norm by RMS that subtracts the mean @@ golden model @@ stats[0] = j->rule == TRF_NORM_RMS ? 0 : s[0] @@ stats[0] = s[0]
the gradient of RMS subtracts its average @@ golden model @@ average = trf__set(j->rule == TRF_NORM_RMS ? 0 : (trf_real) @@ average = trf__set((trf_real)
biases of q, k and v whatever the configuration says @@ golden look @@ c->feed_forward_bias : c->qkv_bias; @@ c->feed_forward_bias : 1;
a final norm of the other side @@ look model @@ c->final_norm == (decoder ? TRF_FINAL_NORM_DECODER : TRF_FINAL_NORM_ENCODER); @@ c->final_norm == (decoder ? TRF_FINAL_NORM_ENCODER : TRF_FINAL_NORM_DECODER);
a final norm of an absent side @@ look @@ if ((c->final_norm == TRF_FINAL_NORM_ENCODER && !source) || @@ if (
beginnings beyond 31 bits @@ generate @@ if (trf__times(n, most) > INT32_MAX) @@ if (0)
files of 64 MiB @@ definitions @@ (uint64_t)64 << 30 @@ (uint64_t)64 << 20
a negative ordinal @@ model @@ batch->ordinal < 0 || batch->ordinal > room @@ batch->ordinal > room
lengths of 31 bits @@ blocks @@ *queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX @@ 0
a step of 33 bits @@ blocks @@ now->step = (uint32_t)dropout->step; @@ now->step = (uint32_t)(dropout->step ^ dropout->step >> 32);
a vocabulary read as large as the file says @@ store @@ if (kind != TRF_SENTENCEPIECE) most = trf__min64(n, TRF__MAX_TOKEN_BYTES + 1); @@ (void)0;
a comma in a number @@ files @@ if (n == 0 || to[n - 1] != '.') to[n++] = '.'; @@ to[n++] = *c;
tokens that begin in the same slots stand in one row @@ vocab @@ return hash >> 32 | 1; } @@ (void)hash; return 1; }
room for a node is sought through all cells @@ pieces @@ || cell - *from > 4096) @@ )
the length of a normalised text is looked at when memory is there @@ pieces @@ TRF__TRY(trf__normal_limit(to->n, n, err)); @@ (void)0;
readers take fewer texts than checkpoints have @@ store @@ TRF__FILE_TEXTS = 131072, @@ TRF__FILE_TEXTS = 65536,
the text of unk is taken as it is @@ pieces @@ && !trf__is_line((const char *)w.bytes, @@ && 0 && !trf__is_line((const char *)w.bytes,
next to no temperature overflows @@ generate @@ below < -800 * o->temperature ? 0 : exp( @@ exp(
an answer has no room where its text stands @@ usage @@ if (!status) status = trf__encode_source( @@ if (answer && size > 0) answer[0] = 0; if (!status) status = trf__encode_source(
more texts of a caller's than readers take @@ updater @@ if (*n == TRF__META_MOST) @@ if (0)
metadata of any length @@ store @@ if (value && (texts > TRF__META_BYTES || n > TRF__META_MOST)) @@ if (value && n > TRF__META_MOST)
a duplicate stands nowhere @@ updater files @@ : (int64_t)((size_t)(later - (const char *)array) / bytes), @@ : -1,
a window that has moved is not read again @@ generate @@ s->read = s->first == first ? g->here.self[i].n_key : 0; @@ s->read = g->here.self[i].n_key;
a window keeps one too few @@ generate @@ int32_t leave = window + 1 - (window + 1) / 2; @@ int32_t leave = window + 2 - (window + 1) / 2;
a beginning longer than the window is read from its start @@ generate @@         s->first = trf__window_first(s->n, trf__window(g)); @@         s->first = 0;
tokens of a generator without their probabilities @@ generate @@ s->each[s->answer.n] = log_probability; @@ s->each[s->answer.n] = 0;
unk is drawn @@ generate @@ if (!o->allow_unk) w[c->unk] = -HUGE_VAL; @@ (void)0;
unk is chosen @@ search @@ top.banned[2] = t->search.ban_unk ? c->unk : -1; @@ top.banned[2] = -1;
tokens of an answer with the next one's probability @@ search @@ own[t - 1] = beam->own[node]; @@ own[t - 1] = beam->own[(size_t)beam->search.beam * (size_t)(best->n - t) + (size_t)row];
EOS of an answer without its probability @@ search @@ own[best->n] = best->own; @@ own[best->n] = 0;
memory beyond the buffer is written @@ store files @@ if (bytes <= to->size) return TRF_OK; @@ return TRF_OK;
memory told too small @@ store files @@     to->size = size; @@     to->size = size / 2;
halves round up @@ store files @@ kept += rest > middle || (rest == middle && (kept & 1)); @@ kept += rest >= middle;
16 bits are cut in files @@ store files @@ kept += rest > middle || (rest == middle && (kept & 1)); @@ (void)rest; (void)middle;
the smallest of 16 bits are 0 @@ store files @@ if (shift > 53) return sign; @@ if (shift > 52) return sign;
what 16 bits cannot hold is infinite @@ store files @@ if ((bits & infinite) == infinite && trf__is_finite((double)from[i])) @@ if (0)
a model wider than its heads @@ learn @@     while (c->d_model % c->n_heads) c->n_heads--; @@     (void)0;
sequences beyond the recipe's model @@ learn @@ if (a->longest >= c->max_length) c->max_length = a->longest + 1; @@ (void)0;
a recipe smooths language models @@ learn @@ o->label_smoothing = a->kind == TRF_ENCODER_DECODER ? 0.1 : 0; @@ o->label_smoothing = 0.1;
a warm-up longer than the updates that are given @@ learn @@ a->updates ? (double)a->updates / 8 : 1000, 1, 1000); @@ 1000, 1, 1000);
updates that are given end earlier @@ learn @@         recipe->learning.patience = 0; @@         (void)0;
labels are judged by the loss @@ learn @@ recipe->learning.metric = stats->n_labels ? TRF_METRIC_ACCURACY @@ recipe->learning.metric = stats->n_labels ? TRF_METRIC_LOSS
a symbol has as few updates as a word @@ learn @@ (trf__is_language(stats) ? 100 : 800), 512, 4096); @@ 100, 512, 4096);
unknown words are looked for among known ones @@ learn @@         if (trf__is_sample(line)) continue; @@         (void)0;
any number of unknown words are words @@ learn @@ (double)w->unknown <= 0.02 * (double)w->tokens) @@ (double)w->unknown <= 2 * (double)w->tokens)
short lines are cut into subwords @@ learn @@ || (double)w->characters < 24 * (double)lines) @@ )
names of one word are cut into subwords @@ learn @@ if ((double)w->all < 2 * (double)lines || @@ if (
subwords where nothing makes them @@ learn @@ t[side] == TRF_TOKENS_SUBWORDS && @@ 0 &&
a vocabulary each for the same words @@ learn @@ shared >= 0.25 * w[1].distinct)); @@ shared >= 2.5 * w[1].distinct));
one vocabulary for strange words @@ learn @@ shared >= 0.25 * w[1].distinct)); @@ shared >= 0));
as many subwords as words @@ learn @@ trf__clamp((double)words / 25, 500, 8000); @@ trf__clamp((double)words, 500, 8000);
pairs are held out by the comb @@ learn @@ size_t i = p->order ? (size_t)p->order[k] @@ size_t i = 0 ? (size_t)p->order[k]
the comb is drawn @@ learn @@ if (rule == TRF_HOLD_OUT_EVERY_KTH) p.order = NULL; @@ (void)0;
a source is learned from and held out @@ learn @@ if (!held[k] && @@ if (0 &&
a frequent sentence is held out whole @@ learn @@ if (trf__count_equal(p->sorted, p->n, p->hashes[i]) <= 4) @@ if (1)
three times too many are held out @@ learn @@ || (picks == size && count > size))) { @@ )) {
nothing is left to learn from @@ learn @@ size < p->n && (count == p->n || (picks == size && count > size))) { @@ size < p->n && picks == size && count > size) {
all that may be held out is sought for ever @@ learn @@     while (picks > 1 && size < p->n && @@     while (picks > 1 &&
an average forgets that it begins @@ learn @@ share = (trf_real)(first > ema->share ? first : ema->share); @@ share = (trf_real)ema->share;
an average of the first weights alone @@ learn @@ ema->average[i] += share * (ema->raw[i] - ema->average[i]); @@ ema->average[i] += 0 * share;
an average applied twice is the trainer's @@ learn @@     if (ema->applied) return TRF_OK; @@     (void)0;
an average that was applied stays @@ learn @@     TRF__TRY(trf__weights_write(ema->trainer, ema->raw, err)); @@     (void)0;
no score is better than a number @@ learn @@ return b != b ? a == a : @@ return b != b ? 0 :
an equal score is better @@ learn @@ : trf__worth(metric, a) > trf__worth(metric, b); @@ : trf__worth(metric, a) >= trf__worth(metric, b);
a lower accuracy is better @@ learn @@ return metric >= TRF_METRIC_ACCURACY ? score @@ return metric > TRF_METRIC_CUSTOM ? score
worse than no answer is worse still @@ learn @@ metric == TRF_METRIC_ERROR_RATE && score > 100 ? -100 : -score; @@ -score;
what learns from nothing is given up @@ learn @@ s->wait = improves || (best && hopeless) ? 0 : @@ s->wait = improves ? 0 :
of equal scores the first @@ learn @@ (a_loss < b_loss || (b_loss != b_loss && a_loss == a_loss))); @@ 0);
what is perfect goes on @@ learn @@ if (patience > 3 && s->best_update && trf_is_perfect(metric, s->best)) patience = 3; @@ (void)0;
a corpus is judged by its last batch @@ learn @@     sum->nll += r->nll * n; @@     sum->nll = r->nll * n;
every batch of held-out pairs counts the same @@ learn @@     sum->loss += r->loss * n; @@     sum->loss += r->loss;
held-out pairs are the first ones again @@ learn @@ to[side].ids = from[side]->ids + used[side]; @@ to[side].ids = from[side]->ids;
an unknown token is right @@ learn @@ diagonal + (a[i] != b[j - 1] || a[i] == unk); @@ diagonal + (a[i] != b[j - 1]); (void)unk;
edits beside the first target of several @@ learn @@ if (edits > fewest || (edits == fewest && length <= longest)) continue; @@ if (longest > 0) continue;
of equally near targets the shortest @@ learn @@ if (edits > fewest || (edits == fewest && length <= longest)) continue; @@ if (edits > fewest || (edits == fewest && longest > 0 && length >= longest)) continue;
every pair is a source of its own @@ learn @@ if (length == 0) { trf__add_edits(s, first, i, ids, 0, unk, sums); continue; } @@ i = first + 1; if (length == 0) { trf__add_edits(s, first, i, ids, 0, unk, sums); continue; }
the first weights that were judged are the best @@ learn @@ if (best) TRF__TRY(trf__weights_read(l->trainer->model, l->best, err)); @@ if (best && !l->has_best) TRF__TRY(trf__weights_read(l->trainer->model, l->best, err));
the last weights are left @@ learn @@ if (l->has_best) return trf__weights_write(l->trainer, l->best, err); @@ (void)0;
a cancelled training leaves its last weights @@ learn @@     else if (l.has_best) trf__learn_leave(&l, NULL); @@     else (void)0;
training goes on from the average @@ learn @@ back = l->ema ? trf_ema_restore(l->ema, status == TRF_OK ? err : NULL) : TRF_OK; @@ back = TRF_OK;
the average is not judged @@ learn @@ if (l->ema) TRF__TRY(trf_ema_apply(l->ema, err)); @@ (void)0;
without validation no average is left @@ learn @@ return l->ema ? trf_ema_apply(l->ema, err) : TRF_OK; @@ return TRF_OK;
skipped updates in all end it @@ learn @@ l->in_a_row = report->skipped ? l->in_a_row + 1 : 0; @@ l->in_a_row += report->skipped;
skipped updates never end it @@ learn @@ if (l->in_a_row >= TRF__MOST_SKIPPED) @@ if (0)
the rest of an epoch is not learned from @@ learn @@ if (status == TRF_E_END && i > 0) break; @@ (void)0;
one batch an update @@ learn @@     for (i = 0; i < l->o->accumulate; i++) { @@     for (i = 0; i < 1; i++) {
seconds never end it @@ learn @@ else if (o->seconds > 0 && difftime(time(NULL), l->began) >= o->seconds) @@ else if (0)
what has not changed is judged @@ learn @@ if (l->report->updates && !l->learnt) stopping->wait++; @@ if (0) stopping->wait++;
an end that nothing brings is waited for @@ learn @@     l->corpus->options.epochs != TRF_ENDLESS) return TRF_OK; @@     1) return TRF_OK;
a warm-up beyond the end goes without saying @@ learn @@     trf__warn_of_plan(trainer, l.o->updates); @@     (void)0;
noise for the others only @@ learn @@ if (status == TRF_OK && l->o->noise) status = @@ if (0) status =
a file half read stays @@ learn @@         data->texts[i].count = before[i].count; @@         (void)0;
half a pair stays @@ learn @@     d->texts[0].used = d->texts[0].starts[--d->texts[0].count]; @@     (void)0;
line ends of two bytes are text @@ learn @@ if (*n && line[*n - 1] == '\r') --*n; @@ (void)0;
a NUL in a line of data @@ learn @@     if (memchr(line, 0, n)) @@     if (0)
two tabs in a line of data @@ learn @@ if (!tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - line[0]) - 1)) @@ if (!tab)
held-out lines are learned from @@ learn @@ i < s->train ? learn : d->held, err); @@ learn, err);
a text without its end @@ learn @@ return trf__ids_add(ids, &eos, 1, hooks, err); @@ return TRF_OK; (void)eos;
what is left of a text is dropped @@ learn @@     for (at = 0; at < ids[1].n; at += TRF__LONGEST_TEXT) { @@     for (at = 0; at + TRF__LONGEST_TEXT <= ids[1].n; at += TRF__LONGEST_TEXT) {
a label only held out @@ learn @@ if (o->kind >= TRF_DATA_LABELLED) TRF__TRY(trf__labels_keep(d, s, &count, err)); @@ (void)0;
every token of a word has its label @@ learn @@ piece.ids[k] = k == blank ? number : -1; @@ piece.ids[k] = number;
labels for some of the words @@ learn @@ if (more[0] || more[1]) ids[0].n = ids[1].n = 0; @@ (void)0;
a data set that failed keeps its parts @@ learn @@     if (status != TRF_OK) { trf__dataset_clear(data); return status; } @@     if (status != TRF_OK) return status;
a data set's seed is always 1 @@ learn @@ r->config.seed = r->training.seed = r->corpus.seed = d->options.seed; @@ (void)d;
END

# --- which faults ---------------------------------------------------------------------------------------------
if [ $# -gt 0 ]; then
    : >"$work/chosen"
    for word in "$@"; do awk -F ' @@ ' -v word="$word" 'index($1, word)' "$work/table" >>"$work/chosen"; done
    sort -u "$work/chosen" >"$work/table"
fi
faults=$(wc -l <"$work/table")
[ "$faults" -gt 0 ] || { echo "no such fault"; exit 1; }

limit() { if command -v timeout >/dev/null; then timeout --foreground "$@"; else shift; "$@"; fi; }
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
