#include "worker/transfer/peer_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace roost::worker {
namespace {

Error Broken(std::string what) { return Error{ErrorCode::kUnavailable, std::move(what), "peer"}; }

Error Silent(std::string what) { return Error{ErrorCode::kTimeout, std::move(what), "peer"}; }

Error Unreachable(std::string what) { return Error{ErrorCode::kUnavailable, std::move(what), "address"}; }

Error NotConnected(int error) {
  return Unreachable("can not be connected: " + std::error_code(error, std::generic_category()).message());
}

// The time limit of a call for so many bytes that begins now.
std::chrono::steady_clock::time_point EndOf(std::chrono::milliseconds time, std::size_t bytes) {
  return std::chrono::steady_clock::now() + time + std::chrono::milliseconds(1000 * bytes / kPeerLeastBytesPerSecond);
}

bool AwaitUntil(int socket, short events, std::chrono::steady_clock::time_point end) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd poll{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Result<wire::Address> AddressOf(const wire::Endpoint& endpoint) {
  wire::Address address;
  if (endpoint.IsV6()) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.bytes);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    address.size = sizeof(v6);
    if (inet_pton(AF_INET6, endpoint.host.c_str(), &v6.sin6_addr) == 1) return address;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.bytes);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    address.size = sizeof(v4);
    if (inet_pton(AF_INET, endpoint.host.c_str(), &v4.sin_addr) == 1) return address;
  }
  return InvalidArgument("address", "{} is no numeric host", endpoint.host);
}

}  // namespace

Result<PeerConnection> PeerConnection::Connect(const wire::Endpoint& to) {
  ROOST_ASSIGN_OR_RETURN(wire::Address address, AddressOf(to));
  wire::Descriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return Unreachable("no socket is left");
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) return NotConnected(errno);
  const auto end = std::chrono::steady_clock::now() + kPeerConnectTime;
  if (!AwaitUntil(socket.get(), POLLOUT, end)) return Unreachable("does not answer: is its port open to this host?");
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return NotConnected(errno);
  if (error != 0) return NotConnected(error);
  return PeerConnection(std::move(socket));
}

