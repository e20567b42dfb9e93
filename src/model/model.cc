// SPDX-License-Identifier: Apache-2.0
// Model: config, plan and weights put together once; sessions share it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/computable.h"
#include "model/gguf_names.h"
#include "model/stack.h"
#include "model/state.h"
#include "spec/under_recipe.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

ModelSpec read_spec(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw FileError(path, "a model must be there, no such file or directory");
  if (fs::is_directory(path, ignored)) return read_hf_config(path);
  if (path.ends_with(".gguf")) return read_gguf(path);
  if (path.ends_with(".bin")) return read_llama2c(path);
  throw FileError(
      path,
      "a model must be a Hugging Face directory, a .gguf or a llama2.c .bin, got another file (of a "
      "checkpoint in a directory, give the directory)");
}

// The factor on looked-up rows, in the dtype that the recipe makes it a tensor of.
float embedding_scale(const ModelSpec& spec, const Recipe& recipe, DType run_dtype) {
  const auto scale = static_cast<float>(spec.embedding.scale);
  const bool rounds = spec.embedding.scale_in_run_dtype && recipe.name != "exact" &&
                      !recipe.has(Quirk::embedding_scale_unrounded);
  if (!rounds) return scale;
  if (run_dtype == DType::bf16) return f32_from(bfloat16_from_f32(scale));
  if (run_dtype == DType::f16) return f32_from(half_from_f32(scale));
  return scale;
}

FamilyWeights names_of(const ModelSpec& spec, const std::string& path) {
  if (spec.format == "gguf") return gguf_names(GgufFile(path), spec);
  if (const FamilyWeights* const names = find_family_weights(spec.family)) return *names;
  throw SpecError(fmt::format("{}: run computes the families {}, got {}", spec.path,
                              fmt::join(runnable_families(), ", "), spec.family));
}

/// Whether a product has a weight that this arithmetic is for; layers of one model are alike.
bool acts_on(Activations activations, const Weights& weights) {
  const auto acts = [&](const Linear& layer) {
    const Matrix& weight = layer.weight;
    if (!layer.there()) return false;
    return activations == Activations::int8 ? weight.blocks.has_value()
                                            : !weight.blocks && weight.dtype == DType::bf16;
  };
  if (acts(weights.head) || acts(weights.head_dense)) return true;
  for (const StackWeights* const stack : {&weights.main, &weights.encoder}) {
    for (const LayerWeights& layer : stack->layers) {
      for (const Linear& matrix : layer.attention.qkv) {
        if (acts(matrix)) return true;
      }
      for (const Linear* const matrix : {&layer.attention.out, &layer.mlp.up, &layer.mlp.down}) {
        if (acts(*matrix)) return true;
      }
    }
  }
  return false;
}

