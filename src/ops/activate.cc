// SPDX-License-Identifier: Apache-2.0
// Activations, plain and gated: rules, then blocks of rows.
#include <algorithm>

#include "kernels/activate.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

kernels::Curve curve(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return kernels::Curve::silu;
    case Activation::gelu_erf:
      return kernels::Curve::gelu_erf;
    case Activation::gelu_tanh:
      return kernels::Curve::gelu_tanh;
    case Activation::relu:
      break;
    case Activation::relu_squared:
      return kernels::Curve::relu_squared;
    case Activation::quick_gelu:
      return kernels::Curve::quick_gelu;
    case Activation::tanh:
      return kernels::Curve::tanh;
    case Activation::clamped_swiglu:
      break;  // no curve of one number
  }
  return kernels::Curve::relu;
}

bool apart_or_same(const View<const float, 2>& in, const View<float, 2>& out) {
  return same_place(in, out) || !overlap(extent_of(in), extent_of(out));
}

void check_activate(const ActivateCall& call) {
  readable("activate", "x", call.x);
  has_shape("activate", "out", call.out, {call.x.shape(), {"tokens", "width"}});
  writable("activate", "out", call.out);
  if (!apart_or_same(call.x, call.out)) fail("activate: out overlaps x, expected x itself or other memory");
  if (call.activation == Activation::clamped_swiglu) {
    if (!(call.limit > 0)) fail("activate: limit is {}, expected above 0", call.limit);
    if (call.up.empty() && !call.x.empty()) fail("activate: clamped_swiglu needs up");
  }
  if (call.up.data_handle() == nullptr) {
    if (!call.up.empty()) fail("activate: up is {} without data", text(call.up));
    return;
  }
  has_shape("activate", "up", call.up, {call.x.shape(), {"tokens", "width"}});
  readable("activate", "up", call.up);
  if (!apart_or_same(call.up, call.out))
    fail("activate: out overlaps up, expected up itself or other memory");
}

}  // namespace

void activate(const ActivateCall& call, ThreadPool& pool) {
  check_activate(call);
  if (call.x.empty()) return;
  // A row is cut too: one token of a wide layer is still shared work.
  constexpr std::int64_t kColumns = 4096;
  const std::int64_t width = call.x.extent(1);
  const std::int64_t cuts = ceil_div(width, kColumns);
  const auto body = [&](std::int64_t piece) {
    const std::int64_t t = piece / cuts;
    const std::int64_t first = piece % cuts * kColumns;
    const float* up =
        call.up.data_handle() == nullptr ? nullptr : call.up.data_handle() + t * call.up.stride(0) + first;
    const float* x = call.x.data_handle() + t * call.x.stride(0) + first;
    float* out = call.out.data_handle() + t * call.out.stride(0) + first;
    const std::int64_t count = std::min(kColumns, width - first);
    if (call.activation == Activation::clamped_swiglu) {
      kernels::clamped_swiglu(x, up, call.limit, count, out);
    } else {
      kernels::activate(curve(call.activation), x, up, count, out);
    }
  };
  run_pieces(pool, call.x.extent(0) * cuts, 4 * call.x.size(), body);
}

}  // namespace locant
