// SPDX-License-Identifier: Apache-2.0
// ModelProto: pieces = 1, in them piece = 1; normalizer_spec = 3, denormalizer_spec = 5; in them
// precompiled_charsmap = 2: u32 bytes of the trie, its units (u32, little-endian), then replacement strings
// that end in NUL. A unit is laid out as in Darts-clone.
#include "text/model_proto.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "locant/core.h"

namespace locant {
namespace {

/// Walks the fields of a serialised protobuf message.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  /// Reads one field; false at the end, or where the message breaks off (libsentencepiece will say so).
  bool next() {
    const std::optional<std::uint64_t> tag = varint();
    if (!tag) return false;
    number_ = *tag >> 3;
    bytes_ = {};
    switch (*tag & 7) {
      case 0:
        return varint().has_value();
      case 1:
        return take(8);
      case 2: {
        const std::optional<std::uint64_t> length = varint();
        return length && take(*length);
      }
      case 5:
        return take(4);
      default:
        return false;
    }
  }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  bool take(std::uint64_t length) {
    if (length > rest_.size()) return false;
    bytes_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  std::string_view rest_;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

/// Whether every path from the root stays inside the units and every value inside the strings.
bool trie_is_closed(const std::vector<std::uint32_t>& units, std::size_t strings) {
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); };
  std::vector<bool> seen(units.size(), false);
  std::vector<std::size_t> open;
  const auto enter = [&](std::size_t base) {
    // A base below the end keeps its whole block of 256 labels below it: the size is a multiple of 256.
    if (base >= units.size()) return false;
    if (!seen[base]) {
      seen[base] = true;
      open.push_back(base);
    }
    return true;
  };
  if (!enter(offset(units[0]))) return false;
  while (!open.empty()) {
    const std::size_t base = open.back();
    open.pop_back();
    for (std::uint32_t label = 0; label < 256; ++label) {
      const std::size_t at = base ^ label;
      const std::uint32_t unit = units[at];
      if ((unit & ((1U << 31) | 0xFF)) != label) continue;
      const std::size_t next = at ^ offset(unit);
      if (!enter(next)) return false;
      const bool has_value = ((unit >> 8) & 1) != 0;
      if (has_value && (units[next] & ((1U << 31) - 1)) >= strings) return false;
    }
  }
  return true;
}

bool charsmap_is_closed(std::string_view map) {
  std::uint32_t bytes = 0;
  if (map.size() < sizeof bytes) return false;
  std::memcpy(&bytes, map.data(), sizeof bytes);
  map.remove_prefix(sizeof bytes);
  if (bytes > map.size() || bytes == 0 || bytes % (256 * sizeof(std::uint32_t)) != 0) return false;
  std::vector<std::uint32_t> units(bytes / sizeof(std::uint32_t));
  std::memcpy(units.data(), map.data(), bytes);
  const std::string_view strings = map.substr(bytes);
  return !strings.empty() && strings.back() == '\0' && trie_is_closed(units, strings.size());
}

}  // namespace

void check_model_proto(std::string_view model, const std::string& path) {
  for (Fields fields(model); fields.next();) {
    if (fields.number() == 1) {
      for (Fields piece(fields.bytes()); piece.next();) {
        const std::size_t nul = piece.number() == 1 ? piece.bytes().find('\0') : std::string_view::npos;
        if (nul != std::string_view::npos) {
          throw FileError(path, "not a SentencePiece model (a piece holds a NUL)",
                          piece.bytes().data() + nul - model.data());
        }
      }
    }
    if (fields.number() != 3 && fields.number() != 5) continue;
    for (Fields spec(fields.bytes()); spec.next();) {
      if (spec.number() == 2 && !spec.bytes().empty() && !charsmap_is_closed(spec.bytes())) {
        throw FileError(path, "not a SentencePiece model (its normalisation rules lead outside themselves)",
                        spec.bytes().data() - model.data());
      }
    }
  }
}

}  // namespace locant
