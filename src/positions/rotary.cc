// SPDX-License-Identifier: Apache-2.0
#include "positions/rotary.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"

namespace locant {
namespace {

constexpr std::array<std::string_view, 2> kPairings = {"half", "interleaved"};
constexpr std::array<std::string_view, 3> kLayouts = {"chunked", "interleaved", "ernie"};
constexpr std::array<std::string_view, 3> kActsOn = {"qk", "qkv", "qkv_inverse"};
constexpr std::size_t kMostAxes = 4;

/// Sections stretched to `pairs` the way SGLang does it: rounded down, at least 1, the rest to the last.
void stretch(std::vector<std::int64_t>& sections, std::int64_t stated, std::int64_t pairs) {
  const double factor = static_cast<double>(pairs) / static_cast<double>(stated);
  std::int64_t sum = 0;
  for (std::int64_t& size : sections) {
    size = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(size) * factor));
    sum += size;
  }
  sections.back() += pairs - sum;
}

std::vector<std::int64_t> read_sections(const Parameters& read, std::int64_t pairs, const Recipe& recipe) {
  const std::vector<double> stated = read.list("sections");
  if (stated.size() < 2 || stated.size() > kMostAxes) {
    read.fail("sections", fmt::format("must be 2 to {} axes", kMostAxes), fmt::format("{}", stated.size()));
  }
  std::vector<std::int64_t> sections;
  for (const double size : stated) {
    if (size < 0 || size > static_cast<double>(kMaxHeadDim) || std::trunc(size) != size) {
      read.fail("sections", "must be whole numbers of pairs", fmt::format("{}", size));
    }
    sections.push_back(static_cast<std::int64_t>(size));
  }
  const std::int64_t sum = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  if (sum != pairs && sum > 0 && recipe.has(Quirk::sections_rescaled)) stretch(sections, sum, pairs);
  if (std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) != pairs || sections.back() < 0) {
    read.fail("sections", fmt::format("must add up to {} pairs", pairs), std::to_string(sum));
  }
  return sections;
}

/// The axis that drives each pair.
std::vector<std::int64_t> read_axes(const Parameters& read, std::int64_t pairs, const Recipe& recipe) {
  if (!read.has("sections")) return {};
  const std::vector<std::int64_t> sections = read_sections(read, pairs, recipe);
  const std::size_t layout = read.choice("axis_layout", kLayouts);
  std::vector<std::int64_t> axis;
  if (recipe.has(Quirk::sections_ignored)) return axis;
  axis.reserve(static_cast<std::size_t>(pairs));
  if (layout == 0) {
    for (std::size_t a = 0; a < sections.size(); ++a) {
      axis.insert(axis.end(), static_cast<std::size_t>(sections[a]), static_cast<std::int64_t>(a));
    }
    return axis;
  }
  if (sections.size() != 3) {
    read.fail("axis_layout", "must be chunked unless there are 3 sections", kLayouts[layout]);
  }
  const std::int64_t left_over = recipe.has(Quirk::sections_fourth_axis) ? 3 : 0;
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (layout == 1) {
      const std::int64_t turn = i % 3;
      axis.push_back(i < 3 * sections[static_cast<std::size_t>(turn)] ? turn : left_over);
    } else {
      axis.push_back(i < sections[0] + sections[1] ? 1 + i % 2 : 0);
    }
  }
  return axis;
}

ActsOn read_acts_on(const Parameters& read) {
  const std::size_t on = read.choice("acts_on", kActsOn);
  return {.q = true, .k = true, .v = on > 0, .output_inverse = on == 2};
}

}  // namespace

Rotary read_rotary(const Parameters& read, const Recipe& recipe) {
  Rotary rotary;
  rotary.theta = read.positive("theta", 10000);
  Rotation& rotation = rotary.rotation;
  rotation.head_dim = read.integer("head_dim", {.min = 2, .max = kMaxHeadDim});
  const std::int64_t width = read.integer("rotary_dim", {.min = 2, .max = kMaxHeadDim}, rotation.head_dim);
  if (width % 2 != 0) read.fail("rotary_dim", "must be even", std::to_string(width));
  if (width > rotation.head_dim) {
    read.fail("rotary_dim", fmt::format("must be at most head_dim {}", rotation.head_dim),
              std::to_string(width));
  }
  // RopeParams.from_config asks for rotary_dim or rotary_emb_base, whichever is there first.
  if (recipe.has(Quirk::base_taken_for_width) && read.key("theta").ends_with("rotary_emb_base") &&
      !read.key("rotary_dim").ends_with("rotary_dim")) {
    read.fail("rotary_dim",
              fmt::format("is read from rotary_emb_base by {} and must be a width", recipe.name),
              fmt::format("{}", rotary.theta));
  }
  rotation.width = width;
  rotation.offset = read.integer("rotary_offset", {.min = 0, .max = kMaxHeadDim}, 0);
  if (rotation.offset + width > rotation.head_dim) {
    read.fail("rotary_offset",
              fmt::format("plus rotary_dim {} must be at most head_dim {}", width, rotation.head_dim),
              std::to_string(rotation.offset));
  }
  const auto pairing_of = [&](std::string_view name) {
    return read.choice(name, kPairings) == 0 ? Pairing::half : Pairing::interleaved;
  };
  rotation.read = pairing_of("pairing");
  rotation.write = read.has("write_pairing") ? pairing_of("write_pairing") : rotation.read;
  rotation.sign = read.number("sign", 1);
  if (std::abs(rotation.sign) != 1) {
    read.fail("sign", "must be 1 or -1", fmt::format("{}", rotation.sign));
  }
  rotation.acts_on = read_acts_on(read);
  rotation.shared_key = read.integer("shared_key", {.min = 0, .max = 1}, 0) == 1;
  rotation.axis = read_axes(read, width / 2, recipe);
  if (read.has("divisors")) {
    rotary.divisors = read.list("divisors", width / 2);
    for (const double divisor : rotary.divisors) {
      if (divisor <= 0) read.fail("divisors", "must be above 0", fmt::format("{}", divisor));
    }
  }
  return rotary;
}

void require_base_above_one(const Parameters& read, const Rotary& rotary) {
  if (rotary.theta <= 1) read.fail("theta", "must be above 1", fmt::format("{}", rotary.theta));
}

void require_pairs(const Parameters& read, const Rotary& rotary) {
  if (rotary.rotation.width <= 2) {
    read.fail("rotary_dim", "must be above 2", std::to_string(rotary.rotation.width));
  }
}

Rotation finished(const Parameters& read, Rotary rotary, std::vector<double> inv_freq, const Recipe& recipe) {
  for (std::size_t i = 0; i < rotary.divisors.size(); ++i) {
    if (recipe.numerics.frequency == DType::f32) {
      inv_freq[i] =
          static_cast<double>(static_cast<float>(inv_freq[i]) / static_cast<float>(rotary.divisors[i]));
    } else {
      inv_freq[i] /= rotary.divisors[i];
    }
  }
  if (!all_finite(inv_freq)) {
    read.fail("theta", "must give finite frequencies", fmt::format("{}", rotary.theta));
  }
  if (!std::isfinite(rotary.rotation.amplitude) || rotary.rotation.amplitude <= 0) {
    read.fail("factor", "must give a finite amplitude above 0", fmt::format("{}", rotary.rotation.amplitude));
  }
  rotary.rotation.inv_freq = std::move(inv_freq);
  return std::move(rotary.rotation);
}

}  // namespace locant
