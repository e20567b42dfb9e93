// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON: a document that prints and parses back to itself, or a FileError inside the input.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "formats/json.h"
#include "formats/safetensors_index.h"
#include "locant/core.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const locant::Json json = locant::parse_json(text, "fuzz");
    if (locant::parse_json(json.dump(), "again") != json) std::abort();
    (void)locant::json_text(json);
  } catch (const locant::FileError& error) {
    if (error.offset < 0 || error.offset > static_cast<std::int64_t>(size)) std::abort();
  }
  try {
    (void)locant::parse_safetensors_index(text, "fuzz");
  } catch (const locant::FileError&) {
  }
  return 0;
}
