// SPDX-License-Identifier: Apache-2.0
// W105 to W108: a conversion beside its source. What is right is silent for any heads; each mistake is named
// with its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "check/two_forms.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::permuted;
using tests::Sizes;
using tests::Tensor;
using tests::TwoForms;

CheckReport report_of(const std::string& model, const std::string& other) {
  const auto read = [](const std::string& path) {
    return path.ends_with(".gguf") ? read_gguf(path) : read_hf_config(path, Reading::facts);
  };
  const ModelSpec spec = read(model);
  const ModelSpec against = read(other);
  CheckQuery query;
  query.spec = &spec;
  query.weights = model;
  query.against = &against;
  query.against_weights = other;
  query.select = {"W105", "W106", "W107", "W108"};
  return check(query);
}

CheckReport report_of(TwoForms& forms) {
  return report_of(forms.write_made(), forms.write_source());
}

std::string text_of(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += fmt::format("{} {}: {}\n", finding.rule->id, name_of(finding.severity), finding.message);
  return text;
}

/// The only finding.
Finding only(const CheckReport& report) {
  EXPECT_EQ(report.findings.size(), 1U) << text_of(report);
  return report.findings.empty() ? Finding{} : report.findings.front();
}

std::string blk(std::int64_t layer, const std::string& role) {
  return fmt::format("blk.{}.{}.weight", layer, role);
}

Tensor& part(TwoForms& forms, const std::string& role, std::int64_t layer) {
  return forms.made.at(blk(layer, role));
}

/// Takes back what the converter did, then permutes with other heads.
Tensor with_heads(const TwoForms& forms, const std::string& module, std::int64_t layer, std::int64_t heads) {
  return permuted(forms.source.at(fmt::format("model.layers.{}.self_attn.{}.weight", layer, module)), heads);
}

TEST(Conversion, IsSilentForAnyHeads) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 24; ++trial) {
    Sizes sizes;
    const auto draw = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    sizes.kv_heads = draw(1, 4);
    sizes.heads = sizes.kv_heads * draw(1, 4);
    sizes.head_dim = 2 * draw(1, 9);
    sizes.hidden = draw(5, 70);
    sizes.mlp = draw(3, 50);
    sizes.vocab = draw(3, 90);
    sizes.layers = draw(1, 3);
    TwoForms forms(sizes);
    SCOPED_TRACE(fmt::format("{} heads of {} over {}, hidden {}", sizes.heads, sizes.head_dim, sizes.kv_heads,
                             sizes.hidden));
    const std::string made = forms.write_made();
    const std::string source = forms.write_source();
    const CheckReport one = report_of(made, source);
    EXPECT_TRUE(one.findings.empty()) << text_of(one);
    EXPECT_EQ(one.passed.size(), 4U);
    const CheckReport other = report_of(source, made);
    EXPECT_TRUE(other.findings.empty()) << text_of(other);
  }
}

TEST(Conversion, NamesKeysPermutedWithTheHeadsOfQueries) {
  for (const auto& [heads, kv_heads, head_dim] :
       {std::tuple(8, 4, 8), std::tuple(12, 4, 12), std::tuple(6, 2, 12), std::tuple(12, 3, 16),
        std::tuple(32, 8, 16)}) {
    TwoForms forms(Sizes{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .layers = 2});
    for (const std::int64_t layer : {0, 1})
      part(forms, "attn_k", layer) = with_heads(forms, "k_proj", layer, heads);
    const Finding finding = only(report_of(forms));
    ASSERT_NE(finding.rule, nullptr);
    EXPECT_EQ(finding.rule->id, "W106");
    EXPECT_EQ(finding.message,
              fmt::format("k of layers 0 to 1 is permuted to neighbouring pairs with {} heads "
                          "where {} are due",
                          heads, kv_heads));
    EXPECT_EQ(finding.expected, Fact(static_cast<double>(kv_heads)));
    EXPECT_EQ(finding.observed, Fact(static_cast<double>(heads)));
  }
}

