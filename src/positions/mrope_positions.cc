// SPDX-License-Identifier: Apache-2.0
// Three position ids per token, time, height and width (Wang et al. 2024, Qwen2-VL, arXiv:2409.12191,
// section 2.1). Text counts on all axes alike; an image or video that begins at p has p plus its place in the
// grid; text goes on behind it by one of two rules.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/checked.h"
#include "positions/checks.h"
#include "positions/grids.h"

namespace locant {
namespace {

constexpr std::string_view kWho = "mrope_positions";
enum Kind : std::int64_t { text, image, video };

/// Largest time position of a grid, so that sums over a row fit in 64 bits.
constexpr double kMaxTime = 2147483647;

/// Where temporal index t of a grid stands, counted from the grid's start.
std::int64_t time_position(const VisionGrid& grid, Kind kind, std::int64_t t, const MropeRules& rules) {
  if (kind == image) return t;
  double position = static_cast<double>(t);
  if (rules.steps == TimeSteps::scaled) {
    // The product is taken in f32, as torch does it: a step such as 2 * 0.1 s is no whole number of tokens.
    const auto interval = static_cast<float>(rules.tokens_per_second * grid.seconds);
    position = std::floor(static_cast<double>(static_cast<float>(t) * interval));
  } else if (rules.steps == TimeSteps::whole_seconds) {
    position = std::floor(position * rules.tokens_per_second * std::floor(grid.seconds));
  }
  if (!(position <= kMaxTime)) {
    throw SpecError(
        fmt::format("{}: a time position is at most {}, got {} at index {}", kWho, kMaxTime, position, t));
  }
  return static_cast<std::int64_t>(position);
}

/// The grids of one kind, taken one after the other; with steps `separate` a video is one grid per index.
class Grids {
 public:
  Grids(std::span<const VisionGrid> grids, bool one_by_one) : grids_(grids), one_by_one_(one_by_one) {}

  [[nodiscard]] bool more() const noexcept { return next_ < grids_.size(); }
  [[nodiscard]] VisionGrid take() {
    VisionGrid grid = grids_[next_];
    if (!one_by_one_) {
      ++next_;
      return grid;
    }
    if (++taken_ == grid.time) {
      taken_ = 0;
      ++next_;
    }
    grid.time = 1;
    return grid;
  }

 private:
  std::span<const VisionGrid> grids_;
  bool one_by_one_;
  std::size_t next_ = 0;
  std::int64_t taken_ = 0;
};

void require_grids(std::span<const VisionGrid> grids, const MropeRules& rules) {
  for (const VisionGrid& grid : grids) {
    (void)patches_of(kWho, grid, rules.merge);
    if (std::isfinite(grid.seconds) && grid.seconds >= 0) continue;
    throw SpecError(fmt::format("{}: seconds is a finite number of at least 0, got {}", kWho, grid.seconds));
  }
}

/// Tokens of one row that are no padding, in order.
struct Row {
  std::vector<std::int64_t> columns;
  std::vector<std::int64_t> kinds;
};

Row row_of(const MropeInput& input, std::int64_t b) {
  Row row;
  for (std::int64_t t = 0; t < input.kinds.extent(1); ++t) {
    if (input.mask.data_handle() != nullptr && input.mask(b, t) == 0) continue;
    row.columns.push_back(t);
    row.kinds.push_back(input.kinds(b, t));
  }
  return row;
}

void require_input(const MropeInput& input, const MropeRules& rules) {
  if (input.mask.data_handle() != nullptr) {
    if (input.mask.shape() != input.kinds.shape()) {
      throw SpecError(fmt::format("{}: the mask has the shape of the kinds [{},{}], got [{},{}]", kWho,
                                  input.kinds.extent(0), input.kinds.extent(1), input.mask.extent(0),
                                  input.mask.extent(1)));
    }
    require_mask(kWho, input.mask);
  }
  if (!std::isfinite(rules.tokens_per_second) || rules.tokens_per_second <= 0) {
    throw SpecError(fmt::format("{}: tokens_per_second is a finite number above 0, got {}", kWho,
                                rules.tokens_per_second));
  }
  for (std::int64_t b = 0; b < input.kinds.extent(0); ++b) {
    for (std::int64_t t = 0; t < input.kinds.extent(1); ++t) {
      if (input.kinds(b, t) >= text && input.kinds(b, t) <= video) continue;
      throw SpecError(
          fmt::format("{}: a kind is 0 (text), 1 (image) or 2 (video), got {} at row {} column {}", kWho,
                      input.kinds(b, t), b, t));
    }
  }
  require_grids(input.images, rules);
  require_grids(input.videos, rules);
}

/// Position ids of a batch as they grow.
class Walk {
 public:
  Walk(const MropeInput& input, const MropeRules& rules)
      : input_(input),
        rules_(rules),
        rows_(input.kinds.extent(0)),
        width_(input.kinds.extent(1)),
        images_(input.images, false),
        videos_(input.videos, rules.steps == TimeSteps::separate) {
    found_.ids.assign(static_cast<std::size_t>(3 * rows_ * width_), rules.pad_value);
  }

