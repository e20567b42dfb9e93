// SPDX-License-Identifier: Apache-2.0
// Layer by layer: windows, what holds no attention, rotations and slopes; tables beside the token state.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/quote.h"
#include "spec/config_rules.h"
#include "spec/gguf_parts.h"
#include "spec/gguf_rope.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

std::vector<bool> windowed_layers(GgufKeys& keys, const GgufArchitecture& row, const ModelSpec& spec) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const GgufWindows& windows = row.windows;
  const auto layers = static_cast<std::size_t>(spec.layers);
  if (windows.attending) return std::vector<bool>(layers, true);
  if (std::vector<bool> listed = keys.switches(kPattern, spec.layers); !listed.empty()) return listed;
  std::int64_t period = windows.period;
  if (period == 0) {
    keys.require(kPattern);
    keys.fail(kPattern, fmt::format("an array with a value for each of the {} layers", spec.layers));
  }
  // A single number is a period; 0 = every layer has a window.
  period = keys.integer(kPattern, 0).value_or(period);
  std::vector<bool> windowed(layers);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::int64_t full = windows.full_first ? 0 : period - 1;
    windowed[static_cast<std::size_t>(layer)] = period == 0 || layer % period != full;
  }
  return windowed;
}

/// Width of the windows, 0 = there are none.
std::int64_t window_width(GgufKeys& keys, const GgufArchitecture& row, const ModelSpec& spec) {
  constexpr std::string_view kWindow = "attention.sliding_window";
  const GgufWindows& windows = row.windows;
  if (windows.required) keys.require(kWindow);
  const auto stated = keys.integer(kWindow, 0);
  const bool follows = windows.kind != GgufWindow::none &&
                       (windows.only_with_layers == 0 || windows.only_with_layers == spec.layers);
  if (follows) {
    if (windows.kind == GgufWindow::chunk) return stated.value_or(1) == 0 ? 0 : windows.tokens;
    return stated.value_or(windows.tokens);
  }
  if (stated.value_or(0) == 0) return 0;
  const std::string_view why = row.name.empty() ? "which layers have such a window is not known"
                                                : "llama.cpp does not follow it for this model";
  keys.note({.text = fmt::format("{}: {} is {}: {}, every layer is taken to see the whole past", keys.path(),
                                 keys.full(kWindow), *stated, why),
             .rule = std::string(rules::kNotReadHere),
             .key = keys.full(kWindow)});
  return 0;
}

std::vector<bool> read_windows(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  const std::int64_t width = window_width(keys, row, spec);
  if (width == 0) return std::vector<bool>(static_cast<std::size_t>(spec.layers), false);
  std::vector<bool> windowed = windowed_layers(keys, row, spec);
  const bool chunks = row.windows.kind == GgufWindow::chunk;
  const bool halved = row.windows.kind == GgufWindow::symmetric;
  for (std::size_t layer = 0; layer < windowed.size(); ++layer) {
    if (!windowed[layer]) continue;
    spec.attention[layer].kind = chunks ? AttentionKind::chunk : AttentionKind::window;
    spec.attention[layer].window = halved ? width / 2 : width;
  }
  return windowed;
}

// Layers without keys hold a state space, a convolution or linear attention.
void mark_attending(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec, const GgufHeads& heads) {
  std::vector<bool> other(static_cast<std::size_t>(spec.layers));
  for (std::size_t layer = 0; layer < other.size(); ++layer)
    other[layer] = heads.keys[layer] == 0 && spec.heads > 0;
  if (row.linear_period > 0) {
    const std::int64_t period = keys.integer("full_attention_interval", 1).value_or(row.linear_period);
    const std::vector<bool> listed = keys.switches("attention.recurrent_layers", spec.layers);
    for (std::size_t layer = 0; layer < other.size(); ++layer) {
      const auto place = static_cast<std::int64_t>(layer);
      other[layer] = listed.empty() ? (place + 1) % period != 0 : listed[layer];
    }
  }
  const auto count = std::count(other.begin(), other.end(), true);
  if (count == 0) return;
  for (std::size_t layer = 0; layer < other.size(); ++layer) spec.attention[layer].attends = !other[layer];
  keys.note(fmt::format("{}: {} of {} layers hold no attention", keys.path(), count, spec.layers));
}

void read_attention(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  AttentionSpec attention;
  const auto head = static_cast<double>(std::max<std::int64_t>(spec.head_dim, 1));
  attention.scale = row.attention_scale != 0 ? row.attention_scale : 1 / std::sqrt(head);
  const double stated = row.attention_key ? keys.number("attention.scale").value_or(0) : 0;
  if (stated != 0) attention.scale = stated;
  if (row.score_softcap != 0)
    attention.softcap = keys.number("attn_logit_softcapping").value_or(row.score_softcap);
  attention.bidirectional = !keys.flag("attention.causal").value_or(row.causal);
  spec.attention.assign(static_cast<std::size_t>(spec.layers), attention);
  for (std::size_t layer = 0; layer < spec.attention.size(); ++layer) {
    spec.attention[layer].sinks =
        row.sinks || keys.tensor(fmt::format("blk.{}.attn_sinks.weight", layer)) != nullptr;
  }
}

