// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "locant/report.h"

namespace locant {

std::string place_text(const Place& place) {
  std::string text;
  const auto add = [&](std::string_view word, const std::optional<std::int64_t>& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", word, *value);
  };
  add("layer", place.layer);
  add("head", place.head);
  add("step", place.step);
  add("row", place.row);
  add("token", place.token);
  const std::string& named = place.tensor.empty() ? place.key : place.tensor;
  if (!named.empty()) text += fmt::format("{}{}", text.empty() ? "" : " of ", named);
  return text;
}

}  // namespace locant
