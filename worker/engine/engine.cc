#include "worker/engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/eviction_factory.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine/cache_watch.h"
#include "worker/engine/hit_verifier.h"
#include "worker/engine/request_table.h"
#include "worker/sample/sampler.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

// A conversation that is expected back has its blocks held like this, and for so much longer than it says.
constexpr std::uint32_t kReturnPriority = 60;
constexpr double kReturnMargin = 1.25;
constexpr std::chrono::minutes kLongestReturn{10};

// The context that a model can serve from the blocks it has.
std::uint32_t ServableContext(const Model& model) {
  const std::uint64_t pool_tokens = std::uint64_t{model.block_count()} * model.block_tokens();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model.shape().max_context_tokens, pool_tokens));
}

CacheOptions CacheOptionsOf(const EngineOptions& options, const Model& model) {
  CacheOptions cache{.block_tokens = model.block_tokens(),
                     .pinned_share_limit = options.pinned_share_limit,
                     .min_hold = options.min_hold};
  for (const TenantShare& tenant : options.tenant_shares) cache.group_shares.push_back(tenant.share);
  return cache;
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, std::uint32_t max_context_tokens) {
  return {.max_batch_tokens = options.max_batch_tokens,
          .max_running = options.max_running_requests,
          .max_waiting = options.max_waiting_requests,
          .max_context_tokens = max_context_tokens,
          .max_partial_prefills = options.max_partial_prefills,
          .policy = options.schedule_policy,
          .first_token_target = options.first_token_target};
}

std::unique_ptr<EvictionPolicy> MakePolicy(const EngineOptions& options, std::uint32_t block_count) {
  std::vector<double> shares;
  for (const TenantShare& tenant : options.tenant_shares) shares.push_back(tenant.share);
  Result<std::unique_ptr<EvictionPolicy>> policy = MakeEvictionPolicy(options.eviction, block_count, shares);
  ROOST_CHECK(policy.ok(), "{}", policy.error().ToString());
  return std::move(policy).value();
}

std::optional<Instant> After(std::uint64_t ms, Instant now) {
  // A time beyond any clock is none, and must not wrap around.
  if (ms == 0 || ms > wire::kMaxKeepMs) return std::nullopt;
  return now + std::chrono::milliseconds(ms);
}

RetentionHint HintOf(std::uint32_t priority, std::uint64_t duration_ms, const wire::Generate& request) {
  RetentionHint hint{.priority = priority, .duration = std::chrono::milliseconds(duration_ms)};
  if (duration_ms == 0) hint.priority = kDefaultRetentionPriority;
  if (request.expect_return_ms == 0) return hint;
  const auto expected = std::chrono::milliseconds(request.expect_return_ms);
  const Duration back =
      std::min<Duration>(kLongestReturn, std::chrono::duration_cast<Duration>(expected * kReturnMargin));
  hint.priority = std::max(hint.priority, kReturnPriority);
  hint.duration = std::max(hint.duration, back);
  return hint;
}

}  // namespace

struct Engine::State {
  // A row of logits, and the first of its draws.
  struct WantedRow {
    SequenceId sequence;
    std::uint32_t first_draw = 0;
  };

  State(Model& model_in, const Clock& clock_in, EngineOptions options_in)
      : model(model_in),
        clock(clock_in),
        options(std::move(options_in)),
        max_context_tokens(ServableContext(model)),
        pool(model.block_count()),
        cache(pool, CacheOptionsOf(options, model), MakePolicy(options, model.block_count())),
        scheduler(cache, SchedulerOptionsOf(options, max_context_tokens)),
        verifier(scheduler, options.verify_hits_share),
        watch(cache, scheduler) {
    if (options.check_invariants) pool.NoteEmptied();
  }

  Result<void> Validate(RequestKey key, const wire::Generate& request) const;
  Result<void> Submit(RequestKey key, wire::Generate generate);
  SequenceSpec SpecOf(wire::Generate& generate, Instant now) const;
  EvictionGroup GroupOf(const std::string& tenant) const;
  void Cancel(RequestKey key);
  void CancelLink(LinkId link);
  void Pin(const wire::Pin& pin);

