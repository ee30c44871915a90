#include "worker/grammar/grammar_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/clock.h"
#include "tests/support/fake_constrainer.h"

namespace roost::worker {
namespace {

using testing_support::FakeAutomaton;

class FakeGrammar final : public CompiledGrammar {
 public:
  explicit FakeGrammar(std::size_t bytes) : bytes_(bytes) {}
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  [[nodiscard]] std::unique_ptr<Automaton> Start() const override { return std::make_unique<FakeAutomaton>(1, 97); }

 private:
  std::size_t bytes_;
};

// Compiles when the gate is open. A constraint's text is the size of its grammar, "bad", or "busy": not in time.
class GatedLibrary final : public GrammarLibrary {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = true;
    int compiled_count = 0;
    void Set(bool open) {
      const std::lock_guard lock(mutex);
      is_open = open;
      changed.notify_all();
    }
  };
  explicit GatedLibrary(Gate& gate) : gate_(gate) {}
  [[nodiscard]] Result<std::shared_ptr<const CompiledGrammar>> Compile(
      const wire::Constraint& constraint) const override {
    std::unique_lock lock(gate_.mutex);
    ++gate_.compiled_count;
    gate_.changed.notify_all();
    gate_.changed.wait(lock, [this] { return gate_.is_open; });
    if (constraint.text == "bad") return InvalidArgument(constraint.field, "is bad");
    if (constraint.text == "busy") return Error{ErrorCode::kUnavailable, "is busy", constraint.field};
    return std::shared_ptr<const CompiledGrammar>(std::make_shared<FakeGrammar>(std::stoull(constraint.text)));
  }
  [[nodiscard]] CompileLength LengthOf(const wire::Constraint& constraint) const override {
    return constraint.kind == wire::ConstraintKind::kGrammar ? CompileLength::kLong : CompileLength::kShort;
  }

 private:
  Gate& gate_;
};

class GrammarPoolTest : public testing::Test {
 protected:
  GrammarPool& Pool(GrammarPoolOptions options = {}) {
    pool_ = std::make_unique<GrammarPool>(std::make_unique<GatedLibrary>(gate_), options, clock_, [this] {
      const std::lock_guard lock(mutex_);
      ++wake_count_;
      woken_.notify_all();
    });
    return *pool_;
  }
  static Constrainer::Job JobOf(std::uint64_t id, std::string text, std::vector<TokenId> output = {}) {
    return {id, {.kind = wire::ConstraintKind::kRegex, .text = std::move(text), .field = "f"}, std::move(output)};
  }
  static Constrainer::Job LongJobOf(std::uint64_t id, std::string text) {
    Constrainer::Job job = JobOf(id, std::move(text));
    job.constraint.kind = wire::ConstraintKind::kGrammar;
    return job;
  }
  // Waits for the first finished job.
  Constrainer::Done Await() {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [this] { return pool_->HasDone(); });
    std::vector<Constrainer::Done> done = pool_->TakeDone();
    EXPECT_EQ(done.size(), 1U);
    return std::move(done.front());
  }
  void AwaitCompilation(int count) {
    std::unique_lock lock(gate_.mutex);
    gate_.changed.wait(lock, [&] { return gate_.compiled_count >= count; });
  }

  ManualClock clock_;
  GatedLibrary::Gate gate_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wake_count_ = 0;  // guarded by mutex_
  std::unique_ptr<GrammarPool> pool_;
};

TEST_F(GrammarPoolTest, WhatWasCompiledIsThereAtOnce) {
  GrammarPool& pool = Pool();
  pool.Begin(JobOf(1, "10"));
  EXPECT_TRUE(Await().automaton.ok());
  pool.Begin(JobOf(2, "10"));
  ASSERT_TRUE(pool.HasDone());
  EXPECT_EQ(pool.TakeDone().front().id, 2U);
  EXPECT_EQ(gate_.compiled_count, 1);
}

TEST_F(GrammarPoolTest, TheOutputSoFarIsGoneThrough) {
  FakeAutomaton automaton(1, 97);
  std::vector<std::uint32_t> mask(4);
  automaton.FillMask(mask);
  TokenId first = 0;
  while ((mask[first / 32] >> first % 32 & 1U) == 0) ++first;
  GrammarPool& pool = Pool();
  pool.Begin(JobOf(1, "10", {first}));
  const Constrainer::Done done = Await();
  ASSERT_TRUE(done.automaton.ok());
  ASSERT_TRUE(automaton.Accept(first));
  std::vector<std::uint32_t> got(4);
  automaton.FillMask(mask);
  (*done.automaton)->FillMask(got);
  EXPECT_EQ(got, mask);
  pool.Begin(JobOf(2, "10", {0}));
  EXPECT_EQ(Await().automaton.error().field, "f");
}

