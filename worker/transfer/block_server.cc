#include "worker/transfer/block_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/thread_name.h"

namespace roost::worker {
namespace {

// How often the acceptor looks whether it shall stop.
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
      address_(TextOf(wire::BoundTo(listener_, options_.address))) {
  acceptor_ = std::thread([this] { Accept(); });
}

BlockServer::~BlockServer() { Stop(); }

void BlockServer::Stop() {
  stopping_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  const std::lock_guard lock(mutex_);
  for (const Served& served : served_) served.connection.Shut();
  for (Served& served : served_) served.thread.join();
  served_.clear();
}

BlockServerCounts BlockServer::counts() const {
  BlockServerCounts counts{.served_bytes = served_bytes_.load(), .readers = reader_count_.load()};
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
  if (served_.size() >= kMaxServed) {
    PeerConnection connection(std::move(socket));
    (void)Refuse(connection, PeerRefusal::kBusy);
    return;
  }
  Served& served = served_.emplace_back(std::move(socket));
  served.thread = std::thread([this, &served] { Serve(served); });
}

void BlockServer::JoinEnded() {
  const std::lock_guard lock(mutex_);
  for (auto served = served_.begin(); served != served_.end();) {
    if (!served->is_over) {
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
  Result<void> going = ShakeHands(served.connection);
  while (going.ok()) going = ServeFetch(served.connection);
  served.connection.Shut();
  served.is_over = true;
}

Result<void> BlockServer::ShakeHands(PeerConnection& connection) {
  Result<MessageHead> head = connection.ReceiveHead(blocks_.sizes().frame_bytes(), kPeerHandshakeTime);
  if (!head.ok() || head->kind != PeerMessage::kHello) return Refuse(connection, PeerRefusal::kHandshake);
  ROOST_ASSIGN_OR_RETURN(const MessageBytes payload, connection.ReceivePayload(*head));
  const Result<PeerHello> hello = DecodeHello(payload);
  if (!hello.ok() || hello->version != kPeerVersion || hello->source != options_.worker_id) {
    return Refuse(connection, PeerRefusal::kHandshake);
  }
  if (hello->layout.layout != options_.layout.layout) return Refuse(connection, PeerRefusal::kLayout);
  if (hello->layout.numerics != options_.layout.numerics) return Refuse(connection, PeerRefusal::kNumerics);
  return connection.Send(Encode(PeerMessage::kWelcome));
}

Result<void> BlockServer::Refuse(PeerConnection& connection, PeerRefusal cause) {
  ++refused_[static_cast<std::size_t>(cause)];
  (void)connection.Send(Encode(cause));
  return Error{ErrorCode::kUnavailable, "refused", "peer"};
}

Result<void> BlockServer::ServeFetch(PeerConnection& connection) {
  ROOST_ASSIGN_OR_RETURN(const MessageHead head, connection.ReceiveHead(blocks_.sizes().frame_bytes(), kServedIdle));
  // A cancel may cross the end of what it cancels.
  if (head.kind == PeerMessage::kCancel) return {};
  if (head.kind != PeerMessage::kFetch) return InvalidArgument("kind", "a fetch was awaited");
  ROOST_ASSIGN_OR_RETURN(const MessageBytes payload, connection.ReceivePayload(head));
  ROOST_ASSIGN_OR_RETURN(const PeerFetch fetch, DecodeFetch(payload));
  if (++reader_count_ > kMaxReaders) {
    --reader_count_;
    ++refused_[static_cast<std::size_t>(PeerRefusal::kBusy)];
    return connection.Send(Encode(PeerEnd::kBusy));
  }
  const Result<PeerEnd> end = SendFrames(connection, fetch);
  --reader_count_;
  ROOST_RETURN_IF_ERROR(end);
  return connection.Send(Encode(*end));
}

// Anything that comes meanwhile must be a cancel.
Result<PeerEnd> BlockServer::SendFrames(PeerConnection& connection, const PeerFetch& fetch) {
  FrameBuffer frame(blocks_.sizes());
  const auto head = HeadOfFrame(blocks_.sizes().frame_bytes());
  for (const BlockHash hash : fetch.hashes) {
    if (connection.HasInput()) {
      ROOST_ASSIGN_OR_RETURN(const MessageHead input, connection.ReceiveHead(frame.bytes().size(), kPeerSilence));
      if (input.kind != PeerMessage::kCancel) return InvalidArgument("kind", "a cancel was awaited");
      return PeerEnd::kCancelled;
    }
    if (stopping_ || !blocks_.Read(hash, fetch.tenant, frame)) return PeerEnd::kMissing;
    ROOST_RETURN_IF_ERROR(connection.Send(head, frame.bytes()));
    served_bytes_ += frame.bytes().size();
  }
  return PeerEnd::kComplete;
}

}  // namespace roost::worker
