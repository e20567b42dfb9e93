// SPDX-License-Identifier: Apache-2.0
// Names of the words that spec and ops share.
#include "locant/core.h"

namespace locant {

std::string_view name_of(NormKind kind) noexcept {
  return kind == NormKind::rms ? "rms" : "layer";
}

std::string_view name_of(Activation activation) noexcept {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::relu:
      break;
    case Activation::relu_squared:
      return "relu_squared";
    case Activation::quick_gelu:
      return "quick_gelu";
    case Activation::tanh:
      return "tanh";
    case Activation::clamped_swiglu:
      return "clamped_swiglu";
  }
  return "relu";
}

std::string_view name_of(RouterScore score) noexcept {
  switch (score) {
    case RouterScore::softmax:
      break;
    case RouterScore::softmax_chosen:
      return "softmax_chosen";
    case RouterScore::sigmoid:
      return "sigmoid";
  }
  return "softmax";
}

}  // namespace locant
