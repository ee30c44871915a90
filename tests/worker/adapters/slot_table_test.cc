// The slot that a request gets, and the blocks of which routers are told.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/adapters/slot_table_fixture.h"

namespace roost::worker::adapters {
namespace {

TEST_F(SlotTableTest, AConversationFindsItsSlotAndAnotherGetsAnEmptyOne) {
  const std::vector<TokenId> a = Tokens(1, 100);
  const std::vector<TokenId> b = Tokens(2, 100);
  const std::uint32_t slot_a = Turn(a, 0);
  const std::uint32_t slot_b = Turn(b, 0);
  EXPECT_NE(slot_a, slot_b);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(Turn(Joined(a, Tokens(3, 50)), 100), slot_a);
    EXPECT_EQ(Turn(Joined(b, Tokens(3, 50)), 100), slot_b);
  }
  EXPECT_EQ(Told(Joined(a, Tokens(3, 50))), 9U);
}

TEST_F(SlotTableTest, TheOutputIsHeldButForItsLastToken) {
  const std::vector<TokenId> prompt = Tokens(1, 30);
  const CallId call = Ask(prompt);
  ASSERT_TRUE(Next());
  Answer(call, 0, Tokens(5, 35));
  EXPECT_EQ(Told(Joined(prompt, Tokens(5, 35))), 4U);  // 64 tokens: all but the last of 65
  const CallId other = Ask(Joined(prompt, Tokens(5, 34)));
  ASSERT_TRUE(Next());
  Answer(other, 63, Tokens(6, 1));
  EXPECT_EQ(Told(Joined(prompt, Tokens(5, 34))), 4U);
}

TEST_F(SlotTableTest, ABusySlotIsNeverNamed) {
  const std::vector<TokenId> a = Tokens(1, 100);
  const CallId first = Ask(a);
  const CallId second = Ask(a);
  const CallId third = Ask(a);
  const auto one = Next();
  const auto two = Next();
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->slot, two->slot);
  EXPECT_FALSE(Next());
  EXPECT_EQ(table().waiting_count(), 1U);
  Answer(second, 0);
  const auto three = Next();
  ASSERT_TRUE(three);
  EXPECT_EQ(three->call, third);
  EXPECT_EQ(three->slot, two->slot);
  Answer(first, 0);
  EXPECT_FALSE(Next());
}

TEST_F(SlotTableTest, ASharedBeginningDoesNotCostAConversationItsSlot) {
  const std::vector<TokenId> system = Tokens(9, 64);
  const std::vector<TokenId> a = Joined(system, Tokens(1, 2000));
  const std::uint32_t slot_a = Turn(a, 0);
  EXPECT_NE(Turn(Joined(system, Tokens(2, 100)), 0), slot_a);  // an empty one
  EXPECT_EQ(Turn(Joined(a, Tokens(3, 16)), 2064), slot_a);
}

TEST_F(SlotTableTest, WhatIsUsedOftenAndLatelyIsKept) {
  options_.slot_count = 2;
  const std::vector<TokenId> busy = Tokens(1, 500);
  const std::uint32_t slot_busy = Turn(busy, 0);
  const std::uint32_t slot_once = Turn(Tokens(2, 500), 0);
  for (int i = 0; i < 3; ++i) Turn(busy, 499);
  clock_.Advance(seconds(30));
  Turn(busy, 499);
  EXPECT_EQ(Turn(Tokens(3, 300), 0), slot_once);
  EXPECT_EQ(Turn(busy, 499), slot_busy);
}

TEST_F(SlotTableTest, ASessionThatWillReturnIsKept) {
  const std::vector<TokenId> a = Tokens(1, 500);
  wire::Generate generate;
  generate.root = kRoot;
  generate.prompt = a;
  generate.expect_return_ms = 600'000;
  table().Enqueue(CallId(1), generate);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  Answer(CallId(1), 0);
  clock_.Advance(seconds(120));
  const std::uint32_t other = Turn(Tokens(2, 500), 0);
  EXPECT_NE(other, grant->slot);
  clock_.Advance(seconds(20));
  EXPECT_EQ(Turn(Tokens(3, 500), 0), other) << "although it was used later";
}

