// SPDX-License-Identifier: Apache-2.0
// params.json as Meta writes it beside its own checkpoints (Llama 1 to 4) and as Mistral does. Both keep q
// and k so that adjacent channels pair; the keys differ from Hugging Face's.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "formats/json.h"
#include "locant/spec.h"
#include "spec/config_lint.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Meta's default width: two thirds of 4 dim, times a factor, up to the next multiple.
std::int64_t mlp_width(Config& config, const ModelSpec& spec) {
  if (const auto width = config.integer({"hidden_dim", "intermediate_size"}, 1)) return *width;
  const std::int64_t multiple = config.integer({"multiple_of"}, 1).value_or(256);
  const double factor = config.number({"ffn_dim_multiplier"}).value_or(1);
  if (!(factor > 0 && factor < 1e3)) config.fail("ffn_dim_multiplier", "a number above 0 and below 1000");
  const std::int64_t whole = 8 * spec.hidden / 3;
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(whole));
  return (width + multiple - 1) / multiple * multiple;
}

void read_sizes(Config& config, ModelSpec& spec) {
  const auto vocab = config.integer({"vocab_size"}, -1).value_or(-1);
  if (vocab < 1) config.note(fmt::format("{}: vocab_size is left to the tokenizer", config.path()));
  spec.vocab = vocab < 1 ? 0 : vocab;
  spec.hidden = config.required_integer({"dim"}, 1);
  spec.layers = config.required_integer({"n_layers"}, 1);
  if (spec.layers > kMostLayers) config.fail("n_layers", fmt::format("at most {}", kMostLayers));
  spec.heads = config.required_integer({"n_heads"}, 1);
  spec.kv_heads = config.integer({"n_kv_heads"}, 1).value_or(spec.heads);
  if (spec.heads % spec.kv_heads != 0)
    config.fail("n_kv_heads", fmt::format("a divisor of the {} heads", spec.heads));
  if (const auto head_dim = config.integer({"head_dim"}, 1)) {
    spec.head_dim = *head_dim;
  } else {
    if (spec.hidden % spec.heads != 0)
      config.fail("dim", fmt::format("a multiple of the {} heads", spec.heads));
    spec.head_dim = spec.hidden / spec.heads;
  }
  spec.mlp = {.activation = Activation::silu, .gated = true, .bias = false, .width = mlp_width(config, spec)};
}

// use_scaled_rope: what Llama 3.1 was published with; Llama 4 states factor and high_freq_factor.
void scale_as_llama3(Config& config, PositionSpec& rope) {
  rope.mechanism = "llama3";
  rope.set("factor", config.number({"rope_scaling_factor"}).value_or(8),
           config.stated({"rope_scaling_factor"}));
  rope.set("low_freq_factor", 1.0);
  rope.set("high_freq_factor", config.number({"rope_high_freq_factor"}).value_or(4),
           config.stated({"rope_high_freq_factor"}));
  rope.set("original_length", std::int64_t{8192});
}

// Mistral's block; beta is YaRN's beta_fast, alpha its beta_slow. Without apply_scale the amplitude is 1.
void scale_as_mistral(Config& yarn, PositionSpec& rope) {
  rope.mechanism = "yarn";
  const auto copy = [&](std::string_view key, std::string name) {
    if (const auto value = yarn.number({key})) rope.set(std::move(name), *value, yarn.stated({key}));
  };
  copy("factor", "factor");
  copy("original_max_position_embeddings", "original_length");
  copy("beta", "beta_fast");
  copy("alpha", "beta_slow");
  if (!yarn.flag({"apply_scale"}).value_or(true))
    rope.set("attention_factor", 1.0, yarn.stated({"apply_scale"}));
  if (rope.find("factor") == nullptr)
    throw SpecError(fmt::format("{}: yarn.factor must be stated, it is missing", yarn.path()));
}

