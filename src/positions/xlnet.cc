// SPDX-License-Identifier: Apache-2.0
// Transformer-XL's relative attention as XLNet has it: keys by content and keys by distance, each met by the
// query plus a learned bias of its own (Dai et al. 2019, section 3.3). The relative table is a sinusoid
// R [distances, width] in halves, projected to the heads.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "xlnet";
constexpr std::array<std::string_view, 2> kAliases = {"transformer_xl", "relative_sinusoid"};
constexpr std::array<std::string_view, 2> kDirections = {"bidirectional", "causal"};

constexpr std::array<ParameterDescription, 6> kParameters = {{
    {"heads", "heads", "", "n_head num_attention_heads", "heads of the projected table and of both biases"},
    {"width", "elements", "", "d_model hidden_size", "columns of the relative table, even"},
    {"theta", "1", "10000", "", "base of the frequency ladder"},
    {"clamp", "tokens", "0", "clamp_len", "distances are held at it in both directions; 0 (or -1): never"},
    {"direction", "1", "bidirectional", "attn_type",
     "bidirectional (attn_type bi) or causal (uni; Transformer-XL)"},
    {"segments", "1", "1", "", "1 where pairs of one segment get a term of their own (XLNet), else 0"},
}};

SitePlan plan_xlnet(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Bias bias;
  bias.form = BiasForm::content;
  bias.heads = read.integer("heads", {.min = 1, .max = kMaxHeads});
  const std::int64_t width = read.integer("width", {.min = 2, .max = kMaxWidth});
  if (width % 2 != 0) read.fail("width", "must be even", std::to_string(width));
  const double theta = read.positive("theta", 10000);
  const std::int64_t clamp = read.integer("clamp", {.min = -1, .max = kMaxRows}, 0);
  bias.max_distance = clamp > 0 ? clamp : 0;
  bias.function = "relative_sinusoid";
  bias.roles = {"r", "r_w_bias", "r_r_bias"};
  if (read.integer("segments", {.min = 0, .max = 1}, 1) == 1) {
    bias.roles.emplace_back("r_s_bias");
    bias.roles.emplace_back("seg_embed");
  }
  bias.scale_order = ScaleOrder::before_scale;
  bias.bidirectional = read.choice("direction", kDirections) == 0;
  bias.inv_freq = power_ladder(theta, width, recipe.numerics.frequency);
  if (!all_finite(bias.inv_freq)) {
    read.fail("theta", "must give finite frequencies", fmt::format("{}", theta));
  }
  return bias;
}

}  // namespace

Mechanism xlnet() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::bias,
          .summary = "adds products of the query with a sinusoid of the distance, under two learned biases",
          .formula =
              "score[i, j] = ((q[i] + u).k[j] + (q[i] + v).(R[i - j] Wr) + (q[i] + s).e[same segment]) / "
              "sqrt(head_dim)\n"
              "R[d] = sin(d w).. cos(d w).., w[i] = theta^(-2i/width), d held at +-clamp\n"
              "u, v, s = r_w_bias, r_r_bias, r_s_bias [heads, head_dim]; Wr = r; e = seg_embed [2, heads, "
              "head_dim]",
          .paper =
              "Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, "
              "arXiv:1901.02860, section 3.3; Yang et al. 2019, XLNet, arXiv:1906.08237, section 2.5",
          .parameters = kParameters,
          .plan = plan_xlnet};
}

}  // namespace locant
