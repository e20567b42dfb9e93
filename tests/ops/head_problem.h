// SPDX-License-Identifier: Apache-2.0
// Random operands of a language-model head.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/block_rows.h"
#include "locant/ops.h"

namespace locant::testing {

struct HeadProblem {
  std::int64_t tokens, vocab, width;
  std::vector<float> x, values, bias;

  HeadProblem(std::int64_t tokens_, std::int64_t vocab_, std::int64_t width_, Random random)
      : tokens(tokens_),
        vocab(vocab_),
        width(width_),
        x(static_cast<std::size_t>(tokens * width)),
        values(static_cast<std::size_t>(vocab * width)),
        bias(static_cast<std::size_t>(vocab)) {
    for (auto* all : {&x, &values, &bias}) {
      for (float& value : *all) value = random.next();
    }
  }
  [[nodiscard]] Matrix table() const { return matrix(View<const float, 2>(values.data(), {vocab, width})); }
};

}  // namespace locant::testing
