// SPDX-License-Identifier: Apache-2.0
// The same tokens at positions moved by a constant: a rotation or a bias by distance must not notice. It
// finds positions kept in 16 bits; it does not find wrong frequencies, which the static part holds against
// f64.
#pragma once

#include "trust/clock.h"
#include "trust/documents.h"
#include "trust/scorer.h"

namespace locant::trust_room {

struct ShiftWork {
  const Documents* documents = nullptr;
  const StaticTrust* facts = nullptr;
  Ids lead{};
  Scorer* scorer = nullptr;
  const Clock* clock = nullptr;
  double share = 1;
  bool absolute = false;
  bool follows_length = false;
};
[[nodiscard]] ShiftTrust measure_shift(const ShiftWork& work);

}  // namespace locant::trust_room
