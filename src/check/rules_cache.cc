// SPDX-License-Identifier: Apache-2.0
// P113: the keys that a pass finds in its cache against the keys that earlier passes wrote: the right
// token's, turned to the position that the slot stands at, and none of them twice.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "check/ladder.h"
#include "check/scores.h"
#include "check/turns.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using names::Layer;
using Key32 = std::vector<float>;  // [kv_heads * head_dim]

/// A key as it was written, for one token of one row.
struct Written {
  Key32 key;
  std::int64_t position = 0;  ///< that it was turned to
  std::int64_t counted = 0;   ///< that its token has without any shift
  DType dtype = DType::f32;
};

double distance_between(const Key32& a, const Key32& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double left = 0;
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    left += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    total += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  }
  return total > 0 ? std::sqrt(left / total) : std::sqrt(left);
}

bool is_zero(const Key32& key) {
  return std::all_of(key.begin(), key.end(), [](float x) { return x == 0; });
}

/// The key as it would stand `by` positions further.
Key32 turned(const Key32& key, const Rotation& rotation, std::int64_t by) {
  const Geometry geometry = geometry_of(rotation);
  Key32 result = key;
  const auto width = static_cast<std::size_t>(rotation.head_dim);
  for (std::size_t head = 0; head + width <= key.size(); head += width) {
    for (std::int64_t p = 0; p < geometry.pairs(); ++p) {
      const auto [first, second] = geometry.channels(geometry.write, p);
      const double angle =
          rotation.sign * static_cast<double>(by) * rotation.inv_freq[static_cast<std::size_t>(p)];
      const double a = key[head + static_cast<std::size_t>(first)];
      const double b = key[head + static_cast<std::size_t>(second)];
      result[head + static_cast<std::size_t>(first)] =
          static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      result[head + static_cast<std::size_t>(second)] =
          static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
    }
  }
  return result;
}

/// One token's keys, each head of length 1: a norm behind the rotation moves no key.
Key32 slice(const Values& keys, std::int64_t row, std::int64_t column) {
  const auto width = static_cast<std::size_t>(keys.extent(3));
  const auto size = static_cast<std::ptrdiff_t>(keys.extent(2) * keys.extent(3));
  const auto begin = keys.data.begin() + static_cast<std::ptrdiff_t>(row * keys.extent(1) + column) * size;
  Key32 key(begin, begin + size);
  for (std::size_t head = 0; head + width <= key.size(); head += width) {
    double squares = 0;
    for (std::size_t i = head; i < head + width; ++i)
      squares += static_cast<double>(key[i]) * static_cast<double>(key[i]);
    if (squares == 0) continue;
    for (std::size_t i = head; i < head + width; ++i)
      key[i] = static_cast<float>(key[i] / std::sqrt(squares));
  }
  return key;
}

/// What this pass wrote, behind what earlier ones did. A pass without keys ends what is known.
void remember(const Pass& pass, std::int64_t layer, std::vector<std::vector<Written>>& rows) {
  const std::string name = names::layer(layer, Layer::k);
  const TensorRef k = pass.find(name);
  const bool usable =
      k.data != nullptr && k.rank == 4 && k.shape[0] == pass.rows && k.shape[1] == pass.tokens;
  rows.resize(static_cast<std::size_t>(pass.rows));
  if (!usable) {
    for (std::vector<Written>& row : rows) row.clear();
    return;
  }
  const Values keys = values_of(k, pass.path + ": " + pass.prefix + name);
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    std::vector<Written>& list = rows[static_cast<std::size_t>(row)];
    // tokens from before the recording, or of another text
    const auto past = static_cast<std::size_t>(pass.past[static_cast<std::size_t>(row)]);
    if (list.size() != past) list.assign(past, {});
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      if (pass.content[pass.at(row, token)])
        list.push_back({slice(keys, row, token), pass.due[pass.at(row, token)],
                        pass.due[pass.at(row, token)] - pass.shift, k.dtype});
    }
  }
}

/// By how many positions a key was turned since it was written, `most` at the most; nothing where no number
/// fits.
std::optional<std::int64_t> move_of(const Key32& right, const Key32& got,
                                    const std::optional<Rotation>& rotation, std::int64_t most,
                                    double allowed) {
  if (distance_between(right, got) <= allowed) return 0;
  if (!rotation) return std::nullopt;
  for (std::int64_t by = 1; by <= most; ++by) {
    for (const std::int64_t signed_by : {-by, by}) {
      if (distance_between(turned(right, *rotation, signed_by), got) <= 4 * allowed) return signed_by;
    }
  }
  return std::nullopt;
}

