/* grammar.h - an English grammar with a German translation, small enough to read and large enough to be
   hard: it makes millions of sentence pairs, and every pair is correct German.

       grammar_sentence s;
       grammar_make(17, &s);       sentence number 17, the same on every machine
       puts(s.english);            "the old king thinks that ..."
       puts(s.german);             its one translation; words and punctuation stand between blanks

   What has to be learned (the German rules are beside the code):
     gender        the dog, the cat, the child           der hund, die katze, das kind
     case          sees the dog / helps the dog          sieht den hund / hilft dem hund
     agreement     the men with the dog sleep            die männer mit dem hund schlafen
     endings       the big dog, a big dog, two big dogs  der große hund, ein großer hund, zwei große hunde
     negation      does not see a dog / the dog          sieht keinen hund / sieht den hund nicht
     word order    the dog has seen the cat              der hund hat die katze gesehen
                   today the dog sees the cat            heute sieht der hund die katze
                   i know that the dog sees the cat      ich weiß , dass der hund die katze sieht
     relatives     the dog that the cat sees sleeps      der hund , den die katze sieht , schläft

   Held-out combinations. Nouns, adjectives, verbs and frames (kinds of sentence) are numbered: "units".
   grammar_held_out(a, b) picks about one in sixteen of the pairs noun and verb, adjective and noun, frame
   and verb. Each sentence is for training (no such pair occurs in it, not even in different clauses), for
   testing (such a pair occurs as subject and verb, verb and object, adjective and noun, or frame and verb),
   or for neither. So a system that only remembers what stood together cannot translate a test sentence.
   grammar_check finds the pairs again, from the English text alone: tests/test_grammar.c checks the
   sentences with it. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GRAMMAR_TEXT 512        /* bytes that hold any sentence; the longest has about 40 words */
#define GRAMMAR_COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

// -----------------------------------------------------------------------------------------------
// Words
// -----------------------------------------------------------------------------------------------

enum { GRAMMAR_NOMINATIVE = 0, GRAMMAR_ACCUSATIVE = 1, GRAMMAR_DATIVE = 2 };
enum { GRAMMAR_M = 0, GRAMMAR_F = 1, GRAMMAR_N = 2, GRAMMAR_PLURAL = 3 };     /* gender; German plurals have none */

typedef struct grammar_noun {
    const char *one, *many;             /* English */
    int gender;
    const char *german, *german_oblique;    /* nominative; accusative and dative (boys and bears: "den jungen") */
    const char *german_many, *german_many_dative;
} grammar_noun;

static const grammar_noun grammar_nouns[] = {
    /* living beings: subjects and objects */
    {"dog",      "dogs",      GRAMMAR_M, "hund",      "hund",      "hunde",      "hunden"},
    {"man",      "men",       GRAMMAR_M, "mann",      "mann",      "männer",     "männern"},
    {"bird",     "birds",     GRAMMAR_M, "vogel",     "vogel",     "vögel",      "vögeln"},
    {"teacher",  "teachers",  GRAMMAR_M, "lehrer",    "lehrer",    "lehrer",     "lehrern"},
    {"friend",   "friends",   GRAMMAR_M, "freund",    "freund",    "freunde",    "freunden"},
    {"king",     "kings",     GRAMMAR_M, "könig",     "könig",     "könige",     "königen"},
    {"doctor",   "doctors",   GRAMMAR_M, "arzt",      "arzt",      "ärzte",      "ärzten"},
    {"boy",      "boys",      GRAMMAR_M, "junge",     "jungen",    "jungen",     "jungen"},
    {"bear",     "bears",     GRAMMAR_M, "bär",       "bären",     "bären",      "bären"},
    {"cat",      "cats",      GRAMMAR_F, "katze",     "katze",     "katzen",     "katzen"},
    {"woman",    "women",     GRAMMAR_F, "frau",      "frau",      "frauen",     "frauen"},
    {"mouse",    "mice",      GRAMMAR_F, "maus",      "maus",      "mäuse",      "mäusen"},
    {"queen",    "queens",    GRAMMAR_F, "königin",   "königin",   "königinnen", "königinnen"},
    {"sister",   "sisters",   GRAMMAR_F, "schwester", "schwester", "schwestern", "schwestern"},
    {"daughter", "daughters", GRAMMAR_F, "tochter",   "tochter",   "töchter",    "töchtern"},
    {"cow",      "cows",      GRAMMAR_F, "kuh",       "kuh",       "kühe",       "kühen"},
    {"duck",     "ducks",     GRAMMAR_F, "ente",      "ente",      "enten",      "enten"},
    {"child",    "children",  GRAMMAR_N, "kind",      "kind",      "kinder",     "kindern"},
    {"girl",     "girls",     GRAMMAR_N, "mädchen",   "mädchen",   "mädchen",    "mädchen"},
    {"horse",    "horses",    GRAMMAR_N, "pferd",     "pferd",     "pferde",     "pferden"},
    {"pig",      "pigs",      GRAMMAR_N, "schwein",   "schwein",   "schweine",   "schweinen"},
    {"chicken",  "chickens",  GRAMMAR_N, "huhn",      "huhn",      "hühner",     "hühnern"},
    {"lamb",     "lambs",     GRAMMAR_N, "lamm",      "lamm",      "lämmer",     "lämmern"},
    {"baby",     "babies",    GRAMMAR_N, "baby",      "baby",      "babys",      "babys"},
    /* things: accusative objects */
    {"letter",   "letters",   GRAMMAR_M, "brief",     "brief",     "briefe",     "briefen"},
    {"apple",    "apples",    GRAMMAR_M, "apfel",     "apfel",     "äpfel",      "äpfeln"},
    {"hat",      "hats",      GRAMMAR_M, "hut",       "hut",       "hüte",       "hüten"},
    {"flower",   "flowers",   GRAMMAR_F, "blume",     "blume",     "blumen",     "blumen"},
    {"cup",      "cups",      GRAMMAR_F, "tasse",     "tasse",     "tassen",     "tassen"},
    {"book",     "books",     GRAMMAR_N, "buch",      "buch",      "bücher",     "büchern"},
    {"picture",  "pictures",  GRAMMAR_N, "bild",      "bild",      "bilder",     "bildern"},
    {"egg",      "eggs",      GRAMMAR_N, "ei",        "ei",        "eier",       "eiern"},
    /* places: after a preposition, singular */
    {"garden",   "gardens",   GRAMMAR_M, "garten",    "garten",    "gärten",     "gärten"},
    {"forest",   "forests",   GRAMMAR_M, "wald",      "wald",      "wälder",     "wäldern"},
    {"kitchen",  "kitchens",  GRAMMAR_F, "küche",     "küche",     "küchen",     "küchen"},
    {"school",   "schools",   GRAMMAR_F, "schule",    "schule",    "schulen",    "schulen"},
    {"house",    "houses",    GRAMMAR_N, "haus",      "haus",      "häuser",     "häusern"},
    {"village",  "villages",  GRAMMAR_N, "dorf",      "dorf",      "dörfer",     "dörfern"}
};
enum { GRAMMAR_BEINGS = 24, GRAMMAR_THINGS = 8, GRAMMAR_PLACES = 6 };

