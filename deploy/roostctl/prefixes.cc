#include "deploy/roostctl/prefixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <vector>

#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"
#include "deploy/roostctl/transfers.h"

namespace roost::roostctl {
namespace {

using json::Element;

// A prompt may take long to compute; the router has its own limit.
constexpr double kWarmSeconds = 3600;
constexpr const char* kJsonHelp = "Print the router's answer: an object for programs";

Result<Element> RootOf(const json::Document& answer, const char* list) {
  if (!json::At<json::Array>(answer.root(), list)) return DataLoss("answer", "it has no list of {}", list);
  return answer.root();
}

std::string ChoiceText(Element answer) {
  if (answer["choice"].is_null()) return "no worker takes requests now\n";
  const std::optional<double> seconds = SecondsAt(answer, "/choice/ttft_seconds");
  return fmt::format("would go to {} now, by {}: {}; first token after {}\n", TextAt(answer, "/choice/worker"),
                     TextAt(answer, "/choice/policy"), TextAt(answer, "/choice/reason"),
                     seconds.has_value() ? fmt::format("{:.1f} ms", *seconds * 1e3) : "an unknown time");
}

// ", 93 pulled from worker-a in 95 ms (1.8 GB/s)"; with the reason where not all that was wanted came.
std::string PulledText(Element worker) {
  if (!json::At<Element>(worker, "pull")) return "";
  const std::string from = Printable(TextAt(worker, "/pull/from"));
  const std::string_view outcome = TextAt(worker, "/pull/outcome");
  const std::uint64_t blocks = CountAt(worker, "/pull/blocks");
  if (blocks == 0) return fmt::format(", none pulled from {}: {}", from, Printable(outcome));
  const double seconds = SecondsAt(worker, "/pull/seconds").value_or(0);
  std::string text = fmt::format(", {} pulled from {} in {:.0f} ms", blocks, from, seconds * 1e3);
  if (seconds > 0)
    text += fmt::format(" ({})", RateText(static_cast<double>(CountAt(worker, "/pull/bytes")) / seconds));
  return outcome == "complete" ? text : text + fmt::format(", then: {}", Printable(outcome));
}

std::string WarmLine(Element worker) {
  const std::string_view outcome = TextAt(worker, "/outcome");
  if (!FlagAt(worker, "/answered")) return "no answer";
  const std::uint64_t blocks = CountAt(worker, "/held_blocks");
  const std::string pulled = PulledText(worker);
  if (outcome == "held") return fmt::format("held all {} blocks already", blocks);
  if (outcome == "pulled") return fmt::format("holds {} blocks{}", blocks, pulled);
  if (outcome == "computed") {
    return fmt::format("holds {} blocks, computed {} tokens{}", blocks, CountAt(worker, "/computed_tokens"), pulled);
  }
  return fmt::format("refused, holds {} blocks{}: {}", blocks, pulled, Printable(TextAt(worker, "/reason")));
}

std::string PrefixText(Element prefix) {
  std::string workers;
  for (const Element worker : json::ElementsAt(prefix, "/workers")) {
    workers += fmt::format("{}{} {}", workers.empty() ? "" : ", ", TextAt(worker, "/worker"), CountAt(worker, "/hits"));
  }
  // If there are several models, each prefix names its own.
  const auto model = json::At<std::string_view>(prefix, "model");
  if (model) workers = fmt::format("{}: {}", Printable(*model), workers);
  std::string text =
      fmt::format("{:>8} {:>8} {:>9}  {:<32}  {}\n", CountAt(prefix, "/hits"), CountAt(prefix, "/blocks"),
                  CountAt(prefix, "/tokens"), TextAt(prefix, "/hash"), workers);
  for (const char* member : {"begins", "ends"}) {
    const auto shown = json::At<std::string_view>(prefix, member);
    if (shown) text += fmt::format("{:>28} {:<6} \"{}\"\n", "", member, Printable(*shown));
  }
  return text;
}

bool IsWarm(std::string_view answer_json) {
  const json::Document answer(answer_json);
  const auto workers = json::At<json::Array>(answer.root(), "workers");
  return workers && std::all_of(workers->begin(), workers->end(), [](Element worker) {
           return FlagAt(worker, "/answered") && TextAt(worker, "/outcome") != "refused";
         });
}

Result<std::string> Post(const PromptOptions& options, const char* path, const Result<std::string>& body,
                         double timeout_seconds) {
  if (!body.ok()) return body.error();
  HttpClient client(options.admin, timeout_seconds);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.PostJson(path, *body));
  if (response.status != 200) return RefusalOf(response);
  return response.body;
}

Result<std::string> AskMatch(const MatchOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const std::string messages, ReadMessages(options));
  ROOST_ASSIGN_OR_RETURN(const std::string answer, Post(options, "/admin/v1/match", MatchBody(options, messages), 60));
  return options.json ? answer + "\n" : FormatMatch(answer);
}

