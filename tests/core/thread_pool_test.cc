// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "core/temp_dir.h"
#include "locant/core.h"
#include "locant/threads.h"

namespace locant {
namespace {

using tests::message_of;

TEST(ThreadPool, EachPieceOnceForAnyCounts) {
  for (const int threads : {1, 2, 3, 4, 7, 16}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const std::int64_t pieces : {0, 1, 2, 3, 15, 16, 17, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(pieces));
      pool.run(pieces, [&](std::int64_t piece) { hits[static_cast<std::size_t>(piece)].fetch_add(1); });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1) << threads << " threads, " << pieces << " pieces";
    }
  }
}

TEST(ThreadPool, NegativeCountsAreNothing) {
  ThreadPool pool(2);
  pool.run(-3, [](std::int64_t) { FAIL(); });
}

TEST(ThreadPool, ResultsAreVisibleAfterEveryOfManyForks) {
  ThreadPool pool(4);
  std::vector<std::int64_t> sums(8);  // plain memory: the join orders it
  for (std::int64_t round = 0; round < 20'000; ++round) {
    pool.run(8, [&](std::int64_t piece) { sums[static_cast<std::size_t>(piece)] += piece + round; });
    ASSERT_EQ(sums[7], (round + 1) * 7 + round * (round + 1) / 2);
  }
}

TEST(ThreadPool, SleepersWakeUp) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // past the spin
    std::atomic<int> done{0};
    pool.run(100, [&](std::int64_t) { done.fetch_add(1); });
    ASSERT_EQ(done.load(), 100);
  }
}

TEST(ThreadPool, WorkersTakePieces) {
  ThreadPool pool(2);
  std::atomic<bool> other{false};
  const auto caller = std::this_thread::get_id();
  // piece 0 ends only when somebody else runs piece 1, or vice versa
  pool.run(2, [&](std::int64_t) {
    if (std::this_thread::get_id() != caller) {
      other.store(true);
    } else {
      while (!other.load()) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(other.load());
}

TEST(ThreadPool, NestedRunsExecuteOnTheirThread) {
  ThreadPool pool(4);
  std::atomic<int> inner{0};
  std::atomic<int> strangers{0};
  pool.run(16, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    pool.run(10, [&](std::int64_t) {
      inner.fetch_add(1);
      if (std::this_thread::get_id() != self) strangers.fetch_add(1);
    });
  });
  EXPECT_EQ(inner.load(), 160);
  EXPECT_EQ(strangers.load(), 0);
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round)
        pool.run(7, [&](std::int64_t piece) { total.fetch_add(piece); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 500 * 21);
}

TEST(ThreadPool, PoolsComeAndGo) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool(1 + round % 5);
    std::atomic<int> done{0};
    if (round % 2 == 0) pool.run(5, [&](std::int64_t) { done.fetch_add(1); });
    ASSERT_EQ(done.load(), round % 2 == 0 ? 5 : 0);
  }
}

TEST(ThreadPool, ThreadsOutsideTheRangeAreRefused) {
  EXPECT_EQ(message_of<SpecError>([] { ThreadPool pool(0); }), "thread pool: threads are 1 to 1024, got 0");
  EXPECT_EQ(message_of<SpecError>([] { ThreadPool pool(-1); }), "thread pool: threads are 1 to 1024, got -1");
  EXPECT_EQ(message_of<SpecError>([] { ThreadPool pool(1 << 30); }),
            "thread pool: threads are 1 to 1024, got 1073741824");
}

TEST(ThreadPool, HardwareIsAtLeastOne) {
  EXPECT_GE(ThreadPool::hardware(), 1);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(ThreadPool::hardware(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(ThreadPool::hardware(), CPU_COUNT(&before));
}

TEST(Buffer, ZeroedAlignedAndWritable) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{4096}, std::size_t{4097}, (std::size_t{2} << 20) - 1,
        std::size_t{2} << 20, (std::size_t{5} << 20) + 3}) {
    Buffer buffer(bytes);
    ASSERT_NE(buffer.data(), nullptr);
    EXPECT_EQ(buffer.bytes(), bytes);
    const std::uintptr_t alignment = bytes >= (std::size_t{2} << 20) ? std::uintptr_t{2} << 20 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0U) << bytes;
    auto* const data = buffer.as<unsigned char>();
    EXPECT_EQ(std::accumulate(data, data + bytes, std::uint64_t{0}), 0U);
    std::fill(data, data + bytes, static_cast<unsigned char>(0xa5));
    EXPECT_EQ(data[bytes - 1], 0xa5);
  }
}

TEST(Buffer, Moves) {
  Buffer a(100);
  a.as<int>()[3] = 7;
  void* const data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): an empty buffer is the promise
  EXPECT_EQ(a.bytes(), 0U);
  Buffer c(std::size_t{3} << 20);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.as<int>()[3], 7);
  Buffer& self = c;
  c = std::move(self);
  EXPECT_EQ(c.data(), data);
  const Buffer empty;
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(Buffer(0).bytes(), 0U);
}

TEST(Buffer, WhatTheMachineCannotGiveIsBadAlloc) {
  EXPECT_THROW(Buffer buffer(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_THROW(Buffer buffer(std::size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace locant