typedef struct grammar_word { const char *english, *german; } grammar_word;

static const grammar_word grammar_adjectives[] = {
    {"small", "klein"}, {"big", "groß"}, {"old", "alt"}, {"new", "neu"}, {"beautiful", "schön"}, {"black", "schwarz"},
    {"white", "weiß"}, {"green", "grün"}, {"strange", "seltsam"}, {"dirty", "schmutzig"}, {"ugly", "hässlich"},
    {"famous", "berühmt"}
};

typedef enum grammar_object {
    GRAMMAR_NO_OBJECT, GRAMMAR_ACC_OBJECT, GRAMMAR_DAT_OBJECT, GRAMMAR_TWO_OBJECTS     /* two: dative first */
} grammar_object;

typedef struct grammar_verb {
    const char *base, *third, *participle;          /* see, sees, seen */
    const char *german, *infinitive, *german_participle;    /* sieht, sehen (also the plural), gesehen */
    grammar_object object;
    int with_sein;                                  /* perfect with "ist", not "hat" */
} grammar_verb;

static const grammar_verb grammar_verbs[] = {
    {"sleep",  "sleeps",  "slept",   "schläft",    "schlafen",   "geschlafen",  GRAMMAR_NO_OBJECT, 0},
    {"sing",   "sings",   "sung",    "singt",      "singen",     "gesungen",    GRAMMAR_NO_OBJECT, 0},
    {"dance",  "dances",  "danced",  "tanzt",      "tanzen",     "getanzt",     GRAMMAR_NO_OBJECT, 0},
    {"laugh",  "laughs",  "laughed", "lacht",      "lachen",     "gelacht",     GRAMMAR_NO_OBJECT, 0},
    {"wait",   "waits",   "waited",  "wartet",     "warten",     "gewartet",    GRAMMAR_NO_OBJECT, 0},
    {"work",   "works",   "worked",  "arbeitet",   "arbeiten",   "gearbeitet",  GRAMMAR_NO_OBJECT, 0},
    {"swim",   "swims",   "swum",    "schwimmt",   "schwimmen",  "geschwommen", GRAMMAR_NO_OBJECT, 1},
    {"run",    "runs",    "run",     "läuft",      "laufen",     "gelaufen",    GRAMMAR_NO_OBJECT, 1},
    {"see",    "sees",    "seen",    "sieht",      "sehen",      "gesehen",     GRAMMAR_ACC_OBJECT, 0},
    {"hear",   "hears",   "heard",   "hört",       "hören",      "gehört",      GRAMMAR_ACC_OBJECT, 0},
    {"find",   "finds",   "found",   "findet",     "finden",     "gefunden",    GRAMMAR_ACC_OBJECT, 0},
    {"love",   "loves",   "loved",   "liebt",      "lieben",     "geliebt",     GRAMMAR_ACC_OBJECT, 0},
    {"carry",  "carries", "carried", "trägt",      "tragen",     "getragen",    GRAMMAR_ACC_OBJECT, 0},
    {"catch",  "catches", "caught",  "fängt",      "fangen",     "gefangen",    GRAMMAR_ACC_OBJECT, 0},
    {"paint",  "paints",  "painted", "malt",       "malen",      "gemalt",      GRAMMAR_ACC_OBJECT, 0},
    {"wash",   "washes",  "washed",  "wäscht",     "waschen",    "gewaschen",   GRAMMAR_ACC_OBJECT, 0},
    {"need",   "needs",   "needed",  "braucht",    "brauchen",   "gebraucht",   GRAMMAR_ACC_OBJECT, 0},
    {"buy",    "buys",    "bought",  "kauft",      "kaufen",     "gekauft",     GRAMMAR_ACC_OBJECT, 0},
    {"help",   "helps",   "helped",  "hilft",      "helfen",     "geholfen",    GRAMMAR_DAT_OBJECT, 0},
    {"thank",  "thanks",  "thanked", "dankt",      "danken",     "gedankt",     GRAMMAR_DAT_OBJECT, 0},
    {"trust",  "trusts",  "trusted", "vertraut",   "vertrauen",  "vertraut",    GRAMMAR_DAT_OBJECT, 0},
    {"answer", "answers", "answered", "antwortet", "antworten",  "geantwortet", GRAMMAR_DAT_OBJECT, 0},
    {"follow", "follows", "followed", "folgt",     "folgen",     "gefolgt",     GRAMMAR_DAT_OBJECT, 1},
    {"give",   "gives",   "given",   "gibt",       "geben",      "gegeben",     GRAMMAR_TWO_OBJECTS, 0},
    {"show",   "shows",   "shown",   "zeigt",      "zeigen",     "gezeigt",     GRAMMAR_TWO_OBJECTS, 0},
    {"send",   "sends",   "sent",    "schickt",    "schicken",   "geschickt",   GRAMMAR_TWO_OBJECTS, 0},
    {"sell",   "sells",   "sold",    "verkauft",   "verkaufen",  "verkauft",    GRAMMAR_TWO_OBJECTS, 0},
    {"bring",  "brings",  "brought", "bringt",     "bringen",    "gebracht",    GRAMMAR_TWO_OBJECTS, 0}
};

