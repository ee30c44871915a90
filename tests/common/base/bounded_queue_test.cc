#include "common/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace roost {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueueTest, FullIsAnAnswerAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(queue.size(), 1U);
}

TEST(BoundedQueueTest, CloseRefusesPushesAndDrainsPops) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.TryPush(1));
  queue.Close();
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_EQ(queue.PopFor(1h), 1);
  EXPECT_EQ(queue.PopFor(1h), std::nullopt);
}

TEST(BoundedQueueTest, KeepsOrderBetweenThreads) {
  constexpr int kCount = 20000;
  BoundedQueue<int> queue(64);
  std::thread producer([&] {
    for (int i = 0; i < kCount;) {
      if (queue.TryPush(int{i})) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int expected = 0; expected < kCount; ++expected) ASSERT_EQ(queue.PopFor(1h), expected);
  producer.join();
}

}  // namespace
}  // namespace roost
