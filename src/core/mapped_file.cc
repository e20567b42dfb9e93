// SPDX-License-Identifier: Apache-2.0
#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/descriptor.h"
#include "locant/core.h"

namespace locant {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // without O_NONBLOCK a named pipe would be waited for
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) throw FileError(path_, "cannot be read, " + errno_text(errno));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) throw FileError(path_, "cannot be read, " + errno_text(errno));
  if (S_ISDIR(info.st_mode)) throw FileError(path_, "cannot be read, is a directory");
  if (!S_ISREG(info.st_mode)) throw FileError(path_, "cannot be mapped, not a regular file");
  if (info.st_size == 0) return;
  void* const start =
      mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) throw FileError(path_, "cannot be mapped, " + errno_text(errno));
  data_ = start;
  size_ = info.st_size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    MappedFile taken(std::move(other));
    std::swap(path_, taken.path_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
  }
  return *this;
}

void touch_pages(const void* data, std::int64_t bytes) noexcept {
  constexpr std::int64_t kPage = 4096;  // the smallest page of any machine at hand
  const auto* const at = static_cast<const volatile std::byte*>(data);
  for (std::int64_t i = 0; i < bytes; i += kPage) (void)at[i];
  if (bytes > 0) (void)at[bytes - 1];
}

void release_pages(const void* data, std::int64_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end =
      (begin + static_cast<std::uintptr_t>(std::max<std::int64_t>(bytes, 0))) / page * page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the first whole page
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace locant
