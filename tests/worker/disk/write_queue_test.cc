#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/disk/disk_cache.h"

namespace roost::worker {
namespace {

using Kind = DiskOffer::Kind;

DiskOffer Offer(std::uint64_t name, Kind kind) { return {.block = {.hash = {name, name}, .before = {}}, .kind = kind}; }

std::vector<std::uint64_t> PopAll(WriteQueue& queue) {
  std::vector<std::uint64_t> names;
  while (const std::optional<DiskBlock> block = queue.Pop()) names.push_back(block->hash.low);
  return names;
}

TEST(WriteQueueTest, FoundBlocksGoFirstAndEachKindInItsOrder) {
  WriteQueue queue(10);
  EXPECT_EQ(queue.Push(Offer(1, Kind::kOther)), 0U);
  EXPECT_EQ(queue.Push(Offer(2, Kind::kFound)), 0U);
  EXPECT_EQ(queue.Push(Offer(3, Kind::kOther)), 0U);
  EXPECT_EQ(queue.Push(Offer(4, Kind::kFound)), 0U);
  EXPECT_EQ(PopAll(queue), (std::vector<std::uint64_t>{2, 4, 1, 3}));
  EXPECT_TRUE(queue.empty());
}

TEST(WriteQueueTest, ABlockIsInItOnceAndMovesWhenItIsFound) {
  WriteQueue queue(10);
  (void)queue.Push(Offer(1, Kind::kOther));
  (void)queue.Push(Offer(2, Kind::kOther));
  (void)queue.Push(Offer(2, Kind::kFound));
  (void)queue.Push(Offer(2, Kind::kOther));
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(PopAll(queue), (std::vector<std::uint64_t>{2, 1}));
}

TEST(WriteQueueTest, AFullOneDropsTheNewestOfTheOthers) {
  WriteQueue queue(3);
  for (const std::uint64_t name : {1U, 2U, 3U}) EXPECT_EQ(queue.Push(Offer(name, Kind::kOther)), 0U);
  EXPECT_EQ(queue.Push(Offer(4, Kind::kOther)), 1U);
  EXPECT_EQ(queue.Push(Offer(5, Kind::kFound)), 1U);
  EXPECT_EQ(PopAll(queue), (std::vector<std::uint64_t>{5, 1, 2}));
}

TEST(WriteQueueTest, OneFullOfFoundBlocksDropsWhatComes) {
  WriteQueue queue(2);
  for (const std::uint64_t name : {1U, 2U}) EXPECT_EQ(queue.Push(Offer(name, Kind::kFound)), 0U);
  EXPECT_EQ(queue.Push(Offer(3, Kind::kFound)), 1U);
  EXPECT_EQ(PopAll(queue), (std::vector<std::uint64_t>{1, 2}));
}

}  // namespace
}  // namespace roost::worker
