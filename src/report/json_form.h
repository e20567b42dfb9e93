// SPDX-License-Identifier: Apache-2.0
// What the JSON objects of the command share: their head, numbers, facts and hypotheses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "locant/check.h"

namespace locant {

using OrderedJson = nlohmann::ordered_json;

[[nodiscard]] OrderedJson json_envelope(std::string_view command);
/// NaN and infinities as words.
[[nodiscard]] OrderedJson json_number(double value);
/// A number, a word or null.
[[nodiscard]] OrderedJson json_fact(const Fact& value);
[[nodiscard]] OrderedJson json_hypotheses(const std::vector<Hypothesis>& all);
/// Indented; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string json_text_of(const OrderedJson& object);
/// Bytes that are no UTF-8 replaced by U+FFFD.
[[nodiscard]] std::string as_utf8(std::string_view text);

}  // namespace locant
