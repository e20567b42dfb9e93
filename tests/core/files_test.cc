// SPDX-License-Identifier: Apache-2.0
// Mapped input and atomic output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/mapped_file.h"
#include "core/output_file.h"
#include "core/temp_dir.h"
#include "locant/core.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tests::message_of;
using tests::slurp;
using tests::TempDir;

TEST(MappedFile, HoldsTheBytes) {
  const TempDir dir;
  const std::string text("a\0b\xff", 4);
  MappedFile file(dir.write("x", text));
  EXPECT_EQ(file.size(), 4);
  EXPECT_EQ(file.text(), text);
  EXPECT_EQ(file.path(), dir.file("x"));
  std::filesystem::remove(dir.file("x"));
  MappedFile moved(std::move(file));
  EXPECT_EQ(moved.text(), text);
  EXPECT_EQ(file.size(), 0);  // NOLINT(bugprone-use-after-move): an empty mapping is the promise
  file = std::move(moved);
  EXPECT_EQ(file.text(), text);
}

TEST(MappedFile, MayBeEmpty) {
  const TempDir dir;
  const MappedFile file(dir.write("x", ""));
  EXPECT_EQ(file.size(), 0);
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFile, WhatIsNoFileIsRefused) {
  const TempDir dir;
  const auto mapped = [](const std::string& path) {
    return message_of<FileError>([&] { MappedFile file(path); });
  };
  EXPECT_EQ(mapped(dir.file("x")), dir.file("x") + ": cannot be read, no such file or directory");
  EXPECT_EQ(mapped(dir.path()), dir.path() + ": cannot be read, is a directory");
  EXPECT_EQ(mapped("/dev/null"), "/dev/null: cannot be mapped, not a regular file");
  EXPECT_EQ(mapped(""), ": cannot be read, no such file or directory");
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(mapped(dir.file("pipe")), dir.file("pipe") + ": cannot be mapped, not a regular file");
}

TEST(OutputFile, AppearsOnCommitOnly) {
  const TempDir dir;
  {
    OutputFile file(dir.file("x"));
    file.write("ab");
    file.write("c");
    EXPECT_EQ(file.written(), 3);
    EXPECT_FALSE(std::filesystem::exists(dir.file("x")));
    file.commit();
  }
  EXPECT_EQ(slurp(dir.file("x")), "abc");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(OutputFile, UncommittedLeavesTheOldFile) {
  const TempDir dir;
  dir.write("x", "old");
  {
    OutputFile file(dir.file("x"));
    file.write("new");
  }
  EXPECT_EQ(slurp(dir.file("x")), "old");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(OutputFile, ReplacesAndKeepsTheMode) {
  const TempDir dir;
  dir.write("x", "a longer old text");
  ASSERT_EQ(chmod(dir.file("x").c_str(), 0640), 0);
  OutputFile file(dir.file("x"));
  file.write("new");
  file.commit();
  EXPECT_EQ(slurp(dir.file("x")), "new");
  struct stat info {};
  ASSERT_EQ(stat(dir.file("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST(OutputFile, NewFilesTakeTheUmask) {
  const TempDir dir;
  const mode_t before = umask(027);
  OutputFile file(dir.file("x"));
  umask(before);
  file.commit();
  struct stat info {};
  ASSERT_EQ(stat(dir.file("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST(OutputFile, WritesThroughALink) {
  const TempDir dir;
  dir.write("real", "old");
  std::filesystem::create_symlink("real", dir.file("link"));
  OutputFile file(dir.file("link"));
  file.write("new");
  file.commit();
  EXPECT_EQ(slurp(dir.file("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("link")));
}

TEST(OutputFile, TwoWritersOfOnePathDoNotMix) {
  const TempDir dir;
  OutputFile a(dir.file("x"));
  OutputFile b(dir.file("x"));
  a.write("first");
  b.write("second");
  b.commit();
  a.commit();
  EXPECT_EQ(slurp(dir.file("x")), "first");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(OutputFile, BareNamesStandInTheWorkingDirectory) {
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  OutputFile file("bare");
  file.write("x");
  file.commit();
  std::filesystem::current_path(before);
  EXPECT_THAT(dir.names(), ElementsAre("bare"));
}

TEST(OutputFile, DevicesAreWrittenDirectly) {
  OutputFile file("/dev/null");
  file.write("abc");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFile, AFullMediumIsAnError) {
  EXPECT_EQ(message_of<FileError>([] {
              OutputFile file("/dev/full");
              file.write("abc");
            }),
            "/dev/full: cannot be written, no space left on device");
}

TEST(OutputFile, PlacesThatCannotBeWritten) {
  const TempDir dir;
  dir.write("file", "");
  const auto both = [](const std::string& path) {
    const std::string opened = message_of<FileError>([&] { OutputFile file(path); });
    EXPECT_EQ(message_of<FileError>([&] { OutputFile::check(path); }), opened);
    EXPECT_EQ(message_of<FileError>([&] { SpoolFile spool(path); }), opened);
    return opened;
  };
  EXPECT_EQ(both(dir.file("no/x")),
            dir.file("no/x") + ": cannot be written, there is no directory " + dir.file("no"));
  EXPECT_EQ(both(dir.path()), dir.path() + ": cannot be written, is a directory");
  EXPECT_EQ(both(dir.file("file/x")), dir.file("file/x") + ": cannot be written, not a directory");
  EXPECT_EQ(both(dir.file("new/")), dir.file("new/") + ": cannot be written, the path names a directory");
  EXPECT_EQ(both(""), "\"\": cannot be written, the path is empty");
  EXPECT_EQ(both("/dev/locant-none"), "/dev/locant-none: cannot be written, no such file or directory");
  EXPECT_THAT(both(dir.file(std::string(300, 'n'))), ::testing::HasSubstr("file name too long"));
  EXPECT_THAT(dir.names(), ElementsAre("file"));
}

TEST(OutputFile, CheckLeavesNothing) {
  const TempDir dir;
  OutputFile::check(dir.file("x"));
  EXPECT_THAT(dir.names(), IsEmpty());
  dir.write("y", "kept");
  OutputFile::check(dir.file("y"));
  EXPECT_EQ(slurp(dir.file("y")), "kept");
  OutputFile::check("/dev/full");
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  OutputFile::check(dir.file("pipe"));  // must not wait for a reader
}

TEST(OutputFile, WithoutPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0500), 0);
  EXPECT_EQ(message_of<FileError>([&] { OutputFile::check(dir.file("x")); }),
            dir.file("x") + ": cannot be written, permission denied");
  ASSERT_EQ(chmod(dir.path().c_str(), 0700), 0);
}

TEST(SpoolFile, HasNoNameAndCopies) {
  const TempDir dir;
  const std::string block(3'000'001, 'z');
  SpoolFile spool(dir.file("x"));
  spool.write(std::as_bytes(std::span(block)));
  spool.write(std::as_bytes(std::span(std::string_view("end"))));
  EXPECT_EQ(spool.written(), 3'000'004);
  EXPECT_THAT(dir.names(), IsEmpty());
  OutputFile out(dir.file("x"));
  out.write("head");
  spool.copy_to(out);
  out.commit();
  EXPECT_EQ(slurp(dir.file("x")), "head" + block + "end");
}

TEST(SpoolFile, OfADeviceLiesElsewhere) {
  SpoolFile spool("/dev/null");
  spool.write(std::as_bytes(std::span(std::string_view("abc"))));
  EXPECT_EQ(spool.written(), 3);
}

}  // namespace
}  // namespace locant
