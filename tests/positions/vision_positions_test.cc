// SPDX-License-Identifier: Apache-2.0
// Positions of images and videos: grids and three-axis ids against the live package, both rules of what
// follows, decoding, padding, refusals.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::integers;
using testing::ElementsAre;
using testing::IsEmpty;
using testing_text::sentence;
using Ids = std::vector<std::int64_t>;
using Grids = std::vector<VisionGrid>;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Ids joined(const golden::Json& lists) {
  Ids all;
  for (const auto& list : lists) {
    const Ids part = list.is_array() && !list.empty() && list[0].is_array() ? joined(list) : integers(list);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Grids grids_of(const golden::Json& shapes, const std::vector<double>& seconds = {}) {
  Grids grids;
  for (std::size_t g = 0; g < shapes.size(); ++g) {
    const Ids shape = integers(shapes[g]);
    // The package holds seconds as f32.
    const double one = seconds.empty() ? 1 : static_cast<double>(static_cast<float>(seconds[g]));
    grids.push_back({.time = shape[0], .height = shape[1], .width = shape[2], .seconds = one});
  }
  return grids;
}

/// One row without padding.
MropePositions of_row(Ids kinds, const Grids& images, const Grids& videos, const MropeRules& rules) {
  return mrope_positions(
      {.kinds = View<std::int64_t, 2>(kinds.data(), {1, static_cast<std::int64_t>(kinds.size())}),
       .mask = {},
       .images = images,
       .videos = videos},
      rules);
}

/// The ids of one axis of a single row.
Ids axis_of(const MropePositions& found, std::size_t axis) {
  const std::size_t width = found.ids.size() / 3;
  const auto first = found.ids.begin() + static_cast<std::ptrdiff_t>(axis * width);
  return {first, first + static_cast<std::ptrdiff_t>(width)};
}

Ids row_of(const std::vector<std::pair<std::int64_t, std::size_t>>& parts) {
  Ids kinds;
  for (const auto& [kind, tokens] : parts) kinds.insert(kinds.end(), tokens, kind);
  return kinds;
}

TEST(GridPositions, AreThoseOfTransformers) {
  for (const auto& one : cases("hf_grids")) {
    SCOPED_TRACE(one.at("grids").dump());
    const Grids grids = grids_of(one.at("grids"));
    EXPECT_EQ(grid_positions(grids, one.at("merge").get<std::int64_t>()), joined(one.at("positions")));
    EXPECT_EQ(grid_boundaries(grids), integers(one.at("boundaries")));
  }
}

TEST(GridPositions, VisitEveryPatchOnceAndBlocksTogether) {
  for (const std::int64_t merge : {1, 2, 3, 6}) {
    const Grids grids = {{.time = 2, .height = 12, .width = 18}};
    const Ids positions = grid_positions(grids, merge);
    const std::int64_t total = 2 * 12 * 18;
    std::vector<int> seen(static_cast<std::size_t>(total));
    for (std::int64_t n = 0; n < total; ++n) {
      const auto at = [&](std::int64_t axis) {
        return positions[static_cast<std::size_t>(axis * total + n)];
      };
      ++seen[static_cast<std::size_t>((at(0) * 12 + at(1)) * 18 + at(2))];
      const std::int64_t first = n - n % (merge * merge);
      EXPECT_EQ(at(1) / merge, positions[static_cast<std::size_t>(total + first)] / merge);
      EXPECT_EQ(at(2) / merge, positions[static_cast<std::size_t>(2 * total + first)] / merge);
    }
    EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(total), 1));
  }
  EXPECT_THAT(grid_positions({}, 2), IsEmpty());
  EXPECT_THAT(grid_boundaries({}), ElementsAre(0));
}

