#include "worker/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/eviction.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sample/sampler.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

// What the engine knows of a request beside its tokens, which are the scheduler's.
struct Request {
  RequestKey key;
  wire::Sampling sampling;
  std::uint64_t first_output_index = 0;
  std::uint32_t output_limit = 0;
  std::vector<TokenId> stop_tokens;
  Instant submitted;

  std::uint32_t output_count = 0;
  std::optional<Instant> first_scheduled;
  std::optional<Instant> last_token;
  bool prompt_counted = false;
  bool announced = false;  // an event has told the cached tokens and the wait
};

// The context that a model can serve from the blocks it has.
std::uint32_t ServableContext(const Model& model) {
  const std::uint64_t pool_tokens = std::uint64_t{model.block_count()} * model.block_tokens();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model.shape().max_context_tokens, pool_tokens));
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, std::uint32_t max_context_tokens) {
  return {.max_batch_tokens = options.max_batch_tokens,
          .max_running = options.max_running_requests,
          .max_waiting = options.max_waiting_requests,
          .max_context_tokens = max_context_tokens};
}

std::optional<Instant> DeadlineOf(const wire::Generate& request, Instant now) {
  // A deadline beyond any clock is none, and must not wrap around.
  constexpr std::uint64_t kLongestMs = std::uint64_t{365} * 24 * 3600 * 1000;
  if (request.deadline_ms == 0 || request.deadline_ms > kLongestMs) return std::nullopt;
  return now + std::chrono::milliseconds(request.deadline_ms);
}

}  // namespace

struct Engine::State {
  State(Model& model_in, const Clock& clock_in, EngineOptions options_in)
      : model(model_in),
        clock(clock_in),
        options(std::move(options_in)),
        max_context_tokens(ServableContext(model)),
        pool(model.block_count()),
        cache(pool, {.block_tokens = model.block_tokens()}, std::make_unique<LruEviction>(model.block_count())),
        scheduler(cache, SchedulerOptionsOf(options, max_context_tokens)) {}

  Result<void> Validate(RequestKey key, const wire::Generate& request) const;
  Result<void> Submit(RequestKey key, wire::Generate request);
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);
  StepReport Step();

  void EndExpired(Instant now, StepReport& report);
  void NoteFirstScheduled(Request& request, Instant now, StepCounts& counts);
  void BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts);
  void SampleAll(const std::vector<ScheduledSlice>& slices, std::span<const float> logits, Instant now,
                 StepReport& report);
  RequestEvent TakeSample(SequenceId id, const Result<TokenId>& sample, Instant now, StepCounts& counts);
  void NoteToken(Request& request, Instant now, StepCounts& counts);
  void Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event);
  RequestEvent End(SequenceId id, wire::FinishReason reason, std::optional<Error> error);
  void Forget(SequenceId id);
  void FillReport(const std::vector<ScheduledSlice>& slices, double step_seconds, StepReport& report);

  Model& model;
  const Clock& clock;
  const EngineOptions options;
  const std::uint32_t max_context_tokens;
  BlockPool pool;
  PrefixCache cache;
  Scheduler scheduler;

  std::unordered_map<SequenceId, Request> requests;
  std::map<RequestKey, SequenceId> by_key;  // ordered: the requests of one link lie together
  std::vector<RequestEvent> pending_events;
  CacheCounters reported_cache_counters;
  std::uint64_t reported_preemptions = 0;

  Batch batch;
  SamplerScratch scratch;
};

// ---- requests in and out ----

Result<void> Engine::State::Validate(RequestKey key, const wire::Generate& request) const {
  if (by_key.contains(key)) return InvalidArgument("request_id", "{} is in use", key.request.value());
  if (request.max_output_tokens == 0) return InvalidArgument("max_output_tokens", "must be at least 1");
  ROOST_RETURN_IF_ERROR(ValidateSampling(request.sampling));
  const std::uint32_t vocab_size = model.shape().vocab_size;
  for (const TokenId token : request.prompt) {
    if (token >= vocab_size) {
      return InvalidArgument("prompt", "token {} is beyond the vocabulary of {}", token, vocab_size);
    }
  }
  return {};
}

