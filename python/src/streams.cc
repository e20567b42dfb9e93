// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <unistd.h>

#include <cerrno>

namespace locant::python {

DescriptorBuffer::DescriptorBuffer(int descriptor) : descriptor_(descriptor), kept_(1 << 16) {
  setp(kept_.data(), kept_.data() + kept_.size());
}

DescriptorBuffer::~DescriptorBuffer() {
  static_cast<void>(drain());
}

bool DescriptorBuffer::drain() {
  const char* from = pbase();
  while (from < pptr()) {
    const ssize_t written = ::write(descriptor_, from, static_cast<std::size_t>(pptr() - from));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      setp(kept_.data(), kept_.data() + kept_.size());
      return false;
    }
    from += written;
  }
  setp(kept_.data(), kept_.data() + kept_.size());
  return true;
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type c) {
  if (!drain()) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int DescriptorBuffer::sync() {
  return drain() ? 0 : -1;
}

DescriptorHost::DescriptorHost(int out, int err)
    : out_descriptor_(out),
      err_descriptor_(err),
      out_buffer_(out),
      err_buffer_(err),
      out_(&out_buffer_),
      err_(&err_buffer_) {
  err_.setf(std::ios_base::unitbuf);
}

bool DescriptorHost::out_is_terminal() const {
  return isatty(out_descriptor_) != 0;
}
bool DescriptorHost::err_is_terminal() const {
  return isatty(err_descriptor_) != 0;
}

}  // namespace locant::python
