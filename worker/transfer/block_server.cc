#include "worker/transfer/block_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

using wire::FetchRefusal;
using wire::HoldOutcome;

// The acceptor looks this often if it shall stop.
constexpr int kAcceptWaitMs = 50;
// More than any hello has. A stranger can make this worker wait for no more.
constexpr std::size_t kMaxHelloBytes = 512;

std::string TextOf(const wire::Endpoint& endpoint) {
  return (endpoint.IsV6() ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

}  // namespace

Result<std::unique_ptr<BlockServer>> BlockServer::Start(ReadableBlocks& blocks, BlockServerOptions options) {
  ROOST_ASSIGN_OR_RETURN(wire::Descriptor listener, wire::Listen(options.address));
  return std::make_unique<BlockServer>(blocks, std::move(options), std::move(listener));
}

BlockServer::BlockServer(ReadableBlocks& blocks, BlockServerOptions options, wire::Descriptor listener)
    : blocks_(blocks),
      options_(std::move(options)),
      memory_(std::make_shared<FrameMemory>(blocks.sizes(), options_.most_readers, options_.staging)),
      listener_(std::move(listener)),
      address_(TextOf(options_.advertised.value_or(wire::BoundTo(listener_, options_.address)))) {
  acceptor_ = std::thread([this] { Accept(); });
}

BlockServer::~BlockServer() { Stop(); }

void BlockServer::Stop() {
  stopping_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  listener_.Close();  // a peer that dials hears at once that none listens
  blocks_.WakeFollowers();
  {
    const std::lock_guard lock(mutex_);
    for (const Served& served : served_) served.connection.Shut();
  }
  // Without the lock: a handshake under way may still take it. Nothing else changes the list any more.
  for (Served& served : served_) served.thread.join();
  served_.clear();
}

BlockServerCounts BlockServer::counts() const {
  BlockServerCounts counts{.served_bytes = served_bytes_.load(),
                           .readers = reader_count_.load(),
                           .leaving_bytes = leaving_count_.load() * blocks_.sizes().frame_bytes()};
  for (std::size_t i = 0; i < refused_.size(); ++i) counts.refused[i] = refused_[i].load();
  return counts;
}

void BlockServer::Accept() {
  NameThisThread("blocks-accept");
  while (!stopping_) {
    pollfd poll{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, kAcceptWaitMs) > 0) {
      wire::Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.is_open()) {
        TakeIn(std::move(socket));
      } else {
        (void)::poll(nullptr, 0,
                     kAcceptWaitMs);  // without a descriptor, the one who waits would be found at once again
      }
    }
    JoinEnded();
  }
}

void BlockServer::TakeIn(wire::Descriptor socket) {
  const std::lock_guard lock(mutex_);
  // One thread for each connection, also while it is about to end.
  if (served_.size() >= most_served() + 2 * kMaxHandshakes) return Count(FetchRefusal::kBusy);  // the socket closes
  DropForAnother();
  Served& served = served_.emplace_back(std::move(socket));
  served.thread = std::thread([this, &served] { Serve(served); });
}

void BlockServer::DropForAnother() {
  const auto is_waiting = [](const Served& served) { return served.stage == Stage::kHandshake; };
  if (static_cast<std::size_t>(std::count_if(served_.begin(), served_.end(), is_waiting)) < kMaxHandshakes) return;
  for (Served& served : served_) {
    Stage stage = Stage::kHandshake;
    if (!served.stage.compare_exchange_strong(stage, Stage::kDropped)) continue;
    served.connection.Shut();
    return;
  }
}

std::optional<FetchRefusal> BlockServer::BeginServing(Served& served) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  Served* oldest_idle = nullptr;
  for (Served& each : served_) {
    if (served.consumer.empty() || each.stage != Stage::kServed || each.consumer != served.consumer) continue;
    ++count;
    if (oldest_idle == nullptr && each.is_idle) oldest_idle = &each;
  }
  const bool is_full = count >= MostServedOfOne(options_.most_readers);
  if (is_full && oldest_idle == nullptr) return FetchRefusal::kBusy;
  Stage stage = Stage::kHandshake;
  if (!served.stage.compare_exchange_strong(stage, Stage::kServed)) return FetchRefusal::kHandshake;
  if (is_full) {
    Stage idle = Stage::kServed;  // unless it is over by now
    oldest_idle->stage.compare_exchange_strong(idle, Stage::kDropped);
    oldest_idle->connection.ShutInput();
  }
  return std::nullopt;
}

