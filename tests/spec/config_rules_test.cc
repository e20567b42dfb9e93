// SPDX-License-Identifier: Apache-2.0
// Rules about a config (family C): each speaks on what it is for and is silent on what looks like it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
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

TEST(ConfigRules, HealthyConfigsAreSilent) {
  for (const Json& config : {llama_v4(), llama_v5(), gpt2(), bloom(), xglm(), scaled(yarn()), nested()})
    EXPECT_THAT(rules(config), IsEmpty()) << config;
}

TEST(ConfigRules, EveryNoteSaysItsKeyAndStartsWithTheFile) {
  const Json config = with(scaled({{"rope_type", "linear"}, {"factor", "4"}, {"wobble", 1}}),
                           {{"rope_interleaved", true}, {"bos_token_id", 320}});
  for (const Note& note : looked_at(config).notes) {
    EXPECT_THAT(note.text, HasSubstr("config.json: ")) << note.rule;
    EXPECT_THAT(note.text, HasSubstr(note.key));
    EXPECT_FALSE(note.key.empty());
  }
  EXPECT_EQ(rules(config).size(), 4U);
}

TEST(ConfigRules, StrictReadingHasNone) {
  EXPECT_THAT(ids_of(read(with(llama_v5(), {{"my_comment", "hello"}}))), IsEmpty());
  EXPECT_NE(refusal(with(llama_v4(), {{"rope_theta", "500000"}})), "");
  EXPECT_NE(refusal(with(llama_v4(), {{"rope_scaling", R"({"type": "linear", "factor": 2})"}})), "");
}

TEST(C101, TwoNamesOfOneFact) {
  EXPECT_THAT(note_of(with(gpt2(), {{"hidden_size", 64}}), "C101").text,
              AllOf(HasSubstr("60"), HasSubstr("64")));
  EXPECT_THAT(rules(with(gpt2(), {{"n_ctx", 41}})), IsEmpty());
  EXPECT_THAT(rules(with(gpt2(), {{"n_ctx", 40}})), IsEmpty());
}

TEST(C101, ThetaInsideAndOutside) {
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_theta", 10000.0}})), ElementsAre("C101"));
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_theta", 123456}})), IsEmpty());
}

TEST(C101, TypeAndRopeType) {
  const auto both = [](const char* older, const char* newer) {
    return rules(scaled(with(yarn(), {{"type", older}, {"rope_type", newer}})));
  };
  EXPECT_THAT(both("linear", "yarn"), testing::Contains("C101"));
  EXPECT_THAT(both("yarn", "yarn"), IsEmpty());
  EXPECT_THAT(both("deepseek_yarn", "yarn"), IsEmpty());
  // transformers writes this beside the older word
  EXPECT_THAT(rules(with(llama_v4(), {{"rope_scaling", {{"type", "mrope"}, {"rope_type", "default"}}}})),
              IsEmpty());
}

TEST(C101, OldBlockBesideNewBlock) {
  const Json older = with(scaled(yarn()), {{"rope_parameters", with(yarn(), {{"rope_theta", 123456.0}})}});
  EXPECT_THAT(rules(older), IsEmpty());
  Json other = older;
  other["rope_parameters"]["factor"] = 8.0;
  EXPECT_THAT(rules(other), testing::Contains("C101"));
  other = older;
  other["rope_parameters"]["rope_type"] = "default";
  EXPECT_THAT(note_of(other, "C101").text, HasSubstr("another schedule"));
}

TEST(C101, OriginalLengthInsideAndOutside) {
  EXPECT_THAT(rules(with(scaled(yarn()), {{"original_max_position_embeddings", 512}})),
              testing::Contains("C101"));
  EXPECT_THAT(rules(with(scaled(yarn()), {{"original_max_position_embeddings", 1024}})), IsEmpty());
}

TEST(C101, WidthAndFraction) {
  const Json phi = {{"model_type", "phi"}, {"hidden_size", 96},      {"num_attention_heads", 4},
                    {"vocab_size", 320},   {"num_hidden_layers", 2}, {"partial_rotary_factor", 0.5}};
  EXPECT_THAT(rules(with(phi, {{"rotary_dim", 12}})), IsEmpty());
  EXPECT_THAT(rules(with(phi, {{"rotary_dim", 16}})), ElementsAre("C101"));
}

TEST(C101, TextModelAndWhatHoldsIt) {
  EXPECT_THAT(rules(with(nested(), {{"vocab_size", 320}})), IsEmpty());
  EXPECT_THAT(rules(with(nested(), {{"vocab_size", 330}})), ElementsAre("C101"));
  // classes of transformers have other defaults of the tie outside than inside
  Json tied = nested();
  tied["tie_word_embeddings"] = true;
  tied["text_config"]["tie_word_embeddings"] = false;
  EXPECT_THAT(rules(tied), IsEmpty());
}

