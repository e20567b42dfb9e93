// SPDX-License-Identifier: Apache-2.0
// Model: config, plan and weights put together once; sessions share it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/state.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

// model.safetensors, or the index of its shards.
std::string weights_path(const std::string& directory) {
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path path = fs::path(directory) / name;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.string();
  }
  throw FileError(directory,
                  "a model directory must hold model.safetensors or model.safetensors.index.json, "
                  "it has neither");
}

std::vector<std::vector<float>> slopes_of(const Plan& plan) {
  std::vector<std::vector<float>> all;
  for (const LayerPositions& kind : plan.kinds) {
    std::vector<float>& slopes = all.emplace_back();
    if (!kind.bias) continue;
    for (const double slope : kind.bias->slopes) slopes.push_back(static_cast<float>(slope));
  }
  return all;
}

// What a spec may say beside positions and no block computes yet.
void check_blocks(const ModelSpec& spec) {
  const auto refuse = [&](std::string_view what) {
    throw SpecError(
        fmt::format("{}: run computes full causal attention and a plain head, got {}", spec.path, what));
  };
  for (const AttentionSpec& attention : spec.attention) {
    if (attention.kind != AttentionKind::full)
      refuse(fmt::format("attention of kind {}", name_of(attention.kind)));
    if (attention.softcap != 0) refuse("a softcap on the scores");
    if (attention.sinks) refuse("attention sinks");
    if (attention.bidirectional) refuse("attention to later tokens");
  }
  if (spec.head.softcap != 0) refuse("a softcap on the logits");
  if (spec.embedding.factorised_width != 0) refuse("a factorised embedding");
  if (spec.embedding.token_types != 0) refuse("token types");
  if (!spec.others.empty()) refuse("a second stack");
  if (spec.generic) refuse("a family that is not known");
}

const FamilyWeights& names_of(const ModelSpec& spec) {
  if (const FamilyWeights* const names = find_family_weights(spec.family)) return *names;
  throw SpecError(fmt::format("{}: run computes the families {}, got {}", spec.path,
                              fmt::join(runnable_families(), ", "), spec.family));
}

// What a plan may say and no block computes yet is refused, never passed over.
void check_computable(const ModelSpec& spec, const Plan& plan) {
  check_blocks(spec);
  const auto refuse = [&](std::string_view what) {
    throw SpecError(
        fmt::format("{}: positions must be of a kind that run computes, got {}", spec.path, what));
  };
  for (const LayerPositions& kind : plan.kinds) {
    if (kind.query_scale) refuse("a query scale");
    if (kind.bias && kind.bias->form != BiasForm::slopes) refuse("a bias that is no slope");
    if (kind.bias && kind.bias->scale_order != ScaleOrder::after_scale) refuse("a bias before the scale");
    if (kind.bias && kind.bias->bidirectional) refuse("a bidirectional bias");
    if (!kind.rotation) continue;
    const Rotation& rotation = *kind.rotation;
    if (rotation.acts_on.v || rotation.acts_on.output_inverse) refuse("a rotation of v or of the output");
    if (rotation.growth || rotation.shared_key) refuse("a rotation with growth or a shared key");
  }
  for (const PositionEmbedding& embedding : plan.embedding) {
    if (embedding.form == EmbeddingForm::token_types) refuse("token types");
    if (embedding.first_position != 0) refuse("a first position other than 0");
  }
}

// A session keeps one plan: what changes with the length (dynamic NTK, LongRoPE) would be silently wrong.
void check_constant(const ModelSpec& spec, const Recipe& recipe, const Plan& plan) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  if (locant::plan(spec.positions, recipe, {.seen = kFar, .capacity = kFar}) == plan) return;
  throw SpecError(
      fmt::format("{}: run computes positions that do not change with the length, got {}", spec.path,
                  spec.positions.layers.front().empty() ? std::string("an embedding that does")
                                                        : spec.positions.layers.front().front().mechanism));
}

}  // namespace

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const std::string& path, const LoadOptions& options, ThreadPool& pool) {
  constexpr std::string_view kDefaultRecipe = "hf";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw FileError(path, "a model must be there, no such file or directory");
  if (!fs::is_directory(path, ignored)) {
    throw FileError(path, "a model must be a Hugging Face directory, got a file");
  }
  auto state = std::make_unique<State>();
  state->pool = &pool;
  state->recipe = &find_recipe(options.recipe.empty() ? kDefaultRecipe : std::string_view(options.recipe));
  state->numerics = numerics_of(*state->recipe, options.run_dtype);
  state->spec = read_hf_config(path);
  const FamilyWeights& names = names_of(state->spec);
  state->plan = locant::plan(state->spec.positions, *state->recipe, Extent{});
  check_computable(state->spec, state->plan);
  check_constant(state->spec, *state->recipe, state->plan);
  state->slopes = slopes_of(state->plan);
  state->weights = bind_weights(state->spec, names, SafetensorsFile(weights_path(path)), options.weights);
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

const ModelSpec& Model::spec() const noexcept {
  return state_->spec;
}
const Recipe& Model::recipe() const noexcept {
  return *state_->recipe;
}
const Plan& Model::plan() const noexcept {
  return state_->plan;
}
std::int64_t Model::weight_bytes() const noexcept {
  return state_->weights.bytes;
}
std::int64_t Model::parameters() const noexcept {
  return state_->weights.parameters;
}
std::int64_t Model::cache_bytes(const SessionOptions& options) const {
  return Cache::bytes(state_->spec, options);
}
std::string Model::name() const {
  return fmt::format("locant {}", version());
}
std::int64_t Model::vocab() const {
  return state_->spec.vocab;
}

std::optional<std::int64_t> Model::last_position() const noexcept {
  std::optional<std::int64_t> last;
  for (const PositionEmbedding& embedding : state_->plan.embedding) {
    if (embedding.rows == 0 || embedding.past_end != PastEnd::refuse) continue;
    const std::int64_t end = embedding.rows - 1 - embedding.offset;
    last = last ? std::min(*last, end) : end;
  }
  return last;
}

std::optional<NonFinite> Model::first_non_finite() const {
  for (const SafetensorsFile& file : state_->weights.files) {
    std::vector<const StoredTensor*> tensors;
    for (const StoredTensor& tensor : file.tensors()) tensors.push_back(&tensor);
    std::sort(tensors.begin(), tensors.end(), [](const StoredTensor* a, const StoredTensor* b) {
      return std::pair(a->path, a->file_offset) < std::pair(b->path, b->file_offset);
    });
    for (const StoredTensor* const tensor : tensors) {
      if (!is_float(tensor->tensor.dtype)) continue;
      if (const auto index = locant::first_non_finite(tensor->tensor)) return NonFinite{tensor->name, *index};
    }
  }
  return std::nullopt;
}

std::unique_ptr<Session> Model::open_session(const SessionOptions& options) const {
  if (options.rows < 1 || options.capacity < 1) {
    throw SpecError(fmt::format("run: a session must have at least one row and one token, got {} and {}",
                                options.rows, options.capacity));
  }
  if (options.cache != DType::f32 && options.cache != DType::f16 && options.cache != DType::bf16) {
    throw SpecError(fmt::format("run: the cache must be f32, f16 or bf16, got {}", name_of(options.cache)));
  }
  if (const auto last = last_position(); last && options.capacity > *last + 1) {
    throw std::out_of_range(
        fmt::format("run: {} tokens need position {}, the position table of {} ends at {}", options.capacity,
                    options.capacity - 1, state_->spec.family, *last));
  }
  return std::unique_ptr<Session>(new Session(std::make_unique<Session::State>(*state_, options)));
}

}  // namespace locant
