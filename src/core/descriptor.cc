// SPDX-License-Identifier: Apache-2.0
#include "core/descriptor.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace locant {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Descriptor::release() noexcept {
  return std::exchange(fd_, -1);
}

void Descriptor::close() noexcept {
  if (fd_ >= 0) ::close(release());
}

std::string errno_text(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace locant
