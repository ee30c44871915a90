// A table of slots with the clock and the requests of a test, and a router's copy of what it tells.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "worker/adapters/slots/slot_table.h"

namespace roost::worker::adapters {

using std::chrono::milliseconds;
using std::chrono::seconds;
using EndKind = SlotTable::EndKind;

inline constexpr std::uint32_t kContext = 4096;
inline const BlockHash kRoot{1, 2};

inline std::vector<TokenId> Tokens(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first * 10'000 + static_cast<TokenId>(i);
  return tokens;
}

inline std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
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
  // The promise of a router for the prompt.
  std::size_t Promised(const std::vector<TokenId>& prompt) {
    std::size_t blocks = std::min(Told(prompt), (prompt.size() - 1) / kGrainTokens);
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, prompt, kGrainTokens);
    while (blocks > 0 && !IsResumable(hashes[blocks - 1])) --blocks;
    return blocks * kGrainTokens;
  }
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

}  // namespace roost::worker::adapters
