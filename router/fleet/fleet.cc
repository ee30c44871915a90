#include "router/fleet/fleet.h"

#include <algorithm>
#include <array>
#include <random>

#include "common/wire/codec.h"
#include "router/index/prefix_index.h"

namespace roost::router {

namespace {

constexpr std::chrono::milliseconds kTickInterval{100};
// Messages taken in under one lock: bounds how long a Submit can wait for it.
constexpr std::size_t kMaxBatch = 64;

std::uint64_t RandomSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

Result<std::unique_ptr<Fleet>> Fleet::Start(const FleetOptions& options, BundleReader::Read read_bundle,
                                            FleetMetrics& metrics) {
  ROOST_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, MakePolicy(options.policy, RandomSeed()));
  std::unique_ptr<Fleet> fleet(new Fleet(options, std::move(policy), metrics));
  ROOST_RETURN_IF_ERROR(fleet->Bind(options));
  fleet->StartThreads(std::move(read_bundle));
  return fleet;
}

Fleet::Fleet(const FleetOptions& options, std::unique_ptr<Policy> policy, FleetMetrics& metrics)
    : metrics_(metrics), policy_(std::move(policy)), core_(options.core, *policy_, metrics, RandomSeed()) {}

Fleet::~Fleet() { Stop(); }

Result<void> Fleet::Bind(const FleetOptions& options) {
  ROOST_ASSIGN_OR_RETURN(wire::RouterSocket socket,
                         wire::RouterSocket::Bind(context_, options.bind, options.insecure_bind));
  endpoint_ = socket.endpoint();
  socket_ = std::move(socket);
  return {};
}

void Fleet::StartThreads(BundleReader::Read read_bundle) {
  bundle_reader_.emplace(std::move(read_bundle), [this](const std::string& digest, Result<TextBundle> bundle) {
    const std::lock_guard lock(mutex_);
    core_.OnTextBundle(digest, std::move(bundle));
  });
  link_ = std::thread([this] { RunLink(); });
}

void Fleet::Stop() {
  stopping_ = true;
  waker_.Wake();
  if (link_.joinable()) link_.join();
  bundle_reader_.reset();
}

// ---- link thread ----

void Fleet::RunLink() {
  const std::array<const wire::Socket*, 1> sockets{&*socket_};
  while (!stopping_) {
    wire::WaitForMessages(sockets, waker_, kTickInterval);
    CarryOutAll(Feed(ReceiveBatch()));
  }
  std::unique_lock lock(mutex_);
  core_.Shutdown();
  std::vector<Effect> effects = core_.TakeEffects();
  lock.unlock();
  CarryOutAll(std::move(effects));
}

std::vector<Fleet::Incoming> Fleet::ReceiveBatch() {
  std::vector<Incoming> batch;
  while (batch.size() < kMaxBatch) {
    std::optional<wire::Received> received = socket_->TryReceive();
    if (!received.has_value()) break;
    batch.push_back({std::move(received->identity), wire::DecodeWorkerMessage(received->frame)});
  }
  return batch;
}

std::vector<Effect> Fleet::Feed(std::vector<Incoming> batch) {
  const std::lock_guard lock(mutex_);
  const Instant now = clock_.Now();
  for (Incoming& incoming : batch) {
    if (!incoming.message.ok()) {
      metrics_.OnMalformedMessage();
      core_.OnMalformed(incoming.identity, incoming.message.error(), now);
    } else if (incoming.message->has_value()) {
      core_.OnMessage(incoming.identity, **std::move(incoming.message), now);
    }
  }
  if (now - last_tick_ >= kTickInterval) {
    last_tick_ = now;
    core_.Tick(now);
  }
  return core_.TakeEffects();
}

void Fleet::CarryOutAll(std::vector<Effect> effects) {
  while (!effects.empty()) {
    std::vector<std::string> unreachable;
    for (Effect& effect : effects) {
      if (!CarryOut(effect)) unreachable.push_back(std::get<SendToWorker>(effect).worker_id);
    }
    if (unreachable.empty()) return;
    const std::lock_guard lock(mutex_);
    for (const std::string& worker_id : unreachable) core_.OnUnreachable(worker_id, clock_.Now());
    effects = core_.TakeEffects();
  }
}

bool Fleet::CarryOut(Effect& effect) {
  if (const auto* const send = std::get_if<SendToWorker>(&effect)) {
    return socket_->Send(send->worker_id, wire::Encode(send->message)) == wire::SendOutcome::kSent;
  }
  if (auto* const read = std::get_if<ReadBundle>(&effect)) {
    const std::string digest = read->bundle.digest;
    if (bundle_reader_->TryRead(std::move(read->bundle))) return true;
    const std::lock_guard lock(mutex_);
    core_.OnTextBundle(digest, Error{ErrorCode::kOverloaded, "too many tokenizers wait to be read", digest});
  } else {
    NotifyObserver(effect);
  }
  return true;
}

// ---- any thread ----

std::shared_ptr<const ServedModel> Fleet::FindModel(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return core_.FindModel(name);
}

std::vector<std::shared_ptr<const ServedModel>> Fleet::Models() const {
  const std::lock_guard lock(mutex_);
  return core_.Models();
}

std::vector<WorkerStatus> Fleet::Workers() const {
  const std::lock_guard lock(mutex_);
  return core_.Workers(clock_.Now());
}

std::vector<QueueStatus> Fleet::Queues() const {
  const std::lock_guard lock(mutex_);
  return core_.Queues(clock_.Now());
}

Result<RequestId> Fleet::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) {
  const Instant start = clock_.Now();
  thread_local MatchBuffer lookup;  // so that lookups need no memory of their own
  spec.model->index->Match(spec.block_hashes, lookup);
  std::unique_lock lock(mutex_);
  const Instant now = clock_.Now();
  Result<RequestId> id = core_.Submit(std::move(spec), std::move(observer), lookup.matches(), now);
  lock.unlock();
  waker_.Wake();
  metrics_.OnDecisionSeconds(ToSeconds(clock_.Now() - start));
  return id;
}

Result<std::vector<std::string>> Fleet::Pin(PinOrder order) {
  const std::vector<WorkerMatch> matches = order.model->index->Match(HashesOf(order));
  std::unique_lock lock(mutex_);
  Result<std::vector<std::string>> workers = core_.Pin(std::move(order), matches);
  lock.unlock();
  waker_.Wake();
  return workers;
}

std::vector<DecisionRecord> Fleet::LatestDecisions(std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  return core_.decisions().Latest(limit);
}

std::vector<DecisionRecord> Fleet::FindDecisions(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return core_.decisions().Find(id);
}

void Fleet::Cancel(RequestId id) {
  const std::unique_lock lock(mutex_);
  core_.Cancel(id);
  waker_.Wake();
}

}  // namespace roost::router
