#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "common/wire/codec.h"
#include "common/wire/decode_messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {
namespace {

// Only a Tokenizer may be large. The size of other messages is checked before anything is copied out of them.
bool IsOverPlainLimit(schema::WorkerMessage::Reader in, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes && in.which() != schema::WorkerMessage::TOKENIZER;
}
bool IsOverPlainLimit(schema::RouterMessage::Reader, std::size_t size) {
  return size > WireLimits::kMaxPlainFrameBytes;
}

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

}  // namespace

Result<std::optional<WorkerMessage>> DecodeWorkerMessage(std::span<const std::byte> frame) {
  return Decode<WorkerMessage, schema::WorkerMessage>(frame);
}

Result<std::optional<RouterMessage>> DecodeRouterMessage(std::span<const std::byte> frame) {
  return Decode<RouterMessage, schema::RouterMessage>(frame);
}

}  // namespace roost::wire
