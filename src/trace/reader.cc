// SPDX-License-Identifier: Apache-2.0
// Traces in: the file is a trace, and its steps are 1, 2, ... without a gap, so that a walk over them ends.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/quote.h"
#include "locant/formats.h"
#include "locant/trace.h"

namespace locant {
namespace {

constexpr std::string_view kStep = "step.";

/// 0 for a name of the first pass. The number is written as step_prefix() does, or the name is refused.
std::int64_t step_of(std::string_view name, const std::string& path) {
  if (!name.starts_with(kStep)) return 0;
  const char* const begin = name.data() + kStep.size();
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, name.data() + name.size(), step);
  if (error == std::errc() && step > 0 && name.starts_with(trace_names::step_prefix(step))) return step;
  throw FileError(
      path, fmt::format("a name of a later pass begins with step.N/, N = 1, 2, ..., got {}", quote(name)));
}

std::int64_t count_steps(std::span<const StoredTensor> tensors, const std::string& path) {
  std::set<std::int64_t> steps{0};
  for (const StoredTensor& stored : tensors) steps.insert(step_of(stored.name, path));
  std::int64_t expected = 0;
  for (const std::int64_t step : steps) {
    if (step != expected) {
      throw FileError(path,
                      fmt::format("no step is left out, step {} is missing before step {}", expected, step));
    }
    ++expected;
  }
  return expected;
}

}  // namespace

struct TraceReader::State {
  SafetensorsFile file;
  std::int64_t steps = 1;
};

TraceReader::TraceReader(const std::string& path) {
  SafetensorsFile file(path);
  const auto version = file.metadata().find("locant.trace");
  if (version == file.metadata().end()) {
    throw FileError(path, "a trace says locant.trace in its metadata, this file does not");
  }
  if (version->second != "1") {
    throw FileError(path, fmt::format("locant.trace 1 is read, got {}", quote(version->second)));
  }
  const std::int64_t steps = count_steps(file.tensors(), path);
  state_ = std::make_unique<State>(State{.file = std::move(file), .steps = steps});
}

TraceReader::~TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;

std::vector<std::string> TraceReader::names() const {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& stored : state_->file.tensors()) order.push_back(&stored);
  std::stable_sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    // an empty tensor stands before the one that begins where it ends
    return std::pair(a->file_offset, a->tensor.size()) < std::pair(b->file_offset, b->tensor.size());
  });
  std::vector<std::string> names;
  names.reserve(order.size());
  for (const StoredTensor* const stored : order) names.push_back(stored->name);
  return names;
}

TensorRef TraceReader::find(std::string_view name) const {
  const StoredTensor* const stored = state_->file.find(name);
  return stored == nullptr ? TensorRef() : stored->tensor;
}

std::string TraceReader::metadata(std::string_view key) const {
  const auto found = state_->file.metadata().find(key);
  return found == state_->file.metadata().end() ? std::string() : found->second;
}

std::int64_t TraceReader::steps() const {
  return state_->steps;
}

}  // namespace locant
