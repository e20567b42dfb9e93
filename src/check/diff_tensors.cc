// SPDX-License-Identifier: Apache-2.0
#include "check/diff_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "check/diff_table.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr int kMostTries = 8;         // tensors that are searched for another order of channels
constexpr std::int64_t kSamples = 6;  // tokens of each

std::int64_t width_of(const TensorRef& tensor, std::size_t leading) {
  std::int64_t width = 1;
  for (std::size_t axis = leading; axis < tensor.rank; ++axis) width *= tensor.shape.at(axis);
  return width;
}

bool leads_with(const TensorRef& tensor, std::int64_t rows, std::int64_t tokens) {
  return tensor.rank >= 2 && tensor.shape[0] == rows && tensor.shape[1] == tokens;
}

/// [B, 1, V] of a longer pass: the last column.
bool is_last_only(const TensorRef& tensor, const Pass& pass, const FlowName& name) {
  return name.axes == Axes::last_token && leads_with(tensor, pass.rows, 1) && pass.tokens > 1;
}

std::int64_t column_of(const TensorRef& tensor, const Pass& pass, const FlowName& name, std::int64_t token) {
  if (!is_last_only(tensor, pass, name)) return token;
  return token == pass.tokens - 1 ? 0 : -1;
}

DType coarser(DType a, DType b) {
  if (!is_float(b)) return a;
  return half_step(b) > half_step(a) ? b : a;
}

}  // namespace

SideReaders::SideReaders(const Side& side, const FlowName& name) {
  readers_.reserve(side.trace->passes.size());
  for (const Pass& pass : side.trace->passes) readers_.emplace_back(pass.find(name.bare));
}

TensorComparer::TensorComparer(const Pair& pair, std::vector<std::string>& notes)
    : pair_(pair), notes_(notes) {
  if (pair.want.trace->passes.empty()) return;
  const Pass& first = pair.want.pass(0);
  const auto recorded = [&](names::Layer tensor) {
    return first.find(names::layer(layers_, tensor)).data != nullptr;
  };
  while (recorded(names::Layer::out) || recorded(names::Layer::q)) ++layers_;
}

void TensorComparer::note(const std::string& text) {
  if (said_.insert(text).second) notes_.push_back(text);
}

TensorRef TensorComparer::any_got(std::size_t pass, const FlowName& name) const {
  const Pass& want = pair_.want.pass(pass);
  for (std::int64_t row = 0; row < pair_.rows; ++row) {
    for (std::int64_t token = 0; token < want.tokens; ++token) {
      const std::int64_t content = pair_.want.content_of(pass, row, token);
      if (content == kPadding || content >= pair_.limit[static_cast<std::size_t>(row)]) continue;
      const TokenPlace* const place = pair_.got.place(row, content);
      const TensorRef tensor = place == nullptr ? TensorRef() : pair_.got.pass(place->pass).find(name.bare);
      if (tensor.data != nullptr) return tensor;
    }
  }
  return {};
}

DType TensorComparer::dtype_of(std::size_t pass, const FlowName& name) const {
  const TensorRef want = pair_.want.pass(pass).find(name.bare);
  DType dtype = coarser(DType::f64, want.data != nullptr ? want.dtype : DType::f32);
  const TensorRef got = any_got(pass, name);
  if (got.data != nullptr) dtype = coarser(dtype, got.dtype);
  // tables are made in a dtype of their own, whatever the model runs in
  if (name.axes == Axes::table) return dtype;
  return coarser(coarser(dtype, pair_.want.trace->dtype), pair_.got.trace->dtype);
}

double TensorComparer::budget(const FlowName& name, std::int64_t width, const LinePlace& at,
                              std::size_t pass) const {
  const Pass& want = pair_.want.pass(pass);
  std::int64_t position = 0;
  if (at.row < want.rows && at.token < want.tokens) {
    const std::size_t cell = want.at(at.row, at.token);
    position = std::max<std::int64_t>(0, pair_.want.content_of(pass, at.row, at.token));
    for (std::int64_t axis = 0; axis < want.stated_axes; ++axis)
      position = std::max(position,
                          std::abs(want.stated[static_cast<std::size_t>(axis) * want.content.size() + cell]));
  } else {
    position = want.seen;
  }
  return rounding_budget(name, {.dtype = dtype_of(pass, name), .width = width, .layers = layers_}) +
         angle_budget(name, position);
}

std::optional<ChannelOrder> TensorComparer::order_of(const FlowName& name) const {
  if (!has_heads(name) || name.part == "v" || name.part == "cache.v") return std::nullopt;
  return name.part == "q_pre" || name.part == "k_pre" ? before_ : after_;
}

