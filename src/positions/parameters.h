// SPDX-License-Identifier: Apache-2.0
// The parameters of one PositionSpec, read against the description of its mechanism. Every refusal is a
// SpecError "mechanism: parameter (key) rule, got value".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/positions.h"

namespace locant {

/// Inclusive bounds of an integer parameter.
struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// Sizes a plan may allocate for; no published model is within a factor of 64 of them.
inline constexpr std::int64_t kMaxHeadDim = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 20;
/// Row offsets and rows: position + offset cannot overflow for any position below 2^62.
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 48;

class Parameters {
 public:
  /// Both arguments must outlive the object. Throws on a parameter that is not described or stated twice.
  Parameters(std::string_view mechanism, const PositionSpec& spec,
             std::span<const ParameterDescription> described);

  [[nodiscard]] bool has(std::string_view name) const noexcept { return spec_.find(name) != nullptr; }
  /// The key that a parameter was read from; empty when it has none or is not stated.
  [[nodiscard]] std::string_view key(std::string_view name) const noexcept;
  /// A whole number inside the range; 64.0 counts as 64. Required when there is no fallback.
  [[nodiscard]] std::int64_t integer(std::string_view name, IntegerRange range,
                                     std::optional<std::int64_t> fallback = std::nullopt) const;
  /// A finite number above 0. Required when there is no fallback.
  [[nodiscard]] double positive(std::string_view name, std::optional<double> fallback = std::nullopt) const;
  /// A finite number.
  [[nodiscard]] double number(std::string_view name, double fallback) const;
  /// Finite numbers; `count` of them when it is not 0. Empty when nothing is stated and `count` is 0.
  [[nodiscard]] std::vector<double> list(std::string_view name, std::int64_t count = 0) const;
  /// One of the choices; the first is the default. Returns its index.
  [[nodiscard]] std::size_t choice(std::string_view name, std::span<const std::string_view> choices) const;
  /// Text that is not empty.
  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback) const;

  /// Throws SpecError "mechanism: name (key) rule, got value".
  [[noreturn]] void fail(std::string_view name, std::string_view rule, std::string_view got) const;

 private:
  std::string_view mechanism_;
  const PositionSpec& spec_;
};

}  // namespace locant
