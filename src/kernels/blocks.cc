// SPDX-License-Identifier: Apache-2.0
// Rows of blocks to f32: a span is unpacked to whole numbers and scales, then multiplied out.
#include "kernels/blocks.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/blocks.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/blocks-inl.h"
#include "kernels/lookup-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// write(i, values) for every vector of the row's values.
template <class Write>
HWY_INLINE void each_of_row(const RowAt& row, GgmlType type, std::int64_t count, Write write) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row.at);
  constexpr auto kMost = static_cast<std::int64_t>(kSpan);
  const std::int64_t step = kMost / block_elements(type) * block_bytes(type);
  Span span;
  with_groups(type, [&](auto groups) HWY_ATTR {
    for (std::int64_t done = 0; done < count; done += kMost, bytes += step) {
      const std::int64_t part = HWY_MIN(count - done, kMost);
      const std::int64_t ends = part / block_elements(type) * block_bytes(type);
      const auto first = index(done / kMost * step);
      for (std::int64_t at = 0; at < ends; at += kLine) ask_next(row, first + index(at));
      unpack(type, bytes, index(part), span);
      each_value<decltype(groups)>(span, index(part),
                                   [&](std::size_t i, V values) HWY_ATTR { write(index(done) + i, values); });
    }
  });
}

void ReadBlocks(const RowsBlock& b, GgmlType type) {
  const F d;
  const V f = hn::Set(d, b.scale);
  each_row(b, b.width / block_elements(type) * block_bytes(type),
           [&](const RowAt& row, float* out, auto stores) HWY_ATTR {
             each_of_row(row, type, b.width, [&](std::size_t i, V values) HWY_ATTR {
               put_row<stores()>(hn::Mul(values, f), out + i);
             });
           });
}

void AddBlocks(const void* row, GgmlType type, std::int64_t count, float* out) {
  const F d;
  const RowAt at{static_cast<const std::byte*>(row), nullptr};
  each_of_row(at, type, count, [&](std::size_t i, V values) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, out + i), values), d, out + i);
  });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
bool is_unpacked(GgmlType type) noexcept {
  switch (type) {
    case GgmlType::q4_0:
    case GgmlType::q4_1:
    case GgmlType::q5_0:
    case GgmlType::q5_1:
    case GgmlType::q8_0:
    case GgmlType::q2_k:
    case GgmlType::q3_k:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
    case GgmlType::q6_k:
    case GgmlType::iq4_nl:
    case GgmlType::iq4_xs:
    case GgmlType::mxfp4:
      return true;
    default:
      return false;
  }
}
HWY_EXPORT(ReadBlocks);
HWY_EXPORT(AddBlocks);
void read_blocks(const RowsBlock& block, GgmlType type) noexcept {
  HWY_DYNAMIC_DISPATCH(ReadBlocks)(block, type);
}
void add_blocks(const void* row, GgmlType type, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AddBlocks)(row, type, count, out);
}
}  // namespace locant::kernels
#endif