  MropePositions run() {
    for (std::int64_t b = 0; b < rows_; ++b) walk(b);
    for (const auto& [grids, word] : {std::pair{&images_, "images"}, std::pair{&videos_, "videos"}}) {
      if (!grids->more()) continue;
      throw SpecError(fmt::format("{}: every grid has tokens, got {} without", kWho, word));
    }
    return std::move(found_);
  }

 private:
  void put(std::int64_t b, std::int64_t column, const std::array<std::int64_t, 3>& position) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t at = (static_cast<std::int64_t>(axis) * rows_ + b) * width_ + column;
      found_.ids[static_cast<std::size_t>(at)] = position[axis];
      largest_ = std::max(largest_, position[axis]);
    }
  }

  void walk(std::int64_t b) {
    const Row row = row_of(input_, b);
    std::int64_t next = 0;
    largest_ = -1;
    for (std::size_t t = 0; t < row.kinds.size();) {
      if (row.kinds[t] == text) {
        put(b, row.columns[t], {next, next, next});
        ++next;
        ++t;
      } else {
        t = place(b, row, t, next);
      }
    }
    found_.deltas.push_back(largest_ + 1 - static_cast<std::int64_t>(row.kinds.size()));
  }

  /// Places the grid whose tokens begin at t; returns the token behind it and moves next.
  std::size_t place(std::int64_t b, const Row& row, std::size_t t, std::int64_t& next) {
    const auto kind = static_cast<Kind>(row.kinds[t]);
    Grids& grids = kind == image ? images_ : videos_;
    if (!grids.more()) {
      throw SpecError(fmt::format("{}: every run of {} tokens has a grid, got none at row {} column {}", kWho,
                                  kind == image ? "image" : "video", b, row.columns[t]));
    }
    const VisionGrid grid = grids.take();
    const std::int64_t height = grid.height / rules_.merge;
    const std::int64_t width = grid.width / rules_.merge;
    std::size_t tokens = 0;
    while (t + tokens < row.kinds.size() && row.kinds[t + tokens] == kind) ++tokens;
    if (static_cast<std::int64_t>(tokens) < grid.time * height * width) {
      throw SpecError(fmt::format("{}: a grid of {} x {} x {} has {} tokens, got {} at row {} column {}",
                                  kWho, grid.time, grid.height, grid.width, grid.time * height * width,
                                  tokens, b, row.columns[t]));
    }
    std::int64_t behind = next;
    for (std::int64_t frame = 0; frame < grid.time; ++frame) {
      const std::int64_t time = next + time_position(grid, kind, frame, rules_);
      behind = std::max(behind, time);
      for (std::int64_t i = 0; i < height * width; ++i) {
        put(b, row.columns[t++], {time, next + i / width, next + i % width});
      }
    }
    const std::int64_t side = std::max(height, width);
    next = rules_.after == AfterVision::longest_side ? next + side : std::max(behind + 1, next + side);
    return t;
  }

  const MropeInput& input_;
  const MropeRules& rules_;
  std::int64_t rows_;
  std::int64_t width_;
  Grids images_;
  Grids videos_;
  std::int64_t largest_ = -1;
  MropePositions found_;
};

}  // namespace

MropePositions mrope_positions(const MropeInput& input, const MropeRules& rules) {
  require_input(input, rules);
  return Walk(input, rules).run();
}

std::vector<std::int64_t> mrope_continued(std::int64_t seen, std::int64_t tokens, std::int64_t delta) {
  const std::optional<std::int64_t> start = checked_add(seen, delta);
  if (seen < 0 || !start) {
    throw SpecError(
        fmt::format("mrope_continued: seen is at least 0 and fits in 64 bits beside its delta, got {} and {}",
                    seen, delta));
  }
  require_run("mrope_continued", *start, tokens);
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(3 * tokens));
  for (int axis = 0; axis < 3; ++axis) {
    for (std::int64_t t = 0; t < tokens; ++t) ids.push_back(*start + t);
  }
  return ids;
}

void vision_kinds(View<const std::int64_t, 2> ids, std::int64_t image_id, std::int64_t video_id,
                  View<std::int64_t, 2> out) {
  if (ids.shape() != out.shape()) {
    throw SpecError(fmt::format("vision_kinds: out has the shape of the ids [{},{}], got [{},{}]",
                                ids.extent(0), ids.extent(1), out.extent(0), out.extent(1)));
  }
  if (image_id == video_id) {
    throw SpecError(
        fmt::format("vision_kinds: image and video have ids of their own, got {} for both", image_id));
  }
  for (std::int64_t b = 0; b < ids.extent(0); ++b) {
    for (std::int64_t t = 0; t < ids.extent(1); ++t) {
      out(b, t) = ids(b, t) == image_id ? image : ids(b, t) == video_id ? video : text;
    }
  }
}

}  // namespace locant
