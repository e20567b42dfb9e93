// SPDX-License-Identifier: Apache-2.0
// The registry, the promises every mechanism makes by being in it, and the names of closed sets.
#include <set>

#include <gtest/gtest.h>

#include "locant/positions.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing_text::sentence;

/// The parameters without which a mechanism cannot be planned.
PositionSpec least(const Mechanism& mechanism) {
  PositionSpec spec{std::string(mechanism.name), {}};
  for (const ParameterDescription& one : mechanism.parameters) {
    if (!one.default_text.empty()) continue;
    if (one.unit == "1 per pair") {
      spec.set(std::string(one.name), std::vector<double>(8, 2.0));
    } else {
      spec.set(std::string(one.name), std::int64_t{16});
    }
  }
  return spec;
}

TEST(Registry, NamesAndAliasesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const Mechanism& mechanism : mechanisms()) {
    EXPECT_TRUE(names.insert(mechanism.name).second) << mechanism.name;
    EXPECT_EQ(&find_mechanism(mechanism.name), &mechanism);
    for (const std::string_view alias : mechanism.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(&find_mechanism(alias), &mechanism);
    }
  }
  EXPECT_EQ(find_mechanism("rotary").name, "rope");
  EXPECT_EQ(find_mechanism("default").name, "rope");
}

TEST(Registry, EveryMechanismIsDescribed) {
  for (const Mechanism& mechanism : mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    EXPECT_FALSE(mechanism.summary.empty());
    EXPECT_FALSE(mechanism.formula.empty());
    EXPECT_NE(mechanism.paper.find("arXiv:"), std::string_view::npos);
    EXPECT_FALSE(mechanism.parameters.empty());
    std::set<std::string_view> names;
    for (const ParameterDescription& one : mechanism.parameters) {
      EXPECT_TRUE(names.insert(one.name).second) << one.name;
      EXPECT_FALSE(one.unit.empty()) << one.name;
      EXPECT_FALSE(one.meaning.empty()) << one.name;
    }
  }
}

TEST(Registry, PlansFillTheSiteTheyClaim) {
  const std::array<Site, 4> by_index = {Site::embedding, Site::rotation, Site::bias, Site::query_scale};
  for (const Mechanism& mechanism : mechanisms()) {
    const SitePlan site = mechanism.plan(least(mechanism), find_recipe("exact"), {});
    EXPECT_EQ(by_index.at(site.index()), mechanism.site) << mechanism.name;
  }
}

/// A described default as a value: that of another parameter, a number, or a word.
ParameterValue default_of(const Mechanism& mechanism, const PositionSpec& spec, std::string text) {
  if (const Parameter* named = spec.find(text)) return named->value;
  for (const ParameterDescription& one : mechanism.parameters) {
    if (one.name == text) return default_of(mechanism, spec, std::string(one.default_text));
  }
  std::size_t read = 0;
  try {
    const double number = std::stod(text, &read);
    if (read == text.size()) return number;
  } catch (const std::invalid_argument&) {
  }
  return text;
}

TEST(Registry, DescribedDefaultsAreTheDefaults) {
  for (const Mechanism& mechanism : mechanisms()) {
    const PositionSpec spec = least(mechanism);
    const SitePlan plain = mechanism.plan(spec, find_recipe("exact"), {});
    for (const ParameterDescription& one : mechanism.parameters) {
      const std::string text(one.default_text);
      if (text.empty() || text == "none") continue;
      PositionSpec stated = spec;
      stated.set(std::string(one.name), default_of(mechanism, spec, text));
      EXPECT_EQ(mechanism.plan(stated, find_recipe("exact"), {}), plain) << mechanism.name << " " << one.name;
    }
  }
}

