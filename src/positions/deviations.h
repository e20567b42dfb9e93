// SPDX-License-Identifier: Apache-2.0
// What each recipe does differently from `exact`, row by row, with where that was read or tested. A rule has
// a quirk that the mechanisms ask for; a row without one is about numbers, which Numerics holds.
#pragma once

#include <array>

#include "locant/recipe.h"

namespace locant::deviations {

inline constexpr std::array<Deviation, 17> kHf = {{
    {.touches = Touches::positions,
     .what =
         "rope frequencies are 1 / theta^(2i/rotary_dim) with every step in f32, and so are the schedules",
     .evidence = "transformers 5.24.0, models/llama/modeling_llama.py, compute_default_rope_parameters; "
                 "modeling_rope_utils.py, ROPE_INIT_FUNCTIONS",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "an angle is the f32 product of position and frequency: off by 1.4e-4 rad at position 4097 and "
             "5e-3 at 131071 (theta 500000, rotary_dim 128)",
     .evidence = "transformers 5.24.0, models/llama/modeling_llama.py, LlamaRotaryEmbedding.forward",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "cos and sin are computed in f32 and cast to the dtype the model runs in",
     .evidence = "transformers 5.24.0, models/llama/modeling_llama.py, LlamaRotaryEmbedding.forward",
     .tested_live = true,
     .quirk = Quirk::table_in_run_dtype},
    {.touches = Touches::positions,
     .what = "longrope with short_mscale and long_mscale (PhiMoE) changes the amplitude with the length and "
             "keeps the short factors",
     .evidence = "transformers 5.24.0, models/phimoe/modeling_phimoe.py, PhimoeRotaryEmbedding.forward",
     .tested_live = true,
     .quirk = Quirk::longrope_pair_keeps_short},
    {.touches = Touches::positions,
     .what = "without a schedule most families do not read partial_rotary_factor; with one, all do",
     .evidence = "transformers 5.24.0, compute_default_rope_parameters of 122 families against "
                 "modeling_rope_utils.py",
     .tested_live = true,
     .quirk = Quirk::partial_factor_ignored_by_default},
    {.touches = Touches::positions,
     .what = "sinusoidal tables in halves take frequencies, angles, sin and cos in f32",
     .evidence = "transformers 5.24.0, models/xglm/modeling_xglm.py and models/m2m_100/modeling_m2m_100.py, "
                 "get_embedding",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "sinusoidal tables of the paper take frequencies as exp(-2i ln(10000)/width), angles, sin and "
             "cos in f32",
     .evidence =
         "transformers 5.24.0, models/speecht5/modeling_speecht5.py, SpeechT5ScaledPositionalEncoding",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "the sinusoidal ladder of Marian and Pegasus is divided by half the width; both projects "
             "themselves divide by one less",
     .evidence =
         "transformers 5.24.0, models/marian/modeling_marian.py and models/pegasus/modeling_pegasus.py, "
         "create_weight; marian-dev c9f287db; google-research/pegasus 13fcf2b1, layers/timing.py",
     .tested_live = true,
     .quirk = Quirk::sinusoid_whole_half},
    {.touches = Touches::positions,
     .what = "alibi slopes are f32 powers of an f32 base",
     .evidence = "transformers 5.24.0, models/bloom/modeling_bloom.py, _get_alibi_slopes",
     .tested_live = true},
    {.touches = Touches::position_ids,
     .what = "generation counts positions over the ones of the mask and gives padding position 0",
     .evidence = "transformers 5.24.0, generation/utils.py, _prepare_position_ids_for_generation",
     .tested_live = true},
    {.touches = Touches::position_ids,
     .what = "text after a video continues from its rows and columns; its time positions do not count",
     .evidence = "huggingface/transformers c281a2de89 (2026-02-24), issue #45381; 5.24.0, "
                 "models/qwen2_vl/modeling_qwen2_vl.py, get_rope_index",
     .tested_live = true,
     .quirk = Quirk::next_position_ignores_time},
    {.touches = Touches::position_ids,
     .what =
         "a call without position ids counts from the left edge of a padded row; XGLM did not before 4.30",
     .evidence =
         "transformers 5.24.0, models/gpt2/modeling_gpt2.py, models/llama/modeling_llama.py, and since "
         "4.30.2 models/xglm/modeling_xglm.py",
     .tested_live = true,
     .quirk = Quirk::padding_counted},
    {.touches = Touches::positions,
     .what = "yarn does not read truncate from the block of one layer type and rounds the edges there",
     .evidence = "transformers 5.24.0, modeling_rope_utils.py, _compute_yarn_parameters",
     .tested_live = true,
     .quirk = Quirk::yarn_truncates_layer_types},
    {.touches = Touches::positions,
     .what = "yarn does not read extrapolation_factor",
     .evidence = "transformers 5.24.0, modeling_rope_utils.py, _compute_yarn_parameters",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_extrapolation_factor},
    {.touches = Touches::positions,
     .what = "slopes that are added before the scores are scaled, those of Falcon, are bf16 in every "
             "dtype, and so are their products with positions",
     .evidence = "transformers 5.24.0, models/falcon/modeling_falcon.py, build_alibi_tensor",
     .tested_live = true,
     .quirk = Quirk::slopes_bf16_before_scale},
    {.touches = Touches::positions,
     .what = "alibi of BLOOM is slope times key position, rounded to the dtype the model runs in: in bf16 "
             "neighbours at position 2047 differ by 0 or 8 where slope 0.707 says 0.707",
     .evidence = "transformers 5.24.0, models/bloom/modeling_bloom.py, build_alibi_tensor",
     .tested_live = true,
     .quirk = Quirk::bias_in_run_dtype},
    {.touches = Touches::head,
     .what =
         "the head of T5 and mT5 is the embedding whatever tie_word_embeddings says; false only leaves its "
         "logits unscaled",
     .evidence = "transformers 5.24.0, models/t5/configuration_t5.py and models/mt5/configuration_mt5.py, "
                 "__post_init__",
     .tested_live = true,
     .quirk = Quirk::head_tied_whatever_stated},
}};

inline constexpr std::array<Deviation, 10> kVllm = {{
    {.touches = Touches::positions,
     .what = "frequencies and angles are f32",
     .evidence = "vLLM 017e9f4448 (2026-08-17), model_executor/layers/rotary_embedding/base.py"},
    {.touches = Touches::positions,
     .what = "the table of cos and sin is kept in the dtype the model runs in, often bf16",
     .evidence = "vLLM 017e9f4448, rotary_embedding/base.py, cos_sin_cache",
     .quirk = Quirk::table_in_run_dtype},
    {.touches = Touches::positions,
     .what = "yarn does not read attention_factor, only attn_factor, a key of its own",
     .evidence = "vLLM 017e9f4448, rotary_embedding/__init__.py, get_rope; PRs #46280 and #48351",
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what =
         "yarn does not read mscale and mscale_all_dim: Ministral 3 gets 1.277 for 1.0 (DeepSeek's models "
         "have a class of their own that does)",
     .evidence = "vLLM 017e9f4448, rotary_embedding/__init__.py, get_rope; issue #48621",
     .quirk = Quirk::yarn_ignores_mscale_pair},
    {.touches = Touches::positions,
     .what = "yarn with position sections counts turns over four times the original length",
     .evidence = "vLLM 017e9f4448, rotary_embedding/mrope.py, MRotaryEmbedding.__init__",
     .quirk = Quirk::yarn_sections_quadruple_original},
    {.touches = Touches::positions,
     .what = "dynamic NTK never changes the base unless a checkpoint states max_trained_positions",
     .evidence = "vLLM 017e9f4448, rotary_embedding/dynamic_ntk_scaling_rope.py; PR #41277, issue #52665",
     .quirk = Quirk::dynamic_ntk_never},
    {.touches = Touches::positions,
     .what = "longrope chooses by the length the server was started for, once",
     .evidence = "vLLM 17d618b0, rotary_embedding/phi3_long_rope_scaled_rope.py; PR #27431",
     .quirk = Quirk::longrope_by_capacity},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence = "vLLM 17d618b0, rotary_embedding/phi3_long_rope_scaled_rope.py, __init__",
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "proportional rope does not read factor",
     .evidence = "vLLM 41c5903d, rotary_embedding/gemma4_rope.py",
     .quirk = Quirk::proportional_ignores_factor},
    {.touches = Touches::scale,
     .what =
         "the attention temperature of Ministral 3 is read from llama_4_scaling, not from rope_parameters",
     .evidence = "vLLM 017e9f4448, models/mistral.py, llama_4_scaling; issue #48621",
     .quirk = Quirk::temperature_needs_own_block},
}};

