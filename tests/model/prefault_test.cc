// SPDX-License-Identifier: Apache-2.0
// What a model uses of its mapped weights is resident in this process when load() returns.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "locant/model.h"

namespace locant {
namespace {

constexpr std::int64_t kKilobyte = 1024;

// Bytes of the mappings of `file` that are resident, from /proc/self/smaps.
std::int64_t resident(const std::string& file) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  std::int64_t bytes = 0;
  while (std::getline(smaps, line)) {
    const bool head = line.find('-') < line.find(' ') && line.find(':') > line.find(' ');
    if (head) inside = line.ends_with(file);
    if (!inside || !line.starts_with("Rss:")) continue;
    std::istringstream words(line.substr(4));
    std::int64_t kilobytes = 0;
    words >> kilobytes;
    bytes += kilobytes * kKilobyte;
  }
  return bytes;
}

TEST(Prefault, WeightsAreResidentAfterLoad) {
  const std::string directory = std::string(LOCANT_SOURCE_DIR) + "/models/rope";
  ThreadPool pool(1);
  EXPECT_EQ(resident("rope/model.safetensors"), 0);
  const auto model = Model::load(directory, {}, pool);
  constexpr std::int64_t kBytesOfBf16 = 2;
  EXPECT_GE(resident("rope/model.safetensors"), model->parameters() * kBytesOfBf16);
}

}  // namespace
}  // namespace locant
