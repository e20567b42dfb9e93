// SPDX-License-Identifier: Apache-2.0
// Behind the head: the logarithm of the sum of exponentials, the best candidates, the first value not finite.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/scan.h"
#include "locant/ops.h"
#include "ops/candidates.h"
#include "ops/check.h"

namespace locant {
namespace {

constexpr std::int64_t kRun = 1024;

// Calls visit(first index, pointer, count) with contiguous runs; strided logits go through a buffer.
template <class Visit>
void each_run(const View<const float, 1>& x, Visit visit) {
  const std::int64_t n = x.extent(0);
  if (x.stride(0) == 1) {
    visit(std::int64_t{0}, x.data_handle(), n);
    return;
  }
  float buffer[kRun];
  for (std::int64_t first = 0; first < n; first += kRun) {
    const std::int64_t count = std::min(kRun, n - first);
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = x(first + i);
    visit(first, static_cast<const float*>(buffer), count);
  }
}

}  // namespace

double log_sum_exp(View<const float, 1> logits) noexcept {
  if (logits.extent(0) <= 0) return -std::numeric_limits<double>::infinity();
  float top = -std::numeric_limits<float>::infinity();
  each_run(logits, [&](std::int64_t, const float* x, std::int64_t count) {
    top = std::max(top, kernels::maximum(x, count));
  });
  // An infinite maximum would be subtracted from itself; 0 and 1 keep NaN visible and the others in range.
  const bool infinite = std::isinf(top);
  double sum = 0;
  each_run(logits, [&](std::int64_t, const float* x, std::int64_t count) {
    sum += kernels::sum_exp(x, count, infinite ? 0.0f : top);
  });
  return infinite ? std::log(sum) : static_cast<double>(top) + std::log(sum);
}

std::size_t top_candidates(View<const float, 1> logits, std::span<Candidate> out) noexcept {
  if (out.empty() || logits.extent(0) <= 0) return 0;
  BestCandidates best(out);
  each_run(logits,
           [&](std::int64_t first, const float* x, std::int64_t count) { best.offer(first, x, count); });
  best.sort();
  return best.held();
}

std::optional<std::int64_t> first_non_finite(const TensorRef& tensor) {
  const DType dtype = tensor.dtype;
  if (!is_float(dtype))
    check_ops::fail("first_non_finite: a tensor is {}, expected f64, f32, f16 or bf16", name_of(dtype));
  const std::int64_t size = tensor.size();
  if (size <= 0) return std::nullopt;
  if (tensor.data == nullptr)
    check_ops::fail("first_non_finite: a tensor is {} without data", tensor.shape_text());
  const auto* bytes = static_cast<const std::byte*>(tensor.data);
  const std::size_t item = size_of(dtype);
  if (tensor.rank == 0 || tensor.is_contiguous()) {
    const std::int64_t found = kernels::first_non_finite(bytes, dtype, size);
    return found < size ? std::optional(found) : std::nullopt;
  }
  const std::size_t last = tensor.rank - 1;
  const std::int64_t count = tensor.shape[last];
  const auto step = static_cast<std::int64_t>(item);
  for (std::int64_t row = 0; row < size / count; ++row) {
    std::int64_t offset = 0;
    std::int64_t rest = row;
    for (std::size_t axis = last; axis-- > 0; rest /= tensor.shape[axis]) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
    }
    const std::byte* at = bytes + offset * step;
    if (tensor.strides[last] == 1) {
      const std::int64_t found = kernels::first_non_finite(at, dtype, count);
      if (found < count) return row * count + found;
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (kernels::first_non_finite(at + i * tensor.strides[last] * step, dtype, 1) == 0)
        return row * count + i;
    }
  }
  return std::nullopt;
}

}  // namespace locant
