// SPDX-License-Identifier: Apache-2.0
// The headers of two models' weights: names, dtypes and shapes. No value is read.
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "facts/compare_parts.h"
#include "locant/formats.h"

namespace locant {
namespace {

struct Header {
  std::string dtype;
  std::vector<std::int64_t> shape;
  bool plain = true;  ///< a float of at least 16 bits
};
using Headers = std::map<std::string, Header>;

bool is_gguf(const std::string& path) {
  return std::filesystem::path(path).extension() == ".gguf";
}

Headers headers_of(const std::string& path) {
  Headers all;
  if (is_gguf(path)) {
    const GgufFile file(path);
    for (const GgufTensor& one : file.tensors()) {
      all.emplace(one.name,
                  Header{std::string(name_of(one.type)), one.shape, dtype_of(one.type).has_value()});
    }
    return all;
  }
  const SafetensorsFile file(path);
  for (const StoredTensor& one : file.tensors()) {
    Header header{std::string(name_of(one.tensor.dtype)), {}, true};
    header.shape.assign(one.tensor.shape.begin(),
                        one.tensor.shape.begin() + static_cast<std::ptrdiff_t>(one.tensor.rank));
    all.emplace(one.name, std::move(header));
  }
  return all;
}

void say(Comparison& comparison, std::string_view what, bool inside, std::string message) {
  Difference one;
  one.what = what;
  one.site = "weights";
  one.inside = inside;
  one.message = std::move(message);
  comparison.differences.push_back(std::move(one));
}

void names_alone(const Headers& in, const Headers& other, std::string_view name, Comparison& comparison) {
  std::int64_t alone = 0;
  std::string first;
  for (const auto& [tensor, header] : in) {
    if (other.count(tensor) > 0) continue;
    if (alone++ == 0) first = tensor;
  }
  if (alone == 0) return;
  say(comparison, "names", true,
      fmt::format("{} tensor{} only in {}, the first is {}", alone, alone == 1 ? " is" : "s are", name,
                  first));
}

}  // namespace

void compare_weights(const CompareSide& a, const CompareSide& b, Comparison& comparison) {
  const std::string path_a = weights_in(a.weights);
  const std::string path_b = weights_in(b.weights);
  if (path_a.empty() || path_b.empty()) return;
  if (is_gguf(path_a) != is_gguf(path_b)) {
    comparison.notes.push_back(
        "the weights are not compared name by name: a GGUF file and a safetensors file name them in two "
        "ways, and locant check --against compares their values");
    return;
  }
  const Headers of_a = headers_of(path_a);
  const Headers of_b = headers_of(path_b);
  names_alone(of_a, of_b, a.name, comparison);
  names_alone(of_b, of_a, b.name, comparison);
  std::int64_t shapes = 0;
  std::int64_t dtypes = 0;
  bool blocks = false;
  std::string shape;
  std::string dtype;
  for (const auto& [name, first] : of_a) {
    const auto other = of_b.find(name);
    if (other == of_b.end()) continue;
    if (first.shape != other->second.shape && shapes++ == 0)
      shape = fmt::format("{}: [{}] instead of [{}]", name, fmt::join(other->second.shape, ","),
                          fmt::join(first.shape, ","));
    if (first.dtype == other->second.dtype) continue;
    blocks = blocks || !first.plain || !other->second.plain;
    if (dtypes++ == 0) dtype = fmt::format("{}: {} instead of {}", name, other->second.dtype, first.dtype);
  }
  if (shapes > 0)
    say(comparison, "shape", true,
        fmt::format("{} tensor{} another shape in {}, the first is {}", shapes,
                    shapes == 1 ? " has" : "s have", b.name, shape));
  // Rounding to 16 bits is what the measured change is for.
  if (dtypes > 0)
    say(comparison, "dtype", blocks,
        fmt::format("{} tensor{} stored otherwise in {}, the first is {}", dtypes,
                    dtypes == 1 ? " is" : "s are", b.name, dtype));
}

}  // namespace locant
