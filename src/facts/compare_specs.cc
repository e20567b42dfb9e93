// SPDX-License-Identifier: Apache-2.0
// What two readings of models differ in outside the plans: token embedding, head, mlp, experts, attention,
// how layers are put together, sizes and lengths.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/narrow.h"
#include "facts/compare_parts.h"
#include "spec/under_recipe.h"

namespace locant {
namespace {

/// Collects what differs, in one form.
class Fields {
 public:
  Fields(const SideReading& a, const SideReading& b, std::vector<RuleDifference>& found)
      : a_(a), b_(b), found_(found) {}

  void in(std::string site) { site_ = std::move(site); }
  template <class Value>
  void number(std::string_view what, Value a, Value b) {
    if (same(a, b)) return;
    RuleDifference& rule = add(what, fmt::format("{} is {} under {} and {} under {}", words(what), text(b),
                                                 b_.name, text(a), a_.name));
    rule.said.a = static_cast<double>(a);
    rule.said.b = static_cast<double>(b);
  }
  void optional(std::string_view what, const std::optional<std::int64_t>& a,
                const std::optional<std::int64_t>& b) {
    const auto shown = [](const std::optional<std::int64_t>& x) {
      return x ? std::to_string(*x) : std::string("not stated");
    };
    word(what, shown(a), shown(b));
  }
  void word(std::string_view what, std::string_view a, std::string_view b) {
    if (a != b)
      add(what, fmt::format("{} is {} under {} and {} under {}", words(what), b, b_.name, a, a_.name));
  }
  void flag(std::string_view what, bool a, bool b) { word(what, a ? "yes" : "no", b ? "yes" : "no"); }
  RuleDifference& add(std::string_view what, std::string message) {
    RuleDifference rule;
    rule.said.what = what;
    rule.said.site = site_;
    rule.sentence = message;
    rule.said.message = std::move(message);
    found_.push_back(std::move(rule));
    return found_.back();
  }

 private:
  static std::string words(std::string_view what) {
    std::string shown(what);
    std::replace(shown.begin(), shown.end(), '_', ' ');
    return shown;
  }
  /// A GGUF file keeps its numbers in f32.
  static bool same(double a, double b) { return static_cast<float>(a) == static_cast<float>(b); }
  static bool same(std::int64_t a, std::int64_t b) { return a == b; }
  static std::string text(double value) { return fmt::format("{:.6g}", value); }
  static std::string text(std::int64_t value) { return std::to_string(value); }

