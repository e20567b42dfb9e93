// SPDX-License-Identifier: Apache-2.0
// How a next token is drawn, with the memory for it held between draws. Randomness is Philox4x32-10 (Salmon
// et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a draw is a function of seed, row and step, so
// neither threads nor the other rows of a batch change it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "locant/model.h"

namespace locant {

using Philox = std::array<std::uint32_t, 4>;
/// The block of a counter under a key.
[[nodiscard]] Philox philox(Philox counter, std::array<std::uint32_t, 2> key) noexcept;
/// In [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform_at(std::uint64_t seed, std::int64_t row, std::int64_t step) noexcept;

class Sampler {
 public:
  /// Throws as check_sampling().
  explicit Sampler(const Sampling& sampling);
  /// See locant::choose(). Allocates for the first of equally many logits alone.
  [[nodiscard]] std::int64_t choose(View<const float, 1> logits, std::int64_t row, std::int64_t step);

 private:
  struct Weighed {
    float logit = 0;
    std::int32_t id = 0;
    double weight = 0;
  };
  [[nodiscard]] std::int64_t choose_of_all(View<const float, 1> logits, float largest, double at) const;
  void keep_largest();
  void keep_mass();

  Sampling sampling_;
  std::vector<Weighed> kept_;
};

}  // namespace locant
