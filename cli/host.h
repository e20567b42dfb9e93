// SPDX-License-Identifier: Apache-2.0
// What the command needs of the process it runs in: streams, environment, place, tokenizers. main.cc gives
// the native one; another host (Python) may bring tokenizers that Locant does not read itself.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "locant/text.h"

namespace locant::cli {

class Host {
 public:
  virtual ~Host() = default;
  [[nodiscard]] virtual std::ostream& out() = 0;
  [[nodiscard]] virtual std::ostream& err() = 0;
  [[nodiscard]] virtual bool out_is_terminal() const = 0;
  [[nodiscard]] virtual bool err_is_terminal() const = 0;
  /// The value of an environment variable, "" when unset.
  [[nodiscard]] virtual std::string environment(const std::string& name) const = 0;
  /// Path of the executable, where bundled models are looked for; "" when unknown.
  [[nodiscard]] virtual std::string executable() const = 0;
  /// Largest resident memory of the process so far, bytes.
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;
  [[nodiscard]] virtual OpenedTokenizer open_tokenizer(const std::string& directory) {
    return locant::open_tokenizer(directory);
  }
};

}  // namespace locant::cli
