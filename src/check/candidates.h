// SPDX-License-Identifier: Apache-2.0
// Which ladders a layer's rotation may have been given instead of its own: what runtimes and ports are known
// to do. Then the search: planned ladder, known changes, changed positions, and last fitted numbers.
#pragma once

#include <vector>

#include "check/evidence.h"
#include "check/ladder.h"

namespace locant::check_room {

/// The spec of a layer's rotation, or null.
[[nodiscard]] const PositionSpec* rotation_spec(const StackPositions& positions, std::int64_t layer);

/// What a spec plans; nothing where its mechanism refuses it or acts elsewhere.
[[nodiscard]] std::optional<Rotation> rotation_of(const PositionSpec& spec, const Recipe& recipe,
                                                  const Extent& extent);

struct CandidateQuery {
  const StackPositions& positions;
  const Recipe& recipe;
  std::int64_t layer = 0;
  std::int64_t seen = 0;        ///< tokens, of the pass
  std::int64_t configured = 0;  ///< tokens, 0 = not stated
};
/// The plan's ladder with one number changed: "theta", "factor", "seen"; nothing when its mechanism has no
/// such number or refuses the value.
[[nodiscard]] std::optional<Ladder> changed(const CandidateQuery& query, std::string_view parameter,
                                            double value);
/// Does the number of tokens seen change the ladder?
[[nodiscard]] bool follows_length(const CandidateQuery& query);

/// The planned ladder first. Only ladders that differ from it.
[[nodiscard]] std::vector<Ladder> candidates(const CandidateQuery& query, const Rotation& planned);

}  // namespace locant::check_room
