// -----------------------------------------------------------------------------------------------
// >>manual         where to start, words, errors, threads, GPUs, more programs
//
// WHERE TO START
//   Texts become ids, ids become batches, batches train a model, and a model answers:
//
//     texts --> trf_dataset --> trf_corpus --> trf_batch --> trf_trainer --> trf_model
//
//     trf_model --> trf_reader        labels, vectors, scores, hidden states, attention
//               --> trf_translator    answers by search
//               --> trf_sampler       answers by drawing tokens
//               --> a file
//
//     you want to                                  call
//     translate with a trained model               trf_model_load, trf_translate_text
//     continue a text                              trf_model_load, trf_sampler_create
//     classify texts, tag words                    trf_model_load, trf_reader_classify
//     classify pairs of texts                      trf_config.segments, trf_join
//     translate between many languages             trf_search_languages
//     answer with several models at once           trf_search.ensemble
//     train on texts, without settings             trf_dataset_create, trf_dataset_train
//     train on ids, with your own loop             trf_corpus_create, trf_trainer_step
//     train on more than fits in memory            trf_token_file_create, trf_corpus_options
//     train on several machines                    trf_train_options.all_reduce
//     divide a model among machines                trf_model_options, trf_stage_create
//     continue a training run                      trf_checkpoint_load
//     start from a trained model                   trf_model_load, or trf_model_copy_weights
//     load weights from PyTorch                    trf_model_load with trf_load_options.config
//     see attention, hidden states, logits         trf_reader_read
//     translate faster, with less memory           trf_search.weights, trf_model_pack
//     ship a smaller file                          trf_model_save with TRF_WEIGHTS_INT8
//     build another architecture                   the blocks (>>api-blocks), trf_updater
//
// WORDS
//   These are the terms of the comments below. Objects have their struct's name in brackets.
//
//   Text
//     token          a word, a character or a subword; one unit of a sequence
//     id             index of a token in its vocabulary
//     special ids    pad, bos, eos and unk. BOS and EOS begin and end sequences; unk stands for
//                    every unknown token
//     vocabulary     the tokens of one side [trf_vocab]
//     sequence       ids one after another: a sentence, a name, a text
//     side           source or target: what a model reads or what it predicts
//     pair           a source and its target
//     prompt         the text that a decoder-only model or a sampler continues
//     prefix         the tokens with which a translator's answer is forced to begin
//
//   Models
//     model          a configuration, its weights and its vocabularies [trf_model]
//     preset         a configuration of a usual size (trf_config_preset)
//     conventions    the choices in which PyTorch, the paper and other systems differ
//     head           1. one of the h parts of attention. 2. trf_head, the last layer of an
//                    encoder-only model
//     generator      the output projection from hidden states to the logits of a vocabulary, as in
//                    The Annotated Transformer; "generator.weight" in files
//     gain           the factor of a norm ("weight" in PyTorch)
//     tied           two matrices are one parameter
//     block          one part of the architecture as a function (>>api-blocks)
//
//   Batches
//     row            one token of a batch, as one line of a matrix. A sequence of n ids has n rows,
//                    or n + 1 if the library adds EOS
//     batch          the pairs of one call [trf_batch]
//     corpus         pairs of ids, in memory or in a token file, delivered as batches [trf_corpus]
//     token file     pairs of ids on a disk [trf_token_file]
//     epoch          one pass over a corpus
//     part           some pairs of a batch, used as a batch of their own: the share of one rank
//                    [trf_batch_part]
//     position       1. of a token in its sequence, from 0. 2. of a batch in its corpus: the
//                    numbers of its epoch and batch [trf_place]
//     ordinal        of a part: how many of the update's pairs are on lower ranks. Dropout and
//                    noise depend on it, so that parts are computed like the whole batch
//     noise          masks, spans and prefixes for self-supervised training [trf_noise]
//     sentinel       an id that marks a span of noise
//
//   Training
//     trainer        gradients, optimizer and activations of one model [trf_trainer]
//     update         one change of the weights, or an attempt that was skipped. In the names of a
//                    trainer's calls, `step` means the same
//     micro-batch    one of several batches that are used for the same update
//     stage          some layers of a model, on one of several processes or devices [trf_stage]
//     slot           of a stage: a micro-batch between its forward and its backward pass
//     rank           1. number of a process or machine that trains with others. 2. number of a
//                    tensor's dimensions. 3. position in a list of answers, 0 is the best
//     held-out       (pairs) for validation only: training does not see them
//     recipe         all options, chosen from the data [trf_recipe]
//     checkpoint     a file from which training continues, bit for bit as if it had not stopped
//     updater        the optimizer alone [trf_updater]
//
//   Answers
//     reader         forward passes with one model [trf_reader]
//     translator     a search over one model [trf_translator]
//     sampler        draws tokens from one model [trf_sampler]; its session can be saved
//     ensemble       a reader, a translator or a sampler of several models (>>api-read)
//     step           of a search or a sampler: adds one token to each answer
//     hypothesis     a candidate answer, finished or live [trf_hypothesis]
//     teacher-forced the decoder reads the given target, not its own answer
//     nats           unit of log-probabilities: natural logarithm
//
//   Machines
//     device         CPU or GPU, with its threads [trf_device]
//     op             one operation of a layer, such as a matrix product or a norm
//     column         all ops, compiled for one device or instruction set (TRF_COLUMN)
//     level          the ops for one width of vectors, of several in one compile (>>levels)
//     hook           your function that the library calls [trf_hooks]
//     context        where blocks run [trf_context]
//
// PUBLISHED MODELS
//   `trf import` converts a Hugging Face model to a model file. `trf export` converts a model file
//   to a folder that transformers loads. A program that loads such weights itself needs these
//   fields of trf_config and a vocabulary of the right kind (>>api-vocab). trf_model_load with
//   trf_load_options.config loads weights that have this library's names.
//
//     model     kind              norms                 positions        feed-forward
//     BERT      encoder-only      post, embedding_norm  LEARNED          GELU
//     Marian    encoder-decoder   post                  HALVES           SiLU
//     BART      encoder-decoder   post, embedding_norm  LEARNED, from 2  GELU
//     T5        encoder-decoder   pre, RMS              RELATIVE         ReLU; 1.1: GELU_TANH, gate
//     GPT-2     decoder-only      pre                   LEARNED          GELU_TANH
//     Llama     decoder-only      pre, RMS              ROTARY           SiLU, gate
//
//     BERT      segments 2; source_bos 1 ([CLS]); head_layer 1 with its heads; mask: [MASK]; both
//               losses of its pretraining: sequence_labels 2; a cross-encoder: head FIRST, n_labels
//               1, label_kind ANY or NUMBERS [trf_reader_rank]
//     Marian    tying ALL; generator_bias 1; decoder_start PAD; bos -1
//     BART      tying ALL; source_bos 1; decoder_start EOS; answers begin with BOS: forced_first in
//               a search, the first id of each target in training
//     T5        no biases; attention_scale 1; d_head; tying ALL with scale_logits 1, or 1.1: tying
//               EMBEDDINGS; decoder_start PAD; bos -1
//     GPT-2     tying DECODER; no generator_bias; bos = eos; pad and unk -1; bare_prompts 1
//     Llama     no biases; kv_heads; untied, or tying DECODER; 3.1: rotary_trained. Qwen 2 and
//               SmolLM: bare_prompts 1; Qwen 2: qkv_bias 1
//     All but Marian have scale_embeddings 0. final_norm: BOTH with pre-norm, NONE with post-norm.
//     Pegasus is Marian with pre-norm; Megatron-BERT is BERT with pre-norm and without
//     embedding_norm.
//
// ERRORS
//   Every call that can fail returns 0 (TRF_OK) or a negative trf_status, and fills a trf_error in
//   the caller's memory. The library never ends the program and never prints.
//
//     if (trf_model_load(&model, "de-en.safetensors", NULL, &err)) {
//         if (err.status == TRF_E_IO && err.sys_errno == ENOENT) puts("train a model first");
//         else fprintf(stderr, "%s\n", err.message);      /* the field, and what was expected */
//         return 1;
//     }
//
//   A failing call leaves objects and arrays as they were (trf_error has the rule and its
//   exceptions): correct the cause and call again. Statuses that programs usually branch on:
//
//     TRF_E_END          the corpus is finished: leave the loop
//     TRF_E_CANCELLED    your cancel hook stopped the call: save a checkpoint, or call again
//     TRF_E_LIMIT        a size is beyond a limit. If your buffer is too small, *n or *bytes is the
//                        size that you need
//     TRF_E_NOMEM        no memory: lower batch_tokens or max_sentences, or set recompute
//     TRF_E_IO           err.sys_errno is the reason
//     TRF_E_BACKEND      there is no GPU, or it failed; err.message has the reason
//
// THREADS
//   Calls do not lock objects. An object may move from one thread to another between calls.
//
//     object                               threads at the same time
//     trf_model, read (1)                  any number
//     trf_model, changed (2)               one, while no other thread uses the model
//     trf_vocab, finished                  any number
//     trf_vocab, learning or growing (3)   one
//     trf_trainer, trf_stage               one
//     trf_reader, trf_translator,          one per object; several objects that share a model may
//     trf_sampler                          compute at the same time
//     trf_corpus, trf_noise, trf_dataset   one
//     trf_token_file, trf_updater          one
//     trf_context, trf_file                one
//     calls that take no object            any number
//
//     (1) by its readers, translators and samplers, trf_model_copy, trf_model_save, views of
//         parameters
//     (2) by a step of its trainer, trf_model_set_vocabs, trf_model_set_metadata,
//         trf_model_average, trf_model_copy_weights, trf_model_pack, writing weights through a
//         view
//     (3) trf_vocab_learn, trf_vocab_finish, trf_vocab_add
//
//   To serve many requests, share one model, and give each thread a translator with threads = 1.
//   Two translators of a tiny model are up to a third faster than one with two threads. After
//   trf_model_pack all readers, translators and samplers read the same packed weights.
//   To translate during training, make a trf_model_copy between two steps.
//
// GPUS
//   The CUDA backend has run on one card, an H200 with CUDA 13.0, except today's attention kernels;
//   speed and limits are in tools/bench/gpu.md. Elsewhere the tests run the source of its kernels
//   on the CPU.
//
//   1. Build with one of the two nvcc lines of the first page. -arch=sm_90 is for an H100 or
//      H200; use your card's number.
//   2. Choose the model's device. Its trainers, readers, translators and samplers compute there.
//
//        config.device.kind = TRF_DEVICE_CUDA;               /* a new model, or */
//        loading.device.kind = TRF_DEVICE_CUDA;              /* trf_load_options, for a file */
//        config.device.precision = TRF_PRECISION_BF16;       /* faster; weights stay float32 */
//
//   3. A program that also runs without a GPU tries the CPU after TRF_E_BACKEND. Files do not
//      store the device: a model trained on a GPU runs on a CPU, and vice versa.
//   4. On a GPU, `data` is NULL in a parameter's trf_tensor: use trf_tensor_read and
//      trf_tensor_write.
//   `make cuda` builds the examples and `trf` for GPUs; `trf train --device cuda` uses one.
//
// MORE PROGRAMS
//   The program of the first page goes from text to text. The folder examples of a checkout has
//   others, each complete in one file:
//
//     generate.c   a language model, which learns from texts alone and writes more of them
//     classify.c   labels for texts
//     copy.c       a training loop of your own, on batches of ids
//     resume.c     training that continues from a checkpoint, and which errors to handle
//
//   examples/README.md lists all.
//
// VERSIONS
//   All versions 1.x [TRF_VERSION, trf_version] keep three promises:
//
//     programs   what compiles with 1.0 compiles with a later version and means the same. A struct
//                of options may get more fields, whose defaults do what 1.0 does, and an enum more
//                values. So begin with the ..._defaults call, or with zeros if there is none, and
//                set fields by their names. Names with trf__ or TRF__ are private
//     files      every version loads the models, checkpoints and sessions of all earlier ones,
//                0.2 included, and token files since 0.3. A packed file is a cache: another
//                version may refuse it, with the command that makes it again
//     bits       the same version, compiler, kind of processor, options and data give the same
//                bits with any number of threads (trf_products has the exceptions). A later
//                version may change last bits; tools/api-changes.md says where
// -----------------------------------------------------------------------------------------------
