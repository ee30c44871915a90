#include "router/fleet/requests/admission_queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class RequestQueueTest : public ::testing::Test {
 protected:
  static constexpr Instant kStart{1s};

  // Returns the request's number, or nothing when the queue is full.
  std::optional<std::uint64_t> Push(const std::string& tenant, std::uint32_t token_count, std::uint32_t priority = 50,
                                    Duration patience = 10s) {
    const bool taken = queue_.Push({.id = RequestId(++number_),
                                    .tenant = tenant,
                                    .priority = priority,
                                    .token_count = token_count,
                                    .queued_at = kStart,
                                    .deadline = kStart + patience});
    return taken ? std::optional(number_) : std::nullopt;
  }
  std::string PopTenant() {
    const auto request = queue_.Pop();
    return request.has_value() ? request->tenant : "";
  }
  std::vector<std::uint64_t> PopAll() {
    std::vector<std::uint64_t> ids;
    while (const auto request = queue_.Pop()) ids.push_back(request->id.value());
    return ids;
  }
  static std::vector<std::uint64_t> Ids(const std::vector<QueuedRequest>& requests) {
    std::vector<std::uint64_t> ids;
    ids.reserve(requests.size());
    for (const QueuedRequest& request : requests) ids.push_back(request.id.value());
    return ids;
  }

  RequestQueue queue_{1000};
  std::uint64_t number_ = 0;
};

TEST_F(RequestQueueTest, OneTenantsRequestsGoInOrderOfArrival) {
  for (const std::uint32_t tokens : {100U, 9000U, 1U}) Push("a", tokens);
  EXPECT_EQ(PopAll(), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(queue_.Pop(), std::nullopt);
}

TEST_F(RequestQueueTest, HigherPriorityGoesFirst) {
  Push("a", 1, 50);
  Push("a", 1, 0);
  Push("b", 1, 100);
  EXPECT_EQ(PopAll(), (std::vector<std::uint64_t>{3, 1, 2}));
}

TEST_F(RequestQueueTest, IsBounded) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Push("", 1).has_value());
  EXPECT_FALSE(Push("b", 1).has_value());
  queue_.Pop();
  EXPECT_TRUE(Push("b", 1).has_value());
}

TEST_F(RequestQueueTest, ATenantTakesHalfOfItAtMost) {
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(Push("a", 1).has_value());
  EXPECT_FALSE(Push("a", 1).has_value());
  EXPECT_TRUE(Push("b", 1).has_value());
  while (PopTenant() != "a") {
  }
  EXPECT_TRUE(Push("a", 1).has_value());
}

TEST_F(RequestQueueTest, FloodOfOneTenantLeavesTheOthersTheirShare) {
  for (int i = 0; i < 500; ++i) Push("flood", 1000);
  for (int i = 0; i < 20; ++i) Push("quiet", 1000);
  int quiet = 0;
  for (int i = 0; i < 40; ++i) quiet += PopTenant() == "quiet" ? 1 : 0;
  EXPECT_GE(quiet, 16);
}

TEST_F(RequestQueueTest, SharesAreOfTokensNotOfRequests) {
  for (int i = 0; i < 100; ++i) Push("long", 8000);
  for (int i = 0; i < 800; ++i) Push("short", 1000);
  std::map<std::string, std::uint64_t> tokens;
  for (int i = 0; i < 450; ++i) {
    const auto request = queue_.Pop();
    tokens[request->tenant] += request->token_count;
  }
  EXPECT_NEAR(static_cast<double>(tokens["long"]), static_cast<double>(tokens["short"]), 3 * 8000);
}

