// Tells the service manager that started the daemon how it is: ready, stopping, alive. systemd sets NOTIFY_SOCKET for
// units of Type=notify, and WATCHDOG_USEC for those with WatchdogSec=; sd_notify(3) defines the protocol. Without
// NOTIFY_SOCKET nothing is sent.
//
//   ServiceNotifier notifier = ServiceNotifier::FromEnvironment();  // before other threads start
//   notifier.Ready("serves");
//   while (!termination.Wait(notifier.look_interval(), 1)) notifier.KeepAlive(clock.Now(), [&] { return …; });
//   notifier.Stopping();
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace roost {

// Used by one thread. A message that can not be sent is logged once; the daemon goes on.
class ServiceNotifier {
 public:
  struct Settings {
    std::string socket = {};  // a path, or @NAME for an abstract one; empty: no service manager listens
    // The manager ends a daemon of which it has heard nothing for so long; nullopt: it does not look.
    std::optional<std::chrono::microseconds> watchdog = {};
  };

  // The process's environment. A watchdog's time that is meant for another process, or is no number, counts as none.
  [[nodiscard]] static ServiceNotifier FromEnvironment();

  explicit ServiceNotifier(Settings settings);
  ServiceNotifier(ServiceNotifier&& other) noexcept;
  ServiceNotifier& operator=(ServiceNotifier&&) = delete;
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;
  ~ServiceNotifier();

  // The daemon has started. `status` is a line for people, as of `systemctl status`.
  void Ready(std::string_view status);
  void Status(std::string_view status);
  void Stopping();

  // The interval at which to call KeepAlive: a quarter of the watchdog's time. nullopt without a watchdog.
  [[nodiscard]] std::optional<std::chrono::milliseconds> look_interval() const;
  // Call it at least that often. Once in each interval it asks `alive`, and only a yes reaches the manager.
  void KeepAlive(Instant now, const std::function<bool()>& alive);

 private:
  void Send(std::string_view message);

  Settings settings_;
  int socket_ = -1;
  Instant next_look_{};
  bool has_failed_ = false;
};

}  // namespace roost
