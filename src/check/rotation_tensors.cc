// SPDX-License-Identifier: Apache-2.0
#include "check/rotation_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {

namespace names = trace_names;

std::optional<Tensor> read_tensor(const Pass& pass, std::int64_t layer, trace_names::Layer before,
                                  trace_names::Layer after, std::string_view word, std::int64_t head_dim) {
  const std::string name = names::layer(layer, after);
  const TensorRef in = pass.find(names::layer(layer, before));
  const TensorRef out = pass.find(name);
  if (in.data == nullptr || out.data == nullptr) return std::nullopt;
  for (const auto* const tensor : {&in, &out}) {
    if (tensor->rank != 4 || tensor->shape[0] != pass.rows || tensor->shape[1] != pass.tokens ||
        tensor->shape[3] != head_dim || tensor->shape[2] != in.shape[2]) {
      throw FileError(pass.path, fmt::format("{}{} is [{},{},heads,{}], got {}", pass.prefix, name, pass.rows,
                                             pass.tokens, head_dim, tensor->shape_text()));
    }
  }
  const std::string what = pass.path + ": " + pass.prefix + name;
  return Tensor{word, pass.prefix + name, values_of(in, what), values_of(out, what)};
}

double misfit_budget(DType dtype) {
  return 8 * unit_roundoff(dtype);
}

std::string geometry_text(const Geometry& geometry) {
  if (geometry.span > 0) {
    return fmt::format("pairs of channels {} to {} with {} to {}", geometry.offset,
                       geometry.offset + geometry.pairs() - 1, geometry.offset + geometry.span,
                       geometry.offset + geometry.span + geometry.pairs() - 1);
  }
  return fmt::format("{} pairs in channels {} to {}", name_of(geometry.read), geometry.offset,
                     geometry.offset + geometry.width - 1);
}

std::vector<Geometry> geometries(const Rotation& planned) {
  const Geometry own = geometry_of(planned);
  std::vector<Geometry> all;
  const auto add = [&](Pairing pairing, std::int64_t offset, std::int64_t width) {
    if (width < 2 || width % 2 != 0 || offset < 0 || offset + width > planned.head_dim) return;
    const Geometry geometry{pairing, pairing, offset, width, 0};
    if (geometry != own && std::find(all.begin(), all.end(), geometry) == all.end()) all.push_back(geometry);
  };
  const Pairing other = planned.read == Pairing::half ? Pairing::interleaved : Pairing::half;
  const std::int64_t head_dim = planned.head_dim;
  if (planned.read == Pairing::half && planned.width < head_dim)
    all.push_back({planned.read, planned.read, 0, planned.width, head_dim / 2});
  const std::int64_t narrower = planned.width * planned.width / head_dim;
  for (const Pairing pairing : {other, planned.read}) add(pairing, planned.offset, planned.width);
  for (const Pairing pairing : {planned.read, other}) {
    add(pairing, 0, head_dim);
    add(pairing, 0, narrower - narrower % 2);
    add(pairing, 0, planned.width);
    add(pairing, head_dim - planned.width, planned.width);
  }
  for (std::int64_t width = 2; width <= head_dim; width += 2) {
    add(planned.read, 0, width);
    add(planned.read, head_dim - width, width);
  }
  return all;
}

std::vector<std::int64_t> unwritten_rows(const Pass& pass, const Rotation& planned, const Tensor& tensor) {
  const std::int64_t heads = tensor.after.extent(2);
  const std::int64_t width = tensor.after.extent(3);
  const auto zero = [&](const Values& values, std::int64_t row) {
    for (std::int64_t cell = row * pass.tokens * heads; cell < (row + 1) * pass.tokens * heads; ++cell) {
      for (std::int64_t channel = planned.offset; channel < planned.offset + planned.width; ++channel) {
        if (values.data[static_cast<std::size_t>(cell * width + channel)] != 0) return false;
      }
    }
    return true;
  };
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    if (zero(tensor.after, row) && !zero(tensor.before, row)) rows.push_back(row);
  }
  return rows;
}

std::int64_t not_finite(const Pass& pass, const Values& values) {
  const std::size_t cell = values.data.size() / pass.content.size();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < values.data.size(); ++i)
    count += pass.content[i / cell] && !std::isfinite(values.data[i]) ? 1 : 0;
  return count;
}

double budget_of_angles(const Pass& pass, const Ladder& ladder) {
  double largest = 0;
  for (const std::int64_t position : pass.due) largest = std::max(largest, static_cast<double>(position));
  return 4 * 0x1p-24 * largest * (ladder.inv_freq.empty() ? 0 : ladder.inv_freq.front());
}

double crossed_residual(const Pass& pass, const Tensor& tensor, const Rotation& planned, const Ladder& ladder,
                        const std::vector<std::int64_t>& due) {
  const Geometry geometry = geometry_of(planned);
  const std::int64_t heads = tensor.before.extent(2);
  const std::int64_t width = tensor.before.extent(3);
  const std::int64_t pairs = geometry.pairs();
  const auto column = [&](std::int64_t channel) {
    return planned.read == Pairing::half ? channel / 2 : channel % pairs;
  };
  double left = 0;
  double total = 0;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      if (!pass.content[pass.at(row, token)]) continue;
      const auto position = static_cast<double>(due[pass.at(row, token)]);
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto base = static_cast<std::size_t>((((row * pass.tokens) + token) * heads + head) * width);
        for (std::int64_t p = 0; p < pairs; ++p) {
          const auto [first, second] = geometry.channels(geometry.read, p);
          const double a = tensor.before.data[base + static_cast<std::size_t>(first)];
          const double b = tensor.before.data[base + static_cast<std::size_t>(second)];
          const double one = ladder.angle(position, column(first - geometry.offset));
          const double two = ladder.angle(position, column(second - geometry.offset));
          const double out_first = tensor.after.data[base + static_cast<std::size_t>(first)];
          const double out_second = tensor.after.data[base + static_cast<std::size_t>(second)];
          left += std::pow(out_first - planned.amplitude * (a * std::cos(one) - b * std::sin(one)), 2) +
                  std::pow(out_second - planned.amplitude * (b * std::cos(two) + a * std::sin(two)), 2);
          total += out_first * out_first + out_second * out_second;
        }
      }
    }
  }
  return total > 0 ? std::sqrt(left / total) : 0;
}

}  // namespace locant::check_room
