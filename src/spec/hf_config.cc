// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face model -> ModelSpec, by the row of its family.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/nearest.h"
#include "formats/json.h"
#include "locant/spec.h"
#include "spec/config.h"
#include "spec/hf_family.h"

namespace locant {
namespace {

constexpr std::int64_t kMostLayers = 1LL << 16;  // a spec holds facts of each layer

const HfFamily& family_of(Config& config) {
  const auto type = config.word({"model_type"});
  if (!type) throw SpecError(fmt::format("{}: model_type must be stated, it is missing", config.path()));
  std::vector<std::string_view> names;
  for (const HfFamily& family : hf_families()) {
    if (family.name == *type) return family;
    names.push_back(family.name);
  }
  const std::string near = nearest_name(*type, names);
  throw SpecError(fmt::format("{}: model_type \"{}\" is not a family that Locant runs ({}){}", config.path(),
                              *type, fmt::join(names, ", "),
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

Activation read_activation(Config& config, const HfFamily& family) {
  struct Named {
    std::string_view word;
    Activation activation;
  };
  // transformers' ACT2FN; "gelu_new", "gelu_fast" and "gelu_pytorch_tanh" are one formula
  static constexpr std::array kNamed = {
      Named{"silu", Activation::silu},           Named{"swish", Activation::silu},
      Named{"gelu", Activation::gelu_erf},       Named{"gelu_new", Activation::gelu_tanh},
      Named{"gelu_fast", Activation::gelu_tanh}, Named{"gelu_pytorch_tanh", Activation::gelu_tanh},
      Named{"relu", Activation::relu},
  };
  const std::string word = config.word(family.activation).value_or(std::string(family.default_activation));
  for (const Named& named : kNamed) {
    if (named.word == word) return named.activation;
  }
  config.fail(config.present(family.activation), "silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

bool has_biases(Config& config, Biases biases, std::string_view key) {
  if (biases == Biases::by_key) return config.flag({key}).value_or(false);
  return biases == Biases::always;
}

void read_sizes(Config& config, const HfFamily& family, ModelSpec& spec) {
  spec.vocab = config.required_integer({"vocab_size"}, 1);
  spec.hidden = config.required_integer(family.hidden, 1);
  spec.layers = config.required_integer(family.layers, 1);
  if (spec.layers > kMostLayers)
    config.fail(config.present(family.layers), fmt::format("at most {}", kMostLayers));
  spec.heads = config.required_integer(family.heads, 1);
  spec.kv_heads = config.integer(family.kv_heads, 1).value_or(spec.heads);
  if (spec.heads % spec.kv_heads != 0) {
    config.fail(config.present(family.kv_heads), fmt::format("a divisor of the {} heads", spec.heads));
  }
  if (const auto head_dim = config.integer(family.head_dim, 1)) {
    spec.head_dim = *head_dim;
  } else {
    if (spec.hidden % spec.heads != 0) {
      config.fail(config.present(family.hidden), fmt::format("a multiple of the {} heads", spec.heads));
    }
    spec.head_dim = spec.hidden / spec.heads;
  }
  const std::int64_t width = config.integer(family.mlp_width, 1).value_or(family.mlp_factor * spec.hidden);
  if (width == 0) (void)config.required_integer(family.mlp_width, 1);
  spec.mlp = {.activation = read_activation(config, family),
              .gated = family.gated,
              .bias = has_biases(config, family.mlp_bias, "mlp_bias"),
              .width = width};
}

void read_ids(Config& config, const HfFamily& family, ModelSpec& spec) {
  const auto id = [&](std::string_view key, std::optional<std::int64_t> otherwise) {
    // An explicit null means "none", an absent key means the class default.
    const std::vector<std::int64_t> stated = config.ids({key});
    if (!stated.empty()) return std::optional(stated.front());
    return !config.has(key) ? otherwise : std::nullopt;
  };
  spec.bos = id("bos_token_id", family.default_bos);
  spec.embedding.padding_id = id("pad_token_id", family.default_pad);
  spec.eos = config.ids({"eos_token_id"});
  if (spec.eos.empty() && !config.has("eos_token_id") && family.default_eos) spec.eos = {*family.default_eos};
}

void read_lengths(Config& config, const HfFamily& family, ModelSpec& spec) {
  if (const auto length = config.integer(family.length, 1)) {
    spec.lengths.configured = length;
    spec.lengths.configured_key = config.present(family.length);
  }
  if (const auto original = config.integer({"original_max_position_embeddings"}, 1)) {
    spec.lengths.trained = original;
    spec.lengths.trained_basis = "original_max_position_embeddings";
  }
}

}  // namespace

ModelSpec read_hf_config(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? (fs::path(path) / "config.json").string() : path;
  Json json = read_json(file);
  if (!json.is_object()) throw SpecError(fmt::format("{}: a config must be a JSON object", file));
  Config config(file, std::move(json));
  const HfFamily& family = family_of(config);

  ModelSpec spec;
  spec.family = family.name;
  spec.format = "hf";
  spec.path = file;
  read_sizes(config, family, spec);
  read_ids(config, family, spec);
  read_lengths(config, family, spec);
  spec.norm = {.kind = family.norm, .eps = config.number(family.norm_eps).value_or(family.default_norm_eps)};
  if (!(spec.norm.eps >= 0)) config.fail(config.present(family.norm_eps), "a number of at least 0");
  spec.embedding.rows = spec.vocab;
  spec.embedding.width = spec.hidden;
  spec.embedding.normed = family.normed_embedding;
  spec.head.tied = config.flag({"tie_word_embeddings"}).value_or(family.default_tied);
  if (config.has("tie_word_embeddings")) spec.head.tied_key = "tie_word_embeddings";
  spec.attention_bias = has_biases(config, family.attention_bias, "attention_bias");
  spec.attention.assign(static_cast<std::size_t>(spec.layers),
                        {.scale = 1 / std::sqrt(static_cast<double>(spec.head_dim))});
  family.finish(config, spec);
  config.ignore(family.ignored);
  refuse_other_kinds(config);
  spec.notes = judge_unread(config);
  return spec;
}

}  // namespace locant
