#include "common/wire/socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/base/check.h"
#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "common/wire/zap.h"
#include "common/wire/zmtp_watch.h"

namespace roost::wire {

struct Context::State {
  // From now on the guard says who may come in. kUnavailable: another one does already.
  Result<void> StartZap(const std::shared_ptr<LinkGuard>& guard) {
    const std::lock_guard lock(mutex);
    const auto admit = [guard](const std::string& address, const std::string& key) {
      return guard->Admit(address, key);
    };
    ROOST_ASSIGN_OR_RETURN(zap, ZapHandler::Start(context, admit));
    return {};
  }
  void Keep(std::shared_ptr<Gate> gate) {
    const std::lock_guard lock(mutex);
    gates.push_back(std::move(gate));
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<Gate>> gates;  // guarded by mutex; kept, because ZeroMQ may still send through them
  std::atomic<std::uint64_t> monitors = 0;   // made so far; each has an address of its own
  zmq::context_t context{1};
  std::unique_ptr<ZapHandler> zap;  // of the socket with keys; its own socket is gone before the context
};

struct Socket::State {
  explicit State(zmq::socket_t made) : socket(std::move(made)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (gate != nullptr) gate->StopListening();
    // ZeroMQ's thread would wait for ever to tell a monitor that is not read.
    if (monitor.handle() != nullptr) zmq_socket_monitor(socket.handle(), nullptr, 0);
  }

  zmq::socket_t socket;
  std::shared_ptr<Gate> gate;  // of a router
  zmq::socket_t monitor;       // of a dealer
  std::optional<HandshakeFailure> failure;
};

namespace {

// Connections that the gate has accepted and ZeroMQ has not.
constexpr int kInnerBacklog = 1024;

void SetCommonOptions(zmq::socket_t& socket, Mechanism mechanism) {
  socket.set(zmq::sockopt::linger, static_cast<int>(kLinger.count()));
  socket.set(zmq::sockopt::sndhwm, kHighWaterMark);
  const std::size_t box_bytes = mechanism == Mechanism::kCurve ? kCurveBoxBytes : 0;
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(WireLimits::kMaxFrameBytes + box_bytes));
}

void SetKeys(zmq::socket_t& socket, const ServerKeys& keys) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, keys.own.secret_key);
  socket.set(zmq::sockopt::zap_domain, std::string("roost"));
}

void SetKeys(zmq::socket_t& socket, const ClientKeys& keys) {
  socket.set(zmq::sockopt::curve_serverkey, keys.router_public_key);
  socket.set(zmq::sockopt::curve_publickey, keys.own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.own.secret_key);
}

// ZeroMQ tells `monitor` of handshakes that fail on `socket`.
Result<zmq::socket_t> Monitor(zmq::context_t& context, zmq::socket_t& socket, std::uint64_t number) {
  constexpr int kEvents =
      ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  const std::string address = fmt::format("inproc://handshakes-{}", number);
  if (zmq_socket_monitor(socket.handle(), address.c_str(), kEvents) != 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("can not be watched: {}", zmq_strerror(zmq_errno())), "socket"};
  }
  zmq::socket_t monitor(context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.connect(address);
  return monitor;
}

// Reads the first part of an event: 16 bits for its kind, 32 bits of detail.
HandshakeFailure FailureOf(const zmq::message_t& event) {
  std::uint16_t kind = 0;
  std::uint32_t detail = 0;
  ROOST_CHECK(event.size() == sizeof(kind) + sizeof(detail));
  std::memcpy(&kind, event.data(), sizeof(kind));
  std::memcpy(&detail, static_cast<const char*>(event.data()) + sizeof(kind), sizeof(detail));
  if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return HandshakeFailure::kRefused;
  const bool is_mechanism =
      kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && detail == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
  return is_mechanism ? HandshakeFailure::kMechanism : HandshakeFailure::kCut;
}

void SetReconnectPauses(zmq::socket_t& socket) {
  constexpr int kFirstPauseMs = 100;
  constexpr int kLongestPauseMs = 2000;
  socket.set(zmq::sockopt::reconnect_ivl, kFirstPauseMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kLongestPauseMs);
}