PositionSpec read_rotation(Config& config, const ModelSpec& spec) {
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("head_dim", spec.head_dim);
  rope.set("pairing", std::string("interleaved"));
  rope.set("theta", config.number({"rope_theta"}).value_or(10000), config.stated({"rope_theta"}));
  if (config.flag({"use_scaled_rope"}).value_or(false)) scale_as_llama3(config, rope);
  if (std::optional<Config> yarn = config.object("yarn")) scale_as_mistral(*yarn, rope);
  return rope;
}

std::optional<PositionSpec> read_temperature(Config& config) {
  PositionSpec temperature{.mechanism = "attention_temperature", .parameters = {}};
  std::optional<Config> block = config.object("llama_4_scaling");
  if (!block) return std::nullopt;
  const auto beta = block->number({"beta"});
  if (!beta) return std::nullopt;
  temperature.set("scale", *beta, block->stated({"beta"}));
  const Keys original = {"original_max_position_embeddings"};
  if (const auto floor = block->number(original)) temperature.set("floor", *floor, block->stated(original));
  temperature.set("shift", std::int64_t{0});
  return temperature;
}

// Every nope_layer_interval-th layer of Llama 4 has no rotation, a temperature and no chunks.
void set_layers(Config& config, ModelSpec& spec) {
  const PositionSpec rope = read_rotation(config, spec);
  const std::optional<PositionSpec> temperature = read_temperature(config);
  const std::int64_t interval = config.integer({"nope_layer_interval"}, 1).value_or(0);
  const std::int64_t chunk = config.integer({"attention_chunk_size"}, 1).value_or(0);
  const std::int64_t window = config.integer({"sliding_window"}, 1).value_or(0);
  const bool tuned = config.flag({"attn_temperature_tuning"}).value_or(false);
  PositionSpec tuning{.mechanism = "attention_temperature", .parameters = {}};
  tuning.set("scale", config.number({"attn_scale"}).value_or(0.1), config.stated({"attn_scale"}));
  tuning.set("floor", config.number({"floor_scale"}).value_or(8192), config.stated({"floor_scale"}));
  tuning.set("shift", std::int64_t{1});
  spec.positions.layers.clear();
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    const bool rotates = interval == 0 || (layer + 1) % interval != 0;
    std::vector<PositionSpec> positions;
    if (rotates) positions.push_back(rope);
    if (!rotates && tuned) positions.push_back(tuning);
    if (temperature) positions.push_back(*temperature);
    spec.positions.layers.push_back(std::move(positions));
    AttentionSpec& attention = spec.attention[static_cast<std::size_t>(layer)];
    if (chunk > 0 && rotates) {
      attention.kind = AttentionKind::chunk;
      attention.window = chunk;
    } else if (window > 0) {
      attention.kind = AttentionKind::window;
      attention.window = window;
    }
  }
}

}  // namespace

ModelSpec read_meta_params(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? (fs::path(path) / "params.json").string() : path;
  Json json = read_json(file);
  if (!json.is_object()) throw SpecError(fmt::format("{}: params must be a JSON object", file));
  Config config(file, std::move(json));
  config.tolerate();

  ModelSpec spec;
  spec.family = "llama";
  spec.format = "meta";
  spec.path = file;
  read_sizes(config, spec);
  spec.norm = {.kind = NormKind::rms, .eps = config.number({"norm_eps"}).value_or(1e-5)};
  spec.embedding.rows = spec.vocab;
  spec.embedding.width = spec.hidden;
  spec.head.tied = config.flag({"tied_embeddings", "share_embeddings"}).value_or(false);
  spec.head.tied_key = config.stated({"tied_embeddings", "share_embeddings"});
  spec.attention.assign(static_cast<std::size_t>(spec.layers),
                        {.scale = 1 / std::sqrt(static_cast<double>(spec.head_dim))});
  set_layers(config, spec);
  const Keys length = {"max_position_embeddings", "max_seq_len"};
  if (const auto stated = config.integer(length, 1)) {
    spec.lengths.configured = stated;
    spec.lengths.configured_key = config.stated(length);
  }
  spec.notes = config.notes();
  for (Note& note : judge_unread(config, HfFamily{.name = "meta"})) spec.notes.push_back(std::move(note));
  judge_lengths(spec);
  return spec;
}

}  // namespace locant
