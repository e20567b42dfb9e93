// SPDX-License-Identifier: Apache-2.0
// A page of markup, well-formed by construction: elements close themselves, text and values are escaped. What
// it writes is HTML that an XML parser reads, too.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locant::html {

struct Attribute {
  std::string_view name;
  std::string value;
};
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  void open(std::string_view tag, Attributes attributes = {});
  /// The innermost element that is open.
  void close();
  /// Bytes that are no UTF-8 become U+FFFD, control characters '?'.
  void text(std::string_view text);
  /// <tag ...>text</tag>
  void element(std::string_view tag, Attributes attributes, std::string_view text);
  /// <tag .../>: elements of HTML that hold nothing, and shapes.
  void empty(std::string_view tag, Attributes attributes);
  /// As it stands: for this program's own style sheet.
  void raw(std::string_view text) { text_ += text; }
  /// A new id: stem and a number.
  [[nodiscard]] std::string id(std::string_view stem);

  [[nodiscard]] std::size_t size() const noexcept { return text_.size(); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void start(std::string_view tag, Attributes attributes);

  std::string text_;
  std::vector<std::string> open_;
  int ids_ = 0;
};

/// An element that is open while this lives.
class Inside {
 public:
  Inside(Markup& page, std::string_view tag, Attributes attributes = {}) : page_(page) {
    page_.open(tag, attributes);
  }
  ~Inside() { page_.close(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Markup& page_;
};

}  // namespace locant::html
