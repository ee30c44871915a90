#include "deploy/roostctl/simulate/sim_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "worker/cache/cache_views.h"
#include "worker/engine/engine.h"
#include "worker/sched/ended_blocks.h"

namespace roost::simulate {

using worker::ScheduledSlice;
using worker::Sequence;
using worker::SequenceId;

namespace {

constexpr std::uint64_t kMaxReserveTokens = std::uint64_t{4} << 20U;
constexpr Duration kLeaveNotice = std::chrono::seconds(1);

std::uint64_t LongestRequest(const workload::Trace& trace) {
  std::uint64_t longest = 1;
  for (const workload::TraceRequest& request : trace.requests) {
    longest = std::max(longest, std::uint64_t{request.input_token_count} + request.output_token_count);
  }
  return longest;
}

KeptCacheOptions CacheOptionsOf(const TraceText& text, const WorkerOptions& options) {
  return {.block_tokens = text.block_tokens(),
          .kept_tokens = options.kv_tokens.value_or(options.cache_tokens),
          .reserve_tokens = options.kv_tokens ? 0 : ReserveTokens(text.trace(), options, 1),
          .eviction = options.eviction};
}

worker::SchedulerOptions SchedulerOptionsOf(const WorkerOptions& options, std::uint32_t max_context_tokens,
                                            worker::DiskSource* disk) {
  return {.max_batch_tokens = options.max_batch_tokens,
          .short_step_tokens = options.short_step_tokens,
          .max_running = options.max_running_requests,
          .max_waiting = options.max_waiting_requests,
          .max_context_tokens = max_context_tokens,
          .max_partial_prefills = options.max_partial_prefills,
          .policy = options.schedule_policy,
          .first_token_target = options.first_token_target,
          .disk = disk};
}

wire::Hello HelloOf(std::string id, const KeptCache& kept, const TraceText& text, const WorkerOptions& options) {
  wire::Hello hello;
  hello.worker_id = std::move(id);
  hello.model = "simulated";
  hello.fingerprint = "simulated";
  hello.kv_dtype = "f32";
  hello.block_tokens = text.block_tokens();
  hello.block_count = kept.pool().block_count();
  hello.max_context_tokens = hello.block_count * hello.block_tokens;
  hello.max_running_requests = options.max_running_requests;
  hello.tokenizer_digest = "simulated";
  hello.max_batch_tokens = options.max_batch_tokens;
  hello.ageing_tokens = worker::AgeingTokens(options.schedule_policy);
  return hello;
}

// Workers fetch from each other, wherever they are. All compute the same bits.
wire::Transfer TransferOf(std::uint32_t index) {
  return {.address = fmt::format("10.0.{}.{}:7100", index / 256, index % 256), .layout = 1, .numerics = 1};
}

// The prompt's time alone: what was cached of it, less the wait for blocks from elsewhere, and what was not.
struct PrefillTimes {
  double saved_seconds = 0;
  double computed_seconds = 0;
};
PrefillTimes PrefillTimesOf(const ServiceModel& service, double speed, const Sequence& sequence) {
  const std::uint32_t cached = sequence.cached_token_count;
  const double saved = service.ChunkSeconds(0, cached) / speed - ToSeconds(sequence.awaited_arrivals);
  return {.saved_seconds = std::max(0.0, saved),
          .computed_seconds = service.ChunkSeconds(cached, sequence.prompt_token_count - cached) / speed};
}

// Beside prompts whose answers go on elsewhere, only a router's copies ask for one token; see SimRouter::SpecOf.
bool IsCopy(const wire::Generate& generate) {
  return generate.max_output_tokens == 1 && generate.part == wire::RequestPart::kWhole;
}

}  // namespace

std::uint64_t ReserveTokens(const workload::Trace& trace, const WorkerOptions& options, std::uint32_t worker_count) {
  const std::uint64_t longest = LongestRequest(trace) + trace.block_tokens;
  return worker_count * std::min(kMaxReserveTokens, longest * options.max_running_requests);
}

SimWorker::SimWorker(const Identity& identity, std::uint32_t router_count, const Surroundings& surroundings,
                     const WorkerOptions& options, const WorkerSpec& spec, Send send)
    : index_(identity.index),
      text_(surroundings.text),
      options_(options),
      spec_(spec),
      timeline_(surroundings.timeline),
      log_(surroundings.log),
      block_links_(surroundings.links),
      disk_(surroundings.disk),
      send_(std::move(send)),
      kept_(CacheOptionsOf(text_, options)),
      scheduler_(kept_.cache(),
                 SchedulerOptionsOf(options, kept_.pool().block_count() * kept_.cache().block_tokens(), disk_)),
      decode_(options_.service, spec.speed),
      links_(router_count) {
  hello_ = HelloOf(identity.id(), kept_, text_, options);
  hello_.process_id = identity.epoch;
  hello_.epoch = identity.epoch;
  if (block_links_ == nullptr) return;
  hello_.features.insert(wire::Feature::kHolds);
  hello_.features.insert(wire::Feature::kFollows);
  hello_.role = spec.role;
  hello_.transfer = TransferOf(index_);
  kept_.cache().NoteChanges(changes_);
  readable_.emplace(MakeEmptyBlockReader(), kept_.pool().block_count(), text_.block_tokens());
}

// ---- the link ----

void SimWorker::Join() {
  if (disk_ != nullptr) {
    disk_->Attach(kept_.cache(), [this](worker::FrameNews news) {
      news_.push_back(std::move(news));
      StartStep();
    });
  }
  if (block_links_ != nullptr) {
    block_links_->Attach({.worker_id = hello_.worker_id,
                          .index = index_,
                          .readable = &*readable_,
                          .tell = [this](worker::FrameNews news) {
                            news_.push_back(std::move(news));
                            StartStep();
                          }});
  }
  for (std::uint32_t router = 0; router < links_.size(); ++router) send_(router, hello_);
  PlanLoadReport();
}

void SimWorker::Leave(std::function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  if (!stepping_) Report(CurrentLoad());
  // Requests that a router has sent before it knew are still taken.
  timeline_.After(kLeaveNotice, [this] { LeaveWhenIdle(); });
}

void SimWorker::LeaveWhenIdle() {
  if (stepping_ || !requests_.empty() || !inbox_.empty()) {
    timeline_.After(kLeaveNotice, [this] { LeaveWhenIdle(); });
    return;
  }
  is_gone_ = true;
  if (block_links_ != nullptr) block_links_->Detach(index_);
  if (disk_ != nullptr) disk_->Detach();
  for (std::uint32_t router = 0; router < links_.size(); ++router) send_(router, wire::Bye{.epoch = hello_.epoch});
  std::exchange(on_gone_, nullptr)();
}

void SimWorker::OnMessage(std::uint32_t router, wire::RouterMessage message) {
  if (is_gone_) return;
  if (std::holds_alternative<wire::Generate>(message) || std::holds_alternative<wire::Cancel>(message)) {
    const auto* const generate = std::get_if<wire::Generate>(&message);
    worker::OwnedPrompt prompt;
    if (generate != nullptr && links_.size() > 1) {
      prompt = worker::PromptOf(*generate, router, next_prompt_id_++, timeline_.Now());
      peer_prompt_board_.Arrive(prompt);
      PlanNews(router);
    }
    inbox_.push_back({router, std::move(message), std::move(prompt)});
    StartStep();
  } else if (auto* const hold = std::get_if<wire::Hold>(&message)) {
    TakeHold(router, std::move(*hold));
  } else if (std::holds_alternative<wire::Welcome>(message)) {
    OnWelcome(links_[router]);
  } else if (std::holds_alternative<wire::WantSnapshot>(message)) {
    links_[router].snapshot_due = true;
  } else if (std::holds_alternative<wire::WantTokenizer>(message)) {
    wire::Tokenizer bundle;
    bundle.digest = hello_.tokenizer_digest;
    send_(router, std::move(bundle));
  }
}

void SimWorker::OnWelcome(Link& link) {
  link.up = true;
  link.snapshot_due = true;
  Report(CurrentLoad());
}

// ---- a step ----

void SimWorker::StartStep() {
  if (stepping_ || step_is_planned_) return;
  const Instant now = timeline_.Now();
  const Instant begin = decode_.StepEnd(now);
  if (begin <= now) return RunStep();
  step_is_planned_ = true;
  timeline_.At(begin, [this] {
    step_is_planned_ = false;
    TakeDrawn();
    RunStep();
  });
}

void SimWorker::RunStep() {
  scheduler_.AdvanceTo(timeline_.Now());
  AppendAnswers();
  DrainInbox();
  TakeArrived();
  const std::vector<ScheduledSlice>& slices = scheduler_.Schedule();
  kept_.Settle();
  Retract();
  PausePreempted();
  const bool has_news =
      std::any_of(links_.begin(), links_.end(), [](const Link& link) { return !link.tokens.empty(); });
  if (slices.empty() && !has_news && !HasArrivalNews()) return AwaitArrivals();
  const double step_seconds = PlanPrompts(slices);
  PlanDecodeEnd();
  stepping_ = true;
  timeline_.After(FromSeconds(step_seconds), [this, step_seconds] { EndStep(step_seconds); });
}

void SimWorker::DrainInbox() {
  for (Incoming& incoming : std::exchange(inbox_, {})) {
    if (auto* const generate = std::get_if<wire::Generate>(&incoming.message)) {
      Submit(incoming.router, std::move(*generate), std::move(incoming.prompt));
    } else if (const auto* const hold = std::get_if<wire::Hold>(&incoming.message)) {
      BeginHold(incoming.router, *hold, *incoming.receipt);
    } else {
      Cancel(incoming.router, std::get<wire::Cancel>(incoming.message).request_id);
    }
  }
}

void SimWorker::Submit(std::uint32_t router, wire::Generate generate, worker::OwnedPrompt prompt) {
  last_taken_prompt_id_ = std::max(last_taken_prompt_id_, prompt.prompt.id);
  Request request{.router = router,
                  .id = generate.request_id,
                  .arrival = timeline_.Now(),
                  .is_copy = IsCopy(generate),
                  .prompt = std::move(prompt)};
  if (!request.is_copy) {
    request.number = static_cast<std::uint32_t>(generate.sampling.seed);
    request.part = generate.part;
    request.tokens_to_draw = text_.DecodedTokenCount(request.number);
    if (request.part == wire::RequestPart::kAnswer) {
      request.told_tokens = generate.first_output_index;
      request.tokens_to_draw = std::max(0.0, request.tokens_to_draw - generate.first_output_index);
    }
  }
  const Result<SequenceId> id = scheduler_.Submit({.root = generate.root,
                                                   .prompt = std::move(generate.prompt),
                                                   .block_hashes = std::move(generate.block_hashes),
                                                   .priority = generate.priority});
  if (id.ok()) {
    requests_.emplace(*id, std::move(request));
    return;
  }
  wire::TokenEvent& event = EventFor(request);
  event.finish = wire::FinishReason::kError;
  event.error = id.error();
}

void SimWorker::Cancel(std::uint32_t router, RequestId request_id) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& entry) {
    return entry.second.router == router && entry.second.id == request_id;
  });
  if (found == requests_.end()) return;
  const SequenceId id = found->first;
  const Request& request = found->second;
  if (request.phase == Phase::kDrawn) return;  // it ends in this step anyway
  if (request.phase == Phase::kDecode) {
    (void)decode_.Stop(id.value(), timeline_.Now());
    PlanDecodeEnd();
  }
  Forget(id, wire::FinishReason::kCancelled);
}

