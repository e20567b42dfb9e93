// SPDX-License-Identifier: Apache-2.0
// Tables that a plan stands for: cos and sin [T, P] of a rotation, rows [T, width] of a sinusoid, the row of
// a position. f64: one rounding. f32: every step rounded, the way the imitated runtime does it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "core/checked.h"
#include "core/narrow.h"
#include "locant/positions.h"
#include "positions/sin_cos.h"

namespace locant {
namespace {

/// double -> f32, inexact values to the neighbour with an odd last bit: a later rounding to 16 bits is then
/// the rounding of the double itself (Boldo and Melquiond 2008).
float to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || !std::isfinite(nearest)) return nearest;
  // Of the two neighbours of x exactly one has an odd last bit.
  if (std::bit_cast<std::uint32_t>(nearest) % 2 != 0) return nearest;
  const float toward =
      x > back ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, toward);
}

/// factor * x as the table keeps it.
float kept(double x, double factor, const Numerics& numerics) {
  if (numerics.angle != AngleNumerics::f64) {
    return narrowed(static_cast<float>(x) * static_cast<float>(factor), numerics.table);
  }
  const bool sixteen = numerics.table == DType::f16 || numerics.table == DType::bf16;
  return sixteen ? narrowed(to_odd(x * factor), numerics.table) : static_cast<float>(x * factor);
}

/// The angles of one position after another, pair by pair in order.
class Angles {
 public:
  Angles(std::span<const double> inv_freq, AngleNumerics numerics)
      : inv_freq_(inv_freq), numerics_(numerics), exponent_(rounding_of_exponent(inv_freq.size())) {}

  [[nodiscard]] double next(std::int64_t position, std::size_t pair) {
    const double w = inv_freq_[pair];
    if (numerics_ == AngleNumerics::f64) return static_cast<double>(position) * w;
    const auto p = static_cast<float>(position);
    const bool chained = numerics_ == AngleNumerics::f32_running && pair > 0 && inv_freq_[pair - 1] != 0;
    running_ = chained ? running_ * step(w / inv_freq_[pair - 1]) : p * static_cast<float>(w);
    return static_cast<double>(running_);
  }

 private:
  /// ggml takes theta^(-2/n) with an f32 exponent, which is rounded where n is no power of two.
  static double rounding_of_exponent(std::size_t pairs) {
    const double exponent = pairs == 0 ? 1 : 1 / static_cast<double>(pairs);
    return static_cast<double>(static_cast<float>(exponent)) / exponent;
  }
  [[nodiscard]] float step(double ratio) const {
    return static_cast<float>(exponent_ == 1 ? ratio : std::pow(ratio, exponent_));
  }

  std::span<const double> inv_freq_;
  AngleNumerics numerics_;
  double exponent_;
  float running_ = 0;
};

bool is_wide(DType table) {
  return table != DType::f16 && table != DType::bf16;
}

struct Factors {
  double cos, sin;
};

SinCosCall call_of(AngleNumerics numerics, const Factors& factors) {
  if (numerics == AngleNumerics::f64) return {.cos_factor = factors.cos, .sin_factor = factors.sin};
  return {.cos_after = static_cast<float>(factors.cos), .sin_after = static_cast<float>(factors.sin)};
}

/// Cos and sin of the angles of one row, in parts, kept in a table that is f32 or wider.
class Parts {
 public:
  static constexpr std::int64_t kMost = 128;

  /// use(first, count, cos, sin) for parts of `count` angles next(0), next(1), ...
  template <class Next, class Use>
  void of_angles(SinCosCall call, std::int64_t count, Next next, Use use) {
    call.frequencies = angle_;
    each(call, count, use, [&](std::int64_t first) {
      for (std::int64_t i = 0; i < std::min(kMost, count - first); ++i) angle_[i] = next(first + i);
      return angle_;
    });
  }
  /// The same of position * frequencies[i] in f64.
  template <class Use>
  void of_position(SinCosCall call, std::int64_t position, std::span<const double> frequencies, Use use) {
    call.position = static_cast<double>(position);
    each(call, static_cast<std::int64_t>(frequencies.size()), use,
         [&](std::int64_t first) { return frequencies.data() + first; });
  }

