#include "deploy/roostctl/simulate/request_log.h"

#include <gtest/gtest.h>

#include <chrono>

namespace roost::simulate {
namespace {

constexpr Instant At(int seconds) { return Instant(std::chrono::seconds(seconds)); }

TEST(RequestLogTest, AMovedRequestHasItsLastFirstTokenAndItsFirstEnd) {
  int ended = 0;
  RequestLog log(1, [&ended](std::uint32_t) { ++ended; });
  log.OnArrival(0, 10, At(0));
  log.OnDispatched(0, {});
  log.OnDispatched(0, {});
  log.OnFirstToken(0, {.worker = 1, .cached_token_count = 0}, At(1));
  log.OnFirstToken(0, {.worker = 2, .cached_token_count = 5}, At(2));
  EXPECT_EQ(log.records()[0].first_token, At(2));
  EXPECT_EQ(log.records()[0].worker, 2U);
  log.OnEnd(0, 4, At(3));
  log.OnFirstToken(0, {.worker = 1, .cached_token_count = 0}, At(4));
  log.OnEnd(0, 7, At(5));
  EXPECT_EQ(log.records()[0].first_token, At(2));
  EXPECT_EQ(log.records()[0].end, At(3));
  EXPECT_EQ(log.records()[0].output_token_count, 4U);
  EXPECT_EQ(ended, 1);
}

TEST(RequestLogDeathTest, TwoFirstTokensOfOneDispatchAreAFault) {
  RequestLog log(1, [](std::uint32_t) {});
  log.OnArrival(0, 10, At(0));
  log.OnDispatched(0, {});
  log.OnFirstToken(0, {}, At(1));
  EXPECT_DEATH(log.OnFirstToken(0, {}, At(2)), "is not due");
}

}  // namespace
}  // namespace roost::simulate
