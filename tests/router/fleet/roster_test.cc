#include "router/fleet/roster.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace roost::router {
namespace {

// What a worker was given to compute lately: by all routers, and as decisions see it.
class GivenTokensTest : public ::testing::Test {
 protected:
  GivenTokensTest() { roster_.SetBundle("digest", TextBundle()); }

  Worker& Join(const std::string& id) {
    wire::Hello hello;
    hello.worker_id = id;
    hello.process_id = 1;
    hello.epoch = ++epoch_;
    hello.model = "demo";
    hello.block_tokens = 16;
    hello.block_count = 4096;
    hello.tokenizer_digest = "digest";
    return *std::move(roster_.Add(id, hello, now_)).value();
  }
  void Report(Worker& worker, std::uint32_t computed_tokens, std::uint64_t queued_tokens) {
    wire::Load load;
    load.step_prefill_tokens = computed_tokens;
    load.step_seconds = 0.1;
    load.queued_prefill_tokens = queued_tokens;
    worker.Report(std::move(load), now_);
    roster_.Refresh(worker);
  }
  double Given(const Worker& worker) {
    return roster_.FleetOf(*roster_.revisions().Main("demo"))->Find(worker.slot)->given_tokens_lately;
  }

  std::uint64_t epoch_ = 0;
  Instant now_{std::chrono::hours(1)};
  Roster roster_{Roster::Options{.worker = {}, .unix_seconds = [] { return std::int64_t{0}; }, .seed = 1}};
};

TEST_F(GivenTokensTest, AreThoseThatItComputedAndThoseThatItHasQueued) {
  Worker& worker = Join("a");
  EXPECT_EQ(Given(worker), 0);
  const auto charge = InFlightLedger::Add(worker.ledger, 300, now_);  // this router's, not reported yet
  roster_.Refresh(worker);
  EXPECT_EQ(Given(worker), 300);
  now_ += std::chrono::seconds(1);
  Report(worker, 200, 1100);  // its first 200, the rest, and 1,000 of others
  EXPECT_EQ(Given(worker), 1300);
  now_ += kGivenHalfLife;
  Report(worker, 0, 0);  // those that were cancelled were not given
  EXPECT_DOUBLE_EQ(Given(worker), 100);
}

TEST_F(GivenTokensTest, BeginWithTheMeanOfThoseThatWereThere) {
  Worker& a = Join("a");
  Worker& b = Join("b");
  Report(a, 3000, 0);
  Report(b, 1000, 0);
  EXPECT_EQ(Given(Join("c")), 2000);
  roster_.Remove("a", now_);
  EXPECT_EQ(Given(Join("a")), 1500);  // another life of its own
  EXPECT_EQ(Given(b), 1000);
}

}  // namespace
}  // namespace roost::router
