// SPDX-License-Identifier: Apache-2.0
// What stands for what in two forms of one model: equal names within a format, places across them.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "check/conversion.h"

namespace locant::check_room {
namespace {

using namespace std::string_view_literals;

// A bare model and one with a head on top differ by these.
constexpr std::array kTops = {"model."sv,   "transformer."sv,          "gpt_neox."sv,      "bert."sv,
                              "roberta."sv, "model.language_model."sv, "language_model."sv};

const Weight* partner(const Weight& weight, const WeightFiles& other) {
  if (const Weight* const same = other.named(weight.name())) return same;
  for (const std::string_view top : kTops) {
    if (const Weight* const with = other.named(std::string(top) + weight.name())) return with;
    if (!weight.name().starts_with(top)) continue;
    if (const Weight* const bare = other.named(weight.name().substr(top.size()))) return bare;
  }
  return nullptr;
}

class Pairer {
 public:
  Pairer(const WeightFiles& source, const WeightFiles& made) : source_(source), made_(made) {}

  TensorPairs run() {
    if (source_.is_gguf() == made_.is_gguf()) by_name();
    by_place();
    find_tied_head();
    rest(source_, true);
    rest(made_, false);
    std::stable_sort(pairing_.pairs.begin(), pairing_.pairs.end(), [](const PartPair& a, const PartPair& b) {
      return order(a.made.place) < order(b.made.place);
    });
    return std::move(pairing_);
  }

 private:
  /// The rows of q decide what is due for k, and those of both for biases and norms.
  static int order(const Place& place) {
    if (place.role == "attn_q" && place.ending == "weight") return 0;
    if (place.role == "attn_k" && place.ending == "weight") return 1;
    return 2;
  }

  [[nodiscard]] bool used(const Weight* weight) const { return used_.contains(weight); }

  void add(const Part& source, const Part& made) {
    used_.insert(source.weight);
    used_.insert(made.weight);
    if (!source.weight->readable() || !made.weight->readable()) {
      // counters and packed bits are compared by their bytes where both hold them
      if (source.weight->equals(*made.weight)) return;
      const Weight* const closed = source.weight->readable() ? made.weight : source.weight;
      pairing_.unjudged.push_back({made.weight, closed->type_text() + " is not read"});
      return;
    }
    pairing_.pairs.push_back({.source = source, .made = made});
  }

  void by_name() {
    for (const Weight& weight : source_.all()) {
      const Weight* const other = partner(weight, made_);
      if (other == nullptr || used(other)) continue;
      if (is_no_weight(weight.name())) continue;
      add(source_.part_of(weight), made_.part_of(*other));
    }
  }

  [[nodiscard]] std::map<std::string, Part> parts_of(const WeightFiles& files) const {
    std::map<std::string, Part> parts;
    for (const Weight& weight : files.all()) {
      const auto place = files.place_of(weight);
      if (!place || used(&weight) || is_no_weight(weight.name())) continue;
      if (place->layer >= files.spec().layers && files.spec().layers > 0)
        continue;  // predicts further tokens
      for (const Part& part : files.parts_of(weight)) parts.emplace(part.place.text(), part);
    }
    return parts;
  }

  void by_place() {
    const std::map<std::string, Part> mine = parts_of(source_);
    const std::map<std::string, Part> theirs = parts_of(made_);
    for (const auto& [place, part] : mine) {
      const auto found = theirs.find(place);
      if (found != theirs.end()) add(part, found->second);
    }
  }

  void find_tied_head() {
    for (const bool in_source : {true, false}) {
      const WeightFiles& with = in_source ? source_ : made_;
      const WeightFiles& without = in_source ? made_ : source_;
      const Weight* const head = with.at("output");
      const Weight* const embedding = without.at("token_embd");
      if (head == nullptr || used(head) || embedding == nullptr || without.at("output") != nullptr) continue;
      pairing_.tied = TiedHead{head, embedding, in_source};
      used_.insert(head);
    }
  }

