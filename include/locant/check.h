// SPDX-License-Identifier: Apache-2.0
// The checker: evidence in (a model's files, recorded forward passes, a live runtime), findings out: which
// rule, where, what was due, what is there, and which cause reproduces it. And the difference of two traces.
// It never runs a model's arithmetic itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "locant/core.h"
#include "locant/runtime.h"
#include "locant/spec.h"

namespace locant {

/// What a rule looks at, weakest first.
enum class EvidenceKind : std::uint8_t { files, tables, trace, live };
[[nodiscard]] std::string_view name_of(EvidenceKind kind) noexcept;

/// All rules, by id.
[[nodiscard]] std::span<const Rule> rules() noexcept;
/// By id or name. Throws SpecError with the nearest one otherwise.
[[nodiscard]] const Rule& find_rule(std::string_view name);

/// A number, a word, or nothing.
using Fact = std::variant<std::monostate, double, std::string>;

/// Where a finding begins; what does not apply is empty.
struct Place {
  std::string file{};
  std::string key{};
  std::string tensor{};
  std::optional<std::int64_t> layer{};
  std::optional<std::int64_t> head{};
  std::optional<std::int64_t> step{};
  std::optional<std::int64_t> row{};
  std::optional<std::int64_t> token{};
};

/// A cause that would reproduce what was recorded, and how well.
struct Hypothesis {
  std::string cause{};
  std::vector<std::pair<std::string, double>> parameters{};
  double residual = 0;  ///< relative root mean square of what it leaves unexplained
  double budget = 0;    ///< what rounding alone explains, in the same measure
};

/// Numbers that a finding rests on, over tokens, pairs, heads or rows: what was due and what is there. No
/// more than kMostPoints, evenly taken, the ends among them.
struct Curve {
  static constexpr std::size_t kMostPoints = 512;

  std::string name{};              ///< "position of each token in q of layer 3"
  std::string x_label{};           ///< "token of row 1"
  std::string y_label{};           ///< with its unit: "position", "radians"
  std::vector<double> x{};         ///< ascending
  std::vector<double> expected{};  ///< as many, NaN where nothing is due; or empty
  std::vector<double> observed{};  ///< as many, NaN where nothing is told; or empty
};

struct Finding {
  const Rule* rule = nullptr;
  Severity severity = Severity::error;
  std::string message{};  ///< one sentence with numbers
  Place where{};
  Fact expected{};
  Fact observed{};
  std::vector<Hypothesis> hypotheses{};  ///< best first
  std::string next{};                    ///< what to look at or record
  std::vector<Curve> curves{};           ///< the evidence to be drawn, may be empty
};

struct EvidenceItem {
  EvidenceKind kind = EvidenceKind::files;
  std::string path{};
  std::string sha256{};  ///< hexadecimal; empty = not asked for
};

/// A finding that another one reproduces: not counted.
struct Explained {
  Finding finding{};
  std::string by{};  ///< id of the rule that explains it
};

/// A rule that could not be asked.
struct Skipped {
  const Rule* rule = nullptr;
  std::string needs{};
};

struct CheckReport {
  std::vector<EvidenceItem> evidence{};
  std::vector<Finding> findings{};  ///< errors first, then by id
  std::vector<Finding> known{};     ///< findings that a baseline names: not counted
  std::vector<Explained> explained{};
  std::vector<const Rule*> passed{};
  std::vector<Skipped> skipped{};
};

/// What is read whole for its fingerprint: configs, tokenizers and headers of weights, or every byte.
enum class HashScope : std::uint8_t { headers, whole };

/// Told what is being done, in a few words; may be empty.
using CheckProgress = std::function<void(std::string_view)>;

struct CheckQuery {
  const ModelSpec* spec = nullptr;  ///< null: the traces alone; rules that need a config are skipped
  std::string weights{};            ///< a .safetensors or .gguf file, an index or a directory; empty = none
  const ModelSpec* against =
      nullptr;  ///< the other form of the same model (source or conversion); null = none
  std::string against_weights{};
  std::vector<std::string> traces{};     ///< files, or directories with one file a rank
  std::string recipe{};                  ///< whose meaning; empty = "hf", and "llama.cpp" for a GGUF file
  Runtime* runtime = nullptr;            ///< what the live rules drive; null: they are skipped
  std::vector<std::int64_t> live_ids{};  ///< the prompt of the live rules; empty = drawn from the vocabulary
  std::vector<std::string> select{};     ///< rule ids or prefixes of them ("R", "R1"); empty = all
  std::vector<std::string> ignore{};     ///< likewise
  HashScope hash = HashScope::headers;
  CheckProgress progress{};
};

/// Asks every rule. Each rule is in exactly one of findings, explained, passed, skipped. Throws SpecError (an
/// unknown recipe or rule), FileError (a trace or weights that are damaged or mis-shaped) and what the live
/// runtime throws.
[[nodiscard]] CheckReport check(const CheckQuery& query);

struct DiffQuery {
  std::string want{};               ///< a trace: what it should be
  std::string got{};                ///< a trace of the same tokens
  const ModelSpec* spec = nullptr;  ///< of both; null: hypotheses come from the traces alone
  std::string recipe{};
  CheckProgress progress{};
};

/// One tensor that two traces do not agree on, at the first element that is beyond rounding.
struct Divergence {
  std::string tensor{};  ///< canonical name, without the step
  std::int64_t step = 0;
  std::optional<std::int64_t> row{};
  std::optional<std::int64_t> token{};  ///< column of `want`'s pass; of a cache its slot
  std::optional<std::int64_t> head{};
  Fact got{};  ///< the element, or a shape in words
  Fact want{};
  /// The largest of the tensor, in units of the root mean square of what it stands among: its token's values,
  /// its head's scores. Of whole numbers the number itself; of a factor on a whole tensor its distance
  /// from 1. Infinite for shapes and where one is not finite or a key is seen in one trace only.
  double difference = 0;
  double budget = 0;  ///< what rounding explains, in the same unit
};

/// A tensor that only one trace has.
struct Unmatched {
  std::string tensor{};  ///< with the step
  std::string path{};    ///< of the trace that lacks it
};

struct TraceDiff {
  std::int64_t tensors_compared = 0;
  std::optional<Divergence> first{};     ///< in the order of the data's flow
  std::vector<Hypothesis> hypotheses{};  ///< what explains `first`, best first
  std::vector<Unmatched> missing{};
  std::vector<Divergence> differing{};  ///< all, in the order of the data's flow
  std::vector<std::string> notes{};     ///< differences of layout that mean the same, and what was left out
};

/// Walks two traces in the order of the data's flow and compares what both have, in memory that does not grow
/// with the traces. A difference counts beyond the rounding of the dtypes that the two were computed in.
/// Throws FileError (a damaged trace, two traces of other tokens) and SpecError.
[[nodiscard]] TraceDiff diff(const DiffQuery& query);

}  // namespace locant
