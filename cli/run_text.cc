// SPDX-License-Identifier: Apache-2.0
// The text of `locant run`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "cli/feeding.h"
#include "cli/run_report.h"
#include "cli/stream.h"

namespace locant::cli {
namespace {

constexpr std::size_t kShown = 40;  ///< tokens of a row before its middle is left out

/// "812.3 k", "7.2 M"; three or more digits.
std::string with_unit(double value) {
  constexpr std::string_view kUnits[] = {"", " k", " M", " G"};
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, kUnits[unit]);
}

std::string lengths_text(const LengthSpec& lengths) {
  const std::string trained =
      lengths.trained ? fmt::format("trained for {}", *lengths.trained) : "trained length not stated";
  if (lengths.configured) return fmt::format("{}, configured for {} tokens", trained, *lengths.configured);
  return lengths.trained ? trained + " tokens" : trained;
}

std::string model_line(const Model& model) {
  const ModelSpec& spec = model.spec();
  const std::vector<std::string> mechanisms = mechanism_names(spec);
  return fmt::format("{}, {} layers, {}parameters; positions: {}; {}; recipe {}", spec.family, spec.layers,
                     with_unit(static_cast<double>(model.parameters())) + " ",
                     mechanisms.empty() ? "none" : fmt::format("{}", fmt::join(mechanisms, ", ")),
                     lengths_text(spec.lengths), model.recipe().name);
}

std::string pad_to(std::string text, std::size_t width) {
  const std::size_t have = characters(text);
  if (have < width) text.append(width - have, ' ');
  return text;
}

std::string position_text(const RunReport& report, std::size_t row, std::size_t token) {
  std::vector<std::int64_t> axes;
  for (const auto& axis : report.positions.rows[row]) axes.push_back(axis[token]);
  return fmt::format("{}", fmt::join(axes, ","));
}

std::string piece_column(const RunReport& report, std::int64_t id, std::size_t width) {
  return report.tokenizer == nullptr ? "" : "  " + pad_to(one_line(report.tokenizer->piece(id)), width);
}

std::size_t piece_width(const RunReport& report) {
  constexpr std::size_t kLeast = 8;
  std::size_t width = kLeast;
  if (report.tokenizer == nullptr) return width;
  const auto see = [&](std::int64_t id) {
    width = std::max(width, characters(one_line(report.tokenizer->piece(id))));
  };
  for (std::size_t row = 0; row < report.rows.size(); ++row) {
    for (const std::int64_t id : report.rows[row]) see(id);
    for (const NextToken& candidate : report.scores.next[row]) see(candidate.id);
  }
  return width;
}

void write_tokens(const RunReport& report, std::size_t width, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  const bool scored = report.pooled == nullptr;
  out << fmt::format("\n{}{:>4} {:>9} {:>8}{}{}{}\n", style.bold, "row", "position", "id",
                     report.tokenizer == nullptr ? "" : "  " + pad_to("piece", width),
                     scored ? fmt::format("  {:>9}", "log p") : "", style.off);
  for (std::size_t row = 0; row < report.rows.size(); ++row) {
    const auto& ids = report.rows[row];
    for (std::size_t token = 0; token < ids.size(); ++token) {
      if (ids.size() > kShown && token == kShown / 2) {
        const std::size_t left_out = ids.size() - kShown;
        out << fmt::format("{}     ... {} tokens are not shown here; --json has them{}\n", style.dim,
                           left_out, style.off);
        token += left_out;
      }
      const std::optional<double>& value = report.scores.log_probabilities[row][token];
      const std::string shown = value ? fmt::format("{:.4f}", *value) : "-";
      out << fmt::format("{:>4} {:>9} {:>8}{}{}\n", row, position_text(report, row, token), ids[token],
                         piece_column(report, ids[token], width),
                         scored ? fmt::format("  {:>9}", shown) : "");
    }
  }
}

void write_next(const RunReport& report, std::size_t row, std::size_t width, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  const bool masked = report.scores.options().predicts == Predicts::itself;
  std::int64_t token = -1;
  for (const NextToken& candidate : report.scores.next[row]) {
    if (candidate.token != token) {
      token = candidate.token;
      const std::string which = masked ? fmt::format("masked token {} of row {}\n", token, row) : "";
      out << fmt::format("\n{}{}{}{:>10}{}  {:>9} {:>9}{}\n", style.bold, which, masked ? "    " : "next",
                         "id", report.tokenizer == nullptr ? "" : "  " + pad_to("piece", width), "logit", "p",
                         style.off);
    }
    out << fmt::format("{:>4}{:>10}{}  {:>9.4f} {:>9.4f}\n", row, candidate.id,
                       piece_column(report, candidate.id, width), candidate.logit, candidate.probability);
  }
}

void write_vector(const RunReport& report, std::size_t row, Answer& answer) {
  const PooledStates& pooled = *report.pooled;
  std::string text =
      fmt::format("\nvector of row {}: {} wide, pooled by {}, norm {:.6g}\n", row, pooled.width(),
                  name_of(report.options.pool.value_or(Pool::mean)), pooled.norms()[row]);
  const std::vector<double> cosines = pooled.similarities(row);
  if (cosines.size() > 1) text += fmt::format("  cosine to the rows: {:.4f}\n", fmt::join(cosines, ", "));
  answer.stream() << text;
}

void write_loss(const RunReport& report, std::size_t row, Answer& answer) {
  std::ostream& out = answer.stream();
  const std::optional<Loss>& loss = report.losses[row];
  if (!loss) {
    out << fmt::format("\nloss of row {}: none, a row of one token predicts nothing\n", row);
    return;
  }
  const std::string windows = report.windows ? fmt::format(", in windows of {}, stride {}",
                                                           report.windows->window, report.windows->stride)
                                             : "";
  out << fmt::format("\nloss of row {}: {:.6f} nats a token over {} tokens{}\n", row, loss->mean,
                     loss->tokens, windows);
  for (const LossBucket& bucket : loss->buckets) {
    const std::string from = bucket.from == INT64_MIN ? "" : std::to_string(bucket.from);
    out << fmt::format("  positions {:>7} - {:<7} {:>9.6f} over {} tokens\n", from, bucket.to, bucket.loss,
                       bucket.tokens);
  }
}

}  // namespace

