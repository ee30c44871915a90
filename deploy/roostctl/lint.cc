#include "deploy/roostctl/file_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <ostream>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "common/json/json_read.h"
#include "common/prefix/block_hash.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/workload/json_lines.h"
#include "router/record/recorder.h"

namespace roost::roostctl {
namespace {

constexpr int kHexadecimal = 16;

struct Recorded {
  double arrival_seconds = 0;
  std::uint64_t tenant = 0;
  std::string model;
  std::uint32_t block_tokens = 0;
  std::uint64_t input_tokens = 0;
  std::vector<std::uint64_t> blocks;  // of prompt and answer
};

std::optional<std::uint64_t> HashIn(std::string_view text) {
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, kHexadecimal);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return hash;
}

Result<Recorded> Read(json::Element object) {
  Recorded read;
  const auto arrival = json::At<double>(object, "arrival");
  const auto model = json::At<std::string_view>(object, "model");
  const auto block_tokens = json::At<std::uint32_t>(object, "block_tokens");
  const auto input = json::At<std::uint64_t>(object, "input");
  const auto tenant = HashIn(json::At<std::string_view>(object, "tenant").value_or(""));
  if (!arrival || !model || !input || !tenant || !block_tokens || !IsValidBlockTokens(*block_tokens)) {
    return DataLoss("", "no request of a recording: arrival, model, block_tokens, input and tenant are needed");
  }
  read = {*arrival, *tenant, std::string(*model), *block_tokens, *input, {}};
  for (const json::Element block : json::ElementsAt(object, "blocks")) {
    const auto hash = HashIn(json::At<std::string_view>(block, "").value_or(""));
    if (!hash) return DataLoss("", "blocks must be hashes in hexadecimal");
    read.blocks.push_back(*hash);
  }
  if (read.blocks.size() < read.input_tokens / read.block_tokens) {
    return DataLoss("", "blocks must name the {} full blocks of the prompt", read.input_tokens / read.block_tokens);
  }
  return read;
}

// A block with all before it, or the beginning of a tenant's prompts.
struct Front {
  std::uint64_t token = 0;  // behind it
  std::uint64_t requests = 0;
  std::vector<std::uint64_t> rests;  // tokens that those computed which parted here
};

// The fronts of one tenant's prompts of one model.
class Fronts {
 public:
  // Returns the tokens that the request computes.
  std::uint64_t Add(const Recorded& request) {
    Front* front = &begin_;
    ++front->requests;
    const std::size_t prompt_blocks = request.input_tokens / request.block_tokens;
    std::size_t at = 0;
    for (; at < prompt_blocks; ++at) {
      const auto found = by_block_.find(request.blocks[at]);
      if (found == by_block_.end()) break;
      front = &found->second;
      ++front->requests;
    }
    const std::uint64_t rest = request.input_tokens - front->token;
    if (at < prompt_blocks) front->rests.push_back(rest);
    for (; at < request.blocks.size(); ++at) {
      Front& next = by_block_[request.blocks[at]];
      next.token = (at + 1) * request.block_tokens;
      if (at < prompt_blocks) ++next.requests;
    }
    return rest;
  }

  template <typename Visit>
  void ForEach(Visit visit) {
    visit(begin_);
    for (auto& [block, front] : by_block_) visit(front);
  }

 private:
  Front begin_;
  std::unordered_map<std::uint64_t, Front> by_block_;
};

Parting PartingAt(Front& front) {
  std::sort(front.rests.begin(), front.rests.end());
  Parting parting{.tenant = {}, .model = {}, .token = front.token, .requests = front.requests};
  parting.parted = front.rests.size();
  for (const std::uint64_t rest : front.rests) parting.computed_tokens += rest;
  const auto at = [&front](std::size_t tenths) { return front.rests[(front.rests.size() - 1) * tenths / 10]; };
  parting.short_tokens = at(1);
  parting.median_tokens = at(5);
  parting.long_tokens = at(9);
  return parting;
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.1f} %", whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string Sentence(const Parting& parting, const LintResult& result, const LintOptions& options) {
  std::string text = fmt::format("{}: ", Printable(parting.model));
  if (!parting.tenant.empty()) text += fmt::format("tenant {}: ", Printable(parting.tenant));
  text += fmt::format(
      "token {} of about {} differs in {} of {} requests that are equal up to there: their rests cost {} of all "
      "prefill",
      parting.token, parting.token + parting.median_tokens, Percent(parting.parted, parting.requests), parting.requests,
      Percent(parting.computed_tokens, result.computed_tokens));
  if (options.prefill_tokens_per_second > 0) {
    text += fmt::format(", {:.1f} s", static_cast<double>(parting.computed_tokens) /
                                          static_cast<double>(options.prefill_tokens_per_second));
  }
  return text + '\n';
}

