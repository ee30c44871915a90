#include "router/api/operator/prefix_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "common/text/tokenizer.h"
#include "router/api/url.h"
#include "router/route/cost.h"

namespace roost::router {
namespace {

void WriteSize(const PromptSize& size, JsonWriter& json) {
  json.Key("model").String(size.model).Key("blocks").Number(size.block_count).Key("tokens").Number(size.token_count);
}

void WriteSize(const BlockOfModel& block, JsonWriter& json) {
  json.Key("model").String(block.model).Key("hash").String(block.hash.ToHex());
}

// The entry of a worker that gave no answer of the expected kind.
void WriteUnanswered(const WorkerAnswer& answer, JsonWriter& json) {
  json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(false).EndObject();
}

void WriteEvicted(const WorkerAnswer& answer, JsonWriter& json) {
  json.BeginObject().Key("worker").String(answer.worker_id);
  const auto* const evicted = std::get_if<wire::EvictAnswer>(&answer.reply);
  if (evicted != nullptr && evicted->outcome == wire::EvictOutcome::kDone) {
    json.Key("answered").Bool(true).Key("evicted_blocks").Number(evicted->evicted_block_count);
    json.Key("busy_blocks").Number(evicted->busy_block_count).EndObject();
    return;
  }
  const bool is_supported = !std::holds_alternative<NotSupported>(answer.reply);
  std::string_view reason = is_supported ? "no answer" : "not supported";
  if (evicted != nullptr) reason = "refused: it has too many evictions open";
  json.Key("answered").Bool(false).Key("reason").String(reason).EndObject();
}

std::string_view NameOf(WarmOutcome::Kind kind) {
  switch (kind) {
    case WarmOutcome::Kind::kComputed: return "computed";
    case WarmOutcome::Kind::kPulled: return "pulled";
    case WarmOutcome::Kind::kHeld: return "held";
    case WarmOutcome::Kind::kRefused: break;
  }
  return "refused";
}

void WritePull(const Pull& pull, JsonWriter& json) {
  json.Key("pull").BeginObject().Key("from").String(pull.source).Key("outcome").String(router::NameOf(pull.outcome));
  json.Key("blocks").Number(pull.block_count).Key("bytes").Number(pull.bytes).Key("seconds").Number(pull.seconds);
  json.EndObject();
}

std::uint32_t CachedOn(const PromptQuery& query, const PromptHolder& holder) {
  return CachedTokens({.prompt_token_count = query.prompt_token_count,
                       .matched_block_count = holder.held_block_count + holder.pending_block_count},
                      query.model->block_tokens);
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

Result<std::uint32_t> ParseTop(const std::string& text) {
  std::uint32_t top = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, top);
  if (error == std::errc() && stop == end && top >= 1 && top <= wire::kMaxUsedPrefixes) return top;
  return InvalidArgument("top", "'{}' is not a number from 1 to {}", text, wire::kMaxUsedPrefixes);
}

// ---- the most used prefixes ----

struct MergedPrefix {
  const ServedModel* model = nullptr;
  BlockHash hash;
  std::uint32_t block_count = 0;
  std::uint64_t hits = 0;
  std::vector<std::pair<std::string_view, std::uint64_t>> workers;  // with their hits
  std::span<const TokenId> first_tokens;
  std::span<const TokenId> last_tokens;
};

// Appends those of a model, to which they refer.
void Merge(const PrefixesOfModel& of_model, std::vector<MergedPrefix>& all) {
  std::map<BlockHash, MergedPrefix> by_hash;
  for (const WorkerAnswer& answer : of_model.answers) {
    const auto* const prefixes = std::get_if<wire::Prefixes>(&answer.reply);
    if (prefixes == nullptr) continue;
    for (const wire::UsedPrefix& prefix : prefixes->prefixes) {
      MergedPrefix& merged = by_hash[prefix.hash];
      merged.model = of_model.model.get();
      merged.hash = prefix.hash;
      merged.block_count = prefix.block_count;
      merged.hits += prefix.hits;
      merged.workers.emplace_back(answer.worker_id, prefix.hits);
      merged.first_tokens = prefix.first_tokens;
      merged.last_tokens = prefix.last_tokens;
    }
  }
  for (auto& [hash, merged] : by_hash) all.push_back(std::move(merged));
}

std::vector<MergedPrefix> MostUsed(std::span<const PrefixesOfModel> models, std::uint32_t top) {
  std::vector<MergedPrefix> all;
  for (const PrefixesOfModel& of_model : models) Merge(of_model, all);
  std::sort(all.begin(), all.end(), [](const MergedPrefix& a, const MergedPrefix& b) {
    return std::tie(a.hits, a.block_count, a.hash) > std::tie(b.hits, b.block_count, b.hash);
  });
  if (all.size() > top) all.resize(top);
  return all;
}

std::string TextOf(const ServedModel& model, std::span<const TokenId> tokens) {
  std::string text = model.tokenizer->Decode(tokens);
  if (text.size() <= kMaxShownText) return text;
  text.resize(kMaxShownText);
  text.resize(text.size() - IncompleteUtf8Suffix(text));
  return text;
}

enum class NameModel : std::uint8_t { kYes, kNo };

void WritePrefix(const MergedPrefix& prefix, NameModel name_model, JsonWriter& json) {
  const ServedModel& model = *prefix.model;
  json.BeginObject();
  if (name_model == NameModel::kYes) json.Key("model").String(model.name);
  json.Key("hash").String(prefix.hash.ToHex()).Key("blocks").Number(prefix.block_count);
  json.Key("tokens").Number(std::uint64_t{prefix.block_count} * model.block_tokens).Key("hits").Number(prefix.hits);
  if (!prefix.first_tokens.empty()) json.Key("begins").String(TextOf(model, prefix.first_tokens));
  if (!prefix.last_tokens.empty()) json.Key("ends").String(TextOf(model, prefix.last_tokens));
  json.Key("workers").BeginArray();
  for (const auto& [worker, hits] : prefix.workers) {
    json.BeginObject().Key("worker").String(worker).Key("hits").Number(hits).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string HitLine(std::uint32_t prompt_tokens, std::uint32_t cached_tokens, std::uint32_t block_tokens) {
  const std::uint32_t cached = std::min(cached_tokens, prompt_tokens);
  const std::uint32_t blocks = (cached + block_tokens - 1) / block_tokens;
  return fmt::format("prompt {} token{}: {} cached in {} block{}, {} to prefill", prompt_tokens,
                     prompt_tokens == 1 ? "" : "s", cached, blocks, blocks == 1 ? "" : "s", prompt_tokens - cached);
}

std::string PinBody(const PinnedPart& part, std::span<const WorkerAnswer> answers) {
  JsonWriter json;
  json.BeginObject();
  std::visit([&json](const auto& named) { WriteSize(named, json); }, part);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) {
    const auto* const pinned = std::get_if<wire::PinAnswer>(&answer.reply);
    if (pinned == nullptr) {
      WriteUnanswered(answer, json);
      continue;
    }
    json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(true);
    json.Key("kept_blocks").Number(pinned->kept_block_count);
    json.Key("pending_blocks").Number(pinned->awaited_block_count);
    json.Key("refused_blocks").Number(pinned->refused_block_count).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string EvictBody(const EvictedSize& size, std::span<const WorkerAnswer> answers) {
  std::uint64_t evicted = 0;
  std::uint64_t busy = 0;
  for (const WorkerAnswer& answer : answers) {
    const auto* const counts = std::get_if<wire::EvictAnswer>(&answer.reply);
    if (counts == nullptr) continue;
    evicted += counts->evicted_block_count;
    busy += counts->busy_block_count;
  }
  JsonWriter json;
  json.BeginObject();
  if (!size.tenant.empty()) json.Key("tenant").String(size.tenant);
  if (size.prompt) {
    WriteSize(*size.prompt, json);
  } else if (!size.model.empty()) {
    json.Key("model").String(size.model);
  }
  if (size.block) json.Key("hash").String(size.block->ToHex());
  json.Key("evicted_blocks").Number(evicted).Key("busy_blocks").Number(busy);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) WriteEvicted(answer, json);
  json.EndArray().EndObject();
  return json.Take();
}

std::string WarmBody(const PromptSize& size, std::span<const WorkerAnswer> answers) {
  JsonWriter json;
  json.BeginObject();
  WriteSize(size, json);
  json.Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) {
    const auto* const outcome = std::get_if<WarmOutcome>(&answer.reply);
    if (outcome == nullptr) {
      WriteUnanswered(answer, json);
      continue;
    }
    json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(true);
    json.Key("outcome").String(NameOf(outcome->kind)).Key("held_blocks").Number(outcome->block_count);
    json.Key("computed_tokens").Number(outcome->computed_tokens);
    if (outcome->pull) WritePull(*outcome->pull, json);
    if (outcome->kind == WarmOutcome::Kind::kRefused) json.Key("reason").String(outcome->reason);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
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
    json.Key("cached_tokens").Number(CachedOn(query, holder)).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<PrefixesQuery> ParsePrefixesQuery(std::string_view query) {
  PrefixesQuery parsed;
  for (const QueryParameter& parameter : ParseQuery(query)) {
    if (parameter.name == "model") {
      parsed.model = parameter.value;
    } else if (parameter.name == "top") {
      ROOST_ASSIGN_OR_RETURN(parsed.top, ParseTop(parameter.value));
    } else {
      return InvalidArgument(parameter.name, "is not a known parameter; the known ones are model and top");
    }
  }
  return parsed;
}

std::string PrefixesBody(std::span<const PrefixesOfModel> models, std::uint32_t top) {
  const bool is_one = models.size() == 1;
  JsonWriter json;
  json.BeginObject();
  if (is_one) {
    json.Key("model").String(models[0].model->name).Key("block_tokens").Number(models[0].model->block_tokens);
  }
  json.Key("prefixes").BeginArray();
  for (const MergedPrefix& prefix : MostUsed(models, top)) {
    WritePrefix(prefix, is_one ? NameModel::kNo : NameModel::kYes, json);
  }
  json.EndArray().Key("workers").BeginArray();
  for (const PrefixesOfModel& of_model : models) {
    for (const WorkerAnswer& answer : of_model.answers) {
      json.BeginObject().Key("worker").String(answer.worker_id).Key("answered");
      json.Bool(std::holds_alternative<wire::Prefixes>(answer.reply)).EndObject();
    }
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace roost::router
