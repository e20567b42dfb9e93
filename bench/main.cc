// SPDX-License-Identifier: Apache-2.0
// usage: bench_locant [--threads N] [--only OPERATION] [--seconds S] [--peer PYTHON] [--json]
// One table: operation, shape, dtype, threads, Locant, the peer, the limit measured in the same run, percent
// of it.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frame.h"
#include "locant/core.h"
#include "locant/ops.h"
#include "peer.h"

namespace {

using namespace locant;
using namespace locant::bench;

constexpr const char* kUsage =
    "usage: bench_locant [--threads N] [--only OPERATION] [--seconds S] [--peer PYTHON] [--json]\n";

struct Arguments {
  Options options;
  std::string interpreter = LOCANT_SOURCE_DIR "/.venv/bin/python";
  bool json = false;
};

Arguments parse(const std::vector<std::string>& args) {
  Arguments result;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--json") {
      result.json = true;
      continue;
    }
    if (i + 1 == args.size()) throw SpecError(args[i] + " needs a value, or is no flag");
    const std::string& value = args[i + 1];
    if (args[i] == "--threads") {
      result.options.threads = std::stoi(value);
    } else if (args[i] == "--only") {
      result.options.only = value;
    } else if (args[i] == "--seconds") {
      result.options.seconds = std::stod(value);
    } else if (args[i] == "--peer") {
      result.interpreter = value;
    } else {
      throw SpecError(args[i] + " is no flag");
    }
    ++i;
  }
  return result;
}

std::string time_text(double ns) {
  if (ns < 1e4) return fmt::format("{:.0f} ns", ns);
  return ns < 1e7 ? fmt::format("{:.1f} us", ns / 1e3) : fmt::format("{:.1f} ms", ns / 1e6);
}

void print_row(const Result& r) {
  const std::string head = fmt::format("{:<17} {:<46} {:<9}", r.operation, r.shape, r.dtype);
  if (!r.locant) {
    fmt::print("{} wrong: {:.2f} of its error budget, not timed\n", head, r.error);
    return;
  }
  std::string peer = fmt::format("{:>10} {:>7}", "-", "-");
  if (r.peer) peer = fmt::format("{:>10} {:>6.1f}x", time_text(r.peer->best), r.peer->best / r.locant->best);
  // Loading has no limit worth the name.
  const std::string limit = r.limit_ns > 0 ? fmt::format("{:>10} {:>5.0f} %", time_text(r.limit_ns),
                                                         100 * r.limit_ns / r.locant->best)
                                           : fmt::format("{:>10} {:>7}", "-", "-");
  fmt::print("{} {:>10} {:>10} {} {}\n", head, time_text(r.locant->best), time_text(r.locant->median), peer,
             limit);
  std::fflush(stdout);
}

nlohmann::ordered_json json_row(const Result& r) {
  nlohmann::ordered_json row{{"operation", r.operation}, {"shape", r.shape}, {"dtype", r.dtype},
                             {"threads", r.threads},     {"error", r.error}, {"ns", nullptr},
                             {"median_ns", nullptr},     {"peer", nullptr},  {"peer_ns", nullptr},
                             {"limit_ns", r.limit_ns}};
  if (r.locant) {
    row["ns"] = r.locant->best;
    row["median_ns"] = r.locant->median;
  }
  if (r.peer) {
    row["peer"] = r.peer_name;
    row["peer_ns"] = r.peer->best;
  }
  return row;
}

int run(const Arguments& arguments) {
  ThreadPool pool(arguments.options.threads);
  const auto peer = Peer::start(arguments.interpreter, LOCANT_SOURCE_DIR "/bench/peers/torch_peer.py",
                                arguments.options.threads);
  const std::string target = cpu_targets().front();
  if (!arguments.json) {
    fmt::print("locant {}, {}, {} thread{}; peer: {}\n", version(), target, pool.size(),
               pool.size() == 1 ? "" : "s", peer == nullptr ? "none found" : peer->name());
    fmt::print("{:<17} {:<46} {:<9} {:>10} {:>10} {:>10} {:>7} {:>10} {:>7}\n", "operation", "shape", "",
               "best", "median", "peer", "ratio", "limit", "of it");
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  bool wrong = false;
  for (const auto make :
       {lookup_rows, table_rows, rotation_rows, attention_rows, head_rows, block_rows, model_rows}) {
    Rows made;
    make(pool, made);
    for (const Row& row : made) {
      if (row.operation.find(arguments.options.only) == std::string::npos) continue;
      const Result result = measure(row, arguments.options, pool, peer.get());
      wrong = wrong || !result.locant;
      if (!arguments.json) print_row(result);
      rows.push_back(json_row(result));
    }
  }
  if (arguments.json) {
    const nlohmann::ordered_json all{{"schema_version", 1},
                                     {"tool", "locant"},
                                     {"version", version()},
                                     {"command", "bench"},
                                     {"machine", {{"target", target}, {"threads", pool.size()}}},
                                     {"rows", rows}};
    fmt::print("{}\n", all.dump(1));
  }
  return wrong ? 1 : 0;
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::vector<std::string> args(values + 1, values + count);
    if (args == std::vector<std::string>{"--help"}) {
      fmt::print("{}", kUsage);
      return 0;
    }
    return run(parse(args));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n{}", error.what(), kUsage);
    return 2;
  }
}
