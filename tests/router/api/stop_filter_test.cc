#include "router/api/choice_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/rng.h"

namespace roost::router {
namespace {

TEST(StopFilterTest, PassesTextAtOnceWithoutStopStrings) {
  StopFilter filter({});
  EXPECT_EQ(filter.Push("abc"), "abc");
  EXPECT_EQ(filter.Flush(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilterTest, CutsAcrossBordersAndSwallowsTheRest) {
  StopFilter filter({"STOP"});
  EXPECT_EQ(filter.Push("say ST"), "say ");
  EXPECT_EQ(filter.Push("OP it"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.Push("more"), "");
  EXPECT_EQ(filter.Flush(), "");
}

TEST(StopFilterTest, ReleasesWhatTurnsOutToBeNoStop) {
  StopFilter filter({"STOP"});
  EXPECT_EQ(filter.Push("STO"), "");
  EXPECT_EQ(filter.Push("RE"), "STORE");
  EXPECT_EQ(filter.Push("S"), "");
  EXPECT_EQ(filter.Flush(), "S");
}

TEST(StopFilterTest, FindsAStopThatBeginsInsideAFalseStart) {
  StopFilter filter({"aab"});
  EXPECT_EQ(filter.Push("aa"), "");
  EXPECT_EQ(filter.Push("a"), "a");
  EXPECT_EQ(filter.Push("b!"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilterTest, TakesTheStopThatEndsFirst) {
  StopFilter filter({"long stop", "o"});
  EXPECT_EQ(filter.Push("l"), "");
  EXPECT_EQ(filter.Push("ong stop"), "l");
  EXPECT_TRUE(filter.stopped());
}

// The right cut, from the whole text: the stop that ends first, and the longest of those.
std::size_t CutOf(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return end - longest;
  }
  return std::string::npos;
}

TEST(StopFilterTest, AgreesWithTheWholeTextWhereverItIsCut) {
  Rng rng(11);
  for (int round = 0; round < 5000; ++round) {
    const auto random_text = [&](std::uint64_t longest) {
      std::string text(1 + rng.Below(longest), 'a');
      for (char& c : text) c = static_cast<char>('a' + rng.Below(2));
      return text;
    };
    const std::vector<std::string> stops = {random_text(4), random_text(6)};
    const std::string text = random_text(30);
    StopFilter filter(stops);
    std::string out;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t size = 1 + rng.Below(rest.size());
      out += filter.Push(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    out += filter.Flush();
    const std::size_t cut = CutOf(text, stops);
    ASSERT_EQ(out, text.substr(0, cut)) << text << " until " << stops[0] << " or " << stops[1];
    ASSERT_EQ(filter.stopped(), cut != std::string::npos);
  }
}

}  // namespace
}  // namespace roost::router
