// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/quote.h"
#include "locant/core.h"

namespace locant {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
}

std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  std::array<bool, 256> starts{};
  for (const AddedToken& token : tokens_) starts[static_cast<unsigned char>(token.content.front())] = true;
  std::vector<TextPart> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* found = nullptr;
    if (starts[static_cast<unsigned char>(text[at])]) {
      for (const AddedToken& token : tokens_) {
        if (text.substr(at).starts_with(token.content)) {
          found = &token;
          break;
        }
      }
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    if (!found->unsupported.empty()) {
      throw SpecError(
          fmt::format("text: the added token {} at byte {} {}, which Locant does not follow; use --ids",
                      quote(found->content), at, found->unsupported));
    }
    if (at > begin) parts.push_back({text.substr(begin, at - begin), nullptr});
    parts.push_back({text.substr(at, found->content.size()), found});
    at += found->content.size();
    begin = at;
  }
  if (text.size() > begin) parts.push_back({text.substr(begin), nullptr});
  return parts;
}

const AddedToken* AddedTokens::find(std::int64_t id) const noexcept {
  const auto it =
      std::find_if(tokens_.begin(), tokens_.end(), [id](const AddedToken& t) { return t.id == id; });
  return it == tokens_.end() ? nullptr : &*it;
}

}  // namespace locant
