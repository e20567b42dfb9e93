// SPDX-License-Identifier: Apache-2.0
// The benchmarks: one table of every operation beside every peer found and the machine's limits (arguments.h
// has the flags).
#include <fmt/format.h>
#include <sys/personality.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "frame.h"
#include "kernels/targets.h"
#include "locant/core.h"
#include "locant/ops.h"
#include "machine.h"
#include "peer.h"
#include "report.h"

namespace {

using namespace locant;
using namespace locant::bench;

// Everybody on the same pages: large blocks of malloc ask for huge ones, here and in the peers. And at the
// same addresses in every run: short calls differ by a third with how their memory lies.
void run_on_known_pages(char** arguments) {
  constexpr const char* kName = "GLIBC_TUNABLES";
  if (std::getenv(kName) != nullptr) return;
  setenv(kName, "glibc.malloc.hugetlb=1", 1);
  const int now = personality(0xFFFFFFFF);
  if (now != -1) personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
  execv("/proc/self/exe", arguments);
}

// The instruction set in use, as cpu_targets() names it.
std::string choose_target(const std::string& wanted) {
  if (wanted.empty()) return cpu_targets().front();
  std::string known;
  for (const kernels::Target& target : kernels::targets()) {
    if (target.name == wanted) {
      kernels::use_only_target(target);
      return std::string(target.name);
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", target.name);
  }
  throw SpecError(fmt::format("--target: this CPU has {}, got {}", known, wanted));
}

void write(const std::string& path, const nlohmann::ordered_json& all) {
  std::ofstream file(path);
  file << all.dump(1) << '\n';
  if (!file.flush()) throw FileError(path, "cannot be written");
}

// Rows of a room that cannot be made say so and leave the others.
std::vector<Row> rows_of(void (*make)(ThreadPool&, Rows&), ThreadPool& pool) {
  Rows rows;
  try {
    make(pool, rows);
  } catch (const std::exception& thrown) {
    fmt::print(stderr, "bench: rows that cannot be made: {}\n", thrown.what());
  }
  return rows;
}

Run run_threads(const Arguments& arguments, const RunInfo& info, int threads) {
  Run run{.threads = threads};
  ThreadPool pool(threads);
  Peers peers;
  if (arguments.peers != std::vector<std::string>{"none"}) {
    peers = find_peers({.interpreter = arguments.interpreter,
                        .labels = arguments.peers,
                        .target = info.forced ? info.target : "",
                        .threads = threads,
                        .quick = arguments.quick});
  }
  for (const auto& peer : peers.found) run.peers.emplace_back(peer->label(), peer->name());
  run.missing = peers.missing;
  run.rates = machine_rates(pool);
  if (!arguments.json) print_head(info, run);
  Options options = arguments.options;
  options.threads = threads;
  options.avx512 = std::string_view(info.target).starts_with("AVX3");
  for (const auto make :
       {lookup_rows, table_rows, rotation_rows, attention_rows, head_rows, block_rows, model_rows}) {
    for (const Row& row : rows_of(make, pool)) {
      if (!wanted(row, options.only)) continue;
      run.results.push_back(measure(row, options, pool, peers));
      if (!arguments.json) print_row(run.results.back());
    }
  }
  if (!arguments.json) print_foot(run);
  return run;
}

int run(const Arguments& arguments) {
  const RunInfo info{.target = choose_target(arguments.target),
                     .forced = !arguments.target.empty(),
                     .load_start = load_average(),
                     .date = date_now(),
                     .flags = omissions(arguments)};
  constexpr double kQuiet = 0.5;
  if (info.load_start > kQuiet) {
    fmt::print(stderr,
               "bench: other programs run (load {:.1f}): times of two threads and of memory are soft\n",
               info.load_start);
  }
  std::vector<Run> runs;
  bool wrong = false;
  for (const int threads : arguments.threads) {
    runs.push_back(run_threads(arguments, info, threads));
    for (const Result& result : runs.back().results) wrong = wrong || !result.locant;
    if (!arguments.save.empty()) {
      write(fmt::format("{}/{}-{}-{}.json", arguments.save, cpu_slug(), info.target, threads),
            json_of(info, {runs.back()}));
    }
  }
  const auto all = json_of(info, runs);
  if (arguments.json) fmt::print("{}\n", all.dump(1));
  if (!arguments.output.empty()) write(arguments.output, all);
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
    const Arguments arguments = parse(args);
    run_on_known_pages(values);
    return run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 2;
  }
}
