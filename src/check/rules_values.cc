// SPDX-License-Identifier: Apache-2.0
// W: of each tensor that both forms have, whether its rows and its numbers are those that are due.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/conversion.h"

namespace locant::check_room {
namespace {

/// What is said once for all the layers that it holds for.
struct Group {
  std::string rule{};
  std::string subject{};  ///< "attn_k.weight"
  std::string text{};     ///< what is so
  const Weight* first = nullptr;
  std::vector<std::int64_t> layers{};
  std::vector<const Weight*> tensors{};
  Fact expected{};
  Fact observed{};
  std::optional<std::int64_t> row{};
  std::vector<Hypothesis> hypotheses{};
};

std::string words(const Place& place, const Weight& weight) {
  if (place.role.empty()) {
    const auto at = layered(weight.name());
    return at ? std::string(at->behind) : weight.name();
  }
  static const std::map<std::string, std::string, std::less<>> kWords = {{"attn_q", "q"},
                                                                         {"attn_k", "k"},
                                                                         {"attn_v", "v"},
                                                                         {"attn_q_norm", "the norm of q"},
                                                                         {"attn_k_norm", "the norm of k"}};
  const auto word = kWords.find(place.role);
  const bool bias = place.ending == "bias";
  if (word != kWords.end()) return bias ? "the bias of " + word->second : word->second;
  return weight.name().starts_with("blk.") ? place.role + (place.ending.empty() ? "" : "." + place.ending)
         : place.layer >= 0                ? std::string(layered(weight.name())->behind)
                                           : weight.name();
}

bool rows_may_move(const Place& place) {
  return place.role == "attn_q" || place.role == "attn_k" || place.role == "attn_v" ||
         place.role == "attn_q_norm" || place.role == "attn_k_norm";
}

constexpr std::string_view kNoRelation = "has no relation";
constexpr std::string_view kDiffers = "differs by";
constexpr std::string_view kOtherLayer = "holds what the source has in layer";
constexpr int kMostAlike = 3;

class ValueRules {
 public:
  ValueRules(const WeightFiles& source, const WeightFiles& made, const Forms& forms, const TensorPairs& pairs,
             Book& book)
      : source_(source), made_(made), forms_(forms), pairs_(pairs), book_(book) {
    plans_.source = plan_of(*forms.source);
    plans_.made = plan_of(*forms.made);
    for (const PartPair& pair : pairs.pairs) others_.push_back(pair.source);
    for (const Alone& one : pairs.alone) {
      if (one.in_source) others_.push_back(source.part_of(*one.weight));
    }
  }

  void run(const CheckProgress& progress) {
    for (const PartPair& pair : pairs_.pairs) {
      if (progress) progress(pair.made.weight->name());
      judge(pair);
    }
    if (pairs_.tied) tied_head(*pairs_.tied);
    emit();
  }

 private:
  [[nodiscard]] std::optional<Plan> plan_of(const ModelSpec& spec) const {
    try {
      return plan(spec.positions, *forms_.recipe, {});
    } catch (const SpecError&) {
      return std::nullopt;  // the rules of the config say what is wrong with it
    }
  }

  void judge(PartPair pair) {
    if (pair.source.columns != pair.made.columns) return;
    const bool cut = pair.made.place.role == "position_embd" && pair.source.rows > pair.made.rows;
    if (pair.source.rows != pair.made.rows && !has_rows_of_tokens(pair) && !cut) return;
    DueRow due = [split = pair.source.split](std::int64_t row) { return split.stored(row); };
    if (pair.source.rows == pair.made.rows && rows_may_move(pair.made.place)) {
      book_.asked("W106");
      due = rows_due(pair);
    } else if (cut && pair.source.rows - pair.made.rows <= 2) {
      // converters of RoBERTa leave out the rows in front of the first position
      const std::int64_t skip = pair.source.rows - pair.made.rows;
      due = [skip](std::int64_t row) { return row + skip; };
    }
    if (is_norm(pair.made.place) && !forms_.same_format && adds_one_to_norms(forms_.source->family))
      pair.plus = 1;
    book_.asked("W107");
    const Likeness likeness = compare(pair, due);
    if (!likeness.differing.empty()) differs(pair, due, likeness);
  }

  static bool has_rows_of_tokens(const PartPair& pair) {
    return pair.made.place.role == "token_embd" || pair.made.place.role == "output" ||
           pair.made.place.role == "position_embd";
  }

  static bool is_norm(const Place& place) { return place.role.ends_with("norm") && place.ending == "weight"; }

