// Stands before a router's ZeroMQ socket: accepts the TCP connections of peers, parses what they send (zmtp_watch.h),
// and forwards it to the ZeroMQ socket, which listens on a loopback port.
//
//   peer ──TCP──► ZmtpWatch ──► loopback ──► ZeroMQ
//        ◄─────────────────
//
// So ZeroMQ never sees an identity that a peer chose, nor anything that it would keep without a limit. The gate cuts
// off a peer that sends a message in several parts, or a large frame that does not fit into the budget or does not end,
// and any connection over the limit. When one side does not read, the gate stops reading from the other, so a
// connection buffers at most one read in each direction.
//
// Bytes that come in quick succession are forwarded together, at most 1 ms late, for fewer wake-ups. Parts of a message
// that is too large for one read do not wait for each other.
//
// A connection has Handshakes::kTime for its handshake, and the number of handshakes at a time is limited
// (handshakes.h). With a guard (link_guard.h) peers must speak CURVE, and each connection reaches ZeroMQ from a
// loopback address of its own, by which the guard knows it: ZeroMQ asks whether its key may come in, and the gate cuts
// it off when that key is withdrawn.
//
// Threads: one thread of its own serves all connections; StopListening may be called from any. A Gate must outlive the
// ZeroMQ context of the inner socket, so that what that socket still sends while it closes gets out.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/endpoint.h"
#include "common/wire/handshakes.h"
#include "common/wire/link_guard.h"

namespace roost::wire {

// The TCP sockets of the gate: a descriptor with an owner, addresses, listening, connecting, reading and writing.

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

class Gate {
 public:
  // Twice as many as the workers that a router takes, because broken connections are noticed late.
  static constexpr std::size_t kMaxConnections = 2048;
  // A quarter of the descriptors that the process may open, if kMaxConnections need no less.
  [[nodiscard]] static constexpr std::size_t DescriptorsOf(std::size_t limit) {
    return std::min(limit / 4, kMaxConnections * kDescriptors);
  }
  static constexpr std::size_t kReadBytes = std::size_t{64} << 10U;

  // Listens on `outer` (a numeric host, `localhost` or `*`; port 0: a free one). `inner` is the address of the ZeroMQ
  // socket: TCP on loopback, because libzmq aborts when it has no descriptor for a unix socket. `frames` is the budget
  // of large frames; null: no limit. `guard` knows the keys; null: peers have none. kInvalidArgument: no numeric host.
  // kUnavailable: the address can not be bound.
  [[nodiscard]] static Result<std::shared_ptr<Gate>> Open(const Endpoint& outer, const std::string& inner,
                                                          std::shared_ptr<ByteBudget> frames,
                                                          std::shared_ptr<LinkGuard> guard = nullptr);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  // Waits until everything under way is sent, at most for kLinger.
  ~Gate();

  // The bound address, with the real port.
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  // The port is free when this returns. Connections go on until their ends close.
  void StopListening();

 private:
  struct Connection;
  // One of a connection's two sockets.
  struct End {
    Descriptor socket;
    Connection* connection = nullptr;
    std::string pending;        // bytes still to be written to the socket
    bool has_ended = false;     // the socket sends nothing more
    std::uint32_t watched = 0;  // the events that epoll watches
  };

  Gate(Descriptor listener, Endpoint endpoint, std::string inner, std::shared_ptr<ByteBudget> frames,
       std::shared_ptr<LinkGuard> guard);

  // A connection takes three: the peer's socket, and both ends of the one to ZeroMQ.
  static constexpr std::size_t kDescriptors = 3;

  void Run();
  // Lets more come, unless the bell rings.
  void Gather() const;
  // A stop was requested, and all connections have ended or their time is over.
  [[nodiscard]] bool IsDone(Instant now);
  // Runs several times a second.
  void Look(Instant now);
  void OnEvent(const epoll_event& event);
  void Accept();
  void Connect(Descriptor outer, const std::string& peer, std::string source);
  void PauseListening();
  // Is the handshake over now? Then the connection leaves those that wait for that.
  void LookAtHandshake(Connection& connection);
  // Ends one whose handshake is not over.
  void EndHandshake(std::optional<std::uint64_t> number, const char* why);
  void Serve(End& end, std::uint32_t events);
  void Read(End& from);
  // Writes what it can, and keeps the rest.
  void Write(End& to, std::span<const char> bytes);
  void OnBroken(const End& end);
  void Drop(Connection& connection);
  // Sets the events that epoll watches to those that the end can use now.
  void Watch(End& end);
  void WatchListener();
  // A side of a connection has ended.
  void NoteEnd(const End& from);
  // Drops it for what it sent.
  void Refuse(Connection& connection, const Error& error);
  void TellDropped(const Connection& connection, const Error& error);

  const SteadyClock clock_;
  const std::size_t max_connections_;
  const Endpoint endpoint_;
  const std::string inner_;
  const std::shared_ptr<ByteBudget> frames_;
  const std::shared_ptr<LinkGuard> guard_;
  const Descriptor epoll_;
  const Descriptor bell_;

  std::atomic<bool> listening_ = true;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable closed_;
  bool listener_is_open_ = true;  // guarded by mutex_

  // Used by the thread only.
  Descriptor listener_;
  bool listener_pauses_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t next_number_ = 0;  // of connections; says which loopback address is theirs
  Handshakes handshakes_;          // by number
  std::vector<char> buffer_;
  bool leaves_more_ = false;  // this round: there is something to do at once, so nothing is waited for
  Instant now_{};
  Instant looked_at_{};
  std::optional<Instant> stop_at_;
  std::optional<Instant> told_at_;

  std::thread thread_;
};

}  // namespace roost::wire