// Appends the answers that have been drawn since the last step.
void SimWorker::AppendAnswers() {
  for (const SequenceId id : std::exchange(drawn_, {})) {
    const Request& request = requests_.at(id);
    std::vector<TokenId> answer = text_.Answer(request.number);
    if (request.part == wire::RequestPart::kAnswer && !answer.empty()) answer.erase(answer.begin());
    if (answer.empty()) {
      EndAnswer(id);
    } else {
      scheduler_.Append(id, answer);
    }
  }
}

// A preempted request keeps its drawn tokens, and goes on when its context has been computed again.
void SimWorker::PausePreempted() {
  if (std::exchange(preemptions_, scheduler_.counters().preemptions) == preemptions_) return;
  for (auto& [id, request] : requests_) {
    if (request.phase != Phase::kDecode || scheduler_.Get(id).state == Sequence::State::kRunning) continue;
    request.phase = Phase::kPrefill;
    request.tokens_to_draw = decode_.Stop(id.value(), timeline_.Now());
  }
  PlanDecodeEnd();
}

// Answers take no time here: their time has passed while they were drawn.
double SimWorker::PlanPrompts(const std::vector<ScheduledSlice>& slices) {
  const ServiceModel& service = options_.service;
  double chunk_seconds = 0;
  step_prefill_tokens_ = 0;
  step_tokens_before_ = 0;
  wanting_.clear();
  for (const ScheduledSlice& slice : slices) {
    if (slice.wants_logits) wanting_.push_back(slice.sequence->id);
    const std::uint32_t prompt_end = slice.sequence->prompt_token_count;
    if (slice.first_position >= prompt_end) continue;
    const std::uint32_t count = std::min(slice.token_count, prompt_end - slice.first_position);
    chunk_seconds += service.ChunkSeconds(slice.first_position, count);
    step_prefill_tokens_ += count;
    step_tokens_before_ += worker::TokensBefore(slice.first_position, count);
  }
  step_decode_tokens_ = 0;
  if (step_prefill_tokens_ == 0) return 0;
  const double prompt_seconds = service.PromptSeconds(chunk_seconds, step_prefill_tokens_);
  decode_.SetPrompts({.worker_share = 1, .seconds_per_step = prompt_seconds}, timeline_.Now());
  const bool is_mixed = service.batching == Batching::kMixed && decode_.request_count() > 0;
  if (!is_mixed) return (service.step_base_seconds + prompt_seconds) / spec_.speed;
  step_decode_tokens_ = decode_.request_count();
  return decode_.StepSeconds();
}

