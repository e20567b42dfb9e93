// SPDX-License-Identifier: Apache-2.0
// The C library as a peer: cos and sin of every position and pair, f64, stored as f32. Speaks the protocol of
// bench/peers/protocol.py. usage: bench_libm_peer THREADS
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clock.h"
#include "locant/threads.h"

namespace {

struct Table {
  std::int64_t tokens = 0, pairs = 0;
  double theta = 10000;
  std::vector<double> frequencies{};
  std::vector<float> cos{}, sin{};
};

Table table_of(const nlohmann::json& request) {
  Table table{.tokens = request.value("tokens", std::int64_t{1}),
              .pairs = request.value("pairs", std::int64_t{64})};
  table.theta = request.value("theta", table.theta);
  for (std::int64_t p = 0; p < table.pairs; ++p) {
    table.frequencies.push_back(
        std::pow(table.theta, -static_cast<double>(p) / static_cast<double>(table.pairs)));
  }
  table.cos.resize(static_cast<std::size_t>(table.tokens * table.pairs));
  table.sin.resize(table.cos.size());
  return table;
}

void fill(Table& table, locant::ThreadPool& pool) {
  const std::int64_t pieces = std::min(table.tokens, std::int64_t{4} * pool.size());
  pool.run(pieces, [&](std::int64_t piece) {
    for (std::int64_t t = table.tokens * piece / pieces; t < table.tokens * (piece + 1) / pieces; ++t) {
      for (std::int64_t p = 0; p < table.pairs; ++p) {
        const double angle = static_cast<double>(t) * table.frequencies[static_cast<std::size_t>(p)];
        const auto at = static_cast<std::size_t>(t * table.pairs + p);
        table.cos[at] = static_cast<float>(std::cos(angle));
        table.sin[at] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

// Against f64 before its rounding to f32; the largest value is 1.
double error_of(const Table& table) {
  double worst = 0;
  for (std::int64_t t = 0; t < table.tokens; ++t) {
    for (std::int64_t p = 0; p < table.pairs; ++p) {
      const double angle = static_cast<double>(t) * table.frequencies[static_cast<std::size_t>(p)];
      const auto at = static_cast<std::size_t>(t * table.pairs + p);
      worst = std::max({worst, std::fabs(static_cast<double>(table.cos[at]) - std::cos(angle)),
                        std::fabs(static_cast<double>(table.sin[at]) - std::sin(angle))});
    }
  }
  return worst;
}

double best_ns(Table& table, locant::ThreadPool& pool, double seconds) {
  using locant::bench::now_ns;
  double best = std::numeric_limits<double>::infinity();
  const double start = now_ns(2);
  do {
    const double before = now_ns(pool.size());
    fill(table, pool);
    best = std::min(best, now_ns(pool.size()) - before);
  } while (now_ns(2) - start < seconds * 1e9);
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  locant::ThreadPool pool(count > 1 ? std::stoi(arguments[1]) : 1);
  Table table;
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = nlohmann::json::parse(line);
    nlohmann::json answer{{"variants", nlohmann::json::array()}};
    const std::string op = request.value("op", "");
    if (request.contains("hello")) {
      answer = {{"name", "libm's sin and cos in f64"}};
    } else if (request.contains("slice")) {
      answer = {{"ns", best_ns(table, pool, request.value("slice", 0.0))}};
    } else if (op == "table" || op == "sinusoid") {
      table = table_of(request);
      fill(table, pool);
      answer["variants"].push_back({{"name", "libm"}, {"error", error_of(table)}});
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}