  /// The order that is due, or the one that is there: then it is said once, and the numbers are compared in
  /// it.
  DueRow rows_due(const PartPair& pair) {
    const Place& place = pair.made.place;
    RowOrder due = due_order(plans_, *forms_.source, pair.source);
    const bool turns = PlanPair::rotation(plans_.source, place.layer) != nullptr &&
                       PlanPair::rotation(plans_.made, place.layer) != nullptr;
    // without a rotation q and k may stand in any order that is the same for both
    const bool free = !turns && place.role == "attn_q" && place.ending == "weight";
    if (const auto known = orders_.find(place.layer); !turns && known != orders_.end()) {
      due.order = known->second;
    }
    if (place.role == "attn_v") due.order = Order::as_source;
    const RowFit fit(pair.source, pair.made);
    RowOrder there = due;
    if (!fit.fits(due.rows())) {
      std::optional<RowOrder> found = find_order(fit, due, pair.made.rows);
      if (found) there = *found;
      const bool own_heads = found && found->heads == due.heads && found->head_rows == due.head_rows;
      if (found && !(free && own_heads)) out_of_order(pair, due, *found, fit);
    }
    if (!turns && place.role == "attn_q" && place.ending == "weight") orders_[place.layer] = there.order;
    return [split = pair.source.split, there](std::int64_t row) { return split.stored(there.row(row)); };
  }

  void out_of_order(const PartPair& pair, const RowOrder& due, const RowOrder& found, const RowFit& fit) {
    std::string text;
    if (found.order == due.order && found.order != Order::as_source) {
      text = fmt::format("is {} where {} {} due", text_of(found), due.heads, due.heads == 1 ? "is" : "are");
    } else if (found.order == Order::as_source) {
      text = fmt::format("is not permuted where rows {} are due", text_of(due));
    } else {
      text = fmt::format("is {} where rows {} are due", text_of(found), text_of(due));
    }
    Fact expected = static_cast<double>(due.heads);
    Fact observed = static_cast<double>(found.heads);
    if (found.order != due.order || due.order == Order::as_source) {
      expected = text_of(due);
      observed = text_of(found);
    }
    Hypothesis hypothesis{.cause = "rows " + text_of(found),
                          .parameters = {{"heads", static_cast<double>(found.heads)}},
                          .residual = std::sqrt(fit.residual(found.rows())),
                          .budget = std::sqrt(fit.rounding())};
    add({.rule = "W106",
         .subject = words(pair.made.place, *pair.made.weight),
         .text = std::move(text),
         .first = pair.made.weight,
         .expected = std::move(expected),
         .observed = std::move(observed),
         .hypotheses = {std::move(hypothesis)}},
        pair);
  }

  void differs(const PartPair& pair, const DueRow& due, const Likeness& likeness) {
    ValueCause cause =
        explain_values({.pair = &pair, .due = &due, .likeness = &likeness, .others = &others_});
    const auto some = static_cast<std::int64_t>(likeness.differing.size());
    std::string text = cause.text;
    std::optional<std::int64_t> row;
    if (some < likeness.looked) {
      row = likeness.differing.front();
      text = fmt::format("{} in {} of the {} rows looked at, {} to {}", text, some, likeness.looked,
                         likeness.differing.front(), likeness.differing.back());
    }
    Hypothesis hypothesis{.cause = std::move(cause.text),
                          .parameters = std::move(cause.parameters),
                          .residual = likeness.residual,
                          .budget = likeness.rounding};
    Fact observed = likeness.residual;
    if (!hypothesis.parameters.empty()) observed = hypothesis.parameters.front().second;
    Fact expected = hypothesis.parameters.empty() ? likeness.rounding : 1.0;
    if (!hypothesis.parameters.empty() && hypothesis.parameters.front().first != "factor" &&
        hypothesis.parameters.front().first != "correlation")
      expected = pair.plus;
    if (!cause.from.empty()) {
      expected = pair.source.weight->name();
      observed = cause.from;
    }
    if (cause.rows) {
      expected = std::string("the fused order of the source");
      observed = hypothesis.cause;
    }
    hypothesis.residual = cause.residual;
    add({.rule = cause.rows ? "W106" : "W107",
         .subject = words(pair.made.place, *pair.made.weight),
         .text = std::move(text),
         .first = pair.made.weight,
         .expected = std::move(expected),
         .observed = std::move(observed),
         .row = row,
         .hypotheses = {std::move(hypothesis)}},
        pair);
  }

