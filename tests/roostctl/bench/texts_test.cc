#include "deploy/roostctl/bench/sessions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/source_dir.h"

namespace roost::roostctl {
namespace {

std::size_t WordCount(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

TEST(MakeDocumentsTest, GivesEachABeginningOfItsOwnAndTwoTexts) {
  const std::vector<std::string> documents = MakeDocuments({"red", "green", "blue"}, 7);
  ASSERT_EQ(documents.size(), 7U);
  EXPECT_EQ(documents[0], "Document 1.\n\nred\n\ngreen");
  EXPECT_EQ(documents[3], "Document 4.\n\nred\n\nblue");
  EXPECT_EQ(documents[6], "Document 7.\n\nred\n\ngreen");
  EXPECT_EQ(MakeDocuments({"red"}, 1).front(), "Document 1.\n\nred\n\nred");
  std::set<std::string> titles;
  for (const std::string& document : documents) titles.insert(document.substr(0, document.find('\n')));
  EXPECT_EQ(titles.size(), documents.size());
}

TEST(LoadBenchPromptsTest, ReadsTheRepositorysOwnAndNamesWhatIsMissing) {
  const auto prompts = LoadBenchPrompts(std::filesystem::path(testing_support::SourceDir()) / "deploy/demo-prompts");
  ASSERT_TRUE(prompts.ok());
  EXPECT_EQ(prompts->systems.size(), 4U);
  EXPECT_GT(prompts->questions.size(), 10U);
  const auto missing = LoadBenchPrompts("/nonexistent");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().field, "/nonexistent");
}

TEST(GeneratedTextTest, HasAboutTheWantedTokensAndDependsOnItsSeedAlone) {
  const std::string text = Render(Generated(7, 400), 1.25);
  EXPECT_NEAR(static_cast<double>(WordCount(text)), 400 / 1.25, 6);
  EXPECT_EQ(text, Render(Generated(7, 400), 1.25));
  EXPECT_NE(text.substr(0, 8), Render(Generated(8, 400), 1.25).substr(0, 8));
  EXPECT_FALSE(Render(Generated(7, 1), 1.25).empty());
}

TEST(GeneratedTextTest, EqualPiecesInFrontAreAnEqualBeginning) {
  BenchText shorter = Generated(1, 64);
  shorter.pieces.push_back({2, 64});
  BenchText longer = shorter;
  longer.pieces.push_back({3, 64});
  const std::string prefix = Render(shorter, 1.3);
  EXPECT_EQ(Render(longer, 1.3).substr(0, prefix.size()), prefix);
  EXPECT_EQ(Render(Given("as it is"), 1.3), "as it is");
}

}  // namespace
}  // namespace roost::roostctl
