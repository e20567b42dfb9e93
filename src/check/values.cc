// SPDX-License-Identifier: Apache-2.0
#include "check/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace locant::check_room {
namespace {

constexpr std::int64_t kWhole = 1 << 17;  // elements of a matrix that is read whole
constexpr std::int64_t kEnds = 16;        // rows at each end of a bigger one
constexpr std::int64_t kBetween = 96;
constexpr std::size_t kProbes = 4;      // rows that a cause is tried on
constexpr std::int64_t kFarthest = 16;  // rows that a table may have slipped by
constexpr double kAlike = 0.1;          // relative: numbers of another tensor, stored in another way
constexpr double kExact = 1e-10;        // squared and relative: f32 after a factor
constexpr double kUnrelated = 0.2;      // correlation

double square(double x) {
  return x * x;
}

/// Rows of one or both parts, one after another.
struct Rows {
  std::vector<float> source;
  std::vector<float> made;
  double rounding = 0;
};

class Explainer {
 public:
  explicit Explainer(const CauseQuery& query)
      : pair_(*query.pair),
        due_(*query.due),
        likeness_(*query.likeness),
        others_(*query.others),
        columns_(pair_.made.columns) {
    const std::vector<std::int64_t>& rows = likeness_.differing;
    const std::size_t count = columns_ < 8 ? rows.size() : std::min(rows.size(), kProbes);
    for (std::size_t i = 0; i < count; ++i) probes_.push_back(rows[(2 * i + 1) * rows.size() / (2 * count)]);
    for (const std::int64_t row : probes_) {
      append(pair_.made, pair_.made.split.stored(row), made_);
      append(pair_.source, due_(row), source_);
    }
    for (std::size_t i = 0; i < made_.size(); ++i) {
      source_[i] += static_cast<float>(pair_.plus);
      made_size_ += square(made_[i]);
      source_size_ += square(source_[i]);
      product_ += static_cast<double>(made_[i]) * static_cast<double>(source_[i]);
    }
    const double own = made_size_ > 0 ? left_by(source_) : 0;
    enough_ = std::max(kSlack * square(likeness_.rounding), kExact);
    // another place is named where it explains far more than the due one
    elsewhere_ = std::min(std::max(enough_, square(kAlike)), own / 4);
  }

  ValueCause explain() {
    if (!std::isfinite(made_size_)) return plain("holds numbers that are not finite");
    if (!std::isfinite(source_size_)) return plain("stands for numbers of the source that are not finite");
    if (pair_.plus != 0) {
      if (const auto cause = moved()) return *cause;
    }
    if (made_size_ <= 0) return plain("is all zero");
    if (source_size_ <= 0) return plain("is not zero as in the source");
    for (const auto& cause : {scaled(), moved(), shifted(), transposed(), fused(), another()}) {
      if (cause) return *cause;
    }
    const double alike = product_ / std::sqrt(made_size_ * source_size_);
    // few numbers are alike by chance
    if (std::abs(alike) < std::max(kUnrelated, 3 / std::sqrt(static_cast<double>(made_.size()))))
      return {"has no relation to that of the source", {{"correlation", alike}}, likeness_.residual};
    return {fmt::format("differs by {:.2g} of its size (correlation {:.4f})", likeness_.residual, alike),
            {{"correlation", alike}},
            likeness_.residual};
  }

 private:
  ValueCause plain(std::string text) const { return {std::move(text), {}, likeness_.residual}; }

  void append(const Part& part, std::int64_t stored_row, std::vector<float>& out) const {
    out.resize(out.size() + static_cast<std::size_t>(columns_));
    part.read_stored(stored_row, 0, columns_, out.data() + out.size() - static_cast<std::size_t>(columns_));
  }

  /// What `candidate` leaves of the made rows, in squares over their size.
  [[nodiscard]] double left_by(const std::vector<float>& candidate) const {
    double sum = 0;
    for (std::size_t i = 0; i < made_.size(); ++i)
      sum += square(static_cast<double>(made_[i]) - static_cast<double>(candidate[i]));
    return sum / made_size_;
  }

