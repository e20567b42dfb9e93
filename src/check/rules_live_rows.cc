// SPDX-License-Identifier: Apache-2.0
// M103 to M106: a row in a batch, in a padded batch, or behind another document, beside the row alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/live_rules.h"

namespace locant::check_room {
namespace {

constexpr std::int64_t kSteps = 6;
/// Of a padded row where the prompt is long enough.
constexpr std::int64_t kPads = 7;
constexpr std::string_view kRows = "rows of a batch";
constexpr std::string_view kBatchRight =
    "the batch is right: the row alone gives the same with its positions given";

std::int64_t steps_of(const Live& live) {
  return std::min(live.ask.steps, kSteps);
}

Logits alone(Live& live, const Ids& row) {
  const auto tokens = static_cast<std::int64_t>(row.size());
  return live.drive.run(RowRun{.ids = row, .cuts = prompt_then_steps(tokens, steps_of(live))});
}

/// A row alone with its prompt at one place and its steps shifted by another number of positions.
Candidate placed(Live& live, const Ids& row, std::string cause, std::int64_t prompt, std::int64_t steps) {
  const auto tokens = static_cast<std::int64_t>(row.size());
  const std::int64_t first = tokens - steps_of(live);
  Ids positions = counted(prompt, first);
  const Ids behind = counted(first + steps, tokens - first);
  positions.insert(positions.end(), behind.begin(), behind.end());
  return {.cause = std::move(cause),
          .parameters = {{"prompt_offset", static_cast<double>(prompt)},
                         {"step_offset", static_cast<double>(steps)}},
          .run =
              [&live, row, positions] {
                return live.drive.run(
                    RowRun{.ids = row,
                           .cuts = prompt_then_steps(static_cast<std::int64_t>(row.size()), steps_of(live)),
                           .positions = positions});
              },
          .position = [positions](std::int64_t token) { return positions[static_cast<std::size_t>(token)]; }};
}

/// What the logits of a row are where they are not its own; empty = something else.
std::string looks_like(const std::vector<Ids>& ids, const std::vector<Logits>& rows, std::size_t self,
                       std::int64_t first) {
  const Logits& got = rows[self];
  const auto row = got.at(first);
  if (std::all_of(row.begin(), row.end(), [](float value) { return value == 0; }))
    return "every logit is 0, as if never written";
  if (std::any_of(row.begin(), row.end(), [](float value) { return std::isnan(value); }))
    return "logits are not numbers, or never written";
  for (std::size_t other = 0; other < rows.size(); ++other) {
    if (ids[other] != ids[self] && first < rows[other].tokens() &&
        std::equal(row.begin(), row.end(), rows[other].at(first).begin()))
      return fmt::format("they are the logits of row {}", other);
  }
  return {};
}

Difference row_difference(Live& live, std::string_view rule, const Logits& got, const Logits& due,
                          std::size_t row, const Verdict& verdict) {
  Difference difference{.rule = rule,
                        .depth = Depth::called,
                        .got = got,
                        .due = due,
                        .verdict = verdict,
                        .row = static_cast<std::int64_t>(row)};
  const std::int64_t prompt = due.tokens() - steps_of(live);
  difference.first_step = verdict.first >= prompt ? 1 - prompt : -verdict.first;
  return difference;
}

}  // namespace

void check_rows(Live& live) {
  live.book.asked("M105");
  const std::int64_t steps = steps_of(live);
  const Logits one = alone(live, live.ask.prompt);
  const Logits two = alone(live, live.ask.other);
  const Ids& P = live.ask.prompt;
  const Ids& Q = live.ask.other;
  for (const bool turned : {false, true}) {
    const std::vector<Ids> rows = turned ? std::vector<Ids>{Q, P, P} : std::vector<Ids>{P, P, Q};
    const std::vector<Logits> batch = live.drive.run(BatchRun{.rows = rows, .steps = steps});
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const Logits& due = (rows[b] == Q) ? two : one;
      const Gap beside = gap(batch[b], due);
      const Verdict verdict = judge_steps(beside, live.budget, due.tokens() - steps_of(live));
      if (!verdict.differs && !verdict.open) continue;
      std::vector<Candidate> candidates;
      const auto row = static_cast<std::int64_t>(b);
      const std::int64_t width = live.tokens() - steps;
      if (live.takes_positions && row > 0) {
        const std::string begins = fmt::format("row {} begins at {} times the length of a call", row, row);
        candidates = {placed(live, rows[b], begins, row * width, row),
                      placed(live, rows[b], begins, row * width, 0), placed(live, rows[b], begins, 0, row),
                      placed(live, rows[b], fmt::format("row {} begins at position {}", row, row), row, row),
                      placed(live, rows[b], "steps of a row count on by the number of rows", 0, row * width)};
      }
      const Explanation explanation = explain(batch[b], due, live.budget, candidates);
      if (!verdict.differs && explanation.best == nullptr) continue;
      Difference difference = row_difference(live, "M105", batch[b], due, b, verdict);
      difference.what = fmt::format("row {} of a batch of {} beside the row alone", b, rows.size());
      difference.also = looks_like(rows, batch, b, verdict.first);
      difference.cause = kRows;  // uneven rows show it too, and may name it otherwise
      live.rows_differ = true;
      add(live, difference, explanation);
      return;
    }
  }
}

