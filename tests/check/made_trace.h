// SPDX-License-Identifier: Apache-2.0
// Traces made by hand from a config: random tensors, the plan's own arithmetic in double, and faults put in
// on purpose. Nothing here is the checker's code, nor the kernels'.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check/record_floats.h"
#include "core/temp_dir.h"
#include "locant/check.h"
#include "locant/formats.h"
#include "locant/positions.h"
#include "locant/trace.h"

namespace locant::tests {

using Json = nlohmann::json;

/// What is recorded, and what is done wrong. Every function has the right answer as its default.
struct Recording {
  Json config;
  std::vector<std::int64_t> lengths{24};  ///< content of each row, padded on the left to the longest
  std::int64_t steps = 0;                 ///< decode passes of one token
  DType dtype = DType::f32;
  bool with_mask = false;
  bool with_ids = true;      ///< position_ids
  bool with_tables = false;  ///< rope.cos, rope.sin of layer 0
  bool with_q_pre = true;
  std::vector<std::int64_t> documents{};  ///< length of each document of row 0

  /// Position that a tensor ("q", "k", "ids", "table") of a layer uses for a token whose due position is
  /// given.
  struct Where {
    std::int64_t layer = 0;
    std::string tensor;
    std::int64_t step = 0;
    std::int64_t row = 0;
    std::int64_t token = 0;
    std::int64_t due = 0;
    std::int64_t pads = 0;
  };
  std::function<double(const Where&)> position = [](const Where& at) { return static_cast<double>(at.due); };
  /// Rotation of a layer, for "q", "k" or "table".
  std::function<void(Rotation&, std::int64_t, const std::string&)> rotation = [](Rotation&, std::int64_t,
                                                                                 const std::string&) {};
  std::function<double(double)> frequency = [](double inv_freq) { return inv_freq; };
  std::function<double(double)> angle = [](double radians) { return radians; };
  double rotations = 1;        ///< how often it is applied
  bool crossed_table = false;  ///< cos and sin laid out for the other pairing
  double scale = 1;            ///< factor on the plan's softmax scale
  std::function<double(double, std::int64_t)> slope = [](double due, std::int64_t) { return due; };
  /// Whether a query sees a key, given whether it ought to (columns of the row, padding counted).
  std::function<bool(bool, std::int64_t, std::int64_t, std::int64_t)> sees =
      [](bool due, std::int64_t, std::int64_t, std::int64_t) { return due; };
  double embedding_scale = 1;  ///< factor on the plan's
  double positions_times = 1;  ///< how often position rows are added
  std::int64_t zero_rows = 0;  ///< rows from this one on come out of a decoding rotation as zeros; 0 = none
  std::int64_t partner = 0;    ///< channels between the two of a half pair; 0 = as planned
  bool swapped_table = false;  ///< cos and sin change places
  double not_finite = 0;       ///< added to every cos of a table
  double sinusoid_times = 1;   ///< factor on sinusoid rows
  std::function<void(PositionEmbedding&)> sinusoid = [](PositionEmbedding&) {};  ///< another dialect
  std::int64_t row_offset = 0;                                                   ///< of the lookup
  bool head_from_embedding = false;
  double logit_factor = 1;
};

class MadeTrace {
 public:
  explicit MadeTrace(Recording recording) : made_(std::move(recording)), random_(7) { write(); }

  [[nodiscard]] CheckReport check(const std::string& recipe = "exact") const {
    CheckQuery query;
    query.spec = &spec_;
    query.weights = weights();
    query.traces = {path()};
    query.recipe = recipe;
    return locant::check(query);
  }
  [[nodiscard]] const ModelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::string path() const { return folder_.file("t.safetensors"); }
  [[nodiscard]] std::string weights() const { return folder_.file("model.safetensors"); }

 private:
  using Floats = std::vector<double>;

  Floats normal(std::size_t count, double deviation = 1) {
    std::normal_distribution<double> distribution(0, deviation);
    Floats values(count);
    for (double& value : values) value = rounded(distribution(random_));
    return values;
  }

  [[nodiscard]] double rounded(double value) const {
    const auto single = static_cast<float>(value);
    if (made_.dtype == DType::bf16) return static_cast<double>(f32_from(bfloat16_from_f32(single)));
    if (made_.dtype == DType::f16) return static_cast<double>(f32_from(half_from_f32(single)));
    return static_cast<double>(single);
  }

