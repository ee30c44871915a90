#include "worker/transfer/peer_messages.h"

#include <cstring>

namespace roost::worker {

// Integers lie in memory as they travel, little-endian: see frame.cc.
std::array<std::byte, kPartHeadBytes> EncodeHead(PeerPart kind, std::size_t length) {
  const std::array<std::uint32_t, 2> fields{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(length)};
  std::array<std::byte, kPartHeadBytes> head{};
  std::memcpy(head.data(), fields.data(), head.size());
  return head;
}

Result<PartHead> DecodeHead(std::span<const std::byte, kPartHeadBytes> head, std::size_t frame_bytes) {
  std::array<std::uint32_t, 2> fields{};
  std::memcpy(fields.data(), head.data(), head.size());
  const PartHead part{static_cast<PeerPart>(fields[0]), fields[1]};
  if (part.kind == PeerPart::kMessage && part.length <= wire::WireLimits::kMaxPeerMessageBytes) return part;
  if (part.kind != PeerPart::kFrame) return InvalidArgument("kind", "{} with {} bytes", fields[0], fields[1]);
  if (part.length == frame_bytes) return part;
  return DataLoss("size", "a frame of {} bytes instead of {}", part.length, frame_bytes);
}

}  // namespace roost::worker
