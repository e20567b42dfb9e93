// SPDX-License-Identifier: Apache-2.0
// The two forms of the answer of `locant inspect`.
#pragma once

#include "cli/answer.h"
#include "locant/facts.h"

namespace locant::cli {

[[nodiscard]] OrderedJson inspect_json(const Facts& facts);
void write_inspect_text(const Facts& facts, Answer& answer);

/// "0-4,6"; runs of layers as ranges.
[[nodiscard]] std::string layer_ranges(const std::vector<std::int64_t>& layers);
/// One sign a dimension of a head, or one for several where it is wide: c and s for the two channels of a
/// rotated pair, dots for what passes through.
struct HeadPicture {
  std::string signs;
  std::int64_t dimensions_per_sign = 1;
};
[[nodiscard]] HeadPicture head_picture(const Rotation& rotation);

}  // namespace locant::cli
