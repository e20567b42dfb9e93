// SPDX-License-Identifier: Apache-2.0
// Rotation of pairs of channels, in real and in complex form.
#include <complex>

#include "reference/reference.h"

namespace locant::reference {
namespace {

std::int64_t first_of(Layout layout, std::int64_t pair) {
  return layout == Layout::half ? pair : 2 * pair;
}
std::int64_t second_of(Layout layout, std::int64_t pair, std::int64_t pairs) {
  return layout == Layout::half ? pair + pairs : 2 * pair + 1;
}

}  // namespace

void rotate(View<const double, 3> x, View<const double, 2> cos, View<const double, 2> sin,
            const Rotation& rotation, View<double, 3> out) {
  const std::int64_t pairs = cos.extent(1);
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t h = 0; h < x.extent(1); ++h) {
      for (std::int64_t c = 0; c < x.extent(2); ++c) out(t, h, c) = x(t, h, c);
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double a = x(t, h, rotation.offset + first_of(rotation.read, i));
        const double b = x(t, h, rotation.offset + second_of(rotation.read, i, pairs));
        const double s = rotation.sign * sin(t, i);
        out(t, h, rotation.offset + first_of(rotation.write, i)) = a * cos(t, i) - b * s;
        out(t, h, rotation.offset + second_of(rotation.write, i, pairs)) = b * cos(t, i) + a * s;
      }
    }
  }
}

void rotate_complex(View<const double, 3> x, View<const double, 2> angle, View<double, 3> out) {
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t h = 0; h < x.extent(1); ++h) {
      for (std::int64_t i = 0; i < angle.extent(1); ++i) {
        const std::complex<double> z(x(t, h, 2 * i), x(t, h, 2 * i + 1));
        const std::complex<double> turned = z * std::polar(1.0, angle(t, i));
        out(t, h, 2 * i) = turned.real();
        out(t, h, 2 * i + 1) = turned.imag();
      }
    }
  }
}

}  // namespace locant::reference
