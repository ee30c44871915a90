// Evictions on demand: what leaves the cache while requests run, and how much of a step they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>

#include "tests/support/heap_staging.h"
#include "tests/worker/engine/engine_fixture.h"
#include "worker/transfer/frame_memory.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;

constexpr BlockHash kOtherRoot{33, 44};

class EngineEvictionsTest : public EngineTest {
 protected:
  static wire::Generate RequestOf(const std::string& tenant, std::uint64_t id, std::vector<TokenId> prompt,
                                  std::uint32_t max_output_tokens, BlockHash root = kRoot) {
    wire::Generate request = GreedyRequest(id, std::move(prompt), max_output_tokens, root);
    request.tenant = tenant;
    return request;
  }
  static wire::Evict Prompt(std::vector<TokenId> tokens, BlockHash root = kRoot) {
    return {wire::PromptToEvict{root, std::move(tokens), {}}, 7};
  }
  static wire::Evict Tenant(const std::string& name) { return {wire::TenantToEvict{name}, 7}; }

  void Order(wire::Evict order) { EXPECT_EQ(harness_->engine().CarryOut(kLink, std::move(order)), std::nullopt); }
  // Steps until the answer is there.
  wire::EvictAnswer Answer() {
    for (int step = 0; step < 100; ++step) {
      const StepReport report = harness_->Step();
      if (report.answers.empty()) continue;
      EXPECT_EQ(report.answers.size(), 1U);
      EXPECT_EQ(report.answers[0].link, kLink);
      EXPECT_EQ(AnswerIdOf(report.answers[0].answer), 7U);
      return std::get<wire::EvictAnswer>(report.answers[0].answer);
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  wire::EvictAnswer Evict(wire::Evict order) {
    Order(std::move(order));
    return Answer();
  }
  [[nodiscard]] std::uint32_t CachedOf(std::vector<TokenId> prompt, BlockHash root = kRoot) {
    return harness_->Serve(GreedyRequest(next_id_++, std::move(prompt), 1, root)).cached_token_count.value_or(0);
  }
  void StepTimes(int count) {
    for (; count > 0; --count) harness_->Step();
  }

  std::uint64_t next_id_ = 1000;
};

// A frame that is being sent may have bytes of the prompt.
TEST_F(EngineEvictionsTest, IsAnsweredWhenNoFrameHasBytesFromBeforeIt) {
  const FrameSizes sizes{.block_tokens = 16, .data_bytes = 64};
  testing_support::HeapStaging staging(2, sizes.frame_bytes());
  const auto memory = std::make_shared<FrameMemory>(sizes, 2, &staging);
  std::promise<void> woken;
  FrameWiper wiper(
      {memory}, [] {}, [&] { woken.set_value(); });
  Make({}, {.wiper = &wiper});
  const std::vector<TokenId> prompt = Text(100, 1);
  (void)CachedOf(prompt);
  std::optional<FrameBuffer> sent = memory->Take([] { return true; });
  std::fill(sent->bytes().begin(), sent->bytes().end(), std::byte{7});
  Order(Prompt(prompt));
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(harness_->Step().answers.empty());
  EXPECT_FALSE(harness_->engine().HasWork());
  sent.reset();
  woken.get_future().wait();
  EXPECT_TRUE(harness_->engine().HasWork());
  EXPECT_GE(Answer().evicted_block_count, 6U);
  EXPECT_EQ(staging.written_count(), 0U);
}

TEST_F(EngineEvictionsTest, ErasesAPromptFromTheCache) {
  const std::vector<TokenId> prompt = Text(100, 1);
  (void)CachedOf(prompt);
  EXPECT_EQ(CachedOf(prompt), 99U);
  const wire::EvictAnswer answer = Evict(Prompt(prompt));
  EXPECT_EQ(answer.outcome, wire::EvictOutcome::kDone);
  EXPECT_EQ(answer.evicted_block_count, 7U);  // one of them partly filled
  EXPECT_EQ(answer.busy_block_count, 0U);
  EXPECT_TRUE(harness_->resident().empty());
  EXPECT_EQ(CachedOf(prompt), 0U);
}

TEST_F(EngineEvictionsTest, ARunningRequestEndsRightAndLeavesNothing) {
  for (const bool plan_ahead : {false, true}) {
    Make({}, {.plan_ahead = plan_ahead});
    const std::vector<TokenId> prompt = Text(100, 1);
    (void)CachedOf(prompt);
    Submit(GreedyRequest(1, prompt, 60));
    StepTimes(20);
    ASSERT_FALSE(harness_->resident().empty());
    const wire::EvictAnswer answer = Evict(Prompt(prompt));
    EXPECT_GE(answer.busy_block_count, 6U);
    EXPECT_TRUE(harness_->resident().empty());
    harness_->Run();
    EXPECT_EQ(harness_->outcome(1).tokens, Reference(prompt, 60));
    EXPECT_TRUE(harness_->resident().empty());  // neither the prompt nor the output came back
    const StepReport report = harness_->Step();
    EXPECT_EQ(report.free_blocks, model_->block_count());
    EXPECT_EQ(CachedOf(prompt), 0U);
  }
}

TEST_F(EngineEvictionsTest, APromptUnderWayLeavesNothing) {
  Make({}, {.max_batch_tokens = 32});
  const std::vector<TokenId> prompt = Text(200, 1);
  Submit(GreedyRequest(1, prompt, 5));
  StepTimes(3);
  ASSERT_FALSE(harness_->resident().empty());
  (void)Evict(Prompt(prompt));
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).tokens, Reference(prompt, 5));
  EXPECT_TRUE(harness_->resident().empty());
}

