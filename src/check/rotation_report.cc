// SPDX-License-Identifier: Apache-2.0
#include "check/rotation_report.h"

#include <fmt/format.h>

#include <cmath>

namespace locant::check_room {

std::string_view rotation_rule(Cause cause) noexcept {
  switch (cause) {
    case Cause::missing:
      return "R104";
    case Cause::twice:
      return "R103";
    case Cause::reversed:
    case Cause::swapped:
      return "R105";
    case Cause::theta:
      return "R106";
    case Cause::other_kind:
      return "R110";
    case Cause::rounded:
      return "R112";
    case Cause::axes:
      return "R113";
    case Cause::width:
      return "R102";
    default:
      return "R107";
  }
}

std::string_view table_rule(Cause cause) noexcept {
  switch (cause) {
    case Cause::theta:
    case Cause::width:
      return "T101";
    case Cause::rounded:
      return "T103";
    case Cause::missing:
    case Cause::twice:
    case Cause::reversed:
    case Cause::swapped:
      return "T104";
    default:
      return "T102";
  }
}

Numbers numbers_of(const Ladder& planned, const Ladder& found) {
  Numbers numbers;
  std::size_t worst = 0;
  double largest = 0;
  for (std::size_t p = 0; p < planned.inv_freq.size(); ++p) {
    const double due = planned.inv_freq[p];
    const double is = found.sign * found.times * found.inv_freq[p];
    const double away = due == is ? 0 : std::abs(is - due) / std::max(std::abs(due), std::abs(is));
    if (away <= largest) continue;
    largest = away;
    worst = p;
  }
  if (largest == 0) return numbers;
  const double due = planned.inv_freq[worst];
  const double is = found.sign * found.times * found.inv_freq[worst];
  numbers.expected = due;
  numbers.observed = is;
  numbers.text = fmt::format("pair {}: {:.6g} rad/token where {:.6g} is due", worst, is, due);
  return numbers;
}

}  // namespace locant::check_room
