// SPDX-License-Identifier: Apache-2.0
// Scores that differ: scale and slopes of each side, fitted on its own q and k (score = scale q.k + slope
// (key - query) + a constant per query); keys that one side alone sees; a factor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/diff_explain.h"
#include "check/diff_keys.h"
#include "check/embedding.h"
#include "check/scores.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr std::int64_t kMostProducts = 1LL << 27;
constexpr std::int64_t kQueries = 128;

FlowName tensor_of(const Suspect& suspect, names::Layer tensor) {
  return flow_of(names::layer(suspect.name.layer, tensor));
}

/// One query of one side: its scores, and the token that each column stands for.
struct Query {
  std::vector<double> scores;
  std::vector<std::int64_t> keys;
};

/// Reads scores of the suspect's row.
class ScoreReader {
 public:
  ScoreReader(const Suspect& suspect, const Side& side) : suspect_(suspect), side_(side) {}

  std::optional<Query> read(std::int64_t content, std::int64_t head) {
    const TokenPlace* const place = side_.place(suspect_.row, content);
    if (place == nullptr) return std::nullopt;
    open(place->pass);
    const TensorRef& tensor = reader_->tensor();
    if (tensor.data == nullptr || tensor.rank != 4) return std::nullopt;
    const auto& shape = tensor.shape;
    const auto at = [&](std::size_t axis, std::int64_t index) { return shape.at(axis) == 1 ? 0 : index; };
    Query query;
    reader_->read(
        ((at(0, suspect_.row) * shape[1] + at(1, head)) * shape[2] + at(2, place->token)) * shape[3],
        shape[3], query.scores);
    query.keys = columns_[static_cast<std::size_t>(suspect_.row)];
    query.keys.resize(query.scores.size(), kPadding);
    return query;
  }
  [[nodiscard]] std::int64_t heads(std::int64_t content) {
    const TokenPlace* const place = side_.place(suspect_.row, content);
    if (place == nullptr) return 0;
    open(place->pass);
    return reader_->tensor().rank == 4 ? reader_->tensor().shape[1] : 0;
  }

 private:
  void open(std::size_t pass) {
    if (reader_ && pass_ == pass) return;
    reader_.reset();
    reader_.emplace(side_.pass(pass).find(suspect_.name.bare));
    pass_ = pass;
    const TensorRef& tensor = reader_->tensor();
    columns_ = tensor.rank == 4 ? columns_of(side_, pass, suspect_.name, tensor.shape[3]) : Columns();
  }

  const Suspect& suspect_;
  const Side& side_;
  std::optional<LineReader> reader_;
  std::size_t pass_ = 0;
  Columns columns_;
};

/// Scale and slope of each head of one side.
std::vector<HeadFit> fits_of(const Suspect& suspect, const Side& side, std::int64_t begin, std::int64_t end) {
  ScoreReader scores(suspect, side);
  const std::int64_t heads = scores.heads(begin);
  Excerpt excerpt;
  excerpt.row = suspect.row;
  excerpt.begin = 0;
  excerpt.end = end;
  const auto read = [&](names::Layer in, names::Layer plain) {
    std::optional<Values> values = values_in(side, excerpt, tensor_of(suspect, in), {});
    return values ? values : values_in(side, excerpt, tensor_of(suspect, plain), {});
  };
  const std::optional<Values> q = read(names::Layer::q_in, names::Layer::q);
  const std::optional<Values> k = read(names::Layer::k_in, names::Layer::k);
  if (!q || !k || q->shape.size() != 4 || k->shape.size() != 4 || q->extent(3) != k->extent(3) ||
      heads == 0 || q->extent(2) != heads || k->extent(2) == 0 || heads % k->extent(2) != 0)
    return {};
  const std::int64_t width = q->extent(3);
  const std::int64_t group = heads / k->extent(2);
  std::vector<HeadFit> fits;
  for (std::int64_t head = 0; head < heads; ++head) {
    Sums sums;
    for (std::int64_t content = begin; content < end; ++content) {
      const std::optional<Query> query = scores.read(content, head);
      if (!query) continue;
      std::vector<double> x;
      std::vector<double> d;
      std::vector<double> s;
      for (std::size_t column = 0; column < query->keys.size(); ++column) {
        const std::int64_t key = query->keys[column];
        if (key == kPadding || key >= end || !(query->scores[column] > kHidden)) continue;
        const float* const a = q->data.data() + (content * heads + head) * width;
        const float* const b = k->data.data() + (key * k->extent(2) + head / group) * width;
        double product = 0;
        for (std::int64_t i = 0; i < width; ++i)
          product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        x.push_back(product);
        d.push_back(static_cast<double>(key - content));
        s.push_back(query->scores[column]);
      }
      const auto centre = [](std::vector<double>& values) {
        double mean = 0;
        for (const double value : values) mean += value / static_cast<double>(values.size());
        for (double& value : values) value -= mean;
      };
      centre(x);
      centre(d);
      centre(s);
      for (std::size_t i = 0; i < x.size(); ++i) {
        sums.xx += x[i] * x[i];
        sums.xd += x[i] * d[i];
        sums.dd += d[i] * d[i];
        sums.xs += x[i] * s[i];
        sums.ds += d[i] * s[i];
        sums.ss += s[i] * s[i];
        ++sums.count;
      }
    }
    fits.push_back(solve(sums));
  }
  return fits;
}

