#include "deploy/roostctl/key.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/wire/link_keys.h"

namespace roost::roostctl {
namespace {

struct LinkKeyTest : ::testing::Test {
  LinkKeyTest() { std::filesystem::create_directories(folder); }
  ~LinkKeyTest() override { std::filesystem::remove_all(folder); }

  int Make(const LinkKeyOptions& options) { return RunLinkKey(options, out, err); }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("link_key_" + std::to_string(getpid()));
  const std::string file = folder / "secret";
  std::ostringstream out;
  std::ostringstream err;
};

TEST_F(LinkKeyTest, BothEndsReadWhatItMakes) {
  ASSERT_EQ(Make({.name = "w1", .out = file}), 0) << err.str();
  const wire::LinkKeyPair pair = wire::ReadLinkKey(file).value();
  const wire::LinkPeers peers = wire::LinkPeers::Parse(out.str(), "out", wire::PeersOf::kRouter).value();
  ASSERT_EQ(peers.all().size(), 1U);
  EXPECT_EQ(peers.all()[0], (wire::LinkPeer{pair.public_key, {"w1"}, {"*"}}));
  EXPECT_EQ(out.str().find(pair.secret_key), std::string::npos);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(file).permissions(), perms::owner_read | perms::owner_write);
}

TEST_F(LinkKeyTest, ARoutersLineIsForWorkers) {
  ASSERT_EQ(Make({.name = "router", .role = "router", .out = file}), 0) << err.str();
  const wire::LinkPeers peers = wire::LinkPeers::Parse(out.str(), "out", wire::PeersOf::kWorker).value();
  EXPECT_EQ(peers.all()[0].public_key, wire::ReadLinkKey(file)->public_key);
}

TEST_F(LinkKeyTest, NamesAndModelsMayBeGiven) {
  ASSERT_EQ(Make({.name = "gpus", .out = file, .workers = {"gpu-*", "w1"}, .models = {"demo"}}), 0) << err.str();
  const wire::LinkPeer peer = wire::LinkPeers::Parse(out.str(), "out", wire::PeersOf::kRouter)->all().front();
  EXPECT_EQ(peer.workers, (std::vector<std::string>{"gpu-*", "w1"}));
  EXPECT_EQ(peer.models, std::vector<std::string>{"demo"});
}

TEST_F(LinkKeyTest, AKeyIsNeverOverwritten) {
  std::ofstream(file) << "mine\n";
  EXPECT_EQ(Make({.name = "w1", .out = file}), 1);
  EXPECT_EQ(err.str(), "roostctl key link: " + file + ": is there already; a key is never overwritten\n");
  EXPECT_EQ(out.str(), "");
  std::ifstream left(file);
  std::string text;
  std::getline(left, text);
  EXPECT_EQ(text, "mine");
}

TEST_F(LinkKeyTest, AFileThatCanNotBeWrittenIsNamed) {
  EXPECT_EQ(Make({.name = "w1", .out = folder / "nowhere" / "secret"}), 1);
  EXPECT_NE(err.str().find("can not be written: No such file"), std::string::npos);
}

}  // namespace
}  // namespace roost::roostctl