TEST(Conversion, NamesEveryOtherOrder) {
  struct Case {
    std::string title;
    std::string said;
    std::function<void(TwoForms&)> change;
  };
  const auto each = [](const std::string& role, auto make) {
    return [role, make](TwoForms& forms) {
      for (std::int64_t layer = 0; layer < forms.sizes.layers; ++layer)
        part(forms, role, layer) = make(forms, layer);
    };
  };
  const std::vector<Case> cases = {
      {"not permuted",
       "q of layers 0 to 2 is not permuted where rows permuted to neighbouring pairs with 12 heads are due",
       each("attn_q",
            [](TwoForms& f, std::int64_t l) {
              return f.source.at(fmt::format("model.layers.{}.self_attn.q_proj.weight", l));
            })},
      {"twice", "k of layers 0 to 2 is permuted twice to neighbouring pairs with 4 heads",
       each("attn_k", [](TwoForms& f, std::int64_t l) { return permuted(part(f, "attn_k", l), 4); })},
      {"q with the heads of keys",
       "q of layers 0 to 2 is permuted to neighbouring pairs with 4 heads where 12 are due",
       each("attn_q", [](TwoForms& f, std::int64_t l) { return with_heads(f, "q_proj", l, 4); })},
      {"as one head", "k of layers 0 to 2 is permuted to neighbouring pairs with 1 head where 4 are due",
       each("attn_k", [](TwoForms& f, std::int64_t l) { return with_heads(f, "k_proj", l, 1); })},
      {"one layer", "k of layer 1 is permuted twice",
       [](TwoForms& f) { part(f, "attn_k", 1) = permuted(part(f, "attn_k", 1), 4); }},
      {"v as well",
       "v of layers 0 to 2 is permuted to neighbouring pairs with 4 heads where rows in the order of the "
       "source are due",
       each("attn_v", [](TwoForms& f, std::int64_t l) { return permuted(part(f, "attn_v", l), 4); })},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.title);
    TwoForms forms(Sizes{.heads = 12, .kv_heads = 4, .head_dim = 10});
    one.change(forms);
    const Finding finding = only(report_of(forms));
    ASSERT_NE(finding.rule, nullptr);
    EXPECT_EQ(finding.rule->id, "W106");
    EXPECT_THAT(finding.message, HasSubstr(one.said));
    ASSERT_FALSE(finding.hypotheses.empty());
    EXPECT_LE(finding.hypotheses[0].residual, finding.hypotheses[0].budget);
  }
}

TEST(Conversion, NamesTheReverseDirection) {
  // twice and back differ from ten channels on
  TwoForms forms(Sizes{.heads = 4, .kv_heads = 4, .head_dim = 10, .layers = 1});
  Tensor back = part(forms, "attn_q", 0);
  const Tensor source = forms.source.at("model.layers.0.self_attn.q_proj.weight");
  // the order whose permutation is the source
  Tensor numbers{{source.rows()}, std::vector<float>(static_cast<std::size_t>(source.rows()))};
  std::iota(numbers.data.begin(), numbers.data.end(), 0.0F);
  const Tensor order = permuted(numbers, 4);
  for (std::int64_t row = 0; row < source.rows(); ++row) {
    const auto from = static_cast<std::int64_t>(order.data[static_cast<std::size_t>(row)]);
    std::copy_n(source.data.begin() + row * source.columns(), source.columns(),
                back.data.begin() + from * source.columns());
  }
  part(forms, "attn_q", 0) = back;
  EXPECT_THAT(only(report_of(forms)).message,
              HasSubstr("q of layer 0 is permuted to half-split pairs with 4 heads"));
}

TEST(Conversion, NamesWhereNumbersComeFrom) {
  const auto said = [](auto change) {
    TwoForms forms;
    change(forms);
    const Finding finding = only(report_of(forms));
    return fmt::format("{} {}", finding.rule == nullptr ? "" : finding.rule->id, finding.message);
  };
  EXPECT_EQ(said([](TwoForms& f) { f.made["output.weight"] = f.made["token_embd.weight"]; }),
            "W107 output.weight holds what the source has as model.embed_tokens.weight");
  EXPECT_EQ(said([](TwoForms& f) { f.made["token_embd.weight"] = f.made["output.weight"]; }),
            "W107 token_embd.weight holds what the source has as lm_head.weight");
  EXPECT_EQ(said([](TwoForms& f) {
              for (float& x : f.made["output.weight"].data) x = 0;
            }),
            "W107 output.weight is all zero");
  EXPECT_EQ(said([](TwoForms& f) {
              for (float& x : f.made["token_embd.weight"].data) x *= 5.65685424949238F;
            }),
            "W107 token_embd.weight is that of the source times 5.65685 (the root of its width)");
  EXPECT_EQ(said([](TwoForms& f) {
              for (float& x : part(f, "attn_norm", 1).data) x += 1;
            }),
            "W107 attn_norm.weight of layer 1 is that of the source plus 1");
  EXPECT_EQ(said([](TwoForms& f) {
              Tensor& tensor = part(f, "attn_output", 2);
              const Tensor before = tensor;
              for (std::size_t i = 0; i < 32; ++i) {
                for (std::size_t j = 0; j < 32; ++j) tensor.data[i * 32 + j] = before.data[j * 32 + i];
              }
            }),
            "W107 attn_output.weight of layer 2 is that of the source transposed");
  EXPECT_EQ(said([](TwoForms& f) {
              std::vector<float>& data = f.made["token_embd.weight"].data;
              std::rotate(data.begin(), data.begin() + 3 * 32, data.end());
            }),
            "W107 token_embd.weight holds the row 3 rows further down of the source in each row");
  EXPECT_EQ(said([](TwoForms& f) {
              std::vector<float>& data = f.made["token_embd.weight"].data;
              std::reverse(data.begin() + 38 * 32, data.end());
            }).substr(0, 74),
            "W107 token_embd.weight has no relation to that of the source in 2 of the 4");
  EXPECT_THAT(
      said([](TwoForms& f) { part(f, "ffn_down", 0).data[5] = std::numeric_limits<float>::quiet_NaN(); }),
      HasSubstr("ffn_down.weight of layer 0 holds numbers that are not finite in 1 of the 32 rows"));
}

