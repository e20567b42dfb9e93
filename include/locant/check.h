// SPDX-License-Identifier: Apache-2.0
// The checker: evidence in (a model's files, recorded forward passes), findings out: which rule, where, what
// was due, what is there, and which cause reproduces it. It never runs a model's arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "locant/core.h"
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

struct Finding {
  const Rule* rule = nullptr;
  Severity severity = Severity::error;
  std::string message{};  ///< one sentence with numbers
  Place where{};
  Fact expected{};
  Fact observed{};
  std::vector<Hypothesis> hypotheses{};  ///< best first
  std::string next{};                    ///< what to look at or record
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
  std::vector<Explained> explained{};
  std::vector<const Rule*> passed{};
  std::vector<Skipped> skipped{};
};

struct CheckQuery {
  const ModelSpec* spec = nullptr;    ///< null: the traces alone; rules that need a config are skipped
  std::string weights{};              ///< a .safetensors file, an index or a directory; empty = none
  std::vector<std::string> traces{};  ///< files
  std::string recipe{};               ///< whose meaning; empty = "hf"
  std::vector<std::string> select{};  ///< rule ids or prefixes of them ("R", "R1"); empty = all
  std::vector<std::string> ignore{};  ///< likewise
};

/// Asks every rule. Each rule is in exactly one of findings, explained, passed, skipped. Throws SpecError (an
/// unknown recipe or rule) and FileError (a trace or weights that are damaged or mis-shaped).
[[nodiscard]] CheckReport check(const CheckQuery& query);

}  // namespace locant
