#include "deploy/roostctl/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>

#include "common/base/byte_size.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/percent.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"
#include "deploy/roostctl/transfers.h"

namespace roost::roostctl {
namespace {

// The first digits tell revisions apart, as in the router's log.
constexpr std::size_t kRevisionDigits = 12;
std::string_view RevisionOf(json::Element worker) { return TextAt(worker, "fingerprint").substr(0, kRevisionDigits); }

// True if workers of one model serve different weights, as during an upgrade.
bool HasSeveralRevisions(json::Array workers) {
  std::map<std::string_view, std::string_view> revisions;
  return std::any_of(workers.begin(), workers.end(), [&](json::Element worker) {
    const auto [known, is_first] = revisions.try_emplace(TextAt(worker, "model"), RevisionOf(worker));
    return known->second != RevisionOf(worker);
  });
}

// The router's view of the worker's cache, or that its snapshot is still to come.
std::string_view View(json::Element worker) {
  const std::string_view mode = TextAt(worker, "mode");
  return mode == "exact" && !FlagAt(worker, "index_in_sync") ? "syncing" : mode;
}

// Says why a worker takes few requests. Empty if it takes enough, or the router does not tell.
std::string IdleLine(json::Element worker) {
  const auto why = json::At<std::string_view>(worker, "/share/why");
  if (!why) return "";
  return fmt::format("{} takes {} of the last {} requests of {}: {}\n", TextAt(worker, "id"),
                     CountAt(worker, "/share/taken"), CountAt(worker, "/share/of"), TextAt(worker, "model"), *why);
}

// Workers that do not tell what they cache, together by the reason.
std::string AbsenceLines(json::Array workers) {
  std::map<std::string_view, std::string> by_reason;
  for (const json::Element worker : workers) {
    const std::string_view reason = json::At<std::string_view>(worker, "cache_absence").value_or("");
    if (reason.empty()) continue;
    std::string& names = by_reason[reason];
    names += fmt::format("{}{}", names.empty() ? "" : ", ", TextAt(worker, "id"));
  }
  std::string lines;
  for (const auto& [reason, names] : by_reason) {
    lines += fmt::format("{}: the cache is not known: {}\n", Printable(names), Printable(reason));
  }
  return lines;
}

// The workers of each role, where some have another one than `both`.
std::string RolesLine(json::Array workers) {
  std::map<std::string_view, std::string> by_role;
  for (const json::Element worker : workers) {
    std::string& names = by_role[json::At<std::string_view>(worker, "role").value_or("both")];
    names += fmt::format("{}{}", names.empty() ? "" : ", ", TextAt(worker, "id"));
  }
  if (by_role.empty() || (by_role.size() == 1 && by_role.contains("both"))) return "";
  std::string line = "roles:";
  for (const auto& [role, names] : by_role) {
    line += fmt::format("{} {}: {}", line.ends_with(':') ? "" : ";", Printable(role), Printable(names));
  }
  return line + '\n';
}

// Blocks that other workers send it, and that it sends them. Empty if none are on their way.
std::string TravelLine(json::Element worker) {
  const std::uint64_t arriving = CountAt(worker, "arriving_bytes");
  const std::uint64_t leaving = CountAt(worker, "leaving_bytes");
  if (arriving + leaving == 0) return "";
  return fmt::format("{} exchanges blocks with other workers: {} to come, {} to send\n", TextAt(worker, "id"),
                     ByteSizeText(arriving), ByteSizeText(leaving));
}

// An engine's cache that is known in part, and what came from behind it. Empty for others.
std::string HitLines(json::Element worker) {
  std::string lines;
  if (const double share = json::At<double>(worker, "told_share").value_or(0); share > 0) {
    lines += fmt::format("{} knew {:.0f} % of what the last requests found in its engine's cache\n",
                         TextAt(worker, "id"), share * 100);
  }
  if (const std::uint64_t tokens = CountAt(worker, "tier_cached_tokens_total"); tokens > 0) {
    lines += fmt::format("{} took {} tokens from a tier behind its engine's cache\n", TextAt(worker, "id"), tokens);
  }
  return lines;
}

// The blocks on its disk, and how fast they come. Empty without one.
std::string DiskLine(json::Element worker) {
  const std::uint64_t blocks = CountAt(worker, "disk_blocks");
  const double rate = json::At<double>(worker, "disk_bytes_per_second").value_or(0);
  if (blocks == 0 && rate <= 0) return "";
  return fmt::format("{} has {} blocks on its disk{}\n", TextAt(worker, "id"), blocks,
                     rate > 0 ? fmt::format(", {}", RateText(rate)) : ", which is off");
}

// The hit rate of all workers in time, and in tokens of this router's requests. Empty until a worker knows its speed.
std::string HitRateLine(json::Array workers) {
  double saved = 0;
  double computed = 0;
  std::uint64_t prompt = 0;
  std::uint64_t cached = 0;
  for (const json::Element worker : workers) {
    saved += json::At<double>(worker, "saved_prefill_seconds_total").value_or(0);
    computed += json::At<double>(worker, "computed_prefill_seconds_total").value_or(0);
    prompt += CountAt(worker, "prompt_tokens_total");
    cached += CountAt(worker, "cached_tokens_total");
  }
  if (saved + computed <= 0) return "";
  std::string line = fmt::format("hit rate: {:.0f} % of the prompts' prefill time", 100 * saved / (saved + computed));
  if (prompt > 0) line += fmt::format(", {:.0f} % of their tokens", Percent(cached, prompt));
  return line + '\n';
}

// "6 s", "4 min"
std::string Age(double seconds) {
  constexpr double kMinute = 60;
  return seconds < kMinute ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / kMinute);
}

std::string FateOf(json::Element lost) {
  std::string text;
  const auto add = [&](const char* member, std::string_view what) {
    const std::uint64_t count = CountAt(lost, member);
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add("/moved_requests", "continue elsewhere");
  add("/waiting_requests", "wait");
  add("/failed_requests", "failed");
  return text.empty() ? "none" : text;
}

// The workers that were lost in the last ten minutes.
std::string LostTable(json::Element body) {
  const std::vector<json::Element> lost = json::ElementsAt(body, "/lost");
  if (lost.empty()) return "";
  std::string table =
      fmt::format("\n{:<24} {:<20} {:<24} {:<12} {}\n", "lost worker", "model", "when", "why", "its requests");
  for (const json::Element worker : lost) {
    const std::string when = fmt::format("{} ago{}", Age(SecondsAt(worker, "/seconds_ago").value_or(0)),
                                         FlagAt(worker, "/back") ? ", it is back" : "");
    table += fmt::format("{:<24} {:<20} {:<24} {:<12} {}\n", Printable(TextAt(worker, "/id")),
                         Printable(TextAt(worker, "/model")), when, TextAt(worker, "/reason"), FateOf(worker));
  }
  return table;
}

Result<std::string> Ask(const StatusOptions& options) {
  HttpClient client(options.admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/admin/v1/workers"));
  if (response.status != 200) return RefusalOf(response);
  return options.json ? response.body + "\n" : FormatStatus(response.body);
}

int RunStatusCommand(Arguments arguments, const Console& console) {
  StatusOptions options;
  ConfigParser parser("roostctl status",
                      "Prints how a router stands in a line, then the workers that it knows: state, load and cached "
                      "blocks, and those that it lost in the last ten minutes.");
  DeclareAdmin(options.admin, parser);
  parser.AddSwitch("json", options.json, "Print the router's answer: an object for programs");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunStatus(options, console.out, console.err);
}

}  // namespace

const Command kStatusCommand{"status", "the workers that a router knows", &RunStatusCommand};

Result<std::string> FormatStatus(std::string_view workers_json) {
  const json::Document body(workers_json);
  const auto workers = json::At<json::Array>(body.root(), "workers");
  if (!workers) return DataLoss("/admin/v1/workers", "the answer holds no list of workers");
  const bool shows_revisions = HasSeveralRevisions(*workers);
  const auto verdict = json::At<std::string_view>(body.root(), "/verdict/text");
  std::string table = verdict ? Printable(*verdict) + "\n\n" : "";
  table += fmt::format("{:<24} {:<20} {:<9} {:<9} {:>8} {:>8} {:>9} {:>15} {:>7} {:>9}{}\n", "worker", "model", "state",
                       "index", "running", "waiting", "in flight", "cached/blocks", "pinned", "requests",
                       shows_revisions ? "  revision" : "");
  for (const json::Element worker : *workers) {
    const std::string blocks = fmt::format("{}/{}", CountAt(worker, "cached_blocks"), CountAt(worker, "blocks"));
    const std::string revision = shows_revisions ? fmt::format("  {}", RevisionOf(worker)) : "";
    table +=
        fmt::format("{:<24} {:<20} {:<9} {:<9} {:>8} {:>8} {:>9} {:>15} {:>7} {:>9}{}\n", TextAt(worker, "id"),
                    TextAt(worker, "model"), TextAt(worker, "state"), View(worker), CountAt(worker, "running_requests"),
                    CountAt(worker, "waiting_requests"), CountAt(worker, "in_flight_requests"), blocks,
                    CountAt(worker, "pinned_blocks"), CountAt(worker, "requests_total"), revision);
  }
  if (workers->size() == 0) table += "(no workers)\n";
  for (const json::Element worker : *workers) {
    table += IdleLine(worker) + TravelLine(worker) + DiskLine(worker) + HitLines(worker);
  }
  return table + HitRateLine(*workers) + RolesLine(*workers) + AbsenceLines(*workers) + LostTable(body.root());
}

int RunStatus(const StatusOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> table = Ask(options);
  if (!table.ok()) {
    err << "roostctl status: " << table.error().ToString() << '\n';
    return 1;
  }
  out << *table;
  return 0;
}

}  // namespace roost::roostctl