void write_prompt_text(const RunReport& report, Answer& answer) {
  answer.stream() << answer.style().bold << model_line(report.model) << answer.style().off << '\n';
  if (report.encoder_rows != nullptr) {
    answer.stream() << fmt::format("the encoder reads {} tokens; the decoder's are shown\n",
                                   fmt::join(lengths_of(*report.encoder_rows), " and "));
  }
  const std::size_t width = piece_width(report);
  write_tokens(report, width, answer);
  for (std::size_t row = 0; row < report.rows.size(); ++row) write_next(report, row, width, answer);
  for (std::size_t row = 0; row < report.rows.size() && report.pooled != nullptr; ++row)
    write_vector(report, row, answer);
  if (report.options.loss) {
    for (std::size_t row = 0; row < report.rows.size(); ++row) write_loss(report, row, answer);
  }
  answer.flush();
}

void write_continuation_head(const RunReport& report, std::size_t row, Answer& answer) {
  const Style& style = answer.style();
  const std::string which = report.rows.size() == 1 ? "" : fmt::format(" of row {}", row);
  answer.stream() << fmt::format("\n{}continuation{}{}\n", style.bold, which, style.off);
}

void write_continuation_text(const RunReport& report, std::size_t row, Answer& answer) {
  const RowContinuation& continuation = report.continuations[row];
  if (report.tokenizer == nullptr) {
    answer.stream() << fmt::format("{}\n", fmt::join(continuation.ids, ","));
  } else {
    answer.stream() << printable(continuation.text) << '\n';
  }
}

void write_timing_text(const RunReport& report, Answer& answer) {
  const Timing& timing = report.timing;
  const auto per_second = [](const std::optional<double>& value) {
    return value ? fmt::format(" at {:.0f} tokens/s", *value) : "";
  };
  const std::string generated =
      timing.generated_tokens == 0
          ? ""
          : fmt::format("generated {}{}, ", timing.generated_tokens,
                        per_second(rate(timing.generated_passes, timing.generated_s)));
  const Style& style = answer.style();
  answer.stream() << fmt::format("\n{}prompt {} tokens{}, {}memory {}B, loaded in {:.2f} s{}\n", style.dim,
                                 timing.prompt_tokens,
                                 per_second(rate(timing.prompt_tokens, timing.prompt_s)), generated,
                                 with_unit(static_cast<double>(timing.peak_bytes)), timing.load_s, style.off);
}

}  // namespace locant::cli
