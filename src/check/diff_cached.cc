// SPDX-License-Identifier: Apache-2.0
// What has a key axis: scores, biases and probabilities [B, heads, T, S], and the slots [B, S, ...] of
// caches.
#include <algorithm>
#include <cmath>
#include <map>

#include "check/diff_keys.h"
#include "check/diff_tensors.h"
#include "check/scores.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

/// Columns of a pass of `got`, and back.
struct Keys {
  Columns columns;
  Columns of_token;
};

class KeyAxis {
 public:
  KeyAxis(const Pair& pair, std::size_t pass, const FlowName& name, std::int64_t count)
      : pair_(pair), name_(name), limit_(pair.limit) {
    if (name.cross) {
      limit_.assign(static_cast<std::size_t>(pair.rows), count);
      columns_ = encoder_columns(pair.encoder == nullptr ? nullptr : &pair.encoder->want, pair.rows, count);
    } else {
      columns_ = columns_of(pair.want, pass, name, count);
    }
    of_token_ = inverse(columns_, limit_);
  }
  [[nodiscard]] const std::vector<std::int64_t>& want(std::int64_t row) const {
    return columns_[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] std::int64_t want_column(std::int64_t row, std::int64_t token) const {
    return column(of_token_, row, token);
  }
  /// Of a pass of `got` with so many columns.
  const Keys& got(std::size_t pass, std::int64_t count) {
    auto found = got_.find(pass);
    if (found == got_.end()) {
      Keys keys;
      keys.columns = name_.cross ? encoder_columns(pair_.encoder == nullptr ? nullptr : &pair_.encoder->got,
                                                   pair_.rows, count)
                                 : columns_of(pair_.got, pass, name_, count);
      keys.of_token = inverse(keys.columns, limit_);
      found = got_.emplace(pass, std::move(keys)).first;
    }
    return found->second;
  }
  [[nodiscard]] static std::int64_t column(const Columns& of_token, std::int64_t row, std::int64_t token) {
    const std::vector<std::int64_t>& list = of_token[static_cast<std::size_t>(row)];
    return token < 0 || token >= static_cast<std::int64_t>(list.size())
               ? -1
               : list[static_cast<std::size_t>(token)];
  }

 private:
  const Pair& pair_;
  const FlowName& name_;
  std::vector<std::int64_t> limit_;
  Columns columns_;
  Columns of_token_;
  std::map<std::size_t, Keys> got_;
};

double shown(double score) {
  return score <= kHidden ? -INFINITY : score;
}

bool sees_padding(const std::vector<double>& scores, const std::vector<std::int64_t>& columns) {
  for (std::size_t column = 0; column < columns.size() && column < scores.size(); ++column) {
    if (columns[column] == kPadding && scores[column] > kHidden) return true;
  }
  return false;
}

/// [B, heads, T, S] where each of the first three may be 1.
bool is_scores(const TensorRef& tensor, const Pass& pass) {
  return tensor.rank == 4 && (tensor.shape[0] == 1 || tensor.shape[0] == pass.rows) &&
         (tensor.shape[2] == 1 || tensor.shape[2] == pass.tokens);
}

void read_scores(LineReader& from, std::int64_t row, std::int64_t head, std::int64_t token,
                 std::vector<double>& out) {
  const auto& shape = from.tensor().shape;
  const auto at = [&](std::size_t axis, std::int64_t index) { return shape.at(axis) == 1 ? 0 : index; };
  from.read(((at(0, row) * shape[1] + at(1, head)) * shape[2] + at(2, token)) * shape[3], shape[3], out);
}

}  // namespace

TensorReport TensorComparer::scores(std::size_t pass, const FlowName& name) {
  const Pass& of = pair_.want.pass(pass);
  SideReaders got(pair_.got, name);
  LineReader want(of.find(name.bare));
  const TensorRef& tensor = want.tensor();
  if (!is_scores(tensor, of)) return shapes(pass, name, tensor, any_got(pass, name));
  std::int64_t heads = tensor.shape[1];
  for (std::size_t at = 0; at < pair_.got.trace->passes.size(); ++at) {
    const TensorRef& other = got.tensor(at);
    if (other.data == nullptr) continue;
    const bool fits = is_scores(other, pair_.got.pass(at)) &&
                      (other.shape[1] == heads || other.shape[1] == 1 || heads == 1);
    if (!fits) return shapes(pass, name, tensor, other);
    heads = std::max(heads, other.shape[1]);
  }
  const bool is_bias = name.part == "bias";
  const bool is_score = name.part == "scores";
  // a bias may stand beyond the query where nothing sees it
  const bool past_only = is_bias && !name.cross && pair_.want.trace->stack == Stack::decoder;
  KeyAxis keys(pair_, pass, name, tensor.shape[3]);
  std::vector<double> here;
  std::vector<double> there;
  Lines lines;
  lines.rows = of.rows;
  lines.heads = heads;
  lines.tokens = of.tokens;
  lines.unit = name.part == "probs" ? Unit::largest : Unit::head;
  // softmax takes a constant out, unless a sink stands beside the keys
  lines.centred =
      (is_bias || is_score) && of.find(names::layer(name.layer, names::Layer::sinks)).data == nullptr;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t content = pair_.want.content_of(pass, at.row, at.token);
    if (content == kPadding || content >= pair_.limit[static_cast<std::size_t>(at.row)]) return false;
    const TokenPlace place = *pair_.got.place(at.row, content);
    const TensorRef& other = got.tensor(place.pass);
    if (other.data == nullptr) return false;
    const Keys& other_keys = keys.got(place.pass, other.shape[3]);
    read_scores(want, at.row, at.head, at.token, here);
    read_scores(got.of(place.pass), at.row, at.head, place.token, there);
    const std::vector<std::int64_t>& columns = keys.want(at.row);
    for (std::size_t column = 0; column < columns.size() && column < here.size(); ++column) {
      const std::int64_t key = columns[column];
      if (key == kPadding || (past_only && key > content)) continue;
      const std::int64_t partner = KeyAxis::column(other_keys.of_token, at.row, key);
      const double own = is_score ? shown(here[column]) : here[column];
      if (partner < 0) {
        if (!is_score || !(own > kHidden)) continue;
        a.push_back(own);
        b.push_back(-INFINITY);
        continue;
      }
      const double its = there[static_cast<std::size_t>(partner)];
      a.push_back(own);
      b.push_back(is_score ? shown(its) : its);
    }
    if (!is_score) return true;
    const std::vector<std::int64_t>& others = other_keys.columns[static_cast<std::size_t>(at.row)];
    for (std::size_t column = 0; column < others.size() && column < there.size(); ++column) {
      if (others[column] == kPadding || !(there[column] > kHidden)) continue;
      if (keys.want_column(at.row, others[column]) >= 0) continue;
      if (!name.cross && others[column] >= pair_.limit[static_cast<std::size_t>(at.row)]) continue;
      a.push_back(-INFINITY);
      b.push_back(there[column]);
    }
    const bool want_sees = sees_padding(here, columns);
    const bool got_sees = sees_padding(there, others);
    if (want_sees == got_sees) return true;
    a.push_back(want_sees ? 0 : -INFINITY);
    b.push_back(got_sees ? 0 : -INFINITY);
    return true;
  };
  const double base =
      rounding_budget(name, {.dtype = dtype_of(pass, name), .width = of.tokens, .layers = layers_});
  lines.budget = [&](const LinePlace& at) {
    return base +
           angle_budget(name, std::max<std::int64_t>(0, pair_.want.content_of(pass, at.row, at.token)));
  };
  Found found;
  found.report = check_room::compare(lines);
  found.by_head = heads > 1;
  if (found.report.constants && !found.report.beyond)
    note("scores or biases differ by a constant for each query, which softmax takes out: not counted");
  return report_of(pass, name, found);
}

