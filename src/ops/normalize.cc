// SPDX-License-Identifier: Apache-2.0
// Norms of rows: rules, then blocks of rows.
#include <algorithm>
#include <cmath>

#include "kernels/normalize.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

void check_norm(const NormCall& call) {
  readable("normalize", "x", call.x);
  if (call.x.extent(1) == 0) fail("normalize: x is {}, expected at least one column", text(call.x));
  has_shape("normalize", "out", call.out, {call.x.shape(), {"tokens", "width"}});
  writable("normalize", "out", call.out);
  if (!call.gain.empty()) vector("normalize", "gain", call.gain, call.x.extent(1), "width");
  if (!call.bias.empty()) vector("normalize", "bias", call.bias, call.x.extent(1), "width");
  if (!std::isfinite(call.eps) || call.eps < 0) fail("normalize: eps is {}, expected 0 or more", call.eps);
  const Extent out = extent_of(call.out);
  if (!same_place(call.x, call.out) && overlap(extent_of(call.x), out))
    fail("normalize: out overlaps x, expected x itself or other memory");
  if (overlap(extent_of(call.gain), out) || overlap(extent_of(call.bias), out))
    fail("normalize: out overlaps gain or bias");
}

}  // namespace

void normalize(const NormCall& call, ThreadPool& pool) {
  check_norm(call);
  const std::int64_t width = call.x.extent(1);
  const std::int64_t rows = std::max<std::int64_t>(1, 16384 / width);
  const auto body = [&](std::int64_t piece) {
    const std::int64_t end = std::min((piece + 1) * rows, call.x.extent(0));
    for (std::int64_t t = piece * rows; t < end; ++t) {
      const kernels::NormRow row{.x = call.x.data_handle() + t * call.x.stride(0),
                                 .gain = call.gain.empty() ? nullptr : call.gain.data_handle(),
                                 .bias = call.bias.empty() ? nullptr : call.bias.data_handle(),
                                 .out = call.out.data_handle() + t * call.out.stride(0),
                                 .count = width,
                                 .eps = call.eps};
      call.kind == NormKind::rms ? kernels::rms_norm(row) : kernels::layer_norm(row);
    }
  };
  run_pieces(pool, ceil_div(call.x.extent(0), rows), call.x.size(), body);
}

}  // namespace locant
