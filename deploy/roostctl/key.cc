#include "deploy/roostctl/key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ostream>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/link_keys.h"
#include "deploy/roostctl/percent.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"
#include "router/access/api_key.h"
#include "router/api/key_file.h"

namespace roost::roostctl {
namespace {

Error NotWritten(const std::string& path) {
  return {ErrorCode::kUnavailable,
          errno == EEXIST ? "is there already; a key is never overwritten"
                          : fmt::format("can not be written: {}", std::strerror(errno)),
          path};
}

// With the rights of a secret from its first byte on.
Result<void> WriteSecret(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return NotWritten(path);
  const bool is_written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  Result<void> written = is_written ? Result<void>() : NotWritten(path);
  close(file);
  if (!is_written) unlink(path.c_str());
  return written;
}

int RunLinkKeyCommand(Arguments arguments, const Console& console) {
  LinkKeyOptions options;
  ConfigParser parser("roostctl key link",
                      "Makes a key for one end of the link between routers and workers: writes the secret key to a "
                      "file, and prints the line for the peers file of the other end.");
  parser.AddPositional("NAME", options.name, "Whose key it is")
      .AddChoice("role", options.role, {"worker", "router"}, "What has that name")
      .Add("out", options.out, "File for the secret key, which must not be there yet; NAME.key when empty")
      .AddList("workers", options.workers,
               "Names that a worker with the key may have, like w1 or gpu-*; by default NAME")
      .AddList("models", options.models, "Models that it may serve; by default all");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (options.name.empty()) {
    console.err << "roostctl key link: give a name\n";
    return kExitUsage;
  }
  return RunLinkKey(options, console.out, console.err);
}

}  // namespace

const Command kLinkKeyCommand{"link", "make a key of the link", &RunLinkKeyCommand};

int RunLinkKey(const LinkKeyOptions& options, std::ostream& out, std::ostream& err) {
  const wire::LinkKeyPair pair = wire::MakeLinkKeyPair();
  const std::string path = options.out.empty() ? options.name + ".key" : options.out;
  if (const Result<void> written = WriteSecret(path, wire::LinkKeyFile(pair, options.name)); !written.ok()) {
    err << "roostctl key link: " << written.error().ToString() << '\n';
    return 1;
  }
  wire::LinkPeer peer{pair.public_key, {}, {}};
  if (options.role == "worker") {
    peer.workers = options.workers.empty() ? std::vector<std::string>{options.name} : options.workers;
    peer.models = options.models.empty() ? std::vector<std::string>{"*"} : options.models;
  }
  out << wire::LinkPeerLine(peer) << '\n';
  return 0;
}

namespace {

std::uint64_t LimitOf(std::uint64_t flag) { return flag == 0 ? router::kNoLimit : flag; }

Result<std::string> AskUsage(const RouterAccess& admin) {
  HttpClient client(admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/admin/v1/usage"));
  if (response.status != 200) return RefusalOf(response);
  return FormatUsage(response.body);
}

int RunNewKeyCommand(Arguments arguments, const Console& console) {
  NewKeyOptions options;
  ConfigParser parser("roostctl key new",
                      "Makes an API key. Prints its line for the file of --api-keys or --admin-keys on stdout, and the "
                      "key itself, once, on stderr.");
  parser.AddPositional("NAME", options.name, "Name of the key, for metrics and usage")
      .Add("tenant", options.tenant, "Keys of one tenant share its cache; by default the key's name")
      .Add("max-priority", options.max_priority, "The highest priority that a request may ask for", {0, 100})
      .Add("max-retention-seconds", options.max_retention_seconds,
           "The longest time for which a request may keep its prompt's blocks; 0: none", {0, kMostRetentionSeconds})
      .AddList("models", options.models, "Models that it may use, such as demo-model or qwen*; all by default")
      .Add("requests-per-minute", options.requests_per_minute, "Requests a minute; 0: no limit")
      .Add("tokens-per-minute", options.tokens_per_minute, "Tokens of prompts and answers a minute; 0: no limit")
      .Add("cached-token-weight", options.cached_token_weight,
           "Part of a token of these that one of a prompt counts for which was cached", {0, 1})
      .Add("max-concurrent-requests", options.max_concurrent_requests, "Requests at a time; 0: no limit");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunNewKey(options, console.out, console.err);
}

int RunUsageCommand(Arguments arguments, const Console& console) {
  RouterAccess admin{kDefaultAdminUrl};
  ConfigParser parser("roostctl usage", "Prints what each API key has used since the router began.");
  DeclareAdmin(admin, parser);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunUsage(admin, console.out, console.err);
}

// Its own commands stand behind it.
int RunKeyCommand(Arguments arguments, const Console& console) {
  const std::string_view kind = arguments.size() > 1 ? arguments[1] : "";
  for (const Command* command : {&kNewKeyCommand, &kLinkKeyCommand}) {
    if (command->name == kind) return command->run(arguments.subspan(1), console);
  }
  console.err << "roostctl key: say what to make: roostctl key new NAME, or roostctl key link NAME\n";
  return kExitUsage;
}

}  // namespace

const Command kKeyCommand{"key", "make an API key, or a key of the link", &RunKeyCommand};
const Command kNewKeyCommand{"new", "make an API key", &RunNewKeyCommand};
const Command kUsageCommand{"usage", "what the API keys have used", &RunUsageCommand};

int RunNewKey(const NewKeyOptions& options, std::ostream& out, std::ostream& err) {
  router::ApiKey key;
  key.name = options.name;
  key.tenant = options.tenant.empty() ? options.name : options.tenant;
  key.max_priority = options.max_priority;
  key.max_retention_ms = options.max_retention_seconds * 1000;
  key.models = options.models;
  key.limits = {LimitOf(options.requests_per_minute), LimitOf(options.tokens_per_minute),
                LimitOf(options.max_concurrent_requests), options.cached_token_weight};
  const std::string secret = router::NewKeySecret();
  key.digest = router::DigestOfSecret(secret);
  const std::string line = router::KeyLine(key);
  // The router's own reader judges the line.
  if (const auto read = router::ParseKeyFile(line, "key"); !read.ok()) {
    err << "roostctl key new: " << read.error().message << "\n";
    return kExitUsage;
  }
  out << line << "\n";
  err << "The key, which is shown this once:\n" << secret << "\n";
  return 0;
}

Result<std::string> FormatUsage(std::string_view usage_json) {
  const json::Document body(usage_json);
  const auto keys = json::At<json::Array>(body.root(), "keys");
  if (!keys) return DataLoss("/admin/v1/usage", "the answer holds no list of keys");
  std::string table = fmt::format("{:<24} {:>10} {:>10} {:>15} {:>15} {:>7} {:>14}\n", "key", "requests", "refused",
                                  "prompt tokens", "cached tokens", "cached", "output tokens");
  for (const json::Element key : *keys) {
    const auto name = json::At<std::string_view>(key, "name");
    if (!name) continue;
    const std::uint64_t prompt = CountAt(key, "prompt_tokens");
    const std::uint64_t cached = CountAt(key, "cached_tokens");
    const double share = Percent(cached, prompt);
    table += fmt::format("{:<24} {:>10} {:>10} {:>15} {:>15} {:>6.1f}% {:>14}\n", *name, CountAt(key, "requests"),
                         CountAt(key, "refused_requests"), prompt, cached, share, CountAt(key, "output_tokens"));
  }
  if (keys->size() == 0) table += "(no keys)\n";
  return table;
}

int RunUsage(const RouterAccess& admin, std::ostream& out, std::ostream& err) {
  const Result<std::string> table = AskUsage(admin);
  if (!table.ok()) {
    err << "roostctl usage: " << table.error().ToString() << "\n";
    return 1;
  }
  out << *table;
  return 0;
}

}  // namespace roost::roostctl