Result<std::string> AskWarm(const WarmOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const std::string messages, ReadMessages(options));
  return Post(options, "/admin/v1/warm", WarmBody(options, messages), kWarmSeconds);
}

Result<std::string> AskPrefixes(const PrefixesOptions& options) {
  HttpClient client(options.admin, 60);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get(PrefixesPath(options)));
  if (response.status != 200) return RefusalOf(response);
  return options.json ? response.body + "\n" : FormatPrefixes(response.body);
}

int Print(const char* command, const Result<std::string>& text, std::ostream& out, std::ostream& err) {
  if (!text.ok()) {
    err << "roostctl " << command << ": " << text.error().ToString() << '\n';
    return 1;
  }
  out << *text;
  return 0;
}

int RunMatchCommand(Arguments arguments, const Console& console) {
  MatchOptions options;
  ConfigParser parser(
      "roostctl match",
      "Prints what a request with this prompt would find in the workers' caches now, and where it would "
      "go. Runs nothing.");
  DeclarePrompt(options, parser);
  parser.AddSwitch("json", options.json, kJsonHelp);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunMatch(options, console.out, console.err);
}

int RunWarmCommand(Arguments arguments, const Console& console) {
  WarmOptions options;
  ConfigParser parser(
      "roostctl warm",
      "Has workers hold the full blocks of a prompt, so that requests find them: they fetch them from a "
      "worker that does, or compute them. Waits until they have. No answer is generated.");
  DeclarePrompt(options, parser);
  parser.Add("workers", options.workers, kWorkersHelp)
      .Add("from", options.source, "Worker to fetch from; for each worker the best holder when empty");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunWarm(options, console.out, console.err);
}

int RunPrefixesCommand(Arguments arguments, const Console& console) {
  PrefixesOptions options;
  ConfigParser parser("roostctl prefixes",
                      "Prints the prefixes that requests found most often in the workers' caches, with text where the "
                      "router runs with --show-prefix-text.");
  DeclareAdmin(options.admin, parser);
  parser.Add("model", options.model, "Model; all of the router's when empty")
      .Add("top", options.top, "Prefixes, the most used first", {.low = 1, .high = 1000})
      .AddSwitch("json", options.json, kJsonHelp);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunPrefixes(options, console.out, console.err);
}

}  // namespace

const Command kMatchCommand{"match", "what a prompt would hit, and where", &RunMatchCommand};
const Command kWarmCommand{"warm", "have workers fetch or compute a prompt", &RunWarmCommand};
const Command kPrefixesCommand{"prefixes", "the prefixes that are used most", &RunPrefixesCommand};

Result<std::string> MatchBody(const PromptOptions& options, std::string_view messages_json) {
  JsonWriter body;
  body.BeginObject();
  WriteScope(options, body);
  ROOST_RETURN_IF_ERROR(WritePrompt(options, messages_json, body));
  body.EndObject();
  return body.Take();
}

Result<std::string> WarmBody(const WarmOptions& options, std::string_view messages_json) {
  JsonWriter body;
  body.BeginObject();
  WriteScope(options, body);
  WriteWorkers(options.workers, body);
  if (!options.source.empty()) body.Key("from").String(options.source);
  ROOST_RETURN_IF_ERROR(WritePrompt(options, messages_json, body));
  body.EndObject();
  return body.Take();
}

std::string PrefixesPath(const PrefixesOptions& options) {
  std::string path = fmt::format("/admin/v1/prefixes?top={}", options.top);
  if (!options.model.empty()) path += "&model=" + PercentEncode(options.model);
  return path;
}

