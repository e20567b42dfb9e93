// SPDX-License-Identifier: Apache-2.0
// How far a checkpoint's positions can be trusted. Four lengths that a config's one number hides: what is
// declared, what training saw, how far the loss does not rise, how far the model still finds what is there.
// The static part needs config and weights; the measured part drives a Runtime on texts. A number without its
// criterion, sample size and interval is not given: what was not measured says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/facts.h"
#include "locant/plan.h"
#include "locant/runtime.h"
#include "locant/spec.h"

namespace locant {

// ---------------------------------------------------------------------------------------------
// The static part

/// Where a length was read: an assumption is labelled, never hidden.
enum class LengthSource : std::uint8_t {
  none,     ///< nobody states it
  field,    ///< a key of the config: weak, a field is no proof
  user,     ///< a flag of the caller
  weights,  ///< rows of a table that learned
  assumed,  ///< taken to equal the declared length, for want of another
};
[[nodiscard]] std::string_view name_of(LengthSource source) noexcept;

struct StatedLength {
  std::optional<std::int64_t> tokens{};
  LengthSource source = LengthSource::none;
  std::string basis{};  ///< the key, the flag, the tensor
};

/// One pair of a rotation, L the trained length and N the horizon. "Plain" is the ladder of the same theta
/// without a schedule, which is what training is taken to have seen.
struct PairAngles {
  std::int64_t pair = 0;
  double inv_freq = 0;     ///< rad/token
  double plain = 0;        ///< rad/token on the plain ladder
  double wavelength = 0;   ///< tokens a turn; 0 = the pair stands still
  double turns = 0;        ///< on the plain ladder inside L
  double compression = 1;  ///< inv_freq / plain
  /// First distance whose angle is past all angles that training saw; nothing when none below N is.
  std::optional<std::int64_t> leaves_at{};
  double unseen = 0;  ///< share of the distances below N whose angle was not seen
  double excess = 0;  ///< rad, largest angle past those seen, at distances below N
};

/// What the angles of one rotation do up to the horizon.
struct RotationTrust {
  Stack stack = Stack::decoder;
  std::vector<std::int64_t> layers{};
  std::string mechanism{};
  std::optional<double> theta{};
  double amplitude = 1;
  std::vector<PairAngles> pairs{};
  std::int64_t incomplete_pairs = 0;         ///< less than one turn inside L on the plain ladder
  std::optional<std::int64_t> first_pair{};  ///< the pair that leaves first, and where
  std::optional<std::int64_t> first_position{};
  double unseen = 0;             ///< share of (pair, distance < N)
  double excess = 0;             ///< rad, the largest
  double fastest_step = 0;       ///< rad/token of the fastest pair as scheduled
  double fastest_plain = 0;      ///< and on the plain ladder
  double least_compression = 1;  ///< smallest inv_freq / plain of a pair that turns
  /// B(m) = sum over pairs of cos(m inv_freq), plus the pairs that stand still (Men et al. 2024): the first
  /// distance at which it is negative, and its least value below N over the number of pairs. A risk flag:
  /// models that break it are known to work.
  std::optional<std::int64_t> sum_negative_from{};
  double least_sum = 1;
  std::int64_t sum_searched_to = 0;  ///< distances looked at
  /// Channels whose pairs turned once inside L (Liu et al. 2023), and the length at which the first of the
  /// others completes its turn as scheduled: where extrapolation is expected to end.
  std::int64_t critical_dimension = 0;
  std::optional<double> extension_bound{};
  double table_error = 0;  ///< largest |d cos| of the recipe's numerics against f64, below N
  std::int64_t table_error_position = 0;
};

/// A learned table of positions, as its weights tell.
struct TableTrust {
  std::string tensor{};
  std::int64_t rows = 0;       ///< stored
  std::int64_t declared = 0;   ///< rows that the config speaks of
  std::int64_t positions = 0;  ///< that have a row
  /// Positions whose rows learned: those before the change point. All of them where none was found.
  std::int64_t learned = 0;
  std::string evidence{};  ///< what tells so, in words; "" = no row stands out
  double norm_before = 0;  ///< median row norm before and behind the change point
  double norm_behind = 0;
  double likeness_before = 0;  ///< mean cosine of neighbouring rows before and behind it
  double likeness_behind = 0;
};

/// How far a mechanism reaches by its own construction.
struct ReachTrust {
  std::string what{};                    ///< "alibi", "window", "t5_buckets"
  std::optional<std::int64_t> tokens{};  ///< nothing = without end
  std::string text{};                    ///< one sentence
};

enum class FindingKind : std::uint8_t { risk, fault };
/// Something that the static part holds against the declared length.
struct TrustFinding {
  FindingKind kind = FindingKind::risk;
  std::string name{};  ///< "table-shorter-than-declared", "angles-out-of-range", ...
  std::string text{};
};

struct StaticTrust {
  std::string recipe{};
  StatedLength declared{};
  StatedLength trained{};
  std::int64_t to = 0;     ///< N, the horizon in tokens
  std::string to_basis{};  ///< where N comes from
  std::vector<RotationTrust> rotations{};
  std::vector<TableTrust> tables{};
  std::vector<ReachTrust> reach{};
  std::optional<std::int64_t> memory_per_token{};  ///< bytes of keys and values in f16
  std::optional<std::int64_t> memory{};            ///< bytes of keys and values at N, one sequence
  std::optional<std::int64_t> hard{};              ///< tokens that the tables have rows for
  std::vector<TrustFinding> findings{};
  std::string unmeasurable{};  ///< why no text can be measured, the end of a sentence; empty = one can
};

struct StaticTrustQuery {
  const ModelSpec* spec = nullptr;
  std::string weights{};  ///< as FactsQuery::weights; tables of positions are read, nothing else
  std::string recipe{};   ///< empty = "llama.cpp" for GGUF, else "hf"
  std::optional<std::int64_t> to{};
  std::optional<std::int64_t> trained{};  ///< the caller's word, before any field
};
/// Throws SpecError (a length below 1, an unknown recipe) and FileError (damaged weights).
[[nodiscard]] StaticTrust static_trust(const StaticTrustQuery& query);

/// A schedule in place of what the config has.
struct Extension {
  std::string method{};               ///< none (the plain ladder), linear, ntk, dynamic, yarn or llama3
  double factor = 0;                  ///< >= 1; not for none
  std::optional<double> beta_fast{};  ///< of yarn, turns
};
/// The model under that schedule, `trained` its original length. Throws SpecError: an unknown method, a
/// factor below 1, a model without a rotation, a schedule on a schedule.
[[nodiscard]] ModelSpec extended_spec(const ModelSpec& spec, const Extension& extension,
                                      std::int64_t trained);

/// The same model with position tables of the rows that its weights hold, where the config says otherwise.
[[nodiscard]] ModelSpec with_stored_rows(const ModelSpec& spec, const StaticTrust& facts);

// ---------------------------------------------------------------------------------------------
// The measured part

/// A number with the two one-sided 95 % bounds.
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 0;
};

