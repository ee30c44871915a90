// The keys of a worker's links: its own, and those that it takes routers for. They are read from their files again for
// every connection, so that a key can be changed while the worker serves; files that can not be read then leave the
// last good ones in force.
//
// Dialling a router shows which of several keys it has: with a wrong one the handshake fails. KeyTurn tries them one
// after the other.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/link_keys.h"
#include "common/wire/socket.h"

namespace roost::worker {

struct LinkKeyFiles {
  std::string secret_key;
  std::string peers;
};

class RouterKeys {
 public:
  // Reads both files. The error names the file, and the line that is wrong.
  [[nodiscard]] static Result<RouterKeys> Open(LinkKeyFiles files);

  // For the next connection to a router: key number `turn` of the peers, counted round and round.
  [[nodiscard]] wire::ClientKeys ForTurn(std::size_t turn);
  // As the file has it now.
  [[nodiscard]] std::size_t CountRouterKeys();

 private:
  RouterKeys(LinkKeyFiles files, wire::LinkKeyPair own, wire::LinkPeers peers);
  void ReadAgain();

  LinkKeyFiles files_;
  wire::LinkKeyPair own_;
  wire::LinkPeers peers_;
  std::string told_;  // the last error, so that it is logged once
};

// Decides when to dial a router again after a handshake that failed, and as which of `key_count` keys. If the router
// may have another key, the next one is tried at once; after all of them, and after any other failure, there is a
// pause.
class KeyTurn {
 public:
  static constexpr Duration kPause = std::chrono::seconds(1);

  // True when it is worth a line in the log: no other key is left to try. While a dial is due, failures do not count:
  // ZeroMQ connects again by itself.
  [[nodiscard]] bool OnFailure(wire::HandshakeFailure failure, std::size_t key_count, Instant now);
  void OnUp() { failures_ = 0; }
  // True once when it is time.
  [[nodiscard]] bool TakeRedial(Instant now);
  [[nodiscard]] std::size_t turn() const { return turn_; }

 private:
  std::size_t turn_ = 0;
  std::size_t failures_ = 0;  // of keys, one after the other
  std::optional<Instant> redial_at_;
};

// The log's text on a handshake that failed with these keys.
[[nodiscard]] std::string TextOf(wire::HandshakeFailure failure, const std::optional<wire::ClientKeys>& keys);

}  // namespace roost::worker
