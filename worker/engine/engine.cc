#include "worker/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/constraint_queue.h"
#include "worker/engine/engine_state.h"
#include "worker/sample/sampler.h"

namespace roost::worker {
namespace {

// If a client says when its conversation will come back (expect_return_ms), its blocks are kept with at least this
// priority, and for the announced time multiplied by this margin.
constexpr std::uint32_t kReturnPriority = 60;
constexpr double kReturnMargin = 1.25;
constexpr std::chrono::minutes kLongestReturn{10};

static_assert((kMaxScoredRequests + kMaxFurtherLogits) *
                      (sizeof(kernels::ScoredToken) + wire::kMaxTopLogprobs * sizeof(kernels::TopToken)) +
                  kMaxScoredRequests * sizeof(kernels::SampledToken) <=
              kernels::kMaxReadbackBytes);

CacheOptions CacheOptionsOf(const EngineOptions& options, const Model& model) {
  CacheOptions cache{.block_tokens = model.block_tokens(),
                     .pinned_share_limit = options.pinned_share_limit,
                     .retained_share_limit = options.retained_share_limit,
                     .min_hold = options.min_hold,
                     .held_share_limit = options.held_share_limit};
  for (const TenantShare& tenant : options.tenant_shares) cache.group_shares.push_back(tenant.share);
  return cache;
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options, std::uint32_t max_context_tokens) {
  return {.max_batch_tokens = options.max_batch_tokens,
          .short_step_tokens = options.short_step_tokens,
          .max_running = options.max_running_requests,
          .max_waiting = options.max_waiting_requests,
          .max_context_tokens = max_context_tokens,
          .max_partial_prefills = options.max_partial_prefills,
          .policy = options.schedule_policy,
          .first_token_target = options.first_token_target,
          .max_scored_tokens = kMaxFurtherLogits,
          .disk = options.disk};
}

std::unique_ptr<EvictionPolicy> MakePolicy(const EngineOptions& options, std::uint32_t block_count) {
  std::vector<double> shares;
  for (const TenantShare& tenant : options.tenant_shares) shares.push_back(tenant.share);
  Result<std::unique_ptr<EvictionPolicy>> policy = MakeEvictionPolicy(options.eviction, block_count, shares);
  ROOST_CHECK(policy.ok(), "{}", policy.error().ToString());
  return std::move(policy).value();
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

// True when the hint asked for more time than it gets.
bool Shorten(RetentionHint& hint, Duration most) {
  if (hint.duration <= most) return false;
  hint.duration = most;
  return true;
}

// The same for the lifetimes.
bool Shorten(std::vector<FrontLifetime>& lifetimes, Duration most) {
  bool is_shortened = false;
  for (FrontLifetime& front : lifetimes) {
    is_shortened |= front.duration > most;
    front.duration = std::min(front.duration, most);
  }
  return is_shortened;
}

// A block that a lifetime ends in has it too: its first rows are worth as much as the block before it.
std::vector<FrontLifetime> LifetimesOf(const wire::Generate& request, std::uint32_t block_tokens) {
  std::vector<FrontLifetime> fronts;
  for (const wire::Lifetime& lifetime : request.lifetimes) {
    const auto end = std::min(lifetime.end_token, static_cast<std::uint32_t>(request.prompt.size()));
    fronts.push_back({(end + block_tokens - 1) / block_tokens, std::chrono::milliseconds(lifetime.duration_ms)});
  }
  return fronts;
}

// The request's biases and stop tokens are set already.
void SetOutputWishes(const wire::Generate& generate, std::uint32_t vocab_size, Request& request) {
  if (generate.output_logprobs) request.output_logprobs = std::min(*generate.output_logprobs, vocab_size);
  if (generate.prompt_logprobs) request.prompt_logprobs = std::min(*generate.prompt_logprobs, vocab_size);
  if (generate.min_output_tokens <= generate.first_output_index) return;
  request.min_output_tokens = generate.min_output_tokens;
  request.early_biases = request.biases;
  BanTokens(request.stop_tokens, vocab_size, request.early_biases);
}

RequestEvent EndOf(RequestKey key, wire::FinishReason reason, std::optional<Error> error) {
  RequestEvent event;
  event.link = key.link;
  event.event.request_id = key.request;
  event.event.finish = reason;
  event.event.error = std::move(error);
  return event;
}

}  // namespace

Engine::State::State(Model& model_in, const Clock& clock_in, EngineOptions options_in)
    : model(model_in),
      clock(clock_in),
      options(std::move(options_in)),
      max_context_tokens(ServableContext(model)),
      pool(model.block_count()),
      cache(pool, CacheOptionsOf(options, model), MakePolicy(options, model.block_count())),
      scheduler(cache, SchedulerOptionsOf(options, max_context_tokens)),
      verifier(cache, scheduler, options.verify_hits_share, model.arithmetic().batch_tolerance),
      watch(cache, scheduler),
      constraints(options.constrainer, options.max_waiting_requests),
      erasures(cache, scheduler.sequences(), scheduler.arrivals(), options.disk, options.wiper),
      holds(
          scheduler.arrivals(), scheduler.pace(),
          {.readable = options.readable, .arriving = options.arriving, .source = options.source, .disk = options.disk},
          model.block_tokens()),
      publisher(cache, options.readable),
      disk_offers(cache, options.disk),
      count_rows(std::min(options.max_running_requests, options.max_batch_tokens)) {
  ROOST_CHECK(!options.plan_ahead || options.verify_hits_share == 0,
              "plan_ahead can not be combined with verify_hits_share");
  draws.fill_masks = [this](std::span<std::uint32_t> masks) { FillMasks(masks); };
  if (options.check_invariants) pool.NoteEmptied();
}

// ---- requests in and out ----

Result<void> Engine::State::Validate(RequestKey key, const wire::Generate& request) const {
  if (requests.Contains(key) || constraints.Contains(key))
    return InvalidArgument("request_id", "{} is in use", key.request.value());
  if (!request.adapter.empty()) return InvalidArgument("adapter", "this worker serves no adapters");
  if (request.max_output_tokens == 0) return InvalidArgument("max_output_tokens", "must be at least 1");
  if (request.sample_count == 0) return InvalidArgument("sample_count", "must be at least 1");
  const bool wants_logprobs = request.output_logprobs.has_value() || request.prompt_logprobs.has_value();
  if (wants_logprobs && !TellsLogprobs(options)) {
    return InvalidArgument("logprobs", "are not reported by a worker that may run more than {} requests at a time",
                           kMaxScoredRequests);
  }
  for (const std::optional<std::uint32_t> top_count : {request.output_logprobs, request.prompt_logprobs}) {
    if (top_count.value_or(0) <= wire::kMaxTopLogprobs) continue;
    return InvalidArgument("logprobs", "{} is more than {}", *top_count, wire::kMaxTopLogprobs);
  }
  const std::uint32_t vocab_size = model.shape().vocab_size;
  ROOST_RETURN_IF_ERROR(ValidateSampling(request.sampling, vocab_size));
  for (const TokenId token : request.prompt) {
    if (token >= vocab_size) {
      return InvalidArgument("prompt", "token {} is beyond the vocabulary of {}", token, vocab_size);
    }
  }
  return {};
}

Result<void> Engine::State::Submit(RequestKey key, wire::Generate generate, Instant received) {
  ROOST_RETURN_IF_ERROR(Validate(key, generate));
  if (!generate.constraint) return Admit(key, std::move(generate), received, nullptr);
  ROOST_RETURN_IF_ERROR(constraints.Push({key, std::move(generate), received}));
  TakeConstrained();
  return {};
}

Result<void> Engine::State::Admit(RequestKey key, wire::Generate generate, Instant received,
                                  std::unique_ptr<Automaton> automaton) {
  scheduler.AdvanceTo(clock.Now());
  const auto prompt_token_count = static_cast<std::uint32_t>(generate.prompt.size());
  SequenceSpec spec = SpecOf(generate, received);
  const bool is_prompt_shortened = Shorten(spec.prompt_retention, options.max_retention);
  const bool is_decode_shortened = Shorten(spec.decode_retention, options.max_retention);
  const bool is_shortened =
      Shorten(spec.lifetimes, options.max_retention) || is_prompt_shortened || is_decode_shortened;
  ROOST_ASSIGN_OR_RETURN(const SequenceId id, scheduler.Submit(std::move(spec)));
  Request request;
  request.key = key;
  for (const auto& [token, bias] : std::exchange(generate.sampling.logit_bias, {})) {
    request.biases.push_back({.token = token, .bias = bias});
  }
  request.sampling = std::move(generate.sampling);
  request.first_output_index = generate.first_output_index;
  request.output_limit = std::min(generate.max_output_tokens, max_context_tokens - prompt_token_count);
  request.sample_count = generate.sample_count;
  request.prompt_counted = generate.part == wire::RequestPart::kAnswer;
  request.stop_tokens = std::move(generate.stop_tokens);
  if (!generate.ignore_eos) {
    request.stop_tokens.insert(request.stop_tokens.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  }
  if (generate.constraint) request.constraint_field = std::move(generate.constraint->field);
  SetOutputWishes(generate, model.shape().vocab_size, request);
  request.root = generate.root;
  request.submitted = received;
  request.deadline = After(generate.deadline_ms, received);
  watch.OnSubmitted(request, scheduler.Get(id));
  if (generate.cache_mode == wire::CacheMode::kOff) ++uncached_requests;
  if (is_shortened) ++shortened_retentions;
  Choice& first = requests.Add(std::move(request), id);
  if (automaton != nullptr) {
    // The constraint lets the model's own stop tokens end the text where it may end, unless the request ignores them.
    const std::vector<TokenId> stop_tokens = generate.ignore_eos ? std::vector<TokenId>() : options.stop_tokens;
    first.constrained =
        std::make_unique<ConstrainedOutput>(std::move(automaton), model.shape().vocab_size, stop_tokens);
  }
  return {};
}

// Moves the prompt and its hashes out of `generate`.
SequenceSpec Engine::State::SpecOf(wire::Generate& generate, Instant received) const {
  std::optional<Instant> start_deadline;
  if (options.max_queue_wait) start_deadline = received + *options.max_queue_wait;
  const wire::Retention retention = generate.retention.value_or(wire::Retention{});
  std::vector<FrontLifetime> lifetimes = LifetimesOf(generate, model.block_tokens());
  return {.root = generate.root,
          .own = generate.own,
          .prompt = std::move(generate.prompt),
          .block_hashes = std::move(generate.block_hashes),
          .deadline = start_deadline,
          .priority = generate.priority,
          .cache_mode = generate.cache_mode,
          .group = GroupOf(generate.tenant),
          .tenant = generate.tenant,
          .prompt_retention = HintOf(retention.prompt_priority, retention.prompt_duration_ms, generate),
          .decode_retention = HintOf(retention.decode_priority, retention.decode_duration_ms, generate),
          .lifetimes = std::move(lifetimes),
          .session = generate.session_hash,
          .fork_count = generate.sample_count - 1,
          .max_output_tokens = generate.max_output_tokens,
          .scores_prompt = generate.prompt_logprobs.has_value()};
}

// Tenants without a share belong to group 0.
EvictionGroup Engine::State::GroupOf(const std::string& tenant) const {
  const auto& shares = options.tenant_shares;
  const auto found =
      std::find_if(shares.begin(), shares.end(), [&tenant](const TenantShare& share) { return share.name == tenant; });
  return EvictionGroup(found == shares.end() ? 0 : static_cast<std::uint32_t>(found - shares.begin()) + 1);
}

// A request that has its automaton is admitted like any other.
void Engine::State::TakeConstrained() {
  for (ConstraintQueue::Ready& ready : constraints.TakeReady()) {
    ConstrainedSubmit& submit = ready.submit;
    Result<void> taken = ready.automaton.ok() ? Admit(submit.key, std::move(submit.generate), submit.received,
                                                      *std::move(ready.automaton))
                                              : Result<void>(ready.automaton.error());
    if (taken.ok()) continue;
    pending_events.push_back(EndOf(submit.key, wire::FinishReason::kError, std::move(taken).error()));
  }
}

void Engine::State::EndLateConstrained() {
  const Instant now = clock.Now();
  const auto late = constraints.DropWhere([now](const ConstrainedSubmit& submit) { return submit.IsLate(now); });
  if (late.empty()) return;
  const Error error{ErrorCode::kDeadlineExceeded, "the deadline passed while the grammar was compiled", ""};
  EndConstrained(late, wire::FinishReason::kError, error);
}

void Engine::State::EndConstrained(const std::vector<ConstrainedSubmit>& gone, wire::FinishReason reason,
                                   const std::optional<Error>& error) {
  for (const ConstrainedSubmit& each : gone) {
    scheduler.arrivals().OnWaiterGone(each.generate.block_hashes, clock.Now());
    pending_events.push_back(EndOf(each.key, reason, error));
  }
}

void Engine::State::Cancel(RequestKey key) {
  scheduler.AdvanceTo(clock.Now());
  const Request* request = requests.Find(key);
  if (request == nullptr) {
    const auto is_it = [key](const ConstrainedSubmit& submit) { return submit.key == key; };
    return EndConstrained(constraints.DropWhere(is_it), wire::FinishReason::kCancelled, std::nullopt);
  }
  pending_events.push_back(End(request->sequences.front(), wire::FinishReason::kCancelled, std::nullopt));
}

void Engine::State::CancelLink(LinkId link) {
  scheduler.AdvanceTo(clock.Now());
  for (const RequestKey key : requests.KeysOf(link)) ForgetRequest(key);
  const auto is_of_it = [link](const ConstrainedSubmit& submit) { return submit.key.link == link; };
  EndConstrained(constraints.DropWhere(is_of_it), wire::FinishReason::kCancelled, std::nullopt);
  std::erase_if(pending_events, [link](const RequestEvent& event) { return event.link == link; });
}

// Makes the last event of a choice and removes the choice. Some reasons end all choices of the request.
RequestEvent Engine::State::End(SequenceId id, wire::FinishReason reason, std::optional<Error> error) {
  const Choice& choice = *requests.FindChoice(id);
  RequestEvent event;
  choice.Address(event);
  event.event.finish = reason;
  event.event.error = std::move(error);
  Request& request = *choice.request;
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
  disk_offers.OnEnd(scheduler.Get(id), publisher.begun_count());
  scheduler.Remove(id);
  requests.ForgetChoice(id);
}

void Engine::State::ForgetRequest(RequestKey key) {
  for (const SequenceId id : requests.Find(key)->sequences) {
    watch.OnEnd(scheduler.Get(id));
    disk_offers.OnEnd(scheduler.Get(id), publisher.begun_count());
    scheduler.Remove(id);
  }
  requests.Forget(key);
}

// ---- the public face ----

std::uint32_t ServableContext(const Model& model) {
  const std::uint64_t pool_tokens = std::uint64_t{model.block_count()} * model.block_tokens();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model.shape().max_context_tokens, pool_tokens));
}

Engine::Engine(Model& model, const Clock& clock, EngineOptions options)
    : state_(std::make_unique<State>(model, clock, std::move(options))) {}
Engine::~Engine() = default;

Result<void> Engine::Submit(LinkId link, wire::Generate request, std::optional<Instant> received) {
  const RequestKey key{link, request.request_id};
  ++state_->submit_count;
  state_->awaits_blocks_only = false;
  return state_->Submit(key, std::move(request), received.value_or(state_->clock.Now()));
}
void Engine::Cancel(RequestKey key) {
  state_->awaits_blocks_only = false;
  state_->Cancel(key);
}
void Engine::CancelLink(LinkId link) {
  state_->awaits_blocks_only = false;
  state_->CancelLink(link);
}
bool Engine::HasWork() const {
  const bool has_requests = !state_->requests.empty() && !state_->awaits_blocks_only;
  return has_requests || !state_->pending_events.empty() || state_->verifier.busy() || state_->is_under_way ||
         (!state_->constraints.empty() && state_->constraints.IsDue(state_->clock.Now())) ||
         state_->erasures.has_work() || state_->scheduler.arrivals().has_ended() || state_->holds.has_news() ||
         (state_->options.disk != nullptr && state_->options.disk->has_news());
}
std::optional<Instant> Engine::AwaitsBlocksUntil() const {
  const std::optional<Instant> end = state_->scheduler.arrivals().NextEnd();
  const std::optional<Instant> wait = state_->scheduler.AwaitsArrivalsUntil();
  return end && wait ? std::min(*end, *wait) : end;
}
bool Engine::AwaitsGrammars() const { return !state_->constraints.empty(); }
void Engine::TakeNews() { state_->holds.TakeNews(); }
StepReport Engine::Step() { return state_->Step(); }
void Engine::SetPulse(std::function<void()> pulse) { state_->model.SetPulse(std::move(pulse)); }
std::vector<wire::StoredRun> Engine::Snapshot() const { return worker::Snapshot(state_->cache.tree()); }
std::vector<wire::StoredRun> Engine::DiskSnapshot() const {
  return state_->options.disk == nullptr ? std::vector<wire::StoredRun>() : state_->options.disk->Snapshot();
}
std::uint32_t Engine::max_context_tokens() const { return state_->max_context_tokens; }
Result<void> Engine::CheckInvariants() const { return state_->scheduler.CheckInvariants(); }

}  // namespace roost::worker
