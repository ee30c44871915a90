#include "deploy/roostctl/top/top.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
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
#include "common/base/utf8.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/percent.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/refusal.h"
#include "deploy/roostctl/top/top_sample.h"

namespace roost::roostctl {
namespace {

constexpr std::size_t kBarLength = 8;
// The columns of a worker behind its name.
constexpr std::size_t kFixedColumns = 61;
constexpr std::size_t kPrefixRows = 5;
constexpr std::size_t kLostRows = 5;
constexpr double kMs = 1e3;

// From one sample to the next. Totals that have become less began anew.
struct Change {
  double seconds = 0;
  WorkerTotals totals;

  [[nodiscard]] std::optional<double> PerSecond(std::uint64_t count) const {
    if (seconds <= 0) return std::nullopt;
    return static_cast<double>(count) / seconds;
  }
};

std::uint64_t Since(std::uint64_t before, std::uint64_t now) { return now >= before ? now - before : now; }

WorkerTotals Since(const WorkerTotals& before, const WorkerTotals& now) {
  const bool began_anew = now.requests < before.requests;
  if (began_anew) return now;
  return {.requests = now.requests - before.requests,
          .prompt_tokens = Since(before.prompt_tokens, now.prompt_tokens),
          .cached_tokens = Since(before.cached_tokens, now.cached_tokens),
          .output_tokens = Since(before.output_tokens, now.output_tokens),
          .first_tokens = Since(before.first_tokens, now.first_tokens),
          .ttft_seconds = std::max(0.0, now.ttft_seconds - before.ttft_seconds),
          .saved_prefill_seconds = std::max(0.0, now.saved_prefill_seconds - before.saved_prefill_seconds),
          .computed_prefill_seconds = std::max(0.0, now.computed_prefill_seconds - before.computed_prefill_seconds)};
}

Change ChangeOf(const TopSample& before, const TopSample& now, const TopWorker& worker) {
  Change change{.seconds = now.seconds - before.seconds, .totals = {}};
  const auto known = std::find_if(before.workers.begin(), before.workers.end(),
                                  [&worker](const TopWorker& other) { return other.name == worker.name; });
  if (known != before.workers.end()) change.totals = Since(known->totals, worker.totals);
  return change;
}

void Add(const WorkerTotals& more, WorkerTotals& sum) {
  sum.requests += more.requests;
  sum.prompt_tokens += more.prompt_tokens;
  sum.cached_tokens += more.cached_tokens;
  sum.output_tokens += more.output_tokens;
  sum.first_tokens += more.first_tokens;
  sum.ttft_seconds += more.ttft_seconds;
  sum.saved_prefill_seconds += more.saved_prefill_seconds;
  sum.computed_prefill_seconds += more.computed_prefill_seconds;
}

// At most five characters: 0.4, 12, 812, 10.2k, 3.4M.
std::string Short(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e5) return fmt::format("{:.0f}k", value / 1e3);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.{}f}", value, value < 10 && value > 0 ? 1 : 0);
}
std::string Short(std::optional<double> value) { return value ? Short(*value) : "-"; }

std::string TokenHits(const WorkerTotals& totals) {
  if (totals.prompt_tokens == 0) return "-";
  return fmt::format("{:.0f}%", Percent(totals.cached_tokens, totals.prompt_tokens));
}

// In time; in tokens where workers do not tell times.
std::string Hits(const WorkerTotals& totals) {
  const double all = totals.saved_prefill_seconds + totals.computed_prefill_seconds;
  return all > 0 ? fmt::format("{:.0f}%", 100 * totals.saved_prefill_seconds / all) : TokenHits(totals);
}

// "71%, 64% of tokens"
std::string HitText(const WorkerTotals& totals) {
  const bool has_times = totals.saved_prefill_seconds + totals.computed_prefill_seconds > 0;
  return has_times ? fmt::format("{}, {} of tokens", Hits(totals), TokenHits(totals)) : TokenHits(totals);
}

