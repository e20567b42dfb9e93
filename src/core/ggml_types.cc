// SPDX-License-Identifier: Apache-2.0
// The ggml types and their blocks.
#include <algorithm>
#include <array>
#include <utility>

#include "locant/core.h"

namespace locant {
namespace {

struct TypeFacts {
  GgmlType type;
  std::string_view name;
  std::int64_t elements;
  std::int64_t bytes;
};

// elements and bytes of a block, as gguf.constants.GGML_QUANT_SIZES of the gguf package has them
constexpr std::array kTypes{
    TypeFacts{GgmlType::f32, "F32", 1, 4},
    TypeFacts{GgmlType::f16, "F16", 1, 2},
    TypeFacts{GgmlType::q4_0, "Q4_0", 32, 18},
    TypeFacts{GgmlType::q4_1, "Q4_1", 32, 20},
    TypeFacts{GgmlType::q5_0, "Q5_0", 32, 22},
    TypeFacts{GgmlType::q5_1, "Q5_1", 32, 24},
    TypeFacts{GgmlType::q8_0, "Q8_0", 32, 34},
    TypeFacts{GgmlType::q8_1, "Q8_1", 32, 40},
    TypeFacts{GgmlType::q2_k, "Q2_K", 256, 84},
    TypeFacts{GgmlType::q3_k, "Q3_K", 256, 110},
    TypeFacts{GgmlType::q4_k, "Q4_K", 256, 144},
    TypeFacts{GgmlType::q5_k, "Q5_K", 256, 176},
    TypeFacts{GgmlType::q6_k, "Q6_K", 256, 210},
    TypeFacts{GgmlType::q8_k, "Q8_K", 256, 292},
    TypeFacts{GgmlType::iq2_xxs, "IQ2_XXS", 256, 66},
    TypeFacts{GgmlType::iq2_xs, "IQ2_XS", 256, 74},
    TypeFacts{GgmlType::iq3_xxs, "IQ3_XXS", 256, 98},
    TypeFacts{GgmlType::iq1_s, "IQ1_S", 256, 50},
    TypeFacts{GgmlType::iq4_nl, "IQ4_NL", 32, 18},
    TypeFacts{GgmlType::iq3_s, "IQ3_S", 256, 110},
    TypeFacts{GgmlType::iq2_s, "IQ2_S", 256, 82},
    TypeFacts{GgmlType::iq4_xs, "IQ4_XS", 256, 136},
    TypeFacts{GgmlType::i8, "I8", 1, 1},
    TypeFacts{GgmlType::i16, "I16", 1, 2},
    TypeFacts{GgmlType::i32, "I32", 1, 4},
    TypeFacts{GgmlType::i64, "I64", 1, 8},
    TypeFacts{GgmlType::f64, "F64", 1, 8},
    TypeFacts{GgmlType::iq1_m, "IQ1_M", 256, 56},
    TypeFacts{GgmlType::bf16, "BF16", 1, 2},
    TypeFacts{GgmlType::tq1_0, "TQ1_0", 256, 54},
    TypeFacts{GgmlType::tq2_0, "TQ2_0", 256, 66},
    TypeFacts{GgmlType::mxfp4, "MXFP4", 32, 17},
    TypeFacts{GgmlType::nvfp4, "NVFP4", 64, 36},
    TypeFacts{GgmlType::q1_0, "Q1_0", 128, 18},
};

const TypeFacts& facts_of(GgmlType type) noexcept {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [type](const TypeFacts& facts) { return facts.type == type; });
  return found == kTypes.end() ? kTypes.front() : *found;  // no GgmlType is missing
}

// Types of single elements.
constexpr std::array kPlain{std::pair{GgmlType::f32, DType::f32},   std::pair{GgmlType::f16, DType::f16},
                            std::pair{GgmlType::bf16, DType::bf16}, std::pair{GgmlType::f64, DType::f64},
                            std::pair{GgmlType::i8, DType::i8},     std::pair{GgmlType::i16, DType::i16},
                            std::pair{GgmlType::i32, DType::i32},   std::pair{GgmlType::i64, DType::i64}};

}  // namespace

std::optional<GgmlType> ggml_type_of(std::uint32_t number) noexcept {
  for (const TypeFacts& facts : kTypes) {
    if (static_cast<std::uint32_t>(facts.type) == number) return facts.type;
  }
  return std::nullopt;
}

std::string_view name_of(GgmlType type) noexcept {
  return facts_of(type).name;
}

std::int64_t block_elements(GgmlType type) noexcept {
  return facts_of(type).elements;
}

std::int64_t block_bytes(GgmlType type) noexcept {
  return facts_of(type).bytes;
}

std::optional<DType> dtype_of(GgmlType type) noexcept {
  for (const auto& [stored, dtype] : kPlain) {
    if (stored == type) return dtype;
  }
  return std::nullopt;
}

std::optional<GgmlType> ggml_type_of(DType dtype) noexcept {
  for (const auto& [stored, plain] : kPlain) {
    if (plain == dtype) return stored;
  }
  return std::nullopt;
}

}  // namespace locant
