#include "deploy/roostctl/order_commands.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <ostream>
#include <utility>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/prompt_body.h"
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
  simdjson::dom::parser parser;
  simdjson::dom::element answer;
  std::string_view worker;
  bool answered = false;
  if (parser.parse(simdjson::padded_string(answer_json)).get(answer) != simdjson::SUCCESS ||
      answer["worker"].get(worker) != simdjson::SUCCESS || answer["answered"].get(answered) != simdjson::SUCCESS) {
    return DataLoss("answer", "it lacks worker or answered");
  }
  if (!answered) return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", worker, TextAt(answer, "/reason")), ""};
  return CordonReport{.worker = std::string(worker),
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

namespace {

std::string EvictionText(simdjson::dom::element worker) {
  if (!FlagAt(worker, "/answered")) return std::string(TextAt(worker, "/reason"));
  const std::uint64_t busy = CountAt(worker, "/busy_blocks");
  std::string text = fmt::format("{} blocks", CountAt(worker, "/evicted_blocks"));
  if (busy > 0) text += fmt::format(", and {} that are free when running requests end", busy);
  return text;
}

Result<void> CheckFlags(const EvictOptions& options, bool has_text, bool has_prompt) {
  if (!options.hash.empty()) {
    if (!has_prompt && options.tenant.empty() && options.cache_salt.empty()) return {};
    return InvalidArgument("hash", "can not be given together with a prompt, --tenant or --cache-salt");
  }
  if (!has_prompt && options.tenant.empty()) {
    return InvalidArgument("prompt", "give --tenant, --hash, --prefix, --prompt or --messages");
  }
  if (has_text && !options.prefix_file.empty()) {
    return InvalidArgument("prefix", "can not be given together with --prompt or --messages");
  }
  if (has_prompt && options.model.empty()) return InvalidArgument("model", "name the model that the prompt is for");
  if (!has_prompt && !options.cache_salt.empty()) {
    return InvalidArgument("cache-salt", "is of a prompt; a tenant is evicted with all its salts");
  }
  return {};
}

// `object` is a JSON object with members.
Result<std::string> WithMembersOf(const EvictOptions& options, std::string object) {
  ROOST_ASSIGN_OR_RETURN(const PromptBody prompt, ReadPromptBody(options.prefix_file));
  if (!prompt.cache_salt.empty() && !options.cache_salt.empty()) {
    return InvalidArgument("cache-salt", "{} has a cache_salt too", prompt.name);
  }
  object.back() = ',';
  return object + prompt.members + '}';
}

// True if a tenant that evicted nothing is unknown. A key that was withdrawn may have left blocks, so a tenant is
// unknown only if it has neither blocks nor a key. Without an answer about keys nothing is known.
bool IsUnknownTenant(HttpClient& client, std::string_view tenant) {
  const Result<HttpResponse> usage = client.Get("/admin/v1/usage");
  if (!usage.ok() || usage->status != 200) return false;
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  simdjson::dom::array keys;
  if (parser.parse(simdjson::padded_string(usage->body)).get(body) != simdjson::SUCCESS ||
      body["keys"].get(keys) != simdjson::SUCCESS) {
    return false;
  }
  return std::none_of(keys.begin(), keys.end(),
                      [tenant](simdjson::dom::element key) { return TextAt(key, "/tenant") == tenant; });
}

Result<EvictReport> AskToEvict(const EvictOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const std::string body, EvictBody(options));
  HttpClient client(options.admin, 60);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.PostJson("/admin/v1/evict", body));
  if (response.status != 200) return RefusalOf(response);
  ROOST_ASSIGN_OR_RETURN(EvictReport report, FormatEvictAnswer(response.body));
  if (report.is_complete && report.block_count == 0 && !options.tenant.empty() &&
      IsUnknownTenant(client, options.tenant)) {
    return InvalidArgument("tenant", "'{}' is unknown: no worker held blocks of it, and no API key has it",
                           options.tenant);
  }
  if (report.is_complete && report.block_count == 0 && !options.hash.empty()) {
    return InvalidArgument("hash", "no worker had block {}", options.hash);
  }
  return report;
}

int RunEvictCommand(Arguments arguments, const Console& console) {
  EvictOptions options;
  ConfigParser parser(
      "roostctl evict",
      "Erases a prompt or a block with all that continues it, or everything of a tenant, from the workers' caches. "
      "Pins do not prevent it. Exits with 0 if every worker has done it.");
  DeclareAnyPrompt(options, parser);
  parser.Add("prefix", options.prefix_file, "File with the prompt: a text, an array of messages, or a request's body")
      .Add("hash", options.hash, "Block as roostctl prefixes prints it, in place of a prompt")
      .Add("tenant", options.tenant, "Whose prompt it is; without a prompt: everything of this tenant")
      .Add("cache-salt", options.cache_salt, "The cache_salt of the prompt's requests")
      .Add("workers", options.workers, "Which workers: all, or names with commas between them");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunEvict(options, console.out, console.err);
}

}  // namespace