TEST_F(SlotTableTest, WhoFindsMoreInTheSlotGoesFirstBoundedly) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 500);
  Turn(a, 0);
  const CallId stranger = Ask(Tokens(2, 500));
  for (int i = 0; i < 4; ++i) {
    const CallId known = Ask(a);
    const auto grant = Next();
    ASSERT_TRUE(grant);
    EXPECT_EQ(grant->call, known);
    Answer(known, 499);
  }
  (void)Ask(a);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, stranger);
}

TEST_F(SlotTableTest, HigherPriorityIsSentFirst) {
  options_.slot_count = 1;
  const CallId running = Ask(Tokens(1, 32));
  ASSERT_TRUE(Next());
  (void)Ask(Tokens(2, 32));
  wire::Generate urgent;
  urgent.root = kRoot;
  urgent.prompt = Tokens(3, 32);
  urgent.priority = 90;
  table().Enqueue(CallId(1), urgent);
  Answer(running, 0);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->call, CallId(1));
}

// The server may still compute: naming its slot would have it cleared while it runs.
TEST_F(SlotTableTest, ACutCallsSlotIsIdleOnceThePagesSaySo) {
  options_.slot_count = 1;
  const CallId call = Ask(Tokens(1, 100));
  ASSERT_TRUE(Next());
  table().OnFound(call, 0);
  table().OnComputed(call);
  table().OnEnd(call, Tokens(5, 3), EndKind::kCut, clock_.Now());
  (void)Ask(Tokens(1, 100));
  Page({-1});
  EXPECT_FALSE(Next());
  Page({1});  // this page may have been on its way when the call was sent
  EXPECT_FALSE(Next());
  Page({1});
  EXPECT_TRUE(Next());
}

TEST_F(SlotTableTest, WithoutPagesItIsIdleAfterAWhile) {
  options_.slot_count = 1;
  const CallId call = Ask(Tokens(1, 100));
  ASSERT_TRUE(Next());
  table().OnEnd(call, {}, EndKind::kCut, clock_.Now());
  (void)Ask(Tokens(1, 100));
  clock_.Advance(seconds(4));
  EXPECT_FALSE(Next());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(Next());
}

TEST_F(SlotTableTest, AWaitingCallThatIsCancelledIsGone) {
  options_.slot_count = 1;
  const CallId first = Ask(Tokens(1, 100));
  ASSERT_TRUE(Next());
  const CallId second = Ask(Tokens(2, 100));
  table().OnEnd(second, {}, EndKind::kComplete, clock_.Now());
  Answer(first, 0);
  EXPECT_FALSE(Next());
}

TEST_F(SlotTableTest, WhatWasFoundCorrectsWhatWasPromised) {
  const std::vector<TokenId> a = Tokens(1, 320);
  Turn(a, 0);
  EXPECT_EQ(Told(a), 20U);
  const CallId call = Ask(a);
  ASSERT_TRUE(Next());
  table().OnFound(call, 40);
  EXPECT_EQ(Told(a), 2U);
  table().OnComputed(call);
  EXPECT_EQ(Told(a), 20U);
}

TEST_F(SlotTableTest, AStrangersTaskCostsWhatItDidNotFind) {
  options_.slot_count = 2;
  const std::vector<TokenId> a = Tokens(1, 320);
  const std::uint32_t slot = Turn(a, 0);
  ASSERT_EQ(slot, 0U);
  Page({1, 0});
  Page({1, 0});
  EXPECT_EQ(Told(a), 20U);
  Page({-5, 0}, 200);  // it found 200 tokens; more than half of the slot stays, so nothing went to memory
  EXPECT_EQ(Told(a), 12U);
  // Its slot is not named while it runs.
  (void)Ask(a);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->slot, 1U);
  (void)Ask(a);
  EXPECT_FALSE(Next());
  Page({5, 0});
  EXPECT_TRUE(Next());
}

