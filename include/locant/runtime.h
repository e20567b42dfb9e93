// SPDX-License-Identifier: Apache-2.0
// The live runtime that rules and measurements drive: open(capacity) -> Session; forward(ids, mask,
// positions) -> logits. Implemented by model/ and by the Python adapter; optional parts say so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "locant/core.h"
#include "locant/plan.h"

namespace locant {

/// One call. The cache of the session precedes it.
struct ForwardCall {
  View<const std::int64_t, 2> ids;  ///< [B, T]
  /// [B, S], 1 = token, 0 = padding; its last T columns are this call's, S >= T. None = all tokens.
  /// Whether padding stands left or right does not matter: it never enters the cache.
  std::optional<View<const std::int64_t, 2>> mask;
  /// [axes, B, T]; none = each row's content counts on from its cache.
  std::optional<View<const std::int64_t, 3>> positions;
};

/// One set of sequences with their caches. B is fixed by the first call.
class RuntimeSession {
 public:
  virtual ~RuntimeSession() = default;
  /// Feeds ids and writes logits [B, T, V]; rows of padding become NaN. Throws before anything is
  /// written: std::out_of_range (an id, a position, the capacity), SpecError (shapes).
  virtual void forward(const ForwardCall& call, View<float, 3> logits) = 0;
  /// An independent copy of the state, or null where the runtime cannot.
  [[nodiscard]] virtual std::unique_ptr<RuntimeSession> fork() const { return nullptr; }
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "locant", "transformers 5.24.0", ...
  [[nodiscard]] virtual std::int64_t vocab() const = 0;
  /// A session for up to `capacity` tokens a row. Throws std::out_of_range past a table's end.
  [[nodiscard]] virtual std::unique_ptr<RuntimeSession> open(std::int64_t capacity) = 0;
  /// The same weights under another position mechanism, or null where the runtime cannot.
  [[nodiscard]] virtual std::unique_ptr<Runtime> with(const PositionSpec&) { return nullptr; }
};

}  // namespace locant
