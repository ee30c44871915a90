#include "worker/engine_api/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = wire::CacheEvent::Kind;

BlockHash Hash(std::uint64_t number) { return {number, number}; }

wire::CacheEvent Stored(std::uint32_t first_position, std::vector<BlockHash> hashes) {
  return {
      .kind = Kind::kStored, .stored = {.first_position = first_position, .hashes = std::move(hashes)}, .removed = {}};
}

wire::CacheEvent Removed(std::vector<BlockHash> hashes) {
  return {.kind = Kind::kRemoved, .stored = {}, .removed = std::move(hashes)};
}

class EventLogTest : public testing::Test {
 protected:
  std::vector<wire::CacheEvent> Take() {
    std::vector<wire::CacheEvent> events;
    log_.TakeTo(events);
    return events;
  }

  EventLog log_;
};

TEST_F(EventLogTest, ABlockBehindTheOneStoredLastJoinsItsRun) {
  log_.AddStored(Hash(1), 0, std::nullopt);
  log_.AddStored(Hash(2), 1, Hash(1));
  log_.AddStored(Hash(3), 2, Hash(2));
  EXPECT_THAT(Take(), ElementsAre(Stored(0, {Hash(1), Hash(2), Hash(3)})));
}

TEST_F(EventLogTest, ABlockBehindAnotherBeginsARunOfItsOwn) {
  log_.AddStored(Hash(1), 0, std::nullopt);
  log_.AddStored(Hash(2), 1, Hash(1));
  log_.AddStored(Hash(3), 1, Hash(1));
  log_.AddStored(Hash(4), 0, std::nullopt);
  EXPECT_THAT(Take(), ElementsAre(Stored(0, {Hash(1), Hash(2)}), Stored(1, {Hash(3)}), Stored(0, {Hash(4)})));
}

TEST_F(EventLogTest, RemovalsInARowAreOneEventAndPartRuns) {
  log_.AddStored(Hash(1), 0, std::nullopt);
  log_.AddRemoved(Hash(9));
  log_.AddRemoved(Hash(8));
  log_.AddStored(Hash(2), 1, Hash(1));
  EXPECT_THAT(Take(), ElementsAre(Stored(0, {Hash(1)}), Removed({Hash(9), Hash(8)}), Stored(1, {Hash(2)})));
}

TEST_F(EventLogTest, WhatHasBeenTakenIsContinuedByNothing) {
  log_.AddStored(Hash(1), 0, std::nullopt);
  (void)Take();
  EXPECT_THAT(Take(), IsEmpty());
  log_.AddStored(Hash(2), 1, Hash(1));
  EXPECT_THAT(Take(), ElementsAre(Stored(1, {Hash(2)})));
}

TEST_F(EventLogTest, TakingLeavesEarlierEventsInFront) {
  log_.AddRemoved(Hash(9));
  std::vector<wire::CacheEvent> events{Removed({Hash(7)})};
  log_.TakeTo(events);
  EXPECT_THAT(events, ElementsAre(Removed({Hash(7)}), Removed({Hash(9)})));
}

}  // namespace
}  // namespace roost::worker