TEST_F(SlotTableTest, AStrangersTaskRightAfterAnOwnOneIsSeenByWhatIsLeft) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  Page({0}, 0, 0);
  Turn(a, 0);
  Page({7}, 0, 300);
  EXPECT_EQ(Told(a), 20U);  // the page may be older
  Page({7}, 0, 300);
  EXPECT_EQ(Told(a), 0U);
  EXPECT_EQ(Turn(a, 0), 0U);
}

TEST_F(SlotTableTest, AStrangersTaskRightAfterAnOwnOneKeepsItsSlotBusy) {
  options_.slot_count = 1;
  Page({0}, 0, 0);
  Turn(Tokens(1, 320), 0);
  Page({-7});
  Page({-7});
  Page({-7});
  (void)Ask(Tokens(1, 320));
  EXPECT_FALSE(Next());
  Page({7});
  EXPECT_TRUE(Next());
}

TEST_F(SlotTableTest, OwnTasksAreNoStrangers) {
  const std::vector<TokenId> a = Tokens(1, 320);
  Page({0, 0});
  for (int task = 1; task < 5; ++task) {
    Turn(a, task == 1 ? 0 : 319);
    Page({task, 0});
    EXPECT_EQ(Told(a), 20U);
    Page({task, 0});
    EXPECT_EQ(Told(a), 20U);
  }
}

// ---- scopes ----

TEST_F(SlotTableTest, AnotherTenantsSlotIsComputedAnew) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  Turn(a, 0);
  const BlockHash other{5, 6};
  EXPECT_EQ(Told(a, other), 0U);
  const CallId call = Ask(a, other);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  EXPECT_FALSE(grant->finds_prefix);
  Answer(call, 0);
  (void)Ask(a, other);
  const auto again = Next();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->finds_prefix);
}

// Its own sequence in memory would not be used, and that is no sign that there is no memory.
TEST_F(SlotTableTest, AnotherTenantsSlotIsComputedAnewDespiteMemory) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  const BlockHash other{5, 6};
  Turn(a, 0);
  Turn(a, 319);
  Turn(Tokens(2, 320), 0, other);
  Turn(a, 0);
  EXPECT_EQ(Told(Tokens(2, 320), other), 20U);
}

TEST_F(SlotTableTest, CacheModeOffFindsNothing) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  Turn(a, 0);
  wire::Generate generate;
  generate.root = kRoot;
  generate.prompt = a;
  generate.cache_mode = wire::CacheMode::kOff;
  table().Enqueue(CallId(1), generate);
  const auto grant = Next();
  ASSERT_TRUE(grant);
  EXPECT_FALSE(grant->finds_prefix);
}

// ---- the server's memory ----

TEST_F(SlotTableTest, WhatASlotLosesLiesInMemory) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  const std::vector<TokenId> b = Tokens(2, 320);
  Turn(a, 0);
  Turn(b, 0);
  EXPECT_EQ(Told(a), 20U);
  EXPECT_EQ(Told(b), 20U);
  Turn(a, 319);
  Turn(b, 319);
  EXPECT_EQ(Told(a), 20U);
}

// The oldest go first, so the entries after it are all that there is room for.
TEST_F(SlotTableTest, WhatIsMissedThereTellsHowMuchItHolds) {
  options_.slot_count = 1;
  std::vector<std::vector<TokenId>> prompts;
  for (TokenId i = 0; i < 6; ++i) prompts.push_back(Tokens(i + 1, 320));
  for (const auto& prompt : prompts) Turn(prompt, 0);
  EXPECT_EQ(Told(prompts[1]), 20U);
  Turn(prompts[4], 319);
  Turn(prompts[1], 0);  // was promised, and is not there: as much as 2, 3 and 5 is all that there is room for
  EXPECT_EQ(Told(prompts[0]), 0U);
  EXPECT_EQ(Told(prompts[3]), 20U);
  EXPECT_EQ(Told(prompts[5]), 20U);
  Turn(Tokens(50, 320), 0);
  EXPECT_EQ(Told(prompts[3]), 0U);
}

