#include "router/index/chain_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace roost::router {
namespace {

// Families in the same set, each with its own tag.
std::uint64_t Family(std::uint64_t tag) { return tag << 48U | 17; }

std::vector<std::uint32_t> Recalled(const ChangeMemory& memory, std::uint64_t family) {
  const ChangeMemory::Changes changes = memory.Recall(family);
  std::vector<std::uint32_t> recalled;
  for (const std::uint32_t position : changes) {
    if (position == ChangeMemory::kNone) break;
    recalled.push_back(position);
  }
  for (std::size_t i = recalled.size(); i < changes.size(); ++i) EXPECT_EQ(changes[i], ChangeMemory::kNone);
  return recalled;
}

using Positions = std::vector<std::uint32_t>;

TEST(ChangeMemoryTest, RecallsWhatTwoLookupsInARowSaw) {
  ChangeMemory memory;
  EXPECT_EQ(Recalled(memory, Family(1)), Positions{});
  memory.Remember(Family(1), Positions{3, 70, 200});
  EXPECT_EQ(Recalled(memory, Family(1)), Positions{});
  memory.Remember(Family(1), Positions{3, 71, 200, 300});
  EXPECT_EQ(Recalled(memory, Family(1)), (Positions{3, 200}));
  memory.Remember(Family(1), Positions{71, 200});
  EXPECT_EQ(Recalled(memory, Family(1)), (Positions{71, 200}));
  memory.Remember(Family(1), Positions{5});
  EXPECT_EQ(Recalled(memory, Family(1)), Positions{});
}

TEST(ChangeMemoryTest, KeepsTheForemostChangesThatItHasRoomFor) {
  ChangeMemory memory;
  for (int i = 0; i < 2; ++i) memory.Remember(Family(1), Positions{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(Recalled(memory, Family(1)), (Positions{1, 2, 3, 4, 5, 6}));
  for (int i = 0; i < 2; ++i) memory.Remember(Family(2), Positions{1, 65'535, 65'536, 70'000});
  EXPECT_EQ(Recalled(memory, Family(2)), (Positions{1, 65'535}));
}

TEST(ChangeMemoryTest, TheFamilyLookedUpLongestAgoGivesWay) {
  ChangeMemory memory;
  const auto remember_twice = [&](std::uint64_t tag) {
    for (int i = 0; i < 2; ++i) memory.Remember(Family(tag), Positions{static_cast<std::uint32_t>(100 + tag)});
  };
  for (std::uint64_t tag = 1; tag <= 4; ++tag) remember_twice(tag);
  remember_twice(1);
  remember_twice(5);
  for (const std::uint32_t tag : {1U, 3U, 4U, 5U}) EXPECT_EQ(Recalled(memory, Family(tag)), Positions{100 + tag});
  EXPECT_EQ(Recalled(memory, Family(2)), Positions{});
  memory.Remember(Family(2), Positions{102});
  EXPECT_EQ(Recalled(memory, Family(2)), Positions{});
}

}  // namespace
}  // namespace roost::router
