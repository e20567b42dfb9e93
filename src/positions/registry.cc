// SPDX-License-Identifier: Apache-2.0
// The mechanisms there are, in the order of `locant list mechanisms`.
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/nearest.h"
#include "locant/positions.h"

namespace locant {

// One function per mechanism file.
Mechanism rope();
Mechanism linear();
Mechanism ntk();
Mechanism dynamic_ntk();
Mechanism yarn();
Mechanism longrope();
Mechanism llama3();
Mechanism proportional();
Mechanism by_parts();
Mechanism attention_temperature();
Mechanism logn();
Mechanism alibi();
Mechanism t5_buckets();
Mechanism deberta();
Mechanism xlnet();
Mechanism sinusoidal();
Mechanism learned();
Mechanism token_types();

std::span<const Mechanism> mechanisms() noexcept {
  // clang-format off
  static const std::array kMechanisms = {
      rope(),
      linear(),
      ntk(),
      dynamic_ntk(),
      yarn(),
      longrope(),
      llama3(),
      proportional(),
      by_parts(),
      attention_temperature(),
      logn(),
      alibi(),
      t5_buckets(),
      deberta(),
      xlnet(),
      sinusoidal(),
      learned(),
      token_types(),
  };
  // clang-format on
  return kMechanisms;
}

const Mechanism& find_mechanism(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.name == name) return mechanism;
    names.push_back(mechanism.name);
    for (const std::string_view alias : mechanism.aliases) {
      if (alias == name) return mechanism;
      names.push_back(alias);
    }
  }
  const std::string near = nearest_name(name, names);
  throw SpecError(fmt::format("mechanism: no mechanism has this name, got \"{}\"{}", name,
                              near.empty() ? std::string() : fmt::format(", did you mean \"{}\"", near)));
}

}  // namespace locant
