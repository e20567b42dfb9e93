// SPDX-License-Identifier: Apache-2.0
// The rows' vectors begin at cache lines, as the peers' tensors do: 16 bytes behind one, where malloc puts
// large blocks, every load of 64 bytes would touch two lines.
#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t kLine = 64;
}

void* operator new(std::size_t bytes) {
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
  if (void* const at = std::aligned_alloc(kLine, whole == 0 ? kLine : whole)) return at;
  throw std::bad_alloc();
}

void operator delete(void* at) noexcept {
  std::free(at);
}

void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}
