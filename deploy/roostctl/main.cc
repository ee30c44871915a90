// roostctl, the operator's command line: one function per command.

#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/config/config.h"
#include "deploy/roostctl/bench.h"
#include "deploy/roostctl/chat.h"
#include "deploy/roostctl/evict.h"
#include "deploy/roostctl/explain.h"
#include "deploy/roostctl/generate/generate.h"
#include "deploy/roostctl/key.h"
#include "deploy/roostctl/link_key.h"
#include "deploy/roostctl/model_memory.h"
#include "deploy/roostctl/pin.h"
#include "deploy/roostctl/prefix_diff.h"
#include "deploy/roostctl/prefixes.h"
#include "deploy/roostctl/prompt_options.h"
#include "deploy/roostctl/router_access.h"
#include "deploy/roostctl/simulate/simulate.h"
#include "deploy/roostctl/status.h"
#include "deploy/roostctl/template_command.h"
#include "deploy/roostctl/tokenize.h"
#include "worker/cache/eviction_factory.h"

namespace roost::roostctl {
namespace {

constexpr int kExitUsage = 64;
constexpr const char* kAdminHelp = "URL of the router's admin address";
constexpr const char* kRouterHelp = "URL of the router";
constexpr const char* kWorkersHelp =
    "all workers of the model, the best one (where a request with this prompt would go), or names: worker-a,worker-b";

// A command gets the arguments behind its name; the first is the name, like argv[0].
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::span<const char* const> arguments);
};

// Parses the arguments. A value means that the command is over, with this exit code.
std::optional<int> Ended(ConfigParser& parser, std::span<const char* const> arguments) {
  const auto outcome = parser.Parse(static_cast<int>(arguments.size()), arguments.data());
  if (!outcome.ok()) {
    fmt::print(stderr, "roostctl {}: {}\n", arguments.front(), outcome.error().ToString());
    return kExitUsage;
  }
  if (*outcome == ParseOutcome::kExit) return 0;
  return std::nullopt;
}

void DeclareAnyPrompt(PromptOptions& options, ConfigParser& parser) {
  DeclareAccess("admin", kAdminHelp, options.admin, parser);
  parser.Add("model", options.model, "Model that the prompt is for")
      .Add("prompt", options.prompt, "Text, as in /v1/completions")
      .Add("messages", options.messages_file,
           "File with the messages of a chat: a JSON array, or an object with messages and tools");
}

void DeclarePrompt(PromptOptions& options, ConfigParser& parser) {
  DeclareAnyPrompt(options, parser);
  parser.Require("model")
      .Add("tenant", options.tenant, "Tenant of the requests that should hit it; empty: requests without a key")
      .Add("cache-salt", options.cache_salt, "The cache_salt of the requests that should hit it");
}

int Status(std::span<const char* const> arguments) {
  RouterAccess admin{kDefaultAdminUrl};
  ConfigParser parser("roostctl status", "Prints the workers that a router knows: state, load and cached blocks.");
  DeclareAccess("admin", kAdminHelp, admin, parser);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunStatus(admin, std::cout, std::cerr);
}

int Bench(std::span<const char* const> arguments) {
  BenchOptions options;
  ConfigParser parser(
      "roostctl bench",
      "Sends conversations that share long system prompts to a router and prints the cached share and latencies.");
  DeclareAccess("router", kRouterHelp, options.router, parser);
  parser.Add("model", options.model, "Model to ask for; the router's first when empty")
      .Add("prompts", options.prompts, "Folder with system-*.txt and questions.txt")
      .Require("prompts")
      .Add("label", options.label, "Name of this run in the table")
      .Add("documents", options.document_count,
           "Long system prompts, each with a title of its own and two of the folder's texts; 0: the texts as they are",
           {.low = 0, .high = 1e4})
      .Add("conversations", options.conversation_count, "Conversations", {.low = 1, .high = 1e6})
      .Add("turns", options.turn_count, "Questions per conversation", {.low = 1, .high = 1000})
      .Add("concurrency", options.concurrency, "Conversations at a time", {.low = 1, .high = 512})
      .Add("max-tokens", options.max_tokens, "Maximum tokens per answer", {.low = 1, .high = 100000})
      .Add("probes", options.probe_count, "Prompts sent one by one after the load, each uncached and then cached",
           {.low = 0, .high = 1000})
      .Add("seed", options.seed, "Seed of the questions and their order")
      .AddSwitch("table-header", options.table_header, "Print the table's header first")
      .AddSwitch(
          "compare-cache", options.compare_cache,
          "Send the load twice, first with the cache switched off in every request, and print what the cache gains");
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunBench(options);
}