std::string Milliseconds(std::optional<double> seconds) {
  if (!seconds) return "-";
  if (*seconds >= 10) return fmt::format("{:.1f} s", *seconds);
  return fmt::format("{:.{}f} ms", kMs * *seconds, *seconds < 0.01 ? 1 : 0);
}

std::optional<double> MeanTtft(const WorkerTotals& totals) {
  if (totals.first_tokens == 0) return std::nullopt;
  return totals.ttft_seconds / static_cast<double>(totals.first_tokens);
}

std::string Bar(double share) {
  const auto filled = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarLength));
  return std::string(filled, '#') + std::string(kBarLength - filled, '.');
}

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Cuts at whole characters of UTF-8; each counts as one column.
std::string Cut(std::string_view text, std::size_t columns) {
  std::string cut;
  std::size_t count = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (begins && count++ == columns) break;
    cut += c;
  }
  return cut;
}

std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// One line, or several where the parts do not fit: none is cut off at its end, unless it alone is longer than a line.
std::vector<std::string> Wrapped(const std::vector<std::string>& parts, std::string_view gap, std::size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& part : parts) {
    const bool fits = !lines.empty() && ColumnsOf(lines.back()) + gap.size() + ColumnsOf(part) <= columns;
    if (fits) {
      lines.back() += fmt::format("{}{}", gap, part);
    } else {
      lines.push_back(part);
    }
  }
  return lines;
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string WorkerHead(std::size_t name_columns) {
  return fmt::format("{:<{}} {:<8} {:>4} {:>4} {:<13} {:>5} {:>6} {:>5} {:>8}", "worker", name_columns, "state", "run",
                     "wait", "KV in use", "hit", "tok/s", "req/s", "TTFT");
}

// A ready worker is shown by what it is for, if that is a part of requests alone.
std::string_view StateOf(const TopWorker& worker) {
  const bool has_role = worker.role == "prefill" || worker.role == "decode";
  return has_role && worker.state == "ready" ? worker.role : worker.state;
}

std::string WorkerLine(const TopWorker& worker, const Change& change, std::size_t name_columns) {
  const double used = Share(worker.blocks - std::min(worker.free_blocks, worker.blocks), worker.blocks);
  return fmt::format("{:<{}} {:<8} {:>4} {:>4} {} {:>3.0f}% {:>5} {:>6} {:>5} {:>8}", Cut(worker.name, name_columns),
                     name_columns, Cut(StateOf(worker), 8), worker.running_requests, worker.waiting_requests, Bar(used),
                     100 * used, Hits(change.totals), Short(change.PerSecond(change.totals.output_tokens)),
                     Short(change.PerSecond(change.totals.requests)), Milliseconds(MeanTtft(change.totals)));
}

// The blocks on all disks. Empty where there are none.
std::string OnDisk(const TopSample& now) {
  std::uint64_t blocks = 0;
  for (const TopWorker& worker : now.workers) blocks += worker.disk_blocks;
  return blocks > 0 ? fmt::format("  on disk {} blocks", Short(static_cast<double>(blocks))) : "";
}

std::vector<std::string> TotalParts(const TopSample& before, const TopSample& now, const Change& all) {
  const auto quantile = [&](double share) {
    return Milliseconds(HistogramQuantile(before.ttft_buckets, now.ttft_buckets, share));
  };
  return {fmt::format("requests {}/s", Short(all.PerSecond(all.totals.requests))),
          fmt::format("output {} tok/s", Short(all.PerSecond(all.totals.output_tokens))),
          fmt::format("prompt {} tok/s", Short(all.PerSecond(all.totals.prompt_tokens))),
          fmt::format("hit {}{}", HitText(all.totals), OnDisk(now)),
          fmt::format("TTFT p50 {} p99 {}", quantile(0.5), quantile(0.99))};
}

