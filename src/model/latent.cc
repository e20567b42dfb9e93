// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (DeepSeek-V2, section 2.1.2): queries and keys grow from normed low ranks, a
// slice of each key is shared by all heads and rotates. Keys and values are cached grown.
#include <algorithm>

#include "model/blocks.h"

namespace locant {

void project_latent(const Step& step, const LatentWeights& weights, View<const float, 2> x) {
  const LatentSpec& latent = step.spec.latent;
  const std::int64_t heads = step.stack.heads;
  const View<float, 2> q = step.work.q.rows(0, step.tokens);
  if (latent.q_rank == 0) {
    linear(step, weights.q, x, q);
  } else {
    const View<float, 2> low = step.work.q_latent.rows(0, step.tokens);
    linear(step, weights.q_down, x, low);
    normalize_rows(step, step.spec.norm, weights.q_norm, low, low);
    linear(step, weights.q_up, low, q);
  }
  const View<float, 2> low = step.work.kv_latent.rows(0, step.tokens);
  linear(step, weights.kv_down, x, low);
  const View<float, 2> content = columns_of(low, 0, latent.kv_rank);
  normalize_rows(step, step.spec.norm, weights.kv_norm, content, content);
  const View<float, 2> grown = step.work.fused.rows(0, step.tokens);
  linear(step, weights.kv_up, content, grown);
  const std::int64_t of_head = latent.still + latent.value_width;
  const View<float, 3> k = heads_of(step.work.k.rows(0, step.tokens), heads, step.spec.head_dim);
  const View<float, 3> v = heads_of(step.work.v.rows(0, step.tokens), heads, latent.value_width);
  for (std::int64_t t = 0; t < step.tokens; ++t) {
    const float* const rotating = &low(t, latent.kv_rank);
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* const from = &grown(t, h * of_head);
      std::copy_n(from, latent.still, &k(t, h, 0));
      std::copy_n(rotating, latent.rotating, &k(t, h, 0) + latent.still);
      std::copy_n(from + latent.still, latent.value_width, &v(t, h, 0));
    }
  }
}

}  // namespace locant