  /// One form has a head of its own, the other takes its embedding: the two must be alike.
  void tied_head(const TiedHead& tied) {
    const WeightFiles& with = tied.in_source ? source_ : made_;
    const WeightFiles& without = tied.in_source ? made_ : source_;
    if (!without.spec().head.tied && !without.spec().head.tied_regardless) {
      missing_head(tied, with, without);
      return;
    }
    PartPair pair{.source = source_.part_of(tied.in_source ? *tied.head : *tied.embedding),
                  .made = made_.part_of(tied.in_source ? *tied.embedding : *tied.head)};
    if (!pair.source.weight->readable() || !pair.made.weight->readable() ||
        pair.source.columns != pair.made.columns)
      return;
    book_.asked("W107");
    const DueRow due = [split = pair.source.split](std::int64_t row) { return split.stored(row); };
    const Likeness likeness = compare(pair, due);
    if (likeness.differing.empty()) return;
    if (with.spec().head.tied && !with.is_gguf()) return;  // the tensor is not used, and W103 speaks of it
    missing_head(tied, with, without);
  }

  void missing_head(const TiedHead& tied, const WeightFiles& with, const WeightFiles& without) {
    Finding finding;
    finding.severity = find_rule("W105").severity;
    finding.message = fmt::format("{} has no head of its own, and {} of {} is another than the embedding {}",
                                  without.all().front().path(), tied.head->name(), with.all().front().path(),
                                  tied.embedding->name());
    finding.where.file = tied.head->path();
    finding.where.tensor = tied.head->name();
    finding.expected = tied.head->name();
    finding.observed = tied.embedding->name();
    book_.add("W105", Depth::weights, std::move(finding), "conversion tensors");
  }

  void add(Group group, const PartPair& pair) {
    // layers differ in the digits of what was measured, not in what is so
    const auto same = [&](const Group& other) {
      return other.rule == group.rule && other.subject == group.subject && pair.made.place.layer >= 0 &&
             !other.layers.empty() && alike(other.text, group.text);
    };
    const auto found = std::find_if(groups_.begin(), groups_.end(), same);
    Group& into = found == groups_.end() ? groups_.emplace_back(std::move(group)) : *found;
    into.tensors.push_back(pair.made.weight);
    const auto at = layered(pair.made.weight->name());
    if (at) into.layers.push_back(at->layer);
  }

  static bool alike(const std::string& a, const std::string& b) {
    return a == b || (a.starts_with(kDiffers) && b.starts_with(kDiffers));
  }

  /// Much that is so of many tensors is said once: then two models or two layers are compared.
  void merge() {
    for (const std::string_view text : {kNoRelation, kDiffers, kOtherLayer}) {
      for (std::size_t first = 0; first < groups_.size(); ++first) {
        const Group like = groups_[first];
        if (!like.text.starts_with(text)) continue;
        const auto is = [&](const Group& group) {
          return group.rule == "W107" && group.text.starts_with(text) &&
                 (text != kOtherLayer || (group.text == like.text && group.layers == like.layers));
        };
        if (std::count_if(groups_.begin(), groups_.end(), is) > kMostAlike) merge_into(like, is);
      }
    }
  }

  template <class Is>
  void merge_into(Group all, const Is& is) {
    std::size_t tensors = 0;
    std::string subjects;
    for (const Group& group : groups_) {
      if (!is(group)) continue;
      tensors += group.tensors.size();
      subjects += fmt::format("{}{}", subjects.empty() ? "" : ", ", group.subject);
    }
    all.subject = fmt::format("each of {} tensors ({})", tensors, subjects);
    if (!all.text.starts_with(kOtherLayer)) all.layers.clear();
    groups_.erase(std::remove_if(groups_.begin(), groups_.end(), is), groups_.end());
    groups_.push_back(std::move(all));
  }

  void emit() {
    merge();
    for (Group& group : groups_) {
      std::sort(group.layers.begin(), group.layers.end());
      Finding finding;
      finding.severity = find_rule(group.rule).severity;
      finding.message = group.layers.empty() ? fmt::format("{} {}", group.subject, group.text)
                                             : fmt::format("{} of {} {}", group.subject,
                                                           layers_text(group.layers), group.text);
      finding.where.file = group.first->path();
      finding.where.tensor = group.first->name();
      if (!group.layers.empty()) finding.where.layer = group.layers.front();
      finding.where.row = group.row;
      finding.expected = std::move(group.expected);
      finding.observed = std::move(group.observed);
      finding.hypotheses = std::move(group.hypotheses);
      book_.add(group.rule, Depth::weights, std::move(finding), group.rule + group.subject + group.text);
    }
  }

  const WeightFiles& source_;
  const WeightFiles& made_;
  const Forms& forms_;
  const TensorPairs& pairs_;
  Book& book_;
  PlanPair plans_;
  std::vector<Part> others_;
  std::map<std::int64_t, Order> orders_;  ///< of layers without a rotation
  std::vector<Group> groups_;
};

}  // namespace

void check_values(const WeightFiles& source, const WeightFiles& made, const Forms& forms,
                  const TensorPairs& pairs, const CheckProgress& progress, Book& book) {
  ValueRules(source, made, forms, pairs, book).run(progress);
}

}  // namespace locant::check_room
