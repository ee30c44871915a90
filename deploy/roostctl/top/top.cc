#include "deploy/roostctl/top/top.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "common/base/clock.h"
#include "deploy/roostctl/http_client.h"
#include "deploy/roostctl/refusal.h"
#include "deploy/roostctl/top/frame.h"
#include "deploy/roostctl/top/terminal.h"
#include "deploy/roostctl/top/top_sample.h"

namespace roost::roostctl {
namespace {

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