TEST(Conversion, NamesSwappedTensors) {
  TwoForms forms;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    std::swap(part(forms, "ffn_gate", layer), part(forms, "ffn_up", layer));
  const CheckReport report = report_of(forms);
  ASSERT_EQ(report.findings.size(), 2U) << text_of(report);
  EXPECT_EQ(report.findings[0].message,
            "ffn_gate.weight of layers 0 to 2 holds what the source has as mlp.up_proj.weight of that layer");
  EXPECT_EQ(report.findings[0].observed, Fact("model.layers.0.mlp.up_proj.weight"));

  TwoForms layers;
  for (auto& [name, tensor] : layers.made) {
    if (name.starts_with("blk.0.")) std::swap(tensor, layers.made.at("blk.2." + name.substr(6)));
  }
  const CheckReport swapped = report_of(layers);
  ASSERT_EQ(swapped.findings.size(), 2U) << text_of(swapped);
  EXPECT_THAT(swapped.findings[0].message, HasSubstr("of layer 0 holds what the source has in layer 2"));
}

TEST(Conversion, SaysOfOtherNumbersThatTheyAreOthers) {
  TwoForms forms;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (auto& [name, tensor] : forms.made) {
    for (float& value : tensor.data) value = normal(random);
  }
  const Finding finding = only(report_of(forms));
  EXPECT_THAT(finding.message, HasSubstr("each of 30 tensors"));
  EXPECT_THAT(finding.message, HasSubstr("has no relation to that of the source"));
}

TEST(Conversion, NamesMissingTensorsAndShapes) {
  const auto said = [](auto change) {
    TwoForms forms;
    change(forms);
    const Finding finding = only(report_of(forms));
    return fmt::format("{} {}", finding.rule == nullptr ? "" : finding.rule->id, finding.message);
  };
  EXPECT_THAT(said([](TwoForms& f) {
                std::erase_if(f.made, [](const auto& one) { return one.first.starts_with("blk.1."); });
              }),
              testing::AllOf(HasSubstr("W105"), HasSubstr("m.gguf has no layer 1, which")));
  EXPECT_THAT(said([](TwoForms& f) {
                f.made.erase(blk(0, "attn_v"));
                f.made.erase(blk(2, "attn_v"));
              }),
              testing::AllOf(HasSubstr("W105"), HasSubstr("self_attn.v_proj.weight of layers 0 and 2")));
  EXPECT_THAT(said([](TwoForms& f) { f.source.erase("model.layers.1.mlp.up_proj.weight"); }),
              testing::AllOf(HasSubstr("W105"), HasSubstr("no counterpart of ffn_up.weight of layer 1")));
  EXPECT_EQ(
      said([](TwoForms& f) { std::swap(part(f, "ffn_up", 0).shape[0], part(f, "ffn_up", 0).shape[1]); }),
      "W105 ffn_up.weight of layer 0 is [32,24], the source transposed, where [24,32] is due");
  EXPECT_THAT(said([](TwoForms& f) { f.made.erase("output.weight"); }),
              testing::AllOf(HasSubstr("W105"), HasSubstr("has no head of its own")));
}

TEST(Conversion, CountsWhatHasNoCounterpart) {
  TwoForms forms;
  forms.source["model.layers.0.experts.0.weight"] = forms.source["model.norm.weight"];
  const Finding finding = only(report_of(forms));
  EXPECT_EQ(finding.severity, Severity::note);
  EXPECT_THAT(finding.message, HasSubstr("tensors that were not compared: 1 (no counterpart is known, first "
                                         "model.layers.0.experts.0.weight)"));
}