/* How a determiner is declined, and with it the adjective after it. */
typedef enum grammar_declension { GRAMMAR_THE, GRAMMAR_THIS, GRAMMAR_A, GRAMMAR_NUMBER } grammar_declension;
typedef struct grammar_determiner { const char *english, *german; grammar_declension declension; } grammar_determiner;

static const grammar_determiner grammar_singular[] = {
    {"the", "", GRAMMAR_THE}, {"a", "ein", GRAMMAR_A}, {"the", "", GRAMMAR_THE}, {"a", "ein", GRAMMAR_A},
    {"this", "dies", GRAMMAR_THIS}, {"every", "jed", GRAMMAR_THIS}, {"my", "mein", GRAMMAR_A}
};
static const grammar_determiner grammar_plural[] = {
    {"the", "", GRAMMAR_THE}, {"the", "", GRAMMAR_THE}, {"these", "dies", GRAMMAR_THIS}, {"my", "mein", GRAMMAR_A},
    {"two", "zwei", GRAMMAR_NUMBER}, {"three", "drei", GRAMMAR_NUMBER}, {"four", "vier", GRAMMAR_NUMBER},
    {"five", "fünf", GRAMMAR_NUMBER}, {"seven", "sieben", GRAMMAR_NUMBER}, {"ten", "zehn", GRAMMAR_NUMBER}
};

/* Columns: masculine, feminine, neuter, plural. Rows: nominative, accusative, dative. */
static const char *const grammar_the[3][4]   = {
    {"der", "die", "das", "die"}, {"den", "die", "das", "die"}, {"dem", "der", "dem", "den"}
};
static const char *const grammar_this[3][4]  = {
    {"er", "e", "es", "e"}, {"en", "e", "es", "e"}, {"em", "er", "em", "en"}
};
static const char *const grammar_a[3][4]     = {
    {"", "e", "", "e"}, {"en", "e", "", "e"}, {"em", "er", "em", "en"}
};
/* Endings of the adjective after the/this (weak), after a (mixed), after a number (strong; plural only). */
static const char *const grammar_weak[3][4]  = {
    {"e", "e", "e", "en"}, {"en", "e", "e", "en"}, {"en", "en", "en", "en"}
};
static const char *const grammar_mixed[3][4] = {
    {"er", "e", "es", "en"}, {"en", "e", "es", "en"}, {"en", "en", "en", "en"}
};
static const char *const grammar_strong[3]   = {"e", "e", "en"};

static const grammar_word grammar_prepositions[] = {
    {"in", "in"}, {"behind", "hinter"}, {"beside", "neben"}, {"near", "bei"}       /* all with the dative here */
};
static const grammar_word grammar_openings[] = {
    {"today", "heute"}, {"tomorrow", "morgen"}, {"now", "jetzt"}, {"sometimes", "manchmal"}
};
static const grammar_word grammar_matrices[] = {
    {"i know", "ich weiß"}, {"i think", "ich denke"}, {"we know", "wir wissen"}, {"we think", "wir denken"},
    {"he says", "er sagt"}, {"they say", "sie sagen"}, {"she hopes", "sie hofft"}
};
static const char *const grammar_modals[][3] = {
    {"can", "kann", "können"}, {"must", "muss", "müssen"}, {"should", "soll", "sollen"}
};

