#include "worker/transfer/block_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

// The acceptor looks this often if it shall stop.
constexpr int kAcceptWaitMs = 50;

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
      listener_(std::move(listener)),
      address_(TextOf(options_.advertised.value_or(wire::BoundTo(listener_, options_.address)))) {
  acceptor_ = std::thread([this] { Accept(); });
}

BlockServer::~BlockServer() { Stop(); }

void BlockServer::Stop() {
  stopping_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  listener_.Close();  // a peer that dials hears at once that none listens
  const std::lock_guard lock(mutex_);
  for (const Served& served : served_) served.connection.Shut();
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
  if (served_.size() >= most_served() + 2 * kMaxHandshakes) return Count(PeerRefusal::kBusy);  // the socket closes
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
    while (going.ok()) going = ServeFetch(served);
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
  Stage stage = Stage::kHandshake;
  if (!served.stage.compare_exchange_strong(stage, Stage::kServed)) return Refuse(connection, PeerRefusal::kHandshake);
  if (++served_count_ > most_served()) {
    --served_count_;
    return Refuse(connection, PeerRefusal::kBusy);
  }
  Result<void> welcomed = connection.Send(Encode(PeerMessage::kWelcome));
  connection.LimitTo(std::nullopt);
  if (!welcomed.ok()) --served_count_;
  return welcomed;
}

Result<void> BlockServer::CheckTicket(Served& served) {
  const auto ticket = served.connection.AwaitTicket(tls_rules_, options_.secret, options_.wall_now());
  if (ticket.ok()) {
    served.ticket_expiry = ticket->expiry;
    return {};
  }
  Count(ticket.error().code == ErrorCode::kUnauthenticated ? PeerRefusal::kTicket : PeerRefusal::kHandshake);
  return ticket.error();
}

Result<void> BlockServer::CheckTicketTime(const Served& served) {
  if (!served.ticket_expiry || options_.wall_now() <= *served.ticket_expiry + wire::kTicketClockSkew) return {};
  Count(PeerRefusal::kTicket);
  return Error{ErrorCode::kUnauthenticated, "the ticket has ended", "peer"};
}

Result<void> BlockServer::AwaitHello(PeerConnection& connection) {
  const Result<MessageHead> head = connection.ReceiveHead(blocks_.sizes().frame_bytes(), kPeerHandshakeTime);
  if (!head.ok() || head->kind != PeerMessage::kHello) return Refuse(connection, PeerRefusal::kHandshake);
  const Result<MessageBytes> payload = connection.ReceivePayload(*head);
  if (!payload.ok()) return Refuse(connection, PeerRefusal::kHandshake);
  const Result<PeerHello> hello = DecodeHello(*payload);
  if (!hello.ok() || hello->version != kPeerVersion || hello->source != options_.worker_id) {
    return Refuse(connection, PeerRefusal::kHandshake);
  }
  if (hello->layout.layout != options_.layout.layout) return Refuse(connection, PeerRefusal::kLayout);
  if (hello->layout.numerics != options_.layout.numerics) return Refuse(connection, PeerRefusal::kNumerics);
  return {};
}

Result<void> BlockServer::Refuse(PeerConnection& connection, PeerRefusal cause) {
  Count(cause);
  (void)connection.Send(Encode(cause));
  return Error{ErrorCode::kUnavailable, "refused", "peer"};
}

Result<void> BlockServer::ServeFetch(Served& served) {
  PeerConnection& connection = served.connection;
  ROOST_ASSIGN_OR_RETURN(const MessageHead head, connection.ReceiveHead(blocks_.sizes().frame_bytes(), kServedIdle));
  // A cancel may cross the end of what it cancels.
  if (head.kind == PeerMessage::kCancel) return {};
  if (head.kind != PeerMessage::kFetch) return InvalidArgument("kind", "a fetch was awaited");
  ROOST_ASSIGN_OR_RETURN(const MessageBytes payload, connection.ReceivePayload(head));
  ROOST_ASSIGN_OR_RETURN(const PeerFetch fetch, DecodeFetch(payload));
  ROOST_RETURN_IF_ERROR(CheckTicketTime(served));
  if (++reader_count_ > options_.most_readers) {
    --reader_count_;
    Count(PeerRefusal::kBusy);
    return connection.Send(Encode(PeerEnd::kBusy));
  }
  std::uint64_t left = fetch.hashes.size();
  leaving_count_ += left;
  const Result<PeerEnd> end = SendFrames(served, fetch, left);
  leaving_count_ -= left;
  --reader_count_;
  ROOST_RETURN_IF_ERROR(end);
  return connection.Send(Encode(*end));
}

// Anything that comes meanwhile must be a cancel.
Result<PeerEnd> BlockServer::SendFrames(Served& served, const PeerFetch& fetch, std::uint64_t& left) {
  PeerConnection& connection = served.connection;
  FrameBuffer frame(blocks_.sizes());
  const auto head = HeadOfFrame(blocks_.sizes().frame_bytes());
  for (const BlockHash hash : fetch.hashes) {
    if (connection.HasInput()) {
      ROOST_ASSIGN_OR_RETURN(const MessageHead input, connection.ReceiveHead(frame.bytes().size(), kPeerSilence));
      if (input.kind != PeerMessage::kCancel) return InvalidArgument("kind", "a cancel was awaited");
      return PeerEnd::kCancelled;
    }
    ROOST_RETURN_IF_ERROR(CheckTicketTime(served));
    if (stopping_ || !blocks_.Read(hash, fetch.tenant, frame)) return PeerEnd::kMissing;
    ROOST_RETURN_IF_ERROR(connection.Send(head, frame.bytes()));
    served_bytes_ += frame.bytes().size();
    --left;
    --leaving_count_;
  }
  return PeerEnd::kComplete;
}

}  // namespace roost::worker