// "lost  worker-a 6 s ago (silent): 3 requests continue elsewhere", those that are not back.
std::vector<std::string> LostLines(const std::vector<TopLost>& lost) {
  std::vector<std::string> lines;
  for (const TopLost& worker : lost) {
    std::string fate;
    const auto add = [&fate](std::uint64_t count, std::string_view what) {
      if (count > 0) fate += fmt::format("{} {} {}", fate.empty() ? ":" : ",", count, what);
    };
    add(worker.moved_requests, "continue elsewhere");
    add(worker.waiting_requests, "wait");
    add(worker.failed_requests, "failed");
    lines.push_back(fmt::format("lost  {} {:.0f} s ago ({}){}{}", Printable(worker.name), worker.seconds_ago,
                                Printable(worker.reason), fate.empty() ? "" : fmt::format("{} of its requests", fate),
                                worker.is_back ? "; it is back" : ""));
  }
  return lines;
}

std::vector<std::string> PrefixLines(const std::vector<TopPrefix>& prefixes, std::size_t count) {
  std::vector<std::string> lines;
  if (prefixes.empty() || count == 0) return lines;
  lines.push_back(fmt::format("{:>8} {:>8} {:>8}  prefix", "hits", "tokens", "workers"));
  for (std::size_t i = 0; i < std::min(count, prefixes.size()); ++i) {
    const TopPrefix& prefix = prefixes[i];
    lines.push_back(
        fmt::format("{:>8} {:>8} {:>8}  {}", prefix.hits, prefix.tokens, prefix.workers, Printable(prefix.text)));
  }
  return lines;
}

}  // namespace

std::vector<std::string> DrawFrame(std::string_view title, const TopSample& before, const TopSample& now,
                                   const Screen& screen) {
  const bool is_cut = screen.columns != kUncut;
  const std::size_t columns = is_cut ? std::max(screen.columns, kMinColumns) : SIZE_MAX;
  std::size_t name_columns = kMinColumns - kFixedColumns;
  for (const TopWorker& worker : now.workers) name_columns = std::max(name_columns, ColumnsOf(worker.name) + 1);
  if (is_cut) name_columns = columns - kFixedColumns;
  Change all{.seconds = now.seconds - before.seconds, .totals = {}};
  std::vector<std::string> workers;
  std::size_t ready = 0;
  for (const TopWorker& worker : now.workers) {
    const Change change = ChangeOf(before, now, worker);
    Add(change.totals, all.totals);
    ready += worker.state == "ready" ? 1 : 0;
    workers.push_back(WorkerLine(worker, change, name_columns));
  }
  std::vector<std::string> lines;
  const auto add = [&lines](std::vector<std::string> more) { lines.insert(lines.end(), more.begin(), more.end()); };
  add(Wrapped({std::string(title), fmt::format("{}/{} workers ready", ready, now.workers.size()),
               fmt::format("queued {}, {:.1f} s", now.queued_requests, now.oldest_wait_seconds)},
              "   ", columns));
  if (!now.verdict.empty()) add(Wrapped(WordsOf(Printable(now.verdict)), " ", columns));
  add(Wrapped(TotalParts(before, now, all), "  ", columns));
  std::vector<std::string> lost = LostLines(now.lost);
  lost.resize(std::min(lost.size(), kLostRows));
  add(lost);
  lines.emplace_back();
  lines.push_back(WorkerHead(name_columns));
  if (workers.empty()) lines.emplace_back("(no workers)");

  std::vector<std::string> prefixes = PrefixLines(now.prefixes, kPrefixRows);
  if (!prefixes.empty()) prefixes.insert(prefixes.begin(), "");
  const std::size_t rows = screen.rows == 0 ? SIZE_MAX : screen.rows;
  // Workers go first; of the rest, the prefixes get what there is.
  const std::size_t room = rows > lines.size() ? rows - lines.size() : 0;
  if (room == 0) {
    workers.clear();
  } else if (workers.size() > room) {
    const std::size_t hidden = workers.size() - room + 1;
    workers.resize(room - 1);
    workers.push_back(fmt::format("… and {} more", hidden));
  }
  lines.insert(lines.end(), workers.begin(), workers.end());
  if (lines.size() + 3 <= rows) {
    prefixes.resize(std::min(prefixes.size(), rows - lines.size()));
    lines.insert(lines.end(), prefixes.begin(), prefixes.end());
  }
  if (lines.size() > rows) lines.resize(rows);
  for (std::string& line : lines) line = Cut(line, columns);
  return lines;
}

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
