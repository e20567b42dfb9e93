// SPDX-License-Identifier: Apache-2.0
// The frame of every benchmark row: the answer is checked against reference/ before anything is timed, then
// Locant, every peer and the machine's limit take turns in short slices of one run, and best and median are
// kept. Times are CPU time of the thread where one thread works, wall time otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "locant/threads.h"
#include "machine_limits.h"

namespace locant::bench {

/// What a row should reach: times the best peer of the same run, and percent of the limit; 0 = no goal.
struct Goal {
  double ratio = 0;
  double percent = 0;
};

/// One row. `run` is one call on memory that exists; `error` is the largest deviation over its budget (<= 1
/// passes).
struct Row {
  int number = 0;         ///< of the table in docs/speed.md; rows of one number belong together
  Goal avx2{}, avx512{};  ///< on a CPU with AVX2 alone, and with AVX-512
  std::string operation;  ///< "rotation"
  std::string shape;      ///< "T=512, 32 heads of 128, half"
  std::string dtype;
  Limit limit = Limit::fma;
  double amount = 0;             ///< operations or bytes of one call, by the limit's kind; 0 = no limit
  double flop = 0;               ///< f32 operations beside bytes: the slower of both limits counts
  double written = 0;            ///< bytes of them that are written, where that may be what takes the time
  std::int64_t working_set = 0;  ///< bytes the limit is measured on
  std::function<void()> run;
  std::function<double()> error;
  std::string peer;  ///< the peers' request as JSON, "" = none
};

/// A row before its memory is made.
struct RowPlan {
  int number = 0;         ///< Row::number
  std::string operation;  ///< Row::operation
  std::function<Row()> make;
};
using RowPlans = std::vector<RowPlan>;

struct Times {
  double best = 0;    ///< ns a call
  double median = 0;  ///< ns a call
};

struct PeerResult {
  std::string name;
  std::optional<Times> times;  ///< none: it died or refused, the note says how
  double error = -1;           ///< largest deviation over the largest value of the f64 answer; -1 = not known
  std::string note;
  bool wide = false;  ///< may use instructions beyond a forced target
};

/// Wall time of a row's parts, in seconds.
struct Spent {
  double check = 0;                                       ///< Locant's answer against the reference
  std::vector<std::pair<std::string, double>> prepare{};  ///< of each peer: inputs, compiling, its own answer
  double timing = 0;
};

struct Result {
  int number = 0;
  std::string operation, shape, dtype;
  int threads = 1;
  std::string date{};  ///< when it was measured
  double load = -1;    ///< of the machine then
  Spent spent{};
  double error = 0;               ///< of its budget
  std::optional<Times> locant{};  ///< none: the answer was wrong and was not timed
  std::string failure{};          ///< what the row threw
  std::vector<PeerResult> peers{};
  std::string limit_name{};
  bool compute = false;  ///< the limit is arithmetic, not memory
  double limit_ns = 0;
  Goal goal{};  ///< of the target in use

  /// Fastest of the peers that answer. Where arithmetic is the limit, peers held to the target go before
  /// others.
  [[nodiscard]] const PeerResult* best_peer() const noexcept;
  [[nodiscard]] double ratio() const noexcept;    ///< best peer over Locant, 0 = no peer
  [[nodiscard]] double percent() const noexcept;  ///< of the limit, 0 = no limit
  /// None where there is no goal, or no peer to judge it by.
  [[nodiscard]] std::optional<bool> goal_met() const noexcept;
};

struct Options {
  int threads = 1;
  double seconds = 0.36;  ///< per row and contender
  int slices = 12;        ///< at most
  std::string only;       ///< rows whose operation contains it, or "4,5": their numbers
  bool avx512 = false;    ///< judged by the goals of AVX-512
};
[[nodiscard]] bool wanted(const RowPlan& plan, const std::string& only);

struct Peers;
[[nodiscard]] Result measure(const Row& row, const Options& options, ThreadPool& pool, Peers& peers);

/// Deterministic values in [-1, 1).
[[nodiscard]] std::vector<float> values(std::size_t count, std::uint64_t seed);

void lookup_rows(ThreadPool& pool, RowPlans& plans);
void rotation_rows(ThreadPool& pool, RowPlans& plans);
void table_rows(ThreadPool& pool, RowPlans& plans);
void attention_rows(ThreadPool& pool, RowPlans& plans);
void head_rows(ThreadPool& pool, RowPlans& plans);
void block_rows(ThreadPool& pool, RowPlans& plans);
void model_rows(ThreadPool& pool, RowPlans& plans);

}  // namespace locant::bench
