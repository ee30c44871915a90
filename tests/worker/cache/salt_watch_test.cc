#include "worker/cache/observe/salt_watch.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr std::uint64_t kSeed = 5;
constexpr BlockHash kRoot{1, 1};
constexpr BlockHash kOther{2, 2};

std::vector<TokenId> Block(std::uint64_t number) {
  Rng rng(number);
  std::vector<TokenId> tokens(16);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(50'000));
  return tokens;
}

// The blocks among 0 … count-1 that are in the sample.
std::vector<std::vector<TokenId>> SampledBlocks(std::uint64_t count) {
  SaltWatch watch(kSeed);
  std::vector<std::vector<TokenId>> sampled;
  for (std::uint64_t number = 0; number < count; ++number) {
    std::vector<TokenId> block = Block(number);
    if (watch.Observe(kRoot, block) != SaltFinding::kNotSampled) sampled.push_back(std::move(block));
  }
  return sampled;
}

TEST(SaltWatchTest, LooksAtOneContentInSixteen) {
  EXPECT_NEAR(static_cast<double>(SampledBlocks(32'000).size()), 2000, 200);
}

TEST(SaltWatchTest, TellsAnotherRootFromTheSame) {
  SaltWatch watch(kSeed);
  const std::vector<TokenId> block = SampledBlocks(200).front();
  EXPECT_EQ(watch.Observe(kRoot, block), SaltFinding::kNew);
  EXPECT_EQ(watch.Observe(kRoot, block), SaltFinding::kSameRoot);
  EXPECT_EQ(watch.Observe(kOther, block), SaltFinding::kOtherRoot);
  EXPECT_EQ(watch.Observe(kOther, block), SaltFinding::kSameRoot);
}

TEST(SaltWatchTest, ABlockThatIsNotSampledNeverIs) {
  SaltWatch watch(kSeed);
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::vector<TokenId> block = Block(number);
    const bool sampled = watch.Observe(kRoot, block) != SaltFinding::kNotSampled;
    EXPECT_EQ(watch.Observe(kOther, block) != SaltFinding::kNotSampled, sampled);
  }
}

TEST(SaltWatchTest, RemembersThousandsOfContentsAndThoseUsedLastLongest) {
  SaltWatch watch(kSeed);
  const std::vector<std::vector<TokenId>> blocks = SampledBlocks(160'000);
  ASSERT_GT(blocks.size(), 9000U);
  std::uint64_t remembered = 0;
  for (const std::vector<TokenId>& block : blocks) {
    (void)watch.Observe(kRoot, block);
    (void)watch.Observe(kRoot, blocks[0]);
  }
  EXPECT_EQ(watch.Observe(kOther, blocks[0]), SaltFinding::kOtherRoot);
  for (auto block = blocks.rbegin(); block != blocks.rbegin() + 2000; ++block) {
    remembered += watch.Observe(kRoot, *block) == SaltFinding::kSameRoot ? 1 : 0;
  }
  EXPECT_GT(remembered, 1800U);
}

TEST(SaltWatchTest, TakesItsShareOfColdTokensAsTheyCome) {
  SaltWatch watch(kSeed);
  EXPECT_EQ(watch.TakeShare(100), 0U);
  watch.CountFound(16);
  EXPECT_EQ(watch.TakeShare(100), 100U);
  EXPECT_EQ(watch.TakeShare(1000), 156U);
  EXPECT_EQ(watch.TakeShare(1000), 0U);
}

}  // namespace
}  // namespace roost::worker
