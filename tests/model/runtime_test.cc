// SPDX-License-Identifier: Apache-2.0
// The padded face of a session: masks, either side, explicit positions, and what padding gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "budgets.h"
#include "locant/positions.h"
#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;
using testing::HasSubstr;

/// Ids and mask of a padded call, and its answer.
struct Padded {
  Padded(const std::vector<Ids>& rows, Padding side, std::int64_t pad_id = 0)
      : batch(pad_batch(rows, side, pad_id, 0)), rows_(static_cast<std::int64_t>(rows.size())) {
    logits.assign(static_cast<std::size_t>(rows_ * batch.width * kVocab), -7);
  }
  [[nodiscard]] ForwardCall call() const {
    return {.ids = {batch.ids.data(), {rows_, batch.width}},
            .mask = View<const std::int64_t, 2>(batch.mask.data(), {rows_, batch.width}),
            .positions = {}};
  }
  [[nodiscard]] View<float, 3> out() { return {logits.data(), {rows_, batch.width, kVocab}}; }
  /// Logits of a row's tokens; NaN is demanded of every other place.
  [[nodiscard]] Logits row(std::int64_t row) {
    Logits result;
    for (std::int64_t t = 0; t < batch.width; ++t) {
      const bool token = batch.mask[static_cast<std::size_t>(row * batch.width + t)] != 0;
      if (token) result.emplace_back();
      for (std::int64_t v = 0; v < kVocab; ++v) {
        const float value = out()(row, t, v);
        EXPECT_EQ(std::isnan(value), !token);
        if (token) result.back().push_back(value);
      }
    }
    return result;
  }

  PaddedBatch batch;
  std::vector<float> logits;

 private:
  std::int64_t rows_;
};

class PaddedCalls : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, PaddedCalls, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(PaddedCalls, PaddingOnEitherSideChangesNothing) {
  const Loaded loaded(tiny(GetParam()), {}, 2);
  const std::vector<Ids> rows = {some_ids(4, 31), some_ids(23, 32), some_ids(1, 33)};
  for (const Padding side : {Padding::left, Padding::right}) {
    Padded padded(rows, side, 90);
    const auto session = loaded.model->open(30);
    session->forward(padded.call(), padded.out());
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_LE(distance(padded.row(row), alone(loaded, rows[static_cast<std::size_t>(row)])),
                budgets::kConformancePadding);
    }
  }
}

// A decode step after a padded prompt, with the mask of everything so far.
TEST_P(PaddedCalls, AStepWithAWholeMask) {
  const Loaded loaded(tiny(GetParam()));
  const std::vector<Ids> rows = {some_ids(4, 34), some_ids(9, 35)};
  Padded padded(rows, Padding::left);
  const auto session = loaded.model->open(20);
  session->forward(padded.call(), padded.out());
  const Ids next = {11, 12};
  Ids mask;
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t t = 0; t < 9; ++t) mask.push_back(padded.batch.mask[row * 9 + t]);
    mask.push_back(1);
  }
  std::vector<float> logits(2 * kVocab);
  session->forward({.ids = {next.data(), {2, 1}},
                    .mask = View<const std::int64_t, 2>(mask.data(), {2, 10}),
                    .positions = {}},
                   {logits.data(), {2, 1, kVocab}});
  for (std::size_t row = 0; row < 2; ++row) {
    Ids whole = rows[row];
    whole.push_back(next[row]);
    const Logits want = {alone(loaded, whole).back()};
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row) * kVocab;
    EXPECT_LE(distance(Logits{{first, first + kVocab}}, want), budgets::kConformancePadding);
  }
}

TEST_P(PaddedCalls, AMaskMayHaveHoles) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = {5, 90, 6, 7, 90, 8};
  const Ids mask = {1, 0, 1, 1, 0, 1};
  std::vector<float> logits(6 * kVocab);
  const View<float, 3> out(logits.data(), {1, 6, kVocab});
  loaded.model->open(4)->forward({.ids = {ids.data(), {1, 6}},
                                  .mask = View<const std::int64_t, 2>(mask.data(), {1, 6}),
                                  .positions = {}},
                                 out);
  Logits got;
  for (const std::int64_t t : {0, 2, 3, 5}) {
    got.emplace_back();
    for (std::int64_t v = 0; v < kVocab; ++v) got.back().push_back(out(0, t, v));
  }
  EXPECT_LE(distance(got, alone(loaded, {5, 6, 7, 8})), budgets::kConformancePadding);
  EXPECT_TRUE(std::isnan(out(0, 1, 0)));
  EXPECT_TRUE(std::isnan(out(0, 4, kVocab - 1)));
}

TEST_P(PaddedCalls, PositionsOfPaddingAreNotRead) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = {-5, 6, 7};
  const Ids mask = {0, 1, 1};
  const Ids positions = {-1000000, 30, 31};
  std::vector<float> logits(3 * kVocab);
  const View<float, 3> out(logits.data(), {1, 3, kVocab});
  loaded.model->open(2)->forward({.ids = {ids.data(), {1, 3}},
                                  .mask = View<const std::int64_t, 2>(mask.data(), {1, 3}),
                                  .positions = View<const std::int64_t, 3>(positions.data(), {1, 1, 3})},
                                 out);
  const Logits want = alone(loaded, {6, 7}, {30, 31});
  for (std::int64_t v = 0; v < kVocab; ++v) EXPECT_EQ(out(0, 2, v), want[1][static_cast<std::size_t>(v)]);
}

