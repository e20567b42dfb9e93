// SPDX-License-Identifier: Apache-2.0
// Files and shards, mapped. The tensors point into the mappings, which the copies of a file share.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/mapped_file.h"
#include "core/quote.h"
#include "formats/safetensors_header.h"
#include "formats/safetensors_index.h"
#include "locant/formats.h"

namespace locant {
namespace {

TensorRef tensor_of(const SafetensorsEntry& entry, const std::byte* data) {
  TensorRef tensor;
  tensor.data = data + entry.begin;
  tensor.dtype = entry.dtype;
  tensor.rank = entry.rank;
  tensor.shape = entry.shape;
  std::int64_t step = 1;
  for (std::size_t axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = step;
    step *= std::max<std::int64_t>(tensor.shape[axis], 1);  // counted without overflow by checked_product()
  }
  return tensor;
}

std::string beside(const std::string& path, const std::string& name) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace

struct SafetensorsFile::State {
  std::vector<MappedFile> files;
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
  std::int64_t bytes = 0;

  void add_file(const std::string& path) {
    MappedFile file(path);
    SafetensorsHeader header = parse_safetensors_header(file.text(), path);
    for (SafetensorsEntry& entry : header.entries) {
      tensors.push_back({.name = std::move(entry.name),
                         .tensor = tensor_of(entry, file.data() + header.data_begin),
                         .file_offset = header.data_begin + entry.begin,
                         .path = path});
    }
    metadata.merge(header.metadata);
    bytes += file.size();
    files.push_back(std::move(file));
  }

  void sort(const std::string& path) {
    std::sort(tensors.begin(), tensors.end(),
              [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(tensors.begin(), tensors.end(),
                           [](const StoredTensor& a, const StoredTensor& b) { return a.name == b.name; });
    if (twice == tensors.end()) return;
    throw FileError(path, fmt::format("tensor {} stands in two shards, {} and {}", quote(twice->name),
                                      twice->path, (twice + 1)->path));
  }

  [[nodiscard]] const StoredTensor* find(std::string_view name) const noexcept {
    const auto found = std::lower_bound(
        tensors.begin(), tensors.end(), name,
        [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
    return found != tensors.end() && found->name == name ? &*found : nullptr;
  }

  void add_index(const std::string& path) {
    const auto shards = parse_safetensors_index(read_file(path), path);
    std::set<std::string> names;
    for (const auto& [tensor, shard] : shards) names.insert(shard);
    for (const std::string& name : names) add_file(beside(path, name));
    sort(path);
    for (const auto& [name, shard] : shards) {
      const StoredTensor* const stored = find(name);
      if (stored == nullptr || stored->path != beside(path, shard)) {
        throw FileError(
            path, fmt::format("weight_map: {} is in {}, which does not hold it", quote(name), quote(shard)));
      }
    }
  }
};

SafetensorsFile::SafetensorsFile(const std::string& path) {
  auto state = std::make_shared<State>();
  if (path.ends_with(".json")) {
    state->add_index(path);
  } else {
    state->add_file(path);
    state->sort(path);
  }
  state_ = std::move(state);
}

std::span<const StoredTensor> SafetensorsFile::tensors() const noexcept {
  return state_->tensors;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const noexcept {
  return state_->find(name);
}

const std::map<std::string, std::string, std::less<>>& SafetensorsFile::metadata() const noexcept {
  return state_->metadata;
}

std::int64_t SafetensorsFile::bytes() const noexcept {
  return state_->bytes;
}

}  // namespace locant