void BlockServer::JoinEnded() {
  const std::lock_guard lock(mutex_);
  for (auto served = served_.begin(); served != served_.end();) {
    if (served->stage != Stage::kOver) {
      ++served;
      continue;
    }
    served->thread.join();
    served = served_.erase(served);
  }
}

// The connection ends with the first thing that is wrong; the consumer sees that.
void BlockServer::Serve(Served& served) {
  NameThisThread("blocks-out");
  if (ShakeHands(served).ok()) {
    Result<void> going;
    while (going.ok() && served.stage == Stage::kServed) going = ServeFetch(served);
    --served_count_;
  }
  served.connection.Shut();
  served.stage = Stage::kOver;
}

// When it succeeds the connection is one of served_count_.
Result<void> BlockServer::ShakeHands(Served& served) {
  PeerConnection& connection = served.connection;
  connection.LimitTo(kPeerHandshakeTime);
  if (options_.access == TransferAccess::kTicketsOnly) ROOST_RETURN_IF_ERROR(CheckTicket(served));
  ROOST_RETURN_IF_ERROR(AwaitHello(connection));
  if (const std::optional<FetchRefusal> refusal = BeginServing(served)) return Refuse(connection, *refusal);
  if (++served_count_ > most_served()) {
    --served_count_;
    return Refuse(connection, FetchRefusal::kBusy);
  }
  Result<void> welcomed = connection.Send(wire::PeerWelcome());
  connection.LimitTo(TimeOfTicket(served));
  if (!welcomed.ok()) --served_count_;
  return welcomed;
}

Result<void> BlockServer::CheckTicket(Served& served) {
  const auto ticket = served.connection.AwaitTicket(tls_rules_, options_.secret, options_.wall_now());
  if (ticket.ok()) {
    served.ticket_expiry = ticket->expiry;
    const std::lock_guard lock(mutex_);
    served.consumer = ticket->consumer;
    return {};
  }
  Count(ticket.error().code == ErrorCode::kUnauthenticated ? FetchRefusal::kTicket : FetchRefusal::kHandshake);
  return ticket.error();
}

std::optional<std::chrono::milliseconds> BlockServer::TimeOfTicket(const Served& served) const {
  if (!served.ticket_expiry) return std::nullopt;
  return std::max(*served.ticket_expiry + wire::kTicketClockSkew - options_.wall_now(), std::chrono::seconds(0)) +
         std::chrono::seconds(1);  // the wall clock's seconds are whole
}

Result<void> BlockServer::CheckTicketTime(const Served& served) {
  if (!served.ticket_expiry || options_.wall_now() <= *served.ticket_expiry + wire::kTicketClockSkew) return {};
  Count(FetchRefusal::kTicket);
  return Error{ErrorCode::kUnauthenticated, "the ticket has ended", "peer"};
}

Result<void> BlockServer::AwaitHello(PeerConnection& connection) {
  const Result<PartHead> head = connection.ReceiveHead(blocks_.sizes().frame_bytes(), kPeerHandshakeTime);
  if (!head.ok()) return Refuse(connection, FetchRefusal::kHandshake);
  const Result<wire::PeerMessage> message = connection.ReceiveMessage(*head, kMaxHelloBytes);
  const auto* const hello = message.ok() ? std::get_if<wire::PeerHello>(&message.value()) : nullptr;
  if (hello == nullptr || hello->version != wire::kPeerMessageVersion || hello->source != options_.worker_id) {
    return Refuse(connection, FetchRefusal::kHandshake);
  }
  if (hello->layout.layout != options_.layout.layout) return Refuse(connection, FetchRefusal::kLayout);
  if (hello->layout.numerics != options_.layout.numerics) return Refuse(connection, FetchRefusal::kNumerics);
  return {};
}

Result<void> BlockServer::Refuse(PeerConnection& connection, FetchRefusal cause) {
  Count(cause);
  (void)connection.Send(wire::PeerRefused{cause});
  return Error{ErrorCode::kUnavailable, "refused", "peer"};
}

