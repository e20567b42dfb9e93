// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written beside its target under another name, then renamed. What
// is no regular file (a device, a pipe) and what lies in /dev is written directly. Not synced to the medium.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace locant {

class OutputFile {
 public:
  /// FileError when the directory is missing, `path` is a directory, or permission is denied.
  explicit OutputFile(std::string path);
  /// Removes what was not committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. FileError when the medium is full.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Puts the file at its path; nothing may be written afterwards.
  void commit();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::int64_t written() const noexcept { return written_; }

  /// Throws what the constructor would, and leaves the target as it is (a pipe is not even opened).
  static void check(const std::string& path);

 private:
  std::string path_;       // as the caller wrote it
  std::string target_;     // where rename() puts it: links followed
  std::string temporary_;  // empty: written directly, committed or removed
  Descriptor file_;
  std::int64_t written_ = 0;
};

/// An unnamed file for intermediate bytes, in the directory of `path` (in /tmp where that is a device). It
/// vanishes with its descriptor, even in a crash.
class SpoolFile {
 public:
  explicit SpoolFile(std::string path);
  void write(std::span<const std::byte> bytes);
  /// Appends the whole spool to `out`.
  void copy_to(OutputFile& out) const;
  [[nodiscard]] std::int64_t written() const noexcept { return written_; }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t written_ = 0;
};

}  // namespace locant
