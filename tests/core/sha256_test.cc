// SPDX-License-Identifier: Apache-2.0
// The examples of FIPS 180-4 (NIST's SHA256 example values), in one piece and byte by byte.
#include "core/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace locant {
namespace {

std::string digest(const std::string& text, std::size_t piece) {
  Sha256 sha;
  const std::span<const std::byte> all = std::as_bytes(std::span(text.data(), text.size()));
  for (std::size_t at = 0; at < all.size(); at += piece)
    sha.add(all.subspan(at, std::min(piece, all.size() - at)));
  return sha.finish();
}

TEST(Sha256, GivesThePublishedDigests) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1} << 20}) {
    EXPECT_EQ(digest("", piece), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(digest("abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(digest(std::string(1000000, 'a'), piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

}  // namespace
}  // namespace locant