// Calls do not block; they poll first.
PeerConnection::PeerConnection(wire::Descriptor socket) : socket_(std::move(socket)) {
  const int on = 1;
  (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void PeerConnection::LimitTo(std::optional<std::chrono::milliseconds> time) {
  limit_ = time ? std::optional(std::chrono::steady_clock::now() + *time) : std::nullopt;
}

bool PeerConnection::Await(short events, Time end) const {
  if (limit_) end = std::min(*limit_, end);
  if (std::chrono::steady_clock::now() >= end) return false;  // also while bytes keep coming
  return AwaitUntil(socket_.get(), events, end);
}

Result<void> PeerConnection::ShowTicket(const PeerTlsRules& rules, std::string_view consumer,
                                        const wire::TransferTicket& ticket) {
  tls_ = std::make_unique<PeerTls>(rules, socket_.get(), consumer, ticket);
  return ShakeHands(kPeerHandshakeTime);
}

Result<wire::TicketIdentity> PeerConnection::AwaitTicket(const PeerTlsRules& rules, const wire::TransferSecret& secret,
                                                         wire::WallSeconds now) {
  tls_ = std::make_unique<PeerTls>(rules, socket_.get(), secret, now);
  const Result<void> shaken = ShakeHands(kPeerHandshakeTime);
  if (shaken.ok()) return tls_->identity();
  if (tls_->has_refused_ticket()) return Error{ErrorCode::kUnauthenticated, "has no ticket that is valid now", "peer"};
  return shaken.error();
}

Result<void> PeerConnection::ShakeHands(std::chrono::milliseconds silence) {
  const Time end = EndOf(silence, 0);
  while (true) {
    switch (tls_->Handshake()) {
      case PeerTls::Outcome::kDone: return {};
      case PeerTls::Outcome::kFailed:
        return Error{
            ErrorCode::kUnavailable,
            "ends the handshake of TLS: a ticket that is not valid there now (are the clocks right?), or no keys",
            "ticket"};
      case PeerTls::Outcome::kWaitInput:
        if (!Await(POLLIN, end)) return Silent("is silent in the handshake");
        break;
      case PeerTls::Outcome::kWaitOutput:
        if (!Await(POLLOUT, end)) return Silent("takes nothing in the handshake");
        break;
    }
  }
}

Result<void> PeerConnection::Send(const wire::PeerMessage& message) {
  const wire::Bytes bytes = wire::Encode(message);
  return Send(EncodeHead(PeerPart::kMessage, bytes.size()), bytes);
}

Result<void> PeerConnection::Send(std::span<const std::byte> head, std::span<const std::byte> rest) {
  const Time end = EndOf(kPeerSendTime, head.size() + rest.size());
  if (tls_ == nullptr) return SendPlain(head, rest, end);
  ROOST_RETURN_IF_ERROR(SendEncrypted(head, end));
  return SendEncrypted(rest, end);
}

Result<void> PeerConnection::SendPlain(std::span<const std::byte> head, std::span<const std::byte> rest, Time end) {
  while (!head.empty() || !rest.empty()) {
    std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(head.data()), head.size()},
                               iovec{const_cast<std::byte*>(rest.data()), rest.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return Broken("the connection ended");
      if (!Await(POLLOUT, end)) return Silent("takes too little");
      continue;
    }
    const auto of_head = std::min(head.size(), static_cast<std::size_t>(sent));
    head = head.subspan(of_head);
    rest = rest.subspan(static_cast<std::size_t>(sent) - of_head);
  }
  return {};
}

Result<void> PeerConnection::SendEncrypted(std::span<const std::byte> bytes, Time end) {
  while (!bytes.empty()) {
    const PeerTls::Step step = tls_->Write(bytes);
    if (step.outcome == PeerTls::Outcome::kFailed) return Broken("the connection ended");
    if (step.outcome == PeerTls::Outcome::kDone) {
      bytes = bytes.subspan(step.bytes);
    } else if (!Await(step.outcome == PeerTls::Outcome::kWaitInput ? POLLIN : POLLOUT, end)) {
      return Silent("takes too little");
    }
  }
  return {};
}

Result<void> PeerConnection::Receive(std::span<std::byte> to, std::chrono::milliseconds silence) {
  const Time end = EndOf(silence, to.size());
  while (!to.empty()) {
    ROOST_ASSIGN_OR_RETURN(const std::size_t received, ReceiveSome(to, end));
    to = to.subspan(received);
  }
  return {};
}

Result<std::size_t> PeerConnection::ReceiveSome(std::span<std::byte> to, Time end) {
  while (true) {
    short awaited = POLLIN;
    if (tls_ != nullptr) {
      const PeerTls::Step step = tls_->Read(to);
      if (step.outcome == PeerTls::Outcome::kDone) return step.bytes;
      if (step.outcome == PeerTls::Outcome::kFailed) return Broken("the connection ended");
      if (step.outcome == PeerTls::Outcome::kWaitOutput) awaited = POLLOUT;
    } else {
      const ssize_t received = ::recv(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
      if (received > 0) return static_cast<std::size_t>(received);
      if (received < 0 && errno == EINTR) continue;
      if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return Broken("the connection ended");
    }
    if (!Await(awaited, end)) return Silent("is silent, or too slow");
  }
}

Result<PartHead> PeerConnection::ReceiveHead(std::size_t frame_bytes, std::chrono::milliseconds silence) {
  std::array<std::byte, kPartHeadBytes> head{};
  const auto first = std::span(head).first(1);
  ROOST_RETURN_IF_ERROR(Receive(first, silence));
  ROOST_RETURN_IF_ERROR(Receive(std::span(head).subspan(first.size()), kPeerSilence));
  return DecodeHead(head, frame_bytes);
}

Result<wire::PeerMessage> PeerConnection::ReceiveMessage(const PartHead& head, std::size_t most_bytes) {
  if (head.kind != PeerPart::kMessage || head.length > most_bytes) {
    return InvalidArgument("kind", "another message was awaited");
  }
  wire::Bytes bytes(head.length);
  ROOST_RETURN_IF_ERROR(Receive(bytes, kPeerSilence));
  ROOST_ASSIGN_OR_RETURN(std::optional<wire::PeerMessage> message, wire::DecodePeerMessage(bytes));
  if (!message.has_value()) return InvalidArgument("kind", "a message of an unknown kind");
  return *std::move(message);
}

bool PeerConnection::HasInput() const {
  if (tls_ != nullptr && tls_->HasInput()) return true;
  pollfd poll{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, 0) > 0;
}

void PeerConnection::Shut() const { (void)::shutdown(socket_.get(), SHUT_RDWR); }

void PeerConnection::ShutInput() const { (void)::shutdown(socket_.get(), SHUT_RD); }

}  // namespace roost::worker
