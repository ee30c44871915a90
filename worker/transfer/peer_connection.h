// One TCP connection between two workers, with blocking calls. Each call fails when the peer is silent for too long, is
// gone, or Shut was called; a connection that has failed is of no use.
//
// Threads: one at a time; Shut from any.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "common/base/result.h"
#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "worker/transfer/peer_messages.h"

namespace roost::worker {

inline constexpr std::chrono::milliseconds kPeerConnectTime{1000};
inline constexpr std::chrono::milliseconds kPeerHandshakeTime{2000};
// Without a byte: the peer is broken. A source waits longer for a consumer to take bytes, which an engine's step stops.
inline constexpr std::chrono::milliseconds kPeerSilence{2000};
inline constexpr std::chrono::milliseconds kPeerSendTime{10'000};

class PeerConnection {
 public:
  // kUnavailable: no worker answers there.
  [[nodiscard]] static Result<PeerConnection> Connect(const wire::Endpoint& to);
  // Takes over an accepted connection.
  explicit PeerConnection(wire::Descriptor socket);

  [[nodiscard]] Result<void> Send(std::span<const std::byte> bytes);
  // Two parts, as one.
  [[nodiscard]] Result<void> Send(std::span<const std::byte> head, std::span<const std::byte> rest);
  // All of `to`. Waits at most for `silence` until the next bytes come.
  [[nodiscard]] Result<void> Receive(std::span<std::byte> to, std::chrono::milliseconds silence);
  // The next message's head; kInvalidArgument if it is none.
  [[nodiscard]] Result<MessageHead> ReceiveHead(std::size_t frame_bytes, std::chrono::milliseconds silence);
  [[nodiscard]] Result<MessageBytes> ReceivePayload(const MessageHead& head);
  // Is there anything to receive, also the end of the connection?
  [[nodiscard]] bool HasInput() const;

  void Shut() const;
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  wire::Descriptor socket_;
};

}  // namespace roost::worker
