// SPDX-License-Identifier: Apache-2.0
// Every mechanism has its page, and the parameters on the page are those of the description.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "locant/positions.h"

namespace locant {
namespace {

std::string page(std::string_view mechanism) {
  std::ifstream file(std::string(LOCANT_SOURCE_DIR) + "/docs/mechanisms/" + std::string(mechanism) + ".md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// "a b" -> "`a` `b`"
std::string quoted(std::string_view words) {
  std::istringstream in{std::string(words)};
  std::string text;
  for (std::string word; in >> word;) text += (text.empty() ? "`" : " `") + word + "`";
  return text;
}

std::string table_of(const Mechanism& mechanism) {
  std::string text = "| name | unit | default | config keys | meaning |\n|---|---|---|---|---|\n";
  for (const ParameterDescription& one : mechanism.parameters) {
    const std::string fallback = one.default_text.empty() ? "required" : quoted(one.default_text);
    text += "| `" + std::string(one.name) + "` | " + std::string(one.unit) + " | " + fallback + " | " +
            quoted(one.config_keys) + " | " + std::string(one.meaning) + " |\n";
  }
  return text;
}

TEST(Pages, HoldTheParametersOfTheDescription) {
  const std::string marker = "<!-- parameters -->\n";
  for (const Mechanism& mechanism : mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    const std::string text = page(mechanism.name);
    const std::size_t first = text.find(marker);
    ASSERT_NE(first, std::string::npos);
    const std::size_t start = first + marker.size();
    const std::size_t end = text.find(marker, start);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(text.substr(start, end - start), table_of(mechanism));
  }
}

TEST(Pages, HoldTheFormulaAndTheAliases) {
  for (const Mechanism& mechanism : mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    const std::string text = page(mechanism.name);
    EXPECT_EQ(text.find("# " + std::string(mechanism.name) + "\n"), 0U);
    EXPECT_NE(text.find("```text\n" + std::string(mechanism.formula) + "\n```"), std::string::npos);
    for (const std::string_view alias : mechanism.aliases) {
      EXPECT_NE(text.find("`" + std::string(alias) + "`"), std::string::npos) << alias;
    }
  }
}

}  // namespace
}  // namespace locant
