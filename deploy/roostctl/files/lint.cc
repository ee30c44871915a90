#include "deploy/roostctl/files/file_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <ostream>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/json/json_read.h"
#include "common/prefix/block_hash.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/percent.h"
#include "deploy/roostctl/workload/json_lines.h"
#include "router/record/recorder.h"

namespace roost::roostctl {
namespace {

constexpr int kHexadecimal = 16;

struct Recorded {
  double arrival_seconds = 0;
  std::string key;
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
  read = {.arrival_seconds = *arrival,
          .key = std::string(json::At<std::string_view>(object, "key").value_or("")),
          .tenant = *tenant,
          .model = std::string(*model),
          .block_tokens = *block_tokens,
          .input_tokens = *input,
          .blocks = {}};
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

// A block with all before it, or the beginning of a key's prompts.
struct Front {
  std::uint64_t token = 0;  // behind it
  std::uint64_t requests = 0;
  std::vector<std::uint64_t> rests;  // tokens that those computed which parted here
};

// All blocks that a request has had.
class Known {
 public:
  // The leading blocks of the prompt that are known. Then all of the request are.
  std::size_t Add(const Recorded& request) {
    const std::size_t prompt_blocks = request.input_tokens / request.block_tokens;
    std::size_t count = 0;
    while (count < prompt_blocks && blocks_.contains(request.blocks[count])) ++count;
    blocks_.insert(request.blocks.begin(), request.blocks.end());
    return count;
  }

 private:
  std::unordered_set<std::uint64_t> blocks_;
};

// The fronts of one key's prompts of one model.
class Fronts {
 public:
  // `known`: its leading blocks that a request of any key has had.
  void Add(const Recorded& request, std::size_t known) {
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
    if (at < prompt_blocks && at == known) front->rests.push_back(request.input_tokens - front->token);
    for (; at < request.blocks.size(); ++at) {
      Front& next = by_block_[request.blocks[at]];
      next.token = (at + 1) * request.block_tokens;
      if (at < prompt_blocks) ++next.requests;
    }
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
  Parting parting{.key = {}, .tenant = {}, .model = {}, .token = front.token, .requests = front.requests};
  parting.parted = front.rests.size();
  for (const std::uint64_t rest : front.rests) parting.computed_tokens += rest;
  const auto at = [&front](std::size_t tenths) { return front.rests[(front.rests.size() - 1) * tenths / 10]; };
  parting.short_tokens = at(1);
  parting.median_tokens = at(5);
  parting.long_tokens = at(9);
  return parting;
}

std::string PercentText(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.1f} %", Percent(part, whole));
}

std::string Sentence(const Parting& parting, const LintResult& result, const LintOptions& options) {
  std::string text = fmt::format("{}: ", Printable(parting.model));
  if (!parting.key.empty()) {
    text += fmt::format("key {}: ", Printable(parting.key));
  } else if (!parting.tenant.empty()) {
    text += fmt::format("tenant {}: ", Printable(parting.tenant));
  }
  text += fmt::format(
      "token {} of about {} differs in {} of {} requests that are equal up to there: their rests cost {} of all "
      "prefill",
      parting.token, parting.token + parting.median_tokens, PercentText(parting.parted, parting.requests),
      parting.requests, PercentText(parting.computed_tokens, result.computed_tokens));
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
      .AddList("tenants", options.tenants,
               "Tenants whose names are shown where a recording has no keys; it has their hashes alone")
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
  Known known;
  std::map<std::tuple<std::string, std::uint64_t, std::string>, Fronts> by_key;  // with tenant and model
  for (const Recorded& request : requests) {
    ++result.requests;
    result.prompt_tokens += request.input_tokens;
    const std::size_t known_blocks = known.Add(request);
    result.computed_tokens += request.input_tokens - known_blocks * request.block_tokens;
    by_key[{request.key, request.tenant, request.model}].Add(request, known_blocks);
  }
  for (auto& [scope, fronts] : by_key) {
    const auto& [key, hash, model] = scope;
    const auto name = names.find(hash);
    const std::string tenant = name == names.end() ? fmt::format("{:x}", hash) : name->second;
    fronts.ForEach([&, &key = key, &model = model](Front& front) {
      if (front.rests.empty()) return;
      Parting parting = PartingAt(front);
      if (!parting.IsSuspicious()) return;
      parting.key = key;
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
                            result.requests, PercentText(result.computed_tokens, result.prompt_tokens),
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
