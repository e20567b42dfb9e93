// SPDX-License-Identifier: Apache-2.0
// Sinusoidal embeddings, added to the token state: row r = position + offset holds sin and cos of
// r * inv_freq. `paper`: theta^(-2i/width), columns sin, cos, sin, cos (Vaswani et al. 2017, section 3.5).
// `halves`: exp(-k ln(theta)/(h-1)), h = width/2, columns sin.., cos.. (tensor2tensor, fairseq).
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "sinusoidal";
constexpr std::array<std::string_view, 2> kAliases = {"sinusoid", "sincos"};
constexpr std::array<std::string_view, 2> kDialects = {"paper", "halves"};

constexpr std::array<ParameterDescription, 5> kParameters = {{
    {"width", "elements", "", "d_model hidden_size n_embd", "columns of a row, the width of the token state"},
    {"dialect", "1", "paper", "",
     "paper (interleaved columns) or halves (all sines, then all cosines, another ladder)"},
    {"theta", "1", "10000", "", "longest wavelength / 2 pi: its base in paper, its exact value in halves"},
    {"offset", "tokens", "0", "", "row of position 0"},
    {"zero_row", "tokens", "none", "pad_token_id", "row that is kept at zero, the one of padding"},
}};

SitePlan plan_sinusoidal(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  PositionEmbedding embedding;
  embedding.form = EmbeddingForm::sinusoid;
  embedding.width = read.integer("width", {.min = 2, .max = kMaxWidth});
  embedding.offset = read.integer("offset", {.min = -kMaxRows, .max = kMaxRows}, 0);
  if (read.has("zero_row")) embedding.zero_row = read.integer("zero_row", {.min = 0, .max = kMaxRows});
  const double theta = read.positive("theta", 10000);
  const DType frequency = recipe.numerics.frequency;
  const std::int64_t pairs = embedding.width / 2;
  if (read.choice("dialect", kDialects) == 0) {
    if (embedding.width % 2 != 0) {
      read.fail("width", "must be even in the paper dialect", std::to_string(embedding.width));
    }
    embedding.columns = Columns::interleaved;
    // In f32 the ladder is exp(2i * -(ln(theta)/width)), as in SpeechT5; the power form is never used there.
    embedding.inv_freq =
        frequency == DType::f32
            ? exponential_ladder(2 * std::log(theta) / static_cast<double>(embedding.width), pairs, frequency)
            : power_ladder(theta, embedding.width, frequency);
  } else {
    embedding.columns = Columns::halves;
    const auto intervals = static_cast<double>(std::max<std::int64_t>(pairs - 1, 1));
    embedding.inv_freq = exponential_ladder(std::log(theta) / intervals, pairs, frequency);
  }
  if (!all_finite(embedding.inv_freq)) {
    read.fail("theta", "must give finite frequencies", fmt::format("{}", theta));
  }
  return embedding;
}

}  // namespace

Mechanism sinusoidal() {
  return {
      .name = kName,
      .aliases = kAliases,
      .site = Site::embedding,
      .summary = "adds sines and cosines of the position, over a ladder of frequencies, to the token state",
      .formula =
          "angle = (position + offset) * inv_freq\n"
          "paper:  inv_freq[i] = theta^(-2i/width), row = sin, cos, sin, cos, ..\n"
          "halves: inv_freq[k] = exp(-k ln(theta)/(h - 1)), h = width/2 rounded down, "
          "row = sin.. cos.. (0 when width is odd)",
      .paper =
          "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762, section 3.5; halves: "
          "tensor2tensor, get_timing_signal_1d",
      .parameters = kParameters,
      .plan = plan_sinusoidal};
}

}  // namespace locant
