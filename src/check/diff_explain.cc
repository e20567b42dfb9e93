// SPDX-License-Identifier: Apache-2.0
#include "check/diff_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/diff_table.h"
#include "check/embedding.h"
#include "core/narrow.h"

namespace locant::check_room {
namespace {

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kMostValues = 4LL << 20;  // of one tensor that is looked at

struct Sample {
  std::vector<double> want;
  std::vector<double> got;
  std::int64_t tokens = 0;
};

/// Lines of the suspect in both traces.
std::optional<Sample> sample_of(const Suspect& suspect) {
  const bool table = suspect.name.axes == Axes::table;
  const std::int64_t width =
      std::max<std::int64_t>(1, suspect.pair.want.pass(suspect.pass).find(suspect.name.bare).size() /
                                    std::max<std::int64_t>(1, suspect.pair.want.pass(suspect.pass).tokens));
  const Excerpt excerpt = excerpt_of(suspect, std::clamp<std::int64_t>(kMostValues / width, 1, kTokens));
  const auto read = [&](const Side& side, const std::optional<ChannelOrder>& order) {
    return table ? table_in(side, excerpt, suspect.name) : values_in(side, excerpt, suspect.name, order);
  };
  const std::optional<Values> want = read(suspect.pair.want, {});
  const std::optional<Values> got = read(suspect.pair.got, suspect.comparer.order_of(suspect.name));
  if (!want || !got || want->data.size() != got->data.size()) return std::nullopt;
  Sample sample;
  sample.tokens = excerpt.count();
  for (std::size_t i = 0; i < want->data.size(); ++i) {
    sample.want.push_back(static_cast<double>(want->data[i]));
    sample.got.push_back(static_cast<double>(got->data[i]));
  }
  return sample;
}

double relative(double left, double total) {
  return total > 0 ? std::sqrt(std::max(0.0, left) / total) : 0;
}

void add_rounded(const Sample& sample, double allowed, std::vector<Hypothesis>& causes) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool of_got : {true, false}) {
      double left = 0;
      double total = 0;
      for (std::size_t i = 0; i < sample.want.size(); ++i) {
        const double from = of_got ? sample.want[i] : sample.got[i];
        const double to = of_got ? sample.got[i] : sample.want[i];
        const double away = to - static_cast<double>(narrowed(static_cast<float>(from), dtype));
        left += away * away;
        total += to * to;
      }
      causes.push_back(
          {fmt::format("{} is rounded to {}", of_got ? "the second" : "the first", name_of(dtype)),
           {},
           relative(left, total),
           allowed});
    }
  }
}

/// A few values differ and the rest do not.
void add_few(const Sample& sample, double allowed, std::vector<Hypothesis>& causes) {
  double left = 0;
  double total = 0;
  for (const double value : sample.want) total += value * value;
  const double size = std::sqrt(total / static_cast<double>(sample.want.size()));
  std::size_t few = 0;
  for (std::size_t i = 0; i < sample.want.size(); ++i) {
    const double away = distance(sample.want[i], sample.got[i]);
    if (away > 4 * allowed * size) {
      ++few;
    } else {
      left += away * away;
    }
  }
  if (few == 0 || 50 * few > sample.want.size()) return;
  causes.push_back({fmt::format("{} of {} values differ, the others do not", few, sample.want.size()),
                    {{"values", static_cast<double>(few)}},
                    relative(left, total),
                    allowed});
}

constexpr std::string_view kNoise = "no structure";

bool is_noise(const Hypothesis& one) {
  return one.cause.starts_with(kNoise);
}

