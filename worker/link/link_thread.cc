#include "worker/link/link_thread.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/wire/codec.h"

namespace roost::worker {
namespace {

// Limit per round and router, so that a router that never pauses does not keep the others waiting.
constexpr int kFramesPerRound = 256;

}  // namespace

LinkThread::LinkThread(LinkCore::Setup setup, Resolver::Options routers, std::optional<RouterKeys> keys,
                       const Clock& clock, const wire::Waker& waker, EngineHost& engine, LinkObserver& observer)
    : clock_(clock),
      waker_(waker),
      engine_(engine),
      observer_(observer),
      resolver_(std::move(routers), waker),
      stall_watch_(clock),
      keys_(std::move(keys)),
      core_(std::move(setup), clock, *this) {}

LinkThread::~LinkThread() { Stop(); }

void LinkThread::Start() {
  ROOST_CHECK(!thread_.joinable());
  resolver_.Start();
  thread_ = std::thread([this] { Run(); });
}

void LinkThread::BeginDrain() {
  draining_.store(true);
  waker_.Wake();
}

bool LinkThread::WaitForRouter(std::chrono::milliseconds timeout) { return WaitFor(welcomed_, timeout); }
bool LinkThread::WaitForDrained(std::chrono::milliseconds timeout) { return WaitFor(drained_, timeout); }
bool LinkThread::WaitForHandedOver(std::chrono::milliseconds timeout) { return WaitFor(handed_over_, timeout); }

bool LinkThread::WaitFor(const bool& milestone, std::chrono::milliseconds timeout) {
  std::unique_lock lock(told_mutex_);
  return milestone_reached_.wait_for(lock, timeout, [&milestone] { return milestone; });
}

void LinkThread::Reach(bool& milestone) {
  {
    const std::lock_guard lock(told_mutex_);
    milestone = true;
  }
  milestone_reached_.notify_all();
}

void LinkThread::Stop() {
  stopping_.store(true);
  waker_.Wake();
  if (thread_.joinable()) thread_.join();
  resolver_.Stop();
}

void LinkThread::Run() {
  while (!stopping_.load()) {
    stall_watch_.OnTurn();
    Round();
    stall_watch_.OnWait();
    Wait();
  }
  ReceiveOutputs();
  core_.SayBye();
  peers_.clear();
}

void LinkThread::Round() {
  ApplyAddresses();
  FlushBacklog();
  for (auto& [endpoint, peer] : peers_) {
    ReceiveFrom(peer);
    LookAtHandshake(endpoint, peer);
  }
  core_.OnTravellingBytes(engine_.travelling_bytes());
  ReceiveOutputs();
  core_.OnStepParts(engine_.stall_watch().parts());
  core_.Tick();
  sole_.store(core_.is_sole());
  ApplyDrain();
  if (core_.TakeStatusChange()) PublishStatuses();
  if (core_.up_count() > 0) Reach(welcomed_);
  observer_.OnRound(core_.counts(), {.up = core_.up_count(),
                                     .down = core_.link_count() - core_.up_count(),
                                     .engine_is_away = !core_.engine_absence().empty()});
}

void LinkThread::PublishStatuses() {
  std::vector<RouterStatus> statuses = core_.statuses();
  const std::lock_guard lock(told_mutex_);
  statuses_ = std::move(statuses);
  engine_absence_ = core_.engine_absence();
}

std::string LinkThread::EngineAbsence() const {
  const std::lock_guard lock(told_mutex_);
  return engine_absence_;
}

std::vector<RouterStatus> LinkThread::Routers() const {
  const std::lock_guard lock(told_mutex_);
  return statuses_;
}

// ---- addresses ----

void LinkThread::ApplyAddresses() {
  const std::optional<EndpointSet> wanted = resolver_.TakeChange();
  if (!wanted) return;
  for (auto next = peers_.begin(); next != peers_.end();) {
    if (wanted->contains(next->first)) {
      ++next;
      continue;
    }
    LogInfo("router address is gone", {{"router", next->first}});
    core_.RemovePeer(next->second.id);
    next = peers_.erase(next);
  }
  for (const std::string& endpoint : *wanted) {
    if (!peers_.contains(endpoint)) Connect(endpoint);
  }
}

std::optional<wire::ClientKeys> LinkThread::KeysFor(std::size_t turn) {
  return keys_ ? std::optional(keys_->ForTurn(turn)) : std::nullopt;
}

void LinkThread::LookAtHandshake(const std::string& endpoint, Peer& peer) {
  const std::optional<wire::HandshakeFailure> failure = peer.socket.TakeHandshakeFailure();
  if (failure && peer.key_turn.OnFailure(*failure, keys_ ? keys_->CountRouterKeys() : 1, clock_.Now())) {
    std::string text = TextOf(*failure, peer.keys);
    core_.OnHandshakeFailure(peer.id, text);
    if (peer.told != text) LogWarning("a router can not be linked", {{"router", endpoint}, {"reason", text}});
    peer.told = std::move(text);
  }
  if (peer.key_turn.TakeRedial(clock_.Now())) Redial(peer.id);
}

void LinkThread::Connect(const std::string& endpoint) {
  std::optional<wire::ClientKeys> keys = KeysFor(0);
  Result<wire::DealerSocket> socket = wire::DealerSocket::Connect(context_, endpoint, keys);
  if (!socket.ok()) {
    LogError("can not connect to a router", {{"router", endpoint}, {"error", socket.error().ToString()}});
    return;
  }
  const PeerId id(next_peer_id_++);
  peers_.emplace(endpoint, Peer{id, std::move(socket).value(), std::move(keys)});
  core_.AddPeer(id, endpoint);
}

// ---- in ----

void LinkThread::ReceiveFrom(Peer& peer) {
  for (int i = 0; i < kFramesPerRound; ++i) {
    const std::optional<wire::Bytes> frame = peer.socket.TryReceive();
    if (!frame) return;
    Result<std::optional<wire::RouterMessage>> message = wire::DecodeRouterMessage(*frame);
    if (!message.ok()) {
      LogWarning("malformed message from a router", {{"error", message.error().ToString()}});
      core_.OnMalformed(peer.id);
    } else if (message.value().has_value()) {
      peer.key_turn.OnUp();
      peer.told.clear();
      core_.OnMessage(peer.id, *std::move(message).value());
    } else {
      core_.OnUnknown();
    }
  }
}

void LinkThread::ReceiveOutputs() {
  while (std::optional<EngineOutput> output = engine_.TryTake()) {
    if (const auto* report = std::get_if<StepReport>(&*output)) observer_.OnStep(*report);
    core_.OnOutput(*std::move(output));
  }
}

void LinkThread::Wait() {
  std::vector<const wire::Socket*> sockets;
  sockets.reserve(peers_.size());
  for (const auto& [endpoint, peer] : peers_) sockets.push_back(&peer.socket);
  // Rounded up: a wait that ends just before its time would make the loop spin.
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(core_.TimeToNextTick());
  wire::WaitForMessages(sockets, waker_, backlog_.empty() ? timeout : std::chrono::milliseconds(1));
}

// ---- out ----

LinkThread::Peers::value_type& LinkThread::EntryOf(PeerId id) {
  const auto found = std::find_if(peers_.begin(), peers_.end(), [id](auto& entry) { return entry.second.id == id; });
  ROOST_CHECK(found != peers_.end());
  return *found;
}

wire::SendOutcome LinkThread::Send(PeerId peer, const wire::WorkerMessage& message) {
  return EntryOf(peer).second.socket.Send(wire::Encode(message));
}

void LinkThread::Redial(PeerId peer) {
  auto& [endpoint, entry] = EntryOf(peer);
  std::optional<wire::ClientKeys> keys = KeysFor(entry.key_turn.turn());
  Result<wire::DealerSocket> socket = wire::DealerSocket::Connect(context_, endpoint, keys);
  if (!socket.ok()) return;
  entry.socket = std::move(socket).value();
  entry.keys = std::move(keys);
}

bool LinkThread::Submit(EngineCommand command) {
  // A request must not overtake commands that wait in the backlog.
  if (!backlog_.empty() || !engine_.HasRoomForRequest()) return false;
  return engine_.TryPost(std::move(command));
}

void LinkThread::Command(EngineCommand command) {
  if (backlog_.empty() && engine_.TryPost(std::move(command))) return;
  backlog_.push_back(std::move(command));  // NOLINT(bugprone-use-after-move): a refused command is untouched
}

void LinkThread::FlushBacklog() {
  while (!backlog_.empty() && engine_.TryPost(std::move(backlog_.front()))) backlog_.pop_front();
}

// ---- the end ----

void LinkThread::ApplyDrain() {
  if (!draining_.load()) return;
  if (!std::exchange(drain_begun_, true)) core_.BeginDrain();
  if (core_.in_flight_request_count() > 0) return;
  Reach(drained_);
  if (core_.is_handed_over()) Reach(handed_over_);
}

}  // namespace roost::worker
