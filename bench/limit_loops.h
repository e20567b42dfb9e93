// SPDX-License-Identifier: Apache-2.0
// The loops behind limits.cc, compiled for every target.
#pragma once

#include <cstdint>

namespace locant::bench {

[[nodiscard]] double fma_loop(std::int64_t rounds, float* sink);  ///< operations done
void read_loop(const float* from, std::int64_t count, float* sink);
void copy_loop(const float* from, float* to, std::int64_t count);
void nt_copy_loop(const float* from, float* to, std::int64_t count);
void update_loop(float* at, std::int64_t count);
void store_loop(float* at, std::int64_t count);
void nt_store_loop(float* at, std::int64_t count);

}  // namespace locant::bench