/// Every token is off by about the same share of its size.
void add_noise(const Sample& sample, double allowed, std::vector<Hypothesis>& causes) {
  const std::size_t width =
      sample.want.size() / static_cast<std::size_t>(std::max<std::int64_t>(sample.tokens, 1));
  double least = INFINITY;
  double most = 0;
  double left = 0;
  double total = 0;
  for (std::size_t begin = 0; begin + width <= sample.want.size() && width > 0; begin += width) {
    double line_left = 0;
    double line_total = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      line_left += (sample.got[i] - sample.want[i]) * (sample.got[i] - sample.want[i]);
      line_total += sample.want[i] * sample.want[i];
    }
    least = std::min(least, relative(line_left, line_total));
    most = std::max(most, relative(line_left, line_total));
    left += line_left;
    total += line_total;
  }
  const double share = relative(left, total);
  if (sample.tokens < 2 || least < share / 4 || most > 4 * share || share > 0.2) return;
  causes.push_back({fmt::format("{}: every token is off by about {:.2g} of its size, as narrower storage or "
                                "arithmetic leaves it",
                                kNoise, share),
                    {{"share", share}},
                    share,
                    allowed});
}

}  // namespace

std::vector<Hypothesis> plain_causes(const Suspect& suspect) {
  std::vector<Hypothesis> causes;
  const std::optional<Sample> sample = sample_of(suspect);
  if (!sample || sample->want.empty()) return causes;
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(sample->got.begin(), sample->got.end(), finite)) {
    const auto bad =
        std::count_if(sample->got.begin(), sample->got.end(), [&](double value) { return !finite(value); });
    return {{fmt::format("{} of {} values of the second are not finite", bad, sample->got.size()), {}, 0, 0}};
  }
  if (!std::all_of(sample->want.begin(), sample->want.end(), finite)) return causes;
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < sample->want.size(); ++i) {
    xx += sample->want[i] * sample->want[i];
    xy += sample->want[i] * sample->got[i];
    yy += sample->got[i] * sample->got[i];
  }
  const double allowed = 4 * half_step(suspect.dtype);
  if (yy == 0 && xx > 0) return {{"the second is all zeros", {}, 0, allowed}};
  const FactorFit like = likeness_from(xx, xy, yy);
  if (like.residual < 0.5 && std::abs(like.factor - 1) > allowed)
    causes.push_back({fmt::format("the second is {:.6g} times the first", like.factor),
                      {{"factor", like.factor}},
                      like.residual,
                      allowed});
  add_few(*sample, allowed, causes);
  add_rounded(*sample, std::min(allowed, 0x1p-20), causes);
  add_noise(*sample, allowed, causes);
  return causes;
}

Excerpt excerpt_of(const Suspect& suspect, std::int64_t most) {
  Excerpt excerpt;
  excerpt.row = suspect.row;
  const std::int64_t limit = suspect.pair.limit[static_cast<std::size_t>(suspect.row)];
  // mostly what comes before: frequencies are read off tokens that follow each other
  excerpt.begin = std::max<std::int64_t>(0, suspect.content - most * 3 / 4);
  excerpt.end = std::min(limit, excerpt.begin + most);
  excerpt.begin = std::max<std::int64_t>(0, std::min(excerpt.begin, excerpt.end - most));
  Pass& pass = excerpt.pass;
  pass.path = suspect.pair.want.trace->path;
  pass.rows = 1;
  pass.tokens = excerpt.count();
  pass.width = pass.tokens;
  pass.past = {excerpt.begin};
  const auto count = static_cast<std::size_t>(excerpt.count());
  pass.content.assign(count, true);
  pass.columns.assign(count, true);
  for (std::int64_t content = excerpt.begin; content < excerpt.end; ++content) {
    const TokenPlace place = *suspect.pair.want.place(suspect.row, content);
    const Pass& of = suspect.pair.want.pass(place.pass);
    const std::size_t cell = of.at(suspect.row, place.token);
    pass.due.push_back(of.stated_axes == 1               ? of.stated[cell]
                       : of.axes == 1 && !of.due.empty() ? of.due[cell]
                                                         : content);
    pass.seen = of.seen;
  }
  return excerpt;
}

