#include "worker/adapters/engine_protocol.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/utf8.h"
#include "common/prefix/block_hash.h"
#include "common/wire/codec.h"
#include "worker/adapters/answer_json.h"
#include "worker/adapters/engine_sampling.h"

namespace roost::worker::adapters {

namespace {

void AddName(std::set<std::string>& names, std::string_view name) {
  const bool is_name = !name.empty() && name.size() <= wire::WireLimits::kMaxAdapterBytes && !HasControlCharacter(name);
  if (is_name && names.size() < wire::kMaxAdapters) names.emplace(name);
}

}  // namespace

Result<void> ReadModelNames(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const json::Element document, ParseAnswer(parser, body));
  const std::optional<json::Array> models = json::At<json::Array>(document, "data");
  if (!models) return Unreadable("/v1/models has no data");
  for (const json::Element model : *models) {
    const std::string_view name = json::At<std::string_view>(model, "id").value_or("");
    if (json::At<std::string_view>(model, "parent").has_value()) {
      AddName(facts.adapters, name);
    } else if (facts.model.empty()) {
      facts.model = name;
      const auto of_llama = json::At<std::uint32_t>(model, "/meta/n_ctx_train");
      facts.max_context_tokens = json::At<std::uint32_t>(model, "max_model_len").value_or(of_llama.value_or(0));
    } else {
      AddName(facts.aliases, name);
    }
  }
  return facts.model.empty() ? Unreadable("/v1/models names no model") : Result<void>();
}

Result<void> ReadModelList(std::string_view body, EngineFacts& facts) {
  ROOST_RETURN_IF_ERROR(ReadModelNames(body, facts));
  return facts.max_context_tokens > 0 ? Result<void>() : Unreadable("/v1/models names no model with a max_model_len");
}

Result<void> ReadRoutes(std::string_view body, EngineFacts& facts) {
  simdjson::dom::parser parser;
  ROOST_ASSIGN_OR_RETURN(const json::Element document, ParseAnswer(parser, body));
  const std::optional<json::Object> paths = json::At<json::Object>(document, "paths");
  if (!paths) return Unreadable("/openapi.json has no paths");
  std::set<std::string> found;
  for (const auto& [path, methods] : *paths) {
    const bool is_plain = path.starts_with('/') && path.size() <= wire::kMaxRouteBytes && IsValidUtf8(path) &&
                          !HasControlCharacter(path) && path.find('{') == std::string_view::npos;
    if (is_plain && methods.at_key("post").error() == simdjson::SUCCESS) found.emplace(path);
  }
  for (const std::string_view usual : kUsualRoutes) {
    if (found.contains(std::string(usual))) facts.routes.emplace(usual);
  }
  for (const std::string& path : found) {
    if (facts.routes.size() < wire::kMaxRoutes) facts.routes.insert(path);
  }
  return {};
}

std::uint32_t EngineFacts::grain_tokens() const {
  for (std::uint32_t grain = kGrainTokens; grain >= kMinBlockTokens; grain /= 2) {
    if (block_tokens > 0 && block_tokens % grain == 0) return grain;
  }
  return block_tokens > 0 && kGrainTokens % block_tokens == 0 ? kGrainTokens : 0;
}

std::uint32_t EngineFacts::grain_count() const {
  const std::uint32_t grain = grain_tokens() > 0 ? grain_tokens() : kGrainTokens;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(std::uint64_t{block_count} * block_tokens / grain, 1, kMost));
}

Result<std::vector<EngineRank>> RanksOf(const std::set<std::uint32_t>& numbers) {
  if (numbers.size() > kMaxEngineRanks) {
    return InvalidArgument("engine-url", "the engine has more than {} data-parallel ranks behind one URL",
                           kMaxEngineRanks);
  }
  std::vector<EngineRank> ranks;
  if (numbers.size() < 2) return ranks;
  for (const std::uint32_t number : numbers) {
    ranks.push_back({.number = number, .index = static_cast<std::uint32_t>(ranks.size())});
  }
  return ranks;
}

MetricsPage PageOfRank(std::string_view body, const EngineFacts& facts, std::string_view label) {
  if (!facts.rank) return MetricsPage(body);
  return MetricsPage(body, MetricsPage::Only{.label = label, .value = std::to_string(facts.rank->number)});
}

Result<void> CheckSameEngine(const EngineFacts& before, const EngineFacts& now) {
  if (now.model != before.model && !now.aliases.contains(before.model)) {
    return InvalidArgument("engine-url", "the engine serves '{}' now, not '{}' as before", now.model, before.model);
  }
  if (now.block_tokens != before.block_tokens) {
    return InvalidArgument("engine-url", "the engine's blocks have {} tokens now, not {} as before", now.block_tokens,
                           before.block_tokens);
  }
  if (now.chat_template != before.chat_template || now.tool_template != before.tool_template) {
    return InvalidArgument("engine-url", "the engine renders chats with another template now: start the worker again");
  }
  if (now.ranks != before.ranks) {
    return InvalidArgument("engine-url", "the engine has {} data-parallel ranks now, not {} as before",
                           std::max<std::size_t>(now.ranks.size(), 1), std::max<std::size_t>(before.ranks.size(), 1));
  }
  if (now.block_count < before.block_count) {
    return InvalidArgument("engine-url", "the engine has {} blocks now, not {} as before", now.block_count,
                           before.block_count);
  }
  if (now.max_context_tokens < before.max_context_tokens) {
    return InvalidArgument("engine-url", "the engine's context has {} tokens now, not {} as before",
                           now.max_context_tokens, before.max_context_tokens);
  }
  return {};
}

Result<AnswerPiece> AnswerReader::ReadEvent(simdjson::dom::parser& parser, std::string_view data) {
  if (data == "[DONE]") {
    AnswerPiece piece;
    piece.is_last = true;
    return piece;
  }
  ROOST_ASSIGN_OR_RETURN(const json::Element document, ParseAnswer(parser, data));
  return ReadDocument(document);
}

Result<AnswerPiece> AnswerReader::ReadWhole(simdjson::dom::parser& parser, std::string_view body) {
  ROOST_ASSIGN_OR_RETURN(const json::Element document, ParseAnswer(parser, body));
  ROOST_ASSIGN_OR_RETURN(AnswerPiece piece, ReadDocument(document));
  piece.is_last = true;
  return piece;
}

void EngineProtocol::Claim(const EngineFacts& facts, wire::Hello& hello) const {
  hello.features.insert(SamplingFeatures());
  hello.features.insert({wire::Feature::kLogprobs, wire::Feature::kConstrainsOutput});
  hello.max_sample_count = wire::kMaxSampleCount;
  hello.keeps_prefixes = facts.keeps_prefixes;
}

const EngineProtocol* EngineProtocolOf(std::string_view name) {
  for (const EngineProtocol* const protocol :
       {&VllmProtocol(), &SglangProtocol(), &OpenAiProtocol(), &LlamaCppProtocol()}) {
    if (protocol->name() == name) return protocol;
  }
  return nullptr;
}

}  // namespace roost::worker::adapters
