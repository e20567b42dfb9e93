// SPDX-License-Identifier: Apache-2.0
// Two traces, step by step in the order of the data's flow: what both have is compared, the first difference
// beyond rounding is explained.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "check/diff_explain.h"
#include "check/diff_sides.h"
#include "check/diff_tensors.h"

namespace locant {
namespace {

namespace room = check_room;
using room::FlowName;
using room::Pair;

/// A stack that both traces have.
struct Compared {
  std::unique_ptr<Pair> pair;
  std::unique_ptr<room::TensorComparer> comparer;
};

class Walk {
 public:
  explicit Walk(const DiffQuery& query) : query_(query) {
    evidence_ = room::gather({.spec = query.spec, .traces = {query.want, query.got}, .recipe = query.recipe});
    std::vector<room::Trace*> want;
    std::vector<room::Trace*> got;
    for (const auto& trace : evidence_.traces) {
      // the two may be one file: the first half is `want`
      (want.size() < stacks_of(query.want) ? want : got).push_back(trace.get());
    }
    // the encoder feeds the decoder
    for (const Stack stack : {Stack::encoder, Stack::decoder}) {
      room::Trace* const a = of_stack(want, stack);
      room::Trace* const b = of_stack(got, stack);
      if (a != nullptr && b != nullptr) add(*a, *b);
    }
    if (stacks_.empty() && want.size() == 1 && got.size() == 1) add(*want[0], *got[0]);
    if (stacks_.size() == 2) stacks_[1].pair->encoder = stacks_[0].pair.get();
    want_ = std::move(want);
    got_ = std::move(got);
  }

  TraceDiff run() {
    std::int64_t steps = 0;
    for (const auto& trace : evidence_.traces) steps = std::max(steps, trace->reader.steps());
    for (std::int64_t step = 0; step < steps; ++step) {
      if (query_.progress) query_.progress(fmt::format("step {} of {}", step, steps));
      for (const Compared& stack : stacks_) walk(stack, step);
    }
    find_missing();
    if (out_.tensors_compared == 0)
      throw FileError(query_.got, fmt::format("a tensor stands in both traces, {} shares none with this one",
                                              query_.want));
    return std::move(out_);
  }

 private:
  static std::size_t stacks_of(const std::string& path) {
    const std::vector<std::string> names = TraceReader(path).names();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.starts_with("encoder."); })
               ? 2
               : 1;
  }
  static room::Trace* of_stack(const std::vector<room::Trace*>& traces, Stack stack) {
    for (room::Trace* const trace : traces) {
      if (trace->stack == stack) return trace;
    }
    return nullptr;
  }

  void add(room::Trace& want, room::Trace& got) {
    Compared one;
    one.pair = std::make_unique<Pair>(room::pair_up(want, got, out_.notes));
    one.comparer = std::make_unique<room::TensorComparer>(*one.pair, out_.notes);
    stacks_.push_back(std::move(one));
  }

  /// Names of a pass, in the order of the flow.
  static std::vector<FlowName> flow(const room::Trace& trace, const room::Pass& pass) {
    std::vector<FlowName> names;
    for (const std::string& name : trace.reader.names()) {
      if (!name.starts_with(pass.prefix)) continue;
      const std::string_view bare = std::string_view(name).substr(pass.prefix.size());
      if (bare.starts_with("step.") || bare.starts_with("encoder.")) continue;
      names.push_back(room::flow_of(bare));
    }
    std::sort(names.begin(), names.end(),
              [](const FlowName& a, const FlowName& b) { return a.order < b.order; });
    return names;
  }

