// SPDX-License-Identifier: Apache-2.0
#include "frame.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "clock.h"
#include "machine.h"
#include "peer.h"

namespace locant::bench {
namespace {

constexpr double kNs = 1e9;
constexpr double kSampleNs = 2e4;    // the clock costs a percent of this at most
constexpr int kFewest = 3;           // slices of everybody
constexpr double kStretch = 2;       // times its seconds may a row take where calls are longer than slices
constexpr double kSlow = 4;          // times the fastest: measured on the fewest slices alone,
constexpr double kSlowCallNs = 2e7;  // where a call is longer than this
constexpr double kLongCallNs = 2e9;  // a peer's, measured once
constexpr double kWarmNs = 3e8;      // the checked call is warmth enough for what takes longer
constexpr double kLimitNs = 1e7;     // for the limit between two slices
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Calls in one reading of the clock.
int batch_of(const std::function<void()>& run, int threads) {
  double best = kInfinity;
  for (int i = 0; i < 3 && best > kSampleNs / 100; ++i) {
    const double before = now_ns(threads);
    run();
    best = std::min(best, now_ns(threads) - before);
    if (best > kSampleNs) break;
  }
  return static_cast<int>(std::clamp(kSampleNs / std::max(best, 1.0), 1.0, 1000.0));
}

// The best call of a slice.
double slice(const std::function<void()>& run, double seconds, int batch, int threads) {
  const double start = now_ns(2);
  double best = kInfinity;
  do {
    const double before = now_ns(threads);
    for (int i = 0; i < batch; ++i) run();
    best = std::min(best, (now_ns(threads) - before) / batch);
  } while (now_ns(2) - start < seconds * kNs);
  return best;
}

Times summary(std::vector<double> slices) {
  std::sort(slices.begin(), slices.end());
  return {.best = slices.front(), .median = slices[slices.size() / 2]};
}

struct Contender {
  Peer* peer;
  std::size_t variant;
  PeerResult result;
  std::vector<double> slices;
  [[nodiscard]] double best() const {
    return slices.empty() ? kInfinity : *std::min_element(slices.begin(), slices.end());
  }
};

double seconds_since(double start_ns) {
  return (now_ns(2) - start_ns) / kNs;
}

std::vector<Contender> prepared(const Row& row, Peers& peers, Spent& spent) {
  std::vector<Contender> contenders;
  if (row.peer.empty()) return contenders;
  for (const auto& peer : peers.found) {
    const double start = now_ns(2);
    const Prepared ready = peer->prepare(row.peer);
    if (!ready.variants.empty()) spent.prepare.emplace_back(peer->label(), seconds_since(start));
    if (!ready.failure.empty()) {
      contenders.push_back({nullptr, 0, {.name = peer->label(), .times = {}, .note = ready.failure}, {}});
    }
    for (std::size_t i = 0; i < ready.variants.size(); ++i) {
      const Variant& v = ready.variants[i];
      contenders.push_back({peer.get(), i, {v.name, {}, v.error, v.note, v.wide}, {}});
    }
  }
  return contenders;
}

void take_turn(Contender& one, double seconds, double fastest) {
  if (one.peer == nullptr) return;
  const bool slow = one.best() > kSlow * fastest && one.best() > kSlowCallNs;
  if (slow && one.slices.size() >= kFewest) return;
  if (one.best() > kLongCallNs && !one.slices.empty()) return;
  if (const auto ns = one.peer->slice(one.variant, seconds)) {
    one.slices.push_back(*ns);
    return;
  }
  one.result.note = one.peer->failure().empty() ? "gave no time" : one.peer->failure();
  one.slices.clear();
  one.peer = nullptr;
}

// The limit of one call, measured between two slices: seconds.
struct LimitSeconds {
  double memory_or_compute = kInfinity;
  double arithmetic = 0;  // of what else it computes
  double stores = 0;      // of what it writes

  explicit LimitSeconds(const Row& row)
      : arithmetic(row.flop > 0 ? kInfinity : 0), stores(row.written > 0 ? kInfinity : 0) {}
  void measure(const Row& row, const LimitRoom& room, ThreadPool& pool) {
    take(memory_or_compute, row.limit, row.amount, room, pool);
    if (row.flop > 0) take(arithmetic, Limit::fma, row.flop, room, pool);
    if (row.written > 0) take(stores, Limit::store, row.written, room, pool);
  }

