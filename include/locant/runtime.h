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

/// One call. The cache of the session precedes it. Views are valid during the call only.
struct ForwardCall {
  View<const std::int64_t, 2> ids;  ///< [B, T], T >= 1; padding holds some id of the vocabulary
  /// [B, S], 1 = token, 0 = padding; none = all tokens. Its last T columns are this call's; S is T, or the
  /// width of all calls so far, whose padding is then the same as before. Padding stands left or right of a
  /// row's tokens, and right padding of one call lies between tokens once another follows. No token ever
  /// sees it, and it is not counted: a row's answer is what it is alone.
  std::optional<View<const std::int64_t, 2>> mask;
  /// [axes, B, T], 0 = the first token of a sequence; what stands at padding is 0 and means nothing. None =
  /// each row's content counts on from its cache: 0, 1, 2, .. over all calls, padding left out. An adapter
  /// leaves that count to its runtime: it is what the rules judge. 1 axis serves for all where a model has
  /// several.
  std::optional<View<const std::int64_t, 3>> positions;
  /// [B, T], only where Runtime::takes_documents(): equal numbers are one document, in one piece. A token
  /// sees its own document, and without positions each document counts from 0. None = one document.
  std::optional<View<const std::int64_t, 2>> documents = std::nullopt;
};

/// One set of sequences with their caches. B is fixed by the first call. Sessions of one runtime are
/// independent, whatever their order, and several are open at a time.
class RuntimeSession {
 public:
  virtual ~RuntimeSession() = default;
  /// Feeds ids and writes logits [B, T, V], those of every token, before any softmax or sampling; rows of
  /// padding become NaN. Throws before anything is written: std::out_of_range (an id, a position, the
  /// capacity), SpecError (shapes; positions or documents where the runtime cannot take them: they are
  /// refused, never dropped).
  virtual void forward(const ForwardCall& call, View<float, 3> logits) = 0;
  /// An independent copy of the state, or null where the runtime cannot.
  [[nodiscard]] virtual std::unique_ptr<RuntimeSession> fork() const { return nullptr; }
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "locant", "transformers 5.24.0", ...
  [[nodiscard]] virtual std::int64_t vocab() const = 0;
  /// A session for up to `capacity` columns a row, padding counted. Throws std::out_of_range past a table's
  /// end. The session may use the runtime as long as that lives, and no longer.
  [[nodiscard]] virtual std::unique_ptr<RuntimeSession> open(std::int64_t capacity) = 0;
  /// The same weights under another position mechanism, or null where the runtime cannot.
  [[nodiscard]] virtual std::unique_ptr<Runtime> with(const PositionSpec&) { return nullptr; }
  /// Whether forward() takes documents.
  [[nodiscard]] virtual bool takes_documents() const { return false; }
};

}  // namespace locant
