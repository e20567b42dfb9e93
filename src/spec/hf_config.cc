// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face model -> ModelSpec, by the row of its family.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "core/nearest.h"
#include "formats/json.h"
#include "locant/spec.h"
#include "spec/config.h"
#include "spec/config_lint.h"
#include "spec/hf_family.h"

namespace locant {
namespace {

// What stands in for a family that is not known; its name is empty.
const HfFamily& generic_family() noexcept {
  static const HfFamily kGeneric{.name = {}, .finish = finish_generic};
  return kGeneric;
}

[[noreturn]] void refuse_family(const Config& config, const std::string& type) {
  const std::vector<std::string_view> names = families();
  const std::string near = nearest_name(type, names);
  throw SpecError(fmt::format("{}: model_type \"{}\" is none of the {} families that Locant reads{}",
                              config.path(), type, names.size(),
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

struct Chosen {
  const HfFamily* family = nullptr;
  std::string type;          ///< as the config states it, "" when it does not
  std::string class_name{};  ///< the model_type whose defaults hold
};

// A text model inside a multimodal one decides where the outer model_type says nothing of it.
Chosen choose_family(Config& outer, Config& text, bool nested, Reading reading) {
  const auto stated = outer.word({"model_type"});
  if (!stated && reading == Reading::strict) {
    throw SpecError(fmt::format("{}: model_type must be stated, it is missing", outer.path()));
  }
  const std::string type = stated.value_or("");
  if (nested) {
    const std::string inner = text.word({"model_type"}).value_or("");
    const HfFamily* const of_text = find_family(inner);
    const bool outer_known = find_family(type) != nullptr;
    if (reading == Reading::strict && !outer_known) refuse_family(outer, type);
    if (of_text != nullptr) return {of_text, outer_known ? type : inner, inner};
  }
  if (const HfFamily* const family = find_family(type)) return {family, type, type};
  if (reading == Reading::strict) refuse_family(outer, type);
  return {&generic_family(), type, type};
}

// Of the names that share a row, those whose text model is that row's own.
bool runs_as(const std::string& type, const HfFamily& family) {
  if (type == family.name) return true;
  const std::span<const HfAlias> aliases = hf_aliases();
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const HfAlias& alias) { return alias.name == type && alias.runs; });
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
      Named{"relu", Activation::relu},           Named{"gelu_python", Activation::gelu_erf},
      Named{"relu2", Activation::relu_squared},  Named{"gelu_python_tanh", Activation::gelu_tanh},
      Named{"tanh", Activation::tanh},           Named{"quick_gelu", Activation::quick_gelu},
  };
  const auto word = config.word(family.keys->activation);
  if (!word) return family.gated ? Activation::silu : Activation::gelu_tanh;
  for (const Named& named : kNamed) {
    if (named.word == *word) return named.activation;
  }
  const std::string_view stated = config.present(family.keys->activation);
  if (!stated.empty())
    config.refuse(stated, "silu, gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu, relu2 or tanh");
  return Activation::silu;
}

bool has_biases(Config& config, Biases biases, std::string_view key) {
  if (biases == Biases::by_key) return config.flag({key}).value_or(false);
  return biases == Biases::always;
}

// As the config spells it, else as the class does.
std::string_view named(Config& config, const Keys& keys) {
  const std::string_view stated = config.present(keys);
  return stated.empty() ? *keys.begin() : stated;
}

// A size; only what is to run must state it.
std::int64_t read_size(Config& config, const HfFamily& family, const Keys& keys) {
  if (family.runs) return config.required_integer(keys, 1);
  const auto size = config.integer(keys, 1);
  if (!size && family.name.empty())
    config.note(fmt::format("{}: {} is not stated", config.path(), *keys.begin()));
  return size.value_or(0);
}

std::int64_t read_mlp_width(Config& config, const HfFamily& family, const ModelSpec& spec) {
  const Keys& keys = family.keys->mlp_width;
  const std::string_view key = config.present(keys);
  if (!key.empty() && config.value(key).is_array() && !family.runs) {
    const std::vector<double> widths = config.numbers({key});
    if (widths.empty() || widths.front() < 1 || widths.front() > static_cast<double>(kLargestSize)) {
      config.fail(key, "a list of widths of at least 1");
    }
    config.note(
        fmt::format("{}: {} differs from layer to layer, the first is {}", config.path(), key, widths[0]));
    return static_cast<std::int64_t>(widths.front());
  }
  const std::int64_t width = config.integer(keys, 1).value_or(family.mlp_factor * spec.hidden);
  if (width == 0 && family.mlp_factor == 0) (void)config.required_integer(keys, 1);
  return width;
}

void read_head_dim(Config& config, const HfFamily& family, ModelSpec& spec) {
  if (const auto head_dim = config.integer(family.keys->head_dim, 1)) {
    if (*head_dim > kWidestHead)
      config.fail(config.present(family.keys->head_dim), fmt::format("at most {}", kWidestHead));
    spec.head_dim = *head_dim;
    return;
  }
  if (spec.heads == 0) return;
  if (spec.hidden % spec.heads != 0) {
    const std::string_view key = named(config, family.keys->hidden);
    // Heads may have a width of their own under a key of the family; the quotient is rounded down till then.
    if (!config.tolerant() || spec.hidden < spec.heads)
      config.fail(key, fmt::format("a multiple of the {} heads", spec.heads));
  }
  spec.head_dim = spec.hidden / spec.heads;
  if (spec.head_dim > kWidestHead) {
    config.fail(named(config, family.keys->hidden),
                fmt::format("at most {} for each of the {} heads", kWidestHead, spec.heads));
  }
}

void read_sizes(Config& config, const HfFamily& family, ModelSpec& spec) {
  const HfKeys& keys = *family.keys;
  spec.vocab = read_size(config, family, keys.vocab);
  spec.hidden = read_size(config, family, keys.hidden);
  spec.layers = read_size(config, family, keys.layers);
  if (spec.layers > kMostLayers)
    config.fail(config.present(keys.layers), fmt::format("at most {}", kMostLayers));
  spec.heads = read_size(config, family, keys.heads);
  if (spec.heads > kMostHeads) config.fail(config.present(keys.heads), fmt::format("at most {}", kMostHeads));
  spec.kv_heads = config.integer(keys.kv_heads, 1).value_or(spec.heads);
  if (spec.heads > 0 && spec.heads % spec.kv_heads != 0) {
    config.fail(named(config, keys.kv_heads), fmt::format("a divisor of the {} heads", spec.heads));
  }
  read_head_dim(config, family, spec);
  const std::int64_t width = read_mlp_width(config, family, spec);
  spec.mlp = {.activation = read_activation(config, family),
              .gated = family.gated,
              .bias = has_biases(config, family.mlp_bias, "mlp_bias"),
              .width = width};
}

void read_ids(Config& config, ModelSpec& spec) {
  const auto id = [&](std::string_view key) {
    // An explicit null means "none", an absent key means the class default.
    const std::vector<std::int64_t> ids = config.ids({key});
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  spec.bos = id("bos_token_id");
  spec.embedding.padding_id = id("pad_token_id");
  spec.eos = config.ids({"eos_token_id"});
}

void read_lengths(Config& config, const HfFamily& family, ModelSpec& spec) {
  if (const auto length = config.integer(family.keys->length, 1)) {
    spec.lengths.configured = length;
    spec.lengths.configured_key = config.stated(family.keys->length);
  }
  const Keys original = {"original_max_position_embeddings"};
  if (config.present(original).empty()) return;
  spec.lengths.trained = config.integer(original, 1);
  spec.lengths.trained_basis = config.stated(original);
}

// A rotation's block may state the length that the model was trained at.
void read_trained_length(ModelSpec& spec) {
  if (spec.lengths.trained) return;
  for (const auto& layer : spec.positions.layers) {
    for (const PositionSpec& position : layer) {
      const Parameter* const original = position.find("original_length");
      if (original == nullptr || original->key.find("original") == std::string::npos) continue;
      if (const auto* const length = std::get_if<std::int64_t>(&original->value))
        spec.lengths.trained = *length;
      spec.lengths.trained_basis = original->key;
      return;
    }
  }
}

void read_tie(Config& outer, Config& text, ModelSpec& spec) {
  const Keys key = {"tie_word_embeddings"};
  Config& place = outer.has("tie_word_embeddings") ? outer : text;
  spec.head.tied = place.flag(key).value_or(text.flag(key).value_or(true));
  if (outer.has("tie_word_embeddings") || text.has("tie_word_embeddings"))
    spec.head.tied_key = "tie_word_embeddings";
}

// Those of the class itself, else of the row that it reads as.
Json defaults_of(const Chosen& chosen) {
  std::string_view text = hf_defaults(chosen.class_name);
  if (text.empty()) text = hf_defaults(chosen.family->name);
  return text.empty() ? Json::object() : Json::parse(text);
}

std::string_view text_key(const Config& config) {
  for (const std::string_view key : {"text_config", "llm_config", "language_config"}) {
    if (config.value(key).is_object()) return key;
  }
  return {};
}

ModelSpec read_object(Config& outer, Reading reading) {
  const std::string_view inside = text_key(outer);
  const bool nested = !inside.empty();
  std::optional<Config> inner = nested ? outer.object(inside) : std::nullopt;
  const Chosen chosen = choose_family(outer, nested ? *inner : outer, nested, reading);
  HfFamily family = *chosen.family;
  family.runs = family.runs && runs_as(chosen.type, family);
  if (reading == Reading::facts || !family.runs) outer.tolerate();
  if (nested) inner = outer.object(inside);
  Config& config = nested ? *inner : outer;
  config.set_defaults(defaults_of(chosen));
  if (nested) (void)config.word({"model_type"});

  ModelSpec spec;
  spec.family = chosen.type;
  spec.format = "hf";
  spec.path = outer.path();
  spec.generic = family.name.empty();
  read_sizes(config, family, spec);
  read_ids(config, spec);
  read_lengths(config, family, spec);
  spec.norm = {.kind = family.norm,
               .eps = config.number(family.keys->norm_eps).value_or(1e-5),
               .bias = family.norm == NormKind::layer};
  if (!(spec.norm.eps >= 0)) config.fail(config.present(family.keys->norm_eps), "a number of at least 0");
  spec.embedding.rows = spec.vocab;
  spec.embedding.width = spec.hidden;
  spec.embedding.normed = family.normed_embedding;
  read_tie(outer, config, spec);
  spec.block = family_block(family.name);
  if (has_biases(config, family.attention_bias, "attention_bias"))
    spec.block.biases = ProjectionBiases::all();
  const double root = std::sqrt(static_cast<double>(std::max<std::int64_t>(spec.head_dim, 1)));
  spec.attention.assign(static_cast<std::size_t>(spec.layers),
                        {.scale = 1 / root, .bidirectional = family.bidirectional});
  family.finish(config, spec, family);
  spec.block.qk_norm.norm.eps = spec.norm.eps;
  read_trained_length(spec);
  config.ignore(family.ignored);
  refuse_other_kinds(config, family);
  judge_keys(outer, config, spec);
  spec.notes = config.notes();
  std::vector<Note> unread = judge_unread(config, family);
  std::move(unread.begin(), unread.end(), std::back_inserter(spec.notes));
  if (spec.generic) {
    spec.notes.insert(
        spec.notes.begin(),
        Note{.text =
                 fmt::format("{}: model_type \"{}\" is not a family that Locant knows, its keys are read as "
                             "most families mean them",
                             outer.path(), chosen.type)});
  }
  return spec;
}

// Each sentence once, in the order of its first appearance.
void drop_repeats(std::vector<Note>& notes) {
  std::vector<Note> kept;
  for (Note& note : notes) {
    const auto same = [&](const Note& other) { return other.text == note.text; };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(note));
  }
  notes = std::move(kept);
}

}  // namespace

ModelSpec read_hf_config(const std::string& path, Reading reading) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? (fs::path(path) / "config.json").string() : path;
  Json json = read_json(file);
  if (!json.is_object()) throw SpecError(fmt::format("{}: a config must be a JSON object", file));
  Config config(file, std::move(json));
  ModelSpec spec = read_object(config, reading);
  if (config.tolerant()) {
    judge_lengths(spec);
    judge_tokenizer(fs::path(file).parent_path().string(), spec);
  }
  drop_repeats(spec.notes);
  return spec;
}

}  // namespace locant
