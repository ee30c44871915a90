// The slot that a request gets, and the blocks of which routers are told.
#include "worker/adapters/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"

namespace roost::worker::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using EndKind = SlotTable::EndKind;

constexpr std::uint32_t kContext = 4096;
const BlockHash kRoot{1, 2};

std::vector<TokenId> Tokens(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first * 10'000 + static_cast<TokenId>(i);
  return tokens;
}

std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The engine's side: what its slots and its memory hold, token by token, as llama.cpp's server has it.
class SlotTableTest : public ::testing::Test {
 protected:
  SlotTable& table() {
    if (!table_) table_.emplace(options_);
    return *table_;
  }
  CallId Ask(const std::vector<TokenId>& prompt, BlockHash root = kRoot) {
    wire::Generate generate;
    generate.root = root;
    generate.prompt = prompt;
    const CallId call(++calls_);
    table().Enqueue(call, generate);
    return call;
  }
  std::optional<SlotTable::Grant> Next() { return table().Next(clock_.Now()); }
  void Answer(CallId call, std::uint32_t found, const std::vector<TokenId>& output = {7, 8}) {
    table().OnFound(call, found);
    table().OnComputed(call);
    table().OnEnd(call, output, EndKind::kComplete, clock_.Now());
  }
  // Sends the prompt at once and answers it as a server that found so much would.
  std::uint32_t Turn(const std::vector<TokenId>& prompt, std::uint32_t found, BlockHash root = kRoot) {
    const CallId call = Ask(prompt, root);
    const auto grant = Next();
    EXPECT_TRUE(grant && grant->call == call);
    Answer(call, found);
    return grant ? grant->slot : 99;
  }
  // How many blocks of the prompt routers are told of.
  std::size_t Told(const std::vector<TokenId>& prompt, BlockHash root = kRoot) {
    Follow();
    const std::vector<BlockHash> hashes = HashBlocks(root, prompt, kGrainTokens);
    std::size_t count = 0;
    while (count < hashes.size() && told_.contains(hashes[count])) ++count;
    return count;
  }
  // Applies the events as a router does, and compares with the snapshot and the digests.
  void Follow() {
    for (const wire::CacheEvent& event : table().TakeEvents()) {
      for (const BlockHash hash : event.stored.hashes) EXPECT_TRUE(told_.insert(hash).second);
      for (const BlockHash hash : event.removed) {
        EXPECT_EQ(told_.erase(hash), 1U);
        resumable_.erase(hash);
      }
      for (const BlockHash hash : event.resumable) EXPECT_TRUE(told_.contains(hash) && resumable_.insert(hash).second);
      for (const BlockHash hash : event.unresumable) EXPECT_EQ(resumable_.erase(hash), 1U);
    }
    std::set<BlockHash> snapshot;
    for (const wire::StoredRun& run : table().Snapshot()) snapshot.insert(run.hashes.begin(), run.hashes.end());
    EXPECT_EQ(snapshot, told_);
    EXPECT_EQ(table().block_count(), told_.size());
    BlockHash digest;
    for (const BlockHash hash : told_) digest = digest ^ hash;
    EXPECT_EQ(table().digest(), digest);
    const std::vector<BlockHash> open = table().Resumable();
    EXPECT_EQ(std::set<BlockHash>(open.begin(), open.end()), resumable_);
    BlockHash open_digest;
    for (const BlockHash hash : resumable_) open_digest = open_digest ^ hash;
    EXPECT_EQ(table().resumable_digest(), open_digest);
  }
  // As routers were told.
  [[nodiscard]] bool IsResumable(BlockHash block) const { return resumable_.contains(block); }
  // A page: the task of each slot, negative: it runs.
  void Page(const std::vector<int>& tasks, std::uint32_t kept = 0, std::uint32_t held = 321) {
    std::vector<SlotState> states;
    for (const int task : tasks) {
      states.push_back({.is_busy = task < 0,
                        .task = static_cast<std::uint32_t>(std::abs(task)),
                        .kept_tokens = kept,
                        .held_tokens = held});
    }
    table().OnSlots(states, clock_.Now());
    clock_.Advance(seconds(1));
  }

  ManualClock clock_;
  SlotTable::Options options_{.slot_count = 2, .context_tokens = kContext};

 private:
  std::optional<SlotTable> table_;
  std::uint64_t calls_ = 100;
  std::set<BlockHash> told_;
  std::set<BlockHash> resumable_;
};

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

// ---- windows and recurrent layers ----

TEST_F(SlotTableTest, WhereStatesAreKeptOnlyAtPointsOnlyTheseArePromised) {
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
TEST_F(SlotTableTest, WhereTheServerWentOnInTheMiddleItHasACheckpoint) {
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