TEST_F(GrammarPoolTest, ThoseWhoWantTheSameWaitForOneCompilation) {
  gate_.Set(false);
  GrammarPool& pool = Pool();
  pool.Begin(JobOf(1, "10"));
  AwaitCompilation(1);
  pool.Begin(JobOf(2, "10"));
  pool.Begin(JobOf(3, "11"));  // served after the second: then the second waits with the first
  AwaitCompilation(2);
  gate_.Set(true);
  std::size_t done_count = 0;
  while (done_count < 3) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [&] { return pool.HasDone(); });
    for (const Constrainer::Done& done : pool.TakeDone()) {
      EXPECT_TRUE(done.automaton.ok());
      ++done_count;
    }
  }
  EXPECT_EQ(gate_.compiled_count, 2);
}

TEST_F(GrammarPoolTest, ErrorsNameTheField) {
  GrammarPool& pool = Pool({.cache_bytes = 1000});
  pool.Begin(JobOf(1, "bad"));
  EXPECT_EQ(Await().automaton.error().field, "f");
  pool.Begin(JobOf(2, "300"));  // more than a quarter
  EXPECT_EQ(Await().automaton.error().code, ErrorCode::kInvalidArgument);
}

// The machine may be busy, and the constraint good.
TEST_F(GrammarPoolTest, WhatIsNotThereInTimeMayBeTriedAgain) {
  gate_.Set(false);
  GrammarPool& pool = Pool({.wait_limit = std::chrono::seconds(5)});
  pool.Begin(JobOf(1, "10"));
  AwaitCompilation(1);
  EXPECT_FALSE(pool.HasDone());
  clock_.Advance(std::chrono::seconds(5));
  ASSERT_TRUE(pool.HasDone());
  const Constrainer::Done late = std::move(pool.TakeDone().front());
  EXPECT_EQ(late.automaton.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(late.automaton.error().field, "f");
  pool.Begin(JobOf(2, "10"));
  gate_.Set(true);
  EXPECT_TRUE(Await().automaton.ok());
  EXPECT_EQ(gate_.compiled_count, 1);
}

// Another try would take a thread as long again.
TEST_F(GrammarPoolTest, ABadConstraintThatTookLongIsNotTriedAgain) {
  for (const auto& [text, compiled_count] : {std::pair("bad", 1), std::pair("busy", 2)}) {
    gate_.Set(false);
    gate_.compiled_count = 0;
    GrammarPool& pool = Pool();
    pool.Begin(JobOf(1, text));
    AwaitCompilation(1);
    clock_.Advance(std::chrono::seconds(2));
    gate_.Set(true);
    const Error first = Await().automaton.error();
    gate_.Set(false);
    pool.Begin(JobOf(2, text));
    EXPECT_EQ(pool.HasDone(), compiled_count == 1) << "without a turn in the queue";
    gate_.Set(true);
    EXPECT_EQ(Await().automaton.error(), first);
    EXPECT_EQ(gate_.compiled_count, compiled_count);
  }
}

TEST_F(GrammarPoolTest, WhoWaitsForAThreadTooLongIsToldSo) {
  gate_.Set(false);
  GrammarPool& pool = Pool({.thread_count = 2, .wait_limit = std::chrono::seconds(5)});
  pool.Begin(JobOf(1, "10"));
  pool.Begin(JobOf(2, "11"));
  AwaitCompilation(2);
  pool.Begin(JobOf(3, "12"));
  pool.Drop(1);
  pool.Drop(2);
  clock_.Advance(std::chrono::seconds(6));
  const std::vector<Constrainer::Done> done = pool.TakeDone();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done.front().automaton.error().code, ErrorCode::kOverloaded);
  gate_.Set(true);
}

TEST_F(GrammarPoolTest, LongOnesDoNotDelayShortOnes) {
  for (const std::uint32_t thread_count : {1U, 2U, 3U}) {
    gate_.Set(false);
    gate_.compiled_count = 0;
    GrammarPool& pool = Pool({.thread_count = thread_count});
    for (std::uint64_t id = 1; id <= 4; ++id) pool.Begin(LongJobOf(id, std::to_string(10 + id)));
    const int long_count = std::max(1, static_cast<int>(thread_count) - 1);
    AwaitCompilation(long_count);
    pool.Begin(JobOf(5, "10"));
    AwaitCompilation(long_count + 1);  // the short one
    EXPECT_EQ(gate_.compiled_count, long_count + 1);
    gate_.Set(true);
    std::size_t done_count = 0;
    while (done_count < 5) {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [&] { return pool.HasDone(); });
      done_count += pool.TakeDone().size();
    }
  }
}

}  // namespace
}  // namespace roost::worker
