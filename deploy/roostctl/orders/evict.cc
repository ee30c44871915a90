#include "deploy/roostctl/orders/order_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "common/base/json_writer.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/prompt_body.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

std::string EvictionText(json::Element worker) {
  if (!FlagAt(worker, "/answered")) return std::string(TextAt(worker, "/reason"));
  const std::uint64_t busy = CountAt(worker, "/busy_blocks");
  std::string text = fmt::format("{} blocks", CountAt(worker, "/evicted_blocks"));
  if (busy > 0) text += fmt::format(", and {} that are free when running requests end", busy);
  if (const std::uint64_t on_disk = CountAt(worker, "/disk_blocks"); on_disk > 0) {
    text += fmt::format("; {} on its disk", on_disk);
  }
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
  const json::Document body(usage->body);
  const auto keys = json::At<json::Array>(body.root(), "keys");
  return keys && std::none_of(keys->begin(), keys->end(),
                              [tenant](json::Element key) { return TextAt(key, "/tenant") == tenant; });
}

Result<EvictReport> AskToEvict(const EvictOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const std::string body, EvictBody(options));
  HttpClient client(options.admin, 60);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.PostJson("/admin/v1/evict", body));
  if (response.status != 200) return RefusalOf(response);
  ROOST_ASSIGN_OR_RETURN(EvictReport report, FormatEvictAnswer(response.body));
  const bool had_none = report.block_count + report.disk_block_count == 0;
  if (report.is_complete && had_none && !options.tenant.empty() && IsUnknownTenant(client, options.tenant)) {
    return InvalidArgument("tenant", "'{}' is unknown: no worker held blocks of it, and no API key has it",
                           options.tenant);
  }
  if (report.is_complete && had_none && !options.hash.empty()) {
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
  const json::Document answer(answer_json);
  const auto evicted = json::At<std::uint64_t>(answer.root(), "evicted_blocks");
  const auto workers = json::At<json::Array>(answer.root(), "workers");
  if (!evicted || !workers) return DataLoss("answer", "it lacks evicted_blocks or workers");
  EvictReport report{.text = {},
                     .is_complete = true,
                     .block_count = *evicted + CountAt(answer.root(), "/busy_blocks"),
                     .disk_block_count = CountAt(answer.root(), "/disk_blocks")};
  report.text = fmt::format("evicted {} blocks\n", report.block_count);
  for (const json::Element worker : *workers) {
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

}  // namespace roost::roostctl
