// SPDX-License-Identifier: Apache-2.0
// Why equal ids start equal and end different: the same byte at two places of a prompt, followed through a
// model. usage: contextual MODEL. Prints, for the two states, |a - b| / |a| at the embedding, after each
// layer, and how q and v of layer 0 differ: the rotation tells the places apart, the embedding and v do not.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "locant/model.h"
#include "locant/text.h"
#include "locant/trace.h"

namespace {

/// Keeps the two rows [.., t, ..] that are asked about, of every f32 tensor [1, T, ...].
class TwoRows final : public locant::TraceSink {
 public:
  TwoRows(std::int64_t first, std::int64_t second) : first_(first), second_(second) {}
  void begin_pass() override {}
  // Score-shaped tensors have heads where the others have tokens.
  bool wants(std::string_view name, std::int64_t) override {
    return !name.ends_with(".scores") && !name.ends_with(".probs");
  }
  void record(std::string_view name, const locant::TensorRef& tensor) override {
    if (tensor.dtype != locant::DType::f32 || tensor.rank < 3) return;
    const std::int64_t width = tensor.size() / tensor.shape[1];
    const auto* const data = static_cast<const float*>(tensor.data);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double a = data[first_ * width + i], b = data[second_ * width + i];
      difference += (a - b) * (a - b);
      norm += a * a;
    }
    ratio_[std::string(name)] = std::sqrt(difference / norm);
  }
  void print(const std::string& name) const { std::printf("%-20s %.3f\n", name.c_str(), ratio_.at(name)); }

 private:
  std::int64_t first_, second_;
  std::map<std::string, double> ratio_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  locant::ThreadPool pool(1);
  const auto model = locant::Model::load(argv[1], {}, pool);
  const auto opened = locant::open_tokenizer(argv[1]);
  const std::string text = "the cat and the dog";
  const std::vector<std::int64_t> ids = opened.tokenizer->encode(text);

  const auto first = static_cast<std::int64_t>(text.find('t')),
             second = static_cast<std::int64_t>(text.rfind("the"));
  std::printf("\"%s\": tokens %lld and %lld are both id %lld\n", text.c_str(), static_cast<long long>(first),
              static_cast<long long>(second), static_cast<long long>(ids[static_cast<std::size_t>(first)]));
  TwoRows rows(first, second);
  const auto session = model->open_session({.rows = 1, .capacity = static_cast<std::int64_t>(ids.size())});
  session->set_trace(&rows);
  const std::vector<std::int64_t> count{static_cast<std::int64_t>(ids.size())};
  session->feed({.ids = ids, .row_tokens = count, .positions = {}}, locant::LogitsOf::last_of_row,
                [](std::int64_t, locant::View<const float, 2>) {});
  std::printf("difference of the two states, relative:\n");
  rows.print("embed.out");
  rows.print("layers.0.attn.v");
  rows.print("layers.0.attn.q_pre");
  rows.print("layers.0.attn.q");
  for (std::int64_t layer = 0; layer < model->spec().layers; ++layer) {
    rows.print(locant::trace_names::layer(layer, locant::trace_names::Layer::out));
  }
  rows.print("logits");
}
