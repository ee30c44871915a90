#include "worker/transfer/peers.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

using wire::HoldCause;
using wire::HoldOutcome;

HoldOutcome OutcomeOf(const wire::PeerEnd& end) {
  switch (end.outcome) {
    case HoldOutcome::kComplete:
    case HoldOutcome::kMissing:
    case HoldOutcome::kBusy:
    case HoldOutcome::kCancelled: return end.outcome;
    default: return HoldOutcome::kBroken;
  }
}

// A peer that speaks another way is broken; one that is only busy says so.
HoldOutcome OutcomeOf(const Error& error) {
  return error.code == ErrorCode::kOverloaded ? HoldOutcome::kBusy : HoldOutcome::kBroken;
}

// The field of an error of a connection or a message says where it arose.
HoldCause CauseOf(const Error& error) {
  if (error.code == ErrorCode::kOverloaded) return HoldCause::kNone;  // busy says it
  if (error.code == ErrorCode::kTimeout) return HoldCause::kSilent;
  if (error.field == "address") return HoldCause::kUnreachable;
  if (error.field == "ticket") return HoldCause::kHandshake;
  if (error.field == "refusal") return HoldCause::kRefused;
  return error.code == ErrorCode::kUnavailable ? HoldCause::kClosed : HoldCause::kMalformed;
}

// The error is that of a frame which was not opened.
HoldCause CauseOfFrame(const Error& error) {
  if (error.field == "sum") return HoldCause::kSum;
  if (error.field == "data") return HoldCause::kComputedWrong;
  const bool is_of_form =
      error.field == "magic" || error.field == "version" || error.field == "token_count" || error.field == "data_bytes";
  return is_of_form ? HoldCause::kMalformed : HoldCause::kOtherBlock;
}

}  // namespace

Peers::Peers(FrameInbox& inbox, const ReadableBlocks& held, std::shared_ptr<FrameMemory> memory, PeersOptions options,
             const Clock& clock)
    : inbox_(inbox), held_(held), memory_(std::move(memory)), options_(std::move(options)), clock_(clock) {}

Peers::~Peers() { Stop(); }

void Peers::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& peer : peers_) {
      if (peer->connection) peer->connection->Shut();
      peer->changed.notify_all();
    }
  }
  memory_->Wake();
  // No peer is added any more.
  for (const auto& peer : peers_) {
    if (peer->thread.joinable()) peer->thread.join();
  }
}

void Peers::Ask(FrameRequest request) {
  const HoldId id = request.id;
  const std::lock_guard lock(mutex_);
  if (stopping_) return inbox_.Push(FramesEnded{id, HoldOutcome::kCancelled});
  if (const std::optional<HoldId> first = FindCovering(request.chain)) return inbox_.Push(FramesJoined{id, *first});
  if (pauses_.IsPaused(request.peer, clock_.Now())) {
    return inbox_.Push(FramesEnded{id, HoldOutcome::kBroken, HoldCause::kPaused});
  }
  Peer* const peer = asked_count_ < kMaxAsked ? PeerFor(request) : nullptr;
  if (peer == nullptr) return inbox_.Push(FramesEnded{id, HoldOutcome::kBusy, HoldCause::kOwnLimit});
  auto asked = std::make_shared<Asked>();
  asked->awaited_count = request.chain.size();
  awaited_count_ += asked->awaited_count;
  asked->request = std::move(request);
  peer->asked.push_back(std::move(asked));
  ++asked_count_;
  peer->changed.notify_all();
}

// A request that brings all blocks of the chain. Blocks of equal hashes are equal, wherever they come from.
std::optional<HoldId> Peers::FindCovering(const FrameChain& chain) const {
  for (const auto& peer : peers_) {
    for (const auto& asked : peer->asked) {
      const FrameChain& other = asked->request.chain;
      if (asked->is_cancelled || other.first_position != chain.first_position || other.size() < chain.size()) continue;
      if (other.tenant == chain.tenant && std::equal(chain.hashes.begin(), chain.hashes.end(), other.hashes.begin())) {
        return asked->request.id;
      }
    }
  }
  return std::nullopt;
}

