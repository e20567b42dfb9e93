// SPDX-License-Identifier: Apache-2.0
#include "model/bind_layer.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace locant {

Linear Places::linear(const std::string& name, std::int64_t out, std::int64_t in, bool biased) {
  Linear linear{.weight = tensors.matrix(name + ".weight", out, in, names.linear), .bias = {}};
  if (has_bias(name, biased)) linear.bias = tensors.vector(name + ".bias", {{out}});
  return linear;
}

Linear Places::linear_if_biased(const std::string& name, std::int64_t out, std::int64_t in) {
  return linear(name, out, in, tensors.has(name + ".bias"));
}

NormWeights Places::norm(const std::string& name, const NormSpec& norm, std::int64_t size) {
  NormWeights weights;
  if (norm.gain) weights.gain = tensors.vector(name + ".weight", {{size}}, norm.gain_offset);
  if (norm.kind == NormKind::layer && norm.bias) weights.bias = tensors.vector(name + ".bias", {{size}});
  return weights;
}

namespace {

// Gate and up halves of one matrix and its bias.
struct Halves {
  Linear gate;
  Linear up;
};

Halves split_halves(Tensors& tensors, const Linear& fused, GateLayout layout) {
  const std::int64_t width = fused.weight.rows / 2;
  Halves halves;
  if (layout == GateLayout::interleaved) {
    halves = {{alternate_rows(fused.weight, 0), {}}, {alternate_rows(fused.weight, 1), {}}};
    if (!fused.bias.empty()) {
      halves.gate.bias = tensors.every(fused.bias, 0, 2);
      halves.up.bias = tensors.every(fused.bias, 1, 2);
    }
    return halves;
  }
  halves = {{rows_of(fused.weight, 0, width), {}}, {rows_of(fused.weight, width, width), {}}};
  if (!fused.bias.empty()) {
    halves.gate.bias = fused.bias.rows(0, width);
    halves.up.bias = fused.bias.rows(width, width);
  }
  if (layout == GateLayout::up_first) std::swap(halves.gate, halves.up);
  return halves;
}

class LayerBinder {
 public:
  LayerBinder(Places& places, const StackShape& shape, const LayerPlace& place)
      : places_(places), spec_(places.spec), names_(places.names), shape_(shape), place_(place) {}

  LayerWeights bind() {
    LayerWeights layer;
    const BlockSpec& block = spec_.block;
    const bool first = place_.index == 0;
    if (block.attention.before && (block.first_norm || !first))
      layer.attention_norm = norm(names_.attention_norm);
    if (block.attention.after) layer.attention_after = norm(names_.attention_after);
    if (block.attention.sum) layer.attention_sum = norm(names_.attention_sum);
    layer.attention = attention();
    if (shape_.crosses) {
      layer.cross_norm = norm(names_.cross_norm);
      layer.cross = cross();
    }
    const auto own = [&](std::string_view encoders, std::string_view shared) {
      return shape_.is_encoder && !encoders.empty() ? encoders : shared;
    };
    if (block.mlp.before && block.branches != Branches::shared_norm)
      layer.mlp_norm = norm(own(names_.encoder_mlp_norm, names_.mlp_norm));
    if (block.mlp.after) layer.mlp_after = norm(names_.mlp_after);
    if (block.mlp.sum) layer.mlp_sum = norm(own(names_.encoder_mlp_norm, names_.mlp_sum));
    const auto& with = spec_.experts.layers;
    if (spec_.experts.count > 0 && static_cast<std::size_t>(place_.index) < with.size() &&
        with[static_cast<std::size_t>(place_.index)]) {
      layer.experts = experts();
    } else {
      layer.mlp = mlp({own(names_.encoder_gate, names_.gate), own(names_.encoder_up, names_.up),
                       own(names_.encoder_down, names_.down)});
    }
    return layer;
  }

 private:
  [[nodiscard]] std::string name(std::string_view part) const {
    return places_.tensors.pick(place_.at, part);
  }
  NormWeights norm(std::string_view part) { return places_.norm(name(part), spec_.norm, spec_.hidden); }

