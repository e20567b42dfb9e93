// SPDX-License-Identifier: Apache-2.0
// A tokenizer that is an object of Python (locant.text.HubTokenizer).
#pragma once

#include "bindings.h"
#include "locant/text.h"

namespace locant::python {

class PythonTokenizer final : public Tokenizer {
 public:
  /// An object with kind, vocab, encode(str), decode(ids), piece(id).
  explicit PythonTokenizer(nb::object object);
  ~PythonTokenizer() override;
  PythonTokenizer(const PythonTokenizer&) = delete;
  PythonTokenizer& operator=(const PythonTokenizer&) = delete;
  [[nodiscard]] std::string kind() const override;
  [[nodiscard]] std::int64_t vocab() const override;
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view words) const override;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override;
  [[nodiscard]] std::string piece(std::int64_t id) const override;

 private:
  nb::object object_;
};

}  // namespace locant::python
