// SPDX-License-Identifier: Apache-2.0
// The bundled text is that of docs/passage.txt; seeded ids lie in the vocabulary.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/compare_effect.h"

namespace locant::cli {
namespace {

TEST(ComparePassage, IsThePageOfTheDocuments) {
  std::ifstream file(std::string(LOCANT_SOURCE_DIR) + "/docs/passage.txt");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(std::string(bundled_passage()) + "\n", page.str());
}

TEST(SeededIds, AreInTheVocabularyAndTheSame) {
  const std::vector<std::int64_t> ids = seeded_ids(7, 100);
  ASSERT_EQ(ids.size(), 100U);
  for (const std::int64_t id : ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
  }
  EXPECT_EQ(ids, seeded_ids(7, 100));
  EXPECT_TRUE(seeded_ids(7, 0).empty());
}

}  // namespace
}  // namespace locant::cli
