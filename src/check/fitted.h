// SPDX-License-Identifier: Apache-2.0
// Ladders with fitted numbers: a base, a factor, a length, one divisor of all frequencies, or a schedule by
// parts that nobody asked for.
#pragma once

#include <vector>

#include "check/candidates.h"

namespace locant::check_room {

/// Each the best of its form; whether it explains the turns is to be judged. One axis only.
[[nodiscard]] std::vector<Ladder> fitted_ladders(const Turns& turns, const CandidateQuery& query,
                                                 const TokenPositions& due, const Ladder& planned);

}  // namespace locant::check_room
