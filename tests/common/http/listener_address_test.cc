#include "common/http/listener_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost {
namespace {

TEST(ListenerAddressTest, IsANumericAddressWithAPort) {
  EXPECT_EQ(ParseListenerAddress("127.0.0.1:8000", "f")->host, "127.0.0.1");
  EXPECT_EQ(ParseListenerAddress("127.0.0.1:8000", "f")->port, 8000);
  EXPECT_EQ(ParseListenerAddress("[::1]:0", "f")->host, "::1");
  EXPECT_EQ(ParseListenerAddress("localhost:1", "f")->host, "127.0.0.1");
  EXPECT_EQ(ParseListenerAddress("unix:/run/roost.sock", "f")->unix_path, "/run/roost.sock");
}

TEST(ListenerAddressTest, OtherHostsReachAllButLoopbackAndSockets) {
  for (const char* address : {"0.0.0.0:1", "10.0.0.5:1", "[::]:1", "[fd00::1]:1"}) {
    EXPECT_TRUE(ParseListenerAddress(address, "f")->IsBeyondLoopback()) << address;
  }
  for (const char* address : {"127.0.0.9:1", "localhost:1", "[::1]:1", "unix:/run/roost.sock"}) {
    EXPECT_FALSE(ParseListenerAddress(address, "f")->IsBeyondLoopback()) << address;
  }
}

TEST(ListenerAddressTest, ErrorsNameTheFlagAndTheValue) {
  for (const char* wrong : {"", "here", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "unix:"}) {
    const Error error = ParseListenerAddress(wrong, "http-address").error();
    EXPECT_EQ(error.field, "http-address");
    EXPECT_THAT(error.message, testing::HasSubstr(std::string("'") + wrong + "'"));
  }
}

TEST(ListenerAddressTest, ASchemeIsNamed) {
  EXPECT_EQ(
      ParseListenerAddress("http://0.0.0.0:8000", "http-address").error().ToString(),
      "http-address: 'http://0.0.0.0:8000' begins with http://, but an address has no scheme: write 0.0.0.0:8000");
  EXPECT_THAT(ParseListenerAddress("tcp://127.0.0.1:1", "f").error().message, testing::HasSubstr("tcp://"));
}

}  // namespace
}  // namespace roost
