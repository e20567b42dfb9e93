// SPDX-License-Identifier: Apache-2.0
// From names to places: both ends of a model, its stacks, their layers.
#include <fmt/format.h>

#include <utility>

#include "model/bind_layer.h"

namespace locant {
namespace {

class Binder {
 public:
  Binder(const ModelSpec& spec, const StackPlans& plans, const FamilyWeights& names, Weights& weights,
         WeightStorage storage)
      : spec_(spec),
        plans_(plans),
        names_(names),
        weights_(weights),
        tensors_(spec, storage, weights),
        places_{spec, names, tensors_, weights.source.describes_itself} {}

  void bind() {
    find_prefix();
    bind_embedding();
    const std::string main = prefix_ + std::string(spec_.others.empty() ? "" : names_.decoder);
    weights_.main = stack(main, plans_.main,
                          {.layers = spec_.layers,
                           .heads = spec_.heads,
                           .kv_heads = spec_.kv_heads,
                           .mlp_width = spec_.mlp.width,
                           .crosses = !spec_.others.empty()});
    if (plans_.encoder) {
      const StackSpec& other = spec_.others.front();
      weights_.encoder = stack(prefix_ + std::string(names_.encoder), *plans_.encoder,
                               {.layers = static_cast<std::int64_t>(other.attention.size()),
                                .heads = other.heads != 0 ? other.heads : spec_.heads,
                                .kv_heads = other.heads != 0 ? other.heads : spec_.kv_heads,
                                .mlp_width = other.mlp_width != 0 ? other.mlp_width : spec_.mlp.width,
                                .is_encoder = true});
    }
    bind_head();
    tensors_.refuse_leftovers(passed_over_, names_);
  }

 private:
  // The longest prefix under which the table of tokens stands.
  void find_prefix() {
    prefix_ = names_.prefixes[0];
    for (const std::string_view prefix : names_.prefixes) {
      const std::string name = fmt::format("{}{}.weight", prefix, names_.embedding);
      if (tensors_.has(name)) {
        prefix_ = prefix;
        return;
      }
    }
  }

  void bind_embedding() {
    weights_.embedding = tensors_.matrix(fmt::format("{}{}.weight", prefix_, names_.embedding),
                                         spec_.embedding.rows, spec_.embedding.width);
    const std::int64_t width = spec_.embedding.factorised_width;
    if (width == 0) return;
    // a stack of its own name holds these where there is one
    const std::string at = prefix_ + std::string(names_.decoder);
    if (!names_.embedding_in.empty())
      weights_.embedding_in =
          places_.linear_if_biased(at + std::string(names_.embedding_in), spec_.hidden, width);
    if (!names_.embedding_out.empty())
      weights_.embedding_out = places_.linear(at + std::string(names_.embedding_out), width, spec_.hidden);
  }

  // Tables that are added to the token state, in the order of the plan.
  void bind_added(const std::string& at, const Plan& plan, StackWeights& stack) {
    for (const PositionEmbedding& embedding : plan.embedding) {
      Matrix& table = stack.added.emplace_back();
      if (embedding.form == EmbeddingForm::sinusoid) continue;
      const bool types = embedding.form == EmbeddingForm::token_types;
      const std::string_view name = types ? names_.token_types : names_.positions;
      table = tensors_.matrix(fmt::format("{}{}.weight", at, name), embedding.rows, embedding.width);
    }
  }

  StackWeights stack(const std::string& at, const Plan& plan, const StackShape& shape) {
    StackWeights stack;
    bind_added(at, plan, stack);
    if (spec_.embedding.normed) {
      const bool narrow = !plan.embedding.empty() && plan.embedding.front().width != spec_.hidden;
      stack.embedding_norm = places_.norm(at + std::string(names_.embedding_norm), spec_.norm,
                                          narrow ? spec_.embedding.width : spec_.hidden);
    }
    const std::int64_t sets = spec_.block.weight_sets != 0 ? spec_.block.weight_sets : shape.layers;
    for (std::int64_t index = 0; index < sets; ++index) {
      stack.layers.push_back(bind_layer(
          places_, shape, {.at = fmt::format("{}{}{}.", at, names_.layers, index), .index = index}));
    }
    if (spec_.block.final_norm)
      stack.final_norm = places_.norm(at + std::string(names_.final_norm), spec_.norm, spec_.hidden);
    for (const LayerPositions& kind : plan.kinds) {
      if (!kind.bias || kind.bias->form != BiasForm::buckets || stack.relative.data != nullptr) continue;
      stack.relative = tensors_.matrix(fmt::format("{}{}0.{}.weight", at, names_.layers, names_.relative),
                                       kind.bias->buckets, kind.bias->heads);
    }
    return stack;
  }

  void bind_head() {
    if (spec_.head.masked && !tensors_.has(fmt::format("{}.weight", names_.head_dense))) return;
    const std::int64_t width = spec_.embedding.width;
    if (spec_.head.transform) {
      weights_.head_dense = places_.linear_if_biased(std::string(names_.head_dense), width, spec_.hidden);
      weights_.head_norm = places_.norm(std::string(names_.head_norm), spec_.norm, width);
    }
    const std::string head = tensors_.pick("", names_.head);
    const std::string name = head + ".weight";
    const std::string bias = names_.head_bias.empty() ? head + ".bias" : std::string(names_.head_bias);
    // a class that ties whatever the config says still takes a head of its own where a file holds one
    const bool is_tied = spec_.head.tied_regardless ? !tensors_.has(name) : spec_.head.tied;
    if (is_tied) {
      weights_.head.weight = weights_.embedding;
      passed_over_.insert(name);
    } else {
      weights_.head.weight = tensors_.matrix(name, spec_.vocab, width);
    }
    if (spec_.head.bias) {
      weights_.head.bias = tensors_.vector(bias, {{spec_.vocab}, {1, spec_.vocab}});
      passed_over_.insert(head + ".bias");  // older files hold the one bias twice
    }
  }

  const ModelSpec& spec_;
  const StackPlans& plans_;
  const FamilyWeights& names_;
  Weights& weights_;
  Tensors tensors_;
  Places places_;
  std::string prefix_;
  std::set<std::string, std::less<>> passed_over_;
};

}  // namespace

Weights bind_weights(const ModelSpec& spec, const StackPlans& plans, const FamilyWeights& names,
                     WeightSource source, WeightStorage storage) {
  Weights weights;
  weights.source = std::move(source);
  Binder(spec, plans, names, weights, storage).bind();
  return weights;
}

}  // namespace locant