int Generate(std::span<const char* const> arguments) {
  GenerateOptions options;
  if (isatty(STDERR_FILENO) == 1) options.live = LiveOutput::kTerminal;
  ConfigParser parser("roostctl generate",
                      "Answers a list of prompts with the engine in this process, without router and worker, and "
                      "prints a line of JSON per answer.");
  Declare(options, parser);
  if (const auto code = Ended(parser, arguments)) return *code;
  SetUpLogging(LogLevel::kWarning, LogFormat::kText);
  return RunGenerate(options, std::cin, std::cout, std::cerr);
}

int Explain(std::span<const char* const> arguments) {
  ExplainOptions options;
  ConfigParser parser("roostctl explain", "Prints why a request went to its worker, or the last decisions.");
  DeclareAccess("admin", kAdminHelp, options.admin, parser);
  parser.AddPositional("ID", options.request_id, "Id of the answer (chatcmpl-…), or its x-request-id")
      .Add("last", options.limit, "How many of the last decisions, without an ID", {.low = 1, .high = 1024});
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunExplain(options, std::cout, std::cerr);
}

int Pin(std::span<const char* const> arguments) {
  PinOptions options;
  ConfigParser parser("roostctl pin",
                      "Keeps the blocks of a prompt in the workers' caches: cached blocks at once, the others once a "
                      "request has computed them. Prints what each worker kept.");
  DeclarePrompt(options, parser);
  parser.Add("duration", options.duration, "How long, like 30s, 10m or 2h; until unpinned when empty")
      .Add("workers", options.workers, kWorkersHelp);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunPin(PinVerb::kPin, options, std::cout, std::cerr);
}

int Unpin(std::span<const char* const> arguments) {
  PinOptions options;
  ConfigParser parser("roostctl unpin", "Removes the pin of a prompt on all workers of the model.");
  DeclarePrompt(options, parser);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunPin(PinVerb::kUnpin, options, std::cout, std::cerr);
}

int Evict(std::span<const char* const> arguments) {
  EvictOptions options;
  ConfigParser parser(
      "roostctl evict",
      "Erases a prompt with all that continues it, or everything of a tenant, from the workers' caches. "
      "Pins do not prevent it. Exits with 0 if every worker has done it.");
  DeclareAnyPrompt(options, parser);
  parser.Add("prefix", options.prefix_file, "File with the prompt: a text, an array of messages, or a request's body")
      .Add("tenant", options.tenant, "Whose prompt it is; without a prompt: everything of this tenant")
      .Add("cache-salt", options.cache_salt, "The cache_salt of the prompt's requests")
      .Add("workers", options.workers, "Which workers: all, or names with commas between them");
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunEvict(options, std::cout, std::cerr);
}

int Memory(std::span<const char* const> arguments) {
  MemoryOptions options;
  ConfigParser parser("roostctl memory", "Checks a model folder and prints how much memory it takes.");
  parser.Add("model", options.folder, "Model folder in Hugging Face layout")
      .Require("model")
      .AddChoice("backend", options.backend, {"cpu", "cuda"},
                 "Backend of the workers. On CUDA, weights and KV are bf16")
      .AddBytes(
          "memory-bytes", options.memory_bytes,
          "Memory for all workers, in bytes or with a unit; 0: what is free here. For CUDA, the free memory of the "
          "device")
      .Add("workers", options.worker_count, "Workers that share the memory", {.low = 1, .high = 1024});
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunMemory(options, std::cout, std::cerr);
}

int Match(std::span<const char* const> arguments) {
  PromptOptions options;
  ConfigParser parser(
      "roostctl match",
      "Prints what a request with this prompt would find in the workers' caches now, and where it would "
      "go. Runs nothing.");
  DeclarePrompt(options, parser);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunMatch(options, std::cout, std::cerr);
}

int Warm(std::span<const char* const> arguments) {
  WarmOptions options;
  ConfigParser parser("roostctl warm",
                      "Has workers compute the full blocks of a prompt, so that requests find them. Waits until they "
                      "have. No answer is generated.");
  DeclarePrompt(options, parser);
  parser.Add("workers", options.workers, kWorkersHelp);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunWarm(options, std::cout, std::cerr);
}

