// The translation to PCRE2 against Oniguruma itself: the patterns of well-known tokenizers, all characters of each
// class, and random patterns, on random texts. These tests skip if Oniguruma (libonig-dev) is not installed.
#include <gtest/gtest.h>

#ifdef ROOST_HAS_ONIGURUMA

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/base/utf8.h"
#include "common/text/regex/regex.h"
#include "tests/support/onig_regex.h"
#include "tests/support/sanitized.h"
#include "tests/support/tokenizer_patterns.h"

namespace roost {
namespace {

using testing_support::OnigRegex;
using text::Regex;
using text::TextRange;

template <typename Items>
std::string_view Pick(Rng& rng, const Items& items) {
  return items[rng.Below(std::size(items))];
}

// Random patterns from the supported syntax.
class PatternMaker {
 public:
  explicit PatternMaker(Rng& rng) : rng_(rng) {}

  std::string Alternatives(int depth) {
    std::string out = Sequence(depth);
    while (rng_.Below(4) == 0) out += "|" + Sequence(depth);
    return out;
  }

 private:
  static constexpr std::array<std::string_view, 24> kAtoms = {
      "a",   "b",   "A",   "é",   "ß",   "1",      "_",      " ",       "'",      ".",      "-",        "\\n",
      "\\s", "\\S", "\\d", "\\D", "\\h", "\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{N}", "\\p{M}", "\\p{Han}", "\\."};
  static constexpr std::array<std::string_view, 16> kMembers = {
      "a", "b", "A-C", "é", "à-ü", "0-9", "_", " ", "\\-", "\\r\\n", "\\s", "\\S", "\\d", "\\p{L}", "\\p{P}", "一-龥"};
  static constexpr std::array<std::string_view, 14> kRepeats = {"*",  "+",  "?",   "*?",    "+?",   "??",   "*+",
                                                                "++", "?+", "{2}", "{1,3}", "{2,}", "{,2}", "{1,2}?"};
  static constexpr std::array<std::string_view, 9> kGroups = {
      "(?:", "(?:", "(", "(?>", "(?i:", "(?=", "(?!", "(?<=", "(?<!"};
  static constexpr std::array<std::string_view, 5> kAnchors = {"^", "$", "\\A", "\\z", "\\Z"};

  std::string Sequence(int depth) {
    std::string out;
    const std::uint64_t length = rng_.Below(4) + (depth == kDepth ? 1 : 0);
    for (std::uint64_t i = 0; i < length; ++i) out += Part(depth);
    return out;
  }

  std::string Part(int depth) {
    const std::uint64_t kind = rng_.Below(16);
    if (kind == 0) return std::string(Pick(rng_, kAnchors));
    std::string part;
    bool is_look_around = false;
    if (kind <= 3 && depth > 0) {
      const std::string_view opening = Pick(rng_, kGroups);
      is_look_around = opening == "(?=" || opening == "(?!" || opening.starts_with("(?<");
      part = std::string(opening) + (opening.starts_with("(?<") ? Sequence(0) : Alternatives(depth - 1)) + ")";
    } else if (kind <= 6) {
      part = Class();
    } else {
      part = Pick(rng_, kAtoms);
    }
    if (!is_look_around && rng_.Below(3) == 0) part += Pick(rng_, kRepeats);
    return part;
  }

  std::string Class() {
    std::string out = rng_.Below(3) == 0 ? "[^" : "[";
    for (std::uint64_t i = rng_.Below(3) + 1; i > 0; --i) out += Pick(rng_, kMembers);
    return out + "]";
  }

 public:
  static constexpr int kDepth = 2;

