#include "worker/transfer/peer_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace roost::worker {
namespace {

Error Broken(const char* what) { return Error{ErrorCode::kUnavailable, what, "peer"}; }

// Waits for `events`. False when they do not come in time.
bool Await(int socket, short events, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
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
  if (!socket.is_open()) return Broken("no socket is left");
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) return Broken("refused");
  if (!Await(socket.get(), POLLOUT, kPeerConnectTime)) return Broken("does not answer");
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return Broken("refused");
  return PeerConnection(std::move(socket));
}

// Calls do not block; they poll first.
PeerConnection::PeerConnection(wire::Descriptor socket) : socket_(std::move(socket)) {
  const int on = 1;
  (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Result<void> PeerConnection::Send(std::span<const std::byte> bytes) { return Send(bytes, {}); }

Result<void> PeerConnection::Send(std::span<const std::byte> head, std::span<const std::byte> rest) {
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
      if (!Await(socket_.get(), POLLOUT, kPeerSendTime)) return Broken("takes nothing");
      continue;
    }
    const auto of_head = std::min(head.size(), static_cast<std::size_t>(sent));
    head = head.subspan(of_head);
    rest = rest.subspan(static_cast<std::size_t>(sent) - of_head);
  }
  return {};
}

Result<void> PeerConnection::Receive(std::span<std::byte> to, std::chrono::milliseconds silence) {
  while (!to.empty()) {
    const ssize_t received = ::recv(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (received > 0) {
      to = to.subspan(static_cast<std::size_t>(received));
      continue;
    }
    if (received == 0) return Broken("the connection ended");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Broken("the connection ended");
    if (!Await(socket_.get(), POLLIN, silence)) return Broken("is silent");
  }
  return {};
}

Result<MessageHead> PeerConnection::ReceiveHead(std::size_t frame_bytes, std::chrono::milliseconds silence) {
  std::array<std::byte, kMessageHeadBytes> head{};
  ROOST_RETURN_IF_ERROR(Receive(head, silence));
  return DecodeHead(head, frame_bytes);
}

Result<MessageBytes> PeerConnection::ReceivePayload(const MessageHead& head) {
  MessageBytes payload(head.length);
  ROOST_RETURN_IF_ERROR(Receive(payload, kPeerSilence));
  return payload;
}

bool PeerConnection::HasInput() const { return Await(socket_.get(), POLLIN, std::chrono::milliseconds(0)); }

void PeerConnection::Shut() const { (void)::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace roost::worker
