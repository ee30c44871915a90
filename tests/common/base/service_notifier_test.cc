#include "common/base/service_notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "common/base/check.h"
#include "common/base/turn_count.h"

namespace roost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The end of a service manager.
class Manager {
 public:
  // `name` as in NOTIFY_SOCKET.
  explicit Manager(std::string name) : name_(std::move(name)), socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (name_.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    ROOST_CHECK(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager() { close(socket_); }

  [[nodiscard]] const std::string& name() const { return name_; }

  // The next message; empty when there is none.
  std::string Take() {
    std::array<char, 512> buffer{};
    const auto size = recv(socket_, buffer.data(), buffer.size(), 0);
    return size < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(size));
  }

 private:
  std::string name_;
  int socket_;
};

class ServiceNotifierTest : public testing::Test {
 protected:
  ServiceNotifierTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "notify-XXXXXX").string();
    ROOST_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~ServiceNotifierTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ServiceNotifierTest, TellsWhatTheDaemonDoes) {
  Manager manager(folder_ / "socket");
  ServiceNotifier notifier({.socket = manager.name()});
  EXPECT_EQ(manager.Take(), "");
  notifier.Ready("waits");
  EXPECT_EQ(manager.Take(), "READY=1\nSTATUS=waits\n");
  notifier.Status("serves");
  EXPECT_EQ(manager.Take(), "STATUS=serves\n");
  notifier.Stopping();
  EXPECT_EQ(manager.Take(), "STOPPING=1\nSTATUS=drains\n");
}

TEST_F(ServiceNotifierTest, ReachesAnAbstractSocket) {
  Manager manager("@roost-notifier-test-" + std::to_string(getpid()));
  ServiceNotifier({.socket = manager.name()}).Ready("serves");
  EXPECT_EQ(manager.Take(), "READY=1\nSTATUS=serves\n");
}

TEST_F(ServiceNotifierTest, IsAliveOnlyWhileItsLoopsAreAndOnlyOnceInAnInterval) {
  Manager manager(folder_ / "socket");
  ServiceNotifier notifier({.socket = manager.name(), .watchdog = seconds(20)});
  ASSERT_EQ(notifier.look_interval(), milliseconds(5000));
  ManualClock clock;
  notifier.KeepAlive(clock.Now(), [] { return true; });
  EXPECT_EQ(manager.Take(), "WATCHDOG=1\n");
  clock.Advance(milliseconds(4999));
  notifier.KeepAlive(clock.Now(), []() -> bool { ROOST_CHECK(false); });
  EXPECT_EQ(manager.Take(), "");
  clock.Advance(milliseconds(1));
  notifier.KeepAlive(clock.Now(), [] { return false; });
  EXPECT_EQ(manager.Take(), "");
  clock.Advance(seconds(5));
  notifier.KeepAlive(clock.Now(), [] { return true; });
  EXPECT_EQ(manager.Take(), "WATCHDOG=1\n");
}

TEST_F(ServiceNotifierTest, NobodyIsAskedWithoutAWatchdog) {
  Manager manager(folder_ / "socket");
  for (const ServiceNotifier::Settings& settings :
       {ServiceNotifier::Settings{.socket = manager.name()}, ServiceNotifier::Settings{.watchdog = seconds(1)}}) {
    ServiceNotifier notifier(settings);
    EXPECT_EQ(notifier.look_interval(), std::nullopt);
    notifier.KeepAlive(ManualClock().Now(), []() -> bool { ROOST_CHECK(false); });
  }
  EXPECT_EQ(manager.Take(), "");
}

TEST_F(ServiceNotifierTest, GoesOnWhenNobodyListens) {
  for (const std::string& socket : {(folder_ / "nobody").string(), std::string(200, 'x'), std::string("@")}) {
    ServiceNotifier notifier({.socket = socket, .watchdog = seconds(1)});
    notifier.Ready("serves");
    notifier.Stopping();
  }
}

// Each case has a process of its own, because the environment is the process's.
class ServiceNotifierEnvironmentDeathTest : public testing::Test {
 protected:
  // Exits with 0 if a process with these variables looks after its watchdog at `expected`.
  static void ExpectInterval(const char* microseconds, const std::string& process,
                             std::optional<milliseconds> expected) {
    EXPECT_EXIT(
        {
          setenv("NOTIFY_SOCKET", "/nowhere", 1);
          setenv("WATCHDOG_USEC", microseconds, 1);
          setenv("WATCHDOG_PID", process == "own" ? std::to_string(getpid()).c_str() : process.c_str(), 1);
          std::_Exit(ServiceNotifier::FromEnvironment().look_interval() == expected ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << microseconds << " for " << process;
  }
};

TEST_F(ServiceNotifierEnvironmentDeathTest, ReadsTheWatchdogsTime) {
  ExpectInterval("30000000", "own", milliseconds(7500));
  ExpectInterval("30000000", "", milliseconds(7500));
  ExpectInterval("1", "own", milliseconds(1));
  ExpectInterval("30000000", "1", std::nullopt);
  ExpectInterval("30000000", "x", std::nullopt);
  ExpectInterval("0", "own", std::nullopt);
  ExpectInterval("-5", "own", std::nullopt);
  ExpectInterval("18446744073709551615", "own", std::nullopt);
  ExpectInterval("30s", "own", std::nullopt);
}

TEST(TurnCountTest, TellsWhetherTheLoopHasTurnedSinceTheLastLook) {
  TurnCount turns;
  EXPECT_FALSE(turns.HasTurned());
  turns.Turn();
  turns.Turn();
  EXPECT_TRUE(turns.HasTurned());
  EXPECT_FALSE(turns.HasTurned());
}

}  // namespace
}  // namespace roost
