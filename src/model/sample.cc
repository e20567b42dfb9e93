// SPDX-License-Identifier: Apache-2.0
#include "model/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace locant {
namespace {

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

/// The largest logit, NaN left aside; nothing is comparable where it stays NaN.
float largest_of(View<const float, 1> logits) {
  float largest = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t id = 0; id < logits.extent(0); ++id) {
    if (!(logits(id) <= largest) && !std::isnan(logits(id))) largest = logits(id);
  }
  return largest;
}

/// exp((logit - largest) / temperature), 1 for the largest whatever it is, 0 for NaN.
double weight_of(float logit, float largest, double temperature) {
  if (logit == largest) return 1;
  const double distance = static_cast<double>(logit) - static_cast<double>(largest);
  return std::isnan(logit) ? 0 : std::exp(distance / temperature);
}

/// Larger logits first, equal ones by smaller id.
constexpr auto kBefore = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

}  // namespace

Philox philox(Philox counter, std::array<std::uint32_t, 2> key) noexcept {
  constexpr std::uint64_t kFirst = 0xD2511F53;
  constexpr std::uint64_t kSecond = 0xCD9E8D57;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kFirst * counter[0];
    const std::uint64_t b = kSecond * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double uniform_at(std::uint64_t seed, std::int64_t row, std::int64_t step) noexcept {
  const auto s = static_cast<std::uint64_t>(step);
  const auto r = static_cast<std::uint64_t>(row);
  const Philox block = philox({low(s), high(s), low(r), high(r)}, {low(seed), high(seed)});
  const std::uint64_t bits = (std::uint64_t{block[0]} << 32 | block[1]) >> 11;
  return std::ldexp(static_cast<double>(bits), -53);
}

void check_sampling(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature)) {
    throw SpecError(
        fmt::format("run: a temperature must be 0 or more and finite, got {}", sampling.temperature));
  }
  if (sampling.top_k < 0)
    throw SpecError(fmt::format("run: top_k must be 0 or more, got {}", sampling.top_k));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    throw SpecError(fmt::format("run: top_p must be above 0 and at most 1, got {}", sampling.top_p));
  }
}

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) {
  check_sampling(sampling);
}

std::int64_t Sampler::choose(View<const float, 1> logits, std::int64_t row, std::int64_t step) {
  if (sampling_.temperature == 0) return choose_greedy(logits);
  const float largest = largest_of(logits);
  if (std::isnan(largest)) return choose_greedy(logits);  // which says that none is comparable
  const double at = uniform_at(sampling_.seed, row, step);
  if (sampling_.top_k == 0 && sampling_.top_p == 1) return choose_of_all(logits, largest, at);
  kept_.clear();
  kept_.reserve(static_cast<std::size_t>(logits.extent(0)));
  for (std::int64_t id = 0; id < logits.extent(0); ++id) {
    if (std::isnan(logits(id))) continue;
    kept_.push_back(
        {logits(id), static_cast<std::int32_t>(id), weight_of(logits(id), largest, sampling_.temperature)});
  }
  if (sampling_.top_k > 0) keep_largest();
  if (sampling_.top_p < 1) keep_mass();
  double total = 0;
  for (const Weighed& one : kept_) total += one.weight;
  const double target = at * total;
  double sum = 0;
  std::int64_t last = kept_.front().id;
  for (const Weighed& one : kept_) {
    if (one.weight == 0) continue;
    last = one.id;
    sum += one.weight;
    if (target < sum) break;
  }
  return last;
}

std::int64_t Sampler::choose_of_all(View<const float, 1> logits, float largest, double at) const {
  double total = 0;
  for (std::int64_t id = 0; id < logits.extent(0); ++id)
    total += weight_of(logits(id), largest, sampling_.temperature);
  const double target = at * total;
  double sum = 0;
  std::int64_t last = 0;
  for (std::int64_t id = 0; id < logits.extent(0); ++id) {
    const double weight = weight_of(logits(id), largest, sampling_.temperature);
    if (weight == 0) continue;
    last = id;
    sum += weight;
    if (target < sum) break;
  }
  return last;
}

void Sampler::keep_largest() {
  const auto count =
      static_cast<std::size_t>(std::min(sampling_.top_k, static_cast<std::int64_t>(kept_.size())));
  const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != kept_.end()) std::nth_element(kept_.begin(), end, kept_.end(), kBefore);
  kept_.resize(count);
  std::sort(kept_.begin(), kept_.end(), kBefore);
}

/// The fewest of the largest whose share of the sum reaches top_p. A heap gives them one by one: most often
/// few of many are wanted.
void Sampler::keep_mass() {
  double total = 0;
  for (const Weighed& one : kept_) total += one.weight;
  const double wanted = sampling_.top_p * total;
  const auto after = [](const Weighed& a, const Weighed& b) { return kBefore(b, a); };
  std::make_heap(kept_.begin(), kept_.end(), after);
  double sum = 0;
  auto heap_end = kept_.end();
  while (heap_end != kept_.begin() && sum < wanted) {
    std::pop_heap(kept_.begin(), heap_end, after);
    --heap_end;
    sum += heap_end->weight;
  }
  // They stand at the back, the largest last.
  const auto count = static_cast<std::size_t>(kept_.end() - heap_end);
  std::reverse(kept_.begin(), kept_.end());
  kept_.resize(count);
}

std::int64_t choose(View<const float, 1> logits, const Sampling& sampling, std::int64_t row,
                    std::int64_t step) {
  return Sampler(sampling).choose(logits, row, step);
}

}  // namespace locant
