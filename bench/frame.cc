// SPDX-License-Identifier: Apache-2.0
#include "frame.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "peer.h"

namespace locant::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSlices = 12;
constexpr double kNs = 1e9;

// The best call of a slice.
double slice(const std::function<void()>& run, double seconds) {
  const auto start = Clock::now();
  double best = std::numeric_limits<double>::infinity();
  std::chrono::duration<double> total{};
  do {
    const auto before = Clock::now();
    run();
    const std::chrono::duration<double> took = Clock::now() - before;
    best = std::min(best, took.count());
    total = Clock::now() - start;
  } while (total.count() < seconds);
  return best * kNs;
}

Times summary(std::vector<double> slices) {
  std::sort(slices.begin(), slices.end());
  return {.best = slices.front(), .median = slices[slices.size() / 2]};
}

}  // namespace

Result measure(const Row& row, const Options& options, ThreadPool& pool, Peer* peer) {
  Result result;
  result.operation = row.operation;
  result.shape = row.shape;
  result.dtype = row.dtype;
  result.threads = options.threads;
  row.run();
  result.error = row.error();
  if (!(result.error <= 1)) return result;
  const bool with_peer = peer != nullptr && !row.peer.empty() && peer->prepare(row.peer);
  const LimitRoom room(row.working_set);
  std::vector<double> locant, other;
  double limit = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kSlices; ++i) {
    const double seconds = options.seconds / kSlices;
    locant.push_back(slice(row.run, seconds));
    if (with_peer) {
      if (const auto ns = peer->slice(seconds)) other.push_back(*ns);
    }
    for (int turn = 0; turn < 3; ++turn)
      limit = std::min(limit, seconds_at_limit(row.limit, row.amount, room, pool));
  }
  result.locant = summary(locant);
  if (!other.empty()) {
    result.peer = summary(other);
    result.peer_name = peer->name();
  }
  result.limit_ns = limit * kNs;
  return result;
}

std::vector<float> values(std::size_t count, std::uint64_t seed) {
  std::vector<float> x(count);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (float& v : x) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    v = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
  }
  return x;
}

}  // namespace locant::bench