TensorReport TensorComparer::compare(std::size_t pass, const FlowName& name) {
  switch (name.axes) {
    case Axes::aligned:
      return {};
    case Axes::tokens:
    case Axes::last_token:
      // the keys of cross-attention are the encoder's
      if (name.cross && name.part != "q" && name.part != "q_pre" && name.part != "q_in" &&
          name.part != "attn.out")
        return looks_like_tokens(pass, name) && pair_.same_passes ? tokens(pass, name) : whole(pass, name);
      return tokens(pass, name);
    case Axes::table:
      return table(pass, name);
    case Axes::integers:
      return integers(pass, name);
    case Axes::slots:
      return slots(pass, name);
    case Axes::scores:
      return scores(pass, name);
    case Axes::rows:
    case Axes::whole:
      return whole(pass, name);
    case Axes::unknown:
      break;
  }
  return looks_like_tokens(pass, name) ? tokens(pass, name) : whole(pass, name);
}

bool TensorComparer::looks_like_tokens(std::size_t pass, const FlowName& name) const {
  const Pass& of = pair_.want.pass(pass);
  const TensorRef want = of.find(name.bare);
  const TensorRef got = any_got(pass, name);
  return leads_with(want, of.rows, of.tokens) && got.rank >= 2 && got.shape[0] == of.rows;
}

TensorReport TensorComparer::shapes(std::size_t pass, const FlowName& name, const TensorRef& want,
                                    const TensorRef& got) const {
  Divergence divergence;
  const Pass& of = pair_.want.pass(pass);
  divergence.tensor = of.prefix.substr(names::step_prefix(of.step).size()) + name.bare;
  divergence.step = of.step;
  divergence.want = want.shape_text();
  divergence.got = got.shape_text();
  divergence.difference = INFINITY;
  return {true, divergence};
}

TensorReport TensorComparer::report_of(std::size_t pass, const FlowName& name, const Found& found) const {
  TensorReport out;
  out.compared = found.report.compared > 0;
  if (!found.report.beyond) return out;
  const LineDifference& line = *found.report.beyond;
  Divergence divergence;
  const Pass& of = pair_.want.pass(pass);
  divergence.tensor = of.prefix.substr(names::step_prefix(of.step).size()) + name.bare;
  divergence.step = of.step;
  if (found.by_token) {
    divergence.row = line.place.row;
    divergence.token = line.place.token;
  }
  if (found.by_head) divergence.head = line.place.head;
  if (found.head_dim > 0) divergence.head = static_cast<std::int64_t>(line.element) / found.head_dim;
  divergence.want = line.want;
  divergence.got = line.got;
  divergence.difference = line.largest;
  divergence.budget = line.budget;
  out.divergence = std::move(divergence);
  return out;
}

void TensorComparer::factor(std::size_t pass, const FlowName& name, const LineReport& report,
                            std::int64_t width, TensorReport& out) const {
  if (out.divergence || !out.compared || !name.bare.starts_with("embed.")) return;
  const Pass& of = pair_.want.pass(pass);
  const std::set<std::int64_t> rows(of.ids.begin(), of.ids.end());
  double allowed =
      factor_budget(dtype_of(pass, name),
                    static_cast<double>(width) * static_cast<double>(std::max<std::size_t>(rows.size(), 1)));
  // runs of two dtypes round the constants of a model each in its own
  if (pair_.want.trace->dtype != pair_.got.trace->dtype) allowed += half_step(dtype_of(pass, name));
  if (std::abs(report.factor - 1) <= allowed) return;
  Divergence divergence;
  divergence.tensor = of.prefix.substr(names::step_prefix(of.step).size()) + name.bare;
  divergence.step = of.step;
  divergence.got = report.factor;
  divergence.want = 1.0;
  divergence.difference = std::abs(report.factor - 1);
  divergence.budget = allowed;
  out.divergence = std::move(divergence);
}

LineReport TensorComparer::in_either_order(const FlowName& name, const Lines& lines, std::int64_t head_dim) {
  std::optional<ChannelOrder>& known = name.part == "q_pre" || name.part == "k_pre" ? before_ : after_;
  applied_ = known;
  LineReport report = check_room::compare(lines);
  if (!report.beyond) return report;
  if (known) {
    applied_.reset();
    LineReport plain = check_room::compare(lines);
    if (!plain.beyond) return plain;
    applied_ = known;
    return report;
  }
  if (tries_++ >= kMostTries) return report;
  std::vector<std::vector<double>> want;
  std::vector<std::vector<double>> got;
  double allowed = 0;
  const std::int64_t stride = std::max<std::int64_t>(1, lines.tokens / kSamples);
  for (std::int64_t row = 0; row < lines.rows; ++row) {
    for (std::int64_t token = lines.tokens - 1; token >= 0; token -= stride) {
      std::vector<double> a;
      std::vector<double> b;
      if (!lines.load({row, 0, token}, a, b)) continue;
      allowed = std::max(allowed, lines.budget({row, 0, token}));
      want.push_back(std::move(a));
      got.push_back(std::move(b));
    }
  }
  const std::optional<ChannelOrder> order = channel_order(want, got, head_dim, allowed);
  if (!order) return report;
  applied_ = order;
  LineReport ordered = check_room::compare(lines);
  known = order;
  note(fmt::format("{}: {}; compared in one order", name.part, order->text()));
  return ordered;
}

