// SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own (bench/peers), one JSON line a request: prepared once per row, then asked
// for slices in turn with Locant, and stopped (SIGSTOP) in between, so that nothing of it spins while others
// are timed. What the machine lacks is absent from the table with its reason, never an error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locant::bench {

/// One way of a peer to do a row: "torch", "torch, packed weight".
struct Variant {
  std::string name;
  std::string note;   ///< what a reader must know of it
  double error = -1;  ///< largest deviation over the largest value of the f64 answer; -1 = not known
  bool wide = false;  ///< may use instructions beyond a forced target
};

struct Prepared {
  std::vector<Variant> variants;  ///< empty: the peer does not do this
  std::string failure;            ///< why it died or refused; "" = it did not
};

using Environment = std::vector<std::pair<std::string, std::string>>;

struct PeerCommand {
  std::string label;                   ///< "torch"
  std::vector<std::string> arguments;  ///< program, script, threads
  Environment environment;
};

class Peer {
 public:
  explicit Peer(PeerCommand command);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Waits for the greeting; "" = it is there, else why not.
  std::string greet();
  [[nodiscard]] const std::string& label() const noexcept { return command_.label; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< with its version
  Prepared prepare(const std::string& request);
  /// ns of one call, the best of a slice of `seconds`; none when it died (failure() says how).
  std::optional<double> slice(std::size_t variant, double seconds);
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

 private:
  void start();
  void stop();
  std::string ask(const std::string& line, double patience_s);
  PeerCommand command_;
  int in_ = -1;
  int out_ = -1;
  int process_ = -1;
  std::string name_;
  std::string pending_;
  std::string failure_;
};

struct Peers {
  std::vector<std::unique_ptr<Peer>> found;
  std::vector<std::pair<std::string, std::string>> missing;  ///< label and reason
};

struct PeerSearch {
  std::string interpreter;          ///< tried alone; "" = .venv and .venv-peers
  std::vector<std::string> labels;  ///< empty = all
  std::string target;               ///< forced, "" = none
  int threads = 1;
  bool quick = false;
};
/// Starts every peer at once, each in the environment where it belongs, and keeps those that greet; one that
/// does not is tried in the other environment.
[[nodiscard]] Peers find_peers(const PeerSearch& search);
/// What holds peers to a target, as far as they allow it.
[[nodiscard]] Environment environment_for(std::string_view target);

}  // namespace locant::bench
