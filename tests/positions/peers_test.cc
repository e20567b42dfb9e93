// SPDX-License-Identifier: Apache-2.0
// Recipes against the runtimes themselves: heads that a runtime rotated, slopes and scores that were read off
// it, and what it refuses (tests/cases/peer_*.json, written by generate_peer_*.py from the live packages).
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/cos_sin.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::doubles;
using golden::integers;
using golden::Json;
using testing_text::sentence;

constexpr std::array<const char*, 4> kPeers = {"llama_cpp", "mlx", "onnxruntime", "ctranslate2"};

class Peers : public testing::TestWithParam<const char*> {};

/// One case with the recipe of its file.
struct Case {
  const Json& json;
  const Recipe& recipe;

  [[nodiscard]] std::string mechanism() const { return json.at("mechanism").get<std::string>(); }
  [[nodiscard]] PositionSpec spec() const {
    PositionSpec made = golden::spec_of(mechanism(), json.at("parameters"));
    if (json.contains("keys")) {
      for (const auto& [name, key] : json.at("keys").items()) {
        made.set(name, made.find(name)->value, key.get<std::string>());
      }
    }
    return made;
  }
  [[nodiscard]] bool plain() const {
    return mechanism() == "rope" && !json.at("parameters").contains("divisors");
  }
  [[nodiscard]] SitePlan plan() const {
    const Extent extent{.seen = json.value("seen", std::int64_t{0}),
                        .capacity = json.value("capacity", std::int64_t{0})};
    return find_mechanism(mechanism()).plan(spec(), recipe, extent);
  }
};

/// How far a value of pair i may be off, of the norm and the amplitude: what the cosine and the products
/// round, and what an angle of that size is off by in the arithmetic of the recipe.
double tolerance_of(const Case& one, const Rotation& rotation, std::size_t i, std::int64_t position) {
  const std::string mechanism = one.mechanism();
  double relative = budgets::kPeerAngle;
  if (one.recipe.numerics.angle == AngleNumerics::f32_running) {
    // The chain of plain rope is ggml's own, bit by bit.
    relative = one.plain() ? 0 : budgets::kPeerChainStep * (static_cast<double>(i) + 4);
  } else if (one.recipe.name == "mlx" &&
             (one.plain() || mechanism == "linear" || mechanism == "dynamic_ntk")) {
    relative = budgets::kPeerAngleExponential;
  }
  return budgets::kPeerValue + relative * std::abs(static_cast<double>(position)) * rotation.inv_freq[i];
}

/// The largest differences seen: of their tolerance, and of the norm and the amplitude.
struct Largest {
  double of_tolerance = 0;
  double difference = 0;
  double difference_to_4097 = 0;

  void see(double off, double tolerance, std::int64_t position) {
    of_tolerance = std::max(of_tolerance, off / tolerance);
    difference = std::max(difference, off);
    if (position <= 4097) difference_to_4097 = std::max(difference_to_4097, off);
  }
};

struct Turned {
  tables::CosSin table;
  std::vector<std::vector<std::int64_t>> places;  ///< [T][axes]
};

Turned turned(const Case& one, const Rotation& rotation) {
  Turned made;
  for (const Json& place : one.json.at("positions")) {
    made.places.push_back(place.is_array() ? integers(place) : std::vector<std::int64_t>{place});
  }
  const auto tokens = static_cast<std::int64_t>(made.places.size());
  const auto axes = static_cast<std::int64_t>(made.places.at(0).size());
  const auto pairs = static_cast<std::int64_t>(rotation.inv_freq.size());
  std::vector<std::int64_t> positions(static_cast<std::size_t>(axes * tokens));
  for (std::size_t t = 0; t < made.places.size(); ++t) {
    for (std::size_t a = 0; a < made.places[t].size(); ++a) {
      positions[a * made.places.size() + t] = made.places[t][a];
    }
  }
  const auto size = static_cast<std::size_t>(tokens * pairs);
  made.table = {pairs, std::vector<float>(size), std::vector<float>(size)};
  rotation_table(rotation, one.recipe.numerics, View<std::int64_t, 2>(positions.data(), {axes, tokens}),
                 View<float, 2>(made.table.cos.data(), {tokens, pairs}),
                 View<float, 2>(made.table.sin.data(), {tokens, pairs}));
  return made;
}

