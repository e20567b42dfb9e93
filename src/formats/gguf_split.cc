// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_split.h"

#include <fmt/core.h>

#include <charconv>

namespace locant {
namespace {

constexpr std::size_t kDigits = 5;

std::optional<std::int64_t> number_of(const std::string& digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

std::optional<GgufPartName> parse_gguf_part_name(const std::string& path) {
  const std::size_t tail = gguf_part_path("", 1, 1).size();
  if (path.size() <= tail) return std::nullopt;
  GgufPartName part;
  part.prefix = path.substr(0, path.size() - tail);
  const auto number = number_of(path.substr(part.prefix.size() + 1, kDigits));
  const auto count = number_of(path.substr(part.prefix.size() + 1 + kDigits + 4, kDigits));
  if (!number || !count || *number > *count) return std::nullopt;
  part.number = *number;
  part.count = *count;
  if (gguf_part_path(part.prefix, part.number, part.count) != path) return std::nullopt;
  return part;
}

std::string gguf_part_path(const std::string& prefix, std::int64_t number, std::int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

}  // namespace locant
