// SPDX-License-Identifier: Apache-2.0
// What the system tells of its memory, and what is refused.
#include "cli/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/temp_dir.h"
#include "formats/gguf_writer.h"
#include "locant/formats.h"

namespace locant::cli {
namespace {

using testing::HasSubstr;
using tests::TempDir;

class Available : public testing::Test {
 protected:
  MemorySources sources() { return {dir_.file("meminfo"), dir_.file("cgroup"), dir_.path()}; }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_.file(name)).parent_path());
    dir_.write(name, text);
  }

 private:
  TempDir dir_;
};

TEST_F(Available, NothingIsTold) {
  EXPECT_EQ(available_memory(sources()), std::nullopt);
}

TEST_F(Available, OfTheMachine) {
  put("meminfo", "MemTotal:       100 kB\nMemAvailable:    64 kB\n");
  EXPECT_EQ(available_memory(sources()), 65536);
}

TEST_F(Available, TheTightestGroupCounts) {
  put("meminfo", "MemAvailable:    64 kB\n");
  put("cgroup", "0::/a/b\n");
  put("a/b/memory.max", "max\n");
  put("a/b/memory.current", "5000\n");
  put("a/memory.max", "50000\n");
  put("a/memory.current", "30000\n");
  put("a/memory.stat", "anon 5\ninactive_file 10000\n");
  EXPECT_EQ(available_memory(sources()), 30000);
  put("a/b/memory.max", "6000\n");
  EXPECT_EQ(available_memory(sources()), 1000);
  put("a/b/memory.current", "7000\n");
  EXPECT_EQ(available_memory(sources()), 0);
}

TEST_F(Available, TheFirstVersionOfGroups) {
  put("cgroup", "5:cpu:/x\n4:memory:/y\n");
  put("memory/y/memory.limit_in_bytes", "9000\n");
  put("memory/y/memory.usage_in_bytes", "4000\n");
  put("memory/y/memory.stat", "total_inactive_file 500\n");
  EXPECT_EQ(available_memory(sources()), 5500);
}

TEST(RequireMemory, CacheAndBuffersMustFit) {
  const MemoryNeed need{.weights = 1'200'000'000, .cache = 340'000'000, .tokens = 8192, .workspace = 10};
  EXPECT_NO_THROW(require_memory(need, 340'000'010));
  EXPECT_NO_THROW(require_memory(need, std::nullopt));
  try {
    require_memory(need, 340'000'009);
    FAIL();
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("needs 1.2 GB for weights, 340.0 MB for 8192 tokens of cache, 10 bytes "
                          "beside them; 340.0 MB free"));
  }
  MemoryNeed huge = need;
  huge.cache = INT64_MAX;
  EXPECT_THROW(require_memory(huge, INT64_MAX), SpecError);
}

TEST(RequireMemory, CopiesOfWeightsMustFit) {
  EXPECT_NO_THROW(require_copies(5, 5));
  EXPECT_THROW(require_copies(6, 5), SpecError);
  const std::string model = LOCANT_SOURCE_DIR "/models/rope";
  EXPECT_EQ(copied_weights(model, WeightStorage::as_stored), 0);
  EXPECT_GT(copied_weights(model, WeightStorage::f16), 1'000'000);
}

TEST(BytesText, HasAUnit) {
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(2'500'000), "2.5 MB");
  EXPECT_EQ(bytes_text(3'000'000'000), "3.0 GB");
}

// Only what is kept in another form than it lies in the file.
TEST(Copies, OfAGgufFile) {
  tests::GgufModel model;
  model.zeros("a", {3, 32}).zeros("b", {2, 32}, GgmlType::f16).zeros("c", {5, 32}, GgmlType::q8_0);
  const TempDir dir;
  const std::string path = dir.write("model.gguf", model.bytes());
  EXPECT_EQ(copied_weights(path, WeightStorage::as_stored), 0);
  EXPECT_EQ(copied_weights(path, WeightStorage::f32), (2 + 5) * 32 * 4);
  EXPECT_EQ(copied_weights(path, WeightStorage::f16), (3 + 5) * 32 * 2);
  EXPECT_EQ(copied_weights(path, WeightStorage::bf16), (3 + 2 + 5) * 32 * 2);
}

TEST(Copies, OfACheckpoint) {
  const TempDir dir;
  const std::vector<float> floats(12);
  const std::vector<Half> halves(20);
  SafetensorsWriter writer(dir.file("model.safetensors"));
  writer.add("a", TensorRef(floats.data(), DType::f32, {3, 4}));
  writer.add("b", TensorRef(halves.data(), DType::f16, {20}));
  writer.finish();
  EXPECT_EQ(copied_weights(dir.path(), WeightStorage::f32), 20 * 4);
  EXPECT_EQ(copied_weights(dir.path(), WeightStorage::f16), 12 * 2);
  EXPECT_EQ(copied_weights(dir.file("absent"), WeightStorage::f16), 0);
}

}  // namespace
}  // namespace locant::cli
