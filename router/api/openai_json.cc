#include "router/api/openai_json.h"

#include <fmt/format.h>

#include "common/base/json_writer.h"

namespace roost::router {
namespace {

enum class Form { kWhole, kChunk };

std::string_view ObjectName(AnswerKind kind, Form form) {
  if (kind == AnswerKind::kCompletion) return "text_completion";
  return form == Form::kWhole ? "chat.completion" : "chat.completion.chunk";
}

void WriteUsage(const Usage& usage, JsonWriter& json) {
  json.Key("usage").BeginObject();
  json.Key("prompt_tokens").Number(usage.prompt_tokens);
  json.Key("completion_tokens").Number(usage.completion_tokens);
  json.Key("total_tokens").Number(std::uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Number(usage.cached_tokens).EndObject().EndObject();
}

// Everything up to the choices, whose array is left open.
void BeginAnswer(const AnswerIdentity& identity, Form form, JsonWriter& json) {
  json.BeginObject().Key("id").String(identity.id).Key("object").String(ObjectName(identity.kind, form));
  json.Key("created").Number(identity.created_unix_seconds).Key("model").String(identity.model);
  json.Key("system_fingerprint").String(identity.system_fingerprint).Key("choices").BeginArray();
}

std::string EndAnswer(const std::optional<Usage>& usage, JsonWriter& json) {
  json.EndArray();
  if (usage) WriteUsage(*usage, json);
  json.EndObject();
  return json.Take();
}

void WriteFinishReason(std::optional<std::string_view> reason, JsonWriter& json) {
  json.Key("logprobs").Null().Key("finish_reason");
  reason ? json.String(*reason) : json.Null();
}

// What a chunk's only choice says.
struct Delta {
  std::uint32_t choice = 0;
  std::optional<std::string_view> role;
  std::optional<std::string_view> text;
  std::optional<std::string_view> finish_reason;
};

std::string Chunk(const AnswerIdentity& identity, const Delta& delta, const std::optional<Usage>& usage) {
  JsonWriter json;
  BeginAnswer(identity, Form::kChunk, json);
  json.BeginObject().Key("index").Number(delta.choice);
  if (identity.kind == AnswerKind::kChat) {
    json.Key("delta").BeginObject();
    if (delta.role) json.Key("role").String(*delta.role);
    if (delta.text) json.Key("content").String(*delta.text);
    json.EndObject();
  } else {
    json.Key("text").String(delta.text.value_or(""));
  }
  WriteFinishReason(delta.finish_reason, json);
  json.EndObject();
  return EndAnswer(usage, json);
}

void WriteModel(const ServedModel& model, JsonWriter& json) {
  json.BeginObject().Key("id").String(model.name).Key("object").String("model");
  json.Key("created").Number(model.created_unix_seconds).Key("owned_by").String("roost");
  json.Key("max_model_len").Number(model.max_context_tokens).EndObject();
}

void WriteLoad(const wire::Load& load, JsonWriter& json) {
  json.Key("waiting_requests").Number(load.waiting_requests);
  json.Key("running_requests").Number(load.running_requests);
  json.Key("queued_prefill_tokens").Number(load.queued_prefill_tokens);
  json.Key("free_blocks").Number(load.free_block_count);
  json.Key("cached_blocks").Number(load.cached_block_count);
  json.Key("pinned_blocks").Number(load.pinned_block_count);
}

void WriteWorker(const WorkerStatus& worker, JsonWriter& json) {
  json.BeginObject().Key("id").String(worker.worker_id).Key("model").String(worker.model);
  json.Key("ready").Bool(worker.ready).Key("seconds_since_heard").Number(worker.seconds_since_heard);
  WriteLoad(worker.load, json);
  json.Key("blocks").Number(worker.block_count).Key("block_tokens").Number(worker.block_tokens);
  json.Key("in_flight_requests").Number(worker.in_flight_requests);
  json.Key("indexed_blocks").Number(worker.indexed_block_count).Key("index_in_sync").Bool(worker.index_in_sync);
  json.Key("mode").String(NameOf(worker.mode));
  json.Key("requests_total").Number(worker.requests_total).EndObject();
}

}  // namespace

std::string WholeAnswer(const AnswerIdentity& identity, std::span<const WholeChoice> choices, const Usage& usage) {
  JsonWriter json;
  BeginAnswer(identity, Form::kWhole, json);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    json.BeginObject().Key("index").Number(static_cast<std::uint64_t>(i));
    if (identity.kind == AnswerKind::kChat) {
      json.Key("message").BeginObject().Key("role").String("assistant");
      json.Key("content").String(choices[i].text).Key("refusal").Null().EndObject();
    } else {
      json.Key("text").String(choices[i].text);
    }
    WriteFinishReason(choices[i].finish_reason, json);
    json.EndObject();
  }
  return EndAnswer(usage, json);
}

std::string RoleChunk(const AnswerIdentity& identity, std::uint32_t choice, const std::optional<Usage>& usage) {
  return Chunk(identity, {choice, "assistant", "", std::nullopt}, usage);
}

std::string TextChunk(const AnswerIdentity& identity, std::uint32_t choice, std::string_view text,
                      const std::optional<Usage>& usage) {
  return Chunk(identity, {choice, std::nullopt, text, std::nullopt}, usage);
}

std::string FinishChunk(const AnswerIdentity& identity, std::uint32_t choice, std::string_view finish_reason,
                        const std::optional<Usage>& usage) {
  return Chunk(identity, {choice, std::nullopt, std::nullopt, finish_reason}, usage);
}

std::string UsageChunk(const AnswerIdentity& identity, const Usage& usage) {
  JsonWriter json;
  BeginAnswer(identity, Form::kChunk, json);
  return EndAnswer(usage, json);
}

std::string Frame(std::string_view json) { return fmt::format("data: {}\n\n", json); }

std::string ModelBody(const ServedModel& model) {
  JsonWriter json;
  WriteModel(model, json);
  return json.Take();
}

std::string ModelListBody(std::span<const std::shared_ptr<const ServedModel>> models) {
  JsonWriter json;
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const std::shared_ptr<const ServedModel>& model : models) WriteModel(*model, json);
  json.EndArray().EndObject();
  return json.Take();
}

std::string WorkersBody(std::span<const WorkerStatus> workers) {
  JsonWriter json;
  json.BeginObject().Key("workers").BeginArray();
  for (const WorkerStatus& worker : workers) WriteWorker(worker, json);
  json.EndArray().EndObject();
  return json.Take();
}

std::string QueuesBody(std::span<const QueueStatus> queues) {
  JsonWriter json;
  json.BeginObject().Key("queues").BeginArray();
  for (const QueueStatus& queue : queues) {
    json.BeginObject().Key("model").String(queue.model).Key("waiting_requests").Number(queue.waiting_requests);
    json.Key("oldest_wait_seconds").Number(queue.oldest_wait_seconds);
    json.Key("drain_seconds").Number(queue.drain_seconds).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace roost::router
