// SPDX-License-Identifier: Apache-2.0
// The block types and their values, bit for bit as the gguf package has them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_files.h"
#include "locant/formats.h"

namespace locant {
namespace {

using tests::from_hex;
using tests::gguf_golden;
using tests::message_of;

TEST(GgmlTypes, AreThoseOfThePackage) {
  const Json golden = gguf_golden();
  std::set<std::uint32_t> known;
  for (const Json& facts : golden.at("types")) {
    const auto number = facts.at("number").get<std::uint32_t>();
    const auto type = ggml_type_of(number);
    ASSERT_TRUE(type.has_value()) << number;
    EXPECT_EQ(name_of(*type), facts.at("name").get<std::string>());
    EXPECT_EQ(block_elements(*type), facts.at("elements").get<std::int64_t>());
    EXPECT_EQ(block_bytes(*type), facts.at("bytes").get<std::int64_t>());
    if (const auto dtype = dtype_of(*type)) {
      EXPECT_EQ(static_cast<std::int64_t>(size_of(*dtype)), block_bytes(*type));
    }
    EXPECT_EQ(dtype_of(*type).has_value(), block_elements(*type) == 1) << name_of(*type);
    known.insert(number);
  }
  EXPECT_GE(known.size(), 34U);
  for (std::uint32_t number = 0; number < 300; ++number) {
    EXPECT_EQ(ggml_type_of(number).has_value(), known.count(number) == 1) << number;
  }
}

TEST(Dequantize, EqualsThePackageBitForBit) {
  std::set<std::string> covered;
  const Json golden = gguf_golden();
  for (const Json& sample : golden.at("values")) {
    const auto name = sample.at("type").get<std::string>();
    const std::string blocks = from_hex(sample.at("blocks"));
    const std::string wanted = from_hex(sample.at("floats"));
    const auto count = static_cast<std::int64_t>(wanted.size() / sizeof(float));
    for (const Json& facts : golden.at("types")) {
      if (facts.at("name") != name) continue;
      const GgmlType type = ggml_type_of(facts.at("number").get<std::uint32_t>()).value();
      ASSERT_EQ(static_cast<std::int64_t>(blocks.size()), count / block_elements(type) * block_bytes(type));
      std::vector<float> out(static_cast<std::size_t>(count), std::nanf(""));
      dequantize(type, blocks.data(), count, out.data());
      EXPECT_EQ(std::memcmp(out.data(), wanted.data(), wanted.size()), 0) << name;

      const std::string shifted = "x" + blocks;  // no block is aligned
      std::vector<float> again(out.size(), std::nanf(""));
      dequantize(type, shifted.data() + 1, count, again.data());
      EXPECT_EQ(std::memcmp(again.data(), wanted.data(), wanted.size()), 0) << name;
      covered.insert(name);
    }
  }
  for (const Json& facts : golden.at("types")) {
    const auto name = facts.at("name").get<std::string>();
    const GgmlType type = ggml_type_of(facts.at("number").get<std::uint32_t>()).value();
    EXPECT_EQ(can_dequantize(type), covered.count(name) == 1) << name;
  }
  EXPECT_EQ(covered.size(), 16U);
}

// The same bytes as in generate_gguf.py.
std::vector<std::uint8_t> any_bytes(std::size_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t n = 1; bytes.size() < count; ++n) {
    std::uint64_t z = n * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z ^= z >> 31U;
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(z >> (8 * i)));
  }
  bytes.resize(count);
  return bytes;
}

TEST(Dequantize, EqualsThePackageOnAnyBytes) {
  const Json golden = gguf_golden();
  int types = 0;
  for (const Json& sample : golden.at("digests")) {
    const auto name = sample.at("type").get<std::string>();
    const auto count = sample.at("elements").get<std::int64_t>();
    for (const Json& facts : golden.at("types")) {
      if (facts.at("name") != name) continue;
      const GgmlType type = ggml_type_of(facts.at("number").get<std::uint32_t>()).value();
      const auto blocks =
          any_bytes(static_cast<std::size_t>(count / block_elements(type) * block_bytes(type)));
      std::vector<float> out(static_cast<std::size_t>(count));
      dequantize(type, blocks.data(), count, out.data());
      std::uint64_t digest = 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto word = std::isnan(out[i]) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(out[i]);
        digest += word * (2 * i + 1);
      }
      EXPECT_EQ(fmt::format("{:016x}", digest), sample.at("digest").get<std::string>()) << name;
      ++types;
    }
  }
  EXPECT_EQ(types, 13);
}

TEST(Dequantize, RefusesBeforeWriting) {
  std::vector<float> out(64, 7.F);
  const std::string blocks(1024, '\1');
  const auto cause = [&](GgmlType type, std::int64_t count) {
    return message_of<SpecError>([&] { dequantize(type, blocks.data(), count, out.data()); });
  };
  const std::string known =
      "dequantize: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4 are "
      "known, got ";
  EXPECT_EQ(cause(GgmlType::q8_k, 256), known + "Q8_K");
  EXPECT_EQ(cause(GgmlType::i8, 1), known + "I8");
  EXPECT_EQ(cause(GgmlType::q6_k, 32), "dequantize: Q6_K stands in blocks of 256 elements, got 32 elements");
  EXPECT_EQ(cause(GgmlType::q8_0, 33), "dequantize: Q8_0 stands in blocks of 32 elements, got 33 elements");
  EXPECT_EQ(cause(GgmlType::f16, -1), "dequantize: F16 stands in blocks of 1 elements, got -1 elements");
  EXPECT_EQ(cause(GgmlType::q4_0, 0), "");
  EXPECT_EQ(out, std::vector<float>(64, 7.F));
  EXPECT_TRUE(can_dequantize(GgmlType::q4_1));
  EXPECT_FALSE(can_dequantize(GgmlType::q8_1));
}

}  // namespace
}  // namespace locant
