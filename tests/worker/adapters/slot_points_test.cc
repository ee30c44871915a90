// Slots of models with windows or recurrent layers, which the server goes on with at checkpoints only.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/worker/adapters/slot_table_fixture.h"

namespace roost::worker::adapters {
namespace {

class SlotPointsTest : public SlotTableTest {};

TEST_F(SlotPointsTest, WhereStatesAreKeptOnlyAtPointsOnlyTheseArePromised) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> a = Tokens(1, 1000);
  Turn(a, 0);
  EXPECT_EQ(Told(a), 62U);
  EXPECT_TRUE(table().has_checkpoints());
  EXPECT_EQ(table().Resumable().size(), 2U);  // 484 and 996 tokens; the end is in the block of the latter
  // Another end of the prompt: goes on at the checkpoint before the old one's end.
  std::vector<TokenId> other(a.begin(), a.begin() + 800);
  other = Joined(std::move(other), Tokens(2, 100));
  const CallId call = Ask(other);
  ASSERT_TRUE(Next());
  Follow();
  EXPECT_EQ(Told(a), 62U) << "the server keeps it in memory";
  Answer(call, 484);
  Follow();
  EXPECT_EQ(Told(other), 56U);
}

// The book may not know of it: the prompt that made it was another's, or was corrected by a miss.
TEST_F(SlotPointsTest, WhereTheServerWentOnInTheMiddleItHasACheckpoint) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> front = Tokens(1, 300);
  Turn(Joined(front, Tokens(2, 800)), 0);
  Turn(Joined(front, Tokens(3, 900)), 186);
  Follow();
  EXPECT_TRUE(IsResumable(HashBlocks(kRoot, front, kGrainTokens)[186 / kGrainTokens - 1]));
  const CallId call = Ask(Joined(front, Tokens(4, 50)));
  ASSERT_TRUE(Next());
  EXPECT_EQ(Told(front), 18U) << "the server keeps it in memory";
  Answer(call, 186);
  Follow();
  EXPECT_TRUE(IsResumable(HashBlocks(kRoot, front, kGrainTokens)[186 / kGrainTokens - 1]));
}

TEST_F(SlotPointsTest, ACheckpointInASlotThatHoldsMuchElseIsNotTold) {
  options_.goes_on_at_points = true;
  const std::vector<TokenId> front = Tokens(1, 200);
  const std::vector<BlockHash> blocks = HashBlocks(kRoot, front, kGrainTokens);
  Turn(Joined(front, Tokens(2, 20)), 0);  // a checkpoint at 216 tokens, in the last block
  EXPECT_EQ(Promised(Joined(front, Tokens(2, 60))), 208U);
  EXPECT_EQ(Turn(Joined(Joined(front, Tokens(2, 20)), Tokens(3, 1500)), 220), 0U);
  EXPECT_EQ(Promised(Joined(Joined(front, Tokens(2, 20)), Tokens(4, 50))), 0U) << "such a prompt gets the empty slot";
  EXPECT_EQ(Told(front), blocks.size());
  EXPECT_EQ(Turn(Joined(Joined(front, Tokens(2, 20)), Tokens(4, 50)), 0), 1U);
}

// The system prompt of all ends in the middle of a block, and so does its checkpoint.
TEST_F(SlotPointsTest, ACheckpointInTheBlockWhereAPromptPartsIsTakenToBeFound) {
  options_ = {.slot_count = 2, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> front = Tokens(1, 200);
  Turn(front, 0);  // a checkpoint at 196
  Turn(Tokens(5, 300), 0);
  const std::vector<TokenId> chat = Joined(front, Tokens(2, 300));
  EXPECT_EQ(Promised(chat), 192U);
  EXPECT_EQ(Turn(chat, 196), 0U) << "although the other slot holds more";
}

TEST_F(SlotPointsTest, ACheckpointLiesWhereThePromptWentOn) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> a = Tokens(1, 300);
  Turn(a, 0, kRoot);  // 301 tokens with the output
  const std::vector<TokenId> longer = Joined(Joined(a, {7}), Tokens(2, 400));
  Turn(longer, 301);
  EXPECT_EQ(Promised(Joined({longer.begin(), longer.begin() + 400}, Tokens(3, 400))), 288U) << "behind 301 tokens";
}

