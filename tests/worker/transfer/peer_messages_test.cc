#include "worker/transfer/peer_messages.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace roost::worker {
namespace {

constexpr std::size_t kFrameBytes = 560;

std::span<const std::byte> PayloadOf(const MessageBytes& message) {
  return std::span(message).subspan(kMessageHeadBytes);
}

Result<MessageHead> HeadOf(const MessageBytes& message) {
  return DecodeHead(std::span(message).first<kMessageHeadBytes>(), kFrameBytes);
}

MessageBytes Raw(std::uint32_t kind, std::uint32_t length) {
  MessageBytes bytes(kMessageHeadBytes);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::byte>(kind >> 8 * i & 0xFF);
    bytes[4 + i] = static_cast<std::byte>(length >> 8 * i & 0xFF);
  }
  return bytes;
}

TEST(PeerMessagesTest, AreDecodedAsTheyWere) {
  const PeerHello hello{.layout = {.layout = 5, .numerics = 6}, .source = "worker-a"};
  EXPECT_EQ(HeadOf(Encode(hello))->kind, PeerMessage::kHello);
  EXPECT_EQ(DecodeHello(PayloadOf(Encode(hello))).value(), hello);
  const PeerFetch fetch{.tenant = 7, .hashes = {{1, 2}, {3, 4}}};
  EXPECT_EQ(HeadOf(Encode(fetch))->length, 8U + 32U);
  EXPECT_EQ(DecodeFetch(PayloadOf(Encode(fetch))).value(), fetch);
  for (const PeerRefusal cause :
       {PeerRefusal::kBusy, PeerRefusal::kLayout, PeerRefusal::kNumerics, PeerRefusal::kHandshake}) {
    EXPECT_EQ(DecodeRefused(PayloadOf(Encode(cause))).value(), cause);
  }
  for (const PeerEnd end : {PeerEnd::kComplete, PeerEnd::kMissing, PeerEnd::kBusy, PeerEnd::kCancelled}) {
    EXPECT_EQ(DecodeEnd(PayloadOf(Encode(end))).value(), end);
  }
  EXPECT_EQ(HeadOf(Encode(PeerMessage::kWelcome))->kind, PeerMessage::kWelcome);
  const auto frame = HeadOfFrame(kFrameBytes);
  EXPECT_EQ(DecodeHead(frame, kFrameBytes)->kind, PeerMessage::kFrame);
}

TEST(PeerMessagesTest, HeadsOfImpossibleMessagesAreRefused) {
  EXPECT_FALSE(HeadOf(Raw(0, 0)).ok());
  EXPECT_FALSE(HeadOf(Raw(8, 0)).ok());
  EXPECT_FALSE(HeadOf(Raw(1, 23)).ok());
  EXPECT_TRUE(HeadOf(Raw(1, 24)).ok());
  EXPECT_FALSE(HeadOf(Raw(1, 1'000'000)).ok());
  EXPECT_FALSE(HeadOf(Raw(2, 1)).ok());
  EXPECT_FALSE(HeadOf(Raw(4, 8)).ok()) << "a fetch of nothing";
  EXPECT_FALSE(HeadOf(Raw(4, 25)).ok());
  EXPECT_TRUE(HeadOf(Raw(4, 8 + 16 * 65536)).ok());
  EXPECT_FALSE(HeadOf(Raw(4, 8 + 16 * 65537)).ok());
  EXPECT_FALSE(HeadOf(Raw(5, kFrameBytes - 1)).ok());
  EXPECT_TRUE(HeadOf(Raw(5, kFrameBytes)).ok());
  EXPECT_FALSE(HeadOf(Raw(6, 0xFFFFFFFF)).ok());
}

TEST(PeerMessagesTest, DamagedPayloadsAreRefusedOrReadInTheirBounds) {
  Rng rng(5);
  for (int round = 0; round < 20'000; ++round) {
    MessageBytes bytes(rng.Below(80));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Below(rng.Below(2) == 0 ? 3 : 256));
    if (const auto hello = DecodeHello(bytes); hello.ok()) {
      EXPECT_EQ(hello->source.size() + 24, bytes.size());
    }
    if (const auto fetch = DecodeFetch(bytes); fetch.ok()) {
      EXPECT_EQ(fetch->hashes.size() * 16 + 8, bytes.size());
    }
    EXPECT_TRUE(bytes.size() == 4 || !DecodeEnd(bytes).ok());
    EXPECT_TRUE(bytes.size() == 4 || !DecodeRefused(bytes).ok());
  }
}

}  // namespace
}  // namespace roost::worker
