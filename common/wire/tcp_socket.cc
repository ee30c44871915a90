#include "common/wire/gate.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace roost::wire {
namespace {

constexpr int kBacklog = 1024;

void SetOption(int socket, int level, int name, int value) {
  // An option that can not be set is skipped: the connection works without it.
  static_cast<void>(setsockopt(socket, level, name, &value, sizeof(value)));
}

Result<Address> Resolve(const Endpoint& endpoint) {
  const std::string& name = endpoint.host;
  const std::string host = name == "localhost" ? "127.0.0.1" : (name == "*" ? "0.0.0.0" : name);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), fmt::to_string(endpoint.port).c_str(), &hints, &found) != 0) {
    return InvalidArgument(endpoint.ToString(), "'{}' is not a numeric address", name);
  }
  Address address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.bytes, found->ai_addr, address.size);
  freeaddrinfo(found);
  return address;
}

Error CanNotBind(const Endpoint& endpoint) {
  return {ErrorCode::kUnavailable, fmt::format("can not be bound: {}", std::strerror(errno)), endpoint.ToString()};
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}
void Descriptor::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Result<Descriptor> Listen(const Endpoint& endpoint) {
  ROOST_ASSIGN_OR_RETURN(Address address, Resolve(endpoint));
  Descriptor listener(socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.is_open()) return CanNotBind(endpoint);
  SetOption(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener.get(), address.get(), address.size) != 0) return CanNotBind(endpoint);
  if (listen(listener.get(), kBacklog) != 0) return CanNotBind(endpoint);
  return listener;
}

Endpoint BoundTo(const Descriptor& listener, const Endpoint& wanted) {
  Address address;
  address.size = sizeof(address.bytes);
  ROOST_CHECK(getsockname(listener.get(), address.get(), &address.size) == 0, "getsockname: {}", std::strerror(errno));
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&address.bytes);
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  const in_port_t port = address.get()->sa_family == AF_INET6 ? v6->sin6_port : v4->sin_port;
  return {wanted.host == "*" ? "0.0.0.0" : (wanted.host == "localhost" ? "127.0.0.1" : wanted.host), ntohs(port)};
}

std::string TextOf(const Address& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const auto* const name = reinterpret_cast<const sockaddr*>(&address.bytes);
  const int rc = getnameinfo(name, address.size, host.data(), host.size(), port.data(), port.size(),
                             NI_NUMERICHOST | NI_NUMERICSERV);
  return rc == 0 ? fmt::format("{}:{}", host.data(), port.data()) : "unknown";
}

std::string SourceOf(const Address& address) {
  const auto bytes = [](const void* data, std::size_t size) {
    return std::string(static_cast<const char*>(data), size);
  };
  if (address.bytes.ss_family != AF_INET6) {
    return bytes(&reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_addr, sizeof(in_addr));
  }
  const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(&address.bytes)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&host)) return bytes(&host.s6_addr[12], sizeof(in_addr));
  return bytes(&host, sizeof(host) / 2);
}

Descriptor ConnectTo(const std::string& to, const std::string& from) {
  const Result<Endpoint> endpoint = ParseEndpoint(to);
  if (!endpoint.ok()) return {};
  Result<Address> address = Resolve(*endpoint);
  if (!address.ok()) return {};
  Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.is_open()) return {};
  if (!from.empty()) {
    Result<Address> own = Resolve({from, 0});
    SetOption(made.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (!own.ok() || bind(made.get(), own->get(), own->size) != 0) return {};
  }
  if (connect(made.get(), address->get(), address->size) != 0) return {};
  SetOption(made.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return made;
}

void SetUpConnection(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 20);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

ssize_t ReadNow(int socket, std::span<char> buffer) { return recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT); }

ssize_t WriteNow(int socket, std::span<const char> bytes) {
  const ssize_t written = send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return written < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : written;
}

}  // namespace roost::wire
