// The view of a worker whose hits end only behind some blocks, against a naive copy, and what is promised by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "router/fleet/workers/view_sync.h"
#include "router/fleet/workers/worker_registry.h"
#include "tests/router/fleet/fleet_sim.h"
#include "worker/link/link_core.h"
#include "worker/link/snapshot_mirror.h"

namespace roost::router {
namespace {

using Outcome = ViewSync::Outcome;

constexpr WorkerSlot kHybrid(5);
constexpr std::uint32_t kPoolBlocks = 200;

// A worker whose blocks are a tree: each has a number, and its parent a smaller one.
class HybridWorker {
 public:
  explicit HybridWorker(std::uint64_t seed) : rng_(seed), mirror_(kPoolBlocks) {}

  wire::Step Step() {
    wire::Step step;
    step.epoch = 1;
    step.sequence = ++sequence_;
    for (std::uint64_t count = rng_.Below(8); count > 0; --count) Change(step.events);
    mirror_.Apply(step.events);
    step.load.digest = mirror_.digest();
    step.load.resumable_digest = mirror_.resumable_digest();
    step.load.cached_block_count = mirror_.ready_count();
    return step;
  }

  // In chunks that are cut anywhere, the resumable ones behind their blocks.
  std::vector<wire::Snapshot> Snapshot() {
    std::vector<wire::Snapshot> chunks;
    const auto add = [&]() -> wire::Snapshot& {
      wire::Snapshot& chunk = chunks.emplace_back();
      chunk.epoch = 1;
      chunk.sequence = ++sequence_;
      chunk.chunk_index = static_cast<std::uint32_t>(chunks.size() - 1);
      return chunk;
    };
    for (auto& runs : worker::CutSnapshot(mirror_.Snapshot(), 1 + rng_.Below(40), 1 + rng_.Below(9))) {
      add().runs = std::move(runs);
    }
    for (const BlockHash hash : mirror_.resumable()) {
      if (chunks.size() == 1 || rng_.Below(10) == 0) add();
      chunks.back().resumable.push_back(hash);
    }
    chunks.back().last = true;
    return chunks;
  }

  // How much of a chain from the root a request need not compute.
  [[nodiscard]] std::uint32_t Hit(const std::vector<BlockHash>& chain, std::uint32_t most) const {
    std::uint32_t hit = 0;
    for (std::uint32_t count = 1; count <= std::min<std::size_t>(most, chain.size()); ++count) {
      if (!parents_.contains(chain[count - 1])) break;
      if (mirror_.resumable().contains(chain[count - 1])) hit = count;
    }
    return hit;
  }
  // A chain from the root through blocks that are there or were, perhaps with more behind.
  std::vector<BlockHash> Chain() {
    std::vector<BlockHash> chain;
    if (!parents_.empty()) {
      auto block = parents_.begin();
      std::advance(block, static_cast<std::ptrdiff_t>(rng_.Below(parents_.size())));
      for (BlockHash hash = block->first; hash != BlockHash(); hash = parents_.at(hash)) chain.push_back(hash);
    }
    std::reverse(chain.begin(), chain.end());
    chain.resize(rng_.Below(chain.size() + 1));
    for (std::uint64_t more = rng_.Below(4); more > 0; --more) chain.push_back({7, ++made_});
    return chain;
  }

