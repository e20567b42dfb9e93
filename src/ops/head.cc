// SPDX-License-Identifier: Apache-2.0
// The head in tiles of the vocabulary: logits of a tile come and go in a buffer that stays in a cache, a part
// a tile is kept, parts are joined in their order. Tiles do not depend on the number of threads.
#include "locant/head.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/elements.h"
#include "kernels/scan.h"
#include "ops/candidates.h"
#include "ops/check.h"
#include "ops/product.h"

namespace locant {
namespace {

using namespace check_ops;

constexpr std::int64_t kTile = 2048;  // rows
constexpr std::int64_t kRun = 256;    // rows whose logits stand in the buffer
constexpr std::int64_t kTokens = kernels::kProjectTokens;
static_assert(kRun <= kernels::kDenseRows && kTokens * kRun <= kernels::kInt8Sums && kTile % kRun == 0);

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Of the exponentials relative to a part's top, relative to `top`.
double moved(const HeadPart& part, float top) noexcept {
  if (std::isinf(top) || std::isinf(part.top)) return part.sum;
  return part.sum * std::exp(static_cast<double>(part.top) - static_cast<double>(top));
}

void join(HeadPart& part, const HeadPart& other) noexcept {
  const float top = std::max(part.top, other.top);
  part.sum = moved(part, top) + moved(other, top);
  part.top = top;
}

// Shares of the probability that a draw can be compared with.
bool can_be_drawn(const HeadPart& all) noexcept {
  return all.sum > 0 && std::isfinite(all.sum) && std::isfinite(all.top);
}

HeadPart sum_of(const float* logits, std::int64_t rows) noexcept {
  const float top = kernels::maximum(logits, rows);
  return {.sum = kernels::sum_exp(logits, rows, std::isinf(top) ? 0.0F : top), .top = top, .held = 0};
}

// What a tile found bounds the others; that it may come late changes nothing but their work.
void raise(std::atomic<float>& floor, float value) noexcept {
  float before = floor.load(std::memory_order_relaxed);
  while (value > before && !floor.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

template <class T>
void may_be_written(std::string_view name, const View<T, 1>& view, const HeadCall& call) {
  if (view.data_handle() == nullptr && view.empty()) return;
  has_shape("head", name, view, {{call.x.extent(0)}, {"tokens"}});
  writable("head", name, view);
}

void check_overlaps(std::string_view name, const Extent& out, const HeadCall& call) {
  if (overlap(extent_of(call.x), out)) fail("head: {} overlap x", name);
  if (overlap(extent_of(call.weight), out)) fail("head: {} overlap the weight", name);
  if (overlap(extent_of(call.bias), out)) fail("head: {} overlap bias", name);
  if (overlap(extent_of(call.targets), out)) fail("head: {} overlap targets", name);
  if (overlap(extent_of(call.draws), out)) fail("head: {} overlap draws", name);
}

void check_targets(const HeadCall& call) {
  const bool given = !call.targets.empty();
  if (given != !call.target_logits.empty())
    fail("head: targets are {} and their logits {}, expected both or none", text(call.targets),
         text(call.target_logits));
  if (!given) return;
  has_shape("head", "targets", call.targets, {{call.x.extent(0)}, {"tokens"}});
  readable("head", "targets", call.targets);
  for (std::int64_t t = 0; t < call.targets.extent(0); ++t) {
    if (call.targets(t) < 0 || call.targets(t) >= call.weight.rows)
      throw std::out_of_range(
          fmt::format("head: target {} at row {} is outside vocab {}", call.targets(t), t, call.weight.rows));
  }
}

void check_draws(const HeadCall& call) {
  const bool given = !call.draws.empty();
  if (given != !call.drawn.empty())
    fail("head: draws are {} and what they draw {}, expected both or none", text(call.draws),
         text(call.drawn));
  if (!given) return;
  has_shape("head", "draws", call.draws, {{call.x.extent(0)}, {"tokens"}});
  readable("head", "draws", call.draws);
  if (!(call.temperature > 0) || std::isinf(call.temperature))
    fail("head: temperature is {}, expected above 0 and finite", call.temperature);
  for (std::int64_t t = 0; t < call.draws.extent(0); ++t) {
    if (!(call.draws(t) >= 0 && call.draws(t) < 1))
      fail("head: draw {} at row {}, expected in [0, 1)", call.draws(t), t);
  }
}

void check_head(const HeadCall& call, const HeadSpace& space) {
  readable("head", "x", call.x);
  weight("head", "weight", call.weight);
  if (call.weight.columns == 0)
    fail("head: weight is [{},0], expected at least one column", call.weight.rows);
  if (call.x.extent(1) != call.weight.columns)
    fail("head: x is {}, expected [tokens, columns={}]", text(call.x), call.weight.columns);
  if (call.bias.data_handle() != nullptr || !call.bias.empty())
    vector("head", "bias", call.bias, call.weight.rows, "rows");
  if (!(call.softcap >= 0) || std::isinf(call.softcap))
    fail("head: softcap is {}, expected 0 or more", call.softcap);
  may_be_written("target_logits", call.target_logits, call);
  may_be_written("log_sum_exp", call.log_sum_exp, call);
  if (!call.candidates.empty()) {
    has_shape("head", "candidates", call.candidates,
              {{call.x.extent(0), call.candidates.extent(1)}, {"tokens", "candidates"}});
    writable("head", "candidates", call.candidates);
  }
  may_be_written("drawn", call.drawn, call);
  check_targets(call);
  check_draws(call);
  check_overlaps("drawn", extent_of(call.drawn), call);
  check_overlaps("target_logits", extent_of(call.target_logits), call);
  check_overlaps("log_sum_exp", extent_of(call.log_sum_exp), call);
  check_overlaps("candidates", extent_of(call.candidates), call);
  const std::int64_t k = call.candidates.empty() ? 0 : call.candidates.extent(1);
  if (call.x.extent(0) > space.tokens() || call.weight.rows != space.vocab() || k > space.candidates())
    fail("head: space is for {} tokens, {} rows and {} candidates, expected {}, {} and {}", space.tokens(),
         space.vocab(), space.candidates(), call.x.extent(0), call.weight.rows, k);
}

class Head {
 public:
  Head(const HeadCall& call, HeadSpace& space) noexcept
      : call_(call),
        kernel_(product_kernel(call.weight, call.activations, call.x.extent(0))),
        tiles_(ceil_div(call.weight.rows, kTile)),
        runs_(ceil_div(call.weight.rows, kRun)),
        wanted_(call.candidates.empty() ? 0 : call.candidates.extent(1)),
        parts_(space.parts().data()),
        shares_(space.shares().data()),
        best_(space.best().data()),
        floors_(space.floors()) {
    for (std::int64_t t = 0; t < call.x.extent(0); ++t) floors_[t].store(kNone, std::memory_order_relaxed);
  }

  [[nodiscard]] std::int64_t tiles() const noexcept { return tiles_; }

  // Tile `tile` for up to kTokens tokens from `token` on.
  void run(std::int64_t token, std::int64_t tile) const noexcept {
    alignas(64) float logits[kTokens * kRun];
    const std::int64_t tokens = std::min(kTokens, call_.x.extent(0) - token);
    const std::int64_t end = std::min(call_.weight.rows, (tile + 1) * kTile);
    for (std::int64_t t = 0; t < tokens; ++t) part(token + t, tile) = {.sum = 0, .top = kNone, .held = 0};
    for (std::int64_t n = tile * kTile; n < end; n += kRun) {
      const std::int64_t rows = std::min(kRun, end - n);
      multiply({.token = token, .tokens = tokens, .row = n, .rows = rows}, logits);
      for (std::int64_t t = 0; t < tokens; ++t) take(token + t, tile, n, rows, logits + t * kRun);
    }
  }

  // What a token draws: the run from the shares, the id from the run's logits once more.
  void draw(std::int64_t t) const noexcept {
    HeadPart all{.sum = 0, .top = kNone, .held = 0};
    for (std::int64_t run = 0; run < runs_; ++run) join(all, share(t, run));
    call_.drawn(t) = -1;
    if (!can_be_drawn(all)) return;
    const double target = call_.draws(t) * all.sum;
    double sum = 0;
    double before = 0;  // the run found
    std::int64_t found = 0;
    for (std::int64_t run = 0; run < runs_ && target >= sum; ++run) {
      const double more = moved(share(t, run), all.top);
      if (more == 0) continue;
      found = run;
      before = sum;
      sum += more;
    }
    call_.drawn(t) = drawn_in_run(t, found, all.top, target - before);
  }

  // The answers of a token from its parts.
  void finish(std::int64_t t) const noexcept {
    HeadPart all{.sum = 0, .top = kNone, .held = 0};
    std::span<Candidate> row;
    if (wanted_ > 0) row = {&call_.candidates(t, 0), static_cast<std::size_t>(wanted_)};
    BestCandidates best(row);
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
      const HeadPart& one = part(t, tile);
      join(all, one);
      for (const Candidate& candidate : room(t, tile).first(static_cast<std::size_t>(one.held)))
        best.offer(candidate);
    }
    best.sort();
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(best.held()), row.end(), Candidate{-1, kNone});
    if (call_.log_sum_exp.empty()) return;
    const double sum = std::log(all.sum);
    call_.log_sum_exp(t) = std::isinf(all.top) ? sum : static_cast<double>(all.top) + sum;
  }

 private:
  [[nodiscard]] HeadPart& part(std::int64_t t, std::int64_t tile) const noexcept {
    return parts_[t * tiles_ + tile];
  }
  [[nodiscard]] std::span<Candidate> room(std::int64_t t, std::int64_t tile) const noexcept {
    return {best_ + (t * tiles_ + tile) * wanted_, static_cast<std::size_t>(wanted_)};
  }

  [[nodiscard]] HeadPart& share(std::int64_t t, std::int64_t run) const noexcept {
    return shares_[t * runs_ + run];
  }

  // Logits [tokens, kRun] of some rows.
  void multiply(const BlockAt& at, float* logits) const noexcept {
    kernels::ProjectBlock block = product_block(call_.x, call_.weight, call_.bias, at);
    block.scale = call_.scale;
    block.out = logits;
    block.out_stride = kRun;
    kernel_(block);
    if (call_.softcap == 0) return;
    for (std::int64_t t = 0; t < at.tokens; ++t)
      kernels::softcap(logits + t * kRun, call_.softcap, at.rows, logits + t * kRun);
  }

  void cool(const float* logits, std::int64_t rows, float* out) const noexcept {
    for (std::int64_t i = 0; i < rows; ++i) out[i] = logits[i] / call_.temperature;
  }

  // The id at which the run's sum passes `target`, the last one of any weight where rounding keeps it below.
  [[nodiscard]] std::int64_t drawn_in_run(std::int64_t t, std::int64_t run, float top,
                                          double target) const noexcept {
    alignas(64) float logits[kRun];
    const std::int64_t first = run * kRun;
    const std::int64_t rows = std::min(kRun, call_.weight.rows - first);
    multiply({.token = t, .tokens = 1, .row = first, .rows = rows}, logits);
    cool(logits, rows, logits);
    double sum = 0;
    std::int64_t last = first;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double weight = std::exp(static_cast<double>(logits[i]) - static_cast<double>(top));
      if (weight == 0) continue;
      last = first + i;
      sum += weight;
      if (target < sum) break;
    }
    return last;
  }