  void put(TraceWriter& writer, const std::string& name, const Floats& values,
           const std::vector<std::int64_t>& shape) const {
    record_floats(writer, name, {values, shape, made_.dtype});
  }

  static void put(TraceWriter& writer, const std::string& name, const std::vector<std::int64_t>& values,
                  std::int64_t rows, std::int64_t columns) {
    writer.record(name, TensorRef(values.data(), DType::i64, {rows, columns}));
  }

  void write() {
    const std::string config = folder_.file("config.json");
    write_file(config, made_.config.dump());
    spec_ = read_hf_config(config, Reading::facts);
    rows_ = static_cast<std::int64_t>(made_.lengths.size());
    longest_ = *std::max_element(made_.lengths.begin(), made_.lengths.end());
    write_weights();
    TraceOptions options;
    options.producer = "test";
    options.model = spec_.family;
    options.dtype = made_.dtype;
    TraceWriter writer(path(), options);
    keys_.assign(static_cast<std::size_t>(spec_.layers), {});
    for (std::int64_t step = 0; step <= made_.steps; ++step) {
      if (step > 0) writer.begin_pass();
      write_pass(writer, step);
    }
    writer.finish();
  }

  void write_weights() {
    table_ = normal(static_cast<std::size_t>(spec_.vocab * spec_.hidden), 0.3);
    head_ = spec_.head.tied ? table_ : normal(table_.size(), 0.3);
    SafetensorsWriter writer(weights());
    const std::vector<float> table(table_.begin(), table_.end());
    const std::vector<float> head(head_.begin(), head_.end());
    writer.add("model.embed_tokens.weight", TensorRef(table.data(), DType::f32, {spec_.vocab, spec_.hidden}));
    if (!spec_.head.tied)
      writer.add("lm_head.weight", TensorRef(head.data(), DType::f32, {spec_.vocab, spec_.hidden}));
    std::vector<float> places;
    const Plan plan = plan_at(longest_);
    for (const PositionEmbedding& embedding : plan.embedding) {
      if (embedding.form != EmbeddingForm::table) continue;
      places_ = normal(static_cast<std::size_t>(embedding.rows * embedding.width), 0.3);
      places.assign(places_.begin(), places_.end());
      writer.add("model.embed_positions.weight",
                 TensorRef(places.data(), DType::f32, {embedding.rows, embedding.width}));
    }
    writer.finish();
  }

  [[nodiscard]] Plan plan_at(std::int64_t seen) const {
    return plan(spec_.positions, find_recipe("exact"), Extent{.seen = seen});
  }

