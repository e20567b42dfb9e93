// SPDX-License-Identifier: Apache-2.0
// Golden cases of tests/cases as PositionSpecs and vectors.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "locant/positions.h"

namespace locant::golden {

using Json = nlohmann::json;

/// tests/cases/<name>.json; a file without cases is a failure of the test that asks.
inline Json file(const std::string& name) {
  std::ifstream stream(std::string(LOCANT_SOURCE_DIR) + "/tests/cases/" + name + ".json");
  if (!stream) throw std::runtime_error("no golden file " + name);
  Json all = Json::parse(stream);
  if (all.at("cases").empty()) throw std::runtime_error("no cases in " + name);
  return all;
}
inline Json cases(const std::string& name) {
  return file(name).at("cases");
}

inline PositionSpec spec_of(std::string mechanism, const Json& parameters) {
  PositionSpec spec{std::move(mechanism), {}};
  for (const auto& [name, value] : parameters.items()) {
    if (value.is_string()) {
      spec.set(name, value.get<std::string>());
    } else if (value.is_number_integer()) {
      spec.set(name, value.get<std::int64_t>());
    } else if (value.is_array()) {
      spec.set(name, value.get<std::vector<double>>());
    } else {
      spec.set(name, value.get<double>());
    }
  }
  return spec;
}

inline std::vector<double> doubles(const Json& list) {
  return list.get<std::vector<double>>();
}
inline std::vector<std::int64_t> integers(const Json& list) {
  return list.get<std::vector<std::int64_t>>();
}

/// The plan of a spec under a recipe, as the site type asked for.
template <class Site>
Site planned(const PositionSpec& spec, std::string_view recipe = "exact", const Extent& extent = {}) {
  return std::get<Site>(find_mechanism(spec.mechanism).plan(spec, find_recipe(recipe), extent));
}

}  // namespace locant::golden
