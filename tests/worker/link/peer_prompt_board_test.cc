#include "worker/link/peer_prompt_board.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

constexpr Instant kToday = Instant() + std::chrono::hours(1);
constexpr std::uint32_t kMine = 1;
constexpr std::uint32_t kOther = 2;

wire::Generate GenerateOf(std::size_t token_count, std::uint32_t expected_cached_tokens = 0) {
  wire::Generate generate;
  generate.prompt.assign(token_count, 7);
  generate.block_hashes = {{1, 1}, {1, 2}};
  generate.expected_cached_tokens = expected_cached_tokens;
  return generate;
}

struct PeerPromptBoardTest : ::testing::Test {
  PeerPromptBoard board;
  std::map<std::uint32_t, PeerPromptSender> tellers;

  // The load that this link's router is told, for a queue of 3 requests with 100 tokens.
  wire::Load Told(std::uint32_t link) {
    wire::Load load;
    load.queued_prefill_tokens = 100;
    load.waiting_requests = 3;
    board.TellTo(link, tellers[link], kToday, load);
    return load;
  }
};

TEST_F(PeerPromptBoardTest, WhatHasArrivedIsToldToTheOthersAlone) {
  board.Arrive(PromptOf(GenerateOf(40, 32), kOther, 5, kToday - milliseconds(20)));
  const wire::Load mine = Told(kMine);
  EXPECT_EQ(mine.queued_prefill_tokens, 108U);
  EXPECT_EQ(mine.waiting_requests, 4U);
  EXPECT_EQ(mine.other_prompts, (std::vector<wire::OtherPrompt>{{8, 20, 5, {{1, 1}, {1, 2}}}}));
  const wire::Load other = Told(kOther);
  EXPECT_EQ(other.queued_prefill_tokens, 100U);
  EXPECT_EQ(other.waiting_requests, 3U);
  EXPECT_TRUE(other.other_prompts.empty());
}

TEST_F(PeerPromptBoardTest, AReportTakesOverWhatTheEngineHas) {
  OwnedPrompt first = PromptOf(GenerateOf(40), kOther, 5, kToday);
  const OwnedPrompt second = PromptOf(GenerateOf(50), kOther, 6, kToday);
  board.Arrive(first);
  board.Arrive(second);
  first.prompt.uncached_tokens = 30;  // some were cached
  board.Assign({first}, 5);
  const wire::Load load = Told(kMine);
  EXPECT_EQ(load.queued_prefill_tokens, 150U);
  EXPECT_EQ(load.waiting_requests, 4U);
  ASSERT_EQ(load.other_prompts.size(), 2U);
  EXPECT_EQ(load.other_prompts[0].uncached_tokens, 30U);
  EXPECT_EQ(load.other_prompts[1].uncached_tokens, 50U);
  board.Assign({}, 5);
  EXPECT_EQ(Told(kMine).other_prompts.size(), 1U);
  board.Assign({second}, 6);
  EXPECT_EQ(Told(kMine).queued_prefill_tokens, 100U);
  board.Assign({}, 6);
  EXPECT_TRUE(Told(kMine).other_prompts.empty());
}

TEST_F(PeerPromptBoardTest, ARouterIsToldHowMuchIsLeftOfItsOwnThatTheEngineHas) {
  wire::Generate generate = GenerateOf(40);
  generate.request_id = RequestId(77);
  OwnedPrompt mine = PromptOf(generate, kMine, 5, kToday);
  generate.request_id = RequestId(78);
  board.Arrive(mine);
  board.Arrive(PromptOf(generate, kMine, 6, kToday));
  EXPECT_TRUE(Told(kMine).own_prompts.empty());  // it knows what it has sent
  mine.prompt.uncached_tokens = 30;
  board.Assign({mine}, 5);
  EXPECT_EQ(Told(kMine).own_prompts, (std::vector<wire::OwnPrompt>{{RequestId(77), 30}}));
  EXPECT_TRUE(Told(kMine).other_prompts.empty());
  EXPECT_TRUE(Told(kOther).own_prompts.empty());
}

