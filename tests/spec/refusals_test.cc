// SPDX-License-Identifier: Apache-2.0
// What read_hf_config() refuses: every sentence names the file, the key, the rule and the value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

auto says(const char* key, const char* more) {
  return AllOf(HasSubstr("config.json: "), HasSubstr(key), HasSubstr(more));
}

TEST(Refuses, AMissingModelType) {
  EXPECT_THAT(refusal(without(llama_v5(), "model_type")), says("model_type", "missing"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"model_type", nullptr}})), says("model_type", "missing"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"model_type", 7}})), says("model_type", "7"));
}

TEST(Refuses, AnUnknownModelTypeWithTheNearest) {
  EXPECT_THAT(refusal(with(llama_v5(), {{"model_type", "lama"}})),
              says("model_type \"lama\"", "did you mean llama?"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"model_type", "gtp2"}})),
              says("model_type \"gtp2\"", "did you mean gpt2?"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"model_type", "qqqqqqqq"}})),
              AllOf(says("qqqqqqqq", "none of the"), Not(HasSubstr("did you mean"))));
}

TEST(Refuses, AMissingSize) {
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
    EXPECT_THAT(refusal(without(llama_v5(), key)), says(key, "missing"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, nullptr}})), says(key, "missing"));
  }
  for (const char* key : {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"}) {
    EXPECT_THAT(refusal(without(gpt2(), key)), says(key, "missing"));
  }
  for (const char* key : {"vocab_size", "hidden_size", "n_layer", "n_head"}) {
    EXPECT_THAT(refusal(without(bloom(), key)), says(key, "missing"));
  }
  for (const char* key : {"vocab_size", "d_model", "num_layers", "attention_heads", "ffn_dim"}) {
    EXPECT_THAT(refusal(without(xglm(), key)), says(key, "missing"));
  }
}

TEST(Refuses, SizesOfTheWrongTypeOrRange) {
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "intermediate_size", "max_position_embeddings"}) {
    SCOPED_TRACE(key);
    EXPECT_THAT(refusal(with(llama_v5(), {{key, "768"}})), says(key, "got \"768\""));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, 0}})), says(key, "got 0"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, -4}})), says(key, "got -4"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, 7.5}})), says(key, "got 7.5"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, true}})), says(key, "got true"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, {8}}})), says(key, "got [8]"));
    EXPECT_THAT(refusal(with(llama_v5(), {{key, 18446744073709551615U}})), says(key, "18446744073709551615"));
  }
}

TEST(Refuses, SizesThatNoMachineHolds) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_THAT(refusal(with(llama_v5(), {{"num_hidden_layers", kHuge}})),
              says("num_hidden_layers", "got 46116860184"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"num_hidden_layers", 2147483647}})),
              says("num_hidden_layers", "65536"));
  EXPECT_THAT(refusal(with(gpt2(), {{"n_embd", kHuge}, {"n_head", 1}})), says("n_embd", "got 46116860184"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"num_attention_heads", kHuge}, {"num_key_value_heads", 1}})),
              says("num_attention_heads", "at most 2147483647"));
}

TEST(Refuses, HeadsThatDoNotDivide) {
  EXPECT_THAT(refusal(with(llama_v4(), {{"hidden_size", 70}})), says("hidden_size", "9"));
  EXPECT_THAT(refusal(with(gpt2(), {{"n_embd", 62}})), says("n_embd", "5"));
  EXPECT_THAT(refusal(with(bloom(), {{"hidden_size", 57}})), says("hidden_size", "7"));
  EXPECT_THAT(refusal(with(xglm(), {{"d_model", 50}})), says("d_model", "4"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"num_key_value_heads", 2}})), says("num_key_value_heads", "got 2"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"num_key_value_heads", 18}})),
              says("num_key_value_heads", "got 18"));
}

TEST(Refuses, AliasesThatDisagree) {
  EXPECT_THAT(refusal(with(gpt2(), {{"hidden_size", 64}})),
              AllOf(says("n_embd", "60"), says("hidden_size", "64")));
  EXPECT_THAT(refusal(with(xglm(), {{"num_attention_heads", 2}})),
              says("attention_heads", "num_attention_heads"));
  EXPECT_THAT(refusal(with(bloom(), {{"n_embed", 64}})), says("hidden_size", "n_embed"));
}

TEST(Refuses, UnknownActivations) {
  EXPECT_THAT(refusal(with(llama_v5(), {{"hidden_act", "mish"}})), says("hidden_act", "got \"mish\""));
  EXPECT_THAT(refusal(with(gpt2(), {{"activation_function", "laplace"}})),
              says("activation_function", "got \"laplace\""));
  EXPECT_THAT(refusal(with(xglm(), {{"activation_function", 3}})), says("activation_function", "got 3"));
}

TEST(Refuses, RotationsItDoesNotUnderstand) {
  EXPECT_THAT(refusal(with(llama_v4(), {{"rope_scaling", {{"type", "fancy"}, {"factor", 4.0}}}})),
              says("rope_scaling.type", "got \"fancy\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", {{"rope_type", "linear"}, {"factor", "2"}}}})),
              says("rope_parameters.factor", "got \"2\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", {{"rope_type", "linear"}}}})),
              says("rope_parameters.factor", "missing"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 2.0}}}})),
              says("rope_parameters.low_freq_factor", "missing"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", {{"rope_type", "default"}, {"factor", 2.0}}}})),
              says("rope_parameters.factor", "2.0"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", {{"rope_theta", "big"}}}})),
              says("rope_parameters.rope_theta", "\"big\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_parameters", 3}})), says("rope_parameters", "got 3"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"partial_rotary_factor", 0.5}})),
              says("partial_rotary_factor", "got 0.5"));
}