TEST_F(RequestQueueTest, PromptsOfAnyLengthGetTheirTurn) {
  Push("giant", 4'000'000);
  for (int i = 0; i < 100; ++i) Push("small", 50'000);
  int before = 0;
  while (PopTenant() != "giant") ++before;
  EXPECT_NEAR(before, 80, 2);
}

TEST_F(RequestQueueTest, DeadlinesPassAndTheRestGoesOn) {
  Push("a", 1, 50, 3s);
  Push("a", 1, 50, 1s);
  Push("b", 1, 90, 2s);
  EXPECT_TRUE(queue_.TakeExpired(kStart + 1s).empty());
  EXPECT_EQ(Ids(queue_.TakeExpired(kStart + 2s + 1ms)), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(PopAll(), (std::vector<std::uint64_t>{1}));
}

TEST_F(RequestQueueTest, RemovedRequestsHaveNoTurn) {
  Push("a", 1);
  Push("b", 1);
  EXPECT_TRUE(queue_.Remove(RequestId(1)));
  EXPECT_FALSE(queue_.Remove(RequestId(1)));
  EXPECT_EQ(PopAll(), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(queue_.oldest(), std::nullopt);
}

// ---- against the paper's loop, over vectors ----

class NaiveQueue {
 public:
  void Push(const QueuedRequest& request) {
    std::deque<Flow>& flows = classes_[request.priority];
    auto flow = std::find_if(flows.begin(), flows.end(), [&](auto& other) { return other.tenant == request.tenant; });
    if (flow == flows.end()) flow = flows.insert(flows.end(), {request.tenant, {}, 0, false});
    flow->requests.push_back(request);
  }
  std::optional<QueuedRequest> Pop() {
    while (!classes_.empty()) {
      std::deque<Flow>& flows = classes_.rbegin()->second;
      Flow& flow = flows.front();
      if (!flow.visited) flow.deficit += RequestQueue::kQuantum;
      flow.visited = true;
      if (flow.requests.front().token_count > flow.deficit) {
        flow.visited = false;
        flows.push_back(flow);
        flows.pop_front();
        continue;
      }
      const QueuedRequest request = flow.requests.front();
      flow.deficit -= request.token_count;
      Erase(request.id);
      return request;
    }
    return std::nullopt;
  }
  std::vector<RequestId> TakeExpired(Instant now) {
    std::vector<std::pair<Instant, RequestId>> expired;
    for (const auto& [priority, flows] : classes_) {
      for (const Flow& flow : flows) {
        for (const QueuedRequest& request : flow.requests) {
          if (request.deadline < now) expired.emplace_back(request.deadline, request.id);
        }
      }
    }
    std::sort(expired.begin(), expired.end());
    std::vector<RequestId> ids;
    for (const auto& [deadline, id] : expired) {
      Erase(id);
      ids.push_back(id);
    }
    return ids;
  }
  std::size_t Count(const std::string& tenant) const {
    std::size_t count = 0;
    for (const auto& [priority, flows] : classes_) {
      for (const Flow& flow : flows) count += flow.tenant == tenant ? flow.requests.size() : 0;
    }
    return count;
  }
  bool Erase(RequestId id) {
    for (auto priority = classes_.begin(); priority != classes_.end(); ++priority) {
      for (auto flow = priority->second.begin(); flow != priority->second.end(); ++flow) {
        if (std::erase_if(flow->requests, [&](auto& request) { return request.id == id; }) == 0) continue;
        if (flow->requests.empty()) priority->second.erase(flow);
        if (priority->second.empty()) classes_.erase(priority);
        return true;
      }
    }
    return false;
  }

 private:
  struct Flow {
    std::string tenant;
    std::vector<QueuedRequest> requests;
    std::uint64_t deficit;
    bool visited;
  };
  std::map<std::uint32_t, std::deque<Flow>> classes_;
};

TEST(RequestQueueModelTest, TurnsAreThoseOfThePaper) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    constexpr std::size_t kBound = 60;
    RequestQueue queue(kBound);
    NaiveQueue naive;
    Instant now{1s};
    std::uint64_t number = 0;
    for (int i = 0; i < 400; ++i) {
      now += std::chrono::milliseconds(rng.Below(20));
      const RequestId any(1 + rng.Below(number + 1));
      switch (rng.Below(8)) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const QueuedRequest request{
              .id = RequestId(++number),
              .tenant = std::string(1, static_cast<char>('a' + rng.Below(4))),
              .priority = static_cast<std::uint32_t>(rng.Below(2)),
              .token_count = static_cast<std::uint32_t>(rng.Below(rng.Below(2) == 0 ? 500 : 90'000)),
              .queued_at = now,
              .deadline = now + std::chrono::milliseconds(rng.Below(2000))};
          const bool has_room = queue.size() < kBound && 2 * naive.Count(request.tenant) < kBound;
          if (has_room) naive.Push(request);
          ASSERT_EQ(queue.Push(request), has_room);
          break;
        }
        case 4:
        case 5: {
          const auto expected = naive.Pop();
          const auto popped = queue.Pop();
          ASSERT_EQ(popped.has_value(), expected.has_value());
          ASSERT_TRUE(!popped.has_value() || popped->id == expected->id);
          break;
        }
        case 6: ASSERT_EQ(queue.Remove(any), naive.Erase(any)); break;
        default: {
          const std::vector<RequestId> expected = naive.TakeExpired(now);
          const std::vector<QueuedRequest> expired = queue.TakeExpired(now);
          ASSERT_EQ(expired.size(), expected.size());
          for (std::size_t k = 0; k < expired.size(); ++k) ASSERT_EQ(expired[k].id, expected[k]);
          break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace roost::router
