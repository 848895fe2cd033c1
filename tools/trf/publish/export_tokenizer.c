// trf export: the tokenizer. Its kind decides which files it has.

#include "export.h"

static int write_side(const struct tokenizer *t, int side, const char *in)
{
    switch (trf_vocab_kind(t->side[side].vocab)) {
    case TRF_SENTENCEPIECE: return write_pieces(t, side, in);
    case TRF_WORDPIECE: return write_word_piece(t, side, in);
    case TRF_BYTE_BPE: return write_byte_bpe(t, side, in);
    default: return write_levels(t, side, in);
    }
}

int write_tokenizer(const struct tokenizer *t)
{
    const trf_vocab *source = t->side[0].vocab, *target = t->side[1].vocab;
    int done = 0;
    if (!source && !target) {
        inform_line("the model has no vocabulary: no tokenizer is written");
        return DONE;
    }
    if (t->languages->codes) return write_languages(t);
    if (!strcmp(t->recipe->type, "xlm-roberta") && trf_vocab_kind(source) == TRF_SENTENCEPIECE &&
        write_xlm_roberta(t, &done))
        return FAILED;
    if (done) return DONE;
    if (!strcmp(t->recipe->type, "qwen2") && target && trf_vocab_kind(target) != TRF_BYTE_BPE)
        inform_line("AutoTokenizer takes Qwen's own tokenizer for a qwen2: load this one by "
                    "PreTrainedTokenizerFast");
    if (!source) return write_side(t, 1, "");
    if (!target) return write_side(t, 0, "");
    /* Marian's tokenizer has a SentencePiece model for each side */
    if (trf_vocab_kind(source) == TRF_SENTENCEPIECE && trf_vocab_kind(target) == TRF_SENTENCEPIECE)
        return write_pieces(t, 0, "");
    inform_line("two vocabularies: the target's tokenizer is in the folder " TARGET_FOLDER);
    return write_side(t, 0, "") || write_side(t, 1, TARGET_FOLDER "/") ? FAILED : DONE;
}
