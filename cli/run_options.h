// SPDX-License-Identifier: Apache-2.0
// The flags of `locant run`, read and checked as far as that goes without the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "locant/model.h"
#include "locant/positions.h"

namespace locant::cli {

/// Where the rows of a prompt come from: one of these four kinds at most.
struct PromptFlags {
  std::vector<std::string> texts;
  std::string text_file;
  std::vector<std::string> ids;
  std::string ids_file;

  void add_to(Arguments& arguments);
  [[nodiscard]] bool given() const noexcept;
  /// Throws UsageError for two kinds.
  void require_one_kind(std::string_view command) const;
};

/// How the hidden states of a row become one vector: their mean, the first token's, the last token's.
enum class Pool : std::uint8_t { mean, cls, last };

struct RunOptions {
  CommonFlags common;
  std::string model;
  PromptFlags prompt;
  Padding padding = Padding::left;
  std::string positions_file;
  std::int64_t start = 0;
  std::int64_t continue_tokens = 0;
  Sampling sampling;
  std::int64_t top = 0;
  std::string logits_file;
  std::string trace_file;
  LoadOptions load;
  DType cache = DType::f32;
  bool loss = false;
  std::int64_t window = 0;               ///< of the loss, in tokens; 0 = none was given
  std::int64_t stride = 0;               ///< 0 = none was given
  std::string embed_file;                ///< "" = none
  std::optional<Pool> pool;              ///< none was given
  std::vector<std::string> decoder_ids;  ///< rows of a decoder beside an encoder
  int threads = 1;
};

[[nodiscard]] std::string_view name_of(Pool pool) noexcept;

/// Throws UsageError, HelpAsked and SpecError (an unknown recipe).
[[nodiscard]] RunOptions read_run_options(Args args);

}  // namespace locant::cli
