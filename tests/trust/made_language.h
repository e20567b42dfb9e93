// SPDX-License-Identifier: Apache-2.0
// A language of which a runtime knows every text, and the runtime: what it predicts is right as surely as the
// test wants at each position, and it copies as far as the test lets it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "locant/trust.h"

namespace locant::tests {

using Ids = std::vector<std::int64_t>;

inline constexpr std::int64_t kVocab = 40;
inline constexpr std::size_t kGram = 6;  // tokens that name their place in a text

struct Language {
  std::vector<TrustDocument> documents{};
  std::map<Ids, std::int64_t> next{};  ///< what follows kGram tokens
};

inline Language make_language(int count, int tokens, std::uint32_t seed) {
  Language language;
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> any(0, kVocab - 1);
  for (int d = 0; d < count; ++d) {
    Ids ids;
    for (int t = 0; t < tokens; ++t) ids.push_back(any(random));
    for (std::size_t t = kGram; t < ids.size(); ++t)
      language.next[Ids(ids.begin() + static_cast<std::ptrdiff_t>(t - kGram),
                        ids.begin() + static_cast<std::ptrdiff_t>(t))] = ids[t];
    language.documents.push_back({"text " + std::to_string(d), std::move(ids)});
  }
  return language;
}

struct Behaviour {
  /// Logit of the right token at a position, above the others' 0.
  std::function<double(std::int64_t position)> boost = [](std::int64_t) { return 2.0; };
  double noise = 0.3;                  ///< of that logit, from token to token
  std::int64_t copies = 0;             ///< largest distance of a copy; 0 = it does not copy
  std::int64_t copies_to = INT64_MAX;  ///< largest position at which it copies
  std::int64_t not_from = -1;          ///< copies of a source in [not_from, not_to) fail
  std::int64_t not_to = -1;
  double seconds = 0;  ///< that a call sleeps
  std::int64_t not_finite_from = INT64_MAX;
  bool takes_positions = true;
  double shifted = 0;  ///< what a shift of positions adds to a logit
};

class MadeSession final : public RuntimeSession {
 public:
  MadeSession(const Language& language, const Behaviour& behaviour)
      : language_(language), behaviour_(behaviour) {}

  void forward(const ForwardCall& call, View<float, 3> logits) override {
    if (call.positions && !behaviour_.takes_positions) throw SpecError("forward: positions are not taken");
    if (behaviour_.seconds > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(behaviour_.seconds));
    rows_.resize(static_cast<std::size_t>(call.ids.extent(0)));
    for (std::int64_t b = 0; b < call.ids.extent(0); ++b) {
      Ids& row = rows_[static_cast<std::size_t>(b)];
      for (std::int64_t t = 0; t < call.ids.extent(1); ++t) {
        row.push_back(call.ids(b, t));
        const std::int64_t shift =
            call.positions ? (*call.positions)(0, b, t) - static_cast<std::int64_t>(row.size()) + 1 : 0;
        write(row, shift, [&](std::int64_t v) -> float& { return logits(b, t, v); });
      }
    }
  }

 private:
  template <class At>
  void write(const Ids& row, std::int64_t shift, At&& at) {
    const auto position = static_cast<std::int64_t>(row.size()) - 1;
    for (std::int64_t v = 0; v < kVocab; ++v) at(v) = 0;
    if (position >= behaviour_.not_finite_from) {
      for (std::int64_t v = 0; v < kVocab; ++v) at(v) = std::numeric_limits<float>::quiet_NaN();
      return;
    }
    if (row.size() < kGram) return;
    const Ids gram(row.end() - kGram, row.end());
    if (const auto found = language_.next.find(gram); found != language_.next.end()) {
      std::uint64_t state = 0x9E3779B97F4A7C15ULL;
      for (const std::int64_t id : gram)
        state = (state ^ static_cast<std::uint64_t>(id)) * 0xBF58476D1CE4E5B9ULL;
      const double noise = behaviour_.noise * (static_cast<double>(state >> 40) / 0x1p24 - 0.5);
      at(found->second) += static_cast<float>(behaviour_.boost(position) + noise);
    }
    if (shift != 0) at(0) += static_cast<float>(behaviour_.shifted);
    copy(row, position, at);
  }

  /// The token behind the latest earlier place of the last four.
  template <class At>
  void copy(const Ids& row, std::int64_t position, At&& at) const {
    constexpr std::int64_t kCue = 4;
    if (behaviour_.copies == 0 || position > behaviour_.copies_to) return;
    for (std::int64_t from = position - 1; from >= kCue - 1 && position - from <= behaviour_.copies; --from) {
      bool same = true;
      for (std::int64_t i = 0; i < kCue; ++i)
        same = same && row[static_cast<std::size_t>(from - i)] == row[static_cast<std::size_t>(position - i)];
      if (!same) continue;
      if (from >= behaviour_.not_from && from < behaviour_.not_to) return;
      at(row[static_cast<std::size_t>(from + 1)]) += 8;
      return;
    }
  }

  const Language& language_;
  const Behaviour& behaviour_;
  std::vector<Ids> rows_;
};

class MadeModel final : public Runtime {
 public:
  MadeModel(const Language& language, Behaviour behaviour)
      : language_(language), behaviour_(std::move(behaviour)) {}
  [[nodiscard]] std::string name() const override { return "made"; }
  [[nodiscard]] std::int64_t vocab() const override { return kVocab; }
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t) override {
    return std::make_unique<MadeSession>(language_, behaviour_);
  }

 private:
  const Language& language_;
  Behaviour behaviour_;
};

}  // namespace locant::tests
