// SPDX-License-Identifier: Apache-2.0
// What the rules look at: a model's spec and plans, its weights, and recorded passes with the positions that
// each token ought to have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/check.h"
#include "locant/facts.h"
#include "locant/formats.h"
#include "locant/positions.h"
#include "locant/recipe.h"
#include "locant/spec.h"
#include "locant/trace.h"

namespace locant::check_room {

/// Numbers of a recorded tensor, row-major, as f32 (exact for f32, f16, bf16).
struct Values {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
  DType dtype = DType::f32;

  [[nodiscard]] bool empty() const noexcept { return data.empty(); }
  [[nodiscard]] std::int64_t extent(std::size_t axis) const { return shape.at(axis); }
};
/// Throws FileError (named after `what`) for integers and booleans.
[[nodiscard]] Values values_of(const TensorRef& tensor, const std::string& what);
/// Throws FileError for floats.
[[nodiscard]] std::vector<std::int64_t> integers_of(const TensorRef& tensor, const std::string& what);

/// Half a step in the last place, relative: 2^-p for p significant bits.
[[nodiscard]] double half_step(DType dtype) noexcept;
/// What the budgets of the rules are multiples of: half_step(), and half of that for bf16.
[[nodiscard]] double unit_roundoff(DType dtype) noexcept;

/// A recorded tensor; one without elements says nothing and counts as absent.
[[nodiscard]] TensorRef recorded(const TraceReader& trace, std::string_view name);

/// One forward pass. Tensors of [B, T] are flat, row after row.
struct Pass {
  const TraceReader* trace = nullptr;
  std::string path;    ///< of the trace
  std::string prefix;  ///< of its names: step and stack
  std::int64_t step = 0;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::vector<std::int64_t> ids;       ///< [B, T], or empty
  std::vector<bool> content;           ///< [B, T], false = padding
  std::vector<bool> vision;            ///< [B, T], true = stands for a piece of an image or video; or empty
  std::vector<std::int64_t> past;      ///< [B] tokens of content before this pass
  std::vector<bool> columns;           ///< [B, S] content of all columns so far, this pass's last
  std::int64_t width = 0;              ///< S
  std::int64_t axes = 1;               ///< of `due`
  std::vector<std::int64_t> due;       ///< [axes, B, T] positions of the content; 0 at padding
  std::vector<std::int64_t> document;  ///< [B, T] segment ids, or empty
  std::int64_t shift = 0;              ///< in `due`: the cache was turned by that number (a context shift)
  std::int64_t stated_axes = 0;        ///< of `stated`, 0 = not recorded
  std::vector<std::int64_t> stated;    ///< [axes, B, T] the recorded position_ids
  std::int64_t seen = 0;               ///< tokens of the longest row, this pass included
  std::optional<Plan> plan;            ///< in force in this pass; nothing without a spec
  /// [B] the row is too short for that plan, where the plan follows the length: a runtime may take one for
  /// the batch or let a row be what it is alone. Its rotation is not judged.
  std::vector<bool> too_short;

  [[nodiscard]] TensorRef find(std::string_view name) const {
    return recorded(*trace, prefix + std::string(name));
  }
  [[nodiscard]] bool is_short(std::int64_t row) const {
    return !too_short.empty() && too_short[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t token) const {
    return static_cast<std::size_t>(row * tokens + token);
  }
};

struct Trace {
  std::string path;
  TraceReader reader;
  DType dtype = DType::f32;  ///< what it was computed in
  Stack stack = Stack::decoder;
  std::vector<Pass> passes;
  std::int64_t rank = 0;  ///< of `world` processes that ran the model together
  std::int64_t world = 1;
  bool sliced = false;  ///< each rank holds other tokens of the same rows (context parallel)
};

struct Evidence {
  const ModelSpec* spec = nullptr;
  const Recipe* recipe = nullptr;
  std::optional<SafetensorsFile> weights;
  std::optional<Facts> facts;
  std::vector<std::unique_ptr<Trace>> traces;
  std::vector<AttentionSpec> seen_both_ways;  ///< of an encoder whose family is not known
  std::vector<std::vector<Trace*>> worlds;    ///< the ranks of each directory of traces, by rank

  /// The stack of a trace: null without a spec, or when the model has none of that kind.
  [[nodiscard]] const StackPositions* positions(const Trace& trace) const;
  [[nodiscard]] const std::vector<AttentionSpec>* attention(const Trace& trace) const;
};

/// Opens a directory with one trace a rank. Throws FileError where a rank is missing or there twice.
void open_ranks(Evidence& evidence, const std::string& directory);
/// Opens a file; two stacks are two traces.
void open_trace(Evidence& evidence, const std::string& path);

/// Where a pass finds all keys of earlier ones turned by one number, its positions are due that much further
/// on. Needs the passes' plans.
void follow_shifts(Trace& trace);

[[nodiscard]] Evidence gather(const CheckQuery& query);

}  // namespace locant::check_room
