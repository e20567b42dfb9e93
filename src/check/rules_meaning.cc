// SPDX-License-Identifier: Apache-2.0
// W108: what the configs of two forms mean, under one recipe: sizes, the two ends, attention and positions.
// What one of the formats cannot state is not compared; pairings are judged by the rows of q and k.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/conversion.h"
#include "spec/gguf_architecture.h"

namespace locant::check_room {
namespace {

constexpr double kStored = 1e-6;  // relative: constants pass through f32, some through a product of two

constexpr std::string_view kNoKey = ": the architecture of the file has no key for it";

bool alike(double a, double b) {
  return std::abs(a - b) <= kStored * std::max(std::abs(a), std::abs(b));
}

void snap(std::vector<double>& values, const std::vector<double>& to) {
  if (values.size() != to.size()) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (alike(values[i], to[i])) values[i] = to[i];
  }
}

void snap(double& value, double to) {
  if (alike(value, to)) value = to;
}

void snap(LayerPositions& made, const LayerPositions& source) {
  if (made.rotation && source.rotation) {
    Rotation& rotation = *made.rotation;
    snap(rotation.inv_freq, source.rotation->inv_freq);
    snap(rotation.amplitude, source.rotation->amplitude);
    rotation.read = source.rotation->read;  // the rows follow it, or W106 speaks
    rotation.write = source.rotation->write;
    const auto one_axis = [](const Rotation& of) {
      return std::all_of(of.axis.begin(), of.axis.end(), [](std::int64_t axis) { return axis == 0; });
    };
    if (one_axis(rotation) && one_axis(*source.rotation)) rotation.axis = source.rotation->axis;
  }
  if (made.bias && source.bias) {
    snap(made.bias->slopes, source.bias->slopes);
    made.bias->counts_from = source.bias->counts_from;  // equal after the softmax
    made.bias->scale_order = source.bias->scale_order;  // a matter of the graph
    made.bias->roles = source.bias->roles;
  }
  if (made.query_scale && source.query_scale) {
    snap(made.query_scale->scale, source.query_scale->scale);
    snap(made.query_scale->floor, source.query_scale->floor);
  }
}

/// Takes rounding, and what says the same in other words, out of a plan.
Plan as_stated(Plan made, const Plan& source) {
  const std::size_t layers = std::min(made.layers.size(), source.layers.size());
  // kinds of one plan may stand beside several of the other
  Plan out = made;
  out.kinds.clear();
  for (std::size_t layer = 0; layer < made.layers.size(); ++layer) {
    out.kinds.push_back(made.kinds.at(static_cast<std::size_t>(made.layers[layer])));
    if (layer < layers)
      snap(out.kinds.back(), source.kinds.at(static_cast<std::size_t>(source.layers[layer])));
    out.layers[layer] = static_cast<std::int64_t>(layer);
  }
  for (std::size_t i = 0; i < std::min(out.embedding.size(), source.embedding.size()); ++i) {
    PositionEmbedding& embedding = out.embedding[i];
    const PositionEmbedding& from = source.embedding[i];
    snap(embedding.inv_freq, from.inv_freq);
    snap(embedding.scale, from.scale);
    embedding.role = from.role;
    if (embedding.form == from.form && embedding.rows - embedding.offset == from.rows - from.offset) {
      embedding.rows = from.rows;  // rows in front of the first position are stored or not
      embedding.offset = from.offset;
      embedding.zero_row = from.zero_row;
    }
    if (embedding.form == from.form && from.first_position + from.offset == embedding.offset) {
      embedding.first_position = from.first_position;
    }
  }
  return out;
}

class Meaning {
 public:
  Meaning(const Forms& forms, const WeightFiles* source, const WeightFiles* made, Book& book)
      : forms_(forms), s_(*forms.source), m_(*forms.made), source_(source), made_(made), book_(book) {}

  void run() {
    book_.asked("W108");
    sizes();
    ends();
    // what follows from other sizes is not said again
    if (s_.hidden != m_.hidden || s_.heads != m_.heads || s_.head_dim != m_.head_dim) return;
    attention();
    positions();
  }

 private:
  void add(std::string message, Fact expected, Fact observed, const std::string& key = {},
           Severity severity = Severity::error, std::string cause = {}) {
    Finding finding;
    finding.severity = std::min(severity, find_rule("W108").severity);
    finding.message = std::move(message);
    finding.where.file = m_.path;
    finding.where.key = key;
    finding.expected = std::move(expected);
    finding.observed = std::move(observed);
    if (cause.empty()) cause = "meaning " + finding.message;
    book_.add("W108", Depth::config, std::move(finding), std::move(cause));
  }