int Prefixes(std::span<const char* const> arguments) {
  PrefixesOptions options;
  ConfigParser parser("roostctl prefixes",
                      "Prints the prefixes that requests found most often in the workers' caches, with text where the "
                      "router runs with --show-prefix-text.");
  DeclareAccess("admin", kAdminHelp, options.admin, parser);
  parser.Add("model", options.model, "Model; optional while the router serves only one")
      .Add("top", options.top, "Prefixes, the most used first", {.low = 1, .high = 1000});
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunPrefixes(options, std::cout, std::cerr);
}

int PrefixDifference(std::span<const char* const> arguments) {
  PrefixDiffOptions options;
  ConfigParser parser("roostctl prefix-diff",
                      "Prints where the blocks of two prompts diverge, and the text there. A and B are files: a "
                      "text, or the JSON body of a chat or completion request.");
  DeclareAccess("router", "URL of the router, if the model is not a folder", options.router, parser);
  parser.AddPositional("A", options.first, "File with a prompt")
      .AddPositional("B", options.second, "File with another one")
      .Add("model", options.model, "Folder of a model, or the name of one that the router serves")
      .Require("model")
      .Add("block-tokens", options.block_tokens, "--block-tokens of the workers, if the model is a folder",
           {.low = kMinBlockTokens, .high = kMaxBlockTokens});
  if (const auto code = Ended(parser, arguments)) return *code;
  if (options.first.empty() || options.second.empty()) {
    fmt::print(stderr, "roostctl prefix-diff: give two files with prompts\n");
    return kExitUsage;
  }
  return RunPrefixDiff(options, std::cout, std::cerr);
}

int Chat(std::span<const char* const> arguments) {
  ChatOptions options;
  ConfigParser parser("roostctl chat",
                      "Talks to a model, one line per question. Ctrl-C stops an answer, Ctrl-D ends the conversation.");
  DeclareAccess("router", kRouterHelp, options.router, parser);
  parser.Add("model", options.model, "Model to ask; the router's first when empty")
      .Add("system", options.system, "System prompt")
      .Add("max-tokens", options.max_tokens, "Maximum tokens per answer; 0: to the end of the context",
           {.low = 0, .high = 1e6});
  if (const auto code = Ended(parser, arguments)) return *code;
  ChatConsole console{.in = std::cin, .out = std::cout, .err = std::cerr};
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
    const InterruptKey key;
    console.screen = ChatScreen::kTerminal;
    console.interrupted = [key] { return key.Pressed(); };
  }
  return RunChat(options, console);
}

int Tokenize(std::span<const char* const> arguments) {
  std::string tokenizer;
  ConfigParser parser("roostctl tokenize",
                      "Reads lines of JSON {\"text\"} and prints {\"ids\", \"ids_with_special\", \"decoded\"}.");
  parser.Add("tokenizer", tokenizer, "A tokenizer.json").Require("tokenizer");
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunTokenize({.tokenizer = tokenizer}, std::cin, std::cout, std::cerr);
}

int Template(std::span<const char* const> arguments) {
  std::string file;
  std::string now;
  ConfigParser parser(
      "roostctl template",
      "Reads lines of JSON {\"context\": {messages, tools, …}} and prints {\"rendered\"} or {\"error\"}.");
  parser.Add("template", file, "A Jinja chat template").Require("template");
  parser.Add("now", now, "Date and time for strftime_now, like 2026-11-20T12:00:00; the clock's when empty");
  if (const auto code = Ended(parser, arguments)) return *code;
  TemplateOptions options{.template_path = file, .now = std::nullopt};
  if (!now.empty()) options.now = now;
  return RunTemplate(options, std::cin, std::cout, std::cerr);
}

int LinkKey(std::span<const char* const> arguments) {
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
  if (const auto code = Ended(parser, arguments)) return *code;
  if (options.name.empty()) {
    fmt::print(stderr, "roostctl key link: give a name\n");
    return kExitUsage;
  }
  return RunLinkKey(options, std::cout, std::cerr);
}