namespace {

std::string counted_padding(std::int64_t pads) {
  return fmt::format("the {} of padding are counted", pads);
}

/// One padded row beside the row alone, and what reproduces it.
class PaddedRow {
 public:
  PaddedRow(Live& live, Padding side, Ids row, std::int64_t width)
      : live_(live),
        side_(side),
        row_(std::move(row)),
        width_(width),
        pads_(width - (static_cast<std::int64_t>(row_.size()) - steps_of(live))) {}

  [[nodiscard]] std::int64_t pads() const { return pads_; }
  Logits single() const { return single(live_.ask.pad_id); }
  /// How much another padding token changes the row: what is not seen changes nothing.
  [[nodiscard]] double moved_by_pads() const {
    return gap(single(live_.ask.other_pad_id), single(live_.ask.pad_id)).largest;
  }

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> all;
    const std::string counted_everywhere = counted_padding(pads_);
    if (live_.takes_positions) {
      all.push_back(placed(live_, row_, std::string(kBatchRight), 0, 0));
      if (side_ == Padding::left) {
        all.push_back(placed(live_, row_, counted_everywhere, pads_, pads_));
        all.push_back(placed(live_, row_, counted_everywhere + " in the prompt alone", pads_, 0));
      }
      all.push_back(placed(live_, row_, counted_everywhere + " by the steps alone", 0, pads_));
      all.push_back(placed(live_, row_, "steps begin at 0 again", 0,
                           steps_of(live_) - static_cast<std::int64_t>(row_.size())));
    }
    all.push_back({.cause = "padding is visible and counted",
                   .parameters = {{"padding", static_cast<double>(pads_)}},
                   .run = [this] { return as_content({}); }});
    if (live_.takes_positions) {
      for (const std::int64_t at : {0, 1}) {
        all.push_back({.cause = fmt::format("padding is visible, at position {}", at),
                       .parameters = {{"padding", static_cast<double>(pads_)}},
                       .run = [this, at] { return as_content(Ids(static_cast<std::size_t>(pads_), at)); }});
      }
    }
    return all;
  }

 private:
  [[nodiscard]] Logits single(std::int64_t pad) const {
    return live_.drive
        .run(BatchRun{
            .rows = {row_}, .steps = steps_of(live_), .padding = side_, .pad_id = pad, .width = width_})
        .front();
  }
  /// Padding as tokens like others, at given positions or counted.
  [[nodiscard]] Logits as_content(const Ids& positions_of_pads) const {
    const std::int64_t steps = steps_of(live_);
    const auto tokens = static_cast<std::int64_t>(row_.size());
    const std::int64_t before = side_ == Padding::left ? 0 : tokens - steps;
    RowRun run{.ids = row_, .cuts = prompt_then_steps(tokens + pads_, steps)};
    run.ids.insert(run.ids.begin() + before, static_cast<std::size_t>(pads_), live_.ask.pad_id);
    if (!positions_of_pads.empty()) {
      run.positions = counted(0, tokens);
      run.positions.insert(run.positions.begin() + before, positions_of_pads.begin(),
                           positions_of_pads.end());
    }
    const Logits all = live_.drive.run(run);
    Logits content = all.part(side_ == Padding::left ? pads_ : 0, tokens - steps);
    content.append(all.part(tokens + pads_ - steps, steps));
    return content;
  }

  Live& live_;
  Padding side_;
  Ids row_;
  std::int64_t width_;
  std::int64_t pads_;
};

}  // namespace

