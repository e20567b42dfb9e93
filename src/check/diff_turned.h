// SPDX-License-Identifier: Apache-2.0
// q or k of both traces before and after their rotation, and the geometry that each side's heads show.
#pragma once

#include <optional>
#include <string_view>

#include "check/diff_explain.h"
#include "check/rotation_tensors.h"

namespace locant::check_room {

/// q or k of both sides, before and after.
struct Turned {
  Tensor want;
  Tensor got;
};
/// `word` is "q" or "k"; nothing unless all four are recorded in one shape.
[[nodiscard]] std::optional<Turned> read_turned(const Suspect& suspect, const Excerpt& excerpt,
                                                std::string_view word);
/// The narrowest geometry under which the heads turn together; nothing when there is none, or when one head
/// leaves the pairing open.
[[nodiscard]] std::optional<Geometry> geometry_seen(const Tensor& whole, double allowed);
/// What comes out is what came in.
[[nodiscard]] bool stands(const Tensor& tensor, double allowed);

}  // namespace locant::check_room
