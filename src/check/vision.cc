// SPDX-License-Identifier: Apache-2.0
#include "check/vision.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "formats/json.h"

namespace locant::check_room {
namespace {

namespace fs = std::filesystem;

struct VisionKeys {
  std::int64_t image = -1;
  std::int64_t video = -1;
  std::int64_t merge = 1;
  double tokens_per_second = 0;
  bool separate_frames = false;
};

std::int64_t whole(const Json& object, std::string_view key, std::int64_t otherwise) {
  const Json* const found = find_member(object, key);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

/// Of the config that the spec was read from; ids are -1 where it names none.
VisionKeys vision_keys(const ModelSpec& spec) {
  VisionKeys keys;
  std::error_code error;
  if (spec.format != "hf" || !fs::is_regular_file(spec.path, error)) return keys;
  const Json config = read_json(spec.path);
  keys.image = whole(config, "image_token_id", -1);
  keys.video = whole(config, "video_token_id", -1);
  if (const Json* const vision = find_member(config, "vision_config"); vision != nullptr) {
    keys.merge = whole(*vision, "spatial_merge_size", 2);
    const Json* const rate = find_member(*vision, "tokens_per_second");
    if (rate != nullptr && rate->is_number()) keys.tokens_per_second = rate->get<double>();
  }
  keys.separate_frames = spec.family.starts_with("qwen3");
  return keys;
}

struct Run {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

std::vector<Run> runs_of(const Pass& pass, std::int64_t row, std::int64_t id) {
  std::vector<Run> runs;
  for (std::int64_t token = 0; token < pass.tokens; ++token) {
    if (pass.ids[pass.at(row, token)] != id) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == token) {
      ++runs.back().count;
    } else {
      runs.push_back({token, 1});
    }
  }
  return runs;
}

/// Rows and columns that the recorded positions of a run span; nothing when they do not fill it.
std::optional<VisionGrid> grid_of(const Pass& pass, std::int64_t row, const Run& run, std::int64_t merge) {
  if (pass.stated_axes < 3) return std::nullopt;
  std::array<std::int64_t, 2> extent{};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto axis = static_cast<std::int64_t>(side) + 1;
    const auto begin = pass.stated.begin() + (axis * pass.rows + row) * pass.tokens + run.first;
    const auto [least, most] = std::minmax_element(begin, begin + run.count);
    extent.at(side) = *most - *least + 1;
  }
  if (extent[0] * extent[1] != run.count) return std::nullopt;
  return VisionGrid{.time = 1, .height = extent[0] * merge, .width = extent[1] * merge};
}

std::optional<std::vector<VisionGrid>> recorded_grids(const Pass& pass, std::string_view name) {
  const TensorRef tensor = pass.find(name);
  if (tensor.data == nullptr || tensor.rank != 2 || tensor.shape[1] != 3) return std::nullopt;
  const std::vector<std::int64_t> numbers = integers_of(tensor, pass.path + ": " + std::string(name));
  std::vector<VisionGrid> grids;
  for (std::size_t at = 0; at + 2 < numbers.size(); at += 3)
    grids.push_back({.time = numbers[at], .height = numbers[at + 1], .width = numbers[at + 2]});
  return grids;
}

std::int64_t differing(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

void count_pass(Pass& pass, const VisionKeys& keys) {
  std::optional<std::vector<VisionGrid>> images = recorded_grids(pass, trace_names::kImageGrid);
  std::optional<std::vector<VisionGrid>> videos = recorded_grids(pass, trace_names::kVideoGrid);
  if (!images) {
    images.emplace();
    for (std::int64_t row = 0; row < pass.rows && images; ++row) {
      for (const Run& run : runs_of(pass, row, keys.image)) {
        const std::optional<VisionGrid> grid = grid_of(pass, row, run, keys.merge);
        if (!grid) {
          images.reset();
          break;
        }
        images->push_back(*grid);
      }
    }
  }
  const bool has_video = std::find(pass.ids.begin(), pass.ids.end(), keys.video) != pass.ids.end();
  pass.due.clear();  // not to be told, unless what follows tells it
  if (!images || (has_video && !videos)) return;
  std::vector<std::int64_t> kinds(pass.ids.size());
  std::vector<std::int64_t> mask(pass.ids.size());
  for (std::size_t at = 0; at < pass.ids.size(); ++at) {
    kinds[at] = pass.ids[at] == keys.image ? 1 : pass.ids[at] == keys.video ? 2 : 0;
    mask[at] = pass.content[at] ? 1 : 0;
  }
  const MropeInput input{
      .kinds = {kinds.data(), {pass.rows, pass.tokens}},
      .mask = {mask.data(), {pass.rows, pass.tokens}},
      .images = *images,
      .videos = videos ? std::span<const VisionGrid>(*videos) : std::span<const VisionGrid>()};
  MropeRules rules{.merge = keys.merge};
  if (keys.separate_frames) rules.steps = TimeSteps::separate;
  if (keys.tokens_per_second > 0) {
    rules.steps = TimeSteps::scaled;
    rules.tokens_per_second = keys.tokens_per_second;
  }
  // Two rules about the text behind a video are in use: the one that fits better is taken to be meant.
  std::int64_t fewest = INT64_MAX;
  for (const AfterVision after : {AfterVision::longest_side, AfterVision::largest_position}) {
    rules.after = after;
    try {
      const MropePositions positions = mrope_positions(input, rules);
      const std::int64_t count = pass.stated_axes == 3 ? differing(positions.ids, pass.stated) : 0;
      if (count >= fewest) continue;
      fewest = count;
      pass.axes = 3;
      pass.due = positions.ids;
    } catch (const SpecError&) {
      return;  // tokens and grids do not belong together: another rule's matter
    }
  }
}

/// The position that follows the largest of each row; nothing when they are not known.
std::optional<std::vector<std::int64_t>> behind(const Pass& pass) {
  if (pass.due.empty()) return std::nullopt;
  std::vector<std::int64_t> next(static_cast<std::size_t>(pass.rows), 0);
  for (std::int64_t axis = 0; axis < pass.axes; ++axis) {
    for (std::int64_t row = 0; row < pass.rows; ++row) {
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        if (!pass.content[pass.at(row, token)]) continue;
        std::int64_t& largest = next[static_cast<std::size_t>(row)];
        const auto at = static_cast<std::size_t>((axis * pass.rows + row) * pass.tokens + token);
        largest = std::max(largest, pass.due[at] + 1);
      }
    }
  }
  return next;
}

/// Text behind an image counts on from the largest position, the same on every axis.
void count_on(Pass& pass, std::vector<std::int64_t>& next) {
  pass.axes = 1;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      const std::size_t at = pass.at(row, token);
      if (pass.content[at]) pass.due[at] = next[static_cast<std::size_t>(row)]++;
    }
  }
}

}  // namespace

void count_vision(const Evidence& evidence, Trace& trace) {
  if (evidence.spec == nullptr || trace.passes.empty()) return;
  const VisionKeys keys = vision_keys(*evidence.spec);
  if (keys.image < 0 && keys.video < 0) return;
  bool seen = false;
  std::optional<std::vector<std::int64_t>> next;  // of each row, behind an image
  for (Pass& pass : trace.passes) {
    const auto is_vision = [&](std::int64_t id) { return id == keys.image || id == keys.video; };
    const bool has = std::any_of(pass.ids.begin(), pass.ids.end(), is_vision);
    if (has) {
      for (const std::int64_t id : pass.ids) pass.vision.push_back(is_vision(id));
    }
    if (has && pass.past == std::vector<std::int64_t>(static_cast<std::size_t>(pass.rows), 0)) {
      count_pass(pass, keys);
      next = behind(pass);
    } else if (seen && !has && next) {
      count_on(pass, *next);
    } else if (seen || has) {
      pass.due.clear();  // an image behind a cache counts from what this pass does not hold
      next.reset();
    }
    seen = seen || has;
  }
}

}  // namespace locant::check_room
