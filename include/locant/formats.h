// SPDX-License-Identifier: Apache-2.0
// Files at the edge: numpy arrays and tensors in safetensors form, read with every byte distrusted,
// written atomically (a temporary file beside the target, then a rename; /dev/... is written directly).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"

namespace locant {

// ---------------------------------------------------------------------------------------------
// Whole files

/// The bytes of a file ("-" = standard input). FileError when missing, a directory, or > limit bytes.
[[nodiscard]] std::string read_file(const std::string& path, std::int64_t limit = 1LL << 30);

/// Writes `bytes` to `path`, atomically. FileError when the directory is missing, the path is a
/// directory, or the medium is full; then nothing is left behind.
void write_file(const std::string& path, std::string_view bytes);

/// Throws the FileError that write_file(path) would, without writing: long work asks this first.
void check_writable(const std::string& path);

// ---------------------------------------------------------------------------------------------
// numpy .npy (versions 1.0, 2.0, 3.0; C and Fortran order; little-endian)

struct NpyArray {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  ///< C order
  /// Any integer dtype as int64; SpecError "who: rule, what we got" for floats.
  [[nodiscard]] std::vector<std::int64_t> as_int64(std::string_view who) const;
};
[[nodiscard]] NpyArray read_npy(const std::string& path);
/// Any strides; bf16 has no numpy dtype and is a SpecError.
void write_npy(const std::string& path, const TensorRef& tensor);

// ---------------------------------------------------------------------------------------------
// safetensors: 8 bytes of header length, JSON, data. https://github.com/huggingface/safetensors

struct StoredTensor {
  std::string name;
  TensorRef tensor;              ///< points into the mapping; may be unaligned for its dtype
  std::int64_t file_offset = 0;  ///< first byte in `path`
  std::string path;
};

/// One file, or the shards of an index, mapped read-only. Copies share the mapping.
class SafetensorsFile {
 public:
  /// `path` is a .safetensors file or a model.safetensors.index.json. Validates everything before
  /// returning: header length, JSON, duplicate names, dtypes, shapes whose product overflows, offsets that
  /// are out of range, overlap, leave holes or do not fit the shape. Throws FileError.
  explicit SafetensorsFile(const std::string& path);

  [[nodiscard]] std::span<const StoredTensor> tensors() const noexcept;  ///< sorted by name
  [[nodiscard]] const StoredTensor* find(std::string_view name) const noexcept;
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& metadata() const noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept;  ///< of all mapped files

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Writes a safetensors file in bounded memory: add() appends data to a spool beside `path`, finish()
/// puts the header in front and renames. An unfinished writer leaves nothing behind.
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(std::string path);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  /// Any strides. SpecError for a name added twice.
  void add(std::string_view name, const TensorRef& tensor);
  void set_metadata(std::string_view key, std::string_view value);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locant
