// A server's side of TLS: its certificate, its key and its rules. The files may be read again while connections are
// open: new connections use the new contents, open ones keep those that they began with.
//
// TLS 1.2 and 1.3 with forward secrecy; ALPN http/1.1. Sessions are resumed by tickets, whose keys last until the files
// are read again; the server keeps nothing for them. With a client CA, a client must show a certificate that leads to
// one of its certificates and may be used by clients. Revocation lists are not looked at.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/result.h"

struct ssl_st;      // SSL of OpenSSL
struct ssl_ctx_st;  // SSL_CTX

namespace roost {

// All in PEM.
struct TlsFiles {
  std::string certificate;  // the server's own, then those between it and the root
  std::string key;          // without a password
  std::string client_ca;    // one or more; empty: clients show no certificate
};

// From and until when clients accept a certificate, in Unix time.
struct TlsValidity {
  std::int64_t from_seconds = 0;
  std::int64_t until_seconds = 0;
};

// The cause of a failed handshake.
enum class HandshakeFailure {
  kTimeout,
  kClientLeft,         // without a word, or with one that says that it does not trust the server
  kPlainHttp,          // the client does not speak TLS
  kTooLarge,           // more bytes than any handshake has
  kClientCertificate,  // none, or none that leads to the client CA
  kProtocol,           // no version or cipher in common, or no TLS at all
};
inline constexpr std::size_t kHandshakeFailureCount = 6;
// For logs and metrics: "plain_http".
[[nodiscard]] std::string_view NameOf(HandshakeFailure failure);

struct TlsSessionDeleter {
  void operator()(ssl_st* session) const;
};
using TlsSession = std::unique_ptr<ssl_st, TlsSessionDeleter>;

class TlsContext {
 public:
  // kInvalidArgument names the flag, tls-cert, tls-key or tls-client-ca, and the file. The certificate is used whether
  // it is valid now or not: see validity.
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> Load(TlsFiles files);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again. After an error what was read before stays in use.
  [[nodiscard]] Result<void> Reload();

  // The server's side of a new connection. Null when there is no memory for it.
  [[nodiscard]] TlsSession NewSession() const;

  // The validity of the certificate in use.
  [[nodiscard]] TlsValidity validity() const;

 private:
  struct Loaded {
    std::shared_ptr<ssl_ctx_st> context;
    TlsValidity validity;
  };

  TlsContext(TlsFiles files, Loaded loaded);
  static Result<Loaded> Read(const TlsFiles& files);

  const TlsFiles files_;
  mutable std::mutex mutex_;
  Loaded loaded_;  // guarded by mutex_
};

}  // namespace roost
