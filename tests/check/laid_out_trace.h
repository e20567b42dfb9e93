// SPDX-License-Identifier: Apache-2.0
// One made-up run written in many layouts: padding on either side or none, a prompt in pieces, dtypes,
// repeated tables, missing axes, masks of any size, channels of a head in another order. What a tensor holds
// follows from its name, row, token, head and channel alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "check/record_floats.h"
#include "core/temp_dir.h"
#include "locant/trace.h"

namespace locant::tests {

struct Layout {
  std::vector<std::int64_t> lengths{9, 6};
  bool left = true;  ///< side of the padding
  bool with_mask = true;
  std::vector<std::int64_t> pieces{};  ///< columns of each pass; empty = one pass
  DType dtype = DType::f32;
  int repeat = 0;                ///< of table columns: 0 none, 1 halves, 2 each twice
  bool table_by_row = true;      ///< [B, T, r], else [T, r]
  bool positions_by_row = true;  ///< [B, T], else [1, T]
  double hidden = -INFINITY;     ///< score of a key that is not seen
  bool last_logits = false;      ///< [B, 1, V]
  bool interleaved = false;      ///< q and k of a model whose pairs stand in halves
  bool bias_by_head = true;      ///< [B, heads, T, S], else one batch row
  std::int64_t spare_slots = 0;  ///< of the cache, behind the last
  double score_constant = 0;     ///< added to all scores of a query, times its place
  /// Changes one value: (name, row, token, head, channel) -> what is added.
  std::function<double(const std::string&, std::int64_t, std::int64_t, std::int64_t, std::int64_t)> change{};
};

class LaidOutTrace {
 public:
  static constexpr std::int64_t kHeads = 4;
  static constexpr std::int64_t kKeyHeads = 2;
  static constexpr std::int64_t kHeadDim = 12;
  static constexpr std::int64_t kHidden = 40;
  static constexpr std::int64_t kVocab = 50;

  explicit LaidOutTrace(Layout layout) : made_(std::move(layout)) { write(); }
  [[nodiscard]] std::string path() const { return folder_.file("t.safetensors"); }

 private:
  /// Evenly spread in [-1, 1), the same on every machine.
  static double drawn(const std::string& name, std::int64_t a, std::int64_t b, std::int64_t c,
                      std::int64_t d) {
    std::uint64_t state = 0x9E3779B97F4A7C15ULL;
    const auto mix = [&](std::uint64_t value) {
      state = (state ^ value) * 0xBF58476D1CE4E5B9ULL;
      state ^= state >> 29U;
    };
    for (const char letter : name) mix(static_cast<std::uint64_t>(letter));
    for (const std::int64_t number : {a, b, c, d}) mix(static_cast<std::uint64_t>(number) + 1);
    return static_cast<double>(state >> 11U) / static_cast<double>(1ULL << 52U) - 1;
  }
  [[nodiscard]] double value(const std::string& name, std::int64_t row, std::int64_t token, std::int64_t head,
                             std::int64_t channel) const {
    const double changed = made_.change ? made_.change(name, row, token, head, channel) : 0;
    return drawn(name, row, token, head, channel) + changed;
  }

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(made_.lengths.size()); }
  [[nodiscard]] std::int64_t longest() const {
    return *std::max_element(made_.lengths.begin(), made_.lengths.end());
  }
  /// Content before a column, or -1 in padding.
  [[nodiscard]] std::int64_t content(std::int64_t row, std::int64_t column) const {
    const std::int64_t length = made_.lengths[static_cast<std::size_t>(row)];
    const std::int64_t at = made_.left ? column - (longest() - length) : column;
    return at >= 0 && at < length ? at : -1;
  }

  void put(TraceWriter& writer, const std::string& name, const std::vector<double>& values,
           const std::vector<std::int64_t>& shape) const {
    record_floats(writer, name, {values, shape, made_.dtype});
  }

  void write() {
    TraceOptions options;
    options.producer = "test";
    options.dtype = made_.dtype;
    TraceWriter writer(path(), options);
    std::vector<std::int64_t> pieces = made_.pieces;
    if (pieces.empty()) pieces = {longest()};
    std::int64_t first = 0;
    for (const std::int64_t columns : pieces) {
      if (first > 0) writer.begin_pass();
      write_pass(writer, first, columns);
      first += columns;
    }
    writer.finish();
  }

