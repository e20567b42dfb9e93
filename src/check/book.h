// SPDX-License-Identifier: Apache-2.0
// What the rules write down while they look: findings, which rules had their evidence, and the positions that
// tensors turned out to stand for.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/evidence.h"
#include "check/ladder.h"
#include "locant/check.h"

namespace locant::check_room {

/// How early in the flow of data a finding stands; of two with one cause the earlier explains the later.
enum class Depth : std::uint8_t {
  config,
  weights,
  positions,
  tables,
  rotation,
  embedding,
  scores,
  behaviour,  ///< of a live runtime: one row in one call
  called,     ///< likewise: call after call, or several rows
  composed,   ///< likewise: chunks, forks, uneven rows
  padded      ///< likewise: padding between tokens
};

struct Draft {
  Finding finding;
  Depth depth = Depth::rotation;
  std::string cause;  ///< equal for findings of one cause; empty = its own
};

/// Positions that one tensor of one pass stands for.
struct Observation {
  std::string source;  ///< "position_ids", "q of layer 3", "embed.positions"
  std::string tensor;  ///< its name in the trace, with the step
  const Trace* trace = nullptr;
  const Pass* pass = nullptr;
  std::int64_t layer = -1;
  std::int64_t axes = 1;
  std::vector<std::int64_t> positions;  ///< [axes, B, T]; kUnknown where not told
};
inline constexpr std::int64_t kUnknown = INT64_MIN;

class Book {
 public:
  void asked(std::string_view id) { asked_.emplace(id); }
  [[nodiscard]] bool was_asked(std::string_view id) const { return asked_.contains(id); }
  /// Why a rule cannot be asked, where its page says it too generally.
  void lacks(std::string_view id, std::string what) {
    lacks_.insert_or_assign(std::string(id), std::move(what));
  }
  /// Empty where lacks() said nothing.
  [[nodiscard]] std::string lacking(std::string_view id) const {
    const auto found = lacks_.find(id);
    return found == lacks_.end() ? std::string() : found->second;
  }
  /// Marks the rule as asked as well.
  void add(std::string_view id, Depth depth, Finding finding, std::string cause = {});
  void observe(Observation observation) { observations_.push_back(std::move(observation)); }

  /// What explained one tensor of a trace is tried first on the others.
  void found(const Trace& trace, const Ladder& ladder);
  [[nodiscard]] std::vector<Ladder> found_in(const Trace& trace) const;

  [[nodiscard]] std::vector<Draft>& drafts() noexcept { return drafts_; }
  [[nodiscard]] const std::vector<Observation>& observations() const noexcept { return observations_; }

 private:
  std::set<std::string, std::less<>> asked_;
  std::map<std::string, std::string, std::less<>> lacks_;
  std::vector<Draft> drafts_;
  std::vector<Observation> observations_;
  std::vector<std::pair<const Trace*, Ladder>> found_;
};

void check_config(const Evidence& evidence, Book& book);
void check_weights(const Evidence& evidence, Book& book);
/// The weights alone, of either format.
void check_layers(const CheckQuery& query, Book& book);
/// MODEL beside OTHER.
void check_conversion(const CheckQuery& query, Book& book);
void check_tables(const Evidence& evidence, Book& book);
/// Lists and tables that a runtime dumped as it keeps them.
void check_dumped(const Evidence& evidence, Book& book);
void check_rotation(const Evidence& evidence, Book& book);
void check_scores(const Evidence& evidence, Book& book);
void check_embedding(const Evidence& evidence, Book& book);
/// After the others: it judges what they observed, too.
void check_positions(const Evidence& evidence, Book& book);
void check_finite(const Evidence& evidence, Book& book);
/// Needs no model.
void check_pooled(const Evidence& evidence, Book& book);
void check_cache(const Evidence& evidence, Book& book);
/// Traces of several processes beside each other.
void check_ranks(const Evidence& evidence, Book& book);

/// Drives query.runtime through the rules of family M; without one nothing is asked.
void check_live(const CheckQuery& query, const Evidence& evidence, Book& book);

/// Whether a query selects a rule and does not ignore it.
[[nodiscard]] bool chosen(const Rule& rule, const CheckQuery& query);

/// "layer 3", "layers 0 to 5", "layers 0, 2 and 5".
[[nodiscard]] std::string layers_text(const std::vector<std::int64_t>& layers);

}  // namespace locant::check_room
