// SPDX-License-Identifier: Apache-2.0
// Whole models: load, a prompt, one token behind it. The bundled `rope`, and stories260K where its data lies.
// The answer is checked token by token against the whole prompt, which golden tests hold to f64.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/model.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kPrompt = 96;

struct Running {
  std::string path;
  std::unique_ptr<Model> model;
  std::unique_ptr<Session> session;
  std::vector<std::int64_t> ids;
  std::vector<float> whole, last;
};

void feed(Running& data, Session& session, std::span<const std::int64_t> ids, std::vector<float>& logits) {
  const std::vector<std::int64_t> count{static_cast<std::int64_t>(ids.size())};
  session.feed({.ids = ids, .row_tokens = count, .positions = {}}, LogitsOf::last_of_row,
               [&](std::int64_t, View<const float, 2> view) {
                 logits.assign(view.data_handle(), view.data_handle() + data.model->vocab());
               });
}

double error_of(Running& data) {
  const auto session = data.model->open_session({.rows = 1, .capacity = kPrompt});
  for (const std::int64_t& id : data.ids) feed(data, *session, {&id, 1}, data.last);
  feed(data, *data.model->open_session({.rows = 1, .capacity = kPrompt}), data.ids, data.whole);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < data.whole.size(); ++i) {
    worst =
        std::max(worst, std::fabs(static_cast<double>(data.whole[i]) - static_cast<double>(data.last[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(data.whole[i])));
  }
  return worst / largest / budgets::kConformancePadding;
}

void rows_of(ThreadPool& pool, Rows& rows, const std::string& name, const std::string& path) {
  auto data = std::make_shared<Running>();
  data->path = path;
  data->model = Model::load(path, {}, pool);
  for (std::int64_t i = 0; i < kPrompt; ++i) data->ids.push_back(4 + i * 7 % (data->model->vocab() - 4));
  const double flop = 2.0 * static_cast<double>(data->model->parameters());
  const auto request = [&](std::string_view what) {
    return fmt::format(R"({{"op": "model", "what": "{}", "path": "{}", "tokens": {}}})", what, path, kPrompt);
  };
  const auto row = [&](std::string_view what, double amount, std::function<void()> run) {
    rows.push_back({.operation = "model",
                    .shape = fmt::format("{}: {}", name, what),
                    .dtype = "f32",
                    .limit = Limit::fma,
                    .amount = amount,
                    .working_set = 1 << 16,
                    .run = std::move(run),
                    .error = [data] { return error_of(*data); },
                    .peer = request(what == "load"               ? "load"
                                    : what.starts_with("prompt") ? "prompt"
                                                                 : "token")});
  };
  row("load", 0, [data, &pool] {
    (void)Model::load(data->path, {}, pool)->open_session({.rows = 1, .capacity = kPrompt});
  });
  row(fmt::format("prompt of {} tokens", kPrompt), flop * kPrompt, [data] {
    // a fresh cache each time, as a new prompt has
    const auto session = data->model->open_session({.rows = 1, .capacity = kPrompt});
    feed(*data, *session, data->ids, data->whole);
  });
  row(fmt::format("one token after {}", kPrompt - 1), flop, [data] {
    if (data->session == nullptr || data->session->tokens(0) == data->session->capacity()) {
      data->session = data->model->open_session({.rows = 1, .capacity = kPrompt + 64});
      feed(*data, *data->session, std::span(data->ids).first(kPrompt - 1), data->last);
    }
    feed(*data, *data->session, std::span(data->ids).last(1), data->last);
  });
}

}  // namespace

void model_rows(ThreadPool& pool, Rows& rows) {
  rows_of(pool, rows, "rope", LOCANT_SOURCE_DIR "/models/rope");
  std::string data = LOCANT_BENCH_DATA;
  if (data.empty()) data = LOCANT_SOURCE_DIR "/../shared/data";
  const std::string stories = data + "/stories260k/hf";
  std::error_code ignored;
  if (std::filesystem::exists(stories, ignored)) rows_of(pool, rows, "stories260K", stories);
}

}  // namespace locant::bench
