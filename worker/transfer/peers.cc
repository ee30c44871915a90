#include "worker/transfer/peers.h"

#include <algorithm>
#include <utility>

#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

using wire::HoldOutcome;

HoldOutcome OutcomeOf(PeerEnd end) {
  switch (end) {
    case PeerEnd::kComplete: return HoldOutcome::kComplete;
    case PeerEnd::kMissing: return HoldOutcome::kMissing;
    case PeerEnd::kBusy: return HoldOutcome::kBusy;
    case PeerEnd::kCancelled: return HoldOutcome::kCancelled;
  }
  return HoldOutcome::kBroken;
}

// A peer that speaks another way is broken; one that is only busy says so.
HoldOutcome OutcomeOf(const Error& error) {
  return error.code == ErrorCode::kOverloaded ? HoldOutcome::kBusy : HoldOutcome::kBroken;
}

}  // namespace

Peers::Peers(FrameInbox& inbox, const ReadableBlocks& held, std::shared_ptr<FrameMemory> memory, PeerLayout layout,
             const Clock& clock)
    : inbox_(inbox), held_(held), memory_(std::move(memory)), layout_(layout), clock_(clock) {}

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
  Peer* const peer = asked_count_ < kMaxAsked ? PeerFor(request.peer) : nullptr;
  if (peer == nullptr) return inbox_.Push(FramesEnded{id, HoldOutcome::kBusy});
  auto asked = std::make_shared<Asked>();
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

// The peer at this place, or one that has nothing to do, or a new one.
Peers::Peer* Peers::PeerFor(const PeerPlace& place) {
  Peer* idle = nullptr;
  for (const auto& peer : peers_) {
    if (peer->place == place) return peer.get();
    if (peer->asked.empty()) idle = peer.get();
  }
  if (peers_.size() < kMaxPeers) {
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.place = place;
    peer.thread = std::thread([this, &peer] { Run(peer); });
    return &peer;
  }
  if (idle != nullptr) idle->place = place;
  return idle;
}

void Peers::Cancel(HoldId id) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& peer : peers_) {
      for (const auto& asked : peer->asked) {
        if (asked->request.id == id) asked->is_cancelled = true;
      }
    }
  }
  memory_->Wake();
}

void Peers::Run(Peer& peer) {
  NameThisThread("blocks-in");
  while (true) {
    std::shared_ptr<Asked> asked;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] { return stopping_ || !peer.asked.empty(); };
      if (!peer.changed.wait_for(lock, kPeerIdle, has_work)) {
        peer.connection.reset();
        continue;
      }
      if (peer.asked.empty()) return;
      asked = peer.asked.front();
    }
    const HoldOutcome outcome = Fetch(peer, *asked);
    const std::lock_guard lock(mutex_);
    peer.asked.pop_front();
    --asked_count_;
    inbox_.Push(FramesEnded{asked->request.id, outcome});
  }
}

HoldOutcome Peers::Fetch(Peer& peer, const Asked& asked) {
  if (stopping_ || asked.is_cancelled) return HoldOutcome::kCancelled;
  const std::uint32_t first = held_.CountFront(asked.request.chain);
  if (first == asked.request.chain.size()) return HoldOutcome::kComplete;
  const Result<void> begun = Begin(peer, asked, first);
  const FetchEnd end = begun.ok() ? ReceiveFrames(peer, asked, first) : FetchEnd{.outcome = OutcomeOf(begun.error())};
  if (!end.is_clean) HangUp(peer);
  return end.outcome;
}

// Asks on the open connection; if its peer has ended it meanwhile, on a new one.
Result<void> Peers::Begin(Peer& peer, const Asked& asked, std::uint32_t first) {
  const FrameChain& chain = asked.request.chain;
  if (peer.connection && (peer.connected_to != asked.request.peer || peer.connection->HasInput())) HangUp(peer);
  if (!peer.connection) ROOST_RETURN_IF_ERROR(Dial(peer, asked.request.peer));
  const PeerFetch fetch{.tenant = chain.tenant, .hashes = {chain.hashes.begin() + first, chain.hashes.end()}};
  return peer.connection->Send(Encode(fetch));
}

