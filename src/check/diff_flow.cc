// SPDX-License-Identifier: Apache-2.0
#include "check/diff_flow.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace locant::check_room {
namespace {

struct Known {
  std::string_view name;
  Axes axes;
};

// before, inside and behind the layers; each list is in the order of the flow
constexpr std::array<Known, 11> kFirst = {{{"input_ids", Axes::aligned},
                                           {"attention_mask", Axes::aligned},
                                           {"segment_ids", Axes::integers},
                                           {"image_grid_thw", Axes::whole},
                                           {"video_grid_thw", Axes::whole},
                                           {"position_ids", Axes::integers},
                                           {"cache_position", Axes::integers},
                                           {"embed.tokens", Axes::tokens},
                                           {"embed.positions", Axes::tokens},
                                           {"embed.types", Axes::tokens},
                                           {"embed.out", Axes::tokens}}};
constexpr std::array<Known, 20> kLayer = {{{"q_pre", Axes::tokens},
                                           {"k_pre", Axes::tokens},
                                           {"rope", Axes::table},
                                           {"q", Axes::tokens},
                                           {"k", Axes::tokens},
                                           {"q_in", Axes::tokens},
                                           {"k_in", Axes::tokens},
                                           {"v", Axes::tokens},
                                           {"cache.latent", Axes::slots},
                                           {"cache.k_rope", Axes::slots},
                                           {"cache.k", Axes::slots},
                                           {"cache.v", Axes::slots},
                                           {"cache.positions", Axes::slots},
                                           {"cache.source", Axes::aligned},
                                           {"bias", Axes::scores},
                                           {"scores", Axes::scores},
                                           {"sinks", Axes::whole},
                                           {"probs", Axes::scores},
                                           {"attn.out", Axes::tokens},
                                           {"out", Axes::tokens}}};
constexpr std::array<Known, 3> kLast = {
    {{"final_norm.out", Axes::tokens}, {"logits", Axes::last_token}, {"pooled", Axes::rows}}};

enum Phase : int { kBefore, kInside, kBehind, kOther };
constexpr int kCrossFrom = 100;  // cross-attention stands between self-attention and the layer's output

template <std::size_t N>
int place_in(const std::array<Known, N>& list, std::string_view name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Known& known) { return known.name == name; });
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

/// "layers.N.rest": N and the rest.
bool split_layer(std::string_view bare, std::int64_t& layer, std::string_view& rest) {
  constexpr std::string_view kLayers = "layers.";
  if (!bare.starts_with(kLayers)) return false;
  const char* const begin = bare.data() + kLayers.size();
  const char* const end = bare.data() + bare.size();
  const auto [stop, error] = std::from_chars(begin, end, layer);
  if (error != std::errc() || stop == end || *stop != '.' || layer < 0) return false;
  rest = bare.substr(static_cast<std::size_t>(stop + 1 - bare.data()));
  return true;
}

bool known_layer_tensor(FlowName& name, std::string_view rest) {
  std::string_view part = rest;
  for (const std::string_view site : {"attn.", "cross."}) {
    if (!rest.starts_with(site)) continue;
    name.cross = site == "cross.";
    if (rest != "attn.out") part = rest.substr(site.size());
    if (rest == "cross.out") part = "attn.out";
  }
  int place = place_in(kLayer, part);
  if (place < 0 || part == "rope") return false;
  name.axes = kLayer.at(static_cast<std::size_t>(place)).axes;
  if (rest == "out") place = 2 * kCrossFrom;
  name.part = part;
  name.order = {kInside, name.layer, place + (name.cross ? kCrossFrom : 0), std::string(rest)};
  return true;
}

}  // namespace

FlowName flow_of(std::string_view bare) {
  FlowName name;
  name.bare = bare;
  name.part = bare;
  name.order = {kOther, 0, 0, name.bare};
  std::string_view rest;
  if (bare.starts_with("rope.") && (bare.ends_with(".cos") || bare.ends_with(".sin"))) {
    // one table for many layers: where the first of them uses it
    name.axes = Axes::table;
    name.order = {kInside, 0, place_in(kLayer, "rope"), name.bare};
  } else if (split_layer(bare, name.layer, rest)) {
    if (!known_layer_tensor(name, rest)) name.layer = -1;
  } else if (const int first = place_in(kFirst, bare); first >= 0) {
    name.axes = kFirst.at(static_cast<std::size_t>(first)).axes;
    name.order = {kBefore, 0, first, name.bare};
  } else if (const int last = place_in(kLast, bare); last >= 0) {
    name.axes = kLast.at(static_cast<std::size_t>(last)).axes;
    name.order = {kBehind, 0, last, name.bare};
  }
  return name;
}

bool has_heads(const FlowName& name) noexcept {
  constexpr std::array<std::string_view, 9> kHeads = {"q_pre", "k_pre", "q",       "k",      "q_in",
                                                      "k_in",  "v",     "cache.k", "cache.v"};
  return name.layer >= 0 && std::find(kHeads.begin(), kHeads.end(), name.part) != kHeads.end();
}

}  // namespace locant::check_room
