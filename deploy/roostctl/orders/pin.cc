#include "deploy/roostctl/orders/order_commands.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <ostream>
#include <utility>

#include "common/base/json_writer.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

constexpr std::uint64_t kSecondMs = 1000;
constexpr std::uint64_t kDayMs = 24 * 3600 * kSecondMs;
// The router's limit.
constexpr std::uint64_t kMaxDurationMs = 366 * kDayMs;

constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
    {"ms", 1}, {"s", kSecondMs}, {"m", 60 * kSecondMs}, {"h", 3600 * kSecondMs}, {"d", kDayMs}};

std::string_view NameOf(PinVerb verb) { return verb == PinVerb::kPin ? "pin" : "unpin"; }

std::string WorkerText(PinVerb verb, json::Element worker) {
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
std::string BlockText(PinVerb verb, json::Element worker) {
  if (!FlagAt(worker, "/answered")) return "no answer";
  const bool is_kept = CountAt(worker, "/kept_blocks") > 0;
  if (verb == PinVerb::kUnpin) return is_kept ? "still pinned, because pinned blocks follow it" : "not pinned";
  if (is_kept) return "kept, with all blocks before it";
  if (CountAt(worker, "/pending_blocks") > 0) return "not there; kept once a request has computed it";
  return "refused";
}

std::string BlockPinText(PinVerb verb, std::string_view hash, json::Array workers) {
  std::string text = fmt::format("{} of block {}\n", NameOf(verb), hash);
  for (const json::Element worker : workers) {
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
  const json::Document answer(answer_json);
  const auto workers = json::At<json::Array>(answer.root(), "workers");
  if (!workers) return DataLoss("answer", "it lacks workers");
  if (const auto hash = json::At<std::string_view>(answer.root(), "hash")) return BlockPinText(verb, *hash, *workers);
  const auto blocks = json::At<std::uint64_t>(answer.root(), "blocks");
  const auto tokens = json::At<std::uint64_t>(answer.root(), "tokens");
  if (!blocks || !tokens) return DataLoss("answer", "it lacks blocks or tokens");
  std::string text = fmt::format("{} of {} blocks ({} tokens)\n", NameOf(verb), *blocks, *tokens);
  for (const json::Element worker : *workers) {
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
