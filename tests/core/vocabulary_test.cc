// SPDX-License-Identifier: Apache-2.0
// Views, tensor references, errors, the version, words, checked arithmetic and near names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/nearest.h"
#include "core/quote.h"
#include "core/temp_dir.h"
#include "locant/core.h"

namespace locant {
namespace {

using tests::message_of;

TEST(View, RowMajorStridesAndElements) {
  std::array<int, 24> data{};
  for (int i = 0; i < 24; ++i) data[static_cast<std::size_t>(i)] = i;
  const View<int, 3> view(data.data(), {2, 3, 4});
  EXPECT_EQ(view.strides(), (std::array<std::int64_t, 3>{12, 4, 1}));
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view.size(), 24);
  const View<const int, 3> constant = view;
  EXPECT_EQ(&constant(1, 0, 0), &data[12]);
  const View<int, 3> part = view.rows(1, 1);
  EXPECT_EQ(part.extent(0), 1);
  EXPECT_EQ(part(0, 1, 2), 18);
}

TEST(View, AnyStrides) {
  std::array<int, 6> data{0, 1, 2, 3, 4, 5};
  const View<int, 2> transposed(data.data(), {3, 2}, {1, 3});
  EXPECT_EQ(transposed(2, 1), 5);
  const View<int, 1> reversed(data.data() + 5, {6}, {-1});
  EXPECT_EQ(reversed(0), 5);
  EXPECT_EQ(reversed(5), 0);
  const View<int, 2> repeated(data.data() + 3, {7, 1}, {0, 1});
  EXPECT_EQ(repeated(6, 0), 3);
  EXPECT_TRUE((View<int, 2>(data.data(), {0, 5}).empty()));
}

TEST(TensorRef, FromShapeAndFromView) {
  const std::array<float, 6> data{};
  const TensorRef tensor(data.data(), DType::f32, {2, 3});
  EXPECT_EQ(tensor.size(), 6);
  EXPECT_EQ(tensor.shape_text(), "[2,3]");
  EXPECT_TRUE(tensor.is_contiguous());
  const TensorRef transposed(View<const float, 2>(data.data(), {3, 2}, {1, 3}));
  EXPECT_EQ(transposed.dtype, DType::f32);
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_EQ(TensorRef(data.data(), DType::f32, {}).shape_text(), "[]");
  EXPECT_EQ(TensorRef(data.data(), DType::f32, {}).size(), 1);
}

TEST(TensorRef, ContiguityIgnoresStridesThatNothingTakes) {
  const std::array<float, 6> data{};
  EXPECT_TRUE(TensorRef(View<const float, 3>(data.data(), {1, 2, 3}, {77, 3, 1})).is_contiguous());
  EXPECT_TRUE(TensorRef(View<const float, 2>(data.data(), {0, 3}, {9, 9})).is_contiguous());
  EXPECT_FALSE(TensorRef(View<const float, 2>(data.data(), {2, 2}, {3, 1})).is_contiguous());
  EXPECT_FALSE(TensorRef(View<const float, 1>(data.data(), {2}, {0})).is_contiguous());
}

TEST(TensorRef, MoreAxesThanSixAreRefused) {
  EXPECT_EQ(message_of<SpecError>([] {
              TensorRef(nullptr, DType::f32, {1, 1, 1, 1, 1, 1, 1});
            }),
            "tensor: at most 6 axes, got 7");
  EXPECT_EQ(TensorRef(nullptr, DType::f32, {1, 2, 3, 4, 5, 6}).size(), 720);
}

TEST(Errors, FileErrorIsOneSentence) {
  const FileError plain("a/b.npy", "is no array");
  EXPECT_STREQ(plain.what(), "a/b.npy: is no array");
  EXPECT_EQ(plain.offset, FileError::kNoOffset);
  EXPECT_EQ(plain.path, "a/b.npy");
  const FileError placed("a/b.npy", "ends early", 0);
  EXPECT_STREQ(placed.what(), "a/b.npy: ends early, at byte 0");
  EXPECT_EQ(FileError("x", "y", 1LL << 40).offset, 1LL << 40);
  EXPECT_EQ(message_of<std::invalid_argument>([] { throw SpecError("a: b"); }), "a: b");
}

TEST(Version, IsThreeNumbers) {
  EXPECT_THAT(std::string(version()), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(Words, Names) {
  EXPECT_EQ(name_of(NormKind::rms), "rms");
  EXPECT_EQ(name_of(NormKind::layer), "layer");
  EXPECT_EQ(name_of(Activation::silu), "silu");
  EXPECT_EQ(name_of(Activation::gelu_erf), "gelu_erf");
  EXPECT_EQ(name_of(Activation::gelu_tanh), "gelu_tanh");
  EXPECT_EQ(name_of(Activation::relu), "relu");
}

TEST(Checked, OverflowIsNothing) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(kMin, -1), std::nullopt);
  EXPECT_EQ(checked_mul(1LL << 31, 1LL << 31), 1LL << 62);
  EXPECT_EQ(checked_mul(1LL << 32, 1LL << 31), std::nullopt);
  EXPECT_EQ(checked_mul(kMin, -1), std::nullopt);
  const std::vector<std::int64_t> fits{3, 0, 5};
  EXPECT_EQ(checked_product(fits), 0);
  EXPECT_EQ(checked_product({}), 1);
  const std::vector<std::int64_t> hidden{0, 1LL << 40, 1LL << 40};
  EXPECT_EQ(checked_product(hidden), std::nullopt);
}

TEST(Nearest, FindsTypingErrors) {
  const std::vector<std::string_view> names{"rotary", "alibi", "learned", "sinusoidal", "t5", "yarn"};
  EXPECT_EQ(nearest_name("rotery", names), "rotary");
  EXPECT_EQ(nearest_name("alibbi", names), "alibi");
  EXPECT_EQ(nearest_name("ALIBI", names), "alibi");
  EXPECT_EQ(nearest_name("laerned", names), "learned");
  EXPECT_EQ(nearest_name("sinusodal", names), "sinusoidal");
  EXPECT_EQ(nearest_name("yran", names), "yarn");
  const std::vector<std::string> strings{"run", "check"};
  EXPECT_EQ(nearest_name("chekc", strings), "check");
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("theta", "theta"), 0U);
  EXPECT_EQ(edit_distance("thet", "theta"), 1U);
  EXPECT_EQ(edit_distance("tehta", "theta"), 1U);  // neighbours swapped
  EXPECT_EQ(edit_distance("v_head_dim", "qk_head_dim"), 2U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  const std::vector<std::string_view> names{"rotary", "alibi", "x"};
  EXPECT_EQ(nearest_name("embedding", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("y", names), "");  // every letter replaced is no likeness
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), names), "");
  EXPECT_EQ(nearest_name("rotary", std::vector<std::string_view>{}), "");
}

TEST(Quote, KeepsNamesHarmless) {
  EXPECT_EQ(quote("a.b"), "\"a.b\"");
  EXPECT_EQ(quote("a\n\"\\\x1b"), "\"a\\x0a\\x22\\x5c\\x1b\"");
  EXPECT_EQ(quote("\xff"), "\"\\xff\"");
  EXPECT_EQ(quote(std::string(1000, 'x')).size(), 85U);
}

}  // namespace
}  // namespace locant
