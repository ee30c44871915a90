#include "worker/link/router_keys.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/log.h"

namespace roost::worker {

Result<RouterKeys> RouterKeys::Open(LinkKeyFiles files) {
  ROOST_ASSIGN_OR_RETURN(wire::LinkKeyPair own, wire::ReadLinkKey(files.secret_key));
  ROOST_ASSIGN_OR_RETURN(wire::LinkPeers peers, wire::LinkPeers::Read(files.peers, wire::PeersOf::kWorker));
  return RouterKeys(std::move(files), std::move(own), std::move(peers));
}

RouterKeys::RouterKeys(LinkKeyFiles files, wire::LinkKeyPair own, wire::LinkPeers peers)
    : files_(std::move(files)), own_(std::move(own)), peers_(std::move(peers)) {}

void RouterKeys::ReadAgain() {
  Result<RouterKeys> read = Open(files_);
  if (read.ok()) {
    own_ = std::move(read->own_);
    peers_ = std::move(read->peers_);
    told_.clear();
    return;
  }
  std::string error = read.error().ToString();
  if (std::exchange(told_, error) == error) return;
  LogError("the link's keys can not be read again; the last ones stay", {{"error", std::move(error)}});
}

std::size_t RouterKeys::CountRouterKeys() {
  ReadAgain();
  return peers_.all().size();
}

wire::ClientKeys RouterKeys::ForTurn(std::size_t turn) {
  ReadAgain();
  return {own_, peers_.all()[turn % peers_.all().size()].public_key};
}

bool KeyTurn::OnFailure(wire::HandshakeFailure failure, std::size_t key_count, Instant now) {
  if (redial_at_) return false;
  if (failure == wire::HandshakeFailure::kCut) {
    ++turn_;
    if (++failures_ % key_count != 0) {
      redial_at_ = now;
      return false;
    }
  }
  redial_at_ = now + kPause;
  return true;
}

bool KeyTurn::TakeRedial(Instant now) {
  if (!redial_at_ || now < *redial_at_) return false;
  redial_at_.reset();
  return true;
}

std::string TextOf(wire::HandshakeFailure failure, const std::optional<wire::ClientKeys>& keys) {
  switch (failure) {
    case wire::HandshakeFailure::kRefused:
      return fmt::format("the router does not take this worker's key {}", keys ? keys->own.public_key : "");
    case wire::HandshakeFailure::kMechanism:
      return keys ? "the router has no keys" : "the router demands keys: --link-secret-key and --link-peers";
    case wire::HandshakeFailure::kCut: break;
  }
  return keys ? "the router ends the handshake: it has none of the keys in --link-peers, or no key at all"
              : "the router ends the handshake: it may demand keys (--link-secret-key and --link-peers)";
}

}  // namespace roost::worker
