// The flags of `roostctl bench`.
#include <unistd.h>

#include <string>
#include <vector>

#include "deploy/roostctl/bench/router_bench.h"
#include "deploy/roostctl/workload/source.h"

namespace roost::roostctl {
namespace {

constexpr NumberRange kSeconds{.low = 0, .high = 30 * 24 * 3600};
constexpr NumberRange kTokens{.low = 0, .high = 1e6};
constexpr NumberRange kMilliseconds{.low = 0, .high = 1e9};

template <typename Names>
std::vector<std::string> NamesIn(const Names& names) {
  return {names.begin(), names.end()};
}

void DeclareLoad(BenchOptions& options, ConfigParser& parser) {
  SessionShape& shape = options.shape;
  parser.Section("Load")
      .AddChoice(
          "workload", shape.workload, NamesIn(kBenchWorkloads),
          "chat: questions behind shared system prompts; shared-prompt: one question each; multi-turn: long chats "
          "that share nothing; documents: questions on long documents; agents: sessions that gather results of "
          "tools; no-reuse: prompts that share nothing; system-prompt: one system prompt for all, long answers; "
          "zipf-systems: ten system prompts by Zipf's law; reasoning: one system prompt, very long answers")
      .Add("conversations", shape.session_count, "Sessions", {.low = 1, .high = 1e6})
      .Add("turns", shape.turn_count, "Requests of a session; 0: as the workload has", {.low = 0, .high = 1000})
      .Add("shared-tokens", shape.shared_tokens,
           "Tokens of what sessions share, of generated texts; 0: as the workload has", kTokens)
      .Add("question-tokens", shape.turn_tokens, "Tokens that a turn adds, of generated texts; 0: as the workload has",
           kTokens)
      .Add("max-tokens", shape.max_tokens, "Maximum tokens per answer; 0: as the workload has", {.low = 0, .high = 1e5})
      .Add("scale", shape.scale, "Factor of all lengths that the workload has of its own", {.low = 1e-3, .high = 1e3})
      .AddSwitch("ignore-eos", options.ignore_eos, "Answers have exactly that many tokens, if the endpoint can do that")
      .Add("think-seconds", shape.think_seconds, "Mean time from an answer to the session's next request", kSeconds)
      .Add("prompts", options.prompts, "Folder with system-*.txt and questions.txt, instead of generated texts")
      .Add("documents", options.document_count,
           "Long system prompts; with --prompts each has a title of its own and two of the folder's texts. 0: as the "
           "workload or the folder has",
           {.low = 0, .high = 1e4})
      .Add("trace", options.trace, "File with recorded requests, instead of a workload")
      .AddChoice("format", options.trace_format, NamesIn(workload::kTraceFormats), "The file's form")
      .Add("speed", options.trace_speed, "The trace's times are divided by this", {.low = 1e-6, .high = 1e6})
      .Add("warm-up", options.warm_up_count, "Sessions before the load, which are not counted", {.low = 0, .high = 1e6})
      .Add("seed", shape.seed, "Seed of the texts, their order and the arrivals");
}

void DeclarePace(BenchOptions& options, ConfigParser& parser) {
  parser.Section("Pace")
      .Add("rate", options.rate,
           "Requests per second that are sent whatever becomes of the others (open loop); 0: a closed loop",
           {.low = 0, .high = 1e6})
      .AddChoice("arrivals", options.arrivals, {"poisson", "constant"}, "When sessions of an open loop begin")
      .Add("seconds", options.seconds, "Length of an open loop, instead of --conversations; 0: that number", kSeconds)
      .Add("concurrency", options.concurrency, "Sessions at a time of a closed loop", {.low = 1, .high = 4096})
      .Add("timeout-seconds", options.timeout_seconds, "Time after which a request has failed",
           {.low = 0.001, .high = 1e6});
}

void DeclareComparison(BenchOptions& options, ConfigParser& parser) {
  parser.Section("Comparison")
      .Add("compare", options.compare_url, "URL of a second endpoint, which gets the same load in turn with the first")
      .Add("compare-model", options.compare_model, "Model to ask the second for; its first when empty")
      .Add("compare-api-key-file", options.compare_api_key_file,
           "File whose first line is the second's API key; by default the first's")
      .AddSwitch("compare-cache", options.compare_cache,
                 "Send the load twice, first with the cache switched off in every request, and print what the cache "
                 "gains")
      .Add("blocks", options.block_count, "Parts in which both sides get the load; 0: as many as it allows, at most 10",
           {.low = 0, .high = 1000});
}

void DeclareResult(BenchOptions& options, ConfigParser& parser) {
  parser.Section("Result")
      .Add("slo-ttft-ms", options.slo_ttft_ms, "A good request has its first token by then; 0: no limit", kMilliseconds)
      .Add("slo-itl-ms", options.slo_itl_ms,
           "A good request takes at most this mean time between its tokens; 0: no limit", kMilliseconds)
      .Add("slo-total-ms", options.slo_total_ms, "A good request has its whole answer by then; 0: no limit",
           kMilliseconds)
      .AddSwitch("capacity", options.capacity,
                 "After the load, send it at other rates to find the highest at which 99 % of the requests are good")
      .Add("json", options.json, "File for the figures as JSON; -: the standard output, and the text goes to stderr")
      .Add("csv", options.csv, "File for a row of each request")
      .Add("plot", options.plot, "File for a picture of the distributions, as SVG")
      .AddSwitch("histogram", options.histogram, "Print the distribution of times to the first token as bars")
      .Add("label", options.label, "Name of this run in the results")
      .Add("probes", options.probe_count,
           "Prompts sent one by one after the load, each when it is not cached and when it is",
           {.low = 0, .high = 1000})
      .AddSwitch("brief", options.brief, "Print a row of a table and a line of key=value pairs, and no more")
      .AddSwitch("table-header", options.table_header, "Print the table's header first");
}

int RunBenchCommand(Arguments arguments, const Console& console) {
  BenchOptions options;
  if (isatty(STDERR_FILENO) == 1) options.progress = ProgressOutput::kTerminal;
  ConfigParser parser(
      "roostctl bench",
      "Sends a load to a router, or to any endpoint that speaks OpenAI's API, and prints times, cached "
      "tokens and errors as a client sees them. Times count from when a request should have been sent.");
  DeclareRouter(options.router, parser);
  parser.Section("Endpoint")
      .Add("url", options.url, "URL of any endpoint with OpenAI's API, with or without /v1; goes before --router")
      .AddChoice("api", options.api, {"chat", "completions"}, "/v1/chat/completions or /v1/completions")
      .Add("model", options.model, "Model to ask for; the endpoint's first when empty");
  DeclareLoad(options, parser);
  DeclarePace(options, parser);
  DeclareComparison(options, parser);
  DeclareResult(options, parser);
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunBench(options, console.out, console.err);
}

}  // namespace

const Command kBenchCommand{"bench", "send a load and measure", &RunBenchCommand};

}  // namespace roost::roostctl