std::optional<Values> values_in(const Side& side, const Excerpt& excerpt, const FlowName& name,
                                const std::optional<ChannelOrder>& order) {
  Values values;
  std::vector<double> line;
  for (std::int64_t content = excerpt.begin; content < excerpt.end; ++content) {
    const TokenPlace* const place = side.place(excerpt.row, content);
    if (place == nullptr) return std::nullopt;
    const Pass& pass = side.pass(place->pass);
    LineReader reader(pass.find(name.bare));
    const TensorRef& tensor = reader.tensor();
    if (tensor.data == nullptr || tensor.rank < 3 || tensor.shape[0] != pass.rows ||
        tensor.shape[1] != pass.tokens)
      return std::nullopt;
    std::vector<std::int64_t> shape{1, excerpt.count()};
    std::int64_t width = 1;
    for (std::size_t axis = 2; axis < tensor.rank; ++axis) {
      shape.push_back(tensor.shape.at(axis));
      width *= tensor.shape.at(axis);
    }
    if (!values.shape.empty() && values.shape != shape) return std::nullopt;
    values.shape = std::move(shape);
    values.dtype = tensor.dtype;
    reader.read((excerpt.row * pass.tokens + place->token) * width, width, line);
    if (order && tensor.rank == 4) order->apply(line, tensor.shape[3]);
    for (const double value : line) values.data.push_back(static_cast<float>(value));
  }
  return values;
}

std::optional<Values> table_in(const Side& side, const Excerpt& excerpt, const FlowName& name) {
  Values values;
  std::vector<double> line;
  for (std::int64_t content = excerpt.begin; content < excerpt.end; ++content) {
    const TokenPlace* const place = side.place(excerpt.row, content);
    if (place == nullptr) return std::nullopt;
    const Pass& pass = side.pass(place->pass);
    LineReader reader(pass.find(name.bare));
    if (reader.tensor().data == nullptr) return std::nullopt;
    TableShape shape = table_shape(reader.tensor(), pass);
    if (shape.columns == 0 || shape.axes != 1) return std::nullopt;
    find_repeats(shape, reader, pass);
    read_table(shape, reader, {excerpt.row, 0, place->token}, line);
    if (!values.shape.empty() && values.shape[2] != static_cast<std::int64_t>(line.size()))
      return std::nullopt;
    values.shape = {1, excerpt.count(), static_cast<std::int64_t>(line.size())};
    values.dtype = reader.tensor().dtype;
    for (const double value : line) values.data.push_back(static_cast<float>(value));
  }
  return values;
}

std::vector<Hypothesis> explain_difference(const Suspect& suspect) {
  std::vector<Hypothesis> causes;
  const auto add = [&](std::vector<Hypothesis> more) {
    causes.insert(causes.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  if (std::holds_alternative<std::string>(suspect.first.got)) return causes;  // a shape says it all
  if (suspect.name.axes == Axes::integers || suspect.name.part == "cache.positions") {
    add(integer_causes(suspect));
  } else if (suspect.name.axes == Axes::scores) {
    add(score_causes(suspect));
  } else {
    add(rotation_causes(suspect));
    if (suspect.name.bare.starts_with("embed.")) add(row_causes(suspect));
    add(plain_causes(suspect));
  }
  const auto excess = [](const Hypothesis& one) {
    return one.budget > 0 ? std::max(one.residual / one.budget, 1.0) : one.residual > 0 ? INFINITY : 1.0;
  };
  std::stable_sort(causes.begin(), causes.end(),
                   [&](const Hypothesis& a, const Hypothesis& b) { return excess(a) < excess(b); });
  const auto explains = [&](const Hypothesis& one) { return excess(one) <= 1.0; };
  if (!causes.empty() && explains(causes.front())) {
    std::erase_if(causes, [&](const Hypothesis& one) { return !explains(one) || is_noise(one); });
  }
  constexpr std::size_t kMost = 4;
  if (causes.size() > kMost) causes.resize(kMost);
  return causes;
}

}  // namespace locant::check_room
