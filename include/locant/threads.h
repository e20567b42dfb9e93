// SPDX-License-Identifier: Apache-2.0
// A fork-join thread pool for pieces of microseconds, and the memory that sessions live in.
// Identical results for any thread count: the caller cuts work at fixed boundaries, threads take
// whole pieces, and partial results merge in index order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace locant {

/// A non-owning reference to a callable `void(std::int64_t piece)` that does not throw.
class PieceFunction {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PieceFunction>)
      // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
      PieceFunction(F&& body)
  noexcept
      : object_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* object, std::int64_t piece) {
          (*static_cast<std::remove_reference_t<F>*>(object))(piece);
        }) {}
  void operator()(std::int64_t piece) const { call_(object_, piece); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

/// `threads - 1` workers plus the calling thread. Not copyable; one fork at a time (a nested or
/// concurrent run() executes its pieces on the calling thread alone).
class ThreadPool {
 public:
  /// threads >= 1, else SpecError; ThreadPool::hardware() is what the machine offers this process.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const noexcept;
  /// Calls body(0) ... body(pieces - 1), each once, in any order and on any thread; returns when
  /// all are done. No allocation. body must not throw.
  void run(std::int64_t pieces, PieceFunction body);

  [[nodiscard]] static int hardware() noexcept;  ///< CPUs in this process's affinity mask, >= 1

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Zeroed, 64-byte aligned memory in which every page is touched before use; transparent huge
/// pages are asked for where the block is large. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  /// Throws std::bad_alloc when the machine does not give the memory.
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace locant