double mean_scale(const std::vector<HeadFit>& fits) {
  double sum = 0;
  for (const HeadFit& fit : fits) sum += fit.scale;
  return sum / static_cast<double>(fits.size());
}

void add_fits(const Suspect& suspect, std::vector<Hypothesis>& causes) {
  const Pass& pass = suspect.pair.want.pass(suspect.pass);
  const TensorRef q = pass.find(tensor_of(suspect, names::Layer::q).bare);
  const std::int64_t limit = suspect.pair.limit[static_cast<std::size_t>(suspect.row)];
  const std::int64_t per_query =
      std::max<std::int64_t>(1, q.size() / std::max<std::int64_t>(1, pass.rows * pass.tokens)) * limit;
  const std::int64_t queries =
      std::clamp<std::int64_t>(kMostProducts / std::max<std::int64_t>(per_query, 1), 4, kQueries);
  const std::int64_t begin = std::max<std::int64_t>(0, suspect.content - queries / 2);
  const std::int64_t end = std::min(limit, begin + queries);
  const std::vector<HeadFit> want = fits_of(suspect, suspect.pair.want, begin, end);
  const std::vector<HeadFit> got = fits_of(suspect, suspect.pair.got, begin, end);
  if (want.empty() || want.size() != got.size()) return;
  double left = 0;
  double error = 0;
  std::vector<double> slopes;
  std::vector<double> due;
  for (std::size_t head = 0; head < want.size(); ++head) {
    if (!want[head].solved || !got[head].solved) return;
    left = std::max(left, got[head].residual);
    error = std::max({error, want[head].scale_error, got[head].scale_error});
    slopes.push_back(got[head].slope);
    due.push_back(want[head].slope);
  }
  const double allowed = std::max(0x1p-12, 16 * half_step(suspect.dtype));
  const double scale = mean_scale(got);
  const double scale_due = mean_scale(want);
  if (std::abs(scale - scale_due) > std::max(allowed * std::abs(scale_due), 8 * error)) {
    causes.push_back({fmt::format("q.k is multiplied by {:.6g} where {:.6g} is due, {:.6g} times as much",
                                  scale, scale_due, scale / scale_due),
                      {{"scale", scale}},
                      left,
                      allowed});
  }
  double largest = 0;
  double apart = 0;
  for (std::size_t head = 0; head < due.size(); ++head) {
    largest = std::max({largest, std::abs(due[head]), std::abs(slopes[head])});
    apart = std::max(apart, std::abs(slopes[head] - due[head]));
  }
  // a slope that matters moves scores by more than rounding over the keys that are seen
  if (largest > 0 && apart > 0.01 * largest && largest * want[0].distance > allowed * want[0].scores) {
    const auto head = static_cast<std::size_t>(
        std::max_element(due.begin(), due.end(),
                         [&](const double& a, const double& b) {
                           return std::abs(slopes[static_cast<std::size_t>(&a - due.data())] - a) <
                                  std::abs(slopes[static_cast<std::size_t>(&b - due.data())] - b);
                         }) -
        due.begin());
    const bool none_due =
        std::all_of(due.begin(), due.end(), [&](double slope) { return std::abs(slope) <= 0.01 * largest; });
    causes.push_back(
        {fmt::format("{}; head {}: {:.5g} per token where {:.5g} is due",
                     none_due ? "slopes are added where none are due" : slopes_text(slopes, due, 0.02), head,
                     slopes[head], due[head]),
         {{"slope", slopes[head]}},
         left,
         allowed});
  }
}

/// Keys that one side sees and the other hides.
struct Unequal {
  std::int64_t count = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t nearest = INT64_MAX;  ///< distances that differ
  std::int64_t farthest = INT64_MIN;
  std::int64_t farthest_both = INT64_MIN;  ///< of keys that both see
  bool future = false;
  bool got_sees = false;
  bool one_way = true;
};

