// SPDX-License-Identifier: Apache-2.0
// Lookup and change of stated parameters, and the names of the closed sets of plan.h.
#include <utility>

#include "locant/plan.h"
#include "locant/positions.h"

namespace locant {

const Parameter* PositionSpec::find(std::string_view name) const noexcept {
  for (const Parameter& parameter : parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

std::optional<double> PositionSpec::number(std::string_view name) const noexcept {
  const Parameter* const found = find(name);
  if (found == nullptr) return std::nullopt;
  if (const auto* const whole = std::get_if<std::int64_t>(&found->value)) return static_cast<double>(*whole);
  if (const auto* const fraction = std::get_if<double>(&found->value)) return *fraction;
  return std::nullopt;
}

void PositionSpec::set(std::string name, ParameterValue value, std::string key) {
  for (Parameter& parameter : parameters) {
    if (parameter.name != name) continue;
    parameter.value = std::move(value);
    parameter.key = std::move(key);
    return;
  }
  parameters.push_back({std::move(name), std::move(value), std::move(key)});
}

std::string_view name_of(Site site) noexcept {
  switch (site) {
    case Site::embedding:
      return "embedding";
    case Site::rotation:
      return "rotation";
    case Site::bias:
      return "bias";
    case Site::query_scale:
      return "query_scale";
  }
  return "?";
}

std::string_view name_of(Pairing pairing) noexcept {
  return pairing == Pairing::half ? "half" : "interleaved";
}

std::string_view name_of(Columns columns) noexcept {
  return columns == Columns::interleaved ? "interleaved" : "halves";
}

std::string_view name_of(Stack stack) noexcept {
  switch (stack) {
    case Stack::decoder:
      return "decoder";
    case Stack::encoder:
      return "encoder";
    case Stack::cross:
      return "cross";
  }
  return "?";
}

std::string_view name_of(BiasForm form) noexcept {
  switch (form) {
    case BiasForm::slopes:
      return "slopes";
    case BiasForm::buckets:
      return "buckets";
    case BiasForm::function:
      return "function";
    case BiasForm::content:
      return "content";
  }
  return "?";
}

std::string_view name_of(CountsFrom from) noexcept {
  switch (from) {
    case CountsFrom::query:
      return "query";
    case CountsFrom::sequence_start:
      return "sequence_start";
    case CountsFrom::sequence_end:
      return "sequence_end";
  }
  return "?";
}

std::string_view name_of(Padding padding) noexcept {
  switch (padding) {
    case Padding::none:
      return "none";
    case Padding::left:
      return "left";
    case Padding::right:
      return "right";
  }
  return "?";
}

}  // namespace locant
