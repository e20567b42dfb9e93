// SPDX-License-Identifier: Apache-2.0
#include "cli/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "locant/formats.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// The number behind a name at the start of a line.
std::optional<std::int64_t> field(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name)) return number(line.substr(name.size()));
    at = end + 1;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* of_files;
};

std::optional<std::int64_t> left_in(const fs::path& group, const GroupFiles& names) {
  const std::optional<std::int64_t> limit = number(text_of(group / names.limit));
  const std::optional<std::int64_t> used = number(text_of(group / names.used));
  if (!limit || !used) return std::nullopt;  // "max": no limit
  const std::int64_t of_files = field(text_of(group / "memory.stat"), names.of_files).value_or(0);
  return std::max<std::int64_t>(*limit - std::max<std::int64_t>(*used - of_files, 0), 0);
}

/// The process's group in a hierarchy: "0::/a/b" of version 2, "5:memory:/a/b" of version 1.
std::string group_of(const std::string& text, std::string_view controller) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers == controller) return line.substr(second + 1);
  }
  return "/";
}

void take_least(std::optional<std::int64_t>& least, std::optional<std::int64_t> other) {
  if (other) least = least ? std::min(*least, *other) : *other;
}

/// A group and all above it; inside a container only the root may be there.
void look_up(std::optional<std::int64_t>& least, const fs::path& root, const std::string& group,
             const GroupFiles& names) {
  fs::path below = fs::path(group).relative_path();
  for (;; below = below.parent_path()) {
    take_least(least, left_in(root / below, names));
    if (below.empty()) return;
  }
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", count / 1e3);
  return bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", count / 1e6)
                               : fmt::format("{:.1f} GB", count / 1e9);
}

std::optional<std::int64_t> available_memory(const MemorySources& sources) {
  std::optional<std::int64_t> least;
  if (const auto kilobytes = field(text_of(sources.meminfo), "MemAvailable:")) least = *kilobytes * 1024;
  const std::string own = text_of(sources.own_group);
  const fs::path root(sources.groups);
  look_up(least, root, group_of(own, ""), {"memory.max", "memory.current", "inactive_file "});
  look_up(least, root / "memory", group_of(own, "memory"),
          {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "});
  return least;
}

std::string memory_sentence(const MemoryNeed& need, std::optional<std::int64_t> available) {
  std::string text = fmt::format("needs {} for weights, {} for {} tokens of cache", bytes_text(need.weights),
                                 bytes_text(need.cache), need.tokens);
  const std::int64_t beside = need.workspace + need.answer;
  if (beside > 0) text += fmt::format(", {} beside them", bytes_text(beside));
  if (available) text += fmt::format("; {} free", bytes_text(*available));
  return text;
}

void require_memory(const MemoryNeed& need, std::optional<std::int64_t> available) {
  std::int64_t all = 0;
  const bool wraps = __builtin_add_overflow(need.cache, need.workspace, &all) ||
                     __builtin_add_overflow(all, need.answer, &all);
  if (!available || (!wraps && all <= *available)) return;
  throw SpecError(
      fmt::format("run: memory must hold cache and buffers: {}", memory_sentence(need, available)));
}

std::int64_t copied_weights(const std::string& path, WeightStorage storage) {
  if (storage == WeightStorage::as_stored) return 0;
  const DType kept = storage == WeightStorage::f32   ? DType::f32
                     : storage == WeightStorage::f16 ? DType::f16
                                                     : DType::bf16;
  std::int64_t total = 0;
  const auto add = [&](std::optional<DType> stored, std::int64_t elements) {
    if (stored != kept) total += elements * static_cast<std::int64_t>(size_of(kept));
  };
  std::error_code error;
  if (fs::path(path).extension() == ".gguf") {
    const GgufFile file(path);
    for (const GgufTensor& tensor : file.tensors()) add(dtype_of(tensor.type), tensor.size());
    return total;
  }
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path place = fs::path(path) / name;
    if (!fs::exists(place, error)) continue;
    const SafetensorsFile file(place.string());
    for (const StoredTensor& stored : file.tensors()) add(stored.tensor.dtype, stored.tensor.size());
    return total;
  }
  return total;
}

void require_copies(std::int64_t bytes, std::optional<std::int64_t> available) {
  if (!available || bytes <= *available) return;
  throw SpecError(fmt::format(
      "run: memory must hold the weights that --weights converts, {}, {} free; as-stored maps them instead",
      bytes_text(bytes), bytes_text(*available)));
}

}  // namespace locant::cli
