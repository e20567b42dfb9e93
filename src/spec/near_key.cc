// SPDX-License-Identifier: Apache-2.0
#include "spec/near_key.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/nearest.h"

namespace locant {
namespace {

constexpr std::size_t kShortest = 5;
constexpr std::size_t kShortestWord = 4;  // below, one edit makes another word
constexpr std::size_t kLongWord = 8;
constexpr std::size_t kLongest = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string letters_of(std::string_view key) {
  std::string letters;
  for (const char c : key) {
    if (c == '_' || c == '-' || is_digit(c)) continue;
    letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return letters;
}

std::string digits_of(std::string_view key) {
  std::string digits;
  std::copy_if(key.begin(), key.end(), std::back_inserter(digits), is_digit);
  return digits;
}

std::vector<std::string_view> words_of(std::string_view key) {
  std::vector<std::string_view> words;
  for (std::size_t from = 0; from <= key.size();) {
    const std::size_t to = std::min(key.find('_', from), key.size());
    words.push_back(key.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

bool is_near_word(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const std::size_t size = std::min(a.size(), b.size());
  return size >= kShortestWord && edit_distance(a, b) <= (size < kLongWord ? 1 : 2);
}

bool is_near(std::string_view key, std::string_view name) {
  if (digits_of(key) != digits_of(name)) return false;
  if (letters_of(key) == letters_of(name)) return true;
  const std::vector<std::string_view> ours = words_of(key);
  const std::vector<std::string_view> theirs = words_of(name);
  if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), is_near_word)) return false;
  return edit_distance(key, name) <= 2;
}

}  // namespace

std::string near_key(std::string_view key, std::span<const std::string> names) {
  if (key.size() < kShortest || key.size() > kLongest) return {};
  const auto near = std::find_if(names.begin(), names.end(),
                                 [&](const std::string& name) { return name != key && is_near(key, name); });
  return near == names.end() ? std::string() : *near;
}

}  // namespace locant
