#include "common/wire/gate.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/check.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "common/wire/zmtp_watch.h"

namespace roost::wire {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kTellInterval{10};
// While messages come more often than kBusyPause, the gate lets them gather for kGather, so that one wake-up of it and
// of each thread behind it serves several. Wake-ups are most of what a token costs the router.
constexpr std::chrono::microseconds kBusyPause{300};
constexpr std::chrono::microseconds kGather{1000};

// The loopback address that a connection reaches ZeroMQ from: one of the four million in 127.64.0.0/10.
std::string InnerAddressOf(std::uint64_t number) {
  return fmt::format("127.{}.{}.{}", 64 + (number >> 16U) % 64, (number >> 8U) % 256, number % 256);
}

}  // namespace

struct Gate::Connection {
  Connection(std::uint64_t its_number, std::string its_peer, std::string its_inner_address,
             std::shared_ptr<ByteBudget> frames, Mechanism mechanism)
      : number(its_number),
        peer(std::move(its_peer)),
        inner_address(std::move(its_inner_address)),
        watch(WireLimits::kMaxFrameBytes, std::move(frames), mechanism) {
    outer.connection = this;
    inner.connection = this;
  }

  [[nodiscard]] End& OtherOf(const End& end) { return &end == &outer ? inner : outer; }
  // One side has ended, and the other has received everything from it.
  [[nodiscard]] bool is_done() const {
    return (outer.has_ended && inner.pending.empty()) || (inner.has_ended && outer.pending.empty());
  }

  const std::uint64_t number;
  const std::string peer;           // its address
  const std::string inner_address;  // by which the guard knows it; empty without a guard
  End outer;                        // the peer
  End inner;                        // ZeroMQ
  ZmtpWatch watch;
  bool in_handshake = true;
  bool is_dropped = false;  // freed once the current batch of events is handled
};

Result<std::shared_ptr<Gate>> Gate::Open(const Endpoint& outer, const std::string& inner,
                                         std::shared_ptr<ByteBudget> frames, std::shared_ptr<LinkGuard> guard) {
  ROOST_ASSIGN_OR_RETURN(Descriptor listener, Listen(outer));
  const Endpoint bound = BoundTo(listener, outer);
  return std::shared_ptr<Gate>(new Gate(std::move(listener), bound, inner, std::move(frames), std::move(guard)));
}

Gate::Gate(Descriptor listener, Endpoint endpoint, std::string inner, std::shared_ptr<ByteBudget> frames,
           std::shared_ptr<LinkGuard> guard)
    : max_connections_(DescriptorsOf(DescriptorLimit()) / kDescriptors),
      endpoint_(std::move(endpoint)),
      inner_(std::move(inner)),
      frames_(std::move(frames)),
      guard_(std::move(guard)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      listener_(std::move(listener)),
      buffer_(kReadBytes) {
  ROOST_CHECK(epoll_.is_open() && bell_.is_open(), "epoll: {}", std::strerror(errno));
  epoll_event ring{.events = EPOLLIN, .data = {.ptr = &stopping_}};
  ROOST_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &ring) == 0, "epoll: {}", std::strerror(errno));
  WatchListener();
  thread_ = std::thread([this] { Run(); });
}

Gate::~Gate() {
  listening_ = false;
  stopping_ = true;
  eventfd_write(bell_.get(), 1);
  thread_.join();
}

void Gate::StopListening() {
  listening_ = false;
  eventfd_write(bell_.get(), 1);
  std::unique_lock lock(mutex_);
  closed_.wait(lock, [this] { return !listener_is_open_; });
}

// ---- the thread ----

void Gate::Run() {
  NameThisThread("gate");
  std::array<epoll_event, 64> events{};
  while (!IsDone(now_ = clock_.Now())) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(kLook.count()));
    ROOST_CHECK(count >= 0 || errno == EINTR, "epoll_wait: {}", std::strerror(errno));
    const Duration pause = clock_.Now() - std::exchange(now_, clock_.Now());
    leaves_more_ = static_cast<std::size_t>(count) == events.size();
    for (int i = 0; i < count; ++i) OnEvent(events[static_cast<std::size_t>(i)]);
    if (now_ - looked_at_ >= kLook) Look(now_);
    std::erase_if(connections_, [](const auto& connection) { return connection->is_dropped; });
    if (count > 0 && pause < kBusyPause && !leaves_more_) Gather();
  }
}