 private:
  template <class Use, class From>
  void each(SinCosCall& call, std::int64_t count, Use use, From from) {
    call.cos = cos_;
    call.sin = sin_;
    for (std::int64_t done = 0; done < count; done += kMost) {
      call.count = std::min(kMost, count - done);
      call.frequencies = from(done);
      sin_cos(call);
      use(done, call.count, cos_, sin_);
    }
  }

  double angle_[kMost];
  float cos_[kMost];
  float sin_[kMost];
};

/// row[first * step], row[(first + 1) * step], ... = part.
void put_part(const float* part, std::int64_t count, float* row, std::int64_t step) {
  if (step == 1) {
    std::copy_n(part, count, row);
  } else if (step == 2) {
    for (std::int64_t i = 0; i < count; ++i) row[2 * i] = part[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) row[i * step] = part[i];
  }
}

void require_table_dtype(std::string_view who, DType table) {
  if (!is_float(table)) {
    throw SpecError(fmt::format("{}: a table is f64, f32, f16 or bf16, got {}", who, name_of(table)));
  }
}

}  // namespace

void rotation_table(const Rotation& rotation, const Numerics& numerics, View<const std::int64_t, 2> positions,
                    View<float, 2> cos, View<float, 2> sin) {
  const auto pairs = static_cast<std::int64_t>(rotation.inv_freq.size());
  const std::int64_t tokens = positions.extent(1);
  require_table_dtype("rotation_table", numerics.table);
  for (const View<float, 2>& out : {cos, sin}) {
    if (out.extent(0) == tokens && out.extent(1) == pairs) continue;
    throw SpecError(fmt::format("rotation_table: cos and sin are [tokens={}, pairs={}], got [{},{}]", tokens,
                                pairs, out.extent(0), out.extent(1)));
  }
  if (!rotation.axis.empty() && rotation.axis.size() != rotation.inv_freq.size()) {
    throw SpecError(fmt::format("rotation_table: a rotation of {} pairs names an axis for each, got {}",
                                pairs, rotation.axis.size()));
  }
  std::int64_t axes = 1;
  for (const std::int64_t axis : rotation.axis) {
    if (axis < 0) throw SpecError(fmt::format("rotation_table: an axis is at least 0, got {}", axis));
    axes = std::max(axes, axis + 1);
  }
  if (positions.extent(0) < axes) {
    throw SpecError(
        fmt::format("rotation_table: positions hold at least {} axes, got {}", axes, positions.extent(0)));
  }
  const Factors factors{rotation.amplitude, rotation.amplitude * rotation.sign};
  const bool running = numerics.angle == AngleNumerics::f32_running;
  const SinCosCall call = call_of(numerics.angle, factors);
  Parts parts;
  Angles angles(rotation.inv_freq, numerics.angle);
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (is_wide(numerics.table) && !(running && axes > 1)) {
      const auto use = [&](std::int64_t first, std::int64_t count, const float* cosines, const float* sines) {
        put_part(cosines, count, &cos(t, first), cos.stride(1));
        put_part(sines, count, &sin(t, first), sin.stride(1));
      };
      if (numerics.angle == AngleNumerics::f64 && rotation.axis.empty()) {
        parts.of_position(call, positions(0, t), rotation.inv_freq, use);
      } else {
        const auto next = [&](std::int64_t i) {
          const auto pair = static_cast<std::size_t>(i);
          return angles.next(positions(rotation.axis.empty() ? 0 : rotation.axis[pair], t), pair);
        };
        parts.of_angles(call, pairs, next, use);
      }
      continue;
    }
    // A running product runs over all pairs at the position of one axis, whichever of them follow it.
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
        const double angle = angles.next(positions(axis, t), i);
        if (axis != (rotation.axis.empty() ? 0 : rotation.axis[i])) continue;
        cos(t, i) = kept(std::cos(angle), factors.cos, numerics);
        sin(t, i) = kept(std::sin(angle), factors.sin, numerics);
      }
    }
  }
}

