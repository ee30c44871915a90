#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/base/rng.h"
#include "worker/cache/claims.h"

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kStart{seconds(1)};
constexpr BlockHash kA{1, 1};
constexpr BlockHash kB{2, 2};
constexpr BlockHash kC{3, 3};

std::vector<BlockHash> Expired(PinTable& pins, Instant now) {
  std::vector<BlockHash> expired;
  pins.TakeExpired(now, expired);
  return expired;
}

TEST(PinTableTest, HoldsWhatIsAddedUntilItIsRemoved) {
  PinTable pins;
  EXPECT_FALSE(pins.Contains(kA));
  pins.Add(kA, std::nullopt);
  pins.Add(kB, kStart);
  EXPECT_TRUE(pins.Contains(kA));
  EXPECT_TRUE(pins.Contains(kB));
  EXPECT_EQ(pins.size(), 2U);
  pins.Remove(kA);
  pins.Remove(kB);
  pins.Remove(kC);
  EXPECT_FALSE(pins.Contains(kA));
  EXPECT_EQ(pins.size(), 0U);
  EXPECT_THAT(Expired(pins, kStart), IsEmpty());
}

TEST(PinTableTest, APinEndsAtItsEndAndNotBefore) {
  PinTable pins;
  pins.Add(kA, kStart + seconds(1));
  EXPECT_THAT(Expired(pins, kStart + seconds(1) - Duration(1)), IsEmpty());
  EXPECT_THAT(Expired(pins, kStart + seconds(1)), ElementsAre(kA));
  EXPECT_FALSE(pins.Contains(kA));
}

TEST(PinTableTest, APinWithoutEndStays) {
  PinTable pins;
  pins.Add(kA, std::nullopt);
  EXPECT_THAT(Expired(pins, kStart + hours(100'000)), IsEmpty());
  EXPECT_TRUE(pins.Contains(kA));
}

TEST(PinTableTest, APrefixEndsBackToFront) {
  PinTable pins;
  for (const BlockHash hash : {kA, kB, kC}) pins.Add(hash, kStart);
  EXPECT_THAT(Expired(pins, kStart), ElementsAre(kC, kB, kA));
}

TEST(PinTableTest, ExpiredPinsAreAppended) {
  PinTable pins;
  pins.Add(kB, kStart);
  pins.Add(kC, kStart);
  std::vector<BlockHash> expired{kA};
  pins.TakeExpired(kStart, expired);
  EXPECT_THAT(expired, ElementsAre(kA, kC, kB));
}

TEST(PinTableTest, ASecondPinTakesThePlaceOfTheFirst) {
  PinTable pins;
  pins.Add(kA, kStart);
  pins.Add(kA, kStart + hours(1));
  EXPECT_EQ(pins.size(), 1U);
  EXPECT_THAT(Expired(pins, kStart), IsEmpty());
  pins.Add(kA, std::nullopt);
  EXPECT_THAT(Expired(pins, kStart + hours(1)), IsEmpty());
  pins.Add(kA, kStart + hours(2));
  EXPECT_THAT(Expired(pins, kStart + hours(2)), ElementsAre(kA));
}

TEST(PinTableTest, AgreesWithAMapOnRandomOperations) {
  Rng rng(1);
  PinTable pins;
  std::map<BlockHash, std::optional<Instant>> expected;
  Instant now = kStart;
  for (int operation = 0; operation < 20'000; ++operation) {
    const BlockHash hash{0, rng.Below(30)};
    const std::uint64_t choice = rng.Below(4);
    if (choice == 0) {
      now += seconds(rng.Below(3));
      std::vector<BlockHash> ended;
      for (const auto& [pin, end] : expected) {
        if (end && *end <= now) ended.push_back(pin);
      }
      for (const BlockHash pin : ended) expected.erase(pin);
      ASSERT_THAT(Expired(pins, now), testing::UnorderedElementsAreArray(ended));
    } else if (choice == 1) {
      pins.Remove(hash);
      expected.erase(hash);
    } else {
      const std::optional<Instant> end = rng.Below(3) == 0 ? std::nullopt : std::optional(now + seconds(rng.Below(10)));
      pins.Add(hash, end);
      expected[hash] = end;
    }
    ASSERT_EQ(pins.size(), expected.size());
    ASSERT_EQ(pins.Contains(hash), expected.contains(hash));
  }
}

}  // namespace
}  // namespace roost::worker
