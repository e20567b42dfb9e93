// SPDX-License-Identifier: Apache-2.0
// Files at the edge: numpy arrays and tensors in safetensors form, read with every byte distrusted,
// written atomically (a temporary file beside the target, then a rename; /dev/... is written directly).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
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

// ---------------------------------------------------------------------------------------------
// GGUF versions 2 and 3, little-endian: metadata, tensor infos, data.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

/// The types that dequantize() knows: f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k,
/// q6_k, iq4_nl, iq4_xs, mxfp4.
[[nodiscard]] bool can_dequantize(GgmlType type) noexcept;

/// out[0, count) from the blocks that hold `count` elements, at any alignment; out overlaps nothing. Equal
/// bit for bit to the gguf package 0.19 for finite scales. SpecError for another type and for a count that is
/// negative or no multiple of block_elements(type).
void dequantize(GgmlType type, const void* blocks, std::int64_t count, float* out);

/// A metadata value's type, by the number that files hold; the order of GgufValue's alternatives.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
[[nodiscard]] std::string_view name_of(GgufType type) noexcept;  ///< "u32", "bool", "string", ...

using GgufBool = bool;  ///< one byte in the file, 0 or 1

/// The elements of an array, all of one type; an array of arrays may be ragged.
struct GgufArray {
  std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
               std::vector<float>, std::vector<bool>, std::vector<std::string>, std::vector<GgufArray>,
               std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>
      values;
  [[nodiscard]] GgufType element_type() const noexcept { return static_cast<GgufType>(values.index()); }
  [[nodiscard]] std::int64_t size() const noexcept;
};

/// One value of the metadata and where it stands. The getters throw the FileError that names the key, the
/// type that was wanted and the one that is there.
struct GgufValue {
  std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
               GgufBool, std::string, GgufArray, std::uint64_t, std::int64_t, double>
      value;
  std::string key;
  std::string path;
  std::int64_t file_offset = 0;  ///< first byte of the value in `path`

  [[nodiscard]] GgufType type() const noexcept { return static_cast<GgufType>(value.index()); }
  [[nodiscard]] std::int64_t as_int64() const;  ///< any integer type, below 2^63
  [[nodiscard]] double as_double() const;       ///< f32 or f64, exact
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] const std::string& as_string() const;  ///< the bytes as stored; utf-8 by rule, not checked
  [[nodiscard]] const GgufArray& as_array() const;
  [[nodiscard]] std::vector<std::int64_t> as_int64s() const;         ///< an array of any integer type
  [[nodiscard]] std::vector<double> as_doubles() const;              ///< an array of f32 or f64, exact
  [[nodiscard]] const std::vector<std::string>& as_strings() const;  ///< an array of strings
};

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;   ///< rows first, as numpy counts; the file holds it reversed
  std::span<const std::byte> bytes;  ///< points into the mapping; may be unaligned
  std::int64_t file_offset = 0;      ///< first byte in `path`
  std::string path;
  [[nodiscard]] std::int64_t size() const noexcept;                ///< elements
  [[nodiscard]] std::optional<TensorRef> tensor() const noexcept;  ///< none for a type of blocks
};

/// One file, or all parts of a split one, mapped read-only. Copies share the mapping.
class GgufFile {
 public:
  /// `path` is a .gguf file, or any part NAME-00001-of-00003.gguf of a split one, whose parts stand beside
  /// each other; keys that several parts have are those of the first. Validates everything before returning:
  /// counts, lengths, types, duplicate keys and names, the alignment, shapes whose size overflows or is no
  /// whole number of blocks, tensors out of range or over each other. Throws FileError.
  explicit GgufFile(const std::string& path);

  [[nodiscard]] std::int64_t version() const noexcept;                 ///< of the first part: 2 or 3
  [[nodiscard]] std::int64_t alignment() const noexcept;               ///< of the first part, in bytes
  [[nodiscard]] std::span<const GgufTensor> tensors() const noexcept;  ///< sorted by name
  [[nodiscard]] const GgufTensor* find(std::string_view name) const noexcept;
  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& metadata() const noexcept;
  [[nodiscard]] const GgufValue* find_value(std::string_view key) const noexcept;
  [[nodiscard]] const GgufValue& value(std::string_view key) const;  ///< FileError when there is none
  [[nodiscard]] std::int64_t bytes() const noexcept;                 ///< of all mapped files

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace locant
