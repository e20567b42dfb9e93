// SPDX-License-Identifier: Apache-2.0
// A prompt on its way through Locant's own runtime, and the trace of that: what `run` and `trace` share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/host.h"
#include "cli/prompts.h"
#include "locant/model.h"
#include "locant/trace.h"

namespace locant::cli {

using Rows = std::vector<std::vector<std::int64_t>>;

/// With ids a tokenizer only decorates: a damaged one is a note.
[[nodiscard]] OpenedTokenizer tokenizer_for(const Prompt& prompt, const std::string& model, Host& host,
                                            std::vector<Note>& notes);
/// Ids of every row. Throws SpecError for an empty row, and where texts have no tokenizer.
[[nodiscard]] Rows encode(std::string_view command, Prompt prompt, const OpenedTokenizer& tokenizer);
[[nodiscard]] std::vector<std::int64_t> lengths_of(const Rows& rows);

/// The positions of a prompt and of `more` tokens after it lie inside every table. Throws std::out_of_range
/// before anything is computed.
void require_positions_in_tables(const Model& model, const RowPositions& positions, std::int64_t more);

/// Reads the logits of some tokens, the first of them counted over the concatenated rows.
using LogitsReader = std::function<void(std::int64_t first, View<const float, 2> logits)>;
/// Returns the number of tokens.
std::int64_t feed_rows(Session& session, const Rows& rows, const RowPositions& positions,
                       const LogitsReader& reader);

/// Rows one behind the other, as calls take them.
struct FlatRows {
  explicit FlatRows(const Rows& rows);
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  [[nodiscard]] FeedCall call() const;
};

/// The trace of a session, where one is asked for.
class Tracing {
 public:
  /// `path` "" = none; `name` is what was run.
  Tracing(const std::string& path, const std::string& name, const Model& model);
  void attach(Session& session, Padding padding);
  void finish(Session& session);

 private:
  std::optional<TraceWriter> writer_;
};

}  // namespace locant::cli
