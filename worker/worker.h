// A whole worker: model, engine, links to routers; and the workers of a process, of which there are several beside an
// engine with several ranks.
//
//   LinkThread ── commands ──► EngineHost, of the own engine (OwnEngine) or another one
//        └◄────── outputs ─────────┘
//
// Threads: Start, Run, Drain and Stop from one owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "worker/compute_threads.h"
#include "worker/disk/disk_cache.h"
#include "worker/disk/disk_files.h"
#include "worker/disk/disk_store.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_thread.h"
#include "worker/engine_api/worker_engine.h"
#include "worker/grammar/grammar_pool.h"
#include "worker/link/link_status.h"
#include "worker/link/link_thread.h"
#include "worker/link/router_keys.h"
#include "worker/model/model.h"
#include "worker/throughput_log.h"
#include "worker/transfer/block_transfer.h"
#include "worker/worker_api.h"
#include "worker/worker_listener.h"
#include "worker/worker_metrics.h"

namespace roost::worker {

// The disk of blocks.
struct DiskSetup {
  std::unique_ptr<DiskFolder> folder;  // held while the worker lives
  std::unique_ptr<DiskFiles> files;
  std::unique_ptr<DiskStore> store;
  std::uint64_t write_rate = kDefaultDiskWriteRate;
};

// Roost's own engine: the model, the engine with its thread, and the pool that makes automata for it.
//
//   OwnEngine ─ EngineThread ─ Engine ─ Model
//                    ▲            └─ GrammarPool
//                    └── Nudge ────────┘
// and BlockTransfer and DiskCache, which wake the thread too when blocks have come.
struct OwnEngineSetup {
  std::unique_ptr<Model> model;
  EngineOptions engine;
  std::unique_ptr<const GrammarLibrary> grammar_library;  // null: requests under a constraint are refused
  GrammarPoolOptions grammar;
  std::optional<TransferSetup> transfer;  // none: blocks stay here
  std::optional<DiskSetup> disk;          // none: blocks are kept in memory alone. It needs `transfer`
};

class OwnEngine final : public WorkerEngine {
 public:
  OwnEngine(OwnEngineSetup setup, const EngineSurroundings& surroundings);
  ~OwnEngine() override;

  [[nodiscard]] EngineHost& host() override { return thread_; }
  void Describe(wire::Hello& hello) const override;
  [[nodiscard]] std::vector<kernels::MemoryUse> DeviceMemory() const override { return setup_.model->DeviceMemory(); }
  // Null: blocks stay here.
  [[nodiscard]] const BlockTransfer* transfer() const { return transfer_.get(); }
  // Null: there is none.
  [[nodiscard]] const DiskCache* disk() const { return disk_.get(); }
  [[nodiscard]] DiskStart Disk() override;
  [[nodiscard]] bool WriteOut() override { return disk_ == nullptr || disk_->WriteOut(); }

 private:
  std::unique_ptr<FrameWiper> MakeWiper();
  std::unique_ptr<GrammarPool> MakeGrammarPool(const Clock& clock);
  std::unique_ptr<BlockTransfer> MakeTransfer(const Clock& clock);
  std::unique_ptr<DiskCache> MakeDisk(const Clock& clock);
  [[nodiscard]] EngineOptions OptionsWithParts() const;

  OwnEngineSetup setup_;
  std::unique_ptr<GrammarPool> grammar_pool_;
  std::unique_ptr<BlockTransfer> transfer_;
  std::unique_ptr<DiskCache> disk_;
  std::unique_ptr<FrameWiper> wiper_;  // of models with memory of their own for frames
  Engine engine_;
  EngineThread thread_;
};

struct WorkerSetup {
  OwnEngineSetup own;
  MakeEngine make_other = nullptr;  // set: the worker stands for this engine, and `own` is not used
  std::string transfer_absence;     // why blocks stay here, for the log; empty: they travel
  std::string transfer_numerics;    // how equal the blocks are that it exchanges, for the log
  // The setup gives worker_id, model, fingerprint, kv_dtype, sampling, sends_cache_events and keeps_prefixes. The other
  // fields follow from the process and the engine.
  wire::Hello hello;
  wire::Tokenizer tokenizer;              // Make fills in its digest; empty: routers hand requests on unread
  std::vector<std::string> routers;       // tcp://HOST:PORT
  std::optional<LinkKeyFiles> link_keys;  // none: the links are open
  metrics::Build build;
  std::string otlp_endpoint;  // empty: no traces
  // The process has these once: see WorkerGroup.
  WorkerListenerOptions listener;
  Duration stall_timeout = kDefaultStallTimeout;
  std::shared_ptr<ComputeThreads> compute_threads;  // none where the CPU does not compute
};

class Worker {
 public:
  // Checks the setup. Nothing runs until Run.
  [[nodiscard]] static Result<std::unique_ptr<Worker>> Make(WorkerSetup setup);
  // Starts all threads.
  void Run();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Waits until a router has welcomed the worker. False after `timeout`.
  [[nodiscard]] bool WaitForRouter(std::chrono::milliseconds timeout) { return link_thread_->WaitForRouter(timeout); }
  // The longest step of the link's and the engine's thread; zero while both wait for work.
  [[nodiscard]] Duration LongestStep() const;
  [[nodiscard]] std::vector<ThreadProgress> Progress() const;
  // From now on requests are refused, and /ready answers 503; running ones continue.
  void BeginDrain() { link_thread_->BeginDrain(); }
  [[nodiscard]] bool is_draining() const { return link_thread_->is_draining(); }
  // No other worker can continue what this one has begun.
  [[nodiscard]] bool is_sole() const { return link_thread_->is_sole(); }
  // Waits until draining has begun and no request is left. False after `timeout`.
  [[nodiscard]] bool WaitForDrained(std::chrono::milliseconds timeout) { return link_thread_->WaitForDrained(timeout); }
  // Waits until, besides, no other worker will fetch blocks here any more. False after `timeout`.
  [[nodiscard]] bool WaitForHandedOver(std::chrono::milliseconds timeout) {
    return link_thread_->WaitForHandedOver(timeout);
  }
  // Writes what waits for a disk, as fast as that goes, from now on. True once nothing waits.
  [[nodiscard]] bool WriteOut() { return engine_->WriteOut(); }
  // Says goodbye to the routers and ends. Requests that still run are cut off. Idempotent.
  void Stop();

