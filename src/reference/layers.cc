// SPDX-License-Identifier: Apache-2.0
// Norms, activations and products of a layer.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/reference.h"

namespace locant::reference {

void rms_norm(View<const double, 1> x, View<const double, 1> gain, double eps, View<double, 1> out) {
  double squares = 0;
  for (std::int64_t i = 0; i < x.extent(0); ++i) squares += x(i) * x(i);
  const double deviation = std::sqrt(squares / static_cast<double>(x.extent(0)) + eps);
  for (std::int64_t i = 0; i < x.extent(0); ++i) out(i) = x(i) / deviation * gain(i);
}

void layer_norm(View<const double, 1> x, const LayerNorm& norm, View<double, 1> out) {
  const auto count = static_cast<double>(x.extent(0));
  double mean = 0;
  for (std::int64_t i = 0; i < x.extent(0); ++i) mean += x(i) / count;
  double variance = 0;
  for (std::int64_t i = 0; i < x.extent(0); ++i) variance += (x(i) - mean) * (x(i) - mean) / count;
  const double deviation = std::sqrt(variance + norm.eps);
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    out(i) = (x(i) - mean) / deviation * norm.gain(i) + (norm.bias.empty() ? 0 : norm.bias(i));
  }
}

double silu(double x) noexcept {
  return x / (1 + std::exp(-x));
}
double gelu_erf(double x) noexcept {
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
}
double gelu_tanh(double x) noexcept {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double relu(double x) noexcept {
  return x < 0 ? 0 : x;
}
double relu_squared(double x) noexcept {
  return relu(x) * relu(x);
}
double quick_gelu(double x) noexcept {
  return x / (1 + std::exp(-1.702 * x));
}
double clamped_swiglu(double gate, double up, double limit) noexcept {
  return (std::clamp(up, -limit, limit) + 1) * quick_gelu(std::min(gate, limit));
}

void project(View<const double, 2> x, View<const double, 2> weight, View<double, 2> out) {
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t n = 0; n < weight.extent(0); ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < x.extent(1); ++k) sum += x(t, k) * weight(n, k);
      out(t, n) = sum;
    }
  }
}

}  // namespace locant::reference
