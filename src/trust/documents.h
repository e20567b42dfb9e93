// SPDX-License-Identifier: Apache-2.0
// Documents of a measurement: whole texts, or spans of a long one that do not touch. Never concatenated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/trust.h"

namespace locant::trust_room {

using Ids = std::vector<std::int64_t>;

inline constexpr std::int64_t kTargets = 32;        // tokens scored at the end of a document
inline constexpr std::int64_t kShortest = 32;       // tokens of the shortest window
inline constexpr std::int64_t kLeastDocuments = 8;  // for an interval over documents
inline constexpr std::int64_t kMostDocuments = 160;

/// Lengths to be measured: powers of two and the middle between two, with the lengths that something states.
[[nodiscard]] std::vector<std::int64_t> length_grid(const StaticTrust& facts, std::int64_t to);

struct CutQuery {
  const std::vector<TrustDocument>* texts = nullptr;
  std::vector<std::int64_t> lengths{};  ///< ascending
  std::int64_t lead = 0;                ///< tokens put before every window
  std::uint64_t seed = 0;
};
struct Documents {
  std::vector<Ids> ids{};    ///< all of one length, in an order that the seed gives
  std::int64_t longest = 0;  ///< of the lengths, that they serve
  std::string text{};        ///< how they were cut, one sentence
};
/// The longest windows that enough documents have. Throws SpecError: no text is long enough for the shortest
/// window, too few of them, or all the same.
[[nodiscard]] Documents cut_documents(const CutQuery& query);

}  // namespace locant::trust_room
