// vLLM's `/v1/completions` with token ids both ways. This file holds what is sent and the pages, vllm_answer.h what
// comes back. Recorded from 0.32.0: tests/engines/recordings. Needs 0.11 or later, for `return_token_ids`.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/engine_sampling.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/metrics_page.h"
#include "worker/adapters/vllm/vllm_answer.h"

namespace roost::worker::adapters::vllm {
namespace {

constexpr std::string_view kVersionPage = "/version";
constexpr std::string_view kModelsPage = "/v1/models";
constexpr std::string_view kMetricsPage = "/metrics";
constexpr std::string_view kConfigMetric = "vllm:cache_config_info";
constexpr std::string_view kRankLabel = "engine";
// Waiting requests with a smaller number go first; a request without one has 0.
constexpr std::int64_t kUsualPriority = 50;  // of a Generate
// The minor version from which on a request may ask for events of the blocks that it finds (kv_cache_report_mode).
constexpr std::uint32_t kTellsFoundRuns = 32;
// From which on a request may name its session.
constexpr std::uint32_t kTakesSessions = 30;
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;

constexpr SamplingFieldNames kFieldNames;  // the same as in requests

std::optional<std::uint32_t> NumberIn(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Equal for all ranks.
Result<std::uint32_t> ConfigCount(const MetricsPage& page, std::string_view label) {
  const std::vector<std::string> values = page.Labels(kConfigMetric, label);
  if (values.empty()) return Unavailable(fmt::format("the engine's {} does not tell {} yet", kConfigMetric, label));
  const std::optional<std::uint32_t> count = NumberIn(values.front());
  if (!count || *count == 0) return Unavailable(fmt::format("the engine's {} is '{}'", label, values.front()));
  return *count;
}

// The configuration is told once for each rank.
Result<std::vector<EngineRank>> ReadRanks(const MetricsPage& page) {
  if (page.Labels(kConfigMetric, "block_size").size() < 2) return std::vector<EngineRank>();
  std::set<std::uint32_t> numbers;
  for (const std::string& engine : page.Labels(kConfigMetric, kRankLabel)) {
    if (const std::optional<std::uint32_t> number = NumberIn(engine)) numbers.insert(*number);
  }
  return RanksOf(numbers);
}

Result<void> ReadMetrics(std::string_view body, EngineFacts& facts) {
  const MetricsPage page(body);
  facts.started_at = page.Largest("process_start_time_seconds");
  if (!facts.generates) return {};  // one that embeds may have no blocks, and none of its prompts' are of use
  ROOST_ASSIGN_OR_RETURN(facts.block_tokens, ConfigCount(page, "block_size"));
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t blocks, ConfigCount(page, "num_gpu_blocks"));
  ROOST_ASSIGN_OR_RETURN(facts.ranks, ReadRanks(page));
  const auto rank_count = static_cast<std::uint32_t>(std::max<std::size_t>(facts.ranks.size(), 1));
  if (blocks / rank_count < 2) return Unavailable("the engine has no block for content");
  // It tells those of all ranks together; one of each is its own. Where groups of layers share them, more tokens fit
  // than blocks of one group hold.
  const Result<std::uint32_t> tokens = ConfigCount(page, "kv_cache_size_tokens");
  const std::uint32_t fitting = tokens.ok() ? *tokens / rank_count / facts.block_tokens : 0;
  facts.block_count = std::max(blocks / rank_count, fitting) - 1;
  const std::vector<std::string> caching = page.Labels(kConfigMetric, "enable_prefix_caching");
  facts.keeps_prefixes = caching.empty() || caching.front() == "True";
  return {};
}

// 32 of "0.32.0+cpu"; 1.0 comes after every 0.x. 0: it can not be read.
std::uint32_t MinorOf(std::string_view version) {
  const std::size_t major_end = version.find('.');
  const std::optional<std::uint32_t> major = NumberIn(version.substr(0, major_end));
  if (!major || major_end == std::string_view::npos) return 0;
  if (*major > 0) return std::numeric_limits<std::uint32_t>::max();
  version.remove_prefix(major_end + 1);
  return NumberIn(version.substr(0, version.find('.'))).value_or(0);
}

Result<void> ReadVersion(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const json::Element document, ParseAnswer(parser, body));
  facts.version = json::At<std::string_view>(document, "version").value_or("unknown");
  facts.tells_found_runs = MinorOf(facts.version) >= kTellsFoundRuns;
  facts.takes_sessions = MinorOf(facts.version) >= kTakesSessions;
  return {};
}

// The constraint's text must be JSON where the engine takes JSON: it is written as it is.
Result<void> WriteConstraint(JsonWriter& writer, const wire::Constraint& constraint) {
  constexpr std::string_view kKinds[] = {"json_object", "json", "regex", "choice", "grammar", "structural_tag"};
  writer.Key("structured_outputs").BeginObject().Key(kKinds[static_cast<std::size_t>(constraint.kind)]);
  switch (constraint.kind) {
    case wire::ConstraintKind::kJson: writer.Bool(true); break;
    case wire::ConstraintKind::kJsonSchema:
    case wire::ConstraintKind::kChoice:
      if (!json::Document(constraint.text, json::Document::KeepNumbers()).ok()) {
        return InvalidArgument(constraint.field, "it is no JSON");
      }
      writer.Raw(constraint.text);
      break;
    case wire::ConstraintKind::kRegex:
    case wire::ConstraintKind::kGrammar:
    case wire::ConstraintKind::kStructuralTag: writer.String(constraint.text); break;
  }
  writer.EndObject();
  return {};
}

void WritePrompt(JsonWriter& json, const CallPlan& plan) {
  json.Key("prompt").BeginArray();
  for (const TokenId token : plan.generate.prompt) json.Number(token);
  json.EndArray();
}

void WriteLogprobs(JsonWriter& json, const CallPlan& plan) {
  if (plan.generate.output_logprobs) {
    json.Key("logprobs").Number(std::max(*plan.generate.output_logprobs, 1U));  // without one there is no rank
    json.Key("return_tokens_as_token_ids").Bool(true);
  }
  if (plan.scores_prompt) json.Key("prompt_logprobs").Number(plan.generate.prompt_logprobs.value_or(0));
}

// The two steps of prefill apart, as the connectors that vLLM ships have them (NixlConnector): the engine for the
// prompt is asked to hold its blocks, and says where; the one for the answer is told so. Its text is JSON of another
// engine.
Result<void> WriteKvTransfer(JsonWriter& json, const CallPlan& plan) {
  constexpr std::string_view kLend = R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
                                     R"("remote_block_ids":null,"remote_host":null,"remote_port":null})";
  const std::string& from = plan.generate.kv_transfer;
  if (!from.empty()) {
    const json::Document document(from, json::Document::KeepNumbers());
    if (!document.ok() || !document.root().is_object()) return InvalidArgument("kv_transfer", "it is no JSON object");
  }
  if (plan.lends_blocks || !from.empty()) json.Key("kv_transfer_params").Raw(plan.lends_blocks ? kLend : from);
  return {};
}

class Vllm final : public EngineProtocol {
 public:
  [[nodiscard]] std::string_view name() const override { return "vllm"; }
  [[nodiscard]] bool has_connectors() const override { return true; }

