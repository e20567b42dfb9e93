// SPDX-License-Identifier: Apache-2.0
// Which token of its row each column of scores, and each slot of a cache, stands for.
#pragma once

#include <cstdint>
#include <vector>

#include "check/diff_flow.h"
#include "check/diff_sides.h"

namespace locant::check_room {

/// Of one pass of one side: [B][S] content before the column's token, kPadding for padding.
using Columns = std::vector<std::vector<std::int64_t>>;
/// Self-attention and caches; cache.source is followed where it is recorded.
[[nodiscard]] Columns columns_of(const Side& side, std::size_t pass, const FlowName& name,
                                 std::int64_t count);
/// Cross-attention: the encoder's tokens; columns as they are where no encoder is recorded.
[[nodiscard]] Columns encoder_columns(const Side* encoder, std::int64_t rows, std::int64_t count);
/// [B][limit of the row] the column of each token, -1 where it has none.
[[nodiscard]] Columns inverse(const Columns& columns, const std::vector<std::int64_t>& limit);

}  // namespace locant::check_room