TEST(C102, KeysThatNobodyReads) {
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_interleaved", true}})), ElementsAre("C102"));
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_interleaved", false}})), IsEmpty());
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_interleaved", nullptr}})), IsEmpty());
  EXPECT_THAT(rules(with(llama_v5(), {{"my_comment", "hello"}, {"attention_dropout", 0.1}})), IsEmpty());
  EXPECT_THAT(note_of(scaled({{"rope_type", "linear"}, {"factor", 4.0}, {"wobble", 3}}), "C102").key,
              "rope_scaling.wobble");
}

TEST(C102, KeysThatTheClassReadsAreNoFault) {
  const ModelSpec minicpm = looked_at(
      {{"model_type", "minicpm"}, {"hidden_size", 64}, {"num_attention_heads", 4}, {"scale_depth", 1.4}});
  EXPECT_THAT(ids_of(minicpm), IsEmpty());
  EXPECT_THAT(texts_of(minicpm.notes), testing::Contains(HasSubstr("not followed here")));
}

TEST(C102, AnUnknownFamilyMayReadAnything) {
  const ModelSpec weird =
      looked_at({{"model_type", "weird"}, {"rope_theta", 1e6}, {"rope_interleaved", true}});
  EXPECT_THAT(ids_of(weird), IsEmpty());
  EXPECT_THAT(texts_of(weird.notes), testing::Contains(HasSubstr("rope_interleaved")));
}

TEST(C102, OriginalLengthBesideAnySchedule) {
  EXPECT_THAT(
      rules(scaled({{"rope_type", "linear"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}})),
      IsEmpty());
}

TEST(C103, TypingErrors) {
  for (const char* key : {"max_postion_embeddings", "maxPositionEmbeddings", "max_positions_embeddings",
                          "max-position-embeddings", "rope_scalling", "rope_paramters"})
    EXPECT_THAT(rules(with(without(without(llama_v4(), "rope_scaling"), "rope_theta"), {{key, 64}})),
                ElementsAre("C103"))
        << key;
  EXPECT_THAT(note_of(scaled({{"rope_type", "linear"}, {"factr", 4.0}}), "C103").text, HasSubstr("factor"));
}

TEST(C103, OtherWordsAreNoTypingErrors) {
  for (const char* key : {"v_head_dim", "kv_channel", "num_layers_2", "rope_beta", "_sliding_window_pattern"})
    EXPECT_EQ(note_of(with(llama_v4(), {{key, 64}}), "C103").text, "") << key;
  // the right key is there too
  EXPECT_EQ(note_of(with(llama_v5(), {{"vocab_sizes", 3}}), "C103").text, "");
}

TEST(C104, Nulls) {
  EXPECT_THAT(rules(with(llama_v4(), {{"rope_theta", nullptr}})), ElementsAre("C104"));
  EXPECT_THAT(rules(with(llama_v5(), {{"tie_word_embeddings", nullptr}})), ElementsAre("C104"));
  EXPECT_THAT(rules(scaled(with(yarn(), {{"factor", nullptr}}))), ElementsAre("C104"));
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_parameters", {{"rope_type", nullptr}, {"rope_theta", 5e5}}}})),
              ElementsAre("C104"));
}

TEST(C104, NullsThatMeanNone) {
  EXPECT_THAT(rules(with(llama_v5(), {{"rope_scaling", nullptr},
                                      {"sliding_window", nullptr},
                                      {"head_dim", nullptr},
                                      {"pad_token_id", nullptr},
                                      {"num_key_value_heads", nullptr}})),
              IsEmpty());
  EXPECT_THAT(rules(scaled(with(yarn(), {{"attention_factor", nullptr}, {"mscale", nullptr}}))), IsEmpty());
  EXPECT_THAT(rules(scaled(with(yarn(), {{"rope_theta", nullptr}}))),
              IsEmpty());  // it stands beside the block
}

TEST(C105, NumbersInQuotes) {
  const ModelSpec spec =
      looked_at(with(llama_v4(), {{"rope_theta", "500000"}, {"max_position_embeddings", 4096.0}}));
  EXPECT_THAT(ids_of(spec), ElementsAre("C105", "C105"));
  EXPECT_EQ(std::get<double>(rotation(spec).find("theta")->value), 500000);
  EXPECT_EQ(spec.lengths.configured, 4096);
  const ModelSpec flag = looked_at(with(llama_v5(), {{"tie_word_embeddings", "False"}}));
  EXPECT_THAT(ids_of(flag), ElementsAre("C105"));
  EXPECT_FALSE(flag.head.tied);
  EXPECT_TRUE(looked_at(with(llama_v5(), {{"tie_word_embeddings", 1}})).head.tied);
}

