#include "deploy/roostctl/files/file_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "common/base/json_writer.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/percent.h"
#include "deploy/roostctl/simulate/simulate.h"
#include "router/ledger/ledger_row.h"

namespace roost::roostctl {
namespace {

using router::kHourSeconds;
using router::LedgerCounts;

double Beyond(const LedgerCounts& counts) { return counts.saved_seconds - counts.round_robin_saved_seconds; }

std::string TableLine(const std::string& tenant, const std::string& key, const std::string& model,
                      const LedgerCounts& counts, double price) {
  std::string line = fmt::format(
      "{:<16} {:<20} {:<20} {:>9} {:>14} {:>7.1f}% {:>7.1f}% {:>14} {:>13} {:>12.1f} {:>12.1f}", tenant, key, model,
      counts.requests, counts.prompt_tokens, Percent(counts.cached_tokens, counts.prompt_tokens),
      Percent(counts.best_worker_tokens, counts.prompt_tokens), counts.written_tokens, counts.output_tokens,
      counts.saved_seconds, Beyond(counts));
  if (price > 0) {
    const double per_second = price / kHourSeconds;
    line += fmt::format(" {:>12.2f} {:>12.2f}", counts.saved_seconds * per_second, Beyond(counts) * per_second);
  }
  return line + '\n';
}

LedgerCounts SumOf(const LedgerTotals& totals) {
  LedgerCounts all;
  for (const auto& [name, counts] : totals) all += counts;
  return all;
}

// Shares of a recording's prompt tokens that simulated workers find in their caches. The shadow round robin of a ledger
// sees the caches as the router has filled them; this one has filled its own.
struct OwnCaches {
  double routed_hit_ratio = 0;
  double round_robin_hit_ratio = 0;

