// trf: rows of the table in options.c, the options under "Search". options.c includes this file
// inside the table.
// SPDX-License-Identifier: MIT

    {TRANSLATE | REPORT | INSPECT, HEADING, "Search", 0, NULL, NULL, NULL},
    {TRANSLATE, CHOICE, "search-rule", AT(answer.search_rule), RULES,
     "search as the named system does (paper: Vaswani et al. 2017; raw: rank by the sum of "
     "log-probabilities): sets --length-rule, --alpha and other options of the search (trf translate "
     "--help all, from --length-rule to --renormalize-logits)",
     then_rule},
    {TRANSLATE | REPORT | INSPECT, COUNT, "beam", AT(search.beam), "N",
     "beam size: live hypotheses of a sentence, 1 to 1024; 1: greedy", NULL},
    {TRANSLATE, CHOICE, "length-rule", AT(search.length_rule), "raw|power|gnmt",
     "score of a hypothesis with log-probability S and length L. raw: S; power: S / L^alpha; "
     "gnmt: S / ((5 + L) / 6)^alpha", NULL},
    {TRANSLATE, REAL, "alpha", AT(search.alpha), "X",
     "exponent of the length rule (length penalty), 0 to 10", NULL},
    {TRANSLATE, SWITCH, "count-eos", AT(search.count_eos), NO_YES, "count EOS in L", NULL},
    {TRANSLATE, SWITCH, "score-prefix", AT(search.score_prefix), NO_YES,
     "count the given beginning in S: --prefixes, or the beginning of a decoder-only model's text",
     NULL},
    {TRANSLATE, SWITCH, "count-prefix", AT(search.count_prefix), NO_YES,
     "count the same beginning in L", NULL},
    {TRANSLATE, REAL, "word-penalty", AT(search.word_penalty), "X",
     "subtract X from S for each token", NULL},
    {TRANSLATE, COUNT, "candidates", AT(search.candidates), "N",
     "consider N times beam continuations in each step, 1 to 16", NULL},
    {TRANSLATE, SWITCH, "eos-in-top-beam", AT(search.eos_in_top_beam), NO_YES,
     "accept EOS only among the best --beam continuations", NULL},
    {TRANSLATE, SWITCH, "shrink", AT(search.shrink), NO_YES,
     "make the beam smaller by one for each finished hypothesis", NULL},
    {TRANSLATE, CHOICE, "stop-rule", AT(search.stop), "bound|finished|none-alive|heuristic",
     "when a sentence is done. bound: no live hypothesis can beat the best finished ones; "
     "finished: --beam hypotheses have finished; none-alive: no hypothesis is live; heuristic: "
     "the best --beam finished ones beat the present score of the best live one", NULL},
    {TRANSLATE, CHOICE, "at-limit", AT(search.at_limit),
     "keep-live|fall-back|force-eos|free-eos",
     "what happens to live hypotheses at the length limit. keep-live: they count as they are; "
     "fall-back: they count only if none has finished; force-eos: they must end in one more "
     "step; free-eos: the same, and this EOS counts 0 in S", NULL},
    {TRANSLATE, NUMBER, "min-length", AT(search.min_length), "N",
     "smallest number of target tokens before EOS", NULL},
    {TRANSLATE, SWITCH, "renormalize-logits", AT(search.renormalize_logits), NO_YES,
     "leave EOS out of the softmax as long as --min-length forbids it", NULL},
    {TRANSLATE | FROM_DATA, CHOICE, "allow-unk", AT(search.ban_unk), "yes|no",
     "let answers contain <unk> (default: yes if a training target did, or with --unknown copy)",
     NULL},
    {TRANSLATE, REAL, "max-length-a", AT(search.max_length_a), "A",
     "write at most A * source tokens + B target tokens", NULL},
    {TRANSLATE | FROM_DATA, NUMBER, "max-length-b", AT(search.max_length_b), "B",
     "write at most A * source tokens + B target tokens; A: --max-length-a (default: 20; the limit "
     "is at least 1.25 times the longest training "
     "target)", NULL},
    {TRANSLATE, TEXT, "start", AT(rules.start), "TOKEN",
     "a token that the decoder reads first, instead of the model's own: the tag of the target "
     "language in mBART-25. TOKEN is the text of a token, or else an id", NULL},
    {TRANSLATE, TEXT, "forced-first", AT(rules.forced_first), "TOKEN",
     "a token with which every answer begins, instead of the one that an imported folder names "
     "(forced_bos_token_id: <s> in BART); the output does not show it. --prefixes replace it. TOKEN "
     "is the text of a token, or else an id",
     NULL},
    {TRANSLATE, TEXTS, "end", AT(rules.ends), "TOKEN",
     "a token that ends an answer as EOS does, instead of those that an imported folder names "
     "(eos_token_id); may be given several times. TOKEN is the text of a token, or else an id",
     NULL},
    {TRANSLATE, TEXT, "source-first", AT(rules.source_first), "TOKEN",
     "a token to put before each source, for instance the tag of its language", NULL},
    {TRANSLATE, TEXT, "source-last", AT(rules.source_last), "TOKEN",
     "a token appended after the EOS of each source", NULL},
    {TRANSLATE, TEXT, "source-language", AT(source_language), "CODE",
     "the language of the sources, for imported models of many languages: puts its tag where the "
     "model expects it. Without this option: the language that the model was fine-tuned on last, "
     "or that its folder named (src_lang). An unknown code prints the known ones", NULL},
    {TRANSLATE, TEXT, "target-language", AT(target_language), "CODE",
     "the language to translate into, for such models. Without this option: the one fine-tuned "
     "on last, or the one that the folder named (forced_bos_token_id, tgt_lang)", NULL},
    {TRANSLATE, TEXTS, "ban", AT(rules.bans), "TEXT",
     "never write the tokens that this text has at the start of a line; may be given several "
     "times. Other tokens can still spell it, as in the middle of a word", NULL},
    {TRANSLATE, TEXT, "ban-file", AT(rules.ban_file), "FILE", "more such texts, one per line",
     NULL},
    {TRANSLATE, TEXTS, "phrase", AT(rules.phrases), "TEXT",
     "a text that every answer must contain, whatever its tokens; may be given several times. One "
     "that is given twice must occur twice. An answer may lack one only if there is no room for it, "
     "and then a message tells so", NULL},
    {TRANSLATE, TEXTS, "keep", AT(rules.keeps), "PATTERN",
     "copy what matches PATTERN (as in trf train --keep) from each line to its answer, as often as "
     "it is there, besides the model's own patterns; may be given several times. none: not even "
     "those", NULL},
    {TRANSLATE, NUMBER, "no-repeat-ngram", AT(search.no_repeat_ngram), "N",
     "never write the same N tokens in a row twice; 0: off", NULL},
    {TRANSLATE, REAL, "repetition-penalty", AT(search.repetition_penalty), "X",
     "multiply log-probabilities of tokens already in the answer by X; with --beam 1, divide "
     "positive logits by X and multiply negative ones; 1: off", NULL},
