// Tickets: how a source of blocks knows that a router lets a worker fetch from it, and the key that both ends of such a
// transfer encrypt with.
//
//   source                      router                                 consumer
//     │ ── secret, in its hello ─► │                                       │
//     │                            │ ── ticket = Mint(secret, consumer) ─► │   in a Hold
//     │ ◄──────────────────── TLS 1.3: identity = consumer, expiry; pre-shared key = the ticket's
//     │ derives the same key from its secret and the identity: it keeps no table of tickets
//
//   key = HMAC-SHA256(secret, "roost transfer ticket 1" 0x00, expiry as u64 big-endian, consumer's name)
//
// A ticket ends kTicketLife after it was made; clocks may differ by kTicketClockSkew. Neither a secret nor a ticket has
// a formatter, so that none gets into a log by mistake; ToText is for messages alone. They compare in constant time.
// Errors name the field and repeat nothing of it.
//
// Copyable data. Pure, but for Random. A key takes about a microsecond.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::wire {

inline constexpr std::chrono::minutes kTicketLife{10};
inline constexpr std::chrono::minutes kTicketClockSkew{5};

inline constexpr std::size_t kTransferKeyBytes = 32;
// Texts have exactly these lengths: lower-case hexadecimal digits.
inline constexpr std::size_t kTransferSecretTextBytes = 2 * kTransferKeyBytes;
inline constexpr std::size_t kTicketExpiryTextBytes = 10;
inline constexpr std::size_t kTransferTicketTextBytes = kTicketExpiryTextBytes + kTransferSecretTextBytes;

// Wall time: it is compared between machines. Within 0 and kMaxTicketExpiry.
using WallSeconds = std::chrono::sys_seconds;
inline constexpr std::uint64_t kMaxTicketExpiry = (std::uint64_t{1} << (4 * kTicketExpiryTextBytes)) - 1;

[[nodiscard]] WallSeconds WallNow();

// 32 bytes that stay secret. Equality takes the same time wherever two differ.
class TransferKey {
 public:
  TransferKey() = default;  // zeros
  explicit TransferKey(const std::array<std::uint8_t, kTransferKeyBytes>& bytes) : bytes_(bytes) {}

  [[nodiscard]] std::span<const std::uint8_t, kTransferKeyBytes> bytes() const { return bytes_; }

  bool operator==(const TransferKey& other) const;

 private:
  std::array<std::uint8_t, kTransferKeyBytes> bytes_{};
};

// A process's own: a worker makes one at its start and tells it to its routers.
class TransferSecret {
 public:
  // From the system's source of randomness.
  [[nodiscard]] static TransferSecret Random();
  // kInvalidArgument, with the field `secret`: not a text that ToText makes.
  [[nodiscard]] static Result<TransferSecret> Parse(std::string_view text);

  explicit TransferSecret(TransferKey key) : key_(key) {}

  [[nodiscard]] std::string ToText() const;
  [[nodiscard]] const TransferKey& key() const { return key_; }

  bool operator==(const TransferSecret&) const = default;

 private:
  TransferKey key_;
};

// For one consumer at one source, until its expiry.
class TransferTicket {
 public:
  // kInvalidArgument, with the field `ticket`: not a text that ToText makes.
  [[nodiscard]] static Result<TransferTicket> Parse(std::string_view text);

  TransferTicket(WallSeconds expiry, TransferKey key) : expiry_(expiry), key_(key) {}

  [[nodiscard]] std::string ToText() const;
  [[nodiscard]] WallSeconds expiry() const { return expiry_; }
  [[nodiscard]] const TransferKey& key() const { return key_; }

  bool operator==(const TransferTicket&) const = default;

 private:
  WallSeconds expiry_;
  TransferKey key_;
};

// The router's side: a ticket for the worker named `consumer`, at the source that told `secret`.
[[nodiscard]] TransferTicket MintTicket(const TransferSecret& secret, std::string_view consumer, WallSeconds now);

// Names a ticket in the clear: what a consumer tells the source, for which the source derives the key.
struct TicketIdentity {
  std::string consumer;
  WallSeconds expiry;

  bool operator==(const TicketIdentity&) const = default;
};

inline constexpr std::size_t kMaxTicketIdentityBytes = 256;  // OpenSSL's limit

[[nodiscard]] std::string EncodeIdentity(const TicketIdentity& identity);
// kInvalidArgument, with the field `identity`.
[[nodiscard]] Result<TicketIdentity> DecodeIdentity(std::string_view bytes);

// The source's side: the ticket that a router with this secret made for this identity. kUnauthenticated, with the field
// `expiry`: it has ended, or ends later than any that is made now.
[[nodiscard]] Result<TransferTicket> DeriveTicket(const TransferSecret& secret, const TicketIdentity& identity,
                                                  WallSeconds now);

}  // namespace roost::wire
