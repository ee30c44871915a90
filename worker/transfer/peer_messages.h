// The messages between two workers, on a TCP connection that the one who wants blocks has opened:
//
//   consumer                                 source
//     │ ── hello ──────────────────────────────► │
//     │ ◄────────────────── welcome or refused ─ │  (refused: the connection ends)
//     │ ── fetch ──────────────────────────────► │
//     │ ◄─────────────────── frame, frame, … ─── │
//     │ ── cancel (at any time) ───────────────► │
//     │ ◄──────────────────────────────── end ── │  then the next fetch
//
//   each: kind u32 │ length u32 │ payload of that length      integers little-endian, hashes as in a frame
//
//   hello    version u32, layout u64, numerics u64, length u32 and text of the source's name
//   refused  cause u32
//   fetch    tenant u64, hashes
//   frame    see frame.h
//   end      outcome u32
//   welcome, cancel: empty
//
// A message that is not exactly this ends the connection. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

inline constexpr std::uint32_t kPeerVersion = 1;
inline constexpr std::size_t kMessageHeadBytes = 8;

enum class PeerMessage : std::uint32_t { kHello = 1, kWelcome, kRefused, kFetch, kFrame, kEnd, kCancel };

struct MessageHead {
  PeerMessage kind = PeerMessage::kHello;
  std::uint32_t length = 0;  // of the payload
};

// Hashes of all that decides the bytes of blocks: see wire::Transfer.
struct PeerLayout {
  std::uint64_t layout = 0;
  std::uint64_t numerics = 0;

  bool operator==(const PeerLayout&) const = default;
};

struct PeerHello {
  std::uint32_t version = kPeerVersion;
  PeerLayout layout;
  std::string source;  // the worker that the consumer wants to reach

  bool operator==(const PeerHello&) const = default;
};

// kTicket is counted, and never sent: a consumer without a ticket is told nothing but that its handshake failed.
enum class PeerRefusal : std::uint32_t { kBusy, kLayout, kNumerics, kHandshake, kTicket };
// For metrics, by cause.
inline constexpr std::array<std::string_view, 5> kPeerRefusalNames{"busy", "layout", "numerics", "handshake", "ticket"};

struct PeerFetch {
  std::uint64_t tenant = 0;
  std::vector<BlockHash> hashes;

  bool operator==(const PeerFetch&) const = default;
};

enum class PeerEnd : std::uint32_t { kComplete, kMissing, kBusy, kCancelled };

using MessageBytes = std::vector<std::byte>;

[[nodiscard]] MessageBytes Encode(const PeerHello& hello);
[[nodiscard]] MessageBytes Encode(PeerRefusal cause);
[[nodiscard]] MessageBytes Encode(const PeerFetch& fetch);
[[nodiscard]] MessageBytes Encode(PeerEnd end);
// A message without a payload.
[[nodiscard]] MessageBytes Encode(PeerMessage kind);
// Before the frame's bytes.
[[nodiscard]] std::array<std::byte, kMessageHeadBytes> HeadOfFrame(std::size_t frame_bytes);

// kInvalidArgument: no such message, or one of an impossible length. kDataLoss: a frame that has not `frame_bytes`.
[[nodiscard]] Result<MessageHead> DecodeHead(std::span<const std::byte, kMessageHeadBytes> head,
                                             std::size_t frame_bytes);
// kInvalidArgument, naming the field.
[[nodiscard]] Result<PeerHello> DecodeHello(std::span<const std::byte> payload);
[[nodiscard]] Result<PeerRefusal> DecodeRefused(std::span<const std::byte> payload);
[[nodiscard]] Result<PeerFetch> DecodeFetch(std::span<const std::byte> payload);
[[nodiscard]] Result<PeerEnd> DecodeEnd(std::span<const std::byte> payload);

}  // namespace roost::worker