  [[nodiscard]] std::int64_t due(std::int64_t row, std::int64_t column) const {
    const std::int64_t pads = longest_ - made_.lengths[static_cast<std::size_t>(row)];
    std::int64_t position = column - pads;
    if (row == 0 && !made_.documents.empty()) {
      std::int64_t start = 0;
      for (const std::int64_t length : made_.documents) {
        if (position < start + length) return position - start;
        start += length;
      }
    }
    return position;
  }
  [[nodiscard]] bool content(std::int64_t row, std::int64_t column) const {
    return column >= longest_ - made_.lengths[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] std::int64_t document(std::int64_t column) const {
    std::int64_t start = 0;
    std::int64_t index = 0;
    for (const std::int64_t length : made_.documents) {
      start += length;
      if (column < start) return index;
      ++index;
    }
    return index;
  }
  [[nodiscard]] Recording::Where where(std::int64_t layer, const std::string& tensor, std::int64_t step,
                                       std::int64_t row, std::int64_t token) const {
    const std::int64_t column = step == 0 ? token : longest_ + step - 1;
    return {layer,
            tensor,
            step,
            row,
            token,
            due(row, column),
            longest_ - made_.lengths[static_cast<std::size_t>(row)]};
  }

  void write_pass(TraceWriter& writer, std::int64_t step) {
    const std::int64_t tokens = step == 0 ? longest_ : 1;
    const std::int64_t width = step == 0 ? longest_ : longest_ + step;
    const auto cells = static_cast<std::size_t>(rows_ * tokens);
    std::vector<std::int64_t> ids(cells);
    std::vector<std::int64_t> places(cells);
    std::uniform_int_distribution<std::int64_t> any(5, spec_.vocab - 6);
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        const auto at = static_cast<std::size_t>(row * tokens + token);
        ids[at] = any(random_);
        const std::int64_t column = step == 0 ? token : longest_ + step - 1;
        places[at] = content(row, column)
                         ? static_cast<std::int64_t>(made_.position(where(-1, "ids", step, row, token)))
                         : 0;
      }
    }
    put(writer, "input_ids", ids, rows_, tokens);
    if (made_.with_ids) put(writer, "position_ids", places, rows_, tokens);
    if (made_.with_mask) {
      std::vector<std::int64_t> mask;
      for (std::int64_t row = 0; row < rows_; ++row) {
        for (std::int64_t column = 0; column < width; ++column) mask.push_back(content(row, column) ? 1 : 0);
      }
      put(writer, "attention_mask", mask, rows_, width);
    }
    if (!made_.documents.empty()) {
      std::vector<std::int64_t> segments;
      for (std::int64_t token = 0; token < tokens; ++token) segments.push_back(document(token));
      put(writer, "segment_ids", segments, rows_, tokens);
    }
    write_embedding(writer, step, tokens, ids);
    const Plan plan = plan_at(width);
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer)
      write_layer(writer, step, tokens, width, layer,
                  plan.kinds[static_cast<std::size_t>(plan.layers[static_cast<std::size_t>(layer)])]);
    write_head(writer, tokens);
  }

  void write_embedding(TraceWriter& writer, std::int64_t step, std::int64_t tokens,
                       const std::vector<std::int64_t>& ids) {
    const auto hidden = static_cast<std::size_t>(spec_.hidden);
    Floats rows(ids.size() * hidden);
    Floats added(rows.size());
    Floats out(rows.size());
    const Plan plan = plan_at(longest_);
    for (std::size_t at = 0; at < ids.size(); ++at) {
      const auto row = static_cast<std::int64_t>(at) / tokens;
      const auto token = static_cast<std::int64_t>(at) % tokens;
      for (std::size_t i = 0; i < hidden; ++i)
        rows[at * hidden + i] = table_[static_cast<std::size_t>(ids[at] + made_.row_offset) * hidden + i];
      if (!places_.empty()) {
        const auto place = static_cast<std::size_t>(std::max<std::int64_t>(
            0, static_cast<std::int64_t>(made_.position(where(-1, "embedding", step, row, token))) +
                   plan.embedding.front().offset));
        for (std::size_t i = 0; i < hidden; ++i) added[at * hidden + i] = places_[place * hidden + i];
      }
      for (const PositionEmbedding& planned : plan.embedding) {
        if (planned.form != EmbeddingForm::sinusoid) continue;
        PositionEmbedding embedding = planned;
        made_.sinusoid(embedding);
        std::int64_t place =
            static_cast<std::int64_t>(made_.position(where(-1, "embedding", step, row, token)));
        std::vector<float> sines(hidden);
        sinusoid_rows(embedding, find_recipe("exact").numerics, {&place, {1}},
                      {sines.data(), {1, spec_.hidden}});
        for (std::size_t i = 0; i < hidden; ++i)
          added[at * hidden + i] = rounded(made_.sinusoid_times * static_cast<double>(sines[i]));
      }
      const double scale = rounded(spec_.embedding.scale) * made_.embedding_scale;
      for (std::size_t i = at * hidden; i < (at + 1) * hidden; ++i)
        out[i] = rounded(scale * rows[i] + made_.positions_times * added[i]);
    }
    const std::vector<std::int64_t> shape{rows_, tokens, spec_.hidden};
    put(writer, "embed.tokens", rows, shape);
    if (!plan.embedding.empty()) put(writer, "embed.positions", added, shape);
    put(writer, "embed.out", out, shape);
  }

  /// Of one token, all heads.
  void turn(const Rotation& rotation, double position, std::int64_t heads, const double* in,
            double* out) const {
    const std::int64_t head_dim = rotation.head_dim;
    const std::int64_t pairs = rotation.width / 2;
    for (std::int64_t head = 0; head < heads; ++head) {
      const double* const a = in + head * head_dim;
      double* const b = out + head * head_dim;
      for (std::int64_t i = 0; i < head_dim; ++i) b[i] = a[i];
      for (std::int64_t p = 0; p < pairs; ++p) {
        const bool half = rotation.read == Pairing::half;
        const std::int64_t first = rotation.offset + (half ? p : 2 * p);
        const std::int64_t span = made_.partner > 0 ? made_.partner : pairs;
        const std::int64_t second = rotation.offset + (half ? p + span : 2 * p + 1);
        const auto angle_of = [&](std::int64_t pair) {
          return rotation.sign * made_.rotations *
                 made_.angle(position * made_.frequency(rotation.inv_freq[static_cast<std::size_t>(pair)]));
        };
        const auto column = [&](std::int64_t channel) {
          if (!made_.crossed_table) return p;
          return half ? (channel - rotation.offset) / 2 : (channel - rotation.offset) % pairs;
        };
        const double one = angle_of(column(first));
        const double two = angle_of(column(second));
        const double amplitude = std::pow(rotation.amplitude, made_.rotations);
        b[first] = rounded(amplitude * (a[first] * std::cos(one) - a[second] * std::sin(one)));
        b[second] = rounded(amplitude * (a[second] * std::cos(two) + a[first] * std::sin(two)));
      }
    }
  }

  void write_layer(TraceWriter& writer, std::int64_t step, std::int64_t tokens, std::int64_t width,
                   std::int64_t layer, const LayerPositions& kind) {
    const std::int64_t head_dim = spec_.head_dim;
    std::map<std::string, Floats> after;
    for (const std::string tensor : {"q", "k"}) {
      const std::int64_t heads = tensor == "q" ? spec_.heads : spec_.kv_heads;
      const auto stride = static_cast<std::size_t>(heads * head_dim);
      const Floats before = normal(static_cast<std::size_t>(rows_ * tokens) * stride);
      Floats result = before;
      if (kind.rotation) {
        Rotation rotation = *kind.rotation;
        made_.rotation(rotation, layer, tensor);
        for (std::int64_t row = 0; row < rows_; ++row) {
          for (std::int64_t token = 0; token < tokens; ++token) {
            const std::size_t at = static_cast<std::size_t>(row * tokens + token) * stride;
            turn(rotation, made_.position(where(layer, tensor, step, row, token)), heads, before.data() + at,
                 result.data() + at);
          }
        }
        if (made_.zero_rows > 0 && step > 0) {
          const auto first =
              static_cast<std::ptrdiff_t>(static_cast<std::size_t>(made_.zero_rows * tokens) * stride);
          std::fill(result.begin() + first, result.end(), 0.0);
        }
        if (layer == 0 && tensor == "q" && made_.with_tables) write_table(writer, step, tokens, rotation);
      }
      const std::string name = "layers." + std::to_string(layer) + ".attn." + tensor;
      if (kind.rotation && made_.with_q_pre)
        put(writer, name + "_pre", before, {rows_, tokens, heads, head_dim});
      put(writer, name, result, {rows_, tokens, heads, head_dim});
      after[tensor] = std::move(result);
    }
    // the cache: keys of all columns so far
    Floats& cache = keys_[static_cast<std::size_t>(layer)];
    const auto stride = static_cast<std::size_t>(spec_.kv_heads * head_dim);
    Floats grown(static_cast<std::size_t>(rows_ * width) * stride);
    const auto past = static_cast<std::size_t>(width - tokens) * stride;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
      const std::size_t whole = static_cast<std::size_t>(width) * stride;
      std::copy_n(cache.begin() + static_cast<std::ptrdiff_t>(row * past), past,
                  grown.begin() + static_cast<std::ptrdiff_t>(row * whole));
      const std::size_t fresh = static_cast<std::size_t>(tokens) * stride;
      std::copy_n(after["k"].begin() + static_cast<std::ptrdiff_t>(row * fresh), fresh,
                  grown.begin() + static_cast<std::ptrdiff_t>(row * whole + past));
    }
    cache = std::move(grown);
    put(writer, "layers." + std::to_string(layer) + ".cache.k", cache,
        {rows_, width, spec_.kv_heads, head_dim});
    write_scores(writer, tokens, width, layer, kind, after["q"], cache);
  }

  void write_table(TraceWriter& writer, std::int64_t step, std::int64_t tokens,
                   const Rotation& rotation) const {
    const std::int64_t pairs = rotation.width / 2;
    Floats cos;
    Floats sin;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        const double position = made_.position(where(0, "table", step, row, token));
        for (std::int64_t column = 0; column < 2 * pairs; ++column) {
          const double angle =
              rotation.sign *
              made_.angle(position *
                          made_.frequency(rotation.inv_freq[static_cast<std::size_t>(column % pairs)]));
          const double c = rounded(rotation.amplitude * std::cos(angle) + made_.not_finite);
          const double n = rounded(rotation.amplitude * std::sin(angle));
          cos.push_back(made_.swapped_table ? n : c);
          sin.push_back(made_.swapped_table ? c : n);
        }
      }
    }
    put(writer, "rope.cos", cos, {rows_, tokens, 2 * pairs});
    put(writer, "rope.sin", sin, {rows_, tokens, 2 * pairs});
  }

  void write_scores(TraceWriter& writer, std::int64_t tokens, std::int64_t width, std::int64_t layer,
                    const LayerPositions& kind, const Floats& q, const Floats& k) const {
    const AttentionSpec& attention = spec_.attention[static_cast<std::size_t>(layer)];
    const std::int64_t heads = spec_.heads;
    const std::int64_t group = heads / spec_.kv_heads;
    const std::int64_t head_dim = spec_.head_dim;
    Floats scores;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t token = 0; token < tokens; ++token) {
          const std::int64_t query = width - tokens + token;
          for (std::int64_t key = 0; key < width; ++key) {
            double product = 0;
            for (std::int64_t i = 0; i < head_dim; ++i)
              product += q[static_cast<std::size_t>(((row * tokens + token) * heads + head) * head_dim + i)] *
                         k[static_cast<std::size_t>(
                             ((row * width + key) * spec_.kv_heads + head / group) * head_dim + i)];
            double score = attention.scale * made_.scale * product;
            if (kind.bias && kind.bias->form == BiasForm::slopes) {
              const double slope = kind.bias->slopes[static_cast<std::size_t>(head)] *
                                   (kind.bias->scale_order == ScaleOrder::before_scale ? attention.scale : 1);
              score += made_.slope(slope, head) * static_cast<double>(due(row, key) - due(row, query));
            }
            bool visible = content(row, key) && key <= query;
            if (attention.kind == AttentionKind::window) visible = visible && query - key < attention.window;
            if (!made_.documents.empty()) visible = visible && document(key) == document(query);
            scores.push_back(made_.sees(visible, row, query, key) ? rounded(score) : -INFINITY);
          }
        }
      }
    }
    put(writer, "layers." + std::to_string(layer) + ".attn.scores", scores, {rows_, heads, tokens, width});
  }

  void write_head(TraceWriter& writer, std::int64_t tokens) {
    const auto hidden = static_cast<std::size_t>(spec_.hidden);
    const Floats state = normal(static_cast<std::size_t>(rows_ * tokens) * hidden);
    const Floats& head = made_.head_from_embedding ? table_ : head_;
    Floats logits;
    for (std::size_t at = 0; at < static_cast<std::size_t>(rows_ * tokens); ++at) {
      for (std::size_t id = 0; id < static_cast<std::size_t>(spec_.vocab); ++id) {
        double sum = 0;
        for (std::size_t i = 0; i < hidden; ++i) sum += head[id * hidden + i] * state[at * hidden + i];
        logits.push_back(rounded(sum * spec_.head.scale * made_.logit_factor));
      }
    }
    put(writer, "final_norm.out", state, {rows_, tokens, spec_.hidden});
    put(writer, "logits", logits, {rows_, tokens, spec_.vocab});
  }

  Recording made_;
  std::mt19937_64 random_;
  TempDir folder_;
  ModelSpec spec_;
  std::int64_t rows_ = 0;
  std::int64_t longest_ = 0;
  Floats table_;
  Floats head_;
  Floats places_;
  std::vector<Floats> keys_;
};

}  // namespace locant::tests
