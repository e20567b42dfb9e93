// SPDX-License-Identifier: Apache-2.0
#include "saved.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string_view>

#include "locant/core.h"

namespace locant::bench {
namespace {

bool same(const Json& a, const Json& b, std::initializer_list<const char*> fields) {
  return std::all_of(fields.begin(), fields.end(), [&](const char* field) {
    return a.contains(field) && b.contains(field) && a[field] == b[field];
  });
}

bool same_row(const Json& a, const Json& b) {
  return same(a, b, {"operation", "shape", "dtype", "threads"});
}

int place_of(const Json& row) {
  const int number = row.value("row", 0);
  return number == 0 ? std::numeric_limits<int>::max() : number;
}

}  // namespace

void write_whole(const std::string& path, const Json& run) {
  const std::string unfinished = path + ".new";
  {
    std::ofstream file(unfinished);
    file << run.dump(1) << '\n';
    if (!file.flush()) throw FileError(path, "cannot be written");
  }
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) {
    std::remove(unfinished.c_str());
    throw FileError(path, "cannot be written");
  }
}

Json saved_run(const std::string& path, const Json& now) {
  std::ifstream file(path);
  if (!file) return nullptr;
  Json found = Json::parse(file, nullptr, false);
  if (!found.is_object() || !found.contains("machine") || !found.contains("rows")) {
    throw FileError(path, "is no run of the benchmarks: move it away, or save elsewhere");
  }
  if (!same(found["machine"], now["machine"], {"cpu", "target", "forced", "threads"})) {
    throw FileError(path, "holds a run of another CPU, target or thread count: save elsewhere");
  }
  return found;
}

Json merged(const Json& before, const Json& now) {
  if (before.is_null()) return now;
  Json whole = now;
  Json rows = Json::array();
  const Json& newer = now["rows"];
  for (const Json& row : before["rows"]) {
    const auto again =
        std::find_if(newer.begin(), newer.end(), [&](const Json& other) { return same_row(row, other); });
    rows.push_back(again == newer.end() ? row : *again);
  }
  for (const Json& row : newer) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Json& other) { return same_row(row, other); })) {
      rows.push_back(row);
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return place_of(a) < place_of(b); });
  whole["rows"] = std::move(rows);
  whole["rows_known"] = std::max(before.value("rows_known", 0), now.value("rows_known", 0));
  Json peers = before.value("peers", Json::object());
  peers.update(now["peers"]);
  for (const auto& [label, _] : peers.items()) whole["peers_missing"].erase(label);
  whole["peers"] = std::move(peers);
  return whole;
}

bool has_row(const Json& before, const Json& now, const Json& row) {
  if (before.is_null() || !same(before, now, {"version"})) return false;
  return std::any_of(before["rows"].begin(), before["rows"].end(), [&](const Json& other) {
    return same_row(other, row) && same(other, row, {"flags"}) && !other["ns"].is_null();
  });
}

}  // namespace locant::bench
