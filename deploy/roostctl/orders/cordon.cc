#include "deploy/roostctl/orders/order_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

// A drain asks again this often, so that it can tell what is left, and that no connection is silent for long.
constexpr double kAskSeconds = 2;

std::string_view NameOf(CordonVerb verb) {
  switch (verb) {
    case CordonVerb::kCordon: return "cordon";
    case CordonVerb::kUncordon: return "uncordon";
    case CordonVerb::kDrain: break;
  }
  return "drain";
}

std::string RequestsLeft(const CordonReport& report) {
  if (report.is_idle) return "no request is left there";
  return fmt::format("requests left there: {} running, {} waiting", report.running_requests, report.waiting_requests);
}

Result<CordonReport> AskToCordon(HttpClient& client, CordonVerb verb, const std::string& worker, double wait_seconds) {
  JsonWriter body;
  body.BeginObject().Key("worker").String(worker);
  if (verb == CordonVerb::kDrain) body.Key("wait_ms").Number(static_cast<std::uint64_t>(1000 * wait_seconds));
  body.EndObject();
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response,
                         client.PostJson(fmt::format("/admin/v1/{}", NameOf(verb)), body.Take()));
  if (response.status != 200) return RefusalOf(response);
  return ReadCordonAnswer(response.body);
}

// The last answer: the worker is idle, or the time is over.
Result<CordonReport> AskUntilIdle(const CordonOptions& options, std::ostream& err) {
  const SteadyClock clock;
  const Instant end = clock.Now() + FromSeconds(options.wait_seconds);
  HttpClient client(options.admin, 60);
  std::string told;
  while (true) {
    const double left = std::max(0.0, ToSeconds(end - clock.Now()));
    ROOST_ASSIGN_OR_RETURN(CordonReport report,
                           AskToCordon(client, CordonVerb::kDrain, options.worker, std::min(left, kAskSeconds)));
    if (report.is_idle || clock.Now() >= end) return report;
    if (std::string now = RequestsLeft(report); now != told) {
      told = std::move(now);
      err << report.worker << ": " << told << std::endl;
    }
  }
}

Result<CordonReport> CarryOut(CordonVerb verb, const CordonOptions& options, std::ostream& err) {
  if (verb == CordonVerb::kDrain) return AskUntilIdle(options, err);
  HttpClient client(options.admin, 60);
  return AskToCordon(client, verb, options.worker, 0);
}

int RunCordonVerb(CordonVerb verb, const char* description, Arguments arguments, const Console& console) {
  CordonOptions options;
  ConfigParser parser(fmt::format("roostctl {}", NameOf(verb)), description);
  DeclareAdmin(options.admin, parser);
  parser.AddPositional("WORKER", options.worker, "The worker's name, as roostctl status shows it");
  if (verb == CordonVerb::kDrain) {
    parser.Add("wait", options.wait_seconds, "Seconds to wait until the worker has no request any more",
               {.low = 0, .high = 30 * 24 * 3600});
  }
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (options.worker.empty()) {
    console.err << "roostctl " << NameOf(verb) << ": give the name of a worker\n";
    return kExitUsage;
  }
  return RunCordon(verb, options, console.out, console.err);
}

int RunCordonCommand(Arguments arguments, const Console& console) {
  return RunCordonVerb(CordonVerb::kCordon,
                       "Takes a worker out of service: no router sends it new requests. Those that it has go on, and "
                       "its cache stays. It holds until roostctl uncordon, or until the worker's process ends.",
                       arguments, console);
}

int RunUncordonCommand(Arguments arguments, const Console& console) {
  return RunCordonVerb(CordonVerb::kUncordon, "Puts a cordoned worker back into service.", arguments, console);
}

int RunDrainCommand(Arguments arguments, const Console& console) {
  return RunCordonVerb(CordonVerb::kDrain,
                       "Cordons a worker and waits until no request of any router is left there. Exits with 1 if some "
                       "are left after --wait; the worker stays cordoned then too.",
                       arguments, console);
}

}  // namespace

const Command kCordonCommand{"cordon", "take a worker out of service", &RunCordonCommand};
const Command kUncordonCommand{"uncordon", "put a worker back into service", &RunUncordonCommand};
const Command kDrainCommand{"drain", "cordon a worker and wait for its requests", &RunDrainCommand};

Result<CordonReport> ReadCordonAnswer(std::string_view answer_json) {
  const json::Document document(answer_json);
  const json::Element answer = document.root();
  const auto worker = json::At<std::string_view>(answer, "worker");
  const auto answered = json::At<bool>(answer, "answered");
  if (!worker || !answered) return DataLoss("answer", "it lacks worker or answered");
  if (!*answered) return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", *worker, TextAt(answer, "/reason")), ""};
  return CordonReport{.worker = std::string(*worker),
                      .is_cordoned = FlagAt(answer, "/cordoned"),
                      .is_idle = FlagAt(answer, "/idle"),
                      .running_requests = CountAt(answer, "/running_requests"),
                      .waiting_requests = CountAt(answer, "/waiting_requests")};
}

std::string FormatCordonReport(const CordonReport& report) {
  if (!report.is_cordoned) return fmt::format("{} takes requests\n", report.worker);
  return fmt::format("{} is cordoned; {}\n", report.worker, RequestsLeft(report));
}

int RunCordon(CordonVerb verb, const CordonOptions& options, std::ostream& out, std::ostream& err) {
  const Result<CordonReport> report = CarryOut(verb, options, err);
  if (!report.ok()) {
    err << "roostctl " << NameOf(verb) << ": " << report.error().ToString() << '\n';
    return 1;
  }
  out << FormatCordonReport(*report);
  const bool is_waited_for = verb == CordonVerb::kDrain && options.wait_seconds > 0;
  return is_waited_for && !report->is_idle ? 1 : 0;
}

}  // namespace roost::roostctl
