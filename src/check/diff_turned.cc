// SPDX-License-Identifier: Apache-2.0
#include "check/diff_turned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {
namespace {

constexpr std::int64_t kGeometryTokens = 12;

FlowName sibling(const FlowName& name, std::string_view part) {
  return flow_of(fmt::format("layers.{}.{}.{}", name.layer, name.cross ? "cross" : "attn", part));
}

/// The last tokens alone.
Tensor tail_of(const Tensor& tensor, Pass& pass) {
  const std::int64_t tokens = tensor.before.extent(1);
  const std::int64_t kept = std::min(tokens, kGeometryTokens);
  const auto from =
      static_cast<std::ptrdiff_t>((tokens - kept) * tensor.before.extent(2) * tensor.before.extent(3));
  Tensor tail{tensor.word, tensor.name, {}, {}};
  for (auto [of, to] : {std::pair(&tensor.before, &tail.before), std::pair(&tensor.after, &tail.after)}) {
    to->shape = {1, kept, of->extent(2), of->extent(3)};
    to->dtype = of->dtype;
    to->data.assign(of->data.begin() + from, of->data.end());
  }
  pass.rows = 1;
  pass.tokens = kept;
  pass.content.assign(static_cast<std::size_t>(kept), true);
  return tail;
}

}  // namespace

std::optional<Turned> read_turned(const Suspect& suspect, const Excerpt& excerpt, std::string_view word) {
  const FlowName before = sibling(suspect.name, fmt::format("{}_pre", word));
  const FlowName after = sibling(suspect.name, word);
  const auto read = [&](const Side& side, bool ordered) -> std::optional<Tensor> {
    const auto order = [&](const FlowName& name) {
      return ordered ? suspect.comparer.order_of(name) : std::optional<ChannelOrder>();
    };
    std::optional<Values> in = values_in(side, excerpt, before, order(before));
    std::optional<Values> out = values_in(side, excerpt, after, order(after));
    if (!in || !out || in->shape.size() != 4 || in->shape != out->shape) return std::nullopt;
    return Tensor{word, after.bare, std::move(*in), std::move(*out)};
  };
  std::optional<Tensor> want = read(suspect.pair.want, false);
  std::optional<Tensor> got = read(suspect.pair.got, true);
  if (!want || !got || want->before.shape != got->before.shape) return std::nullopt;
  return Turned{std::move(*want), std::move(*got)};
}

std::optional<Geometry> geometry_seen(const Tensor& whole, double allowed) {
  if (whole.before.extent(2) < 2) return std::nullopt;
  Pass pass;
  const Tensor tensor = tail_of(whole, pass);
  const std::int64_t head_dim = tensor.before.extent(3);
  for (std::int64_t width = 2; width <= head_dim; width += 2) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t offset : {std::int64_t{0}, head_dim - width}) {
        const Geometry geometry{pairing, pairing, offset, width, 0};
        if (turns_of(pass, tensor.before, tensor.after, geometry).misfit <= allowed) return geometry;
        if (width == head_dim) break;
      }
    }
  }
  return std::nullopt;
}

bool stands(const Tensor& tensor, double allowed) {
  double left = 0;
  double total = 0;
  for (std::size_t i = 0; i < tensor.before.data.size(); ++i) {
    const double away =
        static_cast<double>(tensor.after.data[i]) - static_cast<double>(tensor.before.data[i]);
    left += away * away;
    total += static_cast<double>(tensor.before.data[i]) * static_cast<double>(tensor.before.data[i]);
  }
  return std::sqrt(left) <= allowed * std::sqrt(total);
}

}  // namespace locant::check_room