int NewKey(std::span<const char* const> arguments) {
  NewKeyOptions options;
  ConfigParser parser("roostctl key new",
                      "Makes an API key. Prints its line for the file of --api-keys or --admin-keys on stdout, and the "
                      "key itself, once, on stderr.");
  parser.AddPositional("NAME", options.name, "Name of the key, for metrics and usage")
      .Add("tenant", options.tenant, "Keys of one tenant share its cache; by default the key's name")
      .Add("max-priority", options.max_priority, "The highest priority that a request may ask for", {0, 100})
      .AddList("models", options.models, "Models that it may use, such as demo-model or qwen*; all by default")
      .Add("requests-per-minute", options.requests_per_minute, "Requests a minute; 0: no limit")
      .Add("tokens-per-minute", options.tokens_per_minute, "Tokens of prompts and answers a minute; 0: no limit")
      .Add("max-concurrent-requests", options.max_concurrent_requests, "Requests at a time; 0: no limit");
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunNewKey(options, std::cout, std::cerr);
}

// Its own commands stand behind it.
int Key(std::span<const char* const> arguments) {
  const std::string_view kind = arguments.size() > 1 ? arguments[1] : "";
  if (kind == "new") return NewKey(arguments.subspan(1));
  if (kind == "link") return LinkKey(arguments.subspan(1));
  fmt::print(stderr, "roostctl key: say what to make: roostctl key new NAME, or roostctl key link NAME\n");
  return kExitUsage;
}

