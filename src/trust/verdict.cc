// SPDX-License-Identifier: Apache-2.0
// The smallest measured length against the declared one. Worse needs a failure that was seen inside the
// declared length; what was not reached or not decided is said, and is no failure.
#include <fmt/format.h>

#include <algorithm>

#include "locant/trust.h"

namespace locant {
namespace {

/// A measured length, and whether it ends because something failed there.
struct Bound {
  std::int64_t tokens = 0;
  std::string by{};
  std::optional<std::int64_t> failed_at{};
};

std::vector<Bound> bounds_of(const MeasuredTrust& measured) {
  std::vector<Bound> bounds;
  if (measured.scaling) {
    const ScalingTrust& scaling = *measured.scaling;
    if (!scaling.no_harm && scaling.short_lengths != Judgement::fails) return bounds;
    Bound bound{.tokens = scaling.no_harm.value_or(0), .by = "no harm under the schedule", .failed_at = {}};
    for (const ScalingPoint& point : scaling.points) {
      if (point.harmful && (!bound.failed_at || point.length < *bound.failed_at))
        bound.failed_at = point.length;
    }
    bounds.push_back(std::move(bound));
    return bounds;
  }
  const LossCurve& loss = measured.loss;
  if (loss.control == Judgement::holds && loss.no_harm)
    bounds.push_back({.tokens = *loss.no_harm, .by = "no harm", .failed_at = loss.first_harm});
  const Retrieval& retrieval = measured.retrieval;
  if (retrieval.control == Judgement::holds && (retrieval.length || retrieval.first_failure)) {
    bounds.push_back(
        {.tokens = retrieval.length.value_or(0), .by = "retrieval", .failed_at = retrieval.first_failure});
  }
  return bounds;
}

std::string static_words(const StaticTrust& facts) {
  std::optional<std::int64_t> first;
  for (const RotationTrust& rotation : facts.rotations) {
    if (rotation.first_position && (!first || *rotation.first_position < *first))
      first = rotation.first_position;
  }
  std::string text;
  if (first) text += fmt::format("; angles leave what training saw from {} on", *first);
  if (facts.trained.source == LengthSource::weights && facts.trained.tokens &&
      facts.trained.tokens < facts.hard)
    text += fmt::format("; rows past {} never learned", *facts.trained.tokens);
  if (facts.hard && facts.declared.tokens && *facts.hard < *facts.declared.tokens)
    text += fmt::format("; the position table ends at {}", *facts.hard);
  return text;
}

}  // namespace

std::string_view name_of(TrustWord word) noexcept {
  switch (word) {
    case TrustWord::not_measured:
      return "not measured";
    case TrustWord::holds:
      return "holds";
    case TrustWord::worse:
      return "worse than declared";
    case TrustWord::cannot_tell:
      return "cannot tell";
  }
  return "not measured";
}

std::string_view name_of(Judgement judgement) noexcept {
  switch (judgement) {
    case Judgement::reference:
      return "reference";
    case Judgement::holds:
      return "holds";
    case Judgement::fails:
      return "fails";
    case Judgement::undecided:
      return "cannot tell";
    case Judgement::not_measured:
      return "not measured";
  }
  return "not measured";
}

TrustVerdict trust_verdict(const StaticTrust& facts, const MeasuredTrust* measured) {
  TrustVerdict verdict;
  const std::optional<std::int64_t>& declared = facts.declared.tokens;
  const bool table_short = declared && facts.hard && *facts.hard < *declared;
  if (measured == nullptr) {
    verdict.text =
        fmt::format("not measured ({}){}",
                    facts.unmeasurable.empty() ? "give --text-file" : "no decoder: " + facts.unmeasurable,
                    static_words(facts));
    return verdict;
  }
  const std::vector<Bound> bounds = bounds_of(*measured);
  if (bounds.empty()) {
    verdict.word = TrustWord::cannot_tell;
    verdict.text = fmt::format(
        "cannot tell: {}{}",
        measured->loss.control_text.empty() ? "no length was measured" : measured->loss.control_text,
        static_words(facts));
    return verdict;
  }
  const Bound& least = *std::min_element(bounds.begin(), bounds.end(),
                                         [](const Bound& a, const Bound& b) { return a.tokens < b.tokens; });
  verdict.trusted = least.tokens;
  verdict.by = least.by;
  const bool failed = std::any_of(bounds.begin(), bounds.end(), [&](const Bound& one) {
    return declared && one.failed_at && *one.failed_at <= *declared;
  });
  const std::string trusted = least.tokens > 0
                                  ? fmt::format("trusted to {} tokens ({}, measured)", least.tokens, least.by)
                                  : fmt::format("no length is trusted ({}, measured)", least.by);
  if (failed || table_short) {
    verdict.word = TrustWord::worse;
    verdict.text =
        fmt::format("worse than declared: {}, {} declared{}", trusted, *declared, static_words(facts));
  } else if (!declared) {
    verdict.word = TrustWord::holds;
    verdict.text = fmt::format("{}; no length is declared to hold it against", trusted);
  } else if (least.tokens >= *declared) {
    verdict.word = TrustWord::holds;
    verdict.text = fmt::format("holds: {}, {} declared", trusted, *declared);
  } else {
    verdict.word = TrustWord::cannot_tell;
    verdict.text = fmt::format("cannot tell about the declared {}: {}, not decided beyond{}", *declared,
                               trusted, static_words(facts));
  }
  return verdict;
}

}  // namespace locant
