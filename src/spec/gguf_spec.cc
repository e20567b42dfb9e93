// SPDX-License-Identifier: Apache-2.0
// The keys and the tensor names of a GGUF file -> ModelSpec, by the row of its architecture.
#include "spec/gguf_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/quote.h"
#include "spec/config_rules.h"
#include "spec/gguf_parts.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Sizes of projections and of what stands beside the attention that a spec describes.
constexpr std::array kPassedOver = {"attention.value_length"sv,        "attention.value_length_mla"sv,
                                    "attention.value_length_swa"sv,    "attention.q_lora_rank"sv,
                                    "attention.kv_lora_rank"sv,        "attention.group_norm_epsilon"sv,
                                    "attention.group_norm_groups"sv,   "attention.key_length"sv,
                                    "attention.layer_norm_epsilon"sv,  "attention.layer_norm_rms_epsilon"sv,
                                    "rope.scaling.yarn_attn_factor"sv, "rope.scaling.finetuned"sv};

// What stands in for an architecture that is not known; its name is empty.
const GgufArchitecture& generic_architecture() noexcept {
  static constexpr GgufArchitecture kGeneric{.name = {}, .rope = GgufRope::neox};
  return kGeneric;
}

void read_scales(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  if (row.root_scale) {
    scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), {});
    spec.embedding.scale_in_run_dtype = true;
  }
  if (row.embedding_scale) {
    const auto stated = keys.number("embedding_scale");
    const double scale = stated.value_or(row.embedding_default);
    if (scale != 0) scale_embedding(spec, scale, stated ? keys.full("embedding_scale") : std::string());
  }
  if (row.logits != GgufLogits::unscaled) {
    if (row.logit_scale_required) keys.require("logit_scale");
    const auto stated = keys.number("logit_scale");
    const double scale = stated.value_or(row.logit_default);
    if (row.logits == GgufLogits::divided && stated && scale == 0)
      keys.fail("logit_scale", "a number that is not 0");
    if (scale != 0) spec.head.scale = row.logits == GgufLogits::divided ? 1 / scale : scale;
    if (stated) spec.head.scale_key = keys.full("logit_scale");
  }
  spec.head.softcap = row.logit_softcap;
  if (row.logit_softcap_key)
    spec.head.softcap = keys.number("final_logit_softcapping").value_or(row.logit_softcap);
}

void note_unread(GgufKeys& keys) {
  keys.ignore(kPassedOver);
  for (const std::string_view prefix : {"rope."sv, "attention."sv}) {
    for (const std::string& key : keys.unread(prefix)) {
      if (key.find(".attention.indexer.") != std::string::npos) continue;
      keys.note({.text = fmt::format("{}: {} is not read for this architecture", keys.path(), key),
                 .rule = std::string(rules::kUnreadKey),
                 .key = key});
    }
  }
}

void name_family(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  spec.generic = row.name.empty();
  spec.family = spec.generic ? keys.architecture() : std::string(row.family.empty() ? row.name : row.family);
  if (spec.generic) {
    keys.note({.text = fmt::format("{}: architecture {} is none that Locant knows, its keys are read as most "
                                   "mean them; which channels pair is not stated by any key, half is assumed",
                                   keys.path(), quote(keys.architecture())),
               .key = "general.architecture"});
  } else if (spec.family != keys.architecture()) {
    keys.note({.text = fmt::format("{}: the architecture is {}", keys.path(), quote(keys.architecture())),
               .key = "general.architecture"});
  }
}

// Each sentence once, in the order of its first appearance.
std::vector<Note> without_repeats(std::vector<Note>& notes) {
  std::vector<Note> kept;
  for (Note& note : notes) {
    const auto same = [&](const Note& other) { return other.text == note.text; };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(note));
  }
  return kept;
}

}  // namespace

ModelSpec read_gguf(const GgufContents& contents) {
  GgufKeys keys(contents);
  const GgufArchitecture* const found = find_gguf_architecture(keys.architecture());
  const GgufArchitecture& row = found != nullptr ? *found : generic_architecture();
  ModelSpec spec;
  spec.format = "gguf";
  spec.path = contents.path;
  name_family(keys, row, spec);
  const GgufHeads heads = read_gguf_sizes(keys, row, spec);
  read_gguf_ends(keys, row, spec);
  read_gguf_layers(keys, row, heads, spec);
  read_scales(keys, row, spec);
  if (row.finish != nullptr) row.finish(keys, spec, row);
  read_gguf_block(keys, row, spec);
  note_unread(keys);
  spec.notes = without_repeats(keys.notes());
  return spec;
}

ModelSpec read_gguf(const std::string& path) {
  const GgufFile file(path);
  return read_gguf(GgufContents{.path = path, .metadata = file.metadata(), .tensors = file.tensors()});
}

}  // namespace locant
