/* SentencePiece models made piece by piece, and texts for them. Include it after checks.h. */
#ifndef MADE_PIECES_H
#define MADE_PIECES_H

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
typedef struct message { unsigned char bytes[1 << 17]; size_t n; } message;

static void put_number(message *m, uint64_t value)
{
    for (; value > 127; value >>= 7) m->bytes[m->n++] = (unsigned char)(value | 128);
    m->bytes[m->n++] = (unsigned char)value;
}
static void put_flag(message *m, int field, uint64_t value)
{
    put_number(m, (uint64_t)field * 8);
    put_number(m, value);
}
static void put_bytes(message *m, int field, const void *bytes, size_t n)
{
    put_number(m, (uint64_t)field * 8 + 2);
    put_number(m, n);
    assert_true(m->n + n < sizeof m->bytes);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}
static void put_piece_of(message *m, const char *text, size_t n, float score, int type)
{
    static message piece;
    uint32_t bits;
    int i;
    memcpy(&bits, &score, 4);
    piece.n = 0;
    put_bytes(&piece, 1, text, n);
    put_number(&piece, 2 * 8 + 5);
    for (i = 0; i < 4; i++) piece.bytes[piece.n++] = (unsigned char)(bits >> 8 * i);
    if (type != NORMAL) put_flag(&piece, 3, (uint64_t)type);
    put_bytes(m, 1, piece.bytes, piece.n);
}
static void put_piece(message *m, const char *text, float score, int type)
{
    put_piece_of(m, text, strlen(text), score, type);
}

/* A map as darts-clone would have it, each node with a block of 256 cells of its own: block 1 for
   cell 0, the root. */
typedef struct rule { const char *from, *to; } rule;
static size_t put_map(unsigned char *to, const rule *rules, int n)
{
    static uint32_t cells[64 * 256];
    static char texts[1024];
    uint32_t blocks = 2, place[64];
    size_t n_texts = 0, i;
    int r;
    memset(cells, 0, sizeof cells);
    place[1] = 0;                       /* cell of block b's node */
    cells[0] = 256 << 10;
    for (r = 0; r < n; r++) {
        uint32_t block = 1;
        for (i = 0; rules[r].from[i]; i++) {
            unsigned char label = (unsigned char)rules[r].from[i];
            uint32_t cell = block * 256 ^ label, child;
            for (child = 1; child < blocks && place[child] != cell; child++) { }
            assert_true(child < 64);
            if (child == blocks) {
                place[blocks] = cell;
                cells[cell] |= (cell ^ blocks * 256) << 10 | label;
                blocks++;
            }
            block = child;
        }
        cells[place[block]] |= 1u << 8;
        cells[block * 256] |= 1u << 31 | (uint32_t)n_texts;
        strcpy(texts + n_texts, rules[r].to);
        n_texts += strlen(rules[r].to) + 1;
    }
    for (i = 0; i < 4; i++) to[i] = (unsigned char)(blocks * 1024 >> 8 * i);
    for (i = 0; i < blocks * 1024; i++) to[4 + i] = (unsigned char)(cells[i / 4] >> 8 * (i % 4));
    memcpy(to + 4 + blocks * 1024, texts, n_texts);
    return 4 + blocks * 1024 + n_texts;
}

#define K16 "kkkkkkkkkkkkkkkk"
static const char ks[] = K16 K16 "k";
static const rule seven_rules[] = {{"\t", " "},
                                   {"\xC2\xA0", " "},
                                   {"\xEF\xAC\x81", "fi"},
                                   {"\xEF\xBC\xA1", "A"},
                                   {"\xEF\xBC\xA1\xCC\x88", "\xC3\x84"},
                                   {"\xE2\x80\x8B", ""},
                                   {"\xE2\x80\xA6", ". . "}};
enum { RULES = sizeof seven_rules / sizeof *seven_rules };

/* map: 1, the seven rules; 2, and 33 for as many k, the last of which is one too many. odd: the
   other pieces. */