// The peer at this place, or one that has nothing to do, or a new one. Nothing: all are busy, or the source has enough
// to do, here or where it was before. A fetch that follows waits for steps of its source, so it has a peer for itself.
Peers::Peer* Peers::PeerFor(const FrameRequest& request) {
  const PeerPlace& place = request.peer;
  const bool follows = request.follow.count() > 0;
  Peer* idle = nullptr;
  std::size_t busy_count = 0;  // with fetches of this kind
  for (const auto& peer : peers_) {
    if (peer->asked.empty()) {
      if (idle == nullptr || peer->place == place) idle = peer.get();
      continue;
    }
    if (peer->follows != follows) continue;
    ++busy_count;
    if (follows) continue;
    if (peer->place == place) return peer->asked.size() < kMaxAskedOfOne ? peer.get() : nullptr;
    if (peer->place.worker_id == place.worker_id) return nullptr;
  }
  if (busy_count >= (follows ? kMaxFollowed : options_.most_peers)) return nullptr;
  if (idle == nullptr) {
    idle = peers_.emplace_back(std::make_unique<Peer>()).get();
    idle->thread = std::thread([this, peer = idle] { Run(*peer); });
  }
  idle->place = place;
  idle->follows = follows;
  return idle;
}

void Peers::Cancel(HoldId id) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& peer : peers_) {
      for (const auto& asked : peer->asked) {
        if (asked->request.id != id) continue;
        asked->is_cancelled = true;
        if (asked == peer->asked.front() && peer->connection) peer->connection->Shut();
      }
    }
  }
  memory_->Wake();
}

void Peers::Distrust(const std::string& worker_id) {
  {
    const std::lock_guard lock(mutex_);
    pauses_.Distrust(worker_id, clock_.Now());
  }
  LogWarning("blocks are not fetched from a worker for a while",
             {{"source", worker_id}, {"seconds", PairPauses::kWrongPause.count()}, {"why", "it computes wrong"}});
}

void Peers::Run(Peer& peer) {
  NameThisThread("blocks-in");
  while (true) {
    std::shared_ptr<Asked> asked;
    bool is_paused = false;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] { return stopping_ || !peer.asked.empty(); };
      if (!peer.changed.wait_for(lock, kPeerIdle, has_work)) {
        peer.connection.reset();
        continue;
      }
      if (peer.asked.empty()) return;
      asked = peer.asked.front();
      is_paused = pauses_.IsPaused(asked->request.peer, clock_.Now());
    }
    const FetchEnd end = is_paused ? FetchEnd{.was_tried = false, .cause = HoldCause::kPaused} : Fetch(peer, *asked);
    Drop(*asked, asked->awaited_count);
    End(peer, end);
  }
}

void Peers::Drop(Asked& asked, std::uint32_t count) {
  asked.awaited_count -= count;
  awaited_count_ -= count;
}

void Peers::End(Peer& peer, const FetchEnd& end) {
  std::optional<std::chrono::seconds> pause;
  PeerPlace source;
  {
    const std::lock_guard lock(mutex_);
    const FrameRequest& request = peer.asked.front()->request;
    source = request.peer;
    if (end.was_tried) pause = pauses_.OnEnd(source, end.outcome, clock_.Now());
    inbox_.Push(FramesEnded{request.id, end.outcome, end.cause});
    peer.asked.pop_front();
    --asked_count_;
  }
  // One line for a series of failures.
  if (!pause || (end.outcome == HoldOutcome::kBroken && *pause > PairPauses::kFirstPause)) return;
  LogWarning("blocks are not fetched from a worker for a while",
             {{"source", source.worker_id},
              {"address", source.address},
              {"seconds", pause->count()},
              {"why", end.outcome == HoldOutcome::kWrong ? "a wrong frame: " + end.why : end.why}});
}

