// SPDX-License-Identifier: Apache-2.0
// W109 to W113 and W102 of GGUF: one model's weights against its own config.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/two_forms.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::Sizes;
using tests::TwoForms;

CheckReport report_of(const std::string& path) {
  const ModelSpec spec = path.ends_with(".gguf") ? read_gguf(path) : read_hf_config(path, Reading::facts);
  CheckQuery query;
  query.spec = &spec;
  query.weights = path;
  query.select = {"W"};
  return check(query);
}

/// "W109 error: ...", or "" when nothing is found.
std::string said(const std::string& path) {
  const CheckReport report = report_of(path);
  std::string text;
  for (const Finding& finding : report.findings)
    text += fmt::format("{} {}: {}", finding.rule->id, name_of(finding.severity), finding.message);
  return text;
}

TEST(Layers, AreSilentWhenAllIsThere) {
  TwoForms forms(Sizes{.heads = 12, .kv_heads = 4, .head_dim = 10, .layers = 5});
  EXPECT_EQ(said(forms.write_source()), "");
  EXPECT_EQ(said(forms.write_made()), "");
}

TEST(Layers, AreCounted) {
  TwoForms forms(Sizes{.layers = 6});
  std::erase_if(forms.source, [](const auto& one) {
    return one.first.starts_with("model.layers.4.") || one.first.starts_with("model.layers.5.");
  });
  std::erase_if(forms.made, [](const auto& one) { return one.first.starts_with("blk.2."); });
  EXPECT_EQ(said(forms.write_source()), "W109 error: the config has 6 layers, the file lacks layers 4 to 5");
  EXPECT_EQ(said(forms.write_made()), "W109 error: the config has 6 layers, the file lacks layer 2");
}

TEST(Layers, HaveTheProjectionsOfTheOthers) {
  TwoForms forms(Sizes{.layers = 6});
  forms.source.erase("model.layers.3.self_attn.k_proj.weight");
  EXPECT_EQ(said(forms.write_source()),
            "W109 error: layer 3 has no self_attn.k_proj.weight, which 5 other layers have");
}

TEST(Layers, HaveRowsForTheirHeads) {
  TwoForms forms;
  forms.sizes.kv_heads = 4;
  EXPECT_EQ(said(forms.write_source()),
            "W110 error: model.layers.0.self_attn.k_proj.weight has 16 rows where 4 key heads of 8 make 32");
}

/// Rows of very different length, as training leaves them.
void train(tests::Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] *= 0.1F + 0.1F * static_cast<float>(i / static_cast<std::size_t>(tensor.columns()) % 17);
}

TEST(Heads, ThatWereDrawnAreNamedBesideATrainedEmbedding) {
  TwoForms forms(Sizes{.hidden = 64, .vocab = 200});
  train(forms.source["model.embed_tokens.weight"]);
  EXPECT_THAT(said(forms.write_source()), HasSubstr("W111 warning: lm_head.weight looks newly drawn beside "
                                                    "model.embed_tokens.weight"));
  std::swap(forms.source["model.embed_tokens.weight"], forms.source["lm_head.weight"]);
  EXPECT_THAT(said(forms.write_source()),
              HasSubstr("W111 warning: model.embed_tokens.weight looks newly drawn"));
  train(forms.source["model.embed_tokens.weight"]);
  EXPECT_EQ(said(forms.write_source()), "");
}

TEST(Heads, ThatAreTheEmbeddingAreNoted) {
  TwoForms forms;
  forms.source["lm_head.weight"] = forms.source["model.embed_tokens.weight"];
  EXPECT_EQ(
      said(forms.write_source()),
      "W112 note: lm_head.weight holds the numbers of model.embed_tokens.weight although the config does "
      "not tie them");
}

TEST(Heads, ThatAreEmptyAreNamedInGgufToo) {
  TwoForms forms;
  for (float& value : forms.made["output.weight"].data) value = 0;
  EXPECT_EQ(said(forms.write_made()), "W102 error: every element of output.weight is 0");
}

TEST(Tokens, AreCountedAgainstRows) {
  TwoForms forms;
  forms.tokens.assign(40, "a");
  EXPECT_EQ(said(forms.write_made()), "");
  forms.tokens.assign(37, "a");
  EXPECT_EQ(said(forms.write_made()),
            "W113 note: 3 rows of token_embd.weight, 37 to 39, belong to no token of the tokenizer");
  const std::string folder = forms.write_source();
  write_file(folder + "/tokenizer.json",
             R"({"model": {"vocab": {"a": 0, "b": 38}}, "added_tokens": [{"id": 41, "content": "<s>"}]})");
  EXPECT_EQ(said(folder),
            "W113 warning: the tokenizer makes ids up to 41, model.embed_tokens.weight has rows up to 39");
  write_file(folder + "/tokenizer.json", R"({"model": {"vocab": [["a", 0], ["b", 1]]}})");
  EXPECT_THAT(said(folder), HasSubstr("W113 note: 38 rows of model.embed_tokens.weight, 2 to 39"));
}

}  // namespace
}  // namespace locant
