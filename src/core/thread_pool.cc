// SPDX-License-Identifier: Apache-2.0
// Fork-join by three words: `epoch` wakes the workers, `gate` says whether the job may be joined and by how
// many it is being worked on, `next` hands out pieces. A worker that comes late finds the gate shut, so the
// caller waits for those that joined, never for one that is still asleep.
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "locant/core.h"
#include "locant/threads.h"

namespace locant {
namespace {

constexpr int kMostThreads = 1024;
constexpr auto kSpin = std::chrono::microseconds(30);
constexpr std::uint32_t kOpen = 1U << 31;

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins for at most `budget`; whether `done` came true.
template <class Done>
bool spin(std::chrono::nanoseconds budget, Done done) noexcept {
  if (done()) return true;
  if (budget.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + budget;
  do {
    for (int i = 0; i < 16; ++i) {
      relax();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

struct ThreadPool::State {
  struct Job {
    const PieceFunction* body;
    std::int64_t pieces;
  };

  // each on its own cache line: they are written by different threads
  alignas(64) std::atomic<std::uint32_t> epoch{0};
  alignas(64) std::atomic<std::uint32_t> gate{0};  // kOpen | workers inside
  alignas(64) std::atomic<std::int64_t> next{0};
  alignas(64) std::atomic<bool> busy{false};
  std::atomic<bool> stop{false};
  Job job{};  // written while the gate is shut and nobody is inside
  std::chrono::nanoseconds budget{0};
  std::vector<std::thread> workers;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    stop.store(true);
    epoch.fetch_add(1);
    epoch.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void take_pieces(const Job& current) noexcept {
    for (std::int64_t piece = next.fetch_add(1, std::memory_order_relaxed); piece < current.pieces;
         piece = next.fetch_add(1, std::memory_order_relaxed)) {
      (*current.body)(piece);
    }
  }

  void leave() noexcept {
    if (gate.fetch_sub(1, std::memory_order_acq_rel) == 1) gate.notify_one();
  }

  void work() noexcept {
    std::uint32_t seen = 0;
    for (;;) {
      const auto woken = [&] { return epoch.load(std::memory_order_acquire) != seen; };
      if (!spin(budget, woken)) epoch.wait(seen, std::memory_order_acquire);
      seen = epoch.load(std::memory_order_acquire);
      if (stop.load()) return;
      const bool open = (gate.fetch_add(1, std::memory_order_acq_rel) & kOpen) != 0;
      if (open) take_pieces(job);
      leave();
    }
  }

  void fork_join(const Job& wanted) noexcept {
    job = wanted;
    next.store(0, std::memory_order_relaxed);
    gate.fetch_or(kOpen, std::memory_order_acq_rel);
    epoch.fetch_add(1);
    epoch.notify_all();
    take_pieces(wanted);
    gate.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto empty = [&] { return gate.load(std::memory_order_acquire) == 0; };
    while (!spin(budget, empty)) {
      const std::uint32_t inside = gate.load(std::memory_order_acquire);
      if (inside != 0) gate.wait(inside, std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw SpecError("thread pool: threads are 1 to " + std::to_string(kMostThreads) + ", got " +
                    std::to_string(threads));
  }
  state_ = std::make_unique<State>();
  // more threads than CPUs: whoever spins keeps the one with work from running
  if (threads <= hardware()) state_->budget = kSpin;
  state_->workers.reserve(static_cast<std::size_t>(threads) - 1);
  State* const state = state_.get();
  for (int i = 1; i < threads; ++i) state_->workers.emplace_back([state] { state->work(); });
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const noexcept {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::run(std::int64_t pieces, PieceFunction body) {
  State& state = *state_;
  const bool alone = pieces <= 1 || state.workers.empty();
  if (alone || state.busy.exchange(true, std::memory_order_acquire)) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) body(piece);
    return;
  }
  state.fork_join({.body = &body, .pieces = pieces});
  state.busy.store(false, std::memory_order_release);
}

int ThreadPool::hardware() noexcept {
#ifdef __linux__
  std::array<cpu_set_t, 8> mask{};  // 8,192 CPUs; the kernel refuses a mask shorter than its own
  if (sched_getaffinity(0, sizeof(mask), mask.data()) == 0) {
    const int count = CPU_COUNT_S(sizeof(mask), mask.data());
    if (count > 0) return count;
  }
#endif
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

}  // namespace locant