  // Three matrices of one tensor that holds them one after another.
  void split_thirds(AttentionWeights& weights, const std::array<std::int64_t, 3>& rows) {
    const Linear fused = weights.qkv[0];
    std::int64_t first = 0;
    for (std::size_t part = 0; part < rows.size(); ++part) {
      weights.qkv.at(part).weight = rows_of(fused.weight, first, rows.at(part));
      if (!fused.bias.empty()) weights.qkv.at(part).bias = fused.bias.rows(first, rows.at(part));
      first += rows.at(part);
    }
  }

  AttentionWeights attention() {
    AttentionWeights weights;
    const ProjectionBiases& biases = spec_.block.biases;
    const std::int64_t q_rows = shape_.heads * spec_.head_dim;
    const std::int64_t kv_rows = shape_.kv_heads * spec_.head_dim;
    std::int64_t mixed = q_rows;
    if (spec_.latent.kv_rank > 0) {
      weights.latent = latent();
      mixed = shape_.heads * spec_.latent.value_width;
    } else if (names_.qkv_layout == QkvLayout::separate) {
      const std::array<bool, 3> biased = {biases.q, biases.k, biases.v};
      for (std::size_t part = 0; part < 3; ++part) {
        weights.qkv.at(part) = places_.linear(name(names_.qkv.at(part)), part == 0 ? q_rows : kv_rows,
                                              spec_.hidden, biased.at(part));
      }
    } else {
      weights.qkv[0] = places_.linear(name(names_.qkv[0]), q_rows + 2 * kv_rows, spec_.hidden, biases.q);
      if (names_.qkv_layout == QkvLayout::thirds) {
        split_thirds(weights, {q_rows, kv_rows, kv_rows});
      } else {
        weights.layout = names_.qkv_layout;
      }
    }
    weights.q_norm = qk_norm(names_.q_norm, shape_.heads);
    weights.k_norm = qk_norm(names_.k_norm, shape_.kv_heads);
    if (spec_.attention[static_cast<std::size_t>(place_.index)].sinks && !shape_.is_encoder)
      weights.sinks = places_.tensors.vector(name(names_.sinks), {{shape_.heads}});
    weights.out = places_.linear(name(names_.attention_out), spec_.hidden, mixed, biases.out);
    return weights;
  }

  // A name with {} in it is one vector for each head.
  NormWeights qk_norm(std::string_view part, std::int64_t heads) {
    const QkNormSpec& qk = spec_.block.qk_norm;
    if (qk.kind == QkNorm::none || !qk.norm.gain) return {};
    const std::int64_t width = spec_.head_dim;
    if (qk.kind != QkNorm::own_heads)
      return places_.norm(name(part), qk.norm, qk.kind == QkNorm::head ? width : heads * width);
    if (part.find("{}") == std::string_view::npos) {
      NormWeights norm;
      norm.gain = places_.tensors.vector(name(part) + ".weight", {{heads, width}, {heads * width}},
                                         qk.norm.gain_offset);
      return norm;
    }
    std::vector<View<const float, 1>> gains;
    std::vector<View<const float, 1>> biases;
    for (std::int64_t head = 0; head < heads; ++head) {
      const NormWeights one = places_.norm(fmt::format(fmt::runtime(name(part)), head), qk.norm, width);
      gains.push_back(one.gain);
      if (!one.bias.empty()) biases.push_back(one.bias);
    }
    return {places_.tensors.joined(gains),
            biases.empty() ? View<const float, 1>() : places_.tensors.joined(biases)};
  }

