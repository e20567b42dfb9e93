// SPDX-License-Identifier: Apache-2.0
// What a model says of itself: plain data, validated, from whatever source it was read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/positions.h"

namespace locant {

struct NormSpec {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  bool gain = true;        ///< a learned factor (OLMo 1 has none)
  bool bias = true;        ///< a learned sum; layer norms only (Cohere has none)
  double gain_offset = 0;  ///< added to the stored factor (Gemma: 1)
};

struct EmbeddingSpec {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double scale = 1;                 ///< before the rounding that a recipe gives it
  std::string scale_key;            ///< the key that asks for it
  bool scale_in_run_dtype = false;  ///< the factor is a tensor of the dtype that the model runs in (Gemma)
  bool normed = false;              ///< a norm follows the lookup (BLOOM)
  std::optional<std::int64_t> padding_id;
  std::int64_t factorised_width = 0;  ///< width of the looked-up row before a projection (ALBERT); 0 = none
  std::int64_t token_types = 0;       ///< rows of the token-type table
};

struct HeadSpec {
  bool tied = false;
  std::string tied_key;  ///< the key that says so; empty = the family's default
  /// transformers' class ties the head whatever tie_word_embeddings says (T5).
  bool tied_regardless = false;
  bool bias = false;
  double scale = 1;       ///< logits are multiplied by it
  std::string scale_key;  ///< the key that asks for it; empty = the family's default
  double softcap = 0;     ///< logits become softcap * tanh(logit / softcap); 0 = none
  /// A dense layer, this activation and a layer norm stand before the table (masked-LM heads).
  std::optional<Activation> transform;
  /// A masked-LM head, which a checkpoint of the bare encoder lacks.
  bool masked = false;
};

struct MlpSpec {
  Activation activation = Activation::silu;
  bool gated = false;
  bool bias = false;
  std::int64_t width = 0;
  double limit = 7;  ///< of clamped_swiglu
};

/// A mixture of experts in place of the mlp, in some layers.
struct ExpertsSpec {
  std::int64_t count = 0;  ///< 0 = none
  std::int64_t chosen = 0;
  std::int64_t width = 0;         ///< of one expert
  std::int64_t shared_width = 0;  ///< of the expert that every token takes; 0 = none
  bool shared_gate = false;       ///< that expert's answer is multiplied by a sigmoid (Qwen2-MoE)
  bool bias = false;              ///< experts carry biases (gpt-oss)
  RouterScore router = RouterScore::softmax;
  bool router_bias = false;  ///< on the logits (gpt-oss)
  bool correction = false;   ///< learned addition for choosing alone (e_score_correction_bias)
  bool normalised = false;   ///< chosen weights are divided by their sum
  double scale = 1;          ///< on the chosen weights
  std::int64_t groups = 1;   ///< of experts, chosen first
  std::int64_t chosen_groups = 1;
  bool group_pairs = false;   ///< a group counts by its two best experts (V3), else by its best (V2)
  bool weighs_input = false;  ///< weights multiply what an expert reads, not what it gives (Llama 4)
  std::vector<bool> layers;   ///< [layers] which layers have experts
};

/// Multi-head latent attention (DeepSeek-V2, section 2.1). A head is `still` channels, then `rotating` ones.
struct LatentSpec {
  std::int64_t kv_rank = 0;  ///< 0 = plain attention
  std::int64_t q_rank = 0;   ///< 0 = queries come straight from the state
  std::int64_t still = 0;
  std::int64_t rotating = 0;
  std::int64_t value_width = 0;
};

/// A norm of queries and keys.
enum class QkNorm : std::uint8_t {
  none,
  head,       ///< over a head, one gain [head_dim] for all heads (Qwen 3, Gemma 3)
  own_heads,  ///< over a head, a gain for each head [heads, head_dim] (Cohere, StableLM)
  row,        ///< over all heads together, gain [heads * head_dim] (OLMo 2)
};
struct QkNormSpec {
  QkNorm kind = QkNorm::none;
  NormSpec norm{.kind = NormKind::rms};
  bool after_rotation = false;  ///< Hunyuan, Llama 4
  bool rotating_only = false;   ///< layers without a rotation have none (Llama 4)
};

/// Which linear layers of attention carry a bias.
struct ProjectionBiases {
  bool q = false;
  bool k = false;
  bool v = false;
  bool out = false;
  [[nodiscard]] static ProjectionBiases all() noexcept { return {true, true, true, true}; }
};

/// Where a branch (attention or mlp) is normed; several places may hold at once.
struct BranchNorms {
  bool before = true;  ///< what the branch reads
  bool after = false;  ///< what it gives, before that is added (Gemma 2, OLMo 2)
  bool sum = false;    ///< the state it was added to (BERT, the first Transformer)
};

enum class Branches : std::uint8_t {
  serial,       ///< attention, then the mlp on what attention left
  parallel,     ///< both read the layer's input, each behind its own norm (GPT-NeoX)
  shared_norm,  ///< both read the layer's input behind one norm (GPT-J, Falcon-7B, Cohere)
};

/// How a layer is put together.
struct BlockSpec {
  Branches branches = Branches::serial;
  BranchNorms attention;
  BranchNorms mlp;
  QkNormSpec qk_norm;
  ProjectionBiases biases;
  double clip_qkv = 0;           ///< q, k and v are held at +-this; 0 = not
  double branch_scale = 1;       ///< on what a branch gives before it is added (Granite)
  bool first_norm = true;        ///< false: the first layer's attention reads the state as it is (ModernBERT)
  bool final_norm = true;        ///< behind the last layer
  std::int64_t weight_sets = 0;  ///< layers that share weights (ALBERT): sets of them; 0 = each has its own
};

enum class AttentionKind : std::uint8_t {
  full,    ///< the whole past (or everything, when bidirectional)
  window,  ///< the last `window` tokens
  chunk,   ///< the tokens of its own chunk of `window` tokens
};
[[nodiscard]] std::string_view name_of(AttentionKind kind) noexcept;

struct AttentionSpec {
  double scale = 1;  ///< on q.k, 1/sqrt(head_dim) unless the config says otherwise
  AttentionKind kind = AttentionKind::full;
  std::int64_t window = 0;  ///< tokens, kinds window and chunk
  double softcap = 0;       ///< scores become softcap * tanh(score / softcap); 0 = none
  bool sinks = false;       ///< a learned logit per head joins the softmax (gpt-oss)
  bool bidirectional = false;
  bool attends = true;  ///< false: the layer holds something else (a state space, a convolution)
};

/// A stack beside the main one: an encoder, or the cross-attention of a decoder.
struct StackSpec {
  StackPositions positions;
  std::vector<AttentionSpec> attention;  ///< [layers of the stack]
  std::int64_t heads = 0;                ///< 0 = as in the main stack
  std::int64_t mlp_width = 0;            ///< 0 = as in the main stack
};

/// What a residual branch adds to: the layer's input, or the norm's output (BLOOM's
/// apply_residual_connection_post_layernorm).
enum class Residual : std::uint8_t { from_input, from_norm };

struct LengthSpec {
  std::optional<std::int64_t> trained;     ///< only where a key states it
  std::string trained_basis;               ///< that key
  std::optional<std::int64_t> configured;  ///< what the config offers
  std::string configured_key;
};

/// How much a finding weighs.
enum class Severity : std::uint8_t { note, warning, error };
[[nodiscard]] std::string_view name_of(Severity severity) noexcept;

/// A rule of the checker, and what its page (docs/rules/ID.md, `locant explain ID`) says.
struct Rule {
  std::string_view id;    ///< "C107"
  std::string_view name;  ///< "factor-against-lengths"
  Severity severity = Severity::note;
  std::string_view summary;      ///< one sentence: what is so where it speaks
  std::string_view needs;        ///< the evidence it reads
  std::string_view example;      ///< lines of such evidence
  std::string_view cannot_tell;  ///< what stays open where it speaks or is silent
  std::string_view fix;
};

/// Rules about what a config says (family C), by id; notes of readers and facts carry their ids.
[[nodiscard]] std::span<const Rule> config_rules() noexcept;

/// Something odd in what a model says, or a key that nobody reads.
struct Note {
  std::string text;    ///< one sentence
  std::string rule{};  ///< id of the rule that says more (`locant explain C103`); empty = none
  std::string key{};   ///< the dotted key it is about; empty = no single one
  std::optional<Severity> severity{};  ///< where it weighs less than its rule does
};

struct ModelSpec {
  std::string family;  ///< "llama", "gpt2", ...
  std::string format;  ///< "hf", "meta" (params.json), "llama2c" or "gguf"
  std::string path;    ///< of the config
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  EmbeddingSpec embedding;
  HeadSpec head;
  NormSpec norm;
  MlpSpec mlp;
  ExpertsSpec experts;
  LatentSpec latent;
  BlockSpec block;
  std::vector<AttentionSpec> attention;  ///< [layers]
  Residual residual = Residual::from_input;
  StackPositions positions;       ///< of the main stack: the decoder, or the only one
  std::vector<StackSpec> others;  ///< encoder and cross-attention beside a decoder
  LengthSpec lengths;
  std::optional<std::int64_t> bos;
  std::vector<std::int64_t> eos;
  std::optional<std::int64_t> decoder_start;  ///< the decoder's first token beside an encoder
  bool generic = false;  ///< an unknown family, read by the keys that most families share; run refuses it
  std::vector<Note> notes;
};

/// How a config is read.
enum class Reading : std::uint8_t {
  strict,  ///< for running: what is unknown or not understood is an error
  facts,   ///< for looking: unknown families and keys become notes, `generic` says so
};

/// How layers of a family are put together where no key says otherwise; a plain pre-norm block for a family
/// that has no row.
[[nodiscard]] BlockSpec family_block(std::string_view family) noexcept;

/// Families that read_hf_config() knows, sorted.
[[nodiscard]] std::vector<std::string_view> families();

/// Reads config.json of a Hugging Face model (transformers v4 and v5 forms). `path` is the file or its
/// directory. Throws FileError (missing, not JSON) and SpecError: an unknown model_type, a value of the wrong
/// type or range, a key that would change the result and is not understood; each names key, rule and value.
/// Under Reading::facts only broken JSON, wrong types and impossible sizes throw; the rest becomes notes.
[[nodiscard]] ModelSpec read_hf_config(const std::string& path, Reading reading = Reading::strict);

/// Reads params.json of Meta's and Mistral's own checkpoints. `path` is the file or its directory. Sizes it
/// does not state (Llama 1 and 2 leave vocab_size to the tokenizer) are 0, with a note. Throws as
/// read_hf_config() does for facts.
[[nodiscard]] ModelSpec read_meta_params(const std::string& path);

/// Reads the header of a llama2.c export, versions 0 to 2; the weights are not looked at. Throws FileError on
/// a file that is too short, another version, or sizes that no model has.
[[nodiscard]] ModelSpec read_llama2c(const std::string& path);

/// Reads the keys of a GGUF file, with llama.cpp's meaning and defaults, and what only tensors tell: the tie
/// and the biases by their names, the divisors of a rotation by their values. No other weight is read. The
/// family is the name that transformers gives it, of a text model alone where it has two; an architecture
/// that Locant does not know is read by the keys that most share (`generic`). `path` is the file or any part
/// of a split one. Throws FileError: damaged, a key that llama.cpp demands is missing, of another type, or no
/// size that a model has.
[[nodiscard]] ModelSpec read_gguf(const std::string& path);
/// Architectures that read_gguf() knows by name (general.architecture), sorted.
[[nodiscard]] std::vector<std::string_view> gguf_architectures();

}  // namespace locant
