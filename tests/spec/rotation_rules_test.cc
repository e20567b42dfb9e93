// SPDX-License-Identifier: Apache-2.0
// Rules about schedules, lengths and lists (C107 to C117): each speaks on what it is for and is silent on
// what looks like it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/rule_checks.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(C107, YarnAgainstTheLengths) {
  EXPECT_THAT(rules(scaled(with(yarn(), {{"factor", 8.0}}))), ElementsAre("C107"));
  EXPECT_THAT(note_of(scaled(with(yarn(), {{"factor", 2.0}})), "C107").text,
              AllOf(HasSubstr("2048"), HasSubstr("4096"), HasSubstr("ratio of 4")));
  EXPECT_THAT(rules(scaled(with(yarn(), {{"factor", 4.02}}))), IsEmpty());  // rounded
}

TEST(C107, SchedulesWithoutSuchAProduct) {
  // Llama 3.1: factor 8 over 8192, configured 131072
  EXPECT_THAT(rules(with(scaled({{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 8192}}),
                         {{"max_position_embeddings", 131072}})),
              IsEmpty());
  EXPECT_THAT(rules(scaled({{"rope_type", "linear"}, {"factor", 3.0}})), IsEmpty());
}

TEST(C108, UnknownTypes) {
  EXPECT_THAT(rules(scaled({{"rope_type", "yarn_v2"}})), ElementsAre("C108"));
  EXPECT_EQ(note_of(scaled({{"type", "yarn_v2"}}), "C108").key, "rope_scaling.type");
  for (const char* type : {"default", "mrope"})
    EXPECT_THAT(rules(with(llama_v4(), {{"rope_scaling", {{"type", type}}}})), IsEmpty()) << type;
}

TEST(C111, MissingKeys) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 1024}};
  EXPECT_THAT(rules(scaled(llama3)), IsEmpty());
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    const ModelSpec spec = looked_at(scaled(without(llama3, key)));
    EXPECT_EQ(ids_of(spec).front(), "C111") << key;
    EXPECT_EQ(rotation(spec).mechanism, "rope");
    EXPECT_NO_THROW((void)plan(spec.positions, find_recipe("exact"), {}));
  }
  EXPECT_THAT(rules(scaled(without(yarn(), "original_max_position_embeddings"))), ElementsAre("C111"));
  EXPECT_THAT(rules(with(llama_v4(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}})),
              ElementsAre("C111"));
  EXPECT_THAT(rules(scaled({{"type", "dynamic"}, {"factor", 2.0}})), IsEmpty());
  // a ratio of lengths stands in for the factor
  EXPECT_THAT(rules(scaled(without(yarn(), "factor"))), IsEmpty());
}

TEST(C112, LengthsThatContradict) {
  EXPECT_THAT(rules(with(scaled(with(yarn(), {{"factor", 1.0}})), {{"max_position_embeddings", 1023}})),
              ElementsAre("C112"));
  EXPECT_THAT(rules(with(scaled(with(yarn(), {{"factor", 1.0}})), {{"max_position_embeddings", 1024}})),
              IsEmpty());
  // a window past the end is no contradiction
  EXPECT_THAT(rules({{"model_type", "phi3"}, {"max_position_embeddings", 512}, {"sliding_window", 4096}}),
              IsEmpty());
}

TEST(C112, TokenizersPastATable) {
  const auto beside = [](const Json& config, const Json& tokenizer) {
    const TempDir dir;
    (void)dir.write("config.json", config.dump());
    (void)dir.write("tokenizer_config.json", tokenizer.dump());
    return ids_of(read_hf_config(dir.path(), Reading::facts));
  };
  EXPECT_THAT(beside(gpt2(), {{"model_max_length", 41}}), ElementsAre("C112"));
  EXPECT_THAT(beside(gpt2(), {{"model_max_length", 40}}), IsEmpty());
  EXPECT_THAT(beside(gpt2(), {{"model_max_length", 1e30}}), IsEmpty());
  EXPECT_THAT(beside(gpt2(), {{"other", 41}}), IsEmpty());
  EXPECT_THAT(beside(gpt2(), Json::array()), IsEmpty());
  EXPECT_THAT(beside(llama_v5(), {{"model_max_length", 100000}}), IsEmpty());
  // RoBERTa's table counts two rows of padding
  const Json roberta = {{"model_type", "roberta"}, {"max_position_embeddings", 514}, {"pad_token_id", 1}};
  EXPECT_THAT(beside(roberta, {{"model_max_length", 512}}), IsEmpty());
  EXPECT_THAT(beside(roberta, {{"model_max_length", 514}}), ElementsAre("C112"));
}

