// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, the plain schedule: inv_freq[i] = theta^(-2i/rotary_dim) over P = rotary_dim/2
// pairs of channels (Su et al. 2021, eq. 15 and 34).
#include <array>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "rope";
constexpr std::array<std::string_view, 2> kAliases = {"rotary", "default"};
constexpr std::array<std::string_view, 2> kPairings = {"half", "interleaved"};

constexpr std::array<ParameterDescription, 5> kParameters = {{
    {"theta", "1", "10000", "rope_theta rope_parameters.rope_theta rotary_emb_base rope.freq_base",
     "base of the frequency ladder"},
    {"head_dim", "elements", "", "head_dim attention.key_length", "width of one head"},
    {"rotary_dim", "elements", "head_dim",
     "rotary_dim partial_rotary_factor rotary_pct qk_rope_head_dim rope.dimension_count",
     "rotated channels of a head, even"},
    {"rotary_offset", "elements", "0", "qk_nope_head_dim", "first rotated channel of a head"},
    {"pairing", "1", "half", "rope_interleave",
     "which channels form a pair: half (i, i + rotary_dim/2) or interleaved (2i, 2i + 1)"},
}};

SitePlan plan_rope(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  const double theta = read.positive("theta", 10000);
  const std::int64_t head_dim = read.integer("head_dim", {.min = 2, .max = kMaxHeadDim});
  const std::int64_t width = read.integer("rotary_dim", {.min = 2, .max = kMaxHeadDim}, head_dim);
  if (width % 2 != 0) read.fail("rotary_dim", "must be even", std::to_string(width));
  if (width > head_dim) {
    read.fail("rotary_dim", fmt::format("must be at most head_dim {}", head_dim), std::to_string(width));
  }
  const std::int64_t offset = read.integer("rotary_offset", {.min = 0, .max = kMaxHeadDim}, 0);
  if (offset + width > head_dim) {
    read.fail("rotary_offset", fmt::format("plus rotary_dim {} must be at most head_dim {}", width, head_dim),
              std::to_string(offset));
  }
  const Pairing pairing = read.choice("pairing", kPairings) == 0 ? Pairing::half : Pairing::interleaved;

  Rotation rotation;
  rotation.inv_freq = power_ladder(theta, width, recipe.numerics.frequency);
  if (!all_finite(rotation.inv_freq)) {
    read.fail("theta", "must give finite frequencies", fmt::format("{}", theta));
  }
  rotation.read = pairing;
  rotation.write = pairing;
  rotation.head_dim = head_dim;
  rotation.offset = offset;
  rotation.width = width;
  return rotation;
}

}  // namespace

Mechanism rope() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rotates pairs of query and key channels by angles proportional to the position",
          .formula =
              "angle = position * theta^(-2i/rotary_dim)\n"
              "(a, b) -> (a cos - b sin, b cos + a sin) for every pair i of rotary_dim/2",
          .paper =
              "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, "
              "arXiv:2104.09864, eq. 15 and 34",
          .parameters = kParameters,
          .plan = plan_rope};
}

}  // namespace locant