Result<void> Engine::State::Submit(RequestKey key, wire::Generate generate) {
  ROOST_RETURN_IF_ERROR(Validate(key, generate));
  const Instant now = clock.Now();
  Request request;
  request.key = key;
  request.sampling = generate.sampling;
  request.first_output_index = generate.first_output_index;
  request.stop_tokens = std::move(generate.stop_tokens);
  if (!generate.ignore_eos) {
    request.stop_tokens.insert(request.stop_tokens.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  }
  request.submitted = now;
  const std::size_t prompt_token_count = generate.prompt.size();
  ROOST_ASSIGN_OR_RETURN(const SequenceId id, scheduler.Submit({.root = generate.root,
                                                                .prompt = std::move(generate.prompt),
                                                                .block_hashes = std::move(generate.block_hashes),
                                                                .deadline = DeadlineOf(generate, now)}));
  request.output_limit =
      std::min(generate.max_output_tokens, max_context_tokens - static_cast<std::uint32_t>(prompt_token_count));
  requests.emplace(id, std::move(request));
  by_key.emplace(key, id);
  return {};
}

void Engine::State::Cancel(RequestKey key) {
  const auto found = by_key.find(key);
  if (found == by_key.end()) return;
  pending_events.push_back(End(found->second, wire::FinishReason::kCancelled, std::nullopt));
}

void Engine::State::CancelLink(LinkId link) {
  auto next = by_key.lower_bound({link, RequestId(0)});
  while (next != by_key.end() && next->first.link == link) {
    const SequenceId id = next->second;
    ++next;
    Forget(id);
  }
  std::erase_if(pending_events, [link](const RequestEvent& event) { return event.link == link; });
}

// The last event of a request, which is gone with it.
RequestEvent Engine::State::End(SequenceId id, wire::FinishReason reason, std::optional<Error> error) {
  Request& request = requests.at(id);
  RequestEvent event{request.key.link, {}};
  event.event.request_id = request.key.request;
  event.event.finish = reason;
  event.event.error = std::move(error);
  Announce(request, scheduler.Get(id), event.event);
  Forget(id);
  return event;
}

void Engine::State::Forget(SequenceId id) {
  const auto found = requests.find(id);
  by_key.erase(found->second.key);
  requests.erase(found);
  scheduler.Remove(id);
}

// ---- one step ----

StepReport Engine::State::Step() {
  StepReport report;
  report.tokens = std::exchange(pending_events, {});
  const Instant begin = clock.Now();
  EndExpired(begin, report);
  const std::vector<ScheduledSlice>& slices = scheduler.Schedule();
  double step_seconds = 0;
  if (!slices.empty()) {
    BuildBatch(slices, begin, report.counts);
    const std::span<const float> logits = model.Forward(batch);
    const Instant end = clock.Now();
    step_seconds = ToSeconds(end - begin);
    scheduler.Commit();
    SampleAll(slices, logits, end, report);
  }
  FillReport(slices, step_seconds, report);
  return report;
}

void Engine::State::EndExpired(Instant now, StepReport& report) {
  for (const SequenceId id : scheduler.Expired(now)) {
    report.tokens.push_back(End(id, wire::FinishReason::kError,
                                Error{ErrorCode::kDeadlineExceeded, "the deadline passed in the worker's queue", ""}));
  }
}

void Engine::State::BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts) {
  batch.Clear();
  for (const ScheduledSlice& slice : slices) {
    NoteFirstScheduled(requests.at(slice.sequence->id), now, counts);
    const auto begin = slice.sequence->tokens.begin() + slice.first_position;
    batch.tokens.insert(batch.tokens.end(), begin, begin + slice.token_count);
    batch.slices.push_back({.blocks = slice.sequence->blocks,
                            .first_position = slice.first_position,
                            .token_count = slice.token_count,
                            .wants_logits = slice.wants_logits});
  }
}

void Engine::State::NoteFirstScheduled(Request& request, Instant now, StepCounts& counts) {
  if (request.first_scheduled) return;
  request.first_scheduled = now;
  counts.queue_wait_seconds.push_back(ToSeconds(now - request.submitted));
}

void Engine::State::SampleAll(const std::vector<ScheduledSlice>& slices, std::span<const float> logits, Instant now,
                              StepReport& report) {
  const std::size_t vocab_size = model.shape().vocab_size;
  std::size_t row = 0;
  for (const ScheduledSlice& slice : slices) {
    if (!slice.wants_logits) continue;
    const SequenceId id = slice.sequence->id;
    const Request& request = requests.at(id);
    ROOST_CHECK((row + 1) * vocab_size <= logits.size(), "{} logits for row {}", logits.size(), row);
    const Result<TokenId> sample = SampleToken(logits.subspan(row++ * vocab_size, vocab_size), request.sampling,
                                               request.first_output_index + request.output_count, scratch);
    report.tokens.push_back(TakeSample(id, sample, now, report.counts));
  }
}

