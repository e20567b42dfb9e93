// SPDX-License-Identifier: Apache-2.0
#include "report/html/markup.h"

#include <algorithm>
#include <array>

#include "report/entity.h"
#include "report/json_form.h"

namespace locant::html {
namespace {

constexpr std::array<std::string_view, 14> kBlocks = {"p",      "ul",      "ol",  "li", "tr",
                                                      "table",  "section", "h2",  "h3", "details",
                                                      "figure", "article", "div", "svg"};

std::string escaped(std::string_view text) {
  const bool ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  std::string out;
  for (const char c : ascii ? std::string(text) : as_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::string_view entity = entity_of(c); !entity.empty()) {
      out += entity;
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F ? '?' : c;
    }
  }
  return out;
}

}  // namespace

void Markup::start(std::string_view tag, Attributes attributes) {
  text_ += '<';
  text_ += tag;
  for (const Attribute& attribute : attributes) {
    text_ += ' ';
    text_ += attribute.name;
    text_ += "=\"" + escaped(attribute.value) + '"';
  }
}

void Markup::open(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  text_ += '>';
  open_.emplace_back(tag);
}

void Markup::close() {
  const std::string tag = std::move(open_.back());
  open_.pop_back();
  text_ += "</" + tag + '>';
  if (std::find(kBlocks.begin(), kBlocks.end(), tag) != kBlocks.end()) text_ += '\n';
}

void Markup::text(std::string_view text) {
  text_ += escaped(text);
}

void Markup::element(std::string_view tag, Attributes attributes, std::string_view text) {
  open(tag, attributes);
  this->text(text);
  close();
}

void Markup::empty(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  text_ += "/>";
}

std::string Markup::id(std::string_view stem) {
  return std::string(stem) + "-" + std::to_string(++ids_);
}

}  // namespace locant::html
