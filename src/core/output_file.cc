// SPDX-License-Identifier: Apache-2.0
#include "core/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "locant/core.h"

namespace locant {
namespace {

constexpr mode_t kNewFile = 0666;  // less the umask

struct Target {
  std::string path;     // links followed
  std::string folder;   // of path
  bool direct = false;  // a device, a pipe, or anything in /dev
  bool exists = false;
  mode_t mode = kNewFile;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(path, "cannot be written, " + why);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_device_path(std::string_view path) {
  return (path.starts_with("/dev/") && !path.starts_with("/dev/shm/")) || path.starts_with("/proc/self/fd/");
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  return real ? std::string(real.get()) : path;
}

Target target_of(const std::string& path) {
  if (path.empty()) refuse("\"\"", "the path is empty");
  Target target{.path = path, .folder = folder_of(path)};
  struct stat info {};
  target.exists = stat(path.c_str(), &info) == 0;
  if (!target.exists && errno != ENOENT) refuse(path, errno_text(errno));
  if (target.exists && S_ISDIR(info.st_mode)) refuse(path, "is a directory");
  target.direct = is_device_path(path) || (target.exists && !S_ISREG(info.st_mode));
  if (target.exists && access(path.c_str(), W_OK) != 0) refuse(path, errno_text(errno));
  if (target.direct) {
    if (!target.exists) refuse(path, errno_text(ENOENT));
    return target;
  }
  if (target.exists) {
    target.mode = info.st_mode & 07777U;
    target.path = real_path(path);
    target.folder = folder_of(target.path);
  }
  if (path.back() == '/') refuse(path, "the path names a directory");
  struct stat folder {};
  if (stat(target.folder.c_str(), &folder) != 0) {
    refuse(path, errno == ENOENT ? "there is no directory " + target.folder : errno_text(errno));
  }
  if (!S_ISDIR(folder.st_mode)) refuse(path, target.folder + " is not a directory");
  return target;
}

/// A new file in `folder` under a name that nobody has.
std::pair<Descriptor, std::string> create_beside(const Target& target, const std::string& path) {
  for (unsigned serial = 0;; ++serial) {
    const std::string name =
        target.folder + "/.locant-" + std::to_string(getpid()) + "-" + std::to_string(serial) + ".tmp";
    Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kNewFile));
    if (file.valid()) return {std::move(file), name};
    if (errno != EEXIST) refuse(path, errno_text(errno));
  }
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 30));
    if (count < 0) {
      if (errno == EINTR) continue;
      refuse(path, errno_text(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  const Target target = target_of(path_);
  target_ = target.path;
  if (target.direct) {
    // appending suits both devices and a redirected /dev/stdout, whose earlier output it must not cut off
    file_ = Descriptor(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_.valid()) refuse(path_, errno_text(errno));
    return;
  }
  std::tie(file_, temporary_) = create_beside(target, path_);
  if (target.exists)
    (void)fchmod(file_.get(), target.mode);  // the owner may differ: then the umask's mode stays
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write_all(file_.get(), bytes, path_);
  written_ += static_cast<std::int64_t>(bytes.size());
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::commit() {
  // close() reports what a network file system has put off
  if (::close(file_.release()) != 0 && errno != EINTR) refuse(path_, errno_text(errno));
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) refuse(path_, errno_text(errno));
  temporary_.clear();
}

void OutputFile::check(const std::string& path) {
  const Target target = target_of(path);
  if (target.direct) return;
  const auto [file, name] = create_beside(target, path);
  unlink(name.c_str());
}

SpoolFile::SpoolFile(std::string path) : path_(std::move(path)) {
  Target target = target_of(path_);
  if (target.direct) target.folder = "/tmp";
  std::string name;
  std::tie(file_, name) = create_beside(target, path_);
  unlink(name.c_str());
}

void SpoolFile::write(std::span<const std::byte> bytes) {
  write_all(file_.get(), bytes, path_);
  written_ += static_cast<std::int64_t>(bytes.size());
}

void SpoolFile::copy_to(OutputFile& out) const {
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < written_;) {
    const ssize_t count = pread(file_.get(), block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse(path_, "its spool cannot be read back, " + errno_text(count == 0 ? EIO : errno));
    out.write(std::span<const std::byte>(block).first(static_cast<std::size_t>(count)));
    at += count;
  }
}

}  // namespace locant
