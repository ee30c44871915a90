#include "common/base/service_notifier.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/log.h"

namespace roost {
namespace {

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before other threads start
  return value == nullptr ? "" : value;
}

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::chrono::microseconds> WatchdogOfThisProcess() {
  const std::string_view process = Variable("WATCHDOG_PID");
  if (!process.empty() && Number(process) != static_cast<std::uint64_t>(getpid())) return std::nullopt;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;  // 36 years
  const std::optional<std::uint64_t> microseconds = Number(Variable("WATCHDOG_USEC"));
  if (!microseconds || *microseconds == 0 || *microseconds > kMost) return std::nullopt;
  return std::chrono::microseconds(*microseconds);
}

}  // namespace

ServiceNotifier ServiceNotifier::FromEnvironment() {
  return ServiceNotifier({.socket = std::string(Variable("NOTIFY_SOCKET")), .watchdog = WatchdogOfThisProcess()});
}

ServiceNotifier::ServiceNotifier(Settings settings) : settings_(std::move(settings)) {
  if (settings_.socket.empty()) {
    settings_.watchdog.reset();
    return;
  }
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

ServiceNotifier::ServiceNotifier(ServiceNotifier&& other) noexcept
    : settings_(std::move(other.settings_)),
      socket_(std::exchange(other.socket_, -1)),
      next_look_(other.next_look_),
      has_failed_(other.has_failed_) {}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotifier::Ready(std::string_view status) { Send(fmt::format("READY=1\nSTATUS={}\n", status)); }

void ServiceNotifier::Status(std::string_view status) { Send(fmt::format("STATUS={}\n", status)); }

void ServiceNotifier::Stopping() { Send("STOPPING=1\nSTATUS=drains\n"); }

std::optional<std::chrono::milliseconds> ServiceNotifier::look_interval() const {
  if (!settings_.watchdog) return std::nullopt;
  return std::max(std::chrono::milliseconds(1), std::chrono::floor<std::chrono::milliseconds>(*settings_.watchdog / 4));
}

void ServiceNotifier::KeepAlive(Instant now, const std::function<bool()>& alive) {
  const auto interval = look_interval();
  if (!interval || now < next_look_) return;
  next_look_ = now + *interval;
  if (alive()) return Send("WATCHDOG=1\n");
  LogWarning("a loop stands still: the service manager is not told that the daemon is alive");
}

void ServiceNotifier::Send(std::string_view message) {
  if (settings_.socket.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = settings_.socket;
  int error = 0;
  if (socket_ < 0) {
    error = EBADF;
  } else if (name.size() >= sizeof(address.sun_path)) {
    error = ENAMETOOLONG;
  } else {
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    // An abstract name ends with its length, not with a zero.
    const std::size_t size = offsetof(sockaddr_un, sun_path) + name.size();
    const auto sent = sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size));
    if (sent < 0) error = errno;
  }
  if (error == 0 || std::exchange(has_failed_, true)) return;
  LogWarning("the service manager can not be told of the daemon's state",
             {{"NOTIFY_SOCKET", name}, {"error", std::strerror(error)}});  // NOLINT(concurrency-mt-unsafe): of glibc
}

}  // namespace roost
