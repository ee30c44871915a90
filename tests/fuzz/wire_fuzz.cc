// Any bytes as a frame from either side, and as a message between two workers. Decoding does not crash, and a message
// that it accepts can be encoded again and reads back equal, but for what this version cannot send: the refusal of a
// request with kinds that it does not know.
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "common/base/check.h"
#include "common/wire/codec.h"

namespace {

roost::wire::RouterMessage WithoutRefusal(roost::wire::RouterMessage message) {
  if (auto* const generate = std::get_if<roost::wire::Generate>(&message)) generate->refusal.reset();
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> frame(reinterpret_cast<const std::byte*>(data), size);
  const auto from_worker = roost::wire::DecodeWorkerMessage(frame);
  if (from_worker.ok() && from_worker.value().has_value()) {
    const auto again = roost::wire::DecodeWorkerMessage(roost::wire::Encode(*from_worker.value()));
    ROOST_CHECK(again.ok() && again.value() == from_worker.value());
  }
  const auto from_router = roost::wire::DecodeRouterMessage(frame);
  if (from_router.ok() && from_router.value().has_value()) {
    const auto again = roost::wire::DecodeRouterMessage(roost::wire::Encode(*from_router.value()));
    ROOST_CHECK(again.ok() && again.value() == WithoutRefusal(*from_router.value()));
  }
  const auto from_peer = roost::wire::DecodePeerMessage(frame);
  if (from_peer.ok() && from_peer.value().has_value()) {
    const auto again = roost::wire::DecodePeerMessage(roost::wire::Encode(*from_peer.value()));
    ROOST_CHECK(again.ok() && again.value() == from_peer.value());
  }
  return 0;
}