// What a sampled token means for its request: one more token, or its end, or both.
RequestEvent Engine::State::TakeSample(SequenceId id, const Result<TokenId>& sample, Instant now, StepCounts& counts) {
  Request& request = requests.at(id);
  const Sequence& sequence = scheduler.Get(id);
  if (!std::exchange(request.prompt_counted, true)) {
    counts.prompt_tokens += sequence.prompt_token_count;
    counts.cached_prompt_tokens += sequence.cached_token_count;
  }
  if (!sample.ok()) return End(id, wire::FinishReason::kError, sample.error());
  const TokenId token = *sample;
  if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) != request.stop_tokens.end()) {
    return End(id, wire::FinishReason::kStop, std::nullopt);
  }
  NoteToken(request, now, counts);
  if (request.output_count == request.output_limit) {
    RequestEvent event = End(id, wire::FinishReason::kLength, std::nullopt);
    event.event.tokens.push_back(token);
    return event;
  }
  scheduler.Append(id, token);
  RequestEvent event{request.key.link, {}};
  event.event.request_id = request.key.request;
  event.event.tokens.push_back(token);
  Announce(request, sequence, event.event);
  return event;
}

void Engine::State::NoteToken(Request& request, Instant now, StepCounts& counts) {
  if (request.last_token) {
    counts.inter_token_seconds.push_back(ToSeconds(now - *request.last_token));
  } else {
    counts.ttft_seconds.push_back(ToSeconds(now - request.submitted));
  }
  request.last_token = now;
  ++request.output_count;
  ++counts.output_tokens;
}

// A request that never left the queue has nothing to tell.
void Engine::State::Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event) {
  if (!request.first_scheduled || std::exchange(request.announced, true)) return;
  event.cached_token_count = sequence.cached_token_count;
  event.queue_wait_seconds = ToSeconds(*request.first_scheduled - request.submitted);
}

// Slices' sequences may have ended by now: only the slices' own numbers are read.
void Engine::State::FillReport(const std::vector<ScheduledSlice>& slices, double step_seconds, StepReport& report) {
  report.events = cache.TakeEvents();
  report.counts.evicted_blocks = cache.counters().evicted_blocks - reported_cache_counters.evicted_blocks;
  report.counts.verification_misses =
      cache.counters().verification_misses - reported_cache_counters.verification_misses;
  reported_cache_counters = cache.counters();
  report.counts.preemptions = scheduler.preemption_count() - reported_preemptions;
  reported_preemptions = scheduler.preemption_count();
  report.free_blocks = pool.free_count();
  report.referenced_blocks = pool.referenced_count();
  report.idle_blocks = pool.idle_count();

  wire::Load& load = report.load;
  load.waiting_requests = scheduler.waiting_count();
  load.running_requests = scheduler.running_count();
  load.queued_prefill_tokens = scheduler.queued_prefill_tokens();
  load.running_context_tokens = scheduler.running_context_tokens();
  load.free_block_count = pool.free_count() + pool.idle_count();
  load.cached_block_count = cache.ready_count();
  load.digest = cache.digest();
  load.step_seconds = step_seconds;
  for (const ScheduledSlice& slice : slices) {
    (slice.is_decode ? load.step_decode_tokens : load.step_prefill_tokens) += slice.token_count;
  }
}

// ---- the public face ----

Engine::Engine(Model& model, const Clock& clock, EngineOptions options)
    : state_(std::make_unique<State>(model, clock, std::move(options))) {}
Engine::~Engine() = default;

Result<void> Engine::Submit(LinkId link, wire::Generate request) {
  const RequestKey key{link, request.request_id};
  return state_->Submit(key, std::move(request));
}
void Engine::Cancel(RequestKey key) { state_->Cancel(key); }
void Engine::CancelLink(LinkId link) { state_->CancelLink(link); }
// Stands in until the cache can pin: the wire and the link are there already.
void Engine::Pin(const wire::Pin& /*pin*/) {}
void Engine::Unpin(const wire::Unpin& /*unpin*/) {}
bool Engine::HasWork() const { return !state_->requests.empty() || !state_->pending_events.empty(); }
StepReport Engine::Step() { return state_->Step(); }
std::vector<wire::StoredRun> Engine::Snapshot() const { return state_->cache.Snapshot(); }
std::uint32_t Engine::max_context_tokens() const { return state_->max_context_tokens; }
Result<void> Engine::CheckInvariants() const { return state_->scheduler.CheckInvariants(); }

}  // namespace roost::worker
