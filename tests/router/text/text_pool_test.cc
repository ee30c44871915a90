#include "router/text/text_pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <memory>
#include <string>

#include "tests/support/out_of_memory.h"

namespace roost::router {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr std::string_view kTenant = "a";
constexpr std::size_t kShort = 1000;
constexpr std::size_t kLong = TextPool::kLargeBytes + 1;

// A job that begins and then waits for the test.
class Gate {
 public:
  // The job may still be inside when the gate is destroyed.
  [[nodiscard]] std::function<void()> Job() const {
    return [state = state_] {
      state->begun.set_value();
      state->open.get_future().wait();
    };
  }
  [[nodiscard]] bool HasBegun() { return state_->begun.get_future().wait_for(kPatience) == std::future_status::ready; }
  void Open() { state_->open.set_value(); }

 private:
  struct State {
    std::promise<void> begun;
    std::promise<void> open;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class TextPoolTest : public ::testing::Test {
 protected:
  // Records its name when it runs.
  std::function<void()> Note(char name) {
    return [this, name] {
      const std::lock_guard lock(mutex_);
      order_ += name;
      noted_.notify_all();
    };
  }
  // Waits for so many notes.
  std::string OrderOf(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(noted_.wait_for(lock, kPatience, [&] { return order_.size() == count; }));
    return order_;
  }
  // Waits until all jobs that were posted before have run: this job is the last.
  std::string OrderOf(TextPool& pool) {
    const auto done = std::make_shared<std::promise<void>>();  // the job may still be using it when the wait ends
    EXPECT_TRUE(pool.TryPost(kTenant, std::size_t{1} << 40U, [done] { done->set_value(); }));
    EXPECT_EQ(done->get_future().wait_for(kPatience), std::future_status::ready);
    const std::lock_guard lock(mutex_);
    return order_;
  }

  std::mutex mutex_;
  std::condition_variable noted_;
  std::string order_;
};

TEST_F(TextPoolTest, AShortJobOvertakesALongOneThatCameBefore) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kTenant, kShort, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  ASSERT_TRUE(pool.TryPost(kTenant, 100 * kShort, Note('l')));
  ASSERT_TRUE(pool.TryPost(kTenant, kShort, Note('a')));
  ASSERT_TRUE(pool.TryPost(kTenant, kShort, Note('b')));
  gate.Open();
  EXPECT_EQ(OrderOf(pool), "abl");
}

TEST_F(TextPoolTest, ALongJobGoesWhenOthersHadAsManyBytes) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kTenant, 0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  const std::size_t turns = 10;
  const std::size_t bytes = 9 * TextPool::kJobBytes;
  ASSERT_TRUE(pool.TryPost(kTenant, turns * (bytes + TextPool::kJobBytes) - 1, Note('l')));
  // One connection that asks repeatedly: each job posts the next one.
  std::function<void(int)> post = [&](int left) {
    EXPECT_TRUE(pool.TryPost(kTenant, bytes, [&, left] {
      Note('s')();
      if (left > 1) post(left - 1);
    }));
  };
  post(20);
  gate.Open();
  const std::string order = OrderOf(pool);
  EXPECT_EQ(order.find('l'), turns) << order;
  pool.Stop();
}

TEST_F(TextPoolTest, ATenantThatAskedLittleGoesBeforeAllThatAnotherHasSent) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kTenant, kShort, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(pool.TryPost(kTenant, 20 * kLong, Note('l')));
  ASSERT_TRUE(pool.TryPost("b", 2 * kLong, Note('b')));  // long too
  gate.Open();
  EXPECT_EQ(OrderOf(31).find('b'), 0U);
}

TEST_F(TextPoolTest, TenantsThatWaitGetEqualSharesOfTheBytes) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost("c", kShort, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  // Each of the one is as long as four of the other.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.TryPost(kTenant, 4 * kShort + 3 * TextPool::kJobBytes, Note('l')));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(pool.TryPost("b", kShort, Note('s')));
  gate.Open();
  const std::string order = OrderOf(50);
  for (std::size_t end = 5; end <= order.size(); end += 5) {
    EXPECT_EQ(std::count(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(end), 'l'), end / 5) << order;
  }
}

TEST_F(TextPoolTest, AShareThatWasNotUsedIsNotSaved) {
  TextPool pool({.thread_count = 1});
  ASSERT_TRUE(pool.TryPost("b", kShort, [] {}));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.TryPost(kTenant, kShort, Note('a')));
  ASSERT_EQ(OrderOf(10), "aaaaaaaaaa");  // meanwhile the other tenant asks nothing
  Gate gate;
  ASSERT_TRUE(pool.TryPost("c", kShort, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.TryPost("b", kShort, Note('b')));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.TryPost("d", kShort, Note('d')));
  gate.Open();
  EXPECT_EQ(OrderOf(30), "aaaaaaaaaabdbdbdbdbdbdbdbdbdbd");
}

TEST_F(TextPoolTest, ManyTenantsComeAndGo) {
  TextPool pool({.thread_count = 1});
  for (std::size_t i = 0; i < 3 * TextPool::kMaxIdleTenants; ++i) {
    ASSERT_TRUE(pool.TryPost(fmt::format("t{}", i), kShort, [] {}));
  }
  ASSERT_TRUE(pool.TryPost("t0", kShort, Note('a')));
  EXPECT_EQ(OrderOf(1), "a");
}

TEST_F(TextPoolTest, LongJobsLeaveAThreadToShortOnes) {
  TextPool pool({.thread_count = 2});
  Gate first;
  Gate second;
  Gate small;
  ASSERT_TRUE(pool.TryPost(kTenant, kLong, first.Job()));
  ASSERT_TRUE(first.HasBegun());
  ASSERT_TRUE(pool.TryPost(kTenant, kLong, [&] { Note('l')(), second.Job()(); }));
  ASSERT_TRUE(pool.TryPost(kTenant, kShort, small.Job()));
  EXPECT_TRUE(small.HasBegun());  // while the first long one still runs
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(order_, "");
  }
  first.Open();
  EXPECT_TRUE(second.HasBegun());
  second.Open();
  small.Open();
}

TEST_F(TextPoolTest, RefusesWhatIsMoreThanMayWait) {
  TextPool pool({.thread_count = 1, .max_jobs = 2});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kTenant, 0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  EXPECT_TRUE(pool.TryPost(kTenant, 0, Note('a')));
  EXPECT_TRUE(pool.TryPost(kTenant, kLong, Note('b')));
  EXPECT_FALSE(pool.TryPost(kTenant, 0, Note('c')));
  gate.Open();
}

TEST_F(TextPoolTest, StopDropsWhatWaitsAndEndsWhatRuns) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kTenant, 0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  const auto held = std::make_shared<int>(0);
  ASSERT_TRUE(pool.TryPost(kTenant, 0, [this, held] { Note('a')(); }));
  std::thread stopper([&pool] { pool.Stop(); });
  while (held.use_count() > 1) std::this_thread::yield();
  gate.Open();
  stopper.join();
  EXPECT_EQ(order_, "");
  EXPECT_FALSE(pool.TryPost(kTenant, 0, Note('b')));
}

TEST_F(TextPoolTest, AJobThatFindsNoMemoryEndsAlone) {
  TextPool pool({.thread_count = 1});
  ASSERT_TRUE(pool.TryPost(kTenant, 0, [] { testing_support::FailAllocation(); }));
  ASSERT_TRUE(pool.TryPost(kTenant, 0, Note('a')));
  EXPECT_EQ(OrderOf(pool), "a");
}

}  // namespace
}  // namespace roost::router