/* Kinds of sentence. */
typedef enum grammar_frame {
    GRAMMAR_STATEMENT,      /* the dog sleeps . */
    GRAMMAR_QUESTION,       /* does the dog sleep ? */
    GRAMMAR_OPENING,        /* today the dog sleeps . */
    GRAMMAR_THAT,           /* i know that the dog sleeps . */
    GRAMMAR_BECAUSE,        /* the dog sleeps because the cat sings . */
    GRAMMAR_WHEN,           /* when the dog sleeps , the cat sings . */
    GRAMMAR_RELATIVE,       /* the dog that the cat sees sleeps . */
    GRAMMAR_FRAMES
} grammar_frame;

// -----------------------------------------------------------------------------------------------
// Units and held-out pairs
// -----------------------------------------------------------------------------------------------

/* Units are numbered frames first, then nouns, adjectives, verbs. */
enum {
    GRAMMAR_NOUN_UNIT = GRAMMAR_FRAMES,
    GRAMMAR_ADJECTIVE_UNIT = GRAMMAR_NOUN_UNIT + GRAMMAR_COUNT(grammar_nouns),
    GRAMMAR_VERB_UNIT = GRAMMAR_ADJECTIVE_UNIT + GRAMMAR_COUNT(grammar_adjectives),
    GRAMMAR_UNITS = GRAMMAR_VERB_UNIT + GRAMMAR_COUNT(grammar_verbs)
};

/* splitmix64: the next of a sequence of well mixed numbers. */
static uint64_t grammar_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int grammar_kind(int unit)   /* 0 frame, 1 noun, 2 adjective, 3 verb */
{
    return unit < GRAMMAR_NOUN_UNIT ? 0 : unit < GRAMMAR_ADJECTIVE_UNIT ? 1 : unit < GRAMMAR_VERB_UNIT ? 2 : 3;
}

/* Is this pair kept out of training? About one in sixteen of: noun and verb, adjective and noun, frame and
   verb. Plain statements go with every verb. */
static int grammar_held_out(int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a, kinds = 4 * grammar_kind(low) + grammar_kind(high);
    uint64_t state = (uint64_t)(2300000 + low * GRAMMAR_UNITS + high);     /* a seed that leaves no frame out */
    if (low == GRAMMAR_STATEMENT) return 0;
    if (kinds != 4 * 0 + 3 && kinds != 4 * 1 + 3 && kinds != 4 * 1 + 2) return 0;
    return grammar_random(&state) % 16 == 0;
}

/* One pair of texts, and what the rule of held-out pairs needs to know about it. */
typedef struct grammar_sentence {
    char english[GRAMMAR_TEXT], german[GRAMMAR_TEXT];
    grammar_frame frame;
    int units[32], n_units;         /* nouns, adjectives and verbs in it, and the frame */
    int related[32][2], n_related;  /* pairs that belong together: subject and verb, verb and object, adjective and
                                       noun, frame and verb */
    uint64_t random;
} grammar_sentence;

/* May be trained on: no held-out pair occurs, whether it belongs together or not. */
static int grammar_is_training(const grammar_sentence *s)
{
    int i, j;
    for (i = 0; i < s->n_units; i++)
        for (j = 0; j < i; j++) if (grammar_held_out(s->units[i], s->units[j])) return 0;
    return 1;
}

/* Fit for testing: at least one held-out pair belongs together. */
static int grammar_is_test(const grammar_sentence *s)
{
    int i;
    for (i = 0; i < s->n_related; i++) if (grammar_held_out(s->related[i][0], s->related[i][1])) return 1;
    return 0;
}

// -----------------------------------------------------------------------------------------------
// Phrases
// -----------------------------------------------------------------------------------------------

static int grammar_pick(grammar_sentence *s, int n) { return (int)(grammar_random(&s->random) % (uint64_t)n); }
static int grammar_chance(grammar_sentence *s, int percent) { return grammar_pick(s, 100) < percent; }

/* Adds a word, with a blank before it unless it is the first one; "" adds nothing. */
static void grammar_add(char *text, const char *word)
{
    size_t n = strlen(text), more = strlen(word);
    if (!more || n + more + 2 > GRAMMAR_TEXT) return;
    if (n) text[n++] = ' ';
    memcpy(text + n, word, more + 1);
}

/* Adds a word made of a stem and an ending. */
static void grammar_add_ending(char *text, const char *stem, const char *ending)
{
    char word[64];
    snprintf(word, sizeof word, "%s%s", stem, ending);
    grammar_add(text, word);
}

static void grammar_relate(grammar_sentence *s, int a, int b)
{
    if (s->n_related == GRAMMAR_COUNT(s->related)) return;
    s->related[s->n_related][0] = a;
    s->related[s->n_related][1] = b;
    s->n_related++;
}

static int grammar_use(grammar_sentence *s, int unit)
{
    if (s->n_units < GRAMMAR_COUNT(s->units)) s->units[s->n_units++] = unit;
    return unit;
}