inline constexpr std::array<Deviation, 7> kSglang = {{
    {.touches = Touches::positions,
     .what = "frequencies and angles are f32; the table is f32 on CUDA",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/base.py"},
    {.touches = Touches::positions,
     .what = "yarn does not read attention_factor, only attn_factor, a key of its own",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/factory.py, get_rope",
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "dynamic NTK uses the base of factor times the trained length for every text, short ones too",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/rope_variant.py, "
                 "DynamicNTKScalingRotaryEmbedding",
     .quirk = Quirk::dynamic_ntk_from_start},
    {.touches = Touches::positions,
     .what = "longrope turns long one token later: a position, not a length, must be past the original",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/rope_variant.py, "
                 "Phi3LongRoPEScaledRotaryEmbedding.forward",
     .quirk = Quirk::longrope_one_later},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/factory.py, get_rope",
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "proportional rope does not read factor",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/rope_variant.py, Gemma4RotaryEmbedding",
     .quirk = Quirk::proportional_ignores_factor},
    {.touches = Touches::positions,
     .what = "position sections that do not add up to the pairs are stretched until they do",
     .evidence = "SGLang 0.5.23, srt/layers/rotary_embedding/mrope.py, MRotaryEmbedding.__init__",
     .quirk = Quirk::sections_rescaled},
}};

