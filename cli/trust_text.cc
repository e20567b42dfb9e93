// SPDX-License-Identifier: Apache-2.0
// One line a question; behind the answer its criterion, sample and interval.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ostream>

#include "cli/memory.h"
#include "cli/stream.h"
#include "cli/trust_report.h"

namespace locant::cli {
namespace {

void line(Answer& answer, std::string_view name, const std::string& value, const std::string& more = {}) {
  answer.stream() << fmt::format("{}{:<18}{}{:>8}{}{}\n", answer.style().bold, name, answer.style().off,
                                 value, more.empty() ? "" : "  ", one_line(more));
}

std::string tokens_or(const std::optional<std::int64_t>& tokens, std::string_view none) {
  return tokens ? std::to_string(*tokens) : std::string(none);
}

std::string basis_text(const StatedLength& length) {
  switch (length.source) {
    case LengthSource::none:
      return "nothing states it";
    case LengthSource::field:
      return fmt::format("{} (a field, no proof)", length.basis);
    case LengthSource::user:
      return fmt::format("{} (your word)", length.basis);
    case LengthSource::weights:
      return fmt::format("rows of {} that learned (weights)", length.basis);
    case LengthSource::assumed:
      return fmt::format("assumed to be the declared length ({}), nothing else states it", length.basis);
  }
  return {};
}

void write_rotation(const RotationTrust& rotation, const StaticTrust& facts, Answer& answer) {
  if (rotation.first_position) {
    line(answer, "angles in range", std::to_string(*rotation.first_position),
         fmt::format(
             "pair {} of {} leaves first; {:.1f} % of the cells below {} were not seen, by up to {:.2f} rad",
             *rotation.first_pair, rotation.pairs.size(), 100 * rotation.unseen, facts.to, rotation.excess));
  } else {
    line(answer, "angles in range", std::to_string(facts.to),
         fmt::format("all {} pairs, {} of which turned less than once in training", rotation.pairs.size(),
                     rotation.incomplete_pairs));
  }
  line(answer, "compression", fmt::format("{:.3g}", rotation.least_compression),
       fmt::format("the most slowed pair; the fastest turns {:.4g} rad a token, {:.4g} without a schedule",
                   rotation.fastest_step, rotation.fastest_plain));
  line(answer, "B(m) >= 0", tokens_or(rotation.sum_negative_from, std::to_string(rotation.sum_searched_to)),
       rotation.sum_negative_from
           ? fmt::format("negative from there on (Men et al. 2024, a risk flag); least {:.2f} a pair",
                         rotation.least_sum)
           : fmt::format("nowhere negative (Men et al. 2024); least {:.2f} a pair", rotation.least_sum));
  line(answer, "critical dimension", std::to_string(rotation.critical_dimension),
       rotation.extension_bound
           ? fmt::format(
                 "of {} channels turned in training; the next pair turns once in {:.0f} tokens (Liu et al. "
                 "2023)",
                 2 * rotation.pairs.size(), *rotation.extension_bound)
           : fmt::format("all {} channels turned in training (Liu et al. 2023)", 2 * rotation.pairs.size()));
  line(answer, "precision", fmt::format("{:.1e}", rotation.table_error),
       fmt::format("largest error of cos under recipe {}, at position {}", facts.recipe,
                   rotation.table_error_position));
}

void write_static(const TrustReport& report, Answer& answer) {
  const StaticTrust& facts = report.facts;
  line(answer, "declared", tokens_or(facts.declared.tokens, "-"), basis_text(facts.declared));
  line(answer, "trained", tokens_or(facts.trained.tokens, "-"), basis_text(facts.trained));
  for (const TableTrust& table : facts.tables) {
    line(answer, "rows that learned", std::to_string(table.learned),
         table.evidence.empty() ? fmt::format("all positions of {}: no row stands out", table.tensor)
                                : table.evidence);
  }
  for (const RotationTrust& rotation : facts.rotations) write_rotation(rotation, facts, answer);
  for (const ReachTrust& reach : facts.reach) {
    const std::string name = reach.what == "alibi"    ? "ALiBi reach"
                             : reach.what == "window" ? "window"
                                                      : "T5 bucket";
    line(answer, name, tokens_or(reach.tokens, "no end"), reach.text);
  }
  if (facts.memory)
    line(answer, "memory", bytes_text(*facts.memory),
         fmt::format("keys and values in f16 at {} tokens", facts.to));
  for (const TrustFinding& finding : facts.findings) {
    answer.stream() << fmt::format("{} {}: {}\n", finding.kind == FindingKind::fault ? "fault" : "risk ",
                                   finding.name, one_line(finding.text));
  }
}

std::string interval(const Estimate& estimate) {
  return fmt::format("{:+.4f} [{:+.4f}, {:+.4f}]", estimate.mean, estimate.low, estimate.high);
}

void write_loss(const LossCurve& loss, Answer& answer) {
  answer.stream() << fmt::format(
      "\nloss of the same {} targets by tokens fed; margin {} nats, one-sided 95 %, bootstrap over "
      "documents\n"
      "  tokens  documents    nats  difference from the best shorter length\n",
      loss.targets, loss.margin);
  for (std::size_t i = 0; i < loss.points.size(); ++i) {
    const LossPoint& point = loss.points[i];
    if (point.documents == 0) {
      // lengths that one reason left out share a line
      while (i + 1 < loss.points.size() && loss.points[i + 1].why_not == point.why_not) ++i;
      const std::int64_t last = loss.points[i].length;
      answer.stream() << fmt::format("  {:>6}{}  not measured: {}\n", point.length,
                                     last > point.length ? fmt::format(" to {}", last) : "", point.why_not);
      continue;
    }
    answer.stream() << fmt::format(
        "  {:>6}  {:>9}  {:>6.3f}  {}\n", point.length, point.documents, point.loss.mean,
        point.compared_with == 0
            ? "-"
            : fmt::format("{} (from {}): {}{}", interval(point.difference), point.compared_with,
                          name_of(point.no_harm), point.falls ? ", falls" : ""));
  }
  line(answer, "control", std::string(name_of(loss.control)), loss.control_text);
  line(answer, "no harm", tokens_or(loss.no_harm, "-"),
       loss.first_harm ? fmt::format("harm is shown at {}", *loss.first_harm)
                       : "no harm was shown at any length");
  line(answer, "benefit", tokens_or(loss.benefit, "-"),
       fmt::format("the last length that lowers the loss by more than {} nats", loss.least_benefit));
}

void write_retrieval(const Retrieval& retrieval, Answer& answer) {
  if (!retrieval.cells.empty()) {
    answer.stream() << fmt::format(
        "\nretrieval: a segment of {} tokens stands twice, its last {} told from {} others; {} of the own "
        "base, "
        "Wilson 95 %\n  tokens  distance  source   right  at least\n",
        retrieval.segment, retrieval.scored, retrieval.choices - 1, retrieval.threshold);
    for (const RetrievalCell& cell : retrieval.cells) {
      answer.stream() << fmt::format(
          "  {:>6}  {:>8}  {:>6}  {:>2}/{:<3}  {:>8.2f}  {}{}\n", cell.length, cell.distance, cell.source,
          cell.right, cell.trials, cell.rate.low,
          retrieval.control == Judgement::holds ? name_of(cell.holds) : "",
          cell.control ? (retrieval.control == Judgement::holds ? ", control" : "control") : "");
    }
  }
  const std::string failure =
      retrieval.first_failure ? fmt::format("fails at its worst source at {}", *retrieval.first_failure) : "";
  if (retrieval.control == Judgement::holds) {
    line(answer, "retrieves", tokens_or(retrieval.length, "-"),
         fmt::format("base {:.2f}; {}", retrieval.base, failure.empty() ? "no failure was shown" : failure));
  } else {
    line(answer, "retrieves", "-", retrieval.text);
  }
}

void write_shift(const ShiftTrust& shift, Answer& answer) {
  std::string text = shift.text;
  for (const ShiftPoint& point : shift.points)
    text += fmt::format("{}{:.1e} at +{}", text.empty() ? "" : ", ", point.difference, point.shift);
  if (!shift.points.empty())
    text += fmt::format(" of the largest logit; up to {:.1e} is rounding", shift.bound);
  line(answer, "shift invariance", shift.points.empty() ? "-" : std::string(name_of(shift.holds)), text);
}

void write_scaling(const ScalingTrust& scaling, Answer& answer) {
  answer.stream() << fmt::format(
      "\n{} {} against the model as it is: the same targets\n"
      "  tokens    nats  scaled  difference                      KL     same first\n",
      scaling.method, scaling.factor > 0 ? fmt::format("x{}", scaling.factor) : "");
  for (const ScalingPoint& point : scaling.points) {
    answer.stream() << fmt::format(
        "  {:>6}  {:>6.3f}  {:>6.3f}  {:<28}  {:>6.4f}  {:>6.1f} %  {}{}\n", point.length, point.loss,
        point.scaled, interval(point.difference), point.divergence, 100 * point.agreement,
        point.harmful  ? "harmful"
        : point.better ? "better"
                       : "",
        point.inside ? (point.harmful || point.better ? ", inside" : "inside") : "");
  }
  line(answer, "schedule", scaling.takes_effect ? "acts" : "-", scaling.text);
  line(answer, "no harm with it", tokens_or(scaling.no_harm, "-"), "against the best of the model as it is");
}

}  // namespace

std::string plan_text(const TrustPlan& plan) {
  std::string text = fmt::format(
      "plan: {:.0f} s in all; one pass of {} tokens takes {:.3g} s; lengths {}, {} documents", plan.budget_s,
      plan.forward_tokens, plan.forward_s, fmt::join(plan.lengths, " "), plan.documents);
  for (const PlannedPart& part : plan.parts) text += fmt::format("; {} {:.1f} s", part.what, part.seconds);
  for (const std::string& left_out : plan.left_out) text += fmt::format("; left out: {}", left_out);
  return text;
}

void write_trust_text(const TrustReport& report, Answer& answer) {
  write_static(report, answer);
  if (report.measured) {
    const MeasuredTrust& measured = *report.measured;
    answer.stream() << fmt::format("\n{}; seed {}; {:.1f} s of {:.0f} s\n", one_line(measured.documents),
                                   measured.seed, measured.plan.taken_s, measured.plan.budget_s);
    for (const std::string& left_out : measured.plan.left_out)
      answer.stream() << fmt::format("left out: {}\n", one_line(left_out));
    if (measured.plan.interrupted) answer.stream() << "interrupted: this is what was known by then\n";
    write_loss(measured.loss, answer);
    write_retrieval(measured.retrieval, answer);
    write_shift(measured.shift, answer);
    if (measured.scaling) write_scaling(*measured.scaling, answer);
    answer.stream() << '\n';
  }
  line(answer, "verdict", "", report.verdict.text);
}

}  // namespace locant::cli