TEST(MropePositions, AreThoseOfTransformers) {
  for (const auto& one : cases("hf_mrope_ids")) {
    const auto family = one.at("family").get<std::string>();
    SCOPED_TRACE(family + one.at("images").dump() + one.at("videos").dump());
    const TimeSteps steps = family == "qwen2_vl"     ? TimeSteps::counted
                            : family == "qwen2_5_vl" ? TimeSteps::scaled
                                                     : TimeSteps::separate;
    const auto rows = static_cast<std::int64_t>(one.at("kinds").size());
    const auto width = static_cast<std::int64_t>(one.at("kinds")[0].size());
    Ids kinds = joined(one.at("kinds"));
    Ids mask = joined(one.at("mask"));
    const Grids images = grids_of(one.at("images"));
    const Grids videos = grids_of(one.at("videos"), golden::doubles(one.at("seconds")));
    const MropePositions found =
        mrope_positions({.kinds = View<std::int64_t, 2>(kinds.data(), {rows, width}),
                         .mask = View<std::int64_t, 2>(mask.data(), {rows, width}),
                         .images = images,
                         .videos = videos},
                        {.merge = one.at("merge").get<std::int64_t>(),
                         .steps = steps,
                         .tokens_per_second = one.at("tokens_per_second").get<double>()});
    EXPECT_EQ(found.ids, joined(one.at("ids")));
    EXPECT_EQ(found.deltas, integers(one.at("deltas")));
  }
}

TEST(MropePositions, TheTwoRulesPartAfterAVideoAndAgreeAfterAnImage) {
  const Ids image = row_of({{0, 5}, {1, 8}, {0, 2}});
  const Grids still = {{.height = 4, .width = 8}};
  const MropeRules side{};
  const MropeRules largest{.after = AfterVision::largest_position};
  EXPECT_EQ(of_row(image, still, {}, side).ids, of_row(image, still, {}, largest).ids);
  EXPECT_EQ(axis_of(of_row(image, still, {}, side), 0).back(), 5 + 4 + 1);

  const Ids clip = row_of({{0, 5}, {2, 40}, {0, 2}});
  const Grids video = {{.time = 10, .height = 4, .width = 4}};
  EXPECT_EQ(axis_of(of_row(clip, {}, video, side), 0).back(), 5 + 2 + 1);
  EXPECT_EQ(axis_of(of_row(clip, {}, video, largest), 0).back(), 5 + 10 + 1);
  EXPECT_EQ(of_row(clip, {}, video, largest).deltas, (Ids{17 - 47}));
}

TEST(MropePositions, TimeSteps) {
  const Ids clip = row_of({{2, 3}});
  const auto times = [&](double seconds, const MropeRules& rules) {
    return axis_of(of_row(clip, {}, {{.time = 3, .height = 2, .width = 2, .seconds = seconds}}, rules), 0);
  };
  EXPECT_THAT(times(9, {.steps = TimeSteps::counted, .tokens_per_second = 7}), ElementsAre(0, 1, 2));
  EXPECT_THAT(times(0.5, {.steps = TimeSteps::scaled, .tokens_per_second = 25}), ElementsAre(0, 12, 25));
  EXPECT_THAT(times(0.5, {.steps = TimeSteps::whole_seconds, .tokens_per_second = 25}), ElementsAre(0, 0, 0));
  EXPECT_THAT(times(2.9, {.steps = TimeSteps::whole_seconds, .tokens_per_second = 4}), ElementsAre(0, 8, 16));
  // Stills are not spaced out.
  const MropePositions still =
      of_row({1}, {{.height = 2, .width = 2, .seconds = 9}}, {}, {.steps = TimeSteps::scaled});
  EXPECT_THAT(still.ids, ElementsAre(0, 0, 0));
}

TEST(MropePositions, TextAloneIsTextPositionsOnEveryAxis) {
  const MropePositions found = of_row(Ids(2500, 0), {}, {}, {});
  for (std::size_t axis = 0; axis < 3; ++axis) EXPECT_EQ(axis_of(found, axis), text_positions(2500));
  EXPECT_THAT(found.deltas, ElementsAre(0));
}

