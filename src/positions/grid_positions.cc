// SPDX-License-Identifier: Apache-2.0
// Positions of the patches of images and videos in an encoder: time, row and column in merge-block order, and
// the boundaries of frames.
#include <array>
#include <limits>

#include <fmt/format.h>

#include "core/checked.h"
#include "positions/grids.h"

namespace locant {

std::int64_t patches_of(std::string_view who, const VisionGrid& grid, std::int64_t merge) {
  if (merge < 1) throw SpecError(fmt::format("{}: merge must be at least 1, got {}", who, merge));
  if (grid.time < 1 || grid.height < 1 || grid.width < 1 || grid.height % merge != 0 ||
      grid.width % merge != 0) {
    throw SpecError(fmt::format(
        "{}: a grid is time x height x width, each at least 1, height and width multiples of {}, got "
        "{} x {} x {}",
        who, merge, grid.time, grid.height, grid.width));
  }
  const std::array<std::int64_t, 3> sides = {grid.time, grid.height, grid.width};
  const std::optional<std::int64_t> patches = checked_product(sides);
  if (!patches || *patches > std::numeric_limits<std::int32_t>::max()) {
    throw SpecError(fmt::format("{}: a grid has at most {} patches, got {} x {} x {}", who,
                                std::numeric_limits<std::int32_t>::max(), grid.time, grid.height,
                                grid.width));
  }
  return *patches;
}

std::vector<std::int64_t> grid_positions(std::span<const VisionGrid> grids, std::int64_t merge) {
  std::size_t total = 0;
  for (const VisionGrid& grid : grids) {
    total += static_cast<std::size_t>(patches_of("grid_positions", grid, merge));
  }
  std::vector<std::int64_t> positions(3 * total);
  std::size_t at = 0;
  const auto put = [&](std::int64_t time, std::int64_t row, std::int64_t column) {
    positions[at] = time;
    positions[total + at] = row;
    positions[2 * total + at] = column;
    ++at;
  };
  for (const VisionGrid& grid : grids) {
    const std::int64_t blocks_across = grid.width / merge;
    const std::int64_t blocks = grid.height / merge * blocks_across;
    for (std::int64_t time = 0; time < grid.time; ++time) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        for (std::int64_t inside = 0; inside < merge * merge; ++inside) {
          put(time, block / blocks_across * merge + inside / merge,
              block % blocks_across * merge + inside % merge);
        }
      }
    }
  }
  return positions;
}

std::vector<std::int64_t> grid_boundaries(std::span<const VisionGrid> grids) {
  std::vector<std::int64_t> boundaries{0};
  for (const VisionGrid& grid : grids) {
    const std::int64_t frame = patches_of("grid_boundaries", grid, 1) / grid.time;
    for (std::int64_t time = 0; time < grid.time; ++time) {
      const std::optional<std::int64_t> next = checked_add(boundaries.back(), frame);
      if (!next) {
        throw SpecError(fmt::format("grid_boundaries: boundaries must fit in 64 bits, got {} plus {}",
                                    boundaries.back(), frame));
      }
      boundaries.push_back(*next);
    }
  }
  return boundaries;
}

}  // namespace locant