  void whole(std::string_view what, std::int64_t source, std::int64_t made, std::string cause = {}) {
    if (source == made || source <= 0 || made <= 0) return;
    add(fmt::format("{} is {} where the source has {}", what, made, source), static_cast<double>(source),
        static_cast<double>(made), {}, Severity::error, std::move(cause));
  }

  void number(std::string_view what, double source, double made, const std::string& key = {},
              Severity severity = Severity::error) {
    if (alike(source, made)) return;
    add(fmt::format("{} is {:.7g} where the source has {:.7g}", what, made, source), source, made, key,
        severity);
  }

  void sizes() {
    whole("the number of layers", s_.layers, m_.layers, "conversion tensors");
    whole("the width of the hidden state", s_.hidden, m_.hidden, "conversion shapes");
    whole("the number of heads", s_.heads, m_.heads);
    whole("the number of key heads", s_.kv_heads, m_.kv_heads);
    whole("the width of a head", s_.head_dim, m_.head_dim);
    if (!s_.generic && !m_.generic)
      whole("the width of the mlp", s_.mlp.width, m_.mlp.width, "conversion shapes");
    vocabulary();
  }

  /// Rows that a table is padded with are no tokens that a config must count.
  void vocabulary() {
    const auto rows = [](const WeightFiles* files, std::int64_t vocab) {
      const Weight* const table = files != nullptr ? files->at("token_embd") : nullptr;
      return table != nullptr && table->shape().size() == 2 ? table->rows() : vocab;
    };
    const std::int64_t source = rows(source_, s_.vocab);
    const std::int64_t made = rows(made_, m_.vocab);
    if (s_.vocab == m_.vocab && source == made) return;
    if (source == made) return;  // one of the configs counts tokens, the other rows
    whole("the number of rows of the vocabulary", source, made, "vocabulary");
  }

  void ends() {
    number("the eps of the norms", s_.norm.eps, m_.norm.eps);
    number("the scale of the embedding", s_.embedding.scale, m_.embedding.scale, m_.embedding.scale_key);
    number("the scale of the logits", s_.head.scale, m_.head.scale, m_.head.scale_key);
    number("the softcap of the logits", s_.head.softcap, m_.head.softcap);
    if (forms_.same_format && (source_ == nullptr || made_ == nullptr) && s_.head.tied != m_.head.tied) {
      const auto word = [](bool tied) { return std::string(tied ? "tied" : "not tied"); };
      add(fmt::format("the head is {} where that of the source is {}", word(m_.head.tied),
                      word(s_.head.tied)),
          word(s_.head.tied), word(m_.head.tied), m_.head.tied_key);
    }
    // a GGUF architecture fixes it in code
    if (forms_.same_format && s_.mlp.activation != m_.mlp.activation) {
      const std::string a(name_of(s_.mlp.activation));
      const std::string b(name_of(m_.mlp.activation));
      add(fmt::format("the activation is {} where the source has {}", b, a), a, b);
    }
    const auto& configured = s_.lengths.configured;
    if (configured && m_.lengths.configured && *configured != *m_.lengths.configured) {
      add(fmt::format("the configured length is {} where the source has {}", *m_.lengths.configured,
                      *configured),
          static_cast<double>(*configured), static_cast<double>(*m_.lengths.configured),
          m_.lengths.configured_key, Severity::note);
    }
  }

  struct Attention {
    std::string what{};
    double source = 0;
    double made = 0;
    std::string_view silent{};  ///< why the format of the made form cannot state it; empty = it can
  };

