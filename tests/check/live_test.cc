// SPDX-License-Identifier: Apache-2.0
// One fault at a time in a made runtime: the right rule of family M speaks, no other does; sound runtimes of
// any rounding give no finding; a rule whose needs are missing is skipped with what it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check/made_runtime.h"
#include "core/temp_dir.h"
#include "locant/check.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::LivePair;
using tests::LiveToken;
using tests::MadeBehaviour;
using tests::MadeRuntime;
using tests::Mechanism;
using tests::Rounded;
using Json = nlohmann::json;

Json config_of(const MadeBehaviour& made) {
  Json config{{"vocab_size", MadeRuntime::kVocab},        {"hidden_size", MadeRuntime::kHidden},
              {"num_hidden_layers", made.layers},         {"num_attention_heads", MadeRuntime::kHeads},
              {"intermediate_size", MadeRuntime::kInner}, {"max_position_embeddings", 128}};
  switch (made.mechanism) {
    case Mechanism::learned:
      return {{"model_type", "gpt2"},   {"vocab_size", MadeRuntime::kVocab}, {"n_embd", MadeRuntime::kHidden},
              {"n_layer", made.layers}, {"n_head", MadeRuntime::kHeads},     {"n_positions", 128}};
    case Mechanism::alibi:
      return {{"model_type", "bloom"},
              {"vocab_size", MadeRuntime::kVocab},
              {"hidden_size", MadeRuntime::kHidden},
              {"n_layer", made.layers},
              {"seq_length", 128},
              {"n_head", MadeRuntime::kHeads}};
    default:
      config["model_type"] = made.window > 0 ? "mistral" : "llama";
      config["rope_theta"] = 10000.0;
      if (made.window > 0) {
        config["sliding_window"] = made.window;
        config["num_key_value_heads"] = MadeRuntime::kHeads;
      }
      return config;
  }
}

struct Question {
  MadeBehaviour made;
  Json config{};  ///< null: of the mechanism
  std::vector<std::int64_t> ids{};
  std::string recipe = "exact";
};

CheckReport report_of(const Question& question) {
  const tests::TempDir folder;
  const Json config = question.config.is_null() ? config_of(question.made) : question.config;
  const ModelSpec spec = read_hf_config(folder.write("config.json", config.dump()), Reading::facts);
  MadeRuntime runtime(question.made);
  CheckQuery query;
  query.spec = &spec;
  query.runtime = &runtime;
  query.live_ids = question.ids;
  query.recipe = question.recipe;
  query.select = {"M"};
  return check(query);
}

std::vector<std::string> found_in(const CheckReport& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings) ids.emplace_back(finding.rule->id);
  return ids;
}

std::string text_of(const CheckReport& report) {
  std::string text;
  const auto write = [&](const Finding& finding) {
    text += std::string(finding.rule->id) + " " + finding.message + "\n";
    for (const Hypothesis& one : finding.hypotheses)
      text += "    " + one.cause + ": " + std::to_string(one.residual) + " of " + std::to_string(one.budget) +
              "\n";
  };
  for (const Finding& finding : report.findings) write(finding);
  for (const Explained& explained : report.explained) {
    text += "  explained by " + explained.by + ": ";
    write(explained.finding);
  }
  for (const Skipped& skipped : report.skipped)
    text += "  skipped " + std::string(skipped.rule->id) + ": " + skipped.needs + "\n";
  return text;
}

std::string needs_of(const CheckReport& report, std::string_view id) {
  for (const Skipped& skipped : report.skipped) {
    if (skipped.rule->id == id) return skipped.needs;
  }
  return {};
}

bool passed(const CheckReport& report, std::string_view id) {
  return std::any_of(report.passed.begin(), report.passed.end(),
                     [&](const Rule* rule) { return rule->id == id; });
}