TEST(C113, FactorsOfEachPair) {
  const auto longrope = [](std::size_t shorts, std::size_t longs) {
    return looked_at(
        with(without(llama_v5(), "rope_parameters"), {{"max_position_embeddings", 4096},
                                                      {"rope_scaling",
                                                       {{"type", "longrope"},
                                                        {"original_max_position_embeddings", 1024},
                                                        {"short_factor", std::vector<double>(shorts, 1.0)},
                                                        {"long_factor", std::vector<double>(longs, 2.0)}}}}));
  };
  EXPECT_THAT(ids_of(longrope(5, 5)), IsEmpty());
  EXPECT_EQ(rotation(longrope(5, 5)).mechanism, "longrope");
  EXPECT_THAT(ids_of(longrope(5, 4)), ElementsAre("C113"));
  EXPECT_THAT(ids_of(longrope(10, 10)), ElementsAre("C113", "C113"));
  EXPECT_EQ(rotation(longrope(5, 4)).mechanism, "rope");
  EXPECT_NO_THROW((void)plan(longrope(5, 4).positions, find_recipe("hf"), {}));
}

TEST(C113, SectionsAndLayerTypes) {
  const auto sections = [](const std::vector<int>& sizes) {
    Json config = nested();
    config["text_config"]["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", sizes}};
    return looked_at(config);
  };
  EXPECT_THAT(ids_of(sections({2, 1, 1})), IsEmpty());
  EXPECT_THAT(ids_of(sections({2, 1, 2})), ElementsAre("C113"));
  EXPECT_EQ(rotation(sections({2, 1, 2})).find("sections"), nullptr);
  EXPECT_THAT(ids_of(sections({4})), ElementsAre("C113"));
  const auto types = [](std::size_t words) {
    return rules({{"model_type", "qwen2"},
                  {"num_hidden_layers", 3},
                  {"layer_types", std::vector<std::string>(words, "full_attention")}});
  };
  EXPECT_THAT(types(3), IsEmpty());
  EXPECT_THAT(types(4), IsEmpty());  // layers of a prediction head
  EXPECT_THAT(types(2), ElementsAre("C113"));
  EXPECT_THAT(rules({{"model_type", "smollm3"}, {"num_hidden_layers", 3}, {"no_rope_layers", {1, 1}}}),
              ElementsAre("C113"));
}

TEST(C114, DefaultBases) {
  // 2 pi 10000^(6/8) = 6283 tokens for heads of 8
  const Json silent = without(llama_v4(), "rope_theta");
  EXPECT_THAT(rules(with(silent, {{"max_position_embeddings", 6284}})), ElementsAre("C114"));
  EXPECT_THAT(rules(with(silent, {{"max_position_embeddings", 6283}})), IsEmpty());
  EXPECT_THAT(rules(with(llama_v4(), {{"rope_theta", 10000}, {"max_position_embeddings", 1 << 20}})),
              IsEmpty());
  EXPECT_THAT(rules(with(silent, {{"max_position_embeddings", 8192},
                                  {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}})),
              IsEmpty());
}

TEST(C114, WindowsHaveSmallBases) {
  // local layers of Gemma 3 rotate with 10000 whatever the length
  EXPECT_THAT(
      rules({{"model_type", "gemma3_text"}, {"rope_theta", 1e6}, {"max_position_embeddings", 1 << 20}}),
      IsEmpty());
}

TEST(C115, PartialFactorsOfWholeHeads) {
  EXPECT_THAT(rules(with(llama_v4(), {{"partial_rotary_factor", 0.5}})), ElementsAre("C115"));
  EXPECT_THAT(rules(with(llama_v4(), {{"partial_rotary_factor", 1.0}})), IsEmpty());
  EXPECT_THAT(rules({{"model_type", "stablelm"}, {"partial_rotary_factor", 0.25}}), IsEmpty());
}

TEST(C116, IdsPastTheVocabulary) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"}) {
    EXPECT_THAT(rules(with(llama_v5(), {{key, 320}})), ElementsAre("C116")) << key;
    EXPECT_THAT(rules(with(llama_v5(), {{key, 319}})), IsEmpty()) << key;
  }
  EXPECT_THAT(rules(with(llama_v5(), {{"eos_token_id", {1, 400, 500}}})), ElementsAre("C116", "C116"));
  EXPECT_THAT(rules(with(llama_v5(), {{"pad_token_id", -1}})), IsEmpty());
}

TEST(C117, BlocksOfTransformers5) {
  const auto said = [](const char* version) {
    return rules(with(llama_v5(), {{"transformers_version", version}}));
  };
  EXPECT_THAT(said("4.46.3"), ElementsAre("C117"));
  EXPECT_THAT(said("4.57.1"), ElementsAre("C117"));
  EXPECT_THAT(said("4.57.0.dev0"), IsEmpty());
  EXPECT_THAT(said("5.0.0"), IsEmpty());
  EXPECT_THAT(rules(with(llama_v4(), {{"transformers_version", "4.46.3"}})), IsEmpty());
  EXPECT_THAT(rules(with(llama_v5(), {{"transformers_version", "4.46.3"}, {"rope_theta", 123456.0}})),
              IsEmpty());
}

}  // namespace
}  // namespace locant
