// SPDX-License-Identifier: Apache-2.0
// What kernel tests share: every instruction set in turn, memory that shows a byte read or written outside,
// and the inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/targets.h"
#include "locant/core.h"

namespace locant::testing {

/// Runs body once per instruction set of this CPU, with the target's name in the trace of a failure.
template <class Body>
void on_every_target(Body body) {
  for (const kernels::Target& target : kernels::targets()) {
    SCOPED_TRACE(std::string(target.name));
    kernels::use_only_target(target);
    body();
  }
  kernels::use_best_target();
}

/// n elements, `shift` bytes behind an aligned address, between sentinels that check() looks at. The block
/// ends with the last sentinel byte of one element, so an address sanitizer sees a read beyond it.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n, std::size_t shift = 0) : n_(n), shift_(shift) {
    bytes_.assign(kFront + shift + n * sizeof(T) + kBack, kSentinel);
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data() + kFront + shift_); }
  [[nodiscard]] T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + kFront + shift_ + i * sizeof(T), sizeof(T));
    return value;
  }
  void set(std::size_t i, T value) {
    std::memcpy(bytes_.data() + kFront + shift_ + i * sizeof(T), &value, sizeof(T));
  }
  void check() const {
    for (std::size_t i = 0; i < kFront + shift_; ++i) ASSERT_EQ(bytes_[i], kSentinel) << "byte before, " << i;
    for (std::size_t i = kFront + shift_ + n_ * sizeof(T); i < bytes_.size(); ++i) {
      ASSERT_EQ(bytes_[i], kSentinel) << "byte behind, " << i - (kFront + shift_ + n_ * sizeof(T));
    }
  }

 private:
  static constexpr std::size_t kFront = 64;
  static constexpr std::size_t kBack = 64;
  static constexpr std::uint8_t kSentinel = 0xA5;
  std::size_t n_;
  std::size_t shift_;
  std::vector<std::uint8_t> bytes_;
};

/// n elements whose block ends with them: for inputs, under an address sanitizer.
template <class T>
class Exact {
 public:
  explicit Exact(std::size_t n, std::size_t shift = 0) : shift_(shift), bytes_(shift + n * sizeof(T)) {}
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data() + shift_); }
  [[nodiscard]] T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + shift_ + i * sizeof(T), sizeof(T));
    return value;
  }
  void set(std::size_t i, T value) { std::memcpy(bytes_.data() + shift_ + i * sizeof(T), &value, sizeof(T)); }

 private:
  std::size_t shift_;
  std::vector<std::uint8_t> bytes_;
};

inline void assign(float x, float& to) {
  to = x;
}
inline void assign(float x, Half& to) {
  to = half_from_f32(x);
}
inline void assign(float x, BFloat16& to) {
  to = bfloat16_from_f32(x);
}
inline double wide(double x) {
  return x;
}
inline double wide(float x) {
  return static_cast<double>(x);
}
inline double wide(Half x) {
  return static_cast<double>(f32_from(x));
}
inline double wide(BFloat16 x) {
  return static_cast<double>(f32_from(x));
}

/// normal: N(0,1). uneven: sign * 2^u, u in [-10, 10]. large: around 1000 with a small spread.
enum class Spread : std::uint8_t { normal, uneven, large };
inline constexpr Spread kSpreads[] = {Spread::normal, Spread::uneven, Spread::large};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  [[nodiscard]] float next(Spread spread = Spread::normal) {
    const double n = normal_(engine_);
    if (spread == Spread::normal) return static_cast<float>(n);
    if (spread == Spread::large) return static_cast<float>(1000 + n);
    return static_cast<float>((n < 0 ? -1 : 1) * std::exp2(uniform_(engine_)));
  }
  [[nodiscard]] std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(engine_);
  }
  template <class Memory>
  void fill(Memory& memory, std::size_t n, Spread spread = Spread::normal) {
    for (std::size_t i = 0; i < n; ++i) {
      auto value = memory.get(i);
      assign(next(spread), value);
      memory.set(i, value);
    }
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_{-10, 10};
};

template <class Memory>
[[nodiscard]] std::vector<double> widened(const Memory& memory, std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = wide(memory.get(i));
  return values;
}

/// The widest vector holds 16 floats: these sizes reach two of them and every tail.
inline constexpr std::int64_t kMaxLanes = 16;

}  // namespace locant::testing
