// `roostctl match`, `roostctl warm` and `roostctl prefixes`: shows what workers hold, and fills their caches.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/prompt_options.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct MatchOptions : PromptOptions {
  bool json = false;  // the router's answer as it is
};

struct WarmOptions : PromptOptions {
  std::string workers = "all";  // or best, or names separated by commas
  std::string source;           // the worker that they fetch from; empty: for each the best holder
};

struct PrefixesOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string model;  // empty: all
  std::uint32_t top = 20;
  bool json = false;  // the router's answer as it is
};

// The bodies of POST /admin/v1/match and /admin/v1/warm. `messages_json` is the file's content.
[[nodiscard]] Result<std::string> MatchBody(const PromptOptions& options, std::string_view messages_json);
[[nodiscard]] Result<std::string> WarmBody(const WarmOptions& options, std::string_view messages_json);
[[nodiscard]] std::string PrefixesPath(const PrefixesOptions& options);

// The answers as text for people. kDataLoss when they are not answers of the router.
[[nodiscard]] Result<std::string> FormatMatch(std::string_view answer_json);
[[nodiscard]] Result<std::string> FormatWarm(std::string_view answer_json);
[[nodiscard]] Result<std::string> FormatPrefixes(std::string_view answer_json);

// Ask the router and print. Return the exit code: 0 when the router answered; for a warm-up, when every worker now
// holds the prompt.
int RunMatch(const MatchOptions& options, std::ostream& out, std::ostream& err);
int RunWarm(const WarmOptions& options, std::ostream& out, std::ostream& err);
int RunPrefixes(const PrefixesOptions& options, std::ostream& out, std::ostream& err);

extern const Command kMatchCommand;
extern const Command kWarmCommand;
extern const Command kPrefixesCommand;

}  // namespace roost::roostctl
