// Blocks that are erased while a consumer receives them: their connection ends, and others go on.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "tests/worker/transfer/arrived.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/peer_connection.h"

namespace roost::worker {
namespace {

// More than the sockets between two peers take.
constexpr FrameSizes kLargeFrames{.block_tokens = 16, .data_bytes = std::size_t{32} << 20U};

class LargeReader final : public BlockReader {
 public:
  [[nodiscard]] std::size_t block_bytes() const override { return kLargeFrames.data_bytes; }
  void Read(BlockId /*block*/, std::span<std::byte> /*to*/, const std::function<void()>& may_change) const override {
    may_change();
    if (after_read) after_read();
  }

  std::function<void()> after_read;
};

class RetractedSendsTest : public testing::Test {
 protected:
  RetractedSendsTest() {
    auto reader = std::make_unique<LargeReader>();
    reader_ = reader.get();
    blocks_ = std::make_unique<ReadableBlocks>(std::move(reader), 2, kLargeFrames.block_tokens);
    server_ = BlockServer::Start(*blocks_, {.worker_id = "a", .layout = kLayout, .address = {"127.0.0.1", 0}}).value();
    for (std::uint32_t i = 0; i < 2; ++i) {
      const PublishedBlock published{BlockId(i), chain_.BlockAt(i), chain_.TokensAt(i)};
      blocks_->Publish({&published, 1});
    }
  }

  // The chain's block has been asked for.
  PeerConnection Asked(std::uint32_t index) {
    PeerConnection connection = PeerConnection::Connect(wire::ParseNumericAddress(server_->address()).value()).value();
    EXPECT_TRUE(connection.Send(HelloTo("a")).ok());
    wire::Bytes welcome(BytesOf(wire::PeerWelcome()).size());
    EXPECT_TRUE(connection.Receive(welcome, kPeerSilence).ok());
    EXPECT_TRUE(
        connection.Send(wire::PeerFetch{.tenant = chain_.chain.tenant, .hashes = {chain_.chain.hashes[index]}}).ok());
    return connection;
  }
  // The rest, in the time that a frame has.
  static bool ReceivesFrame(PeerConnection& connection, std::size_t received) {
    std::vector<std::byte> rest(EncodeHead(PeerPart::kFrame, 0).size() + kLargeFrames.frame_bytes() - received);
    return connection.Receive(rest, kPeerSilence).ok();
  }
  void Erase(std::uint32_t block) {
    const BlockId id(block);
    blocks_->Retract({&id, 1});
    server_->EndRetracted();
  }

  const TestChain chain_{2};
  LargeReader* reader_ = nullptr;
  std::unique_ptr<ReadableBlocks> blocks_;
  std::unique_ptr<BlockServer> server_;
};

TEST_F(RetractedSendsTest, ABlockThatIsErasedWhileItIsSentDoesNotComeToItsEnd) {
  PeerConnection other = Asked(1);
  PeerConnection connection = Asked(0);
  std::array<std::byte, 1> first{};
  ASSERT_TRUE(connection.Receive(first, kPeerSilence).ok());
  Erase(0);
  EXPECT_FALSE(ReceivesFrame(connection, first.size()));
  EXPECT_TRUE(ReceivesFrame(other, 0)) << "its block is still there";
}

TEST_F(RetractedSendsTest, ABlockThatIsErasedBetweenItsReadAndItsSendIsNotSent) {
  reader_->after_read = [this] { Erase(0); };
  PeerConnection connection = Asked(0);
  std::array<std::byte, 1> first{};
  EXPECT_FALSE(connection.Receive(first, kPeerSilence).ok());
  server_->Stop();
  EXPECT_EQ(server_->counts().served_bytes, 0U);
  EXPECT_EQ(server_->memory()->used(), 0U);
}

}  // namespace
}  // namespace roost::worker
