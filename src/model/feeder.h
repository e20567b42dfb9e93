// SPDX-License-Identifier: Apache-2.0
// Walks a call through one stack: checked whole, then cut into passes that the workspace holds.
#pragma once

#include <cstdint>
#include <vector>

#include "model/forward.h"
#include "model/state.h"

namespace locant {

/// A stack with what a session keeps of it.
struct Lane {
  const Model::State& model;
  const StackModel& stack;
  Cache& cache;
  std::vector<std::int64_t>& next_position;  ///< [rows]
};

/// What a walk hands over, and to whom.
struct Wanted {
  const LogitsReader* logits = nullptr;
  LogitsOf logits_of = LogitsOf::all;
  const StatesReader* states = nullptr;
};

/// Everything a call can get wrong, before a byte changes.
void check_call(const Lane& lane, const FeedCall& call);

/// The call has been checked. row_plans: [rows] where the plan varies with the length, else empty.
void walk(Session::State& state, const Lane& lane, Workspace& work, const FeedCall& call,
          const Wanted& wanted, std::vector<Plan>& row_plans);

}  // namespace locant
