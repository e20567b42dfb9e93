// SPDX-License-Identifier: Apache-2.0
// Any bytes as a config.json, read for running and for looking: a spec with facts of each layer whose plan is
// made or refused, or one sentence.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/recipe.h"
#include "locant/spec.h"

namespace {

std::string folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "fuzz-config-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  return pattern;
}

void read(const std::string& path, locant::Reading reading) {
  try {
    const locant::ModelSpec spec = locant::read_hf_config(path, reading);
    const auto layers = static_cast<std::size_t>(spec.layers);
    if (spec.attention.size() != layers || spec.positions.layers.size() != layers) std::abort();
    for (const locant::Note& note : spec.notes) {
      if (note.text.empty()) std::abort();
    }
    (void)locant::plan(spec.positions, locant::find_recipe("hf"), {});
  } catch (const locant::FileError&) {
  } catch (const locant::SpecError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = folder() + "/config.json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  read(path, locant::Reading::strict);
  read(path, locant::Reading::facts);
  return 0;
}
