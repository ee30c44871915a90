#include "worker/transfer/peer_messages.h"

#include <cstring>

#include "common/wire/messages.h"

namespace roost::worker {
namespace {

constexpr std::size_t kMaxNameBytes = wire::WireLimits::kMaxWorkerIdBytes;
constexpr std::size_t kHelloFixedBytes = 4 + 8 + 8 + 4;
constexpr std::size_t kFetchFixedBytes = 8;

// Appends integers as they lie in memory, which is little-endian: see frame.cc.
class Writer {
 public:
  explicit Writer(PeerMessage kind) { Add(static_cast<std::uint32_t>(kind)).Add(std::uint32_t{0}); }

  template <typename T>
  Writer& Add(T value) {
    return Add(&value, sizeof(value));
  }
  Writer& Add(const void* from, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
    return *this;
  }
  MessageBytes Take() {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - kMessageHeadBytes);
    std::memcpy(bytes_.data() + sizeof(std::uint32_t), &length, sizeof(length));
    return std::move(bytes_);
  }

 private:
  MessageBytes bytes_;
};

template <typename T>
T Read(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

template <typename Enum>
Result<Enum> DecodeEnum(std::span<const std::byte> payload, Enum last, const char* field) {
  if (payload.size() != sizeof(std::uint32_t)) return InvalidArgument(field, "has {} bytes", payload.size());
  const auto value = Read<std::uint32_t>(payload, 0);
  if (value > static_cast<std::uint32_t>(last)) return InvalidArgument(field, "{} is not known", value);
  return static_cast<Enum>(value);
}

bool CanHave(PeerMessage kind, std::size_t length, std::size_t frame_bytes) {
  switch (kind) {
    case PeerMessage::kHello: return length >= kHelloFixedBytes && length <= kHelloFixedBytes + kMaxNameBytes;
    case PeerMessage::kWelcome:
    case PeerMessage::kCancel: return length == 0;
    case PeerMessage::kRefused:
    case PeerMessage::kEnd: return length == sizeof(std::uint32_t);
    case PeerMessage::kFetch:
      return length > kFetchFixedBytes && (length - kFetchFixedBytes) % sizeof(BlockHash) == 0 &&
             length <= kFetchFixedBytes + wire::WireLimits::kMaxHeldHashes * sizeof(BlockHash);
    case PeerMessage::kFrame: return length == frame_bytes;
  }
  return false;
}

}  // namespace

MessageBytes Encode(const PeerHello& hello) {
  return Writer(PeerMessage::kHello)
      .Add(hello.version)
      .Add(hello.layout.layout)
      .Add(hello.layout.numerics)
      .Add(static_cast<std::uint32_t>(hello.source.size()))
      .Add(hello.source.data(), hello.source.size())
      .Take();
}

MessageBytes Encode(PeerRefusal cause) {
  return Writer(PeerMessage::kRefused).Add(static_cast<std::uint32_t>(cause)).Take();
}

MessageBytes Encode(const PeerFetch& fetch) {
  return Writer(PeerMessage::kFetch)
      .Add(fetch.tenant)
      .Add(fetch.hashes.data(), fetch.hashes.size() * sizeof(BlockHash))
      .Take();
}

MessageBytes Encode(PeerEnd end) { return Writer(PeerMessage::kEnd).Add(static_cast<std::uint32_t>(end)).Take(); }

MessageBytes Encode(PeerMessage kind) { return Writer(kind).Take(); }

std::array<std::byte, kMessageHeadBytes> HeadOfFrame(std::size_t frame_bytes) {
  const std::array<std::uint32_t, 2> fields{static_cast<std::uint32_t>(PeerMessage::kFrame),
                                            static_cast<std::uint32_t>(frame_bytes)};
  std::array<std::byte, kMessageHeadBytes> head{};
  std::memcpy(head.data(), fields.data(), head.size());
  return head;
}

Result<MessageHead> DecodeHead(std::span<const std::byte, kMessageHeadBytes> head, std::size_t frame_bytes) {
  const auto kind = Read<std::uint32_t>(head, 0);
  const auto length = Read<std::uint32_t>(head, sizeof(kind));
  if (static_cast<PeerMessage>(kind) == PeerMessage::kFrame && length != frame_bytes) {
    return DataLoss("size", "a frame of {} bytes instead of {}", length, frame_bytes);
  }
  if (!CanHave(static_cast<PeerMessage>(kind), length, frame_bytes)) {
    return InvalidArgument("kind", "a message of kind {} with {} bytes", kind, length);
  }
  return MessageHead{static_cast<PeerMessage>(kind), length};
}

Result<PeerHello> DecodeHello(std::span<const std::byte> payload) {
  if (payload.size() < kHelloFixedBytes) return InvalidArgument("hello", "has {} bytes", payload.size());
  PeerHello hello{.version = Read<std::uint32_t>(payload, 0),
                  .layout = {.layout = Read<std::uint64_t>(payload, 4), .numerics = Read<std::uint64_t>(payload, 12)},
                  .source = {}};
  const auto size = Read<std::uint32_t>(payload, 20);
  if (size > kMaxNameBytes || size != payload.size() - kHelloFixedBytes) {
    return InvalidArgument("source", "has {} of {} bytes", size, payload.size() - kHelloFixedBytes);
  }
  hello.source.assign(reinterpret_cast<const char*>(payload.data()) + kHelloFixedBytes, size);
  return hello;
}

Result<PeerRefusal> DecodeRefused(std::span<const std::byte> payload) {
  return DecodeEnum(payload, PeerRefusal::kHandshake, "cause");
}

Result<PeerFetch> DecodeFetch(std::span<const std::byte> payload) {
  if (!CanHave(PeerMessage::kFetch, payload.size(), 0)) return InvalidArgument("hashes", "{} bytes", payload.size());
  PeerFetch fetch{.tenant = Read<std::uint64_t>(payload, 0), .hashes = {}};
  fetch.hashes.resize((payload.size() - kFetchFixedBytes) / sizeof(BlockHash));
  std::memcpy(fetch.hashes.data(), payload.data() + kFetchFixedBytes, fetch.hashes.size() * sizeof(BlockHash));
  return fetch;
}

Result<PeerEnd> DecodeEnd(std::span<const std::byte> payload) {
  return DecodeEnum(payload, PeerEnd::kCancelled, "outcome");
}

}  // namespace roost::worker
