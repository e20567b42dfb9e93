// SPDX-License-Identifier: Apache-2.0
// A reader of well-formed markup, strict: every element closes, values stand in quotes, ids are new.
#pragma once

#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace locant::tests {

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::vector<Element> inside;
  std::string text;  ///< of itself, not of what is inside

  [[nodiscard]] std::string attribute(const std::string& name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? "" : found->second;
  }
  /// Itself and everything below that has the tag; "" = all.
  [[nodiscard]] std::vector<const Element*> all(const std::string& wanted) const {
    std::vector<const Element*> found;
    collect(wanted, found);
    return found;
  }
  [[nodiscard]] bool holds(const std::string& wanted) const { return !all(wanted).empty(); }

 private:
  void collect(const std::string& wanted, std::vector<const Element*>& found) const {
    if (wanted.empty() || tag == wanted) found.push_back(this);
    for (const Element& element : inside) element.collect(wanted, found);
  }
};

class MarkupReader {
 public:
  explicit MarkupReader(std::string text) : text_(std::move(text)) {}

  /// Throws std::runtime_error with the place.
  Element read() {
    const std::string doctype = "<!DOCTYPE html>";
    if (text_.compare(0, doctype.size(), doctype) != 0) fail("no doctype");
    at_ = doctype.size();
    skip_space();
    Element root = element();
    skip_space();
    if (at_ != text_.size()) fail("something follows the root");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(why + " at byte " + std::to_string(at_) + ": " + text_.substr(at_, 60));
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void expect(char c) {
    if (peek() != c) fail(std::string("expected ") + c);
    ++at_;
  }
  void skip_space() {
    while (std::isspace(static_cast<unsigned char>(peek())) != 0) ++at_;
  }
  std::string name() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-' || peek() == ':') ++at_;
    if (begin == at_) fail("a name");
    return text_.substr(begin, at_ - begin);
  }
  char entity() {
    for (const auto& [word, sign] : std::map<std::string, char>{
             {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}) {
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return sign;
    }
    fail("an unknown entity");
  }
  char character() {
    if (peek() == '&') return entity();
    const auto byte = static_cast<unsigned char>(peek());
    if (byte < 0x20 && byte != '\n' && byte != '\t') fail("a control character");
    return text_[at_++];
  }

  Element element() {
    expect('<');
    Element out;
    out.tag = name();
    while (true) {
      skip_space();
      if (peek() == '/' || peek() == '>') break;
      const std::string key = name();
      expect('=');
      expect('"');
      std::string value;
      while (peek() != '"') {
        if (peek() == '<' || peek() == '\0') fail("an attribute does not end");
        value += character();
      }
      expect('"');
      if (!out.attributes.emplace(key, value).second) fail("an attribute stands twice");
      if (key == "id" && !ids_.insert(value).second) fail("an id stands twice");
    }
    if (peek() == '/') {
      ++at_;
      expect('>');
      return out;
    }
    expect('>');
    while (true) {
      if (at_ >= text_.size()) fail("an element does not close: " + out.tag);
      if (peek() != '<') {
        out.text += character();
        continue;
      }
      if (text_.compare(at_, 2, "</") != 0) {
        out.inside.push_back(element());
        continue;
      }
      at_ += 2;
      if (name() != out.tag) fail("another element closes");
      expect('>');
      return out;
    }
  }

  std::string text_;
  std::size_t at_ = 0;
  std::set<std::string> ids_;
};

}  // namespace locant::tests
