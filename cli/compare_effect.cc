// SPDX-License-Identifier: Apache-2.0
#include "cli/compare_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/interrupt.h"
#include "cli/memory.h"
#include "locant/model.h"
#include "locant/positions.h"

namespace locant::cli {
namespace {

constexpr std::int64_t kMostAnswer = std::int64_t{1} << 30;  // bytes of the first side's logits
constexpr std::int64_t kMostCache = std::int64_t{1} << 31;   // bytes for a capacity above the tokens

/// One row's logits or states as they come, token by token.
using VectorReader = std::function<void(std::int64_t token, std::span<const float> values)>;

/// One model under one reading.
class Side {
 public:
  Side(const EffectSide& side, const EffectJob& job)
      : model_(Model::load(side.path, {.recipe = side.recipe, .run_dtype = job.run_dtype}, job.pool)) {}
  [[nodiscard]] const Model& model() const noexcept { return *model_; }
  [[nodiscard]] std::int64_t width() const {
    return model_->has_head() ? model_->vocab() : model_->spec().hidden;
  }

  void read(const std::vector<std::int64_t>& row, std::int64_t capacity, const VectorReader& reader) const {
    const std::unique_ptr<Session> session = model_->open_session({.rows = 1, .capacity = capacity});
    const auto each = [&](std::int64_t first, View<const float, 2> values) {
      for (std::int64_t t = 0; t < values.extent(0); ++t)
        reader(first + t, {&values(t, 0), static_cast<std::size_t>(values.extent(1))});
    };
    const Rows rows{row};
    const FlatRows flat(rows);
    if (model_->has_encoder()) {
      session->encode(flat.call(), {});
      const Rows decoded{shifted(row)};
      const FlatRows behind(decoded);
      session->feed(behind.call(), LogitsOf::all, each);
    } else if (model_->has_head()) {
      session->feed(flat.call(), LogitsOf::all, each);
    } else {
      session->feed_states(flat.call(), each);
    }
  }

 private:
  /// What a decoder reads beside an encoder that reads the row: its start, then the row but its last token.
  [[nodiscard]] std::vector<std::int64_t> shifted(std::vector<std::int64_t> row) const {
    row.pop_back();
    row.insert(row.begin(), model_->spec().decoder_start.value_or(0));
    return row;
  }

  std::unique_ptr<Model> model_;
};

double log_sum(std::span<const float> logits) {
  const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

/// Adds up what changes from one side to another.
class Change {
 public:
  Change(LogitChange& into, bool of_logits, bool predicts)
      : into_(into), logits_(of_logits), predicts_(predicts) {}

  void add(std::int64_t row, std::int64_t token, std::span<const float> a, std::span<const float> b,
           std::optional<std::int64_t> next) {
    ++into_.tokens;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double change = std::abs(static_cast<double>(b[i]) - static_cast<double>(a[i]));
      most_ = std::max(most_, std::abs(static_cast<double>(a[i])));
      if (change <= into_.largest) continue;
      into_.largest = change;
      into_.row = row;
      into_.token = token;
    }
    if (!logits_) return;
    const double sum_a = log_sum(a);
    const double sum_b = log_sum(b);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double log_a = static_cast<double>(a[i]) - sum_a;
      kl_ += std::exp(log_a) * (log_a - (static_cast<double>(b[i]) - sum_b));
    }
    const auto best = [](std::span<const float> x) {
      return std::max_element(x.begin(), x.end()) - x.begin();
    };
    same_ += best(a) == best(b) ? 1 : 0;
    if (!predicts_ || !next) return;
    const auto id = static_cast<std::size_t>(*next);
    loss_a_ += sum_a - static_cast<double>(a[id]);
    loss_b_ += sum_b - static_cast<double>(b[id]);
    ++into_.loss_tokens;
  }

  void finish() {
    if (into_.tokens == 0) return;
    const auto tokens = static_cast<double>(into_.tokens);
    into_.largest_relative = most_ > 0 ? into_.largest / most_ : 0;
    if (!logits_) return;
    into_.kl = std::max(kl_, 0.0) / tokens;
    into_.top1 = static_cast<double>(same_) / tokens;
    if (into_.loss_tokens == 0) return;
    into_.loss_a = loss_a_ / static_cast<double>(into_.loss_tokens);
    into_.loss_b = loss_b_ / static_cast<double>(into_.loss_tokens);
  }

