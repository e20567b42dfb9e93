// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "locant/core.h"
#include "machine.h"

namespace locant::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string time_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e4) return fmt::format("{:.2f} us", ns / 1e3);
  if (ns < 1e6) return fmt::format("{:.0f} us", ns / 1e3);
  return ns < 1e8 ? fmt::format("{:.2f} ms", ns / 1e6) : fmt::format("{:.0f} ms", ns / 1e6);
}

std::string goal_text(const Result& r) {
  std::string text;
  if (r.goal.ratio > 0) text = fmt::format("{:g}x", r.goal.ratio);
  if (r.goal.percent > 0) text += fmt::format("{}{:g} %", text.empty() ? "" : " ", r.goal.percent);
  if (text.empty()) return "-";
  const auto met = r.goal_met();
  return text + (!met ? ": no peer" : *met ? ": met" : ": missed");
}

std::string peer_text(const PeerResult& peer, bool best) {
  if (!peer.times) return fmt::format("{}: {}", peer.name, peer.note);
  constexpr double kWorthSaying = 1e-3;
  std::string remarks = peer.note;
  if (peer.wide) remarks = "wider instructions" + (remarks.empty() ? "" : ", " + remarks);
  if (peer.error > kWorthSaying) {
    remarks += fmt::format("{}off by {:.2g} %", remarks.empty() ? "" : ", ", 100 * peer.error);
  }
  return fmt::format("{}{} {}{}", best ? "*" : "", peer.name, time_text(peer.times->best),
                     remarks.empty() ? "" : " (" + remarks + ")");
}

Json number_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json peers_json(const Result& r) {
  Json peers = Json::object();
  for (const PeerResult& peer : r.peers) {
    Json one{{"ns", nullptr}, {"median_ns", nullptr}, {"error", nullptr}, {"note", peer.note}};
    if (peer.times) {
      one["ns"] = peer.times->best;
      one["median_ns"] = peer.times->median;
    }
    if (peer.error >= 0) one["error"] = peer.error;
    if (peer.wide) one["wide"] = true;
    peers[peer.name] = one;
  }
  return peers;
}

// Hundredths of a second are enough.
double hundredths(double seconds) {
  return std::round(100 * seconds) / 100;
}

Json spent_json(const Spent& spent) {
  Json prepare = Json::object();
  for (const auto& [peer, seconds] : spent.prepare) prepare[peer] = hundredths(seconds);
  return {{"check", hundredths(spent.check)}, {"prepare", prepare}, {"timing", hundredths(spent.timing)}};
}

Json limits_json(const std::vector<Rate>& rates) {
  Json limits = Json::object();
  for (const Rate& rate : rates) {
    const Json one{{"best", rate.best}, {"median", rate.median}};
    if (rate.level.empty()) {
      limits[std::string(name_of(rate.limit))] = one;
    } else {
      limits[std::string(name_of(rate.limit))][std::string(rate.level)] = one;
    }
  }
  return limits;
}

}  // namespace

void print_head(const RunInfo& info, const Run& run) {
  fmt::print("locant {}, {}{}, {} thread{}, {}, {}\n", version(), info.target, info.forced ? " (forced)" : "",
             run.threads, run.threads == 1 ? "" : "s", cpu_model(), info.date);
  std::string found = run.peers.empty() ? "none" : "";
  for (const auto& [label, name] : run.peers) found += fmt::format("{}{}", found.empty() ? "" : "; ", name);
  fmt::print("peers: {}\n", found);
  std::string missing;
  for (const auto& [label, reason] : run.missing) {
    missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", label, reason);
  }
  if (!missing.empty()) fmt::print("not found: {}\n", missing);
  if (info.forced) {
    std::string held;
    for (const auto& [name, value] : environment_for(info.target)) held += fmt::format(" {}={}", name, value);
    fmt::print("peers run under{}; those that cannot be held say \"wider instructions\"\n",
               held.empty() ? " their defaults" : held);
  }
  std::string compute;
  for (const Rate& rate : run.rates) {
    if (rate.level.empty()) {
      compute +=
          fmt::format("{}{} {:.0f}", compute.empty() ? "" : ", ", name_of(rate.limit), rate.best / 1e9);
    }
  }
  if (!compute.empty()) fmt::print("limits, Gop/s: {}\n", compute);
  for (const std::string_view level : {"L1", "L2", "L3", "DRAM"}) {
    std::string line;
    for (const Rate& rate : run.rates) {
      if (rate.level == level) line += fmt::format(", {} {:.0f}", name_of(rate.limit), rate.best / 1e9);
    }
    if (!line.empty()) fmt::print("        GB/s, {}{}\n", level, line);
  }
  fmt::print("\n{:>3} {:<16} {:<46} {:<11} {:>3} {:>9} {:>9} {:>9} {:>7} {:>9} {:>6}  {}\n", "row",
             "operation", "shape", "", "thr", "best", "median", "peer", "ratio", "limit", "of it", "goal");
  std::fflush(stdout);
}