TensorReport TensorComparer::slots(std::size_t pass, const FlowName& name) {
  const Pass& of = pair_.want.pass(pass);
  SideReaders got(pair_.got, name);
  LineReader want(of.find(name.bare));
  const TensorRef& tensor = want.tensor();
  const auto fits = [&](const TensorRef& one) { return one.rank >= 2 && one.shape[0] == of.rows; };
  const auto width_of = [](const TensorRef& one) {
    std::int64_t width = 1;
    for (std::size_t axis = 2; axis < one.rank; ++axis) width *= one.shape.at(axis);
    return width;
  };
  if (!fits(tensor)) return shapes(pass, name, tensor, any_got(pass, name));
  const std::int64_t width = width_of(tensor);
  for (std::size_t at = 0; at < pair_.got.trace->passes.size(); ++at) {
    const TensorRef& other = got.tensor(at);
    if (other.data != nullptr && (!fits(other) || width_of(other) != width))
      return shapes(pass, name, tensor, other);
  }
  // the pass of `got` that has fed as much of each row as this one
  std::vector<const TokenPlace*> last(static_cast<std::size_t>(of.rows), nullptr);
  for (std::int64_t row = 0; row < of.rows; ++row) {
    for (std::int64_t token = 0; token < of.tokens; ++token) {
      const std::int64_t content = pair_.want.content_of(pass, row, token);
      const auto at = static_cast<std::size_t>(row);
      if (content != kPadding && content < pair_.limit[at]) last[at] = pair_.got.place(row, content);
    }
  }
  const bool heads = has_heads(name) && tensor.rank == 4;
  const std::int64_t head_dim = heads ? tensor.shape[3] : 0;
  KeyAxis keys(pair_, pass, name, tensor.shape[1]);
  applied_.reset();
  Lines lines;
  lines.rows = of.rows;
  lines.tokens = tensor.shape[1];
  lines.unit = is_float(tensor.dtype) ? Unit::line : Unit::one;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::vector<std::int64_t>& columns = keys.want(at.row);
    const TokenPlace* const place = last[static_cast<std::size_t>(at.row)];
    if (place == nullptr || at.token >= static_cast<std::int64_t>(columns.size())) return false;
    const TensorRef& other = got.tensor(place->pass);
    if (other.data == nullptr) return false;
    const std::int64_t token = columns[static_cast<std::size_t>(at.token)];
    const std::int64_t slot = KeyAxis::column(keys.got(place->pass, other.shape[1]).of_token, at.row, token);
    if (slot < 0) return false;
    want.read((at.row * tensor.shape[1] + at.token) * width, width, a);
    got.of(place->pass).read((at.row * other.shape[1] + slot) * width, width, b);
    if (applied_) applied_->apply(b, head_dim);
    return true;
  };
  const bool floats = is_float(tensor.dtype);
  const double base =
      rounding_budget(name, {.dtype = dtype_of(pass, name), .width = width, .layers = layers_});
  lines.budget = [&](const LinePlace& at) {
    if (!floats) return 0.0;
    const std::vector<std::int64_t>& columns = keys.want(at.row);
    const std::int64_t token = at.token < static_cast<std::int64_t>(columns.size())
                                   ? columns[static_cast<std::size_t>(at.token)]
                                   : 0;
    return base + angle_budget(name, std::max<std::int64_t>(0, token));
  };
  Found found;
  found.head_dim = head_dim;
  found.report =
      heads && name.part == "cache.k" ? in_either_order(name, lines, head_dim) : check_room::compare(lines);
  return report_of(pass, name, found);
}

}  // namespace locant::check_room
