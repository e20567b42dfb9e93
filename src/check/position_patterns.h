// SPDX-License-Identifier: Apache-2.0
// What happened to the positions of a row, in words: moved, skipped, repeated, started over, multiplied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check/evidence.h"

namespace locant::check_room {

/// One token of one row, over all passes.
struct Step {
  const Pass* pass = nullptr;
  std::int64_t token = 0;
  std::int64_t due = 0;
  std::int64_t got = 0;
};

struct Pattern {
  std::string_view rule;
  std::string text;
  std::int64_t due = 0;  ///< at the first token that differs
  std::int64_t got = 0;
  const Pass* pass = nullptr;
  std::int64_t row = 0;
  std::int64_t token = 0;
  bool shift = false;  ///< the whole row is moved by one number

  [[nodiscard]] bool operator==(const Pattern& other) const {
    return rule == other.rule && text == other.text && row == other.row;
  }
};

/// Names what happened to the positions of a row. `steps` holds content alone, in order; one of them differs.
[[nodiscard]] Pattern name_pattern(const std::vector<Step>& steps, std::int64_t row);

}  // namespace locant::check_room
