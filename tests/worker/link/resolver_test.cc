#include "worker/link/resolver.h"

#include <gtest/gtest.h>

#include <atomic>

namespace roost::worker {
namespace {

constexpr std::chrono::seconds kResolvePatience{10};

class ResolverTest : public ::testing::Test {
 protected:
  // Waits for the next change of the set.
  EndpointSet NextChange(Resolver& resolver) {
    const auto deadline = std::chrono::steady_clock::now() + kResolvePatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (auto change = resolver.TakeChange()) return *change;
      wire::WaitForMessages({}, waker_, std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "no change";
    return {};
  }

  wire::Waker waker_;
};

TEST_F(ResolverTest, FollowsTheAnswers) {
  std::atomic<int> asked{0};
  Resolver::Options options;
  options.names = {{"routers", 7001}, {"10.0.0.9", 7001}};
  options.interval = std::chrono::milliseconds(1);
  options.lookup = [&asked](const wire::Endpoint& name) -> Result<EndpointSet> {
    if (name.host != "routers") return EndpointSet{name.ToString()};
    switch (asked++) {
      case 0: return Error{ErrorCode::kUnavailable, "not yet", name.host};
      case 1: return EndpointSet{"tcp://10.0.0.1:7001", "tcp://10.0.0.2:7001"};
      case 2: return Error{ErrorCode::kUnavailable, "the server is down", name.host};  // changes nothing
      default: return EndpointSet{"tcp://10.0.0.2:7001"};
    }
  };
  // Asked step by step, because the next set replaces one that was not taken.
  Resolver resolver(options, waker_);
  resolver.Start();
  EndpointSet last;
  std::vector<EndpointSet> seen;
  while (last != EndpointSet{"tcp://10.0.0.2:7001", "tcp://10.0.0.9:7001"} && !HasFailure()) {
    last = NextChange(resolver);
    seen.push_back(last);
  }
  resolver.Stop();
  // The set of the failed answer, which is the fixed address alone, is seen at most at the start.
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GT(seen[i].size(), 1U);
}

TEST_F(ResolverTest, KeepsAddressesWhenTheServerFails) {
  std::atomic<int> asked{0};
  Resolver::Options options;
  options.names = {{"routers", 7001}};
  options.interval = std::chrono::milliseconds(1);
  options.lookup = [&asked](const wire::Endpoint& name) -> Result<EndpointSet> {
    if (asked++ == 0) return EndpointSet{"tcp://10.0.0.1:7001"};
    return Error{ErrorCode::kUnavailable, "the server is down", name.host};
  };
  Resolver resolver(options, waker_);
  resolver.Start();
  EXPECT_EQ(NextChange(resolver), EndpointSet{"tcp://10.0.0.1:7001"});
  const auto deadline = std::chrono::steady_clock::now() + kResolvePatience;
  while (asked < 5 && std::chrono::steady_clock::now() < deadline) {
    wire::WaitForMessages({}, waker_, std::chrono::milliseconds(1));
  }
  EXPECT_GE(asked, 5);
  EXPECT_FALSE(resolver.TakeChange().has_value());
}

TEST(ResolveEndpointTest, NumbersAreTheirOwnAnswer) {
  EXPECT_EQ(ResolveEndpoint({"127.0.0.1", 7001}).value(), EndpointSet{"tcp://127.0.0.1:7001"});
  EXPECT_EQ(ResolveEndpoint({"::1", 7001}).value(), EndpointSet{"tcp://[::1]:7001"});
}

TEST(ResolveEndpointTest, UnknownNameIsAnError) {
  const auto answer = ResolveEndpoint({"no such name", 7001});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace roost::worker
