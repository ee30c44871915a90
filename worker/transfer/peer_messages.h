// The bytes between two workers, on a TCP connection that the one who wants blocks has opened: messages, which
// schema/roost.capnp describes with their order (PeerMessage), and the frames of blocks (frame.h).
//
//   each: kind u32 │ length u32 │ as many bytes      integers little-endian
//
// Anything else ends the connection. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/result.h"
#include "common/wire/codec.h"

namespace roost::worker {

using wire::PeerLayout;

inline constexpr std::size_t kPartHeadBytes = 8;

enum class PeerPart : std::uint32_t { kMessage = 1, kFrame };

struct PartHead {
  PeerPart kind = PeerPart::kMessage;
  std::uint32_t length = 0;  // of what follows
};

[[nodiscard]] std::array<std::byte, kPartHeadBytes> EncodeHead(PeerPart kind, std::size_t length);

// kInvalidArgument: no such part, or a message longer than any. kDataLoss: a frame that has not `frame_bytes`.
[[nodiscard]] Result<PartHead> DecodeHead(std::span<const std::byte, kPartHeadBytes> head, std::size_t frame_bytes);

}  // namespace roost::worker