  [[nodiscard]] std::string_view health_page() const override { return "/health"; }
  [[nodiscard]] Duration health_interval() const override;
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override;
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const override;
  [[nodiscard]] std::string_view generate_route() const override { return "/v1/completions"; }
  [[nodiscard]] std::string_view adapters_page() const override { return "/v1/models"; }
  [[nodiscard]] std::string_view load_page() const override { return "/metrics"; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view body, const EngineFacts& facts) const override;
  [[nodiscard]] EventDecoder event_decoder() const override;

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan& plan) const override;
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const override;
  // The end of the connection aborts.
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] std::string_view FieldOf(std::string_view parameter) const override;
};

}  // namespace

Duration Vllm::health_interval() const { return std::chrono::seconds(1); }

std::span<const std::string_view> Vllm::fact_pages() const {
  static constexpr std::string_view kPages[] = {kVersionPage, kModelsPage, kMetricsPage};
  return kPages;
}

Result<void> Vllm::ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const {
  if (page == kVersionPage) return ReadVersion(body, facts);
  if (page == kModelsPage) return ReadModelList(body, facts);
  return ReadMetrics(body, facts);
}

EventDecoder Vllm::event_decoder() const { return DecodeVllmEvents; }

// Names since 0.4; kv_cache_usage_perc was gpu_cache_usage_perc before 0.10.
EngineLoad Vllm::ReadLoad(std::string_view body, const EngineFacts& facts) const {
  const MetricsPage page = PageOfRank(body, facts, kRankLabel);
  EngineLoad load;
  load.running_requests = page.Count("vllm:num_requests_running");
  load.waiting_requests = page.Count("vllm:num_requests_waiting");
  load.used_share = page.Largest("vllm:kv_cache_usage_perc");
  if (!load.used_share) load.used_share = page.Largest("vllm:gpu_cache_usage_perc");
  load.computed_tokens =
      page.Sum("vllm:prompt_tokens_total").value_or(0) + page.Sum("vllm:generation_tokens_total").value_or(0);
  load.started_at = page.Largest("process_start_time_seconds");
  load.tier_tokens = page.Sum("vllm:external_prefix_cache_hits_total");
  return load;
}

