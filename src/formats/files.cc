// SPDX-License-Identifier: Apache-2.0
// Whole files.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/descriptor.h"
#include "core/output_file.h"
#include "locant/formats.h"

namespace locant {
namespace {

std::string read_all(int fd, const std::string& path, std::int64_t limit) {
  std::string bytes;
  struct stat info {};
  if (fstat(fd, &info) == 0) {
    if (S_ISDIR(info.st_mode)) throw FileError(path, "cannot be read, is a directory");
    if (S_ISREG(info.st_mode))
      bytes.reserve(static_cast<std::size_t>(std::clamp<std::int64_t>(info.st_size, 0, limit)));
  }
  constexpr std::size_t kBlock = std::size_t{1} << 18;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kBlock);
    const ssize_t count = read(fd, bytes.data() + before, kBlock);
    const int error = errno;
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && error != EINTR) throw FileError(path, "cannot be read, " + errno_text(error));
    if (count == 0) return bytes;
    if (static_cast<std::int64_t>(bytes.size()) > limit) {
      throw FileError(path, fmt::format("is larger than the {} bytes allowed here", limit));
    }
  }
}

}  // namespace

std::string read_file(const std::string& path, std::int64_t limit) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input", limit);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) throw FileError(path, "cannot be read, " + errno_text(errno));
  return read_all(file.get(), path, limit);
}

void write_file(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

void check_writable(const std::string& path) {
  OutputFile::check(path);
}

}  // namespace locant
