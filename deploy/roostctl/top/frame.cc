#include "deploy/roostctl/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/utf8.h"
#include "deploy/roostctl/block_tree.h"

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
          .ttft_seconds = std::max(0.0, now.ttft_seconds - before.ttft_seconds)};
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
}

// At most five characters: 0.4, 12, 812, 10.2k, 3.4M.
std::string Short(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e5) return fmt::format("{:.0f}k", value / 1e3);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.{}f}", value, value < 10 && value > 0 ? 1 : 0);
}
std::string Short(std::optional<double> value) { return value ? Short(*value) : "-"; }

std::string Hits(const WorkerTotals& totals) {
  if (totals.prompt_tokens == 0) return "-";
  return fmt::format("{:.0f}%",
                     100 * static_cast<double>(totals.cached_tokens) / static_cast<double>(totals.prompt_tokens));
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

std::string WorkerLine(const TopWorker& worker, const Change& change, std::size_t name_columns) {
  const double used = Share(worker.blocks - std::min(worker.free_blocks, worker.blocks), worker.blocks);
  return fmt::format("{:<{}} {:<8} {:>4} {:>4} {} {:>3.0f}% {:>5} {:>6} {:>5} {:>8}", Cut(worker.name, name_columns),
                     name_columns, Cut(worker.state, 8), worker.running_requests, worker.waiting_requests, Bar(used),
                     100 * used, Hits(change.totals), Short(change.PerSecond(change.totals.output_tokens)),
                     Short(change.PerSecond(change.totals.requests)), Milliseconds(MeanTtft(change.totals)));
}

std::vector<std::string> TotalParts(const TopSample& before, const TopSample& now, const Change& all) {
  const auto quantile = [&](double share) {
    return Milliseconds(HistogramQuantile(before.ttft_buckets, now.ttft_buckets, share));
  };
  return {fmt::format("requests {}/s", Short(all.PerSecond(all.totals.requests))),
          fmt::format("output {} tok/s", Short(all.PerSecond(all.totals.output_tokens))),
          fmt::format("prompt {} tok/s", Short(all.PerSecond(all.totals.prompt_tokens))),
          fmt::format("hit {}", Hits(all.totals)), fmt::format("TTFT p50 {} p99 {}", quantile(0.5), quantile(0.99))};
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
  const std::size_t columns = is_cut ? std::max(screen.columns, kLeastColumns) : SIZE_MAX;
  std::size_t name_columns = kLeastColumns - kFixedColumns;
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

}  // namespace roost::roostctl
