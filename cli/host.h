// SPDX-License-Identifier: Apache-2.0
// What the command needs of the process it runs in: streams, environment, place, tokenizers, other runtimes.
// main.cc gives the native one; Python's brings tokenizers, and the runtimes that it can record and drive.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "locant/runtime.h"
#include "locant/text.h"

namespace locant::cli {

/// A recording of another runtime, or the import of what another tool dumped.
struct RecordJob {
  std::string runtime;                         ///< "hf", "onnx", "llama.cpp"
  std::string model;                           ///< path
  std::string dump;                            ///< a directory or file of another tool to import; "" = run
  std::string output;                          ///< the trace to write
  std::vector<std::vector<std::int64_t>> ids;  ///< rows of the prompt
  std::int64_t steps = 0;                      ///< greedy tokens after the prompt, one pass each
  std::string pad;                             ///< "left" or "right": where uneven rows are filled up
};

class Host {
 public:
  virtual ~Host() = default;
  [[nodiscard]] virtual std::ostream& out() = 0;
  [[nodiscard]] virtual std::ostream& err() = 0;
  [[nodiscard]] virtual bool out_is_terminal() const = 0;
  [[nodiscard]] virtual bool err_is_terminal() const = 0;
  /// The value of an environment variable, "" when unset.
  [[nodiscard]] virtual std::string environment(const std::string& name) const;
  /// Path of the executable, where bundled models are looked for; "" when unknown.
  [[nodiscard]] virtual std::string executable() const = 0;
  /// Largest resident memory of the process so far, bytes.
  [[nodiscard]] virtual std::int64_t peak_bytes() const;
  /// Memory that can still be taken, bytes; nothing where the system does not tell.
  [[nodiscard]] virtual std::optional<std::int64_t> available_bytes() const;
  /// `model` as locant::open_tokenizer() takes it.
  [[nodiscard]] virtual OpenedTokenizer open_tokenizer(const std::string& model) {
    return locant::open_tokenizer(model);
  }
  /// Records another runtime. Throws UsageError with the line that gets it where this host has none.
  virtual void record(const RecordJob& job);
  /// Another runtime, to be driven live ("hf"). Throws like record().
  [[nodiscard]] virtual std::unique_ptr<Runtime> open_runtime(const std::string& name,
                                                              const std::string& model);
};

}  // namespace locant::cli
