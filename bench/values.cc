// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "frame.h"

namespace locant::bench {

std::vector<float> values(std::size_t count, std::uint64_t seed) {
  std::vector<float> x(count);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (float& v : x) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    v = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
  }
  return x;
}

}  // namespace locant::bench
