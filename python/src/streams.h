// SPDX-License-Identifier: Apache-2.0
// Hosts of the command inside a Python process: one that keeps its answer as text, one that writes to the
// files that sys.stdout and sys.stderr stand for and brings what Python has.
#pragma once

#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "bindings.h"
#include "cli/host.h"

namespace locant::python {

/// Where the package lies: bundled models are in models/ there. The GIL is held.
[[nodiscard]] std::string package_place();

/// What Python supplies: environment, place, tokenizers, other runtimes.
class PythonHost : public cli::Host {
 public:
  PythonHost() : place_(package_place()) {}
  [[nodiscard]] std::string executable() const override { return place_; }
  [[nodiscard]] OpenedTokenizer open_tokenizer(const std::string& model) override;
  void record(const cli::RecordJob& job) override;
  [[nodiscard]] std::unique_ptr<Runtime> open_runtime(const std::string& name,
                                                      const std::string& model) override;

 private:
  std::string place_;
};

class TextHost final : public PythonHost {
 public:
  [[nodiscard]] std::ostream& out() override { return out_; }
  [[nodiscard]] std::ostream& err() override { return err_; }
  [[nodiscard]] bool out_is_terminal() const override { return false; }
  [[nodiscard]] bool err_is_terminal() const override { return false; }
  [[nodiscard]] std::string out_text() const { return out_.str(); }
  [[nodiscard]] std::string err_text() const { return err_.str(); }

 private:
  std::ostringstream out_;
  std::ostringstream err_;
};

/// A stream over a file descriptor that it does not own.
class DescriptorBuffer final : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor);
  ~DescriptorBuffer() override;
  DescriptorBuffer(const DescriptorBuffer&) = delete;
  DescriptorBuffer& operator=(const DescriptorBuffer&) = delete;

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  [[nodiscard]] bool drain();
  int descriptor_;
  std::vector<char> kept_;
};

class DescriptorHost final : public PythonHost {
 public:
  DescriptorHost(int out, int err);
  [[nodiscard]] std::ostream& out() override { return out_; }
  [[nodiscard]] std::ostream& err() override { return err_; }
  [[nodiscard]] bool out_is_terminal() const override;
  [[nodiscard]] bool err_is_terminal() const override;

 private:
  int out_descriptor_;
  int err_descriptor_;
  DescriptorBuffer out_buffer_;
  DescriptorBuffer err_buffer_;
  std::ostream out_;
  std::ostream err_;
};

}  // namespace locant::python