namespace {

// ": held 1344 tokens, resumable 896". Empty for workers whose hits may end behind any block.
std::string ResumableText(Element worker, std::uint64_t block_tokens) {
  if (!json::At<std::uint64_t>(worker, "resumable_blocks")) return "";
  return fmt::format(": held {} tokens, resumable {}", CountAt(worker, "/held_blocks") * block_tokens,
                     CountAt(worker, "/resumable_blocks") * block_tokens);
}

}  // namespace

Result<std::string> FormatMatch(std::string_view answer_json) {
  const json::Document document(answer_json);
  ROOST_ASSIGN_OR_RETURN(const Element answer, RootOf(document, "workers"));
  std::vector<BlockHolder> holders;
  std::string table = fmt::format("{:<24} {:>8} {:>8} {:>8} {:>14}  {}\n", "worker", "held", "pending", "on disk",
                                  "cached tokens", "index");
  for (const Element worker : json::ElementsAt(answer, "/workers")) {
    const BlockHolder& holder =
        holders.emplace_back(BlockHolder{std::string(TextAt(worker, "/worker")), CountAt(worker, "/held_blocks"),
                                         CountAt(worker, "/pending_blocks"), CountAt(worker, "/disk_blocks")});
    table += fmt::format("{:<24} {:>8} {:>8} {:>8} {:>14}  {}{}\n", holder.name, holder.held_blocks,
                         holder.pending_blocks, holder.disk_blocks, CountAt(worker, "/cached_tokens"),
                         TextAt(worker, "/mode"), ResumableText(worker, CountAt(answer, "/block_tokens")));
  }
  const PromptShape shape{.token_count = CountAt(answer, "/prompt_tokens"),
                          .block_tokens = std::max<std::uint64_t>(1, CountAt(answer, "/block_tokens"))};
  return fmt::format("{}\n{}{}{}", TextAt(answer, "/hit"), ChoiceText(answer), DrawBlockTree(shape, holders, "  "),
                     table);
}

Result<std::string> FormatWarm(std::string_view answer_json) {
  const json::Document document(answer_json);
  ROOST_ASSIGN_OR_RETURN(const Element answer, RootOf(document, "workers"));
  std::string text =
      fmt::format("{} blocks of a prompt of {} tokens\n", CountAt(answer, "/blocks"), CountAt(answer, "/tokens"));
  for (const Element worker : json::ElementsAt(answer, "/workers")) {
    text += fmt::format("  {}: {}\n", TextAt(worker, "/worker"), WarmLine(worker));
  }
  return text;
}

Result<std::string> FormatPrefixes(std::string_view answer_json) {
  const json::Document document(answer_json);
  ROOST_ASSIGN_OR_RETURN(const Element answer, RootOf(document, "prefixes"));
  std::string text =
      fmt::format("{:>8} {:>8} {:>9}  {:<32}  {}\n", "hits", "blocks", "tokens", "hash", "hits by worker");
  const std::vector<Element> prefixes = json::ElementsAt(answer, "/prefixes");
  for (const Element prefix : prefixes) text += PrefixText(prefix);
  const std::vector<Element> workers = json::ElementsAt(answer, "/workers");
  if (prefixes.empty()) text += workers.empty() ? "(no workers)\n" : "(no prefix was found by a request yet)\n";
  for (const Element worker : workers) {
    if (!FlagAt(worker, "/answered")) text += fmt::format("no answer from {}\n", TextAt(worker, "/worker"));
  }
  return text;
}

int RunMatch(const MatchOptions& options, std::ostream& out, std::ostream& err) {
  return Print("match", AskMatch(options), out, err);
}

int RunWarm(const WarmOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> answer = AskWarm(options);
  if (!answer.ok()) return Print("warm", answer, out, err);
  const int code = Print("warm", FormatWarm(*answer), out, err);
  return code == 0 && !IsWarm(*answer) ? 1 : code;
}

int RunPrefixes(const PrefixesOptions& options, std::ostream& out, std::ostream& err) {
  return Print("prefixes", AskPrefixes(options), out, err);
}

}  // namespace roost::roostctl