 private:
  // One after the other: a copy between stores would find other caches than a copy after copies.
  static void take(double& best, Limit limit, double amount, const LimitRoom& room, ThreadPool& pool) {
    const double start = now_ns(2);
    do {
      best = std::min(best, seconds_at_limit(limit, amount, room, pool));
    } while (now_ns(2) - start < kLimitNs);
  }
};

// Everybody gets the same number of slices, but those far behind: as many as fit the row's time, so that long
// calls do not stretch a run, and never less than the fewest.
void take_turns(const Row& row, const Options& options, ThreadPool& pool, std::vector<Contender>& contenders,
                double first_ns, Result& result) {
  const int batch = first_ns > kWarmNs ? 1 : batch_of(row.run, options.threads);
  const double seconds = options.seconds / options.slices;
  const double allowed = kStretch * options.seconds * static_cast<double>(1 + contenders.size());
  const LimitRoom room(row.working_set);
  LimitSeconds limit(row);
  std::vector<double> locant;
  const double start = now_ns(2);
  double turn = 0;
  for (int i = 0; i < options.slices; ++i) {
    if (i >= kFewest && seconds_since(start) + turn > allowed) break;
    const double began = now_ns(2);
    locant.push_back(slice(row.run, seconds, batch, options.threads));
    double fastest = kInfinity;
    for (const Contender& one : contenders) fastest = std::min(fastest, one.best());
    for (Contender& one : contenders) take_turn(one, seconds, fastest);
    limit.measure(row, room, pool);
    turn = seconds_since(began);
  }
  result.locant = summary(locant);
  if (limit.arithmetic > limit.memory_or_compute) {
    result.limit_name = name_of(Limit::fma);
    result.compute = true;
  }
  if (limit.stores > limit.memory_or_compute) result.limit_name = name_of(Limit::store);
  result.limit_ns = std::max({limit.memory_or_compute, limit.arithmetic, limit.stores}) * kNs;
}

}  // namespace

const PeerResult* Result::best_peer() const noexcept {
  const PeerResult* best = nullptr;
  const auto better = [this](const PeerResult& a, const PeerResult& b) {
    return compute && a.wide != b.wide ? !a.wide : a.times->best < b.times->best;
  };
  for (const PeerResult& peer : peers) {
    if (peer.times && (best == nullptr || better(peer, *best))) best = &peer;
  }
  return best;
}

double Result::ratio() const noexcept {
  const PeerResult* const peer = best_peer();
  return peer != nullptr && locant ? peer->times->best / locant->best : 0;
}

double Result::percent() const noexcept {
  return locant && limit_ns > 0 ? 100 * limit_ns / locant->best : 0;
}

std::optional<bool> Result::goal_met() const noexcept {
  if (!locant || (goal.ratio == 0 && goal.percent == 0)) return std::nullopt;
  if (goal.percent > 0 && percent() < goal.percent) return false;
  if (goal.ratio == 0) return true;
  const PeerResult* const peer = best_peer();
  if (peer == nullptr || (compute && peer->wide)) return std::nullopt;
  return ratio() >= goal.ratio;
}

bool wanted(const RowPlan& plan, const std::string& only) {
  if (only.empty()) return true;
  if (std::isdigit(static_cast<unsigned char>(only.front())) == 0) {
    return plan.operation.find(only) != std::string::npos;
  }
  for (std::size_t at = 0; at < only.size();) {
    const std::size_t end = std::min(only.find(',', at), only.size());
    int number = 0;
    std::from_chars(only.data() + at, only.data() + end, number);
    if (number == plan.number) return true;
    at = end + 1;
  }
  return false;
}

Result measure(const Row& row, const Options& options, ThreadPool& pool, Peers& peers) {
  Result result{.number = row.number, .operation = row.operation, .shape = row.shape, .dtype = row.dtype};
  result.threads = options.threads;
  result.goal = options.avx512 ? row.avx512 : row.avx2;
  result.limit_name = name_of(in_place_of(row.limit));
  result.compute = is_compute(row.limit);
  result.date = date_now();
  result.load = load_average();
  try {
    double start = now_ns(2);
    row.run();
    const double first_ns = now_ns(2) - start;
    result.error = row.error();
    result.spent.check = seconds_since(start);
    if (!(result.error <= 1)) return result;
    std::vector<Contender> contenders = prepared(row, peers, result.spent);
    start = now_ns(2);
    take_turns(row, options, pool, contenders, first_ns, result);
    result.spent.timing = seconds_since(start);
    for (Contender& one : contenders) {
      if (!one.slices.empty()) one.result.times = summary(std::move(one.slices));
      result.peers.push_back(std::move(one.result));
    }
  } catch (const std::exception& thrown) {
    result.locant.reset();
    result.failure = thrown.what();
  }
  return result;
}

}  // namespace locant::bench
