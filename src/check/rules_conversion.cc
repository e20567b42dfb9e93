// SPDX-License-Identifier: Apache-2.0
// W: a conversion beside its source: tensors that only one form has, rows of q and k in another order than
// the two pairings ask for, and numbers that rounding does not explain.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "check/conversion.h"
#include "facts/parts.h"

namespace locant::check_room {
namespace {

Finding about(std::string_view rule, const Weight& weight, std::string message) {
  Finding finding;
  finding.severity = find_rule(rule).severity;
  finding.message = std::move(message);
  finding.where.file = weight.path();
  finding.where.tensor = weight.name();
  return finding;
}

/// "attn_k.weight of layers 0 to 3", or the tensor's own name outside the layers.
std::string subject(const std::string& what, const std::vector<std::int64_t>& layers) {
  return layers.empty() ? what : fmt::format("{} of {}", what, layers_text(layers));
}

/// A tensor's name without its layer.
std::string behind(const Weight& weight) {
  const auto at = layered(weight.name());
  return at ? std::string(at->behind) : weight.name();
}

std::optional<std::int64_t> layer_of(const Weight& weight) {
  const auto at = layered(weight.name());
  if (!at) return std::nullopt;
  return at->layer;
}

constexpr std::size_t kMostListed = 3;

class TensorRule {
 public:
  TensorRule(const WeightFiles& source, const WeightFiles& made, const TensorPairs& pairs, Book& book)
      : source_(source), made_(made), pairs_(pairs), book_(book) {}

  void run() {
    book_.asked("W105");
    const bool nothing = pairs_.pairs.empty() && pairs_.unjudged.size() + pairs_.alone.size() > 0;
    if (nothing && !made_.all().empty() && !source_.all().empty()) {
      Finding finding =
          about("W105", made_.all().front(),
                fmt::format("none of the {} tensors has a counterpart among the {} of {}", made_.all().size(),
                            source_.all().size(), source_.all().front().path()));
      finding.where.tensor.clear();
      finding.expected = static_cast<double>(source_.all().size());
      finding.observed = 0.0;
      book_.add("W105", Depth::weights, std::move(finding), "conversion tensors");
      return;
    }
    alone(true);
    alone(false);
    shapes();
    unjudged();
  }

 private:
  /// Whole layers first, then tensors that layers lack, grouped by what they are.
  void alone(bool in_source) {
    const WeightFiles& lacks = in_source ? made_ : source_;
    const std::string& path = lacks.all().empty() ? lacks.spec().path : lacks.all().front().path();
    std::set<std::int64_t> there;
    for (const Weight& weight : lacks.all()) {
      if (const auto layer = layer_of(weight)) there.insert(*layer);
    }
    std::set<std::int64_t> gone;
    std::map<std::string, std::vector<const Alone*>> parts;
    const Alone* first = nullptr;
    for (const Alone& one : pairs_.alone) {
      if (one.in_source != in_source) continue;
      const auto layer = layer_of(*one.weight);
      if (layer && !there.contains(*layer)) {
        if (gone.empty()) first = &one;
        gone.insert(*layer);
      } else {
        parts[behind(*one.weight)].push_back(&one);
      }
    }
    if (!gone.empty()) {
      const std::vector<std::int64_t> layers(gone.begin(), gone.end());
      add(*first->weight,
          fmt::format("{} has no {}, which {} has", path, layers_text(layers), first->weight->path()),
          layers.front(), static_cast<double>(layers.size()));
    }
    if (parts.size() > kMostListed) {
      std::size_t count = 0;
      std::string names;
      for (const auto& [what, tensors] : parts) {
        count += tensors.size();
        names += fmt::format("{}{}", names.empty() ? "" : ", ", what);
      }
      const Weight& weight = *parts.begin()->second.front()->weight;
      add(weight,
          fmt::format("{} has no counterpart of {} tensors ({}), which {} has", path, count, names,
                      weight.path()),
          -1, static_cast<double>(count));
      return;
    }
    for (const auto& [what, tensors] : parts) {
      std::vector<std::int64_t> layers;
      for (const Alone* const one : tensors) {
        if (const auto layer = layer_of(*one->weight)) layers.push_back(*layer);
      }
      std::sort(layers.begin(), layers.end());
      const Weight& weight = *tensors.front()->weight;
      add(weight,
          fmt::format("{} has no counterpart of {}, which {} has", path, subject(what, layers),
                      weight.path()),
          layers.empty() ? -1 : layers.front(), static_cast<double>(tensors.size()));
    }
  }