  std::optional<ValueCause> scaled() const {
    const double factor = product_ / source_size_;
    double sum = 0;
    for (std::size_t i = 0; i < made_.size(); ++i)
      sum += square(static_cast<double>(made_[i]) - factor * static_cast<double>(source_[i]));
    if (sum / made_size_ > enough_ || made_.size() < 3) return std::nullopt;
    const double root = std::sqrt(static_cast<double>(columns_));
    std::string text = fmt::format("is that of the source times {:.6g}", factor);
    if (columns_ > 1 && std::abs(factor - root) < 1e-3 * root) text += " (the root of its width)";
    return ValueCause{text, {{"factor", factor}}, std::sqrt(sum / made_size_)};
  }

  std::optional<ValueCause> moved() const {
    if (made_.size() < 3) return std::nullopt;
    double mean = 0;
    for (std::size_t i = 0; i < made_.size(); ++i)
      mean += static_cast<double>(made_[i]) - static_cast<double>(source_[i]);
    mean /= static_cast<double>(made_.size());
    double sum = 0;
    for (std::size_t i = 0; i < made_.size(); ++i)
      sum += square(static_cast<double>(made_[i]) - static_cast<double>(source_[i]) - mean);
    if (sum > enough_ * std::max(made_size_, source_size_)) return std::nullopt;
    const double plus = mean + pair_.plus;
    std::string text = std::abs(plus) < 1e-6 ? std::string("is that of the source")
                                             : fmt::format("is that of the source plus {:.6g}", plus);
    if (pair_.plus != 0) text += fmt::format(" where plus {:g} is due", pair_.plus);
    return ValueCause{text, {{"plus", plus}}, std::sqrt(sum / std::max(made_size_, source_size_))};
  }

  std::optional<ValueCause> shifted() const {
    if (columns_ < 2) return std::nullopt;
    for (std::int64_t rows = 1; rows <= kFarthest; ++rows) {
      for (const std::int64_t shift : {rows, -rows}) {
        std::vector<float> candidate;
        bool inside = true;
        for (const std::int64_t row : probes_) {
          const std::int64_t at = row + shift;
          inside = inside && at >= 0 && at < pair_.source.rows;
          if (!inside) break;
          append(pair_.source, pair_.source.split.stored(at), candidate);
        }
        if (!inside || left_by(candidate) > elsewhere_) continue;
        return ValueCause{fmt::format("holds the row {} {} further {} of the source in each row", rows,
                                      rows == 1 ? "row" : "rows", shift > 0 ? "down" : "up"),
                          {{"rows", static_cast<double>(shift)}},
                          std::sqrt(left_by(candidate))};
      }
    }
    return std::nullopt;
  }

  std::optional<ValueCause> transposed() const {
    const Part& source = pair_.source;
    if (source.rows != source.columns || columns_ < 2 || source.fusion != Fusion::none) return std::nullopt;
    std::vector<float> candidate;
    std::vector<float> one(1);
    for (const std::int64_t row : probes_) {
      for (std::int64_t i = 0; i < columns_; ++i) {
        source.read(i, row, 1, one.data());
        candidate.push_back(one[0]);
      }
    }
    if (left_by(candidate) > elsewhere_) return std::nullopt;
    return ValueCause{"is that of the source transposed", {}, std::sqrt(left_by(candidate))};
  }

  /// q, k or v cut out of a fused tensor in another way.
  std::optional<ValueCause> fused() const {
    const Part& source = pair_.source;
    if (source.fusion == Fusion::none) return std::nullopt;
    const std::string_view role = source.place.role;
    const std::int64_t part = role == "attn_q" ? 0 : role == "attn_k" ? 1 : 2;
    for (const Fusion fusion : {Fusion::thirds, Fusion::per_head, Fusion::grouped}) {
      if (fusion == source.fusion) continue;
      if (fusion == Fusion::per_head && source.fused.heads != source.fused.kv_heads) continue;
      const Split split = split_of(fusion, source.fused, part);
      std::vector<float> candidate;
      for (const std::int64_t row : probes_) append(source, split.stored(row), candidate);
      if (left_by(candidate) > elsewhere_) continue;
      return ValueCause{fmt::format("is cut out of the fused tensor of the source {} where {} is due",
                                    words(fusion), words(source.fusion)),
                        {},
                        std::sqrt(left_by(candidate)),
                        true};
    }
    return std::nullopt;
  }

  static std::string_view words(Fusion fusion) {
    switch (fusion) {
      case Fusion::per_head:
        return "head by head";
      case Fusion::grouped:
        return "group of heads by group of heads";
      default:
        return "one after another";
    }
  }

