// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/temp_dir.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tests::message_of;
using tests::slurp;
using tests::TempDir;

TEST(ReadFile, Bytes) {
  const TempDir dir;
  std::string text(1'000'003, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  EXPECT_EQ(read_file(dir.write("x", text)), text);
  EXPECT_EQ(read_file(dir.write("empty", "")), "");
}

TEST(ReadFile, TheLimitIsInclusive) {
  const TempDir dir;
  const std::string path = dir.write("x", "abcd");
  EXPECT_EQ(read_file(path, 4), "abcd");
  EXPECT_EQ(message_of<FileError>([&] { (void)read_file(path, 3); }),
            path + ": is larger than the 3 bytes allowed here");
  EXPECT_EQ(message_of<FileError>([] { (void)read_file("/dev/zero", 1 << 20); }),
            "/dev/zero: is larger than the 1048576 bytes allowed here");
}

TEST(ReadFile, Refusals) {
  const TempDir dir;
  EXPECT_EQ(message_of<FileError>([&] { (void)read_file(dir.file("x")); }),
            dir.file("x") + ": cannot be read, no such file or directory");
  EXPECT_EQ(message_of<FileError>([&] { (void)read_file(dir.path()); }),
            dir.path() + ": cannot be read, is a directory");
}

TEST(ReadFile, StandardInputAndPipes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDIN_FILENO);
  ASSERT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  const std::string text(300'000, 'p');  // more than a pipe holds
  std::thread writer([&] {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t count = write(ends[1], text.data() + at, text.size() - at);
      if (count <= 0) break;
      at += static_cast<std::size_t>(count);
    }
    close(ends[1]);
  });
  EXPECT_EQ(read_file("-"), text);
  writer.join();
  close(ends[0]);
  dup2(before, STDIN_FILENO);
  close(before);
}

TEST(WriteFile, WholeOrNotAtAll) {
  const TempDir dir;
  check_writable(dir.file("x"));
  EXPECT_THAT(dir.names(), IsEmpty());
  write_file(dir.file("x"), std::string("a\0b", 3));
  EXPECT_EQ(slurp(dir.file("x")), std::string("a\0b", 3));
  write_file(dir.file("x"), "");
  EXPECT_EQ(slurp(dir.file("x")), "");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
  for (const std::string& path : {dir.file("no/x"), dir.path()}) {
    const std::string wrote = message_of<FileError>([&] { write_file(path, "a"); });
    EXPECT_NE(wrote, "");
    EXPECT_EQ(message_of<FileError>([&] { check_writable(path); }), wrote);
  }
  EXPECT_EQ(message_of<FileError>([] { write_file("/dev/full", "a"); }),
            "/dev/full: cannot be written, no space left on device");
  write_file("/dev/null", "a");
}

}  // namespace
}  // namespace locant
