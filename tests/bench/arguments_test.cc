// SPDX-License-Identifier: Apache-2.0
// Flags of the benchmarks, and what of them a saved row must say.
#include "arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/temp_dir.h"
#include "locant/core.h"

namespace locant::bench {
namespace {

using testing::HasSubstr;
using tests::message_of;

TEST(Arguments, ARowSaysWhatItsNumbersDependOnAndTheRunWhatItLeftOut) {
  const Arguments all = parse({"--threads", "1,2", "--target", "AVX2", "--save", "results", "--resume"});
  EXPECT_EQ(row_flags(all), "");
  EXPECT_EQ(omissions(all), "");
  const Arguments some = parse({"--only", "4,5", "--peers", "torch,ggml", "--seconds", "0.1", "--quick"});
  EXPECT_EQ(row_flags(some), "--quick --seconds 0.1 --peers torch,ggml");
  EXPECT_EQ(omissions(some), "--quick --seconds 0.1 --peers torch,ggml --only 4,5");
}

TEST(Arguments, AQuickRunHasFewerSlicesAndSecondsThatAreGivenStay) {
  const Options usual = parse({}).options, quick = parse({"--quick"}).options;
  EXPECT_LT(quick.seconds, usual.seconds);
  EXPECT_LT(quick.slices, usual.slices);
  EXPECT_EQ(parse({"--quick", "--seconds", "0.5"}).options.seconds, 0.5);
}

TEST(Arguments, WhatIsNoFlagIsAnError) {
  const auto said = [](const std::vector<std::string>& args) {
    return message_of<SpecError>([&] { (void)parse(args); });
  };
  EXPECT_THAT(said({"--fast"}), HasSubstr("--fast is no flag"));
  EXPECT_THAT(said({"--save"}), HasSubstr("--save needs a value"));
  EXPECT_THAT(said({"--threads", "0"}), HasSubstr("whole numbers of one or more, got 0"));
  EXPECT_THAT(said({"--seconds", "none"}), HasSubstr("a number above 0, got none"));
  EXPECT_THAT(said({"--resume"}), HasSubstr("--resume needs --save"));
}

}  // namespace
}  // namespace locant::bench
