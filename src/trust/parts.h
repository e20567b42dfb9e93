// SPDX-License-Identifier: Apache-2.0
// The parts that static_trust() puts together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/trust.h"

namespace locant::trust_room {

/// What the angles of a rotation are judged against.
struct AngleQuery {
  const PositionFacts* entry = nullptr;
  const Recipe* recipe = nullptr;
  std::int64_t trained = 0;
  std::int64_t to = 0;
};
/// The entry holds a rotation.
[[nodiscard]] RotationTrust rotation_trust(const AngleQuery& query);

/// Largest |cos| error of the recipe's numerics below `to`, and where.
struct TableError {
  double error = 0;
  std::int64_t position = 0;
};
[[nodiscard]] TableError table_error(const Rotation& rotation, const Numerics& numerics, std::int64_t to);

/// Position tables that the model adds, as the weights hold them. Empty without weights.
[[nodiscard]] std::vector<TableTrust> table_trust(const Facts& facts, const std::string& weights);

/// Rows [rows][width] of a table, and where learning ends in them.
struct ChangePoint {
  std::int64_t learned = 0;
  std::string evidence{};
  double norm_before = 0;
  double norm_behind = 0;
  double likeness_before = 0;
  double likeness_behind = 0;
};
[[nodiscard]] ChangePoint change_point(const std::vector<float>& table, std::int64_t rows,
                                       std::int64_t width);

[[nodiscard]] std::vector<ReachTrust> reach_trust(const ModelSpec& spec, const Facts& facts);

}  // namespace locant::trust_room