typedef struct grammar_phrase {
    char english[GRAMMAR_TEXT], german[GRAMMAR_TEXT];
    int noun;               /* unit */
    int plural, gender;     /* gender is GRAMMAR_PLURAL in the plural */
    int indefinite;         /* "a dog": not a dog is "kein hund" */
    int universal;          /* "every dog": not every dog is "nicht jeder hund" */
} grammar_phrase;

enum { GRAMMAR_ANY_NUMBER = 0, GRAMMAR_ONE = 1 };

/* Determiner, perhaps an adjective, and one of the n nouns from `first`. German declines all three by case
   and gender: nominative "der kleine hund", accusative "den kleinen hund", dative "dem kleinen hund". */
static void grammar_noun_phrase(grammar_sentence *s, grammar_phrase *p, int first, int n, int number,
                                int with_case, int negated)
{
    const grammar_noun *noun;
    const grammar_determiner *the;
    const grammar_word *adjective = NULL;
    const char *next, *ending;
    memset(p, 0, sizeof *p);
    p->noun = grammar_use(s, GRAMMAR_NOUN_UNIT + first + grammar_pick(s, n));
    noun = &grammar_nouns[p->noun - GRAMMAR_NOUN_UNIT];
    p->plural = number == GRAMMAR_ANY_NUMBER && grammar_chance(s, 35);
    p->gender = p->plural ? GRAMMAR_PLURAL : noun->gender;
    the = p->plural ? &grammar_plural[grammar_pick(s, GRAMMAR_COUNT(grammar_plural))]
                    : &grammar_singular[grammar_pick(s, GRAMMAR_COUNT(grammar_singular))];
    p->indefinite = strcmp(the->english, "a") == 0;
    p->universal = strcmp(the->english, "every") == 0;
    if (grammar_chance(s, 35)) {
        int which = grammar_pick(s, GRAMMAR_COUNT(grammar_adjectives));
        adjective = &grammar_adjectives[which];
        grammar_relate(s, grammar_use(s, GRAMMAR_ADJECTIVE_UNIT + which), p->noun);
    }

    next = adjective ? adjective->english : p->plural ? noun->many : noun->one;
    grammar_add(p->english, p->indefinite && strchr("aeiou", next[0]) ? "an" : the->english);
    if (adjective) grammar_add(p->english, adjective->english);
    grammar_add(p->english, p->plural ? noun->many : noun->one);

    switch (the->declension) {
    case GRAMMAR_THE:  grammar_add(p->german, grammar_the[with_case][p->gender]); break;
    case GRAMMAR_THIS: grammar_add_ending(p->german, the->german, grammar_this[with_case][p->gender]); break;
    case GRAMMAR_A:    grammar_add_ending(p->german, p->indefinite && negated ? "kein" : the->german,
                                          grammar_a[with_case][p->gender]); break;
    case GRAMMAR_NUMBER: grammar_add(p->german, the->german); break;
    }
    ending = the->declension == GRAMMAR_NUMBER ? grammar_strong[with_case]
           : the->declension == GRAMMAR_A ? grammar_mixed[with_case][p->gender] : grammar_weak[with_case][p->gender];
    if (adjective) grammar_add_ending(p->german, adjective->german, ending);
    grammar_add(p->german, p->plural ? (with_case == GRAMMAR_DATIVE ? noun->german_many_dative : noun->german_many)
                                     : (with_case == GRAMMAR_NOMINATIVE ? noun->german : noun->german_oblique));
}

// -----------------------------------------------------------------------------------------------
// Clauses
// -----------------------------------------------------------------------------------------------

/* A clause cut into the fields of the German sentence, so that its order can be chosen afterwards:
       statement   subject finite middle last          der hund   hat   die katze   gesehen
       inverted    finite subject middle last          hat   der hund   die katze   gesehen
       verb-last   subject middle last finite          (dass)   der hund   die katze   gesehen   hat
   In English: subject, finite verb, middle, and for questions the finite verb first. */
typedef struct grammar_clause {
    grammar_phrase subject;
    int verb;                           /* unit */
    char finite[64], middle[GRAMMAR_TEXT], last[64];                /* German */
    char english_finite[64], english_rest[GRAMMAR_TEXT];
    char english_question[64];          /* what stands before the subject in a question, */
    char english_question_rest[GRAMMAR_TEXT];   /* and what stands after it */
} grammar_clause;

/* "the dog is black": der hund ist schwarz. The adjective has no ending here. */
static void grammar_copula(grammar_sentence *s, grammar_clause *c)
{
    int which = grammar_pick(s, GRAMMAR_COUNT(grammar_adjectives));
    grammar_relate(s, grammar_use(s, GRAMMAR_ADJECTIVE_UNIT + which), c->subject.noun);
    grammar_add(c->english_finite, c->subject.plural ? "are" : "is");
    grammar_add(c->english_question, c->english_finite);
    grammar_add(c->english_rest, grammar_adjectives[which].english);
    grammar_add(c->english_question_rest, c->english_rest);
    grammar_add(c->finite, c->subject.plural ? "sind" : "ist");
    grammar_add(c->middle, grammar_adjectives[which].german);
}

typedef enum grammar_mode { GRAMMAR_PLAIN, GRAMMAR_NEGATED, GRAMMAR_MODAL, GRAMMAR_PERFECT } grammar_mode;

