// SPDX-License-Identifier: Apache-2.0
// Ids -> logits of a checkpoint directory, as its authors meant it, and the five best next tokens.
// usage: logits MODEL_DIRECTORY
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"
#include "locant/text.h"
#include "locant/threads.h"

namespace {
void print_best(const char* directory) {
  locant::ThreadPool pool(locant::ThreadPool::hardware());
  const std::unique_ptr<locant::Model> model = locant::Model::load(directory, {}, pool);
  const locant::OpenedTokenizer text = locant::open_tokenizer(directory);
  if (text.tokenizer == nullptr) throw locant::SpecError(text.why_not);

  const std::vector<std::int64_t> ids = text.tokenizer->encode("It is a truth");
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::unique_ptr<locant::Session> session = model->open_session({.rows = 1, .capacity = tokens});
  const std::array<std::int64_t, 1> row_tokens{tokens};
  session->feed({.ids = ids, .row_tokens = row_tokens, .positions = {}}, locant::LogitsOf::last_of_row,
                [&](std::int64_t, locant::View<const float, 2> logits) {
                  const locant::View<const float, 1> last(&logits(0, 0), {logits.extent(1)});
                  std::array<locant::Candidate, 5> best{};
                  const std::size_t found = locant::top_candidates(last, best);
                  const double total = locant::log_sum_exp(last);
                  std::printf("after %lld tokens, of %lld:\n", static_cast<long long>(tokens),
                              static_cast<long long>(logits.extent(1)));
                  for (std::size_t i = 0; i < found; ++i) {
                    const double logit = static_cast<double>(best[i].logit);
                    std::printf("id %4lld  logit %8.3f  probability %.3f\n",
                                static_cast<long long>(best[i].id), logit, std::exp(logit - total));
                  }
                });
}
}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: logits MODEL_DIRECTORY\n");
    return 2;
  }
  try {
    print_best(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "logits: %s\n", error.what());
    return 2;
  }
}
