// SPDX-License-Identifier: Apache-2.0
// Generating a token allocates nothing on the heap: every operator new of this program counts, here and for
// heap.h.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

#include "model/feeding.h"
#include "model/heap.h"

namespace {

std::atomic<long> allocations{0};
std::atomic<std::size_t> largest{0};

void count(std::size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  std::size_t seen = largest.load(std::memory_order_relaxed);
  while (bytes > seen && !largest.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
}

void* counted(std::size_t bytes) {
  count(bytes);
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void* counted(std::size_t bytes, std::align_val_t alignment) {
  count(bytes);
  const auto step = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, alignment);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  count(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept {
  return operator new(bytes, none);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace locant {

std::size_t tests::largest_allocation() noexcept {
  return largest.load();
}
void tests::forget_allocations() noexcept {
  largest.store(0);
}

namespace {

using namespace tests;

class Allocations : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Allocations, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(Allocations, NoneAToken) {
  for (const int threads : {1, 2}) {
    const Loaded loaded(tiny(GetParam()), {}, threads);
    for (const DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
      const auto session = loaded.session(3, 64, cache);
      (void)feed(*session, {some_ids(9, 61), some_ids(30, 62), some_ids(2, 63)});
      double sum = 0;
      const LogitsReader reader = [&](std::int64_t, View<const float, 2> logits) {
        sum += static_cast<double>(logits(0, 0));
      };
      Ids ids = {1, 2, 3};
      const Ids counts = {1, 1, 1};
      const Ids some = {1, 0, 1};
      for (const LogitsOf wanted : {LogitsOf::last_of_row, LogitsOf::all}) {
        const long before = allocations.load();
        for (int step = 0; step < 10; ++step) {
          ids[0] = step;
          session->feed({.ids = ids, .row_tokens = counts, .positions = {}}, wanted, reader);
        }
        session->feed(
            {.ids = std::span<const std::int64_t>(ids).first(2), .row_tokens = some, .positions = {}}, wanted,
            reader);
        EXPECT_EQ(allocations.load() - before, 0) << threads << " threads, " << name_of(cache);
      }
      EXPECT_NE(sum, 0);
    }
  }
}

TEST(AllocationCount, SeesAnAllocation) {
  const long before = allocations.load();
  const auto memory = std::make_unique<std::vector<float>>(100);
  EXPECT_EQ(allocations.load() - before, 2);
  EXPECT_EQ(memory->size(), 100U);
  forget_allocations();
  const std::vector<float> wide(1000);
  const std::vector<float> narrow(10);
  EXPECT_EQ(largest_allocation(), wide.size() * sizeof(float));
  EXPECT_EQ(narrow.size(), 10U);
}

// A continuation allocates for its answer, not for its tokens.
TEST(AllocationCount, OfAContinuationDoesNotGrow) {
  const Loaded loaded(tiny("llama"));
  const auto used = [&](std::int64_t tokens) {
    const auto session = loaded.session(2, 80);
    (void)feed(*session, {{1, 2}, {3}});
    const Ids first = {4, 5};
    const TokenReader reader = [](std::int64_t, std::int64_t) {};
    const long before = allocations.load();
    (void)continue_rows(*session, {.tokens = tokens, .first = first, .end_tokens = {}}, reader);
    return allocations.load() - before;
  };
  EXPECT_EQ(used(60), used(10));
}

}  // namespace
}  // namespace locant