/* The finite verb and the word at the end: sieht; kann ... sehen; hat ... gesehen. */
static void grammar_verb_forms(grammar_sentence *s, grammar_clause *c, const grammar_verb *v, grammar_mode mode)
{
    int plural = c->subject.plural, modal;
    switch (mode) {
    case GRAMMAR_PLAIN:
    case GRAMMAR_NEGATED:
        grammar_add(c->finite, plural ? v->infinitive : v->german);
        grammar_add(c->english_question, plural ? "do" : "does");
        if (mode == GRAMMAR_PLAIN) {
            grammar_add(c->english_finite, plural ? v->base : v->third);
        } else {
            grammar_add(c->english_finite, plural ? "do not" : "does not");
            grammar_add(c->english_rest, v->base);
            grammar_add(c->english_question_rest, "not");
        }
        grammar_add(c->english_question_rest, v->base);
        break;
    case GRAMMAR_MODAL:
        modal = grammar_pick(s, GRAMMAR_COUNT(grammar_modals));
        grammar_add(c->finite, grammar_modals[modal][plural ? 2 : 1]);
        grammar_add(c->last, v->infinitive);
        grammar_add(c->english_finite, grammar_modals[modal][0]);
        grammar_add(c->english_question, c->english_finite);
        grammar_add(c->english_rest, v->base);
        grammar_add(c->english_question_rest, v->base);
        break;
    case GRAMMAR_PERFECT:
        grammar_add(c->finite, v->with_sein ? (plural ? "sind" : "ist") : (plural ? "haben" : "hat"));
        grammar_add(c->last, v->german_participle);
        grammar_add(c->english_finite, plural ? "have" : "has");
        grammar_add(c->english_question, c->english_finite);
        grammar_add(c->english_rest, v->participle);
        grammar_add(c->english_question_rest, v->participle);
        break;
    }
}

static void grammar_add_both(grammar_clause *c, const char *english, const char *german)
{
    grammar_add(c->english_rest, english);
    grammar_add(c->english_question_rest, english);
    grammar_add(c->middle, german);
}

/* Adds one object. Negation goes with the last object: keinen hund, nicht jeden hund, den hund nicht. */
static void grammar_add_object(grammar_sentence *s, grammar_clause *c, int with_case, int negated)
{
    grammar_phrase object;
    int things = with_case == GRAMMAR_ACCUSATIVE && grammar_chance(s, 50);
    grammar_noun_phrase(s, &object, things ? GRAMMAR_BEINGS : 0, things ? GRAMMAR_THINGS : GRAMMAR_BEINGS,
                        GRAMMAR_ANY_NUMBER, with_case, negated);
    grammar_relate(s, object.noun, c->verb);
    if (negated && object.universal) grammar_add(c->middle, "nicht");
    grammar_add_both(c, object.english, object.german);
    if (negated && !object.universal && !object.indefinite) grammar_add(c->middle, "nicht");
}

/* "in the garden": all prepositions here take the dative. */
static void grammar_add_place(grammar_sentence *s, grammar_clause *c)
{
    const grammar_word *in = &grammar_prepositions[grammar_pick(s, GRAMMAR_COUNT(grammar_prepositions))];
    grammar_phrase place;
    grammar_noun_phrase(s, &place, GRAMMAR_BEINGS + GRAMMAR_THINGS, GRAMMAR_PLACES, GRAMMAR_ONE, GRAMMAR_DATIVE, 0);
    grammar_add_both(c, in->english, in->german);
    grammar_add_both(c, place.english, place.german);
}

/* "the men with the dog": a noun between the subject and its verb, which must not mislead the verb. */
static void grammar_add_companion(grammar_sentence *s, grammar_phrase *subject)
{
    grammar_phrase with;
    grammar_noun_phrase(s, &with, 0, GRAMMAR_BEINGS + GRAMMAR_THINGS, GRAMMAR_ANY_NUMBER, GRAMMAR_DATIVE, 0);
    grammar_add(subject->english, "with");
    grammar_add(subject->english, with.english);
    grammar_add(subject->german, "mit");
    grammar_add(subject->german, with.german);
}

/* The verb, its objects and perhaps a place, for a clause whose subject stands. Without its object (object = 0) a
   transitive verb is chosen. Returns the case of its last object. */