inline constexpr std::array<Deviation, 15> kLlamaCpp = {{
    {.touches = Touches::positions,
     .what = "on the CPU the angles of a position are a running f32 product over the pairs",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), ggml_rope_ext; "
                 "src/ggml-cpu/ops.cpp, ggml_rope_cache_init",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "yarn overwrites the attention factor of the file",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), a llama file with "
                 "yarn_attn_factor; src/llama-context.cpp, PR #17945",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "a file keeps mscale_all_dim alone; mscale is taken to be 1, in DeepSeek-2 the same, so that "
             "the amplitude is 1 wherever the published values agree",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), mistral3 files with "
                 "yarn_log_multiplier 1 and 0.5; src/llama-context.cpp, rope_yarn_log_mul; discussion #7416",
     .tested_live = true,
     .quirk = Quirk::yarn_mscale_is_mscale_all_dim},
    {.touches = Touches::positions,
     .what = "yarn always rounds the edges of the mixed pairs: pair 17 of gpt-oss turns 76 % too fast",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), ggml_rope_ext; src/ggml.c, "
                 "ggml_rope_yarn_corr_dims",
     .tested_live = true,
     .quirk = Quirk::yarn_always_truncates},
    {.touches = Touches::positions,
     .what = "Grok-2's rope type \"original\" is converted to yarn",
     .evidence = "llama.cpp 2026-04, convert_hf_to_gguf.py, GrokModel",
     .quirk = Quirk::yarn_reads_grok_original},
    {.touches = Touches::positions,
     .what = "dynamic NTK with a factor is not converted: the base is never changed (alpha is baked into it)",
     .evidence =
         "llama.cpp 2026-04, convert_hf_to_gguf.py; src/llama-hparams.h has none, linear, yarn, longrope",
     .quirk = Quirk::dynamic_ntk_never},
    {.touches = Touches::positions,
     .what = "longrope chooses by the context the runtime was opened with, once",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), a phi3 file opened for 1024 and "
                 "1280 tokens; src/llama-model.cpp, get_rope_factors",
     .tested_live = true,
     .quirk = Quirk::longrope_by_capacity},
    {.touches = Touches::positions,
     .what = "the converter computes longrope's amplitude from the lengths",
     .evidence = "llama.cpp 2026-04, convert_hf_to_gguf.py, Phi3MiniModel.generate_extra_tensors",
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what =
         "pairs that interleaved sections leave over follow a fourth axis, which is 0 in text: pairs 61 and "
         "62 of [24, 20, 20] never turn",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), ggml_rope_multi; "
                 "src/ggml-cpu/ops.cpp, ggml_mrope_cache_init; src/llama-graph.cpp",
     .tested_live = true,
     .quirk = Quirk::sections_fourth_axis},
    {.touches = Touches::scale,
     .what = "Gemma's embedding scale sqrt(hidden) is not rounded to bf16: up to 0.24 % away",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), a gemma file of width 640; "
                 "src/models/gemma.cpp, ggml_scale",
     .tested_live = true,
     .quirk = Quirk::embedding_scale_unrounded},
    {.touches = Touches::position_ids,
     .what = "text after an image or video continues from its rows and columns; time does not count",
     .evidence = "llama.cpp 2026-04, tools/mtmd/mtmd.cpp, mtmd_image_tokens_get_n_pos",
     .quirk = Quirk::next_position_ignores_time},
    {.touches = Touches::head,
     .what = "a MiniCPM file without logit_scale multiplies its logits by hidden/256 where it should divide",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), minicpm files with and without "
                 "logit_scale; src/models/minicpm.cpp, f_logit_scale",
     .tested_live = true,
     .quirk = Quirk::head_scale_inverted_by_default},
    {.touches = Touches::head,
     .what = "the logits of T5's tied head are not multiplied by 1/sqrt(hidden)",
     .evidence =
         "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), a t5 file without output.weight; "
         "src/models/t5.cpp, graph<false>",
     .tested_live = true,
     .quirk = Quirk::head_unscaled_when_tied},
    {.touches = Touches::mlp,
     .what =
         "every GELU is the tanh form, also where a model was published with erf (BERT, GPT-NeoX, Falcon, "
         "MPT, ModernBERT): up to 4.7e-4 away. On the CPU it is looked up by an f16 argument in a table of "
         "f16 values, which the recipe does not follow",
     .evidence = "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), ggml_gelu and files of those "
                 "models; src/llama-graph.cpp, build_ffn; src/ggml-cpu/vec.h, ggml_vec_gelu_f32",
     .tested_live = true,
     .quirk = Quirk::gelu_by_tanh},
    {.touches = Touches::mlp,
     .what = "groups of experts count by their two best, as in DeepSeek-V3; those of V2 count by the best",
     .evidence =
         "llama-cpp-python 0.3.36 (llama.cpp 0c1e5709, ggml 0.25.3), a deepseek2 file with groups and "
         "softmax; src/llama-graph.cpp, build_moe_ffn",
     .tested_live = true,
     .quirk = Quirk::expert_groups_by_pairs},
}};