// Receives one part of a message. False when none is there now.
bool ReceivePart(zmq::socket_t& socket, zmq::message_t& part) {
  while (true) {
    try {
      return socket.recv(part, zmq::recv_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      ROOST_CHECK(error.num() == EINTR, "zmq recv: {}", error.what());
    }
  }
}

// A part that could not be sent is unchanged.
SendOutcome SendPart(zmq::socket_t& socket, zmq::message_t& part, zmq::send_flags more) {
  while (true) {
    try {
      const bool sent = socket.send(part, zmq::send_flags::dontwait | more).has_value();
      return sent ? SendOutcome::kSent : SendOutcome::kFull;
    } catch (const zmq::error_t& error) {
      if (error.num() == EHOSTUNREACH) return SendOutcome::kUnreachable;
      ROOST_CHECK(error.num() == EINTR, "zmq send: {}", error.what());
    }
  }
}

// The objects that must stay alive as long as ZeroMQ holds a frame.
struct HeldFrame {
  Bytes bytes;
  std::shared_ptr<const void> held;
  // Orders our writes here before the free on ZeroMQ's thread. ZeroMQ orders them too, but ThreadSanitizer does not see
  // it.
  std::atomic<bool> given = false;
};

void FreeHeldFrame(void* /*bytes*/, void* hint) {
  const std::unique_ptr<HeldFrame> frame(static_cast<HeldFrame*>(hint));
  static_cast<void>(frame->given.load(std::memory_order_acquire));
}

// ZeroMQ may release the frame on its own thread.
zmq::message_t WithoutCopy(Bytes frame, std::shared_ptr<const void> held) {
  auto owned = std::make_unique<HeldFrame>();
  owned->bytes = std::move(frame);
  owned->held = std::move(held);
  zmq::message_t part(owned->bytes.data(), owned->bytes.size(), FreeHeldFrame, owned.get());
  owned->given.store(true, std::memory_order_release);
  static_cast<void>(owned.release());
  return part;
}

// The key that the message's sender has proven; empty without keys, and where ZeroMQ did not check one.
std::string KeyOf(zmq::message_t& part) {
  const char* const key = zmq_msg_gets(part.handle(), "User-Id");
  return key == nullptr ? "" : key;
}

Bytes ToBytes(const zmq::message_t& part) {
  Bytes bytes(part.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), part.data(), part.size());
  return bytes;
}

// True also when a signal interrupts the question.
bool MayHaveInput(zmq::socket_t& socket) {
  int events = 0;
  std::size_t size = sizeof(events);
  const int rc = zmq_getsockopt(socket.handle(), ZMQ_EVENTS, &events, &size);
  ROOST_CHECK(rc == 0 || errno == EINTR, "zmq_getsockopt: {}", zmq_strerror(errno));
  return rc != 0 || (events & ZMQ_POLLIN) != 0;
}

// Drops the rest of a message with too many parts. All parts of a message arrive together, so this never waits.
void SkipParts(zmq::socket_t& socket, zmq::message_t& part) {
  while (part.more() && ReceivePart(socket, part)) {
  }
}

}  // namespace

Context::Context() : state_(std::make_unique<State>()) {}
Context::~Context() = default;

Socket::Socket(std::unique_ptr<State> state) : state_(std::move(state)) {}
Socket::Socket(Socket&&) noexcept = default;
Socket& Socket::operator=(Socket&&) noexcept = default;
Socket::~Socket() = default;

// ---- router ----

RouterSocket::RouterSocket(std::unique_ptr<State> state, std::string endpoint, std::size_t key_bytes)
    : Socket(std::move(state)), endpoint_(std::move(endpoint)), key_bytes_(key_bytes) {}

Result<RouterSocket> RouterSocket::Bind(Context& context, const std::string& endpoint, InsecureBind insecure,
                                        std::shared_ptr<ByteBudget> frames, const std::optional<ServerKeys>& keys) {
  ROOST_ASSIGN_OR_RETURN(const Endpoint parsed, ParseEndpoint(endpoint));
  if (!parsed.IsLoopback() && insecure == InsecureBind::kRefuse && !keys) {
    return InvalidArgument(endpoint,
                           "without keys the wire is open to anyone, so it binds to loopback only: --link-secret-key "
                           "and --link-peers protect it, --insecure-bind allows it");
  }
  const std::shared_ptr<LinkGuard> guard = keys ? keys->guard : nullptr;
  try {
    if (keys) ROOST_RETURN_IF_ERROR(context.state().StartZap(guard));
    auto state = std::make_unique<State>(zmq::socket_t(context.state().context, zmq::socket_type::router));
    SetCommonOptions(state->socket, keys ? Mechanism::kCurve : Mechanism::kNull);
    if (keys) SetKeys(state->socket, *keys);
    state->socket.set(zmq::sockopt::router_mandatory, true);
    state->socket.set(zmq::sockopt::rcvhwm, kReceiveMark);
    state->socket.set(zmq::sockopt::backlog, kInnerBacklog);
    state->socket.bind("tcp://127.0.0.1:0");
    const std::string inner = state->socket.get(zmq::sockopt::last_endpoint);
    ROOST_ASSIGN_OR_RETURN(state->gate, Gate::Open(parsed, inner, std::move(frames), guard));
    context.state().Keep(state->gate);
    std::string bound = state->gate->endpoint().ToString();
    return RouterSocket(std::move(state), std::move(bound), keys ? kLinkKeyBytes : 0);
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("can not be bound: {}", error.what()), endpoint};
  }
}

