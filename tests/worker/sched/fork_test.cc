// Forks: several sequences that continue from one prompt, and the blocks that they share until they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class ForkTest : public SchedulerTest {
 protected:
  SequenceId SubmitToFork(std::vector<TokenId> prompt, std::uint32_t fork_count) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .fork_count = fork_count});
  }

  // A sequence whose prompt is computed, and this many forks of it, in order of creation. None has output yet.
  std::vector<SequenceId> Forked(std::vector<TokenId> prompt, std::uint32_t fork_count) {
    std::vector<SequenceId> all{SubmitToFork(std::move(prompt), fork_count)};
    Compute();
    while (all.size() <= fork_count) all.push_back(scheduler_->Fork(all.front()));
    CheckInvariants();
    return all;
  }

  // Gives each sequence a token of its own.
  void AppendOwn(const std::vector<SequenceId>& sequences) {
    for (const SequenceId id : sequences) scheduler_->Append(id, 100'000 + static_cast<TokenId>(id.value()));
  }
  void AppendEqual(const std::vector<SequenceId>& sequences) {
    for (const SequenceId id : sequences) scheduler_->Append(id, 5);
  }
};

TEST_F(ForkTest, ForksHoldThePromptsBlocks) {
  const auto all = Forked(Text(10, 1), 3);
  EXPECT_EQ(pool_->referenced_count(), 3U);
  for (const SequenceId id : all) EXPECT_EQ(BlocksOf(id), BlocksOf(all[0]));
  EXPECT_EQ(scheduler_->running_count(), 4U);
}

TEST_F(ForkTest, WhoWritesToASharedBlockGetsACopyOfItsRows) {
  const auto all = Forked(Text(10, 1), 1);
  const BlockId shared = BlocksOf(all[0]).back();
  AppendOwn(all);
  Compute();
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  const ScheduledCopy copy = scheduler_->copies()[0];
  EXPECT_EQ(copy.from, shared);
  EXPECT_EQ(copy.to, BlocksOf(all[0]).back());
  EXPECT_EQ(copy.row_count, 2U);
}

TEST_F(ForkTest, TheLastWriterWritesInPlace) {
  const auto all = Forked(Text(10, 1), 2);
  const BlockId shared = BlocksOf(all[0]).back();
  AppendOwn(all);
  Compute();
  EXPECT_EQ(scheduler_->copies().size(), 2U);
  EXPECT_EQ(BlocksOf(all[2]).back(), shared);
  EXPECT_EQ(pool_->references(shared), 1U);
}

TEST_F(ForkTest, FullBlocksStaySharedWhenForksPart) {
  const auto all = Forked(Text(10, 1), 2);
  AppendOwn(all);
  Steps(10);
  for (std::size_t block = 0; block < 2; ++block) {
    EXPECT_EQ(BlocksOf(all[1])[block], BlocksOf(all[0])[block]);
    EXPECT_EQ(pool_->references(BlocksOf(all[0])[block]), 3U);
  }
}

TEST_F(ForkTest, APromptThatEndsWithItsBlockNeedsNoCopy) {
  const auto all = Forked(Text(8, 1), 3);
  AppendOwn(all);
  EXPECT_EQ(Compute().size(), 4U);
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
  EXPECT_EQ(pool_->referenced_count(), 2U + 4U);
}

TEST_F(ForkTest, WhenTheOthersHaveGoneTheLastOneNeedsNoCopy) {
  const auto all = Forked(Text(10, 1), 2);
  const BlockId shared = BlocksOf(all[0]).back();
  scheduler_->Remove(all[0]);
  scheduler_->Remove(all[2]);
  AppendOwn({all[1]});
  Compute();
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
  EXPECT_THAT(BlocksOf(all[1]), ElementsAre(testing::_, testing::_, shared));
}

TEST_F(ForkTest, AForkThatIsRemovedLeavesTheSharedBlocksToTheOthers) {
  const auto all = Forked(Text(10, 1), 1);
  AppendOwn(all);
  Steps(3);
  scheduler_->Remove(all[1]);
  CheckInvariants();
  EXPECT_THAT(Step(), ElementsAre(Pair(all[0], 1)));
  EXPECT_EQ(pool_->references(BlocksOf(all[0])[0]), 1U);
}

TEST_F(ForkTest, ASequenceMayBeForkedAtALaterToken) {
  const SequenceId a = SubmitToFork(Text(6, 1), 1);
  Steps(3);
  Compute();
  const SequenceId b = scheduler_->Fork(a);
  EXPECT_EQ(scheduler_->Get(b).tokens, scheduler_->Get(a).tokens);
  EXPECT_EQ(scheduler_->Get(b).token_count(), 9U);
  AppendOwn({a, b});
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
}

TEST_F(ForkTest, ForksThatGoOnAlikeMergeTheBlocksThatTheyFill) {
  const auto all = Forked(Text(10, 1), 1);
  for (int i = 0; i < 2; ++i) {
    AppendEqual(all);
    Compute();
  }
  EXPECT_EQ(BlocksOf(all[0]), BlocksOf(all[1]));
  EXPECT_EQ(pool_->referenced_count(), 3U);
  EXPECT_EQ(cache_->ready_count(), 3U);
}