inline constexpr std::array<Deviation, 10> kMlx = {{
    {.touches = Touches::positions,
     .what = "frequencies and angles are f32",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py; mlx 0.32.4, fast.rope",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "yarn does not read attention_factor",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, initialize_rope; PR #1507 (closed)",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "yarn's amplitude is g(mscale)/g(mscale_all_dim) with 1 and 0 where a config has none",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, YarnRoPE.__init__",
     .tested_live = true,
     .quirk = Quirk::yarn_mscale_defaults},
    {.touches = Touches::positions,
     .what = "yarn always rounds the edges of the mixed pairs",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, YarnRoPE, yarn_find_correction_range",
     .tested_live = true,
     .quirk = Quirk::yarn_always_truncates},
    {.touches = Touches::positions,
     .what = "yarn without an original length takes 4096",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, YarnRoPE.__init__",
     .tested_live = true,
     .quirk = Quirk::yarn_original_is_4096},
    {.touches = Touches::positions,
     .what = "telechat3-yarn is plain yarn: 0.1 ln(factor) for 0.07 ln(factor)",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, initialize_rope; vLLM d5a17e05, "
                 "telechat3_scaling_rope.py has 0.07",
     .tested_live = true,
     .quirk = Quirk::yarn_plain_telechat_magnitude},
    {.touches = Touches::positions,
     .what = "longrope uses the long factors for every text",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, SuScaledRoPE.__init__",
     .tested_live = true,
     .quirk = Quirk::longrope_always_long},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, SuScaledRoPE.__init__",
     .tested_live = true,
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "yarn does not read extrapolation_factor",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, YarnRoPE.__init__",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_extrapolation_factor},
    {.touches = Touches::positions,
     .what = "position sections are not read: every pair follows the one position of a token",
     .evidence = "mlx-lm 0.32.2, models/rope_utils.py, initialize_rope",
     .tested_live = true,
     .quirk = Quirk::sections_ignored},
}};