TensorReport TensorComparer::tokens(std::size_t pass, const FlowName& name) {
  const Pass& of = pair_.want.pass(pass);
  SideReaders got(pair_.got, name);
  LineReader want(of.find(name.bare));
  const TensorRef& tensor = want.tensor();
  if (!leads_with(tensor, of.rows, of.tokens) && !is_last_only(tensor, of, name))
    return shapes(pass, name, tensor, any_got(pass, name));
  const std::int64_t width = width_of(tensor, 2);
  for (std::size_t at = 0; at < pair_.got.trace->passes.size(); ++at) {
    const TensorRef& other = got.tensor(at);
    if (other.data == nullptr) continue;
    const Pass& there = pair_.got.pass(at);
    const bool fits = leads_with(other, there.rows, there.tokens) || is_last_only(other, there, name);
    if (!fits || width_of(other, 2) != width) return shapes(pass, name, tensor, other);
  }
  const bool heads = has_heads(name) && tensor.rank == 4;
  const std::int64_t head_dim = heads ? tensor.shape[3] : 0;
  applied_.reset();
  Lines lines;
  lines.rows = of.rows;
  lines.tokens = of.tokens;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t content = pair_.want.content_of(pass, at.row, at.token);
    const std::int64_t column = column_of(tensor, of, name, at.token);
    if (column < 0 || content == kPadding || content >= pair_.limit[static_cast<std::size_t>(at.row)])
      return false;
    const TokenPlace place = *pair_.got.place(at.row, content);
    const TensorRef& other = got.tensor(place.pass);
    if (other.data == nullptr) return false;
    const std::int64_t there = column_of(other, pair_.got.pass(place.pass), name, place.token);
    if (there < 0) return false;
    want.read((at.row * tensor.shape[1] + column) * width, width, a);
    got.of(place.pass).read((at.row * other.shape[1] + there) * width, width, b);
    if (applied_) applied_->apply(b, head_dim);
    return true;
  };
  const double base =
      rounding_budget(name, {.dtype = dtype_of(pass, name), .width = width, .layers = layers_});
  lines.budget = [&](const LinePlace& at) {
    return base +
           angle_budget(name, std::max<std::int64_t>(0, pair_.want.content_of(pass, at.row, at.token)));
  };
  Found found;
  found.head_dim = head_dim;
  const bool either = heads && name.part != "v";
  found.report = either ? in_either_order(name, lines, head_dim) : check_room::compare(lines);
  TensorReport out = report_of(pass, name, found);
  factor(pass, name, found.report, width, out);
  return out;
}

TensorReport TensorComparer::table(std::size_t pass, const FlowName& name) {
  const Pass& of = pair_.want.pass(pass);
  SideReaders got(pair_.got, name);
  LineReader want(of.find(name.bare));
  TableShape here = table_shape(want.tensor(), of);
  if (here.columns == 0) return shapes(pass, name, want.tensor(), any_got(pass, name));
  find_repeats(here, want, of);
  std::vector<TableShape> there(pair_.got.trace->passes.size());
  for (std::size_t at = 0; at < there.size(); ++at) {
    if (got.tensor(at).data == nullptr) continue;
    there[at] = table_shape(got.tensor(at), pair_.got.pass(at));
    if (there[at].columns == 0) return shapes(pass, name, want.tensor(), got.tensor(at));
    find_repeats(there[at], got.of(at), pair_.got.pass(at));
    if (there[at].axes != here.axes) {
      note(fmt::format("{} is not compared: one trace holds it before the axes of the position are chosen",
                       name.bare));
      return {};
    }
    if (!agree(here, there[at])) return shapes(pass, name, want.tensor(), got.tensor(at));
  }
  Lines lines;
  lines.rows = of.rows;
  lines.heads = here.axes;
  lines.tokens = of.tokens;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t content = pair_.want.content_of(pass, at.row, at.token);
    if (content == kPadding || content >= pair_.limit[static_cast<std::size_t>(at.row)]) return false;
    const TokenPlace place = *pair_.got.place(at.row, content);
    if (got.tensor(place.pass).data == nullptr) return false;
    read_table(here, want, {at.row, at.head, at.token}, a);
    read_table(there[place.pass], got.of(place.pass), {at.row, at.head, place.token}, b);
    return true;
  };
  lines.budget = [&](const LinePlace& at) { return budget(name, 1, at, pass); };
  // cos and sin of one angle are 0.7 in the mean: a line of sines near 0 is as good as one of cosines
  lines.unit = Unit::line;
  return report_of(pass, name, {.report = check_room::compare(lines)});
}

}  // namespace locant::check_room
