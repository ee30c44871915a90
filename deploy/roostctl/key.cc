#include "deploy/roostctl/key.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <ostream>

#include "deploy/roostctl/http_client.h"
#include "deploy/roostctl/refusal.h"
#include "router/access/api_key.h"
#include "router/api/key_file.h"

namespace roost::roostctl {
namespace {

constexpr int kExitUsage = 64;

std::uint64_t LimitOf(std::uint64_t flag) { return flag == 0 ? router::kNoLimit : flag; }

std::uint64_t Count(simdjson::dom::element object, const char* key) {
  std::uint64_t value = 0;
  return object[key].get(value) == simdjson::SUCCESS ? value : 0;
}

Result<std::string> AskUsage(const RouterAccess& admin) {
  HttpClient client(admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/admin/v1/usage"));
  if (response.status != 200) return RefusalOf(response);
  return FormatUsage(response.body);
}

}  // namespace

int RunNewKey(const NewKeyOptions& options, std::ostream& out, std::ostream& err) {
  router::ApiKey key;
  key.name = options.name;
  key.tenant = options.tenant.empty() ? options.name : options.tenant;
  key.max_priority = options.max_priority;
  key.models = options.models;
  key.limits = {LimitOf(options.requests_per_minute), LimitOf(options.tokens_per_minute),
                LimitOf(options.max_concurrent_requests)};
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
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  simdjson::dom::array keys;
  if (parser.parse(simdjson::padded_string(usage_json)).get(body) != simdjson::SUCCESS ||
      body["keys"].get(keys) != simdjson::SUCCESS) {
    return DataLoss("/admin/v1/usage", "the answer holds no list of keys");
  }
  std::string table = fmt::format("{:<24} {:>10} {:>10} {:>15} {:>15} {:>7} {:>14}\n", "key", "requests", "refused",
                                  "prompt tokens", "cached tokens", "cached", "output tokens");
  for (const simdjson::dom::element key : keys) {
    std::string_view name;
    if (key["name"].get(name) != simdjson::SUCCESS) continue;
    const std::uint64_t prompt = Count(key, "prompt_tokens");
    const std::uint64_t cached = Count(key, "cached_tokens");
    const double share = prompt == 0 ? 0 : 100 * static_cast<double>(cached) / static_cast<double>(prompt);
    table += fmt::format("{:<24} {:>10} {:>10} {:>15} {:>15} {:>6.1f}% {:>14}\n", name, Count(key, "requests"),
                         Count(key, "refused_requests"), prompt, cached, share, Count(key, "output_tokens"));
  }
  if (keys.size() == 0) table += "(no keys)\n";
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