  const SideReading& a_;
  const SideReading& b_;
  std::vector<RuleDifference>& found_;
  std::string site_;
};

double row_scale(const SideReading& reading) {
  const EmbeddingFacts facts = embedding_facts(*reading.spec, reading.recipe);
  const auto scale = static_cast<float>(facts.scale);
  const bool rounded = facts.scale_rounding == ScaleRounding::run_dtype;
  return static_cast<double>(rounded ? narrowed(scale, reading.numerics.run_dtype) : scale);
}

/// A factor that acts at every position alike.
void factor(RuleDifference& rule, double a, double b) {
  rule.said.a = a;
  rule.said.b = b;
  Gap gap;
  gap.difference = std::abs(b - a);
  gap.magnitude = std::max(std::abs(a), std::abs(b));
  if (gap.difference > half_step(DType::bf16, gap.magnitude)) rule.said.first_bf16 = 0;
  if (gap.difference > half_step(DType::f32, gap.magnitude)) rule.said.first_f32 = 0;
  rule.said.at_distance = gap;
}

void embedding(const SideReading& a, const SideReading& b, Fields& fields) {
  const EmbeddingSpec& of_a = a.spec->embedding;
  const EmbeddingSpec& of_b = b.spec->embedding;
  fields.in("scale");
  const double scale_a = row_scale(a);
  const double scale_b = row_scale(b);
  if (scale_a != scale_b) {
    factor(fields.add("embedding_scale",
                      fmt::format("token rows are multiplied by {:.7g} under {} and {:.7g} under {}: every "
                                  "embedding is {:.2g} % apart",
                                  scale_b, b.name, scale_a, a.name, 100 * std::abs(scale_b / scale_a - 1))),
           scale_a, scale_b);
  }
  fields.in("token_embedding");
  fields.number("rows", of_a.rows, of_b.rows);
  fields.number("width", of_a.width, of_b.width);
  fields.flag("normed", of_a.normed, of_b.normed);
  fields.optional("padding_id", of_a.padding_id, of_b.padding_id);
  fields.number("factorised_width", of_a.factorised_width, of_b.factorised_width);
  fields.number("token_types", of_a.token_types, of_b.token_types);
}

void head(const SideReading& a, const SideReading& b, Fields& fields) {
  const HeadFacts of_a = head_facts(*a.spec, a.recipe);
  const HeadFacts of_b = head_facts(*b.spec, b.recipe);
  fields.in("head");
  if (static_cast<float>(of_a.scale) != static_cast<float>(of_b.scale)) {
    factor(
        fields.add("head_scale", fmt::format("logits are multiplied by {:.6g} under {} and {:.6g} under {}",
                                             of_b.scale, b.name, of_a.scale, a.name)),
        of_a.scale, of_b.scale);
  }
  const auto matrix = [](const HeadFacts& one) { return one.tied ? "the embedding's" : "one of its own"; };
  if (of_a.tied != of_b.tied)
    fields.add("tied", fmt::format("the head's matrix is {} under {} and {} under {}", matrix(of_b), b.name,
                                   matrix(of_a), a.name));
  fields.number("softcap", of_a.softcap, of_b.softcap);
  fields.flag("bias", of_a.bias, of_b.bias);
}

void mlp(const ModelSpec& a, const ModelSpec& b, Fields& fields) {
  fields.in("mlp");
  fields.word("activation", name_of(a.mlp.activation), name_of(b.mlp.activation));
  fields.flag("gated", a.mlp.gated, b.mlp.gated);
  fields.flag("bias", a.mlp.bias, b.mlp.bias);
  fields.number("mlp_width", a.mlp.width, b.mlp.width);
  fields.in("experts");
  const auto best = [](const ExpertsSpec& experts) {
    return experts.group_pairs ? "their two best experts" : "their best expert";
  };
  if (a.experts.groups > 1 && b.experts.groups > 1)
    fields.word("group_score", best(a.experts), best(b.experts));
  fields.number("experts", a.experts.count, b.experts.count);
  fields.number("chosen_experts", a.experts.chosen, b.experts.chosen);
  fields.number("expert_width", a.experts.width, b.experts.width);
  fields.number("shared_width", a.experts.shared_width, b.experts.shared_width);
  fields.word("router", name_of(a.experts.router), name_of(b.experts.router));
  fields.flag("normalised", a.experts.normalised, b.experts.normalised);
  fields.number("expert_scale", a.experts.scale, b.experts.scale);
  fields.number("expert_groups", a.experts.groups, b.experts.groups);
}

void sizes(const ModelSpec& a, const ModelSpec& b, Fields& fields) {
  fields.in("model");
  fields.word("family", a.family, b.family);
  fields.number("layers", a.layers, b.layers);
  for (const StackSpec& one : a.others) {
    for (const StackSpec& other : b.others) {
      if (one.positions.stack != Stack::encoder || other.positions.stack != Stack::encoder) continue;
      fields.number("encoder_layers", static_cast<std::int64_t>(one.positions.layers.size()),
                    static_cast<std::int64_t>(other.positions.layers.size()));
    }
  }
  fields.number("hidden", a.hidden, b.hidden);
  fields.number("heads", a.heads, b.heads);
  fields.number("kv_heads", a.kv_heads, b.kv_heads);
  fields.number("head_dim", a.head_dim, b.head_dim);
  fields.number("vocab", a.vocab, b.vocab);
  fields.in("norm");
  fields.word("norm", name_of(a.norm.kind), name_of(b.norm.kind));
  fields.number("eps", a.norm.eps, b.norm.eps);
  fields.number("gain_offset", a.norm.gain_offset, b.norm.gain_offset);
  fields.in("latent");
  fields.number("kv_rank", a.latent.kv_rank, b.latent.kv_rank);
  fields.number("q_rank", a.latent.q_rank, b.latent.q_rank);
  fields.in("block");
  fields.number("branches", static_cast<std::int64_t>(a.block.branches),
                static_cast<std::int64_t>(b.block.branches));
  fields.number("branch_scale", a.block.branch_scale, b.block.branch_scale);
  fields.number("clip_qkv", a.block.clip_qkv, b.block.clip_qkv);
  fields.flag("qk_norm", a.block.qk_norm.kind != QkNorm::none, b.block.qk_norm.kind != QkNorm::none);
}

std::string attention_text(const AttentionSpec& one) {
  if (!one.attends) return "none";
  std::string text(name_of(one.kind));
  if (one.kind != AttentionKind::full) text += fmt::format(" of {} tokens", one.window);
  text += fmt::format(", scale {:.6g}", one.scale);
  if (one.softcap != 0) text += fmt::format(", softcap {:.6g}", one.softcap);
  if (one.sinks) text += ", with sinks";
  if (one.bidirectional) text += ", both directions";
  return text;
}

/// Layers of a stack that attend in two ways, one entry for each pair of ways.
void attention(const SideReading& a, const SideReading& b, Fields& fields,
               std::vector<RuleDifference>& found) {
  const std::vector<StackView> of_a = stacks_of(*a.spec);
  const std::vector<StackView> of_b = stacks_of(*b.spec);
  fields.in("attention");
  for (std::size_t s = 0; s < std::min(of_a.size(), of_b.size()); ++s) {
    std::vector<std::pair<std::string, std::size_t>> said;
    const std::size_t layers = std::min(of_a[s].attention.size(), of_b[s].attention.size());
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const std::string text_a = attention_text(of_a[s].attention[layer]);
      const std::string text_b = attention_text(of_b[s].attention[layer]);
      if (text_a == text_b) continue;
      const std::string sentence =
          fmt::format("attention is {} under {} and {} under {}", text_b, b.name, text_a, a.name);
      auto at =
          std::find_if(said.begin(), said.end(), [&](const auto& one) { return one.first == sentence; });
      if (at == said.end()) {
        fields.add("attention", sentence).said.stack = of_a[s].positions.stack;
        said.emplace_back(sentence, found.size() - 1);
        at = said.end() - 1;
      }
      found[at->second].said.layers.push_back(static_cast<std::int64_t>(layer));
    }
  }
}

}  // namespace

void spec_rules(const SideReading& a, const SideReading& b, std::vector<RuleDifference>& found) {
  Fields fields(a, b, found);
  embedding(a, b, fields);
  head(a, b, fields);
  const ModelSpec of_a = under_recipe(*a.spec, a.recipe);
  const ModelSpec of_b = under_recipe(*b.spec, b.recipe);
  mlp(of_a, of_b, fields);
  if (a.spec == b.spec) return;
  sizes(of_a, of_b, fields);
  attention(a, b, fields, found);
  fields.in("lengths");
  const std::size_t before = found.size();
  fields.optional("trained", of_a.lengths.trained, of_b.lengths.trained);
  fields.optional("configured", of_a.lengths.configured, of_b.lengths.configured);
  for (std::size_t i = before; i < found.size(); ++i) found[i].said.inside = false;  // no result follows
}

}  // namespace locant
