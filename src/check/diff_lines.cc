// SPDX-License-Identifier: Apache-2.0
#include "check/diff_lines.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "core/mapped_file.h"

namespace locant::check_room {
namespace {

constexpr std::int64_t kResident = 8LL << 20;  // bytes of one tensor that may stay mapped

template <class T, class Convert>
void convert_into(std::vector<double>& out, const std::byte* from, const Convert& convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

void read_elements(const TensorRef& tensor, std::int64_t first, std::vector<double>& out) {
  const auto* const from =
      static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(first) * size_of(tensor.dtype);
  const auto plain = [](auto value) { return static_cast<double>(value); };
  const auto narrow = [](auto value) { return static_cast<double>(f32_from(value)); };
  switch (tensor.dtype) {
    case DType::f64:
      return convert_into<double>(out, from, plain);
    case DType::f32:
      return convert_into<float>(out, from, plain);
    case DType::f16:
      return convert_into<Half>(out, from, narrow);
    case DType::bf16:
      return convert_into<BFloat16>(out, from, narrow);
    case DType::i64:
      return convert_into<std::int64_t>(out, from, plain);
    case DType::i32:
      return convert_into<std::int32_t>(out, from, plain);
    case DType::i16:
      return convert_into<std::int16_t>(out, from, plain);
    case DType::i8:
      return convert_into<std::int8_t>(out, from, plain);
    case DType::u8:
    case DType::boolean:
      return convert_into<std::uint8_t>(out, from, plain);
  }
}

struct Line {
  LinePlace place;
  std::int64_t count = 0;
  double size = 0;     ///< root mean square, or the largest
  double largest = 0;  ///< difference
  double ratio = 0;    ///< the largest of difference / max(size, |want|)
};

/// The mean difference of what is finite in both.
double constant_of(const std::vector<double>& want, const std::vector<double>& got) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i]) || !std::isfinite(got[i])) continue;
    sum += got[i] - want[i];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double size_of_line(const std::vector<double>& values, Unit unit) {
  double squares = 0;
  double most = 0;
  std::int64_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    squares += value * value;
    most = std::max(most, std::abs(value));
    ++count;
  }
  if (unit == Unit::largest) return most;
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
}

double quotient(double difference, double unit) {
  if (difference == 0) return 0;
  return unit > 0 ? difference / unit : INFINITY;
}

class Comparison {
 public:
  explicit Comparison(const Lines& lines) : lines_(lines) {}

  LineReport run() {
    LinePlace place;
    for (place.row = 0; place.row < lines_.rows; ++place.row) {
      for (place.head = 0; place.head < lines_.heads; ++place.head) {
        for (place.token = 0; place.token < lines_.tokens; ++place.token) read(place);
      }
    }
    if (xx_ > 0) report_.factor = xy_ / xx_;
    judge();
    return report_;
  }

 private:
  bool load(const LinePlace& place) {
    want_.clear();
    got_.clear();
    return lines_.load(place, want_, got_) && !want_.empty();
  }

  void read(const LinePlace& place) {
    if (!load(place)) return;
    Line line{place, static_cast<std::int64_t>(want_.size()), 0, 0, 0};
    line.size = std::max(size_of_line(want_, lines_.unit), size_of_line(got_, lines_.unit));
    const double constant = lines_.centred ? constant_of(want_, got_) : 0;
    if (constant != 0) constants_.emplace_back(place, std::abs(constant));
    for (std::size_t i = 0; i < want_.size(); ++i) {
      const double away = distance(want_[i], got_[i] - constant);
      line.largest = std::max(line.largest, away);
      const double own = std::isfinite(want_[i]) ? std::abs(want_[i]) : 0;
      line.ratio = std::max(line.ratio, quotient(away, std::max(line.size, own)));
      if (!std::isfinite(want_[i]) || !std::isfinite(got_[i])) continue;
      xx_ += want_[i] * want_[i];
      xy_ += want_[i] * got_[i];
    }
    report_.compared += line.count;
    lines_of_.push_back(line);
  }

