// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for naming evidence: not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace locant {

/// Takes bytes in pieces of any size.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits, lower case. The object is used up.
  [[nodiscard]] std::string finish();

 private:
  void block(const std::byte* bytes);

  std::array<std::uint32_t, 8> state_{0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                      0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  std::array<std::byte, 64> waiting_{};
  std::size_t held_ = 0;      ///< bytes in waiting_
  std::uint64_t length_ = 0;  ///< bytes so far
};

}  // namespace locant
