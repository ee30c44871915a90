// Real tokenizers on texts that could make them slow: four times the text must take about four times as long.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/support/hostile_texts.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

// CPU time of this thread, so that other load on the machine matters little.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The least time of several tries.
double SecondsToEncode(const Tokenizer& tokenizer, const std::string& text) {
  constexpr int kTries = 3;
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) {
    const double start = CpuSeconds();
    EXPECT_TRUE(tokenizer.Encode(text, SpecialTokens::kOmit).ok());
    least = std::min(least, CpuSeconds() - start);
  }
  return least;
}

TEST(TokenizerHostileTest, TimeGrowsWithTheTextAndNotWithItsSquare) {
  const std::filesystem::path folder = testing_support::SharedDir() / "tokenizers";
  ROOST_SKIP_WITHOUT(folder);
  constexpr std::size_t kBytes = testing_support::kSanitized ? std::size_t{16} << 10U : std::size_t{64} << 10U;
  constexpr std::size_t kTimes = 4;
  constexpr double kMaxGrowth = 10;  // quadratic time would be 16; a long text leaves the fast caches
  const auto small = testing_support::HostileTexts(kBytes);
  const auto large = testing_support::HostileTexts(kBytes * kTimes);
  for (const char* name : {"cl100k", "gpt-2", "llama-spm"}) {
    const auto tokenizer = Tokenizer::FromFile(folder / (std::string(name) + ".tokenizer.json")).value();
    for (std::size_t i = 0; i < small.size(); ++i) {
      const double growth = SecondsToEncode(*tokenizer, large[i].text) / SecondsToEncode(*tokenizer, small[i].text);
      EXPECT_LT(growth, kMaxGrowth) << name << ", " << small[i].name;
    }
  }
}

}  // namespace
}  // namespace roost
