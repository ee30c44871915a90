#include "worker/link/peer_prompt_sender.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

constexpr Instant kNow = Instant() + std::chrono::hours(1);

std::vector<BlockHash> ChainOf(std::uint64_t name, std::size_t block_count) {
  std::vector<BlockHash> chain;
  for (std::uint64_t i = 0; i < block_count; ++i) chain.push_back({name, i});
  return chain;
}

QueuedPrompt Prompt(std::uint64_t id, const std::vector<BlockHash>& hashes) {
  return {.id = id, .uncached_tokens = 100, .submitted = kNow - milliseconds(30), .hashes = hashes};
}

TEST(PeerPromptSenderTest, TellsWhatIsQueuedInEachListAndItsHashesOnce) {
  PeerPromptSender teller;
  const auto chain = ChainOf(7, 3);
  std::vector<QueuedPrompt> prompts{Prompt(7, chain), Prompt(8, {})};
  EXPECT_EQ(teller.Tell(prompts, kNow), (std::vector<wire::OtherPrompt>{{100, 30, 7, chain}, {100, 30, 8}}));
  prompts[0].uncached_tokens = 60;
  EXPECT_EQ(teller.Tell(prompts, kNow + milliseconds(5)), (std::vector<wire::OtherPrompt>{{60, 35, 7}, {100, 35, 8}}));
}

TEST(PeerPromptSenderTest, WhatWasAwayIsToldAnew) {
  PeerPromptSender teller;
  const auto chain = ChainOf(7, 3);
  const std::vector<QueuedPrompt> prompts{Prompt(7, chain)};
  EXPECT_EQ(teller.Tell(prompts, kNow).at(0).hashes, chain);
  EXPECT_TRUE(teller.Tell({}, kNow).empty());
  EXPECT_EQ(teller.Tell(prompts, kNow).at(0).hashes, chain);
}

TEST(PeerPromptSenderTest, OutputsOfOneRequestTellItsPromptOnce) {
  PeerPromptSender teller;
  const auto chain = ChainOf(7, 3);
  const auto list = teller.Tell(std::vector{Prompt(7, chain), Prompt(7, chain)}, kNow);
  EXPECT_EQ(list.at(0).hashes, chain);
  EXPECT_TRUE(list.at(1).hashes.empty());
}

TEST(PeerPromptSenderTest, HashesThatDoNotFitAreToldWhenThereIsRoom) {
  PeerPromptSender teller;
  const auto large = ChainOf(1, wire::kMaxOtherHashes - 1);
  const auto small = ChainOf(2, 2);
  const std::vector<QueuedPrompt> prompts{Prompt(1, large), Prompt(2, small)};
  EXPECT_EQ(teller.Tell(prompts, kNow).at(0).hashes.size(), large.size());
  EXPECT_TRUE(teller.Tell(prompts, kNow).at(1).hashes.empty());
  EXPECT_EQ(teller.Tell(std::span(prompts).last(1), kNow).at(0).hashes, small);
}

TEST(PeerPromptSenderTest, OfManyPromptsTheFirstAreTold) {
  PeerPromptSender teller;
  const auto chain = ChainOf(1, 1);
  std::vector<QueuedPrompt> prompts;
  for (std::uint64_t id = 1; id <= 2 * wire::kMaxOtherPrompts; ++id) prompts.push_back(Prompt(id, chain));
  EXPECT_EQ(teller.Tell(prompts, kNow).size(), wire::kMaxOtherPrompts);
  // The prompts that move up are new to the router.
  const auto list = teller.Tell(std::span(prompts).subspan(1), kNow);
  EXPECT_TRUE(list.front().hashes.empty());
  EXPECT_EQ(list.back().id, wire::kMaxOtherPrompts + 1);
  EXPECT_EQ(list.back().hashes, chain);
}

TEST(PeerPromptSenderTest, TimesNeitherRunBackNorOverflow) {
  PeerPromptSender teller;
  std::vector<QueuedPrompt> prompts(2);
  prompts[0].submitted = kNow + milliseconds(1);
  prompts[1].submitted = kNow - std::chrono::hours(24 * 365);
  const auto list = teller.Tell(prompts, kNow);
  EXPECT_EQ(list.at(0).waited_ms, 0U);
  EXPECT_EQ(list.at(1).waited_ms, std::numeric_limits<std::uint32_t>::max());
}

// A router that follows the lists holds the hashes of each listed prompt, except those that did not fit, and never more
// than the limit.
TEST(PeerPromptSenderTest, WhoFollowsTheListsKnowsWhatIsQueued) {
  Rng rng(1);
  PeerPromptSender teller;
  std::map<std::uint64_t, std::vector<BlockHash>> chains;
  std::map<std::uint64_t, std::vector<BlockHash>> held;
  std::vector<std::uint64_t> queue;
  std::size_t untold_count = 0;
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    for (std::uint64_t n = rng.Below(4); n > 0; --n) {
      const std::uint64_t id = chains.size() + 1;
      chains[id] = ChainOf(id, rng.Below(8) == 0 ? 0 : rng.Below(wire::kMaxOtherHashes / 3));
      queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(rng.Below(queue.size() + 1)), id);
    }
    while (queue.size() > 8 || (!queue.empty() && rng.Below(2) == 0)) {
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(rng.Below(queue.size())));
    }
    std::vector<QueuedPrompt> prompts;
    for (const std::uint64_t id : queue) prompts.push_back(Prompt(id, chains[id]));

    std::map<std::uint64_t, std::vector<BlockHash>> next;
    for (wire::OtherPrompt& prompt : teller.Tell(prompts, kNow)) {
      const auto known = held.find(prompt.id);
      if (known != held.end()) {
        ASSERT_TRUE(prompt.hashes.empty()) << "told twice";
        next.insert(*known);
      } else if (!prompt.hashes.empty()) {
        next[prompt.id] = std::move(prompt.hashes);
      }
    }
    held = std::move(next);
    std::size_t held_count = 0;
    for (const auto& [id, hashes] : held) {
      ASSERT_EQ(hashes, chains[id]);
      held_count += hashes.size();
    }
    ASSERT_LE(held_count, wire::kMaxOtherHashes);
    for (const std::uint64_t id : queue) {
      if (held.contains(id) || chains[id].empty()) continue;
      ++untold_count;
      ASSERT_GT(held_count + chains[id].size(), wire::kMaxOtherHashes) << "there was room";
    }
    for (auto& [id, chain] : chains) {
      if (std::find(queue.begin(), queue.end(), id) == queue.end()) chain.clear();
    }
  }
  EXPECT_GT(untold_count, 0U);
}

}  // namespace
}  // namespace roost::worker