/// Null where the layer does not rotate.
const Rotation* rotation_at(const Pass& pass, std::int64_t layer) {
  if (!pass.plan || layer >= static_cast<std::int64_t>(pass.plan->layers.size())) return nullptr;
  const auto kind = static_cast<std::size_t>(pass.plan->layers[static_cast<std::size_t>(layer)]);
  const std::optional<Rotation>& rotation = pass.plan->kinds[kind].rotation;
  return rotation ? &*rotation : nullptr;
}

/// The keys of a layer's cache, where the layer rotates.
TensorRef rotated_cache(const Pass& pass, std::int64_t layer) {
  if (rotation_at(pass, layer) == nullptr || pass.axes != 1) return {};
  const TensorRef stored = pass.find(names::layer(layer, Layer::cache_k));
  const bool usable = stored.data != nullptr && stored.rank == 4 && stored.shape[0] == pass.rows &&
                      stored.shape[1] >= pass.tokens;
  return usable ? stored : TensorRef();
}

/// A context shift turns every layer alike: the first that rotates and whose cache is recorded tells of it.
std::optional<std::int64_t> telling_layer(const Trace& trace) {
  for (const Pass& pass : trace.passes) {
    for (std::size_t layer = 0; pass.plan && layer < pass.plan->layers.size(); ++layer) {
      if (rotated_cache(pass, static_cast<std::int64_t>(layer)).data != nullptr)
        return static_cast<std::int64_t>(layer);
    }
  }
  return std::nullopt;
}

/// By what one number all keys of earlier passes stand elsewhere than they were counted, 0 where they do not
/// or differ; nothing where a slot holds another key.
std::optional<std::int64_t> shift_of(const Pass& pass, std::int64_t layer,
                                     const std::vector<std::vector<Written>>& written) {
  const TensorRef stored = written.empty() ? TensorRef() : rotated_cache(pass, layer);
  if (stored.data == nullptr) return 0;
  const Values cache = values_of(stored, pass.path + ": cache.k");
  const std::vector<std::vector<Key>> keys = keys_of(pass, cache.extent(1));
  std::set<std::int64_t> shifts;
  for (std::size_t row = 0; row < written.size(); ++row) {
    const std::vector<Written>& list = written[row];
    for (std::int64_t slot = 0; slot < cache.extent(1); ++slot) {
      const Key& key = keys[row][static_cast<std::size_t>(slot)];
      if (!key.content || key.position >= static_cast<std::int64_t>(list.size())) continue;
      const Written& right = list[static_cast<std::size_t>(key.position)];
      if (right.key.empty()) continue;
      const double allowed = 8 * std::max(unit_roundoff(stored.dtype), unit_roundoff(right.dtype));
      const std::optional<std::int64_t> move =
          move_of(right.key, slice(cache, static_cast<std::int64_t>(row), slot), *rotation_at(pass, layer),
                  static_cast<std::int64_t>(list.size()) + 64, allowed);
      if (!move) return std::nullopt;
      shifts.insert(right.position + *move - right.counted);
    }
  }
  return shifts.size() == 1 ? *shifts.begin() : 0;
}