TEST_F(ForkTest, PlacesAreKeptForForksToCome) {
  Make({.max_batch_tokens = 12, .max_running = 4});
  const SequenceId a = SubmitToFork(Text(20, 1), 2);
  Step();
  const SequenceId b = SubmitToFork(Text(3, 2), 1);
  Step();
  EXPECT_EQ(scheduler_->Get(b).state, Sequence::State::kWaiting);
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 3)));
}

TEST_F(ForkTest, ForksAreAdmittedOnlyWithRoomForTheFirstTokenOfEach) {
  Make({.block_count = 10});
  const SequenceId a = Submit(Text(11, 1));
  const SequenceId b = SubmitToFork(Text(11, 2), 5);
  Step();
  EXPECT_EQ(scheduler_->Get(b).state, Sequence::State::kWaiting);  // a needs three blocks, b three and five
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 11)));
}

TEST_F(ForkTest, ASequenceThatWasPreemptedBeforeItsForksMayStillBeForked) {
  Make({.block_count = 9, .max_batch_tokens = 3});
  const SequenceId a = Submit(Text(9, 1));
  Steps(3);
  const SequenceId b = SubmitToFork(Text(17, 2), 1);  // two tokens per step, and one of a
  while (scheduler_->counters().preemptions == 0) Step();
  ASSERT_EQ(scheduler_->Get(b).token_count(), 17U);
  scheduler_->Remove(a);
  Compute();
  const SequenceId fork = scheduler_->Fork(b);
  EXPECT_EQ(BlocksOf(fork), BlocksOf(b));
}

// The pool is full of what the two share, so preempting the fork frees nothing.
TEST_F(ForkTest, WhoIsLeftAloneWithASharedBlockGoesOnInPlace) {
  Make({.block_count = 3});
  const auto both = Forked(Text(10, 1), 1);
  const auto blocks = BlocksOf(both[0]);
  AppendOwn(both);
  EXPECT_THAT(Compute(), ElementsAre(Pair(both[0], 1)));
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
  EXPECT_EQ(BlocksOf(both[0]), blocks);
  EXPECT_EQ(scheduler_->counters().preemptions, 1U);
}

TEST_F(ForkTest, APreemptedForkIsComputedAgainFromWhatIsCached) {
  Make({.block_count = 5});
  const auto both = Forked(Text(10, 1), 1);  // two full blocks, and one more for each
  AppendOwn(both);
  while (scheduler_->counters().preemptions == 0) Step();
  const std::uint32_t known = scheduler_->Get(both[1]).token_count();
  scheduler_->Remove(both[0]);
  const auto computed = Step();
  EXPECT_LE(computed.at(both[1]), known - 8);
  EXPECT_EQ(scheduler_->Get(both[1]).cached_token_count, 0U);
}

TEST_F(ForkTest, ForksOfUncachedSequencesShareBlocksAndCommitNone) {
  const SequenceId a =
      Submit(SequenceSpec{.root = kRoot, .prompt = Text(10, 1), .cache_mode = wire::CacheMode::kOff, .fork_count = 1});
  Compute();
  const SequenceId b = scheduler_->Fork(a);
  AppendOwn({a, b});
  Steps(6);
  EXPECT_EQ(BlocksOf(a)[1], BlocksOf(b)[1]);
  EXPECT_NE(BlocksOf(a)[2], BlocksOf(b)[2]);
  EXPECT_EQ(cache_->ready_count(), 0U);
}

// Beam search: the best continuations continue, whichever beams they come from.
TEST_F(ForkTest, BeamsShareAllBlocksUpToWhereTheyPart) {
  constexpr std::size_t kWidth = 4;
  std::vector<SequenceId> beams{Submit(Text(10, 1))};
  Compute();
  for (TokenId step = 0; step < 12; ++step) {
    // The best beam continues in as many ways as there are beams; all others end.
    const SequenceId best = beams[step % beams.size()];
    while (beams.size() <= 2 * kWidth && scheduler_->CanFork(best)) beams.push_back(scheduler_->Fork(best));
    std::vector<SequenceId> chosen{best};
    for (const SequenceId id : beams) {
      const bool of_best = scheduler_->Get(id).tokens == scheduler_->Get(best).tokens;
      if (id != best && of_best && chosen.size() < kWidth) {
        chosen.push_back(id);
      } else if (id != best) {
        scheduler_->Remove(id);
      }
    }
    beams = chosen;
    ASSERT_EQ(beams.size(), kWidth);
    EXPECT_EQ(pool_->referenced_count(), (10U + step + 3) / 4);
    for (std::size_t i = 0; i < beams.size(); ++i) scheduler_->Append(beams[i], 100 + static_cast<TokenId>(i));
    EXPECT_EQ(Compute().size(), kWidth);
  }
}

TEST_F(ForkTest, NobodyForksWithoutAPlaceToRun) {
  Make({.max_running = 2});
  const SequenceId first = Submit(Text(10, 1));
  const SequenceId second = Submit(Text(10, 2));
  Compute();
  EXPECT_FALSE(scheduler_->CanFork(first));
  scheduler_->Remove(second);
  EXPECT_TRUE(scheduler_->CanFork(first));
}

}  // namespace
}  // namespace roost::worker
