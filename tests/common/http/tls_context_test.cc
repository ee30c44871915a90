#include "common/http/tls_context.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/common/http/test_certificates.h"

namespace roost {
namespace {

namespace fs = std::filesystem;

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The same key behind a password.
std::string Encrypted(const std::string& key_file) {
  BIO* const in = BIO_new_file(key_file.c_str(), "r");
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr);
  BIO_free(in);
  const std::string path = key_file + ".encrypted";
  BIO* const out = BIO_new_file(path.c_str(), "w");
  char password[] = "secret";
  EXPECT_EQ(PEM_write_bio_PKCS8PrivateKey(out, key, EVP_aes_128_cbc(), password, 6, nullptr, nullptr), 1);
  BIO_free(out);
  EVP_PKEY_free(key);
  return path;
}

class TlsContextTest : public ::testing::Test {
 protected:
  void ExpectError(const TlsFiles& files, const std::string& flag, const std::string& file) {
    const auto loaded = TlsContext::Load(files);
    ASSERT_FALSE(loaded.ok()) << file;
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(loaded.error().field, flag) << loaded.error().ToString();
    EXPECT_NE(loaded.error().message.find("'" + file + "'"), std::string::npos) << loaded.error().message;
    EXPECT_EQ(loaded.error().message.find("unknown"), std::string::npos) << loaded.error().message;
  }

  const TestAuthority authority_{std::string("tls_context_") +
                                 testing::UnitTest::GetInstance()->current_test_info()->name()};
  const CertificateFiles server_ = authority_.Issue("server");
};

TEST_F(TlsContextTest, LoadsACertificateAndItsKey) {
  const auto loaded = TlsContext::Load(FilesOf(server_, authority_.certificate_file()));
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_NE((*loaded)->NewSession(), nullptr);
  EXPECT_NEAR(static_cast<double>((*loaded)->validity().from_seconds - Now()), -3600, 60);
  EXPECT_NEAR(static_cast<double>((*loaded)->validity().until_seconds - Now()), 3600, 60);
}

TEST_F(TlsContextTest, ErrorsNameTheFlagAndTheFile) {
  const std::string garbage =
      authority_.Write("garbage", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
  const std::string empty = authority_.Write("empty", "");
  const std::string folder = authority_.folder();
  const std::string& good = server_.certificate;
  const std::string encrypted = Encrypted(server_.key);
  for (const std::string& bad : {std::string("/none"), garbage, empty, folder, server_.key}) {
    ExpectError({.certificate = bad, .key = server_.key, .client_ca = ""}, "tls-cert", bad);
    if (bad != server_.key) ExpectError({.certificate = good, .key = bad, .client_ca = ""}, "tls-key", bad);
    ExpectError({.certificate = good, .key = server_.key, .client_ca = bad}, "tls-client-ca", bad);
  }
  ExpectError({.certificate = good, .key = good, .client_ca = ""}, "tls-key", good);
  ExpectError({.certificate = good, .key = encrypted, .client_ca = ""}, "tls-key", encrypted);
}

TEST_F(TlsContextTest, RefusesAKeyOfAnotherCertificate) {
  const CertificateFiles other = authority_.Issue("other");
  ExpectError({.certificate = server_.certificate, .key = other.key, .client_ca = ""}, "tls-key", other.key);
  const CertificateFiles rsa = authority_.Issue("rsa", {.key = TestAuthority::KeyKind::kRsa1024});
  ExpectError({.certificate = server_.certificate, .key = rsa.key, .client_ca = ""}, "tls-key", rsa.key);
}

TEST_F(TlsContextTest, RefusesAKeyThatIsTooShort) {
  const CertificateFiles rsa = authority_.Issue("rsa", {.key = TestAuthority::KeyKind::kRsa1024});
  ExpectError(FilesOf(rsa), "tls-cert", rsa.certificate);
}

TEST_F(TlsContextTest, ServesAnExpiredCertificateAndTellsThatItIs) {
  const auto expired = TlsContext::Load(FilesOf(authority_.Issue("expired", {.until_seconds = -10})));
  ASSERT_TRUE(expired.ok());
  EXPECT_LT((*expired)->validity().until_seconds, Now());
}

TEST_F(TlsContextTest, ReloadTakesTheFilesAsTheyAreNow) {
  const std::shared_ptr<TlsContext> context = TlsContext::Load(FilesOf(server_)).value();
  const TlsSession before = context->NewSession();
  const CertificateFiles next = authority_.Issue("next", {.until_seconds = 7000});
  fs::rename(next.certificate, server_.certificate);
  fs::rename(next.key, server_.key);
  ASSERT_TRUE(context->Reload().ok());
  EXPECT_NEAR(static_cast<double>(context->validity().until_seconds - Now()), 7000, 60);
}

TEST_F(TlsContextTest, ReloadKeepsTheOldOnesWhenTheNewAreBad) {
  const std::shared_ptr<TlsContext> context = TlsContext::Load(FilesOf(server_)).value();
  const CertificateFiles next = authority_.Issue("next", {.until_seconds = 7000});
  fs::rename(next.certificate, server_.certificate);  // its key is still to come
  const Result<void> reloaded = context->Reload();
  ASSERT_FALSE(reloaded.ok());
  EXPECT_EQ(reloaded.error().field, "tls-key");
  EXPECT_NEAR(static_cast<double>(context->validity().until_seconds - Now()), 3600, 60);
  EXPECT_NE(context->NewSession(), nullptr);
  fs::rename(next.key, server_.key);
  EXPECT_TRUE(context->Reload().ok());
}

}  // namespace
}  // namespace roost