const Command kEvictCommand{"evict", "erase a prompt, a block or a tenant from the caches", &RunEvictCommand};

Result<std::string> EvictBody(const EvictOptions& options) {
  const bool has_text = !options.prompt.empty() || !options.messages_file.empty();
  const bool has_prompt = has_text || !options.prefix_file.empty();
  ROOST_RETURN_IF_ERROR(CheckFlags(options, has_text, has_prompt));
  JsonWriter body;
  body.BeginObject();
  if (has_prompt) {
    WriteScope(options, body);
  } else {
    if (!options.model.empty()) body.Key("model").String(options.model);
    if (options.hash.empty()) {
      body.Key("tenant").String(options.tenant);
    } else {
      body.Key("hash").String(options.hash);
    }
  }
  WriteWorkers(options.workers, body);
  if (has_text) {
    ROOST_ASSIGN_OR_RETURN(const std::string messages, ReadMessages(options));
    ROOST_RETURN_IF_ERROR(WritePrompt(options, messages, body));
  }
  body.EndObject();
  if (options.prefix_file.empty()) return body.Take();
  return WithMembersOf(options, body.Take());
}

Result<EvictReport> FormatEvictAnswer(std::string_view answer_json) {
  simdjson::dom::parser parser;
  simdjson::dom::element answer;
  std::uint64_t evicted = 0;
  simdjson::dom::array workers;
  if (parser.parse(simdjson::padded_string(answer_json)).get(answer) != simdjson::SUCCESS ||
      answer["evicted_blocks"].get(evicted) != simdjson::SUCCESS ||
      answer["workers"].get(workers) != simdjson::SUCCESS) {
    return DataLoss("answer", "it lacks evicted_blocks or workers");
  }
  EvictReport report{.text = {}, .is_complete = true, .block_count = evicted + CountAt(answer, "/busy_blocks")};
  report.text = fmt::format("evicted {} blocks\n", report.block_count);
  for (const simdjson::dom::element worker : workers) {
    report.is_complete = report.is_complete && FlagAt(worker, "/answered");
    report.text += fmt::format("  {:<24} {}\n", TextAt(worker, "/worker"), EvictionText(worker));
  }
  return report;
}

int RunEvict(const EvictOptions& options, std::ostream& out, std::ostream& err) {
  const Result<EvictReport> report = AskToEvict(options);
  if (!report.ok()) {
    err << "roostctl evict: " << report.error().ToString() << '\n';
    return 1;
  }
  out << report->text;
  if (report->is_complete) return 0;
  err << "roostctl evict: not all workers have erased it\n";
  return 1;
}

namespace {

constexpr std::uint64_t kSecondMs = 1000;
constexpr std::uint64_t kDayMs = 24 * 3600 * kSecondMs;
// The router's limit.
constexpr std::uint64_t kMaxDurationMs = 366 * kDayMs;

constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
    {"ms", 1}, {"s", kSecondMs}, {"m", 60 * kSecondMs}, {"h", 3600 * kSecondMs}, {"d", kDayMs}};

std::string_view NameOf(PinVerb verb) { return verb == PinVerb::kPin ? "pin" : "unpin"; }

std::string WorkerText(PinVerb verb, simdjson::dom::element worker) {
  if (!FlagAt(worker, "/answered")) return "no answer";
  const std::uint64_t kept = CountAt(worker, "/kept_blocks");
  if (verb == PinVerb::kUnpin) {
    return kept == 0 ? "none of them is pinned"
                     : fmt::format("{} still pinned, because pinned blocks follow them", kept);
  }
  return fmt::format("kept {}, {} more once they are computed, refused {}", kept, CountAt(worker, "/pending_blocks"),
                     CountAt(worker, "/refused_blocks"));
}

// The order named one block; the worker's counts are of it.
std::string BlockText(PinVerb verb, simdjson::dom::element worker) {
  if (!FlagAt(worker, "/answered")) return "no answer";
  const bool is_kept = CountAt(worker, "/kept_blocks") > 0;
  if (verb == PinVerb::kUnpin) return is_kept ? "still pinned, because pinned blocks follow it" : "not pinned";
  if (is_kept) return "kept, with all blocks before it";
  if (CountAt(worker, "/pending_blocks") > 0) return "not there; kept once a request has computed it";
  return "refused";
}

std::string BlockPinText(PinVerb verb, std::string_view hash, simdjson::dom::array workers) {
  std::string text = fmt::format("{} of block {}\n", NameOf(verb), hash);
  for (const simdjson::dom::element worker : workers) {
    text += fmt::format("  {:<24} {}\n", TextAt(worker, "/worker"), BlockText(verb, worker));
  }
  return text;
}