TEST(MropePositions, DecodingGoesOnWhereTextWould) {
  const Grids images = {{.height = 4, .width = 8}, {.height = 20, .width = 4}};
  const Ids prompt = row_of({{0, 5}, {1, 8}, {0, 300}, {1, 20}, {0, 1}});
  Ids longer = prompt;
  longer.resize(prompt.size() + 40, 0);
  const MropePositions short_row = of_row(prompt, images, {}, {});
  const MropePositions long_row = of_row(longer, images, {}, {});
  EXPECT_EQ(short_row.deltas, long_row.deltas);
  const Ids decoded = mrope_continued(static_cast<std::int64_t>(prompt.size()), 40, short_row.deltas.front());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    Ids whole = axis_of(short_row, axis);
    const auto first = decoded.begin() + static_cast<std::ptrdiff_t>(axis * 40);
    whole.insert(whole.end(), first, first + 40);
    EXPECT_EQ(whole, axis_of(long_row, axis));
  }
}

TEST(MropePositions, PaddingIsInvisible) {
  const Grids images = {{.height = 4, .width = 8}, {.height = 4, .width = 4}};
  const Ids long_row = row_of({{0, 5}, {1, 8}, {0, 4}});
  const Ids short_row = row_of({{0, 2}, {1, 4}, {0, 1}});
  const MropePositions alone_long = of_row(long_row, {images[0]}, {}, {});
  const MropePositions alone_short = of_row(short_row, {images[1]}, {}, {});
  for (const std::size_t first : {std::size_t{0}, std::size_t{5}, std::size_t{10}}) {
    Ids kinds = long_row;
    kinds.resize(2 * 17, 0);
    Ids mask(17, 1);
    mask.resize(2 * 17, 0);
    for (std::size_t t = 0; t < 7; ++t) {
      kinds[17 + first + t] = short_row[t];
      mask[17 + first + t] = 1;
    }
    const MropePositions found = mrope_positions({.kinds = View<std::int64_t, 2>(kinds.data(), {2, 17}),
                                                  .mask = View<std::int64_t, 2>(mask.data(), {2, 17}),
                                                  .images = images,
                                                  .videos = {}},
                                                 {.pad_value = -7});
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const Ids expected_long = axis_of(alone_long, axis);
      const Ids expected_short = axis_of(alone_short, axis);
      for (std::size_t t = 0; t < 17; ++t) {
        EXPECT_EQ(found.ids[axis * 34 + t], expected_long[t]);
        const bool content = t >= first && t < first + 7;
        EXPECT_EQ(found.ids[axis * 34 + 17 + t], content ? expected_short[t - first] : -7);
      }
    }
    EXPECT_EQ(found.deltas, (Ids{alone_long.deltas[0], alone_short.deltas[0]}));
  }
}

TEST(MropePositions, NeighbouringImagesNeedNoTextBetween) {
  const Grids images = {{.height = 4, .width = 4}, {.height = 2, .width = 6}};
  const MropePositions found = of_row(row_of({{1, 7}, {0, 1}}), images, {}, {});
  EXPECT_THAT(axis_of(found, 0), ElementsAre(0, 0, 0, 0, 2, 2, 2, 5));
  EXPECT_THAT(axis_of(found, 1), ElementsAre(0, 0, 1, 1, 2, 2, 2, 5));
  EXPECT_THAT(axis_of(found, 2), ElementsAre(0, 1, 0, 1, 2, 3, 4, 5));
}

TEST(MropePositions, KindsComeFromIds) {
  Ids ids = {5, 151655, 151656, 7, 151655, 0};
  Ids kinds(6, -9);
  const View<std::int64_t, 2> in(ids.data(), {2, 3});
  vision_kinds(in, 151655, 151656, View<std::int64_t, 2>(kinds.data(), {2, 3}));
  EXPECT_THAT(kinds, ElementsAre(0, 1, 2, 0, 1, 0));
  EXPECT_EQ(sentence<SpecError>([&] {
              vision_kinds(in, 1, 2, View<std::int64_t, 2>(kinds.data(), {1, 6}));
            }),
            "vision_kinds: out has the shape of the ids [2,3], got [1,6]");
  EXPECT_EQ(sentence<SpecError>([&] {
              vision_kinds(in, 2, 2, View<std::int64_t, 2>(kinds.data(), {2, 3}));
            }),
            "vision_kinds: image and video have ids of their own, got 2 for both");
}

