// SPDX-License-Identifier: Apache-2.0
#include "report/html/numbers.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace locant::html {

std::string whole_text(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string whole_text(const std::optional<std::int64_t>& value, std::string_view missing) {
  return value ? whole_text(*value) : std::string(missing);
}

std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "minus infinite";
  constexpr double kExact = 9e15;
  if (value == std::floor(value) && std::abs(value) < kExact && std::abs(value) >= 1000)
    return whole_text(static_cast<std::int64_t>(value));
  return fmt::format("{:.{}g}", value, digits);
}

std::string tick_text(double value) {
  constexpr std::array<std::pair<double, std::string_view>, 4> kUnits = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < 1e-3 || size >= 1e15) {
    const double exponent = std::floor(std::log10(size) + 1e-9);
    return fmt::format("{:.3g}e{}", value / std::pow(10, exponent), exponent);
  }
  for (const auto& [unit, letter] : kUnits) {
    if (size >= unit) return fmt::format("{:.4g}{}", value / unit, letter);
  }
  return fmt::format("{:.4g}", value);
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string layers_text(const std::vector<std::int64_t>& layers) {
  constexpr std::size_t kShown = 12;
  std::string text;
  std::size_t runs = 0;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (++runs > kShown) return fmt::format("{}, ... ({} layers)", text, layers.size());
    if (!text.empty()) text += ", ";
    text += first == last ? std::to_string(layers[first]) : fmt::format("{}-{}", layers[first], layers[last]);
    first = last + 1;
  }
  return text;
}

std::string fact_text(const Fact& fact) {
  if (const auto* const number = std::get_if<double>(&fact)) return number_text(*number, 7);
  if (const auto* const word = std::get_if<std::string>(&fact)) return *word;
  return "";
}

std::string count_text(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace locant::html
