#include "common/wire/link_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace roost::wire {
namespace {

// The test keys of rfc.zeromq.org/spec/26's reference implementation: libzmq's own.
constexpr const char* kSecret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
constexpr const char* kPublic = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

std::string RouterLine(std::string_view key, std::string_view rest = R"(,"workers":["w1","gpu-*"],"models":["demo"])") {
  return fmt::format(R"({{"public_key":"{}"{}}})", key, rest);
}

std::string PeersError(const std::string& text, PeersOf side = PeersOf::kRouter) {
  const Result<LinkPeers> peers = LinkPeers::Parse(text, "peers", side);
  if (peers.ok()) return "";
  EXPECT_EQ(peers.error().code, ErrorCode::kInvalidArgument);
  return peers.error().ToString();
}

std::string SecretError(const std::string& text) {
  const Result<LinkKeyPair> pair = ParseLinkKey(text, "file");
  return pair.ok() ? "" : pair.error().ToString();
}

TEST(LinkKeysTest, ASecretKeyHasItsPublicKey) {
  const Result<LinkKeyPair> pair = ParseLinkKey(std::string("# w1\n\n") + kSecret + "\n", "file");
  ASSERT_TRUE(pair.ok()) << pair.error().ToString();
  EXPECT_EQ(pair->public_key, kPublic);
  EXPECT_EQ(pair->secret_key, kSecret);
}

TEST(LinkKeysTest, AMadeKeyIsReadBackFromItsFile) {
  std::set<std::string> keys;
  for (int i = 0; i < 200; ++i) {
    const LinkKeyPair made = MakeLinkKeyPair();
    const Result<LinkKeyPair> read = ParseLinkKey(LinkKeyFile(made, "w1"), "file");
    ASSERT_TRUE(read.ok()) << read.error().ToString();
    EXPECT_EQ(read->secret_key, made.secret_key);
    EXPECT_EQ(read->public_key, made.public_key);
    keys.insert(made.public_key);
  }
  EXPECT_EQ(keys.size(), 200U);
}

TEST(LinkKeysTest, AWrongSecretKeyIsNamedByItsLineAndNotShown) {
  EXPECT_EQ(SecretError("# nothing\n"), "file: holds no key");
  EXPECT_EQ(SecretError("\nshort\n"), "file:2: is no secret key: 40 characters of Z85 are needed");
  EXPECT_EQ(SecretError(std::string(kSecret) + "\n" + kSecret + "\n"), "file:2: is a second key; one is needed");
  EXPECT_NE(SecretError(std::string(39, 'a') + "~\n"), "");
}

TEST(LinkKeysTest, ARoutersPeersHaveNamesAndModels) {
  const std::string other = MakeLinkKeyPair().public_key;
  const Result<LinkPeers> peers =
      LinkPeers::Parse("# workers\n\n" + RouterLine(kPublic) + "\r\n" + RouterLine(other), "peers", PeersOf::kRouter);
  ASSERT_TRUE(peers.ok()) << peers.error().ToString();
  ASSERT_EQ(peers->all().size(), 2U);
  const LinkPeer* const peer = peers->Find(kPublic);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(*peer, (LinkPeer{kPublic, {"w1", "gpu-*"}, {"demo"}}));
  EXPECT_EQ(peers->Find(MakeLinkKeyPair().public_key), nullptr);
}

TEST(LinkKeysTest, ALineThatIsWrongIsNamed) {
  const std::string good = RouterLine(kPublic) + "\n";
  EXPECT_EQ(PeersError(""), "peers: names no peer");
  EXPECT_EQ(PeersError(good + "{"), "peers:2: is no JSON object");
  EXPECT_EQ(PeersError("[]"), "peers:1: is no JSON object");
  EXPECT_EQ(PeersError(good + good), fmt::format("peers:2: the key {} stands in an earlier line", kPublic));
  EXPECT_EQ(PeersError("\n" + RouterLine("short")), "peers:2: public_key is no key: 40 characters of Z85 are needed");
  EXPECT_EQ(PeersError(R"({"workers":["*"],"models":["*"]})"), "peers:1: public_key is missing");
  EXPECT_EQ(PeersError(RouterLine(kPublic, R"(,"models":["*"])")), "peers:1: workers is missing");
  EXPECT_EQ(PeersError(RouterLine(kPublic, R"(,"workers":["*"])")), "peers:1: models is missing");
  EXPECT_EQ(PeersError(RouterLine(kPublic, R"(,"workers":[],"models":["*"])")), "peers:1: workers is no list of names");
  EXPECT_EQ(PeersError(RouterLine(kPublic, R"(,"workers":"*","models":["*"])")),
            "peers:1: workers is no list of names");
  EXPECT_EQ(PeersError(RouterLine(kPublic, R"(,"worker":["*"])")),
            "peers:1: 'worker' is no member of a peer; there are public_key, workers and models");
  EXPECT_EQ(PeersError(RouterLine(kPublic), PeersOf::kWorker),
            "peers:1: 'workers' is no member of a peer; there are public_key alone");
  EXPECT_EQ(PeersError(RouterLine(kPublic, ""), PeersOf::kWorker), "");
}

TEST(LinkKeysTest, APeersLineIsReadBack) {
  const LinkPeer worker{MakeLinkKeyPair().public_key, {"w\"1"}, {"*"}};
  EXPECT_EQ(LinkPeers::Parse(LinkPeerLine(worker), "peers", PeersOf::kRouter)->all().front(), worker);
  const LinkPeer router{kPublic, {}, {}};
  EXPECT_EQ(LinkPeers::Parse(LinkPeerLine(router), "peers", PeersOf::kWorker)->all().front(), router);
}

TEST(LinkKeysTest, NamesAreBoundToKeys) {
  const LinkPeer peer{kPublic, {"w1", "gpu-*"}, {"demo"}};
  EXPECT_TRUE(CheckNames(peer, "w1", "demo").ok());
  EXPECT_TRUE(CheckNames(peer, "gpu-", "demo").ok());
  EXPECT_TRUE(CheckNames(peer, "gpu-7", "demo").ok());
  for (const char* name : {"w", "w11", "gpu", "w2", "gpu-*x"}) {
    const bool is_gpu = std::string_view(name).starts_with("gpu-");
    EXPECT_EQ(CheckNames(peer, name, "demo").ok(), is_gpu) << name;
  }
  const Result<void> refused = CheckNames(peer, "w2", "demo");
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(refused.error().message, fmt::format("key {} may not be worker 'w2'", kPublic));
  EXPECT_EQ(CheckNames(peer, "w1", "other").error().message,
            fmt::format("key {} may not serve model 'other'", kPublic));
  EXPECT_TRUE(CheckNames({kPublic, {"*"}, {"*"}}, "any", "thing").ok());
}

TEST(LinkKeysTest, FilesAreBounded) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("link_keys_{}", getpid());
  std::ofstream(path) << "# " << std::string(kMaxLinkFileBytes, 'x') << '\n' << RouterLine(kPublic) << '\n';
  EXPECT_EQ(LinkPeers::Read(path, PeersOf::kRouter).error().message,
            fmt::format("has {} bytes, at most {} are allowed", std::filesystem::file_size(path), kMaxLinkFileBytes));
  std::filesystem::remove(path);
  EXPECT_EQ(LinkPeers::Read(path, PeersOf::kRouter).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadLinkKey(path).error().code, ErrorCode::kNotFound);
  std::string many;
  for (std::size_t i = 0; i <= kMaxLinkPeers; ++i) {
    std::array<std::uint8_t, 32> bytes{static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8U)};
    std::array<char, 41> key{};
    zmq_z85_encode(key.data(), bytes.data(), bytes.size());
    many += fmt::format("{{\"public_key\":\"{}\"}}\n", key.data());
  }
  EXPECT_EQ(PeersError(many, PeersOf::kWorker),
            fmt::format("peers:{}: more than {} peers", kMaxLinkPeers + 1, kMaxLinkPeers));
}

}  // namespace
}  // namespace roost::wire
