#include "deploy/roostctl/status.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>

#include "common/base/byte_size.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

std::string_view Text(simdjson::dom::element object, const char* key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? value : "?";
}

std::uint64_t Count(simdjson::dom::element object, const char* key) {
  std::uint64_t value = 0;
  return object[key].get(value) == simdjson::SUCCESS ? value : 0;
}

bool Flag(simdjson::dom::element object, const char* key) {
  bool value = false;
  return object[key].get(value) == simdjson::SUCCESS && value;
}

// The first digits tell revisions apart, as in the router's log.
constexpr std::size_t kRevisionDigits = 12;
std::string_view RevisionOf(simdjson::dom::element worker) {
  return Text(worker, "fingerprint").substr(0, kRevisionDigits);
}

// Whether workers of one model serve different weights, as during an upgrade.
bool HasSeveralRevisions(simdjson::dom::array workers) {
  std::map<std::string_view, std::string_view> revisions;
  return std::any_of(workers.begin(), workers.end(), [&](simdjson::dom::element worker) {
    const auto [known, is_first] = revisions.try_emplace(Text(worker, "model"), RevisionOf(worker));
    return known->second != RevisionOf(worker);
  });
}

// The router's view of the worker's cache, or that its snapshot is still to come.
std::string_view View(simdjson::dom::element worker) {
  const std::string_view mode = Text(worker, "mode");
  return mode == "exact" && !Flag(worker, "index_in_sync") ? "syncing" : mode;
}

// An older router tells no state.
std::string_view StateOf(simdjson::dom::element worker) {
  std::string_view state;
  if (worker["state"].get(state) == simdjson::SUCCESS) return state;
  return Flag(worker, "ready") ? "ready" : "starting";
}

// Says why a worker takes few requests. Empty if it takes enough, or the router does not tell.
std::string IdleLine(simdjson::dom::element worker) {
  std::string_view why;
  std::uint64_t taken = 0;
  std::uint64_t of = 0;
  if (worker["share"]["why"].get(why) != simdjson::SUCCESS ||
      worker["share"]["taken"].get(taken) != simdjson::SUCCESS || worker["share"]["of"].get(of) != simdjson::SUCCESS) {
    return "";
  }
  return fmt::format("{} takes {} of the last {} requests of {}: {}\n", Text(worker, "id"), taken, of,
                     Text(worker, "model"), why);
}

// Blocks that other workers send it, and that it sends them. Empty if none are on their way.
std::string TravelLine(simdjson::dom::element worker) {
  const std::uint64_t arriving = Count(worker, "arriving_bytes");
  const std::uint64_t leaving = Count(worker, "leaving_bytes");
  if (arriving + leaving == 0) return "";
  return fmt::format("{} exchanges blocks with other workers: {} to come, {} to send\n", Text(worker, "id"),
                     ByteSizeText(arriving), ByteSizeText(leaving));
}

// "6 s", "4 min"
std::string Age(double seconds) {
  constexpr double kMinute = 60;
  return seconds < kMinute ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / kMinute);
}

std::string FateOf(simdjson::dom::element lost) {
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

// The workers that were lost in the last ten minutes. An older router tells none.
std::string LostTable(simdjson::dom::element body) {
  const std::vector<simdjson::dom::element> lost = ListAt(body, "/lost");
  if (lost.empty()) return "";
  std::string table =
      fmt::format("\n{:<24} {:<20} {:<24} {:<12} {}\n", "lost worker", "model", "when", "why", "its requests");
  for (const simdjson::dom::element worker : lost) {
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
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  simdjson::dom::array workers;
  if (parser.parse(simdjson::padded_string(workers_json)).get(body) != simdjson::SUCCESS ||
      body["workers"].get(workers) != simdjson::SUCCESS) {
    return DataLoss("/admin/v1/workers", "the answer holds no list of workers");
  }
  const bool shows_revisions = HasSeveralRevisions(workers);
  std::string table;
  std::string_view verdict;  // an older router has none
  if (body.at_pointer("/verdict/text").get(verdict) == simdjson::SUCCESS) table = Printable(verdict) + "\n\n";
  table += fmt::format("{:<24} {:<20} {:<9} {:<9} {:>8} {:>8} {:>9} {:>15} {:>7} {:>9}{}\n", "worker", "model", "state",
                       "index", "running", "waiting", "in flight", "cached/blocks", "pinned", "requests",
                       shows_revisions ? "  revision" : "");
  for (const simdjson::dom::element worker : workers) {
    const std::string blocks = fmt::format("{}/{}", Count(worker, "cached_blocks"), Count(worker, "blocks"));
    const std::string revision = shows_revisions ? fmt::format("  {}", RevisionOf(worker)) : "";
    table += fmt::format("{:<24} {:<20} {:<9} {:<9} {:>8} {:>8} {:>9} {:>15} {:>7} {:>9}{}\n", Text(worker, "id"),
                         Text(worker, "model"), StateOf(worker), View(worker), Count(worker, "running_requests"),
                         Count(worker, "waiting_requests"), Count(worker, "in_flight_requests"), blocks,
                         Count(worker, "pinned_blocks"), Count(worker, "requests_total"), revision);
  }
  if (workers.size() == 0) table += "(no workers)\n";
  for (const simdjson::dom::element worker : workers) table += IdleLine(worker) + TravelLine(worker);
  return table + LostTable(body);
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
