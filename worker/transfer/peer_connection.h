// One TCP connection between two workers, with blocking calls: in the clear, or encrypted (peer_tls.h). Each call fails
// when the peer is silent or too slow (kTimeout), is gone, or Shut was called (kUnavailable); a connection that has
// failed is of no use.
//
// The time of a call is for all of its bytes, not until the next one: a peer that sends or takes them one by one gets
// no more of it.
//
// Threads: one at a time; Shut from any.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/endpoint.h"
#include "common/wire/gate.h"
#include "common/wire/transfer_ticket.h"
#include "worker/transfer/peer_messages.h"
#include "worker/transfer/peer_tls.h"

namespace roost::worker {

inline constexpr std::chrono::milliseconds kPeerConnectTime{1000};
inline constexpr std::chrono::milliseconds kPeerHandshakeTime{2000};
// Without a byte: the peer is broken. A source waits longer for a consumer to take bytes, which an engine's step stops.
inline constexpr std::chrono::milliseconds kPeerSilence{2000};
inline constexpr std::chrono::milliseconds kPeerSendTime{10'000};
// Each call has these times, and a second more for so many bytes.
inline constexpr std::size_t kPeerLeastBytesPerSecond = std::size_t{256} << 10U;

class PeerConnection {
 public:
  // kUnavailable for `address`: nothing answers there.
  [[nodiscard]] static Result<PeerConnection> Connect(const wire::Endpoint& to);
  // Takes over an accepted connection.
  explicit PeerConnection(wire::Descriptor socket);

  // From here on calls fail once `time` is over, whatever comes meanwhile; nothing: no such limit.
  void LimitTo(std::optional<std::chrono::milliseconds> time);

  // The consumer's handshake: shows the ticket, and encrypts all that follows. The rules outlive the connection.
  [[nodiscard]] Result<void> ShowTicket(const PeerTlsRules& rules, std::string_view consumer,
                                        const wire::TransferTicket& ticket);
  // The source's. kUnauthenticated: the consumer has no ticket of this secret that is valid now. kUnavailable: it does
  // not speak TLS, or left. kTimeout: it is silent.
  [[nodiscard]] Result<wire::TicketIdentity> AwaitTicket(const PeerTlsRules& rules, const wire::TransferSecret& secret,
                                                         wire::WallSeconds now);
  [[nodiscard]] bool is_encrypted() const { return tls_ != nullptr; }

  [[nodiscard]] Result<void> Send(const wire::PeerMessage& message);
  // Two spans, as one.
  [[nodiscard]] Result<void> Send(std::span<const std::byte> head, std::span<const std::byte> rest);
  // All of `to`, within `silence` and the time that its size gives it.
  [[nodiscard]] Result<void> Receive(std::span<std::byte> to, std::chrono::milliseconds silence);
  // The head of the next message or frame, which begins within `silence`; kInvalidArgument if it is none.
  [[nodiscard]] Result<PartHead> ReceiveHead(std::size_t frame_bytes, std::chrono::milliseconds silence);
  // The message behind its head; an error if this version does not know it, or if it has more than `most_bytes`.
  [[nodiscard]] Result<wire::PeerMessage> ReceiveMessage(
      const PartHead& head, std::size_t most_bytes = wire::WireLimits::kMaxPeerMessageBytes);
  // Is there anything to receive, also the end of the connection?
  [[nodiscard]] bool HasInput() const;

  void Shut() const;
  // Receiving ends once all that has come is taken; sending goes on.
  void ShutInput() const;
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Waits for `events`. False when they do not come until then.
  [[nodiscard]] bool Await(short events, Time end) const;
  [[nodiscard]] Result<void> ShakeHands(std::chrono::milliseconds silence);
  [[nodiscard]] Result<void> SendPlain(std::span<const std::byte> head, std::span<const std::byte> rest, Time end);
  [[nodiscard]] Result<void> SendEncrypted(std::span<const std::byte> bytes, Time end);
  // At least a byte.
  [[nodiscard]] Result<std::size_t> ReceiveSome(std::span<std::byte> to, Time end);

  wire::Descriptor socket_;
  std::unique_ptr<PeerTls> tls_;  // null: in the clear
  std::optional<Time> limit_;
};

}  // namespace roost::worker
