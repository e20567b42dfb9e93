// SPDX-License-Identifier: Apache-2.0
// Whole numbers ([B, T], [1, T], [axes, B, T]), and tensors that are compared element by element.
#include <algorithm>

#include "check/diff_tensors.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr std::int64_t kPiece = 4096;  // elements of a tensor without lines of its own

}  // namespace

TensorReport TensorComparer::integers(std::size_t pass, const FlowName& name) {
  const Pass& of = pair_.want.pass(pass);
  if (name.bare == names::kCachePosition) {
    // it counts columns: another layout has others
    return pair_.same_passes ? whole(pass, name) : TensorReport();
  }
  SideReaders got(pair_.got, name);
  LineReader want(of.find(name.bare));
  // [axes, B, T], B may be 1
  const auto read = [&](LineReader& from, const Pass& there, std::int64_t row, std::int64_t token,
                        std::vector<double>& out) {
    const TensorRef& tensor = from.tensor();
    const std::int64_t rows = tensor.shape.at(tensor.rank - 2);
    const std::int64_t axes = tensor.rank == 3 ? tensor.shape[0] : 1;
    std::vector<double> one;
    out.clear();
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      from.read((axis * rows + (rows == 1 ? 0 : row)) * there.tokens + token, 1, one);
      out.push_back(one[0]);
    }
  };
  const auto fits = [](const TensorRef& tensor, const Pass& there) {
    return (tensor.rank == 2 || tensor.rank == 3) && tensor.shape.at(tensor.rank - 1) == there.tokens &&
           (tensor.shape.at(tensor.rank - 2) == there.rows || tensor.shape.at(tensor.rank - 2) == 1);
  };
  if (!fits(want.tensor(), of)) return shapes(pass, name, want.tensor(), any_got(pass, name));
  std::vector<double> origin;
  Lines lines;
  lines.rows = of.rows;
  lines.tokens = of.tokens;
  lines.unit = Unit::one;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t content = pair_.want.content_of(pass, at.row, at.token);
    if (content == kPadding || content >= pair_.limit[static_cast<std::size_t>(at.row)]) return false;
    const TokenPlace place = *pair_.got.place(at.row, content);
    const TensorRef& other = got.tensor(place.pass);
    if (other.data == nullptr || !fits(other, pair_.got.pass(place.pass))) return false;
    read(want, of, at.row, at.token, a);
    read(got.of(place.pass), pair_.got.pass(place.pass), at.row, place.token, b);
    // one axis stands for all
    while (a.size() < b.size()) a.push_back(a.front());
    while (b.size() < a.size()) b.push_back(b.front());
    if (name.bare != names::kSegmentIds) return true;
    // documents may be counted from anywhere
    const TokenPlace* const first = pair_.got.place(at.row, 0);
    const TokenPlace* const own = pair_.want.place(at.row, 0);
    if (first->pass != place.pass || own->pass != pass) return true;
    read(want, of, at.row, own->token, origin);
    for (double& value : a) value -= origin[0];
    read(got.of(first->pass), pair_.got.pass(first->pass), at.row, first->token, origin);
    for (double& value : b) value -= origin[0];
    return true;
  };
  lines.budget = [](const LinePlace&) { return 0.0; };
  return report_of(pass, name, {.report = check_room::compare(lines)});
}

TensorReport TensorComparer::whole(std::size_t pass, const FlowName& name) {
  const TensorRef other = any_got(pass, name);
  LineReader want(pair_.want.pass(pass).find(name.bare));
  LineReader got(other);
  const TensorRef& tensor = want.tensor();
  if (other.data == nullptr) return {};
  if (tensor.shape_text() != other.shape_text()) return shapes(pass, name, tensor, other);
  const bool rows = name.axes == Axes::rows;
  const std::int64_t size = tensor.size();
  const std::int64_t piece = rows ? tensor.size() / std::max<std::int64_t>(tensor.shape[0], 1) : kPiece;
  Lines lines;
  lines.rows = 1;
  lines.tokens = piece > 0 ? (size + piece - 1) / piece : 0;
  lines.unit = is_float(tensor.dtype) ? Unit::line : Unit::one;
  lines.load = [&](const LinePlace& at, std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t first = at.token * piece;
    const std::int64_t count = std::min(piece, size - first);
    want.read(first, count, a);
    got.read(first, count, b);
    return true;
  };
  lines.budget = [&](const LinePlace&) {
    return is_float(tensor.dtype) ? budget(name, piece, {INT64_MAX, 0, 0}, pass) : 0.0;
  };
  Found found;
  found.report = check_room::compare(lines);
  found.by_token = false;
  TensorReport out = report_of(pass, name, found);
  if (out.divergence && rows) out.divergence->row = found.report.beyond->place.token;
  return out;
}

}  // namespace locant::check_room
