#include "common/prefix/keyed_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/rng.h"

namespace roost {
namespace {

template <typename Key>
Key MakeKey(std::uint64_t number);
template <>
std::uint64_t MakeKey(std::uint64_t number) {
  return number;
}
// Two keys each have the same low half, and so the same home.
template <>
BlockHash MakeKey(std::uint64_t number) {
  return {number, number / 2};
}

// Random operations on both; every answer is compared.
template <typename Key>
class Comparison {
 public:
  explicit Comparison(std::uint64_t seed)
      : rng_(seed),
        slot_count_(static_cast<std::uint32_t>(2 + rng_.Below(40))),
        capacity_(static_cast<std::uint32_t>(1 + rng_.Below(slot_count_))),
        slots_(slot_count_, capacity_) {}

  void Step() {
    const Key key = MakeKey<Key>(rng_.Below(60));
    const auto slot = static_cast<std::uint32_t>(rng_.Below(slot_count_));
    const bool taken = slot_of_.contains(key_of_[slot]) && slot_of_[key_of_[slot]] == slot;
    ASSERT_EQ(slots_.Holds(slot), taken);
    if (!taken && !slot_of_.contains(key) && slot_of_.size() < capacity_) {
      Put(slot, key);
    } else if (!taken && slot_of_.contains(key)) {
      slots_.Move(slot_of_[key], slot);
      Place(slot, key);
    } else if (taken) {
      slots_.Erase(slot);
      slot_of_.erase(key_of_[slot]);
    }
    const auto found = slot_of_.find(key);
    ASSERT_EQ(slots_.Find(key), found == slot_of_.end() ? std::nullopt : std::optional(found->second));
    ASSERT_EQ(slots_.size(), slot_of_.size());
  }

 private:
  void Put(std::uint32_t slot, Key key) {
    slots_.Put(slot, key);
    Place(slot, key);
  }

  void Place(std::uint32_t slot, Key key) {
    slot_of_[key] = slot;
    key_of_[slot] = key;
    ASSERT_EQ(slots_.key(slot), key);
  }

  Rng rng_;
  std::uint32_t slot_count_;
  std::uint32_t capacity_;
  KeyedSlots<Key> slots_;
  std::map<Key, std::uint32_t> slot_of_;
  std::map<std::uint32_t, Key> key_of_;  // the last key of a slot
};

template <typename Key>
void CompareUnderChurn() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Comparison<Key> comparison(seed);
    for (int step = 0; step < 5000; ++step) {
      comparison.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(KeyedSlotsTest, AgreesWithAMapUnderChurnOfHalfHashes) { CompareUnderChurn<std::uint64_t>(); }

TEST(KeyedSlotsTest, AgreesWithAMapUnderChurnOfHashes) { CompareUnderChurn<BlockHash>(); }

TEST(KeyedSlotsDeathTest, StopsAtMisuse) {
  KeyedSlots<std::uint64_t> slots(2, 1);
  EXPECT_DEATH(slots.Erase(0), "holds no key");
  slots.Put(0, 7);
  EXPECT_DEATH(slots.Put(1, 8), "1 keys");
}

}  // namespace
}  // namespace roost
