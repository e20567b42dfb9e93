// SPDX-License-Identifier: Apache-2.0
// Two forms of one model, tensor by tensor: what stands for what, and in which order the rows of q and k are
// due. One form is the source, the other was made from it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check/book.h"
#include "check/row_order.h"
#include "check/values.h"
#include "check/weight_parts.h"

namespace locant::check_room {

/// A tensor that one form has alone.
struct Alone {
  const Weight* weight = nullptr;
  std::optional<Place> place{};
  bool in_source = false;
};

/// A tensor that cannot be judged.
struct Unjudged {
  const Weight* weight = nullptr;
  std::string why{};
};

/// The head's two forms, where only one of them has a tensor of its own.
struct TiedHead {
  const Weight* head = nullptr;       ///< of its own
  const Weight* embedding = nullptr;  ///< what stands for it in the other form
  bool in_source = false;             ///< where the head is
};

struct TensorPairs {
  std::vector<PartPair> pairs{};  ///< q, k and v before what follows from them
  std::vector<Alone> alone{};
  std::vector<Unjudged> unjudged{};
  std::optional<TiedHead> tied{};
};
[[nodiscard]] TensorPairs pair_up(const WeightFiles& source, const WeightFiles& made);

/// Plans of both forms under one recipe; without one where a recipe refuses it.
struct PlanPair {
  std::optional<Plan> source{};
  std::optional<Plan> made{};
  /// Of a layer; null without a rotation or a plan.
  [[nodiscard]] static const Rotation* rotation(const std::optional<Plan>& plan, std::int64_t layer);
};

/// The order of the rows of q and k that the pairings of both plans ask for.
[[nodiscard]] RowOrder due_order(const PlanPair& plans, const ModelSpec& spec, const Part& part);

/// Who is who, for messages.
struct Forms {
  const ModelSpec* source = nullptr;
  const ModelSpec* made = nullptr;
  const Recipe* recipe = nullptr;
  bool same_format = false;
};
/// A GGUF file was made from a checkpoint; of two of one format MODEL was made from OTHER.
[[nodiscard]] Forms forms_of(const CheckQuery& query);

// The parts of check_conversion().
void check_tensors(const WeightFiles& source, const WeightFiles& made, const TensorPairs& pairing,
                   Book& book);
void check_values(const WeightFiles& source, const WeightFiles& made, const Forms& forms,
                  const TensorPairs& pairing, const CheckProgress& progress, Book& book);
void check_meaning(const Forms& forms, const WeightFiles* source, const WeightFiles* made, Book& book);

}  // namespace locant::check_room
