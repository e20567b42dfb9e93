// SPDX-License-Identifier: Apache-2.0
// A model file loaded and fed one token, whatever it holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "locant/model.h"

namespace locant::tests {

/// No small file asks for more at once.
inline constexpr std::size_t kMostAllocated = std::size_t{64} << 20;

/// What loading and one token throw as an error of the library; "" when they throw nothing.
inline std::string refusal_of_one_token(const std::string& path, ThreadPool& pool) {
  try {
    const std::unique_ptr<Model> model = Model::load(path, {}, pool);
    const SessionOptions options{.rows = 1, .capacity = 4};
    const auto most = static_cast<std::int64_t>(kMostAllocated);
    if (model->cache_bytes(options) > most || model->workspace_bytes(options) > most)
      throw std::logic_error("a session of this model asks for too much");
    const auto session = model->open_session(options);
    const std::array<std::int64_t, 1> ids = {1};
    const std::array<std::int64_t, 1> counts = {1};
    const FeedCall call{.ids = ids, .row_tokens = counts, .positions = {}};
    if (model->has_encoder()) session->encode(call, {});
    const auto reader = [](std::int64_t, View<const float, 2>) {};
    if (model->has_head()) {
      session->feed(call, LogitsOf::all, reader);
    } else {
      session->feed_states(call, reader);
    }
  } catch (const FileError& error) {
    return error.what();
  } catch (const SpecError& error) {
    return error.what();
  } catch (const std::out_of_range& error) {
    return error.what();
  }
  return "";
}

}  // namespace locant::tests
