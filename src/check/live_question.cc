// SPDX-License-Identifier: Apache-2.0
// Which prompt a runtime is asked, how long, and what its plan promises: where it changes with the length,
// whether positions act by their differences alone, where tables end.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

/// Past 256, where bf16 positions collide.
constexpr std::int64_t kWanted = 300;
/// A window is crossed where it is no wider.
constexpr std::int64_t kWidest = 1024;
/// Multiplications that all rules together may take, and how often they feed the prompt.
constexpr double kWork = 1e12;
constexpr double kTimes = 45;
constexpr std::int64_t kShortest = 32;
/// Logits that one call may hand back, of four rows.
constexpr std::int64_t kLogits = std::int64_t{1} << 26U;
/// Without a spec or a stated length.
constexpr std::int64_t kUnstated = 4096;
/// Lengths up to which a plan is asked whether it changes.
constexpr std::int64_t kFar = 1 << 20;

/// Longest sequence that the plan of the first token holds for.
std::int64_t same_until(const Evidence& evidence) {
  const std::optional<Plan> first = plan_at(evidence, {.seen = 1});
  if (!first) return kFar;
  const auto same = [&](std::int64_t seen) { return plan_at(evidence, {.seen = seen}) == first; };
  if (same(kFar)) return kFar;
  std::int64_t below = 1;
  std::int64_t above = kFar;
  while (above - below > 1) {
    const std::int64_t middle = below + (above - below) / 2;
    (same(middle) ? below : above) = middle;
  }
  return below;
}

/// Why positions p and p + c may give other logits; empty where they must not.
std::string not_relative(const Plan& plan, const ModelSpec& spec, const Recipe& recipe) {
  if (const QkNormSpec& norm = spec.block.qk_norm;
      norm.kind != QkNorm::none && norm.after_rotation && norm.norm.gain) {
    return "the model multiplies rotated channels by gains of their own";
  }
  for (const PositionEmbedding& embedding : plan.embedding) {
    if (embedding.form != EmbeddingForm::token_types) return "the plan adds positions to the token state";
  }
  for (const LayerPositions& kind : plan.kinds) {
    if (kind.query_scale) return "the plan scales queries by their position";
    const bool rounded = kind.bias && kind.bias->scale_order == ScaleOrder::before_scale &&
                         recipe.has(Quirk::slopes_bf16_before_scale);
    if (rounded) return "the recipe rounds slope times position to bf16";
  }
  for (const AttentionSpec& one : spec.attention) {
    if (one.kind == AttentionKind::chunk) return "the plan cuts attention into chunks by position";
  }
  return {};
}

void read_plan(const Evidence& evidence, LiveQuestion& ask) {
  const ModelSpec& spec = *evidence.spec;
  ask.layers = spec.layers;
  for (const AttentionSpec& one : spec.attention) {
    if (one.bidirectional) ask.causal = false;
    if (one.window > 0 && (ask.window == 0 || one.window < ask.window)) ask.window = one.window;
  }
  const LimitFacts& limits = evidence.facts->limits;
  const std::int64_t configured = limits.lengths.configured.value_or(kUnstated);
  ask.same_until = same_until(evidence);
  ask.last = std::min(limits.last_position.value_or(configured - 1), configured - 1);
  // a plan that changes with the length is asked past its switch, too
  ask.longest = ask.same_until < kFar ? std::max(configured, 2 * ask.same_until) : configured;
  if (limits.last_position) ask.longest = std::min(ask.longest, *limits.last_position + 1);
  const std::optional<Plan> plan = plan_at(evidence, {.seen = 1});
  if (!plan) {
    ask.not_relative = "the recipe refuses the mechanism, nothing is promised";
    return;
  }
  ask.not_relative = not_relative(*plan, spec, *evidence.recipe);
  const auto adds = [](const PositionEmbedding& one) { return one.form != EmbeddingForm::token_types; };
  ask.absolute = std::any_of(plan->embedding.begin(), plan->embedding.end(), adds);
  ask.marks =
      ask.absolute || std::any_of(plan->kinds.begin(), plan->kinds.end(),
                                  [](const LayerPositions& kind) { return kind != LayerPositions{}; });
  ask.bias_alone =
      !ask.absolute && std::all_of(plan->kinds.begin(), plan->kinds.end(), [](const LayerPositions& kind) {
        return !kind.rotation && !kind.query_scale;
      });
}

