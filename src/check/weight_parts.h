// SPDX-License-Identifier: Apache-2.0
// The weights of a model by their places: whole tensors, and q, k and v as parts of a fused one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check/weight.h"
#include "check/weight_names.h"
#include "locant/spec.h"

namespace locant::check_room {

/// Which rows of a stored tensor a part has: row r stands at first + (r / run) * step + r % run.
struct Split {
  std::int64_t first = 0;
  std::int64_t run = 1;
  std::int64_t step = 1;
  [[nodiscard]] std::int64_t stored(std::int64_t row) const noexcept {
    return first + row / run * step + row % run;
  }
};

/// How q, k and v stand in one tensor.
enum class Fusion : std::uint8_t {
  none,
  thirds,    ///< all rows of q, then those of k, then those of v
  per_head,  ///< q, k and v of a head together (GPT-NeoX, BLOOM)
  grouped,   ///< the queries of a key head, then its k and v (Falcon, InternLM2)
};

/// Heads of a layer's fused tensor.
struct FusedHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  [[nodiscard]] std::int64_t rows() const noexcept { return (heads + 2 * kv_heads) * head_dim; }
};

struct Part {
  Place place{};
  const Weight* weight = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;  ///< stored as [in, out]; rows of the part are columns of the tensor
  Split split{};
  Fusion fusion = Fusion::none;
  FusedHeads fused{};

  /// `count` elements of a stored row, from `column` on.
  void read_stored(std::int64_t stored_row, std::int64_t column, std::int64_t count, float* out) const;
  void read(std::int64_t row, std::int64_t column, std::int64_t count, float* out) const {
    read_stored(split.stored(row), column, count, out);
  }
  /// As Weight::rounding().
  [[nodiscard]] double rounding(std::int64_t stored_row, std::int64_t column, std::int64_t count,
                                const float* values) const;
};

/// Rows of q (part 0), k (1) or v (2).
[[nodiscard]] Split split_of(Fusion fusion, const FusedHeads& heads, std::int64_t part) noexcept;

/// Everything that one file holds. Tensors are sorted by name.
class WeightFiles {
 public:
  /// A .safetensors or .gguf file, an index or a directory. Throws FileError.
  WeightFiles(const ModelSpec& spec, const std::string& path);
  WeightFiles(const WeightFiles&) = delete;
  WeightFiles& operator=(const WeightFiles&) = delete;

  [[nodiscard]] const ModelSpec& spec() const noexcept { return *spec_; }
  [[nodiscard]] bool is_gguf() const noexcept { return gguf_.has_value(); }
  [[nodiscard]] const std::optional<GgufFile>& gguf() const noexcept { return gguf_; }
  [[nodiscard]] const std::vector<Weight>& all() const noexcept { return all_; }
  /// Null when there is none.
  [[nodiscard]] const Weight* named(std::string_view name) const noexcept;
  [[nodiscard]] std::optional<Place> place_of(const Weight& weight) const;
  /// The whole tensor in the orientation of its place.
  [[nodiscard]] Part part_of(const Weight& weight) const;
  /// part_of(), and for fused q, k, v the three of them where the rows fit.
  [[nodiscard]] std::vector<Part> parts_of(const Weight& weight) const;
  /// The only tensor at a place outside the layers.
  [[nodiscard]] const Weight* at(std::string_view role, std::string_view ending = "weight") const noexcept;
  [[nodiscard]] FusedHeads heads() const noexcept;

 private:
  const ModelSpec* spec_;
  std::optional<SafetensorsFile> safetensors_;
  std::optional<GgufFile> gguf_;
  std::vector<Weight> all_;
  std::vector<std::optional<Place>> places_;  ///< [all]
};

/// Opens the weights at `path`; nothing when the path holds none.
[[nodiscard]] std::unique_ptr<WeightFiles> open_weights(const ModelSpec& spec, const std::string& path);

}  // namespace locant::check_room
