// The tenant with most of the prompt tokens: who it is, and what it leaves to others of a step.
#include "worker/sched/prompt_majority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

class PromptMajorityTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCeiling = 1000;

  TenantBlocks tenants_{8};
  const TenantId acme_ = tenants_.Join("acme");
  const TenantId other_ = tenants_.Join("other");
  PromptMajority majority_{tenants_, kCeiling};
};

TEST_F(PromptMajorityTest, YieldsOnlyWhileOthersAreHere) {
  majority_.OnCame(acme_);
  majority_.OnComputed(acme_, 800);
  EXPECT_EQ(majority_.Yielding(), std::nullopt);
  majority_.OnCame(other_);
  EXPECT_EQ(majority_.Yielding(), acme_);
  majority_.OnWent(acme_);
  EXPECT_EQ(majority_.Yielding(), acme_);  // also its next prompt
  majority_.OnWent(other_);
  EXPECT_EQ(majority_.Yielding(), std::nullopt);
}

TEST_F(PromptMajorityTest, FewTokensAreNoMajority) {
  majority_.OnCame(other_);
  majority_.OnComputed(acme_, 499);
  EXPECT_EQ(majority_.Yielding(), std::nullopt);
  majority_.OnComputed(acme_, 1);
  EXPECT_EQ(majority_.Yielding(), acme_);
}

TEST_F(PromptMajorityTest, ThreeQuartersMakeTheMajority) {
  majority_.OnCame(acme_);
  majority_.OnCame(other_);
  for (int i = 0; i < 100; ++i) {
    majority_.OnComputed(acme_, 70);
    majority_.OnComputed(other_, 30);
    EXPECT_EQ(majority_.Yielding(), std::nullopt) << "at 70 of 100, after " << i;
  }
  for (int i = 0; i < 100; ++i) {
    majority_.OnComputed(acme_, 80);
    majority_.OnComputed(other_, 20);
  }
  EXPECT_EQ(majority_.Yielding(), acme_);
}

TEST_F(PromptMajorityTest, ItEndsWithASixthOfTheCeilingOfOthers) {
  majority_.OnCame(other_);
  majority_.OnComputed(acme_, 100 * kCeiling);
  majority_.OnComputed(other_, 166);
  EXPECT_EQ(majority_.Yielding(), acme_);
  majority_.OnComputed(other_, 1);
  EXPECT_EQ(majority_.Yielding(), std::nullopt);
}

TEST_F(PromptMajorityTest, ItsNumberStaysItsOwn) {
  majority_.OnComputed(acme_, kCeiling);
  tenants_.Leave(acme_);
  EXPECT_NE(tenants_.Join("new"), acme_);
  majority_.OnComputed(other_, kCeiling);  // now the other is the candidate
  EXPECT_EQ(tenants_.Find("acme"), std::nullopt);
}

class YieldingTest : public SchedulerTest {
 protected:
  // 512 tokens of a step: 16 at least are for a tenant that yields.
  void SetUp() override { Make({.block_count = 1024}); }

  SequenceId SubmitOf(std::string_view tenant, std::vector<TokenId> prompt, bool scores_prompt = false) {
    return Submit(
        SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .tenant = tenant, .scores_prompt = scores_prompt});
  }
  // The tenant computes prompts until it has the majority.
  void Flood(std::string_view tenant) {
    for (TokenId stream = 100; stream < 110; ++stream) {
      const SequenceId id = SubmitOf(tenant, Text(500, stream));
      (void)Compute();
      scheduler_->Remove(id);
    }
  }
  // A running sequence that has computed its prompt. Half a full step is all that may be owed to others.
  SequenceId StartDecoding(std::string_view tenant, TokenId stream) {
    const SequenceId id = SubmitOf(tenant, Text(512, stream));
    (void)Step();
    return id;
  }
};

TEST_F(YieldingTest, ItsPromptsHaveAPartOfAStepWhileOthersAreHere) {
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(greedy, 16)));
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(greedy, 16)));
  scheduler_->Remove(client);
  EXPECT_THAT(Step(), ElementsAre(Pair(greedy, 64)));  // the next one may come
}

TEST_F(YieldingTest, AllItsPromptsShareThatPart) {
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  const SequenceId first = SubmitOf("greedy", Text(10, 2));
  const SequenceId second = SubmitOf("greedy", Text(10, 3));
  (void)SubmitOf("greedy", Text(10, 4));
  EXPECT_THAT(Compute(), ElementsAre(Pair(client, 1), Pair(first, 10), Pair(second, 6)));
}

