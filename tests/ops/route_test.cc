// SPDX-License-Identifier: Apache-2.0
// Routing against full sorts in double: scores, corrections, groups, sums, ties, NaN, threads, rules.
#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"

namespace locant {
namespace {

using testing::wide;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

struct Chosen {
  std::vector<std::int64_t> ids;
  std::vector<double> weights;
};

// Indices of x, the largest first, equal ones by index.
std::vector<std::int64_t> order(const std::vector<double>& x) {
  std::vector<std::int64_t> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int64_t a, std::int64_t b) { return x[size(a)] > x[size(b)]; });
  return ids;
}

std::vector<double> softmax(std::vector<double> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - top);
  for (double& v : x) v /= sum;
  return x;
}

// What Hugging Face's routers do, with sorts.
Chosen truth(const RouteCall& call, std::int64_t t) {
  std::vector<double> score;
  for (std::int64_t e = 0; e < call.logits.extent(1); ++e) {
    const double logit = wide(call.logits(t, e));
    score.push_back(call.score == RouterScore::sigmoid ? 1 / (1 + std::exp(-logit)) : logit);
  }
  if (call.score == RouterScore::softmax) score = softmax(score);
  std::vector<double> choice = score;
  for (std::size_t e = 0; e < choice.size(); ++e) {
    if (!call.correction.empty()) choice[e] += wide(call.correction(static_cast<std::int64_t>(e)));
  }
  const std::size_t in_group = choice.size() / size(call.groups);
  std::vector<double> groups;
  for (std::size_t g = 0; g < size(call.groups); ++g) {
    std::vector<double> members(choice.begin() + static_cast<std::ptrdiff_t>(g * in_group),
                                choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * in_group));
    std::sort(members.rbegin(), members.rend());
    const bool pair = call.groups > 1 && call.group_score == GroupScore::two_largest;
    groups.push_back(members[0] + (pair ? members[1] : 0));
  }
  const std::vector<std::int64_t> best_groups = order(groups);
  std::vector<double> open(choice.size(), -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < size(call.chosen_groups); ++i) {
    for (std::size_t e = size(best_groups[i]) * in_group; e < (size(best_groups[i]) + 1) * in_group; ++e)
      open[e] = choice[e];
  }
  Chosen c{.ids = order(open), .weights = {}};
  c.ids.resize(size(call.ids.extent(1)));
  for (const std::int64_t e : c.ids) c.weights.push_back(score[size(e)]);
  if (call.score == RouterScore::softmax_chosen) c.weights = softmax(c.weights);
  const double sum = std::accumulate(c.weights.begin(), c.weights.end(), 0.0) + 1e-20;
  for (double& w : c.weights) w *= wide(call.scale) / (call.normalised ? sum : 1);
  return c;
}

struct Room {
  Room(std::int64_t tokens, std::int64_t experts, std::int64_t k)
      : logits(size(tokens * experts)),
        correction(size(experts)),
        ids(size(tokens * k)),
        weights(size(tokens * k)) {
    testing::Random random(static_cast<std::uint64_t>(tokens * 1000 + experts));
    for (float& x : logits) x = 2 * random.next();
    for (float& x : correction) x = random.next();
    call = {.logits = {logits.data(), {tokens, experts}},
            .ids = {ids.data(), {tokens, k}},
            .weights = {weights.data(), {tokens, k}}};
  }
  std::vector<float> logits, correction;
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
  RouteCall call;
};

void expect_truth(const RouteCall& call, ThreadPool& pool) {
  route(call, pool);
  for (std::int64_t t = 0; t < call.logits.extent(0); ++t) {
    const Chosen c = truth(call, t);
    for (std::int64_t i = 0; i < call.ids.extent(1); ++i) {
      ASSERT_EQ(call.ids(t, i), c.ids[size(i)]) << t << "," << i;
      ASSERT_NEAR(wide(call.weights(t, i)), c.weights[size(i)],
                  budgets::kRoute * std::abs(c.weights[size(i)]));
    }
  }
}

class Route : public ::testing::Test {
 protected:
  ThreadPool pool{1};
};

TEST_F(Route, EveryScoreWithAndWithoutCorrectionSumAndScale) {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::softmax_chosen, RouterScore::sigmoid}) {
    for (const auto& [experts, k] : {std::pair{1, 1}, {8, 2}, {60, 4}, {128, 8}, {7, 7}, {1024, 10}}) {
      for (unsigned mix = 0; mix < 8; ++mix) {
        Room room(23, experts, k);
        room.call.score = score;
        if ((mix & 1u) != 0) room.call.correction = {room.correction.data(), {experts}};
        room.call.normalised = (mix & 2u) != 0;
        room.call.scale = (mix & 4u) != 0 ? 2.5f : 1;
        expect_truth(room.call, pool);
      }
    }
  }
}

TEST_F(Route, GroupsByTheirBestOrTheirTwoBest) {
  for (const GroupScore by : {GroupScore::largest, GroupScore::two_largest}) {
    for (const auto& [experts, groups, chosen, k] : {std::tuple{16, 4, 2, 3},
                                                     {16, 4, 2, 8},
                                                     {160, 8, 3, 6},
                                                     {256, 8, 4, 8},
                                                     {12, 6, 1, 2},
                                                     {12, 1, 1, 5}}) {
      for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
        Room room(40, experts, k);
        room.call.score = score;
        room.call.groups = groups;
        room.call.chosen_groups = chosen;
        room.call.group_score = by;
        room.call.normalised = score == RouterScore::sigmoid;
        expect_truth(room.call, pool);
        room.call.correction = {room.correction.data(), {experts}};
        expect_truth(room.call, pool);
      }
    }
  }
}

