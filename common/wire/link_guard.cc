#include "common/wire/link_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "common/base/log.h"

namespace roost::wire {
namespace {

constexpr std::chrono::seconds kRefusalLineInterval{10};

}  // namespace

LinkGuard::LinkGuard(LinkPeers peers, const Clock& clock, OnRefused on_refused)
    : clock_(clock), on_refused_(std::move(on_refused)), peers_(std::move(peers)) {}

void LinkGuard::Replace(LinkPeers peers) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
  for (auto& [inner, connection] : connections_) {
    if (connection.standing != Standing::kAdmitted) continue;
    const LinkPeer* const now = peers_.Find(connection.admitted.public_key);
    if (now == nullptr || *now != connection.admitted) connection.standing = Standing::kWithdrawn;
  }
}

bool LinkGuard::Connected(const std::string& inner, const std::string& peer) {
  const std::lock_guard lock(mutex_);
  return connections_.try_emplace(inner, Connection{peer, Standing::kHandshake, {}}).second;
}

void LinkGuard::Gone(const std::string& inner) {
  const std::lock_guard lock(mutex_);
  connections_.erase(inner);
}

LinkGuard::Standing LinkGuard::StandingOf(const std::string& inner) const {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(inner);
  return found == connections_.end() ? Standing::kRefused : found->second.standing;
}

bool LinkGuard::TakesLine(PeerRefusal refusal) {
  std::optional<Instant>& told = told_[IndexOf(refusal)];
  const Instant now = clock_.Now();
  if (told && now - *told < kRefusalLineInterval) return false;
  told = now;
  return true;
}

void LinkGuard::Refuse(PeerRefusal refusal, const std::string& peer, const std::string& why) {
  on_refused_(refusal);
  const std::lock_guard lock(mutex_);
  if (!TakesLine(refusal)) return;
  LogWarning("a peer is refused on the port for workers",
             {{"peer", peer}, {"reason", std::string(kPeerRefusalNames[IndexOf(refusal)])}, {"why", why}});
}

bool LinkGuard::Admit(const std::string& inner, const std::string& public_key) {
  std::unique_lock lock(mutex_);
  const auto found = connections_.find(inner);
  const bool came_by_gate = found != connections_.end();
  const LinkPeer* const peer = peers_.Find(public_key);
  if (came_by_gate && peer != nullptr) {
    found->second.standing = Standing::kAdmitted;
    found->second.admitted = *peer;
    return true;
  }
  if (came_by_gate) found->second.standing = Standing::kRefused;
  const std::string address = came_by_gate ? found->second.peer : inner;
  lock.unlock();
  Refuse(PeerRefusal::kUnknownKey, address,
         came_by_gate ? fmt::format("key {} is not in the peers file", public_key) : "it goes around the gate");
  return false;
}

Result<void> LinkGuard::CheckHello(const std::string& public_key, std::string_view worker_id, std::string_view model) {
  std::unique_lock lock(mutex_);
  const LinkPeer* const peer = peers_.Find(public_key);
  Result<void> allowed =
      peer != nullptr
          ? CheckNames(*peer, worker_id, model)
          : Error{ErrorCode::kUnauthenticated, fmt::format("key {} is not in the peers file", public_key), "worker_id"};
  lock.unlock();
  if (!allowed.ok()) on_refused_(PeerRefusal::kName);
  return allowed;
}

void LinkGuard::KeepAllowed(const std::string& public_key, std::vector<std::string>& adapters) {
  std::vector<std::string> refused;
  {
    const std::lock_guard lock(mutex_);
    const LinkPeer* const peer = peers_.Find(public_key);
    const auto first = std::stable_partition(adapters.begin(), adapters.end(), [peer](const std::string& name) {
      return peer != nullptr && MayServe(*peer, name);
    });
    refused.assign(std::make_move_iterator(first), std::make_move_iterator(adapters.end()));
    adapters.erase(first, adapters.end());
  }
  for (const std::string& name : refused) {
    Refuse(PeerRefusal::kName, fmt::format("key {}", public_key), fmt::format("it may not serve adapter '{}'", name));
  }
}

}  // namespace roost::wire
