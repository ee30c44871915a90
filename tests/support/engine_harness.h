// An engine under observation: it takes requests, steps, and records what each request got. After every step it checks
// what must always hold: invariants, block states, each request ends once, and the cache events rebuild the engine's
// cache.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/engine/engine.h"

namespace roost::testing_support {

inline constexpr worker::LinkId kLink{1};
inline constexpr BlockHash kRoot{11, 22};

// A greedy request that stops only at its length.
inline wire::Generate GreedyRequest(std::uint64_t id, std::vector<TokenId> prompt, std::uint32_t max_output_tokens,
                                    BlockHash root = kRoot) {
  wire::Generate request;
  request.request_id = RequestId(id);
  request.prompt = std::move(prompt);
  request.root = root;
  request.sampling.temperature = 0;
  request.max_output_tokens = max_output_tokens;
  request.ignore_eos = true;
  return request;
}

class EngineHarness {
 public:
  struct Outcome {
    std::vector<TokenId> tokens;
    std::optional<std::uint32_t> cached_token_count;
    std::uint32_t written_token_count = 0;
    wire::PromptMiss miss = wire::PromptMiss::kNone;
    std::optional<double> queue_wait_seconds;
    std::optional<wire::FinishReason> finish;
    std::optional<Error> error;
    std::vector<wire::TokenLogprobs> logprobs;
    std::vector<wire::TokenLogprobs> prompt_logprobs;
    std::optional<TokenId> stop_token;
    std::uint32_t event_count = 0;
  };

  EngineHarness(worker::Model& model, const Clock& clock, worker::EngineOptions options)
      : block_tokens_(model.block_tokens()),
        block_count_(model.block_count()),
        verifies_(options.verify_hits_share > 0),
        engine_(model, clock, std::move(options)) {}

  // As a router does: the hashes come with the request, unless the test has set them.
  Result<void> Submit(wire::Generate request, worker::LinkId link = kLink) {
    if (request.block_hashes.empty()) {
      request.block_hashes = HashBlocks(request.root, request.prompt, block_tokens_);
    }
    return engine_.Submit(link, std::move(request));
  }

  worker::StepReport Step() {
    engine_.TakeNews();
    worker::StepReport report = engine_.Step();
    for (const worker::RequestEvent& event : report.tokens) Take(event);
    totals_.prompt_tokens += report.counts.prompt_tokens;
    totals_.cached_prompt_tokens += report.counts.cached_prompt_tokens;
    totals_.output_tokens += report.counts.output_tokens;
    totals_.evicted_blocks += report.counts.evicted_blocks;
    totals_.preemptions += report.counts.preemptions;
    totals_.verification_misses += report.counts.verification_misses;
    totals_.tail_cached_tokens += report.counts.tail_cached_tokens;
    totals_.uncached_requests += report.counts.uncached_requests;
    totals_.dropped_pins += report.counts.dropped_pins;
    totals_.refused_pins += report.counts.refused_pins;
    totals_.refused_retentions += report.counts.refused_retentions;
    totals_.shortened_retentions += report.counts.shortened_retentions;
    totals_.verified_hits += report.counts.verified_hits;
    totals_.wrong_hits += report.counts.wrong_hits;
    totals_.distrusted_blocks += report.counts.distrusted_blocks;
    for (std::size_t i = 0; i < totals_.computed_prompt_tokens.size(); ++i) {
      totals_.computed_prompt_tokens[i] += report.counts.computed_prompt_tokens[i];
    }
    prefill_tokens_ += report.load.step_prefill_tokens;
    decode_tokens_ += report.load.step_decode_tokens;
    Replay(report.events);
    CheckAlways(report);
    return report;
  }

