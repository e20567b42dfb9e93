// SPDX-License-Identifier: Apache-2.0
// Names, dtype and number of parameters from the headers of safetensors and GGUF files.
#include <algorithm>
#include <array>
#include <filesystem>

#include "core/checked.h"
#include "facts/parts.h"
#include "locant/formats.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

// How published checkpoints end these names, the likelier first.
constexpr std::array<std::string_view, 9> kEmbeddings = {
    "embed_tokens.weight",   "word_embeddings.weight", "wte.weight",
    "tok_embeddings.weight", "embed_in.weight",        "shared.weight",
    "embeddings.weight",     "embedding.weight",       "word_embedding.weight"};
constexpr std::array<std::string_view, 5> kHeads = {
    "lm_head.weight", "embed_out.weight", "output_layer.weight", "output.weight", "lm_head.decoder.weight"};
// The dense layer in front of a masked-LM head: the file holds such a head where one of these is there.
constexpr std::array<std::string_view, 6> kMaskedHeads = {
    "predictions.transform.dense.weight", "lm_head.dense.weight",   "predictions.dense.weight",
    "generator_predictions.dense.weight", "vocab_transform.weight", "head.dense.weight"};

/// A whole name, or a name behind a dot.
bool ends_with_name(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  return name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.';
}

template <std::size_t N>
const StoredTensor* find_ending(const SafetensorsFile& file, const std::array<std::string_view, N>& endings,
                                std::int64_t columns) {
  for (const std::string_view ending : endings) {
    for (const StoredTensor& stored : file.tensors()) {
      if (stored.tensor.rank == 2 && stored.tensor.shape[1] == columns && ends_with_name(stored.name, ending))
        return &stored;
    }
  }
  return nullptr;
}

template <std::size_t N>
bool holds_one_of(const SafetensorsFile& file, const std::array<std::string_view, N>& endings) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [&](const StoredTensor& stored) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return ends_with_name(stored.name, ending); });
  });
}

/// A file without tensors is a vocabulary alone.
void read_gguf_headers(const std::string& path, Facts& facts) {
  const GgufFile file(path);
  if (file.tensors().empty()) return;
  std::optional<std::int64_t> parameters = 0;
  for (const GgufTensor& stored : file.tensors()) {
    parameters = checked_add(*parameters, stored.size());
    if (!parameters) break;
  }
  facts.model.parameters = parameters;
  if (const GgufTensor* const found = file.find("token_embd.weight")) {
    facts.embedding.tensor = found->name;
    facts.embedding.dtype = dtype_of(found->type);
    if (!facts.embedding.dtype) facts.embedding.block_type = name_of(found->type);
  }
  const GgufTensor* const head = file.find("output.weight");
  facts.head.tensor = head != nullptr ? head->name : facts.head.tied ? facts.embedding.tensor : "";
}

}  // namespace

std::string weights_in(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* const name : {"model.safetensors.index.json", "model.safetensors"}) {
    const fs::path candidate = fs::path(path) / name;
    if (fs::exists(candidate, error)) return candidate.string();
  }
  return {};
}

void read_weight_headers(const std::string& path, const ModelSpec& spec, Facts& facts) {
  const std::string weights = path.empty() ? path : weights_in(path);
  if (weights.empty()) return;
  if (fs::path(weights).extension() == ".gguf") return read_gguf_headers(weights, facts);
  const SafetensorsFile file(weights);
  std::optional<std::int64_t> parameters = 0;
  for (const StoredTensor& stored : file.tensors()) {
    if (!is_float(stored.tensor.dtype)) continue;  // a buffer of positions is no parameter
    parameters = checked_add(*parameters, stored.tensor.size());
    if (!parameters) break;
  }
  facts.model.parameters = parameters;
  const std::int64_t width =
      facts.embedding.factorised_width > 0 ? facts.embedding.factorised_width : facts.embedding.width;
  if (const StoredTensor* const found = find_ending(file, kEmbeddings, width)) {
    facts.embedding.tensor = found->name;
    facts.embedding.dtype = found->tensor.dtype;
  }
  if (spec.head.masked && !holds_one_of(file, kMaskedHeads)) {
    facts.head.absent = true;
  } else if (facts.head.tied) {
    facts.head.tensor = facts.embedding.tensor;
  } else if (const StoredTensor* const found = find_ending(file, kHeads, facts.model.hidden)) {
    facts.head.tensor = found->name;
  }
}

}  // namespace locant
