// SPDX-License-Identifier: Apache-2.0
// A directory of traces, one file a rank: tensor parallel (every rank sees all tokens and holds some heads
// and rows of the vocabulary) or context parallel (every rank holds other tokens).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "check/evidence.h"

namespace locant::check_room {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw FileError(directory, "a directory of traces has .safetensors files, this one has none");
  return files;
}

/// Positions are those that are stated; where none are, tokens follow each other from rank to rank.
void place_slices(const std::vector<Trace*>& ranks) {
  const std::size_t passes = ranks[0]->passes.size();
  for (std::size_t index = 0; index < passes; ++index) {
    std::int64_t next = 0;
    for (Trace* const trace : ranks) {
      if (trace->passes.size() <= index) continue;
      Pass& pass = trace->passes[index];
      if (pass.stated_axes > 0) {
        pass.axes = pass.stated_axes;
        pass.due = pass.stated;
      } else {
        for (std::int64_t& position : pass.due) position += next;
      }
      pass.seen = pass.due.empty() ? 0 : *std::max_element(pass.due.begin(), pass.due.end()) + 1;
      next += pass.tokens;
    }
  }
}

}  // namespace

void open_ranks(Evidence& evidence, const std::string& directory) {
  const std::vector<std::string> files = files_in(directory);
  std::vector<Trace*> ranks(files.size(), nullptr);
  for (const std::string& file : files) {
    const std::size_t before = evidence.traces.size();
    open_trace(evidence, file);
    const TraceReader& reader = evidence.traces[before]->reader;
    const auto rank = whole_number(reader.metadata("locant.rank"));
    const auto world = whole_number(reader.metadata("locant.world"));
    if (files.size() == 1 && !rank && !world) return;
    const auto count = static_cast<std::int64_t>(files.size());
    if (!rank || !world || *rank < 0 || *rank >= count || *world != count) {
      throw FileError(
          file, fmt::format("a directory of {} traces has locant.rank 0 to {} and locant.world {}, got '{}' "
                            "and '{}'",
                            count, count - 1, count, reader.metadata("locant.rank"),
                            reader.metadata("locant.world")));
    }
    if (ranks[static_cast<std::size_t>(*rank)] != nullptr)
      throw FileError(file, fmt::format("every rank has one trace, rank {} has two", *rank));
    ranks[static_cast<std::size_t>(*rank)] = evidence.traces[before].get();
    for (std::size_t i = before; i < evidence.traces.size(); ++i) {
      evidence.traces[i]->rank = *rank;
      evidence.traces[i]->world = *world;
    }
  }
  const auto ids_of = [](const Trace* trace) {
    return trace->passes.empty() ? std::vector<std::int64_t>() : trace->passes[0].ids;
  };
  const bool sliced = std::any_of(ranks.begin(), ranks.end(), [&](const Trace* trace) {
    return !ids_of(trace).empty() && ids_of(trace) != ids_of(ranks[0]);
  });
  for (Trace* const trace : ranks) trace->sliced = sliced;
  if (sliced) place_slices(ranks);
  evidence.worlds.push_back(std::move(ranks));
}

}  // namespace locant::check_room