 private:
  void Change(std::vector<wire::CacheEvent>& events) {
    wire::CacheEvent event;
    const std::uint64_t what = rng_.Below(4);
    if (what == 0 || parents_.size() < 5) {
      if (parents_.size() == kPoolBlocks) return;
      std::vector<BlockHash> chain = Chain();
      std::erase_if(chain, [this](BlockHash hash) { return !parents_.contains(hash); });
      const BlockHash parent = chain.empty() ? BlockHash() : chain.back();
      const BlockHash hash{9, ++made_};
      parents_[hash] = parent;
      event.kind = wire::CacheEvent::Kind::kStored;
      event.stored = {static_cast<std::uint32_t>(chain.size()), {hash}};
    } else {
      auto block = parents_.begin();
      std::advance(block, static_cast<std::ptrdiff_t>(rng_.Below(parents_.size())));
      const BlockHash hash = block->first;
      if (what == 1) {
        const bool is_leaf =
            std::none_of(parents_.begin(), parents_.end(), [&](const auto& other) { return other.second == hash; });
        if (!is_leaf) return;
        parents_.erase(block);
        event.kind = wire::CacheEvent::Kind::kRemoved;
        event.removed = {hash};
      } else {
        event.kind = what == 2 ? wire::CacheEvent::Kind::kResumable : wire::CacheEvent::Kind::kUnresumable;
        (what == 2 ? event.resumable : event.unresumable) = {hash};
      }
    }
    events.push_back(std::move(event));
  }

  Rng rng_;
  worker::SnapshotMirror mirror_;
  std::map<BlockHash, BlockHash> parents_;
  std::uint64_t made_ = 0;
  std::uint64_t sequence_ = 0;
};

TEST(ResumableBlocksTest, AViewPromisesWhatTheWorkerCanGoOnAt) {
  for (std::uint64_t seed = 1; seed <= 30 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    HybridWorker worker(seed);
    PrefixIndex index;
    ViewSync sync(index, kHybrid, {.epoch = 1, .block_count = kPoolBlocks, .checkpoints = true});
    Rng rng(seed);
    for (int round = 0; round < 100; ++round) {
      EXPECT_EQ(sync.Apply(worker.Step()), Outcome::kApplied);
      if (!sync.in_sync() || rng.Below(20) == 0) {
        for (const wire::Snapshot& chunk : worker.Snapshot()) EXPECT_EQ(sync.Apply(chunk), Outcome::kApplied);
      }
      ASSERT_TRUE(sync.in_sync());
      for (int i = 0; i < 5; ++i) {
        const std::vector<BlockHash> chain = worker.Chain();
        const std::vector<WorkerMatch> matches = index.Match(chain);
        const std::uint32_t held = matches.empty() ? 0 : matches.front().block_count;
        const auto most = static_cast<std::uint32_t>(rng.Below(chain.size() + 2));
        EXPECT_EQ(sync.resumable().LastBefore(chain, std::min(held, most)), worker.Hit(chain, most));
      }
    }
  }
}

TEST(ResumableBlocksTest, AnotherSetThanTheWorkersIsAskedForAgain) {
  HybridWorker worker(1);
  PrefixIndex index;
  ViewSync sync(index, kHybrid, {.epoch = 1, .block_count = kPoolBlocks, .checkpoints = true});
  for (const wire::Snapshot& chunk : worker.Snapshot()) EXPECT_EQ(sync.Apply(chunk), Outcome::kApplied);
  wire::Step step = worker.Step();
  step.load.resumable_digest = step.load.resumable_digest ^ BlockHash { 1, 1 };
  EXPECT_EQ(sync.Apply(step), Outcome::kWantSnapshot);
}

// ---- the fleet ----

class CheckpointsTest : public ::testing::Test {
 protected:
  CheckpointsTest() {
    hybrid_ = &sim_.AddWorker("hybrid");
    hybrid_->hello().checkpoints = true;
    hybrid_->SayHello();
    sim_.DeliverAll();
  }
  PromptMatch Match(const std::vector<TokenId>& prompt) {
    const std::vector<BlockHash> hashes = BlocksOf(prompt);
    return sim_.core
        .Match({.model = sim_.core.models()->Main("demo"),
                .prompt_token_count = static_cast<std::uint32_t>(prompt.size()),
                .block_hashes = hashes},
               sim_.Match(hashes), sim_.clock.Now())
        .value();
  }