Result<HttpCall> Vllm::BuildRequest(const CallPlan& plan) const {
  JsonWriter json;
  const std::string& adapter = plan.generate.adapter;
  json.BeginObject().Key("model").String(adapter.empty() ? plan.facts.model : adapter);
  WritePrompt(json, plan);
  json.Key("stream").Bool(plan.is_streamed).Key("return_token_ids").Bool(true);
  if (plan.is_streamed) json.Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
  WriteSamplingFields(json, plan, kFieldNames);
  WriteLogprobs(json, plan);
  if (plan.generate.constraint) ROOST_RETURN_IF_ERROR(WriteConstraint(json, *plan.generate.constraint));
  ROOST_RETURN_IF_ERROR(WriteKvTransfer(json, plan));
  if (!plan.salt.empty()) json.Key("cache_salt").String(plan.salt);
  if (plan.generate.session_hash != 0 && plan.facts.takes_sessions) {
    json.Key("session_id").String(fmt::format("{:016x}", plan.generate.session_hash));
  }
  if (plan.asks_found_runs) {
    json.Key("vllm_xargs").BeginObject().Key("kv_cache_report_mode").String("full").EndObject();
  }
  const std::int64_t priority = kUsualPriority - static_cast<std::int64_t>(plan.generate.priority);
  if (priority != 0 && plan.facts.takes_priority) json.Key("priority").Number(priority);
  json.EndObject();
  return HttpCall{.method = HttpMethod::kPost,
                  .path = "/v1/completions",
                  .headers = {fmt::format("X-Request-Id: {}", plan.id)},
                  .body = json.Take(),
                  .max_body_bytes = plan.is_streamed ? kUnlimitedBody : kMaxAnswerBytes};
}

std::unique_ptr<AnswerReader> Vllm::NewReader(const CallPlan& plan) const {
  return std::make_unique<VllmAnswer>(
      VllmAnswer::Wanted{.output_logprobs = plan.generate.output_logprobs,
                         .prompt_logprobs = plan.scores_prompt ? plan.generate.prompt_logprobs : std::nullopt,
                         .prompt = plan.scores_prompt ? plan.generate.prompt : std::vector<TokenId>()});
}

std::string_view Vllm::FieldOf(std::string_view parameter) const {
  if (parameter == "logprobs" || parameter == "prompt_logprobs" || parameter == "priority") return parameter;
  return RequestNameOf(kFieldNames, parameter);
}

}  // namespace roost::worker::adapters::vllm

namespace roost::worker::adapters {

const EngineProtocol& VllmProtocol() {
  static const vllm::Vllm protocol;
  return protocol;
}

}  // namespace roost::worker::adapters
