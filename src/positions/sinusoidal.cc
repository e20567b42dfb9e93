// SPDX-License-Identifier: Apache-2.0
// Sinusoidal embeddings, added to the token state: row r = position + offset holds sin and cos of
// r * inv_freq. Six dialects: two ladders, theta^(-2i/width) (Vaswani et al. 2017, section 3.5) and
// exp(-k ln(theta)/(h-1)), h = width/2 (tensor2tensor, fairseq, Marian), in three orders of columns.
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
constexpr std::array<std::string_view, 2> kArithmetics = {"recipe", "f64"};
constexpr std::array<std::string_view, 6> kDialects = {"paper", "halves",    "marian",
                                                       "ctrl",  "cos_first", "xt"};
enum Dialect : std::size_t { paper, halves, marian, ctrl, cos_first, xt };

constexpr std::array<ParameterDescription, 9> kParameters = {{
    {"width", "elements", "", "d_model hidden_size n_embd", "columns of a row, the width of the token state"},
    {"dialect", "1", "paper", "",
     "paper (interleaved columns), halves (all sines, then all cosines, another ladder), marian (halves, "
     "which "
     "transformers and CTranslate2 read as ctrl), ctrl (the paper's ladder in halves), cos_first (halves "
     "with "
     "the cosines first) or xt (the paper's ladder in halves, scaled)"},
    {"theta", "1", "10000", "",
     "longest wavelength / 2 pi: its exact value in halves, marian and cos_first, its base in the others"},
    {"offset", "tokens", "0", "", "row of position 0"},
    {"first_position", "tokens", "0", "", "position of the first token (OpenNMT-tf in CTranslate2: 1)"},
    {"stored", "1", "0", "",
     "1 where the rows of halves stand in the checkpoint or a converter writes them, 0 where a runtime makes "
     "its own"},
    {"zero_row", "tokens", "none", "pad_token_id", "row that is kept at zero, the one of padding"},
    {"scale", "1", "1", "", "factor on every row; xt: its learned scale, which has to be stated"},
    {"arithmetic", "1", "recipe", "",
     "recipe (the numbers of the recipe) or f64 (tables that are built in f64 under every recipe)"},
}};

/// The ladder of a dialect; an odd width gets a last sine of its own where the formula has one.
std::vector<double> ladder_of(std::size_t dialect, double theta, std::int64_t width, DType frequency) {
  if (dialect == halves || dialect == marian || dialect == cos_first) {
    const auto intervals = static_cast<double>(std::max<std::int64_t>(width / 2 - 1, 1));
    return exponential_ladder(std::log(theta) / intervals, width / 2, frequency);
  }
  // In f32 the ladder of `paper` is exp(2i * -(ln(theta)/width)), as in SpeechT5; that of `ctrl` is the
  // power.
  if (dialect == paper && frequency == DType::f32) {
    return exponential_ladder(2 * std::log(theta) / static_cast<double>(width), (width + 1) / 2, frequency);
  }
  return power_ladder(theta, width, frequency);
}

SitePlan plan_sinusoidal(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  PositionEmbedding embedding;
  embedding.form = EmbeddingForm::sinusoid;
  embedding.width = read.integer("width", {.min = 2, .max = kMaxWidth});
  embedding.offset = read.integer("offset", {.min = -kMaxRows, .max = kMaxRows}, 0);
  if (read.has("zero_row")) embedding.zero_row = read.integer("zero_row", {.min = 0, .max = kMaxRows});
  const double theta = read.positive("theta", 10000);
  std::size_t dialect = read.choice("dialect", kDialects);
  if (dialect == marian && recipe.has(Quirk::sinusoid_whole_half)) dialect = ctrl;
  const bool made = dialect == halves && read.integer("stored", {.min = 0, .max = 1}, 0) == 0;
  const std::int64_t first = made && recipe.has(Quirk::sinusoid_starts_at_one) ? 1 : 0;
  embedding.first_position = read.integer("first_position", {.min = 0, .max = kMaxRows}, first);
  if (dialect == xt && embedding.width % 2 != 0) {
    read.fail("width", "must be even in the xt dialect", std::to_string(embedding.width));
  }
  if (dialect == xt && !read.has("scale")) {
    read.fail("scale", "must be stated in the xt dialect, it is learned", "nothing");
  }
  embedding.scale = read.positive("scale", 1);
  embedding.arithmetic = read.choice("arithmetic", kArithmetics) == 0 ? Arithmetic::recipe : Arithmetic::f64;
  embedding.columns = dialect == paper ? Columns::interleaved : Columns::halves;
  embedding.cos_first = dialect == cos_first;
  const DType frequency = embedding.arithmetic == Arithmetic::f64 ? DType::f64 : recipe.numerics.frequency;
  embedding.inv_freq = ladder_of(dialect, theta, embedding.width, frequency);
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
          "angle = (position + offset) * inv_freq; h = width/2 rounded down\n"
          "paper:     inv_freq[i] = theta^(-2i/width), row = sin, cos, sin, cos, .. (a last sin when width "
          "is odd)\n"
          "halves:    inv_freq[k] = exp(-k ln(theta)/(h - 1)), row = sin.. cos.. (0 when width is odd)\n"
          "marian:    as halves\n"
          "ctrl:      inv_freq as paper, row = sin.. cos.. (one more sin when width is odd)\n"
          "cos_first: inv_freq as halves, row = cos.. sin.. (0 when width is odd)\n"
          "xt:        inv_freq as paper, row = scale (sin.. cos..), width is even",
      .paper =
          "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762, section 3.5; halves: "
          "tensor2tensor, get_timing_signal_1d",
      .parameters = kParameters,
      .plan = plan_sinusoidal};
}

}  // namespace locant