  // See LinkThread.
  [[nodiscard]] std::string EngineAbsence() const { return link_thread_->EngineAbsence(); }
  [[nodiscard]] std::vector<RouterStatus> Routers() const { return link_thread_->Routers(); }

  [[nodiscard]] const wire::Hello& hello() const { return hello_; }
  [[nodiscard]] const metrics::Build& build() const { return setup_.build; }
  // Where other workers fetch blocks, or why they do not; and whether this worker fetches none.
  [[nodiscard]] std::string transfer() const {
    if (hello_.transfer.address.empty()) return setup_.transfer_absence;
    const bool fetches = hello_.features.contains(wire::Feature::kHolds);
    return hello_.transfer.address + (fetches ? "" : ", fetches none");
  }
  [[nodiscard]] const std::string& transfer_numerics() const { return setup_.transfer_numerics; }
  [[nodiscard]] metrics::Registry& metrics() { return registry_; }
  // See WorkerMetrics.
  void OnCertificate(const TlsValidity& validity) { metrics_.OnCertificate(validity); }

 private:
  explicit Worker(WorkerSetup setup);
  std::unique_ptr<WorkerEngine> TakeEngine();
  [[nodiscard]] wire::Hello CompleteHello() const;
  // Opens the outlet for spans of traced requests.
  Result<RequestSpansOptions> OpenSpans();
  Result<void> MakeLinks(std::vector<wire::Endpoint> routers);

  // Constant after construction.
  SteadyClock clock_;
  wire::Waker waker_;
  WorkerSetup setup_;

  metrics::Registry registry_;
  WorkerMetrics metrics_;
  ThroughputLog throughput_;
  std::unique_ptr<WorkerEngine> engine_;
  wire::Hello hello_;
  std::unique_ptr<LinkThread> link_thread_;
};

// One worker's routers as all workers see them: each router with the worst standing that it has with any of them.
[[nodiscard]] std::vector<RouterStatus> WorstOf(const std::vector<std::vector<RouterStatus>>& routers);

// The workers of one process: one, or one for each rank of the engine that they stand beside. They come, drain and go
// together, and one HTTP listener tells of all of them.
//
// Threads: Start, BeginDrain and Stop from one owner.
class WorkerGroup {
 public:
  // Checks the setups, at least one, and starts all threads. The listener is the first one's. On an error nothing runs.
  [[nodiscard]] static Result<std::unique_ptr<WorkerGroup>> Start(std::vector<WorkerSetup> setups);
  ~WorkerGroup() { Stop(); }
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Each is as Worker's, of all workers.
  [[nodiscard]] bool WaitForRouter(std::chrono::milliseconds timeout);
  [[nodiscard]] Duration LongestStep() const;
  void BeginDrain();
  [[nodiscard]] bool is_sole() const;  // any of them
  [[nodiscard]] bool WaitForDrained(std::chrono::milliseconds timeout);
  [[nodiscard]] bool WaitForHandedOver(std::chrono::milliseconds timeout);
  [[nodiscard]] bool WriteOut();
  void Stop();

  [[nodiscard]] std::span<const std::unique_ptr<Worker>> workers() const { return workers_; }
  // The URL of the listener, without a path; empty without one.
  [[nodiscard]] std::string url() const { return listener_ ? listener_->url() : ""; }
  // Reads the listener's TLS files again, as it does whenever they change.
  void Reload();

 private:
  explicit WorkerGroup(std::vector<std::unique_ptr<Worker>> workers) : workers_(std::move(workers)) {}
  Result<void> Listen(const WorkerListenerOptions& options, Duration stall_timeout);

  const std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<WorkerListener> listener_;
};

}  // namespace roost::worker
