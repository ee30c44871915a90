// GET /admin/v1/decisions?request_id=ID or ?limit=N: why requests went where they did. {"decisions": [...]}, of one
// request, or the last ones.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "router/api/operator/verb.h"
#include "router/api/url.h"
#include "router/route/log/decision_log.h"

namespace roost::router {
namespace {

struct DecisionsQuery {
  static constexpr std::size_t kDefaultLimit = 20;

  std::optional<std::string> request_id;  // the decision of this request; if empty:
  std::size_t limit = kDefaultLimit;      // this many of the last decisions
};

Result<std::size_t> ParseLimit(const std::string& text) {
  std::size_t limit = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, limit);
  if (error == std::errc() && stop == end && limit >= 1 && limit <= DecisionLog::kCapacity) return limit;
  return InvalidArgument("limit", "'{}' is not a number from 1 to {}", text, DecisionLog::kCapacity);
}

// Writes null if the value is not a time because no rate is known yet.
void WriteSeconds(std::string_view key, double seconds, bool in_seconds, JsonWriter& json) {
  json.Key(key);
  in_seconds ? json.Number(seconds) : json.Null();
}

// `source_id` is the worker from which it would fetch blocks; empty: from none. `held_tokens`: see DecisionRecord.
void WriteCandidate(const Candidate& candidate, std::string_view worker_id, std::string_view source_id,
                    std::uint32_t held_tokens, JsonWriter& json) {
  json.BeginObject().Key("worker").String(worker_id);
  json.Key("way").String(NameOf(candidate.way())).Key("source");
  source_id.empty() ? json.Null() : json.String(source_id);
  if (held_tokens > 0) json.Key("held_tokens").Number(held_tokens);
  json.Key("matched_tokens").Number(candidate.matched_tokens);
  json.Key("pending_tokens").Number(candidate.pending_tokens);
  json.Key("pulled_tokens").Number(candidate.pulled_tokens);
  json.Key("disk_tokens").Number(candidate.disk_tokens);
  json.Key("queue_seconds").Number(candidate.queue_seconds);
  json.Key("transfer_seconds").Number(candidate.transfer_seconds);
  json.Key("prefill_seconds").Number(candidate.prefill_seconds);
  json.Key("decode_seconds").Number(candidate.decode_seconds);
  json.Key("ttft_seconds").Number(candidate.ttft_seconds());
  json.Key("congestion").Number(candidate.congestion);
  json.Key("pace").Number(candidate.pace);
  json.Key("delay_seconds").Number(candidate.delay_seconds);
  json.Key("answer_pace").Number(candidate.answer_pace);
  json.Key("token_seconds").Number(candidate.token_seconds);
  json.Key("answer_seconds").Number(candidate.answer_seconds);
  json.Key("stall_seconds").Number(candidate.stall_seconds);
  json.Key("displaced_seconds").Number(candidate.displaced_seconds);
  json.Key("cost_seconds").Number(candidate.cost_seconds());
  json.EndObject();
}

// The copy's worker is one of the candidates.
void WriteCopy(const DecisionRecord& record, JsonWriter& json) {
  json.Key("copy");
  if (!record.decision.copy.has_value()) {
    json.Null();
    return;
  }
  const PrefixCopy& copy = *record.decision.copy;
  json.BeginObject();
  for (std::size_t i = 0; i < record.candidate_ids.size(); ++i) {
    if (record.decision.candidates[i].slot == copy.worker) json.Key("worker").String(record.candidate_ids[i]);
  }
  json.Key("blocks").Number(copy.block_count).EndObject();
}

// Empty: the candidate would fetch nothing.
std::string_view SourceOf(const DecisionRecord& record, std::size_t candidate) {
  return candidate < record.source_ids.size() ? std::string_view(record.source_ids[candidate]) : "";
}

// "restore": what comes from the worker's own disk. Null: nothing.
bool WriteRestore(const DecisionRecord& record, JsonWriter& json) {
  const std::optional<PrefixPull>& pull = record.decision.pull;
  json.Key("restore");
  if (!pull.has_value() || pull->source != record.decision.slot) {
    json.Null();
    return false;
  }
  json.BeginObject().Key("blocks").Number(pull->block_count).Key("bytes").Number(pull->price.bytes);
  json.Key("predicted_seconds").Number(pull->price.seconds).EndObject();
  return true;
}

// Null: the worker fetches nothing from another one for the request.
void WritePull(const DecisionRecord& record, JsonWriter& json) {
  const bool is_restored = WriteRestore(record, json);
  json.Key("pull");
  if (!record.decision.pull.has_value() || is_restored) {
    json.Null();
    return;
  }
  const PrefixPull& pull = *record.decision.pull;
  json.BeginObject();
  for (std::size_t i = 0; i < record.source_ids.size(); ++i) {
    if (record.decision.candidates[i].slot == record.decision.slot) json.Key("source").String(SourceOf(record, i));
  }
  json.Key("blocks").Number(pull.block_count).Key("bytes").Number(pull.price.bytes);
  json.Key("predicted_seconds").Number(pull.price.seconds).Key("actual");
  if (record.pulled.has_value()) {
    json.BeginObject().Key("outcome").String(record.pulled->outcome).Key("blocks").Number(record.pulled->block_count);
    json.Key("bytes").Number(record.pulled->bytes).Key("seconds").Number(record.pulled->seconds).EndObject();
  } else {
    json.Null();
  }
  json.EndObject();
}

// "apart": where the answer goes on, and at what price; "together": why the prompt is not computed apart. Null: it is
// not so, or no worker is for prompts.
void WriteApart(const DecisionRecord& record, JsonWriter& json) {
  const std::optional<Apart>& apart = record.decision.apart;
  json.Key("apart");
  if (apart.has_value()) {
    json.BeginObject().Key("worker").String(record.decode_id).Key("blocks").Number(apart->follow.block_count);
    json.Key("cost_seconds").Number(apart->cost_seconds).Key("together_seconds").Number(apart->together_seconds);
    json.EndObject();
  } else {
    json.Null();
  }
  json.Key("together");
  record.decision.together.empty() ? json.Null() : json.String(record.decision.together);
}

// The tokens that it found cached; before its first token, the predicted number.
void WriteHit(const DecisionRecord& record, JsonWriter& json) {
  const std::uint32_t cached =
      record.outcome.has_value() ? record.outcome->cached_tokens : record.decision.matched_tokens;
  json.Key("block_tokens").Number(record.block_tokens);
  json.Key("hit").String(HitLine(record.prompt_token_count, cached, record.block_tokens));
}

void WriteActual(const DecisionRecord::Outcome& outcome, JsonWriter& json) {
  json.BeginObject().Key("cached_tokens").Number(outcome.cached_tokens);
  json.Key("ttft_seconds").Number(outcome.ttft_seconds);
  if (outcome.answer.has_value()) {
    json.Key("output_tokens").Number(outcome.answer->tokens);
    WriteSeconds("itl_seconds", outcome.answer->itl_seconds, outcome.answer->tokens > 1, json);
    json.Key("whole_seconds").Number(outcome.answer->whole_seconds);
  }
  json.EndObject();
}

void WriteOutcome(const DecisionRecord& record, JsonWriter& json) {
  const Decision& decision = record.decision;
  json.Key("predicted").BeginObject().Key("cached_tokens").Number(decision.matched_tokens);
  WriteSeconds("ttft_seconds", decision.predicted_ttft_seconds, decision.in_seconds, json);
  WriteSeconds("itl_seconds", decision.predicted_itl_seconds, decision.in_seconds, json);
  WriteSeconds("whole_seconds", decision.predicted_whole_seconds, decision.in_seconds, json);
  json.EndObject().Key("actual");
  if (record.outcome.has_value()) {
    WriteActual(*record.outcome, json);
  } else {
    json.Null();
  }
  json.Key("no_actual");
  record.no_outcome.empty() ? json.Null() : json.String(record.no_outcome);
}

// "miss": null where nothing is known to have been missed.
void WriteMiss(const DecisionRecord& record, JsonWriter& json) {
  PromptOutcome outcome{.prompt_tokens = record.prompt_token_count,
                        .block_tokens = record.block_tokens,
                        .cached_tokens = record.decision.matched_tokens,
                        .elsewhere_tokens = record.decision.elsewhere_tokens,
                        .before = record.decision.loss.worker};
  if (record.outcome) {
    outcome.cached_tokens = record.outcome->cached_tokens;
    outcome.miss = record.outcome->miss;
  }
  const CacheVerdict verdict = VerdictOf(record.comparison, outcome);
  const std::string sentence = SentenceOf(record.comparison, verdict, record.decision.loss, record.elsewhere_id);
  json.Key("miss");
  if (sentence.empty()) {
    json.Null();
    return;
  }
  json.BeginObject().Key("cause").String(NameOf(verdict.cause)).Key("tokens").Number(verdict.tokens);
  json.Key("sentence").String(sentence).EndObject();
}

void WriteAudit(const DecisionRecord& record, JsonWriter& json) {
  const DecisionAudit& audit = record.audit;
  const bool in_seconds = record.decision.in_seconds;
  json.Key("regret").BeginObject().Key("cached_tokens").Number(audit.regret_tokens);
  WriteSeconds("ttft_seconds", audit.regret_seconds, in_seconds, json);
  WriteSeconds("whole_seconds", audit.regret_whole_seconds, in_seconds, json);
  json.EndObject().Key("round_robin").BeginObject().Key("cached_tokens").Number(audit.rotation_matched_tokens);
  WriteSeconds("ttft_seconds", audit.rotation_ttft_seconds, in_seconds, json);
  WriteSeconds("whole_seconds", audit.rotation_whole_seconds, in_seconds, json);
  json.EndObject();
}

void WriteRecord(const DecisionRecord& record, Instant now, JsonWriter& json) {
  json.BeginObject().Key("id").String(record.answer_id).Key("request_id").String(record.request_id);
  json.Key("model").String(record.model).Key("prompt_tokens").Number(record.prompt_token_count);
  json.Key("retries").Number(record.retry_count).Key("seconds_ago").Number(ToSeconds(now - record.decided_at));
  json.Key("policy").String(record.policy).Key("worker").String(record.worker_id);
  json.Key("reason").String(NameOf(record.decision.reason));
  json.Key("rates_known").Bool(record.decision.in_seconds);
  WriteHit(record, json);
  WriteCopy(record, json);
  WritePull(record, json);
  WriteApart(record, json);
  WriteOutcome(record, json);
  WriteMiss(record, json);
  WriteAudit(record, json);
  json.Key("candidates").BeginArray();
  for (std::size_t i = 0; i < record.candidate_ids.size(); ++i) {
    const std::uint32_t held = i < record.held_tokens.size() ? record.held_tokens[i] : 0;
    WriteCandidate(record.decision.candidates[i], record.candidate_ids[i], SourceOf(record, i), held, json);
  }
  json.EndArray().EndObject();
}

// Parses "request_id=ID" or "limit=N", N from 1 to DecisionLog::kCapacity.
Result<DecisionsQuery> ParseDecisionsQuery(std::string_view query) {
  DecisionsQuery parsed;
  bool limited = false;
  for (const QueryParameter& parameter : ParseQuery(query)) {
    if (parameter.name == "request_id") {
      if (parameter.value.empty()) return InvalidArgument("request_id", "must not be empty");
      parsed.request_id = parameter.value;
    } else if (parameter.name == "limit") {
      ROOST_ASSIGN_OR_RETURN(parsed.limit, ParseLimit(parameter.value));
      limited = true;
    } else {
      return InvalidArgument(parameter.name, "is not a known parameter; the known ones are request_id and limit");
    }
  }
  if (limited && parsed.request_id.has_value())
    return InvalidArgument("limit", "can not be given together with request_id");
  return parsed;
}

std::string DecisionsBody(std::span<const DecisionRecord> records, Instant now) {
  JsonWriter json;
  json.BeginObject().Key("decisions").BeginArray();
  for (const DecisionRecord& record : records) WriteRecord(record, now, json);
  json.EndArray().EndObject();
  return json.Take();
}

Result<OrderPlan> PlanDecisions(VerbCall& call) {
  ROOST_ASSIGN_OR_RETURN(const DecisionsQuery query, ParseDecisionsQuery(call.request.query));
  DecisionsQuestion question{.which = query.limit};
  if (query.request_id) question.which = *query.request_id;
  const auto body = [&clock = call.clock,
                     id = query.request_id](std::span<const WorkerAnswer> answers) -> Result<std::string> {
    if (id && answers.empty()) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("no decision about '{}' among the last {}", *id, DecisionLog::kCapacity), "request_id"};
    }
    std::vector<DecisionRecord> records;
    for (const WorkerAnswer& answer : answers) records.push_back(std::get<DecisionRecord>(answer.reply));
    return DecisionsBody(records, clock.Now());
  };
  return OrderPlan{std::move(question), body};
}

}  // namespace

extern const Verb kDecisionsVerb{"GET", "/admin/v1/decisions", "decisions", &PlanDecisions};

}  // namespace roost::router
