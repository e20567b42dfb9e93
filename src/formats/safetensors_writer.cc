// SPDX-License-Identifier: Apache-2.0
// Data goes to a spool as it comes; the header, which needs every offset, is put in front at the end. Tensors
// stand in the order of add(), so an element may be unaligned after one of a smaller dtype.
#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/output_file.h"
#include "core/quote.h"
#include "formats/json.h"
#include "formats/row_major.h"
#include "formats/safetensors_header.h"
#include "locant/formats.h"

namespace locant {
namespace {

void check_text(std::string_view what, std::string_view text) {
  try {
    (void)Json(text).dump();
  } catch (const Json::exception&) {
    throw SpecError(fmt::format("safetensors: {} is utf-8, got {}", what, quote(text)));
  }
}

}  // namespace

struct SafetensorsWriter::State {
  explicit State(std::string path_) : path(std::move(path_)), spool(path) {}
  std::string path;
  SpoolFile spool;
  Json header = Json::object();
  bool finished = false;
};

SafetensorsWriter::SafetensorsWriter(std::string path) : state_(std::make_unique<State>(std::move(path))) {}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::add(std::string_view name, const TensorRef& tensor) {
  if (state_->finished) throw SpecError("safetensors: nothing is added after finish()");
  check_text("a tensor's name", name);
  if (name == kSafetensorsMetadata) {
    throw SpecError(fmt::format("safetensors: {} is no tensor's name", quote(name)));
  }
  if (state_->header.contains(name)) {
    throw SpecError(fmt::format("safetensors: tensor {} is added twice", quote(name)));
  }
  const std::int64_t bytes = checked_bytes("safetensors", tensor);
  const std::int64_t begin = state_->spool.written();
  for_each_block(tensor, [&](std::span<const std::byte> block) { state_->spool.write(block); });
  state_->header[std::string(name)] = {
      {"dtype", safetensors_name_of(tensor.dtype)},
      {"shape", std::vector<std::int64_t>(tensor.shape.begin(),
                                          tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank))},
      {"data_offsets", {begin, begin + bytes}}};
}

void SafetensorsWriter::set_metadata(std::string_view key, std::string_view value) {
  if (state_->finished) throw SpecError("safetensors: nothing is added after finish()");
  check_text("a metadata key", key);
  check_text("a metadata value", value);
  state_->header[std::string(kSafetensorsMetadata)][std::string(key)] = value;
}

void SafetensorsWriter::finish() {
  if (state_->finished) throw SpecError("safetensors: finish() comes once");
  std::string text = state_->header.dump();
  text.append((8 - text.size() % 8) % 8,
              ' ');  // the data begins at a multiple of 8, as the reference writes it
  if (static_cast<std::int64_t>(text.size()) > kLargestSafetensorsHeader) {
    throw SpecError(fmt::format("safetensors: a header has at most {} bytes, this one {}",
                                kLargestSafetensorsHeader, text.size()));
  }
  const std::uint64_t length = text.size();
  std::array<std::byte, 8> prefix{};
  std::memcpy(prefix.data(), &length, sizeof(length));
  OutputFile out(state_->path);
  out.write(prefix);
  out.write(text);
  state_->spool.copy_to(out);
  out.commit();
  state_->finished = true;
}

}  // namespace locant
