// SPDX-License-Identifier: Apache-2.0
// Blocks whose nibbles point into a table of 16 whole numbers. IQ4_NL: f16 d, 32 nibbles. IQ4_XS: f16 d and
// eight scales of 6 bits for 256. MXFP4 (OCP Microscaling 1.0): E8M0 exponent e, 32 E2M1 values; the table
// holds twice their value, so the scale is 2^(e - 128), for e = 255 as well.
#include <array>

#include "formats/gguf_blocks.h"

namespace locant::gguf_blocks {
namespace {

constexpr std::array<int, 16> kUneven{-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<int, 16> kE2m1Twice{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float from(const std::array<int, 16>& table, const std::byte* bytes, int i) noexcept {
  return static_cast<float>(table[static_cast<std::size_t>(nibble_at(bytes, i))]);
}

void iq4_nl(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * from(kUneven, block + 2, i);
}

void iq4_xs(const std::byte* block, float* out) noexcept {
  const float d = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(iq4_xs_scale_at(block, group));
    for (int i = 0; i < 32; ++i) *out++ = scale * from(kUneven, block + 8 + 16 * group, i);
  }
}

void mxfp4(const std::byte* block, float* out) noexcept {
  const float scale = mxfp4_scale(block[0]);
  for (int i = 0; i < 32; ++i) out[i] = scale * from(kE2m1Twice, block + 1, i);
}

}  // namespace

Unpack codebook(GgmlType type) noexcept {
  switch (type) {
    case GgmlType::iq4_nl:
      return iq4_nl;
    case GgmlType::iq4_xs:
      return iq4_xs;
    case GgmlType::mxfp4:
      return mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace locant::gguf_blocks