std::optional<Received> RouterSocket::TryReceive() {
  zmq::message_t identity;
  zmq::message_t frame;
  while (ReceivePart(state_->socket, identity)) {
    if (!identity.more() || !ReceivePart(state_->socket, frame)) continue;
    if (frame.more()) {
      SkipParts(state_->socket, frame);
      continue;
    }
    std::string key = KeyOf(frame);
    if (key.size() != key_bytes_) continue;
    return Received{key + identity.to_string(), ToBytes(frame), std::move(key)};
  }
  return std::nullopt;
}

SendOutcome RouterSocket::Send(std::string_view identity, Bytes frame, std::shared_ptr<const void> held) {
  identity.remove_prefix(std::min(key_bytes_, identity.size()));
  zmq::message_t address(identity.data(), identity.size());
  // Only the first part can fail: once a peer has taken it, the rest of the message is taken too.
  const SendOutcome outcome = SendPart(state_->socket, address, zmq::send_flags::sndmore);
  if (outcome != SendOutcome::kSent) return outcome;
  zmq::message_t body = WithoutCopy(std::move(frame), std::move(held));
  return SendPart(state_->socket, body, zmq::send_flags::none);
}

// ---- dealer ----

DealerSocket::DealerSocket(std::unique_ptr<State> state) : Socket(std::move(state)) {}

Result<DealerSocket> DealerSocket::Connect(Context& context, const std::string& endpoint,
                                           const std::optional<ClientKeys>& keys) {
  ROOST_ASSIGN_OR_RETURN(const Endpoint parsed, ParseEndpoint(endpoint));
  try {
    auto state = std::make_unique<State>(zmq::socket_t(context.state().context, zmq::socket_type::dealer));
    SetCommonOptions(state->socket, keys ? Mechanism::kCurve : Mechanism::kNull);
    if (keys) SetKeys(state->socket, *keys);
    // Only for IPv6 endpoints: with this option, ZeroMQ spells IPv4 addresses as IPv6 ones.
    state->socket.set(zmq::sockopt::ipv6, parsed.IsV6());
    SetReconnectPauses(state->socket);
    state->socket.set(zmq::sockopt::immediate, true);
    state->socket.set(zmq::sockopt::rcvhwm, kHighWaterMark);
    ROOST_ASSIGN_OR_RETURN(state->monitor, Monitor(context.state().context, state->socket, ++context.state().monitors));
    state->socket.connect(endpoint);
    return DealerSocket(std::move(state));
  } catch (const zmq::error_t& error) {
    return InvalidArgument(endpoint, "can not be connected: {}", error.what());
  }
}

std::optional<Bytes> DealerSocket::TryReceive() {
  zmq::message_t frame;
  while (ReceivePart(state_->socket, frame)) {
    if (frame.more()) {
      SkipParts(state_->socket, frame);
      continue;
    }
    return ToBytes(frame);
  }
  return std::nullopt;
}

SendOutcome DealerSocket::Send(std::span<const std::byte> frame) {
  zmq::message_t part(frame.data(), frame.size());
  const SendOutcome outcome = SendPart(state_->socket, part, zmq::send_flags::none);
  if (outcome != SendOutcome::kSent) NoteHandshakeFailures();
  return outcome;
}

// Called often while no connection stands, so that no event waits for long: a monitor that is full stops ZeroMQ.
void DealerSocket::NoteHandshakeFailures() {
  zmq::message_t part;
  while (ReceivePart(state_->monitor, part)) {
    state_->failure = FailureOf(part);
    SkipParts(state_->monitor, part);
  }
}

std::optional<HandshakeFailure> DealerSocket::TakeHandshakeFailure() {
  NoteHandshakeFailures();
  return std::exchange(state_->failure, std::nullopt);
}

// ---- waiting ----

Waker::Waker() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  ROOST_CHECK(event_fd_ >= 0, "eventfd: {}", std::strerror(errno));
}
Waker::~Waker() { close(event_fd_); }

void Waker::Wake() const {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the wake-up is pending already.
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof(one));
}

// ZeroMQ's descriptor becomes ready when something has happened to a socket, until the socket is asked what. So it is
// asked before each wait. zmq_poll would ask again afterwards, and poll twice.
void WaitForMessages(std::span<const Socket* const> sockets, const Waker& waker, std::chrono::milliseconds timeout) {
  std::vector<pollfd> items{{.fd = waker.event_fd_, .events = POLLIN, .revents = 0}};
  items.reserve(sockets.size() + 1);
  for (const Socket* socket : sockets) {
    zmq::socket_t& waiting = socket->state().socket;
    if (MayHaveInput(waiting)) return;
    items.push_back({.fd = waiting.get(zmq::sockopt::fd), .events = POLLIN, .revents = 0});
  }
  const int rc = poll(items.data(), items.size(), static_cast<int>(timeout.count()));
  // An interrupted wait only returns early.
  ROOST_CHECK(rc >= 0 || errno == EINTR, "poll: {}", std::strerror(errno));
  if (items.front().revents == 0) return;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(waker.event_fd_, &rings, sizeof(rings));
}

}  // namespace roost::wire
