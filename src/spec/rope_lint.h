// SPDX-License-Identifier: Apache-2.0
// What is odd in a rotation's block, as notes of a tolerant config: rules C101, C104 and C113.
#pragma once

#include <string_view>

#include "locant/plan.h"
#include "spec/config.h"

namespace locant {

/// The mechanism of a schedule as configs write it ("su" -> "longrope"); empty when it is not known.
[[nodiscard]] std::string_view schedule_of(std::string_view word);

/// A fact that stands in two places with two values. Silent where one of them is null or a default.
void note_conflict(const Config& here, std::string_view key, const Config& there, std::string_view other);

/// rope_scaling beside rope_parameters, both for all layers: the schedule and every shared key.
void judge_two_blocks(const Config& scaling, const Config& parameters);

/// Nulls in a block that readers fill in with different values. theta may stand beside the block.
void judge_nulls_of_block(const Config& block, const PositionSpec& rope);

/// Lists that the mechanism would refuse for their length; what stays is the rotation without them.
void judge_lists(const Config& config, PositionSpec& rope);

/// The rotation without its schedule.
void make_plain(PositionSpec& rope);

}  // namespace locant
