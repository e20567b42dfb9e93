// SPDX-License-Identifier: Apache-2.0
// Runtimes whose answer is known: where their loss rises, how long it falls, how far they copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "locant/trust.h"
#include "trust/made_language.h"
#include "trust/small_specs.h"

namespace locant {
namespace {

using tests::Behaviour;
using tests::Language;
using tests::MadeModel;

const Language& language() {
  static const Language made = tests::make_language(24, 700, 5);
  return made;
}

StaticTrust facts_of_length(std::int64_t declared, std::optional<std::int64_t> trained, std::int64_t to) {
  StaticTrust facts;
  facts.declared = {declared, LengthSource::field, "max_position_embeddings"};
  facts.trained = trained ? StatedLength{trained, LengthSource::user, "--trained"}
                          : StatedLength{declared, LengthSource::assumed, "max_position_embeddings"};
  facts.to = to;
  facts.to_basis = "declared";
  return facts;
}

/// Falls up to `benefit`, flat up to `harm`, then rises.
Behaviour shaped(std::int64_t benefit, std::int64_t harm) {
  Behaviour behaviour;
  behaviour.boost = [benefit, harm](std::int64_t position) {
    if (position >= harm) return 0.5;
    return 3.0 * static_cast<double>(std::min(position, benefit)) / static_cast<double>(benefit);
  };
  return behaviour;
}

struct Asked {
  Behaviour behaviour{};
  std::int64_t declared = 512;
  std::int64_t trained = 128;
  double budget_s = 60;
  std::uint64_t seed = 1;
  std::optional<Behaviour> scaled{};
  bool absolute = false;
};

MeasuredTrust measured(const Asked& asked) {
  MadeModel model(language(), asked.behaviour);
  std::optional<MadeModel> scaled;
  if (asked.scaled) scaled.emplace(language(), *asked.scaled);
  const StaticTrust facts = facts_of_length(asked.declared, asked.trained, asked.declared);
  MeasureQuery query;
  query.runtime = &model;
  query.scaled = scaled ? &*scaled : nullptr;
  query.extension = {.method = "linear", .factor = 4};
  query.facts = &facts;
  query.documents = language().documents;
  query.budget_s = asked.budget_s;
  query.seed = asked.seed;
  query.absolute = asked.absolute;
  return measure_trust(query);
}

TrustVerdict verdict_of(const Asked& asked, const MeasuredTrust& found) {
  return trust_verdict(facts_of_length(asked.declared, asked.trained, asked.declared), &found);
}

TEST(Measure, FindsWhereTheLossRises) {
  for (const std::int64_t harm : {128, 192, 384}) {
    const Asked asked{.behaviour = shaped(64, harm)};
    const MeasuredTrust found = measured(asked);
    EXPECT_EQ(found.loss.control, Judgement::holds) << found.loss.control_text;
    EXPECT_EQ(found.loss.no_harm, harm);
    EXPECT_GT(found.loss.first_harm, harm);
    EXPECT_EQ(found.loss.to_declared, Judgement::fails);
    const TrustVerdict verdict = verdict_of(asked, found);
    EXPECT_EQ(verdict.word, TrustWord::worse);
    EXPECT_EQ(verdict.trusted, harm);
  }
}

TEST(Measure, FindsHowLongTheLossFalls) {
  const MeasuredTrust found = measured({.behaviour = shaped(256, 100000)});
  EXPECT_EQ(found.loss.no_harm, 512);
  EXPECT_EQ(found.loss.first_harm, std::nullopt);
  EXPECT_GE(found.loss.benefit, 256);
  EXPECT_LE(found.loss.benefit, 384);
  EXPECT_EQ(found.loss.to_declared, Judgement::holds);
}

TEST(Measure, FiveSeedsGiveOneVerdict) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const MeasuredTrust found = measured({.behaviour = shaped(64, 192), .seed = seed});
    EXPECT_EQ(found.loss.no_harm, 192) << seed;
  }
}

TEST(Measure, AModelThatDoesNotUseContextGetsNoLength) {
  Behaviour short_sighted;  // surest where it has read least
  short_sighted.boost = [](std::int64_t position) { return position < 32 ? 3.0 : 1.0; };
  const Asked asked{.behaviour = short_sighted};
  const MeasuredTrust found = measured(asked);
  EXPECT_EQ(found.loss.control, Judgement::fails);
  EXPECT_EQ(found.loss.no_harm, std::nullopt);
  EXPECT_EQ(verdict_of(asked, found).word, TrustWord::cannot_tell);
}

