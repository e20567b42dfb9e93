// SPDX-License-Identifier: Apache-2.0
// A user's program: one call into each kind of room, so that a missing library shows at the link. The numbers
// are checked by tests/install/run.py.
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <variant>
#include <vector>

#include <locant/core.h>
#include <locant/ops.h>
#include <locant/positions.h>
#include <locant/spec.h>
#include <locant/text.h>
#include <locant/threads.h>

namespace {
void print(const char* name, double value) {
  std::printf("%s %.6f\n", name, value);
}
}  // namespace

int main(int count, char** arguments) {
  std::printf("version %s\n", std::string(locant::version()).c_str());
  print("slope", locant::alibi_slopes(8).front());

  locant::PositionSpec spec{.mechanism = "rope", .parameters = {}};
  spec.set("head_dim", std::int64_t{4});
  spec.set("theta", 10000.0);
  const locant::SitePlan plan =
      locant::find_mechanism("rope").plan(spec, locant::find_recipe("exact"), {.seen = 1});
  print("inv_freq", std::get<locant::Rotation>(plan).inv_freq.back());

  const std::array<float, 6> table{0, 1, 2, 3, 4, 5};
  const std::array<std::int64_t, 1> ids{2};
  std::array<float, 2> out{};
  locant::ThreadPool pool(2);
  const locant::View<const float, 2> rows(table.data(), {3, 2});
  locant::embed(
      {.ids = {ids.data(), {1}}, .table = locant::matrix(rows), .scale = 0.5F, .out = {out.data(), {1, 2}}},
      pool);
  print("embedded", static_cast<double>(out[1]));

  try {
    const locant::OpenedTokenizer text = locant::open_tokenizer(count > 1 ? arguments[1] : ".");
    std::printf("tokenizer %s\n", text.tokenizer ? text.tokenizer->kind().c_str() : "none");
    const locant::ModelSpec model = locant::read_hf_config(count > 1 ? arguments[1] : ".");
    std::printf("heads %lld\n", static_cast<long long>(model.heads));
  } catch (const std::exception& error) {
    std::printf("no model: %s\n", error.what());
  }
}