/// What was asked for and changes nothing is said.
void note_activations(Activations activations, const Weights& weights, std::vector<Note>& notes) {
  if (activations == Activations::f32 || acts_on(activations, weights)) return;
  notes.push_back({.text = fmt::format("activations {} change nothing: no weight is {}", name_of(activations),
                                       activations == Activations::int8 ? "of blocks" : "bf16")});
}

}  // namespace

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const std::string& path, const LoadOptions& options, ThreadPool& pool) {
  auto state = std::make_unique<State>();
  state->pool = &pool;
  ModelSpec published = options.spec != nullptr ? *options.spec : read_spec(path);
  const std::string_view usual = published.format == "gguf" ? "llama.cpp" : "hf";
  state->recipe = &find_recipe(options.recipe.empty() ? usual : std::string_view(options.recipe));
  state->spec = under_recipe(std::move(published), *state->recipe);
  const ModelSpec& spec = state->spec;
  state->numerics = numerics_of(*state->recipe, options.run_dtype);
  state->activations = options.activations;
  state->embedding_scale = embedding_scale(spec, *state->recipe, options.run_dtype);
  check_blocks(spec);
  const FamilyWeights names = names_of(spec, path);
  StackPlans plans{.main = computable_plan(spec, spec.positions, *state->recipe), .encoder = {}};
  if (!spec.others.empty())
    plans.encoder = computable_plan(spec, spec.others.front().positions, *state->recipe);
  state->weights = bind_weights(spec, plans, names, open_weights(spec, path), options.weights);
  note_activations(options.activations, state->weights, state->spec.notes);
  state->main = main_stack(*state, plans.main);
  if (plans.encoder) state->encoder = encoder_stack(*state, *plans.encoder);
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

const ModelSpec& Model::spec() const noexcept {
  return state_->spec;
}
const Recipe& Model::recipe() const noexcept {
  return *state_->recipe;
}
const Plan& Model::plan() const noexcept {
  return state_->main.plan;
}
std::int64_t Model::weight_bytes() const noexcept {
  return state_->weights.bytes;
}
std::int64_t Model::parameters() const noexcept {
  return state_->weights.parameters;
}
std::int64_t Model::cache_bytes(const SessionOptions& options) const {
  return Cache::bytes(cache_shape(*state_, state_->main), options);
}
std::int64_t Model::workspace_bytes(const SessionOptions& options) const {
  const StackModel& stack = state_->main;
  const std::int64_t tokens = Workspace::pass_tokens(stack, options);
  return Workspace::floats(*state_, stack, options.rows, tokens) * static_cast<std::int64_t>(sizeof(float));
}
bool Model::has_head() const noexcept {
  return state_->weights.head.there();
}
bool Model::has_encoder() const noexcept {
  return state_->encoder.has_value();
}
bool Model::is_bidirectional() const noexcept {
  return state_->main.is_bidirectional;
}
std::string Model::name() const {
  return fmt::format("locant {}", version());
}
std::int64_t Model::vocab() const {
  return state_->spec.vocab;
}

std::optional<std::int64_t> Model::last_position() const noexcept {
  std::optional<std::int64_t> last;
  for (const PositionEmbedding& embedding : state_->main.plan.embedding) {
    const bool by_position = embedding.form != EmbeddingForm::token_types;
    if (!by_position || embedding.rows == 0 || embedding.past_end != PastEnd::refuse) continue;
    const std::int64_t end = embedding.rows - 1 - embedding.offset;
    last = last ? std::min(*last, end) : end;
  }
  return last;
}

std::optional<NonFinite> Model::first_non_finite() const {
  std::vector<const SourceTensor*> tensors;
  for (const SourceTensor& tensor : state_->weights.source.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const SourceTensor* a, const SourceTensor* b) {
    return std::pair(a->path, a->file_offset) < std::pair(b->path, b->file_offset);
  });
  for (const SourceTensor* const tensor : tensors) {
    if (const auto index = locant::first_non_finite(*tensor)) return NonFinite{tensor->name, *index};
  }
  return std::nullopt;
}

std::unique_ptr<Session> Model::open_session(const SessionOptions& options) const {
  if (options.rows < 1 || options.capacity < 1) {
    throw SpecError(fmt::format("run: a session must have at least one row and one token, got {} and {}",
                                options.rows, options.capacity));
  }
  if (options.cache != DType::f32 && options.cache != DType::f16 && options.cache != DType::bf16 &&
      options.cache != DType::i8) {
    throw SpecError(
        fmt::format("run: the cache must be f32, f16, bf16 or i8, got {}", name_of(options.cache)));
  }
  if (const auto last = last_position(); last && options.capacity > *last + 1) {
    throw std::out_of_range(
        fmt::format("run: {} tokens need position {}, the position table of {} ends at {}", options.capacity,
                    options.capacity - 1, state_->spec.family, *last));
  }
  return std::unique_ptr<Session>(new Session(std::make_unique<Session::State>(*state_, options)));
}

}  // namespace locant
