// What the minimum hold means to requests: whose blocks stay, who waits for them and for how long.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tests/worker/sched/scheduler_fixture.h"
#include "worker/cache/eviction_factory.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

class HoldTest : public SchedulerTest {
 protected:
  static constexpr Duration kHold = milliseconds(4000);

  void AdvanceTo(Duration time) { scheduler_->AdvanceTo(Instant(time)); }

  // A request that comes, has `output_count` tokens of output, and goes, alone.
  void Serve(const std::vector<TokenId>& prompt, std::uint32_t output_count) {
    const SequenceId id = Submit(prompt);
    while (scheduler_->Get(id).token_count() < prompt.size() + output_count) Step();
    scheduler_->Remove(id);
    CheckInvariants();
  }

  // How many of the prompt's first blocks are cached.
  [[nodiscard]] std::size_t CachedBlocks(const std::vector<TokenId>& prompt) {
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, prompt, cache_->block_tokens());
    std::vector<BlockRef> matched;
    cache_->Match({kRoot, hashes, prompt}, static_cast<std::uint32_t>(hashes.size()), matched);
    return matched.size();
  }
};

class HoldOfPolicyTest : public HoldTest, public testing::WithParamInterface<std::string_view> {};

// 160 blocks, 64 of them a prefix, and 14 other prompts of 16 blocks and one for the output within three seconds.
TEST_P(HoldOfPolicyTest, AFloodOfOtherPromptsLeavesAHeldPrefixWhole) {
  Make({.block_count = 160, .cache = {.block_tokens = 16, .min_hold = kHold}, .eviction = GetParam()});
  const std::vector<TokenId> prefix = Text(1024, 1);
  AdvanceTo(milliseconds(0));
  Serve(prefix, 8);
  for (TokenId prompt = 0; prompt < 14; ++prompt) {
    AdvanceTo(milliseconds(200 * (prompt + 1)));
    Serve(Text(256, 10 + prompt), 8);
  }
  RecordProperty("held_blocks_left", static_cast<int>(CachedBlocks(prefix)));
  EXPECT_EQ(CachedBlocks(prefix), 64U);
  AdvanceTo(kHold + milliseconds(1000));
  for (TokenId prompt = 0; prompt < 14; ++prompt) Serve(Text(256, 30 + prompt), 8);
  EXPECT_LT(CachedBlocks(prefix), 64U) << "the hold is over";
}

INSTANTIATE_TEST_SUITE_P(All, HoldOfPolicyTest, testing::ValuesIn(kEvictionPolicyNames),
                         [](const auto& policy) {
                           std::string name(policy.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace roost::worker