  void take(std::int64_t t, std::int64_t tile, std::int64_t n, std::int64_t rows,
            const float* logits) const noexcept {
    HeadPart& one = part(t, tile);
    if (!call_.targets.empty()) {
      const std::int64_t at = call_.targets(t) - n;
      if (at >= 0 && at < rows) call_.target_logits(t) = logits[at];
    }
    const bool draws = !call_.draws.empty();
    if (!call_.log_sum_exp.empty() || (draws && call_.temperature == 1)) {
      const HeadPart sum = sum_of(logits, rows);
      join(one, sum);
      if (draws) share(t, n / kRun) = sum;
    }
    if (draws && call_.temperature != 1) {
      alignas(64) float cooled[kRun];
      cool(logits, rows, cooled);
      share(t, n / kRun) = sum_of(cooled, rows);
    }
    if (wanted_ == 0) return;
    BestCandidates best(room(t, tile), static_cast<std::size_t>(one.held));
    best.offer(n, logits, rows, floors_[t].load(std::memory_order_relaxed));
    if (best.full()) raise(floors_[t], best.worst());
    one.held = static_cast<std::int64_t>(best.held());
  }

  const HeadCall& call_;
  ProductKernel kernel_;
  std::int64_t tiles_;
  std::int64_t runs_;
  std::int64_t wanted_;
  HeadPart* parts_;
  HeadPart* shares_;
  Candidate* best_;
  std::atomic<float>* floors_;
};

std::size_t parts_of(std::int64_t tokens, std::int64_t vocab, std::int64_t candidates) {
  if (tokens < 0 || vocab < 0 || candidates < 0)
    fail("head: space for {} tokens, {} rows and {} candidates, expected none below 0", tokens, vocab,
         candidates);
  return static_cast<std::size_t>(tokens * ceil_div(vocab, kTile));
}

}  // namespace