Unequal unequal_keys(const Suspect& suspect) {
  Unequal found;
  ScoreReader want(suspect, suspect.pair.want);
  ScoreReader got(suspect, suspect.pair.got);
  const std::int64_t limit = suspect.pair.limit[static_cast<std::size_t>(suspect.row)];
  const std::int64_t begin = std::max<std::int64_t>(0, suspect.content - kQueries / 4);
  const std::int64_t end = std::min(limit, suspect.content + 2 * kQueries);
  const std::int64_t head = suspect.first.head.value_or(0);
  for (std::int64_t content = begin; content < end; ++content) {
    const std::optional<Query> a = want.read(content, head);
    const std::optional<Query> b = got.read(content, head);
    if (!a || !b) continue;
    std::vector<int> seen(static_cast<std::size_t>(limit), 0);
    for (const auto& [query, bit] : {std::pair(&*a, 1), std::pair(&*b, 2)}) {
      for (std::size_t column = 0; column < query->keys.size(); ++column) {
        const std::int64_t key = query->keys[column];
        if (key != kPadding && key < limit && query->scores[column] > kHidden)
          seen[static_cast<std::size_t>(key)] |= bit;
      }
    }
    for (std::int64_t key = 0; key < limit; ++key) {
      const int by = seen[static_cast<std::size_t>(key)];
      const std::int64_t distance = content - key;
      if (by == 3) found.farthest_both = std::max(found.farthest_both, distance);
      if (by != 1 && by != 2) continue;
      if (found.count++ == 0) {
        found.query = content;
        found.key = key;
        found.got_sees = by == 2;
      }
      found.one_way = found.one_way && found.got_sees == (by == 2);
      found.future = found.future || distance < 0;
      found.nearest = std::min(found.nearest, distance);
      found.farthest = std::max(found.farthest, distance);
    }
  }
  return found;
}

void add_masks(const Suspect& suspect, std::vector<Hypothesis>& causes) {
  if (std::isfinite(suspect.first.difference)) return;
  const Unequal keys = unequal_keys(suspect);
  if (keys.count == 0) {
    causes.push_back({"columns of padding are seen in one trace and hidden in the other", {}, 0, 0});
    return;
  }
  std::string text;
  if (keys.future) {
    text = fmt::format("keys behind the query are {}", keys.got_sees ? "seen" : "hidden");
  } else if (keys.one_way && keys.nearest > keys.farthest_both) {
    text = keys.got_sees ? fmt::format("keys farther back are seen: {} tokens where a window of {} is due",
                                       keys.farthest + 1, keys.farthest_both + 1)
                         : fmt::format("a window of {} hides what lies farther back", keys.farthest_both + 1);
  } else {
    text = fmt::format("other keys are {}", keys.got_sees ? "seen" : "hidden");
  }
  causes.push_back({fmt::format("{}; token {} {} key {} of row {}", text, keys.query,
                                keys.got_sees ? "sees" : "does not see", keys.key, suspect.row),
                    {{"window", static_cast<double>(keys.farthest_both + 1)}},
                    0,
                    0});
}

void add_factor(const Suspect& suspect, std::vector<Hypothesis>& causes) {
  ScoreReader want(suspect, suspect.pair.want);
  ScoreReader got(suspect, suspect.pair.got);
  const std::int64_t limit = suspect.pair.limit[static_cast<std::size_t>(suspect.row)];
  const std::int64_t end = std::min(limit, suspect.content + kQueries);
  const std::int64_t head = suspect.first.head.value_or(0);
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::int64_t content = std::max<std::int64_t>(0, suspect.content - kQueries / 2); content < end;
       ++content) {
    const std::optional<Query> a = want.read(content, head);
    const std::optional<Query> b = got.read(content, head);
    if (!a || !b || a->keys != b->keys) continue;
    std::vector<std::pair<double, double>> both;
    double mean_a = 0;
    double mean_b = 0;
    for (std::size_t column = 0; column < a->scores.size(); ++column) {
      if (a->keys[column] == kPadding || !(a->scores[column] > kHidden) || !(b->scores[column] > kHidden))
        continue;
      both.emplace_back(a->scores[column], b->scores[column]);
      mean_a += a->scores[column];
      mean_b += b->scores[column];
    }
    if (both.size() < 2) continue;
    mean_a /= static_cast<double>(both.size());
    mean_b /= static_cast<double>(both.size());
    for (const auto& [x, y] : both) {
      xx += (x - mean_a) * (x - mean_a);
      xy += (x - mean_a) * (y - mean_b);
      yy += (y - mean_b) * (y - mean_b);
    }
  }
  const FactorFit like = likeness_from(xx, xy, yy);
  const double allowed = std::max(0x1p-12, 16 * half_step(suspect.dtype));
  if (xx == 0 || yy == 0 || like.residual > 0.5 || std::abs(like.factor - 1) <= allowed) return;
  causes.push_back({fmt::format("the second is {:.6g} times the first", like.factor),
                    {{"factor", like.factor}},
                    like.residual,
                    allowed});
}

}  // namespace

std::vector<Hypothesis> score_causes(const Suspect& suspect) {
  std::vector<Hypothesis> causes;
  if (suspect.name.cross) return causes;
  if (suspect.name.part == "scores") {
    add_masks(suspect, causes);
    add_fits(suspect, causes);
  }
  add_factor(suspect, causes);
  return causes;
}

}  // namespace locant::check_room
