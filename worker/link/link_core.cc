#include "worker/link/link_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/trace_context.h"

namespace roost::worker {
namespace {

// The step's numbers belong only to the report of that step.
wire::Load WithoutStep(wire::Load load) {
  load.step_prefill_tokens = 0;
  load.step_decode_tokens = 0;
  load.step_seconds = 0;
  return load;
}

std::size_t IndexOf(wire::FinishReason reason) { return static_cast<std::size_t>(reason); }

}  // namespace

LinkCore::LinkCore(Setup setup, const Clock& clock, LinkEffects& effects)
    : setup_(std::move(setup)),
      clock_(clock),
      spans_(setup_.spans),
      effects_(effects),
      next_epoch_(setup_.first_epoch),
      adapters_(setup_.hello.adapters),
      mirror_(setup_.hello.block_count) {
  ROOST_CHECK(setup_.first_epoch > 0);
  load_.free_block_count = setup_.hello.block_count;
}

// ---- peers and lives ----

void LinkCore::AddPeer(PeerId peer, std::string name) {
  ROOST_CHECK(FindPeer(peer) == nullptr);
  links_.emplace_back().peer = peer;
  links_.back().name = std::move(name);
  links_.back().last_heard = clock_.Now();
  BeginLife(links_.back());
  status_changed_ = true;
}

void LinkCore::RemovePeer(PeerId peer) {
  Link* link = FindPeer(peer);
  if (link == nullptr) return;
  EndLife(*link);
  links_.erase(links_.begin() + (link - links_.data()));
  status_changed_ = true;
}

void LinkCore::BeginLife(Link& link) {
  link.state = State::kGreeting;
  link.id = LinkId(next_link_id_++);
  link.epoch = next_epoch_++;
  link.next_sequence = 1;
  link.generate_digest = 0;
  link.prompt_teller = PromptTeller();
  link.has_news = false;
  link.adapters_due = false;
  link.snapshot_due = setup_.hello.sends_cache_events;
  link.next_hello = clock_.Now();
}

// The router that sent the requests in flight has lost them.
void LinkCore::EndLife(Link& link) {
  if (!link.in_flight.empty()) effects_.Command(CancelLinkCommand{link.id});
  for (const auto& [id, request] : link.in_flight) prompt_board_.Remove(request.prompt.prompt.id);
  link.in_flight.clear();
}

void LinkCore::Restart(Link& link, ResyncReason reason) {
  if (link.state == State::kUp) {
    link.resync_reason = reason;
    LogWarning("router link starts again",
               {{"router", link.name}, {"reason", std::string(kResyncReasonNames[IndexOf(reason)])}});
    status_changed_ = true;
  }
  EndLife(link);
  BeginLife(link);
}

LinkCore::Link* LinkCore::FindPeer(PeerId peer) {
  const auto found = std::find_if(links_.begin(), links_.end(), [peer](const Link& link) { return link.peer == peer; });
  return found == links_.end() ? nullptr : &*found;
}

const LinkCore::InFlight* LinkCore::FindInFlight(RequestKey key) const {
  for (const Link& link : links_) {
    if (link.id != key.link) continue;
    const auto found = link.in_flight.find(key.request);
    return found == link.in_flight.end() ? nullptr : &found->second;
  }
  return nullptr;
}

// ---- what routers say ----

void LinkCore::OnMessage(PeerId peer, wire::RouterMessage message) {
  Link* link = FindPeer(peer);
  if (link == nullptr) return;
  link->last_heard = clock_.Now();
  std::visit([this, link](auto& value) { Handle(*link, std::move(value)); }, message);
}

void LinkCore::OnMalformed(PeerId peer) {
  ++counts_.malformed_messages;
  // The message's content is unknown, so the router's view of this worker may be wrong.
  if (Link* link = FindPeer(peer); link != nullptr && link->state == State::kUp) Restart(*link, ResyncReason::kAsked);
}

void LinkCore::Handle(Link& link, const wire::Welcome& welcome) {
  if (welcome.epoch != link.epoch) return;
  const Result<void> same_major = wire::CheckMajors({.worker = setup_.hello.version, .router = welcome.version});
  if (!same_major.ok()) return NoteRefusal(link, wire::RefusalCause::kVersion, same_major.error().ToString());
  const bool other_process = link.router_instance && *link.router_instance != welcome.router_instance;
  if (link.state == State::kUp) {
    // A second welcome from the same process answers a repeated hello. Another process does not know this life of the
    // link.
    if (other_process) Restart(link, ResyncReason::kRouterRestart);
    return;
  }
  if (other_process) link.resync_reason = ResyncReason::kRouterRestart;
  const std::string_view reason = link.resync_reason ? kResyncReasonNames[IndexOf(*link.resync_reason)] : "first";
  if (link.resync_reason) ++counts_.resyncs[IndexOf(*link.resync_reason)];
  link.resync_reason.reset();
  link.refusal.reset();
  link.refusal_logged = {};
  link.silence_logged.reset();
  status_changed_ = true;
  link.router_instance = welcome.router_instance;
  link.state = State::kUp;
  LogInfo("router link up", {{"router", link.name},
                             {"epoch", std::to_string(link.epoch)},
                             {"reason", std::string(reason)},
                             {"protocol", wire::Describe(welcome.version)}});
  // Routers decide by the load, and an idle engine reports none.
  SendStep(link, {}, {}, load_);
  if (link.adapters_due && link.state == State::kUp) TellAdapters(link);
}

void LinkCore::Handle(Link& link, wire::Generate generate) {
  // Before the welcome there are two cases. The request belongs to an earlier life, and the router knows that it is
  // lost; or the welcome was lost, and the first ping reveals it.
  if (link.state != State::kUp) return;
  const RequestId id = generate.request_id;
  if (link.in_flight.contains(id)) {
    ++counts_.malformed_messages;
    return;
  }
  link.generate_digest ^= wire::MixedId(id);
  if (load_.draining) {
    return Refuse(link, id, Error{ErrorCode::kUnavailable, WhyNoRequests(), ""});
  }
  if (generate.refusal) return Refuse(link, id, *std::move(generate.refusal));
  if (!setup_.hello.keeps_prefixes) generate.cache_mode = wire::CacheMode::kOff;
  LogDebug("request taken", {{"router", link.name},
                             {"request", fmt::format("{}", id.value())},
                             {"trace_id", std::string(TraceIdOf(generate.trace_parent))},
                             {"prompt_tokens", fmt::format("{}", generate.prompt.size())}});
  InFlight in_flight{.open_choices = generate.sample_count, .prompt = {}};
  in_flight.traced = spans_.Begin(generate, clock_.Now());
  if (links_.size() > 1) in_flight.prompt = PromptOf(generate, link.id.value(), submit_count_ + 1, clock_.Now());
  if (!effects_.Submit(SubmitCommand{link.id, std::move(generate), clock_.Now()})) {
    return Refuse(link, id, Error{ErrorCode::kOverloaded, "the worker's inbox is full", ""});
  }
  ++submit_count_;
  if (in_flight.prompt.prompt.id != 0) {
    prompt_board_.Arrive(in_flight.prompt);
    for (Link& other : links_) other.has_news = other.has_news || other.id != link.id;
  }
  link.in_flight.emplace(id, std::move(in_flight));
}

// A pin for which the inbox has no space gets no answer; the router can send it again.
void LinkCore::Handle(Link& link, wire::Pin pin) {
  if (link.state != State::kUp || !setup_.hello.keeps_prefixes) return;
  if (effects_.Submit(PinCommand{link.id, std::move(pin)})) return;
  LogWarning("a pin is dropped: the inbox is full", {{"router", link.name}});
}

void LinkCore::Handle(Link& link, wire::Unpin unpin) {
  if (link.state != State::kUp || effects_.Submit(UnpinCommand{link.id, std::move(unpin)})) return;
  LogWarning("an unpin is dropped: the inbox is full", {{"router", link.name}});
}

// Whoever wants something erased has to hear that it was not.
void LinkCore::Handle(Link& link, wire::Evict evict) {
  if (link.state != State::kUp) return;
  const std::uint64_t answer_id = evict.answer_id;
  if (effects_.Submit(EvictCommand{link.id, std::move(evict)})) return;
  LogWarning("an eviction is refused: the inbox is full", {{"router", link.name}});
  if (answer_id == 0) return;
  Take(EngineAnswer{link.id, wire::EvictAnswer{.answer_id = answer_id, .outcome = wire::EvictOutcome::kRefused}});
}

void LinkCore::Handle(Link& link, const wire::WantPrefixes& want) {
  if (link.state != State::kUp || effects_.Submit(WantPrefixesCommand{link.id, want})) return;
  LogWarning("a request for the most used prefixes is dropped: the inbox is full", {{"router", link.name}});
}

// A cordon in force already is told again: the router that asks may not have heard of it.
void LinkCore::Handle(Link& link, const wire::Cordon& cordon) {
  if (link.state != State::kUp) return;
  if (load_.cordoned != cordon.in_force) {
    LogInfo(cordon.in_force ? "cordoned: no new requests" : "uncordoned", {{"router", link.name}});
  }
  load_.cordoned = cordon.in_force;
  ApplyDraining();
}

void LinkCore::Handle(Link& link, const wire::Cancel& cancel) {
  if (!link.in_flight.contains(cancel.request_id)) return;
  effects_.Command(CancelCommand{{link.id, cancel.request_id}});
}

void LinkCore::Handle(Link& link, const wire::WantHello&) {
  // While greeting, a hello has been sent or is due.
  if (link.state == State::kUp) Restart(link, ResyncReason::kAsked);
}

void LinkCore::Handle(Link& link, const wire::WantSnapshot&) {
  if (link.state != State::kUp || link.snapshot_due || !setup_.hello.sends_cache_events) return;
  ++counts_.resyncs[IndexOf(ResyncReason::kAsked)];
  link.snapshot_due = true;
}

void LinkCore::Handle(Link& link, const wire::WantTokenizer&) {
  if (effects_.Send(link.peer, setup_.tokenizer) != wire::SendOutcome::kSent) Restart(link, ResyncReason::kUnsent);
}

void LinkCore::Handle(Link& link, const wire::Ping& ping) {
  if (link.state != State::kUp) return;
  if (ping.generate_digest.value_or(link.generate_digest) != link.generate_digest) Restart(link, ResyncReason::kGap);
}

void LinkCore::Refuse(Link& link, RequestId request, Error error) {
  ++counts_.finished_requests[IndexOf(wire::FinishReason::kError)];
  wire::TokenEvent event;
  event.request_id = request;
  event.finish = wire::FinishReason::kError;
  event.error = std::move(error);
  SendStep(link, {std::move(event)}, {}, load_);
}

// ---- what the engine says ----

void LinkCore::OnOutput(EngineOutput output) {
  std::visit([this](auto& value) { Take(std::move(value)); }, output);
}

// A request counts under the reason that ended its last choice. An event that only has log probabilities of the prompt
// ends nothing.
void LinkCore::NoteEvent(Link& link, const wire::TokenEvent& event) {
  if (event.tokens.empty() && !event.finish) return;
  const auto found = link.in_flight.find(event.request_id);
  if (found != link.in_flight.end()) prompt_board_.Remove(found->second.prompt.prompt.id);
  RequestSpans::Traced* const traced = found == link.in_flight.end() ? nullptr : found->second.traced.get();
  if (traced != nullptr) RequestSpans::Note(*traced, event, clock_.Now());
  if (!event.finish) return;
  const bool is_last =
      found == link.in_flight.end() || found->second.open_choices == 1 || wire::EndsAllChoices(*event.finish);
  if (!is_last) {
    --found->second.open_choices;
    return;
  }
  ++counts_.finished_requests[IndexOf(*event.finish)];
  if (traced != nullptr) spans_.End(*traced, *event.finish, clock_.Now());
  if (found != link.in_flight.end()) link.in_flight.erase(found);
}

void LinkCore::NoteQueue(const StepReport& report) {
  if (links_.size() < 2) return prompt_board_.Clear();
  std::vector<OwnedPrompt> queue;
  queue.reserve(report.prompts.size());
  for (const LinkPrompt& prompt : report.prompts) {
    const InFlight* const request = FindInFlight(prompt.key);
    OwnedPrompt& owned = queue.emplace_back();
    if (request != nullptr) owned = request->prompt;  // else it is cancelled, and the engine does not know yet
    owned.link = prompt.key.link.value();
    owned.prompt.uncached_tokens = prompt.uncached_tokens;
    owned.prompt.submitted = prompt.submitted;
  }
  prompt_board_.Assign(std::move(queue), report.submit_count);
}

void LinkCore::Take(StepReport report) {
  Follow(report);
  if (report.made_progress) ++progress_count_;
  FillOwn(report.load);
  load_ = WithoutStep(report.load);
  NoteQueue(report);
  std::unordered_map<LinkId, std::vector<wire::TokenEvent>> tokens;
  for (RequestEvent& event : report.tokens) tokens[event.link].push_back(std::move(event.event));
  for (Link& link : links_) {
    for (const wire::TokenEvent& event : tokens[link.id]) NoteEvent(link, event);
  }
  for (Link& link : links_) {
    if (link.state != State::kUp) continue;
    std::vector<wire::TokenEvent>& own = tokens[link.id];
    const bool hears_events = setup_.hello.sends_cache_events && !link.snapshot_due;
    SendStep(link, std::move(own), hears_events ? report.events : std::vector<wire::CacheEvent>(), report.load);
  }
}

void LinkCore::Take(const EngineSnapshot& snapshot) {
  mirror_.Assign(snapshot.runs);
  mirror_state_ = MirrorState::kCurrent;
}

// An answer for an earlier life of its link is dropped, as tokens are.
void LinkCore::Take(const EngineAnswer& answer) {
  for (Link& link : links_) {
    if (link.id != answer.link || link.state != State::kUp) continue;
    const auto to_message = [](const auto& value) { return wire::WorkerMessage(value); };
    const wire::SendOutcome outcome = effects_.Send(link.peer, std::visit(to_message, answer.answer));
    if (outcome != wire::SendOutcome::kSent) Restart(link, ResyncReason::kUnsent);
    return;
  }
}

void LinkCore::Take(OutputLost) {
  if (setup_.hello.sends_cache_events) LoseMirror(MirrorLoss::kOverflow);
  for (Link& link : links_) {
    if (link.state == State::kUp) Restart(link, ResyncReason::kOverflow);
  }
}

void LinkCore::Take(EngineStanding standing) {
  TakeAbsence(std::move(standing.absence));
  TakeCacheKnowledge(standing.knows_cache);
  TakeAdapters(std::move(standing.adapters));
}

void LinkCore::TakeAbsence(std::string absence) {
  if (absence == engine_absence_) return;
  if (absence.empty()) {
    LogInfo("the engine is back");
  } else {
    if (engine_absence_.empty()) ++counts_.engine_absences;
    LogWarning("the engine is away: no new requests", {{"reason", absence}});
  }
  engine_absence_ = std::move(absence);
  status_changed_ = true;
  ApplyDraining();
}

void LinkCore::TakeCacheKnowledge(bool is_known) {
  if (is_known == !load_.cache_unknown || !setup_.hello.sends_cache_events) return;
  load_.cache_unknown = !is_known;
  LogInfo(is_known ? "the engine's cache is known exactly"
                   : "the engine's cache is not known: routers go by their own history");
  TellLoad();
}

void LinkCore::TakeAdapters(std::vector<std::string> adapters) {
  if (adapters == adapters_) return;
  adapters_ = std::move(adapters);
  LogInfo("the engine serves other adapters", {{"adapters", fmt::format("{}", fmt::join(adapters_, ", "))}});
  for (Link& link : links_) {
    link.adapters_due = true;
    if (link.state == State::kUp) TellAdapters(link);
  }
}

void LinkCore::TellAdapters(Link& link) {
  link.adapters_due = false;
  const wire::SendOutcome outcome = effects_.Send(link.peer, wire::Adapters{link.epoch, adapters_});
  if (outcome != wire::SendOutcome::kSent) Restart(link, ResyncReason::kUnsent);
}

// Of a cache that is not known any block may hold something.
void LinkCore::FillOwn(wire::Load& load) const {
  load.draining = load_.draining;
  load.cordoned = load_.cordoned;
  load.cache_unknown = load_.cache_unknown;
  load.progress = progress_count_;
  if (load.cache_unknown) load.cached_block_count = setup_.hello.block_count;
}

// ---- what is sent ----

void LinkCore::SendHello(Link& link) {
  wire::Hello hello = setup_.hello;
  hello.epoch = link.epoch;
  hello.adapters = adapters_;
  const bool sent = effects_.Send(link.peer, hello) == wire::SendOutcome::kSent;
  link.next_hello = clock_.Now() + (sent ? setup_.times.hello_interval : setup_.times.unsent_hello_interval);
}

void LinkCore::SendStep(Link& link, std::vector<wire::TokenEvent> tokens, const std::vector<wire::CacheEvent>& events,
                        const wire::Load& load) {
  wire::Step step;
  step.epoch = link.epoch;
  step.sequence = link.next_sequence++;
  step.tokens = std::move(tokens);
  step.events = events;
  step.load = load;
  step.load.router_count = static_cast<std::uint32_t>(std::clamp<std::size_t>(up_count(), 1, wire::kMaxRouters));
  link.last_step = clock_.Now();
  link.has_news = false;
  prompt_board_.TellTo(link.id.value(), link.prompt_teller, link.last_step, step.load);
  if (effects_.Send(link.peer, std::move(step)) != wire::SendOutcome::kSent) Restart(link, ResyncReason::kUnsent);
}

// ---- time ----

void LinkCore::Tick() {
  AskForEngineSnapshot();
  SendDueSnapshots();
  const Instant now = clock_.Now();
  for (Link& link : links_) {
    RedialIfSilent(link);
    ForgetRefusal(link);
    if (now < NextDue(link)) continue;
    if (link.state == State::kGreeting) {
      SendHello(link);
    } else {
      SendStep(link, {}, {}, load_);
    }
  }
}

void LinkCore::RedialIfSilent(Link& link) {
  const Instant now = clock_.Now();
  if (now < link.last_heard + setup_.times.router_timeout) return;
  link.last_heard = now;
  if (link.state == State::kUp) Restart(link, ResyncReason::kSilent);
  NoteSilence(link);
  effects_.Redial(link.peer);
}

Instant LinkCore::NextDue(const Link& link) const {
  const Instant silent = link.last_heard + setup_.times.router_timeout;
  if (link.state == State::kGreeting) return std::min(link.next_hello, silent);
  const Duration pause = link.has_news ? setup_.times.news_interval : setup_.times.heartbeat_interval;
  return std::min(link.last_step + pause, silent);
}

Duration LinkCore::TimeToNextTick() const {
  if (HasDueSnapshot()) return Duration(0);
  const Instant now = clock_.Now();
  Duration time = setup_.times.heartbeat_interval;
  if (mirror_state_ == MirrorState::kStale) time = std::min(time, std::max(next_engine_snapshot_ - now, Duration(0)));
  for (const Link& link : links_) time = std::min(time, std::max(NextDue(link) - now, Duration(0)));
  return time;
}

// ---- the end ----

void LinkCore::BeginDrain() {
  is_leaving_ = true;
  ApplyDraining();
}

void LinkCore::ApplyDraining() {
  load_.draining = is_leaving_ || load_.cordoned || !engine_absence_.empty();
  TellLoad();
}

std::string LinkCore::WhyNoRequests() const {
  if (is_leaving_) return "the worker is draining";
  if (load_.cordoned) return "the worker is cordoned";
  return fmt::format("the engine is away: {}", engine_absence_);
}

void LinkCore::TellLoad() {
  for (Link& link : links_) {
    if (link.state == State::kUp) SendStep(link, {}, {}, load_);
  }
}

void LinkCore::SayBye() {
  for (Link& link : links_) {
    // Best effort: a router that misses it hears nothing more, and its timeout tells it the same.
    if (link.state == State::kUp) (void)effects_.Send(link.peer, wire::Bye{link.epoch});
  }
}

std::size_t LinkCore::in_flight_request_count() const {
  std::size_t count = 0;
  for (const Link& link : links_) count += link.in_flight.size();
  return count;
}

std::size_t LinkCore::up_count() const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.state == State::kUp; }));
}

}  // namespace roost::worker