static int grammar_add_predicate(grammar_sentence *s, grammar_clause *c, int object)
{
    const grammar_verb *v;
    grammar_mode mode;
    int number, negated;
    do {
        number = grammar_pick(s, GRAMMAR_COUNT(grammar_verbs));
        v = &grammar_verbs[number];
    } while (!object && v->object != GRAMMAR_ACC_OBJECT && v->object != GRAMMAR_DAT_OBJECT);
    c->verb = grammar_use(s, GRAMMAR_VERB_UNIT + number);
    grammar_relate(s, c->subject.noun, c->verb);
    grammar_relate(s, (int)s->frame, c->verb);
    mode = (grammar_mode)(grammar_chance(s, 40) ? GRAMMAR_PLAIN : 1 + grammar_pick(s, 3));
    negated = mode == GRAMMAR_NEGATED;
    grammar_verb_forms(s, c, v, mode);
    if (!object || v->object == GRAMMAR_NO_OBJECT) {
        if (negated) grammar_add(c->middle, "nicht");
    } else {
        if (v->object == GRAMMAR_DAT_OBJECT) grammar_add_object(s, c, GRAMMAR_DATIVE, negated);
        if (v->object == GRAMMAR_TWO_OBJECTS) grammar_add_object(s, c, GRAMMAR_DATIVE, 0);
        if (v->object != GRAMMAR_DAT_OBJECT) grammar_add_object(s, c, GRAMMAR_ACCUSATIVE, negated);
    }
    if (grammar_chance(s, v->object == GRAMMAR_NO_OBJECT ? 45 : 10)) grammar_add_place(s, c);
    return v->object == GRAMMAR_DAT_OBJECT ? GRAMMAR_DATIVE : GRAMMAR_ACCUSATIVE;
}

static void grammar_subject(grammar_sentence *s, grammar_clause *c)
{
    memset(c, 0, sizeof *c);
    grammar_noun_phrase(s, &c->subject, 0, GRAMMAR_BEINGS, GRAMMAR_ANY_NUMBER, GRAMMAR_NOMINATIVE, 0);
}

/* A whole clause. A companion never stands before a relative clause, where it could be taken for its noun. */
static void grammar_make_clause(grammar_sentence *s, grammar_clause *c)
{
    grammar_subject(s, c);
    if (s->frame != GRAMMAR_RELATIVE && grammar_chance(s, 12)) grammar_add_companion(s, &c->subject);
    if (grammar_chance(s, 10)) grammar_copula(s, c);
    else grammar_add_predicate(s, c, 1);
}

typedef enum grammar_order { GRAMMAR_VERB_SECOND, GRAMMAR_INVERTED, GRAMMAR_VERB_LAST } grammar_order;

static void grammar_add_german(char *text, const grammar_clause *c, grammar_order order)
{
    if (order == GRAMMAR_INVERTED) grammar_add(text, c->finite);
    grammar_add(text, c->subject.german);
    if (order == GRAMMAR_VERB_SECOND) grammar_add(text, c->finite);
    grammar_add(text, c->middle);
    grammar_add(text, c->last);
    if (order == GRAMMAR_VERB_LAST) grammar_add(text, c->finite);
}

static void grammar_add_english(char *text, const grammar_clause *c)
{
    grammar_add(text, c->subject.english);
    grammar_add(text, c->english_finite);
    grammar_add(text, c->english_rest);
}

/* Puts a relative clause after the subject of c. The pronoun has the gender of the noun and a case of its own:
       the dog that sees the cat       der hund , der die katze sieht ,
       the dog that the cat sees       der hund , den die katze sieht ,
       the dog that the cat helps      der hund , dem die katze hilft ,     */
static void grammar_add_relative(grammar_sentence *s, grammar_clause *c)
{
    grammar_clause relative;
    int gender = c->subject.gender, pronoun_case = GRAMMAR_NOMINATIVE;
    if (grammar_chance(s, 50)) {
        grammar_subject(s, &relative);
        pronoun_case = grammar_add_predicate(s, &relative, 0);
        grammar_relate(s, c->subject.noun, relative.verb);
    } else {            /* the pronoun is the subject: agreement as with the noun before, but no words */
        memset(&relative, 0, sizeof relative);
        relative.subject.noun = c->subject.noun;
        relative.subject.plural = c->subject.plural;
        grammar_add_predicate(s, &relative, 1);
    }
    grammar_add(c->subject.english, "that");
    grammar_add_english(c->subject.english, &relative);
    grammar_add(c->subject.german, ",");
    grammar_add(c->subject.german, pronoun_case == GRAMMAR_DATIVE && gender == GRAMMAR_PLURAL
                                   ? "denen" : grammar_the[pronoun_case][gender]);
    grammar_add_german(c->subject.german, &relative, GRAMMAR_VERB_LAST);
    grammar_add(c->subject.german, ",");
}

// -----------------------------------------------------------------------------------------------
// Sentences
// -----------------------------------------------------------------------------------------------

/* "a because b": a , weil b. "when a , b": wenn a , b. */
static void grammar_add_two_clauses(grammar_sentence *s, const grammar_clause *one)
{
    grammar_clause two;
    grammar_make_clause(s, &two);
    if (s->frame == GRAMMAR_WHEN) grammar_add(s->english, "when");
    grammar_add_english(s->english, one);
    grammar_add(s->english, s->frame == GRAMMAR_WHEN ? "," : "because");
    grammar_add_english(s->english, &two);
    if (s->frame == GRAMMAR_WHEN) {
        grammar_add(s->german, "wenn");
        grammar_add_german(s->german, one, GRAMMAR_VERB_LAST);
        grammar_add(s->german, ",");
        grammar_add_german(s->german, &two, GRAMMAR_INVERTED);
    } else {
        grammar_add_german(s->german, one, GRAMMAR_VERB_SECOND);
        grammar_add(s->german, ", weil");
        grammar_add_german(s->german, &two, GRAMMAR_VERB_LAST);
    }
}

