// SPDX-License-Identifier: Apache-2.0
// LOCANT_TARGET=AVX2 test_model: every test runs on that instruction set, as far as it does not choose one
// itself.
#include <gtest/gtest.h>

#include <cstdlib>

#include "locant/ops.h"

namespace locant {
namespace {

class ForcedTarget final : public ::testing::EmptyTestEventListener {
 public:
  explicit ForcedTarget(const char* name) : name_(name) {}
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { use_cpu_target(name_); }

 private:
  const char* name_;
};

// Before main(), which leaves registration to whoever wants it.
[[maybe_unused]] const bool kListening = [] {
  const char* name = std::getenv("LOCANT_TARGET");
  if (name == nullptr || *name == '\0') return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new ForcedTarget(name));
  return true;
}();

}  // namespace
}  // namespace locant
