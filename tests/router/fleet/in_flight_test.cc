#include "router/fleet/workers/in_flight.h"

#include <gtest/gtest.h>

#include <deque>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Charge = InFlightLedger::Charge;

constexpr Instant kStart{};

TEST(InFlightLedgerTest, ChargesCountUntilAReportCoversThem) {
  const auto ledger = std::make_shared<InFlightLedger>();
  const Charge early = InFlightLedger::Add(ledger, 100, kStart);
  const Charge late = InFlightLedger::Add(ledger, 30, kStart + 5ms);
  EXPECT_EQ(ledger->uncovered_tokens(), 130U);
  ledger->CoverUntil(kStart + 4ms, 0, 0);
  EXPECT_EQ(ledger->uncovered_tokens(), 30U);
  EXPECT_EQ(ledger->uncovered_requests(), 1U);
  EXPECT_EQ(ledger->request_count(), 2U);
}

TEST(InFlightLedgerTest, CountsWhatHasBegunUntilItsRelease) {
  const auto ledger = std::make_shared<InFlightLedger>();
  Charge first = InFlightLedger::Add(ledger, 100, kStart);
  Charge second = InFlightLedger::Add(ledger, 30, kStart);
  first.OnFirstToken();
  first.OnFirstToken();
  second.OnFirstToken();
  EXPECT_EQ(ledger->begun_count(), 2U);
  Charge moved = std::move(first);
  second = Charge();
  EXPECT_EQ(ledger->begun_count(), 1U);
  moved = Charge();
  EXPECT_EQ(ledger->begun_count(), 0U);
}

TEST(InFlightLedgerTest, EachChargeIsReleasedOnceCoveredOrNot) {
  const auto ledger = std::make_shared<InFlightLedger>();
  Charge first = InFlightLedger::Add(ledger, 10, kStart, 500);
  {
    Charge second = InFlightLedger::Add(ledger, 20, kStart + 1ms, 70);
    EXPECT_EQ(ledger->uncovered_cached_tokens(), 570U);
    Charge moved = std::move(second);
    ledger->CoverUntil(kStart, 0, 0);
    EXPECT_EQ(ledger->uncovered_cached_tokens(), 70U);
  }
  EXPECT_EQ(ledger->uncovered_tokens(), 0U);
  EXPECT_EQ(ledger->uncovered_cached_tokens(), 0U);
  EXPECT_EQ(ledger->request_count(), 1U);
  first = InFlightLedger::Add(ledger, 40, kStart + 2ms);
  EXPECT_EQ(ledger->uncovered_tokens(), 40U);
  EXPECT_EQ(ledger->request_count(), 1U);
  first = {};
  EXPECT_EQ(ledger->request_count(), 0U);
  EXPECT_EQ(ledger->uncovered_requests(), 0U);
}

TEST(InFlightLedgerTest, APromptIsQueuedUntilItsFirstTokenOrItsEnd) {
  const auto ledger = std::make_shared<InFlightLedger>();
  Charge answered = InFlightLedger::Add(ledger, 100, kStart);
  Charge cancelled = InFlightLedger::Add(ledger, 200, kStart);
  ledger->CoverUntil(kStart, 30, 1);
  EXPECT_EQ(ledger->uncovered_tokens(), 0U);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(1000, kStart, 1, 0).all_tokens, 270);
  answered.OnFirstToken();
  answered.OnFirstToken();
  EXPECT_EQ(ledger->request_count(), 2U);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(1000, kStart, 1, 0).all_tokens, 200);
  cancelled = {};
  EXPECT_EQ(ledger->prompts().size(), 0U);
  EXPECT_EQ(ledger->request_count(), 1U);
}

TEST(InFlightLedgerTest, OtherRoutersPromptsAreAsLastReported) {
  const auto ledger = std::make_shared<InFlightLedger>();
  const Charge own = InFlightLedger::Add(ledger, 100, kStart);
  ledger->SetOthers(std::vector<wire::OtherPrompt>{{700, 1000}, {40, 0}}, kStart + 2s);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(1000, kStart + 2s, 1, 0).all_tokens, 840);
  EXPECT_EQ(ledger->prompts().size(), 1U);
  EXPECT_EQ(ledger->request_count(), 1U);
  EXPECT_EQ(ledger->uncovered_tokens(), 100U);
  ledger->SetOthers(std::vector<wire::OtherPrompt>{{30, 0}}, kStart + 3s);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(1000, kStart + 3s, 1, 0).all_tokens, 130);
  ledger->SetOthers({}, kStart + 4s);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(1000, kStart + 4s, 1, 0).all_tokens, 100);
}

TEST(InFlightLedgerTest, ItsOwnPromptsAreAsLastReported) {
  const auto ledger = std::make_shared<InFlightLedger>();
  const Charge first = InFlightLedger::Add(ledger, 100, kStart, 0, RequestId(4));
  const Charge second = InFlightLedger::Add(ledger, 300, kStart, 0, RequestId(5));
  ledger->CoverUntil(kStart, 100, 1);  // the shorter one's, as it seems
  ledger->SetOwn(std::vector<wire::OwnPrompt>{{RequestId(4), 100}, {RequestId(5), 200}});
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(150, kStart, 1, 0).before_tokens, 100);
  EXPECT_DOUBLE_EQ(ledger->prompts().PlaceOf(150, kStart, 1, 0).all_tokens, 300);
  EXPECT_EQ(ledger->request_count(), 2U);
}

TEST(InFlightLedgerTest, ChargeMayOutliveItsWorker) {
  auto ledger = std::make_shared<InFlightLedger>();
  const Charge charge = InFlightLedger::Add(ledger, 10, kStart);
  ledger.reset();
}

TEST(InFlightLedgerTest, NothingLeaksInAnyOrder) {
  Rng rng(9);
  const auto ledger = std::make_shared<InFlightLedger>();
  std::deque<Charge> charges;
  Instant now = kStart;
  for (int i = 0; i < 20000; ++i) {
    now += std::chrono::microseconds(rng.Below(50));
    if (rng.Below(2) == 0) {
      charges.push_back(InFlightLedger::Add(ledger, static_cast<std::uint32_t>(rng.Below(1000)), now));
    } else if (!charges.empty()) {
      charges.erase(charges.begin() + static_cast<std::ptrdiff_t>(rng.Below(charges.size())));
    }
    if (rng.Below(10) == 0) ledger->CoverUntil(now - 1ms, 500, 100);
    ASSERT_EQ(ledger->request_count(), charges.size());
    ASSERT_LE(ledger->uncovered_requests(), charges.size());
  }
  charges.clear();
  EXPECT_EQ(ledger->request_count(), 0U);
  EXPECT_EQ(ledger->uncovered_tokens(), 0U);
  EXPECT_EQ(ledger->prompts().size(), 0U);
}

}  // namespace
}  // namespace roost::router
