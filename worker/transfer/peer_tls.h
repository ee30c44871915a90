// TLS 1.3 between two workers (RFC 8446), with the key of a ticket as external pre-shared key and a fresh
// Diffie-Hellman exchange (psk_dhe_ke, section 2.2). There are no certificates, no resumption, no early data and no
// older version, so a handshake that ends well has shown each end that the other one has the ticket.
//
//   consumer                                             source
//     │ ── identity: its name and the ticket's expiry ───► │  derives the key from its own secret: it keeps no table
//     │ ◄── finished under a key that only both can know ─ │
//
// Each direction gets a new key after kTlsKeyBytes.
//
// Calls never wait: each says what has to come before it is made again (PeerConnection waits). One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/wire/transfer_ticket.h"

struct bio_st;      // BIO of OpenSSL
struct ssl_st;      // SSL
struct ssl_ctx_st;  // SSL_CTX
struct ssl_session_st;

namespace roost::worker {

// The ways in which blocks leave this worker, and come to it.
enum class TransferAccess {
  kLoopback,     // in the clear, and on this machine alone
  kAnywhere,     // in the clear
  kTicketsOnly,  // encrypted, for whom a router gave a ticket
};

// Far below the 2^24.5 records that one key of AES-GCM may protect (section 5.5).
inline constexpr std::uint64_t kTlsKeyBytes = std::uint64_t{256} << 20U;

enum class PeerSide { kConsumer, kSource };

// The rules of all connections of one side. Thread-safe; outlives its sessions.
class PeerTlsRules {
 public:
  explicit PeerTlsRules(PeerSide side);
  ~PeerTlsRules();
  PeerTlsRules(const PeerTlsRules&) = delete;
  PeerTlsRules& operator=(const PeerTlsRules&) = delete;

  [[nodiscard]] ssl_ctx_st* get() const { return context_; }

 private:
  ssl_ctx_st* const context_;
};

class PeerTls {
 public:
  // The consumer's end. The socket does not block, and outlives it, as do the rules.
  PeerTls(const PeerTlsRules& rules, int socket, std::string_view consumer, const wire::TransferTicket& ticket);
  // The source's.
  PeerTls(const PeerTlsRules& rules, int socket, const wire::TransferSecret& secret, wire::WallSeconds now);
  ~PeerTls();
  PeerTls(const PeerTls&) = delete;
  PeerTls& operator=(const PeerTls&) = delete;

  enum class Outcome { kDone, kWaitInput, kWaitOutput, kFailed };
  struct Step {
    Outcome outcome = Outcome::kDone;
    std::size_t bytes = 0;  // that were read or written; above 0 if it is done
  };

  // Until it is done, or has failed.
  [[nodiscard]] Outcome Handshake();
  [[nodiscard]] Step Write(std::span<const std::byte> bytes);
  [[nodiscard]] Step Read(std::span<std::byte> to);
  // Has something come that Read has not told yet, and that the socket no longer tells of?
  [[nodiscard]] bool HasInput() const;

  // At the source: the ticket that the consumer named, once it has shown its key.
  [[nodiscard]] const wire::TicketIdentity& identity() const { return identity_; }
  // At the source, after a handshake that failed: because of the ticket.
  [[nodiscard]] bool has_refused_ticket() const { return has_refused_ticket_; }

 private:
  struct SourceKeys {
    const wire::TransferSecret& secret;
    wire::WallSeconds now;
  };

  PeerTls(const PeerTlsRules& rules, int socket);
  [[nodiscard]] static int UseTicket(ssl_st* session, const unsigned char** identity, std::size_t* identity_size,
                                     ssl_session_st** made);
  [[nodiscard]] static int FindTicket(ssl_st* session, const unsigned char* identity, std::size_t identity_size,
                                      ssl_session_st** made);
  friend class PeerTlsRules;

  [[nodiscard]] Outcome OutcomeOf(int result);

  int socket_;
  ssl_st* const session_;
  std::optional<wire::TransferKey> key_;  // the consumer's, until the handshake is over
  std::optional<SourceKeys> source_;      // the source's, until the handshake is over
  std::string identity_bytes_;
  wire::TicketIdentity identity_;
  bool has_refused_ticket_ = false;
  std::uint64_t written_bytes_ = 0;  // under the present key
};

}  // namespace roost::worker