TEST(Registry, RequiredParametersAreAskedFor) {
  for (const Mechanism& mechanism : mechanisms()) {
    for (const ParameterDescription& one : mechanism.parameters) {
      if (!one.default_text.empty()) continue;
      PositionSpec spec{std::string(mechanism.name), {}};
      for (const Parameter& parameter : least(mechanism).parameters) {
        if (parameter.name != one.name) spec.parameters.push_back(parameter);
      }
      const std::string text = sentence<SpecError>([&] { mechanism.plan(spec, find_recipe("exact"), {}); });
      EXPECT_NE(text.find(std::string(mechanism.name) + ": " + std::string(one.name) + " must be"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("got nothing"), std::string::npos) << text;
    }
  }
}

TEST(Registry, UnknownParametersAreRefusedByEveryMechanism) {
  for (const Mechanism& mechanism : mechanisms()) {
    PositionSpec spec = least(mechanism);
    spec.set("wheels", std::int64_t{4});
    const std::string text = sentence<SpecError>([&] { mechanism.plan(spec, find_recipe("exact"), {}); });
    EXPECT_EQ(text.find(std::string(mechanism.name) + ": parameters are "), 0U) << text;
    EXPECT_NE(text.find("got \"wheels\""), std::string::npos) << text;
  }
}

TEST(Registry, UnknownNamesComeWithTheNearest) {
  EXPECT_EQ(sentence<SpecError>([] { (void)find_mechanism("alibii"); }),
            "mechanism: no mechanism has this name, got \"alibii\", did you mean \"alibi\"");
  EXPECT_EQ(sentence<SpecError>([] { (void)find_mechanism("zzzzzzzz"); }),
            "mechanism: no mechanism has this name, got \"zzzzzzzz\"");
}

TEST(Recipes, AreFoundAndTellTheirEvidence) {
  EXPECT_EQ(recipes()[0].name, "exact");
  EXPECT_TRUE(find_recipe("exact").deviations.empty());
  EXPECT_EQ(find_recipe("exact").numerics.frequency, DType::f64);
  EXPECT_EQ(find_recipe("exact").numerics.angle, AngleNumerics::f64);
  const Recipe& hf = find_recipe("hf");
  EXPECT_EQ(hf.numerics.frequency, DType::f32);
  EXPECT_EQ(hf.numerics.angle, AngleNumerics::f32_product);
  EXPECT_EQ(hf.numerics.table, DType::f32);
  EXPECT_EQ(hf.numerics.run_dtype, DType::f32);
  std::set<std::string_view> names;
  for (const Recipe& recipe : recipes()) {
    EXPECT_TRUE(names.insert(recipe.name).second);
    EXPECT_FALSE(recipe.summary.empty());
    EXPECT_EQ(recipe.deviations.empty(), recipe.name == "exact");
    for (const Deviation& deviation : recipe.deviations) {
      EXPECT_FALSE(deviation.what.empty());
      EXPECT_FALSE(deviation.evidence.empty());
    }
  }
}

TEST(Recipes, UnknownNamesComeWithTheNearest) {
  EXPECT_EQ(sentence<SpecError>([] { (void)find_recipe("exactt"); }),
            "recipe: no recipe has this name, got \"exactt\", did you mean \"exact\"");
}

TEST(Names, OfClosedSets) {
  EXPECT_EQ(name_of(Site::embedding), "embedding");
  EXPECT_EQ(name_of(Site::rotation), "rotation");
  EXPECT_EQ(name_of(Site::bias), "bias");
  EXPECT_EQ(name_of(Site::query_scale), "query_scale");
  EXPECT_EQ(name_of(Pairing::half), "half");
  EXPECT_EQ(name_of(Pairing::interleaved), "interleaved");
  EXPECT_EQ(name_of(Columns::interleaved), "interleaved");
  EXPECT_EQ(name_of(Columns::halves), "halves");
  EXPECT_EQ(name_of(Stack::decoder), "decoder");
  EXPECT_EQ(name_of(Stack::encoder), "encoder");
  EXPECT_EQ(name_of(Stack::cross), "cross");
  EXPECT_EQ(name_of(Padding::none), "none");
  EXPECT_EQ(name_of(Padding::left), "left");
  EXPECT_EQ(name_of(Padding::right), "right");
}

TEST(PositionSpec, NumbersAreWholeOrFractions) {
  PositionSpec spec;
  spec.set("factor", 4.5);
  spec.set("heads", std::int64_t{12});
  spec.set("pairing", std::string("half"));
  spec.set("slopes", std::vector<double>{0.5});
  EXPECT_EQ(spec.number("factor"), 4.5);
  EXPECT_EQ(spec.number("heads"), 12.0);
  for (const char* const name : {"pairing", "slopes", "theta"})
    EXPECT_EQ(spec.number(name), std::nullopt) << name;
}

TEST(PositionSpec, SetReplacesOrAppends) {
  PositionSpec spec{"rope", {}};
  spec.set("theta", 1e4);
  spec.set("theta", 5e5, "rope_theta");
  ASSERT_EQ(spec.parameters.size(), 1U);
  EXPECT_EQ(std::get<double>(spec.find("theta")->value), 5e5);
  EXPECT_EQ(spec.find("theta")->key, "rope_theta");
  EXPECT_EQ(spec.find("head_dim"), nullptr);
}

}  // namespace
}  // namespace locant
