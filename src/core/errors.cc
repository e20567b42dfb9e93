// SPDX-License-Identifier: Apache-2.0
#include "locant/core.h"

namespace locant {
namespace {

std::string sentence(const std::string& path, const std::string& cause, std::int64_t offset) {
  std::string text = path + ": " + cause;
  if (offset >= 0) text += ", at byte " + std::to_string(offset);
  return text;
}

}  // namespace

FileError::FileError(std::string path_, const std::string& cause, std::int64_t offset_)
    : std::runtime_error(sentence(path_, cause, offset_)), path(std::move(path_)), offset(offset_) {}

}  // namespace locant