TEST(C105, ABlockInQuotes) {
  const ModelSpec spec =
      looked_at(with(llama_v4(), {{"rope_scaling", R"({"type": "linear", "factor": 2.0})"}}));
  EXPECT_THAT(ids_of(spec), ElementsAre("C105"));
  EXPECT_EQ(rotation(spec).mechanism, "linear");
  EXPECT_EQ(rotation(looked_at(with(llama_v4(), {{"rope_scaling", "None"}}))).mechanism, "rope");
}

TEST(C105, OnceAList) {
  const std::vector<std::string> texts(5, "1.5");
  const ModelSpec spec = looked_at(
      with(without(llama_v5(), "rope_parameters"), {{"max_position_embeddings", 4096},
                                                    {"rope_scaling",
                                                     {{"type", "longrope"},
                                                      {"original_max_position_embeddings", 1024},
                                                      {"short_factor", texts},
                                                      {"long_factor", std::vector<double>(5, 2.0)}}}}));
  EXPECT_THAT(ids_of(spec), ElementsAre("C105"));
  EXPECT_EQ(std::get<std::vector<double>>(rotation(spec).find("short_factor")->value),
            std::vector<double>(5, 1.5));
}

TEST(C105, WhatIsNoNumberIsRefused) {
  for (const char* text : {"big", "500_000", "", "NaN", "1e999", "12 13"}) {
    const TempDir dir;
    const std::string file = dir.write("config.json", with(llama_v4(), {{"rope_theta", text}}).dump());
    EXPECT_THAT(message_of<SpecError>([&] { (void)read_hf_config(file, Reading::facts); }),
                HasSubstr("rope_theta"))
        << text;
  }
}

TEST(C106, BlocksThatNobodyReads) {
  const Json renamed = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
  EXPECT_THAT(rules(with(llama_v4(), {{"custom_rope_scaling", renamed}})), ElementsAre("C106"));
  EXPECT_THAT(rules(with(gpt2(), {{"rope_scaling", renamed}})), ElementsAre("C106"));
  EXPECT_THAT(rules(with(gpt2(), {{"alibi", true}})), ElementsAre("C106"));
  EXPECT_THAT(rules(with(llama_v4(), {{"low_freq_factor", 1.0}})), ElementsAre("C106"));
  EXPECT_THAT(rules(with(llama_v4(), {{"sliding_window", 128}})), ElementsAre("C106"));
  EXPECT_THAT(rules(with(nested(), {{"rope_scaling", renamed}})), ElementsAre("C106"));
}

TEST(C106, PlainBlocksAndOtherObjects) {
  // transformers 5 writes a plain block into configs of classes that do not rotate
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  EXPECT_THAT(rules(with(bloom(), {{"rope_parameters", plain}})), IsEmpty());
  EXPECT_THAT(rules(with(llama_v4(), {{"my_block", {{"type", "linear layer"}, {"size", 4}}}})), IsEmpty());
  EXPECT_THAT(rules(with(gpt2(), {{"alibi", false}, {"rope_scaling", nullptr}})), IsEmpty());
}

TEST(ConfigRules, OfMetaToo) {
  const TempDir dir;
  const std::string file = dir.write("params.json", Json{{"dim", 64},
                                                         {"n_layers", 2},
                                                         {"n_heads", 4},
                                                         {"vocab_size", 300},
                                                         {"norm_eps", "1e-5"},
                                                         {"rope_thet", 5e5}}
                                                        .dump());
  EXPECT_THAT(ids_of(read_meta_params(file)), ElementsAre("C105", "C103"));
}

std::string page(const Rule& rule) {
  const std::filesystem::path path =
      std::filesystem::path(LOCANT_SOURCE_DIR) / "docs" / "rules" / (std::string(rule.id) + ".md");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ConfigRules, PagesSayWhatTheCodeSays) {
  std::set<std::string_view> names;
  std::string_view before;
  for (const Rule& rule : config_rules()) {
    SCOPED_TRACE(rule.id);
    EXPECT_LT(before, rule.id);
    before = rule.id;
    EXPECT_EQ(rule.id.substr(0, 2), "C1");
    EXPECT_TRUE(names.insert(rule.name).second);
    EXPECT_EQ(rule.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos);
    const std::string text = page(rule);
    EXPECT_EQ(text.rfind("# " + std::string(rule.id) + " " + std::string(rule.name) + "\n", 0), 0U);
    EXPECT_THAT(text, HasSubstr("Severity: " + std::string(name_of(rule.severity)) + "."));
    for (const std::string_view part : {rule.summary, rule.needs, rule.example, rule.cannot_tell, rule.fix}) {
      EXPECT_FALSE(part.empty());
      EXPECT_THAT(text, HasSubstr(std::string(part)));
    }
  }
  EXPECT_EQ(names.size(), 17U);
}

}  // namespace
}  // namespace locant