Peers::FetchEnd Peers::Fetch(Peer& peer, Asked& asked) {
  if (stopping_ || asked.is_cancelled) return {.outcome = HoldOutcome::kCancelled, .was_tried = false};
  const std::uint32_t first = held_.CountFront(asked.request.chain);
  Drop(asked, first);
  if (first == asked.request.chain.size()) return {.outcome = HoldOutcome::kComplete, .was_tried = false};
  const Result<void> begun = Begin(peer, asked, first);
  FetchEnd end = begun.ok() ? ReceiveFrames(peer, asked, first)
                            : FetchEnd{.outcome = OutcomeOf(begun.error()),
                                       .cause = CauseOf(begun.error()),
                                       .why = begun.error().ToString()};
  if (end.outcome == HoldOutcome::kBroken && (asked.is_cancelled || stopping_))
    end = {.outcome = HoldOutcome::kCancelled};
  if (!end.is_clean) HangUp(peer);
  return end;
}

// Asks on the open connection; if its peer has ended it meanwhile, on a new one.
Result<void> Peers::Begin(Peer& peer, const Asked& asked, std::uint32_t first) {
  const FrameChain& chain = asked.request.chain;
  if (peer.connection && !MayGoOn(peer, asked.request)) HangUp(peer);
  if (!peer.connection) ROOST_RETURN_IF_ERROR(Dial(peer, asked));
  return peer.connection->Send(wire::PeerFetch{.tenant = chain.tenant,
                                               .hashes = {chain.hashes.begin() + first, chain.hashes.end()},
                                               .follow_ms = static_cast<std::uint64_t>(asked.request.follow.count())});
}

// May the open connection serve the request?
bool Peers::MayGoOn(const Peer& peer, const FrameRequest& request) const {
  return peer.connected_to == request.peer && peer.connection->is_encrypted() == request.ticket.has_value() &&
         clock_.Now() - peer.connected_at <= kPeerConnectionAge && !peer.connection->HasInput();
}

Result<void> Peers::Dial(Peer& peer, const Asked& asked) {
  const FrameRequest& request = asked.request;
  ROOST_ASSIGN_OR_RETURN(const wire::Endpoint endpoint, wire::ParseNumericAddress(request.peer.address));
  if (!request.ticket) ROOST_RETURN_IF_ERROR(CheckOpen(endpoint));
  ROOST_ASSIGN_OR_RETURN(PeerConnection connection, PeerConnection::Connect(endpoint));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || asked.is_cancelled) return Error{ErrorCode::kUnavailable, "it is not wanted any more", "peer"};
    peer.connection.emplace(std::move(connection));
    peer.connected_to = request.peer;
    peer.connected_at = clock_.Now();
  }
  peer.connection->LimitTo(kPeerHandshakeTime);
  ROOST_RETURN_IF_ERROR(Introduce(peer, request));
  peer.connection->LimitTo(std::nullopt);
  return {};
}

// May this be dialled without a ticket?
Result<void> Peers::CheckOpen(const wire::Endpoint& endpoint) const {
  if (options_.access == TransferAccess::kTicketsOnly) {
    return Error{ErrorCode::kUnauthenticated, "there is no ticket for it", "ticket"};
  }
  if (options_.access == TransferAccess::kAnywhere || endpoint.IsLoopback()) return {};
  return InvalidArgument("address", "{} is beyond loopback", endpoint.ToString());
}