TEST_F(SlotPointsTest, ACheckpointInTheLastPartOfABlockIsKept) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> a = Tokens(1, 300);
  Turn(a, 0);  // 301 tokens with the output, a checkpoint at 296
  Turn(Joined(Joined(a, {7}), Tokens(2, 1000)), 301);
  EXPECT_EQ(Promised(Joined(a, Tokens(3, 800))), 288U);
}

TEST_F(SlotPointsTest, AFullListOfCheckpointsKeepsTheFirstAndTheLast) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  std::vector<TokenId> session = Tokens(1, 100);
  for (TokenId turn = 0; turn < 60; ++turn) {
    Turn(session, turn == 0 ? 0U : static_cast<std::uint32_t>(session.size() - 40));
    Follow();
    const std::vector<BlockHash> blocks = HashBlocks(kRoot, session, kGrainTokens);
    EXPECT_LE(table().Resumable().size(), 32U);
    EXPECT_TRUE(IsResumable(blocks[96 / kGrainTokens - 1]));
    EXPECT_TRUE(IsResumable(blocks[(session.size() - 4) / kGrainTokens - 1]));
    session = Joined(Joined(std::move(session), {7}), Tokens(turn + 2, 39));
  }
}

// A window needs tokens of before the prompt's new ones: the server drops what it has behind the last checkpoint.
TEST_F(SlotPointsTest, WithinAWindowOnlyCheckpointsAreGoneOnWith) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true, .window = 512};
  const std::vector<TokenId> a = Tokens(1, 300);
  const std::vector<TokenId> output = Tokens(2, 101);
  const CallId call = Ask(a);
  ASSERT_TRUE(Next());
  Answer(call, 0, output);
  const std::vector<TokenId> next = Joined(Joined(a, {output.begin(), output.end() - 1}), Tokens(3, 300));
  EXPECT_EQ(Promised(next), 288U) << "at 296 tokens";
  Turn(next, 295);
  EXPECT_EQ(Promised(Joined(Joined(next, {7}), Tokens(4, 50))), 688U) << "its end";
}

TEST_F(SlotPointsTest, ASlotThatMayHoldMoreIsNotGoneOnWithAtItsEnd) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true};
  const std::vector<TokenId> a = Tokens(1, 300);
  const CallId call = Ask(a);
  ASSERT_TRUE(Next());
  table().OnFound(call, 0);
  table().OnComputed(call);
  table().OnEnd(call, Tokens(2, 40), EndKind::kLonger, clock_.Now());
  EXPECT_EQ(Promised(Joined(Joined(a, Tokens(2, 40)), Tokens(3, 50))), 288U) << "the checkpoint at 296 tokens";
  EXPECT_EQ(Turn(Joined(a, Tokens(3, 50)), 296), 0U);
}

// The checkpoint stays, and is gone on with one token before it.
TEST_F(SlotPointsTest, AWindowGoesOnBeforeItsCheckpointAgainAndAgain) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true, .window = 64};
  const std::vector<TokenId> a = Tokens(1, 300);
  Turn(a, 0);  // a checkpoint at 296
  for (TokenId chat = 2; chat < 5; ++chat) {
    const std::vector<TokenId> other = Joined(a, Tokens(chat, 1000));
    EXPECT_EQ(Promised(other), 288U);
    Turn(other, 295);
  }
}

// Its keys and values are still there: so it leaves no checkpoint.
TEST_F(SlotPointsTest, WhereAWindowWentOnInTheMiddleIsNoCheckpoint) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true, .window = 64};
  const std::vector<TokenId> front = Tokens(1, 200);
  Turn(Joined(front, Tokens(2, 100)), 0);
  Turn(Joined(front, Tokens(3, 1000)), 199);
  EXPECT_EQ(Promised(Joined(front, Tokens(4, 300))), 0U);
}

// More than was promised, but not more than the slot had.
TEST_F(SlotPointsTest, AWindowThatGoesFurtherBackIsNoSignOfMemory) {
  options_ = {.slot_count = 1, .context_tokens = kContext, .goes_on_at_points = true, .window = 64};
  const std::vector<TokenId> a = Tokens(1, 1000);
  Turn(a, 0);
  Turn(Joined({a.begin(), a.begin() + 800}, Tokens(2, 100)), 799);
  EXPECT_FALSE(table().Erase(SlotErasure({.what = wire::TenantToEvict{"x"}, .answer_id = 1})).may_stay);
}

}  // namespace
}  // namespace roost::worker::adapters
