// roost-paced-worker: roost-worker with a model that takes the time of an engine on a GPU; see paced_model.h. For
// measurements of routers. Its flags are those of roost-worker, and --costs as of `roostctl simulate`.
#include <sysexits.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "deploy/roostctl/simulate/cost_profiles.h"
#include "tests/support/paced_worker/paced_model.h"
#include "worker/options.h"
#include "worker/prepare.h"
#include "worker/worker.h"

namespace roost::testing_support {
namespace {

// The model folder gives only its text.
constexpr std::uint32_t kLoadedBlocks = 16;
constexpr std::uint32_t kContextTokens = 262'144;
// As a worker on a GPU has by default.
constexpr std::uint32_t kMaxBatchTokens = 4096;
constexpr std::uint32_t kMaxRunningRequests = 256;

struct Options {
  worker::WorkerOptions worker;
  std::vector<std::string> costs{"llama-8b-h100"};
};

int Fail(const Error& error, int code) {
  LogError("the paced worker can not start", {{"reason", error.ToString()}});
  return code;
}

Result<worker::WorkerSetup> SetupOf(Options options) {
  ROOST_ASSIGN_OR_RETURN(const simulate::ServiceModel service, simulate::ParseCosts(options.costs));
  const std::uint32_t block_count = options.worker.kv_blocks;
  options.worker.kv_blocks = kLoadedBlocks;
  if (options.worker.max_batch_tokens == 0) options.worker.max_batch_tokens = kMaxBatchTokens;
  if (options.worker.max_running_requests == 0) options.worker.max_running_requests = kMaxRunningRequests;
  options.worker.transfer = "off";  // its blocks have no bytes
  ROOST_ASSIGN_OR_RETURN(worker::WorkerSetup setup, worker::PrepareWorker(options.worker));
  const worker::Model& loaded = *setup.own.model;
  constexpr TokenId kAnswer = 97;  // an ordinary token, in any vocabulary of ours
  setup.own.model = std::make_unique<PacedModel>(PacedModel::Options{.service = service,
                                                                     .vocab_size = loaded.shape().vocab_size,
                                                                     .max_context_tokens = kContextTokens,
                                                                     .block_tokens = loaded.block_tokens(),
                                                                     .block_count = block_count,
                                                                     .token = kAnswer});
  setup.hello.compute = {};  // it computes elsewhere
  return setup;
}

int Main(int argc, const char* const* argv) {
  Options options;
  ConfigParser parser("roost-paced-worker", "A worker that takes the time of another engine. For measurements.");
  Declare(options.worker, parser);
  parser.AddList("costs", options.costs, "As of roostctl simulate");
  const Result<ParseOutcome> outcome = parser.Parse(argc, argv);
  if (!outcome.ok()) return Fail(outcome.error(), EX_USAGE);
  if (*outcome == ParseOutcome::kExit) return 0;
  SetUpLogging(LogLevel::kInfo, LogFormat::kJson);
  if (const Result<void> complete = Complete(options.worker); !complete.ok()) {
    return Fail(complete.error(), EX_USAGE);
  }
  Termination termination;
  Result<worker::WorkerSetup> setup = SetupOf(options);
  if (!setup.ok()) return Fail(setup.error(), EX_CONFIG);
  std::vector<worker::WorkerSetup> setups;
  setups.push_back(*std::move(setup));
  Result<std::unique_ptr<worker::WorkerGroup>> worker = worker::WorkerGroup::Start(std::move(setups));
  if (!worker.ok()) return Fail(worker.error(), EX_UNAVAILABLE);
  termination.BeginServing();
  LogInfo("worker ready");
  while (!termination.Wait(std::chrono::milliseconds(100), 1)) continue;
  (*worker)->Stop();
  return 0;
}

}  // namespace
}  // namespace roost::testing_support

int main(int argc, char** argv) { return roost::testing_support::Main(argc, argv); }