// The two best of a group may outweigh the best of another; who is chosen shows which rule holds.
TEST_F(Route, GroupRulesDiffer) {
  Room room(1, 4, 1);
  room.logits = {3, -9, 2, 2};
  room.call.logits = {room.logits.data(), {1, 4}};
  room.call.score = RouterScore::sigmoid;
  room.call.groups = 2;
  route(room.call, pool);
  EXPECT_EQ(room.ids[0], 0);
  room.call.group_score = GroupScore::two_largest;
  route(room.call, pool);
  EXPECT_EQ(room.ids[0], 2);
}

// A correction chooses and does not weigh; experts outside the best groups stay out below 0 as well.
TEST_F(Route, CorrectionsChooseAlone) {
  Room room(1, 4, 2);
  room.logits = {0, 1, 2, 3};
  room.correction = {9, -9, -9, -9};
  room.call.logits = {room.logits.data(), {1, 4}};
  room.call.correction = {room.correction.data(), {4}};
  room.call.score = RouterScore::sigmoid;
  room.call.groups = 2;
  route(room.call, pool);
  EXPECT_EQ(room.ids, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(room.weights[0], 0.5f);
}

TEST_F(Route, EqualOnesBySmallerIdAndNanLast) {
  Room room(1, 6, 4);
  room.logits = {1, 2, 2, kNan, 2, -kInf};
  room.call.logits = {room.logits.data(), {1, 6}};
  room.call.score = RouterScore::softmax_chosen;
  route(room.call, pool);
  EXPECT_EQ(room.ids, (std::vector<std::int64_t>{1, 2, 4, 0}));
  // More are wanted than numbers are left: no expert comes twice.
  room.logits = {-kInf, kNan, -kInf, kNan, -kInf, kNan};
  route(room.call, pool);
  std::vector<std::int64_t> sorted = room.ids;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_EQ(room.ids, (std::vector<std::int64_t>{0, 2, 4, 1}));
}

TEST_F(Route, StridedAndOnAnyNumberOfThreads) {
  Room room(300, 32, 4);
  std::vector<float> padded(300 * 40);
  for (std::size_t i = 0; i < padded.size(); ++i) padded[i] = room.logits[i % room.logits.size()];
  room.call.logits = {padded.data(), {300, 32}, {40, 1}};
  expect_truth(room.call, pool);
  const std::vector<std::int64_t> ids = room.ids;
  const std::vector<float> weights = room.weights;
  ThreadPool three(3);
  std::fill(room.weights.begin(), room.weights.end(), 0.0f);
  route(room.call, three);
  EXPECT_EQ(room.ids, ids);
  EXPECT_EQ(room.weights, weights);
}

TEST_F(Route, Rules) {
  Room room(2, 8, 2);
  std::fill(room.weights.begin(), room.weights.end(), 3.0f);
  const auto with = [&](auto change) -> std::string {
    RouteCall call = room.call;
    change(call);
    try {
      route(call, pool);
    } catch (const SpecError& e) {
      EXPECT_EQ(room.weights, std::vector<float>(4, 3.0f));
      return e.what();
    }
    return "nothing was thrown";
  };
  std::vector<float> many(2050);
  EXPECT_EQ(with([&](auto& c) {
              c.logits = {many.data(), {2, 1025}};
            }),
            "route: logits are [2,1025], expected [tokens, experts] with 1 to 1024 experts");
  EXPECT_EQ(with([&](auto& c) {
              c.logits = {many.data(), {2, 0}};
            }),
            "route: logits are [2,0], expected [tokens, experts] with 1 to 1024 experts");
  EXPECT_EQ(with([&](auto& c) {
              c.ids = {room.ids.data(), {1, 2}};
            }),
            "route: ids is [1,2], expected [tokens=2, chosen]");
  EXPECT_EQ(with([&](auto& c) {
              c.weights = {room.weights.data(), {2, 1}};
            }),
            "route: weights is [2,1], expected [tokens=2, chosen=2]");
  EXPECT_EQ(with([](auto& c) { c.groups = 3; }), "route: 8 experts are no multiple of 3 groups");
  EXPECT_EQ(with([](auto& c) { c.groups = 0; }), "route: 8 experts are no multiple of 0 groups");
  EXPECT_EQ(with([](auto& c) { c.chosen_groups = 2; }), "route: chosen_groups is 2, expected 1 to 1");
  EXPECT_EQ(with([](auto& c) {
              c.groups = 8;
              c.chosen_groups = 4;
              c.group_score = GroupScore::two_largest;
            }),
            "route: groups hold 1 expert, two_largest needs 2");
  EXPECT_EQ(with([](auto& c) {
              c.groups = 8;
              c.chosen_groups = 1;
            }),
            "route: 2 experts are chosen, expected 1 to 1");
  EXPECT_EQ(with([&](auto& c) {
              c.correction = {many.data(), {7}};
            }),
            "route: correction is [7], expected [experts=8]");
  EXPECT_EQ(with([](auto& c) { c.scale = kNan; }), "route: scale is nan, expected a finite number");
  EXPECT_EQ(with([&](auto& c) {
              c.logits = {room.weights.data() - 2, {2, 8}};
            }),
            "route: ids or weights overlap what is read");
  EXPECT_EQ(with([&](auto& c) {
              c.weights = {reinterpret_cast<float*>(room.ids.data()), {2, 2}};
            }),
            "route: ids overlap weights");
}

}  // namespace
}  // namespace locant