  void measure() {
    if (lines_.unit == Unit::line) {
      std::vector<double> sizes;
      sizes.reserve(lines_of_.size());
      for (const Line& line : lines_of_) sizes.push_back(line.size);
      if (sizes.empty()) return;
      const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
      std::nth_element(sizes.begin(), middle, sizes.end());
      middle_ = *middle;
    } else if (lines_.unit == Unit::head) {
      std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, std::int64_t>> sums;
      for (const Line& line : lines_of_) {
        auto& [squares, count] = sums[{line.place.row, line.place.head}];
        squares += line.size * line.size * static_cast<double>(line.count);
        count += line.count;
      }
      for (const auto& [head, sum] : sums)
        heads_[head] = sum.second > 0 ? std::sqrt(sum.first / static_cast<double>(sum.second)) : 0;
    }
  }

  [[nodiscard]] double unit_of(const Line& line) const {
    if (lines_.unit == Unit::one) return 1;
    if (lines_.unit == Unit::head) return heads_.at({line.place.row, line.place.head});
    return lines_.unit == Unit::line ? std::max(line.size, middle_) : line.size;
  }

  /// The largest difference of the line, in its unit.
  [[nodiscard]] double difference(const Line& line) const {
    const double whole = quotient(line.largest, unit_of(line));
    // a value far larger than its neighbours is rounded in steps of its own
    return lines_.unit == Unit::line ? std::min(whole, line.ratio) : whole;
  }

  void judge() {
    measure();
    const Line* first = nullptr;
    double most = 0;
    const auto earlier = [](const Line& a, const Line& b) {
      return std::tuple(a.place.row, a.place.token, a.place.head) <
             std::tuple(b.place.row, b.place.token, b.place.head);
    };
    for (const Line& line : lines_of_) {
      const double is = difference(line);
      most = std::max(most, is);
      if (is <= lines_.budget(line.place)) continue;
      if (first == nullptr || earlier(line, *first)) first = &line;
    }
    for (const auto& [place, constant] : constants_) {
      const double unit = lines_.unit == Unit::head ? heads_.at({place.row, place.head}) : 1;
      report_.constants = report_.constants || quotient(constant, unit) > lines_.budget(place);
    }
    if (first == nullptr) return;
    LineDifference found;
    found.place = first->place;
    found.largest = most;
    found.budget = lines_.budget(first->place);
    locate(*first, found);
    report_.beyond = found;
  }

  /// The first element of the line that is beyond, or its largest difference.
  void locate(const Line& line, LineDifference& found) {
    (void)load(line.place);
    const double constant = lines_.centred ? constant_of(want_, got_) : 0;
    const double unit = unit_of(line);
    double most = -1;
    for (std::size_t i = 0; i < want_.size(); ++i) {
      const double away = distance(want_[i], got_[i] - constant);
      const double own = lines_.unit == Unit::line && std::isfinite(want_[i]) ? std::abs(want_[i]) : 0;
      const double allowed = found.budget * std::max(unit, own);
      // of a line without its constant both ends are off: the one that shows it as recorded
      const bool beyond = away > allowed && distance(want_[i], got_[i]) > allowed;
      if (!beyond && away <= most) continue;
      most = away;
      found.element = i;
      found.want = want_[i];
      found.got = got_[i];
      if (beyond) return;
    }
  }

  const Lines& lines_;
  LineReport report_;
  std::vector<Line> lines_of_;
  std::vector<std::pair<LinePlace, double>> constants_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> heads_;
  double middle_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  std::vector<double> want_;
  std::vector<double> got_;
};

}  // namespace

LineReader::LineReader(LineReader&& other) noexcept
    : tensor_(std::exchange(other.tensor_, TensorRef())), read_(std::exchange(other.read_, 0)) {}

LineReader::~LineReader() {
  if (read_ > 0) release();
}

void LineReader::release() const noexcept {
  if (tensor_.data == nullptr) return;
  release_pages(tensor_.data, tensor_.size() * static_cast<std::int64_t>(size_of(tensor_.dtype)));
}

void LineReader::read(std::int64_t first, std::int64_t count, std::vector<double>& out) {
  out.resize(static_cast<std::size_t>(count));
  read_elements(tensor_, first, out);
  read_ += count * static_cast<std::int64_t>(size_of(tensor_.dtype));
  if (read_ < kResident) return;
  release();
  read_ = 0;
}

double distance(double want, double got) noexcept {
  if (want == got || (std::isnan(want) && std::isnan(got))) return 0;
  if (!std::isfinite(want) || !std::isfinite(got)) return INFINITY;
  return std::abs(got - want);
}

LineReport compare(const Lines& lines) {
  return Comparison(lines).run();
}

}  // namespace locant::check_room
