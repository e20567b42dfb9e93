// SPDX-License-Identifier: Apache-2.0
// A whole regular file, mapped read-only. The mapping stays valid when the file is renamed or removed; who
// shortens a mapped file in place gets SIGBUS, as with any mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace locant {

class MappedFile {
 public:
  MappedFile() = default;
  /// FileError when the file is missing, unreadable, a directory or not a regular file. May be empty.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::byte* data() const noexcept { return static_cast<const std::byte*>(data_); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {data(), static_cast<std::size_t>(size_)};
  }
  [[nodiscard]] std::string_view text() const noexcept {
    return {static_cast<const char*>(data_), static_cast<std::size_t>(size_)};
  }

 private:
  std::string path_;
  void* data_ = nullptr;  // page-aligned; null when empty
  std::int64_t size_ = 0;
};

/// Reads one byte of every page of [data, data + bytes), so that later reads find the pages mapped.
void touch_pages(const void* data, std::int64_t bytes) noexcept;

/// Gives the whole pages inside [data, data + bytes) of a MappedFile back; a later read maps them again.
void release_pages(const void* data, std::int64_t bytes) noexcept;

}  // namespace locant
