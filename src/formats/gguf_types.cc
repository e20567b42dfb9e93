// SPDX-License-Identifier: Apache-2.0
// The types of metadata values.
#include <array>

#include "locant/formats.h"

namespace locant {
namespace {

constexpr std::array<std::string_view, 13> kValueTypes{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                       "bool", "string", "array", "u64", "i64", "f64"};

}  // namespace

std::string_view name_of(GgufType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kValueTypes.size() ? kValueTypes[index] : std::string_view();
}

}  // namespace locant
