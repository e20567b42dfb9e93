// SPDX-License-Identifier: Apache-2.0
// The typed getters of a metadata value.
#include <fmt/core.h>

#include <limits>
#include <type_traits>

#include "core/quote.h"
#include "locant/formats.h"

namespace locant {
namespace {

template <class T>
constexpr bool kIsWhole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

std::string type_text(const GgufValue& value) {
  const auto* const array = std::get_if<GgufArray>(&value.value);
  if (array == nullptr) return std::string(name_of(value.type()));
  return fmt::format("an array of {}", name_of(array->element_type()));
}

[[noreturn]] void refuse(const GgufValue& value, std::string_view wanted, const std::string& got) {
  throw FileError(value.path, fmt::format("key {} is {}, got {}", quote(value.key), wanted, got),
                  value.file_offset);
}

[[noreturn]] void refuse(const GgufValue& value, std::string_view wanted) {
  refuse(value, wanted, type_text(value));
}

template <class T>
std::int64_t whole(const GgufValue& value, T number) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse(value, "a whole number below 2^63", std::to_string(number));
    }
  }
  return static_cast<std::int64_t>(number);
}

/// The value as `T` when it has that very type.
template <class T>
const T& exactly(const GgufValue& value, std::string_view wanted) {
  const T* const found = std::get_if<T>(&value.value);
  if (found == nullptr) refuse(value, wanted);
  return *found;
}

}  // namespace

std::int64_t GgufArray::size() const noexcept {
  return std::visit([](const auto& list) { return static_cast<std::int64_t>(list.size()); }, values);
}

std::int64_t GgufValue::as_int64() const {
  return std::visit(
      [this](const auto& number) -> std::int64_t {
        using T = std::remove_cvref_t<decltype(number)>;
        if constexpr (kIsWhole<T>) {
          return whole(*this, number);
        } else {
          refuse(*this, "a whole number");
        }
      },
      value);
}

double GgufValue::as_double() const {
  if (const auto* const single = std::get_if<float>(&value)) return static_cast<double>(*single);
  return exactly<double>(*this, "a floating-point number");
}

bool GgufValue::as_bool() const {
  return exactly<bool>(*this, "a bool");
}

const std::string& GgufValue::as_string() const {
  return exactly<std::string>(*this, "a string");
}

const GgufArray& GgufValue::as_array() const {
  return exactly<GgufArray>(*this, "an array");
}

std::vector<std::int64_t> GgufValue::as_int64s() const {
  constexpr std::string_view kWanted = "an array of whole numbers";
  return std::visit(
      [this, kWanted](const auto& list) {
        std::vector<std::int64_t> numbers;
        using T = typename std::remove_cvref_t<decltype(list)>::value_type;
        if constexpr (kIsWhole<T>) {
          numbers.reserve(list.size());
          for (const T number : list) numbers.push_back(whole(*this, number));
        } else {
          refuse(*this, kWanted);
        }
        return numbers;
      },
      exactly<GgufArray>(*this, kWanted).values);
}

std::vector<double> GgufValue::as_doubles() const {
  constexpr std::string_view kWanted = "an array of floating-point numbers";
  const GgufArray& array = exactly<GgufArray>(*this, kWanted);
  if (const auto* const singles = std::get_if<std::vector<float>>(&array.values)) {
    return {singles->begin(), singles->end()};
  }
  const auto* const doubles = std::get_if<std::vector<double>>(&array.values);
  if (doubles == nullptr) refuse(*this, kWanted);
  return *doubles;
}

const std::vector<std::string>& GgufValue::as_strings() const {
  constexpr std::string_view kWanted = "an array of strings";
  const auto* const strings =
      std::get_if<std::vector<std::string>>(&exactly<GgufArray>(*this, kWanted).values);
  if (strings == nullptr) refuse(*this, kWanted);
  return *strings;
}

}  // namespace locant
