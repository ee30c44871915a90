// Helpers that tests of the codec share.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "common/wire/codec.h"

namespace roost::wire {

// Decodes a frame as a message of the first argument's side.
inline Result<std::optional<WorkerMessage>> Decode(const WorkerMessage&, std::span<const std::byte> frame) {
  return DecodeWorkerMessage(frame);
}
inline Result<std::optional<RouterMessage>> Decode(const RouterMessage&, std::span<const std::byte> frame) {
  return DecodeRouterMessage(frame);
}
inline Result<std::optional<PeerMessage>> Decode(const PeerMessage&, std::span<const std::byte> frame) {
  return DecodePeerMessage(frame);
}

inline Generate GenerateWithoutWishes() {
  Generate generate;
  generate.request_id = RequestId(7);
  generate.prompt = {1, 2, 3, 4};
  generate.root = {0x0102030405060708, 0x090a0b0c0d0e0f10};
  generate.block_hashes = {{0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8}};
  generate.sampling = {.temperature = 0.5F, .top_p = 0.75F, .top_k = 40, .seed = 99};
  generate.max_output_tokens = 16;
  generate.first_output_index = 2;
  generate.stop_tokens = {5};
  generate.ignore_eos = true;
  generate.expected_cached_tokens = 32;
  generate.deadline_ms = 1000;
  return generate;
}

}  // namespace roost::wire
