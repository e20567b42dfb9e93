// SPDX-License-Identifier: Apache-2.0
// T5's relative bias: table[bucket(key - query)][head] is added to the scores (Raffel et al. 2020,
// section 2.1). n buckets per direction: one each for the distances below n/2, then n - n/2 on a logarithmic
// ladder to max_distance. Table [buckets, heads].
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "positions/log_buckets.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "t5_buckets";
constexpr std::array<std::string_view, 2> kAliases = {"t5", "relative_buckets"};
constexpr std::array<std::string_view, 2> kDirections = {"bidirectional", "causal"};

constexpr std::array<ParameterDescription, 5> kParameters = {{
    {"heads", "heads", "", "num_heads num_attention_heads attention.head_count", "columns of the table"},
    {"buckets", "1", "32", "relative_attention_num_buckets rpe_num_buckets attention.relative_buckets_count",
     "rows of the table"},
    {"max_distance", "tokens", "128", "relative_attention_max_distance rpe_max_distance",
     "distance from which on all keys share the last bucket"},
    {"direction", "1", "bidirectional", "",
     "bidirectional (half of the buckets for keys after the query: encoders) or causal (decoders)"},
    {"role", "1", "relative_attention_bias", "", "which weight of the model is the table"},
}};

/// Buckets per direction, and those of them with one distance each.
struct Shares {
  std::int64_t side = 0;
  std::int64_t exact = 0;
};

Shares shares_of(const T5Buckets& buckets) {
  const std::int64_t side = buckets.bidirectional ? buckets.buckets / 2 : buckets.buckets;
  return {side, side / 2};
}

std::int64_t fewest(bool bidirectional) {
  return bidirectional ? 4 : 2;
}

SitePlan plan_t5_buckets(const PositionSpec& spec, const Recipe&, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  T5Buckets buckets;
  buckets.bidirectional = read.choice("direction", kDirections) == 0;
  buckets.buckets = read.integer("buckets", {fewest(buckets.bidirectional), kMaxBuckets}, 32);
  buckets.max_distance = read.integer("max_distance", {2, kMaxDistance}, 128);
  if (buckets.max_distance <= shares_of(buckets).exact) {
    read.fail(
        "max_distance",
        fmt::format("must be above {}, the distances with a bucket of their own", shares_of(buckets).exact),
        std::to_string(buckets.max_distance));
  }
  Bias bias;
  bias.form = BiasForm::buckets;
  bias.heads = read.integer("heads", {.min = 1, .max = kMaxHeads});
  bias.buckets = buckets.buckets;
  bias.max_distance = buckets.max_distance;
  bias.bidirectional = buckets.bidirectional;
  bias.roles = {read.text("role", "relative_attention_bias")};
  return bias;
}

}  // namespace

std::int64_t t5_bucket(std::int64_t relative, const T5Buckets& buckets) {
  const Shares shares = shares_of(buckets);
  if (buckets.buckets < fewest(buckets.bidirectional) || buckets.buckets > kMaxBuckets) {
    throw SpecError(fmt::format("t5_bucket: buckets must be from {} to {}, got {}",
                                fewest(buckets.bidirectional), kMaxBuckets, buckets.buckets));
  }
  if (buckets.max_distance <= shares.exact || buckets.max_distance > kMaxDistance) {
    throw SpecError(fmt::format("t5_bucket: max_distance must be above {} and at most {}, got {}",
                                shares.exact, kMaxDistance, buckets.max_distance));
  }
  const std::int64_t held = std::clamp(relative, -buckets.max_distance, buckets.max_distance);
  if (held > 0 && !buckets.bidirectional) return 0;
  const std::int64_t distance = held < 0 ? -held : held;
  const std::int64_t first = held > 0 ? shares.side : 0;
  if (distance < shares.exact) return first + distance;
  if (distance == buckets.max_distance) return first + shares.side - 1;
  const LogLadder ladder{
      .unit = shares.exact, .end = buckets.max_distance, .count = shares.side - shares.exact};
  return first + shares.exact + floor_steps(distance, ladder);
}

Mechanism t5_buckets() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::bias,
          .summary = "adds a learned number per head and bucket of the distance to the attention scores",
          .formula =
              "score[h, i, j] += table[bucket(j - i)][h]\n"
              "n = buckets (causal) or buckets/2 (bidirectional), e = n/2, both rounded down; d = |j - i|\n"
              "bucket = d for d < e, otherwise min(n - 1, e + floor((n - e) ln(d/e) / ln(max_distance/e)))\n"
              "j > i: n more when bidirectional, bucket 0 when causal",
          .paper =
              "Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text "
              "Transformer, arXiv:1910.10683, section 2.1",
          .parameters = kParameters,
          .plan = plan_t5_buckets};
}

}  // namespace locant
