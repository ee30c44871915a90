// Random wire messages: every field is drawn at random, within the limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace roost::wire::testing {

class RandomMessages {
 public:
  explicit RandomMessages(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] WorkerMessage Worker() {
    switch (rng_.Below(9)) {
      case 0: return MakeHello();
      case 1: return MakeStep();
      case 2: return MakeSnapshot();
      case 3: return MakeTokenizer();
      case 4: return PinAnswer{rng_(), Small(), Small(), Small()};
      case 5: return MakePrefixes();
      case 6: return MakeEvictAnswer();
      case 7: return Adapters{NonZero(), MakeAdapters()};
      default: return Bye{NonZero()};
    }
  }

  [[nodiscard]] RouterMessage Router() {
    switch (rng_.Below(14)) {
      case 0: return Welcome{rng_(), NonZero(), MakeVersion(), {Small(), Small(), Small()}};
      case 1: return MakeGenerate();
      case 2: return Cancel{RequestId(rng_())};
      case 3: return WantHello{};
      case 4: return WantSnapshot{};
      case 5: return WantTokenizer{};
      case 6: return MakePin();
      case 7: return Unpin{Hash(), Hashes(1 + rng_.Below(6)), rng_()};
      case 8: return Ping{rng_()};
      case 9: return Refused{NonZero(), Name(), static_cast<RefusalCause>(rng_.Below(kRefusalCauseNames.size()))};
      case 10: return MakeWantPrefixes();
      case 11: return MakeEvict();
      case 12: return Cordon{rng_.Below(2) == 0};
      default: return Ping{};
    }
  }

  [[nodiscard]] Hello MakeHello() {
    Hello hello;
    hello.version = MakeVersion();
    hello.worker_id = "w" + Name();
    hello.process_id = rng_();
    hello.epoch = NonZero();
    hello.model = "m" + Name();
    hello.fingerprint = Name();
    hello.kv_dtype = Name();
    hello.block_tokens = 4U << rng_.Below(7);
    hello.block_count = Small() + 1;
    hello.max_context_tokens = Small() + 1;
    hello.max_running_requests = Small();
    hello.tokenizer_digest = Name();
    hello.sampling = {static_cast<float>(rng_.Uniform()), 0.25F + static_cast<float>(rng_.Uniform()) / 2, Small(),
                      static_cast<float>(rng_.Uniform()), 0.5F + static_cast<float>(rng_.Uniform())};
    hello.max_batch_tokens = Small();
    hello.ageing_tokens = Small();
    hello.sends_cache_events = rng_.Below(2) == 0;
    hello.keeps_prefixes = rng_.Below(2) == 0;
    hello.full_sampling = rng_.Below(2) == 0;
    hello.logprobs = rng_.Below(2) == 0;
    hello.min_output_tokens = rng_.Below(2) == 0;
    hello.answers = rng_.Below(2) == 0;
    hello.evicts = rng_.Below(2) == 0;
    hello.evicts_blocks = rng_.Below(2) == 0;
    hello.cordons = rng_.Below(2) == 0;
    hello.adapters = MakeAdapters();
    hello.host = Name();
    hello.compute = {Small(), rng_(), Small(), rng_(), Small()};
    hello.constrains_output = rng_.Below(2) == 0;
    hello.max_sample_count = 1 + static_cast<std::uint32_t>(rng_.Below(kMaxSampleCount));
    return hello;
  }

