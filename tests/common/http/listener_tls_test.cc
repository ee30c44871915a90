#include "common/http/listener_tls.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/common/http/test_certificates.h"

namespace roost {
namespace {

class ListenerTlsTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const TlsContext>> Open(const TlsFiles& files) {
    return OpenTls(files, reloader_, [this](const TlsValidity& validity) { told_.push_back(validity.until_seconds); });
  }

  const TestAuthority authority_{"listener_tls"};
  std::vector<std::int64_t> told_;
  Reloader reloader_{std::chrono::hours(1)};
};

TEST_F(ListenerTlsTest, WithoutFlagsThereIsNoTls) {
  const auto tls = Open({});
  ASSERT_TRUE(tls.ok());
  EXPECT_EQ(*tls, nullptr);
  EXPECT_TRUE(told_.empty());
}

TEST_F(ListenerTlsTest, FlagsThatGoTogetherAreNamedWhenOneIsMissing) {
  EXPECT_EQ(Open({.certificate = "a", .key = "", .client_ca = ""}).error().field, "tls-key");
  EXPECT_EQ(Open({.certificate = "", .key = "a", .client_ca = ""}).error().field, "tls-cert");
  EXPECT_EQ(Open({.certificate = "", .key = "", .client_ca = "a"}).error().field, "tls-client-ca");
}

TEST_F(ListenerTlsTest, TheFilesAreReadAgainWhenTheyChange) {
  const CertificateFiles files = authority_.Issue("first");
  const auto tls = Open({.certificate = files.certificate, .key = files.key, .client_ca = ""});
  ASSERT_TRUE(tls.ok()) << tls.error().ToString();
  ASSERT_EQ(told_.size(), 1U);
  const CertificateFiles next = authority_.Issue("next", {.until_seconds = 7000});
  std::filesystem::rename(next.certificate, files.certificate);
  std::filesystem::rename(next.key, files.key);
  reloader_.Look(Reloader::Which::kChanged);
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_GT(told_[1], told_[0]);
  EXPECT_EQ((*tls)->validity().until_seconds, told_[1]);
}

}  // namespace
}  // namespace roost