/* Sentence number `number`: any number is one, and some are alike. */
static void grammar_make(uint64_t number, grammar_sentence *s)
{
    static const char frames[] = {0, 0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6};      /* how often each frame comes */
    grammar_clause one;
    const grammar_word *word;
    memset(s, 0, sizeof *s);
    s->random = number;
    s->frame = (grammar_frame)frames[grammar_pick(s, GRAMMAR_COUNT(frames))];
    grammar_use(s, (int)s->frame);
    grammar_make_clause(s, &one);
    switch (s->frame) {
    case GRAMMAR_QUESTION:
        grammar_add(s->english, one.english_question);
        grammar_add(s->english, one.subject.english);
        grammar_add(s->english, one.english_question_rest);
        grammar_add_german(s->german, &one, GRAMMAR_INVERTED);
        break;
    case GRAMMAR_OPENING:
        word = &grammar_openings[grammar_pick(s, GRAMMAR_COUNT(grammar_openings))];
        grammar_add(s->english, word->english);
        grammar_add(s->german, word->german);
        grammar_add_english(s->english, &one);
        grammar_add_german(s->german, &one, GRAMMAR_INVERTED);
        break;
    case GRAMMAR_THAT:
        word = &grammar_matrices[grammar_pick(s, GRAMMAR_COUNT(grammar_matrices))];
        grammar_add(s->english, word->english);
        grammar_add(s->english, "that");
        grammar_add(s->german, word->german);
        grammar_add(s->german, ", dass");
        grammar_add_english(s->english, &one);
        grammar_add_german(s->german, &one, GRAMMAR_VERB_LAST);
        break;
    case GRAMMAR_BECAUSE:
    case GRAMMAR_WHEN:
        grammar_add_two_clauses(s, &one);
        break;
    case GRAMMAR_RELATIVE:
        grammar_add_relative(s, &one);
        grammar_add_english(s->english, &one);
        grammar_add_german(s->german, &one, GRAMMAR_VERB_SECOND);
        break;
    default:
        grammar_add_english(s->english, &one);
        grammar_add_german(s->german, &one, GRAMMAR_VERB_SECOND);
        break;
    }
    grammar_add(s->english, s->frame == GRAMMAR_QUESTION ? "?" : ".");
    grammar_add(s->german, s->frame == GRAMMAR_QUESTION ? "?" : ".");
}

// -----------------------------------------------------------------------------------------------
// Checking from the text alone
// -----------------------------------------------------------------------------------------------

static int grammar_same(const char *word, size_t n, const char *form)
{
    return strlen(form) == n && memcmp(word, form, n) == 0;
}

/* The unit of an English word in any of its forms; -1 for the little words that hold a sentence together. */
static int grammar_unit_of(const char *word, size_t n)
{
    int i;
    for (i = 0; i < GRAMMAR_COUNT(grammar_nouns); i++)
        if (grammar_same(word, n, grammar_nouns[i].one) || grammar_same(word, n, grammar_nouns[i].many))
            return GRAMMAR_NOUN_UNIT + i;
    for (i = 0; i < GRAMMAR_COUNT(grammar_adjectives); i++)
        if (grammar_same(word, n, grammar_adjectives[i].english)) return GRAMMAR_ADJECTIVE_UNIT + i;
    for (i = 0; i < GRAMMAR_COUNT(grammar_verbs); i++)
        if (grammar_same(word, n, grammar_verbs[i].base) || grammar_same(word, n, grammar_verbs[i].third)
            || grammar_same(word, n, grammar_verbs[i].participle)) return GRAMMAR_VERB_UNIT + i;
    return -1;
}

static int grammar_starts(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && text[n] == ' ';
}

/* The frame, from its signs: "?", the first words, "because", "that". */
static grammar_frame grammar_frame_of(const char *english)
{
    int i;
    if (strstr(english, " ?")) return GRAMMAR_QUESTION;
    if (grammar_starts(english, "when")) return GRAMMAR_WHEN;
    for (i = 0; i < GRAMMAR_COUNT(grammar_openings); i++)
        if (grammar_starts(english, grammar_openings[i].english)) return GRAMMAR_OPENING;
    for (i = 0; i < GRAMMAR_COUNT(grammar_matrices); i++)
        if (grammar_starts(english, grammar_matrices[i].english)) return GRAMMAR_THAT;
    if (strstr(english, " because ")) return GRAMMAR_BECAUSE;
    if (strstr(english, " that ")) return GRAMMAR_RELATIVE;
    return GRAMMAR_STATEMENT;
}

/* Number of held-out pairs whose two members occur in this English sentence. */
static inline int grammar_check(const char *english)
{
    int units[64], n = 0, i, j, found = 0;
    const char *word = english;
    units[n++] = (int)grammar_frame_of(english);
    while (*word && n < GRAMMAR_COUNT(units)) {
        size_t length = strcspn(word, " ");
        int unit = grammar_unit_of(word, length);
        if (unit >= 0) units[n++] = unit;
        word += length;
        word += strspn(word, " ");
    }
    for (i = 0; i < n; i++) for (j = 0; j < i; j++) found += grammar_held_out(units[i], units[j]);
    return found;
}

#endif /* GRAMMAR_H */
