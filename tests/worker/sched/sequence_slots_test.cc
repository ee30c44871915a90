#include "worker/sched/sequence_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

TEST(SequenceIdsTest, GrowAndAreNeverUsedAgainWhereSlotsAre) {
  SequenceIds ids;
  Rng rng(1);
  std::vector<SequenceId> live;
  SequenceId latest = ids.Take();
  std::size_t most_slots = 1;
  for (int i = 0; i < 2000; ++i) {
    if (live.size() == 30 || (!live.empty() && rng.Below(2) == 0)) {
      const std::size_t gone = rng.Below(live.size());
      ids.Return(live[gone]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(gone));
      continue;
    }
    const SequenceId id = ids.Take();
    ASSERT_GT(id, latest);
    latest = id;
    live.push_back(id);
    std::set<std::size_t> slots;
    for (const SequenceId each : live) slots.insert(SlotOf(each));
    ASSERT_EQ(slots.size(), live.size());
    most_slots = std::max(most_slots, *slots.rbegin() + 1);
  }
  EXPECT_LE(most_slots, 31U);  // the first one is never returned
}

TEST(SequenceSlotsTest, AnIdFindsWhatItHasAndNotWhatHasItsSlotNow) {
  SequenceIds ids;
  SequenceSlots<int> slots;
  const SequenceId first = ids.Take();
  const SequenceId second = ids.Take();
  EXPECT_EQ(slots.Find(second), nullptr);
  slots.Put(second, std::make_unique<int>(2));
  EXPECT_EQ(slots.Find(first), nullptr);
  int& kept = slots.Put(first, std::make_unique<int>(1));
  EXPECT_EQ(slots.size(), 2U);
  slots.Erase(second);
  ids.Return(second);
  const SequenceId third = ids.Take();
  ASSERT_EQ(SlotOf(third), SlotOf(second));
  EXPECT_EQ(slots.Find(third), nullptr);
  EXPECT_EQ(slots.Find(second), nullptr);
  slots.Put(third, std::make_unique<int>(3));
  EXPECT_EQ(slots.Find(second), nullptr);
  EXPECT_EQ(slots.At(third), 3);
  EXPECT_EQ(&slots.At(first), &kept);
  EXPECT_EQ(slots.size(), 2U);
}

TEST(SequenceSlotsTest, MisuseEndsTheProcess) {
  SequenceIds ids;
  SequenceSlots<int> slots;
  const SequenceId id = ids.Take();
  EXPECT_DEATH((void)slots.At(id), "is gone");
  EXPECT_DEATH(slots.Erase(id), "is gone");
  slots.Put(id, std::make_unique<int>(1));
  EXPECT_DEATH(slots.Put(id, std::make_unique<int>(1)), "not free");
}

}  // namespace
}  // namespace roost::worker
