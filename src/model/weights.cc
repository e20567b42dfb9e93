// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "core/convert.h"
#include "core/mapped_file.h"
#include "core/nearest.h"

namespace locant {
namespace {

// Binds by name and remembers what was taken.
class Binder {
 public:
  Binder(const ModelSpec& spec, const FamilyWeights& names, const SafetensorsFile& file,
         WeightStorage storage)
      : spec_(spec), names_(names), file_(file), storage_(storage) {}

  Weights bind();

 private:
  const StoredTensor& take(const std::string& name, std::initializer_list<std::int64_t> shape);
  Matrix table(const std::string& name, std::int64_t rows, std::int64_t columns);
  Linear linear(std::string_view name, std::int64_t out, std::int64_t in, bool bias);
  View<const float, 1> vector(const std::string& name, std::int64_t size);
  NormWeights norm(std::string_view name);
  LayerWeights layer(std::int64_t index);
  Matrix stored_as(const Matrix& source, LinearLayout layout);
  DType kept(DType stored) const;
  void refuse_leftovers() const;

  const ModelSpec& spec_;
  const FamilyWeights& names_;
  const SafetensorsFile& file_;
  WeightStorage storage_;
  std::string prefix_;
  std::set<std::string, std::less<>> taken_;
  Weights weights_;
};

const StoredTensor& Binder::take(const std::string& name, std::initializer_list<std::int64_t> shape) {
  const StoredTensor* const found = file_.find(name);
  const TensorRef expected(nullptr, DType::f32, shape);
  if (found == nullptr) {
    throw SpecError(fmt::format("{}: {} {} must be there for a {}, it is missing", spec_.path, name,
                                expected.shape_text(), spec_.family));
  }
  if (found->tensor.shape_text() != expected.shape_text()) {
    throw SpecError(fmt::format("{}: {} must be {} by the config, got {}", found->path, name,
                                expected.shape_text(), found->tensor.shape_text()));
  }
  const DType dtype = found->tensor.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    throw SpecError(
        fmt::format("{}: {} must be f32, f16 or bf16, got {}", found->path, name, name_of(dtype)));
  }
  if (taken_.insert(name).second) weights_.parameters += found->tensor.size();
  return *found;
}

DType Binder::kept(DType stored) const {
  switch (storage_) {
    case WeightStorage::f32:
      return DType::f32;
    case WeightStorage::f16:
      return DType::f16;
    case WeightStorage::bf16:
      return DType::bf16;
    case WeightStorage::as_stored:
      break;
  }
  return stored;
}

// `source` is [rows, columns] as it lies in the file; the result is [out, in].
Matrix Binder::stored_as(const Matrix& source, LinearLayout layout) {
  const DType dtype = kept(source.dtype);
  const bool turned = layout == LinearLayout::in_out;
  if (dtype == source.dtype && !turned) {
    const std::int64_t bytes = source.rows * source.columns * static_cast<std::int64_t>(size_of(dtype));
    weights_.bytes += bytes;
    // A first token must not wait for the disk, nor for thousands of page faults.
    touch_pages(source.data, bytes);
    return source;
  }
  const std::int64_t rows = turned ? source.columns : source.rows;
  const std::int64_t columns = turned ? source.rows : source.columns;
  const std::size_t bytes = static_cast<std::size_t>(rows * columns) * size_of(dtype);
  Buffer& copy = weights_.copies.emplace_back(bytes);
  const auto* const from = static_cast<const std::byte*>(source.data);
  auto* const to = copy.as<std::byte>();
  const std::size_t from_size = size_of(source.dtype);
  const std::size_t to_size = size_of(dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::byte* const row = to + static_cast<std::size_t>(r * columns) * to_size;
    if (!turned) {
      convert_row(from + static_cast<std::size_t>(r * source.row_stride) * from_size, source.dtype, row,
                  dtype, columns);
      continue;
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(c * source.row_stride + r);
      convert_row(from + at * from_size, source.dtype, row + static_cast<std::size_t>(c) * to_size, dtype, 1);
    }
  }
  weights_.bytes += static_cast<std::int64_t>(bytes);
  return {.data = copy.data(), .dtype = dtype, .rows = rows, .columns = columns, .row_stride = columns};
}

Matrix Binder::table(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return stored_as(matrix(take(name, {rows, columns}).tensor), LinearLayout::out_in);
}

Linear Binder::linear(std::string_view name, std::int64_t out, std::int64_t in, bool bias) {
  const std::string weight = fmt::format("{}.weight", name);
  const bool turned = names_.linear == LinearLayout::in_out;
  const StoredTensor& tensor = turned ? take(weight, {in, out}) : take(weight, {out, in});
  Linear linear;
  linear.weight = stored_as(matrix(tensor.tensor), names_.linear);
  if (bias) linear.bias = vector(fmt::format("{}.bias", name), out);
  return linear;
}

View<const float, 1> Binder::vector(const std::string& name, std::int64_t size) {
  const TensorRef& tensor = take(name, {size}).tensor;
  Buffer& copy = weights_.copies.emplace_back(static_cast<std::size_t>(size) * sizeof(float));
  convert_row(tensor.data, tensor.dtype, copy.data(), DType::f32, size);
  weights_.bytes += size * static_cast<std::int64_t>(sizeof(float));
  return {copy.as<const float>(), {size}};
}

NormWeights Binder::norm(std::string_view name) {
  NormWeights norm;
  norm.gain = vector(fmt::format("{}.weight", name), spec_.hidden);
  if (spec_.norm.kind == NormKind::layer) norm.bias = vector(fmt::format("{}.bias", name), spec_.hidden);
  return norm;
}

LayerWeights Binder::layer(std::int64_t index) {
  const std::string at = fmt::format("{}{}{}.", prefix_, names_.layers, index);
  const auto name = [&](std::string_view part) { return at + std::string(part); };
  const std::int64_t q_rows = spec_.heads * spec_.head_dim;
  const std::int64_t kv_rows = spec_.kv_heads * spec_.head_dim;
  LayerWeights layer;
  layer.attention_norm = norm(name(names_.attention_norm));
  if (names_.qkv_layout == QkvLayout::separate) {
    for (std::size_t part = 0; part < 3; ++part) {
      layer.qkv.at(part) =
          linear(name(names_.qkv.at(part)), part == 0 ? q_rows : kv_rows, spec_.hidden, spec_.block.biases.q);
    }
  } else {
    layer.qkv[0] = linear(name(names_.qkv[0]), q_rows + 2 * kv_rows, spec_.hidden, spec_.block.biases.q);
  }
  layer.attention_out = linear(name(names_.attention_out), spec_.hidden, q_rows, spec_.block.biases.out);
  layer.mlp_norm = norm(name(names_.mlp_norm));
  if (spec_.mlp.gated) layer.gate = linear(name(names_.gate), spec_.mlp.width, spec_.hidden, spec_.mlp.bias);
  layer.up = linear(name(names_.up), spec_.mlp.width, spec_.hidden, spec_.mlp.bias);
  layer.down = linear(name(names_.down), spec_.hidden, spec_.mlp.width, spec_.mlp.bias);
  return layer;
}

// A tensor that nobody takes may be a part of the computation that Locant does not know.
void Binder::refuse_leftovers() const {
  for (const StoredTensor& tensor : file_.tensors()) {
    if (taken_.contains(tensor.name)) continue;
    if (spec_.head.tied && tensor.name == fmt::format("{}.weight", names_.head)) continue;
    bool known = false;
    for (const std::string_view ending : names_.not_weights) known = known || tensor.name.ends_with(ending);
    if (known) continue;
    throw SpecError(fmt::format("{}: {} {} is no part of a {} with {} layers", tensor.path, tensor.name,
                                tensor.tensor.shape_text(), spec_.family, spec_.layers));
  }
}

Weights Binder::bind() {
  prefix_ = names_.prefixes[0];
  const std::string bare = fmt::format("{}{}.weight", names_.prefixes[1], names_.embedding);
  if (file_.find(bare) != nullptr) prefix_ = names_.prefixes[1];
  const auto name = [&](std::string_view part) { return prefix_ + std::string(part); };
  const auto weight = [&](std::string_view part) { return fmt::format("{}{}.weight", prefix_, part); };
  weights_.qkv_layout = names_.qkv_layout;
  weights_.embedding = table(weight(names_.embedding), spec_.embedding.rows, spec_.embedding.width);
  if (!names_.positions.empty()) {
    const PositionSpec& learned = spec_.positions.embedding.front();
    const auto rows = std::get<std::int64_t>(learned.find("rows")->value);
    weights_.positions = table(weight(names_.positions), rows, spec_.hidden);
  }
  if (spec_.embedding.normed) weights_.embedding_norm = norm(name(names_.embedding_norm));
  weights_.layers.reserve(static_cast<std::size_t>(spec_.layers));
  for (std::int64_t index = 0; index < spec_.layers; ++index) weights_.layers.push_back(layer(index));
  weights_.final_norm = norm(name(names_.final_norm));
  weights_.head = spec_.head.tied ? weights_.embedding
                                  : table(fmt::format("{}.weight", names_.head), spec_.vocab, spec_.hidden);
  refuse_leftovers();
  return std::move(weights_);
}

}  // namespace

Weights bind_weights(const ModelSpec& spec, const FamilyWeights& names, SafetensorsFile file,
                     WeightStorage storage) {
  Weights weights = Binder(spec, names, file, storage).bind();
  weights.files.push_back(std::move(file));
  return weights;
}

}  // namespace locant
