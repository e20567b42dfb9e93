// SPDX-License-Identifier: Apache-2.0
// Angles up to a horizon. A pair that turned less than once inside L saw [0, w (L - 1)], w its frequency on
// the plain ladder; the schedule gives distance m the angle w' m mod 2 pi (Chen et al. 2023, section 2; Ding
// et al. 2024, equation 10). B(m) = sum_i cos(m w'_i) (Men et al. 2024, section 4). Critical dimension: Liu
// et al. 2023, section 4.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "facts/parts.h"
#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr std::int64_t kMostSummed = 1 << 20;  // distances of B(m): a second is the limit of the static part
constexpr double kRounded = 1e-6;              // tokens
constexpr std::int64_t kReseed = 512;          // products after which a running angle is computed anew

/// Distances below `to` whose angle is past `seen` on its turn.
struct Unseen {
  std::int64_t count = 0;
  std::optional<std::int64_t> first{};
  double excess = 0;
};

Unseen unseen_of(double frequency, double seen, std::int64_t to) {
  Unseen all;
  const auto last = static_cast<double>(to - 1);
  for (double turn = 0; turn * kTurn + seen < frequency * last; ++turn) {
    // a distance that the trained length itself reaches is seen, whatever a product rounds
    const double begin = std::floor((turn * kTurn + seen) / frequency + kRounded) + 1;
    const double end = std::min(std::ceil((turn + 1) * kTurn / frequency), last + 1);
    if (end <= begin) continue;
    if (!all.first) all.first = static_cast<std::int64_t>(begin);
    all.count += static_cast<std::int64_t>(end - begin);
    all.excess = std::max(all.excess, frequency * (end - 1) - turn * kTurn - seen);
  }
  return all;
}

struct Sums {
  std::optional<std::int64_t> negative_from{};
  double least = 0;
};

Sums cosine_sums(const std::vector<double>& frequencies, std::int64_t to) {
  const std::size_t pairs = frequencies.size();
  std::vector<double> real(pairs);
  std::vector<double> imaginary(pairs);
  std::vector<double> step_real(pairs);
  std::vector<double> step_imaginary(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    step_real[i] = std::cos(frequencies[i]);
    step_imaginary[i] = std::sin(frequencies[i]);
  }
  Sums sums{.negative_from = {}, .least = static_cast<double>(pairs)};
  for (std::int64_t m = 0; m < to; ++m) {
    double sum = 0;
    if (m % kReseed == 0) {
      for (std::size_t i = 0; i < pairs; ++i) {
        real[i] = std::cos(static_cast<double>(m) * frequencies[i]);
        imaginary[i] = std::sin(static_cast<double>(m) * frequencies[i]);
        sum += real[i];
      }
    } else {
      for (std::size_t i = 0; i < pairs; ++i) {
        const double turned = real[i] * step_real[i] - imaginary[i] * step_imaginary[i];
        imaginary[i] = real[i] * step_imaginary[i] + imaginary[i] * step_real[i];
        real[i] = turned;
        sum += turned;
      }
    }
    sums.least = std::min(sums.least, sum);
    if (sum < 0 && !sums.negative_from) sums.negative_from = m;
  }
  return sums;
}

/// Pairs in the order of their index; fills what is summed over them.
void add_pairs(const Rotation& scheduled, const Rotation& plain, const AngleQuery& query,
               RotationTrust& trust) {
  const auto last = static_cast<double>(query.trained - 1);
  std::int64_t cells = 0;
  std::int64_t unseen = 0;
  for (std::size_t i = 0; i < scheduled.inv_freq.size(); ++i) {
    PairAngles pair;
    pair.pair = static_cast<std::int64_t>(i);
    pair.inv_freq = scheduled.inv_freq[i];
    pair.plain = plain.inv_freq[i];
    cells += query.to;
    if (pair.inv_freq > 0 && pair.plain > 0) {
      pair.wavelength = kTurn / pair.inv_freq;
      pair.compression = pair.inv_freq / pair.plain;
      pair.turns = pair.plain * static_cast<double>(query.trained) / kTurn;
      trust.least_compression = std::min(trust.least_compression, pair.compression);
      if (pair.plain > trust.fastest_plain) {
        trust.fastest_plain = pair.plain;
        trust.fastest_step = pair.inv_freq;
      }
      if (pair.plain * last < kTurn) {
        ++trust.incomplete_pairs;
        // a slowed pair steps between the angles of training: those short of the next plain step are seen
        const double seen = pair.plain * (pair.compression < 1 ? last + 1 : last);
        const Unseen past = unseen_of(pair.inv_freq, seen, query.to);
        pair.leaves_at = past.first;
        pair.excess = past.excess;
        pair.unseen = static_cast<double>(past.count) / static_cast<double>(query.to);
        unseen += past.count;
        trust.excess = std::max(trust.excess, past.excess);
        if (past.first && (!trust.first_position || *past.first < *trust.first_position)) {
          trust.first_position = past.first;
          trust.first_pair = pair.pair;
        }
        if (!trust.extension_bound) trust.extension_bound = pair.wavelength;
      } else {
        trust.critical_dimension += 2;
      }
    }
    trust.pairs.push_back(pair);
  }
  trust.unseen = cells > 0 ? static_cast<double>(unseen) / static_cast<double>(cells) : 0;
}

}  // namespace

RotationTrust rotation_trust(const AngleQuery& query) {
  const auto& scheduled = std::get<Rotation>(*query.entry->plan);
  const Rotation plain = plain_rotation(*query.entry, *query.recipe);
  RotationTrust trust;
  trust.stack = query.entry->stack;
  trust.layers = query.entry->layers;
  trust.mechanism = query.entry->mechanism;
  trust.theta = query.entry->theta;
  trust.amplitude = scheduled.amplitude;
  add_pairs(scheduled, plain, query, trust);
  trust.sum_searched_to = std::min(query.to, kMostSummed);
  const Sums sums = cosine_sums(scheduled.inv_freq, trust.sum_searched_to);
  trust.sum_negative_from = sums.negative_from;
  trust.least_sum =
      scheduled.inv_freq.empty() ? 1 : sums.least / static_cast<double>(scheduled.inv_freq.size());
  const TableError error = table_error(scheduled, query.recipe->numerics, query.to);
  trust.table_error = error.error;
  trust.table_error_position = error.position;
  return trust;
}

}  // namespace locant::trust_room
