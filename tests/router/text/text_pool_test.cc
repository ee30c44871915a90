#include "router/text/text_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "tests/support/out_of_memory.h"

namespace roost::router {
namespace {

constexpr std::chrono::seconds kPatience{20};
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
    };
  }
  // Waits until all jobs that were posted before have run: this job is the last.
  std::string OrderOf(TextPool& pool) {
    const auto done = std::make_shared<std::promise<void>>();  // the job may still be using it when the wait ends
    EXPECT_TRUE(pool.TryPost(std::size_t{1} << 40U, [done] { done->set_value(); }));
    EXPECT_EQ(done->get_future().wait_for(kPatience), std::future_status::ready);
    const std::lock_guard lock(mutex_);
    return order_;
  }

  std::mutex mutex_;
  std::string order_;
};

TEST_F(TextPoolTest, AShortJobOvertakesALongOneThatCameBefore) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(kShort, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  ASSERT_TRUE(pool.TryPost(100 * kShort, Note('l')));
  ASSERT_TRUE(pool.TryPost(kShort, Note('a')));
  ASSERT_TRUE(pool.TryPost(kShort, Note('b')));
  gate.Open();
  EXPECT_EQ(OrderOf(pool), "abl");
}

TEST_F(TextPoolTest, ALongJobGoesWhenOthersHadAsManyBytes) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  const std::size_t turns = 10;
  const std::size_t bytes = 9 * TextPool::kJobBytes;
  ASSERT_TRUE(pool.TryPost(turns * (bytes + TextPool::kJobBytes) - 1, Note('l')));
  // One connection that asks repeatedly: each job posts the next one.
  std::function<void(int)> post = [&](int left) {
    EXPECT_TRUE(pool.TryPost(bytes, [&, left] {
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

TEST_F(TextPoolTest, LongJobsLeaveAThreadToShortOnes) {
  TextPool pool({.thread_count = 2});
  Gate first;
  Gate second;
  Gate small;
  ASSERT_TRUE(pool.TryPost(kLong, first.Job()));
  ASSERT_TRUE(first.HasBegun());
  ASSERT_TRUE(pool.TryPost(kLong, [&] { Note('l')(), second.Job()(); }));
  ASSERT_TRUE(pool.TryPost(kShort, small.Job()));
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
  ASSERT_TRUE(pool.TryPost(0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  EXPECT_TRUE(pool.TryPost(0, Note('a')));
  EXPECT_TRUE(pool.TryPost(kLong, Note('b')));
  EXPECT_FALSE(pool.TryPost(0, Note('c')));
  gate.Open();
}

TEST_F(TextPoolTest, StopDropsWhatWaitsAndEndsWhatRuns) {
  TextPool pool({.thread_count = 1});
  Gate gate;
  ASSERT_TRUE(pool.TryPost(0, gate.Job()));
  ASSERT_TRUE(gate.HasBegun());
  const auto held = std::make_shared<int>(0);
  ASSERT_TRUE(pool.TryPost(0, [this, held] { Note('a')(); }));
  std::thread stopper([&pool] { pool.Stop(); });
  while (held.use_count() > 1) std::this_thread::yield();
  gate.Open();
  stopper.join();
  EXPECT_EQ(order_, "");
  EXPECT_FALSE(pool.TryPost(0, Note('b')));
}

TEST_F(TextPoolTest, AJobThatFindsNoMemoryEndsAlone) {
  TextPool pool({.thread_count = 1});
  ASSERT_TRUE(pool.TryPost(0, [] { testing_support::FailAllocation(); }));
  ASSERT_TRUE(pool.TryPost(0, Note('a')));
  EXPECT_EQ(OrderOf(pool), "a");
}

}  // namespace
}  // namespace roost::router
