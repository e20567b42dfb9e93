// SPDX-License-Identifier: Apache-2.0
// Learned tables of positions in safetensors and GGUF files: their rows against those that the config speaks
// of, and where learning ends in them.
#include <algorithm>
#include <array>
#include <filesystem>

#include "facts/parts.h"
#include "locant/formats.h"
#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

struct StoredTable {
  std::string name{};
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<float> values{};  // [rows, width]; empty where they cannot be read
};

bool named_as_positions(const std::string& name) {
  constexpr std::array<std::string_view, 3> kParts = {"position", "wpe", "pos_emb"};
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::vector<float> values_of(GgmlType type, const void* data, std::int64_t elements) {
  if (!can_dequantize(type) || elements <= 0 || elements > kMostElements ||
      elements % block_elements(type) != 0)
    return {};
  std::vector<float> values(static_cast<std::size_t>(elements));
  dequantize(type, data, elements, values.data());
  return values;
}

std::vector<StoredTable> tables_in(const std::string& path, std::int64_t width) {
  std::vector<StoredTable> tables;
  if (std::filesystem::path(path).extension() == ".gguf") {
    const GgufFile file(path);
    for (const GgufTensor& stored : file.tensors()) {
      if (stored.shape.size() != 2 || stored.shape[1] != width || !named_as_positions(stored.name)) continue;
      tables.push_back(
          {stored.name, stored.shape[0], width, values_of(stored.type, stored.bytes.data(), stored.size())});
    }
    return tables;
  }
  const SafetensorsFile file(path);
  for (const StoredTensor& stored : file.tensors()) {
    const TensorRef& tensor = stored.tensor;
    if (tensor.rank != 2 || tensor.shape[1] != width || !named_as_positions(stored.name)) continue;
    const std::optional<GgmlType> type = ggml_type_of(tensor.dtype);
    tables.push_back({stored.name, tensor.shape[0], width,
                      type ? values_of(*type, tensor.data, tensor.size()) : std::vector<float>()});
  }
  return tables;
}

bool of_other_stack(const std::string& name, Stack stack) {
  const bool encoder = name.find("encoder.") != std::string::npos;
  const bool decoder = name.find("decoder.") != std::string::npos;
  return stack == Stack::encoder ? decoder && !encoder : encoder && !decoder;
}

TableTrust judged(const StoredTable& stored, const PositionEmbedding& embedding) {
  TableTrust table;
  table.tensor = stored.name;
  table.rows = stored.rows;
  table.declared = embedding.rows;
  table.positions = std::max<std::int64_t>(stored.rows - embedding.offset, 0);
  table.learned = table.positions;
  // rows before the first position's are never read, and say nothing
  const std::int64_t skipped = std::min(std::max<std::int64_t>(embedding.offset, 0), stored.rows);
  if (stored.values.empty() || table.positions < 1) return table;
  const std::vector<float> read(stored.values.begin() + skipped * stored.width, stored.values.end());
  const ChangePoint point = change_point(read, stored.rows - skipped, stored.width);
  table.learned = std::min(point.learned, table.positions);
  table.evidence = point.evidence;
  table.norm_before = point.norm_before;
  table.norm_behind = point.norm_behind;
  table.likeness_before = point.likeness_before;
  table.likeness_behind = point.likeness_behind;
  return table;
}

}  // namespace

std::vector<TableTrust> table_trust(const Facts& facts, const std::string& weights) {
  std::vector<TableTrust> all;
  const std::string path = weights.empty() ? weights : weights_in(weights);
  if (path.empty() || std::filesystem::path(path).extension() == ".bin") return all;
  const bool two_stacks =
      std::any_of(facts.positions.begin(), facts.positions.end(),
                  [](const PositionFacts& entry) { return entry.stack == Stack::encoder; }) &&
      std::any_of(facts.positions.begin(), facts.positions.end(),
                  [](const PositionFacts& entry) { return entry.stack == Stack::decoder; });
  for (const PositionFacts& entry : facts.positions) {
    const auto* const embedding = entry.plan ? std::get_if<PositionEmbedding>(&*entry.plan) : nullptr;
    if (embedding == nullptr || embedding->form != EmbeddingForm::table) continue;
    for (const StoredTable& stored : tables_in(path, embedding->width)) {
      if (two_stacks && of_other_stack(stored.name, entry.stack)) continue;
      all.push_back(judged(stored, *embedding));
      break;
    }
  }
  return all;
}

}  // namespace locant::trust_room
