// SPDX-License-Identifier: Apache-2.0
// Positions on three axes (M-RoPE): what image and video tokens of a recorded pass ought to have.
#pragma once

#include "check/evidence.h"

namespace locant::check_room {

/// Replaces `due` of passes that hold image or video tokens by the three axes of mrope_positions(). Grids are
/// those of the trace; an image without one gets the grid that its recorded rows and columns span. Leaves
/// passes alone whose grids cannot be told: `axes` stays 1 and `due` empty.
void count_vision(const Evidence& evidence, Trace& trace);

}  // namespace locant::check_room