TEST(Measure, AModelThatIsWorseThanAGuessGetsNoLength) {
  Behaviour wrong;
  wrong.boost = [](std::int64_t position) { return position < 40 ? -9.0 : -4.0; };
  const MeasuredTrust found = measured({.behaviour = wrong});
  EXPECT_EQ(found.loss.control, Judgement::fails);
  EXPECT_THAT(found.loss.control_text, ::testing::HasSubstr("uniform guess"));
}

TEST(Measure, LogitsThatAreNotFiniteAreHarm) {
  Behaviour broken = shaped(64, 100000);
  broken.not_finite_from = 300;
  const MeasuredTrust found = measured({.behaviour = broken});
  EXPECT_EQ(found.loss.no_harm, 256);
  EXPECT_EQ(found.loss.first_harm, 384);
  bool said = false;
  for (const LossPoint& point : found.loss.points) said = said || !point.finite;
  EXPECT_TRUE(said);
}

TEST(Retrieval, FindsHowFarCopiesReach) {
  Behaviour behaviour = shaped(64, 100000);
  behaviour.copies = 1000;
  behaviour.copies_to = 260;
  const Asked asked{.behaviour = behaviour};
  const MeasuredTrust found = measured(asked);
  EXPECT_EQ(found.retrieval.control, Judgement::holds) << found.retrieval.text;
  EXPECT_EQ(found.retrieval.length, 256);
  EXPECT_EQ(found.retrieval.first_failure, 512);
  EXPECT_GE(found.retrieval.base, 0.9);
  const TrustVerdict verdict = verdict_of(asked, found);
  EXPECT_EQ(verdict.trusted, 256);
  EXPECT_EQ(verdict.by, "retrieval");
  EXPECT_EQ(verdict.word, TrustWord::worse);
}

TEST(Retrieval, TheWorstSourceDecides) {
  Behaviour behaviour = shaped(64, 100000);
  behaviour.copies = 1000;
  behaviour.not_from = 100;  // lost in the middle
  behaviour.not_to = 400;
  const MeasuredTrust found = measured({.behaviour = behaviour});
  EXPECT_EQ(found.retrieval.control, Judgement::holds);
  EXPECT_LE(found.retrieval.length, 128);
  EXPECT_TRUE(found.retrieval.first_failure.has_value());
}

TEST(Retrieval, DistanceAndLengthAreToldApart) {
  Behaviour behaviour = shaped(64, 100000);
  behaviour.copies = 130;
  const MeasuredTrust found = measured({.behaviour = behaviour});
  for (const RetrievalCell& cell : found.retrieval.cells) {
    if (cell.distance <= 126) {
      EXPECT_EQ(cell.holds, Judgement::holds) << cell.length << " " << cell.distance;
    }
    if (cell.distance > 134) {
      EXPECT_EQ(cell.holds, Judgement::fails) << cell.length << " " << cell.distance;
    }
  }
  EXPECT_EQ(found.retrieval.length, 128);
}

TEST(Retrieval, AModelThatCannotCopyGetsNoLength) {
  const MeasuredTrust found = measured({.behaviour = shaped(64, 100000)});
  EXPECT_EQ(found.retrieval.control, Judgement::fails);
  EXPECT_EQ(found.retrieval.length, std::nullopt);
  EXPECT_EQ(found.retrieval.to_declared, Judgement::not_measured);
  EXPECT_THAT(found.retrieval.text, ::testing::StartsWith("cannot tell"));
}

TEST(Shift, HoldsAndIsFoundBroken) {
  EXPECT_EQ(measured({.behaviour = shaped(64, 100000)}).shift.holds, Judgement::holds);
  Behaviour moved = shaped(64, 100000);
  moved.shifted = 0.5;
  const ShiftTrust found = measured({.behaviour = moved}).shift;
  EXPECT_EQ(found.holds, Judgement::fails);
  EXPECT_EQ(found.points.size(), 3U);
  EXPECT_EQ(measured({.behaviour = moved, .absolute = true}).shift.holds, Judgement::not_measured);
  moved.takes_positions = false;
  EXPECT_THAT(measured({.behaviour = moved}).shift.text, ::testing::HasSubstr("positions are not taken"));
}

TEST(Scaling, TellsWhatASettingDoes) {
  Behaviour plain = shaped(64, 128);
  plain.noise = 0.1;
  Behaviour stretched = shaped(64, 100000);
  stretched.noise = 0.1;
  Behaviour blurred;
  blurred.noise = 0.1;
  blurred.boost = [](std::int64_t position) { return position < 40 ? 0.1 : 0.2; };

  const ScalingTrust good = *measured({.behaviour = plain, .scaled = stretched}).scaling;
  EXPECT_TRUE(good.takes_effect);
  EXPECT_EQ(good.short_lengths, Judgement::holds);
  EXPECT_EQ(good.no_harm, 512);

  const ScalingTrust bad = *measured({.behaviour = plain, .scaled = blurred}).scaling;
  EXPECT_EQ(bad.short_lengths, Judgement::fails);
  EXPECT_THAT(bad.text, ::testing::HasSubstr("harmful"));

  const Asked nothing{.behaviour = plain, .scaled = plain};
  const ScalingTrust none = *measured(nothing).scaling;
  EXPECT_FALSE(none.takes_effect);
  EXPECT_THAT(none.text, ::testing::HasSubstr("does nothing"));
}