HeadSpace::HeadSpace(std::int64_t tokens, std::int64_t vocab, std::int64_t candidates)
    : tokens_(tokens),
      vocab_(vocab),
      candidates_(candidates),
      parts_(parts_of(tokens, vocab, candidates)),
      shares_(static_cast<std::size_t>(tokens * ceil_div(vocab, kRun))),
      best_(parts_.size() * static_cast<std::size_t>(candidates)),
      floors_(std::make_unique<std::atomic<float>[]>(static_cast<std::size_t>(tokens))) {}

void head(const HeadCall& call, HeadSpace& space, ThreadPool& pool) {
  check_head(call, space);
  const std::int64_t tokens = call.x.extent(0);
  if (tokens == 0) return;
  const Head work(call, space);
  const std::int64_t cuts = ceil_div(tokens, kTokens);
  const auto body = [&](std::int64_t piece) { work.run(piece % cuts * kTokens, piece / cuts); };
  run_pieces(pool, cuts * work.tiles(), tokens * call.weight.rows * call.weight.columns / 4, body);
  for (std::int64_t t = 0; t < tokens; ++t) work.finish(t);
  if (call.draws.empty()) return;
  run_pieces(pool, tokens, tokens * kRun * call.weight.columns / 4, [&](std::int64_t t) { work.draw(t); });
}

}  // namespace locant