  void attention() {
    std::map<std::string, std::pair<Attention, std::vector<std::int64_t>>> found;
    const auto differ = [&](const Attention& one, std::size_t layer) {
      if (alike(one.source, one.made)) return;
      auto& [first, layers] = found[fmt::format("{} {} {}", one.what, one.source, one.made)];
      first = one;
      layers.push_back(static_cast<std::int64_t>(layer));
    };
    const auto windowed = [](const AttentionSpec& of) { return of.kind != AttentionKind::full; };
    const bool any = std::any_of(m_.attention.begin(), m_.attention.end(), windowed);
    for (std::size_t layer = 0; layer < std::min(s_.attention.size(), m_.attention.size()); ++layer) {
      const AttentionSpec& a = s_.attention[layer];
      const AttentionSpec& b = m_.attention[layer];
      if (!a.attends || !b.attends) continue;
      differ({"the factor on q.k", a.scale, b.scale, states_scale() ? "" : kNoKey}, layer);
      differ({"the softcap of the scores", a.softcap, b.softcap}, layer);
      const auto width = [&](const AttentionSpec& of) {
        return windowed(of) ? static_cast<double>(of.window) : 0.0;
      };
      differ({"the window", width(a), width(b), any || forms_.same_format ? "" : kNoKey}, layer);
      if (a.bidirectional != b.bidirectional)
        differ({"sight of later tokens", a.bidirectional ? 1.0 : 0.0, b.bidirectional ? 1.0 : 0.0}, layer);
    }
    for (const auto& [key, one] : found) {
      const auto& [what, layers] = one;
      const auto text = [](double value) {
        return value == 0 ? std::string("none") : fmt::format("{:.9g}", value);
      };
      const bool everywhere = layers.size() == m_.attention.size();
      add(fmt::format("{}{} is {} where the source has {}{}", what.what,
                      everywhere ? std::string() : " of " + layers_text(layers), text(what.made),
                      text(what.source), what.silent),
          what.source, what.made, {}, what.silent.empty() ? Severity::error : Severity::note);
    }
  }

  /// Architectures of GGUF that have no key for it fix the factor in code.
  [[nodiscard]] bool states_scale() const {
    if (forms_.same_format || made_ == nullptr || !made_->is_gguf()) return forms_.same_format;
    const GgufValue* const name = made_->gguf()->find_value("general.architecture");
    const GgufArchitecture* const row = name != nullptr ? find_gguf_architecture(name->as_string()) : nullptr;
    return row == nullptr || row->attention_key;
  }

  [[nodiscard]] std::optional<Plan> plan_of(const ModelSpec& spec, const Extent& extent) const {
    try {
      return plan(spec.positions, *forms_.recipe, extent);
    } catch (const SpecError&) {
      return std::nullopt;
    }
  }

  void positions() {
    std::vector<std::string> said;
    const std::int64_t longest =
        std::min(s_.lengths.configured.value_or(0), m_.lengths.configured.value_or(0));
    for (const std::int64_t seen : {std::int64_t{0}, longest}) {
      Extent extent;
      if (seen > 0) extent.seen = seen;
      const std::optional<Plan> source = plan_of(s_, extent);
      const std::optional<Plan> made = plan_of(m_, extent);
      if (!source || !made) return;
      for (const PlanDifference& one : differences(*source, as_stated(*made, *source))) {
        const std::string place = one.layers.empty()
                                      ? std::string(name_of(one.site))
                                      : fmt::format("{} of {}", name_of(one.site), layers_text(one.layers));
        const std::string text = fmt::format("{}: {}", place, one.what);
        if (std::find(said.begin(), said.end(), text) != said.end()) continue;
        said.push_back(text);
        position_difference(text, one, seen);
      }
      if (!said.empty()) return;
    }
  }

  void position_difference(const std::string& text, const PlanDifference& one, std::int64_t seen) {
    const auto theta = [&](const ModelSpec& spec) -> std::optional<double> {
      const std::size_t layer = one.layers.empty() ? 0 : static_cast<std::size_t>(one.layers.front());
      if (layer >= spec.positions.layers.size()) return std::nullopt;
      for (const PositionSpec& position : spec.positions.layers[layer]) {
        if (const auto base = position.number("theta")) return base;
      }
      return std::nullopt;
    };
    Fact expected;
    Fact observed;
    std::string more = seen > 0 ? fmt::format(" at {} tokens", seen) : std::string();
    if (one.what.starts_with("inv_freq")) {
      const auto a = theta(s_);
      const auto b = theta(m_);
      if (a && b && !alike(*a, *b)) {
        more += fmt::format("; theta is {:.9g} where the source has {:.9g}", *b, *a);
        expected = *a;
        observed = *b;
      }
    }
    add(text + more, std::move(expected), std::move(observed));
  }

  const Forms& forms_;
  const ModelSpec& s_;
  const ModelSpec& m_;
  const WeightFiles* source_;
  const WeightFiles* made_;
  Book& book_;
};

}  // namespace

void check_meaning(const Forms& forms, const WeightFiles* source, const WeightFiles* made, Book& book) {
  Meaning(forms, source, made, book).run();
}

}  // namespace locant::check_room
