// SPDX-License-Identifier: Apache-2.0
// Rows of ids, and the positions they stand at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_options.h"

namespace locant::cli {

/// What the prompt flags hold, files read: texts, or rows of ids.
struct Prompt {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> ids;
};
/// `command` is who says it. Throws UsageError, FileError, SpecError.
[[nodiscard]] Prompt read_prompt(std::string_view command, const PromptFlags& flags);

/// "1,2,3" of a flag. Throws UsageError.
[[nodiscard]] std::vector<std::int64_t> parse_ids(std::string_view command, std::string_view list,
                                                  std::string_view flag = "--ids");

/// Positions of every token: [B][axes][T of the row].
struct RowPositions {
  std::int64_t axes = 1;
  std::vector<std::vector<std::vector<std::int64_t>>> rows;
  bool explicit_ids = false;  ///< they differ from counting on from 0

  /// [axes * N], axis-major, as FeedCall wants it.
  [[nodiscard]] std::vector<std::int64_t> concatenated() const;
};
/// From --positions (in the padded layout) or --start. Throws SpecError and FileError.
[[nodiscard]] RowPositions read_positions(const RunOptions& options,
                                          const std::vector<std::int64_t>& lengths);

/// Column of a row's first token in a padded layout of `width` columns.
[[nodiscard]] std::int64_t first_column(Padding padding, std::int64_t width, std::int64_t length);

}  // namespace locant::cli
