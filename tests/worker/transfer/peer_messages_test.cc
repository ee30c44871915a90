#include "worker/transfer/peer_messages.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

constexpr std::size_t kFrameBytes = 560;

Result<PartHead> HeadOf(std::uint32_t kind, std::size_t length) {
  return DecodeHead(EncodeHead(static_cast<PeerPart>(kind), length), kFrameBytes);
}

TEST(PeerMessagesTest, HeadsAreDecodedAsTheyWere) {
  EXPECT_EQ(HeadOf(1, 48)->kind, PeerPart::kMessage);
  EXPECT_EQ(HeadOf(1, 48)->length, 48U);
  EXPECT_EQ(HeadOf(2, kFrameBytes)->kind, PeerPart::kFrame);
  const auto head = EncodeHead(PeerPart::kFrame, 0x01020304);
  EXPECT_EQ(head, (std::array<std::byte, kPartHeadBytes>{
                      std::byte{2}, {}, {}, {}, std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}}));
}

TEST(PeerMessagesTest, HeadsOfImpossiblePartsAreRefused) {
  EXPECT_FALSE(HeadOf(0, 0).ok());
  EXPECT_FALSE(HeadOf(3, 0).ok());
  EXPECT_TRUE(HeadOf(1, wire::WireLimits::kMaxPeerMessageBytes).ok());
  EXPECT_FALSE(HeadOf(1, wire::WireLimits::kMaxPeerMessageBytes + 1).ok());
  EXPECT_FALSE(HeadOf(1, 0xFFFFFFFF).ok());
  EXPECT_EQ(HeadOf(2, kFrameBytes - 1).error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(HeadOf(2, 0xFFFFFFFF).ok());
}

// A Hold may name as many blocks as a fetch asks for.
TEST(PeerMessagesTest, TheLongestFetchIsAMessage) {
  const wire::PeerFetch fetch{.tenant = 7, .hashes = std::vector<BlockHash>(wire::WireLimits::kMaxHeldHashes, {1, 2})};
  const wire::Bytes bytes = wire::Encode(fetch);
  EXPECT_TRUE(HeadOf(1, bytes.size()).ok());
  EXPECT_EQ(wire::DecodePeerMessage(bytes).value(), wire::PeerMessage(fetch));
  EXPECT_FALSE(wire::DecodePeerMessage(wire::Encode(wire::PeerFetch())).ok()) << "a fetch of nothing";
}

}  // namespace
}  // namespace roost::worker