  std::optional<ValueCause> another() const {
    if (columns_ < 2 && pair_.made.rows < 8) return std::nullopt;
    const Part* best = nullptr;
    double least = elsewhere_;
    for (const Part& other : others_) {
      if (other.rows != pair_.made.rows || other.columns != columns_ || !other.weight->readable()) continue;
      if (other.weight == pair_.source.weight && other.split.first == pair_.source.split.first) continue;
      const Split& own = pair_.source.split;
      const bool alike = other.split.first == own.first && other.split.run == own.run &&
                         other.place.role == pair_.source.place.role;
      std::vector<float> candidate;
      for (const std::int64_t row : probes_)
        append(other, alike ? due_(row) : other.split.stored(row), candidate);
      const double left = left_by(candidate);
      if (left < least) {
        least = left;
        best = &other;
      }
    }
    if (best == nullptr) return std::nullopt;
    const auto at = layered(best->weight->name());
    const bool beside = at && best->place.layer >= 0 && best->place.layer == pair_.source.place.layer;
    const std::string name = beside ? fmt::format("{} of that layer", at->behind) : best->weight->name();
    const bool same_role = !best->place.role.empty() && best->place.role == pair_.source.place.role;
    return ValueCause{same_role && best->place.layer >= 0
                          ? fmt::format("holds what the source has in layer {}", best->place.layer)
                          : "holds what the source has as " + name,
                      {},
                      std::sqrt(least),
                      false,
                      best->weight->name()};
  }

  const PartPair& pair_;
  const DueRow& due_;
  const Likeness& likeness_;
  const std::vector<Part>& others_;
  std::int64_t columns_;
  std::vector<std::int64_t> probes_;
  std::vector<float> source_;
  std::vector<float> made_;
  double made_size_ = 0;
  double source_size_ = 0;
  double product_ = 0;
  double enough_ = 0;     ///< squares over those of the made rows: what storage explains
  double elsewhere_ = 0;  ///< likewise, of numbers that come from another place
};

}  // namespace

std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> sample;
  if (rows * columns <= kWhole || rows <= 2 * kEnds + kBetween) {
    for (std::int64_t row = 0; row < rows; ++row) sample.push_back(row);
    return sample;
  }
  for (std::int64_t row = 0; row < kEnds; ++row) sample.push_back(row);
  const std::int64_t inner = rows - 2 * kEnds;
  for (std::int64_t i = 0; i < kBetween; ++i) sample.push_back(kEnds + inner * i / kBetween);
  for (std::int64_t row = rows - kEnds; row < rows; ++row) sample.push_back(row);
  return sample;
}

Likeness compare(const PartPair& pair, const DueRow& due) {
  Likeness likeness;
  const std::int64_t columns = std::min(pair.source.columns, pair.made.columns);
  const std::int64_t rows = std::min(pair.source.rows, pair.made.rows);
  std::vector<float> source(static_cast<std::size_t>(columns));
  std::vector<float> made(source.size());
  double left = 0;
  double rounding = 0;
  double size = 0;
  for (const std::int64_t row : sample_rows(rows, columns)) {
    const std::int64_t from = due(row);
    const std::int64_t to = pair.made.split.stored(row);
    pair.source.read_stored(from, 0, columns, source.data());
    pair.made.read_stored(to, 0, columns, made.data());
    double difference = 0;
    double energy = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const double want = static_cast<double>(source[i]) + pair.plus;
      difference += square(static_cast<double>(made[i]) - want);
      energy += square(want) + square(made[i]);
    }
    // adding rounds once more, in f32
    const double explained = pair.source.rounding(from, 0, columns, source.data()) +
                             pair.made.rounding(to, 0, columns, made.data()) +
                             (pair.plus != 0 ? energy * 0x1p-48 : 0);
    ++likeness.looked;
    if (std::isfinite(energy) && difference <= kSlack * explained) continue;
    likeness.differing.push_back(row);
    left += difference;
    rounding += explained;
    size += energy / 2;
  }
  if (size > 0) {
    likeness.residual = std::sqrt(left / size);
    likeness.rounding = std::sqrt(rounding / size);
  }
  return likeness;
}

ValueCause explain_values(const CauseQuery& query) {
  return Explainer(query).explain();
}

}  // namespace locant::check_room
