// SPDX-License-Identifier: Apache-2.0
// The loss of a text that is longer than a model's window: windows that overlap, each token scored once, in
// the first window that holds it. All but the first window score what lies behind the one before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cli/feeding.h"
#include "cli/run_options.h"
#include "cli/scores.h"

namespace locant::cli {

struct Windows {
  std::int64_t window = 0;  ///< tokens
  std::int64_t stride = 0;  ///< between their first tokens, below window: a token needs one before it
};

/// Windows where --window or --stride asks for them, and where a row is longer than the position table and
/// nothing but the loss was asked for. The window is the configured length, else the trained one, and never
/// longer than the table. Throws SpecError where no length is known and none was given.
[[nodiscard]] std::optional<Windows> windows_for(const RunOptions& options, const Model& model,
                                                 const std::vector<std::int64_t>& lengths);

struct WindowJob {
  const Model& model;
  const Rows& rows;
  Windows windows;
  DType cache = DType::f32;
  ThreadPool& pool;
  const std::atomic<bool>& interrupt;  ///< set: what was scored so far is the answer
  std::function<void(std::int64_t done, std::int64_t all)> progress;  ///< tokens scored
};
struct WindowAnswer {
  std::int64_t windows = 0;  ///< that were read
  std::int64_t tokens = 0;   ///< fed, those of overlaps more than once
  bool interrupted = false;
  /// [B][1][T] the position at which each token was scored.
  std::vector<std::vector<std::vector<std::int64_t>>> positions;
};
/// Fills log-probabilities, next tokens and the first place that is not finite.
[[nodiscard]] WindowAnswer score_windows(const WindowJob& job, PromptScores& scores);

}  // namespace locant::cli