typedef struct options { int type, fallback, suffix, dummy, extra, escape, map, odd; } options;
static void put_options(message *m, options o)
{
    static message inner;
    static unsigned char map[80000];
    rule rules[RULES + 33];
    int i;
    memcpy(rules, seven_rules, sizeof seven_rules);
    for (i = 0; i < 33; i++) {
        rules[RULES + i].from = ks + i;
        rules[RULES + i].to = i ? "abc" : "b";
    }
    inner.n = 0;
    put_flag(&inner, 3, (uint64_t)o.type);
    put_flag(&inner, 24, (uint64_t)o.suffix);
    put_flag(&inner, 35, (uint64_t)o.fallback);
    put_bytes(m, 2, inner.bytes, inner.n);
    inner.n = 0;
    if (o.map) put_bytes(&inner, 2, map, put_map(map, rules, o.map == 1 ? RULES : RULES + 33));
    put_flag(&inner, 3, (uint64_t)o.dummy);
    put_flag(&inner, 4, (uint64_t)o.extra);
    put_flag(&inner, 5, (uint64_t)o.escape);
    put_bytes(m, 3, inner.bytes, inner.n);
}

/* Pieces of a small language; scores from a fixed row of numbers. */
static const char *const parts[] = {"\xE2\x96\x81",
                                    "a",
                                    "b",
                                    "c",
                                    "ab",
                                    "bc",
                                    "abc",
                                    "ca",
                                    "\xE2\x96\x81"
                                    "a",
                                    "\xE2\x96\x81"
                                    "ab",
                                    "aa",
                                    "aaa",
                                    "bb",
                                    "fi",
                                    "f",
                                    "i",
                                    "\xC3\xA4",
                                    "A",
                                    "\xC3\x84",
                                    ".",
                                    "\xE2\x96\x81.",
                                    "cab",
                                    "bca",
                                    "\xE2\x96\x81\xE2\x96\x81",
                                    "aab",
                                    "caab",
                                    "<x>",
                                    "{u}",
                                    "{uu}"};
enum { PARTS = sizeof parts / sizeof *parts };

/* Pieces whose scores are near each other: a user-defined one counts a tenth a byte but one; sums
   beyond 100,000 begin anew; -0 is below 0. One that is unused or for control is no text's. */
typedef struct odd_part { const char *text; float score; int type; } odd_part;
static const odd_part odd_parts[] = {
    {"a", 0, NORMAL},        {"b", 0, NORMAL},          {"c", 0, NORMAL},
    {"abc", 0.05f, NORMAL},  {"ab", 0, USER},           {"\xC3\xA4\xE4\xB8\xAD", 0.25f, NORMAL},
    {"\xC3\xA4", 0, USER},   {"\xE4\xB8\xAD", 0, USER}, {"{ab", 0, USER},
    {"b}c", 0, USER},        {"ab}c", 0.25f, NORMAL},   {"x", -60000, NORMAL},
    {"y", 70000, NORMAL},    {"p", -1, NORMAL},         {"q", -1, NORMAL},
    {"pq", -2.003f, NORMAL}, {"e", -3, NORMAL},         {"f", -3, NORMAL},
    {"g", -3, NORMAL},       {"ef", -0.0f, NORMAL},     {"fg", 0, NORMAL},
    {"h", -3, UNUSED},       {"i", -3, NORMAL},         {"hi", -4, NORMAL},
    {"ih", -5, UNUSED},      {"j", -3, CONTROL}};

/* With byte fallback there is no unknown piece among the odd ones. Behind them 1 to 66 of u,
   user-defined, and 2 to 103 of d, unused. */
static void put_odd_parts(message *m)
{
    char text[128];
    int i;
    for (i = 0; i < (int)(sizeof odd_parts / sizeof *odd_parts); i++)
        put_piece(m, odd_parts[i].text, odd_parts[i].score, odd_parts[i].type);
    for (i = 1; i <= 66; i++) {
        memset(text, 'u', sizeof text);
        text[i] = 0;
        put_piece(m, text, 0, USER);
    }
    for (i = 1; i <= 103; i++) {
        memset(text, 'd', sizeof text);
        text[i] = 0;
        put_piece(m, text, (float)i, i > 1 ? UNUSED : NORMAL);
    }
}

