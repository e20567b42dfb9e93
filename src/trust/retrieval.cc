// SPDX-License-Identifier: Apache-2.0
#include "trust/retrieval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trust/numbers.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kSegment = 16;       // tokens of the segment
constexpr std::int64_t kScored = 4;         // its last ones, which are told apart
constexpr std::int64_t kChoices = 16;       // ends, the true one among them
constexpr std::int64_t kTrials = 24;        // of a cell
constexpr std::int64_t kLeastTrials = 8;    // below that nothing can be shown
constexpr double kThreshold = 0.7;          // of the own base
constexpr double kControlRate = 0.5;        // lower bound that the control has to reach
constexpr std::int64_t kShortestCell = 64;  // tokens

class Copies {
 public:
  explicit Copies(const RetrievalWork& work) : work_(work), chance_(work.seed ^ 0xC0B1E5ULL) {
    std::set<std::int64_t> types;
    for (const Ids& ids : work.documents->ids) types.insert(ids.begin(), ids.end());
    types_.assign(types.begin(), types.end());
    retrieval_.segment = kSegment;
    retrieval_.scored = kScored;
    retrieval_.choices = kChoices;
    retrieval_.threshold = kThreshold;
    retrieval_.control_rate = kControlRate;
  }

  Retrieval take() {
    if (static_cast<std::int64_t>(types_.size()) < kChoices) {
      retrieval_.text = fmt::format("not measured: the texts hold {} different tokens, {} are needed",
                                    types_.size(), kChoices);
      return std::move(retrieval_);
    }
    if (!control()) return std::move(retrieval_);
    for (const std::int64_t length : lengths()) {
      if (!measure(length)) break;
    }
    judge();
    return std::move(retrieval_);
  }

 private:
  std::int64_t inside() const {
    const StaticTrust& facts = *work_.facts;
    return std::min(facts.trained.tokens.value_or(facts.to), work_.longest);
  }

  std::vector<std::int64_t> lengths() const {
    std::set<std::int64_t> all;
    for (std::int64_t length = kShortestCell; length <= work_.longest; length *= 2) all.insert(length);
    for (const auto& stated : {work_.facts->trained.tokens, work_.facts->declared.tokens}) {
      if (stated && *stated >= kShortestCell && *stated <= work_.longest) all.insert(*stated);
    }
    if (work_.longest >= kShortestCell) all.insert(work_.longest);
    return {all.begin(), all.end()};
  }

  /// Sources of the first copy, from the nearest to the first token.
  std::vector<std::int64_t> sources(std::int64_t length) const {
    const auto lead = static_cast<std::int64_t>(work_.lead.size());
    const std::int64_t second = length - (kSegment - 1);  // where the second copy begins
    std::set<std::int64_t> all{lead, second - kSegment};
    for (const std::int64_t quarter : {1, 2, 3}) {
      const std::int64_t source = second - quarter * length / 4;
      if (source >= lead && second - source >= kSegment) all.insert(source);
    }
    std::vector<std::int64_t> nearest_first(all.rbegin(), all.rend());
    return nearest_first;
  }

  /// Trials that the time allows a cell of this length; 0 = not enough of them.
  std::int64_t trials_at(std::int64_t length, std::size_t cells) const {
    const double cost = work_.scorer->costs().of(length) * static_cast<double>(cells);
    const double left = work_.share * work_.clock->budget() - work_.clock->elapsed();
    if (work_.clock->interrupted() || left <= 0) return 0;
    // what this length takes of what is left: the next one costs twice as much
    const double affordable = cost > 0 ? left / cost : static_cast<double>(kTrials);
    if (affordable < static_cast<double>(kLeastTrials)) return 0;
    return std::min(kTrials, static_cast<std::int64_t>(affordable));
  }

  std::int64_t random_type() {
    return types_[static_cast<std::size_t>(chance_.below(static_cast<std::int64_t>(types_.size())))];
  }

  struct Trial {
    Ids window{};
    Ids end{};  // the true one, kScored tokens
    std::vector<Ids> others{};
  };

  Trial trial(std::int64_t length, std::int64_t source) {
    Trial one;
    Ids segment(static_cast<std::size_t>(kSegment));
    for (std::int64_t& id : segment) id = random_type();
    const auto lead = static_cast<std::int64_t>(work_.lead.size());
    const std::int64_t filler = length - lead - kSegment - (kSegment - 1);
    // another stretch of text every time: no cell may be answered from the text of another
    const auto& ids = work_.documents->ids[static_cast<std::size_t>(
        chance_.below(static_cast<std::int64_t>(work_.documents->ids.size())))];
    const std::int64_t first = chance_.below(static_cast<std::int64_t>(ids.size()) - filler + 1);
    one.window = work_.lead;
    const std::int64_t before = source - lead;
    one.window.insert(one.window.end(), ids.begin() + first, ids.begin() + first + before);
    one.window.insert(one.window.end(), segment.begin(), segment.end());
    one.window.insert(one.window.end(), ids.begin() + first + before, ids.begin() + first + filler);
    one.window.insert(one.window.end(), segment.begin(), segment.end() - 1);
    one.end.assign(segment.end() - kScored, segment.end());
    while (static_cast<std::int64_t>(one.others.size()) < kChoices - 1) {
      Ids other(static_cast<std::size_t>(kScored));
      for (std::int64_t& id : other) id = random_type();
      if (other != one.end) one.others.push_back(std::move(other));
    }
    return one;
  }

