// SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own (bench/peers/torch_peer.py): prepared once per row, then asked for slices in
// turn with Locant. What the machine lacks is absent from the table, never an error.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace locant::bench {

class Peer {
 public:
  /// Null when the interpreter or its packages are not there.
  static std::unique_ptr<Peer> start(const std::string& interpreter, const std::string& script, int threads);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// False when the peer does not know the request.
  bool prepare(const std::string& request);
  /// ns of one call, the best of a slice of `seconds`.
  std::optional<double> slice(double seconds);

 private:
  Peer() = default;
  std::string ask(const std::string& line);
  int in_ = -1;
  int out_ = -1;
  int process_ = -1;
  std::string name_;
  std::string pending_;
};

}  // namespace locant::bench
