// SPDX-License-Identifier: Apache-2.0
#include "model/weight_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "locant/formats.h"
#include "model/llama2c_weights.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

// model.safetensors, or the index of its shards.
std::string safetensors_path(const std::string& directory) {
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path path = fs::path(directory) / name;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.string();
  }
  std::error_code ignored;
  const bool pickled = fs::exists(fs::path(directory) / "pytorch_model.bin", ignored) ||
                       fs::exists(fs::path(directory) / "pytorch_model.bin.index.json", ignored);
  throw FileError(directory, fmt::format("a model directory must hold model.safetensors or "
                                         "model.safetensors.index.json, it has {}",
                                         pickled ? "pytorch_model.bin, which is a program and is not read; "
                                                   "save the model as safetensors"
                                                 : "neither"));
}

WeightSource from_safetensors(const std::string& directory) {
  auto file = std::make_shared<const SafetensorsFile>(safetensors_path(directory));
  WeightSource source;
  for (const StoredTensor& stored : file->tensors()) {
    const TensorRef& tensor = stored.tensor;
    source.tensors.push_back(
        {.name = stored.name,
         .path = stored.path,
         .file_offset = stored.file_offset,
         .data = tensor.data,
         .dtype = tensor.dtype,
         .blocks = {},
         .shape = {tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank)}});
  }
  source.keeper = std::move(file);
  return source;
}

WeightSource from_gguf(const std::string& path) {
  auto file = std::make_shared<const GgufFile>(path);
  WeightSource source;
  source.describes_itself = true;
  for (const GgufTensor& stored : file->tensors()) {
    const std::optional<DType> dtype = dtype_of(stored.type);
    source.tensors.push_back({.name = stored.name,
                              .path = stored.path,
                              .file_offset = stored.file_offset,
                              .data = stored.bytes.data(),
                              .dtype = dtype.value_or(DType::f32),
                              .blocks = dtype ? std::nullopt : std::optional(stored.type),
                              .shape = stored.shape});
  }
  source.keeper = std::move(file);
  return source;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::int64_t SourceTensor::size() const noexcept {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) size *= extent;
  return size;
}

std::int64_t SourceTensor::bytes() const noexcept {
  if (blocks) return size() / block_elements(*blocks) * block_bytes(*blocks);
  return size() * static_cast<std::int64_t>(size_of(dtype));
}

std::string SourceTensor::stored_text() const {
  return std::string(blocks ? name_of(*blocks) : name_of(dtype));
}

Matrix SourceTensor::matrix() const noexcept {
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  return {.data = data,
          .dtype = dtype,
          .rows = columns == 0 ? 0 : size() / columns,
          .columns = columns,
          .row_stride = columns,
          .blocks = blocks};
}

const SourceTensor* WeightSource::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const SourceTensor& tensor, std::string_view wanted) {
                                        return std::string_view(tensor.name) < wanted;
                                      });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

WeightSource open_weights(const ModelSpec& spec, const std::string& path) {
  WeightSource source = spec.format == "gguf"      ? from_gguf(path)
                        : spec.format == "llama2c" ? from_llama2c(spec, path)
                                                   : from_safetensors(path);
  std::sort(source.tensors.begin(), source.tensors.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  return source;
}

}  // namespace locant
