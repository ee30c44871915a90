#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iosfwd>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/refusal.h"
#include "deploy/roostctl/top/frame.h"
#include "deploy/roostctl/top/top_sample.h"

namespace roost::roostctl {
namespace {

// The terminal of `roostctl top`: keys without Enter, a screen of its own, and its size.

// From its construction to its end the terminal shows another screen without a cursor and passes keys on at once;
// afterwards everything is as before. Standard input and output must be a terminal.
class Terminal {
 public:
  explicit Terminal(std::ostream& out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Waits for a key, a new size or the end of `at_most`; returns the key, if there was one. '\x03' is Ctrl-C, and also
  // stands for an input that is closed.
  [[nodiscard]] std::optional<char> WaitForKey(Duration at_most);

  [[nodiscard]] static Screen Size();

  // Draws the lines from the top, over what was there.
  void Show(const std::vector<std::string>& lines);

 private:
  std::ostream& out_;
  termios before_{};
};

constexpr std::string_view kOtherScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kFirstScreen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kEraseLine = "\x1b[K";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr char kInterrupt = '\x03';

// A handler that does nothing: so a new size ends a wait.
void OnResize(int /*signal*/) {}

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

constexpr double kPatienceSeconds = 5;
// Each question about prefixes takes each worker's engine a pass over its blocks.
constexpr double kPrefixSeconds = 10;
constexpr std::size_t kPrefixes = 5;

Result<std::string> BodyOf(HttpClient& client, const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(HttpResponse response, client.Get(path));
  if (response.status != 200) return RefusalOf(response);
  return std::move(response.body);
}

// Asks a router again and again.
class Watch {
 public:
  explicit Watch(const TopOptions& options)
      : options_(options),
        admin_(options.admin, kPatienceSeconds),
        metrics_(MetricsAccess(options), kPatienceSeconds) {}

  [[nodiscard]] Result<TopSample> Take() {
    TopSample sample;
    sample.seconds = ToSeconds(clock_.Now().time_since_epoch());
    ROOST_ASSIGN_OR_RETURN(const std::string workers, BodyOf(admin_, "/admin/v1/workers"));
    ROOST_ASSIGN_OR_RETURN(sample.workers, ReadTopWorkers(workers));
    ROOST_RETURN_IF_ERROR(ReadStanding(workers, sample));
    ROOST_ASSIGN_OR_RETURN(const std::string queues, BodyOf(admin_, "/admin/v1/queues"));
    ROOST_RETURN_IF_ERROR(ReadQueues(queues, sample));
    // The rest is shown where it is to be had.
    const Result<std::string> metrics = BodyOf(metrics_, "/metrics");
    if (metrics.ok()) sample.ttft_buckets = MetricsText(*metrics).Buckets("roost_router_ttft_seconds");
    if (!options_.no_prefixes && sample.seconds >= next_prefixes_) {
      next_prefixes_ = sample.seconds + kPrefixSeconds;
      const Result<std::string> answer = BodyOf(admin_, fmt::format("/admin/v1/prefixes?top={}", kPrefixes));
      Result<std::vector<TopPrefix>> prefixes = answer.ok() ? ReadTopPrefixes(*answer) : answer.error();
      if (prefixes.ok()) prefixes_ = *std::move(prefixes);
    }
    sample.prefixes = prefixes_;
    return sample;
  }

  [[nodiscard]] std::string title() const { return options_.admin.url; }

 private:
  static RouterAccess MetricsAccess(const TopOptions& options) {
    RouterAccess access = options.admin;
    access.url = options.metrics_url;
    return access;
  }

  const TopOptions& options_;
  const SteadyClock clock_;
  HttpClient admin_;
  HttpClient metrics_;
  double next_prefixes_ = 0;
  std::vector<TopPrefix> prefixes_;
};

int ShowOnce(const TopOptions& options, std::ostream& out, std::ostream& err) {
  Watch watch(options);
  const Result<TopSample> before = watch.Take();
  // Rates need two moments.
  if (before.ok()) poll(nullptr, 0, static_cast<int>(1000 * options.interval_seconds));
  const Result<TopSample> now = before.ok() ? watch.Take() : before;
  if (!now.ok()) {
    err << "roostctl top: " << now.error().ToString() << '\n';
    return 1;
  }
  const Screen screen{.columns = isatty(STDOUT_FILENO) == 1 ? Terminal::Size().columns : kUncut, .rows = 0};
  for (const std::string& line : DrawFrame(watch.title(), *before, *now, screen)) out << line << '\n';
  return 0;
}

int ShowLive(const TopOptions& options, std::ostream& out) {
  Watch watch(options);
  Terminal terminal(out);
  const SteadyClock clock;
  Result<TopSample> before = watch.Take();
  Result<TopSample> now = before;
  Instant next = clock.Now() + FromSeconds(options.interval_seconds);
  while (true) {
    if (now.ok() && before.ok()) {
      terminal.Show(DrawFrame(watch.title() + "   q quits", *before, *now, Terminal::Size()));
    } else {
      terminal.Show({watch.title() + "   q quits", "", (now.ok() ? before : now).error().ToString()});
    }
    const Duration left = std::max(Duration(0), next - clock.Now());
    const std::optional<char> key = terminal.WaitForKey(left);
    if (key == 'q' || key == '\x03') return 0;
    if (clock.Now() < next) continue;  // another key, or another size
    next = clock.Now() + FromSeconds(options.interval_seconds);
    before = std::move(now);
    now = watch.Take();
  }
}

int RunTopCommand(Arguments arguments, const Console& console) {
  TopOptions options;
  ConfigParser parser(
      "roostctl top",
      "Shows the workers of a router, their load, cache, speed and hits, and the prefixes that are used "
      "most, drawn anew each second. Rates are of this router's requests. q quits.");
  DeclareAdmin(options.admin, parser);
  parser.Add("metrics", options.metrics_url, "URL of the router's metrics address, for percentiles")
      .Add("interval", options.interval_seconds, "Seconds from one picture to the next", {.low = 0.1, .high = 3600})
      .AddSwitch("once", options.once, "Print one picture after one interval and end, also without a terminal")
      .AddSwitch("no-prefixes", options.no_prefixes,
                 "Do not ask for prefixes, which costs each worker a pass over its blocks every ten seconds");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunTop(options, console.out, console.err);
}

}  // namespace

const Command kTopCommand{"top", "watch workers, load and caches", &RunTopCommand};

int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err) {
  if (options.once) return ShowOnce(options, out, err);
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) return ShowLive(options, out);
  err << "roostctl top: there is no terminal; --once prints one picture\n";
  return kExitUsage;
}

}  // namespace roost::roostctl
