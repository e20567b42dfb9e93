// SPDX-License-Identifier: Apache-2.0
// Does the model find what is there? A segment of tokens drawn from those of the text stands twice in running
// text; the end of the second copy is told from other ends by likelihood (Olsson et al. 2022 on copying
// heads; Hsieh et al. 2024 on why one depth says nothing). Length, distance and source vary apart from each
// other.
#pragma once

#include <functional>
#include <string_view>

#include "trust/clock.h"
#include "trust/documents.h"
#include "trust/scorer.h"

namespace locant::trust_room {

struct RetrievalWork {
  const Documents* documents = nullptr;
  const StaticTrust* facts = nullptr;
  Ids lead{};
  Scorer* scorer = nullptr;
  const Clock* clock = nullptr;
  double share = 1;
  std::int64_t longest = 0;  ///< tokens
  std::uint64_t seed = 0;
  std::function<void(std::string_view)> progress{};
};
[[nodiscard]] Retrieval measure_retrieval(const RetrievalWork& work);

}  // namespace locant::trust_room