Result<void> BlockServer::ServeFetch(Served& served) {
  PeerConnection& connection = served.connection;
  ROOST_ASSIGN_OR_RETURN(const PartHead head, connection.ReceiveHead(blocks_.sizes().frame_bytes(), kServedIdle));
  ROOST_ASSIGN_OR_RETURN(const wire::PeerMessage message, connection.ReceiveMessage(head));
  const auto* const fetch = std::get_if<wire::PeerFetch>(&message);
  if (fetch == nullptr) return InvalidArgument("kind", "a fetch was awaited");
  served.is_idle = false;
  ROOST_RETURN_IF_ERROR(CheckTicketTime(served));
  if (++reader_count_ > options_.most_readers) {
    --reader_count_;
    Count(FetchRefusal::kBusy);
    return EndFetch(served, HoldOutcome::kBusy);
  }
  std::uint64_t left = fetch->hashes.size();
  leaving_count_ += left;
  const Result<HoldOutcome> outcome = SendFrames(served, *fetch, left);
  leaving_count_ -= left;
  --reader_count_;
  ROOST_RETURN_IF_ERROR(outcome);
  return EndFetch(served, *outcome);
}

// Idle before its consumer knows: then a connection that its consumer believes idle is.
Result<void> BlockServer::EndFetch(Served& served, HoldOutcome outcome) {
  served.is_idle = true;
  return served.connection.Send(wire::PeerEnd{outcome});
}

// A consumer says nothing while it is served; what comes is the end of its connection, or wrong.
Result<void> BlockServer::CheckGoingOn(const Served& served) {
  if (served.connection.HasInput()) return Error{ErrorCode::kUnavailable, "the consumer has ended it", "peer"};
  return CheckTicketTime(served);
}

// A frame is held for one block alone: what waits holds none.
Result<bool> BlockServer::SendFrame(Served& served, BlockHash hash, std::uint64_t tenant) {
  FrameBuffer frame = *memory_->Take([] { return true; });
  const auto note = [&](std::optional<BlockHash> sent) {
    const std::lock_guard lock(mutex_);
    served.sent = sent;
    served.tenant = tenant;
  };
  const std::uint64_t ended = ended_retracted_count_;
  if (!blocks_.Read(hash, tenant, frame)) return false;
  note(hash);
  if (ended != ended_retracted_count_ && !blocks_.Has(hash, tenant)) {
    note(std::nullopt);
    return Error{ErrorCode::kUnavailable, "the block was erased", "peer"};
  }
  const auto head = EncodeHead(PeerPart::kFrame, blocks_.sizes().frame_bytes());
  const Result<void> sent = served.connection.Send(head, frame.bytes());
  note(std::nullopt);
  ROOST_RETURN_IF_ERROR(sent);
  served_bytes_ += frame.bytes().size();
  return true;
}

void BlockServer::EndRetracted() {
  ++ended_retracted_count_;
  const std::lock_guard lock(mutex_);
  for (Served& served : served_) {
    if (served.sent && !blocks_.Has(*served.sent, served.tenant)) served.connection.Shut();
  }
}

Result<HoldOutcome> BlockServer::SendFrames(Served& served, const wire::PeerFetch& fetch, std::uint64_t& left) {
  PeerConnection& connection = served.connection;
  const auto follow_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(fetch.follow_ms);
  for (const BlockHash hash : fetch.hashes) {
    ROOST_RETURN_IF_ERROR(CheckGoingOn(served));
    while (true) {
      ROOST_ASSIGN_OR_RETURN(const bool is_sent, SendFrame(served, hash, fetch.tenant));
      if (is_sent) break;
      // Rounded up, so that nothing is missing before its time.
      const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(follow_end - std::chrono::steady_clock::now());
      if (stopping_ || left_ms.count() <= 0) return HoldOutcome::kMissing;
      if (blocks_.AwaitPublished(hash, fetch.tenant, std::min(left_ms, kFollowKeepAlive))) continue;
      ROOST_RETURN_IF_ERROR(CheckGoingOn(served));
      ROOST_RETURN_IF_ERROR(connection.Send(wire::PeerWaiting()));
    }
    --left;
    --leaving_count_;
  }
  return HoldOutcome::kComplete;
}

}  // namespace roost::worker