TEST_F(EngineEvictionsTest, ARequestThatWaitsLeavesNothingAndOneThatComesLaterDoes) {
  Make({}, {.max_running_requests = 1});
  const std::vector<TokenId> prompt = Text(100, 1);
  Submit(GreedyRequest(1, Text(50, 2), 10));
  Submit(GreedyRequest(2, prompt, 5));
  StepTimes(2);
  Order(Prompt(prompt));
  Submit(GreedyRequest(3, Text(60, 3), 5));
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(prompt, 5));
  EXPECT_EQ(CachedOf(prompt), 0U);
  EXPECT_EQ(CachedOf(prompt), 99U);
  EXPECT_GT(CachedOf(Text(60, 3)), 0U);
}

// The pool is too small for both, so one is preempted and computed again.
TEST_F(EngineEvictionsTest, ARequestThatIsPreemptedLaterLeavesNothing) {
  Make({.block_count = 16, .max_context_tokens = 200}, {});
  const std::vector<TokenId> prompt = Text(96, 1);
  Submit(GreedyRequest(1, Text(96, 2), 90));
  Submit(GreedyRequest(2, prompt, 90));
  StepTimes(4);
  (void)Evict(Prompt(prompt));
  harness_->Run();
  EXPECT_GT(harness_->totals().preemptions, 0U);
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(prompt, 90));
  for (const BlockHash hash : HashBlocks(kRoot, prompt, 16)) EXPECT_FALSE(harness_->resident().contains(hash));
}

TEST_F(EngineEvictionsTest, OtherPromptsKeepWhatTheyShareWithIt) {
  const std::vector<TokenId> front = Text(64, 1);
  const std::vector<TokenId> named = Join(front, Text(64, 2));
  const std::vector<TokenId> other = Join(front, Text(64, 3));
  (void)CachedOf(named);
  (void)CachedOf(other);
  EXPECT_EQ(Evict(Prompt(named)).evicted_block_count, 4U);
  EXPECT_EQ(CachedOf(named), 64U);
  EXPECT_EQ(CachedOf(other), 127U);
}

