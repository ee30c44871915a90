#include "deploy/roostctl/transfers.h"

#include <fmt/format.h>

#include <optional>
#include <ostream>

#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

std::string StartText(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.1f} ms", *seconds * 1e3) : "-";
}

std::string PauseText(double seconds) { return seconds > 0 ? fmt::format("{:.0f} s", seconds + 0.5) : "-"; }

std::string OutcomeText(json::Element pair) {
  if (pair["last_outcome"].is_null()) return "-";
  const std::string outcome = Printable(TextAt(pair, "/last_outcome"));
  const auto cause = json::At<std::string_view>(pair, "last_cause");
  return cause ? fmt::format("{} ({})", outcome, Printable(*cause)) : outcome;
}

std::string PairLine(json::Element pair) {
  const std::optional<double> rate = SecondsAt(pair, "/bytes_per_second");
  return fmt::format(
      "{:<24} {:<24} {:<20} {:>10} {:>9} {:>9} {:>7} {:>7} {:>7}  {}\n", Printable(TextAt(pair, "/from")),
      Printable(TextAt(pair, "/to")), Printable(TextAt(pair, "/model")), rate ? RateText(*rate) : "-",
      StartText(SecondsAt(pair, "/start_seconds")), CountAt(pair, "/in_flight"), CountAt(pair, "/done"),
      CountAt(pair, "/failed"), PauseText(SecondsAt(pair, "/paused_seconds").value_or(0)), OutcomeText(pair));
}

Result<std::string> Ask(const TransfersOptions& options) {
  HttpClient client(options.admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/admin/v1/transfers"));
  if (response.status != 200) return RefusalOf(response);
  return options.json ? response.body + "\n" : FormatTransfers(response.body);
}

int RunTransfersCommand(Arguments arguments, const Console& console) {
  TransfersOptions options;
  ConfigParser parser(
      "roostctl transfers",
      "Prints the pairs of workers between which blocks of prompts travelled, the last one first, as this router has "
      "learned them: from which worker to which, how many bytes per second, how long until the first one, Holds in "
      "flight, done and failed, for how long the router leaves the pair alone, and how and why the last Hold ended.");
  DeclareAdmin(options.admin, parser);
  parser.AddSwitch("json", options.json, "Print the router's answer: an object for programs");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunTransfers(options, console.out, console.err);
}

}  // namespace

const Command kTransfersCommand{"transfers", "the pairs of workers between which blocks travel", &RunTransfersCommand};

std::string RateText(double bytes_per_second) {
  if (bytes_per_second >= 1e9) return fmt::format("{:.1f} GB/s", bytes_per_second * 1e-9);
  return fmt::format("{:.1f} MB/s", bytes_per_second * 1e-6);
}

Result<std::string> FormatTransfers(std::string_view transfers_json) {
  const json::Document body(transfers_json);
  const auto pairs = json::At<json::Array>(body.root(), "pairs");
  if (!pairs) return DataLoss("/admin/v1/transfers", "the answer holds no list of pairs");
  std::string table = fmt::format("{:<24} {:<24} {:<20} {:>10} {:>9} {:>9} {:>7} {:>7} {:>7}  {}\n", "from", "to",
                                  "model", "rate", "start", "in flight", "done", "failed", "paused", "last");
  for (const json::Element pair : *pairs) table += PairLine(pair);
  if (pairs->size() == 0) table += "(no blocks have travelled)\n";
  if (TextAt(body.root(), "/pulls") == "off") {
    table += "pulls are off (roost-router --pulls off): requests fetch no blocks; copies and warm-ups do\n";
  }
  return table;
}

int RunTransfers(const TransfersOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> table = Ask(options);
  if (!table.ok()) {
    err << "roostctl transfers: " << table.error().ToString() << '\n';
    return 1;
  }
  out << *table;
  return 0;
}

}  // namespace roost::roostctl