  /// Of a batch of trials of one length, those that were told right.
  std::int64_t right_of(const std::vector<Trial>& trials) {
    std::vector<Ids> windows;
    windows.reserve(trials.size());
    for (const Trial& one : trials) windows.push_back(one.window);
    std::vector<std::vector<double>> scores(trials.size(),
                                            std::vector<double>(static_cast<std::size_t>(kChoices), 0));
    work_.scorer->run(windows, kScored,
                      [&](std::int64_t row, std::int64_t at, std::span<const float> logits) {
                        const Trial& one = trials[static_cast<std::size_t>(row)];
                        std::vector<double>& of_row = scores[static_cast<std::size_t>(row)];
                        const auto place = static_cast<std::size_t>(at);
                        of_row[0] -= loss_of(logits, one.end[place]);
                        for (std::size_t i = 0; i < one.others.size(); ++i)
                          of_row[i + 1] -= loss_of(logits, one.others[i][place]);
                      });
    std::int64_t right = 0;
    for (const std::vector<double>& of_row : scores) {
      const double other = *std::max_element(of_row.begin() + 1, of_row.end());
      if (std::isfinite(of_row[0]) && of_row[0] > other) ++right;
    }
    return right;
  }

  /// Whether the cell could be finished in time.
  bool fill(RetrievalCell& cell, std::int64_t trials) {
    const std::int64_t rows = work_.scorer->rows_at(cell.length);
    while (cell.trials < trials) {
      const std::int64_t now = std::min(rows, trials - cell.trials);
      if (!work_.clock->has_time(static_cast<double>(now) * work_.scorer->costs().of(cell.length),
                                 work_.share))
        break;
      std::vector<Trial> batch;
      for (std::int64_t i = 0; i < now; ++i) batch.push_back(trial(cell.length, cell.source));
      cell.right += right_of(batch);
      cell.trials += now;
    }
    if (cell.trials > 0) cell.rate = wilson_rate(cell.right, cell.trials);
    return cell.trials >= trials;
  }

  bool add_cells(std::int64_t length, bool control) {
    const std::vector<std::int64_t> all = sources(length);
    const std::int64_t trials = trials_at(length, all.size());
    if (trials == 0) return false;
    for (const std::int64_t source : all) {
      RetrievalCell cell;
      cell.length = length;
      cell.source = source;
      cell.distance = length - (kSegment - 1) - source;
      cell.control = control;
      work_.progress(fmt::format("retrieval at {} tokens, distance {}", length, cell.distance));
      const bool whole = fill(cell, trials);
      if (cell.trials > 0) retrieval_.cells.push_back(cell);
      if (!whole) return false;
    }
    return true;
  }

  bool has(std::int64_t length) const {
    return std::any_of(retrieval_.cells.begin(), retrieval_.cells.end(),
                       [&](const RetrievalCell& cell) { return cell.length == length; });
  }
  bool measure(std::int64_t length) { return has(length) || add_cells(length, false); }

  bool control() {
    constexpr std::size_t kControls = 2;  // lengths
    std::size_t controls = 0;
    for (const std::int64_t length : lengths()) {
      if (length > inside() || controls == kControls) break;
      if (!add_cells(length, true)) break;
      ++controls;
    }
    if (controls == 0) {
      retrieval_.text =
          inside() < kShortestCell
              ? fmt::format("not measured: the control needs {} tokens inside the trained length",
                            kShortestCell)
              : "not measured: no time was left for the control";
      return false;
    }
    double low = 0;
    for (const RetrievalCell& cell : retrieval_.cells) {
      if (cell.trials < kLeastTrials) continue;
      retrieval_.base = std::max(retrieval_.base, cell.rate.mean);
      low = std::max(low, cell.rate.low);
    }
    retrieval_.control = low >= kControlRate ? Judgement::holds : Judgement::fails;
    if (retrieval_.control == Judgement::holds) return true;
    retrieval_.text = fmt::format(
        "cannot tell: inside the trained length the model tells {:.0f} % of repeated segments at best "
        "(chance {:.0f} "
        "%), it does not copy",
        100 * retrieval_.base, 100.0 / static_cast<double>(kChoices));
    return false;
  }

  void judge() {
    const double due = kThreshold * retrieval_.base;
    bool unbroken = true;
    for (const std::int64_t length : lengths()) {
      std::size_t cells = 0;
      bool all = true;
      bool failed = false;
      for (RetrievalCell& cell : retrieval_.cells) {
        if (cell.length != length) continue;
        ++cells;
        cell.holds = cell.trials < kLeastTrials ? Judgement::not_measured
                     : cell.rate.low >= due     ? Judgement::holds
                     : cell.rate.high < due     ? Judgement::fails
                                                : Judgement::undecided;
        all = all && cell.holds == Judgement::holds;
        failed = failed || cell.holds == Judgement::fails;
      }
      if (cells == 0) break;
      unbroken = unbroken && all && cells == sources(length).size();
      if (unbroken) retrieval_.length = length;
      if (failed && !retrieval_.first_failure) retrieval_.first_failure = length;
    }
    const std::optional<std::int64_t>& declared = work_.facts->declared.tokens;
    if (!declared) return;
    if (retrieval_.length && *retrieval_.length >= *declared) {
      retrieval_.to_declared = Judgement::holds;
    } else if (retrieval_.first_failure && *retrieval_.first_failure <= *declared) {
      retrieval_.to_declared = Judgement::fails;
    } else {
      retrieval_.to_declared = Judgement::undecided;
    }
  }

  const RetrievalWork& work_;
  Chance chance_;
  Ids types_{};
  Retrieval retrieval_{};
};

}  // namespace

Retrieval measure_retrieval(const RetrievalWork& work) {
  return Copies(work).take();
}

}  // namespace locant::trust_room
