// The estimated hit rates against replays of real traces through the real cache, with pools of half, one, two and four
// times a size. Each replay prints its result.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cache_user.h"
#include "tests/support/shared_data.h"
#include "worker/cache/observe/reuse_distance.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;

constexpr std::uint32_t kTraceBlockTokens = 512;
constexpr std::uint32_t kBlockTokens = kMinBlockTokens;  // of the replaying cache: a few tokens identify a block
constexpr std::uint32_t kPool = 2'000'000 / kTraceBlockTokens;

// The number that follows `name` in a line of JSON.
std::size_t NumberAfter(const std::string& line, std::string_view name) {
  const std::size_t at = line.find(name);
  std::size_t number = 0;
  std::from_chars(line.data() + at + name.size(), line.data() + line.size(), number);
  return number;
}

// The prompts of a Mooncake trace, each as the numbers of its full blocks.
std::vector<std::vector<TokenId>> LoadPrompts(const std::filesystem::path& path) {
  std::vector<std::vector<TokenId>> prompts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t block_count = NumberAfter(line, "\"input_length\": ") / kTraceBlockTokens;
    const char* next = line.data() + line.find("\"hash_ids\": [") + std::string_view("\"hash_ids\": [").size();
    std::vector<TokenId>& blocks = prompts.emplace_back(block_count);
    for (TokenId& block : blocks) next = std::from_chars(next, line.data() + line.size(), block).ptr + 2;
  }
  return prompts;
}

// Each block of the trace becomes `parts` blocks of the cache, so that a pool has as many blocks as with shorter
// blocks.
std::vector<CacheUser> MakeUsers(const std::vector<std::vector<TokenId>>& prompts, std::uint32_t parts) {
  std::vector<CacheUser> users;
  for (const std::vector<TokenId>& prompt : prompts) {
    std::vector<TokenId> tokens;
    for (const TokenId block : prompt) {
      for (std::uint32_t part = 0; part < parts; ++part) tokens.insert(tokens.end(), {block, part, 0, 0});
    }
    users.emplace_back(BlockHash{1, 1}, std::move(tokens), kBlockTokens);
  }
  return users;
}

// The hit rate of prompt blocks in a real cache. `in_flight` requests hold their blocks at a time.
double Replay(std::vector<CacheUser>& users, std::uint32_t pool_blocks, std::size_t in_flight) {
  BlockPool pool(pool_blocks);
  PrefixCache cache(pool, {.block_tokens = kBlockTokens}, std::make_unique<LruEviction>(pool_blocks));
  std::uint64_t hits = 0;
  std::uint64_t accesses = 0;
  for (std::size_t i = 0; i < users.size() + in_flight; ++i) {
    if (i >= in_flight) users[i - in_flight].Release(cache);
    if (i >= users.size()) continue;
    hits += users[i].Use(cache);
    accesses += users[i].hashes.size();
    (void)cache.TakeEvents();
  }
  return static_cast<double>(hits) / static_cast<double>(accesses);
}

struct Setting {
  std::uint32_t parts = 1;    // blocks of the cache per block of the trace
  std::size_t in_flight = 1;  // requests
  std::uint32_t max_samples = 16384;
};

// The greatest difference between an estimate and the replay, over pool sizes and three samples.
double GreatestError(const std::filesystem::path& path, const Setting& setting) {
  std::vector<CacheUser> users = MakeUsers(LoadPrompts(path), setting.parts);
  const std::uint32_t pool = kPool * setting.parts;
  std::vector<ReuseDistance> samples;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    // The replays do not forget, so the estimate must not either.
    ReuseDistance& sample = samples.emplace_back(ReuseDistanceOptions{
        .largest_pool = 4 * pool, .max_samples = setting.max_samples, .half_life = 1'000'000, .seed = seed});
    for (const CacheUser& user : users) sample.Access(user.hashes);
  }
  double greatest = 0;
  for (const std::uint32_t pool_blocks : {pool / 2, pool, 2 * pool, 4 * pool}) {
    const double replayed = Replay(users, pool_blocks, setting.in_flight);
    fmt::print("{} pool {:6}: replayed {:.4f}, estimated", path.stem().string(), pool_blocks, replayed);
    for (const ReuseDistance& sample : samples) {
      const double estimated = *sample.HitRateAt(pool_blocks);
      fmt::print(" {:.4f}", estimated);
      greatest = std::max(greatest, std::abs(estimated - replayed));
    }
    fmt::print("\n");
  }
  return greatest;
}

class ReuseDistanceTraceTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path_ = testing_support::SharedDir() / "traces" / GetParam();
};

TEST_P(ReuseDistanceTraceTest, IsExactForPoolsWithinTheSamples) {
  ROOST_SKIP_WITHOUT(path_);
  EXPECT_LT(GreatestError(path_, {}), 1e-9);
}

TEST_P(ReuseDistanceTraceTest, IsExactWhileRequestsHoldTheirBlocks) {
  ROOST_SKIP_WITHOUT(path_);
  EXPECT_LT(GreatestError(path_, {.in_flight = 16}), 1e-9);
}

TEST_P(ReuseDistanceTraceTest, IsWithinThreePointsWithOneBlockInFourSampled) {
  ROOST_SKIP_WITHOUT(path_);
  EXPECT_LT(GreatestError(path_, {.max_samples = 4096}), 0.03);
}

// Blocks of 16 tokens.
TEST_P(ReuseDistanceTraceTest, IsWithinThreePointsWithOneBlockInThirtySampled) {
  ROOST_SKIP_WITHOUT(path_);
  EXPECT_LT(GreatestError(path_, {.parts = 32}), 0.03);
}

INSTANTIATE_TEST_SUITE_P(Mooncake, ReuseDistanceTraceTest,
                         testing::Values("mooncake_conv_first20min.jsonl", "mooncake_synth_family_q0.jsonl"));

}  // namespace
}  // namespace roost::worker
