#include "router/api/operator/models_json.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/text/chat_template.h"
#include "router/api/url.h"

namespace roost::router {
namespace {

void WriteModel(const ServedModel& model, JsonWriter& json) {
  json.BeginObject().Key("id").String(model.name).Key("object").String("model");
  json.Key("created").Number(model.created_unix_seconds).Key("owned_by").String("roost");
  json.Key("max_model_len").Number(model.max_context_tokens);
  json.Key("block_tokens").Number(model.block_tokens);
  if (model.is_adapter()) json.Key("parent").String(model.base);
  json.EndObject();
}

// The fields of the report that the schema says are shown.
void WriteLoad(const wire::Load& load, JsonWriter& json) {
  wire::ForEachShown(load, [&json](std::string_view name, auto number) { json.Key(name).Number(number); });
}

void WriteTotals(const WorkerTotals& totals, JsonWriter& json) {
  json.Key("prompt_tokens_total").Number(totals.prompt_tokens).Key("cached_tokens_total").Number(totals.cached_tokens);
  json.Key("output_tokens_total").Number(totals.output_tokens).Key("first_tokens_total").Number(totals.first_tokens);
  json.Key("ttft_seconds_total").Number(totals.ttft_seconds);
}

std::string ProtocolOf(const wire::PeerVersion& version) { return fmt::format("{}.{}", version.major, version.minor); }

void WriteShare(const WorkerShare& share, JsonWriter& json) {
  json.Key("share").BeginObject().Key("taken").Number(share.taken).Key("of").Number(share.decisions).Key("why");
  share.why.empty() ? json.Null() : json.String(share.why);
  json.EndObject();
}

// Numbers of 64 bits as text: JSON's readers may keep fewer.
void WriteCompute(const wire::ComputeShare& compute, JsonWriter& json) {
  json.Key("threads").Number(compute.threads);
  json.Key("machine")
      .String(fmt::format("{:016x}", compute.machine))
      .Key("machine_cores")
      .Number(compute.machine_cores);
  json.Key("cpu_group").String(fmt::format("{:016x}", compute.cpu_group));
  json.Key("cpu_group_cores").Number(compute.cpu_group_cores);
}

void WriteTransfer(const wire::Transfer& transfer, JsonWriter& json) {
  json.Key("transfer").BeginObject().Key("address").String(transfer.address);
  json.Key("layout").String(fmt::format("{:016x}", transfer.layout));
  json.Key("numerics").String(fmt::format("{:016x}", transfer.numerics)).EndObject();
}

void WriteWorker(const WorkerStatus& worker, JsonWriter& json) {
  json.BeginObject().Key("id").String(worker.worker_id).Key("model").String(worker.model);
  json.Key("state")
      .String(NameOf(worker.state))
      .Key("ready")
      .Bool(worker.ready)
      .Key("seconds_since_heard")
      .Number(worker.seconds_since_heard);
  WriteLoad(worker.load, json);
  json.Key("engine_away_seconds").Number(static_cast<double>(worker.load.engine_away_ms) / 1000);
  json.Key("engine_absence").String(worker.load.engine_absence);
  json.Key("blocks").Number(worker.block_count).Key("block_tokens").Number(worker.block_tokens);
  json.Key("in_flight_requests").Number(worker.in_flight_requests);
  json.Key("indexed_blocks").Number(worker.indexed_block_count).Key("index_in_sync").Bool(worker.index_in_sync);
  json.Key("mode").String(NameOf(worker.mode)).Key("cache_absence").String(worker.cache_absence);
  json.Key("unread").Bool(worker.is_unread);
  json.Key("requests_total").Number(worker.requests_total);
  WriteShare(worker.share, json);
  WriteTotals(worker.totals, json);
  json.Key("cache_value_seconds").Number(worker.cache_value_seconds);
  json.Key("release").String(worker.version.release).Key("protocol").String(ProtocolOf(worker.version));
  json.Key("fingerprint").String(worker.fingerprint).Key("kv_dtype").String(worker.kv_dtype);
  json.Key("adapters").BeginArray();
  for (const std::string& name : worker.adapters) json.String(name);
  json.EndArray().Key("role").String(wire::kWorkerRoleNames[static_cast<std::size_t>(worker.role)]);
  json.Key("host").String(worker.host).Key("engine").String(worker.engine);
  WriteCompute(worker.compute, json);
  WriteTransfer(worker.transfer, json);
  json.EndObject();
}

}  // namespace

void WriteWorkers(std::span<const WorkerStatus> workers, JsonWriter& json) {
  json.Key("workers").BeginArray();
  for (const WorkerStatus& worker : workers) WriteWorker(worker, json);
  json.EndArray();
}

std::string ModelBody(const ServedModel& model) {
  JsonWriter json;
  WriteModel(model, json);
  return json.Take();
}

std::string ModelFactsBody(std::span<const std::shared_ptr<const ServedModel>> models) {
  JsonWriter json;
  json.BeginObject().Key("models").BeginArray();
  for (const std::shared_ptr<const ServedModel>& model : models) {
    if (!model->base.empty()) continue;
    json.BeginObject().Key("id").String(model->name).Key("chat_template").Bool(model->chat_template != nullptr);
    json.Key("chat_template_losses").BeginArray();
    if (model->chat_template != nullptr) {
      const ChatTemplate& chat_template = *model->chat_template;
      for (const std::string& loss : LossesOf(chat_template.traits(), chat_template.family())) json.String(loss);
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string ModelListBody(std::span<const std::shared_ptr<const ServedModel>> models) {
  JsonWriter json;
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const std::shared_ptr<const ServedModel>& model : models) WriteModel(*model, json);
  json.EndArray().EndObject();
  return json.Take();
}

namespace {

bool GetsRequests(const WorkerStatus& worker) {
  switch (worker.state) {
    case WorkerState::kCordoned:
    case WorkerState::kAway:
    case WorkerState::kDraining:
    case WorkerState::kStalled:
    case WorkerState::kEjected: return false;
    case WorkerState::kStarting:
    case WorkerState::kReady: break;
  }
  return worker.ready;
}

}  // namespace

ReadyWorkers::ReadyWorkers(std::span<const WorkerStatus> workers, std::span<const ModelStanding> known) {
  for (const ModelStanding& model : known) by_model_[model.model] = 0;
  for (const WorkerStatus& worker : workers) {
    const bool gets_requests = GetsRequests(worker);
    by_model_[worker.model] += gets_requests ? 1 : 0;
    if (!gets_requests) continue;
    ++count_;
    for (const std::string& adapter : worker.adapters) ++by_adapter_[adapter];
  }
}

std::size_t ReadyWorkers::CountOf(const std::string& model) const {
  if (const auto found = by_model_.find(model); found != by_model_.end()) return found->second;
  const auto adapter = by_adapter_.find(model);
  return adapter == by_adapter_.end() ? 0 : adapter->second;
}

std::string ReadyBody(const ReadyWorkers& ready, const std::optional<std::string>& model, ReadyModels models) {
  JsonWriter json;
  json.BeginObject().Key("status").String("ready");
  if (model) json.Key("model").String(*model);
  json.Key("ready_workers").Number(model ? ready.CountOf(*model) : ready.count());
  if (!model && models == ReadyModels::kList) {
    json.Key("models").BeginArray();
    for (const auto& [id, count] : ready.by_model()) {
      json.BeginObject().Key("id").String(id).Key("ready").Bool(count > 0).Key("ready_workers").Number(count);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return json.Take();
}

std::optional<std::string> ModelOfQuery(std::string_view query) {
  std::optional<std::string> model;
  for (QueryParameter& parameter : ParseQuery(query)) {
    if (parameter.name == "model") model = std::move(parameter.value);
  }
  return model;
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

std::string TransfersBody(const FleetSnapshot& fleet) {
  JsonWriter json;
  const auto number = [&json](std::string_view name, const std::optional<double>& value) {
    json.Key(name);
    value ? json.Number(*value) : json.Null();
  };
  const auto text = [&json](std::string_view name, std::string_view value) {
    json.Key(name);
    value.empty() ? json.Null() : json.String(value);
  };
  json.BeginObject().Key("pulls").String(fleet.requests_pull ? "on" : "off").Key("pairs").BeginArray();
  for (const TransferPair& pair : *fleet.transfers) {
    json.BeginObject().Key("from").String(pair.from).Key("to").String(pair.to).Key("model").String(pair.model);
    number("bytes_per_second", pair.bytes_per_second);
    number("start_seconds", pair.start_seconds);
    json.Key("in_flight").Number(pair.in_flight_count).Key("done").Number(pair.done_count);
    json.Key("failed").Number(pair.failed_count);
    text("last_outcome", pair.last_outcome);
    text("last_cause", pair.last_cause);
    json.Key("paused_seconds").Number(pair.paused_seconds).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace roost::router