  // The share of what the cache saved that round robin would not have saved.
  [[nodiscard]] double beyond_share() const {
    return routed_hit_ratio > 0 ? std::max(0.0, 1 - round_robin_hit_ratio / routed_hit_ratio) : 0;
  }
};

// Errors name the option or the recording.
Result<OwnCaches> SimulateOwnCaches(const SavingsOptions& options) {
  if (options.worker_count == 0) return InvalidArgument("workers", "--recording needs the number of workers");
  constexpr std::uint64_t kFewestTokens = 1024;
  if (options.cache_tokens < kFewestTokens) {
    return InvalidArgument("cache-tokens", "--recording needs the tokens that each worker keeps, {} or more",
                           kFewestTokens);
  }
  SimulateOptions simulation;
  simulation.trace = options.recording;
  simulation.format = "roost";
  simulation.utilisation = 0;  // the recorded times
  simulation.policies = {"cache-aware", "round-robin"};
  simulation.worker_count = options.worker_count;
  simulation.cache_tokens = options.cache_tokens;
  ROOST_ASSIGN_OR_RETURN(const std::vector<simulate::Outcome> outcomes, SimulateQuietly(simulation));
  return OwnCaches{.routed_hit_ratio = outcomes[0].hit_ratio, .round_robin_hit_ratio = outcomes[1].hit_ratio};
}

std::string OwnCachesLine(const SavingsOptions& options, const OwnCaches& own, const LedgerCounts& all) {
  const double beyond = all.saved_seconds * own.beyond_share();
  std::string line = fmt::format(
      "round robin with caches of its own: {:.1f}% cached where this routing has {:.1f}%; {:.1f} of the {:.1f} s saved "
      "are beyond it",
      100 * own.round_robin_hit_ratio, 100 * own.routed_hit_ratio, beyond, all.saved_seconds);
  if (options.price_per_worker_hour > 0) {
    line += fmt::format(" ({:.2f})", beyond * options.price_per_worker_hour / kHourSeconds);
  }
  return line + fmt::format("\n  (simulated from {}: {} workers of {} tokens)\n", options.recording,
                            options.worker_count, options.cache_tokens);
}

std::string JsonOf(const LedgerTotals& totals, const std::optional<OwnCaches>& own) {
  JsonWriter json;
  json.BeginObject().Key("rows").BeginArray();
  for (const auto& [name, counts] : totals) {
    const auto& [tenant, key, model] = name;
    json.BeginObject().Key("tenant").String(tenant).Key("key").String(key).Key("model").String(model);
    json.Key("requests").Number(counts.requests).Key("prompt_tokens").Number(counts.prompt_tokens);
    json.Key("cached_tokens").Number(counts.cached_tokens);
    json.Key("best_worker_tokens").Number(counts.best_worker_tokens);
    json.Key("round_robin_tokens").Number(counts.round_robin_tokens);
    json.Key("written_tokens").Number(counts.written_tokens).Key("output_tokens").Number(counts.output_tokens);
    json.Key("saved_seconds").Number(counts.saved_seconds);
    json.Key("beyond_round_robin_seconds").Number(Beyond(counts)).EndObject();
  }
  json.EndArray();
  if (own) {
    json.Key("own_caches").BeginObject().Key("hit_ratio").Number(own->routed_hit_ratio);
    json.Key("round_robin_hit_ratio").Number(own->round_robin_hit_ratio);
    json.Key("beyond_round_robin_seconds").Number(SumOf(totals).saved_seconds * own->beyond_share()).EndObject();
  }
  return json.EndObject().Take() + '\n';
}

int RunSavingsCommand(Arguments arguments, const Console& console) {
  SavingsOptions options;
  ConfigParser parser(
      "roostctl savings",
      "Adds up the ledgers of routers (--ledger): what each tenant, key and model used, how much of its prompts "
      "was cached, how much the best worker held, and the seconds of prefill that it saved, in all and beyond "
      "what round robin would have saved.");
  parser.AddPositional("DIR", options.folders, "Folders of ledgers")
      .Add("since", options.since, "Only hours that end within this time, such as 90m, 24h or 30d; empty: all")
      .Add("price-per-worker-hour", options.price_per_worker_hour, "Price of one worker's hour, to print savings in it",
           {0, 1e9})
      .AddSwitch("json", options.json, "Print JSON")
      .Add("recording", options.recording,
           "Recording of the same traffic (roost-router --record): says what round robin with caches of its own would "
           "have found, by simulation; needs --workers and --cache-tokens")
      .Add("workers", options.worker_count, "Workers, for --recording", {0, 1024})
      .Add("cache-tokens", options.cache_tokens, "Tokens that each of them keeps, for --recording", {0, 1e9});
  if (const auto code = Ended(parser, arguments, console)) return *code;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return RunSavings(options, std::chrono::duration_cast<std::chrono::seconds>(now).count(), console.out, console.err);
}

}  // namespace

const Command kSavingsCommand{"savings", "what the cache saved, by tenant, key and model", &RunSavingsCommand};

Result<std::int64_t> SecondsOf(const std::string& since) {
  constexpr std::int64_t kMost = 100'000;
  const std::map<char, std::int64_t> units{{'m', 60}, {'h', kHourSeconds}, {'d', 24 * kHourSeconds}};
  std::int64_t count = 0;
  const char* const end = since.data() + since.size();
  const auto [unit, error] = std::from_chars(since.data(), end, count);
  const auto found = error == std::errc() && unit + 1 == end ? units.find(*unit) : units.end();
  if (found == units.end() || count < 1 || count > kMost) {
    return InvalidArgument("since", "'{}' is not a time like 90m, 24h or 30d", since);
  }
  return count * found->second;
}

std::string FormatSavings(const LedgerTotals& totals, double price) {
  std::string table =
      fmt::format("{:<16} {:<20} {:<20} {:>9} {:>14} {:>8} {:>8} {:>14} {:>13} {:>12} {:>12}", "tenant", "key", "model",
                  "requests", "prompt tokens", "cached", "best", "written", "output tokens", "saved s", "beyond RR s");
  table += price > 0 ? fmt::format(" {:>12} {:>12}\n", "saved", "beyond RR") : "\n";
  for (const auto& [name, counts] : totals) {
    const auto& [tenant, key, model] = name;
    table += TableLine(Printable(tenant), Printable(key), Printable(model), counts, price);
  }
  return table + TableLine("all", "", "", SumOf(totals), price);
}

int RunSavings(const SavingsOptions& options, std::int64_t unix_seconds, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Error& error, int code) {
    err << "roostctl savings: " << error.ToString() << '\n';
    return code;
  };
  if (options.folders.empty()) return fail(InvalidArgument("DIR", "name a folder of ledgers"), kExitUsage);
  std::int64_t first_hour = 0;
  if (!options.since.empty()) {
    const Result<std::int64_t> seconds = SecondsOf(options.since);
    if (!seconds.ok()) return fail(seconds.error(), kExitUsage);
    first_hour = (unix_seconds - *seconds) / kHourSeconds;
  }
  const Result<LedgerSum> sum = AddUpLedgers(options.folders, first_hour);
  if (!sum.ok()) return fail(sum.error(), 1);
  std::optional<OwnCaches> own;
  if (!options.recording.empty()) {
    Result<OwnCaches> simulated = SimulateOwnCaches(options);
    if (!simulated.ok()) return fail(simulated.error(), kExitUsage);
    own = *simulated;
  }
  constexpr std::size_t kNamed = 10;
  for (std::size_t i = 0; i < std::min(sum->damaged.size(), kNamed); ++i) {
    err << "roostctl savings: " << sum->damaged[i] << " is no row of a ledger\n";
  }
  if (sum->damaged.size() > kNamed) {
    err << fmt::format("roostctl savings: and {} lines more\n", sum->damaged.size() - kNamed);
  }
  if (sum->file_count == 0) err << "roostctl savings: there is no ledger\n";
  if (options.json) {
    out << JsonOf(sum->totals, own);
  } else {
    out << FormatSavings(sum->totals, options.price_per_worker_hour);
    if (own) out << OwnCachesLine(options, *own, SumOf(sum->totals));
  }
  return sum->damaged.empty() ? 0 : 1;
}

}  // namespace roost::roostctl