TEST(Budget, IsKeptAndSaidBefore) {
  Behaviour slow = shaped(64, 100000);
  slow.seconds = 0.004;
  slow.copies = 1000;
  const auto begun = std::chrono::steady_clock::now();
  const MeasuredTrust found = measured({.behaviour = slow, .budget_s = 2});
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_LE(took, 2.2);
  EXPECT_EQ(found.plan.budget_s, 2);
  EXPECT_FALSE(found.plan.lengths.empty());
  EXPECT_GT(found.plan.forward_s, 0.004);
  EXPECT_GE(found.plan.documents, 8);
}

TEST(Budget, TooSmallForOneMeasurementIsRefused) {
  Behaviour slow = shaped(64, 100000);
  slow.seconds = 0.2;
  try {
    (void)measured({.behaviour = slow, .budget_s = 1});
    FAIL() << "not refused";
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("too small for one measurement"));
  }
}

TEST(Budget, AnEndAskedForLeavesWhatIsKnown) {
  MadeModel model(language(), shaped(64, 192));
  const StaticTrust facts = facts_of_length(512, 128, 512);
  std::atomic<bool> stop{false};
  MeasureQuery query;
  query.runtime = &model;
  query.facts = &facts;
  query.documents = language().documents;
  query.interrupt = &stop;
  query.progress = [&](std::string_view doing) {
    if (doing.starts_with("retrieval")) stop = true;
  };
  const MeasuredTrust found = measure_trust(query);
  EXPECT_TRUE(found.plan.interrupted);
  EXPECT_EQ(found.loss.no_harm, 192);
  EXPECT_EQ(found.retrieval.length, std::nullopt);
}

TEST(BadInput, IsRefusedInOneSentence) {
  MadeModel model(language(), shaped(64, 192));
  StaticTrust facts = facts_of_length(512, 128, 512);
  const auto refused = [&](std::vector<TrustDocument> documents) -> std::string {
    MeasureQuery query;
    query.runtime = &model;
    query.facts = &facts;
    query.documents = std::move(documents);
    try {
      (void)measure_trust(query);
    } catch (const SpecError& error) {
      return error.what();
    }
    return "not refused";
  };
  using ::testing::HasSubstr;
  const auto& all = language().documents;
  EXPECT_THAT(refused({{"a", tests::Ids(20, 3)}}),
              HasSubstr("the shortest window needs a text of 33 tokens"));
  EXPECT_THAT(refused({}), HasSubstr("the longest given has 0"));
  EXPECT_THAT(refused({all[0]}), HasSubstr("not refused"));  // 700 tokens give spans of the shortest windows
  EXPECT_THAT(refused({{"a", tests::Ids(all[0].ids.begin(), all[0].ids.begin() + 100)}}),
              HasSubstr("an interval needs 8 documents"));
  EXPECT_THAT(refused(std::vector<TrustDocument>(10, all[0])), HasSubstr("all 10 are the same"));
  facts.hard = 128;
  facts.to_basis = "user";
  EXPECT_THAT(refused(all), HasSubstr("the position table ends at 128"));
  facts.unmeasurable = "a token of bert sees those behind it";
  EXPECT_EQ(refused(all),
            "trust: a text is measured on a decoder alone, a token of bert sees those behind it");
}

TEST(Verdict, WithoutTextIsNotMeasured) {
  const TrustVerdict verdict = trust_verdict(facts_of_length(512, 128, 512), nullptr);
  EXPECT_EQ(verdict.word, TrustWord::not_measured);
  EXPECT_THAT(verdict.text, ::testing::HasSubstr("give --text-file"));
}

TEST(Verdict, AShortTableIsWorseThanDeclared) {
  StaticTrust facts = facts_of_length(1024, 128, 1024);
  facts.hard = 128;
  MeasuredTrust found;
  found.loss.control = Judgement::holds;
  found.loss.no_harm = 128;
  EXPECT_EQ(trust_verdict(facts, &found).word, TrustWord::worse);
  facts.hard = std::nullopt;
  EXPECT_EQ(trust_verdict(facts, &found).word, TrustWord::cannot_tell);  // nothing failed
}

}  // namespace
}  // namespace locant
