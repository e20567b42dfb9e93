// SPDX-License-Identifier: Apache-2.0
// Reach by construction: ALiBi's widest head, the last bucket of T5, windows and chunks stacked over the
// layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr double kSuppressed = 10;  // nats: a bias alone takes a key down to e^-10

void add_slopes(const Bias& bias, std::vector<ReachTrust>& all) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const double slope : bias.slopes) {
    if (!(slope > 0)) continue;
    least = std::min(least, slope);
    most = std::max(most, slope);
  }
  if (!(most > 0)) return;
  const double reach = std::ceil(kSuppressed / least);
  all.push_back(
      {.what = "alibi",
       .tokens = static_cast<std::int64_t>(std::min(reach, 0x1p62)),
       .text = fmt::format("the widest head weighs a key down by e^-10 at {:.0f} tokens, the narrowest "
                           "at {:.0f}: by the bias alone, nothing is unseen",
                           reach, std::ceil(kSuppressed / most))});
}

void add_buckets(const Bias& bias, std::vector<ReachTrust>& all) {
  if (bias.max_distance <= 0) return;
  all.push_back(
      {.what = "t5_buckets",
       .tokens = bias.max_distance,
       .text = fmt::format("from {} tokens on all distances share one bucket: none is unseen, none is "
                           "told from another",
                           bias.max_distance)});
}

void add_windows(const ModelSpec& spec, std::vector<ReachTrust>& all) {
  std::int64_t narrow = 0;
  std::int64_t reach = 0;
  std::int64_t widest = 0;
  bool whole = false;
  for (const AttentionSpec& attention : spec.attention) {
    if (!attention.attends) continue;
    if (attention.kind == AttentionKind::full || attention.window <= 0) {
      whole = true;
      continue;
    }
    ++narrow;
    widest = std::max(widest, attention.window);
    reach = reach > INT64_MAX - attention.window ? INT64_MAX : reach + attention.window - 1;
  }
  if (narrow == 0) return;
  ReachTrust window{.what = "window", .tokens = {}, .text = {}};
  if (whole) {
    window.text = fmt::format("{} layers see up to {} tokens, the others the whole past", narrow, widest);
  } else {
    window.tokens = reach + 1;
    window.text =
        fmt::format("{} layers see up to {} tokens each: {} stacked, at most", narrow, widest, reach + 1);
  }
  all.push_back(window);
}

}  // namespace

std::vector<ReachTrust> reach_trust(const ModelSpec& spec, const Facts& facts) {
  std::vector<ReachTrust> all;
  for (const PositionFacts& entry : facts.positions) {
    const auto* const bias = entry.plan ? std::get_if<Bias>(&*entry.plan) : nullptr;
    if (bias == nullptr) continue;
    const std::size_t before = all.size();
    if (bias->form == BiasForm::slopes) add_slopes(*bias, all);
    if (bias->form == BiasForm::buckets) add_buckets(*bias, all);
    if (all.size() > before && !spec.others.empty())
      all.back().text = fmt::format("{}: {}", name_of(entry.stack), all.back().text);
  }
  add_windows(spec, all);
  return all;
}

}  // namespace locant::trust_room