  // Steps until nothing is left to do. A request that never ends fails the test.
  void Run() {
    constexpr int kMaxSteps = 200'000;
    for (int step = 0; step < kMaxSteps && engine_.HasWork(); ++step) {
      Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_FALSE(engine_.HasWork()) << "the engine does not come to an end";
    const worker::StepReport report = Step();
    EXPECT_EQ(report.referenced_blocks, 0U) << "a block was not given back";
  }

  // Submits, runs to the end, and returns the outcome.
  Outcome Serve(wire::Generate request) {
    const worker::RequestKey key{kLink, request.request_id};
    const Result<void> submitted = Submit(std::move(request));
    EXPECT_TRUE(submitted.ok()) << submitted.error().ToString();
    Run();
    return outcome(key);
  }

  [[nodiscard]] const Outcome& outcome(worker::RequestKey key) { return outcomes_[key]; }
  [[nodiscard]] const Outcome& outcome(std::uint64_t id) { return outcomes_[{kLink, RequestId(id)}]; }
  // For a request with several choices; choice 0 is the outcome above.
  [[nodiscard]] const Outcome& choice(worker::RequestKey key, std::uint32_t index) {
    return index == 0 ? outcome(key) : other_choices_[{key, index}];
  }
  [[nodiscard]] const Outcome& choice(std::uint64_t id, std::uint32_t index) {
    return choice({kLink, RequestId(id)}, index);
  }
  [[nodiscard]] const std::map<worker::RequestKey, Outcome>& outcomes() const { return outcomes_; }
  [[nodiscard]] worker::Engine& engine() { return engine_; }
  [[nodiscard]] const worker::StepCounts& totals() const { return totals_; }
  [[nodiscard]] std::uint64_t prefill_tokens() const { return prefill_tokens_; }
  [[nodiscard]] std::uint64_t decode_tokens() const { return decode_tokens_; }
  [[nodiscard]] const std::set<BlockHash>& resident() const { return resident_; }

 private:
  void Take(const worker::RequestEvent& event) {
    const worker::RequestKey key{event.link, event.event.request_id};
    const std::uint32_t choice = event.event.choice;
    Outcome& outcome = choice == 0 ? outcomes_[key] : other_choices_[{key, choice}];
    ASSERT_FALSE(outcome.finish.has_value()) << "request " << event.event.request_id.value() << " had ended";
    const bool first_news = outcome.tokens.empty() && !outcome.cached_token_count;
    if (event.event.cached_token_count) {
      ASSERT_TRUE(first_news);
      outcome.cached_token_count = event.event.cached_token_count;
      outcome.written_token_count = event.event.written_token_count;
      outcome.miss = event.event.miss;
      outcome.queue_wait_seconds = event.event.queue_wait_seconds;
    }
    // The first choice reports it for all.
    ASSERT_TRUE(event.event.tokens.empty() || outcomes_[key].cached_token_count.has_value());
    ASSERT_TRUE(event.event.prompt_logprobs.empty() || outcome.tokens.empty());
    const auto append = [](const auto& from, auto& to) { to.insert(to.end(), from.begin(), from.end()); };
    append(event.event.prompt_logprobs, outcome.prompt_logprobs);
    append(event.event.tokens, outcome.tokens);
    append(event.event.logprobs, outcome.logprobs);
    ASSERT_TRUE(outcome.logprobs.empty() || outcome.logprobs.size() == outcome.tokens.size());
    outcome.stop_token = event.event.stop_token;
    outcome.finish = event.event.finish;
    outcome.error = event.event.error;
    ASSERT_EQ(outcome.error.has_value(), outcome.finish == wire::FinishReason::kError);
    ++outcome.event_count;
  }

  void Replay(const std::vector<wire::CacheEvent>& events) {
    for (const wire::CacheEvent& event : events) {
      for (const BlockHash hash : event.stored.hashes) ASSERT_TRUE(resident_.insert(hash).second);
      for (const BlockHash hash : event.removed) ASSERT_EQ(resident_.erase(hash), 1U);
    }
  }

  void CheckAlways(const worker::StepReport& report) {
    const Result<void> sound = engine_.CheckInvariants();
    ASSERT_TRUE(sound.ok()) << sound.error().ToString();
    ASSERT_EQ(report.free_blocks + report.referenced_blocks + report.idle_blocks, block_count_);
    ASSERT_LE(report.load.free_block_count, report.free_blocks + report.idle_blocks);
    ASSERT_EQ(report.load.cached_block_count, resident_.size());
    BlockHash digest;
    for (const BlockHash hash : resident_) digest = digest ^ hash;
    ASSERT_EQ(report.load.digest, digest);
    std::uint64_t queued = 0;
    for (const worker::LinkPrompt& prompt : report.prompts) queued += prompt.uncached_tokens;
    ASSERT_LE(queued, report.load.queued_prefill_tokens);
    ASSERT_LE(report.prompts.size(), worker::kMaxReportedPrompts);
    if (report.prompts.size() == worker::kMaxReportedPrompts) return;
    // Tokens that are computed again for verification belong to no request.
    ASSERT_TRUE(verifies_ || queued == report.load.queued_prefill_tokens);
  }

  std::uint32_t block_tokens_;
  std::uint32_t block_count_;
  bool verifies_;
  worker::Engine engine_;
  std::map<worker::RequestKey, Outcome> outcomes_;
  std::map<std::pair<worker::RequestKey, std::uint32_t>, Outcome> other_choices_;
  std::set<BlockHash> resident_;
  worker::StepCounts totals_;
  std::uint64_t prefill_tokens_ = 0;
  std::uint64_t decode_tokens_ = 0;
};

}  // namespace roost::testing_support
