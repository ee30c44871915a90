// Readers beside a concurrent writer: every answer is between the least and the most that a worker held meanwhile. Run
// this under the thread sanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "router/index/prefix_index.h"

namespace roost::router {
namespace {

using Chain = std::vector<BlockHash>;

Chain MakeChain(std::uint64_t seed, std::size_t length) {
  Rng rng(seed);
  Chain chain(length);
  for (BlockHash& block : chain) block = {.high = rng(), .low = rng()};
  return chain;
}

std::uint32_t DepthOf(std::span<const WorkerMatch> matches, WorkerSlot worker) {
  for (const WorkerMatch& match : matches) {
    if (match.worker == worker) return match.block_count;
  }
  return 0;
}

// Two threads call `read_ok` until `write` has ended and each has read a number of times; no call may return false.
void ReadBeside(const std::function<bool(MatchBuffer&)>& read_ok, const std::function<void()>& write) {
  constexpr int kMinReads = 200;
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  const auto read = [&] {
    MatchBuffer buffer;
    for (int reads = 0; reads < kMinReads || !done.load(); ++reads) {
      if (!read_ok(buffer)) ++wrong;
    }
  };
  std::thread first(read);
  std::thread second(read);
  write();
  done = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong.load(), 0);
}

struct ReadersTest : ::testing::Test {
  static constexpr std::size_t kLength = 96;
  static constexpr std::size_t kKept = kLength / 2;
  PrefixIndex index;
  Chain chain = MakeChain(7, kLength);

  void StoreFrom(WorkerSlot worker, std::size_t begin) {
    index.Store(worker, static_cast<std::uint32_t>(begin), std::span(chain).subspan(begin));
  }
  void RemoveTo(WorkerSlot worker, std::size_t end) {
    index.Remove(worker, Chain(chain.rbegin(), chain.rend() - static_cast<std::ptrdiff_t>(end)));
  }
};

// Eight workers change, so that blocks move from lanes to sets and back.
TEST_F(ReadersTest, DepthsLieBetweenTheLeastAndTheGreatest) {
  constexpr std::uint32_t kMoving = 8;
  const WorkerSlot steady(0);
  StoreFrom(steady, 0);
  for (std::uint32_t slot = 1; slot <= kMoving; ++slot) index.Store(WorkerSlot(slot), 0, std::span(chain).first(kKept));
  ReadBeside(
      [&](MatchBuffer& buffer) {
        index.Match(chain, buffer);
        bool ok = buffer.matches().size() == kMoving + 1 && DepthOf(buffer.matches(), steady) == kLength;
        for (std::uint32_t slot = 1; slot <= kMoving; ++slot) {
          ok = ok && DepthOf(buffer.matches(), WorkerSlot(slot)) >= kKept;
        }
        return ok;
      },
      [&] {
        for (int round = 0; round < 150; ++round) {
          for (std::uint32_t slot = 1; slot <= kMoving; ++slot) StoreFrom(WorkerSlot(slot), kKept);
          for (std::uint32_t slot = 1; slot <= kMoving; ++slot) RemoveTo(WorkerSlot(slot), kKept);
        }
      });
}

TEST_F(ReadersTest, GrowthAndOtherBlocksHideNothing) {
  const WorkerSlot steady(0);
  StoreFrom(steady, 0);
  ReadBeside(
      [&](MatchBuffer& buffer) {
        index.Match(chain, buffer);
        return buffer.matches().size() == 1 && DepthOf(buffer.matches(), steady) == kLength;
      },
      [&] {
        Chain last;
        for (std::uint64_t seed = 100; seed < 400; ++seed) {
          const Chain other = MakeChain(seed, 100);
          index.Store(WorkerSlot(1), 0, other);
          if (seed % 3 == 0) index.Remove(WorkerSlot(1), Chain(last.rbegin(), last.rend()));
          last = other;
        }
      });
  EXPECT_GT(index.memory_bytes(), 300'000U);
}

// A slot alternates between two workers with different blocks: no reader may see both, or a block of an earlier life.
TEST_F(ReadersTest, ClearedWorkersBlocksDoNotComeBack) {
  const Chain other = MakeChain(8, kLength);
  const WorkerSlot slot(3);
  const WorkerSlot steady(4);
  StoreFrom(steady, 0);
  // Odd while the slot may hold `chain`.
  std::atomic<std::uint64_t> life = 0;
  ReadBeside(
      [&](MatchBuffer& buffer) {
        const std::uint64_t before = life.load();
        index.Match(chain, buffer);
        const std::uint64_t after = life.load();
        if (DepthOf(buffer.matches(), steady) != kLength) return false;
        const bool was_other = before == after && before % 2 == 0;
        return !was_other || DepthOf(buffer.matches(), slot) == 0;
      },
      [&] {
        for (int round = 0; round < 400; ++round) {
          ++life;
          StoreFrom(slot, 0);
          index.Clear(slot);
          ++life;
          index.Store(slot, 0, other);
          index.Clear(slot);
          if (round % 16 == 0) index.Sweep(256);
        }
      });
}

TEST(ShedReadersTest, DepthsNeverExceedWhatIsHeld) {
  PrefixIndex index(std::make_shared<IndexBudget>(1));
  const Chain chain = MakeChain(9, 64);
  const WorkerSlot worker(2);
  index.Store(worker, 0, std::span(chain).first(16));
  ReadBeside(
      [&](MatchBuffer& buffer) {
        index.Match(chain, buffer);
        return DepthOf(buffer.matches(), worker) <= 16;
      },
      [&] {
        for (std::uint64_t seed = 500; seed < 900; ++seed) {
          const WorkerSlot other(static_cast<std::uint32_t>(10 + seed % 5));
          index.Store(other, 0, MakeChain(seed, 120));
          if (seed % 4 == 0) index.Clear(other);
        }
      });
  EXPECT_GT(index.shed_block_total(), 0U);
}

}  // namespace
}  // namespace roost::router
