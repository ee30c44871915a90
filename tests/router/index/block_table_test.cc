#include "router/index/block_table.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/rng.h"
#include "tests/support/sanitized.h"

namespace roost::router {
namespace {

using Key = BlockTable::Key;
using Payload = BlockTable::Payload;

struct BlockTableTest : ::testing::Test {
  EpochGate gate;
  BlockTable table{gate};

  [[nodiscard]] Payload PayloadOf(Key key) const { return BlockTable::Finish(table.Begin(key)); }
  [[nodiscard]] static Key KeyOfNumber(std::uint64_t number) { return BlockTable::KeyOf(number, 99); }
  void Advance() {
    gate.TryAdvance();
    gate.TryAdvance();
    table.Reclaim();
  }
  static Payload Keep(Payload payload) { return payload; }
};

TEST_F(BlockTableTest, FindsWhatWasInsertedAndNothingElse) {
  EXPECT_TRUE(table.Insert(KeyOfNumber(1), 10));
  EXPECT_EQ(PayloadOf(KeyOfNumber(1)), 10U);
  EXPECT_EQ(PayloadOf(KeyOfNumber(2)), 0U);
  table.Find(KeyOfNumber(1)).SetPayload(11);
  EXPECT_EQ(PayloadOf(KeyOfNumber(1)), 11U);
  table.Erase(table.Find(KeyOfNumber(1)));
  EXPECT_EQ(PayloadOf(KeyOfNumber(1)), 0U);
  EXPECT_EQ(table.size(), 0U);
}

TEST_F(BlockTableTest, KeysDependOnTheSeed) {
  EXPECT_NE(BlockTable::KeyOf(1, 1), BlockTable::KeyOf(1, 2));
  EXPECT_NE(BlockTable::KeyOf(1, 1), BlockTable::KeyOf(2, 1));
}

// Against a std::map, while the table grows from its first size; rounds of work erase and change entries.
TEST_F(BlockTableTest, AgreesWithAMapUnderChurnAndGrowth) {
  Rng rng(3);
  std::map<std::uint64_t, Payload> truth;
  for (int i = 0; i < 300'000; ++i) {
    if (table.size() >= table.capacity() && !table.growing()) table.StartGrowth();
    const std::uint64_t number = rng.Below(40'000);
    const Key key = KeyOfNumber(number);
    const auto found = truth.find(number);
    ASSERT_EQ(PayloadOf(key), found == truth.end() ? 0 : found->second) << i;
    if (found == truth.end()) {
      const auto payload = static_cast<Payload>(1 + rng.Below(0xFFFF'FFFFU));
      ASSERT_TRUE(table.Insert(key, payload));
      truth.emplace(number, payload);
    } else if (rng.Below(4) == 0) {
      table.Erase(table.Find(key));
      truth.erase(found);
    } else {
      table.Find(key).SetPayload(++found->second);
    }
    ASSERT_EQ(table.size(), truth.size());
    if (table.growing()) table.Work(4, Keep);
    if (i % 64 == 0) Advance();
  }
  EXPECT_GT(table.memory_bytes(), 64U * 20'000U / 4U);
  for (const auto& [number, payload] : truth) EXPECT_EQ(PayloadOf(KeyOfNumber(number)), payload);
}

TEST_F(BlockTableTest, WorkVisitsEveryEntryWhetherItGrowsOrNot) {
  for (std::uint64_t number = 0; number < table.capacity(); ++number) {
    ASSERT_TRUE(table.Insert(KeyOfNumber(number), static_cast<Payload>(number + 1)));
  }
  const std::size_t count = table.size();
  for (const bool growing : {false, true}) {
    if (growing) table.StartGrowth();
    std::size_t visited = 0;
    const auto double_up = [&](Payload payload) {
      ++visited;
      return payload << 8U;
    };
    for (int i = 0; i < 10'000 && visited < count; ++i) table.Work(1, double_up);
    EXPECT_EQ(visited, count);
  }
  for (std::uint64_t number = 0; number < count; ++number) {
    EXPECT_EQ(PayloadOf(KeyOfNumber(number)), (number + 1) << 16U);
  }
  table.Work(100'000, [](Payload) { return Payload{0}; });
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(PayloadOf(KeyOfNumber(1)), 0U);
}

TEST_F(BlockTableTest, FreedSlotWaitsUntilItsReadersAreGone) {
  ASSERT_TRUE(table.Insert(KeyOfNumber(1), 1));
  // The state of a reader that has found the key and has not read the payload yet.
  const BlockTable::Slot slot = table.Find(KeyOfNumber(1));
  {
    const EpochGate::Pin pin(gate);
    table.Erase(slot);
    for (std::uint64_t number = 2; number < table.capacity(); ++number) {
      ASSERT_TRUE(table.Insert(KeyOfNumber(number), 2));
      Advance();
      ASSERT_EQ(slot.payload(), 0U);
      table.Erase(table.Find(KeyOfNumber(number)));
    }
  }
  Advance();
  bool taken = false;
  for (std::uint64_t number = 2; number < 20'000 && !taken; ++number) {
    ASSERT_TRUE(table.Insert(KeyOfNumber(number), 2));
    taken = slot.payload() == 2;
    table.Erase(table.Find(KeyOfNumber(number)));
    Advance();
  }
  EXPECT_TRUE(taken);
}

TEST_F(BlockTableTest, TakesAtMostTwentyThreeBytesPerEntryOnceItIsLarge) {
  constexpr std::uint64_t kEntries = testing_support::kSanitized ? 300'000 : 1'000'000;
  for (std::uint64_t number = 0; number < kEntries; ++number) {
    if (table.size() >= table.capacity() && !table.growing()) table.StartGrowth();
    ASSERT_TRUE(table.Insert(KeyOfNumber(number), 1));
    if (table.growing()) table.Work(4, Keep);
    if (number % 1024 == 0) Advance();
    const double bytes = static_cast<double>(table.memory_bytes()) / static_cast<double>(table.size());
    ASSERT_TRUE(number < 100'000 || bytes < 23) << number << ": " << bytes;
  }
}

}  // namespace
}  // namespace roost::router