TEST_F(YieldingTest, AStepTakesAtMostTwiceItsTime) {
  // A step takes 50 ms and 1 ms for each token.
  for (TokenId stream = 100; stream < 160; ++stream) {
    const std::uint32_t tokens = stream % 2 == 0 ? 500 : 100;
    const SequenceId id = SubmitOf("greedy", Text(tokens, stream));
    (void)Compute(std::chrono::milliseconds(50 + tokens));
    scheduler_->Remove(id);
  }
  const SequenceId owed = SubmitOf("client", Text(512, 3));
  (void)Compute(std::chrono::milliseconds(50 + 512));
  scheduler_->Remove(owed);
  const SequenceId client = SubmitOf("client", Text(4, 1));
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  const std::map<SequenceId, std::uint32_t> computed = Compute();
  EXPECT_EQ(computed.at(client), 4U);
  EXPECT_NEAR(computed.at(greedy), 50, 5);
}

// Half a full step is owed. In each step the decode pays for the 16 tokens that take as long.
TEST_F(YieldingTest, OthersHaveTheirTimeFirst) {
  Flood("greedy");
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  const SequenceId client = SubmitOf("client", Text(200, 3));  // later
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 200)));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Step(), ElementsAre(Pair(client, 1))) << i;
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Step(), UnorderedElementsAre(Pair(greedy, 16), Pair(client, 1))) << i;
  scheduler_->Remove(client);
  EXPECT_THAT(Step(), ElementsAre(Pair(greedy, 64)));  // the next one may come
}

TEST_F(YieldingTest, NothingIsOwedOnceOthersHadTheirTime) {
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  for (int i = 0; i < 10; ++i) (void)Step();  // it pays for more than it gets
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(greedy, 16)));
}

TEST_F(YieldingTest, ItsManyPromptsDoNotHideOthers) {
  Make({.block_count = 1024, .max_running = 8});
  Flood("greedy");
  for (TokenId stream = 200; stream < 300; ++stream) (void)SubmitOf("greedy", Text(40, stream));
  const SequenceId client = SubmitOf("client", Text(50, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 50)));
}

TEST_F(YieldingTest, ItsPausedPromptsDoNotKeepOthersOut) {
  Make({.block_count = 1024, .max_partial_prefills = 1});
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  (void)Step();
  const SequenceId longer = SubmitOf("client", Text(600, 3));  // more than a step
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(greedy, 16), Pair(longer, 495)));
}

TEST_F(YieldingTest, ItsOwnPausedPromptsCount) {
  Make({.block_count = 1024, .max_partial_prefills = 1});
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  const SequenceId greedy = SubmitOf("greedy", Text(400, 2));
  const SequenceId second = SubmitOf("greedy", Text(400, 3));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(greedy, 16)));
  EXPECT_TRUE(Waits(second));
}

TEST_F(YieldingTest, ItGoesOnWhileOthersLackSpace) {
  Make({.block_count = 256});
  Flood("greedy");
  const SequenceId greedy = SubmitOf("greedy", Text(900, 2));
  (void)Compute();
  const SequenceId client = SubmitOf("client", Text(900, 3));
  for (int i = 0; i < 60 && Waits(client); ++i) {
    (void)Compute();
    if (scheduler_->Get(greedy).remaining_count() == 0) break;
  }
  EXPECT_EQ(scheduler_->Get(greedy).remaining_count(), 0U);
  scheduler_->Remove(greedy);
  (void)Compute();
  EXPECT_FALSE(Waits(client));
}

TEST_F(YieldingTest, TenantsOfEqualLoadDoNotYield) {
  for (TokenId stream = 100; stream < 120; ++stream) {
    const SequenceId id = SubmitOf(stream % 2 == 0 ? "one" : "two", Text(500, stream));
    (void)Compute();
    scheduler_->Remove(id);
  }
  const SequenceId one = SubmitOf("one", Text(250, 1));
  const SequenceId two = SubmitOf("two", Text(250, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(one, 250), Pair(two, 250)));
}

TEST_F(YieldingTest, ScoredPromptsYieldToo) {
  Flood("greedy");
  const SequenceId client = StartDecoding("client", 1);
  const SequenceId scored = SubmitOf("greedy", Text(100, 2), true);
  EXPECT_THAT(Step(), ElementsAre(Pair(client, 1), Pair(scored, 16)));
}

}  // namespace
}  // namespace roost::worker
