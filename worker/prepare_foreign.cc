#include "worker/prepare_foreign.h"

#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "worker/foreign/foreign_worker.h"
#include "worker/model/model_text.h"
#include "worker/prepare_parts.h"

namespace roost::worker {
namespace {

Result<foreign::EngineAddress> AddressOf(const WorkerOptions& options) {
  foreign::EngineAddress address;
  address.http.base_url = options.engine_url;
  if (!options.engine_key_file.empty()) {
    ROOST_ASSIGN_OR_RETURN(address.http.bearer_key, foreign::ReadBearerKey(options.engine_key_file));
  }
  if (options.cache_events == "on") {
    address.events_endpoint = options.engine_events;
    address.replay_endpoint = options.engine_replay;
  }
  return address;
}

foreign::ForeignOptions ForeignOptionsOf(const WorkerOptions& options) {
  foreign::ForeignOptions foreign;
  if (options.max_running_requests > 0) foreign.max_running_requests = options.max_running_requests;
  foreign.max_waiting_requests = options.max_waiting_requests;
  foreign.times.silence = FromSeconds(options.engine_timeout_seconds);
  return foreign;
}

}  // namespace

Result<WorkerSetup> PrepareForeign(const WorkerOptions& options) {
  const foreign::Dialect* const dialect = foreign::DialectOf(options.engine);
  ROOST_CHECK(dialect != nullptr, "--engine {}", options.engine);  // the parser has checked the choices
  ROOST_ASSIGN_OR_RETURN(DescribedModel model, DescribeModel(options.model, options.chat_template));
  ROOST_RETURN_IF_ERROR(CompleteText(model.text, options.model));
  if (!model.has_weights) {
    LogInfo("the model's folder has no weights: this worker is no fleet with workers that know them",
            {{"model", options.model}});
  }
  WorkerSetup setup;
  setup.hello.fingerprint = std::move(model.fingerprint);
  setup.hello.kv_dtype = options.compute_dtype == "auto" ? "bf16" : options.compute_dtype;
  FillIn(options, std::move(model.text), setup);
  ROOST_ASSIGN_OR_RETURN(const foreign::EngineAddress address, AddressOf(options));
  PrefixScope scope;
  scope.fingerprint = setup.hello.fingerprint;
  scope.kv_dtype = setup.hello.kv_dtype;
  ROOST_ASSIGN_OR_RETURN(foreign::ConnectedEngine engine,
                         foreign::ConnectEngine(*dialect, address, ForeignOptionsOf(options), std::move(scope),
                                                SteadyClock(), kEngineStart));
  // Made once; a std::function must be one that could be copied.
  const auto connected = std::make_shared<foreign::ConnectedEngine>(std::move(engine));
  setup.make_other = [connected](const EngineSurroundings& surroundings) {
    return std::make_unique<foreign::ForeignWorker>(std::move(*connected), surroundings);
  };
  return setup;
}

}  // namespace roost::worker