enum class Judgement : std::uint8_t {
  reference,  ///< nothing shorter to be compared with
  holds,
  fails,
  undecided,     ///< the interval holds both
  not_measured,  ///< no time, or no text that is long enough
};
[[nodiscard]] std::string_view name_of(Judgement judgement) noexcept;

/// The loss of the same targets with `length` tokens fed, the targets predicted by the last of them.
struct LossPoint {
  std::int64_t length = 0;
  std::int64_t documents = 0;
  Estimate loss{};                 ///< nats a token
  std::int64_t compared_with = 0;  ///< the best shorter length
  Estimate difference{};           ///< against it, paired by document
  Judgement no_harm = Judgement::not_measured;
  bool falls = false;     ///< significantly below the best shorter one
  bool finite = true;     ///< every logit was
  std::string why_not{};  ///< where it was not measured
};

struct LossCurve {
  double margin = 0;         ///< nats: a rise up to here is no harm
  double least_benefit = 0;  ///< nats: a fall below here is no benefit
  std::int64_t targets = 0;  ///< tokens scored in each document
  std::int64_t documents = 0;
  std::vector<LossPoint> points{};
  /// Control: does context help at all? Without it nothing that follows means anything.
  Judgement control = Judgement::not_measured;
  std::string control_text{};
  std::optional<std::int64_t> no_harm{};     ///< largest length that holds below every one that fails
  std::optional<std::int64_t> first_harm{};  ///< smallest length that fails
  std::optional<std::int64_t> benefit{};     ///< largest length at which the loss still falls
  Judgement to_declared = Judgement::not_measured;
};

/// A segment stands twice: once at `source`, once at the end, `distance` tokens later. The end of the second
/// is told from others by likelihood.
struct RetrievalCell {
  std::int64_t length = 0;    ///< tokens fed
  std::int64_t distance = 0;  ///< from a token of the first copy to the same of the second
  std::int64_t source = 0;    ///< position of the first copy's first token
  std::int64_t trials = 0;
  std::int64_t right = 0;
  Estimate rate{};  ///< Wilson's bounds
  Judgement holds = Judgement::not_measured;
  bool control = false;  ///< inside the trained length: decides whether anything can be said
};

struct Retrieval {
  std::int64_t segment = 0;  ///< tokens
  std::int64_t scored = 0;   ///< the last of them, which are told apart
  std::int64_t choices = 0;  ///< the true one among them
  double threshold = 0;      ///< of the model's own base
  double control_rate = 0;   ///< that the control has to reach
  double base = 0;           ///< best rate of the control
  Judgement control = Judgement::not_measured;
  std::string text{};  ///< why there is no length, or what bounds it
  std::vector<RetrievalCell> cells{};
  std::optional<std::int64_t> length{};  ///< largest that holds at its worst source, with all shorter ones
  std::optional<std::int64_t> first_failure{};
  Judgement to_declared = Judgement::not_measured;
};