TEST(VisionPositions, Refuse) {
  const Grids square = {{.height = 4, .width = 4}};
  const auto refusal = [](const Ids& kinds, const Grids& images, const Grids& videos,
                          const MropeRules& rules) {
    return sentence<SpecError>([&] { (void)of_row(kinds, images, videos, rules); });
  };
  EXPECT_EQ(refusal({0, 3}, {}, {}, {}),
            "mrope_positions: a kind is 0 (text), 1 (image) or 2 (video), got 3 at row 0 column 1");
  EXPECT_EQ(refusal({0, 1}, {}, {}, {}),
            "mrope_positions: every run of image tokens has a grid, got none at row 0 column 1");
  EXPECT_EQ(refusal({0, 2}, {}, {}, {}),
            "mrope_positions: every run of video tokens has a grid, got none at row 0 column 1");
  EXPECT_EQ(refusal({0, 1, 1, 1, 0}, square, {}, {}),
            "mrope_positions: a grid of 1 x 4 x 4 has 4 tokens, got 3 at row 0 column 1");
  EXPECT_EQ(refusal({0}, square, {}, {}), "mrope_positions: every grid has tokens, got images without");
  EXPECT_EQ(refusal({0}, {}, square, {}), "mrope_positions: every grid has tokens, got videos without");
  EXPECT_EQ(
      refusal({0}, square, {}, {.merge = 3}),
      "mrope_positions: a grid is time x height x width, each at least 1, height and width multiples of 3, "
      "got 1 x 4 x 4");
  EXPECT_EQ(refusal({0}, square, {}, {.merge = 0}), "mrope_positions: merge must be at least 1, got 0");
  EXPECT_EQ(refusal({0}, {}, {}, {.tokens_per_second = 0}),
            "mrope_positions: tokens_per_second is a finite number above 0, got 0");
  EXPECT_EQ(refusal({2}, {}, {{.height = 2, .width = 2, .seconds = std::nan("")}}, {}),
            "mrope_positions: seconds is a finite number of at least 0, got nan");
  EXPECT_EQ(refusal({2, 2}, {}, {{.time = 2, .height = 2, .width = 2, .seconds = 1e300}},
                    {.steps = TimeSteps::whole_seconds}),
            "mrope_positions: a time position is at most 2147483647, got 1e+300 at index 1");
  Ids kinds = {0, 0};
  Ids mask = {1, 2};
  const View<std::int64_t, 2> row(kinds.data(), {1, 2});
  EXPECT_EQ(sentence<SpecError>([&] {
              (void)mrope_positions({row, View<std::int64_t, 2>(mask.data(), {1, 2}), {}, {}}, {});
            }),
            "mrope_positions: a mask holds 0 and 1, got 2 at row 0 column 1");
  EXPECT_EQ(sentence<SpecError>([&] {
              (void)mrope_positions({row, View<std::int64_t, 2>(mask.data(), {2, 1}), {}, {}}, {});
            }),
            "mrope_positions: the mask has the shape of the kinds [1,2], got [2,1]");
  EXPECT_EQ(sentence<SpecError>([] { (void)mrope_continued(-1, 1, 0); }),
            "mrope_continued: seen is at least 0 and fits in 64 bits beside its delta, got -1 and 0");
  EXPECT_EQ(
      sentence<SpecError>([] { (void)mrope_continued(kMax, 1, 1); }),
      "mrope_continued: seen is at least 0 and fits in 64 bits beside its delta, got 9223372036854775807 "
      "and 1");
  EXPECT_EQ(sentence<SpecError>([] { (void)mrope_continued(0, -1, 0); }),
            "mrope_continued: tokens must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([] {
              (void)grid_positions(Grids{{.time = 1 << 20, .height = 1 << 20, .width = 1 << 20}}, 1);
            }),
            "grid_positions: a grid has at most 2147483647 patches, got 1048576 x 1048576 x 1048576");
  EXPECT_EQ(
      sentence<SpecError>([] { (void)grid_boundaries(Grids{{.time = 0, .height = 1, .width = 1}}); }),
      "grid_boundaries: a grid is time x height x width, each at least 1, height and width multiples of 1, "
      "got 0 x 1 x 1");
}

}  // namespace
}  // namespace locant
