// SPDX-License-Identifier: Apache-2.0
// What each rule about a config says. Its page in docs/rules holds the same sentences.
#include "spec/config_rules.h"

#include <array>

#include "locant/spec.h"

namespace locant {
namespace {

constexpr std::array<Rule, 17> kRules = {{
    {.id = rules::kConflictingKeys,
     .name = "conflicting-keys",
     .severity = Severity::error,
     .summary = "Two keys of one config state the same fact with different values.",
     .needs = "config",
     .example = "\"rope_theta\": 10000.0,\n"
                "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}",
     .cannot_tell = "Which of the two values the weights were trained with: transformers 5 takes the one "
                    "inside the block, older readers the one outside.",
     .fix = "Keep the value of the training run and delete the other key, or give both the same value."},
    {.id = rules::kUnreadKey,
     .name = "unread-key",
     .severity = Severity::warning,
     .summary = "A key speaks of embeddings, positions, attention or the head, and no reader of this family "
                "asks for it.",
     .needs = "config of a family that Locant knows",
     .example = "\"model_type\": \"llama\",\n"
                "\"rope_interleaved\": true",
     .cannot_tell = "Whether a reader of its own beside the checkpoint asks for the key; a key that is "
                    "false, null or empty is passed over.",
     .fix = "Delete the key, or write it under the name and at the place that the family reads."},
    {.id = rules::kNearMissKey,
     .name = "near-miss-key",
     .severity = Severity::error,
     .summary =
         "A key that nobody reads is one or two letters from a key that the family reads and that is absent.",
     .needs = "config of a family that Locant knows",
     .example = "\"max_postion_embeddings\": 32768",
     .cannot_tell =
         "Whether the key was meant to be another one; the value in force is the default of the class.",
     .fix = "Correct the spelling, then look at the value that takes effect."},
    {.id = rules::kNullValue,
     .name = "null-value",
     .severity = Severity::warning,
     .summary = "A key that every reader needs a value of is null.",
     .needs = "config",
     .example = "\"rope_theta\": null,\n"
                "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": null}",
     .cannot_tell = "What a reader takes instead: the default of its class, the default of its kernel, or "
                    "nothing because it stops.",
     .fix = "State the value, or delete the key so that every reader takes the default of the class."},
    {.id = rules::kWrongJsonType,
     .name = "wrong-json-type",
     .severity = Severity::error,
     .summary =
         "A number, flag or block is written as another JSON type and is read as what it plainly means.",
     .needs = "config",
     .example = "\"rope_theta\": \"500000\",\n"
                "\"tie_word_embeddings\": \"false\"",
     .cannot_tell = "What readers that do not look at the type make of it: in Python a text \"false\" counts "
                    "as true, and a number in quotes fails or is passed over.",
     .fix = "Write the value without quotes: numbers as numbers, true and false as flags, a block as an "
            "object."},
    {.id = rules::kNotReadHere,
     .name = "not-read-here",
     .severity = Severity::warning,
     .summary = "A key or block of positions stands where this family does not read it, or has a value that "
                "the family does not follow.",
     .needs = "config of a family that Locant knows",
     .example = "\"rope_scaling\": null,\n"
                "\"custom_rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                "\"original_max_position_embeddings\": 8192}",
     .cannot_tell = "Whether the model was trained with what the key asks for; the facts are those of a "
                    "model without it.",
     .fix = "Move the block to rope_parameters (rope_scaling before transformers 5) of the text model, or "
            "delete it."},
    {.id = rules::kFactorAgainstLengths,
     .name = "factor-against-lengths",
     .severity = Severity::warning,
     .summary = "factor times the original length is not the configured length (more than 1 % off).",
     .needs = "config with yarn or longrope, factor and both lengths",
     .example = "\"max_position_embeddings\": 32768,\n"
                "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                "\"original_max_position_embeddings\": 32768}",
     .cannot_tell =
         "Which of the three numbers is meant: some readers take factor, others the ratio of the lengths. "
         "llama3 and linear are not judged, their published lengths follow no such product.",
     .fix = "Set max_position_embeddings to factor times the original length, or factor to the ratio."},
    {.id = rules::kUnknownRopeType,
     .name = "unknown-rope-type",
     .severity = Severity::error,
     .summary =
         "rope_type (or type) names no schedule that is known; the facts are those of the plain rotation.",
     .needs = "config with a rotation block",
     .example = "\"rope_scaling\": {\"rope_type\": \"yarn_v2\", \"factor\": 4.0}",
     .cannot_tell = "What the type computes where its own code is there.",
     .fix = "Use default, linear, dynamic, yarn, longrope, llama3 or proportional, or a runtime that has the "
            "type."},
    {.id = rules::kRecipeLacksSchedule,
     .name = "recipe-lacks-schedule",
     .severity = Severity::error,
     .summary = "The runtime of the chosen recipe refuses the schedule that the config asks for.",
     .needs = "config and a recipe other than exact",
     .example =
         "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}     under --recipe ctranslate2",
     .cannot_tell = "Whether another version of the runtime has it; `locant explain RECIPE` names the "
                    "version that was read.",
     .fix = "Run the model elsewhere, or convert it with another schedule and measure what that costs."},
    {.id = rules::kRecipeReadsOtherwise,
     .name = "recipe-reads-otherwise",
     .severity = Severity::note,
     .summary = "The runtime of the chosen recipe computes other positions from these keys than the "
                "published formula, by rule and not by rounding.",
     .needs = "config and a recipe other than exact",
     .example = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, \"truncate\": false}     "
                "under --recipe llama.cpp",
     .cannot_tell = "Whether the difference matters: the note has its size, and at the distance that was "
                    "asked for only.",
     .fix = "Nothing where the model was trained with that runtime; otherwise see the difference with "
            "`locant explain RECIPE` and choose."},
    {.id = rules::kMissingKey,
     .name = "missing-key",
     .severity = Severity::error,
     .summary = "A schedule lacks a key that it needs; without a stand-in the facts are those of the plain "
                "rotation.",
     .needs = "config with a rotation block",
     .example = "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}",
     .cannot_tell = "The value that is missing: runtimes put different constants in its place (YaRN without "
                    "an original length: 1024, 4096 or max_position_embeddings).",
     .fix = "State the key with the value of the training run."},
    {.id = rules::kLengthsContradict,
     .name = "lengths-contradict",
     .severity = Severity::warning,
     .summary = "The configured length is below the original one, or the tokenizer lets through more tokens "
                "than a position table has rows.",
     .needs = "config; tokenizer_config.json beside it, where there is one",
     .example =
         "\"max_position_embeddings\": 32768,\n"
         "\"rope_scaling\": {\"rope_type\": \"longrope\", \"original_max_position_embeddings\": 32786, ...}",
     .cannot_tell = "Which of the two is right. A window longer than the configured length contradicts "
                    "nothing and is not judged.",
     .fix = "Correct the length that is wrong; a table that ends needs a tokenizer that truncates at its "
            "last row."},
    {.id = rules::kWrongListLength,
     .name = "wrong-list-length",
     .severity = Severity::error,
     .summary = "A list does not have one entry for each pair, layer or axis that it speaks of.",
     .needs = "config",
     .example = "\"head_dim\": 128,\n"
                "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [48 numbers], \"long_factor\": "
                "[48 numbers]}",
     .cannot_tell = "Whether the list or the size is wrong. A list of layer types that goes on past the "
                    "layers is not judged: some configs go on with the layers of a prediction head.",
     .fix = "Give the list one entry for each pair (rotary_dim / 2), each layer, or sections that add up to "
            "the pairs."},
    {.id = rules::kDefaultBaseTooSmall,
     .name = "default-base-too-small",
     .severity = Severity::warning,
     .summary = "No key states the base, and with the default of the class every pair completes a turn "
                "inside the configured length.",
     .needs = "config with a plain rotation and a length",
     .example = "\"max_position_embeddings\": 1048576,\n"
                "(no rope_theta, no rope_parameters: 10000 is taken)",
     .cannot_tell = "The base that the model was trained with. A stated base is never judged.",
     .fix = "State rope_theta; look for the file that a converter or a newer transformers wrote it to."},
    {.id = rules::kPartialRotationDisputed,
     .name = "partial-rotation-disputed",
     .severity = Severity::warning,
     .summary = "partial_rotary_factor stands in a config whose class rotates whole heads as long as there "
                "is no schedule.",
     .needs = "config of a family that Locant knows",
     .example = "\"model_type\": \"llama\",\n"
                "\"partial_rotary_factor\": 0.5",
     .cannot_tell = "Which width the weights want: readers disagree, and the same file turns partial as soon "
                    "as a schedule is added.",
     .fix = "Delete the factor if whole heads rotate, or use a family whose class reads it."},
    {.id = rules::kIdOutsideVocabulary,
     .name = "id-outside-vocabulary",
     .severity = Severity::warning,
     .summary = "A special token id is not below the size of the vocabulary.",
     .needs = "config",
     .example = "\"vocab_size\": 32000,\n"
                "\"pad_token_id\": 32000",
     .cannot_tell =
         "Whether the embedding was resized after this file was written: compare the rows of the tensor.",
     .fix = "Resize the embedding and vocab_size together, or use an id that the table has."},
    {.id = rules::kBlockNewerThanVersion,
     .name = "block-newer-than-version",
     .severity = Severity::warning,
     .summary = "rope_parameters stands in a file that a release of transformers 4 wrote, which reads "
                "rope_theta and rope_scaling only.",
     .needs = "config with transformers_version",
     .example = "\"transformers_version\": \"4.46.3\",\n"
                "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, ...}",
     .cannot_tell = "Which version will read the file. Development versions of 4.57 wrote the new block and "
                    "are passed over.",
     .fix = "Write rope_theta and rope_scaling beside the block, or state the version that reads it."},
}};

}  // namespace

std::span<const Rule> config_rules() noexcept {
  return kRules;
}

std::string_view name_of(Severity severity) noexcept {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "";
}

}  // namespace locant