  void write_pass(TraceWriter& writer, std::int64_t first, std::int64_t columns) const {
    const std::int64_t all = first + columns;
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> mask;
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t column = first; column < all; ++column) {
        const std::int64_t at = content(row, column);
        ids.push_back(at < 0 ? 0 : 1 + (at * 7 + row * 13) % (kVocab - 1));
        if (made_.positions_by_row || row == 0) places.push_back(std::max<std::int64_t>(at, 0));
      }
      for (std::int64_t column = 0; column < all; ++column) mask.push_back(content(row, column) < 0 ? 0 : 1);
    }
    writer.record("input_ids", TensorRef(ids.data(), DType::i64, {rows(), columns}));
    writer.record("position_ids",
                  TensorRef(places.data(), DType::i64, {made_.positions_by_row ? rows() : 1, columns}));
    if (made_.with_mask) writer.record("attention_mask", TensorRef(mask.data(), DType::i64, {rows(), all}));
    write_tokens(writer, first, columns);
    write_tables(writer, first, columns);
    write_cache(writer, all);
    write_keys(writer, first, columns);
  }

  void write_tokens(TraceWriter& writer, std::int64_t first, std::int64_t columns) const {
    const auto fill = [&](const std::string& name, std::int64_t heads, std::int64_t width, bool permuted) {
      std::vector<double> values;
      const bool last = name == "logits" && made_.last_logits;
      for (std::int64_t row = 0; row < rows(); ++row) {
        for (std::int64_t column = last ? first + columns - 1 : first; column < first + columns; ++column) {
          const std::int64_t at = content(row, column);
          for (std::int64_t head = 0; head < heads; ++head) {
            for (std::int64_t i = 0; i < width; ++i) {
              const std::int64_t channel = permuted && made_.interleaved ? i / 2 + (i % 2) * (width / 2) : i;
              values.push_back(at < 0 ? NAN : value(name, row, at, head, channel));
            }
          }
        }
      }
      const std::int64_t tokens = last ? 1 : columns;
      if (heads > 1) {
        put(writer, name, values, {rows(), tokens, heads, width});
      } else {
        put(writer, name, values, {rows(), tokens, width});
      }
    };
    fill("embed.out", 1, kHidden, false);
    fill("layers.0.attn.q_pre", kHeads, kHeadDim, true);
    fill("layers.0.attn.k_pre", kKeyHeads, kHeadDim, true);
    fill("layers.0.attn.q", kHeads, kHeadDim, true);
    fill("layers.0.attn.k", kKeyHeads, kHeadDim, true);
    fill("layers.0.attn.v", kKeyHeads, kHeadDim, false);
    fill("layers.0.out", 1, kHidden, false);
    fill("final_norm.out", 1, kHidden, false);
    fill("logits", 1, kVocab, false);
    fill("unheard.of", 1, kHidden, false);
  }

  void write_tables(TraceWriter& writer, std::int64_t first, std::int64_t columns) const {
    constexpr std::int64_t kPairs = kHeadDim / 2;
    for (const char* const name : {"rope.cos", "rope.sin"}) {
      std::vector<double> values;
      for (std::int64_t row = 0; row < (made_.table_by_row ? rows() : 1); ++row) {
        for (std::int64_t column = first; column < first + columns; ++column) {
          const auto at = static_cast<double>(std::max<std::int64_t>(content(row, column), 0));
          const std::int64_t width = made_.repeat == 0 ? kPairs : 2 * kPairs;
          for (std::int64_t i = 0; i < width; ++i) {
            const std::int64_t pair = made_.repeat == 2 ? i / 2 : i % kPairs;
            const double angle =
                at * std::pow(10000.0, -static_cast<double>(pair) / static_cast<double>(kPairs));
            const double is = std::string(name) == "rope.cos" ? std::cos(angle) : std::sin(angle);
            values.push_back(
                is + (made_.change ? made_.change(name, row, static_cast<std::int64_t>(at), 0, pair) : 0));
          }
        }
      }
      const std::int64_t width = made_.repeat == 0 ? kPairs : 2 * kPairs;
      if (made_.table_by_row) {
        put(writer, name, values, {rows(), columns, width});
      } else {
        put(writer, name, values, {columns, width});
      }
    }
  }

  void write_cache(TraceWriter& writer, std::int64_t all) const {
    const std::int64_t slots = all + made_.spare_slots;
    for (const char* const name : {"layers.0.cache.k", "layers.0.cache.v"}) {
      std::vector<double> values;
      const bool permuted = std::string(name) == "layers.0.cache.k" && made_.interleaved;
      for (std::int64_t row = 0; row < rows(); ++row) {
        for (std::int64_t slot = 0; slot < slots; ++slot) {
          const std::int64_t at = slot < all ? content(row, slot) : -1;
          for (std::int64_t head = 0; head < kKeyHeads; ++head) {
            for (std::int64_t i = 0; i < kHeadDim; ++i) {
              const std::int64_t channel = permuted ? i / 2 + (i % 2) * (kHeadDim / 2) : i;
              values.push_back(at < 0 ? 0 : value(name, row, at, head, channel));
            }
          }
        }
      }
      put(writer, name, values, {rows(), slots, kKeyHeads, kHeadDim});
    }
  }

  void write_keys(TraceWriter& writer, std::int64_t first, std::int64_t columns) const {
    const std::int64_t all = first + columns;
    std::vector<double> scores;
    std::vector<double> probabilities;
    std::vector<double> bias;
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        for (std::int64_t column = first; column < all; ++column) {
          const std::int64_t query = content(row, column);
          for (std::int64_t other = 0; other < all; ++other) {
            const std::int64_t key = content(row, other);
            const bool sees = query >= 0 && key >= 0 && key <= query;
            const double constant = made_.score_constant * static_cast<double>(query);
            scores.push_back(sees ? value("layers.0.attn.scores", row, query, head, key) + constant
                                  : made_.hidden);
            probabilities.push_back(sees ? std::abs(value("layers.0.attn.probs", row, query, head, key)) : 0);
            // one row of biases stands for all where rows count alike
            if (made_.bias_by_head || row == 0)
              bias.push_back(0.25 * static_cast<double>(key - query) / static_cast<double>(head + 1));
          }
        }
      }
    }
    put(writer, "layers.0.attn.bias", bias, {made_.bias_by_head ? rows() : 1, kHeads, columns, all});
    put(writer, "layers.0.attn.scores", scores, {rows(), kHeads, columns, all});
    put(writer, "layers.0.attn.probs", probabilities, {rows(), kHeads, columns, all});
  }

  Layout made_;
  TempDir folder_;
};

}  // namespace locant::tests