std::int64_t prompt_length(const Evidence& evidence, const LiveQuestion& ask) {
  std::int64_t wanted = kWanted;
  if (ask.window > 0 && ask.window <= kWidest) wanted = std::max(wanted, ask.window + 40);
  if (evidence.spec != nullptr) {
    const ModelSpec& spec = *evidence.spec;
    const auto hidden = static_cast<double>(spec.hidden);
    const double parameters =
        static_cast<double>(spec.layers) * 12 * hidden * hidden + static_cast<double>(spec.vocab) * hidden;
    const double affordable = kWork / (kTimes * std::max(parameters, 1.0));
    wanted = std::min(wanted, std::max(kShortest, static_cast<std::int64_t>(affordable)));
    wanted = std::min(wanted, std::max(kShortest, kLogits / (4 * std::max<std::int64_t>(spec.vocab, 1))));
  }
  // room behind it for shifts, padding and a larger capacity
  const std::int64_t room = std::min(ask.last + 1, ask.same_until);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(room * 3 / 4, 1));
}

/// Ids that look like a text's: no beginning, end or padding, neighbours that differ.
class Draw {
 public:
  Draw(std::int64_t vocab, const ModelSpec* spec) : vocab_(vocab) {
    if (spec == nullptr) return;
    special_.insert(spec->eos.begin(), spec->eos.end());
    if (spec->bos) special_.insert(*spec->bos);
    if (spec->embedding.padding_id) special_.insert(*spec->embedding.padding_id);
    if (static_cast<std::int64_t>(special_.size()) + 2 > vocab_) special_.clear();
  }
  std::int64_t next() {
    for (int tries = 0; tries < 64; ++tries) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto id = static_cast<std::int64_t>((state_ >> 33U) % static_cast<std::uint64_t>(vocab_));
      if (special_.contains(id) || id == last_) continue;
      last_ = id;
      break;
    }
    return std::max<std::int64_t>(last_, 0);
  }
  Ids ids(std::int64_t count) {
    Ids all(static_cast<std::size_t>(count));
    for (std::int64_t& id : all) id = next();
    return all;
  }

 private:
  std::int64_t vocab_;
  std::set<std::int64_t> special_;
  std::uint64_t state_ = 20240817;
  std::int64_t last_ = -1;
};

}  // namespace

std::optional<Plan> plan_at(const Evidence& evidence, const Extent& extent) {
  try {
    return plan(evidence.spec->positions, *evidence.recipe, extent);
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

LiveQuestion question_of(const CheckQuery& query, const Evidence& evidence) {
  LiveQuestion ask;
  ask.last = kUnstated - 1;
  ask.longest = kUnstated;
  ask.same_until = kFar;
  ask.layers = 8;
  ask.not_relative = "a model's plan is needed to promise it";
  if (evidence.spec != nullptr) read_plan(evidence, ask);
  const std::int64_t vocab = query.runtime->vocab();
  Draw draw(vocab, evidence.spec);
  if (query.live_ids.empty()) {
    ask.prompt = draw.ids(prompt_length(evidence, ask));
  } else {
    for (std::size_t i = 0; i < query.live_ids.size(); ++i) {
      if (query.live_ids[i] < 0 || query.live_ids[i] >= vocab) {
        throw std::out_of_range(
            fmt::format("check: token {} at place {} of the live prompt is outside vocab {}",
                        query.live_ids[i], i, vocab));
      }
    }
    ask.prompt = query.live_ids;
  }
  const auto tokens = static_cast<std::int64_t>(ask.prompt.size());
  ask.other = draw.ids(tokens);
  if (ask.causal) ask.steps = std::clamp<std::int64_t>(tokens / 3, 1, 32);
  ask.pad_id = evidence.spec != nullptr ? evidence.spec->embedding.padding_id.value_or(0) : 0;
  if (ask.pad_id < 0 || ask.pad_id >= vocab) ask.pad_id = 0;
  do {
    ask.other_pad_id = draw.next();
  } while (ask.other_pad_id == ask.pad_id && vocab > 1);
  return ask;
}

}  // namespace locant::check_room
