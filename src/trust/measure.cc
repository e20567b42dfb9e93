// SPDX-License-Identifier: Apache-2.0
// The measured part: time one pass, plan, say the plan, keep to it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trust/loss_curve.h"
#include "trust/retrieval.h"
#include "trust/shift.h"

namespace locant {
namespace {

using namespace trust_room;

constexpr double kLossShare = 0.66;       // of the budget, at which the loss ends
constexpr double kRetrievalShare = 0.92;  // and the retrieval
constexpr double kWholeShare = 0.97;

std::string seconds_text(double seconds) {
  if (seconds < 0.1) return fmt::format("{:.2g} s", seconds);
  return seconds < 120 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

Scorer::Feeding feeding_of(const MeasureQuery& query) {
  return query.follows_length ? Scorer::Feeding::in_one_piece : Scorer::Feeding::in_pieces;
}

class Measurement {
 public:
  explicit Measurement(const MeasureQuery& query)
      : query_(query),
        clock_(query.budget_s, query.spent_s, query.interrupt),
        scorer_(*query.runtime, feeding_of(query)) {
    if (query.scaled != nullptr) scaled_.emplace(*query.scaled, feeding_of(query));
  }

  MeasuredTrust take() {
    prepare();
    plan();
    if (query_.planned) query_.planned(answer_.plan);
    losses();
    answer_.retrieval = measure_retrieval({.documents = &documents_,
                                           .facts = query_.facts,
                                           .lead = query_.lead,
                                           .scorer = &scorer_,
                                           .clock = &clock_,
                                           .share = kRetrievalShare,
                                           .longest = documents_.longest,
                                           .seed = query_.seed,
                                           .progress = [this](std::string_view doing) { say(doing); }});
    answer_.shift = measure_shift({.documents = &documents_,
                                   .facts = query_.facts,
                                   .lead = query_.lead,
                                   .scorer = &scorer_,
                                   .clock = &clock_,
                                   .share = kWholeShare,
                                   .absolute = query_.absolute,
                                   .follows_length = query_.follows_length});
    answer_.plan.taken_s = clock_.elapsed();
    answer_.plan.interrupted = clock_.interrupted();
    return std::move(answer_);
  }

 private:
  void say(std::string_view doing) const {
    if (query_.progress) query_.progress(doing);
  }

  void prepare() {
    const StaticTrust& facts = *query_.facts;
    if (!facts.unmeasurable.empty())
      throw SpecError(fmt::format("trust: a text is measured on a decoder alone, {}", facts.unmeasurable));
    if (!(query_.budget_s > 0))
      throw SpecError(fmt::format("trust: a budget is above 0 s, got {}", query_.budget_s));
    if (facts.hard && facts.to > *facts.hard && facts.to_basis == "user")
      throw SpecError(fmt::format("trust: {} tokens cannot be measured, the position table ends at {}",
                                  facts.to, *facts.hard));
    const std::int64_t most = facts.hard ? std::min(facts.to, *facts.hard) : facts.to;
    asked_ = length_grid(facts, most);
    if (asked_.size() < 2)
      throw SpecError(fmt::format("trust: at least two lengths are measured, from {} tokens on, got {}",
                                  kShortest, most));
    documents_ = cut_documents({.texts = &query_.documents,
                                .lengths = asked_,
                                .lead = static_cast<std::int64_t>(query_.lead.size()),
                                .seed = query_.seed});
    answer_.runtime = query_.runtime->name();
    answer_.seed = query_.seed;
    answer_.documents = documents_.text;
    answer_.plan.budget_s = query_.budget_s;
    if (documents_.longest < asked_.back())
      answer_.plan.left_out.push_back(fmt::format("lengths past {}: fewer than {} documents are that long",
                                                  documents_.longest, kLeastDocuments));
  }

  double cost(std::int64_t length) const {
    return scorer_.costs().of(length) + (scaled_ ? scaled_->costs().of(length) : 0);
  }

  /// Two passes of different lengths give the cost of all.
  void time_passes() {
    say("timing one pass");
    const std::int64_t longer = std::min<std::int64_t>(documents_.longest, 4 * kShortest);
    for (const std::int64_t length : {kShortest, kShortest, longer}) {
      const std::vector<Ids> rows(1, window_of(documents_.ids.front(), length, query_.lead));
      std::vector<float> first;
      const LastReader keep = [&](std::int64_t, std::int64_t, std::span<const float> logits) {
        first.insert(first.end(), logits.begin(), logits.end());
      };
      scorer_.run(rows, 1, keep);
      if (!scaled_) continue;
      scaled_->run(rows, 1, [](std::int64_t, std::int64_t, std::span<const float>) {});
    }
    answer_.plan.forward_tokens = longer;
    answer_.plan.forward_s = scorer_.costs().of(longer);
  }

  void plan() {
    time_passes();
    TrustPlan& plan = answer_.plan;
    const auto least = static_cast<double>(kLeastDocuments);
    const double time = kLossShare * query_.budget_s - clock_.elapsed();
    double of_one = 0;  // document, all lengths so far
    for (const std::int64_t length : asked_) {
      if (length > documents_.longest) break;
      if ((of_one + cost(length)) * least > time) {
        plan.left_out.push_back(fmt::format("lengths from {}: {} documents would take {} more", length,
                                            kLeastDocuments, seconds_text(cost(length) * least)));
        break;
      }
      of_one += cost(length);
      plan.lengths.push_back(length);
    }
    if (plan.lengths.size() < 2 && !clock_.interrupted())
      throw SpecError(fmt::format(
          "trust: a budget of {} is too small for one measurement, which takes {} here",
          seconds_text(query_.budget_s),
          seconds_text((clock_.elapsed() + least * (cost(asked_[0]) + cost(asked_[1]))) / kLossShare)));
    const auto affordable = static_cast<std::int64_t>(std::min(time / std::max(of_one, 1e-9), 1e9));
    plan.documents = std::min({affordable, kMostDocuments, static_cast<std::int64_t>(documents_.ids.size())});
    plan.documents =
        std::max(plan.documents,
                 std::min<std::int64_t>(kLeastDocuments, static_cast<std::int64_t>(documents_.ids.size())));
    plan.parts.push_back({"loss by length", of_one * static_cast<double>(plan.documents)});
    plan.parts.push_back({"retrieval, at most", (kRetrievalShare - kLossShare) * query_.budget_s});
    plan.parts.push_back({"shift invariance, at most", (kWholeShare - kRetrievalShare) * query_.budget_s});
  }

  void losses() {
    const LossTable table = measure_losses({.documents = &documents_,
                                            .lengths = answer_.plan.lengths,
                                            .count = answer_.plan.documents,
                                            .lead = query_.lead,
                                            .scorer = &scorer_,
                                            .scaled = scaled_ ? &*scaled_ : nullptr,
                                            .clock = &clock_,
                                            .share = kLossShare + (kRetrievalShare - kLossShare) / 4,
                                            .progress = [this](std::string_view doing) { say(doing); }});
    const CurveQuery curve{.table = &table,
                           .facts = query_.facts,
                           .asked = asked_,
                           .vocab = scorer_.vocab(),
                           .seed = query_.seed};
    answer_.loss = judge_losses(curve);
    if (!scaled_) return;
    ScalingTrust scaling = judge_scaling(curve);
    scaling.method = query_.extension.method;
    scaling.factor = query_.extension.factor;
    scaling.replicate = replicate();
    scaling.takes_effect = scaling.effect > 4 * scaling.replicate && scaling.effect > 0;
    scaling.text = scaling_text(scaling);
    answer_.scaling = std::move(scaling);
  }

  /// The same pass twice: what a runtime's own arithmetic moves.
  double replicate() {
    if (answer_.plan.lengths.empty() || clock_.interrupted()) return 0;
    const std::vector<Ids> rows(1,
                                window_of(documents_.ids.front(), answer_.plan.lengths.back(), query_.lead));
    std::vector<float> first;
    scorer_.run(rows, 1, [&](std::int64_t, std::int64_t, std::span<const float> logits) {
      first.assign(logits.begin(), logits.end());
    });
    double largest = 0;
    scorer_.run(rows, 1, [&](std::int64_t, std::int64_t, std::span<const float> logits) {
      for (std::size_t i = 0; i < logits.size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(logits[i]) - static_cast<double>(first[i])));
    });
    return largest;
  }

  std::string scaling_text(const ScalingTrust& scaling) const {
    if (scaling.points.empty()) return "not measured: no time";
    if (!scaling.takes_effect) return "the setting does nothing: every logit is the same with and without it";
    std::string text = "the setting takes effect";
    const ScalingPoint* worst = nullptr;
    for (const ScalingPoint& point : scaling.points) {
      if (point.inside && (worst == nullptr || point.difference.mean > worst->difference.mean))
        worst = &point;
    }
    if (worst != nullptr) {
      text += fmt::format("; inside the trained length it costs up to {:+.3f} nats, at {} tokens: {}",
                          worst->difference.mean, worst->length,
                          scaling.short_lengths == Judgement::fails   ? "harmful"
                          : scaling.short_lengths == Judgement::holds ? "no harm"
                                                                      : "cannot tell");
    }
    return text;
  }

  const MeasureQuery& query_;
  Clock clock_;
  Scorer scorer_;
  std::optional<Scorer> scaled_;
  std::vector<std::int64_t> asked_{};
  Documents documents_{};
  MeasuredTrust answer_{};
};

}  // namespace

MeasuredTrust measure_trust(const MeasureQuery& query) {
  return Measurement(query).take();
}

}  // namespace locant