template <typename Names>
std::vector<std::string> ChoicesOf(const Names& names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> SchedulePolicyNames() {
  std::vector<std::string> names;
  names.reserve(worker::kSchedulePolicies.size());
  for (const auto& [name, policy] : worker::kSchedulePolicies) names.emplace_back(name);
  return names;
}

void DeclareSimulatedLoad(SimulateOptions& options, ConfigParser& parser) {
  parser.Section("Load")
      .Add("trace", options.trace, "File with recorded requests")
      .AddChoice("format", options.format, ChoicesOf(workload::kTraceFormats), "The file's form")
      .AddChoice("generate", options.generator, ChoicesOf(workload::kGenerators), "Generated load instead of a trace")
      .Add("sessions", options.session_count, "Sessions of weka and chat; 0: all", {.low = 0, .high = 1e6})
      .Add("utilisation", options.utilisation,
           "Share of the time that the fleet would compute prompts if its workers shared one cache that never evicts; "
           "arrival times are scaled to that. 0 keeps the recorded times",
           {.low = 0, .high = 100})
      .Add("seed", options.seed, "Seed of all random choices");
}

void DeclareSimulatedFleet(SimulateOptions& options, ConfigParser& parser) {
  parser.Section("Routing")
      .AddList("policy", options.policies, fmt::format("all, or some of {}", fmt::join(SimulatedPolicies(), ", ")))
      .Add("routers", options.router_count, "Routers, which share nothing", {.low = 1, .high = 64})
      .Add("event-delay-ms", options.event_delay_ms, "Delay of a message from a worker to a router",
           {.low = 0, .high = 60'000});
  parser.Section("Workers")
      .Add("workers", options.worker_count, "Workers", {.low = 1, .high = 1024})
      .AddList("worker-speeds", options.worker_speeds,
               "Speeds of worker 0, 1, …, repeated for the others; by default all are 1")
      .Add("cache-tokens", options.cache_tokens, "Tokens that each worker keeps beside those of running requests",
           {.low = 1024, .high = 1e9})
      .AddChoice("eviction", options.eviction, ChoicesOf(worker::kEvictionPolicyNames), "The option of roost-worker")
      .AddChoice("worker-schedule", options.schedule, SchedulePolicyNames(), "The option --schedule of roost-worker")
      .Add("first-token-target-ms", options.first_token_target_ms, "The option of roost-worker", {0, 1'000'000'000})
      .Add("max-batch-tokens", options.max_batch_tokens, "Prompt tokens of one step", {.low = 64, .high = 1e6})
      .Add("short-step-tokens", options.short_step_tokens, "The option of roost-worker", {.low = 0, .high = 1e6})
      .Add("max-running-requests", options.max_running_requests, "The option of roost-worker", {.low = 1, .high = 4096})
      .Add("max-waiting-requests", options.max_waiting_requests, "The option of roost-worker", {.low = 1, .high = 1e6})
      .Add("load-interval-ms", options.load_interval_ms, "Time between load reports while no step ends",
           {.low = 1, .high = 60'000})
      .Add("prefill-rate", options.prefill_rate, "Prompt tokens that a worker computes in a second",
           {.low = 1, .high = 1e9})
      .Add("step-base-ms", options.step_base_ms, "Fixed time of a step that computes prompt tokens",
           {.low = 0, .high = 1e6})
      .Add("attention-ns", options.attention_ns, "Time that a prompt token takes for each token before it",
           {.low = 0, .high = 1e9})
      .Add("decode-base-ms", options.decode_base_ms, "Time between two tokens of a running request",
           {.low = 1e-3, .high = 1e6})
      .Add("decode-us-per-request", options.decode_us_per_request,
           "Time added to decode-base-ms for each running request", {.low = 0, .high = 1e9})
      .Add("decode-ns-per-context-token", options.decode_ns_per_context_token,
           "Time added to decode-base-ms for each token in the running requests' contexts", {.low = 0, .high = 1e9});
}

int Simulate(std::span<const char* const> arguments) {
  SimulateOptions options;
  options.show_progress = isatty(STDERR_FILENO) == 1;
  ConfigParser parser("roostctl simulate",
                      "Plays a trace against simulated workers behind real routers, on virtual time, and prints the "
                      "result of each policy.");
  DeclareSimulatedLoad(options, parser);
  DeclareSimulatedFleet(options, parser);
  parser.Section("Output")
      .AddSwitch("json", options.json, "One JSON object per policy instead of a table")
      .Add("plot", options.plot, "File for a picture of the times to the first token, as SVG");
  if (const auto code = Ended(parser, arguments)) return *code;
  SetUpLogging(LogLevel::kError, LogFormat::kText);
  return RunSimulate(options, std::cout, std::cerr);
}

int Usage(std::span<const char* const> arguments) {
  RouterAccess admin{kDefaultAdminUrl};
  ConfigParser parser("roostctl usage", "Prints what each API key has used since the router began.");
  DeclareAccess("admin", kAdminHelp, admin, parser);
  if (const auto code = Ended(parser, arguments)) return *code;
  return RunUsage(admin, std::cout, std::cerr);
}

constexpr Command kCommands[] = {
    {"status", "the workers that a router knows", &Status},
    {"explain", "why a request went to its worker", &Explain},
    {"pin", "keep a prompt in the workers' caches", &Pin},
    {"unpin", "remove a pin", &Unpin},
    {"evict", "erase a prompt or a tenant from the caches", &Evict},
    {"match", "what a prompt would hit, and where", &Match},
    {"prefixes", "the prefixes that are used most", &Prefixes},
    {"prefix-diff", "where two prompts diverge, and the text there", &PrefixDifference},
    {"warm", "have workers compute a prompt", &Warm},
    {"generate", "answer a list of prompts in this process", &Generate},
    {"chat", "talk to a model", &Chat},
    {"bench", "send a load of conversations and measure", &Bench},
    {"memory", "check a model folder and its memory", &Memory},
    {"simulate", "play a trace against a simulated cluster", &Simulate},
    {"tokenize", "turn text into token ids and back", &Tokenize},
    {"key", "make an API key, or a key of the link", &Key},
    {"usage", "what the API keys have used", &Usage},
    {"template", "render a chat template", &Template},
};

int PrintUsage(std::FILE* out, int code) {
  fmt::print(out, "roostctl {}: the operator's command line of Roost\n\nUsage: roostctl COMMAND [OPTIONS]\n\n",
             Version());
  for (const Command& command : kCommands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out, "\nroostctl COMMAND --help lists a command's options.\n");
  return code;
}

int Main(std::span<const char* const> arguments) {
  if (arguments.size() < 2) return PrintUsage(stderr, kExitUsage);
  const std::string_view name = arguments[1];
  if (name == "--help") return PrintUsage(stdout, 0);
  if (name == "--version") {
    fmt::print("{}\n", Version());
    return 0;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(arguments.subspan(1));
  }
  fmt::print(stderr, "roostctl: there is no command '{}'\n\n", name);
  return PrintUsage(stderr, kExitUsage);
}

}  // namespace
}  // namespace roost::roostctl

int main(int argc, char** argv) {
  return roost::roostctl::Main(std::span<const char* const>(argv, static_cast<std::size_t>(argc)));
}
