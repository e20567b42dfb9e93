// SPDX-License-Identifier: Apache-2.0
#include "check/fingerprints.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/sha256.h"
#include "facts/parts.h"
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

/// What a kind of files is read for its fingerprint.
class Fingerprints {
 public:
  explicit Fingerprints(const CheckQuery& query) : query_(query) {}

  /// Config, tokenizers and weights of one model.
  void add_model(const ModelSpec& spec, const std::string& weights) {
    if (spec.format == "gguf") {
      const GgufFile file(spec.path);
      add_weights(file, file.tensors());
      if (file.tensors().empty()) add(EvidenceKind::files, spec.path, kWhole);
      return;
    }
    add(EvidenceKind::files, spec.path, kWhole);
    std::error_code error;
    const fs::path folder = fs::path(spec.path).parent_path();
    for (const char* const name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
      const std::string path = (folder / name).string();
      if (fs::is_regular_file(path, error)) add(EvidenceKind::files, path, kWhole);
    }
    const std::string path = weights.empty() ? weights : weights_in(weights);
    if (path.empty() || path.ends_with(".gguf")) return;
    const SafetensorsFile file(path);
    add_weights(file, file.tensors());
  }

  /// A trace is data: it is read for its fingerprint only where that is asked for.
  void add_trace(const std::string& path) {
    if (query_.hash != HashScope::whole) {
      items_.push_back({EvidenceKind::trace, path, {}});
      return;
    }
    std::error_code error;
    if (!fs::is_directory(path, error)) return add(EvidenceKind::trace, path, kWhole);
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file(error)) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) add(EvidenceKind::trace, file, kWhole);
  }

  [[nodiscard]] std::vector<EvidenceItem> items() && { return std::move(items_); }

 private:
  void add(EvidenceKind kind, const std::string& path, std::int64_t bytes) {
    const auto same = [&](const EvidenceItem& item) { return item.path == path; };
    if (std::any_of(items_.begin(), items_.end(), same)) return;
    if (query_.progress && query_.hash == HashScope::whole) query_.progress("fingerprint of " + path);
    items_.push_back({kind, path, digest(path, bytes)});
  }

  template <class File, class Tensors>
  void add_weights(const File& file, const Tensors& tensors) {
    std::vector<std::string> paths;
    for (const auto& tensor : tensors) {
      if (std::find(paths.begin(), paths.end(), tensor.path) == paths.end()) paths.push_back(tensor.path);
    }
    for (const std::string& path : paths)
      add(EvidenceKind::files, path, query_.hash == HashScope::whole ? kWhole : header_bytes(file, path));
  }

  const CheckQuery& query_;
  std::vector<EvidenceItem> items_;
};

}  // namespace

std::vector<EvidenceItem> fingerprints(const CheckQuery& query) {
  Fingerprints prints(query);
  if (query.spec != nullptr) prints.add_model(*query.spec, query.weights);
  if (query.against != nullptr) prints.add_model(*query.against, query.against_weights);
  for (const std::string& trace : query.traces) prints.add_trace(trace);
  std::vector<EvidenceItem> items = std::move(prints).items();
  if (query.runtime != nullptr) items.push_back({EvidenceKind::live, query.runtime->name(), {}});
  return items;
}

}  // namespace locant::check_room