 private:
  Rng& rng_;
};

std::string RandomText(Rng& rng) {
  static constexpr std::array<std::string_view, 44> kUnits = {
      "a",      "a",      "b",      "b",      "ab", "A",  "B",   "C", "é", "É",  "ü",  "ß",  "s",       "ſ",  "K",
      "1",      "2",      "12",     "१",      "½",  "Ⅷ",  "_",   " ", " ", "  ", "\n", "\n", "\r\n",    "\t", "\u00a0",
      "\u0085", "\u2028", "\u180e", "\u200b", "'",  "'s", "'LL", ".", "-", "«",  "漢", "字", "e\u0301", "😀"};
  std::string text;
  for (std::uint64_t i = rng.Below(24); i > 0; --i) text += Pick(rng, kUnits);
  return text;
}

// All code points that take one to three bytes, and some that take four.
std::string RandomCodePoints(Rng& rng) {
  std::string text;
  for (std::uint64_t i = rng.Below(40); i > 0; --i) {
    const auto c = static_cast<char32_t>(rng.Below(rng.Below(2) == 0 ? 0x250 : 0x20000));
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, text);
  }
  return text;
}

// Says how the two differ on `subject`, or is empty. A match that exceeds its limits is an error for the caller and
// does not count as a difference. Neither does an empty match at the end of a text, which cuts nothing: Oniguruma
// misses some.
std::string Difference(const Regex& regex, const OnigRegex& reference, std::string_view subject,
                       text::RegexScratch& scratch) {
  std::vector<TextRange> matches;
  std::vector<TextRange> expected;
  scratch.budget().Start(subject.size());
  const Result<void> found = regex.FindAll(subject, scratch, matches);
  const Result<void> found_there = reference.FindAll(subject, expected);
  for (auto* ranges : {&matches, &expected}) {
    if (!ranges->empty() && ranges->back().begin == subject.size()) ranges->pop_back();
  }
  if (!found.ok() || !found_there.ok() || matches == expected) return {};
  const auto print = [&](const std::vector<TextRange>& ranges) {
    std::string out;
    for (const TextRange& range : ranges) out += fmt::format("[{}, {}) ", range.begin, range.end);
    return out;
  };
  return fmt::format("{} instead of {}in {}", print(matches), print(expected), testing::PrintToString(subject));
}

TEST(OnigurumaCompareTest, PatternsOfTokenizersMatchAlike) {
  constexpr int kTexts = testing_support::kSanitized ? 400 : 4'000;
  text::RegexScratch scratch;
  for (const auto& [name, pattern] : testing_support::kTokenizerPatterns) {
    const Regex regex = Regex::Compile(pattern).value();
    const OnigRegex reference = OnigRegex::Compile(pattern).value();
    Rng rng(1);
    for (int i = 0; i < kTexts; ++i) {
      const std::string text = i % 2 == 0 ? RandomText(rng) : RandomCodePoints(rng);
      ASSERT_EQ(Difference(regex, reference, text, scratch), "") << name;
    }
  }
}

TEST(OnigurumaCompareTest, ClassesHaveTheSameMembers) {
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, all);
  }
  text::RegexScratch scratch;
  for (const char* name :
       {"\\s",     "\\S",     "\\d",     "\\D",     "\\h",     "\\p{L}",  "\\p{Lu}", "\\p{Ll}", "\\p{Lt}",  "\\p{Lm}",
        "\\p{Lo}", "\\p{M}",  "\\p{Mn}", "\\p{Mc}", "\\p{Me}", "\\p{N}",  "\\p{Nd}", "\\p{Nl}", "\\p{No}",  "\\p{P}",
        "\\p{Pc}", "\\p{Pd}", "\\p{Ps}", "\\p{Pe}", "\\p{Pi}", "\\p{Pf}", "\\p{Po}", "\\p{S}",  "\\p{Sm}",  "\\p{Sc}",
        "\\p{Sk}", "\\p{So}", "\\p{Z}",  "\\p{Zs}", "\\p{Zl}", "\\p{Zp}", "\\p{Cc}", "\\p{Co}", "\\p{Han}", "."}) {
    EXPECT_EQ(Difference(Regex::Compile(name).value(), OnigRegex::Compile(name).value(), all, scratch), "") << name;
  }
}

// PCRE2 misses these with its usual optimisations, or if it reads the syntax that is now refused in another way.
TEST(OnigurumaCompareTest, PatternsThatPcre2MissesAreFound) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kCases = {
      {{R"((?>[ab]+?|d)[CD])", "abC"}, {R"((?>\D+\s|\S).)", "b12 a"}, {R"(A{1,3}\h+(?>(?:\s[^\d]*+))?+\h)", "BAAa"}}};
  text::RegexScratch scratch;
  for (const auto& [pattern, text] : kCases) {
    std::vector<TextRange> expected;
    const OnigRegex reference = OnigRegex::Compile(pattern).value();
    ASSERT_TRUE(reference.FindAll(text, expected).ok());
    EXPECT_FALSE(expected.empty()) << pattern;
    EXPECT_EQ(Difference(Regex::Compile(pattern).value(), reference, text, scratch), "") << pattern;
  }
}

TEST(OnigurumaCompareTest, RandomPatternsMatchAlikeOrAreRefused) {
  constexpr int kPatterns = testing_support::kSanitized ? 2'000 : 20'000;
  constexpr int kTextsOfEach = 20;
  Rng rng(1);
  text::RegexScratch scratch;
  int compared = 0;
  for (int i = 0; i < kPatterns; ++i) {
    const std::string pattern = PatternMaker(rng).Alternatives(PatternMaker::kDepth);
    const Result<Regex> regex = Regex::Compile(pattern);
    const Result<OnigRegex> reference = OnigRegex::Compile(pattern);
    if (!regex.ok() || !reference.ok()) continue;  // a refused pattern can not produce a wrong prompt
    ++compared;
    for (int text = 0; text < kTextsOfEach; ++text) {
      const std::string difference = Difference(*regex, *reference, RandomText(rng), scratch);
      EXPECT_TRUE(difference.empty()) << '/' << pattern << "/: " << difference;
    }
  }
  EXPECT_GT(compared, kPatterns / 2);
}

}  // namespace
}  // namespace roost

#else

TEST(OnigurumaCompareTest, NeedsTheLibrary) { GTEST_SKIP() << "needs Oniguruma: ./deploy/packages.sh test"; }

#endif