void print_row(const Result& r) {
  const std::string head =
      fmt::format("{:>3} {:<16} {:<46} {:<11} {:>3}", r.number == 0 ? "" : fmt::format("{}", r.number),
                  r.operation, r.shape, r.dtype, r.threads);
  if (!r.failure.empty()) {
    fmt::print("{} failed: {}\n", head, r.failure);
  } else if (!r.locant) {
    fmt::print("{} wrong: {:.2f} of its error budget, not timed\n", head, r.error);
  } else {
    const PeerResult* const best = r.best_peer();
    const std::string peer = best == nullptr
                                 ? fmt::format("{:>9} {:>7}", "-", "-")
                                 : fmt::format("{:>9} {:>6.2f}x", time_text(best->times->best), r.ratio());
    // Loading has no limit worth the name.
    const std::string limit = r.limit_ns > 0
                                  ? fmt::format("{:>9} {:>4.0f} %", time_text(r.limit_ns), r.percent())
                                  : fmt::format("{:>9} {:>6}", "-", "-");
    fmt::print("{} {:>9} {:>9} {} {}  {}\n", head, time_text(r.locant->best), time_text(r.locant->median),
               peer, limit, goal_text(r));
    std::string peers;
    for (const PeerResult& one : r.peers) peers += (peers.empty() ? "" : "; ") + peer_text(one, &one == best);
    if (!peers.empty()) fmt::print("      {}\n", peers);
  }
  std::fflush(stdout);
}

void print_foot(const Run& run) {
  int goals = 0, met = 0;
  for (const Result& result : run.results) {
    const auto reached = result.goal_met();
    goals += reached ? 1 : 0;
    met += reached.value_or(false) ? 1 : 0;
  }
  fmt::print("\n{} of {} rows, {} thread{}: {} of {} goals met\n", run.results.size(), run.rows_known,
             run.threads, run.threads == 1 ? "" : "s", met, goals);
  if (run.rows_kept > 0) fmt::print("{} rows are kept from an earlier run\n", run.rows_kept);
  double check = 0, prepare = 0, timing = 0;
  for (const Result& result : run.results) {
    check += result.spent.check;
    timing += result.spent.timing;
    for (const auto& [_, seconds] : result.spent.prepare) prepare += seconds;
  }
  fmt::print(
      "{:.0f} s: {:.0f} s of timing, {:.0f} s of preparing and checking peers, {:.0f} s of checking "
      "Locant\n\n",
      run.seconds, timing, prepare, check);
}

Json json_of(const RunInfo& info, const Result& r) {
  Json row{{"row", r.number},
           {"operation", r.operation},
           {"shape", r.shape},
           {"dtype", r.dtype},
           {"threads", r.threads},
           {"ns", nullptr},
           {"median_ns", nullptr},
           {"error", r.error},
           {"peer", nullptr},
           {"peer_ns", nullptr},
           {"ratio", number_or_null(r.ratio())},
           {"peers", peers_json(r)},
           {"limit", r.limit_name},
           {"limit_ns", number_or_null(r.limit_ns)},
           {"percent", number_or_null(r.percent())},
           {"goal_ratio", number_or_null(r.goal.ratio)},
           {"goal_percent", number_or_null(r.goal.percent)},
           {"goal_met", nullptr},
           {"date", r.date},
           {"load", r.load},
           {"flags", info.row_flags},
           {"spent_s", spent_json(r.spent)}};
  if (!r.failure.empty()) row["failure"] = r.failure;
  if (r.locant) {
    row["ns"] = r.locant->best;
    row["median_ns"] = r.locant->median;
  }
  if (const PeerResult* const peer = r.best_peer()) {
    row["peer"] = peer->name;
    row["peer_ns"] = peer->times->best;
  }
  if (const auto met = r.goal_met()) row["goal_met"] = *met;
  return row;
}

Json json_of(const RunInfo& info, const std::vector<Run>& runs) {
  Json threads = Json::array(), limits = Json::object(), rows = Json::array(), peers = Json::object();
  Json missing = Json::object(), caches = Json::object();
  int known = 0;
  for (const CacheLevel& level : cache_levels(1)) {
    if (level.bytes > 0) caches[std::string(level.name)] = level.bytes;
  }
  for (const Run& run : runs) {
    threads.push_back(run.threads);
    limits[fmt::format("{}", run.threads)] = limits_json(run.rates);
    for (const auto& [label, name] : run.peers) peers[label] = name;
    for (const auto& [label, reason] : run.missing) missing[label] = reason;
    for (const Result& result : run.results) rows.push_back(json_of(info, result));
    known += run.rows_known;
  }
  return Json{{"schema_version", 1},
              {"tool", "locant"},
              {"version", version()},
              {"command", "bench"},
              {"machine",
               {{"cpu", cpu_model()},
                {"cpus", cpu_count()},
                {"target", info.target},
                {"forced", info.forced},
                {"threads", threads},
                {"caches", caches},
                {"kernel", kernel_name()},
                {"load_start", info.load_start},
                {"load_end", load_average()},
                {"date", info.date},
                {"flags", info.flags}}},
              {"peers", peers},
              {"peers_missing", missing},
              {"limits", limits},
              {"rows_known", known},
              {"rows", rows}};
}

}  // namespace locant::bench
