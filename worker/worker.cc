#include "worker/worker.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/random_seed.h"
#include "common/base/utf8.h"
#include "common/metrics/catalog.h"
#include "common/trace/span_exporter.h"
#include "common/wire/codec.h"
#include "common/wire/endpoint.h"
#include "common/wire/messages.h"
#include "common/wire/tokenizer_digest.h"
#include "common/wire/transfer_ticket.h"
#include "worker/engine_api/engine_order.h"
#include "worker/sample/sampler.h"

namespace roost::worker {

OwnEngine::OwnEngine(OwnEngineSetup setup, const EngineSurroundings& surroundings)
    : setup_(std::move(setup)),
      grammar_pool_(MakeGrammarPool(surroundings.clock)),
      transfer_(MakeTransfer(surroundings.clock)),
      disk_(MakeDisk(surroundings.clock)),
      wiper_(MakeWiper()),
      engine_(*setup_.model, surroundings.clock, OptionsWithParts()),
      thread_(engine_, surroundings.clock, surroundings.waker) {
  if (transfer_ == nullptr) return;
  thread_.SetTransfer(transfer_->fetches() ? &transfer_->source() : nullptr,
                      [transfer = transfer_.get()] { return transfer->travelling_bytes(); });
  if (disk_ != nullptr) disk_->Start();
}

OwnEngine::~OwnEngine() {
  // Their threads wake the engine's.
  if (disk_ != nullptr) disk_->Stop();
  if (transfer_ != nullptr) transfer_->StopFetching();
  thread_.Stop();
  grammar_pool_.reset();  // before the thread is destroyed: the pool wakes it
}

// No job is done before the engine has begun one, so the engine thread exists when the pool wakes it.
std::unique_ptr<GrammarPool> OwnEngine::MakeGrammarPool(const Clock& clock) {
  if (setup_.grammar_library == nullptr) return nullptr;
  return std::make_unique<GrammarPool>(std::move(setup_.grammar_library), setup_.grammar, clock,
                                       [this] { thread_.Nudge(); });
}

// Nothing comes before a Hold was posted, so the engine thread exists when what has come wakes it.
std::unique_ptr<BlockTransfer> OwnEngine::MakeTransfer(const Clock& clock) {
  if (!setup_.transfer) return nullptr;
  return std::make_unique<BlockTransfer>(*setup_.model, *std::move(setup_.transfer), clock,
                                         [this] { thread_.Nudge(); });
}

std::unique_ptr<DiskCache> OwnEngine::MakeDisk(const Clock& clock) {
  if (!setup_.disk) return nullptr;
  return std::make_unique<DiskCache>(
      std::move(setup_.disk->store), transfer_->readable(), transfer_->inbox(), clock, [this] { thread_.Nudge(); },
      DiskCache::Options{.write_rate = setup_.disk->write_rate,
                         .queue_limit = setup_.model->block_count() / kDiskQueuePart,
                         .staging = setup_.model->frame_staging()});
}

// Nothing is wiped before the engine has begun it, so the engine thread exists when it is woken.
std::unique_ptr<FrameWiper> OwnEngine::MakeWiper() {
  if (transfer_ == nullptr || setup_.model->frame_staging() == nullptr) return nullptr;
  std::vector<std::shared_ptr<FrameMemory>> memories = transfer_->memories();
  if (disk_ != nullptr) memories.push_back(disk_->memory());
  return std::make_unique<FrameWiper>(
      std::move(memories), [this] { transfer_->EndRetracted(); }, [this] { thread_.Nudge(); });
}

DiskStart OwnEngine::Disk() {
  if (disk_ == nullptr) return {};
  return {.runs = disk_->Snapshot(),
          .most_blocks = disk_->capacity(),
          .bytes_per_second = kFirstDiskRate,
          .block_bytes = disk_->frame_bytes()};
}

EngineOptions OwnEngine::OptionsWithParts() const {
  EngineOptions options = setup_.engine;
  options.constrainer = grammar_pool_.get();
  options.wiper = wiper_.get();
  if (transfer_ != nullptr) {
    options.readable = &transfer_->readable();
  }
  if (transfer_ != nullptr && transfer_->fetches()) {
    options.arriving = &transfer_->inbox();
    options.source = &transfer_->source();
  }
  if (disk_ != nullptr) {
    options.arriving = &transfer_->inbox();
    options.disk = disk_.get();
  }
  return options;
}

void OwnEngine::Describe(wire::Hello& hello) const {
  hello.block_tokens = setup_.model->block_tokens();
  hello.block_count = setup_.model->block_count();
  hello.max_context_tokens = engine_.max_context_tokens();
  hello.max_running_requests = setup_.engine.max_running_requests;
  hello.max_batch_tokens = setup_.engine.max_batch_tokens;
  hello.ageing_tokens = AgeingTokens(setup_.engine.schedule_policy);
  hello.max_sample_count = wire::kMaxSampleCount;
  using wire::Feature;
  hello.features = {Feature::kMinOutputTokens};
  hello.features.insert(SamplingFeatures());
  hello.features.insert(kOrderFeatures);
  if (TellsLogprobs(setup_.engine)) hello.features.insert(Feature::kLogprobs);
  if (grammar_pool_ != nullptr) hello.features.insert(Feature::kConstrainsOutput);
  if (transfer_ == nullptr || transfer_->stays()) return;
  hello.features.insert(Feature::kFollows);
  if (transfer_->fetches()) hello.features.insert(Feature::kHolds);
  hello.transfer = transfer_->Describe();
  if (const std::optional<wire::TransferSecret> secret = transfer_->secret()) {
    hello.transfer.secret = secret->ToText();
  }
}

namespace {

// Routers only compare epochs for equality; the wall clock makes them differ across restarts.
std::uint64_t FirstEpoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) | 1U;
}