void check_padding(Live& live, Padding side) {
  const std::string_view rule = side == Padding::left ? "M103" : "M104";
  live.book.asked(rule);
  const std::int64_t pads = std::min(kPads, live.tokens() / 4);
  const std::int64_t width = live.tokens() - steps_of(live);
  // the longest row has none; two rows of one content, one padded as the other is
  const auto shorter = [&](const Ids& row, std::int64_t by) { return Ids(row.begin(), row.end() - by); };
  const std::vector<Ids> rows = {shorter(live.ask.prompt, pads), live.ask.other, shorter(live.ask.other, 1),
                                 shorter(live.ask.prompt, pads)};
  const std::vector<Logits> batch = live.drive.run(
      BatchRun{.rows = rows, .steps = steps_of(live), .padding = side, .pad_id = live.ask.pad_id});
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const Logits due = alone(live, rows[b]);
    const Gap beside = gap(batch[b], due);
    const Verdict verdict = judge_steps(beside, live.budget, due.tokens() - steps_of(live));
    if (!verdict.differs && !verdict.open) continue;
    const PaddedRow padded(live, side, rows[b], width);
    const std::vector<Candidate> candidates =
        padded.pads() > 0 ? padded.candidates() : std::vector<Candidate>{};
    const Explanation explanation = explain(batch[b], due, live.budget, candidates);
    if (!verdict.differs && explanation.best == nullptr) continue;
    Difference difference = row_difference(live, rule, batch[b], due, b, verdict);
    difference.depth = side == Padding::left ? Depth::composed : Depth::padded;
    difference.what = fmt::format("row {} of an uneven batch, {} of padding on the {}, beside the row alone",
                                  b, padded.pads(), name_of(side));
    difference.also = looks_like(rows, batch, b, verdict.first);
    const auto say = [&](const std::string& more) {
      difference.also += (difference.also.empty() ? "" : "; ") + more;
    };
    const bool single_right = padded.pads() == 0 || gap(padded.single(), due).largest < beside.largest / 4;
    if (explanation.best != nullptr && explanation.best->cause == kBatchRight) {
      difference.cause = live.steps;
    } else if (single_right) {
      say("a batch of this row alone is right: rows share what they must not");
      difference.cause = kRows;
    } else if (const double moved = padded.moved_by_pads(); moved > live.budget.upper) {
      say(fmt::format("another id in the padding moves them by {:.2g}: it is visible", moved));
      difference.cause = "padding is visible";
    } else if (explanation.best != nullptr &&
               explanation.best->cause.starts_with(counted_padding(padded.pads()))) {
      difference.cause = "padding is counted";
    } else {
      say("another id in the padding changes nothing: it is not visible");
      // the same steps are wrong without padding, too
      if (explanation.best == nullptr && difference.verdict.first >= due.tokens() - steps_of(live))
        difference.cause = live.steps;
    }
    if (side == Padding::right && live.ask.window > 0 && explanation.best == nullptr &&
        difference.verdict.first >= due.tokens() - steps_of(live)) {
      say("a cache that keeps the last tokens alone keeps padding among them");
      difference.severity = Severity::warning;  // generation pads on the left
    }
    add(live, difference, explanation);
    return;
  }
}

void check_packed(Live& live) {
  if (!live.drive.runtime().takes_documents())
    return live.book.lacks("M106", "a live runtime that takes documents");
  live.book.asked("M106");
  const std::int64_t first = live.tokens() / 3;
  const std::int64_t second = live.tokens() - first;
  const Ids A(live.ask.other.begin(), live.ask.other.begin() + first);
  const Ids B(live.ask.prompt.begin(), live.ask.prompt.begin() + second);
  RowRun packed{.ids = A};
  packed.ids.insert(packed.ids.end(), B.begin(), B.end());
  packed.documents.assign(static_cast<std::size_t>(first), 0);
  packed.documents.insert(packed.documents.end(), static_cast<std::size_t>(second), 1);
  const Logits row = live.drive.run(packed);
  const auto positions = [&](std::int64_t start) {
    Ids all = counted(0, first);
    const Ids behind = counted(start, second);
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  };
  for (const bool later : {false, true}) {
    const Logits got = later ? row.part(first, second) : row.part(0, first);
    const Logits due = live.drive.run(RowRun{.ids = later ? B : A});
    const Verdict verdict = judge(gap(got, due), live.budget, Path::same);
    if (!verdict.differs && !verdict.open) continue;
    std::vector<Candidate> candidates;
    if (later) {
      const auto plain = [&live, &packed, first, second](const Ids& given) {
        return live.drive.run(RowRun{.ids = packed.ids, .positions = given}).part(first, second);
      };
      candidates.push_back({.cause = "the first document is visible, and positions count on from it",
                            .parameters = {},
                            .run = [plain] { return plain({}); },
                            .position = [first](std::int64_t token) { return token + first; }});
      if (live.takes_positions) {
        candidates.push_back({.cause = "the first document is visible",
                              .parameters = {},
                              .run = [plain, given = positions(0)] { return plain(given); }});
        candidates.push_back({.cause = "positions count on from the document before",
                              .parameters = {{"start", static_cast<double>(first)}},
                              .run =
                                  [&live, &B, first, second] {
                                    return live.drive.run(
                                        RowRun{.ids = B, .positions = counted(first, second)});
                                  },
                              .position = [first](std::int64_t token) { return token + first; }});
      }
    }
    const Explanation explanation = explain(got, due, live.budget, candidates);
    if (!verdict.differs && explanation.best == nullptr) continue;
    add(live,
        {.rule = "M106",
         .depth = Depth::composed,
         .what = fmt::format("document {} of {} tokens behind {} in one row, beside the document alone",
                             later ? 1 : 0, later ? second : first, later ? first : 0),
         .got = got,
         .due = due,
         .verdict = verdict},
        explanation);
    return;
  }
}

}  // namespace locant::check_room