void Gate::Gather() const {
  pollfd bell{.fd = bell_.get(), .events = POLLIN, .revents = 0};
  const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kGather).count()};
  (void)ppoll(&bell, 1, &time, nullptr);
}

bool Gate::IsDone(Instant now) {
  if (!listening_ && listener_.is_open()) {
    listener_.Close();
    listener_pauses_ = false;
    const std::lock_guard lock(mutex_);
    listener_is_open_ = false;
    closed_.notify_all();
  }
  if (!stopping_) return false;
  if (!stop_at_) stop_at_ = now + kLinger;
  return connections_.empty() || now >= *stop_at_;
}

void Gate::Look(Instant now) {
  looked_at_ = now;
  if (std::exchange(listener_pauses_, false)) WatchListener();
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->is_dropped) continue;
    LookAtHandshake(*connection);
    if (connection->watch.IsLate(now)) Drop(*connection);
    if (guard_ != nullptr && guard_->StandingOf(connection->inner_address) == LinkGuard::Standing::kWithdrawn) {
      LogWarning("a link is cut off: its key was withdrawn, or has other names now", {{"peer", connection->peer}});
      Drop(*connection);
    }
  }
  while (const std::optional<std::uint64_t> late = handshakes_.TakeLate(now)) EndHandshake(late, "it took too long");
}

void Gate::OnEvent(const epoll_event& event) {
  if (event.data.ptr == &stopping_) {
    eventfd_t rings = 0;
    eventfd_read(bell_.get(), &rings);
    return;
  }
  if (event.data.ptr == &listener_) return Accept();
  End& end = *static_cast<End*>(event.data.ptr);
  if (end.connection->is_dropped) return;
  try {
    Serve(end, event.events);
  } catch (const std::bad_alloc&) {
    Drop(*end.connection);
  }
}

void Gate::Accept() {
  Address from;
  from.size = sizeof(from.bytes);
  Descriptor outer(accept4(listener_.get(), from.get(), &from.size, SOCK_CLOEXEC));
  if (!outer.is_open()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) PauseListening();
    return;
  }
  if (connections_.size() >= max_connections_) {
    EndHandshake(handshakes_.TakeOldest(), "others want its place");
    return;
  }
  try {
    Connect(std::move(outer), TextOf(from), SourceOf(from));
  } catch (const std::bad_alloc&) {
    // Nothing to do: the peer connects again.
  }
}

void Gate::Connect(Descriptor outer, const std::string& peer, std::string source) {
  const Mechanism mechanism = guard_ != nullptr ? Mechanism::kCurve : Mechanism::kNull;
  std::string inner_address;
  do {
    ++next_number_;
    if (guard_ != nullptr) inner_address = InnerAddressOf(next_number_);
  } while (guard_ != nullptr && !guard_->Connected(inner_address, peer));
  auto made = std::make_unique<Connection>(next_number_, peer, inner_address, frames_, mechanism);
  Connection& connection = *made;
  connection.inner.socket = ConnectTo(inner_, inner_address);
  if (!connection.inner.socket.is_open()) return Drop(connection);
  SetUpConnection(outer.get());
  connection.outer.socket = std::move(outer);
  connections_.push_back(std::move(made));
  EndHandshake(handshakes_.Enter(connection.number, std::move(source), now_), "others want its place");
  Watch(connection.outer);
  Watch(connection.inner);
}

void Gate::LookAtHandshake(Connection& connection) {
  if (!connection.in_handshake) return;
  if (guard_ != nullptr && guard_->StandingOf(connection.inner_address) == LinkGuard::Standing::kAdmitted) {
    connection.watch.Admit();
  }
  if (!connection.watch.is_through()) return;
  connection.in_handshake = false;
  handshakes_.Leave(connection.number);
}

void Gate::EndHandshake(std::optional<std::uint64_t> number, const char* why) {
  if (!number) return;
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [number](const auto& connection) { return connection->number == *number; });
  if (found == connections_.end() || (*found)->is_dropped) return;
  if (guard_ != nullptr) guard_->Refuse(PeerRefusal::kHandshake, (*found)->peer, why);
  Drop(**found);
}

// Stops accepting until the next Look, by when some connections may have closed.
void Gate::PauseListening() {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listener_pauses_ = true;
}

void Gate::WatchListener() {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &listener_}};
  ROOST_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) == 0, "epoll: {}", std::strerror(errno));
}

