// Bodies about models, workers, queues and transfers. Pure functions from values to JSON text.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"

namespace roost::router {

[[nodiscard]] std::string ModelBody(const ServedModel& model);
// {"models":[{"id":"m","chat_template":true,"chat_template_losses":["drops tools: …"]}, …]}, for operators: what the
// chat templates leave out of conversations. Without adapters.
[[nodiscard]] std::string ModelFactsBody(std::span<const std::shared_ptr<const ServedModel>> models);
[[nodiscard]] std::string ModelListBody(std::span<const std::shared_ptr<const ServedModel>> models);

// The workers that get new requests, by model and adapter: what /ready answers, and what every other place counts,
// because all go by WorkerStatus::state.
class ReadyWorkers {
 public:
  // `known`: all models that workers brought, also those without a worker now.
  ReadyWorkers(std::span<const WorkerStatus> workers, std::span<const ModelStanding> known);

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t CountOf(const std::string& model) const;  // or of an adapter
  [[nodiscard]] bool has(const std::string& model) const { return CountOf(model) > 0; }
  // Also of models without a ready worker.
  [[nodiscard]] const std::map<std::string, std::size_t>& by_model() const { return by_model_; }

 private:
  std::size_t count_ = 0;
  std::map<std::string, std::size_t> by_model_;
  std::map<std::string, std::size_t> by_adapter_;
};

enum class ReadyModels { kList, kOmit };
// {"status":"ready","ready_workers":3,"models":[{"id":"a","ready_workers":2,"ready":true}, …]}; of one model alone when
// it was asked for.
[[nodiscard]] std::string ReadyBody(const ReadyWorkers& ready, const std::optional<std::string>& model,
                                    ReadyModels models);
// The parameter `model` of a query. Others are ignored: probes come with all sorts.
[[nodiscard]] std::optional<std::string> ModelOfQuery(std::string_view query);

// The member "workers": what each is and does.
void WriteWorkers(std::span<const WorkerStatus> workers, JsonWriter& json);

// {"queues":[…]}: the requests that wait at the router.
[[nodiscard]] std::string QueuesBody(std::span<const QueueStatus> queues);

// {"pulls":"on","pairs":[…]}: whether requests fetch blocks, and each pair of workers between which blocks travelled,
// in the order given. Null: nothing is known yet.
[[nodiscard]] std::string TransfersBody(const FleetSnapshot& fleet);

}  // namespace roost::router
