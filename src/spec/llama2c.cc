// SPDX-License-Identifier: Apache-2.0
// The header of a llama2.c export. Version 0: seven int32 (width, mlp width, layers, heads, kv heads,
// vocabulary, length), a negative vocabulary = a head of its own. Versions 1 and 2: "ak42", the version, the
// same seven, one byte that says whether the head is shared. Little-endian.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "core/mapped_file.h"
#include "locant/spec.h"
#include "spec/config.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

constexpr std::int64_t kIntegers = 7;
constexpr std::uint32_t kMagic = 0x616b3432;

std::int32_t integer_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8U | std::to_integer<std::uint32_t>(bytes[offset + i]);
  return static_cast<std::int32_t>(value);
}

/// A zip archive, or a pickle of protocol 2 to 5: no header of llama2.c has such sizes.
bool is_of_pytorch(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kZip = 0x04034B50;
  constexpr std::byte kPickle{0x80};
  const auto protocol = std::to_integer<int>(bytes[1]);
  const bool pickled = bytes[0] == kPickle && protocol >= 2 && protocol <= 5;
  const bool is_opcode = bytes[2] == std::byte{0x8A} || bytes[2] == std::byte{'}'} ||
                         bytes[2] == std::byte{'c'} || bytes[2] == std::byte{0x95};
  return static_cast<std::uint32_t>(integer_at(bytes, 0)) == kZip || (pickled && is_opcode);
}

struct Header {
  std::array<std::int64_t, kIntegers> sizes{};
  bool tied = false;
};

Header read_header(const MappedFile& file) {
  constexpr std::int64_t kShort = 4 * kIntegers;
  constexpr std::int64_t kLong = 4 * (kIntegers + 2) + 1;
  const auto refuse_length = [&](std::int64_t needed) {
    throw FileError(file.path(),
                    fmt::format("a llama2.c header must have {} bytes, the file has {}", needed, file.size()),
                    0);
  };
  if (file.size() < kShort) refuse_length(kShort);
  if (is_of_pytorch(file.bytes())) {
    throw FileError(file.path(),
                    "a .bin must be a llama2.c export, this is a PyTorch file; give a directory that holds "
                    "the model as safetensors",
                    0);
  }
  std::size_t first = 0;
  Header header;
  if (static_cast<std::uint32_t>(integer_at(file.bytes(), 0)) == kMagic) {
    if (file.size() < kLong) refuse_length(kLong);
    const std::int32_t version = integer_at(file.bytes(), 4);
    if (version != 1 && version != 2) {
      throw FileError(file.path(), fmt::format("a llama2.c version must be 0, 1 or 2, got {}", version), 4);
    }
    first = 8;
    header.tied = file.bytes()[first + 4 * kIntegers] != std::byte{0};
  }
  for (std::size_t i = 0; i < header.sizes.size(); ++i)
    header.sizes[i] = integer_at(file.bytes(), first + 4 * i);
  std::int64_t& vocab = header.sizes[5];
  if (first == 0) {
    header.tied = vocab > 0;
    vocab = vocab < 0 ? -vocab : vocab;
  }
  constexpr std::array<std::string_view, kIntegers> kNames = {
      "dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < header.sizes.size(); ++i) {
    if (header.sizes[i] >= 1) continue;
    throw FileError(file.path(), fmt::format("{} must be at least 1, got {}", kNames[i], header.sizes[i]),
                    static_cast<std::int64_t>(first + 4 * i));
  }
  return header;
}

void check_sizes(const std::string& path, const ModelSpec& spec) {
  if (spec.layers > kMostLayers) {
    throw FileError(path, fmt::format("n_layers must be at most {}, got {}", kMostLayers, spec.layers));
  }
  if (spec.hidden % spec.heads != 0 || spec.heads % spec.kv_heads != 0) {
    throw FileError(path, fmt::format("dim, n_heads and n_kv_heads must divide each other, got {}, {} and {}",
                                      spec.hidden, spec.heads, spec.kv_heads));
  }
  if (spec.heads > kMostHeads || spec.hidden / spec.heads > kWidestHead) {
    throw FileError(path, fmt::format("a model must have at most {} heads of at most {}, got {} of {}",
                                      kMostHeads, kWidestHead, spec.heads, spec.hidden / spec.heads));
  }
}

}  // namespace

ModelSpec read_llama2c(const std::string& path) {
  const MappedFile file(path);
  const Header header = read_header(file);
  ModelSpec spec;
  spec.family = "llama";
  spec.format = "llama2c";
  spec.path = path;
  spec.hidden = header.sizes[0];
  spec.mlp = {.activation = Activation::silu, .gated = true, .bias = false, .width = header.sizes[1]};
  spec.layers = header.sizes[2];
  spec.heads = header.sizes[3];
  spec.kv_heads = header.sizes[4];
  spec.vocab = header.sizes[5];
  check_sizes(path, spec);
  spec.head_dim = spec.hidden / spec.heads;
  spec.norm = {.kind = NormKind::rms, .eps = 1e-5};
  spec.embedding.rows = spec.vocab;
  spec.embedding.width = spec.hidden;
  spec.head.tied = header.tied;
  spec.lengths.configured = header.sizes[6];
  spec.lengths.configured_key = "seq_len";
  spec.attention.assign(static_cast<std::size_t>(spec.layers),
                        {.scale = 1 / std::sqrt(static_cast<double>(spec.head_dim))});
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("head_dim", spec.head_dim);
  rope.set("pairing", std::string("interleaved"));
  rope.set("theta", 10000.0);
  every_layer(spec, rope);
  return spec;
}

}  // namespace locant
