// SPDX-License-Identifier: Apache-2.0
// Files and parts, mapped. The tensors point into the mappings, which the copies of a file share.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/mapped_file.h"
#include "core/quote.h"
#include "formats/gguf_header.h"
#include "formats/gguf_split.h"
#include "locant/formats.h"

namespace locant {
namespace {

constexpr std::string_view kSplitNumber = "split.no";  // from 0
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";  // of all parts

using Metadata = std::map<std::string, GgufValue, std::less<>>;

std::optional<std::int64_t> whole_of(const Metadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  return found->second.as_int64();
}

void check_whole(const Metadata& metadata, std::string_view key, std::int64_t wanted,
                 const std::string& path) {
  const auto stored = whole_of(metadata, key);
  if (!stored || *stored == wanted) return;
  throw FileError(
      path, fmt::format("key {} is {} by the files' names and tensors, got {}", quote(key), wanted, *stored),
      metadata.find(key)->second.file_offset);
}

}  // namespace

std::int64_t GgufTensor::size() const noexcept {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape)
    elements *= extent;  // counted without overflow by checked_product()
  return elements;
}

std::optional<TensorRef> GgufTensor::tensor() const noexcept {
  const auto dtype = dtype_of(type);
  if (!dtype) return std::nullopt;
  TensorRef tensor;
  tensor.data = bytes.data();
  tensor.dtype = *dtype;
  tensor.rank = shape.size();
  std::int64_t step = 1;
  for (std::size_t axis = tensor.rank; axis-- > 0;) {
    tensor.shape[axis] = shape[axis];
    tensor.strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return tensor;
}

struct GgufFile::State {
  std::string path;  // of the first part
  std::vector<MappedFile> files;
  std::vector<GgufTensor> tensors;
  Metadata metadata;
  std::int64_t version = 0;
  std::int64_t alignment = 0;
  std::int64_t bytes = 0;

  /// The file's own metadata, before the parts' are merged.
  Metadata add_file(const std::string& name) {
    MappedFile file(name);
    GgufHeader header = parse_gguf_header(file.text(), name);
    for (GgufEntry& entry : header.entries) {
      const std::int64_t offset = header.data_begin + entry.begin;
      tensors.push_back({.name = std::move(entry.name),
                         .type = entry.type,
                         .shape = std::move(entry.shape),
                         .bytes = file.bytes().subspan(static_cast<std::size_t>(offset),
                                                       static_cast<std::size_t>(entry.bytes)),
                         .file_offset = offset,
                         .path = name});
    }
    if (files.empty()) {
      path = name;
      version = header.version;
      alignment = header.alignment;
    }
    bytes += file.size();
    files.push_back(std::move(file));
    return std::move(header.metadata);
  }

  /// A file that was split and merged again says 0 parts.
  void add_whole(const std::string& name) {
    metadata = add_file(name);
    const std::int64_t count = whole_of(metadata, kSplitCount).value_or(1);
    if (count <= 1) return;
    throw FileError(name,
                    fmt::format("key {} says {} parts, the name of a part ends in -00001-of-{:05}.gguf",
                                quote(kSplitCount), count, count),
                    metadata.find(kSplitCount)->second.file_offset);
  }

  void add_parts(const GgufPartName& part) {
    for (std::int64_t number = 1; number <= part.count; ++number) {
      const std::string name = gguf_part_path(part.prefix, number, part.count);
      Metadata own = add_file(name);
      check_whole(own, kSplitNumber, number - 1, name);
      check_whole(own, kSplitCount, part.count, name);
      metadata.merge(own);
    }
    check_whole(metadata, kSplitTensors, static_cast<std::int64_t>(tensors.size()), path);
  }

  void sort() {
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(tensors.begin(), tensors.end(),
                           [](const GgufTensor& a, const GgufTensor& b) { return a.name == b.name; });
    if (twice == tensors.end()) return;
    throw FileError(path, fmt::format("tensor {} stands in two parts, {} and {}", quote(twice->name),
                                      twice->path, (twice + 1)->path));
  }
};

GgufFile::GgufFile(const std::string& path) {
  auto state = std::make_shared<State>();
  if (const auto part = parse_gguf_part_name(path)) {
    state->add_parts(*part);
  } else {
    state->add_whole(path);
  }
  state->sort();
  state_ = std::move(state);
}

std::int64_t GgufFile::version() const noexcept {
  return state_->version;
}

std::int64_t GgufFile::alignment() const noexcept {
  return state_->alignment;
}

std::span<const GgufTensor> GgufFile::tensors() const noexcept {
  return state_->tensors;
}

const GgufTensor* GgufFile::find(std::string_view name) const noexcept {
  const auto& tensors = state_->tensors;
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const GgufTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

const std::map<std::string, GgufValue, std::less<>>& GgufFile::metadata() const noexcept {
  return state_->metadata;
}

const GgufValue* GgufFile::find_value(std::string_view key) const noexcept {
  const auto found = state_->metadata.find(key);
  return found == state_->metadata.end() ? nullptr : &found->second;
}

const GgufValue& GgufFile::value(std::string_view key) const {
  const GgufValue* const found = find_value(key);
  if (found == nullptr) throw FileError(state_->path, fmt::format("key {} is missing", quote(key)));
  return *found;
}

std::int64_t GgufFile::bytes() const noexcept {
  return state_->bytes;
}

}  // namespace locant
