// SPDX-License-Identifier: Apache-2.0
// What every rotation states whatever its schedule: base, slice of the head, pairing, sign, position axes and
// divisors. A schedule adds inv_freq [P] and one amplitude.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "positions/parameters.h"

namespace locant {

inline constexpr std::array<ParameterDescription, 12> kRotaryParameters = {{
    {"theta", "1", "10000", "rope_theta rope_parameters.rope_theta rotary_emb_base rope.freq_base",
     "base of the frequency ladder"},
    {"head_dim", "elements", "", "head_dim attention.key_length", "width of one head"},
    {"rotary_dim", "elements", "head_dim",
     "rotary_dim partial_rotary_factor rotary_pct qk_rope_head_dim rope.dimension_count",
     "rotated channels of a head, even"},
    {"rotary_offset", "elements", "0", "qk_nope_head_dim", "first rotated channel of a head"},
    {"pairing", "1", "half", "rope_interleave",
     "which channels form a pair: half (i, i + rotary_dim/2) or interleaved (2i, 2i + 1)"},
    {"write_pairing", "1", "pairing", "", "where the channels of a pair are written: half or interleaved"},
    {"sign", "1", "1", "", "1, or -1 to rotate the other way (NanoChat)"},
    {"sections", "pairs", "none", "rope_parameters.mrope_section xdrope_section rope.dimension_sections",
     "pairs of each position axis, together rotary_dim/2"},
    {"axis_layout", "1", "chunked", "mrope_interleaved",
     "how pairs follow the axes: chunked (one section after another), interleaved (0, 1, 2, 0, 1, 2, ..) or "
     "ernie (rows and columns in turn, then time; sections are row, column, time)"},
    {"acts_on", "1", "qk", "",
     "what is rotated: qk, qkv (RoFormer with rotary_value) or qkv_inverse (and the attention output is "
     "rotated back at the query's position: DeepSeek-V4)"},
    {"shared_key", "1", "0", "", "1 where all heads share one rotated key (MLA), else 0"},
    {"divisors", "1 per pair", "none", "rope_freqs.weight", "what the frequency of each pair is divided by"},
}};

/// The parameters of every rotation, then those of one schedule.
template <std::size_t N>
constexpr std::array<ParameterDescription, kRotaryParameters.size() + N> with_rotary(
    const std::array<ParameterDescription, N>& own) {
  std::array<ParameterDescription, kRotaryParameters.size() + N> all{};
  std::copy(kRotaryParameters.begin(), kRotaryParameters.end(), all.begin());
  std::copy(own.begin(), own.end(), all.begin() + kRotaryParameters.size());
  return all;
}

/// A rotation whose schedule is not yet computed.
struct Rotary {
  double theta = 0;
  Rotation rotation{};             ///< everything but inv_freq and amplitude
  std::vector<double> divisors{};  ///< [P] or empty
};

/// Reads and checks kRotaryParameters.
[[nodiscard]] Rotary read_rotary(const Parameters& read, const Recipe& recipe);

/// Refuses a base at which ln(theta) is 0 or negative, and a single pair, where a schedule divides by them.
void require_base_above_one(const Parameters& read, const Rotary& rotary);
void require_pairs(const Parameters& read, const Rotary& rotary);

/// The rotation with the frequencies and the amplitude of a schedule, divisors applied. Throws SpecError when
/// a frequency is not finite.
[[nodiscard]] Rotation finished(const Parameters& read, Rotary rotary, std::vector<double> inv_freq,
                                const Recipe& recipe);

}  // namespace locant
