// SPDX-License-Identifier: Apache-2.0
#include "cli/feeding.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/models.h"

namespace locant::cli {

OpenedTokenizer tokenizer_for(const Prompt& prompt, const std::string& model, Host& host,
                              std::vector<Note>& notes) {
  try {
    return host.open_tokenizer(model);
  } catch (const FileError& error) {
    if (!prompt.texts.empty()) throw;
    notes.push_back({.text = fmt::format("pieces are left out: {}", error.what())});
    return {};
  }
}

Rows encode(std::string_view command, Prompt prompt, const OpenedTokenizer& tokenizer) {
  Rows rows = std::move(prompt.ids);
  if (!prompt.texts.empty() && !tokenizer.why_not.empty()) throw SpecError(tokenizer.why_not);
  for (const std::string& text : prompt.texts) rows.push_back(tokenizer.tokenizer->encode(text));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].empty())
      throw SpecError(fmt::format("{}: a prompt needs a token, row {} is empty", command, row));
  }
  return rows;
}

std::vector<std::int64_t> lengths_of(const Rows& rows) {
  std::vector<std::int64_t> lengths;
  for (const auto& row : rows) lengths.push_back(static_cast<std::int64_t>(row.size()));
  return lengths;
}

void require_positions_in_tables(const Model& model, const RowPositions& positions, std::int64_t more) {
  for (const PositionEmbedding& embedding : model.plan().embedding) {
    if (embedding.form != EmbeddingForm::table) continue;
    for (const auto& row : positions.rows) {
      const auto [least, most] = std::minmax_element(row.front().begin(), row.front().end());
      (void)table_row(embedding, *least);
      (void)table_row(embedding, *most + more);
    }
  }
}

std::int64_t feed_rows(Session& session, const Rows& rows, const RowPositions& positions,
                       const LogitsReader& reader) {
  const FlatRows flat(rows);
  const std::vector<std::int64_t> at =
      positions.explicit_ids ? positions.concatenated() : std::vector<std::int64_t>{};
  FeedCall call = flat.call();
  call.positions = at;
  call.axes = positions.axes;
  session.feed(call, LogitsOf::all, reader);
  return static_cast<std::int64_t>(flat.ids.size());
}

FlatRows::FlatRows(const Rows& rows) : lengths(lengths_of(rows)) {
  for (const auto& row : rows) ids.insert(ids.end(), row.begin(), row.end());
}

FeedCall FlatRows::call() const {
  FeedCall call;
  call.ids = ids;
  call.row_tokens = lengths;
  return call;
}

Tracing::Tracing(const std::string& path, const std::string& name, const Model& model) {
  if (path.empty()) return;
  TraceOptions trace;
  trace.producer = fmt::format("locant {}", version());
  trace.model = name;
  if (model.is_bidirectional() && !model.has_encoder()) trace.stack = "encoder";
  writer_.emplace(path, std::move(trace));
}

void Tracing::attach(Session& session, Padding padding) {
  if (writer_) session.set_trace(&*writer_, padding);
}

void Tracing::finish(Session& session) {
  session.set_trace(nullptr);
  if (writer_) writer_->finish();
}

}  // namespace locant::cli