  LatentWeights latent() {
    const LatentSpec& spec = spec_.latent;
    const LatentNames& names = names_.latent;
    const std::int64_t q_rows = shape_.heads * spec_.head_dim;
    const bool biased = spec_.block.biases.q;
    LatentWeights weights;
    if (spec.q_rank == 0) {
      weights.q = places_.linear(name(names.q), q_rows, spec_.hidden);
    } else {
      weights.q_down = places_.linear(name(names.q_down), spec.q_rank, spec_.hidden, biased);
      weights.q_norm = places_.norm(name(names.q_norm), spec_.norm, spec.q_rank);
      weights.q_up = places_.linear(name(names.q_up), q_rows, spec.q_rank);
    }
    weights.kv_down = places_.linear(name(names.kv_down), spec.kv_rank + spec.rotating, spec_.hidden, biased);
    weights.kv_norm = places_.norm(name(names.kv_norm), spec_.norm, spec.kv_rank);
    if (names.kv_up.empty()) {
      weights.kv_up.weight = grown_in_parts();
    } else {
      weights.kv_up =
          places_.linear(name(names.kv_up), shape_.heads * (spec.still + spec.value_width), spec.kv_rank);
    }
    return weights;
  }

  // Keys' matrices are stored the other way round, to be multiplied with queries.
  Matrix grown_in_parts() {
    const LatentSpec& spec = spec_.latent;
    const std::vector<Matrix> keys = places_.tensors.stacked(
        name(names_.latent.k_up) + ".weight", shape_.heads, {spec.kv_rank, spec.still}, LinearLayout::in_out);
    const std::vector<Matrix> values =
        places_.tensors.stacked(name(names_.latent.v_up) + ".weight", shape_.heads,
                                {spec.value_width, spec.kv_rank}, LinearLayout::out_in);
    std::vector<Matrix> parts;
    for (std::size_t head = 0; head < keys.size(); ++head) {
      parts.push_back(keys[head]);
      parts.push_back(values[head]);
    }
    return places_.tensors.joined(parts);
  }

  AttentionWeights cross() {
    AttentionWeights weights;
    const ProjectionBiases& biases = spec_.block.biases;
    const std::int64_t rows = shape_.heads * spec_.head_dim;
    const std::array<bool, 3> biased = {biases.q, biases.k, biases.v};
    for (std::size_t part = 0; part < 3; ++part) {
      weights.qkv.at(part) = places_.linear(name(names_.cross.at(part)), rows, spec_.hidden, biased.at(part));
    }
    weights.out = places_.linear(name(names_.cross[3]), spec_.hidden, rows, biases.out);
    return weights;
  }

  MlpWeights mlp(const std::array<std::string_view, 3>& parts) {
    const std::int64_t width = shape_.mlp_width;
    const bool biased = spec_.mlp.bias;
    MlpWeights weights;
    if (spec_.mlp.gated && names_.gates != GateLayout::separate) {
      const Linear fused = places_.linear(name(parts[1]), 2 * width, spec_.hidden, biased);
      Halves halves = split_halves(places_.tensors, fused, names_.gates);
      weights.gate = halves.gate;
      weights.up = halves.up;
    } else {
      if (spec_.mlp.gated) weights.gate = places_.linear(name(parts[0]), width, spec_.hidden, biased);
      weights.up = places_.linear(name(parts[1]), width, spec_.hidden, biased);
    }
    weights.down = places_.linear(name(parts[2]), spec_.hidden, width, biased);
    return weights;
  }

  ExpertWeights experts() {
    const ExpertsSpec& spec = spec_.experts;
    const ExpertNames& names = names_.experts;
    ExpertWeights weights;
    weights.router = places_.linear(name(names.router), spec.count, spec_.hidden, spec.router_bias);
    if (spec.correction)
      weights.correction = places_.tensors.vector(name(names.correction), {{spec.count}, {1, spec.count}});
    weights.experts = names.layout == ExpertLayout::separate ? separate_experts() : stacked_experts();
    if (spec.shared_width > 0) {
      const auto shared = [&](std::size_t part) {
        return name(names.shared) + std::string(names.shared_parts.at(part));
      };
      weights.shared.gate = places_.linear(shared(0), spec.shared_width, spec_.hidden);
      weights.shared.up = places_.linear(shared(1), spec.shared_width, spec_.hidden);
      weights.shared.down = places_.linear(shared(2), spec_.hidden, spec.shared_width);
      if (spec.shared_gate)
        weights.shared_gate = places_.linear(name(names.shared_gate_name), 1, spec_.hidden);
    }
    return weights;
  }

