// SPDX-License-Identifier: Apache-2.0
// DeBERTa's disentangled attention: terms of query content and key position (c2p) and the other way round
// (p2c) join q.k before the scores are scaled by 1/sqrt(head_dim * (1 + number of terms)) (He et al. 2021,
// eq. 4 and 5). Relative table [2 span, width of the model], span = position_buckets or
// max_relative_positions.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "positions/log_buckets.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "deberta";
constexpr std::array<std::string_view, 2> kAliases = {"disentangled", "disentangled_attention"};
constexpr std::array<std::string_view, 5> kTypes = {"both", "c2p|p2c", "p2c|c2p", "c2p", "p2c"};
constexpr std::array<std::string_view, 2> kKeys = {"own", "shared"};
constexpr std::int64_t kFewest = 4;

constexpr std::array<ParameterDescription, 6> kParameters = {{
    {"heads", "heads", "", "num_attention_heads", "heads of the projected relative table"},
    {"max_relative_positions", "tokens", "", "max_relative_positions max_position_embeddings",
     "longest distance that is told apart, in both directions"},
    {"position_buckets", "1", "none", "position_buckets",
     "buckets per direction, half of them logarithmic; none (or -1): plain distances, as in DeBERTa v1"},
    {"pos_att_type", "1", "both", "pos_att_type",
     "the terms: both (in a config joined by a bar), c2p or p2c"},
    {"projections", "1", "own", "share_att_key",
     "whether the relative table has projections of its own or uses those of query and key (shared)"},
    {"role", "1", "rel_embeddings", "", "which weight of the model is the relative table"},
}};

/// Half of the buckets have one distance each.
std::int64_t middle(const DebertaBuckets& buckets) {
  return buckets.buckets / 2;
}

SitePlan plan_deberta(const PositionSpec& spec, const Recipe&, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  DebertaBuckets buckets;
  buckets.max_distance = read.integer("max_relative_positions", {1, kMaxDistance});
  buckets.buckets = std::max<std::int64_t>(read.integer("position_buckets", {-1, kMaxBuckets}, 0), 0);
  if (buckets.buckets > 0 && buckets.buckets < kFewest) {
    read.fail("position_buckets", fmt::format("must be -1, 0 or at least {}", kFewest),
              std::to_string(buckets.buckets));
  }
  if (buckets.buckets > 0 && buckets.max_distance - 1 <= middle(buckets)) {
    read.fail("max_relative_positions",
              fmt::format("must be above {}, half of position_buckets and 1", middle(buckets) + 1),
              std::to_string(buckets.max_distance));
  }
  const std::string_view types = kTypes.at(read.choice("pos_att_type", kTypes));
  const bool c2p = types != "p2c";
  const bool p2c = types != "c2p";
  const bool shared = read.choice("projections", kKeys) == 1;

  Bias bias;
  bias.form = BiasForm::content;
  bias.heads = read.integer("heads", {.min = 1, .max = kMaxHeads});
  bias.buckets = buckets.buckets;
  bias.max_distance = buckets.max_distance;
  bias.function = c2p && p2c ? "c2p|p2c" : std::string(types);
  bias.roles = {read.text("role", "rel_embeddings")};
  if (c2p && !shared) bias.roles.emplace_back("pos_key_proj");
  if (p2c && !shared) bias.roles.emplace_back("pos_query_proj");
  bias.scale_order = ScaleOrder::before_scale;
  bias.bidirectional = true;
  bias.terms = 1 + (c2p ? 1 : 0) + (p2c ? 1 : 0);
  return bias;
}

}  // namespace

std::int64_t deberta_bucket(std::int64_t relative, const DebertaBuckets& buckets) {
  if (buckets.buckets != 0 && (buckets.buckets < kFewest || buckets.buckets > kMaxBuckets)) {
    throw SpecError(fmt::format("deberta_bucket: buckets must be 0 or from {} to {}, got {}", kFewest,
                                kMaxBuckets, buckets.buckets));
  }
  const std::int64_t middle_distance = middle(buckets);
  if (buckets.max_distance - 1 <= (buckets.buckets > 0 ? middle_distance : -1) ||
      buckets.max_distance > kMaxDistance) {
    throw SpecError(fmt::format("deberta_bucket: max_distance must be above {} and at most {}, got {}",
                                buckets.buckets > 0 ? middle_distance + 1 : 0, kMaxDistance,
                                buckets.max_distance));
  }
  const std::int64_t held = std::clamp(relative, -kMaxDistance, kMaxDistance);
  const std::int64_t distance = held < 0 ? -held : held;
  if (buckets.buckets == 0 || distance <= middle_distance) return held;
  const LogLadder ladder{
      .unit = middle_distance, .end = buckets.max_distance - 1, .count = middle_distance - 1};
  const std::int64_t bucket = middle_distance + ceil_steps(distance, ladder);
  return held < 0 ? -bucket : bucket;
}

std::int64_t deberta_row(std::int64_t relative, const DebertaBuckets& buckets) {
  const std::int64_t bucket = deberta_bucket(relative, buckets);
  return std::clamp<std::int64_t>(bucket + buckets.span(), 0, 2 * buckets.span() - 1);
}

Mechanism deberta() {
  return {
      .name = kName,
      .aliases = kAliases,
      .site = Site::bias,
      .summary = "adds products of content and relative position to the scores, both ways",
      .formula =
          "score[i, j] = (q[i].k[j] + q[i].Kr[row(i - j)] + k[j].Qr[row(i - j)]) / sqrt(head_dim * terms)\n"
          "Kr = R Wk, Qr = R Wq, R [2 span, width]; terms = 1 + number of terms in pos_att_type\n"
          "row(d) = clamp(bucket(d) + span, 0, 2 span - 1)\n"
          "bucket(d) = d for |d| <= m = position_buckets/2 (or without buckets), otherwise\n"
          "sign(d) (m + ceil((m - 1) ln(|d|/m) / ln((max_relative_positions - 1)/m)))",
      .paper =
          "He, Liu, Gao, Chen 2021, DeBERTa: Decoding-enhanced BERT with Disentangled Attention, "
          "arXiv:2006.03654, eq. 3 to 5; buckets: DeBERTa-v2, published code",
      .parameters = kParameters,
      .plan = plan_deberta};
}

}  // namespace locant