void sinusoid_rows(const PositionEmbedding& embedding, const Numerics& numerics,
                   View<const std::int64_t, 1> positions, View<float, 2> rows) {
  const std::int64_t width = embedding.width;
  const std::int64_t pairs = width / 2;
  require_table_dtype("sinusoid_rows", numerics.table);
  if (embedding.form != EmbeddingForm::sinusoid) {
    throw SpecError("sinusoid_rows: the embedding is a sinusoid, got a table of weights");
  }
  const auto frequencies = static_cast<std::int64_t>(embedding.inv_freq.size());
  if (width < 0 || (frequencies != pairs && frequencies != width - pairs)) {
    throw SpecError(fmt::format("sinusoid_rows: a row of width {} needs {} frequencies, got {}", width, pairs,
                                embedding.inv_freq.size()));
  }
  if (rows.extent(0) != positions.extent(0) || rows.extent(1) != width) {
    throw SpecError(fmt::format("sinusoid_rows: rows are [tokens={}, width={}], got [{},{}]",
                                positions.extent(0), width, rows.extent(0), rows.extent(1)));
  }
  for (std::int64_t t = 0; t < positions.extent(0); ++t) {
    if (!checked_add(positions(t), embedding.offset)) {
      throw std::out_of_range(
          fmt::format("sinusoid_rows: position + offset {} must fit in 64 bits, got position {}",
                      embedding.offset, positions(t)));
    }
  }
  Numerics used = numerics;
  if (embedding.arithmetic == Arithmetic::f64) used.angle = AngleNumerics::f64;
  const bool interleaved = embedding.columns == Columns::interleaved;
  // The second of a pair is `behind` columns behind the first, the next pair `step`.
  const std::int64_t step = interleaved ? 2 : 1;
  const std::int64_t behind = interleaved ? 1 : frequencies;
  const SinCosCall call = call_of(used.angle, {embedding.scale, embedding.scale});
  Parts parts;
  Angles angles(embedding.inv_freq, used.angle);
  for (std::int64_t t = 0; t < positions.extent(0); ++t) {
    const std::int64_t row = positions(t) + embedding.offset;
    if (embedding.zero_row == row) {
      for (std::int64_t i = 0; i < width; ++i) rows(t, i) = 0;
      continue;
    }
    if (frequencies == pairs && width % 2 != 0) rows(t, width - 1) = 0;
    const auto next = [&](std::int64_t i) { return angles.next(row, static_cast<std::size_t>(i)); };
    if (is_wide(used.table)) {
      const auto use = [&](std::int64_t from, std::int64_t count, const float* cosines, const float* sines) {
        const float* const first = embedding.cos_first ? cosines : sines;
        const float* const second = embedding.cos_first ? sines : cosines;
        const std::int64_t room = interleaved ? (width - 2 * from) / 2 : width - frequencies - from;
        put_part(first, count, &rows(t, step * from), step * rows.stride(1));
        put_part(second, std::min(count, room), &rows(t, step * from) + behind * rows.stride(1),
                 step * rows.stride(1));
      };
      if (used.angle == AngleNumerics::f64) {
        parts.of_position(call, row, embedding.inv_freq, use);
      } else {
        parts.of_angles(call, frequencies, next, use);
      }
      continue;
    }
    for (std::int64_t i = 0; i < frequencies; ++i) {
      const double angle = next(i);
      const float sine = kept(std::sin(angle), embedding.scale, used);
      const float cosine = kept(std::cos(angle), embedding.scale, used);
      rows(t, step * i) = embedding.cos_first ? cosine : sine;
      if (step * i + behind < width) rows(t, step * i + behind) = embedding.cos_first ? sine : cosine;
    }
  }
}

std::int64_t table_row(const PositionEmbedding& embedding, std::int64_t position) {
  const std::optional<std::int64_t> row = checked_add(position, embedding.offset);
  if (!row) {
    throw std::out_of_range(fmt::format(
        "table_row: position + offset {} must fit in 64 bits, got position {}", embedding.offset, position));
  }
  const bool endless = embedding.rows == 0;
  if (!endless && *row >= embedding.rows && embedding.past_end == PastEnd::last_row)
    return embedding.rows - 1;
  if (!endless && (*row < 0 || *row >= embedding.rows)) {
    throw std::out_of_range(fmt::format("table_row: position {} is row {} of {}, whose rows are 0 to {}",
                                        position, *row, embedding.role.empty() ? "the table" : embedding.role,
                                        embedding.rows - 1));
  }
  return *row;
}

}  // namespace locant
