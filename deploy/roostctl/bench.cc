#include "deploy/roostctl/bench.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "deploy/roostctl/http_client.h"

namespace roost::roostctl {
namespace {

struct ChatTurn {
  std::string role;
  std::string text;
};

std::string ChatBody(const BenchOptions& options, const std::vector<ChatTurn>& turns) {
  JsonWriter json;
  json.BeginObject().Key("model").String(options.model).Key("messages").BeginArray();
  for (const ChatTurn& turn : turns) {
    json.BeginObject().Key("role").String(turn.role).Key("content").String(turn.text).EndObject();
  }
  json.EndArray().Key("max_tokens").Number(options.max_tokens).Key("temperature").Number(0);
  json.Key("stream").Bool(true).Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
  return json.EndObject().Take();
}

// Zero where the answer has no such number.
std::uint64_t Count(simdjson::simdjson_result<simdjson::dom::element> element) {
  std::uint64_t value = 0;
  return element.get(value) == simdjson::SUCCESS ? value : 0;
}

// Reads one event of the stream into `sample` and `reply`.
class EventReader {
 public:
  EventReader(Instant start, const Clock& clock, BenchSample& sample, std::string& reply)
      : start_(start), clock_(clock), sample_(sample), reply_(reply) {}

  void Take(std::string_view data) {
    if (data == "[DONE]") return;
    simdjson::dom::element event;
    if (parser_.parse(simdjson::padded_string(data)).get(event) != simdjson::SUCCESS) {
      sample_.error = "an event is not JSON";
      return;
    }
    std::string_view message;
    if (event["error"]["message"].get(message) == simdjson::SUCCESS) sample_.error = message;
    TakeUsage(event);
    TakeChoice(event);
  }

  [[nodiscard]] bool finished() const { return finished_; }

 private:
  void TakeUsage(simdjson::dom::element event) {
    simdjson::dom::object usage;
    if (event["usage"].get(usage) != simdjson::SUCCESS) return;
    sample_.prompt_tokens = Count(usage["prompt_tokens"]);
    sample_.output_tokens = Count(usage["completion_tokens"]);
    sample_.cached_tokens = Count(usage["prompt_tokens_details"]["cached_tokens"]);
  }

  void TakeChoice(simdjson::dom::element event) {
    simdjson::dom::element choice;
    if (event["choices"].at(0).get(choice) != simdjson::SUCCESS) return;
    std::string_view content;
    std::string_view reason;
    const bool has_content = choice["delta"]["content"].get(content) == simdjson::SUCCESS && !content.empty();
    finished_ = finished_ || choice["finish_reason"].get(reason) == simdjson::SUCCESS;
    if (has_content) reply_ += content;
    if ((has_content || finished_) && sample_.ttft_seconds == 0)
      sample_.ttft_seconds = ToSeconds(clock_.Now() - start_);
  }

  Instant start_;
  const Clock& clock_;
  BenchSample& sample_;
  std::string& reply_;
  simdjson::dom::parser parser_;
  bool finished_ = false;
};

std::string ErrorMessage(const HttpResponse& response) {
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view message;
  const bool readable = parser.parse(simdjson::padded_string(response.body)).get(body) == simdjson::SUCCESS &&
                        body["error"]["message"].get(message) == simdjson::SUCCESS;
  return fmt::format("status {}: {}", response.status, readable ? message : response.body);
}

std::uint64_t AnswerHash(std::size_t conversation, std::size_t turn, std::string_view answer) {
  return XXH3_64bits_withSeed(answer.data(), answer.size(), Mix64(conversation) + turn);
}

// Sends `turns` and appends the answer to them.
BenchSample Ask(HttpClient& client, const BenchOptions& options, std::vector<ChatTurn>& turns) {
  const SteadyClock clock;
  BenchSample sample;
  std::string reply;
  const Instant start = clock.Now();
  EventReader reader(start, clock, sample, reply);
  const auto response = client.PostForEvents("/v1/chat/completions", ChatBody(options, turns),
                                             [&reader](std::string_view data) { reader.Take(data); });
  sample.total_seconds = ToSeconds(clock.Now() - start);
  if (!response.ok()) {
    sample.error = response.error().ToString();
  } else if (response->status != 200) {
    sample.error = ErrorMessage(*response);
  } else {
    const auto worker = response->headers.find("x-roost-worker");
    if (worker != response->headers.end()) sample.worker = worker->second;
    if (sample.error.empty() && !reader.finished()) sample.error = "the stream ended without a finish reason";
  }
  turns.push_back({"assistant", std::move(reply)});
  return sample;
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
  // Neighbours should not share a system prompt by the order of making alone.
  for (std::size_t i = conversations.size(); i > 1; --i) std::swap(conversations[i - 1], conversations[rng.Below(i)]);
  return conversations;
}

// Hands conversations to clients and collects what came; each next turn of a conversation waits for its last answer.
class Load {
 public:
  Load(const BenchOptions& options, std::vector<Conversation> conversations)
      : options_(options), conversations_(std::move(conversations)) {}

  std::vector<BenchSample> Run() {
    std::vector<std::thread> clients;
    for (std::uint32_t i = 0; i < options_.concurrency; ++i) clients.emplace_back([this] { RunClient(); });
    for (std::thread& client : clients) client.join();
    return std::move(samples_);
  }