TEST(Refuses, OtherKindsOfModel) {
  EXPECT_THAT(refusal(with(llama_v5(), {{"quantization_config", {{"quant_method", "gptq"}}}})),
              says("quantization_config", "gptq"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"sliding_window", 128}})), says("sliding_window", "got 128"));
  EXPECT_THAT(refusal(with(gpt2(), {{"add_cross_attention", true}})),
              says("add_cross_attention", "got true"));
  EXPECT_THAT(refusal(with(xglm(), {{"is_encoder_decoder", true}})), says("is_encoder_decoder", "got true"));
}

TEST(Refuses, KeysThatSpeakOfTheComputation) {
  EXPECT_THAT(refusal(with(llama_v5(), {{"attn_logit_softcapping", 50.0}})),
              says("attn_logit_softcapping", "50.0"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"embedding_multiplier", 12.0}})),
              says("embedding_multiplier", "12.0"));
  EXPECT_THAT(refusal(with(gpt2(), {{"alibi", true}})), says("alibi", "true"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rope_thet", 500.0}})), says("rope_thet", "500.0"));
  EXPECT_THAT(refusal(with(gpt2(), {{"layer_norm_epsilom", 1.0}})), says("layer_norm_epsilom", "1.0"));
  EXPECT_THAT(refusal(with(gpt2(), {{"n_embed", 60}})), says("n_embed", "60"));
}

TEST(Refuses, ValuesOfTheWrongType) {
  EXPECT_THAT(refusal(with(llama_v5(), {{"tie_word_embeddings", "yes"}})),
              says("tie_word_embeddings", "got \"yes\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"tie_word_embeddings", 1}})), says("tie_word_embeddings", "got 1"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"attention_bias", 0}})), says("attention_bias", "got 0"));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rms_norm_eps", "1e-6"}})), says("rms_norm_eps", "got \"1e-6\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"rms_norm_eps", -1.0}})), says("rms_norm_eps", "got -1.0"));
  EXPECT_THAT(refusal(with(xglm(), {{"scale_embedding", "true"}})), says("scale_embedding", "got \"true\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"eos_token_id", "2"}})), says("eos_token_id", "got \"2\""));
  EXPECT_THAT(refusal(with(llama_v5(), {{"eos_token_id", {1, 2.5}}})), says("eos_token_id", "got [1,2.5]"));
  EXPECT_THAT(refusal(with(xglm(), {{"pad_token_id", 18446744073709551615U}})),
              says("pad_token_id", "18446744073709551615"));
}

TEST(Notes, HarmlessUnknownKeysAreMentioned) {
  const ModelSpec spec =
      read(with(llama_v5(), {{"my_comment", "hello"}, {"temperature", 0.7}, {"use_cache", true}}));
  ASSERT_EQ(spec.notes.size(), 1U);
  EXPECT_THAT(spec.notes[0].text, HasSubstr("my_comment"));
}

TEST(Notes, NullsOfOtherVersionsSayNothing) {
  EXPECT_TRUE(read(with(llama_v5(), {{"sliding_window", nullptr},
                                     {"quantization_config", nullptr},
                                     {"future_attention", nullptr}}))
                  .notes.empty());
}

TEST(Files, AConfigOrItsDirectory) {
  const TempDir dir;
  const std::string file = dir.write("config.json", llama_v5().dump());
  EXPECT_EQ(read_hf_config(file).path, file);
  EXPECT_EQ(read_hf_config(dir.path()).path, file);
  EXPECT_EQ(read_hf_config(dir.path()).hidden, 72);
}

TEST(Files, Missing) {
  const TempDir dir;
  EXPECT_THAT(message_of<FileError>([&] { (void)read_hf_config(dir.file("absent.json")); }),
              HasSubstr("absent.json: "));
  EXPECT_THAT(message_of<FileError>([&] { (void)read_hf_config(dir.path()); }), HasSubstr("config.json: "));
}

TEST(Files, NotJson) {
  const auto refused = [](const std::string& text) {
    return message_of<FileError>([&] { (void)read_text(text); });
  };
  EXPECT_THAT(refused(""), HasSubstr("config.json: "));
  EXPECT_THAT(refused("{\"model_type\": "), HasSubstr("at byte"));
  EXPECT_THAT(refused("{\"vocab_size\": NaN}"), HasSubstr("at byte"));
  EXPECT_THAT(refused(R"({"vocab_size": 1, "vocab_size": 2})"), HasSubstr("vocab_size"));
}

TEST(Files, NoObject) {
  for (const char* text : {"[]", "3", "\"llama\"", "null"}) {
    EXPECT_THAT(message_of<SpecError>([&] { (void)read_text(text); }), HasSubstr("config.json: ")) << text;
  }
}

TEST(Files, EveryPrefixOfAConfigIsRefused) {
  const std::string text = llama_v5().dump();
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_THROW((void)read_text(text.substr(0, bytes)), FileError) << bytes;
  }
}

}  // namespace
}  // namespace locant
