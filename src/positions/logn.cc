// SPDX-License-Identifier: Apache-2.0
// Log-n attention: a query at position p is multiplied by log_L(p + shift) once p + shift is past the trained
// length L, so that the entropy of attention stays where training left it (Chiang and Cholak 2022).
#include <array>

#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "logn";
constexpr std::array<std::string_view, 2> kAliases = {"logn_attn", "log_length"};

constexpr std::array<ParameterDescription, 2> kParameters = {{
    {"length", "tokens", "", "seq_length attn_temperature_len",
     "trained length, up to which queries stay as they are"},
    {"shift", "tokens", "1", "", "added to the position: 1 in Qwen-1, 0 in Grok"},
}};

SitePlan plan_logn(const PositionSpec& spec, const Recipe&, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  QueryScale scale;
  scale.form = "log_ratio";
  scale.scale = 1;
  scale.floor = static_cast<double>(read.integer("length", {.min = 2, .max = kMaxRows}));
  scale.shift = static_cast<double>(read.integer("shift", {.min = 0, .max = kMaxRows}, 1));
  return scale;
}

}  // namespace

Mechanism logn() {
  return {
      .name = kName,
      .aliases = kAliases,
      .site = Site::query_scale,
      .summary = "multiplies queries past the trained length by the logarithm of their position to its base",
      .formula = "q[p] *= max(1, ln(p + shift) / ln(length))",
      .paper =
          "Chiang, Cholak 2022, Overcoming a Theoretical Limitation of Self-Attention, arXiv:2202.12172, "
          "section 5.3; published code of Qwen",
      .parameters = kParameters,
      .plan = plan_logn};
}

}  // namespace locant
