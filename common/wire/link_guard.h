// Decides who may use a router's port for workers when it has keys. The gate tells it of connections, ZeroMQ asks it
// about their keys, and the fleet asks it about names:
//
//   gate: Connected(inner, peer) ─► handshake ── ZeroMQ: Admit(inner, key) ─► admitted ── Replace ─► withdrawn
//                                                              └────────────► refused
//   gate: Gone(inner)
//
// `inner` is the loopback address that the gate connects from, another one for each connection. ZeroMQ knows a
// connection by this address, so that a refused key is logged with the address of its peer.
//
// Replace changes the known keys. A connection whose key is no longer there, or has other names, is withdrawn: the gate
// cuts it, and a new connection of that peer is checked anew.
//
// Thread-safe. Refusals are counted one by one, and logged once in ten seconds for each reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/link_keys.h"

namespace roost::wire {

// The reason for keeping a peer out.
enum class PeerRefusal : std::uint8_t {
  kMechanism,   // it does not speak CURVE
  kHandshake,   // its handshake fails: it is wrong, too slow, one of too many, or meant for a router with another key
  kUnknownKey,  // its key is not in the peers file
  kName,        // its key may not have the name or the model of its hello
};
inline constexpr std::array<std::string_view, 4> kPeerRefusalNames{"mechanism", "handshake", "unknown_key", "name"};
[[nodiscard]] constexpr std::size_t IndexOf(PeerRefusal refusal) { return static_cast<std::size_t>(refusal); }

class LinkGuard {
 public:
  using OnRefused = std::function<void(PeerRefusal)>;
  // `clock` outlives it. `on_refused` is called from any thread.
  LinkGuard(LinkPeers peers, const Clock& clock, OnRefused on_refused);

  void Replace(LinkPeers peers);

  // ---- for the gate ----
  enum class Standing : std::uint8_t { kHandshake, kAdmitted, kRefused, kWithdrawn };
  // False when another connection has this address.
  [[nodiscard]] bool Connected(const std::string& inner, const std::string& peer);
  void Gone(const std::string& inner);
  [[nodiscard]] Standing StandingOf(const std::string& inner) const;
  // Counts and logs a connection that the gate ends.
  void Refuse(PeerRefusal refusal, const std::string& peer, const std::string& why);

  // ---- for ZeroMQ: may the peer with this key come in? ----
  [[nodiscard]] bool Admit(const std::string& inner, const std::string& public_key);

  // ---- for the fleet: may it have this name and model? A refusal is counted; the caller tells the peer. ----
  [[nodiscard]] Result<void> CheckHello(const std::string& public_key, std::string_view worker_id,
                                        std::string_view model);
  // Removes the names of adapters, or other names of its model, that it may not serve. Each counts as a refusal.
  void KeepAllowed(const std::string& public_key, std::vector<std::string>& adapters);

 private:
  struct Connection {
    std::string peer;
    Standing standing = Standing::kHandshake;
    LinkPeer admitted;  // as the file had it then
  };

  // True if a line is due. Guarded by mutex_.
  [[nodiscard]] bool TakesLine(PeerRefusal refusal);

  const Clock& clock_;
  const OnRefused on_refused_;

  mutable std::mutex mutex_;
  LinkPeers peers_;                                                      // guarded by mutex_
  std::map<std::string, Connection, std::less<>> connections_;           // guarded by mutex_; by inner address
  std::array<std::optional<Instant>, kPeerRefusalNames.size()> told_{};  // guarded by mutex_
};

}  // namespace roost::wire
