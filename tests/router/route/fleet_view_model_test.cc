// FleetView against a list that is scanned, under random changes.
#include "router/route/fleet_view.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kSlots = 24;

class NaiveFleet {
 public:
  void Set(const WorkerView& worker) {
    workers_[worker.slot] = worker;
    // As the view does it: a worker's load is computed when the worker is set.
    loads_[worker.slot] = LoadTokens(worker, Speed());
  }
  void Remove(WorkerSlot slot) {
    workers_.erase(slot);
    loads_.erase(slot);
  }

  [[nodiscard]] FleetSpeed Speed() const {
    FleetSpeed speed;
    double prefills_known = 0;
    double decodes_known = 0;
    for (const auto& [slot, worker] : workers_) {
      speed.busy_share += worker.busy_share / static_cast<double>(workers_.size());
      if (worker.prefill_tokens_per_second > 0) ++prefills_known;
      if (worker.decode_step_seconds > 0) ++decodes_known;
    }
    for (const auto& [slot, worker] : workers_) {
      if (prefills_known > 0) speed.prefill_tokens_per_second += worker.prefill_tokens_per_second / prefills_known;
      if (decodes_known > 0) speed.decode_step_seconds += worker.decode_step_seconds / decodes_known;
    }
    return speed;
  }
  [[nodiscard]] std::optional<WorkerSlot> NextAfter(std::optional<WorkerSlot> slot) const {
    if (workers_.empty()) return std::nullopt;
    for (const auto& [candidate, worker] : workers_) {
      if (!slot.has_value() || candidate > *slot) return candidate;
    }
    return workers_.begin()->first;
  }

  std::map<WorkerSlot, WorkerView> workers_;
  std::map<WorkerSlot, double> loads_;
};

std::vector<WorkerSlot> LeastLoadedOf(const FleetView& fleet) {
  std::vector<WorkerSlot> slots;
  fleet.VisitLeastLoaded([&](const WorkerView& worker) {
    slots.push_back(worker.slot);
    return true;
  });
  return slots;
}

class FleetViewModelTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void ChangeOne() {
    const WorkerSlot slot(static_cast<std::uint32_t>(rng_.Below(kSlots)));
    if (rng_.Below(4) == 0) {
      fleet_.Remove(slot);
      naive_.Remove(slot);
    } else {
      const WorkerView worker = RandomWorker(slot, rng_);
      fleet_.Set(worker);
      naive_.Set(worker);
    }
  }

  void CheckMembers() {
    ASSERT_EQ(fleet_.size(), naive_.workers_.size());
    ASSERT_EQ(fleet_.workers().size(), naive_.workers_.size());
    for (std::uint32_t i = 0; i < kSlots + 2; ++i) {
      const WorkerSlot slot(i);
      const WorkerView* const found = fleet_.Find(slot);
      ASSERT_EQ(found != nullptr, naive_.workers_.contains(slot)) << i;
      if (found == nullptr) continue;
      ASSERT_EQ(found->slot, slot);
      ASSERT_EQ(found->queued_prefill_tokens, naive_.workers_.at(slot).queued_prefill_tokens);
    }
  }
  void CheckOrder() {
    const std::vector<WorkerSlot> order = LeastLoadedOf(fleet_);
    ASSERT_EQ(order.size(), naive_.workers_.size());
    for (std::size_t i = 1; i < order.size(); ++i) {
      // The sums of rates are rounded differently, so neighbours may differ by the rounding error.
      ASSERT_LE(naive_.loads_.at(order[i - 1]), naive_.loads_.at(order[i]) * (1 + 1e-9) + 1e-12);
    }
  }
  void CheckSpeed() {
    const FleetSpeed expected = naive_.Speed();
    const FleetSpeed actual = fleet_.speed();
    ASSERT_NEAR(actual.prefill_tokens_per_second, expected.prefill_tokens_per_second, 1e-6);
    ASSERT_NEAR(actual.decode_step_seconds, expected.decode_step_seconds, 1e-9);
    ASSERT_NEAR(actual.busy_share, expected.busy_share, 1e-9);
  }
  void CheckTurns() {
    for (std::uint32_t i = 0; i <= kSlots; ++i) {
      const std::optional<WorkerSlot> from = i == kSlots ? std::nullopt : std::optional(WorkerSlot(i));
      const WorkerView* const next = fleet_.NextAfter(from);
      const std::optional<WorkerSlot> expected = naive_.NextAfter(from);
      ASSERT_EQ(next != nullptr, expected.has_value());
      if (next == nullptr) continue;
      ASSERT_EQ(next->slot, *expected);
    }
  }

  Rng rng_{GetParam()};
  FleetView fleet_;
  NaiveFleet naive_;
};

TEST_P(FleetViewModelTest, AnswersAsAListThatIsSearched) {
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", change " << i);
    ChangeOne();
    ASSERT_NO_FATAL_FAILURE(CheckMembers());
    ASSERT_NO_FATAL_FAILURE(CheckOrder());
    ASSERT_NO_FATAL_FAILURE(CheckSpeed());
    ASSERT_NO_FATAL_FAILURE(CheckTurns());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FleetViewModelTest, testing::Range<std::uint64_t>(1, 9));

TEST(FleetViewTest, OfEqualLoadsTheOneThatWaitsLongestComesFirst) {
  std::vector<WorkerView> workers{Idle(0), Idle(1), Idle(2), Idle(3)};
  workers[0].last_sent = 7;
  workers[1].last_sent = 5;
  workers[2].queued_prefill_tokens = 1;
  EXPECT_EQ(LeastLoadedOf(FleetOf(workers)), (std::vector{WorkerSlot(3), WorkerSlot(1), WorkerSlot(0), WorkerSlot(2)}));
}

}  // namespace
}  // namespace roost::router
