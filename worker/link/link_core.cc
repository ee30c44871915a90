#include "worker/link/link_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/one_line.h"

namespace roost::worker {
namespace {

// The engine's own words may be in it.
constexpr std::size_t kMaxAbsenceBytes = 512;

// The step's numbers belong only to the report of that step.
wire::Load WithoutStep(wire::Load load) {
  load.step_prefill_tokens = 0;
  load.step_decode_tokens = 0;
  load.step_seconds = 0;
  return load;
}

}  // namespace

LinkCore::LinkCore(Setup setup, const Clock& clock, LinkEffects& effects)
    : setup_(std::move(setup)),
      clock_(clock),
      spans_(setup_.spans),
      effects_(effects),
      next_epoch_(setup_.first_epoch),
      adapters_(setup_.hello.adapters),
      checkpoints_(setup_.hello.checkpoints),
      mirror_(setup_.hello.block_count),
      disk_mirror_(setup_.hello.sends_cache_events ? setup_.disk.most_blocks : 0, SnapshotMirror::Set::kDisk) {
  ROOST_CHECK(setup_.first_epoch > 0);
  load_.free_block_count = setup_.hello.block_count;
  if (!setup_.hello.sends_cache_events || setup_.disk.most_blocks == 0) return;
  disk_mirror_.Assign(setup_.disk.runs);
  load_.disk_bytes_per_second = setup_.disk.bytes_per_second;
  load_.block_bytes = setup_.disk.block_bytes;
  FillDisk(load_);
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
  link.peer_prompt_sender = PeerPromptSender();
  link.has_news = false;
  link.adapters_due = false;
  link.has_handed_over = false;
  link.snapshot_due = setup_.hello.sends_cache_events;
  link.next_hello = clock_.Now();
}

// The router that sent the requests in flight has lost them.
void LinkCore::EndLife(Link& link) {
  if (!link.in_flight.empty() || !link.forwards.empty()) effects_.Command(CancelLinkCommand{link.id});
  for (const auto& [id, request] : link.in_flight) peer_prompt_board_.Remove(request.prompt.prompt.id);
  link.in_flight.clear();
  link.forwards.clear();
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

// ---- what the engine says ----

void LinkCore::OnOutput(EngineOutput output) {
  std::visit([this](auto& value) { Take(std::move(value)); }, output);
}

// A request counts under the reason that ended its last choice. An event that only has log probabilities of the prompt
// ends nothing.
void LinkCore::NoteEvent(Link& link, const wire::TokenEvent& event) {
  if (event.tokens.empty() && !event.finish) return;
  const auto found = link.in_flight.find(event.request_id);
  if (found != link.in_flight.end()) peer_prompt_board_.Remove(found->second.prompt.prompt.id);
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
  std::vector<OwnedPrompt> queue;
  queue.reserve(report.prompts.size());
  for (const LinkPrompt& prompt : report.prompts) {
    const InFlight* const request = FindInFlight(prompt.key);
    OwnedPrompt& owned = queue.emplace_back();
    if (request != nullptr) owned = request->prompt;  // else it is cancelled, and the engine does not know yet
    owned.link = prompt.key.link.value();
    owned.request = prompt.key.request;
    owned.prompt.uncached_tokens = prompt.uncached_tokens;
    owned.prompt.submitted = prompt.submitted;
  }
  peer_prompt_board_.Assign(std::move(queue), report.submit_count);
}

void LinkCore::Take(StepReport report) {
  Follow(report);
  if (report.made_progress) ++progress_count_;
  saved_prefill_seconds_ += report.counts.saved_prefill_seconds;
  computed_prefill_seconds_ += report.counts.computed_prefill_seconds;
  tier_cached_tokens_ += report.counts.tier_cached_tokens;
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
    const bool hears_events = setup_.hello.sends_cache_events && !link.snapshot_due && FollowsCache(link);
    SendStep(link, std::move(own), hears_events ? report.events : std::vector<wire::CacheEvent>(), report.load);
  }
}

void LinkCore::OnStepParts(StallWatch::Parts parts) {
  part_count_ = parts.count;
  load_.progress = progress_count_ + part_count_;
  load_.step_under_way_seconds = ToSeconds(parts.under_way);
}

void LinkCore::OnTravellingBytes(TravellingBytes bytes) {
  load_.arriving_bytes = bytes.arriving;
  load_.leaving_bytes = bytes.leaving;
}

void LinkCore::Take(const EngineSnapshot& snapshot) {
  mirror_.Assign(snapshot.runs, snapshot.resumable);
  disk_mirror_.Assign(snapshot.disk_runs);
  FillDisk(load_);  // the disk goes on between a report and its snapshot
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

void LinkCore::Take(LinkForwarded forwarded) {
  for (Link& link : links_) {
    if (link.id != forwarded.link || !link.forwards.contains(forwarded.message.request_id)) continue;
    if (forwarded.message.last) link.forwards.erase(forwarded.message.request_id);
    forwarded.message.epoch = link.epoch;
    const wire::SendOutcome outcome = effects_.Send(link.peer, std::move(forwarded.message));
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
  TakeCheckpoints(standing.checkpoints);
  TakeAbsence(OneLine(standing.absence, kMaxAbsenceBytes));
  TakeCacheKnowledge(standing.knows_cache);
  TakeAdapters(std::move(standing.adapters));
}

void LinkCore::TakeAbsence(std::string absence) {
  if (absence == engine_absence_) return;
  if (absence.empty()) {
    LogInfo("the engine is back");
  } else {
    if (engine_absence_.empty()) {
      ++counts_.engine_absences;
      engine_away_since_ = clock_.Now();
    }
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

// Routers judge every promise by it, so they begin anew.
void LinkCore::TakeCheckpoints(bool checkpoints) {
  if (checkpoints == std::exchange(checkpoints_, checkpoints)) return;
  LogInfo(checkpoints ? "a request can go on only behind some of the engine's blocks"
                      : "a request can go on behind any of the engine's blocks");
  for (Link& link : links_) Restart(link, ResyncReason::kCheckpoints);
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

// Any block may hold something in a cache that is not known.
void LinkCore::FillOwn(wire::Load& load) const {
  load.draining = load_.draining;
  load.cordoned = load_.cordoned;
  load.cache_unknown = load_.cache_unknown;
  load.progress = progress_count_ + part_count_;
  load.saved_prefill_seconds = saved_prefill_seconds_;
  load.computed_prefill_seconds = computed_prefill_seconds_;
  load.tier_cached_tokens = tier_cached_tokens_;
  load.arriving_bytes = load_.arriving_bytes;
  load.leaving_bytes = load_.leaving_bytes;
  if (load.cache_unknown) load.cached_block_count = setup_.hello.block_count;
  if (setup_.hello.sends_cache_events) return;
  // Routers follow neither set.
  load.disk_block_count = 0;
  load.disk_digest = {};
  load.disk_bytes_per_second = 0;
  load.block_bytes = 0;
}

void LinkCore::FillDisk(wire::Load& load) const {
  load.disk_block_count = disk_mirror_.ready_count();
  load.disk_digest = disk_mirror_.digest();
}

// A worker that leaves is told as one that drains, whatever its engine does.
void LinkCore::FillAbsence(wire::Load& load) const {
  if (engine_absence_.empty() || is_leaving_) return;
  const auto away = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now() - engine_away_since_).count();
  load.engine_away_ms = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(away), 1, wire::kMaxKeepMs);
  load.engine_absence = engine_absence_;
}

// ---- what is sent ----

void LinkCore::SendHello(Link& link) {
  wire::Hello hello = setup_.hello;
  hello.epoch = link.epoch;
  hello.adapters = adapters_;
  hello.checkpoints = checkpoints_;
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
  FillAbsence(step.load);
  if (!FollowsCache(link)) {
    step.load.cache_unknown = true;
    step.load.cached_block_count = setup_.hello.block_count;
  }
  step.load.router_count = static_cast<std::uint32_t>(std::clamp<std::size_t>(up_count(), 1, wire::kMaxRouters));
  link.last_step = clock_.Now();
  link.has_news = false;
  peer_prompt_board_.TellTo(link.id.value(), link.peer_prompt_sender, link.last_step, step.load);
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

// Routers hand over what a worker that leaves holds, whether it was cordoned before or not.
void LinkCore::BeginDrain() {
  is_leaving_ = true;
  load_.cordoned = false;
  ApplyDraining();
}

bool LinkCore::is_sole() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.state == State::kUp && link.is_sole; });
}

bool LinkCore::is_handed_over() const {
  if (setup_.hello.transfer.address.empty()) return true;
  return load_.leaving_bytes == 0 && std::none_of(links_.begin(), links_.end(), [](const Link& link) {
           return link.state == State::kUp && link.hands_over && !link.has_handed_over;
         });
}

void LinkCore::ApplyDraining() {
  load_.draining = is_leaving_ || load_.cordoned || !engine_absence_.empty();
  if (!load_.draining) {
    for (Link& link : links_) link.has_handed_over = false;
  }
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
  for (const Link& link : links_) count += link.in_flight.size() + link.forwards.size();
  return count;
}

std::size_t LinkCore::up_count() const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.state == State::kUp; }));
}

}  // namespace roost::worker