TEST_F(SlotTableTest, AServerWithoutMemoryIsLearnedAtOnce) {
  options_.slot_count = 1;
  const std::vector<TokenId> a = Tokens(1, 320);
  const std::vector<TokenId> b = Tokens(2, 320);
  Turn(a, 0);
  Turn(b, 0);
  Turn(a, 0);  // was promised from memory
  EXPECT_EQ(Told(b), 0U);
  Turn(b, 0);
  EXPECT_EQ(Told(a), 0U);
}

TEST_F(SlotTableTest, ARestartForgetsAll) {
  const std::vector<TokenId> a = Tokens(1, 320);
  Turn(a, 0);
  Turn(Tokens(2, 320), 0);
  table().OnEngineRestart(clock_.Now());
  EXPECT_EQ(Told(a), 0U);
  EXPECT_EQ(table().block_count(), 0U);
  // One that was sent since the engine is back keeps its slot.
  (void)Ask(a);
  ASSERT_TRUE(Next());
  table().OnEngineRestart(clock_.Now());
  (void)Ask(a);
  (void)Ask(a);
  EXPECT_TRUE(Next());
  EXPECT_FALSE(Next());
}

// Routers take no more blocks from a worker than it has said.
TEST_F(SlotTableTest, MemoryIsBounded) {
  options_ = {.slot_count = 1, .context_tokens = 320};
  for (TokenId i = 0; i < 50; ++i) {
    Turn(Tokens(i + 1, 300), 0);
    Turn(Tokens(i + 1, 300), 299);
    Follow();
    EXPECT_LE(table().block_count(), SlotTable::kRoomFactor * 20U);
  }
  EXPECT_GT(table().block_count(), 40U);
}

// ---- anything ----

// Against a server that does what llama.cpp's does: no event contradicts another, and nothing is promised for long that
// is not there.
TEST_F(SlotTableTest, RandomConversationsBesideAServer) {
  options_ = {.slot_count = 3, .context_tokens = kContext};
  Rng rng(5);
  std::vector<std::vector<TokenId>> slots(3);
  std::vector<std::vector<TokenId>> sessions;
  for (TokenId i = 0; i < 12; ++i) sessions.push_back(Joined(Tokens(99, 48), Tokens(i + 1, 100)));
  std::uint64_t promised = 0;
  std::uint64_t over = 0;
  for (int i = 0; i < 2000; ++i) {
    auto& session = sessions[rng.Below(rng.Below(2) == 0 ? 3 : sessions.size())];
    if (session.size() > 1500) session.resize(148);
    const std::size_t told = Told(session) * kGrainTokens;
    const CallId call = Ask(session);
    const auto grant = Next();
    ASSERT_TRUE(grant);
    std::vector<TokenId>& slot = slots[grant->slot];
    std::size_t found = 0;
    while (found < std::min(slot.size(), session.size() - 1) && slot[found] == session[found]) ++found;
    if (!grant->finds_prefix) found = 0;
    promised += told;
    over += told > found + kGrainTokens ? 1 : 0;
    const std::vector<TokenId> output = Tokens(static_cast<TokenId>(200 + rng.Below(1000)), 1 + rng.Below(40));
    Answer(call, static_cast<std::uint32_t>(found), output);
    slot = Joined(session, output);
    slot.pop_back();
    session = Joined(session, output);
    session = Joined(std::move(session), Tokens(static_cast<TokenId>(2000 + rng.Below(1000)), 20));
    clock_.Advance(milliseconds(rng.Below(5000)));
  }
  EXPECT_GT(promised, 2000U * 100U);
  // A conversation that begins anew is not worth the slot that has its old end.
  EXPECT_LE(over, 100U);
}

}  // namespace
}  // namespace roost::worker::adapters