 private:
  LogitChange& into_;
  bool logits_;
  bool predicts_;
  double most_ = 0;
  double kl_ = 0;
  std::int64_t same_ = 0;
  double loss_a_ = 0;
  double loss_b_ = 0;
};

/// Rows no longer than what is compared and what the first side's answer may take.
Rows cut(const Rows& rows, std::int64_t distance, std::int64_t width) {
  std::int64_t left =
      kMostAnswer / (std::max<std::int64_t>(width, 1) * static_cast<std::int64_t>(sizeof(float)));
  Rows kept;
  for (const std::vector<std::int64_t>& row : rows) {
    const std::int64_t tokens = std::min({static_cast<std::int64_t>(row.size()), distance, left});
    if (tokens == 0) break;
    kept.emplace_back(row.begin(), row.begin() + tokens);
    left -= tokens;
  }
  return kept;
}

/// What a session is opened for: the row's tokens, or more where the plan asks for what is to come.
std::int64_t capacity_for(const Side& side, const EffectJob& job, std::int64_t tokens) {
  const Model& model = side.model();
  const auto plan_at = [&](std::int64_t capacity) {
    return plan(model.spec().positions, model.recipe(), {.seen = tokens, .capacity = capacity});
  };
  if (job.capacity <= tokens || plan_at(tokens) == plan_at(job.capacity)) return tokens;
  return model.cache_bytes({.rows = 1, .capacity = job.capacity}) > kMostCache ? tokens : job.capacity;
}

struct Kept {
  Rows rows;
  std::int64_t width = 0;
  std::vector<std::vector<float>> values;  ///< [row][tokens * width]
};

void require_room(const Side& side, const EffectJob& job, const Kept& kept, std::int64_t capacity) {
  std::int64_t tokens = 0;
  for (const auto& row : kept.rows) tokens += static_cast<std::int64_t>(row.size());
  const SessionOptions options{.rows = 1, .capacity = capacity};
  require_memory({.weights = side.model().weight_bytes(),
                  .cache = side.model().cache_bytes(options),
                  .tokens = capacity,
                  .workspace = side.model().workspace_bytes(options),
                  .answer = tokens * kept.width * static_cast<std::int64_t>(sizeof(float))},
                 job.host.available_bytes());
}

class Effect {
 public:
  explicit Effect(const EffectJob& job) : job_(job) {}

  CompareEffect measure() {
    effect_.text = job_.rows.text;
    const InterruptWatch watch;
    for (std::size_t i = 0; i < job_.sides.size(); ++i) {
      if (watch.interrupted()) {
        why("interrupted: the answer ends with what was run");
        break;
      }
      const EffectSide& side = job_.sides[i];
      job_.progress.show(fmt::format("running {}", side.name));
      try {
        const Side opened(side, job_);
        if (i == 0) {
          read_first(opened);
        } else {
          compare_with_first(opened, side.name);
        }
      } catch (const SpecError& error) {
        why(fmt::format("{} is not run, {}", side.name, error.what()));
        if (i == 0) break;
      }
    }
    job_.progress.clear();
    return std::move(effect_);
  }

 private:
  void why(std::string sentence) {
    if (effect_.why_not.empty()) effect_.why_not = std::move(sentence);
  }

  void read_first(const Side& side) {
    first_.width = side.width();
    first_.rows = cut(job_.rows.rows, job_.distance, first_.width);
    effect_.of = side.model().has_head() ? "logits" : "states";
    predicts_ = side.model().has_head() && (!side.model().is_bidirectional() || side.model().has_encoder());
    has_encoder_ = side.model().has_encoder();
    for (const auto& row : first_.rows) {
      const auto tokens = static_cast<std::int64_t>(row.size());
      const std::int64_t capacity = capacity_for(side, job_, tokens);
      require_room(side, job_, first_, capacity);
      effect_.capacity = std::max(effect_.capacity, capacity);
      effect_.tokens += tokens;
      ++effect_.rows;
      std::vector<float>& values = first_.values.emplace_back();
      values.reserve(row.size() * static_cast<std::size_t>(first_.width));
      side.read(row, capacity, [&](std::int64_t, std::span<const float> one) {
        values.insert(values.end(), one.begin(), one.end());
      });
    }
  }

  void compare_with_first(const Side& side, const std::string& name) {
    if (side.width() != first_.width)
      throw SpecError(fmt::format("its {} are {} numbers, those of {} are {}", effect_.of, side.width(),
                                  job_.sides.front().name, first_.width));
    LogitChange change{.a = job_.sides.front().name, .b = name};
    Change sums(change, effect_.of == "logits", predicts_);
    for (std::size_t r = 0; r < first_.rows.size(); ++r) {
      const std::vector<std::int64_t>& row = first_.rows[r];
      const auto tokens = static_cast<std::int64_t>(row.size());
      const std::int64_t capacity = capacity_for(side, job_, tokens);
      require_room(side, job_, first_, capacity);
      effect_.capacity = std::max(effect_.capacity, capacity);
      side.read(row, capacity, [&](std::int64_t token, std::span<const float> got) {
        const auto at = static_cast<std::size_t>(token);
        const std::span<const float> want = std::span(first_.values[r]).subspan(at * got.size(), got.size());
        // A decoder beside an encoder reads one token behind.
        const std::size_t next = has_encoder_ ? at : at + 1;
        sums.add(static_cast<std::int64_t>(r), token, want, got,
                 next < row.size() ? std::optional(row[next]) : std::nullopt);
      });
    }
    sums.finish();
    effect_.pairs.push_back(std::move(change));
  }

  const EffectJob& job_;
  CompareEffect effect_;
  Kept first_;
  bool predicts_ = false;
  bool has_encoder_ = false;
};

}  // namespace

std::vector<std::int64_t> seeded_ids(std::int64_t vocab, std::int64_t tokens) {
  std::vector<std::int64_t> ids;
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < tokens; ++i) {
    // Steele, Lea and Flood 2014, SplitMix64.
    std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    z ^= z >> 31U;
    ids.push_back(static_cast<std::int64_t>(z % static_cast<std::uint64_t>(vocab)));
  }
  return ids;
}

CompareEffect measure_effect(const EffectJob& job) {
  return Effect(job).measure();
}

}  // namespace locant::cli
