// SPDX-License-Identifier: Apache-2.0
// The benchmarks: one table of every operation beside every peer found and the machine's limits (arguments.h
// has the flags).
#include <fmt/format.h>
#include <sys/personality.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "clock.h"
#include "frame.h"
#include "kernels/targets.h"
#include "locant/core.h"
#include "locant/ops.h"
#include "machine.h"
#include "peer.h"
#include "report.h"
#include "saved.h"

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

// The rows of the table that are asked for; `known` counts all.
RowPlans plans_of(ThreadPool& pool, const std::string& only, int& known) {
  RowPlans plans;
  for (const auto make :
       {lookup_rows, table_rows, rotation_rows, attention_rows, head_rows, block_rows, model_rows}) {
    make(pool, plans);
  }
  known = static_cast<int>(plans.size());
  std::erase_if(plans, [&](const RowPlan& plan) { return !wanted(plan, only); });
  return plans;
}

// A row that cannot be made says so and leaves the others.
std::optional<Row> made(const RowPlan& plan) {
  try {
    return plan.make();
  } catch (const std::exception& thrown) {
    fmt::print(stderr, "bench: a row of {} cannot be made: {}\n", plan.operation, thrown.what());
    return std::nullopt;
  }
}

// The JSON of one thread count where --save wants it, with the rows that were there.
struct Saved {
  std::string path;  // "" = not saved
  Json before;

  Saved(const Arguments& arguments, const RunInfo& info, int threads) {
    if (arguments.save.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(arguments.save, failed);
    if (failed) throw FileError(arguments.save, "cannot be made a folder: " + failed.message());
    path = fmt::format("{}/{}-{}-{}.json", arguments.save, cpu_slug(), info.target, threads);
    before = saved_run(path, json_of(info, {Run{.threads = threads}}));
  }
  void write(const Json& now) const {
    if (!path.empty()) write_whole(path, merged(before, now));
  }
};

// What one row is told by, before it is measured.
Json name_of_row(const Row& row, const RunInfo& info, int threads) {
  return json_of(
      info, Result{.operation = row.operation, .shape = row.shape, .dtype = row.dtype, .threads = threads});
}

/// `earlier` are the runs of other thread counts, for --output.
Run run_threads(const Arguments& arguments, const RunInfo& info, int threads,
                const std::vector<Run>& earlier) {
  const double start = now_ns(2);
  Run run{.threads = threads};
  const Saved saved(arguments, info, threads);
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
  RowPlans plans = plans_of(pool, options.only, run.rows_known);
  const Json now = json_of(info, {run});
  for (RowPlan& plan : plans) {
    const std::optional<Row> row = made(plan);
    plan.make = nullptr;  // and the memory that no later row shares
    if (!row) continue;
    if (arguments.resume && has_row(saved.before, now, name_of_row(*row, info, threads))) {
      ++run.rows_kept;
      continue;
    }
    run.results.push_back(measure(*row, options, pool, peers));
    if (!arguments.json) print_row(run.results.back());
    saved.write(json_of(info, {run}));
    if (!arguments.output.empty()) {
      std::vector<Run> all = earlier;
      all.push_back(run);
      write_whole(arguments.output, json_of(info, all));
    }
  }
  run.seconds = (now_ns(2) - start) / 1e9;
  if (!arguments.json) print_foot(run);
  return run;
}

int run(const Arguments& arguments) {
  const RunInfo info{.target = choose_target(arguments.target),
                     .forced = !arguments.target.empty(),
                     .load_start = load_average(),
                     .date = date_now(),
                     .flags = omissions(arguments),
                     .row_flags = row_flags(arguments)};
  constexpr double kQuiet = 0.5;
  if (info.load_start > kQuiet) {
    fmt::print(stderr,
               "bench: other programs run (load {:.1f}): times of two threads and of memory are soft\n",
               info.load_start);
  }
  std::vector<Run> runs;
  bool wrong = false;
  for (const int threads : arguments.threads) {
    runs.push_back(run_threads(arguments, info, threads, runs));
    for (const Result& result : runs.back().results) wrong = wrong || !result.locant;
  }
  const Json all = json_of(info, runs);
  if (arguments.json) fmt::print("{}\n", all.dump(1));
  if (!arguments.output.empty()) write_whole(arguments.output, all);
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
