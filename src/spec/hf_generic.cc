// SPDX-License-Identifier: Apache-2.0
// A family that is not known: what its keys say where most families agree on their meaning, and no more.
#include <fmt/format.h>

#include <string>

#include "spec/hf_layers.h"

namespace locant {
namespace {

const RopeStyle kGenericRope{
    .partial = true,
    .theta = {"rope_theta", "rotary_emb_base", "rope_embedding_base", "rotary_base"},
    .partial_keys = {"partial_rotary_factor", "rotary_pct", "rotary_emb_fraction", "partial_rope_ratio"},
    .width = {"rotary_dim"}};

bool says_alibi(Config& config) {
  if (const auto type = config.word({"position_embedding_type"})) return *type == "alibi";
  if (config.value("alibi").is_boolean()) return config.flag({"alibi"}).value_or(false);
  return false;
}

bool says_rotation(Config& config) {
  const Keys keys = {"rope_theta", "rope_scaling",    "rope_parameters",     "rotary_dim",
                     "rotary_pct", "rotary_emb_base", "rope_embedding_base", "partial_rotary_factor"};
  const std::string type = config.word({"position_embedding_type"}).value_or("");
  for (const std::string_view key : keys) {
    if (!config.value(key).is_null()) return true;
  }
  return type == "rope" || type == "rotary";
}

void rotate(Config& config, ModelSpec& spec) {
  RopeStyle style = kGenericRope;
  RopeSlice slice = whole_head(spec);
  if (const auto rotating = config.integer({"qk_rope_head_dim"}, 1)) {
    const std::int64_t still = config.integer({"qk_nope_head_dim"}, 0).value_or(0);
    spec.head_dim = still + *rotating;
    slice = {.head_dim = spec.head_dim, .rotating = *rotating, .offset = still};
    style.fixed_width = true;
  }
  const LayerTypes types = read_layer_types(config, spec);
  set_windows(config, spec, types);
  if (slice.head_dim < 2) return;
  set_positions(config, spec, types,
                [&](const std::string& type) { return std::vector{read_rope(config, style, slice, type)}; });
  config.note(
      fmt::format("{}: which channels pair is not stated by any key, half is assumed", config.path()));
}

}  // namespace

void finish_generic(Config& config, ModelSpec& spec, const HfFamily& family) {
  no_layer(spec);
  if (says_alibi(config)) {
    PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
    alibi.set("heads", spec.heads);
    if (spec.heads > 0) every_layer(spec, alibi);
    return;
  }
  if (says_rotation(config)) return rotate(config, spec);
  const auto rows = config.integer(family.keys->length, 1);
  if (config.word({"position_embedding_type"}).value_or("") == "absolute" && rows && spec.hidden > 0) {
    PositionSpec table{.mechanism = "learned", .parameters = {}};
    table.set("rows", *rows, config.stated(family.keys->length));
    table.set("width", spec.hidden);
    spec.positions.embedding = {table};
    return;
  }
  config.note(fmt::format("{}: no key says how positions are marked", config.path()));
}

}  // namespace locant