void Gate::Serve(End& end, std::uint32_t events) {
  Connection& connection = *end.connection;
  if (!end.pending.empty() && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
    Write(end, std::exchange(end.pending, {}));
  if (!connection.is_dropped && (events & ~std::uint32_t{EPOLLOUT}) != 0) Read(end);
  if (!connection.is_dropped && connection.is_done()) Drop(connection);
  if (connection.is_dropped) return;
  Watch(connection.outer);
  Watch(connection.inner);
}

void Gate::Read(End& from) {
  Connection& connection = *from.connection;
  End& to = connection.OtherOf(from);
  if (!to.pending.empty() || from.has_ended) return;
  const ssize_t size = ReadNow(from.socket.get(), buffer_);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  from.has_ended = size <= 0;
  if (from.has_ended) return NoteEnd(from);
  if (static_cast<std::size_t>(size) == buffer_.size()) leaves_more_ = true;
  const std::span<char> bytes(buffer_.data(), static_cast<std::size_t>(size));
  if (&from == &connection.outer) {
    LookAtHandshake(connection);
    if (const Result<void> passes = connection.watch.Take(bytes, now_); !passes.ok()) {
      return Refuse(connection, passes.error());
    }
    LookAtHandshake(connection);
  }
  Write(to, bytes);
}

// ZeroMQ ends a handshake that goes wrong. It does so too when the guard refuses a key, which has been told then. A
// peer without a key may end it itself: it sees in our greeting that it needs one, and leaves before its own is sent.
void Gate::NoteEnd(const End& from) {
  const Connection& connection = *from.connection;
  if (guard_ == nullptr || !listening_) return;
  if (&from == &connection.outer) {
    if (!connection.watch.is_in_greeting()) return;
    return guard_->Refuse(PeerRefusal::kMechanism, connection.peer,
                          "it left when it saw that this router demands a key");
  }
  if (guard_->StandingOf(connection.inner_address) != LinkGuard::Standing::kHandshake) return;
  guard_->Refuse(PeerRefusal::kHandshake, connection.peer, "it may take this router for one with another key");
}

void Gate::Write(End& to, std::span<const char> bytes) {
  const ssize_t written = WriteNow(to.socket.get(), bytes);
  if (written < 0) return OnBroken(to);
  const std::span<const char> rest = bytes.subspan(static_cast<std::size_t>(written));
  to.pending.assign(rest.begin(), rest.end());
  if (!rest.empty()) leaves_more_ = true;
}

void Gate::OnBroken(const End& end) {
  if (!end.has_ended) NoteEnd(end);
  Drop(*end.connection);
}

void Gate::Drop(Connection& connection) {
  connection.is_dropped = true;
  handshakes_.Leave(connection.number);
  if (guard_ != nullptr) guard_->Gone(connection.inner_address);
  connection.outer.socket.Close();
  connection.inner.socket.Close();
}

// An end with nothing to wait for is removed from epoll, which otherwise would report a broken connection over and
// over.
void Gate::Watch(End& end) {
  std::uint32_t wanted = 0;
  if (!end.pending.empty()) wanted |= EPOLLOUT;
  if (!end.has_ended && end.connection->OtherOf(end).pending.empty()) wanted |= EPOLLIN;
  const std::uint32_t before = std::exchange(end.watched, wanted);
  if (wanted == before) return;
  const int change = before == 0 ? EPOLL_CTL_ADD : (wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD);
  epoll_event event{.events = wanted, .data = {.ptr = &end}};
  if (epoll_ctl(epoll_.get(), change, end.socket.get(), &event) != 0) Drop(*end.connection);
}

void Gate::Refuse(Connection& connection, const Error& error) {
  if (guard_ != nullptr && connection.in_handshake) {
    const bool is_mechanism = error.code == ErrorCode::kUnauthenticated;
    guard_->Refuse(is_mechanism ? PeerRefusal::kMechanism : PeerRefusal::kHandshake, connection.peer, error.message);
  } else {
    TellDropped(connection, error);
  }
  Drop(connection);
}

// One line per kTellInterval for a worker's operator, so that strangers can not fill the log.
void Gate::TellDropped(const Connection& connection, const Error& error) {
  if (told_at_ && now_ - *told_at_ < kTellInterval) return;
  told_at_ = now_;
  LogWarning("a connection to the port for workers is cut off",
             {{"peer", connection.peer}, {"error", error.ToString()}});
}

}  // namespace roost::wire
