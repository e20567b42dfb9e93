// SPDX-License-Identifier: Apache-2.0
// The order of llama2.c's memory_map_weights(): each kind of matrix for all layers in turn, then the final
// norm, two tables of cosines and sines that nobody reads any more, and the head unless it is shared.
#include "model/llama2c_weights.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "core/checked.h"
#include "core/mapped_file.h"

namespace locant {
namespace {

constexpr std::int64_t kHeader = 28;

struct Kind {
  std::string_view name;
  std::vector<std::int64_t> shape;
};

// Hands out consecutive f32 tensors.
class Cutter {
 public:
  Cutter(const MappedFile& file, WeightSource& source) : file_(file), source_(source) {}

  void cut(const std::string& name, const std::vector<std::int64_t>& shape) {
    SourceTensor tensor{.name = name,
                        .path = file_.path(),
                        .file_offset = at_,
                        .data = nullptr,
                        .dtype = DType::f32,
                        .blocks = {},
                        .shape = shape};
    // sizes of 31 bits each: two of them and an element's bytes may pass 63
    std::vector<std::int64_t> factors = shape;
    factors.push_back(static_cast<std::int64_t>(sizeof(float)));
    skip(checked_product(factors).value_or(std::numeric_limits<std::int64_t>::max()));
    tensor.data = file_.data() + tensor.file_offset;
    source_.tensors.push_back(std::move(tensor));
  }
  void skip(std::int64_t bytes) {
    if (bytes > file_.size() - at_) {
      throw FileError(file_.path(),
                      fmt::format("the header asks for more weights than the {} bytes here", file_.size()),
                      at_);
    }
    at_ += bytes;
  }
  void finish() const {
    if (at_ == file_.size()) return;
    throw FileError(file_.path(),
                    fmt::format("the weights must end the file, {} bytes follow", file_.size() - at_), at_);
  }

 private:
  const MappedFile& file_;
  WeightSource& source_;
  std::int64_t at_ = kHeader;
};

void refuse_other_versions(const MappedFile& file) {
  constexpr std::uint32_t kMagic = 0x616b3432;
  std::uint32_t first = 0;
  std::memcpy(&first, file.data(), sizeof(first));
  if (first != kMagic) return;
  throw FileError(file.path(), "weights of a llama2.c file are read in version 0, got a later one", 0);
}

}  // namespace

WeightSource from_llama2c(const ModelSpec& spec, const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  refuse_other_versions(*file);
  const std::int64_t d = spec.hidden;
  const std::int64_t q = spec.heads * spec.head_dim;
  const std::int64_t kv = spec.kv_heads * spec.head_dim;
  const std::int64_t mlp = spec.mlp.width;
  const std::array kinds = {Kind{"input_layernorm", {d}},      Kind{"self_attn.q_proj", {q, d}},
                            Kind{"self_attn.k_proj", {kv, d}}, Kind{"self_attn.v_proj", {kv, d}},
                            Kind{"self_attn.o_proj", {d, q}},  Kind{"post_attention_layernorm", {d}},
                            Kind{"mlp.gate_proj", {mlp, d}},   Kind{"mlp.down_proj", {d, mlp}},
                            Kind{"mlp.up_proj", {mlp, d}}};
  WeightSource source;
  Cutter cutter(*file, source);
  cutter.cut("model.embed_tokens.weight", {spec.vocab, d});
  for (const Kind& kind : kinds) {
    for (std::int64_t layer = 0; layer < spec.layers; ++layer)
      cutter.cut(fmt::format("model.layers.{}.{}.weight", layer, kind.name), kind.shape);
  }
  cutter.cut("model.norm.weight", {d});
  constexpr std::int64_t kFloat = 4;
  cutter.skip(spec.lengths.configured.value_or(0) * spec.head_dim * kFloat);
  if (!spec.head.tied) cutter.cut("lm_head.weight", {spec.vocab, d});
  cutter.finish();
  source.keeper = std::move(file);
  return source;
}

}  // namespace locant
