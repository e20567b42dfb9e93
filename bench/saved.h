// SPDX-License-Identifier: Apache-2.0
// Runs kept as JSON, written after every row and whole at any moment: a run that is cut keeps what it has,
// and a table is completed in pieces.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace locant::bench {

using Json = nlohmann::ordered_json;

/// Puts the text in the place of the file in one step. FileError where it cannot.
void write_whole(const std::string& path, const Json& run);
/// The run in a file, null where there is no file. FileError where it is no run, or one of another CPU,
/// target or thread count than `now`, a run of this machine without rows.
[[nodiscard]] Json saved_run(const std::string& path, const Json& now);
/// What `before` (null = nothing) and `now` hold together: rows of `now` take the place of those that name
/// the same measurement, the other rows stay, ordered by number. Machine and limits are those of `now`.
[[nodiscard]] Json merged(const Json& before, const Json& now);
/// `before` has a time of this row, taken under the same flags by the same version.
[[nodiscard]] bool has_row(const Json& before, const Json& now, const Json& row);

}  // namespace locant::bench
