// SPDX-License-Identifier: Apache-2.0
// W: the embedding, the head and the position table among the weights: there, of the rows that the config
// gives, tied as it says, and filled with something that was trained.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "check/book.h"
#include "check/matrix.h"

namespace locant::check_room {
namespace {

/// The tensor of a head that stands beside the embedding, whatever the config says of a tie.
std::optional<Matrix> head_in(const Evidence& evidence, std::int64_t columns) {
  if (!evidence.weights) return std::nullopt;
  for (const char* const ending : {"lm_head.weight", "embed_out.weight", "output_layer.weight"}) {
    for (const StoredTensor& stored : evidence.weights->tensors()) {
      if (stored.name.ends_with(ending) && stored.tensor.rank == 2 && stored.tensor.shape[1] == columns &&
          is_float(stored.tensor.dtype))
        return Matrix(stored);
    }
  }
  return std::nullopt;
}

bool same_bytes(const Matrix& a, const Matrix& b) {
  const TensorRef& one = a.stored().tensor;
  const TensorRef& two = b.stored().tensor;
  if (one.dtype != two.dtype || one.shape != two.shape) return false;
  return std::memcmp(one.data, two.data, static_cast<std::size_t>(one.size()) * size_of(one.dtype)) == 0;
}

/// Whether every element is the same number.
bool is_constant(const Matrix& matrix) {
  const float first = matrix.row(0)[0];
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    const std::vector<float> values = matrix.row(row);
    if (std::any_of(values.begin(), values.end(), [&](float value) { return value != first; })) return false;
  }
  return true;
}

class WeightRules {
 public:
  WeightRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    const ModelSpec& spec = *evidence_.spec;
    if (const auto table = matrix_named(evidence_, evidence_.facts->embedding.tensor)) {
      check_rows(*table, spec);
      check_head(*table, spec);
    }
    check_positions(spec);
  }

 private:
  void add(std::string_view rule, const Matrix& matrix, std::string message, Fact expected, Fact observed) {
    Finding finding;
    finding.severity = find_rule(rule).severity;
    finding.message = std::move(message);
    finding.where.file = matrix.stored().path;
    finding.where.tensor = matrix.name();
    finding.expected = std::move(expected);
    finding.observed = std::move(observed);
    book_.add(rule, Depth::weights, std::move(finding), std::string(rule) + matrix.name());
  }

  /// More rows than the vocabulary are padding, which heads cut off; fewer are a fault.
  void check_rows(const Matrix& table, const ModelSpec& spec) {
    if (spec.vocab < 1) return;
    book_.asked("W101");
    if (table.rows() >= spec.vocab) return;
    add("W101", table,
        fmt::format("{} has {} rows, the vocabulary of the config has {}", table.name(), table.rows(),
                    spec.vocab),
        static_cast<double>(spec.vocab), static_cast<double>(table.rows()));
  }

  void check_head(const Matrix& table, const ModelSpec& spec) {
    const std::optional<Matrix> head = head_in(evidence_, table.columns());
    const bool tied = spec.head.tied;  // what the config says, not what a runtime makes of it
    book_.asked("W102");
    if (!head) return;
    book_.asked("W103");
    if (tied && !same_bytes(table, *head)) {
      add("W103", *head,
          fmt::format("{} says the head is tied, but {} is in the file and differs from {}",
                      spec.head.tied_key.empty() ? "the family" : spec.head.tied_key, head->name(),
                      table.name()),
          table.name(), head->name());
    }
    if (is_constant(*head)) {
      add("W102", *head, fmt::format("every element of {} is {}", head->name(), head->row(0)[0]),
          std::string("trained rows"), static_cast<double>(head->row(0)[0]));
    }
  }

  void check_positions(const ModelSpec& spec) {
    for (const PositionEmbedding& embedding : plan(spec.positions, *evidence_.recipe, {}).embedding) {
      if (embedding.form != EmbeddingForm::table || embedding.rows == 0) continue;
      const std::vector<Matrix> tables = position_tables(evidence_, embedding.width, spec.positions.stack);
      if (tables.empty()) continue;
      book_.asked("W104");
      const auto fits = [&](const Matrix& table) { return table.rows() == embedding.rows; };
      if (std::any_of(tables.begin(), tables.end(), fits)) continue;
      const Matrix& table = tables.front();
      add("W104", table,
          fmt::format("{} has {} rows where the plan's table has {} (offset {})", table.name(), table.rows(),
                      embedding.rows, embedding.offset),
          static_cast<double>(embedding.rows), static_cast<double>(table.rows()));
    }
  }

  const Evidence& evidence_;
  Book& book_;
};

}  // namespace

void check_weights(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr || !evidence.weights) return;
  WeightRules(evidence, book).run();
}

}  // namespace locant::check_room