struct ShiftPoint {
  std::int64_t shift = 0;
  double difference = 0;  ///< largest |logit - logit| over the largest |logit|
};
struct ShiftTrust {
  Judgement holds = Judgement::not_measured;
  std::string text{};
  std::int64_t tokens = 0;
  double bound = 0;
  std::vector<ShiftPoint> points{};
};

/// The same targets under the other schedule.
struct ScalingPoint {
  std::int64_t length = 0;
  bool inside = false;  ///< of the trained length
  std::int64_t documents = 0;
  double loss = 0;    ///< nats, as the model is
  double scaled = 0;  ///< nats, under the schedule
  Estimate difference{};
  double divergence = 0;  ///< nats, mean KL(as it is || scaled) over the targets
  double agreement = 0;   ///< share of targets with the same largest logit
  bool harmful = false;   ///< lower bound of the difference above the margin
  bool better = false;    ///< upper bound below 0
};
struct ScalingTrust {
  std::string method{};
  double factor = 0;
  double replicate = 0;  ///< largest |logit| difference of the same call twice
  double effect = 0;     ///< largest |logit| difference of the two
  bool takes_effect = false;
  std::vector<ScalingPoint> points{};
  Judgement short_lengths = Judgement::not_measured;  ///< inside the trained length: no harm?
  /// Largest length that is no worse than the best that the model does as it is.
  std::optional<std::int64_t> no_harm{};
  std::string text{};
};

/// What is done in which time, said before it starts.
struct PlannedPart {
  std::string what{};
  double seconds = 0;
};
struct TrustPlan {
  double budget_s = 0;
  double forward_s = 0;  ///< one pass of `forward_tokens` tokens, as timed
  std::int64_t forward_tokens = 0;
  std::vector<std::int64_t> lengths{};
  std::int64_t documents = 0;
  std::vector<PlannedPart> parts{};
  std::vector<std::string> left_out{};  ///< sentences
  double taken_s = 0;
  bool interrupted = false;
};

/// One text. A file is one document, unless it is long enough to be cut into spans far apart.
struct TrustDocument {
  std::string source{};
  std::vector<std::int64_t> ids{};
};

/// How a model has to be driven.
struct DrivingRules {
  bool follows_length = false;  ///< the plan depends on the tokens seen or on the capacity
  bool absolute = false;        ///< positions are added to the token state
};
[[nodiscard]] DrivingRules driving_rules(const ModelSpec& spec, const std::string& recipe);

struct MeasureQuery {
  Runtime* runtime = nullptr;
  Runtime* scaled = nullptr;  ///< the same weights under `extension`; null = no A/B
  Extension extension{};
  const StaticTrust* facts = nullptr;
  std::vector<TrustDocument> documents{};
  std::vector<std::int64_t> lead{};  ///< ids that stand before every window (<s>)
  double budget_s = 120;
  double spent_s = 0;  ///< of the budget, before this: reading weights and texts
  std::uint64_t seed = 1;
  /// The plan depends on the tokens seen: rows are fed in one piece.
  bool follows_length = false;
  bool absolute = false;  ///< positions are added to the token state: no shift invariance is due
  const std::atomic<bool>* interrupt = nullptr;
  std::function<void(const TrustPlan&)> planned{};
  std::function<void(std::string_view doing)> progress{};
};

struct MeasuredTrust {
  TrustPlan plan{};
  std::string runtime{};
  std::uint64_t seed = 0;
  std::string documents{};  ///< one sentence: how the texts were cut
  LossCurve loss{};
  Retrieval retrieval{};
  ShiftTrust shift{};
  std::optional<ScalingTrust> scaling{};
};
/// Throws SpecError: text shorter than the shortest window, documents that are all the same, a horizon past
/// the table, a budget too small for one measurement; and what the runtime throws.
[[nodiscard]] MeasuredTrust measure_trust(const MeasureQuery& query);

// ---------------------------------------------------------------------------------------------
// The verdict

enum class TrustWord : std::uint8_t { not_measured, holds, worse, cannot_tell };
[[nodiscard]] std::string_view name_of(TrustWord word) noexcept;

struct TrustVerdict {
  TrustWord word = TrustWord::not_measured;
  std::optional<std::int64_t> trusted{};  ///< smallest of the measured lengths
  std::string by{};                       ///< which of them it is
  std::string text{};
};

struct TrustReport {
  ModelFacts model{};
  std::optional<Extension> extension{};  ///< the schedule that the static part is about, where one is tried
  StaticTrust facts{};
  std::optional<MeasuredTrust> measured{};
  TrustVerdict verdict{};
};
/// The smallest measured length against the declared one.
[[nodiscard]] TrustVerdict trust_verdict(const StaticTrust& facts, const MeasuredTrust* measured);

}  // namespace locant
