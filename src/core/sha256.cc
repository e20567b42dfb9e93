// SPDX-License-Identifier: Apache-2.0
#include "core/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace locant {
namespace {

// The first 32 bits of the fractions of the cube roots of the first 64 primes (section 4.2.2).
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U, 0xab1c5ed5U,
    0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU, 0x9bdc06a7U, 0xc19bf174U,
    0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU, 0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU,
    0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U, 0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U,
    0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU, 0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U,
    0xa2bfe8a1U, 0xa81a664bU, 0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U,
    0x19a4c116U, 0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U, 0xc67178f2U};

}  // namespace

void Sha256::block(const std::byte* bytes) {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t byte = 0; byte < 4; ++byte)
      words.at(i) = words.at(i) << 8U | std::to_integer<std::uint32_t>(bytes[4 * i + byte]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = words.at(i - 15);
    const std::uint32_t b = words.at(i - 2);
    words.at(i) = words.at(i - 16) + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3U) + words.at(i - 7) +
                  (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10U);
  }
  std::array<std::uint32_t, 8> s = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound.at(i) + words.at(i);
    const std::uint32_t second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state_.at(i) += s.at(i);
}

void Sha256::add(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t take = std::min(waiting_.size() - held_, bytes.size());
    std::memcpy(waiting_.data() + held_, bytes.data(), take);
    held_ += take;
    bytes = bytes.subspan(take);
    if (held_ < waiting_.size()) return;
    block(waiting_.data());
    held_ = 0;
  }
}

std::string Sha256::finish() {
  const std::uint64_t bits = length_ * 8;
  const std::byte one{0x80};
  add({&one, 1});
  const std::byte zero{0};
  while (held_ != 56) add({&zero, 1});
  std::array<std::byte, 8> tail{};
  for (std::size_t i = 0; i < tail.size(); ++i)
    tail.at(i) = static_cast<std::byte>(bits >> (56 - 8 * i) & 0xffU);
  add(tail);
  std::string text;
  for (const std::uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4)
      text += "0123456789abcdef"[word >> static_cast<unsigned>(shift) & 0xfU];
  }
  return text;
}

}  // namespace locant