static void make_model(message *m, options o)
{
    char name[8];
    int i;
    m->n = 0;
    if (!o.odd || !o.fallback) put_piece(m, "<unk>", 0, UNKNOWN);
    put_piece(m, "<s>", 0, CONTROL);
    put_piece(m, "</s>", 0, CONTROL);
    for (i = 0; o.fallback && i < 256; i++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        put_piece(m, name, 0, BYTE);
    }
    if (o.odd) put_odd_parts(m);
    for (i = 0; !o.odd && i < PARTS; i++)
        put_piece(m, parts[i], -1.0f - 0.37f * (float)(i * 7 % 11) - 0.01f * (float)i,
                  parts[i][0] == '{'                                      ? USER
                  : !strcmp(parts[i], "aab") || !strcmp(parts[i], "caab") ? UNUSED
                                                                          : NORMAL);
    put_options(m, o);
}

static trf_vocab *vocab_of(const message *m, const trf_hooks *hooks)
{
    trf_vocab *v = NULL;
    unsigned char *exact = (unsigned char *)malloc(m->n ? m->n : 1); /* reading behind it is seen */
    assert_non_null(exact);
    memcpy(exact, m->bytes, m->n);
    (void)trf__vocab_from_bytes(&v, TRF_SENTENCEPIECE, exact, m->n, hooks, &err);
    free(exact);
    return v;
}

static const options all_options[] = {{1, 0, 0, 1, 1, 1, 0, 0}, {2, 0, 0, 1, 1, 1, 0, 0},
                                      {1, 1, 0, 1, 0, 1, 0, 0}, {2, 1, 0, 1, 0, 1, 0, 0},
                                      {1, 0, 1, 1, 1, 1, 0, 0}, {2, 0, 0, 0, 0, 1, 0, 0},
                                      {1, 0, 0, 0, 1, 1, 0, 0}, {2, 0, 1, 1, 0, 1, 0, 0},
                                      {1, 0, 0, 1, 1, 0, 0, 0}, {1, 0, 0, 1, 1, 1, 2, 0},
                                      {2, 1, 1, 1, 1, 1, 2, 0}, {1, 0, 0, 0, 0, 1, 0, 1},
                                      {2, 0, 0, 0, 0, 1, 0, 1}, {1, 1, 0, 0, 0, 1, 0, 1},
                                      {2, 1, 0, 0, 0, 1, 0, 1}};
enum { OPTIONS = sizeof all_options / sizeof *all_options };
static message model;

#define U33 "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"
#define D33 "ddddddddddddddddddddddddddddddddd"
static const char *const texts[] = {"",
                                    " ",
                                    "abc",
                                    " abc  cab ",
                                    "caab aab",
                                    "a{u}b{uu}c",
                                    "x",
                                    "xyz abc",
                                    "\xEF\xAC\x81\xEF\xBC\xA1\xEF\xBC\xA1\xCC\x88",
                                    "a\tb\xC2\xA0 c",
                                    "\xE2\x80\xA6"
                                    "a\xE2\x80\xA6",
                                    "\xE2\x80\x8B \xE2\x80\x8B"
                                    "a",
                                    "a\xFF"
                                    "b\xC3",
                                    "\xE2\x96\x81"
                                    "ab",
                                    "<s><unk></s>",
                                    "aaaaaaaab",
                                    "<x>",
                                    "bcabcabcaabca",
                                    "\xF0\x9F\x98\x80\xC3\xA4",
                                    "\xEF\xBC\xA1\xCC\x88\xEF\xBC\xA1\xE2\x80\x8B \xE2\x80\x8B",
                                    K16 K16 "k" K16,
                                    "abcabab",
                                    "\xC3\xA4\xE4\xB8\xAD\xC3\xA4",
                                    "{ab}c{abcab}c",
                                    "xxpqx",
                                    "xpq",
                                    "yypq",
                                    "efg",
                                    "hih",
                                    "hihij",
                                    U33 U33 U33,
                                    D33 D33 D33 "dddd",
                                    "d" D33 "dd"};
#undef K16
#undef U33
#undef D33
enum { TEXTS = sizeof texts / sizeof *texts };

#endif
