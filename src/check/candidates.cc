// SPDX-License-Identifier: Apache-2.0
#include "check/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {
namespace {

constexpr double kUsualTheta = 10000;

bool same_ladder(const Ladder& a, const Ladder& b) {
  return a.inv_freq == b.inv_freq && a.axis == b.axis && a.sign == b.sign && a.times == b.times &&
         a.swapped == b.swapped && a.narrow.frequency == b.narrow.frequency &&
         a.narrow.position == b.narrow.position && a.narrow.angle == b.narrow.angle;
}

/// The rotation without its schedule: the parameters that plain rope knows.
PositionSpec plain(const PositionSpec& spec) {
  PositionSpec rope{.mechanism = "rope"};
  for (const ParameterDescription& known : find_mechanism("rope").parameters) {
    if (const Parameter* const parameter = spec.find(known.name)) rope.parameters.push_back(*parameter);
  }
  return rope;
}

class Collector {
 public:
  explicit Collector(Ladder planned) { ladders_.push_back(std::move(planned)); }

  void add(Ladder ladder) {
    if (ladder.inv_freq.size() != ladders_.front().inv_freq.size()) return;
    const auto same = [&](const Ladder& other) { return same_ladder(other, ladder); };
    if (std::none_of(ladders_.begin(), ladders_.end(), same)) ladders_.push_back(std::move(ladder));
  }

  /// A changed spec; what its mechanism refuses is no candidate.
  void add_spec(const PositionSpec& spec, const Recipe& recipe, const Extent& extent, Ladder label) {
    const std::optional<Rotation> rotation = rotation_of(spec, recipe, extent);
    if (!rotation) return;
    label.inv_freq = rotation->inv_freq;
    label.axis = rotation->axis;
    label.sign = rotation->sign;
    add(std::move(label));
  }

  [[nodiscard]] std::vector<Ladder> take() { return std::move(ladders_); }

 private:
  std::vector<Ladder> ladders_;
};

void add_rounded(Collector& all, const Ladder& planned) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (int bits = 1; bits < 8; ++bits) {
      Ladder ladder = planned;
      ladder.cause = Cause::rounded;
      std::string what;
      const auto mark = [&](int bit, std::optional<DType>& narrow, std::string_view word) {
        if ((bits & bit) == 0) return;
        narrow = dtype;
        what += fmt::format("{}{}", what.empty() ? "" : " and ", word);
      };
      mark(1, ladder.narrow.frequency, "frequencies");
      mark(2, ladder.narrow.position, "positions");
      mark(4, ladder.narrow.angle, "angles");
      ladder.text = fmt::format("{} are rounded to {}", what, name_of(dtype));
      all.add(std::move(ladder));
    }
  }
}

void add_other_layers(Collector& all, const CandidateQuery& query) {
  const auto& layers = query.positions.layers;
  for (std::size_t other = 0; other < layers.size(); ++other) {
    const auto index = static_cast<std::int64_t>(other);
    const PositionSpec* const spec = rotation_spec(query.positions, index);
    if (spec == nullptr || index == query.layer) continue;
    all.add_spec(*spec, query.recipe, {.seen = query.seen},
                 {.cause = Cause::other_kind,
                  .text = fmt::format("the rotation of layer {} is used", other),
                  .parameters = {{"layer", static_cast<double>(other)}}});
  }
}

/// What the plan would be had another number of tokens been seen; others are fitted.
void add_lengths(Collector& all, const CandidateQuery& query, const PositionSpec& spec) {
  if (!follows_length(query)) return;
  const auto at = [&](std::int64_t seen) {
    const double tokens = static_cast<double>(seen);
    all.add_spec(
        spec, query.recipe, {.seen = seen},
        {.cause = Cause::length,
         .text = fmt::format("{} as for {} tokens seen, where {} were", spec.mechanism, seen, query.seen),
         .parameters = {{"seen", tokens}}});
  };
  at(1);
  at(1LL << 20);
  if (query.configured > 0) {
    for (const std::int64_t factor : {1, 2, 4, 8, 16, 32}) at(factor * query.configured);
  }
  const std::int64_t near = 2 * std::max(query.seen, query.configured);
  for (std::int64_t seen = 2; seen <= std::min<std::int64_t>(near, 1024); ++seen) at(seen);
}

}  // namespace

const PositionSpec* rotation_spec(const StackPositions& positions, std::int64_t layer) {
  if (layer < 0 || static_cast<std::size_t>(layer) >= positions.layers.size()) return nullptr;
  for (const PositionSpec& spec : positions.layers[static_cast<std::size_t>(layer)]) {
    if (find_mechanism(spec.mechanism).site == Site::rotation) return &spec;
  }
  return nullptr;
}