  void rest(const WeightFiles& files, bool in_source) {
    const WeightFiles& other = in_source ? made_ : source_;
    for (const Weight& weight : files.all()) {
      if (used(&weight) || is_no_weight(weight.name())) continue;
      const auto place = files.place_of(weight);
      const bool further = place && place->layer >= files.spec().layers && files.spec().layers > 0;
      const bool known = place && !further && known_to_both(*place) && expected_in(other, *place);
      if (known || source_.is_gguf() == made_.is_gguf()) {
        pairing_.alone.push_back({&weight, place, in_source});
      } else {
        pairing_.unjudged.push_back({&weight, "no counterpart is known"});
      }
    }
  }

  /// A role that no layer of the other form has may stand there under a name that is not known.
  [[nodiscard]] static bool expected_in(const WeightFiles& files, const Place& place) {
    bool all_known = true;
    for (const Weight& weight : files.all()) {
      const auto other = files.place_of(weight);
      if (other && other->role == place.role && other->ending == place.ending) return true;
      const auto at = layered(weight.name());
      if (!other && !is_no_weight(weight.name()) && (at && at->layer == place.layer)) all_known = false;
    }
    return all_known;
  }

  /// GGUF's names are places by themselves: only those that a checkpoint can have as well are missed in it.
  [[nodiscard]] static bool known_to_both(const Place& place) {
    static constexpr std::array kRoles = {
        "token_embd"sv,    "position_embd"sv,    "token_types"sv,      "token_embd_norm"sv,
        "output_norm"sv,   "output"sv,           "attn_norm"sv,        "attn_norm_2"sv,
        "attn_q"sv,        "attn_k"sv,           "attn_v"sv,           "attn_qkv"sv,
        "attn_output"sv,   "attn_q_norm"sv,      "attn_k_norm"sv,      "ffn_norm"sv,
        "ffn_gate"sv,      "ffn_up"sv,           "ffn_down"sv,         "post_attention_norm"sv,
        "post_ffw_norm"sv, "attn_output_norm"sv, "layer_output_norm"sv};
    return std::find(kRoles.begin(), kRoles.end(), place.role) != kRoles.end();
  }

  const WeightFiles& source_;
  const WeightFiles& made_;
  std::set<const Weight*> used_;
  TensorPairs pairing_;
};

}  // namespace

TensorPairs pair_up(const WeightFiles& source, const WeightFiles& made) {
  return Pairer(source, made).run();
}

const Rotation* PlanPair::rotation(const std::optional<Plan>& plan, std::int64_t layer) {
  if (!plan || layer < 0 || layer >= static_cast<std::int64_t>(plan->layers.size())) return nullptr;
  const auto kind = static_cast<std::size_t>(plan->layers[static_cast<std::size_t>(layer)]);
  const std::optional<Rotation>& rotation = plan->kinds.at(kind).rotation;
  return rotation ? &*rotation : nullptr;
}

RowOrder due_order(const PlanPair& plans, const ModelSpec& spec, const Part& part) {
  RowOrder due{.order = Order::as_source, .heads = 1, .head_rows = part.rows, .offset = 0, .width = 0};
  const std::int64_t head_dim = spec.head_dim;
  if (head_dim < 1 || part.rows % head_dim != 0) return due;
  due.heads = part.rows / head_dim;
  due.head_rows = head_dim;
  due.width = head_dim;
  const Rotation* const source = PlanPair::rotation(plans.source, part.place.layer);
  const Rotation* const made = PlanPair::rotation(plans.made, part.place.layer);
  if (source == nullptr || made == nullptr) return due;
  due.offset = source->offset;
  due.width = source->width;
  if (source->offset + source->width > head_dim || source->width % 2 != 0) due.width = 0;
  if (source->read == made->read || due.width == 0) return due;
  due.order = made->read == Pairing::interleaved ? Order::to_neighbours : Order::to_halves;
  return due;
}

}  // namespace locant::check_room
