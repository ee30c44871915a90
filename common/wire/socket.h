// The two ends of the wire: frames over ZeroMQ. A router binds one RouterSocket; a worker connects one DealerSocket to
// every router address. Nothing is dropped silently, and no send or receive waits:
//
//   ROUTER_MANDATORY   a send to an unknown or full peer fails with a SendOutcome
//   IMMEDIATE          a dealer queues only on an open connection, not until a router appears
//   LINGER             what was sent before closing has kLinger to leave, so that a Bye arrives; the rest is dropped
//   high-water marks   kHighWaterMark messages each way and peer (kReceiveMark on the router's side); then sends fail
//
// A connection has a random identity from ZeroMQ, which means nothing: the peer says itself who it is. Two options stay
// off. ROUTER_HANDOVER: together with heartbeats it aborts the process when two connections of one identity overlap
// (`!_io_error`, libzmq 4.3.4 and 4.3.5), and any stranger can choose an identity. Heartbeats: the messages of the
// protocol show whether a peer is alive; a side that misses them makes a new socket.
//
// With keys (link_keys.h) the wire is encrypted, and both ends prove who they are (CURVE). A dealer accepts the router
// that has the given public key and no other; a router accepts peers whose keys its LinkGuard knows. Without keys the
// wire is neither encrypted nor authenticated: a RouterSocket binds to loopback only, unless given
// InsecureBind::kAllow. Memory for strangers is limited all the same: a Gate (gate.h) stands before ZeroMQ and cuts off
// messages in several parts, and large frames that do not fit into a budget. ZeroMQ itself keeps at most kReceiveMark
// whole frames per connection that the reader has not taken.
//
// Threads: a socket belongs to one thread at a time; Context and Waker are shared. All sockets are gone before their
// Context. Errors of ZeroMQ become Results and outcomes here; whatever else it throws is a bug and stops the process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/byte_budget.h"
#include "common/base/result.h"
#include "common/wire/codec.h"
#include "common/wire/link_guard.h"
#include "common/wire/link_keys.h"

namespace roost::wire {

inline constexpr std::uint16_t kDefaultLinkPort = 7001;
inline constexpr int kHighWaterMark = 4096;
inline constexpr int kReceiveMark = 64;  // small, because a router reads all the time; TCP holds back the rest
inline constexpr std::chrono::milliseconds kLinger{500};

// ZeroMQ's threads and sockets of one daemon.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  struct State;
  [[nodiscard]] State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

enum class [[nodiscard]] SendOutcome{
    kSent,         // handed to ZeroMQ; it may still be lost with the connection
    kFull,         // the peer does not take its messages fast enough, or (dealer) no connection stands
    kUnreachable,  // router: the connection does not exist (any more)
};

enum class InsecureBind { kRefuse, kAllow };

// A router's end of a protected wire.
struct ServerKeys {
  LinkKeyPair own;
  std::shared_ptr<LinkGuard> guard;
};

// A worker's.
struct ClientKeys {
  LinkKeyPair own;
  std::string router_public_key;
};

struct Received {
  // The identity of the connection that it came by; arbitrary bytes. With keys it begins with the peer's key, so that
  // no peer can speak under an identity that another one has.
  std::string identity;
  Bytes frame;
  std::string public_key;  // of the peer; empty without keys
};

// The reason why a dealer could not connect.
enum class HandshakeFailure {
  kRefused,    // the router does not know the dealer's key
  kMechanism,  // one of them has keys and the other one has none
  kCut,        // the router ended it without a word: it has another key, or is gone
};

// Something that a poll waits on: a RouterSocket or a DealerSocket.
class Socket {
 public:
  Socket(Socket&&) noexcept;
  Socket& operator=(Socket&&) noexcept;
  ~Socket();

  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 protected:
  explicit Socket(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class RouterSocket : public Socket {
 public:
  // `endpoint` is tcp://address:port with a numeric address (IPv6 in brackets), `localhost` or `*`; port 0 takes a free
  // one. kInvalidArgument: not an endpoint, or not loopback and not allowed. kUnavailable: the address can not be
  // bound. Large frames take their bytes from `frames` while they arrive; null: no limit. With `keys` any address is
  // allowed. A context has at most one socket with keys.
  [[nodiscard]] static Result<RouterSocket> Bind(Context& context, const std::string& endpoint, InsecureBind insecure,
                                                 std::shared_ptr<ByteBudget> frames = nullptr,
                                                 const std::optional<ServerKeys>& keys = std::nullopt);

  // The bound address, with the real port. DealerSocket::Connect on this machine can use it (unless bound to `*`).
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  // Nothing when no whole message is there. Never waits. Messages other than [identity, frame] are skipped.
  [[nodiscard]] std::optional<Received> TryReceive();

  // Never waits. The frame is not copied. `held` is released once ZeroMQ no longer needs the frame: it was sent, or
  // dropped with its connection.
  SendOutcome Send(std::string_view identity, Bytes frame, std::shared_ptr<const void> held = nullptr);

 private:
  RouterSocket(std::unique_ptr<State> state, std::string endpoint, std::size_t key_bytes);

  std::string endpoint_;
  std::size_t key_bytes_;  // at the front of an identity
};

class DealerSocket : public Socket {
 public:
  // Connects in the background, and reconnects; not after every failed handshake, so make another socket then.
  // kInvalidArgument: not an endpoint.
  [[nodiscard]] static Result<DealerSocket> Connect(Context& context, const std::string& endpoint,
                                                    const std::optional<ClientKeys>& keys = std::nullopt);

  [[nodiscard]] std::optional<Bytes> TryReceive();
  SendOutcome Send(std::span<const std::byte> frame);

  // The last handshake that failed since the last call.
  [[nodiscard]] std::optional<HandshakeFailure> TakeHandshakeFailure();

 private:
  explicit DealerSocket(std::unique_ptr<State> state);
  void NoteHandshakeFailures();
};

// Wakes a thread that waits on sockets.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // From any thread. A wake-up before the wait ends the next wait; several count as one.
  void Wake() const;

 private:
  friend void WaitForMessages(std::span<const Socket* const> sockets, const Waker& waker,
                              std::chrono::milliseconds timeout);
  int event_fd_;
};

// Waits until one of `sockets` has something to receive, the waker was used, or the time is over. If a message is still
// unread, the wait returns at once. It may also end early.
void WaitForMessages(std::span<const Socket* const> sockets, const Waker& waker, std::chrono::milliseconds timeout);

}  // namespace roost::wire