TEST(Conversion, TakesATiedHeadForTheEmbedding) {
  TwoForms forms;
  forms.tied = true;
  forms.source.erase("lm_head.weight");
  forms.made["output.weight"] = forms.made["token_embd.weight"];
  EXPECT_TRUE(report_of(forms).findings.empty());
  forms.made.erase("output.weight");
  EXPECT_TRUE(report_of(forms).findings.empty());
  forms.made["output.weight"] = forms.made["token_embd.weight"];
  for (float& value : forms.made["output.weight"].data) value = -value * value;
  EXPECT_THAT(text_of(report_of(forms)), HasSubstr("output.weight"));
}

TEST(Conversion, NamesAnotherMeaning) {
  {
    TwoForms forms;
    forms.theta = 500000;
    const Finding finding = only(report_of(forms));
    EXPECT_EQ(finding.rule->id, "W108");
    EXPECT_EQ(finding.expected, Fact(500000.0));
    EXPECT_EQ(finding.observed, Fact(10000.0));
    EXPECT_THAT(finding.message, HasSubstr("theta is 10000 where the source has 500000"));
  }
  {
    TwoForms forms;
    forms.eps = 1e-6;
    EXPECT_EQ(only(report_of(forms)).message, "the eps of the norms is 1e-06 where the source has 1e-05");
  }
  {
    TwoForms forms;
    Tensor& table = forms.made["token_embd.weight"];
    Tensor& head = forms.made["output.weight"];
    for (Tensor* const one : {&table, &head}) {
      one->shape[0] += 8;
      one->data.resize(one->data.size() + 8 * 32, 0.1F);
    }
    const CheckReport report = report_of(forms);
    EXPECT_EQ(only(report).message, "the number of rows of the vocabulary is 48 where the source has 40");
    EXPECT_EQ(report.explained.size(), 2U);
  }
}

TEST(Conversion, ComparesTwoOfOneFormat) {
  TwoForms forms;
  const std::string one = forms.write_source("one");
  EXPECT_TRUE(report_of(one, forms.write_source("two")).findings.empty());
  for (float& value : forms.source["model.layers.2.mlp.down_proj.weight"].data) value *= 2;
  const Finding finding = only(report_of(forms.write_source("two"), one));
  EXPECT_EQ(finding.message, "mlp.down_proj.weight of layer 2 is that of the source times 2");
  EXPECT_EQ(finding.observed, Fact(finding.hypotheses[0].parameters[0].second));
  // a bare model has the same tensors without a prefix and without a head
  tests::Tensors bare;
  for (const auto& [name, tensor] : forms.source)
    bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  forms.source = bare;
  EXPECT_TRUE(report_of(forms.write_source("bare"), forms.folder.file("two")).findings.empty());
}

TEST(Conversion, RefusesDamagedFiles) {
  TwoForms forms;
  const std::string made = forms.write_made();
  const std::string source = forms.write_source();
  const std::string bytes = tests::slurp(source + "/model.safetensors");
  write_file(source + "/model.safetensors", std::string_view(bytes).substr(0, bytes.size() / 2));
  EXPECT_THROW((void)report_of(made, source), FileError);
}

TEST(Conversion, FingerprintsBothForms) {
  TwoForms forms;
  const std::string made = forms.write_made();
  const std::string source = forms.write_source();
  const ModelSpec spec = read_gguf(made);
  const ModelSpec against = read_hf_config(source, Reading::facts);
  CheckQuery query;
  query.spec = &spec;
  query.weights = made;
  query.against = &against;
  query.against_weights = source;
  std::vector<std::string> headers;
  for (const EvidenceItem& item : check(query).evidence) {
    EXPECT_EQ(item.kind, EvidenceKind::files);
    EXPECT_EQ(item.sha256.size(), 64U);
    headers.push_back(item.sha256);
  }
  ASSERT_EQ(headers.size(), 3U);  // the GGUF file, config.json, model.safetensors
  query.hash = HashScope::whole;
  const CheckReport whole = check(query);
  ASSERT_EQ(whole.evidence.size(), 3U);
  EXPECT_NE(whole.evidence[0].sha256, headers[0]);
  EXPECT_EQ(whole.evidence[1].sha256, headers[1]);
  EXPECT_NE(whole.evidence[2].sha256, headers[2]);
}

}  // namespace
}  // namespace locant
