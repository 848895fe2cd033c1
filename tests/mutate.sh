#!/bin/sh
# Tests of the tests: plants faults into a copy of the header and lists those that no suite sees.
#
#     sh tests/mutate.sh                  every fault
#     sh tests/mutate.sh crc beam         those whose name contains one of the words
#     sh tests/mutate.sh --check          plants nothing: lists faults without a place or a suite
#
# A fault is a row of the table: name @@ suites, tried first @@ place @@ text @@ what it becomes. A
# line that begins with a blank continues the row. The place is the name of a function, macro,
# table, struct or enum; the text occurs in it exactly once. White space does not count. Where
# definitions share a name, the text is unique among all of them, or the place goes on with the
# first parameters: trf__put(float. tests/mutate.awk says more.
#
# A function with faults has its body once for each and once without: TRF_FAULT=5 in the
# environment chooses the body with fault 5 of those asked for. So each suite is compiled once. A
# fault outside a function gets a header of its own, and so does one that does not compile.
#
# A test that passes without the fault and fails with it kills the fault. So does a suite that
# crashes, or runs ten times as long as without the fault and a minute more. Two faults are tried at
# a time. CFLAGS and CPPFLAGS go to make.

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=
trap '[ -z "$program" ] || kill "$program"; exit 1' INT TERM

cat >"$work/rows" <<'END'
bias forgotten @@ ops blocks model @@ TRF__MM_KERNEL @@
    c + r * ldc : bias @@ c + r * ldc : NULL
