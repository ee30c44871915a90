#include "router/fleet/fleet.h"

#include <algorithm>
#include <array>
#include <new>

#include "common/base/deferred_wakes.h"
#include "common/base/random_seed.h"
#include "common/base/thread_name.h"
#include "common/wire/codec.h"
#include "router/index/prefix_index.h"
#include "router/policies/policies.h"

namespace roost::router {

namespace {

constexpr std::chrono::milliseconds kTickInterval{100};
// The maximum number of messages that are received before their effects are carried out.
constexpr std::size_t kMaxBatch = 64;
// A batch ends with the frame that exceeds this. The effects of a frame (a call for each token) take many times its
// size.
constexpr std::size_t kMaxBatchBytes = std::size_t{256} << 10U;
// Reading a tokenizer takes this many times the size of its file.
constexpr std::uint64_t kReadingTakes = 6;

// If memory for a message runs out, the message is lost and its sender's link with it, but the router continues.
Result<std::optional<wire::WorkerMessage>> Decode(const wire::Bytes& frame) {
  try {
    return wire::DecodeWorkerMessage(frame);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOverloaded, "there is not enough memory to decode it", "frame"};
  }
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
    : metrics_(metrics),
      input_budget_(options.input_budget),
      guard_(options.link_keys ? options.link_keys->guard : nullptr),
      policy_(std::move(policy)),
      core_(options.core, *policy_, metrics, RandomSeed()) {}

Fleet::~Fleet() { Stop(); }

Result<void> Fleet::Bind(const FleetOptions& options) {
  Result<wire::RouterSocket> socket =
      wire::RouterSocket::Bind(context_, options.bind, options.insecure_bind, options.frame_budget, options.link_keys);
  if (!socket.ok()) return Error{socket.error().code, socket.error().ToString(), "link-address"};
  endpoint_ = socket->endpoint();
  socket_ = std::move(socket).value();
  return {};
}

void Fleet::StartThreads(BundleReader::Read read_bundle) {
  bundle_reader_.emplace(std::move(read_bundle), [this](const std::string& digest, BundleReader::Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome.text.has_value()) {
      core_.OnTextBundle(digest, *std::move(outcome.text), clock_.Now());
      waker_.Wake();  // for the requests that wait for it
    } else {
      core_.OnBundleFault(digest, outcome.error, clock_.Now());
    }
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
  NameThisThread("link");
  const std::array<const wire::Socket*, 1> sockets{&*socket_};
  while (!stopping_) {
    wire::WaitForMessages(sockets, waker_, kTickInterval);
    CarryOutAll(Feed(ReceiveBatch()));
    turns_.Turn();
  }
  std::unique_lock lock(mutex_);
  core_.Shutdown();
  std::vector<Effect> effects = core_.TakeEffects();
  lock.unlock();
  CarryOutAll(std::move(effects));
}

std::vector<Fleet::Incoming> Fleet::ReceiveBatch() {
  std::vector<Incoming> batch;
  std::size_t bytes = 0;
  while (batch.size() < kMaxBatch && bytes < kMaxBatchBytes) {
    std::optional<wire::Received> received = socket_->TryReceive();
    if (!received.has_value()) break;
    bytes += received->frame.size();
    batch.push_back({std::move(received->identity), std::move(received->public_key), Decode(received->frame)});
  }
  return batch;
}

std::vector<Effect> Fleet::Feed(std::vector<Incoming> batch) {
  const Instant now = clock_.Now();
  for (Incoming& incoming : batch) {
    FeedOne(std::move(incoming), now);
    LetOthersIn();
  }
  const std::lock_guard lock(mutex_);
  if (now - last_tick_ >= kTickInterval) {
    last_tick_ = now;
    core_.Tick(now);
    router_count_ = core_.router_count();
  }
  return core_.TakeEffects();
}

void Fleet::FeedOne(Incoming incoming, Instant now) {
  const std::lock_guard lock(mutex_);
  if (!incoming.message.ok()) {
    metrics_.OnMalformedMessage();
    core_.OnMalformed(incoming.identity, incoming.message.error(), now);
    return;
  }
  if (!incoming.message->has_value()) return metrics_.OnUnknownMessage();
  if (auto* const hello = std::get_if<wire::Hello>(&**incoming.message)) {
    const Result<void> allowed = CheckHello(incoming.public_key, *hello);
    if (!allowed.ok()) return core_.RefuseHello(incoming.identity, *hello, allowed.error(), now);
    if (guard_ != nullptr) guard_->KeepAllowed(incoming.public_key, hello->adapters);
  }
  auto* const adapters = std::get_if<wire::Adapters>(&**incoming.message);
  if (adapters != nullptr && guard_ != nullptr) guard_->KeepAllowed(incoming.public_key, adapters->names);
  core_.OnMessage(incoming.identity, **std::move(incoming.message), now);
}

Result<void> Fleet::CheckHello(const std::string& public_key, const wire::Hello& hello) const {
  if (guard_ == nullptr) return {};
  if (hello.version.major != wire::kProtocolMajor) return {};  // it has no model, and the core refuses it
  return guard_->CheckHello(public_key, hello.worker_id, hello.model);
}

void Fleet::LetOthersIn() const {
  constexpr int kMostTurns = 200;
  for (int turn = 0; waiting_threads_ > 0 && turn < kMostTurns; ++turn) std::this_thread::yield();
}

// The threads that serve clients are woken when all of them have been told, so that a step that gives many streams a
// token wakes each thread once.
void Fleet::CarryOutAll(std::vector<Effect> effects) {
  const DeferredWakes wakes;
  while (!effects.empty()) {
    std::vector<std::string> unreachable;
    for (Effect& effect : effects) {
      if (!CarryOut(effect)) unreachable.push_back(std::get<SendToWorker>(effect).identity);
    }
    if (unreachable.empty()) return;
    const std::lock_guard lock(mutex_);
    for (const std::string& identity : unreachable) core_.OnUnreachable(identity, clock_.Now());
    effects = core_.TakeEffects();
  }
}

bool Fleet::CarryOut(Effect& effect) {
  if (auto* const send = std::get_if<SendToWorker>(&effect)) {
    wire::Bytes frame = wire::Encode(send->message);
    return socket_->Send(send->identity, std::move(frame), std::move(send->held)) == wire::SendOutcome::kSent;
  }
  if (auto* const read = std::get_if<ReadBundle>(&effect)) {
    const std::string digest = read->bundle.digest;
    ByteBudget::Guard memory(input_budget_);
    const bool fits = memory.TryGrow(kReadingTakes * read->bundle.tokenizer_json.size());
    if (fits && bundle_reader_->TryRead(std::move(read->bundle), std::move(memory))) return true;
    const std::lock_guard lock(mutex_);
    const Error error{ErrorCode::kOverloaded, "there is not enough memory to read it now", ""};
    core_.OnBundleFault(digest, {BundleFault::kPassing, error}, clock_.Now());
  } else {
    NotifyObserver(effect);
  }
  return true;
}

bool Fleet::LinkTurns() {
  const bool turned = turns_.HasTurned();
  waker_.Wake();
  return turned;
}

// ---- any thread ----

class Fleet::Turn {
 public:
  explicit Turn(const Fleet& fleet) : lock_(fleet.mutex_, std::defer_lock) {
    ++fleet.waiting_threads_;
    lock_.lock();
    --fleet.waiting_threads_;
  }

  void End() { lock_.unlock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

std::shared_ptr<const ServedModel> Fleet::FindModel(std::string_view name) const {
  const Turn turn(*this);
  return core_.FindModel(name);
}

std::vector<std::shared_ptr<const ServedModel>> Fleet::RevisionsOf(std::string_view name) const {
  const Turn turn(*this);
  return core_.RevisionsOf(name);
}

std::shared_ptr<const ServedModel> Fleet::ChooseModel(std::string_view name) {
  const Turn turn(*this);
  return core_.ChooseModel(name);
}

bool Fleet::IsExpected(std::string_view model) const {
  const Turn turn(*this);
  return core_.IsExpected(model, clock_.Now());
}

std::vector<std::shared_ptr<const ServedModel>> Fleet::Models() const {
  const Turn turn(*this);
  return core_.Models();
}

std::vector<WorkerStatus> Fleet::Workers() const {
  const Turn turn(*this);
  return core_.Workers(clock_.Now());
}

FleetStanding Fleet::Standing() const {
  const Turn turn(*this);
  return core_.Standing(clock_.Now());
}

std::optional<std::string> Fleet::KnownModel(std::string_view name) const {
  const Turn turn(*this);
  return core_.KnownModel(name);
}

bool Fleet::IsArriving(std::string_view model) const {
  const Turn turn(*this);
  return core_.IsArriving(model, clock_.Now());
}

bool Fleet::WhenServed(std::string_view model, std::function<void()> go) {
  const Turn turn(*this);
  const bool is_held = core_.WhenServed(model, std::move(go), clock_.Now());
  waker_.Wake();
  return is_held;
}

std::vector<QueueStatus> Fleet::Queues() const {
  const Turn turn(*this);
  return core_.Queues(clock_.Now());
}

Result<void> Fleet::CheckRoom(const ServedModel& model) const {
  const Turn turn(*this);
  return core_.CheckRoom(model);
}

Result<RequestId> Fleet::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) {
  const Instant start = clock_.Now();
  thread_local MatchBuffer lookup;  // reused, so that lookups do not allocate
  spec.model->index->Match(spec.generate.block_hashes, lookup);
  Turn turn(*this);
  const Instant now = clock_.Now();
  Result<RequestId> id = core_.Submit(std::move(spec), std::move(observer), lookup.matches(), now);
  turn.End();
  waker_.Wake();
  metrics_.OnDecisionSeconds(ToSeconds(clock_.Now() - start));
  return id;
}

Result<void> Fleet::Pin(PinOrder order, AnswersDone done) {
  const std::vector<WorkerMatch> matches = order.model->index->Match(HashesOf(order));
  const Turn turn(*this);
  Result<void> sent = core_.Pin(std::move(order), matches, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

Result<void> Fleet::MostUsed(PrefixesQuestion question, AnswersDone done) {
  const Turn turn(*this);
  Result<void> sent = core_.MostUsed(question, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

Result<void> Fleet::Warm(WarmOrder order, AnswersDone done) {
  const std::vector<WorkerMatch> matches = order.spec.model->index->Match(order.spec.generate.block_hashes);
  const Turn turn(*this);
  Result<void> sent = core_.Warm(order, matches, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

Result<void> Fleet::Evict(EvictOrder order, AnswersDone done) {
  const Turn turn(*this);
  Result<void> sent = core_.Evict(order, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

Result<void> Fleet::Cordon(CordonOrder order, AnswersDone done) {
  const Turn turn(*this);
  Result<void> sent = core_.Cordon(order, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

Result<PromptMatch> Fleet::Match(PromptQuery query) {
  const std::vector<WorkerMatch> matches = query.model->index->Match(query.block_hashes);
  const Turn turn(*this);
  return core_.Match(query, matches, clock_.Now());
}

std::vector<DecisionRecord> Fleet::LatestDecisions(std::size_t limit) const {
  const Turn turn(*this);
  return core_.decisions().Latest(limit);
}

std::vector<DecisionRecord> Fleet::FindDecisions(std::string_view id) const {
  const Turn turn(*this);
  return core_.decisions().Find(id);
}

void Fleet::Cancel(RequestId id) {
  const Turn turn(*this);
  core_.Cancel(id);
  waker_.Wake();
}

}  // namespace roost::router
