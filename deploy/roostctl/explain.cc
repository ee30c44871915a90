#include "deploy/roostctl/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <vector>

#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"
#include "router/route/cache_aware.h"

namespace roost::roostctl {
namespace {

using json::Element;

std::string Milliseconds(std::optional<double> seconds) {
  return seconds.has_value() ? fmt::format("{:.1f} ms", *seconds * 1e3) : "unknown";
}

std::string ReasonText(std::string_view reason) {
  if (reason == "deepest_match") return "it holds the most of the prompt, and none was cheaper by more than a tie";
  if (reason == "least_load") return "nothing useful was cached, or not worth the wait";
  if (reason == "near_tie") {
    return fmt::format("of those within {:g} ms and {:g} % of the cheapest it holds the most, then the shortest queue",
                       1e3 * router::kTieSeconds, 100 * router::kTieShare);
  }
  if (reason == "only_worker") return "no other worker could take it";
  if (reason == "pull") return "it costs least, because it fetches blocks from another worker";
  if (reason == "restore") return "it costs least, because it takes blocks from its disk";
  if (reason == "apart") return "it computes the prompt, and the answer goes on elsewhere: together they cost less";
  if (reason == "replicate") return "and one more copy of its prefix saves more waiting than it costs";
  return "the policy's rule";
}

// Why a prompt was not computed apart.
std::string_view TogetherText(std::string_view why) {
  if (why == "no_prefill_worker") return "no worker for prompts takes requests";
  if (why == "one_token") return "it wants one token";
  if (why == "choices") return "its choices share the prompt's blocks";
  if (why == "cache_off") return "its blocks are not kept";
  if (why == "begun") return "its answer has begun";
  if (why == "unknown_speed") return "no worker's speed is known yet";
  if (why == "few_blocks") return "less than two blocks are to be computed";
  if (why == "no_way") return "no blocks travel from a worker for prompts to one for answers";
  if (why == "price") return "the prompt costs less beside the answers that run there";
  return why;
}

// Empty when the decision makes no copy.
std::string CopyText(Element decision) {
  if (!json::At<json::Object>(decision, "copy")) return "";
  return fmt::format("  copy         of its first {} blocks, by {}; no request waits for it\n",
                     CountAt(decision, "/copy/blocks"), TextAt(decision, "/copy/worker"));
}

// "46 blocks from its disk, predicted 12.0 ms". Empty when none come from there.
std::string RestoreText(Element decision) {
  if (!json::At<json::Object>(decision, "restore")) return "";
  return fmt::format("  restore      of {} blocks from its disk, predicted {}\n", CountAt(decision, "/restore/blocks"),
                     Milliseconds(SecondsAt(decision, "/restore/predicted_seconds")));
}

// "46 blocks from worker-a, predicted 12.0 ms: 46 came in 13.1 ms". Empty when the worker fetches nothing.
std::string PullText(Element decision) {
  const auto pull = json::At<Element>(decision, "pull");
  if (!pull || pull->is_null()) return "";
  std::string actual = "not ended yet";
  if (!(*pull)["actual"].is_null()) {
    actual = fmt::format("{} came in {} ({})", CountAt(*pull, "/actual/blocks"),
                         Milliseconds(SecondsAt(*pull, "/actual/seconds")), TextAt(*pull, "/actual/outcome"));
  }
  return fmt::format("  pull         of {} blocks from {}, predicted {}: {}\n", CountAt(*pull, "/blocks"),
                     TextAt(*pull, "/source"), Milliseconds(SecondsAt(*pull, "/predicted_seconds")), actual);
}

// Empty where no worker is for prompts alone.
std::string ApartText(Element decision) {
  if (json::At<json::Object>(decision, "apart")) {
    return fmt::format("  apart        the answer goes on at {}, {} blocks follow: costs {}, together {}\n",
                       TextAt(decision, "/apart/worker"), CountAt(decision, "/apart/blocks"),
                       Milliseconds(SecondsAt(decision, "/apart/cost_seconds")),
                       Milliseconds(SecondsAt(decision, "/apart/together_seconds")));
  }
  const auto why = json::At<std::string_view>(decision, "together");
  return why ? fmt::format("  together     {}\n", TogetherText(*why)) : "";
}

// "held", "compute" or "pull worker-a".
std::string WayText(Element candidate) {
  const std::string_view way = TextAt(candidate, "/way");
  return way == "pull" ? fmt::format("pull {}", TextAt(candidate, "/source")) : std::string(way);
}

std::string_view NoActualText(Element decision) {
  const std::string_view why = TextAt(decision, "/no_actual");
  if (why == "worker_lost") return "unknown: the worker went away, and the request continued elsewhere";
  if (why == "overloaded") return "unknown: the worker had no room, and the request continued elsewhere";
  if (why == "unavailable") return "unknown: the worker did not take it, and the request continued elsewhere";
  if (why == "request_ended") return "unknown: the request ended before its first token";
  if (why == "not_reported") return "unknown: the engine does not report it";
  return "no token yet";
}

// An answer that has not ended tells of the first token only.
std::string TimesText(Element times) {
  std::string text = fmt::format("first token after {}", Milliseconds(SecondsAt(times, "/ttft_seconds")));
  const auto between = SecondsAt(times, "/itl_seconds");
  if (between.has_value()) text += fmt::format(", {} between tokens", Milliseconds(between));
  const auto whole = SecondsAt(times, "/whole_seconds");
  if (whole.has_value()) text += fmt::format(", whole answer after {}", Milliseconds(whole));
  return text;
}

std::string ActualText(Element decision) {
  if (decision["actual"].is_null()) return std::string(NoActualText(decision));
  std::string text =
      fmt::format("{} cached tokens, {}", CountAt(decision, "/actual/cached_tokens"), TimesText(decision["actual"]));
  const std::uint64_t tokens = CountAt(decision, "/actual/output_tokens");
  return tokens > 0 ? fmt::format("{} with {} tokens", text, tokens) : text;
}

// The hit as it came, before that as it is predicted; and what was known of the candidates' caches at the decision, in
// full blocks. Empty when the router does not report block sizes.
std::string HitText(Element decision) {
  const std::uint64_t block_tokens = CountAt(decision, "/block_tokens");
  if (block_tokens == 0) return "";
  std::vector<BlockHolder> holders;
  for (const Element candidate : json::ElementsAt(decision, "/candidates")) {
    const std::uint64_t matched = CountAt(candidate, "/matched_tokens");
    const std::uint64_t blocks = (matched - std::min(matched, CountAt(candidate, "/pulled_tokens"))) / block_tokens;
    const std::uint64_t pending = std::min(blocks, CountAt(candidate, "/pending_tokens") / block_tokens);
    const std::uint64_t on_disk = CountAt(candidate, "/disk_tokens") / block_tokens;
    holders.push_back(
        {std::string(TextAt(candidate, "/worker")), blocks - pending, pending, on_disk > 0 ? pending + on_disk : 0});
  }
  const PromptShape shape{.token_count = CountAt(decision, "/prompt_tokens"), .block_tokens = block_tokens};
  constexpr std::string_view kIndent = "               ";
  std::string picture = DrawBlockTree(shape, holders, kIndent);
  if (!picture.empty()) picture.replace(0, kIndent.size(), "  known then   ");
  return fmt::format("  hit          {}{}\n{}", TextAt(decision, "/hit"),
                     decision["actual"].is_null() ? ", as predicted" : "", picture);
}

// Empty where nothing is known of a request before it, and nothing was missed.
std::string MissText(Element decision) {
  const auto sentence = json::At<std::string_view>(decision, "/miss/sentence");
  return sentence ? fmt::format("  cache        {}\n", *sentence) : "";
}

// A line for each candidate that held more than a request can go on behind.
std::string ResumableText(Element decision) {
  std::string text;
  for (const Element candidate : json::ElementsAt(decision, "/candidates")) {
    const std::uint64_t held = CountAt(candidate, "/held_tokens");
    const std::uint64_t matched = CountAt(candidate, "/matched_tokens");
    if (held <= matched) continue;
    text += fmt::format("  resumable    {}: held {}, resumable {}\n", TextAt(candidate, "/worker"), held, matched);
  }
  return text;
}

// A column of the table of candidates, for a member of theirs. Those that `is_brief` are always shown.
struct Column {
  enum class Unit : std::uint8_t { kTokens, kMilliseconds, kFactor };