class CacheRules {
 public:
  CacheRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      if (trace->sliced || evidence_.positions(*trace) == nullptr) continue;
      std::map<std::int64_t, std::vector<std::vector<Written>>> written;  // layer -> row -> tokens
      for (const Pass& pass : trace->passes) {
        for (std::size_t layer = 0; pass.plan && layer < pass.plan->layers.size(); ++layer) {
          const auto index = static_cast<std::int64_t>(layer);
          const LayerPositions& kind = pass.plan->kinds[static_cast<std::size_t>(pass.plan->layers[layer])];
          remember(pass, index, written[index]);
          check_layer(*trace, pass, index, kind, written[index]);
        }
      }
    }
  }

 private:
  void check_layer(const Trace& trace, const Pass& pass, std::int64_t layer, const LayerPositions& kind,
                   const std::vector<std::vector<Written>>& written) {
    const std::string name = names::layer(layer, Layer::cache_k);
    const TensorRef stored = pass.find(name);
    if (stored.data == nullptr || stored.rank != 4 || stored.shape[0] != pass.rows || pass.axes != 1) return;
    if (reported_) return;  // one cause shows in every layer and later pass
    const Values cache = values_of(stored, pass.path + ": " + pass.prefix + name);
    const std::int64_t slots = cache.extent(1);
    if (slots < pass.tokens) return;
    const std::vector<std::vector<Key>> keys = keys_of(pass, slots);
    const std::vector<std::int64_t> source = optional_integers(pass, layer, Layer::cache_source, slots);
    const std::vector<std::int64_t> stands = optional_integers(pass, layer, Layer::cache_positions, slots);
    for (std::int64_t row = 0; row < pass.rows; ++row) {
      const Place where = {
          .file = trace.path, .tensor = pass.prefix + name, .layer = layer, .step = pass.step, .row = row};
      const std::vector<Written>& list = written[static_cast<std::size_t>(row)];
      const double allowed =
          8 * std::max(unit_roundoff(stored.dtype), list.empty() ? 0 : unit_roundoff(list.back().dtype));
      // content slots, oldest first, and the token of the row that each ought to hold
      std::vector<std::pair<std::int64_t, std::int64_t>> due;
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        const auto at = static_cast<std::size_t>(row * slots + slot);
        const Key& key = keys[static_cast<std::size_t>(row)][static_cast<std::size_t>(slot)];
        if (!key.content) continue;
        due.emplace_back(slot, source.empty() ? key.position : source[at]);
      }
      check_twice(where, pass, cache, row, due, list, kind);
      if (list.empty() || due.empty()) continue;
      if (!holds_own(pass, cache, row, due, list, allowed)) continue;
      book_.asked("P113");
      judge_row(where, cache, row, due, written, stands, kind, allowed);
    }
  }

  /// Attention was given this very pass's keys as they were written: no norm or rounding lies between.
  static bool holds_own(const Pass& pass, const Values& cache, std::int64_t row,
                        const std::vector<std::pair<std::int64_t, std::int64_t>>& due,
                        const std::vector<Written>& list, double allowed) {
    const auto first = static_cast<std::int64_t>(pass.past[static_cast<std::size_t>(row)]);
    return std::all_of(due.begin(), due.end(), [&](const auto& place) {
      const auto [slot, token] = place;
      if (token < first) return true;
      if (token >= static_cast<std::int64_t>(list.size())) return false;
      const Key32& key = list[static_cast<std::size_t>(token)].key;
      return !key.empty() && distance_between(key, slice(cache, row, slot)) <= allowed;
    });
  }

  static std::vector<std::int64_t> optional_integers(const Pass& pass, std::int64_t layer, Layer tensor,
                                                     std::int64_t slots) {
    const std::string name = names::layer(layer, tensor);
    const TensorRef found = pass.find(name);
    if (found.data == nullptr) return {};
    if (found.rank != 2 || found.shape[0] != pass.rows || found.shape[1] != slots) {
      throw FileError(pass.path, fmt::format("{}{} is [{},{}], got {}", pass.prefix, name, pass.rows, slots,
                                             found.shape_text()));
    }
    return integers_of(found, pass.path + ": " + pass.prefix + name);
  }

  void judge_row(const Place& place, const Values& cache, std::int64_t row,
                 const std::vector<std::pair<std::int64_t, std::int64_t>>& due,
                 const std::vector<std::vector<Written>>& written, const std::vector<std::int64_t>& stands,
                 const LayerPositions& kind, double allowed) {
    const std::vector<Written>& list = written[static_cast<std::size_t>(row)];
    std::optional<std::int64_t> last;
    for (const auto& [slot, token] : due) {
      if (token < 0 || token >= static_cast<std::int64_t>(list.size())) continue;
      const Written& right = list[static_cast<std::size_t>(token)];
      if (right.key.empty()) continue;
      const Key32 got = slice(cache, row, slot);
      const std::size_t at = static_cast<std::size_t>(row * cache.extent(1) + slot);
      const std::optional<std::int64_t> move =
          move_of(right.key, got, kind.rotation, static_cast<std::int64_t>(list.size()) + 64, allowed);
      Place where = place;
      where.token = slot;
      if (!move && of_another_row(written, token, got, allowed)) continue;  // beams change places
      if (!move) return report_other(where, got, token, list, allowed);
      if (!stands.empty() && kind.rotation && right.position + *move != stands[at]) {
        return report(where,
                      fmt::format("slot {} holds a key that stands at position {}, cache.positions says {}",
                                  slot, right.position + *move, stands[at]),
                      static_cast<double>(stands[at]), static_cast<double>(right.position + *move));
      }
      const std::int64_t offset = right.position + *move - right.counted;
      if (stands.empty() && last && offset != *last) {
        return report(
            where,
            fmt::format(
                "slot {} stands {} positions from its token's count and the slot before it {}: stored "
                "positions do not follow each other",
                slot, offset, *last),
            static_cast<double>(*last), static_cast<double>(offset));
      }
      last = offset;
    }
  }

  static bool of_another_row(const std::vector<std::vector<Written>>& written, std::int64_t token,
                             const Key32& got, double allowed) {
    return std::any_of(written.begin(), written.end(), [&](const std::vector<Written>& row) {
      const auto at = static_cast<std::size_t>(token);
      return at < row.size() && !row[at].key.empty() && distance_between(row[at].key, got) <= allowed;
    });
  }

  void report_other(const Place& where, const Key32& got, std::int64_t token,
                    const std::vector<Written>& list, double allowed) {
    for (std::size_t other = 0; other < list.size(); ++other) {
      if (list[other].key.empty() || distance_between(list[other].key, got) > allowed) continue;
      return report(where,
                    fmt::format("slot {} holds the key of token {} where that of token {} is due",
                                *where.token, other, token),
                    static_cast<double>(token), static_cast<double>(other));
    }
    report(where,
           is_zero(got)
               ? fmt::format("slot {} is empty where the key of token {} is due", *where.token, token)
               : fmt::format("slot {} holds no key that was written, that of token {} is due", *where.token,
                             token),
           static_cast<double>(token), std::string(is_zero(got) ? "zeros" : "another key"));
  }

  /// A rotation gives one token another key at every position: no two slots of a row are equal. Keys that the
  /// trace saw being written are judged by the rules of the rotation.
  void check_twice(const Place& place, const Pass& pass, const Values& cache, std::int64_t row,
                   const std::vector<std::pair<std::int64_t, std::int64_t>>& due,
                   const std::vector<Written>& list, const LayerPositions& kind) {
    const auto unseen = [&](std::int64_t token) {
      return token < 0 || token >= static_cast<std::int64_t>(list.size()) ||
             list[static_cast<std::size_t>(token)].key.empty();
    };
    if (due.size() < 2 || !unseen(due.front().second)) return;
    const bool whole = kind.rotation && kind.rotation->acts_on.k && pass.document.empty();
    if (!whole) return;
    book_.asked("P113");
    std::map<std::string, std::int64_t> seen;
    for (const auto& [slot, token] : due) {
      const Key32 key = slice(cache, row, slot);
      if (is_zero(key) || !unseen(token)) continue;
      const std::string bytes(reinterpret_cast<const char*>(key.data()), key.size() * sizeof(float));
      const auto [first, fresh] = seen.emplace(bytes, slot);
      if (fresh) continue;
      Place where = place;
      where.token = slot;
      return report(
          where,
          fmt::format("slots {} and {} hold one key: the second part was joined without turning it to its "
                      "place",
                      first->second, slot),
          static_cast<double>(token), static_cast<double>(first->second));
    }
  }

  void report(const Place& where, std::string text, Fact expected, Fact observed) {
    if (reported_) return;  // nor in other rows
    reported_ = true;
    Finding finding;
    finding.severity = find_rule("P113").severity;
    finding.where = where;
    finding.message = fmt::format("cache.k of layer {}: {}", *where.layer, text);
    finding.expected = std::move(expected);
    finding.observed = std::move(observed);
    finding.hypotheses = {{text, {}, 0, 0}};
    book_.add("P113", Depth::rotation, std::move(finding), "positions");
  }

  const Evidence& evidence_;
  Book& book_;
  bool reported_ = false;
};

}  // namespace

void follow_shifts(Trace& trace) {
  const std::optional<std::int64_t> layer = trace.sliced ? std::nullopt : telling_layer(trace);
  if (!layer) return;
  std::vector<std::vector<Written>> written;
  for (Pass& pass : trace.passes) {
    const std::optional<std::int64_t> shift = shift_of(pass, *layer, written);
    if (!shift) return;  // another fault: nothing is followed
    pass.shift = *shift;
    for (std::size_t n = 0; n < pass.due.size(); ++n) pass.due[n] += pass.content[n] ? pass.shift : 0;
    remember(pass, *layer, written);
  }
}

void check_cache(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  CacheRules(evidence, book).run();
}

}  // namespace locant::check_room
