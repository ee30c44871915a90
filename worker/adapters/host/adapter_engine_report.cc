// The AdapterEngine's reports on its requests, and its actions as time passes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "common/base/log.h"
#include "common/wire/codec.h"
#include "worker/adapters/engine_error.h"
#include "worker/adapters/host/adapter_engine.h"

namespace roost::worker::adapters {
namespace {

constexpr Duration kLongestDrain = std::chrono::seconds(5);
// A call that has tokens and gets none for so many times WatchTimes::silence is lost, although others go on: far more
// than an engine's preemption takes.
constexpr int kSilencesOfACall = 4;

// The most in one token event, and in a report's token events: a message holds them and the blocks' events.
constexpr std::size_t kMaxTokens = 4096;
constexpr std::size_t kMaxBytes = wire::WireLimits::kMaxPlainFrameBytes / 2;
static_assert(kMaxTokens <= wire::WireLimits::kMaxTokensPerEvent);

// About what the event takes in a message, rather more.
std::size_t BytesOf(const wire::TokenEvent& event) {
  constexpr std::size_t kEventBytes = 256;
  constexpr std::size_t kPositionBytes = 48;
  std::size_t bytes = kEventBytes + event.tokens.size() * sizeof(TokenId);
  if (event.error) bytes += event.error->message.size() + event.error->field.size();
  for (const auto* const positions : {&event.logprobs, &event.prompt_logprobs}) {
    for (const wire::TokenLogprobs& position : *positions) {
      bytes += kPositionBytes + position.top.size() * sizeof(wire::TokenLogprob);
    }
  }
  return bytes;
}

}  // namespace

// ---- tokens ----

void AdapterEngine::Push(LinkId link, wire::TokenEvent event) {
  std::size_t first = 0;
  for (; event.tokens.size() - first > kMaxTokens; first += kMaxTokens) {
    wire::TokenEvent part;
    part.request_id = event.request_id;
    part.choice = event.choice;
    part.tokens.assign(event.tokens.begin() + first, event.tokens.begin() + first + kMaxTokens);
    if (!event.logprobs.empty()) {
      const auto begin = std::make_move_iterator(event.logprobs.begin() + static_cast<std::ptrdiff_t>(first));
      part.logprobs.assign(begin, begin + kMaxTokens);
    }
    report_.tokens.push_back({link, std::move(part)});
  }
  if (first > 0) {
    const std::vector<TokenId> rest(event.tokens.begin() + first, event.tokens.end());
    event.tokens.assign(rest.begin(), rest.end());
    if (!event.logprobs.empty()) {
      event.logprobs.erase(event.logprobs.begin(), event.logprobs.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  report_.tokens.push_back({link, std::move(event)});
}

void AdapterEngine::TellPrompt(RequestKey key, std::vector<wire::TokenLogprobs> prompt_logprobs) {
  constexpr std::size_t kMost = wire::WireLimits::kMaxPromptLogprobsPerEvent;
  for (std::size_t first = 0; first < prompt_logprobs.size(); first += kMost) {
    const std::size_t count = std::min(kMost, prompt_logprobs.size() - first);
    const auto begin = std::make_move_iterator(prompt_logprobs.begin() + static_cast<std::ptrdiff_t>(first));
    wire::TokenEvent event;
    event.request_id = key.request;
    event.prompt_logprobs.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    Push(key.link, std::move(event));
  }
}

// An engine that keeps prefixes keeps each full block that it computes.
void AdapterEngine::TellCached(const Call& call, Request& request, wire::TokenEvent& event) {
  if (call.choice != 0 || !request.cached_tokens || std::exchange(request.cached_told, true)) return;
  const auto size = static_cast<std::uint32_t>(request.generate.prompt.size());
  const std::uint32_t cached = std::min(*request.cached_tokens, size);
  event.cached_token_count = cached;
  const EngineFacts& facts = watch_.facts();
  const bool keeps = facts.keeps_prefixes && request.generate.cache_mode == wire::CacheMode::kOn;
  if (!keeps || facts.block_tokens == 0 || !request.generate.kv_transfer.empty()) return;
  const std::uint32_t full = size / facts.block_tokens * facts.block_tokens;
  event.written_token_count = full - std::min(full, cached);
}

void AdapterEngine::NoteTokens(CallId id, Call& call, Request& request, std::size_t token_count) {
  const Instant now = clock_.Now();
  const auto count = static_cast<std::uint32_t>(token_count);
  StepCounts& counts = report_.counts;
  watch_.OnLife();
  counts.output_tokens += count;
  call.output_tokens += count;
  // No step computes a prompt that a connector brings: such a call counts as one that runs already.
  const bool is_fetched = !request.generate.kv_transfer.empty();
  if (!call.first_tokens) {
    // The other choices find the prompt in the cache, but for its last token.
    if (is_fetched) meter_.OnTokens(id, count, now);
    if (!is_fetched) meter_.OnFirstTokens(id, call.choice == 0 ? UncachedTokens(request) : 1, count, now);
    if (!request.has_tokens) counts.ttft_seconds.push_back(ToSeconds(now - request.received));
    if (!request.has_tokens && !is_fetched) counts.prefill_seconds.push_back(ToSeconds(now - call.sent));
    call.first_tokens = now;
  } else {
    meter_.OnTokens(id, count, now);
    counts.inter_token_seconds.insert(counts.inter_token_seconds.end(), count,
                                      ToSeconds(now - call.last_tokens) / count);
  }
  request.has_tokens = true;
  call.last_tokens = now;
}

// As the engine told, or as the router expects: engines tell late. The last token is always computed.
std::uint32_t AdapterEngine::UncachedTokens(const Request& request) const {
  const auto size = static_cast<std::uint32_t>(request.generate.prompt.size());
  const std::uint32_t cached = request.cached_tokens.value_or(request.generate.expected_cached_tokens);
  return size - std::min(cached, size - 1);
}

// ---- hits ----

// Where nothing is known of the engine's blocks, the router's promise is the guess.
HitGuess AdapterEngine::GuessOf(const wire::Generate& generate) const {
  const auto size = static_cast<std::uint32_t>(generate.prompt.size());
  if (blocks_ != nullptr) return blocks_->Guess(generate.block_hashes, size);
  const std::uint32_t expected = generate.expected_cached_tokens;
  const std::uint32_t block = expected == 0 ? 0 : engine_block_tokens();
  return hit_drop_.drops() ? HitGuess{expected + block, expected}
                           : HitGuess{expected, expected - std::min(expected, block)};
}

// With a tier behind its cache the engine finds more than any event tells.
void AdapterEngine::NoteHit(const Request& request) {
  const bool did_drop = hit_drop_.drops();
  hit_drop_.Note(request.guess, *request.cached_tokens);
  if (blocks_ != nullptr && counted_tier_tokens_.value_or(0) == 0)
    blocks_->NoteHit(request.guess, *request.cached_tokens);
  if (did_drop == hit_drop_.drops()) return;
  LogInfo(did_drop ? "the engine goes on behind the last block of a hit"
                   : "the engine computes the last block of each hit again, as for speculative heads",
          {{"block_tokens", engine_block_tokens()}});
  report_due_ = true;
}

// The first page tells what an earlier worker has counted; an engine that has restarted counts from 0.
void AdapterEngine::CountTier(double tokens) {
  constexpr double kMost = 1e18;
  if (!(tokens >= 0 && tokens <= kMost)) return;
  const double earlier = std::exchange(counted_tier_tokens_, tokens).value_or(tokens);
  report_.counts.tier_cached_tokens += static_cast<std::uint64_t>(tokens < earlier ? tokens : tokens - earlier);
}

std::uint32_t AdapterEngine::engine_block_tokens() const {
  const std::uint32_t told = blocks_ == nullptr ? 0 : blocks_->engine_block_tokens();
  return std::max(told > 0 ? told : watch_.facts().block_tokens, watch_.facts().grain_tokens());
}

// A miss says nothing, and neither do hits of other lengths.
void HitDrop::Note(const HitGuess& guess, std::uint32_t found_tokens) {
  constexpr std::uint32_t kEnough = 8;
  if (guess.dropped == 0 || guess.dropped == guess.tokens) return;
  const bool is_dropped = found_tokens == guess.dropped;
  if (!is_dropped && found_tokens != guess.tokens) return;
  against_ = is_dropped == drops_ ? 0 : against_ + 1;
  if (against_ < kEnough) return;
  drops_ = is_dropped;
  against_ = 0;
}

// ---- time ----

void AdapterEngine::Tick() {
  const Instant now = clock_.Now();
  for (auto next = requests_.begin(); next != requests_.end();) {
    const auto request = next++;
    if (!request->second.deadline || now < *request->second.deadline) continue;
    Fail(request->first, {ErrorCode::kDeadlineExceeded, "the deadline passed before the request ended", ""});
  }
  EndSilentCalls();
  CloseDrained();
  if (moves_) moves_->Tick();
  FillSlots();
  watch_.Tick(calls_.empty() ? OpenWork::kNone : OpenWork::kSome);
  FollowWatch();
  meter_.CloseIfIdle();
}

void AdapterEngine::EndSilentCalls() {
  const Instant now = clock_.Now();
  std::vector<RequestKey> lost;
  for (const auto& [id, call] : calls_) {
    if (call.first_tokens && now - call.last_tokens >= kSilencesOfACall * options_.times.silence) {
      lost.push_back(call.key);
    }
  }
  for (const RequestKey key : lost) Fail(key, Unavailable("the engine sends no more tokens of the request"));
}

void AdapterEngine::CloseDrained() {
  const Instant now = clock_.Now();
  for (auto next = draining_.begin(); next != draining_.end();) {
    const auto call = next++;
    if (now - call->second < kLongestDrain) continue;
    port_.Close(call->first);
    draining_.erase(call);
  }
}

Duration AdapterEngine::TimeToNextTick() const {
  Duration time = watch_.TimeToNextTick();
  for (const auto& [key, request] : requests_) {
    if (request.deadline) time = std::min(time, *request.deadline - clock_.Now());
  }
  if (const auto due = moves_ ? moves_->deadline() : std::optional<Instant>()) {
    time = std::min(time, *due - clock_.Now());
  }
  return std::max(time, Duration(0));
}

// Requests end when the engine goes; new loads are worth a report.
void AdapterEngine::FollowWatch() {
  if (watch_.TakeNewLoad()) {
    const EngineLoad& load = watch_.load();
    const std::uint32_t all = load.running_requests.value_or(0) + load.waiting_requests.value_or(0);
    const auto own = static_cast<std::uint32_t>(calls_.size() + forward_count_);
    other_requests_ = all > own ? all - own : 0;
    if (slots_ != nullptr) {
      slots_->OnSlots(load.slots, load.asked_at);
      other_requests_ = slots_->foreign_count();
    }
    if (load.tier_tokens) CountTier(*load.tier_tokens);
    report_due_ = true;
  }
  if (std::exchange(was_away_, watch_.is_away()) == watch_.is_away()) return;
  report_due_ = true;
  if (!watch_.is_away()) {
    // The server may be another one now.
    if (moves_ && options_.slot_origin) slots_->shelf()->SetOrigin(options_.slot_origin(watch_.facts()));
    return;
  }
  if (moves_) moves_->EndAll();
  while (!requests_.empty()) Fail(requests_.begin()->first, Unavailable("the engine is away: " + watch_.why()));
}

// ---- reports ----

bool AdapterEngine::HasReport() const { return report_due_ || !report_.tokens.empty() || meter_.has_steps(); }

// Token events beyond kMaxBytes are left for the next report.
void AdapterEngine::LeaveRest(StepReport& report) {
  std::size_t bytes = 0;
  auto next = report.tokens.begin();
  while (next != report.tokens.end() && (bytes += BytesOf(next->event)) <= kMaxBytes) ++next;
  report_.tokens.assign(std::make_move_iterator(next), std::make_move_iterator(report.tokens.end()));
  report.tokens.erase(next, report.tokens.end());
}

StepReport AdapterEngine::TakeReport() {
  StepReport report = std::exchange(report_, {});
  LeaveRest(report);
  report.submit_count = submit_count_;
  if (const std::optional<StepSample> step = meter_.TakeStep()) {
    ++step_count_;
    report.load.step_prefill_tokens = step->prefill_tokens;
    report.load.step_decode_tokens = step->decode_tokens;
    report.load.step_seconds = step->seconds;
  }
  report.step_number = step_count_;
  FillLoad(report.load);
  FillPrompts(report);
  if (moves_) FillRestores(report);
  report_due_ = false;
  return report;
}

// The engine's numbers are up to a quarter of a second old, the worker's own are not. So its own calls count as they
// are now, and the engine tells what it has beside them and how much of all waits.
void AdapterEngine::FillLoad(wire::Load& load) const {
  const EngineFacts& facts = watch_.facts();
  std::uint32_t decoding = 0;
  std::uint64_t tokens = 0;
  for (const auto& [id, call] : calls_) {
    const std::size_t prompt = requests_.at(call.key).generate.prompt.size();
    if (call.first_tokens) ++decoding;
    if (call.first_tokens) tokens += prompt + call.output_tokens;
  }
  const auto all = static_cast<std::uint32_t>(calls_.size() + forward_count_) + other_requests_;
  const std::uint32_t limit = MaxRunning(facts, options_);
  const std::uint32_t beyond = all > limit ? all - limit : 0;
  load.waiting_requests = std::min(std::max(watch_.load().waiting_requests.value_or(0), beyond), all - decoding);
  load.running_requests = all - load.waiting_requests;
  load.running_context_tokens = tokens;
  load.dropped_tokens = hit_drop_.drops() ? engine_block_tokens() : 0;
  const double used = watch_.load().used_share.value_or(static_cast<double>(tokens) /
                                                        (static_cast<double>(facts.block_count) * facts.block_tokens));
  const double free_share = 1 - std::clamp(used, 0.0, 1.0);
  load.free_block_count = static_cast<std::uint32_t>(std::lround(free_share * facts.grain_count()));
}

void AdapterEngine::FillRestores(StepReport& report) {
  SlotRestores restores = moves_->TakeRestores();
  ArrivalCounts& counts = report.counts.restored;
  counts.ends[static_cast<std::size_t>(wire::HoldOutcome::kComplete)] += restores.restored;
  counts.ends[static_cast<std::size_t>(wire::HoldOutcome::kBroken)] += restores.failed;
  counts.blocks += restores.blocks;
  counts.bytes += restores.bytes;
  counts.seconds = std::move(restores.seconds);
}

void AdapterEngine::FillPrompts(StepReport& report) const {
  std::map<std::uint64_t, const Requests::value_type*> waiting;  // in order of arrival
  for (const auto& entry : requests_) {
    if (!entry.second.has_tokens) waiting.emplace(entry.second.order, &entry);
  }
  for (const auto& [order, entry] : waiting) {
    const std::uint32_t uncached = UncachedTokens(entry->second);
    report.load.queued_prefill_tokens += uncached;
    if (report.prompts.size() == kMaxReportedPrompts) continue;
    report.prompts.push_back({entry->first, entry->second.received, uncached});
  }
}

}  // namespace roost::worker::adapters