  FleetSim sim_;
  FakeWorker* hybrid_ = nullptr;
};

TEST_F(CheckpointsTest, AMatchEndsBehindAResumableBlock) {
  const std::vector<TokenId> prompt = MakePrompt(1, 100 * FakeWorker::kBlockTokens + 2);
  (void)sim_.Submit(prompt, 4);
  sim_.Run();
  PromptMatch match = Match(prompt);
  EXPECT_EQ(match.holders[0].held_block_count, 100U);
  EXPECT_EQ(match.holders[0].resumable_block_count, 0U);
  ASSERT_TRUE(match.choice.has_value());
  EXPECT_EQ(match.choice->cached_tokens, 0U);

  const std::vector<BlockHash> hashes = BlocksOf(prompt);
  hybrid_->AddResumable({hashes[29], hashes[69]});
  hybrid_->Heartbeat();
  sim_.DeliverAll();
  match = Match(prompt);
  EXPECT_EQ(match.holders[0].held_block_count, 100U);
  EXPECT_EQ(match.holders[0].resumable_block_count, 70U);
  EXPECT_EQ(match.choice->cached_tokens, 70U * FakeWorker::kBlockTokens);

  // The last token of a prompt is computed.
  const std::vector<TokenId> front(prompt.begin(), prompt.begin() + 70 * FakeWorker::kBlockTokens);
  EXPECT_EQ(Match(front).choice->cached_tokens, 30U * FakeWorker::kBlockTokens);

  // The held blocks have to reach beyond it by those that the engine computes again.
  hybrid_->SetDroppedTokens(FakeWorker::kBlockTokens);
  hybrid_->Heartbeat();
  sim_.DeliverAll();
  const std::vector<TokenId> longer(prompt.begin(), prompt.begin() + 71 * FakeWorker::kBlockTokens);
  EXPECT_EQ(Match(longer).choice->cached_tokens, 70U * FakeWorker::kBlockTokens);
  const std::vector<TokenId> equal(prompt.begin(), prompt.begin() + 70 * FakeWorker::kBlockTokens + 3);
  EXPECT_EQ(Match(equal).choice->cached_tokens, 30U * FakeWorker::kBlockTokens);
}

TEST_F(CheckpointsTest, AWorkerThatLiesAboutItsBlocksEndsNoRouter) {
  const std::vector<TokenId> prompt = MakePrompt(1, 100 * FakeWorker::kBlockTokens + 2);
  (void)sim_.Submit(prompt, 4);
  sim_.Run();
  std::vector<BlockHash> strange;
  for (std::uint64_t i = 0; i < 2 * FakeWorker::kBlockCount; ++i) strange.push_back({i, 77});
  hybrid_->AddResumable(strange);  // none of them is stored, and they are more than it has
  hybrid_->SetDroppedTokens(~0U);
  hybrid_->Heartbeat();
  sim_.DeliverAll();
  EXPECT_EQ(Match(prompt).choice->cached_tokens, 0U);
  (void)sim_.Submit(prompt, 4);
  sim_.Run();
  EXPECT_EQ(Match(prompt).holders.size(), 1U);
}

class DroppedBlocksTest : public ::testing::Test {
 protected:
  FleetSim sim_;
};

TEST_F(DroppedBlocksTest, APromiseLacksWhatTheEngineComputesAgain) {
  FakeWorker& worker = sim_.AddWorker("speculative");
  worker.SetDroppedTokens(2 * FakeWorker::kBlockTokens);
  worker.SayHello();
  sim_.DeliverAll();
  const std::vector<TokenId> prompt = MakePrompt(1, 20 * FakeWorker::kBlockTokens + 2);
  (void)sim_.Submit(prompt, 4);
  sim_.Run();
  const std::vector<BlockHash> hashes = BlocksOf(prompt);
  const PromptMatch match = sim_.core
                                .Match({.model = sim_.core.models()->Main("demo"),
                                        .prompt_token_count = static_cast<std::uint32_t>(prompt.size()),
                                        .block_hashes = hashes},
                                       sim_.Match(hashes), sim_.clock.Now())
                                .value();
  EXPECT_EQ(match.holders[0].held_block_count, 20U);
  EXPECT_EQ(match.choice->cached_tokens, 18U * FakeWorker::kBlockTokens);
}

}  // namespace
}  // namespace roost::router
