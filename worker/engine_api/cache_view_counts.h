// Counts why the router's view of another program's cache differs from that cache: events that did not come, and blocks
// that are left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace roost::worker {

enum class LeftOut : std::uint8_t {
  kRank,           // another data-parallel rank than the first that stored a block
  kMedium,         // host memory, disk, or another machine
  kAttention,      // layers of a kind that is not known
  kBlockTokens,    // blocks of another size than the worker has announced
  kAdapter,        // a LoRA adapter
  kForeignSalt,    // a salt that SaltOf did not write
  kExtraKeys,      // the hash covers images, embeddings, or more than a salt
  kTokens,         // the tokens do not match the blocks one by one
  kUnknownParent,  // the block before was never stored, as far as is known
  kConflict,       // the engine gave this hash before, to another block
  kUnknownEvent,   // counts events, not blocks: of a kind that is not known
};

// For metrics.
inline constexpr std::array<std::string_view, 11> kLeftOutNames{
    "rank",       "medium", "attention",      "block_tokens", "adapter",      "foreign_salt",
    "extra_keys", "tokens", "unknown_parent", "conflict",     "unknown_event"};

// Stored blocks that were left out, by reason.
using LeftOutCounts = std::array<std::uint64_t, kLeftOutNames.size()>;

[[nodiscard]] constexpr std::size_t IndexOf(LeftOut reason) { return static_cast<std::size_t>(reason); }

// The trouble that an engine's events had on their way here.
enum class EventTrouble : std::uint8_t {
  kGap,           // one was missing
  kReplayFailed,  // and was not sent again
  kRestart,       // the engine counts from 0 again
  kBadMessage,    // of a wrong form
  kOverflow,      // they tell of more blocks than the engine has
};
inline constexpr std::array<std::string_view, 5> kEventTroubleNames{"gap", "replay_failed", "restart", "bad_message",
                                                                    "overflow"};

// Totals since the start.
struct CacheViewCounts {
  std::array<std::uint64_t, kEventTroubleNames.size()> trouble{};  // by EventTrouble
  LeftOutCounts left_out{};
};

}  // namespace roost::worker
