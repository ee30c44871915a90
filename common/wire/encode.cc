#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/io.h>

#include <variant>

#include "common/base/check.h"
#include "common/wire/codec.h"
#include "common/wire/encode_messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {
namespace {

template <typename Schema, typename Message>
Bytes EncodeAs(const Message& message) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Schema>();
  FillMessage(message, root);
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

}  // namespace roost::wire