/// Whether an attending layer rotates; `windows`: some layer has one.
bool rotates(const GgufArchitecture& row, bool windows, bool windowed, std::size_t layer) {
  if (row.rotates == GgufRotates::windowed) return !windows || windowed;
  if (row.rotates == GgufRotates::three_of_four && (windows || row.windows.kind == GgufWindow::none))
    return (layer + 1) % 4 != 0;
  return true;
}

void read_rotations(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec,
                    const std::vector<bool>& windowed) {
  if (row.rotation_switch && !keys.flag("rope.scaling.finetuned").value_or(true)) return;
  if (spec.head_dim < 2) return;
  const bool windows = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
  std::optional<PositionSpec> full;
  std::optional<PositionSpec> local;
  for (std::size_t layer = 0; layer < windowed.size(); ++layer) {
    if (!spec.attention[layer].attends || !rotates(row, windows, windowed[layer], layer)) continue;
    std::optional<PositionSpec>& rope = windowed[layer] ? local : full;
    if (!rope) {
      std::int64_t width = spec.head_dim;
      if (windowed[layer]) width = keys.integer("attention.key_length_swa", 2).value_or(width);
      rope = read_gguf_rope(keys, row, width, windowed[layer] ? GgufScope::local : GgufScope::full);
    }
    spec.positions.layers[layer] = {*rope};
  }
}

void read_slopes(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  constexpr std::string_view kLargest = "attention.max_alibi_bias";
  const auto stated = row.alibi_key ? keys.number(kLargest) : std::nullopt;
  const double most = stated.value_or(row.alibi);
  if (most < 0) keys.fail(kLargest, "a number of at least 0");
  if (most == 0) return;
  PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
  alibi.set("heads", spec.heads);
  if (most != 8 || stated) alibi.set("bias_max", most, stated ? keys.full(kLargest) : std::string());
  if (!spec.attention.empty() && spec.attention.front().bidirectional)
    alibi.set("direction", std::string("bidirectional"));
  every_layer(spec, alibi);
}

/// Rows of a table that is added to the token state: those of the tensor, else what a key says.
std::int64_t table_rows(GgufKeys& keys, const ModelSpec& spec, std::string_view tensor,
                        std::string_view key) {
  if (const GgufTensor* const table = keys.tensor(tensor)) {
    check_columns(keys, *table, spec.hidden);
    return table->shape[0];
  }
  return keys.has_tensors() ? 0 : keys.integer(key, 0).value_or(0);
}

void read_tables(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  const auto add = [&](std::string_view mechanism, std::int64_t rows, std::string_view tensor) {
    PositionSpec table{.mechanism = std::string(mechanism), .parameters = {}};
    table.set("rows", rows, std::string(tensor));
    table.set("width", spec.hidden);
    spec.positions.embedding.push_back(std::move(table));
  };
  constexpr std::string_view kPositions = "position_embd.weight";
  constexpr std::string_view kTypes = "token_types.weight";
  if (row.learned) {
    const std::int64_t rows = table_rows(keys, spec, kPositions, "context_length");
    if (rows == 0) throw FileError(keys.path(), fmt::format("tensor {} is missing", quote(kPositions)));
    add("learned", rows, kPositions);
  } else if (row.alibi_key && keys.tensor(kPositions) != nullptr) {
    add("learned", table_rows(keys, spec, kPositions, {}), kPositions);
  }
  if (!row.token_types) return;
  spec.embedding.token_types = table_rows(keys, spec, kTypes, "tokenizer.ggml.token_type_count");
  if (spec.embedding.token_types > 0) add("token_types", spec.embedding.token_types, kTypes);
}

/// Whether the keys of an architecture that is not known speak of a rotation.
bool says_rotation(const GgufKeys& keys) {
  return keys.has("rope.freq_base") || keys.has("rope.dimension_count");
}

}  // namespace

void read_gguf_layers(GgufKeys& keys, const GgufArchitecture& row, const GgufHeads& heads, ModelSpec& spec) {
  read_attention(keys, row, spec);
  mark_attending(keys, row, spec, heads);
  const std::vector<bool> windowed = read_windows(keys, row, spec);
  no_layer(spec);
  if (row.rope != GgufRope::none && (!spec.generic || says_rotation(keys)))
    read_rotations(keys, row, spec, windowed);
  read_slopes(keys, row, spec);
  read_tables(keys, row, spec);
}

}  // namespace locant
