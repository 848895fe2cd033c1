#!/bin/sh
# Brings C programs that were written for transformer.h 0.3 to today's names: sh tools/rename.sh FILE...
#
# A call that only changed its name, or takes one argument more, is rewritten. FILE.orig keeps the file as it was; an
# older FILE.orig is not replaced. Then it lists, with their lines, the names that are gone: tools/api-changes.md says
# what to write instead.

[ $# -gt 0 ] || { echo "usage: rename.sh FILE..."; exit 2; }
status=0
for file; do
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then echo "$file: not a file that can be read"; status=1; continue; fi
    awk '
    # The index of the parenthesis that closes the one at `at`, or 0. begin[1..n] and end[1..n]: its arguments. Commas
    # in parentheses, texts and comments do not count.
    function arguments(s, at,    depth, c, k, length_of) {
        n = 1; begin[1] = at + 1; length_of = length(s)
        for (k = at; k <= length_of; k++) {
            c = substr(s, k, 1)
            if (c == "\"" || c == "\047") {
                for (k++; k <= length_of && substr(s, k, 1) != c; k++) if (substr(s, k, 1) == "\\") k++
            } else if (substr(s, k, 2) == "/*") {
                while (k <= length_of && substr(s, k, 2) != "*/") k++
                k++
            } else if (index("([{", c)) depth++
            else if (index(")]}", c)) { if (--depth == 0) { end[n] = k - 1; return k } }
            else if (c == "," && depth == 1) { end[n] = k - 1; begin[++n] = k + 1 }
        }
        return 0
    }
    function argument(s, k) { s = substr(s, begin[k], end[k] - begin[k] + 1); sub(/^[ \t\n]+/, "", s); return s }
    # What stands in place of a call of `name` with n arguments, or "".
    function call(s, name,    k, list, one) {
        if (!((name, n) in now)) return ""
        split(now[name, n], form, " ")
        for (k = 1; k <= n; k++) {
            one = k == 1 && (name, n) in wrap ? wrap[name, n] "(" argument(s, k) ")" : argument(s, k)
            list = list (k > 1 ? ", " : "") (k == form[2] ? more[name, n] ", " : "") one
        }
        if (form[2] == n + 1) list = list (list == "" ? "" : ", ") more[name, n]
        return form[1] "(" list ")" form[3]
    }
    # was NAME COUNT NEW_NAME AT AFTER MORE: MORE, or NULL, becomes argument AT, if that is not 0; AFTER follows the
    # call
    function was(name, count, new_name, at, after, what) {
        now[name, count] = new_name " " at " " after; more[name, count] = what == "" ? "NULL" : what; known[name]
    }
    # read_by NAME COUNT NEW_NAME AT: the same; the first argument, a translator, becomes its reader
    function read_by(name, count, new_name, at) {
        was(name, count, new_name, at)
        wrap[name, count] = "trf_translator_reader"
    }
    BEGIN {
        # calls whose name has another meaning now: with so many arguments it is the old one
        fewer["trf_translate"] = 7
        fewer["trf_trainer_step"] = 1
        fewer["trf_vocab_load"] = 5
        was("trf_model_save", 3, "trf_model_save", 3)
        was("trf_checkpoint_save", 4, "trf_checkpoint_save", 4)
        was("trf_translate_batch", 3, "trf_translate", 3)
        was("trf_search_check", 2, "trf_search_check", 2)
        was("trf_packed_memory", 3, "trf_packed_memory", 4)
        was("trf_trainer_memory", 2, "trf_trainer_memory", 3)
        was("trf_translator_memory", 4, "trf_translator_memory", 5)
        was("trf_stage_memory", 5, "trf_stage_memory", 6)
        was("trf_layer_norm", 8, "trf_norm", 6, "", "TRF_NORM_STANDARD")
        was("trf_layer_norm_backward", 10, "trf_norm_backward", 8, "", "TRF_NORM_STANDARD")
        was("trf_attention", 8, "trf_attention", 7)
        was("trf_attention_backward", 12, "trf_attention_backward", 5)
        was("trf_multi_head_attention", 8, "trf_multi_head_attention", 7)
        was("trf_multi_head_attention_backward", 11, "trf_multi_head_attention_backward", 5)
        was("trf_hypothesis_at", 3, "trf_translator_answer", 0)
        was("trf_error_rate", 4, "trf_translator_error_rate", 0)
        was("trf_sampler_at", 2, "trf_sampler_answer", 0)
        was("trf_learn", 6, "trf_trainer_learn", 0)
        was("trf_trainer_learning", 1, "trf_trainer_learn_state", 0)
        read_by("trf_tag", 4, "trf_reader_classify", 0)
        read_by("trf_classify", 4, "trf_reader_classify", 0)
        read_by("trf_embed", 6, "trf_reader_embed", 0)
        read_by("trf_rank", 7, "trf_reader_rank", 0)
        read_by("trf_score", 4, "trf_reader_score", 3)
        was("trf_model_create", 3, "trf_model_create", 3)
        was("trf_model_source_vocab", 1, "trf_model_vocab", 2, "", "TRF_SOURCE")
        was("trf_model_target_vocab", 1, "trf_model_vocab", 2, "", "TRF_TARGET")
        was("trf_corpus_size", 1, "trf_corpus_facts", 0, "->pairs")
        was("trf_corpus_epoch", 1, "trf_corpus_facts", 0, "->epoch")
        was("trf_corpus_rewind", 1, "trf_corpus_resume", 2, "", "NULL, NULL")
        was("trf_join", 9, "trf_join", 6, "", "0")
        was("trf_train_step", 4, "trf_trainer_step", 0)
        was("trf_forward_backward", 4, "trf_trainer_forward_backward", 0)
        was("trf_optimizer_step", 3, "trf_trainer_update", 0)
        was("trf_evaluate", 4, "trf_trainer_evaluate", 3)
        was("trf_evaluate_all", 5, "trf_trainer_evaluate", 0)
        was("trf_dataset_stream", 1, "trf_dataset_results", 0, "->stream")
        was("trf_dataset_labels", 1, "trf_dataset_results", 0, "->labels")
        was("trf_dataset_lines", 1, "trf_dataset_results", 0, "->lines")
        was("trf_config_tiny", 1, "trf_config_preset", 2, "", "TRF_TINY")
        was("trf_config_base", 1, "trf_config_preset", 2, "", "TRF_BASE")
        was("trf_config_big", 1, "trf_config_preset", 2, "", "TRF_BIG")
        was("trf_trainer_parameter", 2, "trf_trainer_tensor", 2, "", "TRF_PARAMETER")
        was("trf_trainer_gradient", 2, "trf_trainer_tensor", 2, "", "TRF_GRADIENT")
        was("trf_trainer_averaged", 2, "trf_trainer_tensor", 2, "", "TRF_AVERAGE")
        was("trf_trainer_begin_average", 2, "trf_trainer_average", 2, "", "1")
        was("trf_dataset_recipe", 1, "trf_dataset_results", 0, "->recipe")
        was("trf_dataset_corpus", 1, "trf_dataset_results", 0, "->corpus")
        was("trf_dataset_held_out", 1, "trf_dataset_results", 0, "->held_out")
        was("trf_dataset_facts", 1, "trf_dataset_results", 0)
        was("trf_config_check", 2, "trf_config_check", 2)
        was("trf_count_weights", 3, "trf_config_check", 0)
        was("trf_config_set_conventions", 2, "trf_set_conventions", 2)
        was("trf_train_set_conventions", 2, "trf_set_conventions", 1)
        was("trf_vocab_encode", 6, "trf_vocab_encode", 3, "", "0")
        was("trf_vocab_encode_special", 6, "trf_vocab_encode", 3, "", "1")
        was("trf_dataset_read", 4, "trf_dataset_read", 4, "", "0")
        was("trf_dataset_read_held_out", 4, "trf_dataset_read", 4, "", "1")
    }
    { text = text $0 "\n" }
    END {
        while (match(text, /trf_[a-z0-9_]+\(/)) {
            name = substr(text, RSTART, RLENGTH - 1)
            before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""
            if (name in fewer && arguments(text, RSTART + RLENGTH - 1) && n == fewer[name])
                print FILENAME ": " name " with " n " arguments: see tools/api-changes.md" >"/dev/stderr"
            last = name in known && before !~ /[A-Za-z0-9_]/ ? arguments(text, RSTART + RLENGTH - 1) : 0
            made = last ? call(text, name) : ""
            if (made == "") { out = out substr(text, 1, RSTART + RLENGTH - 1); text = substr(text, RSTART + RLENGTH) }
            else {      # its arguments may have calls that were renamed too
                out = out substr(text, 1, RSTART - 1) substr(made, 1, index(made, "("))
                text = substr(made, index(made, "(") + 1) substr(text, last + 1)
            }
        }
        printf "%s", out text
    }' "$file" >"$file.renamed" || { rm -f "$file.renamed"; status=1; continue; }
    if cmp -s "$file" "$file.renamed"; then rm "$file.renamed"
    elif [ -e "$file.orig" ]; then
        echo "$file: $file.orig is there already: nothing is changed"
        rm "$file.renamed"
        status=1
    else
        cp -p "$file" "$file.orig" && cat "$file.renamed" >"$file" && rm "$file.renamed" || { status=1; continue; }
        echo "$file: calls renamed; $file.orig is the file before"
    fi
    gone='trf_attention_weights|trf_corpus_check|trf_noise_check|trf_(from|to)_padded|trf_join_texts|trf_hold_out'
    gone="$gone|trf_is_better|trf_is_perfect|trf_model_save_as"
    gone="$gone|trf_(model|checkpoint)_(save|load)_memory|trf_file_open_memory|trf_(model|file)_metadata_count"
    gone="$gone|trf_translate_(prefixed|texts|each)|trf_ema_[a-z]*"
    gone="$gone|trf_generator[a-z_]*|trf_attention_probabilities|trf_(layer_norm|multi_head_attention)_saved"
    gone="$gone|trf_multi_head_attention_probabilities|trf_(encode|logits|decode|project|look_inside|views)"
    gone="$gone|trf_(source|target)_rows"
    gone="$gone|trf_attention_(count|at)|trf_(translator|sampler)_create_ensemble|trf_ensemble_memory|trf_score_each"
    gone="$gone|trf_hypothesis_count|trf_model_pooling|ensemble_rule"
    gone="$gone|trf_vocab_from_[a-z_]*|trf_vocab_load_sentencepiece"
    gone="$gone|trf_model_create_(zeros|stage)|trf_corpus_open|trf_updater_(set_)?steps"
    gone="$gone|trf_build_info|trf_product_kernel|trf_shorten_pair|trf_vocab_make_[a-z_]*"
    gone="$gone|trf_hypothesis_text|trf_translator_answer_text"
    gone="$gone|trf_status_text"
    gone="$gone|trf_data_facts"
    gone="$gone|trf_model_memory|trf_weight_counts"
    gone="$gone|trf_file_count"
    gone="$gone|trf_token_file_defaults"
    gone="$gone|trf_sampling_check"
    gone="$gone|trf_corpus_add_chunks"
    gone="$gone|trf_search_limit"
    gone="$gone|trf_trainer_is_frozen"
    grep -n -w -E "($gone)" "$file" | sed "s|^|$file:|; s|\$|        <- see tools/api-changes.md|"
done
exit $status