int RunLintCommand(Arguments arguments, const Console& console) {
  LintOptions options;
  ConfigParser parser(
      "roostctl lint",
      "Finds the places in recorded traffic (roost-router --record) where many prompts part and go on with "
      "nearly equal lengths, as they do behind a date in a system prompt, and what that costs. Nothing is "
      "known of their texts: roostctl prefix-diff shows where two prompts part.");
  parser.AddPositional("RECORDING", options.recording, "File that a router recorded")
      .AddList("tenants", options.tenants, "Tenants whose names are shown; a recording has their hashes alone")
      .Add("prefill-tokens-per-second", options.prefill_tokens_per_second,
           "Speed of a worker, to print seconds; 0: shares alone", {0, 1e9})
      .Add("most", options.most, "Places that are printed", {1, 10'000});
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (options.recording.empty()) {
    console.err << "roostctl lint: RECORDING: name a file that a router recorded\n";
    return kExitUsage;
  }
  return RunLint(options, console.out, console.err);
}

}  // namespace

const Command kLintCommand{"lint", "where recorded prompts part, and what it costs", &RunLintCommand};

bool Parting::IsSuspicious() const {
  constexpr std::uint64_t kFewRequests = 10;
  constexpr std::uint64_t kShortRest = 64;  // tokens: as a question has
  return parted >= kFewRequests && short_tokens >= kShortRest && 5 * short_tokens >= 4 * long_tokens;
}

Result<LintResult> Lint(const LintOptions& options) {
  std::vector<Recorded> requests;
  ROOST_RETURN_IF_ERROR(workload::ForEachJsonLine(options.recording, [&](json::Element object) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(Recorded read, Read(object));
    requests.push_back(std::move(read));
    return {};
  }));
  std::stable_sort(requests.begin(), requests.end(),
                   [](const Recorded& a, const Recorded& b) { return a.arrival_seconds < b.arrival_seconds; });
  std::map<std::uint64_t, std::string> names{{0, ""}};
  for (const std::string& tenant : options.tenants) names[router::RecordedHashOf(tenant)] = tenant;
  LintResult result;
  std::map<std::pair<std::uint64_t, std::string>, Fronts> by_tenant;
  for (const Recorded& request : requests) {
    ++result.requests;
    result.prompt_tokens += request.input_tokens;
    result.computed_tokens += by_tenant[{request.tenant, request.model}].Add(request);
  }
  for (auto& [scope, fronts] : by_tenant) {
    const auto name = names.find(scope.first);
    const std::string tenant = name == names.end() ? fmt::format("{:x}", scope.first) : name->second;
    fronts.ForEach([&, &model = scope.second](Front& front) {
      if (front.rests.empty()) return;
      Parting parting = PartingAt(front);
      if (!parting.IsSuspicious()) return;
      parting.tenant = tenant;
      parting.model = model;
      result.partings.push_back(std::move(parting));
    });
  }
  std::sort(result.partings.begin(), result.partings.end(), [](const Parting& a, const Parting& b) {
    return std::pair(b.computed_tokens, a.token) < std::pair(a.computed_tokens, b.token);
  });
  return result;
}

std::string FormatLint(const LintResult& result, const LintOptions& options) {
  std::string text;
  for (const Parting& parting : result.partings) {
    if (&parting - result.partings.data() == static_cast<std::ptrdiff_t>(options.most)) break;
    text += Sentence(parting, result, options);
  }
  return text + fmt::format("{} requests; a cache that never evicts computes {} of their {} prompt tokens; {} places\n",
                            result.requests, Percent(result.computed_tokens, result.prompt_tokens),
                            result.prompt_tokens, result.partings.size());
}

int RunLint(const LintOptions& options, std::ostream& out, std::ostream& err) {
  const Result<LintResult> result = Lint(options);
  if (!result.ok()) {
    err << "roostctl lint: " << result.error().ToString() << '\n';
    return 1;
  }
  out << FormatLint(*result, options);
  return 0;
}

}  // namespace roost::roostctl