struct Fault {
  std::string name;
  std::vector<std::string> rules;  ///< that speak, in order; what they explain is not among them
  MadeBehaviour made;
  std::vector<std::string> words{};  ///< of the first finding
  Json config{};
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

MadeBehaviour rope() {
  return {};
}
MadeBehaviour alibi() {
  return {.mechanism = Mechanism::alibi};
}
MadeBehaviour learned() {
  return {.mechanism = Mechanism::learned};
}

MadeBehaviour with(MadeBehaviour made, std::function<std::int64_t(const LiveToken&)> position) {
  made.position = std::move(position);
  return made;
}
MadeBehaviour seeing(MadeBehaviour made, std::function<bool(bool, const LivePair&)> sees) {
  made.sees = std::move(sees);
  return made;
}
MadeBehaviour windowed(std::function<bool(bool, const LivePair&)> sees) {
  MadeBehaviour made = seeing(rope(), std::move(sees));
  made.window = 16;
  return made;
}

bool later(const LiveToken& at) {
  return at.call > 0;
}

std::vector<Fault> faults() {
  std::vector<Fault> all;
  const auto add = [&](Fault fault) { all.push_back(std::move(fault)); };
  for (const auto& [base, name] :
       {std::pair(rope(), "rope"), std::pair(alibi(), "alibi"), std::pair(learned(), "learned")}) {
    const auto called = [suffix = std::string("_") + name](const std::string& what) { return what + suffix; };
    add({called("later_calls_late"),
         {"M101"},
         with(base, [](const LiveToken& at) { return at.due + (later(at) ? 1 : 0); }),
         {"later calls stand one position late", "the runtime's own count is wrong"}});
    add({called("decode_at_zero"),
         {"M101"},
         with(base, [](const LiveToken& at) { return later(at) && at.tokens == 1 ? 0 : at.due; }),
         {"every later call begins at 0 again"}});
    add({called("decode_at_prompt_end"),
         {"M101"},
         with(base, [](const LiveToken& at) { return later(at) && at.tokens == 1 ? at.prompt : at.due; }),
         {"every later call begins where the first one ended"}});
    add({called("chunk_at_its_start"),
         {"M102"},
         with(base,
              [](const LiveToken& at) { return later(at) && at.tokens > 1 ? at.due - at.token : at.due; }),
         {"all tokens of a later call stand at its first position"}});
    add({called("chunk_resumes_at_zero"),
         {"M102"},
         with(base, [](const LiveToken& at) { return later(at) && at.tokens > 1 ? at.token : at.due; }),
         {"every later call begins at 0 again"}});
    add({called("cache_forgotten"),
         {"M101"},
         seeing(base, [](bool due, const LivePair& pair) { return due && pair.key >= pair.call_start; }),
         {"later calls do not see the cache", "not the count is wrong"}});
    add({called("steps_count_padding"),
         {"M103"},
         with(base, [](const LiveToken& at) { return at.due + (later(at) ? at.pads : 0); }),
         {"7 of padding are counted by the steps alone"}});
    add({called("padding_visible"),
         {"M103"},
         seeing(base,
                [](bool due, const LivePair& pair) {
                  return due || (pair.key <= pair.query && pair.same_document);
                }),
         {"it is visible"}});
    add({called("future_visible"),
         {"M113"},
         seeing(base,
                [](bool due, const LivePair& pair) {
                  return due || (pair.content && pair.same_document && pair.key >= pair.call_start);
                }),
         {"later tokens are visible"}});
    add({called("documents_leak"),
         {"M106"},
         seeing(base, [](bool due,
                         const LivePair& pair) { return due || (pair.content && pair.key <= pair.query); }),
         {"the first document is visible"}});
    add({called("counter_of_all_sessions"),
         {"M109"},
         with(base,
              [](const LiveToken& at) { return at.rows > 1 ? at.due
                                               : later(at) ? at.together
                                                           : at.due; }),
         {"in turn with another session"}});
    MadeBehaviour first_row = base;
    first_row.writes = [](const LiveToken& at) { return at.tokens > 1 || at.row == 0; };
    add({called("one_row_written"), {"M105"}, first_row, {"every logit is 0"}});
    MadeBehaviour shared_fork = base;
    shared_fork.fork_shares = true;
    add({called("fork_shares"), {"M112"}, shared_fork, {"fork"}});
    MadeBehaviour deaf = base;
    deaf.reads_given = false;
    add({called("given_not_read"), {"M111"}, deaf, {"given ones are not read"}});
  }
  for (const auto& [base, name] : {std::pair(rope(), "rope"), std::pair(alibi(), "alibi")}) {
    const auto called = [suffix = std::string("_") + name](const std::string& what) { return what + suffix; };
    // a row that stands elsewhere throughout is the same row; its steps tell
    add({called("row_offset"),
         {"M105"},
         with(base, [](const LiveToken& at) { return at.due + at.row * at.tokens; }),
         {"row 1 begins at 1 times the length of a call"}});
    add({called("prompt_length_added"),
         {"M101"},
         with(base, [](const LiveToken& at) { return at.due + (later(at) ? at.prompt - 1 : 0); }),
         {"the first call's length is added once in place of 1"}});
    MadeBehaviour unmarked = base;
    unmarked.stretch = [](const LiveToken&) { return 0.0; };
    add({called("no_positions"),
         {"M111"},
         unmarked,
         {"nothing marks positions, or given ones are not read"}});
    unmarked.layers = 1;
    add({called("a_set"), {"M111"}, unmarked});
    MadeBehaviour by_capacity = base;
    by_capacity.stretch = [](const LiveToken& at) { return at.capacity > 100 ? 0.5 : 1.0; };
    add({called("table_by_capacity"), {"M110"}, by_capacity, {"opened for 128 beside one opened for 96"}});
    MadeBehaviour sticky = base;
    sticky.stretch = [](const LiveToken& at) { return at.longest > 100 ? 0.5 : 1.0; };
    add({called("longest_stays"), {"M109"}, sticky, {"after 128 tokens in another session"}});
    MadeBehaviour residue = base;
    residue.residue = 0.3;
    add({called("absolute_residue"), {"M107"}, residue, {"a shift by 1 moves them by"}});
    MadeBehaviour decode_unmarked = base;
    decode_unmarked.stretch = [](const LiveToken& at) { return at.tokens == 1 ? 0.0 : 1.0; };
    add({called("no_positions_in_decode"),
         {"M101"},
         decode_unmarked,
         {"not the count is wrong", "none of the causes"}});
    MadeBehaviour narrow = base;
    narrow.narrow = [](double place) {
      return static_cast<double>(f32_from(bfloat16_from_f32(static_cast<float>(place))));
    };
    Json config = config_of(base);
    config[name == std::string("rope") ? "max_position_embeddings" : "seq_length"] = 640;
    add({called("positions_in_bf16"), {"M107"}, narrow, {"a shift by 1 moves them by"}, config});
  }
  for (const auto& [base, name] : {std::pair(rope(), "rope")}) {
    // no positions of all layers are those of one: nothing that can be given reproduces it
    add({std::string("deeper_layers_late_in_decode_") + name,
         {"M101"},
         with(base, [](const LiveToken& at) { return at.due + (later(at) && at.layer > 0 ? 1 : 0); }),
         {"the runtime's own count is wrong", "none of the causes"}});
  }
  add({"row_offset_learned",
       {"M105"},
       with(learned(), [](const LiveToken& at) { return at.due + at.row; }),
       {"row 1 begins at position 1"}});
  add({"row_offset_past_the_table",
       {"M105"},
       with(learned(), [](const LiveToken& at) { return at.due + at.row * at.tokens; }),
       {"the runtime stops", "has no row"}});
  add({"padding_counted_learned",
       {"M103"},
       with(learned(), [](const LiveToken& at) { return at.due + at.pads; }),
       {"the 7 of padding are counted"}});
  add({"padding_counted_in_the_prompt_learned",
       {"M103"},
       with(learned(), [](const LiveToken& at) { return at.due + (later(at) ? 0 : at.pads); }),
       {"the 7 of padding are counted in the prompt alone"}});
  add({"positions_of_the_first_row",
       {"M103"},
       with(learned(),
            [](const LiveToken& at) {
              return std::max<std::int64_t>(at.due + at.pads - at.first_row_pads, 0);
            }),
       {"a batch of this row alone is right"}});
  add({"buffer_grows",
       {"M109"},
       with(learned(), [](const LiveToken& at) { return at.due + at.runs; }),
       {"every run differs from the one before"}});
  add({"counts_from_one",
       {"M111"},
       with(learned(), [](const LiveToken& at) { return at.due + 1; }),
       {"without positions it counts from 1"}});
  MadeBehaviour unmarked = with(learned(), [](const LiveToken&) { return 0; });
  unmarked.reads_given = false;
  add({"no_positions_learned", {"M111"}, unmarked, {"one token twice gives one row of logits twice"}});
  add({"documents_count_on",
       {"M106"},
       with(learned(), [](const LiveToken& at) { return at.column - at.pads; }),
       {"positions count on from the document before"}});
  add({"sees_itself_alone",
       {"M108", "M111"},
       seeing(rope(), [](bool due, const LivePair& pair) { return due && pair.key == pair.query; }),
       {"earlier tokens are not seen"}});
  add({"window_wider_in_decode",
       {"M101"},
       windowed([](bool due, const LivePair& pair) {
         return due || (pair.tokens == 1 && pair.distance == 16 && pair.content);
       }),
       {"begins at token 16, where the window of 16 is full"}});
  add({"window_narrower_in_decode",
       {"M101"},
       windowed(
           [](bool due, const LivePair& pair) { return due && !(pair.tokens == 1 && pair.distance == 15); }),
       {"begins at token 15, where the window of 16 is full"}});
  add({"window_of_chunks_cut",
       {"M102"},
       windowed([](bool due, const LivePair& pair) {
         return due && (pair.tokens == 1 || pair.key >= pair.call_start - 8);
       }),
       {"chunks of"}});
  // a mask makes it count right: the batch is sound, the row alone is not
  add({"late_without_a_mask",
       {"M101"},
       with(rope(), [](const LiveToken& at) { return at.due + (later(at) && !at.masked ? 1 : 0); }),
       {"later calls stand one position late"}});
  add({"window_counts_padding",
       {"M104"},
       windowed([](bool due, const LivePair& pair) { return due && pair.query - pair.key < 16; }),
       {"not visible"}});
  return all;
}

class LiveFaults : public testing::TestWithParam<Fault> {};

TEST_P(LiveFaults, AreNamed) {
  const Fault& fault = GetParam();
  const CheckReport report = report_of({.made = fault.made, .config = fault.config});
  ASSERT_EQ(found_in(report), fault.rules) << text_of(report);
  for (const std::string& words : fault.words)
    EXPECT_THAT(report.findings[0].message + " " + report.findings[0].hypotheses[0].cause, HasSubstr(words));
}

INSTANTIATE_TEST_SUITE_P(Made, LiveFaults, testing::ValuesIn(faults()),
                         [](const auto& test) { return test.param.name; });

// Ways that round elsewhere are no fault: other kernels for other shapes, 16 bits, a cache of 16 bits.
struct Sound {
  std::string name;
  MadeBehaviour made;
};
void PrintTo(const Sound& sound, std::ostream* out) {
  *out << sound.name;
}

std::vector<Sound> sound() {
  std::vector<Sound> all;
  for (const auto& [base, name] :
       {std::pair(rope(), "rope"), std::pair(alibi(), "alibi"), std::pair(learned(), "learned")}) {
    for (const auto& [rounded, bits] :
         {std::pair(Rounded::f64, "f64"), std::pair(Rounded::f32, "f32"), std::pair(Rounded::bf16, "bf16"),
          std::pair(Rounded::bf16_but_logits, "bf16_but_logits")}) {
      for (std::uint32_t seed = 1; seed <= 3; ++seed) {
        for (const bool cache : {false, true}) {
          if (cache && seed == 2) continue;
          MadeBehaviour made = base;
          made.rounded = rounded;
          made.cache_bf16 = cache;
          made.seed = seed;
          made.layers = seed == 2 ? 3 : 2;
          if (seed == 3 && base.mechanism == Mechanism::rope) made.window = 16;
          all.push_back(
              {std::string(name) + "_" + bits + (cache ? "_cache16_" : "_") + std::to_string(seed), made});
        }
      }
    }
  }
  return all;
}

class LiveSound : public testing::TestWithParam<Sound> {};

TEST_P(LiveSound, IsSilent) {
  const CheckReport report = report_of({.made = GetParam().made});
  EXPECT_TRUE(report.findings.empty()) << text_of(report);
  const bool relative = GetParam().made.mechanism != Mechanism::learned;
  EXPECT_EQ(report.passed.size(), relative ? 13U : 12U) << text_of(report);
}

INSTANTIATE_TEST_SUITE_P(Made, LiveSound, testing::ValuesIn(sound()),
                         [](const auto& test) { return test.param.name; });

TEST(LiveNeeds, AreNamedWhereTheyAreMissing) {
  MadeBehaviour made;
  made.with_positions = false;
  made.with_fork = false;
  made.with_documents = false;
  const CheckReport plain = report_of({.made = made});
  EXPECT_TRUE(plain.findings.empty()) << text_of(plain);
  EXPECT_THAT(needs_of(plain, "M107"), HasSubstr("takes positions"));
  EXPECT_THAT(needs_of(plain, "M111"), HasSubstr("takes positions"));
  EXPECT_THAT(needs_of(plain, "M112"), HasSubstr("can be forked"));
  EXPECT_THAT(needs_of(plain, "M106"), HasSubstr("takes documents"));
  EXPECT_TRUE(passed(plain, "M101") && passed(plain, "M103") && passed(plain, "M105"));

  const CheckReport absolute = report_of({.made = learned()});
  EXPECT_THAT(needs_of(absolute, "M107"), HasSubstr("adds positions to the token state"));

  const CheckReport short_prompt = report_of({.made = rope(), .ids = {3, 4, 5}});
  EXPECT_THAT(needs_of(short_prompt, "M101"), HasSubstr("8 tokens or more, got 3"));
  EXPECT_EQ(short_prompt.skipped.size(), 13U);

  std::vector<std::int64_t> full(128);
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = 3 + static_cast<std::int64_t>(i * 7 % 50);
  const CheckReport whole = report_of({.made = rope(), .ids = full});
  EXPECT_THAT(needs_of(whole, "M110"), HasSubstr("room for more than the prompt's 128 tokens"));
  EXPECT_THAT(needs_of(whole, "M107"), HasSubstr("positions behind the prompt"));
  EXPECT_TRUE(whole.findings.empty()) << text_of(whole);

  const CheckReport alike = report_of({.made = rope(), .ids = std::vector<std::int64_t>(16, 5)});
  EXPECT_THAT(needs_of(alike, "M108"), HasSubstr("3 different tokens, got 1"));
  EXPECT_EQ(alike.skipped.size(), 13U) << text_of(alike);
}

TEST(LiveNeeds, WithoutARuntimeNothingIsAsked) {
  const CheckReport report = check({.select = {"M"}});
  EXPECT_EQ(report.skipped.size(), 13U);
  EXPECT_THAT(needs_of(report, "M101"), HasSubstr("a live runtime"));
}

TEST(LiveNeeds, WithoutAModelNothingIsPromisedOfShifts) {
  MadeRuntime runtime(rope());
  CheckQuery query;
  query.runtime = &runtime;
  query.select = {"M107", "M111"};
  query.live_ids = {3, 9, 4, 7, 5, 8, 6, 2, 1, 12, 14, 13};
  const CheckReport report = check(query);
  EXPECT_THAT(needs_of(report, "M107"), HasSubstr("a model's plan"));
  EXPECT_TRUE(passed(report, "M111")) << text_of(report);
  ASSERT_EQ(report.evidence.size(), 1U);
  EXPECT_EQ(report.evidence[0].kind, EvidenceKind::live);
  EXPECT_EQ(report.evidence[0].path, "made");
}

TEST(LiveNeeds, RefusesTokensOutsideTheVocabulary) {
  EXPECT_THAT(tests::message_of<std::out_of_range>([] {
                (void)report_of({.made = rope(), .ids = {1, 2, MadeRuntime::kVocab}});
              }),
              HasSubstr("token 61 at place 2 of the live prompt is outside vocab 61"));
}

/// Dynamic NTK: past 64 tokens the plan follows the length.
Json dynamic_ntk() {
  Json config = config_of(rope());
  config["max_position_embeddings"] = 64;
  config["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 10000.0}, {"factor", 2.0}};
  config.erase("rope_theta");
  return config;
}

TEST(LiveLengths, StayOnOneSideOfASwitch) {
  MadeBehaviour made;
  // what it keeps in its cache keeps the angles it was given: prompt and steps differ across the switch
  made.stretch = [](const LiveToken& at) { return at.due - at.token + at.tokens > 64 ? 0.5 : 1.0; };
  const CheckReport sound = report_of({.made = made, .config = dynamic_ntk()});
  EXPECT_TRUE(sound.findings.empty()) << text_of(sound);
  EXPECT_TRUE(passed(sound, "M101"));

  std::vector<std::int64_t> across(80);
  for (std::size_t i = 0; i < across.size(); ++i) across[i] = 3 + static_cast<std::int64_t>(i * 7 % 50);
  const CheckReport exempt = report_of({.made = made, .config = dynamic_ntk(), .ids = across});
  EXPECT_TRUE(exempt.findings.empty()) << text_of(exempt);
  EXPECT_THAT(needs_of(exempt, "M101"), HasSubstr("64 tokens or fewer, got 80"));
}

TEST(LiveLengths, ABaseThatNeverShrinksIsHistory) {
  MadeBehaviour made;
  made.stretch = [](const LiveToken& at) { return at.longest > 64 ? 0.5 : 1.0; };
  const CheckReport report = report_of({.made = made, .config = dynamic_ntk()});
  ASSERT_EQ(found_in(report), std::vector<std::string>{"M109"}) << text_of(report);
  EXPECT_THAT(report.findings[0].message,
              HasSubstr("the plan changes at 65 tokens: what it changed to stays"));
}

TEST(LiveFindings, SayWhereAndWhatTheyCompare) {
  const CheckReport report =
      report_of({.made = with(rope(), [](const LiveToken& at) { return at.due + (later(at) ? 1 : 0); })});
  ASSERT_EQ(report.findings.size(), 1U) << text_of(report);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.where.token, 64);
  EXPECT_EQ(finding.where.step, 1);
  EXPECT_EQ(std::get<std::string>(finding.expected), "position 64");
  EXPECT_EQ(std::get<std::string>(finding.observed), "position 65");
  EXPECT_LT(finding.hypotheses[0].residual, finding.hypotheses[0].budget);
  ASSERT_EQ(report.explained.size(), 1U);
  EXPECT_EQ(report.explained[0].finding.rule->id, "M102");
  EXPECT_EQ(report.explained[0].by, "M101");
}

TEST(LiveFindings, StepsThatAreNotNumbersAreFound) {
  MadeBehaviour made;
  made.stretch = [](const LiveToken& at) {
    return at.tokens == 1 && at.call > 2 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  };
  const CheckReport report = report_of({.made = made});
  ASSERT_EQ(found_in(report), std::vector<std::string>{"M101"}) << text_of(report);
  EXPECT_EQ(report.findings[0].where.step, 3);
}

TEST(LiveFindings, APromptWithoutNumbersIsRefused) {
  MadeBehaviour made;
  made.stretch = [](const LiveToken&) { return std::numeric_limits<double>::quiet_NaN(); };
  EXPECT_THAT(tests::message_of<SpecError>([&] { (void)report_of({.made = made}); }),
              HasSubstr("logits of a prompt must be numbers, made gives none at token 0"));
}

}  // namespace
}  // namespace locant