inline constexpr std::array<Deviation, 10> kTensorrtLlm = {{
    {.touches = Touches::positions,
     .what = "tables are computed with numpy in f32",
     .evidence = "TensorRT-LLM, tensorrt_llm/functional.py, RopeEmbeddingUtils"},
    {.touches = Touches::positions,
     .what = "yarn does not read attention_factor",
     .evidence = "TensorRT-LLM 000a01de, _torch/attention_backend/interface.py, RopeParams.from_config",
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "yarn's amplitude is g(mscale)/g(mscale_all_dim) with 1 and 0 where a config has none",
     .evidence = "TensorRT-LLM 000a01de, _torch/attention_backend/interface.py, RopeParams.from_config",
     .quirk = Quirk::yarn_mscale_defaults},
    {.touches = Touches::positions,
     .what = "yarn always rounds the edges of the mixed pairs",
     .evidence = "TensorRT-LLM, tensorrt_llm/functional.py, create_sinusoidal_positions_yarn",
     .quirk = Quirk::yarn_always_truncates},
    {.touches = Touches::positions,
     .what = "yarn without an original length takes 1024",
     .evidence = "TensorRT-LLM 000a01de, _torch/attention_backend/interface.py, RopeParams.from_config",
     .quirk = Quirk::yarn_original_is_1024},
    {.touches = Touches::positions,
     .what = "dynamic NTK needs alpha; a factor that follows the length is refused",
     .evidence = "TensorRT-LLM, tensorrt_llm/functional.py, RopeEmbeddingUtils",
     .quirk = Quirk::dynamic_ntk_refused},
    {.touches = Touches::positions,
     .what = "longrope chooses by the length the engine was built for",
     .evidence = "TensorRT-LLM 000a01de, tensorrt_llm/functional.py, "
                 "create_sinusoidal_positions_long_rope_for_attention_plugin",
     .quirk = Quirk::longrope_by_capacity},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence = "TensorRT-LLM 000a01de, tensorrt_llm/functional.py, "
                 "create_sinusoidal_positions_long_rope_for_attention_plugin",
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "yarn does not read extrapolation_factor",
     .evidence = "TensorRT-LLM 000a01de, _torch/attention_backend/interface.py, RopeParams.from_config",
     .quirk = Quirk::yarn_ignores_extrapolation_factor},
    {.touches = Touches::positions,
     .what = "rotary_emb_base is taken for rotary_dim where the latter is not stated (GPT-NeoX)",
     .evidence = "TensorRT-LLM 000a01de, _torch/attention_backend/interface.py, RopeParams.from_config",
     .quirk = Quirk::base_taken_for_width},
}};

