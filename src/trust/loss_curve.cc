// SPDX-License-Identifier: Apache-2.0
// What is measured: blocks of documents, each through every length, so that an end at any time leaves pairs.
#include "trust/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace locant::trust_room {
namespace {

constexpr std::int64_t kBlock = 8;  // documents that go through all lengths together
const double kNone = std::numeric_limits<double>::quiet_NaN();

/// One batch of documents at one length.
struct Batch {
  std::size_t length = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class Losses {
 public:
  explicit Losses(const LossWork& work) : work_(work) {
    table_.lengths = work.lengths;
    const std::vector<double> row(static_cast<std::size_t>(work.count), kNone);
    for (auto* const values : {&table_.loss, &table_.scaled, &table_.divergence, &table_.agreement})
      values->assign(work.lengths.size(), row);
  }

  LossTable take() {
    for (std::int64_t first = 0; first < work_.count; first += kBlock) {
      const std::int64_t count = std::min(kBlock, work_.count - first);
      for (std::size_t length = 0; length < work_.lengths.size(); ++length) {
        if (!add_block(length, first, count)) return std::move(table_);
      }
    }
    return std::move(table_);
  }

 private:
  double cost(std::int64_t tokens, std::int64_t rows) const {
    const double scaled = work_.scaled != nullptr ? work_.scaled->costs().of(tokens) : 0;
    return static_cast<double>(rows) * (work_.scorer->costs().of(tokens) + scaled);
  }

  bool add_block(std::size_t length, std::int64_t first, std::int64_t count) {
    const std::int64_t tokens = work_.lengths[length];
    const std::int64_t rows = work_.scorer->rows_at(tokens);
    for (std::int64_t done = 0; done < count; done += rows) {
      const std::int64_t now = std::min(rows, count - done);
      if (!work_.clock->has_time(cost(tokens, now), work_.share)) return false;
      work_.progress(fmt::format("loss at {} tokens, documents {} to {} of {}", tokens, first + done + 1,
                                 first + done + now, work_.count));
      add({length, first + done, now});
    }
    return true;
  }

  const Ids& document(std::int64_t index) const {
    return work_.documents->ids[static_cast<std::size_t>(index)];
  }
  std::int64_t target(std::int64_t index, std::int64_t at) const {
    const Ids& ids = document(index);
    return ids[ids.size() - static_cast<std::size_t>(kTargets - at)];
  }

  void add(const Batch& batch) {
    std::vector<Ids> windows;
    for (std::int64_t i = 0; i < batch.count; ++i)
      windows.push_back(window_of(document(batch.first + i), work_.lengths[batch.length], work_.lead));
    const std::size_t vocab = static_cast<std::size_t>(work_.scorer->vocab());
    std::vector<float> kept;
    if (work_.scaled != nullptr) kept.resize(static_cast<std::size_t>(batch.count * kTargets) * vocab);
    const auto slot = [&](auto& values, std::int64_t row) -> double& {
      return values[batch.length][static_cast<std::size_t>(batch.first + row)];
    };
    for (std::int64_t i = 0; i < batch.count; ++i) slot(table_.loss, i) = 0;
    work_.scorer->run(windows, kTargets,
                      [&](std::int64_t row, std::int64_t at, std::span<const float> logits) {
                        slot(table_.loss, row) += loss_of(logits, target(batch.first + row, at)) / kTargets;
                        if (!kept.empty())
                          std::copy(logits.begin(), logits.end(),
                                    kept.begin() + static_cast<std::ptrdiff_t>(row * kTargets + at) *
                                                       static_cast<std::ptrdiff_t>(vocab));
                      });
    if (work_.scaled == nullptr) return;
    for (auto* const values : {&table_.scaled, &table_.divergence, &table_.agreement}) {
      for (std::int64_t i = 0; i < batch.count; ++i) slot(*values, i) = 0;
    }
    work_.scaled->run(
        windows, kTargets, [&](std::int64_t row, std::int64_t at, std::span<const float> logits) {
          const std::span<const float> plain(
              kept.data() + static_cast<std::size_t>(row * kTargets + at) * vocab, vocab);
          slot(table_.scaled, row) += loss_of(logits, target(batch.first + row, at)) / kTargets;
          add_contrast(plain, logits, slot(table_.divergence, row), slot(table_.agreement, row));
        });
  }

  void add_contrast(std::span<const float> plain, std::span<const float> scaled, double& divergence,
                    double& agreement) {
    const double of_plain = log_sum(plain);
    const double of_scaled = log_sum(scaled);
    double sum = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double log_p = static_cast<double>(plain[i]) - of_plain;
      sum += std::exp(log_p) * (log_p - (static_cast<double>(scaled[i]) - of_scaled));
      table_.effect =
          std::max(table_.effect, std::abs(static_cast<double>(plain[i]) - static_cast<double>(scaled[i])));
    }
    divergence += std::max(sum, 0.0) / kTargets;
    const bool same = std::max_element(plain.begin(), plain.end()) - plain.begin() ==
                      std::max_element(scaled.begin(), scaled.end()) - scaled.begin();
    agreement += (same ? 1.0 : 0.0) / kTargets;
  }

  const LossWork& work_;
  LossTable table_;
};

}  // namespace

Ids window_of(const Ids& document, std::int64_t length, const Ids& lead) {
  Ids window = lead;
  const auto kept = length - static_cast<std::int64_t>(lead.size());
  window.insert(window.end(), document.end() - 1 - kept, document.end() - 1);
  return window;
}

LossTable measure_losses(const LossWork& work) {
  return Losses(work).take();
}

}  // namespace locant::trust_room
