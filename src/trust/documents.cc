// SPDX-License-Identifier: Apache-2.0
#include "trust/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trust/numbers.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kApart = 4;        // the gap between two spans is a quarter of a span
constexpr std::int64_t kLeastApart = 32;  // tokens

std::int64_t gap_of(std::int64_t span) {
  return std::max(span / kApart, kLeastApart);
}

/// Spans of `span` tokens that a text of `tokens` gives.
std::int64_t spans_in(std::int64_t tokens, std::int64_t span) {
  if (tokens < span) return 0;
  return (tokens + gap_of(span)) / (span + gap_of(span));
}

std::int64_t size_of(const TrustDocument& text) {
  return static_cast<std::int64_t>(text.ids.size());
}

/// Tokens that a window of `length` needs of a text: the last one is a target only.
std::int64_t needed(std::int64_t length, std::int64_t lead) {
  return length - lead + 1;
}

std::int64_t count_at(const CutQuery& query, std::int64_t length) {
  std::int64_t count = 0;
  for (const TrustDocument& text : *query.texts) count += spans_in(size_of(text), needed(length, query.lead));
  return count;
}

void shuffle(std::vector<Ids>& all, Chance& chance) {
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[static_cast<std::size_t>(chance.below(static_cast<std::int64_t>(i)))]);
}

}  // namespace

std::vector<std::int64_t> length_grid(const StaticTrust& facts, std::int64_t to) {
  std::set<std::int64_t> lengths;
  for (std::int64_t power = kShortest; power <= to; power *= 2) {
    lengths.insert(power);
    if (power + power / 2 <= to) lengths.insert(power + power / 2);
  }
  for (const std::optional<std::int64_t>& stated : {facts.trained.tokens, facts.declared.tokens}) {
    if (stated && *stated >= kShortest && *stated <= to) lengths.insert(*stated);
  }
  if (to >= kShortest) lengths.insert(to);
  return {lengths.begin(), lengths.end()};
}

namespace {

/// Texts that repeat another are no further evidence.
std::vector<TrustDocument> distinct_texts(const std::vector<TrustDocument>& texts) {
  std::set<Ids> seen;
  std::vector<TrustDocument> distinct;
  for (const TrustDocument& text : texts) {
    if (seen.insert(text.ids).second) distinct.push_back(text);
  }
  if (texts.size() > 1 && distinct.size() == 1)
    throw SpecError(fmt::format("trust: documents must differ, all {} are the same", texts.size()));
  return distinct;
}

}  // namespace

Documents cut_documents(const CutQuery& asked) {
  const std::vector<TrustDocument> texts = distinct_texts(*asked.texts);
  CutQuery query = asked;
  query.texts = &texts;
  std::int64_t longest_text = 0;
  for (const TrustDocument& text : *query.texts) longest_text = std::max(longest_text, size_of(text));
  const std::int64_t shortest = needed(query.lengths.front(), query.lead);
  if (longest_text < shortest)
    throw SpecError(
        fmt::format("trust: the shortest window needs a text of {} tokens, the longest given has {}",
                    shortest, longest_text));
  if (count_at(query, query.lengths.front()) < kLeastDocuments)
    throw SpecError(fmt::format("trust: an interval needs {} documents of {} tokens, the texts give {}",
                                kLeastDocuments, shortest, count_at(query, query.lengths.front())));
  Documents documents;
  for (const std::int64_t length : query.lengths) {
    if (count_at(query, length) >= kLeastDocuments) documents.longest = length;
  }
  const std::int64_t span = needed(documents.longest, query.lead);
  Chance chance(query.seed);
  std::int64_t used = 0;
  for (const TrustDocument& text : *query.texts) {
    const std::int64_t count = spans_in(size_of(text), span);
    if (count == 0) continue;
    ++used;
    // the seed moves where spans begin, inside the tokens that are left over
    const std::int64_t spare = size_of(text) - count * span - (count - 1) * gap_of(span);
    const std::int64_t first = chance.below(spare + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto begin = text.ids.begin() + first + i * (span + gap_of(span));
      documents.ids.emplace_back(begin, begin + span);
    }
  }
  const std::set<Ids> distinct(documents.ids.begin(), documents.ids.end());
  const std::size_t given = documents.ids.size();
  documents.ids.assign(distinct.begin(), distinct.end());
  if (static_cast<std::int64_t>(documents.ids.size()) < kLeastDocuments)
    throw SpecError(fmt::format("trust: an interval needs {} documents that differ, the texts give {}",
                                kLeastDocuments, documents.ids.size()));
  shuffle(documents.ids, chance);
  const std::size_t whole = asked.texts->size();
  const std::string of = static_cast<std::size_t>(used) == whole ? "" : fmt::format(" of {}", whole);
  documents.text =
      fmt::format("{}{} {} {} documents of {} tokens, the spans of one text {} tokens apart", used, of,
                  whole == 1 ? "text gives" : "texts give", documents.ids.size(), span, gap_of(span));
  if (const std::size_t left_out = given - documents.ids.size() + whole - texts.size(); left_out > 0)
    documents.text += fmt::format("; {} that repeat another were left out", left_out);
  return documents;
}

}  // namespace locant::trust_room