std::int64_t place_of(const Turned& made, const Rotation& rotation, std::size_t t, std::size_t i) {
  return made.places[t][rotation.axis.empty() ? 0 : static_cast<std::size_t>(rotation.axis[i])];
}

/// A head the runtime rotated; channels outside the rotation stay as they are, bit by bit.
void expect_rotated(const Case& one, const Rotation& rotation, Largest& largest) {
  const auto x = doubles(one.json.at("x"));
  const auto channels = integers(one.json.at("channels"));
  const Turned made = turned(one, rotation);
  for (std::size_t t = 0; t < made.places.size(); ++t) {
    std::vector<double> y = x;
    std::vector<double> tolerance(x.size(), 0);  // of the norm and the amplitude
    std::vector<double> norm(x.size(), 1);
    for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
      const auto pair = static_cast<std::int64_t>(i);
      const auto row = static_cast<std::int64_t>(t);
      const auto [a, b] = tables::channels(rotation, rotation.read, pair);
      const auto [to_a, to_b] = tables::channels(rotation, rotation.write, pair);
      y[to_a] = x[a] * made.table.c(row, pair) - x[b] * made.table.s(row, pair);
      y[to_b] = x[b] * made.table.c(row, pair) + x[a] * made.table.s(row, pair);
      tolerance[to_a] = tolerance[to_b] = tolerance_of(one, rotation, i, place_of(made, rotation, t, i));
      norm[to_a] = norm[to_b] = std::hypot(x[a], x[b]) * rotation.amplitude;
    }
    const auto expected = doubles(one.json.at("y")[t]);
    EXPECT_EQ(expected.size(), channels.size());
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const auto channel = static_cast<std::size_t>(channels[c]);
      const double off = std::abs(y[channel] - expected[c]) / norm[channel];
      EXPECT_LE(off, tolerance[channel]) << "channel " << channel << " at " << made.places[t][0];
      if (tolerance[channel] > 0) largest.see(off, tolerance[channel], made.places[t][0]);
    }
  }
}

/// Cosines, then sines of chosen pairs times the squared amplitude, read off the logits of a probe.
void expect_scores(const Case& one, const Rotation& rotation, Largest& largest) {
  const auto pairs = integers(one.json.at("pairs"));
  const Turned made = turned(one, rotation);
  const double amplitude = rotation.amplitude;
  for (std::size_t t = 0; t < made.places.size(); ++t) {
    const auto scores = doubles(one.json.at("scores")[t]);
    ASSERT_EQ(scores.size(), 2 * pairs.size());
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const auto i = static_cast<std::size_t>(pairs[k]);
      const auto row = static_cast<std::int64_t>(t);
      const double tolerance =
          budgets::kPeerScore + tolerance_of(one, rotation, i, place_of(made, rotation, t, i));
      const double cos = std::abs(made.table.c(row, pairs[k]) - scores[k] / amplitude) / amplitude;
      const double sin =
          std::abs(made.table.s(row, pairs[k]) - scores[k + pairs.size()] / amplitude) / amplitude;
      EXPECT_LE(cos, tolerance) << "cos of pair " << i << " at " << made.places[t][0];
      EXPECT_LE(sin, tolerance) << "sin of pair " << i << " at " << made.places[t][0];
      largest.see(std::max(cos, sin), tolerance, made.places[t][0]);
    }
  }
}

void expect_slopes(const Json& expected, const std::vector<double>& slopes) {
  ASSERT_EQ(expected.size(), slopes.size());
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    const double powers = static_cast<double>(h) + 4;
    EXPECT_NEAR(expected[h].get<double>(), slopes[h], budgets::kPeerSlopePower * powers * slopes[h])
        << "head " << h;
  }
}

