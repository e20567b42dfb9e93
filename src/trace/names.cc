// SPDX-License-Identifier: Apache-2.0
// The canonical names of a trace, in one place.
#include <fmt/core.h>

#include "locant/trace.h"

namespace locant::trace_names {
namespace {

std::string_view suffix(Layer tensor) {
  switch (tensor) {
    case Layer::q_pre:
      return "attn.q_pre";
    case Layer::k_pre:
      return "attn.k_pre";
    case Layer::q:
      return "attn.q";
    case Layer::k:
      return "attn.k";
    case Layer::q_in:
      return "attn.q_in";
    case Layer::k_in:
      return "attn.k_in";
    case Layer::v:
      return "attn.v";
    case Layer::cache_k:
      return "cache.k";
    case Layer::cache_v:
      return "cache.v";
    case Layer::cache_latent:
      return "cache.latent";
    case Layer::cache_k_rope:
      return "cache.k_rope";
    case Layer::cache_positions:
      return "cache.positions";
    case Layer::cache_source:
      return "cache.source";
    case Layer::bias:
      return "attn.bias";
    case Layer::scores:
      return "attn.scores";
    case Layer::probs:
      return "attn.probs";
    case Layer::sinks:
      return "attn.sinks";
    case Layer::attn_out:
      return "attn.out";
    case Layer::out:
      break;
  }
  return "out";
}

std::string rope_table(std::string_view kind, std::string_view function) {
  return kind.empty() ? fmt::format("rope.{}", function) : fmt::format("rope.{}.{}", kind, function);
}

}  // namespace

std::string layer(std::int64_t index, Layer tensor) {
  if (index < 0) throw SpecError(fmt::format("trace: layers count from 0, got {}", index));
  return fmt::format("layers.{}.{}", index, suffix(tensor));
}

std::string rope_cos(std::string_view kind) {
  return rope_table(kind, "cos");
}

std::string rope_sin(std::string_view kind) {
  return rope_table(kind, "sin");
}

std::string step_prefix(std::int64_t step) {
  if (step < 0) throw SpecError(fmt::format("trace: steps count from 0, got {}", step));
  return step == 0 ? std::string() : fmt::format("step.{}/", step);
}

std::string stack_prefix(Stack stack) {
  return stack == Stack::encoder ? "encoder." : "";
}

}  // namespace locant::trace_names