std::optional<Rotation> rotation_of(const PositionSpec& spec, const Recipe& recipe, const Extent& extent) {
  try {
    SitePlan site = find_mechanism(spec.mechanism).plan(spec, recipe, extent);
    auto* const rotation = std::get_if<Rotation>(&site);
    return rotation == nullptr ? std::nullopt : std::optional(std::move(*rotation));
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

std::optional<Ladder> changed(const CandidateQuery& query, std::string_view parameter, double value) {
  const PositionSpec* const spec = rotation_spec(query.positions, query.layer);
  if (spec == nullptr) return std::nullopt;
  PositionSpec other = *spec;
  Extent extent{.seen = query.seen};
  if (parameter == "seen") {
    extent.seen = std::llround(value);
  } else {
    if (spec->find(parameter) == nullptr && parameter != "theta") return std::nullopt;
    other.set(std::string(parameter), value);
  }
  const std::optional<Rotation> rotation = rotation_of(other, query.recipe, extent);
  if (!rotation) return std::nullopt;
  Ladder ladder = ladder_of(*rotation);
  ladder.parameters = {{std::string(parameter), value}};
  return ladder;
}

bool follows_length(const CandidateQuery& query) {
  const std::optional<Ladder> one = changed(query, "seen", 1);
  const std::optional<Ladder> many = changed(query, "seen", static_cast<double>(1LL << 20));
  return one && many && one->inv_freq != many->inv_freq;
}

std::vector<Ladder> candidates(const CandidateQuery& query, const Rotation& planned) {
  Ladder own = ladder_of(planned);
  own.text = "as planned";
  Collector all(own);
  const PositionSpec* const spec = rotation_spec(query.positions, query.layer);

  Ladder missing = own;
  missing.cause = Cause::missing;
  missing.text = "no rotation is applied";
  missing.times = 0;
  all.add(missing);
  Ladder twice = own;
  twice.cause = Cause::twice;
  twice.text = "the rotation is applied twice, or positions are doubled";
  twice.times = 2;
  all.add(twice);
  Ladder reversed = own;
  reversed.cause = Cause::reversed;
  reversed.text = "the rotation turns the other way";
  reversed.sign = -own.sign;
  all.add(reversed);
  Ladder swapped = own;
  swapped.cause = Cause::swapped;
  swapped.text = "cos and sin are swapped";
  swapped.swapped = true;
  all.add(swapped);
  if (spec == nullptr) return all.take();

  const double theta = spec->number("theta").value_or(kUsualTheta);
  const PositionSpec bare = plain(*spec);
  const Extent extent{.seen = query.seen};
  all.add_spec(
      bare, query.recipe, extent,
      {.cause = Cause::scaling, .text = fmt::format("plain rope: {} is not applied", spec->mechanism)});
  PositionSpec usual = *spec;
  usual.set("theta", kUsualTheta);
  all.add_spec(usual, query.recipe, extent,
               {.cause = Cause::theta,
                .text = fmt::format("theta 10000, the usual default, where {} is due", theta),
                .parameters = {{"theta", kUsualTheta}}});
  usual = bare;
  usual.set("theta", kUsualTheta);
  all.add_spec(usual, query.recipe, extent,
               {.cause = Cause::theta,
                .text = fmt::format("plain rope with theta 10000: neither theta {} nor {} is read", theta,
                                    spec->mechanism),
                .parameters = {{"theta", kUsualTheta}}});
  if (planned.width != planned.head_dim) {
    Ladder wide = own;
    wide.cause = Cause::width;
    wide.text = fmt::format("the ladder counts head_dim {} where rotary_dim {} is due", planned.head_dim,
                            planned.width);
    for (std::size_t p = 0; p < wide.inv_freq.size(); ++p)
      wide.inv_freq[p] =
          std::pow(theta, -2.0 * static_cast<double>(p) / static_cast<double>(planned.head_dim));
    all.add(wide);
  }
  if (!own.axis.empty()) {
    Ladder time = own;
    time.cause = Cause::axes;
    time.text = "every pair follows the time axis";
    time.axis.assign(own.axis.size(), 0);
    all.add(time);
    const std::int64_t axes = *std::max_element(own.axis.begin(), own.axis.end()) + 1;
    Ladder chunked = own;
    chunked.cause = Cause::axes;
    chunked.text = "position sections are taken in chunks where they interleave";
    std::sort(chunked.axis.begin(), chunked.axis.end());
    all.add(chunked);
    Ladder interleaved = own;
    interleaved.cause = Cause::axes;
    interleaved.text = "position sections interleave where they are chunks";
    for (std::size_t p = 0; p < interleaved.axis.size(); ++p)
      interleaved.axis[p] = static_cast<std::int64_t>(p) % axes;
    all.add(interleaved);
  }
  add_other_layers(all, query);
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == query.recipe.name || recipe.name == "exact") continue;
    all.add_spec(*spec, recipe, extent,
                 {.cause = Cause::recipe, .text = fmt::format("this is what {} does", recipe.name)});
  }
  add_lengths(all, query, *spec);
  if (spec->find("factor") != nullptr) {
    const double stated = spec->number("factor").value_or(1);
    for (const double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0}) {
      if (factor == stated) continue;
      PositionSpec changed = *spec;
      changed.set("factor", factor);
      all.add_spec(changed, query.recipe, extent,
                   {.cause = Cause::scaling,
                    .text = fmt::format("{} with factor {} where {} is due", spec->mechanism, factor, stated),
                    .parameters = {{"factor", factor}}});
    }
  }
  add_rounded(all, own);
  std::vector<Ladder> ladders = all.take();
  if (planned.axis.empty()) {
    for (Ladder& ladder : ladders) ladder.axis.clear();
  }
  return ladders;
}

}  // namespace locant::check_room