void SimWorker::EndStep(double step_seconds) {
  stepping_ = false;
  TakeDrawn();
  if (step_prefill_tokens_ > 0) decode_.SetPrompts({}, timeline_.Now());
  scheduler_.AdvanceTo(timeline_.Now());
  scheduler_.Commit();
  scheduler_.NotePace(
      {.prefill_tokens = step_prefill_tokens_, .decode_tokens = step_decode_tokens_, .seconds = step_seconds},
      step_tokens_before_);
  prefill_token_count_ += step_prefill_tokens_;
  for (const SequenceId id : wanting_) OnComputed(id);
  PlanDecodeEnd();
  kept_.Settle();
  Publish();
  wire::Load load = CurrentLoad();
  load.step_prefill_tokens = step_prefill_tokens_;
  load.step_decode_tokens = step_decode_tokens_;
  load.step_seconds = step_prefill_tokens_ > 0 ? step_seconds : 0;
  Report(load);
  AnswerHolds();
  StartStep();
}

// All known tokens of the sequence are computed: those of its prompt, and perhaps of its answer.
void SimWorker::OnComputed(SequenceId id) {
  Request& request = requests_.at(id);
  if (request.phase == Phase::kDrawn) return EndAnswer(id);
  const Sequence& sequence = scheduler_.Get(id);
  if (request.is_copy) {
    copied_token_count_ += sequence.prompt_token_count - sequence.cached_token_count;
    wire::TokenEvent& event = EventFor(request);
    event.tokens = {0};
    event.cached_token_count = sequence.cached_token_count;
    return Forget(id, wire::FinishReason::kLength);
  }
  if (request.part == wire::RequestPart::kAnswer && !std::exchange(request.has_first_token, true)) {
    // The router knows the first one.
    TellTokens(request, request.told_tokens + 1);
  }
  if (!request.has_first_token) {
    request.has_first_token = true;
    const PrefillTimes times = PrefillTimesOf(options_.service, spec_.speed, sequence);
    log_.OnFirstToken(request.number,
                      {.worker = index_,
                       .cached_token_count = sequence.cached_token_count,
                       .saved_seconds = times.saved_seconds,
                       .computed_seconds = times.computed_seconds},
                      timeline_.Now());
    wire::TokenEvent& event = EventFor(request);
    event.tokens = {0};
    request.told_tokens = 1;
    event.cached_token_count = sequence.cached_token_count;
    event.queue_wait_seconds = ToSeconds(timeline_.Now() - request.arrival);
    if (request.part == wire::RequestPart::kPrompt) {
      // The next turn's prompt has this token.
      const std::vector<TokenId> answer = text_.Answer(request.number);
      if (!answer.empty()) event.tokens = {answer.front()};
      return Forget(id, wire::FinishReason::kLength);
    }
  }
  request.phase = Phase::kDecode;
  decode_.Start({.id = id.value(),
                 .token_count = request.tokens_to_draw,
                 .context_token_count = static_cast<double>(sequence.token_count())},
                timeline_.Now());
}

