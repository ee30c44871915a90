#include "router/fleet/core/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

#include "common/base/byte_size.h"
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
constexpr Duration kMinViewInterval = std::chrono::milliseconds(1);
// A view takes at most one part in this many of the link thread's time.
constexpr int kViewTimeShare = 100;
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
      on_submit_(options.on_submit),
      core_(options.core, *policy_, metrics, RandomSeed()),
      view_(std::make_shared<const FleetSnapshot>(core_.Snapshot(clock_.Now()))) {}

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
    wire::WaitForMessages(sockets, waker_, Patience());
    std::vector<Incoming> batch = ReceiveBatch();
    const auto inbox = batch.size() < kMaxBatch ? FleetCore::Inbox::kRead : FleetCore::Inbox::kMoreWaits;
    CarryOutAll(Feed(std::move(batch), inbox));
    turns_.Turn();
  }
  std::unique_lock lock(mutex_);
  core_.Shutdown();
  std::vector<Effect> effects = core_.TakeEffects();
  next_view_ = {};
  Publish(effects);
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

std::vector<Effect> Fleet::Feed(std::vector<Incoming> batch, FleetCore::Inbox inbox) {
  const Instant now = clock_.Now();
  for (Incoming& incoming : batch) FeedOne(std::move(incoming), now);
  const std::lock_guard lock(mutex_);
  if (now - last_tick_ >= kTickInterval) {
    last_tick_ = now;
    core_.Tick(now, inbox);
  }
  std::vector<Effect> effects = core_.TakeEffects();
  Publish(effects);
  return effects;
}

void Fleet::Publish(const std::vector<Effect>& effects) {
  const Instant start = clock_.Now();
  const bool tells_of_it =
      core_.models() != view_->models || std::any_of(effects.begin(), effects.end(), [](const Effect& effect) {
        return std::holds_alternative<NotifyAnswers>(effect);
      });
  view_is_due_ = !tells_of_it && start < next_view_;
  if (view_is_due_) return;
  std::shared_ptr<const FleetSnapshot> view = std::make_shared<const FleetSnapshot>(core_.Snapshot(start));
  {
    const std::lock_guard lock(view_mutex_);
    view_.swap(view);
  }
  const Instant end = clock_.Now();
  next_view_ = end + std::max(kMinViewInterval, kViewTimeShare * (end - start));
}

std::chrono::milliseconds Fleet::Patience() const {
  if (!view_is_due_) return kTickInterval;
  const auto until_due = std::chrono::ceil<std::chrono::milliseconds>(next_view_ - clock_.Now());
  return std::clamp(until_due, std::chrono::milliseconds(0), kTickInterval);
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
    if (guard_ != nullptr) {
      guard_->KeepAllowed(incoming.public_key, hello->adapters);
      guard_->KeepAllowed(incoming.public_key, hello->aliases);
    }
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
    Publish(effects);
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
    const std::uint64_t bytes = kReadingTakes * read->bundle.tokenizer_json.size();
    const bool fits = memory.TryGrow(bytes);
    if (fits && bundle_reader_->TryRead(std::move(read->bundle), std::move(memory))) return true;
    const std::lock_guard lock(mutex_);
    const Error error{
        ErrorCode::kOverloaded,
        fits ? "other tokenizers are being read"
             : fmt::format("reading it takes {}, and clients' requests hold the memory for that", ByteSizeText(bytes)),
        ""};
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

Result<RequestId> Fleet::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) {
  if (on_submit_) observer = on_submit_(spec, std::move(observer));
  const Instant start = clock_.Now();
  thread_local MatchBuffer lookup;  // reused, so that lookups do not allocate
  spec.model->index->Match(spec.generate.block_hashes, lookup);
  std::unique_lock lock(mutex_);
  const Instant now = clock_.Now();
  Result<RequestId> id = core_.Submit(std::move(spec), std::move(observer), lookup.matches(), now);
  lock.unlock();
  waker_.Wake();
  metrics_.OnDecisionSeconds(ToSeconds(clock_.Now() - start));
  return id;
}

void Fleet::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  core_.Cancel(id);
  waker_.Wake();
}

Result<RequestId> Fleet::Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer) {
  std::unique_lock lock(mutex_);
  Result<RequestId> id = core_.Forward(std::move(spec), std::move(observer), clock_.Now());
  lock.unlock();  // or the link's thread would wake to wait for it
  waker_.Wake();
  return id;
}

void Fleet::Grant(RequestId id, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  core_.Grant(id, bytes);
  waker_.Wake();
}

Result<void> Fleet::Send(Order order, AnswersDone done) {
  const std::vector<WorkerMatch> matches = MatchesOf(order);
  const std::lock_guard lock(mutex_);
  Result<void> sent = core_.Send(std::move(order), matches, clock_.Now(), std::move(done));
  waker_.Wake();
  return sent;
}

std::shared_ptr<const FleetSnapshot> Fleet::View() const {
  const std::lock_guard lock(view_mutex_);
  return view_;
}

}  // namespace roost::router