inline constexpr std::array<Deviation, 10> kCtranslate2 = {{
    {.touches = Touches::positions,
     .what = "frequencies and angles are f32",
     .evidence = "CTranslate2 4.8.5, Generator.forward_batch of a converted llama; src/layers/attention.cc, "
                 "RotaryEmbeddings::initialize",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "the converter refuses yarn",
     .evidence = "CTranslate2 4.8.5, converters/transformers.py, get_rotary_params",
     .tested_live = true,
     .quirk = Quirk::yarn_refused},
    {.touches = Touches::positions,
     .what = "the converter refuses dynamic NTK",
     .evidence = "CTranslate2 4.8.5, converters/transformers.py, get_rotary_params",
     .tested_live = true,
     .quirk = Quirk::dynamic_ntk_refused},
    {.touches = Touches::positions,
     .what = "the converter refuses proportional rope",
     .evidence = "CTranslate2 4.8.5, converters/transformers.py, get_rotary_params",
     .tested_live = true,
     .quirk = Quirk::proportional_refused},
    {.touches = Touches::positions,
     .what = "longrope chooses by the rows of its table: 2048, or the tokens of a longer text; decoding past "
             "them adds 2048",
     .evidence = "CTranslate2 4.8.5, Generator.forward_batch; src/layers/attention.cc, "
                 "RotaryEmbeddings::apply and initialize",
     .tested_live = true,
     .quirk = Quirk::longrope_by_table},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence =
         "CTranslate2 4.8.5, Generator.forward_batch; src/layers/attention.cc, RotaryEmbeddings::initialize",
     .tested_live = true,
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "the ratio of longrope's lengths is rounded down to a whole number",
     .evidence =
         "CTranslate2 4.8.5, Generator.forward_batch; src/layers/attention.cc, RotaryEmbeddings::initialize",
     .tested_live = true,
     .quirk = Quirk::longrope_whole_ratio},
    {.touches = Touches::positions,
     .what = "llama3 scales nothing: the converter has no place for the factor",
     .evidence =
         "CTranslate2 4.8.5, specs/attention_spec.py, rotary_scaling_factor; converters/transformers.py, "
         "LlamaLoader",
     .tested_live = true,
     .quirk = Quirk::llama3_ignores_factor},
    {.touches = Touches::positions,
     .what = "Marian's converted sinusoidal ladder is divided by half the width; Marian itself divides by "
             "one less",
     .evidence =
         "CTranslate2 4.8.5, converters/marian.py, _make_sinusoidal_position_encodings; marian-dev c9f287db",
     .tested_live = true,
     .quirk = Quirk::sinusoid_whole_half},
    {.touches = Touches::positions,
     .what = "sinusoidal tables made at run time start at position 1",
     .evidence = "CTranslate2 4.8.5, Encoder.forward_batch; src/layers/common.cc, SinusoidalPositionEncoder",
     .tested_live = true,
     .quirk = Quirk::sinusoid_starts_at_one},
}};

inline constexpr std::array<Deviation, 8> kOnnxruntime = {{
    {.touches = Touches::positions,
     .what = "tables are computed with torch in f32 when the graph is built",
     .evidence =
         "onnxruntime-genai 0.18.0, models/builders/base.py, make_rotary_embedding_caches_from_scratch; "
         "onnxruntime 1.32.0, RotaryEmbedding and GroupQueryAttention",
     .tested_live = true},
    {.touches = Touches::positions,
     .what = "yarn never rounds the edges of the mixed pairs",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/base.py, make_inv_freq_rescaled_with_ntk",
     .tested_live = true,
     .quirk = Quirk::yarn_never_truncates},
    {.touches = Touches::positions,
     .what = "yarn does not read attention_factor",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/base.py, make_rope_init",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "yarn with mscale and without mscale_all_dim takes mscale itself as the amplitude",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/base.py, make_mscale",
     .tested_live = true,
     .quirk = Quirk::yarn_mscale_alone_is_amplitude},
    {.touches = Touches::positions,
     .what = "longrope takes its amplitude from the lengths and reads neither attention_factor nor factor",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/phi.py, make_rope_init",
     .tested_live = true,
     .quirk = Quirk::longrope_ignores_attention_factor},
    {.touches = Touches::positions,
     .what = "proportional rope does not read factor",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/gemma.py, make_proportional_rope_caches",
     .tested_live = true,
     .quirk = Quirk::proportional_ignores_factor},
    {.touches = Touches::positions,
     .what =
         "the builder refuses dynamic NTK (Hunyuan's alpha is baked into the base; a llama is built as if "
         "it had no schedule but llama3)",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/base.py, make_rope_init; builders/hunyuan.py, "
                 "builders/llama.py",
     .tested_live = true,
     .quirk = Quirk::dynamic_ntk_refused},
    {.touches = Touches::positions,
     .what = "yarn does not read extrapolation_factor",
     .evidence = "onnxruntime-genai 0.18.0, models/builders/base.py, make_inv_freq_rescaled_with_ntk",
     .tested_live = true,
     .quirk = Quirk::yarn_ignores_extrapolation_factor},
}};

}  // namespace locant::deviations