void SimWorker::EndAnswer(SequenceId id) {
  Request& request = requests_.at(id);
  TellTokens(request, text_.trace().requests[request.number].output_token_count);
  Forget(id, wire::FinishReason::kLength);
}

// Not in every report, which would take most of a simulation's time.
void SimWorker::TellDrawnTokens() {
  if (timeline_.Now() - last_tokens_ < options_.load_interval) return;
  last_tokens_ = timeline_.Now();
  for (auto& [id, request] : requests_) {
    if (request.phase != Phase::kDecode) continue;
    const double left = decode_.TokensLeft(id.value(), timeline_.Now());
    const double drawn = text_.trace().requests[request.number].output_token_count - std::ceil(left) - 1;
    if (drawn > 0) TellTokens(request, static_cast<std::uint32_t>(drawn));
  }
}

// `count` tokens are drawn.
void SimWorker::TellTokens(Request& request, std::uint32_t count) {
  if (count <= request.told_tokens) return;
  EventFor(request).tokens.resize(count - request.told_tokens);
  request.told_tokens = count;
}

void SimWorker::Forget(SequenceId id, wire::FinishReason reason) {
  EventFor(requests_.at(id)).finish = reason;
  if (disk_ != nullptr) disk_->Offer(EndedBlocks(kept_.cache(), scheduler_.Get(id)));
  scheduler_.Remove(id);
  requests_.erase(id);
}

