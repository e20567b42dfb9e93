// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>

namespace {
std::atomic<std::int64_t> calls{0};
}

#if defined(__GLIBC__)
// The program's own malloc goes before glibc's, which keeps its under these names; operator new calls it.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* at, std::size_t bytes) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(at, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}
#endif

namespace locant::bench {

std::int64_t allocations() noexcept {
#if defined(__GLIBC__)
  return calls.load(std::memory_order_relaxed);
#else
  return -1;
#endif
}

Resident resident() {
  std::int64_t anonymous = 0, file = 0, shared = 0, peak = 0;
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    if (name == "RssAnon:") status >> anonymous;
    if (name == "RssFile:") status >> file;
    if (name == "RssShmem:") status >> shared;
    if (name == "VmHWM:") status >> peak;
  }
  constexpr std::int64_t kUnit = 1024;
  return {anonymous * kUnit, std::max(anonymous, peak - file - shared) * kUnit};
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace locant::bench
