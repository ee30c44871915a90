#include "worker/transfer/peer_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

constexpr const char* kCipher = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherId{0x13, 0x01};
constexpr const char* kGroups = "X25519:P-256";
constexpr int kSecurityLevel = 2;  // 112 bits
// Several records for each call of the system.
constexpr std::size_t kReadBytes = std::size_t{128} << 10U;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int SocketOf(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

int ReadSocket(BIO* bio, char* out, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(SocketOf(bio), out, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (received < 0 && WouldBlock(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

int WriteSocket(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(SocketOf(bio), bytes, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && WouldBlock(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// OpenSSL's own BIO of a socket would raise SIGPIPE. `socket` outlives it.
BIO* NewBio(int& socket) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "roost peer");
    ROOST_CHECK(made != nullptr, "no memory for TLS");
    BIO_meth_set_read(made, &ReadSocket);
    BIO_meth_set_write(made, &WriteSocket);
    BIO_meth_set_ctrl(made, &ControlSocket);
    return made;
  }();
  BIO* const bio = BIO_new(method);
  ROOST_CHECK(bio != nullptr, "no memory for TLS");
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

// Null without memory, which ends the handshake.
SSL_SESSION* SessionOf(SSL* session, const wire::TransferKey& key) {
  SSL_SESSION* const made = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(session, kCipherId.data());
  if (made != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(made, key.bytes().data(), key.bytes().size()) == 1 &&
      SSL_SESSION_set_cipher(made, cipher) == 1 && SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1) {
    return made;
  }
  SSL_SESSION_free(made);
  return nullptr;
}

}  // namespace

PeerTlsRules::PeerTlsRules(PeerSide side)
    : context_(SSL_CTX_new(side == PeerSide::kConsumer ? TLS_client_method() : TLS_server_method())) {
  ROOST_CHECK(context_ != nullptr, "no memory for TLS");
  SSL_CTX_set_security_level(context_, kSecurityLevel);
  ROOST_CHECK(SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_ciphersuites(context_, kCipher) == 1 && SSL_CTX_set1_groups_list(context_, kGroups) == 1,
              "OpenSSL lacks TLS 1.3 with {}", kCipher);
  // Without SSL_OP_ALLOW_NO_DHE_KEX a key is used with a fresh exchange, or not at all.
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_max_early_data(context_, 0);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_default_read_buffer_len(context_, kReadBytes);
  if (side == PeerSide::kSource) {
    SSL_CTX_set_psk_find_session_callback(context_, &PeerTls::FindTicket);
    return;
  }
  // A source that answers with a certificate instead of the key is refused: no authority is trusted.
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_use_session_callback(
      context_, [](SSL* session, const EVP_MD*, const unsigned char** identity, std::size_t* size, SSL_SESSION** made) {
        return PeerTls::UseTicket(session, identity, size, made);
      });
}

PeerTlsRules::~PeerTlsRules() { SSL_CTX_free(context_); }

PeerTls::PeerTls(const PeerTlsRules& rules, int socket) : socket_(socket), session_(SSL_new(rules.get())) {
  ROOST_CHECK(session_ != nullptr, "no memory for TLS");
  BIO* const bio = NewBio(socket_);
  SSL_set_bio(session_, bio, bio);
  SSL_set_app_data(session_, this);
}

PeerTls::PeerTls(const PeerTlsRules& rules, int socket, std::string_view consumer, const wire::TransferTicket& ticket)
    : PeerTls(rules, socket) {
  key_ = ticket.key();
  identity_ = {.consumer = std::string(consumer), .expiry = ticket.expiry()};
  identity_bytes_ = wire::EncodeIdentity(identity_);
  SSL_set_connect_state(session_);
}

PeerTls::PeerTls(const PeerTlsRules& rules, int socket, const wire::TransferSecret& secret, wire::WallSeconds now)
    : PeerTls(rules, socket) {
  source_.emplace(SourceKeys{.secret = secret, .now = now});
  SSL_set_accept_state(session_);
}

PeerTls::~PeerTls() { SSL_free(session_); }

// Names the ticket, and gives its key to the library, which copies the name.
int PeerTls::UseTicket(SSL* session, const unsigned char** identity, std::size_t* identity_size, SSL_SESSION** made) {
  const auto& tls = *static_cast<const PeerTls*>(SSL_get_app_data(session));
  if (!tls.key_) return 0;
  *made = SessionOf(session, *tls.key_);
  *identity = reinterpret_cast<const unsigned char*>(tls.identity_bytes_.data());
  *identity_size = tls.identity_bytes_.size();
  return *made == nullptr ? 0 : 1;
}

// Without a session the handshake fails: the source has no certificate to go on with.
int PeerTls::FindTicket(SSL* session, const unsigned char* identity, std::size_t identity_size, SSL_SESSION** made) {
  auto& tls = *static_cast<PeerTls*>(SSL_get_app_data(session));
  *made = nullptr;
  if (!tls.source_) return 0;
  const Result<wire::TicketIdentity> named =
      wire::DecodeIdentity({reinterpret_cast<const char*>(identity), identity_size});
  if (!named.ok()) return 1;
  const Result<wire::TransferTicket> ticket = wire::DeriveTicket(tls.source_->secret, *named, tls.source_->now);
  tls.has_refused_ticket_ = !ticket.ok();
  if (!ticket.ok()) return 1;
  tls.identity_ = *named;
  *made = SessionOf(session, ticket->key());
  return *made == nullptr ? 0 : 1;
}

PeerTls::Outcome PeerTls::OutcomeOf(int result) {
  const int error = SSL_get_error(session_, result);
  if (error == SSL_ERROR_WANT_READ) return Outcome::kWaitInput;
  if (error == SSL_ERROR_WANT_WRITE) return Outcome::kWaitOutput;
  // The consumer has not shown the key.
  if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_BINDER_DOES_NOT_VERIFY) has_refused_ticket_ = true;
  ERR_clear_error();
  return Outcome::kFailed;
}

PeerTls::Outcome PeerTls::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(session_);
  const Outcome outcome = result == 1 ? Outcome::kDone : OutcomeOf(result);
  if (outcome != Outcome::kDone) return outcome;
  key_.reset();
  source_.reset();
  return SSL_session_reused(session_) == 1 ? Outcome::kDone : Outcome::kFailed;
}

PeerTls::Step PeerTls::Write(std::span<const std::byte> bytes) {
  if (written_bytes_ >= kTlsKeyBytes) {
    if (SSL_key_update(session_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return {Outcome::kFailed};
    written_bytes_ = 0;
  }
  ERR_clear_error();
  Step step;
  const int result = SSL_write_ex(session_, bytes.data(), bytes.size(), &step.bytes);
  if (result != 1) return {OutcomeOf(result)};
  written_bytes_ += step.bytes;
  return step;
}

PeerTls::Step PeerTls::Read(std::span<std::byte> to) {
  ERR_clear_error();
  Step step;
  const int result = SSL_read_ex(session_, to.data(), to.size(), &step.bytes);
  if (result != 1) return {OutcomeOf(result)};
  return step;
}

bool PeerTls::HasInput() const { return SSL_has_pending(session_) == 1; }

}  // namespace roost::worker
