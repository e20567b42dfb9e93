// SPDX-License-Identifier: Apache-2.0
// run() does not allocate: every operator new of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "locant/threads.h"

namespace {
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size) {
  allocations.fetch_add(1);
  void* const block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete[](void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  std::free(block);
}

namespace locant {
namespace {

TEST(Allocation, ForksAllocateNothing) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum{0};
  const auto fork = [&] { pool.run(50, [&](std::int64_t piece) { sum.fetch_add(piece); }); };
  fork();
  const std::int64_t before = allocations.load();
  EXPECT_GT(before, 0);  // the counter counts
  for (int round = 0; round < 100; ++round) fork();
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(sum.load(), 101 * 1225);
}

}  // namespace
}  // namespace locant
