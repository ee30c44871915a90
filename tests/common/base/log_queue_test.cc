#include "common/base/log_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace roost {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongEnough{20'000};

// A pipe of one page, the smallest possible.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    ::fcntl(ends_[1], F_SETPIPE_SZ, 4096);
  }
  ~Pipe() {
    CloseReader();
    CloseWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int writer() const { return ends_[1]; }
  [[nodiscard]] int reader() const { return ends_[0]; }
  void CloseReader() { Close(ends_[0]); }
  void CloseWriter() { Close(ends_[1]); }

  // Reads up to and including `last`.
  std::string ReadThrough(std::string_view last) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (!text.ends_with(last)) {
      const ssize_t size = ::read(ends_[0], buffer.data(), buffer.size());
      if (size <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  static void Close(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }

  std::array<int, 2> ends_{};
};

std::string TellDropped(std::uint64_t count) { return fmt::format("dropped {}\n", count); }

TEST(LogQueueTest, WritesLinesInOrder) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), TellDropped);
  queue.Put("a\n");
  queue.Put("b\n");
  // A pipe of one page takes a second write only after the first one was read.
  EXPECT_EQ(pipe.ReadThrough("b\n"), "a\nb\n");
  EXPECT_TRUE(queue.Flush(kLongEnough));
}

TEST(LogQueueTest, NobodyWaitsForAReaderThatIsStuckAndTheOldestLinesGo) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), TellDropped);
  constexpr int kLines = 100'000;
  const auto line = [](int i) { return fmt::format("line {:06} {}\n", i, std::string(50, '.')); };
  queue.Put(line(0));
  EXPECT_TRUE(queue.Flush(kLongEnough)) << "the pipe has room for it";
  // It would wait forever if Put waited for the pipe.
  for (int i = 1; i < kLines; ++i) queue.Put(line(i));
  EXPECT_FALSE(queue.Flush(milliseconds(10)));

  queue.Put("last\n");
  const std::string text = pipe.ReadThrough("last\n");
  EXPECT_TRUE(queue.Flush(kLongEnough));
  EXPECT_EQ(text.rfind("line 000000 ", 0), 0U);
  EXPECT_NE(text.find("line 099999 "), std::string::npos);
  std::size_t dropped = 0;
  std::size_t tellings = 0;
  for (std::size_t at = text.find("\ndropped "); at != std::string::npos; at = text.find("\ndropped ", at + 1)) {
    dropped += std::stoul(text.substr(at + 9));
    ++tellings;
  }
  EXPECT_GT(tellings, 0U);
  const auto written = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) - tellings;
  EXPECT_EQ(dropped + written, kLines + 1U);
  EXPECT_LT(text.size(), LogQueue::kMaxBytes + 200'000);
}

TEST(LogQueueTest, EndsWhileItsReaderIsStuck) {
  Pipe pipe;
  auto queue = std::make_unique<LogQueue>(pipe.writer(), TellDropped);
  for (int i = 0; i < 1000; ++i) queue->Put(std::string(99, '.') + "\n");
  queue.reset();
  EXPECT_FALSE(WriteWithin(pipe.writer(), std::string(8192, '.'), milliseconds(10)));
}

TEST(LogQueueTest, GoesOnWithoutAReader) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_IGN), SIG_ERR);
  Pipe pipe;
  LogQueue queue(pipe.writer(), TellDropped);
  pipe.CloseReader();
  queue.Put("a\n");
  EXPECT_TRUE(queue.Flush(kLongEnough));
}

TEST(LogThreadTest, WritesTheSameLines) {
  testing::internal::CaptureStderr();
  {
    const LogThread thread;
    LogInfo("within");
    FlushLog();
    LogInfo("at the end");
  }
  LogInfo("after");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_LT(text.find("within"), text.find("at the end"));
  EXPECT_LT(text.find("at the end"), text.find("after"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(LogThreadDeathTest, AFailedCheckShowsTheLinesBeforeIt) {
  EXPECT_DEATH(
      {
        const LogThread thread;
        for (int i = 0; i < 100; ++i) LogInfo(fmt::format("before {}", i));
        ROOST_CHECK(1 + 1 == 3, "sum");
      },
      "before 99(.|\n)*check failed at .*: 1 \\+ 1 == 3: sum");
}

}  // namespace
}  // namespace roost