  void add(const Weight& weight, std::string message, std::int64_t layer, double count) {
    Finding finding = about("W105", weight, std::move(message));
    if (layer >= 0) finding.where.layer = layer;
    finding.expected = count;
    finding.observed = 0.0;
    book_.add("W105", Depth::weights, std::move(finding), "conversion tensors");
  }

  void shapes() {
    struct Group {
      const PartPair* first = nullptr;
      std::vector<std::int64_t> layers{};
    };
    std::map<std::string, Group> groups;
    for (const PartPair& pair : pairs_.pairs) {
      const Part& source = pair.source;
      const Part& made = pair.made;
      if (source.rows == made.rows && source.columns == made.columns) continue;
      if (stands_past_offset(pair)) continue;
      const bool turned = source.rows == made.columns && source.columns == made.rows;
      const std::string text =
          fmt::format("is [{},{}]{} where [{},{}] is due", made.rows, made.columns,
                      turned ? ", the source transposed," : "", source.rows, source.columns);
      Group& group = groups[behind(*made.weight) + " " + text];
      if (group.first == nullptr) group.first = &pair;
      if (const auto layer = layer_of(*made.weight)) group.layers.push_back(*layer);
    }
    for (auto& [key, group] : groups) {
      const Weight& made = *group.first->made.weight;
      const std::string text = key.substr(behind(made).size() + 1);
      std::sort(group.layers.begin(), group.layers.end());
      Finding finding = about("W105", made, subject(behind(made), group.layers) + " " + text);
      if (!group.layers.empty()) finding.where.layer = group.layers.front();
      finding.expected = group.first->source.weight->shape_text();
      finding.observed = made.shape_text();
      const std::string_view role = group.first->made.place.role;
      const bool of_vocabulary = (role == "token_embd" || role == "output") &&
                                 group.first->source.columns == group.first->made.columns;
      book_.add("W105", Depth::weights, std::move(finding),
                of_vocabulary ? "vocabulary" : "conversion shapes");
    }
  }

  /// Converters of RoBERTa leave out the rows in front of the first position.
  static bool stands_past_offset(const PartPair& pair) {
    return pair.made.place.role == "position_embd" && pair.source.columns == pair.made.columns &&
           pair.source.rows > pair.made.rows && pair.source.rows - pair.made.rows <= 2;
  }

  void unjudged() {
    if (pairs_.unjudged.empty()) return;
    std::map<std::string, std::vector<const Weight*>> reasons;
    for (const Unjudged& one : pairs_.unjudged) reasons[one.why].push_back(one.weight);
    std::string text;
    for (const auto& [why, tensors] : reasons)
      text += fmt::format("{}{} ({}, first {})", text.empty() ? "" : "; ", tensors.size(), why,
                          tensors.front()->name());
    Finding finding =
        about("W105", *pairs_.unjudged.front().weight, "tensors that were not compared: " + text);
    finding.severity = Severity::note;
    finding.observed = static_cast<double>(pairs_.unjudged.size());
    book_.add("W105", Depth::weights, std::move(finding), "not compared");
  }

  const WeightFiles& source_;
  const WeightFiles& made_;
  const TensorPairs& pairs_;
  Book& book_;
};

}  // namespace

void check_tensors(const WeightFiles& source, const WeightFiles& made, const TensorPairs& pairs, Book& book) {
  TensorRule(source, made, pairs, book).run();
}

Forms forms_of(const CheckQuery& query) {
  Forms forms{.source = query.against, .made = query.spec, .recipe = nullptr, .same_format = true};
  const bool first = query.spec->format == "gguf";
  const bool second = query.against->format == "gguf";
  forms.same_format = first == second;
  if (second && !first) std::swap(forms.source, forms.made);
  // the meaning of both is read under one recipe: what runtimes make of it is not a fault of a conversion
  forms.recipe = &find_recipe(query.recipe.empty() ? "exact" : query.recipe);
  return forms;
}

void check_conversion(const CheckQuery& query, Book& book) {
  if (query.spec == nullptr || query.against == nullptr) return;
  const Forms forms = forms_of(query);
  const bool turned = forms.source == query.spec;
  const auto source = open_weights(*forms.source, turned ? query.weights : query.against_weights);
  const auto made = open_weights(*forms.made, turned ? query.against_weights : query.weights);
  const bool weights = source && made && !source->all().empty() && !made->all().empty();
  check_meaning(forms, weights ? source.get() : nullptr, weights ? made.get() : nullptr, book);
  if (!weights) return;
  const TensorPairs pairs = pair_up(*source, *made);
  check_tensors(*source, *made, pairs, book);
  check_values(*source, *made, forms, pairs, query.progress, book);
}

}  // namespace locant::check_room