std::uint64_t RandomProcessId() { return RandomSeed() | 1U; }

Result<void> CheckName(const std::string& name, const char* field, std::size_t max_bytes) {
  if (name.empty()) return InvalidArgument(field, "must not be empty");
  if (name.size() > max_bytes)
    return InvalidArgument(field, "has {} bytes, at most {} are allowed", name.size(), max_bytes);
  if (!IsValidUtf8(name)) return InvalidArgument(field, "is not UTF-8");
  if (HasControlCharacter(name)) return InvalidArgument(field, "contains a control character");
  if (HasInvisibleCharacter(name)) return InvalidArgument(field, "contains a character that nobody sees");
  return {};
}

Result<void> CheckSetup(const WorkerSetup& setup) {
  ROOST_RETURN_IF_ERROR(CheckName(setup.hello.worker_id, "worker-id", wire::WireLimits::kMaxWorkerIdBytes));
  ROOST_RETURN_IF_ERROR(CheckName(setup.hello.model, "served-model-name", wire::WireLimits::kMaxTextBytes));
  const wire::Tokenizer& bundle = setup.tokenizer;
  const std::size_t size = bundle.tokenizer_json.size() + bundle.chat_template.size();
  if (size > wire::WireLimits::kMaxTokenizerBytes) {
    return InvalidArgument("tokenizer.json", "has {} bytes with the chat template, at most {} are allowed", size,
                           wire::WireLimits::kMaxTokenizerBytes);
  }
  for (const auto& [field, token] : {std::pair("bos_token", &bundle.bos_token), {"eos_token", &bundle.eos_token}}) {
    if (token->size() <= wire::WireLimits::kMaxTextBytes) continue;
    return InvalidArgument(field, "has {} bytes, at most {} are allowed", token->size(),
                           wire::WireLimits::kMaxTextBytes);
  }
  if (setup.routers.empty()) return InvalidArgument("router", "at least one address is needed");
  return {};
}

Result<std::vector<wire::Endpoint>> ParseRouters(const std::vector<std::string>& routers) {
  std::vector<wire::Endpoint> endpoints;
  for (const std::string& router : routers) {
    Result<wire::Endpoint> endpoint = wire::ParseEndpoint(router);
    if (!endpoint.ok()) return InvalidArgument("router", "{}", endpoint.error().ToString());
    endpoints.push_back(std::move(endpoint).value());
  }
  return endpoints;
}

