// GET /admin/v1/prefixes?model=M&top=K: the prefixes of all workers' answers, the most used first, at most `top`.
// Prefixes of a model with equal hashes are merged and their hits added. A prefix lists only the workers that have it
// among their own most used ones. If workers sent tokens, they are shown as text, at most kMaxShownText bytes each for
// the first and the last block. One model is named once; of several, each prefix names its own.
#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/tokenizer.h"
#include "common/wire/codec.h"
#include "router/api/operator/verb.h"
#include "router/api/url.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kDefaultTop = 20;
constexpr std::size_t kMaxShownText = 200;

struct PrefixesQuery {
  std::string model;  // empty: all models that are served
  std::uint32_t top = kDefaultTop;
};

Result<std::uint32_t> ParseTop(const std::string& text) {
  std::uint32_t top = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, top);
  if (error == std::errc() && stop == end && top >= 1 && top <= wire::kMaxUsedPrefixes) return top;
  return InvalidArgument("top", "'{}' is not a number from 1 to {}", text, wire::kMaxUsedPrefixes);
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

struct MergedPrefix {
  const ServedModel* model = nullptr;
  BlockHash hash;
  std::uint32_t block_count = 0;
  std::uint64_t hits = 0;
  std::vector<std::pair<std::string_view, std::uint64_t>> workers;  // with their hits
  std::span<const TokenId> first_tokens;
  std::span<const TokenId> last_tokens;
};

// They refer to the answers.
std::vector<MergedPrefix> Merged(std::span<const WorkerAnswer> answers) {
  std::map<std::pair<const ServedModel*, BlockHash>, MergedPrefix> by_hash;
  for (const WorkerAnswer& answer : answers) {
    const auto* const prefixes = std::get_if<wire::Prefixes>(&answer.reply);
    if (prefixes == nullptr) continue;
    for (const wire::UsedPrefix& prefix : prefixes->prefixes) {
      MergedPrefix& merged = by_hash[{answer.model.get(), prefix.hash}];
      merged.model = answer.model.get();
      merged.hash = prefix.hash;
      merged.block_count = prefix.block_count;
      merged.hits += prefix.hits;
      merged.workers.emplace_back(answer.worker_id, prefix.hits);
      merged.first_tokens = prefix.first_tokens;
      merged.last_tokens = prefix.last_tokens;
    }
  }
  std::vector<MergedPrefix> all;
  all.reserve(by_hash.size());
  for (auto& [hash, merged] : by_hash) all.push_back(std::move(merged));
  return all;
}

std::vector<MergedPrefix> MostUsed(std::span<const WorkerAnswer> answers, std::uint32_t top) {
  std::vector<MergedPrefix> all = Merged(answers);
  std::sort(all.begin(), all.end(), [](const MergedPrefix& a, const MergedPrefix& b) {
    return std::tie(a.hits, a.block_count, a.hash) > std::tie(b.hits, b.block_count, b.hash);
  });
  if (all.size() > top) all.resize(top);
  return all;
}

std::string TextOfTokens(const ServedModel& model, std::span<const TokenId> tokens) {
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
  if (!prefix.first_tokens.empty()) json.Key("begins").String(TextOfTokens(model, prefix.first_tokens));
  if (!prefix.last_tokens.empty()) json.Key("ends").String(TextOfTokens(model, prefix.last_tokens));
  json.Key("workers").BeginArray();
  for (const auto& [worker, hits] : prefix.workers) {
    json.BeginObject().Key("worker").String(worker).Key("hits").Number(hits).EndObject();
  }
  json.EndArray().EndObject();
}

std::string PrefixesBody(std::span<const std::shared_ptr<const ServedModel>> models,
                         std::span<const WorkerAnswer> answers, std::uint32_t top) {
  const bool is_one = models.size() == 1;
  JsonWriter json;
  json.BeginObject();
  if (is_one) json.Key("model").String(models[0]->name).Key("block_tokens").Number(models[0]->block_tokens);
  json.Key("prefixes").BeginArray();
  for (const MergedPrefix& prefix : MostUsed(answers, top)) {
    WritePrefix(prefix, is_one ? NameModel::kNo : NameModel::kYes, json);
  }
  json.EndArray().Key("workers").BeginArray();
  for (const WorkerAnswer& answer : answers) {
    json.BeginObject().Key("worker").String(answer.worker_id).Key("answered");
    json.Bool(std::holds_alternative<wire::Prefixes>(answer.reply)).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<OrderPlan> PlanPrefixes(VerbCall& call) {
  ROOST_ASSIGN_OR_RETURN(const PrefixesQuery query, ParsePrefixesQuery(call.request.query));
  PrefixesQuestion question{.models = call.view->models->models, .most = query.top};
  if (query.model.empty()) {
    std::erase_if(question.models, [](const auto& model) { return !model->base.empty(); });
  } else {
    ROOST_ASSIGN_OR_RETURN(call.model, call.find_model(query.model));
    question.models = {call.model};
  }
  if (call.prefix_text == PrefixText::kShow) question.tokens = wire::PrefixTokens::kTell;
  return OrderPlan{question, [models = question.models, top = query.top](std::span<const WorkerAnswer> answers) {
                     return PrefixesBody(models, answers, top);
                   }};
}

}  // namespace

extern const Verb kPrefixesVerb{"GET", "/admin/v1/prefixes", "prefixes", &PlanPrefixes};

}  // namespace roost::router
