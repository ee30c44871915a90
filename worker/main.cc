// roost-worker: serves one model to the routers that --router names; beside an engine with several ranks as a worker
// for each of them. Exit codes: 0 after --help or a complete drain, 1
// when running requests were cut off, 64 for wrong flags; for the others see ExitCodeOf.
#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

std::string MetricsUrlOf(const WorkerGroup& group) { return group.url().empty() ? "" : group.url() + "/metrics"; }

void LogStarted(const WorkerGroup& group, const WorkerOptions& options) {
  for (const std::unique_ptr<Worker>& worker : group.workers()) {
    LogInfo("worker started", {{"worker", worker->hello().worker_id},
                               {"routers", fmt::format("{}", fmt::join(options.routers, ","))},
                               {"metrics", MetricsUrlOf(group)},
                               {"transfer", worker->transfer()},
                               {"transfer_numerics", worker->transfer_numerics()},
                               {"version", std::string(Version())}});
  }
}

// A router takes them: they serve from here on.
void LogReady(const WorkerGroup& group, const WorkerOptions& options) {
  for (const std::unique_ptr<Worker>& worker : group.workers()) {
    const wire::Hello& hello = worker->hello();
    LogInfo("worker ready", {{"worker", hello.worker_id},
                             {"model", hello.model},
                             {"fingerprint", hello.fingerprint.substr(0, 12)},
                             {"dtype", hello.kv_dtype},
                             {"blocks", hello.block_count},
                             {"block_tokens", hello.block_tokens},
                             {"context_tokens", hello.max_context_tokens},
                             {"threads", options.threads},
                             {"metrics", MetricsUrlOf(group)}});
  }
}

// Serves until a signal comes. The process is ready for the service manager once its workers dial routers: whether one
// is there is not in its hands, and a model that is loaded should not be loaded again for that.
class Service {
 public:
  Service(WorkerGroup& workers, Termination& termination, ServiceNotifier& notifier)
      : workers_(workers), termination_(termination), notifier_(notifier) {}

  void Serve(const WorkerOptions& options) {
    const HangupReload hangup_reload(termination_, [this] { workers_.Reload(); });
    termination_.BeginServing();
    LogStarted(workers_, options);
    notifier_.Ready("waits for a router");
    if (AwaitRouter()) {
      LogReady(workers_, options);
      notifier_.Status(fmt::format("serves {}", workers_.workers().front()->hello().model));
    }
    while (!termination_.Wait(notifier_.look_interval(), 1)) KeepAlive();
    notifier_.Stopping();
  }

 private:
  // Waits until a router has accepted each worker. False when a signal comes first.
  bool AwaitRouter();
  void KeepAlive() {
    notifier_.KeepAlive(clock_.Now(), [this] { return workers_.LongestStep() < *notifier_.look_interval(); });
  }

  const SteadyClock clock_;
  WorkerGroup& workers_;
  Termination& termination_;
  ServiceNotifier& notifier_;
};

bool Service::AwaitRouter() {
  constexpr std::chrono::milliseconds kLook{50};
  while (!workers_.WaitForRouter(kLook)) {
    if (termination_.Wait(std::chrono::milliseconds(0), 1)) return false;
    KeepAlive();
  }
  return true;
}

// Waits until no request is left, the time is over, or a second signal comes. True when no request is left.
bool Drain(WorkerGroup& workers, const WorkerOptions& options, Termination& termination) {
  constexpr std::chrono::milliseconds kLook{50};
  const SteadyClock clock;
  const Instant begin = clock.Now();
  // They may become the only ones meanwhile: the others are stopped too.
  const auto is_over = [&] {
    const double last = std::max(options.last_drain_seconds, options.drain_timeout_seconds);
    return clock.Now() - begin >= FromSeconds(workers.is_sole() ? last : options.drain_timeout_seconds);
  };
  workers.BeginDrain();
  while (!workers.WaitForDrained(kLook)) {
    const bool second_signal = termination.Wait(std::chrono::milliseconds(0), 2);
    if (!second_signal && !is_over()) continue;
    LogWarning("running requests are cut off", {{"why", second_signal ? "a second signal" : "the drain timeout"}});
    return false;
  }
  return true;
}

// Stays for workers that fetch blocks here, until the routers have handed over, the time is over, or a second signal
// comes. `drain_end` is the end of the drain timeout.
void AwaitHandover(WorkerGroup& workers, const WorkerOptions& options, Instant drain_end, Termination& termination) {
  constexpr std::chrono::milliseconds kLook{50};
  const SteadyClock clock;
  const Instant end = std::min(clock.Now() + FromSeconds(options.handover_seconds), drain_end);
  while (clock.Now() < end && !workers.WaitForHandedOver(kLook)) {
    if (termination.Wait(std::chrono::milliseconds(0), 2)) return;
  }
}

// Stays until what waits for the disk is written, so that the next start is warm; otherwise as AwaitHandover.
void AwaitDisk(WorkerGroup& workers, Instant drain_end, Termination& termination) {
  constexpr std::chrono::milliseconds kLook{50};
  const SteadyClock clock;
  if (workers.WriteOut()) return;
  LogInfo("blocks that wait for the disk are written before the end");
  while (!workers.WriteOut()) {
    if (!termination.Wait(kLook, 2) && clock.Now() < drain_end) continue;
    LogWarning("blocks that wait for the disk are dropped");
    return;
  }
}

int Run(const WorkerOptions& options, Termination& termination, ServiceNotifier& notifier) {
  Result<std::vector<WorkerSetup>> setups = PrepareWorkers(options);
  if (!setups.ok()) return CanNotStart(setups.error(), ExitCodeOf(setups.error()));
  Result<std::unique_ptr<WorkerGroup>> started = WorkerGroup::Start(std::move(setups).value());
  if (!started.ok()) return CanNotStart(started.error(), ExitCodeOf(started.error()));
  const std::unique_ptr<WorkerGroup> workers = std::move(started).value();
  Service(*workers, termination, notifier).Serve(options);
  LogInfo("worker drains");
  const Instant drain_end = SteadyClock().Now() + FromSeconds(options.drain_timeout_seconds);
  (void)workers->WriteOut();  // begins
  const bool drained = Drain(*workers, options, termination);
  if (drained) AwaitHandover(*workers, options, drain_end, termination);
  if (drained) AwaitDisk(*workers, drain_end, termination);
  workers->Stop();
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