Result<void> Peers::Dial(Peer& peer, const PeerPlace& place) {
  ROOST_ASSIGN_OR_RETURN(const wire::Endpoint endpoint, wire::ParseNumericAddress(place.address));
  if (!endpoint.IsLoopback()) return InvalidArgument("address", "{} is beyond loopback", place.address);
  ROOST_ASSIGN_OR_RETURN(PeerConnection connection, PeerConnection::Connect(endpoint));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Error{ErrorCode::kUnavailable, "this worker stops", "peer"};
    peer.connection.emplace(std::move(connection));
    peer.connected_to = place;
  }
  ROOST_RETURN_IF_ERROR(peer.connection->Send(Encode(PeerHello{.layout = layout_, .source = place.worker_id})));
  ROOST_ASSIGN_OR_RETURN(const MessageHead head,
                         peer.connection->ReceiveHead(memory_->sizes().frame_bytes(), kPeerHandshakeTime));
  if (head.kind == PeerMessage::kWelcome) return {};
  if (head.kind != PeerMessage::kRefused) return InvalidArgument("kind", "a welcome was awaited");
  ROOST_ASSIGN_OR_RETURN(const MessageBytes payload, peer.connection->ReceivePayload(head));
  ROOST_ASSIGN_OR_RETURN(const PeerRefusal cause, DecodeRefused(payload));
  const ErrorCode code = cause == PeerRefusal::kBusy ? ErrorCode::kOverloaded : ErrorCode::kUnavailable;
  return Error{code, std::string(kPeerRefusalNames[static_cast<std::size_t>(cause)]), "peer"};
}

Peers::FetchEnd Peers::ReceiveFrames(Peer& peer, const Asked& asked, std::uint32_t first) {
  const FrameChain& chain = asked.request.chain;
  const auto is_wanted = [&] { return !asked.is_cancelled && !stopping_; };
  const auto broken = [&] { return FetchEnd{is_wanted() ? HoldOutcome::kBroken : HoldOutcome::kCancelled}; };
  bool has_cancelled = false;
  for (std::uint32_t index = first;;) {
    const Result<MessageHead> head = peer.connection->ReceiveHead(memory_->sizes().frame_bytes(), kPeerSilence);
    if (!head.ok()) return broken();
    if (head->kind == PeerMessage::kEnd) {
      FetchEnd end = ReceiveEnd(peer, *head);
      if (has_cancelled) end.outcome = HoldOutcome::kCancelled;
      return end.outcome == HoldOutcome::kComplete && index < chain.size() ? broken() : end;
    }
    if (head->kind != PeerMessage::kFrame || index == chain.size()) return broken();
    std::optional<FrameBuffer> frame = memory_->Take(is_wanted);
    if (!frame) {
      // The engine does not want the rest: reads on until the peer has seen that.
      const bool is_first = !std::exchange(has_cancelled, true);
      if (stopping_ || (is_first && !peer.connection->Send(Encode(PeerMessage::kCancel)).ok())) return broken();
      frame.emplace(memory_->sizes());
    }
    if (!peer.connection->Receive(frame->bytes(), kPeerSilence).ok()) return broken();
    if (has_cancelled) continue;
    Result<OpenedFrame> opened = OpenFrame(*frame, chain, index);
    if (!opened.ok()) return {HoldOutcome::kWrong};
    inbox_.Push(ArrivedFrame{.id = asked.request.id,
                             .index = index++,
                             .buffer = *std::move(frame),
                             .opened = std::move(opened).value(),
                             .at = clock_.Now()});
  }
}

Peers::FetchEnd Peers::ReceiveEnd(Peer& peer, const MessageHead& head) {
  const Result<MessageBytes> payload = peer.connection->ReceivePayload(head);
  if (!payload.ok()) return {};
  const Result<PeerEnd> end = DecodeEnd(*payload);
  if (!end.ok()) return {};
  return {OutcomeOf(*end), true};
}

void Peers::HangUp(Peer& peer) {
  const std::lock_guard lock(mutex_);
  peer.connection.reset();
}

}  // namespace roost::worker