wire::TokenEvent& SimWorker::EventFor(const Request& request) {
  peer_prompt_board_.Remove(request.prompt.prompt.id);
  wire::TokenEvent& event = links_[request.router].tokens.emplace_back();
  event.request_id = request.id;
  return event;
}

// ---- decoding ----

void SimWorker::PlanDecodeEnd() {
  ++decode_plan_;
  const std::optional<Instant> end = decode_.NextEnd();
  if (!end) return;
  timeline_.At(std::max(*end, timeline_.Now()), [this, plan = decode_plan_] {
    if (plan == decode_plan_) OnDecodeEnd();
  });
}

void SimWorker::OnDecodeEnd() {
  TakeDrawn();
  PlanDecodeEnd();
  StartStep();
}

void SimWorker::TakeDrawn() {
  for (const std::uint64_t value : decode_.TakeEnded(timeline_.Now())) {
    const SequenceId id(value);
    Request& request = requests_.at(id);
    request.phase = Phase::kDrawn;
    drawn_.push_back(id);
    log_.OnEnd(request.number, text_.trace().requests[request.number].output_token_count, timeline_.Now());
  }
}

// ---- reports ----

// The scheduler does not have the tokens of an answer before all are drawn.
wire::Load SimWorker::CurrentLoad() const {
  wire::Load load = scheduler_.Load();
  load.running_context_tokens += static_cast<std::uint64_t>(decode_.drawn_token_count());
  load.draining = on_gone_ != nullptr;
  if (block_links_ != nullptr) {
    load.arriving_bytes = block_links_->ArrivingBytes(index_);
    load.leaving_bytes = block_links_->LeavingBytes(index_);
  }
  return load;
}