TEST_P(PaddedCalls, StridedLogitsAreWrittenAndNothingElse) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = {5, 6, 7};
  std::vector<float> logits(3 * (kVocab + 3), -7);
  const View<float, 3> out(logits.data(), {1, 3, kVocab}, {3 * (kVocab + 3), kVocab + 3, 1});
  loaded.model->open(3)->forward({.ids = {ids.data(), {1, 3}}, .mask = {}, .positions = {}}, out);
  const Logits want = alone(loaded, ids);
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t v = 0; v < kVocab; ++v) {
      EXPECT_EQ(out(0, t, v), want[static_cast<std::size_t>(t)][static_cast<std::size_t>(v)]);
    }
    for (std::size_t v = 0; v < 3; ++v)
      EXPECT_EQ(logits[static_cast<std::size_t>(t) * (kVocab + 3) + kVocab + v], -7);
  }
}

TEST(Forward, RefusesWrongShapes) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(2, 8);
  const Ids ids(6, 1);
  std::vector<float> logits(6 * kVocab, -7);
  const auto refused = [&](const ForwardCall& call, const View<float, 3>& out) {
    return message_of<SpecError>([&] { session->forward(call, out); });
  };
  const View<const std::int64_t, 2> good(ids.data(), {2, 3});
  const View<float, 3> out(logits.data(), {2, 3, kVocab});
  EXPECT_THAT(refused({.ids = {ids.data(), {3, 2}}, .mask = {}, .positions = {}}, out),
              HasSubstr("2 rows, got 3"));
  EXPECT_THAT(refused({.ids = good, .mask = {}, .positions = {}}, {logits.data(), {2, 2, kVocab}}),
              HasSubstr("logits must be [2,3,97], got [2,2,97]"));
  EXPECT_THAT(
      refused({.ids = good, .mask = View<const std::int64_t, 2>(ids.data(), {2, 2}), .positions = {}}, out),
      HasSubstr("mask must be"));
  EXPECT_THAT(
      refused({.ids = good, .mask = {}, .positions = View<const std::int64_t, 3>(ids.data(), {1, 2, 2})},
              out),
      HasSubstr("positions must be"));
  EXPECT_THAT(
      refused({.ids = good, .mask = {}, .positions = View<const std::int64_t, 3>(ids.data(), {3, 2, 1})},
              out),
      HasSubstr("positions must be"));
  EXPECT_FALSE(loaded.model->takes_documents());
  EXPECT_THAT(refused({.ids = good, .mask = {}, .positions = {}, .documents = good}, out),
              HasSubstr("documents must not be given"));
  for (const float value : logits) EXPECT_EQ(value, -7);
}

TEST(Forward, WritesNothingWhenItRefuses) {
  const Loaded loaded(tiny("gpt2"));
  const auto session = loaded.session(1, 8);
  std::vector<float> logits(3 * kVocab, -7);
  const View<float, 3> out(logits.data(), {1, 3, kVocab});
  const Ids bad = {1, 2, kVocab};
  const Ids good = {1, 2, 3};
  const Ids far = {0, 1, 300};
  EXPECT_THROW(session->forward({.ids = {bad.data(), {1, 3}}, .mask = {}, .positions = {}}, out),
               std::out_of_range);
  EXPECT_THROW(session->forward({.ids = {good.data(), {1, 3}},
                                 .mask = {},
                                 .positions = View<const std::int64_t, 3>(far.data(), {1, 1, 3})},
                                out),
               std::out_of_range);
  for (const float value : logits) ASSERT_EQ(value, -7);
  session->forward({.ids = {good.data(), {1, 3}}, .mask = {}, .positions = {}}, out);
  const Logits want = alone(loaded, good);
  for (std::int64_t v = 0; v < kVocab; ++v) EXPECT_EQ(out(0, 2, v), want[2][static_cast<std::size_t>(v)]);
}

// A refused first call decides nothing, the number of rows included.
TEST(Open, ARefusedFirstCallLeavesTheRowsOpen) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.model->open(8);
  std::vector<float> logits(4 * kVocab);
  const Ids bad = {1, 2, 3, -1};
  EXPECT_THROW(session->forward({.ids = {bad.data(), {2, 2}}, .mask = {}, .positions = {}},
                                {logits.data(), {2, 2, kVocab}}),
               std::out_of_range);
  const Ids good = {1, 2};
  session->forward({.ids = {good.data(), {1, 2}}, .mask = {}, .positions = {}},
                   {logits.data(), {1, 2, kVocab}});
  const Logits want = alone(loaded, good);
  for (std::size_t v = 0; v < kVocab; ++v) EXPECT_EQ(logits[kVocab + v], want[1][v]);
}

TEST(Open, ForksBeforeAndAfterTheFirstCall) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.model->open(8);
  const auto early = session->fork();
  ASSERT_NE(early, nullptr);
  const Ids ids = {1, 2};
  std::vector<float> a(2 * kVocab), b(2 * kVocab), c(2 * kVocab);
  const ForwardCall call{.ids = {ids.data(), {1, 2}}, .mask = {}, .positions = {}};
  session->forward(call, {a.data(), {1, 2, kVocab}});
  early->forward(call, {b.data(), {1, 2, kVocab}});
  EXPECT_EQ(a, b);
  const auto late = session->fork();
  session->forward(call, {a.data(), {1, 2, kVocab}});
  late->forward(call, {c.data(), {1, 2, kVocab}});
  EXPECT_EQ(a, c);
  EXPECT_NE(a, b);
}

TEST(Open, RefusesCapacities) {
  const Loaded loaded(tiny("gpt2"));
  EXPECT_THROW((void)loaded.model->open(0), SpecError);
  EXPECT_THROW((void)loaded.model->open(301), std::out_of_range);
  EXPECT_NO_THROW((void)loaded.model->open(300));
}

}  // namespace
}  // namespace locant
