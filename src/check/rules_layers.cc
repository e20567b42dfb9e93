// SPDX-License-Identifier: Apache-2.0
// W: one model's weights against its own config: layers and their projections, a head that was never trained
// or is the embedding again, rows that no token owns. For safetensors and GGUF.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "check/book.h"
#include "check/values.h"
#include "check/weight_parts.h"
#include "formats/json.h"

namespace locant::check_room {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t kFewestLayers = 4;  // of a model whose layers can be compared with each other
constexpr std::int64_t kLargestTokenizer = 16LL << 20;  // bytes of a tokenizer.json that is read

/// How far rows are from independent numbers of one distribution.
struct Spread {
  double of_norms = 0;  ///< spread of the rows' norms over what chance gives, 1/sqrt(2 columns)
  double of_mean = 0;   ///< norm of the mean row over what chance gives
  double kurtosis = 0;
  [[nodiscard]] bool looks_drawn() const noexcept {
    const bool normal = std::abs(kurtosis - 3) < 0.2;
    const bool uniform = std::abs(kurtosis - 1.8) < 0.1;
    return of_norms < 1.5 && of_mean < 1.5 && (normal || uniform);
  }
  [[nodiscard]] bool looks_trained() const noexcept { return of_norms > 3 || of_mean > 3; }
};

std::optional<Spread> spread_of(const Weight& weight) {
  const std::int64_t columns = weight.columns();
  std::vector<double> mean(static_cast<std::size_t>(columns));
  std::vector<float> row(mean.size());
  std::vector<double> norms;
  double squares = 0;
  double fourths = 0;
  for (const std::int64_t index : sample_rows(weight.rows(), columns)) {
    weight.read(index * columns, columns, row.data());
    double norm = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double x = row[i];
      norm += x * x;
      fourths += x * x * x * x;
      mean[i] += x;
    }
    if (!std::isfinite(norm)) return std::nullopt;
    if (norm <= 0) continue;  // padding
    squares += norm;
    norms.push_back(std::sqrt(norm));
  }
  const auto n = static_cast<double>(norms.size());
  const auto width = static_cast<double>(columns);
  if (norms.size() < 32 || columns < 32) return std::nullopt;
  double middle = 0;
  for (const double norm : norms) middle += norm / n;
  double variance = 0;
  for (const double norm : norms) variance += (norm - middle) * (norm - middle) / n;
  double of_mean = 0;
  for (const double x : mean) of_mean += (x / n) * (x / n);
  return Spread{.of_norms = std::sqrt(variance) / middle * std::sqrt(2 * width),
                .of_mean = std::sqrt(of_mean / (squares / n / n)),
                .kurtosis = fourths / (n * width) / std::pow(squares / (n * width), 2)};
}

class LayerRules {
 public:
  LayerRules(const WeightFiles& files, Book& book) : files_(files), spec_(files.spec()), book_(book) {}

  void run() {
    if (files_.all().empty()) return;
    if (!spec_.generic && spec_.layers > 0) {
      find_layers();
      projections();
    }
    head();
    tokens();
  }

 private:
  void add(std::string_view rule, const Weight& weight, std::string message, Fact expected, Fact observed,
           std::optional<Severity> severity = {}, std::optional<std::int64_t> layer = {}) {
    Finding finding;
    finding.severity = severity.value_or(find_rule(rule).severity);
    finding.message = std::move(message);
    finding.where.file = weight.path();
    finding.where.tensor = weight.name();
    finding.where.layer = layer;
    finding.expected = std::move(expected);
    finding.observed = std::move(observed);
    book_.add(rule, Depth::weights, std::move(finding), std::string(rule) + weight.name());
  }

  using Layers = std::map<std::int64_t, std::set<std::string>>;

