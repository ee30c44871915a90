// What stands before a router's ZeroMQ socket: takes the TCP connections of peers, reads along what they send
// (zmtp_watch.h), and passes it on to the socket, which listens on a port of loopback.
//
//   peer ──TCP──► ZmtpWatch ──► loopback ──► ZeroMQ
//        ◄─────────────────
//
// So what libzmq would keep without a bound never reaches it, nor an identity that a peer chose. Who can not be passed
// on is cut off: a message in several parts, a large frame that finds no memory or does not end, one connection too
// many. What one side does not take holds back the other, so a connection keeps at most one read in each direction.
//
// A connection has Handshakes::kTime to get through its handshake, and few may be about it at a time (handshakes.h).
// With a guard (link_guard.h) peers must speak CURVE, and each connection reaches ZeroMQ from a loopback address of its
// own, by which the guard knows it: ZeroMQ says which key it has, and the gate cuts it when that key is withdrawn.
//
// Threads: one of its own for all connections; StopListening from any. An instance outlives the ZeroMQ context of the
// socket behind it, so that what that had to say when it was closed still gets out.
#pragma once

#include <sys/epoll.h>

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

// A file descriptor that is closed with its owner.
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

class Gate {
 public:
  // Twice as many as a router takes workers: connections that are broken are noticed late.
  static constexpr std::size_t kMaxConnections = 2048;
  static constexpr std::size_t kReadBytes = std::size_t{64} << 10U;

  // Listens on `outer` (a numeric host, `localhost` or `*`; port 0: a free one). `inner` is where the
  // socket behind listens: loopback over TCP, because libzmq aborts when it has no descriptor for a unix socket.
  // `frames` is the budget of large frames; null: without a bound. `guard` knows the keys; null: peers have none.
  // kInvalidArgument: no numeric host. kUnavailable: can not be bound.
  [[nodiscard]] static Result<std::shared_ptr<Gate>> Open(const Endpoint& outer, const std::string& inner,
                                                          std::shared_ptr<ByteBudget> frames,
                                                          std::shared_ptr<LinkGuard> guard = nullptr);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  // Waits until what is under way has left, at most for kLinger.
  ~Gate();

  // What was bound, with the real port.
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  // The port is free when this returns. Connections go on until their ends close.
  void StopListening();

 private:
  struct Connection;
  // One of a connection's two sockets.
  struct End {
    Descriptor socket;
    Connection* connection = nullptr;
    std::string pending;        // to be written to the socket
    bool has_ended = false;     // nothing comes from the socket any more
    std::uint32_t watched = 0;  // events
  };

  Gate(Descriptor listener, Endpoint endpoint, std::string inner, std::shared_ptr<ByteBudget> frames,
       std::shared_ptr<LinkGuard> guard);

  void Run();
  // A stop has been asked for, and all has left or had its time.
  [[nodiscard]] bool IsDone(Instant now);
  // Several times a second.
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
  void Drop(Connection& connection);
  // Lets epoll tell what the end can make use of now.
  void Watch(End& end);
  void WatchListener();
  // A side of a connection has ended.
  void NoteEnd(const End& from);
  // Drops it for what it sent.
  void Refuse(Connection& connection, const Error& error);
  void TellDropped(const Connection& connection, const Error& error);

  const SteadyClock clock_;
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

  // The thread's.
  Descriptor listener_;
  bool listener_pauses_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t next_number_ = 0;  // of connections; says which loopback address is theirs
  Handshakes handshakes_;          // by number
  std::vector<char> buffer_;
  Instant now_{};
  Instant looked_at_{};
  std::optional<Instant> stop_at_;
  std::optional<Instant> told_at_;

  std::thread thread_;
};

}  // namespace roost::wire