// The engine's load counts it already.
TEST_F(PeerPromptBoardTest, WhatTheEngineHasIsNotCountedAgainIfNoReportListsIt) {
  board.Arrive(PromptOf(GenerateOf(40), kOther, 5, kToday));
  board.Arrive(PromptOf(GenerateOf(50), kOther, 6, kToday));
  board.Assign({}, 5);
  EXPECT_EQ(board.arrived_count(), 1U);
  EXPECT_EQ(Told(kMine).queued_prefill_tokens, 150U);
  board.Assign({}, 6);
  EXPECT_EQ(board.arrived_count(), 0U);
  EXPECT_EQ(Told(kMine).queued_prefill_tokens, 100U);
}

TEST_F(PeerPromptBoardTest, WhatNoReportWillListIsRemoved) {
  board.Arrive(PromptOf(GenerateOf(40), kOther, 5, kToday));
  board.Arrive(PromptOf(GenerateOf(50), kOther, 6, kToday));
  board.Remove(5);
  board.Remove(5);
  EXPECT_EQ(Told(kMine).queued_prefill_tokens, 150U);
  board.Remove(6);
  EXPECT_EQ(board.arrived_count(), 0U);
  EXPECT_EQ(Told(kMine).queued_prefill_tokens, 100U);
}

TEST(PromptOfTest, RoutersMayExpectTooMuch) {
  EXPECT_EQ(PromptOf(GenerateOf(40, 41), kMine, 1, kToday).prompt.uncached_tokens, 0U);
}

TEST(PromptOfTest, WithoutTheCacheThereIsNothingToFollow) {
  wire::Generate generate = GenerateOf(40);
  generate.cache_mode = wire::CacheMode::kOff;
  EXPECT_TRUE(PromptOf(generate, kMine, 1, kToday).prompt.hashes.empty());
}

// The queue that each router is told against one that is counted by hand: the engine receives what has arrived,
// computes some of it within a step, and reports late.
TEST_F(PeerPromptBoardTest, EachRouterSeesWhatTheOthersHaveThere) {
  struct Known {
    OwnedPrompt owned;
    bool reported = false;
  };
  Rng rng(1);
  std::map<std::uint64_t, Known> known;
  std::uint64_t next_id = 1;
  std::uint64_t taken = 0;  // by the engine: up to this id
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t roll = rng.Below(4);
    const auto any = known.empty() ? known.end() : std::next(known.begin(), static_cast<long>(rng.Below(known.size())));
    if (roll == 0 || known.empty()) {
      const auto link = static_cast<std::uint32_t>(rng.Below(3));
      const OwnedPrompt owned = PromptOf(GenerateOf(1 + rng.Below(99)), link, next_id++, kToday);
      board.Arrive(owned);
      known[owned.prompt.id] = {owned};
    } else if (roll == 1) {  // computed
      board.Remove(any->first);
      if (!any->second.reported) known.erase(any);
    } else {
      std::vector<OwnedPrompt> queue;
      std::erase_if(known, [&](const auto& entry) { return entry.second.reported && rng.Below(2) == 0; });
      taken += rng.Below(next_id - taken);
      for (auto& [id, each] : known) {
        each.reported = id <= taken;
        if (each.reported) queue.push_back(each.owned);
      }
      board.Assign(std::move(queue), taken);
    }
    for (std::uint32_t link = 0; link < 3; ++link) {
      std::map<std::uint64_t, std::uint32_t> expected;
      std::uint64_t arrived_tokens = 0;
      for (const auto& [id, each] : known) {
        if (each.owned.link == link) continue;
        expected[id] = each.owned.prompt.uncached_tokens;
        if (!each.reported) arrived_tokens += each.owned.prompt.uncached_tokens;
      }
      const wire::Load load = Told(link);
      std::map<std::uint64_t, std::uint32_t> told;
      for (const wire::OtherPrompt& prompt : load.other_prompts) told[prompt.id] = prompt.uncached_tokens;
      ASSERT_EQ(told, expected);
      ASSERT_EQ(load.queued_prefill_tokens, 100 + arrived_tokens);
    }
  }
}

}  // namespace
}  // namespace roost::worker