Result<void> CheckFlags(const PinOptions& options) {
  if (options.hash.empty()) return {};
  const bool is_alone =
      options.prompt.empty() && options.messages_file.empty() && options.tenant.empty() && options.cache_salt.empty();
  if (is_alone) return {};
  return InvalidArgument("hash", "can not be given together with --prompt, --messages, --tenant or --cache-salt");
}

void DeclareHash(PinOptions& options, ConfigParser& parser) {
  parser.Add("hash", options.hash, "Block as roostctl prefixes prints it, in place of a prompt");
}

Result<std::string> Ask(PinVerb verb, const PinOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const std::string messages, ReadMessages(options));
  ROOST_ASSIGN_OR_RETURN(const std::string body, PinBody(options, messages));
  HttpClient client(options.admin, 60);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.PostJson(fmt::format("/admin/v1/{}", NameOf(verb)), body));
  if (response.status != 200) return RefusalOf(response);
  return FormatPinAnswer(verb, response.body);
}

int RunPinCommand(Arguments arguments, const Console& console) {
  PinOptions options;
  ConfigParser parser(
      "roostctl pin",
      "Keeps the blocks of a prompt, or a block with all before it, in the workers' caches: cached blocks "
      "at once, the others once a request has computed them. Prints what each worker kept.");
  DeclarePrompt(options, parser);
  DeclareHash(options, parser);
  parser.Add("duration", options.duration, "How long, like 30s, 10m or 2h; until unpinned when empty")
      .Add("workers", options.workers, kWorkersHelp);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunPin(PinVerb::kPin, options, console.out, console.err);
}

int RunUnpinCommand(Arguments arguments, const Console& console) {
  PinOptions options;
  ConfigParser parser("roostctl unpin", "Removes the pin of a prompt, or of a block, on all workers of the model.");
  DeclarePrompt(options, parser);
  DeclareHash(options, parser);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunPin(PinVerb::kUnpin, options, console.out, console.err);
}

}  // namespace

const Command kPinCommand{"pin", "keep a prompt in the workers' caches", &RunPinCommand};
const Command kUnpinCommand{"unpin", "remove a pin", &RunUnpinCommand};

Result<std::uint64_t> ParseDuration(std::string_view text) {
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [unit_begin, error] = std::from_chars(text.data(), end, count);
  const std::string_view unit(unit_begin, static_cast<std::size_t>(end - unit_begin));
  for (const auto& [name, unit_ms] : kUnits) {
    if (error != std::errc() || unit != name) continue;
    if (count > 0 && count <= kMaxDurationMs / unit_ms) return count * unit_ms;
  }
  return InvalidArgument("duration", "'{}' is not a time like 30s, 10m or 2h, at most 366d", text);
}

Result<std::string> PinBody(const PinOptions& options, std::string_view messages_json) {
  ROOST_RETURN_IF_ERROR(CheckFlags(options));
  JsonWriter body;
  body.BeginObject();
  WriteScope(options, body);
  WriteWorkers(options.workers, body);
  if (!options.duration.empty()) {
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t duration_ms, ParseDuration(options.duration));
    body.Key("duration_ms").Number(duration_ms);
  }
  if (options.hash.empty()) {
    ROOST_RETURN_IF_ERROR(WritePrompt(options, messages_json, body));
  } else {
    body.Key("hash").String(options.hash);
  }
  body.EndObject();
  return body.Take();
}

Result<std::string> FormatPinAnswer(PinVerb verb, std::string_view answer_json) {
  simdjson::dom::parser parser;
  simdjson::dom::element answer;
  std::uint64_t blocks = 0;
  std::uint64_t tokens = 0;
  simdjson::dom::array workers;
  std::string_view hash;
  if (parser.parse(simdjson::padded_string(answer_json)).get(answer) != simdjson::SUCCESS ||
      answer["workers"].get(workers) != simdjson::SUCCESS) {
    return DataLoss("answer", "it lacks workers");
  }
  if (answer["hash"].get(hash) == simdjson::SUCCESS) return BlockPinText(verb, hash, workers);
  if (answer["blocks"].get(blocks) != simdjson::SUCCESS || answer["tokens"].get(tokens) != simdjson::SUCCESS) {
    return DataLoss("answer", "it lacks blocks or tokens");
  }
  std::string text = fmt::format("{} of {} blocks ({} tokens)\n", NameOf(verb), blocks, tokens);
  for (const simdjson::dom::element worker : workers) {
    text += fmt::format("  {:<24} {}\n", TextAt(worker, "/worker"), WorkerText(verb, worker));
  }
  return text;
}

int RunPin(PinVerb verb, const PinOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> line = Ask(verb, options);
  if (!line.ok()) {
    err << "roostctl " << NameOf(verb) << ": " << line.error().ToString() << '\n';
    return 1;
  }
  out << *line;
  return 0;
}

}  // namespace roost::roostctl
