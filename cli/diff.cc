// SPDX-License-Identifier: Apache-2.0
// `locant diff`: where two recorded runs of the same tokens part, and why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/models.h"
#include "cli/stream.h"
#include "locant/check.h"
#include "locant/recipe.h"
#include "locant/report.h"
#include "locant/trace.h"

namespace locant::cli {
namespace {

constexpr std::size_t kListed = 20;  // lines of a list; --json has all

struct DiffFlags {
  CommonFlags common;
  std::string want;
  std::string got;
  std::string model;
  std::string recipe;
};

DiffFlags parse(Args args) {
  DiffFlags flags;
  Arguments arguments(
      "diff",
      "Compares two traces of the same tokens and names the first tensor that differs by more than "
      "rounding.",
      {"locant diff reference.safetensors mine.safetensors",
       "locant diff a.safetensors b.safetensors --model path/to/model --json"});
  arguments.positional("A", flags.want, "a trace: how it should be");
  arguments.positional("B", flags.got, "a trace of the same tokens");
  arguments.value("--model", flags.model, "of both: causes are named by its plan")->type_name("MODEL");
  arguments.value("--recipe", flags.recipe, "whose meaning the model's config is read under")
      ->type_name("NAME");
  arguments.add_common(flags.common);
  arguments.parse(args);
  if (flags.want.empty() || flags.got.empty()) throw UsageError("diff: give two traces, A and B");
  if (!flags.recipe.empty()) {
    if (flags.model.empty()) throw UsageError("diff: --recipe reads a model's config, give --model too");
    (void)find_recipe(flags.recipe);
  }
  return flags;
}

std::string fact_text(const Fact& fact) {
  if (const auto* const number = std::get_if<double>(&fact)) return fmt::format("{:.6g}", *number);
  if (const auto* const word = std::get_if<std::string>(&fact)) return one_line(*word);
  return "nothing";
}

std::string place_of(const Divergence& at) {
  std::string text = fmt::format("step {}", at.step);
  if (at.row) text += fmt::format(", row {}", *at.row);
  if (at.token) text += fmt::format(", token {}", *at.token);
  if (at.head) text += fmt::format(", head {}", *at.head);
  return text;
}

std::string size_text(double difference) {
  return std::isfinite(difference) ? fmt::format("{:.3g}", difference) : "whole";
}

std::string counted(std::int64_t count, std::string_view word) {
  if (count == 1) return fmt::format("1 {}", word);
  return fmt::format("{} {}{}", count, word, word.ends_with('s') ? "es" : "s");
}

void write_trace(const std::string& word, const std::string& path, Answer& answer) {
  const TraceReader trace(path);
  std::string facts;
  for (const char* const key : {"locant.producer", "locant.model", "locant.dtype"}) {
    const std::string value = trace.metadata(key);
    if (!value.empty()) facts += fmt::format("{}{}", facts.empty() ? "" : ", ", one_line(value));
  }
  const TensorRef ids = trace.find(trace_names::kInputIds);
  if (ids.data != nullptr && ids.rank == 2)
    facts += fmt::format("{}{} of {}", facts.empty() ? "" : ", ", counted(ids.shape[0], "row"),
                         counted(ids.shape[1], "token"));
  answer.stream() << fmt::format("{}  {}: {}, {}\n", word, one_line(path), facts,
                                 counted(trace.steps(), "pass"));
}

void write_first(const TraceDiff& diff, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  const Divergence& first = *diff.first;
  out << fmt::format("\n{}first difference: {}{}, {}\n", style.bold, one_line(first.tensor), style.off,
                     place_of(first));
  out << fmt::format("    B has {} where A has {}\n", fact_text(first.got), fact_text(first.want));
  if (first.budget == 0 && std::isfinite(first.difference)) {
    out << fmt::format("    the largest difference is {:.6g}\n", first.difference);
  } else if (std::isfinite(first.difference)) {
    out << fmt::format("    the tensor differs by up to {:.3g} of its size, rounding explains {:.2g}\n",
                       first.difference, first.budget);
  }
  for (const Hypothesis& one : diff.hypotheses) {
    out << fmt::format("    {:<5} {}", &one == diff.hypotheses.data() ? "cause" : "or", one_line(one.cause));
    if (one.budget > 0)
      out << fmt::format(": leaves {:.2g}, rounding explains {:.2g}", one.residual, one.budget);
    out << '\n';
  }
}

void write_further(const TraceDiff& diff, Answer& answer) {
  if (diff.differing.size() < 2) return;
  std::ostream& out = answer.stream();
  std::size_t width = 6;
  const std::size_t shown = std::min(diff.differing.size(), kListed);
  for (std::size_t i = 1; i < shown; ++i) width = std::max(width, diff.differing[i].tensor.size());
  out << fmt::format("\nthen\n  {:<{}}  step  row  token  head  difference   rounding\n", "tensor", width);
  const auto cell = [](const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : "-";
  };
  for (std::size_t i = 1; i < shown; ++i) {
    const Divergence& one = diff.differing[i];
    out << fmt::format("  {:<{}}  {:>4}  {:>3}  {:>5}  {:>4}  {:>10}  {:>9.2g}\n", one_line(one.tensor),
                       width, one.step, cell(one.row), cell(one.token), cell(one.head),
                       size_text(one.difference), one.budget);
  }
  if (diff.differing.size() > shown)
    out << fmt::format("  and {} more (--json has all)\n", diff.differing.size() - shown);
}

void write_missing(const TraceDiff& diff, const DiffFlags& flags, Answer& answer) {
  for (const auto& [path, word] : {std::pair(&flags.got, "B"), std::pair(&flags.want, "A")}) {
    std::vector<std::string> names;
    for (const Unmatched& one : diff.missing) {
      if (one.path == *path) names.push_back(one_line(one.tensor));
    }
    if (names.empty()) continue;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) text += " " + names[i];
    if (names.size() > kListed) text += fmt::format(" and {} more", names.size() - kListed);
    answer.stream() << fmt::format("not in {}: {}\n", word, text.substr(1));
    if (flags.got == flags.want) return;
  }
}

void write_text(const TraceDiff& diff, const DiffFlags& flags, Answer& answer) {
  std::ostream& out = answer.stream();
  write_trace("A", flags.want, answer);
  write_trace("B", flags.got, answer);
  for (const std::string& note : diff.notes) out << fmt::format("note: {}\n", one_line(note));
  if (diff.first) {
    write_first(diff, answer);
    write_further(diff, answer);
    out << '\n';
  }
  write_missing(diff, flags, answer);
  out << (diff.first ? fmt::format("{} of {} tensors differ\n", diff.differing.size(), diff.tensors_compared)
                     : fmt::format("{} tensors are equal within rounding\n", diff.tensors_compared));
}

}  // namespace

int diff_command(Args args, Host& host) {
  const DiffFlags flags = parse(args);
  Answer answer(host, flags.common);
  Progress progress(host, flags.common);
  DiffQuery query;
  query.want = flags.want;
  query.got = flags.got;
  query.recipe = flags.recipe;
  query.progress = [&](std::string_view doing) { progress.show(fmt::format("comparing: {}", doing)); };
  ModelSpec spec;
  if (!flags.model.empty()) {
    spec = read_model_spec(find_model_file(flags.model, host));
    query.spec = &spec;
  }
  const TraceDiff found = diff(query);
  progress.clear();
  if (flags.common.json) {
    answer.stream() << diff_json(found) << '\n';
  } else {
    write_text(found, flags, answer);
  }
  answer.finish();
  return found.first ? 1 : 0;
}

}  // namespace locant::cli
