// SPDX-License-Identifier: Apache-2.0
// From a candidate cause to the rule that names it, for recorded tensors and for recorded tables.
#pragma once

#include <string>
#include <string_view>

#include "check/book.h"
#include "check/candidates.h"

namespace locant::check_room {

/// Rule of a cause seen in q and k (R...) or in a table (T...).
[[nodiscard]] std::string_view rotation_rule(Cause cause) noexcept;
[[nodiscard]] std::string_view table_rule(Cause cause) noexcept;

/// Expected and observed of the pair whose frequency differs most, or of the number that was fitted.
struct Numbers {
  Fact expected;
  Fact observed;
  std::string text;  ///< "pair 5: 0.0123 rad/token where 0.0456 is due"
};
[[nodiscard]] Numbers numbers_of(const Ladder& planned, const Ladder& found);

}  // namespace locant::check_room
