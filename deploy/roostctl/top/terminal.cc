#include "deploy/roostctl/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <ostream>
#include <string_view>

#include "common/base/check.h"

namespace roost::roostctl {
namespace {

constexpr std::string_view kOtherScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kFirstScreen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kEraseLine = "\x1b[K";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr char kInterrupt = '\x03';

// A handler that does nothing: so a new size ends a wait.
void OnResize(int /*signal*/) {}

}  // namespace

Terminal::Terminal(std::ostream& out) : out_(out) {
  ROOST_CHECK(tcgetattr(STDIN_FILENO, &before_) == 0);
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  struct sigaction action {};
  action.sa_handler = &OnResize;
  sigaction(SIGWINCH, &action, nullptr);
  out_ << kOtherScreen << std::flush;
}

Terminal::~Terminal() {
  out_ << kFirstScreen << std::flush;
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  std::signal(SIGWINCH, SIG_DFL);
}

std::optional<char> Terminal::WaitForKey(Duration at_most) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const auto wait_ms = std::chrono::duration_cast<std::chrono::milliseconds>(at_most).count();
  if (poll(&input, 1, static_cast<int>(wait_ms)) <= 0) return std::nullopt;
  char key = 0;
  return read(STDIN_FILENO, &key, 1) == 1 ? key : kInterrupt;
}

Screen Terminal::Size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

// Without a line feed behind the last line, which would scroll a full screen.
void Terminal::Show(const std::vector<std::string>& lines) {
  out_ << kHome;
  for (std::size_t i = 0; i < lines.size(); ++i) out_ << (i == 0 ? "" : "\r\n") << lines[i] << kEraseLine;
  out_ << kEraseBelow << std::flush;
}

}  // namespace roost::roostctl
