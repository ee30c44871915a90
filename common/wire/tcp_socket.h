// The TCP sockets of the gate: a descriptor with an owner, addresses, listening, connecting, reading and writing.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <span>
#include <string>

#include "common/base/result.h"
#include "common/wire/endpoint.h"

namespace roost::wire {

// A file descriptor that its owner closes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  void Close();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

// A listening socket, which does not block. kInvalidArgument: no numeric host (`localhost` and `*` are known too).
// kUnavailable: the address can not be bound.
[[nodiscard]] Result<Descriptor> Listen(const Endpoint& endpoint);
// The address that `listener` is bound to, with the real port.
[[nodiscard]] Endpoint BoundTo(const Descriptor& listener, const Endpoint& wanted);

// "10.0.0.5:41234".
[[nodiscard]] std::string TextOf(const Address& address);
// The unit that handshakes are counted by: a host, or a network of IPv6, in which a host has as many addresses as it
// likes.
[[nodiscard]] std::string SourceOf(const Address& address);

// Connects to `to` ("tcp://127.0.0.1:5000", IPv4), from the host `from`, or any when it is empty. Returns a closed
// descriptor when no process listens there, or the process has no descriptors left.
[[nodiscard]] Descriptor ConnectTo(const std::string& to, const std::string& from);
// Sets the options of a connection with a peer. TCP notices within two minutes that a host has disappeared. The
// protocol's own pings notice a worker that is silent.
void SetUpConnection(int socket);

// These two do not wait. The sockets stay blocking; instead each call passes MSG_DONTWAIT.
// Returns what recv returns.
[[nodiscard]] ssize_t ReadNow(int socket, std::span<char> buffer);
// Returns how many bytes were written; 0 is not an error. Below 0: the socket is broken.
[[nodiscard]] ssize_t WriteNow(int socket, std::span<const char> bytes);

}  // namespace roost::wire
