// SPDX-License-Identifier: Apache-2.0
#include "spec/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/quote.h"
#include "spec/config.h"

namespace locant {
namespace {

constexpr std::string_view kArchitecture = "general.architecture";

/// A value as a sentence shows it.
struct ValueText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const GgufArray& value) const {
    return fmt::format("an array of {} {}", value.size(), name_of(value.element_type()));
  }
  template <class T>
  std::string operator()(const T& value) const {
    return fmt::format("{}", value);
  }
};

}  // namespace

GgufKeys::GgufKeys(const GgufContents& contents) : contents_(contents) {
  require(kArchitecture);
  architecture_ = find(kArchitecture)->as_string();
  if (architecture_.empty()) fail(kArchitecture, "a name");
}

std::string GgufKeys::full(std::string_view key) const {
  if (key.starts_with("general.") || key.starts_with("tokenizer.")) return std::string(key);
  return fmt::format("{}.{}", architecture_, key);
}

bool GgufKeys::has(std::string_view key) const {
  return contents_.metadata.contains(full(key));
}

const GgufValue* GgufKeys::find(std::string_view key) {
  const auto found = contents_.metadata.find(full(key));
  if (found == contents_.metadata.end()) return nullptr;
  read_.insert(found->first);
  return &found->second;
}

void GgufKeys::require(std::string_view key) const {
  if (has(key)) return;
  throw FileError(contents_.path, fmt::format("key {} must be stated, it is missing", quote(full(key))));
}

void GgufKeys::fail(std::string_view key, std::string_view rule) const {
  const auto found = contents_.metadata.find(full(key));
  if (found == contents_.metadata.end()) {
    throw FileError(contents_.path, fmt::format("key {} is {}, it is missing", quote(full(key)), rule));
  }
  const GgufValue& value = found->second;
  throw FileError(
      value.path,
      fmt::format("key {} is {}, got {}", quote(value.key), rule, std::visit(ValueText{}, value.value)),
      value.file_offset);
}

std::optional<std::int64_t> GgufKeys::integer(std::string_view key, std::int64_t least) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::int64_t number = value->as_int64();
  if (number < least || number > kLargestSize)
    fail(key, fmt::format("a whole number from {} to {}", least, kLargestSize));
  return number;
}

std::int64_t GgufKeys::required_integer(std::string_view key, std::int64_t least) {
  require(key);
  return *integer(key, least);
}

std::optional<double> GgufKeys::number(std::string_view key) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->as_double();
  if (!std::isfinite(number)) fail(key, "a finite number");
  return number;
}

double GgufKeys::required_number(std::string_view key) {
  require(key);
  return *number(key);
}

std::optional<bool> GgufKeys::flag(std::string_view key) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return value->as_bool();
}

std::optional<std::string> GgufKeys::word(std::string_view key) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return value->as_string();
}

std::vector<std::int64_t> GgufKeys::integers(std::string_view key, std::int64_t count) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  std::vector<std::int64_t> numbers = value->as_int64s();
  if (static_cast<std::int64_t>(numbers.size()) < count)
    fail(key, fmt::format("an array of at least {} numbers", count));
  for (const std::int64_t number : numbers) {
    if (number >= 0 && number <= kLargestSize) continue;
    throw FileError(value->path,
                    fmt::format("key {} is an array of whole numbers from 0 to {}, got {} in it",
                                quote(value->key), kLargestSize, number),
                    value->file_offset);
  }
  return numbers;
}

std::vector<std::int64_t> GgufKeys::per_layer(std::string_view key, std::int64_t layers) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  if (value->type() == GgufType::array) {
    std::vector<std::int64_t> numbers = integers(key, layers);
    numbers.resize(static_cast<std::size_t>(layers));
    return numbers;
  }
  return std::vector<std::int64_t>(static_cast<std::size_t>(layers), *integer(key, 0));
}

std::vector<bool> GgufKeys::switches(std::string_view key, std::int64_t layers) {
  const GgufValue* const value = find(key);
  if (value == nullptr || value->type() != GgufType::array) return {};
  std::vector<bool> yes;
  if (const auto* const bools = std::get_if<std::vector<bool>>(&value->as_array().values)) {
    yes = *bools;
  } else {
    for (const std::int64_t number : value->as_int64s()) yes.push_back(number != 0);
  }
  if (static_cast<std::int64_t>(yes.size()) < layers)
    fail(key, fmt::format("an array with a value for each of the {} layers", layers));
  yes.resize(static_cast<std::size_t>(layers));
  return yes;
}

std::optional<std::int64_t> GgufKeys::length(std::string_view key) {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return value->as_array().size();
}

const GgufTensor* GgufKeys::tensor(std::string_view name) const noexcept {
  const auto found = std::lower_bound(
      contents_.tensors.begin(), contents_.tensors.end(), name,
      [](const GgufTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != contents_.tensors.end() && found->name == name ? &*found : nullptr;
}

std::vector<double> GgufKeys::row_of(const GgufTensor& tensor, std::int64_t count) const {
  const auto refuse = [&](std::string_view rule, const std::string& got) {
    throw FileError(tensor.path, fmt::format("tensor {} is {}, got {}", quote(tensor.name), rule, got),
                    tensor.file_offset);
  };
  if (dtype_of(tensor.type) == std::nullopt || !can_dequantize(tensor.type))
    refuse("of F32, F16 or BF16", std::string(name_of(tensor.type)));
  if (tensor.shape.size() != 1 || tensor.shape.front() < count) {
    refuse(fmt::format("one row of at least {} numbers", count),
           fmt::format("shape [{}]", fmt::join(tensor.shape, ",")));
  }
  std::vector<float> stored(static_cast<std::size_t>(count));
  dequantize(tensor.type, tensor.bytes.data(), count, stored.data());
  for (const float value : stored) {
    if (!std::isfinite(value) || value <= 0) refuse("all finite numbers above 0", fmt::format("{}", value));
  }
  return {stored.begin(), stored.end()};
}

void GgufKeys::ignore(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) read_.insert(full(key));
}

std::vector<std::string> GgufKeys::unread(std::string_view prefix) const {
  std::vector<std::string> names;
  const std::string start = full(prefix);
  for (auto at = contents_.metadata.lower_bound(start);
       at != contents_.metadata.end() && at->first.starts_with(start); ++at) {
    if (!read_.contains(at->first)) names.push_back(at->first);
  }
  return names;
}

}  // namespace locant