 private:
  void RunClient() {
    HttpClient client(options_.router);
    while (Conversation* conversation = Next()) {
      for (const std::string& question : conversation->questions) {
        conversation->turns.push_back({"user", question});
        BenchSample sample = Ask(client, options_, conversation->turns);
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

  const BenchOptions& options_;
  std::vector<Conversation> conversations_;

  std::mutex mutex_;
  std::size_t next_ = 0;              // guarded by mutex_
  std::vector<BenchSample> samples_;  // guarded by mutex_
};

struct ColdAndWarm {
  double cold_seconds = 0;  // medians
  double warm_seconds = 0;
  std::string error;
};

// Each probe's prompt begins with words of its own, so that its first sending finds nothing cached; the second finds
// all of it. Nothing else runs meanwhile.
ColdAndWarm Probe(const BenchOptions& options, const BenchPrompts& prompts) {
  HttpClient client(options.router);
  Rng rng(options.seed ^ 0x9d0be);
  std::vector<double> cold;
  std::vector<double> warm;
  for (std::uint32_t i = 0; i < options.probe_count; ++i) {
    const std::string system = fmt::format("Book {}, leaf {}. {}", rng.Below(1000000), rng.Below(1000000),
                                           prompts.systems[i % prompts.systems.size()]);
    for (std::vector<double>* side : {&cold, &warm}) {
      std::vector<ChatTurn> turns{{"system", system}, {"user", prompts.questions.front()}};
      const BenchSample sample = Ask(client, options, turns);
      if (!sample.error.empty()) return {0, 0, sample.error};
      side->push_back(sample.ttft_seconds);
    }
  }
  return {Percentile(cold, 0.5), Percentile(warm, 0.5), ""};
}

Result<std::string> FirstModel(const std::string& router) {
  HttpClient client(router);
  ROOST_ASSIGN_OR_RETURN(const HttpResponse response, client.Get("/v1/models"));
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view id;
  if (parser.parse(simdjson::padded_string(response.body)).get(body) != simdjson::SUCCESS ||
      body["data"].at(0)["id"].get(id) != simdjson::SUCCESS) {
    return Error{ErrorCode::kUnavailable, "the router serves no model yet", router};
  }
  return std::string(id);
}

Result<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return InvalidArgument(path.string(), "can not be read");
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void PrintTableRow(const BenchOptions& options, const BenchSummary& summary) {
  if (options.table_header) {
    fmt::print("{:<14} {:>8} {:>6} {:>9} {:>12} {:>12} {:>9}  {}\n", "policy", "requests", "failed", "hit rate",
               "TTFT p50 ms", "TTFT p99 ms", "tokens/s", "share per worker");
  }
  std::string shares;
  for (const auto& [worker, share] : summary.share_by_worker)
    shares += fmt::format("{} {:.0f}%  ", worker, share * 100);
  fmt::print("{:<14} {:>8} {:>6} {:>8.1f}% {:>12.2f} {:>12.2f} {:>9.0f}  {}\n", options.label, summary.request_count,
             summary.failed_count, summary.cached_ratio * 100, summary.ttft_p50_seconds * 1e3,
             summary.ttft_p99_seconds * 1e3, summary.output_tokens_per_second, shares);
}

}  // namespace

Result<BenchPrompts> LoadBenchPrompts(const std::filesystem::path& folder) {
  BenchPrompts prompts;
  std::vector<std::filesystem::path> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().rfind("system-", 0) == 0) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    ROOST_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    prompts.systems.push_back(std::move(text));
  }
  if (prompts.systems.empty()) return InvalidArgument(folder.string(), "holds no system-*.txt");
  std::ifstream questions(folder / "questions.txt");
  for (std::string line; std::getline(questions, line);) {
    if (!line.empty()) prompts.questions.push_back(line);
  }
  if (prompts.questions.empty()) return InvalidArgument((folder / "questions.txt").string(), "holds no question");
  return prompts;
}

std::vector<std::string> MakeDocuments(const std::vector<std::string>& texts, std::uint32_t count) {
  std::vector<std::string> documents;
  documents.reserve(count);
  const std::size_t n = texts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t shift = n == 1 ? 0 : 1 + (i / n) % (n - 1);
    const std::string& first = texts[i % n];
    const std::string& second = texts[(i + shift) % n];
    documents.push_back(fmt::format("Document {}.\n\n{}\n\n{}", i + 1, first, second));
  }
  return documents;
}

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
  const SteadyClock clock;
  const Instant start = clock.Now();
  const auto samples = Load(options, MakeConversations(options, *prompts)).Run();
  const double wall_seconds = ToSeconds(clock.Now() - start);
  const BenchSummary summary = Summarise(samples, wall_seconds);
  const ColdAndWarm probe = Probe(options, *prompts);
  PrintTableRow(options, summary);
  if (!summary.first_error.empty()) fmt::print(stderr, "roostctl bench: first error: {}\n", summary.first_error);
  if (!probe.error.empty()) fmt::print(stderr, "roostctl bench: probe: {}\n", probe.error);
  fmt::print(
      "bench: label={} requests={} failed={} cached_ratio={:.3f} ttft_p50_ms={:.2f} ttft_p99_ms={:.2f} "
      "ttft_cold_ms={:.2f} ttft_warm_ms={:.2f} seconds={:.1f} answers={:016x}\n",
      options.label, summary.request_count, summary.failed_count, summary.cached_ratio, summary.ttft_p50_seconds * 1e3,
      summary.ttft_p99_seconds * 1e3, probe.cold_seconds * 1e3, probe.warm_seconds * 1e3, wall_seconds,
      summary.answers_hash);
  return summary.failed_count == 0 && probe.error.empty() ? 0 : 1;
}

}  // namespace roost::roostctl