// Also while a request runs that has the block, and while one waits for it.
TEST_F(EngineEvictionsTest, ErasesABlockByItsHashAlone) {
  Make({}, {.max_running_requests = 1});
  const std::vector<TokenId> front = Text(64, 1);
  const std::vector<TokenId> named = Join(front, Text(64, 2));
  const std::vector<TokenId> other = Join(front, Text(64, 3));
  (void)CachedOf(other);
  Submit(GreedyRequest(1, named, 20));
  Submit(GreedyRequest(2, named, 5));
  StepTimes(3);
  const wire::Evict order{wire::BlockToEvict{HashBlocks(kRoot, named, 16).at(5)}, 7};
  EXPECT_GE(Evict(order).busy_block_count, 4U);
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).tokens, Reference(named, 20));
  EXPECT_EQ(CachedOf(other), 127U);
  EXPECT_EQ(CachedOf(named), 64U);
  EXPECT_EQ(Evict({wire::BlockToEvict{{5, 6}}, 7}), (wire::EvictAnswer{.answer_id = 7}));
}

TEST_F(EngineEvictionsTest, ErasesAllOfATenantAndNothingOfOthers) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    (void)harness_->Serve(RequestOf("a", 10 + i, Text(50, i), 20));
    (void)harness_->Serve(RequestOf("b", 20 + i, Text(50, i), 20, kOtherRoot));
  }
  Submit(RequestOf("a", 1, Text(80, 9), 30));
  StepTimes(5);
  const wire::EvictAnswer answer = Evict(Tenant("a"));
  EXPECT_GE(answer.evicted_block_count, 12U);
  EXPECT_GE(answer.busy_block_count, 5U);
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).tokens, Reference(Text(80, 9), 30));
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(CachedOf(Text(50, i)), 0U);
    EXPECT_EQ(CachedOf(Text(50, i), kOtherRoot), 49U);
  }
  EXPECT_EQ(Evict(Tenant("nobody")), (wire::EvictAnswer{.answer_id = 7}));
}

TEST_F(EngineEvictionsTest, ALargeTenantTakesSeveralStepsWhileOthersRun) {
  constexpr std::uint32_t kBlocks = 2 * Engine::kErasedPerStep + 1000;
  Make({.block_tokens = 4, .block_count = kBlocks + 1000, .max_context_tokens = 4 * kBlocks},
       {.max_batch_tokens = 8192});
  (void)harness_->Serve(RequestOf("a", 1, Text(std::size_t{4} * kBlocks - 8, 1), 1));
  Submit(RequestOf("b", 2, Text(40, 2), 30, kOtherRoot));
  StepTimes(2);
  Order(Tenant("a"));
  std::uint32_t steps = 0;
  std::optional<wire::EvictAnswer> answer;
  while (!answer) {
    const StepReport report = harness_->Step();
    ++steps;
    std::size_t removed = 0;
    for (const wire::CacheEvent& event : report.events) removed += event.removed.size();
    EXPECT_LE(removed, Engine::kErasedPerStep);
    EXPECT_EQ(report.load.step_decode_tokens, 1U);  // the other one goes on
    if (!report.answers.empty()) answer = std::get<wire::EvictAnswer>(report.answers[0].answer);
  }
  EXPECT_EQ(steps, 3U);
  EXPECT_GE(answer->evicted_block_count, kBlocks - 10);
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(Text(40, 2), 30));
}

TEST_F(EngineEvictionsTest, OpenOrdersAreBounded) {
  for (std::size_t i = 0; i < Engine::kMaxEvictions; ++i) Order(Tenant("a"));
  const wire::EvictAnswer refused{.answer_id = 7, .outcome = wire::EvictOutcome::kRefused};
  EXPECT_EQ(harness_->engine().CarryOut(kLink, Tenant("a")), OrderReply(refused));
  EXPECT_TRUE(harness_->engine().HasWork());
  EXPECT_EQ(harness_->Step().answers.size(), Engine::kMaxEvictions);
  EXPECT_FALSE(harness_->engine().HasWork());
  Order(Tenant("a"));
}

}  // namespace
}  // namespace roost::worker