a weight in 8 bits takes another row's scale @@ int8 @@ trf__int8_pack @@
    scales[r % 16] = trf__int8_scale( @@ scales[(r + 1) % 16] = trf__int8_scale(
sums of 8 bits without what x + 128 adds @@ int8 @@ trf__int8_pack @@
    sums[r % 16] = -128 * sum @@ sums[r % 16] = 0
a row of activations by the scale of the one before @@ int8 @@ trf__int8_product @@
    x + (size_t)r * p.left_step + scale_at @@ x + (size_t)(r ? r - 1 : 0) * p.left_step + scale_at
an infinity is rounded to 8 bits @@ int8 @@ trf__int8_scale @@
    if (!(trf__sum(bad) == 0)) return NAN @@ (void)0
numbers too small to invert are inverted @@ int8 @@ trf__int8_scale @@
    !(largest > (trf_real)1e-30) @@ !(largest > 0)
numbers of 8 bits are rounded to halves @@ int8 @@ trf__int8_round @@
    12582912.0 @@ 6291456.0
rows of 8 bits begin at their panel @@ int8 @@ trf__int8_product @@
    skip = row % 16 @@ skip = 0
the last of four numbers in 8 bits is lost @@ int8 @@ trf__int8_plain @@
    for (i = 0; i < 4; i++) @@ for (i = 0; i < 3; i++)
tiles without a shape @@ bf16 int8 @@ trf__tiles_begin @@
    TRF__TILE_SHAPE(&shape) @@ (void)0
the second sixteen rows of tiles as the first @@ bf16 int8 @@ TRF__TILE_PRODUCT @@
    a + 16 * x->a_row @@ a
the second panel of tiles as the first @@ bf16 int8 @@ TRF__TILE_PRODUCT @@
    TRF__TILE_LOAD(7, b + x->b_panel, 64) @@ TRF__TILE_LOAD(7, b, 64)
tiles of 8 bits begin with 0 @@ int8 @@ trf__int8_tiles @@
    w + trf__int8_sums_at(k), 0 @@ w, 0
rows beside whole tiles are written @@ bf16 @@ trf__bf16_tile @@
    kernel->tiles && rows % 16 @@ 0
bf16x3: the rest of a part is lost @@ bf16x3 @@ trf__bf16x3_split @@
    lower = trf__sub(lower, x) @@ (void)lower
bf16x3: parts are cut, not rounded @@ bf16x3 @@ trf__bf16x3_upper @@
    + half @@ + 0u
bf16x3: a tiny number changes its neighbour @@ bf16x3 @@ trf__bf16x3_split @@
    trf__bf16x3_upper(upper, 0) @@ upper
bf16x3: parts of a batch depend on threads @@ bf16x3 @@ trf__cpu_together @@
    if (cpu->bf16x3) return TRF__BF16X3_TOGETHER @@ (void)0
bf16x3: samplers use it @@ bf16x3 @@ trf_sampler_create @@
    device.products == TRF_PRODUCTS_BF16X3 @@ 0
bf16x3: numbers beyond the end of A @@ bf16x3 @@ trf__bf16x3_block @@
    a.column == 1 && deep - t >= 32 @@ a.column == 1
bf16x3: numbers beyond the end of B @@ bf16x3 @@ trf__bf16x3_panels @@
    t + i + 16 < deep ? @@ 1 ?
bf16x3: the second sixteen rows as the first @@ bf16x3 @@ trf__bf16x3_block @@
    16 * trf__round_up(rows, 16) @@ 16 * 16
bf16x3: a product of two parts is left out @@ bf16x3 @@ trf__bf16x3_tiles @@
    TRF__BF16X3_B(1) TRF__BF16X3_ADD(3) @@ TRF__BF16X3_B(1)
bf16x3: C begins anew with each part of k @@ bf16x3 @@ trf__bf16x3_part @@
    t == 0 && !p->add @@ !p->add
bf16x3: rows of all but the first tiles @@ bf16x3 @@ trf__bf16x3_product @@
    p, panels, i, trf__min64 @@ p, panels, 0, trf__min64
bf16x3: what begins inside a panel @@ bf16x3 @@ trf__bf16x3_part @@
    panels + j * p->k + 16 * t @@ panels + j * p->k
bf16x3: each tile decides by its own rows @@ bf16x3 @@ trf__floats_product @@
    p.bf16x3 && @@ p.bf16x3 && p.m >= 48 &&
bf16x3: a few rows are split too @@ bf16x3 @@ trf__use_bf16x3 @@
    rows >= TRF__BF16X3_LEAST @@ rows > 0
bf16x3: scratch of the other product @@ bf16x3 @@ trf__product_scratch @@
    trf__max64(numbers, TRF__BF16X3_ROOM) @@ numbers
bf16x3: also with weights of 16 bits @@ bf16 @@ trf__wants_bf16x3 @@
    format == TRF__FLOAT32 @@ 1
bf16x3: products are named as without it @@ bf16x3 @@ trf__cpu_kernel @@
    trf__wants_bf16x3(device, format) @@ 0
panels of AVX-VNNI one beside the other @@ int8 @@ trf__int8_avx_vnni @@
    sums + 16 * p @@ sums
panels of AVX2 in the opposite order @@ int8 @@ trf__int8_avx2 @@
    sums + 16 * p @@ sums + 16 * (n_panels - 1 - p)
each part of a row for AVX2 as the first @@ int8 @@ trf__int8_avx2 @@
    x + (size_t)r * x_step + t @@ x + (size_t)r * x_step
the maximum over lanes of two zeros is the other one @@ ops @@ trf__both_max @@
    _mm_max_ps(b, a) @@ _mm_max_ps(a, b)
rows with negative numbers as those without @@ int8 @@ trf__int8_avx2 @@
    negative |= part.first[r] != 0 @@ negative = part.first[r] != 0
positive numbers in the sum of negative ones @@ int8 @@ trf__int8_signs @@
    _mm256_and_si256(size, sign) @@ size
a file that lost its name gets another @@ tokens files @@ trf__save_commit @@
    TRF__TRY(trf__save_named(saving, err)) @@ (void)0
a file that took the name is removed @@ files @@ trf__save_named @@
    saving->made = 0 @@ (void)0
an embedding of its own is not packed @@ pack bf16 int8 @@ trf__pack_weights @@
    i < 2 && pass->run.format != TRF__FLOAT32 @@ i < 0
a tied embedding in another place than the generator @@ pack int8 @@ trf__add_embedding @@
    if (tied) *a = outer->generator @@ if (0) *a = outer->generator
small formats keep the floats of embeddings @@ pack @@ trf__add_param @@
    layout->format != TRF__FLOAT32 @@ 0
a row of 8 bits is stored by another row's scale @@ small @@ trf__chunk_of_8_bits @@
    out->inverses[(at + i) / out->columns] @@ out->inverses[0]
a row of 8 bits goes on into the next @@ small @@ trf__chunk_of_8_bits @@
    out->columns - (at + i) % out->columns @@ TRF__WIDE
learned positions in 8 bits @@ small @@ trf__put_arena @@
    !trf__is_matrix(p->start) @@ p->rank == 1
scales of 8 bits for other matrices @@ small @@ trf__put_scales @@
    of->inverses + at @@ of->inverses
a row of nothing has the scale 0 @@ small @@ trf__row_scales_find @@
    of->inverses[at] != 0 ? scale : 1 @@ scale
8 bits without scales @@ small @@ trf__match @@
    !trf__is_int8(&file->entries[index]) @@ 1
any scale is taken @@ small @@ trf__read_rows @@
    scales[i] >= (trf_real)TRF__INT8_LEAST @@ 1
-128 is taken @@ small @@ trf__read_rows @@
    chunk[i] == -128 @@ 0
all rows are read by the first scales @@ small @@ trf__read_rows @@
    scales[(at + i) / in - first] @@ scales[0]
parts of a matrix over one another @@ small @@ trf__read_packed @@
    packed_bytes(format, first, a->in) @@ packed_bytes(format, 0, a->in)
scales of a file are found again @@ small @@ trf__read_packed @@
    scaled ? work->device + work->numbers : NULL @@ NULL
padding in front of packed matrices is left as it was @@ small @@ trf__model_weights @@
    n = p->offset @@ n = i ? model->layout.params[i - 1].offset : n
a session of a packed model knows its floats alone @@ small @@ trf__weights_sum @@
    model->packed ? 2 : 1 @@ 1
two names of a tied matrix are not compared @@ small @@ trf__read_matrices @@
    if (read >= 0) @@ if (0)
8 bits of a file as floats @@ small @@ trf__read_format @@
    if (int8) weights = TRF_WEIGHTS_INT8 @@ (void)0
8 bits from a model without floats @@ pack int8 @@ trf__check_packed @@
    run->format == model->layout.format @@ 1
a packed model is read as floats @@ pack @@ trf__pass_open @@
    if (model->packed && weights == TRF_WEIGHTS_FULL) @@ if (0)
sums of 8 bits as long as rows @@ int8 @@ trf__check_sums @@
    longest <= TRF__INT8_DEEPEST @@ 1
a file of 8 bits that nobody can load @@ int8 @@ trf__write_model @@
    trf__check_sums(&model->config, weights, err) @@ TRF_OK
numbers of 16 bits are cut off @@ bf16 @@ trf__bf16_round @@
    bits += 0x7FFFu + (bits >> 16 & 1u) @@ bits += 0u
ties of 16 bits go up @@ bf16 @@ trf__bf16_round @@
    bits += 0x7FFFu + (bits >> 16 & 1u) @@ bits += 0x8000u
a NaN of 16 bits becomes a number @@ bf16 @@ trf__bf16_round @@
    (x.part[i] != x.part[i]) & 0x7FC00000u @@ (x.part[i] != x.part[i]) & 0u
the panel's zeros are left over numbers @@ bf16 @@ trf__bf16_panel @@
    16 * (TRF__BF16_DEEP - n) @@ 0
activations are not rounded to 16 bits @@ bf16 @@ trf__bf16_block @@
    trf__bf16_round(trf__load(block + 16 * i)) @@ trf__load(block + 16 * i)
a block begins at the first row @@ bf16 @@ trf__bf16_part @@
    p->a.at + (row + top) * p->a.row @@ p->a.at + row * p->a.row
a product of 16 bits forgets C @@ bf16 @@ trf__bf16_part @@
    t == 0 && !p->add @@ t == 0
a bias of 16 bits is added for each part of k @@ bf16 @@ trf__bf16_part @@
    t == 0 && !p->add @@ !p->add
numbers of 16 bits beyond a block are lost @@ bf16 @@ trf__bf16_product @@
    t < p.k; t += most @@ t < trf__min64(p.k, 2048); t += most
numbers beyond a row of 16 bits are read @@ bf16 @@ trf__bf16_words_of @@
    trf__first_of(numbers - 16) @@ trf__first_of(numbers)
the last of an odd number of rows is lost @@ bf16 @@ trf__bf16_words_of @@
    if (line < lines) @@ if (line + 1 < lines)
pairs of 16 bits that are not transposed @@ bf16 @@ trf__bf16_pairs16 @@
    by_rows == panel @@ 0
rows of 16 bits begin at their panel @@ bf16 @@ trf__bf16_product @@
    panels, row % 16, i @@ panels, 0, i
columns beside C are written @@ bf16 @@ trf__bf16_tile @@
    column >= 0 && column + 16 * panels <= p->n @@ column >= 0
small weights are not rounded in training @@ bf16 @@ trf__work_bytes @@
    trf__packs_bf16(run, weight) @@ 0
part of a panel at the wrong row @@ bf16 @@ trf__bf16_panel @@
    column / 16 * trf__bf16_words(k) + 8 * row @@ column / 16 * trf__bf16_words(k)
gradients of logits in floats @@ bf16 @@ trf__loss_dx_later @@
    run->format != TRF__FLOAT32 @@ 0
16 bits compute in floats @@ bf16 @@ trf__run_on @@
    run.format = TRF__BF16 @@ (void)0
a translator's 8 bits are counted as 32 @@ int8 @@ trf_translator_memory @@
    if (trf__run_weights(&run, config, search->weights, NULL)) return 0 @@ (void)0
more states than planned, converted into memory of others @@ int8 @@ trf_project @@
    run->backend->converted(run->format, rows, c->d_model) @@ 0
converted activations in memory of nobody @@ int8 @@ trf__pass_widest @@
    pass->run.backend->converted(pass->run.format, rows, wide) @@ 0
bias forgotten beside CBLAS @@ ops @@ trf__multiply @@
    (p.bias) trf__add_bias @@ (0) trf__add_bias
bias gradient forgotten @@ ops blocks model @@ trf__dw_all @@
    (j->db) trf__tiles @@ (0) trf__tiles
weight gradient set, not added @@ ops blocks model @@ trf__mm_packing @@
    a, b, p->add || t @@ a, b, t
a piece of a product sets, not adds @@ ops @@ trf__product_all @@
    whole->add || t > 0 @@ whole->add
rows of a strip one off @@ ops blocks model @@ trf__strip_row @@
    i % TRF__STRIP : i @@ (i + 1) % TRF__STRIP : i
rows of the room over each other @@ ops model @@ trf__panels_panel @@
    * k + 16 * row @@ * k
CBLAS sets, does not add @@ ops blocks model @@ trf__multiply @@
    (trf_real)(p.add != 0) @@ 0
OpenBLAS keeps its own threads @@ host @@ trf__products_enter @@
    if (o->number != 1) openblas_set_num_threads(1) @@ (void)0
OpenBLAS's thread number not given back @@ host @@ trf__products_leave @@
    openblas_get_num_threads() == 1 @@ openblas_get_num_threads() == 0
the thread number given back over the host's @@ host @@ trf__products_leave @@
    1 && openblas_get_num_threads() == 1 @@ 1
any number of callers of OpenBLAS @@ host @@ trf__products_enter @@
    first || o->inside + wanted > o->places @@ first
OpenBLAS is asked again and again @@ host @@ trf__openblas_open @@
    if (o->places == 0) o @@ o
products past the gate @@ host @@ trf__product_tiles @@
    blas && cpu->gate && n_tiles > 0 @@ 0
OpenBLAS makes its buffers in a step @@ host @@ trf__openblas_open @@
    if (wanted <= made) return @@ return
address space of buffers not asked for first @@ host @@ trf__buffers_make @@
    fits = probe != NULL @@ fits = 1
the serial OpenBLAS is called @@ host @@ trf__openblas_fits @@
    (!openblas_get_parallel || openblas_get_parallel() == 1) && exec_blas_async @@ 1
a closed run still counts as callers @@ host @@ trf__products_close @@
    if (cpu->gate) trf__openblas_count(-cpu->threads) @@ (void)0
threads that could not be started are not missed @@ host threads @@ trf__team_open @@
    (n < threads) { @@ (0) {
what an old work has left counts @@ threads @@ trf__turn_take @@
    old / TRF__TAKEN == team->number ? @@ old / TRF__TAKEN <= team->number ?
the numbers of works begin again without a word @@ threads @@ trf__team_share @@
    if (team->number == 0) @@ if (0)
nobody helps a slow thread @@ threads @@ trf__take_tiles @@
    i < team->threads @@ i < 1
the last tiles of a part are nobody's @@ threads ops @@ trf__turn_take @@
    * (owner + 1) / team->threads @@ / team->threads * (owner + 1)
workers take the signals of the program @@ threads @@ trf__thread_start @@
    TRF__SETMASK, &all @@ TRF__SETMASK, NULL
who starts a thread keeps its mask @@ threads @@ trf__thread_start @@
    pthread_sigmask(TRF__SETMASK, &before, NULL) @@ (void)0
workers round as they were made @@ threads @@ trf__worker_run @@
    fesetenv(&team->environment) @@ (void)0
a forked child waits for workers @@ threads @@ trf__team_share @@
    if (team->process != trf__process_id()) return 0 @@ (void)0
a forked child ends its parent's workers @@ threads @@ trf__team_end @@
    team->process == trf__process_id() @@ 1
a team that is destroyed goes on @@ threads @@ trf__team_end @@
    for (; n > 0; n--) trf__thread_end(team->workers[n].thread) @@ (void)0
the caller waits for workers that do not come @@ threads @@ trf__team_share @@
    __atomic_and_fetch(&team->entry, TRF__PLACE - 1, __ATOMIC_ACQ_REL) @@
        __atomic_load_n(&team->entry, __ATOMIC_ACQUIRE)
more workers enter than there are places @@ threads @@ trf__enter @@
    while (entry >= TRF__PLACE) @@ for (;;)
product loses its last column @@ ops blocks model @@ trf__pack_panel @@
    j < columns ? from @@ j < columns - 1 ? from
gelu's slope without its density @@ ops blocks model @@ trf__act_slope @@
    trf__fma(h, density, trf__normal_distribution(h)) @@ trf__normal_distribution(h)
a text smuggles in a special token @@ wordpiece @@ trf__longest_token @@
    id < 0 || trf__wordpiece_special(v, id) @@ id < 0
the first token that fits, not the longest @@ wordpiece @@ trf__longest_token @@
    longest = id; @@ if (longest < 0) longest = id;
a word that is too long is cut all the same @@ wordpiece @@ trf__word_end @@
    word->chars <= v->wordpiece->longest_word @@ 1
half a word and unk @@ wordpiece @@ trf__word_end @@
    to->n = before @@ (void)before
punctuation belongs to the word before it @@ wordpiece @@ trf__word_apply @@
    (alone || r->kind == TRF__WORD_SPACE) @@ (r->kind == TRF__WORD_SPACE)
Hangul without its last letter @@ wordpiece @@ trf__word_add_hangul @@
    if (c % 28) trf__word_add_code_point @@ if (0) trf__word_add_code_point
rules in any order @@ wordpiece @@ trf__read_word_rules @@
    i > 0 && r->first <= r[-1].last @@ 0
a replacement that begins inside another @@ wordpiece @@ trf__word_rule_fault @@
    (r->argument && w->replaced[r->argument - 1]) @@ 0
bytes behind the last token @@ wordpiece @@ trf__read_word_tokens @@
    if (at == v->n_stored) return TRF_OK @@ return TRF_OK
the highest rank merges first @@ byte_bpe @@ trf__bytes_merge @@
    pair->score = -rank @@ pair->score = rank
bytes as other systems do not spell them @@ byte_bpe @@ trf__spell_byte @@
    c == 0xAD @@ c == 0xAE
a special token in an answer @@ byte_bpe @@ trf__byte_bpe_decode @@
    if (t->count == TRF__BYTE_SPECIAL) continue @@ (void)0
an added token as a whole word @@ byte_bpe @@ trf__whole_word @@
    v->tokens[id].count == TRF__BYTE_ORDINARY @@ 1
a merge to an added token @@ byte_bpe @@ trf__enter_merge @@
    v->tokens[m->token].count != TRF__BYTE_ORDINARY @@ 0
a merge twice @@ byte_bpe @@ trf__enter_merge @@
    if (trf__merge_rank(b, m->left, m->right, &slot) >= 0) @@ (void)trf__merge_rank(b, m->left,
        m->right, &slot); if (0)
a byte without a token @@ byte_bpe @@ trf__read_byte_tokens @@
    b->token[i] < 0 || v->tokens[b->token[i]].count != TRF__BYTE_ORDINARY @@ b->token[i] < 0
ranges in any order @@ byte_bpe @@ trf__read_byte_ranges @@
    i > 0 && r->first <= r[-1].last @@ 0
contractions of capitals by GPT-2's rule @@ byte_bpe @@ trf__contraction @@
    any_case ? at[k] | 32 : at[k] @@ at[k] | 32
the long s is no s @@ byte_bpe @@ trf__contraction @@
    any_case && end - at >= 2 @@ 0
all of the white space before a word @@ byte_bpe @@ trf__byte_blanks @@
    next == end || last == at ? next : last @@ next
white space after the last line break too @@ byte_bpe @@ trf__byte_blanks @@
    if (line) return line @@ (void)0
numbers of any length @@ byte_bpe @@ trf__byte_word @@
    kind != TRF__BYTE_NUMBER || !llama @@ 1
a blank joins a single number @@ byte_bpe @@ trf__byte_apart @@
    == TRF__BYTE_NUMBER) return at + bytes @@ == TRF__BYTE_NUMBER) return end
BOS in a target of a decoder that begins with it @@ special @@ trf__check_targets @@
    trf__bos_read_first(c) @@ -1
no BOS in BART's targets @@ special @@ trf__check_targets @@ trf__bos_read_first(c) @@ c->bos
no syllable of three @@ byte_bpe @@ trf__decompose @@
    2 + (s % 28 > 0) @@ 2
marks in the order of the text @@ byte_bpe @@ trf__order_marks @@
    if (sorted) continue; @@ continue;
equal marks change places @@ byte_bpe @@ trf__order_marks @@
    for (i = 0; i < end - begin; i++) items @@ for (i = end - begin - 1; i >= 0; i--) items
a mark composes over one of its class @@ byte_bpe @@ trf__compose @@
    last < mark @@ last <= mark
letters compose over a mark @@ byte_bpe @@ trf__compose @@
    base == m - 1 || last < mark @@ base == m - 1 || last < mark || !mark
a syllable takes a second last letter @@ byte_bpe @@ trf__composed @@
    (a - TRF__HANGUL) % 28 == 0 @@ 1
a part that decomposes @@ byte_bpe @@ trf__read_nfc @@
    if (c && trf__nfc_row(v, TRF__NFC_PARTS, c, 0) >= 0) @@ if (0)
decomposing without an end @@ byte_bpe @@ trf__read_nfc @@
    if (trf__nfc_parts(v, &c, parts) < 0) @@ if (0)
rows for composing in any order @@ byte_bpe @@ trf__nfc_fault @@
    if (a < before || @@ if (a > 0x10FFFF ||
numbers of three by Qwen's rule @@ byte_bpe @@ trf__byte_word @@
    TRF__BYTE_ONE_NUMBER ? 1 : 3 @@ TRF__BYTE_ONE_NUMBER ? 3 : 3
a line break joins the word after it @@ byte_bpe @@ trf__byte_word @@
    && !trf__is_line_break(at, end) @@ && 1
line breaks after punctuation begin a word @@ byte_bpe @@ trf__byte_word @@
    llama && kind == TRF__BYTE_OTHER @@ 0
a blank in front of a blank @@ byte_bpe @@ trf__byte_bpe_encode @@
    n > 0 && *text != ' ' @@ n > 0
one U+FFFD for each byte @@ byte_bpe @@ trf__hold_byte @@
    memcpy(to + n, TRF__REPLACEMENT, 3); n += 3; @@ for (length = 0; length < 1 + (held->n > 2);
        length++) { memcpy(to + n, TRF__REPLACEMENT, 3); n += 3; }
an answer that ends within a character @@ byte_bpe @@ trf__byte_token_text @@
    !ends || held->n == 0 @@ 1
half a character is told @@ byte_bpe @@ trf__byte_bpe_whole @@
    if (held.n == 0) told = i + 1 @@ told = i + 1
a beginning that never ends waits for ever @@ byte_bpe @@ trf__byte_bpe_whole @@
    if (first && broke) told = i @@ (void)0
id 3 is unknown with byte-level BPE @@ byte_bpe @@ trf__byte_word_ids @@
    trf__give_id(to, bpe.symbols[i].node, 0) @@
        trf__give_id(to, bpe.symbols[i].node, bpe.symbols[i].node == TRF__UNK)
a vocabulary with other special ids than the model @@ wordpiece store vocab @@ trf__vocab_ids @@
    if (has[i] != ids[i]) @@ if (0)
gelu by tanh, the slope of its cube once @@ ops blocks model @@ trf__act_slope @@
    3 * 0.044715 @@ 0.044715
a gate without its other half @@ ops golden model @@ trf__activate_tile @@
    if (j->gate) a = @@ if (0) a =
a gate's other half without dropout @@ ops model @@ trf__activate_gradient_tile @@
    trf__mul(trf__mul(da, factor) @@ trf__mul(trf__mul(da, trf__set(1))
a gate is one matrix to first values @@ model golden definitions @@ trf__initialise @@
    out /= 2 @@ out /= 1
dropout behind the norm of embeddings without its backward @@ model @@ trf__embed_norm_backward @@
    a.drop = stack->drop @@ a.drop = trf__drop_of(0, 0)
no dropout behind the norm of embeddings @@ model separate_device cuda @@ trf__stack_embed @@
    if (pass->run.now && stack->drop.threshold) @@ if (0)
dropout in front of the norm of embeddings too @@ model @@ trf__stack_embed @@
    normalises ? trf__drop_of(0, 0) : stack->drop @@ stack->drop
weights of the norm of embeddings are not counted @@ look @@ trf_count_weights @@
    if (at->embed_norm[stack].gain >= 0) *norms += norm @@ (void)0
a source reads BOS in place of its first id @@ golden targets @@ trf__fill_rows @@
    stack->shifts ? 1 : stack->begins) @@ stack->shifts ? 1 : 0)
labels begin at BOS @@ golden heads targets @@ trf__fill_labels @@
    pools ? 0 : pass->encoder.begins @@ 0
sources of a search without their BOS @@ targets @@ trf__round_arrival @@
    row - k * trf__source_added(c) @@ row - k * c->source_eos
a sampler's sources without their BOS @@ targets @@ trf__sampled_reserve @@
    (int64_t)n * (source ? trf__source_added(c) : 0) @@ (int64_t)n * (source ? c->source_eos : 0)
probabilities of BOS for those of the first id @@ targets @@ trf__probabilities @@
    row += apart ? c->source_bos : 0 @@ (void)0
silu's slope with the wrong sign @@ ops blocks model @@ trf__act_slope @@
    trf__fma(steep, trf__sub(trf__set(1), s) @@ trf__fma(steep, trf__add(trf__set(1), s)
tanh's slope is half of it @@ ops heads @@ trf__act_slope @@
    trf__set(4) @@ trf__set(2)
tanh is a sigmoid @@ ops golden heads @@ trf__act_of @@
    trf__set(2), trf__set(-1) @@ trf__set(1), trf__set(0)
a GPU's tanh without its slope @@ cuda_ops @@ trf__gpu_slope @@
    4 * s * (1 - s) @@ 4 * s
attention scale @@ blocks golden @@ trf__default_scale @@
    sqrt((double)d_head) @@ (double)d_head
the scale of attention is not the model's @@ golden @@ trf__operands_of @@
    c->attention_scale > 0 ? c->attention_scale @@ 0 ? c->attention_scale
heads share the wrong keys @@ ops golden @@ trf__head_of @@
    h.head / (in->heads / in->kv_heads) @@ h.head % in->kv_heads
ALiBi's slopes of heads beyond a power of two @@ ops golden @@ trf__alibi_slope @@
    2 * (head - power) + 1 @@ head - power + 1
numbers for distances one query late @@ ops golden @@ trf__bias_of @@
    n_query - 1 - i @@ n_query - i
scores without their scale beside numbers for distances @@ ops golden @@ trf__weights_row @@
    work->m16, h->scale @@ work->m16, 1
the gradient of distances is scaled @@ ops golden @@ trf__bias_row_gradient @@
    (s, ds, m16, delta, 1) @@ (s, ds, m16, delta, scale)
distances beyond the reach are read beyond the table @@ ops @@ trf__bias_row @@
    distance < -reach ? -reach : @@ distance < -reach ? 1 - reach :
layers do not add up the gradient of distances @@ golden model @@ trf__sublayer_backward @@
    layer->is.layer == @@ layer->is.layer <=
the decoder has the encoder's buckets @@ golden @@ trf__operands_positions @@
    stack->decoder * trf__distances(c) @@ 0 * trf__distances(c)
buckets without an exact half @@ golden @@ trf__distance_row @@
    exact = n / 2 @@ exact = n / 4
keys after a query as keys before it @@ golden @@ trf__distance_row @@
    !decoder && i > 0 ? n : 0 @@ 0
rotations turn back nothing @@ ops golden @@ trf__rotate_tile @@
    r->back ? (trf_real)-1 : 1 @@ 1
rotations of the wrong pairs @@ ops golden @@ trf__rotate_tile @@
    r->pairs == TRF_ROTARY_HALVES @@ r->pairs != TRF_ROTARY_HALVES
keys of a cache are not rotated @@ generate decoding @@ trf__rotate_keys @@
    if (!sub->memory) return; @@ return;
queries alone are rotated @@ golden @@ trf__rotate_keys @@
    (sub->memory ? 0 : sub->attention.kv_heads) @@ 0
the base of rotations @@ golden @@ trf__rotary_row @@
    -(double)i / (double)pairs @@ -2 * (double)i / (double)pairs
rotations at positions that are not scaled @@ golden @@ trf__rotary_row @@
    at / c->rotary_scale @@ at
slow pairs are told by their angles @@ golden @@ trf__rotary_kept @@
    / 6.283185307179586 @@ / 1
pairs between slow and not @@ golden @@ trf__rotary_kept @@
    (turns - c->rotary_low) / (c->rotary_high - c->rotary_low) @@ turns / c->rotary_high
pairs that turn often are scaled @@ golden @@ trf__rotary_kept @@
    turns >= c->rotary_high @@ turns > 1e30
pairs that turn seldom are not scaled @@ golden @@ trf__rotary_kept @@
    || turns <= c->rotary_low @@ || 0
logits are not scaled in a search @@ decoding @@ trf__issue_token @@
    trf__scale_states(&t->pass, stack->out, stack->rows); @@ (void)0;
the gradient of scaled logits is not scaled @@ golden model @@ trf__loss_backward @@
    trf__scale_states(pass, pass->back.din, pass->decoder.rows); @@ (void)0;
a head's width is that of d_model @@ golden model @@ trf__d_head @@
    c->d_head ? c->d_head : @@ 0 ? c->d_head :
int8 sums of wide heads are not counted @@ int8 @@ trf__check_sums @@
    trf__q_width(c)) @@ 1)
a GPU adds the wrong distance @@ cuda_ops @@ trf__gpu_score @@
    key - i - h->span->n_key @@ key - i + h->span->n_key
a GPU's tensor cores forget numbers for distances @@ cuda_ops cuda @@ trf__mma_can @@
    && !trf__biased(in) @@ && 1
a GPU's gradient of distances from every key @@ cuda_ops @@ trf__gpu_bias_partial @@
    key >= trf__keys_seen(&h, i) @@ key >= m
a GPU turns the wrong way @@ cuda_ops cuda @@ trf__gpu_rotate @@
    -(y * sine) @@ y * sine
one query without its last numbers @@ search model @@ trf__attention_of_one @@
    key_rows[i] * ld, d @@ key_rows[i] * ld, d - 1
causal mask off by one @@ ops blocks definitions @@ trf__keys_seen @@
    span->n_query + i + 1 @@ span->n_query + i + 2
softmax gradient without its mean @@ ops blocks model @@ trf__attention_row_gradient @@
    trf__sub(trf__load(ds + c), mean) @@ trf__load(ds + c)
gradient of keys from the weights @@ ops blocks model @@ trf__attention_head_gradient @@
    (dk, ldk, seen, d, n, trf__view_of(work->ds, @@ (dk, ldk, seen, d, n, trf__view_of(work->s,
query gradient loses the last key @@ ops blocks model @@ trf__attention_head_gradient @@
    ldq, ldq, n, d, seen @@ ldq, ldq, n, d, seen - 1
no keys do not give zero @@ ops blocks model @@ trf__attention_tile @@
    h.span->n_key == 0 @@ h.span->n_key < 0
norm epsilon outside the root @@ definitions ops blocks @@ trf__norm_factor @@
    sqrt(squares / (double)d + epsilon) @@ (sqrt(squares / (double)d) + epsilon)
annotated norm with the biased deviation @@ definitions ops golden @@ trf__norm_factor @@
    (double)(d > 1 ? d - 1 : 1) @@ (double)d
norm gradient without its average @@ ops blocks model @@ trf__norm_row_gradient @@
    trf__fma(g, gain, average) @@ trf__mul(g, gain)
gain gradient forgets the input @@ ops blocks model @@ trf__norm_gain_tile @@
    trf__fma(g, normal, dgain) @@ trf__add(g, dgain)
residual gradient forgotten before a norm @@ ops model @@ trf__norm_row_gradient @@
    trf__fma(trf__held(ds), factor, trf__held(trf__load_n(more + c * more_step, d - c))) @@
    trf__mul(ds, factor)
dropout does not scale @@ ops blocks model @@ trf__drop_of @@
    (trf_real)(65536.0 / (65536.0 - drop.threshold)) @@ 1
dropout missing in backward @@ ops blocks model @@ trf__norm_gradient_tile @@
    if (dropping) dsub = trf__mul(dsub, trf__mask_chunk(&mask, c / 16)) @@ (void)mask
embedding's dropout missing in backward @@ ops model @@ trf__cpu_embed_gradient @@
    trf__dropping(run, &j->drop) @@ 0
dropout of weights missing in their gradient @@ ops blocks model @@ trf__attention_rows_gradient @@
    if (dropping) trf__drop_weights(drop, work->bits + i * seen16, ds, seen16) @@ (void)0
dropout of weights depends on the number of keys @@ ops blocks @@ trf__attention_bits @@
    head, i, b @@ head, i, i * blocks + b
the same dropout of weights for every head @@ ops @@ trf__weight_counter @@
    (uint32_t)query | (head & 0xFFF) << 20 @@ (uint32_t)query
the same dropout of weights for every 4096th head @@ ops @@ trf__weight_counter @@
    (uint32_t)block | head >> 12 << 17 @@ (uint32_t)block
dropout without a step @@ ops blocks model @@ trf__dropping @@
    run->now && drop->threshold @@ drop->threshold > 0; (void)run
the same dropout in every step @@ model same_bits blocks @@ trf__set_now @@
    (uint32_t)(t->step + 1) @@ 1
the same dropout at every site @@ ops model blocks same_bits @@ trf__site_key @@
    return now->key1 ^ drop->site * 0x9E3779B9u @@ (void)drop; return now->key1 ^ 0x9E3779B9u
dropout counts sentences of the micro-batch @@
    model same_bits decoding programs @@ trf__part_backward @@
    ordinal + t->sentences @@ ordinal
embedding scale @@ definitions golden model @@ trf__embedding_scale @@
    sqrt((double)c->d_model) @@ c->d_model
unread positions keep their old gradient @@ model @@ trf__stack_embed_backward @@
    pass->back.first && c->position_offset > 0 @@ 0
written weights do not reach the copies @@ separate_device @@ trf_evaluate @@
    if (trainer->written) trf__pack_weights(&trainer->pass) @@ (void)0
more rows than 31 bits count @@ model @@ trf__check_lengths @@
    *rows > INT32_MAX @@ 0
pairs of a step beyond 31 bits @@ model @@ trf__check_ordinal @@
    batch->ordinal <= most @@ 1
sums kept that nobody knows @@ separate_device @@ trf__reduce @@
    { trf_trainer_discard_gradients(t); return status; } @@ return status;
scratch kept of memory that did not come @@ memory @@ trf__pass_resize @@
    size = status == TRF_OK ? *pass : bigger; @@ size = *pass; if (status != TRF_OK) return status;
embedding gradient unscaled @@ ops blocks model @@ trf__embed_gradient_tile @@
    trf__fma(trf__load_n(dy + rows[i] * j->d + c, n), trf__set(j->scale), sum) @@
        trf__add(trf__load_n(dy + rows[i] * j->d + c, n), sum)
a group loses its last row @@ ops blocks model @@ trf__embed_gradient_tile @@
    groups.first[k]; i @@ groups.first[k]; i + 1
ids are grouped by their lower 12 bits @@ ops @@ trf__group_rows @@
    ids[rows[i]] != ids[rows[i - 1]] @@ (ids[rows[i]] & 4095) != (ids[rows[i - 1]] & 4095)
a row without a list of positions stands at 0 @@ ops @@ trf__position @@
    position[row] : row @@ position[row] : 0 * row
the first weight gradient is added @@ ops model @@ trf__dw_all @@
    (j->x, j->in, 1), !j->first @@ (j->x, j->in, 1), 1
the first bias gradient is added @@ ops model @@ trf__column_sums @@
    if (first) memset @@ if (0) memset
the first gain gradient is added @@ ops model @@ trf__norm_gain_tile @@
    all_gain = j->first @@ all_gain = 0
the first embedding gradient is added @@ ops model @@ trf__embed_gradient_tile @@
    (j->first) trf__zero_columns @@ (0) trf__zero_columns
the first gradient of positions is added @@ ops model golden @@ trf__table_gradient @@
    (j->first_table) @@ (0)
segments have no gradient @@ ops golden heads model @@ trf__embed_gradient_tile @@
    if (j->dsegments) @@ if (0)
the gradient of segments by position @@ ops golden heads model @@ trf__embed_gradient_tile @@
    j->n_segments, j->segment @@ j->n_segments, NULL
a GPU's segments by position @@ cuda cuda_ops @@ trf__cuda_embed_gradient @@
    j->n_segments, j->segment @@ j->n_segments, j->at.position
a source has one segment @@ golden heads @@ trf__fill_segments @@
    segment += l->ids[row] == c->eos && @@ segment += 0 &&
EOS begins a segment @@ golden heads @@ trf__fill_segments @@
    l->segment[row] = segment @@ l->segment[row] = segment + (l->ids[row] == c->eos && segment == 0)
segments go on behind the last @@ golden heads @@ trf__fill_segments @@
    segment < c->segments - 1 @@ segment < c->segments
a pooler without tanh @@ golden heads @@ trf__take_head @@
    TRF__TANH @@ TRF__IDENTITY
a masked head without the norm's backward @@ golden heads @@ trf__head_layer_backward @@
    if (head->norm.gain >= 0) pass @@ if (0) pass
the layer of a head learns from what it made @@ golden heads @@ trf__head_backward @@
    trf__head_rows(pass) @@ pass->head.y
the layer of a second head learns from what it made @@ golden heads @@ trf__sequence_backward @@
    second->pooled @@ second->x
a second head without its layer @@ golden heads @@ trf__sequence_forward @@
    if (!pass->config->head_layer) return; @@ return;
a second head reads the mean of its rows @@ golden heads @@ trf__sequence_forward @@
    p.most = 1; @@ (void)0;
a second head teaches all rows of a sequence @@ golden heads @@ trf__sequence_backward @@
    p.most = 1; @@ (void)0;
the encoder does not learn from a second head @@ golden heads @@ trf__loss_backward @@
    *more = trf__sequence_backward(pass, o) @@ (void)trf__sequence_backward(pass, o)
a norm behind post-norm without the second head's gradient @@ heads @@ trf__stack_backward @@
    n.dy = dy; n.dy2 = dy2; on-> @@ n.dy = dy; on->
the label of a sequence weighs as much as that of a token @@ golden heads @@ trf__sequence_weight @@
    (double)tokens / (double)labelled @@ 1
sequences without a label count for the weight @@ golden heads @@ trf__sequence_weight @@
    labelled += target->ids[at] >= 0 @@ labelled++
the gradient of a second head is not weighted @@ golden heads @@ trf__loss_row @@
    weight != 1 && c < n @@ c < 0
a part weighs the labels of its own sequences @@ heads @@ trf__check_parts @@
    trf__sequence_weight(&batch->target, wanted) @@
    (trf__round_part(t, batch, 0, &part, NULL), trf__sequence_weight(&part.target, wanted))
a report without the loss of sequences @@ golden heads @@ trf__add_sums @@
    sequence_labels ? 2 : 1 @@ sequence_labels ? 1 : 1
an update's loss of sequences is forgotten @@ golden heads @@ trf__decide_clipping @@
    TRF__TALLY_SEQUENCE_LOSS @@ TRF__TALLY_SEQUENCE_TARGETS
a loss of sequences that is no number @@ ops @@ trf__decide_clipping @@
    sums[0].loss + sums[1].loss @@ sums[0].loss
padding has a label @@ cuda @@ trf__fill_labels @@
    labels[i] = -1 @@ labels[i] = 0
a label of a sequence below those of tokens @@ heads @@ trf__labels_of @@
    k < 0 ? c->sequence_labels @@ k < 0 ? trf__n_logits(c)
an empty sequence has a label @@ heads @@ trf__check_head @@
    (trf__pools(c) || before) && i < count @@ trf__pools(c) && i < count
the layer of a second head is not packed @@ small pack @@ trf__pack_weights @@
    trf__pack_matrix(pass, &layout->outer.sequence_layer); @@ (void)0;
a second head is not packed @@ small pack @@ trf__pack_weights @@
    trf__pack_matrix(pass, &layout->outer.sequence_head); @@ (void)0;
a second head is read as an embedding @@ small @@ trf__affine_of @@
    outer->sequence_head.out && @@ 0 &&
a pooler starts from the layer of the masked head @@ finetune @@ trf__copied_from @@
    model->config.head == TRF_HEAD_FIRST && @@ 0 &&
noise without the label @@ noise @@ trf_noise_apply @@
    *x.target++ = batch.target.ids[i] @@ x.target++
noise takes the first label for all @@ noise @@ trf_noise_apply @@
    batch.target.ids[i] @@ batch.target.ids[0]
noise keeps a target of any length @@ noise @@ trf__noise_check_labels @@
    x->lengths[i] != 1 @@ x->lengths[i] < 1
a projection without the layer @@ heads @@ trf_project @@
    if (c->head_layer) @@ if (0)
the layer of a head is not packed @@ small pack @@ trf__pack_weights @@
    trf__pack_matrix(pass, &layout->outer.head_layer); @@ (void)0;
the layer of a head is read as an embedding @@ small @@ trf__affine_of @@
    outer->head_layer.out && @@ 0 &&
RoBERTa's pair with one separator @@ heads @@ trf__separators @@
    ? 2 : 1 @@ ? 1 : 1
the wrong text of a pair is cut @@ heads @@ trf_shorten_pair @@
    *n_first > *n_second @@ *n_first >= *n_second
a separator is hidden @@ noise @@ trf__noise_masks @@
    x->ids[i] != o->eos && trf__noise_word @@ trf__noise_word
a separator inside a word @@ noise @@ trf__noise_word @@
    i == 0 || x->ids[i] == o->eos || x->ids[i - 1] == o->eos || @@ i == 0 ||
noise draws special ids @@ noise @@ trf__noise_random @@
    id == o->pad || id == o->bos || id == o->eos @@ 0
every group of a loss is the first @@ ops @@ trf__cpu_cross_entropy @@
    first && job.row0 == 0 @@ first
a loss without rows leaves its gradients @@ ops @@ trf__cpu_cross_entropy @@
    rows || job.row0 == 0 @@ rows
the first sums are added @@ ops model @@ trf__store_loss @@
    (l->first) memset @@ (0) memset
sums of the last micro-batch alone @@ ops model @@ trf__store_loss @@
    if (l->first) memset @@ memset
sums lose what a float does not hold @@ ops @@ trf__tally @@
    slots[slot] + (double)slots[slot + 1] @@ slots[slot]
the loss begins at row 0 of its matrix @@ ops @@ trf__cpu_cross_entropy @@
    l->w.plain + l->w.row * l->d @@ l->w.plain
a packed weight is read from the middle of a panel @@ ops @@ trf__reads_packed @@
    (!w->plain || w->row % 16 == 0) @@ 1
rows of a wide matrix are packed over its first ones @@ ops decoding programs @@ trf__pack_tile @@
    j->weights + row * j->in @@ j->weights + row % TRF__PACK_ROWS * j->in
from inside a panel on, the next panel is forgotten @@ ops pack @@ trf__panels_across @@
    at / 16 * 16 * p->k @@ row / 16 * 16 * p->k
attention computes with keys that nobody has written @@ generate @@ trf__cpu_append_kv @@
    (i % 16 == 0) trf__store @@ (0) trf__store
a row of a packed embedding is its neighbour @@ ops pack @@ trf__panels_read @@
    row % 16 @@ (row ^ 1) % 16
CBLAS is asked for a weight without floats @@ ops @@ trf__use_blas @@
    (rows <= TRF__PACKED_ROWS || !w->plain) @@ rows <= TRF__PACKED_ROWS
packed matrices over one another @@ pack search @@ trf__add_packed @@
    layout->packed_bytes[format] = cursor.used @@ (void)0
a packed model keeps the floats of its matrices @@ pack @@ trf__add_param @@
    layout->packed && packs @@ layout->packed && 0
a packed model keeps the generator's floats @@ pack @@ trf__add_param @@
    layout->n_params == layout->generator @@ 0
an untied generator of a packed model is the embedding @@ pack @@ trf__lay_out @@
    (c->tying == TRF_TIED_DECODER || c->tying == TRF_TIED_ALL) @@ layout->outer.generator_w < 0
vectors of a packed model are not taken over @@ pack @@ trf__pack_model @@
    if (p->offset < 0) continue @@ continue
a packed model is trained @@ pack @@ trf__needs_floats @@
    if (!model->packed) return @@ return
a second gradient of y forgotten where there is no norm @@ ops model @@ trf__norm_gradient_tile @@
    != j->dy || j->dy2 @@ != j->dy
every span has the ancestors of the first @@ ops decoding programs @@ trf__head_of @@
    key_rows ? in->key_rows + s * in->key_stride : NULL @@ key_rows
attention weights of the first head @@ ops decoding programs @@ trf__attention_weights_tile @@
    (&a->in, a->head) @@ (&a->in, 0)
learned positions' gradient without the offset @@ model golden @@ trf__stack_embed_backward @@
    table + c->position_offset * e.d @@ table
a decoded token's keys go to the first slot @@ decoding programs model @@ trf__reorder_rows @@
    (int32_t)(at * a->n_rows + row + j) @@ row + j
every layer reads the first layer's source @@ decoding programs model @@ trf__operands_of @@
    trf__act_at(&pass->run, cache->cross, is->layer * cache->cross_layer) @@ cache->cross
the prefix of the first place for all @@ decoding programs @@ trf__round_arrival @@
    there.prefixes + at @@ there.prefixes
decoding one position late @@ decoding programs model @@ trf__reorder_rows @@
    position[row + j] = beam->n @@ position[row + j] = beam->n + 1
decoding does not see its own token @@ decoding programs model @@ trf__reorder_rows @@
    1, 0, beam->n + 1 @@ 1, 0, beam->n > 0 ? beam->n : 1
cache of the wrong parent @@ decoding programs model @@ trf__reorder_rows @@
    trf__beam_parents(beam)[j] @@ j
ancestors of the row itself @@ ops decoding programs @@ trf__cpu_backpointers @@
    j->parents[r] * j @@ r * j
answers where their place is @@ decoding programs @@ trf__round_store @@
    h->sentence[place]; @@ place;
BOS may be said @@ decoding programs @@ trf__banned @@
    c->bos == c->eos ? -1 : trf__bos_read_first(c) @@ -1
EOS may not be said where it is BOS @@ special @@ trf__banned @@
    c->bos == c->eos ? -1 : trf__bos_read_first(c) @@ c->bos
pad and BOS count among the choices of a model without them @@ special @@ trf__choices @@
    c->target_vocab - trf__banned(c, s, banned) @@
    c->target_vocab - 2 - s->ban_unk + 0 * trf__banned(c, s, banned)
EOS is not drawn where it is BOS @@ special generate @@ trf__draw @@
    if (trf__bos_read_first(c) >= 0 && c->bos != c->eos) @@ if (c->bos >= 0)
pad is drawn @@ special generate @@ trf__draw @@
    if (c->pad >= 0) w[c->pad] = -HUGE_VAL @@ (void)0
a search without unk bans it @@ special @@ trf__unk_needed @@ c->unk >= 0 @@ c->unk >= -1
no eos @@ special model @@ trf__special_check @@ ids[i] < -optional @@ ids[i] < -1
bos is not eos @@ special @@ trf__special_check @@ && !(j == 1 && i == 2) @@ && 1
ids that do not exist differ @@ special @@ trf__special_check @@ ids[i] >= 0 && @@ 1 &&
a source begins with no id @@ special @@ trf__special_needed @@
    if (c->bos < 0 && source_bos) @@ if (0)
a decoder begins with no id @@ special @@ trf__special_needed @@
    else if (c->bos < 0 && start_bos) @@ else if (0)
a decoder begins with no padding @@ special @@ trf__special_needed @@ (start_pad || @@ (0 ||
no mask @@ special @@ trf__special_needed @@ c->head == TRF_HEAD_MASKED @@ 0
special ids as random ones @@ noise @@ trf__noise_random @@
    == id) return own @@ == id) return id
only one id can be banned @@ ops decoding programs @@ trf__may_be @@
    id != t->banned[0] && id != t->banned[1] && @@ id != t->banned[0] &&
a forced id need not be the one @@ ops decoding programs @@ trf__top_slice @@
    only >= column && only < column + columns @@ 0
log-softmax forgotten @@ ops decoding programs @@ trf__top_tile @@
    (double)best[i] - lse @@ (double)best[i]
a floor too high @@ ops search @@ trf__top_slice @@
    best[t->n - 1] > *floor) *floor = best[t->n - 1]; @@ best[0] > *floor) *floor = best[0];
the best tokens: of equals the higher id @@ ops search @@ trf__top_insert @@
    id < ids[k] @@ id > ids[k]
the best tokens: a group skipped for its neighbour @@ ops search @@ trf__top_slice @@
    most[g] < *floor @@ most[0] < *floor
the best tokens: padding in the softmax @@ ops search @@ trf__top_slice @@
    z[c] = -(trf_real)FLT_MAX; @@ z[c] = 0;
targets do not end with EOS @@ definitions model @@ trf__fill_rows @@
    ids[at + k] : c->eos; @@ ids[at + k] : c->pad;
the decoder reads what it should say @@ definitions golden @@ trf__fill_rows @@
    x->ids[at + id] @@ x->ids[at + id + (stack->shifts && k < x->lengths[i])]
sources without EOS @@ definitions golden @@ trf__stack_new @@
    stack.ends = c->source_eos @@ stack.ends = 0
targets end with EOS in any case @@ targets @@ trf__stack_new @@
    stack.ends = c->target_eos @@ stack.ends = 1
EOS may not stand where the caller puts it @@ targets @@ trf__check_side @@
    if (eos && id == c->eos) continue @@ (void)eos
a forced EOS ends a search @@ targets @@ trf__beam_ends @@
    beam->n >= beam->n_prefix @@ 1
spans are cut with other chances @@ noise @@ trf__noise_cut @@
    (draws, left) < cuts @@ (draws, left + 1) < cuts
a word too long is masked all the same @@ noise @@ trf__noise_masks @@
    (n > 0 || w + 1 < n_words) @@ 0
no word is masked where all are too long @@ noise @@ trf__noise_masks @@
    && (n > 0 || w + 1 < n_words)) continue; @@ ) continue;
noise does not know whose turn it is @@ noise @@ trf_noise_apply @@
    batch.ordinal + (uint64_t)i @@ i
a batch has the noise of any other @@ noise @@ trf_noise_apply @@
    (uint64_t)batch.place.batch @@ 0
chunks that were refused stay @@ corpus @@ trf_corpus_add_chunks @@
    corpus->n_pairs = before.n_pairs @@ (void)0
a grown vocabulary has a token twice @@ vocab @@ trf_vocab_add @@
    trf__token_fault(vocab, token, strlen(token)) @@ NULL
cross attention reads another sentence @@ model definitions @@ trf__pass_sides @@
    encoder.host.self[i].query @@ encoder.host.self[0].query
fairseq smoothing divides by V @@ definitions blocks @@ trf__smooth @@
    off = e / (n - 1) @@ off = e / n
uniform smoothing forgets the target's share @@ definitions blocks @@ trf__smooth @@
    on = 1 - e + e / n @@ on = 1 - e
smoothing counts pad @@ definitions @@ trf__smooth @@
    off = e / (n - 2) @@ off = e / (n - 1)
smoothing keeps its entropy @@ definitions @@ trf__loss_of_row @@
    loss - l->entropy @@ loss
loss gradient misses the smoothing @@ ops blocks model @@ trf__loss_row @@
    (l->on - l->off) @@ l->on
adam's second beta is the first @@ ops model golden @@ trf__adam_tile @@
    (trf__mul(g, g), square), a->beta2 @@ (trf__mul(g, g), square), a->beta1
a thawed parameter has had every update @@ ops finetune @@ trf__adam_job_of @@
    (a->clip_result->updates - missed) @@ a->clip_result->updates
what was missed is not kept @@ finetune @@ trf__metadata_checkpoint @@
    trainer->missed[i] != 0 || trainer->frozen[i] == '1' @@ 0
a discarded batch is done with @@ store @@ trf_trainer_discard_gradients @@
    trainer->behind = trainer->begin; @@ (void)0;
a batch that was only looked at is still to come @@ store @@ trf_trainer_discard_gradients @@
    if (trainer->before.corpus == trainer->begin.corpus) trainer->begin = trainer->before @@ (void)0
other options keep the old dropouts @@ store finetune @@ trf_trainer_set_options @@
    trf__follow_options(pass, &o) @@ (void)0
other options keep the old hooks @@ store finetune @@ trf_trainer_set_options @@
    pass->run.hooks = o.hooks @@ (void)0
other options shrink the plan @@ store finetune @@ trf_trainer_set_options @@
    limits.longest = trf__max64(limits.longest, pass->plan.limits.longest) @@ (void)0
a target's text by the source's vocabulary @@ corpus @@ trf_corpus_add_text @@
    target_vocab, target @@ source_vocab, target
the text of another sentence @@ decoding programs @@ trf_hypothesis_text @@
    translator, sentence, rank @@ translator, 0, rank
a rewound corpus was put elsewhere @@ store @@ trf_corpus_rewind @@
    corpus->put_epoch = corpus->put_batch = 0 @@ 0
a refused text leaves the answer before it @@ decoding programs @@ trf_translate_text @@
    if (!status) trf__forget_answers(translator) @@ (void)0
a circle in a map of characters @@ pieces @@ trf__rule @@
    i < 1000 && found @@ found
a map stays when it is emptied @@ pieces @@ trf__read_spec @@
    && w.value == 0) p->n_rules = 0; @@ && w.value == 0) (void)0;
a NUL among pieces without byte fallback @@ pieces @@ trf__read_pieces @@
    p->nuls && !p->byte_fallback @@ 0
a piece of any length @@ pieces @@ trf__read_piece @@
    if (length > 7999) @@ if (length > 79999)
missed updates of a file are not checked @@ finetune @@ trf__read_frozen @@
    t->missed[i] < least || t->missed[i] > least + updates @@ 0
room for candidates that cannot be @@ memory @@ trf__max_candidates @@
    trf__min64((int64_t)s->beam * s->candidates + 1, trf__choices(c, s)) @@ (int64_t)s->beam *
        s->candidates + 1
the logarithm of no smoothing @@ definitions @@ trf__smooth @@
    TRF_SMOOTH_OTHERS || l->off @@ TRF_SMOOTH_OTHERS || e
adam without bias correction @@ ops definitions golden model @@ trf__adam_job_of @@
    j.v_scale = 1 / c2 @@ j.v_scale = 1
fairseq's epsilon @@ ops definitions @@ trf__adam_job_of @@
    learning_rate * sqrt(c2) @@ learning_rate
weight decay on biases @@ model definitions @@ trf__cut_tiles @@
    tile.decay = decay_all @@ tile.decay = 1
clipping forgotten @@ ops model golden @@ trf__decide_clipping @@
    if (!(v->scale < 1)) v @@ v
norm of the sum, not of the mean @@ ops model golden @@ trf__decide_clipping @@
    (sum) / sums[0].tokens @@ (sum)
a mean begins at the wrong side @@ model @@ trf__running_mean @@
    (beta < 0.5) return @@ (0) return
coupled decay goes beyond all squares @@ model @@ trf__adam_tile @@
    trf__min(trf__max(trf__mul(l2, p), least), most) @@ trf__mul(l2, p)
the gradient's scale in one factor @@ model @@ trf__adam_job_of @@
    scale < 1e-20 ? 1e-20 : 1 @@ 1
a second moment of nothing @@ model @@ trf__adam_job_of @@
    TRF__REAL_BYTES == 4 @@ 0
an infinite weight @@ model @@ trf__adam_tile @@
    trf__if_less(trf__sub(moved, moved), one, moved, p) @@ moved; (void)one
root of a denormal number @@ ops @@ trf__sqrt @@
    trf__if_less(a, tiny, trf__set(18446744073709551616.0f), one) @@ one
bias correction counts skipped steps @@ model @@ trf__decide_clipping @@
    if (!v->skipped) v @@ v
a cancelled step loses its batch @@ store @@ trf__resume_place @@
    if (begin.corpus != next.corpus) return @@ return
what a rewound corpus has delivered is lost @@ store @@ trf__resume_place @@
    { begin.epoch = corpus->put_epoch; begin.batch = corpus->put_batch; } @@ begin = next;
a refused batch of other data moves the place @@ store @@ trf__keep_place @@
    if (refused && t->behind.corpus != 0 && t->behind.corpus != place.corpus) return @@
        (void)refused
a batch from nowhere moves the place @@ store @@ trf__keep_place @@
    if (place.corpus == 0) return @@ (void)0
a cancelled batch is done with @@ store @@ trf__keep_place @@
    status != TRF_E_CANCELLED && place.batch @@ place.batch
no place behind an epoch's last batch @@ store corpus @@ trf__corpus_seek @@
    if (batch == trf__corpus_planned(c)) { epoch++; batch = 0; } @@ (void)0;
warm-up exponent @@ definitions @@ trf_learning_rate @@
    s * pow(w, -1.5) @@ s * pow(w, -1.4)
learning rate of the step before @@ definitions model decoding programs golden @@ trf__set_now @@
    d_model, t->step + 1 @@ d_model, t->step
target embedding learns nothing @@ model golden @@ trf__stack_embed_backward @@
    pass->run.backend->embed_gradient @@ if (!stack->decoder) pass->run.backend->embed_gradient
only one decoder layer teaches the encoder @@ model golden @@ trf__stack_backward @@
    memory_seen = 1; @@ memory_seen = 0;
NaN is applied @@ ops model @@ trf__decide_clipping @@
    !(v->norm * v->scale < TRF__MAX_GRADIENT) ||
    !trf__is_finite(sums[0].loss + sums[1].loss) @@ 0
a loss that is not finite is learned from @@ ops @@ trf__decide_clipping @@
    || !trf__is_finite(sums[0].loss + sums[1].loss); @@ ;
a skipped step moves the weights @@ ops model @@ trf__cpu_adam @@
    if (!a->clip_result->skipped) trf__tiles @@ trf__tiles
a skipped step counts as an update @@ ops model @@ trf__decide_clipping @@
    if (!v->skipped) v @@ v
nobody is blamed for a NaN @@ ops model @@ trf__cpu_clip @@
    sum, trf__is_finite(sum) ? -1 : trf__bad_tile(j) @@ sum, -1
micro-batches do not add up @@ model same_bits @@ trf__part_backward @@
    t->micro == 0 @@ 1
a slice of gradients is not summed over ranks @@
    decoding programs model same_bits ranks @@ trf__sum_from @@
    (size_t)n, run @@ (size_t)(n - 1), run
xavier counts q, k and v wrongly @@ definitions @@ trf__initialise @@
    bound = sqrt(6 / (in + (double)trf__q_width(c))) @@ bound = sqrt(6 / (in + out))
keys begin with the bound of queries @@ definitions @@ trf__initialise @@
    keys = trf__q_width(c) * p->shape[1] @@ keys = INT64_MAX
linear as xavier @@ look @@ trf__initialise @@
    (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(in) @@ (0) bound = 1 / sqrt(in)
linear without biases @@ look @@ trf__initialise @@
    if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(d); break @@ break
linear, the second bias as wide as the first @@ look @@ trf__initialise @@
    ((double)c->d_ff) @@ (d)
length penalty of GNMT @@ search decoding programs @@ trf__search_score @@
    6.0, search->alpha @@ 5.0, search->alpha
EOS never counts in the length @@ search decoding programs @@ trf__beam_end @@
    (ended == TRF_ENDED_EOS ? beam->search.count_eos : 0) @@ 0
shortest answer one too short @@ search decoding programs @@ trf__beam_gather @@
    n >= beam->least @@ n + 1 >= beam->least
EOS keeps its share of the softmax @@ search ops @@ trf__top_slice @@
    without = only == TRF__NOT_EOS ? t->eos : -1 @@ without = -1
EOS is out of the softmax for ever @@ search decoding programs @@ trf__beam_wanted @@
    eos_forbidden && beam @@ beam
CTranslate2's preset keeps EOS in the softmax @@ search @@ trf_search_set_rule @@
    renormalize_logits = ctranslate2 @@ renormalize_logits = 0
forced tokens are never free @@ search @@ trf__beam_gather @@
    beam->n < beam->unscored @@ 0
free tokens are lost @@ search @@ trf__beam_gather @@
    own = p; @@ own = free ? 0 : p;
the heuristic looks at n best @@ search @@ trf__beam_layout @@
    beam->keep = search->stop == TRF_STOP_HEURISTIC ? search->beam : @@ beam->keep =
the heuristic is the bound @@ search @@ trf__beam_stops @@
    stop == TRF_STOP_BOUND @@ stop != TRF_STOP_FINISHED
an answer stands in, proven, for a lost one @@ search @@ trf__beam_finish @@
    ? !beam->gave_up @@ ? beam->dropped == TRF__IMPOSSIBLE
the paper preset with PyTorch's epsilon rule @@ definitions @@ trf_train_set_conventions @@
    paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE @@ TRF_EPSILON_OUTSIDE
a code point of two bytes @@ files wordpiece @@ trf__put_code_point @@
    {0, 0, 0xC0, 0xE0, 0xF0} @@ {0, 0, 0xE0, 0xE0, 0xF0}
stops too early @@ search @@ trf__beam_bound @@
    beam, sum, longest @@ beam, sum, n + 1
answers in the order they ended @@ search decoding programs @@ trf__beam_ranks_before @@
    (a->score > b->score) return 1 @@ (a->score > b->score) return 0
sequences at the limit are refused @@ definitions decoding programs model @@ trf__check_lengths @@
    extra > max_length @@ extra >= max_length
EOS may stand in a sequence @@ decoding programs definitions @@ trf__check_side @@
    id == bos || id == c->eos @@ id == c->bos
translating cannot be cancelled @@ decoding programs @@ trf__stack_forward @@
    TRF__TRY(trf__run_cancelled(&pass->run, err)) @@ (void)err
a step does not count @@ decoding programs model @@ trf_trainer_end_step @@
    trainer->step++; @@ (void)0;
a field of the configuration is not stored @@ store @@ TRF__CONFIG_FIELDS @@
    TRF_NORM_RULE_COUNT - 1, 2 @@ TRF_NORM_RULE_COUNT - 1, 0
a sequence's row is a sum @@ ops heads @@ trf__pool_tile @@
    trf__mul(sum, share) @@ sum
pooled rows not divided @@ ops heads @@ trf__pool_gradient_tile @@
    trf__mul(trf__load_n(dy + c, j->d - c), share) @@ trf__load_n(dy + c, j->d - c)
rows that were not pooled have a gradient @@ ops heads @@ trf__pool_gradient_tile @@
    r < n ? trf__mul @@ 1 ? trf__mul
the projection's gradient of a tied embedding is lost @@ heads @@ trf__stack_new @@
    || c->head == TRF_HEAD_MASKED @@ || 0
the target's gradient of a shared embedding is lost @@ model @@ trf__stack_new @@
    trf__shares_embedding(c) @@ c->tying == TRF_TIED_ALL
EOS has a label @@ heads @@ trf__fill_labels @@
    k < x->lengths[i] - before ? x->ids[at++] : -1 @@ x->ids[k < x->lengths[i] - before ? at++ : at]
rows that fill up have a label @@ cuda @@ trf__fill_labels @@
    targets[row++] = -1 @@ targets[row++] = 0
a label beyond the last @@ heads @@ trf__check_head @@
    ids[at] >= trf__labels_of @@ ids[at] > trf__labels_of
a mask in every model @@ heads @@ trf__check_side @@
    !(c->head == TRF_HEAD_MASKED && trf__mask_of(c) == id) @@ 0
pad beside a mask of its own @@ heads @@ trf__check_side @@
    trf__mask_of(c) == id @@ 1
EOS in sources without segments @@ heads decoding @@ trf__check_sources @@
    c->segments > 0 @@ 1
labels that nobody asks for count @@ heads @@ trf__check_head @@
    x->ids[at] >= 0; @@ 1;
tags of EOS @@ heads @@ trf__probabilities @@
    row += n + c->source_eos; @@ row += n;
a field of format 7 in a file of format 6 is not read @@ store @@ TRF__READ_FIELD @@
    || trf_file_metadata(file, prefix #field) @@ || 0
files of format 2 are not read @@ store @@ TRF__FORMAT @@
    TRF__FORMAT_READ = 2 @@ TRF__FORMAT_READ = 3
files of another format are read @@ store @@ trf__read_config @@
    format < TRF__FORMAT_READ || format @@ format
a part of a tensor is its beginning @@ files store @@ trf__file_numbers @@
    begin + (uint64_t)(first * dtype->bytes) @@ begin
a stored token may be a special one @@ vocab store @@ trf__token_fault @@
    trf__is_special(token, length) @@ 0
checksum not compared @@ files store @@ trf__file_check_crc @@
    if (!strcmp(found, text)) return @@ return
checksum of another polynomial @@ files store @@ trf__crc_begin @@
    & 1 ? 0xEDB88320u @@ & 1 ? 0xEDB88321u
holes are not seen @@ files @@ trf__file_cover @@
    entry->begin != end @@ entry->begin < end
appended bytes are not seen @@ files store @@ trf__file_cover @@
    if (end < data) @@ if (end + 1000000 < data)
duplicate names are not seen @@ files @@ trf__file_unique @@
    trf__sort(items, (size_t)n, trf__by_name @@ if (0) trf__sort(items, (size_t)n, trf__by_name
the file is not flushed @@ files @@ trf__save_commit @@
    trf__sync(saving->fd) @@ 0
an error of fsync is dropped @@ files @@ trf__save_commit @@
    error || closing @@ closing
the folder is not flushed @@ files @@ trf__save_commit @@
    trf__sync(folder) @@ 0
writing follows links @@ files @@ trf_os_open @@
    O_CREAT | O_EXCL @@ O_CREAT | O_TRUNC
a corpus rewinds to the beginning of its epoch @@ corpus @@ trf_corpus_rewind @@
    epoch = corpus->batch @@ batch
a text has as many ids as there was room @@ corpus decoding programs @@ trf__encode_all @@
    if (status != TRF_E_LIMIT || to->n <= to->capacity) return @@ return
others' metadata are lost @@ store @@ trf__model_read @@
    if (status == TRF_OK) status = trf__read_metadata(file, model, err) @@ (void)0
metadata in the order of setting @@ store @@ trf_model_set_metadata @@
    (model->metadata[i].key, key) < 0 @@ (model->metadata[i].key, key) != 0
a copy without metadata @@ store @@ trf_model_copy @@
    (!status) status = trf__metadata_keep @@ (0) status = trf__metadata_keep
more metadata than readers take @@ store @@ trf_model_set_metadata @@
    (texts > TRF__META_BYTES || n > TRF__META_MOST) @@ texts > TRF__META_BYTES
the decoder has no dropouts @@ finetune store @@ trf__follow_options @@
    trf__stack_drops(&pass->decoder, o) @@ (void)0
a layer not made again @@ finetune @@ trf__stack_backward @@
    1 < stack->n_sublayers @@ 1 < 0
the input of a layer not made again @@ finetune @@ trf__recompute_layer @@
    (i > 0) trf__norm_alone @@ (0) trf__norm_alone
layers share what must stay @@ finetune @@ trf__take_stack @@
    1; pass->plan.limits.recompute @@ 1; 0
the last y is shared @@ finetune @@ trf__take_stack @@
    i == stack->n_sublayers - 1 @@ i < 0
recomputing takes as much memory @@ finetune @@ trf__take_stack @@
    (pass->plan.limits.recompute && i % stack->per_layer == 0) @@ 0
what is frozen moves @@ finetune @@ trf__cut_tiles @@
    t->frozen[i] == '1' ? 0 : trf__min64 @@ trf__min64
only the first star counts @@ finetune @@ trf__fits @@
    star; name = ++tried @@ star; name = tried + strlen(tried)
checkpoints forget what is frozen @@ finetune @@ trf__metadata_checkpoint @@
    strchr(trainer->frozen, '1') @@ 0
a frozen mark that is none @@ finetune @@ trf__read_frozen @@
    n || strspn(frozen, "01") != n @@ n
too few frozen marks @@ finetune @@ trf__read_frozen @@
    strlen(frozen) != n || strspn(frozen, "01") != n @@ strspn(frozen, "01") + 1 < n
weights are copied before all is looked at @@ finetune @@ trf_model_copy_weights @@
    write && at < size @@ at < size
rows that only one model has are copied @@ finetune @@ trf_model_copy_weights @@
    trf__min64(trf__param_size(p), trf__param_size(q)) @@ trf__param_size(q)
an updater keeps its weights to itself @@ updater @@ trf_updater_step @@
    run->backend->download @@ if (i < 0) run->backend->download
an updater's rate stands still @@ updater @@ trf_updater_step @@
    model.config.d_model, t->step + 1 @@ model.config.d_model, 1
vectors decay @@ updater @@ trf__updater_open @@
    weights[i].rank > 1 @@ weights[i].rank > 0
names of tensors come twice @@ updater @@ trf__tensors_save @@
    if (!status) status = trf__file_unique(NULL, items, n, "tensor", tensors, sizeof *tensors, err)
        @@ (void)0
keys come twice @@ updater @@ trf__tensors_save @@
    if (!status) status = trf__file_unique(NULL, items, n_texts, "key", metadata, 2 * sizeof
        *metadata, err) @@ (void)0
shapes below zero are written @@ updater @@ trf__out_tensor @@
    if (t->shape[k] < 0 || @@ if (t->shape[k] < -9 ||
old tiles under new options @@ store @@ trf_trainer_set_options @@
    o.decay_all != trainer->options.decay_all @@ 0
old recordings under new options @@ cuda @@ trf_trainer_set_options @@
    pass->back.options_set++; @@ (void)0;
the last report with a new learning rate @@ store @@ trf_trainer_report @@
    learning_rate = trainer->rate @@ learning_rate = trf_learning_rate(&trainer->options,
        trainer->model->config.d_model, report->step)
a mean is a sum @@ model @@ trf_model_average @@
    (sum[i] / count) @@ sum[i]
a temporary file is anybody's @@ files @@ trf_os_hold @@
    LOCK_EX | LOCK_NB @@ LOCK_SH | LOCK_NB
what is held may have lost its name @@ files @@ trf_os_hold @@
    mine.st_dev != there.st_dev || mine.st_ino != there.st_ino @@ 0
what is left behind stays @@ files @@ trf__save_begin @@
    if (TRF_OS_HOLDS) trf__save_sweep(saving) @@ (void)0
held no longer than it is written @@ files @@ trf_os_hold @@
    fd >= 0 ? dup(fd) @@ fd >= 0 ? fd
a slow build says nothing @@ finetune @@ trf__warn_if_slow @@
    TRF__SLOW && model @@ 0 && model
no kind in a message @@ model @@ trf__check_field @@
    if (high != 0 || value == 0) return @@ return
a failed save leaves its file behind @@ files store @@ trf__save_end @@
    if (saving->made) (void)TRF_OS(unlink)(saving->temporary) @@ (void)0
NaN weights are loaded @@ files store @@ trf__file_numbers @@
    !trf__is_finite((double)*values) && !file->allow_nonfinite @@ 0
negative second moments are taken @@ store @@ trf__read_param @@
    !(numbers[i] >= 0) @@ 0
tied matrices may differ @@ store @@ trf__read_param @@
    if (!memcmp(numbers, there, (size_t)n * sizeof *there)) continue @@ continue
extra tensors are accepted @@ store @@ trf__match_tensors @@
    if (!known[i]) @@ if (known[i] > 1)
transposed tensors are accepted @@ store @@ trf__match_shape @@
    if (e->rank == p->rank && e->shape[0] == p->shape[0] && @@ if (e->rank == 2 && e->shape[0] ==
        p->shape[1] && e->shape[1] == p->shape[0]) return TRF_OK; if (e->rank == p->rank &&
        e->shape[0] == p->shape[0] &&
resuming begins at step 0 @@ store decoding programs same_bits @@ trf__trainer_moved @@
    t->step = step; @@ t->step = 0;
resuming begins the epoch again @@ corpus store decoding programs @@ trf__corpus_seek @@
    put_batch = batch @@ put_batch = 0
resuming with other data @@ store @@ trf_corpus_resume @@
    trainer->begin.corpus != fingerprint @@ 0
second moments of the first @@ store @@ trf__trainer_read @@
    &trf__companions[1] @@ &trf__companions[0]
a checkpoint in the middle of a step @@ store @@ trf__no_gradients @@
    trainer->micro == 0 @@ trainer->micro < 1000
every epoch in the same order @@ corpus @@ trf__corpus_plan_pool @@
    TRF__SHUFFLE_EPOCH, (uint64_t)c->planned @@ TRF__SHUFFLE_EPOCH, 0
blocks of every epoch in the same order @@ corpus @@ trf__corpus_plan_epoch @@
    TRF__SHUFFLE_EPOCH, (uint64_t)epoch @@ TRF__SHUFFLE_EPOCH, 0
batches one pair too large @@ corpus @@ trf__corpus_cut @@
    over || i - begin >= o @@ over || i - begin > o
a round beyond the slots of the cache @@ decoding programs @@ trf__round_fits @@
    trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16)) @@ INT32_MAX /
        (tokens + 16)
a round beyond the numbers of rows of sources @@ decoding programs @@ trf__round_fits @@
    trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16)) @@ INT32_MAX /
        (s->beam * (longest + 1))
short sentences at the pace of long ones @@ decoding programs @@ trf__round_size @@
    trf__round_fits(&t->search, w->length, longest) / 2 >= n @@ 0
places are not taken again before all are free @@ separate_device @@ trf__round_admits @@
    8 * (int64_t)(round->n - round->taken) >= round->n @@ round->taken == 0
one that arrives takes a place that is taken @@
    decoding programs separate_device @@ trf__round_admit @@
    h->sentence[place] < 0 @@ 1
sources of the place before @@ decoding programs model @@ trf__round_arrival @@
    (place * h->area) @@ ((place > 0 ? place - 1 : 0) * h->area)
keys of one that arrives in its neighbour's area @@ decoding programs model @@ trf__round_arrival @@
    (place * h->area + i) @@ i
the cache forgets a column too early @@ ops @@ trf__reorder_from @@
    now.at = now.at + 1 @@ now.at = now.at + 2
those that arrive push the others out @@ ops decoding programs @@ trf__reorder_from @@
    (a->begin) return now @@ (a->begin) now.rows = 0
one that arrives reads a parent @@ ops @@ trf__reorder_rows @@
    begin ? 0 : before @@ begin ? 1 : before
keys of an area one off @@ ops model @@ trf__cpu_append_kv @@
    to[c * j->area + i] @@ to[c * j->area + (i + 1) % j->area]
values of an area over its keys @@ ops model @@ trf__cpu_append_kv @@
    (j->area + i), from @@ i, from
a cancelled look has written @@ decoding programs @@ trf__view_forward @@
    (trf_real *)translator->work.memory @@ views->layer < 0 ? (trf_real *)translator->work.memory :
        views->attention[0] ? views->attention[0] : views->attention[1] ? views->attention[1] :
        views->attention[2]
rows wrap at 32 bits @@ decoding programs @@ trf__rows_of @@
    (int64_t)x->lengths[i] + extra @@ (int32_t)((uint32_t)x->lengths[i] + (uint32_t)extra)
a weight without outputs @@ blocks @@ trf__weight_check @@
    (*out < 1) return @@ (*out < 0) return
a packed model's memory without its floats @@ memory @@ trf_packed_memory @@
    trf__add_size(packed, trf__layout_memory(&model->layout)) @@ packed
a packed model's memory in another format @@ memory @@ trf_packed_memory @@
    packed = model->layout.packed_bytes[run.format] @@
    packed = model->layout.packed_bytes[TRF__BF16]
a model of zeros is not set @@ model @@ trf_model_create_zeros @@
    m->run.backend->zero(&m->run, m->weights, trf__bytes(m->layout.n_weights, sizeof(trf_real)))
    @@ m->run.backend->zero(&m->run, m->weights, trf__bytes(m->layout.n_weights, 1))
a translator's memory without its sources @@ memory @@ trf_translator_memory @@
    round.longest_source; @@ 0;
a translator's memory without its answers @@ memory @@ trf_translator_memory @@
    (trf__add_size(h.bytes, h.device_bytes), trf__add_size(ids, ids / 2)) @@ (h.bytes,
        h.device_bytes); (void)ids
a dropout of one @@ blocks @@ trf__drop_of @@
    p < 65535.0 / 65536 ? p * 65536 + 0.5 : 65535 @@ p * 65536 + 0.5
a failed delivery keeps the last batch @@ corpus @@ trf_corpus_next @@
    if (batch) TRF__ZERO(*batch) @@ (void)0
controls of two bytes reach the terminal @@ files @@ trf__copy_text @@
    (c == 0xC2 && (unsigned char)from[1] < 0xA0) @@ 0
a character cut in two @@ files @@ trf__copy_text @@
    trf__utf8_at(from, left), taken = bytes ? bytes : 1 @@ 1, taken = 1
an error does not name its file @@ files store @@ trf__name_file @@
    "%s: %s", name, err @@ "%s", err
the rarest token first @@ vocab @@ trf__by_count @@
    y->count ? -1 : 1 @@ y->count ? 1 : -1
a report read before it has come @@ separate_device @@ trf__add_sums @@
    TRF__TRY(pass->run.backend->sync(&pass->run, err)) @@ (void)err
tied matrices differ on a broken device @@ separate_device @@ trf__read_param @@
    TRF__TRY(trf__arena_get(model, arena, p->offset + at, there, n, err)) @@
        (void)trf__arena_get(model, arena, p->offset + at, there, n, NULL)
a block's dropout outlives its memory @@ separate_device @@ trf__staged_back @@
    c->run.now = NULL @@ (void)0
a block's guests stay @@ separate_device @@ trf__staged_back @@
    for (i = 0; i < c->n_guests; i++) run->backend->release(run, c->guests[i].device,
        c->guests[i].bytes) @@ (void)0
the host makes the position table itself @@ separate_device @@ trf__pass_table @@
    on->upload(&pass->run, pass->table + p * width, row, bytes) @@
        memcpy(pass->table + p * width, row, bytes)
the step goes to the device without upload @@ separate_device @@ trf__block_upload @@
    pass->run.backend->upload(&pass->run, pass->block.device, pass->block.host, bytes) @@
        memcpy(pass->block.device, pass->block.host, bytes)
every step waits for the device @@ separate_device @@ trf_optimizer_step @@
    updated = trainer->step; @@ updated = trainer->step;
        TRF__TRY(trainer->pass.run.backend->sync(&trainer->pass.run, err));
a saved file never asks whether its numbers came @@ separate_device cuda @@ trf__out_chunk @@
    TRF__TRY(out->device->backend->sync(out->device, err)) @@
    out->device->backend->sync(out->device, NULL); (void)err
an average of numbers that never came @@ cuda @@ trf_model_average @@
    TRF__TRY(trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n, err)) @@
        (void)trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n, NULL)
rows that fill up beyond the longest are left out @@ cuda @@ trf__pad_rows @@
    stack->max_keys = trf__max64(stack->max_keys, span->n_key) @@ (void)0
a GPU hides NaN in ReLU @@ cuda_ops @@ trf__gpu_act @@
    return h < 0 ? 0 : h @@ return h > 0 ? h : 0
a GPU hides NaN in attention @@ cuda_ops @@ trf__gpu_attention @@
    seen > 0 ? out[o] @@ sum > 0 ? out[o]
a GPU sums a norm wider than its room @@ cuda_ops @@ trf__cuda_norm_gradient @@
    TRF__CUDA_SUMS / 2 @@ (int64_t)1 << 40
a gradient of more rows than are sorted @@ blocks @@ trf_embedding_backward @@
    dweight->shape[0] > 1 << 24 @@ 0
more ids of blocks than an int counts @@ blocks @@ trf__embedding_rows @@
    x->lengths[i] > INT32_MAX - *rows @@ 0
a gradient of no memory of any shape @@ blocks @@ trf_multi_head_attention_backward @@
    (dmemory || sub.memory_rows > 0) @@ sub.memory_rows > 0
a saved zero hides a size @@ updater @@ trf__out_tensor @@
    if (t->shape[k] > 1) most = trf__times(most, t->shape[k]) @@ (void)0
a header of 640 bytes is a pickle @@ files @@ trf__file_guess @@
    (begin[0] != 0x80 || n > TRF__FILE_HEADER) @@ 1
a GPU reads one logit too many @@ cuda_ops @@ trf__gpu_loss_rows @@
    target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS) { @@ target >= 0 && c <= l.vocab; c +=
        TRF__CUDA_THREADS) {
shared memory too small @@ cuda_ops cuda @@ trf__gpu_attention_dkv @@
    2 * TRF__CUDA_WARPS @@ TRF__CUDA_WARPS
shared memory behind the end not zero @@ cuda_ops @@ trf__mma_tile @@
    eight = {0, 0, 0, 0} @@ eight; if (row >= n) continue
rows in shared memory misaligned @@ cuda_ops @@ trf__mma_tile @@
    (D / 8) * (D + 8) + c @@ (D / 8) * (D + 8) + c + 4
a list played for other numbers of rows @@ cuda @@ trf__pass_train @@
    shape.encoder_rows = from->rows; shape.encoder_spans = from->n_self;
        shape.encoder_groups = from->n_groups; shape.encoder_longest = from->max_queries; @@
    (void)from;
a list played for the next micro-batch @@ cuda @@ trf__pass_train @@
    pass->back.first + 2 * @@ 2 *
half a list is played @@ cuda @@ trf__cuda_end_list @@
    whole && e == cudaSuccess @@ e == cudaSuccess
what is recorded does not happen @@ cuda @@ trf__cuda_end_list @@
    { trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1; } @@
        return 1;
what is filled up asks for a token @@ separate_device cuda @@ trf__pad_rows @@
    targets[row] = -1 @@ targets[row] = 4
empty lists of rows read the end @@ cuda @@ trf__gpu_embed_gradient @@
    if (j.groups.first[k] == j.groups.first[k + 1]) break @@ (void)0
a GPU's left factor turned @@ cuda_ops @@ trf__mma_own @@
    i % 2 * 8 * (D + 8) + c * 16 + i / 2 @@ i / 2 * 8 * (D + 8) + c * 16 + i % 2
a GPU's delta of the first row for both @@ cuda_ops @@ trf__gpu_mma_dq @@
    factor - delta[e / 2] @@ factor - delta[0]
a GPU's dropout of weights by the key alone @@ cuda_ops @@ trf__mma_kept @@
    query + e / (KEYS / 8) @@ query
a GPU's gradient of keys from too late a query @@ cuda_ops @@ trf__gpu_mma_dkv @@
    h.begin - (h.n - n) @@ h.begin - (h.n - n) + 1
a GPU's best ones twice @@ cuda_ops @@ trf__gpu_top_slices @@
    (keys[i] == next) keys[i] = 0 @@ (keys[i] == next) keys[i] = next
a GPU's equal logits by the higher id @@ cuda_ops @@ trf__top_key @@
    32 | (uint32_t)~ @@ 32 | (uint32_t)
a GPU's slices with sums above their own maxima @@ cuda_ops @@ trf__gpu_top @@
    * expf(sums[2 * s] - maximum); @@ ;
a GPU's keys beyond the last @@ cuda_ops @@ trf__mma_dkv_of @@
    h.begin + r < q->seen @@ h.begin + r <= q->seen
16 bits cut, not rounded @@ cuda_ops @@ trf__put_as @@
    (u + 0x7FFF + (u >> 16 & 1)) @@ u
the copy of 16 bits keeps its old weights @@ cuda_ops cuda @@ trf__gpu_adam @@
    (a.packed) trf__put_as @@ (0) trf__put_as
a bias of another parameter @@ cuda_ops cuda @@ trf__cuda_project @@
    j->b - j->w.plain @@ 0
uploads overwritten before they are read @@ cuda @@ trf__cuda_stage @@
    if (cudaEventSynchronize(stage->read) != cudaSuccess) return NULL @@ (void)0
algorithms by shape alone @@ cuda cuda_ops @@ trf__lt_key_of @@
    (int64_t)(bits & (~bits + 1)) @@ 16
a round that is over is not looked at @@ decoding programs model @@ trf__round_search @@
    at % run->backend->lookahead == 0 @@ at < 1
live rows beyond the first are not counted @@ ops decoding programs @@ trf__cpu_reorder @@
    now.rows += beam->live @@ now.rows += 1
rows of nobody read a token @@ ops @@ trf__reorder_nobody @@
    ids[r] = a->slots[r] = -1 @@ slots[r] = -1; a->ids[r] = 4
keys of nobody are kept @@ ops @@ trf__cpu_append_kv @@
    (slot < 0) continue @@ (slot < 0) slot = 0
beams read where they were @@ separate_device @@ trf__round_store @@
    trf__beam_places(beam, (int32_t)h->length, h->memory_read + (size_t)place * h->beam_bytes) @@
        (void)0
finished beams are not downloaded @@ separate_device @@ trf__read_host_copy @@
    if (copy != items) run->backend->download @@ if (0) run->backend->download
the host computes in a device's memory @@ separate_device @@ trf__shared_address @@
    run->backend->on_host ? address : NULL @@ address
a model is read twice @@ files @@ trf__read_weights @@
    if (trf_file_metadata(file, "trf.crc32")) trf__file_sum(file) @@ (void)0
a checksum from the middle of the file on @@ store files @@ trf__file_data @@
    if (at != file->summed) return TRF_OK @@ (void)0
damage told as what it did @@ store @@ trf__read_weights @@
    trf__file_check_crc(file, status ? &damage : err) @@ status ? TRF_OK : trf__file_check_crc(file,
        err)
what fills rows up is not zero @@ files @@ trf__model_weights @@
    if (end < n) run @@ if (0) run
equal pairs merge from the right @@ pieces @@ trf__merge_before @@
    a->left < b->left @@ a->left > b->left
unused pieces stay @@ pieces @@ trf__bpe_give @@
    split[token] > 0 @@ split[token] > part.length
an unused piece that is one character stays @@ pieces @@ trf__bpe_give @@
    unused ? -1 : token @@ token
unused pieces come apart to the end @@ pieces @@ trf__bpe_give @@
    int unused = part.score-- >= 0 && @@ int unused =
scores of -0 and 0 are equal @@ pieces @@ trf__pieces_merge @@
    pair->score ^= INT32_MAX @@ pair->score = -(pair->score & INT32_MAX)
a user-defined piece counts every byte @@ pieces @@ trf__unigram @@
    * (end - at - 1) @@ * (end - at)
sums of scores grow without end @@ pieces @@ trf__unigram @@
    till < -100000.0f || till > 100000.0f @@ till != till
any number of user-defined pieces is looked at @@ pieces @@ trf__user_defined @@
    i < n && found < 64 && @@ i < n &&
any number of rules is looked at @@ pieces @@ trf__rule @@
    1000 && found < 32 @@ 1000
blanks in a row stay @@ pieces @@ trf__normalise @@
    p->remove_extra && part[length - 1] == ' ' @@ 0
the blank that normalising added stays @@ pieces @@ trf__pieces_decode @@
    TRF__SPACE, 3)) k = 3; @@ TRF__SPACE, 3)) k = 0;
