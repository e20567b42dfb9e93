// SPDX-License-Identifier: Apache-2.0
#include "check/fingerprints.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "core/sha256.h"
#include "locant/formats.h"

namespace locant::check_room {
namespace {

namespace fs = std::filesystem;

/// Of the first `bytes` of a file, or of all of it; a file that cannot be read any more has none.
std::string digest(const std::string& path, std::int64_t bytes) {
  std::ifstream in(path, std::ios::binary);
  Sha256 sha;
  std::array<char, 1U << 16U> piece{};
  while (in && bytes != 0) {
    const auto want =
        bytes < 0 ? piece.size() : std::min<std::size_t>(piece.size(), static_cast<std::size_t>(bytes));
    in.read(piece.data(), static_cast<std::streamsize>(want));
    const auto got = in.gcount();
    sha.add(std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(got))));
    if (bytes > 0) bytes -= got;
  }
  return in.bad() ? std::string() : sha.finish();
}

constexpr std::int64_t kWhole = -1;

/// Bytes in front of the first tensor's data.
std::int64_t header_bytes(const SafetensorsFile& file, const std::string& path) {
  std::int64_t first = kWhole;
  for (const StoredTensor& stored : file.tensors()) {
    if (stored.path == path && (first < 0 || stored.file_offset < first)) first = stored.file_offset;
  }
  return first;
}

std::int64_t header_bytes(const GgufFile& file, const std::string& path) {
  std::int64_t first = kWhole;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.path == path && (first < 0 || tensor.file_offset < first)) first = tensor.file_offset;
  }
  return first;
}

template <class File, class Tensors>
void add_weights(const File& file, const Tensors& tensors, std::vector<EvidenceItem>& items) {
  std::vector<std::string> paths;
  for (const auto& tensor : tensors) {
    if (std::find(paths.begin(), paths.end(), tensor.path) == paths.end()) paths.push_back(tensor.path);
  }
  for (const std::string& path : paths)
    items.push_back({EvidenceKind::files, path, digest(path, header_bytes(file, path))});
}

}  // namespace

std::vector<EvidenceItem> fingerprints(const CheckQuery& query, const Evidence& evidence) {
  std::vector<EvidenceItem> items;
  if (query.spec != nullptr) {
    std::error_code error;
    const bool gguf = query.spec->format == "gguf";
    if (!gguf) items.push_back({EvidenceKind::files, query.spec->path, digest(query.spec->path, kWhole)});
    const fs::path folder = fs::path(query.spec->path).parent_path();
    for (const char* const name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
      const std::string path = (folder / name).string();
      if (!gguf && fs::is_regular_file(path, error))
        items.push_back({EvidenceKind::files, path, digest(path, kWhole)});
    }
    if (gguf) {
      const GgufFile file(query.spec->path);
      add_weights(file, file.tensors(), items);
    } else if (evidence.weights) {
      add_weights(*evidence.weights, evidence.weights->tensors(), items);
    }
  }
  for (const std::string& trace : query.traces) items.push_back({EvidenceKind::trace, trace, {}});
  if (query.runtime != nullptr) items.push_back({EvidenceKind::live, query.runtime->name(), {}});
  return items;
}

}  // namespace locant::check_room
