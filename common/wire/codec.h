// Messages ↔ bytes (schema/roost.capnp). The only code that uses Cap'n Proto, and the place that checks what peers
// send: sizes, list lengths, enumerators, numbers, text. Decoded messages are safe to use.
//
// Threads: pure functions. Errors: kDataLoss with the field's name for a message that is malformed or over a limit; the
// caller counts it and drops the link. An unknown kind of message is not an error: Decode returns nothing, and the
// caller counts it and goes on.
// Cost: one copy of the message each way, and one of the frame when it is not aligned to 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"

namespace roost::wire {

using Bytes = std::vector<std::byte>;

// The limits of a message. The sender keeps to them (checked); the receiver refuses a message over a limit.
struct WireLimits {
  static constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20U;                         // a Tokenizer
  static constexpr std::size_t kMaxPlainFrameBytes = std::size_t{16} << 20U;                    // every other message
  static constexpr std::size_t kMaxTokenizerBytes = kMaxFrameBytes - (std::size_t{64} << 10U);  // all its texts
  static constexpr std::size_t kMaxTextBytes = 4096;     // names, digests, error messages
  static constexpr std::size_t kMaxWorkerIdBytes = 200;  // ZeroMQ allows 255
  static constexpr std::size_t kMaxTenantBytes = 200;
  static constexpr std::size_t kMaxAdapterBytes = 200;
  static constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 20U;
  static constexpr std::size_t kMaxPromptHashes = kMaxPromptTokens / kMinBlockTokens;
  static constexpr std::size_t kMaxStopTokens = 1024;
  static constexpr std::size_t kMaxLogitBiases = 1024;
  static constexpr std::size_t kMaxTokensPerEvent = std::size_t{1} << 16U;
  static constexpr std::size_t kMaxPromptLogprobsPerEvent = 4096;  // positions
  static constexpr std::size_t kMaxHashesPerRun = std::size_t{1} << 16U;
  // Hashes in all runs of one snapshot chunk. A router applies a chunk in one go, so this limits how long others wait.
  static constexpr std::size_t kMaxSnapshotHashes = 4096;
  static constexpr std::size_t kMaxListItems = std::size_t{1} << 16U;  // events of a step, runs of a snapshot chunk
  static constexpr int kMaxNesting = 8;

  // Limits of what a worker reports about itself. They are far above what a real engine reports.
  static constexpr double kMinStepSeconds = 1e-7;
  static constexpr double kMaxStepSeconds = 1e6;
  static constexpr double kMaxTokensPerSecond = 1e9;
  static constexpr std::uint64_t kMaxTokensOfAWorker = std::uint64_t{1} << 48U;  // queued, or in running contexts
};
static_assert(WireLimits::kMaxPromptTokens * (sizeof(TokenId) + sizeof(BlockHash) / kMinBlockTokens) <
              WireLimits::kMaxPlainFrameBytes);

[[nodiscard]] Bytes Encode(const WorkerMessage& message);
[[nodiscard]] Bytes Encode(const RouterMessage& message);

// Nothing if the message is well-formed, but of a kind that this version does not know.
[[nodiscard]] Result<std::optional<WorkerMessage>> DecodeWorkerMessage(std::span<const std::byte> frame);
[[nodiscard]] Result<std::optional<RouterMessage>> DecodeRouterMessage(std::span<const std::byte> frame);

}  // namespace roost::wire