  StepReport Step();
  void EndExpired(Instant now, StepReport& report);
  void BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts);
  void PoisonEmptied();
  void NoteFirstScheduled(const Sequence& sequence, Instant now, StepCounts& counts);
  void PlanDraws(const std::vector<ScheduledSlice>& slices);
  void TakeSamples(std::span<const kernels::SampledToken> sampled, Instant now, StepReport& report);
  std::span<const float> LogitsOf(std::uint32_t row);
  void Verify(std::span<const float> logits, StepCounts& counts);
  void ForkAll(SequenceId id);
  RequestEvent TakeSample(SequenceId id, const Result<TokenId>& sample, Instant now, StepCounts& counts);
  void NoteToken(Choice& choice, TokenId token, Instant now, StepCounts& counts);
  void Announce(Request& request, const Sequence& sequence, wire::TokenEvent& event);
  RequestEvent EventOf(SequenceId id);
  RequestEvent End(SequenceId id, wire::FinishReason reason, std::optional<Error> error);
  void Forget(SequenceId id);
  void ForgetRequest(RequestKey key);
  void FillReport(const std::vector<ScheduledSlice>& slices, double step_seconds, StepReport& report);

  Model& model;
  const Clock& clock;
  const EngineOptions options;
  const std::uint32_t max_context_tokens;
  BlockPool pool;
  PrefixCache cache;
  Scheduler scheduler;
  HitVerifier verifier;
  CacheWatch watch;

  RequestTable requests;
  std::vector<RequestEvent> pending_events;
  std::uint64_t uncached_requests = 0;  // since the last report

  Batch batch;
  std::vector<WantedRow> wanted;    // rows of logits of this step
  Draws draws;                      // from them, row after row
  std::vector<SequenceId> choices;  // of the request that is being sampled
};

// ---- requests in and out ----

