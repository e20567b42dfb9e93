// SPDX-License-Identifier: Apache-2.0
#include "check/weight_parts.h"

#include <algorithm>
#include <array>

#include "facts/parts.h"

namespace locant::check_room {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPerHead = {"bloom"sv, "gpt_neox"sv, "gpt_neox_japanese"sv, "persimmon"sv};
constexpr std::array kGrouped = {"falcon"sv, "internlm2"sv};
// Conv1D keeps [in, out]
constexpr std::array kTransposed = {"gpt2"sv, "gpt-sw3"sv};

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& families, std::string_view family) {
  return std::find(families.begin(), families.end(), family) != families.end();
}

Fusion fusion_in(const ModelSpec& spec, bool gguf) {
  if (gguf) return Fusion::thirds;
  if (is_in(kPerHead, spec.family)) return Fusion::per_head;
  if (is_in(kGrouped, spec.family)) return Fusion::grouped;
  return Fusion::thirds;
}

}  // namespace

Split split_of(Fusion fusion, const FusedHeads& heads, std::int64_t part) noexcept {
  const std::int64_t d = heads.head_dim;
  const std::int64_t queries = heads.heads * d;
  const std::int64_t keys = heads.kv_heads * d;
  switch (fusion) {
    case Fusion::per_head:
      return {.first = part * d, .run = d, .step = 3 * d};
    case Fusion::grouped: {
      const std::int64_t group = heads.kv_heads > 0 ? heads.heads / heads.kv_heads : 1;
      const std::int64_t step = (group + 2) * d;
      if (part == 0) return {.first = 0, .run = group * d, .step = step};
      return {.first = (group + part - 1) * d, .run = d, .step = step};
    }
    default:
      if (part == 0) return {.first = 0, .run = queries, .step = queries};
      return {.first = queries + (part - 1) * keys, .run = keys, .step = keys};
  }
}

void Part::read_stored(std::int64_t stored_row, std::int64_t column, std::int64_t count, float* out) const {
  if (transposed) {
    weight->read_strided(column * weight->columns() + stored_row, weight->columns(), count, out);
  } else {
    weight->read(stored_row * weight->columns() + column, count, out);
  }
}

double Part::rounding(std::int64_t stored_row, std::int64_t column, std::int64_t count,
                      const float* values) const {
  // what is stored transposed stands in single elements, whose rounding asks for the values alone
  return weight->rounding(transposed ? 0 : stored_row * weight->columns() + column, count, values);
}

WeightFiles::WeightFiles(const ModelSpec& spec, const std::string& path) : spec_(&spec) {
  if (path.ends_with(".gguf")) {
    gguf_.emplace(path);
    for (const GgufTensor& tensor : gguf_->tensors()) all_.emplace_back(tensor);
    for (const Weight& weight : all_) places_.push_back(place_in_gguf(weight.name()));
    return;
  }
  safetensors_.emplace(path);
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : safetensors_->tensors()) all_.emplace_back(tensor);
  for (const Weight& weight : all_) names.emplace_back(weight.name());
  places_ = places_in_checkpoint(names);
  // a place that two tensors claim is no place
  std::map<std::string, std::vector<std::size_t>> claims;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i]) claims[places_[i]->text()].push_back(i);
  }
  for (const auto& [text, tensors] : claims) {
    if (tensors.size() < 2) continue;
    for (const std::size_t i : tensors) places_[i].reset();
  }
}

const Weight* WeightFiles::named(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(all_.begin(), all_.end(), name,
                       [](const Weight& one, std::string_view text) { return one.name() < text; });
  return found != all_.end() && found->name() == name ? &*found : nullptr;
}

std::optional<Place> WeightFiles::place_of(const Weight& weight) const {
  return places_.at(static_cast<std::size_t>(&weight - all_.data()));
}

Part WeightFiles::part_of(const Weight& weight) const {
  Part part{.weight = &weight, .rows = weight.rows(), .columns = weight.columns()};
  if (const auto place = place_of(weight)) part.place = *place;
  part.transposed =
      !is_gguf() && is_in(kTransposed, spec_->family) && weight.shape().size() == 2 && part.place.layer >= 0;
  if (part.transposed) std::swap(part.rows, part.columns);
  part.split = {.first = 0, .run = std::max<std::int64_t>(part.rows, 1), .step = part.rows};
  return part;
}

std::vector<Part> WeightFiles::parts_of(const Weight& weight) const {
  const Part whole = part_of(weight);
  if (whole.place.role != "attn_qkv") return {whole};
  const FusedHeads fused = heads();
  const Fusion fusion = fusion_in(*spec_, is_gguf());
  const bool even = fusion != Fusion::per_head || fused.heads == fused.kv_heads;
  if (fused.head_dim < 1 || fused.rows() != whole.rows || !even) return {whole};
  std::vector<Part> parts;
  constexpr std::array kRoles = {"attn_q"sv, "attn_k"sv, "attn_v"sv};
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    Part part = whole;
    part.place.role = kRoles[i];
    part.fusion = fusion;
    part.fused = fused;
    part.rows = (i == 0 ? fused.heads : fused.kv_heads) * fused.head_dim;
    part.split = split_of(fusion, fused, static_cast<std::int64_t>(i));
    parts.push_back(part);
  }
  return parts;
}

const Weight* WeightFiles::at(std::string_view role, std::string_view ending) const noexcept {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] && places_[i]->layer < 0 && places_[i]->role == role && places_[i]->ending == ending)
      return &all_[i];
  }
  return nullptr;
}

FusedHeads WeightFiles::heads() const noexcept {
  return {.heads = spec_->heads, .kv_heads = spec_->kv_heads, .head_dim = spec_->head_dim};
}

std::unique_ptr<WeightFiles> open_weights(const ModelSpec& spec, const std::string& path) {
  const std::string file = path.empty() ? path : weights_in(path);
  if (file.empty()) return nullptr;
  auto files = std::make_unique<WeightFiles>(spec, file);
  return files;
}

}  // namespace locant::check_room
