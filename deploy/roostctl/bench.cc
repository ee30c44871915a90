#include "deploy/roostctl/bench.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "deploy/roostctl/chat_stream.h"
#include "deploy/roostctl/http_client.h"

namespace roost::roostctl {
namespace {

// The target of the load, and its options.
struct LoadOptions {
  const BenchOptions& options;
  UseCache cache = UseCache::kYes;
};

std::string BodyOf(const LoadOptions& load, const std::vector<ChatTurn>& turns) {
  return ChatBody(
      {.model = load.options.model, .max_tokens = load.options.max_tokens, .temperature = 0, .cache = load.cache},
      turns);
}

std::uint64_t AnswerHash(std::size_t conversation, std::size_t turn, std::string_view answer) {
  return XXH3_64bits_withSeed(answer.data(), answer.size(), Mix64(conversation) + turn);
}

// Sends `turns`, and appends the answer to them.
BenchSample Ask(HttpClient& client, const LoadOptions& load, std::vector<ChatTurn>& turns) {
  ChatAnswer answer = AskChat(client, BodyOf(load, turns), [](AnswerPart, std::string_view) {});
  turns.push_back({"assistant", std::move(answer.text)});
  return {.error = std::move(answer.error),
          .worker = std::move(answer.worker),
          .ttft_seconds = answer.ttft_seconds,
          .total_seconds = answer.total_seconds,
          .prompt_tokens = answer.prompt_tokens,
          .cached_tokens = answer.cached_tokens,
          .output_tokens = answer.output_tokens};
}

struct Conversation {
  std::size_t number = 0;
  std::vector<ChatTurn> turns;
  std::vector<std::string> questions;  // one per turn
};

std::vector<Conversation> MakeConversations(const BenchOptions& options, const BenchPrompts& prompts) {
  Rng rng(options.seed);
  std::vector<Conversation> conversations(options.conversation_count);
  for (std::size_t i = 0; i < conversations.size(); ++i) {
    conversations[i].number = i;
    conversations[i].turns.push_back({"system", prompts.systems[i % prompts.systems.size()]});
    for (std::uint32_t turn = 0; turn < options.turn_count; ++turn) {
      conversations[i].questions.push_back(prompts.questions[rng.Below(prompts.questions.size())]);
    }
  }
  // Shuffles, because the loop above puts the system prompts in a fixed cycle.
  for (std::size_t i = conversations.size(); i > 1; --i) std::swap(conversations[i - 1], conversations[rng.Below(i)]);
  return conversations;
}

// Distributes conversations to clients and collects the samples. A conversation's next turn waits for its last answer.
class Load {
 public:
  Load(const LoadOptions& load, std::vector<Conversation> conversations)
      : load_(load), conversations_(std::move(conversations)) {}

  std::vector<BenchSample> Run() {
    std::vector<std::thread> clients;
    for (std::uint32_t i = 0; i < load_.options.concurrency; ++i) clients.emplace_back([this] { RunClient(); });
    for (std::thread& client : clients) client.join();
    return std::move(samples_);
  }

 private:
  void RunClient() {
    HttpClient client(load_.options.router);
    while (Conversation* conversation = Next()) {
      for (const std::string& question : conversation->questions) {
        conversation->turns.push_back({"user", question});
        BenchSample sample = Ask(client, load_, conversation->turns);
        sample.answer_hash =
            AnswerHash(conversation->number, conversation->turns.size(), conversation->turns.back().text);
        const std::lock_guard lock(mutex_);
        samples_.push_back(std::move(sample));
      }
    }
  }

  Conversation* Next() {
    const std::lock_guard lock(mutex_);
    return next_ < conversations_.size() ? &conversations_[next_++] : nullptr;
  }

  const LoadOptions load_;
  std::vector<Conversation> conversations_;

