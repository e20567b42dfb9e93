// SPDX-License-Identifier: Apache-2.0
// One call of a kernel for callgrind to count: instructions between counted()'s first and last, on AVX2,
// which valgrind knows, and one thread. usage: bench_counts --list (JSON) | bench_counts KERNEL
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "frame.h"
#include "kernels/targets.h"
#include "locant/core.h"
#include "locant/formats.h"
#include "locant/ops.h"
#include "locant/positions.h"

/// callgrind collects inside it alone (--toggle-collect).
extern "C" __attribute__((noinline)) void counted(const std::function<void()>& call) {
  call();
}

namespace {

using namespace locant;
using bench::values;

struct Kernel {
  std::string name;
  std::function<std::function<void()>(ThreadPool&)> make;
};

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

template <class T>
std::vector<T> narrow_of(const std::vector<float>& wide) {
  std::vector<T> all;
  for (const float x : wide) {
    if constexpr (std::is_same_v<T, Half>) {
      all.push_back(half_from_f32(x));
    } else {
      all.push_back(bfloat16_from_f32(x));
    }
  }
  return all;
}

std::function<void()> lookup(ThreadPool& pool) {
  constexpr std::int64_t kRows = 64, kWidth = 1024, kTokens = 64;
  struct Data {
    std::vector<float> table = values(size(kRows * kWidth), 1),
                       out = std::vector<float>(size(kTokens * kWidth));
    std::vector<std::int64_t> ids = std::vector<std::int64_t>(size(kTokens));
  };
  auto data = std::make_shared<Data>();
  for (std::int64_t t = 0; t < kTokens; ++t) data->ids[size(t)] = t * 7 % kRows;
  return [data, &pool] {
    embed({.ids = {data->ids.data(), {kTokens}},
           .table = matrix(TensorRef(data->table.data(), DType::f32, {kRows, kWidth})),
           .scale = 2,
           .out = {data->out.data(), {kTokens, kWidth}}},
          pool);
  };
}

template <class T>
std::function<void()> rotation(ThreadPool& pool, Pairing pairing) {
  constexpr std::int64_t kTokens = 32, kHeads = 8, kWidth = 128, kPairs = kWidth / 2;
  struct Data {
    std::vector<T> x;
    std::vector<float> cos = values(size(kTokens * kPairs), 3), sin = values(size(kTokens * kPairs), 4);
  };
  auto data = std::make_shared<Data>();
  const std::vector<float> wide = values(size(kTokens * kHeads * kWidth), 2);
  if constexpr (std::is_same_v<T, float>) {
    data->x = wide;
  } else {
    data->x = narrow_of<T>(wide);
  }
  return [data, pairing, &pool] {
    const View<T, 3> x(data->x.data(), {kTokens, kHeads, kWidth});
    rotate(RotateCall<T>{.x = x,
                         .cos = {data->cos.data(), {kTokens, kPairs}},
                         .sin = {data->sin.data(), {kTokens, kPairs}},
                         .shape = {.read = pairing, .write = pairing},
                         .out = x},
           pool);
  };
}

std::function<void()> table(ThreadPool&) {
  constexpr std::int64_t kTokens = 64, kPairs = 64;
  struct Data {
    PositionSpec spec{.mechanism = "rope", .parameters = {}};
    std::vector<std::int64_t> positions = text_positions(kTokens);
    std::vector<float> cos = std::vector<float>(size(kTokens * kPairs)), sin = cos;
  };
  auto data = std::make_shared<Data>();
  data->spec.set("head_dim", 2 * kPairs);
  const Recipe& exact = find_recipe("exact");
  const auto plan =
      std::make_shared<Rotation>(std::get<Rotation>(find_mechanism("rope").plan(data->spec, exact, {})));
  return [data, plan, &exact] {
    rotation_table(*plan, exact.numerics, {data->positions.data(), {1, kTokens}},
                   {data->cos.data(), {kTokens, kPairs}}, {data->sin.data(), {kTokens, kPairs}});
  };
}

std::function<void()> attention(ThreadPool& pool, std::int64_t tokens, std::int64_t slots, DType dtype) {
  constexpr std::int64_t kHeads = 8, kKvHeads = 2, kWidth = 128;
  struct Data {
    std::vector<float> q, k, v, out;
    std::vector<Half> narrow_k, narrow_v;
  };
  auto data = std::make_shared<Data>();
  data->q = values(size(tokens * kHeads * kWidth), 3);
  data->k = values(size(slots * kKvHeads * kWidth), 4);
  data->v = values(size(slots * kKvHeads * kWidth), 5);
  data->out.resize(data->q.size());
  data->narrow_k = narrow_of<Half>(data->k);
  data->narrow_v = narrow_of<Half>(data->v);
  const bool wide = dtype == DType::f32;
  CacheTensor keys{.data = wide ? static_cast<void*>(data->k.data()) : data->narrow_k.data(),
                   .dtype = dtype,
                   .heads = kKvHeads,
                   .capacity = slots,
                   .width = kWidth};
  CacheTensor cached = keys;
  cached.data = wide ? static_cast<void*>(data->v.data()) : data->narrow_v.data();
  return [data, keys, cached, tokens, slots, &pool] {
    AttendCall call;
    call.q = {data->q.data(), {tokens, kHeads, kWidth}};
    call.keys = keys;
    call.values = cached;
    call.first_slot = slots - tokens;
    call.scale = 0.0884F;
    call.out = {data->out.data(), {tokens, kHeads, kWidth}};
    attend({&call, 1}, pool);
  };
}

constexpr std::int64_t kVocab = 256, kHidden = 1024;

std::function<void()> product(ThreadPool& pool, std::int64_t tokens, DType dtype) {
  struct Data {
    std::vector<float> x, out, weight = values(size(kVocab * kHidden), 8);
    std::vector<BFloat16> narrow = narrow_of<BFloat16>(weight);
  };
  auto data = std::make_shared<Data>();
  data->x = values(size(tokens * kHidden), 6);
  data->out.resize(size(tokens * kVocab));
  return [data, tokens, dtype, &pool] {
    const void* const stored =
        dtype == DType::f32 ? static_cast<const void*>(data->weight.data()) : data->narrow.data();
    project({.x = {data->x.data(), {tokens, kHidden}},
             .weight = matrix(TensorRef(stored, dtype, {kVocab, kHidden})),
             .out = {data->out.data(), {tokens, kVocab}}},
            pool);
  };
}

std::function<void()> block_product(ThreadPool& pool, std::int64_t tokens, GgmlType type,
                                    Activations activations) {
  struct Data {
    std::vector<float> x, out;
    std::vector<std::uint8_t> weight;
  };
  auto data = std::make_shared<Data>();
  data->x = values(size(tokens * kHidden), 6);
  data->out.resize(size(tokens * kVocab));
  const std::int64_t blocks = kVocab * kHidden / block_elements(type), bytes = block_bytes(type);
  const Half scale = half_from_f32(0x1p-6F);
  data->weight.resize(size(blocks * bytes));
  for (std::size_t i = 0; i < data->weight.size(); ++i)
    data->weight[i] = static_cast<std::uint8_t>(i * 37 % 251);
  for (std::int64_t b = 0; b < blocks; ++b) {
    data->weight[size(b * bytes)] = static_cast<std::uint8_t>(scale.bits & 0xFFU);
    data->weight[size(b * bytes + 1)] = static_cast<std::uint8_t>(scale.bits >> 8);
  }
  return [data, tokens, type, activations, &pool] {
    project({.x = {data->x.data(), {tokens, kHidden}},
             .weight = {.data = data->weight.data(),
                        .rows = kVocab,
                        .columns = kHidden,
                        .row_stride = kHidden,
                        .blocks = type},
             .activations = activations,
             .out = {data->out.data(), {tokens, kVocab}}},
            pool);
  };
}

std::function<void()> candidates(ThreadPool&) {
  auto logits = std::make_shared<std::vector<float>>(values(1 << 15, 9));
  return [logits] {
    Candidate best[40];
    const View<const float, 1> view(logits->data(), {static_cast<std::int64_t>(logits->size())});
    (void)top_candidates(view, best);
    (void)log_sum_exp(view);
  };
}

std::vector<Kernel> kernels_counted() {
  return {
      {"lookup f32", lookup},
      {"rotation f32 half", [](ThreadPool& pool) { return rotation<float>(pool, Pairing::half); }},
      {"rotation f32 interleaved",
       [](ThreadPool& pool) { return rotation<float>(pool, Pairing::interleaved); }},
      {"rotation f16 half", [](ThreadPool& pool) { return rotation<Half>(pool, Pairing::half); }},
      {"rotation bf16 half", [](ThreadPool& pool) { return rotation<BFloat16>(pool, Pairing::half); }},
      {"cos and sin table", table},
      {"attention f32, 64 tokens", [](ThreadPool& pool) { return attention(pool, 64, 64, DType::f32); }},
      {"attention f32, one of 512", [](ThreadPool& pool) { return attention(pool, 1, 512, DType::f32); }},
      {"attention f16, one of 512", [](ThreadPool& pool) { return attention(pool, 1, 512, DType::f16); }},
      {"product f32, 1 row", [](ThreadPool& pool) { return product(pool, 1, DType::f32); }},
      {"product f32, 8 rows", [](ThreadPool& pool) { return product(pool, 8, DType::f32); }},
      {"product bf16, 8 rows", [](ThreadPool& pool) { return product(pool, 8, DType::bf16); }},
      {"product Q4_0 f32, 1 row",
       [](ThreadPool& pool) { return block_product(pool, 1, GgmlType::q4_0, Activations::f32); }},
      {"product Q4_0 int8, 1 row",
       [](ThreadPool& pool) { return block_product(pool, 1, GgmlType::q4_0, Activations::int8); }},
      {"product Q8_0 int8, 8 rows",
       [](ThreadPool& pool) { return block_product(pool, 8, GgmlType::q8_0, Activations::int8); }},
      {"top 40 and log-sum-exp", candidates},
  };
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang++ {}", __clang_major__);
#elif defined(__GNUC__)
  return fmt::format("g++ {}", __GNUC__);
#else
  return "another compiler";
#endif
}

bool take_avx2() {
  for (const kernels::Target& target : kernels::targets()) {
    if (target.name != "AVX2") continue;
    kernels::use_only_target(target);
    return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string wanted = count == 2 ? arguments[1] : "";
  if (wanted == "--list") {
    nlohmann::json names = nlohmann::json::array();
    for (const Kernel& kernel : kernels_counted()) names.push_back(kernel.name);
    fmt::print("{}\n",
               nlohmann::json{{"compiler", compiler()}, {"avx2", take_avx2()}, {"kernels", names}}.dump());
    return 0;
  }
  if (!take_avx2()) return 3;
  ThreadPool pool(1);
  for (const Kernel& kernel : kernels_counted()) {
    if (kernel.name != wanted) continue;
    const std::function<void()> call = kernel.make(pool);
    call();  // what the first call alone does is not counted
    counted(call);
    return 0;
  }
  fmt::print(stderr, "usage: bench_counts --list | bench_counts KERNEL\n");
  return 2;
}