Result<void> Peers::Introduce(Peer& peer, const FrameRequest& request) {
  PeerConnection& connection = *peer.connection;
  if (request.ticket) {
    ROOST_RETURN_IF_ERROR(connection.ShowTicket(tls_rules_, options_.worker_id, *request.ticket));
  }
  ROOST_RETURN_IF_ERROR(connection.Send(wire::PeerHello{
      .version = wire::kPeerMessageVersion, .layout = options_.layout, .source = request.peer.worker_id}));
  ROOST_ASSIGN_OR_RETURN(const PartHead head,
                         connection.ReceiveHead(memory_->sizes().frame_bytes(), kPeerHandshakeTime));
  ROOST_ASSIGN_OR_RETURN(const wire::PeerMessage message, connection.ReceiveMessage(head));
  if (std::holds_alternative<wire::PeerWelcome>(message)) return {};
  const auto* const refused = std::get_if<wire::PeerRefused>(&message);
  if (refused == nullptr) return InvalidArgument("kind", "a welcome was awaited");
  const bool is_busy = refused->cause == wire::FetchRefusal::kBusy;
  return Error{is_busy ? ErrorCode::kOverloaded : ErrorCode::kUnavailable,
               "refuses: " + std::string(wire::kFetchRefusalNames[static_cast<std::size_t>(refused->cause)]),
               "refusal"};
}

Peers::FetchEnd Peers::ReceiveFrames(Peer& peer, Asked& asked, std::uint32_t first) {
  const FrameChain& chain = asked.request.chain;
  const auto is_wanted = [&] { return !asked.is_cancelled && !stopping_; };
  const auto broken = [](const Error& error) { return FetchEnd{.cause = CauseOf(error), .why = error.ToString()}; };
  for (std::uint32_t index = first;;) {
    const Result<PartHead> head = peer.connection->ReceiveHead(memory_->sizes().frame_bytes(), kPeerSilence);
    if (!head.ok() && head.error().code == ErrorCode::kDataLoss) {
      return {.outcome = HoldOutcome::kWrong, .cause = HoldCause::kMalformed, .why = head.error().ToString()};
    }
    if (!head.ok()) return broken(head.error());
    if (head->kind == PeerPart::kMessage) {
      const std::optional<FetchEnd> end = ReceiveEnd(peer, *head);
      if (!end) continue;
      const bool is_early = end->outcome == HoldOutcome::kComplete && index < chain.size();
      return is_early ? broken(InvalidArgument("end", "comes before the last block")) : *end;
    }
    if (index == chain.size()) return broken(InvalidArgument("kind", "an end was awaited"));
    std::optional<FrameBuffer> frame = memory_->Take(is_wanted);
    if (!frame) return {.outcome = HoldOutcome::kCancelled};
    const Result<void> received = peer.connection->Receive(frame->bytes(), kPeerSilence);
    if (!received.ok()) return broken(received.error());
    Result<OpenedFrame> opened = OpenFrame(*frame, chain, index);
    if (!opened.ok()) {
      return {.outcome = HoldOutcome::kWrong, .cause = CauseOfFrame(opened.error()), .why = opened.error().ToString()};
    }
    memory_->Stage(*frame);
    Drop(asked, 1);
    inbox_.Push(ArrivedFrame{.id = asked.request.id,
                             .index = index++,
                             .buffer = *std::move(frame),
                             .opened = std::move(opened).value(),
                             .at = clock_.Now()});
  }
}

std::optional<Peers::FetchEnd> Peers::ReceiveEnd(Peer& peer, const PartHead& head) {
  const Result<wire::PeerMessage> message = peer.connection->ReceiveMessage(head);
  if (!message.ok()) return FetchEnd{.cause = CauseOf(message.error()), .why = message.error().ToString()};
  if (peer.follows && std::holds_alternative<wire::PeerWaiting>(*message)) return std::nullopt;
  const auto* const end = std::get_if<wire::PeerEnd>(&message.value());
  if (end == nullptr) return FetchEnd{.cause = HoldCause::kMalformed, .why = "a frame or an end was awaited"};
  return FetchEnd{.outcome = OutcomeOf(*end), .is_clean = true};
}

void Peers::HangUp(Peer& peer) {
  const std::lock_guard lock(mutex_);
  peer.connection.reset();
}

}  // namespace roost::worker
