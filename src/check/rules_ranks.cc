// SPDX-License-Identifier: Apache-2.0
// P112: the positions of context-parallel ranks are a partition of a row's. E110: every id belongs to one
// shard of a vocabulary, and the shards of the logits cover it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "check/book.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

Finding at_rank(const Trace& trace, const Pass& pass, std::string_view tensor) {
  Finding finding;
  finding.where.file = trace.path;
  finding.where.tensor = pass.prefix + std::string(tensor);
  finding.where.step = pass.step;
  return finding;
}

/// What a set of positions is that is no partition of 0, 1, ...
struct Overlap {
  std::string text;
  std::int64_t rank = 0;
  std::int64_t token = 0;
  std::int64_t due = 0;
  std::int64_t got = 0;
};

class RankRules {
 public:
  explicit RankRules(Book& book) : book_(book) {}

  void check_positions(const std::vector<Trace*>& ranks, std::size_t index) {
    const auto states = [&](const Trace* trace) {
      return trace->passes.size() > index && trace->passes[index].stated_axes == 1;
    };
    if (!std::all_of(ranks.begin(), ranks.end(), states)) return;
    book_.asked("P112");
    const std::int64_t rows = ranks[0]->passes[index].rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto overlap = overlap_in(ranks, index, row);
      if (!overlap) continue;
      const Trace& trace = *ranks[static_cast<std::size_t>(overlap->rank)];
      Finding finding = at_rank(trace, trace.passes[index], names::kPositionIds);
      finding.where.row = row;
      finding.where.token = overlap->token;
      finding.message = fmt::format("position_ids of {} ranks: {}", ranks.size(), overlap->text);
      finding.expected = static_cast<double>(overlap->due);
      finding.observed = static_cast<double>(overlap->got);
      finding.hypotheses = {{overlap->text, {{"rank", static_cast<double>(overlap->rank)}}, 0, 0}};
      book_.add("P112", Depth::positions, std::move(finding), "rank positions");
      return;
    }
  }

  void check_shards(const std::vector<Trace*>& ranks, std::size_t index, const ModelSpec* spec) {
    check_rows(ranks, index);
    check_logits(ranks, index, spec);
  }

 private:
  static std::optional<Overlap> overlap_in(const std::vector<Trace*>& ranks, std::size_t index,
                                           std::int64_t row) {
    std::map<std::int64_t, std::int64_t> owner;  // position -> rank
    std::int64_t total = 0;
    std::int64_t before = 0;
    std::int64_t restarts = 0;
    std::optional<Overlap> first;
    for (const Trace* const trace : ranks) {
      const Pass& pass = trace->passes[index];
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        if (!pass.content[pass.at(row, token)]) continue;
        const std::int64_t position = pass.stated[pass.at(row, token)];
        if (token == 0 && position == 0 && trace->rank > 0) ++restarts;
        const auto [at, fresh] = owner.emplace(position, trace->rank);
        if (!fresh && !first) {
          first = Overlap{fmt::format("rank {} gives position {} again, which rank {} has", trace->rank,
                                      position, at->second),
                          trace->rank, token, before + token, position};
        }
        ++total;
      }
      before += pass.tokens;
    }
    if (first && restarts + 1 == static_cast<std::int64_t>(ranks.size()))
      first->text = "each rank counts from 0";
    if (first || owner.empty()) return first;
    const std::int64_t largest = owner.rbegin()->first;
    if (owner.begin()->first == 0 && largest + 1 == total) return std::nullopt;
    std::int64_t hole = 0;
    while (owner.contains(hole)) ++hole;
    const auto next = owner.upper_bound(hole);
    const std::int64_t rank = next == owner.end() ? owner.rbegin()->second : next->second;
    const std::int64_t got = next == owner.end() ? largest : next->first;
    return Overlap{fmt::format("no rank has position {}, and rank {} has {}", hole, rank, got), rank, 0, hole,
                   got};
  }

  /// A shard gives zeros for ids of others; the sum over the ranks is the row.
  void check_rows(const std::vector<Trace*>& ranks, std::size_t index) {
    std::vector<Values> rows;
    for (const Trace* const trace : ranks) {
      if (trace->passes.size() <= index) return;
      const TensorRef tensor = trace->passes[index].find(names::kEmbedTokens);
      if (tensor.data == nullptr || tensor.rank != 3) return;
      rows.push_back(values_of(tensor, trace->path + ": embed.tokens"));
    }
    const Pass& pass = ranks[0]->passes[index];
    if (pass.ids.empty()) return;
    const auto width = static_cast<std::size_t>(rows[0].extent(2));
    std::vector<std::int64_t> owners(pass.content.size(), 0);
    for (std::size_t n = 0; n < owners.size(); ++n) {
      for (const Values& values : rows) {
        if ((n + 1) * width > values.data.size()) return;
        const auto begin = values.data.begin() + static_cast<std::ptrdiff_t>(n * width);
        owners[n] +=
            std::any_of(begin, begin + static_cast<std::ptrdiff_t>(width), [](float x) { return x != 0; })
                ? 1
                : 0;
      }
    }
    const auto world = static_cast<std::int64_t>(ranks.size());
    if (std::all_of(owners.begin(), owners.end(), [&](std::int64_t count) { return count == world; }))
      return;  // whole
    book_.asked("E110");
    for (std::size_t n = 0; n < owners.size(); ++n) {
      if (owners[n] == 1 || !pass.content[n]) continue;
      std::set<std::int64_t> ids;
      for (std::size_t m = 0; m < owners.size(); ++m) {
        if (pass.content[m] && owners[m] == owners[n]) ids.insert(pass.ids[m]);
      }
      Finding finding = at_rank(*ranks[0], pass, names::kEmbedTokens);
      finding.where.row = static_cast<std::int64_t>(n) / pass.tokens;
      finding.where.token = static_cast<std::int64_t>(n) % pass.tokens;
      finding.message = fmt::format(
          "embed.tokens of {} ranks: id {} has a row on {} of them where one is due; ids {} to {} "
          "share that, {} in the trace",
          ranks.size(), pass.ids[n], owners[n], *ids.begin(), *ids.rbegin(), ids.size());
      finding.expected = 1.0;
      finding.observed = static_cast<double>(owners[n]);
      finding.hypotheses = {{owners[n] == 0 ? "the last rows belong to no shard" : "shards overlap",
                             {{"first_id", static_cast<double>(*ids.begin())}},
                             0,
                             0}};
      book_.add("E110", Depth::embedding, std::move(finding), "shards");
      return;
    }
  }

  void check_logits(const std::vector<Trace*>& ranks, std::size_t index, const ModelSpec* spec) {
    if (spec == nullptr || spec->vocab < 1) return;
    std::int64_t columns = 0;
    for (const Trace* const trace : ranks) {
      if (trace->passes.size() <= index) return;
      const TensorRef logits = trace->passes[index].find(names::kLogits);
      if (logits.data == nullptr || logits.rank != 3) return;
      columns += logits.shape[2];
    }
    book_.asked("E110");
    if (columns >= spec->vocab) return;
    Finding finding = at_rank(*ranks[0], ranks[0]->passes[index], names::kLogits);
    finding.message = fmt::format(
        "logits of {} ranks: {} columns where the vocabulary has {}: the last {} ids are scored "
        "by no rank",
        ranks.size(), columns, spec->vocab, spec->vocab - columns);
    finding.expected = static_cast<double>(spec->vocab);
    finding.observed = static_cast<double>(columns);
    book_.add("E110", Depth::behaviour, std::move(finding), "logit shards");
  }

  Book& book_;
};

}  // namespace

void check_ranks(const Evidence& evidence, Book& book) {
  RankRules rules(book);
  for (const std::vector<Trace*>& ranks : evidence.worlds) {
    for (std::size_t index = 0; index < ranks[0]->passes.size(); ++index) {
      if (ranks[0]->sliced) {
        rules.check_positions(ranks, index);
      } else {
        rules.check_shards(ranks, index, evidence.spec);
      }
    }
  }
}

}  // namespace locant::check_room