  void walk(const Compared& stack, std::int64_t step) {
    const Pair& pair = *stack.pair;
    for (const Divergence& other : pair.other_tokens) {
      if (other.step == step) keep(other);
    }
    for (std::size_t at = 0; at < pair.want.trace->passes.size(); ++at) {
      const room::Pass& pass = pair.want.pass(at);
      if (pass.step != step) continue;
      for (const FlowName& name : flow(*pair.want.trace, pass)) {
        const room::TensorReport report = stack.comparer->compare(at, name);
        if (report.compared) ++out_.tensors_compared;
        if (!report.divergence) continue;
        const bool leads = !out_.first;
        keep(*report.divergence);
        if (leads) out_.hypotheses = causes(stack, at, name);
      }
    }
  }

  void keep(const Divergence& divergence) {
    if (!out_.first) out_.first = divergence;
    out_.differing.push_back(divergence);
  }

  [[nodiscard]] std::vector<Hypothesis> causes(const Compared& stack, std::size_t at,
                                               const FlowName& name) const {
    room::Suspect suspect{*stack.pair, *stack.comparer, query_.spec, evidence_.recipe, at, name, *out_.first};
    suspect.row = out_.first->row.value_or(0);
    suspect.dtype = stack.comparer->dtype_of(at, name);
    const room::Pass& pass = stack.pair->want.pass(at);
    const std::int64_t token = out_.first->token.value_or(0);
    std::int64_t content = room::kPadding;
    if (name.axes == room::Axes::slots) {
      content = pass.past[static_cast<std::size_t>(suspect.row)];
    } else if (token < pass.tokens) {
      content = stack.pair->want.content_of(at, suspect.row, token);
    }
    // a factor on a whole tensor has no place: any token tells
    suspect.content = std::max<std::int64_t>(0, content);
    if (stack.pair->limit.empty() || stack.pair->limit[static_cast<std::size_t>(suspect.row)] == 0) return {};
    return room::explain_difference(suspect);
  }

  /// Names that the other side lacks in every pass of the same tokens.
  void find_missing() {
    for (const Compared& stack : stacks_) {
      missing_of(stack.pair->want, stack.pair->got, query_.got);
      missing_of(stack.pair->got, stack.pair->want, query_.want);
    }
    for (const auto& [traces, others, path] :
         {std::tuple(&want_, &got_, &query_.got), std::tuple(&got_, &want_, &query_.want)}) {
      for (const room::Trace* const trace : *traces) {
        if (is_compared(*trace)) continue;
        for (const room::Pass& pass : trace->passes) {
          for (const FlowName& name : flow(*trace, pass))
            out_.missing.push_back({pass.prefix + name.bare, *path});
        }
      }
    }
  }

  [[nodiscard]] bool is_compared(const room::Trace& trace) const {
    return std::any_of(stacks_.begin(), stacks_.end(), [&](const Compared& stack) {
      return stack.pair->want.trace == &trace || stack.pair->got.trace == &trace;
    });
  }

  void missing_of(const room::Side& side, const room::Side& other, const std::string& path) {
    for (std::size_t at = 0; at < side.trace->passes.size(); ++at) {
      const room::Pass& pass = side.pass(at);
      std::set<std::size_t> partners;
      for (std::int64_t row = 0; row < pass.rows; ++row) {
        for (std::int64_t token = 0; token < pass.tokens; ++token) {
          const room::TokenPlace* const place = other.place(row, side.content_of(at, row, token));
          if (place != nullptr) partners.insert(place->pass);
        }
      }
      for (const FlowName& name : flow(*side.trace, pass)) {
        // no mask: every column is a token
        if (name.bare == trace_names::kAttentionMask) continue;
        const bool there = std::any_of(partners.begin(), partners.end(), [&](std::size_t partner) {
          return other.pass(partner).find(name.bare).data != nullptr;
        });
        if (!there) out_.missing.push_back({pass.prefix + name.bare, path});
      }
    }
  }

  const DiffQuery& query_;
  room::Evidence evidence_;
  std::vector<room::Trace*> want_;
  std::vector<room::Trace*> got_;
  std::vector<Compared> stacks_;
  TraceDiff out_;
};

}  // namespace

TraceDiff diff(const DiffQuery& query) {
  return Walk(query).run();
}

}  // namespace locant