Result<void> Engine::State::Validate(RequestKey key, const wire::Generate& request) const {
  if (requests.Contains(key)) return InvalidArgument("request_id", "{} is in use", key.request.value());
  if (request.max_output_tokens == 0) return InvalidArgument("max_output_tokens", "must be at least 1");
  if (request.sample_count == 0) return InvalidArgument("sample_count", "must be at least 1");
  const std::uint32_t vocab_size = model.shape().vocab_size;
  ROOST_RETURN_IF_ERROR(ValidateSampling(request.sampling, vocab_size));
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
  scheduler.AdvanceTo(now);
  const auto prompt_token_count = static_cast<std::uint32_t>(generate.prompt.size());
  ROOST_ASSIGN_OR_RETURN(const SequenceId id, scheduler.Submit(SpecOf(generate, now)));
  Request request;
  request.key = key;
  request.sampling = std::move(generate.sampling);
  request.first_output_index = generate.first_output_index;
  request.output_limit = std::min(generate.max_output_tokens, max_context_tokens - prompt_token_count);
  request.sample_count = generate.sample_count;
  request.stop_tokens = std::move(generate.stop_tokens);
  if (!generate.ignore_eos) {
    request.stop_tokens.insert(request.stop_tokens.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  }
  request.root = generate.root;
  request.submitted = now;
  watch.OnSubmitted(request, scheduler.Get(id));
  if (generate.cache_mode == wire::CacheMode::kOff) ++uncached_requests;
  LogitAdjuster adjuster(request.sampling, scheduler.Get(id).tokens, request.first_output_index);
  adjuster.Reserve(request.output_limit);
  requests.Add(std::move(request), id).adjuster = std::move(adjuster);
  return {};
}

// Takes the prompt and its hashes out of `generate`.
SequenceSpec Engine::State::SpecOf(wire::Generate& generate, Instant now) const {
  std::optional<Instant> deadline = After(generate.deadline_ms, now);
  if (options.max_queue_wait) deadline = std::min(deadline.value_or(Instant::max()), now + *options.max_queue_wait);
  const wire::Retention retention = generate.retention.value_or(wire::Retention{});
  return {.root = generate.root,
          .prompt = std::move(generate.prompt),
          .block_hashes = std::move(generate.block_hashes),
          .deadline = deadline,
          .priority = generate.priority,
          .cache_mode = generate.cache_mode,
          .group = GroupOf(generate.tenant),
          .prompt_retention = HintOf(retention.prompt_priority, retention.prompt_duration_ms, generate),
          .decode_retention = HintOf(retention.decode_priority, retention.decode_duration_ms, generate),
          .session = generate.session_hash,
          .fork_count = generate.sample_count - 1,
          .max_output_tokens = generate.max_output_tokens};
}

// Tenants without a share are everybody else.
EvictionGroup Engine::State::GroupOf(const std::string& tenant) const {
  const auto& shares = options.tenant_shares;
  const auto found =
      std::find_if(shares.begin(), shares.end(), [&tenant](const TenantShare& share) { return share.name == tenant; });
  return EvictionGroup(found == shares.end() ? 0 : static_cast<std::uint32_t>(found - shares.begin()) + 1);
}

void Engine::State::Cancel(RequestKey key) {
  const Request* request = requests.Find(key);
  if (request == nullptr) return;
  pending_events.push_back(End(request->sequences.front(), wire::FinishReason::kCancelled, std::nullopt));
}

void Engine::State::CancelLink(LinkId link) {
  for (const RequestKey key : requests.KeysOf(link)) ForgetRequest(key);
  std::erase_if(pending_events, [link](const RequestEvent& event) { return event.link == link; });
}

void Engine::State::Pin(const wire::Pin& pin) {
  const Instant now = clock.Now();
  scheduler.AdvanceTo(now);
  cache.Pin(pin.hashes, After(pin.duration_ms, now));
}

RequestEvent Engine::State::EventOf(SequenceId id) {
  const Choice& choice = *requests.FindChoice(id);
  RequestEvent event{choice.request->key.link, {}};
  event.event.request_id = choice.request->key.request;
  event.event.choice = choice.index;
  return event;
}

// The last event of a choice, which is gone with it; of some reasons also the last one of its request.
RequestEvent Engine::State::End(SequenceId id, wire::FinishReason reason, std::optional<Error> error) {
  RequestEvent event = EventOf(id);
  event.event.finish = reason;
  event.event.error = std::move(error);
  Request& request = *requests.FindChoice(id)->request;
  Announce(request, scheduler.Get(id), event.event);
  if (wire::EndsAllChoices(reason)) {
    ForgetRequest(request.key);
  } else {
    Forget(id);
  }
  return event;
}

void Engine::State::Forget(SequenceId id) {
  watch.OnEnd(scheduler.Get(id));
  scheduler.Remove(id);
  requests.ForgetChoice(id);
}

void Engine::State::ForgetRequest(RequestKey key) {
  for (const SequenceId id : requests.Find(key)->sequences) {
    watch.OnEnd(scheduler.Get(id));
    scheduler.Remove(id);
  }
  requests.Forget(key);
}

// ---- one step ----

StepReport Engine::State::Step() {
  StepReport report;
  report.tokens = std::exchange(pending_events, {});
  const Instant begin = clock.Now();
  scheduler.AdvanceTo(begin);
  EndExpired(begin, report);
  const std::vector<ScheduledSlice>& slices = scheduler.Schedule();
  double step_seconds = 0;
  if (!slices.empty()) {
    BuildBatch(slices, begin, report.counts);
    PlanDraws(slices);
    model.Compute(batch);
    const std::span<const kernels::SampledToken> sampled = model.Sample(draws);
    const Instant end = clock.Now();
    step_seconds = ToSeconds(end - begin);
    scheduler.Commit(end - begin);
    TakeSamples(sampled, end, report);
  }
  FillReport(slices, step_seconds, report);
  if (options.check_invariants) {
    const Result<void> sound = scheduler.CheckInvariants();
    ROOST_CHECK(sound.ok(), "{}", sound.error().ToString());
  }
  return report;
}

void Engine::State::EndExpired(Instant now, StepReport& report) {
  for (const SequenceId id : scheduler.Expired(now)) {
    const Choice* choice = requests.FindChoice(id);
    if (choice == nullptr) continue;
    const bool overdue = options.max_queue_wait && now >= choice->request->submitted + *options.max_queue_wait;
    const Error error = overdue ? Error{ErrorCode::kOverloaded, "waited too long in the worker's queue", ""}
                                : Error{ErrorCode::kDeadlineExceeded, "the deadline passed in the worker's queue", ""};
    report.tokens.push_back(End(id, wire::FinishReason::kError, error));
  }
}

void Engine::State::BuildBatch(const std::vector<ScheduledSlice>& slices, Instant now, StepCounts& counts) {
  batch.Clear();
  for (const ScheduledCopy& copy : scheduler.copies()) {
    batch.copies.push_back({.from = copy.from, .to = copy.to, .row_count = copy.row_count});
  }
  PoisonEmptied();
  for (const ScheduledSlice& slice : slices) {
    NoteFirstScheduled(*slice.sequence, now, counts);
    const auto begin = slice.sequence->tokens.begin() + slice.first_position;
    batch.tokens.insert(batch.tokens.end(), begin, begin + slice.token_count);
    batch.slices.push_back({.blocks = slice.sequence->blocks,
                            .first_position = slice.first_position,
                            .token_count = slice.token_count,
                            .wants_logits = slice.wants_logits});
  }
}

// Only what is copied in this step from a block that was evicted after is still to be read.
void Engine::State::PoisonEmptied() {
  for (const BlockId block : pool.TakeEmptied()) {
    const bool is_source = std::any_of(batch.copies.begin(), batch.copies.end(),
                                       [block](const BlockCopy& copy) { return copy.from == block; });
    if (!is_source) batch.poisoned.push_back(block);
  }
}

void Engine::State::NoteFirstScheduled(const Sequence& sequence, Instant now, StepCounts& counts) {
  const Choice* choice = requests.FindChoice(sequence.id);
  if (choice == nullptr || choice->request->first_scheduled) return;
  Request& request = *choice->request;
  request.first_scheduled = now;
  counts.queue_wait_seconds.push_back(ToSeconds(now - request.submitted));
  watch.OnStarted(request, sequence);
}

// One draw for each choice of a request: all of them begin with the same row when the prompt has been computed.
void Engine::State::PlanDraws(const std::vector<ScheduledSlice>& slices) {
  wanted.clear();
  draws.Clear();
  for (const ScheduledSlice& slice : slices) {
    if (!slice.wants_logits) continue;
    const auto row = static_cast<std::uint32_t>(wanted.size());
    wanted.push_back({.sequence = slice.sequence->id, .first_draw = static_cast<std::uint32_t>(draws.rows.size())});
    const Choice* choice = requests.FindChoice(slice.sequence->id);
    if (choice == nullptr) continue;
    const Request& request = *choice->request;
    for (std::uint32_t fork = 0; fork <= slice.sequence->fork_count; ++fork) {
      kernels::SampleRow draw = DrawOf(request.sampling, request.first_output_index + choice->output_count);
      draw.seed += choice->index + fork;
      draw.row = row;
      draws.Add(draw, choice->adjuster.adjustments());
    }
  }
}

std::span<const float> Engine::State::LogitsOf(std::uint32_t row) {
  const std::size_t vocab_size = model.shape().vocab_size;
  return model.Logits().subspan(row * vocab_size, vocab_size);
}

// Slices are not looked at: the end of one choice may be the end of others of its request.
void Engine::State::TakeSamples(std::span<const kernels::SampledToken> sampled, Instant now, StepReport& report) {
  ROOST_CHECK(sampled.size() == draws.rows.size(), "{} tokens for {} draws", sampled.size(), draws.rows.size());
  for (std::uint32_t row = 0; row < wanted.size(); ++row) {
    const SequenceId id = wanted[row].sequence;
    if (verifier.Owns(id)) {
      Verify(LogitsOf(row), report.counts);
      continue;
    }
    const Choice* choice = requests.FindChoice(id);
    if (choice == nullptr) continue;
    const bool prompt_is_new = !choice->request->prompt_counted;
    choices.assign(1, id);
    ForkAll(id);
    if (prompt_is_new) verifier.OnPromptComputed(scheduler.Get(id), [this, row] { return LogitsOf(row); });
    for (std::size_t i = 0; i < choices.size(); ++i) {
      // A choice with broken logits has ended them all.
      if (requests.FindChoice(choices[i]) == nullptr) break;
      const Result<TokenId> token = TokenOf(sampled[wanted[row].first_draw + i]);
      report.tokens.push_back(TakeSample(choices[i], token, now, report.counts));
    }
  }
}

void Engine::State::Verify(std::span<const float> logits, StepCounts& counts) {
  if (verifier.Judge(logits) == HitVerifier::Verdict::kRight) {
    ++counts.verified_hits;
    return;
  }
  ++counts.wrong_hits;
  spdlog::error("a prompt computed with cached blocks and without them has different logits");
}

// The prompt has just been computed: the other choices begin.
void Engine::State::ForkAll(SequenceId id) {
  Request& request = *requests.FindChoice(id)->request;
  while (scheduler.Get(id).fork_count > 0) {
    const auto index = static_cast<std::uint32_t>(choices.size());
    choices.push_back(scheduler.Fork(id));
    LogitAdjuster& adjuster = requests.AddChoice(request, choices.back(), index).adjuster;
    adjuster = requests.FindChoice(id)->adjuster;
    adjuster.Reserve(request.output_limit);
  }
}

// What a sampled token means for its request: one more token, or its end, or both.
RequestEvent Engine::State::TakeSample(SequenceId id, const Result<TokenId>& sample, Instant now, StepCounts& counts) {
  Choice& choice = *requests.FindChoice(id);
  Request& request = *choice.request;
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
  NoteToken(choice, token, now, counts);
  if (choice.output_count == request.output_limit) {
    RequestEvent event = End(id, wire::FinishReason::kLength, std::nullopt);
    event.event.tokens.push_back(token);
    return event;
  }
  scheduler.Append(id, token);
  RequestEvent event = EventOf(id);
  event.event.tokens.push_back(token);
  Announce(request, sequence, event.event);
  return event;
}

// The time to the first token is the request's; its choices have theirs at one time.
void Engine::State::NoteToken(Choice& choice, TokenId token, Instant now, StepCounts& counts) {
  if (choice.last_token) {
    counts.inter_token_seconds.push_back(ToSeconds(now - *choice.last_token));
  } else if (choice.index == 0) {
    counts.ttft_seconds.push_back(ToSeconds(now - choice.request->submitted));
  }
  choice.last_token = now;
  choice.adjuster.Append(token);
  ++choice.output_count;
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
  cache.TakeEvents(report.events);
  watch.Fill(clock.Now(), report);
  report.counts.uncached_requests = std::exchange(uncached_requests, 0);
  report.free_blocks = pool.free_count();
  report.referenced_blocks = pool.referenced_count();
  report.idle_blocks = pool.idle_count();

  wire::Load& load = report.load;
  load = scheduler.Load();
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
void Engine::Pin(const wire::Pin& pin) { state_->Pin(pin); }
void Engine::Unpin(const wire::Unpin& unpin) { state_->cache.Unpin(unpin.hashes); }
bool Engine::HasWork() const {
  return !state_->requests.empty() || !state_->pending_events.empty() || state_->verifier.busy();
}
StepReport Engine::Step() { return state_->Step(); }
std::vector<wire::StoredRun> Engine::Snapshot() const { return state_->cache.Snapshot(); }
std::uint32_t Engine::max_context_tokens() const { return state_->max_context_tokens; }
Result<void> Engine::CheckInvariants() const { return state_->scheduler.CheckInvariants(); }

}  // namespace roost::worker
