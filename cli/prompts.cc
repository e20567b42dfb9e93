// SPDX-License-Identifier: Apache-2.0
#include "cli/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "locant/formats.h"

namespace locant::cli {
namespace {

std::string text_of_file(const std::string& path) {
  std::string text = read_file(path);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<std::vector<std::int64_t>> ids_of_file(std::string_view command, const std::string& path) {
  const NpyArray array = read_npy(path);
  const std::vector<std::int64_t> flat = array.as_int64(fmt::format("{}: --ids-file {}", command, path));
  if (array.shape.size() != 1 && array.shape.size() != 2) {
    throw SpecError(fmt::format("{}: --ids-file {} is [{}], expected [T] or [B,T]", command, path,
                                fmt::join(array.shape, ",")));
  }
  const std::int64_t rows = array.shape.size() == 2 ? array.shape[0] : 1;
  const std::int64_t width = array.shape.back();
  std::vector<std::vector<std::int64_t>> ids;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = flat.begin() + row * width;
    ids.emplace_back(begin, begin + width);
  }
  if (ids.empty()) throw SpecError(fmt::format("{}: --ids-file {} has no rows", command, path));
  return ids;
}

}  // namespace

std::vector<std::int64_t> parse_ids(std::string_view command, std::string_view list, std::string_view flag) {
  std::vector<std::int64_t> ids;
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw UsageError(fmt::format("{}: {} is whole numbers between commas, got {} at place {}", command,
                                   flag, in_quotes(word), ids.size()));
    }
    ids.push_back(id);
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

Prompt read_prompt(std::string_view command, const PromptFlags& flags) {
  Prompt prompt;
  prompt.texts = flags.texts;
  if (!flags.text_file.empty()) prompt.texts.push_back(text_of_file(flags.text_file));
  for (const std::string& list : flags.ids) prompt.ids.push_back(parse_ids(command, list));
  if (!flags.ids_file.empty()) prompt.ids = ids_of_file(command, flags.ids_file);
  return prompt;
}

std::int64_t first_column(Padding padding, std::int64_t width, std::int64_t length) {
  return padding == Padding::left ? width - length : 0;
}

std::vector<std::int64_t> RowPositions::concatenated() const {
  std::vector<std::int64_t> flat;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    for (const auto& row : rows) {
      const auto& of_axis = row[static_cast<std::size_t>(axis)];
      flat.insert(flat.end(), of_axis.begin(), of_axis.end());
    }
  }
  return flat;
}

RowPositions read_positions(const RunOptions& options, const std::vector<std::int64_t>& lengths) {
  RowPositions positions;
  if (options.positions_file.empty()) {
    positions.explicit_ids = options.start != 0;
    for (const std::int64_t length : lengths)
      positions.rows.push_back({text_positions(length, options.start)});
    return positions;
  }
  const NpyArray array = read_npy(options.positions_file);
  const std::vector<std::int64_t> flat =
      array.as_int64(fmt::format("run: --positions {}", options.positions_file));
  const auto rows = static_cast<std::int64_t>(lengths.size());
  const std::int64_t width = *std::max_element(lengths.begin(), lengths.end());
  const std::size_t rank = array.shape.size();
  const bool fits = rank >= 1 && rank <= 3 && array.shape.back() == width &&
                    (rank < 2 || array.shape[rank - 2] == rows) && (rank < 3 || array.shape[0] >= 1);
  if (!fits) {
    throw SpecError(fmt::format("run: --positions {} is [{}], expected [T={}], [B={},T={}] or [axes,{},{}]",
                                options.positions_file, fmt::join(array.shape, ","), width, rows, width, rows,
                                width));
  }
  positions.explicit_ids = true;
  positions.axes = rank == 3 ? array.shape[0] : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    auto& of_row = positions.rows.emplace_back();
    for (std::int64_t axis = 0; axis < positions.axes; ++axis) {
      const std::int64_t line = rank == 1 ? 0 : axis * rows + row;
      const auto begin = flat.begin() + line * width + first_column(options.padding, width, length);
      of_row.emplace_back(begin, begin + length);
    }
  }
  return positions;
}

}  // namespace locant::cli
