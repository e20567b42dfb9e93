// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "locant/text.h"
#include "text/utf8.h"

namespace locant {
namespace {

/// Whether more bytes can make these one character. The byte behind a lead has the narrowest range at one of
/// its ends, so that two fillings decide it.
bool may_become_character(std::string_view bytes) {
  constexpr std::size_t kLongest = 4;
  for (const char second : {'\x80', '\xBF'}) {
    std::string filled(bytes);
    if (filled.size() == 1) filled += second;
    for (; filled.size() <= kLongest; filled += '\x80') {
      if (filled.size() > bytes.size() && length_of_character(filled, 0) == filled.size()) return true;
    }
  }
  return false;
}

}  // namespace

std::string Utf8Stream::add(std::string_view bytes) {
  kept_ += bytes;
  std::size_t at = 0;
  while (at < kept_.size()) {
    const std::size_t length = length_of_character(kept_, at);
    if (length == 0 && may_become_character(std::string_view(kept_).substr(at))) break;
    at += length == 0 ? 1 : length;
  }
  std::string complete = kept_.substr(0, at);
  kept_.erase(0, at);
  return complete;
}

std::string Utf8Stream::finish() {
  return std::exchange(kept_, {});
}

}  // namespace locant