  std::mutex mutex_;
  std::size_t next_ = 0;              // guarded by mutex_
  std::vector<BenchSample> samples_;  // guarded by mutex_
};

// Each probe's prompt begins with unique words, so that the first request finds nothing cached and the second finds all
// of it. Nothing else runs meanwhile.
void Probe(const LoadOptions& load, const BenchPrompts& prompts, BenchRun& run) {
  const BenchOptions& options = load.options;
  HttpClient client(options.router);
  Rng rng(options.seed ^ 0x9d0be);
  std::vector<double> cold;
  std::vector<double> warm;
  for (std::uint32_t i = 0; i < options.probe_count; ++i) {
    const std::string system = fmt::format("Book {}, leaf {}. {}", rng.Below(1000000), rng.Below(1000000),
                                           prompts.systems[i % prompts.systems.size()]);
    for (std::vector<double>* side : {&cold, &warm}) {
      std::vector<ChatTurn> turns{{"system", system}, {"user", prompts.questions.front()}};
      BenchSample sample = Ask(client, load, turns);
      if (!sample.error.empty()) {
        run.probe_error = std::move(sample.error);
        return;
      }
      side->push_back(sample.ttft_seconds);
    }
  }
  run.ttft_cold_seconds = Percentile(cold, 0.5);
  run.ttft_warm_seconds = Percentile(warm, 0.5);
}

void PrintTableHeader() {
  fmt::print("{:<14} {:>8} {:>6} {:>9} {:>12} {:>12} {:>9}  {}\n", "policy", "requests", "failed", "hit rate",
             "TTFT p50 ms", "TTFT p99 ms", "tokens/s", "share per worker");
}

void PrintTableRow(const std::string& label, const BenchSummary& summary) {
  std::string shares;
  for (const auto& [worker, share] : summary.share_by_worker)
    shares += fmt::format("{} {:.0f}%  ", worker, share * 100);
  fmt::print("{:<14} {:>8} {:>6} {:>8.1f}% {:>12.2f} {:>12.2f} {:>9.0f}  {}\n", label, summary.request_count,
             summary.failed_count, summary.cached_ratio * 100, summary.ttft_p50_seconds * 1e3,
             summary.ttft_p99_seconds * 1e3, summary.output_tokens_per_second, shares);
}

void PrintKeys(const std::string& label, const BenchRun& run) {
  const BenchSummary& summary = run.summary;
  if (!summary.first_error.empty()) fmt::print(stderr, "roostctl bench: first error: {}\n", summary.first_error);
  if (!run.probe_error.empty()) fmt::print(stderr, "roostctl bench: probe: {}\n", run.probe_error);
  fmt::print(
      "bench: label={} requests={} failed={} cached_ratio={:.3f} ttft_p50_ms={:.2f} ttft_p99_ms={:.2f} "
      "ttft_cold_ms={:.2f} ttft_warm_ms={:.2f} seconds={:.1f} answers={:016x}\n",
      label, summary.request_count, summary.failed_count, summary.cached_ratio, summary.ttft_p50_seconds * 1e3,
      summary.ttft_p99_seconds * 1e3, run.ttft_cold_seconds * 1e3, run.ttft_warm_seconds * 1e3, run.seconds,
      summary.answers_hash);
}

BenchRun RunLoad(const LoadOptions& load, const BenchPrompts& prompts) {
  const SteadyClock clock;
  const Instant start = clock.Now();
  const auto samples = Load(load, MakeConversations(load.options, prompts)).Run();
  BenchRun run;
  run.seconds = ToSeconds(clock.Now() - start);
  run.summary = Summarise(samples, run.seconds);
  Probe(load, prompts, run);
  return run;
}

int CodeOf(const BenchRun& run) { return run.summary.failed_count == 0 && run.probe_error.empty() ? 0 : 1; }

int RunOnce(const BenchOptions& options, const BenchPrompts& prompts) {
  const BenchRun run = RunLoad({options}, prompts);
  if (options.table_header) PrintTableHeader();
  PrintTableRow(options.label, run.summary);
  PrintKeys(options.label, run);
  return CodeOf(run);
}

// The run without the cache goes first: it leaves no blocks, so both runs begin with the same cache content.
int RunComparison(const BenchOptions& options, const BenchPrompts& prompts) {
  const BenchRun without = RunLoad({options, UseCache::kNo}, prompts);
  const BenchRun with = RunLoad({options, UseCache::kYes}, prompts);
  if (options.table_header) PrintTableHeader();
  PrintTableRow("cache-off", without.summary);
  PrintTableRow("cache-on", with.summary);
  PrintKeys("cache-off", without);
  PrintKeys("cache-on", with);
  const CacheGain gain = Compare(without.summary, with.summary);
  fmt::print("cache gain: ttft_p50={:.2f}x ttft_p99={:.2f}x tokens_per_second={:.2f}x\n", gain.ttft_p50, gain.ttft_p99,
             gain.output_tokens_per_second);
  return std::max(CodeOf(without), CodeOf(with));
}

int RunBenchCommand(Arguments arguments, const Console& console) {
  BenchOptions options;
  ConfigParser parser(
      "roostctl bench",
      "Sends conversations that share long system prompts to a router and prints the cached share and latencies.");
  DeclareRouter(options.router, parser);
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
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunBench(options);
}

}  // namespace

const Command kBenchCommand{"bench", "send a load of conversations and measure", &RunBenchCommand};

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

BenchSummary Summarise(const std::vector<BenchSample>& samples, double wall_seconds) {
  BenchSummary summary;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::vector<double> ttft;
  for (const BenchSample& sample : samples) {
    ++summary.request_count;
    if (!sample.error.empty()) {
      if (summary.failed_count++ == 0) summary.first_error = sample.error;
      continue;
    }
    prompt_tokens += sample.prompt_tokens;
    cached_tokens += sample.cached_tokens;
    output_tokens += sample.output_tokens;
    ttft.push_back(sample.ttft_seconds);
    summary.answers_hash += sample.answer_hash;
    summary.share_by_worker[sample.worker] += 1;
  }
  for (auto& [worker, share] : summary.share_by_worker) share /= static_cast<double>(ttft.size());
  if (prompt_tokens > 0) summary.cached_ratio = static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens);
  summary.ttft_p50_seconds = Percentile(ttft, 0.5);
  summary.ttft_p99_seconds = Percentile(ttft, 0.99);
  if (wall_seconds > 0) summary.output_tokens_per_second = static_cast<double>(output_tokens) / wall_seconds;
  return summary;
}

CacheGain Compare(const BenchSummary& without, const BenchSummary& with) {
  const auto ratio = [](double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0; };
  return {.ttft_p50 = ratio(without.ttft_p50_seconds, with.ttft_p50_seconds),
          .ttft_p99 = ratio(without.ttft_p99_seconds, with.ttft_p99_seconds),
          .output_tokens_per_second = ratio(with.output_tokens_per_second, without.output_tokens_per_second)};
}

int RunBench(const BenchOptions& given) {
  BenchOptions options = given;
  if (options.model.empty()) {
    const auto model = FirstModel(options.router);
    if (!model.ok()) {
      fmt::print(stderr, "roostctl bench: {}\n", model.error().ToString());
      return 1;
    }
    options.model = *model;
  }
  auto prompts = LoadBenchPrompts(options.prompts);
  if (!prompts.ok()) {
    fmt::print(stderr, "roostctl bench: {}\n", prompts.error().ToString());
    return 2;
  }
  if (options.document_count > 0) prompts->systems = MakeDocuments(prompts->systems, options.document_count);
  return options.compare_cache ? RunComparison(options, *prompts) : RunOnce(options, *prompts);
}

}  // namespace roost::roostctl