// Without a tokenizer there is nothing to ask for.
WorkerSetup WithDigest(WorkerSetup setup) {
  if (!setup.tokenizer.tokenizer_json.empty()) setup.tokenizer.digest = wire::DigestOf(setup.tokenizer);
  return setup;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Make(WorkerSetup setup) {
  ROOST_RETURN_IF_ERROR(CheckSetup(setup));
  ROOST_ASSIGN_OR_RETURN(std::vector<wire::Endpoint> routers, ParseRouters(setup.routers));
  std::unique_ptr<Worker> worker(new Worker(WithDigest(std::move(setup))));
  ROOST_RETURN_IF_ERROR(worker->MakeLinks(std::move(routers)));
  return worker;
}

Worker::Worker(WorkerSetup setup)
    : setup_(std::move(setup)),
      registry_({{"model", setup_.hello.model}, {"worker", setup_.hello.worker_id}}),
      metrics_(registry_),
      throughput_(metrics_, clock_),
      engine_(TakeEngine()),
      hello_(CompleteHello()) {
  prometheus::Gauge& threads = registry_.Gauge(metrics::kWorkerComputeThreads);
  if (setup_.compute_threads) setup_.compute_threads->Export(threads);
}

std::unique_ptr<WorkerEngine> Worker::TakeEngine() {
  const EngineSurroundings surroundings{.clock = clock_, .waker = waker_, .on_view_counts = [this](const auto& counts) {
                                          metrics_.OnViewCounts(counts);
                                        }};
  if (setup_.make_other) return setup_.make_other(surroundings);
  auto own = std::make_unique<OwnEngine>(std::move(setup_.own), surroundings);
  if (own->transfer() != nullptr) {
    metrics_.SetTransfer([transfer = own->transfer()] { return transfer->counts(); });
  }
  if (own->disk() != nullptr) {
    metrics_.SetDisk([disk = own->disk()] { return disk->counts(); });
  }
  return own;
}

wire::Hello Worker::CompleteHello() const {
  wire::Hello hello = setup_.hello;
  hello.process_id = RandomProcessId();
  hello.tokenizer_digest = setup_.tokenizer.digest;
  engine_->Describe(hello);
  hello.features.insert(wire::Feature::kCordons);
  return hello;
}

Worker::~Worker() { Stop(); }

Result<RequestSpansOptions> Worker::OpenSpans() {
  RequestSpansOptions spans;
  spans.worker_id = hello_.worker_id;
  ROOST_ASSIGN_OR_RETURN(spans.outlet, trace::OpenCountedOutlet(setup_.otlp_endpoint,
                                                                {.service_name = "roost-worker",
                                                                 .service_version = hello_.version.release,
                                                                 .service_instance_id = hello_.worker_id},
                                                                registry_, metrics::kWorkerTraceSpans));
  return spans;
}

Result<void> Worker::MakeLinks(std::vector<wire::Endpoint> routers) {
  std::optional<RouterKeys> keys;
  if (setup_.link_keys) {
    ROOST_ASSIGN_OR_RETURN(keys, RouterKeys::Open(*setup_.link_keys));
  }
  LinkCore::Setup core{hello_, std::move(setup_.tokenizer), FirstEpoch(), {}};
  ROOST_ASSIGN_OR_RETURN(core.spans, OpenSpans());
  core.disk = engine_->Disk();
  Resolver::Options names;
  names.names = std::move(routers);
  link_thread_ = std::make_unique<LinkThread>(std::move(core), std::move(names), std::move(keys), clock_, waker_,
                                              engine_->host(), throughput_);
  return {};
}

void Worker::Run() {
  metrics_.OnGpuMemory(engine_->DeviceMemory());
  engine_->host().Start();
  link_thread_->Start();
}

std::vector<ThreadProgress> Worker::Progress() const {
  return {{"engine", engine_->host().stall_watch().StepTime()}, {"link", link_thread_->stall_watch().StepTime()}};
}

Duration Worker::LongestStep() const {
  Duration longest{};
  for (const ThreadProgress& thread : Progress()) longest = std::max(longest, thread.step_time);
  return longest;
}

void Worker::Stop() {
  if (link_thread_) link_thread_->Stop();
  engine_->host().Stop();
}

// ---- the workers of a process ----

namespace {

// From the best to the worst.
int RankOf(LinkStanding standing) {
  switch (standing) {
    case LinkStanding::kUp: return 0;
    case LinkStanding::kConnecting: return 1;
    case LinkStanding::kRefused: return 2;
  }
  return 1;
}

}  // namespace

std::vector<RouterStatus> WorstOf(const std::vector<std::vector<RouterStatus>>& routers) {
  std::map<std::string, RouterStatus> worst;
  for (const std::vector<RouterStatus>& of_worker : routers) {
    for (const RouterStatus& router : of_worker) {
      const auto [known, is_first] = worst.try_emplace(router.router, router);
      if (RankOf(router.standing) > RankOf(known->second.standing)) known->second = router;
    }
  }
  std::vector<RouterStatus> statuses;
  statuses.reserve(worst.size());
  for (auto& [name, status] : worst) statuses.push_back(std::move(status));
  return statuses;
}

Result<std::unique_ptr<WorkerGroup>> WorkerGroup::Start(std::vector<WorkerSetup> setups) {
  ROOST_CHECK(!setups.empty());
  const WorkerListenerOptions listener = setups.front().listener;
  const Duration stall_timeout = setups.front().stall_timeout;
  std::vector<std::unique_ptr<Worker>> workers;
  for (WorkerSetup& setup : setups) {
    ROOST_ASSIGN_OR_RETURN(workers.emplace_back(), Worker::Make(std::move(setup)));
  }
  std::unique_ptr<WorkerGroup> group(new WorkerGroup(std::move(workers)));
  ROOST_RETURN_IF_ERROR(group->Listen(listener, stall_timeout));
  for (const std::unique_ptr<Worker>& worker : group->workers_) worker->Run();
  return group;
}

// The listener asks the threads, and is there before them: an address that can not be bound stops the start.
Result<void> WorkerGroup::Listen(const WorkerListenerOptions& options, Duration stall_timeout) {
  if (options.address.empty()) return {};
  Worker& first = *workers_.front();
  metrics::ExportProcess(first.metrics(), first.build());
  WorkerApi api({.threads =
                     [this] {
                       std::vector<ThreadProgress> threads;
                       for (const auto& worker : workers_) {
                         for (ThreadProgress& thread : worker->Progress()) threads.push_back(std::move(thread));
                       }
                       return threads;
                     },
                 .is_draining = [this] { return workers_.front()->is_draining(); },
                 .engine_absence =
                     [this] {
                       std::string absence;
                       for (const auto& worker : workers_) {
                         if (absence.empty()) absence = worker->EngineAbsence();
                       }
                       return absence;
                     },
                 .routers =
                     [this] {
                       std::vector<std::vector<RouterStatus>> routers;
                       routers.reserve(workers_.size());
                       for (const auto& worker : workers_) routers.push_back(worker->Routers());
                       return WorstOf(routers);
                     },
                 .metrics_text =
                     [this] {
                       std::vector<const metrics::Registry*> registries;
                       registries.reserve(workers_.size());
                       for (const auto& worker : workers_) registries.push_back(&worker->metrics());
                       return metrics::TextOf(registries);
                     }},
                {.stall_timeout = stall_timeout, .version = first.hello().version.release});
  ROOST_ASSIGN_OR_RETURN(
      listener_, WorkerListener::Start(options, std::move(api),
                                       [&first](const TlsValidity& validity) { first.OnCertificate(validity); }));
  return {};
}

bool WorkerGroup::WaitForRouter(std::chrono::milliseconds timeout) {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->WaitForRouter(timeout); });
}

Duration WorkerGroup::LongestStep() const {
  Duration longest{};
  for (const auto& worker : workers_) longest = std::max(longest, worker->LongestStep());
  return longest;
}

void WorkerGroup::BeginDrain() {
  for (const auto& worker : workers_) worker->BeginDrain();
}

bool WorkerGroup::is_sole() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->is_sole(); });
}

bool WorkerGroup::WaitForDrained(std::chrono::milliseconds timeout) {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->WaitForDrained(timeout); });
}

bool WorkerGroup::WaitForHandedOver(std::chrono::milliseconds timeout) {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->WaitForHandedOver(timeout); });
}

bool WorkerGroup::WriteOut() {
  return std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return !worker->WriteOut(); }) == 0;
}

void WorkerGroup::Stop() {
  for (const auto& worker : workers_) worker->Stop();
  listener_.reset();
}

void WorkerGroup::Reload() {
  if (listener_ != nullptr) listener_->Reload();
}

}  // namespace roost::worker
