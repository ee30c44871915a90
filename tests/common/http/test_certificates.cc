#include "tests/common/http/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "common/base/check.h"

namespace roost {
namespace {

namespace fs = std::filesystem;

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

Key MakeKey(TestAuthority::KeyKind kind) {
  EVP_PKEY* const key = kind == TestAuthority::KeyKind::kP256 ? EVP_EC_gen("P-256") : EVP_RSA_gen(1024);
  ROOST_CHECK(key != nullptr);
  return {key, &EVP_PKEY_free};
}

void AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  ROOST_CHECK(extension != nullptr, "{}", value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate MakeCertificate(const std::string& name, EVP_PKEY* key, long from_seconds, long until_seconds) {
  static std::atomic<long> serial = 1;
  Certificate certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until_seconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

template <typename WriteTo>
void WriteFile(const fs::path& path, WriteTo write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ROOST_CHECK(file != nullptr, "{}", path.string());
  ROOST_CHECK(write(file) == 1);
  std::fclose(file);
}

void WriteFiles(const CertificateFiles& files, X509* certificate, EVP_PKEY* key) {
  WriteFile(files.certificate, [&](std::FILE* file) { return PEM_write_X509(file, certificate); });
  WriteFile(files.key,
            [&](std::FILE* file) { return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

}  // namespace

struct TestAuthority::Impl {
  Key key;
  Certificate certificate;
};

TestAuthority::TestAuthority(const std::string& name)
    : folder_(fs::temp_directory_path() / ("roost_" + name + "_" + std::to_string(getpid()))),
      impl_(std::make_unique<Impl>()) {
  fs::create_directories(folder_);
  impl_->key = MakeKey(KeyKind::kP256);
  impl_->certificate = MakeCertificate("Roost test authority " + name, impl_->key.get(), -7200, 7200);
  X509* const own = impl_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(own, own, NID_subject_key_identifier, "hash");
  ROOST_CHECK(X509_sign(own, impl_->key.get(), EVP_sha256()) > 0);
  WriteFile(certificate_file(), [&](std::FILE* file) { return PEM_write_X509(file, own); });
}

TestAuthority::~TestAuthority() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

CertificateFiles TestAuthority::Issue(const std::string& name, const Wishes& wishes) const {
  const CertificateFiles files{folder_ / (name + ".pem"), folder_ / (name + ".key")};
  const Key key = MakeKey(wishes.key);
  const Certificate certificate = MakeCertificate(name, key.get(), wishes.from_seconds, wishes.until_seconds);
  X509* const issuer = impl_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  AddExtension(certificate.get(), issuer, NID_authority_key_identifier, "keyid:always");
  if (wishes.purpose == Purpose::kServer) {
    AddExtension(certificate.get(), issuer, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    AddExtension(certificate.get(), issuer, NID_ext_key_usage, "serverAuth");
  } else {
    AddExtension(certificate.get(), issuer, NID_ext_key_usage, "clientAuth");
  }
  ROOST_CHECK(X509_sign(certificate.get(), impl_->key.get(), EVP_sha256()) > 0);
  WriteFiles(files, certificate.get(), key.get());
  return files;
}

std::string TestAuthority::Write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name) << text;
  return folder_ / name;
}

const TestAuthority& SharedAuthority() {
  static const TestAuthority authority("shared");
  return authority;
}

const CertificateFiles& SharedServerCertificate() {
  static const CertificateFiles files = SharedAuthority().Issue("server");
  return files;
}

TlsFiles FilesOf(const CertificateFiles& server, std::string client_ca) {
  return {.certificate = server.certificate, .key = server.key, .client_ca = std::move(client_ca)};
}

ClientContext MakeClientContext(const std::string& authority_file, const CertificateFiles* own) {
  // The library writes to sockets that may be reset.
  ROOST_CHECK(std::signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  const ClientContext context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  ROOST_CHECK(SSL_CTX_load_verify_locations(context.get(), authority_file.c_str(), nullptr) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM_set1_ip_asc(SSL_CTX_get0_param(context.get()), "127.0.0.1");
  if (own != nullptr) {
    ROOST_CHECK(SSL_CTX_use_certificate_chain_file(context.get(), own->certificate.c_str()) == 1);
    ROOST_CHECK(SSL_CTX_use_PrivateKey_file(context.get(), own->key.c_str(), SSL_FILETYPE_PEM) == 1);
  }
  return context;
}

ClientContext SharedClientContext() {
  static const ClientContext context = MakeClientContext(SharedAuthority().certificate_file());
  return context;
}

}  // namespace roost
