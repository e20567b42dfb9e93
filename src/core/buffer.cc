// SPDX-License-Identifier: Apache-2.0
// Memory of sessions: mapped, aligned to 2 MiB where large so that huge pages fit, touched before use.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "locant/threads.h"

namespace locant {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t page_size() {
  const long size = sysconf(_SC_PAGESIZE);
  return size > 0 ? static_cast<std::size_t>(size) : 4096;
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

char* map_pages(std::size_t bytes) {
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(start);
}

/// `bytes` (a multiple of kHugePage) at an address that is one, too: the ends of a larger mapping go back.
char* map_huge(std::size_t bytes) {
  char* const start = map_pages(bytes + kHugePage);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  const std::size_t lead = past == 0 ? 0 : kHugePage - past;
  if (lead != 0) munmap(start, lead);
  char* const data = start + lead;
  munmap(data + bytes, kHugePage - lead);
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: small pages serve as well
#endif
  return data;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
  const std::size_t page = page_size();
  const bool huge = bytes >= kHugePage;
  mapped_ = rounded_up(bytes, huge ? kHugePage : page);
  char* const start = huge ? map_huge(mapped_) : map_pages(mapped_);
  data_ = start;
  // past the asked bytes nothing is touched: a large block's last page stays the kernel's until then
  for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(start)[at] = 0;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Buffer taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(bytes_, taken.bytes_);
    std::swap(mapped_, taken.mapped_);
  }
  return *this;
}

}  // namespace locant
