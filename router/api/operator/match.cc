// POST /admin/v1/match: a prompt, as prompt_request.h says, and what a request with it would find cached now.
#include <memory>
#include <utility>

#include "router/api/answers/read_body.h"
#include "router/api/operator/verb.h"
#include "router/api/requests/prompt_request.h"
#include "router/route/cost.h"

namespace roost::router {
namespace {

Result<PromptRequest> ParseMatchRequest(const JsonObject& body) {
  return ParsePromptRequest(body, ChatPart::kQuestion);
}

std::uint32_t CachedOn(const PromptQuery& query, const PromptHolder& holder) {
  return CachedTokens(
      {.prompt_token_count = query.prompt_token_count, .matched_block_count = holder.usable_block_count()},
      {query.model->block_tokens, holder.engine_block_tokens, holder.dropped_tokens});
}

void WriteChoice(const PromptMatch& match, JsonWriter& json) {
  json.Key("choice");
  if (!match.choice.has_value()) {
    json.Null();
    return;
  }
  const PromptChoice& choice = *match.choice;
  json.BeginObject().Key("worker").String(choice.worker_id).Key("policy").String(choice.policy);
  json.Key("reason").String(NameOf(choice.reason)).Key("cached_tokens").Number(choice.cached_tokens);
  json.Key("ttft_seconds");
  choice.ttft_seconds.has_value() ? json.Number(*choice.ttft_seconds) : json.Null();
  json.EndObject();
}

std::string MatchBody(const PromptQuery& query, const PromptMatch& match) {
  std::uint32_t cached = match.choice.has_value() ? match.choice->cached_tokens : 0;
  if (!match.choice.has_value() && !match.holders.empty()) cached = CachedOn(query, match.holders.front());
  JsonWriter json;
  json.BeginObject().Key("model").String(query.model->name).Key("prompt_tokens").Number(query.prompt_token_count);
  json.Key("block_tokens").Number(query.model->block_tokens);
  json.Key("blocks").Number(std::uint64_t{query.block_hashes.size()});
  if (!query.block_hashes.empty()) json.Key("last_block_hash").String(query.block_hashes.back().ToHex());
  json.Key("hit").String(HitLine(query.prompt_token_count, cached, query.model->block_tokens));
  WriteChoice(match, json);
  json.Key("workers").BeginArray();
  for (const PromptHolder& holder : match.holders) {
    json.BeginObject().Key("worker").String(holder.worker_id).Key("mode").String(router::NameOf(holder.mode));
    json.Key("held_blocks").Number(holder.held_block_count).Key("pending_blocks").Number(holder.pending_block_count);
    json.Key("disk_blocks").Number(holder.disk_block_count);
    if (holder.resumable_block_count) json.Key("resumable_blocks").Number(*holder.resumable_block_count);
    json.Key("cached_tokens").Number(CachedOn(query, holder)).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<OrderPlan> PlanMatch(VerbCall& call) {
  HttpBody& body = call.request.body;
  const std::size_t size = body.size();
  ROOST_ASSIGN_OR_RETURN(const PromptRequest request, ReadBody(body, size, call.read_model, &ParseMatchRequest));
  ROOST_RETURN_IF_ERROR(Hold(body.memory(), ParseBytes(size) + EncodeBytes(size)));
  ROOST_ASSIGN_OR_RETURN(HashedPrompt prompt, HashPrompt(*call.model, request, call.settings));
  const PromptQuery query{.model = call.model,
                          .prompt_token_count = static_cast<std::uint32_t>(prompt.tokens.size()),
                          .block_hashes = std::move(prompt.hashes)};
  return OrderPlan{query,
                   [query](std::span<const WorkerAnswer> answers) { return MatchBody(query, MatchOf(answers)); }};
}

}  // namespace

extern const Verb kMatchVerb{"POST", "/admin/v1/match", "match", &PlanMatch};

}  // namespace roost::router
