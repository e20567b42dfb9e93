// SPDX-License-Identifier: Apache-2.0
// q or k of one layer and pass before and after its rotation, the geometries it may have, and deviations on
// their way to findings.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/book.h"
#include "check/rotation_report.h"

namespace locant::check_room {

/// One tensor of one layer and pass, before and after.
struct Tensor {
  std::string_view word;  ///< "q" or "k"
  std::string name;       ///< of the result, in the trace
  Values before;
  Values after;
};

/// A deviation, on its way to a finding; equal ones of several layers and passes become one.
struct Deviation {
  std::string rule;
  std::string text;
  std::string cause;
  Depth depth = Depth::rotation;
  Numbers numbers;
  std::vector<Hypothesis> hypotheses;
  std::vector<Curve> curves;
  Place where;
  Severity severity = Severity::error;
  std::vector<std::int64_t> layers;
  std::vector<std::int64_t> steps;
  std::vector<std::string> tensors;
};

class Collected {
 public:
  void add(Deviation deviation, std::int64_t layer, std::int64_t step, std::string_view tensor) {
    auto found = std::find_if(all_.begin(), all_.end(), [&](const Deviation& other) {
      return other.rule == deviation.rule && other.text == deviation.text;
    });
    if (found == all_.end()) {
      all_.push_back(std::move(deviation));
      found = all_.end() - 1;
    }
    const auto once = [](auto& list, const auto& value) {
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    };
    once(found->layers, layer);
    once(found->steps, step);
    once(found->tensors, std::string(tensor));
  }
  [[nodiscard]] std::vector<Deviation>& all() noexcept { return all_; }

 private:
  std::vector<Deviation> all_;
};

/// Nothing unless both are recorded. Throws FileError for other shapes than [B, T, heads, head_dim].
[[nodiscard]] std::optional<Tensor> read_tensor(const Pass& pass, std::int64_t layer,
                                                trace_names::Layer before, trace_names::Layer after,
                                                std::string_view word, std::int64_t head_dim);
/// Rows that the rotation left as zeros, where zeros did not come in.
[[nodiscard]] std::vector<std::int64_t> unwritten_rows(const Pass& pass, const Rotation& planned,
                                                       const Tensor& tensor);
/// Numbers of content that are not finite: rows of padding may hold anything.
[[nodiscard]] std::int64_t not_finite(const Pass& pass, const Values& values);
/// What rounding of angles, products in f32, leaves of a length at the pass's furthest position.
[[nodiscard]] double budget_of_angles(const Pass& pass, const Ladder& ladder);
/// Relative root mean square that rounding leaves under the right geometry.
[[nodiscard]] double misfit_budget(DType dtype);
[[nodiscard]] std::string geometry_text(const Geometry& geometry);
/// Others than the planned one, likely ones first.
[[nodiscard]] std::vector<Geometry> geometries(const Rotation& planned);
/// Halves turned by a table laid out in twos, or the reverse: relative root mean square that this leaves.
[[nodiscard]] double crossed_residual(const Pass& pass, const Tensor& tensor, const Rotation& planned,
                                      const Ladder& ladder, const std::vector<std::int64_t>& due);

}  // namespace locant::check_room
