#include "common/http/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <ctime>
#include <utility>

#include "common/base/small_file.h"

namespace roost {
namespace {

constexpr const char* kCertificateFlag = "tls-cert";
constexpr const char* kKeyFlag = "tls-key";
constexpr const char* kClientCaFlag = "tls-client-ca";

// Ephemeral keys and authenticated encryption only. The cheaper AES comes first; who has no instructions for it, and
// puts ChaCha20 first, gets that.
constexpr const char* kTls12Ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr const char* kTls13Ciphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// 112 bits: no RSA below 2048 bits, no SHA-1.
constexpr int kSecurityLevel = 2;
constexpr std::int64_t kMaxClientCertificateBytes = 32 * 1024;
constexpr long kTicketSeconds = 3600;
constexpr std::string_view kProtocol = "\x08http/1.1";  // as ALPN writes it
constexpr std::string_view kSessionOwner = "roost";

using Context = std::shared_ptr<SSL_CTX>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

// The last of the library's reasons, and none of the others from here on.
std::string TakeReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown" : reason;
}

Error NoContext() { return {ErrorCode::kUnavailable, "there is no memory for TLS: " + TakeReason(), ""}; }

// Rejects encrypted keys: a daemon cannot prompt for a passphrase.
int NoPassword(char*, int, int, void*) { return -1; }

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                   unsigned int in_size, void*) {
  const auto* const wanted = reinterpret_cast<const unsigned char*>(kProtocol.data());
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, wanted, static_cast<unsigned>(kProtocol.size()), in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<Context> NewContext() {
  const Context context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return NoContext();
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_security_level(raw, kSecurityLevel);
  const bool rules = SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) == 1 &&
                     SSL_CTX_set_max_proto_version(raw, 0) == 1 && SSL_CTX_set_cipher_list(raw, kTls12Ciphers) == 1 &&
                     SSL_CTX_set_ciphersuites(raw, kTls13Ciphers) == 1;
  if (!rules) return NoContext();
  // A request's end is told by HTTP, so that a client which hangs up without TLS's goodbye has only hung up.
  SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_timeout(raw, kTicketSeconds);
  SSL_CTX_set_session_id_context(raw, reinterpret_cast<const unsigned char*>(kSessionOwner.data()),
                                 static_cast<unsigned>(kSessionOwner.size()));
  SSL_CTX_set_max_cert_list(raw, kMaxClientCertificateBytes);
  SSL_CTX_set_alpn_select_cb(raw, &ChooseProtocol, nullptr);
  return context;
}

Result<void> UseCertificate(SSL_CTX* context, const std::string& file) {
  if (SSL_CTX_use_certificate_chain_file(context, file.c_str()) == 1) return {};
  return InvalidArgument(kCertificateFlag, "'{}' is no certificate in PEM that this server may use: {}", file,
                         TakeReason());
}

Result<void> UseKey(SSL_CTX* context, const TlsFiles& files) {
  const Bio file(BIO_new_file(files.key.c_str(), "r"), &BIO_free);
  const Key key(file == nullptr ? nullptr : PEM_read_bio_PrivateKey(file.get(), nullptr, &NoPassword, nullptr),
                &EVP_PKEY_free);
  if (key == nullptr) {
    return InvalidArgument(kKeyFlag, "'{}' is no private key in PEM without a password: {}", files.key, TakeReason());
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1) return {};
  return InvalidArgument(kKeyFlag, "'{}' is not the key of the certificate '{}': {}", files.key, files.certificate,
                         TakeReason());
}

Result<void> DemandClientCertificates(SSL_CTX* context, const std::string& file) {
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) != 1) {
    sk_X509_NAME_pop_free(names, &X509_NAME_free);
    return InvalidArgument(kClientCaFlag, "'{}' holds no certificates in PEM: {}", file, TakeReason());
  }
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return {};
}

std::int64_t UnixSeconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::int64_t{timegm(&parts)} : 0;
}

}  // namespace

std::string_view NameOf(HandshakeFailure failure) {
  constexpr std::array<std::string_view, kHandshakeFailureCount> kNames = {
      "timeout", "client_left", "plain_http", "too_large", "client_certificate", "protocol"};
  return kNames.at(static_cast<std::size_t>(failure));
}

void TlsSessionDeleter::operator()(ssl_st* session) const { SSL_free(session); }

Result<TlsContext::Loaded> TlsContext::Read(const TlsFiles& files) {
  for (const std::string& file : {files.certificate, files.key, files.client_ca}) WarnIfOthersMayWrite(file);
  ERR_clear_error();
  ROOST_ASSIGN_OR_RETURN(Context context, NewContext());
  ROOST_RETURN_IF_ERROR(UseCertificate(context.get(), files.certificate));
  ROOST_RETURN_IF_ERROR(UseKey(context.get(), files));
  if (!files.client_ca.empty()) ROOST_RETURN_IF_ERROR(DemandClientCertificates(context.get(), files.client_ca));
  const X509* const certificate = SSL_CTX_get0_certificate(context.get());
  return Loaded{.context = std::move(context),
                .validity = {.from_seconds = UnixSeconds(X509_get0_notBefore(certificate)),
                             .until_seconds = UnixSeconds(X509_get0_notAfter(certificate))}};
}

TlsContext::TlsContext(TlsFiles files, Loaded loaded) : files_(std::move(files)), loaded_(std::move(loaded)) {}

Result<std::shared_ptr<TlsContext>> TlsContext::Load(TlsFiles files) {
  ROOST_ASSIGN_OR_RETURN(Loaded loaded, Read(files));
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(files), std::move(loaded)));
}

Result<void> TlsContext::Reload() {
  ROOST_ASSIGN_OR_RETURN(Loaded loaded, Read(files_));
  const std::lock_guard lock(mutex_);
  loaded_ = std::move(loaded);
  return {};
}

TlsSession TlsContext::NewSession() const {
  std::shared_ptr<ssl_ctx_st> context;
  {
    const std::lock_guard lock(mutex_);
    context = loaded_.context;
  }
  TlsSession session(SSL_new(context.get()));
  if (session != nullptr) SSL_set_accept_state(session.get());
  return session;
}

TlsValidity TlsContext::validity() const {
  const std::lock_guard lock(mutex_);
  return loaded_.validity;
}

}  // namespace roost
