// roost-worker: serves one model to the routers that --router names. Exit codes: 0 after --help or a complete drain, 1
// when running requests were cut off, 64 for wrong flags; for the others see ExitCodeOf.
#include <fmt/format.h>
#include <sysexits.h>

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/core_dumps.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/service_notifier.h"
#include "common/base/termination.h"
#include "common/config/config.h"
#include "worker/options.h"
#include "worker/prepare.h"
#include "worker/worker.h"
#include "worker/worker_name.h"

namespace roost::worker {
namespace {

constexpr const char* kDescription =
    "Serves one model: holds its weights and a KV cache, and takes requests from every router that --router names.";

int CanNotStart(const Error& error, int exit_code) {
  LogError("the worker can not start", {{"reason", error.ToString()}});
  return exit_code;
}

std::string MetricsUrlOf(const Worker& worker) { return worker.url().empty() ? "" : worker.url() + "/metrics"; }

void LogStarted(const Worker& worker, const WorkerOptions& options) {
  LogInfo("worker started", {{"worker", worker.hello().worker_id},
                             {"routers", fmt::format("{}", fmt::join(options.routers, ","))},
                             {"metrics", MetricsUrlOf(worker)},
                             {"transfer", worker.transfer()},
                             {"transfer_numerics", worker.transfer_numerics()},
                             {"version", std::string(Version())}});
}

// A router takes it: it serves from here on.
void LogReady(const Worker& worker, const WorkerOptions& options) {
  const wire::Hello& hello = worker.hello();
  LogInfo("worker ready", {{"worker", hello.worker_id},
                           {"model", hello.model},
                           {"fingerprint", hello.fingerprint.substr(0, 12)},
                           {"dtype", hello.kv_dtype},
                           {"blocks", hello.block_count},
                           {"block_tokens", hello.block_tokens},
                           {"context_tokens", hello.max_context_tokens},
                           {"threads", options.threads},
                           {"metrics", MetricsUrlOf(worker)}});
}

// Serves until a signal comes. The worker is ready for the service manager once it dials routers: whether one is there
// is not in its hands, and a model that is loaded should not be loaded again for that.
class Service {
 public:
  Service(Worker& worker, Termination& termination, ServiceNotifier& notifier)
      : worker_(worker), termination_(termination), notifier_(notifier) {}

  void Serve(const WorkerOptions& options) {
    const HangupReload hangup_reload(termination_, [this] { worker_.Reload(); });
    termination_.BeginServing();
    LogStarted(worker_, options);
    notifier_.Ready("waits for a router");
    if (AwaitRouter()) {
      LogReady(worker_, options);
      notifier_.Status(fmt::format("serves {}", worker_.hello().model));
    }
    while (!termination_.Wait(notifier_.look_interval(), 1)) KeepAlive();
    notifier_.Stopping();
  }

 private:
  // Waits until a router has accepted the worker. False when a signal comes first.
  bool AwaitRouter();
  void KeepAlive() {
    notifier_.KeepAlive(clock_.Now(), [this] { return worker_.LongestStep() < *notifier_.look_interval(); });
  }

  const SteadyClock clock_;
  Worker& worker_;
  Termination& termination_;
  ServiceNotifier& notifier_;
};

bool Service::AwaitRouter() {
  constexpr std::chrono::milliseconds kLook{50};
  while (!worker_.WaitForRouter(kLook)) {
    if (termination_.Wait(std::chrono::milliseconds(0), 1)) return false;
    KeepAlive();
  }
  return true;
}

// Waits until no request is left, the time is over, or a second signal comes. True when no request is left.
bool Drain(Worker& worker, const WorkerOptions& options, Termination& termination) {
  constexpr std::chrono::milliseconds kLook{50};
  const SteadyClock clock;
  const Instant begin = clock.Now();
  // It may become the only one meanwhile: the others are stopped too.
  const auto is_over = [&] {
    const double last = std::max(options.last_drain_seconds, options.drain_timeout_seconds);
    return clock.Now() - begin >= FromSeconds(worker.is_sole() ? last : options.drain_timeout_seconds);
  };
  worker.BeginDrain();
  while (!worker.WaitForDrained(kLook)) {
    const bool second_signal = termination.Wait(std::chrono::milliseconds(0), 2);
    if (!second_signal && !is_over()) continue;
    LogWarning("running requests are cut off", {{"why", second_signal ? "a second signal" : "the drain timeout"}});
    return false;
  }
  return true;
}

int Run(const WorkerOptions& options, Termination& termination, ServiceNotifier& notifier) {
  Result<WorkerSetup> setup = PrepareWorker(options);
  if (!setup.ok()) return CanNotStart(setup.error(), ExitCodeOf(setup.error()));
  Result<std::unique_ptr<Worker>> started = Worker::Start(std::move(setup).value());
  if (!started.ok()) return CanNotStart(started.error(), ExitCodeOf(started.error()));
  const std::unique_ptr<Worker> worker = std::move(started).value();
  Service(*worker, termination, notifier).Serve(options);
  LogInfo("worker drains");
  const bool drained = Drain(*worker, options, termination);
  worker->Stop();
  LogInfo("worker ends");
  return drained ? 0 : 1;
}

int Main(int argc, const char* const* argv) {
  WorkerOptions options;
  ConfigParser parser("roost-worker", kDescription);
  Declare(options, parser);
  const Result<ParseOutcome> outcome = parser.Parse(argc, argv);
  if (!outcome.ok()) return CanNotStart(outcome.error(), EX_USAGE);
  if (outcome.value() == ParseOutcome::kExit) return 0;
  if (!options.core_dumps) ForbidCoreDumps();
  if (const Result<std::size_t> raised = RaiseDescriptorLimit(); !raised.ok()) {
    return CanNotStart(raised.error(), EX_CONFIG);
  }
  // The parser has checked the choices.
  SetUpLogging(ParseLogLevel(options.log_level).value(), ParseLogFormat(options.log_format).value());
  if (const Result<void> complete = Complete(options); !complete.ok()) return CanNotStart(complete.error(), EX_USAGE);
  std::optional<WorkerName> name;  // held until the end, so that no other worker takes it
  if (options.worker_id.empty()) options.worker_id = name.emplace(WorkerName::Take()).value();
  ServiceNotifier notifier = ServiceNotifier::FromEnvironment();
  Termination termination(Termination::Hangup::kReloads);
  const LogThread log_thread;
  return Run(options, termination, notifier);
}

}  // namespace
}  // namespace roost::worker

int main(int argc, char** argv) { return roost::worker::Main(argc, argv); }
