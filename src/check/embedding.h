// SPDX-License-Identifier: Apache-2.0
// What the rules about embeddings and the head share: states of a pass, likeness.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "check/book.h"
#include "check/curves.h"
#include "check/matrix.h"

namespace locant::check_room {

struct FactorFit {
  double factor = 0;    ///< least-squares factor on the rows
  double residual = 1;  ///< relative root mean square that it leaves
};

/// Of y against factor * x, by the sums of x x, x y and y y; no likeness where one of them is all zero.
[[nodiscard]] FactorFit likeness_from(double xx, double xy, double yy);

/// One number of each token of content, row after row, where `due` is to be.
template <class Of>
[[nodiscard]] Curve token_curve(const Pass& pass, std::string name, std::string y_label, double due,
                                const Of& of) {
  Curve curve{.name = std::move(name), .x_label = "token, row after row", .y_label = std::move(y_label)};
  for (std::size_t n = 0; n < pass.content.size(); ++n) {
    if (pass.content[n]) add_point(curve, static_cast<double>(n), due, of(n));
  }
  return curve;
}

/// [B, T, width] of a pass, or nothing. Throws FileError for another shape.
[[nodiscard]] std::optional<Values> state_of(const Pass& pass, std::string_view name);
[[nodiscard]] Place place_of(const Trace& trace, const Pass& pass, std::string_view name);

/// Findings about embeddings: the same rule in every pass is one finding.
class EmbeddingBook {
 public:
  explicit EmbeddingBook(Book& book) : book_(book) {}
  void asked(std::string_view rule) { book_.asked(rule); }
  void observe(Observation seen) { book_.observe(std::move(seen)); }
  void add(std::string_view rule, Finding finding, std::string cause = {});

 private:
  Book& book_;
  std::set<std::string> said_;
};

/// The row of the position table, or of the sinusoid, that each token was given.
void check_position_rows(const Evidence& evidence, const Trace& trace, const Pass& pass, EmbeddingBook& book);
/// logits = scale * head . final_norm.out, capped; judged on a sample of vocabulary rows.
void check_head(const Evidence& evidence, const Trace& trace, const Pass& pass, EmbeddingBook& book);

}  // namespace locant::check_room