  [[nodiscard]] Step MakeStep() {
    Step step{.epoch = NonZero(), .sequence = NonZero(), .tokens = {}, .events = {}, .load = MakeLoad()};
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) step.tokens.push_back(MakeTokenEvent());
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) step.events.push_back(MakeCacheEvent());
    return step;
  }

  [[nodiscard]] Snapshot MakeSnapshot() {
    Snapshot snapshot;
    snapshot.epoch = NonZero();
    snapshot.sequence = NonZero();
    snapshot.chunk_index = Small();
    snapshot.last = rng_.Below(2) == 0;
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) snapshot.runs.push_back(MakeRun());
    return snapshot;
  }

  [[nodiscard]] Tokenizer MakeTokenizer() { return {"d" + Name(), Text() + Text(), Text(), Text(), Text()}; }

  [[nodiscard]] Generate MakeGenerate() {
    Generate generate;
    generate.request_id = RequestId(rng_());
    generate.prompt = Tokens(1 + rng_.Below(40));
    generate.root = Hash();
    generate.block_hashes = Hashes(rng_.Below(generate.prompt.size() / 4 + 1));
    generate.sampling = MakeSampling();
    generate.max_output_tokens = Small();
    generate.first_output_index = Small();
    generate.stop_tokens = Tokens(rng_.Below(4));
    generate.ignore_eos = rng_.Below(2) == 0;
    generate.expected_cached_tokens = Small();
    generate.deadline_ms = rng_();
    generate.tenant = Text();
    if (rng_.Below(2) == 0) generate.adapter = "a" + Name();
    generate.cache_mode = rng_.Below(2) == 0 ? CacheMode::kOn : CacheMode::kOff;
    generate.priority = Priority();
    if (rng_.Below(2) == 0) generate.retention = Retention{Priority(), KeepMs(), Priority(), KeepMs()};
    generate.session_hash = rng_();
    generate.expect_return_ms = KeepMs();
    generate.sample_count = 1 + static_cast<std::uint32_t>(rng_.Below(kMaxSampleCount));
    if (rng_.Below(2) == 0) generate.output_logprobs = TopCount();
    if (rng_.Below(2) == 0) generate.prompt_logprobs = TopCount();
    generate.min_output_tokens = Small();
    if (rng_.Below(2) == 0)
      generate.constraint = Constraint{static_cast<ConstraintKind>(rng_.Below(6)), Text(), Name()};
    if (rng_.Below(2) == 0) generate.trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    return generate;
  }

  [[nodiscard]] std::vector<std::string> MakeAdapters() {
    std::vector<std::string> names(rng_.Below(4));
    for (std::string& name : names) name = "a" + Name();
    return names;
  }

  [[nodiscard]] EvictAnswer MakeEvictAnswer() {
    return {rng_(), Small(), Small(), rng_.Below(2) == 0 ? EvictOutcome::kDone : EvictOutcome::kRefused};
  }
  [[nodiscard]] Evict MakeEvict() {
    if (rng_.Below(2) == 0) return {TenantToEvict{Name()}, rng_()};
    if (rng_.Below(2) == 0) return {BlockToEvict{Hash()}, rng_()};
    PromptToEvict prompt{Hash(), std::vector<TokenId>(1 + rng_.Below(40)), {}};
    for (TokenId& token : prompt.tokens) token = Small();
    prompt.block_hashes = Hashes(prompt.tokens.size() / 16);
    if (rng_.Below(2) == 0) prompt.own = OwnScope{1 + Small(), Hash()};
    return {std::move(prompt), rng_()};
  }
  [[nodiscard]] Pin MakePin() { return {Hash(), Hashes(1 + rng_.Below(6)), KeepMs(), rng_()}; }

  [[nodiscard]] WantPrefixes MakeWantPrefixes() {
    return {NonZero(), 1 + static_cast<std::uint32_t>(rng_.Below(kMaxUsedPrefixes)),
            rng_.Below(2) == 0 ? PrefixTokens::kOmit : PrefixTokens::kTell};
  }

  [[nodiscard]] Prefixes MakePrefixes() {
    Prefixes answer{rng_(), {}};
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) {
      answer.prefixes.push_back({Hash(), Small() | 1U, NonZero(), Tokens(rng_.Below(9)), Tokens(rng_.Below(9))});
    }
    return answer;
  }

 private:
  PeerVersion MakeVersion() { return {.major = kProtocolMajor, .minor = Small(), .release = Name()}; }

  Sampling MakeSampling() {
    const auto uniform = [this] { return static_cast<float>(rng_.Uniform()); };
    Sampling sampling{uniform(),        0.25F + uniform() / 2, Small(),          rng_(), uniform(),
                      0.5F + uniform(), uniform() - 0.5F,      uniform() - 0.5F, {}};
    TokenId token = 0;
    for (std::uint64_t n = rng_.Below(3); n > 0; --n) {
      token += 1 + static_cast<TokenId>(rng_.Below(1000));
      sampling.logit_bias.push_back({token, 100 * uniform() - 50});
    }
    return sampling;
  }

  TokenEvent MakeTokenEvent() {
    TokenEvent event;
    event.request_id = RequestId(rng_());
    event.choice = static_cast<std::uint32_t>(rng_.Below(kMaxSampleCount));
    for (const TokenId token : Tokens(rng_.Below(5))) event.tokens.push_back(token);
    if (rng_.Below(2) == 0) event.cached_token_count = Small();
    if (rng_.Below(2) == 0) event.queue_wait_seconds = rng_.Uniform();
    if (rng_.Below(2) == 0) event.finish = static_cast<FinishReason>(rng_.Below(4));
    if (event.finish == FinishReason::kStop && rng_.Below(2) == 0) event.stop_token = Small();
    if (rng_.Below(2) == 0) event.logprobs = Logprobs(event.tokens.size());
    if (rng_.Below(4) == 0) event.prompt_logprobs = Logprobs(rng_.Below(6));
    if (event.finish == FinishReason::kError) {
      event.error = Error{static_cast<ErrorCode>(rng_.Below(kErrorCodeCount)), Text(), Text()};
    }
    return event;
  }

  CacheEvent MakeCacheEvent() {
    CacheEvent event;
    if (rng_.Below(2) == 0) {
      event.stored = MakeRun();
    } else {
      event.kind = CacheEvent::Kind::kRemoved;
      event.removed = Hashes(rng_.Below(5));
    }
    return event;
  }

  StoredRun MakeRun() { return {Small(), Hashes(rng_.Below(6))}; }

  Load MakeLoad() {
    Load load;
    load.waiting_requests = Small();
    load.running_requests = Small();
    load.queued_prefill_tokens = rng_.Below(WireLimits::kMaxTokensOfAWorker);
    load.running_context_tokens = rng_.Below(WireLimits::kMaxTokensOfAWorker);
    load.free_block_count = Small();
    load.cached_block_count = Small();
    load.digest = Hash();
    load.step_prefill_tokens = static_cast<std::uint32_t>(rng_.Below(100'000));
    load.step_decode_tokens = static_cast<std::uint32_t>(rng_.Below(1000));
    load.step_seconds = 0.001 + rng_.Uniform();
    load.draining = rng_.Below(2) == 0;
    load.cache_unknown = rng_.Below(2) == 0;
    load.pinned_block_count = Small();
    load.progress = rng_();
    load.saved_prefill_seconds = 1000 * rng_.Uniform();
    load.step_under_way_seconds = 10 * rng_.Uniform();
    for (std::uint64_t n = rng_.Below(4); n > 0; --n) {
      load.other_prompts.push_back({Small(), Small(), rng_.Below(3), Hashes(rng_.Below(6))});
    }
    return load;
  }

  std::uint32_t TopCount() { return static_cast<std::uint32_t>(rng_.Below(kMaxTopLogprobs + 1)); }
  float Logprob() { return rng_.Below(4) == 0 ? kLeastLogprob : -20 * static_cast<float>(rng_.Uniform()); }
  std::vector<TokenLogprobs> Logprobs(std::uint64_t count) {
    std::vector<TokenLogprobs> positions;
    for (; count > 0; --count) {
      TokenLogprobs& position = positions.emplace_back(TokenLogprobs{Logprob(), Small() | 1U, {}});
      for (std::uint32_t top = TopCount(); top > 0; --top) position.top.push_back({Small(), Logprob()});
    }
    return positions;
  }

  std::uint32_t Small() { return static_cast<std::uint32_t>(rng_()); }
  std::uint64_t NonZero() { return rng_() | 1U; }
  std::uint32_t Priority() { return static_cast<std::uint32_t>(rng_.Below(kMaxPriority + 1)); }
  std::uint64_t KeepMs() { return rng_.Below(kMaxKeepMs + 1); }
  BlockHash Hash() { return {rng_(), rng_()}; }

  std::vector<BlockHash> Hashes(std::uint64_t count) {
    std::vector<BlockHash> hashes;
    for (; count > 0; --count) hashes.push_back(Hash());
    return hashes;
  }
  std::vector<TokenId> Tokens(std::uint64_t count) {
    std::vector<TokenId> tokens;
    for (; count > 0; --count) tokens.push_back(Small());
    return tokens;
  }
  // Without control characters.
  std::string Name() {
    std::string name = Text();
    std::erase_if(name, [](char c) { return c == '\n' || c == '\x01'; });
    return name;
  }
  std::string Text() {
    static constexpr std::string_view kPieces[] = {"a", "Z", "/", "é", "€", "😀", "\n", "\"", "roost", "\x01"};
    std::string text;
    for (std::uint64_t n = rng_.Below(12); n > 0; --n) text += kPieces[rng_.Below(std::size(kPieces))];
    return text;
  }

  Rng rng_;
};

}  // namespace roost::wire::testing