a blank in front and behind @@ pieces @@ trf__normalise @@
    dummy_prefix && !p->suffix @@ dummy_prefix
of equal ways the later @@ pieces @@ trf__path_to @@
    score > to->score @@ score >= to->score
the shortest rule of the map @@ pieces @@ trf__rule @@
    !(cell >> 8 & 1) @@ longest || !(cell >> 8 & 1)
every unknown character alone @@ pieces @@ trf__give_run @@ if (!to->unknown) { @@ {
a piece has the id of the one before @@ piece_ids @@ trf__mapped_id @@
    TRF__MAP_IDS + p->n_read @@ TRF__MAP_IDS + (p->n_read ? p->n_read - 1 : 0)
an id occurs twice @@ piece_ids @@ trf__apply_map @@ id >= 0 && p->tokens[id] >= 0 @@ 0
ids beyond the number of ids @@ piece_ids @@ trf__map_range @@ id < p->size @@ id < p->size + 9
a negative id @@ piece_ids @@ trf__map_range @@ id >= least && @@ id >= -9 + 0 * least &&
a special id that no token has @@ piece_ids @@ trf__check_special @@ if (token < 0) @@ if (0)
a special id of a piece of text @@ piece_ids @@ trf__check_special @@
    type != TRF__PIECE_CONTROL && type != TRF__PIECE_UNKNOWN @@ 0
special tokens of a map are written @@ piece_ids @@ trf__check_special @@
    p->pieces[token].type = TRF__PIECE_CONTROL @@ (void)0
a piece left out without unk @@ piece_ids @@ trf__apply_map @@
    v->special[TRF_SPECIAL_UNK] < 0 && (trf__is_text_piece @@ 0 && (trf__is_text_piece
unknown text without unk and bytes @@ piece_ids @@ trf__apply_map @@
    v->special[TRF_SPECIAL_UNK] < 0 && !p->byte_fallback @@ 0
fewer pieces than the map has ids @@ piece_ids @@ trf__apply_map @@ p->n_read < p->n_mapped @@ 0
more pieces than the map has ids @@ piece_ids @@ trf__mapped_id @@ p->n_read == p->n_mapped @@ 0
a further token twice @@ piece_ids @@ trf__enter_more @@
    trf__vocab_find(v, text, n, trf__hash_bytes(text, n)) >= 0 @@ 0
a further token is found in a text @@ piece_ids @@ trf__is_text_piece @@
    type == TRF__PIECE_NORMAL || @@ type == TRF__PIECE_NORMAL || type == TRF__PIECE_CONTROL ||
a control piece has an id by its text @@ piece_ids @@ trf__id_of_text @@
    type == TRF__PIECE_CONTROL || type == TRF__PIECE_UNKNOWN @@ token < 0
a run of unknown characters is no further token @@ piece_ids @@ trf__give_run @@
    trf__type_of(p, token) == TRF__PIECE_MORE @@ 0 * token
codes without being asked @@ piece_ids @@ trf__pieces_encode @@
    if (v->pieces->codes) text @@ text
a code keeps its end @@ piece_ids @@ trf__give_code @@ (end + 2 - text) @@ (end - text)
an empty id is written @@ piece_ids @@ trf_vocab_token @@ token < 0 ? "" : @@ token < 0 ? NULL :
pieces left out are none @@ piece_ids @@ trf__give_token @@
    id < 0 ? v->special[TRF_SPECIAL_UNK] : id, id < 0 @@
    id < 0 ? v->special[TRF_SPECIAL_UNK] : id, 0
the map is not stored @@ piece_ids @@ trf__vocab_n_bytes @@ v->stored ? v->n_stored @@
    v->pieces ? v->pieces->model_bytes : v->stored ? v->n_stored
words of WordPiece begin with every token @@ noise @@ trf__begins_word @@
    strncmp(token, "##", 2) != 0 @@ 1
a data set takes any ids @@ piece_ids @@ trf__usual_ids @@ != i) @@ != i && 0)
a character of bytes is cut after its first @@ pieces @@ trf__pieces_decode @@
    if (k > 1) i += (int32_t)k - 1 @@ (void)0
a map that leads nowhere is followed @@ pieces @@ trf__rules_sound @@
    sound = (cell & INT32_MAX) < p->n_replaced @@ (void)0
a map whose cells lead out of it is taken @@ pieces @@ trf__rules_sound @@
    sound = (to | 255) < p->n_rules && @@ sound =
a map's value is what is no value @@ pieces @@ trf__rules_sound @@
    (!(cell >> 8 & 1) || trf__rule_cell(p, to) >> 31) @@ 1
a map without a root is taken @@ pieces @@ trf__rules_sound @@
    !(cell & (1u << 31 | 511)) && cell >> 10 > 0 @@ 1
logits times the temperature @@ generate @@ trf__draw @@
    below / o->temperature @@ below * o->temperature
equals of the last of top_k dropped @@ generate @@ trf__filter @@
    (popped < o->top_k || w[order[0]] == x) @@ popped < o->top_k
top_p of what top_k has dropped too @@ generate @@ trf__filter @@
    total = 0; popped @@ ; popped
min_p drops what is as likely @@ generate @@ trf__filter @@
    x < o->min_p || @@ x <= o->min_p ||
the penalty helps negative logits @@ generate search_rules @@ trf__penalize @@
    x < 0 ? x * penalty : x @@ x
the penalty spares the beginning @@ generate @@ trf__rule_logits @@
    0; o->repetition_penalty @@ s->n_begin; o->repetition_penalty
the penalty spares the start id @@ generate @@ trf__rule_logits @@
    i = 0; o->repetition_penalty @@ i = starts; o->repetition_penalty
sampler: runs one token longer @@ generate @@ trf__rule_logits @@
    trf__ends_with(ids, n, ids + i, m - 1) @@ trf__ends_with(ids, n, ids + i, m)
sampler: a run that ends now is not seen @@ generate @@ trf__rule_logits @@
    i <= n - m @@ i < n - m
sampler: the last token of a sequence alone is banned @@ generate @@ trf__rule_logits @@
    r->ends[i] - 1 - begin @@ 0
sampler: EOS is banned @@ generate @@ trf_sampler_create @@
    TRF__TRY(trf__check_banned_ids(&model->config, &sampling->banned, err)) @@ (void)0
sampler: a session of format 2 keeps another rule @@ generate @@ trf__session_read @@
    rules.no_repeat_ngram = 0 @@ rules.no_repeat_ngram += 0
min_tokens counts the beginning @@ generate @@ trf__draw @@
    answer.n < o->min_tokens @@ n < o->min_tokens
the highest id of the likeliest @@ generate @@ trf__draw @@
    if (w[i] > best) @@ if (w[i] >= best)
random numbers by the answer alone @@ generate @@ trf__draw @@
    (uint32_t)s->n, number @@ (uint32_t)s->answer.n, number
sources at the areas of targets @@ generate @@ trf__line_up_sampled @@
    (int32_t)(*next * g->cache.area) @@ span->key
the rest of a beginning not read @@ generate @@ trf__line_up_sampled @@
    if (span->n_query < todo) break @@ (void)0
a beginning counts as read at its first part @@ generate @@ trf__read_sampled @@
    g->here.self[i].n_key @@ s->n
bytes at the end of an answer never told @@ generate @@ trf__new_text @@
    ended ? n : trf__whole_ids @@ trf__whole_ids
a token whose text failed stays @@ generate @@ trf__append_drawn @@
    { s->n -= !eos; return status; } @@ return status;
a session forgets the first bytes of a character @@ generate @@ trf__sampled_write @@
    trf__whole_ids(g->model->target, s->answer.ids, 0, s->answer.n) @@ s->answer.n
a session forgets that EOS was drawn @@ generate @@ trf_sampler_save @@
    s->answer.ended == TRF_ENDED_EOS @@ 0
max_tokens counts from the loading of a session @@ generate @@ trf__sampled_write @@
    (g, s->n_begin) - s->takes_start; @@ (g, s->n) - s->takes_start;
a refused session leaves its rules @@ generate @@ trf__session_start @@
    if (status != TRF_OK) g->sampling = before @@ (void)before
one token beyond max_length @@ generate @@ trf__sampled_limit @@
    config.max_length - 1 @@ config.max_length
a cancelled beginning can go on @@ generate @@ trf__sampler_start @@
    if (status != TRF_OK) trf__sampler_free(g) @@ (void)0
hits on the GPU @@ cuda_ops cuda @@ trf__gpu_loss_rows @@
    hit[row] = target @@ hit[row % 256] = target
a session's checksum not looked at @@ generate @@ trf__session_read @@
    if (status == TRF_OK) status = trf__file_check_crc(file, err) @@ (void)0
a session's rules not looked at @@ generate @@ trf__session_read @@
    trf__file_fault(trf_sampling_check(&rules, err), err) @@ TRF_OK
a session of any format @@ generate @@ trf__session_read @@
    format < 1 || format > TRF__SESSION @@ 0
copied weights from their first numbers @@ finetune @@ trf_model_copy_weights @@
    q->offset + at, numbers @@ q->offset, numbers
forced prefixes for any kind of model @@ decoding programs @@ trf_translate_prefixed @@
    c->kind != TRF_ENCODER_DECODER @@ 0
texts of a language model @@ decoding programs @@ trf__encode_source @@
    trf__has_source(&model->config) ? model->source : model->target @@ model->source
hooks of a checkpoint's model forgotten @@ store @@ trf__read_training @@
    o->hooks = c->hooks @@ (void)0
sequences planned by a file @@ store @@ trf__read_training @@
    o->sequences = o->sequences < d.sequences ? o->sequences : d.sequences @@ (void)0
all weights begin alike @@ definitions @@ trf__draw_weights @@
    n, p, (uint32_t)p->number @@ n, p, 0
attention to an absent source @@ model @@ trf__attention_layers @@
    trf__has_source(c) ? c->decoder_layers : 0 @@ c->decoder_layers
maps of one sequence for all @@ look @@ trf__attention_maps @@
    a.in.spans += s; @@ (void)s;
maps of one head for all @@ look @@ trf__attention_maps @@
    a.head = h; @@ a.head = 0;
maps of all layers in one place @@ look @@ trf__view_attention @@
    to + layer->is.layer * numbers @@ to
states of all layers in one place @@ look @@ trf__view_state @@
    to + i * numbers @@ to
the state after the last layer without its norm @@ look @@ trf__stack_forward @@
    per_layer, stack->out @@ per_layer, last
a look at the encoder wants a target @@ look @@ trf_look_inside @@
    sides & TRF__SOURCE @@ sides
views beyond their tensors @@ look @@ trf__view_states_check @@
    view->shape[1] == stack->rows @@ 1
maps turned round @@ look @@ trf__view_attention_check @@
    memcmp(view->shape, one.shape, sizeof one.shape) == 0 @@ 1
a memory without its end mark @@ look @@ trf__memory_sources @@
    rows[i] - trf__source_added(c) @@ rows[i]
a memory without rows @@ look @@ trf_decode @@
    memory_lengths[i] < least @@ memory_lengths[i] < least - 1
what nobody saves is saved over weights @@ blocks @@ trf__saved_staged @@
    saved ? trf__stage(context, saved, use) : (trf_real *)context->work.memory @@
        trf__stage(context, saved, use)
probabilities of the first sequence alone @@ blocks @@ trf__probabilities_of @@
    context->spans[i] @@ context->spans[0]
probabilities without their shape @@ blocks @@ trf__probabilities_check @@
    out->shape[1] == spans[0].n_query @@ 1
targets of -2 count nothing @@ blocks @@ trf__targets_check @@
    targets[i] < -1 || targets[i] @@ targets[i]
a part begins with the token before @@ ranks @@ trf_batch_part @@
    2 * before + own @@ 2 * before
a part of a batch has the ordinal of the batch @@ ranks @@ trf_batch_part @@
    batch->ordinal + first @@ batch->ordinal
ids of the first part in all parts @@ ranks @@ trf__some_sequences @@
    some.ids += skipped @@ (void)skipped
rank 0 forgets the rounds before @@ ranks @@ trf__sum_from @@
    t->round > 0 && o->rank == 0 @@ 0
every rank adds the rounds before @@ ranks @@ trf__sum_from @@
    t->round > 0 && o->rank == 0 @@ t->round > 0
a hook that has failed is called again @@ ranks @@ trf__sum_from @@
    o->all_reduce && !t->reduce_failed @@ o->all_reduce
sums are not waited for @@ ranks @@ trf__sum_round @@
    o->all_reduce_end(o->user) != 0 @@ 0
a layer is given away before its norm @@ ranks @@ trf__layer_finished @@
    stack->sublayers[i].is.in.w @@ stack->sublayers[i > 0 ? i - 1 : 0].is.in.w
an empty part is zero @@ ranks @@ trf__accumulate_tile @@
    (trf_real)-0.0 @@ 1
the step of an empty part is the one before @@ ranks @@ trf__empty_part @@
    trf__block_upload(&t->pass, sizeof t->pass.block.now) @@ (void)0
a later batch empties a part @@ ranks @@ trf__empty_part @@
    t->micro == 0 @@ 1
half of a batch is cancelled @@ ranks @@ trf__micro_batch @@
    pass->run.hooks.cancel = NULL @@ (void)0
a wrong batch is refused by one rank @@ ranks @@ trf__check_parts @@
    trf__batch_needs(pass, batch, pass->sides, &need, &wanted, err) @@ TRF_OK
sums in backward can be cancelled @@ ranks @@ trf__issue_training @@
    t->pass->back.first && !t->pass->back.finished @@ t->pass->back.first
the last round is not the sum @@ ranks @@ trf__summed_gradients @@
    trf__rounds(&t->options) - 1 @@ 0
parts of a trainer change @@ ranks @@ trf__same_home @@
    trf__rounds(o) != trf__rounds(&trainer->options) @@ 0
a stage draws the values of its first parameters @@ stages @@ trf__draw_weights @@
    (uint32_t)p->number @@ (uint32_t)i
a stage has the dropout of the first layers @@ stages @@ trf__stack_drops @@
    stack->first_layer * stack->per_layer + i @@ i
a stage forgets what later stages do with the encoder's output @@ stages @@ trf__stack_backward @@
    memory_seen = !pass->projects @@ memory_seen = 0
a stage adds to the tied gradient of another one @@ stages @@ trf__stack_new @@
    (held->projects && c->tying == TRF_TIED_DECODER) @@ c->tying == TRF_TIED_DECODER
a stage keeps the gradients of distances @@ stages @@ trf__sublayer_backward @@
    stack->n_sublayers / stack->per_layer - 1 @@ trf__layers(pass->config, stack->decoder) - 1
a stage without the last layer has its norm @@ stages @@ trf__reach_of @@
    to == layers[stack]; @@ 1;
a stage that only projects has no source embedding @@ stages @@ trf__holds_source_embedding @@
    in->projects && ( @@ 0 && (
micro-batches of a stage have the same masks @@ stages @@ trf_stage_forward @@
    t->sentences += trf__max64(batch->source.count, batch->target.count); @@ (void)0;
micro-batches of a stage replace each other @@ stages @@ trf__slot_borrow @@
    t->micro == 0 @@ 1
a stage clips by its own norm @@ stages @@ trf__update @@
    if (!trf__is_stage(t->model)) @@ if (1)
two stages bring the squares of one matrix @@ stages @@ trf__put_squares @@
    !own->held.embeds[by - 1] @@ 0
a stage keeps the gradient of a tied matrix to itself @@ stages @@ trf__sum_shared @@
    if (!trf__shared_by( @@ if (1 || !trf__shared_by(
a stage does not know which tensor was not finite @@ stages @@ trf__decide_of_stages @@
    (int)squares[0] >= TRF__NOT_FINITE @@ 0
sums of squares lose bits between stages @@ stages @@ trf__exact_put @@
    k < TRF__EXACT @@ k < TRF__EXACT - 1
a stage decides twice @@ stages @@ trf__exchange @@
    run->backend->upload(run, t->clip_result, &before, sizeof before); @@
    before.updates++;
a hook of a stage that failed leaves gradients @@ stages @@ trf__stages_decide @@
    if (status != TRF_OK) trf_trainer_discard_gradients(t); @@ (void)0;
a stage updates with micro-batches in flight @@ stages @@ trf__none_in_flight @@
    trainer->stage->waiting == 0 @@ 1
discarded micro-batches stay in their slots @@ stages @@ trf_trainer_discard_gradients @@
    stage->slots[i].waits = 0 @@ (void)i
half of a micro-batch is cancelled @@ stages @@ trf_stage_backward @@
    pass->run.hooks.cancel = NULL; @@ (void)0;
a stage checks only what it reads @@ stages @@ trf__stage_needs @@
    batch, whole, need @@ batch, pass->sides, need
a seam of any width @@ stages @@ trf__check_seam @@
    pass->config->d_model, err @@ x->shape[1], err
a slot is filled twice @@ stages @@ trf__slot_at @@
    (*slot)->waits == waits @@ 1
the encoder's output has the gradient of its last layer alone @@ stages @@ trf__seam_rows @@
    (out ? !pass->projects : !encoder->embeds) @@ (out ? !pass->projects && decoder->n_sublayers == 0 : !encoder->embeds)
a translator of some layers @@ stages @@ trf__pass_open @@
    if (!o) TRF__TRY(trf__needs_whole(model, err)); @@ (void)0;
a file of some layers @@ stages @@ trf__write_model @@
    trf__needs_whole(model, err) @@ TRF_OK
a checkpoint of a stage forgets which @@ stages @@ trf__metadata_content @@
    if (trf__is_stage(model)) @@ if (0)
a stage of a file with any layers @@ stages @@ trf__read_stage @@
    trf__check_layers(c, *first, *end, err) @@ TRF_OK
a stage of a file is packed @@ stages @@ trf__model_read @@
    if (options->weights != TRF_WEIGHTS_FULL) @@ if (0)
a wish that other sentences look at is lost @@ search_rules @@ trf__beam_gather @@
    trf__is_listed(ids + row * stride, count, id) @@
    trf__is_listed(ids + row * stride, (int32_t)stride - more, id)
a wish counts twice @@ search_rules @@ trf__beam_gather @@
    trf__is_listed(ids + row * stride, count, id) @@ 0
a position table from 0 @@ blocks @@ trf_position_table @@
    p * d, first + p @@ p * d, p
cross-attention counted as self-attention @@ look @@ trf_count_weights @@
    &n.cross_attention @@ &n.decoder_attention
causal attention counted as full @@ look @@ trf__part_flops @@
    part->causal ? rows * (rows + 1) / 2 : rows @@ rows
a norm by RMS that subtracts the mean @@ golden model @@ trf__norm_row @@
    j->rule == TRF_NORM_RMS ? 0 : s @@ s
the gradient of RMS subtracts its average @@ golden model @@ trf__norm_row_gradient @@
    j->rule == TRF_NORM_RMS ? 0 : (trf_real) @@ (trf_real)
biases of q, k and v whatever the configuration says @@ golden look @@ trf__part_of @@
    feed_forward_bias : c->qkv_bias @@ feed_forward_bias : 1
a final norm of the other side @@ look model @@ trf__has_final_norm @@
    alone[decoder] @@ alone[!decoder]
a final norm of an absent side @@ look @@ trf_config_check @@
    if ((c->final_norm == TRF_FINAL_NORM_ENCODER && !source) || @@ if (
beginnings beyond 31 bits @@ generate @@ trf__sampled_reserve @@
    trf__times(n, most) > INT32_MAX @@ 0
files of 64 MiB @@ definitions @@ trf_load_defaults @@
    (uint64_t)64 << 30 @@ (uint64_t)64 << 20
a negative ordinal @@ model @@ trf__check_ordinal @@
    ordinal >= 0 && batch->ordinal @@ ordinal
lengths of 31 bits @@ blocks @@ trf__attention_prepare @@
    *queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX @@ 0
a step of 33 bits @@ blocks @@ trf__dropout_staged @@
    (uint32_t)dropout->step @@ (uint32_t)(dropout->step ^ dropout->step >> 32)
a vocabulary read as large as the file says @@ store @@ trf__read_tokens @@
    if (!whole) most = trf__min64(n, TRF__MAX_TOKEN_BYTES + 1) @@ (void)0
a comma in a number @@ files @@ trf__print_real @@
    if (n == 0 || to[n - 1] != '.') to[n++] = '.' @@ to[n++] = *c
tokens that begin in the same slots stand in one row @@ vocab @@ trf__slot_step @@
    return hash >> 32 | 1 @@ (void)hash; return 1
room for a node is sought through all cells @@ pieces @@ trf__plant @@
    || cell - *from > 4096) @@ )
the length of a normalised text is looked at when memory is there @@ pieces @@ trf__normal_add @@
    TRF__TRY(trf__normal_limit(to->n, n, err)) @@ (void)0
readers take fewer texts than checkpoints have @@ store @@ TRF__FILE_HEADER @@
    TRF__FILE_TEXTS = 131072 @@ TRF__FILE_TEXTS = 65536
the text of unk is taken as it is @@ pieces @@ trf__read_spec @@
    && !trf__is_line @@ && 0 && !trf__is_line
next to no temperature overflows @@ generate @@ trf__draw @@
    below < -800 * o->temperature ? 0 : exp @@ exp
an answer has no room where its text stands @@ decoding programs @@ trf_translate_text @@
    (!status) status @@ (answer && size > 0) answer[0] = 0; if (!status) status
more texts of a caller's than readers take @@ updater @@ trf__texts_check @@
    *n == TRF__META_MOST @@ 0
metadata of any length @@ store @@ trf_model_set_metadata @@
    (texts > TRF__META_BYTES || n > TRF__META_MOST) @@ n > TRF__META_MOST
a duplicate stands nowhere @@ updater files @@ trf__file_unique @@
    : (int64_t)((size_t)(later - (const char *)array) / bytes), @@ : -1,
a window that has moved is not read again @@ generate @@ trf__read_sampled @@
    s->first == first ? g->here.self[i].n_key : 0 @@ g->here.self[i].n_key
a window keeps one too few @@ generate @@ trf__window_first @@
    1 - (window + 1) @@ 2 - (window + 1)
a beginning longer than the window is read from its start @@ generate @@ trf__sampled_write @@
    trf__window_first(s->n, trf__window(g)) @@ 0
tokens of a generator without their probabilities @@ generate @@ trf__append_drawn @@
    each[s->answer.n] = log_probability @@ each[s->answer.n] = 0
unk is drawn @@ generate @@ trf__draw @@
    if (c->unk >= 0 && !o->allow_unk) w[c->unk] = -HUGE_VAL @@ (void)0
unk is chosen @@ special generate @@ trf__banned @@ s->ban_unk ? c->unk : -1 @@ -1
tagged sources are scored with their tag before EOS @@ search_rules @@ trf_translator_create @@
    t->pass.encoder.tagged = search->source_tagged @@ (void)0
tagged sources of a trainer keep their tag before EOS @@ search_rules @@ trf__follow_options @@
    pass->encoder.tagged = o->source_tagged @@ (void)0
tagged sources without a tag @@ search_rules @@ trf__check_tags @@
    if (x->lengths[i] == 0) @@ if (0)
tagged sources of an encoder alone @@ search_rules @@ trf__check_tagged @@
    !tagged || c->kind == TRF_ENCODER_DECODER @@ 1
tagged sources stay tagged after a translation @@ search_rules @@ trf__encode_into @@
    pass->encoder.tagged = before @@ (void)before
search rule: n-grams one longer @@ search_rules @@ trf__rules_row @@
    trf__ends_with(ids, n, ids + i, m - 1) @@ trf__ends_with(ids, n, ids + i, m)
search rule: the last n-gram may repeat @@ search_rules @@ trf__rules_row @@
    i + m <= n @@ i + m < n
search rule: the last id alone decides @@ search_rules @@ trf__rules_row @@
    rules->ends[i] - 1 - begin @@ 0
search rule: a history without the start id @@ search_rules @@ trf__history @@
    first = beam->start >= 0 @@ first = 0
search rule: the penalty favours positive logits @@ search_rules generate @@ trf__penalize @@
    x < 0 ? x * penalty : x / penalty @@ x * penalty
search rule: greedy search penalizes log-probabilities @@ search_rules @@ trf__top_penalize @@
    r->greedy ? z : z - lse @@ z - lse
search rule: penalized ids are lost @@ search_rules @@ trf__top_tile @@
    if (t->ruled) trf__top_penalize(t, row, lse) @@ (void)0
search rule: ids with a rule leave the softmax @@ search_rules @@ trf__top_slice @@
    j->sums[2 * at] = trf__max_of( @@ if (only < 0 && (t->rules.n_alone || t->rules.ids))
    trf__top_rule(&t->rules, row, z, column, columns);
    j->sums[2 * at] = trf__max_of(
search rule: the first id of a slice is not banned @@ search_rules @@ trf__top_rule @@
    if (r->alone[middle] < column) @@ if (r->alone[middle] <= column)
search rule: ids banned alone in any order @@ search_rules @@ trf__list_banned @@
    trf__sort(order, (size_t)n_alone, trf__by_id, NULL) @@ (void)0
search rule: banned tokens count as hidden @@ search_rules @@ trf__ban @@
    t->n_choices -= ids @@ t->n_choices -= 0 * ids
search rule: greedy search goes by probability @@ search_rules @@ trf__beam_gather @@
    take, ruled && greedy, @@ take, 0,
search rule: the penalty changes S of greedy search @@ search_rules @@ trf__beam_gather @@
    ruled && !greedy && forced < 0 @@ ruled && forced < 0
search rule: S without the penalty @@ search_rules @@ trf__beam_gather @@
    p = ruled[at] @@ (void)0
search rule: a free EOS has its price @@ search_rules @@ trf__beam_gather @@
    beam->search.at_limit == TRF_LIMIT_FREE_EOS @@ 0
search rule: no step for a free EOS @@ search_rules @@ trf__forces_eos @@
    search->at_limit == TRF_LIMIT_FREE_EOS @@ 0
search rule: the first token counts in S @@ search_rules @@ trf__round_arrival @@
    arrival->beam.unscored = 1 @@ (void)0
search rule: answers show the first token @@ search_rules @@ trf__hidden_tokens @@
    !trf__has_source(c) || n_prefix == 0 @@ !trf__has_source(c)
search rule: the tag before EOS @@ search_rules @@ trf__fill_rows @@
    stack->tagged && stack->ends @@ 0
search rule: tags are not counted @@ search_rules @@ trf__search_prepare @@
    trf__tags(&t->search) @@ 0
search rule: EOS is banned @@ search_rules @@ trf__check_banned_ids @@
    x->lengths[i] == 1 && @@ 0 &&
search rule: an unknown id is banned @@ search_rules @@ trf__check_listed_ids @@
    x->ids[at] >= c->target_vocab @@ 0
phrases: groups in turns from the fewest tokens met @@ search_rules @@ trf__beam_share @@
    g = beam->phrases.total; g >= 0 && given < places; g-- @@
    g = 0; g <= beam->phrases.total && given < places; g++
phrases: one that breaks off begins anew @@ search_rules @@ trf__phrase_next @@
    while (met > 0 && phrase[met] != id) met = p->back[begin + met - 1] @@
    if (phrase[met] != id) met = 0
phrases: no token is wished @@ search_rules @@ trf__wishes_row @@
    begin + met[k] < p->ends[k] @@ 0
phrases: answers in the order of scores alone @@ search_rules @@ trf__beam_ranks_before @@
    if (a->met != b->met) return a->met > b->met @@ (void)0
phrases: EOS comes without them @@ search_rules @@ trf__beam_gather @@
    trf__beam_met(beam, row, -1) == beam->phrases.total @@ 1
phrases: a prompt has them @@ search_rules @@ trf__round_arrival @@
    arrival->beam.hidden = trf__hidden_tokens( @@ arrival->beam.hidden = 0 * trf__hidden_tokens(
phrases: a special id is one @@ search_rules @@ trf__check_phrases @@
    id == c->pad || id == c->bos || id == c->eos @@ 0
search rule: the first token counts in no length @@ search_rules @@ trf__round_arrival @@
    arrival->beam.uncounted = 0 @@ (void)0
search rule: a prompt counts in the length @@ search search_rules @@ trf__beam_score @@
    length - beam->uncounted @@ length
search rule: the decoder starts as ever @@ search_rules @@ trf__round_arrival @@
    s->start >= 0 ? s->start @@ s->start >= INT32_MAX ? s->start
parts of a batch: the same ids again @@ look @@ trf__some_sequences @@
    some.ids += skipped @@ (void)0
parts of a batch: the same lengths again @@ look @@ trf__some_sequences @@
    some.lengths += first @@ (void)0
parts of a batch: a long sequence has none @@ look @@ trf__pass_part @@
    n > 0 && own > most - rows @@ own > most - rows
parts of a batch: the same slots again @@ look @@ trf__encode_into @@
    slots += pass->encoder.rows @@ (void)0
parts of a batch: states over those before @@ look @@ trf_encode @@
    at += pass->encoder.rows @@ at += 0 * pass->encoder.rows
parts of a batch: the same sums again @@ look @@ trf_score @@
    log_probabilities += pass->n_sentences @@ (void)0
parts of a batch: the labels of the first sequences @@ look @@ trf__sequence_probabilities @@
    out->data + at * head->out @@ out->data
bare prompts: none takes the place of the start id @@ generate @@ trf__takes_start @@
    c->bare_prompts && n_prompt > 0 @@ 0
bare prompts: an empty one has no start id @@ generate @@ trf__takes_start @@
    c->bare_prompts && n_prompt > 0 @@ c->bare_prompts
bare prompts: a start id of the search takes the first id's place @@ generate @@ trf__prompt_starts @@
    s->start < 0 && trf__takes_start @@ trf__takes_start
bare prompts: the first id is read twice by a search @@ generate @@ trf__round_arrival @@
    ? *prefix++ : s->start @@ ? *prefix : s->start
bare prompts: the first id is read twice by a sampler @@ generate @@ trf__sampled_write @@
    target->ids + at + s->takes_start @@ target->ids + at
bare prompts: a sampler goes on to max_length @@ generate @@ trf__sampled_write @@
    trf__sampled_limit(g, s->n_begin) - s->takes_start @@ trf__sampled_limit(g, s->n_begin)
bare prompts: a search goes on to max_length @@ generate @@ trf__answer_limit @@
    c->max_length - 1 - trf__prompt_starts(c, s, n_prefix) @@ c->max_length - 1
bare prompts: the rules do not know the first id @@ generate @@ trf__sampled_write @@
    s->ids[-1] = s->start @@ (void)0
a start id is lost when the lists grow @@ generate @@ trf__sampled_grow @@
    to[-1] = s->start @@ (void)0
bare prompts: a session forgets the first id @@ generate @@ trf_sampler_save @@
    s->n_begin + s->takes_start @@ s->n_begin
search rule: memory without the lists of rows @@ memory @@ trf_translator_memory @@
    rules = trf__rules_of(search) @@ TRF__ZERO(rules); rules.penalty = 1
tokens of an answer with the next one's probability @@ search @@ trf__beam_finish @@
    beam->own[node]; @@ beam->own[(size_t)beam->search.beam * (size_t)(best->n - t) + (size_t)row];
EOS of an answer without its probability @@ search @@ trf__beam_finish @@
    own[best->n] = best->own @@ own[best->n] = 0
memory beyond the buffer is written @@ store files @@ trf__out_fits @@
    if (bytes <= to->size) return @@ return
memory told too small @@ store files @@ trf__to_memory @@
    to->size = size; @@ to->size = size / 2;
halves round up @@ store files @@ trf__bits_of_16 @@
    rest > middle || (rest == middle && (kept & 1)) @@ rest >= middle
16 bits are cut in files @@ store files @@ trf__bits_of_16 @@
    kept += rest > middle || (rest == middle && (kept & 1)) @@ (void)rest; (void)middle
the smallest of 16 bits are 0 @@ store files @@ trf__bits_of_16 @@
    (shift > 53) return @@ (shift > 52) return
what 16 bits cannot hold is infinite @@ store files @@ trf__chunk_of_16_bits @@
    (bits & infinite) == infinite && trf__is_finite((double)from[i]) @@ 0
a model wider than its heads @@ learn @@ trf__recipe_model @@
    while (c->d_model % c->n_heads) c->n_heads--; @@ (void)0;
sequences beyond the recipe's model @@ learn @@ trf__recipe_model @@
    if (a->longest >= c->max_length) c->max_length = a->longest + 1 @@ (void)0
a recipe smooths language models @@ learn @@ trf__recipe_training @@
    a->kind == TRF_ENCODER_DECODER ? 0.1 : 0 @@ 0.1
a warm-up longer than the updates that are given @@ learn @@ trf__recipe_training @@
    a->updates ? (double)a->updates / 8 : 1000 @@ 1000
updates that are given end earlier @@ learn @@ trf_recipe_find @@
    recipe->learning.patience = 0 @@ (void)0
labels are judged by the loss @@ learn @@ trf_recipe_find @@
    TRF_METRIC_ACCURACY @@ TRF_METRIC_LOSS
a symbol has as few updates as a word @@ learn @@ trf_recipe_find @@
    (trf__is_language(stats) ? 100 : 800) @@ 100
unknown words are looked for among known ones @@ learn @@ trf__count_words @@
    if (trf__is_sample(line)) continue @@ (void)0
any number of unknown words are words @@ learn @@ trf__tokens_for @@
    0.02 * (double)w @@ 2 * (double)w
short lines are cut into subwords @@ learn @@ trf__tokens_for @@
    || (double)w->characters < 24 * (double)lines) @@ )
names of one word are cut into subwords @@ learn @@ trf__tokens_for @@
    if ((double)w->all < 2 * (double)lines || @@ if (
subwords where nothing makes them @@ learn @@ trf__choose_kinds @@
    t[side] == TRF_TOKENS_SUBWORDS @@ 0
a vocabulary each for the same words @@ learn @@ trf__choose_sizes @@
    shared >= 0.25 * w @@ shared >= 2.5 * w
one vocabulary for strange words @@ learn @@ trf__choose_sizes @@
    0.25 * w[1].distinct @@ 0
as many subwords as words @@ learn @@ trf__subwords_for @@
    (double)words / 25 @@ (double)words
pairs are held out by the comb @@ learn @@ trf__pick @@
    size_t i = p->order @@ size_t i = 0
the comb is drawn @@ learn @@ trf_hold_out @@
    if (rule == TRF_HOLD_OUT_EVERY_KTH) p.order = NULL @@ (void)0
a source is learned from and held out @@ learn @@ trf__pick @@
    if (!held[k] && @@ if (0 &&
a frequent sentence is held out whole @@ learn @@ trf__pick @@
    trf__count_equal(p->sorted, p->n, p->hashes[i]) <= 4 @@ 1
three times too many are held out @@ learn @@ trf__pick_some @@
    || (picks == size && count > size))) { @@ )) {
nothing is left to learn from @@ learn @@ trf__pick_some @@
    (count == p->n || (picks == size && count > size)) @@ picks == size && count > size
all that may be held out is sought for ever @@ learn @@ trf__pick_some @@
    while (picks > 1 && size < p->n && @@ while (picks > 1 &&
an average forgets that it begins @@ learn @@ trf_ema_update @@
    (first > ema->share ? first : ema->share) @@ ema->share
an average of the first weights alone @@ learn ops @@ trf__average_tile @@
    trf__fma(share, trf__sub(from, to), to) @@ to
a GPU's average goes the other way @@ cuda_ops @@ trf__gpu_average @@
    a.from[i] - a.to[i] @@ a.to[i] - a.from[i]
an average applied twice is the trainer's @@ learn @@ trf_ema_apply @@
    if (ema->applied) return TRF_OK @@ (void)0
an average that was applied stays @@ learn @@ trf_ema_restore @@
    trf__weights_copy(t, t->model->weights, t->raw) @@ (void)0
no score is better than a number @@ learn @@ trf__improves @@
    return b != b ? a == a @@ return b != b ? 0
an equal score is better @@ learn @@ trf__improves @@
    (metric, a) > trf__worth @@ (metric, a) >= trf__worth
a lower accuracy is better @@ learn @@ trf__worth @@
    metric >= TRF_METRIC_ACCURACY @@ metric > TRF_METRIC_CUSTOM
worse than no answer is worse still @@ learn @@ trf__worth @@
    metric == TRF_METRIC_ERROR_RATE && score > 100 ? -100 : -score; @@ -score;
what learns from nothing is given up @@ learn @@ trf_early_stopping_add @@
    improves || (best && hopeless) @@ improves
of equal scores the first @@ learn @@ trf_is_better @@
    (a_loss < b_loss || (b_loss != b_loss && a_loss == a_loss)) @@ 0
what is perfect goes on @@ learn @@ trf_early_stopping_left @@
    patience = 3; @@ (void)0;
a corpus is judged by its last batch @@ learn @@ trf__sum_report @@
    nll += r->nll * n @@ nll = r->nll * n
every batch of held-out pairs counts the same @@ learn @@ trf__sum_report @@
    (r->loss - r->sequence_loss) * n @@ (r->loss - r->sequence_loss)
every batch of held-out labels of sequences counts the same @@ heads @@ trf__sum_report @@
    r->sequence_loss * m @@ r->sequence_loss
held-out labels of sequences are not in the loss @@ heads @@ trf_evaluate_all @@
    sum.loss += sum.sequence_loss; @@ (void)0;
the loss of a step is that of its tokens @@ golden heads @@ trf__report_means @@
    sums->loss / n + report->sequence_loss @@ sums->loss / n
held-out pairs are the first ones again @@ learn @@ trf__cut_pairs @@
    ids + used[side] @@ ids
an unknown token is right @@ learn @@ trf__edits @@
    (a[i] != b[j - 1] || a[i] == unk) @@ (a[i] != b[j - 1]); (void)unk
edits beside the first target of several @@ learn @@ trf__add_edits @@
    edits > fewest || (edits == fewest && length <= longest) @@ longest > 0
of equally near targets the shortest @@ learn @@ trf__add_edits @@
    length <= longest @@ longest > 0 && length >= longest
every pair is a source of its own @@ learn @@ trf__answer_some @@
    if (length == 0) @@ i = first + 1; if (length == 0)
the first weights that were judged are the best @@ learn @@ trf__learn_judge @@
    if (p.is_best && @@ if (p.is_best && !l->has_best &&
the last weights are left @@ learn @@ trf__learn_leave @@
    l->has_best ? t->best : @@ 0 ? t->best :
a cancelled training leaves its last weights @@ learn @@ trf_learn @@
    if (l.has_best) (void)trf__learn_leave(&l, NULL) @@ (void)0
training goes on from the average @@ learn @@ trf__learn_validate @@
    l->ema ? trf_ema_restore(l->ema, status == TRF_OK ? err : NULL) : TRF_OK @@ TRF_OK
the average is not judged @@ learn @@ trf__learn_validate @@
    if (l->ema) TRF__TRY(trf_ema_apply(l->ema, err)) @@ (void)0
without validation no average is left @@ learn @@ trf__learn_leave @@
    l->ema ? t->average : NULL @@ NULL
skipped updates in all end it @@ learn @@ trf__learn_update @@
    in_a_row = report->skipped ? l->in_a_row + 1 : 0 @@ in_a_row += report->skipped
skipped updates never end it @@ learn @@ trf__learn_is_lost @@
    l->in_a_row < TRF__MOST_SKIPPED @@ 1
the rest of an epoch is not learned from @@ learn @@ trf__learn_batches @@
    if (status == TRF_E_END && i > 0) break @@ (void)0
one batch an update @@ learn @@ trf__learn_batches @@
    i < l->o->accumulate @@ i < 1
seconds never end it @@ learn @@ trf__learn_is_over @@
    if (time_is_up) @@ if (0)
what has not changed is judged @@ learn @@ trf__learnt_nothing @@
    l->report->updates && !l->trainer->learning.learnt @@ 0
gradients of a cancelled update stay @@ learn @@ trf__learn_update @@
    if (l->trainer->micro) trf_trainer_discard_gradients(l->trainer) @@ (void)0
a cancelled update's batches are lost @@ learn @@ trf__learn_update @@
    if (status == TRF_E_CANCELLED) @@ if (0)
a resumed run begins its validations again @@ learn @@ trf__learn_begin @@
    if (!l->o->resume) @@ if (1)
a resumed run begins its average again @@ learn @@ trf__learn_begin @@
    t->average_read = t->average != NULL @@ (void)0
a run goes on from its best weights @@ learn @@ trf__learn_begin @@
    if (t->left) @@ if (0)
a checkpoint has the best weights in place of the last @@ learn @@ trf__checkpoint_write @@
    trainer->left ? trainer->raw : @@ 0 ? trainer->raw :
a checkpoint without an average @@ learn @@ trf__read_learning @@
    if (!trf__has_companion(file, model, c)) continue @@ continue
the hook's error is that of the run @@ learn @@ trf_learn @@
    if (err) *err = said @@ (void)0
each rank stops by itself @@ ranks @@ trf__learn_agree @@
    trf__agree(l, numbers, 3) @@ (void)0
each rank has its own clock @@ ranks @@ trf__learn_check @@
    l->trainer->options.n_ranks > 1 @@ 0
an end that nothing brings is waited for @@ learn @@ trf__learn_check @@
    l->corpus->options.epochs != TRF_ENDLESS @@ 1
a warm-up beyond the end goes without saying @@ learn @@ trf_learn @@
    if (!l.o->resume) trf__warn_of_plan(trainer, l.o->updates) @@ (void)0
noise for the others only @@ learn @@ trf__learn_batch @@
    status == TRF_OK && l->o->noise @@ 0
a file half read stays @@ learn @@ trf_dataset_read @@
    data->texts[i].count = before[i].count @@ (void)0
half a pair stays @@ learn @@ trf__dataset_append @@
    d->texts[0].used = d->texts[0].starts[--d->texts[0].count] @@ (void)0
line ends of two bytes are text @@ learn @@ trf__next_line @@
    if (*n && line[*n - 1] == '\r') --*n @@ (void)0
a NUL in a line of data @@ learn @@ trf__line_fault @@
    memchr(line, 0, n) @@ 0
two tabs in a line of data @@ learn @@ trf__read_pairs @@
    tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - line[0]) - 1) @@ tab
held-out lines are learned from @@ learn @@ trf__encode_lines @@
    i < s->train ? learn : d->held @@ learn
a text without its end @@ learn @@ trf__encode_line @@
    trf__ids_add(ids, &eos, 1, hooks, err) @@ TRF_OK; (void)eos
what is left of a text is dropped @@ learn @@ trf__encode_pair @@
    at = 0; at < ids @@ at = 0; at + TRF__LONGEST_TEXT <= ids
a label only held out @@ learn @@ trf__dataset_hold_out @@
    if (o->kind >= TRF_DATA_LABELLED) TRF__TRY(trf__labels_keep(d, s, &count, err)) @@ (void)0
every token of a word has its label @@ learn @@ trf__encode_tagged @@
    k == blank ? number : -1 @@ number
labels for some of the words @@ learn @@ trf__encode_tagged @@
    if (more[0] || more[1]) ids[0].n = ids[1].n = 0 @@ (void)0
a data set that failed keeps its parts @@ learn @@ trf_dataset_finish @@
    { trf__dataset_clear(data); return status; } @@ return status;
a data set's seed is always 1 @@ learn @@ trf__dataset_recipe @@
    r->config.seed = r->training.seed = r->corpus.seed = d->options.seed @@ (void)d
a token file's label -1 becomes an id @@ tokens @@ trf__token_ids @@
    id == 0xFFFF ? -1 : id @@ id
negative ids of a token file @@ tokens @@ trf__token_ids @@
    lowest >= least @@ lowest >= -1
a damaged pair of a token file @@ tokens @@ trf__token_record @@
    trf__from_little(record, 4) != trf__token_crc(form, ids, bytes) @@
    ((void)bytes, 0)
a damaged block of a token file @@ tokens @@ trf__token_top @@
    !trf__token_sealed(form, r->top, bytes) @@ 0
blocks of a token file in another order @@ tokens @@ trf__token_top @@
    trf__from_little(r->top + 4, 8) != (uint64_t)facts->pairs @@ 0
records of a token file by another size @@ tokens @@ trf__token_top @@
    trf__from_little(r->top + 12, 8) != (uint64_t)records @@ 0
a token file with a pair too long @@ tokens @@ trf__token_top @@
    source > form->max_length || target > form->max_length @@ source > form->max_length
a damaged head of a token file @@ tokens @@ trf__token_open @@
    !trf__token_sealed(form, form->head, TRF__TOKEN_HEAD - 4) @@ 0
a damaged end of a token file @@ tokens @@ trf__token_end @@
    || !trf__token_sealed(&r->form, end, TRF__TOKEN_END - 4) @@
    || 0
a token file with more pairs than room @@ tokens @@ trf__token_end @@
    facts->pairs > r->bytes / (2 * r->form.length_bytes + 4) @@ 0
a token file without its last block @@ tokens @@ trf__token_index @@
    facts->pairs != all.pairs || @@
    0 ||
a token file of another vocabulary @@ tokens @@ trf__token_vocab @@
    stored == trf__vocab_fingerprint(vocab) @@ 1
characters and words of a token file are alike @@ tokens @@ trf__vocab_fingerprint @@
    hash = trf__hash_add(hash, (uint64_t)v->kind) @@ (void)0
a token file with pairs too long for the corpus @@ tokens @@ trf__corpus_attach @@
    facts->longest > c->options.max_length @@ 0
a token file's second block is read from the first @@ tokens @@ trf__token_position @@
    (pair - r->blocks[low].first) * 4 @@ pair * 4
a resumed token file counts a damaged block @@ tokens @@ trf__token_resume @@
    f->form.facts = facts @@ (void)0
a resumed token file has another fingerprint @@ tokens @@ trf__token_resume @@
    f->form.hash = hash @@ f->form.hash = hash + 1
a token file is resumed with other options @@ tokens @@ trf__token_resume @@
    memcmp(r->form.head, f->form.head, TRF__TOKEN_HEAD) @@ 0
a token file with bytes behind its end @@ tokens @@ trf__token_last @@
    there.size == (uint64_t)f->at @@ 1
two writers of a token file @@ tokens @@ trf__token_begin @@
    TRF__TRY(trf__token_hold(saving, -1, err)) @@ (void)0
a token file that another process writes @@ tokens @@ trf__token_hold @@
    errno != EAGAIN @@ 1
a token file goes on after a failure @@ tokens @@ trf__token_write @@
    f->failed = 1 @@ (void)0
an id of two bytes becomes a label @@ tokens @@ trf__token_narrow @@
    ids[i] >= 0xFFFF @@ ids[i] > 0xFFFF
blocks of a token file without a limit of bytes @@ tokens @@ trf__block_has_room @@
    bytes < TRF__BLOCK_BYTES @@ 1
a resumed token file keeps a block that has room @@ tokens @@ trf__token_resume @@
    !status && trf__block_has_room @@ 0 && trf__block_has_room
a part's ordinal may overflow @@ ranks @@ trf_batch_part @@
    batch->ordinal > INT64_MAX - pairs @@ 0
unknown tokens of a token file are not counted @@ tokens @@ trf__token_count @@
    source[i] == f->unknown[0] @@ 0
labels of a token file count as unknown @@ tokens @@ trf__token_count @@
    target[i] == f->unknown[1] && target[i] >= 0 @@ target[i] == f->unknown[1]
blocks are not shuffled @@ corpus @@ trf__corpus_divide @@
    trf__shuffle(c->blocks, c->n_blocks, @@ trf__shuffle(c->blocks, 0,
a pool has its blocks in the order of their draw @@ corpus @@ trf__corpus_divide @@
    + c->n_in_pool[c->pool_of[i]]++] @@ + c->n_in_pool[c->pool_of[i]]++ % 1]
all pools are shuffled alike @@ corpus @@ trf__corpus_plan_pool @@
    TRF__SHUFFLE_POOL, (uint64_t)c->pool @@ TRF__SHUFFLE_POOL, 0
an epoch ends with its first pool @@ corpus @@ trf_corpus_next @@
    && corpus->pool + 1 == corpus->n_pools @@ && 1
the batches of a pool are numbered anew @@ corpus @@ trf__corpus_plan_pool @@
    c->first_batch += c->n_batches; @@ c->first_batch = 0;
an earlier pool is not found again @@ corpus @@ trf__corpus_plan @@
    batch < c->first_batch @@ 0
an epoch has the batches of the planned pools @@ corpus @@ trf_corpus_batches @@
    INT64_MAX @@ 0
the number of batches is that of another epoch @@ corpus @@ trf_corpus_batches @@
    corpus->counted != corpus->epoch @@ corpus->counted < 0
a pool stays loaded @@ tokens @@ trf__corpus_plan_pool @@
    if (c->file) trf__token_unload @@ if (0) trf__token_unload
a pool that could not be read counts as loaded @@ tokens @@ trf__token_load @@
    if (!status) r->n_pieces = n; @@ r->n_pieces = n;
a pair is taken from the pool's first block @@ tokens @@ trf__token_loaded @@
    r->pieces[middle].at <= at @@ r->pieces[middle].at < 0
pools do not change the fingerprint @@ corpus @@ trf__corpus_fingerprint @@
    8 * (int64_t)o->pool @@ 0
a batch goes on to the end of the epoch @@ corpus tokens @@ trf__corpus_gather @@
    (i == begin || c->order[i] >= 0) @@ (i - begin < 2 || c->order[i] >= 0)
an epoch has one batch more @@ corpus tokens @@ trf_corpus_batches @@
    corpus->n_counted; @@ corpus->n_counted + 1;
END
awk '/^[ \t]/ { sub(/^[ \t]+/, ""); row = row " " $0; next }
     { if (row) print row; row = $0 }
     END { print row }' "$work/rows" >"$work/table"

if [ "${1:-}" = --check ]; then
    status=0
    for suite in $(awk -F ' @@ ' '{ print $2 }' "$work/table" | tr ' ' '\n' | sort -u); do
        [ -f "$root/tests/test_$suite.c" ] || { echo "no suite: tests/test_$suite.c"; status=1; }
    done
    awk -f "$root/tests/mutate.awk" "$root/transformer.h" "$work/table" || status=1
    exit $status
fi

# --- which faults ---------------------------------------------------------------------------------
if [ $# -gt 0 ]; then
    : >"$work/chosen"
    for word in "$@"; do
        awk -F ' @@ ' -v word="$word" 'index($1, word)' "$work/table" >>"$work/chosen"
    done
    sort -u "$work/chosen" >"$work/table"
fi
faults=$(wc -l <"$work/table")
[ "$faults" -gt 0 ] || { echo "no such fault"; exit 1; }

doubles=$(sed -n 's/^DOUBLES.*double_test_%,\([a-z ]*\)).*/\1/p' "$root/Makefile")
for tree in base 1 2; do
    mkdir -p "$work/$tree" && cd "$root" &&
    cp -r transformer.h Makefile tests examples tools "$work/$tree" || exit 1
done
mkdir "$work/sound"
echo '.*' >"$work/any"

# compile TREE FLAGS LOG NAMES
compile()
(
    cd "$work/$1" && log=$3 flags="${CFLAGS:--O1 -march=native} $2" && shift 3 &&
    make -s -k BUILD=build CFLAGS="$flags" CPPFLAGS="$CPPFLAGS" "$@" >"$log" 2>&1
)

# The base has all faults of functions. Those that do not compile leave it, until these compile: C,
# C in double, C++.
alone=' '
while ALONE=$alone awk -f "$root/tests/mutate.awk" "$root/transformer.h" "$work/table" \
          >"$work/base/transformer.h"; do
    compile base -fsyntax-only "$work/errors" \
        build/test_ops build/double_test_ops build/gpu.o && break
    more=$(awk -F : 'NR == FNR { if ($1 ~ /transformer\.h$/ && /error|in expansion|required/)
                                     wrong[$2]; next }
                     /^else \{/ { fault = 0 }
                     match($0, /trf__fault == [0-9]+/) { fault = substr($0, RSTART + 14) + 0 }
                     FNR in wrong && fault { print fault }
                    ' "$work/errors" "$work/base/transformer.h")
    [ -n "$more" ] || break
    alone="$alone$(echo $more) "
done

# The names of the tests that failed by now.
failed() { sed -n 's/^\[  FAILED  \] \([a-z_A-Z0-9]*\)$/\1/p' "$1"; }

# run PROGRAM FAULT TREE LOG SECONDS UNCOUNTED: 0 it ran to its end, or until a test failed whose
# name no line of UNCOUNTED matches, and `by` is that name; 1 it crashed or tested nothing; 3 it was
# stopped after SECONDS. `timeout` gives the program a group of its own, and ends its children too.
run()
{
    limit="timeout $5"
    command -v timeout >/dev/null || limit=
    (cd "$work/$3" && export TRF_FAULT="$2" && exec $limit "$1") >"$4" 2>&1 &
    program=$! by=
    {
        while [ -z "$by" ] && kill -0 $program; do
            sleep 0.5 || sleep 1
            by=$(failed "$4" | grep -vx -f "$6" | head -n 1)
            [ -z "$by" ] && [ -d "$work" ] || kill $program
        done
        wait $program
        code=$? program=
    } 2>/dev/null                       # the shell tells what it killed
    [ -z "$by" ] || return 0
    [ $code -ne 124 ] || return 3
    grep -q '^\[  PASSED  \] [1-9]' "$4"
}

# Builds a suite in the base and runs it without any fault, once; the other worker waits. Tests that
# fail there do not count.
sound()
{
    if mkdir "$work/sound/$1" 2>/dev/null; then
        log=$work/sound/$1.log answer=no
        until mkdir "$work/making" 2>/dev/null; do sleep 1; done    # suites share build/gpu.o
        compile base "" "$log" "build/$1" && answer=yes
        rmdir "$work/making"
        began=$(date +%s)
        [ $answer = no ] || run "$work/base/build/$1" 0 base "$log" 1800 "$work/any" ||
            answer=no
        echo $(($(date +%s) - began)) >"$work/sound/$1.seconds"
        failed "$log" | sort -u >"$log.failed"
        failing=$(cat "$log.failed")
        if [ $answer = no ]; then echo "        $1 does not run without a fault: it does not count"
        elif [ -n "$failing" ]; then echo "        $1 fails without a fault, uncounted:" $failing
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

# look FAULT TREE: one line about one fault
look()
{
    line=$(sed -n "$1p" "$work/table")
    name=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $1 }')
    first=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $2 }')
    PLACE=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $3 }')
    TEXT=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $4 }')
    BECOMES=$(printf '%s\n' "$line" | awk -F ' @@ ' '{ print $5 }')
    export PLACE TEXT BECOMES
    if grep -q "trf__fault == $1)" "$work/base/transformer.h"; then programs=base
    elif awk -f "$root/tests/mutate.awk" "$root/transformer.h" >"$work/$2/transformer.h"; then
        programs=$2
    else
        echo "ERROR     $name: $PLACE does not have its text exactly once"
        return 1
    fi
    for suite in $(suites "$first" | awk '!seen[$0]++'); do
        [ -f "$root/tests/${suite#double_}.c" ] || continue
        sound "$suite" || continue
        seconds=$((60 + 10 * $(cat "$work/sound/$suite.seconds")))
        if [ $programs != base ] && ! compile "$2" "" "$work/$2.log" "build/$suite"; then
            echo "ERROR     $name: $(grep -m 1 error "$work/$2.log" | cut -c1-150)"
            return 1
        fi
        run "$work/$programs/build/$suite" "$1" "$2" "$work/$2.log" $seconds \
            "$work/sound/$suite.log.failed"
        case $? in
        0)
            [ -n "$by" ] || continue
            echo "killed    $name: $suite ($by)"
            return 0 ;;
        1)
            echo "killed    $name: $suite (it crashed)"
            return 0 ;;
        *)
            echo "killed    $name: $suite (stopped after $seconds s)"
            return 0 ;;
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
