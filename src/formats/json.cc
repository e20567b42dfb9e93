// SPDX-License-Identifier: Apache-2.0
#include "formats/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/quote.h"
#include "locant/core.h"
#include "locant/formats.h"

namespace locant {
namespace {

/// The input as the lexer reads it; counts bytes, for the place of errors that are not of syntax.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (furthest_ != nullptr) *furthest_ = at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while parsing value -
/// invalid literal; last read: 'tru'": what stands after the place.
std::string syntax_cause(std::string_view what) {
  const std::size_t dash = what.find(" - ");
  const std::size_t colon = what.find(": ");
  const std::size_t bracket = what.find("] ");
  if (dash != std::string_view::npos) {
    what.remove_prefix(dash + 3);
  } else if (colon != std::string_view::npos) {
    what.remove_prefix(colon + 2);
  } else if (bracket != std::string_view::npos) {
    what.remove_prefix(bracket + 2);
  }
  constexpr std::size_t kLongest = 160;
  std::string text(what.substr(0, kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

/// Builds the document; open containers are named by their parents, so that moves cannot leave them dangling.
class Builder {
 public:
  Builder(const std::string& path, std::int64_t first_byte, const char* begin, const char* const* furthest)
      : path_(path), first_byte_(first_byte), begin_(begin), furthest_(furthest) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(Json::number_integer_t value) { return add(Json(value)); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(Json(value)); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(Json::binary_t& value) { return add(Json(std::move(value))); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (open_.back()->contains(name)) fail(fmt::format("key {} stands twice in one object", quote(name)));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) {
    const auto byte = static_cast<std::int64_t>(position == 0 ? 0 : position - 1);
    throw FileError(path_, "is no valid JSON, " + syntax_cause(error.what()), first_byte_ + byte);
  }

  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  [[noreturn]] void fail(const std::string& cause) const {
    throw FileError(path_, cause, first_byte_ + std::max<std::int64_t>(*furthest_ - begin_ - 1, 0));
  }

  Json* place(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& container) {
    if (open_.size() == kDeepestJson) fail(fmt::format("is nested deeper than {} levels", kDeepestJson));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& path_;
  std::int64_t first_byte_;
  const char* begin_;
  const char* const* furthest_;
  Json root_;
  std::vector<Json*> open_;  // stable: only the innermost container grows, and it holds no open one
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& path, std::int64_t first_byte) {
  const char* furthest = text.data();
  Builder builder(path, first_byte, text.data(), &furthest);
  const char* const end = text.data() + text.size();
  Json::sax_parse(CountingIterator(text.data(), &furthest), CountingIterator(end, nullptr), &builder);
  return builder.take();
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path), path);
}

const Json* find_member(const Json& object, std::string_view key) noexcept {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string json_text(const Json& value) {
  constexpr std::size_t kLongest = 80;
  // a long container is not printed in full only to be cut
  if (value.is_structured() && value.size() > kLongest) {
    return fmt::format("{} of {} members", value.is_array() ? "a list" : "an object", value.size());
  }
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace locant