/// Rows of a sinusoid for the tokens of a text.
void expect_rows(const Case& one, const PositionEmbedding& embedding, Largest& largest) {
  auto positions = integers(one.json.at("positions"));
  const auto columns = integers(one.json.at("columns"));
  const auto tokens = static_cast<std::int64_t>(positions.size());
  for (std::int64_t& position : positions) position += embedding.first_position;
  std::vector<float> out(static_cast<std::size_t>(tokens * embedding.width));
  const View<float, 2> rows(out.data(), {tokens, embedding.width});
  sinusoid_rows(embedding, one.recipe.numerics, View<std::int64_t, 1>(positions.data(), {tokens}), rows);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto row = static_cast<std::size_t>(t);
    const bool exact = embedding.arithmetic == Arithmetic::f64;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto pair = static_cast<std::size_t>(columns[c] % (embedding.width / 2));
      const double angle = exact ? 0 : static_cast<double>(positions[row]) * embedding.inv_freq[pair];
      const double tolerance = budgets::kPeerValue + budgets::kPeerAngle * angle;
      const double off = std::abs(rows(t, columns[c]) - one.json.at("values")[row][c].get<double>());
      EXPECT_LE(off, tolerance) << "column " << columns[c] << " at " << positions[row];
      largest.see(off, tolerance, positions[row]);
    }
  }
}

/// The plan as a value, or the sentence of its refusal.
std::pair<std::optional<SitePlan>, std::string> outcome(const Case& one) {
  std::optional<SitePlan> plan;
  const std::string said = sentence<SpecError>([&] { plan = one.plan(); });
  return {plan, said};
}

/// Rows that act outside plan(): tests/peers runs them.
const std::set<Quirk> kElsewhere = {Quirk::embedding_scale_unrounded, Quirk::head_scale_inverted_by_default,
                                    Quirk::head_unscaled_when_tied, Quirk::gelu_by_tanh,
                                    Quirk::expert_groups_by_pairs};

TEST_P(Peers, DoWhatTheirRecipeSays) {
  const Json file = golden::file(std::string("peer_") + GetParam());
  const Recipe& recipe = find_recipe(file.at("recipe").get<std::string>());
  Largest plain;
  Largest scheduled;
  Largest probes;
  for (const Json& json : file.at("cases")) {
    const Case one{json, recipe};
    SCOPED_TRACE(json.at("what").get<std::string>());
    if (json.contains("refused")) {
      EXPECT_NE(sentence<SpecError>([&] { (void)one.plan(); }).find("has no "), std::string::npos);
      continue;
    }
    const SitePlan plan = one.plan();
    if (json.contains("slopes")) {
      expect_slopes(json.at("slopes"), std::get<Bias>(plan).slopes);
    } else if (json.contains("values")) {
      expect_rows(one, std::get<PositionEmbedding>(plan), probes);
    } else if (json.contains("scores")) {
      expect_scores(one, std::get<Rotation>(plan), probes);
    } else {
      expect_rotated(one, std::get<Rotation>(plan), one.plain() ? plain : scheduled);
    }
  }
  EXPECT_GT(std::max({plain.difference, scheduled.difference, probes.difference}), 0);
  for (const auto& [name, largest] :
       {std::pair{"plain", plain}, std::pair{"scheduled", scheduled}, std::pair{"probed", probes}}) {
    RecordProperty(std::string(name) + "_of_tolerance", fmt::format("{:.2g}", largest.of_tolerance));
    RecordProperty(std::string(name) + "_largest", fmt::format("{:.2g}", largest.difference));
    RecordProperty(std::string(name) + "_largest_to_4097", fmt::format("{:.2g}", largest.difference_to_4097));
  }
}

/// A row is called tested live where a case of the peer would be planned otherwise without it.
TEST_P(Peers, HaveACaseForEveryRowThatIsCalledTestedLive) {
  const Json file = golden::file(std::string("peer_") + GetParam());
  const Recipe& recipe = find_recipe(file.at("recipe").get<std::string>());
  std::size_t live = 0;
  for (const Deviation& row : recipe.deviations) {
    if (!row.tested_live || row.quirk == Quirk::none || kElsewhere.contains(row.quirk)) continue;
    ++live;
    std::vector<Deviation> others;
    for (const Deviation& other : recipe.deviations) {
      if (other.quirk != row.quirk) others.push_back(other);
    }
    Recipe without = recipe;
    without.deviations = others;
    const auto& cases = file.at("cases");
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const Json& json) {
      return outcome(Case{json, recipe}) != outcome(Case{json, without});
    })) << row.what;
  }
  EXPECT_GT(live, 3U);
}

INSTANTIATE_TEST_SUITE_P(, Peers, testing::ValuesIn(kPeers),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace locant
