// SPDX-License-Identifier: Apache-2.0
// The evidence of findings as curves: what was due and what is there.
#pragma once

#include <string>

#include "check/evidence.h"
#include "check/ladder.h"
#include "locant/check.h"

namespace locant::check_room {

void add_point(Curve& curve, double x, double expected, double observed);
/// No more than Curve::kMostPoints, evenly taken, the ends among them.
void thin(Curve& curve);

/// Turns of `what` ("q of layer 3") against a planned ladder: the angle of the pair that is furthest from it,
/// by token, or of all pairs where there are few tokens; and each pair's frequency as a share of the one that
/// is due, where tokens follow each other.
[[nodiscard]] std::vector<Curve> turn_curves(const std::string& what, const Turns& turns,
                                             const Ladder& planned, const TokenPositions& due);
/// Mean length of each pair's factors.
[[nodiscard]] Curve amplitude_curve(const std::string& what, const Turns& turns, double planned);

}  // namespace locant::check_room