void SimWorker::Report(const wire::Load& load) {
  last_report_ = timeline_.Now();
  load_ = load;
  // Blocks that arrive change the cache in the middle of a step.
  if (has_arrivals()) {
    load_.digest = kept_.cache().digest();
    load_.cached_block_count = kept_.cache().ready_count();
  }
  std::vector<wire::CacheEvent> disk_events = disk_ == nullptr ? std::vector<wire::CacheEvent>() : TellDisk();
  load_.progress = ++report_count_;
  load_.step_prefill_tokens = 0;
  load_.step_decode_tokens = 0;
  load_.step_seconds = 0;
  TellDrawnTokens();
  peer_prompt_board_.Assign(Queue(), last_taken_prompt_id_);
  std::vector<wire::CacheEvent> events = kept_.cache().TakeEvents();
  events.insert(events.end(), disk_events.begin(), disk_events.end());
  for (std::uint32_t router = 0; router < links_.size(); ++router) {
    Link& link = links_[router];
    if (!link.up) continue;
    wire::Step step;
    step.load = load_;
    step.load.step_prefill_tokens = load.step_prefill_tokens;
    step.load.step_decode_tokens = load.step_decode_tokens;
    step.load.step_seconds = load.step_seconds;
    step.tokens = std::exchange(link.tokens, {});
    if (!link.snapshot_due) step.events = events;
    SendTo(router, std::move(step));
  }
}

std::vector<worker::OwnedPrompt> SimWorker::Queue() const {
  std::vector<worker::OwnedPrompt> queue;
  scheduler_.VisitQueued(worker::kMaxReportedPrompts, [&](const Sequence& sequence, std::uint32_t uncached_tokens) {
    const Request& request = requests_.at(sequence.id);
    worker::OwnedPrompt& owned = queue.emplace_back(request.prompt);
    owned.link = request.router;
    owned.request = request.id;
    owned.prompt.uncached_tokens = uncached_tokens;
  });
  return queue;
}

void SimWorker::PlanNews(std::uint32_t router) {
  for (std::uint32_t other = 0; other < links_.size(); ++other) {
    Link& link = links_[other];
    if (other == router || !link.up || std::exchange(link.has_news, true)) continue;
    timeline_.At(std::max(timeline_.Now(), link.last_step + worker::PeerPromptBoard::kNewsInterval),
                 [this, other] { TellNews(other); });
  }
}

void SimWorker::TellNews(std::uint32_t router) {
  // A step has reported it since, or will soon: a due snapshot goes out with a step.
  if (is_gone_ || !links_[router].has_news || links_[router].snapshot_due) return;
  wire::Step step;
  step.load = load_;
  SendTo(router, std::move(step));
}

// A due snapshot already contains the effect of this step's events.
void SimWorker::SendTo(std::uint32_t router, wire::Step step) {
  Link& link = links_[router];
  if (std::exchange(link.snapshot_due, false)) {
    wire::Snapshot snapshot;
    snapshot.epoch = hello_.epoch;
    snapshot.sequence = ++link.sequence;
    snapshot.last = true;
    snapshot.runs = worker::Snapshot(kept_.cache().tree());
    if (disk_ != nullptr) snapshot.disk_runs = disk_->Runs();
    send_(router, std::move(snapshot));
  }
  step.epoch = hello_.epoch;
  step.sequence = ++link.sequence;
  link.last_step = timeline_.Now();
  link.has_news = false;
  peer_prompt_board_.TellTo(router, link.peer_prompt_sender, link.last_step, step.load);
  send_(router, std::move(step));
}

void SimWorker::PlanLoadReport() {
  if (is_gone_) return;
  timeline_.At(std::max(timeline_.Now(), last_report_) + options_.load_interval, [this] { ReportLoad(); });
}

void SimWorker::ReportLoad() {
  if (is_gone_) return;
  const Instant due = last_report_ + options_.load_interval;
  if (timeline_.Now() < due) {
    timeline_.At(due, [this] { ReportLoad(); });
    return;
  }
  wire::Load load = load_;
  if (!stepping_) {
    load = CurrentLoad();
    load.step_decode_tokens = decode_.request_count();
    load.step_seconds = decode_.request_count() > 0 ? decode_.StepSeconds() : 0;
    if (options_.service.batching == Batching::kMixed) {
      scheduler_.NotePace({.decode_tokens = load.step_decode_tokens, .seconds = load.step_seconds});
    }
  }
  Report(load);
  PlanLoadReport();
}

}  // namespace roost::simulate
