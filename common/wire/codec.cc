#include "common/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <kj/io.h>

#include <array>
#include <cstring>
#include <span>
#include <variant>

#include "common/base/check.h"
#include "common/wire/made_codec.h"

namespace roost::wire {
namespace {

// Only a Tokenizer may be large. The size of other messages is checked before anything is copied out of them.
bool IsOverPlainLimit(schema::WorkerMessage::Reader in, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes && in.which() != schema::WorkerMessage::TOKENIZER;
}
bool IsOverPlainLimit(schema::RouterMessage::Reader, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes;
}

bool IsOverPlainLimit(schema::PeerMessage::Reader, std::size_t size) { return size > WireLimits::kMaxPeerMessageBytes; }

// The frame as aligned words: the frame itself if it is aligned, else a copy.
kj::ArrayPtr<const capnp::word> AlignedWords(std::span<const std::byte> frame, kj::Array<capnp::word>& copy) {
  const std::size_t word_count = frame.size() / sizeof(capnp::word);
  if (reinterpret_cast<std::uintptr_t>(frame.data()) % alignof(std::uint64_t) == 0) {
    return {reinterpret_cast<const capnp::word*>(frame.data()), word_count};
  }
  copy = kj::heapArray<capnp::word>(word_count);
  std::memcpy(copy.begin(), frame.data(), frame.size());
  return copy;
}

// Cap'n Proto throws kj::Exception from any read of a malformed message.
template <typename Message, typename Schema>
Result<std::optional<Message>> Decode(std::span<const std::byte> frame) {
  if (frame.empty() || frame.size() % sizeof(capnp::word) != 0 || frame.size() > WireLimits::kMaxFrameBytes) {
    return DataLoss("frame", "{} bytes", frame.size());
  }
  try {
    kj::Array<capnp::word> copy;
    const auto words = AlignedWords(frame, copy);
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 2 * words.size() + 1024;
    options.nestingLimit = WireLimits::kMaxNesting;
    capnp::FlatArrayMessageReader reader(words, options);
    const auto root = reader.getRoot<Schema>();
    if (IsOverPlainLimit(root, frame.size())) return DataLoss("frame", "{} bytes", frame.size());
    return ReadMessage(root);
  } catch (const kj::Exception& exception) {
    return DataLoss("frame", "{}", exception.getDescription().cStr());
  }
}

// The segment in which each message of this thread begins, as long as the one that Cap'n Proto would allocate and clear
// for it. A builder clears what it has used, so it is zero between messages.
std::span<capnp::word> FirstSegment() {
  thread_local std::array<capnp::word, capnp::SUGGESTED_FIRST_SEGMENT_WORDS> words{};
  return words;
}

template <typename Schema, typename Message>
Bytes EncodeAs(const Message& message) {
  const std::span<capnp::word> first = FirstSegment();
  capnp::MallocMessageBuilder builder(kj::arrayPtr(first.data(), first.size()));
  auto root = builder.initRoot<Schema>();
  WriteMessage(message, root);
  Bytes bytes(capnp::computeSerializedSizeInWords(builder) * sizeof(capnp::word));
  kj::ArrayOutputStream stream(kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.data()), bytes.size()));
  capnp::writeMessage(stream, builder);
  return bytes;
}

}  // namespace

Bytes Encode(const WorkerMessage& message) {
  Bytes bytes = EncodeAs<schema::WorkerMessage>(message);
  const bool large = std::holds_alternative<Tokenizer>(message);
  ROOST_CHECK(bytes.size() <= (large ? WireLimits::kMaxFrameBytes : WireLimits::kMaxPlainFrameBytes));
  return bytes;
}

Bytes Encode(const RouterMessage& message) {
  Bytes bytes = EncodeAs<schema::RouterMessage>(message);
  ROOST_CHECK(bytes.size() <= WireLimits::kMaxPlainFrameBytes);
  return bytes;
}

Bytes Encode(const PeerMessage& message) {
  Bytes bytes = EncodeAs<schema::PeerMessage>(message);
  ROOST_CHECK(bytes.size() <= WireLimits::kMaxPeerMessageBytes);
  return bytes;
}

Result<std::optional<WorkerMessage>> DecodeWorkerMessage(std::span<const std::byte> frame) {
  return Decode<WorkerMessage, schema::WorkerMessage>(frame);
}

Result<std::optional<RouterMessage>> DecodeRouterMessage(std::span<const std::byte> frame) {
  return Decode<RouterMessage, schema::RouterMessage>(frame);
}

Result<std::optional<PeerMessage>> DecodePeerMessage(std::span<const std::byte> frame) {
  return Decode<PeerMessage, schema::PeerMessage>(frame);
}

}  // namespace roost::wire