  std::vector<MlpWeights> separate_experts() {
    const ExpertsSpec& spec = spec_.experts;
    const ExpertNames& names = names_.experts;
    std::vector<MlpWeights> all;
    for (std::int64_t expert = 0; expert < spec.count; ++expert) {
      const std::string at = fmt::format("{}{}.", name(names.experts), expert);
      const auto part = [&](std::string_view what) { return at + std::string(what); };
      MlpWeights& weights = all.emplace_back();
      if (names.gates == GateLayout::separate) {
        weights.gate = places_.linear(part(names.gate), spec.width, spec_.hidden, spec.bias);
        weights.up = places_.linear(part(names.up), spec.width, spec_.hidden, spec.bias);
      } else {
        const Linear fused = places_.linear(part(names.up), 2 * spec.width, spec_.hidden, spec.bias);
        Halves halves = split_halves(places_.tensors, fused, names.gates);
        weights.gate = halves.gate;
        weights.up = halves.up;
      }
      weights.down = places_.linear(part(names.down), spec_.hidden, spec.width, spec.bias);
    }
    return all;
  }

  // One matrix of all experts, [out, in] each.
  std::vector<Linear> stacked(std::string_view part, std::int64_t out, std::int64_t in) {
    const ExpertNames& names = names_.experts;
    const auto layout =
        names.layout == ExpertLayout::stacked_in_out ? LinearLayout::in_out : LinearLayout::out_in;
    const std::string base = name(names.experts) + std::string(part);
    const std::string weight = base + std::string(names.weight_ending);
    const std::string bias = base + std::string(names.bias_ending);
    const Shape shape = layout == LinearLayout::in_out ? Shape{in, out} : Shape{out, in};
    std::vector<Linear> all;
    for (const Matrix& matrix : places_.tensors.stacked(weight, spec_.experts.count, shape, layout))
      all.push_back({.weight = matrix, .bias = {}});
    if (places_.describes_itself ? !places_.tensors.has(bias) : !spec_.experts.bias) return all;
    const View<const float, 1> biases = places_.tensors.vector(bias, {{spec_.experts.count, out}});
    for (std::size_t expert = 0; expert < all.size(); ++expert)
      all[expert].bias = biases.rows(static_cast<std::int64_t>(expert) * out, out);
    return all;
  }

  std::vector<MlpWeights> stacked_experts() {
    const ExpertsSpec& spec = spec_.experts;
    const ExpertNames& names = names_.experts;
    std::vector<MlpWeights> all(static_cast<std::size_t>(spec.count));
    if (names.gates == GateLayout::separate) {
      const std::vector<Linear> gates = stacked(names.gate, spec.width, spec_.hidden);
      const std::vector<Linear> ups = stacked(names.up, spec.width, spec_.hidden);
      for (std::size_t expert = 0; expert < all.size(); ++expert) {
        all[expert].gate = gates[expert];
        all[expert].up = ups[expert];
      }
    } else {
      const std::vector<Linear> fused = stacked(names.up, 2 * spec.width, spec_.hidden);
      for (std::size_t expert = 0; expert < all.size(); ++expert) {
        const Halves halves = split_halves(places_.tensors, fused[expert], names.gates);
        all[expert].gate = halves.gate;
        all[expert].up = halves.up;
      }
    }
    const std::vector<Linear> downs = stacked(names.down, spec_.hidden, spec.width);
    for (std::size_t expert = 0; expert < all.size(); ++expert) all[expert].down = downs[expert];
    return all;
  }

  Places& places_;
  const ModelSpec& spec_;
  const FamilyWeights& names_;
  const StackShape& shape_;
  const LayerPlace& place_;
};

}  // namespace

LayerWeights bind_layer(Places& places, const StackShape& shape, const LayerPlace& place) {
  return LayerBinder(places, shape, place).bind();
}

}  // namespace locant
