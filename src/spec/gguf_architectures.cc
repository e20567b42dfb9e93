// SPDX-License-Identifier: Apache-2.0
// The rows: rope types of llama_model_rope_type(), defaults of each load_arch_hparams(), scales of each
// graph, as of llama.cpp 2026-08 (llama_cpp_python 0.3.36).
#include <algorithm>
#include <array>

#include "spec/gguf_architecture.h"

namespace locant {
namespace {

using enum GgufRope;

constexpr auto kLayerNorm = NormKind::layer;
// As the models were published, which files do not state; what llama.cpp computes is a quirk of its recipe.
constexpr auto kGelu = Activation::gelu_tanh;
constexpr auto kErf = Activation::gelu_erf;

constexpr GgufArchitecture plain(std::string_view name, GgufRope rope, std::string_view family = {}) {
  return {.name = name, .family = family, .rope = rope};
}

// A layer norm and an mlp without a gate, as GPT-2 had them.
constexpr GgufArchitecture gpt(std::string_view name, GgufRope rope, std::string_view family = {}) {
  return {
      .name = name, .family = family, .rope = rope, .norm = kLayerNorm, .activation = kGelu, .gated = false};
}

constexpr GgufArchitecture encoder(std::string_view name, GgufRope rope, std::string_view family = {}) {
  GgufArchitecture row = gpt(name, rope, family);
  row.activation = kErf;
  row.normed = true;
  row.token_types = true;
  return row;
}

constexpr GgufArchitecture with_layer_norm(GgufArchitecture row) {
  row.norm = kLayerNorm;
  return row;
}

constexpr GgufArchitecture gemma(std::string_view name, std::string_view family, const GgufWindows& windows) {
  return {.name = name,
          .family = family,
          .rope = neox,
          .activation = kGelu,
          .windows = windows,
          .root_scale = true};
}

constexpr GgufArchitecture granite(std::string_view name, std::string_view family = {}) {
  return {.name = name,
          .family = family,
          .rope = norm,
          .embedding_scale = true,
          .logits = GgufLogits::divided,
          .logit_scale_required = true,
          .attention_key = true,
          .rotation_switch = true};
}

// Three layers of linear attention to one that attends.
constexpr GgufArchitecture hybrid(std::string_view name, GgufRope rope, std::string_view family) {
  return {.name = name, .family = family, .rope = rope, .linear_period = 4};
}

constexpr GgufArchitecture latent(std::string_view name, GgufRope rope, std::string_view family,
                                  float log_divisor) {
  return {.name = name,
          .family = family,
          .rope = rope,
          .latent = true,
          .log_divisor = log_divisor,
          .finish = finish_gguf_deepseek2};
}

constexpr GgufArchitecture windowed(std::string_view name, std::string_view family,
                                    const GgufWindows& windows) {
  return {.name = name, .family = family, .rope = neox, .windows = windows};
}

constexpr GgufWindows every(std::int64_t period, GgufLocal local = GgufLocal::inherits) {
  return {.kind = GgufWindow::last, .period = period, .local = local};
}

constexpr GgufWindows required(GgufWindows windows) {
  windows.required = true;
  return windows;
}

constexpr GgufWindows kListed{.kind = GgufWindow::last, .required = true, .local = GgufLocal::own};

constexpr GgufArchitecture with(GgufArchitecture row, decltype(GgufArchitecture::finish) finish) {
  row.finish = finish;
  return row;
}

constexpr GgufArchitecture gemma2() {
  GgufArchitecture row = gemma("gemma2", {}, {.kind = GgufWindow::last, .tokens = 4096, .period = 2});
  row.score_softcap = 50;
  row.logit_softcap_key = true;
  row.logit_softcap = 30;
  row.finish = finish_gguf_gemma;
  return row;
}

constexpr GgufArchitecture gemma3() {
  GgufArchitecture row = gemma("gemma3", "gemma3_text", every(6, GgufLocal::own));
  row.logit_softcap_key = true;
  row.finish = finish_gguf_gemma;
  return row;
}

constexpr GgufArchitecture gemma3n() {
  GgufArchitecture row = gemma("gemma3n", "gemma3n_text", required(every(5, GgufLocal::own)));
  row.attention_scale = 1;
  row.logit_softcap = 30;
  return row;
}

constexpr GgufArchitecture gemma4() {
  GgufArchitecture row = gemma("gemma4", "gemma4_text", kListed);
  row.attention_scale = 1;
  row.logit_softcap_key = true;
  row.logit_softcap = 30;
  row.finish = finish_gguf_gemma4;
  return row;
}

constexpr GgufArchitecture gemma_embedding() {
  GgufArchitecture row =
      gemma("gemma-embedding", "gemma3_text",
            {.kind = GgufWindow::symmetric, .required = true, .period = 6, .local = GgufLocal::own});
  row.causal = false;
  return row;
}

constexpr GgufArchitecture cohere(std::string_view name, std::string_view family, bool scale_required) {
  return {.name = name,
          .family = family,
          .rope = norm,
          .norm = kLayerNorm,
          .logits = GgufLogits::multiplied,
          .logit_scale_required = scale_required};
}

constexpr GgufArchitecture cohere2() {
  GgufArchitecture row = cohere("cohere2", {}, true);
  row.rotates = GgufRotates::windowed;
  row.windows = required(every(4));
  return row;
}

constexpr GgufArchitecture olmo2() {
  return with(windowed("olmo2", {}, every(4, GgufLocal::unscaled)), finish_gguf_olmo2);
}

constexpr GgufArchitecture whole(std::string_view name, GgufRope rope, std::string_view family = {}) {
  GgufArchitecture row = plain(name, rope, family);
  row.whole_head = true;
  return row;
}

constexpr GgufArchitecture diffusion(std::string_view name, GgufRope rope) {
  GgufArchitecture row = plain(name, rope);
  row.causal = false;
  return row;
}

constexpr GgufArchitecture text_or_image(std::string_view name, GgufRope rope, std::string_view family = {}) {
  GgufArchitecture row = plain(name, rope, family);
  row.optional_sections = true;
  return row;
}

constexpr std::array kRows = {
    plain("apertus", neox),
    GgufArchitecture{.name = "arcee", .rope = norm, .activation = Activation::relu_squared, .gated = false},
    plain("arctic", norm),
    plain("bailingmoe", norm),
    plain("bailingmoe2", neox),
    GgufArchitecture{.name = "baichuan", .rope = norm, .finish = finish_gguf_baichuan},
    GgufArchitecture{.name = "bert",
                     .norm = kLayerNorm,
                     .activation = kErf,
                     .gated = false,
                     .normed = true,
                     .learned = true,
                     .token_types = true},
    plain("bitnet", neox),
    GgufArchitecture{
        .name = "bloom", .norm = kLayerNorm, .activation = kGelu, .gated = false, .normed = true, .alibi = 8},
    plain("chameleon", norm),
    plain("chatglm", norm),
    gpt("codeshell", neox),
    cohere2(),
    cohere("command-r", "cohere", false),
    with_layer_norm(plain("dbrx", neox)),
    whole("deci", norm),
    plain("deepseek", norm),
    latent("deepseek2", norm, "deepseek_v2", 0.1F),
    latent("deepseek32", norm, "deepseek_v32", 0.1F),
    GgufArchitecture{.name = "deepseek4",
                     .family = "deepseek_v4",
                     .rope = norm,
                     .latent = true,
                     .sinks = true,
                     .windows = {.kind = GgufWindow::last,
                                 .required = true,
                                 .attending = true,
                                 .local = GgufLocal::unscaled},
                     .finish = finish_gguf_deepseek4},
    plain("dots1", neox),
    diffusion("dream", neox),
    plain("ernie4_5", norm),
    plain("ernie4_5-moe", norm, "ernie4_5_moe"),
    GgufArchitecture{.name = "eurobert", .rope = neox},
    plain("exaone", neox),
    GgufArchitecture{
        .name = "exaone4",
        .rope = neox,
        .rotates = GgufRotates::windowed,
        .windows = {.kind = GgufWindow::last, .tokens = 4096, .period = 4, .only_with_layers = 64}},
    GgufArchitecture{.name = "falcon",
                     .rope = neox,
                     .whole_head = true,
                     .norm = kLayerNorm,
                     .activation = kErf,
                     .gated = false},
    gemma("gemma", {}, {}),
    gemma_embedding(),
    gemma2(),
    gemma3(),
    gemma3n(),
    gemma4(),
    latent("glm-dsa", norm, "glm_moe_dsa", 0),
    text_or_image("glm4", norm),
    text_or_image("glm4moe", neox, "glm4_moe"),
    GgufArchitecture{
        .name = "gpt-oss", .family = "gpt_oss", .rope = neox, .sinks = true, .windows = required(every(2))},
    GgufArchitecture{
        .name = "gpt2", .norm = kLayerNorm, .activation = kGelu, .gated = false, .learned = true},
    // llama.cpp names it and computes it no longer: neighbours pair, as in the model itself.
    gpt("gptj", norm),
    with(gpt("gptneox", neox, "gpt_neox"), finish_gguf_gptneox),
    granite("granite"),
    granite("granitehybrid", "granitemoehybrid"),
    granite("granitemoe"),
    GgufArchitecture{.name = "grok",
                     .rope = neox,
                     .betas = true,
                     .beta_fast = 8,
                     .activation = kGelu,
                     .embedding_scale = true,
                     .embedding_default = 78.38367176906169,
                     .logits = GgufLogits::multiplied,
                     .logit_default = 0.5773502691896257,
                     .score_softcap = 30,
                     .logit_softcap_key = true,
                     .finish = finish_gguf_grok},
    plain("grovemoe", neox),
    GgufArchitecture{.name = "hunyuan-dense", .family = "hunyuan_v1_dense", .rope = neox, .alpha = true},
    plain("hunyuan-moe", neox, "hunyuan_v1_moe"),
    GgufArchitecture{.name = "hunyuan_vl", .rope = neox, .optional_sections = true, .alpha = true},
    plain("internlm2", norm),
    GgufArchitecture{.name = "jais", .norm = kLayerNorm, .alibi_key = true, .finish = finish_gguf_jais},
    GgufArchitecture{
        .name = "jais2", .rope = neox, .norm = kLayerNorm, .activation = Activation::relu, .gated = false},
    plain("jamba", none),
    GgufArchitecture{.name = "jina-bert-v2",
                     .norm = kLayerNorm,
                     .activation = kErf,
                     .normed = true,
                     .token_types = true,
                     .alibi = 8},
    encoder("jina-bert-v3", neox, "jina_embeddings_v3"),
    GgufArchitecture{.name = "kimi-linear", .family = "kimi_linear", .latent = true},
    GgufArchitecture{.name = "lfm2", .rope = neox, .windows = {.kind = GgufWindow::last, .attending = true}},
    plain("lfm2moe", neox, "lfm2_moe"),
    diffusion("llada", norm),
    whole("llama", norm),
    whole("llama-embed", norm, "llama"),
    GgufArchitecture{.name = "llama4",
                     .family = "llama4_text",
                     .rope = norm,
                     .rotates = GgufRotates::three_of_four,
                     .windows = {.kind = GgufWindow::chunk, .tokens = 8192, .period = 4},
                     .finish = finish_gguf_llama4},
    plain("maincoder", norm),
    windowed("mimo2", "mimo_v2_flash", kListed),
    GgufArchitecture{.name = "minicpm",
                     .rope = norm,
                     .embedding_scale = true,
                     .embedding_default = 12,
                     .logits = GgufLogits::divided,
                     .finish = finish_gguf_minicpm},
    GgufArchitecture{.name = "minicpm3", .rope = neox, .latent = true, .finish = finish_gguf_minicpm3},
    plain("minimax-m2", neox, "minimax_m2"),
    plain("minimax-m3", neox, "minimax_m3_vl_text"),
    GgufArchitecture{.name = "mistral3",
                     .family = "ministral3",
                     .rope = norm,
                     .betas = true,
                     .log_divisor = 1,
                     .finish = finish_gguf_mistral3},
    latent("mistral4", norm, "mistral4", 0.1F),
    GgufArchitecture{
        .name = "modern-bert",
        .family = "modernbert",
        .rope = neox,
        .norm = kLayerNorm,
        .activation = kErf,
        .normed = true,
        .windows = {.kind = GgufWindow::symmetric, .period = 3, .full_first = true, .local = GgufLocal::own}},
    GgufArchitecture{
        .name = "mpt", .norm = kLayerNorm, .activation = kErf, .gated = false, .alibi_key = true},
    GgufArchitecture{.name = "nemotron",
                     .rope = neox,
                     .norm = kLayerNorm,
                     .activation = Activation::relu_squared,
                     .gated = false},
    GgufArchitecture{.name = "nemotron_h", .activation = Activation::relu, .gated = false},
    GgufArchitecture{
        .name = "nemotron_h_moe", .family = "nemotron_h", .activation = Activation::relu, .gated = false},
    plain("neo-bert", norm, "neobert"),
    GgufArchitecture{.name = "nomic-bert",
                     .family = "nomic_bert",
                     .rope = neox,
                     .norm = kLayerNorm,
                     .normed = true,
                     .token_types = true},
    encoder("nomic-bert-moe", neox, "nomic_bert"),
    with_layer_norm(plain("olmo", norm)),
    olmo2(),
    plain("olmoe", neox),
    plain("openelm", neox),
    with_layer_norm(plain("orion", neox)),
    plain("paddleocr", sections),
    plain("pangu-embedded", neox),
    gpt("phi2", neox, "phi"),
    plain("phi3", neox),
    plain("phimoe", neox),
    plain("plamo", neox),
    plain("plamo2", neox),
    windowed("plamo3", {}, every(8, GgufLocal::own)),
    plain("qwen", neox),
    plain("qwen2", neox),
    plain("qwen2moe", neox, "qwen2_moe"),
    plain("qwen2vl", sections, "qwen2_vl_text"),
    plain("qwen3", neox),
    hybrid("qwen35", interleaved_sections, "qwen3_5_text"),
    hybrid("qwen35moe", interleaved_sections, "qwen3_5_moe_text"),
    plain("qwen3moe", neox, "qwen3_moe"),
    hybrid("qwen3next", neox, "qwen3_next"),
    plain("qwen3vl", interleaved_sections, "qwen3_vl_text"),
    plain("qwen3vlmoe", interleaved_sections, "qwen3_vl_moe_text"),
    GgufArchitecture{.name = "refact", .alibi = 8},
    plain("seed_oss", neox),
    GgufArchitecture{.name = "smollm3", .rope = norm, .rotates = GgufRotates::three_of_four},
    with_layer_norm(plain("stablelm", neox)),
    GgufArchitecture{.name = "starcoder",
                     .family = "gpt_bigcode",
                     .norm = kLayerNorm,
                     .activation = kGelu,
                     .gated = false,
                     .learned = true,
                     .finish = finish_gguf_starcoder},
    gpt("starcoder2", neox),
    with(windowed("step35", "step3p5", kListed), finish_gguf_step35),
    GgufArchitecture{.name = "t5", .activation = Activation::relu, .gated = false, .finish = finish_gguf_t5},
    GgufArchitecture{.name = "t5encoder",
                     .family = "t5",
                     .activation = Activation::relu,
                     .gated = false,
                     .finish = finish_gguf_t5},
    plain("xverse", norm),
};

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) noexcept {
  const auto found =
      std::find_if(kRows.begin(), kRows.end(), [&](const GgufArchitecture& row) { return row.name == name; });
  return found == kRows.end() || name.empty() ? nullptr : &*found;
}

std::vector<std::string_view> gguf_architectures() {
  std::vector<std::string_view> names;
  names.reserve(kRows.size());
  for (const GgufArchitecture& row : kRows) names.push_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace locant
