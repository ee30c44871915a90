// Random appends, uses, erasures, starts and kills against a naive model of the set.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/disk/disk_tools.h"

namespace roost::worker {
namespace {

class DiskModel {
 public:
  explicit DiskModel(std::uint64_t seed) : rng_(seed), user_(5) {
    // Chains that begin alike: each continues the one before it from some block on.
    for (std::uint64_t i = 0; i < 12; ++i) chains_.emplace_back(6 + rng_.Below(10), seed * 100 + i);
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  TestChain& AnyChain() { return chains_[rng_.Below(chains_.size())]; }

  void Step() {
    const std::uint64_t what = rng_.Below(100);
    if (what < 3) user_.files->dies_after = rng_.Below(12);
    const std::set<BlockHash> before = user_.set;
    std::set<BlockHash> erased;
    if (what < 80) {
      TestChain& chain = AnyChain();
      const std::uint32_t front = user_.store->CountFront(chain.chain);
      if (front < chain.chain.size()) {
        (void)user_.Put(chain, front);
        // It may be there although the segment could not be sealed behind it.
        if (user_.set.contains(chain.chain.hashes[front])) gone_.erase(chain.chain.hashes[front]);
      }
    } else if (what < 90) {
      TestChain& chain = AnyChain();
      for (const BlockHash hash : chain.chain.hashes) (void)user_.store->Use(hash);
    } else if (what < 95) {
      TestChain& chain = AnyChain();
      const auto count = static_cast<std::uint32_t>(1 + rng_.Below(chain.chain.size()));
      wire::PromptToEvict prompt{.root = kTestRoot, .block_hashes = chain.chain.hashes};
      prompt.block_hashes.resize(count);
      (void)user_.Evict({.what = prompt, .answer_id = 1});
      EXPECT_FALSE(user_.set.contains(prompt.block_hashes.back()));
      if (!user_.files->is_dead()) {
        for (const BlockHash hash : before) {
          if (!user_.set.contains(hash)) gone_.insert(hash);
        }
      }
    } else if (what < 98 && !user_.files->is_dead()) {
      user_.Open();
      EXPECT_EQ(user_.set, before);
    }
    if (user_.files->is_dead()) Restart(before);
    CheckSet();
  }

  // Nothing that was erased comes back, and nothing goes that the last step did not touch.
  void Restart(const std::set<BlockHash>& before) {
    const std::set<BlockHash> at_end = user_.set;
    user_.Open();
    for (const BlockHash hash : user_.set) EXPECT_FALSE(gone_.contains(hash));
    for (const BlockHash hash : before) {
      EXPECT_TRUE(!at_end.contains(hash) || user_.set.contains(hash)) << hash.ToHex();
    }
  }

  // It is closed, what was told is what is there, and every block has its bytes.
  void CheckSet() {
    EXPECT_EQ(user_.size(), user_.set.size());
    std::size_t count = 0;
    for (TestChain& chain : chains_) {
      bool is_there = true;
      for (std::uint32_t i = 0; i < chain.chain.size(); ++i) {
        const bool is_now = user_.set.contains(chain.chain.hashes[i]);
        EXPECT_TRUE(is_there || !is_now) << "block " << i << " without its front";
        is_there = is_now;
        count += is_now ? 1 : 0;
        const bool is_read = is_now && rng_.Below(8) == 0;
        EXPECT_TRUE(!is_read || user_.IsRight(chain, i));
      }
    }
    EXPECT_EQ(count, user_.set.size());
    BlockHash digest;
    for (const BlockHash hash : user_.set) digest = digest ^ hash;
    user_.store->Visit([&](const DiskIndex& index) { EXPECT_EQ(index.digest(), digest); });
    EXPECT_LE(user_.store->used_bytes(), 5 * TestShape().file_bytes());
  }

  Rng rng_;
  StoreUser user_;
  std::vector<TestChain> chains_;
  std::set<BlockHash> gone_;  // erased, and not appended since
};

TEST(DiskModelTest, KeepsItsSetThroughStartsAndKills) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    DiskModel(seed).Run(400);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace roost::worker
