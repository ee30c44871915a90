// Certificates and keys for tests, made when they are needed and gone with the process. Never of use outside.
#pragma once

#include <openssl/ssl.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/http/tls_context.h"

namespace roost {

// A certificate with its key, in files.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

// A folder of certificates: an authority, and whom it signs for.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  ~TestAuthority();

  enum class Purpose { kServer, kClient };
  enum class KeyKind { kP256, kRsa1024 };
  struct Wishes {
    Purpose purpose = Purpose::kServer;
    KeyKind key = KeyKind::kP256;
    long from_seconds = -3600;  // from now
    long until_seconds = 3600;
  };
  // A server's is for 127.0.0.1 and localhost. `name` is unique in this authority.
  [[nodiscard]] CertificateFiles Issue(const std::string& name, const Wishes& wishes) const;
  [[nodiscard]] CertificateFiles Issue(const std::string& name) const { return Issue(name, Wishes()); }

  [[nodiscard]] std::string certificate_file() const { return folder_ / "ca.pem"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // A file in the folder.
  [[nodiscard]] std::string Write(const std::string& name, const std::string& text) const;

 private:
  struct Impl;
  std::filesystem::path folder_;
  std::unique_ptr<Impl> impl_;
};

// One for all tests of the process, and a server's certificate that it has signed.
[[nodiscard]] const TestAuthority& SharedAuthority();
[[nodiscard]] const CertificateFiles& SharedServerCertificate();
[[nodiscard]] TlsFiles FilesOf(const CertificateFiles& server, std::string client_ca = "");

// A client's side of TLS: it trusts `authority_file`, shows `own` when the server asks, and wants the server to be
// 127.0.0.1.
using ClientContext = std::shared_ptr<SSL_CTX>;
[[nodiscard]] ClientContext MakeClientContext(const std::string& authority_file, const CertificateFiles* own = nullptr);
[[nodiscard]] ClientContext SharedClientContext();

}  // namespace roost