  std::string_view head;
  const char* member;
  Unit unit;
  bool is_brief = false;

  [[nodiscard]] std::string CellOf(Element candidate) const {
    switch (unit) {
      case Unit::kTokens: return fmt::to_string(CountAt(candidate, member));
      case Unit::kMilliseconds: return fmt::format("{:.1f}", SecondsAt(candidate, member).value_or(0) * 1e3);
      case Unit::kFactor: return fmt::format("{:.2f}", SecondsAt(candidate, member).value_or(1));
    }
    return "";
  }
};

constexpr std::array kColumns{
    Column{"matched tokens", "/matched_tokens", Column::Unit::kTokens, true},
    Column{"pending tokens", "/pending_tokens", Column::Unit::kTokens},
    Column{"on disk tokens", "/disk_tokens", Column::Unit::kTokens},
    Column{"queue ms", "/queue_seconds", Column::Unit::kMilliseconds, true},
    Column{"transfer ms", "/transfer_seconds", Column::Unit::kMilliseconds},
    Column{"prefill ms", "/prefill_seconds", Column::Unit::kMilliseconds},
    Column{"decode ms", "/decode_seconds", Column::Unit::kMilliseconds},
    Column{"first token ms", "/ttft_seconds", Column::Unit::kMilliseconds, true},
    Column{"weight", "/congestion", Column::Unit::kFactor},
    Column{"delay ms", "/delay_seconds", Column::Unit::kMilliseconds},
    Column{"stall ms", "/stall_seconds", Column::Unit::kMilliseconds},
    Column{"displaced ms", "/displaced_seconds", Column::Unit::kMilliseconds},
    Column{"pace", "/pace", Column::Unit::kFactor},
    Column{"answer ms", "/answer_seconds", Column::Unit::kMilliseconds, true},
    Column{"pace", "/answer_pace", Column::Unit::kFactor},
    Column{"cost ms", "/cost_seconds", Column::Unit::kMilliseconds, true},
};

// A row for each candidate, the chosen one marked.
std::string CandidatesText(Element decision, ExplainColumns columns) {
  static constexpr std::size_t kLeastWidth = 9;
  const auto row = [columns](char mark, std::string_view worker, std::string_view way, auto cell) {
    std::string text = fmt::format("{} {:<20} {:<14}", mark, worker, way);
    for (const Column& column : kColumns) {
      if (columns == ExplainColumns::kBrief && !column.is_brief) continue;
      text += fmt::format(" {:>{}}", cell(column), std::max(column.head.size(), kLeastWidth));
    }
    return text + '\n';
  };
  std::string text = row(' ', "candidate", "way", [](const Column& column) { return std::string(column.head); });
  for (const Element candidate : json::ElementsAt(decision, "candidates")) {
    const std::string_view worker = TextAt(candidate, "/worker");
    text += row(worker == TextAt(decision, "/worker") ? '*' : ' ', worker, WayText(candidate),
                [candidate](const Column& column) { return column.CellOf(candidate); });
  }
  return text;
}

std::string DecisionText(Element decision, ExplainColumns columns) {
  const std::string_view worker = TextAt(decision, "/worker");
  const std::string_view reason = TextAt(decision, "/reason");
  std::string text = fmt::format("{} ({}), model {}, {} prompt tokens, {:.1f} s ago\n", TextAt(decision, "/id"),
                                 TextAt(decision, "/request_id"), TextAt(decision, "/model"),
                                 CountAt(decision, "/prompt_tokens"), SecondsAt(decision, "/seconds_ago").value_or(0));
  const std::uint64_t retries = CountAt(decision, "/retries");
  text += fmt::format("  went to      {}{} by {}: {} ({})\n", worker,
                      retries > 0 ? fmt::format(", retry {},", retries) : "", TextAt(decision, "/policy"), reason,
                      ReasonText(reason));
  text += CopyText(decision);
  text += PullText(decision);
  text += RestoreText(decision);
  text += ApartText(decision);
  text += fmt::format("  predicted    {} cached tokens, {}\n", CountAt(decision, "/predicted/cached_tokens"),
                      TimesText(decision["predicted"]));
  text += fmt::format("  actual       {}\n", ActualText(decision));
  text += HitText(decision);
  text += MissText(decision);
  text += ResumableText(decision);
  text +=
      fmt::format("  the best     {} cached tokens fewer, first token {} and whole answer {} later\n",
                  CountAt(decision, "/regret/cached_tokens"), Milliseconds(SecondsAt(decision, "/regret/ttft_seconds")),
                  Milliseconds(SecondsAt(decision, "/regret/whole_seconds")));
  text += fmt::format("  round robin  {} cached tokens, {}\n", CountAt(decision, "/round_robin/cached_tokens"),
                      TimesText(decision["round_robin"]));
  if (!json::At<bool>(decision, "rates_known").value_or(true)) {
    text += "  no worker's speed is known yet: the columns below give an order, not times\n";
  }
  text += CandidatesText(decision, columns);
  return text;
}

Result<std::string> Ask(const ExplainOptions& options) {
  HttpClient client(options.admin, 10);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get(ExplainPath(options)));
  if (response.status != 200) return RefusalOf(response);
  return options.json ? response.body + "\n" : FormatDecisions(response.body, options.columns);
}

int RunExplainCommand(Arguments arguments, const Console& console) {
  ExplainOptions options;
  bool all = false;
  ConfigParser parser("roostctl explain", "Prints why a request went to its worker, or the last decisions.");
  DeclareAdmin(options.admin, parser);
  parser.AddPositional("ID", options.request_id, "Id of the answer (chatcmpl-…), or its x-request-id")
      .Add("last", options.limit, "How many of the last decisions, without an ID", {.low = 1, .high = 1024})
      .AddSwitch("all", all, "Show every term of the cost of each candidate")
      .AddSwitch("json", options.json, "Print the router's answer: an object for programs");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (all) options.columns = ExplainColumns::kAll;
  return RunExplain(options, console.out, console.err);
}

}  // namespace

const Command kExplainCommand{"explain", "why a request went to its worker", &RunExplainCommand};

std::string ExplainPath(const ExplainOptions& options) {
  if (options.request_id.empty()) return fmt::format("/admin/v1/decisions?limit={}", options.limit);
  return "/admin/v1/decisions?request_id=" + PercentEncode(options.request_id);
}

Result<std::string> FormatDecisions(std::string_view decisions_json, ExplainColumns columns) {
  const json::Document body(decisions_json);
  const auto decisions = json::At<json::Array>(body.root(), "decisions");
  if (!decisions) return DataLoss("/admin/v1/decisions", "the answer holds no list of decisions");
  std::string text;
  for (const Element decision : *decisions) text += (text.empty() ? "" : "\n") + DecisionText(decision, columns);
  return text.empty() ? "(no decisions yet)\n" : text;
}

int RunExplain(const ExplainOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> text = Ask(options);
  if (!text.ok()) {
    err << "roostctl explain: " << text.error().ToString() << '\n';
    return 1;
  }
  out << *text;
  return 0;
}

}  // namespace roost::roostctl
