// trf train --tokens sentencepiece: learns a SentencePiece model with libsentencepiece (Kudo and Richardson 2018);
// --subword-samples: cuts text with it at random.
//
// The header reads such models but does neither: these are matters of their own, and this is the library for them.

#include "spm.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace {

// SentencePiece reserves U+2585: its trainer looks at no line that has one
const std::string reserved = "\xE2\x96\x85";

class Lines : public sentencepiece::SentenceIterator {
public:
    Lines(const char *(*next)(void *), void *user) : next_(next), user_(user) { Next(); }
    bool done() const override { return done_; }
    void Next() override
    {
        const char *line = next_(user_);
        done_ = line == nullptr;
        value_ = done_ ? "" : line;
        for (auto at = value_.find(reserved); at != std::string::npos; at = value_.find(reserved, at))
            value_.replace(at, reserved.size(), " ");
    }
    const std::string &value() const override { return value_; }
    sentencepiece::util::Status status() const override { return sentencepiece::util::Status(); }

private:
    const char *(*next_)(void *);
    void *user_;
    std::string value_;
    bool done_ = false;
};

}  // namespace

extern "C" int subwords_learn(const struct subwords_options *o, const char *(*next)(void *user), void *user,
                              char **model, size_t *bytes, char why[512])
{
    std::string learned, own;
    for (int32_t i = 0; i < o->sentinels; i++) own += ",<extra_id_" + std::to_string(i) + ">";
    for (int i = 0; i < o->n_symbols; i++) {
        own += ",\"";
        for (const char *c = o->symbols[i]; *c; c++) own += *c == '"' ? "\"\"" : std::string(1, *c);
        own += "\"";
    }
    if (o->tab) own += ",\t";
    if (o->line_end) own += ",\n";
    if (o->reserved) own += "," + reserved;
    Lines lines(next, user);
    // Every character of the text has a piece, the reserved one too; where there are fewer subwords than asked for,
    // there are fewer. There is no piece for the begin and the end of a text, and that of unknown ones reads as no
    // text that the trainer sees: it learns no character from a text that reads as such a piece ("</s>").
    std::unordered_map<std::string, std::string> options = {
        {"model_type", o->bpe ? "bpe" : "unigram"}, {"vocab_size", std::to_string(o->size)},
        {"character_coverage", "1.0"}, {"user_defined_symbols", own.empty() ? own : own.substr(1)},
        {"bos_id", "-1"}, {"eos_id", "-1"}, {"unk_piece", reserved + "unknown"}, {"max_sentence_length", "1000000"},
        {"max_sentencepiece_length", std::to_string(PIECE_CHARACTERS)},
        {"normalization_rule_name", o->rule}, {"add_dummy_prefix", o->verbatim ? "false" : "true"},
        {"remove_extra_whitespaces", o->blanks ? "false" : "true"},
        {"allow_whitespace_only_pieces", o->blanks && !o->verbatim ? "true" : "false"},
        {"hard_vocab_limit", o->bpe ? "true" : "false"}, {"minloglevel", "1"}};
    if (o->map) options["precompiled_charsmap"] = std::string(o->map, o->map_bytes);
    const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &learned);
    *model = nullptr;
    *bytes = learned.size();
    if (status.ok() && !learned.empty() && (*model = static_cast<char *>(std::malloc(learned.size()))) != nullptr) {
        std::memcpy(*model, learned.data(), learned.size());
        return 0;
    }
    std::snprintf(why, 512, "%s", status.ok() ? "out of memory" : status.ToString().c_str());
    return 1;
}

extern "C" int subwords_sample(const char *model, size_t bytes, double alpha, uint32_t seed,
                               const char *(*next)(void *user), void (*piece)(void *user, const char *text),
                               void *user, char why[512])
{
    sentencepiece::SentencePieceProcessor processor;
    auto status = processor.LoadFromSerializedProto(absl::string_view(model, bytes));
    sentencepiece::SetRandomGeneratorSeed(seed);
    // its random numbers belong to the thread, and begin with the seed in a new one
    std::thread cutter([&] {
        std::vector<std::string> pieces;
        const char *line;
        while (status.ok() && (line = next(user)) != nullptr) {
            status = processor.SampleEncode(line, -1, static_cast<float>(alpha), &pieces);
            for (const auto &one : pieces) piece(user, one.c_str());
            piece(user, nullptr);
        }
    });
    cutter.join();
    if (status.ok()) return 0;
    std::snprintf(why, 512, "%s", status.ToString().c_str());
    return 1;
}