  /// The layers of the main stack: those of the decoder where there are several, else the most.
  void find_layers() {
    std::map<std::string, Layers> stacks;
    for (const Weight& weight : files_.all()) {
      if (const auto at = layered(weight.name()))
        stacks[std::string(at->before)][at->layer].emplace(at->behind);
    }
    const auto covers = [&](const Layers& layers) {
      for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
        if (!layers.contains(layer)) return false;
      }
      return true;
    };
    const Layers* main = nullptr;
    bool of_decoder = false;
    for (const auto& [before, layers] : stacks) {
      const bool decoder = before.find("decoder") != std::string::npos;
      const bool better = main == nullptr || (decoder && !of_decoder) ||
                          (decoder == of_decoder && layers.size() > main->size());
      if (!better) continue;
      main = &layers;
      of_decoder = decoder;
    }
    if (main == nullptr) return;
    book_.asked("W109");
    if (!covers(*main)) {
      std::vector<std::int64_t> missing;
      for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
        if (!main->contains(layer)) missing.push_back(layer);
      }
      const auto there = spec_.layers - static_cast<std::int64_t>(missing.size());
      add("W109", files_.all().front(),
          fmt::format("the config has {} layers, the file lacks {}", spec_.layers, layers_text(missing)),
          static_cast<double>(spec_.layers), static_cast<double>(there), {}, missing.front());
      return;
    }
    partial();
  }

  /// A layer that has some projections of attention or of the MLP and lacks others that most layers have.
  void partial() {
    constexpr std::array kSets = {std::array{"attn_q"sv, "attn_k"sv, "attn_v"sv, "attn_output"sv},
                                  std::array{"ffn_up"sv, "ffn_down"sv, "ffn_gate"sv, "ffn_up"sv}};
    if (spec_.layers < kFewestLayers) return;
    std::map<std::string, std::map<std::int64_t, const Weight*>> roles;
    for (const Weight& weight : files_.all()) {
      const auto place = files_.place_of(weight);
      if (place && place->layer >= 0 && place->layer < spec_.layers && place->ending == "weight")
        roles[place->role][place->layer] = &weight;
    }
    for (const auto& set : kSets) {
      for (const std::string_view role : set) {
        const auto found = roles.find(std::string(role));
        if (found == roles.end()) continue;
        std::vector<std::int64_t> lacks;
        for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
          const auto has = [&](std::string_view other) {
            const auto at = roles.find(std::string(other));
            return at != roles.end() && at->second.contains(layer);
          };
          if (!has(role) && std::any_of(set.begin(), set.end(), has)) lacks.push_back(layer);
        }
        const auto few = std::max<std::int64_t>(1, spec_.layers / 8);
        if (lacks.empty() || static_cast<std::int64_t>(lacks.size()) > few) continue;
        const Weight& like = *found->second.begin()->second;
        add("W109", like,
            fmt::format("{} has no {}, which {} other layers have", layers_text(lacks),
                        layered(like.name())->behind, found->second.size()),
            static_cast<double>(spec_.layers), static_cast<double>(found->second.size()), {}, lacks.front());
      }
    }
  }

  void projections() {
    if (spec_.head_dim < 1) return;
    const std::int64_t queries = spec_.heads * spec_.head_dim;
    const std::int64_t keys = spec_.kv_heads * spec_.head_dim;
    const std::set<std::int64_t> recurrent = recurrent_layers();
    // q may carry a gate of its own size beside it
    rows_of(recurrent, "attn_q", {queries, 2 * queries},
            fmt::format("{} heads of {}", spec_.heads, spec_.head_dim));
    // families without shared keys do not read the number of key heads
    rows_of(recurrent, "attn_k", {keys, queries},
            fmt::format("{} key heads of {}", spec_.kv_heads, spec_.head_dim));
    rows_of(
        recurrent, "attn_qkv", {queries + 2 * keys},
        fmt::format("{} heads and twice {} key heads of {}", spec_.heads, spec_.kv_heads, spec_.head_dim));
  }

  /// Linear attention and state spaces keep heads of their own beside a convolution or a decay.
  [[nodiscard]] std::set<std::int64_t> recurrent_layers() const {
    std::set<std::int64_t> layers;
    for (const Weight& weight : files_.all()) {
      const auto name = layered(weight.name());
      if (name && (weight.name().find("conv1d") != std::string::npos || weight.name().ends_with("A_log")))
        layers.insert(name->layer);
    }
    return layers;
  }

  /// Where layers differ among themselves, a single number of heads says nothing.
  void rows_of(const std::set<std::int64_t>& recurrent, std::string_view role,
               const std::vector<std::int64_t>& due, const std::string& words) {
    const Weight* first = nullptr;
    std::set<std::int64_t> rows;
    for (const Weight& weight : files_.all()) {
      const auto place = files_.place_of(weight);
      if (place && recurrent.contains(place->layer)) continue;
      if (!place || place->role != role || place->ending != "weight" || place->layer < 0 ||
          place->layer >= spec_.layers || weight.shape().size() != 2)
        continue;
      if (first == nullptr) first = &weight;
      rows.insert(files_.part_of(weight).rows);
    }
    if (rows.size() != 1 || due.front() < 1) return;
    book_.asked("W110");
    if (std::find(due.begin(), due.end(), *rows.begin()) != due.end()) return;
    add("W110", *first,
        fmt::format("{} has {} rows where {} make {}", first->name(), *rows.begin(), words, due.front()),
        static_cast<double>(due.front()), static_cast<double>(*rows.begin()));
  }

  void head() {
    const Weight* const head = files_.at("output");
    const Weight* const table = files_.at("token_embd");
    if (head == nullptr || table == nullptr || !head->readable() || !table->readable()) return;
    if (head->shape().size() != 2 || table->shape().size() != 2) return;
    if (files_.is_gguf()) empty(*head);
    if (head->columns() != table->columns()) return;
    if (!spec_.head.tied && !files_.is_gguf()) same(*head, *table);
    drawn(*head, *table);
  }

  void empty(const Weight& head) {
    book_.asked("W102");
    std::vector<float> row(static_cast<std::size_t>(head.columns()));
    std::optional<float> first;
    for (const std::int64_t index : sample_rows(head.rows(), head.columns())) {
      head.read(index * head.columns(), head.columns(), row.data());
      if (!first) first = row.front();
      if (std::any_of(row.begin(), row.end(), [&](float x) { return x != *first; })) return;
    }
    if (first)
      add("W102", head, fmt::format("every element of {} is {}", head.name(), *first),
          std::string("trained rows"), static_cast<double>(*first));
  }

  void same(const Weight& head, const Weight& table) {
    book_.asked("W112");
    if (head.rows() != table.rows()) return;
    const PartPair pair{.source = files_.part_of(table), .made = files_.part_of(head)};
    if (!compare(pair, [](std::int64_t row) { return row; }).differing.empty()) return;
    add("W112", head,
        fmt::format("{} holds the numbers of {} although the config does not tie them", head.name(),
                    table.name()),
        std::string("numbers of its own"), table.name());
  }

  void drawn(const Weight& head, const Weight& table) {
    const auto of_head = spread_of(head);
    const auto of_table = spread_of(table);
    if (!of_head || !of_table) return;
    book_.asked("W111");
    const auto say = [&](const Weight& weight, const Spread& spread, const Weight& other) {
      add("W111", weight,
          fmt::format("{} looks newly drawn beside {}: the norms of its rows spread {:.2g} times as far as "
                      "independent numbers do",
                      weight.name(), other.name(), spread.of_norms),
          std::string("trained rows"), spread.of_norms);
    };
    if (of_head->looks_drawn() && of_table->looks_trained()) say(head, *of_head, table);
    if (of_table->looks_drawn() && of_head->looks_trained()) say(table, *of_table, head);
  }

  // -- tokens

  void tokens() {
    const Weight* const table = files_.at("token_embd");
    const std::optional<std::int64_t> tokens = files_.is_gguf() ? gguf_tokens() : checkpoint_tokens();
    if (table == nullptr || table->shape().size() != 2 || !tokens || *tokens < 1) return;
    book_.asked("W113");
    if (*tokens == table->rows()) return;
    if (*tokens > table->rows()) {
      add("W113", *table,
          fmt::format("the tokenizer makes ids up to {}, {} has rows up to {}", *tokens - 1, table->name(),
                      table->rows() - 1),
          static_cast<double>(*tokens), static_cast<double>(table->rows()));
    } else {
      add("W113", *table,
          fmt::format("{} rows of {}, {} to {}, belong to no token of the tokenizer", table->rows() - *tokens,
                      table->name(), *tokens, table->rows() - 1),
          static_cast<double>(*tokens), static_cast<double>(table->rows()), Severity::note);
    }
  }

  [[nodiscard]] std::optional<std::int64_t> gguf_tokens() const {
    const GgufValue* const words = files_.gguf()->find_value("tokenizer.ggml.tokens");
    if (words == nullptr) return std::nullopt;
    return words->as_array().size();
  }

  [[nodiscard]] std::optional<std::int64_t> checkpoint_tokens() const {
    namespace fs = std::filesystem;
    const fs::path path = fs::path(spec_.path).parent_path() / "tokenizer.json";
    std::error_code error;
    if (!fs::is_regular_file(path, error) ||
        static_cast<std::int64_t>(fs::file_size(path, error)) > kLargestTokenizer)
      return std::nullopt;
    Json json;
    try {
      json = read_json(path.string());
    } catch (const FileError&) {
      return std::nullopt;  // whoever reads text says what is wrong with it
    }
    std::int64_t count = 0;
    const auto take = [&](const Json& id) {
      if (id.is_number_integer()) count = std::max(count, id.get<std::int64_t>() + 1);
    };
    if (const Json* const model = find_member(json, "model")) {
      const Json* const vocab = find_member(*model, "vocab");
      if (vocab != nullptr && vocab->is_array()) count = static_cast<std::int64_t>(vocab->size());
      if (vocab != nullptr && vocab->is_object()) {
        for (const auto& [word, id] : vocab->items()) take(id);
      }
    }
    if (const Json* const added = find_member(json, "added_tokens"); added != nullptr && added->is_array()) {
      for (const Json& token : *added) {
        if (const Json* const id = find_member(token, "id")) take(*id);
      }
    }
    return count;
  }

  const WeightFiles& files_;
  const ModelSpec& spec_;
  Book& book_;
};

}  // namespace

void check_layers(const CheckQuery& query, Book& book) {
  if (query.spec == nullptr) return;
  const auto files = open_weights(*query.spec, query.weights);
  if (files) LayerRules(*files, book).run();
}

}  // namespace locant::check_room
