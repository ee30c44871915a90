// SGLang's `/generate` with token ids both ways, as its documentation and source (0.5.23) describe it; not recorded
// from a running engine. this file holds what is sent and the pages, sglang_answer.h what comes back.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/engine_sampling.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/metrics_page.h"
#include "worker/adapters/sglang/sglang_answer.h"

namespace roost::worker::adapters::sglang {
namespace {

constexpr std::string_view kServerPage = "/server_info";
constexpr std::string_view kModelsPage = "/v1/models";
constexpr std::int64_t kUsualPriority = 50;  // of a Generate
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;
constexpr Duration kAbortTime = std::chrono::seconds(5);

constexpr SamplingFieldName kOtherNames[] = {
    {"max_tokens", "max_new_tokens"}, {"min_tokens", "min_new_tokens"}, {"seed", "sampling_seed"}};
constexpr SamplingFieldNames kFieldNames{.other_names = kOtherNames, .top_k_of_no_limit = -1};

Result<void> ReadServer(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const json::Element info, ParseAnswer(parser, body));
  facts.version = json::At<std::string_view>(info, "version").value_or("unknown");
  if (json::At<bool>(info, "is_embedding").value_or(false)) facts.generates = false;
  if (!facts.generates) return {};  // its blocks are of no use
  facts.block_tokens = json::At<std::uint32_t>(info, "page_size").value_or(0);
  const std::uint32_t tokens = json::At<std::uint32_t>(info, "max_total_num_tokens").value_or(0);
  if (facts.block_tokens == 0 || tokens < facts.block_tokens) {
    return Unreadable("/server_info has no page_size and max_total_num_tokens");
  }
  if (const std::uint32_t count = json::At<std::uint32_t>(info, "dp_size").value_or(1); count > 1) {
    std::set<std::uint32_t> numbers;
    while (numbers.size() < std::min<std::size_t>(count, kMaxEngineRanks + 1)) {
      numbers.insert(static_cast<std::uint32_t>(numbers.size()));
    }
    ROOST_ASSIGN_OR_RETURN(facts.ranks, RanksOf(numbers));
  }
  facts.block_count = tokens / facts.block_tokens;
  facts.max_running_requests = json::At<std::uint32_t>(info, "max_running_requests");
  if (facts.max_running_requests && !facts.ranks.empty()) {  // of all ranks together
    *facts.max_running_requests =
        std::max(1U, *facts.max_running_requests / static_cast<std::uint32_t>(facts.ranks.size()));
  }
  facts.keeps_prefixes = !json::At<bool>(info, "disable_radix_cache").value_or(false);
  facts.takes_priority =
      json::At<bool>(info, "enable_priority_scheduling").value_or(false);  // without it a priority is an error
  return {};
}

// A regular expression for one of the strings of a JSON array: the engine has no choices of its own.
Result<std::string> RegexOfChoices(const wire::Constraint& constraint) {
  simdjson::dom::parser parser;
  json::Array choices;
  if (parser.parse(constraint.text.data(), constraint.text.size()).get(choices) != simdjson::SUCCESS) {
    return InvalidArgument(constraint.field, "it is no JSON array of strings");
  }
  std::string regex = "(";
  for (const json::Element choice : choices) {
    std::string_view text;
    if (choice.get(text) != simdjson::SUCCESS) return InvalidArgument(constraint.field, "a choice is no string");
    if (regex.size() > 1) regex += '|';
    for (const char c : text) {
      if (std::string_view(R"(\.^$|?*+()[]{}-/)").find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return regex + ")";
}

Result<void> WriteEngineConstraint(JsonWriter& json, const wire::Constraint& constraint) {
  switch (constraint.kind) {
    case wire::ConstraintKind::kJson: json.Key("json_schema").String(R"({"type":"object"})"); return {};
    case wire::ConstraintKind::kJsonSchema: json.Key("json_schema").String(constraint.text); return {};
    case wire::ConstraintKind::kRegex: json.Key("regex").String(constraint.text); return {};
    case wire::ConstraintKind::kChoice: {
      ROOST_ASSIGN_OR_RETURN(const std::string regex, RegexOfChoices(constraint));
      json.Key("regex").String(regex);
      return {};
    }
    case wire::ConstraintKind::kGrammar: json.Key("ebnf").String(constraint.text); return {};
    case wire::ConstraintKind::kStructuralTag: json.Key("structural_tag").String(constraint.text); return {};
  }
  return {};
}

// Log probabilities of the prompt begin at its first token, those of the output at -1.
void WriteWantedLogprobs(JsonWriter& json, const CallPlan& plan) {
  const wire::Generate& generate = plan.generate;
  if (!generate.output_logprobs && !plan.scores_prompt) return;
  const std::uint32_t prompt_count = plan.scores_prompt ? generate.prompt_logprobs.value_or(0) : 0;
  json.Key("return_logprob").Bool(true);
  json.Key("top_logprobs_num").Number(std::max({generate.output_logprobs.value_or(0), prompt_count, 1U}));
  json.Key("logprob_start_len").Number(plan.scores_prompt ? 0 : -1);
}

Result<void> WriteSamplingParams(JsonWriter& json, const CallPlan& plan) {
  json.Key("sampling_params").BeginObject();
  WriteSamplingFields(json, plan, kFieldNames);
  if (plan.generate.constraint) ROOST_RETURN_IF_ERROR(WriteEngineConstraint(json, *plan.generate.constraint));
  json.EndObject();
  return {};
}

class Sglang final : public EngineProtocol {
 public:
  [[nodiscard]] std::string_view name() const override { return "sglang"; }

  [[nodiscard]] std::string_view health_page() const override { return "/health"; }
  // Its health page runs a small request while the engine is idle.
  [[nodiscard]] Duration health_interval() const override;
  [[nodiscard]] std::span<const std::string_view> fact_pages() const override;
  [[nodiscard]] Result<void> ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const override;
  // Needs the engine's flag enable-metrics; without it the worker knows its own requests only.
  [[nodiscard]] std::string_view generate_route() const override { return "/generate"; }
  [[nodiscard]] std::string_view adapters_page() const override { return "/v1/models"; }
  [[nodiscard]] std::string_view load_page() const override { return "/metrics"; }
  [[nodiscard]] EngineLoad ReadLoad(std::string_view body, const EngineFacts& facts) const override;
  [[nodiscard]] EventDecoder event_decoder() const override;

  [[nodiscard]] Result<HttpCall> BuildRequest(const CallPlan& plan) const override;
  [[nodiscard]] std::unique_ptr<AnswerReader> NewReader(const CallPlan& plan) const override;
  [[nodiscard]] std::optional<HttpCall> BuildAbort(std::string_view id) const override;
  [[nodiscard]] std::string_view FieldOf(std::string_view parameter) const override;
};

}  // namespace

Duration Sglang::health_interval() const { return std::chrono::seconds(5); }

std::span<const std::string_view> Sglang::fact_pages() const {
  static constexpr std::string_view kPages[] = {kServerPage, kModelsPage};
  return kPages;
}

Result<void> Sglang::ReadFacts(std::string_view page, std::string_view body, EngineFacts& facts) const {
  return page == kServerPage ? ReadServer(body, facts) : ReadModelList(body, facts);
}

EventDecoder Sglang::event_decoder() const { return DecodeSglangEvents; }

EngineLoad Sglang::ReadLoad(std::string_view body, const EngineFacts& facts) const {
  const MetricsPage page = PageOfRank(body, facts, "dp_rank");
  EngineLoad load;
  load.running_requests = page.Count("sglang:num_running_reqs");
  load.waiting_requests = page.Count("sglang:num_queue_reqs");
  load.used_share = page.Largest("sglang:token_usage");
  load.computed_tokens =
      page.Sum("sglang:prompt_tokens_total").value_or(0) + page.Sum("sglang:generation_tokens_total").value_or(0);
  load.started_at = page.Largest("process_start_time_seconds");
  return load;
}

Result<HttpCall> Sglang::BuildRequest(const CallPlan& plan) const {
  JsonWriter json;
  json.BeginObject().Key("rid").String(plan.id).Key("input_ids").BeginArray();
  for (const TokenId token : plan.generate.prompt) json.Number(token);
  json.EndArray().Key("stream").Bool(plan.is_streamed);
  ROOST_RETURN_IF_ERROR(WriteSamplingParams(json, plan));
  WriteWantedLogprobs(json, plan);
  if (!plan.salt.empty()) json.Key("extra_key").String(plan.salt);
  if (plan.facts.rank) json.Key("data_parallel_rank").Number(plan.facts.rank->index);
  if (!plan.generate.adapter.empty()) json.Key("lora_path").String(plan.generate.adapter);  // a name, too
  const std::int64_t priority = static_cast<std::int64_t>(plan.generate.priority) - kUsualPriority;
  if (priority != 0 && plan.facts.takes_priority) json.Key("priority").Number(priority);
  json.EndObject();
  return HttpCall{.method = HttpMethod::kPost,
                  .path = "/generate",
                  .body = json.Take(),
                  .max_body_bytes = plan.is_streamed ? kUnlimitedBody : kMaxAnswerBytes};
}

std::unique_ptr<AnswerReader> Sglang::NewReader(const CallPlan& plan) const {
  return std::make_unique<SglangAnswer>(
      SglangAnswer::Wanted{.output_logprobs = plan.generate.output_logprobs,
                           .prompt_logprobs = plan.scores_prompt ? plan.generate.prompt_logprobs : std::nullopt});
}

std::optional<HttpCall> Sglang::BuildAbort(std::string_view id) const {
  JsonWriter json;
  json.BeginObject().Key("rid").String(id).EndObject();
  return HttpCall{.method = HttpMethod::kPost,
                  .path = "/abort_request",
                  .body = json.Take(),
                  .time_limit = kAbortTime,
                  .max_body_bytes = kMaxPageBytes};
}

std::string_view Sglang::FieldOf(std::string_view parameter) const { return RequestNameOf(kFieldNames, parameter); }

}  // namespace roost::worker::adapters::sglang

namespace roost::worker::adapters {

const EngineProtocol& SglangProtocol() {
  static const sglang::Sglang protocol;
  return protocol;
}

}  // namespace roost::worker::adapters
